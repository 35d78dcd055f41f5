//! A terminal that a test sits at.

use std::cell::RefCell;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::time::{Duration, Instant};

use super::wait::DEADLINE;

/// Rows and columns of a [`Person`]'s terminal.
pub const SIZE: (u16, u16) = (33, 101);

/// The two ends of a new pty, 24 rows of 80 columns: the test's, and the one that becomes a command's terminal.
pub fn pty() -> (File, File) {
    let (mut master, mut slave) = (0, 0);
    let size = libc::winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: openpty(3) fills two integers and reads the size; the rest may be null. Both descriptors are ours alone.
    unsafe {
        let null = std::ptr::null_mut();
        assert_eq!(libc::openpty(&mut master, &mut slave, null, std::ptr::null(), &size), 0);
        libc::fcntl(master, libc::F_SETFL, libc::O_NONBLOCK);
        for fd in [master, slave] {
            libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC);
        }
        (File::from_raw_fd(master), File::from_raw_fd(slave))
    }
}

/// Adds to `screen` what was drawn since.
pub fn read_screen(mut master: &File, screen: &mut Vec<u8>) {
    let mut poll = libc::pollfd { fd: master.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let mut chunk = [0; 4096];
    // SAFETY: one pollfd, and the count says so.
    while unsafe { libc::poll(&mut poll, 1, 20) } > 0 {
        match master.read(&mut chunk) {
            Ok(count @ 1..) => screen.extend_from_slice(&chunk[..count]),
            _ => return,
        }
    }
}

/// Types keys at the terminal.
pub fn type_keys(mut master: &File, keys: &str) {
    master.write_all(keys.as_bytes()).expect("the terminal takes a few keys");
}

/// The person's side of a terminal, and what was shown on it and not looked at yet.
pub struct Person {
    master: File,
    shown: RefCell<Vec<u8>>,
}

impl Person {
    /// With the side that a program gets.
    pub fn new() -> (Person, File) {
        let (mut master, mut slave) = (0, 0);
        let size = libc::winsize { ws_row: SIZE.0, ws_col: SIZE.1, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: openpty(3) fills two integers and reads a winsize; the rest may be null. Both descriptors are ours alone.
        unsafe {
            let null = std::ptr::null_mut();
            assert_eq!(libc::openpty(&mut master, &mut slave, null, null.cast(), &raw const size), 0);
            libc::fcntl(master, libc::F_SETFD, libc::FD_CLOEXEC);
            libc::fcntl(slave, libc::F_SETFD, libc::FD_CLOEXEC);
            (Person { master: File::from_raw_fd(master), shown: RefCell::default() }, File::from_raw_fd(slave))
        }
    }

    #[track_caller]
    pub fn types(&self, keys: &str) {
        (&self.master).write_all(keys.as_bytes()).expect("the terminal takes keys");
    }

    pub fn resizes(&self, rows: u16, columns: u16) {
        let size = libc::winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: TIOCSWINSZ reads a winsize.
        assert_eq!(unsafe { libc::ioctl(self.master.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) }, 0);
    }

    /// Waits until this is shown, and takes everything up to its end.
    #[track_caller]
    pub fn sees(&self, text: &str) -> String {
        let end = Instant::now() + DEADLINE;
        loop {
            let mut shown = self.shown.borrow_mut();
            if let Some(at) = shown.windows(text.len()).position(|window| window == text.as_bytes()) {
                let seen: Vec<u8> = shown.drain(..at + text.len()).collect();
                return String::from_utf8_lossy(&seen).into_owned();
            }
            let left = end.saturating_duration_since(Instant::now());
            let so_far = String::from_utf8_lossy(&shown).into_owned();
            assert!(!left.is_zero() && self.more(&mut shown, left), "waited for {text:?}, saw {so_far:?}");
        }
    }

    /// Everything that is shown until nobody has the terminal any more.
    pub fn sees_the_rest(&self) -> String {
        let mut shown = self.shown.borrow_mut();
        while self.more(&mut shown, DEADLINE) {}
        String::from_utf8_lossy(&shown).into_owned()
    }

    /// Reads once; `false` at the end, or if nothing comes within `limit`.
    fn more(&self, shown: &mut Vec<u8>, limit: Duration) -> bool {
        let mut poll = libc::pollfd { fd: self.master.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one pollfd, and the count says so.
        if unsafe { libc::poll(&mut poll, 1, limit.as_millis() as i32) } <= 0 {
            return false;
        }
        let mut chunk = [0; 4096];
        match (&self.master).read(&mut chunk) {
            Ok(count @ 1..) => {
                shown.extend_from_slice(&chunk[..count]);
                true
            }
            _ => false,
        }
    }
}
