//! bind(2) of TCP: what only the session can reach is the session's own matter; what others can reach is judged.
//!
//! Runs as the user in the supervisor.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with, sockopt};

use super::address;
use super::raw;
use super::serving::Serving;
use super::socket::{Place, Socket, cookie, local};
use crate::common::access::Access;
use crate::common::errno::Errno;
use crate::common::net::{Destination, Transport};
use crate::session::judge::{Approvals, Halt};
use crate::session::listener::Answer;

impl Serving<'_> {
    pub(super) fn bind_tcp(&self, socket: &Socket, bytes: &[u8], approvals: &mut Approvals) -> Result<Answer, Halt> {
        let wanted = address::parse_for_bind(bytes, socket.domain)?;
        if self.is_bound(socket)? {
            return Err(Errno::INVAL.into());
        }
        if socket.place == Place::Elsewhere {
            return self.bind_judged(socket, Place::Elsewhere, wanted, approvals);
        }
        let ip = wanted.ip().to_canonical();
        if ip.is_unspecified() && wanted.port() == 0 {
            // The kernel's choice of a port, for a connection perhaps: nobody can reach it before it listens.
            return self.bind_at(socket, socket.place, wanted, false);
        }
        if !address::is_loopback(ip) && !address::is_own(ip) {
            return self.bind_judged(socket, Place::Host, wanted, approvals);
        }
        for asked_for in spoken_of(wanted, socket.is_dual()) {
            if self.judge.speaks_of_bind(self.target, &destination(asked_for))? {
                let wanted = address::for_domain(asked_for, socket.domain).unwrap_or(wanted);
                return self.bind_judged(socket, Place::Host, wanted, approvals);
            }
        }
        self.bind_at(socket, Place::Session, wanted, false)
    }

    /// Whether it cannot be bound again (`__inet_bind`). The port that getsockname(2) tells may be one that it had for a
    /// connection that came to nothing, and has no more: to one that is taken it can then be bound as little, but that is
    /// another error.
    pub(super) fn is_bound(&self, socket: &Socket) -> Result<bool, Errno> {
        if socket.local()?.port() == 0 {
            return Ok(false);
        }
        let any = if socket.domain == AddressFamily::INET6 {
            IpAddr::V6(Ipv6Addr::UNSPECIFIED)
        } else {
            IpAddr::V4(Ipv4Addr::UNSPECIFIED)
        };
        let Some(taken) = self.fresh(socket.domain, socket.place)? else { return Ok(true) };
        raw::bind(&taken, &address::to_bytes(SocketAddr::new(any, 0)))?;
        Ok(raw::bind(socket, &address::to_bytes(local(&taken)?)) != Err(Errno::ADDRINUSE))
    }

    /// Where others than the session can reach it.
    pub(super) fn bind_judged(
        &self,
        socket: &Socket,
        place: Place,
        wanted: SocketAddr,
        approvals: &mut Approvals,
    ) -> Result<Answer, Halt> {
        self.permit(Access::Bind, destination(wanted), approvals, || is_foreign(socket, wanted))?;
        self.bind_at(socket, place, wanted, true)
    }

    fn bind_at(&self, socket: &Socket, place: Place, wanted: SocketAddr, was_judged: bool) -> Result<Answer, Halt> {
        let bytes = address::to_bytes(wanted);
        let moved = if socket.place == place { None } else { Some(self.remade(socket, place)?) };
        let bound = moved.as_ref().unwrap_or(socket);
        if was_judged {
            // Others that share the port would have some of its connections, and it some of theirs (socket(7), `SO_REUSEPORT`).
            sockopt::set_socket_reuseport(bound, false).map_err(Errno::from)?;
        }
        let mut turn = self.network.published.turn();
        self.target.confirm()?;
        raw::bind(bound, &bytes)?;
        if was_judged {
            turn.enter(cookie(bound)?, local(bound)?);
        }
        drop(turn);
        if let Some(moved) = &moved {
            self.put_in_place(socket, moved)?.register();
        }
        Ok(Answer::Value(0))
    }
}

pub(super) fn destination(address: SocketAddr) -> Destination {
    Destination::address(address, Transport::Tcp, Vec::new())
}

/// The addresses of which a rule may speak where a tool binds to this one: itself, and for "wherever I am" the narrower ones
/// that it contains. A tool that listens everywhere is then bound to what the rule says, and to no more.
fn spoken_of(wanted: SocketAddr, is_dual: bool) -> Vec<SocketAddr> {
    const V4: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V4(Ipv4Addr::LOCALHOST)];
    const V6: [IpAddr; 2] = [IpAddr::V6(Ipv6Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::LOCALHOST)];
    let of: &[&[IpAddr]] = match wanted.ip().to_canonical() {
        IpAddr::V4(ip) if ip.is_unspecified() => &[&V4],
        IpAddr::V6(ip) if ip.is_unspecified() && is_dual => &[&V6, &V4],
        IpAddr::V6(ip) if ip.is_unspecified() => &[&V6],
        ip => return vec![SocketAddr::new(ip, wanted.port())],
    };
    of.iter().copied().flatten().map(|ip| SocketAddr::new(*ip, wanted.port())).collect()
}

/// The error of an address that this machine does not have, told by a datagram socket that is gone at once.
fn is_foreign(socket: &Socket, wanted: SocketAddr) -> Option<Errno> {
    if socket.place == Place::Elsewhere {
        return None;
    }
    let probe = socket_with(socket.domain, SocketType::DGRAM, SocketFlags::CLOEXEC, None).ok()?;
    let mut anywhere = wanted;
    anywhere.set_port(0);
    raw::bind(&probe, &address::to_bytes(anywhere)).err()
}
