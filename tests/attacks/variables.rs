//! Attack 41: a yes for a command, used for the same words with an environment that makes them do something else.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use crate::engine::{self, attack};
use crate::raw;
use crate::support::{Sandbox, Side};
use crate::{Inside, Test};

pub const TESTS: &[Test] = &[
    ("a_yes_is_for_the_variables_that_it_was_given_with", bound),
    ("a_yes_for_a_command_is_for_the_directory_that_was_shown", elsewhere),
    ("a_variable_rewritten_by_a_thread_while_a_program_is_executed", raced),
];

pub const INSIDE: &[Inside] = &[("flip-variable", flip_inside), ("told", told_inside)];

/// What stands before `git push`, and whether it is another command by it. The first one is answered with a yes for
/// `git push …`, and nothing after.
const PUSHES: &[(&str, &str, bool)] = &[
    ("first", "", false),
    ("again", "", false),
    ("harmless", "GIT_AUTHOR_NAME=x X=1", false),
    ("ssh-command", "GIT_SSH_COMMAND=./evil", true),
    ("executables", "GIT_EXEC_PATH=\"$(git --exec-path)\"", true),
    ("configuration", "GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=core.sshCommand GIT_CONFIG_VALUE_0=./evil", true),
    ("parameters", "GIT_CONFIG_PARAMETERS=\"'core.sshcommand'='./evil'\"", true),
    ("global-configuration", "GIT_CONFIG_GLOBAL=./evil", true),
    ("preload", "LD_PRELOAD=./evil.so", true),
    ("preload-by-env", "env LD_PRELOAD=./evil.so", true),
    ("audit", "LD_AUDIT=./evil.so", true),
    ("library-path", "LD_LIBRARY_PATH=.", true),
    ("tunables", "GLIBC_TUNABLES=glibc.malloc.check=1", true),
    ("shell", "BASH_ENV=./evil", true),
    ("node", "NODE_OPTIONS=--require=./evil.js", true),
    ("a-function", "f() { :; }; export -f f;", true),
    ("another-home", "HOME=$PWD/evil", true),
    ("another-configuration", "XDG_CONFIG_HOME=$PWD/evil", true),
    ("last", "", false),
];

const PUSH_IS_ASKED: &str = "schema = 1\n[profile]\nname = \"pushes\"\n[defaults]\nwrite = \"allow\"\n\
    [[rule]]\nid = \"push\"\naccess = [\"exec\"]\nprogram = [\"@path/git\"]\n\
    argv = [\"git\", \"push\", \"**\"]\nlevel = \"ask\"\n";

fn bound() {
    for side in engine::sides() {
        let mut sandbox = Sandbox::new();
        sandbox.profile(PUSH_IS_ASKED);
        sandbox.answers("[[answer]]\naccess = \"exec\"\nanswer = \"session\"\nscope = \"prefix\"\ntimes = 1\n");
        let mut script = String::from(
            "git init -q -b main repo && cd repo || exit 9\n\
             git -c user.name=t -c user.email=t@example.org commit -q --allow-empty -m first || exit 9\n",
        );
        for (name, before, _) in PUSHES {
            script += &format!("git init -q --bare ../{name}; ({before} git push -q ../{name} HEAD:refs/heads/hit)\n");
        }
        script += "exit 0\n";
        let outcome = sandbox.on(side.to_owned(), &["/bin/bash", "-c", &script]);
        outcome.assert_code(0);
        for (name, before, is_another) in PUSHES {
            let pushed = sandbox.workspace().join(name).join("refs/heads/hit").exists();
            let expected = *side == Side::Bare || !is_another;
            outcome.assert(pushed == expected, &format!("{side:?}, {name}: `{before}`: pushed {pushed}"));
        }
    }
}

/// What was shown was `git push` here, which is another one there.
fn elsewhere() {
    for side in engine::sides() {
        let mut sandbox = Sandbox::new();
        sandbox.profile(PUSH_IS_ASKED);
        sandbox.answers("[[answer]]\naccess = \"exec\"\nanswer = \"session\"\nscope = \"exact\"\ntimes = 1\n");
        let script = "for name in one two; do\n\
            git init -q -b main $name && cd $name && git init -q --bare remote || exit 9\n\
            git -c user.name=t -c user.email=t@example.org commit -q --allow-empty -m first || exit 9\n\
            cd ..\ndone\n\
            for name in one one two; do (cd $name; git push remote HEAD:refs/heads/hit); echo $name $?; done";
        let outcome = sandbox.on(*side, &["/bin/bash", "-c", script]);
        outcome.assert_code(0);
        let pushed = |name: &str| sandbox.workspace().join(name).join("remote/refs/heads/hit").exists();
        outcome.assert(outcome.values("one") == ["0", "0"] && pushed("one"), "one yes is for each time here");
        outcome.assert(pushed("two") == (*side == Side::Bare), "whether it is one for another repository");
    }
}

/// One answer, for the command without the variable; then the same command while a thread turns a name that means nothing
/// into one that carries code, in memory that both processes share.
fn raced() {
    for side in engine::sides() {
        let mut sandbox = Sandbox::new();
        sandbox.profile(
            "schema = 1\n[profile]\nname = \"told\"\n[defaults]\nwrite = \"allow\"\n[[rule]]\nid = \"told\"\n\
             access = [\"exec\"]\nprogram = [\"**/probe\"]\nargv = [\"probe\", \"--inside\", \"told\"]\nlevel = \"ask\"\n",
        );
        sandbox.answers("[[answer]]\naccess = \"exec\"\nanswer = \"session\"\nscope = \"exact\"\ntimes = 1\n");
        let outcome = attack(&sandbox, *side, "flip-variable", &[]);
        let ran = |name: &str| fs::metadata(sandbox.workspace().join(name)).map_or(0, |file| file.len());
        outcome.assert(ran("without") > 0, "it ran without the variable");
        outcome.assert((ran("with") > 0) == (*side == Side::Bare), "whether it ran with the variable");
        if *side == Side::Gated {
            outcome.assert(outcome.number("stopped") > 0, "no exec was refused or killed: the race never hit");
        }
    }
}

const HARMLESS: &[u8] = b"XD_DEBUG=none\0";

fn flip_inside(_: &[String]) {
    let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
    // SAFETY: a fresh page of bytes, which are zero; all of it is written through atomics.
    let page: &[AtomicU8] = unsafe {
        let at = libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
        assert!(at != libc::MAP_FAILED);
        std::slice::from_raw_parts(at.cast(), 4096)
    };
    for (to, from) in page.iter().zip(HARMLESS) {
        to.store(*from, Ordering::Relaxed);
    }
    let probe = raw::text(std::env::current_exe().expect("our own path").into_os_string().into_encoded_bytes());
    let (inside, told) = (raw::text("--inside"), raw::text("told"));
    let argv = [probe.at(), inside.at(), told.at(), 0];
    let environment = [page.as_ptr() as u64, 0];
    let run = || {
        let child = raw::fork(|| {
            let _ = raw::sys(libc::SYS_execve, [probe.at(), argv.as_ptr() as u64, environment.as_ptr() as u64]);
            1
        });
        i64::from(raw::wait_for(child) != 0)
    };
    // The one that is answered.
    let mut stopped = run();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                for letter in *b"LX" {
                    page[0].store(letter, Ordering::Relaxed);
                    std::hint::spin_loop();
                }
            }
        });
        for _ in 0..400 {
            stopped += run();
        }
        stop.store(true, Ordering::Relaxed);
    });
    raw::say("stopped", stopped);
}

/// A byte for each run, in a file by what was found.
fn told_inside(_: &[String]) {
    let name = if std::env::var_os("LD_DEBUG").is_some() { "with" } else { "without" };
    let flags = libc::O_CREAT | libc::O_APPEND;
    raw::overwrite(name, flags).expect("a file in the workspace");
}
