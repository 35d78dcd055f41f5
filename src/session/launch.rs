//! From a [`Launch`] to a session whose first command is about to be executed. Runs as root until the session's init
//! exists, then leaves root for good; the only input so far is what the client sent, and the client was root itself.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;
use std::sync::Arc;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use super::life;
use super::supervise::supervise;
use crate::common::path::RawPath;
use crate::common::wire::{self, FromSession, Launch, ToSession};
use crate::policy::model::{Profile, Undecodable};
use crate::policy::plan::{self, Scratch};
use crate::tool::descriptors::{become_silent, close_all_but, unfit_for_stdio};
use crate::tool::init::{self, InitOrder};
use crate::tool::link::{self, Link, LinkError};
use crate::tool::messages::{CallOrder, FromCall, FromInit, NativeRoot, ToCall, ToInit};
use crate::tool::mounts::{MountError, Places, build_view};
use crate::tool::namespaces::{InitProcess, start_init};
use crate::tool::privileges::{PrivilegeError, leave_root};

/// The supervisor's link to the broker.
pub type BrokerLink = Link<FromSession, ToSession>;
/// The supervisor's link to a call: its leader, and before the command's execve(2) the command's child.
pub type CallLink = Link<ToCall, FromCall>;

/// Descriptors that one session may hold at once: three for each trapped call that is being served, and a reserve.
const DESCRIPTORS: u64 = 65_536;

/// Of the supervisor, nice(2): above ordinary programs, and far from the machine's own.
const PRIORITY: i32 = -5;

/// The session cannot be; told to the caller as [`FromSession::Failed`].
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    #[error("gated-session is started by gated-run or gatedd, not by hand")]
    NotStartedByUs,
    #[error("gated-session must be started as root")]
    NotRoot,
    #[error("the client has wire version {theirs}, gated-session has {}", wire::VERSION)]
    Version { theirs: u32 },
    #[error("the client sent {0} file descriptors instead of 3")]
    Descriptors(usize),
    #[error("{stream} is {what}; the tool could leave the session through it")]
    Stdio { stream: &'static str, what: &'static str },
    #[error("the client: {0}")]
    Client(LinkError),
    #[error("the client ended before it said what to start")]
    NoClient,
    #[error(transparent)]
    Mounts(#[from] MountError),
    #[error(transparent)]
    Privileges(#[from] PrivilegeError),
    #[error("cannot {step}: {source}")]
    Step { step: &'static str, source: io::Error },
    #[error("the client sent no profile: {0}")]
    Profile(#[from] Undecodable),
    #[error("{0}")]
    Init(String),
}

fn step(step: &'static str) -> impl FnOnce(io::Error) -> LaunchError {
    move |source| LaunchError::Step { step, source }
}

/// A session that is built and waits for its listener to be served.
pub struct Session {
    pub launch: Launch,
    pub profile: Profile,
    /// Who gives the right to change what is in the session's scratch.
    pub scratch: Scratch,
    pub broker: Arc<BrokerLink>,
    pub init: InitProcess,
    /// To start further calls.
    pub init_link: Link<ToInit, FromInit>,
    /// The first call; its command waits for [`ToCall::Go`].
    pub call: Arc<CallLink>,
    /// The first call's main process in the supervisor's pid namespace.
    pub main_pid: i32,
    /// The listener of the tool's filter.
    pub listener: Option<OwnedFd>,
    /// Where a trapped call may continue, and no further; what the floor enforces.
    pub native: Vec<NativeRoot>,
    /// /proc of the host's pid namespace, in which the supervisor and the notifications number processes. `O_PATH`.
    pub outer_proc: OwnedFd,
    pub landlock_abi: u32,
}

/// The process `gated-session`: from the socket on descriptor 0, through the session, to the exit status.
pub fn main() -> ExitCode {
    // A thread that is gone would leave its attempts unanswered; a session without its supervisor is killed.
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        std::process::abort();
    }));
    let Some(broker) = BrokerLink::inherited(0) else {
        eprintln!("gated-session: {}", LaunchError::NotStartedByUs);
        return ExitCode::from(125);
    };
    let built = enter_own_session(&broker).and_then(|()| receive_order(&broker));
    let order = match built {
        Ok(order) => order,
        Err(error) => return refuse(&broker, &error),
    };
    let broker = Arc::new(broker);
    match build(order, Arc::clone(&broker)) {
        Ok(mut session) => match supervise(&mut session) {
            Ok(answers) => {
                life::run(session, answers);
                ExitCode::SUCCESS
            }
            Err(error) => refuse(&broker, &error),
        },
        Err(error) => refuse(&broker, &error),
    }
}

fn refuse(broker: &BrokerLink, error: &dyn std::error::Error) -> ExitCode {
    // A client that is gone needs no reason.
    let _ = broker.send(&FromSession::Failed(error.to_string()), &[]);
    ExitCode::from(125)
}

/// Away from the client's terminal, directory and files: nothing of it must be reachable through this process, and its ^C is not for it.
fn enter_own_session(broker: &BrokerLink) -> Result<(), LaunchError> {
    close_all_but(&[broker.as_fd()]).map_err(step("close what is not the session's"))?;
    become_silent().map_err(step("open /dev/null"))?;
    std::env::set_current_dir("/").map_err(step("go to /"))?;
    nix::unistd::setsid().map_err(|errno| step("make a session")(errno.into()))?;
    if nix::unistd::geteuid().is_root() { Ok(()) } else { Err(LaunchError::NotRoot) }
}

/// What the client sent first.
pub struct Order {
    launch: Launch,
    stdio: [OwnedFd; 3],
}

/// Read and check the first message.
pub fn receive_order(broker: &BrokerLink) -> Result<Order, LaunchError> {
    let received = broker.receive().map_err(LaunchError::Client)?.ok_or(LaunchError::NoClient)?;
    let ToSession::Launch(launch) = received.message else { return Err(LaunchError::NoClient) };
    if launch.version != wire::VERSION {
        return Err(LaunchError::Version { theirs: launch.version });
    }
    let stdio: [OwnedFd; 3] =
        received.fds.try_into().map_err(|fds: Vec<OwnedFd>| LaunchError::Descriptors(fds.len()))?;
    for (fd, stream) in stdio.iter().zip(["stdin", "stdout", "stderr"]) {
        if let Some(what) = unfit_for_stdio(fd) {
            return Err(LaunchError::Stdio { stream, what });
        }
    }
    Ok(Order { launch: *launch, stdio })
}

/// Build the session, as root with one thread; this process is the user's when it returns.
pub fn build(order: Order, broker: Arc<BrokerLink>) -> Result<Session, LaunchError> {
    let Order { launch, stdio } = order;
    let profile = Profile::decode(&launch.profile)?;
    let mut scratch = plan::scratch(&profile, &plan::PRIVATE.map(RawPath::from), &launch.cwd);
    if launch.user.uid == 0 {
        // The floor does not see modes, and a set-user-ID program of root's is root's to everybody: for root only the
        // session's own mounts, which are `nosuid`, are native.
        let own = |root: &RawPath| plan::PRIVATE.iter().any(|path| *root == RawPath::from(*path));
        let (native, others) = scratch.native.into_iter().partition(own);
        scratch.native = native;
        scratch.judged.extend::<Vec<RawPath>>(others);
    }
    let outer_proc = open_proc()?;
    build_view(&Places { user: &launch.user, workspace: &launch.workspace, cwd: &launch.cwd })?;

    let (ours, theirs) = link::pair().map_err(step("make a socket for init"))?;
    let (init_link, supervisor) = (Link::new(ours), Link::new(theirs));
    let init_order = InitOrder {
        user: &launch.user,
        network: launch.network,
        scratch: &scratch.native,
        landlock_abi_min: launch.landlock_abi_min,
    };
    let init = start_init(launch.network, || init::run(&init_order, &supervisor)).map_err(step("start init"))?;
    drop(supervisor);
    // After init, so that the tool has the caller's own. A signal that arrives before an attempt is received interrupts it,
    // so the receiver goes before those that it serves. Where even root may not, it is slower and nothing else.
    if rustix::process::getpriority_process(None).is_ok_and(|caller| caller > PRIORITY) {
        let _ = rustix::process::setpriority_process(None, PRIORITY);
    }
    // After init, which passes the caller's own limits on to the tool.
    raise_descriptor_limit()?;
    leave_root(&launch.user, true)?;
    if !broker.is_open() {
        return Err(LaunchError::NoClient);
    }
    let built = finish(launch, stdio, broker, init_link, outer_proc);
    match built {
        Ok(parts) => Ok(parts.with(init, profile, scratch)),
        Err(error) => {
            // It dies with this process at the latest.
            let _ = init.kill();
            Err(error)
        }
    }
}

/// [`Session`] without its init.
struct Parts {
    launch: Launch,
    broker: Arc<BrokerLink>,
    init_link: Link<ToInit, FromInit>,
    call: CallLink,
    main_pid: i32,
    listener: Option<OwnedFd>,
    native: Vec<NativeRoot>,
    outer_proc: OwnedFd,
    landlock_abi: u32,
}

impl Parts {
    fn with(self, init: InitProcess, profile: Profile, scratch: Scratch) -> Session {
        let Parts { launch, broker, init_link, call, main_pid, listener, native, outer_proc, landlock_abi } = self;
        let call = Arc::new(call);
        Session {
            launch,
            profile,
            scratch,
            broker,
            init,
            init_link,
            call,
            main_pid,
            listener,
            native,
            outer_proc,
            landlock_abi,
        }
    }
}

/// As the user: wait for init, start the first call, take its listener.
fn finish(
    launch: Launch,
    stdio: [OwnedFd; 3],
    broker: Arc<BrokerLink>,
    init_link: Link<ToInit, FromInit>,
    outer_proc: OwnedFd,
) -> Result<Parts, LaunchError> {
    let silent = || LaunchError::Init("it ended while it was being prepared".into());
    let (landlock_abi, native) = match init_link.receive() {
        Ok(Some(received)) => match received.message {
            FromInit::Ready { landlock_abi, native } => (landlock_abi, native),
            FromInit::Failed(text) => return Err(LaunchError::Init(text)),
        },
        Ok(None) => return Err(silent()),
        Err(error) => return Err(LaunchError::Init(error.to_string())),
    };
    let terminal = if launch.on_terminal.contains(&true) { Some(open_terminal(&launch)?) } else { None };
    let master = terminal.as_ref().map(|terminal| terminal.master.as_fd());
    broker.send(&FromSession::Ready { landlock_abi }, master.as_slice()).map_err(LaunchError::Client)?;

    let (ours, theirs) = link::pair().map_err(step("make a socket for a call"))?;
    let call: CallLink = Link::new(ours);
    call.want_pids().map_err(step("ask for the pids of a call"))?;
    let order = CallOrder {
        command: launch.command.clone(),
        environment: launch.environment.clone(),
        cwd: launch.cwd.clone(),
        cwd_identity: launch.cwd_identity,
        umask: launch.umask,
        ignored_signals: launch.ignored_signals,
        on_terminal: launch.on_terminal,
        in_background: starts_in_background(launch.on_terminal),
    };
    let mut fds = vec![theirs.as_fd()];
    fds.extend(stdio.iter().map(AsFd::as_fd));
    fds.extend(terminal.as_ref().map(|terminal| terminal.slave.as_fd()));
    init_link.send(&ToInit::Call(Box::new(order)), &fds).map_err(|error| LaunchError::Init(error.to_string()))?;
    drop((theirs, stdio, terminal));

    let (main_pid, listener) = match call.receive() {
        Ok(Some(received)) => match (received.message, received.pid) {
            (FromCall::Trapped, Some(pid)) => (pid, received.fds.into_iter().next()),
            (FromCall::Failed(text), _) => return Err(LaunchError::Init(text)),
            _ => return Err(LaunchError::Init("the call began with the wrong word".into())),
        },
        Ok(None) => return Err(silent()),
        Err(error) => return Err(LaunchError::Init(error.to_string())),
    };
    Ok(Parts { launch, broker, init_link, call, main_pid, listener, native, outer_proc, landlock_abi })
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
fn open_terminal(launch: &Launch) -> Result<Terminal, LaunchError> {
    use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, unlockpt};
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let open = || -> io::Result<Terminal> {
        // posix_openpt(3) opens /dev/ptmx: the session's, for this process is in the session's mount namespace.
        let master = rustix::pty::openpt(flags)?;
        unlockpt(&master)?;
        let slave = ioctl_tiocgptpeer(&master, flags)?;
        if let Some(window) = launch.window {
            let size =
                rustix::termios::Winsize { ws_row: window.rows, ws_col: window.columns, ws_xpixel: 0, ws_ypixel: 0 };
            rustix::termios::tcsetwinsize(&slave, size)?;
        }
        Ok(Terminal { master, slave })
    };
    open().map_err(step("open a terminal"))
}

fn open_proc() -> Result<OwnedFd, LaunchError> {
    use rustix::fs::{CWD, Mode, OFlags, openat};
    openat(CWD, "/proc", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|errno| step("open /proc")(errno.into()))
}

/// The supervisor holds descriptors for everybody in the session.
fn raise_descriptor_limit() -> Result<(), LaunchError> {
    let (_, hard) =
        getrlimit(Resource::RLIMIT_NOFILE).map_err(|errno| step("read the limit of open files")(errno.into()))?;
    let most = hard.max(DESCRIPTORS);
    // fs.nr_open may be lower than the wish; what there is will do.
    setrlimit(Resource::RLIMIT_NOFILE, most, most)
        .or_else(|_| setrlimit(Resource::RLIMIT_NOFILE, hard, hard))
        .map_err(|errno| step("raise the limit of open files")(errno.into()))
}
