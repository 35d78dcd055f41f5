//! The filter in the kernel. Each attempt is made in a process of its own, bare and under the filter; the process is this
//! program again, with the attempt's name in its arguments, and exits with what the call came to. The classes of
//! `support/interfaces.rs` are tried in the same way, as root in namespaces of its own.

#[path = "../support/interfaces.rs"]
mod interfaces;

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use gated::tool::filter::compile;
use gated::tool::syscalls::{Arch, Features};
use interfaces::Interface;
use libc::{c_int, c_long};
use libtest_mimic::{Arguments, Failed, Trial};

/// The first argument of a process that makes an attempt.
const CHILD: &str = "--attempt";
/// Above every errno that is expected: the call succeeded.
const DONE: u8 = 255;

/// A call that a filtered process makes, and the errno of it bare and inside.
struct Attempt {
    name: &'static str,
    make: fn() -> io::Result<c_long>,
    /// What it may come to without a filter: it must not be what it comes to inside, or the attempt shows nothing.
    bare: &'static [u8],
    inside: u8,
}

const GARBAGE: u64 = 0xdead_beef_0000_0000;

fn call(number: c_long, arguments: [u64; 4]) -> io::Result<c_long> {
    let [a, b, c, d] = arguments;
    // SAFETY: every caller passes integers, null pointers or pointers to live data of the size that the call takes.
    match unsafe { libc::syscall(number, a, b, c, d, 0, 0) } {
        -1 => Err(io::Error::last_os_error()),
        value => Ok(value),
    }
}

fn flags(flags: c_int) -> u64 {
    u64::from(flags as u32)
}

const ATTEMPTS: &[Attempt] = &[
    Attempt {
        name: "a_file_can_be_opened_for_reading_with_garbage_above_the_flags",
        make: || {
            call(libc::SYS_openat, [flags(libc::AT_FDCWD), c"/".as_ptr() as u64, flags(libc::O_RDONLY) | GARBAGE, 0])
        },
        bare: &[DONE],
        inside: DONE,
    },
    Attempt {
        name: "io_uring_does_not_exist",
        make: || call(libc::SYS_io_uring_setup, [1, 0, 0, 0]),
        bare: &[libc::EFAULT as u8, libc::EPERM as u8],
        inside: libc::ENOSYS as u8,
    },
    Attempt {
        name: "clone3_does_not_exist",
        make: || call(libc::SYS_clone3, [0, 0, 0, 0]),
        bare: &[libc::EINVAL as u8],
        inside: libc::ENOSYS as u8,
    },
    Attempt {
        name: "a_user_namespace_is_refused",
        make: || call(libc::SYS_unshare, [flags(libc::CLONE_NEWUSER) | GARBAGE, 0, 0, 0]),
        bare: &[libc::EINVAL as u8],
        inside: libc::EPERM as u8,
    },
    Attempt {
        name: "input_for_the_terminal_is_refused",
        make: || call(libc::SYS_ioctl, [u64::MAX, libc::TIOCSTI | GARBAGE, 0, 0]),
        bare: &[libc::EBADF as u8],
        inside: libc::EPERM as u8,
    },
    Attempt {
        name: "an_unknown_file_ioctl_is_refused",
        make: || call(libc::SYS_ioctl, [u64::MAX, 0x800c_6613, 0, 0]),
        bare: &[libc::EBADF as u8],
        inside: libc::ENOTTY as u8,
    },
    Attempt {
        name: "mptcp_is_refused",
        make: || call(libc::SYS_socket, [flags(libc::AF_INET), flags(libc::SOCK_STREAM), 262, 0]),
        bare: &[DONE, libc::ENOPROTOOPT as u8],
        inside: libc::EPROTONOSUPPORT as u8,
    },
    Attempt {
        name: "fast_open_is_refused",
        make: || call(libc::SYS_sendto, [u64::MAX, 0, 0, flags(libc::MSG_FASTOPEN) | GARBAGE]),
        bare: &[libc::EBADF as u8],
        inside: libc::EOPNOTSUPP as u8,
    },
    Attempt {
        name: "landlock_says_that_it_is_disabled",
        make: || call(libc::SYS_landlock_create_ruleset, [0, 0, 0, 0]),
        bare: &[libc::EINVAL as u8, libc::EFAULT as u8],
        inside: libc::EOPNOTSUPP as u8,
    },
    Attempt {
        name: "a_number_above_the_newest_does_not_exist",
        make: || call(600, [0; 4]),
        bare: &[libc::ENOSYS as u8],
        inside: libc::ENOSYS as u8,
    },
    #[cfg(target_arch = "x86_64")]
    Attempt {
        name: "x32_does_not_exist",
        make: || call(libc::SYS_getpid | 0x4000_0000, [0; 4]),
        bare: &[DONE, libc::ENOSYS as u8],
        inside: libc::ENOSYS as u8,
    },
    Attempt {
        name: "a_second_listener_is_refused",
        make: || install_for_this_process().map(|listener| c_long::from(listener.as_raw_fd())),
        bare: &[DONE],
        inside: libc::EBUSY as u8,
    },
    Attempt {
        name: "a_process_stays_visible_to_the_supervisor",
        make: || {
            call(libc::SYS_prctl, [libc::PR_SET_DUMPABLE as u64, 0, 0, 0])?;
            match call(libc::SYS_prctl, [libc::PR_GET_DUMPABLE as u64, 0, 0, 0])? {
                0 => Err(io::Error::from_raw_os_error(libc::ESRCH)),
                dumpable => Ok(dumpable),
            }
        },
        bare: &[libc::ESRCH as u8],
        inside: DONE,
    },
];

fn install_for_this_process() -> io::Result<OwnedFd> {
    let filter = compile(Arch::NATIVE, Features::default()).map_err(io::Error::other)?;
    call(libc::SYS_prctl, [libc::PR_SET_NO_NEW_PRIVS as u64, 1, 0, 0])?;
    filter.install()
}

/// In the process of an attempt: makes it and exits with its errno, or [`DONE`].
fn child(name: &str, filtered: bool) -> ExitCode {
    let Some(attempt) = ATTEMPTS.iter().find(|attempt| attempt.name == name) else {
        return special_child(name, filtered);
    };
    let listener = filtered.then(install_for_this_process).transpose().expect("the filter can be installed");
    let result = (attempt.make)();
    drop(listener);
    ExitCode::from(result.map_or_else(|error| error.raw_os_error().unwrap_or(0) as u8, |_| DONE))
}

/// How the process of an attempt ended.
fn attempt(name: &str, filtered: bool) -> Result<std::process::ExitStatus, Failed> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(CHILD).arg(name);
    if filtered {
        command.arg("filtered");
    }
    Ok(command.status()?)
}

fn compare(attempted: &Attempt) -> Result<(), Failed> {
    let bare = attempt(attempted.name, false)?;
    if !attempted.bare.iter().any(|code| bare.code() == Some(i32::from(*code))) {
        return Err(format!("bare: {bare}, expected one of {:?}", attempted.bare).into());
    }
    let inside = attempt(attempted.name, true)?;
    if inside.code() != Some(i32::from(attempted.inside)) {
        return Err(format!("inside: {inside}, expected {}", attempted.inside).into());
    }
    Ok(())
}

const INT80: &str = "int80";

/// Attempts that do not end in an errno.
fn special_child(name: &str, filtered: bool) -> ExitCode {
    assert_eq!(name, INT80, "an unknown attempt");
    let listener = filtered.then(install_for_this_process).transpose().expect("the filter can be installed");
    #[cfg(target_arch = "x86_64")]
    {
        let mut result: i64 = 20;
        // SAFETY: getpid of i386 (20) takes no arguments; the kernel clobbers r8 to r11 at most.
        unsafe {
            std::arch::asm!("int 0x80", inout("rax") result, out("r8") _, out("r9") _, out("r10") _, out("r11") _);
        }
        drop(listener);
        ExitCode::from(if result == i64::from(std::process::id()) { DONE } else { 0 })
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        drop(listener);
        ExitCode::from(0)
    }
}

/// ATTACKS: the 32-bit entry of a 64-bit process has other numbers for everything.
fn the_32_bit_entry_ends_the_process() -> Result<(), Failed> {
    let bare = attempt(INT80, false)?;
    // A kernel without 32-bit emulation ends it with SIGSEGV.
    if bare.code() != Some(i32::from(DONE)) && bare.signal() != Some(libc::SIGSEGV) {
        return Err(format!("bare: {bare}").into());
    }
    let inside = attempt(INT80, true)?;
    if inside.signal() != Some(libc::SIGSYS) && bare.signal().is_none() {
        return Err(format!("inside: {inside}, expected SIGSYS").into());
    }
    Ok(())
}

/// The first argument of a process that tries a class.
const CLASS: &str = "--class";
const ODD: &str = "odd families";

/// In a process of its own: each attempt of a class in a child, a line for each. Bare in namespaces of its own, so that
/// what works changes nothing of the machine.
fn try_class(class: &str, filtered: bool) -> ExitCode {
    let own = libc::CLONE_NEWNS | libc::CLONE_NEWUTS | libc::CLONE_NEWIPC | libc::CLONE_NEWNET;
    // SAFETY: unshare(2) with flags; mount(2) with texts and null where it takes null.
    let apart = unsafe {
        let private = libc::MS_REC | libc::MS_PRIVATE;
        libc::unshare(own) == 0
            && libc::mount(c"none".as_ptr(), c"/".as_ptr(), std::ptr::null(), private, std::ptr::null()) == 0
    };
    assert!(apart, "these tests need root: {}", io::Error::last_os_error());
    interfaces::prepare();
    let listener = filtered.then(install_for_this_process).transpose().expect("the filter can be installed");
    for garbage in if filtered { vec![0, GARBAGE] } else { vec![0] } {
        if class == ODD {
            for through in interfaces::odd_families_that_are_not_refused(garbage) {
                println!("{through}");
            }
        }
        for interface in interfaces::all().filter(|interface| interface.class() == class) {
            println!("{}\t{}", interface.name, interfaces::in_a_child(|| (interface.make)(garbage)));
        }
    }
    drop(listener);
    ExitCode::SUCCESS
}

fn lines_of(class: &str, filtered: bool) -> Result<Vec<String>, Failed> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(CLASS).arg(class).args(filtered.then_some("filtered")).stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = command.output()?;
    if !output.status.success() {
        return Err(format!("{class}: {}", output.status).into());
    }
    Ok(String::from_utf8(output.stdout)?.lines().map(str::to_owned).collect())
}

/// ATTACKS 11 to 14, 16, 20: bare it works, under the filter it has the documented errno, also with garbage in the upper
/// halves of registers.
fn compare_class(class: &str) -> Result<(), Failed> {
    let came = |filtered| -> Result<Vec<(String, i32)>, Failed> {
        let lines = lines_of(class, filtered)?;
        let parts = lines.iter().filter_map(|line| line.split_once('\t'));
        Ok(parts.map(|(name, code)| (name.to_owned(), code.parse().unwrap_or(-1))).collect())
    };
    let (bare, inside) = (came(false)?, came(true)?);
    let mut wrong = String::new();
    for interface in interfaces::all().filter(|interface| interface.class() == class) {
        let of = |lines: &[(String, i32)]| -> Vec<i32> {
            lines.iter().filter(|(name, _)| name == interface.name).map(|(_, code)| *code).collect()
        };
        let (bare, inside) = (of(&bare), of(&inside));
        match bare.first().and_then(|code| interface.works(*code)) {
            Some(true) => {}
            Some(false) => println!("NOT ON THIS MACHINE, so not shown to work bare: {}", interface.name),
            None => wrong += &format!("{}: bare it came to {bare:?}, not {:?}\n", interface.name, interface.bare),
        }
        if inside != [interface.inside; 2] {
            wrong += &format!("{}: inside it came to {inside:?}, not {}\n", interface.name, interface.inside);
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.into()) }
}

/// Every family but the four of the table, with every type.
fn odd_families_are_refused() -> Result<(), Failed> {
    if lines_of(ODD, false)?.is_empty() {
        return Err("bare, root gets not one socket of an odd family".into());
    }
    match lines_of(ODD, true)? {
        through if through.is_empty() => Ok(()),
        through => Err(through.join("\n").into()),
    }
}

static SIGNALLED: AtomicBool = AtomicBool::new(false);

extern "C" fn note_signal(_: c_int) {
    SIGNALLED.store(true, Ordering::SeqCst);
}

/// Polls until `ready`; the state of another thread can only be looked at.
fn wait_until(what: &str, mut ready: impl FnMut() -> bool) -> Result<(), Failed> {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !ready() {
        if Instant::now() > deadline {
            return Err(format!("never: {what}").into());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// What the installation's flags promise, tried: mkdir(2) reaches the listener, and a signal with a handler that does not
/// restart calls does not interrupt it once it was received.
fn a_received_call_outlasts_a_signal() -> Result<(), Failed> {
    // SAFETY: an all-zero sigaction is a valid one without flags and with an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = note_signal as extern "C" fn(c_int) as usize;
    // SAFETY: `action` is initialised, and its handler only stores to an atomic.
    if unsafe { libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut()) } != 0 {
        return Err(io::Error::last_os_error().into());
    }

    let (send, receive) = mpsc::channel();
    let tool = std::thread::spawn(move || {
        let listener = install_for_this_process();
        // SAFETY: takes nothing.
        send.send((unsafe { libc::gettid() }, listener)).ok();
        call(libc::SYS_mkdirat, [flags(libc::AT_FDCWD), c"/gated-never-made".as_ptr() as u64, 0o700, 0])
    });
    let (tid, listener) = receive.recv()?;
    let listener = listener?;

    // SAFETY: all-zero is valid, and what SECCOMP_IOCTL_NOTIF_RECV asks for.
    let mut request: libc::seccomp_notif = unsafe { std::mem::zeroed() };
    // SECCOMP_IOCTL_NOTIF_RECV, seccomp_unotify(2).
    // SAFETY: the kernel writes one `seccomp_notif`.
    if unsafe { libc::ioctl(listener.as_raw_fd(), 0xc050_2100, &raw mut request) } != 0 {
        return Err(io::Error::last_os_error().into());
    }
    if i64::from(request.data.nr) != libc::SYS_mkdirat {
        return Err(format!("call {} was received", request.data.nr).into());
    }

    let status = |field: &str| {
        let text = std::fs::read_to_string(format!("/proc/self/task/{tid}/status")).unwrap_or_default();
        text.lines().find_map(|line| line.strip_prefix(field)).unwrap_or_default().trim().to_owned()
    };
    call(libc::SYS_tgkill, [u64::from(std::process::id()), tid as u64, libc::SIGUSR1 as u64, 0])?;
    // The signal wakes it once, to find that it was received and may only be killed.
    wait_until("the thread waits for an answer or death only", || status("State:").starts_with('D'))?;
    if status("SigPnd:") != format!("{:016x}", 1u64 << (libc::SIGUSR1 - 1)) {
        return Err("the signal is not pending".into());
    }

    let answer = libc::seccomp_notif_resp { id: request.id, val: 0, error: -libc::EXDEV, flags: 0 };
    // SECCOMP_IOCTL_NOTIF_SEND.
    // SAFETY: the kernel reads one `seccomp_notif_resp`.
    if unsafe { libc::ioctl(listener.as_raw_fd(), 0xc018_2101, &raw const answer) } != 0 {
        return Err(io::Error::last_os_error().into());
    }
    let result = tool.join().map_err(|_| "the thread panicked")?;
    if result.as_ref().map_err(io::Error::raw_os_error).err() != Some(Some(libc::EXDEV)) {
        return Err(format!("mkdirat came to {result:?}, answered EXDEV").into());
    }
    if !SIGNALLED.load(Ordering::SeqCst) {
        return Err("the handler never ran".into());
    }
    Ok(())
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().collect();
    if let [_, first, name, rest @ ..] = words.as_slice()
        && first == CHILD
    {
        return child(name, !rest.is_empty());
    }
    if let [_, first, class, rest @ ..] = words.as_slice()
        && first == CLASS
    {
        return try_class(class, !rest.is_empty());
    }
    let mut trials: Vec<Trial> =
        ATTEMPTS.iter().map(|attempt| Trial::test(attempt.name, move || compare(attempt))).collect();
    if cfg!(target_arch = "x86_64") {
        trials.push(Trial::test("the_32_bit_entry_ends_the_process", the_32_bit_entry_ends_the_process));
    }
    trials.push(Trial::test("a_received_call_outlasts_a_signal", a_received_call_outlasts_a_signal));
    let classes: BTreeSet<&str> = interfaces::all().map(Interface::class).collect();
    trials.extend(
        classes
            .into_iter()
            .map(|class| Trial::test(format!("class::{}", class.replace(' ', "_")), move || compare_class(class))),
    );
    trials.push(Trial::test("class::odd_families", odd_families_are_refused));
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
