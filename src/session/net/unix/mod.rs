//! Unix sockets: what a session knows of those that it may meet.
//!
//! Runs as the user in the supervisor, in the session's mount namespace and the host's network namespace.

pub mod address;
mod bound;
pub mod knock;

use std::collections::HashSet;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{CWD, FileType, OFlags, fstat};

use self::bound::Bound;
use self::knock::Knocks;
use super::Network;
use super::inner::Namespace;
use crate::common::bus::INSIDE_SOCKET;
use crate::common::errno::Errno;
use crate::common::net::Service;
use crate::common::path::RawPath;
use crate::policy::sockets::Services;
use crate::session::hostroot::HostRoot;
use crate::tool::busproxy::BUS_DIRECTORY;

/// Trees that root mounted for the session alone; a socket in one is the session's.
const OWN_TREES: [&str; 4] = ["/tmp", "/dev/shm", "/run", BUS_DIRECTORY];

/// Where gated has its sockets outside of sessions.
const OWN_SOCKETS: [&str; 2] = ["/run/gated", "/var/run/gated"];

/// What a path of a socket led to.
#[derive(Debug)]
pub struct Pinned {
    /// An `O_PATH` handle.
    pub handle: OwnedFd,
    /// Canonical.
    pub path: RawPath,
}

/// The unix sockets of one session.
pub struct UnixSockets {
    pub network: Arc<Network>,
    pub knocks: Knocks,
    host_root: Arc<HostRoot>,
    procfs: OwnedFd,
    services: Services,
    /// Devices of [`OWN_TREES`].
    own: HashSet<u64>,
    /// Device and inode of the socket inside.
    inside: (u64, u64),
    /// `None` on a kernel that does not tell.
    bound: Option<Bound>,
}

impl UnixSockets {
    /// To be called in the session's mount namespace. `procfs` is the outer `/proc`.
    pub fn new(
        network: Arc<Network>,
        host_root: Arc<HostRoot>,
        procfs: OwnedFd,
        services: Services,
    ) -> Result<UnixSockets, Errno> {
        let identity = |path: &str| rustix::fs::stat(Path::new(path)).map(|stat| (stat.st_dev, stat.st_ino));
        let own = OWN_TREES.iter().map(|tree| identity(tree).map(|(device, _)| device)).collect::<Result<_, _>>()?;
        let bound = Bound::new(&network.inner).ok();
        let inside = identity(INSIDE_SOCKET)?;
        Ok(UnixSockets { network, knocks: Knocks::default(), host_root, procfs, services, own, inside, bound })
    }

    /// Whether a process of the session, or gated for it, serves this socket.
    pub fn is_of_the_session(&self, socket: &Pinned) -> Result<bool, Errno> {
        let stat = fstat(&socket.handle)?;
        if self.own.contains(&stat.st_dev) {
            return Ok(true);
        }
        let asked = self.bound.as_ref().map(|bound| bound.by_session(stat.st_dev, stat.st_ino));
        Ok(matches!(asked, Some(Ok(true))))
    }

    /// Whether this is the socket on which the supervisor takes calls from inside.
    pub fn is_inside(&self, socket: &Pinned) -> Result<bool, Errno> {
        let stat = fstat(&socket.handle)?;
        Ok((stat.st_dev, stat.st_ino) == self.inside)
    }

    /// Whether this directory is one of the trees that the session has to itself.
    pub fn is_own_tree(&self, directory: impl AsFd) -> Result<bool, Errno> {
        Ok(self.own.contains(&fstat(directory)?.st_dev))
    }

    /// The socket at an absolute path of the host, which the session's view hides.
    pub fn in_host(&self, path: &RawPath) -> Option<Pinned> {
        let handle = self.host_root.open_at(path, OFlags::PATH).ok()?;
        let kind = FileType::from_raw_mode(fstat(&handle).ok()?.st_mode);
        let path = self.host_root.path_of(&handle, &self.procfs).ok()?;
        (kind == FileType::Socket).then_some(Pinned { handle, path })
    }

    /// What is known to be behind a socket of the host's. gated's own are as little for a tool as the system's.
    pub fn service(&self, path: &RawPath) -> Option<Service> {
        let own = OWN_SOCKETS.iter().any(|tree| path.is_within(&RawPath::from(*tree)));
        self.services.of(path).or(own.then_some(Service::SystemBus))
    }

    /// `EACCES` for a socket that was made in another network namespace than the session's: there, names without a file are
    /// others'.
    pub fn require_session(&self, socket: impl AsFd) -> Result<(), Errno> {
        if Namespace::of(socket)? == self.network.namespaces.session { Ok(()) } else { Err(Errno::ACCES) }
    }
}

/// Opens the directory that the calling thread stands in, to come back to.
pub fn standing_place() -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(CWD, c".", flags, rustix::fs::Mode::empty())?)
}
