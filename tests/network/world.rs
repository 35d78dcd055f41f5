//! The world itself: what the other tests rely on.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Duration;

use crate::support::network::message::{self, A, AAAA, TXT};
use crate::support::network::{
    API, Data, MACHINE, MACHINE6, METADATA, OTHER_RESOLVERS, PRIVATE, RESOLVER, SILENT, WWW, WWW6, World, any,
};
use crate::support::until;
use crate::{Inside, Test};

pub const TESTS: &[Test] = &[
    ("curl_reaches_the_servers_by_name", curl),
    ("every_kind_of_address_answers", addresses),
    ("names_are_told_and_recorded", names),
    ("long_answers_come_by_tcp", long_answers),
    ("answers_change", answers_change),
    ("a_server_may_lie", lies),
    ("echoes_send_back", echoes),
    ("tls_is_trusted_by_its_authority_alone", tls),
    ("a_silent_host_never_answers_and_an_empty_port_refuses", silence),
    ("the_wire_counts_what_left_and_nothing_else", wire),
    ("the_machine_has_its_own_loopback_and_files", machine),
    ("gated_run_starts_on_the_machine", gated),
    ("worlds_do_not_meet", apart),
    ("nothing_is_left", nothing_left),
];

pub const INSIDE: &[Inside] = &[("look-up", look_up), ("query-text", query_text)];

/// Prints `address ADDRESS` for each address that the C library has for the name.
fn look_up(args: &[String]) {
    use std::net::ToSocketAddrs;
    match (args[0].as_str(), 0).to_socket_addrs() {
        Ok(found) => found.for_each(|address| println!("address {}", address.ip())),
        Err(error) => println!("error {error}"),
    }
}

/// Asks a server for the TXT records of a name over UDP and prints `flags FLAGS` and `length BYTES` of the answer.
fn query_text(args: &[String]) {
    let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
    let mut query = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in args[1].split('.') {
        query.push(label.len() as u8);
        query.extend_from_slice(label.as_bytes());
    }
    query.extend_from_slice(&[0, 0, TXT as u8, 0, 1]);
    socket.send_to(&query, (args[0].as_str(), 53)).expect("send");
    let mut answer = [0; 4096];
    let count = socket.recv(&mut answer).expect("an answer");
    println!("flags {}", u16::from_be_bytes([answer[2], answer[3]]));
    println!("length {count}");
}

fn curl() {
    let world = World::new();
    let outcome = world.sandbox().bare(&["curl", "-sS", "http://www.example.org/", "http://alias.example.org/bytes/5"]);
    outcome.assert_code(0);
    outcome.assert(outcome.out() == "hello from www.example.org\nxxxxx", "what the servers say");
    let requests = world.web.requests();
    let told: Vec<_> = requests.iter().map(|request| (request.host(), request.path())).collect();
    assert_eq!(told, [("www.example.org", "/"), ("alias.example.org", "/bytes/5")]);
    assert!(requests.iter().all(|request| [WWW, WWW6].contains(&request.at.ip())), "{requests:?}");
}

fn addresses() {
    let world = World::new();
    let urls = [API, METADATA, PRIVATE].map(|address| format!("http://{address}/"));
    let [first, second, third] = &urls;
    let six = format!("http://[{WWW6}]/");
    let outcome = world.sandbox().bare(&["curl", "-sS", first, second, third, &six]);
    outcome.assert_code(0);
    let at: Vec<_> = world.web.requests().iter().map(|request| request.at.ip()).collect();
    assert_eq!(at, [API, METADATA, PRIVATE, WWW6]);
    assert_eq!(world.web.requests()[0].from.ip(), MACHINE);
}

fn names() {
    let world = World::new();
    let sandbox = world.sandbox();
    let look = |name: &str| {
        let mut found = sandbox.bare(&sandbox.inside("look-up", &[name])).values("address");
        found.sort_unstable();
        found.dedup();
        found
    };
    assert_eq!(look("www.example.org"), [WWW.to_string(), WWW6.to_string()]);
    assert_eq!(look("alias.example.org"), [WWW.to_string(), WWW6.to_string()]);
    assert_eq!(look("v4.example.org"), [API.to_string()]);
    for nothing in ["nowhere.example.org", "broken.example.org", "refused.example.org", "loop.example.org"] {
        assert_eq!(look(nothing), [""; 0], "{nothing}");
    }
    world.hosts("192.0.2.77 filed.example.org\n");
    assert_eq!(look("filed.example.org"), ["192.0.2.77"]);
    let queries = world.dns.queries();
    let asked = |name: &str, kind: u16| queries.iter().any(|query| query.name == name && query.kind == kind);
    assert!(asked("www.example.org", A) && asked("www.example.org", AAAA) && asked("nowhere.example.org", A));
    assert!(!world.dns.names().contains(&"filed.example.org".to_owned()));
    assert!(
        queries
            .iter()
            .all(|query| [MACHINE, MACHINE6].contains(&query.from.ip()) && !query.tcp && query.at.port() == 53)
    );
}

fn long_answers() {
    let world = World::new();
    let sandbox = world.sandbox();
    let [other, _] = OTHER_RESOLVERS;
    for server in [RESOLVER, other] {
        let outcome = sandbox.bare(&sandbox.inside("query-text", &[&server.to_string(), "long.example.org"]));
        // An answer, truncated, and only the question in it but for the header.
        outcome.assert(outcome.number("flags") & 0x8200 == 0x8200, "it is truncated");
        outcome.assert(outcome.number("length") < 512, "it fits");
    }
    let script = "import socket, struct, sys\n\
                  query = bytes.fromhex('123401000001000000000000046c6f6e67076578616d706c65036f72670000100001')\n\
                  s = socket.create_connection((sys.argv[1], 53)); s.sendall(struct.pack('>H', len(query)) + query)\n\
                  f = s.makefile('rb'); print('length', struct.unpack('>H', f.read(2))[0])";
    let outcome = sandbox.bare(&["/usr/bin/python3", "-c", script, &RESOLVER.to_string()]);
    outcome.assert(outcome.number("length") > 4000, "all of it comes by TCP");
    assert!(world.dns.queries().last().is_some_and(|query| query.tcp));
}

fn answers_change() {
    let world = World::new();
    let sandbox = world.sandbox();
    world.dns.change(|zone| zone.change("moving.example.org", 1, vec![vec![WWW.into()], vec![PRIVATE.into()]]));
    let look = || sandbox.bare(&sandbox.inside("look-up", &["moving.example.org"])).values("address");
    assert_eq!(look(), [WWW.to_string()]);
    assert_eq!(look(), [PRIVATE.to_string()]);
    assert_eq!(look(), [PRIVATE.to_string()]);
    world.dns.change(|zone| zone.set("moving.example.org", 1, vec![Data::Cname("api.example.org".into())]));
    assert_eq!(look(), [API.to_string()]);
}

fn lies() {
    let world = World::new();
    // The right answer comes second, behind one with another number.
    world.dns.lie("lie.example.org", move |query| {
        let question = message::read(query).expect("a question");
        let record = |address| message::Record { owner: question.name.clone(), ttl: 1, data: Data::A(address) };
        let answer = |address| question.answer(0, &[record(address)], true);
        let mut wrong = answer([10, 9, 9, 9].into());
        wrong[0] ^= 0xff;
        vec![wrong, answer([192, 0, 2, 99].into())]
    });
    let outcome = world.machine.output("/usr/bin/python3", &["-c", ASK, &RESOLVER.to_string(), "lie.example.org"], "");
    assert_eq!(outcome, "0a090909\nc0000263\n");
}

/// Asks a server for the address of a name over UDP, and prints the last four bytes of two answers.
const ASK: &str = "
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
name = b''.join(bytes([len(label)]) + label for label in sys.argv[2].encode().split(b'.'))
s.sendto(bytes.fromhex('123401000001000000000000') + name + bytes.fromhex('0000010001'), (sys.argv[1], 53))
for _ in range(2):
    print(s.recv(512)[-4:].hex())
";

fn echoes() {
    let world = World::new();
    let log = world.udp_echo(&world.internet, SocketAddr::new(API, 9000));
    world.machine.inside(|| {
        for address in [WWW, WWW6, PRIVATE] {
            let mut stream = TcpStream::connect((address, 7)).expect("connect");
            stream.write_all(b"there and back").expect("write");
            let mut back = [0; 14];
            stream.read_exact(&mut back).expect("read");
            assert_eq!(&back, b"there and back");
        }
        let socket = UdpSocket::bind("0.0.0.0:0").expect("bind");
        socket.connect((API, 9000)).expect("connect");
        socket.send(b"datagram").expect("send");
        let mut back = [0; 100];
        let count = socket.recv(&mut back).expect("receive");
        assert_eq!(&back[..count], b"datagram");
    });
    assert_eq!(log.seen().len(), 1);
    assert_eq!(log.seen()[0].datagram, b"datagram");
}

fn tls() {
    let world = World::new();
    let authority = world.tls(&["www.example.org", "api.example.org"]);
    let sandbox = world.sandbox();
    let url = "https://www.example.org/";
    let outcome = sandbox.bare(&["curl", "-sS", url]);
    outcome.assert(outcome.code() == 60, "nobody knows the authority");
    let certificate = authority.certificate();
    let outcome =
        sandbox.bare(&["curl".as_ref(), "-sS".as_ref(), "--cacert".as_ref(), certificate.as_os_str(), url.as_ref()]);
    outcome.assert_code(0);
    outcome.assert(outcome.out() == "hello from www.example.org\n", "the same as without TLS");
    assert!(authority.hellos().contains(&"www.example.org".to_owned()), "{:?}", authority.hellos());
    let wrong = "https://other.example.net/";
    let outcome =
        sandbox.bare(&["curl".as_ref(), "-sS".as_ref(), "--cacert".as_ref(), certificate.as_os_str(), wrong.as_ref()]);
    outcome.assert(outcome.code() == 60, "the certificate is for other names");
}

fn silence() {
    let world = World::new();
    world.machine.inside(|| {
        let refused = TcpStream::connect((WWW, 81)).expect_err("nobody listens");
        assert_eq!(refused.raw_os_error(), Some(libc::ECONNREFUSED));
        let silent = SocketAddr::new(SILENT, 80);
        let silent = TcpStream::connect_timeout(&silent, Duration::from_millis(300)).expect_err("nobody answers");
        assert_eq!(silent.kind(), std::io::ErrorKind::TimedOut);
    });
    world.wire.assert_arrived(&[&format!("tcp {WWW}:81"), &format!("tcp {SILENT}:80")]);
}

fn wire() {
    let world = World::new();
    world.wire.assert_arrived(&[]);
    world.machine.inside(|| {
        let udp = UdpSocket::bind("0.0.0.0:0").expect("bind");
        // Nobody has this port, nor this address.
        udp.send_to(&[0; 100], (WWW, 5000)).expect("send");
        udp.send_to(&[0; 100], "4.3.2.1:5000").expect("send");
        TcpStream::connect((WWW6, 7)).expect("connect");
        TcpListener::bind("127.0.0.1:7000").expect("bind");
        TcpStream::connect("127.0.0.1:7000").expect_err("the machine's own");
    });
    let (first, second) = (format!("udp {WWW}:5000"), "udp 4.3.2.1:5000");
    world.wire.assert_arrived(&[&first, second, &format!("tcp [{WWW6}]:7")]);
    let traffic = world.wire.arrived()[&first];
    assert_eq!((traffic.packets, traffic.bytes), (1, 128));
    let ping = "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP); \
                s.sendto(bytes.fromhex('0800f7ff00000000'), ('192.0.2.10', 0)); s.recv(100)";
    world.wire.forget();
    world.machine.output("/usr/bin/python3", &["-c", ping], "");
    world.wire.assert_arrived(&["icmp 192.0.2.10"]);
    world.wire.forget();
    world.wire.assert_arrived(&[]);
}

fn machine() {
    let world = World::new();
    let listener = world.machine.inside(|| TcpListener::bind("127.0.0.1:3000")).expect("bind");
    let sandbox = world.sandbox();
    let script =
        "import socket; socket.create_connection(('localhost', 3000)); print(open('/etc/resolv.conf').readline())";
    let outcome = sandbox.bare(&["/usr/bin/python3", "-c", script]);
    outcome.assert_code(0);
    outcome.assert(outcome.out().trim() == format!("nameserver {RESOLVER}"), "the world's resolv.conf");
    listener.accept().expect("it came");
    world.resolv_conf("nameserver 192.0.2.1\n");
    let outcome = sandbox.bare(&["/bin/cat", "/etc/resolv.conf"]);
    outcome.assert(outcome.out() == "nameserver 192.0.2.1\n", "the file changes");
    let web = world.web_at(&world.machine, any(8080));
    let outcome = sandbox.bare(&["curl", "-sS", "http://localhost:8080/", "http://[::1]:8080/"]);
    outcome.assert_code(0);
    assert_eq!(web.requests().len(), 2);
}

fn gated() {
    let world = World::new();
    let outcome = world.sandbox().run(&["/bin/echo", "inside"]);
    outcome.assert_code(0);
    outcome.assert(outcome.out() == "inside\n", "what it prints");
    world.wire.assert_arrived(&[]);
}

fn apart() {
    let (first, second) = (World::new(), World::new());
    second.dns.change(|zone| zone.set("www.example.org", 1, vec![API.into()]));
    for (world, address) in [(&first, WWW), (&second, API)] {
        let outcome = world.sandbox().bare(&["curl", "-4sS", "http://www.example.org/"]);
        outcome.assert_code(0);
        let at: Vec<_> = world.web.requests().iter().map(|request| request.at.ip()).collect();
        assert_eq!(at, [address]);
    }
}

fn nothing_left() {
    let number = |world: &World| {
        let link = |fd: i32| fs::read_link(format!("/proc/self/fd/{fd}")).expect("readlink").display().to_string();
        use std::os::fd::AsFd;
        [&world.machine, &world.internet].map(|namespace| link(namespace.as_fd().as_raw_fd()))
    };
    let world = World::new();
    let _authority = world.tls(&["www.example.org"]);
    let (numbers, files) = (number(&world), world.files().to_owned());
    let sandbox = world.sandbox();
    sandbox.bare(&["curl", "-sS", "http://www.example.org/"]).assert_code(0);
    let held = |numbers: &[String; 2]| {
        let links = fs::read_dir("/proc").expect("/proc").flatten().flat_map(|process| {
            let namespace = fs::read_link(process.path().join("ns/net")).into_iter();
            let descriptors = fs::read_dir(process.path().join("fd")).into_iter().flatten().flatten();
            namespace.chain(descriptors.filter_map(|entry| fs::read_link(entry.path()).ok())).collect::<Vec<_>>()
        });
        links.filter(|link| numbers.iter().any(|number| link.as_os_str() == number.as_str())).count()
    };
    assert!(held(&numbers) > 0);
    drop((sandbox, _authority, world));
    until("the namespaces are gone", || (held(&numbers) == 0).then_some(()));
    assert!(!files.exists());
}
