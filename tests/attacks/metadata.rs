//! Attack 18: changes of a file's metadata and length, by path and by a descriptor that was opened for reading.

use crate::Test;
use crate::engine::{self, Family};
use crate::raw::{self, AT_FDCWD, Raw, outside, sys, text};
use crate::support::user;

pub const TESTS: &[Test] = &[("metadata_is_judged_by_path_and_by_descriptor", || engine::run_family(&METADATA))];

const EXTRA: u64 = user::EXTRA_GID as u64;
const KEEP: u64 = u32::MAX as u64;
const EMPTY_PATH: u64 = libc::AT_EMPTY_PATH as u64;
/// Two `timespec` or `timeval` long past.
const TIMES: [u64; 4] = [1_000_000, 0, 1_000_000, 0];

pub const METADATA: Family = Family {
    name: "metadata",
    prepare: engine::with_victims,
    guarded: engine::outside_and_home,
    variants: &[
        ("chmod", || sys(libc::SYS_chmod, [victim().at(), 0o604])),
        ("fchmodat", || sys(libc::SYS_fchmodat, [AT_FDCWD, victim().at(), 0o604])),
        ("fchmodat2-empty-path", || sys(452, [o_path()?, text("").at(), 0o604, EMPTY_PATH])),
        ("fchmod", || sys(libc::SYS_fchmod, [reading()?, 0o604])),
        ("chmod-by-proc", || sys(libc::SYS_chmod, [text(format!("/proc/self/fd/{}", o_path()?)).at(), 0o604])),
        ("chown", || sys(libc::SYS_chown, [victim().at(), KEEP, EXTRA])),
        ("lchown", || sys(libc::SYS_lchown, [victim().at(), KEEP, EXTRA])),
        ("fchown", || sys(libc::SYS_fchown, [reading()?, KEEP, EXTRA])),
        ("fchownat-empty-path", || sys(libc::SYS_fchownat, [o_path()?, text("").at(), KEEP, EXTRA, EMPTY_PATH])),
        ("utime", || sys(libc::SYS_utime, [victim().at(), TIMES.as_ptr() as u64])),
        ("utimes", || sys(libc::SYS_utimes, [victim().at(), TIMES.as_ptr() as u64])),
        ("futimesat-of-a-descriptor", || sys(libc::SYS_futimesat, [reading()?, 0, TIMES.as_ptr() as u64])),
        ("utimensat", || sys(libc::SYS_utimensat, [AT_FDCWD, victim().at(), TIMES.as_ptr() as u64, 0])),
        ("futimens", || sys(libc::SYS_utimensat, [reading()?, 0, TIMES.as_ptr() as u64, 0])),
        ("setxattr", || setxattr(libc::SYS_setxattr, victim().at())),
        ("lsetxattr", || setxattr(libc::SYS_lsetxattr, victim().at())),
        ("fsetxattr", || setxattr(libc::SYS_fsetxattr, reading()?)),
        ("setxattrat-empty-path", || {
            let value = *b"value\0\0\0";
            let args = [value.as_ptr() as u64, 5];
            sys(463, [reading()?, text("").at(), EMPTY_PATH, text("user.hit").at(), args.as_ptr() as u64, 16])
        }),
        ("set-acl", || {
            let acl: [u32; 7] = [2, 0x0006_0001, KEEP as u32, 0x0006_0004, KEEP as u32, 0x0004_0020, KEEP as u32];
            sys(libc::SYS_setxattr, [victim().at(), text("system.posix_acl_access").at(), acl.as_ptr() as u64, 28, 0])
        }),
        ("truncate", || sys(libc::SYS_truncate, [victim().at(), 1])),
        ("ftruncate-of-a-descriptor-opened-again", || {
            let fd = raw::open(&format!("/proc/self/fd/{}", reading()?), libc::O_WRONLY)?;
            sys(libc::SYS_ftruncate, [fd as u64, 1])
        }),
        ("inode-flags", || sys(libc::SYS_ioctl, [reading()?, 0x4008_6602, (&raw const NODUMP) as u64])),
        ("project-flags", || sys(libc::SYS_ioctl, [reading()?, 0x401c_5820, XFLAGS.as_ptr() as u64])),
        ("file_setattr", || sys(469, [AT_FDCWD, victim().at(), XFLAGS.as_ptr() as u64, 24, 0])),
    ],
};

/// FS_NODUMP_FL beside FS_EXTENT_FL, which ext4 keeps.
static NODUMP: u64 = 0x80040;
/// FS_XFLAG_NODUMP.
static XFLAGS: [u64; 4] = [0x80, 0, 0, 0];

fn victim() -> raw::Text {
    text(outside("victim"))
}

fn reading() -> Result<u64, i32> {
    raw::open(&outside("victim"), libc::O_RDONLY).map(|fd| fd as u64)
}

fn o_path() -> Result<u64, i32> {
    raw::open(&outside("victim"), libc::O_PATH).map(|fd| fd as u64)
}

fn setxattr(number: i64, target: u64) -> Raw {
    sys(number, [target, text("user.hit").at(), text("value").at(), 5, 0])
}
