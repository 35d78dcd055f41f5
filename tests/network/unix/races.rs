//! Attacks 1 and 2 on sockets: what was judged is what is reached, whatever a second thread does meanwhile.

use std::io::Read;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};

use super::host::Host;
use crate::support::Side;
use crate::{Inside, Test};

pub const TESTS: &[Test] = &[
    ("an_address_that_is_rewritten_reaches_nobody_else", address),
    ("a_path_that_is_exchanged_reaches_nobody_else", path),
    ("a_descriptor_that_is_exchanged_reaches_nobody_else", descriptor),
];

pub const INSIDE: &[Inside] =
    &[("unix-address", address_inside), ("unix-path", path_inside), ("unix-descriptor", descriptor_inside)];

const TRIES: usize = 20_000;
/// Connections after which a socket has been exchanged often enough.
const MADE: usize = 200;
const ALLOWED: &str = "/tmp/allowed.sock";
const DENIED: &str = "/tmp/denied_.sock";

/// One of two servers may be reached; the attack on both sides, and how often the other one was.
fn race(name: &str, lasting: bool) {
    let host = Host::new();
    let rule = format!("[[rule]]\nid = \"one\"\naccess = [\"unix\"]\nsocket = [\"{ALLOWED}\"]\nlevel = \"allow\"\n");
    let (allowed, denied) = (host.serve(ALLOWED), host.serve(DENIED));
    host.profile("deny", &rule);
    let run = |side| {
        let outcome = host.sandbox.on(side, &host.sandbox.inside(name, &["x"]));
        outcome.assert_code(0);
        outcome
    };
    run(Side::Bare);
    assert!(denied.served() > 0, "bare the race is won");
    let (bare_allowed, bare) = (allowed.served(), denied.served());
    let inside = run(Side::Gated);
    assert_eq!(denied.served(), bare, "the other server was reached\n{inside}");
    assert!(!lasting || allowed.served() > bare_allowed, "the allowed one is reached\n{inside}");
}

fn address() {
    race("unix-address", true);
}

fn path() {
    race("unix-path", true);
}

fn descriptor() {
    race("unix-descriptor", true);
}

fn sockaddr(path: &str) -> Box<libc::sockaddr_un> {
    // SAFETY: an all-zero sockaddr_un is a valid one.
    let mut address: Box<libc::sockaddr_un> = Box::new(unsafe { std::mem::zeroed() });
    address.sun_family = libc::AF_UNIX as u16;
    for (slot, byte) in address.sun_path.iter_mut().zip(path.bytes()) {
        *slot = byte as libc::c_char;
    }
    address
}

fn stream() -> OwnedFd {
    // SAFETY: socket(2) takes three integers; the descriptor is ours alone.
    unsafe { OwnedFd::from_raw_fd(libc::socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0)) }
}

fn connect(socket: i32, address: *const libc::sockaddr_un) -> bool {
    // SAFETY: the address is as large as is said, and lives.
    unsafe { libc::connect(socket, address.cast(), size_of::<libc::sockaddr_un>() as u32) == 0 }
}

fn address_inside(_: &[String]) {
    let one = Box::leak(sockaddr(ALLOWED));
    let at: *mut libc::sockaddr_un = one;
    let address = at as usize;
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                for path in [DENIED, ALLOWED] {
                    let from = sockaddr(path);
                    // SAFETY: both are a sockaddr_un; that the kernel reads it meanwhile is the attack.
                    unsafe { std::ptr::copy_nonoverlapping(&raw const *from, address as *mut libc::sockaddr_un, 1) };
                }
            }
        });
        (0..TRIES).for_each(|_| _ = connect(stream().as_raw_fd(), at));
        over.store(true, Ordering::Relaxed);
    });
}

fn path_inside(_: &[String]) {
    let directory = "/tmp/exchanged";
    let _ = std::fs::create_dir(directory);
    let link = format!("{directory}/link");
    let address = sockaddr(&link);
    let over = AtomicBool::new(false);
    let turn = |to: &str, name: &str| {
        let new = format!("{directory}/{name}");
        let _ = std::fs::remove_file(&new);
        let _ = std::os::unix::fs::symlink(to, &new);
        let _ = std::fs::rename(&new, &link);
    };
    turn(ALLOWED, "first");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                turn(DENIED, "new");
                turn(ALLOWED, "new");
            }
        });
        (0..TRIES).for_each(|_| _ = connect(stream().as_raw_fd(), &*address));
        over.store(true, Ordering::Relaxed);
    });
}

/// The number that is connected is now a socket to the one server, now to the other; what is asked for is the allowed one.
fn descriptor_inside(_: &[String]) {
    let (allowed, denied) = (sockaddr(ALLOWED), sockaddr(DENIED));
    let number = stream();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let fresh = stream();
                // SAFETY: dup2(2) takes two integers; the number stays the other thread's.
                unsafe { libc::dup2(fresh.as_raw_fd(), number.as_raw_fd()) };
            }
        });
        // A socket that is connected already says so at once: bare, all tries could be over before the other thread is at work.
        let mut made = 0;
        for tries in 0..100 * TRIES {
            if tries >= TRIES && made >= MADE {
                break;
            }
            let to = if tries % 2 == 0 { &allowed } else { &denied };
            made += usize::from(connect(number.as_raw_fd(), &**to));
        }
        over.store(true, Ordering::Relaxed);
    });
    // Whatever it is by now, it says nothing but what it was allowed to hear.
    let mut one = UnixStream::from(number);
    let _ = one.set_read_timeout(Some(std::time::Duration::from_millis(10)));
    let _ = one.read(&mut [0; 16]);
}
