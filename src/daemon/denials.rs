//! What was denied in a session, for the closing lines of a client. A person and a model read them: what and why, and that
//! trying again is of no use; nothing of the policy.

use std::collections::BTreeMap;

use crate::common::access::Access;
use crate::common::decision::Outcome;
use crate::common::path::RawPath;
use crate::common::text;

/// Different denials that are told one by one.
const MOST: usize = 64;
/// Columns of a path in a line.
const PATH: usize = 240;

/// Denials by what was denied and why, in the order of first sight.
#[derive(Clone, Debug, Default)]
pub struct Denials {
    lines: Vec<(Access, RawPath, Outcome, u64)>,
    index: BTreeMap<(Access, RawPath, u8), usize>,
    more: u64,
}

impl Denials {
    /// Counts a decision, if it is a denial. A cancelled request is none: its process had turned away.
    pub fn count(&mut self, access: Access, object: &RawPath, outcome: Outcome) {
        let why = match outcome {
            Outcome::Denied => 0,
            Outcome::Timeout => 1,
            Outcome::NotPermitted => 2,
            Outcome::Approved | Outcome::Granted | Outcome::Allowed | Outcome::Cancelled | Outcome::Edited => return,
        };
        let key = (access, object.clone(), why);
        match self.index.get(&key) {
            Some(&at) => {
                if let Some((_, _, _, times)) = self.lines.get_mut(at) {
                    *times = times.saturating_add(1);
                }
            }
            None if self.lines.len() < MOST => {
                self.index.insert(key, self.lines.len());
                self.lines.push((access, object.clone(), outcome, 1));
            }
            None => self.more = self.more.saturating_add(1),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// One line each, without a newline.
    pub fn lines(&self) -> impl Iterator<Item = String> + '_ {
        let told = self.lines.iter().map(|(access, object, outcome, times)| {
            let object = text::escaped_within(object.as_bytes(), PATH);
            let times = if *times > 1 { format!(" ({times} times)") } else { String::new() };
            let why = match outcome {
                Outcome::Denied => "the person who was asked said no",
                Outcome::Timeout => "nobody answered in time",
                _ => "it is not permitted here",
            };
            format!("gated: denied: {access} {object}{times}: {why}; this is final, do not retry")
        });
        told.chain((self.more > 0).then(|| format!("gated: denied: {} more; all final, do not retry", self.more)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn denials_are_joined_escaped_and_bounded() {
        let mut denials = Denials::default();
        for _ in 0..3 {
            denials.count(Access::Write, &RawPath::from("/srv/\x1b[2Jx\nfake"), Outcome::Denied);
        }
        denials.count(Access::Write, &RawPath::from("/srv/a"), Outcome::Cancelled);
        denials.count(Access::Write, &RawPath::from("/srv/a"), Outcome::Approved);
        for number in 0..100 {
            denials.count(Access::Exec, &RawPath::from(format!("/{number}").as_str()), Outcome::NotPermitted);
        }
        let lines: Vec<String> = denials.lines().collect();
        assert_eq!(
            lines[0],
            "gated: denied: write /srv/\\x1b[2Jx\\nfake (3 times): the person who was asked said no; this is final, do not retry"
        );
        assert_eq!(lines[1], "gated: denied: exec /0: it is not permitted here; this is final, do not retry");
        assert_eq!(lines.len(), MOST + 1);
        assert_eq!(lines[MOST], "gated: denied: 37 more; all final, do not retry");
    }
}
