//! Attacks 37 and 38: nobody answers in time; an answer that outlives its request and the path that a tool controls.

use std::fs;
use std::time::Instant;

use crate::engine::{self, attack};
use crate::raw;
use crate::support::{Side, profiles};
use crate::{Inside, Test};

pub const TESTS: &[Test] = &[
    ("no_answer_in_time_is_a_no_and_is_not_remembered", timeout),
    ("a_yes_performs_exactly_what_was_asked", a_yes_works),
    ("a_grant_is_for_the_object_that_a_link_led_to", grant_on_a_link),
    ("a_grant_is_for_the_object_that_a_relative_path_meant", grant_on_a_cwd),
];

pub const INSIDE: &[Inside] = &[
    ("ask-twice", ask_twice_inside),
    ("ask-once", ask_once_inside),
    ("turn-the-link", turn_the_link_inside),
    ("turn-the-cwd", turn_the_cwd_inside),
];

fn timeout() {
    if !engine::gated_too() {
        return;
    }
    let mut sandbox = engine::with_victims();
    sandbox.profile(&format!("{}\n[prompt]\ntimeout = \"1s\"\n", profiles::WORKSPACE));
    sandbox.answers("[[answer]]\naccess = \"write\"\nobject = \"/**\"\nanswer = \"session\"\nafter = \"30s\"\n");
    let outcome = attack(&sandbox, Side::Gated, "ask-twice", &[]);
    for waited in outcome.values("waited_ms") {
        let waited: u64 = waited.parse().expect("a number");
        outcome.assert((900..10_000).contains(&waited), &format!("the time-out was a second, not {waited} ms"));
    }
    outcome.assert(outcome.values("result").iter().all(|result| !result.starts_with("ok")), "denied, both times");
    outcome.assert(!sandbox.outside().join("new").exists(), "nothing was made");
    outcome.assert(outcome.events_of("consent_required").count() == 2, "asked again: nothing was remembered");
    let results = outcome.audit.iter().filter(|record| record["result"] == "timeout").count();
    outcome.assert(results == 2, "both are in the audit log as time-outs");
}

fn ask_twice_inside(_: &[String]) {
    for _ in 0..2 {
        let start = Instant::now();
        raw::say_result("result", raw::mkdir(&raw::outside("new")));
        raw::say("waited_ms", start.elapsed().as_millis());
    }
}

fn a_yes_works() {
    if !engine::gated_too() {
        return;
    }
    let mut sandbox = engine::with_victims();
    let new = sandbox.outside().join("new").display().to_string();
    sandbox.answers(&format!("[[answer]]\naccess = \"write\"\nobject = \"{new}\"\nanswer = \"once\"\n"));
    let outcome = attack(&sandbox, Side::Gated, "ask-once", &[]);
    outcome.assert(sandbox.outside().join("new").is_dir(), "what was allowed is there");
    outcome.assert(!sandbox.outside().join("other").exists(), "and nothing else");
    outcome.assert(outcome.audit.iter().any(|record| record["result"] == "approved"), "recorded");
}

fn ask_once_inside(_: &[String]) {
    raw::say_result("new", raw::mkdir(&raw::outside("new")));
    raw::say_result("other", raw::mkdir(&raw::outside("other")));
}

/// Yes for the session to whatever is asked first; no to all that comes after.
const FIRST_ONLY: &str =
    "[[answer]]\naccess = \"write\"\nobject = \"/**\"\nanswer = \"session\"\nscope = \"exact\"\ntimes = 1\n";

fn granted_object_only(name: &str) {
    for side in engine::sides() {
        let mut sandbox = engine::with_victims();
        sandbox.answers(FIRST_ONLY);
        for file in ["one/file", "two/file"] {
            sandbox.file(&sandbox.outside().join(file), "original\n");
        }
        let outcome = attack(&sandbox, *side, name, &[]);
        let content = |file: &str| fs::read_to_string(sandbox.outside().join(file)).expect("a file");
        outcome.assert(content("one/file") == "hit\nhit\n", "the granted object was changed, twice with one answer");
        let turned = content("two/file") != "original\n";
        outcome.assert(turned == (*side == Side::Bare), "whether the other object was changed");
    }
}

fn grant_on_a_link() {
    granted_object_only("turn-the-link");
}

/// Empties the first file, then adds to what the same name means before and after.
fn turned(path: &str, turn: impl FnOnce()) {
    let cut = libc::O_TRUNC | libc::O_APPEND;
    raw::say_result("first", raw::overwrite(path, cut));
    raw::say_result("second", raw::overwrite(path, libc::O_APPEND));
    turn();
    raw::say_result("third", raw::overwrite(path, libc::O_APPEND));
}

fn turn_the_link_inside(_: &[String]) {
    raw::symlink(&raw::outside("one"), "turned").expect("a link in the workspace");
    turned("turned/file", || {
        raw::unlink("turned").expect("our own link");
        raw::symlink(&raw::outside("two"), "turned").expect("a link in the workspace");
    });
}

fn grant_on_a_cwd() {
    granted_object_only("turn-the-cwd");
}

fn turn_the_cwd_inside(_: &[String]) {
    std::env::set_current_dir(raw::outside("one")).expect("chdir");
    turned("file", || std::env::set_current_dir(raw::outside("two")).expect("chdir"));
}
