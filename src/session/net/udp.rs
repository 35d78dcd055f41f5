//! UDP to a peer: native in the session's own network, where it reaches nobody; by rule or answer through
//! [`super::relay`].
//!
//! Runs as the user in the supervisor. Only connect(2) and sendto(2) come here; sendmsg(2) to an address reaches whom one of
//! them, or a rule when the peer's name was looked up, has opened the way to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use super::relay::{From, can_be_relayed};
use super::serving::Serving;
use super::socket::{Place, Socket};
use super::{address, raw};
use crate::common::access::{Access, Level};
use crate::common::errno::Errno;
use crate::common::net::{Destination, Transport};
use crate::common::request::Operation;
use crate::session::decode::network::{Asked, Message};
use crate::session::judge::{Approvals, Halt, Wanted};
use crate::session::listener::Answer;

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
        self.network.relay.open(&self.network.inner, peer, From::Port(socket.local()?.port()))?;
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
        if let Some(peer) = address::of_bytes(&message.to).map(address::meant) {
            if socket.place != Place::Session {
                self.permit_udp(peer, approvals)?;
            } else if can_be_relayed(peer) {
                self.permit_udp(peer, approvals)?;
                let port = self.port_of(socket)?;
                self.network.relay.open(&self.network.inner, peer, From::Port(port))?;
            }
        }
        self.target.confirm()?;
        message.send(socket, &message.to)
    }

    /// The port that the socket sends from: the kernel's choice, if it has not made one yet.
    fn port_of(&self, socket: &Socket) -> Result<u16, Errno> {
        let local = socket.local()?;
        if local.port() == 0 {
            let any: IpAddr = if local.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
            raw::bind(socket, &address::to_bytes(SocketAddr::new(any, 0)))?;
        }
        Ok(socket.local()?.port())
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
