//! A notice as the `kind` and `details` of `org.gated.Gated1.Agent.Notice`. Pure data; see the module above.

use std::time::Duration;

use zbus::{DeserializeDict, OwnedVariant, SerializeDict, Type, Variant};

use super::{DetailsError, MAX_TEXT, microseconds, session_id, text, without_nul, word};
use crate::common::notice::{Deed, Notice};

/// The `a{sv}` of a notice. Keys that are not known here are passed over.
#[derive(Clone, Debug, Default, PartialEq, Eq, SerializeDict, DeserializeDict, Type, Variant, OwnedVariant)]
#[zbus(signature = "a{sv}", rename_all = "kebab-case")]
pub struct NoticeDetails {
    pub session: Option<String>,
    /// This and the next three are there together, or none of them.
    pub program: Option<String>,
    pub access: Option<String>,
    pub operation: Option<String>,
    pub object: Option<String>,
    pub count: Option<u32>,
    /// Microseconds.
    pub time: Option<u64>,
    pub text: Option<String>,
}

impl NoticeDetails {
    pub fn of(notice: &Notice) -> NoticeDetails {
        let deed = notice.deed.as_ref();
        NoticeDetails {
            session: notice.session.as_ref().map(|session| session.0.clone()),
            program: deed.map(|deed| without_nul(&deed.program)),
            access: deed.map(|deed| deed.access.as_str().to_owned()),
            operation: deed.map(|deed| deed.operation.as_str().to_owned()),
            object: deed.map(|deed| without_nul(&deed.object)),
            count: Some(notice.count),
            time: notice.time.map(microseconds),
            text: (!notice.text.is_empty()).then(|| without_nul(&notice.text).chars().take(MAX_TEXT / 4).collect()),
        }
    }

    /// The notice, if every value is one that a daemon of ours can have sent.
    pub fn notice(self, kind: &str) -> Result<Notice, DetailsError> {
        let deed = match (self.program, self.access, self.operation, self.object) {
            (None, None, None, None) => None,
            (Some(program), Some(access), Some(operation), Some(object)) => Some(Deed {
                program: text("program", program)?,
                access: word("access", &access)?,
                operation: word("operation", &operation)?,
                object: text("object", object)?,
            }),
            _ => return Err(DetailsError::Missing("program, access, operation or object")),
        };
        Ok(Notice {
            kind: word("kind", kind)?,
            session: self.session.as_deref().map(session_id).transpose()?,
            deed,
            count: self.count.unwrap_or(1).max(1),
            time: self.time.map(Duration::from_micros),
            text: self.text.map(|own| text("text", own)).transpose()?.unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common::access::Access;
    use crate::common::id::SessionId;
    use crate::common::notice::Kind;
    use crate::common::request::Operation;

    #[test]
    fn notices_survive_the_bus_and_halves_of_one_are_none() {
        let deed = Deed {
            program: "/usr/bin/npm\\x1b".into(),
            access: Access::Write,
            operation: Operation::Create,
            object: "/srv/a".into(),
        };
        let muted = Notice {
            time: Some(Duration::from_secs(600)),
            count: 13,
            ..Notice::of(Kind::Muted, &SessionId("0000002a".into()), deed)
        };
        for notice in [muted.clone(), Notice::policy("a.toml:3:1: no".into())] {
            assert_eq!(NoticeDetails::of(&notice).notice(notice.kind.as_str()), Ok(notice));
        }
        let half = NoticeDetails { object: None, ..NoticeDetails::of(&muted) };
        assert!(half.notice("muted").is_err());
        assert_eq!(NoticeDetails::of(&muted).notice("loud"), Err(DetailsError::Word("kind")));
    }
}
