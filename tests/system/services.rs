//! Services under gated: units that are hardened by a drop-in, what they may do, and what their journal says.

use super::boot::System;
use super::session::asked;
use super::support::until;

pub const TESTS: &[super::Test] = &[
    ("a_unit_is_hardened_runs_and_is_restored", a_unit_is_hardened_runs_and_is_restored),
    ("a_broken_policy_fails_the_unit", a_broken_policy_fails_the_unit),
    ("a_member_of_the_group_lets_a_service_go_on", a_member_of_the_group_lets_a_service_go_on),
];

const PROFILE: &str = "schema = 1\n[profile]\nname = \"worker\"\nextends = [\"service-base\"]\n[vars]\nstate = \"/srv/worker\"\n\
     [[rule]]\nid = \"programs\"\naccess = [\"exec\"]\nprogram = [\"@path/sh\", \"@path/dash\", \"@path/cat\", \"@path/sleep\"]\n\
     level = \"allow\"\n";

const PROGRAM: &str = "#!/bin/sh\necho \"started $1\"\necho \"$1\" >/srv/worker/state\ncat /home/bob/.bashrc >/dev/null\n\
     echo no >/home/bob/x\ntrap 'echo stopping; exit 0' TERM\necho up\nwhile :; do sleep 0.1; done\n";

fn unit(rest: &str) -> String {
    format!("[Unit]\nDescription=Worker\n[Service]\nUser=bob\nWorkingDirectory=/srv/worker\n{rest}")
}

fn prepared(rest: &str) -> System {
    let system = System::boot();
    system.script("after-install.sh").ok();
    system.root(&["install", "-d", "-o", "bob", "/srv/worker"]).ok();
    system.write("/usr/local/lib/worker-program", PROGRAM);
    system.root(&["chmod", "755", "/usr/local/lib/worker-program"]).ok();
    system.write("/etc/gated/profiles/worker.toml", PROFILE);
    system.write("/etc/systemd/system/worker@.service", &unit(rest));
    system.root(&["systemctl", "daemon-reload"]).ok();
    system
}

fn journal(system: &System, unit: &str) -> String {
    system.root(&["journalctl", "--sync"]).ok();
    system.root(&["journalctl", "--no-pager", "--quiet", "--output=cat", "--unit", unit]).ok()
}

fn a_unit_is_hardened_runs_and_is_restored() {
    let system = prepared("ExecStart=/bin/sh /usr/local/lib/worker-program \"one %i\"\n");
    // Bare it does as it likes.
    system.root(&["systemctl", "start", "worker@bare.service"]).ok();
    until("the bare one", || system.path("/home/bob/x").exists().then_some(()));
    system.root(&["systemctl", "stop", "worker@bare.service"]).ok();
    system.root(&["rm", "/home/bob/x", "/srv/worker/state"]).ok();

    let refused = system.root(&["gatedctl", "unit", "harden", "worker@", "--profile", "worker"]);
    assert!(refused.err.contains("there is no terminal to ask at"), "{refused:?}");
    assert!(!system.path("/etc/systemd/system/worker@.service.d").exists());
    let hardened = system.root(&["gatedctl", "unit", "harden", "worker@", "--profile", "worker", "--yes"]);
    hardened
        .code(0)
        .says("--service --profile worker -- /bin/sh /usr/local/lib/worker-program \"one %i\"")
        .says("installed");
    system.root(&["gatedctl", "unit", "show", "worker@"]).code(0).says("runs under gated");

    system.root(&["systemctl", "start", "worker@a.service"]).ok();
    until("the service", || journal(&system, "worker@a.service").contains("\nup\n").then_some(()));
    assert_eq!(system.read("/srv/worker/state"), "one a\n");
    let told = journal(&system, "worker@a.service");
    for what in ["gated: denied: read /home/bob/.bashrc", "gated: denied: write /home/bob/x"] {
        assert!(told.contains(what), "{told}");
    }
    assert!(!system.path("/home/bob/x").exists());
    let sessions = asked(&system, "bob", "sessions");
    assert_eq!(sessions.as_array().map(Vec::len), Some(1), "{sessions}");
    // A daemon that is started anew does not end it.
    system.root(&["systemctl", "restart", "gatedd.service"]).ok();
    assert_eq!(system.property("worker@a.service", "ActiveState"), "active");
    system.root(&["systemctl", "stop", "worker@a.service"]).ok();
    assert!(journal(&system, "worker@a.service").contains("stopping"), "{}", journal(&system, "worker@a.service"));
    assert_eq!(system.property("worker@a.service", "Result"), "success");

    system.root(&["gatedctl", "unit", "unharden", "worker@"]).code(0);
    assert!(!system.path("/etc/systemd/system/worker@.service.d").exists());
    system.root(&["systemctl", "start", "worker@bare.service"]).ok();
    until("the bare one", || system.path("/home/bob/x").exists().then_some(()));
    system.root(&["systemctl", "stop", "worker@bare.service"]).ok();
}

fn a_broken_policy_fails_the_unit() {
    let system = prepared("Restart=on-failure\nExecStart=/bin/sh /usr/local/lib/worker-program one\n");
    system.root(&["gatedctl", "unit", "harden", "worker@", "--profile", "missing", "--yes"]).code(6);
    let profile = "/srv/worker.toml";
    system.write(profile, PROFILE);
    system.root(&["gatedctl", "unit", "harden", "worker@", "--profile", profile, "--yes"]).code(0);
    system.write("/etc/systemd/system/worker@.service", &unit("Type=notify\nExecStart=/bin/sh\n"));
    system.root(&["systemctl", "daemon-reload"]).ok();
    let refused = system.root(&["gatedctl", "unit", "harden", "worker@", "--profile", "worker", "--yes"]);
    assert!(refused.err.contains("Type=notify"), "{refused:?}");
    system.write(
        "/etc/systemd/system/worker@.service",
        &unit("Restart=on-failure\nExecStart=/bin/sh /usr/local/lib/worker-program one\n"),
    );
    system.write(profile, &format!("{PROFILE}nonsense = 1\n"));
    system.root(&["systemctl", "daemon-reload"]).ok();
    // Type=simple has started once its process has.
    let _started = system.root(&["systemctl", "start", "worker@a.service"]);
    until("the failure", || (system.property("worker@a.service", "ActiveState") == "failed").then_some(()));
    assert_eq!(system.property("worker@a.service", "ExecMainStatus"), "78");
    assert_eq!(system.property("worker@a.service", "NRestarts"), "0");
    let told = journal(&system, "worker@a.service");
    assert!(told.contains("gated-run: /srv/worker.toml:12:1: "), "{told}");
    assert!(!told.contains("started one"), "{told}");
}

fn a_member_of_the_group_lets_a_service_go_on() {
    let system = prepared("Type=oneshot\nExecStart=/bin/sh -c '/usr/bin/printf deployed >/srv/worker/out'\n");
    system.root(&["groupadd", "deployers"]).ok();
    system.root(&["usermod", "--append", "--groups", "deployers", "carol"]).ok();
    let rest = "[[rule]]\nid = \"deploy\"\naccess = [\"exec\"]\nprogram = [\"@path/printf\"]\nlevel = \"ask\"\n\
                ask = { group = \"deployers\" }\n[prompt]\nno_consent_agent = \"queue\"\ntimeout = \"60s\"\n";
    system.write("/etc/gated/profiles/worker.toml", &format!("{PROFILE}{rest}"));
    system.root(&["gatedctl", "unit", "harden", "worker@", "--profile", "worker", "--yes"]).code(0);
    system.root(&["systemctl", "start", "--no-block", "worker@a.service"]).ok();
    let request = until("the request", || {
        let pending = asked(&system, "carol", "pending");
        pending.as_array()?.first()?["id"].as_str().map(str::to_owned)
    });
    assert_eq!(asked(&system, "alice", "pending"), serde_json::json!([]));
    assert!(!system.run("alice", &format!("gatedctl approve {request}")).status.success());
    assert!(!system.run("bob", &format!("gatedctl approve {request}")).status.success());
    system.run("carol", &format!("gatedctl approve {request}")).code(0);
    until("the end", || (system.property("worker@a.service", "ActiveState") == "inactive").then_some(()));
    assert_eq!(system.property("worker@a.service", "Result"), "success");
    assert_eq!(system.read("/srv/worker/out"), "deployed");
}
