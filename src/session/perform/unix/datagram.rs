//! Datagram sockets. The kernel lets each of them send to any path without a call that a filter could tell from others
//! (sendmsg(2) with an address), so a tool gets one that can only receive: shutdown(2) was called on it. What it sends by
//! sendto(2) is judged and sent from another socket, which has no name.

use std::os::fd::OwnedFd;

use rustix::fs::OFlags;
use rustix::net::{AddressFamily, SendFlags, Shutdown, SocketAddrUnix, SocketType, send, sendto, sockopt};

use super::{address_of, foresee_reach, is_non_blocking, kind_of};
use crate::common::errno::Errno;
use crate::common::request::Operation;
use crate::session::decode::network::Message;
use crate::session::judge::{Approvals, Halt};
use crate::session::listener::Answer;
use crate::session::net::unix::address::Address;
use crate::session::perform::Run;

/// `SOCK_TYPE_MASK`, include/linux/net.h: what is above are flags.
const TYPE: i32 = 0xf;

impl Run<'_> {
    /// socket(2) for `AF_UNIX` with `SOCK_DGRAM`, or `SOCK_RAW`, which means the same there (`unix_create`).
    pub(in crate::session::perform) fn unix_datagram_socket(&self, kind: i32, protocol: i32) -> Result<Answer, Halt> {
        let flags = kind & !TYPE;
        if flags & !(libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK) != 0 {
            return Err(Errno::INVAL.into());
        }
        if protocol != 0 && protocol != libc::PF_UNIX {
            return Err(Errno::PROTONOSUPPORT.into());
        }
        let file = self.sockets()?.network.inner.socket(AddressFamily::UNIX, SocketType::DGRAM, None)?;
        rustix::net::shutdown(&file, Shutdown::Write).map_err(Errno::from)?;
        if flags & libc::SOCK_NONBLOCK != 0 {
            rustix::fs::fcntl_setfl(&file, OFlags::NONBLOCK).map_err(Errno::from)?;
        }
        Ok(Answer::File { file, close_on_exec: flags & libc::SOCK_CLOEXEC != 0, made: None })
    }

    /// sendto(2) with an address. `socket` is the tool's own, `message` the one copy of its bytes.
    pub(in crate::session::perform) fn send_unix(
        &self,
        socket: &OwnedFd,
        message: &Message,
        approvals: &mut Approvals,
    ) -> Result<Answer, Halt> {
        let (data, mut flags) = (message.data.as_slice(), SendFlags::from_bits_retain(message.flags as u32));
        if !message.is_whole {
            return Err(Errno::new(libc::EMSGSIZE).unwrap_or(Errno::INVAL).into());
        }
        match kind_of(socket)? {
            // unix_stream_sendmsg: an address of no bytes is none.
            SocketType::STREAM if !message.to.is_empty() => {
                let connected = rustix::net::getpeername(socket).is_ok();
                let errno = if connected { libc::EISCONN } else { libc::EOPNOTSUPP };
                return Err(Errno::new(errno).unwrap_or(Errno::OPNOTSUPP).into());
            }
            // unix_seqpacket_sendmsg: the address is not looked at.
            SocketType::STREAM | SocketType::SEQPACKET => {
                self.still_wanted()?;
                return sent(send(socket, data, flags | SendFlags::NOSIGNAL));
            }
            _ => {}
        }
        let sockets = self.sockets()?;
        let twin = sockets.network.inner.socket(AddressFamily::UNIX, SocketType::DGRAM, None)?;
        if is_non_blocking(socket)? {
            flags |= SendFlags::DONTWAIT;
        }
        // Without one it waits for ever.
        if let Ok(patience) = sockopt::socket_timeout(socket, sockopt::Timeout::Send) {
            sockopt::set_socket_timeout(&twin, sockopt::Timeout::Send, patience).map_err(Errno::from)?;
        }
        let (peer, to) = match Address::parse(&message.to)? {
            Address::Unnamed => return Err(Errno::INVAL.into()),
            Address::Abstract(name) => {
                sockets.require_session(socket)?;
                (None, SocketAddrUnix::new_abstract_name(&name).map_err(Errno::from)?)
            }
            Address::Path(path) => {
                let peer = self.pin_socket(&path)?;
                let foresee = || foresee_reach(&peer, SocketType::DGRAM);
                let _permit = self.permit_to_reach(Operation::SendSocket, &peer, approvals, foresee)?;
                let to = address_of(&peer)?;
                (Some(peer), to)
            }
        };
        self.still_wanted()?;
        let full = Errno::new(libc::EAGAIN).unwrap_or(Errno::BUSY);
        let waits = (!flags.contains(SendFlags::DONTWAIT)).then(|| self.waits());
        let _waits = waits.transpose().map_err(|_| full)?;
        let answer = sent(sendto(&twin, data, flags, &to));
        drop(peer);
        answer
    }
}

fn sent(result: rustix::io::Result<usize>) -> Result<Answer, Halt> {
    let length = result.map_err(Errno::from)?;
    Ok(Answer::Value(u32::try_from(length).map_err(|_| Errno::INVAL)?))
}
