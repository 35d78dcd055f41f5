//! Verdicts on names, connections and listening sockets, and how far answers about them reach.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use gated::common::access::{Access, Level};
use gated::common::decision::{Lifetime, Term, Width};
use gated::common::id::GrantId;
use gated::common::moment::{Expiry, Moment};
use gated::common::net::{Destination, HostName, Knowledge, Named, Transport, Zone};
use gated::common::path::RawPath;
use gated::common::request::{Operation, Request};
use gated::policy::grants::offered_widths;
use gated::policy::network::Reaching;
use gated::policy::{Grant, Grants, Policy, Source, Verdict};
use proptest::prelude::*;

use super::sample::{CALL, OTHER_CALL, any_level, bounds, path, profile, request};

fn name(text: &str) -> HostName {
    text.parse().unwrap()
}

/// `192.0.2.1:443`, with names behind blanks: `=name` of the hosts file, `name` by DNS; `/udp` at the end; a name alone is
/// looked up.
pub fn destination(text: &str) -> Destination {
    let (text, transport) = match text.strip_suffix("/udp") {
        Some(text) => (text, Transport::Udp),
        None => (text, Transport::Tcp),
    };
    let mut words = text.split(' ');
    let first = words.next().unwrap();
    let Ok(address) = first.parse::<SocketAddr>() else { return Destination::name(name(first)) };
    let names = words.map(|word| match word.strip_prefix('=') {
        Some(own) => Named { name: name(own), by: Knowledge::HostsFile },
        None => Named { name: name(word), by: Knowledge::Resolved },
    });
    Destination::address(address, transport, names.collect())
}

fn curl() -> Option<RawPath> {
    Some(path("/usr/bin/curl"))
}

fn connect(policy: &Policy, to: &str, grants: &Grants) -> Verdict {
    policy.decide_connect(&Reaching { destination: &destination(to), program: &curl }, CALL, grants)
}

/// The level, and the id of the rule.
pub fn said(policy: &Policy, to: &str) -> (Level, String) {
    let verdict = connect(policy, to, &Grants::new());
    (verdict.level, policy.rule(&verdict).id)
}

pub fn bind(policy: &Policy, at: &str, grants: &Grants) -> (Level, bool) {
    let destination = destination(at);
    let reaching = Reaching { destination: &destination, program: &curl };
    (policy.decide_bind(&reaching, CALL, grants).level, policy.speaks_of_bind(&reaching, CALL, grants))
}

fn policy(rules: &str) -> Policy {
    Policy::new(&profile(rules))
}

/// The question that this destination would be.
pub fn asked(policy: &Policy, access: Access, to: &str) -> Request {
    let destination = destination(to);
    let reaching = Reaching { destination: &destination, program: &curl };
    let verdict = match access {
        Access::Bind => policy.decide_bind(&reaching, CALL, &Grants::new()),
        _ => policy.decide_connect(&reaching, CALL, &Grants::new()),
    };
    let shown = policy.as_asked(access, &reaching, CALL, &Grants::new());
    let operation = match (access, shown.ip()) {
        (Access::Bind, _) => Operation::Listen,
        (_, None) => Operation::LookUp,
        _ => Operation::Connect,
    };
    let mut request = Request {
        access,
        operation,
        object: shown.object(),
        level: verdict.level,
        remember: policy.remember(&verdict),
        remember_for: policy.remember_for(&verdict),
        group: policy.group(&verdict).map(str::to_owned),
        destination: Some(Box::new(shown)),
        ..request("/", false, Lifetime::Session)
    };
    request.who.program = path("/usr/bin/curl");
    request
}

fn answer(request: &Request, width: Width) -> Option<Grant> {
    Grant::from_answer(GrantId(1), request, width, Term::Session, "tty:user", &bounds(&path("/home/user"))).ok()
}

fn scope(policy: &Policy, to: &str, width: Width) -> Option<String> {
    answer(&asked(policy, Access::Connect, to), width).map(|grant| grant.scope())
}

fn with(grant: Grant) -> Grants {
    let mut grants = Grants::new();
    assert!(grants.add(grant));
    grants
}

const RULES: &str = r#"
[[rule]]
id = "registries"
access = ["connect"]
host = ["registry.npmjs.org:443", "*.crates.io:443", "192.0.2.9:22"]
level = "allow"

[[rule]]
id = "tunnel"
access = ["connect"]
host = ["*.bad.example:*"]
except = ["good.bad.example:443"]
level = "deny"

[[rule]]
id = "lab"
access = ["connect"]
cidr = ["10.1.0.0/16"]
port = "5000-5999"
level = "ask"
remember = "10m"

[[rule]]
id = "metadata"
access = ["connect"]
cidr = ["169.254.0.0/16", "198.51.100.0/24"]
level = "deny"
reason = "Credentials."

[[rule]]
id = "db"
access = ["connect"]
host = ["db.corp:5432", "localhost:3000-3999"]
level = "allow"

[[rule]]
id = "time"
access = ["connect"]
host = ["time.example.org:123"]
protocol = ["udp"]
level = "allow"

[[rule]]
id = "ping"
access = ["connect"]
cidr = ["203.0.113.0/24"]
protocol = ["tcp", "udp"]
level = "notify"
"#;

#[test]
fn a_denied_localhost_is_every_loopback_address_and_an_allowed_one_is_not() {
    let with = |default: &str, level: &str| {
        let rule = format!(
            "[[rule]]\nid = \"own\"\naccess = [\"connect\"]\nhost = [\"localhost:8080\"]\nlevel = \"{level}\"\n"
        );
        policy(&format!("[defaults]\nconnect = \"{default}\"\n{rule}"))
    };
    let (denies, asks, allows) = (with("allow", "deny"), with("allow", "ask"), with("deny", "allow"));
    for to in [
        "127.0.0.1:8080",
        "127.0.0.9:8080",
        "127.255.255.254:8080",
        "[::1]:8080",
        "[::ffff:127.0.0.9]:8080",
        "0.0.0.0:8080",
    ] {
        assert_eq!(said(&denies, to), (Level::Deny, "own".to_owned()), "{to}");
        assert_eq!(said(&asks, to), (Level::Ask, "own".to_owned()), "{to}");
    }
    for to in ["127.0.0.9:8081", "192.0.2.1:8080", "192.0.2.1:8080 localhost.example"] {
        assert_eq!(said(&denies, to).0, Level::Allow, "{to}");
    }
    assert_eq!(said(&allows, "127.0.0.1:8080"), (Level::Allow, "own".to_owned()));
    for to in ["127.0.0.9:8080", "[::ffff:127.0.0.9]:8080"] {
        assert_eq!(said(&allows, to).0, Level::Deny, "{to}");
    }
}

#[test]
fn a_connection_is_judged_by_its_names_and_its_address() {
    use Level::{Allow, Ask, Deny, Notify};
    let policy = policy(RULES);
    for (to, level, rule) in [
        ("93.184.215.14:443 registry.npmjs.org", Allow, "registries"),
        ("93.184.215.14:80 registry.npmjs.org", Ask, "default"),
        ("93.184.215.14:443 static.crates.io", Allow, "registries"),
        ("93.184.215.14:443 a.b.crates.io", Allow, "registries"),
        ("93.184.215.14:443 crates.io", Ask, "default"),
        ("93.184.215.14:443 notcrates.io", Ask, "default"),
        ("93.184.215.14:443", Ask, "default"),
        ("192.0.2.9:22", Allow, "registries"),
        ("192.0.2.9:22 whatever.example", Allow, "registries"),
        ("[::ffff:192.0.2.9]:22", Allow, "registries"),
        // The least strict of the names, but any deny.
        ("93.184.215.14:443 unknown.example registry.npmjs.org", Allow, "registries"),
        ("93.184.215.14:443 registry.npmjs.org x.bad.example", Deny, "tunnel"),
        ("93.184.215.14:443 good.bad.example", Ask, "default"),
        ("93.184.215.14:80 good.bad.example", Deny, "tunnel"),
        // A name does not open a range that is denied.
        ("198.51.100.4:443 registry.npmjs.org", Deny, "metadata"),
        ("203.0.113.4:443 registry.npmjs.org", Notify, "ping"),
        ("203.0.113.4:443/udp", Notify, "ping"),
        // Private, loopback, link-local, metadata: no name gives them, rules on addresses do.
        ("10.1.2.3:5432", Ask, "lab"),
        ("10.1.2.3:5432 evil.example", Ask, "lab"),
        ("10.1.2.3:80 evil.example", Deny, "built-in:rebinding"),
        ("10.9.2.3:5432 db.corp", Deny, "built-in:rebinding"),
        ("10.9.2.3:5432 =db.corp", Allow, "db"),
        ("10.9.2.3:5432 evil.example =db.corp", Allow, "db"),
        ("10.9.2.3:80", Ask, "default"),
        ("[fd12::1]:443 registry.npmjs.org", Deny, "built-in:rebinding"),
        ("127.0.0.1:3000", Allow, "db"),
        ("[::1]:3999", Allow, "db"),
        ("0.0.0.0:3000", Allow, "db"),
        ("[::]:3000", Allow, "db"),
        ("127.0.0.2:3000", Ask, "default"),
        ("127.0.0.1:4000", Ask, "default"),
        ("127.0.0.1:4000 evil.example", Deny, "built-in:rebinding"),
        ("127.0.0.1:4000 =localhost evil.example", Deny, "built-in:rebinding"),
        ("127.0.0.1:443 registry.npmjs.org", Deny, "built-in:rebinding"),
        ("169.254.169.254:80", Deny, "metadata"),
        ("[::ffff:169.254.169.254]:80", Deny, "metadata"),
        ("[64:ff9b::a9fe:a9fe]:80", Deny, "metadata"),
        ("[2002:a9fe:a9fe::1]:80", Deny, "metadata"),
        ("[fd00:ec2::254]:80 registry.npmjs.org", Deny, "built-in:rebinding"),
        ("224.0.0.251:443 registry.npmjs.org", Deny, "built-in:rebinding"),
        // `localhost` from DNS is nobody.
        ("93.184.215.14:3000 localhost", Deny, "built-in:rebinding"),
        // Datagrams only where a rule says so.
        ("93.184.215.14:123 time.example.org/udp", Allow, "time"),
        ("93.184.215.14:123 time.example.org", Ask, "default"),
        ("93.184.215.14:443 registry.npmjs.org/udp", Deny, "built-in:udp"),
        ("93.184.215.14:443/udp", Deny, "built-in:udp"),
    ] {
        assert_eq!(said(&policy, to), (level, rule.to_owned()), "{to}");
    }
}

#[test]
fn a_name_is_looked_up_where_some_port_may_be_reached() {
    use Level::{Allow, Ask, Deny};
    let policy = policy(RULES);
    for (to, level) in [
        ("registry.npmjs.org", Allow),
        ("unknown.example", Ask),
        ("x.bad.example", Deny),
        ("good.bad.example", Ask),
        ("db.corp", Allow),
        ("time.example.org", Allow),
    ] {
        assert_eq!(said(&policy, to).0, level, "{to}");
    }
    let closed = super::network::policy(&format!("[defaults]\nconnect = \"deny\"\n{RULES}"));
    for (to, level) in [
        ("unknown.example", Deny),
        ("registry.npmjs.org", Allow),
        ("good.bad.example", Deny),
        ("time.example.org", Allow),
    ] {
        assert_eq!(said(&closed, to).0, level, "{to}");
    }
}

#[test]
fn a_star_that_asks_or_denies_means_addresses_without_a_name_too() {
    let rules = |level: &str, default: &str| {
        policy(&format!(
            "[defaults]\nconnect = \"{default}\"\n[[rule]]\nid = \"all\"\naccess = [\"connect\"]\nhost = [\"*:25\"]\nlevel = \"{level}\"\n"
        ))
    };
    assert_eq!(said(&rules("deny", "ask"), "93.184.215.14:25").0, Level::Deny);
    assert_eq!(said(&rules("authenticate", "allow"), "93.184.215.14:25").0, Level::Authenticate);
    assert_eq!(said(&rules("deny", "ask"), "93.184.215.14:26").0, Level::Ask);
    // It opens none.
    assert_eq!(said(&rules("allow", "ask"), "93.184.215.14:25").0, Level::Ask);
    assert_eq!(said(&rules("ask", "deny"), "93.184.215.14:25").0, Level::Deny);
    assert_eq!(said(&rules("allow", "ask"), "10.0.0.1:25 evil.example").0, Level::Deny);
}

/// What is connected to as `0.0.0.0` is this machine, whatever rules call it.
#[test]
fn every_spelling_of_this_machine_is_this_machine() {
    let near = policy(
        "[[rule]]\nid = \"near\"\naccess = [\"connect\"]\ncidr = [\"127.0.0.0/8\", \"::1/128\"]\nlevel = \"deny\"\n",
    );
    for to in [
        "127.0.0.1:1",
        "127.255.0.1:1",
        "[::1]:1",
        "0.0.0.0:1",
        "[::]:1",
        "[::ffff:127.0.0.1]:1",
        "[::ffff:0.0.0.0]:1",
        "[64:ff9b::7f00:1]:1",
        "[2002:7f00:1::]:1",
        "[::127.0.0.1]:1",
        "127.0.0.1:1 =localhost",
        "127.0.0.1:1 evil.example",
    ] {
        assert_eq!(said(&near, to).0, Level::Deny, "{to}");
    }
    let zero = policy("[[rule]]\nid = \"zero\"\naccess = [\"connect\"]\nhost = [\"0.0.0.0:*\"]\nlevel = \"deny\"\n");
    assert_eq!((said(&zero, "0.0.0.0:1").0, said(&zero, "127.0.0.1:1").0), (Level::Deny, Level::Ask));
}

#[test]
fn a_crafted_name_widens_no_answer() {
    let policy = policy("");
    let long = format!("{0}.{0}.{0}.example.org", "a".repeat(63));
    for (name, domain) in [
        ("paypal.com.evil.example.net", Some("example.net:*, *.example.net:*")),
        ("evil.com", Some("evil.com:*, *.evil.com:*")),
        ("a.xn--55qx5d.cn", Some("a.xn--55qx5d.cn:*, *.a.xn--55qx5d.cn:*")),
        ("xn--55qx5d.cn", None),
        ("a.b.ck", Some("a.b.ck:*, *.a.b.ck:*")),
        ("b.ck", None),
        ("com", None),
        ("a.b.internal", None),
        (long.as_str(), Some("example.org:*, *.example.org:*")),
    ] {
        let found = scope(&policy, &format!("93.184.215.14:443 {name}"), Width::Domain);
        assert_eq!(found.as_deref(), domain, "{name}");
        assert_eq!(scope(&policy, name, Width::Domain).as_deref(), domain, "{name}");
    }
    let exact = scope(&policy, &format!("93.184.215.14:443 {long}"), Width::Exact).unwrap();
    assert!(exact.ends_with(".example.org:443") && exact.is_ascii(), "{exact}");
    // A program whose path has characters of its own is shown quoted, and has no say in what follows.
    let mut question = asked(&policy, Access::Connect, "93.184.215.14:443 a.example.org");
    question.who.program = path("/tmp/x -> *:*\n");
    let shown = answer(&question, Width::Program).unwrap().scope();
    assert_eq!(shown, "$'/tmp/x -> *:*\\n' -> a.example.org:*");
    for gone in ["", "/memfd:x (deleted)", "/tmp/x (deleted)"] {
        question.who.program = path(gone);
        assert_eq!(answer(&question, Width::Program), None, "{gone}");
    }
}

#[test]
fn a_hole_in_a_stricter_rule_on_addresses_is_for_names_that_count() {
    let policy = policy(
        "[[rule]]\nid = \"lan\"\naccess = [\"connect\"]\ncidr = [\"10.0.0.0/8\", \"203.0.113.0/24\"]\nexcept = [\"nas.corp:445\", \"10.0.0.9:*\"]\nlevel = \"deny\"\n",
    );
    assert_eq!(said(&policy, "10.0.0.5:445 nas.corp").0, Level::Deny, "whoever owns the name says where it leads");
    assert_eq!(said(&policy, "10.0.0.5:445 =nas.corp").0, Level::Ask);
    assert_eq!(said(&policy, "10.0.0.5:80 =nas.corp").0, Level::Deny);
    assert_eq!(said(&policy, "203.0.113.5:445 nas.corp").0, Level::Ask);
    assert_eq!(said(&policy, "203.0.113.5:445 nas.corp other.corp").0, Level::Deny, "any deny decides");
    assert_eq!(said(&policy, "10.0.0.9:1").0, Level::Ask);
    // Nor does a name take away that somebody is told.
    let told = super::network::policy(
        "[[rule]]\nid = \"a\"\naccess = [\"connect\"]\ncidr = [\"10.0.0.0/8\"]\nlevel = \"allow\"\n\
         [[rule]]\nid = \"n\"\naccess = [\"connect\"]\ncidr = [\"10.0.0.0/8\"]\nexcept = [\"nas.corp:*\"]\nlevel = \"notify\"\n",
    );
    assert_eq!(said(&told, "10.0.0.5:445 nas.corp").0, Level::Notify);
    assert_eq!(said(&told, "10.0.0.5:445 =nas.corp").0, Level::Allow);
}

#[test]
fn answers_reach_as_far_as_they_say() {
    use Width::{Domain, Exact, Host, Program};
    let policy = policy(RULES);
    for (to, width, expected) in [
        ("93.184.215.14:443 www.example.co.uk", Exact, Some("www.example.co.uk:443")),
        ("93.184.215.14:443 www.example.co.uk", Program, Some("/usr/bin/curl -> www.example.co.uk:*")),
        ("93.184.215.14:443 www.example.co.uk", Host, Some("www.example.co.uk:*")),
        ("93.184.215.14:443 www.example.co.uk", Domain, Some("example.co.uk:*, *.example.co.uk:*")),
        ("www.example.co.uk", Exact, Some("www.example.co.uk:*")),
        ("www.example.co.uk", Host, None),
        ("www.example.co.uk", Domain, Some("example.co.uk:*, *.example.co.uk:*")),
        ("93.184.215.14:443", Exact, Some("93.184.215.14:443")),
        ("93.184.215.14:443", Host, Some("93.184.215.14:*")),
        ("93.184.215.14:443", Domain, None),
        ("[2001:db8::1]:443", Exact, Some("[2001:db8::1]:443")),
        ("10.1.2.3:5432 evil.example", Exact, Some("10.1.2.3:5432")),
        ("10.1.2.3:5432 evil.example", Domain, None),
        ("10.9.2.3:80 =db.corp", Exact, Some("db.corp:80")),
        // Not all that listens on this machine.
        ("127.0.0.1:4000", Exact, Some("localhost:4000")),
        ("127.0.0.1:4000", Host, None),
        ("127.0.0.1:4000", Program, None),
        ("127.0.0.2:4000", Host, None),
        // No public suffix, and no name that nobody registered.
        ("93.184.215.14:443 someone.github.io", Domain, Some("someone.github.io:*, *.someone.github.io:*")),
        ("93.184.215.14:443 github.io", Domain, None),
        ("93.184.215.14:443 co.uk", Domain, None),
        ("93.184.215.14:443 intranet", Domain, None),
        ("93.184.215.14:443 www.example.co.uk", Width::Tree, None),
        ("93.184.215.14:443 www.example.co.uk", Width::Prefix, None),
    ] {
        assert_eq!(scope(&policy, to, width).as_deref(), expected, "{to} {width}");
    }
    let widths =
        offered_widths(&asked(&policy, Access::Connect, "93.184.215.14:443 a.example.org"), &path("/home/user"));
    assert_eq!(widths, [Exact, Program, Host, Domain]);
}

#[test]
fn an_answer_holds_for_what_it_says_and_nothing_besides() {
    use Width::{Domain, Exact, Host, Program};
    let policy = policy(RULES);
    let to = "93.184.215.14:443 www.example.org";
    for (width, covered, not) in [
        (
            Exact,
            &["93.184.215.14:443 www.example.org", "198.18.0.1:443 www.example.org", "www.example.org"][..],
            &[
                "93.184.215.14:443",
                "93.184.215.14:443 other.example",
                "93.184.215.14:80 www.example.org",
                "example.org",
            ][..],
        ),
        (Host, &["198.18.0.1:22 www.example.org"], &["198.18.0.1:22 a.www.example.org", "93.184.215.14:22"]),
        (
            Domain,
            &["198.18.0.1:22 a.b.example.org", "198.18.0.1:22 example.org", "anything.example.org"],
            &[
                "198.18.0.1:22 badexample.org",
                "93.184.215.14:443",
                "10.0.0.1:22 a.example.org",
                "127.0.0.1:22 a.example.org",
            ],
        ),
        (Program, &["198.18.0.1:22 www.example.org"], &["198.18.0.1:22 example.org"]),
    ] {
        let grants = with(answer(&asked(&policy, Access::Connect, to), width).unwrap());
        for to in covered {
            assert_eq!(connect(&policy, to, &grants).level, Level::Allow, "{width}: {to}");
        }
        for to in not {
            assert_ne!(connect(&policy, to, &grants).level, Level::Allow, "{width}: {to}");
        }
        assert_eq!(connect(&policy, &format!("{to}/udp"), &grants).level, Level::Deny, "{width}: datagrams");
        let other = destination(to);
        let wget = || Some(path("/usr/bin/wget"));
        let by_other = policy.decide_connect(&Reaching { destination: &other, program: &wget }, CALL, &grants);
        assert_eq!(by_other.level == Level::Allow, width != Program, "{width}: another program");
        assert_eq!(
            policy.decide_bind(&Reaching { destination: &other, program: &curl }, CALL, &grants).level,
            Level::Ask,
            "{width}: bind"
        );
    }
}

#[test]
fn a_yes_to_a_name_answers_the_connection_that_follows() {
    let policy = policy(RULES);
    let question = asked(&policy, Access::Connect, "unknown.example");
    let grant = answer(&question, Width::Exact).unwrap();
    assert!(grant.answers(&asked(&policy, Access::Connect, "93.184.215.14:8443 unknown.example")));
    assert!(!grant.answers(&asked(&policy, Access::Connect, "93.184.215.14:8443 other.example")));
    let once = Grant { call: Some(CALL), lifetime: Lifetime::Call, ..grant };
    let grants = with(once);
    assert_eq!(connect(&policy, "93.184.215.14:8443 unknown.example", &grants).level, Level::Allow);
    assert_eq!(connect(&policy, "10.0.0.1:80 unknown.example", &grants).level, Level::Deny, "rebound");
    assert_eq!(connect(&policy, "198.51.100.4:443 unknown.example", &grants).level, Level::Deny, "a range");
    let reached = destination("93.184.215.14:8443 unknown.example");
    let other = policy.decide_connect(&Reaching { destination: &reached, program: &curl }, OTHER_CALL, &grants);
    assert_eq!(other.level, Level::Ask);
}

#[test]
fn a_yes_to_an_address_is_for_that_address() {
    let policy = policy("");
    let grants = with(answer(&asked(&policy, Access::Connect, "10.0.0.7:5432"), Width::Exact).unwrap());
    for (to, level) in [
        ("10.0.0.7:5432", Level::Allow),
        ("10.0.0.7:5432 db.example", Level::Allow),
        ("10.0.0.7:5433", Level::Ask),
        ("10.0.0.8:5432", Level::Ask),
        ("10.0.0.8:5432 db.example", Level::Deny),
    ] {
        assert_eq!(connect(&policy, to, &grants).level, level, "{to}");
    }
}

#[test]
fn a_person_is_asked_about_the_name_that_the_verdict_is_about() {
    let policy = policy(
        "[[rule]]\nid = \"a\"\naccess = [\"connect\"]\nhost = [\"latest.example:*\"]\nlevel = \"authenticate\"\n\
         [[rule]]\nid = \"b\"\naccess = [\"connect\"]\nhost = [\"older.example:*\"]\nlevel = \"ask\"\n",
    );
    let question = asked(&policy, Access::Connect, "93.184.215.14:443 latest.example older.example");
    assert_eq!((question.object, question.level), (path("older.example:443"), Level::Ask));
    // What DNS says of a private address is not shown as its name.
    let lab = super::network::policy(RULES);
    assert_eq!(asked(&lab, Access::Connect, "10.1.2.3:5432 bank.example").object, path("10.1.2.3:5432"));
    assert_eq!(asked(&lab, Access::Connect, "127.0.0.1:4000").object, path("localhost:4000"));
    assert_eq!(asked(&lab, Access::Bind, "0.0.0.0:4000").object, path("0.0.0.0:4000"));
    // A name that both DNS and /etc/hosts say counts as what /etc/hosts says.
    let both = super::network::policy(
        "[[rule]]\nid = \"u\"\naccess = [\"connect\"]\nhost = [\"nas.corp:*\"]\nprotocol = [\"udp\"]\nlevel = \"ask\"\n",
    );
    for to in ["127.0.0.1:53 nas.corp =nas.corp/udp", "127.0.0.1:53 =nas.corp localhost/udp"] {
        let yes = with(answer(&asked(&both, Access::Connect, to), Width::Exact).unwrap());
        assert_eq!(connect(&both, to, &yes).level, Level::Allow, "{to}");
    }
    // Unicode is shown as what the wire has.
    let homograph = destination("93.184.215.14:443 xn--pypal-4ve.com");
    assert_eq!(homograph.object(), path("xn--pypal-4ve.com:443"));
    assert_eq!(HostName::parse("pаypal.com".as_bytes()).unwrap().as_str(), "xn--pypal-4ve.com");
}

#[test]
fn a_grant_lifts_no_deny_and_authenticate_only_if_proven() {
    let policy = policy(
        "[[rule]]\nid = \"sign\"\naccess = [\"connect\"]\nhost = [\"pay.example.org:443\"]\nlevel = \"authenticate\"\n\
         [[rule]]\nid = \"no\"\naccess = [\"connect\"]\nhost = [\"*.example.org:25\"]\nlevel = \"deny\"\n",
    );
    let wide = answer(&asked(&policy, Access::Connect, "93.184.215.14:443 www.example.org"), Width::Domain).unwrap();
    let grants = with(wide.clone());
    assert_eq!(connect(&policy, "93.184.215.14:25 mail.example.org", &grants).level, Level::Deny);
    assert_eq!(connect(&policy, "93.184.215.14:443 pay.example.org", &grants).level, Level::Authenticate);
    let proven = with(Grant { authenticated: true, ..wide });
    assert_eq!(connect(&policy, "93.184.215.14:443 pay.example.org", &proven).level, Level::Allow);
    assert_eq!(connect(&policy, "93.184.215.14:25 mail.example.org", &proven).level, Level::Deny);
}

#[test]
fn an_answer_with_a_time_is_over_when_it_is_over() {
    let policy = policy(RULES);
    let grant = answer(&asked(&policy, Access::Connect, "10.1.2.3:5432"), Width::Exact).unwrap();
    let left = grant.until.unwrap().boot.0.saturating_sub(Moment::now().0);
    assert!((599..=600).contains(&left.as_secs()), "{left:?}");
    assert_eq!(connect(&policy, "10.1.2.3:5432", &with(grant.clone())).level, Level::Allow);
    let over = Grant { until: Some(Expiry::after(Duration::ZERO)), ..grant.clone() };
    assert!(over.is_over() && !over.answers(&asked(&policy, Access::Connect, "10.1.2.3:5432")));
    assert_eq!(connect(&policy, "10.1.2.3:5432", &with(over.clone())).level, Level::Ask);
    // The same answer again holds anew.
    let mut grants = with(over);
    assert!(grants.add(grant));
    assert_eq!(connect(&policy, "10.1.2.3:5432", &grants).level, Level::Allow);
}

const BINDS: &str = r#"
[[rule]]
id = "dev"
access = ["bind"]
port = "3000-3999"
level = "allow"

[[rule]]
id = "lan"
access = ["bind"]
cidr = ["192.168.0.0/16"]
level = "deny"

[[rule]]
id = "low"
access = ["bind"]
port = "0-1023"
level = "deny"

[[rule]]
id = "all"
access = ["bind"]
host = ["0.0.0.0:8080", "localhost:9000"]
level = "allow"
"#;

#[test]
fn who_listens_is_judged_by_rules_that_speak_of_it() {
    use Level::{Allow, Ask, Deny};
    let policy = policy(BINDS);
    for (at, level, speaks) in [
        ("127.0.0.1:3000", Allow, true),
        ("[::1]:3000", Allow, true),
        ("127.8.8.8:3000", Allow, true),
        // A port alone opens what is on this machine, and closes everything.
        ("0.0.0.0:3000", Deny, false),
        ("192.0.2.1:3000", Ask, false),
        ("0.0.0.0:80", Deny, true),
        ("127.0.0.1:80", Deny, true),
        ("127.0.0.1:9000", Allow, true),
        ("[::1]:9000", Allow, true),
        ("127.0.0.2:9000", Ask, false),
        ("127.0.0.1:5000", Ask, false),
        // Everywhere is also where it is denied.
        ("0.0.0.0:8080", Deny, true),
        ("[::]:8080", Deny, false),
        ("192.168.1.5:5000", Deny, true),
    ] {
        assert_eq!(bind(&policy, at, &Grants::new()), (level, speaks), "{at}");
    }
}

#[test]
fn what_is_published_is_reached_there_and_nowhere_else() {
    let policy = policy("");
    let published = |at: &str| with(Grant::published(GrantId(1), at.parse().unwrap(), "caller:user"));
    let own = published("127.0.0.1:3000");
    assert_eq!(bind(&policy, "127.0.0.1:3000", &own), (Level::Allow, true));
    assert_eq!(bind(&policy, "[::1]:3000", &own), (Level::Allow, true), "localhost has two addresses");
    for at in ["127.0.0.1:3001", "0.0.0.0:3000", "[::]:3000", "192.0.2.1:3000", "127.0.0.2:3000"] {
        assert_eq!(bind(&policy, at, &own), (Level::Ask, false), "{at}");
    }
    let wide = published("0.0.0.0:3000");
    assert_eq!(bind(&policy, "0.0.0.0:3000", &wide), (Level::Allow, true));
    assert_eq!(bind(&policy, "127.0.0.1:3000", &wide), (Level::Ask, false));
    assert_eq!(own.get(0).unwrap().scope(), "localhost:3000");
    assert_eq!(wide.get(0).unwrap().scope(), "0.0.0.0:3000");
    assert_ne!(connect(&policy, "127.0.0.1:3000", &own).level, Level::Allow, "listening is not connecting");
    let asked = asked(&policy, Access::Bind, "192.0.2.1:3000");
    assert_eq!(offered_widths(&asked, &path("/home/user")), [Width::Exact]);
}

fn any_term() -> impl Strategy<Value = String> {
    let host = prop::sample::select(vec![
        "a.example",
        "b.example",
        "*.example",
        "*.a.example",
        "*",
        "x.a.example",
        "192.0.2.1",
        "10.0.0.1",
        "127.0.0.1",
        "localhost",
        "[2001:db8::1]",
    ]);
    let ports = prop::sample::select(vec!["*", "443", "80", "80-443", "1-79", "444-65535"]);
    (host, ports).prop_map(|(host, ports)| format!("\"{host}:{ports}\""))
}

fn any_network() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "10.0.0.0/8",
        "192.0.2.0/24",
        "127.0.0.0/8",
        "0.0.0.0/0",
        "::/0",
        "2001:db8::/32",
        "10.0.0.1/32",
    ])
    .prop_map(|text| format!("\"{text}\""))
}

fn list(terms: &[String]) -> String {
    format!("[{}]", terms.join(", "))
}

/// The text of a rule without its id.
pub fn any_rule() -> impl Strategy<Value = String> {
    let terms = |most| prop::collection::vec(any_term(), 0..most);
    let protocol = prop::sample::select(vec!["", "protocol = [\"udp\"]\n", "protocol = [\"tcp\", \"udp\"]\n"]);
    (terms(3), prop::collection::vec(any_network(), 0..2), terms(3), any_level(), protocol)
        .prop_filter("something", |(hosts, networks, ..)| !hosts.is_empty() || !networks.is_empty())
        .prop_map(|(hosts, networks, except, level, protocol)| {
            let (hosts, networks, except) = (list(&hosts), list(&networks), list(&except));
            format!("access = [\"connect\"]\nhost = {hosts}\ncidr = {networks}\nexcept = {except}\nlevel = \"{level}\"\n{protocol}")
        })
}

fn any_rules() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(any_rule(), 0..6)
}

pub fn any_destination() -> impl Strategy<Value = String> {
    let address = prop::sample::select(vec![
        "192.0.2.1",
        "192.0.2.2",
        "10.0.0.1",
        "127.0.0.1",
        "[2001:db8::1]",
        "[::1]",
        "[64:ff9b::a00:1]",
        "0.0.0.0",
    ]);
    let names = prop::sample::subsequence(
        vec!["a.example", "b.example", "x.a.example", "=a.example", "=b.example", "other.test", "localhost"],
        0..3,
    );
    let port = prop::sample::select(vec![22_u16, 80, 443, 8443]);
    let end = prop::sample::select(vec!["", "", "/udp"]);
    (address, port, names, end).prop_map(|(address, port, names, end)| {
        let names: Vec<String> = names.iter().map(|name| format!(" {name}")).collect();
        format!("{address}:{port}{}{end}", names.concat())
    })
}

fn made(rules: &[String]) -> Policy {
    let numbered = rules.iter().enumerate().map(|(at, rule)| format!("[[rule]]\nid = \"r{at}\"\n{rule}"));
    policy(&numbered.collect::<String>())
}

proptest! {
    #[test]
    fn the_order_of_rules_does_not_matter(rules in any_rules(), to in any_destination()) {
        let reversed: Vec<String> = rules.iter().rev().cloned().collect();
        let (one, other) = (made(&rules), made(&reversed));
        prop_assert_eq!(connect(&one, &to, &Grants::new()).level, connect(&other, &to, &Grants::new()).level);
        prop_assert_eq!(said(&one, "x.a.example").0, said(&other, "x.a.example").0);
    }

    /// What DNS says can only make it stricter where the address is not public, and never opens what the same names of the
    /// hosts file would not.
    #[test]
    fn no_name_by_dns_opens_what_is_not_public(rules in any_rules(), to in any_destination()) {
        let policy = made(&rules);
        let led = destination(&to);
        if led.zone() != Some(Zone::Public) {
            let mut bare = led.clone();
            if let gated::common::net::Place::Address { names, .. } = &mut bare.place {
                names.retain(|named| named.by == Knowledge::HostsFile);
            }
            let level = |of: &Destination| {
                policy.decide_connect(&Reaching { destination: of, program: &curl }, CALL, &Grants::new()).level
            };
            // A hole that a name makes in a rule that allows may leave a default that is no stricter.
            prop_assert!(level(&led) >= level(&bare).min(Level::Ask), "{:?} {:?}", level(&led), level(&bare));
        }
    }

    /// A rule that denies this very address and port, whatever else is said, denies.
    #[test]
    fn nothing_opens_an_address_that_is_denied(rules in any_rules(), to in any_destination()) {
        let denied = "access = [\"connect\"]\ncidr = [\"0.0.0.0/0\", \"::/0\"]\nprotocol = [\"tcp\", \"udp\"]\nlevel = \"deny\"\n";
        let rules: Vec<String> = rules.into_iter().chain([denied.to_owned()]).collect();
        prop_assert_eq!(connect(&made(&rules), &to, &Grants::new()).level, Level::Deny);
    }

    /// What was offered covers what was asked, and lifts nothing that it does not say.
    #[test]
    fn an_answer_is_never_broader_than_it_says(rules in any_rules(), to in any_destination(), other in any_destination(), width in
        prop::sample::select(vec![Width::Exact, Width::Program, Width::Host, Width::Domain]))
    {
        let policy = made(&rules);
        let before = connect(&policy, &to, &Grants::new());
        let question = asked(&policy, Access::Connect, &to);
        let Some(grant) = answer(&question, width) else { return Ok(()) };
        // Nobody is asked of what is only told.
        prop_assume!(before.level == Level::Ask);
        prop_assert!(grant.answers(&question));
        let scope = grant.scope();
        let grants = with(grant);
        prop_assert_eq!(connect(&policy, &to, &grants).level, Level::Allow, "the question itself");
        let (was, is) = (connect(&policy, &other, &Grants::new()), connect(&policy, &other, &grants));
        if was.level != is.level {
            let lifted = matches!(is.source, Source::Grant(_)) && was.level < Level::Authenticate;
            // A name that led where nothing could be given becomes what the address is given as.
            let freed = was.basis == Source::Rebinding;
            prop_assert!(lifted || freed, "{was:?} {is:?}");
            let reached = destination(&other);
            let host = scope.rsplit(" -> ").next().unwrap().split(',').next().unwrap();
            let host = host.trim_end_matches("/udp").rsplit_once(':').unwrap().0;
            let said = |ip: IpAddr| host == ip.to_string() || host == format!("[{ip}]");
            let named = reached.names().any(|name| name.as_str() == host || name.as_str().ends_with(&format!(".{host}")));
            let own = host == "localhost" && reached.zone() == Some(Zone::Loopback);
            prop_assert!(named || own || reached.ip().is_some_and(said), "{scope} lifted {other}");
        }
    }
}

#[test]
fn a_profile_is_explained_as_it_would_decide() {
    use gated::policy::explain::{self, Assumed};
    let policy = policy(RULES);
    let of = |term: &str, at: Option<&str>, by| {
        let assumed = Assumed { at: at.map(|at| at.parse().unwrap()), by };
        let asked = explain::connection(&term.parse().unwrap(), &assumed, Transport::Tcp)?;
        let said = asked.iter().map(|question| question.explain(&policy, &Grants::new(), &|_| None));
        Some(
            said.map(|said| format!("{}: {} {}", said.object, said.decided.level, said.decided.rule))
                .collect::<Vec<_>>(),
        )
    };
    let lines = |lines: &[&str]| Some(lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>());
    use Knowledge::{HostsFile, Resolved};
    assert_eq!(
        of("registry.npmjs.org:443", None, Resolved),
        lines(&["registry.npmjs.org: allow registries", "registry.npmjs.org:443: allow registries"])
    );
    assert_eq!(
        of("db.corp:5432", Some("10.9.0.1"), Resolved),
        lines(&["db.corp: allow db", "db.corp:5432: deny built-in:rebinding"])
    );
    assert_eq!(of("db.corp:5432", Some("10.9.0.1"), HostsFile), lines(&["db.corp:5432: allow db"]));
    assert_eq!(of("localhost:3000", None, Resolved), lines(&["127.0.0.1:3000: allow db"]));
    assert_eq!(of("192.0.2.9:22", None, Resolved), lines(&["192.0.2.9:22: allow registries"]));
    assert_eq!((of("*.x.org:1", None, Resolved), of("x.org:1-2", None, Resolved)), (None, None));
    let binds = super::network::policy(BINDS);
    let listening = |at: &str| {
        let said = explain::listening(at.parse().unwrap()).explain(&binds, &Grants::new(), &|_| None).decided;
        (said.level, said.rule)
    };
    assert_eq!(listening("127.0.0.1:3000"), (Level::Allow, "dev".to_owned()));
    assert_eq!(listening("127.0.0.1:5000"), (Level::Allow, "built-in:own-network".to_owned()));
    assert_eq!(listening("192.0.2.1:5000"), (Level::Ask, "default".to_owned()));
}
