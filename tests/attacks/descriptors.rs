//! Attack 15: descriptors that a tool inherits.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;

use crate::engine;
use crate::raw::{self, AT_FDCWD, sys, text};
use crate::support::Side;
use crate::{Inside, Test};

pub const TESTS: &[Test] = &[
    ("a_tool_has_its_three_descriptors_and_no_other", only_three),
    ("a_descriptor_of_the_caller_does_not_reach_the_tool", callers_own),
    ("a_file_of_the_hosts_tmp_as_stdin_is_not_the_sessions_own", hosts_tmp),
];

pub const INSIDE: &[Inside] = &[("descriptors", descriptors_inside), ("change-stdin", change_stdin)];

fn only_three() {
    if !engine::gated_too() {
        return;
    }
    let sandbox = engine::with_victims();
    let outcome = engine::attack(&sandbox, Side::Gated, "descriptors", &[]);
    outcome.assert(outcome.values("fd").len() == 3, "stdin, stdout and stderr");
    for kind in ["seccomp", "socket:", "anon_inode"] {
        outcome.assert(!outcome.out().contains(kind), &format!("no {kind} descriptor"));
    }
}

/// Lists the descriptors, and writes to every one above stderr.
fn descriptors_inside(_: &[String]) {
    let links: Vec<(i64, String)> = (0..1024)
        .filter_map(|fd| Some((fd, fs::read_link(format!("/proc/self/fd/{fd}")).ok()?.display().to_string())))
        .collect();
    for (fd, target) in links {
        raw::say("fd", format!("{fd} {target}"));
        if fd > 2 {
            let _ = raw::write(fd, b"hit\n");
        }
    }
}

fn callers_own() {
    for side in engine::sides() {
        let sandbox = engine::with_victims();
        let victim = sandbox.outside().join("victim");
        let inner = sandbox.inside::<&str>("descriptors", &[]);
        let inner = if *side == Side::Gated { sandbox.gated_argv(&inner) } else { inner };
        let mut line: Vec<OsString> = ["sh", "-c", "exec 9>>\"$0\"; exec \"$@\""].map(OsString::from).to_vec();
        line.push(victim.clone().into());
        line.extend(inner);
        let outcome = sandbox.start_line(*side, &line, None).finish();
        outcome.assert(outcome.out().contains("ran descriptors"), "the attack came to its end");
        let hit = fs::read_to_string(&victim).expect("the victim").contains("hit");
        outcome.assert(hit == (*side == Side::Bare), "whether the caller's descriptor was written to");
    }
}

/// The session's /tmp is scratch; a file of the host's has a path like one in it, and is not.
fn hosts_tmp() {
    for side in engine::sides() {
        let sandbox = engine::with_victims();
        let file = tempfile::Builder::new().prefix("gated-").tempfile_in("/tmp").expect("/tmp");
        sandbox.give(file.path());
        let look = || fs::metadata(file.path()).map(|meta| (meta.mode(), meta.mtime(), meta.len())).expect("the file");
        let before = look();
        let inner = sandbox.inside::<&str>("change-stdin", &[]);
        let inner = if *side == Side::Gated { sandbox.gated_argv(&inner) } else { inner };
        let mut line: Vec<OsString> = ["sh", "-c", "exec \"$@\" < \"$0\""].map(OsString::from).to_vec();
        line.push(file.path().into());
        line.extend(inner);
        let outcome = sandbox.start_line(*side, &line, None).finish();
        outcome.assert(outcome.out().contains("ran change-stdin"), "the attack came to its end");
        outcome.assert((look() != before) == (*side == Side::Bare), "whether the caller's file changed");
    }
}

fn change_stdin(_: &[String]) {
    raw::say_result("mode", sys(libc::SYS_fchmod, [0, 0o604]));
    raw::say_result("times", sys(libc::SYS_utimensat, [0, 0, [1_u64, 0, 1, 0].as_ptr() as u64, 0]));
    raw::say_result("cut", sys(libc::SYS_truncate, [text("/proc/self/fd/0").at(), 7]));
    raw::say_result("written", raw::overwrite("/dev/stdin", 0));
    raw::say_result(
        "linked",
        sys(libc::SYS_linkat, [AT_FDCWD, text("/proc/self/fd/0").at(), AT_FDCWD, text("l").at(), 0x400]),
    );
}
