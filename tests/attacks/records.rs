//! Attack 44: the audit log cannot be written. Nothing that needs a record is performed.

use std::path::Path;

use crate::Test;
use crate::engine::{self, attack};
use crate::support::{Sandbox, Side};

pub const TESTS: &[Test] = &[
    ("with_a_full_disk_nothing_is_performed_that_needs_a_record", full_disk),
    ("a_device_that_takes_nothing_is_no_audit_log", full_device),
    ("with_room_the_same_is_performed_and_recorded", with_room),
];

/// A yes to everything: only the record can stop it.
fn sandbox() -> Sandbox {
    let mut sandbox = engine::with_victims();
    sandbox.answers("[[answer]]\naccess = \"write\"\nobject = \"/**\"\nanswer = \"session\"\nscope = \"tree\"\n");
    sandbox
}

fn full_disk() {
    if !engine::gated_too() {
        return;
    }
    let mut sandbox = sandbox();
    let disk = sandbox.root().join("disk");
    std::fs::create_dir(&disk).expect("mkdir");
    // Two blocks at the most, one of them for the filler that the command line writes first.
    sandbox.tmpfs(&disk, "size=4k,mode=755");
    sandbox.audit_to(&disk.join("audit.jsonl"));
    let argv = sandbox.gated_argv(&sandbox.inside::<&str>("ask-once", &[]));
    let fill = ["sh", "-c", "head -c 4096 /dev/zero > \"$0\"; exec \"$@\""].map(Into::into);
    let line: Vec<_> = fill.into_iter().chain([disk.join("filler").into()]).chain(argv).collect();
    let outcome = sandbox.start_line(Side::Gated, &line, None).finish();
    nothing_made(&sandbox, &outcome);
}

fn full_device() {
    if !engine::gated_too() {
        return;
    }
    let mut sandbox = sandbox();
    sandbox.audit_to(Path::new("/dev/full"));
    let outcome = sandbox.on(Side::Gated, &sandbox.inside::<&str>("ask-once", &[]));
    nothing_made(&sandbox, &outcome);
}

/// Refusing to start is as good as refusing each change.
fn nothing_made(sandbox: &Sandbox, outcome: &crate::support::Outcome) {
    outcome
        .assert(outcome.code() == 125 || outcome.out().contains("ran ask-once"), "refused at once, or run to the end");
    outcome.assert(!sandbox.outside().join("new").exists(), "nothing was made without a record");
    outcome.assert(!outcome.out().contains(" ok "), "no call said that it succeeded");
}

fn with_room() {
    if !engine::gated_too() {
        return;
    }
    let sandbox = sandbox();
    let outcome = attack(&sandbox, Side::Gated, "ask-once", &[]);
    outcome.assert(sandbox.outside().join("new").is_dir(), "made");
    let new = sandbox.outside().join("new").display().to_string();
    outcome.assert(outcome.audit.iter().any(|record| record["object"] == new.as_str()), "recorded");
}
