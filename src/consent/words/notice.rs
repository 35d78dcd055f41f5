//! What nobody is asked about, in one line. Text of a tool is in the notation of [`text`] already; what is not, is put into it.

use crate::common::notice::{Deed, Kind, Notice};
use crate::common::text;

/// In `limit` columns at the most; where there is no room, it is the object that is cut.
pub fn notice(notice: &Notice, limit: usize) -> String {
    let (head, object) = match (notice.kind, &notice.deed) {
        (Kind::Notify, Some(deed)) => (format!("{} did unasked: {}", name(deed), verb(deed)), &deed.object),
        (Kind::Muted, Some(deed)) => {
            let time = notice.time.map(|time| format!(" for {}", super::time(time))).unwrap_or_default();
            (format!("{} is denied unasked{time}: {}", name(deed), verb(deed)), &deed.object)
        }
        (Kind::Policy, _) => ("the policy is not read anew: ".to_owned(), &notice.text),
        (_, None) => (String::new(), &notice.text),
    };
    let more = match notice.count {
        0 | 1 => String::new(),
        count => format!(", and {} more", count.saturating_sub(1)),
    };
    let head = clean(&head);
    let room = limit.saturating_sub(text::columns(&head)).saturating_sub(more.len());
    text::shown_within(&format!("{head}{}{more}", text::shown_within(&clean(object), room.max(LEAST))), limit)
}

/// Columns of an object at the least.
const LEAST: usize = 12;

fn name(deed: &Deed) -> &str {
    deed.program.rsplit('/').next().unwrap_or_default()
}

/// With the space before the object.
fn verb(deed: &Deed) -> String {
    format!("{} ", super::verb(deed.access, deed.operation))
}

/// Characters that draw something else than themselves are gone.
fn clean(line: &str) -> String {
    line.chars().map(|c| if c == ' ' || text::is_showable(c) { c } else { '?' }).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::common::access::Access;
    use crate::common::id::SessionId;
    use crate::common::request::Operation;

    #[test]
    fn a_notice_is_one_line_whatever_is_in_it() {
        let deed = Deed {
            program: "/usr/bin/npm".into(),
            access: Access::Write,
            operation: Operation::Create,
            object: "/srv/a\u{202e}\x1b[2J\n".into(),
        };
        let session = SessionId("0000002a".into());
        let muted = Notice {
            time: Some(Duration::from_secs(600)),
            count: 13,
            ..Notice::of(Kind::Muted, &session, deed.clone())
        };
        assert_eq!(notice(&muted, 200), "npm is denied unasked for 10 minutes: create /srv/a??[2J?, and 12 more");
        let long = Deed { object: "x/".repeat(5000), ..deed };
        let line = notice(&Notice::of(Kind::Notify, &session, long), 80);
        assert!(text::columns(&line) <= 80 && line.starts_with("npm did unasked: create"), "{line}");
        assert_eq!(notice(&Notice::policy("a.toml:3:1: no".into()), 80), "the policy is not read anew: a.toml:3:1: no");
    }
}
