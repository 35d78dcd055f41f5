//! Ways around a verdict that are closed: each works bare, or is shown to be a way, and leads nowhere inside.

use std::net::SocketAddr;

use crate::Test;
use crate::support::network::World;
use crate::tcp::{RULES, python, sandbox};

pub const TESTS: &[Test] = &[
    ("the_unspecified_address_is_the_one_that_was_judged_wherever_a_socket_is_bound", unspecified),
    ("a_published_port_opens_no_service_of_another_loopback_address", published),
    ("localhost_is_no_other_loopback_address", localhost),
];

fn at(address: &str) -> SocketAddr {
    address.parse().expect("an address")
}

fn rule(id: &str, hosts: &str, level: &str) -> String {
    format!("[[rule]]\nid = \"{id}\"\naccess = [\"connect\"]\nhost = [{hosts}]\nlevel = \"{level}\"\n")
}

/// What a socket that is bound to one address reaches under another, of services that send back what they get.
const BOUND: &str = "
def reaches(family, bound, to):
    c = tcp(family); c.settimeout(20)
    if bound: c.bind((bound, 0))
    c.connect(to); c.send(b'x'); return c.recv(1)
t('plain', lambda: reaches(2, None, ('127.0.0.1', 5000)))
t('other', lambda: reaches(2, '127.0.0.2', ('0.0.0.0', 5000)))
t('six', lambda: reaches(10, None, ('::1', 5001)))
t('mapped', lambda: reaches(10, '::ffff:127.0.0.1', ('::', 5001)))
";

/// The kernel takes the address that a socket is bound to for it.
fn unspecified() {
    let world = World::new();
    let service = |address: &str| world.tcp_echo(&world.machine, at(address));
    let (first, second) = (service("127.0.0.1:5000"), service("127.0.0.2:5000"));
    let (six, mapped) = (service("[::1]:5001"), service("127.0.0.1:5001"));
    let seen = || [&first, &second, &six, &mapped].map(|log| log.seen().len());
    let sandbox = sandbox(&world, &format!("{RULES}{}", rule("local", "\"127.0.0.1:5000\", \"[::1]:5001\"", "allow")));
    let bare = sandbox.bare(&python(BOUND));
    assert_eq!(bare.out(), "plain b'x'\nother b'x'\nsix b'x'\nmapped b'x'\n", "{bare}");
    assert_eq!(seen(), [1, 1, 1, 1], "a way to others, bare");
    let inside = sandbox.run(&python(BOUND));
    inside.assert_code(0);
    assert_eq!((inside.values("plain"), inside.values("six")), (vec!["b'x'".into()], vec!["b'x'".into()]), "{inside}");
    let [_, second, _, mapped] = seen();
    assert_eq!((second, mapped), (1, 1), "{inside}");
}

fn published() {
    let world = World::new();
    let log = world.tcp_echo(&world.machine, at("127.0.0.2:3000"));
    let script = "
l = tcp(); l.setsockopt(1, 2, 1); l.bind(('127.0.0.1', 3000)); l.listen()
def ask():
    c = tcp(); c.settimeout(20); c.bind(('127.0.0.2', 0)); c.connect(('0.0.0.0', 3000)); return c
t('connects', lambda: ask() and None)
";
    let mut sandbox = sandbox(&world, &RULES.replace("bind = \"deny\"", "bind = \"ask\""));
    ["--publish", "3000"].iter().for_each(|word| sandbox.option(word));
    sandbox.bare(&python(script)).assert_code(0);
    assert_eq!(log.seen().len(), 1, "a way to it, bare");
    let inside = sandbox.run(&python(script));
    assert_eq!(inside.out(), "connects None\n", "its own listener: {inside}");
    assert_eq!(log.seen().len(), 1, "{inside}");
}

fn localhost() {
    let world = World::new();
    let logs = ["127.0.0.1:5000", "127.0.0.2:5000"].map(|address| world.tcp_echo(&world.machine, at(address)));
    let sandbox = sandbox(&world, &format!("{RULES}{}", rule("local", "\"localhost:5000\"", "allow")));
    let script = "
t('itself', lambda: tcp().connect(('127.0.0.1', 5000)))
t('other', lambda: tcp().connect(('127.0.0.2', 5000)))
";
    let bare = sandbox.bare(&python(script));
    assert_eq!(bare.out(), "itself None\nother None\n", "{bare}");
    let inside = sandbox.run(&python(script));
    assert_eq!(inside.out(), "itself None\nother EACCES\n", "{inside}");
    assert_eq!(logs.map(|log| log.seen().len()), [2, 1]);
}
