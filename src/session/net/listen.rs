//! listen(2) of TCP: a socket that was not bound where it may be reached listens in the session's own network.
//!
//! Runs as the user in the supervisor.

use super::bind::destination;
use super::raw;
use super::serving::Serving;
use super::socket::{Place, Socket, cookie, local};
use crate::common::access::Access;
use crate::session::judge::{Approvals, Halt};
use crate::session::listener::Answer;

impl Serving<'_> {
    pub(super) fn listen_tcp(&self, socket: &Socket, backlog: i32, approvals: &mut Approvals) -> Result<Answer, Halt> {
        // One that listens already was judged, or was given to the session as it is; this changes a number.
        if socket.place == Place::Session || socket.is_listening()? {
            self.target.confirm()?;
            raw::listen(socket, backlog)?;
            return Ok(Answer::Value(0));
        }
        if let Some(answer) = self.listen_as_judged(socket, backlog)? {
            return Ok(answer);
        }
        let at = socket.local()?;
        let is_the_rules = at.port() != 0 && self.judge.speaks_of_bind(self.target, &destination(at))?;
        if is_the_rules || socket.place == Place::Elsewhere {
            self.permit(Access::Bind, destination(at), approvals, || None)?;
            if at.port() != 0 {
                self.network.published.turn().enter(cookie(socket)?, at);
                return Ok(self
                    .listen_as_judged(socket, backlog)?
                    .unwrap_or(Answer::Errno(crate::common::errno::Errno::ACCES)));
            }
        }
        let moved = self.remade(socket, Place::Session)?;
        self.target.confirm()?;
        raw::listen(&moved, backlog)?;
        self.put_in_place(socket, &moved)?.register();
        Ok(Answer::Value(0))
    }

    /// `None` if it is not bound where it was permitted to be.
    fn listen_as_judged(&self, socket: &Socket, backlog: i32) -> Result<Option<Answer>, Halt> {
        let turn = self.network.published.turn();
        if !turn.was_judged(cookie(socket)?, local(socket)?) {
            return Ok(None);
        }
        self.target.confirm()?;
        raw::listen(socket, backlog)?;
        Ok(Some(Answer::Value(0)))
    }
}
