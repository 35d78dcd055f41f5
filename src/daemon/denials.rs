//! What was denied in a session, for the closing lines of a client. A person and a model read them: what and why, and that
//! trying again is of no use; nothing of the policy.

use std::collections::BTreeMap;

use crate::common::access::Access;
use crate::common::decision::Outcome;
use crate::common::mask;
use crate::common::path::RawPath;
use crate::common::text::{self, Untrusted};

/// Different denials that are told one by one.
const MOST: usize = 64;
/// Columns of a path in a line.
const PATH: usize = 240;

/// Denials by what was denied and why, in the order of first sight.
#[derive(Clone, Debug, Default)]
pub struct Denials {
    lines: Vec<Line>,
    index: BTreeMap<Key, usize>,
    more: u64,
}

/// Access, object, the words of a command, and why.
type Key = (Access, RawPath, Vec<Vec<u8>>, u8);

#[derive(Clone, Debug)]
struct Line {
    /// What was denied, in words.
    what: String,
    outcome: Outcome,
    times: u64,
}

/// `write /etc/passwd`, `run git push --force (/usr/bin/git)`.
fn what(access: Access, object: &RawPath, command: Option<&[Untrusted]>) -> String {
    let object = text::escaped_within(object.as_bytes(), PATH);
    match command {
        Some(words) => {
            format!("run {} ({object})", text::quoted_argv_within(words.iter().map(Untrusted::as_bytes), PATH))
        }
        None => format!("{access} {object}"),
    }
}

impl Denials {
    /// Counts a decision, if it is a denial. A cancelled request is none: its process had turned away. `command` is what
    /// would have run, where that is what was denied; its secrets are masked.
    pub fn count(&mut self, access: Access, object: &RawPath, command: Option<&[Untrusted]>, outcome: Outcome) {
        let why = match outcome {
            Outcome::Denied => 0,
            Outcome::Timeout => 1,
            Outcome::NotPermitted => 2,
            Outcome::Approved | Outcome::Granted | Outcome::Allowed | Outcome::Cancelled | Outcome::Edited => return,
        };
        let words = command.unwrap_or_default().iter().map(|word| word.as_bytes().to_vec()).collect();
        let key = (access, object.clone(), words, why);
        match self.index.get(&key) {
            Some(&at) => {
                if let Some(line) = self.lines.get_mut(at) {
                    line.times = line.times.saturating_add(1);
                }
            }
            None if self.lines.len() < MOST => {
                self.index.insert(key, self.lines.len());
                let masked = command.map(mask::argv);
                self.lines.push(Line { what: what(access, object, masked.as_deref()), outcome, times: 1 });
            }
            None => self.more = self.more.saturating_add(1),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// One line each, without a newline.
    pub fn lines(&self) -> impl Iterator<Item = String> + '_ {
        let told = self.lines.iter().map(|Line { what, outcome, times }| {
            let times = if *times > 1 { format!(" ({times} times)") } else { String::new() };
            let why = match outcome {
                Outcome::Denied => "the person who was asked said no",
                Outcome::Timeout => "nobody answered in time",
                _ => "it is not permitted here",
            };
            format!("gated: denied: {what}{times}: {why}; this is final, do not retry")
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
            denials.count(Access::Write, &RawPath::from("/srv/\x1b[2Jx\nfake"), None, Outcome::Denied);
        }
        denials.count(Access::Write, &RawPath::from("/srv/a"), None, Outcome::Cancelled);
        denials.count(Access::Write, &RawPath::from("/srv/a"), None, Outcome::Approved);
        for number in 0..100 {
            denials.count(Access::Exec, &RawPath::from(format!("/{number}").as_str()), None, Outcome::NotPermitted);
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

    #[test]
    fn commands_are_told_by_their_words() {
        let mut denials = Denials::default();
        let git = RawPath::from("/usr/bin/git");
        let words = |words: &[&str]| words.iter().map(|word| Untrusted::new(word.as_bytes())).collect::<Vec<_>>();
        for _ in 0..2 {
            denials.count(Access::Exec, &git, Some(&words(&["git", "push", "my fork\n"])), Outcome::Denied);
        }
        denials.count(Access::Exec, &git, Some(&words(&["git", "push", "--token=abc"])), Outcome::NotPermitted);
        let lines: Vec<String> = denials.lines().collect();
        assert_eq!(
            lines,
            [
                "gated: denied: run git push $'my fork\\n' (/usr/bin/git) (2 times): the person who was asked said no; this is final, do not retry",
                "gated: denied: run git push '--token=***' (/usr/bin/git): it is not permitted here; this is final, do not retry",
            ]
        );
    }
}
