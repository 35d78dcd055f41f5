//! Ways around a verdict that are closed: each works bare, or is shown to be a way, and leads nowhere inside.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use crate::support::network::{OTHER, PRIVATE, WWW, World};
use crate::support::wait::descendants;
use crate::support::{Running, Sandbox, Side, until};
use crate::tcp::{RULES, python, sandbox};
use crate::{Inside, Test};

pub const TESTS: &[Test] = &[
    ("the_unspecified_address_is_the_one_that_was_judged_wherever_a_socket_is_bound", unspecified),
    ("a_published_port_opens_no_service_of_another_loopback_address", published),
    ("localhost_is_no_other_loopback_address", localhost),
    ("an_address_that_changes_while_a_person_reads_is_another_question", rewritten),
    ("an_answer_about_a_program_is_not_given_to_another_that_waits", joined),
    ("sockets_that_are_moved_leave_no_descriptor_behind", moved),
    ("a_denied_name_is_not_reached_behind_an_alias", alias),
    ("a_published_port_is_shared_with_no_service_of_the_host", shared),
    ("senders_that_wait_for_a_reader_hold_up_nobody", senders),
    ("of_many_names_of_one_address_the_last_count", many_names),
];

pub const INSIDE: &[Inside] = &[("rewrite-on-signal", rewrite_on_signal)];

fn at(address: &str) -> SocketAddr {
    address.parse().expect("an address")
}

fn rule(id: &str, hosts: &str, level: &str) -> String {
    format!("[[rule]]\nid = \"{id}\"\naccess = [\"connect\"]\nhost = [{hosts}]\nlevel = \"{level}\"\n")
}

/// A fifo of the workspace, held open, from which scripts read a line when they may go on.
fn gate(sandbox: &Sandbox) -> (PathBuf, File) {
    let fifo = sandbox.workspace().join("gate");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).expect("mkfifo");
    sandbox.give(&fifo);
    let hold = File::options().read(true).write(true).open(&fifo).expect("open");
    (fifo, hold)
}

fn open(mut gate: &File) {
    gate.write_all(b"\n").expect("write");
}

fn questions(events: &[serde_json::Value]) -> Vec<String> {
    let asked = events.iter().filter(|event| event["event"] == "consent_required");
    asked.map(|event| event["object"].as_str().unwrap_or_default().to_owned()).collect()
}

fn wait_for_questions(running: &Running, count: usize) {
    until("a question", || {
        let ended = running.pidfd.ends_within(Duration::ZERO);
        assert!(!ended, "it ended: {}{}{:?}", running.so_far(), running.errors_so_far(), running.events_so_far());
        (questions(&running.events_so_far()).len() >= count).then_some(())
    });
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

static ADDRESS: AtomicPtr<libc::sockaddr_in> = AtomicPtr::new(std::ptr::null_mut());
static HANDLED: AtomicUsize = AtomicUsize::new(0);

extern "C" fn rewrite(_: i32) {
    let address = ADDRESS.load(Ordering::SeqCst);
    // SAFETY: it was leaked, and is written through this atomic alone; only the kernel reads it meanwhile.
    unsafe { AtomicU32::from_ptr(&raw mut (*address).sin_addr.s_addr) }.store(number(PRIVATE), Ordering::SeqCst);
    HANDLED.fetch_add(1, Ordering::SeqCst);
}

/// As `in_addr` has it.
fn number(ip: std::net::IpAddr) -> u32 {
    let std::net::IpAddr::V4(ip) = ip else { panic!("IPv4") };
    u32::from_ne_bytes(ip.octets())
}

/// FIFO: connects to port 7 of [`WWW`]; once there is a line, the address is [`PRIVATE`], by a handler of a signal that the
/// call is restarted after.
fn rewrite_on_signal(args: &[String]) {
    let address = Box::leak(Box::new(libc::sockaddr_in {
        sin_family: libc::AF_INET as u16,
        sin_port: 7_u16.to_be(),
        sin_addr: libc::in_addr { s_addr: number(WWW) },
        sin_zero: [0; 8],
    }));
    ADDRESS.store(address, Ordering::SeqCst);
    let address = ADDRESS.load(Ordering::SeqCst);
    let fifo = File::options().read(true).write(true).open(&args[0]).expect("open");
    // SAFETY: the handler does what signal-safety(7) allows; the address is never freed.
    let got = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = rewrite as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        assert_eq!(libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()), 0);
        let main = libc::pthread_self();
        std::thread::spawn(move || {
            BufReader::new(fifo).read_line(&mut String::new()).expect("a line");
            libc::pthread_kill(main, libc::SIGUSR1);
        });
        let socket = libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0);
        libc::connect(socket, address.cast(), 16)
    };
    let error = std::io::Error::last_os_error().raw_os_error();
    println!("errno {}\nhandled {}", if got == 0 { 0 } else { error.unwrap_or(0) }, HANDLED.load(Ordering::SeqCst));
}

/// A name with two addresses, of which a person is asked about one apart from the other.
fn rewritten() {
    let world = World::new();
    world.dns.change(|zone| zone.set("two.example.org", 60, vec![WWW.into(), PRIVATE.into()]));
    let rules = RULES.lines().take_while(|line| !line.starts_with("[[")).collect::<Vec<_>>().join("\n");
    let rules = rules.replace("connect = \"deny\"", "connect = \"ask\"");
    let private = "[[rule]]\nid = \"private\"\naccess = [\"connect\"]\ncidr = [\"10.0.0.0/8\"]\nlevel = \"ask\"\n";
    let two = rule("two", "\"two.example.org:*\"", "ask") + "remember = \"attempt\"\n";
    let mut sandbox = sandbox(&world, &format!("{rules}\n{private}{two}"));
    let yes = "[[answer]]\naccess = \"connect\"\nhost = [\"two.example.org:*\"]\nanswer = \"once\"\n";
    sandbox.answers(&format!("{yes}times = 1\n{yes}after = \"20s\"\n"));
    let (fifo, gate) = gate(&sandbox);
    let part = sandbox.inside("rewrite-on-signal", &[fifo.as_os_str()]);
    let words: Vec<_> = part.iter().map(|word| word.to_string_lossy()).collect();
    let script = format!("getent ahostsv4 two.example.org >/dev/null; exec {}", words.join(" "));
    let running = sandbox.start(Side::Gated, &["/bin/sh", "-c", &script]);
    wait_for_questions(&running, 2);
    open(&gate);
    let outcome = running.finish();
    assert_eq!((outcome.number("handled"), outcome.number("errno")), (1, libc::EACCES.into()), "{outcome}");
    assert_eq!(questions(&outcome.events), ["two.example.org", "two.example.org:7", "10.1.2.3:7"], "{outcome}");
    world.wire.assert_arrived(&["udp 203.0.113.53:53"]);
}

/// One program connects, and another to the same while the question about the first is open.
fn joined() {
    let world = World::new();
    let mut sandbox = sandbox(&world, &RULES.replace("connect = \"deny\"", "connect = \"ask\""));
    let yes =
        "[[answer]]\naccess = \"connect\"\nanswer = \"session\"\nscope = \"program\"\nafter = \"3s\"\ntimes = 1\n";
    sandbox.answers(yes);
    let (fifo, gate) = gate(&sandbox);
    let python = "import socket; socket.create_connection((\"203.0.113.20\", 7)); print(\"python connected\")";
    let bash = "(exec 3<>/dev/tcp/203.0.113.20/7) 2>/dev/null && echo bash connected";
    let script = format!("/usr/bin/python3 -c '{python}' & read line <{}; {bash}; wait; {bash}; true", fifo.display());
    let running = sandbox.start(Side::Gated, &["/bin/bash", "-c", &script]);
    wait_for_questions(&running, 1);
    open(&gate);
    let outcome = running.finish();
    outcome.assert_code(0);
    assert_eq!(outcome.out(), "python connected\n", "{outcome}");
}

/// Descriptors of the programs of gated that serve a session.
fn descriptors(running: &Running) -> usize {
    let mut pids: Vec<i32> = descendants(running.pid()).iter().map(|process| process.pid).collect();
    pids.push(running.pid());
    let is_ours = |pid: &&i32| {
        let exe = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
        exe.file_name().is_some_and(|name| name.to_string_lossy().starts_with("gated"))
    };
    let of = |pid: &i32| std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count);
    pids.iter().filter(is_ours).map(of).sum()
}

/// A socket that many epolls hear of is moved to where it connects or listens, again and again.
fn moved() {
    let world = World::new();
    let sandbox = sandbox(&world, RULES);
    let (fifo, gate) = gate(&sandbox);
    let script = format!(
        "
gate = open('{}')
l = tcp(); l.bind(('127.0.0.1', 3000)); l.listen(99)
def moves():
    polls = [select.epoll() for n in range(50)]
    for n in range(10):
        for s, moved in ((tcp(), lambda s: s.connect(('127.0.0.1', 3000))), (tcp(), lambda s: s.listen())):
            for poll in polls: poll.register(s, select.EPOLLIN)
            moved(s); s.close()
    for poll in polls: poll.close()
moves(); print('first', flush=True); gate.readline()
moves(); print('second', flush=True); gate.readline()
",
        fifo.display()
    );
    let running = sandbox.start(Side::Gated, &python(&script));
    let said = |word: &str| until(word, || running.so_far().contains(word).then_some(()));
    said("first");
    let before = descriptors(&running);
    assert!(before > 10, "those of gated are seen");
    open(&gate);
    said("second");
    until("what was opened to be closed", || (descriptors(&running) <= before + 20).then_some(()));
    // Nor were they there before.
    assert!(before < 300, "{before} descriptors");
    open(&gate);
    running.finish().assert_code(0);
}

fn alias() {
    let world = World::new();
    let names = rule("example", "\"*.example.org:*\"", "allow") + &rule("no", "\"*.example.net:*\"", "deny");
    let script = "
t('own', lambda: socket.create_connection(('alias.example.org', 7), 20).close())
t('denied', lambda: socket.create_connection(('203.0.113.20', 7), 20).close())
try: socket.create_connection(('away.example.org', 7), 20); print('behind connected')
except OSError: print('behind refused')
";
    let sandbox = sandbox(&world, &format!("{RULES}{names}"));
    let bare = sandbox.bare(&python(script));
    assert_eq!(bare.out(), "own None\ndenied None\nbehind connected\n", "{bare}");
    world.wire.forget();
    let inside = sandbox.run(&python(script));
    assert_eq!(inside.out(), "own None\ndenied EACCES\nbehind refused\n", "{inside}");
    let arrived: Vec<String> = world.wire.arrived().into_keys().filter(|what| what.starts_with("tcp")).collect();
    assert!(arrived.iter().all(|what| !what.contains("203.0.113.20")), "{arrived:?}");
}

/// The kernel spreads connections over all listeners that share a port (socket(7), `SO_REUSEPORT`).
fn shared() {
    let world = World::new();
    let mut sandbox = sandbox(&world, &RULES.replace("bind = \"deny\"", "bind = \"ask\""));
    ["--publish", "3000"].iter().for_each(|word| sandbox.option(word));
    let (fifo, gate) = gate(&sandbox);
    let served = format!(
        "
l = tcp(); l.setsockopt(1, 15, 1); l.bind(('127.0.0.1', 3000)); l.listen(99); gate = open('{}'); print('ready', flush=True)
def answer():
    while True:
        s = l.accept()[0]; s.send(b'host'); s.close()
threading.Thread(target=answer, daemon=True).start(); gate.readline(); os._exit(0)
",
        fifo.display()
    );
    let script = "
kept = []
def listens():
    l = tcp(); l.setsockopt(1, 15, 1); l.bind(('127.0.0.1', 3000)); l.listen(99); kept.append(l)
    def answer():
        while True:
            s = l.accept()[0]; s.send(b'own'); s.close()
    threading.Thread(target=answer, daemon=True).start()
for n in range(8): t('listens', listens)
def met():
    c = tcp(); c.settimeout(20)
    try: c.connect(('127.0.0.1', 3000)); return c.recv(9)
    except OSError: return b'nobody'
got = [met() for n in range(100)]; print('host', got.count(b'host'), flush=True); os._exit(0)
";
    let host = sandbox.start(Side::Bare, &python(&served));
    until("the service", || host.so_far().contains("ready").then_some(()));
    let bare = sandbox.bare(&python(script));
    bare.assert((1..100).contains(&bare.number("host")), "it shares the port, bare");
    let inside = sandbox.run(&python(script));
    inside.assert_code(0);
    assert_eq!(inside.number("host"), 0, "{inside}");
    open(&gate);
    host.finish().assert_code(0);
}

/// Each waits in sendto(2) with an address, which means nothing to a connected stream.
fn senders() {
    let world = World::new();
    let script = "
threading.stack_size(65536); N = 250; all = threading.Barrier(N + 1)
l = tcp(); l.bind(('127.0.0.1', 3000)); l.listen(N); at = l.getsockname(); data = bytes(65536)
def fill():
    c = tcp(); c.setsockopt(1, 7, 4096); c.connect(at); c.setblocking(False)
    try:
        while True: c.send(data)
    except BlockingIOError: pass
    c.setblocking(True); all.wait()
    while True: c.sendto(data, at)
for n in range(N): threading.Thread(target=fill, daemon=True).start()
def sends(task):
    # proc_pid_syscall(5): x86-64, arm64.
    try: return open('/proc/self/task/%s/syscall' % task).read().split()[0] in ('44', '206')
    except OSError: return False
all.wait(); begun = time.monotonic()
waiting = 0
while waiting < N and time.monotonic() - begun < 60: waiting = sum(map(sends, os.listdir('/proc/self/task'))); os.sched_yield()
print('waiting', waiting, flush=True); begun = time.monotonic()
for n in range(50):
    open('file', 'w').close(); os.unlink('file')
    c = tcp(); c.connect(WWW); c.send(b'x'); assert c.recv(1) == b'x'
print('others', 'quick' if time.monotonic() - begun < 60 else 'slow', flush=True); os._exit(0)
";
    let raised = ["/bin/sh", "-c", "ulimit -n 4096 && exec \"$@\"", "sh"].map(str::to_owned).to_vec();
    let argv: Vec<String> = raised.into_iter().chain(python(script)).collect();
    let outcome = sandbox(&world, RULES).run(&argv);
    assert_eq!(outcome.out(), "waiting 250\nothers quick\n", "{outcome}");
}

/// A verdict looks at every name that an address has, so they are numbered.
fn many_names() {
    let world = World::new();
    world.dns.change(|zone| {
        for name in (0..80).map(|n| format!("n{n}.example.net")).chain(["first.example.org".to_owned()]) {
            zone.set(&name, 60, vec![OTHER.into()]);
        }
    });
    let rules = rule("first", "\"first.example.org:7\"", "allow") + &rule("many", "\"*.example.net:9\"", "allow");
    let script = "
def known(name): socket.getaddrinfo(name, 9, socket.AF_INET, socket.SOCK_STREAM)
known('first.example.org'); t('alone', lambda: tcp().connect(OTHER))
for n in range(40): known('n%d.example.net' % n)
t('some', lambda: tcp().connect(OTHER))
for n in range(80): known('n%d.example.net' % n)
t('many', lambda: tcp().connect(OTHER))
known('first.example.org'); t('again', lambda: tcp().connect(OTHER))
";
    let outcome = sandbox(&world, &format!("{RULES}{rules}")).run(&python(script));
    assert_eq!(outcome.out(), "alone None\nsome None\nmany EACCES\nagain None\n", "{outcome}");
}
