//! The session's own resolver: what is looked up, what a person is asked for, and what leaves the machine.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::support::network::message::{A, AAAA, HTTPS, PTR, SRV, TXT};
use crate::support::network::{OTHER_RESOLVERS, PRIVATE, RESOLVER, WWW, WWW6, World};
use crate::support::{Outcome, Sandbox};
use crate::{Inside, Test};

pub const TESTS: &[Test] = &[
    ("programs_find_names_by_the_sessions_own_files", own_files),
    ("a_denied_name_fails_at_once_and_never_leaves", denied),
    ("an_unknown_name_is_one_question_for_all_types", one_question),
    ("a_slow_person_sees_one_question_for_all_retries", slow_person),
    ("a_no_holds_for_the_name_with_and_without_a_search_domain", search_domains),
    ("yes_for_one_attempt_is_for_the_whole_look_up", once),
    ("a_question_ends_with_whoever_asked", killed),
    ("nothing_of_a_tool_leaves_but_an_allowed_name", tunnels),
    ("a_service_is_judged_as_its_host", services),
    ("every_other_resolver_is_the_sessions_own", other_resolvers),
    ("special_names_never_leave", special_names),
    ("odd_packets_are_answered_here", odd_packets),
    ("names_of_the_hosts_file_are_answered_here", hosts_file),
    ("the_name_of_an_address_is_never_asked_for", reverse),
    ("answers_are_passed_on_whole", answers),
    ("long_answers_come_by_tcp", long_answers),
    ("a_server_that_is_dead_or_lies_is_a_failure", bad_servers),
    ("settings_of_the_host_are_followed", settings),
    ("ten_thousand_questions_leave_the_session_as_it_was", flood),
    ("the_hosts_own_services_for_names_are_hidden", hidden_services),
];

pub const INSIDE: &[Inside] =
    &[("ask-name", ask_name), ("ask-packet", ask_packet), ("ask-again", ask_again), ("ask-many", ask_many)];

const ALLOWED: &str =
    "[[rule]]\nid = \"example\"\naccess = [\"connect\"]\nhost = [\"*.example.org:*\"]\nlevel = \"allow\"\n";
const ONLY_WWW: &str =
    "[[rule]]\nid = \"www\"\naccess = [\"connect\"]\nhost = [\"www.example.org:443\"]\nlevel = \"allow\"\n";

const REFUSED: i64 = 5;
const NXDOMAIN: i64 = 3;

fn packet(name: &[&[u8]], kind: u16) -> Vec<u8> {
    let mut query = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name {
        query.push(label.len() as u8);
        query.extend_from_slice(label);
    }
    query.push(0);
    query.extend_from_slice(&kind.to_be_bytes());
    query.extend_from_slice(&[0, 1]);
    query
}

fn named(name: &str, kind: u16) -> Vec<u8> {
    packet(&name.split('.').map(str::as_bytes).collect::<Vec<_>>(), kind)
}

/// What a server says to a packet; empty where it says nothing.
fn exchange(server: IpAddr, query: &[u8], tcp: bool, patience: Duration) -> Vec<u8> {
    let at = SocketAddr::new(server, 53);
    if tcp {
        let Ok(mut stream) = TcpStream::connect_timeout(&at, patience) else { return Vec::new() };
        stream.set_read_timeout(Some(patience)).expect("a timeout");
        let mut message = (query.len() as u16).to_be_bytes().to_vec();
        message.extend_from_slice(query);
        let mut length = [0; 2];
        if stream.write_all(&message).and_then(|()| stream.read_exact(&mut length)).is_err() {
            return Vec::new();
        }
        let mut answer = vec![0; u16::from_be_bytes(length).into()];
        stream.read_exact(&mut answer).expect("a whole answer");
        return answer;
    }
    let any = if server.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any).expect("a socket");
    socket.set_read_timeout(Some(patience)).expect("a timeout");
    if socket.send_to(query, at).is_err() {
        return Vec::new();
    }
    let mut answer = vec![0; 65536];
    match socket.recv_from(&mut answer) {
        Ok((count, from)) => {
            assert_eq!(from, at, "it comes from where it was sent to");
            answer.truncate(count);
            answer
        }
        Err(_) => Vec::new(),
    }
}

/// `code N` (-1 for no answer), `answers N`, `flags N`, `length N`.
fn print_answer(answer: &[u8]) {
    let word = |at: usize| answer.get(at..at + 2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]));
    println!("code {}", word(2).map_or(-1, |flags| i64::from(flags & 15)));
    println!("flags {}", word(2).unwrap_or(0));
    println!("answers {}", word(6).unwrap_or(0));
    println!("length {}", answer.len());
}

/// SERVER NAME TYPE [tcp]
fn ask_name(args: &[String]) {
    let kind = args[2].parse().expect("a type");
    let tcp = args.get(3).is_some_and(|arg| arg == "tcp");
    print_answer(&exchange(args[0].parse().expect("an address"), &named(&args[1], kind), tcp, Duration::from_secs(40)));
}

/// SERVER HEX
fn ask_packet(args: &[String]) {
    let hex = args[1].as_bytes();
    let bytes: Vec<u8> = hex
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).expect("hex"), 16).expect("hex"))
        .collect();
    print_answer(&exchange(args[0].parse().expect("an address"), &bytes, false, Duration::from_secs(10)));
}

/// NAME: asks every half second, on new sockets and for several types, until there is an answer.
fn ask_again(args: &[String]) {
    for kind in [A, AAAA, HTTPS, TXT].into_iter().cycle() {
        let answer = exchange(RESOLVER, &named(&args[0], kind), false, Duration::from_millis(500));
        if !answer.is_empty() {
            return print_answer(&answer);
        }
    }
}

/// COUNT: so many names, without waiting; then one that is allowed, until it is answered.
fn ask_many(args: &[String]) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    for number in 0..args[0].parse::<u32>().expect("a number") {
        let _ = socket.send_to(&named(&format!("n{number}.secret.example.net"), A), "127.0.0.1:53");
    }
    let until = Instant::now() + Duration::from_secs(60);
    while Instant::now() < until {
        let answer = exchange(RESOLVER, &named("www.example.org", A), false, Duration::from_secs(5));
        if answer.get(3).is_some_and(|flags| flags & 15 == 0) {
            return print_answer(&answer);
        }
    }
    print_answer(&[]);
}

fn profile(level: &str, rules: &str) -> String {
    format!("schema = 1\n[profile]\nname = \"names\"\n[defaults]\nwrite = \"allow\"\nconnect = \"{level}\"\n{rules}")
}

fn sandbox(world: &World, level: &str, rules: &str) -> Sandbox {
    let sandbox = world.sandbox();
    sandbox.profile(&profile(level, rules));
    sandbox
}

fn ask(sandbox: &Sandbox, server: &str, name: &str, kind: u16) -> Outcome {
    sandbox.run(&sandbox.inside("ask-name", &[server, name, &kind.to_string()]))
}

fn questions(outcome: &Outcome) -> Vec<String> {
    let object = |event: &serde_json::Value| event["object"].as_str().unwrap_or_default().to_owned();
    outcome.events_of("consent_required").map(object).collect()
}

fn own_files() {
    let world = World::new();
    world.resolv_conf(&format!("nameserver {RESOLVER}\nsearch example.org\noptions ndots:2\n"));
    let sandbox = sandbox(&world, "deny", ALLOWED);
    let outcome = sandbox.run(&[
        "/bin/sh",
        "-c",
        "cat /etc/resolv.conf; getent ahosts www.example.org; getent hosts api; ! echo x 2>/dev/null >>/etc/hosts",
    ]);
    outcome.assert_code(0);
    let out = outcome.out();
    for expected in
        ["nameserver 127.0.0.1", "search example.org", "ndots:2", &WWW.to_string(), &WWW6.to_string(), "192.0.2.11"]
    {
        outcome.assert(out.contains(expected), expected);
    }
    outcome.assert(!out.contains(&RESOLVER.to_string()), "the host's resolver is not named");
    let queries = world.dns.queries();
    assert!(!queries.is_empty() && queries.iter().all(|query| query.name == query.name.to_lowercase()), "{queries:?}");
}

fn denied() {
    let world = World::new();
    let sandbox = sandbox(&world, "deny", "");
    let since = Instant::now();
    let outcome = sandbox.run(&["getent", "hosts", "www.example.org"]);
    outcome.assert(outcome.code() != 0, "it fails");
    outcome.assert(since.elapsed() < Duration::from_secs(10), "at once");
    let refused = outcome.audit.iter().filter(|record| record["object"] == "www.example.org").count();
    outcome.assert(refused == 1, "all its tries are one record");
    let outcome = ask(&sandbox, "127.0.0.1", "www.example.org", A);
    assert_eq!(outcome.number("code"), REFUSED);
    let tcp = sandbox.run(&sandbox.inside("ask-name", &["127.0.0.1", "www.example.org", "1", "tcp"]));
    assert_eq!(tcp.number("code"), REFUSED, "{tcp}");
    assert_eq!(world.dns.queries(), []);
    world.wire.assert_arrived(&[]);
}

const SESSION: &str = "[[answer]]\naccess = \"connect\"\nanswer = \"session\"\nafter = \"300ms\"\n";

fn one_question() {
    let world = World::new();
    let mut sandbox = sandbox(&world, "ask", "");
    sandbox.answers(SESSION);
    let outcome = sandbox.run(&["/bin/sh", "-c", "for n in 1 2 3; do getent ahosts www.example.org & done; wait"]);
    outcome.assert_code(0);
    outcome.assert(questions(&outcome) == ["www.example.org"], "one question");
    outcome.assert(outcome.out().matches(&WWW.to_string()).count() >= 3, "all are answered");
}

fn slow_person() {
    let world = World::new();
    let mut sandbox = sandbox(&world, "ask", "");
    sandbox.answers(&SESSION.replace("300ms", "6s"));
    let outcome = sandbox.run(&sandbox.inside("ask-again", &["www.example.org"]));
    outcome.assert(questions(&outcome) == ["www.example.org"], "one question");
    assert_eq!(outcome.number("code"), 0, "{outcome}");
}

fn once() {
    let world = World::new();
    let rule = ONLY_WWW.replace("\"allow\"", "\"ask\"\nremember = \"attempt\"");
    let mut sandbox = sandbox(&world, "deny", &rule);
    sandbox.answers(&SESSION.replace("session", "once"));
    let outcome = sandbox.run(&["getent", "ahosts", "www.example.org"]);
    outcome.assert(questions(&outcome) == ["www.example.org"], "one question");
    let out = outcome.out();
    outcome.assert(out.contains(&WWW.to_string()) && out.contains(&WWW6.to_string()), "both families");
}

fn killed() {
    let world = World::new();
    let mut sandbox = sandbox(&world, "ask", "");
    sandbox.answers(&SESSION.replace("300ms", "60s"));
    // The first stays a zombie while the second asks.
    let script = "import os, subprocess\n\
                  for n in range(2):\n\
                  \x20   one = subprocess.Popen(['getent', 'hosts', 'www.example.org'])\n\
                  \x20   try: one.communicate(timeout=3)\n\
                  \x20   except subprocess.TimeoutExpired: os.kill(one.pid, 9)\n";
    let outcome = sandbox.run(&["/usr/bin/python3", "-c", script]);
    outcome.assert(questions(&outcome) == ["www.example.org"; 2], "the first question was withdrawn");
}

fn search_domains() {
    let world = World::new();
    world.resolv_conf(&format!("nameserver {RESOLVER}\nsearch example.org\n"));
    let mut sandbox = sandbox(&world, "ask", "");
    sandbox.answers("[[answer]]\nanswer = \"deny\"\n");
    let outcome = sandbox.run(&["/bin/sh", "-c", "getent hosts secret; getent hosts a.example.net; true"]);
    outcome.assert(questions(&outcome) == ["secret.example.org", "a.example.net"], "each is asked for once");
    assert_eq!(world.dns.queries(), []);
}

fn tunnels() {
    let world = World::new();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let record = Arc::clone(&seen);
    world.dns.lie("www.example.org", move |query| {
        record.lock().unwrap().push(query.to_vec());
        Vec::new()
    });
    let sandbox = sandbox(&world, "deny", ONLY_WWW);
    let long = format!("{}.{}.www.example.org", "s".repeat(63), "t".repeat(63));
    let below: Vec<String> = (0..30).map(|number| format!("data{number}.www.example.org")).collect();
    let mut script = String::from("set -e\n");
    for name in below.iter().chain([&long, &"_secretdatasecret._x.www.example.org".to_owned()]) {
        for kind in [A, TXT] {
            let line = sandbox.inside("ask-name", &["127.0.0.1", name, &kind.to_string()]);
            script.push_str(&line.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" "));
            script.push('\n');
        }
    }
    let outcome = sandbox.run(&["/bin/sh", "-c", &script]);
    outcome.assert_code(0);
    outcome.assert(outcome.values("code").iter().all(|code| code == "5"), "all are refused");
    assert_eq!(world.dns.queries(), []);
    // The allowed name itself, with capitals, an option, a strange id and flags.
    let mut query = named("wWw.ExAmPlE.oRg", A);
    query[0..2].copy_from_slice(b"ID");
    query[3] = 0x70;
    query[11] = 1;
    query.extend_from_slice(&[0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 14, 0xfd, 0xe9, 0, 10]);
    query.extend_from_slice(b"secretdata");
    let hex: String = query.iter().map(|byte| format!("{byte:02x}")).collect();
    sandbox.run(&sandbox.inside("ask-packet", &["127.0.0.1", &hex]));
    let seen = seen.lock().unwrap();
    assert!(!seen.is_empty());
    for query in seen.iter() {
        let text = String::from_utf8_lossy(query).into_owned();
        assert!(!text.contains("secretdata") && text.contains("\u{3}www\u{7}example\u{3}org"), "{text:?}");
        assert_eq!(query[3] & 0x70, 0, "the flags are ours");
    }
    assert!(seen.iter().any(|query| !query.starts_with(b"ID")), "so is the id");
}

fn services() {
    let world = World::new();
    world.dns.change(|zone| {
        let target = crate::support::network::Data::Txt("told".into());
        zone.set("_http._tcp.www.example.org", 60, vec![target.clone()]);
        zone.set("_http._tcp.api.example.org", 60, vec![target]);
    });
    let sandbox = sandbox(&world, "deny", ONLY_WWW);
    assert_eq!(ask(&sandbox, "127.0.0.1", "_http._tcp.www.example.org", TXT).number("answers"), 1);
    assert_eq!(ask(&sandbox, "127.0.0.1", "_http._tcp.api.example.org", TXT).number("code"), REFUSED);
    assert_eq!(world.dns.names(), ["_http._tcp.www.example.org"]);
}

fn other_resolvers() {
    let world = World::new();
    let sandbox = sandbox(&world, "deny", ONLY_WWW);
    let [first, second] = OTHER_RESOLVERS.map(|server| server.to_string());
    for server in [&first, &second, "::1", "2001:db8:9::9"] {
        let outcome = ask(&sandbox, server, "api.example.org", A);
        assert_eq!(outcome.number("code"), REFUSED, "{outcome}");
        let outcome = ask(&sandbox, server, "www.example.org", A);
        assert_eq!(outcome.number("answers"), 1, "{outcome}");
    }
    let tcp = sandbox.run(&sandbox.inside("ask-name", &[&first, "api.example.org", "1", "tcp"]));
    tcp.assert([REFUSED, -1].contains(&tcp.number("code")), "no other resolver answers");
    let queries = world.dns.queries();
    assert!(queries.iter().all(|query| query.name == "www.example.org"), "{queries:?}");
    assert!(queries.iter().all(|query| query.at.ip() == RESOLVER), "the host's resolver is asked: {queries:?}");
}

fn special_names() {
    let world = World::new();
    let sandbox = sandbox(&world, "allow", "");
    for (name, kind, code, answers) in [
        ("localhost", A, 0, 1),
        ("app.localhost", AAAA, 0, 1),
        ("printer.local", A, NXDOMAIN, 0),
        ("x.onion", A, NXDOMAIN, 0),
        ("x.invalid", A, NXDOMAIN, 0),
        ("use-application-dns.net", A, NXDOMAIN, 0),
        ("_dns.resolver.arpa", 64, NXDOMAIN, 0),
        ("192.0.2.10", A, NXDOMAIN, 0),
        ("0x7f000001", A, NXDOMAIN, 0),
        ("2130706433", A, NXDOMAIN, 0),
        ("a%2eb.example.org", A, NXDOMAIN, 0),
        ("a\0b.example.org", A, NXDOMAIN, 0),
        ("2.0.192.in-addr.arpa", PTR, NXDOMAIN, 0),
    ] {
        // An argument holds no NUL.
        let outcome = if name.contains('\0') {
            let hex: String = named(name, kind).iter().map(|byte| format!("{byte:02x}")).collect();
            sandbox.run(&sandbox.inside("ask-packet", &["127.0.0.1", &hex]))
        } else {
            ask(&sandbox, "127.0.0.1", name, kind)
        };
        assert_eq!((outcome.number("code"), outcome.number("answers")), (code, answers), "{name}: {outcome}");
    }
    assert_eq!(world.dns.queries(), []);
}

fn odd_packets() {
    let world = World::new();
    let sandbox = sandbox(&world, "allow", "");
    let good = named("www.example.org", A);
    let with = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut packet = good.clone();
        change(&mut packet);
        packet
    };
    let class = good.len() - 1;
    for (packet, code) in [
        (with(&|packet| packet[2] = 0x28), 4),
        (with(&|packet| packet[5] = 2), 1),
        (with(&|packet| packet.truncate(16)), 1),
        (with(&|packet| packet[class] = 3), REFUSED),
        (with(&|packet| packet[class - 2] = 252), REFUSED),
        (with(&|packet| packet[12] = 0xc0), 1),
        (with(&|packet| packet[2] = 0x81), -1),
        (vec![0; 5], -1),
    ] {
        let hex: String = packet.iter().map(|byte| format!("{byte:02x}")).collect();
        let outcome = sandbox.run(&sandbox.inside("ask-packet", &["127.0.0.1", &hex]));
        assert_eq!(outcome.number("code"), code, "{hex}: {outcome}");
    }
    assert_eq!(world.dns.queries(), []);
}

fn hosts_file() {
    let world = World::new();
    world.hosts(&format!("127.0.0.1 localhost\n{PRIVATE} db db.local\n"));
    let sandbox = sandbox(&world, "deny", "");
    let outcome = sandbox.run(&["getent", "hosts", "db"]);
    outcome.assert(outcome.out().contains(&PRIVATE.to_string()), "by the file");
    for name in ["db", "DB.local"] {
        let outcome = ask(&sandbox, "127.0.0.1", name, A);
        assert_eq!((outcome.number("code"), outcome.number("answers")), (0, 1), "{outcome}");
    }
    assert_eq!(world.dns.queries(), []);
}

fn reverse() {
    let world = World::new();
    let mut sandbox = sandbox(&world, "ask", "");
    sandbox.answers(SESSION);
    let outcome = sandbox.run(&[
        "/bin/sh",
        "-c",
        "getent hosts 192.0.2.10; getent ahosts www.example.org >/dev/null; getent hosts 192.0.2.10; getent hosts 10.1.2.3; \
         getent hosts 127.0.0.1",
    ]);
    let out = outcome.out();
    let lines: Vec<&str> = out.lines().collect();
    outcome.assert(
        matches!(lines.as_slice(), [www, own] if www.contains("www.example.org") && own.contains("localhost")),
        "what is known",
    );
    outcome.assert(questions(&outcome) == ["www.example.org"], "no address is asked for");
    assert_eq!(world.dns.names(), ["www.example.org"]);
}

fn answers() {
    let world = World::new();
    let sandbox = sandbox(&world, "deny", ALLOWED);
    for (name, kind, least) in [
        ("alias.example.org", A, 2),
        ("www.example.org", HTTPS, 1),
        ("_http._tcp.example.org", SRV, 0),
        ("text.example.org", TXT, 1),
        ("www.example.org", 15, 0),
    ] {
        let outcome = ask(&sandbox, "127.0.0.1", name, kind);
        assert!(outcome.number("answers") >= least, "{name}: {outcome}");
    }
    assert_eq!(ask(&sandbox, "127.0.0.1", "nowhere.example.org", A).number("code"), NXDOMAIN);
    assert_eq!(ask(&sandbox, "127.0.0.1", "www.example.org", 15).number("code"), 0);
}

fn long_answers() {
    let world = World::new();
    let sandbox = sandbox(&world, "deny", ALLOWED);
    let udp = ask(&sandbox, "127.0.0.1", "long.example.org", TXT);
    udp.assert(udp.number("flags") & 0x0200 != 0 && udp.number("length") <= 512, "it is truncated");
    let tcp = sandbox.run(&sandbox.inside("ask-name", &["127.0.0.1", "long.example.org", &TXT.to_string(), "tcp"]));
    tcp.assert(tcp.number("length") > 4000, "all of it");
}

fn bad_servers() {
    let world = World::new();
    // Another id; another question; a name that points at itself; 60 kB of nothing.
    world.dns.lie("id.example.org", |query| {
        let mut answer = query.to_vec();
        answer[0] ^= 0xff;
        answer[2] |= 0x80;
        vec![answer]
    });
    world.dns.lie("question.example.org", |query| {
        let mut answer = query.to_vec();
        answer[2] |= 0x80;
        answer[13] = b'x';
        vec![answer]
    });
    world.dns.lie("loop.example.net", |query| {
        let mut answer = query.get(..12).unwrap_or_default().to_vec();
        answer[2] |= 0x80;
        answer[7] = 1;
        answer.extend_from_slice(&[0xc0, 12, 0, 1, 0, 1, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 1, 2, 3, 4]);
        vec![answer]
    });
    world.dns.lie("huge.example.org", |query| {
        let mut answer = query.to_vec();
        answer[2] |= 0x80;
        answer.resize(60_000, 0);
        vec![answer]
    });
    world.resolv_conf(&format!("nameserver {RESOLVER}\noptions timeout:1 attempts:1\n"));
    let rules = ALLOWED.replace("*.example.org:*\"", "*.example.org:*\", \"*.example.net:*\"");
    let sandbox = sandbox(&world, "deny", &rules);
    for name in [
        "id.example.org",
        "question.example.org",
        "loop.example.net",
        "huge.example.org",
        "mute.example.org",
        "broken.example.org",
    ] {
        let since = Instant::now();
        let outcome = ask(&sandbox, "127.0.0.1", name, A);
        assert!([2, 3].contains(&outcome.number("code")) || outcome.number("answers") == 0, "{name}: {outcome}");
        assert!(since.elapsed() < Duration::from_secs(20), "{name} took {:?}", since.elapsed());
    }
    assert_eq!(ask(&sandbox, "127.0.0.1", "www.example.org", A).number("answers"), 1);
    // Nobody there at all.
    world.resolv_conf("nameserver 192.0.2.99\noptions timeout:1 attempts:1\n");
    assert_eq!(ask(&sandbox, "127.0.0.1", "www.example.org", A).number("code"), 2);
}

fn settings() {
    let world = World::new();
    world.resolv_conf("nameserver 192.0.2.99\noptions timeout:1 attempts:1\n");
    let sandbox = sandbox(&world, "deny", ALLOWED);
    let ready = sandbox.workspace().join("ready");
    let script = format!(
        "getent hosts www.example.org && exit 9; touch {}; until getent ahostsv4 www.example.org; do :; done",
        ready.display()
    );
    let running = sandbox.start(crate::support::Side::Gated, &["/bin/sh", "-c", &script]);
    crate::support::until("the first answer", || ready.exists().then_some(()));
    world.resolv_conf(&format!("nameserver {RESOLVER}\noptions timeout:1 attempts:1\n"));
    let outcome = running.finish();
    outcome.assert_code(0);
    outcome.assert(outcome.out().contains(&WWW.to_string()), "by the new server");
}

fn flood() {
    let world = World::new();
    let sandbox = sandbox(&world, "ask", ALLOWED);
    let outcome = sandbox.run(&sandbox.inside("ask-many", &["10000"]));
    assert_eq!(outcome.number("answers"), 1, "{outcome}");
    assert_eq!(world.dns.names(), ["www.example.org"]);
}

fn hidden_services() {
    let world = World::new();
    let sandbox = sandbox(&world, "deny", "");
    let outcome = sandbox.run(&[
        "/bin/sh",
        "-c",
        "ls -A /run/nscd /var/run/nscd /run/systemd /run/dbus 2>/dev/null | grep -v : ; true",
    ]);
    outcome.assert(!outcome.out().contains("socket") && !outcome.out().contains("io."), "no service is there");
}
