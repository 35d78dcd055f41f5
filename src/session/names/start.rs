//! From a session's network to its resolver.
//!
//! Runs as the user in the supervisor, once, before the tool exists.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::net::{SocketType, bind, listen, sockopt};

use super::Known;
use super::asker::Finder;
use super::court::Court;
use super::host::HostFiles;
use super::server::{self, Order, Sockets};
use crate::common::errno::Errno;
use crate::session::calls::Calls;
use crate::session::net::address::domain_of;
use crate::session::net::inner::Inner;
use crate::session::perform::Performer;

const PORT: u16 = 53;
/// Connections that wait to be taken, listen(2).
const WAITING: i32 = 64;

/// A resolver whose sockets are bound, so that nobody inside has them first.
pub struct Resolver {
    sockets: Sockets,
    files: Arc<dyn HostFiles>,
    known: Arc<Known>,
}

impl Resolver {
    /// Takes port 53 of every address of the session's network.
    pub fn bind(inner: &Inner, files: Arc<dyn HostFiles>, known: Arc<Known>) -> Result<Resolver, Errno> {
        let mut sockets = Sockets::default();
        for everywhere in [IpAddr::from(Ipv4Addr::UNSPECIFIED), IpAddr::from(Ipv6Addr::UNSPECIFIED)] {
            let at = SocketAddr::new(everywhere, PORT);
            let family = domain_of(at);
            let make = |kind| -> Result<OwnedFd, Errno> {
                let socket = inner.socket(family, kind, None)?;
                if at.is_ipv6() {
                    sockopt::set_ipv6_v6only(&socket, true)?;
                }
                bind(&socket, &at)?;
                Ok(socket)
            };
            match make(SocketType::DGRAM) {
                Ok(socket) => sockets.datagrams.push(socket.into()),
                // A kernel without IPv6.
                Err(Errno::AFNOSUPPORT) if at.is_ipv6() => continue,
                Err(errno) => return Err(errno),
            }
            let listener = make(SocketType::STREAM)?;
            listen(&listener, WAITING)?;
            sockets.streams.push(listener.into());
        }
        Ok(Resolver { sockets, files, known })
    }

    /// `procfs` is the outer `/proc`, `init` the id of the session's init in it.
    pub fn start(self, procfs: OwnedFd, calls: Arc<Calls>, init: i32, performer: Arc<Performer>) -> io::Result<()> {
        let bench = Arc::new(Court { finder: Finder::new(procfs, calls, init), performer });
        server::start(Order { sockets: self.sockets, bench, files: self.files, known: self.known })
    }
}
