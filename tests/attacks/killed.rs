//! Attack 9: gated's own processes are killed. Everything in the session dies, and what was pending does not happen.

use std::time::Duration;

use crate::engine;
use crate::raw;
use crate::support::{Sandbox, Side, snapshot, until, wait};
use crate::{Inside, Test};

pub const TESTS: &[Test] = &[
    ("killing_the_supervisor_ends_the_session", || kill_while_busy("gated-session")),
    ("killing_the_client_ends_the_session", || kill_while_busy("gated-run")),
    ("killing_the_client_while_it_starts_leaves_nothing", kill_while_starting),
    ("killing_the_supervisor_during_a_prompt_changes_nothing", || kill_while_asking("gated-session")),
    ("killing_the_client_during_a_prompt_changes_nothing", || kill_while_asking("gated-run")),
];

pub const INSIDE: &[Inside] = &[("busy", busy_inside), ("asking", asking_inside)];

/// The processes of a program's name among the started one and those below it.
fn named(root: i32, name: &str) -> Vec<wait::PidFd> {
    let comm = |pid: i32| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let mut all = wait::descendants(root);
    all.extend(wait::PidFd::open(root));
    // The name of a process is cut after 15 bytes.
    all.retain(|process| comm(process.pid).trim_end() == name);
    all
}

#[track_caller]
fn all_end(sandbox: &Sandbox, processes: Vec<wait::PidFd>, what: &str) {
    for process in processes {
        let name = std::fs::read_to_string(format!("/proc/{}/comm", process.pid)).unwrap_or_default();
        assert!(process.ends_within(Duration::from_secs(10)), "{what}: {} {name} lives on", process.pid);
    }
    until(&format!("{what}: no process of the session is left"), || sandbox.processes().is_empty().then_some(()));
}

fn kill_while_busy(target: &str) {
    if !engine::gated_too() {
        return;
    }
    for round in 0..6 {
        let sandbox = engine::with_victims();
        let before = snapshot::of(&sandbox.outside());
        let running = sandbox.start(Side::Gated, &sandbox.inside::<&str>("busy", &[]));
        until("the tool is busy", || (running.so_far().lines().count() > round * 20).then_some(()));
        let victims = named(running.pid(), target);
        assert!(!victims.is_empty(), "no process named {target}");
        let session = wait::descendants(running.pid());
        victims.iter().for_each(|victim| victim.kill(libc::SIGKILL));
        all_end(&sandbox, session, target);
        let outcome = running.finish();
        outcome.assert(!outcome.status.success(), "the client tells of it");
        outcome.assert(snapshot::of(&sandbox.outside()) == before, "nothing outside changed");
    }
}

/// Several processes that change what they may and try what they may not, without end.
fn busy_inside(_: &[String]) {
    for worker in 0..3 {
        raw::fork(|| {
            loop {
                let _ = raw::mkdir(&format!("own-{worker}"));
                let _ = raw::overwrite(&raw::outside("victim"), libc::O_TRUNC);
                let _ = raw::mkdir(&raw::outside("made"));
                let _ = raw::rmdir(&format!("own-{worker}"));
            }
        });
    }
    loop {
        println!("busy");
        let _ = raw::overwrite("free", libc::O_TRUNC);
    }
}

fn kill_while_starting() {
    if !engine::gated_too() {
        return;
    }
    for round in 0..12 {
        let sandbox = engine::with_victims();
        let running = sandbox.start(Side::Gated, &sandbox.inside::<&str>("busy", &[]));
        // The moment of the kill moves through the start; nothing is waited for.
        std::thread::sleep(Duration::from_millis(round * 4));
        let session = wait::descendants(running.pid());
        running.pidfd.kill(libc::SIGKILL);
        all_end(&sandbox, session, &format!("killed {} ms after its start", round * 4));
        drop(running);
    }
}

fn kill_while_asking(target: &str) {
    if !engine::gated_too() {
        return;
    }
    let mut sandbox = engine::with_victims();
    sandbox.answers("[[answer]]\naccess = \"write\"\nobject = \"/**\"\nanswer = \"session\"\nafter = \"2s\"\n");
    let before = snapshot::of(&sandbox.outside());
    let running = sandbox.start(Side::Gated, &sandbox.inside::<&str>("asking", &[]));
    until("the question is asked", || {
        running.events_so_far().iter().any(|event| event["event"] == "consent_required").then_some(())
    });
    let session = wait::descendants(running.pid());
    named(running.pid(), target).iter().for_each(|victim| victim.kill(libc::SIGKILL));
    all_end(&sandbox, session, target);
    let outcome = running.finish();
    outcome.assert(!outcome.status.success(), "the client tells of it");
    // The time of the answer passes.
    std::thread::sleep(Duration::from_secs(3));
    assert!(snapshot::of(&sandbox.outside()) == before, "nothing outside changed");
}

fn asking_inside(_: &[String]) {
    for name in ["one", "two"] {
        raw::fork(|| {
            let _ = raw::mkdir(&raw::outside(name));
            0
        });
    }
    let _ = raw::overwrite(&raw::outside("victim"), libc::O_TRUNC);
}
