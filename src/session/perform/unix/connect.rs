//! connect(2) and listen(2) of unix sockets.

use std::os::fd::OwnedFd;

use rustix::net::{SocketAddrUnix, SocketType, sockopt};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::{address_of, foresee_reach, is_non_blocking, kind_of};
use crate::common::errno::Errno;
use crate::common::request::Operation;
use crate::session::judge::{Approvals, Halt};
use crate::session::listener::Answer;
use crate::session::net::unix::Pinned;
use crate::session::net::unix::address::Address;
use crate::session::perform::{Run, done};

impl Run<'_> {
    /// connect(2). `socket` is the tool's own, `address` the one copy of its bytes.
    pub(in crate::session::perform) fn connect_unix(
        &self,
        socket: &OwnedFd,
        address: &[u8],
        approvals: &mut Approvals,
    ) -> Result<Answer, Halt> {
        let kind = kind_of(socket)?;
        if kind == SocketType::DGRAM && Address::is_unspecified(address) {
            return reached(rustix::net::connect_unspec(socket));
        }
        match Address::parse(address)? {
            // unix_validate_addr, net/unix/af_unix.c.
            Address::Unnamed => Err(Errno::INVAL.into()),
            Address::Abstract(name) => {
                self.sockets()?.require_session(socket)?;
                let address = SocketAddrUnix::new_abstract_name(&name).map_err(Errno::from)?;
                self.still_wanted()?;
                let _waits = self.waits_for(socket)?;
                reached(rustix::net::connect(socket, &address))
            }
            Address::Path(path) => {
                let peer = self.pin_socket(&path)?;
                let foresee = || foresee_own(socket).or_else(|| foresee_reach(&peer, kind));
                let _permit = self.permit_to_reach(Operation::ConnectSocket, &peer, approvals, foresee)?;
                if self.sockets()?.is_inside(&peer)? {
                    return self.knock(socket, &peer);
                }
                let _waits = self.waits_for(socket)?;
                reached(rustix::net::connect(socket, &address_of(&peer)?))
            }
        }
    }

    /// listen(2): without an address nobody finds it, and its address was judged.
    pub(in crate::session::perform) fn listen_unix(&self, socket: &OwnedFd, backlog: i32) -> Result<Answer, Halt> {
        self.still_wanted()?;
        done(rustix::net::listen(socket, backlog).map(|()| 0).map_err(Errno::from))
    }

    /// To the supervisor's own socket, which is to know for whom this is.
    fn knock(&self, socket: &OwnedFd, peer: &Pinned) -> Result<Answer, Halt> {
        let process = self.target.status()?.process;
        let pid = Pid::from_raw(process).ok_or(Errno::SRCH)?;
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).map_err(|_| Halt::Gone)?;
        self.still_wanted()?;
        let knocks = &self.sockets()?.knocks;
        let _turn = knocks.turn();
        let answer = reached(rustix::net::connect(socket, &address_of(peer)?))?;
        knocks.made((process, pidfd));
        Ok(answer)
    }

    /// A full backlog holds this thread until the server takes somebody from it. `EAGAIN` if too many wait already, as for a
    /// socket that does not wait.
    fn waits_for(&self, socket: &OwnedFd) -> Result<Option<super::super::turns::Waits<'_>>, Halt> {
        let full = Errno::new(libc::EAGAIN).unwrap_or(Errno::BUSY);
        if is_non_blocking(socket)? {
            return Ok(None);
        }
        Ok(Some(self.waits().map_err(|_| full)?))
    }
}

/// What the kernel says of a socket that is connected or listens already; a datagram socket may change its peer.
fn foresee_own(socket: &OwnedFd) -> Option<Errno> {
    if kind_of(socket) == Ok(SocketType::DGRAM) {
        return None;
    }
    if sockopt::socket_acceptconn(socket) == Ok(true) {
        return Some(Errno::INVAL);
    }
    rustix::net::getpeername(socket).is_ok().then(|| Errno::new(libc::EISCONN)).flatten()
}

fn reached(result: rustix::io::Result<()>) -> Result<Answer, Halt> {
    done(result.map(|()| 0).map_err(Errno::from))
}
