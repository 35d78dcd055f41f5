//! Which file descriptors a process of ours keeps, and which a tool gets. Runs in init, in leaders and in the command's
//! child, each with one thread, as whoever they are.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};

use tokio::io::unix::AsyncFd;

use rustix::fs::{FileType, OFlags, fcntl_getfl, fstat};

/// Close everything but 0, 1, 2 and `kept`. For a process that was forked from one that owned more, and that will leave with
/// exit or execve(2): what it inherited in memory must not be used, or dropped, any more.
pub fn close_all_but(kept: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut kept: Vec<u32> = kept.iter().filter_map(|fd| u32::try_from(fd.as_raw_fd()).ok()).collect();
    kept.sort_unstable();
    let mut first = 3;
    for fd in kept {
        if fd > first {
            close_range(first, fd.saturating_sub(1), 0)?;
        }
        first = first.max(fd.saturating_add(1));
    }
    close_range(first, u32::MAX, 0)
}

/// Let no descriptor but 0, 1 and 2 survive execve(2).
pub fn close_rest_on_exec() -> io::Result<()> {
    close_range(3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC)
}

/// close_range(2), Linux 5.9; the flag 5.11.
fn close_range(first: u32, last: u32, flags: u32) -> io::Result<()> {
    // SAFETY: the callers say that nothing in this process uses the closed numbers afterwards.
    let done = unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Make these stdin, stdout and stderr; they survive execve(2).
pub fn become_stdio(stdio: [OwnedFd; 3]) -> io::Result<()> {
    let [stdin, stdout, stderr] = stdio;
    rustix::stdio::dup2_stdin(&stdin)?;
    rustix::stdio::dup2_stdout(&stdout)?;
    rustix::stdio::dup2_stderr(&stderr)?;
    // A descriptor that is one of the three itself must stay; the rest is closed as usual.
    for fd in [stdin, stdout, stderr] {
        if fd.as_raw_fd() <= 2 {
            let _ = fd.into_raw_fd();
        }
    }
    Ok(())
}

/// Give each of these its number; they survive execve(2). Whatever had such a number before is closed, so nothing that is
/// still needed may have one: `free` and all above are for that.
pub fn become_passed(passed: Vec<OwnedFd>, numbers: &[RawFd], free: RawFd) -> io::Result<()> {
    let away = passed.into_iter().map(|fd| rustix::io::fcntl_dupfd_cloexec(&fd, free));
    let away: Vec<OwnedFd> = away.collect::<Result<_, _>>()?;
    for (fd, number) in away.iter().zip(numbers) {
        // SAFETY: by this function's contract nothing in this process uses the number's old file any more.
        if unsafe { libc::dup2(fd.as_raw_fd(), *number) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Put /dev/null in the place of stdin, stdout and stderr.
pub fn become_silent() -> io::Result<()> {
    // Away from the three numbers themselves, one of which the file may have got: closing it must not close that again.
    let null = rustix::io::fcntl_dupfd_cloexec(std::fs::File::options().read(true).write(true).open("/dev/null")?, 3)?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    Ok(rustix::stdio::dup2_stderr(&null)?)
}

/// Why a descriptor of the caller's is no stdin, stdout or stderr for a tool; `None` if it is one. A directory would be a way
/// around the session's view by openat(2), an `O_PATH` descriptor likewise.
pub fn unfit_for_stdio(fd: &OwnedFd) -> Option<&'static str> {
    let is_directory = fstat(fd).is_ok_and(|found| FileType::from_raw_mode(found.st_mode).is_dir());
    match fcntl_getfl(fd) {
        _ if is_directory => Some("a directory"),
        Ok(flags) if flags.contains(OFlags::PATH) => Some("an O_PATH descriptor"),
        Ok(_) => None,
        Err(_) => Some("not open"),
    }
}

/// Why a descriptor of the caller's cannot be passed on to a tool besides stdio; `None` if it can.
pub fn unfit_to_pass(fd: &OwnedFd) -> Option<&'static str> {
    let name = rustix::fs::readlink(format!("/proc/self/fd/{}", fd.as_raw_fd()), Vec::new()).unwrap_or_default();
    match unfit_for_stdio(fd) {
        None if rustix::termios::isatty(fd) => Some("a terminal, of which the session has its own"),
        // Its requests are no system calls (io_uring_setup(2), `IORING_SETUP_SQPOLL`).
        None if name.to_bytes() == b"anon_inode:[io_uring]" => Some("an io_uring"),
        None => sends_anywhere(fd),
        unfit => unfit,
    }
}

/// Whether this is a socket that sends to whatever address sendmsg(2) names, which no filter sees; `None` for a stream, and for
/// what is no socket.
pub fn sends_anywhere(fd: &OwnedFd) -> Option<&'static str> {
    use rustix::net::{SocketType, sockopt::socket_type};
    match socket_type(fd) {
        Ok(SocketType::STREAM | SocketType::SEQPACKET) | Err(_) => None,
        Ok(_) => Some("a socket that can send to any address"),
    }
}

/// A close-on-exec duplicate of a descriptor that the parent process left open under this number (`--events fd:N`). To be called
/// before this process opens files of its own, so that the number can only be the parent's.
pub fn duplicate_inherited(number: RawFd) -> io::Result<OwnedFd> {
    if number < 0 {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    // SAFETY: the number is borrowed for one call only, which fails with EBADF if it is not open.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    Ok(rustix::io::fcntl_dupfd_cloexec(borrowed, 3)?)
}

/// A descriptor that the current tokio runtime watches.
pub fn watched(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an OwnedFd names one open description for as long as it lives, and AsyncFd owns it.
    unsafe { AsyncFd::register(fd) }.map_err(|error| error.into_parts().1)
}
