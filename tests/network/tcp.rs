//! TCP: whom a session reaches, by which calls, and what it meets. What is denied leaves no packet; what is allowed behaves
//! as it does bare.

use std::net::SocketAddr;

use crate::support::network::{MACHINE, OTHER, WWW, World};
use crate::support::{Outcome, Sandbox, Side};
use crate::{Inside, Test};

pub const TESTS: &[Test] = &[
    ("what_is_not_allowed_is_refused_at_once_and_nothing_leaves", denied),
    ("no_other_way_connects", other_ways),
    ("a_socket_that_is_disconnected_is_judged_again", again),
    ("an_address_that_changes_after_it_was_read_is_not_the_one_that_is_reached", rewritten),
    ("a_socket_that_changes_after_it_was_taken_is_not_the_one_that_is_connected", exchanged),
    ("errors_are_those_of_a_bare_program", errors),
    ("connections_that_take_their_time_are_those_of_a_bare_program", slow),
    ("a_connection_that_waits_holds_up_nobody", others_go_on),
    ("signals_storm_and_nothing_fails", storm),
    ("a_thousand_connections_at_once", thousand),
    ("names_of_sockets_are_those_of_a_bare_program", names),
    ("a_socket_from_outside_is_judged", given),
    ("a_name_that_leads_to_the_machine_itself_gives_nothing", rebound),
];

pub const INSIDE: &[Inside] = &[("rewrite-address", rewrite_address), ("exchange-socket", exchange_socket)];

/// Port 7 of [`WWW`] and [`SILENT`] alone, and by the address.
pub const RULES: &str = "schema = 1\n[profile]\nname = \"tcp\"\n[defaults]\nwrite = \"allow\"\nconnect = \"deny\"\nbind = \"deny\"\n\
    [[rule]]\nid = \"echo\"\naccess = [\"connect\"]\nhost = [\"192.0.2.10:7\", \"192.0.2.66:7\"]\nlevel = \"allow\"\n";

/// What scripts begin with: `t` says what a part returns, or its errno.
pub const PRELUDE: &str = "
import ctypes, errno, os, select, signal, socket, struct, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
def t(name, part):
    try: print(name, part(), flush=True)
    except OSError as e: print(name, errno.errorcode.get(e.errno, e.errno), flush=True)
def tcp(family=socket.AF_INET): return socket.socket(family, socket.SOCK_STREAM)
def code(number): return errno.errorcode.get(number, number)
WWW, OTHER, SILENT = ('192.0.2.10', 7), ('203.0.113.20', 7), ('192.0.2.66', 7)
def raw(call, fd, bytes, length=None):
    ctypes.set_errno(0)
    got = getattr(libc, call)(fd, bytes, len(bytes) if length is None else length)
    return 0 if got == 0 else code(ctypes.get_errno())
";

pub fn python(script: &str) -> Vec<String> {
    ["/usr/bin/python3", "-c", &format!("{PRELUDE}{script}")].map(str::to_owned).to_vec()
}

pub fn sandbox(world: &World, profile: &str) -> Sandbox {
    let sandbox = world.sandbox();
    sandbox.profile(profile);
    sandbox
}

/// The script prints the same bare and inside; what it printed inside.
#[track_caller]
fn alike(world: &World, profile: &str, script: &str) -> Outcome {
    let sandbox = sandbox(world, profile);
    let bare = sandbox.on(Side::Bare, &python(script));
    bare.assert_code(0);
    let inside = sandbox.run(&python(script));
    inside.assert_code(0);
    let (own, expected) = (inside.out(), bare.out());
    let differs: Vec<_> = own.lines().zip(expected.lines()).filter(|(own, bare)| own != bare).collect();
    assert_eq!((differs.as_slice(), own.lines().count()), (&[][..], expected.lines().count()), "inside, and bare");
    inside
}

fn denied() {
    let world = World::new();
    let script = "
t('allowed', lambda: (lambda c: (c.connect(WWW), c.send(b'x'), c.recv(1)))(tcp())[1:])
t('host', lambda: tcp().connect(OTHER))
t('port', lambda: tcp().connect(('192.0.2.10', 80)))
t('silent', lambda: tcp().connect(('192.0.2.66', 80)))
t('metadata', lambda: tcp().connect(('169.254.169.254', 80)))
t('mapped', lambda: tcp(socket.AF_INET6).connect(('::ffff:203.0.113.20', 7)))
t('six', lambda: tcp(socket.AF_INET6).connect(('2001:db8:2::10', 7)))
t('allowed-mapped', lambda: tcp(socket.AF_INET6).connect(('::ffff:192.0.2.10', 7)))
def nonblocking():
    c = tcp(); c.setblocking(False); return code(c.connect_ex(OTHER))
t('nonblocking', nonblocking)
";
    let outcome = sandbox(&world, RULES).run(&python(script));
    outcome.assert_code(0);
    let expected = "allowed (1, b'x')\nhost EACCES\nport EACCES\nsilent EACCES\nmetadata EACCES\nmapped EACCES\nsix EACCES\n\
                    allowed-mapped None\nnonblocking EACCES\n";
    assert_eq!(outcome.out(), expected, "{outcome}");
    world.wire.assert_arrived(&["tcp 192.0.2.10:7"]);
}

fn other_ways() {
    let world = World::new();
    let script = "
FAST, FAST_CONNECT = 0x20000000, 30
t('sendto', lambda: tcp().sendto(b'x', FAST, OTHER))
t('sendmsg', lambda: tcp().sendmsg([b'x'], [], FAST, OTHER))
def many(to):
    s = tcp(); name = struct.pack('=HHI8x', 2, 0, 0)[:2] + struct.pack('>H', to[1]) + socket.inet_aton(to[0]) + bytes(8)
    buffer = ctypes.create_string_buffer(b'x'); iov = struct.pack('=QQ', ctypes.addressof(buffer), 1)
    iovs = ctypes.create_string_buffer(iov); names = ctypes.create_string_buffer(name)
    header = struct.pack('=QIIQQQQIIII', ctypes.addressof(names), 16, 0, ctypes.addressof(iovs), 1, 0, 0, 0, 0, 0, 0)
    ctypes.set_errno(0); got = libc.sendmmsg(s.fileno(), ctypes.create_string_buffer(header), 1, FAST)
    return got if got >= 0 else code(ctypes.get_errno())
t('sendmmsg', lambda: many(OTHER))
def deferred():
    s = tcp(); s.setsockopt(socket.IPPROTO_TCP, FAST_CONNECT, 1); s.connect(OTHER); return s.send(b'x')
t('deferred', deferred)
for name, kind, protocol in [('mptcp', 1, 262), ('sctp', 1, 132), ('seqpacket', 5, 132), ('dccp', 6, 33), ('raw', 3, 1), ('smc', 1, 256)]:
    t(name, lambda: socket.socket(socket.AF_INET, kind, protocol).connect(OTHER))
def icmp():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP); s.settimeout(5)
    return s.sendto(struct.pack('>BBHHH', 8, 0, 0, 0, 1), OTHER)
t('icmp', icmp)
def udp():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(5); s.connect(OTHER); s.send(b'x'); return s.recv(1)
t('udp', udp)
t('fast', lambda: (lambda c: (c.sendto(b'hello', FAST, WWW), c.recv(5)))(tcp()))
t('fast-message', lambda: (lambda c: (c.sendmsg([b'he', b'llo'], [], FAST, WWW), c.recv(5)))(tcp()))
def deferred_allowed():
    s = tcp(); s.setsockopt(socket.IPPROTO_TCP, FAST_CONNECT, 1); s.connect(WWW); s.send(b'x'); return s.recv(1)
t('deferred-allowed', deferred_allowed)
t('source-route', lambda: tcp().setsockopt(socket.IPPROTO_IP, 4, bytes([131, 7, 4]) + socket.inet_aton(OTHER[0]) + b'\\0'))
t('device', lambda: tcp().setsockopt(socket.SOL_SOCKET, 25, b'eth0'))
";
    let outcome = sandbox(&world, RULES).run(&python(script));
    outcome.assert_code(0);
    let said = |name: &str| outcome.values(name).join(" ");
    for way in ["sendto", "sendmsg", "deferred"] {
        assert_eq!(said(way), "EACCES", "{way}: {outcome}");
    }
    for way in ["mptcp", "sctp", "seqpacket", "dccp", "smc"] {
        assert_eq!(said(way), "EPROTONOSUPPORT", "{way}: {outcome}");
    }
    assert_eq!((said("sendmmsg"), said("raw"), said("udp")), ("ENOTSUP".into(), "EPERM".into(), "ECONNREFUSED".into()));
    assert_eq!((said("source-route"), said("device")), ("EPERM".into(), "EPERM".into()), "{outcome}");
    for (way, value) in [("fast", "(5, b'hello')"), ("fast-message", "(5, b'hello')"), ("deferred-allowed", "b'x'")] {
        assert_eq!(said(way), value, "{way}: {outcome}");
    }
    world.wire.assert_arrived(&["tcp 192.0.2.10:7"]);
}

fn again() {
    let world = World::new();
    let script = "
def again():
    c = tcp(); c.connect(WWW); first = code(c.connect_ex(OTHER)); gone = raw('connect', c.fileno(), bytes(16))
    return first, gone, code(c.connect_ex(OTHER)), c.connect_ex(WWW), c.send(b'x'), c.recv(1)
t('again', again)
";
    let outcome = sandbox(&world, RULES).run(&python(script));
    assert_eq!(outcome.out(), "again ('EISCONN', 0, 'EACCES', 0, 1, b'x')\n", "{outcome}");
    world.wire.assert_arrived(&["tcp 192.0.2.10:7"]);
}

fn socket_address(address: SocketAddr) -> libc::sockaddr_in {
    let SocketAddr::V4(address) = address else { panic!("IPv4") };
    libc::sockaddr_in {
        sin_family: libc::AF_INET as u16,
        sin_port: address.port().to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(address.ip().octets()) },
        sin_zero: [0; 8],
    }
}

fn connect(socket: i32, address: *const libc::sockaddr_in) -> i32 {
    // SAFETY: the address outlives the call; that its contents may change meanwhile is what is tried.
    unsafe { libc::connect(socket, address.cast(), 16) }
}

fn stream() -> i32 {
    // SAFETY: no memory is passed.
    let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0) };
    assert!(socket >= 0);
    socket
}

fn close(fd: i32) {
    // SAFETY: the callers own it.
    unsafe { libc::close(fd) };
}

/// Connects ARG times while another thread turns the address between the two that are given.
fn rewrite_address(args: &[String]) {
    use std::sync::atomic::{AtomicU32, Ordering};
    let tries: u32 = args[0].parse().expect("a number");
    let [good, bad] = [SocketAddr::new(WWW, 7), SocketAddr::new(OTHER, 7)].map(socket_address);
    let shared: &'static mut libc::sockaddr_in = Box::leak(Box::new(good));
    let pointer = shared as *const libc::sockaddr_in;
    // SAFETY: the address part of the leaked structure is an aligned u32, only touched through this atomic from here on.
    let word = unsafe { AtomicU32::from_ptr(&raw mut shared.sin_addr.s_addr) };
    std::thread::spawn(move || {
        loop {
            word.store(bad.sin_addr.s_addr, Ordering::Relaxed);
            word.store(good.sin_addr.s_addr, Ordering::Relaxed);
        }
    });
    let (mut made, mut refused) = (0, 0);
    for _ in 0..tries {
        let socket = stream();
        if connect(socket, pointer) == 0 {
            made += 1
        } else {
            refused += 1
        }
        close(socket);
    }
    println!("made {made}\nrefused {refused}");
}

fn rewritten() {
    let world = World::new();
    let sandbox = sandbox(&world, RULES);
    let outcome = sandbox.run(&sandbox.inside("rewrite-address", &["2000"]));
    outcome.assert_code(0);
    outcome.assert(outcome.number("made") > 0 && outcome.number("refused") > 0, "both were met");
    world.wire.assert_arrived(&["tcp 192.0.2.10:7"]);
}

/// Connects ARG times while another thread turns the descriptor between a socket of each kind.
fn exchange_socket(args: &[String]) {
    let tries: u32 = args[0].parse().expect("a number");
    let good = socket_address(SocketAddr::new(WWW, 7));
    let bad = socket_address(SocketAddr::new(OTHER, 7));
    // SAFETY: no memory is passed.
    let datagrams = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM, 0) };
    let at = stream();
    let stop = std::sync::atomic::AtomicBool::new(false);
    let (mut made, mut refused) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                let fresh = stream();
                // SAFETY: no memory is passed; all are descriptors of this program's.
                unsafe {
                    libc::dup2(fresh, at);
                    libc::dup2(datagrams, at);
                }
                close(fresh);
            }
        });
        for round in 0..tries {
            // Datagrams may be connected anywhere, for they go nowhere; a stream must not be.
            if connect(at, if round % 2 == 0 { &raw const bad } else { &raw const good }) == 0 {
                made += 1
            } else {
                refused += 1
            }
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    println!("made {made}\nrefused {refused}");
}

fn exchanged() {
    let world = World::new();
    let sandbox = sandbox(&world, RULES);
    let outcome = sandbox.run(&sandbox.inside("exchange-socket", &["2000"]));
    outcome.assert_code(0);
    outcome.assert(outcome.number("made") > 0, "some were made");
    let arrived = world.wire.arrived();
    assert!(arrived.keys().all(|to| to == "tcp 192.0.2.10:7"), "{arrived:?}");
}

/// Calls whose arguments decide, with their errors: on sockets of the machine's own network and such as are moved.
fn errors() {
    let world = World::new();
    let script = "
V4 = lambda a, p: struct.pack('=H', 2) + struct.pack('>H', p) + socket.inet_aton(a) + bytes(8)
V6 = lambda a, p: struct.pack('=H', 10) + struct.pack('>HI', p, 0) + socket.inet_pton(socket.AF_INET6, a) + bytes(4)
addresses = {'none': b'', 'one': b'\\2', 'family': b'\\2\\0', 'short': V4('192.0.2.10', 7)[:15], 'v4': V4('127.0.0.1', 1),
    'v6': V6('::1', 1), 'short6': V6('::1', 1)[:23], 'without-scope': V6('::1', 1)[:24], 'odd': b'\\x63\\0' + bytes(14), 'unspecified': bytes(16),
    'long': V4('127.0.0.1', 1) + bytes(112), 'mapped': V6('::ffff:127.0.0.1', 1), 'multicast': V4('224.0.0.1', 1), 'broadcast': V4('255.255.255.255', 1)}
for family in [socket.AF_INET, socket.AF_INET6]:
    for kind in [socket.SOCK_STREAM, socket.SOCK_DGRAM]:
        for name, address in addresses.items():
            for call in ['connect', 'bind']:
                # What a name means at bind to a port below 1024, and who is there, is not the same inside.
                if call == 'bind' and name in ('v4', 'v6', 'mapped', 'long', 'without-scope', 'multicast', 'broadcast', 'unspecified'): continue
                s = socket.socket(family, kind); print(int(family), int(kind), call, name, raw(call, s.fileno(), address)); s.close()
for call in ['connect', 'bind']:
    print(call, 'bad', raw(call, 99, V4('127.0.0.1', 1)), raw(call, -1, V4('127.0.0.1', 1)), raw(call, 99, b'', 200))
    file = os.open('/etc/passwd', os.O_RDONLY); path = os.open('/etc/passwd', os.O_PATH); pipe = os.pipe()[0]
    print(call, 'file', raw(call, file, V4('127.0.0.1', 1)), raw(call, path, V4('127.0.0.1', 1)), raw(call, pipe, b'\\2'))
    s = tcp(); print(call, 'length', raw(call, s.fileno(), b'', 129), raw(call, s.fileno(), b'', -1))
    ctypes.set_errno(0); print(call, 'fault', getattr(libc, call)(s.fileno(), ctypes.c_void_p(8), 16), code(ctypes.get_errno()))
ctypes.set_errno(0); print('listen', libc.listen(99, 1), code(ctypes.get_errno()), libc.listen(file, 1), code(ctypes.get_errno()))
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); t('listen-udp', lambda: u.listen(1))
l = tcp(); l.bind(('127.0.0.1', 0)); t('twice', lambda: l.bind(('127.0.0.1', 0))); l.listen(1); t('listens', lambda: l.connect(('127.0.0.1', 1)))
t('bound', lambda: l.bind(('127.0.0.1', 0))); m = tcp(); t('in-use', lambda: m.bind(l.getsockname()))
c = tcp(); c.connect(l.getsockname()); t('connected', lambda: c.connect(l.getsockname())); t('connected-listens', lambda: c.listen(1))
t('connected-bind', lambda: c.bind(('127.0.0.1', 0))); t('refused', lambda: tcp().connect(('127.0.0.1', 1)))
t('foreign', lambda: (lambda s: s.bind(('127.0.0.1', 0)))(tcp())); t('kind', lambda: socket.socket(2, 1 | 0x40000))
t('v6only', lambda: (lambda s: (s.setsockopt(41, 26, 1), s.connect(('::ffff:192.0.2.10', 7))))(tcp(socket.AF_INET6)))
t('again', lambda: (lambda s: (code(s.connect_ex(('127.0.0.1', 1))), code(s.connect_ex(l.getsockname()))))(tcp()))
";
    let outcome = alike(&world, &RULES.replace("connect = \"deny\"", "connect = \"allow\""), script);
    outcome.assert(outcome.out().lines().count() > 60, "all of it was tried");
}

fn slow() {
    let world = World::new();
    let script = "
def polled():
    c = tcp(); c.setblocking(False); first = code(c.connect_ex(SILENT)); p = select.poll(); p.register(c, select.POLLOUT)
    return first, code(c.connect_ex(SILENT)), code(c.connect_ex(WWW)), p.poll(10), c.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
t('polled', polled)
def meets():
    c = tcp(); c.setblocking(False); first = code(c.connect_ex(WWW)); p = select.poll(); p.register(c, select.POLLOUT)
    return first, p.poll(10000)[0][1], c.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR), code(c.connect_ex(WWW)), code(c.connect_ex(WWW))
t('meets', meets)
def limited():
    c = tcp(); c.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack('=qq', 0, 200000))
    begun = time.monotonic(); got = raw('connect', c.fileno(), struct.pack('=H', 2) + struct.pack('>H', 7) + socket.inet_aton(SILENT[0]) + bytes(8))
    return got, 0.15 < time.monotonic() - begun < 5
t('limited', limited)
def at(restarts, limit):
    signal.signal(signal.SIGALRM, lambda *_: None); signal.siginterrupt(signal.SIGALRM, not restarts)
    c = tcp()
    if limit: c.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack('=qq', limit, 0))
    main = threading.main_thread().ident; threading.Timer(0.3, lambda: signal.pthread_kill(main, signal.SIGALRM)).start(); begun = time.monotonic()
    if restarts and not limit:
        # Nobody else would end it.
        threading.Timer(2, lambda: libc.shutdown(c.fileno(), 2)).start()
    got = raw('connect', c.fileno(), struct.pack('=H', 2) + struct.pack('>H', 7) + socket.inet_aton(SILENT[0]) + bytes(8))
    took = time.monotonic() - begun
    return got, took > 1.5
t('interrupted', lambda: at(False, 0))
t('interrupted-limited', lambda: at(True, 5))
t('restarted', lambda: at(True, 0))
";
    let outcome = alike(&world, RULES, script);
    assert_eq!(outcome.values("interrupted"), ["('EINTR', False)"], "{outcome}");
    world.wire.assert_arrived(&["tcp 192.0.2.10:7", "tcp 192.0.2.66:7"]);
}

fn others_go_on() {
    let world = World::new();
    let script = "
threading.stack_size(65536)
for _ in range(300): threading.Thread(target=lambda: tcp().connect_ex(SILENT), daemon=True).start()
begun = time.monotonic()
for n in range(50):
    open('file', 'w').close(); os.unlink('file')
    c = tcp(); c.connect(WWW); c.send(b'x'); assert c.recv(1) == b'x'
print('others', 'quick' if time.monotonic() - begun < 60 else 'slow', flush=True)
os._exit(0)
";
    let outcome = sandbox(&world, RULES).run(&python(script));
    assert_eq!(outcome.out(), "others quick\n", "{outcome}");
}

fn storm() {
    let world = World::new();
    let script = "
signal.signal(signal.SIGURG, lambda *_: None); signal.siginterrupt(signal.SIGURG, False)
main = threading.main_thread().ident; going = True
def storm():
    while going: signal.pthread_kill(main, signal.SIGURG)
threading.Thread(target=storm, daemon=True).start()
for n in range(200):
    c = tcp(); got = c.fileno() and raw('connect', c.fileno(), struct.pack('=H', 2) + struct.pack('>H', 7) + socket.inet_aton(WWW[0]) + bytes(8))
    assert got == 0, got
    c.close()
going = False
print('connected', 200)
";
    let outcome = sandbox(&world, RULES).run(&python(script));
    assert_eq!(outcome.out(), "connected 200\n", "{outcome}");
}

fn thousand() {
    let world = World::new();
    let script = "
import asyncio
async def one(n):
    reader, writer = await asyncio.open_connection(*WWW)
    writer.write(b'%d\\n' % n); line = await reader.readline(); writer.close(); return int(line) == n
async def main():
    print('made', sum(await asyncio.gather(*(one(n) for n in range(1000)))))
asyncio.run(main())
";
    let raised = ["/bin/sh", "-c", "ulimit -n 4096 && exec \"$@\"", "sh"].map(str::to_owned).to_vec();
    let argv: Vec<String> = raised.into_iter().chain(python(script)).collect();
    let outcome = sandbox(&world, RULES).run(&argv);
    assert_eq!(outcome.out(), "made 1000\n", "{outcome}");
}

fn names() {
    let world = World::new();
    let script = "
c = tcp(); c.connect(WWW); print(c.getsockname()[0], c.getpeername(), c.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
b = tcp(); b.bind(('', 0)); port = b.getsockname()[1]; b.connect(WWW); print(b.getsockname()[1] == port)
p = 20000 + os.getpid() % 20000; b = tcp(); b.bind(('0.0.0.0', p)); print(b.getsockname()[1] == p); b.connect(WWW); print(b.getsockname()[1] == p)
l = tcp(); l.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); l.bind(('', 5555)); l.listen(); print(l.getsockname(), l.getsockopt(1, 2), l.getsockopt(1, 30))
n = tcp(socket.AF_INET6); n.bind(('::', 0)); n.listen(); c = tcp(); c.connect(('127.0.0.1', n.getsockname()[1])); print(c.getpeername()[0], n.accept()[1][0])
d = tcp(); d.setsockopt(6, 1, 1); d.setsockopt(1, 9, 1); d.setsockopt(1, 13, struct.pack('=ii', 1, 5)); d.setsockopt(1, 7, 50000); d.setblocking(False)
d.connect_ex(l.getsockname()); print(d.getsockopt(6, 1), d.getsockopt(1, 9), d.getsockopt(1, 13, 8), d.getsockopt(1, 7), d.getblocking(), d.get_inheritable())
";
    alike(&world, RULES, script);
}

/// stdin is a socket that was made outside, in the machine's network.
fn given() {
    let world = World::new();
    let script = "
import socket, subprocess, sys
s = socket.socket(); print(flush=True)
sys.exit(subprocess.call(sys.argv[1:], stdin=s))
";
    let inner = python(
        "
s = socket.socket(fileno=0)
t('other', lambda: s.connect(OTHER))
t('bind', lambda: s.bind(('198.51.100.2', 4000)))
t('listen', lambda: (s.listen(), s.getsockname()[0]))
s = tcp()
t('www', lambda: s.connect(WWW))
",
    );
    let sandbox = sandbox(&world, RULES);
    let line = sandbox.gated_argv(&inner);
    let mut argv: Vec<std::ffi::OsString> = ["/usr/bin/python3", "-c", script].map(Into::into).to_vec();
    argv.extend(line);
    let outcome = sandbox.start_line(Side::Gated, &argv, None).finish();
    outcome.assert_code(0);
    assert_eq!(outcome.out(), "\nother EACCES\nbind EACCES\nlisten (None, '0.0.0.0')\nwww None\n", "{outcome}");
    world.wire.assert_arrived(&["tcp 192.0.2.10:7"]);
}

/// The machine has a service at an address that is public like any other.
fn rebound() {
    let world = World::new();
    let log = world.tcp_echo(&world.machine, SocketAddr::new(MACHINE, 9000));
    world.dns.change(|zone| zone.set("rebound.example.org", 1, vec![MACHINE.into()]));
    let rule = "[[rule]]\nid = \"name\"\naccess = [\"connect\"]\nhost = [\"*.example.org:*\"]\nlevel = \"allow\"\n";
    let script = "
t('www', lambda: socket.create_connection(('www.example.org', 7)).close())
t('itself', lambda: socket.create_connection(('rebound.example.org', 9000)))
";
    let outcome = sandbox(&world, &format!("{RULES}{rule}")).run(&python(script));
    assert_eq!(outcome.out(), "www None\nitself EACCES\n", "{outcome}");
    assert!(log.seen().is_empty());
}
