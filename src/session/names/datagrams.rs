//! Datagrams to any address of the session's network, and answers that come from where the question went.
//!
//! Runs as the user in the supervisor. A program that asks `8.8.8.8` takes an answer from there and from nowhere else, so the
//! destination of each datagram is kept (`IP_PKTINFO`, ip(7); `IPV6_PKTINFO`, RFC 3542, 6).

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::os::fd::AsRawFd;

use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockaddrLike, SockaddrStorage, recvmsg, sendmsg,
    setsockopt, sockopt,
};
use tokio::io::Interest;

/// A question of DNS has one name and few options; what is longer is none.
pub const QUESTION_BYTES: usize = 4096;

/// A bound socket.
pub struct Datagrams {
    socket: tokio::net::UdpSocket,
    bound: SocketAddr,
}

/// One question.
#[derive(Clone, Copy, Debug)]
pub struct Arrived {
    pub bytes: usize,
    pub from: SocketAddr,
    pub to: SocketAddr,
}

impl Datagrams {
    /// Must be called in the runtime that is to serve it.
    pub fn new(socket: UdpSocket) -> io::Result<Datagrams> {
        let bound = socket.local_addr()?;
        match bound {
            SocketAddr::V4(_) => setsockopt(&socket, sockopt::Ipv4PacketInfo, &true)?,
            SocketAddr::V6(_) => {
                setsockopt(&socket, sockopt::Ipv6RecvPacketInfo, &true)?;
                // An address that no interface has may be sent from all the same.
                setsockopt(&socket, sockopt::IpFreebind, &true)?;
            }
        }
        socket.set_nonblocking(true)?;
        Ok(Datagrams { socket: tokio::net::UdpSocket::from_std(socket)?, bound })
    }

    pub async fn receive(&self, buffer: &mut [u8]) -> io::Result<Arrived> {
        loop {
            self.socket.readable().await?;
            match self.socket.try_io(Interest::READABLE, || self.take(buffer)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                received => return received,
            }
        }
    }

    fn take(&self, buffer: &mut [u8]) -> io::Result<Arrived> {
        let mut space = nix::cmsg_space!(libc::in6_pktinfo);
        let mut parts = [IoSliceMut::new(buffer)];
        let message = recvmsg::<SockaddrStorage>(
            self.socket.as_raw_fd(),
            &mut parts,
            Some(&mut space),
            MsgFlags::MSG_CMSG_CLOEXEC | MsgFlags::MSG_DONTWAIT,
        )?;
        let from = message.address.as_ref().and_then(plain).ok_or(io::ErrorKind::InvalidData)?;
        let mut to = self.bound.ip();
        for control in message.cmsgs()? {
            match control {
                ControlMessageOwned::Ipv4PacketInfo(info) => {
                    to = Ipv4Addr::from(info.ipi_addr.s_addr.to_ne_bytes()).into();
                }
                ControlMessageOwned::Ipv6PacketInfo(info) => to = Ipv6Addr::from(info.ipi6_addr.s6_addr).into(),
                _ => {}
            }
        }
        Ok(Arrived { bytes: message.bytes, from, to: SocketAddr::new(to, self.bound.port()) })
    }

    /// From the address that the question went to. Whoever does not take it gets none: the buffer of a socket on `lo` is as
    /// large as that of its reader.
    pub fn send(&self, bytes: &[u8], arrived: &Arrived) -> io::Result<()> {
        let to = SockaddrStorage::from(arrived.from);
        let parts = [IoSlice::new(bytes)];
        let send = |control: &ControlMessage<'_>| {
            let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
            sendmsg(self.socket.as_raw_fd(), &parts, std::slice::from_ref(control), flags, Some(&to))
        };
        match arrived.to.ip() {
            IpAddr::V4(address) => {
                let address = libc::in_addr { s_addr: u32::from_ne_bytes(address.octets()) };
                let info = libc::in_pktinfo { ipi_ifindex: 0, ipi_spec_dst: address, ipi_addr: address };
                send(&ControlMessage::Ipv4PacketInfo(&info))?;
            }
            IpAddr::V6(address) => {
                let address = libc::in6_addr { s6_addr: address.octets() };
                let info = libc::in6_pktinfo { ipi6_addr: address, ipi6_ifindex: 0 };
                send(&ControlMessage::Ipv6PacketInfo(&info))?;
            }
        }
        Ok(())
    }
}

fn plain(address: &SockaddrStorage) -> Option<SocketAddr> {
    match address.family()? {
        AddressFamily::Inet => {
            let address = address.as_sockaddr_in()?;
            Some(SocketAddr::new(address.ip().into(), address.port()))
        }
        AddressFamily::Inet6 => {
            let address = address.as_sockaddr_in6()?;
            Some(SocketAddrV6::new(address.ip(), address.port(), 0, address.scope_id()).into())
        }
        _ => None,
    }
}
