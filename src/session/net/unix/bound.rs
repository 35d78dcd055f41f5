//! Which socket files are bound by sockets of the session: what a process of the session listens at is no service of the host.
//! Asked of the kernel, sock_diag(7), by a netlink socket that init made in the session's network namespace, which is shown the
//! sockets of that namespace alone.
//!
//! Runs as the user in the supervisor. A socket file is bound once, by the call that makes it (bind(2)), so what was found
//! stays true of a pinned file; where the kernel has no unix_diag nothing is found, and a person is asked instead.

use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, netlink, recv, send};

use crate::common::errno::Errno;
use crate::session::net::inner::Inner;

// linux/netlink.h, linux/sock_diag.h, linux/unix_diag.h.
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const REQUEST_AND_DUMP: u16 = 0x301;
const DONE: u16 = 3;
const ERROR: u16 = 2;
const SHOW_VFS: u32 = 2;
const VFS: u16 = 1;
const HEADER: usize = 16;
/// `struct unix_diag_msg`.
const MESSAGE: usize = 16;

/// Device and inode of a file.
type File = (u64, u64);

/// The question and its answers.
pub struct Bound(Mutex<OwnedFd>);

impl Bound {
    /// `EPROTONOSUPPORT` on a kernel without sock_diag.
    pub fn new(inner: &Inner) -> Result<Bound, Errno> {
        let socket = inner.socket(AddressFamily::NETLINK, SocketType::DGRAM, Some(netlink::SOCK_DIAG))?;
        Ok(Bound(Mutex::new(socket)))
    }

    /// Whether a socket of the session is bound to this file.
    pub fn by_session(&self, device: u64, inode: u64) -> Result<bool, Errno> {
        let socket = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        send(&*socket, &request(), SendFlags::empty())?;
        let wanted = (kernel_device(device), inode & 0xffff_ffff);
        let mut found = false;
        let mut answer = vec![0; 32 * 1024];
        loop {
            let length = match recv(&*socket, answer.as_mut_slice(), RecvFlags::empty()) {
                Err(rustix::io::Errno::INTR) => continue,
                length => length?.0,
            };
            let mut rest = answer.get(..length).unwrap_or_default();
            while let Some((kind, body, next)) = message(rest) {
                match kind {
                    DONE => return Ok(found),
                    ERROR => return Err(Errno::OPNOTSUPP),
                    // All of it is read, or the next question would get this one's answers.
                    _ => found = found || file_of(body) == Some(wanted),
                }
                rest = next;
            }
        }
    }
}

fn request() -> Vec<u8> {
    let mut bytes = Vec::with_capacity(40);
    bytes.extend(40u32.to_ne_bytes());
    bytes.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes.extend(REQUEST_AND_DUMP.to_ne_bytes());
    bytes.extend([0; 8]);
    // struct unix_diag_req: every state, and no cookie.
    bytes.extend([libc::AF_UNIX as u8, 0, 0, 0]);
    for word in [u32::MAX, 0, SHOW_VFS, u32::MAX, u32::MAX] {
        bytes.extend(word.to_ne_bytes());
    }
    bytes
}

/// The first of these netlink messages: kind, body, and what follows.
fn message(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let length = usize::try_from(u32::from_ne_bytes(*bytes.first_chunk()?)).ok()?;
    let kind = u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?);
    let body = bytes.get(HEADER..length)?;
    Some((kind, body, bytes.get(length.next_multiple_of(4)..).unwrap_or_default()))
}

/// The file of one socket, if it has one: the attribute `UNIX_DIAG_VFS`.
fn file_of(body: &[u8]) -> Option<File> {
    let mut rest = body.get(MESSAGE..)?;
    loop {
        let length = usize::from(u16::from_ne_bytes(*rest.first_chunk()?));
        let kind = u16::from_ne_bytes(rest.get(2..4)?.try_into().ok()?);
        if kind == VFS {
            let word = |at: usize| Some(u64::from(u32::from_ne_bytes(rest.get(at..at + 4)?.try_into().ok()?)));
            return Some((word(8)?, word(4)?));
        }
        rest = rest.get(length.max(4).next_multiple_of(4)..)?;
    }
}

/// A device as the kernel itself numbers it, `MKDEV` of linux/kdev_t.h.
fn kernel_device(device: u64) -> u64 {
    u64::from(rustix::fs::major(device)) << 20 | u64::from(rustix::fs::minor(device))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_of_the_kernels_is_taken_apart() {
        let attribute = [8u16.to_ne_bytes(), 9u16.to_ne_bytes()].concat();
        let mut body = vec![0; MESSAGE];
        body.extend(attribute);
        body.extend([0; 4]);
        body.extend([12u16.to_ne_bytes(), VFS.to_ne_bytes()].concat());
        body.extend(7u32.to_ne_bytes());
        body.extend(0x10_0002u32.to_ne_bytes());
        assert_eq!(file_of(&body), Some((kernel_device(rustix::fs::makedev(1, 2)), 7)));
        for cut in 0..body.len() {
            assert!(file_of(&body[..cut]).is_none(), "{cut}");
        }
    }

    #[test]
    fn a_cut_message_is_none() {
        let whole = request();
        assert!(message(&whole).is_some_and(|(kind, body, rest)| (kind, body.len(), rest.len()) == (20, 24, 0)));
        assert!((0..whole.len()).all(|cut| message(&whole[..cut]).is_none()));
    }
}
