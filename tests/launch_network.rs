//! The network as people hear of it from `gated-run`: what is published, what was denied, what is in the records, and that a
//! tool's own words about hosts count for nothing. Needs root.

mod support;

use std::ffi::OsString;

use serde_json::{Value, json};
use support::network::World;
use support::{Outcome, Sandbox, Side};

fn sandbox(world: &World, rest: &str) -> Sandbox {
    let sandbox = world.sandbox();
    sandbox.profile(&format!(
        "schema = 1\n[profile]\nname = \"net\"\n[defaults]\nwrite = \"allow\"\nconnect = \"ask\"\n{rest}"
    ));
    sandbox
}

fn answering(world: &World, rest: &str, answers: &str) -> Sandbox {
    let mut sandbox = sandbox(world, rest);
    sandbox.answers(answers);
    sandbox
}

/// What was asked for, in order.
fn questions(outcome: &Outcome) -> Vec<&str> {
    outcome.events_of("consent_required").filter_map(|event| event["object"].as_str()).collect()
}

fn denials(outcome: &Outcome) -> Vec<String> {
    let err = outcome.err();
    err.lines().filter_map(|line| line.strip_prefix("gated: denied: ").map(str::to_owned)).collect()
}

const LISTEN: &str = "import socket\ns = socket.create_server(('127.0.0.1', 8080))\nprint('listens')";

#[test]
fn what_is_published_is_said_at_the_start_and_recorded() {
    let world = World::new();
    let mut sandbox = sandbox(&world, "");
    for option in ["--publish", "8080", "--publish", "0.0.0.0:8081", "--publish", "8080"] {
        sandbox.option(option);
    }
    let outcome = sandbox.run(&["/usr/bin/python3", "-c", LISTEN]);
    outcome.assert_code(0);
    let err = outcome.err();
    let said: Vec<&str> = err.lines().filter(|line| line.contains("published")).collect();
    let expected = [
        "gated-run: what listens on 127.0.0.1:8080 in the session is published, where every program of this machine can reach it",
        "gated-run: what listens on 0.0.0.0:8081 in the session is published, where other machines can reach it",
    ];
    outcome.assert(said == expected, "said once each");
    let listened = |record: &&Value| record["operation"] == "listen";
    let record = outcome.audit.iter().find(listened).unwrap_or_else(|| panic!("no record\n{outcome}"));
    assert_eq!((&record["result"], &record["access"]), (&json!("granted"), &json!("bind")), "{record}");
    assert!(record["answered_by"].as_str().is_some_and(|by| by.starts_with("gated-run:")), "{record}");
    assert_eq!(record["destination"]["address"], "127.0.0.1");
    assert_eq!((&record["destination"]["port"], &record["destination"]["zone"]), (&json!(8080), &json!("loopback")));
}

#[test]
fn what_a_rule_denies_is_not_published() {
    let world = World::new();
    let rule = |level: &str| {
        format!("[[rule]]\nid = \"servers\"\naccess = [\"bind\"]\ncidr = [\"127.0.0.0/8\"]\nlevel = \"{level}\"\n")
    };
    for (level, why) in [("deny", " denies it"), ("authenticate", " asks for a proof of who you are")] {
        let mut sandbox = sandbox(&world, &rule(level));
        sandbox.option("--publish");
        sandbox.option("8080");
        let outcome = sandbox.run(&["/bin/true"]);
        outcome.assert_code(125);
        let told = outcome.err();
        outcome.assert(
            told.contains("--publish 127.0.0.1:8080: rule servers of profile net (") && told.contains(why),
            level,
        );
        outcome.assert(outcome.events.is_empty(), "nothing was started");
    }
}

#[test]
fn the_closing_lines_name_hosts() {
    let world = World::new();
    let outcome = answering(&world, "", "[[answer]]\nanswer = \"deny\"\n").run(&[
        "/bin/sh",
        "-c",
        "curl -sS http://www.example.org/; curl -sS http://192.0.2.10/; curl -sS 'http://[2001:db8:2::10]/'",
    ]);
    let lines = denials(&outcome);
    for what in ["look up www.example.org", "connect to 192.0.2.10:80", "connect to [2001:db8:2::10]:80"] {
        let said = |line: &String| line.starts_with(what) && line.ends_with("this is final, do not retry");
        outcome.assert(lines.iter().filter(|line| said(line)).count() == 1, what);
    }
    world.wire.assert_arrived(&[]);
}

#[test]
fn records_and_events_say_where_a_connection_went() {
    let world = World::new();
    let answers = "[[answer]]\nhost = \"*.example.org:80\"\nanswer = \"session\"\nscope = \"domain\"\n";
    let outcome =
        answering(&world, "", answers).run(&["curl", "-4sS", "http://www.example.org/", "http://api.example.org/"]);
    outcome.assert_code(0);
    outcome.assert(questions(&outcome) == ["www.example.org"], "the answer covers the other host of the domain");
    let asked = outcome.events_of("consent_required").next().unwrap();
    assert_eq!(asked["operation"], "look-up");
    assert_eq!(asked["destination"], json!({"names": ["www.example.org"], "transport": "tcp"}));
    let decided = outcome.audit.iter().find(|record| record["operation"] == "look-up").unwrap();
    assert_eq!((&decided["result"], &decided["scope"]), (&json!("approved"), &json!("domain")));
    let connects: Vec<&Value> = outcome.audit.iter().filter(|record| record["operation"] == "connect").collect();
    outcome.assert(connects.len() == 2, "both connections are on record");
    for (record, name) in connects.iter().zip(["www.example.org", "api.example.org"]) {
        assert_eq!(
            (&record["result"], &record["object"]),
            (&json!("granted"), &json!(format!("{name}:80"))),
            "{record}"
        );
        assert_eq!(record["destination"]["names"][0], name);
        assert_eq!((&record["destination"]["port"], &record["destination"]["zone"]), (&json!(80), &json!("public")));
        assert!(record["destination"]["address"].is_string(), "{record}");
    }
}

/// Variables that name a proxy stay as they are, and the proxy is a host like others.
#[test]
fn proxy_variables_are_left_alone() {
    let world = World::new();
    let sandbox = answering(&world, "", "[[answer]]\nanswer = \"deny\"\n");
    let variables =
        ["http_proxy=http://www.example.org:80", "HTTPS_PROXY=socks5h://a:b@[::1]:1", "no_proxy=x", "ALL_PROXY=y"];
    let script =
        "for v in http_proxy HTTPS_PROXY no_proxy ALL_PROXY; do printenv $v; done; curl -sS http://api.example.org/";
    let mut line: Vec<OsString> = vec!["/usr/bin/env".into()];
    line.extend(variables.map(OsString::from));
    line.extend(sandbox.gated_argv(&["/bin/sh", "-c", script]));
    let outcome = sandbox.start_line(Side::Gated, &line, None).finish();
    let expected: String =
        variables.iter().map(|variable| variable.split_once('=').unwrap().1.to_owned() + "\n").collect();
    outcome.assert(outcome.out() == expected, "every variable is what it was");
    outcome.assert(questions(&outcome) == ["www.example.org"], "the proxy is asked for");
}

/// What is asked for is where the connection goes, whatever the command line calls it.
#[test]
fn a_command_line_cannot_name_another_host() {
    let world = World::new();
    let urls = [
        "http://www.example.org:80@192.0.2.10/",
        "http://www.example.org@192.0.2.10:80/www.example.org:80",
        "http://3221225994/",
        "http://0xc000020a/",
        "http://0300.0.01012/",
    ];
    for url in urls {
        let answers = "[[answer]]\nhost = [\"*.example.org:*\", \"*:80\"]\nanswer = \"session\"\n";
        let outcome = answering(&world, "", answers).run(&["curl", "-4sS", url]);
        outcome.assert(outcome.code() != 0, url);
        outcome.assert(questions(&outcome) == ["192.0.2.10:80"], url);
        let asked = outcome.events_of("consent_required").next().unwrap();
        assert_eq!(
            (&asked["destination"]["address"], asked["destination"].get("names")),
            (&json!("192.0.2.10"), None),
            "{url}"
        );
    }
    world.wire.assert_arrived(&[]);
}
