//! What is no mistake of a policy file and not what its author can have meant: rules that decide nothing, or more than they
//! seem to. Pure; what is on the machine is asked of the caller.

mod files;
mod limits;
mod outward;

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::common::access::{Access, Level};
use crate::common::path::RawPath;
use crate::common::wire::Network;

use super::decide::{Policy, Source};
use super::file::{File, RuleTable, Text};
use super::grants::Grants;
use super::layers::Layer;
use super::model::{Profile, Rule};
use super::programs::Follow;
use super::samples;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Nothing works with this file.
    Error,
    Warning,
    /// No mistake; said on request.
    Note,
}

/// One thing to look at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Finding {
    pub file: String,
    /// From 1; 0 where there is no line.
    pub line: u32,
    /// From 1, in characters.
    pub column: u32,
    pub severity: Severity,
    /// Which check it is: a word that stays the same.
    pub check: String,
    pub message: String,
    /// What to do about it, in one line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if self.line > 0 {
            write!(f, ":{}:{}", self.line, self.column)?;
        }
        let word = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        };
        write!(f, ": {word}: {}", self.message)?;
        self.remedy.as_ref().map_or(Ok(()), |remedy| write!(f, "\n    {remedy}"))
    }
}

/// What is asked of the machine.
pub struct Machine<'a> {
    /// What a path leads to, links resolved; `None` if nothing is there.
    pub follow: &'a Follow<'a>,
    /// Whether there is a group with this name.
    pub has_group: &'a dyn Fn(&str) -> bool,
}

/// What there is to say of the files whose names are in `of`, and of nothing that they extend.
pub fn check(profile: &Profile, layers: &[Layer], of: &[&str], machine: &Machine<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    let policy = Policy::following(profile, machine.follow);
    let trees = samples::trees([profile]);
    for layer in layers.iter().filter(|layer| of.contains(&layer.file.as_str())) {
        let text = Text::new(layer.file.clone(), layer.text.clone());
        let Ok(file) = File::parse(&text) else { continue };
        let lint = Lint { profile, policy: &policy, text: &text, machine, trees: &trees };
        lint.unused_variables(&mut found, &file, layers);
        for table in &file.rules {
            let rule = profile.rules.iter().find(|rule| rule.id == *table.id.get_ref() && rule.file == layer.file);
            if let Some(rule) = rule {
                lint.rule(&mut found, rule, table);
            }
        }
        lint.settings(&mut found, &file);
    }
    found.sort();
    found.dedup();
    found
}

pub use limits::floors;

struct Lint<'a> {
    profile: &'a Profile,
    policy: &'a Policy,
    text: &'a Text,
    machine: &'a Machine<'a>,
    /// In which names at any depth are looked for.
    trees: &'a [RawPath],
}

impl Lint<'_> {
    fn say(
        &self,
        found: &mut Vec<Finding>,
        at: usize,
        severity: Severity,
        check: &str,
        message: String,
        remedy: impl Into<Option<&'static str>>,
    ) {
        let (line, column) = self.text.place(at);
        let remedy = remedy.into().map(str::to_owned);
        let (file, check) = (self.text.name.clone(), check.to_owned());
        found.push(Finding { file, line, column, severity, check, message, remedy });
    }

    fn warn(
        &self,
        found: &mut Vec<Finding>,
        at: usize,
        check: &str,
        message: String,
        remedy: impl Into<Option<&'static str>>,
    ) {
        self.say(found, at, Severity::Warning, check, message, remedy);
    }

    fn rule(&self, found: &mut Vec<Finding>, rule: &Rule, table: &RuleTable) {
        let start = table.id.span().start;
        self.without_effect(found, rule, start);
        if let Some(group) = rule.group.as_deref().filter(|group| !(self.machine.has_group)(group)) {
            let at = table.ask.as_ref().map_or(start, |ask| ask.get_ref().group.span().start);
            let message = format!("rule `{}`: there is no group `{group}` here, so nobody can answer", rule.id);
            self.warn(
                found,
                at,
                "no-group",
                message,
                "Make the group, or leave `ask` out: then the session's user answers.",
            );
        }
        if rule.level >= Level::Deny && table.remember.is_some() {
            let at = table.remember.as_ref().map_or(start, |value| value.span().start);
            let message =
                format!("rule `{}`: `remember` of a rule that denies: there is no answer to remember", rule.id);
            self.warn(found, at, "no-answer", message, "Leave `remember` out.");
        }
        let starts =
            |values: &[toml::Spanned<String>]| values.iter().map(|value| value.span().start).collect::<Vec<_>>();
        let at = |places: &[usize], number: usize| places.get(number).copied().unwrap_or(start);
        match (&rule.exec, &rule.network) {
            (Some(terms), _) => {
                let places = starts(&table.program);
                for (number, pattern) in terms.program.iter().enumerate() {
                    self.program(found, rule, terms, pattern, at(&places, number));
                }
            }
            (None, Some(terms)) => self.hosts(found, rule, terms, table, start),
            (None, None) => {
                let places = if table.path.is_empty() {
                    let paths = table.socket.iter().filter(|value| !value.get_ref().starts_with('@'));
                    paths.map(|value| value.span().start).collect()
                } else {
                    starts(&table.path)
                };
                for (number, pattern) in rule.path.iter().enumerate() {
                    self.path(found, rule, pattern, at(&places, number));
                }
                self.run_later(found, rule, start);
            }
        }
        self.holes(found, rule, table);
    }

    /// A rule that decides nothing of what it speaks of, and whose absence would be heard nowhere.
    fn without_effect(&self, found: &mut Vec<Finding>, rule: &Rule, at: usize) {
        let position = self.profile.rules.iter().position(|own| std::ptr::eq(own, rule));
        let Some(position) = position else { return };
        let samples = samples::of_rule(&Rule { except: Vec::new(), ..rule.clone() }, &self.profile.home, self.trees);
        let mut others = BTreeSet::new();
        for sample in &samples {
            let verdict = sample.question.verdict(self.policy, &Grants::new());
            match verdict.basis {
                Source::Rule(by) if by == position => return,
                Source::Rule(by) => {
                    others.extend(self.profile.rules.get(by).map(|rule| (rule.is_ceiling, rule.level, by)))
                }
                // A rule on what is denied in any case, or listens in the session's own network, decides no more.
                _ => {}
            }
        }
        if samples.is_empty() {
            return;
        }
        let by: Vec<&Rule> = others.iter().filter_map(|(_, _, by)| self.profile.rules.get(*by)).collect();
        let named = |rule: &&Rule| format!("`{}` ({}:{})", rule.id, rule.file, rule.line);
        let shown: Vec<String> = by.iter().take(3).map(named).collect();
        match by.as_slice() {
            [] => {
                let message = format!(
                    "rule `{}` decides nothing: what it speaks of is denied by what is built in, or excepted",
                    rule.id
                );
                self.warn(found, at, "no-effect", message, "Remove the rule.");
            }
            by if by.iter().any(|other| other.is_ceiling) => {
                let message =
                    format!("rule `{}` decides nothing: the ceiling is stricter, {}", rule.id, shown.join(", "));
                self.warn(
                    found,
                    at,
                    "under-ceiling",
                    message,
                    "Remove the rule, or ask whoever looks after the ceiling.",
                );
            }
            by if by.iter().all(|other| other.level == rule.level) => {
                let message = format!("rule `{}` says what {} says already", rule.id, shown.join(", "));
                self.say(
                    found,
                    at,
                    Severity::Note,
                    "twice",
                    message,
                    "Remove one of them, unless they are to part later.",
                );
            }
            _ => {
                let message =
                    format!("rule `{}` never decides: {} is stricter wherever it speaks", rule.id, shown.join(", "));
                self.warn(
                    found,
                    at,
                    "never-decides",
                    message,
                    "Remove the rule, or write an `except` into the stricter one.",
                );
            }
        }
    }

    fn unused_variables(&self, found: &mut Vec<Finding>, file: &File, layers: &[Layer]) {
        for name in file.vars.keys().filter(|name| name.get_ref() != "workspace") {
            let written = format!("{{{}}}", name.get_ref());
            if !layers.iter().any(|layer| layer.text.contains(&written)) {
                let message = format!("the variable `{}` is used nowhere", name.get_ref());
                self.warn(found, name.span().start, "unused-variable", message, "Remove it.");
            }
        }
    }

    fn settings(&self, found: &mut Vec<Finding>, file: &File) {
        for (access, level) in &file.defaults {
            let is_wide =
                *level.get_ref() <= Level::Notify && matches!(access, Access::Write | Access::Connect | Access::Unix);
            if is_wide && self.profile.network == Network::Own {
                let message =
                    format!("`{access} = \"{}\"` lets everything through that no rule names", level.get_ref());
                self.warn(
                    found,
                    level.span().start,
                    "too-broad",
                    message,
                    "Say \"ask\", and allow what is needed by rules.",
                );
            }
        }
        // Landlock grants whole trees and no more: what is narrower is held call by call.
        let held = |access: Access| {
            self.profile.rules.iter().any(|rule| rule.access.contains(&access) && rule.level <= Level::Notify)
        };
        for (access, why) in [
            (
                Access::Write,
                "changes outside of scratch are performed by the supervisor after each verdict; the floor refuses them all",
            ),
            (Access::Read, "reads are held where a rule is stricter than \"allow\"; the floor lets all others through"),
            (Access::Exec, "programs are held by the supervisor alone; the floor does not tell them apart"),
            (Access::Connect, "connections are made by the supervisor; the floor refuses them all"),
        ] {
            let is_said = file.rules.iter().any(|table| table.has(access));
            if is_said && (held(access) || access == Access::Read || access == Access::Exec) {
                let first = file.rules.iter().find(|table| table.has(access)).map_or(0, |table| table.id.span().start);
                self.say(found, first, Severity::Note, "floor", format!("`{access}`: {why}"), None);
            }
        }
    }
}

/// An error of the loader as a finding.
pub fn of_error(error: &super::load::PolicyError) -> Finding {
    use super::load::PolicyError as Error;
    let (file, line, column, message) = match error {
        Error::Invalid { file, line, column, message } => (file.clone(), *line, *column, message.clone()),
        Error::Unreadable { file, source } => (file.clone(), 0, 0, source.to_string()),
        Error::Masked { file, .. } => (file.clone(), 0, 0, error.to_string()),
        other => (String::from("policy"), 0, 0, other.to_string()),
    };
    let (severity, check) = (Severity::Error, "error".to_owned());
    Finding { file, line, column, severity, check, message, remedy: None }
}
