//! What the network costs in a session: connections that a rule allows, what is sent on them, names. Each beside the same done
//! bare on the same machine of a world of network namespaces.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use crate::support::Side;
use crate::support::network::World;
use crate::table::{Line, Runs, Target};

const PROFILE: &str = r#"
schema = 1

[profile]
name = "network"

[defaults]
write = "allow"
connect = "deny"

[[rule]]
id = "server"
access = ["connect"]
host = ["v4.example.org:9"]
level = "allow"
"#;

/// Discards what it gets; of one address alone, so that every connection goes to it.
const SERVER: &str = "v4.example.org:9";
const SESSIONS: usize = 3;
const ROWS: usize = 40;
const CONNECTS: usize = 50;
const SENDS: usize = 2000;
const AT_ONCE: usize = 1000;
const BYTES: usize = 256 << 20;

/// The part that runs inside: prints `NAME: FIGURE` lines.
pub fn inside() {
    let address = SERVER.to_socket_addrs().expect("its name").next().expect("an address");
    for _ in 0..ROWS {
        row("connect", CONNECTS, connects(address));
    }
    for _ in 0..ROWS {
        row("look-up", CONNECTS, look_ups());
    }
    let (sent, received) = small(address);
    sent.into_iter().for_each(|took| row("send", SENDS, took));
    received.into_iter().for_each(|took| row("receive", SENDS, took));
    for _ in 0..10 {
        println!("throughput: {}", throughput(address).as_secs_f64() * 1000.0);
    }
    for _ in 0..5 {
        println!("at once: {}", at_once(address).as_secs_f64() * 1000.0);
    }
}

fn row(name: &str, count: usize, took: Duration) {
    println!("{name}: {}", took.as_secs_f64() * 1e6 / count as f64);
}

/// Sockets made, connected and closed, without a wait for their ports afterwards.
fn connects(address: SocketAddr) -> Duration {
    let start = Instant::now();
    for _ in 0..CONNECTS {
        reset_at_end(&TcpStream::connect(address).expect("it is allowed"));
    }
    start.elapsed()
}

/// Ends with a reset, so that no port of the machine stays taken (TIME_WAIT).
fn reset_at_end(stream: &TcpStream) {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    let size = size_of_val(&linger) as libc::socklen_t;
    let at = (&raw const linger).cast();
    // SAFETY: a live structure of the size that is given, socket(7).
    let done = unsafe { libc::setsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_LINGER, at, size) };
    assert_eq!(done, 0);
}

/// Questions to the server of resolv.conf, each answered before the next.
fn look_ups() -> Duration {
    let settings = std::fs::read_to_string("/etc/resolv.conf").expect("resolv.conf");
    let server = settings.lines().find_map(|line| line.strip_prefix("nameserver ")).expect("a server");
    let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
    socket.connect((server.trim(), 53)).expect("connect");
    socket.set_read_timeout(Some(Duration::from_secs(5))).expect("a time-out");
    let mut query = vec![0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in ["v4", "example", "org"] {
        query.push(label.len() as u8);
        query.extend_from_slice(label.as_bytes());
    }
    query.extend_from_slice(&[0, 0, 1, 0, 1]);
    let mut answer = [0; 512];
    let start = Instant::now();
    for _ in 0..CONNECTS {
        socket.send(&query).expect("send");
        let count = socket.recv(&mut answer).expect("an answer");
        assert!(count > query.len() && answer[3] & 15 == 0, "no answer: {:?}", &answer[..count]);
    }
    start.elapsed()
}

/// Sends of few bytes, and receives that find nothing: the calls themselves.
fn small(address: SocketAddr) -> (Vec<Duration>, Vec<Duration>) {
    let mut stream = TcpStream::connect(address).expect("it is allowed");
    let (mut sent, mut received) = (Vec::new(), Vec::new());
    for _ in 0..ROWS {
        let start = Instant::now();
        (0..SENDS).for_each(|_| stream.write_all(b"few").expect("send"));
        sent.push(start.elapsed());
        let start = Instant::now();
        for _ in 0..SENDS {
            // SAFETY: a buffer of no length, recv(2).
            unsafe { libc::recv(stream.as_raw_fd(), std::ptr::null_mut(), 0, libc::MSG_DONTWAIT) };
        }
        received.push(start.elapsed());
    }
    reset_at_end(&stream);
    (sent, received)
}

/// All the way to the other end, which says so.
fn throughput(address: SocketAddr) -> Duration {
    let chunk = vec![0; 1 << 18];
    let mut stream = TcpStream::connect(address).expect("it is allowed");
    let start = Instant::now();
    (0..BYTES / chunk.len()).for_each(|_| stream.write_all(&chunk).expect("send"));
    stream.shutdown(std::net::Shutdown::Write).expect("shutdown");
    stream.read_to_end(&mut Vec::new()).expect("the end");
    start.elapsed()
}

/// From the first thread to the last connection.
fn at_once(address: SocketAddr) -> Duration {
    let start = Instant::now();
    let threads: Vec<_> = (0..AT_ONCE)
        .map(|_| {
            let connect = move || reset_at_end(&TcpStream::connect(address).expect("it is allowed"));
            std::thread::Builder::new().stack_size(64 << 10).spawn(connect).expect("a thread")
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("it connects"));
    start.elapsed()
}

/// Takes every connection and what comes, on threads of this process that end with it.
fn discard(world: &World) {
    let at = SocketAddr::from(([0, 0, 0, 0], 9));
    let listener = world.internet.inside(|| TcpListener::bind(at)).expect("a listener");
    // SAFETY: listen(2) on a listener of ours; std's backlog of 128 is too short.
    unsafe { libc::listen(listener.as_raw_fd(), 4096) };
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut chunk = vec![0; 1 << 18];
                while stream.read(&mut chunk).is_ok_and(|count| count > 0) {}
            });
        }
    });
}

pub fn lines() -> Vec<Line> {
    let world = World::new();
    discard(&world);
    let sandbox = world.sandbox();
    sandbox.profile(PROFILE);
    let argv = sandbox.inside::<&str>("network", &[]);
    let (mut bare, mut gated) = (String::new(), String::new());
    for _ in 0..SESSIONS {
        for (side, text) in [(Side::Bare, &mut bare), (Side::Gated, &mut gated)] {
            let outcome = sandbox.on(side, &argv);
            outcome.assert_code(0);
            text.push_str(&outcome.out());
        }
    }
    let runs = |text: &str, name: &str| {
        let figures = text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        Runs::new(figures.map(|figure| figure.parse().expect("a number")).collect())
    };
    let line = |name: &str, shown: &str, unit, target: fn(f64) -> Target| {
        let (bare, gated) = (runs(&bare, name), runs(&gated, name));
        let target = target(bare.figure());
        Line { name: shown.to_owned(), unit, bare: Some(bare), gated, target }
    };
    vec![
        line("connect", "socket, connect and close, allowed", "µs", |_| Target::MoreThanBare(60.0)),
        line("at once", "1,000 connects from 1,000 threads", "ms", |_| Target::None),
        line("send", "send of a few bytes", "µs", |_| Target::MoreThanBare(0.2)),
        line("receive", "receive of none", "µs", |_| Target::MoreThanBare(0.2)),
        line("throughput", "256 MiB to the other end", "ms", |bare| Target::MoreThanBare(bare * 0.02)),
        line("look-up", "answer to a name from the cache", "µs", |_| Target::AtMost(100.0)),
    ]
}
