//! The user that tools run as in tests: known only to a child's own mount namespace, so that no file of the machine changes.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

pub const NAME: &str = "gated-test";
pub const UID: u32 = 60777;
pub const GID: u32 = 60777;
/// A supplementary group, `gated-extra`.
pub const EXTRA_GID: u32 = 60778;

/// Writes `passwd` and `group` into `dir`: the host's lines and the test user's, with this home.
pub fn write_files(dir: &Path, home: &Path) -> io::Result<()> {
    let passwd = fs::read_to_string("/etc/passwd")?;
    let group = fs::read_to_string("/etc/group")?;
    let home = home.display();
    fs::write(dir.join("passwd"), format!("{}\n{NAME}:x:{UID}:{GID}::{home}:/bin/sh\n", passwd.trim_end()))?;
    let groups = format!("{NAME}:x:{GID}:\ngated-extra:x:{EXTRA_GID}:{NAME}\n");
    fs::write(dir.join("group"), format!("{}\n{groups}", group.trim_end()))
}

/// One mount that a child makes in its own mount namespace.
pub enum Mount {
    /// `from` appears at `at`; both exist.
    Bind { from: CString, at: CString },
    /// An empty tmpfs; `options` as in tmpfs(5).
    Tmpfs { at: CString, options: CString },
    /// What is mounted at `at` gets these flags, `MS_RDONLY` or the like.
    Flags { at: CString, flags: libc::c_ulong },
}

impl Mount {
    pub fn bind(from: &Path, at: &Path) -> Mount {
        Mount::Bind { from: text(from), at: text(at) }
    }

    pub fn tmpfs(at: &Path, options: &str) -> Mount {
        Mount::Tmpfs { at: text(at), options: CString::new(options).expect("options hold no NUL") }
    }

    pub fn flags(at: &Path, flags: libc::c_ulong) -> Mount {
        Mount::Flags { at: text(at), flags }
    }
}

fn text(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).expect("a test's path holds no NUL")
}

fn done(result: i32) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Enters a new mount namespace and makes `mounts` in it. Only makes system calls: usable between fork and exec.
pub fn enter(mounts: &[Mount]) -> io::Result<()> {
    // SAFETY: every pointer is a live, NUL-terminated string or null where mount(2) takes null.
    unsafe {
        done(libc::unshare(libc::CLONE_NEWNS))?;
        let none = c"none".as_ptr();
        let private = libc::MS_REC | libc::MS_PRIVATE;
        done(libc::mount(none, c"/".as_ptr(), std::ptr::null(), private, std::ptr::null()))?;
        for mount in mounts {
            match mount {
                Mount::Bind { from, at } => {
                    done(libc::mount(from.as_ptr(), at.as_ptr(), std::ptr::null(), libc::MS_BIND, std::ptr::null()))?
                }
                Mount::Tmpfs { at, options } => {
                    done(libc::mount(none, at.as_ptr(), c"tmpfs".as_ptr(), 0, options.as_ptr().cast()))?
                }
                Mount::Flags { at, flags } => {
                    let flags = libc::MS_BIND | libc::MS_REMOUNT | flags;
                    done(libc::mount(none, at.as_ptr(), std::ptr::null(), flags, std::ptr::null()))?
                }
            }
        }
    }
    Ok(())
}

/// Becomes the test user for good, as setpriv(1) would: all groups, no capability. Only makes system calls.
pub fn become_test_user() -> io::Result<()> {
    let groups = [GID, EXTRA_GID];
    // SAFETY: `groups` is an array of the length that is given.
    unsafe {
        done(libc::setgroups(groups.len(), groups.as_ptr()))?;
        done(libc::setresgid(GID, GID, GID))?;
        done(libc::setresuid(UID, UID, UID))
    }
}
