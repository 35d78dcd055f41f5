//! What becomes of an exec when somebody dies: the supervisor, whoever executes, the parent.

use std::time::Duration;

use crate::call::{End, execve, fork_and, text, wait_for};
use crate::support::{Sandbox, Side, until, wait};
use crate::{Inside, Test};

pub const TESTS: &[Test] = &[
    ("killing_the_supervisor_kills_what_executes", supervisor_killed),
    ("killing_what_waits_for_an_answer_withdraws_the_question", asker_killed),
    ("a_killed_child_is_its_parents_to_wait_for", killed_children),
];

pub const INSIDE: &[Inside] = &[("execute-forever", execute_forever), ("kill-children", kill_children)];

fn supervisor_killed() {
    for round in 0..6 {
        let sandbox = Sandbox::new();
        sandbox.profile(crate::basics::NOTIFY_NOTHING);
        let running = sandbox.start(Side::Gated, &sandbox.inside::<&str>("execute-forever", &[]));
        until("programs are executed", || (running.so_far().lines().count() > round * 7).then_some(()));
        let session = wait::descendants(running.pid());
        let is_supervisor = |one: &&wait::PidFd| {
            std::fs::read_to_string(format!("/proc/{}/comm", one.pid)).unwrap_or_default() == "gated-session\n"
        };
        session.iter().filter(is_supervisor).for_each(|one| one.kill(libc::SIGKILL));
        for process in &session {
            assert!(process.ends_within(Duration::from_secs(10)), "{} lives on", process.pid);
        }
        until("no process of the session is left", || sandbox.processes().is_empty().then_some(()));
        assert!(!running.finish().status.success());
    }
}

fn execute_forever(_: &[String]) {
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    fork_and(|| execve(&text("/bin/true"), &[text("true")], &[]));
                    println!("executed");
                }
            });
        }
    });
}

fn asker_killed() {
    let mut sandbox = Sandbox::new();
    sandbox.profile(
        "schema = 1\n[profile]\nname = \"asked\"\n[defaults]\nwrite = \"allow\"\nexec = \"allow\"\n\
         [[rule]]\nid = \"true\"\naccess = [\"exec\"]\nprogram = [\"/usr/bin/true\"]\nlevel = \"ask\"\n",
    );
    sandbox.answers("[[answer]]\naccess = \"exec\"\nanswer = \"once\"\nafter = \"60s\"\n");
    // The shell ends its child as soon as that has been asked about, or ten times a second until then.
    let script = "/usr/bin/true & while kill -0 $! 2>/dev/null; do sleep 0.1; kill -TERM $!; wait $!; echo $?; done";
    let outcome = sandbox.on(Side::Gated, &["/bin/sh", "-c", script]);
    outcome.assert_code(0);
    outcome.assert(outcome.out() == "143\n", "it was ended by the signal");
    let cancelled = outcome.audit.iter().filter(|record| record["result"] == "cancelled").count();
    outcome.assert(cancelled == 1, "the question was withdrawn");
}

fn killed_children() {
    let sandbox = Sandbox::new();
    sandbox.profile(crate::basics::NOTIFY_NOTHING);
    let outcome = sandbox.on(Side::Gated, &sandbox.inside::<&str>("kill-children", &[]));
    outcome.assert_code(0);
    outcome.assert(outcome.out() == "500 waited for\n", "each ended, by itself or by the signal, and was its parent's");
}

/// Kills children at every moment of their exec.
fn kill_children(_: &[String]) {
    let mut waited = 0;
    for round in 0..500 {
        // SAFETY: the child only executes.
        let child = unsafe { libc::fork() };
        if child == 0 {
            execve(&text("/bin/true"), &[text("true")], &[]);
            // SAFETY: _exit(2) has no precondition.
            unsafe { libc::_exit(127) };
        }
        for _ in 0..round % 50 {
            std::thread::yield_now();
        }
        // SAFETY: our own child, which is not reaped yet.
        unsafe { libc::kill(child, libc::SIGKILL) };
        waited += i32::from(matches!(wait_for(child), End::Signaled(libc::SIGKILL) | End::Exited(0)));
    }
    println!("{waited} waited for");
}
