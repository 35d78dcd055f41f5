//! The tree that every program starts in: one of each kind of thing that a path can meet.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::program::{Step, from_text};
use crate::support::{Sandbox, user};

/// Performed by the executor, as the user, in the program's empty directory.
const TEXT: &str = r#"
mkdir "d" 0o755
mkdir "d/e" 0o755
mkdir "empty" 0o755
mkdir "ro" 0o755
mkdir "x" 0o755
mkdir "sgid" 0o755
chown "sgid" -1 60778
chmod "sgid" 0o2775
mkdir "sticky" 0o755
chmod "sticky" 0o1777
mkdir "acl" 0o755
open "f" 0x41 0o644
write 3 "content of f" 12
close 3
open "d/g" 0x41 0o644
write 3 "content of g" 12
close 3
open "d/e/h" 0x41 0o600
close 3
open "ro/r" 0x41 0o644
close 3
open "x/y" 0x41 0o644
close 3
open "f0444" 0x41 0o444
close 3
open "f0000" 0x41 0o000
close 3
link "f" "hl"
symlink "f" "lf"
symlink "d" "ld"
symlink "{W}/d/g" "labs"
symlink "nowhere" "ldang"
symlink "lloop" "lloop"
symlink "../d/e" "d/up"
chmod "ro" 0o555
chmod "x" 0o111
"#;

/// A default ACL as the kernel keeps it (acl(5), version 2): user rwx, user 60777 rwx, group r-x, mask rwx, other none.
const DEFAULT_ACL: &str = concat!(
    r#"setxattr "acl" "system.posix_acl_default" "\x02\x00\x00\x00"#,
    r#"\x01\x00\x07\x00\xff\xff\xff\xff"#,
    r#"\x02\x00\x07\x00\x69\xed\x00\x00"#,
    r#"\x04\x00\x05\x00\xff\xff\xff\xff"#,
    r#"\x10\x00\x07\x00\xff\xff\xff\xff"#,
    r#"\x20\x00\x00\x00\xff\xff\xff\xff" 44 0"#
);

pub fn steps() -> &'static [Step] {
    static STEPS: OnceLock<Vec<Step>> = OnceLock::new();
    STEPS.get_or_init(|| from_text(&format!("{TEXT}\n{DEFAULT_ACL}")))
}

/// What belongs to somebody else, made by root: `{F}` of the programs. Shared by the programs of one run, in their order.
pub fn make_foreign(dir: &Path) -> Held {
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("chmod");
    for (name, bits) in [("", 0o755), ("open", 0o777), ("sticky", 0o1777), ("locked", 0o700), ("sgid", 0o2777)] {
        let path = dir.join(name);
        fs::create_dir(&path).expect("mkdir");
        mode(&path, bits);
    }
    for (name, bits) in
        [("f644", 0o644), ("f666", 0o666), ("open/f644", 0o644), ("sticky/f666", 0o666), ("locked/f666", 0o666)]
    {
        let path = dir.join(name);
        fs::write(&path, format!("foreign {name}")).expect("write");
        mode(&path, bits);
    }
    fs::write(dir.join("group"), "of the group").expect("write");
    chown(dir.join("group"), Some(0), Some(user::EXTRA_GID)).expect("chown");
    mode(&dir.join("group"), 0o664);
    symlink("f666", dir.join("c00")).expect("symlink");
    for index in 1..45 {
        symlink(format!("c{:02}", index - 1), dir.join(format!("c{index:02}"))).expect("symlink");
    }
    fs::create_dir(dir.join("sticky/d")).expect("mkdir");
    for (name, bits) in [("m", 0o777), ("m/ro", 0o777), ("m/tmp", 0o755), ("m/full", 0o755), ("m/noexec", 0o755)] {
        fs::create_dir(dir.join(name)).expect("mkdir");
        mode(&dir.join(name), bits);
    }
    fs::write(dir.join("m/ro/f666"), "read-only").expect("write");
    mode(&dir.join("m/ro/f666"), 0o666);
    chown(dir.join("m/ro/f666"), Some(user::UID), Some(user::GID)).expect("chown");
    fs::write(dir.join("m/file"), "a mount of its own").expect("write");
    fs::copy("/bin/true", dir.join("m/noexec/true")).expect("copy");
    Held::make(&dir.join("held"))
}

/// Mounts of a program's world, below `{F}/m`.
pub fn mounts(sandbox: &mut Sandbox, foreign: &Path) {
    sandbox.flagged(&foreign.join("m/ro"), libc::MS_RDONLY);
    sandbox.flagged(&foreign.join("m/noexec"), libc::MS_NOEXEC);
    sandbox.tmpfs(&foreign.join("m/tmp"), "mode=1777,size=1m");
    sandbox.bind_file(&foreign.join("f644"), &foreign.join("m/file"));
    // Room for its root and one file.
    sandbox.tmpfs(&foreign.join("m/full"), "mode=1777,nr_inodes=2");
}

/// `{F}/held`: the user's own files that are immutable or may only be appended to, ioctl_iflags(2). Let go when dropped, so
/// that they can be removed.
pub struct Held(Vec<PathBuf>);

const IMMUTABLE: libc::c_long = 0x10;
const APPEND: libc::c_long = 0x20;

impl Held {
    fn make(dir: &Path) -> Held {
        for name in ["", "closed", "closed/d"] {
            fs::create_dir(dir.join(name)).expect("mkdir");
        }
        for name in ["immutable", "append", "f", "closed/f"] {
            fs::write(dir.join(name), name).expect("write");
        }
        for name in ["", "closed", "closed/d", "immutable", "append", "f", "closed/f"] {
            chown(dir.join(name), Some(user::UID), Some(user::GID)).expect("chown");
        }
        let flagged = [("immutable", IMMUTABLE), ("append", APPEND), ("closed", IMMUTABLE)];
        Held(flagged.map(|(name, flags)| set_flags(&dir.join(name), flags)).to_vec())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        for path in &self.0 {
            set_flags(path, 0);
        }
    }
}

fn set_flags(path: &Path, flags: libc::c_long) -> PathBuf {
    const SETTABLE: libc::c_long = IMMUTABLE | APPEND;
    let file = File::open(path).expect("it is there");
    let mut now: libc::c_long = 0;
    // SAFETY: ioctl_iflags(2) reads or writes one long.
    unsafe {
        assert_eq!(libc::ioctl(file.as_raw_fd(), libc::FS_IOC_GETFLAGS as _, &mut now), 0, "the file system has flags");
        now = now & !SETTABLE | flags;
        assert_eq!(libc::ioctl(file.as_raw_fd(), libc::FS_IOC_SETFLAGS as _, &now), 0, "root may set flags");
    }
    path.to_owned()
}
