//! Something of ours ends at a bad moment: nothing is permitted by that, and what can live on does.

use super::boot::System;
use super::consent::pids_of;
use super::session::{PROJECT, Shell, asked, waiting_for};
use super::support::until;

pub const TESTS: &[super::Test] = &[
    ("a_daemon_killed_in_mid_prompt_denies_and_comes_back", a_daemon_killed_in_mid_prompt_denies_and_comes_back),
    ("a_daemon_is_replaced_under_a_session", a_daemon_is_replaced_under_a_session),
    ("a_killed_supervisor_takes_the_session_along", a_killed_supervisor_takes_the_session_along),
    ("a_daemon_that_hangs_is_replaced", a_daemon_that_hangs_is_replaced),
    ("a_restarted_bus_has_the_daemon_back", a_restarted_bus_has_the_daemon_back),
];

/// A write that is approved for the session.
fn grant(system: &System, shell: &mut Shell, path: &str) {
    let write = shell.begin(&format!("echo granted >>{path}"));
    let request = waiting_for(system, "alice", path);
    system.run("alice", &format!("gatedctl approve --session {request}")).code(0);
    assert_eq!(shell.end(write), 0);
}

/// What must hold in a session whose daemon was away: what was granted, and asking.
fn still_works(system: &System, shell: &mut Shell, granted: &str) {
    until("the session to be known again", || {
        asked(system, "alice", "sessions").as_array()?.iter().find(|session| session["state"] == "running").map(drop)
    });
    assert_eq!(shell.does(&format!("echo again >>{granted}")), 0);
    assert_eq!(system.read(granted), "granted\nagain\n");
    let write = shell.begin("echo later >/home/alice/later");
    let request = waiting_for(system, "alice", "/home/alice/later");
    system.run("alice", &format!("gatedctl approve {request}")).code(0);
    assert_eq!(shell.end(write), 0);
    let grants = asked(system, "alice", "grants");
    assert!(grants.as_array().expect("a list").iter().any(|grant| grant["object"] == granted), "{grants:#}");
    assert_eq!(shell.does(&format!("echo workspace >{PROJECT}/file")), 0);
}

fn a_daemon_killed_in_mid_prompt_denies_and_comes_back() {
    let system = System::boot();
    let mut shell = Shell::start(&system, "");
    grant(&system, &mut shell, "/home/alice/granted");
    let write = shell.begin("echo hello >/home/alice/notes");
    waiting_for(&system, "alice", "/home/alice/notes");
    let before = system.property("gatedd.service", "MainPID");
    system.root(&["systemctl", "kill", "--signal=KILL", "gatedd.service"]).ok();
    assert_ne!(shell.end(write), 0);
    assert!(!system.path("/home/alice/notes").exists());
    until("the daemon to be back", || {
        let now = system.property("gatedd.service", "MainPID");
        (system.property("gatedd.service", "ActiveState") == "active" && now != before).then_some(())
    });
    assert_eq!(asked(&system, "alice", "pending"), serde_json::json!([]));
    still_works(&system, &mut shell, "/home/alice/granted");
    assert!(!system.path("/home/alice/notes").exists());
    shell.done().code(0);
}

fn a_daemon_is_replaced_under_a_session() {
    let system = System::boot();
    let mut shell = Shell::start(&system, "");
    grant(&system, &mut shell, "/home/alice/granted");
    let program = "/usr/local/libexec/gated/gatedd";
    // As install(1) does: another file under the name.
    system.root(&["sh", "-c", &format!("cp {program} {program}.new && mv {program}.new {program}")]).ok();
    let call = shell.begin("sleep 1; echo lived");
    system.root(&["systemctl", "restart", "gatedd.service"]).ok();
    let pid = system.property("gatedd.service", "MainPID");
    system.root(&["test", &format!("/proc/{pid}/exe"), "-ef", program]).ok();
    assert_eq!(shell.end(call), 0);
    still_works(&system, &mut shell, "/home/alice/granted");
    let done = shell.done();
    assert!(done.code(0).out.contains("lived"), "{done:?}");
}

fn a_killed_supervisor_takes_the_session_along() {
    let system = System::boot();
    let mut shell = Shell::start(&system, "");
    assert_eq!(shell.does("sleep 4242 & sleep 4243 &"), 0);
    assert_eq!(pids_of(&system, "sleep").split(' ').count(), 2);
    let unit = shell.unit();
    shell.begin("echo hello >/home/alice/notes");
    waiting_for(&system, "alice", "/home/alice/notes");
    system.root(&["systemctl", "kill", "--kill-who=main", "--signal=KILL", &unit]).ok();
    let done = shell.done();
    assert!(!done.err.is_empty(), "{done:?}");
    done.code(125);
    until("the unit to be gone", || (system.property(&unit, "ActiveState") == "inactive").then_some(()));
    assert_eq!(pids_of(&system, "sleep"), "");
    assert!(!system.path("/home/alice/notes").exists());
    until("the session to be forgotten", || {
        (asked(&system, "alice", "sessions") == serde_json::json!([])).then_some(())
    });
    assert_eq!(asked(&system, "alice", "pending"), serde_json::json!([]));
}

fn a_restarted_bus_has_the_daemon_back() {
    let system = System::boot();
    let mut shell = Shell::start_apart(&system);
    grant(&system, &mut shell, "/home/alice/granted");
    system.root(&["systemctl", "restart", "dbus.service"]).ok();
    until("the daemon to be back", || system.run("alice", "gatedctl status").status.success().then_some(()));
    still_works(&system, &mut shell, "/home/alice/granted");
}

fn a_daemon_that_hangs_is_replaced() {
    let system = System::boot();
    system.write("/etc/systemd/system/gatedd.service.d/watchdog.conf", "[Service]\nWatchdogSec=1s\n");
    system.root(&["systemctl", "daemon-reload"]).ok();
    system.root(&["systemctl", "start", "gatedd.service"]).ok();
    // It feeds the watchdog while it works.
    let fed = || system.property("gatedd.service", "WatchdogTimestampMonotonic");
    for _ in 0..4 {
        let last = fed();
        until("the watchdog to be fed", || (fed() != last).then_some(()));
    }
    let before = system.property("gatedd.service", "MainPID");
    assert_eq!(system.property("gatedd.service", "NRestarts"), "0");
    system.root(&["systemctl", "kill", "--signal=STOP", "gatedd.service"]).ok();
    until("another daemon", || {
        let now = system.property("gatedd.service", "MainPID");
        (system.property("gatedd.service", "ActiveState") == "active" && now != before).then_some(())
    });
    system.run("alice", "gatedctl status").code(0);
}
