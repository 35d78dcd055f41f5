//! How much is said, to the person and to the log. Pure: times go in. How many requests come, and how many replies, is
//! somebody else's choice.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use super::replies::Ignored;
use crate::common::id::SessionId;

const MINUTE: Duration = Duration::from_secs(60);
/// Messages of any minute; of these one session takes so many at the most, so that none locks the others out.
pub const MOST: usize = 20;
pub const MOST_OF_A_SESSION: usize = 15;

/// The messages of the last minute.
#[derive(Debug, Default)]
pub struct Pace(VecDeque<(Instant, SessionId)>);

impl Pace {
    /// Takes a place for a message now, or says when to ask again.
    pub fn place(&mut self, session: &SessionId, now: Instant) -> Result<(), Instant> {
        while self.0.front().is_some_and(|(sent, _)| now.saturating_duration_since(*sent) >= MINUTE) {
            self.0.pop_front();
        }
        let of_session = self.0.iter().filter(|(_, other)| other == session).count();
        if self.0.len() < MOST && of_session < MOST_OF_A_SESSION {
            self.0.push_back((now, session.clone()));
            return Ok(());
        }
        let first = self.0.iter().find(|(_, other)| of_session < MOST_OF_A_SESSION || other == session);
        Err(first.and_then(|(sent, _)| sent.checked_add(MINUTE)).unwrap_or(now))
    }
}

/// What was complained of in the last minute, each thing once.
#[derive(Debug, Default)]
pub struct Complaints(HashMap<Ignored, (Instant, u64)>);

impl Complaints {
    /// How often it was since it was last said, if it is to be said now.
    pub fn add(&mut self, what: Ignored, now: Instant) -> Option<u64> {
        let (said, times) = self.0.entry(what).or_insert((now, 0));
        *times = times.saturating_add(1);
        let is_first = *times == 1 && *said == now;
        (is_first || now.saturating_duration_since(*said) >= MINUTE).then(|| {
            *said = now;
            std::mem::take(times)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_session_leaves_room_for_the_others() {
        let mut pace = Pace::default();
        let (loud, quiet) = (SessionId("0000000a".into()), SessionId("0000000b".into()));
        let begin = Instant::now();
        for _ in 0..MOST_OF_A_SESSION {
            assert_eq!(pace.place(&loud, begin), Ok(()));
        }
        assert_eq!(pace.place(&loud, begin), Err(begin + MINUTE));
        for _ in MOST_OF_A_SESSION..MOST {
            assert_eq!(pace.place(&quiet, begin), Ok(()));
        }
        assert_eq!(pace.place(&quiet, begin), Err(begin + MINUTE));
        assert_eq!(pace.place(&loud, begin + MINUTE), Ok(()));
    }

    #[test]
    fn a_flood_of_equal_replies_is_a_line_a_minute() {
        let mut complaints = Complaints::default();
        let begin = Instant::now();
        let later = |seconds| begin + Duration::from_secs(seconds);
        assert_eq!(complaints.add(Ignored::Unsigned, begin), Some(1));
        assert!((1..1000).all(|at| complaints.add(Ignored::Unsigned, begin + Duration::from_millis(at)).is_none()));
        assert_eq!(complaints.add(Ignored::Late, later(2)), Some(1));
        assert_eq!(complaints.add(Ignored::Unsigned, later(61)), Some(1000));
    }
}
