//! From a [`Launch`] to a session that takes calls. Runs as root until the session's init exists, then leaves root for good; the
//! only input so far is what the broker sent, and that is root itself.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use super::exec::Executor;
use super::floor;
use super::hostroot::HostRoot;
use super::inside::PidNamespace;
use super::judge::Judge;
use super::life::{self, Parts};
use super::names;
use super::net::Network;
use super::net::inner::Inner;
use super::net::unix::UnixSockets;
use super::perform::Performer;
use super::reads::survey::Survey;
use super::reads::{self, HeldReads, Preparation, Reads, ReadsError};
use super::resolve::Resolver;
use super::reunion::{Reunion, connect_as_root};
use super::start::bus_names;
use super::upstream::BrokerLink;
use crate::common::access::Access;
use crate::common::errno::Errno;
use crate::common::id::SessionId;
use crate::common::path::RawPath;
use crate::common::scope::Pattern;
use crate::common::wire::{self, FromSession, Hello, Launch, ToSession};
use crate::policy::decide::Policy;
use crate::policy::grants::{Grant, Grants};
use crate::policy::learn;
use crate::policy::model::{Profile, Undecodable};
use crate::policy::plan::{self, Scratch};
use crate::policy::regions;
use crate::policy::sockets::Services;
use crate::tool::busproxy::{BusProxy, BusProxyError};
use crate::tool::descriptors::{become_silent, close_all_but};
use crate::tool::forget::forget;
use crate::tool::init::{self, InitOrder};
use crate::tool::link::{self, Link, LinkError};
use crate::tool::messages::{FromInit, NativeRoot, ToInit};
use crate::tool::mounts::{MountError, Places, build_view, enter_own_mounts};
use crate::tool::namespaces::start_init;
use crate::tool::network as tool_network;
use crate::tool::privileges::{PrivilegeError, leave_root, with_file_rights_of};
use crate::tool::syscalls::Features;

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
    #[error("the broker has wire version {theirs}, gated-session has {}", wire::VERSION)]
    Version { theirs: u32 },
    #[error("the broker: {0}")]
    Broker(LinkError),
    #[error("the broker ended before it said what to start")]
    NoBroker,
    #[error("the policy was made for the home {theirs:?}, but the user's is {ours:?}")]
    Home { theirs: RawPath, ours: RawPath },
    #[error("cannot connect to {}: {source}", socket.display())]
    Connect { socket: PathBuf, source: io::Error },
    #[error("the broker meant session {theirs}, this is {ours}")]
    Session { theirs: SessionId, ours: SessionId },
    #[error(transparent)]
    Mounts(#[from] MountError),
    #[error(transparent)]
    Privileges(#[from] PrivilegeError),
    #[error("cannot {step}: {source}")]
    Step { step: &'static str, source: io::Error },
    #[error("the broker sent no profile: {0}")]
    Profile(#[from] Undecodable),
    #[error(transparent)]
    Reads(#[from] ReadsError),
    #[error(
        "kernel.yama.ptrace_scope is {0}: with it no program can be judged, which this profile asks for; set it to 1"
    )]
    Yama(String),
    #[error(transparent)]
    BusProxy(#[from] BusProxyError),
    #[error("{0}")]
    Init(String),
}

fn step(step: &'static str) -> impl FnOnce(io::Error) -> LaunchError {
    move |source| LaunchError::Step { step, source }
}

/// The process `gated-session`: from the socket on descriptor 0, through the session, to the exit status.
pub fn main() -> ExitCode {
    // A thread that is gone would leave its attempts unanswered; a session without its supervisor is killed.
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        std::process::abort();
    }));
    let met = Arguments::of_this_process().and_then(|arguments| meet_broker(arguments.as_ref()));
    let (broker, launch) = match met {
        Ok(met) => met,
        Err(error) => {
            eprintln!("gated-session: {error}");
            return ExitCode::from(125);
        }
    };
    // For whoever reads the journal; init and what it starts do not get it.
    let errors = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stderr(), 3);
    let silent = become_silent().map_err(step("open /dev/null"));
    match silent.and_then(|()| build(launch, &broker, errors.as_ref().ok())) {
        Ok(parts) => {
            drop(errors);
            life::run(parts, broker);
            ExitCode::SUCCESS
        }
        Err(error) => {
            refuse(&broker, &error);
            if let Ok(errors) = errors {
                // There is nobody else to tell.
                let _ = writeln!(fs::File::from(errors), "gated-session: {error}");
            }
            ExitCode::from(125)
        }
    }
}

/// A broker that is gone needs no reason.
fn refuse(broker: &BrokerLink, error: &LaunchError) {
    let _ = broker.send(&FromSession::Failed(error.to_string()), &[]);
}

/// The command line of a supervisor that a unit starts: `--session ID --socket PATH`.
struct Arguments {
    session: SessionId,
    socket: PathBuf,
}

impl Arguments {
    /// `None` without any: the broker is descriptor 0.
    fn of_this_process() -> Result<Option<Arguments>, LaunchError> {
        let words: Vec<OsString> = std::env::args_os().skip(1).collect();
        match words.as_slice() {
            [] => Ok(None),
            [session, id, socket, path] if session == "--session" && socket == "--socket" => {
                let is_digit = |digit: &u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
                let id = id.to_str().filter(|id| id.len() == 8 && id.as_bytes().iter().all(is_digit));
                let session = SessionId(id.ok_or(LaunchError::NotStartedByUs)?.to_owned());
                Ok(Some(Arguments { session, socket: path.into() }))
            }
            _ => Err(LaunchError::NotStartedByUs),
        }
    }
}

/// The broker and its order, in a process that has left its caller.
fn meet_broker(arguments: Option<&Arguments>) -> Result<(BrokerLink, Launch), LaunchError> {
    let inherited = if arguments.is_none() { BrokerLink::inherited(0) } else { None };
    let left = enter_own_session(&inherited.iter().map(AsFd::as_fd).collect::<Vec<_>>());
    let broker = match (inherited, arguments) {
        (Some(broker), _) => broker,
        (None, None) => return Err(LaunchError::NotStartedByUs),
        (None, Some(Arguments { session, socket })) => {
            let connected = connect_as_root(socket);
            let connected = connected.map_err(|source| LaunchError::Connect { socket: socket.clone(), source })?;
            let broker = BrokerLink::new(connected);
            let hello = Hello { version: wire::VERSION, session: session.clone(), token: None, resumed: None };
            broker.send(&FromSession::Hello(Box::new(hello)), &[]).map_err(LaunchError::Broker)?;
            broker
        }
    };
    let launch = left.and_then(|()| receive_launch(&broker, arguments.map(|arguments| &arguments.session)));
    match launch {
        Ok(launch) => Ok((broker, launch)),
        Err(error) => {
            refuse(&broker, &error);
            Err(error)
        }
    }
}

/// Away from the caller's terminal, directory and files: nothing of it must be reachable through this process, and its ^C is
/// not for it.
fn enter_own_session(kept: &[BorrowedFd<'_>]) -> Result<(), LaunchError> {
    close_all_but(kept).map_err(step("close what is not the session's"))?;
    std::env::set_current_dir("/").map_err(step("go to /"))?;
    // The session's directories are for its user, whatever umask the broker has.
    nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o022));
    match nix::unistd::setsid() {
        // It leads a session already, as a service does.
        Err(nix::errno::Errno::EPERM) if nix::unistd::getsid(None) == Ok(nix::unistd::getpid()) => {}
        done => drop(done.map_err(|errno| step("make a session")(errno.into()))?),
    }
    if nix::unistd::geteuid().is_root() { Ok(()) } else { Err(LaunchError::NotRoot) }
}

/// Read and check the first message, for this session if it is known which.
fn receive_launch(broker: &BrokerLink, session: Option<&SessionId>) -> Result<Launch, LaunchError> {
    let received = broker.receive().map_err(LaunchError::Broker)?.ok_or(LaunchError::NoBroker)?;
    let ToSession::Launch(launch) = received.message else { return Err(LaunchError::NoBroker) };
    if launch.version != wire::VERSION {
        return Err(LaunchError::Version { theirs: launch.version });
    }
    match session.filter(|session| **session != launch.session) {
        Some(ours) => Err(LaunchError::Session { theirs: launch.session, ours: ours.clone() }),
        None => Ok(*launch),
    }
}

/// Build the session, as root with one thread; this process is the user's when it returns. `errors` is the stderr that this
/// process had.
fn build(launch: Launch, broker: &BrokerLink, errors: Option<&OwnedFd>) -> Result<Parts, LaunchError> {
    check_home(&launch)?;
    let reunion = launch.rendezvous.as_ref().map(Reunion::prepare).transpose();
    let mut reunion = reunion.map_err(step("open the directory of the daemon's socket"))?;
    let outlives_its_broker = launch.rendezvous.is_some();
    let profile = Profile::decode(&launch.profile)?;
    let mut held = Grants::new();
    for grant in launch.grants.iter().filter_map(|bytes| Grant::decode(bytes).ok()) {
        held.add(grant);
    }
    let denied: Vec<&Pattern> = held.denied_paths(Access::Write).collect();
    let mut scratch = plan::scratch(&profile, &plan::PRIVATE.map(RawPath::from), &launch.directory, &denied);
    if launch.user.uid == 0 {
        // The floor does not see modes, and a set-user-ID program of root's is root's to everybody: for root only the
        // session's own mounts, which are `nosuid`, are native.
        let own = |root: &RawPath| plan::PRIVATE.iter().any(|path| *root == RawPath::from(*path));
        let (native, others) = scratch.native.into_iter().partition(own);
        scratch.native = native;
        scratch.judged.extend::<Vec<RawPath>>(others);
    }
    let outer_proc = open_proc()?;
    // The keeper is to stay in the host's mount namespace, and as a fork it must have one thread to copy.
    let policy = Policy::new(&profile);
    let holds_reads = regions::judges_reads(&profile);
    let prepared = holds_reads.then(|| Preparation::new(&launch.user, &outer_proc)).transpose()?;
    let judged_programs = policy.judges_exec() || held.denies_any(Access::Exec);
    if judged_programs {
        check_yama(&outer_proc)?;
    }
    let features =
        Features { judged_programs, debugging: profile.debug, own_network: launch.network == wire::Network::Own };
    let executor = Executor::new(outer_proc.as_fd(), profile.debug);
    let host_root = Arc::new(HostRoot::open().map_err(step("open /"))?);
    let host_mounts = fs::File::open("/proc/self/ns/mnt").map_err(step("open the mount namespace"))?;
    let files = (launch.network == wire::Network::Own).then(|| names::files::of_host(&*host_root));
    enter_own_mounts()?;

    let pair = || link::pair().map_err(step("make a socket for init"));
    let ((ours, theirs), (our_sockets, their_sockets)) = (pair()?, pair()?);
    let (init_link, sockets) = (Link::new(ours), Inner::new(Link::new(our_sockets)));
    if launch.network == wire::Network::Own {
        sockets.order_ahead().map_err(|errno| step("order sockets")(io::Error::from_raw_os_error(errno.raw())))?;
    }
    let supervisor = init::Supervisor { orders: Link::new(theirs), sockets: Link::new(their_sockets) };
    let init_order = InitOrder {
        user: &launch.user,
        network: launch.network,
        ipv6: tool_network::reaches_ipv6(),
        scratch: &scratch.native,
        landlock_abi_min: launch.landlock_abi_min,
        features,
    };
    // Before the view is built, so that init makes its namespaces meanwhile.
    let init = start_init(|| {
        // A command's child has a copy of all this, and may be looked into by its user before it executes.
        if let Some(reunion) = &mut reunion
            && let Err(error) = forget(&mut reunion.token.0)
        {
            return init::give_up(&supervisor.orders, &error);
        }
        init::run(&init_order, &supervisor)
    });
    let init = init.map_err(step("start init"))?;
    drop(supervisor);
    let viewed = || {
        let inside = build_view(&Places {
            user: &launch.user,
            workspace: &launch.workspace,
            cwd: &launch.directory,
            files: files.as_ref(),
        })?;
        let bus_proxy = BusProxy::start(bus_names(&profile), &launch.user, &host_mounts)?;
        let built = prepared.map(|prepared| prepared.build(&policy, &launch.user, &launch.workspace)).transpose()?;
        if let Some((reads, _)) = &built {
            reads.watch(init.pidfd.as_fd())?;
        }
        // One that is gone has said why.
        let _ = init_link.send(&ToInit::ViewIsBuilt, &[]);
        Ok::<_, LaunchError>((inside, bus_proxy, built))
    };
    let (inside, bus_proxy, built) = match viewed() {
        Ok(viewed) => viewed,
        Err(error) => {
            let _ = init.kill();
            return Err(error);
        }
    };
    drop((files, host_mounts));
    let pid_namespace = PidNamespace::of(&outer_proc, init.pid).map_err(step("look at the session's pid namespace"))?;
    // After init, so that the tool has the caller's own. A signal that arrives before an attempt is received interrupts it,
    // so the receiver goes before those that it serves. Where even root may not, it is slower and nothing else.
    if rustix::process::getpriority_process(None).is_ok_and(|caller| caller > PRIORITY) {
        let _ = rustix::process::setpriority_process(None, PRIORITY);
    }
    // After init, which passes the caller's own limits on to the tool.
    raise_descriptor_limit()?;
    // Where there is another broker to come, the session outlives its parent.
    leave_root(&launch.user, !outlives_its_broker)?;
    if !broker.is_open() {
        return Err(LaunchError::NoBroker);
    }
    let reads = match built {
        Some((reads, survey)) => {
            if let Some(errors) = errors.and_then(|errors| errors.try_clone().ok()) {
                tell(fs::File::from(errors), &reads, &survey);
            }
            Some(reads::serve(Arc::new(reads), init.pid)?)
        }
        None => None,
    };
    let prepared = wait_for(&init_link).and_then(|(landlock_abi, native)| {
        let known = Arc::new(names::Known::new(Arc::clone(&host_root) as _));
        let network = own_network(&launch, sockets, &known)?;
        let resolver = network.as_ref().map(|network| own_names(network, &host_root, known)).transpose()?;
        let unix =
            network.as_ref().map(|network| unix_sockets(&launch, network, &host_root, &outer_proc)).transpose()?;
        let performer = performer(&launch, &profile, &scratch, native, executor, reads.as_ref(), network.clone())?;
        let performer = Arc::new(performer.with_unix(unix));
        Ok((landlock_abi, performer, network, resolver))
    });
    match prepared {
        Ok((landlock_abi, performer, network, resolver)) => Ok(Parts {
            launch,
            profile,
            init,
            init_link,
            performer,
            network,
            resolver,
            outer_proc,
            host_root,
            bus_proxy,
            landlock_abi,
            pid_namespace,
            inside,
            reunion,
            reads,
        }),
        Err(error) => {
            // It dies with this process at the latest.
            let _ = init.kill();
            Err(error)
        }
    }
}

/// For whoever reads the journal and wonders what a start took.
fn tell(mut errors: impl Write, reads: &Reads, survey: &Survey) {
    let too_large = survey.too_large.iter().map(|tree| tree.as_bytes().escape_ascii().to_string()).collect::<Vec<_>>();
    let Survey { looked_at, found, took, .. } = survey;
    let (mounts, too_large) = (reads.held_mounts(), too_large.join(", "));
    let large = if too_large.is_empty() { String::new() } else { format!("; too large, held as a whole: {too_large}") };
    // Nobody may be there to read it.
    let _ = writeln!(
        errors,
        "gated-session: reads are held on {mounts} mounts; found {found} of {looked_at} names in {took:?}{large}"
    );
}

/// The policy was made for one home, by somebody who may have looked at another than this user's.
fn check_home(launch: &Launch) -> Result<(), LaunchError> {
    let Some(expected) = &launch.home else { return Ok(()) };
    let home = &launch.user.home;
    // One that does not exist stays as the user database has it.
    let canonical = with_file_rights_of(&launch.user, || fs::canonicalize(home.as_path()))?;
    let canonical = canonical.map_or_else(|_| home.clone(), RawPath::from);
    let error = || LaunchError::Home { theirs: expected.clone(), ours: canonical.clone() };
    if canonical == *expected { Ok(()) } else { Err(error()) }
}

/// Until init is ready; its Landlock ABI, and where a trapped call may continue, and no further.
fn wait_for(init: &Link<ToInit, FromInit>) -> Result<(u32, Vec<NativeRoot>), LaunchError> {
    match init.receive() {
        Ok(Some(received)) => match received.message {
            FromInit::Ready { landlock_abi, native } => Ok((landlock_abi, native)),
            FromInit::Failed(text) => Err(LaunchError::Init(text)),
        },
        Ok(None) => Err(LaunchError::Init("it ended while it was being prepared".into())),
        Err(error) => Err(LaunchError::Init(error.to_string())),
    }
}

/// The session's own network, if it is to have one; `inner` makes sockets of it.
fn own_network(launch: &Launch, inner: Inner, known: &Arc<names::Known>) -> Result<Option<Arc<Network>>, LaunchError> {
    if launch.network != wire::Network::Own {
        return Ok(None);
    }
    let failed = |errno: Errno| step("look at the session's network")(io::Error::from_raw_os_error(errno.raw()));
    let network = Network::new(inner, Arc::clone(known) as _).map_err(failed)?;
    Ok(Some(Arc::new(network)))
}

/// What answers the session's questions for names.
fn own_names(
    network: &Network,
    host_root: &Arc<HostRoot>,
    known: Arc<names::Known>,
) -> Result<names::Resolver, LaunchError> {
    let failed = |errno: Errno| step("make the session's resolver")(io::Error::from_raw_os_error(errno.raw()));
    let files: Arc<dyn names::host::HostFiles> = Arc::clone(host_root) as _;
    names::Resolver::bind(&network.inner, files, known).map_err(failed)
}

/// What the session knows of unix sockets.
fn unix_sockets(
    launch: &Launch,
    network: &Arc<Network>,
    host_root: &Arc<HostRoot>,
    outer_proc: &OwnedFd,
) -> Result<UnixSockets, LaunchError> {
    let failed = |errno: Errno| step("look at the session's sockets")(io::Error::from_raw_os_error(errno.raw()));
    // As it was said to us, or where that leads: a socket is judged by the path that links lead to.
    let canonical = |path: &RawPath| {
        let agent = host_root.open_at(path, rustix::fs::OFlags::PATH)?;
        host_root.path_of(&agent, outer_proc)
    };
    let ssh_agent = launch.ssh_agent.as_ref().map(|path| canonical(path).unwrap_or_else(|_| path.clone()));
    let services = Services::new(&launch.user.home, launch.user.uid, ssh_agent);
    let procfs = outer_proc.try_clone().map_err(step("duplicate a descriptor"))?;
    UnixSockets::new(Arc::clone(network), Arc::clone(host_root), procfs, services).map_err(failed)
}

/// What judges and carries out the attempts of all calls.
fn performer(
    launch: &Launch,
    profile: &Profile,
    scratch: &Scratch,
    native: Vec<NativeRoot>,
    executor: Executor,
    reads: Option<&HeldReads>,
    network: Option<Arc<Network>>,
) -> Result<Performer, LaunchError> {
    let mut profile = profile.clone();
    // Private to the session, but with a directory of the host below: no rule means yes.
    profile
        .scratch
        .extend(scratch.judged.iter().filter(|root| !profile.scratch.contains(root)).cloned().collect::<Vec<_>>());
    // In the session's view, with the user's rights: what a program's name leads to when the session starts.
    let follow = |path: &RawPath| fs::canonicalize(path.as_path()).ok().map(RawPath::from);
    let judge = Judge::new(
        Policy::following(&profile, &follow),
        floor::Scratch::new(native),
        launch.session.clone(),
        launch.workspace.clone(),
    );
    let limits = profile.learning.then(|| Policy::following(&learn::limits(&profile), &follow));
    let judge = judge.learning(limits);
    judge.publish(&launch.publish);
    launch.grants.iter().for_each(|grant| judge.granted(grant));
    let resolver = Resolver::new().map_err(step("look at the session's /proc"))?;
    Ok(Performer::new(resolver, judge, executor, reads.map(|held| Arc::clone(&held.reads)), network))
}

/// An ancestor may attach with `ptrace_scope` 0 and 1, which is what is compared with; nobody without capabilities with 2 and 3
/// (Documentation/admin-guide/LSM/Yama.rst).
fn check_yama(outer_proc: &OwnedFd) -> Result<(), LaunchError> {
    use rustix::fs::{Mode, OFlags, openat};
    let mut text = [0; 16];
    let scope = openat(outer_proc, "sys/kernel/yama/ptrace_scope", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    let read = match scope {
        // A kernel without Yama.
        Err(rustix::io::Errno::NOENT) => return Ok(()),
        scope => scope.and_then(|file| rustix::io::read(file, &mut text)),
    };
    let length = read.map_err(|errno| step("read kernel.yama.ptrace_scope")(errno.into()))?;
    let scope = text.get(..length).unwrap_or_default().trim_ascii();
    if matches!(scope, b"0" | b"1") {
        Ok(())
    } else {
        Err(LaunchError::Yama(String::from_utf8_lossy(scope).into_owned()))
    }
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
