//! Attack 8: signals while calls are queued, performed or asked about.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use crate::engine::{self, attack};
use crate::raw::{self, Raw};
use crate::support::Side;
use crate::{Inside, Test};

pub const TESTS: &[Test] = &[
    ("a_storm_of_timer_signals_leaves_no_call_half_done", || storm("plain")),
    ("a_storm_of_restarting_signals_interrupts_no_call", || storm("restart")),
    ("a_storm_of_signals_to_one_thread_interrupts_no_call", || storm("thread")),
    ("stopping_and_continuing_loses_no_call", || storm("stop")),
    ("an_alarm_ends_a_call_that_waits_for_an_answer", alarm),
    ("a_killed_process_ends_its_prompt_and_changes_nothing", killed_while_asked),
];

pub const INSIDE: &[Inside] = &[("storm", storm_inside), ("alarm", alarm_inside), ("die-asking", die_asking_inside)];

static HANDLED: AtomicU32 = AtomicU32::new(0);

extern "C" fn count(_: libc::c_int) {
    HANDLED.fetch_add(1, Ordering::Relaxed);
}

fn handle(signal: i32, flags: i32) {
    // SAFETY: an all-zero sigaction with a handler that only touches an atomic.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = count as *const () as usize;
        action.sa_flags = flags;
        assert_eq!(libc::sigaction(signal, &action, std::ptr::null_mut()), 0);
    }
}

fn timer(first_us: i64, every_us: i64) {
    let time = |us: i64| libc::timeval { tv_sec: us / 1_000_000, tv_usec: us % 1_000_000 };
    let value = libc::itimerval { it_interval: time(every_us), it_value: time(first_us) };
    // SAFETY: a live structure.
    unsafe { libc::setitimer(libc::ITIMER_REAL, &value, std::ptr::null_mut()) };
}

fn storm(kind: &str) {
    for side in engine::sides() {
        let sandbox = engine::with_victims();
        let outcome = attack(&sandbox, *side, "storm", &[kind]);
        outcome.assert(outcome.values("surprise").is_empty(), "no call failed");
        outcome.assert(outcome.number("fds_more") == 0, "no descriptor was left over");
        if kind != "stop" {
            outcome.assert(outcome.number("handled") > 20, "the signals came");
        }
    }
}

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

fn storm_inside(args: &[String]) {
    let [kind] = args else { panic!("KIND") };
    let before = open_descriptors();
    // SAFETY: gettid(2) and getpid(2) cannot fail.
    let (process, thread) = unsafe { (libc::getpid(), libc::gettid()) };
    let mut sender = None;
    match kind.as_str() {
        "plain" | "restart" => {
            handle(libc::SIGALRM, if kind == "restart" { libc::SA_RESTART } else { 0 });
            timer(1000, 1000);
        }
        "thread" => {
            // As Go preempts: SIGURG to the very thread, without pause.
            handle(libc::SIGURG, libc::SA_RESTART | libc::SA_ONSTACK);
            sender = Some(raw::fork(|| pester(process, thread, &[libc::SIGURG])));
        }
        _ => sender = Some(raw::fork(|| pester(process, process, &[libc::SIGSTOP, libc::SIGCONT]))),
    }
    for round in 0..4000 {
        for (call, result) in one_round(kind == "plain") {
            if let Err(errno) = result {
                raw::say("surprise", format!("round {round}: {call}: {:?}", nix::errno::Errno::from_raw(errno)));
            }
        }
    }
    timer(0, 0);
    if let Some(sender) = sender {
        // SAFETY: our own child.
        unsafe { libc::kill(sender, libc::SIGKILL) };
        raw::wait_for(sender);
    }
    raw::say("handled", HANDLED.load(Ordering::Relaxed));
    raw::say("fds_more", open_descriptors() as i64 - before as i64);
}

/// Sends these signals in turn until its parent is gone.
fn pester(process: i32, thread: i32, signals: &[i32]) -> i32 {
    // SAFETY: prctl(2), tgkill(2) and nanosleep(2) with numbers and a live structure.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        loop {
            for signal in signals {
                libc::syscall(libc::SYS_tgkill, process, thread, *signal);
                libc::nanosleep(&libc::timespec { tv_sec: 0, tv_nsec: 200_000 }, std::ptr::null_mut());
            }
        }
    }
}

/// A signal that comes between the trap and its receive interrupts the call, which no supervisor can prevent; without
/// `SA_RESTART` the program sees it. Then nothing may have happened: the same call must succeed the next time.
fn until_done(may_interrupt: bool, call: impl Fn() -> Raw) -> Raw {
    loop {
        match call() {
            Err(libc::EINTR) if may_interrupt => {}
            result => return result,
        }
    }
}

fn one_round(may_interrupt: bool) -> [(&'static str, Raw); 5] {
    let done = |call: &dyn Fn() -> Raw| until_done(may_interrupt, call);
    let opened = done(&|| raw::open("new", libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL));
    if let Ok(fd) = opened {
        raw::close(fd);
    }
    [
        ("mkdir", done(&|| raw::mkdir("dir"))),
        ("rmdir", done(&|| raw::rmdir("dir"))),
        ("open", opened),
        ("rename", done(&|| raw::rename("new", "newer"))),
        ("unlink", done(&|| raw::unlink("newer"))),
    ]
}

/// Every question is answered with yes, but late.
const LATE: &str = r#"
[[answer]]
access = "write"
object = "/**"
answer = "once"
after = "20s"
"#;

fn alarm() {
    if !engine::gated_too() {
        return;
    }
    let mut sandbox = engine::with_victims();
    sandbox.answers(LATE);
    let outcome = attack(&sandbox, Side::Gated, "alarm", &[]);
    outcome.assert(outcome.values("opened") == ["EINTR"], "the call was interrupted");
    outcome.assert(outcome.number("handled") == 1, "the handler ran");
    outcome.assert(outcome.number("waited_ms") < 8000, "long before the answer");
    outcome.assert(!sandbox.outside().join("new").exists(), "nothing was made");
    assert_eq!(outcome.events_of("consent_required").count(), 1, "it was asked\n{outcome}");
}

fn alarm_inside(_: &[String]) {
    handle(libc::SIGALRM, 0);
    timer(500_000, 0);
    let start = Instant::now();
    let result = raw::open(&raw::outside("new"), libc::O_WRONLY | libc::O_CREAT);
    raw::say("waited_ms", start.elapsed().as_millis());
    raw::say_result("opened", result);
    raw::say("handled", HANDLED.load(Ordering::Relaxed));
}

fn killed_while_asked() {
    if !engine::gated_too() {
        return;
    }
    let mut sandbox = engine::with_victims();
    sandbox.answers(&LATE.replace("20s", "3s"));
    let outcome = attack(&sandbox, Side::Gated, "die-asking", &[]);
    outcome.assert(outcome.number("waited_ms") < 2500, "SIGKILL ends the wait");
    outcome.assert(!sandbox.outside().join("new").exists(), "nothing was made");
    assert_eq!(outcome.events_of("consent_required").count(), 1, "it was asked\n{outcome}");
}

fn die_asking_inside(_: &[String]) {
    let child = raw::fork(|| {
        let _ = raw::open(&raw::outside("new"), libc::O_WRONLY | libc::O_CREAT);
        0
    });
    // Long enough that the question is out; the answer comes at three seconds.
    std::thread::sleep(std::time::Duration::from_secs(1));
    let start = Instant::now();
    // SAFETY: our own child, not reaped yet.
    unsafe { libc::kill(child, libc::SIGKILL) };
    raw::wait_for(child);
    raw::say("waited_ms", start.elapsed().as_millis());
    // Past the time of the answer: what would be made late would be there.
    std::thread::sleep(std::time::Duration::from_secs(4));
}
