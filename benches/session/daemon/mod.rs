//! The daemon: from a held call to whoever is asked and back, what it costs to start a command through it, what many sessions
//! hold, and what one session can do to another. A real bus and a real gatedd that starts supervisors itself.

mod house;
mod person;
mod tool;

use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::Instant;

use gated::common::consent::GATHERING;

use crate::memory;
use crate::support::system_bus::Bus;
use crate::support::{Running, Sandbox, Side, until};
use crate::table::{Line, Runs, Target};
use house::House;

/// Requests of one measurement.
const REQUESTS: usize = 200;
/// As often as the notifier and its desktop are started anew, and notifications of each time: `gated-notify` shows six a minute.
const DESKTOPS: usize = 3;
const SHOWN: usize = 5;
const STARTS: usize = 40;
const SESSIONS: usize = 100;
/// Beside a flood, enough to meet it in every state; a profile lets no more be shown in a minute than 600.
const BESIDE: usize = 500;
/// Threads of the hostile tool; 64 of their requests wait in the daemon, the others are refused and come again.
const FLOOD: usize = 1000;
const SYNCS: usize = 200;

/// Nanoseconds of CLOCK_MONOTONIC, which is the same for all processes of the machine.
fn now() -> i64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a live structure.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

/// The parts that run re-executed; whether `part` is one.
pub fn inside(part: &str, arguments: &[String]) -> bool {
    match (part, arguments) {
        ("asks", [directory, count]) => tool::asks(Path::new(directory), count.parse().expect("a number")),
        ("floods", [directory, threads]) => tool::floods(Path::new(directory), threads.parse().expect("a number")),
        ("agent", [how, flood]) => person::agent(how, flood),
        ("desktop", []) => person::desktop(),
        _ => return false,
    }
    true
}

pub fn lines() -> Vec<Line> {
    let mut lines = Vec::new();
    lines.extend(notified());
    lines.extend(asked_and_answered());
    lines.push(synchronised());
    lines.push(start_of_true());
    lines.extend(many_sessions());
    lines.extend(beside_a_flood());
    lines
}

fn line(name: &str, unit: &'static str, gated: Runs, target: Target) -> Line {
    Line { name: name.to_owned(), unit, bare: None, gated, target }
}

/// Lines of a name and two times.
fn times(text: &str) -> HashMap<String, (i64, i64)> {
    let read = |line: &str| {
        let mut words = line.split(' ');
        let (name, first, second) = (words.next()?, words.next()?, words.next()?);
        Some((name.to_owned(), (first.parse().ok()?, second.parse().ok()?)))
    };
    text.lines().filter_map(read).collect()
}

fn ready(running: &Running<'_>, what: &str) {
    until(what, || running.so_far().lines().any(|line| line == "ready").then_some(()));
}

/// Milliseconds from call to question, and from answer to return, of `count` requests of a tool.
fn round(house: &House<'_>, how: &str, flood: &str, count: usize) -> (Vec<f64>, Vec<f64>) {
    let agent = house.beside("agent", &[how, flood]);
    ready(&agent, "a consent agent");
    measured(house, &agent, count)
}

fn measured(house: &House<'_>, agent: &Running<'_>, count: usize) -> (Vec<f64>, Vec<f64>) {
    let calls = asked(house, count);
    let answers = times(&agent.so_far());
    let (mut to, mut from) = (Vec::new(), Vec::new());
    for (name, (called, returned)) in calls {
        let (asked, answered) = answers[&name];
        to.push((asked - called) as f64 / 1e6);
        from.push((returned - answered) as f64 / 1e6);
    }
    (to, from)
}

/// When a tool called and when it went on, by the names of what it made.
fn asked(house: &House<'_>, count: usize) -> HashMap<String, (i64, i64)> {
    let directory = house.sandbox.outside();
    let tool = house.sandbox.inside("asks", &[directory.as_os_str(), count.to_string().as_ref()]);
    let outcome = house.run("calm", &tool).finish();
    outcome.assert_code(0);
    let calls = times(&outcome.out());
    assert_eq!(calls.len(), count, "every request was answered");
    calls
}

fn asked_and_answered() -> Vec<Line> {
    let mut lines = Vec::new();
    for (how, name) in [("reply", "answer of an agent to tool resumed"), ("decide", "Decide to tool resumed")] {
        let sandbox = house::sandbox();
        let house = House::start(&sandbox);
        let (to, from) = round(&house, how, "hold", REQUESTS);
        if how == "reply" {
            lines.push(line("call to Ask at an agent", "ms", Runs::new(to), Target::AtMost(20.0)));
        }
        lines.push(line(name, "ms", Runs::new(from), Target::AtMost(5.0)));
    }
    lines
}

/// Through the real gated-notify to a server of notifications that is this program, and from a click there back.
fn notified() -> Vec<Line> {
    let sandbox = house::sandbox();
    let (mut to, mut from) = (Vec::new(), Vec::new());
    for _ in 0..DESKTOPS {
        let house = House::start(&sandbox);
        let session = Bus::start();
        let desktop = house.on_desktop(&session, &sandbox.inside::<&str>("desktop", &[]));
        ready(&desktop, "a notification server");
        let notifier = house.on_desktop(&session, &[house::program(&sandbox, "gated-notify")]);
        until("gated-notify to register", || house.log().contains("a consent agent is registered").then_some(()));
        let calls = asked(&house, SHOWN);
        // One after the other: their numbers say which is which.
        let shown = until("all notifications", || {
            let shown = times(&desktop.so_far());
            (shown.len() >= SHOWN).then_some(shown)
        });
        for at in 0..SHOWN {
            let (called, returned) = calls[&format!("calm-{at}")];
            let (shown, pressed) = shown[&(at + 1).to_string()];
            // Without the window in which a person's requests gather, which is waited for on purpose.
            to.push((shown - called) as f64 / 1e6 - GATHERING.as_secs_f64() * 1e3);
            from.push((returned - pressed) as f64 / 1e6);
        }
        drop(notifier);
    }
    vec![
        line("call to notification", "ms", Runs::new(to), Target::AtMost(20.0)),
        line("click to tool resumed", "ms", Runs::new(from), Target::AtMost(5.0)),
    ]
}

/// What of every answer is the disk's: a record written and synchronised, where the audit log is.
fn synchronised() -> Line {
    let sandbox = house::sandbox();
    let path = house::audit(&sandbox);
    std::fs::create_dir_all(path.parent().expect("a directory")).expect("mkdir");
    let mut file = File::options().append(true).create(true).open(path).expect("a file");
    let mut runs = Vec::new();
    for _ in 0..SYNCS {
        let start = Instant::now();
        file.write_all(&[b'x'; 700]).expect("write");
        file.sync_data().expect("fdatasync");
        runs.push(start.elapsed().as_secs_f64() * 1e3);
    }
    line("  of which fdatasync, alone", "ms", Runs::new(runs), Target::None)
}

fn start_of_true() -> Line {
    let sandbox = house::sandbox();
    let house = House::start(&sandbox);
    let (mut bare, mut gated) = (Vec::new(), Vec::new());
    for round in 0..=STARTS {
        for side in [Side::Bare, Side::Gated] {
            let start = Instant::now();
            let outcome = match side {
                Side::Bare => sandbox.on(side, &["/bin/true"]),
                Side::Gated => house.run("calm", &["/bin/true"]).finish(),
            };
            let milliseconds = start.elapsed().as_secs_f64() * 1000.0;
            outcome.assert_code(0);
            if round > 0 {
                if side == Side::Bare { &mut bare } else { &mut gated }.push(milliseconds);
            }
        }
    }
    Line {
        name: "start and end of true by the daemon".to_owned(),
        unit: "ms",
        bare: Some(Runs::new(bare)),
        gated: Runs::new(gated),
        target: Target::MoreThanBare(20.0),
    }
}

fn many_sessions() -> Vec<Line> {
    let sandbox = house::sandbox();
    let house = House::start(&sandbox);
    let start = Instant::now();
    let tool = ["/bin/sh", "-c", "echo ready; exec sleep 1000"];
    let running: Vec<Running<'_>> = (0..SESSIONS).map(|_| house.run("calm", &tool)).collect();
    for one in &running {
        ready(one, "a session among many");
    }
    let seconds = start.elapsed().as_secs_f64();
    let daemon = memory::of(house.pid());
    let sessions = memory::of_session_below(house.pid());
    assert_eq!(sessions.processes, 3 * SESSIONS, "supervisor, init and leader of each");
    let mib = |name: &str, kilobytes: f64, target| line(name, "MiB", Runs::new(vec![kilobytes / 1024.0]), target);
    let each = |kilobytes: u64| kilobytes as f64 / SESSIONS as f64;
    vec![
        line("100 sessions at once: to start them all", "s", Runs::new(vec![seconds]), Target::None),
        mib("  the daemon, resident", daemon.rss as f64, Target::AtMost(25.0)),
        mib("  the daemon, shared once", daemon.pss as f64, Target::None),
        mib("  each session, shared once", each(sessions.pss), Target::None),
        mib("  each session, private", each(sessions.private), Target::None),
    ]
}

/// A hostile session asks as fast as it can, and a calm one beside it is answered.
fn beside_a_flood() -> Vec<Line> {
    let sandbox = house::sandbox();
    let house = House::start(&sandbox);
    let (_, calm) = round(&house, "reply", "hold", REQUESTS);
    drop(house);
    let calm = Runs::new(calm);
    let mut lines = Vec::new();
    for (flood, name) in [("hold", "flood, all its requests wait"), ("deny", "flood, what is shown is denied")] {
        let (all, slowest) = flooded(&sandbox, flood);
        let beside = |name: String, gated, target| Line { name, unit: "ms", bare: Some(calm.clone()), gated, target };
        lines.push(beside(format!("{name}: answer"), all, Target::None));
        lines.push(beside("  the slowest".to_owned(), slowest, Target::MoreThanBare(50.0)));
    }
    lines
}

fn flooded(sandbox: &Sandbox, flood: &str) -> (Runs, Runs) {
    let house = House::start(sandbox);
    let agent = house.beside("agent", &["reply", flood]);
    ready(&agent, "a consent agent");
    let directory = sandbox.outside();
    let hostile = sandbox.inside("floods", &[directory.as_os_str(), FLOOD.to_string().as_ref()]);
    let hostile = house.run("hostile", &hostile);
    ready(&hostile, "a flood");
    let (_, answered) = measured(&house, &agent, BESIDE);
    let slowest = answered.iter().copied().fold(0.0, f64::max);
    (Runs::new(answered), Runs::new(vec![slowest]))
}
