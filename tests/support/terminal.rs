//! A terminal that a test sits at.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};

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
