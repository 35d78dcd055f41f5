//! What a run left: its end, its output, and gated's own records of it.

use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use serde_json::Value;

pub struct Outcome {
    /// `gated-run --embedded` or `bare`, and the command.
    pub title: String,
    pub status: ExitStatus,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    /// The lines of the events file; empty for a bare run.
    pub events: Vec<Value>,
    /// The lines of the audit log; empty for a bare run.
    pub audit: Vec<Value>,
}

impl Outcome {
    /// The exit code, or 128 and the signal as a shell has it.
    pub fn code(&self) -> i32 {
        self.status.code().or_else(|| self.status.signal().map(|signal| 128 + signal)).unwrap_or(-1)
    }

    pub fn out(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    pub fn err(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// Lines of stdout that start with `key` and a space, without it.
    pub fn values(&self, key: &str) -> Vec<String> {
        self.out().lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix(' ').map(str::to_owned)).collect()
    }

    /// The one line `key NUMBER` of stdout.
    #[track_caller]
    pub fn number(&self, key: &str) -> i64 {
        match self.values(key).as_slice() {
            [one] => one.parse().unwrap_or_else(|_| panic!("`{key} {one}` is no number\n{self}")),
            other => panic!("{} lines `{key} ...` on stdout\n{self}", other.len()),
        }
    }

    /// Events of this `event` name.
    pub fn events_of<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Value> + 'a {
        self.events.iter().filter(move |event| event["event"] == name)
    }

    #[track_caller]
    pub fn assert(&self, holds: bool, what: &str) {
        assert!(holds, "{what}\n{self}");
    }

    #[track_caller]
    pub fn assert_code(&self, code: i32) {
        assert_eq!(self.code(), code, "exit code\n{self}");
    }
}

fn section(f: &mut fmt::Formatter<'_>, name: &str, text: &str) -> fmt::Result {
    const MOST: usize = 40;
    let lines: Vec<&str> = text.lines().collect();
    if lines.len() > MOST {
        writeln!(f, "  {name}: the last {MOST} of {} lines", lines.len())?;
    } else if !lines.is_empty() {
        writeln!(f, "  {name}:")?;
    }
    lines.iter().skip(lines.len().saturating_sub(MOST)).try_for_each(|line| writeln!(f, "    {line}"))
}

fn records(values: &[Value]) -> String {
    values.iter().map(|value| format!("{value}\n")).collect()
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n  ended: {}", self.title, self.status)?;
        section(f, "stdout", &self.out())?;
        section(f, "stderr", &self.err())?;
        section(f, "events", &records(&self.events))?;
        section(f, "audit", &records(&self.audit))
    }
}
