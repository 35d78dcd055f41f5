//! Debuggers, with a profile that allows them.

use crate::Test;
use crate::case::{Case, Policy, nothing};

pub const TESTS: &[Test] =
    &[("gdb_breaks_runs_and_shows_a_backtrace", gdb), ("strace_follows_a_tree_of_processes", strace)];

fn gdb() {
    let results = Case {
        name: "gdb",
        script: include_str!("scripts/gdb.sh"),
        needs: &[("gdb", "gdb"), ("cc", "gcc")],
        prepare: nothing,
        policy: Policy::Debug,
        compare: &[],
    }
    .run();
    assert_eq!(results.bare.values("result"), ["7", "41"], "{}", results.bare);
    results.assert_value("status", "3");
    results.assert_value("$1", "= 11");
}

fn strace() {
    let results = Case {
        name: "strace",
        script: include_str!("scripts/strace.sh"),
        needs: &[("strace", "strace")],
        prepare: nothing,
        policy: Policy::Debug,
        compare: &[],
    }
    .run();
    results.assert_value("counted", "1");
    results.assert_value("status", "1");
}
