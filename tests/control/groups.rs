//! Requests that are put as one in what `gatedctl` shows, and the answers that last or split.

use gated::common::details::Details;
use serde_json::json;

use crate::daemon::{Ran, Simulated, World, golden, ordinary, world};

pub const GROUP: &str = "9909990fb65b0005cc86e9cd59ebb38e";

pub fn files() -> Details {
    let member = |number: usize| {
        let name = if number == 2 { "\u{202e}x\x1b[2J\n".to_owned() } else { format!("{number:04}") };
        ("create".to_owned(), format!("/home/me/.npm/_cacache/{name}").into_bytes())
    };
    Details {
        operation: "create".into(),
        object: b"/home/me/.npm/_cacache/0000".to_vec(),
        offers: vec![
            ("exact".into(), "/home/me/.npm/_cacache/0000".into()),
            ("tree".into(), "/home/me/.npm/_cacache/**".into()),
        ],
        longest: "until".into(),
        max_for: Some(8 * 3600 * 1_000_000),
        attempts: 214,
        remaining: 70_900_000,
        group_count: Some(214),
        group_place: Some("/home/me/.npm/_cacache".into()),
        group_members: Some((0..12).map(member).collect()),
        ..ordinary()
    }
}

fn simulated() -> Simulated {
    let mut world: World = world();
    world.requests.push((GROUP.into(), files()));
    Simulated::start(world)
}

fn shown(simulated: &Simulated, words: &[&str]) -> String {
    let output = simulated.command().env("COLUMNS", "80").args(words).output().expect("gatedctl");
    assert!(output.status.success() && output.stderr.is_empty(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn a_group_is_one_line_and_shown_with_its_members() {
    let simulated = simulated();
    golden("control_pending_group.txt", &shown(&simulated, &["pending"]));
    golden("control_show_group.txt", &shown(&simulated, &["show", GROUP]));
    let json: serde_json::Value = serde_json::from_str(&shown(&simulated, &["show", GROUP, "--json"])).unwrap();
    assert_eq!(json["group"]["count"], 214);
    assert_eq!(json["group"]["place"], "/home/me/.npm/_cacache");
    assert_eq!(json["group"]["members"][0], json!({"operation": "create", "object": "/home/me/.npm/_cacache/0000"}));
    assert_eq!(json["max_for_ms"], 8 * 3600 * 1000);
}

#[test]
fn answers_that_last_and_split_reach_the_daemon_as_they_were_given() {
    let simulated = simulated();
    let ran: Ran = simulated.run(&["approve", GROUP, "--one-by-one"]);
    assert!(
        ran.out.starts_with("Asked one by one: npm wants to create 214 files in /home/me/.npm/_cacache"),
        "{ran:?}"
    );
    let ran = simulated.run(&["approve", GROUP, "--for", "2h", "--scope", "tree"]);
    assert!(ran.out.starts_with("Let through, for 2 hours, in every session with this profile"), "{ran:?}");
    assert!(ran.out.contains("and all of /home/me/.npm/_cacache/**"), "{ran:?}");
    let ran = simulated.run(&["deny", GROUP, "--session"]);
    assert!(ran.out.starts_with("Denied, for the session"), "{ran:?}");
    let ran = simulated.run(&["deny", GROUP, "--for", "7d"]);
    assert!(ran.out.starts_with("Denied, for 7 days"), "{ran:?}");
}

#[test]
fn what_no_answer_may_be_is_refused_before_the_daemon_is_asked() {
    let simulated = simulated();
    let refused = |words: &[&str]| {
        let ran = simulated.run(words);
        assert!(ran.out.is_empty(), "{words:?}: {ran:?}");
        ran.err.clone()
    };
    assert!(refused(&["approve", GROUP, "--always"]).contains("for good"));
    assert!(refused(&["approve", GROUP, "--for", "9h"]).contains("longer than 8 hours"));
    assert!(refused(&["approve", crate::daemon::FIRST, "--one-by-one"]).contains("is one request"));
    assert!(refused(&["approve", GROUP, "--for", "soon"]).contains("a time was expected"));
    assert!(refused(&["approve", GROUP, "--for", "1h", "--always"]).contains("cannot be used with"));
    assert!(refused(&["deny", GROUP, "--scope", "tree"]).contains("required"));
}
