//! Answers, revocations and stops as the daemon hears them; ids by their first digits; exit statuses.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use crate::daemon::{FIRST, FOURTH, Ran, SECOND, Simulated, THIRD, World, command, world, world_with_command};
use crate::support::bus::PrivateBus;

#[test]
fn answers_arrive_as_they_were_given() {
    let simulated = Simulated::start(world());
    for (words, heard) in [
        (&["approve", FIRST][..], format!("Decide {FIRST} once width=exact")),
        (&["approve", FIRST, "--once", "--scope", "directory"], format!("Decide {FIRST} once width=directory")),
        (&["approve", FIRST, "--session"], format!("Decide {FIRST} session width=exact")),
        (&["approve", "307482af", "--session", "--scope=exact"], format!("Decide {FIRST} session width=exact")),
        (&["deny", "307482B0"], format!("Decide {SECOND} deny")),
        (&["approve", "a1b2"], format!("Decide {THIRD} once width=exact")),
        (&["session", "stop", "0bad"], "Stop 0badcafe".to_owned()),
        (&["revoke", "fedc"], "RevokeGrant fedcba9876543210".to_owned()),
        (&["revoke", "--all"], "RevokeGrant  all=true".to_owned()),
    ] {
        let ran = simulated.run(words);
        assert_eq!((ran.status, ran.err.as_str()), (0, ""), "{words:?} {ran:?}");
        assert_eq!(simulated.world().heard.last(), Some(&heard), "{words:?}");
    }
    let ran = simulated.run(&["approve", FIRST, "--scope", "directory"]);
    let expected =
        "Let through, for call 1: npm wants to open this file for writing: /home/me/.npmrc, and all of /home/me/*\n";
    assert_eq!(ran.out, expected);
    let ran = simulated.run(&["approve", FIRST, "--json", "--session"]);
    assert_eq!(ran.out, format!("{{\"request\":\"{FIRST}\",\"decision\":\"session\",\"scope\":\"exact\"}}\n"));
    let ran = simulated.run(&["deny", FIRST, "--json"]);
    assert_eq!(ran.out, format!("{{\"request\":\"{FIRST}\",\"decision\":\"deny\"}}\n"));
    // What a hostile tool is called draws nothing here either.
    assert!(simulated.run(&["deny", THIRD]).out.chars().all(|c| !c.is_control() || c == '\n'));
}

#[test]
fn commands_have_widths_of_their_own() {
    let simulated = Simulated::start(world_with_command());
    for width in ["exact", "prefix", "program"] {
        let ran = simulated.run(&["approve", FOURTH, "--scope", width]);
        assert_eq!((ran.status, ran.err.as_str()), (0, ""), "{ran:?}");
        let heard = format!("Decide {FOURTH} once width={width}");
        assert_eq!(simulated.world().heard.last(), Some(&heard));
    }
    let ran = simulated.run(&["approve", FOURTH, "--session", "--scope", "prefix"]);
    assert!(
        ran.out.starts_with("Let through, for session e52266a8: dash wants to run this command: ./deploy "),
        "{ran:?}"
    );
    assert!(ran.out.ends_with(", and all of ./deploy --message …\n"), "{ran:?}");
    for words in [&["approve", FOURTH, "--scope", "tree"], &["approve", FIRST, "--scope", "prefix"]] {
        let ran = simulated.run(words);
        assert_eq!(ran.status, 6, "{ran:?}");
        assert!(ran.err.contains("is too far for this request"), "{ran:?}");
    }
}

/// 5, and nothing is decided; an ambiguous one lists what it could be.
#[test]
fn an_id_names_one_thing_or_nothing() {
    let simulated = Simulated::start(world());
    let ran = simulated.run(&["approve", "307482"]);
    assert_eq!((ran.status, ran.out.as_str()), (5, ""));
    assert!(ran.err.contains(FIRST) && ran.err.contains(SECOND) && !ran.err.contains(THIRD), "{ran:?}");
    for words in [
        &["approve", "ffff"][..],
        &["deny", "ffff"],
        &["show", "ffff"],
        &["session", "show", "ffff"],
        &["session", "stop", "ffff"],
        &["revoke", "ffff"],
        &["watch", "--session", "ffff"],
        &["grants", "--session", "ffff"],
        // A session's id is no request's.
        &["approve", "e52266a8"],
        &["session", "stop", "3074"],
    ] {
        let ran = simulated.run(words);
        assert_eq!((ran.status, ran.out.as_str()), (5, ""), "{words:?} {ran:?}");
    }
    let heard = &simulated.world().heard;
    assert!(heard.iter().all(|call| call.starts_with("ListGrants")), "{heard:?}");
}

#[test]
fn a_wrong_command_line_is_2() {
    let simulated = Simulated::start(world());
    for words in [
        &["approve"][..],
        &["approve", "307"],
        &["approve", "xyz1"],
        &["approve", FIRST, "--once", "--session"],
        &["approve", FIRST, "--scope", "all"],
        &["revoke"],
        &["revoke", "fedc", "--all"],
        &["session"],
        &["levitate"],
        &["trust"],
        &["trust", "write"],
        &["block", "fly", "/srv/x"],
        &["block", "write", "/srv/x", "--for", "2x"],
        &["block", "write", "/srv/x", "--for", "2h", "--always"],
        &["grant"],
        &["grant", "show", "fed"],
        &["audit", "--since", "yesterday"],
        &[],
    ] {
        assert_eq!(simulated.run(words).status, 2, "{words:?}");
    }
    assert!(simulated.world().heard.is_empty());
}

#[test]
fn what_was_not_offered_is_refused_before_it_is_sent() {
    let simulated = Simulated::start(world());
    for words in [&["approve", FIRST, "--scope", "tree"][..], &["approve", THIRD, "--session"]] {
        let ran = simulated.run(words);
        assert_eq!(ran.status, 6, "{ran:?}");
    }
    assert!(simulated.world().heard.is_empty());
}

#[test]
fn each_refusal_of_the_daemon_has_its_status_and_words() {
    for (name, status, words) in [
        ("NotAuthorized", 4, "this user may not"),
        ("InsideSession", 4, "inside a session"),
        ("AlreadyDecided", 1, "somebody else answered first"),
        ("NoSuchRequest", 1, "the request is over"),
        ("InvalidArgument", 6, "as \\u{202e}told\\n"),
        ("Internal", 6, "journalctl"),
    ] {
        let simulated = Simulated::start(World { refusal: Some(name), ..world() });
        let ran = simulated.run(&["approve", FIRST]);
        assert_eq!((ran.status, ran.out.as_str()), (status, ""), "{name}: {ran:?}");
        assert!(ran.err.contains(words) && ran.err.lines().count() == 1, "{name}: {ran:?}");
    }
}

#[test]
fn a_grant_that_is_gone_is_no_success_and_none_at_all_is_one() {
    let mut world = world();
    world.grants.clear();
    let simulated = Simulated::start(world);
    let ran = simulated.run(&["revoke", "--all"]);
    assert_eq!((ran.status, ran.out.as_str()), (0, "Nothing was revoked.\n"));
    assert_eq!(simulated.run(&["revoke", "--all", "--json"]).out, "{\"revoked\":0}\n");
}

#[test]
fn without_a_daemon_or_a_bus_it_is_3() {
    let bus = PrivateBus::start();
    for verb in [&["status"][..], &["pending"], &["sessions"], &["grants"], &["approve", "abcd"], &["watch"]] {
        let on = |address: &str| Ran::of(command(address).args(verb).output().expect("gatedctl"));
        let without_daemon = on(bus.address());
        assert_eq!(without_daemon.status, 3, "{verb:?} {without_daemon:?}");
        assert!(without_daemon.err.contains("systemctl start gatedd"), "{without_daemon:?}");
        let without_bus = on("unix:path=/nonexistent/bus");
        assert_eq!(without_bus.status, 3, "{verb:?} {without_bus:?}");
    }
}

/// A bus on which a rule keeps this user away from the daemon, as one inside a session would find it.
#[test]
fn a_bus_that_does_not_let_one_through_is_4() {
    let policy = "<policy context=\"default\"><allow user=\"*\"/><allow own=\"*\"/>\
                  <allow receive_sender=\"*\"/><allow send_destination=\"org.freedesktop.DBus\"/></policy>";
    let bus = PrivateBus::with_policy(policy);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let owner = runtime.block_on(async {
        let connection = bus.connect().await;
        connection.request_name(gated::common::bus::BUS_NAME).await.unwrap();
        connection
    });
    let ran = Ran::of(command(bus.address()).arg("pending").output().expect("gatedctl"));
    assert_eq!(ran.status, 4, "{ran:?}");
    drop(owner);
}

#[test]
fn events_are_told_as_they_happen() {
    let (reader, mut writer) = std::io::pipe().unwrap();
    let simulated = Simulated::start(world());
    simulated.world().events = Some(std::fs::File::from(std::os::fd::OwnedFd::from(reader)));
    let mut child = simulated
        .command()
        .env("COLUMNS", "110")
        .args(["watch", "--session", "e522"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("gatedctl");
    let mut out = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut next = || out.next().expect("a line").expect("text");
    assert!(next().starts_with("TIME"));
    let events =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/control_events.jsonl")).unwrap();
    let mut told = String::new();
    for event in events.lines() {
        // Each comes out before the next goes in.
        writeln!(writer, "{event}").unwrap();
        told += &next();
        told.push('\n');
    }
    crate::daemon::golden("control_watch.txt", &told);
    assert!(told.chars().all(|c| c == '\n' || c == ' ' || c == '…' || gated::common::text::is_showable(c)));
    drop(writer);
    assert_eq!(child.wait().unwrap().code(), Some(3), "the daemon went away");
    assert_eq!(simulated.world().heard, ["Watch session=e52266a8"]);
}

#[test]
fn events_for_programs_are_the_daemons_own_lines() {
    let (reader, mut writer) = std::io::pipe().unwrap();
    let simulated = Simulated::start(world());
    simulated.world().events = Some(std::fs::File::from(std::os::fd::OwnedFd::from(reader)));
    writeln!(writer, "{{\"event\":\"new-one\",\"more\":[1]}}").unwrap();
    drop(writer);
    let ran = simulated.run(&["watch", "--json"]);
    assert_eq!((ran.status, ran.out.as_str()), (3, "{\"event\":\"new-one\",\"more\":[1]}\n"));
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let simulated = Simulated::start(world());
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = simulated.command().arg("sessions").stdout(writer).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}
