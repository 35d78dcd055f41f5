//! The booted system itself: what every other test takes for granted.

use super::boot::System;

pub const TESTS: &[super::Test] = &[
    ("it_boots_and_switches_off", it_boots_and_switches_off),
    ("what_runs_is_told_of_what_was_installed", what_runs_is_told_of_what_was_installed),
];

fn it_boots_and_switches_off() {
    let system = System::boot();
    assert_eq!(system.root(&["systemctl", "is-system-running"]).ok().trim(), "running");
    assert_eq!(system.run("alice", "id -un; pwd; exit 7").code(7).out, "alice\n/home/alice\n");
    // polkit answers, and knows what we installed.
    let denied = system.run("bob", "pkcheck --action-id org.gated.gated1.manage-sessions --process $$");
    assert!(!denied.status.success(), "{denied:?}");
    let actions = system.root(&["pkaction", "--verbose", "--action-id", "org.gated.gated1.grant-sensitive"]).ok();
    assert!(actions.contains("implicit active:   auth_self"), "{actions}");
    // And limits of units hold, or drop-ins would prove nothing.
    let limited = |limit: &str, command: &str| {
        let unit = ["systemd-run", "--quiet", "--pipe", "--wait", "--collect", "-p", limit, "bash", "-c", command];
        system.root(&unit)
    };
    limited("TasksMax=20", "for i in {1..10}; do sleep 0.2 & done; wait; echo all").code(0).says("all");
    let refused = limited("TasksMax=5", "for i in {1..10}; do sleep 0.2 & done; wait; echo all");
    assert!(refused.err.contains("Resource temporarily unavailable"), "{refused:?}");
    assert!(
        !limited("MemoryMax=20M", "set -o pipefail; head -c 60M /dev/zero | tail -c 60M >/dev/null").status.success()
    );
    system.power_off();
}

fn what_runs_is_told_of_what_was_installed() {
    let system = System::boot();
    // As before an installation: nobody knows of anything.
    system
        .root(&["sh", "-c", "groupdel gated; rm -r /etc/gated /var/log/gated; rm -f /var/lib/systemd/catalog/database"])
        .ok();
    system.script("after-install.sh").ok();
    system.root(&["getent", "group", "gated"]).ok();
    let modes = system.root(&["stat", "--format=%a %U %G", "/etc/gated", "/etc/gated/profiles", "/var/log/gated"]).ok();
    assert_eq!(modes, "755 root root\n755 root root\n2750 root gated\n");
    assert!(system.root(&["journalctl", "--list-catalog"]).ok().contains("gated"));
    // The daemon starts, and is started anew by the next installation.
    system.root(&["systemctl", "start", "gatedd.service"]).ok();
    let before = system.property("gatedd.service", "MainPID");
    system.script("after-install.sh").ok();
    let after = system.property("gatedd.service", "MainPID");
    assert_eq!(system.property("gatedd.service", "ActiveState"), "active");
    assert_ne!(before, after);
    system.script("before-uninstall.sh").ok();
    assert_eq!(system.property("gatedd.service", "ActiveState"), "inactive");
}
