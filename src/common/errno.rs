//! An error number that the kernel will report as an error.

use serde::{Deserialize, Serialize};

/// 1..=4095 (`MAX_ERRNO`, include/linux/err.h). seccomp_unotify(2) hands any other number to the program as a *success*,
/// so nothing else can be represented here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "u16", into = "u16")]
pub struct Errno(u16);

impl Errno {
    pub const PERM: Errno = Errno(libc::EPERM as u16);
    pub const NOENT: Errno = Errno(libc::ENOENT as u16);
    pub const INTR: Errno = Errno(libc::EINTR as u16);
    pub const IO: Errno = Errno(libc::EIO as u16);
    pub const BADF: Errno = Errno(libc::EBADF as u16);
    pub const ACCES: Errno = Errno(libc::EACCES as u16);
    pub const FAULT: Errno = Errno(libc::EFAULT as u16);
    pub const EXIST: Errno = Errno(libc::EEXIST as u16);
    pub const XDEV: Errno = Errno(libc::EXDEV as u16);
    pub const NOTDIR: Errno = Errno(libc::ENOTDIR as u16);
    pub const ISDIR: Errno = Errno(libc::EISDIR as u16);
    pub const INVAL: Errno = Errno(libc::EINVAL as u16);
    pub const ROFS: Errno = Errno(libc::EROFS as u16);
    pub const NAMETOOLONG: Errno = Errno(libc::ENAMETOOLONG as u16);
    pub const NOSYS: Errno = Errno(libc::ENOSYS as u16);
    pub const LOOP: Errno = Errno(libc::ELOOP as u16);
    pub const TOOBIG: Errno = Errno(libc::E2BIG as u16);
    pub const OPNOTSUPP: Errno = Errno(libc::EOPNOTSUPP as u16);
    pub const NODATA: Errno = Errno(libc::ENODATA as u16);
    pub const NOTEMPTY: Errno = Errno(libc::ENOTEMPTY as u16);
    pub const BUSY: Errno = Errno(libc::EBUSY as u16);
    pub const SRCH: Errno = Errno(libc::ESRCH as u16);
    pub const MFILE: Errno = Errno(libc::EMFILE as u16);
    pub const NFILE: Errno = Errno(libc::ENFILE as u16);
    pub const FBIG: Errno = Errno(libc::EFBIG as u16);
    pub const RANGE: Errno = Errno(libc::ERANGE as u16);
    pub const NOTTY: Errno = Errno(libc::ENOTTY as u16);
    pub const AFNOSUPPORT: Errno = Errno(libc::EAFNOSUPPORT as u16);
    pub const PROTONOSUPPORT: Errno = Errno(libc::EPROTONOSUPPORT as u16);
    pub const NOEXEC: Errno = Errno(libc::ENOEXEC as u16);
    pub const NOMEM: Errno = Errno(libc::ENOMEM as u16);
    pub const CANCELED: Errno = Errno(libc::ECANCELED as u16);
    pub const NOTSOCK: Errno = Errno(libc::ENOTSOCK as u16);
    pub const ADDRINUSE: Errno = Errno(libc::EADDRINUSE as u16);
    pub const CONNREFUSED: Errno = Errno(libc::ECONNREFUSED as u16);
    pub const NETUNREACH: Errno = Errno(libc::ENETUNREACH as u16);
    pub const INPROGRESS: Errno = Errno(libc::EINPROGRESS as u16);
    pub const MSGSIZE: Errno = Errno(libc::EMSGSIZE as u16);
    pub const NOPROTOOPT: Errno = Errno(libc::ENOPROTOOPT as u16);

    /// `None` outside 1..=4095.
    pub fn new(raw: i32) -> Option<Errno> {
        (1..=4095).contains(&raw).then_some(Errno(raw as u16))
    }

    /// The number of an I/O error; `EIO` where it carries none.
    pub fn of(error: &std::io::Error) -> Errno {
        error.raw_os_error().and_then(Errno::new).unwrap_or(Errno::IO)
    }

    /// Positive, as in errno(3).
    pub fn raw(self) -> i32 {
        i32::from(self.0)
    }
}

impl From<Errno> for u16 {
    fn from(errno: Errno) -> u16 {
        errno.0
    }
}

impl TryFrom<u16> for Errno {
    type Error = &'static str;
    fn try_from(raw: u16) -> Result<Errno, Self::Error> {
        Errno::new(i32::from(raw)).ok_or("an errno is 1 to 4095")
    }
}

impl From<rustix::io::Errno> for Errno {
    fn from(errno: rustix::io::Errno) -> Errno {
        Errno::new(errno.raw_os_error()).unwrap_or(Errno::IO)
    }
}

impl From<nix::errno::Errno> for Errno {
    fn from(errno: nix::errno::Errno) -> Errno {
        Errno::new(errno as i32).unwrap_or(Errno::IO)
    }
}

impl std::fmt::Display for Errno {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::io::Error::from_raw_os_error(self.raw()).fmt(f)
    }
}
