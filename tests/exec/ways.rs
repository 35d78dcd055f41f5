//! Every way to execute something: it runs with the same argv and the same program as bare.

use std::ffi::CString;
use std::fs;
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use crate::call::{End, execve, execve_raw, execveat, fork_and, path, pointers, text, wait_for};
use crate::support::{Sandbox, Side};
use crate::{Inside, Test};

pub const TESTS: &[Test] = &[
    ("every_way_to_execute_works_as_bare", same_ways),
    ("many_threads_and_children_execute_at_once", crowd),
    ("a_signal_at_any_moment_disturbs_no_exec", signals),
];

pub const INSIDE: &[Inside] =
    &[("ways", ways_inside), ("crowd", crowd_inside), ("signals", signals_inside), ("race-to-exec", race_to_exec)];

/// Set: the program says what it is and what it got.
const SHOW: &str = "SHOW_ARGV";

/// For `main`, before it looks at its arguments.
pub fn show_argv() -> bool {
    if std::env::var_os(SHOW).is_none() {
        return false;
    }
    // Not std::env::args: the words as they are.
    let line = fs::read("/proc/self/cmdline").expect("cmdline");
    let root = std::env::var("HOME").unwrap_or_default();
    let root = Path::new(&root).parent().map(|root| root.display().to_string()).unwrap_or_default();
    let line = String::from_utf8_lossy(&line).replace('\0', "|").replace(&root, "ROOT");
    let program = fs::read_link("/proc/self/exe").expect("exe").display().to_string().replace(&root, "ROOT");
    println!("{program} {line}");
    true
}

fn same_ways() {
    let [bare, gated] = [Side::Bare, Side::Gated].map(|side| {
        let sandbox = Sandbox::new();
        sandbox.profile(crate::basics::NOTIFY);
        let outcome = sandbox.on(side, &sandbox.inside("ways", &[sandbox.probe()]));
        outcome.assert_code(0);
        outcome.out()
    });
    assert!(bare.lines().count() > 30, "many ways:\n{bare}");
    assert_eq!(bare, gated);
}

fn ways_inside(args: &[String]) {
    let probe = text(&args[0]);
    let home = std::env::var("HOME").expect("HOME");
    let environment = [text(format!("{SHOW}=1")), text(format!("HOME={home}"))];
    let x = [text("zero"), text("one two"), text("")];
    let run = |name: &str, execute: &dyn Fn() -> i32| {
        println!("{name}:");
        let end = fork_and(execute);
        println!("{end:?}");
    };
    run("by path", &|| execve(&probe, &x, &environment));
    run("without argv", &|| execve_raw(probe.as_ptr() as u64, 0, pointers(&environment).as_ptr() as u64));
    run("with an empty argv", &|| execve(&probe, &[], &environment));
    let many: Vec<CString> = (0..3000).map(|number| text(format!("word-{number}"))).collect();
    run("with many words", &|| execve(&probe, &many, &environment));
    let long = [text("x"), text("y".repeat(100_000)), text("z".repeat(4095)), text("z".repeat(4096))];
    run("with long words", &|| execve(&probe, &long, &environment));
    run("as /proc/self/exe", &|| execve(&text("/proc/self/exe"), &x, &environment));
    let file = fs::File::open(&args[0]).expect("the probe");
    let number = file.as_raw_fd();
    for link in ["/proc/self/fd", "/dev/fd", "/proc/thread-self/fd"] {
        run(link, &|| execve(&text(format!("{link}/{number}")), &x, &environment));
    }
    run("by descriptor", &|| execveat(number, &text(""), &x, &environment, libc::AT_EMPTY_PATH));
    // SAFETY: the path is live; the descriptor is ours.
    let handle = unsafe { fs::File::from_raw_fd(libc::open(probe.as_ptr(), libc::O_PATH | libc::O_CLOEXEC)) };
    run("by an O_PATH handle", &|| execveat(handle.as_raw_fd(), &text(""), &x, &environment, libc::AT_EMPTY_PATH));
    let directory = fs::File::open(Path::new(&args[0]).parent().expect("bin")).expect("bin");
    run("in a directory", &|| execveat(directory.as_raw_fd(), &text("probe"), &x, &environment, 0));
    // SAFETY: the name is live; the descriptor is ours.
    let mut memory = unsafe { fs::File::from_raw_fd(libc::memfd_create(c"made".as_ptr(), libc::MFD_CLOEXEC)) };
    memory.write_all(&fs::read(&args[0]).expect("the probe")).expect("write");
    run("from memory", &|| execveat(memory.as_raw_fd(), &text(""), &x, &environment, libc::AT_EMPTY_PATH));
    run("from memory by its link", &|| {
        execve(&text(format!("/proc/self/fd/{}", memory.as_raw_fd())), &x, &environment)
    });

    symlink(&args[0], "link").expect("symlink");
    run("by a link", &|| execve(&text("./link"), &x, &environment));
    let script = |name: &str, line: &str| {
        fs::write(name, line).expect("write");
        fs::set_permissions(name, fs::Permissions::from_mode(0o755)).expect("chmod");
        text(format!("./{name}"))
    };
    let plain = script("plain", &format!("#!{}\n", args[0]));
    run("a script", &|| execve(&plain, &x, &environment));
    run("a script without argv", &|| execve_raw(plain.as_ptr() as u64, 0, pointers(&environment).as_ptr() as u64));
    let with_argument = script("with-argument", &format!("#! {}  a  b \nrest\n", args[0]));
    run("a script with an argument", &|| execve(&with_argument, &x, &environment));
    let unfinished = script("unfinished", &format!("#!{}", args[0]));
    run("a script of an unfinished line", &|| execve(&unfinished, &x, &environment));
    let nested = script("nested", "#!./with-argument -n\n");
    run("a script of a script", &|| execve(&nested, &x, &environment));
    let nested_more = script("nested-more", "#!./nested\n");
    run("a script of a script of a script", &|| execve(&nested_more, &x, &environment));
    let by_link = script("by-link", "#!./link -l\n");
    run("a script of a link", &|| execve(&by_link, &x, &environment));
    symlink("plain", "link-to-script").expect("symlink");
    run("a script by a link", &|| execve(&text("./link-to-script"), &x, &environment));
    let here = fs::File::open(".").expect("cwd");
    // SAFETY: clears a flag of our own descriptor.
    unsafe { libc::fcntl(here.as_raw_fd(), libc::F_SETFD, 0) };
    run("a script in a directory", &|| execveat(here.as_raw_fd(), &text("plain"), &x, &environment, 0));
    let open = fs::File::open("plain").expect("the script");
    // SAFETY: as above.
    unsafe { libc::fcntl(open.as_raw_fd(), libc::F_SETFD, 0) };
    run("a script by descriptor", &|| execveat(open.as_raw_fd(), &text(""), &x, &environment, libc::AT_EMPTY_PATH));
    run("a script by the link of its descriptor", &|| {
        execve(&text(format!("/proc/self/fd/{}", open.as_raw_fd())), &x, &environment)
    });
    println!("in a thread:");
    println!("{:?}", fork_and(|| in_thread(&probe, &x, &environment)));
    println!("by vfork:");
    println!("{:?}", by_vfork(&probe, &x, &environment));
    println!("by posix_spawn:");
    println!("{:?}", by_spawn(&probe, &x, &environment));
}

/// The first thread waits while another one executes.
fn in_thread(program: &CString, argv: &[CString], environment: &[CString]) -> i32 {
    std::thread::scope(|scope| {
        let others: Vec<_> = (0..3).map(|_| scope.spawn(std::thread::park)).collect();
        let executing = scope.spawn(|| execve(program, argv, environment));
        let errno = executing.join().expect("no panic");
        others.iter().for_each(|other| other.thread().unpark());
        errno
    })
}

fn by_vfork(program: &CString, argv: &[CString], environment: &[CString]) -> End {
    let (argv, environment) = (pointers(argv), pointers(environment));
    // SAFETY: CLONE_VM | CLONE_VFORK by the raw call: the child only executes or ends.
    let child = unsafe {
        #[allow(deprecated)]
        let child = libc::vfork();
        if child == 0 {
            libc::execve(program.as_ptr(), argv.as_ptr(), environment.as_ptr());
            libc::_exit(127);
        }
        child
    };
    wait_for(child)
}

fn by_spawn(program: &CString, argv: &[CString], environment: &[CString]) -> End {
    let (argv, environment) = (pointers(argv), pointers(environment));
    let mut child = 0;
    // SAFETY: everything that is read lives; the pid is written to a live variable.
    let spawned = unsafe {
        libc::posix_spawn(
            &raw mut child,
            program.as_ptr(),
            std::ptr::null(),
            std::ptr::null(),
            argv.as_ptr().cast(),
            environment.as_ptr().cast(),
        )
    };
    assert_eq!(spawned, 0, "posix_spawn");
    wait_for(child)
}

fn crowd() {
    let sandbox = Sandbox::new();
    sandbox.profile(crate::basics::NOTIFY_NOTHING);
    for side in [Side::Bare, Side::Gated] {
        let outcome = sandbox.on(side, &sandbox.inside("crowd", &[sandbox.probe()]));
        outcome.assert_code(0);
        outcome.assert(outcome.out() == "all ran\n", "all of it ran");
    }
}

/// Processes whose threads all want to execute: one of each wins, and the others end with it.
fn crowd_inside(args: &[String]) {
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..20 {
                    let status = std::process::Command::new(&args[0]).args(["--inside", "race-to-exec"]).status();
                    assert!(status.expect("the probe").success());
                }
            });
        }
    });
    println!("all ran");
}

fn race_to_exec(_: &[String]) {
    let start = std::sync::Barrier::new(4);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                start.wait();
                execve(&text("/bin/true"), &[text("true")], &[])
            });
        }
        start.wait();
        execve(&text("/bin/true"), &[text("true")], &[]);
    });
    // Nobody came through.
    std::process::exit(1);
}

fn signals() {
    for side in [Side::Bare, Side::Gated] {
        let sandbox = Sandbox::new();
        sandbox.profile(crate::basics::NOTIFY_NOTHING);
        let outcome = sandbox.on(side, &sandbox.inside("signals", &[] as &[&str]));
        outcome.assert_code(0);
        outcome.assert(outcome.out() == "300 ran\n", "all of them ran, stopped, continued and signalled as they were");
    }
}

/// Children that execute while they are stopped, continued and sent signals that they ignore.
fn signals_inside(_: &[String]) {
    // Ignored by what is executed too, so that no signal ends it.
    // SAFETY: SIG_IGN runs no code.
    unsafe { libc::signal(libc::SIGUSR2, libc::SIG_IGN) };
    let mut ran = 0;
    for round in 0..300 {
        // SAFETY: the child only executes.
        let child = unsafe {
            let child = libc::fork();
            if child == 0 {
                execve(&path(Path::new("/bin/true")), &[text("true")], &[]);
                libc::_exit(127);
            }
            child
        };
        for signal in [libc::SIGSTOP, libc::SIGUSR2, libc::SIGCONT, libc::SIGWINCH, libc::SIGSTOP, libc::SIGCONT] {
            for _ in 0..round % 7 {
                std::thread::yield_now();
            }
            // SAFETY: our own child, which is not reaped yet.
            unsafe { libc::kill(child, signal) };
        }
        ran += i32::from(wait_for(child) == End::Exited(0));
    }
    println!("{ran} ran");
}
