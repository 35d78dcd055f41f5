//! The way of a program: what execve(2) would start is found and judged, the kernel starts it, and before its first instruction
//! it is compared with what was judged.
//!
//! Runs as the user in the supervisor, on registers, memory, files and timing of a hostile process. Nothing that is read here
//! before the exec is believed to be still so when the kernel reads it: [`attach`] looks at what the kernel took.

pub mod arguments;
mod attach;
mod chain;
pub mod format;
pub mod misc;
mod program;
mod refused;
mod shown;
mod trace;

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arguments::{Attempt, words};
pub use chain::Found;
use shown::Executing;

use super::judge::{Approvals, Halt, Judge, Permit, Wanted};
use super::listener::Answer;
use super::resolve::Resolver;
use super::target::Target;
use crate::common::errno::Errno;

/// Programs that were exchanged under us this often are somebody's game, not work.
const TRIES_AT_MOST: u32 = 64;
/// The clock of file systems may be behind by this, ktime_get_coarse_real_ts64().
const CLOCK_LAGS: Duration = Duration::from_millis(10);

/// Judges what one session executes. One value, shared by all threads of all pools.
#[derive(Debug)]
pub struct Executor {
    programs: program::Programs,
    registry: misc::Registry,
    refused: refused::Refused,
    /// Seconds and nanoseconds since the epoch: what was changed later is new.
    began: (i64, i64),
    /// Whether debuggers work inside, which trace what they start.
    debugging: bool,
}

/// What would run, and when any of it was changed last.
type Version = (program::Identity, Option<program::Identity>, (i64, i64));

/// What somebody said yes to, and what it was then.
#[derive(Default)]
struct Answered {
    approvals: Approvals,
    version: Option<Version>,
}

/// What is to be done with a thread that wants to execute something.
#[derive(Debug)]
pub enum Judged {
    Answer(Answer),
    /// To be executed, and compared with this.
    Execute(Box<Found>, Permit),
    /// Nobody waits for it any more.
    Gone,
}

impl Executor {
    /// When a session begins; `procfs` is the outer `/proc`.
    pub fn new(procfs: BorrowedFd<'_>, debugging: bool) -> Executor {
        let began = SystemTime::now().checked_sub(CLOCK_LAGS);
        let began = began.and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok()).unwrap_or_default();
        let seconds = i64::try_from(began.as_secs()).unwrap_or(i64::MAX);
        Executor {
            programs: program::Programs::default(),
            registry: misc::Registry::new(procfs),
            refused: refused::Refused::default(),
            began: (seconds, i64::from(began.subsec_nanos())),
            debugging,
        }
    }

    /// Whether it may be executed, after whatever asking it takes.
    pub fn judge(&self, resolver: &Resolver, judge: &Judge, target: &Target<'_>, attempt: &Attempt) -> Judged {
        const KNOWN: u32 = (libc::AT_EMPTY_PATH | libc::AT_SYMLINK_NOFOLLOW) as u32 | AT_EXECVE_CHECK;
        if attempt.flags & !KNOWN != 0 {
            return Judged::Answer(Answer::Errno(Errno::INVAL));
        }
        let mut argv = None;
        let mut answered = Answered::default();
        for _ in 0..TRIES_AT_MOST {
            match self.once(resolver, judge, target, attempt, &mut argv, &mut answered) {
                Ok((found, permit)) => return Judged::Execute(Box::new(found), permit),
                Err(Halt::Answer(answer)) => return Judged::Answer(answer),
                Err(Halt::Gone) => return Judged::Gone,
                Err(Halt::Again) => {}
            }
        }
        Judged::Answer(Answer::Errno(Errno::ACCES))
    }

    fn once(
        &self,
        resolver: &Resolver,
        judge: &Judge,
        target: &Target<'_>,
        attempt: &Attempt,
        argv: &mut Option<arguments::Words>,
        answered: &mut Answered,
    ) -> Result<(Found, Permit), Halt> {
        // The kernel opens the file before it looks at the words, which are copied once, whatever is found in later rounds.
        let asked = self.programs.find(resolver, target, attempt.directory, attempt.path.clone(), attempt.flags)?;
        let argv = match argv {
            Some(argv) => argv,
            None => argv.insert(words(target, attempt.argv)?),
        };
        let policy = judge.policy();
        let around = chain::Around { programs: &self.programs, registry: &self.registry, resolver, target, policy };
        let found = around.chain(attempt, asked, argv.as_slice())?;
        let thread = target.notification().thread;
        if self.refused.was_just(thread, &found.command) {
            return Err(Errno::ACCES.into());
        }
        // Whoever said yes was told how new it is.
        let version = (found.runs, found.script.as_ref().map(|(_, identity)| *identity), found.changed);
        if answered.version.replace(version).is_some_and(|shown| shown != version) {
            answered.approvals = Approvals::default();
        }
        let wanted = Wanted::executing(Arc::clone(&found.command));
        let executing = Executing { target, is_new: found.changed >= self.began };
        target.confirm()?;
        let foresee = || found.is_unknown.then_some(Errno::NOEXEC);
        let permit = judge.permit(&executing, &[wanted], &mut answered.approvals, foresee);
        if matches!(permit, Err(Halt::Answer(Answer::Errno(Errno::ACCES)))) {
            self.refused.remember(thread, Arc::clone(&found.command));
        }
        Ok((found, permit?))
    }

    /// Has the kernel execute what was permitted, and compares. The thread is answered, whatever comes of it.
    pub fn carry_out(&self, judge: &Judge, target: &Target<'_>, found: &Found, permit: Permit) {
        attach::carry_out(judge, target, found, permit, self.debugging);
    }
}

/// execveat(2), Linux 6.14: only whether it could be executed.
const AT_EXECVE_CHECK: u32 = 0x10000;
