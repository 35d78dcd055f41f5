//! Steps that are not one plain system call: what a program of the generator does with signals, processes, sockets and
//! terminals, and prints in words that are the same for the same behaviour (no pids, no ports that the kernel chose).
//!
//! Runs in the executor. Registers hold numbers or the addresses of live, NUL-terminated strings that the executor placed.

use std::ffi::{CStr, CString};

use super::executor::{HANG, errno_name, number_of};
use super::{processes, signals, sockets, terminals};

/// Calls that need nothing of the tree that other programs begin with.
const TREELESS: &[&str] = &[
    "fcntl",
    "dup",
    "dup2",
    "close",
    "umask",
    "setrlimit",
    "setpgid",
    "prctl",
    "socket",
    "socketpair",
    "connect",
    "bind",
    "listen",
    "sendto",
    "sendmsg",
    "shutdown",
    "setsockopt",
    "pipe2",
    "memfd_create",
    "write",
    "lseek",
];

pub fn needs_tree(name: &str) -> bool {
    number_of(name).is_some() && !TREELESS.contains(&name)
}

/// `None` if there is no such step.
pub fn perform(name: &str, registers: [u64; 6]) -> Option<String> {
    signals::perform(name, registers)
        .or_else(|| processes::perform(name, registers))
        .or_else(|| sockets::perform(name, registers))
        .or_else(|| terminals::perform(name, registers))
}

/// A result as the executor prints one of a system call.
pub fn told(result: i64) -> String {
    if result < 0 { failed() } else { result.to_string() }
}

/// The errno of the last call.
pub fn failed() -> String {
    format!("-{}", errno_name(std::io::Error::last_os_error().raw_os_error().unwrap_or(0)))
}

/// A string argument; empty for an address that is none.
pub fn text(register: u64) -> CString {
    if register < 4096 {
        return CString::default();
    }
    // SAFETY: the executor placed a NUL-terminated string there, or the program is wrong and ends here.
    unsafe { CStr::from_ptr(register as *const libc::c_char) }.to_owned()
}

/// The strings of an array that ends with 0.
pub fn texts(register: u64) -> Vec<CString> {
    let mut all = Vec::new();
    let mut at = register as *const u64;
    // SAFETY: the executor placed an array of addresses that ends with 0.
    unsafe {
        while register >= 4096 && *at != 0 {
            all.push(text(*at));
            at = at.add(1);
        }
    }
    all
}

/// Whether a descriptor has one of these events within so many milliseconds.
pub fn ready(fd: i32, events: i16, milliseconds: i32) -> i16 {
    let mut poll = libc::pollfd { fd, events, revents: 0 };
    // SAFETY: one pollfd, and the count says so. A signal is no event.
    unsafe { while libc::poll(&mut poll, 1, milliseconds) < 0 && *libc::__errno_location() == libc::EINTR {} }
    poll.revents
}

/// How a process ended or stopped, in words. Core dumps are limited inside, so whether there was one is not said.
pub fn status_words(status: i32) -> String {
    if libc::WIFEXITED(status) {
        format!("exit {}", libc::WEXITSTATUS(status))
    } else if libc::WIFSIGNALED(status) {
        format!("signal {}", libc::WTERMSIG(status))
    } else if libc::WIFSTOPPED(status) {
        format!("stopped {}", libc::WSTOPSIG(status))
    } else if libc::WIFCONTINUED(status) {
        "continued".into()
    } else {
        format!("status {status:#x}")
    }
}

/// Forks; the child does `work` with every signal unblocked and at its default, and ends with what it gives. The child's pid.
pub fn forked(work: impl FnOnce() -> i32) -> i32 {
    // SAFETY: fork(2) in a process of one thread; the child ends without returning and not later than this process.
    unsafe {
        let parent = libc::getpid();
        // A signal that comes before the child has its defaults waits until it has them.
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::sigprocmask(libc::SIG_SETMASK, &all, &mut before);
        match libc::fork() {
            0 => {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                if libc::getppid() != parent {
                    libc::_exit(98);
                }
                libc::alarm(HANG);
                defaults();
                libc::_exit(work())
            }
            pid => {
                libc::sigprocmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
                pid
            }
        }
    }
}

fn defaults() {
    // SAFETY: an all-zero sigset_t is an empty one; signals that cannot be set are left out by signal(2).
    unsafe {
        for signal in 1..=libc::SIGRTMAX() {
            libc::signal(signal, libc::SIG_DFL);
        }
        let none: libc::sigset_t = std::mem::zeroed();
        libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
    }
}

/// Waits for this child with these options and says how it is.
pub fn waited(pid: i32, options: i32) -> String {
    let mut status = 0;
    // SAFETY: waitpid(2) fills one integer.
    let result = unsafe {
        loop {
            let result = libc::waitpid(pid, &mut status, options);
            if result >= 0 || *libc::__errno_location() != libc::EINTR {
                break result;
            }
        }
    };
    match result {
        0 => "nothing yet".into(),
        1.. => status_words(status),
        _ => failed(),
    }
}

/// A pipe, close-on-exec: where to read, where to write.
pub fn pipe() -> [i32; 2] {
    let mut both = [-1; 2];
    // SAFETY: two integers are filled.
    assert_eq!(unsafe { libc::pipe2(both.as_mut_ptr(), libc::O_CLOEXEC) }, 0, "pipe2");
    both
}

/// All that comes from a descriptor until its end; closes it.
pub fn all_of(fd: i32) -> String {
    let mut bytes = Vec::new();
    let mut chunk = [0u8; 4096];
    // SAFETY: a live buffer of the length given, and a descriptor that only this function has.
    unsafe {
        loop {
            match libc::read(fd, chunk.as_mut_ptr().cast(), chunk.len()) {
                count @ 1.. => bytes.extend_from_slice(&chunk[..count as usize]),
                0 => break,
                _ if *libc::__errno_location() == libc::EINTR => {}
                _ => break,
            }
        }
        libc::close(fd);
    }
    bytes.escape_ascii().to_string()
}
