//! UDP to a peer: native in the session's own network, where it reaches nobody; by rule or answer through
//! [`super::relay`].
//!
//! Runs as the user in the supervisor. Only connect(2) and sendto(2) come here; sendmsg(2) to an address reaches whom one of
//! them, or a rule when the peer's name was looked up, has opened the way to.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use super::Network;
use super::relay::{From, can_be_relayed};
use super::serving::Serving;
use super::socket::{Place, Socket};
use super::{address, raw};
use crate::common::access::{Access, Level};
use crate::common::errno::Errno;
use crate::common::id::CallId;
use crate::common::net::{Destination, HostName, Transport, canonical};
use crate::common::request::Operation;
use crate::policy::decide::Policy;
use crate::policy::grants::Grants;
use crate::policy::network::Reaching;
use crate::session::decode::network::{Asked, Message};
use crate::session::judge::{Approvals, Halt, Wanted};
use crate::session::listener::Answer;
use crate::tool::network::{OWN_V4, OWN_V6};

impl Network {
    /// Opens the ways that rules allow to everybody, at exact ports of this name: a program that only uses sendmsg(2) asks for
    /// no other.
    pub fn let_udp_out(&self, policy: &Policy, name: &HostName, addresses: &[IpAddr]) {
        for (port, ip) in
            exact_ports(policy, name).into_iter().flat_map(|port| addresses.iter().map(move |ip| (port, ip)))
        {
            let peer = SocketAddr::new(canonical(*ip), port);
            let destination = Destination::address(peer, Transport::Udp, self.names_for(peer));
            let reaching = Reaching { destination: &destination, program: &|| None };
            let verdict = policy.decide_connect(&reaching, CallId(0), &Grants::new());
            if verdict.level == Level::Allow && can_be_relayed(peer) {
                // Who has the address inside has it: then nothing is let out.
                let _ = self.relay.open(&self.inner, peer, From::Everybody);
            }
        }
    }
}

/// The single ports of which rules for UDP to this name speak.
fn exact_ports(policy: &Policy, name: &HostName) -> BTreeSet<u16> {
    let rules = policy.profile().rules.iter().filter(|rule| rule.access.contains(&Access::Connect));
    let terms =
        rules.filter_map(|rule| rule.network.as_ref()).filter(|terms| terms.transports.contains(&Transport::Udp));
    let hosts = terms.flat_map(|terms| &terms.hosts).filter(|term| term.ports.first() == term.ports.last());
    hosts.filter(|term| term.matches_name(name, term.ports.first())).map(|term| term.ports.first()).collect()
}

/// Where datagrams to `peer` (canonical) of a socket that is bound like this come from: of one that is bound to no address, from the session's own
/// (the source of its only route).
fn source(bound: SocketAddr, peer: SocketAddr) -> SocketAddr {
    let ip = match bound.ip().to_canonical() {
        ip if ip.is_unspecified() && peer.is_ipv4() => OWN_V4.into(),
        ip if ip.is_unspecified() => OWN_V6.into(),
        ip => ip,
    };
    SocketAddr::new(ip, bound.port())
}

impl Serving<'_> {
    /// What is denied is connected all the same: nothing is sent by it, and many programs only ask so which of their own
    /// addresses they would use (getaddrinfo(3) does). What is sent then is refused, in the session.
    pub(super) fn connect_udp(
        &self,
        socket: &Socket,
        asked: &Asked,
        bytes: &[u8],
        approvals: &mut Approvals,
    ) -> Result<Answer, Halt> {
        let Some(peer) = address::of_bytes(bytes).map(address::meant).filter(|_| !address::is_unspecified(bytes))
        else {
            return self.native(socket, asked);
        };
        if socket.place != Place::Session {
            self.permit_udp(peer, approvals)?;
            return self.native(socket, asked);
        }
        let destination = self.destination(peer, Transport::Udp);
        if !can_be_relayed(peer) || self.level_of(&destination)? == Level::Deny {
            return self.native(socket, asked);
        }
        self.permit_udp(peer, approvals)?;
        let answer = self.native(socket, asked)?;
        self.network.relay.open(&self.network.inner, peer, From::Source(source(socket.local()?, peer)))?;
        Ok(answer)
    }

    /// A datagram that would be cut is none.
    pub(super) fn send_udp(
        &self,
        socket: &Socket,
        message: &Message,
        approvals: &mut Approvals,
    ) -> Result<Answer, Halt> {
        if !message.is_whole {
            return Err(Errno::MSGSIZE.into());
        }
        if message.to.is_empty() && message.flags & libc::MSG_FASTOPEN == 0 {
            // What has no address at all is not held: this one has no bytes, `udp_sendmsg`.
            return Err(Errno::INVAL.into());
        }
        let peer = address::of_bytes(&message.to).map(address::meant);
        if peer.is_none() && socket.place != Place::Session {
            // `udp_sendmsg` takes an address without a family for one of IPv4.
            return Err(Errno::ACCES.into());
        }
        if let Some(peer) = peer {
            if socket.place != Place::Session {
                self.permit_udp(peer, approvals)?;
            } else if can_be_relayed(peer) {
                self.permit_udp(peer, approvals)?;
                let from = source(self.bound(socket)?, peer);
                self.network.relay.open(&self.network.inner, peer, From::Source(from))?;
            }
        }
        self.target.confirm()?;
        message.send(socket, &message.to)
    }

    /// What the socket is bound to: the kernel's choice of a port, if it has not made one yet.
    fn bound(&self, socket: &Socket) -> Result<SocketAddr, Errno> {
        let local = socket.local()?;
        if local.port() == 0 {
            let any: IpAddr = if local.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
            raw::bind(socket, &address::to_bytes(SocketAddr::new(any, 0)))?;
        }
        socket.local()
    }

    fn permit_udp(&self, peer: SocketAddr, approvals: &mut Approvals) -> Result<(), Halt> {
        self.permit(Access::Connect, self.destination(peer, Transport::Udp), approvals, || None)?;
        Ok(())
    }

    fn level_of(&self, destination: &Destination) -> Result<Level, Halt> {
        let wanted = Wanted::reaching_out(Access::Connect, Operation::Connect, Arc::new(destination.clone()));
        self.judge.level_of(self.target, &wanted)
    }
}
