//! Servers inside, and who reaches them.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use super::case::profile;
use crate::Test;
use crate::support::network::World;
use crate::support::{Side, until};

pub const TESTS: &[Test] = &[
    ("a_dev_server_bare_is_reached_from_the_host", bare),
    ("a_published_dev_server_is_reached_from_the_host", published),
    ("a_dev_server_that_is_not_published_is_reached_from_the_session_alone", not_published),
];

/// Serves one request that comes to port 8080 of localhost, and before that one of its own.
const SERVER: &str = "
import http.server, threading, urllib.request
server = http.server.HTTPServer(('127.0.0.1', 8080), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=server.serve_forever, daemon=True).start()
print('own', urllib.request.urlopen('http://localhost:8080/word').read().decode(), flush=True)
input()
";

fn serve(world: &World, side: Side, options: &[&str]) -> bool {
    let mut sandbox = world.sandbox();
    sandbox.profile(&profile(""));
    options.iter().for_each(|option| sandbox.option(option));
    sandbox.file(&sandbox.workspace().join("word"), "hello");
    let argv = ["/bin/sh", "-c", "exec /usr/bin/python3 -c \"$1\" <fifo", "sh", SERVER];
    let fifo = sandbox.workspace().join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).expect("mkfifo");
    sandbox.give(&fifo);
    let hold = std::fs::File::options().read(true).write(true).open(&fifo).expect("open");
    let running = sandbox.start(side, &argv);
    until("it served itself", || {
        let ended = running.pidfd.ends_within(std::time::Duration::ZERO);
        assert!(!ended, "it ended: {}{}", running.so_far(), running.errors_so_far());
        running.so_far().contains("own hello").then_some(())
    });
    let reached = world.machine.inside(|| {
        let mut stream = TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], 8080))).ok()?;
        stream.write_all(b"GET /word HTTP/1.0\r\n\r\n").ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        Some(text)
    });
    (&hold).write_all(b"\n").expect("write");
    running.finish().assert_code(0);
    reached.is_some_and(|text| text.ends_with("hello"))
}

fn bare() {
    assert!(serve(&World::new(), Side::Bare, &[]));
}

fn published() {
    assert!(serve(&World::new(), Side::Gated, &["--publish", "8080"]));
}

fn not_published() {
    assert!(!serve(&World::new(), Side::Gated, &[]));
}
