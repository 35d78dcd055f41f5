//! Debuggers: with `debug = true` they work inside, and what they start is judged; without it ptrace(2) is refused.

use crate::Test;
use crate::support::{Sandbox, Side};

pub const TESTS: &[Test] = &[
    ("strace_and_gdb_work_where_the_profile_says_so", debuggers_work),
    ("a_debugger_starts_nothing_that_is_denied", denied_under_a_debugger),
    ("without_it_debuggers_are_refused", refused),
];

fn profile(debug: bool) -> String {
    format!(
        "schema = 1\n[profile]\nname = \"debugged\"\ndebug = {debug}\n[defaults]\nwrite = \"allow\"\nexec = \"allow\"\n\
         [[rule]]\nid = \"false\"\naccess = [\"exec\"]\nprogram = [\"/usr/bin/false\"]\nlevel = \"deny\"\n"
    )
}

fn debuggers_work() {
    let sandbox = Sandbox::new();
    sandbox.profile(&profile(true));
    let script = "strace -f -o trace sh -c '/bin/echo traced; /bin/true' && grep -c '^[0-9]* *exit_group' trace
        gdb -q -batch -ex run -ex 'info registers rip' --args /bin/echo debugged 2>&1 | grep -c debugged
        echo over";
    for side in [Side::Bare, Side::Gated] {
        let outcome = sandbox.on(side, &["/bin/sh", "-c", script]);
        outcome.assert(outcome.out().starts_with("traced\n"), "strace works");
        outcome.assert(outcome.out().ends_with("over\n"), "to the end");
    }
    let [bare, gated] = [Side::Bare, Side::Gated].map(|side| sandbox.on(side, &["/bin/sh", "-c", script]).out());
    assert_eq!(bare, gated);
}

fn denied_under_a_debugger() {
    let sandbox = Sandbox::new();
    sandbox.profile(&profile(true));
    let outcome = sandbox.on(Side::Gated, &["strace", "-f", "-o", "trace", "sh", "-c", "/usr/bin/false; echo $?"]);
    outcome.assert(outcome.out() == "126\n", "the shell could not execute it");
}

fn refused() {
    let sandbox = Sandbox::new();
    sandbox.profile(&profile(false));
    let outcome = sandbox.on(Side::Gated, &["strace", "-o", "trace", "/bin/echo", "traced"]);
    outcome.assert(!outcome.status.success(), "strace does not work");
    outcome.assert(outcome.out().is_empty(), "and starts nothing");
}
