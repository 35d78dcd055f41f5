//! sendto(2) with an address, and what connects while it sends.
//!
//! Runs as the user in the supervisor, on a copy of the tool's data.

use super::address;
use super::raw;
use super::serving::Serving;
use super::socket::Socket;
use crate::session::decode::network::Message;
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
            // It may wait for whoever reads.
            let _connecting = self.target.connects();
            return message.send(socket, if connects { &message.to } else { &[] });
        }
        if let Some(answer) = self.settled(socket) {
            return Ok(answer);
        }
        let way = self.way(socket, &message.to, approvals)?;
        self.begin(socket, way.place, |socket| raw::send(socket, &message.data, message.flags, &way.peer))
    }
}
