//! Hosts and services in what `gatedctl` shows, and answers about them.

use std::collections::BTreeSet;

use gated::common::details::Details;
use gated::common::text;
use serde_json::{Value, json};
use zbus::Variant;

use crate::daemon::{Ran, Simulated, World, command, golden, grant, ordinary, session, world};

const HOST: &str = "beefbeefb65b0005cc86e9cd59ebb38e";
const NAME: &str = "beeeeeefb65b0005cc86e9cd59ebb38e";
const DOCKER: &str = "d0cce000b65b0005cc86e9cd59ebb38e";
const LONG: &str = "10990000b65b0005cc86e9cd59ebb38e";
const NOWHERE: &str = "unix:path=/nonexistent/bus";

/// A connection to a host by its names.
fn connection(names: &[&str]) -> Details {
    let host = names[0];
    let offers = [
        ("exact", format!("{host}:443")),
        ("program", format!("/usr/bin/npm -> {host}:*")),
        ("host", format!("{host}:*")),
        ("domain", "npmjs.org:*, *.npmjs.org:*".into()),
    ];
    Details {
        access: "connect".into(),
        operation: "connect".into(),
        object: format!("{host}:443").into_bytes(),
        rule_reason: None,
        offers: offers.map(|(width, scope)| (width.to_owned(), scope)).to_vec(),
        net_address: Some("104.16.1.34".into()),
        net_port: Some(443),
        net_names: Some(names.iter().map(|name| ((*name).to_owned(), "resolved".to_owned())).collect()),
        net_zone: Some("public".into()),
        net_transport: Some("tcp".into()),
        ..ordinary()
    }
}

fn look_up() -> Details {
    Details {
        operation: "look-up".into(),
        object: b"registry.npmjs.org".to_vec(),
        offers: vec![
            ("exact".into(), "registry.npmjs.org:*".into()),
            ("domain".into(), "npmjs.org:*, *.npmjs.org:*".into()),
        ],
        net_address: None,
        net_port: None,
        net_zone: None,
        net_names: Some(vec![("registry.npmjs.org".into(), "asked".into())]),
        remaining: 70_900_000,
        ..connection(&["registry.npmjs.org"])
    }
}

fn docker() -> Details {
    Details {
        access: "unix".into(),
        operation: "connect-socket".into(),
        object: b"/run/docker.sock".to_vec(),
        offers: vec![("exact".into(), "/run/docker.sock".into())],
        service: Some("@docker".into()),
        longest_for: Some(600_000_000),
        remaining: 80_900_000,
        ..ordinary()
    }
}

fn long_name() -> String {
    format!("registry.npmjs.org.{}evil.example", "padding0.".repeat(24))
}

fn network() -> World {
    let reached = |id, scope: &'static str, until: Option<u64>| {
        let mut row = grant(id);
        row.extend([
            ("access", Variant::from("connect")),
            ("scope", scope.into()),
            ("object", b"registry.npmjs.org:443".to_vec().into()),
        ]);
        row.extend(until.map(|until| ("until", until.into())));
        row
    };
    World {
        sessions: vec![session("e52266a8")],
        requests: vec![
            (HOST.into(), connection(&["registry.npmjs.org", "npm.example.com"])),
            (NAME.into(), look_up()),
            (DOCKER.into(), docker()),
            (LONG.into(), Details { remaining: 90_900_000, ..connection(&[&long_name()]) }),
        ],
        grants: vec![
            reached("fedcba9876543210", "npmjs.org:*, *.npmjs.org:*", None),
            reached("0123456789abcdef", "/usr/bin/npm -> registry.npmjs.org:*", Some(1_795_300_120_000_000)),
        ],
        ..world()
    }
}

fn shown(simulated: &Simulated, columns: &str, words: &[&str]) -> String {
    Ran::of(simulated.command().env("COLUMNS", columns).args(words).output().expect("gatedctl")).out
}

fn parsed(simulated: &Simulated, words: &[&str]) -> Value {
    let ran = simulated.run(words);
    assert_eq!(ran.status, 0, "{ran:?}");
    serde_json::from_str(&ran.out).expect("JSON")
}

#[test]
fn hosts_are_shown_with_their_ends() {
    let simulated = Simulated::start(network());
    golden("control_net_pending.txt", &shown(&simulated, "80", &["pending"]));
    golden("control_net_show.txt", &shown(&simulated, "80", &["show", HOST]));
    golden("control_net_show_name.txt", &shown(&simulated, "80", &["show", NAME]));
    golden("control_net_show_docker.txt", &shown(&simulated, "80", &["show", DOCKER]));
    golden("control_net_grants.txt", &shown(&simulated, "80", &["grants"]));
    for columns in [40_usize, 60, 80, 132, 200] {
        for words in [&["pending"][..], &["show", LONG], &["grants"]] {
            for line in shown(&simulated, &columns.to_string(), words).lines() {
                assert!(text::columns(line) <= columns, "{columns} {words:?}: {line:?}");
            }
        }
        let pending = shown(&simulated, &columns.to_string(), &["pending"]);
        assert!(columns < 80 || pending.contains("evil.example:443"), "{columns}: {pending}");
    }
}

#[test]
fn programs_get_destinations_and_services() {
    let simulated = Simulated::start(network());
    let request = parsed(&simulated, &["show", HOST, "--json"]);
    let expected = json!({
        "names": ["registry.npmjs.org", "npm.example.com"], "address": "104.16.1.34", "port": 443, "zone": "public",
        "transport": "tcp",
    });
    assert_eq!(request["destination"], expected);
    let request = parsed(&simulated, &["show", NAME, "--json"]);
    assert_eq!(request["destination"], json!({"names": ["registry.npmjs.org"], "transport": "tcp"}));
    let request = parsed(&simulated, &["show", DOCKER, "--json"]);
    assert_eq!((&request["service"], &request["longest_ms"]), (&json!("@docker"), &json!(600_000)));
    let grants = parsed(&simulated, &["grants", "--json"]);
    assert_eq!(grants[0]["until"], "2026-11-21T22:28:40.000000Z");
}

/// The page says all that a destination can have.
#[test]
fn the_page_names_every_field_of_a_destination() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/gatedctl.md")).unwrap();
    let table = page.split("\nA destination:\n\n").nth(1).expect("the heading");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let names = rows.filter_map(|row| row.split('|').nth(1));
    let told: BTreeSet<String> =
        names.flat_map(|names| names.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>()).collect();
    let mut world = network();
    world.requests = vec![(HOST.into(), Details { net_hint: Some(b"x\n".to_vec()), ..connection(&["a.example.org"]) })];
    let simulated = Simulated::start(world);
    let request = parsed(&simulated, &["show", HOST, "--json"]);
    let written: BTreeSet<String> = request["destination"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(written, told);
    assert_eq!(request["destination"]["hint"], "x\\n");
}

#[test]
fn answers_reach_hosts_and_domains_where_that_is_offered() {
    let simulated = Simulated::start(network());
    for width in ["exact", "program", "host", "domain"] {
        let ran = simulated.run(&["approve", HOST, "--session", "--scope", width]);
        assert_eq!((ran.status, ran.err.as_str()), (0, ""), "{ran:?}");
        let heard = format!("Decide {HOST} session width={width}");
        assert_eq!(simulated.world().heard.last(), Some(&heard));
    }
    let ran = simulated.run(&["approve", HOST, "--scope", "domain"]);
    let expected = "Let through, for call 1: npm wants to connect to registry.npmjs.org:443, and all of npmjs.org:*, \
                    *.npmjs.org:*\n";
    assert_eq!(ran.out, expected);
    for (request, width) in [(HOST, "tree"), (HOST, "prefix"), (DOCKER, "host"), (DOCKER, "domain")] {
        let ran = simulated.run(&["approve", request, "--scope", width]);
        assert_eq!(ran.status, 6, "{ran:?}");
        assert!(ran.err.contains("is too far for this request"), "{ran:?}");
    }
}

#[test]
fn records_name_hosts_and_addresses() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("audit.jsonl");
    let record = |operation: &str, object: &str, rest: &str| {
        format!(
            "{{\"time\":\"2026-11-22T08:00:00.000001Z\",\"session\":\"bbbb0000\",\"call\":1,\"user\":\"me\",\"tool\":{{\"pid\":\
             7,\"program\":\"/usr/bin/curl\",\"argv\":[\"curl\"],\"cwd\":\"/\"}},\"access\":\"connect\",\"operation\":\
             \"{operation}\",\"object\":\"{object}\",{rest}\"result\":\"denied\",\"answered_by\":\"tty:me\",\"duration_ms\":3}}\n"
        )
    };
    let of = |names: &str, address: &str| {
        format!(
            "\"destination\":{{\"names\":[\"{names}\"],\"address\":\"{address}\",\"port\":443,\"transport\":\"tcp\"}},"
        )
    };
    let lines = [
        record("connect", "registry.npmjs.org:443", &of("registry.npmjs.org", "104.16.1.34")),
        record("connect", "[2001:db8::7]:443", &of("x", "2001:db8::7")),
        record(
            "look-up",
            "registry.npmjs.org",
            "\"destination\":{\"names\":[\"registry.npmjs.org\"],\"transport\":\"tcp\"},",
        ),
        record("connect", &format!("{}:443", long_name()), &of(&long_name(), "192.0.2.66")),
        record("connect", "evil\\\\x1b[2J:443", &of("x", "\\u001b[2J")),
    ];
    std::fs::write(&path, lines.concat()).unwrap();
    let run = |columns: &str| {
        let output = command(NOWHERE).env("COLUMNS", columns).arg("audit").arg("--file").arg(&path).output().unwrap();
        Ran::of(output).out
    };
    golden("control_net_audit.txt", &run("100"));
    let clean = |c: char| "\n …".contains(c) || text::is_showable(c);
    assert!(run("100").chars().all(clean));
    assert!(run("90").lines().nth(4).unwrap().ends_with("evil.example:443"), "{}", run("90"));
}

#[test]
fn a_request_whose_destination_is_none_is_told_and_hides_nothing() {
    type Change = fn(&mut Details);
    let changes: [Change; 3] = [
        |it| it.net_names = Some(vec![("registry.npmjs.org\u{202e}".into(), "resolved".into())]),
        |it| it.net_zone = Some("loopback".into()),
        |it| it.net_address = Some("registry.npmjs.org".into()),
    ];
    for change in changes {
        let mut world = network();
        change(&mut world.requests[0].1);
        let ran = Simulated::start(world).run(&["pending"]);
        assert_eq!((ran.status, ran.out.lines().count(), ran.err.lines().count()), (0, 4, 1), "{ran:?}");
    }
}
