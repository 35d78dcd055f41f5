//! The command's own process, from fork to execve(2): as the user, not dumpable, with one thread. It makes the caller's
//! conditions its own, enters the floor and the filter, and executes the command once the supervisor serves the listener.
//!
//! Where programs are judged its own execve(2) is trapped like any other, so the supervisor must read its arguments and
//! attach to it: it becomes dumpable for that, last of all. Nobody else gains by it. From inside, its Landlock domain is its
//! own and nobody is below it yet, and a process of another domain may not look into it. From outside its user may, as into
//! any program of theirs; what it has copied of the supervisor's memory holds no secret by then ([`super::init`]).

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nix::errno::Errno;
use nix::sys::signal::{SigSet, SigmaskHow, sigprocmask};
use nix::sys::stat::{Mode, umask};
use nix::unistd::{Pid, execve, getpid, setpgid, tcsetpgrp};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};

use super::descriptors::{become_passed, become_stdio, close_rest_on_exec};
use super::filter::Filter;
use super::floor::Floor;
use super::link::Link;
use super::messages::{CallOrder, FromCall, ToCall};
use super::mounts::identity_of;
use crate::common::wire::PASSED;

/// Exit status of a command that could not be set up; the supervisor was told why (env(1)).
const FAILED: i32 = 125;

/// What holds a command even if all processes of ours are dead.
pub struct Cage {
    pub floor: Floor,
    pub filter: Filter,
    /// Whether the filter traps execve(2).
    pub judged_programs: bool,
}

/// How the command's child speaks with the supervisor: to it on the call's link, which the leader alone listens to.
pub struct Links<'a> {
    pub supervisor: &'a Link<FromCall, ToCall>,
    pub leader: &'a Link<FromCall, ToCall>,
}

/// The descriptors of a command.
pub struct Given<'a> {
    pub stdio: [OwnedFd; 3],
    /// For the numbers of [`CallOrder::passed`].
    pub passed: Vec<OwnedFd>,
    pub terminal: Option<&'a OwnedFd>,
}

/// From here on descriptors of ours are out of the way of all that a command can be passed.
const OUT_OF_THE_WAY: i32 = *PASSED.end() + 1;

/// Execute the order, or tell why not and exit.
pub fn run_and_exit(cage: &Cage, order: &CallOrder, links: &Links<'_>, given: Given<'_>) -> ! {
    if order.passed.is_empty() {
        prepare_and_execute(cage, order, &cage.floor, links, given);
    }
    // With what is still needed at numbers that nothing is passed at.
    let moved = cage.floor.at_number_above(OUT_OF_THE_WAY).and_then(|floor| {
        let supervisor = links.supervisor.at_number_above(OUT_OF_THE_WAY)?;
        Ok((floor, supervisor, links.leader.at_number_above(OUT_OF_THE_WAY)?))
    });
    match moved {
        Ok((floor, supervisor, leader)) => {
            let links = Links { supervisor: &supervisor, leader: &leader };
            prepare_and_execute(cage, order, &floor, &links, given)
        }
        Err(error) => {
            report_and_exit(links, &FromCall::Failed(format!("cannot make room for what is passed on: {error}")))
        }
    }
}

fn prepare_and_execute(cage: &Cage, order: &CallOrder, floor: &Floor, links: &Links<'_>, given: Given<'_>) -> ! {
    let report = match prepare(cage, order, floor, links, given) {
        Ok(()) => FromCall::NotExecuted(execute_or_another(order, links) as i32),
        Err(text) => FromCall::Failed(text),
    };
    report_and_exit(links, &report)
}

fn report_and_exit(links: &Links<'_>, report: &FromCall) -> ! {
    let _ = links.supervisor.send(report, &[]);
    // SAFETY: _exit(2) has no precondition; nothing of the leader's must be unwound or flushed here.
    unsafe { libc::_exit(FAILED) }
}

fn prepare(cage: &Cage, order: &CallOrder, floor: &Floor, links: &Links<'_>, given: Given<'_>) -> Result<(), String> {
    let Given { stdio, passed, terminal } = given;
    let says = |what: &'static str| move |error: &dyn std::fmt::Display| format!("cannot {what}: {error}");
    setpgid(Pid::from_raw(0), Pid::from_raw(0)).map_err(|errno| says("make a process group")(&errno))?;
    if let Some(terminal) = terminal
        && !order.in_background
    {
        // SIGTTOU is ignored until the signals are restored below.
        tcsetpgrp(terminal, getpid()).map_err(|errno| says("take the terminal")(&errno))?;
    }
    enter_directory(order)?;
    let stdio = place_terminal(stdio, order.on_terminal, terminal).map_err(|error| says("use the terminal")(&error))?;
    become_stdio(stdio).map_err(|error| says("set stdin, stdout and stderr")(&error))?;
    close_rest_on_exec().map_err(|error| says("close other files")(&error))?;
    become_passed(passed, &order.passed, OUT_OF_THE_WAY).map_err(|error| says("pass files on")(&error))?;
    umask(Mode::from_bits_truncate(order.umask));
    restore_signals(order.ignored_signals).map_err(|errno| says("restore the signals")(&errno))?;
    floor.enter().map_err(|error| says("enter the Landlock floor")(&error))?;
    let listener = cage.filter.install().map_err(|error| says("install the filter")(&error))?;
    let handed_over = links.supervisor.send(&FromCall::Trapped, &[listener.as_fd()]);
    handed_over.map_err(|error| says("hand over the listener")(&error))?;
    // Whoever holds a listener can answer the calls of those below it.
    drop(listener);
    match links.leader.receive() {
        Ok(Some(received)) if matches!(received.message, ToCall::Go) => {}
        Ok(_) => return Err("the supervisor is gone".into()),
        Err(error) => return Err(says("wait for the supervisor")(&error)),
    }
    if cage.judged_programs {
        set_dumpable_behavior(DumpableBehavior::Dumpable).map_err(|errno| says("become dumpable")(&errno))?;
    }
    Ok(())
}

/// Executes the order, or what somebody wrote in its place. Returns with the errno of what could not be executed.
fn execute_or_another(order: &CallOrder, links: &Links<'_>) -> Errno {
    let mut errno = execute(&order.command, &order.environment);
    while errno == Errno::ECANCELED && links.supervisor.send(&FromCall::Cancelled, &[]).is_ok() {
        match links.leader.receive().map(|received| received.map(|received| received.message)) {
            Ok(Some(ToCall::Instead(command))) if !command.is_empty() => {
                errno = execute(&command, &order.environment);
            }
            _ => break,
        }
    }
    errno
}

/// By path, in the session's view, with the user's rights: a descriptor of the directory outside would lead out of it.
fn enter_directory(order: &CallOrder) -> Result<(), String> {
    let path = order.cwd.as_path();
    let entered = nix::unistd::chdir(path).map_err(io::Error::from).and_then(|()| identity_of(Path::new(".")));
    match entered {
        Ok(identity) if identity == order.cwd_identity => Ok(()),
        Ok(_) => Err(format!("the current directory {} is another one inside the session", path.display())),
        Err(error) => Err(format!("cannot enter the current directory {}: {error}", path.display())),
    }
}

fn place_terminal(stdio: [OwnedFd; 3], on_terminal: [bool; 3], terminal: Option<&OwnedFd>) -> io::Result<[OwnedFd; 3]> {
    let [stdin, stdout, stderr] = stdio;
    let place = |fd: OwnedFd, is_terminal: bool| match terminal {
        Some(terminal) if is_terminal => terminal.as_fd().try_clone_to_owned(),
        None if is_terminal => Err(io::ErrorKind::NotFound.into()),
        _ => Ok(fd),
    };
    let [first, second, third] = on_terminal;
    Ok([place(stdin, first)?, place(stdout, second)?, place(stderr, third)?])
}

/// Default dispositions but for what the caller ignores, and nothing blocked.
fn restore_signals(ignored: u64) -> nix::Result<()> {
    for number in 1..=64_u32 {
        if number == libc::SIGKILL as u32 || number == libc::SIGSTOP as u32 {
            continue;
        }
        let handler = if ignored >> (number - 1) & 1 == 1 { libc::SIG_IGN } else { libc::SIG_DFL };
        // The kernel's struct sigaction: handler, flags, restorer, mask. Not through the C library, which keeps 32 and 33 for
        // itself and leaves them ignored where it has spawned this process.
        let action = [handler as u64, 0, 0, 0];
        // SAFETY: the structure is as large as the kernel's and outlives the call; neither disposition runs code.
        let set = unsafe {
            libc::syscall(
                libc::SYS_rt_sigaction,
                number,
                action.as_ptr(),
                std::ptr::null_mut::<u64>(),
                size_of::<u64>(),
            )
        };
        if set != 0 {
            return Err(Errno::last());
        }
    }
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None)
}

/// Returns only with the errno of the execve(2) that came closest, as execvp(3) reports it.
fn execute(command: &[Vec<u8>], environment: &[Vec<u8>]) -> Errno {
    let words =
        |words: &[Vec<u8>]| words.iter().map(|word| CString::new(word.as_slice())).collect::<Result<Vec<_>, _>>();
    let path = search_path(environment);
    let (Ok(argv), Ok(environment)) = (words(command), words(environment)) else { return Errno::EINVAL };
    let Some(program) = argv.first() else { return Errno::ENOENT };
    let mut reason = Errno::ENOENT;
    for candidate in candidates(program.to_bytes(), path) {
        let Ok(path) = CString::new(candidate) else { continue };
        match try_execute(&path, &argv, &environment) {
            Errno::ENOENT | Errno::ENOTDIR | Errno::ESTALE | Errno::ENODEV | Errno::ETIMEDOUT => {}
            Errno::EACCES => reason = Errno::EACCES,
            other => return other,
        }
    }
    reason
}

fn try_execute(path: &CStr, argv: &[CString], environment: &[CString]) -> Errno {
    match execve(path, argv, environment) {
        Ok(never) => match never {},
        // A script without an interpreter line is the shell's (execvp(3)).
        Err(Errno::ENOEXEC) => {
            let shell = [c"/bin/sh".to_owned(), path.to_owned()];
            let words: Vec<&CStr> =
                shell.iter().map(CString::as_c_str).chain(argv.iter().skip(1).map(CString::as_c_str)).collect();
            execve(c"/bin/sh", &words, environment).err().unwrap_or(Errno::ENOEXEC)
        }
        Err(errno) => errno,
    }
}

/// The value of `PATH` in an environment; the C library's default without one (confstr(3)).
pub fn search_path(environment: &[Vec<u8>]) -> &[u8] {
    environment.iter().find_map(|entry| entry.strip_prefix(b"PATH=")).unwrap_or(b"/bin:/usr/bin")
}

/// Where execvp(3) looks for `program`, in order.
pub fn candidates(program: &[u8], search_path: &[u8]) -> Vec<Vec<u8>> {
    if program.is_empty() {
        return Vec::new();
    }
    if program.contains(&b'/') {
        return vec![program.to_vec()];
    }
    let join = |directory: &[u8]| {
        // An empty element is the current directory.
        let directory =
            if directory.is_empty() { Path::new(".") } else { Path::new(std::ffi::OsStr::from_bytes(directory)) };
        directory.join(std::ffi::OsStr::from_bytes(program)).as_os_str().as_bytes().to_vec()
    };
    search_path.split(|byte| *byte == b':').map(join).collect()
}
