//! Attack 14: hands on processes that are not the session's, and on the supervisor and init.

use std::fs;

use crate::engine::{self, attack};
use crate::raw::{self, Raw, sys, text};
use crate::support::{Running, Sandbox, Side, until};
use crate::{Inside, Test};

pub const TESTS: &[Test] = &[
    ("no_hand_on_a_process_of_the_same_user_outside", outside_process),
    ("no_hand_on_init_or_the_supervisor", own_ancestors),
    ("no_process_outside_is_seen", none_seen),
    ("the_priority_and_limits_of_a_process_outside_stay_as_they_are", priorities),
    ("no_hand_on_the_memory_of_another_process_of_the_session", sibling),
];

pub const INSIDE: &[Inside] = &[
    ("victim", victim_inside),
    ("hands", hands_inside),
    ("ancestors", ancestors_inside),
    ("priorities", priorities_inside),
    ("seen", seen_inside),
    ("sibling", sibling_inside),
];

/// A process of the test user outside of any session that says what became of its memory once `stop` is there.
fn victim(sandbox: &Sandbox) -> (Running<'_>, String) {
    let running = sandbox.start(Side::Bare, &sandbox.inside("victim", &[sandbox.outside().join("stop")]));
    let address = until("the victim is ready", || {
        running.so_far().lines().find_map(|line| line.strip_prefix("address ").map(str::to_owned))
    });
    (running, address)
}

fn victim_inside(args: &[String]) {
    let [stop] = args else { panic!("FILE") };
    let word = Box::leak(Box::new(0x600d_u64));
    raw::say("address", (&raw const *word) as u64);
    while fs::metadata(stop).is_err() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    // SAFETY: leaked above, so alive; others may have written it.
    raw::say("word", unsafe { (&raw const *word).read_volatile() });
}

fn outside_process() {
    for side in engine::sides() {
        let holder = engine::with_victims();
        let (victim, address) = victim(&holder);
        let outcome = attack(&engine::with_victims(), *side, "hands", &[&victim.pid().to_string(), &address]);
        fs::write(holder.outside().join("stop"), "").expect("write");
        let end = victim.finish();
        match side {
            Side::Bare => {
                outcome.assert(outcome.values("kill") == ["ok 0"], "a signal reaches the victim bare");
                outcome.assert(end.status.code().is_none(), "and kills it");
            }
            Side::Gated => {
                end.assert(end.values("word") == [0x600d.to_string()], "the victim lives, its memory untouched");
                for line in outcome.out().lines().filter(|line| !line.starts_with("ran ")) {
                    outcome.assert(!line.contains(" ok "), &format!("refused inside: {line}"));
                }
            }
        }
    }
}

fn attempts(pid: u64, address: u64) -> Vec<(&'static str, Raw)> {
    let evil = 0xbad_u64;
    let local = [(&raw const evil) as u64, 8];
    let remote = [address, 8];
    let pidfd = || sys(libc::SYS_pidfd_open, [pid, 0]);
    let limits = [0u64, 0];
    vec![
        ("ptrace_attach", sys(libc::SYS_ptrace, [u64::from(libc::PTRACE_SEIZE), pid, 0, 0])),
        ("vm_writev", sys(libc::SYS_process_vm_writev, [pid, local.as_ptr() as u64, 1, remote.as_ptr() as u64, 1, 0])),
        ("vm_readv", sys(libc::SYS_process_vm_readv, [pid, local.as_ptr() as u64, 1, remote.as_ptr() as u64, 1, 0])),
        ("mem", write_memory(pid, address)),
        ("getfd", pidfd().and_then(|fd| sys(libc::SYS_pidfd_getfd, [fd as u64, 0, 0]))),
        ("kcmp", sys(libc::SYS_kcmp, [pid, pid, 0, 0, 0])),
        ("prlimit", sys(libc::SYS_prlimit64, [pid, u64::from(libc::RLIMIT_MSGQUEUE), limits.as_ptr() as u64, 0])),
        (
            "pidfd_signal",
            pidfd().and_then(|fd| sys(libc::SYS_pidfd_send_signal, [fd as u64, libc::SIGURG as u64, 0, 0])),
        ),
        ("tgkill", sys(libc::SYS_tgkill, [pid, pid, libc::SIGURG as u64])),
        ("kill", sys(libc::SYS_kill, [pid, libc::SIGKILL as u64])),
    ]
}

fn write_memory(pid: u64, address: u64) -> Raw {
    let fd = raw::open(&format!("/proc/{pid}/mem"), libc::O_RDWR)?;
    let evil = 0xbad_u64;
    sys(libc::SYS_pwrite64, [fd as u64, (&raw const evil) as u64, 8, address])
}

fn hands_inside(args: &[String]) {
    let [pid, address] = args else { panic!("PID ADDRESS") };
    for (name, result) in attempts(pid.parse().expect("a pid"), address.parse().expect("an address")) {
        raw::say_result(name, result);
    }
}

/// What the kernel keeps of a process's place among others, as root sees it.
fn place_of(pid: i32) -> Vec<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("a living process");
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("a living process");
    let allowed = status.lines().find(|line| line.starts_with("Cpus_allowed_list")).unwrap_or_default();
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).expect("a living process");
    let files = limits.lines().find(|line| line.starts_with("Max open files")).unwrap_or_default();
    let io = sys(libc::SYS_ioprio_get, [IOPRIO_WHO_PROCESS, pid as u64]);
    // Fields 5, 19 and 41 of proc_pid_stat(5): process group, nice value, scheduling policy.
    vec![
        format!("group {}, nice {}, policy {}", fields[2], fields[16], fields[38]),
        format!("io {io:?}"),
        allowed.to_owned(),
        files.to_owned(),
    ]
}

const IOPRIO_WHO_PROCESS: u64 = 1;
const IOPRIO_WHO_USER: u64 = 3;
/// Best effort, the last of eight.
const IO_LAST: u64 = 2 << 13 | 7;

/// By pid, by process group, and by user: the last would reach all that the person runs.
fn priorities() {
    for side in engine::sides() {
        let holder = engine::with_victims();
        let (victim, _) = victim(&holder);
        let before = place_of(victim.pid());
        for how in ["process", "group", "user"] {
            let outcome = attack(&engine::with_victims(), *side, "priorities", &[&victim.pid().to_string(), how]);
            let after = place_of(victim.pid());
            match side {
                Side::Bare => {
                    outcome.assert(after != before, &format!("by {how}, it is another place bare: {after:?}"))
                }
                Side::Gated => outcome.assert(after == before, &format!("by {how}: {before:?} became {after:?}")),
            }
        }
        fs::write(holder.outside().join("stop"), "").expect("write");
        victim.finish().assert_code(0);
    }
}

fn priorities_inside(args: &[String]) {
    let [pid, how] = args else { panic!("PID HOW") };
    let pid: u64 = pid.parse().expect("a pid");
    // SAFETY: getuid(2) cannot fail.
    let user = u64::from(unsafe { libc::getuid() });
    let zero = 0i32;
    let limits = [64u64, 64];
    // sched_attr: size, policy SCHED_BATCH.
    let attributes = [48u64 | 3 << 32, 0, 0, 0, 0, 0];
    let cpu = 1u64;
    let tries: Vec<(&str, Raw)> = match how.as_str() {
        "process" => vec![
            ("nice", sys(libc::SYS_setpriority, [u64::from(libc::PRIO_PROCESS), pid, 5])),
            ("io", sys(libc::SYS_ioprio_set, [IOPRIO_WHO_PROCESS, pid, IO_LAST])),
            ("affinity", sys(libc::SYS_sched_setaffinity, [pid, 8, (&raw const cpu) as u64])),
            ("policy", sys(libc::SYS_sched_setscheduler, [pid, libc::SCHED_BATCH as u64, (&raw const zero) as u64])),
            ("attributes", sys(libc::SYS_sched_setattr, [pid, attributes.as_ptr() as u64, 0])),
            ("limits", sys(libc::SYS_prlimit64, [pid, u64::from(libc::RLIMIT_NOFILE), limits.as_ptr() as u64, 0])),
            ("group", sys(libc::SYS_setpgid, [pid, 0])),
        ],
        "group" => vec![("nice", sys(libc::SYS_setpriority, [u64::from(libc::PRIO_PGRP), pid, 9]))],
        _ => vec![
            ("nice", sys(libc::SYS_setpriority, [u64::from(libc::PRIO_USER), user, 12])),
            ("io", sys(libc::SYS_ioprio_set, [IOPRIO_WHO_USER, user, IO_LAST])),
        ],
    };
    for (name, result) in tries {
        raw::say_result(name, result);
    }
}

fn own_ancestors() {
    if !engine::gated_too() {
        return;
    }
    let sandbox = engine::with_victims();
    let outcome = attack(&sandbox, Side::Gated, "ancestors", &[]);
    outcome.assert_code(0);
    for line in outcome.out().lines() {
        let harmless = ["init_prlimit", "parent_prlimit", "ran "].iter().any(|name| line.starts_with(name));
        outcome.assert(harmless || !line.contains(" ok "), &format!("refused inside: {line}"));
    }
    assert!(sandbox.workspace().join("alive").is_dir(), "the session is as it was\n{outcome}");
}

fn ancestors_inside(_: &[String]) {
    // SAFETY: getppid(2) cannot fail.
    let parent = unsafe { libc::getppid() };
    for (who, pid) in [("init", 1), ("parent", parent.max(1) as u64)] {
        for (name, result) in attempts(pid, 0x1000) {
            raw::say_result(&format!("{who}_{name}"), result);
        }
        for link in ["root", "cwd", "exe", "fd/0", "fd/3", "ns/mnt"] {
            let path = format!("/proc/{pid}/{link}");
            let mut buffer = [0u8; 64];
            let read = sys(libc::SYS_readlink, [text(path).at(), buffer.as_mut_ptr() as u64, 64]);
            raw::say_result(&format!("{who}_{link}"), read);
        }
    }
    assert!(raw::mkdir("alive").is_ok(), "the session goes on");
}

/// Another call may have been said yes to where this one was not.
fn sibling() {
    for side in engine::sides() {
        let outcome = attack(&engine::with_victims(), *side, "sibling", &[]);
        let expected = if *side == Side::Bare { 0xbad } else { 0x600d };
        outcome.assert(outcome.values("word") == [expected.to_string()], "what the other process's memory holds");
        outcome.assert(outcome.values("comm") == ["renamed"], "a process may still give itself a name");
        outcome.assert(outcome.values("score") == ["500"], "and be the first to go");
    }
}

fn sibling_inside(_: &[String]) {
    let word = Box::leak(Box::new(0x600d_u64));
    let address = (&raw const *word) as u64;
    // SAFETY: getpid(2) cannot fail.
    let pid = unsafe { libc::getpid() };
    let child = raw::fork(|| i32::from(write_memory(pid as u64, address).is_err()));
    raw::wait_for(child);
    // SAFETY: leaked above, so alive; another process may have written it.
    raw::say("word", unsafe { (&raw const *word).read_volatile() });
    let _ = fs::write("/proc/self/comm", "renamed");
    let _ = fs::write("/proc/thread-self/oom_score_adj", "500");
    let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default().trim().to_owned();
    raw::say("comm", fs::read_to_string("/proc/thread-self/comm").unwrap_or_default().trim());
    raw::say("score", read("oom_score_adj"));
}

fn none_seen() {
    if !engine::gated_too() {
        return;
    }
    let holder = engine::with_victims();
    let (victim, _) = victim(&holder);
    let outcome = attack(&engine::with_victims(), Side::Gated, "seen", &[]);
    fs::write(holder.outside().join("stop"), "").expect("write");
    victim.finish().assert_code(0);
    for name in outcome.values("process") {
        let known = ["probe", "gated-session", "gated-init"].iter().any(|ours| name.contains(ours));
        outcome.assert(known, &format!("only the session's processes are seen, not {name}"));
    }
    outcome.assert(!outcome.values("process").is_empty(), "/proc shows the tool itself");
}

fn seen_inside(_: &[String]) {
    for entry in fs::read_dir("/proc").expect("/proc").flatten() {
        if entry.file_name().to_str().is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_digit())) {
            let comm = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
            raw::say("process", format!("{:?} {}", entry.file_name(), comm.trim_end()));
        }
    }
}
