//! Descriptors whose last close takes long are left to the kernel, which closes them after this process has ended. Runs in the
//! supervisor, on its own descriptors.
//!
//! With the last descriptor of an inotify or fanotify group a grace period is waited for (`fsnotify_destroy_group`): some ten or
//! twenty milliseconds, in which the process has not ended for whoever waits for it. A unix socket to which nothing refers but
//! a message in its own queue is garbage, which the kernel collects in a worker of its own (`unix_gc`), and what came with that
//! message is closed there.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, IntoRawFd};

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use super::link;

/// Descriptors that can be left at once.
const LEFT_AT_MOST: usize = 2;

/// Leaves these; to be called when nothing but the end of this process is to come. Whoever else has them open delays their
/// close, as always. Fails as sendmsg(2) does; then they are closed with the process.
pub fn leave(fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let (one, other) = link::pair()?;
    let mut all = fds.to_vec();
    all.push(other.as_fd());
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(LEFT_AT_MOST + 1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(&all)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    sendmsg(&one, &[IoSlice::new(&[0])], &mut ancillary, SendFlags::NOSIGNAL)?;
    // Open until the process has ended: closed here, they could be collected while a thread still has a descriptor in use, whose
    // close would then be the last.
    let _ = (one.into_raw_fd(), other.into_raw_fd());
    Ok(())
}
