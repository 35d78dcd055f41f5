//! Attacks 1 and 2: what a path says, or what it leads to, changes between the verdict and the effect.
//!
//! The path `a/victim` (allowed) and `b/victim` (`b` leads outside) differ in one byte, which a thread flips without
//! pause; or another process exchanges a directory of the path for a link that leads outside.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::engine::{self, attack};
use crate::raw::{self, AT_FDCWD, Raw, sys, text};
use crate::support::{Sandbox, Side, snapshot};
use crate::{Inside, Test};

pub const TESTS: &[Test] = &[
    ("a_path_rewritten_by_a_thread_while_a_file_is_opened", || flip("open", 20_000)),
    ("a_path_rewritten_by_a_thread_while_a_directory_is_made", || flip("mkdir", 10_000)),
    ("a_path_rewritten_by_a_thread_while_a_name_is_removed", || flip("unlink", 10_000)),
    ("a_path_rewritten_by_a_thread_while_a_file_is_renamed", || flip("rename", 10_000)),
    ("a_path_rewritten_by_a_thread_while_a_mode_is_changed", || flip("chmod", 10_000)),
    ("a_path_rewritten_by_a_thread_while_a_file_is_cut", || flip("truncate", 10_000)),
    ("the_flags_of_openat2_rewritten_by_a_thread", how_flips),
    ("the_last_component_exchanged_for_a_link", || exchange("last")),
    ("a_middle_component_exchanged_for_a_link", || exchange("middle")),
    ("the_first_component_exchanged_for_a_link", || exchange("first")),
];

pub const INSIDE: &[Inside] = &[("flip", flip_inside), ("flip-how", flip_how_inside), ("exchange", exchange_inside)];

fn sandbox() -> Sandbox {
    let sandbox = engine::with_victims();
    sandbox.dir(&sandbox.workspace().join("a"));
    std::os::unix::fs::symlink(sandbox.outside(), sandbox.workspace().join("b")).expect("symlink");
    sandbox
}

fn flip(call: &str, times: u32) {
    for side in engine::sides() {
        let sandbox = sandbox();
        let before = snapshot::of(&sandbox.outside());
        let outcome = attack(&sandbox, *side, "flip", &[call, &times.to_string()]);
        let changed = snapshot::of(&sandbox.outside()) != before;
        outcome.assert(outcome.number("succeeded") > 0, "no call succeeded: nothing was raced");
        outcome.assert(changed == (*side == Side::Bare), "whether something outside changed");
        if *side == Side::Gated {
            outcome.assert(outcome.number("refused") > 0, "no call was refused: the race never hit");
        }
    }
}

/// Runs `attempt` so many times and for so long: on a loaded machine the other side needs the time to be run at all.
fn keep_trying(times: u32, mut attempt: impl FnMut()) {
    let start = Instant::now();
    let mut done = 0;
    while done < times || start.elapsed() < Duration::from_millis(500) {
        attempt();
        done += 1;
    }
}

/// A path of which the first byte flips between `a` and `b`, and a thread that flips it.
fn flipping(path: &[u8], work: impl FnOnce(u64)) {
    let path: Vec<AtomicU8> = path.iter().map(|byte| AtomicU8::new(*byte)).collect();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                for side in [b'b', b'a'] {
                    path[0].store(side, Ordering::Relaxed);
                    std::hint::spin_loop();
                }
            }
        });
        work(path.as_ptr() as u64);
        stop.store(true, Ordering::Relaxed);
    });
}

fn flip_inside(args: &[String]) {
    let [call, times] = args else { panic!("CALL TIMES") };
    let times: u32 = times.parse().expect("a number");
    let (mut succeeded, mut refused) = (0, 0);
    let path: &[u8] = if call == "mkdir" { b"a/made\0" } else { b"a/victim\0" };
    flipping(path, |path| {
        keep_trying(times, || {
            let _ = raw::overwrite("a/victim", libc::O_CREAT);
            let result = match call.as_str() {
                "open" => open_and_write(path),
                "mkdir" => sys(libc::SYS_mkdir, [path, 0o777]),
                "unlink" => sys(libc::SYS_unlink, [path]),
                "rename" => sys(libc::SYS_rename, [path, text("taken").at()]),
                "chmod" => sys(libc::SYS_chmod, [path, 0o604]),
                "truncate" => sys(libc::SYS_truncate, [path, 1]),
                other => panic!("no call {other}"),
            };
            match result {
                Ok(_) => succeeded += 1,
                Err(_) => refused += 1,
            }
            if call == "mkdir" {
                let _ = raw::rmdir("a/made");
            }
        });
    });
    raw::say("succeeded", succeeded);
    raw::say("refused", refused);
}

fn open_and_write(path: u64) -> Raw {
    let flags = (libc::O_WRONLY | libc::O_CREAT) as u64;
    let fd = sys(libc::SYS_openat, [AT_FDCWD, path, flags, 0o644])?;
    let result = raw::write(fd, b"hit\n");
    raw::close(fd);
    result
}

fn how_flips() {
    for side in engine::sides() {
        let sandbox = sandbox();
        let outcome = attack(&sandbox, *side, "flip-how", &[]);
        let hit = fs::read(sandbox.outside().join("victim")).expect("the victim") != b"original\n";
        outcome.assert(hit == (*side == Side::Bare), "whether the file outside was cut");
    }
}

/// `open_how.flags` flips between a plain read and a truncating write of a file outside.
fn flip_how_inside(_: &[String]) {
    let how = [AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0)];
    let address = how.as_ptr() as u64;
    let stop = AtomicBool::new(false);
    let path = text(raw::outside("victim"));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                how[0].store((libc::O_WRONLY | libc::O_TRUNC) as u64, Ordering::Relaxed);
                how[0].store(0, Ordering::Relaxed);
            }
        });
        keep_trying(20_000, || {
            if let Ok(fd) = sys(libc::SYS_openat2, [AT_FDCWD, path.at(), address, 24]) {
                raw::close(fd);
            }
        });
        stop.store(true, Ordering::Relaxed);
    });
}

fn exchange(place: &str) {
    for side in engine::sides() {
        let sandbox = engine::with_victims();
        sandbox.file(&sandbox.outside().join("mid/last"), "original\n");
        sandbox.file(&sandbox.outside().join("last"), "original\n");
        sandbox.file(&sandbox.workspace().join("first/mid/last"), "mine\n");
        let before = snapshot::of(&sandbox.outside());
        let outcome = attack(&sandbox, *side, "exchange", &[place]);
        let changed = snapshot::of(&sandbox.outside()) != before;
        outcome.assert(changed == (*side == Side::Bare), "whether something outside changed");
        outcome.assert(outcome.number("succeeded") > 0, "no call succeeded: nothing was raced");
    }
}

fn exchange_inside(args: &[String]) {
    let [place] = args else { panic!("PLACE") };
    let (name, target) = match place.as_str() {
        "last" => ("first/mid/last", raw::outside("last")),
        "middle" => ("first/mid", raw::outside("mid")),
        _ => ("first", raw::outside("")),
    };
    raw::symlink(target.trim_end_matches('/'), "trap").expect("a link in the workspace");
    let parent = std::process::id() as i32;
    let swapper = raw::fork(|| {
        // SAFETY: prctl(2) with numbers: this process ends with its parent.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        // SAFETY: getppid(2) cannot fail.
        while unsafe { libc::getppid() } == parent {
            let _ = raw::exchange(name, "trap");
        }
        0
    });
    let (mut succeeded, mut refused) = (0, 0);
    keep_trying(6_000, || {
        for result in [raw::overwrite("first/mid/last", 0), raw::mkdir("first/mid/new")] {
            match result {
                Ok(_) => succeeded += 1,
                Err(_) => refused += 1,
            }
        }
        let _ = raw::rmdir("first/mid/new");
    });
    // SAFETY: our own child.
    unsafe { libc::kill(swapper, libc::SIGKILL) };
    raw::wait_for(swapper);
    raw::say("succeeded", succeeded);
    raw::say("refused", refused);
}
