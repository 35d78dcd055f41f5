//! Attack 16: the less usual ways to a writable file.

use crate::Test;
use crate::engine::{self, Family};
use crate::raw::{self, AT_FDCWD, Raw, outside, sys, text};

pub const TESTS: &[Test] = &[("every_way_to_open_is_judged", || engine::run_family(&OPENERS))];

const WRITE_NEW: u64 = (libc::O_WRONLY | libc::O_CREAT) as u64;

pub const OPENERS: Family = Family {
    name: "openers",
    prepare: engine::with_victims,
    guarded: engine::outside_and_home,
    variants: &[
        ("open-write", || raw::overwrite(&outside("victim"), 0)),
        ("open-append", || raw::overwrite(&outside("victim"), libc::O_APPEND)),
        ("open-read-and-truncate", || raw::open(&outside("victim"), libc::O_RDONLY | libc::O_TRUNC)),
        ("open-access-mode-three-and-truncate", || raw::open(&outside("victim"), 3 | libc::O_TRUNC)),
        ("open-read-and-create", || raw::open(&outside("new"), libc::O_RDONLY | libc::O_CREAT)),
        ("creat", || sys(libc::SYS_creat, [text(outside("victim")).at(), 0o644])),
        ("by-a-directory-descriptor", || {
            let dir = raw::open(&outside(""), libc::O_RDONLY | libc::O_DIRECTORY)?;
            sys(libc::SYS_openat, [dir as u64, text("new").at(), WRITE_NEW, 0o644])
        }),
        ("by-an-o-path-directory", || {
            let dir = raw::open(&outside(""), libc::O_PATH)?;
            sys(libc::SYS_openat, [dir as u64, text("new").at(), WRITE_NEW, 0o644])
        }),
        ("an-o-path-file-opened-again", || {
            let fd = raw::open(&outside("victim"), libc::O_PATH)?;
            raw::overwrite(&format!("/proc/self/fd/{fd}"), 0)
        }),
        ("a-read-descriptor-opened-again", || {
            let fd = raw::open(&outside("victim"), libc::O_RDONLY)?;
            raw::overwrite(&format!("/dev/fd/{fd}"), libc::O_TRUNC)
        }),
        ("an-unnamed-file-given-a-name", || {
            let fd = raw::open(&outside(""), libc::O_TMPFILE | libc::O_WRONLY)?;
            let from = text(format!("/proc/self/fd/{fd}"));
            sys(
                libc::SYS_linkat,
                [AT_FDCWD, from.at(), AT_FDCWD, text(outside("named")).at(), libc::AT_SYMLINK_FOLLOW as u64],
            )
        }),
        ("an-unnamed-file-of-the-workspace-given-a-name-outside", || {
            let fd = raw::open(".", libc::O_TMPFILE | libc::O_WRONLY)?;
            let from = text(format!("/proc/self/fd/{fd}"));
            sys(
                libc::SYS_linkat,
                [AT_FDCWD, from.at(), AT_FDCWD, text(outside("named")).at(), libc::AT_SYMLINK_FOLLOW as u64],
            )
        }),
        ("openat2", || openat2(AT_FDCWD, &outside("new"), 0)),
        ("openat2-no-magiclinks", || openat2(AT_FDCWD, &outside("new"), libc::RESOLVE_NO_MAGICLINKS)),
        ("openat2-no-symlinks", || openat2(AT_FDCWD, &outside("new"), libc::RESOLVE_NO_SYMLINKS)),
        ("openat2-no-xdev", || openat2(AT_FDCWD, "../../outside/new", libc::RESOLVE_NO_XDEV)),
        ("openat2-beneath", || openat2(outside_dir()?, "dir/new", libc::RESOLVE_BENEATH)),
        ("openat2-in-root", || openat2(outside_dir()?, "/../../dir/new", libc::RESOLVE_IN_ROOT)),
        ("openat2-cached", || {
            // Only what is in the cache already: look at it first.
            let how = [(libc::O_WRONLY | libc::O_TRUNC) as u64, 0, libc::RESOLVE_CACHED];
            std::fs::metadata(outside("victim")).map_err(|error| error.raw_os_error().unwrap_or(0))?;
            let path = text(outside("victim"));
            match sys(libc::SYS_openat2, [AT_FDCWD, path.at(), how.as_ptr() as u64, 24]) {
                // O_TRUNC is not for cached lookups: what is refused there is tried without.
                Err(libc::EAGAIN) => {
                    let how = [libc::O_WRONLY as u64, 0, libc::RESOLVE_CACHED];
                    let fd = sys(libc::SYS_openat2, [AT_FDCWD, path.at(), how.as_ptr() as u64, 24])?;
                    raw::write(fd, b"hit\n")
                }
                other => other,
            }
        }),
        ("writable-by-mmap", || {
            let fd = raw::open(&outside("victim"), libc::O_RDWR)?;
            let map = sys(
                libc::SYS_mmap,
                [0, 4096, (libc::PROT_READ | libc::PROT_WRITE) as u64, libc::MAP_SHARED as u64, fd as u64, 0],
            )?;
            // SAFETY: the first byte of a mapping of a file that is not empty.
            unsafe { (map as *mut u8).write_volatile(b'X') };
            Ok(0)
        }),
    ],
};

fn outside_dir() -> Result<u64, i32> {
    raw::open(&outside(""), libc::O_PATH | libc::O_DIRECTORY).map(|fd| fd as u64)
}

fn openat2(dirfd: u64, path: &str, resolve: u64) -> Raw {
    let how = [WRITE_NEW, 0o644, resolve];
    sys(libc::SYS_openat2, [dirfd, text(path).at(), how.as_ptr() as u64, 24])
}
