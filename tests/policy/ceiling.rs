//! The admin's limit: where it is found, whom it lets start sessions, and what is said about a broken one.

use std::io;
use std::path::Path;

use gated::common::access::{Access, Level};
use gated::common::decision::{Lifetime, Term, Width};
use gated::common::id::GrantId;
use gated::common::request::{Request, RuleRef};
use gated::policy::{Bounds, Ceiling, Context, Grant, Grants, Policy, PolicyError, Profile, plan};

use super::network::{bind, said};
use super::sample::*;

fn load(files: &Files) -> Result<Ceiling, PolicyError> {
    Ceiling::load(&|file: &Path| files.read(file))
}

fn of(text: &str) -> Result<Ceiling, String> {
    load(&Files::default().with("/etc/gated/ceiling.toml", text)).map_err(|error| error.to_string())
}

fn may(ceiling: &Ceiling, name: &str, groups: &[&str]) -> bool {
    ceiling.may_run(name, &groups.iter().map(|&group| group.to_owned()).collect())
}

#[test]
fn without_a_list_every_user_may_and_with_an_empty_one_nobody() {
    for open in ["schema = 1\n", "schema = 1\n[users]\n"] {
        assert!(may(&of(open).unwrap(), "alice", &[]), "{open}");
    }
    assert!(may(&load(&Files::default()).unwrap(), "alice", &[]));
    let nobody = of("schema = 1\n[users]\nmay_run = []\n").unwrap();
    assert!(!may(&nobody, "alice", &["users"]) && !may(&nobody, "", &[""]));
}

#[test]
fn a_list_names_users_and_groups() {
    let some = of("schema = 1\n[users]\nmay_run = [\"@developers\", \"ci\", \"@CORP\\\\domain users\"]\n").unwrap();
    assert!(may(&some, "alice", &["users", "developers"]) && may(&some, "ci", &[]));
    assert!(may(&some, "CORP\\bob", &["CORP\\domain users"]));
    // A name is no group and a group no name, whatever they are called.
    assert!(!may(&some, "developers", &["ci"]) && !may(&some, "@developers", &["@developers"]));
    assert!(!may(&some, "Ci", &["developer"]));
}

#[test]
fn the_highest_file_decides_alone() {
    let folders = ["/etc/gated", "/run/gated", "/usr/lib/gated"];
    let mut files = Files::default();
    for (number, folder) in folders.iter().rev().enumerate() {
        files = files
            .with(&format!("{folder}/ceiling.toml"), &format!("schema = 1\n[users]\nmay_run = [\"user{number}\"]\n"));
        let ceiling = load(&files).unwrap();
        assert!(may(&ceiling, &format!("user{number}"), &[]) && !may(&ceiling, "other", &[]));
    }
    let masked = load(&files.with("/etc/gated/ceiling.toml", "")).unwrap();
    assert_eq!(masked, Ceiling::default());
    let unreadable = Ceiling::load(&|_| Err(io::ErrorKind::PermissionDenied.into()));
    assert!(matches!(unreadable, Err(PolicyError::Unreadable { file, .. }) if file == "/etc/gated/ceiling.toml"));
}

#[test]
fn what_nothing_would_hold_is_refused_with_its_place() {
    let cases = [
        ("", "accepted"),
        ("schema = 1", "accepted"),
        ("[users]\nmay_run = []", "1:1: `schema = 1` is missing"),
        ("schema = 2", "1:10: schema 2 is not known; this version reads schema 1"),
        ("schema = 1\n[[floor]]\naccess = [\"write\"]\npath = [\"/etc/**\"]\nlevel = \"deny\"", "accepted"),
        (
            "schema = 1\n[[floor]]\naccess = [\"exec\"]\nlevel = \"allow\"",
            "4:9: a floor makes nothing freer; a level above `allow` was expected",
        ),
        (
            "schema = 1\n[[floor]]\naccess = []\nlevel = \"ask\"",
            "3:10: a rule without an access; `read`, `write` or `exec` was expected",
        ),
        ("schema = 1\n[[floor]]\nlevel = \"ask\"", "2:1: missing key `access`"),
        (
            "schema = 1\n[[floor]]\naccess = [\"exec\"]\nlevel = \"ask\"\npath = [\"/x\"]",
            "5:9: `path` is for files; a rule on programs has `program` and `argv`",
        ),
        (
            "schema = 1\n[[floor]]\naccess = [\"write\"]\nlevel = \"ask\"\npath = [\"{workspace}/x\"]",
            "5:9: `{workspace}` is not in [vars]; known here: `user`",
        ),
        ("schema = 1\n[[floor]]\naccess = [\"write\"]\nlevel = \"ask\"\ngroup = \"\"", "5:9: `` is no name of a group"),
        (
            "schema = 1\n[[floor]]\naccess = [\"write\"]\nlevel = \"ask\"\nremember = \"call\"",
            "5:1: unknown key `remember`, expected one of `id`, `access`, `level`, `group`, `user`, `reason`, `path`, `except`, `examples`, `program`, `argv`, `env`, `host`, `cidr`, `port`, `protocol`, `socket`",
        ),
        (
            "schema = 1\n[[floor]]\naccess = [\"connect\"]\nlevel = \"deny\"\ncidr = [\"169.254.169.254/31\"]\nexamples = { match = [\"192.0.2.1:80\"] }",
            "6:23: rule `floor-1`: the example `192.0.2.1:80` does not match, but is in `match`",
        ),
        (
            "schema = 1\n[[floor]]\naccess = [\"unix\"]\nlevel = \"ask\"\nsocket = [\"@docker\"]",
            "5:11: `@docker` is denied whatever a rule says: This is root on this machine.",
        ),
        ("schema = 1\n[users]\nmay_write_profiles = true", "accepted"),
        ("schema = 1\n[users]\nmay_write_profiles = \"no\"", "3:22: invalid type: string \"no\", expected a boolean"),
        ("schema = 1\n[users]\nlifetimes = [\"attempt\", \"call\"]", "accepted"),
        (
            "schema = 1\n[users]\nlifetimes = [\"call\"]",
            "3:13: `attempt` was expected: without it nothing could be answered",
        ),
        ("schema = 1\n[users]\nlifetimes = []", "3:13: `attempt` was expected: without it nothing could be answered"),
        (
            "schema = 1\n[users]\nlifetimes = [\"attempt\", \"session\"]",
            "3:25: `session` without `call`, which is shorter",
        ),
        (
            "schema = 1\n[users]\nlifetimes = [\"attempt\", \"for ever\"]",
            "3:25: unknown value `for ever`, expected one of `attempt`, `call`, `session`, `until`, `persistent`",
        ),
        (
            "schema = 1\n[users]\nlifetimes = [\"attempt\", \"call\", \"session\", \"until\"]",
            "3:13: `until` is the longest, so `max_for` has to say for how long",
        ),
        ("schema = 1\n[users]\nmax_for = \"8h\"", "accepted"),
        (
            "schema = 1\n[users]\nmax_for = \"8 hours\"",
            "3:11: `8 hours` is no duration; `60s`, `15m` or `8h` was expected",
        ),
        (
            "schema = 1\n[users]\nmay_runn = []",
            "3:1: unknown key `may_runn`, expected one of `may_run`, `may_write_profiles`, `lifetimes`, `max_for`",
        ),
        ("schema = 1\n[colour]", "2:2: unknown key `colour`, expected one of `schema`, `users`, `floor`"),
        (
            "schema = 1\n[users]\nmay_run = \"alice\"",
            "3:11: invalid type: string \"alice\", expected a list in brackets",
        ),
        ("schema = 1\n[users]\nmay_run = [\"a\",\n  \"\"]", "4:3: `` is neither a user's name nor `@` and a group's"),
        ("schema = 1\n[users]\nmay_run = [\"@\"]", "3:12: `@` is neither a user's name nor `@` and a group's"),
        (
            "schema = 1\n[users]\nmay_run = [\"a\\u202eb\"]",
            "3:12: `a\\u{202e}b` is neither a user's name nor `@` and a group's",
        ),
        ("schema = 1\n[users]\nmay_run = [\"*\"]", "3:12: `*` is neither a user's name nor `@` and a group's"),
    ];
    for (text, expected) in cases {
        let said = of(text).map_or_else(|error| error, |_| "accepted".to_owned());
        assert_eq!(said.trim_start_matches("/etc/gated/ceiling.toml:"), expected, "{text}");
    }
}

const FLOORS: &str = r#"
schema = 1

[[floor]]
access = ["write"]
path = ["/etc/**", "~/.config/autostart/**"]
level = "deny"
reason = "Runs at the next login."

[[floor]]
group = "interns"
access = ["connect"]
level = "authenticate"

[[floor]]
user = "bob"
access = ["exec"]
argv = ["git", "push", "**"]
level = "ask"

[[floor]]
id = "all-sockets"
access = ["unix"]
level = "deny"

[users]
lifetimes = ["attempt", "call", "session", "until"]
max_for = "8h"
"#;

fn rules_for(ceiling: &Ceiling, user: &str, groups: &[&str]) -> Vec<(String, u32)> {
    let context = Context { user: user.to_owned(), ..context() };
    let groups = groups.iter().map(|&group| group.to_owned()).collect();
    let rules = ceiling.rules(&context, &groups).unwrap();
    assert!(rules.iter().all(|rule| rule.is_ceiling && rule.file == "/etc/gated/ceiling.toml"));
    rules.into_iter().map(|rule| (rule.id, rule.line)).collect()
}

fn covered(ceiling: &Ceiling, rest: &str) -> Result<Profile, String> {
    let mut profile = profile(rest);
    let groups = ["interns".to_owned()].into();
    ceiling.cover(&mut profile, &context(), &groups).map_err(|error| error.to_string())?;
    Ok(profile)
}

#[test]
fn a_floor_is_for_everybody_or_for_whom_it_names() {
    let ceiling = of(FLOORS).unwrap();
    let everybodys = [("floor-1".to_owned(), 4), ("all-sockets".to_owned(), 22)];
    assert_eq!(rules_for(&ceiling, "alice", &["staff"]), everybodys);
    let ids = |user: &str, groups: &[&str]| {
        rules_for(&ceiling, user, groups).into_iter().map(|(id, _)| id).collect::<Vec<_>>()
    };
    assert_eq!(ids("alice", &["interns"]), ["floor-1", "floor-2", "all-sockets"]);
    assert_eq!(ids("bob", &[]), ["floor-1", "floor-3", "all-sockets"]);
    // A name is no group and a group no name.
    assert_eq!(ids("interns", &["bob"]), ["floor-1", "all-sockets"]);
}

#[test]
fn a_floor_raises_what_a_profile_says_and_never_lowers_it() {
    let ceiling = of(FLOORS).unwrap();
    let rest = "[scratch]\npath = [\"/srv/build/**\"]\n[defaults]\nwrite = \"allow\"\nconnect = \"deny\"\nunix = \"allow\"\n\
                [[rule]]\nid = \"open\"\naccess = [\"write\"]\npath = [\"/etc/**\"]\nlevel = \"allow\"\n";
    let policy = Policy::new(&covered(&ceiling, rest).unwrap());
    let write = |at: &str| policy.decide(Access::Write, &path(at), CALL, &Grants::new());
    let denied = write("/etc/hosts");
    assert_eq!(denied.level, Level::Deny);
    assert_eq!(
        policy.rule(&denied),
        RuleRef {
            profile: "ceiling".into(),
            id: "floor-1".into(),
            file: "/etc/gated/ceiling.toml".into(),
            line: 4,
            reason: Some("Runs at the next login.".into())
        }
    );
    assert_eq!(write("/home/user/.config/autostart/x").level, Level::Deny);
    assert_eq!((write("/var/x").level, write("/srv/build/x").level), (Level::Allow, Level::Allow));
    // Moving what holds a place of the ceiling's is a change of it.
    assert_eq!(
        policy.below(Access::Write, &path("/home/user/.config"), CALL, &Grants::new()).unwrap().level,
        Level::Deny
    );
    // What the profile denies by default, a floor that asks does not open.
    assert_eq!(said(&policy, "93.184.215.14:443 a.example.org"), (Level::Deny, "default".into()));
    assert_eq!(policy.decide_unix(&path("/run/x"), None, CALL, &Grants::new()).level, Level::Deny);
}

#[test]
fn a_floor_leaves_an_answer_to_whom_a_rule_asks_and_for_as_long() {
    let ceiling =
        of("schema = 1\n[[floor]]\naccess = [\"write\"]\npath = [\"/srv/**\"]\nlevel = \"authenticate\"\n").unwrap();
    let rule = "[[rule]]\nid = \"deploy\"\naccess = [\"write\"]\npath = [\"/srv/www/**\"]\nlevel = \"ask\"\nremember = \"call\"\nask = { group = \"deployers\" }\n";
    let policy = Policy::new(&covered(&ceiling, rule).unwrap());
    let verdict = policy.decide(Access::Write, &path("/srv/www/x"), CALL, &Grants::new());
    assert_eq!(verdict.level, Level::Authenticate);
    assert_eq!((policy.rule(&verdict).id.as_str(), policy.group(&verdict)), ("floor-1", Some("deployers")));
    assert_eq!(policy.remember(&verdict), Lifetime::Call);
    let asked = Request {
        level: verdict.level,
        group: Some("deployers".into()),
        ..request("/srv/www/x", false, Lifetime::Call)
    };
    let yes =
        Grant::from_answer(GrantId(1), &asked, Width::Exact, Term::Call, "t", &bounds(&path("/home/user"))).unwrap();
    for (authenticated, group, lifts) in
        [(true, Some("deployers"), true), (false, Some("deployers"), false), (true, None, false)]
    {
        let mut grants = Grants::new();
        grants.add(Grant { authenticated, group: group.map(str::to_owned), ..yes.clone() });
        let level = policy.decide(Access::Write, &path("/srv/www/x"), CALL, &grants).level;
        assert_eq!(level == Level::Allow, lifts, "{authenticated} {group:?}");
    }
}

#[test]
fn a_floor_on_hosts_makes_no_session_reachable_and_no_name_lead_inside() {
    let ceiling = of("schema = 1\n[[floor]]\naccess = [\"bind\", \"connect\"]\nlevel = \"ask\"\n").unwrap();
    let rest = "[defaults]\nbind = \"allow\"\nconnect = \"allow\"\n";
    let policy = Policy::new(&covered(&ceiling, rest).unwrap());
    assert_eq!(bind(&policy, "127.0.0.1:3000", &Grants::new()), (Level::Ask, false));
    assert_eq!(said(&policy, "10.0.0.1:80 inside.example"), (Level::Deny, "built-in:rebinding".into()));
    assert_eq!(said(&policy, "192.0.2.1:53/udp"), (Level::Deny, "built-in:udp".into()));
    assert_eq!(said(&policy, "192.0.2.1:80"), (Level::Ask, "floor-1".into()));
    assert_eq!(said(&policy, "a.example"), (Level::Ask, "floor-1".into()));
    let udp = Policy::new(&covered(&ceiling, &format!("{rest}[[rule]]\nid = \"clock\"\naccess = [\"connect\"]\nhost = [\"192.0.2.1:123\"]\nprotocol = [\"udp\"]\nlevel = \"allow\"\n")).unwrap());
    assert_eq!(said(&udp, "192.0.2.1:123/udp"), (Level::Ask, "floor-1".into()));
}

#[test]
fn answers_are_cut_to_what_the_ceiling_and_the_profile_allow() {
    let limits = |ceiling: &str, grants: &str| {
        let ceiling = of(&format!("schema = 1\n[users]\n{ceiling}")).unwrap();
        let limits = covered(&ceiling, &format!("[grants]\n{grants}")).unwrap().grants.limits();
        (limits.longest, limits.max_for.map(|time| time.as_secs()))
    };
    assert_eq!(limits("", "persistent = true"), (Lifetime::Persistent, None));
    assert_eq!(limits("", ""), (Lifetime::Session, None));
    assert_eq!(limits("max_for = \"1h\"", "persistent = true\nmax_for = \"8h\""), (Lifetime::Until, Some(3600)));
    assert_eq!(limits("max_for = \"8h\"", "persistent = true\nmax_for = \"1h\""), (Lifetime::Until, Some(3600)));
    assert_eq!(limits("lifetimes = [\"attempt\", \"call\"]", "persistent = true"), (Lifetime::Call, None));
    assert_eq!(limits("lifetimes = [\"attempt\"]", ""), (Lifetime::Attempt, None));
    let all = "lifetimes = [\"attempt\", \"call\", \"session\", \"until\", \"persistent\"]\nmax_for = \"1h\"";
    assert_eq!(limits(all, "persistent = true"), (Lifetime::Persistent, Some(3600)));
}

#[test]
fn a_profile_has_only_the_widths_offered_that_it_lists() {
    let some = profile("[grants]\nwidths = [\"directory\"]\n");
    let home = path("/home/user");
    let bounds = Bounds { home: &home, limits: some.grants.limits() };
    let asked = request("/srv/www/x", false, Lifetime::Session);
    assert_eq!(bounds.offered(&asked), [Width::Exact, Width::Directory]);
    assert!(Grant::from_answer(GrantId(1), &asked, Width::Tree, Term::Session, "t", &bounds).is_err());
    // A no may reach further than a yes.
    assert!(Grant::from_denial(GrantId(1), &asked, Width::Tree, Term::Session, "t", &bounds).is_ok());
}

#[test]
fn what_cannot_be_held_under_a_floor_is_refused() {
    let ceiling = of(FLOORS).unwrap();
    assert_eq!(
        covered(&ceiling, "network = \"host\"\n").unwrap_err(),
        "/etc/gated/ceiling.toml:10:1: this floor cannot be held with network = \"host\", which profile `p` has (p.toml)"
    );
    let talking = covered(&ceiling, "[dbus]\nsession = [\"org.example.A\"]\n").unwrap();
    assert!(talking.bus_names.session.is_empty());
    assert_eq!(talking.notes, ["/etc/gated/ceiling.toml:22: no name of [dbus] is reached on this bus (@session_bus)."]);
}

#[test]
fn no_place_of_a_floor_is_native() {
    let scratch_under = |floor: &str| {
        let ceiling = of(&format!("schema = 1\n[[floor]]\naccess = [\"write\"]\nlevel = \"ask\"\n{floor}\n")).unwrap();
        let profile = covered(&ceiling, "[scratch]\npath = [\"/srv/build/**\"]\n").unwrap();
        plan::scratch(&profile, &[path("/tmp")], &path("/home/user/project"), &[]).native
    };
    assert_eq!(scratch_under("path = [\"/etc/**\"]"), [path("/tmp"), path("/srv/build")]);
    for floor in
        ["", "path = [\"/srv/**\"]", "path = [\"/srv/build/x/y\"]", "path = [\"**/.envrc\"]", "path = [\"/srv/build\"]"]
    {
        assert_eq!(scratch_under(floor), [path("/tmp")], "{floor}");
    }
    assert_eq!(scratch_under("path = [\"/tmp/x/**\"]"), [path("/srv/build")]);
}
