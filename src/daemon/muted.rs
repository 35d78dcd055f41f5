//! What a person turned down again and again: a tool that goes on asking is denied for a while without a question. Of one
//! session, in memory; pure, the time is given.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use super::store::Thing;

/// What [`super::pending::Settled::by`] says of what was denied by this.
pub const BY_MUTED: &str = "muted";

/// So many denials …
const DENIALS: usize = 3;
/// … within this time …
const WITHIN: Duration = Duration::from_secs(600);
/// … are one for all that comes in this time.
pub const MUTED: Duration = Duration::from_secs(600);
/// Things that are remembered at the most; of more, those that were denied last.
const MOST: usize = 1024;

/// See the module.
#[derive(Debug, Default)]
pub struct Muted {
    denied: HashMap<Thing, VecDeque<Instant>>,
    until: HashMap<Thing, Instant>,
}

impl Muted {
    /// Somebody said no. `true` if it is denied without a question from now on.
    pub fn denied(&mut self, thing: &Thing, now: Instant) -> bool {
        if self.denied.len() >= MOST && !self.denied.contains_key(thing) {
            let last = |times: &VecDeque<Instant>| times.back().copied();
            let oldest = self.denied.iter().min_by_key(|(_, times)| last(times)).map(|(thing, _)| thing.clone());
            oldest.and_then(|oldest| self.denied.remove(&oldest));
        }
        let times = self.denied.entry(thing.clone()).or_default();
        times.push_back(now);
        while times.front().is_some_and(|&at| now.saturating_duration_since(at) >= WITHIN) {
            times.pop_front();
        }
        if times.len() < DENIALS {
            return false;
        }
        self.denied.remove(thing);
        self.until.retain(|_, until| *until > now);
        if self.until.len() >= MOST {
            return false;
        }
        self.until.insert(thing.clone(), now.checked_add(MUTED).unwrap_or(now));
        true
    }

    pub fn is_muted(&self, thing: &Thing, now: Instant) -> bool {
        self.until.get(thing).is_some_and(|until| *until > now)
    }

    /// Somebody said yes to it.
    pub fn allowed(&mut self, thing: &Thing) {
        self.denied.remove(thing);
        self.until.remove(thing);
    }

    /// Somebody said yes to something that may cover more than one thing.
    pub fn end(&mut self) {
        self.denied.clear();
        self.until.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common::access::Access;

    fn thing(what: &str) -> Thing {
        Thing { access: Access::Write, what: what.to_owned(), mark: String::new() }
    }

    #[test]
    fn three_denials_within_ten_minutes_mute_for_ten() {
        let (mut muted, begin) = (Muted::default(), Instant::now());
        let at = |seconds: u64| begin + Duration::from_secs(seconds);
        assert!(!muted.denied(&thing("a"), at(0)));
        assert!(!muted.denied(&thing("a"), at(300)));
        assert!(!muted.denied(&thing("b"), at(301)));
        // The first is too long ago.
        assert!(!muted.denied(&thing("a"), at(600)));
        assert!(!muted.is_muted(&thing("a"), at(600)));
        assert!(muted.denied(&thing("a"), at(899)));
        assert!(muted.is_muted(&thing("a"), at(899)) && !muted.is_muted(&thing("b"), at(899)));
        assert!(muted.is_muted(&thing("a"), at(1498)));
        assert!(!muted.is_muted(&thing("a"), at(1499)));
    }

    #[test]
    fn a_yes_ends_it_and_what_came_before() {
        let (mut muted, now) = (Muted::default(), Instant::now());
        muted.denied(&thing("a"), now);
        muted.denied(&thing("a"), now);
        muted.allowed(&thing("a"));
        assert!(!muted.denied(&thing("a"), now));
        muted.denied(&thing("a"), now);
        assert!(muted.denied(&thing("a"), now));
        muted.allowed(&thing("a"));
        assert!(!muted.is_muted(&thing("a"), now));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let (mut muted, now) = (Muted::default(), Instant::now());
        for number in 0..3 * MOST {
            for _ in 0..3 {
                muted.denied(&thing(&number.to_string()), now);
            }
            muted.denied(&thing(&format!("once {number}")), now);
        }
        assert!(muted.until.len() <= MOST && muted.denied.len() <= MOST);
    }
}
