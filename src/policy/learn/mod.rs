//! Learning: what a session did that nobody was asked about, and a profile that is proposed so that it need not ask again.
//! Pure; run by whoever reads the proposal, on records whose words are a hostile tool's.
//!
//! A proposal extends the profile that the session learned under. What a rule of that, or of the profile for coding agents,
//! keeps above `allow` is never proposed as more than `ask`; nothing is proposed that would cover a home, the root, every
//! host or every command line. [`replay`] holds what was seen against the result.

mod commands;
mod files;
mod hosts;
mod propose;
mod render;
mod replay;

use std::collections::BTreeMap;

use crate::common::access::{Access, Level};
use crate::common::decision::Outcome;
use crate::common::net::{Destination, Service};
use crate::common::path::RawPath;
use crate::common::request::Operation;

pub use propose::{Proposal, Subject, propose};
pub use render::Proposed;
pub use replay::{Replayed, replay};

use super::model::{Defaults, Profile};

/// One thing that a session did, or tried, as often as it was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observation {
    pub access: Access,
    pub operation: Operation,
    pub object: RawPath,
    /// The words of a command, its secrets masked as `***`; `None` for one whose words were cut.
    pub words: Option<Vec<Vec<u8>>>,
    pub destination: Option<Destination>,
    pub service: Option<Service>,
    /// Of the process that did it.
    pub program: RawPath,
    /// What the profile says of it.
    pub would: Level,
    /// The rule that says so; `default` for `[defaults]`.
    pub rule: String,
    pub outcome: Outcome,
}

/// Observations at the most; what is new beyond them is counted and not kept.
const MOST: usize = 100_000;

/// What was seen, each thing once.
#[derive(Clone, Debug, Default)]
pub struct Observations {
    seen: BTreeMap<Key, Seen>,
    /// Things that found no place.
    pub left_out: u64,
}

/// What sets observations apart: access, object, command, the port's transport, and whether it was done.
type Key = (Access, RawPath, Option<Vec<Vec<u8>>>, bool, bool);

#[derive(Clone, Debug)]
pub struct Seen {
    pub what: Observation,
    pub times: u64,
    /// The programs that did it, the first few.
    pub programs: Vec<RawPath>,
}

/// Programs that are named of one observation.
const PROGRAMS: usize = 4;

impl Observations {
    pub fn add(&mut self, what: Observation) {
        let is_look_up = what.operation == Operation::LookUp;
        let key = (what.access, what.object.clone(), what.words.clone(), is_look_up, what.outcome.permits());
        let full = self.seen.len() >= MOST;
        match self.seen.get_mut(&key) {
            Some(seen) => {
                seen.times = seen.times.saturating_add(1);
                if seen.programs.len() < PROGRAMS && !seen.programs.contains(&what.program) {
                    seen.programs.push(what.program);
                }
            }
            None if full => self.left_out = self.left_out.saturating_add(1),
            None => {
                let programs = vec![what.program.clone()];
                self.seen.insert(key, Seen { what, times: 1, programs });
            }
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = &Seen> {
        self.seen.values()
    }

    pub fn is_empty(&self) -> bool {
        self.seen.is_empty()
    }
}

/// What still holds while a session of this profile learns: the ceiling and what is built in, with `deny` for what would be
/// asked. Rules keep their places, so that a verdict's numbers mean the same in both.
pub fn limits(profile: &Profile) -> Profile {
    let mut limits = profile.clone();
    for rule in &mut limits.rules {
        if !rule.is_ceiling {
            rule.access.clear();
            rule.path.clear();
            rule.services.clear();
            (rule.exec, rule.network) = (None, None);
            rule.level = Level::Allow;
        } else if rule.level > Level::Notify {
            rule.level = Level::Deny;
        }
    }
    let allow = Level::Allow;
    limits.defaults = Defaults { read: allow, write: allow, exec: allow, connect: allow, bind: allow, unix: allow };
    limits.learning = false;
    limits
}
