//! A socket cannot change its network namespace, so one of the other takes its place: with the options that can be read,
//! bound as the old one was, at every descriptor of the process that is the old one, and registered with epoll(7) as that
//! was. What this cannot carry over is in docs/architecture.md.
//!
//! Runs as the user in the supervisor.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl, fstat};
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, socket_with};

use super::address;
use super::raw::{self, Registration};
use super::serving::Serving;
use super::socket::{Place, Socket};
use crate::common::errno::Errno;
use crate::session::judge::Halt;

/// Options that a program may have set before it connects, binds or listens: level, name, bytes. asm-generic/socket.h,
/// linux/in.h, linux/in6.h, linux/tcp.h.
const OPTIONS: &[(i32, i32, usize)] = &[
    (libc::SOL_SOCKET, libc::SO_REUSEADDR, 4),
    (libc::SOL_SOCKET, libc::SO_REUSEPORT, 4),
    (libc::SOL_SOCKET, libc::SO_KEEPALIVE, 4),
    (libc::SOL_SOCKET, libc::SO_OOBINLINE, 4),
    (libc::SOL_SOCKET, libc::SO_LINGER, 8),
    (libc::SOL_SOCKET, libc::SO_RCVLOWAT, 4),
    (libc::SOL_SOCKET, libc::SO_RCVTIMEO, 16),
    (libc::SOL_SOCKET, libc::SO_SNDTIMEO, 16),
    (libc::SOL_SOCKET, libc::SO_PRIORITY, 4),
    (libc::SOL_SOCKET, libc::SO_TIMESTAMP, 4),
    (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 4),
    (libc::SOL_SOCKET, libc::SO_ZEROCOPY, 4),
    (libc::SOL_SOCKET, libc::SO_PREFER_BUSY_POLL, 4),
    (libc::IPPROTO_IP, libc::IP_TOS, 4),
    (libc::IPPROTO_IP, libc::IP_TTL, 4),
    (libc::IPPROTO_IP, libc::IP_RECVERR, 4),
    (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, 4),
    (libc::IPPROTO_IP, libc::IP_FREEBIND, 4),
    (libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 4),
    (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 4),
    (libc::IPPROTO_IPV6, libc::IPV6_TCLASS, 4),
    (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS, 4),
    (libc::IPPROTO_IPV6, libc::IPV6_RECVERR, 4),
    (libc::IPPROTO_TCP, libc::TCP_NODELAY, 4),
    (libc::IPPROTO_TCP, libc::TCP_CORK, 4),
    (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, 4),
    (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, 4),
    (libc::IPPROTO_TCP, libc::TCP_KEEPCNT, 4),
    (libc::IPPROTO_TCP, libc::TCP_SYNCNT, 4),
    (libc::IPPROTO_TCP, libc::TCP_LINGER2, 4),
    (libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, 4),
    (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, 4),
    (libc::IPPROTO_TCP, libc::TCP_FASTOPEN, 4),
    (libc::IPPROTO_TCP, libc::TCP_FASTOPEN_CONNECT, 4),
    (libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, 4),
    (libc::IPPROTO_TCP, libc::TCP_INQ, 4),
    (libc::IPPROTO_TCP, libc::TCP_CONGESTION, 16),
];

/// Buffers are told twice as large as they were asked for, socket(7), and were asked for only where this says so: asm-generic's
/// `SO_BUF_LOCK`, Linux 5.15, and its bits.
const SO_BUF_LOCK: i32 = 72;
const BUFFERS: [(i32, u32); 2] = [(libc::SO_SNDBUF, 1), (libc::SO_RCVBUF, 2)];

impl Serving<'_> {
    /// A socket in another network that is what this one is, as far as it has no connection. The tool does not have it yet.
    pub(super) fn remade(&self, socket: &Socket, place: Place) -> Result<Socket, Halt> {
        let fresh = self.fresh(socket.domain, place)?.ok_or(Errno::ACCES)?;
        copy_options(socket.as_fd(), fresh.as_fd());
        let flags = fcntl_getfl(socket).map_err(Errno::from)?;
        fcntl_setfl(&fresh, flags & (OFlags::NONBLOCK | OFlags::ASYNC)).map_err(Errno::from)?;
        if self.is_bound(socket)? {
            raw::bind(&fresh, &address::to_bytes(socket.local()?))?;
        }
        Ok(Socket { file: Arc::new(fresh), place, ..socket.clone() })
    }

    /// A socket of TCP in one of the session's two networks, that waits.
    pub(super) fn fresh(&self, domain: AddressFamily, place: Place) -> Result<Option<OwnedFd>, Errno> {
        let (kind, protocol) = (SocketType::STREAM, Some(ipproto::TCP));
        match place {
            Place::Session => self.network.inner.socket(domain, kind, protocol).map(Some),
            Place::Host => Ok(Some(socket_with(domain, kind, SocketFlags::CLOEXEC, protocol)?)),
            Place::Elsewhere => Ok(None),
        }
    }

    /// Gives the tool `new` wherever it has `old`, but for epoll(7), which hears of it when the answer says so.
    pub(super) fn put_in_place(&self, old: &Socket, new: &Socket) -> Result<Unheard, Halt> {
        let inode = fstat(old).map_err(Errno::from)?.st_ino;
        let open = self.target.descriptors()?;
        let mut polled = Vec::new();
        for epoll in open.iter().filter(|open| open.is_epoll()) {
            let registered = self.target.epoll_registrations(epoll.number)?;
            for (_, known) in registered.into_iter().filter(|(of, _)| *of == inode) {
                if let Ok(epoll) = self.target.duplicate(epoll.number) {
                    polled.push((epoll, known));
                }
            }
        }
        let listener = self.target.listener();
        for own in open.iter().filter(|open| open.is_socket(inode)) {
            let closes = self.target.is_closed_on_exec(own.number)?;
            listener.replace(self.target.notification(), new.as_fd(), own.number, closes)?;
        }
        Ok(Unheard { socket: new.clone(), polled })
    }
}

/// A socket that is in place of another, and what the other was registered with.
#[must_use]
pub(super) struct Unheard {
    socket: Socket,
    polled: Vec<(OwnedFd, Registration)>,
}

impl Unheard {
    /// Registers it as the other was.
    pub(super) fn register(self) {
        for (epoll, registration) in self.polled {
            register(&epoll, &self.socket, registration);
        }
    }
}

/// On a thread of its own, whose table of descriptors becomes its own: what is open here is closed here. A registration that
/// cannot be made is as one of a file that is closed: nothing is heard of it.
fn register(epoll: &OwnedFd, socket: &Socket, registration: Registration) {
    std::thread::scope(|scope| {
        let run = || raw::register(epoll.as_fd(), socket.as_fd(), registration);
        let thread = std::thread::Builder::new().name("gated-epoll".to_owned()).stack_size(64 * 1024);
        if let Ok(thread) = thread.spawn_scoped(scope, run) {
            let _ = thread.join();
        }
    });
}

/// What differs from a fresh socket's own. An option that cannot be read or set is left as it is.
fn copy_options(from: BorrowedFd<'_>, to: BorrowedFd<'_>) {
    for &(level, option, bytes) in OPTIONS {
        let (mut theirs, mut ours) = ([0; 16], [0; 16]);
        let (Some(theirs), Some(ours)) = (theirs.get_mut(..bytes), ours.get_mut(..bytes)) else { continue };
        let (Ok(length), Ok(_)) = (raw::get(from, level, option, theirs), raw::get(to, level, option, ours)) else {
            continue;
        };
        if theirs != ours {
            let _ = raw::set(to, level, option, theirs.get(..length).unwrap_or_default());
        }
    }
    let mut locked = [0; 4];
    if raw::get(from, libc::SOL_SOCKET, SO_BUF_LOCK, &mut locked).is_err() {
        return;
    }
    for (option, bit) in BUFFERS {
        let mut size = [0; 4];
        let is_own = u32::from_ne_bytes(locked) & bit != 0;
        if is_own && raw::get(from, libc::SOL_SOCKET, option, &mut size).is_ok() {
            let asked = u32::from_ne_bytes(size) / 2;
            let _ = raw::set(to, libc::SOL_SOCKET, option, &asked.to_ne_bytes());
        }
    }
}
