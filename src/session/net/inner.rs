//! The session's network namespace as the supervisor sees it from the host's: it cannot enter it, but init makes sockets there
//! for it, and a socket stays in the namespace that it was made in.
//!
//! Runs as the user in the supervisor. What comes from init is of ours.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

use rustix::net::{AddressFamily, Protocol, SocketFlags, SocketType, netlink, socket_with};

use super::raw::netns_cookie;
use crate::common::errno::Errno;
use crate::tool::link::Link;
use crate::tool::messages::{SocketOrder, SocketOrders, SocketsMade};

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

/// What a session's start takes: the one that tells the namespace, those that ask the kernel who listens and who is bound, and
/// the resolver's.
const AT_START: [(AddressFamily, SocketType, Option<Protocol>); 7] = [
    (AddressFamily::UNIX, SocketType::STREAM, None),
    (AddressFamily::NETLINK, SocketType::DGRAM, Some(netlink::SOCK_DIAG)),
    (AddressFamily::NETLINK, SocketType::DGRAM, Some(netlink::SOCK_DIAG)),
    (AddressFamily::INET, SocketType::DGRAM, None),
    (AddressFamily::INET, SocketType::STREAM, None),
    (AddressFamily::INET6, SocketType::DGRAM, None),
    (AddressFamily::INET6, SocketType::STREAM, None),
];

/// Makes sockets in the session's network namespace.
pub struct Inner {
    /// One frame of orders and its answer at a time.
    link: Mutex<Orders>,
}

/// What was ordered, and what came of it.
type Made = (SocketOrder, Result<OwnedFd, Errno>);

struct Orders {
    link: Link<SocketOrders, SocketsMade>,
    /// Ordered ahead, and the answer still to be received.
    ahead: SocketOrders,
    /// Made ahead.
    stock: Vec<Made>,
}

impl Orders {
    fn receive(&mut self, orders: SocketOrders) -> Result<Vec<Made>, Errno> {
        let answer = self.link.receive().ok().flatten().ok_or(Errno::IO)?;
        let mut sockets = answer.fds.into_iter();
        let made = |told: Result<(), Errno>| told.and_then(|()| sockets.next().ok_or(Errno::IO));
        let made: Vec<_> = answer.message.into_iter().map(made).collect();
        if made.len() == orders.len() { Ok(orders.into_iter().zip(made).collect()) } else { Err(Errno::IO) }
    }

    fn make(&mut self, order: SocketOrder) -> Result<OwnedFd, Errno> {
        if !self.ahead.is_empty() {
            let orders = std::mem::take(&mut self.ahead);
            self.stock = self.receive(orders)?;
        }
        if let Some(at) = self.stock.iter().position(|(known, _)| *known == order) {
            return self.stock.swap_remove(at).1;
        }
        self.link.send(&vec![order], &[]).map_err(|_| Errno::IO)?;
        self.receive(vec![order])?.pop().map_or(Err(Errno::IO), |(_, made)| made)
    }
}

fn order(domain: AddressFamily, kind: SocketType, protocol: Option<Protocol>) -> SocketOrder {
    let protocol = protocol.map_or(0, |protocol| protocol.as_raw().get());
    SocketOrder { domain: domain.as_raw(), kind: kind.as_raw(), protocol }
}

impl Inner {
    /// Over a link to an init that serves it, or will.
    pub fn new(link: Link<SocketOrders, SocketsMade>) -> Inner {
        Inner { link: Mutex::new(Orders { link, ahead: Vec::new(), stock: Vec::new() }) }
    }

    /// Orders what a session's start takes, all at once: one answer instead of one for each. Init need not serve yet.
    pub fn order_ahead(&self) -> Result<(), Errno> {
        let orders: SocketOrders = AT_START.map(|(domain, kind, protocol)| order(domain, kind, protocol)).into();
        let mut link = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        link.link.send(&orders, &[]).map_err(|_| Errno::IO)?;
        link.ahead = orders;
        Ok(())
    }

    /// socket(2) in the session's network namespace: blocking, close-on-exec. Its errors; `EIO` if init is gone, with which
    /// the session is.
    pub fn socket(
        &self,
        domain: AddressFamily,
        kind: SocketType,
        protocol: Option<Protocol>,
    ) -> Result<OwnedFd, Errno> {
        let mut link = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        link.make(order(domain, kind, protocol))
    }

    /// The namespaces, told by a socket of each.
    pub fn namespaces(&self) -> Result<Namespaces, Errno> {
        let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
        let host = socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
        let session = self.socket(family, kind, None)?;
        Ok(Namespaces { host: Namespace::of(host)?, session: Namespace::of(session)? })
    }
}

#[cfg(test)]
mod tests {
    use rustix::net::sockopt::{socket_domain, socket_type};

    use super::*;
    use crate::tool::link;

    /// Makes what is ordered, but no sockets of IPv6; returns how many frames of orders there were.
    fn serve(link: Link<SocketsMade, SocketOrders>) -> usize {
        let mut frames = 0;
        while let Some(received) = link.receive().unwrap() {
            frames += 1;
            let make = |order: &SocketOrder| {
                let (domain, kind) = (AddressFamily::from_raw(order.domain), SocketType::from_raw(order.kind));
                let protocol = std::num::NonZeroU32::new(order.protocol).map(Protocol::from_raw);
                match domain {
                    AddressFamily::INET6 => Err(Errno::AFNOSUPPORT),
                    domain => Ok(socket_with(domain, kind, SocketFlags::CLOEXEC, protocol).unwrap()),
                }
            };
            let made: Vec<Result<OwnedFd, Errno>> = received.message.iter().map(make).collect();
            let told = made.iter().map(|made| made.as_ref().map(drop).map_err(|errno| *errno)).collect();
            let sockets: Vec<_> = made.iter().flatten().map(AsFd::as_fd).collect();
            link.send(&told, &sockets).unwrap();
        }
        frames
    }

    #[test]
    fn what_was_ordered_ahead_is_given_once_and_the_rest_is_made_when_it_is_wanted() {
        let (ours, theirs) = link::pair().unwrap();
        let inner = Inner::new(Link::new(ours));
        inner.order_ahead().unwrap();
        let init = std::thread::spawn(move || serve(Link::new(theirs)));
        for (domain, kind, protocol) in AT_START {
            let made = inner.socket(domain, kind, protocol);
            match domain {
                AddressFamily::INET6 => assert_eq!(made.err(), Some(Errno::AFNOSUPPORT)),
                domain => {
                    let socket = made.unwrap();
                    assert_eq!((socket_domain(&socket), socket_type(&socket)), (Ok(domain), Ok(kind)));
                }
            }
        }
        let another = inner.socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        assert_eq!((socket_domain(&another), socket_type(&another)), (Ok(AddressFamily::INET), Ok(SocketType::STREAM)));
        drop(inner);
        assert_eq!(init.join().unwrap(), 2, "one frame for all of the start, one for the socket after it");
    }

    #[test]
    fn without_init_there_is_no_socket() {
        let (ours, theirs) = link::pair().unwrap();
        let inner = Inner::new(Link::new(ours));
        inner.order_ahead().unwrap();
        drop(theirs);
        assert_eq!(inner.socket(AddressFamily::UNIX, SocketType::STREAM, None).err(), Some(Errno::IO));
        assert_eq!(inner.socket(AddressFamily::UNIX, SocketType::STREAM, None).err(), Some(Errno::IO));
    }
}
