//! What the session's resolver answered: name to address, until when. A connection is judged by these names.
//!
//! Runs as the user in the supervisor. The names are those that were judged and asked for; the addresses are what DNS said,
//! which whoever owns a name chooses.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use crate::common::net::{HostName, Knowledge, Named, canonical};

/// How long after its time to live an address still has its name: a program that has just looked up may take a while to connect.
pub const GRACE: Duration = Duration::from_secs(60);

/// A time to live is taken for no longer than this (RFC 8767, 4).
pub const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);

/// Pairs of name and address; of more than these the oldest are forgotten.
const PAIRS_AT_MOST: usize = 8192;

/// Names of one address; of more the oldest are forgotten. A verdict looks at each.
const NAMES_OF_ONE: usize = 64;

/// One answer about one address.
#[derive(Clone, Debug)]
struct Entry {
    name: HostName,
    until: Instant,
    /// Which answer it was; later ones have higher numbers.
    number: u64,
}

/// Names by address, of one session.
#[derive(Debug, Default)]
pub struct Memory {
    by_address: HashMap<IpAddr, Vec<Entry>>,
    /// In the order in which they were learned. A pair that was learned again stands here twice; its older number means nothing.
    order: VecDeque<(IpAddr, u64)>,
    pairs: usize,
    number: u64,
}

impl Memory {
    /// The resolver is about to say that this name has these addresses.
    pub fn learn(&mut self, name: &HostName, addresses: impl Iterator<Item = (IpAddr, Duration)>, now: Instant) {
        for (address, lifetime) in addresses {
            let address = canonical(address);
            let until = now.checked_add(lifetime.min(LONGEST)).and_then(|until| until.checked_add(GRACE));
            self.number = self.number.wrapping_add(1);
            let entry = Entry { name: name.clone(), until: until.unwrap_or(now), number: self.number };
            let known = self.by_address.entry(address).or_default();
            match known.iter_mut().find(|old| old.name == *name) {
                Some(old) => {
                    // Another answer does not shorten what a program was told before.
                    let until = old.until.max(entry.until);
                    *old = Entry { until, ..entry };
                }
                None => {
                    let oldest = known.iter().enumerate().min_by_key(|(_, entry)| entry.number).map(|(at, _)| at);
                    match oldest.filter(|_| known.len() >= NAMES_OF_ONE).and_then(|at| known.get_mut(at)) {
                        Some(oldest) => *oldest = entry,
                        None => {
                            known.push(entry);
                            self.pairs = self.pairs.saturating_add(1);
                        }
                    }
                }
            }
            self.order.push_back((address, self.number));
            self.make_room();
        }
    }

    fn make_room(&mut self) {
        while self.pairs > PAIRS_AT_MOST || self.order.len() > 2 * PAIRS_AT_MOST {
            let Some((address, number)) = self.order.pop_front() else { return };
            let Some(known) = self.by_address.get_mut(&address) else { continue };
            let before = known.len();
            known.retain(|entry| entry.number != number);
            self.pairs = self.pairs.saturating_sub(before.saturating_sub(known.len()));
            if known.is_empty() {
                self.by_address.remove(&address);
            }
        }
    }

    /// The names that lead to an address now, the latest first.
    pub fn names_of(&self, address: IpAddr, now: Instant) -> Vec<Named> {
        self.sorted(address, |entry| entry.until > now)
            .into_iter()
            .map(|name| Named { name, by: Knowledge::Resolved })
            .collect()
    }

    /// A name that has led to an address and does not any more, the latest.
    pub fn former_name_of(&self, address: IpAddr, now: Instant) -> Option<HostName> {
        self.sorted(address, |entry| entry.until <= now).into_iter().next()
    }

    fn sorted(&self, address: IpAddr, counts: impl Fn(&Entry) -> bool) -> Vec<HostName> {
        let known = self.by_address.get(&canonical(address)).map(Vec::as_slice).unwrap_or_default();
        let mut found: Vec<&Entry> = known.iter().filter(|entry| counts(entry)).collect();
        found.sort_by_key(|entry| std::cmp::Reverse(entry.number));
        found.into_iter().map(|entry| entry.name.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> HostName {
        text.parse().unwrap()
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn names(memory: &Memory, of: &str, now: Instant) -> Vec<String> {
        memory.names_of(address(of), now).into_iter().map(|named| named.name.to_string()).collect()
    }

    #[test]
    fn a_name_leads_to_its_address_for_its_time_to_live_and_a_grace() {
        let mut memory = Memory::default();
        let now = Instant::now();
        memory.learn(&name("a.example"), [(address("192.0.2.1"), Duration::from_secs(5))].into_iter(), now);
        let at = |seconds| now + Duration::from_secs(seconds);
        assert_eq!(names(&memory, "192.0.2.1", at(64)), ["a.example"]);
        assert_eq!(names(&memory, "::ffff:192.0.2.1", at(64)), ["a.example"]);
        assert!(names(&memory, "192.0.2.1", at(65)).is_empty());
        assert_eq!(memory.former_name_of(address("192.0.2.1"), at(65)), Some(name("a.example")));
        assert!(names(&memory, "192.0.2.2", now).is_empty());
    }

    #[test]
    fn the_latest_name_of_an_address_comes_first_and_a_shorter_answer_takes_nothing_away() {
        let mut memory = Memory::default();
        let now = Instant::now();
        let mut learn = |who: &str, seconds| {
            memory.learn(&name(who), [(address("192.0.2.1"), Duration::from_secs(seconds))].into_iter(), now);
        };
        learn("a.example", 1000);
        learn("b.example", 0);
        learn("a.example", 1);
        assert_eq!(names(&memory, "192.0.2.1", now), ["a.example", "b.example"]);
        assert_eq!(names(&memory, "192.0.2.1", now + Duration::from_secs(900)), ["a.example"]);
    }

    #[test]
    fn the_oldest_are_forgotten_when_there_are_too_many() {
        let mut memory = Memory::default();
        let now = Instant::now();
        for number in 0..(PAIRS_AT_MOST as u32 + 100) {
            let own = IpAddr::from(std::net::Ipv4Addr::from(0x0b00_0000 + number));
            memory.learn(&name("a.example"), [(own, Duration::from_secs(60))].into_iter(), now);
        }
        assert!(names(&memory, "11.0.0.0", now).is_empty());
        assert_eq!(names(&memory, "11.0.0.100", now), ["a.example"]);
        assert_eq!(memory.by_address.len(), PAIRS_AT_MOST);
        for _ in 0..4 * PAIRS_AT_MOST {
            memory.learn(&name("b.example"), [(address("192.0.2.1"), Duration::from_secs(60))].into_iter(), now);
        }
        assert!(memory.order.len() <= 2 * PAIRS_AT_MOST);
        assert_eq!(names(&memory, "192.0.2.1", now), ["b.example"]);
    }
}
