//! A socket of a tool, taken from it: what it is, as the kernel says of this very socket.
//!
//! Runs as the user in the supervisor. The socket is shared with the tool, which may do with it what is native meanwhile;
//! what is read here never changes.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::net::{AddressFamily, SocketType, ipproto, sockopt};

use super::address;
use super::inner::{Namespace, Namespaces};
use super::raw;
use crate::common::errno::Errno;

/// A duplicate of a tool's descriptor, which is a socket.
#[derive(Clone, Debug)]
pub struct Socket {
    pub file: Arc<OwnedFd>,
    pub domain: AddressFamily,
    pub sort: Sort,
    pub place: Place,
}

/// What can be done with a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    Tcp,
    Udp,
    /// ICMP echo, icmp(7).
    Echo,
    Netlink,
    Unix,
    /// A session makes none of these; it can only have been given one.
    Other,
}

/// The network that a socket is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Host,
    Session,
    /// Neither: whoever started the session gave it this socket.
    Elsewhere,
}

impl Place {
    fn of(namespace: Namespace, namespaces: &Namespaces) -> Place {
        match namespace {
            own if own == namespaces.session => Place::Session,
            host if host == namespaces.host => Place::Host,
            _ => Place::Elsewhere,
        }
    }
}

impl Socket {
    /// `ENOTSOCK` for another file.
    pub fn of(file: Arc<OwnedFd>, namespaces: &Namespaces) -> Result<Socket, Errno> {
        let domain = sockopt::socket_domain(&file)?;
        let kind = sockopt::socket_type(&file)?;
        let protocol = sockopt::socket_protocol(&file)?;
        let is_internet = matches!(domain, AddressFamily::INET | AddressFamily::INET6);
        let sort = match (domain, kind, protocol) {
            (AddressFamily::UNIX, ..) => Sort::Unix,
            (AddressFamily::NETLINK, ..) => Sort::Netlink,
            (_, SocketType::STREAM, Some(ipproto::TCP)) if is_internet => Sort::Tcp,
            (_, SocketType::DGRAM, Some(ipproto::UDP)) if is_internet => Sort::Udp,
            (_, SocketType::DGRAM, Some(ipproto::ICMP | ipproto::ICMPV6)) if is_internet => Sort::Echo,
            _ => Sort::Other,
        };
        let place = Place::of(Namespace::of(&file)?, namespaces);
        Ok(Socket { file, domain, sort, place })
    }

    /// What an internet socket is bound to; port 0 if it is not.
    pub fn local(&self) -> Result<SocketAddr, Errno> {
        local(self)
    }

    /// listen(2) was called.
    pub fn is_listening(&self) -> Result<bool, Errno> {
        Ok(sockopt::socket_acceptconn(self)?)
    }

    /// Whether an IPv6 socket takes part in IPv4 as well.
    pub fn is_dual(&self) -> bool {
        self.domain == AddressFamily::INET6 && sockopt::ipv6_v6only(self) == Ok(false)
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// What an internet socket is bound to; port 0 if it is not.
pub fn local(socket: impl AsFd) -> Result<SocketAddr, Errno> {
    address::of_bytes(&raw::name(socket, false)?).ok_or(Errno::INVAL)
}

/// A number that is this socket's and no other's as long as the machine runs, `SO_COOKIE`.
pub fn cookie(socket: impl AsFd) -> Result<u64, Errno> {
    Ok(sockopt::socket_cookie(socket)?)
}
