//! Attack 17: a protected file comes into a writable place by a second name, or loses the name that protects it.

use std::path::PathBuf;

use crate::Test;
use crate::engine::{self, Family};
use crate::raw::{self, AT_FDCWD, Raw, outside, sys, text};
use crate::support::{Sandbox, profiles};

pub const TESTS: &[Test] = &[
    ("a_file_outside_gets_no_name_in_the_workspace", || engine::run_family(&NAMES)),
    ("a_protected_name_in_the_workspace_is_not_moved_with_its_parent", || engine::run_family(&PROTECTED_BELOW)),
];

pub const NAMES: Family = Family {
    name: "names",
    prepare: engine::with_victims,
    guarded: engine::outside_and_home,
    variants: &[
        ("hard-link-then-write", || {
            raw::link(&outside("victim"), "mine")?;
            raw::overwrite("mine", 0)
        }),
        ("hard-link-of-a-link-followed", || {
            raw::symlink(&outside("victim"), "s")?;
            sys(
                libc::SYS_linkat,
                [AT_FDCWD, text("s").at(), AT_FDCWD, text("mine").at(), libc::AT_SYMLINK_FOLLOW as u64],
            )?;
            raw::overwrite("mine", 0)
        }),
        ("hard-link-of-a-descriptor", || {
            let fd = raw::open(&outside("victim"), libc::O_RDONLY)?;
            let from = text(format!("/proc/self/fd/{fd}"));
            sys(libc::SYS_linkat, [AT_FDCWD, from.at(), AT_FDCWD, text("mine").at(), libc::AT_SYMLINK_FOLLOW as u64])?;
            raw::overwrite("mine", 0)
        }),
        ("hard-link-of-an-empty-path", || {
            let fd = raw::open(&outside("victim"), libc::O_RDONLY)?;
            sys(libc::SYS_linkat, [fd as u64, text("").at(), AT_FDCWD, text("mine").at(), libc::AT_EMPTY_PATH as u64])?;
            raw::overwrite("mine", 0)
        }),
        ("rename-in", || raw::rename(&outside("victim"), "mine")),
        ("rename-out", || raw::rename("free", &outside("victim"))),
        ("rename-a-directory-in", || raw::rename(&outside("dir"), "mine")),
        ("exchange", || raw::exchange("free", &outside("victim"))),
        ("hard-link-out", || raw::link("free", &outside("new"))),
        ("symlink-out", || raw::symlink("anything", &outside("new"))),
        ("rename-the-shell-start-file-away", || raw::rename(&raw::home(".bashrc"), "mine")),
        ("rename-over-the-shell-start-file", || raw::rename("free", &raw::home(".bashrc"))),
        ("fifo-out", || sys(libc::SYS_mknod, [text(outside("fifo")).at(), u64::from(libc::S_IFIFO | 0o644), 0])),
        ("unlink", || raw::unlink(&outside("victim"))),
        ("remove-a-directory", || {
            raw::unlink(&outside("dir/inner"))?;
            raw::rmdir(&outside("dir"))
        }),
    ],
};

fn with_a_secret() -> Sandbox {
    let sandbox = engine::with_victims();
    let rule = "\n[[rule]]\nid = \"secret\"\naccess = [\"write\"]\npath = [\"{workspace}/a/b/secret\", \"{workspace}/a/missing/**\"]\nlevel = \"deny\"\n";
    sandbox.profile(&format!("{}{rule}", profiles::WORKSPACE));
    sandbox.file(&sandbox.workspace().join("a/b/secret"), "original\n");
    sandbox.file(&sandbox.workspace().join("a/b/plain"), "plain\n");
    sandbox
}

fn secret_and_missing(sandbox: &Sandbox) -> Vec<PathBuf> {
    ["a/b/secret", "a/missing"].iter().map(|name| sandbox.workspace().join(name)).collect()
}

fn steps(all: &[fn() -> Raw]) -> Raw {
    all.iter().try_fold(0, |_, step| step())
}

pub const PROTECTED_BELOW: Family = Family {
    name: "protected-below",
    prepare: with_a_secret,
    guarded: secret_and_missing,
    variants: &[
        ("write", || raw::overwrite("a/b/secret", 0)),
        ("hard-link-beside-it", || steps(&[|| raw::link("a/b/secret", "a/b/mine"), || raw::overwrite("a/b/mine", 0)])),
        ("rename-it", || raw::rename("a/b/secret", "mine")),
        ("rename-its-directory", || raw::rename("a/b", "c")),
        ("rename-the-directory-above", || raw::rename("a", "c")),
        ("exchange-its-directory", || steps(&[|| raw::mkdir("c"), || raw::exchange("a/b", "c")])),
        ("rename-over-it", || raw::rename("a/b/plain", "a/b/secret")),
        ("make-what-is-missing", || {
            steps(&[|| raw::mkdir("a/missing"), || raw::overwrite("a/missing/x", libc::O_CREAT)])
        }),
        ("bring-a-tree-to-the-missing-name", || {
            steps(&[|| raw::mkdir("t"), || raw::overwrite("t/x", libc::O_CREAT), || raw::rename("t", "a/missing")])
        }),
        ("bring-a-tree-above-the-missing-name", || {
            steps(&[
                || raw::mkdir("t"),
                || raw::mkdir("t/missing"),
                || raw::overwrite("t/missing/x", libc::O_CREAT),
                || raw::exchange("t", "a"),
            ])
        }),
        ("by-a-link-in-the-workspace", || steps(&[|| raw::symlink("a/b", "s"), || raw::overwrite("s/secret", 0)])),
        ("remove", || raw::unlink("a/b/secret")),
    ],
};
