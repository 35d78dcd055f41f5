//! Level `authenticate` on a real polkit: what a rule wants a proof of identity for happens only after the person's own
//! password was typed, and by no click.

use super::boot::System;
use super::dialog;
use super::session::{Shell, audit, waiting_for};
use super::support::terminal::{read_screen, type_keys};
use super::support::{pty, until};

pub const TESTS: &[super::Test] = &[
    ("only_a_password_lets_a_sensitive_change_through", only_a_password),
    ("a_terminal_asks_for_the_password", a_terminal_asks_for_the_password),
];

const PROFILE: &str = r#"
schema = 1

[profile]
name = "sensitive"
extends = ["coder"]

[[rule]]
id = "signed"
access = ["write"]
path = ["~/release"]
level = "authenticate"
"#;

/// A system where alice and bob have passwords and the profile is there.
fn boot() -> System {
    let system = System::boot();
    system.root(&["sh", "-c", "printf 'alice:right\\nbob:right\\n' | chpasswd"]).ok();
    system.write("/etc/gated/profiles/sensitive.toml", PROFILE);
    system.root(&["systemctl", "start", "gatedd.service"]).ok();
    system
}

fn only_a_password() {
    let system = boot();
    dialog::install(&system);
    let mut shell = Shell::start(&system, "--profile sensitive");
    let write = shell.begin("echo hello >/home/alice/release");
    let request = waiting_for(&system, "alice", "/home/alice/release");
    let approve = format!("gatedctl approve {request}");
    let typing = |user: &str, password: &str| system.run(user, &dialog::typing(password, &approve));

    // Nobody to ask for a password, a wrong one, another user with their own.
    system.run("alice", &approve).code(4);
    typing("alice", "wrong").code(4).says("asked for org.gated.gated1.grant-sensitive");
    assert!(!typing("bob", "right").status.success());
    assert!(!system.path("/home/alice/release").exists());

    typing("alice", "right").code(0).says("asked for org.gated.gated1.grant-sensitive");
    assert_eq!(shell.end(write), 0);
    assert_eq!(system.read("/home/alice/release"), "hello\n");
    let records = audit(&system, &shell.id);
    let record = records.iter().find(|record| record["object"] == "/home/alice/release").expect("a record");
    assert_eq!((&record["result"], &record["rule"]["id"]), (&"approved".into(), &"signed".into()), "{record:#}");
    shell.done();
}

fn a_terminal_asks_for_the_password() {
    let system = boot();
    let mut shell = Shell::start(&system, "--profile sensitive");
    let write = shell.begin("echo hello >/home/alice/release");
    let request = waiting_for(&system, "alice", "/home/alice/release");
    let (master, terminal) = pty();
    // As login(1) does.
    std::os::unix::fs::fchown(&terminal, Some(1000), None).expect("chown of a terminal");
    let mut running = system.start_on(terminal, "alice", &format!("gatedctl approve {request}"));
    let mut seen = Vec::new();
    until("a question for the password", || {
        read_screen(&master, &mut seen);
        String::from_utf8_lossy(&seen).contains("Password:").then_some(())
    });
    assert!(!system.path("/home/alice/release").exists());
    type_keys(&master, "right\r");
    until("the approval", || {
        read_screen(&master, &mut seen);
        running.try_wait().expect("a child")
    });
    assert!(running.wait().expect("a child").success(), "{}", String::from_utf8_lossy(&seen));
    assert_eq!(shell.end(write), 0);
    shell.done();
}
