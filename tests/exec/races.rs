//! Attacks 5 and 6: what is to be executed changes between the verdict and the exec. Path and argv lie in memory that
//! another process rewrites without pause, all the time that the call is held and the kernel reads it.
//!
//! Bare, the part of the supervisor is played by the attacker itself: it looks, finds what is allowed, and executes. That
//! loses, which is what a supervisor would do that only looks and continues.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use crate::call::{End, execve_raw, fork_and, text};
use crate::support::{Sandbox, Side};
use crate::{Inside, Test};

pub const TESTS: &[Test] = &[
    ("a_path_rewritten_while_a_program_is_executed", || race("path", 5)),
    ("a_word_of_argv_rewritten_while_a_program_is_executed", || race("argv", 5)),
    ("a_link_exchanged_while_a_program_is_executed", || race("link", 1)),
    ("an_interpreter_exchanged_while_a_script_is_executed", || race("interpreter", 1)),
];

pub const INSIDE: &[Inside] = &[("race", race_inside)];

/// Attempts of one session.
const TIMES: u32 = 4_000;

/// `a/run EXPECTED` is allowed, `b/run` and other words are not. What ran says so by its exit status. In so many sessions.
fn race(what: &str, sessions: u32) {
    for side in [Side::Bare, Side::Gated] {
        let mut counts = [0; 4];
        for _ in 0..sessions {
            let outcome = one_session(what, side);
            for (count, name) in counts.iter_mut().zip(["good", "evil", "refused", "killed"]) {
                *count += outcome.number(name);
            }
            outcome.assert(outcome.number("odd") == 0, "nothing else came of it");
            // Many that are alike are counted in one record.
            let exchanged = outcome.audit.iter().filter(|line| line["rule"]["id"] == "built-in:exchanged");
            let exchanged: u64 = exchanged.map(|line| line["times"].as_u64().unwrap_or(1)).sum();
            let killed = u64::try_from(outcome.number("killed")).unwrap_or_default();
            outcome.assert(exchanged == killed, "each that was killed is recorded");
        }
        let [good, evil, refused, killed] = counts;
        let counts = format!("{what}, {side:?}: good {good}, evil {evil}, refused {refused}, killed {killed}");
        println!("{counts}");
        assert!(good > 0, "what was allowed ran at times: {counts}");
        match side {
            Side::Bare => assert!(evil > 0, "looking first does not help: the race never hit: {counts}"),
            Side::Gated => {
                assert!(evil == 0, "what was not allowed never ran: {counts}");
                assert!(refused + killed > 0, "the race hit: {counts}");
            }
        }
    }
}

fn one_session(what: &str, side: Side) -> crate::support::Outcome {
    let sandbox = Sandbox::new();
    let place = |name: &str| sandbox.outside().join(name).display().to_string();
    // An interpreter gets its script as a word.
    let good = if what == "interpreter" { "/usr/bin/true" } else { "/usr/bin/test" };
    for (name, program) in [("good", good), ("evil", "/usr/bin/false")] {
        let at = sandbox.outside().join(name);
        fs::copy(program, &at).expect("copy");
        fs::set_permissions(&at, fs::Permissions::from_mode(0o755)).expect("chmod");
    }
    sandbox.profile(&format!(
        "schema = 1\n[profile]\nname = \"raced\"\n[defaults]\nwrite = \"allow\"\nexec = \"allow\"\n\
         [[rule]]\nid = \"evil\"\naccess = [\"exec\"]\nprogram = [\"{}\"]\nlevel = \"deny\"\n\
         [[rule]]\nid = \"evil-word\"\naccess = [\"exec\"]\nprogram = [\"{}\"]\nargv = [\"test\", \"b\", \"**\"]\n\
         level = \"deny\"\n",
        place("evil"),
        place("good"),
    ));
    let outcome = sandbox.on(side, &sandbox.inside("race", &[what, &TIMES.to_string(), &place("")]));
    outcome.assert_code(0);
    outcome
}

/// Bytes that all forks share.
fn shared(bytes: &[u8]) -> &'static [AtomicU8] {
    // SAFETY: a fresh shared mapping, never unmapped, larger than the bytes.
    let all = unsafe {
        let at = libc::mmap(
            std::ptr::null_mut(),
            4096,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        assert_ne!(at, libc::MAP_FAILED);
        std::slice::from_raw_parts(at.cast::<AtomicU8>(), bytes.len() + 1)
    };
    all.iter().zip(bytes).for_each(|(to, from)| to.store(*from, Ordering::Relaxed));
    all
}

fn race_inside(args: &[String]) {
    let [what, times, outside] = args else { panic!("WHAT TIMES DIRECTORY") };
    let is_bare = std::env::var_os("GATED_SESSION").is_none();
    for (directory, program) in [("a", "good"), ("b", "evil")] {
        fs::create_dir_all(directory).expect("mkdir");
        symlink(format!("{outside}/{program}"), format!("{directory}/run")).expect("symlink");
    }
    symlink("a", "now").expect("symlink");
    let interpreter = std::env::current_dir().expect("cwd").join("now/run");
    fs::write("script", format!("#!{}\n", interpreter.display())).expect("write");
    fs::set_permissions("script", fs::Permissions::from_mode(0o755)).expect("chmod");
    let path = shared(match what.as_str() {
        "link" => b"now/run",
        "interpreter" => b"./script",
        _ => b"a/run",
    });
    let word = shared(b"a");
    let fixed = [text("test"), text("="), text("a")];
    let argv = [fixed[0].as_ptr() as u64, word.as_ptr() as u64, fixed[1].as_ptr() as u64, fixed[2].as_ptr() as u64, 0];
    let stop = AtomicBool::new(false);
    let (mut good, mut evil, mut refused, mut killed, mut odd) = (0, 0, 0, 0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let rename = |from: &str| {
                let _ = symlink(from, "next");
                let _ = fs::rename("next", "now");
            };
            while !stop.load(Ordering::Relaxed) {
                for letter in ["b", "a"] {
                    match what.as_str() {
                        "path" => path[0].store(letter.as_bytes()[0], Ordering::Relaxed),
                        "argv" => word[0].store(letter.as_bytes()[0], Ordering::Relaxed),
                        _ => rename(letter),
                    }
                }
            }
        });
        let times: u32 = times.parse().expect("a number");
        for _ in 0..times {
            let end = fork_and(|| {
                let looks_good = || match what.as_str() {
                    "path" => path[0].load(Ordering::Relaxed) == b'a',
                    "argv" => word[0].load(Ordering::Relaxed) == b'a',
                    _ => fs::read_link("now").is_ok_and(|to| to.as_os_str() == "a"),
                };
                if is_bare && !looks_good() {
                    return libc::EACCES;
                }
                execve_raw(path.as_ptr() as u64, argv.as_ptr() as u64, 0)
            });
            match end {
                End::Exited(0) => good += 1,
                End::Exited(1) => evil += 1,
                End::Errno(libc::EACCES) => refused += 1,
                End::Signaled(libc::SIGKILL) => killed += 1,
                other => {
                    eprintln!("odd: {other:?}");
                    odd += 1;
                }
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    println!("good {good}\nevil {evil}\nrefused {refused}\nkilled {killed}\nodd {odd}");
}
