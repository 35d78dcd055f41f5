//! `gated-run --service`: what systemd would start, on a daemon of the test's own. Needs root, as the daemon does.

#[path = "../support/mod.rs"]
mod support;

use std::ffi::OsString;
use std::fs;

use support::served::Served;
use support::{Outcome, Running, Side, until};

/// A service that may write where it keeps its state, and run what is written here.
fn profile(served: &Served, rest: &str) -> String {
    let state = served.sandbox.outside().join("state");
    served.sandbox.dir(&state);
    let path = served.sandbox.root().join("svc.toml");
    let text = format!(
        "schema = 1\n[profile]\nname = \"svc\"\nextends = [\"service-base\"]\n[vars]\nstate = \"{}\"\n\
         [[rule]]\nid = \"programs\"\naccess = [\"exec\"]\n\
         program = [\"@path/dash\", \"@path/sh\", \"@path/cat\", \"@path/sleep\"]\nlevel = \"allow\"\n{rest}",
        state.display()
    );
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

fn start<'a>(served: &'a Served, profile: &str, script: &str) -> Running<'a> {
    served.start(&["--service", "--profile", profile, "--", "sh", "-c", script])
}

fn err(outcome: &Outcome) -> String {
    String::from_utf8_lossy(&outcome.stderr).into_owned()
}

#[test]
fn a_service_has_its_state_its_signals_and_its_exit_status() {
    let served = Served::new();
    let _daemon = served.daemon();
    let profile = profile(&served, "");
    let state = served.sandbox.outside().join("state/kept");
    for (signal, name) in [
        (libc::SIGTERM, "TERM"),
        (libc::SIGINT, "INT"),
        (libc::SIGHUP, "HUP"),
        (libc::SIGUSR1, "USR1"),
        (libc::SIGUSR2, "USR2"),
    ] {
        let script = format!(
            "echo up > {}; trap 'echo {name}; exit 7' {name}; echo ready; while :; do sleep 0.05; done",
            state.display()
        );
        let running = start(&served, &profile, &script);
        until("the service", || running.so_far().contains("ready").then_some(()));
        // SAFETY: a child of ours that was not waited for.
        unsafe { libc::kill(running.pid(), signal) };
        let outcome = running.finish();
        assert_eq!(String::from_utf8_lossy(&outcome.stdout), format!("ready\n{name}\n"), "{outcome}");
        outcome.assert_code(7);
    }
    assert_eq!(fs::read_to_string(state).unwrap(), "up\n");
}

#[test]
fn what_a_service_may_not_do_is_told_while_it_runs() {
    let served = Served::new();
    let _daemon = served.daemon();
    let profile = profile(&served, "");
    let script = "cat ~/.bashrc; echo x > ../x; echo x > ../x; id; echo ready; while :; do sleep 0.05; done";
    let running = start(&served, &profile, script);
    until("the service", || running.so_far().contains("ready").then_some(()));
    let told = ["denied: read ", "denied: write", "denied: run id"];
    until("the denials", || {
        let stderr = running.errors_so_far();
        told.iter().all(|what| stderr.contains(what)).then_some(())
    });
    // SAFETY: a child of ours that was not waited for.
    unsafe { libc::kill(running.pid(), libc::SIGKILL) };
    let outcome = running.finish();
    assert_eq!(err(&outcome).matches("gated: denied: write").count(), 1, "{outcome}");
    assert!(!served.sandbox.home().join("x").exists());
}

#[test]
fn a_broken_policy_and_a_missing_daemon_have_statuses_of_their_own() {
    let served = Served::new();
    let path = profile(&served, "");
    let gone = start(&served, &path, "true").finish();
    gone.assert_code(69);
    assert_eq!(err(&gone).lines().count(), 1, "{gone}");
    let _daemon = served.daemon();
    fs::write(&path, "schema = 1\n[profile]\nname = \"svc\"\nnonsense = 1\n").unwrap();
    let broken = start(&served, &path, "true").finish();
    broken.assert_code(78);
    assert!(err(&broken).contains("svc.toml:4:1: ") && err(&broken).lines().count() == 1, "{broken}");
    let unknown = start(&served, "no-such-profile", "true").finish();
    unknown.assert_code(78);
    assert!(err(&unknown).contains("there is no profile `no-such-profile`"), "{unknown}");
    // Under its own profile a failing command has its own status.
    let path = profile(&served, "");
    start(&served, &path, "exit 3").finish().assert_code(3);
}

#[test]
fn a_service_needs_a_profile_and_no_terminal() {
    let served = Served::new();
    let _daemon = served.daemon();
    let profile = profile(&served, "");
    served.run(&["--service", "--", "true"]).assert_code(125);
    served.run(&["--service", "--profile", &profile, "--consent", "tty", "--", "true"]).assert_code(125);
    let (person, running) = served.on_terminal(&["--service", "--profile", &profile, "--", "true"]);
    person.sees("--service has no terminal");
    running.finish().assert_code(78);
}

#[test]
fn nobody_is_asked_and_the_answer_is_no_at_once() {
    let served = Served::new();
    let _daemon = served.daemon();
    let profile = profile(
        &served,
        "[[rule]]\nid = \"deploy\"\naccess = [\"exec\"]\nprogram = [\"@path/echo\"]\nlevel = \"ask\"\nask = { group = \"gated-extra\" }\n",
    );
    let outcome = start(&served, &profile, "/usr/bin/echo deployed").finish();
    assert!(err(&outcome).contains("gated: denied: run /usr/bin/echo deployed"), "{outcome}");
    assert_ne!(outcome.code(), 0);
}

#[test]
fn a_request_for_a_group_waits_for_one_of_its_members() {
    let served = Served::new();
    let _daemon = served.daemon();
    let rest = "[[rule]]\nid = \"deploy\"\naccess = [\"exec\"]\nprogram = [\"@path/echo\"]\nlevel = \"ask\"\nask = { group = \"gated-extra\" }\n\
                [prompt]\nno_consent_agent = \"queue\"\ntimeout = \"60s\"\n";
    let profile = profile(&served, rest);
    // Of root's, who is not asked.
    let mut line: Vec<OsString> =
        served.line(&["--service", "--profile", &profile, "--", "sh", "-c", "/usr/bin/echo deployed; echo $?"]);
    line.insert(1, "HOME=/root".into());
    let running = served.sandbox.start_line(Side::Gated, &line, None);
    let request = until("the request", || {
        let pending = served.gatedctl(&["--json", "pending"]);
        let pending: serde_json::Value = serde_json::from_slice(&pending.stdout).ok()?;
        pending.as_array()?.first()?["id"].as_str().map(str::to_owned)
    });
    served.gatedctl(&["approve", &request]).assert_code(0);
    let outcome = running.finish();
    assert_eq!(String::from_utf8_lossy(&outcome.stdout), "deployed\n0\n", "{outcome}");
    // And until its time is over, no longer.
    let profile_text = fs::read_to_string(&profile).unwrap().replace("60s", "1s");
    fs::write(&profile, profile_text).unwrap();
    let late = served.sandbox.start_line(Side::Gated, &line, None).finish();
    assert!(err(&late).contains("nobody answered in time"), "{late}");
}
