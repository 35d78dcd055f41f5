//! `localhost`: the session's own, the host's by consent, and what the host can reach.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::Test;
use crate::support::network::World;
use crate::support::{Outcome, Sandbox, Side, until};
use crate::tcp::{RULES, python, sandbox};

pub const TESTS: &[Test] = &[
    ("a_server_and_its_client_inside_need_no_question", both_inside),
    ("two_sessions_have_the_same_port", same_port),
    ("a_service_of_the_host_needs_consent", host_service),
    ("a_port_of_the_host_where_nobody_listens_refuses_without_a_question", nobody),
    ("a_server_that_listens_everywhere_is_published_where_it_was_said", published),
    ("what_listens_without_a_rule_cannot_be_reached_from_outside", unpublished),
    ("a_rule_for_bind_decides", bind_rules),
    ("sockets_that_are_moved_stay_registered_with_epoll", epoll),
    ("a_connection_that_was_accepted_is_there_for_every_thread_of_its_client", accepted),
    ("every_duplicate_of_a_moved_socket_is_moved", duplicates),
    ("what_races_with_a_bind_that_was_judged_is_never_reached", races),
];

const BOTH: &str = "
def both(family, at, to):
    l = tcp(family); l.setsockopt(1, 2, 1); l.bind((at, 3000)); l.listen()
    c = tcp(socket.AF_INET6 if ':' in to else socket.AF_INET); c.connect((to, 3000)); s = l.accept()[0]; s.send(b'hello'); c.close
    got = c.recv(5).decode(), c.getpeername()[0]; l.close(); c.close(); s.close(); return got
t('v4', lambda: both(socket.AF_INET, '127.0.0.1', '127.0.0.1'))
t('any', lambda: both(socket.AF_INET, '0.0.0.0', '127.0.0.1'))
t('zero', lambda: both(socket.AF_INET, '127.0.0.1', '0.0.0.0'))
t('six', lambda: both(socket.AF_INET6, '::1', '::1'))
t('dual', lambda: both(socket.AF_INET6, '::', '127.0.0.1'))
t('other', lambda: both(socket.AF_INET, '127.0.0.7', '127.0.0.7'))
";

fn both_inside() {
    let world = World::new();
    let outcome = sandbox(&world, RULES).run(&python(BOTH));
    outcome.assert_code(0);
    for name in ["v4", "any", "zero", "six", "dual", "other"] {
        outcome.assert(outcome.values(name).concat().starts_with("('hello'"), name);
    }
    assert_eq!(questions(&outcome), [""; 0]);
    world.wire.assert_arrived(&[]);
}

fn questions(outcome: &Outcome) -> Vec<String> {
    outcome.events_of("consent_required").map(|event| event["object"].as_str().unwrap_or_default().to_owned()).collect()
}

/// Serves until a line comes on the fifo that is returned, open.
fn serve<'a>(sandbox: &'a Sandbox, script: &str) -> (crate::support::Running<'a>, std::fs::File) {
    let fifo = sandbox.workspace().join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).expect("mkfifo");
    sandbox.give(&fifo);
    let hold = std::fs::File::options().read(true).write(true).open(&fifo).expect("open");
    let script = format!("{script}\nprint('ready', flush=True); open('fifo').readline()\n");
    let running = sandbox.start(crate::support::Side::Gated, &python(&script));
    until("it serves", || {
        let ended = running.pidfd.ends_within(std::time::Duration::ZERO);
        assert!(!ended, "it ended: {}{}", running.so_far(), running.errors_so_far());
        running.so_far().contains("ready").then_some(())
    });
    (running, hold)
}

const SERVER: &str = "
l = tcp(); l.setsockopt(1, 2, 1); l.bind(('0.0.0.0', 3000)); l.listen()
def answer():
    while True:
        s = l.accept()[0]; s.send(NAME); s.close()
threading.Thread(target=answer, daemon=True).start()
c = tcp(); c.connect(('127.0.0.1', 3000)); print('own', c.recv(9).decode(), l.getsockname()[0])
";

fn reach(world: &World, at: &str) -> Option<String> {
    let at: SocketAddr = at.parse().expect("an address");
    world.machine.inside(|| {
        let mut text = String::new();
        TcpStream::connect(at).ok()?.read_to_string(&mut text).ok()?;
        Some(text)
    })
}

fn same_port() {
    let world = World::new();
    let (first, second) = (sandbox(&world, RULES), sandbox(&world, RULES));
    let (one, hold_one) = serve(&first, &SERVER.replace("NAME", "b'one'"));
    let (two, hold_two) = serve(&second, &SERVER.replace("NAME", "b'two'"));
    for (hold, running, name) in [(hold_one, one, "one"), (hold_two, two, "two")] {
        (&hold).write_all(b"\n").expect("write");
        let outcome = running.finish();
        assert_eq!(outcome.values("own"), [format!("{name} 0.0.0.0")]);
    }
}

fn host_service() {
    let world = World::new();
    let log = world.tcp_echo(&world.machine, "127.0.0.1:5000".parse().expect("an address"));
    let script = "
t('host', lambda: (lambda c: (c.connect(('127.0.0.1', 5000)), c.send(b'x'), c.recv(1)))(tcp())[1:])
t('any', lambda: (lambda c: (c.connect(('0.0.0.0', 5000)), c.send(b'x'), c.recv(1)))(tcp())[1:])
t('bound', lambda: (lambda c: (c.bind(('127.0.0.1', 0)), c.connect(('127.0.0.1', 5000)), c.send(b'x'), c.recv(1)))(tcp())[2:])
";
    let outcome = sandbox(&world, RULES).run(&python(script));
    assert_eq!(outcome.out(), "host EACCES\nany EACCES\nbound EACCES\n", "denied by the default: {outcome}");
    assert!(log.seen().is_empty());
    let mut asks = sandbox(&world, &RULES.replace("connect = \"deny\"", "connect = \"ask\""));
    asks.answers("[[answer]]\naccess = \"connect\"\nanswer = \"session\"\n");
    let outcome = asks.run(&python(script));
    assert_eq!(outcome.out(), "host (1, b'x')\nany (1, b'x')\nbound (1, b'x')\n", "{outcome}");
    assert_eq!(questions(&outcome).len(), 1, "{outcome}");
    assert_eq!(log.seen().len(), 3);
}

fn nobody() {
    let world = World::new();
    let mut asks = sandbox(&world, &RULES.replace("connect = \"deny\"", "connect = \"ask\""));
    asks.answers("[[answer]]\naccess = \"connect\"\nanswer = \"session\"\n");
    let script =
        "t('nobody', lambda: tcp().connect(('127.0.0.1', 5001)))\nt('six', lambda: tcp(10).connect(('::1', 5001)))";
    let outcome = asks.run(&python(script));
    assert_eq!(outcome.out(), "nobody ECONNREFUSED\nsix ECONNREFUSED\n", "{outcome}");
    assert_eq!(questions(&outcome), [""; 0]);
    let outcome = sandbox(&world, RULES).run(&python(script));
    assert_eq!(outcome.out(), "nobody EACCES\nsix EACCES\n", "who may not know is not told: {outcome}");
}

fn published() {
    let world = World::new();
    let mut sandbox = sandbox(&world, &RULES.replace("bind = \"deny\"", "bind = \"ask\""));
    ["--publish", "3000"].iter().for_each(|word| sandbox.option(word));
    let (running, hold) = serve(&sandbox, &SERVER.replace("NAME", "b'hello'"));
    assert_eq!(reach(&world, "127.0.0.1:3000").as_deref(), Some("hello"));
    assert_eq!(reach(&world, "198.51.100.2:3000"), None, "not by the machine's address");
    (&hold).write_all(b"\n").expect("write");
    let outcome = running.finish();
    assert_eq!(outcome.values("own"), ["hello 127.0.0.1"], "its own client finds it: {outcome}");
    assert_eq!(questions(&outcome), [""; 0]);
}

fn unpublished() {
    let world = World::new();
    let script = "
l = tcp(); l.listen(); b = tcp(); b.bind(('', 0)); b.listen(); a = tcp(); a.bind(('0.0.0.0', 3000)); a.listen()
six = tcp(10); six.bind(('::', 3001)); six.listen()
t('address', lambda: tcp().bind(('198.51.100.2', 3002)))
print('ports', l.getsockname()[1], b.getsockname()[1], 3000, 3001)
";
    let sandbox = sandbox(&world, RULES);
    let (running, hold) = serve(&sandbox, script);
    let text = running.so_far();
    let ports = text.lines().find_map(|line| line.strip_prefix("ports ")).expect("ports").to_owned();
    for port in ports.split(' ') {
        for host in ["127.0.0.1", "198.51.100.2", "[::1]", "[2001:db8:ffff::2]"] {
            assert_eq!(reach(&world, &format!("{host}:{port}")), None, "{host}:{port}");
        }
    }
    assert!(text.contains("address EACCES"), "{text}");
    (&hold).write_all(b"\n").expect("write");
    running.finish().assert_code(0);
}

fn bind_rules() {
    let world = World::new();
    let rules = "[[rule]]\nid = \"served\"\naccess = [\"bind\"]\nhost = [\"198.51.100.2:3000\", \"127.0.0.1:3001\"]\nlevel = \"allow\"\n\
                 [[rule]]\nid = \"never\"\naccess = [\"bind\"]\nhost = [\"127.0.0.1:3002\"]\nlevel = \"deny\"\n";
    let sandbox = sandbox(&world, &format!("{RULES}{rules}"));
    let script = "
kept = []
def serve(at):
    l = tcp(); l.setsockopt(1, 2, 1); l.bind(at); l.listen(); kept.append(l)
    def answer():
        while True:
            s = l.accept()[0]; s.send(b'hello'); s.close()
    threading.Thread(target=answer, daemon=True).start(); return l.getsockname()
t('outer', lambda: serve(('198.51.100.2', 3000)))
t('inner', lambda: serve(('127.0.0.1', 3001)))
t('never', lambda: serve(('127.0.0.1', 3002)))
t('own', lambda: serve(('127.0.0.1', 3003)))
t('foreign', lambda: serve(('198.51.100.2', 3004)))
";
    let (running, hold) = serve(&sandbox, script);
    for (at, expected) in [
        ("198.51.100.2:3000", Some("hello")),
        ("127.0.0.1:3000", None),
        ("127.0.0.1:3001", Some("hello")),
        ("127.0.0.1:3002", None),
        ("127.0.0.1:3003", None),
        ("198.51.100.2:3004", None),
    ] {
        assert_eq!(reach(&world, at).as_deref(), expected, "{at}");
    }
    let text = running.so_far();
    assert!(text.contains("never EACCES") && text.contains("foreign EACCES"), "{text}");
    assert!(text.contains("own ('127.0.0.1', 3003)"), "{text}");
    (&hold).write_all(b"\n").expect("write");
    running.finish().assert_code(0);
}

fn epoll() {
    let world = World::new();
    let script = "
# As Netty's: what is registered before it is bound or connected.
l = tcp(); l.setblocking(False); e = select.epoll(); e.register(l, select.EPOLLIN | select.EPOLLET)
l.bind(('127.0.0.1', 3000)); l.listen()
c = tcp(); c.setblocking(False); e.register(c, select.EPOLLIN | select.EPOLLOUT | select.EPOLLET | select.EPOLLRDHUP); e.poll(0)
got = code(c.connect_ex(('127.0.0.1', 3000)))
seen = {}
def look(until):
    end = time.monotonic() + 20
    while not until() and time.monotonic() < end:
        for fd, events in e.poll(0.2): seen[fd] = seen.get(fd, 0) | events
look(lambda: seen.get(l.fileno(), 0) & 1 and seen.get(c.fileno(), 0) & 4)
s = l.accept()[0]; print('connects', got, bool(seen[l.fileno()] & 1), bool(seen[c.fileno()] & 4))
seen.clear(); s.send(b'hello'); look(lambda: seen.get(c.fileno(), 0) & 1); print('hears', bool(seen[c.fileno()] & 1), c.recv(5))
e.modify(c, select.EPOLLOUT); e.unregister(c); e.register(c, select.EPOLLIN); print('managed', c.getblocking())
";
    let outcome = sandbox(&world, RULES).run(&python(script));
    outcome.assert_code(0);
    assert_eq!(outcome.out(), "connects EINPROGRESS True True\nhears True b'hello'\nmanaged False\n", "{outcome}");
}

/// The peer may accept, answer and close before connect(2) returns in the client, and another thread of the client be told.
fn accepted() {
    let script = "
l = tcp(); l.setsockopt(1, 2, 1); l.bind(('127.0.0.1', 3000)); l.listen()
early = []
for n in range(300):
    c = tcp(); thread = threading.Thread(target=c.connect, args=(('127.0.0.1', 3000),)); thread.start()
    s = l.accept()[0]
    try: c.getpeername()
    except OSError as error: early.append(code(error.errno))
    s.close(); thread.join(); early.append(c.recv(1)); c.close()
print('seen', set(early))
";
    let world = World::new();
    for side in [Side::Bare, Side::Gated] {
        let outcome = sandbox(&world, RULES).on(side, &python(script));
        assert_eq!(outcome.out(), "seen {b''}\n", "{outcome}");
    }
}

fn duplicates() {
    let world = World::new();
    let script = "
l = tcp(); twin = os.dup(l.fileno()); os.set_inheritable(twin, True); l.bind(('127.0.0.1', 3000)); libc.listen(twin, 5)
print(os.fstat(twin).st_ino == os.fstat(l.fileno()).st_ino, os.get_inheritable(twin), os.get_inheritable(l.fileno()))
c = tcp(); c.connect(('127.0.0.1', 3000)); print(l.accept()[1][0])
";
    let outcome = sandbox(&world, RULES).run(&python(script));
    assert_eq!(outcome.out(), "True True False\n127.0.0.1\n", "{outcome}");
}

/// A socket that was bound where it may be is unbound and bound elsewhere while it is made to listen.
fn races() {
    let world = World::new();
    let script = "
ANY = bytes([2, 0]) + bytes(14); OWN = struct.pack('=H', 2) + struct.pack('>H', 3000) + socket.inet_aton('127.0.0.1') + bytes(8)
out = []
for n in range(400):
    s = tcp(); s.setsockopt(1, 2, 1); fd = s.fileno()
    def other():
        raw('connect', fd, bytes(16)); raw('bind', fd, ANY)
    thread = threading.Thread(target=other)
    raw('bind', fd, OWN); thread.start(); libc.listen(fd, 1); thread.join()
    name = s.getsockname()
    if s.getsockopt(1, 30) and name[1] not in (0, 3000):
        # It listens at a port of the kernel's choice: whose network is that?
        try:
            c = tcp(); c.bind(('198.51.100.2', 0)); out.append('bound')
        except OSError: pass
        cookie = s.getsockopt(1, 71, 8); out.append('host' if cookie == tcp().getsockopt(1, 71, 8) else 'session')
    s.close()
print('host', out.count('host'))
";
    let mut sandbox = sandbox(&world, &RULES.replace("bind = \"deny\"", "bind = \"ask\""));
    ["--publish", "3000"].iter().for_each(|word| sandbox.option(word));
    let outcome = sandbox.run(&python(script));
    assert_eq!(outcome.out(), "host 0\n", "{outcome}");
}
