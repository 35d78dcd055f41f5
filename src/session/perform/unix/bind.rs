//! bind(2) of unix sockets: a path is a change of a file, as mknod(2) is.

use std::os::fd::OwnedFd;

use rustix::net::SocketAddrUnix;

use crate::common::errno::Errno;
use crate::common::request::Operation;
use crate::session::decode::{At, Links};
use crate::session::judge::{Approvals, Halt, Reach, Wanted};
use crate::session::listener::Answer;
use crate::session::net::unix::address::Address;
use crate::session::net::unix::standing_place;
use crate::session::perform::turns::Turn;
use crate::session::perform::{Run, done, foresee, guarded};
use crate::session::resolve::Place;

impl Run<'_> {
    /// bind(2). `socket` is the tool's own, `address` the one copy of its bytes.
    pub(in crate::session::perform) fn bind_unix(
        &self,
        socket: &OwnedFd,
        address: &[u8],
        approvals: &mut Approvals,
    ) -> Result<Answer, Halt> {
        let named = match Address::parse(address)? {
            Address::Path(path) => {
                let at = At { directory: libc::AT_FDCWD, path: Ok(path), links: Links::All };
                return self.bind_path(socket, &at, approvals);
            }
            Address::Unnamed => SocketAddrUnix::new_unnamed(),
            Address::Abstract(name) => SocketAddrUnix::new_abstract_name(&name).map_err(Errno::from)?,
        };
        self.sockets()?.require_session(socket)?;
        self.still_wanted()?;
        done(rustix::net::bind(socket, &named).map(|()| 0).map_err(Errno::from))
    }

    fn bind_path(&self, socket: &OwnedFd, at: &At, approvals: &mut Approvals) -> Result<Answer, Halt> {
        let place = self.place(at, approvals)?;
        let path = place.path();
        if self.sockets()?.is_own_tree(&place.directory)?
            && let Some(native) = self.judge().scratch().binds(&path)
        {
            // With the kernel's own text for getsockname(2).
            return Ok(Answer::Native(native));
        }
        let wanted = |path| Wanted::new(Operation::MakeNode, path).reaching(Reach::Below);
        let foresee = || foresee::make(&place).map(in_use).or_else(|| is_bound(socket).then_some(Errno::INVAL));
        match self.judged(&place, wanted, approvals, foresee)? {
            Ok(permit) => self.create(&permit, Turn::Alone, &place, approvals, || {
                self.making(&place, || bind_in(&place, socket), |_| guarded::made(&place))
            }),
            Err(native) => Ok(native),
        }
    }
}

/// bind(2) has a word of its own for a name that is taken.
fn in_use(errno: Errno) -> Errno {
    if errno == Errno::EXIST { Errno::ADDRINUSE } else { errno }
}

fn is_bound(socket: &OwnedFd) -> bool {
    let own = rustix::net::getsockname(socket).and_then(SocketAddrUnix::try_from);
    own.is_ok_and(|address| !address.is_unnamed())
}

/// The kernel finds the path from where the calling thread stands, so it goes to the pinned directory and back.
fn bind_in(place: &Place, socket: &OwnedFd) -> Result<Answer, Halt> {
    let address = SocketAddrUnix::new(place.name.as_c_str()).map_err(Errno::from)?;
    let back = standing_place()?;
    rustix::process::fchdir(&place.directory).map_err(Errno::from)?;
    let bound = rustix::net::bind(socket, &address);
    if rustix::process::fchdir(&back).is_err() {
        // From anywhere else the numbers of descriptors would be names of other files.
        std::process::abort();
    }
    done(bound.map(|()| 0).map_err(Errno::from))
}
