//! Attack 15: descriptors that a tool inherits.

use std::ffi::OsString;
use std::fs;

use crate::engine;
use crate::raw;
use crate::support::Side;
use crate::{Inside, Test};

pub const TESTS: &[Test] = &[
    ("a_tool_has_its_three_descriptors_and_no_other", only_three),
    ("a_descriptor_of_the_caller_does_not_reach_the_tool", callers_own),
];

pub const INSIDE: &[Inside] = &[("descriptors", descriptors_inside)];

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
