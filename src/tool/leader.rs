//! The leader of a call: a child of init, one per call, as the user, outside the filter and the floor, not dumpable. It leads
//! the call's session (setsid(2)) so that the terminal has somebody of ours in charge, starts the command in a process group of
//! its own, passes on to it what the supervisor says before it executes, and tells when it stops or ends. If the supervisor finishes the link before, nobody wants the call
//! any more, and the leader kills all of it. It reads nothing of the tool.
//!
//! When the command has ended the leader ends too, as a shell does at the end of a login: what is left behind has no
//! controlling terminal any more, and lives on as a child of init.

use std::os::fd::{AsFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::signal::{SigHandler, SigSet, Signal, kill, killpg, signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::{ForkResult, Pid, fork, setpgid, setsid, tcgetpgrp, tcsetpgrp};
use rustix::event::{PollFd, PollFlags, poll};

use super::command::{self, Cage, Given, Links};
use super::descriptors::close_all_but;
use super::ending::kill_descendants;
use super::link::{self, Link};
use super::messages::{CallOrder, FromCall, ToCall};
use crate::common::wire::Ended;

/// What an order brings besides its text.
pub struct CallFds {
    pub link: OwnedFd,
    pub stdio: [OwnedFd; 3],
    /// As many as [`CallOrder::passed`].
    pub passed: Vec<OwnedFd>,
    pub terminal: Option<OwnedFd>,
}

impl CallFds {
    /// In the order that [`CallOrder`] says.
    pub fn from(fds: Vec<OwnedFd>, passed: usize) -> Option<CallFds> {
        let mut fds = fds.into_iter();
        let link = fds.next()?;
        let stdio = [fds.next()?, fds.next()?, fds.next()?];
        let passed: Vec<OwnedFd> = (0..passed).map(|_| fds.next()).collect::<Option<_>>()?;
        Some(CallFds { link, stdio, passed, terminal: fds.next() })
    }
}

/// The whole life of a leader.
pub fn run_and_exit(cage: &Cage, order: &CallOrder, fds: Vec<OwnedFd>) -> ! {
    let status = match CallFds::from(fds, order.passed.len()) {
        Some(fds) => lead(cage, order, fds),
        None => 1,
    };
    // Nothing of init's must be unwound or flushed here.
    // SAFETY: _exit(2) has no precondition.
    unsafe { libc::_exit(status) }
}

fn lead(cage: &Cage, order: &CallOrder, fds: CallFds) -> i32 {
    let kept = [&fds.link].into_iter().chain(&fds.stdio).chain(&fds.passed).chain(&fds.terminal);
    let kept: Vec<_> = kept.map(AsFd::as_fd).chain([cage.floor.as_fd()]).collect();
    let closed = close_all_but(&kept);
    let CallFds { link, stdio, passed, terminal } = fds;
    let link = Link::new(link);
    let led = closed.map_err(|error| format!("cannot close what is not the call's: {error}")).and_then(|()| {
        let started = start(cage, order, &link, Given { stdio, passed, terminal: terminal.as_ref() })
            .map_err(|error| format!("cannot start a call: {error}"))?;
        attend(&link, &started, terminal.as_ref()).map_err(|error| format!("cannot wait for a call: {error}"))
    });
    if let Err(text) = &led {
        let _ = link.send(&FromCall::Failed(text.clone()), &[]);
    }
    if led == Ok(Outcome::Ended) {
        return 0;
    }
    match kill_descendants() {
        Ok(()) => {
            // A supervisor that is gone kills init.
            let _ = link.send(&FromCall::Killed, &[]);
        }
        // Rather too much than too little: everything of the session but init. Without the last word the supervisor ends that too.
        Err(_) => drop(kill(Pid::from_raw(-1), Signal::SIGKILL)),
    }
    1
}

/// Why a leader has nothing left to attend to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// The command has, and the supervisor knows.
    Ended,
    /// Nobody wants the call any more.
    Unwanted,
}

/// The command's child, and after its execve(2) the command.
struct Started {
    command: Pid,
    /// Heard by the child until it executes.
    child: Link<ToCall, FromCall>,
}

/// Become a session leader on the call's terminal and fork the command's child.
fn start(cage: &Cage, order: &CallOrder, link: &Link<FromCall, ToCall>, given: Given<'_>) -> std::io::Result<Started> {
    setsid()?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    if let Some(terminal) = given.terminal {
        rustix::process::ioctl_tiocsctty(terminal)?;
    }
    // A background process that hands over the terminal gets SIGTTOU otherwise (tcsetpgrp(3)).
    // SAFETY: SIG_IGN runs no code.
    unsafe { signal(Signal::SIGTTOU, SigHandler::SigIgn) }?;
    // From the terminal when the caller is gone, whose call is then to be killed.
    // SAFETY: as above.
    unsafe { signal(Signal::SIGHUP, SigHandler::SigIgn) }?;
    // SIGCHLD is waited for with a descriptor; init has it blocked already.
    let (ours, theirs) = link::pair()?;
    // SAFETY: the leader has one thread, so the child may do anything that it may.
    match unsafe { fork() }? {
        ForkResult::Child => {
            drop(ours);
            let leader = Link::new(theirs);
            command::run_and_exit(cage, order, &Links { supervisor: link, leader: &leader }, given)
        }
        ForkResult::Parent { child } => {
            drop(theirs);
            // The child does the same: whoever comes first.
            match setpgid(child, child) {
                Ok(()) | Err(Errno::EACCES | Errno::ESRCH) => {}
                Err(errno) => return Err(errno.into()),
            }
            Ok(Started { command: child, child: Link::new(ours) })
        }
    }
}

/// Report on the command and pass signals and words to it, until it ends or the supervisor is gone.
fn attend(link: &Link<FromCall, ToCall>, started: &Started, terminal: Option<&OwnedFd>) -> std::io::Result<Outcome> {
    let command = started.command;
    let mut children = SigSet::empty();
    children.add(Signal::SIGCHLD);
    let changed = SignalFd::with_flags(&children, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
    loop {
        while let Some(report) = report_of(command)? {
            let is_last = matches!(report, FromCall::Ended(_));
            if link.send(&report, &[]).is_err() {
                return Ok(Outcome::Unwanted);
            }
            if is_last {
                return Ok(Outcome::Ended);
            }
        }
        let mut polled = [PollFd::new(link, PollFlags::IN), PollFd::new(&changed, PollFlags::IN)];
        match poll(&mut polled, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let [order, child] = polled.map(|one| !one.revents().is_empty());
        if child {
            while let Ok(Some(_)) = changed.read_signal() {}
        }
        if order {
            match link.receive().map(|received| received.map(|received| received.message)) {
                // A child that has gone needs no word; its end is seen.
                Ok(Some(word @ (ToCall::Go | ToCall::Instead(_)))) => drop(started.child.send(&word, &[])),
                Ok(Some(ToCall::Signal(number))) => pass_signal(number, command, terminal),
                Ok(Some(ToCall::Continue)) => continue_command(command, terminal),
                Ok(None) | Err(_) => return Ok(Outcome::Unwanted),
            }
        }
    }
}

/// What has become of the command, if anything has. Takes in orphans that have ended.
fn report_of(command: Pid) -> rustix::io::Result<Option<FromCall>> {
    use rustix::process::{WaitOptions, wait};
    loop {
        let (pid, status) = match wait(WaitOptions::NOHANG | WaitOptions::UNTRACED) {
            Ok(Some(changed)) => changed,
            Ok(None) => return Ok(None),
            Err(rustix::io::Errno::INTR) => continue,
            Err(errno) => return Err(errno),
        };
        let ended = status.exit_status().map(Ended::Exited).or(status.terminating_signal().map(Ended::Signaled));
        let report = ended.map(FromCall::Ended).or(status.stopping_signal().map(FromCall::Stopped));
        if pid.as_raw_nonzero().get() == command.as_raw() && report.is_some() {
            return Ok(report);
        }
    }
}

/// To the terminal's foreground group, where there is a terminal; the command's own otherwise. A group that is gone already
/// needs no signal.
fn pass_signal(number: i32, command: Pid, terminal: Option<&OwnedFd>) {
    let own = nix::unistd::getpgrp();
    let group =
        terminal.and_then(|terminal| tcgetpgrp(terminal).ok()).filter(|group| group.as_raw() > 0 && *group != own);
    if let Ok(signal) = Signal::try_from(number) {
        let _ = killpg(group.unwrap_or(command), signal);
    }
}

/// Give the command the terminal and let it run on; one that is gone needs neither.
fn continue_command(command: Pid, terminal: Option<&OwnedFd>) {
    if let Some(terminal) = terminal {
        let _ = tcsetpgrp(terminal, command);
    }
    let _ = killpg(command, Signal::SIGCONT);
}
