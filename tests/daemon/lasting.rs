//! Answers that outlive their session, in real sessions below the real daemon: whom they hold for, and how they end.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use gated::common::bus::GRANTS_INTERFACE;
use zbus::{OwnedVariant, Variant};

use super::Test;
use super::machine::{Machine, QUEUE};
use super::support::until;

pub const TESTS: &[Test] = &[
    ("a_yes_for_always_holds_in_other_sessions_until_it_is_revoked_also_after_a_restart", always),
    ("a_no_for_always_denies_what_rules_allow_and_reads_that_nobody_holds", never),
];

type Row = HashMap<String, OwnedVariant>;

fn machine() -> Machine {
    let machine = Machine::new();
    let lasting = format!("{QUEUE}\n[grants]\npersistent = true\n");
    machine.policy("profiles/queue.toml", &lasting);
    machine.policy("profiles/other.toml", &lasting.replace("name = \"queue\"", "name = \"other\""));
    machine
}

/// Waits in the workspace until it is told to go on, each time by another file.
fn wait_for(machine: &Machine, name: &str) -> String {
    format!("while ! test -e {}; do sleep 0.02; done", machine.sandbox.workspace().join(name).display())
}

fn go(machine: &Machine, name: &str) {
    machine.sandbox.file(&machine.sandbox.workspace().join(name), "");
}

fn write(path: &Path) -> String {
    format!("echo x >{0} && echo wrote {0} || echo failed {0}", path.display())
}

fn run_under(machine: &Machine, profile: &str, script: &str) -> String {
    let words = ["sh", "-c", script].map(Into::into);
    machine.run_profile(profile, words.into()).finish().out()
}

fn lasting_grants(machine: &Machine) -> Vec<String> {
    let told = machine.call("ListGrants", &(HashMap::<&str, Variant<'_>>::new(),)).unwrap();
    let rows: Vec<Row> = told.body().deserialize().unwrap();
    rows.iter().map(|row| String::try_from(row["id"].try_clone().unwrap()).unwrap()).collect()
}

fn block(machine: &Machine, access: &str, path: &Path) -> Row {
    let pattern = HashMap::from([("paths", Variant::from(path.to_str().unwrap()))]);
    let options = HashMap::from([
        ("profile", Variant::from("queue")),
        ("term", Variant::from("always")),
        ("user", Variant::from(super::support::user::NAME)),
        ("directory", Variant::from(machine.sandbox.workspace().to_str().unwrap().as_bytes().to_vec())),
    ]);
    let told = machine.call_of(GRANTS_INTERFACE, "AddGrant", &("deny", access, pattern, options)).unwrap();
    told.body().deserialize().unwrap()
}

fn always() {
    let machine = machine();
    let daemon = machine.daemon();
    let file = machine.sandbox.outside().join("x");
    let steps = |name: &str| format!("{}; {}", wait_for(&machine, name), write(&file));
    let running = machine.run(&["sh", "-c", &format!("{}; {}", steps("first"), steps("second"))]);
    until("the first session", || (machine.sessions().len() == 1).then_some(()));

    let asking = machine.run(&["sh", "-c", &write(&file)]);
    let request = machine.asked(&file);
    machine.decide(&request, "always");
    let wrote = format!("wrote {}\n", file.display());
    assert_eq!(asking.finish().out(), wrote);
    // In the one that runs, and in the next, nobody is asked.
    go(&machine, "first");
    until("the running session to write", || running.so_far().contains("wrote").then_some(()));
    assert_eq!(run_under(&machine, "queue", &write(&file)), wrote);
    // Under another profile somebody is.
    let other = machine.run_profile("other", ["sh", "-c", &write(&file)].map(Into::into).into());
    let request = machine.asked(&file);
    machine.decide(&request, "deny");
    assert!(other.finish().out().starts_with("failed"));

    // The next daemon knows it, and so does the session that outlived the one before.
    let pid = daemon.pid();
    rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), rustix::process::Signal::KILL).unwrap();
    daemon.finish();
    let _daemon = machine.daemon();
    assert_eq!(run_under(&machine, "queue", &write(&file)), wrote);
    let grants = lasting_grants(&machine);
    assert_eq!(grants.len(), 1);

    machine.call("RevokeGrant", &(grants[0].as_str(), HashMap::<&str, Variant<'_>>::new())).unwrap();
    go(&machine, "second");
    machine.decide(&machine.asked(&file), "deny");
    assert!(running.finish().out().contains("failed"));
    let after = machine.run(&["sh", "-c", &write(&file)]);
    machine.decide(&machine.asked(&file), "deny");
    assert!(after.finish().out().starts_with("failed"));
    machine.over();
}

fn never() {
    let machine = machine();
    let _daemon = machine.daemon();
    let (allowed, secret) = (machine.sandbox.workspace().join("kept"), machine.sandbox.outside().join("secret"));
    machine.sandbox.file(&secret, "secret\n");
    let script = format!("{}; {}; {}", write(&allowed), wait_for(&machine, "go"), write(&allowed));
    let running = machine.run(&["sh", "-c", &script]);
    until("the first write", || running.so_far().contains("wrote").then_some(()));
    let read = format!("cat {} || echo failed", secret.display());
    assert_eq!(run_under(&machine, "queue", &read), "secret\n");

    let row = block(&machine, "write", &allowed);
    assert_eq!(u32::try_from(row["not-in-sessions"].try_clone().unwrap()).unwrap(), 0);
    go(&machine, "go");
    let out = running.finish().out();
    assert!(out.ends_with(&format!("failed {}\n", allowed.display())), "{out}");
    assert!(fs::read_to_string(&allowed).unwrap() == "x\n");
    // Nor is it moved away, nor what it is in.
    let moved = format!("mv {0} {0}.old || echo failed", allowed.display());
    assert_eq!(run_under(&machine, "queue", &moved), "failed\n");
    assert!(allowed.exists());

    // Reads are native where nothing speaks of them; a session that begins now holds this one.
    block(&machine, "read", &secret);
    assert_eq!(run_under(&machine, "queue", &read), "failed\n");
    assert_eq!(run_under(&machine, "other", &read), "secret\n");
    let audit = fs::read_to_string(machine.sandbox.audit_file()).unwrap();
    assert!(audit.lines().any(|line| line.contains("\"not_permitted\"") && line.contains("\"grant:")), "{audit}");
    for id in lasting_grants(&machine) {
        machine.call("RevokeGrant", &(id.as_str(), HashMap::<&str, Variant<'_>>::new())).unwrap();
    }
    assert_eq!(
        run_under(&machine, "queue", &format!("{}; {read}", write(&allowed))),
        format!("wrote {}\nsecret\n", allowed.display())
    );
    machine.over();
}
