//! A verdict in words, for a person who wants to know which line of which file said so. Pure.

use crate::common::exec::Command;
use crate::common::request::RuleRef;
use crate::common::text;

use super::decide::{Policy, Verdict};

/// Columns of a command line in an explanation, at the most.
const SHOWN_COLUMNS: usize = 400;

/// `LEVEL: rule ID (FILE:LINE): REASON`, without what is not there.
pub fn verdict(policy: &Policy, verdict: &Verdict) -> String {
    format!("{}: {}", verdict.level, rule(&policy.rule(verdict)))
}

/// [`verdict`] on a command, with `, for WORDS` behind the rule where it speaks of the command by another name or in other
/// words than it was called with. The words can be pasted into a shell.
pub fn execution(policy: &Policy, command: &Command, verdict: &Verdict) -> String {
    let rule = policy.rule(verdict);
    let words = policy.words_meant(command, verdict).unwrap_or_default();
    let meant = match words.is_empty() {
        true => String::new(),
        false => format!(", for {}", text::quoted_argv_within(words.iter().map(Vec::as_slice), SHOWN_COLUMNS)),
    };
    format!("{}: {}{meant}{}", verdict.level, place(&rule), reason(&rule))
}

/// `rule ID (FILE:LINE): REASON`, without what is not there.
pub fn rule(rule: &RuleRef) -> String {
    format!("{}{}", place(rule), reason(rule))
}

fn place(rule: &RuleRef) -> String {
    match rule.line {
        0 => format!("rule {} ({})", rule.id, rule.file),
        line => format!("rule {} ({}:{line})", rule.id, rule.file),
    }
}

fn reason(rule: &RuleRef) -> String {
    rule.reason.as_ref().map_or_else(String::new, |reason| format!(": {reason}"))
}
