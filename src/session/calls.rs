//! The calls of a session, and which one a process belongs to.
//!
//! Runs as the user in the supervisor, on `/proc`. Each started command has a filter and so a listener of its own, which says
//! for certain whose processes are heard on it. Below an agent or an interactive shell each process tree is a call of its
//! own. An answer for "once" lasts for the call, so a process whose tree cannot be found gets a call of its own: that grants
//! less, never more.

use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{Mode, OFlags, openat};

use crate::common::id::CallId;

/// Depth of a process tree at the most; beyond it the process is its own call.
const ANCESTORS_AT_MOST: usize = 256;

/// Commands of a session that may be started and not over at a time, what they left behind included. Each has threads and
/// descriptors of the supervisor.
pub const CALLS_AT_MOST: usize = 256;

/// A process for as long as its id is not reused: id and start time in clock ticks, proc_pid_stat(5).
type Identity = (i32, u64);

/// Numbers for the calls of one session.
#[derive(Debug, Default)]
pub struct Calls {
    given: AtomicU32,
    alive: AtomicUsize,
}

/// A number that was given, and one of the [`CALLS_AT_MOST`] places.
#[derive(Debug)]
pub struct Place {
    pub id: CallId,
    calls: Arc<Calls>,
}

impl Calls {
    /// A place for one more command; `None` if all are taken.
    pub fn begin(self: &Arc<Calls>) -> Option<Place> {
        // The place is given back when it is dropped, one that was not to be had too.
        let before = self.alive.fetch_add(1, Ordering::SeqCst);
        let place = Place { id: self.number(), calls: Arc::clone(self) };
        (before < CALLS_AT_MOST).then_some(place)
    }

    fn number(&self) -> CallId {
        CallId(self.given.fetch_add(1, Ordering::Relaxed).saturating_add(1))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.calls.alive.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A started command and all that came of it.
#[derive(Debug)]
pub struct Call {
    place: Place,
    /// The process that was started, and its parent, the leader, in the supervisor's pid namespace.
    main: i32,
    leader: i32,
    by_child: bool,
    /// The process trees below [`Call::main`] that have a number.
    known: Mutex<HashMap<Identity, CallId>>,
}

impl Call {
    /// `main` is the process that was started and has not run yet; `by_child` makes each tree that it starts a call of its own.
    pub fn new(place: Place, procfs: BorrowedFd<'_>, main: i32, by_child: bool) -> Call {
        let leader = parent_and_start(procfs, main).map_or(main, |(parent, _)| parent);
        Call { place, main, leader, by_child, known: Mutex::default() }
    }

    pub fn id(&self) -> CallId {
        self.place.id
    }

    pub fn main(&self) -> i32 {
        self.main
    }

    /// The call's own number and those of the trees below it.
    pub fn ids(&self) -> Vec<CallId> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        std::iter::once(self.id()).chain(known.values().copied()).collect()
    }

    /// The number of a process that was heard on this call's listener, by its id in the supervisor's pid namespace.
    pub fn of(&self, procfs: BorrowedFd<'_>, process: i32) -> CallId {
        if !self.by_child || process == self.main {
            return self.id();
        }
        let mut top = None;
        let mut at = process;
        for _ in 0..ANCESTORS_AT_MOST {
            let Some((parent, started)) = parent_and_start(procfs, at) else { break };
            top = Some((at, started));
            if parent == self.main || parent == self.leader {
                break;
            }
            // Orphans end at the leader, or at init when that is gone; init's own parent is the supervisor.
            match parent_and_start(procfs, parent) {
                Some((grandparent, _)) if grandparent != std::process::id() as i32 => at = parent,
                _ => break,
            }
        }
        self.number(top.unwrap_or((process, 0)))
    }

    fn number(&self, identity: Identity) -> CallId {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        *known.entry(identity).or_insert_with(|| self.place.calls.number())
    }
}

fn parent_and_start(procfs: BorrowedFd<'_>, process: i32) -> Option<(i32, u64)> {
    let file = openat(procfs, format!("{process}/stat"), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let mut text = [0; 1024];
    let length = rustix::io::read(&file, &mut text).ok()?;
    parse_stat(text.get(..length)?)
}

/// Fields 4 (parent) and 22 (start time); the command's name in field 2 may hold anything, so counting starts behind it.
fn parse_stat(text: &[u8]) -> Option<(i32, u64)> {
    let behind = text.iter().rposition(|&byte| byte == b')')?;
    let rest = std::str::from_utf8(text.get(behind + 1..)?).ok()?;
    let mut fields = rest.split_whitespace();
    let parent = fields.nth(1)?.parse().ok()?;
    let started = fields.nth(17)?.parse().ok()?;
    Some((parent, started))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_command_name_does_not_shift_the_fields() {
        let text = b"12 (a) b) R 1 2 3) S 7 12 12 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 98765 1 1";
        assert_eq!(parse_stat(text), Some((7, 98765)));
    }
}
