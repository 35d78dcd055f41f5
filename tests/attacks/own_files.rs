//! Attack 42: gated's own files, under a profile that allows every change.

use std::path::PathBuf;

use crate::Test;
use crate::engine::{self, Family};
use crate::raw::{self, Raw};
use crate::support::{Sandbox, profiles};

pub const TESTS: &[Test] = &[("no_profile_lets_a_tool_change_gated_s_own_files", || engine::run_family(&OWN_FILES))];

/// All in a directory of the test user, who could change them all.
fn prepare() -> Sandbox {
    let mut sandbox = engine::with_victims();
    sandbox.profile(profiles::ALLOW_ALL);
    sandbox.answers("[[answer]]\naccess = \"write\"\nobject = \"/**\"\nanswer = \"session\"\n");
    let control = sandbox.control();
    sandbox.give(&control);
    for name in ["profile.toml", "answers.toml"] {
        sandbox.give(&control.join(name));
    }
    // There before gated-run is, as after an earlier session; the directory is what lets the user take them away.
    for name in ["audit.jsonl", "events.jsonl"] {
        std::fs::write(control.join(name), "").expect("write");
    }
    sandbox.dir(&sandbox.home().join(".config/gated/profiles"));
    sandbox
}

fn guarded(sandbox: &Sandbox) -> Vec<PathBuf> {
    let control = sandbox.control();
    let mut all =
        vec![control.join("profile.toml"), control.join("answers.toml"), sandbox.home().join(".config/gated")];
    // Their names: there while they are gated's own, and not the thing that a tool put there.
    all.extend(["taken", "moved"].map(|name| sandbox.outside().join(name)));
    all
}

fn own(name: &str) -> String {
    PathBuf::from(raw::home("")).join("../gated").join(name).display().to_string()
}

fn taken() -> String {
    raw::outside("taken")
}

pub const OWN_FILES: Family = Family {
    name: "own-files",
    prepare,
    guarded,
    variants: &[
        ("profile-written", || raw::overwrite(&own("profile.toml"), 0)),
        ("profile-cut", || raw::open(&own("profile.toml"), libc::O_RDONLY | libc::O_TRUNC)),
        ("profile-removed", || raw::unlink(&own("profile.toml"))),
        ("profile-replaced", || raw::rename("free", &own("profile.toml"))),
        ("profile-linked", || {
            raw::link(&own("profile.toml"), "mine")?;
            raw::overwrite("mine", 0)
        }),
        ("profile-mode", || raw::sys(libc::SYS_chmod, [raw::text(own("profile.toml")).at(), 0o666])),
        ("script-written", || raw::overwrite(&own("answers.toml"), 0)),
        ("script-removed", || raw::unlink(&own("answers.toml"))),
        ("audit-moved-away", || raw::rename(&own("audit.jsonl"), &taken())),
        ("audit-exchanged", || exchanged("audit.jsonl")),
        ("events-moved-away", || raw::rename(&own("events.jsonl"), &taken())),
        ("events-exchanged", || exchanged("events.jsonl")),
        ("directory-moved-away", || raw::rename(&own(""), &raw::outside("moved")).or_else(|_| moved_contents())),
        ("user-profile-made", || raw::overwrite(&raw::home(".config/gated/profiles/coder.toml"), libc::O_CREAT)),
        ("user-configuration-moved-away", || raw::rename(&raw::home(".config/gated"), &taken())),
    ],
};

fn exchanged(name: &str) -> Raw {
    raw::overwrite(&taken(), libc::O_CREAT)?;
    let done = raw::exchange(&taken(), &own(name));
    // What must not be seen outside is gated's own file: without the exchange only this one's own file is there.
    if done.is_err() {
        raw::unlink(&taken())?;
    }
    done
}

/// The directory's own parent belongs to root; bare, everything in it can still be taken.
fn moved_contents() -> Raw {
    raw::rename(&own("audit.jsonl"), &taken())
}
