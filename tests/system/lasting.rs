//! Answers that outlive their session, the daemon, and a boot of the machine.

use super::boot::System;

pub const TESTS: &[super::Test] =
    &[("a_lasting_answer_is_there_after_a_reboot_and_only_its_users", a_lasting_answer_is_there_after_a_reboot)];

const PROFILE: &str = r#"
schema = 1
[profile]
name = "lasting"
extends = ["coder"]
[grants]
persistent = true
max_for = "8h"
"#;

fn a_lasting_answer_is_there_after_a_reboot() {
    let mut system = System::boot();
    system.script("after-install.sh").ok();
    system.write("/etc/gated/profiles/lasting.toml", PROFILE);
    let write = |system: &System, user: &str| {
        let run = "gated-run --profile lasting --consent none -- sh -c";
        system.run(user, &format!("mkdir -p project && cd project && {run} 'echo x >>/home/{user}/notes'"))
    };
    system.run("alice", "gatedctl trust write /home/alice/notes --profile lasting").code(0).says("until it is revoked");
    system.run("bob", "gatedctl trust write /home/bob/notes --for 2h --profile lasting").code(0);
    system.run("bob", "gatedctl block write /home/bob/notes --profile lasting").code(0);
    write(&system, "alice").code(0);
    let store = system.root(&["stat", "--format", "%U %a", "/var/lib/gated/grants.sqlite", "/var/lib/gated"]).ok();
    assert_eq!(store, "root 600\nroot 700\n");

    system.reboot();
    write(&system, "alice").code(0);
    assert_eq!(system.read("/home/alice/notes"), "x\nx\n");
    // Another user's is another user's, and a no outlives the boot as a yes does.
    system.run("alice", "gatedctl grants").code(0).says("/home/alice/notes");
    assert!(!system.run("alice", "gatedctl grants").out.contains("bob"));
    assert_ne!(write(&system, "bob").status.code(), Some(0));
    system.run("alice", "gatedctl revoke --all").code(0);
    assert_ne!(write(&system, "alice").status.code(), Some(0));
    assert_eq!(system.read("/home/alice/notes"), "x\nx\n");
}
