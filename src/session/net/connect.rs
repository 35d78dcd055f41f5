//! connect(2) of TCP: whose network an address is in, the verdict, and the connection on the tool's own socket.
//!
//! Runs as the user in the supervisor. A connection that takes its time takes it here, in the thread that serves this one
//! attempt; [`crate::session::stuck`] ends it for the tool's signals.

use std::net::SocketAddr;

use rustix::fs::{OFlags, fcntl_getfl};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use super::address::{self, UNSUITABLE};
use super::raw;
use super::serving::Serving;
use super::socket::{Place, Socket};
use crate::common::access::Access;
use crate::common::errno::Errno;
use crate::common::net::Transport;
use crate::session::judge::{Approvals, Halt};
use crate::session::listener::Answer;

/// A connection that may be made.
pub(super) struct Way {
    /// The network to make it in.
    pub place: Place,
    /// As the tool wrote it, but never the unspecified address.
    pub peer: Vec<u8>,
}

impl Serving<'_> {
    pub(super) fn connect_tcp(&self, socket: &Socket, bytes: &[u8], approvals: &mut Approvals) -> Result<Answer, Halt> {
        // `inet_stream_connect`: before it looks at the socket.
        if bytes.len() < size_of::<libc::sa_family_t>() {
            return Err(Errno::INVAL.into());
        }
        if address::is_unspecified(bytes) {
            return self.disconnect(socket, bytes);
        }
        if let Some(answer) = self.settled(socket) {
            return Ok(answer);
        }
        let way = self.way(socket, bytes, approvals)?;
        self.begin(socket, way.place, |socket| raw::connect(socket, &way.peer).map(|()| 0))
    }

    /// Ends an association, after which the socket may be connected again: and is judged again.
    fn disconnect(&self, socket: &Socket, bytes: &[u8]) -> Result<Answer, Halt> {
        // A socket that listens loses its address with it.
        let _turn = self.network.published.turn();
        self.target.confirm()?;
        raw::connect(socket, bytes)?;
        Ok(Answer::Value(0))
    }

    /// The verdict on a connection of a socket that has none.
    pub(super) fn way(&self, socket: &Socket, bytes: &[u8], approvals: &mut Approvals) -> Result<Way, Halt> {
        let written = address::parse(bytes, socket.domain)?;
        let meant = address::meant(written);
        // The unspecified address is, to the kernel, the one that the socket is bound to: what is judged is written out.
        let peer = if written.ip().to_canonical().is_unspecified() {
            address::to_bytes(address::for_domain(meant, socket.domain).ok_or(Errno::NETUNREACH)?)
        } else {
            address::to_bytes(written)
        };
        let is_here = address::is_loopback(meant.ip()) || address::is_own(meant.ip());
        if (is_here || meant.port() == address::DOMAIN) && self.somebody_inside(meant) {
            return Ok(Way { place: Place::Session, peer });
        }
        if address::is_own(meant.ip()) {
            return refused(socket, peer);
        }
        let place = if socket.place == Place::Elsewhere { Place::Elsewhere } else { Place::Host };
        let listener = if is_here { self.network.on_host.as_ref().and_then(|host| host.at(meant).ok()) } else { None };
        let is_published = |of: super::listeners::Listener| self.network.published.turn().has(of.cookie);
        if listener.flatten().is_some_and(is_published) {
            return Ok(Way { place, peer });
        }
        let foresee = || match listener {
            Some(None) => Some(Errno::CONNREFUSED),
            _ => unreachable_from_here(socket, written),
        };
        match self.permit(Access::Connect, self.destination(meant, Transport::Tcp), approvals, foresee) {
            Err(Halt::Answer(Answer::Errno(Errno::CONNREFUSED))) if matches!(listener, Some(None)) => {
                refused(socket, peer)
            }
            permitted => permitted.map(|_| Way { place, peer }),
        }
    }

    /// Whether the session has a listener that answers there.
    fn somebody_inside(&self, address: SocketAddr) -> bool {
        self.network.in_session.as_ref().is_some_and(|inside| inside.at(address).is_ok_and(|found| found.is_some()))
    }

    /// What connect(2) says of a socket that is connected or connecting, listens, or was connecting until an error came; it
    /// waits for a connection where a blocking socket's would. `None` for one that has no connection.
    pub(super) fn settled(&self, socket: &Socket) -> Option<Answer> {
        let _connecting = self.target.connects();
        match raw::connect(socket, &UNSUITABLE) {
            Err(Errno::AFNOSUPPORT) => None,
            Err(errno) => Some(Answer::Errno(errno)),
            Ok(()) => Some(Answer::Value(0)),
        }
    }

    /// Does what connects, on the socket itself or, where that is in another network, on one that takes its place.
    pub(super) fn begin(
        &self,
        socket: &Socket,
        place: Place,
        connect: impl FnOnce(&Socket) -> Result<u32, Errno>,
    ) -> Result<Answer, Halt> {
        if socket.place == place {
            self.target.confirm()?;
            let _connecting = self.target.connects();
            return Ok(Answer::Value(connect(socket)?));
        }
        let moved = self.remade(socket, place)?;
        self.target.confirm()?;
        // Before it connects: its peer may accept, answer and close before connect(2) returns, and other threads of the tool
        // see of the connection what they would see bare. Only epoll(7) hears of it afterwards, as of a socket without a
        // connection it would tell of a hang-up.
        let unheard = self.put_in_place(socket, &moved)?;
        let connecting = self.target.connects();
        let done = connect(&moved);
        drop(connecting);
        unheard.register();
        Ok(Answer::Value(done?))
    }
}

/// Where nobody listens. A socket that does not wait is told so afterwards, as by the kernel (`EINPROGRESS`, then `SO_ERROR`):
/// it tries it in the session's own network, where nobody listens either.
fn refused(socket: &Socket, peer: Vec<u8>) -> Result<Way, Halt> {
    let waits = !fcntl_getfl(socket).map_err(Errno::from)?.contains(OFlags::NONBLOCK);
    if waits || socket.place == Place::Elsewhere {
        return Err(Errno::CONNREFUSED.into());
    }
    Ok(Way { place: Place::Session, peer })
}

/// The error that a connection would meet before its first packet. A datagram socket tells, and sends nothing.
fn unreachable_from_here(socket: &Socket, peer: SocketAddr) -> Option<Errno> {
    if socket.domain == AddressFamily::INET6 && peer.ip().to_canonical().is_ipv4() && !socket.is_dual() {
        return Some(Errno::NETUNREACH);
    }
    if socket.place == Place::Elsewhere {
        return None;
    }
    match peer.ip().to_canonical() {
        // `tcp_v4_connect`, `tcp_v6_connect`
        ip if ip.is_multicast() || ip == std::net::Ipv4Addr::BROADCAST => return Some(Errno::NETUNREACH),
        _ => {}
    }
    let probe = socket_with(socket.domain, SocketType::DGRAM, SocketFlags::CLOEXEC, None).ok()?;
    raw::connect(&probe, &address::to_bytes(peer)).err()
}
