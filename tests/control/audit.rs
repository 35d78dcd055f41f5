//! `gatedctl audit` on real files: in order, filtered, followed through rotations, and refused.

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};

use crate::daemon::{Ran, command, golden};
use crate::support::wait::DEADLINE;

const NOWHERE: &str = "unix:path=/nonexistent/bus";

fn record(time: &str, session: &str, object: &str) -> String {
    format!(
        "{{\"time\":\"{time}\",\"session\":\"{session}\",\"call\":1,\"user\":\"me\",\"tool\":{{\"pid\":7,\"program\":\
         \"/usr/bin/rm\",\"argv\":[\"rm\"],\"cwd\":\"/\"}},\"access\":\"write\",\"operation\":\"unlink\",\"object\":\
         \"{object}\",\"rule\":{{\"profile\":\"coder\",\"id\":\"default\",\"file\":\"built-in:coder\",\"line\":0}},\
         \"result\":\"not_permitted\",\"answered_by\":\"tty:me\",\"duration_ms\":3}}\n"
    )
}

fn append(path: &Path, text: &str) {
    OpenOptions::new().append(true).create(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
}

fn numbered(path: &Path, number: usize) -> PathBuf {
    PathBuf::from(format!("{}.{number}", path.display()))
}

fn run(path: &Path, words: &[&str]) -> Ran {
    Ran::of(command(NOWHERE).env("COLUMNS", "80").arg("audit").arg("--file").arg(path).args(words).output().unwrap())
}

/// A log in three files, a torn line and a hostile name in it.
fn log(place: &Path) -> PathBuf {
    let path = place.join("audit.jsonl");
    append(&numbered(&path, 2), &record("2026-11-20T08:00:00.000001Z", "aaaa1111", "/home/me/first"));
    append(
        &numbered(&path, 1),
        &record("2026-11-21T08:00:00.000001Z", "aaaa2222", "/home/me/\\\\x1b[2J\\\\u{202e}second"),
    );
    append(&numbered(&path, 1), "{\"time\":\"2026-11-2\n\n");
    let long = format!("/home/me/{}third.txt", "very/deep/".repeat(300));
    append(&path, &record("2026-11-22T08:00:00.000001Z", "bbbb0000", &long));
    append(&path, &record("2026-11-22T08:00:01.000001Z", "bbbb0000", "/raw\\u001b[2J\\u202e"));
    path
}

#[test]
fn rotated_files_come_first_and_tables_are_clean() {
    let place = tempfile::tempdir().unwrap();
    let path = log(place.path());
    let ran = run(&path, &[]);
    assert_eq!((ran.status, ran.err.as_str()), (0, ""));
    golden("control_audit.txt", &ran.out);
    let wide = command(NOWHERE).env("COLUMNS", "140").arg("audit").arg("--file").arg(&path).output().unwrap();
    golden("control_audit_wide.txt", &Ran::of(wide).out);
    let json = run(&path, &["--json"]).out;
    let objects: Vec<serde_json::Value> = json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(objects.len(), 4);
    assert_eq!(objects[1]["object"], "/home/me/\\x1b[2J\\u{202e}second");
    assert!(json.starts_with(&record("2026-11-20T08:00:00.000001Z", "aaaa1111", "/home/me/first")), "the very line");
}

#[test]
fn records_are_filtered_by_session_and_time() {
    let place = tempfile::tempdir().unwrap();
    let path = log(place.path());
    let count = |words: &[&str]| run(&path, words).out.lines().count();
    assert_eq!(count(&["--json", "--session", "bbbb"]), 2);
    assert_eq!(count(&["--json", "--session", "aaaa1"]), 1);
    assert_eq!(count(&["--json", "--since", "2026-11-21"]), 3);
    assert_eq!(count(&["--json", "--since", "2026-11-22 08:00:01"]), 1);
    assert_eq!(count(&["--json", "--since", "2026-11-21T09:00:00+01:00", "--session", "aaaa2222"]), 1);
    let ambiguous = run(&path, &["--session", "aaaa"]);
    assert_eq!((ambiguous.status, ambiguous.out.as_str()), (5, ""));
    assert!(ambiguous.err.contains("aaaa1111") && ambiguous.err.contains("aaaa2222"), "{ambiguous:?}");
    assert_eq!(run(&path, &["--session", "cccc"]).status, 5);
}

struct Follower {
    child: Child,
    lines: Receiver<String>,
}

impl Follower {
    fn start(path: &Path, words: &[&str]) -> Follower {
        let mut child = command(NOWHERE)
            .args(["audit", "--json", "--follow", "--file"])
            .arg(path)
            .args(words)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            // Until the test has seen enough.
            out.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Follower { child, lines }
    }

    #[track_caller]
    fn next(&self) -> String {
        let line = self.lines.recv_timeout(DEADLINE).expect("a line in time");
        serde_json::from_str::<serde_json::Value>(&line).unwrap()["object"].as_str().unwrap().to_owned()
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        // It would follow for ever.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_follower_misses_nothing_of_a_log_that_is_rotated() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("audit.jsonl");
    let now = "2026-11-22T08:00:00.000001Z";
    append(&path, &record(now, "aaaa1111", "/0"));
    let follower = Follower::start(&path, &[]);
    assert_eq!(follower.next(), "/0");
    let mut written = 0;
    for round in 0..12 {
        // Some before a rotation, some into the renamed file after it, some into the new one, at any moment of the reader's.
        let mut old = OpenOptions::new().append(true).create(true).open(&path).unwrap();
        for _ in 0..=round {
            written += 1;
            old.write_all(record(now, "aaaa1111", &format!("/{written}")).as_bytes()).unwrap();
        }
        for number in (1..8).rev() {
            let _missing = fs::rename(numbered(&path, number), numbered(&path, number + 1));
        }
        fs::rename(&path, numbered(&path, 1)).unwrap();
        written += 1;
        old.write_all(record(now, "aaaa1111", &format!("/{written}")).as_bytes()).unwrap();
        written += 1;
        append(&path, &record(now, "aaaa1111", &format!("/{written}")));
        if round % 3 == 0 {
            // And now and then what is there is waited for.
            while follower.next() != format!("/{written}") {}
        }
    }
    let mut last = String::new();
    while last != format!("/{written}") {
        last = follower.next();
    }
    drop(follower);
    // Everything once, by another one that reads what is left: more rotations than files are kept.
    let follower = Follower::start(&path, &["--session", "aaaa"]);
    let mut seen = vec![follower.next()];
    while *seen.last().unwrap() != format!("/{written}") {
        seen.push(follower.next());
    }
    let expected: Vec<String> = (1 + written - seen.len()..=written).map(|number| format!("/{number}")).collect();
    assert_eq!(seen, expected);
}

#[test]
fn each_record_is_told_once_across_rotations() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("audit.jsonl");
    let follower = Follower::start(&path, &[]);
    let now = "2026-11-22T08:00:00.000001Z";
    for number in 0..40 {
        append(&path, &record(now, "aaaa1111", &format!("/{number}")));
        if number % 7 == 3 {
            for older in (1..8).rev() {
                let _missing = fs::rename(numbered(&path, older), numbered(&path, older + 1));
            }
            fs::rename(&path, numbered(&path, 1)).unwrap();
        }
        if number % 10 == 9 {
            for expected in number - 9..=number {
                assert_eq!(follower.next(), format!("/{expected}"));
            }
        }
    }
}

#[test]
fn a_log_that_is_not_there_or_not_for_everybody() {
    let place = tempfile::tempdir().unwrap();
    let missing = run(&place.path().join("audit.jsonl"), &[]);
    assert_eq!(missing.status, 1);
    assert!(missing.err.contains("there is no audit log"), "{missing:?}");

    let path = log(place.path());
    fs::set_permissions(&path, PermissionsExt::from_mode(0o000)).unwrap();
    fs::set_permissions(place.path(), PermissionsExt::from_mode(0o755)).unwrap();
    // As somebody who is not root, with a program that they can reach.
    let program = place.path().join("gatedctl");
    fs::copy(env!("CARGO_BIN_EXE_gatedctl"), &program).unwrap();
    let mut audit = std::process::Command::new(&program);
    if nix::unistd::geteuid().is_root() {
        audit.uid(65534).gid(65534);
    }
    let ran = Ran::of(audit.arg("audit").arg("--file").arg(&path).output().unwrap());
    assert_eq!((ran.status, ran.out.as_str()), (4, ""), "{ran:?}");
    assert!(ran.err.contains("you may not read") && ran.err.contains("root may"), "{ran:?}");
}
