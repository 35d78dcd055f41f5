//! The host's view of the file system, for a supervisor that lives in the session's: a descriptor of `/` that was opened
//! before the session's mount namespace was made. What is looked up from it sees the host's mounts as they are now.
//!
//! Opened as root, used as the user with the user's file rights. Nothing of the session holds a copy.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};

use super::decimal::Decimal;
use crate::common::errno::Errno;
use crate::common::path::RawPath;

/// Links are followed as the host would, and none leads out; links of `/proc` are not, which would be the supervisor's own.
const IN_HOST: ResolveFlags = ResolveFlags::IN_ROOT.union(ResolveFlags::NO_MAGICLINKS);

/// The host's `/`, `O_PATH`.
#[derive(Debug)]
pub struct HostRoot(OwnedFd);

impl HostRoot {
    /// The root of the calling process, which has the host's mount namespace still.
    pub fn open() -> io::Result<HostRoot> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(HostRoot(openat2(CWD, c"/", flags, Mode::empty(), ResolveFlags::empty())?))
    }

    /// Opens what an absolute path leads to, openat2(2); `flags` may be `O_PATH`. Errors are the kernel's.
    pub fn open_at(&self, path: &RawPath, flags: OFlags) -> Result<OwnedFd, Errno> {
        let text = CString::new(path.as_bytes()).map_err(|_| Errno::INVAL)?;
        Ok(openat2(&self.0, &*text, flags | OFlags::CLOEXEC, Mode::empty(), IN_HOST)?)
    }

    /// All of a small file, for instance of `/etc/resolv.conf`; `E2BIG` beyond `limit` bytes.
    pub fn read(&self, path: &RawPath, limit: usize) -> Result<Vec<u8>, Errno> {
        // A fifo or device in its place must hold nobody up.
        let file = self.open_at(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)?;
        let mut text = Vec::new();
        loop {
            let mut part = [0u8; 4096];
            match rustix::io::read(&file, &mut part) {
                Ok(0) => return Ok(text),
                Ok(count) => text.extend_from_slice(part.get(..count).unwrap_or_default()),
                Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            if text.len() > limit {
                return Err(Errno::TOOBIG);
            }
        }
    }

    /// The canonical path, in the host's view, of what was opened with [`HostRoot::open_at`]. `procfs` is the outer `/proc`.
    pub fn path_of(&self, handle: &OwnedFd, procfs: impl AsFd) -> Result<RawPath, Errno> {
        let name_of = |descriptor: &OwnedFd| {
            let mut number = Decimal::default();
            let link = [b"self/fd/", number.of(descriptor.as_raw_fd()).to_bytes()].concat();
            rustix::fs::readlinkat(procfs.as_fd(), link, Vec::with_capacity(256)).map(|text| text.into_bytes())
        };
        let (root, path) = (name_of(&self.0)?, name_of(handle)?);
        // Only in a chroot(2) is the root anything but `/`.
        Ok(match path.strip_prefix(root.as_slice()) {
            Some(rest) if rest.first() == Some(&b'/') => RawPath::new(rest),
            _ => RawPath::new(path),
        })
    }
}
