//! What somebody said no to for good: over rules that allow, in every way to the same thing, and lifted by nothing; and many
//! grants, found as fast as few.

use std::time::Instant;

use gated::common::access::{Access, Level};
use gated::common::decision::{Effect, Lifetime, Width};
use gated::common::exec::{Command, Program, Step};
use gated::common::id::GrantId;
use gated::common::net::{HostName, Ports, Transport};
use gated::common::path::RawPath;
use gated::common::scope::Pattern;
use gated::common::text::Untrusted;
use gated::policy::network::Reaching;
use gated::policy::plan::{PRIVATE, scratch};
use gated::policy::regions::judges_reads;
use gated::policy::{CommandScope, Grant, Grants, HostScope, Policy, Scope, ScopeHost, SocketScope, Source, lasting};
use proptest::prelude::*;

use super::network::destination;
use super::sample::{CALL, path, profile};

fn grant(number: u64, effect: Effect, access: Access, object: &str, scope: Scope) -> Grant {
    Grant {
        id: GrantId(number),
        effect,
        access,
        object: path(object),
        scope,
        lifetime: Lifetime::Persistent,
        call: None,
        until: None,
        authenticated: true,
        group: None,
        by: "gatedctl:alice".into(),
        origin: None,
    }
}

fn paths(text: &str) -> Scope {
    Scope::Paths(Pattern::parse(text).unwrap())
}

fn no(access: Access, object: &str, scope: Scope) -> Grants {
    let mut grants = Grants::new();
    assert!(grants.add(grant(7, Effect::Deny, access, object, scope)));
    grants
}

/// Everything is allowed.
fn free() -> Policy {
    let levels = ["read", "write", "exec", "connect", "bind", "unix"].map(|access| format!("{access} = \"allow\"\n"));
    Policy::new(&profile(&format!("[defaults]\n{}", levels.concat())))
}

fn host(host: ScopeHost, ports: &str) -> Scope {
    Scope::Host(HostScope { host, ports: ports.parse::<Ports>().unwrap(), transport: Transport::Tcp, program: None })
}

fn name(text: &str) -> HostName {
    text.parse().unwrap()
}

#[test]
fn a_no_denies_what_rules_allow_and_names_itself() {
    let (policy, grants) = (free(), no(Access::Write, "/srv/x", paths("/srv/x/**")));
    let level = |access, at: &str| policy.decide(access, &path(at), CALL, &grants);
    let verdict = level(Access::Write, "/srv/x/a/b");
    assert_eq!((verdict.level, verdict.source), (Level::Deny, Source::Denial(GrantId(7))));
    assert_eq!(policy.rule(&verdict).id, "grant:0000000000000007");
    assert_eq!(level(Access::Write, "/srv/y").level, Level::Allow);
    assert_eq!(level(Access::Read, "/srv/x/a").level, Level::Allow, "of another access it says nothing");
    // Moving what it is in would move it; so would replacing that.
    assert_eq!(
        policy.below(Access::Write, &path("/srv"), CALL, &grants).map(|verdict| verdict.level),
        Some(Level::Deny)
    );
    assert!(policy.below(Access::Write, &path("/opt"), CALL, &grants).is_none());
    let anywhere = no(Access::Write, "**/.envrc", paths("**/.envrc"));
    assert!(anywhere.denies_names_anywhere(Access::Write) && !grants.denies_names_anywhere(Access::Write));
    let floating = |at: &str| policy.floating(Access::Write, &path(at), CALL, &anywhere).map(|verdict| verdict.level);
    assert_eq!((floating("/a/b/.envrc"), floating("/a/b/c")), (Some(Level::Deny), None));
}

#[test]
fn a_no_to_a_command_counts_however_it_is_called() {
    let policy = free();
    let words = |words: &[&str]| words.iter().map(|word| Untrusted::new(word.as_bytes())).collect();
    let scope = |argv: &[&str], width| CommandScope {
        width,
        argv: words(argv),
        interpreters: Vec::new(),
        variables: Vec::new(),
        cwd: None,
        version: None,
    };
    let run = |program: &str, argv: &[&str], variables: &[&str]| Command {
        asked: Step {
            program: Program { path: path(program), is_named: true, is_of_system: true },
            argv: argv.iter().map(|word| word.as_bytes().to_vec()).collect(),
        },
        interpreters: Vec::new(),
        loader: None,
        operand: None,
        variables: variables.iter().map(|word| word.as_bytes().to_vec()).collect(),
        cwd: path("/work"),
        version: None,
    };
    let push = no(Access::Exec, "/usr/bin/git", Scope::Command(scope(&["git", "push"], Width::Prefix)));
    let level = |grants: &Grants, command: &Command| policy.decide_exec(command, CALL, grants).level;
    for (argv, variables) in [
        (&["git", "push"][..], &[][..]),
        (&["git", "push", "--force"], &[]),
        (&["anything", "push"], &[]),
        (&["git", "push"], &["GIT_DIR=/x"]),
        (&["git", "-C", "/elsewhere", "push"], &[]),
    ] {
        assert_eq!(level(&push, &run("/usr/bin/git", argv, variables)), Level::Deny, "{argv:?}");
    }
    assert_eq!(level(&push, &run("/usr/bin/git", &["git", "pull"], &[])), Level::Allow);
    assert_eq!(level(&push, &run("/usr/bin/gitk", &["gitk", "push"], &[])), Level::Allow);
    let whole = no(Access::Exec, "/usr/bin/curl", Scope::Command(scope(&[], Width::Program)));
    assert_eq!(level(&whole, &run("/usr/bin/curl", &["curl", "-s"], &[])), Level::Deny);
    assert!(whole.denies_any(Access::Exec) && !whole.denies_any(Access::Write));
}

#[test]
fn a_no_to_a_host_counts_by_each_of_its_names_and_addresses() {
    let policy = free();
    let none = || None;
    let level = |grants: &Grants, to: &str| {
        let destination = destination(to);
        policy.decide_connect(&Reaching { destination: &destination, program: &none }, CALL, grants).level
    };
    let domain = no(Access::Connect, "*.npmjs.org:443", host(ScopeHost::Domain(name("npmjs.org")), "443"));
    for (to, expected) in [
        ("192.0.2.1:443 registry.npmjs.org", Level::Deny),
        ("192.0.2.1:443 npmjs.org", Level::Deny),
        ("192.0.2.1:443 example.org npmjs.org", Level::Deny),
        ("192.0.2.1:80 npmjs.org", Level::Allow),
        ("192.0.2.1:443 xnpmjs.org", Level::Allow),
        // Looked up for another port, perhaps.
        ("npmjs.org", Level::Allow),
    ] {
        assert_eq!(level(&domain, to), expected, "{to}");
    }
    let every_port = no(Access::Connect, "npmjs.org:*", host(ScopeHost::Name(name("npmjs.org")), "*"));
    assert_eq!((level(&every_port, "npmjs.org"), level(&every_port, "a.npmjs.org")), (Level::Deny, Level::Allow));
    let address = no(Access::Connect, "192.0.2.1:1-99", host(ScopeHost::Address("192.0.2.1".parse().unwrap()), "1-99"));
    assert_eq!(level(&address, "192.0.2.1:80 example.org"), Level::Deny);
    assert_eq!(level(&address, "192.0.2.1:443 example.org"), Level::Allow);
    let own = no(Access::Connect, "localhost:3000", host(ScopeHost::Name(name("localhost")), "3000"));
    for to in ["127.0.0.1:3000", "127.0.0.2:3000", "[::1]:3000", "0.0.0.0:3000"] {
        assert_eq!(level(&own, to), Level::Deny, "{to}");
    }
    let listen = no(Access::Bind, "127.0.0.1:80", host(ScopeHost::Address("127.0.0.1".parse().unwrap()), "80"));
    let bind = |at: &str| {
        let destination = destination(at);
        policy.decide_bind(&Reaching { destination: &destination, program: &none }, CALL, &listen).level
    };
    assert_eq!(
        (bind("127.0.0.1:80"), bind("0.0.0.0:80"), bind("127.0.0.1:81")),
        (Level::Deny, Level::Deny, Level::Allow)
    );
}

#[test]
fn a_no_to_a_socket_counts_whatever_is_behind_it() {
    let policy = free();
    let service = Some(gated::common::net::Service::SshAgent);
    let scope = |paths: &str, service| Scope::Socket(SocketScope { paths: Pattern::parse(paths).unwrap(), service });
    let level = |grants: &Grants, at: &str, service| policy.decide_unix(&path(at), service, CALL, grants).level;
    let place = no(Access::Unix, "/run/x", scope("/run/x/**", None));
    assert_eq!(level(&place, "/run/x/s", service), Level::Deny);
    assert_eq!(level(&place, "/run/y/s", None), Level::Allow);
    let agent = no(Access::Unix, "@ssh_agent", scope("/**", service));
    assert_eq!(level(&agent, "/anywhere", service), Level::Deny);
    assert_eq!(level(&agent, "/anywhere", None), Level::Allow);
}

#[test]
fn what_the_kernel_gives_without_a_question_is_held_where_it_is_denied() {
    let mut own = profile("[defaults]\nread = \"allow\"\n");
    own.rules.clear();
    assert!(!judges_reads(&own));
    own.held_reads.push(Pattern::parse("/srv/secret/**").unwrap());
    assert!(judges_reads(&own));
    let policy = Policy::new(&own);
    assert!(policy.guards_read(&path("/srv/secret/x")) && !policy.guards_read(&path("/srv/other")));
    assert!(policy.guards_reads_below(&path("/srv/secret")) && policy.guards_reads_named_below(&path("/srv")));
    own.scratch = vec![path("/home/user/project/target")];
    let private = PRIVATE.map(RawPath::from);
    let plan = |denied: &str| {
        let pattern = Pattern::parse(denied).unwrap();
        scratch(&own, &private, &path("/home/user/project"), &[&pattern]).judged
    };
    for (denied, judged) in
        [("/home/user/project/target/release/x", true), ("/home/user/project/**", true), ("/home/user/other/**", false)]
    {
        assert_eq!(plan(denied).contains(&path("/home/user/project/target")), judged, "{denied}");
    }
}

#[test]
fn a_lasting_yes_lifts_no_rule_that_lets_nothing_last() {
    let policy = Policy::new(&profile(
        "[defaults]\nwrite = \"ask\"\n[[rule]]\nid = \"hooks\"\naccess = [\"write\"]\npath = [\"**/hooks/**\"]\nlevel = \"ask\"\nremember = \"session\"\n",
    ));
    let mut grants = Grants::new();
    grants.add(grant(1, Effect::Allow, Access::Write, "/srv", paths("/srv/**")));
    let level = |at: &str| policy.decide(Access::Write, &path(at), CALL, &grants).level;
    assert_eq!((level("/srv/a"), level("/srv/hooks/a")), (Level::Allow, Level::Ask));
}

#[derive(Debug, Clone)]
struct Some1 {
    effect: Effect,
    pattern: String,
}

fn any_grant() -> impl Strategy<Value = Some1> {
    let name = prop::sample::select(vec!["a", "b", "*", "x*"]);
    let parts = prop::collection::vec(name, 1..4);
    let end = prop::sample::select(vec!["", "/**", "/**/c"]);
    (any::<bool>(), parts, end).prop_map(|(denies, parts, end)| Some1 {
        effect: if denies { Effect::Deny } else { Effect::Allow },
        pattern: format!("/{}{end}", parts.join("/")),
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) })]

    /// The index finds what looking at all of them finds, in whatever order they came; and no yes lifts a no.
    #[test]
    fn a_grant_is_found_as_if_all_were_looked_at(
        all in prop::collection::vec(any_grant(), 0..24),
        at in prop::collection::vec(prop::sample::select(vec!["a", "b", "xy", "c"]), 1..5),
    ) {
        let policy = Policy::new(&profile("[defaults]\nwrite = \"ask\"\n"));
        let at = path(&format!("/{}", at.join("/")));
        let (mut forth, mut back) = (Grants::new(), Grants::new());
        let made: Vec<Grant> = all.iter().enumerate().map(|(number, own)| {
            let pattern = Pattern::parse(&own.pattern).unwrap();
            let start = pattern.literal_prefix();
            let object = if pattern.matches(&start) { start } else { path("/nothing") };
            Grant { object, ..grant(number as u64, own.effect, Access::Write, "/", Scope::Paths(pattern)) }
        }).collect();
        made.iter().for_each(|own| drop(forth.add(own.clone())));
        made.iter().rev().for_each(|own| drop(back.add(own.clone())));
        let has = |effect| made.iter().any(|own| {
            own.effect == effect && matches!(&own.scope, Scope::Paths(pattern) if pattern.matches(&at))
        });
        let expected = if has(Effect::Deny) { Level::Deny } else if has(Effect::Allow) { Level::Allow } else { Level::Ask };
        prop_assert_eq!(policy.decide(Access::Write, &at, CALL, &forth).level, expected);
        prop_assert_eq!(policy.decide(Access::Write, &at, CALL, &back).level, expected);
        for own in &made {
            prop_assert_eq!(&lasting::read(&lasting::write(&own.scope).unwrap()).unwrap(), &own.scope);
        }
    }
}

/// Not a benchmark: that it does not grow with their number. `benches/grants.rs` measures.
#[test]
fn thousands_of_grants_cost_what_a_few_do() {
    let policy = Policy::new(&profile("[defaults]\nwrite = \"ask\"\n"));
    let filled = |count: u64| {
        let mut grants = Grants::new();
        for number in 0..count {
            let tree = format!("/srv/tree-{number}");
            grants.add(grant(number, Effect::Allow, Access::Write, &tree, paths(&format!("{tree}/**"))));
        }
        grants
    };
    let time = |grants: &Grants| {
        let at = path("/srv/elsewhere/of/nobody");
        let each = (0..40).map(|_| {
            let begun = Instant::now();
            for _ in 0..50 {
                assert_eq!(policy.decide(Access::Write, &at, CALL, grants).level, Level::Ask);
            }
            begun.elapsed()
        });
        each.min().unwrap()
    };
    let (few, many) = (time(&filled(8)), time(&filled(4096)));
    assert!(many < few * 5, "{few:?} with 8, {many:?} with 4,096");
}
