//! Something of gated's ends or fails at a bad moment: nothing is permitted by that, and what can live on does.

use std::fs;
use std::io::Write;
use std::time::Duration;

use super::Test;
use super::machine::{Machine, child_of};
use super::support::{PidFd, until};

pub const TESTS: &[Test] = &[
    ("a_daemon_killed_in_mid_prompt_denies_and_the_next_goes_on", killed_daemon),
    ("a_killed_supervisor_takes_its_session_along", killed_supervisor),
    ("a_restarted_bus_has_the_daemon_back_and_no_session_notices", restarted_bus),
    ("a_broken_policy_leaves_the_last_good_one_in_force", broken_policy),
    ("whom_the_ceiling_does_not_name_runs_nothing", may_run),
    ("a_full_disk_below_the_audit_log_denies", full_disk),
];

fn killed_daemon() {
    let machine = Machine::new();
    let outside = machine.sandbox.outside();
    let (granted, denied, later) = (outside.join("granted"), outside.join("denied"), outside.join("later"));
    let go = machine.sandbox.workspace().join("go");
    let script = format!(
        "echo a >>{granted}; echo b >{denied} || echo refused; while ! test -e {go}; do sleep 0.05; done; \
         echo a >>{granted} && echo kept; echo c >{later} && echo later",
        granted = granted.display(),
        denied = denied.display(),
        later = later.display(),
        go = go.display(),
    );
    let daemon = machine.daemon();
    let client = machine.run(&["sh", "-c", &script]);
    let request = machine.asked(&granted);
    machine.decide(&request, "session");
    let request = machine.asked(&denied);
    daemon.pidfd.kill(libc::SIGKILL);
    assert!(daemon.pidfd.ends_within(Duration::from_secs(10)));
    drop(daemon);
    // Without a daemon there is nobody to ask.
    until("the denial", || client.so_far().contains("refused").then_some(()));
    let next = machine.daemon();
    assert_eq!(machine.sessions().len(), 1);
    let over = machine
        .call("Decide", &(request.as_str(), "session", std::collections::HashMap::<&str, zbus::Variant<'_>>::new()));
    assert!(over.is_err(), "an answer to a request of before");
    until("the grant to be known again", || {
        (machine.grants() == [granted.as_os_str().as_encoded_bytes()]).then_some(())
    });
    fs::write(&go, "").unwrap();
    let request = machine.asked(&later);
    machine.decide(&request, "once");
    let done = client.finish();
    done.assert_code(0);
    assert_eq!(done.out(), "refused\nkept\nlater\n", "{done}");
    assert!(!denied.exists());
    assert_eq!(fs::read_to_string(&granted).unwrap(), "a\na\n");
    machine.over();
    drop(next);
}

fn killed_supervisor() {
    let machine = Machine::new();
    let daemon = machine.daemon();
    let marker = machine.sandbox.workspace().join("pid");
    let wanted = machine.sandbox.outside().join("wanted");
    let script = format!("sleep 1000 & echo $! >{}; echo x >{}", marker.display(), wanted.display());
    let client = machine.run(&["sh", "-c", &script]);
    machine.asked(&wanted);
    let supervisor = PidFd::open(child_of(daemon.pid())).unwrap();
    let below: Vec<PidFd> = super::support::wait::descendants(supervisor.pid);
    assert!(below.len() >= 3, "init, the shell, and what it started");
    supervisor.kill(libc::SIGKILL);
    let done = client.finish();
    done.assert_code(125);
    assert!(done.err().contains("gated-run: "), "{done}");
    for process in below {
        assert!(process.ends_within(Duration::from_secs(10)), "{}", process.pid);
    }
    assert!(!wanted.exists());
    machine.over();
    assert_eq!(fs::read_dir(machine.runtime_directory().join("sessions")).unwrap().count(), 0);
}

fn restarted_bus() {
    let machine = Machine::new();
    let place = machine.sandbox.outside();
    let (first, second) = (place.join("first"), place.join("second"));
    let go = machine.sandbox.workspace().join("go");
    let script = format!(
        "echo a >{}; while ! test -e {}; do sleep 0.05; done; echo b >{} && echo went on",
        first.display(),
        go.display(),
        second.display()
    );
    let daemon = machine.daemon();
    let client = machine.run(&["sh", "-c", &script]);
    let request = machine.asked(&first);
    machine.decide(&request, "once");
    machine.bus.borrow_mut().stop();
    machine.bus.borrow_mut().start_again();
    until("the daemon to be back", || {
        machine.call("ListGrants", &(std::collections::HashMap::<&str, zbus::Variant<'_>>::new(),)).ok()
    });
    assert_eq!(machine.sessions().len(), 1);
    fs::write(&go, "").unwrap();
    let request = machine.asked(&second);
    machine.decide(&request, "once");
    let done = client.finish();
    done.assert_code(0);
    assert_eq!(done.out(), "went on\n", "{done}");
    machine.over();
    drop(daemon);
}

fn broken_policy() {
    let machine = Machine::new();
    let daemon = machine.daemon();
    machine.policy("profiles/queue.toml", "nonsense");
    daemon.pidfd.kill(libc::SIGHUP);
    machine.run(&["true"]).finish().assert_code(0);
    machine.policy("profiles/queue.toml", super::machine::QUEUE);
    machine.policy("ceiling.toml", "schema = 1\n[users]\nmay_run = []\n");
    daemon.pidfd.kill(libc::SIGHUP);
    until("the good one to be read", || (machine.run(&["true"]).finish().code() == 125).then_some(()));
}

fn may_run() {
    let machine = Machine::new();
    machine.policy("ceiling.toml", "schema = 1\n[users]\nmay_run = [\"@no-such-group\"]\n");
    let _daemon = machine.daemon();
    let refused = machine.run(&["true"]).finish();
    refused.assert_code(125);
    assert_eq!(refused.err().lines().count(), 1, "{refused}");
    assert!(machine.sessions().is_empty());
    machine.policy("ceiling.toml", "schema = 1\n[users]\nmay_run = [\"@gated-extra\"]\n");
    machine.call("Reload", &(std::collections::HashMap::<&str, zbus::Variant<'_>>::new(),)).unwrap();
    machine.run(&["true"]).finish().assert_code(0);
}

fn full_disk() {
    let mut machine = Machine::new();
    let log = machine.sandbox.control().join("log");
    machine.sandbox.tmpfs(&log, "size=64k");
    let daemon = machine.daemon();
    let wanted = machine.sandbox.outside().join("wanted");
    let script = format!("echo x >{0}; echo y >{0} && echo second", wanted.display());
    let client = machine.run(&["sh", "-c", &script]);
    let request = machine.asked(&wanted);
    // The daemon's own view of the place.
    let seen = format!("/proc/{}/root{}", daemon.pid(), log.join("filler").display());
    let mut filler = fs::File::create(&seen).unwrap();
    while filler.write_all(&[0; 512]).is_ok() {}
    // Whoever said yes hears that it was none.
    let turned_down = machine.try_to_decide(&request, "session").expect_err("it cannot be recorded");
    assert!(turned_down.to_string().contains("Error.Engine"), "{turned_down}");
    // Asked once more: nothing was granted.
    let again = machine.asked(&wanted);
    assert_ne!(again, request);
    assert!(!wanted.exists() && machine.grants().is_empty());
    drop(filler);
    fs::remove_file(&seen).unwrap();
    machine.decide(&again, "session");
    let done = client.finish();
    assert_eq!(done.out(), "second\n", "{done}");
    machine.over();
}
