//! Terminals: pty pairs, their settings and sizes, controlling terminals and job control.
//!
//! Runs in the executor. A pty's number is the kernel's, and never said.

use std::ffi::CString;

use super::acts::{failed, forked, pipe, ready, told, waited};

/// A new pty; the master does not wait.
fn pty(flags: i32) -> String {
    // SAFETY: descriptors of our own; ptsname_r(3) fills at most what it is told.
    unsafe {
        let master = libc::posix_openpt(libc::O_RDWR | libc::O_NOCTTY | libc::O_NONBLOCK | libc::O_CLOEXEC);
        if master < 0 {
            return failed();
        }
        let ready = [libc::grantpt(master), libc::unlockpt(master)];
        let mut name = [0; 64];
        libc::ptsname_r(master, name.as_mut_ptr(), name.len());
        let slave = libc::open(name.as_ptr(), libc::O_RDWR | libc::O_NOCTTY | flags);
        if slave < 0 { failed() } else { format!("{master} {slave} {ready:?}") }
    }
}

/// Settings that programs change, in words.
fn settings(fd: i32) -> String {
    // SAFETY: an all-zero termios that tcgetattr(3) fills.
    unsafe {
        let mut now: libc::termios = std::mem::zeroed();
        if libc::tcgetattr(fd, &mut now) != 0 {
            return failed();
        }
        let (min, time) = (now.c_cc[libc::VMIN], now.c_cc[libc::VTIME]);
        format!(
            "i={:#x} o={:#x} c={:#x} l={:#x} min={min} time={time}",
            now.c_iflag, now.c_oflag, now.c_cflag, now.c_lflag
        )
    }
}

/// 0 raw, 1 no echo, 2 no signals, 3 TOSTOP, 4 no new lines made, 5 VMIN 3, 6 sane again.
fn set(fd: i32, kind: i32) -> String {
    // SAFETY: as above.
    unsafe {
        let mut now: libc::termios = std::mem::zeroed();
        if libc::tcgetattr(fd, &mut now) != 0 {
            return failed();
        }
        match kind {
            0 => libc::cfmakeraw(&mut now),
            1 => now.c_lflag &= !libc::ECHO,
            2 => now.c_lflag &= !libc::ISIG,
            3 => now.c_lflag |= libc::TOSTOP,
            4 => now.c_oflag &= !libc::OPOST,
            5 => now.c_cc[libc::VMIN] = 3,
            _ => {
                now.c_lflag |= libc::ECHO | libc::ISIG | libc::ICANON;
                now.c_iflag |= libc::ICRNL;
                now.c_oflag |= libc::OPOST;
            }
        }
        told(libc::tcsetattr(fd, libc::TCSANOW, &now).into())
    }
}

fn size(fd: i32) -> String {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: filled by the kernel.
    if unsafe { libc::ioctl(fd, libc::TIOCGWINSZ, &mut size) } != 0 {
        return failed();
    }
    format!("{}x{}", size.ws_row, size.ws_col)
}

fn resize(fd: i32, rows: u16, columns: u16) -> String {
    let size = libc::winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: a live structure.
    told(unsafe { libc::ioctl(fd, libc::TIOCSWINSZ, &size) }.into())
}

fn put(fd: i32, text: &CString) -> String {
    // SAFETY: a live string. A master that nobody reads takes a page, which no program writes.
    let result = told(unsafe { libc::write(fd, text.as_ptr().cast(), text.as_bytes().len()) } as i64);
    settle();
    result
}

/// What was written passes through a queue of the kernel's, which poll(2) on its other end empties (`n_tty_poll`); an echo
/// passes through another one on its way back.
fn settle() {
    for _ in 0..2 {
        for fd in 3..10 {
            ready(fd, libc::POLLIN, 0);
        }
    }
}

/// What can be read, at most so much.
fn get(fd: i32, most: usize) -> String {
    settle();
    let events = ready(fd, libc::POLLIN, 300);
    if events & (libc::POLLIN | libc::POLLHUP | libc::POLLERR | libc::POLLNVAL) == 0 {
        return "nothing".into();
    }
    let mut bytes = vec![0u8; most.min(4096)];
    // SAFETY: a live buffer of the length given.
    match unsafe { libc::read(fd, bytes.as_mut_ptr().cast(), bytes.len()) } {
        count @ 0.. => format!("\"{}\"", bytes[..count as usize].escape_ascii()),
        _ => failed(),
    }
}

fn what(fd: i32) -> String {
    let mut name = [0; 64];
    let mut waiting = 0;
    settle();
    // SAFETY: live buffers of the lengths given.
    unsafe {
        let is_terminal = libc::isatty(fd);
        let named = libc::ttyname_r(fd, name.as_mut_ptr(), name.len());
        // Of a master it is /dev/ptmx, or /dev/pts/ptmx where that is a link.
        let below = std::ffi::CStr::from_ptr(name.as_ptr()).to_string_lossy().starts_with("/dev/");
        let read = libc::ioctl(fd, libc::FIONREAD, &mut waiting);
        let waiting = if read == 0 { waiting.to_string() } else { failed() };
        let session = libc::tcgetsid(fd);
        let session = if session < 0 { failed() } else { "some".into() };
        format!("terminal {is_terminal} named {named} {below} waiting {waiting} session {session}")
    }
}

/// A child makes the slave its controlling terminal and does one thing; what it says comes by a pipe.
fn session(master: i32, slave: i32, kind: i32) -> String {
    // SAFETY: isatty(3) on a number.
    if unsafe { libc::isatty(master) == 0 || libc::isatty(slave) == 0 } {
        return "no terminal".into();
    }
    let [read, write] = pipe();
    let [go, gone] = pipe();
    let child = forked(|| {
        // SAFETY: descriptors of our own, and system calls on them.
        unsafe {
            libc::close(gone);
            libc::close(read);
            let say = |text: &str| {
                libc::write(write, text.as_ptr().cast(), text.len());
            };
            // Keys are to be signals, whatever was set before.
            set(slave, 6);
            let told_of = [libc::open(c"/dev/tty".as_ptr(), libc::O_RDWR) >= 0];
            libc::setsid();
            let made = told(libc::ioctl(slave, libc::TIOCSCTTY, 0).into());
            let tty = libc::open(c"/dev/tty".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
            let front = libc::tcgetpgrp(slave) == libc::getpid();
            say(&format!("before {told_of:?} ctty {made} /dev/tty {} front {front}; ", tty >= 0));
            match kind {
                // Waits for what the master sends: a key that is a signal, or the end.
                0 => {
                    say("ready");
                    libc::close(write);
                    loop {
                        libc::pause();
                    }
                }
                // Read or written from behind.
                1..=3 => {
                    let back = forked(|| {
                        libc::setpgid(0, 0);
                        let mut byte = [0u8; 1];
                        let result = match kind {
                            1 => libc::read(tty, byte.as_mut_ptr().cast(), 1) as i64,
                            2 => {
                                set(tty, 3);
                                libc::write(tty, c"x".as_ptr().cast(), 1) as i64
                            }
                            _ => libc::tcsetpgrp(tty, libc::getpid()).into(),
                        };
                        i32::from(result < 0)
                    });
                    say(&waited(back, libc::WUNTRACED));
                    libc::kill(back, libc::SIGKILL);
                    say(&format!(", {}", waited(back, 0)));
                }
                // The same, ignored or blocked: reading is EIO, the others go on.
                4..=6 => {
                    libc::signal(libc::SIGTTIN, libc::SIG_IGN);
                    libc::signal(libc::SIGTTOU, libc::SIG_IGN);
                    let back = forked(|| {
                        libc::setpgid(0, 0);
                        let mut byte = [0u8; 1];
                        let result = match kind {
                            4 => libc::read(tty, byte.as_mut_ptr().cast(), 1) as i64,
                            5 => libc::write(tty, c"x".as_ptr().cast(), 1) as i64,
                            _ => libc::tcsetpgrp(tty, libc::getpid()).into(),
                        };
                        if result < 0 { *libc::__errno_location() } else { 0 }
                    });
                    say(&waited(back, libc::WUNTRACED));
                    libc::kill(back, libc::SIGKILL);
                    libc::tcsetpgrp(tty, libc::getpid());
                }
                // A job: put in front, stopped from the keyboard, put in front again, ended from the keyboard.
                7 => {
                    libc::signal(libc::SIGTTOU, libc::SIG_IGN);
                    let job = forked(|| {
                        libc::setpgid(0, 0);
                        libc::signal(libc::SIGTTOU, libc::SIG_DFL);
                        loop {
                            libc::pause();
                        }
                    });
                    libc::setpgid(job, job);
                    say(&told(libc::tcsetpgrp(tty, job).into()));
                    libc::write(master, c"\x1a".as_ptr().cast(), 1);
                    say(&format!(" {}", waited(job, libc::WUNTRACED)));
                    say(&format!(" {}", told(libc::tcsetpgrp(tty, libc::getpid()).into())));
                    libc::tcsetpgrp(tty, job);
                    libc::kill(-job, libc::SIGCONT);
                    say(&format!(" {}", waited(job, libc::WCONTINUED)));
                    libc::write(master, c"\x03".as_ptr().cast(), 1);
                    say(&format!(" {}", waited(job, 0)));
                    libc::tcsetpgrp(tty, libc::getpid());
                }
                // Given up, and then there is none.
                8 => {
                    say(&told(libc::ioctl(tty, libc::TIOCNOTTY, 0).into()));
                    say(&told(libc::open(c"/dev/tty".as_ptr(), libc::O_RDWR).into()));
                }
                // Another session may not take it.
                9 => {
                    let other = forked(|| {
                        libc::setsid();
                        let result = libc::ioctl(slave, libc::TIOCSCTTY, 0);
                        if result < 0 { *libc::__errno_location() } else { 0 }
                    });
                    say(&waited(other, 0));
                    say(&format!(" {}", told(libc::tcsetpgrp(tty, 1 << 22).into())));
                }
                // A new size.
                _ => {
                    let mut set: libc::sigset_t = std::mem::zeroed();
                    libc::sigemptyset(&mut set);
                    libc::sigaddset(&mut set, libc::SIGWINCH);
                    libc::sigprocmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
                    resize(master, 7, 77);
                    let second = libc::timespec { tv_sec: 1, tv_nsec: 0 };
                    let came = libc::sigtimedwait(&set, std::ptr::null_mut(), &second);
                    say(&format!("{came} {}", size(tty)));
                    resize(master, 7, 77);
                    let none = libc::timespec { tv_sec: 0, tv_nsec: 0 };
                    let again = libc::sigtimedwait(&set, std::ptr::null_mut(), &none);
                    say(&format!(" {}", told(again.into())));
                }
            }
            0
        }
    });
    // SAFETY: our own descriptors.
    unsafe {
        libc::close(write);
        libc::close(go);
        let said = super::acts::all_of(read);
        if kind == 0 {
            libc::write(master, c"\x03".as_ptr().cast(), 1);
        }
        let end = waited(child, 0);
        libc::close(gone);
        format!("{said} {end}")
    }
}

/// The terminal's end: who leads its session hears of it, and what is written is EIO.
fn hangup() -> String {
    let [read, write] = pipe();
    let child = forked(|| {
        // SAFETY: descriptors of our own.
        unsafe {
            libc::setsid();
            let master = libc::posix_openpt(libc::O_RDWR | libc::O_NOCTTY);
            libc::grantpt(master);
            libc::unlockpt(master);
            let mut name = [0; 64];
            libc::ptsname_r(master, name.as_mut_ptr(), name.len());
            let slave = libc::open(name.as_ptr(), libc::O_RDWR);
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            libc::sigaddset(&mut set, libc::SIGHUP);
            libc::sigprocmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
            libc::close(master);
            let second = libc::timespec { tv_sec: 1, tv_nsec: 0 };
            let came = libc::sigtimedwait(&set, std::ptr::null_mut(), &second);
            let mut byte = [0u8; 1];
            let got = told(libc::read(slave, byte.as_mut_ptr().cast(), 1) as i64);
            let wrote = told(libc::write(slave, c"x".as_ptr().cast(), 1) as i64);
            let tty = told(libc::open(c"/dev/tty".as_ptr(), libc::O_RDWR).into());
            let text = format!("signal {came} read {got} write {wrote} /dev/tty {tty}");
            libc::write(write, text.as_ptr().cast(), text.len());
        }
        0
    });
    // SAFETY: our own descriptor.
    unsafe { libc::close(write) };
    let said = super::acts::all_of(read);
    format!("{said} {}", waited(child, 0))
}

pub fn perform(name: &str, r: [u64; 6]) -> Option<String> {
    let int = |index: usize| r[index] as i32;
    Some(match name {
        "pty" => pty(int(0)),
        "settings" => settings(int(0)),
        "set" => set(int(0), int(1)),
        "size" => size(int(0)),
        "resize" => resize(int(0), r[1] as u16, r[2] as u16),
        "put" => put(int(0), &super::acts::text(r[1])),
        "get" => get(int(0), r[1] as usize),
        "what" => what(int(0)),
        "terminal" => session(int(0), int(1), int(2)),
        "hangup" => hangup(),
        // SAFETY: numbers.
        "flush" => told(unsafe { libc::tcflush(int(0), int(1)) }.into()),
        // SAFETY: numbers.
        "drain" => told(unsafe { libc::tcdrain(int(0)) }.into()),
        // SAFETY: numbers.
        "flow" => told(unsafe { libc::tcflow(int(0), int(1)) }.into()),
        _ => return None,
    })
}
