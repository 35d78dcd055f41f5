//! From a [`Launch`] to a session that takes calls. Runs as root until the session's init exists, then leaves root for good; the
//! only input so far is what the broker sent, and that is root itself.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;
use std::sync::Arc;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use super::floor;
use super::inside::PidNamespace;
use super::judge::Judge;
use super::life::{self, Parts};
use super::perform::Performer;
use super::resolve::Resolver;
use super::upstream::BrokerLink;
use crate::common::path::RawPath;
use crate::common::wire::{self, FromSession, Launch, ToSession};
use crate::policy::decide::Policy;
use crate::policy::model::{Profile, Undecodable};
use crate::policy::plan::{self, Scratch};
use crate::tool::descriptors::{become_silent, close_all_but};
use crate::tool::init::{self, InitOrder};
use crate::tool::link::{self, Link, LinkError};
use crate::tool::messages::{FromInit, NativeRoot, ToInit};
use crate::tool::mounts::{MountError, Places, build_view};
use crate::tool::namespaces::start_init;
use crate::tool::privileges::{PrivilegeError, leave_root, with_file_rights_of};

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
    #[error(transparent)]
    Mounts(#[from] MountError),
    #[error(transparent)]
    Privileges(#[from] PrivilegeError),
    #[error("cannot {step}: {source}")]
    Step { step: &'static str, source: io::Error },
    #[error("the broker sent no profile: {0}")]
    Profile(#[from] Undecodable),
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
    let Some(broker) = BrokerLink::inherited(0) else {
        eprintln!("gated-session: {}", LaunchError::NotStartedByUs);
        return ExitCode::from(125);
    };
    let launched = enter_own_session(&broker).and_then(|()| receive_launch(&broker));
    match launched.and_then(|launch| build(launch, &broker)) {
        Ok(parts) => {
            life::run(parts, broker);
            ExitCode::SUCCESS
        }
        Err(error) => {
            // A broker that is gone needs no reason.
            let _ = broker.send(&FromSession::Failed(error.to_string()), &[]);
            ExitCode::from(125)
        }
    }
}

/// Away from the client's terminal, directory and files: nothing of it must be reachable through this process, and its ^C is not for it.
fn enter_own_session(broker: &BrokerLink) -> Result<(), LaunchError> {
    close_all_but(&[broker.as_fd()]).map_err(step("close what is not the session's"))?;
    become_silent().map_err(step("open /dev/null"))?;
    std::env::set_current_dir("/").map_err(step("go to /"))?;
    // The session's directories are for its user, whatever umask the broker has.
    nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o022));
    nix::unistd::setsid().map_err(|errno| step("make a session")(errno.into()))?;
    if nix::unistd::geteuid().is_root() { Ok(()) } else { Err(LaunchError::NotRoot) }
}

/// Read and check the first message.
fn receive_launch(broker: &BrokerLink) -> Result<Launch, LaunchError> {
    let received = broker.receive().map_err(LaunchError::Broker)?.ok_or(LaunchError::NoBroker)?;
    match received.message {
        ToSession::Launch(launch) if launch.version != wire::VERSION => {
            Err(LaunchError::Version { theirs: launch.version })
        }
        ToSession::Launch(launch) => Ok(*launch),
        _ => Err(LaunchError::NoBroker),
    }
}

/// Build the session, as root with one thread; this process is the user's when it returns.
fn build(launch: Launch, broker: &BrokerLink) -> Result<Parts, LaunchError> {
    check_home(&launch)?;
    let profile = Profile::decode(&launch.profile)?;
    let mut scratch = plan::scratch(&profile, &plan::PRIVATE.map(RawPath::from), &launch.directory);
    if launch.user.uid == 0 {
        // The floor does not see modes, and a set-user-ID program of root's is root's to everybody: for root only the
        // session's own mounts, which are `nosuid`, are native.
        let own = |root: &RawPath| plan::PRIVATE.iter().any(|path| *root == RawPath::from(*path));
        let (native, others) = scratch.native.into_iter().partition(own);
        scratch.native = native;
        scratch.judged.extend::<Vec<RawPath>>(others);
    }
    let outer_proc = open_proc()?;
    let inside = build_view(&Places { user: &launch.user, workspace: &launch.workspace, cwd: &launch.directory })?;

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
    let pid_namespace = PidNamespace::of(&outer_proc, init.pid).map_err(step("look at the session's pid namespace"))?;
    // After init, so that the tool has the caller's own. A signal that arrives before an attempt is received interrupts it,
    // so the receiver goes before those that it serves. Where even root may not, it is slower and nothing else.
    if rustix::process::getpriority_process(None).is_ok_and(|caller| caller > PRIORITY) {
        let _ = rustix::process::setpriority_process(None, PRIORITY);
    }
    // After init, which passes the caller's own limits on to the tool.
    raise_descriptor_limit()?;
    // Where there is another broker to come, the session outlives its parent.
    leave_root(&launch.user, launch.rendezvous.is_none())?;
    if !broker.is_open() {
        return Err(LaunchError::NoBroker);
    }
    let prepared = wait_for(&init_link)
        .and_then(|(landlock_abi, native)| Ok((landlock_abi, performer(&launch, &profile, &scratch, native)?)));
    match prepared {
        Ok((landlock_abi, performer)) => {
            Ok(Parts { launch, profile, init, init_link, performer, outer_proc, landlock_abi, pid_namespace, inside })
        }
        Err(error) => {
            // It dies with this process at the latest.
            let _ = init.kill();
            Err(error)
        }
    }
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

/// What judges and carries out the attempts of all calls.
fn performer(
    launch: &Launch,
    profile: &Profile,
    scratch: &Scratch,
    native: Vec<NativeRoot>,
) -> Result<Arc<Performer>, LaunchError> {
    let mut profile = profile.clone();
    // Private to the session, but with a directory of the host below: no rule means yes.
    profile
        .scratch
        .extend(scratch.judged.iter().filter(|root| !profile.scratch.contains(root)).cloned().collect::<Vec<_>>());
    let judge = Judge::new(
        Policy::new(&profile),
        floor::Scratch::new(native),
        launch.session.clone(),
        launch.workspace.clone(),
    );
    let resolver = Resolver::new().map_err(step("look at the session's /proc"))?;
    Ok(Arc::new(Performer::new(resolver, judge)))
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
