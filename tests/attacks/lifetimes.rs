//! Attacks 4 and 7: threads that die in mid-call, pids that come again, calls made before anything else happened.

use crate::engine::{self, attack};
use crate::raw;
use crate::support::{Side, snapshot};
use crate::{Inside, Test};

pub const TESTS: &[Test] = &[
    ("processes_that_die_in_mid_call_change_nothing_that_is_not_theirs", storm),
    ("a_call_as_the_first_act_of_many_threads", first_acts),
];

pub const INSIDE: &[Inside] = &[("die-in-mid-call", storm_inside), ("first-act", first_act_inside)];

fn storm() {
    for side in engine::sides() {
        let sandbox = engine::with_victims();
        let before = snapshot::of(&sandbox.outside());
        let outcome = attack(&sandbox, *side, "die-in-mid-call", &[]);
        let changed = snapshot::of(&sandbox.outside()) != before;
        outcome.assert(changed == (*side == Side::Bare), "whether something outside changed");
        outcome.assert(outcome.values("after") == ["ok 0"], "a call after the storm works");
        outcome.assert(sandbox.workspace().join("after").is_dir(), "and has its effect");
    }
}

/// Children that ask for changes outside and inside the workspace without pause, each killed a moment later.
fn storm_inside(_: &[String]) {
    let mut state = 1u32;
    for round in 0..600 {
        let child = raw::fork(|| {
            for step in 0.. {
                let _ = raw::mkdir(&raw::outside(&format!("made-{round}-{step}")));
                let _ = raw::mkdir(&format!("own-{round}"));
                let _ = raw::rmdir(&format!("own-{round}"));
            }
            0
        });
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        // An attack's own timing, not a wait for anything: the point of the call that the kill falls on varies.
        std::thread::sleep(std::time::Duration::from_micros(u64::from(state >> 21)));
        // SAFETY: our own child, not reaped yet.
        unsafe { libc::kill(child, libc::SIGKILL) };
        raw::wait_for(child);
    }
    raw::say_result("after", raw::mkdir("after"));
}

fn first_acts() {
    for side in engine::sides() {
        for _ in 0..5 {
            let sandbox = engine::with_victims();
            let outcome = attack(&sandbox, *side, "first-act", &[]);
            outcome.assert_code(0);
            outcome.assert(outcome.number("made") == 8, "every thread made its directory");
        }
    }
}

fn first_act_inside(_: &[String]) {
    let threads: Vec<_> = (0..8).map(|index| std::thread::spawn(move || raw::mkdir(&format!("d{index}")))).collect();
    let made = threads.into_iter().filter_map(|thread| thread.join().ok()).filter(Result::is_ok).count();
    raw::say("made", made);
}
