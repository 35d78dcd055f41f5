//! Which call a process belongs to.
//!
//! Runs as the user in the supervisor, on `/proc`. An answer for "once" lasts for the call, so a process whose call cannot be
//! found gets one of its own: that grants less, never more.

use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::sync::{Mutex, PoisonError};

use rustix::fs::{Mode, OFlags, openat};

use crate::common::id::CallId;

/// Depth of a process tree at the most; beyond it the process is its own call.
const ANCESTORS_AT_MOST: usize = 256;

/// A process for as long as its id is not reused: id and start time in clock ticks, proc_pid_stat(5).
type Identity = (i32, u64);

/// The calls of one session.
pub struct Calls {
    main: i32,
    by_child: bool,
    known: Mutex<HashMap<Identity, CallId>>,
}

/// The call of the process that `gated-run` started itself.
pub const MAIN: CallId = CallId(1);

impl Calls {
    /// `main` is the process that was started; `by_child` makes each tree that it starts a call of its own.
    pub fn new(main: i32, by_child: bool) -> Calls {
        Calls { main, by_child, known: Mutex::default() }
    }

    /// The call of the process with this id, in the supervisor's pid namespace.
    pub fn of(&self, procfs: BorrowedFd<'_>, process: i32) -> CallId {
        if !self.by_child || process == self.main {
            return MAIN;
        }
        let mut top = None;
        let mut at = process;
        for _ in 0..ANCESTORS_AT_MOST {
            let Some((parent, started)) = parent_and_start(procfs, at) else { break };
            top = Some((at, started));
            if parent == self.main {
                break;
            }
            // Init, outside of every call, is where orphans end; its own parent is the supervisor.
            match parent_and_start(procfs, parent) {
                Some((grandparent, _)) if grandparent != std::process::id() as i32 => at = parent,
                _ => break,
            }
        }
        let Some(top) = top else { return self.number((process, 0)) };
        self.number(top)
    }

    fn number(&self, identity: Identity) -> CallId {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let next = CallId(u32::try_from(known.len()).unwrap_or(u32::MAX - 2).saturating_add(2));
        *known.entry(identity).or_insert(next)
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
