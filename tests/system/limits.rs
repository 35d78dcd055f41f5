//! What admins set holds: drop-ins of units, `ceiling.toml`, policy that is put in force, or not, while the daemon runs.

use super::boot::System;
use super::session::{PROJECT, Shell, waiting_for};

pub const TESTS: &[super::Test] = &[
    ("drop_ins_limit_sessions", drop_ins_limit_sessions),
    ("a_ceiling_says_who_may_run", a_ceiling_says_who_may_run),
    ("a_broken_policy_leaves_the_last_good_one_in_force", a_broken_policy_leaves_the_last_good_one_in_force),
];

fn drop_ins_limit_sessions() {
    let system = System::boot();
    let drop_in = "/etc/systemd/system/gated-session@.service.d/limits.conf";
    system.write(drop_in, "[Service]\nTasksMax=40\nMemoryMax=64M\n");
    system.root(&["systemctl", "daemon-reload"]).ok();
    let mut shell = Shell::start(&system, "");
    assert_eq!(system.property(&shell.unit(), "TasksMax"), "40");
    assert_ne!(shell.does("head -c 200M /dev/zero | tail -c 200M | cmp -n 1 - /dev/zero"), 0);
    assert_eq!(shell.does("for i in 1 2 3; do sleep 0.1 & done; wait"), 0);
    // dash ends with the fork that fails, so it is one of its own.
    let bomb = "sh -c 'i=0; while [ $i -lt 60 ]; do sleep 1 & i=$((i + 1)); done; wait' 2>bomb";
    assert_ne!(shell.does(bomb), 0);
    assert!(system.read(&format!("{PROJECT}/bomb")).contains("fork"));
    // The session itself goes on, and its supervisor still asks.
    let write = shell.begin("echo hello >/home/alice/notes");
    let request = waiting_for(&system, "alice", "/home/alice/notes");
    system.run("alice", &format!("gatedctl approve {request}")).code(0);
    assert_eq!(shell.end(write), 0);
}

fn a_ceiling_says_who_may_run() {
    let system = System::boot();
    let run = |user: &str| system.run(user, "mkdir -p work; cd work; gated-run -- echo ran");
    run("alice").code(0).says("ran");
    system.write("/etc/gated/ceiling.toml", "schema = 1\n[users]\nmay_run = []\n");
    system.root(&["systemctl", "reload", "gatedd.service"]).ok();
    for user in ["alice", "bob"] {
        let refused = run(user);
        assert_eq!((refused.code(125).out.as_str(), refused.err.is_empty()), ("", false), "{refused:?}");
    }
    system.write("/etc/gated/ceiling.toml", "schema = 1\n[users]\nmay_run = [\"bob\", \"@staff-of-tests\"]\n");
    system.root(&["groupadd", "staff-of-tests"]).ok();
    system.root(&["usermod", "--append", "--groups", "staff-of-tests", "carol"]).ok();
    system.root(&["systemctl", "reload", "gatedd.service"]).ok();
    run("alice").code(125);
    run("bob").code(0);
    run("carol").code(0);
}

fn a_broken_policy_leaves_the_last_good_one_in_force() {
    let system = System::boot();
    let profile = |level: &str| {
        format!(
            "schema = 1\n[profile]\nname = \"own\"\nextends = [\"coder\"]\n[[rule]]\nid = \"notes\"\naccess = [\"write\"]\n\
             path = [\"~/notes\"]\nlevel = {level}\n"
        )
    };
    let file = "/etc/gated/profiles/own.toml";
    let run = || {
        let command = format!("mkdir -p {PROJECT}; cd {PROJECT}; gated-run --profile own -- sh -c 'echo x >>../notes'");
        system.run("alice", &command)
    };
    system.write(file, &profile("\"allow\""));
    run().code(0);
    // Broken: the reload fails and says why, and nothing changes.
    system.write(file, &profile("\"perhaps\""));
    assert!(!system.root(&["systemctl", "reload", "gatedd.service"]).status.success());
    run().code(0);
    let pid = system.property("gatedd.service", "MainPID");
    system.root(&["sh", "-c", &format!("kill -HUP {pid}")]).ok();
    run().code(0);
    assert_eq!(system.property("gatedd.service", "MainPID"), pid);
    // Put right: from the next session on.
    system.write(file, &profile("\"deny\""));
    system.root(&["systemctl", "reload", "gatedd.service"]).ok();
    assert_ne!(run().status.code(), Some(0));
    // A start with a broken policy is none.
    system.write(file, &profile("\"perhaps\""));
    assert!(!system.root(&["systemctl", "restart", "gatedd.service"]).status.success());
    assert_ne!(run().status.code(), Some(0));
}
