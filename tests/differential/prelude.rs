//! The tree that every program starts in: one of each kind of thing that a path can meet.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;
use std::sync::OnceLock;

use super::program::{Step, from_text};
use crate::support::user;

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
pub fn make_foreign(dir: &Path) {
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
}
