//! sendto(2) with an address, and what connects while it sends.
//!
//! Runs as the user in the supervisor, on a copy of the tool's data.

use super::address;
use super::raw;
use super::serving::Serving;
use super::socket::{Place, Socket};
use crate::common::access::Access;
use crate::common::errno::Errno;
use crate::common::net::Transport;
use crate::session::decode::network::{Asked, Message};
use crate::session::judge::{Approvals, Halt};
use crate::session::listener::Answer;

impl Message {
    /// On this socket, to this address.
    pub(super) fn send(&self, socket: &Socket, to: &[u8]) -> Result<Answer, Halt> {
        Ok(Answer::Value(raw::send(socket, &self.data, self.flags, to)?))
    }
}

impl Serving<'_> {
    pub(super) fn send_tcp(
        &self,
        socket: &Socket,
        message: &Message,
        approvals: &mut Approvals,
    ) -> Result<Answer, Halt> {
        let connects = message.flags & libc::MSG_FASTOPEN != 0;
        // Without fast open a stream has no use for an address; with it, and without an address, the kernel has no use for it.
        if !connects || message.to.is_empty() || address::is_unspecified(&message.to) {
            self.target.confirm()?;
            return message.send(socket, if connects { &message.to } else { &[] });
        }
        if let Some(answer) = super::connect::settled(socket) {
            return Ok(answer);
        }
        let way = self.way(socket, &message.to, approvals)?;
        self.begin(socket, way.place, |socket| raw::send(socket, &message.data, message.flags, &way.peer))
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
        if socket.place != Place::Session {
            self.judge_udp(socket, &message.to, approvals)?;
        }
        self.target.confirm()?;
        message.send(socket, &message.to)
    }

    pub(super) fn connect_udp(&self, socket: &Socket, bytes: &[u8], approvals: &mut Approvals) -> Result<Answer, Halt> {
        if socket.place != Place::Session && !address::is_unspecified(bytes) {
            self.judge_udp(socket, bytes, approvals)?;
        }
        self.native(socket, &Asked::Connect(bytes.to_vec()))
    }

    /// The verdict on datagrams of a socket that the session was given.
    fn judge_udp(&self, _: &Socket, bytes: &[u8], approvals: &mut Approvals) -> Result<(), Halt> {
        let peer = address::of_bytes(bytes).map(address::meant).ok_or(Errno::INVAL)?;
        self.permit(Access::Connect, self.destination(peer, Transport::Udp), approvals, || None)?;
        Ok(())
    }
}
