//! Many calls in one session.

use gated::common::decision::{Lifetime, Outcome};
use gated::common::path::RawPath;
use gated::common::wire::{Ended, Ends, FromCaller, FromSession, ToCaller, ToSession};

use crate::Test;
use crate::broker::{SOON, Supervised, launch, outer_pid, sh};
use crate::support::{Sandbox, until};

pub const TESTS: &[Test] = &[
    ("calls_run_beside_each_other_in_one_session", beside_each_other),
    ("an_answer_for_a_call_ends_with_it_and_holds_in_no_other", answers_for_a_call),
    ("a_revoked_grant_is_asked_for_again", revoked),
    ("a_caller_that_goes_takes_all_of_its_call_and_nothing_else", gone_caller),
    ("a_caller_that_goes_with_its_terminal_takes_its_call", gone_terminal),
    ("the_supervisor_keeps_nothing_of_a_call_that_is_over", nothing_kept),
    ("what_a_call_leaves_behind_lives_on_in_the_session_and_is_held", left_behind),
    ("the_end_of_a_call_on_a_terminal_waits_for_nobody", terminal),
    ("signals_of_a_caller_reach_its_own_call", signals),
    ("the_supervisor_takes_no_start_that_does_not_fit", unfit),
    ("a_session_for_another_home_is_refused", other_home),
    ("a_session_ends_when_it_is_stopped_or_its_broker_goes", ends),
    ("a_session_that_lost_a_leader_ends", no_leader),
    ("an_answer_that_proves_nothing_does_not_lift_authenticate", authenticate),
];

fn beside_each_other() {
    let sandbox = Sandbox::new();
    let session = Supervised::start(&sandbox);
    let wait = "while ! test -e $1; do sleep 0.02; done; echo $GATED_SESSION; exit 3";
    let mut first = session.call(&["sh", "-c", wait, "sh", "go"]);
    assert_eq!(first.started(), 1);
    let mut second = session.call(&sh("echo $$ $GATED_SESSION > go; ls /proc | grep -c '^[0-9]'; echo $GATED_SESSION"));
    assert_eq!(second.started(), 2);
    assert_eq!(second.ended(), Ended::Exited(0));
    assert_eq!(first.ended(), Ended::Exited(3));
    let name = first.rest();
    assert!(name.trim().len() == 8 && second.rest().lines().nth(1) == Some(name.trim()), "both know their session");
    let told: Vec<_> = (0..6).filter_map(|_| session.broker.next()).collect();
    let starts = told.iter().filter(|one| matches!(one, FromSession::CallStarted { pid: 1.., .. })).count();
    let ends = told.iter().filter(|one| matches!(one, FromSession::CallEnded { .. })).count();
    assert_eq!((starts, ends), (2, 2), "{told:?}");
    // What was made by the one is seen by the other: one view, one scratch.
    let mut third = session.call(&sh("echo kept > /tmp/made"));
    assert_eq!((third.started(), third.ended()), (3, Ended::Exited(0)));
    let mut fourth = session.call(&sh("cat /tmp/made; exec no-such-command"));
    assert_eq!((fourth.started(), fourth.ended()), (4, Ended::Exited(127)));
    assert!(fourth.rest().starts_with("kept\n"));
    let fifth = session.call(&["/no/such/command"]);
    assert_eq!((fifth.started(), fifth.ended()), (5, Ended::NotExecuted(libc::ENOENT)));
    third.rest();
}

fn answers_for_a_call() {
    let sandbox = Sandbox::new();
    let session = Supervised::start(&sandbox);
    let script =
        format!("for i in 1 2; do echo x >> {0}/once && echo $i; read never; done", sandbox.outside().display());
    let first = session.call(&sh(&script));
    let call = first.started();
    let question = session.broker.question();
    assert_eq!((question.call.0, question.level.to_string()), (call, "ask".to_owned()));
    assert_eq!(question.object, RawPath::from(sandbox.outside().join("once")));
    session.broker.decide(&question, Outcome::Approved, Lifetime::Call);
    assert_eq!(first.ended(), Ended::Exited(1), "the second write needed no answer");
    let lines = std::fs::read_to_string(sandbox.outside().join("once")).expect("read");
    assert_eq!(lines, "x\nx\n");
    let second = session.call(&sh(&script));
    let question = session.broker.question();
    assert_eq!(question.call.0, second.started());
    session.broker.decide(&question, Outcome::Denied, Lifetime::Attempt);
    session.broker.decide(&session.broker.question(), Outcome::Denied, Lifetime::Attempt);
    second.ended();
    assert_eq!(std::fs::read_to_string(sandbox.outside().join("once")).expect("read"), lines);
}

fn revoked() {
    let sandbox = Sandbox::new();
    let session = Supervised::start(&sandbox);
    let append = sh(&format!("echo x >> {}/kept", sandbox.outside().display()));
    let first = session.call(&append);
    let question = session.broker.question();
    let grant = session.broker.decide(&question, Outcome::Approved, Lifetime::Session).expect("a grant");
    assert_eq!((first.started(), first.ended()), (1, Ended::Exited(0)));
    let second = session.call(&append);
    assert_eq!((second.started(), second.ended()), (2, Ended::Exited(0)), "covered");
    session.broker.send(ToSession::Revoke(grant));
    let third = session.call(&append);
    let question = session.broker.question();
    session.broker.decide(&question, Outcome::Denied, Lifetime::Attempt);
    assert_eq!((third.started(), third.ended()), (3, Ended::Exited(2)), "asked again");
    assert_eq!(std::fs::read_to_string(sandbox.outside().join("kept")).expect("read"), "x\nx\n");
    assert_eq!(session.broker.records().iter().filter(|one| one.contains("outcome: Granted")).count(), 1);
}

/// Daemons by two forks and sessions of their own, processes that ignore signals, processes that start others all the time.
const FLEEING: &str = "trap '' HUP TERM INT; setsid sh -c 'sh -c \"trap \\\"\\\" HUP TERM; echo daemon \\$\\$; \
     while :; do sleep 0.01; done\" & exit' & (while :; do sh -c 'sleep 0.01 & sleep 0.01' & sleep 0.05; done) & \
     sleep 1000 & (kill -STOP $(exec sh -c 'echo $PPID')) & echo main $$; sleep 1000";

fn gone_caller() {
    let sandbox = Sandbox::new();
    let session = Supervised::start(&sandbox);
    let supervisor = session.pidfd.pid;
    let mut other = session.call(&sh("setsid sleep 1000 & echo $!; echo $$; while ! test -e go; do sleep 0.02; done"));
    other.started();
    let others: Vec<_> = (0..2).map(|_| outer_pid(supervisor, &other.line())).collect();
    let before = crate::support::wait::descendants(supervisor).len();
    let mut call = session.call(&sh(FLEEING));
    call.started();
    let named: Vec<String> = (0..2).map(|_| call.line()).collect();
    let pid = |name: &str| {
        let line = named.iter().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name} in {named:?}"));
        outer_pid(supervisor, line.rsplit(' ').next().expect("a number"))
    };
    let own = [pid("main"), pid("daemon")];
    drop(call);
    assert!(own.iter().all(|process| process.ends_within(SOON)), "all of the call dies");
    until("nothing of the call is left", || {
        (crate::support::wait::descendants(supervisor).len() == before).then_some(())
    });
    assert!(!others.iter().any(|process| process.ends_within(std::time::Duration::ZERO)), "the other call lives");
    std::fs::write(sandbox.workspace().join("go"), "").expect("write");
    assert_eq!(other.ended(), Ended::Exited(0));
    assert!(!others[0].ends_within(std::time::Duration::ZERO), "a caller that goes after the end kills nothing");
    let ended = std::iter::from_fn(|| session.broker.next()).find_map(|message| match message {
        FromSession::CallEnded { call, ended } => Some((call.0, ended)),
        _ => None,
    });
    assert_eq!(ended, Some((2, Ended::Signaled(9))));
}

fn gone_terminal() {
    let sandbox = Sandbox::new();
    let session = Supervised::start(&sandbox);
    let script = "trap '' HUP; setsid sleep 1000 & echo $! $$ > pids; mv pids here; sleep 1000";
    let call = session.call_by(&sh(script), |start| start.on_terminal = [true; 3]);
    let received = call.link.receive().expect("a message").expect("a start");
    assert!(matches!(received.message, ToCaller::Started { .. }));
    let here = sandbox.workspace().join("here");
    let pids = until("the command runs", || std::fs::read_to_string(&here).ok());
    let all: Vec<_> = pids.split_whitespace().map(|pid| outer_pid(session.pidfd.pid, pid)).collect();
    // The terminal first, whose end is a signal to the leader, then the link.
    drop(received.fds);
    drop(call);
    assert!(all.iter().all(|process| process.ends_within(SOON)), "all of the call dies");
    let mut other = session.call(&["echo", "fine"]);
    other.started();
    assert_eq!(other.rest(), "fine\n", "and nothing else");
}

fn nothing_kept() {
    let sandbox = Sandbox::new();
    let session = Supervised::start(&sandbox);
    let count =
        |what: &str| std::fs::read_dir(format!("/proc/{}/{what}", session.pidfd.pid)).expect("it lives").count();
    let one = || {
        let call = session.call(&sh("echo x > made"));
        call.started();
        call.ended();
    };
    // The first sees to it that everything that the session itself has is there.
    one();
    while !matches!(session.broker.next(), Some(FromSession::CallsOver(_))) {}
    let before = (count("task"), count("fd"));
    (0..20).for_each(|_| one());
    until("no thread and no descriptor of them is left", || ((count("task"), count("fd")) <= before).then_some(()));
}

fn left_behind() {
    let sandbox = Sandbox::new();
    let session = Supervised::start(&sandbox);
    let script = format!(
        "setsid sh -c 'while ! test -e go; do sleep 0.02; done; echo x > {0}/late; echo said $?' & echo $!",
        sandbox.outside().display()
    );
    let mut call = session.call(&sh(&script));
    assert_eq!(call.started(), 1);
    assert_eq!(call.ended(), Ended::Exited(0));
    assert_eq!(call.next(), None, "the caller is let go");
    std::fs::write(sandbox.workspace().join("go"), "").expect("write");
    let question = session.broker.question();
    assert_eq!(question.call.0, 1, "it is of its call still");
    session.broker.decide(&question, Outcome::Approved, Lifetime::Attempt);
    assert!(call.rest().contains("said 0"));
    assert!(sandbox.outside().join("late").exists());
}

fn terminal() {
    let sandbox = Sandbox::new();
    let session = Supervised::start(&sandbox);
    for (holds, script) in [
        (false, "tty; setsid sleep 1000 > /dev/null 2>&1 < /dev/null & exit 7"),
        // As a shell at the end of a login leaves them.
        (true, "tty; trap '' HUP; sleep 1000 & exit 7"),
    ] {
        let call = session.call_by(&sh(script), |start| start.on_terminal = [true; 3]);
        let received = call.link.receive().expect("a message").expect("a start");
        assert!(matches!(received.message, ToCaller::Started { .. }));
        let mut master = std::fs::File::from(received.fds.into_iter().next().expect("the master"));
        assert_eq!(call.ended(), Ended::Exited(7), "the caller is told, whoever holds the terminal");
        assert_eq!(call.next(), None);
        let mut shown = [0; 100];
        let length = std::io::Read::read(&mut master, &mut shown).expect("what was written");
        assert!(String::from_utf8_lossy(&shown[..length]).contains("/dev/pts/"), "what was written is there");
        if !holds {
            // EIO at its end, pty(7).
            let error = std::io::Read::read(&mut master, &mut shown).expect_err("nobody has it");
            assert_eq!(error.raw_os_error(), Some(libc::EIO));
        }
    }
}

fn signals() {
    let sandbox = Sandbox::new();
    let session = Supervised::start(&sandbox);
    let script = "trap 'exit 42' USR1; echo ready; while :; do sleep 0.02; done";
    let mut calls = [session.call(&sh(script)), session.call(&sh(script))];
    for call in &mut calls {
        call.started();
        assert_eq!(call.line(), "ready");
    }
    calls[1].link.send(&FromCaller::Signal(libc::SIGUSR1), &[]).expect("send");
    assert_eq!(calls[1].ended(), Ended::Exited(42));
    calls[0].link.send(&FromCaller::Signal(libc::SIGKILL), &[]).expect("send");
    assert_eq!(calls[0].ended(), Ended::Signaled(9));
    // A message that makes no sense there ends its call.
    let mut third = session.call(&sh("echo ready; exec sleep 1000"));
    third.started();
    assert_eq!(third.line(), "ready");
    let start = gated::common::wire::Start {
        command: vec![b"true".to_vec()],
        environment: Vec::new(),
        cwd: RawPath::from("/"),
        umask: 0,
        ignored_signals: 0,
        on_terminal: [false; 3],
        window: None,
        passed: Vec::new(),
    };
    third.link.send(&FromCaller::Start(Box::new(start)), &[]).expect("send");
    assert_eq!(third.rest(), "");
    assert_eq!(third.next(), None);
}

fn unfit() {
    use std::os::fd::AsFd;
    let sandbox = Sandbox::new();
    let session = Supervised::start(&sandbox);
    let elsewhere = session.call_by(&["true"], |start| start.cwd = RawPath::from("/tmp"));
    let said = elsewhere.next();
    assert!(matches!(&said, Some(ToCaller::Failed(text)) if text.contains("another one inside")), "{said:?}");
    let failed = |stdin: &std::fs::File, cwd: &std::fs::File| {
        let (ours, theirs) = gated::tool::link::pair().expect("a socket pair");
        let null = std::fs::File::open("/dev/null").expect("/dev/null");
        let start = gated::common::wire::Start {
            command: vec![b"true".to_vec()],
            environment: Vec::new(),
            cwd: RawPath::from(sandbox.workspace()),
            umask: 0,
            ignored_signals: 0,
            on_terminal: [false; 3],
            window: None,
            passed: Vec::new(),
        };
        let fds = [theirs.as_fd(), cwd.as_fd(), stdin.as_fd(), null.as_fd(), null.as_fd()];
        session.broker.link.send(&ToSession::Start(Box::new(start)), &fds).expect("send");
        drop(theirs);
        let link: gated::tool::link::Link<FromCaller, ToCaller> = gated::tool::link::Link::new(ours);
        format!("{:?}", link.receive().expect("a message").map(|received| received.message))
    };
    let (root, null) = (std::fs::File::open("/").expect("/"), std::fs::File::open("/dev/null").expect("/dev/null"));
    let workspace = std::fs::File::open(sandbox.workspace()).expect("open");
    assert!(failed(&root, &workspace).contains("stdin is a directory"));
    assert!(failed(&null, &null).contains("current directory is none"));
    // What is no socket, and too few: nobody to tell, and nothing else suffers.
    for fds in [vec![null.as_fd(); 5], vec![null.as_fd(); 1], vec![]] {
        let start = gated::common::wire::Start {
            command: vec![b"true".to_vec()],
            environment: Vec::new(),
            cwd: RawPath::from(sandbox.workspace()),
            umask: 0,
            ignored_signals: 0,
            on_terminal: [false; 3],
            window: None,
            passed: Vec::new(),
        };
        session.broker.link.send(&ToSession::Start(Box::new(start)), &fds).expect("send");
    }
    let mut call = session.call(&["echo", "fine"]);
    call.started();
    assert_eq!(call.rest(), "fine\n");
}

fn other_home() {
    let sandbox = Sandbox::new();
    let mut launch = launch(&sandbox, Ends::WhenStopped);
    launch.home = Some(RawPath::from(sandbox.outside()));
    let session = Supervised::launch(&sandbox, &launch);
    let said = session.broker.next();
    assert!(matches!(&said, Some(FromSession::Failed(text)) if text.contains("home")), "{said:?}");
    assert_eq!(session.broker.next(), None);
    assert!(session.pidfd.ends_within(SOON));
}

fn ends() {
    for stopped in [true, false] {
        let sandbox = Sandbox::new();
        let session = Supervised::start(&sandbox);
        let mut call = session.call(&sh("setsid sleep 1000 & echo ready; sleep 1000"));
        call.started();
        assert_eq!(call.line(), "ready");
        let all = crate::support::wait::descendants(session.pidfd.pid);
        assert!(all.len() >= 4, "init, leader, shell, sleeps");
        if stopped {
            session.broker.send(ToSession::Stop);
        } else {
            session.broker.link.close();
        }
        assert!(all.iter().chain([&session.pidfd]).all(|process| process.ends_within(SOON)), "everything ends");
    }
}

/// Without it the call could not be killed alone.
fn no_leader() {
    let sandbox = Sandbox::new();
    let session = Supervised::start(&sandbox);
    let mut call = session.call(&sh("setsid sleep 1000 & echo $$; exec sleep 1000"));
    call.started();
    let command = outer_pid(session.pidfd.pid, &call.line());
    let leader = crate::support::wait::parent_of(command.pid).expect("a leader");
    crate::support::PidFd::open(leader).expect("it lives").kill(libc::SIGKILL);
    assert!(command.ends_within(SOON) && session.pidfd.ends_within(SOON));
    assert_eq!(call.rest(), "", "and so does what is left of it");
}

fn authenticate() {
    let sandbox = Sandbox::new();
    let profile = crate::support::profiles::WORKSPACE.replace("write = \"ask\"", "write = \"authenticate\"");
    sandbox.profile(&profile);
    let session = Supervised::start(&sandbox);
    let script = format!("echo x > {}/proven && echo yes || echo no", sandbox.outside().display());
    for proven in [false, true] {
        let mut call = session.call(&sh(&script));
        let question = session.broker.question();
        assert_eq!(question.level.to_string(), "authenticate");
        session.broker.send(ToSession::Decided(gated::common::decision::Decision {
            request: question.id,
            outcome: Outcome::Approved,
            grant: None,
            authenticated: proven,
            by: "test".into(),
            edited: None,
        }));
        call.started();
        assert_eq!(call.rest().lines().next_back(), Some(if proven { "yes" } else { "no" }));
    }
}
