//! What is no mistake of a policy file and not what its author can have meant: rules that decide nothing, or more than they
//! seem to. Pure; what is on the machine is asked of the caller.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::common::access::{Access, Level};
use crate::common::net::{HostPattern, Ports, TermHost};
use crate::common::path::RawPath;
use crate::common::scope::{Part, Pattern};
use crate::common::wire::Network;

use super::decide::{Policy, Source};
use super::file::{File, RuleTable, Text};
use super::grants::Grants;
use super::layers::Layer;
use super::merged;
use super::model::{ExecTerms, NetworkTerms, Profile, ProgramPattern, Rule};
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
    for layer in layers.iter().filter(|layer| of.contains(&layer.file.as_str())) {
        let text = Text::new(layer.file.clone(), layer.text.clone());
        let Ok(file) = File::parse(&text) else { continue };
        let lint = Lint { profile, policy: &policy, text: &text, machine };
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

struct Lint<'a> {
    profile: &'a Profile,
    policy: &'a Policy,
    text: &'a Text,
    machine: &'a Machine<'a>,
}

/// Files that programs outside of a session run or obey later.
const RUN_LATER: [&str; 16] = [
    "**/.git/hooks/x",
    "**/.git/config",
    "**/.envrc",
    "**/.vscode/tasks.json",
    "**/.husky/x",
    "~/.bashrc",
    "~/.profile",
    "~/.zshrc",
    "~/.config/fish/config.fish",
    "~/.gitconfig",
    "~/.config/autostart/x.desktop",
    "~/.config/systemd/user/x.service",
    "~/.local/bin/x",
    "~/.ssh/authorized_keys",
    "/etc/cron.d/x",
    "/etc/systemd/system/x.service",
];

/// Programs that run whatever their words say.
const SHELLS: [&str; 12] =
    ["sh", "bash", "dash", "zsh", "fish", "env", "python3", "perl", "node", "ruby", "busybox", "xargs"];

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
        let trees = samples::trees([self.profile]);
        let samples = samples::of_rule(&Rule { except: Vec::new(), ..rule.clone() }, &self.profile.home, &trees);
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

    fn path(&self, found: &mut Vec<Finding>, rule: &Rule, pattern: &Pattern, at: usize) {
        let place = pattern.literal_prefix();
        // The name itself may be a link that is judged as such; the directories above it are always followed.
        let is_one = pattern.parts().iter().all(|part| matches!(part, Part::Name(_)));
        let above = if is_one { place.parent() } else { Some(place) };
        if let Some((above, led)) =
            above.and_then(|above| Some((self.lead(&above)?, above)).map(|(led, above)| (above, led)))
        {
            let real = if is_one {
                Pattern::literal(&led.join(pattern.literal_prefix().file_name()))
            } else {
                pattern.moved_to(&led)
            };
            // Who wrote both knows.
            if !rule.path.iter().any(|own| own.covers(&real)) {
                let message = format!(
                    "rule `{}`: `{pattern}` never matches, because {} leads to {}",
                    rule.id,
                    Pattern::literal(&above),
                    Pattern::literal(&led)
                );
                let remedy = "Write the path that the link leads to: rules are held against that.";
                self.warn(found, at, "behind-link", message, remedy);
            }
        }
        let is_free = matches!(rule.level, Level::Allow | Level::Notify);
        if is_free && rule.access.contains(&Access::Write) && self.is_everything(pattern) {
            let message = format!("rule `{}` lets a tool change {}", rule.id, self.everything(pattern));
            self.warn(found, at, "too-broad", message, "Name the directories that it needs.");
        }
        if is_free && rule.access.contains(&Access::Unix) && self.is_everything(pattern) {
            let message = format!("rule `{}` opens every socket in {}", rule.id, self.everything(pattern));
            self.warn(found, at, "too-broad", message, "Name the sockets that it needs.");
        }
    }

    /// Where the directory that a pattern names really is, if that is another one.
    fn lead(&self, place: &RawPath) -> Option<RawPath> {
        let (mut here, mut below) = (place.clone(), Vec::new());
        loop {
            if let Some(led) = (self.machine.follow)(&here) {
                let real = below.iter().rev().fold(led.clone(), |path, name: &Vec<u8>| path.join(name));
                return (led != here).then_some(real);
            }
            below.push(here.file_name().to_vec());
            here = here.parent()?;
        }
    }

    fn is_everything(&self, pattern: &Pattern) -> bool {
        let roots = ["/", "/home", "/etc", "/usr", "/var", "/opt", "/root"].map(RawPath::from);
        pattern.as_tree().is_some_and(|tree| roots.contains(&tree) || self.profile.home.is_within(&tree))
    }

    fn everything(&self, pattern: &Pattern) -> String {
        match pattern.as_tree() {
            Some(tree) if tree == self.profile.home => "the whole home directory".to_owned(),
            Some(tree) if self.profile.home.is_within(&tree) => "every home directory".to_owned(),
            _ => format!("all of {pattern}"),
        }
    }

    /// A rule that lets files be written which run outside, where nothing stricter holds them back.
    fn run_later(&self, found: &mut Vec<Finding>, rule: &Rule, at: usize) {
        if rule.level > Level::Notify || !rule.access.contains(&Access::Write) {
            return;
        }
        let Some(position) = self.profile.rules.iter().position(|own| std::ptr::eq(own, rule)) else { return };
        let home = Pattern::literal(&self.profile.home).to_string();
        let mut open = Vec::new();
        for written in RUN_LATER {
            let path = match written.split_once('/') {
                Some(("**", name)) => {
                    let Some(tree) = rule.path.iter().find_map(Pattern::as_tree) else { continue };
                    format!("{}/{name}", Pattern::literal(&tree).to_string().trim_end_matches('/'))
                }
                Some(("~", rest)) => format!("{home}/{rest}"),
                _ => written.to_owned(),
            };
            let Ok(pattern) = Pattern::parse(&path) else { continue };
            let verdict = self.policy.decide(
                Access::Write,
                &pattern.literal_prefix(),
                crate::common::id::CallId(0),
                &Grants::new(),
            );
            if verdict.basis == Source::Rule(position) {
                open.push(written.strip_suffix("/x").unwrap_or(written));
            }
        }
        if !open.is_empty() {
            let more =
                if open.len() > 3 { format!(" and {} more", open.len().saturating_sub(3)) } else { String::new() };
            open.truncate(3);
            let message = format!(
                "rule `{}` lets a tool write what runs outside of the session later: {}{more}",
                rule.id,
                open.join(", ")
            );
            self.warn(
                found,
                at,
                "runs-outside",
                message,
                "Extend `coder`, or add a rule with level = \"ask\" for them.",
            );
        }
    }

    fn program(&self, found: &mut Vec<Finding>, rule: &Rule, terms: &ExecTerms, pattern: &ProgramPattern, at: usize) {
        let written = merged::program(pattern);
        let ProgramPattern::Path(path) = pattern else {
            if let ProgramPattern::SystemName(name) = pattern {
                self.whole_shell(found, rule, terms, &String::from(name.clone()), at);
            }
            return;
        };
        let is_one = path.parts().iter().all(|part| matches!(part, Part::Name(_)));
        let is_free = matches!(rule.level, Level::Allow | Level::Notify);
        if is_one && (self.machine.follow)(&path.literal_prefix()).is_none() {
            let message = format!("rule `{}`: there is no program {written} here", rule.id);
            let remedy = "Write where it is, or `@path/NAME` for a program of the system wherever it is.";
            // A rule that denies is also for what may come.
            let severity = if is_free { Severity::Warning } else { Severity::Note };
            self.say(found, at, severity, "no-program", message, remedy);
        }
        let tree = path.as_tree();
        let writable = tree.as_ref().is_some_and(|tree| {
            tree.components().next().is_none()
                || self.profile.home.is_within(tree)
                || tree.is_within(&RawPath::from("/tmp"))
        });
        if is_free && self.profile.defaults.exec > rule.level && (writable || !path.is_anchored()) {
            let message = format!("rule `{}` lets {written} run, wherever a tool puts such a program", rule.id);
            self.warn(found, at, "too-broad", message, "Name directories that only root writes, or `@path`.");
        }
        self.whole_shell(found, rule, terms, &String::from_utf8_lossy(path.literal_prefix().file_name()), at);
    }

    /// Whoever may run a shell with any words may run anything by its text.
    fn whole_shell(&self, found: &mut Vec<Finding>, rule: &Rule, terms: &ExecTerms, name: &str, at: usize) {
        let is_free = matches!(rule.level, Level::Allow | Level::Notify) && terms.argv.is_none();
        if is_free && SHELLS.contains(&name) && self.profile.defaults.exec > Level::Notify {
            let message = format!(
                "rule `{}` allows `{name}` with whatever words: what it is told to do is not judged but for the programs that it starts",
                rule.id
            );
            self.say(found, at, Severity::Note, "interpreter", message, "Say which words with `argv`.");
        }
    }

    fn hosts(&self, found: &mut Vec<Finding>, rule: &Rule, terms: &NetworkTerms, table: &RuleTable, start: usize) {
        let is_free = matches!(rule.level, Level::Allow | Level::Notify);
        let place = |number: usize| table.host.get(number).map_or(start, |value| value.span().start);
        if is_free && rule.access.contains(&Access::Connect) {
            for (number, term) in terms.hosts.iter().enumerate() {
                match &term.host {
                    TermHost::Name(HostPattern::Any) => {
                        let message = format!("rule `{}` lets every host be reached: `{term}`", rule.id);
                        self.warn(
                            found,
                            place(number),
                            "too-broad",
                            message,
                            "Name the hosts or domains that it needs.",
                        );
                    }
                    TermHost::Name(HostPattern::Below(domain)) if domain.registrable().is_none() => {
                        let message = format!("rule `{}`: anybody can have a name below `{domain}`", rule.id);
                        self.warn(
                            found,
                            place(number),
                            "too-broad",
                            message,
                            "Name a domain that one owner registered.",
                        );
                    }
                    TermHost::Address(address) if !address.is_loopback() => {
                        let message = format!("rule `{}` names the address {address} and not a host", rule.id);
                        self.warn(
                            found,
                            place(number),
                            "no-name",
                            message,
                            "Write the host's name: whoever is asked can read it, and it stays when the address goes.",
                        );
                    }
                    TermHost::Name(_) if term.ports == Ports::ANY => {
                        let message = format!("rule `{}`: `{term}` is every service of that host", rule.id);
                        self.say(
                            found,
                            place(number),
                            Severity::Note,
                            "all-ports",
                            message,
                            "Write the port, such as `:443`.",
                        );
                    }
                    _ => {}
                }
            }
            let is_public = |network: &ipnet::IpNet| {
                let address = network.addr();
                crate::common::net::Zone::of(address) == crate::common::net::Zone::Public || network.prefix_len() == 0
            };
            for (number, network) in terms.networks.iter().enumerate() {
                let at = table.cidr.get(number).map_or(start, |value| value.span().start);
                if network.prefix_len() == 0 {
                    let message = format!("rule `{}` lets every address be reached: `{network}`", rule.id);
                    self.warn(found, at, "too-broad", message, "Name the hosts or domains that it needs.");
                } else if is_public(network) && terms.hosts.is_empty() {
                    let message = format!("rule `{}` names addresses and no host: `{network}`", rule.id);
                    self.warn(
                        found,
                        at,
                        "no-name",
                        message,
                        "Write names in `host`, where the network's owner has some.",
                    );
                }
            }
        }
        if is_free && rule.access.contains(&Access::Bind) {
            let everywhere = |term: &&crate::common::net::HostTerm| matches!(&term.host, TermHost::Address(address) if address.is_unspecified());
            if let Some(term) = terms.hosts.iter().find(everywhere) {
                let message = format!("rule `{}` lets other machines reach the session: `{term}`", rule.id);
                self.warn(found, start, "too-broad", message, "Write `localhost:PORT`, unless others are meant to.");
            }
        }
    }

    /// An `except` that leaves nothing of a term.
    fn holes(&self, found: &mut Vec<Finding>, rule: &Rule, table: &RuleTable) {
        // What a variable stands for is another one elsewhere.
        let is_fixed = |written: &str| !written.starts_with(['~', '{']);
        let fixed: Vec<bool> = table
            .except
            .iter()
            .map(|hole| matches!(hole.get_ref(), super::file::ExceptTerm::Text(written) if is_fixed(written)))
            .collect();
        let holes = || rule.except.iter().enumerate().filter(|(at, _)| fixed.get(*at).is_some_and(|fixed| *fixed));
        for (number, pattern) in rule.path.iter().enumerate() {
            if let Some((_, hole)) = holes().find(|(_, hole)| hole.covers(pattern)) {
                let at = table.path.get(number).map_or(table.id.span().start, |value| value.span().start);
                let message = format!("rule `{}`: the exception `{hole}` leaves nothing of `{pattern}`", rule.id);
                self.warn(found, at, "all-excepted", message, "Narrow the exception, or remove the path.");
            }
        }
        for (number, hole) in holes() {
            let meets = |pattern: &Pattern| {
                let names: Vec<Vec<u8>> = hole.literal_prefix().components().map(<[u8]>::to_vec).collect();
                let names: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
                !pattern.is_anchored()
                    || !hole.is_anchored()
                    || pattern.matches_names(&names)
                    || hole.literal_prefix().is_within(&pattern.literal_prefix())
                    || pattern.literal_prefix().is_within(&hole.literal_prefix())
            };
            if !rule.path.iter().any(meets) {
                let at = table.except.get(number).map_or(table.id.span().start, |value| value.span().start);
                let message = format!("rule `{}`: the exception `{hole}` is in none of its paths", rule.id);
                self.warn(found, at, "idle-except", message, "Remove it: `except` makes a hole in its own rule only.");
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
