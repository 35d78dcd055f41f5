//! Socket calls that the wrappers lack, or that must reach the kernel with exactly the bytes that are given.
//!
//! Runs as the user in the supervisor. Nothing here decides.

use std::os::fd::{AsRawFd, BorrowedFd};

use crate::common::errno::Errno;

/// asm-generic/socket.h, the same on x86-64 and aarch64; Linux 5.14.
const SO_NETNS_COOKIE: libc::c_int = 71;

fn last() -> Errno {
    Errno::of(&std::io::Error::last_os_error())
}

/// Fills `value` with a socket option; how many bytes of it there are.
pub fn get(socket: BorrowedFd<'_>, level: libc::c_int, option: libc::c_int, value: &mut [u8]) -> Result<usize, Errno> {
    let mut length = libc::socklen_t::try_from(value.len()).map_err(|_| Errno::INVAL)?;
    // SAFETY: the kernel writes at most `length` bytes to the live slice of that length, and the length to the live variable.
    let result =
        unsafe { libc::getsockopt(socket.as_raw_fd(), level, option, value.as_mut_ptr().cast(), &raw mut length) };
    if result == 0 { Ok(value.len().min(length as usize)) } else { Err(last()) }
}

/// The cookie of the network namespace that a socket is in, `SO_NETNS_COOKIE`.
pub fn netns_cookie(socket: BorrowedFd<'_>) -> Result<u64, Errno> {
    let mut value = [0; 8];
    get(socket, libc::SOL_SOCKET, SO_NETNS_COOKIE, &mut value)?;
    Ok(u64::from_ne_bytes(value))
}
