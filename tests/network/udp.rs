//! UDP: by rule, to one port of one host, and to nobody else; counted on the wire.

use crate::Test;
use crate::support::network::World;
use crate::tcp::{RULES, python, sandbox};

pub const TESTS: &[Test] = &[
    ("datagrams_go_where_a_rule_says_and_nowhere_else", by_rule),
    ("without_a_rule_no_datagram_leaves", none),
    ("a_name_with_a_rule_opens_the_way_for_every_call", by_name),
    ("answers_come_from_the_peer_alone", answers),
    ("many_senders_have_their_own_answers", many),
];

/// Port 7 of the echo's two addresses.
const UDP: &str = "[[rule]]\nid = \"datagrams\"\naccess = [\"connect\"]\nprotocol = [\"udp\"]\n\
    host = [\"192.0.2.10:7\", \"[2001:db8:2::10]:7\"]\nlevel = \"allow\"\n";

const PART: &str = "
SIX = ('2001:db8:2::10', 7)
def udp(family=socket.AF_INET):
    s = socket.socket(family, socket.SOCK_DGRAM); s.settimeout(10); return s
def connected(to, family=socket.AF_INET):
    s = udp(family); s.connect(to); s.send(b'one'); return s.recv(9), s.getpeername()[:2]
def sent(to, family=socket.AF_INET):
    s = udp(family); s.sendto(b'two', to); return s.recvfrom(9)[0], s.getsockname()[1] != 0
def quick(part):
    def run():
        begun = time.monotonic()
        try: return part()
        finally: assert time.monotonic() - begun < 5
    return run
";

fn by_rule() {
    let world = World::new();
    let script = format!(
        "{PART}
t('connect', lambda: connected(WWW))
t('sendto', lambda: sent(WWW))
t('six', lambda: connected(SIX, socket.AF_INET6))
t('six-sendto', lambda: sent(SIX, socket.AF_INET6)[0])
t('mapped', lambda: connected(('::ffff:192.0.2.10', 7), socket.AF_INET6)[0])
t('large', lambda: (lambda s: (s.connect(WWW), s.send(b'x' * 1200), len(s.recv(9000))))(udp())[1:])
t('too-large', lambda: udp().sendto(b'x' * 70000, WWW))
t('other-port', quick(lambda: connected(('192.0.2.10', 8))))
t('other-host', quick(lambda: connected(OTHER)))
t('other-sendto', quick(lambda: sent(OTHER)))
t('multicast', lambda: udp().sendto(b'x', ('224.0.0.251', 5353)))
t('loopback', lambda: (lambda a, b: (a.bind(('127.0.0.1', 0)), b.sendto(b'x', a.getsockname()), a.recv(1)))(udp(), udp())[1:])
"
    );
    let outcome = sandbox(&world, &format!("{RULES}{UDP}")).run(&python(&script));
    outcome.assert_code(0);
    let said = |name: &str| outcome.values(name).join(" ");
    assert_eq!(said("connect"), "(b'one', ('192.0.2.10', 7))", "{outcome}");
    assert_eq!(said("sendto"), "(b'two', True)", "{outcome}");
    assert_eq!(
        (said("six"), said("six-sendto")),
        ("(b'one', ('2001:db8:2::10', 7))".into(), "b'two'".into()),
        "{outcome}"
    );
    assert_eq!((said("mapped"), said("large")), ("b'one'".into(), "(1200, 1200)".into()), "{outcome}");
    assert_eq!(said("too-large"), "EMSGSIZE", "{outcome}");
    assert_eq!((said("other-port"), said("other-host")), ("ECONNREFUSED".into(), "ECONNREFUSED".into()), "{outcome}");
    assert_eq!((said("other-sendto"), said("loopback")), ("EACCES".into(), "(1, b'x')".into()), "{outcome}");
    world.wire.assert_arrived(&["udp 192.0.2.10:7", "udp [2001:db8:2::10]:7"]);
}

fn none() {
    let world = World::new();
    let script = format!(
        "{PART}
t('connect', quick(lambda: connected(WWW)))
t('sendto', quick(lambda: sent(WWW)))
t('sendmsg', lambda: udp().sendmsg([b'x'], [], 0, WWW))
for n in range(100): t('many', lambda: udp().sendmsg([b'x'], [], 0, ('192.0.2.%d' % n, 1000 + n)))
"
    );
    let outcome = sandbox(&world, RULES).run(&python(&script));
    outcome.assert_code(0);
    assert_eq!(
        (outcome.values("connect").concat(), outcome.values("sendto").concat()),
        ("ECONNREFUSED".into(), "EACCES".into())
    );
    world.wire.assert_arrived(&[]);
}

fn by_name() {
    let world = World::new();
    let rule = "[[rule]]\nid = \"name\"\naccess = [\"connect\"]\nprotocol = [\"udp\"]\nhost = [\"www.example.org:7\"]\nlevel = \"allow\"\n\
                [[rule]]\nid = \"look\"\naccess = [\"connect\"]\nhost = [\"www.example.org:443\"]\nlevel = \"allow\"\n";
    let script = format!(
        "{PART}
to = socket.getaddrinfo('www.example.org', 7, socket.AF_INET, socket.SOCK_DGRAM)[0][4]
s = udp(); s.sendmsg([b'three'], [], 0, to); t('sendmsg', lambda: s.recvfrom(9))
t('connect', lambda: connected(to))
t('other', quick(lambda: connected((to[0], 9))))
"
    );
    let outcome = sandbox(&world, &format!("{RULES}{rule}")).run(&python(&script));
    outcome.assert_code(0);
    assert_eq!(outcome.values("sendmsg"), ["(b'three', ('192.0.2.10', 7))"], "{outcome}");
    assert_eq!(outcome.values("other"), ["ECONNREFUSED"], "{outcome}");
    let arrived = world.wire.arrived();
    assert!(arrived.keys().filter(|to| !to.ends_with(":53")).eq(["udp 192.0.2.10:7"].iter()), "{arrived:?}");
}

fn answers() {
    let world = World::new();
    let script = format!(
        "{PART}
s = udp(); s.connect(WWW); s.send(b'one'); print(s.recv(9)); print('to', flush=True)
u = udp(); u.sendmsg([b'mine'], [], 0, WWW); u.settimeout(1)
try: print('another', u.recv(9))
except OSError: print('another nothing')
"
    );
    let outcome = sandbox(&world, &format!("{RULES}{UDP}")).run(&python(&script));
    outcome.assert_code(0);
    // A socket that did not ask has no way out through what another opened.
    assert_eq!(outcome.values("another"), ["nothing"], "{outcome}");
    world.wire.assert_arrived(&["udp 192.0.2.10:7"]);
}

fn many() {
    let world = World::new();
    let script = format!(
        "{PART}
sockets = [udp() for _ in range(100)]
for n, s in enumerate(sockets): s.connect(WWW); s.send(b'%d' % n)
print('own', sum(s.recv(9) == b'%d' % n for n, s in enumerate(sockets)))
"
    );
    let outcome = sandbox(&world, &format!("{RULES}{UDP}")).run(&python(&script));
    assert_eq!(outcome.out(), "own 100\n", "{outcome}");
}
