//! Attack 20: typing into the caller's terminal.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use crate::engine;
use crate::raw::{self, sys};
use crate::support::{self, Side};
use crate::{Inside, Test};

pub const TESTS: &[Test] = &[("nothing_is_typed_into_the_terminal_of_the_caller", typed)];

pub const INSIDE: &[Inside] = &[("type", type_inside)];

fn typed() {
    for side in engine::sides() {
        let sandbox = engine::with_victims();
        let (master, slave) = support::pty();
        raw_mode(&slave);
        let own = slave.try_clone().expect("dup");
        // The bare user types into a terminal of their own.
        std::os::unix::fs::fchown(&slave, Some(crate::support::user::UID), None).expect("chown");
        let inner = sandbox.inside::<&str>("type", &[]);
        let line = if *side == Side::Gated { sandbox.gated_argv(&inner) } else { inner };
        let outcome = sandbox.start_line(*side, &line, Some(slave)).finish();
        // stdout is a file of the test on both sides; only stdin is the terminal.
        outcome.assert(outcome.out().contains("ran type"), "the attack came to its end");
        let waiting = readable(&own);
        outcome.assert(waiting == (*side == Side::Bare), "whether something was typed into the caller's terminal");
        if *side == Side::Gated {
            outcome.assert(!outcome.out().contains("sti ok"), "no form of the command is accepted");
        }
        drop(master);
    }
}

/// What is typed can be read at once, and is not echoed.
fn raw_mode(terminal: &File) {
    // SAFETY: an all-zero termios is filled before it is changed.
    unsafe {
        let mut mode: libc::termios = std::mem::zeroed();
        assert_eq!(libc::tcgetattr(terminal.as_raw_fd(), &mut mode), 0);
        libc::cfmakeraw(&mut mode);
        assert_eq!(libc::tcsetattr(terminal.as_raw_fd(), libc::TCSANOW, &mode), 0);
    }
}

/// Whether input waits within half a second.
fn readable(terminal: &File) -> bool {
    let end = Instant::now() + Duration::from_millis(500);
    let mut poll = libc::pollfd { fd: terminal.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    while Instant::now() < end {
        // SAFETY: one pollfd, and the count says so.
        if unsafe { libc::poll(&mut poll, 1, 50) } > 0 && poll.revents & libc::POLLIN != 0 {
            return true;
        }
    }
    false
}

fn type_inside(_: &[String]) {
    let key = b'x';
    let at = (&raw const key) as u64;
    let sti = libc::TIOCSTI;
    const TIOCLINUX: u64 = 0x541c;
    for (name, command) in
        [("sti", sti), ("sti", 0xdead_beef_0000_0000 | sti), ("linux", TIOCLINUX), ("linux", 1 << 32 | TIOCLINUX)]
    {
        raw::say_result(name, sys(libc::SYS_ioctl, [0, command, at]));
    }
    if let Ok(fd) = raw::open("/dev/tty", libc::O_RDWR) {
        raw::say_result("sti", sys(libc::SYS_ioctl, [fd as u64, sti, at]));
    }
}
