//! The session's network namespace as the supervisor sees it from the host's: it cannot enter it, but init makes sockets there
//! for it, and a socket stays in the namespace that it was made in.
//!
//! Runs as the user in the supervisor. What comes from init is of ours.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

use rustix::net::{AddressFamily, Protocol, SocketFlags, SocketType, socket_with};

use super::raw::netns_cookie;
use crate::common::errno::Errno;
use crate::tool::link::Link;
use crate::tool::messages::{SocketMade, SocketOrder};

/// A network namespace by its cookie, which is no other's as long as the machine runs (`SO_NETNS_COOKIE`, Linux 5.14).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Namespace(u64);

impl Namespace {
    /// That of a socket: the one it was made in. `ENOTSOCK` for what is none.
    pub fn of(socket: impl AsFd) -> Result<Namespace, Errno> {
        netns_cookie(socket.as_fd()).map(Namespace)
    }
}

/// The two namespaces of a session.
#[derive(Clone, Copy, Debug)]
pub struct Namespaces {
    /// The supervisor's own.
    pub host: Namespace,
    pub session: Namespace,
}

/// Makes sockets in the session's network namespace.
pub struct Inner {
    /// One order and its answer at a time.
    link: Mutex<Link<SocketOrder, SocketMade>>,
}

impl Inner {
    /// Over a link to an init that serves it.
    pub fn new(link: Link<SocketOrder, SocketMade>) -> Inner {
        Inner { link: Mutex::new(link) }
    }

    /// socket(2) in the session's network namespace: blocking, close-on-exec. Its errors; `EIO` if init is gone, with which
    /// the session is.
    pub fn socket(
        &self,
        domain: AddressFamily,
        kind: SocketType,
        protocol: Option<Protocol>,
    ) -> Result<OwnedFd, Errno> {
        let protocol = protocol.map_or(0, |protocol| protocol.as_raw().get());
        let order = SocketOrder { domain: domain.as_raw(), kind: kind.as_raw(), protocol };
        let link = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        link.send(&order, &[]).map_err(|_| Errno::IO)?;
        let made = link.receive().ok().flatten().ok_or(Errno::IO)?;
        made.message?;
        made.fds.into_iter().next().ok_or(Errno::IO)
    }

    /// The namespaces, told by a socket of each.
    pub fn namespaces(&self) -> Result<Namespaces, Errno> {
        let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
        let host = socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
        let session = self.socket(family, kind, None)?;
        Ok(Namespaces { host: Namespace::of(host)?, session: Namespace::of(session)? })
    }
}
