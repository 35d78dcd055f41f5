//! `why`, and what of `policy` is asked of the daemon.

use serde_json::{Value, json};

use crate::daemon::{FIRST, Simulated, World, golden, session, world};

fn ending(request: Option<&str>, session: &str, object: &str, result: &str) -> Value {
    let hint = match result {
        "approved" => None,
        "timeout" => Some("nobody answered in time; this is final, do not retry"),
        _ => Some("it is not permitted here; this is final, do not retry"),
    };
    let mut ending = json!({
        "time": "2026-11-22T08:00:00.000001Z", "session": session, "call": 1, "access": "write", "operation": "create",
        "object": object, "result": result, "permitted": hint.is_none(), "by": "tty:me", "rule": "system",
        "reason": "This belongs to the system.",
    });
    for (key, value) in [("request", request), ("hint", hint)] {
        if let Some(value) = value {
            ending[key] = value.into();
        }
    }
    ending
}

fn ended() -> World {
    let mut run = ending(None, "e52266a8", "/usr/bin/git", "not_permitted");
    run["access"] = "exec".into();
    run["argv"] = json!(["git", "push", "a b"]);
    World {
        endings: vec![
            ending(Some(FIRST), "e52266a8", "/etc/x\\x1b[2J", "timeout"),
            ending(Some("aaaa0000b65b0005cc86e9cd59ebb38e"), "e52266a8", "/srv/x", "approved"),
            run,
            ending(None, "bbbb0001", "/etc/hosts\u{202e}", "not_permitted"),
        ],
        ..world()
    }
}

#[test]
fn denials_are_told_in_the_words_of_the_tool() {
    let simulated = Simulated::start(ended());
    golden("control_why.txt", &simulated.run(&["why"]).out);
    // A request whatever became of it, a session only with what was denied.
    let approved = simulated.run(&["why", "aaaa"]);
    assert_eq!((approved.status, approved.out.lines().nth(1)), (0, Some("    approved by tty:me")), "{approved:?}");
    let of = |words: &[&str]| -> Vec<Value> { serde_json::from_str(&simulated.run(words).out).unwrap() };
    assert_eq!(of(&["why", "e522", "--json"]).len(), 2);
    assert_eq!(of(&["why", &FIRST[..8], "--json"])[0]["result"], "timeout");
    let unknown = simulated.run(&["why", "0123"]);
    assert_eq!((unknown.status, unknown.out.as_str()), (5, ""), "{unknown:?}");
    let inside = Simulated::start(World { refusal: Some("InsideSession"), ..ended() });
    assert_eq!(inside.run(&["why"]).status, 4);
}

#[test]
fn a_request_that_waits_has_no_end_yet() {
    let simulated = Simulated::start(World { endings: Vec::new(), ..world() });
    let waits = simulated.run(&["why", &world().requests[0].0[..8]]);
    assert_eq!(waits.status, 1, "{waits:?}");
    assert!(waits.err.contains("it is not decided yet; gatedctl show"), "{waits:?}");
    assert_eq!(simulated.run(&["why"]).out, "Nothing was denied.\n");
}

#[test]
fn a_session_is_explained_by_the_daemon() {
    let explained = json!({
        "access": "write", "object": "/etc/hosts", "level": "allow", "rule": "system", "file": "built-in:coder", "line": 158,
        "also": [], "default": "ask", "answer": {"changes": "given", "grant": "0123456789abcdef"},
    });
    let own = World { sessions: vec![session("e52266a8")], explained: vec![explained], ..world() };
    let simulated = Simulated::start(own);
    let ran = simulated.run(&["policy", "explain", "--session", "e522", "write", "/etc/hosts"]);
    let expected = "write /etc/hosts\n    allow: rule system (built-in:coder:158)\n    because of the answer 0123456789abcdef, \
                    until it is over or revoked\n";
    assert_eq!((ran.status, ran.out.as_str()), (0, expected), "{ran:?}");
    assert_eq!(simulated.world().heard.last().unwrap(), "Explain e52266a8 access directory object");
    for (words, keys) in [
        (&["exec", "/usr/bin/env", "x"][..], "access argv directory environment interpreters object of-system"),
        (&["connect", "example.org:443", "--at", "10.0.0.1"], "access at host hosts-file udp"),
        (&["bind", "127.0.0.1:80"], "access host"),
        (&["unix", "/run/x"], "access object"),
    ] {
        let ran = simulated.run(&[&["policy", "explain", "--session", "e522"], words].concat());
        assert_eq!(ran.status, 0, "{ran:?}");
        assert_eq!(simulated.world().heard.last().unwrap(), &format!("Explain e52266a8 {keys}"));
    }
}
