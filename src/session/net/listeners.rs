//! Who would answer a connection to this machine: asked of the kernel, sock_diag(7), which does the very look-up that a
//! connection's first packet would meet. Nothing is sent, so nobody notices.
//!
//! Runs as the user in the supervisor.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with};

use super::inner::Inner;
use crate::common::errno::Errno;

// linux/netlink.h, linux/sock_diag.h.
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const REQUEST: u16 = 1;
const HEADER: usize = 16;
/// In `struct inet_diag_msg`, linux/inet_diag.h: the state, and where the socket's cookie begins.
const STATE: usize = HEADER + 1;
const COOKIE: usize = HEADER + 44;
/// `TCP_LISTEN`, include/net/tcp_states.h.
const LISTEN: u8 = 10;
/// `lo` of every network namespace.
const LOOPBACK: u32 = 1;

/// One network namespace.
pub struct Listeners(Mutex<OwnedFd>);

/// A TCP socket that listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listener {
    /// `SO_COOKIE`.
    pub cookie: u64,
}

impl Listeners {
    /// Those of this process's namespace. `EPROTONOSUPPORT` on a kernel without sock_diag.
    pub fn of_host() -> Result<Listeners, Errno> {
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::NETLINK, SocketType::DGRAM, flags, Some(netlink::SOCK_DIAG))?;
        Ok(Listeners(Mutex::new(socket)))
    }

    /// Those of the session's.
    pub fn of_session(inner: &Inner) -> Result<Listeners, Errno> {
        let socket = inner.socket(AddressFamily::NETLINK, SocketType::DGRAM, Some(netlink::SOCK_DIAG))?;
        Ok(Listeners(Mutex::new(socket)))
    }

    /// The socket that a connection to this address, made on this machine, would reach. `address` as in [`super::address::meant`].
    pub fn at(&self, address: SocketAddr) -> Result<Option<Listener>, Errno> {
        let socket = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        send(&*socket, &question(address), SendFlags::empty())?;
        let mut answer = [0; 1024];
        let length = loop {
            match recv(&*socket, &mut answer, RecvFlags::empty()) {
                Err(rustix::io::Errno::INTR) => {}
                received => break received?.0,
            }
        };
        let answer = answer.get(..length).unwrap_or_default();
        let word = |at: usize| answer.get(at..).and_then(<[u8]>::first_chunk).map(|bytes| u16::from_ne_bytes(*bytes));
        match word(4) {
            Some(SOCK_DIAG_BY_FAMILY) if answer.get(STATE) == Some(&LISTEN) => {
                let cookie = answer.get(COOKIE..).and_then(<[u8]>::first_chunk).ok_or(Errno::IO)?;
                Ok(Some(Listener { cookie: u64::from_ne_bytes(*cookie) }))
            }
            Some(SOCK_DIAG_BY_FAMILY) => Ok(None),
            // `struct nlmsgerr`; an error is negative.
            _ => {
                let error = answer.get(HEADER..).and_then(<[u8]>::first_chunk).map_or(0, |e| i32::from_ne_bytes(*e));
                match Errno::new(error.saturating_neg()) {
                    Some(Errno::NOENT) => Ok(None),
                    other => Err(other.unwrap_or(Errno::IO)),
                }
            }
        }
    }
}

/// `struct inet_diag_req_v2` for the one socket that a packet from nowhere in particular to this address is for.
fn question(address: SocketAddr) -> Vec<u8> {
    let (family, octets) = match address.ip() {
        IpAddr::V4(ip) => (libc::AF_INET as u8, ip.octets().to_vec()),
        IpAddr::V6(ip) => (libc::AF_INET6 as u8, ip.octets().to_vec()),
    };
    let mut body = vec![family, libc::IPPROTO_TCP as u8, 0, 0];
    body.extend(u32::MAX.to_ne_bytes());
    body.extend(address.port().to_be_bytes());
    body.extend([0; 2]);
    body.extend(&octets);
    body.resize(body.len() + 16 - octets.len(), 0);
    body.extend([0; 16]);
    body.extend(LOOPBACK.to_ne_bytes());
    // `INET_DIAG_NOCOOKIE`
    body.extend([0xff; 8]);
    let mut message = ((HEADER + body.len()) as u32).to_ne_bytes().to_vec();
    message.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    message.extend(REQUEST.to_ne_bytes());
    message.extend([0; 8]);
    message.extend(body);
    message
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr, TcpListener};

    use super::*;
    use crate::session::net::socket::cookie;

    #[test]
    fn whoever_would_answer_is_found_and_nobody_else() {
        let listeners = Listeners::of_host().unwrap();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let found = listeners.at(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port)).unwrap();
        assert_eq!(found.map(|found| found.cookie), Some(cookie(&listener).unwrap()));
        assert_eq!(listeners.at(SocketAddr::new(Ipv4Addr::new(127, 0, 0, 2).into(), port)), Ok(None));
        assert_eq!(listeners.at(SocketAddr::new(Ipv6Addr::LOCALHOST.into(), port)), Ok(None));
        drop(listener);
        assert_eq!(listeners.at(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port)), Ok(None));
    }

    #[test]
    fn a_socket_that_is_only_bound_or_connected_is_no_listener() {
        let listeners = Listeners::of_host().unwrap();
        let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let ours = std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        let own = ours.local_addr().unwrap();
        assert_eq!(listeners.at(address_of(own)), Ok(None));
        assert!(
            listeners.at(SocketAddr::new(Ipv4Addr::new(127, 3, 3, 3).into(), port)).unwrap().is_some(),
            "dual stack"
        );
    }

    fn address_of(address: SocketAddr) -> SocketAddr {
        crate::session::net::address::meant(address)
    }
}
