//! Everything between a command line and a running supervisor: whose session, with which policy, from where. Runs as root;
//! opens what the caller names with the caller's own rights.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use super::caller::Caller;
use super::client::CallerLink;
use super::order::{self, Directory, Order, OrderError};
use crate::common::id::SessionId;
use crate::common::net::{Destination, Transport};
use crate::common::path::RawPath;
use crate::common::wire::{self, Ends, FromSession, Launch, Published, ToSession};
use crate::consent::words;
use crate::policy::Profile;
use crate::tool::floor::LOWEST_ABI;
use crate::tool::link::{self, Link, LinkError};
use crate::tool::privileges::{PrivilegeError, with_file_rights_of};

/// No session; one line for stderr.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("cannot {what} {}: {source}", path.display())]
    File { what: &'static str, path: PathBuf, source: io::Error },
    #[error(transparent)]
    Order(#[from] OrderError),
    #[error(transparent)]
    Privileges(#[from] PrivilegeError),
    #[error("cannot find gated-session: it is neither {} nor {}", beside.display(), installed.display())]
    NoSupervisor { beside: PathBuf, installed: PathBuf },
    #[error("cannot {what}: {source}")]
    Step { what: &'static str, source: io::Error },
    #[error("the supervisor: {0}")]
    Link(#[from] LinkError),
    #[error(transparent)]
    NoRandomness(#[from] crate::common::id::NoRandomness),
}

fn step(what: &'static str) -> impl FnOnce(io::Error) -> StartError {
    move |source| StartError::Step { what, source }
}

/// Open or read a file that the caller named, as far as the caller may.
pub fn as_caller<T>(
    caller: &Caller,
    what: &'static str,
    path: &Path,
    open: impl FnOnce(&Path) -> io::Result<T>,
) -> Result<T, StartError> {
    let opened = if nix::unistd::geteuid().is_root() {
        with_file_rights_of(&caller.invoking, || open(path))?
    } else {
        open(path)
    };
    opened.map_err(|source| StartError::File { what, path: path.to_path_buf(), source })
}

/// The client's link to a supervisor that it started itself.
pub type SessionLink = Link<ToSession, FromSession>;

/// What whoever starts a session gives it, besides a command.
#[derive(Clone, Debug, Default)]
pub struct Given {
    pub publish: Vec<SocketAddr>,
    pub ssh_agent: Option<RawPath>,
}

/// What is said of a published address at the start.
pub fn published(address: SocketAddr) -> String {
    let destination = Destination::address(address, Transport::Tcp, Vec::new());
    let who = words::who_reaches(&destination);
    format!("what listens on {address} in the session is published, {who}")
}

/// A supervisor that was told what to do.
pub struct Started {
    pub session: SessionId,
    pub link: Arc<SessionLink>,
    /// Of the session's only call.
    pub caller: Arc<CallerLink>,
    pub supervisor: Child,
}

/// A supervisor that was started and waits for what it is to do. One that is not told ends by itself, before this is gone.
pub struct Waiting {
    link: Option<SessionLink>,
    supervisor: Option<Child>,
}

impl Waiting {
    /// Starts one: first of all, so that it is there when it is known what it is for. As root.
    pub fn begin() -> Result<Waiting, StartError> {
        let (ours, theirs) = link::pair().map_err(step("make a socket"))?;
        Ok(Waiting { supervisor: Some(spawn(theirs)?), link: Some(Link::new(ours)) })
    }

    fn take(mut self) -> Option<(SessionLink, Child)> {
        Some((self.link.take()?, self.supervisor.take()?))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        drop(self.link.take());
        if let Some(supervisor) = &mut self.supervisor {
            // What it was started for is an error already.
            let _ = supervisor.wait();
        }
    }
}

/// Tell a supervisor of a session with this one call. As root.
pub fn start(
    waiting: Waiting,
    caller: &Caller,
    profile: &Profile,
    directory: &Directory,
    order: &Order,
    given: Given,
) -> Result<Started, StartError> {
    let session = SessionId::random()?;
    let launch = Launch {
        version: wire::VERSION,
        session: session.clone(),
        user: caller.tool.clone(),
        profile: profile.encode(),
        network: profile.network,
        landlock_abi_min: LOWEST_ABI,
        workspace: profile.workspace.clone().unwrap_or_else(|| directory.path.clone()),
        directory: directory.path.clone(),
        home: None,
        ends: Ends::WithFirstCall,
        grants: Vec::new(),
        publish: Published::all(&given.publish, &caller.invoking.name)?,
        ssh_agent: given.ssh_agent,
        rendezvous: None,
    };
    let gone = || step("find the supervisor")(io::ErrorKind::NotFound.into());
    let (link, supervisor) = waiting.take().ok_or_else(gone)?;
    link.send(&ToSession::Launch(Box::new(launch)), &[])?;
    let (caller, callers_end) = order::caller_link()?;
    let fds: Vec<BorrowedFd<'_>> =
        std::iter::once(callers_end.as_fd()).chain(order.files()).chain(order.passed()).collect();
    // A supervisor that does not take it has refused the session, and says why.
    let _ = link.send(&ToSession::Start(Box::new(order.start.clone())), &fds);
    Ok(Started { session, link: Arc::new(link), caller, supervisor })
}

/// Fork and execute gated-session: the one that was built or installed with this very program, whatever PATH or the
/// environment say.
fn spawn(socket: OwnedFd) -> Result<Child, StartError> {
    let own = std::env::current_exe().map_err(step("find this program"))?;
    let [beside, installed] = supervisor_programs(&own);
    let Some(program) = [&beside, &installed].into_iter().find(|path| path.is_file()) else {
        return Err(StartError::NoSupervisor { beside, installed });
    };
    Command::new(program)
        .env_clear()
        .stdin(Stdio::from(socket))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|source| StartError::File { what: "start", path: program.clone(), source })
}

/// Where gated-session is, by where this program is: built beside it, or installed with it.
pub fn supervisor_programs(own: &Path) -> [PathBuf; 2] {
    let folder = own.parent().unwrap_or(Path::new("/"));
    let prefix = folder.parent().unwrap_or(Path::new("/"));
    [folder.join("gated-session"), prefix.join("libexec/gated/gated-session")]
}
