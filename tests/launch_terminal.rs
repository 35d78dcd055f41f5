//! `gated-run` on a terminal: the session's own pty, its size, ^C and ^Z, prompts, and the terminal as it was afterwards.

#[path = "support/mod.rs"]
mod support;

use std::ffi::OsString;
use std::time::Duration;

use support::terminal::Person;
use support::wait::DEADLINE;
use support::{Running, Sandbox, Side, wait};

/// Starts a command line with stdin, stdout and stderr on a new terminal.
fn on_terminal<'a>(sandbox: &'a Sandbox, argv: Vec<OsString>) -> (Person, Running<'a>) {
    let (person, slave) = Person::new();
    let mut line: Vec<OsString> = ["sh", "-c", "exec \"$@\" >&0 2>&0", "sh"].map(OsString::from).to_vec();
    line.extend(argv);
    let running = sandbox.start_line(Side::Gated, &line, Some(slave));
    (person, running)
}

fn gated<'a>(sandbox: &'a Sandbox, script: &str) -> (Person, Running<'a>) {
    on_terminal(sandbox, sandbox.gated_argv(&["sh", "-c", script]))
}

/// An interactive shell outside, and the line that runs `script` in a session.
fn in_a_shell<'a>(sandbox: &'a Sandbox, script: &str) -> (Person, Running<'a>, String) {
    let shell = ["env", "HISTFILE=", "PS1=prompt-> ", "INPUTRC=/dev/null", "bash", "--norc", "--noediting", "-i"];
    let (person, running) = on_terminal(sandbox, shell.map(OsString::from).to_vec());
    person.sees("prompt-> ");
    let quoted = |word: OsString| format!("'{}'", word.to_str().expect("UTF-8").replace('\'', "'\\''"));
    let line = sandbox.gated_argv(&["sh", "-c", script]).into_iter().map(quoted).collect::<Vec<_>>().join(" ");
    // An alias, so that what is typed holds nothing of what is waited for.
    let file = sandbox.control().join("run");
    std::fs::write(&file, format!("exec {line}\n")).expect("write");
    (person, running, format!("sh {}", file.display()))
}

#[test]
fn the_command_has_a_terminal_of_its_own_with_the_callers_size() {
    let sandbox = Sandbox::new();
    let (person, running) =
        gated(&sandbox, "tty; stty size; test -t 0 && test -t 1 && test -t 2 && : < /dev/tty && echo all; exit 4");
    let shown = person.sees_the_rest();
    assert_eq!(shown, "/dev/pts/0\r\n33 101\r\nall\r\n");
    running.finish().assert_code(4);
}

#[test]
fn a_new_size_reaches_the_command() {
    let sandbox = Sandbox::new();
    let (person, running) = gated(&sandbox, "trap 'stty size; exit 0' WINCH; echo ready; while :; do sleep 0.05; done");
    person.sees("ready");
    person.resizes(20, 55);
    person.sees("20 55");
    running.finish().assert_code(0);
}

#[test]
fn control_c_interrupts_the_command_and_not_gated_run() {
    let sandbox = Sandbox::new();
    let (person, running) = gated(&sandbox, "echo ready; read never");
    person.sees("ready");
    person.types("\x03");
    running.finish().assert_code(128 + libc::SIGINT);
    let (person, running) = gated(&sandbox, "trap 'echo caught; exit 6' INT; echo ready; while :; do sleep 0.05; done");
    person.sees("ready");
    person.types("\x03");
    person.sees("caught");
    running.finish().assert_code(6);
}

#[test]
fn all_output_is_shown_before_the_end() {
    let sandbox = Sandbox::new();
    let (person, running) = gated(&sandbox, "seq 1 60000; echo last");
    let shown = person.sees_the_rest();
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!((lines.len(), lines.last()), (60001, Some(&"last")));
    running.finish().assert_code(0);
}

#[test]
fn control_z_stops_the_job_and_fg_continues_it() {
    let sandbox = Sandbox::new();
    let (person, running, line) = in_a_shell(&sandbox, "stty -echo; echo ready; read word; echo got-$word");
    person.types(&format!("stty -g > before; {line}\r"));
    person.sees("ready");
    person.types("\x1a");
    person.sees("Stopped");
    person.sees("prompt-> ");
    person.types("stty -g | cmp - before && echo as-it-''was\r");
    person.sees("as-it-was");
    person.sees("prompt-> ");
    person.types("fg\r");
    person.sees("fg");
    person.types("word\r");
    person.sees("got-word");
    person.sees("prompt-> ");
    person.types("stty -g | cmp - before && echo as-it-''was\r");
    person.sees("as-it-was");
    person.types("exit 0\r");
    person.sees_the_rest();
    running.finish().assert_code(0);
}

#[test]
fn in_a_pipeline_the_terminal_is_left_to_others_until_the_command_reads_it() {
    let sandbox = Sandbox::new();
    let (person, running, line) = in_a_shell(&sandbox, "echo writ''ten; read word; echo got-$word");
    person.types(&format!("{line} | cat\r"));
    person.sees("written");
    person.types("word\r");
    person.sees("got-word");
    person.sees("prompt-> ");
    // The session writes to the pipe and never reads: the next program has every key.
    std::fs::write(sandbox.control().join("quiet"), {
        let argv = sandbox.gated_argv(&["sleep", "1000"]);
        argv.iter().map(|word| word.to_str().expect("UTF-8")).collect::<Vec<_>>().join(" ")
    })
    .expect("write");
    let quiet = sandbox.control().join("quiet");
    person.types(&format!(
        "sh {} | sh -c 'echo se''cond; read key < /dev/tty; echo key-$key; kill $PPID'\r",
        quiet.display()
    ));
    person.sees("second");
    person.types("mine\r");
    person.sees("key-mine");
    drop(person);
    running.finish();
}

#[test]
fn a_terminal_that_hangs_up_ends_the_session() {
    let sandbox = Sandbox::new();
    let (person, running) = gated(&sandbox, "echo ready; sleep 1000");
    person.sees("ready");
    let all = wait::descendants(running.pid());
    drop(person);
    assert!(all.iter().all(|process| process.ends_within(DEADLINE)), "everything ends");
    running.finish().assert_code(128 + libc::SIGHUP);
}

#[test]
fn a_prompt_holds_the_output_of_the_tool_and_takes_the_keys() {
    let mut sandbox = Sandbox::new();
    let file = sandbox.outside().join("file");
    let script = format!(
        "(while :; do echo noise; sleep 0.01; done) & stty -echo; echo data > {} && echo made; read word; echo got-$word",
        file.display()
    );
    sandbox.consent("tty");
    let (person, running) = gated(&sandbox, &script);
    person.sees("Type a key");
    // Nothing is taken in the first half second.
    std::thread::sleep(Duration::from_millis(700));
    person.types("o");
    std::thread::sleep(Duration::from_millis(100));
    let while_open = person.sees("o");
    assert!(!while_open.contains("noise"), "{while_open:?}");
    person.types("\r");
    person.sees("made");
    person.sees("noise");
    person.types("word\r");
    person.sees("got-word");
    person.sees_the_rest();
    running.finish().assert_code(0);
    assert_eq!(std::fs::read_to_string(file).expect("the file was made"), "data\n");
}

/// What is written at the prompt of gated-run's own command is judged as if it had been given: asked again, allowed, denied.
#[test]
fn a_command_is_changed_before_it_starts() {
    let mut sandbox = Sandbox::new();
    sandbox.profile(support::profiles::ASKS_FOR_ECHO);
    sandbox.consent("tty");
    let run = |last: &dyn Fn(&Person)| {
        let (person, running) = on_terminal(&sandbox, sandbox.gated_argv(&["/usr/bin/echo", "the first"]));
        person.sees("gated-run was told to run this command");
        person.sees("/usr/bin/echo 'the first'");
        person.sees("s] > ");
        person.types("e");
        person.sees("> e");
        person.types("\r");
        person.sees("> /usr/bin/echo 'the first'");
        last(&person);
        (person.sees_the_rest(), running.finish())
    };
    let (rest, outcome) = run(&|person| {
        person.types("\x17\x17'the second'");
        person.sees("> /usr/bin/echo 'the second'");
        person.types("\r");
        // Asked again, and about what was written.
        person.sees("/usr/bin/echo 'the second'");
        person.sees("s] > ");
        person.types("o\r");
    });
    assert!(rest.ends_with("the second\r\n") && !rest.contains("the first"), "{rest:?}");
    outcome.assert_code(0);
    let (rest, outcome) = run(&|person| {
        person.types("\x15printf %s allowed");
        person.sees("> printf %s allowed");
        person.types("\r");
    });
    assert!(rest.ends_with("allowed"), "{rest:?}");
    outcome.assert_code(0);
    let (rest, outcome) = run(&|person| {
        person.types("\x15id -u");
        person.sees("> id -u");
        person.types("\r");
    });
    assert!(rest.contains("gated: denied: run id -u (/usr/bin/id)"), "{rest:?}");
    assert!(rest.contains("gated-run: cannot execute id: "), "{rest:?}");
    assert_ne!(outcome.status.code(), Some(0));
    let records = std::fs::read_to_string(sandbox.audit_file()).expect("the log");
    let edited: Vec<serde_json::Value> = records
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .filter(|record: &serde_json::Value| record["result"] == "edited")
        .collect();
    assert_eq!(edited.len(), 3, "{records}");
    assert_eq!(edited[0]["exec"]["argv"], serde_json::json!(["/usr/bin/echo", "the first"]));
    assert_eq!(edited[0]["edited"], serde_json::json!(["/usr/bin/echo", "the second"]));
    assert_eq!(edited[0]["exec"]["first"], true);
}

#[test]
fn a_command_that_a_tool_runs_is_asked_for_with_its_words_and_callers() {
    let mut sandbox = Sandbox::new();
    sandbox.profile(support::profiles::ASKS_FOR_ECHO);
    sandbox.consent("tty");
    let (person, running) = gated(&sandbox, "sh -c '/usr/bin/echo \"a  b\"; true'; true");
    person.sees("wants to run this command");
    person.sees("/usr/bin/echo 'a  b'");
    let shown = person.sees("s] > ");
    assert!(shown.contains("called by") && !shown.contains("e = edit"), "{shown:?}");
    person.types("o\r");
    person.sees("a  b");
    person.sees_the_rest();
    running.finish().assert_code(0);
}

#[test]
fn a_prompt_of_a_session_that_has_ended_is_taken_back() {
    let mut sandbox = Sandbox::new();
    sandbox.consent("tty");
    let script = format!("echo data > {} & read word; exit 3", sandbox.outside().join("file").display());
    let (person, running) = gated(&sandbox, &script);
    person.sees("Type a key");
    let command = wait::descendants(running.pid()).into_iter().find(|one| {
        comm(one.pid) == "sh\n" && wait::parent_of(one.pid).is_some_and(|parent| comm(parent) == "gated-session\n")
    });
    command.expect("the command").kill(libc::SIGKILL);
    person.sees_the_rest();
    running.finish().assert_code(128 + libc::SIGKILL);
    assert!(!sandbox.outside().join("file").exists());
}

fn comm(pid: i32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default()
}
