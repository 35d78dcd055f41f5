//! Socket calls that the wrappers lack, or that must reach the kernel with exactly the bytes that are given.
//!
//! Runs as the user in the supervisor. Nothing here decides.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use crate::common::errno::Errno;

/// asm-generic/socket.h, the same on x86-64 and aarch64; Linux 5.14.
const SO_NETNS_COOKIE: libc::c_int = 71;

/// What the kernel may keep of the memory that it is told to send from, and what is between it and its callers alone:
/// `MSG_ZEROCOPY`. The supervisor's memory is another's in a moment.
const NOT_FROM_HERE: libc::c_int = 0x0400_0000;

fn done(result: libc::c_int) -> Result<(), Errno> {
    if result == 0 { Ok(()) } else { Err(last()) }
}

fn last() -> Errno {
    Errno::of(&std::io::Error::last_os_error())
}

fn length_of(bytes: &[u8]) -> Result<libc::socklen_t, Errno> {
    libc::socklen_t::try_from(bytes.len()).map_err(|_| Errno::INVAL)
}

/// Fills `value` with a socket option; how many bytes of it there are.
pub fn get(socket: BorrowedFd<'_>, level: libc::c_int, option: libc::c_int, value: &mut [u8]) -> Result<usize, Errno> {
    let mut length = length_of(value)?;
    // SAFETY: the kernel writes at most `length` bytes to the live slice of that length, and the length to the live variable.
    let result =
        unsafe { libc::getsockopt(socket.as_raw_fd(), level, option, value.as_mut_ptr().cast(), &raw mut length) };
    done(result).map(|()| value.len().min(length as usize))
}

/// Sets a socket option.
pub fn set(socket: BorrowedFd<'_>, level: libc::c_int, option: libc::c_int, value: &[u8]) -> Result<(), Errno> {
    let length = length_of(value)?;
    // SAFETY: the kernel reads `length` bytes of the live slice of that length.
    done(unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, value.as_ptr().cast(), length) })
}

/// The cookie of the network namespace that a socket is in, `SO_NETNS_COOKIE`.
pub fn netns_cookie(socket: BorrowedFd<'_>) -> Result<u64, Errno> {
    let mut value = [0; 8];
    get(socket, libc::SOL_SOCKET, SO_NETNS_COOKIE, &mut value)?;
    Ok(u64::from_ne_bytes(value))
}

/// connect(2) with these bytes as the address. May block, and `EINTR`.
pub fn connect(socket: impl AsFd, address: &[u8]) -> Result<(), Errno> {
    let length = length_of(address)?;
    // SAFETY: the kernel reads `length` bytes of the live slice of that length.
    done(unsafe { libc::connect(socket.as_fd().as_raw_fd(), address.as_ptr().cast(), length) })
}

/// bind(2) with these bytes as the address.
pub fn bind(socket: impl AsFd, address: &[u8]) -> Result<(), Errno> {
    let length = length_of(address)?;
    // SAFETY: the kernel reads `length` bytes of the live slice of that length.
    done(unsafe { libc::bind(socket.as_fd().as_raw_fd(), address.as_ptr().cast(), length) })
}

/// listen(2) with exactly this number.
pub fn listen(socket: impl AsFd, backlog: i32) -> Result<(), Errno> {
    // SAFETY: no memory is passed.
    done(unsafe { libc::listen(socket.as_fd().as_raw_fd(), backlog) })
}

/// sendto(2); without an address where there are no bytes of one. May block, and `EINTR`. Raises no signal.
pub fn send(socket: impl AsFd, data: &[u8], flags: i32, address: &[u8]) -> Result<u32, Errno> {
    let flags = flags & !NOT_FROM_HERE | libc::MSG_NOSIGNAL;
    let length = length_of(address)?;
    let to = if address.is_empty() { std::ptr::null() } else { address.as_ptr() };
    // SAFETY: the kernel reads the live slice of data, of which it is told the length, and `length` bytes at `to`, which is
    // the live slice of that length or null with 0; it keeps neither (no `MSG_ZEROCOPY`).
    let sent =
        unsafe { libc::sendto(socket.as_fd().as_raw_fd(), data.as_ptr().cast(), data.len(), flags, to.cast(), length) };
    u32::try_from(sent).map_err(|_| last())
}

/// The address that a socket is bound to, getsockname(2), as bytes; `peer` asks for the other side's, getpeername(2).
pub fn name(socket: impl AsFd, peer: bool) -> Result<Vec<u8>, Errno> {
    let mut bytes = vec![0; 128];
    let mut length = length_of(&bytes)?;
    let socket = socket.as_fd().as_raw_fd();
    let into = bytes.as_mut_ptr().cast();
    // SAFETY: the kernel writes at most `length` bytes to the live vector of that length, and the length to the live variable.
    let result = unsafe {
        if peer {
            libc::getpeername(socket, into, &raw mut length)
        } else {
            libc::getsockname(socket, into, &raw mut length)
        }
    };
    done(result)?;
    bytes.truncate(length as usize);
    Ok(bytes)
}

/// One registration of an epoll(7) instance, as proc_pid_fdinfo(5) tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registration {
    /// The descriptor that it was made for, in whoever made it.
    pub number: RawFd,
    pub events: u32,
    pub data: u64,
}

/// Makes a registration for `socket` as whoever has it at the registered number would. To be called on a thread of its own,
/// which ends after it: the registration is for a file *and a number*, so the thread takes a table of descriptors of its own
/// and has the socket at that number there.
pub fn register(epoll: BorrowedFd<'_>, socket: BorrowedFd<'_>, registration: Registration) -> Result<(), Errno> {
    let (epoll, socket, number) = (epoll.as_raw_fd(), socket.as_raw_fd(), registration.number);
    let above = epoll.max(socket).saturating_add(1) as libc::c_uint;
    // SAFETY: with CLOSE_RANGE_UNSHARE this thread gets a table of its own (close_range(2)) with what is below `above`, so that
    // whatever is closed or replaced from here on stays as it is for every other thread.
    unsafe {
        done(libc::close_range(above, libc::c_uint::MAX, libc::CLOSE_RANGE_UNSHARE as libc::c_int))?;
        let epoll = libc::fcntl(epoll, libc::F_DUPFD_CLOEXEC, number.saturating_add(1));
        if epoll < 0 || (socket != number && libc::dup3(socket, number, libc::O_CLOEXEC) < 0) {
            return Err(last());
        }
        let mut event = libc::epoll_event { events: registration.events, u64: registration.data };
        done(libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, number, &raw mut event))
    }
}
