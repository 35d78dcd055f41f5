//! How many records the refusals of a session make: a tool that tries the same again and again must not fill the log, nor push
//! what others did out of it. Runs in the broker, on records that are escaped already; pure, the time is given.
//!
//! In each [`WINDOW`] the first few of what is alike are recorded as they come; of the rest one record says how many. What
//! comes after very many different ones is counted by access, result and rule. Nothing goes uncounted, and permissions are
//! not counted here: each of them has its record.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use super::audit::AuditRecord;

/// How long refusals are counted together.
const WINDOW: Duration = Duration::from_secs(60);
/// Refusals that are alike and have a record each.
const SINGLY: u32 = 8;
/// Different ones that are told apart, and kinds of those that are not.
const DIFFERENT: usize = 256;
const KINDS: usize = 64;

/// The refusals of a session in this window.
#[derive(Debug, Default)]
pub struct Refusals {
    ends: Option<Instant>,
    // With keys that nobody can find out, so that nobody can make two that are taken for one.
    hasher: RandomState,
    each: HashMap<u64, Counted>,
    kinds: HashMap<u64, Counted>,
}

#[derive(Debug, Default)]
struct Counted {
    singly: u32,
    /// Those since, and the last of them.
    more: u64,
    last: Option<Box<AuditRecord>>,
}

impl Refusals {
    /// Takes a refusal; what comes back is to be recorded now.
    pub fn take(&mut self, record: AuditRecord, now: Instant) -> Option<AuditRecord> {
        if self.ends.is_none() {
            self.ends = Some(now.checked_add(WINDOW).unwrap_or(now));
        }
        let AuditRecord { call, user: _, tool, access, operation, object, other, rule, result, answered_by, .. } =
            &record;
        let kind = (access, result, &rule.profile, &rule.id, answered_by);
        let same = (kind, call, &tool.program, operation, object, other, record.exec.as_ref().map(|exec| &exec.argv));
        let same = self.hasher.hash_one(same);
        let is_various = !self.each.contains_key(&same) && self.each.len() >= DIFFERENT;
        let counted = if is_various {
            let kind = self.hasher.hash_one(kind);
            let is_new = !self.kinds.contains_key(&kind);
            // More kinds than a profile has rules that matter: all in one.
            self.kinds.entry(if is_new && self.kinds.len() >= KINDS { 0 } else { kind }).or_default()
        } else {
            self.each.entry(same).or_default()
        };
        if !is_various && counted.singly < SINGLY {
            counted.singly = counted.singly.saturating_add(1);
            return Some(record);
        }
        counted.more = counted.more.saturating_add(1);
        counted.last = Some(Box::new(AuditRecord { various: is_various, ..record }));
        None
    }

    /// When [`Refusals::counted`] is to be called.
    pub fn due(&self) -> Option<Instant> {
        self.ends
    }

    /// Ends the window: the records of what was only counted in it.
    pub fn counted(&mut self) -> Vec<AuditRecord> {
        self.ends = None;
        let all = self.each.drain().chain(self.kinds.drain());
        let mut records: Vec<AuditRecord> =
            all.filter_map(|(_, counted)| Some(AuditRecord { times: Some(counted.more), ..*counted.last? })).collect();
        records.sort_by(|one, other| one.time.cmp(&other.time));
        records
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::record::{Rule, Tool};

    fn refusal(object: &str, rule: &str) -> AuditRecord {
        AuditRecord {
            time: crate::daemon::record::now(),
            session: "0".to_owned(),
            call: 1,
            request: None,
            user: "me".to_owned(),
            tool: Tool { pid: 1, program: "/bin/sh".to_owned(), argv: Vec::new(), cwd: "/".to_owned() },
            access: "write",
            operation: "create",
            object: object.to_owned(),
            other: None,
            exec: None,
            destination: None,
            service: None,
            rule: Rule { profile: "p".to_owned(), id: rule.to_owned(), file: "f".to_owned(), line: 1 },
            result: "not_permitted",
            would: None,
            edited: None,
            answered_by: String::new(),
            duration_ms: 0,
            scope: None,
            lifetime: None,
            times: None,
            various: false,
        }
    }

    #[test]
    fn what_is_refused_again_and_again_is_counted_and_every_refusal_is_in_a_record() {
        let (mut refusals, now) = (Refusals::default(), Instant::now());
        let at_once: Vec<AuditRecord> = (0..1000).filter_map(|_| refusals.take(refusal("/x", "a"), now)).collect();
        assert_eq!(at_once.len(), SINGLY as usize);
        assert_eq!(refusals.due(), Some(now + WINDOW));
        let counted = refusals.counted();
        assert_eq!(counted.iter().map(|record| record.times).collect::<Vec<_>>(), [Some(1000 - u64::from(SINGLY))]);
        assert!(!counted[0].various && counted[0].object == "/x");
        assert!(refusals.due().is_none() && refusals.counted().is_empty());
        // Another window, from its first one on.
        assert!(refusals.take(refusal("/x", "a"), now).is_some());
    }

    #[test]
    fn different_refusals_without_end_make_so_many_records_and_no_more() {
        let (mut refusals, now) = (Refusals::default(), Instant::now());
        let mut told = 0;
        for number in 0..100_000 {
            told +=
                usize::from(refusals.take(refusal(&format!("/{number}"), &format!("{}", number % 100)), now).is_some());
        }
        assert_eq!(told, DIFFERENT);
        assert!(refusals.each.len() <= DIFFERENT && refusals.kinds.len() <= KINDS + 1);
        let counted = refusals.counted();
        assert!(counted.len() <= KINDS + 1 && counted.iter().all(|record| record.various));
        let times: u64 = counted.iter().filter_map(|record| record.times).sum();
        assert_eq!(times + told as u64, 100_000);
    }

    #[test]
    fn who_else_is_refused_or_by_another_rule_has_a_record_of_its_own() {
        let (mut refusals, now) = (Refusals::default(), Instant::now());
        for _ in 0..100 {
            refusals.take(refusal("/x", "a"), now);
        }
        assert!(refusals.take(refusal("/x", "b"), now).is_some());
        assert!(refusals.take(refusal("/y", "a"), now).is_some());
        assert!(refusals.take(AuditRecord { call: 2, ..refusal("/x", "a") }, now).is_some());
        assert!(refusals.take(AuditRecord { result: "denied", ..refusal("/x", "a") }, now).is_some());
    }
}
