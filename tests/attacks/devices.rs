//! Attack 18 on the device nodes, which are the host's: whoever changes one changes it for every process of the machine.

use std::fs;
use std::os::unix::fs::MetadataExt;

use crate::engine::{self, attack};
use crate::raw::{self, AT_FDCWD, sys, text};
use crate::support::{Sandbox, Side};
use crate::{Inside, Test};

pub const TESTS: &[Test] = &[("the_hosts_device_nodes_keep_their_times", times)];

pub const INSIDE: &[Inside] = &[("touch-device", touch)];

/// Everybody may write to it, so everybody may touch it; and few programs do either.
const NODE: &str = "/dev/full";

fn times() {
    for side in engine::sides() {
        let sandbox = Sandbox::new();
        let modified = || fs::metadata(NODE).map(|meta| (meta.mtime(), meta.mtime_nsec())).expect("the node");
        let before = modified();
        let outcome = attack(&sandbox, *side, "touch-device", &[]);
        outcome.assert((modified() != before) == (*side == Side::Bare), "whether the node's times changed");
        outcome.assert(outcome.out().contains("wrote ENOSPC"), "the device behind the node is written as ever");
    }
}

fn touch(_: &[String]) {
    raw::say_result("touched", sys(libc::SYS_utimensat, [AT_FDCWD, text(NODE).at(), 0, 0]));
    raw::say_result("wrote", raw::overwrite(NODE, 0));
}
