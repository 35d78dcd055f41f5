//! What reaches a real journald: the log with its fields, audit records, and the catalog that explains both. Needs root.

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use gated::daemon::audit::{Audit, AuditLog, AuditRecord, Journal, JournaledLog};
use gated::daemon::record::{Rule, Tool};
use gated::daemon::{log, message};
use support::PidFd;
use support::journal::Journald;
use tracing_subscriber::layer::SubscriberExt;

fn record(session: &str, object: &str, result: &'static str) -> AuditRecord {
    AuditRecord {
        time: gated::daemon::record::now(),
        session: session.into(),
        call: 3,
        request: Some("00112233445566778899aabbccddeeff".into()),
        user: "alice".into(),
        tool: Tool {
            pid: 4711,
            program: "/usr/bin/npm".into(),
            argv: vec!["npm".into(), "i\\n".into()],
            cwd: "/".into(),
        },
        access: "write",
        operation: "create",
        object: object.into(),
        other: None,
        exec: None,
        destination: None,
        service: None,
        edited: None,
        rule: Rule {
            profile: "coder".into(),
            id: "hooks".into(),
            file: "/etc/gated/profiles/coder.toml".into(),
            line: 7,
        },
        result,
        would: None,
        answered_by: "desktop:alice".into(),
        duration_ms: 12,
        scope: Some("exact"),
        lifetime: None,
        times: None,
        various: false,
    }
}

struct Fixture {
    place: tempfile::TempDir,
    journald: Journald,
    audit: JournaledLog,
}

fn fixture() -> Fixture {
    let place = tempfile::tempdir().unwrap();
    let journald = Journald::start();
    let log = AuditLog::open(&place.path().join("audit.jsonl")).unwrap();
    let journal = Journal::at(&journald.socket()).unwrap();
    Fixture { place, journald, audit: JournaledLog { log, journal } }
}

impl Fixture {
    fn in_file(&self) -> usize {
        fs::read_to_string(self.place.path().join("audit.jsonl")).unwrap().lines().count()
    }
}

fn text<'a>(message: &'a serde_json::Value, field: &str) -> &'a str {
    message[field].as_str().unwrap_or_else(|| panic!("{field} in {message}"))
}

#[test]
fn a_decision_is_a_message_with_its_fields() {
    let made = fixture();
    made.audit.append(&record("a0000001", "/home/alice/x\\ny", "approved")).unwrap();
    made.audit.append(&record("a0000001", "/etc/passwd", "denied")).unwrap();
    made.audit.append(&record("a0000001", "/etc/passwd", "timeout")).unwrap();
    made.audit.sync().unwrap();
    let messages = made.journald.wait_for("GATED_SESSION=a0000001", 3);
    let ids: Vec<&str> = messages.iter().map(|message| text(message, "MESSAGE_ID")).collect();
    assert_eq!(ids, [message::REQUEST_APPROVED, message::REQUEST_DENIED, message::REQUEST_TIMED_OUT]);
    let expected = [
        ("MESSAGE", "approved: create /home/alice/x\\ny by /usr/bin/npm"),
        ("PRIORITY", "6"),
        ("SYSLOG_IDENTIFIER", "gated-audit"),
        ("GATED_CALL", "3"),
        ("GATED_REQUEST", "00112233445566778899aabbccddeeff"),
        ("GATED_USER", "alice"),
        ("GATED_PID", "4711"),
        ("GATED_ARGV", r#"["npm","i\\n"]"#),
        ("GATED_RULE", "hooks"),
        ("GATED_RULE_FILE", "/etc/gated/profiles/coder.toml"),
        ("GATED_RULE_LINE", "7"),
        ("GATED_RESULT", "approved"),
        ("GATED_ANSWERED_BY", "desktop:alice"),
        ("GATED_SCOPE", "exact"),
        ("_UID", "0"),
    ];
    for (field, value) in expected {
        assert_eq!(text(&messages[0], field), value, "{field}");
    }
    assert!(messages[0].get("GATED_OTHER").is_none());
    assert_eq!((text(&messages[1], "PRIORITY"), made.in_file()), ("5", 3));
}

#[test]
fn a_record_that_is_larger_than_a_datagram_arrives_whole() {
    let made = fixture();
    let object = format!("/{}", "x".repeat(400_000));
    made.audit.journal.send(&record("a0000002", &object, "approved")).unwrap();
    let messages = made.journald.wait_for("GATED_SESSION=a0000002", 1);
    assert_eq!(text(&messages[0], "GATED_OBJECT"), object);
}

#[test]
fn the_file_decides_where_there_is_no_journald_or_it_hangs() {
    let mut made = fixture();
    made.audit.append(&record("a0000003", "/a", "approved")).unwrap();
    made.journald.wait_for("GATED_SESSION=a0000003", 1);
    // It takes nothing any more: its queue fills up, one record waits for it, and the others for nothing.
    PidFd::open(made.journald.pid()).unwrap().kill(libc::SIGSTOP);
    let start = std::time::Instant::now();
    for _ in 0..2000 {
        made.audit.append(&record("a0000003", "/b", "approved")).unwrap();
    }
    assert!(start.elapsed() < std::time::Duration::from_secs(60), "{:?}", start.elapsed());
    assert_eq!(made.in_file(), 2001);
    PidFd::open(made.journald.pid()).unwrap().kill(libc::SIGCONT);
    made.audit.journal = Journal::at(Path::new("/nonexistent/socket")).unwrap();
    made.audit.append(&record("a0000003", "/c", "approved")).unwrap();
    // And nothing is sent that is not in the file.
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let journal = Journal::at(&made.journald.socket()).unwrap();
    let full = JournaledLog { log: AuditLog::from_file(full).unwrap(), journal };
    assert!(full.append(&record("a0000004", "/d", "approved")).is_err());
    full.journal.send(&record("a0000005", "/e", "approved")).unwrap();
    made.journald.wait_for("GATED_SESSION=a0000005", 1);
    assert!(made.journald.wait_for("GATED_SESSION=a0000004", 0).is_empty());
}

#[test]
fn fields_of_the_log_keep_their_names() {
    let journald = Journald::start();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // The way to journald is fixed, so this thread gets a machine in which it leads to the test's.
            journald.enter();
            let log = tracing_subscriber::registry().with(log::journal().unwrap());
            tracing::subscriber::with_default(log, || {
                tracing::info!(MESSAGE_ID = message::SESSION_STARTED, GATED_SESSION = %"b0000001", GATED_USER = "alice",
                    GATED_PROFILE = "coder", "a session started");
                tracing::warn!(
                    MESSAGE_ID = message::RELOAD_FAILED,
                    GATED_SESSION = "b0000001",
                    GATED_ERROR = "a\nb=c",
                    "the policy was not read"
                );
            });
        });
    });
    let messages = journald.wait_for("GATED_SESSION=b0000001", 2);
    let expected = [
        ("MESSAGE", "a session started"),
        ("MESSAGE_ID", message::SESSION_STARTED),
        ("GATED_SESSION", "b0000001"),
        ("GATED_USER", "alice"),
        ("PRIORITY", "6"),
        ("SYSLOG_IDENTIFIER", "gatedd"),
    ];
    for (field, value) in expected {
        assert_eq!(text(&messages[0], field), value, "{field}");
    }
    assert_eq!((text(&messages[1], "GATED_ERROR"), text(&messages[1], "PRIORITY")), ("a\nb=c", "4"));
}

fn catalog() -> (PathBuf, String) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("systemd/gated.catalog");
    let text = fs::read_to_string(&path).unwrap();
    (path, text)
}

/// A root directory with our catalog in it, compiled by the real tool.
fn compiled() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("usr/lib/systemd/catalog");
    fs::create_dir_all(&folder).unwrap();
    fs::create_dir_all(root.path().join("var/lib/systemd/catalog")).unwrap();
    fs::copy(catalog().0, folder.join("gated.catalog")).unwrap();
    let update = Command::new("journalctl").arg("--root").arg(root.path()).arg("--update-catalog").output().unwrap();
    assert!(update.status.success() && update.stderr.is_empty(), "{}", String::from_utf8_lossy(&update.stderr));
    root
}

#[test]
fn the_catalog_explains_every_message_and_nothing_else() {
    let root = compiled();
    let list = Command::new("journalctl").arg("--root").arg(root.path()).arg("--list-catalog").output().unwrap();
    let list = String::from_utf8(list.stdout).unwrap();
    let listed: BTreeSet<&str> = list.lines().filter_map(|line| line.split(' ').next()).collect();
    let known: BTreeSet<&str> = message::ALL.iter().map(|(_, id)| *id).collect();
    assert_eq!(listed, known);
    assert_eq!((known.len(), list.lines().count()), (message::ALL.len(), message::ALL.len()), "no number twice");
    assert!(known.iter().all(|id| id.len() == 32 && u128::from_str_radix(id, 16).is_ok_and(|id| id != 0)));
    for entry in catalog().1.split("\n-- ").skip(1) {
        for header in ["\nSubject: ", "\nDefined-By: gated\n", "\nSupport: ", "\nDocumentation: "] {
            assert!(entry.contains(header), "{header:?} in {entry}");
        }
        assert!(entry.lines().all(|line| line.chars().count() <= 120), "{entry}");
    }
}

#[test]
fn an_explanation_names_what_the_message_is_about() {
    let root = compiled();
    let journald = Journald::start();
    let journal = Journal::at(&journald.socket()).unwrap();
    journal.send(&record("c0000001", "/etc/passwd", "denied")).unwrap();
    journald.wait_for("GATED_SESSION=c0000001", 1);
    // journalctl reads the machine's catalog; ours stands in its place in a mount namespace.
    let database = root.path().join("var/lib/systemd/catalog");
    let mut explained = journald.journalctl();
    explained.args(["--catalog", "GATED_SESSION=c0000001"]);
    let mounts = [support::user::Mount::bind(&database, Path::new("/var/lib/systemd/catalog"))];
    // SAFETY: only system calls between fork and exec.
    unsafe { std::os::unix::process::CommandExt::pre_exec(&mut explained, move || support::user::enter(&mounts)) };
    let said = String::from_utf8(explained.output().unwrap().stdout).unwrap();
    for words in [
        "Subject: An attempt of /usr/bin/npm was denied",
        "In session c0000001 of alice: create",
        "/etc/passwd",
        "Decided by desktop:alice.",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert!(!said.contains("@GATED"), "{said}");
}
