//! Calls that work on names: open, make, remove, rename, link.

use super::{At, Attempt, Registers, at, open_how, openat2};
use crate::session::sys;
use crate::session::target::{Target, Unreadable};

/// Every path below starts here unless the call names a directory.
const CWD: i32 = libc::AT_FDCWD;

pub(super) fn decode(target: &Target<'_>, number: i64, r: Registers) -> Result<Option<Attempt>, Unreadable> {
    let path = |directory: i32, index: usize| at(target, directory, r.long(index));
    Ok(Some(match number {
        libc::SYS_openat => open(path(r.int(0), 1)?, r.int(2), r.mode(3)),
        sys::SYS_OPENAT2 => openat2(target, r)?,
        libc::SYS_mkdirat => Attempt::MakeDirectory { at: path(r.int(0), 1)?, mode: r.mode(2) },
        libc::SYS_unlinkat => Attempt::Remove { at: path(r.int(0), 1)?, flags: r.int(2) },
        libc::SYS_renameat2 => rename(path(r.int(0), 1)?, path(r.int(2), 3)?, r.uint(4)),
        libc::SYS_linkat => link(path(r.int(0), 1)?, path(r.int(2), 3)?, r.int(4)),
        libc::SYS_symlinkat => symlink(target, r.long(0), path(r.int(1), 2)?)?,
        libc::SYS_mknodat => Attempt::MakeNode { at: path(r.int(0), 1)?, mode: r.mode(2), device: r.uint(3) },
        libc::SYS_truncate => Attempt::Truncate { at: path(CWD, 0)?, length: r.long(1) as i64 },
        #[cfg(target_arch = "x86_64")]
        libc::SYS_renameat => rename(path(r.int(0), 1)?, path(r.int(2), 3)?, 0),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_open => open(path(CWD, 0)?, r.int(1), r.mode(2)),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_creat => open(path(CWD, 0)?, libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC, r.mode(1)),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_mkdir => Attempt::MakeDirectory { at: path(CWD, 0)?, mode: r.mode(1) },
        #[cfg(target_arch = "x86_64")]
        libc::SYS_rmdir => Attempt::Remove { at: path(CWD, 0)?, flags: libc::AT_REMOVEDIR },
        #[cfg(target_arch = "x86_64")]
        libc::SYS_unlink => Attempt::Remove { at: path(CWD, 0)?, flags: 0 },
        #[cfg(target_arch = "x86_64")]
        libc::SYS_rename => rename(path(CWD, 0)?, path(CWD, 1)?, 0),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_link => link(path(CWD, 0)?, path(CWD, 1)?, 0),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_symlink => symlink(target, r.long(0), path(CWD, 1)?)?,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_mknod => Attempt::MakeNode { at: path(CWD, 0)?, mode: r.mode(1), device: r.uint(2) },
        _ => return Ok(None),
    }))
}

fn open(at: At, flags: i32, mode: u32) -> Attempt {
    Attempt::Open { at, how: open_how(flags, mode), strict: false }
}

fn rename(from: At, to: At, flags: u32) -> Attempt {
    Attempt::Rename { from, to, flags }
}

fn link(from: At, to: At, flags: i32) -> Attempt {
    Attempt::Link { from, to, flags }
}

/// The text is a path by its limits alone: it is stored, not followed. An empty one is `ENOENT`, symlink(2).
fn symlink(target: &Target<'_>, text: u64, at: At) -> Result<Attempt, Unreadable> {
    let text = target.path(text)?;
    if text.is_empty() {
        return Err(crate::common::errno::Errno::NOENT.into());
    }
    Ok(Attempt::Symlink { text, at })
}
