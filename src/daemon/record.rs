//! What audit log and events say about a tool and a rule. Text of the tool is in the notation of [`crate::common::text`],
//! secrets in argv are `***`.

use std::net::IpAddr;

use serde::Serialize;

use crate::common::exec::Execution;
use crate::common::mask;
use crate::common::net::{Destination, Zone};
use crate::common::path::RawPath;
use crate::common::request::{RuleRef, Who};
use crate::common::text::{self, Untrusted};

/// Columns of one word of argv that a record keeps.
const WORD: usize = 1024;
/// Columns of a path that a record keeps: more than PATH_MAX bytes, each escaped, never take.
const PATH: usize = 4 * 4200;

/// The process behind an attempt.
#[derive(Clone, Debug, Serialize)]
pub struct Tool {
    pub pid: i32,
    pub program: String,
    pub argv: Vec<String>,
    pub cwd: String,
}

impl Tool {
    pub fn of(who: &Who) -> Tool {
        Tool { pid: who.pid, program: path(&who.program), argv: argv(&who.argv), cwd: path(&who.cwd) }
    }
}

/// The rule behind a verdict; its reason is the profile's business and not recorded.
#[derive(Clone, Debug, Serialize)]
pub struct Rule {
    pub profile: String,
    pub id: String,
    pub file: String,
    /// From 1; 0 where there is no line.
    pub line: u32,
}

impl Rule {
    pub fn of(rule: &RuleRef) -> Rule {
        Rule { profile: rule.profile.clone(), id: rule.id.clone(), file: rule.file.clone(), line: rule.line }
    }
}

/// Words of a command that a record keeps, and columns of all of them, one more counted for each.
const WORDS: usize = 256;
const COMMAND: usize = 16 << 10;

/// Names of an address that a record keeps.
const NAMES: usize = 16;

/// What would run, or would have run.
#[derive(Clone, Debug, Serialize)]
pub struct Exec {
    pub argv: Vec<String>,
    /// Words that are not in `argv`.
    #[serde(skip_serializing_if = "is_zero")]
    pub words_left_out: u32,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub interpreters: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub variables: Vec<String>,
    /// Whether it was written during the session.
    pub new: bool,
    /// Whether it is the command that gated-run was given.
    pub first: bool,
    /// Programs of the processes above the one that asks, its parent first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parents: Vec<String>,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Exec {
    pub fn of(execution: &Execution) -> Exec {
        let (argv, left_out) = command(&execution.argv);
        let (variables, _) = kept(mask::variables(&execution.variables));
        Exec {
            argv,
            words_left_out: execution.words_left_out.saturating_add(left_out),
            interpreters: execution.interpreters.iter().map(path).collect(),
            variables,
            new: execution.is_new,
            first: execution.is_first,
            parents: execution.parents.iter().map(|parent| path(&parent.program)).collect(),
        }
    }
}

/// What would be reached, or would have been.
#[derive(Clone, Debug, Serialize)]
pub struct Reach {
    /// In A-labels; the latest first, [`NAMES`] at the most.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// Absent where a name was to be looked up, as port and zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    pub transport: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<&'static str>,
    /// What reverse DNS says, unverified.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Reach {
    pub fn of(destination: &Destination) -> Reach {
        Reach {
            names: destination.names().take(NAMES).map(|name| name.as_str().to_owned()).collect(),
            address: destination.ip(),
            port: destination.port(),
            transport: destination.transport.as_str(),
            zone: destination.zone().map(Zone::as_str),
            hint: destination.hint.as_ref().map(|hint| text::escaped_within(hint.as_bytes(), WORD)),
        }
    }
}

/// A whole command line with secrets masked, and how many words it has besides.
pub fn command(words: &[Untrusted]) -> (Vec<String>, u32) {
    kept(mask::argv(words))
}

/// As many words as a record keeps, and how many are left out.
fn kept(words: Vec<Untrusted>) -> (Vec<String>, u32) {
    let total = words.len();
    let mut room = COMMAND;
    let mut kept = Vec::new();
    for word in words.into_iter().take(WORDS) {
        let word = text::escaped_within(word.as_bytes(), WORD);
        let columns = text::columns(&word).saturating_add(1);
        if columns > room {
            break;
        }
        room = room.saturating_sub(columns);
        kept.push(word);
    }
    let left_out = u32::try_from(total.saturating_sub(kept.len())).unwrap_or(u32::MAX);
    (kept, left_out)
}

pub fn path(path: &RawPath) -> String {
    text::escaped_within(path.as_bytes(), PATH)
}

pub fn argv(words: &[Untrusted]) -> Vec<String> {
    mask::argv(words).iter().map(|word| text::escaped_within(word.as_bytes(), WORD)).collect()
}

/// Now, in UTC with microseconds, as RFC 3339 has it.
pub fn now() -> String {
    format!("{:.6}", jiff::Timestamp::now())
}
