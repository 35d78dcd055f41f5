//! The main job: a tool asks, a person answers, from another terminal and on the tool's own; and what is left of it in the
//! records.

use std::os::unix::fs::MetadataExt;

use super::boot::System;
use super::session::{PROJECT, Shell, asked, audit, waiting_for};
use super::support::until;

pub const TESTS: &[super::Test] = &[
    ("a_second_terminal_approves", a_second_terminal_approves),
    ("a_second_terminal_denies", a_second_terminal_denies),
    ("the_person_at_the_terminal_is_asked", the_person_at_the_terminal_is_asked),
    ("a_client_that_goes_takes_its_call_along", a_client_that_goes_takes_its_call_along),
    ("a_session_without_a_command_takes_calls_until_it_is_stopped", a_session_without_a_command_takes_calls),
];

fn a_second_terminal_approves() {
    let system = System::boot();
    system.script("after-install.sh").ok();
    // Nobody has started the daemon: the bus does.
    assert_eq!(system.property("gatedd.service", "ActiveState"), "inactive");
    assert_eq!(asked(&system, "alice", "status")["sessions"], 0);
    assert_eq!(system.property("gatedd.service", "ActiveState"), "active");

    let mut shell = Shell::start(&system, "");
    let write = shell.begin("echo hello >/home/alice/notes");
    let request = waiting_for(&system, "alice", "/home/alice/notes");
    assert!(!system.path("/home/alice/notes").exists());
    system.run("alice", &format!("gatedctl show {request}")).code(0).says("/home/alice/notes");

    // The session is a unit as any other.
    let unit = shell.unit();
    assert_eq!(system.property(&unit, "ActiveState"), "active");
    assert_eq!(system.property(&unit, "Slice"), "gated.slice");
    assert_eq!(system.property(&unit, "Delegate"), "yes");
    system.root(&["systemctl", "status", "--no-pager", &unit]).code(0).says("gated-session").says("sh");
    assert_eq!(asked(&system, "alice", "sessions")[0]["unit"], unit);

    system.run("alice", &format!("gatedctl approve {request}")).code(0);
    assert_eq!(shell.end(write), 0);
    let notes = system.path("/home/alice/notes").metadata().expect("the file");
    assert_eq!((notes.uid(), system.read("/home/alice/notes")), (1000, "hello\n".to_owned()));

    // Of this session, in the log, for root and the members of its group.
    let id = shell.id.clone();
    let records = audit(&system, &id);
    let record = records.iter().find(|record| record["object"] == "/home/alice/notes").expect("a record");
    assert_eq!((&record["result"], &record["user"]), (&"approved".into(), &"alice".into()), "{record:#}");
    let log = system.path("/var/log/gated/audit.jsonl").metadata().expect("the log");
    let group = system.root(&["getent", "group", "gated"]).ok();
    assert_eq!(log.mode() & 0o7777, 0o640);
    assert_eq!((log.uid(), Some(log.gid().to_string().as_str())), (0, group.split(':').nth(2)));
    system.run("bob", "gatedctl audit").code(4);
    system.root(&["usermod", "--append", "--groups", "gated", "carol"]).ok();
    system.run("carol", &format!("gatedctl --json audit --session {id}")).code(0).says("/home/alice/notes");

    // And in the journal: by unit, by session, by message, with an explanation.
    assert_eq!(shell.done().code(0).err, "");
    until("the unit to be gone", || (system.property(&unit, "ActiveState") == "inactive").then_some(()));
    let journal = |arguments: &[&str]| {
        let all = [&["journalctl", "--no-pager", "--quiet", "--output=json"][..], arguments].concat();
        let out = system.root(&all).ok();
        out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect::<Vec<serde_json::Value>>()
    };
    system.root(&["journalctl", "--sync"]).ok();
    assert!(!journal(&["--unit", &unit]).is_empty(), "journalctl -u knows the unit");
    let of_session = journal(&[&format!("GATED_SESSION={id}")]);
    let has_record = of_session.iter().any(|entry| {
        entry["_SYSTEMD_UNIT"] == "gatedd.service"
            && entry["GATED_REQUEST"] == *request
            && entry["MESSAGE_ID"].is_string()
    });
    assert!(has_record, "{of_session:#?}");
    for entry in of_session.iter().filter_map(|entry| entry["MESSAGE_ID"].as_str()) {
        let text = system.root(&["journalctl", "--dump-catalog", entry]).ok();
        assert!(text.contains("Subject:"), "{entry} is not in the catalog");
    }
    assert_eq!(journal(&["--priority=err", "--unit=gatedd.service"]).len(), 0);
}

fn a_second_terminal_denies() {
    let system = System::boot();
    let mut shell = Shell::start(&system, "");
    let write = shell.begin("echo hello >/home/alice/notes");
    let request = waiting_for(&system, "alice", "/home/alice/notes");
    system.run("alice", &format!("gatedctl deny {request}")).code(0);
    assert_ne!(shell.end(write), 0);
    // Too late now, and of no effect.
    assert!(!system.run("alice", &format!("gatedctl approve {request}")).status.success());
    assert!(!system.path("/home/alice/notes").exists());
    // Where nobody answers, that is a no, too.
    let write = shell.begin("echo hello >/home/alice/other");
    assert_ne!(shell.end(write), 0);
    assert!(!system.path("/home/alice/other").exists());
    let last = audit(&system, &shell.id).pop().expect("a record");
    assert_eq!(last["object"], "/home/alice/other");
}

fn the_person_at_the_terminal_is_asked() {
    let system = System::boot();
    let tool = "tty\necho hello >/home/alice/notes\necho wrote $?\necho more >/home/alice/more\necho wrote $?\n";
    system.run("alice", &format!("mkdir {PROJECT}")).ok();
    system.write(&format!("{PROJECT}/tool"), tool);
    let recorded = "script --quiet --flush --return --command 'gated-run -- sh tool' ../screen";
    let command = format!("cd {PROJECT} && TERM=xterm exec {recorded}");
    let mut running = system.start("alice", &command);
    let screen = |what: &str, count: usize| {
        until(what, || {
            let text = std::fs::read(system.path("/home/alice/screen")).ok()?;
            (String::from_utf8_lossy(&text).matches(what).count() >= count).then_some(())
        });
    };
    screen("notes", 1);
    assert!(!system.path("/home/alice/notes").exists());
    // What was typed before a person can have read it does not count.
    screen(" s] > ", 3);
    running.write("o\n");
    screen("wrote 0", 1);
    // The second is answered elsewhere, and the prompt goes away by itself.
    let request = waiting_for(&system, "alice", "/home/alice/more");
    system.run("alice", &format!("gatedctl approve {request}")).code(0);
    screen("wrote 0", 2);
    running.done().code(0);
    assert_eq!(system.read("/home/alice/more"), "more\n");
    assert!(system.read("/home/alice/screen").contains("/dev/pts/"));
}

fn a_client_that_goes_takes_its_call_along() {
    let system = System::boot();
    let mut shell = Shell::start(&system, "");
    assert_eq!(shell.does("sleep 4242 & sleep 4243 &"), 0);
    let unit = shell.unit();
    let client = system.root(&["pgrep", "-u", "alice", "-x", "gated-run"]);
    let pids = if client.status.success() { client.out } else { pids_of(&system, "gated-run") };
    system.root(&["sh", "-c", &format!("kill -9 {}", pids.trim())]).ok();
    until("the session to end", || (system.property(&unit, "ActiveState") == "inactive").then_some(()));
    assert_eq!(pids_of(&system, "sleep"), "");
    assert_eq!(asked(&system, "alice", "sessions"), serde_json::json!([]));
}

/// Processes of the system by name; there is no pgrep in it.
pub fn pids_of(system: &System, name: &str) -> String {
    let script = format!("cd /proc; for p in [0-9]*; do [ \"$(cat $p/comm 2>/dev/null)\" != {name} ] || echo $p; done");
    system.root(&["sh", "-c", &script]).ok().split_whitespace().collect::<Vec<_>>().join(" ")
}

fn a_session_without_a_command_takes_calls() {
    let system = System::boot();
    let opened = system.run("alice", &format!("mkdir -p {PROJECT}; cd {PROJECT}; gated-run --new-session"));
    let id = opened.ok().trim().to_owned();
    let unit = format!("gated-session@{id}.service");
    assert_eq!(system.property(&unit, "ActiveState"), "active");
    let run = |command: &str| system.run("alice", &format!("cd {PROJECT}; gated-run --session {id} -- {command}"));
    run("sh -c 'echo $GATED_SESSION; exit 3'").code(3).says(&id);
    run("sh -c 'echo x >/tmp/seen'").code(0);
    run("cat /tmp/seen").code(0).says("x");
    // A further call from inside.
    run("sh -c 'gated-run -- sh -c \"cat /tmp/seen; exit 4\"'").code(4).says("x");
    // No stranger's.
    assert!(!system.run("bob", &format!("gated-run --session {id} -- true")).status.success());
    system.run("alice", &format!("gatedctl session stop {id}")).code(0);
    until("the session to end", || (system.property(&unit, "ActiveState") == "inactive").then_some(()));
    assert!(!run("true").status.success());
}
