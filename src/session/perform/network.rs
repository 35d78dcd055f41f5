//! Sockets: TCP sockets are made in the host's network, whatever is done with one is done by [`crate::session::net`].

use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, socket_with};

use super::{Performer, Run};
use crate::common::errno::Errno;
use crate::common::net::HostName;
use crate::session::decode::network::Asked;
use crate::session::judge::{Approvals, Halt};
use crate::session::listener::Answer;
use crate::session::net::serving::Serving;
use crate::session::net::socket::{Socket, Sort};

/// `SOCK_TYPE_MASK`, include/linux/net.h.
const TYPE: i32 = 0xf;

impl Performer {
    /// A name leads to these addresses: opens the ways for UDP that rules allow to whoever asks.
    pub fn let_udp_out(&self, name: &HostName, addresses: &[IpAddr]) {
        if let Some(network) = &self.network {
            network.let_udp_out(self.judge.policy(), name, addresses);
        }
    }
}

impl Run<'_> {
    /// socket(2) of TCP, and of unix datagrams.
    pub(super) fn make_socket(&self, domain: i32, kind: i32, protocol: i32) -> Result<Answer, Halt> {
        if domain == libc::AF_UNIX {
            return self.unix_datagram_socket(kind, protocol);
        }
        if kind & !(TYPE | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK) != 0 {
            return Err(Errno::INVAL.into());
        }
        let family = if domain == libc::AF_INET { AddressFamily::INET } else { AddressFamily::INET6 };
        let mut flags = SocketFlags::CLOEXEC;
        flags.set(SocketFlags::NONBLOCK, kind & libc::SOCK_NONBLOCK != 0);
        let file = socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP)).map_err(Errno::from)?;
        Ok(Answer::File { file, close_on_exec: kind & libc::SOCK_CLOEXEC != 0, made: None })
    }

    fn on_unix(&self, socket: &OwnedFd, asked: &Asked, approvals: &mut Approvals) -> Result<Answer, Halt> {
        match asked {
            Asked::Connect(address) => self.connect_unix(socket, address, approvals),
            Asked::Bind(address) => self.bind_unix(socket, address, approvals),
            Asked::Listen(backlog) => self.listen_unix(socket, *backlog),
            Asked::Send(message) => self.send_unix(socket, message, approvals),
        }
    }

    pub(super) fn on_socket(
        &self,
        file: &Arc<OwnedFd>,
        asked: &Asked,
        approvals: &mut Approvals,
    ) -> Result<Answer, Halt> {
        let network = self.performer.network.as_deref().ok_or(Errno::NOSYS)?;
        let socket = Socket::of(Arc::clone(file), &network.namespaces)?;
        let serving = Serving { network, judge: self.judge(), target: self.target };
        match socket.sort {
            Sort::Unix => self.on_unix(file, asked, approvals),
            _ => serving.serve(&socket, asked, approvals),
        }
    }
}
