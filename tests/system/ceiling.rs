//! The administrator's limit on a whole system: no profile of a user's and no answer exceeds it, and a mistake in it leaves
//! the last good one in force.

use super::boot::System;
use super::session::{Shell, asked, audit, waiting_for};

pub const TESTS: &[super::Test] = &[
    ("no_profile_and_no_answer_exceeds_the_ceiling", nothing_exceeds_the_ceiling),
    ("a_broken_ceiling_leaves_the_last_good_one_in_force", a_broken_ceiling),
];

const CEILING: &str = r#"
schema = 1

[[floor]]
access = ["write"]
path = ["/home/*/.config/autostart/**"]
level = "deny"
reason = "What starts by itself is the administrator's."

[[floor]]
access = ["write"]
path = ["/home/alice/asked/**"]
level = "ask"

[users]
may_run = ["alice", "carol"]
lifetimes = ["attempt", "call", "session"]
"#;

/// A user's own, which would allow everything and keep every answer.
const GENEROUS: &str = r#"
schema = 1

[profile]
name = "generous"
extends = ["base"]

[grants]
persistent = true

[[rule]]
id = "home"
access = ["write"]
path = ["/home/alice/*/**", "/home/alice/.config/*/**"]
level = "allow"
"#;

/// A system with the ceiling, and with a profile of alice's own.
fn boot() -> System {
    let system = System::boot();
    system.write("/etc/gated/ceiling.toml", CEILING);
    let write = format!(
        "mkdir -p ~/.config/gated/profiles && cat >~/.config/gated/profiles/generous.toml <<'E'\n{GENEROUS}E\n"
    );
    system.run("alice", &write).code(0);
    system.root(&["systemctl", "start", "gatedd.service"]).ok();
    system
}

fn nothing_exceeds_the_ceiling() {
    let system = boot();
    assert!(!system.run("bob", "gated-run true").status.success(), "bob is not in may_run");
    let mut shell = Shell::start(&system, "--profile generous");
    assert_eq!(shell.does("mkdir -p /home/alice/free && echo x >/home/alice/free/x"), 0, "the profile allows it");
    // Denied at once, whatever the profile says and whoever might answer.
    assert_ne!(shell.does("mkdir -p /home/alice/.config/autostart"), 0);
    assert!(!system.path("/home/alice/.config/autostart").exists());
    let record = audit(&system, &shell.id).pop().expect("a record");
    assert_eq!(record["rule"]["profile"], "ceiling", "{record:#}");
    assert_eq!(record["rule"]["file"], "/etc/gated/ceiling.toml", "{record:#}");

    // Asked where the profile would allow; the answer lasts no longer than the ceiling lets it.
    let write = shell.begin("mkdir /home/alice/asked");
    let request = waiting_for(&system, "alice", "/home/alice/asked");
    let shown = system.run("alice", &format!("gatedctl show {request}")).ok();
    assert!(shown.contains("for the session"), "{shown}");
    assert!(!system.run("alice", &format!("gatedctl approve {request} --always")).status.success());
    system.run("alice", &format!("gatedctl approve {request} --session --scope tree")).code(0);
    assert_eq!(shell.end(write), 0);
    assert_eq!(asked(&system, "alice", "grants")[0]["lifetime"], "session");
    assert_eq!(shell.does("echo x >/home/alice/asked/x"), 0, "what was granted is not asked again");
    shell.done();
}

fn a_broken_ceiling() {
    let system = boot();
    system.write("/etc/gated/ceiling.toml", "schema = 1\n[users]\nmay_run = [\"bob\"]\nmay_fly = true\n");
    let reload = system.root(&["systemctl", "reload", "gatedd.service"]);
    assert!(!reload.status.success(), "{reload:?}");
    system.root(&["journalctl", "--sync"]).ok();
    let journal = system.root(&["journalctl", "--no-pager", "--unit=gatedd.service"]).ok();
    assert!(journal.contains("/etc/gated/ceiling.toml:4:1"), "{journal}");
    // As before: alice may, bob may not.
    system.run("alice", "mkdir p && cd p && gated-run -- true").code(0);
    assert!(!system.run("bob", "mkdir p && cd p && gated-run -- true").status.success());

    let closed = CEILING.replace("[users]", "[users]\nmay_write_profiles = false");
    system.write("/etc/gated/ceiling.toml", &closed);
    system.root(&["systemctl", "reload", "gatedd.service"]).ok();
    let own = system.run("alice", "cd p && gated-run --profile generous -- true");
    assert!(!own.status.success(), "{own:?}");
    own.says("may_write_profiles");
    system.run("alice", "cd p && gated-run -- true").code(0);
}
