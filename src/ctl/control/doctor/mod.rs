//! `doctor`: what gated needs and whether it is here, what is enforced and what is not, in plain words with what to do. Runs
//! as the caller; asks the kernel and the bus instead of believing versions.

mod kernel;
mod services;

use std::io::{self, Write};

use serde::Serialize;

use super::failure::Failure;
use super::output::Output;
use super::table::{Cell, flowed, write_indented};
use crate::common::text;

/// How one thing stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    Ok,
    /// Works, but not all of it, or it could not be found out.
    Note,
    /// Needed, and not there.
    Missing,
}

/// One thing that was looked at.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    /// Stable, for programs.
    pub name: &'static str,
    pub state: State,
    pub found: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

impl Check {
    fn ok(name: &'static str, found: impl Into<String>) -> Check {
        Check { name, state: State::Ok, found: found.into(), advice: None }
    }

    fn note(name: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Check {
        Check { name, state: State::Note, found: found.into(), advice: Some(advice.into()) }
    }

    fn missing(name: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Check {
        Check { name, state: State::Missing, found: found.into(), advice: Some(advice.into()) }
    }
}

/// Something that people expect of a sandbox, and whether it holds on this machine.
#[derive(Clone, Debug, Serialize)]
struct Promise {
    holds: bool,
    what: &'static str,
    how: &'static str,
}

#[derive(Serialize)]
struct Report<'a> {
    ok: bool,
    checks: &'a [Check],
    enforced: &'a [Promise],
}

pub async fn doctor(output: &Output) -> Result<(), Failure> {
    let mut checks = kernel::checks();
    let can_enforce = checks.iter().all(|check| check.state != State::Missing);
    checks.extend(services::checks().await);
    let ok = checks.iter().all(|check| check.state != State::Missing);
    let enforced = promises(can_enforce, is_good(&checks, "cgroups") && is_good(&checks, "units"));
    if output.json {
        output.json(&Report { ok, checks: &checks, enforced: &enforced })?;
    } else {
        write(&mut io::stdout().lock(), output.width.unwrap_or(100), &checks, &enforced)?;
    }
    if ok { Ok(()) } else { Err(Failure::Unhealthy) }
}

fn is_good(checks: &[Check], name: &str) -> bool {
    checks.iter().any(|check| check.name == name && check.state == State::Ok)
}

/// What sessions of this version do on this machine; docs/threat-model.md has the whole of it.
fn promises(can_enforce: bool, has_limits: bool) -> Vec<Promise> {
    let promise = |holds, what, how| Promise { holds, what, how };
    if !can_enforce {
        return vec![promise(false, "anything", "something that the kernel must have is missing; no session starts")];
    }
    vec![
        promise(
            true,
            "changes of files outside of the scope",
            "held by the kernel until somebody answers, then done for the tool; without an answer nothing happens",
        ),
        promise(true, "what is left if gated dies", "a tool without the right to change anything outside its scratch"),
        promise(
            true,
            "the network, with network = \"own\"",
            "a session reaches no address but its own loopback, no service of the host, and no bus",
        ),
        promise(false, "the network, with network = \"host\"", "connections are neither held nor asked about"),
        promise(
            true,
            "programs that the profile speaks about",
            "execve is held, judged by the program and its arguments, and compared before the first instruction",
        ),
        promise(
            true,
            "files that the profile guards against reading",
            "the kernel holds each open; everything else is read at full speed, without a question",
        ),
        promise(
            false,
            "what a program does in its own memory",
            "code that a tool brings along, or gives to an interpreter, runs without another execve; what it changes is held",
        ),
        promise(
            has_limits,
            "limits of memory, processors and tasks",
            if has_limits {
                "where a drop-in of gated-session@.service.d sets them"
            } else {
                "need systemd as PID 1 and cgroups of version 2"
            },
        ),
    ]
}

fn write(to: &mut dyn Write, width: usize, checks: &[Check], promises: &[Promise]) -> io::Result<()> {
    let label = checks.iter().map(|check| check.name.len()).max().unwrap_or(0);
    for check in checks {
        let state = match check.state {
            State::Ok => "ok",
            State::Note => "note",
            State::Missing => "MISSING",
        };
        flow(to, width, &format!("{state:<7}  {:<label$}  ", check.name), &Cell::own(&*check.found).shown(None))?;
        if let Some(advice) = &check.advice {
            flow(to, width, &format!("{:<7}  {:<label$}  -> ", "", ""), &Cell::own(&**advice).shown(None))?;
        }
    }
    writeln!(to, "\nWhat is enforced here, and what is not:")?;
    for promise in promises {
        let holds = if promise.holds { "yes" } else { "no" };
        flow(to, width, &format!("  {holds:<3}  "), &format!("{}: {}", promise.what, promise.how))?;
    }
    Ok(())
}

fn flow(to: &mut dyn Write, width: usize, before: &str, words: &str) -> io::Result<()> {
    let indent = text::columns(before);
    write_indented(to, before, indent, &flowed(words, width.saturating_sub(indent).max(20)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_says_what_is_missing_and_what_to_do_within_its_width() {
        let checks = [
            Check::ok("kernel", "Linux 6.18"),
            Check::missing(
                "daemon",
                "nobody owns org.gated.Gated1",
                "systemctl enable --now gatedd, and look again at what it says",
            ),
        ];
        let mut text = Vec::new();
        write(&mut text, 60, &checks, &promises(true, false)).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("MISSING  daemon  nobody owns") && text.contains("-> systemctl enable"), "{text}");
        assert!(text.lines().all(|line| text::columns(line) <= 60), "{text}");
        assert!(promises(false, true).iter().all(|promise| !promise.holds));
    }
}
