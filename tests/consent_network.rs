//! What people are shown of the network and of sockets, against golden files and under names that want to be taken for
//! others, and which of such requests are one prompt. `GATED_UPDATE_GOLDEN=1` rewrites the files; the difference is then to
//! be read.

use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use gated::common::access::{Access, Level};
use gated::common::consent::{Answer, ConsentAgent, Offer, Prompt};
use gated::common::decision::{Lifetime, Limits, Outcome, Width};
use gated::common::id::{CallId, RequestId, SessionId};
use gated::common::net::{Destination, HostName, Knowledge, Named, Service, Transport};
use gated::common::path::RawPath;
use gated::common::request::{Operation, Request, RuleRef, Who};
use gated::common::text::{self, Untrusted};
use gated::consent::notify::draw::{self as notify, Capabilities, Drawing, Person};
use gated::consent::notify::queue::Why;
use gated::consent::script::{Places, Script};
use gated::consent::terminal::dialog::{Dialog, typed};
use gated::consent::terminal::draw;
use gated::consent::words;
use gated::daemon::pending::{Effect, Pending, SessionTerms};
use proptest::prelude::*;

/// curl at work, with nothing said yet of where it wants to.
fn request(access: Access, operation: Operation) -> Request {
    Request {
        id: RequestId(0x1234_abcd << 96),
        session: SessionId("00000001".into()),
        call: CallId(1),
        who: Who {
            pid: 4711,
            program: "/usr/bin/curl".into(),
            argv: ["curl", "-sS", "https://registry.npmjs.org/left-pad"].map(Untrusted::new).to_vec(),
            cwd: "/home/alice/project".into(),
        },
        access,
        operation,
        object: RawPath::from("/"),
        is_directory: false,
        other: None,
        level: Level::Ask,
        rule: RuleRef {
            profile: "coder".into(),
            id: "default".into(),
            file: "/etc/gated/profiles/coder.toml".into(),
            line: 0,
            reason: None,
        },
        remember: Lifetime::Session,
        group: None,
        execution: None,
        destination: None,
        service: None,
        remember_for: None,
    }
}

fn to(operation: Operation, destination: Destination) -> Request {
    let access = if operation == Operation::Listen { Access::Bind } else { Access::Connect };
    let object = destination.object();
    Request { object, destination: Some(Box::new(destination)), ..request(access, operation) }
}

fn named(address: &str, names: &[&str]) -> Destination {
    let named = |name: &&str| Named { name: name.parse().unwrap(), by: Knowledge::Resolved };
    Destination::address(address.parse().unwrap(), Transport::Tcp, names.iter().map(named).collect())
}

fn connect(address: &str, names: &[&str]) -> Request {
    to(Operation::Connect, named(address, names))
}

fn look_up(name: &str) -> Request {
    to(Operation::LookUp, Destination::name(name.parse().unwrap()))
}

fn socket(path: &str, service: Option<Service>) -> Request {
    Request { object: path.into(), service, ..request(Access::Unix, Operation::ConnectSocket) }
}

fn prompt(request: Request) -> Prompt {
    let host = request.destination.as_ref().and_then(|destination| destination.names().next().cloned());
    let mut offers =
        vec![Offer { width: Width::Exact, scope: String::from_utf8_lossy(request.object.as_bytes()).into() }];
    if let Some(host) = host {
        offers.push(Offer { width: Width::Program, scope: format!("/usr/bin/curl -> {host}:*") });
        offers.push(Offer { width: Width::Host, scope: format!("{host}:*") });
        let domain = host.registrable();
        offers.extend(domain.map(|domain| Offer { width: Width::Domain, scope: format!("*.{domain}:*") }));
    }
    Prompt::new(Rc::new(request), offers, Instant::now() + Duration::from_secs(60))
}

/// The page with its line of input.
fn render(request: Request, keys: &[&[u8]], columns: usize, rows: usize) -> String {
    let prompt = prompt(request);
    let mut dialog = Dialog::new(&prompt, false);
    for key in keys {
        dialog.input(typed(key));
    }
    match draw::page(&prompt, &dialog, columns, rows) {
        Some(lines) => lines.join("\n") + "\n" + &draw::input(&dialog, 57, columns) + "\n",
        None => "does not fit\n".to_owned(),
    }
}

fn golden(name: &str, text: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("GATED_UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, expected, "differs from {}", path.display());
}

const FULL: Capabilities = Capabilities { actions: true, body: true, body_markup: true };

fn notified(request: Request) -> Drawing {
    let person = Person { uid: 1000, home: Some("/home/alice".into()) };
    notify::request(&prompt(request), None, &person, FULL, Why::New, 0)
}

fn notification(request: Request) -> String {
    let Drawing { summary, body, buttons } = notified(request);
    let buttons: Vec<&str> = buttons.iter().map(|(_, label)| *label).collect();
    format!("{summary}\n--\n{body}\n--\n[{}]\n", buttons.join("] ["))
}

/// Every kind of request, on a terminal and on the desktop.
#[test]
fn each_kind_of_request_says_what_it_means() {
    let hosts_file = {
        let names = vec![Named { name: "db.internal".parse().unwrap(), by: Knowledge::HostsFile }];
        to(Operation::Connect, Destination::address("10.0.0.5:5432".parse().unwrap(), Transport::Tcp, names))
    };
    let datagrams = Destination { transport: Transport::Udp, ..named("192.0.2.123:123", &["ntp.example.org"]) };
    let unnamed =
        Destination { hint: Some(Untrusted::new("ec2-192-0-2-7.example.com")), ..named("192.0.2.7:443", &[]) };
    let listen = |address: &str| to(Operation::Listen, named(address, &[]));
    let kinds = [
        ("name", connect("104.16.1.34:443", &["registry.npmjs.org", "npm.example.com"])),
        ("look_up", look_up("registry.npmjs.org")),
        ("six", connect("[2001:db8::7]:443", &[])),
        ("unnamed", to(Operation::Connect, unnamed)),
        ("private", hosts_file),
        ("host", connect("127.0.0.1:5432", &[])),
        ("metadata", connect("169.254.169.254:80", &[])),
        ("datagrams", to(Operation::Connect, datagrams)),
        ("listen", listen("127.0.0.1:3000")),
        ("listen_six", listen("[::1]:3000")),
        ("listen_everywhere", listen("0.0.0.0:3000")),
        ("listen_outside", listen("192.0.2.1:3000")),
        ("docker", socket("/run/docker.sock", Some(Service::Docker))),
        ("ssh_agent", socket("/tmp/ssh-XXXX/agent.1", Some(Service::SshAgent))),
        ("socket", socket("/srv/app/socket", None)),
        ("idn", connect("192.0.2.7:443", &["xn--bcher-kva.example"])),
        ("homograph", connect("192.0.2.7:443", &["xn--80ak6aa92e.com"])),
    ];
    for (name, request) in kinds {
        golden(&format!("prompt_net_{name}.txt"), &render(request.clone(), &[], 80, 24));
        golden(&format!("notify_net_{name}.txt"), &notification(request));
    }
    golden(
        "prompt_net_wide.txt",
        &render(connect("104.16.1.34:443", &["registry.npmjs.org"]), &[b"w\r", b"w\r", b"w\r", b"?\r"], 80, 30),
    );
    golden("prompt_net_narrow.txt", &render(connect("104.16.1.34:443", &["registry.npmjs.org"]), &[], 24, 40));
    golden("prompt_net_low.txt", &render(connect("104.16.1.34:443", &["registry.npmjs.org"]), &[], 80, 10));
}

/// A name of this many characters that begins with one that people trust and ends with whose it is.
fn long_name() -> String {
    format!("registry.npmjs.org.{}evil.network", "padding0.".repeat(24))
}

#[test]
fn the_end_of_a_name_is_never_what_is_left_out() {
    let name = long_name();
    assert!(name.parse::<HostName>().is_ok() && name.len() > 230);
    for request in [connect("192.0.2.66:443", &[&name]), look_up(&name)] {
        let port = if request.operation == Operation::LookUp { "" } else { ":443" };
        for columns in 20..=200 {
            let shown = render(request.clone(), &[], columns, 60);
            let title: String = shown.lines().take_while(|line| !line.is_empty()).collect();
            let title = title.replace(' ', "");
            assert!(title.contains(&format!("evil.network{port}")), "{columns}:\n{shown}");
            assert!(
                !title.contains("wantstoconnecttoregistry"),
                "{columns}: cut or whole, not the beginning alone\n{shown}"
            );
        }
        let Drawing { summary, body, .. } = notified(request.clone());
        assert!(summary.contains(&format!("evil.network{port}")) && !summary.contains("npmjs"), "{summary}");
        assert!(text::columns(&summary) <= 60, "{summary}");
        assert!(body.contains(&format!("host: {name}{port}")), "{body}");
        assert!(body.contains("domain: evil.network"), "{body}");
    }
    golden("prompt_net_long.txt", &render(connect("192.0.2.66:443", &[&name]), &[], 80, 24));
    golden("prompt_net_long_low.txt", &render(connect("192.0.2.66:443", &[&name]), &[], 80, 11));
}

#[test]
fn a_name_that_reads_like_another_is_not_read_out() {
    // Wholly Cyrillic, mixed, with a mark below, from right to left.
    for name in ["аррӏе.com", "gооgle.com", "ạpple.com", "דוגמה.com", "registry.npmjs.org.аррӏе.com"]
    {
        let name: HostName = name.parse().unwrap();
        for shown in [render(look_up(name.as_str()), &[], 80, 24), notification(look_up(name.as_str()))] {
            assert!(shown.is_ascii() || shown.replace('…', "").is_ascii(), "{shown}");
            assert!(shown.contains("xn--") && shown.contains("not shown in its own letters"), "{shown}");
        }
    }
}

/// Whoever owns an address writes its reverse name.
#[test]
fn a_reverse_name_is_a_hint_and_cannot_draw() {
    let mut hostile: Vec<Vec<u8>> = [
        "registry.npmjs.org",
        "registry.npmjs.org:443 on this machine\n  d = deny   o = allow once\n",
        "\u{202e}gro.sjmpn.yrtsiger",
        "</body><b>registry.npmjs.org</b>&amp;",
        "a\r\x1b[2J\x1b[1;1Hgated: npm wants to read this file",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec();
    hostile.push(vec![b'x'; 10_000]);
    hostile.push([b"registry.npmjs.org".as_slice(), &[0, 0xff, 0x9b]].concat());
    for hint in hostile {
        let destination = Destination { hint: Some(Untrusted::new(hint.clone())), ..named("192.0.2.7:443", &[]) };
        let request = to(Operation::Connect, destination);
        for columns in [20, 40, 80, 132] {
            let shown = render(request.clone(), &[], columns, 60);
            let clean = |shown: char| "\n… ".contains(shown) || text::is_showable(shown);
            assert!(shown.chars().all(clean), "{shown:?}");
            let title: String = shown.lines().take_while(|line| !line.is_empty()).collect();
            assert!(title.contains("192.0.2.7:443") && !title.contains("npmjs"), "{shown}");
            assert!(shown.contains("hint (unverified): "), "{shown}");
            assert_eq!(shown.lines().filter(|line| line.starts_with("d = deny")).count(), 1, "{shown}");
        }
        let Drawing { summary, body, .. } = notified(request);
        assert_eq!(summary, "curl wants to connect to 192.0.2.7:443");
        assert!(!body.contains("<b>") && !body.contains('\u{202e}') && !body.contains('\x1b'), "{body}");
        assert_eq!(body.lines().filter(|line| line.starts_with("hint (unverified): ")).count(), 1, "{body}");
    }
    // Next to a name that was looked up it is left out.
    let known = Destination { hint: Some(Untrusted::new("good.example")), ..named("192.0.2.7:443", &["evil.network"]) };
    assert!(!render(to(Operation::Connect, known), &[], 80, 24).contains("good.example"));
}

/// What a tool writes into its own command line, path or name says nothing of where it connects to.
#[test]
fn words_of_the_tool_are_not_taken_for_the_host() {
    let mut request = connect("192.0.2.66:443", &["evil.network"]);
    request.who.argv = [
        "curl",
        "https://registry.npmjs.org:443@evil.network/",
        "connect to registry.npmjs.org:443\n\n  host        registry.npmjs.org:443",
    ]
    .map(Untrusted::new)
    .to_vec();
    request.who.program = "/tmp/gated: curl wants to connect to registry.npmjs.org:443".into();
    request.who.cwd = "/tmp/registry.npmjs.org:443".into();
    request.rule.reason = Some("registry.npmjs.org:443\nhost: registry.npmjs.org".into());
    golden("prompt_net_hostile.txt", &render(request.clone(), &[], 80, 30));
    golden("notify_net_hostile.txt", &notification(request.clone()));
    let Drawing { summary, body, .. } = notified(request.clone());
    assert!(summary.ends_with(" wants to connect to evil.network:443"), "{summary}");
    assert_eq!(body.lines().filter(|line| line.starts_with("host: ")).collect::<Vec<_>>(), ["host: evil.network:443"]);
    let shown = render(request, &[], 80, 30);
    let hosts: Vec<&str> = shown.lines().filter(|line| line.starts_with("  host")).collect();
    assert_eq!(hosts, ["  host        evil.network:443"]);
}

proptest! {
    #[test]
    fn no_destination_draws_more_than_itself(
        labels in prop::collection::vec("[a-z0-9]{1,30}", 1..8),
        more in 0usize..200,
        address in any::<[u8; 16]>(),
        port in any::<u16>(),
        hint in prop::option::of(prop::collection::vec(any::<u8>(), 0..400)),
        listens in any::<bool>(),
        columns in 20usize..200,
        rows in 0usize..60,
        keys in "[wdosm?]{0,6}",
    ) {
        let name = labels.join(".") + ".example";
        let others = (0..more).map(|number| format!("n{number}.example.org"));
        let names: Vec<String> = if more == 7 { vec![] } else { std::iter::once(name).chain(others).collect() };
        let borrowed: Vec<&str> = names.iter().map(String::as_str).filter(|name| name.parse::<HostName>().is_ok()).collect();
        let address = std::net::SocketAddr::new(std::net::Ipv6Addr::from(address).into(), port);
        let destination = Destination { hint: hint.map(Untrusted::new), ..named(&address.to_string(), &borrowed) };
        let asked = to(if listens { Operation::Listen } else { Operation::Connect }, destination.clone());
        let prompt = prompt(asked.clone());
        let mut dialog = Dialog::new(&prompt, false);
        for key in keys.bytes() {
            dialog.input(typed(&[key, b'\r']));
        }
        notified(asked);
        let Some(lines) = draw::page(&prompt, &dialog, columns, rows) else {
            prop_assert!(rows < 40, "{columns}x{rows}");
            return Ok(());
        };
        prop_assert!(lines.len() < rows);
        for line in &lines {
            prop_assert!(text::columns(line) <= columns, "{} of {columns}: {line:?}", text::columns(line));
            prop_assert!(line.chars().all(|shown| text::is_showable(shown) || "… ".contains(shown)), "{line:?}");
        }
        if dialog.page == 0 {
            let whole = lines.concat().replace(' ', "");
            prop_assert!(whole.contains(&format!(":{port}")), "{lines:?}");
        }
    }
}

fn pending() -> Pending {
    let mut pending = Pending::new();
    let terms = SessionTerms {
        timeout: Duration::from_secs(60),
        max_per_minute: 10_000,
        home: "/home/alice".into(),
        limits: Limits::SESSION,
        keeps_answers: false,
        knows_people: false,
    };
    pending.open(SessionId("00000001".into()), terms);
    pending
}

fn settled(effects: &[Effect]) -> Vec<(u128, Outcome)> {
    let of = |effect: &Effect| match effect {
        Effect::Settle(settled) => Some((settled.request.id.0, settled.outcome)),
        _ => None,
    };
    effects.iter().filter_map(of).collect()
}

/// How many prompts these are, of which the first is answered with yes.
fn prompts(requests: impl IntoIterator<Item = Request>) -> (usize, Vec<(u128, Outcome)>) {
    let (mut pending, now) = (pending(), Instant::now());
    for (number, request) in (1..).zip(requests) {
        pending.ask(Request { id: RequestId(number), ..request }, now).unwrap();
    }
    let count = pending.leads(&SessionId("00000001".into())).len();
    let effects = pending.answer(RequestId(1), Answer::Once(Width::Exact), "t", false, now).unwrap();
    (count, settled(&effects))
}

#[test]
fn parallel_connections_to_one_host_are_one_prompt() {
    let host = |address| connect(address, &["registry.npmjs.org"]);
    let yes = |count| (1..=count).map(|number| (number, Outcome::Approved)).collect::<Vec<_>>();
    // A browser's, and those of happy eyeballs; whichever process of the call.
    let mut other = host("104.16.1.35:443");
    other.who.pid = 4712;
    assert_eq!(prompts([host("104.16.1.34:443"), host("[2001:db8::7]:443"), other]), (1, yes(3)));
    let many = (0..60).map(|_| host("104.16.1.34:443"));
    assert_eq!(prompts(many), (1, yes(60)));
    assert_eq!(prompts([look_up("a.example.org"), look_up("a.example.org")]), (1, yes(2)));
}

#[test]
fn what_a_person_would_tell_apart_is_several_prompts() {
    let host = || connect("104.16.1.34:443", &["registry.npmjs.org"]);
    let datagrams = {
        let own = named("104.16.1.34:443", &["registry.npmjs.org"]);
        to(Operation::Connect, Destination { transport: Transport::Udp, ..own })
    };
    let mut by_rule = host();
    by_rule.rule.id = "registries".into();
    // A tool that has a name lead to a private network asks about the network, and each address of it is its own.
    let rebound = |address| connect(address, &["registry.npmjs.org"]);
    for (one, other) in [
        (host(), connect("104.16.1.34:80", &["registry.npmjs.org"])),
        (host(), connect("104.16.1.34:443", &[])),
        (host(), connect("104.16.1.34:443", &["www.npmjs.org"])),
        (host(), rebound("10.0.0.5:443")),
        (rebound("10.0.0.5:443"), rebound("10.0.0.6:443")),
        (rebound("127.0.0.1:443"), rebound("[::1]:443")),
        (host(), datagrams),
        (host(), by_rule),
        (host(), Request { call: CallId(2), ..host() }),
        (host(), Request { operation: Operation::LookUp, ..host() }),
        (host(), look_up("registry.npmjs.org")),
        (connect("192.0.2.7:443", &[]), connect("192.0.2.8:443", &[])),
        (socket("/run/a", None), socket("/run/b", None)),
        (socket("/run/a", None), socket("/run/a", Some(Service::SshAgent))),
    ] {
        assert_eq!(prompts([one.clone(), other.clone()]).0, 2, "{one:?} {other:?}");
    }
}

/// An answer that was given for a name says nothing of an address that is not public, whatever leads there.
#[test]
fn a_yes_to_a_host_covers_what_was_shown_and_no_more() {
    let host = || connect("104.16.1.34:443", &["registry.npmjs.org"]);
    for other in [
        connect("10.0.0.5:443", &["registry.npmjs.org"]),
        connect("127.0.0.1:443", &["registry.npmjs.org"]),
        connect("169.254.169.254:443", &["registry.npmjs.org"]),
        connect("104.16.1.34:80", &["registry.npmjs.org"]),
        connect("104.16.1.34:443", &[]),
        connect("104.16.1.34:443", &["evil.network", "registry.npmjs.org"]),
        look_up("www.npmjs.org"),
    ] {
        assert_eq!(prompts([host(), other.clone()]).1, [(1, Outcome::Approved)], "{other:?}");
    }
    for (wide, covered, left) in [
        (
            Width::Host,
            connect("104.16.1.34:80", &["registry.npmjs.org"]),
            connect("104.16.1.34:80", &["www.npmjs.org"]),
        ),
        (
            Width::Domain,
            connect("104.16.1.36:80", &["www.npmjs.org"]),
            connect("104.16.1.34:80", &["npmjs.org.evil.network"]),
        ),
    ] {
        let (mut pending, now) = (pending(), Instant::now());
        for (number, request) in (1..).zip([host(), covered, left]) {
            pending.ask(Request { id: RequestId(number), ..request }, now).unwrap();
        }
        let effects = pending.answer(RequestId(1), Answer::Session(wide), "t", false, now).unwrap();
        assert_eq!(settled(&effects), [(1, Outcome::Approved), (2, Outcome::Granted)], "{wide}");
    }
}

/// What is not offered is no answer, whoever sends it.
#[test]
fn a_wider_answer_than_was_offered_is_a_no() {
    for (request, width) in [
        (connect("192.0.2.7:443", &[]), Width::Domain),
        (connect("192.0.2.7:443", &["someone.github.io"]), Width::Tree),
        (connect("192.0.2.7:443", &["co.uk"]), Width::Domain),
        (connect("127.0.0.1:5432", &[]), Width::Host),
        (connect("169.254.169.254:80", &[]), Width::Host),
        (to(Operation::Listen, named("127.0.0.1:3000", &[])), Width::Host),
        (socket("/run/docker.sock", Some(Service::Docker)), Width::Host),
        (Request { remember: Lifetime::Attempt, ..connect("192.0.2.7:443", &["a.example.org"]) }, Width::Host),
    ] {
        let (mut pending, now) = (pending(), Instant::now());
        let effects = pending.ask(request.clone(), now).unwrap();
        let shown = effects.iter().find_map(|effect| match effect {
            Effect::Show(prompt) => Some(prompt.offers.iter().any(|offer| offer.width == width)),
            _ => None,
        });
        assert_eq!(shown, Some(false), "{request:?}");
        let effects = pending.answer(request.id, Answer::Session(width), "t", true, now).unwrap();
        assert_eq!(settled(&effects), [(request.id.0, Outcome::NotPermitted)], "{request:?}");
    }
}

/// What a yes covers is said by the broker as policy has it, and it is on the page whatever the size.
#[test]
fn every_width_says_whose_hosts_it_covers() {
    let (mut pending, now) = (pending(), Instant::now());
    let effects = pending.ask(connect("104.16.1.34:443", &[&long_name()]), now).unwrap();
    let prompt = effects
        .into_iter()
        .find_map(|effect| match effect {
            Effect::Show(prompt) => Some(*prompt),
            _ => None,
        })
        .unwrap();
    assert_eq!(
        prompt.offers.last().map(|offer| (offer.width, offer.scope.as_str())),
        Some((Width::Domain, "evil.network:*, *.evil.network:*"))
    );
    for columns in [40, 60, 80, 132] {
        let mut dialog = Dialog::new(&prompt, false);
        for offer in &prompt.offers {
            assert_eq!(dialog.width(), offer.width);
            let shown = draw::page(&prompt, &dialog, columns, 60).unwrap().join("\n");
            let covers = shown.split("yes covers").nth(1).unwrap().replace(['\n', ' '], "");
            // Where there is no room for it there is a key.
            let is_shown = covers.contains("evil.network:*") || columns < 60 && covers.contains("m=more");
            assert!(offer.width == Width::Exact || is_shown, "{columns} {}:\n{shown}", offer.width);
            dialog.input(typed(b"w\r"));
        }
    }
}

#[test]
fn an_answer_for_one_attempt_is_for_the_address_that_was_shown() {
    let attempt = |address| Request { remember: Lifetime::Attempt, ..connect(address, &["registry.npmjs.org"]) };
    assert_eq!(prompts([attempt("104.16.1.34:443"), attempt("104.16.1.35:443")]).0, 2);
    assert_eq!(prompts([attempt("104.16.1.34:443"), attempt("104.16.1.34:443")]).0, 1);
}

#[test]
fn scripts_answer_for_hosts_and_services() {
    let places = Places::default();
    let script = r#"
        [[answer]]
        host = ["*.npmjs.org:443", "192.0.2.7:80", "[2001:db8::7]:1-9"]
        answer = "session"
        scope = "host"

        [[answer]]
        service = "@ssh_agent"
        answer = "once"

        [[answer]]
        access = "bind"
        host = "127.0.0.1:3000"
        answer = "once"
    "#;
    let mut script = Script::parse("a.toml", script, &places).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let mut answer = |request: Request| runtime.block_on(script.ask(&prompt(request))).unwrap();
    let host = || Answer::Session(Width::Host);
    assert_eq!(answer(connect("104.16.1.34:443", &["registry.npmjs.org"])), host());
    assert_eq!(answer(look_up("registry.npmjs.org")), host());
    assert_eq!(answer(connect("192.0.2.7:80", &["whatever.example"])), host());
    assert_eq!(answer(connect("[2001:db8::7]:9", &[])), host());
    for other in [
        connect("104.16.1.34:80", &["registry.npmjs.org"]),
        connect("104.16.1.34:443", &["registry.npmjs.org.evil.network"]),
        connect("192.0.2.7:443", &[]),
        look_up("npmjs.org"),
        socket("/run/docker.sock", Some(Service::Docker)),
        socket("/srv/registry.npmjs.org:443", None),
        to(Operation::Listen, named("0.0.0.0:3000", &[])),
    ] {
        assert_eq!(answer(other.clone()), Answer::Deny, "{other:?}");
    }
    assert_eq!(answer(socket("/tmp/agent", Some(Service::SshAgent))), Answer::Once(Width::Exact));
    assert_eq!(answer(to(Operation::Listen, named("127.0.0.1:3000", &[]))), Answer::Once(Width::Exact));
}

#[test]
fn every_line_of_a_request_ends_where_it_must() {
    let lines = words::lines(&connect("192.0.2.66:443", &[&long_name()]));
    for limit in [0, 1, 10, 40, 400] {
        for line in &lines {
            assert!(text::columns(&line.within(limit)) <= limit, "{line:?}");
        }
    }
    let shown: Vec<String> = lines.iter().map(|line| format!("{} {}", line.label, line.within(20))).collect();
    assert_eq!(shown, ["host …g0.evil.network:443", "domain evil.network", "address 192.0.2.66"]);
}
