//! Attack 40: files that something outside the session runs later, under the built-in profile for coding agents.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::engine::{self, Family, attack};
use crate::raw::{self, Raw, sys, text};
use crate::support::{Sandbox, Side};
use crate::{Inside, Test};

pub const TESTS: &[Test] = &[
    ("what_is_run_outside_later_is_asked_for", || engine::run_family(&LASTING)),
    ("what_joins_a_directory_while_it_moves_is_judged_too", joins),
    ("scratch_is_no_way_in_for_what_is_run_outside_later", || engine::run_family(&FROM_SCRATCH)),
];

pub const INSIDE: &[Inside] = &[("join-while-moving", join_while_moving)];

/// Where a directory with hooks in it would be found by git.
const MODULE: &str = ".git/modules/d";

fn joins() {
    for side in engine::sides() {
        let sandbox = prepare();
        let outcome = attack(&sandbox, *side, "join-while-moving", &[]);
        let hit = outcome.number("hits") > 0;
        outcome.assert(hit == (*side == Side::Bare), "whether hooks came along with a directory that had none");
    }
}

/// A directory moves to where its hooks would be run while a thread puts hooks into it.
fn join_while_moving(_: &[String]) {
    let mut hits = 0;
    for round in 0..300 {
        let _ = raw::mkdir("d");
        (0..50).for_each(|file| {
            let _ = make(&format!("d/{file}"));
        });
        let _ = raw::mkdir("hooks");
        let _ = make("hooks/pre-commit");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_micros(50 * (round % 40)));
                let _ = raw::rename("hooks", "d/hooks");
            });
            std::thread::sleep(Duration::from_micros(500));
            let _ = raw::rename("d", MODULE);
        });
        let came_along = format!("{MODULE}/hooks/pre-commit");
        if std::path::Path::new(&came_along).exists() {
            hits += 1;
            break;
        }
        for left in [MODULE, "d", "hooks"] {
            let _ = std::fs::remove_dir_all(left);
        }
    }
    raw::say("hits", hits);
}

fn prepare() -> Sandbox {
    let mut sandbox = engine::with_victims();
    sandbox.profile_named("coder");
    let work = sandbox.workspace();
    sandbox.file(&work.join(".git/config"), "[core]\n");
    sandbox.file(&work.join(".git/HEAD"), "ref: refs/heads/main\n");
    sandbox.dir(&work.join(".git/hooks"));
    sandbox.file(&work.join("module/.envrc"), "original\n");
    sandbox.file(&work.join(".git/modules/b"), "a file\n");
    sandbox.file(&work.join("tree/.git"), "gitdir: elsewhere\n");
    sandbox.file(&work.join("evil/hooks/pre-commit"), "evil\n");
    sandbox.dir(&work.join("race"));
    sandbox.file(&work.join("plain/file"), "plain\n");
    for dir in [".config/systemd/user", ".config/autostart", ".local/bin", ".ssh"] {
        sandbox.dir(&sandbox.home().join(dir));
    }
    sandbox
}

fn guarded(sandbox: &Sandbox) -> Vec<PathBuf> {
    let work = [
        ".git/hooks",
        ".git/config",
        ".git/modules/a",
        ".git/modules/b",
        ".envrc",
        "module/.envrc",
        "new/.envrc",
        ".vscode",
        "plain/.envrc",
        "race/.git",
        "tree/.git",
    ];
    let home = [".bashrc", ".profile", ".config", ".local", ".ssh"];
    let mut all: Vec<PathBuf> = work.iter().map(|name| sandbox.workspace().join(name)).collect();
    all.extend(home.iter().map(|name| sandbox.home().join(name)));
    all.push(sandbox.outside());
    all
}

fn steps(all: &[fn() -> Raw]) -> Raw {
    all.iter().try_fold(0, |_, step| step())
}

/// Makes the file while another thread makes and removes a directory of that name: a name that is there one moment and
/// gone the next.
fn make_where_a_directory_comes_and_goes(path: &str) -> Raw {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let flipper = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let _ = raw::mkdir(path);
                let _ = raw::rmdir(path);
            }
        });
        let result = (0..2_000).map(|_| make(path)).find(Result::is_ok).unwrap_or(Err(libc::EACCES));
        stop.store(true, Ordering::Relaxed);
        let _ = flipper.join();
        result
    })
}

fn make(path: &str) -> Raw {
    raw::overwrite(path, libc::O_CREAT | libc::O_TRUNC)
}

pub const LASTING: Family = Family {
    name: "lasting",
    prepare,
    guarded,
    variants: &[
        ("git-hook", || make(".git/hooks/pre-commit")),
        ("git-config", || make(".git/config")),
        ("git-config-renamed-over", || steps(&[|| make("c"), || raw::rename("c", ".git/config")])),
        ("git-config-by-its-lock", || {
            steps(&[|| make(".git/config.lock"), || raw::rename(".git/config.lock", ".git/config")])
        }),
        ("git-config-hard-linked", || steps(&[|| raw::link(".git/config", "mine"), || raw::overwrite("mine", 0)])),
        ("git-directory-renamed-and-back", || {
            steps(&[|| raw::rename(".git", "g"), || make("g/hooks/pre-commit"), || raw::rename("g", ".git")])
        }),
        ("git-directory-exchanged", || {
            steps(&[
                || raw::mkdir("g"),
                || raw::mkdir("g/hooks"),
                || make("g/hooks/pre-commit"),
                || raw::exchange("g", ".git"),
            ])
        }),
        ("hooks-directory-brought", || {
            steps(&[
                || raw::mkdir("h"),
                || make("h/pre-commit"),
                || raw::rmdir(".git/hooks"),
                || raw::rename("h", ".git/hooks"),
            ])
        }),
        ("git-directory-as-a-link", || {
            steps(&[
                || raw::mkdir("g"),
                || raw::mkdir("g/hooks"),
                || make("g/hooks/pre-commit"),
                || raw::rename(".git", "old"),
                || raw::symlink("g", ".git"),
            ])
        }),
        ("git-file-rewritten", || raw::overwrite("tree/.git", 0)),
        ("git-file-cut", || sys(libc::SYS_truncate, [text("tree/.git").at(), 0])),
        ("git-file-where-a-directory-comes-and-goes", || make_where_a_directory_comes_and_goes("race/.git")),
        ("module-as-a-link-that-is-renamed", || {
            steps(&[|| raw::symlink("../../evil", "l"), || raw::rename("l", ".git/modules/a")])
        }),
        ("module-as-a-link-that-is-exchanged", || {
            steps(&[|| raw::symlink("../../evil", "l"), || raw::exchange("l", ".git/modules/b")])
        }),
        ("module-as-a-link-that-is-hard-linked", || {
            steps(&[|| raw::symlink("../../evil", "l"), || raw::link("l", ".git/modules/a")])
        }),
        ("hook-by-a-link", || steps(&[|| raw::symlink(".git/hooks", "h"), || make("h/pre-commit")])),
        ("hook-as-a-link", || raw::symlink("../../free", ".git/hooks/pre-commit")),
        ("hook-hard-linked", || raw::link("free", ".git/hooks/pre-commit")),
        ("envrc-that-is-missing", || make(".envrc")),
        ("envrc-that-is-there", || make("module/.envrc")),
        ("envrc-in-a-new-directory", || steps(&[|| raw::mkdir("new"), || make("new/.envrc")])),
        ("envrc-renamed-to", || raw::rename("free", "plain/.envrc")),
        ("envrc-brought-with-its-directory", || raw::rename("module", "new")),
        ("vscode-tasks-that-are-missing", || steps(&[|| raw::mkdir(".vscode"), || make(".vscode/tasks.json")])),
        ("shell-start-file", || make(&raw::home(".bashrc"))),
        ("shell-start-file-that-is-missing", || make(&raw::home(".profile"))),
        ("systemd-unit", || make(&raw::home(".config/systemd/user/x.service"))),
        ("autostart", || make(&raw::home(".config/autostart/x.desktop"))),
        ("program-in-the-path", || make(&raw::home(".local/bin/git"))),
        ("ssh-keys", || make(&raw::home(".ssh/authorized_keys"))),
    ],
};

/// The same profile with scratch in the workspace, in which nothing is judged.
const WITH_SCRATCH: &str = r#"
schema = 1

[profile]
name = "with-scratch"
extends = ["coder"]

[scratch]
path = ["{workspace}/target/**"]
"#;

fn prepare_scratch() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.profile(WITH_SCRATCH);
    let work = sandbox.workspace();
    sandbox.dir(&work.join("target/made/.git/hooks"));
    sandbox.dir(&work.join("there"));
    sandbox
}

pub const FROM_SCRATCH: Family = Family {
    name: "from-scratch",
    prepare: prepare_scratch,
    guarded: |sandbox| ["project", "there"].iter().map(|name| sandbox.workspace().join(name)).collect(),
    variants: &[
        ("directory-moved-out", || {
            steps(&[|| make("target/made/.git/hooks/pre-commit"), || raw::rename("target/made", "project")])
        }),
        ("directory-exchanged", || {
            steps(&[|| make("target/made/.git/hooks/pre-commit"), || raw::exchange("target/made", "there")])
        }),
        ("file-moved-out", || steps(&[|| make("target/envrc"), || raw::rename("target/envrc", "there/.envrc")])),
        ("file-linked-out", || steps(&[|| make("target/envrc"), || raw::link("target/envrc", "there/.envrc")])),
    ],
};
