//! Sockets that get another name, by themselves or with a directory above them: what speaks of the old one is not left behind.
//!
//! Runs as the user in the supervisor.

use std::os::fd::OwnedFd;

use rustix::fs::{FileType, fstat};

use crate::common::errno::Errno;
use crate::common::path::RawPath;
use crate::common::request::Operation;
use crate::session::judge::{Halt, Wanted};
use crate::session::net::unix::Pinned;
use crate::session::perform::Run;

impl Run<'_> {
    /// What it takes besides to give this another name: of a socket that is served outside of the session, and that is
    /// judged less strictly by its new name, what it takes to connect to it by the old one.
    pub(in crate::session::perform) fn socket_renamed(
        &self,
        handle: OwnedFd,
        path: &RawPath,
        other: &RawPath,
    ) -> Result<Option<Wanted>, Halt> {
        let Some(sockets) = &self.performer.unix else { return Ok(None) };
        let stat = fstat(&handle).map_err(Errno::from)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Socket {
            return Ok(None);
        }
        let pinned = Pinned { handle, path: path.clone() };
        if sockets.is_of_the_session(&pinned)? {
            return Ok(None);
        }
        let reached = |path: &RawPath| Wanted::socket(Operation::ConnectSocket, path.clone(), sockets.service(path));
        let (old, new) = (reached(path), reached(other));
        let is_freed = self.judge().level_of(self.target, &old)? > self.judge().level_of(self.target, &new)?;
        Ok(is_freed.then_some(old))
    }

    /// `EXDEV`, upon which programs copy name by name, for a directory that rules on sockets speak of, or of what is in it,
    /// and of its other place do not.
    pub(in crate::session::perform) fn keep_sockets(&self, path: &RawPath, other: &RawPath) -> Result<(), Halt> {
        if self.performer.unix.is_some() && self.judge().frees_sockets(path, other) {
            return Err(Errno::XDEV.into());
        }
        Ok(())
    }
}
