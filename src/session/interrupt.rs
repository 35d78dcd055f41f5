//! A held thread does not see signals: seccomp(2) `SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV` lets only fatal ones through.
//! Whoever holds a thread for long looks here and gives it back in time for its handlers.
//!
//! Runs as the user in the supervisor, on the target's `/proc` status.

use std::time::Duration;

use super::judge::Halt;
use super::listener::Answer;
use super::target::{Status, Target};
use crate::common::errno::Errno;

pub(super) const SECOND_LOOK: Duration = Duration::from_millis(5);

/// Signals that stop a process by default; bit 0 is signal 1, signal(7).
const STOPS: u64 = bit(libc::SIGTSTP) | bit(libc::SIGTTIN) | bit(libc::SIGTTOU) | bit(libc::SIGSTOP);
/// Signals that do nothing by default.
const SILENT: u64 = bit(libc::SIGCHLD) | bit(libc::SIGURG) | bit(libc::SIGWINCH) | bit(libc::SIGCONT);

const fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

/// Whether the thread may go on being held: it still waits, and no signal wants it.
pub fn look(target: &Target<'_>) -> Result<(), Halt> {
    let mut found = None;
    // A signal of the whole process is another thread's if that takes it at once; only one that stays is this thread's.
    for pause in [Duration::ZERO, SECOND_LOOK] {
        std::thread::sleep(pause);
        let status = target.status()?;
        target.confirm()?;
        found = interruption(&status);
        if !matches!(found, Some(Answer::Errno(_))) {
            break;
        }
    }
    found.map_or(Ok(()), |answer| Err(Halt::Answer(answer)))
}

/// How to end the wait of a thread with these signals, if one of them would be acted upon.
pub(super) fn interruption(status: &Status) -> Option<Answer> {
    let acted_upon = |pending: u64| {
        let awake = pending & !status.blocked & !status.ignored;
        awake & status.caught != 0 || awake & !status.caught & !SILENT != 0
    };
    // Only a thread that will surely look at the signal may get the kernel's own restart code; to any other it would be
    // an errno that no program knows.
    if acted_upon(status.pending_thread) || (acted_upon(status.pending_process) && status.threads == 1) {
        return Some(Answer::Restart);
    }
    let others_had_their_chance = status.pending_process & !STOPS;
    acted_upon(others_had_their_chance).then_some(Answer::Errno(Errno::INTR))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::target::parse_status;

    fn status(lines: &str) -> Status {
        parse_status(lines.as_bytes())
    }

    #[test]
    fn a_caught_signal_of_the_thread_restarts_by_the_kernels_rules() {
        let status = status("Threads:\t4\nSigPnd:\t2000\nSigCgt:\t2000\n");
        assert!(matches!(interruption(&status), Some(Answer::Restart)));
    }

    #[test]
    fn a_signal_that_another_thread_may_take_is_an_error_here() {
        let status = status("Threads:\t4\nShdPnd:\t2000\nSigCgt:\t2000\n");
        assert!(matches!(interruption(&status), Some(Answer::Errno(Errno::INTR))));
    }

    #[test]
    fn blocked_ignored_and_silent_signals_disturb_nobody() {
        for lines in [
            "Threads:\t1\nSigPnd:\t2000\nSigBlk:\t2000\nSigCgt:\t2000\n",
            "Threads:\t1\nSigPnd:\t2000\nSigIgn:\t2000\n",
            "Threads:\t1\nShdPnd:\t0000000000010000\n",
            "Threads:\t1\n",
        ] {
            assert!(interruption(&status(lines)).is_none(), "{lines}");
        }
    }
}
