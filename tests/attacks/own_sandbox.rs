//! A tool's own sandbox (PITFALLS 1.6): whatever filter a tool puts before ours, it makes nothing possible that is not so
//! without it, and what it forbids stays forbidden. A Landlock domain, which would not bind what is performed for the tool,
//! is refused so that nobody relies on it.

use crate::engine::{self, attack};
use crate::raw::{self, Raw, outside, sys};
use crate::support::Side;
use crate::{Inside, Test};

pub const TESTS: &[Test] = &[
    ("no_filter_of_a_tools_own_gets_past_ours", filters),
    ("strict_mode_holds_or_is_refused", strict),
    ("a_landlock_domain_is_made_or_refused_and_never_passed_over", landlock),
];

pub const INSIDE: &[Inside] =
    &[("own-filter", own_filter_inside), ("own-strict", own_strict_inside), ("own-landlock", own_landlock_inside)];

/// By name; the value of a `SECCOMP_RET_*`, seccomp(2).
const RETURNS: &[(&str, u32)] = &[
    ("kill-process", libc::SECCOMP_RET_KILL_PROCESS),
    ("kill-thread", libc::SECCOMP_RET_KILL_THREAD),
    ("trap", libc::SECCOMP_RET_TRAP),
    ("errno", libc::SECCOMP_RET_ERRNO | libc::EXDEV as u32),
    // As `WithoutEffect` would be: the call is not made, and seems to have succeeded.
    ("errno-0", libc::SECCOMP_RET_ERRNO),
    // Without a listener.
    ("notify", libc::SECCOMP_RET_USER_NOTIF),
    // Without a tracer. Ranks below a notification: for a call that is held it counts for nothing, which no program relies
    // on without a tracer; and to trace is refused.
    ("trace", libc::SECCOMP_RET_TRACE),
    ("log", libc::SECCOMP_RET_LOG),
    ("allow", libc::SECCOMP_RET_ALLOW),
];

/// Each in a child of its own, on a directory that no answer allows and on one in the workspace.
fn filters() {
    for side in engine::sides() {
        for (name, _) in RETURNS {
            let sandbox = engine::with_victims();
            let outcome = attack(&sandbox, *side, "own-filter", &[name]);
            let beyond = sandbox.outside().join("made").exists();
            let within = sandbox.workspace().join("made").exists();
            let lets = ["log", "allow"].contains(name) || (*name == "trace" && *side == Side::Gated);
            outcome.assert(within == lets, &format!("{name}: the directory in the workspace"));
            outcome.assert(beyond == (lets && *side == Side::Bare), &format!("{name}: the directory outside"));
            let expected = match *name {
                "kill-process" | "kill-thread" | "trap" => format!("signal {}", libc::SIGSYS),
                "errno" => "EXDEV".into(),
                "errno-0" => "ok".into(),
                "notify" => "ENOSYS".into(),
                "trace" if *side == Side::Bare => "ENOSYS".into(),
                _ if *side == Side::Bare => "ok".into(),
                _ => "EACCES".into(),
            };
            outcome.assert(outcome.values("beyond") == [expected.clone()], &format!("{name}: not {expected}"));
        }
    }
}

fn own_filter_inside(args: &[String]) {
    let [name] = args else { panic!("NAME") };
    let (_, returns) = RETURNS.iter().find(|(known, _)| known == name).expect("a known one");
    for (key, path) in [("beyond", outside("made")), ("within", "made".to_owned())] {
        let child = raw::fork(|| {
            if let Err(errno) = install(libc::SYS_mkdir, *returns) {
                return 200 + errno;
            }
            raw::mkdir(&path).err().unwrap_or(0)
        });
        let status = raw::wait_for(child);
        let came = match (libc::WIFEXITED(status), libc::WEXITSTATUS(status)) {
            (false, _) => format!("signal {}", libc::WTERMSIG(status)),
            (true, 0) => "ok".into(),
            (true, errno) => format!("{:?}", nix::errno::Errno::from_raw(errno)),
        };
        raw::say(key, came);
    }
}

/// A filter that answers one call in this way and allows all others.
fn install(number: i64, returns: u32) -> Raw {
    let filter = [
        libc::sock_filter { code: 0x20, jt: 0, jf: 0, k: 0 },
        libc::sock_filter { code: 0x15, jt: 0, jf: 1, k: number as u32 },
        libc::sock_filter { code: 6, jt: 0, jf: 0, k: returns },
        libc::sock_filter { code: 6, jt: 0, jf: 0, k: libc::SECCOMP_RET_ALLOW },
    ];
    let program = libc::sock_fprog { len: 4, filter: filter.as_ptr().cast_mut() };
    sys(libc::SYS_prctl, [libc::PR_SET_NO_NEW_PRIVS as u64, 1, 0, 0, 0])?;
    sys(libc::SYS_seccomp, [u64::from(libc::SECCOMP_SET_MODE_FILTER), 0, (&raw const program) as u64])
}

/// Strict mode: read, write, exit. The kernel gives it to nobody who has a filter, and says so.
fn strict() {
    for side in engine::sides() {
        let sandbox = engine::with_victims();
        let outcome = attack(&sandbox, *side, "own-strict", &[]);
        let (mode, ended) = if *side == Side::Bare { ("none", libc::SIGKILL) } else { ("EINVAL", 0) };
        outcome.assert(outcome.values("ended") == [ended.to_string()], "whether the next call ends it");
        outcome.assert(outcome.values("mode").first().map_or("none", String::as_str) == mode, "what it is told");
        outcome.assert(!sandbox.workspace().join("made").exists(), "nothing was made");
    }
}

fn own_strict_inside(_: &[String]) {
    let child = raw::fork(|| {
        let strict = [libc::PR_SET_SECCOMP as u64, u64::from(libc::SECCOMP_MODE_STRICT), 0, 0, 0];
        if let Err(errno) = sys(libc::SYS_prctl, strict) {
            raw::say_result("mode", Err(errno));
            return 0;
        }
        i32::from(raw::mkdir("made").is_err())
    });
    let status = raw::wait_for(child);
    raw::say("ended", if libc::WIFSIGNALED(status) { libc::WTERMSIG(status) } else { 0 });
}

fn landlock() {
    for side in engine::sides() {
        let sandbox = engine::with_victims();
        let outcome = attack(&sandbox, *side, "own-landlock", &[]);
        let made = sandbox.workspace().join("made").exists();
        match side {
            Side::Bare => {
                outcome.assert(outcome.values("restrict") == ["ok 0"] && !made, "the domain holds bare");
                outcome.assert(outcome.values("mkdir") == ["EACCES"], "as the kernel says it");
            }
            Side::Gated => {
                for step in ["version", "create", "restrict"] {
                    outcome.assert(outcome.values(step) == ["EOPNOTSUPP"], &format!("{step}: told that there is none"));
                }
                outcome.assert(made, "and so nothing is held by it");
            }
        }
    }
}

/// A program that makes a domain without a right to make directories, as far as it gets, and goes on.
fn own_landlock_inside(_: &[String]) {
    const MAKE_DIR: u64 = 1 << 7;
    raw::say_result("version", sys(libc::SYS_landlock_create_ruleset, [0, 0, 1]));
    let attributes = MAKE_DIR;
    let ruleset = sys(libc::SYS_landlock_create_ruleset, [(&raw const attributes) as u64, 8, 0]);
    raw::say_result("create", ruleset);
    let _ = sys(libc::SYS_prctl, [libc::PR_SET_NO_NEW_PRIVS as u64, 1, 0, 0, 0]);
    raw::say_result("restrict", sys(libc::SYS_landlock_restrict_self, [ruleset.unwrap_or(-1) as u64, 0]));
    raw::say_result("mkdir", raw::mkdir("made"));
}
