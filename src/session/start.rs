//! From a [`Start`] to a command that is about to be executed. Runs as the user in the supervisor, a thread for each call. What
//! is to be started comes from a person's client or from a tool inside; either may say and send what it likes.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{FileType, fstat};

use super::agents::has_calls_by_child;
use super::calls::{Call, Opening, Place};
use super::life::{CallerLink, Session};
use super::pool::{NoThread, Pool};
use super::procthread::shown;
use crate::common::id::CallId;
use crate::common::path::RawPath;
use crate::common::wire::{RunningCall, Start, ToCaller};
use crate::policy::Profile;
use crate::tool::busproxy::{self, Names};
use crate::tool::descriptors::{sends_anywhere, unfit_for_stdio, unfit_to_pass};
use crate::tool::link::{self, Link, LinkError};
use crate::tool::messages::{CallOrder, FromCall, ToCall, ToInit};

/// The supervisor's link to a call: its leader, and before the command's execve(2) the command's child.
pub type CallLink = Link<ToCall, FromCall>;

/// The environment variable that names the session.
pub const SESSION_VARIABLE: &[u8] = b"GATED_SESSION";

/// Cwd, stdin, stdout and stderr.
pub type CallersFiles = [OwnedFd; 4];

/// What is to be started, and for whom.
pub struct Order {
    pub start: Start,
    pub files: CallersFiles,
    /// As many as [`Start::passed`].
    pub passed: Vec<OwnedFd>,
    /// The call that it was asked for from inside of, if its leader still is there.
    pub parent: Option<CallId>,
    pub is_from_inside: bool,
}

/// The command is not started; told to the caller.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("{stream} is {what}; the tool could leave the session through it")]
    Stdio { stream: &'static str, what: &'static str },
    #[error("descriptor {number} is {what}; the tool could leave the session through it")]
    Passed { number: i32, what: &'static str },
    #[error("what came for the current directory is none")]
    NoDirectory,
    #[error("the caller is gone")]
    NoCaller,
    #[error("cannot {step}: {source}")]
    Step { step: &'static str, source: io::Error },
    #[error("the session's init: {0}")]
    Init(LinkError),
    #[error("init cannot start a process")]
    NoProcess,
    #[error("the call's leader: {0}")]
    Leader(LinkError),
    #[error("{0}")]
    Call(String),
    #[error(transparent)]
    Thread(#[from] NoThread),
}

fn step<E: Into<io::Error>>(step: &'static str) -> impl FnOnce(E) -> StartError {
    move |source| StartError::Step { step, source: source.into() }
}

/// A call that was told to go.
pub struct Started {
    pub link: Arc<CallLink>,
    pub opening: Arc<Opening>,
    /// As the caller asked for it.
    pub start: Start,
}

/// Starts a call: when this returns its command has been told to go.
pub fn start(session: &Session, place: Place, order: Order, caller: &CallerLink) -> Result<Started, StartError> {
    let Order { start, files, passed, parent, is_from_inside } = order;
    let [cwd, stdio @ ..] = files;
    for (fd, stream) in stdio.iter().zip(["stdin", "stdout", "stderr"]) {
        let judges_sockets = session.performer().unix().is_some();
        if let Some(what) = unfit_for_stdio(fd).or_else(|| sends_anywhere(fd).filter(|_| judges_sockets)) {
            return Err(StartError::Stdio { stream, what });
        }
    }
    for (fd, number) in passed.iter().zip(&start.passed) {
        if let Some(what) = unfit_to_pass(fd) {
            return Err(StartError::Passed { number: *number, what });
        }
    }
    let directory = fstat(&cwd).map_err(step("look at the current directory"))?;
    if !FileType::from_raw_mode(directory.st_mode).is_dir() {
        return Err(StartError::NoDirectory);
    }
    let by_child = has_calls_by_child(session.profile(), &start);
    let running = |pid| RunningCall {
        call: place.id,
        pid,
        program: start.command.first().cloned().map(RawPath::new).unwrap_or_default(),
        argv: shown(start.command.iter().map(Vec::as_slice)),
    };
    let terminal = if start.on_terminal.contains(&true) { Some(open_terminal(&start)?) } else { None };

    let (ours, theirs) = link::pair().map_err(step("make a socket for a call"))?;
    let call: Arc<CallLink> = Arc::new(Link::new(ours));
    call.want_pids().map_err(step("ask for the pids of a call"))?;
    let order = CallOrder {
        command: start.command.clone(),
        environment: environment_of(session, &start.environment),
        cwd: start.cwd.clone(),
        cwd_identity: (directory.st_dev, directory.st_ino),
        umask: start.umask,
        ignored_signals: start.ignored_signals,
        on_terminal: start.on_terminal,
        passed: start.passed.clone(),
        in_background: starts_in_background(start.on_terminal),
    };
    let mut fds = vec![theirs.as_fd()];
    fds.extend(stdio.iter().chain(&passed).map(AsFd::as_fd));
    fds.extend(terminal.as_ref().map(|terminal| terminal.slave.as_fd()));
    session.init().send(&ToInit::Call(Box::new(order)), &fds).map_err(StartError::Init)?;
    let master = terminal.map(|terminal| terminal.master);
    drop((theirs, stdio, passed, cwd));

    let (main, listener) = match call.receive().map_err(StartError::Leader)?.ok_or(StartError::NoProcess)? {
        link::Received { message: FromCall::Trapped, pid: Some(pid), fds } => (pid, fds.into_iter().next()),
        link::Received { message: FromCall::Failed(text), .. } => return Err(StartError::Call(text)),
        _ => return Err(StartError::Call("the call began with the wrong word".into())),
    };
    let listener = listener.ok_or_else(|| StartError::Call("the call came without its listener".into()))?;
    let running = running(main);
    // Of what a tool starts from inside nobody waits to write another.
    let opening = Arc::new(Opening::new(!is_from_inside, by_child));
    let tree = Arc::new(Call::new(place, session.outer_proc(), main, Arc::clone(&opening)));
    let number = tree.id();
    if !session.kin().enter(number, tree.leader(), parent, Arc::downgrade(&call)) {
        return Err(StartError::NoCaller);
    }
    session.calls().enter(&tree);
    let procfs = session.outer_proc().try_clone_to_owned().map_err(step("duplicate a descriptor"))?;
    Pool::start(listener, tree, Arc::clone(session.performer()), procfs)?;
    let master = master.as_ref().map(AsFd::as_fd);
    caller.send(&ToCaller::Started { call: number }, master.as_slice()).map_err(|_| StartError::NoCaller)?;
    session.call_started(running);
    call.send(&ToCall::Go, &[]).map_err(StartError::Leader)?;
    Ok(Started { link: call, opening, start })
}

/// The names on buses that a profile lists.
pub fn bus_names(profile: &Profile) -> Names<'_> {
    Names { session: &profile.bus_names.session, system: &profile.bus_names.system }
}

/// The caller's, without what the policy denies and without its buses; with the session's name, and the buses that it has.
fn environment_of(session: &Session, callers: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let own = [SESSION_VARIABLE, busproxy::SESSION_VARIABLE.as_bytes(), busproxy::SYSTEM_VARIABLE.as_bytes()];
    let name = |entry: &Vec<u8>| entry.split(|byte| *byte == b'=').next().unwrap_or_default().to_vec();
    let kept = |entry: &&Vec<u8>| {
        let name = name(entry);
        !own.contains(&name.as_slice()) && session.profile().keeps_variable(&name)
    };
    let named = [SESSION_VARIABLE, session.id().0.as_bytes()].join(&b'=');
    let buses = busproxy::variables(bus_names(session.profile()));
    callers.iter().filter(kept).cloned().chain([named]).chain(buses).collect()
}

/// In a pipeline (`gated-run -- tool | less`) the terminal is the next program's until the tool wants to read it.
pub fn starts_in_background([stdin, stdout, _]: [bool; 3]) -> bool {
    stdin && !stdout
}

struct Terminal {
    master: OwnedFd,
    slave: OwnedFd,
}

/// A pty of the session's own devpts, opened as the user so that it is theirs.
fn open_terminal(start: &Start) -> Result<Terminal, StartError> {
    use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, unlockpt};
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let open = || -> io::Result<Terminal> {
        // posix_openpt(3) opens /dev/ptmx: the session's, for this process is in the session's mount namespace.
        let master = rustix::pty::openpt(flags)?;
        unlockpt(&master)?;
        let slave = ioctl_tiocgptpeer(&master, flags)?;
        if let Some(window) = start.window {
            let size =
                rustix::termios::Winsize { ws_row: window.rows, ws_col: window.columns, ws_xpixel: 0, ws_ypixel: 0 };
            rustix::termios::tcsetwinsize(&slave, size)?;
        }
        Ok(Terminal { master, slave })
    };
    open().map_err(step("open a terminal"))
}
