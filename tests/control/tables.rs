//! What people and programs are shown: golden tables, hostile words in terminals of every width, JSON field by field.

use std::collections::BTreeSet;

use gated::common::text;
use serde_json::{Value, json};

use crate::daemon::{FIRST, FOURTH, NOBODY, Simulated, THIRD, World, golden, world, world_with_command};

fn shown(simulated: &Simulated, columns: &str, words: &[&str]) -> String {
    let output = simulated.command().env("COLUMNS", columns).args(words).output().expect("gatedctl");
    assert!(output.status.success() && output.stderr.is_empty(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn tables_fit_an_ordinary_terminal() {
    let simulated = Simulated::start(world());
    for (name, words) in [
        ("pending", &["pending"][..]),
        ("show", &["show", FIRST]),
        ("show_hostile", &["show", THIRD]),
        ("sessions", &["sessions"]),
        ("session_show", &["session", "show", "e522"]),
        ("grants", &["grants"]),
        ("status", &["status"]),
    ] {
        golden(&format!("control_{name}.txt"), &shown(&simulated, "80", words));
    }
    golden("control_pending_wide.txt", &shown(&simulated, "160", &["pending"]));
    golden("control_pending_narrow.txt", &shown(&simulated, "40", &["pending"]));
}

#[test]
fn a_command_is_shown_whole() {
    let simulated = Simulated::start(world_with_command());
    golden("control_show_exec.txt", &shown(&simulated, "80", &["show", FOURTH]));
    golden("control_pending_exec.txt", &shown(&simulated, "80", &["pending"]));
    // What a program gets can be pasted as it is.
    let request = parsed(&simulated, &["show", FOURTH, "--json"]);
    let script = format!("printf '%s\\0' {}", request["exec"]["command"].as_str().unwrap());
    let shell = std::process::Command::new("bash").args(["-c", &script]).output().unwrap();
    let words: Vec<&[u8]> = shell.stdout.split(|byte| *byte == 0).collect();
    let expected = crate::daemon::command_to_run().exec_argv.unwrap();
    assert_eq!(words.split_last().unwrap().1, expected.iter().map(Vec::as_slice).collect::<Vec<_>>());
    let exec = &request["exec"];
    assert_eq!(exec["argv"][0], "./deploy");
    assert_eq!((&exec["new"], &exec["first"], &exec["words_left_out"]), (&json!(true), &json!(false), &json!(0)));
    assert_eq!(exec["interpreters"], json!(["/usr/bin/env", "/usr/bin/python3.11"]));
    assert_eq!(exec["variables"][0], "LD_PRELOAD=/tmp/\\u{200b}x.so");
    let parent = json!({"pid": 4500, "program": "/usr/bin/node", "argv": ["claude", "\\x1b[2J"]});
    assert_eq!(exec["parents"][1], parent);
}

#[test]
fn no_width_lets_a_tool_draw_or_a_line_overflow() {
    let simulated = Simulated::start(world_with_command());
    for columns in [20_usize, 33, 47, 60, 79, 80, 101, 132, 200] {
        for words in [
            &["pending"][..],
            &["show", THIRD],
            &["show", FOURTH],
            &["sessions"],
            &["session", "show", "0bad"],
            &["grants"],
        ] {
            let text = shown(&simulated, &columns.to_string(), words);
            for line in text.lines() {
                assert!(text::columns(line) <= columns, "{columns} {words:?}: {line:?}");
                let is_clean = |c: char| c == ' ' || c == '…' || text::is_showable(c);
                assert!(line.chars().all(is_clean), "{columns} {words:?}: {line:?}");
            }
        }
    }
    // Into a pipe nothing is cut, and still nothing draws.
    let text = simulated.run(&["pending"]).out;
    assert!(text.contains(&"very/deep/".repeat(1000)) && text.contains("\\x1b[1A\\xff.ssh/config"));
    assert!(text.chars().all(|c| c == ' ' || c == '\n' || text::is_showable(c)));
}

#[test]
fn nothing_is_said_in_words_too() {
    let simulated = Simulated::start(World::default());
    assert_eq!(simulated.run(&["pending"]).out, "Nothing waits for an answer.\n");
    assert_eq!(simulated.run(&["sessions"]).out, "There are no sessions.\n");
    assert_eq!(simulated.run(&["grants"]).out, "No answers are remembered.\n");
    for verb in ["pending", "sessions", "grants"] {
        assert_eq!(simulated.run(&[verb, "--json"]).out, "[]\n");
    }
}

fn parsed(simulated: &Simulated, words: &[&str]) -> Value {
    let ran = simulated.run(words);
    assert_eq!(ran.status, 0, "{ran:?}");
    serde_json::from_str(&ran.out).expect("JSON")
}

#[test]
fn programs_get_stable_fields() {
    let simulated = Simulated::start(world());
    let mut request = parsed(&simulated, &["show", FIRST, "--json"]);
    let left = request["remaining_ms"].take().as_u64().expect("milliseconds");
    assert!((50_000..=57_900).contains(&left), "{left}");
    let expected = json!({
        "id": FIRST, "session": "e52266a8", "call": 1, "user": NOBODY, "user_name": NOBODY.to_string(), "pid": 4711,
        "program": "/usr/bin/npm", "argv": ["npm", "install", "--global", "left pad"], "cwd": "/home/me/project",
        "access": "write", "operation": "open-write", "object": "/home/me/.npmrc", "is_directory": false, "level": "ask",
        "rule": {"profile": "coder", "id": "default", "file": "built-in:coder", "line": 30,
                 "reason": "other programs obey this file"},
        "offers": [{"width": "exact", "scope": "/home/me/.npmrc"}, {"width": "directory", "scope": "/home/me/*"}],
        "longest": "session", "attempts": 3, "waiting": 1, "remaining_ms": null,
    });
    assert_eq!(request, expected);
    let pending = parsed(&simulated, &["--json", "pending"]);
    assert_eq!(pending.as_array().map(Vec::len), Some(3));
    assert_eq!(pending[2]["other"], "../\\u{9b}2J\\u{2066}elsewhere");
    assert_eq!(pending[2]["argv"][3], "\\xff\\n");

    assert_eq!(
        parsed(&simulated, &["status", "--json"]),
        json!({"version": env!("CARGO_PKG_VERSION"), "features": ["landlock-7", "units", "audit"], "sessions": 2, "pending": 3})
    );
    let session = json!({
        "id": "e52266a8", "user": NOBODY, "user_name": NOBODY.to_string(), "profile": "coder",
        "directory": "/home/me/project", "state": "running", "started": "2026-11-21T22:26:40.000000Z",
        "unit": "gated-session@e52266a8.service",
        "calls": [{"call": 1, "pid": 4700, "argv": ["npm", "install"]}, {"call": 2, "pid": 4800, "argv": ["make"]}],
    });
    let sessions = parsed(&simulated, &["sessions", "--json"]);
    assert!(sessions.as_array().expect("a list").contains(&session), "{sessions}");
    let mut shown = parsed(&simulated, &["session", "show", "e52266a8", "--json"]);
    assert_eq!(shown["pending"].as_array().map(Vec::len), Some(2));
    let granted = shown["grants"].take();
    assert_eq!(shown["calls"], session["calls"]);

    let grants = parsed(&simulated, &["grants", "--json"]);
    assert_eq!(grants, granted, "the simulated daemon does not filter");
    assert!(simulated.world().heard.contains(&"ListGrants session=e52266a8".to_owned()));
    let expected = json!({
        "id": "0123456789abcdef", "session": "e52266a8", "user": NOBODY, "user_name": NOBODY.to_string(),
        "effect": "allow", "access": "write", "scope": "/srv/\\x1b[2J", "object": "/srv/\\x1b[2J", "lifetime": "call", "call": 2,
        "by": "tty:me", "authenticated": false, "given": "2026-11-21T22:27:40.000000Z",
    });
    assert_eq!(grants[0], expected);
}

/// A request of a newer daemon, or a broken one, hides no other.
#[test]
fn what_is_not_understood_is_told_and_hides_nothing() {
    let mut world = world();
    world.requests[0].1.level = "levitate".into();
    world.requests[1].0 = "../../etc".into();
    let simulated = Simulated::start(world);
    let ran = simulated.run(&["pending"]);
    assert_eq!(ran.status, 0);
    assert!(ran.out.contains("a1b2c3d4") && ran.out.lines().count() == 2, "{ran:?}");
    assert!(ran.err.contains("level") && ran.err.contains("wrong Id") && ran.err.lines().count() == 2, "{ran:?}");
}

/// The page that programs are written by says all that they get, and nothing else.
#[test]
fn the_page_names_every_field() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/gatedctl.md")).unwrap();
    let fields_of = |heading: &str| -> BTreeSet<String> {
        let table = page.split(&format!("\n{heading}:\n\n")).nth(1).expect("the heading");
        let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
        let names = rows.filter_map(|row| row.split('|').nth(1));
        names.flat_map(|names| names.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>()).collect()
    };
    let mut world = world_with_command();
    world.requests.push((crate::groups::GROUP.into(), crate::groups::files()));
    let simulated = Simulated::start(world);
    let request = parsed(&simulated, &["show", FOURTH, "--json"]);
    let written: BTreeSet<String> = request["exec"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(written, fields_of("A command"));
    for (heading, verb) in [("A session", "sessions"), ("A request", "pending"), ("A grant", "grants")] {
        let list = parsed(&simulated, &[verb, "--json"]);
        let items = list.as_array().expect("a list").iter().map(|item| item.as_object().expect("an object"));
        let written: BTreeSet<String> = items.flat_map(|item| item.keys().cloned()).collect();
        // Those of the network are held to the page in `network.rs`.
        let stored = ["profile", "rule", "uses", "last_used", "revoked", "revoked_by"];
        let stored = stored.into_iter().filter(|_| heading == "A grant");
        let elsewhere = ["destination", "service", "longest_ms", "until"].into_iter().chain(stored).map(str::to_owned);
        let elsewhere: Vec<String> = elsewhere.collect();
        let told: BTreeSet<String> = fields_of(heading).into_iter().filter(|name| !elsewhere.contains(name)).collect();
        assert_eq!(written, told, "{heading}");
    }
    let statuses: Vec<&str> = page
        .lines()
        .filter(|line| line.starts_with("| ") && line[2..].starts_with(|c: char| c.is_ascii_digit()))
        .collect();
    assert_eq!(statuses.len(), 7);
    let help = simulated.run(&["--help"]).out;
    for (status, line) in statuses.into_iter().enumerate() {
        assert!(help.contains(&format!("\n  {status}  ")) && line.starts_with(&format!("| {status} |")));
    }
}
