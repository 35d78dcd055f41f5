//! Calls that change attributes: mode, owner, times, extended attributes, inode flags; by path and by descriptor.
//!
//! Landlock sees none of them, and a descriptor opened for reading is enough for most.

use std::ffi::CString;

use super::{At, Attempt, Change, Links, Registers, Subject, at, extensible, word};
use crate::common::errno::Errno;
use crate::session::sys;
use crate::session::target::{Target, Unreadable};

const CWD: i32 = libc::AT_FDCWD;
/// linux/limits.h and linux/xattr.h.
const XATTR_NAME_MAX: usize = 255;
const XATTR_SIZE_MAX: u64 = 65536;
/// linux/fs.h: `FS_IOC_SETFLAGS` as 64-bit and 32-bit programs number it, and `FS_IOC_FSSETXATTR`.
pub const FS_IOC_SETFLAGS: u32 = 0x4008_6602;
pub const FS_IOC32_SETFLAGS: u32 = 0x4004_6602;
pub const FS_IOC_FSSETXATTR: u32 = 0x401c_5820;
/// `struct file_attr` and `struct fsxattr`, linux/fs.h.
const FILE_ATTR_SIZE: usize = 24;
const FSXATTR_SIZE: usize = 28;

pub(super) fn decode(target: &Target<'_>, number: i64, r: Registers) -> Result<Option<Attempt>, Unreadable> {
    let path = |directory: i32, index: usize| at(target, directory, r.long(index));
    let named = |directory: i32, index: usize, follow: bool| -> Result<Subject, Unreadable> {
        Ok(Subject::Path { at: path(directory, index)?, follow, may_be_empty: false })
    };
    let (subject, change) = match number {
        libc::SYS_fchmod => (Subject::Descriptor(r.int(0)), Change::Mode(r.mode(1))),
        libc::SYS_fchmodat => (named(r.int(0), 1, true)?, Change::Mode(r.mode(2))),
        sys::SYS_FCHMODAT2 => (flagged(r.int(3), || path(r.int(0), 1))?, Change::Mode(r.mode(2))),
        libc::SYS_fchown => (Subject::Descriptor(r.int(0)), owner(r, 1)),
        libc::SYS_fchownat => (flagged(r.int(4), || path(r.int(0), 1))?, owner(r, 2)),
        libc::SYS_utimensat => return utimensat(target, r),
        libc::SYS_setxattr => named_after(set_xattr(target, r, 1)?, || named(CWD, 0, true))?,
        libc::SYS_lsetxattr => named_after(set_xattr(target, r, 1)?, || named(CWD, 0, false))?,
        libc::SYS_fsetxattr => (open_file(r.int(0)), set_xattr(target, r, 1)?),
        libc::SYS_removexattr => named_after(remove_xattr(target, r, 1)?, || named(CWD, 0, true))?,
        libc::SYS_lremovexattr => named_after(remove_xattr(target, r, 1)?, || named(CWD, 0, false))?,
        libc::SYS_fremovexattr => (Subject::Descriptor(r.int(0)), remove_xattr(target, r, 1)?),
        sys::SYS_SETXATTRAT => return setxattrat(target, r),
        sys::SYS_REMOVEXATTRAT => {
            check_flags(r.int(2))?;
            let change = remove_xattr(target, r, 3)?;
            let subject = match descriptor_if_empty(target, r, r.int(2))? {
                // Unlike setxattrat, this one knows no cwd here.
                Subject::Path { at: At { directory, path: Ok(path), .. }, may_be_empty: true, .. }
                    if path.is_empty() =>
                {
                    Subject::Descriptor(directory)
                }
                subject => subject,
            };
            (subject, change)
        }
        sys::SYS_FILE_SETATTR => return file_setattr(target, r),
        libc::SYS_ioctl => (Subject::Descriptor(r.int(0)), inode_flags(target, r)?),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_chmod => (named(CWD, 0, true)?, Change::Mode(r.mode(1))),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_chown => (named(CWD, 0, true)?, owner(r, 1)),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_lchown => (named(CWD, 0, false)?, owner(r, 1)),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_utime => {
            let times = seconds(target, r.long(1))?;
            (named(CWD, 0, true)?, Change::Times(times))
        }
        #[cfg(target_arch = "x86_64")]
        libc::SYS_utimes => {
            let times = microseconds(target, r.long(1))?;
            (named(CWD, 0, true)?, Change::Times(times))
        }
        #[cfg(target_arch = "x86_64")]
        libc::SYS_futimesat => {
            let times = microseconds(target, r.long(2))?;
            let subject = if r.long(1) == 0 && r.int(0) != CWD {
                Subject::Descriptor(r.int(0))
            } else {
                named(r.int(0), 1, true)?
            };
            (subject, Change::Times(times))
        }
        _ => return Ok(None),
    };
    Ok(Some(Attempt::Change { subject, change }))
}

fn named_after(
    change: Change,
    subject: impl FnOnce() -> Result<Subject, Unreadable>,
) -> Result<(Subject, Change), Unreadable> {
    Ok((subject()?, change))
}

fn owner(r: Registers, first: usize) -> Change {
    Change::Owner { user: r.uint(first), group: r.uint(first + 1) }
}

/// The subject of a call with `AT_SYMLINK_NOFOLLOW` and `AT_EMPTY_PATH`; other flags are `EINVAL` before the path is read.
fn flagged(flags: i32, path: impl FnOnce() -> Result<At, Unreadable>) -> Result<Subject, Unreadable> {
    check_flags(flags)?;
    let may_be_empty = flags & libc::AT_EMPTY_PATH != 0;
    Ok(Subject::Path { at: path()?, follow: flags & libc::AT_SYMLINK_NOFOLLOW == 0, may_be_empty })
}

/// As [`flagged`], for the calls in which an empty or null path with `AT_EMPTY_PATH` means the open descriptor, so that a
/// path handle is `EBADF` (`getname_maybe_null`, Linux 6.13).
fn descriptor_if_empty(target: &Target<'_>, r: Registers, flags: i32) -> Result<Subject, Unreadable> {
    let (directory, address) = (r.int(0), r.long(1));
    if flags & libc::AT_EMPTY_PATH != 0 && address == 0 {
        return Ok(open_file(directory));
    }
    match flagged(flags, || at(target, directory, address))? {
        Subject::Path { at: At { path: Ok(path), .. }, may_be_empty: true, .. } if path.is_empty() => {
            Ok(open_file(directory))
        }
        subject => Ok(subject),
    }
}

/// The subject of fsetxattr(2) and of the calls of Linux 6.13 and later with an empty path: an open file, and for `AT_FDCWD`
/// the cwd after all.
fn open_file(descriptor: i32) -> Subject {
    if descriptor >= 0 {
        return Subject::Descriptor(descriptor);
    }
    let at = At { directory: descriptor, path: Ok(CString::default()), links: Links::All };
    Subject::Path { at, follow: true, may_be_empty: true }
}

/// Flags of the `*xattrat` calls are checked before anything is read.
fn check_flags(flags: i32) -> Result<(), Unreadable> {
    let known = libc::AT_SYMLINK_NOFOLLOW | libc::AT_EMPTY_PATH;
    if flags & !known == 0 { Ok(()) } else { Err(Errno::INVAL.into()) }
}

/// utimensat(2): a null path means the descriptor itself. Both times `UTIME_OMIT` succeed at once, whatever else is given.
fn utimensat(target: &Target<'_>, r: Registers) -> Result<Option<Attempt>, Unreadable> {
    let times = match r.long(2) {
        0 => None,
        address => Some(target.array::<32>(address)?),
    };
    if omits_both(&times) {
        return Ok(Some(Attempt::Nothing));
    }
    let subject = if r.long(1) == 0 && r.int(0) != CWD {
        if r.int(3) != 0 {
            return Err(Errno::INVAL.into());
        }
        Subject::Descriptor(r.int(0))
    } else {
        flagged(r.int(3), || at(target, r.int(0), r.long(1)))?
    };
    Ok(Some(Attempt::Change { subject, change: Change::Times(times) }))
}

fn omits_both(times: &Option<[u8; 32]>) -> bool {
    let omit = libc::UTIME_OMIT as u64;
    times.as_ref().is_some_and(|bytes| word(bytes, 1) == omit && word(bytes, 3) == omit)
}

/// utime(2): `struct utimbuf`, seconds.
#[cfg(target_arch = "x86_64")]
fn seconds(target: &Target<'_>, address: u64) -> Result<Option<[u8; 32]>, Unreadable> {
    if address == 0 {
        return Ok(None);
    }
    let bytes = target.array::<16>(address)?;
    Ok(Some(timespecs([word(&bytes, 0), 0, word(&bytes, 1), 0])))
}

/// utimes(2), futimesat(2): `struct timeval[2]`; microseconds outside 0..1000000 are `EINVAL`.
#[cfg(target_arch = "x86_64")]
fn microseconds(target: &Target<'_>, address: u64) -> Result<Option<[u8; 32]>, Unreadable> {
    if address == 0 {
        return Ok(None);
    }
    let bytes = target.array::<32>(address)?;
    let [first, second] = [word(&bytes, 1), word(&bytes, 3)];
    if first >= 1_000_000 || second >= 1_000_000 {
        return Err(Errno::INVAL.into());
    }
    Ok(Some(timespecs([word(&bytes, 0), first * 1000, word(&bytes, 2), second * 1000])))
}

#[cfg(target_arch = "x86_64")]
fn timespecs(words: [u64; 4]) -> [u8; 32] {
    let mut bytes = [0; 32];
    for (slot, word) in bytes.chunks_exact_mut(8).zip(words) {
        slot.copy_from_slice(&word.to_ne_bytes());
    }
    bytes
}

/// The name, value, size and flags of setxattr(2), from this register on.
fn set_xattr(target: &Target<'_>, r: Registers, first: usize) -> Result<Change, Unreadable> {
    xattr_value(target, r.long(first), r.long(first + 1), r.long(first + 2), r.uint(first + 3))
}

/// In the kernel's order (`setxattr_copy`, fs/xattr.c): flags, name, size, value.
fn xattr_value(target: &Target<'_>, name: u64, value: u64, size: u64, flags: u32) -> Result<Change, Unreadable> {
    if flags & !(libc::XATTR_CREATE | libc::XATTR_REPLACE) as u32 != 0 {
        return Err(Errno::INVAL.into());
    }
    let name = xattr_name(target, name)?;
    if size > XATTR_SIZE_MAX {
        return Err(Errno::TOOBIG.into());
    }
    let value = target.bytes(value, size as usize)?;
    Ok(Change::SetXattr { name, value, flags })
}

fn remove_xattr(target: &Target<'_>, r: Registers, index: usize) -> Result<Change, Unreadable> {
    Ok(Change::RemoveXattr { name: xattr_name(target, r.long(index))? })
}

fn xattr_name(target: &Target<'_>, address: u64) -> Result<CString, Unreadable> {
    let name = target.string(address, XATTR_NAME_MAX + 1, Errno::RANGE)?;
    if name.is_empty() { Err(Errno::RANGE.into()) } else { Ok(name) }
}

/// setxattrat(2), Linux 6.13: `struct xattr_args` of a size that the caller names.
fn setxattrat(target: &Target<'_>, r: Registers) -> Result<Option<Attempt>, Unreadable> {
    let args = extensible::<16>(target, r.long(4), r.long(5), 16)?;
    check_flags(r.int(2))?;
    let size_and_flags = word(&args, 1);
    let change =
        xattr_value(target, r.long(3), word(&args, 0), size_and_flags & 0xffff_ffff, (size_and_flags >> 32) as u32)?;
    let subject = descriptor_if_empty(target, r, r.int(2))?;
    Ok(Some(Attempt::Change { subject, change }))
}

/// file_setattr(2), Linux 6.17.
fn file_setattr(target: &Target<'_>, r: Registers) -> Result<Option<Attempt>, Unreadable> {
    check_flags(r.int(4))?;
    let attributes = extensible::<FILE_ATTR_SIZE>(target, r.long(2), r.long(3), FILE_ATTR_SIZE)?;
    let subject = descriptor_if_empty(target, r, r.int(4))?;
    Ok(Some(Attempt::Change { subject, change: Change::FileAttributes(attributes.to_vec()) }))
}

fn inode_flags(target: &Target<'_>, r: Registers) -> Result<Change, Unreadable> {
    let command = r.uint(1);
    let size = match command {
        // Both take an `int`, whatever size their number encodes.
        FS_IOC_SETFLAGS | FS_IOC32_SETFLAGS => 4,
        FS_IOC_FSSETXATTR => FSXATTR_SIZE,
        _ => return Err(Errno::NOSYS.into()),
    };
    let argument = match target.bytes(r.long(2), size) {
        Ok(argument) => Some(argument),
        Err(Unreadable::Native(_)) => None,
        Err(Unreadable::Gone) => return Err(Unreadable::Gone),
    };
    Ok(Change::InodeFlags { command, argument })
}
