//! What audit log and events say about a tool and a rule. Text of the tool is in the notation of [`crate::common::text`],
//! secrets in argv are `***`.

use serde::Serialize;

use crate::common::mask;
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
