//! What it costs to execute a program: `true` from one process, and five hundred times from a shell's loop. Every exec is
//! judged by a rule and compared; nothing is asked or recorded. Runs re-executed, as the test user, bare and in a session.

use std::ffi::CString;
use std::time::Instant;

use crate::support::{Sandbox, Side};
use crate::table::{Line, Runs, Target};

const EXECS: usize = 300;
const LOOPS: usize = 5;
const OF_A_LOOP: usize = 500;
const SESSIONS: usize = 3;

/// A rule decides, and denies something else.
const JUDGED: &str = r#"
schema = 1

[profile]
name = "judged"

[defaults]
write = "allow"
exec = "ask"

[[rule]]
id = "tools"
access = ["exec"]
program = ["/usr/**", "/var/tmp/**"]
level = "allow"

[[rule]]
id = "no"
access = ["exec"]
program = ["/usr/bin/git"]
argv = ["git", "push", "**"]
level = "deny"
"#;

pub fn lines() -> Vec<Line> {
    let sandbox = Sandbox::new();
    sandbox.profile(JUDGED);
    let argv = sandbox.inside::<&str>("programs", &[]);
    let (mut bare, mut gated) = (String::new(), String::new());
    for _ in 0..SESSIONS {
        for (side, text) in [(Side::Bare, &mut bare), (Side::Gated, &mut gated)] {
            let outcome = sandbox.on(side, &argv);
            outcome.assert_code(0);
            text.push_str(&outcome.out());
        }
    }
    let line = |name: &str, unit, target| {
        let runs = |text: &str| {
            let figures = text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            Runs::new(figures.map(|figure| figure.parse().expect("a number")).collect())
        };
        Line { name: name.to_owned(), unit, bare: Some(runs(&bare)), gated: runs(&gated), target }
    };
    vec![
        line("exec of true, judged", "µs", Target::MoreThanBare(100.0)),
        line("500 execs in a shell's loop", "ms", Target::None),
    ]
}

/// The part that is timed.
pub fn run() {
    let program = CString::new("/usr/bin/true").expect("no NUL");
    let words = [program.as_ptr(), std::ptr::null()];
    for _ in 0..EXECS {
        let start = Instant::now();
        // SAFETY: the child of vfork(2) only executes or ends; the words live.
        let child = unsafe {
            #[allow(deprecated)]
            let child = libc::vfork();
            if child == 0 {
                libc::execve(program.as_ptr(), words.as_ptr(), words[1..].as_ptr());
                libc::_exit(127);
            }
            child
        };
        let mut status = 0;
        // SAFETY: the kernel writes one int.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0, "true was executed");
        println!("exec of true, judged: {}", start.elapsed().as_secs_f64() * 1e6);
    }
    for _ in 0..LOOPS {
        let script = format!("i=0; while [ $i -lt {OF_A_LOOP} ]; do /usr/bin/true; i=$((i+1)); done");
        let start = Instant::now();
        let status = std::process::Command::new("/bin/sh").args(["-c", &script]).status().expect("a shell");
        assert!(status.success());
        println!("500 execs in a shell's loop: {}", start.elapsed().as_secs_f64() * 1e3);
    }
}
