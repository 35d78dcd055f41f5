//! What holds of every policy, whatever is in it, for paths, commands, hosts and sockets: the order of rules and files never
//! matters, the ceiling is never exceeded, a deny that is added never widens, and an answer never lifts a deny.

use std::collections::BTreeSet;
use std::fmt::Write;

use gated::common::access::{Access, Level};
use gated::common::decision::{Effect, Lifetime, Term, Width};
use gated::common::id::GrantId;
use gated::common::request::{Operation, Request};
use gated::policy::network::Reaching;
use gated::policy::{Ceiling, Grant, Grants, Policy, Profile, floors};
use proptest::prelude::*;

use super::network::{self, any_destination, destination};
use super::sample::*;

/// Something to be judged, as text.
#[derive(Clone, Debug)]
enum Attempt {
    File(Access, String),
    Run(String),
    Connect(String),
    Socket(String),
}

/// A rule or floor without its id, level and header.
#[derive(Clone, Debug)]
struct Terms {
    text: String,
    level: Level,
}

fn any_file() -> impl Strategy<Value = String> {
    any_path().prop_map(|path| String::from_utf8(path.as_bytes().to_vec()).unwrap())
}

fn any_command() -> impl Strategy<Value = String> {
    let program = prop::sample::select(vec!["/usr/bin/git", "/usr/bin/env", "/a/b", "/usr/bin/dash"]);
    let words = prop::sample::subsequence(vec!["-c", "git", "push", "-f", "/a/b", "x"], 0..4);
    (program, words).prop_map(|(program, words)| format!("{program} {}", words.join(" ")).trim().to_owned())
}

fn any_socket() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "/run/postgresql/s",
        "/run/user/1000/gnupg/S.gpg-agent",
        "/run/user/1000/keyring/ssh",
        "/run/dbus/system_bus_socket",
        "/run/user/1000/wayland-0",
        "/srv/app/sock",
    ])
    .prop_map(str::to_owned)
}

fn any_attempt() -> impl Strategy<Value = Attempt> {
    prop_oneof![
        2 => any_file().prop_map(|path| Attempt::File(Access::Write, path)),
        1 => any_file().prop_map(|path| Attempt::File(Access::Read, path)),
        2 => any_command().prop_map(Attempt::Run),
        2 => any_destination().prop_map(Attempt::Connect),
        1 => any_socket().prop_map(Attempt::Socket),
    ]
}

/// Terms for all four kinds; `may_be_bare` leaves some out altogether.
fn any_terms(may_be_bare: bool) -> impl Strategy<Value = Terms> {
    let access = prop::sample::select(vec!["\"read\"", "\"write\"", "\"read\", \"write\""]);
    let of_files = (access, any_pattern(), prop::option::of(any_pattern())).prop_map(|(access, path, hole)| {
        let hole = hole.map_or(String::new(), |hole| format!("except = [\"{}\"]\n", hole.replace('\\', "\\\\")));
        format!("access = [{access}]\npath = [\"{}\"]\n{hole}", path.replace('\\', "\\\\"))
    });
    let program = prop::sample::select(vec!["/usr/bin/git", "@path", "@path/git", "/a/**", "/usr/bin/env", "**/b"]);
    let argv = prop::sample::select(vec![
        "",
        "argv = [\"git\", \"push\", \"**\"]\n",
        "argv = [\"*\", \"**\", \"-f\", \"**\"]\n",
        "argv = [\"*\"]\n",
    ]);
    let of_programs =
        (program, argv).prop_map(|(program, argv)| format!("access = [\"exec\"]\nprogram = [\"{program}\"]\n{argv}"));
    let of_hosts = network::any_rule().prop_map(|rule| {
        let lines = rule.lines().filter(|line| !line.starts_with("level"));
        lines.map(|line| format!("{line}\n")).collect()
    });
    let socket = prop::sample::select(vec!["/run/**", "@gpg_agent", "@ssh_agent", "@wayland", "/srv/*/sock", "**/s"]);
    let of_sockets = socket.prop_map(|socket| format!("access = [\"unix\"]\nsocket = [\"{socket}\"]\n"));
    let bare = prop::sample::select(vec!["read", "write", "exec", "connect", "unix"])
        .prop_map(|access| format!("access = [\"{access}\"]\n"));
    let bare_weight = u32::from(may_be_bare);
    let text = prop_oneof![
        3 => of_files.boxed(),
        3 => of_programs.boxed(),
        3 => of_hosts.boxed(),
        2 => of_sockets.boxed(),
        bare_weight => bare.boxed(),
    ];
    (text, any_level()).prop_map(|(text, level)| Terms { text, level })
}

fn any_terms_list() -> impl Strategy<Value = Vec<Terms>> {
    prop::collection::vec(any_terms(false), 0..6)
}

fn any_floors() -> impl Strategy<Value = Vec<Terms>> {
    let floor = any_terms(true).prop_map(|terms| Terms { level: terms.level.max(Level::Notify), ..terms });
    prop::collection::vec(floor, 0..4)
}

fn any_defaults() -> impl Strategy<Value = [Level; 5]> {
    [any_level(), any_level(), any_level(), any_level(), any_level()]
}

fn made(defaults: &[Level; 5], rules: &[Terms]) -> Profile {
    let [read, write, exec, connect, unix] = defaults;
    let mut text = format!(
        "[defaults]\nread = \"{read}\"\nwrite = \"{write}\"\nexec = \"{exec}\"\nconnect = \"{connect}\"\nunix = \"{unix}\"\n"
    );
    for (at, Terms { text: terms, level }) in rules.iter().enumerate() {
        write!(text, "[[rule]]\nid = \"r{at}\"\nlevel = \"{level}\"\n{terms}").unwrap();
    }
    profile(&text)
}

fn ceiling(floors: &[Terms]) -> Ceiling {
    let mut text = String::from("schema = 1\n");
    for Terms { text: terms, level } in floors {
        write!(text, "[[floor]]\nlevel = \"{level}\"\n{terms}").unwrap();
    }
    let files = Files::default().with("/etc/gated/ceiling.toml", &text);
    Ceiling::load(&|file| files.read(file)).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn covered(profile: &Profile, floors: &[Terms]) -> Policy {
    let mut profile = profile.clone();
    ceiling(floors).cover(&mut profile, &context(), &BTreeSet::new()).unwrap();
    Policy::new(&profile)
}

fn service(socket: &str) -> Option<gated::common::net::Service> {
    gated::policy::sockets::Services::new(&context().home, 1000, None).of(&path(socket))
}

fn level(policy: &Policy, attempt: &Attempt, grants: &Grants) -> Level {
    let curl = || Some(path("/usr/bin/curl"));
    match attempt {
        Attempt::File(access, of) => policy.decide(*access, &path(of), CALL, grants).level,
        Attempt::Run(line) => policy.decide_exec(&command(line), CALL, grants).level,
        Attempt::Connect(to) => {
            let destination = destination(to);
            policy.decide_connect(&Reaching { destination: &destination, program: &curl }, CALL, grants).level
        }
        Attempt::Socket(socket) => policy.decide_unix(&path(socket), service(socket), CALL, grants).level,
    }
}

/// The same, each program taken for the system's, as what floors say of a question does: it does not say which are.
fn level_of_system(policy: &Policy, attempt: &Attempt, grants: &Grants) -> Level {
    let Attempt::Run(line) = attempt else { return level(policy, attempt, grants) };
    let mut command = command(line);
    command.asked.program.is_of_system = true;
    policy.decide_exec(&command, CALL, grants).level
}

/// The question that an attempt would be.
fn asked(attempt: &Attempt) -> Request {
    match attempt {
        Attempt::File(access, of) => Request { access: *access, ..request(of, false, Lifetime::Session) },
        Attempt::Run(line) => super::commands::asked(&command(line)),
        Attempt::Connect(to) => network::asked(&Policy::new(&profile("")), Access::Connect, to),
        Attempt::Socket(socket) => Request {
            access: Access::Unix,
            operation: Operation::ConnectSocket,
            service: service(socket),
            ..request(socket, false, Lifetime::Session)
        },
    }
}

/// Answers of every width to these questions.
fn answers(questions: &[(Attempt, bool)], effect: Effect) -> Vec<Grant> {
    use Width::*;
    let home = context().home;
    let of = |(at, (attempt, authenticated)): (usize, &(Attempt, bool))| {
        let question = Request { remember: Lifetime::Session, ..asked(attempt) };
        let widths = [Exact, Directory, Tree, Prefix, Program, Host, Domain];
        let id = GrantId(at as u64);
        let given = widths.map(|width| Grant::from_answer(id, &question, width, Term::Session, "t", &bounds(&home)));
        let given = given.into_iter().flatten();
        given.map(|grant| Grant { authenticated: *authenticated, effect, ..grant }).collect::<Vec<_>>()
    };
    questions.iter().enumerate().flat_map(of).collect()
}

fn with(list: Vec<Grant>) -> Grants {
    let mut grants = Grants::new();
    for grant in list {
        grants.add(grant);
    }
    grants
}

fn any_questions() -> impl Strategy<Value = Vec<(Attempt, bool)>> {
    prop::collection::vec((any_attempt(), any::<bool>()), 0..3)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn the_order_of_rules_and_floors_never_matters(defaults in any_defaults(), rules in any_terms_list(), over in any_floors(), of in any_attempt(), held in any_questions()) {
        let reversed = |list: &[Terms]| list.iter().rev().cloned().collect::<Vec<_>>();
        let held = with(answers(&held, Effect::Allow));
        let one = covered(&made(&defaults, &rules), &over);
        let other = covered(&made(&defaults, &reversed(&rules)), &reversed(&over));
        prop_assert_eq!(level(&one, &of, &held), level(&other, &of, &held));
    }

    #[test]
    fn the_order_of_what_is_extended_never_matters(defaults in any_defaults(), rules in any_terms_list(), of in any_attempt()) {
        let file = |name: &str, at: usize| {
            let own = rules.iter().enumerate().filter(|(number, _)| number % 2 == at);
            let own = own.map(|(number, rule)| format!("[[rule]]\nid = \"r{number}\"\nlevel = \"{}\"\n{}", rule.level, rule.text));
            format!("schema = 1\n[profile]\nname = \"{name}\"\n{}", own.collect::<String>())
        };
        let top = |extends: &str| {
            let [read, write, exec, connect, unix] = &defaults;
            format!("schema = 1\n[profile]\nname = \"top\"\nextends = {extends}\n[defaults]\nread = \"{read}\"\nwrite = \"{write}\"\nexec = \"{exec}\"\nconnect = \"{connect}\"\nunix = \"{unix}\"\n")
        };
        let files = |extends: &str| {
            let folder = "/etc/gated/profiles";
            Files::default().with(&format!("{folder}/a.toml"), &file("a", 0)).with(&format!("{folder}/b.toml"), &file("b", 1)).with(&format!("{folder}/top.toml"), &top(extends))
        };
        let made = |extends: &str| Policy::new(&files(extends).load("top").unwrap());
        let one = level(&made("[\"a\", \"b\"]"), &of, &Grants::new());
        prop_assert_eq!(one, level(&made("[\"b\", \"a\"]"), &of, &Grants::new()));
    }

    /// With any grants: what the floors say alone is the least, but where somebody gave what they ask for.
    #[test]
    fn the_ceiling_is_never_exceeded(defaults in any_defaults(), rules in any_terms_list(), over in any_floors(), of in any_attempt(), held in any_questions()) {
        let level = level_of_system;
        let own = made(&defaults, &rules);
        let policy = covered(&own, &over);
        let mut alone = ceiling(&over).alone(&context(), Some(&BTreeSet::new())).unwrap();
        let at_least = floors::level_on(&Policy::new(&alone), &asked(&of));
        // An address has several names, and the profile may open one that no floor speaks of.
        alone.defaults = made(&[Level::Allow; 5], &[]).defaults;
        let floor = floors::level_on(&Policy::new(&alone), &asked(&of));
        prop_assert!(at_least >= floor || floor < Level::Authenticate, "{at_least:?}, and {floor:?} where a profile allows");
        let bare = level(&policy, &of, &Grants::new());
        prop_assert!(bare >= floor, "{bare:?} below the floor {floor:?}");
        prop_assert!(bare >= level(&Policy::new(&own), &of, &Grants::new()), "a ceiling made it freer");
        let unproven: Vec<(Attempt, bool)> = held.iter().map(|(attempt, _)| (attempt.clone(), false)).collect();
        let lifted = level(&policy, &of, &with(answers(&unproven, Effect::Allow)));
        let lifted_by_proof = level(&policy, &of, &with(answers(&held, Effect::Allow)));
        if floor >= Level::Authenticate {
            prop_assert!(lifted >= floor, "an answer without a proof lifted {floor:?} to {lifted:?}");
        }
        prop_assert!(floor < Level::Deny || lifted_by_proof == Level::Deny);
        prop_assert!(lifted_by_proof >= level(&Policy::new(&own), &of, &with(answers(&held, Effect::Allow))));
    }

    #[test]
    fn adding_a_deny_never_widens(defaults in any_defaults(), rules in any_terms_list(), more in any_terms(false), at: prop::sample::Index, of in any_attempt(), held in any_questions()) {
        let held = with(answers(&held, Effect::Allow));
        let before = level(&Policy::new(&made(&defaults, &rules)), &of, &held);
        let mut rules = rules;
        rules.insert(at.index(rules.len() + 1), Terms { level: Level::Deny, ..more });
        let after = level(&Policy::new(&made(&defaults, &rules)), &of, &held);
        prop_assert!(after >= before, "{before:?} became {after:?}");
    }

    #[test]
    fn an_answer_never_lifts_a_deny(defaults in any_defaults(), rules in any_terms_list(), of in any_attempt(), held in any_questions()) {
        let policy = Policy::new(&made(&defaults, &rules));
        let held = with(answers(&held, Effect::Allow));
        if level(&policy, &of, &Grants::new()) == Level::Deny {
            let after = level(&policy, &of, &held);
            // An address that a name led to is one that somebody has to say yes to; then its rules decide.
            let is_led = matches!(&of, Attempt::Connect(to) if to.contains(' '));
            prop_assert!(after == Level::Deny || is_led, "{after:?}");
        }
    }

    #[test]
    fn an_answer_that_denies_never_widens(defaults in any_defaults(), rules in any_terms_list(), of in any_attempt(), held in any_questions(), refused in any_questions()) {
        let policy = Policy::new(&made(&defaults, &rules));
        let allowed = answers(&held, Effect::Allow);
        let before = level(&policy, &of, &with(allowed.clone()));
        let all = allowed.into_iter().chain(answers(&refused, Effect::Deny)).collect();
        prop_assert!(level(&policy, &of, &with(all)) >= before);
    }
}
