//! Attack 21: floods of calls, of questions and of processes.

use std::time::{Duration, Instant};

use crate::engine::{self, attack};
use crate::raw;
use crate::support::wait::descendants;
use crate::support::{Sandbox, Side, until};
use crate::{Inside, Test};

pub const TESTS: &[Test] = &[
    ("a_flood_of_calls_does_not_hold_up_another_process", flood_of_calls),
    ("a_flood_of_questions_is_answered_and_holds_nothing_up", flood_of_questions),
    ("an_open_question_holds_up_no_other_process", one_waits_others_run),
    ("a_flood_of_processes_ends_with_the_session", flood_of_processes),
    ("a_flood_of_writers_without_a_reader_holds_nothing_up", flood_of_fifos),
    ("a_flood_of_long_names_in_a_moved_directory_costs_no_memory", flood_of_names),
    ("where_numbers_run_out_a_failed_open_leaves_no_file", flood_of_numbers),
];

pub const INSIDE: &[Inside] = &[
    ("flood-calls", flood_calls_inside),
    ("flood-questions", flood_questions_inside),
    ("one-waits", one_waits_inside),
    ("flood-processes", flood_processes_inside),
    ("flood-fifos", flood_fifos_inside),
    ("move-names", move_names_inside),
    ("take-numbers", take_numbers_inside),
];

/// The last free number of a process is taken by one thread while another one creates a file.
fn flood_of_numbers() {
    for side in engine::sides() {
        let outcome = attack(&engine::with_victims(), *side, "take-numbers", &[]);
        outcome.assert(outcome.number("refused") > 0, "at times there is no number left");
        outcome.assert(outcome.number("made") > 0, "and at times there is");
        outcome.assert(outcome.number("left") == outcome.number("made"), "what was refused was not made");
    }
}

fn take_numbers_inside(_: &[String]) {
    raw::mkdir("numbers").expect("mkdir");
    let limit = libc::rlimit { rlim_cur: 24, rlim_max: 24 };
    // SAFETY: the limit is live; every descriptor below is one that its thread has just made.
    unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) };
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let (mut made, mut refused) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                // SAFETY: as above.
                let taken: Vec<i32> = (0..24).map(|_| unsafe { libc::dup(2) }).filter(|fd| *fd >= 0).collect();
                for fd in taken {
                    // SAFETY: as above.
                    unsafe { libc::close(fd) };
                }
            }
        });
        for at in 0..4_000 {
            match raw::open(&format!("numbers/{at}"), libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL) {
                Ok(fd) => {
                    made += 1;
                    // SAFETY: as above.
                    unsafe { libc::close(fd as i32) };
                }
                Err(_) => refused += 1,
            }
        }
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    raw::say("made", made);
    raw::say("refused", refused);
    raw::say("left", std::fs::read_dir("numbers").expect("the directory").count());
}

fn flood_of_calls() {
    for side in engine::sides() {
        let outcome = attack(&engine::with_victims(), *side, "flood-calls", &[]);
        outcome.assert(outcome.number("failed") == 0, "the other process's calls succeed");
        outcome.assert(outcome.number("longest_ms") < 2000, "none of them waits long");
    }
}

fn flood_calls_inside(_: &[String]) {
    let flooders: Vec<i32> = (0..6)
        .map(|worker| {
            raw::fork(|| {
                loop {
                    let _ = raw::mkdir(&format!("flood-{worker}"));
                    let _ = raw::rmdir(&format!("flood-{worker}"));
                }
            })
        })
        .collect();
    measured(500);
    for flooder in flooders {
        // SAFETY: our own child, not reaped yet.
        unsafe { libc::kill(flooder, libc::SIGKILL) };
        raw::wait_for(flooder);
    }
}

/// Performs allowed changes; says how many failed and how long the slowest pair took.
fn measured(rounds: u32) {
    let (mut failed, mut longest) = (0, Duration::ZERO);
    for _ in 0..rounds {
        let start = Instant::now();
        failed += u32::from(raw::mkdir("measured").is_err()) + u32::from(raw::rmdir("measured").is_err());
        longest = longest.max(start.elapsed());
    }
    raw::say("failed", failed);
    raw::say("longest_ms", longest.as_millis());
}

fn flood_of_questions() {
    if !engine::gated_too() {
        return;
    }
    let sandbox = engine::with_victims();
    let outcome = attack(&sandbox, Side::Gated, "flood-questions", &[]);
    outcome.assert(outcome.number("made") == 0, "nobody was there to say yes");
    outcome.assert(outcome.number("failed") == 0, "what is allowed goes on");
    assert_eq!(std::fs::read_dir(sandbox.outside()).expect("outside").count(), 2, "nothing new outside\n{outcome}");
}

fn flood_questions_inside(_: &[String]) {
    let threads: Vec<_> = (0..16)
        .map(|thread| {
            std::thread::spawn(move || {
                (0..100).filter(|round| raw::mkdir(&raw::outside(&format!("n-{thread}-{round}"))).is_ok()).count()
            })
        })
        .collect();
    measured(100);
    raw::say("made", threads.into_iter().filter_map(|thread| thread.join().ok()).sum::<usize>());
}

fn one_waits_others_run() {
    if !engine::gated_too() {
        return;
    }
    let mut sandbox = engine::with_victims();
    sandbox.answers("[[answer]]\naccess = \"write\"\nobject = \"/**\"\nanswer = \"once\"\nafter = \"3s\"\n");
    let outcome = attack(&sandbox, Side::Gated, "one-waits", &[]);
    outcome.assert(outcome.number("failed") == 0, "allowed changes succeed while others wait");
    outcome.assert(outcome.number("longest_ms") < 1500, "and do not wait with them");
    outcome.assert(outcome.number("made") == 8, "every waiting one got its yes");
}

fn one_waits_inside(_: &[String]) {
    let askers: Vec<i32> = (0..8)
        .map(|index| raw::fork(|| i32::from(raw::mkdir(&raw::outside(&format!("asked-{index}"))).is_err())))
        .collect();
    measured(200);
    let made = askers.into_iter().filter(|asker| raw::wait_for(*asker) == 0).count();
    raw::say("made", made);
}

fn flood_of_processes() {
    for side in engine::sides() {
        let sandbox = engine::with_victims();
        let outcome = attack(&sandbox, *side, "flood-processes", &[]);
        outcome.assert(outcome.number("left") > 100, "processes were left behind");
        match side {
            Side::Bare => {
                assert!(!sandbox.processes().is_empty(), "bare, they live on");
                sandbox.processes().iter().for_each(|process| process.kill(libc::SIGKILL));
                until("the left ones are gone", || sandbox.processes().is_empty().then_some(()));
            }
            Side::Gated => {
                until("no process of the session is left", || sandbox.processes().is_empty().then_some(()));
            }
        }
    }
}

/// Leaves processes behind that left its group and its session, and ends.
fn flood_processes_inside(_: &[String]) {
    let mut left = 0;
    for _ in 0..200 {
        raw::fork(|| {
            // SAFETY: setsid(2) and pause(2).
            unsafe {
                libc::setsid();
                loop {
                    libc::pause();
                }
            }
        });
        left += 1;
    }
    raw::say("left", left);
}

/// Twenty thousand names of three thousand bytes each below a directory that moves: each is looked at, none is kept.
fn flood_of_names() {
    const MOST_KB: u64 = 40_000;
    if !engine::gated_too() {
        return;
    }
    let mut sandbox = Sandbox::new();
    sandbox.profile_named("coder");
    let bottom = (0..12).fold(sandbox.workspace().join("deep"), |path, _| path.join("d".repeat(250)));
    sandbox.dir(&bottom);
    for number in 0..20_000 {
        std::fs::write(bottom.join(number.to_string()), "").expect("write");
    }
    let running = sandbox.start(Side::Gated, &sandbox.inside::<&str>("move-names", &[]));
    until("the directory to move", || running.so_far().contains("moved ok").then_some(()));
    let peaks = descendants(running.pid()).into_iter().filter_map(|process| peak_kb(process.pid));
    let most = peaks.max().expect("the session's processes");
    assert!(most < MOST_KB, "a process of the session took {most} kB");
}

/// Waits afterwards, so that the session can be looked at; ends with it.
fn move_names_inside(_: &[String]) {
    raw::say_result("moved", raw::rename("deep", "moved"));
    loop {
        std::thread::park();
    }
}

/// The most memory that a process ever had, in kB (`VmHWM`, proc_pid_status(5)).
fn peak_kb(pid: i32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?.trim().strip_suffix(" kB")?.trim().parse().ok()
}

fn flood_of_fifos() {
    for side in engine::sides() {
        let outcome = attack(&engine::with_victims(), *side, "flood-fifos", &[]);
        outcome.assert(outcome.number("failed") == 0, "the other process's calls succeed while writers wait");
    }
}

/// Opens more fifos without a reader than the supervisor has threads; then another process works.
fn flood_fifos_inside(_: &[String]) {
    let writers: Vec<i32> = (0..290)
        .map(|number| {
            let name = format!("fifo-{number}");
            let _ = raw::sys(libc::SYS_mknod, [raw::text(name.as_str()).at(), u64::from(libc::S_IFIFO | 0o600), 0]);
            raw::fork(move || i32::from(raw::open(&name, libc::O_WRONLY).is_err()))
        })
        .collect();
    std::thread::sleep(Duration::from_secs(1));
    measured(20);
    for writer in writers {
        // SAFETY: our own child, not reaped yet.
        unsafe { libc::kill(writer, libc::SIGKILL) };
        raw::wait_for(writer);
    }
}
