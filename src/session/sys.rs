//! The raw system calls that carry out a tool's attempt, with exactly the numbers that the tool gave.
//!
//! Runs as the user in the supervisor. Arguments reach the kernel unchanged, because the kernel's own checks are what a
//! bare program would meet; the wrappers of nix and rustix normalise some of them or lack the call. Nothing here decides.

use std::ffi::CStr;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use crate::common::errno::Errno;

/// asm-generic/unistd.h, the same on x86-64 and aarch64.
pub const SYS_OPENAT2: i64 = 437;
pub const SYS_FCHMODAT2: i64 = 452;
pub const SYS_SETXATTRAT: i64 = 463;
pub const SYS_REMOVEXATTRAT: i64 = 466;
pub const SYS_FILE_SETATTR: i64 = 469;

/// openat2(2), `struct open_how`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenHow {
    pub flags: u64,
    pub mode: u64,
    pub resolve: u64,
}

/// One argument of a system call; a pointer lives as long as what it borrows.
#[derive(Clone, Copy)]
enum Arg<'a> {
    Number(i64),
    Text(&'a CStr),
    Bytes(&'a [u8]),
}

impl Arg<'_> {
    fn raw(self) -> libc::c_long {
        match self {
            Arg::Number(number) => number,
            Arg::Text(text) => text.as_ptr() as libc::c_long,
            Arg::Bytes(bytes) => bytes.as_ptr() as libc::c_long,
        }
    }
}

fn fd(fd: BorrowedFd<'_>) -> Arg<'static> {
    Arg::Number(i64::from(fd.as_raw_fd()))
}

/// Calls the kernel. Every caller below passes pointers that the kernel only reads and that outlive the call.
fn call(number: i64, args: [Arg<'_>; 6]) -> Result<i64, Errno> {
    let [a, b, c, d, e, f] = args.map(Arg::raw);
    // SAFETY: the numbers used in this file read memory only through the pointers in `args`, which borrow live data of the
    // length that the same call names; none of them writes to this process's memory.
    let result = unsafe { libc::syscall(number, a, b, c, d, e, f) };
    if result == -1 { Err(Errno::of(&std::io::Error::last_os_error())) } else { Ok(result) }
}

const NONE: Arg<'static> = Arg::Number(0);

fn number(value: impl Into<i64>) -> Arg<'static> {
    Arg::Number(value.into())
}

impl OpenHow {
    fn bytes(self) -> [u8; 24] {
        let mut bytes = [0; 24];
        for (slot, word) in bytes.chunks_exact_mut(8).zip([self.flags, self.mode, self.resolve]) {
            slot.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }
}

/// What the kernel says of these flags before it looks at any path: asked with a descriptor that cannot be one.
pub fn check_open_how(how: OpenHow) -> Result<(), Errno> {
    let bytes = how.bytes();
    match call(SYS_OPENAT2, [number(-1), Arg::Text(c"x"), Arg::Bytes(&bytes), number(24), NONE, NONE]) {
        Err(errno) if errno != Errno::BADF => Err(errno),
        _ => Ok(()),
    }
}

/// openat2(2); the file is close-on-exec here whatever the tool asked for, which injection sets on its copy.
pub fn openat2(directory: BorrowedFd<'_>, name: &CStr, how: OpenHow) -> Result<OwnedFd, Errno> {
    let bytes = OpenHow { flags: how.flags | libc::O_CLOEXEC as u64, ..how }.bytes();
    let opened = call(SYS_OPENAT2, [fd(directory), Arg::Text(name), Arg::Bytes(&bytes), number(24), NONE, NONE])?;
    let opened = RawFd::try_from(opened).map_err(|_| Errno::IO)?;
    // SAFETY: the kernel has just made this descriptor for us; nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(opened) })
}

pub fn mkdirat(directory: BorrowedFd<'_>, name: &CStr, mode: u32) -> Result<i64, Errno> {
    call(libc::SYS_mkdirat, [fd(directory), Arg::Text(name), number(mode), NONE, NONE, NONE])
}

pub fn mknodat(directory: BorrowedFd<'_>, name: &CStr, mode: u32, device: u32) -> Result<i64, Errno> {
    call(libc::SYS_mknodat, [fd(directory), Arg::Text(name), number(mode), number(device), NONE, NONE])
}

pub fn unlinkat(directory: BorrowedFd<'_>, name: &CStr, flags: i32) -> Result<i64, Errno> {
    call(libc::SYS_unlinkat, [fd(directory), Arg::Text(name), number(flags), NONE, NONE, NONE])
}

pub fn symlinkat(text: &CStr, directory: BorrowedFd<'_>, name: &CStr) -> Result<i64, Errno> {
    call(libc::SYS_symlinkat, [Arg::Text(text), fd(directory), Arg::Text(name), NONE, NONE, NONE])
}

pub fn linkat(from: BorrowedFd<'_>, old: &CStr, to: BorrowedFd<'_>, new: &CStr, flags: i32) -> Result<i64, Errno> {
    call(libc::SYS_linkat, [fd(from), Arg::Text(old), fd(to), Arg::Text(new), number(flags), NONE])
}

pub fn renameat2(from: BorrowedFd<'_>, old: &CStr, to: BorrowedFd<'_>, new: &CStr, flags: u32) -> Result<i64, Errno> {
    call(libc::SYS_renameat2, [fd(from), Arg::Text(old), fd(to), Arg::Text(new), number(flags), NONE])
}

/// truncate(2); follows, so the path is one that names a pinned object.
pub fn truncate(path: &CStr, length: i64) -> Result<i64, Errno> {
    call(libc::SYS_truncate, [Arg::Text(path), number(length), NONE, NONE, NONE, NONE])
}

/// fchmodat2(2), Linux 6.6.
pub fn fchmodat2(object: BorrowedFd<'_>, mode: u32, flags: i32) -> Result<i64, Errno> {
    call(SYS_FCHMODAT2, [fd(object), Arg::Text(c""), number(mode), number(flags | libc::AT_EMPTY_PATH), NONE, NONE])
}

/// faccessat2(2), Linux 5.8: whether this user may access the object itself in all of these ways (`R_OK`, `W_OK`, `X_OK`).
pub fn may_access(object: BorrowedFd<'_>, ways: i32) -> Result<i64, Errno> {
    let flags = libc::AT_EMPTY_PATH | libc::AT_EACCESS;
    call(libc::SYS_faccessat2, [fd(object), Arg::Text(c""), number(ways), number(flags), NONE, NONE])
}

pub fn fchmod(file: BorrowedFd<'_>, mode: u32) -> Result<i64, Errno> {
    call(libc::SYS_fchmod, [fd(file), number(mode), NONE, NONE, NONE, NONE])
}

/// fchownat(2) on the object itself.
pub fn chown(object: BorrowedFd<'_>, user: u32, group: u32) -> Result<i64, Errno> {
    let flags = libc::AT_EMPTY_PATH | libc::AT_SYMLINK_NOFOLLOW;
    call(libc::SYS_fchownat, [fd(object), Arg::Text(c""), number(user), number(group), number(flags), NONE])
}

pub fn fchown(file: BorrowedFd<'_>, user: u32, group: u32) -> Result<i64, Errno> {
    call(libc::SYS_fchown, [fd(file), number(user), number(group), NONE, NONE, NONE])
}

/// utimensat(2) on the object itself; `times` is the tool's `struct timespec[2]`, `None` means now.
pub fn utimens(object: BorrowedFd<'_>, times: Option<&[u8; 32]>) -> Result<i64, Errno> {
    let times = times.map_or(NONE, |bytes| Arg::Bytes(bytes));
    call(libc::SYS_utimensat, [fd(object), Arg::Text(c""), times, number(libc::AT_EMPTY_PATH), NONE, NONE])
}

/// futimens(3): utimensat(2) with a null path.
pub fn futimens(file: BorrowedFd<'_>, times: Option<&[u8; 32]>) -> Result<i64, Errno> {
    let times = times.map_or(NONE, |bytes| Arg::Bytes(bytes));
    call(libc::SYS_utimensat, [fd(file), NONE, times, NONE, NONE, NONE])
}

/// setxattr(2); follows, so the path is one that names a pinned object.
pub fn setxattr(path: &CStr, name: &CStr, value: &[u8], flags: u32) -> Result<i64, Errno> {
    let length = value.len() as i64;
    call(libc::SYS_setxattr, [Arg::Text(path), Arg::Text(name), Arg::Bytes(value), number(length), number(flags), NONE])
}

pub fn fsetxattr(file: BorrowedFd<'_>, name: &CStr, value: &[u8], flags: u32) -> Result<i64, Errno> {
    let length = value.len() as i64;
    call(libc::SYS_fsetxattr, [fd(file), Arg::Text(name), Arg::Bytes(value), number(length), number(flags), NONE])
}

/// removexattr(2); follows, so the path is one that names a pinned object.
pub fn removexattr(path: &CStr, name: &CStr) -> Result<i64, Errno> {
    call(libc::SYS_removexattr, [Arg::Text(path), Arg::Text(name), NONE, NONE, NONE, NONE])
}

pub fn fremovexattr(file: BorrowedFd<'_>, name: &CStr) -> Result<i64, Errno> {
    call(libc::SYS_fremovexattr, [fd(file), Arg::Text(name), NONE, NONE, NONE, NONE])
}

/// file_setattr(2), Linux 6.17; follows, so the path is one that names a pinned object. `attributes` is the tool's
/// `struct file_attr`.
pub fn file_setattr(path: &CStr, attributes: &[u8]) -> Result<i64, Errno> {
    let length = attributes.len() as i64;
    let cwd = number(libc::AT_FDCWD);
    call(SYS_FILE_SETATTR, [cwd, Arg::Text(path), Arg::Bytes(attributes), number(length), NONE, NONE])
}

/// file_setattr(2) on an open descriptor.
pub fn file_setattr_of(file: BorrowedFd<'_>, attributes: &[u8]) -> Result<i64, Errno> {
    let length = attributes.len() as i64;
    let at = number(libc::AT_EMPTY_PATH);
    call(SYS_FILE_SETATTR, [fd(file), Arg::Text(c""), Arg::Bytes(attributes), number(length), at, NONE])
}

/// `FS_IOC_SETFLAGS`, `FS_IOC_FSSETXATTR`: ioctls that read `argument` and write nothing back.
/// Without one the kernel finds nothing to read, and says so unless it has another error to give.
pub fn ioctl_set(file: BorrowedFd<'_>, command: u32, argument: Option<&[u8]>) -> Result<i64, Errno> {
    let argument = argument.map_or(NONE, Arg::Bytes);
    call(libc::SYS_ioctl, [fd(file), number(command), argument, NONE, NONE, NONE])
}

/// The soft limit of open files of another thread, prlimit(2).
pub fn open_files_limit(thread: i32) -> Result<u64, Errno> {
    limit(thread, libc::RLIMIT_NOFILE)
}

/// The soft limit of a file's size of another thread, in bytes; `u64::MAX` is none.
pub fn file_size_limit(thread: i32) -> Result<u64, Errno> {
    limit(thread, libc::RLIMIT_FSIZE)
}

fn limit(thread: i32, resource: libc::__rlimit_resource_t) -> Result<u64, Errno> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes one rlimit to the live structure that the pointer names, and reads none.
    let result = unsafe { libc::prlimit(thread, resource, std::ptr::null(), &raw mut limit) };
    if result == 0 { Ok(limit.rlim_cur) } else { Err(Errno::of(&std::io::Error::last_os_error())) }
}

/// asm-generic/socket.h, the same on x86-64 and aarch64; Linux 6.5.
const SO_PEERPIDFD: libc::c_int = 77;

/// The process that connected this unix socket, unix(7): its id in this process's pid namespace, and a handle. `ESRCH` or
/// `EINVAL` if it is gone.
pub fn peer(socket: &OwnedFd) -> Result<(i32, OwnedFd), Errno> {
    let process = rustix::net::sockopt::socket_peercred(socket)?.pid.as_raw_nonzero().get();
    let mut pidfd: libc::c_int = -1;
    let mut length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the kernel writes one int to the live variable that the pointer names, whose size is given, and its length.
    let result = unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, SO_PEERPIDFD, (&raw mut pidfd).cast(), &raw mut length)
    };
    if result != 0 || pidfd < 0 {
        return Err(Errno::of(&std::io::Error::last_os_error()));
    }
    // SAFETY: the kernel has just made this descriptor for us; nobody else owns it.
    Ok((process, unsafe { OwnedFd::from_raw_fd(pidfd) }))
}

/// Whether a process has not ended, pidfd_open(2).
pub fn is_alive(pidfd: &OwnedFd) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut polled = [PollFd::new(pidfd, PollFlags::IN)];
    poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) == Ok(0)
}

/// Sends a signal to one thread of this process, tgkill(2).
pub fn interrupt_thread(thread: i32, signal: i32) {
    let process = i64::from(std::process::id());
    // A thread that has just ended is no error here.
    let _ = call(libc::SYS_tgkill, [Arg::Number(process), number(thread), number(signal), NONE, NONE, NONE]);
}

/// Whether a thread is one of this process, by its id in this process's pid namespace.
pub fn is_own_thread(thread: i32) -> bool {
    let process = i64::from(std::process::id());
    call(libc::SYS_tgkill, [Arg::Number(process), number(thread), NONE, NONE, NONE, NONE]).is_ok()
}

/// The calling thread's id, gettid(2).
pub fn thread_id() -> i32 {
    // SAFETY: gettid(2) takes no arguments and cannot fail.
    unsafe { libc::gettid() }
}

/// Gives the calling thread an umask and a cwd of its own: `unshare(CLONE_FS)`, unshare(2).
pub fn own_umask() -> Result<(), Errno> {
    call(libc::SYS_unshare, [number(libc::CLONE_FS), NONE, NONE, NONE, NONE, NONE]).map(drop)
}

/// Sets the calling thread's umask, umask(2).
pub fn set_umask(mask: u32) {
    // umask(2) cannot fail.
    let _ = call(libc::SYS_umask, [number(mask), NONE, NONE, NONE, NONE, NONE]);
}

/// Makes `signal` interrupt a system call of the thread that receives it (no `SA_RESTART`), sigaction(2).
pub fn let_signal_interrupt(signal: i32) -> Result<(), Errno> {
    extern "C" fn nothing(_: libc::c_int) {}
    let action = nix::sys::signal::SigAction::new(
        nix::sys::signal::SigHandler::Handler(nothing),
        nix::sys::signal::SaFlags::empty(),
        nix::sys::signal::SigSet::empty(),
    );
    let signal = nix::sys::signal::Signal::try_from(signal)?;
    // SAFETY: the handler does nothing and so is async-signal-safe.
    unsafe { nix::sys::signal::sigaction(signal, &action) }?;
    Ok(())
}
