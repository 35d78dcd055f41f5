//! From registers to an [`Attempt`]: every argument of a trapped call is copied out of the tool exactly once, here.
//!
//! Runs as the user in the supervisor on hostile numbers and memory. The order in which bad arguments are noticed follows
//! the kernel's own, so that a tool meets the errors it would meet bare.

mod attributes;
mod names;
pub mod network;

use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::sys::{self, OpenHow};
use super::target::{Target, Unreadable};
use crate::common::errno::Errno;

/// A path argument with the directory that it starts from. The path may already be an error, which the kernel reports only
/// after it has looked at the flags.
#[derive(Clone, Debug)]
pub struct At {
    pub directory: i32,
    pub path: Result<CString, Errno>,
    pub links: Links,
}

/// Which links a walk may follow, openat2(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    All,
    /// `RESOLVE_NO_MAGICLINKS`.
    Textual,
    /// `RESOLVE_NO_SYMLINKS`.
    None,
}

/// The object of a change of attributes.
#[derive(Clone, Debug)]
pub enum Subject {
    /// `may_be_empty` is `AT_EMPTY_PATH`: an empty path means the directory's own descriptor.
    Path { at: At, follow: bool, may_be_empty: bool },
    /// An open descriptor, possibly one opened for reading only.
    Descriptor(i32),
}

/// A change of attributes, with the tool's own bytes where they are a structure.
#[derive(Clone, Debug)]
pub enum Change {
    Mode(u32),
    Owner {
        user: u32,
        group: u32,
    },
    /// `struct timespec[2]`, or now.
    Times(Option<[u8; 32]>),
    SetXattr {
        name: CString,
        value: Vec<u8>,
        flags: u32,
    },
    RemoveXattr {
        name: CString,
    },
    /// `struct file_attr` of file_setattr(2).
    FileAttributes(Vec<u8>),
    /// An ioctl that sets inode flags; its number and its argument, `None` if that cannot be read: the kernel first looks
    /// whether the file knows the ioctl at all.
    InodeFlags {
        command: u32,
        argument: Option<Vec<u8>>,
    },
}

/// One trapped call, decoded.
#[derive(Clone, Debug)]
pub enum Attempt {
    Open {
        at: At,
        how: OpenHow,
        strict: bool,
    },
    MakeDirectory {
        at: At,
        mode: u32,
    },
    Remove {
        at: At,
        flags: i32,
    },
    Rename {
        from: At,
        to: At,
        flags: u32,
    },
    Link {
        from: At,
        to: At,
        flags: i32,
    },
    Symlink {
        text: CString,
        at: At,
    },
    MakeNode {
        at: At,
        mode: u32,
        device: u32,
    },
    Truncate {
        at: At,
        length: i64,
    },
    Change {
        subject: Subject,
        change: Change,
    },
    /// socket(2) of TCP, or of datagrams on `AF_UNIX`: the type still has its flags.
    MakeSocket {
        domain: i32,
        kind: i32,
        protocol: i32,
    },
    OnSocket {
        file: Arc<OwnedFd>,
        asked: network::Asked,
    },
    /// A call that succeeds without a look at its object: utimensat(2) with two `UTIME_OMIT`.
    Nothing,
}

impl Attempt {
    /// Whether the kernel would run the call again after a signal whose handler has `SA_RESTART`, signal(7).
    pub fn is_restarted(&self) -> bool {
        match self {
            Attempt::OnSocket { file, asked } => asked.is_restarted(file),
            _ => true,
        }
    }
}

/// Registers as the kernel's C functions take them: ints are the low half, whatever stands above.
#[derive(Clone, Copy)]
struct Registers([u64; 6]);

impl Registers {
    fn long(self, index: usize) -> u64 {
        self.0.get(index).copied().unwrap_or(0)
    }

    fn uint(self, index: usize) -> u32 {
        self.long(index) as u32
    }

    fn int(self, index: usize) -> i32 {
        self.uint(index) as i32
    }

    /// `umode_t`, 16 bits.
    fn mode(self, index: usize) -> u32 {
        u32::from(self.long(index) as u16)
    }
}

/// The attempt behind a notification. `ENOSYS` for a number that the filter should not have trapped.
pub fn decode(target: &Target<'_>) -> Result<Attempt, Unreadable> {
    let notification = target.notification();
    let registers = Registers(notification.args);
    if let Some(attempt) = names::decode(target, notification.number, registers)? {
        return Ok(attempt);
    }
    if let Some(attempt) = attributes::decode(target, notification.number, registers)? {
        return Ok(attempt);
    }
    if let Some(attempt) = network::decode(target, notification.number, registers)? {
        return Ok(attempt);
    }
    Err(Errno::NOSYS.into())
}

/// The path at this address, relative to this directory.
fn at(target: &Target<'_>, directory: i32, address: u64) -> Result<At, Unreadable> {
    let path = match target.path(address) {
        Ok(path) => Ok(path),
        Err(Unreadable::Native(errno)) => Err(errno),
        Err(Unreadable::Gone) => return Err(Unreadable::Gone),
    };
    Ok(At { directory, path, links: Links::All })
}

/// A structure of a size that the caller names (`copy_struct_from_user`): zero-extended or cut to `N` bytes; `E2BIG` if
/// what is cut is not zero, or beyond a page; `EINVAL` below `least`.
fn extensible<const N: usize>(
    target: &Target<'_>,
    address: u64,
    size: u64,
    least: usize,
) -> Result<[u8; N], Unreadable> {
    const PAGE_SIZE: u64 = 4096;
    if size < least as u64 {
        return Err(Errno::INVAL.into());
    }
    if size > PAGE_SIZE {
        return Err(Errno::TOOBIG.into());
    }
    let bytes = target.bytes(address, size as usize)?;
    let mut known = [0; N];
    let common = bytes.len().min(N);
    if let (Some(to), Some(from)) = (known.get_mut(..common), bytes.get(..common)) {
        to.copy_from_slice(from);
    }
    if bytes.iter().skip(N).any(|&byte| byte != 0) {
        return Err(Errno::TOOBIG.into());
    }
    Ok(known)
}

fn word(bytes: &[u8], index: usize) -> u64 {
    let part = bytes.get(index * 8..index * 8 + 8).and_then(|part| part.try_into().ok());
    part.map_or(0, u64::from_ne_bytes)
}

/// Flags that open(2) knows; it drops all others, openat2(2) refuses them (`VALID_OPEN_FLAGS`, linux/fcntl.h).
const VALID_OPEN_FLAGS: i32 = libc::O_ACCMODE
    | libc::O_CREAT
    | libc::O_EXCL
    | libc::O_NOCTTY
    | libc::O_TRUNC
    | libc::O_APPEND
    | libc::O_NDELAY
    | libc::O_NONBLOCK
    | libc::O_SYNC
    | libc::O_DSYNC
    | libc::O_ASYNC
    | libc::O_DIRECT
    | O_LARGEFILE
    | libc::O_DIRECTORY
    | libc::O_NOFOLLOW
    | libc::O_NOATIME
    | libc::O_CLOEXEC
    | libc::O_PATH
    | libc::O_TMPFILE;

#[cfg(target_arch = "x86_64")]
const O_LARGEFILE: i32 = 0o100000;
#[cfg(target_arch = "aarch64")]
const O_LARGEFILE: i32 = 0o400000;

/// What open(2) makes of its flags and mode before it looks at anything else (`build_open_how`, fs/open.c).
fn open_how(flags: i32, mode: u32) -> OpenHow {
    const PATH_FLAGS: i32 = libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_PATH | libc::O_CLOEXEC;
    let mut flags = (flags | O_LARGEFILE) & VALID_OPEN_FLAGS;
    if flags & libc::O_PATH != 0 {
        flags &= PATH_FLAGS;
    }
    let creates = flags & libc::O_CREAT != 0 || flags & libc::O_TMPFILE == libc::O_TMPFILE;
    OpenHow { flags: u64::from(flags as u32), mode: if creates { u64::from(mode & 0o7777) } else { 0 }, resolve: 0 }
}

fn openat2(target: &Target<'_>, registers: Registers) -> Result<Attempt, Unreadable> {
    let bytes = extensible::<24>(target, registers.long(2), registers.long(3), 24)?;
    let how = OpenHow { flags: word(&bytes, 0), mode: word(&bytes, 1), resolve: word(&bytes, 2) };
    // Flags are refused before the path is looked at.
    sys::check_open_how(how)?;
    let at = At { links: links_of(how), ..at(target, registers.int(0), registers.long(1))? };
    Ok(Attempt::Open { at, how, strict: true })
}

/// `RESOLVE_CACHED` only says how long a walk may take, so it is passed over.
fn links_of(how: OpenHow) -> Links {
    match how.resolve {
        rules if rules & libc::RESOLVE_NO_SYMLINKS != 0 => Links::None,
        rules if rules & libc::RESOLVE_NO_MAGICLINKS != 0 => Links::Textual,
        _ => Links::All,
    }
}
