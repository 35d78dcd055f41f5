//! `gated-run` of an ordinary user through a real `gatedd` on a bus of the test's own: the caller's files and terminal, its
//! signals, further calls of a session, and what ends a call. Needs root, as the daemon does.

#[path = "support/mod.rs"]
mod support;

use std::ffi::OsString;
use std::fs;
use std::time::Duration;

use support::served::Served;
use support::terminal::Person;
use support::{Side, until, user, wait};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_users_command_has_the_users_files_conditions_and_exit_status() {
    let served = Served::new();
    let _daemon = served.daemon();
    let script = "id -u; id -G; pwd; umask; echo err >&2; test -n \"$GATED_SESSION\"; echo hello > made; exit 7";
    let outcome = served.run(&["sh", "-c", script]);
    let workspace = served.sandbox.workspace();
    let expected = format!("{}\n{} {}\n{}\n0022\n", user::UID, user::GID, user::EXTRA_GID, workspace.display());
    assert_eq!((text(&outcome.stdout), text(&outcome.stderr)), (expected, "err\n".to_owned()));
    outcome.assert_code(7);
    assert_eq!(fs::read_to_string(workspace.join("made")).unwrap(), "hello\n");
    served.run(&["sh", "-c", "kill -KILL $$"]).assert_code(128 + libc::SIGKILL);
    served.run(&["./made"]).assert_code(126);
    served.run(&["no-such-command"]).assert_code(127);
}

#[test]
fn what_is_not_granted_is_denied_and_told_with_its_end() {
    let served = Served::new();
    let _daemon = served.daemon();
    let events = served.sandbox.workspace().join("../events.jsonl");
    let target = served.sandbox.outside().join("x");
    let script = format!("echo no > {}", target.display());
    let answers = served.sandbox.home().join("answers.toml");
    served.sandbox.file(&answers, "[[answer]]\nanswer = \"deny\"\n");
    let consent = format!("script:{}", answers.display());
    let outcome = served.run(&["--consent", &consent, "--events", events.to_str().unwrap(), "sh", "-c", &script]);
    let line = format!(
        "gated: denied: write {}: the person who was asked said no; this is final, do not retry",
        target.display()
    );
    assert!(text(&outcome.stderr).lines().any(|told| told == line), "{outcome}");
    assert!(!target.exists());
    let events = fs::read_to_string(events).unwrap();
    let kinds = ["call_started", "consent_required", "consent_decided", "call_ended"];
    assert!(kinds.iter().all(|kind| events.contains(&format!("\"event\":\"{kind}\""))), "{events}");
}

#[test]
fn a_script_of_answers_lets_through_what_it_says() {
    let served = Served::new();
    let _daemon = served.daemon();
    let target = served.sandbox.outside().join("x");
    let answers = served.sandbox.home().join("answers.toml");
    served.sandbox.file(&answers, &format!("[[answer]]\nobject = \"{}\"\nanswer = \"once\"\n", target.display()));
    let consent = format!("script:{}", answers.display());
    let script = format!("echo yes > {0} && echo no > {0}2", target.display());
    let outcome = served.run(&["--consent", &consent, "sh", "-c", &script]);
    assert_eq!(fs::read_to_string(&target).unwrap(), "yes\n", "{outcome}");
    assert!(!target.with_file_name("x2").exists());
}

#[test]
fn pipes_carry_bytes_and_signals_reach_the_command() {
    let served = Served::new();
    let _daemon = served.daemon();
    let running =
        served.start(&["sh", "-c", "trap 'echo caught; exit 6' USR1; echo ready; while :; do sleep 0.05; done"]);
    until("the command", || running.so_far().contains("ready").then_some(()));
    // SAFETY: a child of ours that was not waited for.
    unsafe { libc::kill(running.pid(), libc::SIGUSR1) };
    let outcome = running.finish();
    assert_eq!(text(&outcome.stdout), "ready\ncaught\n");
    outcome.assert_code(6);
}

#[test]
fn a_killed_gated_run_takes_its_call_with_it() {
    let served = Served::new();
    let _daemon = served.daemon();
    let running = served.start(&["sh", "-c", "sleep 1000 & setsid sleep 1000 & echo ready; wait"]);
    until("the command", || running.so_far().contains("ready").then_some(()));
    let mark = served.sandbox.root().to_owned();
    let sleepers = || {
        let found = served.sandbox.processes();
        let is_sleep =
            |pid: i32| fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.starts_with(b"sleep\x001000\0"));
        found.into_iter().filter(|process| is_sleep(process.pid)).collect::<Vec<wait::PidFd>>()
    };
    let alive = until("both", || Some(sleepers()).filter(|all| all.len() == 2));
    running.pidfd.kill(libc::SIGKILL);
    for process in &alive {
        assert!(process.ends_within(wait::DEADLINE), "{} of {} lives on", process.pid, mark.display());
    }
}

#[test]
fn on_a_terminal_the_command_has_one_of_its_own() {
    let served = Served::new();
    let _daemon = served.daemon();
    let (person, running) = served.on_terminal(&[
        "sh",
        "-c",
        "tty; stty size; trap 'stty size; exit 4' WINCH; echo ready; while :; do sleep 0.05; done",
    ]);
    assert!(person.sees("ready").ends_with("/dev/pts/0\r\n33 101\r\nready"));
    person.resizes(20, 55);
    person.sees("20 55");
    running.finish().assert_code(4);
    let (person, running) = served.on_terminal(&["sh", "-c", "echo ready; read never"]);
    person.sees("ready");
    person.types("\x03");
    running.finish().assert_code(128 + libc::SIGINT);
}

#[test]
fn control_z_stops_the_job_and_fg_continues_it() {
    let served = Served::new();
    let _daemon = served.daemon();
    let (person, slave) = Person::new();
    let shell = ["env", "HISTFILE=", "PS1=prompt-> ", "INPUTRC=/dev/null", "bash", "--norc", "--noediting", "-i"];
    let mut line: Vec<OsString> = ["sh", "-c", "exec \"$@\" >&0 2>&0", "sh"].map(OsString::from).to_vec();
    line.extend(shell.map(OsString::from));
    let running = served.sandbox.start_line(Side::Bare, &line, Some(slave));
    person.sees("prompt-> ");
    let quoted = |word: OsString| format!("'{}'", word.to_str().unwrap().replace('\'', "'\\''"));
    let script = "echo rea''dy; read word; echo got $word";
    let line = served.line(&["sh", "-c", script]).into_iter().map(quoted).collect::<Vec<_>>().join(" ");
    let file = served.sandbox.home().join("run");
    served.sandbox.file(&file, &format!("exec {line}\n"));
    person.types(&format!("sh {}\n", file.display()));
    person.sees("ready");
    person.types("\x1a");
    person.sees("Stopped");
    person.sees("prompt-> ");
    person.types("fg\n");
    person.sees("run");
    person.types("word\n");
    person.sees("got word");
    person.sees("prompt-> ");
    person.types("exit\n");
    running.finish();
}

#[test]
fn a_person_at_the_terminal_is_asked_there() {
    let served = Served::new();
    let _daemon = served.daemon();
    let target = served.sandbox.outside().join("asked");
    let (person, running) = served.on_terminal(&["sh", "-c", &format!("echo yes > {}; echo done", target.display())]);
    person.sees("wants to create this file");
    person.sees("> ");
    // Nothing counts in the first half second.
    std::thread::sleep(Duration::from_millis(700));
    person.types("o\r");
    person.sees("done");
    running.finish().assert_code(0);
    assert_eq!(fs::read_to_string(target).unwrap(), "yes\n");
}

#[test]
fn a_command_is_changed_by_the_gated_run_that_it_was_given_to() {
    let served = Served::new();
    let _daemon = served.daemon();
    let profile = served.sandbox.root().join("asks.toml");
    fs::write(&profile, support::profiles::ASKS_FOR_ECHO).unwrap();
    let profile = profile.to_str().unwrap();
    let (person, running) =
        served.on_terminal(&["--profile", profile, "--", "/usr/bin/echo", "--token=hidden", "the first"]);
    person.sees("gated-run was told to run this command");
    // Over the bus secrets are masked.
    person.sees("/usr/bin/echo '--token=***' 'the first'");
    person.sees("s] > ");
    person.types("e");
    person.sees("> e");
    person.types("\r");
    person.sees("> /usr/bin/echo --token=hidden 'the first'");
    person.types("\x17\x17more");
    person.sees("--token=hidden more");
    person.types("\r");
    person.sees("/usr/bin/echo '--token=***' more");
    person.sees("s] > ");
    // Once more, from what was written last.
    person.types("e");
    person.sees("> e");
    person.types("\r");
    person.sees("> /usr/bin/echo --token=hidden more");
    person.types(" and more");
    person.sees("more and more");
    person.types("\r");
    person.sees("'--token=***' more and more");
    person.sees("s] > ");
    person.types("o\r");
    assert!(person.sees_the_rest().ends_with("--token=hidden more and more\r\n"));
    running.finish().assert_code(0);
    let records = fs::read_to_string(served.sandbox.control().join("records/audit.jsonl")).unwrap();
    assert_eq!(records.matches("\"result\":\"edited\"").count(), 2, "{records}");
    assert!(!records.contains("hidden"), "{records}");
}

#[test]
fn calls_are_added_to_a_session_from_outside_and_from_inside() {
    let served = Served::new();
    let _daemon = served.daemon();
    let opened = served.run(&["--new-session"]);
    let session = text(&opened.stdout).trim().to_owned();
    assert_eq!((session.len(), text(&opened.stderr)), (8, String::new()), "{opened}");
    // They share what the session has for itself.
    served.run(&["--session", &session, "sh", "-c", "echo $GATED_SESSION > /tmp/mark"]).assert_code(0);
    let second = served.run(&["--session", &session, "cat", "/tmp/mark"]);
    assert_eq!(text(&second.stdout), format!("{session}\n"), "{second}");

    let program = served.program();
    let inner = format!("{} sh -c 'echo inner $GATED_SESSION; cat /tmp/mark; exit 9'; echo $?", program.display());
    let nested = served.run(&["--session", &session, "sh", "-c", &inner]);
    assert_eq!(text(&nested.stdout), format!("inner {session}\n{session}\n9\n"), "{nested}");
    for option in ["--embedded", "--new-session"] {
        let refused = served.run(&[
            "sh",
            "-c",
            &format!("{} {option} {}", program.display(), if option == "--embedded" { "true" } else { "" }),
        ]);
        assert!(text(&refused.stderr).contains("is not for a command inside a session"), "{refused}");
        refused.assert_code(125);
    }
    let unknown = served.run(&["--session", "ffffffff", "true"]);
    assert!(text(&unknown.stderr).contains("there is no session ffffffff of yours"), "{unknown}");
    unknown.assert_code(125);
}

#[test]
fn inside_a_session_a_terminal_is_passed_on() {
    let served = Served::new();
    let _daemon = served.daemon();
    let inner = format!(
        "{} sh -c 'tty; stty size; echo in; read word; echo got $word; exit 5'; echo status $?",
        served.program().display()
    );
    let (person, running) = served.on_terminal(&["sh", "-c", &inner]);
    let shown = person.sees("in\r\n");
    assert!(shown.contains("/dev/pts/1\r\n33 101"), "{shown}");
    person.types("word\r");
    person.sees("got word");
    person.sees("status 5");
    running.finish().assert_code(0);
}

#[test]
fn the_call_outlives_a_killed_daemon_and_is_asked_for_by_the_next() {
    let served = Served::new();
    let daemon = served.daemon();
    let answers = served.sandbox.home().join("answers.toml");
    served.sandbox.file(&answers, "[[answer]]\nanswer = \"once\"\n");
    let consent = format!("script:{}", answers.display());
    let (go, target) = (served.sandbox.workspace().join("go"), served.sandbox.outside().join("late"));
    let script = format!(
        "echo ready; while ! test -e {}; do sleep 0.05; done; echo late > {}; echo $?; exit 3",
        go.display(),
        target.display()
    );
    let running = served.start(&["--consent", &consent, "sh", "-c", &script]);
    until("the command", || running.so_far().contains("ready").then_some(()));
    daemon.0.pidfd.kill(libc::SIGKILL);
    assert!(daemon.0.pidfd.ends_within(wait::DEADLINE));
    drop(daemon);
    let _next = served.daemon();
    // The new daemon has the agent again once gated-run has seen it; an attempt before is held until then, or denied.
    served.sandbox.file(&go, "");
    let outcome = running.finish();
    assert_eq!(text(&outcome.stdout), "ready\n0\n", "{outcome}");
    outcome.assert_code(3);
    assert_eq!(fs::read_to_string(target).unwrap(), "late\n");
}

#[test]
fn whom_the_ceiling_does_not_name_is_told_so() {
    let served = Served::new();
    let ceiling = served.sandbox.control().join("policy/etc/gated/ceiling.toml");
    fs::write(ceiling, "schema = 1\n[users]\nmay_run = []\n").unwrap();
    let _daemon = served.daemon();
    let outcome = served.run(&["true"]);
    assert!(text(&outcome.stderr).contains("you may not start sessions here"), "{outcome}");
    assert_eq!(text(&outcome.stderr).lines().count(), 1);
    outcome.assert_code(125);
}

#[test]
fn a_users_own_profile_is_used_and_a_broken_one_is_told_with_its_place() {
    let served = Served::new();
    let _daemon = served.daemon();
    let own = served.sandbox.home().join(".config/gated/profiles/mine.toml");
    served.sandbox.file(&own, "schema = 1\n[profile]\nname = \"mine\"\n[defaults]\nwrite = \"deny\"\n");
    let outcome = served.run(&["--profile", "mine", "sh", "-c", "echo x > made"]);
    assert!(text(&outcome.stderr).contains("it is not permitted here"), "{outcome}");
    assert!(!served.sandbox.workspace().join("made").exists());
    served.sandbox.file(&own, "schema = 1\n[profile]\nname = \"mine\"\nnonsense = 1\n");
    let broken = served.run(&["--profile", "mine", "true"]);
    assert!(text(&broken.stderr).contains("mine") && text(&broken.stderr).contains(":4:"), "{broken}");
    broken.assert_code(125);
}

#[test]
fn root_may_run_as_another_user_and_sudo_is_the_person_who_called_it() {
    let served = Served::new();
    let _daemon = served.daemon();
    let outcome = served
        .sandbox
        .start_line(Side::Gated, &served.line(&["--user", user::NAME, "sh", "-c", "id -u; echo $HOME"]), None)
        .finish();
    let expected = format!("{}\n{}\n", user::UID, served.sandbox.home().display());
    assert_eq!(text(&outcome.stdout), expected, "{outcome}");
    let mut line: Vec<OsString> = vec!["env".into()];
    for (name, value) in
        [("SUDO_UID", user::UID.to_string()), ("SUDO_GID", user::GID.to_string()), ("SUDO_USER", user::NAME.into())]
    {
        line.push(format!("{name}={value}").into());
    }
    line.extend(served.line(&["sh", "-c", "id -u; env | grep -c SUDO"]));
    let outcome = served.sandbox.start_line(Side::Gated, &line, None).finish();
    assert_eq!(text(&outcome.stdout), format!("{}\n0\n", user::UID), "{outcome}");
}
