//! Unix sockets: connect(2), bind(2), and datagrams with an address.
//!
//! Runs as the user in the supervisor. The tool's own socket was taken before anything was judged, so whatever its descriptor
//! becomes meanwhile, what is judged and what is acted on are the same socket; and the file that a path leads to is pinned
//! before it is judged, and reached by that handle alone.

mod bind;
mod connect;
mod datagram;
mod moving;

use std::ffi::CStr;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::{FileType, OFlags};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with, sockopt};

use super::Run;
use crate::common::errno::Errno;
use crate::common::path::RawPath;
use crate::common::request::Operation;
use crate::session::decimal::Decimal;
use crate::session::decode::{At, Links};
use crate::session::judge::{Approvals, Halt, Permit, Wanted};
use crate::session::net::unix::{Pinned, UnixSockets};
use crate::session::target::Unreadable;

impl<'a> Run<'a> {
    /// `ENOSYS` in a session with the host's network, whose filter traps none of this.
    fn sockets(&self) -> Result<&'a UnixSockets, Errno> {
        self.performer.unix.as_ref().ok_or(Errno::NOSYS)
    }

    /// The file that a path of a socket leads to: in the session's view, and if nothing is there, in the host's.
    fn pin_socket(&self, path: &CStr) -> Result<Pinned, Halt> {
        let at = At { directory: libc::AT_FDCWD, path: Ok(path.to_owned()), links: Links::All };
        match self.resolver().object(self.target, &at, true) {
            Ok(object) => {
                let path = object.judged_path()?;
                Ok(Pinned { handle: object.handle, path })
            }
            Err(Unreadable::Native(Errno::NOENT)) => {
                let text = RawPath::new(path.to_bytes());
                let absolute = match path.to_bytes().first() {
                    Some(b'/') => text,
                    _ => self.target.cwd_text()?.join(text.as_bytes()),
                };
                self.sockets()?.in_host(&absolute).ok_or_else(|| Errno::NOENT.into())
            }
            Err(other) => Err(other.into()),
        }
    }

    /// A permit to reach this socket.
    fn permit_to_reach(
        &self,
        operation: Operation,
        peer: &Pinned,
        approvals: &mut Approvals,
        foresee: impl Fn() -> Option<Errno>,
    ) -> Result<Permit, Halt> {
        let sockets = self.sockets()?;
        let permit = if sockets.is_of_the_session(peer)? {
            self.judge().permit_within_session()
        } else {
            // A socket with several names could be judged by another one than its service's.
            let stat = rustix::fs::fstat(&peer.handle).map_err(Errno::from)?;
            if FileType::from_raw_mode(stat.st_mode) == FileType::Socket && stat.st_nlink > 1 {
                return Err(Errno::ACCES.into());
            }
            let wanted = Wanted::socket(operation, peer.path.clone(), sockets.service(&peer.path));
            self.judge().permit(self.target, &[wanted], approvals, foresee)?
        };
        self.still_wanted()?;
        Ok(permit)
    }
}

/// The address of a pinned socket file, on a thread whose cwd is `/proc/self/fd`.
fn address_of(peer: &Pinned) -> Result<SocketAddrUnix, Errno> {
    let mut number = Decimal::default();
    Ok(SocketAddrUnix::new(number.of(peer.handle.as_raw_fd()))?)
}

/// What the kernel would say to a socket of this type that connects to the file, without anybody's noticing: a datagram socket
/// of ours is connected, of which only another of its kind could hear, and it sends nothing.
fn foresee_reach(peer: &Pinned, kind: SocketType) -> Option<Errno> {
    let probe = socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None).ok()?;
    let met = address_of(peer).and_then(|address| Ok(rustix::net::connect(&probe, &address)?));
    let prototype = Errno::new(libc::EPROTOTYPE);
    match met {
        Ok(()) if kind == SocketType::DGRAM => None,
        Ok(()) => prototype,
        Err(errno) if Some(errno) == prototype && kind != SocketType::DGRAM => None,
        Err(errno) => Some(errno),
    }
}

fn kind_of(socket: &OwnedFd) -> Result<SocketType, Errno> {
    Ok(sockopt::socket_type(socket)?)
}

fn is_non_blocking(socket: &OwnedFd) -> Result<bool, Errno> {
    Ok(rustix::fs::fcntl_getfl(socket)?.contains(OFlags::NONBLOCK))
}
