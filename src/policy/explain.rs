//! A verdict in words, for a person who wants to know which line of which file said so. Pure.

use crate::common::request::RuleRef;

use super::decide::{Policy, Verdict};

/// `LEVEL: rule ID (FILE:LINE): REASON`, without what is not there.
pub fn verdict(policy: &Policy, verdict: &Verdict) -> String {
    format!("{}: {}", verdict.level, rule(&policy.rule(verdict)))
}

/// `rule ID (FILE:LINE): REASON`, without what is not there.
pub fn rule(rule: &RuleRef) -> String {
    let mut text = match rule.line {
        0 => format!("rule {} ({})", rule.id, rule.file),
        line => format!("rule {} ({}:{line})", rule.id, rule.file),
    };
    if let Some(reason) = &rule.reason {
        text.push_str(": ");
        text.push_str(reason);
    }
    text
}
