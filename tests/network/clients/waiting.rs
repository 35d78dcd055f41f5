//! Connections that take their time: nobody answers, a signal comes, another address would do.

use std::time::{Duration, Instant};

use super::case::{allow, profile};
use crate::Test;
use crate::support::network::{API, Data, SILENT6, World};
use crate::support::{Outcome, Side};

pub const TESTS: &[Test] = &[
    ("a_client_tries_the_next_address_where_the_first_is_silent", next_address),
    ("a_client_gives_up_after_its_own_time", own_time),
    ("a_signal_interrupts_a_connection_that_waits", signal),
    ("a_fatal_signal_ends_a_connection_that_waits", killed),
    ("connections_that_wait_hold_up_nothing_else", others_go_on),
];

/// Far below the two minutes after which the kernel gives up (tcp_syn_retries).
const SOON: Duration = Duration::from_secs(20);

/// Runs a command that is to end soon, bare and inside, where `half.example.org` has a silent IPv6 and a good IPv4 address.
fn both(argv: &[&str], holds: impl Fn(&World, &Outcome) -> bool) {
    for side in [Side::Bare, Side::Gated] {
        let world = World::new();
        world.dns.change(|zone| zone.set("half.example.org", 60, vec![Data::from(SILENT6), Data::from(API)]));
        let sandbox = world.sandbox();
        let hosts = ["half.example.org:80", "silent.example.org:80", "www.example.org:80"];
        sandbox.profile(&profile(&allow(&hosts)));
        let start = Instant::now();
        let outcome = sandbox.on(side, argv);
        let took = start.elapsed();
        outcome.assert(took < SOON, &format!("it took {took:?}"));
        outcome.assert(holds(&world, &outcome), "what it comes to");
    }
}

fn python(script: &str, holds: impl Fn(&World, &Outcome) -> bool) {
    both(&["/usr/bin/python3", "-c", script], holds);
}

fn next_address() {
    both(&["curl", "-sS", "http://half.example.org/"], |world, outcome| {
        let tried = world.wire.arrived().contains_key(&format!("tcp [{SILENT6}]:80"));
        outcome.code() == 0 && outcome.out() == "hello from half.example.org\n" && tried
    });
    let fetch =
        "fetch('http://half.example.org/').then(found => found.text()).then(text => process.stdout.write(text))";
    both(&["node", "-e", fetch], |_, outcome| outcome.out() == "hello from half.example.org\n");
}

fn own_time() {
    both(&["curl", "-4sS", "--connect-timeout", "1", "http://silent.example.org/"], |_, outcome| outcome.code() == 28);
    let script = "import socket\n\
                  s = socket.socket(); s.settimeout(0.5)\n\
                  try: s.connect(('silent.example.org', 80))\n\
                  except TimeoutError: print('timed out')\n\
                  s = socket.socket()\n\
                  s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, (0).to_bytes(8, 'little') + (500000).to_bytes(8, 'little'))\n\
                  try: s.connect(('silent.example.org', 80))\n\
                  except BlockingIOError: print('in progress')\n";
    python(script, |_, outcome| outcome.out() == "timed out\nin progress\n");
}

fn signal() {
    // A handler that raises ends the call, as EINTR from the kernel lets it; one that does not is followed by the same call again.
    let script = "import signal, socket\n\
                  count = 0\n\
                  def rings(*_):\n\
                  \x20   global count; count += 1\n\
                  \x20   if count == 5: raise InterruptedError('enough')\n\
                  signal.signal(signal.SIGALRM, rings)\n\
                  signal.setitimer(signal.ITIMER_REAL, 0.2, 0.2)\n\
                  s = socket.socket()\n\
                  try: s.connect(('silent.example.org', 80))\n\
                  except InterruptedError as error: print(error, count)\n";
    python(script, |_, outcome| outcome.out() == "enough 5\n");
}

fn killed() {
    let script = "import socket; print('waits', flush=True); socket.socket().connect(('silent.example.org', 80))";
    let argv = ["timeout", "-s", "INT", "2", "/usr/bin/python3", "-c", script];
    both(&argv, |_, outcome| outcome.code() == 124 && outcome.err().contains("KeyboardInterrupt"));
    let argv = ["timeout", "-s", "KILL", "2", "/usr/bin/python3", "-c", script];
    both(&argv, |_, outcome| outcome.code() == 137 && outcome.out() == "waits\n");
}

fn others_go_on() {
    let script = "import os, socket, threading, time\n\
                  address = socket.getaddrinfo('silent.example.org', 80, socket.AF_INET)[0][4]\n\
                  def wait():\n\
                  \x20   s = socket.socket()\n\
                  \x20   started.release()\n\
                  \x20   s.connect(address)\n\
                  started = threading.Semaphore(0)\n\
                  for _ in range(300): threading.Thread(target=wait, daemon=True).start()\n\
                  for _ in range(300): started.acquire()\n\
                  for number in range(100):\n\
                  \x20   s = socket.create_connection(('www.example.org', 80)); s.sendall(b'GET / HTTP/1.0\\r\\n\\r\\n'); s.recv(10)\n\
                  \x20   open('file', 'w').write('x'); os.rename('file', 'other')\n\
                  print('done', flush=True)\n\
                  os._exit(0)\n";
    python(script, |_, outcome| outcome.out() == "done\n");
}
