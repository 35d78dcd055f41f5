//! One attempt on one socket. Runs as the user in the supervisor, on a socket that was taken from the tool and a copy of
//! its bytes: nothing of the tool is looked at again.

use std::net::SocketAddr;
use std::sync::Arc;

use rustix::net::{SocketFlags, SocketType, socket_with};

use super::Network;
use super::raw;
use super::socket::{Place, Socket, Sort};
use crate::common::access::Access;
use crate::common::errno::Errno;
use crate::common::net::{Destination, Knowledge, Named, Transport};
use crate::common::request::Operation;
use crate::session::decode::network::Asked;
use crate::session::judge::{Approvals, Halt, Judge, Permit, Wanted};
use crate::session::listener::Answer;
use crate::session::target::Target;

/// Who serves it, and for whom.
pub struct Serving<'a> {
    pub network: &'a Network,
    pub judge: &'a Judge,
    pub target: &'a Target<'a>,
}

impl Serving<'_> {
    /// Anything but a unix socket.
    pub fn serve(&self, socket: &Socket, asked: &Asked, approvals: &mut Approvals) -> Result<Answer, Halt> {
        match (asked, socket.sort) {
            (_, Sort::Unix | Sort::Other) => Err(Errno::ACCES.into()),
            (Asked::Connect(address), Sort::Tcp) => self.connect_tcp(socket, address, approvals),
            (Asked::Bind(address), Sort::Tcp) => self.bind_tcp(socket, address, approvals),
            (Asked::Listen(backlog), Sort::Tcp) => self.listen_tcp(socket, *backlog, approvals),
            (Asked::Send(message), Sort::Tcp) => self.send_tcp(socket, message, approvals),
            // No datagram of the session's own network leaves the session.
            (Asked::Connect(address), Sort::Udp) => self.connect_udp(socket, asked, address, approvals),
            (Asked::Send(message), Sort::Udp) => self.send_udp(socket, message, approvals),
            (_, Sort::Udp | Sort::Echo | Sort::Netlink) if socket.place == Place::Session => self.native(socket, asked),
            (_, Sort::Udp | Sort::Echo | Sort::Netlink) => Err(Errno::ACCES.into()),
        }
    }

    /// What the kernel does, on the very socket.
    pub fn native(&self, socket: &Socket, asked: &Asked) -> Result<Answer, Halt> {
        self.target.confirm()?;
        match asked {
            Asked::Connect(address) => raw::connect(socket, address)?,
            Asked::Bind(address) => raw::bind(socket, address)?,
            Asked::Listen(backlog) => raw::listen(socket, *backlog)?,
            Asked::Send(message) => return message.send(socket, &message.to),
        }
        Ok(Answer::Value(0))
    }

    /// A permit to reach this address, or to be reached there; `foresee` as for [`Judge::permit`].
    pub(super) fn permit(
        &self,
        access: Access,
        destination: Destination,
        approvals: &mut Approvals,
        foresee: impl Fn() -> Option<Errno>,
    ) -> Result<Permit, Halt> {
        let operation = if access == Access::Bind { Operation::Listen } else { Operation::Connect };
        let wanted = Wanted::reaching_out(access, operation, Arc::new(destination));
        self.judge.permit(self.target, &[wanted], approvals, foresee)
    }

    /// The address with the names that the session has for it.
    pub(super) fn destination(&self, address: SocketAddr, transport: Transport) -> Destination {
        let names = self.network.names_for(address);
        let hint = if names.is_empty() { self.network.names.hint_of(address.ip()) } else { None };
        Destination { hint, ..Destination::address(address, transport, names) }
    }
}

impl Network {
    /// The names that an address is judged by.
    pub(super) fn names_for(&self, address: SocketAddr) -> Vec<Named> {
        let mut names = self.names.names_of(address.ip());
        if names.iter().any(|named| named.by == Knowledge::Resolved) && is_of_this_machine(address) {
            // Whoever owns a name says where it leads: not to this machine's services by one of its other addresses.
            names.retain(|named| named.by != Knowledge::Resolved);
        }
        names
    }
}

/// Whether the supervisor's own machine has this address: a datagram to it would come from it. Sends nothing.
fn is_of_this_machine(address: SocketAddr) -> bool {
    let Ok(probe) = socket_with(super::address::domain_of(address), SocketType::DGRAM, SocketFlags::CLOEXEC, None)
    else {
        return false;
    };
    let sent_to = raw::connect(&probe, &super::address::to_bytes(address));
    sent_to.is_ok() && super::socket::local(&probe).is_ok_and(|own| own.ip() == address.ip())
}
