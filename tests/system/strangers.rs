//! Who is refused: another user, and everything that runs in a session, the session's own user included (attack 33).

use super::boot::System;
use super::consent::pids_of;
use super::session::{Shell, asked, waiting_for};
use super::support::until;

pub const TESTS: &[super::Test] = &[
    ("another_user_sees_and_answers_nothing", another_user_sees_and_answers_nothing),
    ("polkit_lets_an_admin", polkit_lets_an_admin),
    ("nothing_in_a_session_answers_for_it", nothing_in_a_session_answers_for_it),
];

const MANAGER: &str = "org.gated.Gated1 /org/gated/Gated1 org.gated.Gated1.Manager";

fn another_user_sees_and_answers_nothing() {
    let system = System::boot();
    let mut shell = Shell::start(&system, "");
    let write = shell.begin("echo hello >/home/alice/notes");
    let request = waiting_for(&system, "alice", "/home/alice/notes");
    let id = shell.id.clone();
    for verb in ["sessions", "pending", "grants"] {
        assert_eq!(asked(&system, "bob", verb), serde_json::json!([]), "{verb}");
    }
    let refused = |command: &str| {
        let done = system.run("bob", command);
        assert!(!done.status.success(), "{done:?}");
        assert!(!done.out.contains("/home/alice"), "{done:?}");
    };
    refused(&format!("gatedctl show {request}"));
    refused(&format!("gatedctl approve {request}"));
    refused(&format!("gatedctl deny {request}"));
    refused(&format!("gatedctl session show {id}"));
    refused(&format!("gatedctl session stop {id}"));
    refused(&format!("gated-run --session {id} -- true"));
    // Without the manners of gatedctl.
    refused(&format!("busctl call {MANAGER} Decide 'ssa{{sv}}' {request} once 0"));
    refused(&format!("busctl call {MANAGER} Reload 'a{{sv}}' 0"));
    let object = format!("org.gated.Gated1 /org/gated/Gated1/session/{id} org.gated.Gated1.Session");
    refused(&format!("busctl call {object} Stop 'a{{sv}}' 0"));
    refused(&format!("busctl get-property {object} Directory"));
    refused("busctl call org.freedesktop.DBus / org.freedesktop.DBus RequestName su org.gated.Gated1 0");
    assert!(!system.run("bob", "ls /run/gated/sessions").status.success());
    // Still there, and still its user's to answer.
    assert!(!system.path("/home/alice/notes").exists());
    system.run("alice", &format!("gatedctl approve {request}")).code(0);
    assert_eq!(shell.end(write), 0);
}

fn polkit_lets_an_admin() {
    let system = System::boot();
    let mut shell = Shell::start(&system, "");
    let write = shell.begin("echo hello >/home/alice/notes");
    let request = waiting_for(&system, "alice", "/home/alice/notes");
    let rule = "polkit.addRule(function(action, subject) {\n\
        if (action.id.indexOf('org.gated.gated1.') == 0 && subject.user == 'carol') return polkit.Result.YES;\n});\n";
    system.write("/etc/polkit-1/rules.d/49-test.rules", rule);
    until("polkit to know", || {
        let check = "pkcheck --action-id org.gated.gated1.manage-sessions --process $$";
        system.run("carol", check).status.success().then_some(())
    });
    // Lists show what is one's own; whoever was told the ids may answer and stop.
    system.run("carol", &format!("busctl call {MANAGER} Decide 'ssa{{sv}}' {request} once 0")).code(0);
    assert_eq!(shell.end(write), 0);
    let stop = format!(
        "busctl call org.gated.Gated1 /org/gated/Gated1/session/{} org.gated.Gated1.Session Stop 'a{{sv}}' 0",
        shell.id
    );
    assert!(!system.run("bob", &stop).status.success());
    system.run("carol", &stop).code(0);
    shell.done();
}

fn nothing_in_a_session_answers_for_it() {
    let system = System::boot();
    let mut shell = Shell::start(&system, "");
    // The bus is not there.
    assert_eq!(shell.does("gatedctl pending"), 3);
    assert_ne!(shell.does("busctl --no-pager list"), 0);
    assert_eq!(shell.does("sleep 4242 &"), 0);
    let write = shell.begin("echo hello >/home/alice/notes");
    let request = waiting_for(&system, "alice", "/home/alice/notes");
    let tool = pids_of(&system, "sleep");
    // If a way to it were found: from the session's pid namespace, with the host's files.
    let from_inside = |command: &str| {
        let enter = format!(
            "SYSTEMD_LOG_LEVEL=debug nsenter --target {tool} --pid -- setpriv --reuid alice --regid alice --init-groups {command}"
        );
        system.root(&["sh", "-c", &enter])
    };
    // From the session's control group.
    let group = "/sys/fs/cgroup$(grep -m1 gated-session /proc/TOOL/cgroup | cut -d: -f3)".replace("TOOL", &tool);
    let mounted = ["/unified", "/systemd", ""].map(|kind| group.replacen("/cgroup", &format!("/cgroup{kind}"), 1));
    let enter_group = mounted.map(|group| format!("echo $$ >{group}/cgroup.procs")).join(" || ");
    let from_group = |command: &str| {
        let as_alice = format!(
            "{{ {enter_group}; }} 2>/dev/null; SYSTEMD_LOG_LEVEL=debug exec setpriv --reuid alice --regid alice --init-groups {command}"
        );
        system.root(&["sh", "-c", &as_alice])
    };
    for command in [
        format!("busctl call {MANAGER} Decide 'ssa{{sv}}' {request} once 0"),
        format!("busctl call {MANAGER} RegisterAgent 'a{{sv}}' 0"),
        format!("busctl call {MANAGER} OpenSession 'a{{sv}}' 1 directory ay 5 47 104 111 109 101"),
        format!("busctl call {MANAGER} RevokeGrant 'sa{{sv}}' '' 1 all b true"),
    ] {
        for done in [from_inside(&command), from_group(&command)] {
            assert!(!done.status.success() && done.err.contains("Error.InsideSession"), "{done:?}");
        }
    }
    assert!(!system.path("/home/alice/notes").exists());
    system.run("alice", &format!("gatedctl deny {request}")).code(0);
    assert_ne!(shell.end(write), 0);
}
