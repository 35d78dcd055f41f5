//! Calls on sockets: what may reach somebody, or make the session reachable.
//!
//! The socket is taken first, and what is done is done to that one, whatever the descriptor is by then.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::{Attempt, Registers};
use crate::common::errno::Errno;
use crate::session::target::{Target, Unreadable};

/// `sizeof(struct sockaddr_storage)`.
const ADDRESS_BYTES: usize = 128;
/// Data of one message: more than any datagram, and as much of a stream as a socket takes at once. A stream's call that is
/// given more sends a part. Every thread of a session may have as much here.
const DATA_BYTES: usize = 1 << 18;
/// `UIO_MAXIOV`, linux/uio.h.
const PARTS: u64 = 1024;
/// `struct msghdr` and `struct iovec` of 64 bits.
const MESSAGE_BYTES: usize = 56;
const PART_BYTES: usize = 16;

/// What a tool wants done with a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// connect(2) with these bytes as the address.
    Connect(Vec<u8>),
    /// bind(2) with these.
    Bind(Vec<u8>),
    /// listen(2) with this backlog.
    Listen(i32),
    /// sendto(2), or sendmsg(2) of what that could send.
    Send(Message),
}

/// Data and where it is to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub data: Vec<u8>,
    /// Whether that is all of it.
    pub is_whole: bool,
    pub flags: i32,
    /// The bytes of an address; empty without one.
    pub to: Vec<u8>,
}

impl Asked {
    /// Whether the kernel runs the call again after a signal whose handler has `SA_RESTART`: not where it may take only so
    /// long, signal(7).
    pub fn is_restarted(&self, socket: &OwnedFd) -> bool {
        use rustix::net::sockopt::{Timeout, socket_timeout};
        matches!(self, Asked::Bind(_) | Asked::Listen(_)) || socket_timeout(socket, Timeout::Send) == Ok(None)
    }
}

pub(super) fn decode(target: &Target<'_>, number: i64, r: Registers) -> Result<Option<Attempt>, Unreadable> {
    Ok(Some(match number {
        libc::SYS_socket => Attempt::MakeSocket { domain: r.int(0), kind: r.int(1), protocol: r.int(2) },
        libc::SYS_connect => {
            let file = target.duplicate(r.int(0))?;
            on(file, Asked::Connect(address(target, r.long(1), r.int(2))?))?
        }
        libc::SYS_bind => {
            let file = socket(target, r.int(0))?;
            on(file, Asked::Bind(address(target, r.long(1), r.int(2))?))?
        }
        libc::SYS_listen => on(socket(target, r.int(0))?, Asked::Listen(r.int(1)))?,
        libc::SYS_sendto => send_to(target, r)?,
        libc::SYS_sendmsg => send_message(target, r)?,
        _ => return Ok(None),
    }))
}

fn on(file: OwnedFd, asked: Asked) -> Result<Attempt, Unreadable> {
    rustix::net::sockopt::socket_type(&file).map_err(Errno::from)?;
    Ok(Attempt::OnSocket { file: Arc::new(file), asked })
}

/// `EBADF` and `ENOTSOCK` before the other arguments are looked at.
fn socket(target: &Target<'_>, descriptor: i32) -> Result<OwnedFd, Unreadable> {
    let file = target.duplicate(descriptor)?;
    rustix::net::sockopt::socket_type(&file).map_err(Errno::from)?;
    Ok(file)
}

/// `move_addr_to_kernel`, net/socket.c.
fn address(target: &Target<'_>, at: u64, length: i32) -> Result<Vec<u8>, Unreadable> {
    match usize::try_from(length) {
        Ok(length) if length <= ADDRESS_BYTES => target.bytes(at, length),
        _ => Err(Errno::INVAL.into()),
    }
}

fn send_to(target: &Target<'_>, r: Registers) -> Result<Attempt, Unreadable> {
    let file = socket(target, r.int(0))?;
    let to = if r.long(4) == 0 { Vec::new() } else { address(target, r.long(4), r.int(5))? };
    let wanted = usize::try_from(r.long(2)).unwrap_or(usize::MAX);
    let data = target.bytes(r.long(1), wanted.min(DATA_BYTES))?;
    on(file, Asked::Send(Message { data, is_whole: wanted <= DATA_BYTES, flags: r.int(3), to }))
}

/// Only what fast open is for: data, and an address.
fn send_message(target: &Target<'_>, r: Registers) -> Result<Attempt, Unreadable> {
    let file = socket(target, r.int(0))?;
    let header: [u8; MESSAGE_BYTES] = target.array(r.long(1))?;
    let long = |at: usize| header.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |word| u64::from_ne_bytes(*word));
    let (name, length, parts, count, control) = (long(0), long(8) as u32 as i32, long(16), long(24), long(40));
    if count > PARTS {
        return Err(Errno::MSGSIZE.into());
    }
    if control != 0 {
        return Err(Errno::OPNOTSUPP.into());
    }
    let length = if length > ADDRESS_BYTES as i32 { ADDRESS_BYTES as i32 } else { length };
    let to = if name == 0 { Vec::new() } else { address(target, name, length)? };
    let parts = target.bytes(parts, count as usize * PART_BYTES)?;
    let (mut data, mut is_whole) = (Vec::new(), true);
    for part in parts.chunks_exact(PART_BYTES) {
        let word = |at: usize| part.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |word| u64::from_ne_bytes(*word));
        let wanted = usize::try_from(word(8)).unwrap_or(usize::MAX);
        let room = DATA_BYTES - data.len();
        is_whole &= wanted <= room;
        data.extend(target.bytes(word(0), wanted.min(room))?);
    }
    on(file, Asked::Send(Message { data, is_whole, flags: r.int(2), to }))
}
