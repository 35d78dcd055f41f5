//! Core dumps: a handler in core_pattern runs as root outside of every session, on what a tool wrote into its memory.
//!
//! core_pattern is the machine's, so no test sets it. What is tried is a crash: with a limit of one byte the kernel writes
//! no file, and core(5) has the same limit mean "to no program either".

use std::fs;

use crate::engine::{self, attack};
use crate::raw;
use crate::support::Side;
use crate::{Inside, Test};

pub const TESTS: &[Test] = &[("a_crash_leaves_no_core_and_runs_no_handler", crash)];

pub const INSIDE: &[Inside] = &[("crash", crash_inside)];

fn crash() {
    let pattern = fs::read_to_string("/proc/sys/kernel/core_pattern").expect("core_pattern");
    for side in engine::sides() {
        let sandbox = engine::with_victims();
        let outcome = attack(&sandbox, *side, "crash", &[]);
        let left = fs::read_dir(sandbox.workspace()).expect("the workspace");
        let left = left.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with("core")).count();
        match side {
            Side::Bare if outcome.number("hard") == 0 => {
                println!("NOT ON THIS MACHINE: the limit of core files is 0, so nothing is dumped bare");
            }
            Side::Bare => {
                outcome.assert(outcome.number("dumped") == 1, "the crash is dumped bare");
                if pattern.trim_end() == "core" {
                    outcome.assert(left == 1, "into the current directory");
                } else {
                    println!("NOT ON THIS MACHINE: dumps go to {pattern}");
                }
            }
            Side::Gated => {
                outcome.assert(outcome.number("soft") == 1 && outcome.number("hard") == 1, "the limit is one byte");
                outcome.assert(outcome.values("raised") == ["EPERM"; 2], "and is not raised");
                outcome.assert(outcome.number("dumped") == 0 && left == 0, "nothing is dumped");
            }
        }
    }
}

fn crash_inside(_: &[String]) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: one live structure.
    unsafe { libc::getrlimit(libc::RLIMIT_CORE, &mut limit) };
    raw::say("soft", limit.rlim_cur as i64);
    raw::say("hard", limit.rlim_max.min(i64::MAX as u64));
    let all = libc::rlimit { rlim_cur: limit.rlim_max, rlim_max: limit.rlim_max };
    let more = [libc::RLIM_INFINITY, libc::RLIM_INFINITY];
    // SAFETY: one live structure.
    unsafe { libc::setrlimit(libc::RLIMIT_CORE, &all) };
    let at = more.as_ptr() as u64;
    raw::say_result("raised", raw::sys(libc::SYS_setrlimit, [u64::from(libc::RLIMIT_CORE), at]));
    raw::say_result("raised", raw::sys(libc::SYS_prlimit64, [0, u64::from(libc::RLIMIT_CORE), at, 0]));
    let child = raw::fork(|| {
        // SAFETY: it is what this process is for.
        unsafe {
            libc::signal(libc::SIGSEGV, libc::SIG_DFL);
            libc::raise(libc::SIGSEGV)
        }
    });
    let status = raw::wait_for(child);
    raw::say("dumped", i32::from(libc::WCOREDUMP(status)));
}
