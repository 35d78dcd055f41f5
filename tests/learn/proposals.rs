//! Proposals for observations that are made up, hostile ones among them.

use std::io;
use std::path::Path;

use gated::common::access::{Access, Level};
use gated::common::decision::Outcome;
use gated::common::net::{Destination, Knowledge, Named, Transport};
use gated::common::path::RawPath;
use gated::common::request::Operation;
use gated::policy::learn::{Observation, Observations, Proposal, Subject, propose, replay};
use gated::policy::{Context, Policy, Profile, ProfileSelector, load};

const HOME: &str = "/home/me";

fn context() -> Context {
    Context { home: HOME.into(), user: "me".into(), cwd: "/home/me/work".into() }
}

fn profile(name: &str, text: Option<&str>) -> Profile {
    let read = |path: &Path| match (path.to_str(), text) {
        (Some("own.toml"), Some(text)) => Ok(text.to_owned()),
        _ => Err(io::Error::from(io::ErrorKind::NotFound)),
    };
    let selector = match text {
        Some(_) => ProfileSelector::File("own.toml".into()),
        None => ProfileSelector::Name(name.to_owned()),
    };
    load(selector, &context(), &read).unwrap()
}

fn of(access: Access, operation: Operation, object: &str) -> Observation {
    Observation {
        access,
        operation,
        object: object.into(),
        words: None,
        destination: None,
        service: None,
        program: "/usr/bin/tool".into(),
        would: Level::Ask,
        rule: "default".into(),
        outcome: Outcome::Allowed,
    }
}

fn write(object: &str) -> Observation {
    of(Access::Write, Operation::Create, object)
}

fn exec(words: &[&str]) -> Observation {
    let object = format!("/usr/bin/{}", words[0]);
    let words = Some(words.iter().map(|word| word.as_bytes().to_vec()).collect());
    Observation { words, ..of(Access::Exec, Operation::Execute, &object) }
}

fn connect(address: &str, name: Option<&str>) -> Observation {
    let names = name.map(|name| Named { name: name.parse().unwrap(), by: Knowledge::Resolved });
    let destination = Destination::address(address.parse().unwrap(), Transport::Tcp, names.into_iter().collect());
    let object = RawPath::from(destination.to_string().as_str());
    Observation { object, destination: Some(destination), ..of(Access::Connect, Operation::Connect, "") }
}

fn proposed(base: &str, all: impl IntoIterator<Item = Observation>) -> (Proposal, Observations) {
    let mut seen = Observations::default();
    all.into_iter().for_each(|one| seen.add(one));
    let (base, guards) = (Policy::new(&profile(base, None)), Policy::new(&profile("coder", None)));
    (propose(&seen, &Subject { name: "learned", base: &base, guards: &guards }), seen)
}

/// The proposal loads, and everything goes through but for `asked` things.
#[track_caller]
fn check(proposal: &Proposal, seen: &Observations, asked: usize) -> Policy {
    let text = proposal.text();
    let policy = Policy::new(&profile("learned", Some(&text)));
    let replayed = replay(&policy, seen);
    assert_eq!((replayed.asked.len(), replayed.denied.len()), (asked, 0), "{text}");
    policy
}

#[test]
fn files_are_proposed_by_directory_and_never_over_what_is_kept() {
    let (proposal, seen) = proposed(
        "coder",
        (0..40)
            .map(|n| write(&format!("/home/me/.npm/_cacache/{n}/x")))
            .chain([write("/home/me/.ssh/known_hosts"), write("/home/me/.bashrc"), write("/home/me/one")])
            .chain(["a", "b", "c"].map(|name| write(&format!("/home/me/.config/{name}")))),
    );
    let asked = ["/home/me/.ssh/known_hosts", "/home/me/.bashrc"];
    // Whoever was asked by a rule says so; here it is what coder would say.
    let policy = check(&proposal, &seen, asked.len());
    let text = proposal.text();
    assert!(text.contains("path = [\"~/.npm/_cacache/**\"]"), "{text}");
    assert!(text.contains("# Seen 40 times, 40 of them different, by /usr/bin/tool."), "{text}");
    for wide in ["\"~/**\"", "\"~/*\"", "\"/**\"", "\"~/.config/**\"", "\"~/.config/*\"", "\"/home/**\""] {
        assert!(!text.contains(wide), "{wide} in\n{text}");
    }
    for path in ["/home/me/other", "/home/me/.config/d", "/home/me/.npmrc", "/etc/passwd"] {
        let mut other = Observations::default();
        other.add(write(path));
        assert_eq!(replay(&policy, &other).allowed, 0, "{path}");
    }
}

#[test]
fn hosts_are_proposed_by_registered_domain() {
    let (proposal, seen) = proposed(
        "coder",
        [
            connect("93.184.216.34:443", Some("registry.example.co.uk")),
            connect("93.184.216.35:443", Some("static.example.co.uk")),
            connect("93.184.216.36:443", Some("one.github.io")),
            connect("93.184.216.37:443", Some("two.github.io")),
            connect("93.184.216.38:8080", None),
            connect("127.0.0.1:5432", None),
            connect("10.1.2.3:443", Some("internal.example.org")),
        ],
    );
    let text = proposal.text();
    for expected in [
        "host = [\"*.example.co.uk:443\"]",
        "host = [\"one.github.io:443\"]",
        "host = [\"two.github.io:443\"]",
        "host = [\"93.184.216.38:8080\"]",
        "host = [\"127.0.0.1:5432\"]",
        "host = [\"10.1.2.3:443\"]",
    ] {
        assert!(text.contains(expected), "{expected} in\n{text}");
    }
    let policy = Policy::new(&profile("learned", Some(&text)));
    let denied: Vec<String> =
        replay(&policy, &seen).denied.iter().map(|seen| seen.what.object.as_path().display().to_string()).collect();
    // The local network stays shut, as coder has it.
    assert_eq!(denied, ["internal.example.org:443"]);
    assert!(!text.contains("*.co.uk") && !text.contains("*.github.io") && !text.contains("\"*:"), "{text}");
}

#[test]
fn commands_are_proposed_by_how_they_begin() {
    let (proposal, seen) = proposed(
        "strict",
        [
            exec(&["npm", "install", "left-pad"]),
            exec(&["npm", "install", "react"]),
            exec(&["cargo", "build", "--release"]),
            exec(&["git", "fetch", "origin"]),
            exec(&["git", "push", "origin", "main"]),
            exec(&["sh", "-c", "rm -rf /tmp/[x]*"]),
            exec(&["make", "all"]),
            exec(&["cp", "a", "b"]),
            exec(&["cp", "c", "d"]),
            exec(&["cp", "e", "f"]),
            exec(&["curl", "-H", "Authorization: ***", "x"]),
        ],
    );
    let text = proposal.text();
    // What sends or fetches is asked for, whoever learned.
    check(&proposal, &seen, 2);
    for expected in [
        "argv = [\"npm\", \"install\", \"**\"]",
        "argv = [\"cargo\", \"build\", \"**\"]",
        "argv = [\"git\", \"fetch\", \"**\"]",
        "argv = [\"sh\", \"-c\", \"rm -rf /tmp/\\\\[x\\\\]\\\\*\"]",
        "argv = [\"make\", \"all\"]",
        "argv = [\"cp\", \"**\"]",
        "argv = [\"curl\", \"-H\", \"Authorization: *\", \"x\"]",
    ] {
        assert!(text.contains(expected), "{expected} in\n{text}");
    }
    assert!(!text.contains("argv = [\"sh\", \"**\"]") && !text.contains("argv = [\"**\"]"), "{text}");
}

#[test]
fn a_shell_that_was_told_a_hundred_things_is_asked_about() {
    let (proposal, seen) = proposed(
        "strict",
        (0..100).map(|n| {
            let line = format!("echo {n}");
            exec(&["sh", "-c", &line])
        }),
    );
    check(&proposal, &seen, 100);
    assert!(proposal.text().contains("it was given many different words"), "{}", proposal.text());
}

#[test]
fn names_that_a_tool_chose_cannot_write_the_profile() {
    let hostile = [
        "/home/me/.x/a\"]\nlevel = \"allow\"\n[[rule]]",
        "/home/me/.y/\u{202e}gnp",
        "/home/me/.z/**",
        "/home/me/.z/{user}",
        "/home/me/.w/\\",
        "/home/me/.v/..\x1b[2J",
    ];
    let (proposal, seen) = proposed("coder", hostile.map(write));
    let policy = check(&proposal, &seen, 0);
    let text = proposal.text();
    assert!(text.lines().all(|line| line.chars().all(|one| !one.is_control() && one != '\u{202e}')), "{text}");
    assert_eq!(text.matches("\n[[rule]]").count(), hostile.len(), "{text}");
    let mut other = Observations::default();
    ["/home/me/.z/other", "/home/me/.z/me", "/home/me/.z/a/b"].map(write).into_iter().for_each(|one| other.add(one));
    assert_eq!(replay(&policy, &other).allowed, 0, "{text}");
}

#[test]
fn a_thousand_sockets_files_and_hosts_make_few_rules() {
    let files = (0..1000).map(|n| write(&format!("/home/me/.cache/tool/{}/{n}", n % 7)));
    let hosts = (0..1000).map(|n| connect(&format!("93.184.{}.{}:443", n / 250, n % 250), Some("cdn.example.net")));
    let (proposal, seen) = proposed("coder", files.chain(hosts));
    check(&proposal, &seen, 0);
    assert_eq!(proposal.rules.len(), 2, "{}", proposal.text());
}

/// A profile that lets `rm`, `git checkout` and `npm` have whatever words would let through what `coder` asks about.
#[test]
fn a_program_is_not_proposed_with_all_its_words_where_some_of_them_are_kept() {
    let lines: [&[&str]; 9] = [
        &["rm", "a"],
        &["rm", "b"],
        &["rm", "c"],
        &["git", "checkout", "main"],
        &["git", "fetch", "origin"],
        &["chmod", "600", "a"],
        &["chmod", "600", "b"],
        &["chmod", "600", "c"],
        &["npm", "install", "x"],
    ];
    let (proposal, seen) = proposed("strict", lines.map(exec));
    let policy = check(&proposal, &seen, 0);
    let text = proposal.text();
    for expected in [
        "argv = [\"rm\", \"**\"]",
        "argv = [\"git\", \"checkout\", \"**\"]",
        "[\"git\", \"fetch\", \"**\"]",
        "[\"npm\", \"install\", \"**\"]",
    ] {
        assert!(text.contains(expected), "{expected} in\n{text}");
    }
    let kept: [&[&str]; 4] =
        [&["rm", "-r", "x"], &["git", "checkout", "."], &["chmod", "-R", "777", "x"], &["npm", "publish"]];
    let mut others = Observations::default();
    kept.map(exec).into_iter().for_each(|one| others.add(one));
    assert_eq!(replay(&policy, &others).allowed, 0, "{text}");
}
