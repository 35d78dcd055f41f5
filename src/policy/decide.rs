//! The verdict on one access to one path. Runs in the supervisor on every trapped call: pure, no allocation that grows with
//! the policy, the same answer whatever the order of rules.
//!
//! `deny` of any rule, then a live grant, then the strictest of the rules that match, then `[defaults]`. Nothing is decided
//! by which pattern is longer. The ceiling is asked by itself, and the stricter of the two holds.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::common::access::{Access, Level};
use crate::common::decision::Lifetime;
use crate::common::id::{CallId, GrantId};
use crate::common::net::Service;
use crate::common::path::RawPath;
use crate::common::request::RuleRef;
use crate::common::scope::{NameGlob, Reach};

use super::grants::{Grants, Needed};
use super::index::{Entry, Index};
use super::model::{Profile, Rule};
use super::network::{REBINDING, UDP};
use super::programs::Follow;
use super::sockets::SERVICES;
use super::tables::{Hand, Tables};

/// What the rules of the ceiling are said to be of, where a profile is named.
pub const CEILING: &str = "ceiling";
/// The `id` of the rule that keeps gated's own files.
pub const OWN_FILES: &str = "built-in:gated-files";
/// The `id` of the rule that allows what the profile calls scratch, where the floor does not give it natively.
pub const SCRATCH: &str = "built-in:scratch";
/// What the `id` of the rule begins with that somebody made by saying no; the grant's own follows.
pub const DENIED: &str = "grant";
/// The `id` of the rule that denies what cannot be read to its end: linkers that load linkers, and so on.
pub const UNREADABLE: &str = "built-in:unreadable";

/// What made a verdict. The numbers are positions in [`Profile::rules`], in the [`Grants`] that were given (until they
/// change), in [`Profile::protected`] and in [`Profile::scratch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    Rule(usize),
    /// A floor of the ceiling over a rule of the profile that asks, too: an answer has to satisfy both.
    Raised {
        ceiling: usize,
        over: usize,
    },
    Default,
    Grant(usize),
    /// Somebody said no, and that it is to last.
    Denial(GrantId),
    BuiltIn(usize),
    Scratch(usize),
    Unreadable,
    /// A name leads to an address that no name can give.
    Rebinding,
    /// Datagrams that no rule speaks of.
    Udp,
    /// A service that no file opens.
    Service(Service),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Verdict {
    pub level: Level,
    pub source: Source,
    /// What would have decided without a grant; the same as `source` where none did.
    pub basis: Source,
}

/// A profile, ready to decide.
#[derive(Debug)]
pub struct Policy {
    profile: Profile,
    pub(super) own: Tables,
    pub(super) ceiling: Tables,
    /// The variables that rules on programs name.
    variables: Vec<NameGlob>,
    /// Components of the longest pattern on paths.
    pub(super) deepest: usize,
}

impl Policy {
    /// A policy whose patterns on programs mean what they say: enough to explain, and where nothing is executed.
    pub fn new(profile: &Profile) -> Policy {
        Policy::following(profile, &|_| None)
    }

    /// A policy for a session. A pattern on programs, such as `/usr/bin/npm` or `@path/vi`, also means what it leads to
    /// where it is a symbolic link; `follow` says what that is, as the session sees it, now.
    pub fn following(profile: &Profile, follow: &Follow<'_>) -> Policy {
        let named = profile.rules.iter().filter_map(|rule| rule.exec.as_ref()).flat_map(|terms| &terms.env);
        let on_paths = profile.rules.iter().flat_map(|rule| &rule.path).chain(&profile.held_reads);
        let named: BTreeSet<&NameGlob> = named.map(|own| &own.name).collect();
        Policy {
            own: Tables::new(profile, Hand::Profile, follow),
            ceiling: Tables::new(profile, Hand::Ceiling, follow),
            variables: named.into_iter().cloned().collect(),
            deepest: on_paths.map(|path| path.parts().len()).max().unwrap_or(0),
            profile: profile.clone(),
        }
    }

    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// The verdict on a canonical path, for an attempt of this call.
    pub fn decide(&self, access: Access, path: &RawPath, call: CallId, grants: &Grants) -> Verdict {
        let names: Vec<&[u8]> = path.components().collect();
        let of = |tables: &Tables| {
            let index = tables.index(access);
            let matching = index.and_then(|index| index.strongest(&names, |entry| !self.is_hole(entry, &names)));
            matching.map(|entry| (entry.level, self.source(entry)))
        };
        let own = of(&self.own).unwrap_or_else(|| self.own.otherwise(&self.profile, access));
        let (level, basis) = self.raised(own, of(&self.ceiling));
        self.settle(level, basis, access, path, call, grants)
    }

    /// The strictest verdict above `allow` on names that would lie strictly below `directory`: what moving it, removing it
    /// or making something else in its place would do to them. Rules on a tree that `directory` itself is in do not count.
    /// `None` if there is none, or if grants cover all of them.
    ///
    /// Names that may be anywhere ([`Policy::has_floating`]) are not found here: they need a walk of what exists.
    pub fn below(&self, access: Access, directory: &RawPath, call: CallId, grants: &Grants) -> Option<Verdict> {
        self.reaching(access, directory, call, grants, Reach::Named)
    }

    /// [`Policy::below`] for a symbolic link that is made at `path`, or moved there: it puts another tree in a place where
    /// names may be guarded at any depth, as in `**/.git/modules/**/hooks`.
    pub fn below_link(&self, access: Access, path: &RawPath, call: CallId, grants: &Grants) -> Option<Verdict> {
        self.reaching(access, path, call, grants, Reach::Inside)
    }

    fn reaching(
        &self,
        access: Access,
        place: &RawPath,
        call: CallId,
        grants: &Grants,
        least: Reach,
    ) -> Option<Verdict> {
        let names: Vec<&[u8]> = place.components().collect();
        if let Some(denial) = grants.denies_below(access, &names, call, least) {
            return Some(Verdict { level: Level::Deny, source: Source::Denial(denial), basis: Source::Default });
        }
        let lifted = |entry: &&&Entry| {
            let needed = self.needed(entry.level, self.source(entry));
            entry.level < Level::Deny && grants.find_covering(access, &entry.pattern, call, needed).is_some()
        };
        let of = |tables: &Tables| {
            let guards = tables.index(access)?.guards_below(&names, least);
            let entry = guards.iter().find(|entry| !lifted(entry))?;
            Some((entry.level, self.source(entry)))
        };
        let (level, source) = self.stricter(of(&self.own), of(&self.ceiling))?;
        Some(Verdict { level, source, basis: source })
    }

    /// Whether a rule above `allow` speaks of a name that may be at any depth, such as `**/.env`: whoever moves or removes a
    /// directory must hold what exists below against [`Policy::floating`].
    pub fn has_floating(&self, access: Access) -> bool {
        [&self.own, &self.ceiling].iter().filter_map(|tables| tables.index(access)).any(Index::has_floating)
    }

    /// The verdict of those rules alone, on something below a directory that is moved: its path now, and its path to be.
    /// `None` if no such rule speaks about it; `[defaults]` and rules on whole trees are the directory's own matter.
    pub fn floating(&self, access: Access, path: &RawPath, call: CallId, grants: &Grants) -> Option<Verdict> {
        let names: Vec<&[u8]> = path.components().collect();
        let counts = |entry: &Entry| entry.guards_floating() && !self.is_hole(entry, &names);
        let of = |tables: &Tables| {
            let entry = tables.index(access)?.strongest(&names, counts)?;
            Some((entry.level, self.source(entry)))
        };
        match self.stricter(of(&self.own), of(&self.ceiling)) {
            Some((level, basis)) => Some(self.settle(level, basis, access, path, call, grants)),
            None => grants.denies(access, path, call).map(|denial| Verdict {
                level: Level::Deny,
                source: Source::Denial(denial),
                basis: Source::Default,
            }),
        }
    }

    /// The rule behind a verdict; behind a grant, the rule that would have asked.
    pub fn rule(&self, verdict: &Verdict) -> RuleRef {
        let built_in = |id: &str, reason: Option<&str>| RuleRef {
            profile: self.profile.name.clone(),
            id: id.to_owned(),
            file: self.profile.file.clone(),
            line: 0,
            reason: reason.map(str::to_owned),
        };
        if let Source::Denial(grant) = verdict.source {
            return built_in(&format!("{DENIED}:{grant}"), Some("Somebody said no to this, and that it is to last."));
        }
        let rule = match verdict.basis {
            Source::Rule(at) => self.profile.rules.get(at),
            Source::Raised { ceiling, over } => self.strictest_of(ceiling, over),
            Source::BuiltIn(_) => return built_in(OWN_FILES, Some("These files are gated's own.")),
            Source::Scratch(_) => return built_in(SCRATCH, None),
            Source::Unreadable => return built_in(UNREADABLE, Some("Too many programs within each other.")),
            Source::Rebinding => return built_in(REBINDING, Some("A name leads into a network that is not public.")),
            Source::Udp => return built_in(UDP, Some("Datagrams go only where a rule with protocol \"udp\" says so.")),
            Source::Service(service) => return built_in(SERVICES, Some(service.meaning())),
            Source::Default | Source::Grant(_) | Source::Denial(_) => None,
        };
        match rule {
            Some(rule) => RuleRef {
                profile: if rule.is_ceiling { CEILING.to_owned() } else { self.profile.name.clone() },
                id: rule.id.clone(),
                file: rule.file.clone(),
                line: rule.line,
                reason: rule.reason.clone(),
            },
            None => built_in("default", None),
        }
    }

    /// The longest lifetime that an answer to this verdict may create.
    pub fn remember(&self, verdict: &Verdict) -> Lifetime {
        match verdict.basis {
            Source::Default => Lifetime::Persistent,
            basis => self.rules_of(basis).map(|rule| rule.remember).min().unwrap_or(Lifetime::Attempt),
        }
    }

    /// The longest time that such an answer may hold, if a rule says one.
    pub fn remember_for(&self, verdict: &Verdict) -> Option<Duration> {
        self.rules_of(verdict.basis).filter_map(|rule| rule.remember_for).min()
    }

    /// The group whose members answer to this verdict, instead of the session's user.
    pub fn group(&self, verdict: &Verdict) -> Option<&str> {
        self.group_of(verdict.basis)
    }

    fn group_of(&self, source: Source) -> Option<&str> {
        self.rules_of(source).find_map(|rule| rule.group.as_deref())
    }

    /// The rules that have to be satisfied for it.
    fn rules_of(&self, source: Source) -> impl Iterator<Item = &Rule> {
        let (one, other) = match source {
            Source::Rule(at) => (Some(at), None),
            Source::Raised { ceiling, over } => (Some(over), Some(ceiling)),
            _ => (None, None),
        };
        one.into_iter().chain(other).filter_map(|at| self.profile.rules.get(at))
    }

    /// The rule that is named where a floor of the ceiling and a rule of the profile ask for the same.
    fn strictest_of(&self, ceiling: usize, over: usize) -> Option<&Rule> {
        let (ceiling, over) = (self.profile.rules.get(ceiling), self.profile.rules.get(over));
        if ceiling.map(|rule| rule.level) > over.map(|rule| rule.level) { ceiling } else { over }
    }

    /// What the ceiling makes of what the profile alone says. It only ever gets stricter; whom a rule of the profile has
    /// answered, and for how long, holds on.
    pub(super) fn raised(&self, own: (Level, Source), ceiling: Option<(Level, Source)>) -> (Level, Source) {
        let Some((level, Source::Rule(floor))) = ceiling else { return own };
        let asks = matches!(own.0, Level::Ask | Level::Authenticate);
        match own.1 {
            _ if level < own.0 => own,
            Source::Rule(over) if asks && level < Level::Deny => (level, Source::Raised { ceiling: floor, over }),
            Source::Default => (level, Source::Rule(floor)),
            _ if level == own.0 => own,
            _ => (level, Source::Rule(floor)),
        }
    }

    /// The same where the profile may say nothing.
    fn stricter(&self, own: Option<(Level, Source)>, ceiling: Option<(Level, Source)>) -> Option<(Level, Source)> {
        own.map(|own| self.raised(own, ceiling)).or(ceiling)
    }

    pub(super) fn needed(&self, level: Level, source: Source) -> Needed<'_> {
        let longest = self.rules_of(source).map(|rule| rule.remember).min().unwrap_or(Lifetime::Persistent);
        Needed { authenticated: level == Level::Authenticate, group: self.group_of(source), longest }
    }

    /// Entries are numbered built-in first, then the rules, then scratch.
    pub(super) fn source(&self, entry: &Entry) -> Source {
        let (built_in, rules) = (self.profile.protected.len(), self.profile.rules.len());
        match entry.rule.checked_sub(built_in) {
            None => Source::BuiltIn(entry.rule),
            Some(at) if at < rules => Source::Rule(at),
            Some(at) => Source::Scratch(at.saturating_sub(rules)),
        }
    }

    /// What is left of a level after the grants.
    fn settle(
        &self,
        level: Level,
        basis: Source,
        access: Access,
        path: &RawPath,
        call: CallId,
        grants: &Grants,
    ) -> Verdict {
        if let Some(denial) = grants.denies(access, path, call).filter(|_| level < Level::Deny) {
            return Verdict { level: Level::Deny, source: Source::Denial(denial), basis };
        }
        let granted = match level {
            Level::Allow | Level::Deny => None,
            Level::Notify | Level::Ask | Level::Authenticate => {
                grants.find(access, path, call, self.needed(level, basis))
            }
        };
        match granted {
            Some(at) => Verdict { level: Level::Allow, source: Source::Grant(at), basis },
            None => Verdict { level, source: basis, basis },
        }
    }

    pub(super) fn names_variable(&self, name: &[u8]) -> bool {
        self.variables.iter().any(|own| own.matches(name))
    }

    pub(super) fn is_hole(&self, entry: &Entry, names: &[&[u8]]) -> bool {
        match self.source(entry) {
            Source::Rule(at) => {
                let rule = self.profile.rules.get(at);
                rule.is_some_and(|rule| rule.except.iter().any(|hole| hole.matches_names(names)))
            }
            _ => false,
        }
    }
}
