//! When to say what was done without a question: rarely, and much at once. Pure. How much is done, and when, is a tool's choice.
//!
//! The first thing is told after [`Pace::gather`], together with what came until then; what comes later [`Pace::rest`] after
//! the last notification. One that is still there is replaced by one that says all.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::consent::told::Told;

/// Things that are kept to be told one by one.
const KEPT: usize = 8;

#[derive(Clone, Copy, Debug)]
pub struct Pace {
    pub gather: Duration,
    pub rest: Duration,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace { gather: Duration::from_secs(2), rest: Duration::from_secs(20) }
    }
}

#[derive(Debug)]
pub struct Telling {
    pace: Pace,
    /// Since the last notification that somebody put away: the last ones, and how many in all.
    last: VecDeque<Told>,
    count: usize,
    /// When the next notification is due; `None` while there is nothing new.
    due: Option<Instant>,
    told_at: Option<Instant>,
}

impl Telling {
    pub fn new(pace: Pace) -> Telling {
        Telling { pace, last: VecDeque::new(), count: 0, due: None, told_at: None }
    }

    /// Something was done.
    pub fn add(&mut self, told: Told, now: Instant) {
        if self.last.len() >= KEPT {
            self.last.pop_front();
        }
        self.last.push_back(told);
        self.count = self.count.saturating_add(1);
        if self.due.is_none() {
            let soon = now.checked_add(self.pace.gather);
            let rested = self.told_at.and_then(|at| at.checked_add(self.pace.rest));
            self.due = soon.max(rested).or(Some(now));
        }
    }

    /// When [`Telling::take`] has something.
    pub fn due(&self) -> Option<Instant> {
        self.due
    }

    /// What is to be told now: the last things, and how many there were.
    pub fn take(&mut self, now: Instant) -> Option<(Vec<Told>, usize)> {
        self.due.filter(|due| *due <= now)?;
        (self.due, self.told_at) = (None, Some(now));
        Some((self.last.iter().cloned().collect(), self.count))
    }

    /// It cannot be told now; not before this has passed.
    pub fn later(&mut self, now: Instant) {
        self.due = now.checked_add(self.pace.rest);
    }

    /// The last notification was seen, or is gone: what was in it is not told again.
    pub fn seen(&mut self) {
        if self.due.is_none() {
            self.last.clear();
            self.count = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(number: usize) -> Told {
        let line = format!(
            r#"{{"event":"notified","program":"/bin/x","access":"write","operation":"create","object":"/{number}"}}"#
        );
        Told::of(line.as_bytes()).unwrap()
    }

    #[test]
    fn a_flood_is_one_notification_now_and_then() {
        let pace = Pace::default();
        let start = Instant::now();
        let mut telling = Telling::new(pace);
        assert_eq!(telling.due(), None);
        let mut shown = Vec::new();
        // Ten a second for a minute.
        for tenth in 0..600 {
            let now = start + Duration::from_millis(100 * tenth);
            telling.add(told(0), now);
            shown.extend(telling.take(now).map(|(last, count)| (last.len(), count)));
        }
        assert_eq!(shown, [(8, 21), (8, 221), (8, 421)]);
    }

    #[test]
    fn what_was_seen_is_not_told_again() {
        let start = Instant::now();
        let mut telling = Telling::new(Pace { gather: Duration::ZERO, rest: Duration::ZERO });
        telling.add(told(1), start);
        assert_eq!(telling.take(start), Some((vec![told(1)], 1)));
        assert_eq!(telling.take(start), None, "once");
        // Still there: the next says both.
        telling.add(told(2), start);
        assert_eq!(telling.take(start), Some((vec![told(1), told(2)], 2)));
        telling.seen();
        telling.add(told(3), start);
        // Not that of before: it is seen while something new waits.
        telling.seen();
        assert_eq!(telling.take(start), Some((vec![told(3)], 1)));
    }
}
