//! Descriptors whose last close takes long are left to the kernel, which closes them after this process has ended. Runs in the
//! supervisor, on its own descriptors.
//!
//! With the last descriptor of an inotify or fanotify group a grace period is waited for (`fsnotify_destroy_group`): some ten or
//! twenty milliseconds, in which the process has not ended for whoever waits for it. A unix socket to which nothing refers but
//! a message in its own queue is garbage, which the kernel collects in a worker of its own (`unix_gc`), and what came with that
//! message is closed there.

use std::os::fd::{AsFd, BorrowedFd};

use super::link::{self, Link, LinkError};

/// Leaves these; to be called when nothing but the end of this process is to come. Whoever else has them open delays their
/// close, as always. Fails as [`Link::send`] does; then they are closed with the process.
pub fn leave(fds: &[BorrowedFd<'_>]) -> Result<(), LinkError> {
    let (one, other) = link::pair()?;
    let one: Link<(), ()> = Link::new(one);
    one.send(&(), &[fds, &[other.as_fd()]].concat())?;
    // Open until the process has ended: closed here, they could be collected while a thread still has a descriptor in use, whose
    // close would then be the last.
    std::mem::forget((one, other));
    Ok(())
}
