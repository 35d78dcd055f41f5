//! Verdicts: what beats what, whatever the order, and what moving a directory would take along.

use gated::common::access::{Access, Level};
use gated::common::decision::{Effect, Lifetime};
use gated::common::id::{CallId, GrantId};
use gated::common::path::RawPath;
use gated::common::scope::Pattern;
use gated::policy::model::Rule;
use gated::policy::{Grant, Grants, Policy, Profile, Scope, Source, Verdict, explain};
use proptest::prelude::*;

use super::sample::{CALL, OTHER_CALL, any_level, any_path, any_pattern, path, profile};

const RULES: &str = r#"
[[rule]]
id = "open"
access = ["write"]
path = ["/ws/**"]
level = "allow"

[[rule]]
id = "hooks"
access = ["write"]
path = ["/ws/.git/hooks/**", "**/.envrc"]
except = ["/ws/.git/hooks/README"]
level = "ask"
remember = "call"
reason = "Run later."

[[rule]]
id = "sign"
access = ["write"]
path = ["/ws/release/**"]
level = "authenticate"
remember = "attempt"

[[rule]]
id = "never"
access = ["write"]
path = ["/ws/release/key"]
level = "deny"
"#;

fn grant(pattern: &str, call: Option<CallId>) -> Grant {
    Grant {
        id: GrantId(1),
        effect: Effect::Allow,
        access: Access::Write,
        object: path("/elsewhere"),
        scope: Scope::Paths(Pattern::parse(pattern).unwrap()),
        until: None,
        lifetime: if call.is_some() { Lifetime::Call } else { Lifetime::Session },
        call,
        authenticated: false,
        group: None,
        by: "tty:user".into(),
        origin: None,
    }
}

fn paths(grant: &Grant) -> &Pattern {
    match &grant.scope {
        Scope::Paths(pattern) => pattern,
        other => panic!("{other:?}"),
    }
}

fn grants(all: impl IntoIterator<Item = Grant>) -> Grants {
    let mut grants = Grants::new();
    for grant in all {
        assert!(grants.add(grant));
    }
    grants
}

fn level(policy: &Policy, of: &str) -> Level {
    policy.decide(Access::Write, &path(of), CALL, &Grants::new()).level
}

#[test]
fn the_strictest_rule_that_matches_decides_and_the_default_where_none_does() {
    let policy = Policy::new(&profile(RULES));
    assert_eq!(level(&policy, "/ws/src/a"), Level::Allow);
    assert_eq!(level(&policy, "/ws/.git/hooks/pre-commit"), Level::Ask);
    assert_eq!(level(&policy, "/ws/.git/hooks/README"), Level::Allow, "an exception makes a hole in its own rule only");
    assert_eq!(level(&policy, "/ws/a/.envrc"), Level::Ask);
    assert_eq!(level(&policy, "/ws/release/x"), Level::Authenticate);
    assert_eq!(level(&policy, "/ws/release/key"), Level::Deny);
    assert_eq!(level(&policy, "/etc/passwd"), Level::Ask, "the default");
}

#[test]
fn a_verdict_names_its_rule_with_file_line_and_reason() {
    let policy = Policy::new(&profile(RULES));
    let verdict = policy.decide(Access::Write, &path("/ws/.git/hooks/x"), CALL, &Grants::new());
    assert_eq!(verdict.source, Source::Rule(1));
    assert_eq!(policy.remember(&verdict), Lifetime::Call);
    assert_eq!(explain::rule(&policy.rule(&verdict)), "rule hooks (p.toml:12): Run later.");
    let default = policy.decide(Access::Write, &path("/etc/x"), CALL, &Grants::new());
    assert_eq!(explain::verdict(&policy, &default), "ask: rule default (p.toml)");
    assert_eq!(policy.remember(&default), Lifetime::Persistent);
}

#[test]
fn a_grant_lifts_ask_but_neither_deny_nor_authenticate() {
    let policy = Policy::new(&profile(RULES));
    let held = grants([grant("/ws/**", None), grant("/etc/**", None)]);
    let decide = |of: &str| policy.decide(Access::Write, &path(of), CALL, &held);
    assert_eq!(decide("/ws/.envrc").source, Source::Grant(0));
    assert_eq!(decide("/etc/x").source, Source::Grant(1));
    assert_eq!(decide("/ws/release/x").level, Level::Authenticate);
    assert_eq!(decide("/ws/release/key").level, Level::Deny);
    assert_eq!(decide("/etc/gated/ceiling.toml").level, Level::Deny);
    assert_eq!(policy.rule(&decide("/ws/.envrc")).id, "hooks", "the record says what would have asked");
    let proven = grants([Grant { authenticated: true, ..grant("/ws/**", None) }]);
    assert_eq!(policy.decide(Access::Write, &path("/ws/release/x"), CALL, &proven).level, Level::Allow);
    assert_eq!(policy.decide(Access::Write, &path("/ws/release/key"), CALL, &proven).level, Level::Deny);
}

#[test]
fn a_grant_does_not_lift_a_default_of_deny() {
    let policy = Policy::new(&profile("[defaults]\nwrite = \"deny\"\n"));
    let held = grants([grant("/srv/**", None)]);
    assert_eq!(policy.decide(Access::Write, &path("/srv/x"), CALL, &held).level, Level::Deny);
}

#[test]
fn a_grant_for_a_call_or_another_access_holds_for_nothing_else() {
    let policy = Policy::new(&profile(RULES));
    let held = grants([grant("/etc/**", Some(CALL)), Grant { access: Access::Read, ..grant("/usr/**", None) }]);
    assert_eq!(policy.decide(Access::Write, &path("/etc/x"), CALL, &held).level, Level::Allow);
    assert_eq!(policy.decide(Access::Write, &path("/etc/x"), OTHER_CALL, &held).level, Level::Ask);
    assert_eq!(policy.decide(Access::Write, &path("/usr/x"), CALL, &held).level, Level::Ask);
}

#[test]
fn gateds_own_files_are_denied_whatever_the_profile_says() {
    let mut open = profile("[[rule]]\nid = \"all\"\naccess = [\"write\"]\npath = [\"/**\"]\nlevel = \"allow\"\n");
    open.protect(path("/srv/audit.jsonl"));
    let policy = Policy::new(&open);
    for own in [
        "/etc/gated/profiles/coder.toml",
        "/run/gated/s",
        "/usr/lib/gated/x",
        "/usr/libexec/gated/x",
        "/var/lib/gated/x",
        "/var/log/gated/audit.jsonl",
        "/home/user/.config/gated/profiles/x.toml",
        "/etc/gated",
        "/srv/audit.jsonl",
    ] {
        let verdict = policy.decide(Access::Write, &path(own), CALL, &grants([grant("/**", None)]));
        assert_eq!(verdict.level, Level::Deny, "{own}");
        assert_eq!(policy.rule(&verdict).id, "built-in:gated-files");
    }
    assert_eq!(level(&policy, "/etc/gatedx"), Level::Allow);
    for above in ["/home/user/.config", "/home/user", "/etc", "/", "/srv"] {
        let verdict = policy.below(Access::Write, &path(above), CALL, &Grants::new());
        assert_eq!(verdict.map(|verdict| verdict.level), Some(Level::Deny), "moving {above}");
    }
}

#[test]
fn moving_a_directory_counts_for_the_names_that_would_lie_below_it() {
    let policy = Policy::new(&profile(RULES));
    let none = Grants::new();
    let below =
        |of: &str, held: &Grants| policy.below(Access::Write, &path(of), CALL, held).map(|verdict| verdict.level);
    assert_eq!(below("/ws/.git", &none), Some(Level::Ask));
    assert_eq!(below("/ws/release", &none), Some(Level::Deny));
    assert_eq!(below("/ws/.git/hooks", &none), None, "the rule on the tree speaks about the directory itself");
    assert_eq!(below("/ws/src", &none), None);
    assert_eq!(below("/ws/.git", &grants([grant("/ws/.git/**", None)])), None);
    assert_eq!(
        below("/ws/.git", &grants([grant("/ws/.git", None)])),
        Some(Level::Ask),
        "the directory alone is not enough"
    );
    assert_eq!(below("/ws/.git", &grants([grant("/ws/.git/**", Some(OTHER_CALL))])), Some(Level::Ask));
    assert_eq!(below("/ws/release", &grants([grant("/ws/**", None)])), Some(Level::Deny));
    assert_eq!(policy.below(Access::Read, &path("/ws/.git"), CALL, &none), None);
}

#[test]
fn a_general_rule_on_a_tree_is_no_protection_below_each_directory_in_it() {
    let policy = Policy::new(&profile(
        "[[rule]]\nid = \"all\"\naccess = [\"write\"]\npath = [\"/**\", \"/srv/**\"]\nlevel = \"ask\"\n",
    ));
    assert_eq!(policy.below(Access::Write, &path("/srv/x"), CALL, &Grants::new()), None);
}

#[test]
fn names_that_may_be_anywhere_are_found_by_a_walk() {
    let policy = Policy::new(&profile(RULES));
    assert!(policy.has_floating(Access::Write) && !policy.has_floating(Access::Read));
    let floating =
        |of: &str, held: &Grants| policy.floating(Access::Write, &path(of), CALL, held).map(|verdict| verdict.level);
    assert_eq!(floating("/ws/a/.envrc", &Grants::new()), Some(Level::Ask));
    assert_eq!(floating("/ws/a/.envrc", &grants([grant("/ws/**", None)])), Some(Level::Allow));
    assert_eq!(floating("/ws/release/x", &Grants::new()), None);
    let plain = profile("[[rule]]\nid = \"a\"\naccess = [\"write\"]\npath = [\"/a/**\"]\nlevel = \"ask\"\n");
    assert!(!Policy::new(&plain).has_floating(Access::Write));
    let open = profile("[[rule]]\nid = \"a\"\naccess = [\"write\"]\npath = [\"**/x\"]\nlevel = \"allow\"\n");
    assert!(!Policy::new(&open).has_floating(Access::Write), "what is allowed needs no walk");
}

#[test]
fn scratch_that_is_judged_is_allowed_except_where_a_rule_speaks() {
    let mut own = profile(RULES);
    own.scratch.push(path("/srv/build"));
    let policy = Policy::new(&own);
    let verdict = policy.decide(Access::Write, &path("/srv/build/x"), CALL, &Grants::new());
    assert_eq!((verdict.level, verdict.source), (Level::Allow, Source::Scratch(0)));
    assert_eq!(policy.rule(&verdict).id, "built-in:scratch");
    assert_eq!(level(&policy, "/srv/build/.envrc"), Level::Ask);
}

/// All rules one after the other.
fn naive(profile: &Profile, of: &RawPath, held: &[Grant]) -> (Level, Option<usize>) {
    let own = profile.protected.iter().any(|own| of.is_within(own));
    let matching = profile.rules.iter().enumerate().filter(|(_, rule)| rule.matches(of));
    let mut best: Option<(Level, usize)> = None;
    for (at, rule) in matching {
        if best.is_none_or(|(level, _)| rule.level > level) {
            best = Some((rule.level, at));
        }
    }
    if own {
        return (Level::Deny, None);
    }
    let level = best.map_or(profile.defaults.write, |(level, _)| level);
    let lifted = level < Level::Authenticate && held.iter().any(|grant| paths(grant).matches(of));
    (if lifted { Level::Allow } else { level }, best.map(|(_, at)| at))
}

fn any_rule() -> impl Strategy<Value = Rule> {
    let patterns = |most| prop::collection::vec(any_pattern().prop_map(|text| Pattern::parse(&text).unwrap()), 0..most);
    (any_level(), patterns(4), patterns(3)).prop_map(|(level, path, except)| Rule {
        id: "r".into(),
        file: "p.toml".into(),
        line: 1,
        access: vec![Access::Write],
        path,
        except,
        exec: None,
        network: None,
        services: Vec::new(),
        level,
        remember: Lifetime::Session,
        remember_for: None,
        group: None,
        reason: None,
        is_ceiling: false,
    })
}

fn any_rules() -> impl Strategy<Value = Vec<Rule>> {
    prop::collection::vec(any_rule(), 0..12)
}

fn with_rules(rules: Vec<Rule>, default: Level) -> Profile {
    static EMPTY: std::sync::LazyLock<Profile> = std::sync::LazyLock::new(|| profile(""));
    let mut profile = EMPTY.clone();
    profile.rules = rules;
    profile.defaults.write = default;
    profile.protected = vec![path("/a/b/c")];
    profile
}

fn decide(rules: Vec<Rule>, default: Level, of: &RawPath, held: &Grants) -> Verdict {
    Policy::new(&with_rules(rules, default)).decide(Access::Write, of, CALL, held)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn the_index_agrees_with_trying_every_rule(
        rules in any_rules(), default in any_level(), of in any_path(), given in prop::collection::vec(any_pattern(), 0..3),
    ) {
        let profile = with_rules(rules, default);
        let given: Vec<Grant> = given.iter().map(|text| grant(text, None)).collect();
        let mut held = Grants::new();
        given.iter().for_each(|grant| { held.add(grant.clone()); });
        let verdict = Policy::new(&profile).decide(Access::Write, &of, CALL, &held);
        let (level, rule) = naive(&profile, &of, &given);
        prop_assert_eq!(verdict.level, level);
        let named = match verdict.basis { Source::Rule(at) => Some(at), _ => None };
        prop_assert_eq!(named, rule);
    }

    #[test]
    fn the_order_of_rules_does_not_matter(
        (rules, shuffled) in any_rules().prop_flat_map(|rules| (Just(rules.clone()), Just(rules).prop_shuffle())),
        default in any_level(), of in any_path(),
    ) {
        let none = Grants::new();
        prop_assert_eq!(decide(rules, default, &of, &none).level, decide(shuffled, default, &of, &none).level);
    }

    #[test]
    fn a_deny_that_matches_always_wins(rules in any_rules(), default in any_level(), of in any_path(), given in any_pattern(), at: prop::sample::Index) {
        let mut rules = rules;
        let deny = Rule { path: vec![Pattern::literal(&of)], except: vec![], level: Level::Deny, ..any_deny() };
        rules.insert(at.index(rules.len() + 1), deny);
        prop_assert_eq!(decide(rules, default, &of, &grants([grant(&given, None)])).level, Level::Deny);
    }

    #[test]
    fn a_grant_never_raises_a_level_and_never_lifts_deny(rules in any_rules(), default in any_level(), of in any_path(), given in any_pattern()) {
        let bare = decide(rules.clone(), default, &of, &Grants::new()).level;
        let given = decide(rules, default, &of, &grants([grant(&given, None)])).level;
        prop_assert!(given <= bare);
        prop_assert!(bare < Level::Authenticate || given == bare);
    }

    #[test]
    fn an_allow_rule_makes_nothing_stricter_and_opens_only_what_no_rule_speaks_about(rules in any_rules(), default in any_level(), of in any_path(), opened in any_pattern()) {
        let bare = decide(rules.clone(), default, &of, &Grants::new());
        let mut more = rules;
        more.push(Rule { path: vec![Pattern::parse(&opened).unwrap()], except: vec![], level: Level::Allow, ..any_deny() });
        let open = decide(more, default, &of, &Grants::new());
        prop_assert!(open.level <= bare.level);
        prop_assert!(bare.basis == Source::Default || open.level == bare.level);
    }

    #[test]
    fn an_exception_never_makes_its_rule_match_more(rule in any_rule(), of in any_path()) {
        let whole = Rule { except: vec![], ..rule.clone() };
        prop_assert!(!rule.matches(&of) || whole.matches(&of));
    }

    #[test]
    fn what_lies_below_a_directory_is_found_as_by_trying_every_rule(rules in any_rules(), of in any_path(), given in any_pattern()) {
        use gated::common::scope::Reach;
        let profile = with_rules(rules, Level::Ask);
        let names: Vec<&[u8]> = of.components().collect();
        let held = grant(&given, None);
        let mut patterns: Vec<(Level, Pattern)> = vec![(Level::Deny, Pattern::parse("/a/b/c/**").unwrap())];
        for rule in &profile.rules {
            patterns.extend(rule.path.iter().map(|pattern| (rule.level, pattern.clone())));
        }
        let expected = patterns.iter()
            .filter(|(level, pattern)| *level > Level::Allow && pattern.reach_below(&names) == Reach::Named)
            .filter(|(level, pattern)| *level >= Level::Authenticate || !paths(&held).covers(pattern))
            .map(|(level, _)| *level).max();
        let found = Policy::new(&profile).below(Access::Write, &of, CALL, &grants([held])).map(|verdict| verdict.level);
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn a_profile_survives_the_way_to_the_supervisor(rules in any_rules(), default in any_level()) {
        let profile = with_rules(rules, default);
        prop_assert_eq!(Profile::decode(&profile.encode()).unwrap(), profile);
    }

    #[test]
    fn bytes_that_are_no_profile_are_refused(noise in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut bytes = profile(RULES).encode();
        bytes.extend_from_slice(&noise);
        prop_assert_eq!(Profile::decode(&bytes).is_ok(), noise.is_empty());
        let _ = Profile::decode(&noise);
    }
}

fn any_deny() -> Rule {
    Rule {
        id: "d".into(),
        file: "p.toml".into(),
        line: 1,
        access: vec![Access::Write],
        path: vec![],
        except: vec![],
        exec: None,
        network: None,
        services: Vec::new(),
        level: Level::Deny,
        remember: Lifetime::Session,
        remember_for: None,
        group: None,
        reason: None,
        is_ceiling: false,
    }
}

const TWO_ASK: &str = r#"
[[rule]]
id = "tree"
access = ["write"]
path = ["/srv/**"]
level = "ask"

[[rule]]
id = "deploy"
access = ["write"]
path = ["/srv/app/live", "/srv/app/live/**"]
level = "ask"
ask = { group = "deployers" }

[[rule]]
id = "sign"
access = ["write"]
path = ["/srv/sign"]
level = "authenticate"
ask = { group = "signers" }
"#;

#[test]
fn a_rule_that_asks_a_group_is_before_one_that_asks_the_user() {
    let policy = Policy::new(&profile(TWO_ASK));
    let group = |of: &str| {
        let verdict = policy.decide(Access::Write, &path(of), CALL, &Grants::new());
        (policy.rule(&verdict).id, policy.group(&verdict).map(str::to_owned), verdict.level)
    };
    assert_eq!(group("/srv/app/live/x"), ("deploy".into(), Some("deployers".into()), Level::Ask));
    assert_eq!(group("/srv/app/x"), ("tree".into(), None, Level::Ask));
    assert_eq!(group("/srv/sign"), ("sign".into(), Some("signers".into()), Level::Authenticate));
    assert_eq!(group("/opt/x"), ("default".into(), None, Level::Ask));
}

#[test]
fn an_answer_lifts_only_what_asks_the_same_people() {
    let policy = Policy::new(&profile(TWO_ASK));
    let of = |group: Option<&str>, authenticated| Grant {
        group: group.map(str::to_owned),
        authenticated,
        ..grant("/srv/**", None)
    };
    let level = |grants: &Grants, of: &str| policy.decide(Access::Write, &path(of), CALL, grants).level;
    let own = grants([of(None, true)]);
    assert_eq!((level(&own, "/srv/app/x"), level(&own, "/srv/app/live/x")), (Level::Allow, Level::Ask));
    let theirs = grants([of(Some("deployers"), false)]);
    assert_eq!((level(&theirs, "/srv/app/x"), level(&theirs, "/srv/app/live/x")), (Level::Ask, Level::Allow));
    let others = grants([of(Some("signers"), false), of(Some("deployers"), true)]);
    assert_eq!(level(&others, "/srv/sign"), Level::Authenticate);
    assert_eq!(level(&grants([of(Some("signers"), true)]), "/srv/sign"), Level::Allow);
    // The same for moving what they guard.
    let below = |grants: &Grants| policy.below(Access::Write, &path("/srv/app"), CALL, grants);
    assert_eq!(
        below(&own).map(|verdict| policy.group(&verdict).map(str::to_owned)),
        Some(Some("deployers".to_owned()))
    );
    assert_eq!(below(&theirs), None);
}
