//! Attack 34: hostile names in what a person reads: events, audit log, the lines at the end.

use std::fs;
use std::os::unix::process::CommandExt;
use std::time::{Duration, Instant};

use crate::engine;
use crate::raw::{self, AT_FDCWD, sys, text};
use crate::support::{Sandbox, Side, terminal, until};
use crate::{Inside, Test};

pub const TESTS: &[Test] = &[
    ("hostile_names_are_shown_escaped_and_short", hostile_names),
    ("a_hostile_name_draws_nothing_on_the_terminal_of_the_prompt", hostile_prompt),
];

pub const INSIDE: &[Inside] = &[("hostile-names", hostile_names_inside), ("hostile-ask", hostile_ask_inside)];

const HOSTILE: &[&[u8]] = &[
    b"clear\x1b[2J\x1b[1;1Hscreen",
    b"two\nlines: allowed",
    b"\r overwritten",
    b"bell\x07 and \x08\x08\x08 back",
    b"c1 \xc2\x9b31m red",
    "right \u{202e}gnp.exe".as_bytes(),
    "isolate \u{2066}x\u{2069}".as_bytes(),
    "zero\u{200b}width".as_bytes(),
    b"not \xff\xfe utf-8",
    b"<b>markup</b>&amp;",
    b"\"quoted\" \\ 'and'",
];

fn hostile_names_inside(args: &[String]) {
    if args.is_empty() {
        // Once more with a hostile argv[0] and argument.
        let error = std::process::Command::new("/proc/self/exe")
            .arg0("evil\x1b[2J\n\u{202e}")
            .args(["--inside", "hostile-names", "again\x1b[31m\n\u{202e}"])
            .exec();
        panic!("exec: {error}");
    }
    for name in HOSTILE {
        let mut path = raw::outside("").into_bytes();
        path.push(b'/');
        path.extend_from_slice(name);
        raw::say_result("result", sys(libc::SYS_mkdirat, [AT_FDCWD, text(path.clone()).at(), 0o755]));
        // As the text of a link too.
        raw::say_result("result", sys(libc::SYS_symlinkat, [text(*name).at(), AT_FDCWD, text(raw::outside("l")).at()]));
    }
    let long = format!("{}{}", raw::outside(""), "/long".repeat(700));
    raw::say_result("result", raw::open(&long, libc::O_WRONLY | libc::O_CREAT));
}

fn hostile_names() {
    if !engine::gated_too() {
        return;
    }
    let sandbox = Sandbox::new();
    let outcome = engine::attack(&sandbox, Side::Gated, "hostile-names", &[]);
    outcome.assert(outcome.values("result").iter().all(|result| !result.starts_with("ok")), "all were refused");
    outcome
        .assert(outcome.events.len() > HOSTILE.len() && outcome.audit.len() > HOSTILE.len(), "all are in the records");
    let files = [
        ("stderr", outcome.stderr.clone()),
        ("events", fs::read(sandbox.events_file()).expect("the events")),
        ("audit", fs::read(sandbox.audit_file()).expect("the audit log")),
    ];
    for (name, bytes) in files {
        let text = String::from_utf8(bytes).unwrap_or_else(|error| panic!("{name} is no UTF-8: {error}\n{outcome}"));
        for line in text.lines() {
            let bad = line.chars().find(|c| c.is_control() || is_format(*c));
            assert!(bad.is_none(), "{name} holds a raw {bad:?}: {line:?}\n{outcome}");
        }
    }
    for line in outcome.err().lines() {
        outcome.assert(line.chars().count() <= 1000, "the lines at the end are short");
    }
}

/// Asks for one object with every hostile name in its path.
fn hostile_ask_inside(_: &[String]) {
    // One component: a slash of a name becomes something else.
    let hostile = HOSTILE.concat().into_iter().map(|byte| if byte == b'/' { b'_' } else { byte });
    let path: Vec<u8> = raw::outside("").into_bytes().into_iter().chain(hostile).collect();
    raw::say_result("result", sys(libc::SYS_mkdirat, [AT_FDCWD, text(path).at(), 0o755]));
}

/// A person sits at the terminal and says no.
fn hostile_prompt() {
    if !engine::gated_too() {
        return;
    }
    let mut sandbox = Sandbox::new();
    sandbox.consent("tty");
    let (master, slave) = terminal::pty();
    let line = sandbox.gated_argv(&sandbox.inside::<&str>("hostile-ask", &[]));
    let running = sandbox.start_line(Side::Gated, &line, Some(slave));
    let mut screen = Vec::new();
    until("the question is asked", || {
        terminal::read_screen(&master, &mut screen);
        running.events_so_far().iter().any(|event| event["event"] == "consent_required").then_some(())
    });
    // What is typed before the prompt is drawn does not count: type again, as a person would, until it does.
    let mut typed = Instant::now();
    until("the no is taken", || {
        terminal::read_screen(&master, &mut screen);
        if typed.elapsed() > Duration::from_secs(1) {
            terminal::type_keys(&master, "d\r");
            typed = Instant::now();
        }
        running.events_so_far().iter().any(|event| event["event"] == "consent_decided").then_some(())
    });
    until("the end", || {
        terminal::read_screen(&master, &mut screen);
        running.so_far().contains("ran hostile-ask").then_some(())
    });
    let outcome = running.finish();
    let drawn = String::from_utf8_lossy(&screen);
    outcome.assert(drawn.contains("outside"), &format!("the object was shown: {drawn:?}"));
    for raw in ["\x1b[2J\x1b[1;1Hscreen", "\r overwritten", "\x07", "\u{9b}31m", "\u{202e}", "\u{2066}", "\u{200b}"] {
        outcome.assert(!drawn.contains(raw), &format!("{raw:?} was drawn raw: {drawn:?}"));
    }
    outcome.assert(outcome.values("result").iter().all(|result| !result.starts_with("ok")), "no was no");
}

/// What turns or hides text, Unicode Cf of the bidirectional and invisible kind.
fn is_format(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}
