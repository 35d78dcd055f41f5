//! What of this process a call takes over: its directory, standard files, umask, ignored signals and terminal. Runs as whoever
//! called; nothing here decides anything.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;

use rustix::fs::{CWD, Mode, OFlags, openat};

use super::client::CallerLink;
use super::terminal::{CallersTerminal, standard_terminals};
use crate::common::path::RawPath;
use crate::common::wire::{MAX_PASSED, Start};
use crate::tool::descriptors::duplicate_inherited;
use crate::tool::link::{self, Link};

/// This process cannot be looked at.
#[derive(Debug, thiserror::Error)]
pub enum OrderError {
    #[error("the current directory cannot be found: {0}")]
    NoDirectory(io::Error),
    #[error("--pass-fd {0}: {1}")]
    NotOpen(RawFd, io::Error),
    #[error("--pass-fd can be given {MAX_PASSED} times at the most")]
    TooMany,
    #[error("cannot {what}: {source}")]
    Step { what: &'static str, source: io::Error },
}

fn step(what: &'static str) -> impl FnOnce(io::Error) -> OrderError {
    move |source| OrderError::Step { what, source }
}

/// The directory that the caller stands in.
#[derive(Debug)]
pub struct Directory {
    pub path: RawPath,
    /// `O_PATH`.
    fd: OwnedFd,
}

impl Directory {
    pub fn current() -> Result<Directory, OrderError> {
        let path = std::env::current_dir().map_err(OrderError::NoDirectory)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = openat(CWD, ".", flags, Mode::empty()).map_err(|errno| OrderError::NoDirectory(errno.into()))?;
        Ok(Directory { path: RawPath::from(path), fd })
    }
}

/// What of this process a session takes over, besides the command and the policy.
#[derive(Clone, Copy, Debug)]
struct Inheritance {
    umask: u32,
    /// Bit 0 is signal 1.
    ignored_signals: u64,
}

impl Inheritance {
    /// From proc_pid_status(5).
    fn of_this_process() -> Result<Inheritance, OrderError> {
        let status = fs::read_to_string("/proc/self/status").map_err(step("read /proc/self/status"))?;
        let field = |name: &str, radix| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            u64::from_str_radix(line.trim(), radix).ok()
        };
        let missing = || step("understand /proc/self/status")(io::ErrorKind::InvalidData.into());
        let umask = field("Umask:", 8).and_then(|mask| u32::try_from(mask).ok()).ok_or_else(missing)?;
        let ignored = field("SigIgn:", 16).ok_or_else(missing)?;
        // SIGPIPE is ignored by Rust's runtime, which does not tell what the caller had.
        let sigpipe = 1 << (libc::SIGPIPE - 1);
        Ok(Inheritance { umask, ignored_signals: ignored & !sigpipe })
    }
}

/// What the parent process left open for the command.
#[derive(Debug, Default)]
pub struct Passed {
    /// Ascending.
    numbers: Vec<RawFd>,
    files: Vec<OwnedFd>,
}

impl Passed {
    /// To be called before this process opens a file of its own, whose number that could be.
    pub fn take(numbers: &[RawFd]) -> Result<Passed, OrderError> {
        let numbers: Vec<RawFd> = numbers.iter().copied().collect::<BTreeSet<_>>().into_iter().collect();
        if numbers.len() > MAX_PASSED {
            return Err(OrderError::TooMany);
        }
        let take = |number: &RawFd| duplicate_inherited(*number).map_err(|error| OrderError::NotOpen(*number, error));
        let files = numbers.iter().map(take).collect::<Result<_, _>>()?;
        Ok(Passed { numbers, files })
    }
}

/// A command to start, with all that goes with it to a supervisor but the caller link.
pub struct Order {
    pub start: Start,
    /// The terminal behind standard files of this process.
    pub terminal: Option<CallersTerminal>,
    directory: OwnedFd,
    passed: Vec<OwnedFd>,
    /// In the place of a terminal, which never enters the session.
    stand_in: OwnedFd,
}

impl Order {
    /// To be called before this process's signal handlers are installed.
    pub fn new(
        command: &[Vec<u8>],
        environment: Vec<Vec<u8>>,
        directory: &Directory,
        passed: Passed,
    ) -> Result<Order, OrderError> {
        let inherited = Inheritance::of_this_process()?;
        let terminal = CallersTerminal::find().map_err(step("open the terminal again"))?;
        let stand_in = fs::File::options().read(true).write(true).open("/dev/null").map_err(step("open /dev/null"))?;
        let start = Start {
            command: command.to_vec(),
            environment,
            cwd: directory.path.clone(),
            umask: inherited.umask,
            ignored_signals: inherited.ignored_signals,
            on_terminal: standard_terminals(),
            window: terminal.as_ref().and_then(CallersTerminal::window),
            passed: passed.numbers,
        };
        let directory = directory.fd.try_clone().map_err(step("duplicate a descriptor"))?;
        Ok(Order { start, terminal, directory, passed: passed.files, stand_in: stand_in.into() })
    }

    /// Those of [`Start::passed`].
    pub fn passed(&self) -> Vec<BorrowedFd<'_>> {
        self.passed.iter().map(AsFd::as_fd).collect()
    }

    /// The cwd, stdin, stdout and stderr, in the order of [`Start`].
    pub fn files(&self) -> [BorrowedFd<'_>; 4] {
        let [stdin, stdout, stderr] = self.start.on_terminal;
        let standard = |is_terminal: bool, fd| if is_terminal { self.stand_in.as_fd() } else { fd };
        [
            self.directory.as_fd(),
            standard(stdin, rustix::stdio::stdin()),
            standard(stdout, rustix::stdio::stdout()),
            standard(stderr, rustix::stdio::stderr()),
        ]
    }
}

/// A caller link: our end, and the one that goes with a [`Start`].
pub fn caller_link() -> Result<(Arc<CallerLink>, OwnedFd), OrderError> {
    let (ours, theirs) = link::pair().map_err(step("make a socket"))?;
    Ok((Arc::new(Link::new(ours)), theirs))
}
