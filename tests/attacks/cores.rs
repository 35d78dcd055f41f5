//! Core dumps: a handler in core_pattern runs as root outside of every session, on what a tool wrote into its memory.
//!
//! core_pattern is the machine's, so no test sets it. What is tried is a crash: with a limit of one byte the kernel writes
//! no file, and core(5) has the same limit mean "to no program either". Only that one: at 0 a program is started, so a tool
//! must not lower it either, and is told that it did.

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
                outcome.assert(
                    outcome.values("lowered").last().is_some_and(|limit| limit == "0 0"),
                    "the limit is lowered",
                );
                if pattern.trim_end() == "core" {
                    outcome.assert(left == 1, "into the current directory");
                } else {
                    println!("NOT ON THIS MACHINE: dumps go to {pattern}");
                }
            }
            Side::Gated => {
                outcome.assert(outcome.number("soft") == 1 && outcome.number("hard") == 1, "the limit is one byte");
                outcome.assert(outcome.values("lowered") == ["1 1"; 3], "is not lowered");
                outcome.assert(outcome.values("raised") == ["1 1"; 2], "and is not raised");
                outcome.assert(outcome.number("dumped") == 0 && left == 0, "nothing is dumped");
            }
        }
    }
}

const CORE: u64 = libc::RLIMIT_CORE as u64;

/// Soft and hard limit in force.
fn limit() -> (u64, u64) {
    let mut limit = [0u64; 2];
    raw::sys(libc::SYS_prlimit64, [0, CORE, 0, limit.as_mut_ptr() as u64]).expect("one may ask");
    (limit[0], limit[1])
}

fn say_limit(key: &str) {
    let (soft, hard) = limit();
    raw::say(key, format!("{soft} {hard}"));
}

/// A page whose address has no low 32 bits: a filter that compares only those takes it for null.
fn high_page() -> u64 {
    let fixed = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    (1..64u64)
        .find_map(|high| {
            let wanted = (high << 32) as *mut libc::c_void;
            // SAFETY: only where nothing is mapped.
            let at = unsafe { libc::mmap(wanted, 4096, libc::PROT_READ | libc::PROT_WRITE, fixed, -1, 0) };
            (at == wanted).then_some(at as u64)
        })
        .expect("room for a page")
}

fn crash_inside(_: &[String]) {
    let (soft, hard) = limit();
    raw::say("soft", soft.min(i64::MAX as u64));
    raw::say("hard", hard.min(i64::MAX as u64));
    let all = [hard, hard];
    let _ = raw::sys(libc::SYS_setrlimit, [CORE, all.as_ptr() as u64]);
    let child = raw::fork(|| {
        // SAFETY: it is what this process is for.
        unsafe {
            libc::signal(libc::SIGSEGV, libc::SIG_DFL);
            libc::raise(libc::SIGSEGV)
        }
    });
    let status = raw::wait_for(child);
    raw::say("dumped", i32::from(libc::WCOREDUMP(status)));
    let more = [libc::RLIM_INFINITY, libc::RLIM_INFINITY];
    let at = more.as_ptr() as u64;
    for result in [raw::sys(libc::SYS_setrlimit, [CORE, at]), raw::sys(libc::SYS_prlimit64, [0, CORE, at, 0])] {
        raw::say_result("told", result);
        say_limit("raised");
    }
    // The page of zeroes is a limit of 0.
    let (zero, page) = ([0u64; 2], high_page());
    let garbage = 0xdead_beef_0000_0000;
    for result in [
        raw::sys(libc::SYS_setrlimit, [garbage | CORE, zero.as_ptr() as u64]),
        raw::sys(libc::SYS_prlimit64, [0, garbage | CORE, zero.as_ptr() as u64, 0]),
        raw::sys(libc::SYS_prlimit64, [0, CORE, page, 0]),
    ] {
        raw::say_result("told", result);
        say_limit("lowered");
    }
}
