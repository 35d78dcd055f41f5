//! The verdict on one execve(2). Runs in the supervisor on every exec of a session whose profile has something to say about
//! programs: pure, the same answer whatever the order of rules, and no work that grows with the policy but for the rules
//! that name the program.
//!
//! Each run of a command ([`super::reading`]) is held against the rules that match a faithful reading, or else against
//! `[defaults]`; then rules above `allow` that match any other reading are added. The strictest of all decides.

use std::cell::Cell;

use crate::common::access::{Access, Level};
use crate::common::exec::Command;
use crate::common::id::CallId;

use super::decide::{Policy, Source, Verdict};
use super::grants::Grants;
use super::index::Entry;
use super::model::ExecTerms;
use super::programs::stronger;
use super::reading::{self, Reading, Run};
use super::tables::Tables;
use super::variables;

/// What policy says of a command by itself, without grants.
struct Basis {
    level: Level,
    source: Source,
}

/// What is known of the environment that a command gets.
#[derive(Clone, Copy)]
enum Environment<'a> {
    /// Its variables that matter.
    Known(&'a [Vec<u8>]),
    /// Nothing; whether it would matter is to be put here.
    Unknown(&'a Cell<bool>),
}

impl Policy {
    /// The verdict on executing this, for an attempt of this call.
    pub fn decide_exec(&self, command: &Command, call: CallId, grants: &Grants) -> Verdict {
        let basis = self.basis(command, Environment::Known(&command.variables), Some((call, grants)));
        if basis.level < Level::Deny && grants.denies_any(Access::Exec) {
            let runs = reading::of(command).unwrap_or_default();
            if let Some(denial) = grants.denies_exec(command, &runs, call) {
                return Verdict { level: Level::Deny, source: Source::Denial(denial), basis: basis.source };
            }
        }
        let granted = match basis.level {
            Level::Allow | Level::Deny => None,
            Level::Notify | Level::Ask | Level::Authenticate => {
                grants.find_exec(command, call, self.needed(basis.level, basis.source))
            }
        };
        match granted {
            Some(at) => Verdict { level: Level::Allow, source: Source::Grant(at), basis: basis.source },
            None => Verdict { level: basis.level, source: basis.source, basis: basis.source },
        }
    }

    /// Whether any execve(2) may be anything but allowed without a word, so that each has to be judged.
    pub fn judges_exec(&self) -> bool {
        let mut rules = self.profile().rules.iter();
        self.profile().defaults.exec > Level::Allow
            || rules.any(|rule| rule.level > Level::Allow && rule.exec.is_some())
    }

    /// Whether the verdict may depend on the environment, or an answer to it would: then the variables for which
    /// [`Policy::judges_variable`] is true belong into [`Command::variables`] before [`Policy::decide_exec`]. To be asked
    /// with none in there; where it is false, they may stay out.
    pub fn asks_for_environment(&self, command: &Command) -> bool {
        let matters = Cell::new(false);
        let basis = self.basis(command, Environment::Unknown(&matters), None);
        matters.get() || !matches!(basis.level, Level::Allow | Level::Deny)
    }

    /// Whether an environment variable, `NAME=value`, belongs into [`Command::variables`].
    pub fn judges_variable(&self, variable: &[u8]) -> bool {
        let (name, value) = match variable.iter().position(|byte| *byte == b'=') {
            Some(at) => (variable.get(..at).unwrap_or_default(), variable.get(at..).unwrap_or_default()),
            None => (variable, Default::default()),
        };
        // Another home has other settings, with aliases, hooks and helpers.
        let home = &self.profile().home;
        let of_another_home = match name {
            b"HOME" => value.get(1..) != Some(home.as_bytes()),
            b"XDG_CONFIG_HOME" => value.get(1..) != Some(home.join(b".config").as_bytes()),
            _ => false,
        };
        of_another_home || self.judges_name(name)
    }

    fn judges_name(&self, name: &[u8]) -> bool {
        variables::carries_code(name) || self.names_variable(name)
    }

    /// The words that the rule behind a verdict speaks of, the program's name first, where they are not those of the command
    /// itself.
    pub(super) fn words_meant(&self, command: &Command, verdict: &Verdict) -> Option<Vec<Vec<u8>>> {
        let runs = reading::of(command)?;
        let is_meant = |reading: &&Reading<'_>| {
            let speaks = |entry: &Entry| {
                self.is_basis(self.source(entry), verdict)
                    && (reading.is_faithful || entry.level > Level::Allow)
                    && self.terms(entry).is_some_and(|terms| terms.speaks_of(reading, entry.level))
            };
            [&self.own, &self.ceiling].iter().any(|tables| tables.programs.strongest(reading, speaks).is_some())
        };
        let reading = runs.iter().flat_map(|run| &run.readings).find(is_meant)?;
        let name = std::iter::once(reading.subject.name());
        let words: Vec<Vec<u8>> = name.chain(reading.words.iter()).map(<[u8]>::to_vec).collect();
        let is_plain = words.iter().skip(1).eq(command.asked.argv.iter().skip(1))
            && words.first().is_some_and(|name| name == command.asked.program.path.file_name());
        (!is_plain).then_some(words)
    }

    fn basis(&self, command: &Command, environment: Environment<'_>, grants: Option<(CallId, &Grants)>) -> Basis {
        let Some(runs) = reading::of(command) else {
            return Basis { level: Level::Deny, source: Source::Unreadable };
        };
        let lifted = |reading: &Reading<'_>, entry: &Entry| {
            grants.is_some_and(|(call, grants)| {
                entry.level < Level::Deny
                    && grants.holds_for_script(reading, command, call, self.needed(entry.level, self.source(entry)))
            })
        };
        let of = |tables: &Tables| {
            let of_runs = runs.iter().map(|run| self.of_run(tables, run, environment, &lifted));
            let strictest = of_runs.reduce(|one, other| if is_stricter(&other, &one) { other } else { one });
            strictest.map(|(level, entry)| (level, entry.map_or(Source::Default, |entry| self.source(entry))))
        };
        let own = of(&self.own).unwrap_or((Level::Deny, Source::Unreadable));
        let (level, source) = self.raised(own, of(&self.ceiling));
        Basis { level, source }
    }

    /// Whether this rule is, or is one of those, behind a verdict.
    fn is_basis(&self, rule: Source, verdict: &Verdict) -> bool {
        match verdict.basis {
            Source::Raised { ceiling, over } => [Source::Rule(ceiling), Source::Rule(over)].contains(&rule),
            basis => rule == basis,
        }
    }

    /// The level of one run, and the rule that gives it; without one it is the default.
    fn of_run<'a>(
        &self,
        tables: &'a Tables,
        run: &Run<'_>,
        environment: Environment<'_>,
        lifted: &dyn Fn(&Reading<'_>, &Entry) -> bool,
    ) -> (Level, Option<&'a Entry>) {
        let (mut faithful, mut other) = (None, None);
        for reading in &run.readings {
            let speaks = |entry: &Entry| {
                (reading.is_faithful || entry.level > Level::Allow)
                    && self
                        .terms(entry)
                        .is_some_and(|terms| terms.speaks_of(reading, entry.level) && applies(terms, environment))
            };
            let best = tables.programs.strongest(reading, speaks);
            if reading.is_faithful {
                faithful = stronger(faithful, best);
            } else if let Some(entry) = best.filter(|entry| !lifted(reading, entry)) {
                other = stronger(other, Some(entry));
            }
        }
        let of_faithful = match faithful {
            Some(entry) => (entry.level, faithful),
            None => (tables.otherwise(self.profile(), Access::Exec).0, None),
        };
        match other.map(|entry| (entry.level, other)) {
            Some(other) if is_stricter(&other, &of_faithful) => other,
            _ => of_faithful,
        }
    }

    fn terms(&self, entry: &Entry) -> Option<&ExecTerms> {
        match self.source(entry) {
            Source::Rule(at) => self.profile().rules.get(at)?.exec.as_ref(),
            _ => None,
        }
    }
}

/// Of two at the same level, a rule comes before the default, which has nothing to say.
fn is_stricter(one: &(Level, Option<&Entry>), other: &(Level, Option<&Entry>)) -> bool {
    let strength = |of: &(Level, Option<&Entry>)| of.1.map(Entry::rank);
    one.0 > other.0
        || one.0 == other.0
            && match (strength(one), strength(other)) {
                (Some(one), Some(other)) => one < other,
                (one, other) => one.is_some() && other.is_none(),
            }
}

/// Whether the environment is what a rule is for.
fn applies(terms: &ExecTerms, environment: Environment<'_>) -> bool {
    match environment {
        _ if terms.env.is_empty() => true,
        Environment::Known(variables) => terms.env.iter().any(|own| variables.iter().any(|given| own.matches(given))),
        Environment::Unknown(matters) => {
            matters.set(true);
            false
        }
    }
}
