//! The verdict on one access to one path. Runs in the supervisor on every trapped call: pure, no allocation that grows with
//! the policy, the same answer whatever the order of rules.
//!
//! `deny` of any rule, then a live grant, then the strictest of the rules that match, then `[defaults]`. Nothing is decided
//! by which pattern is longer.

use std::time::Duration;

use crate::common::access::{Access, Level};
use crate::common::decision::Lifetime;
use crate::common::id::{CallId, GrantId};
use crate::common::net::Service;
use crate::common::path::RawPath;
use crate::common::request::RuleRef;
use crate::common::scope::{Pattern, Reach};

use super::grants::{Grants, Needed};
use super::hosts::Hosts;
use super::index::{Entry, Index};
use super::model::{Profile, Rule};
use super::network::{REBINDING, UDP};
use super::programs::{Follow, Programs};
use super::sockets::SERVICES;

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
    /// In the order of [`Access::ALL`].
    indexes: [Index; Access::ALL.len()],
    pub(super) programs: Programs,
    pub(super) connects: Hosts,
    pub(super) binds: Hosts,
}

impl Policy {
    /// A policy whose patterns on programs mean what they say: enough to explain, and where nothing is executed.
    pub fn new(profile: &Profile) -> Policy {
        Policy::following(profile, &|_| None)
    }

    /// A policy for a session. A pattern on programs, such as `/usr/bin/npm` or `@path/vi`, also means what it leads to
    /// where it is a symbolic link; `follow` says what that is, as the session sees it, now.
    pub fn following(profile: &Profile, follow: &Follow<'_>) -> Policy {
        let offset = profile.protected.len();
        let rules = profile.rules.iter().enumerate();
        let on_programs = rules.filter_map(|(at, rule)| {
            Some((offset.saturating_add(at), rule.level, rule.group.is_some(), rule.exec.as_ref()?))
        });
        Policy {
            programs: Programs::new(on_programs, follow),
            connects: Hosts::new(profile, Access::Connect),
            binds: Hosts::new(profile, Access::Bind),
            indexes: Access::ALL.map(|access| compile(profile, access)),
            profile: profile.clone(),
        }
    }

    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// The verdict on a canonical path, for an attempt of this call.
    pub fn decide(&self, access: Access, path: &RawPath, call: CallId, grants: &Grants) -> Verdict {
        let names: Vec<&[u8]> = path.components().collect();
        let matching =
            self.index(access).and_then(|index| index.strongest(&names, |entry| !self.is_hole(entry, &names)));
        let (level, basis) = match matching {
            Some(entry) => (entry.level, self.source(entry)),
            None => (self.profile.defaults.level(access), Source::Default),
        };
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
        let guards = self.index(access)?.guards_below(&names, least);
        let lifted = |entry: &&&Entry| {
            let needed = self.needed(entry.level, self.source(entry));
            entry.level < Level::Deny && grants.find_covering(access, &entry.pattern, call, needed).is_some()
        };
        let entry = guards.iter().find(|entry| !lifted(entry))?;
        let source = self.source(entry);
        Some(Verdict { level: entry.level, source, basis: source })
    }

    /// Whether a rule above `allow` speaks of a name that may be at any depth, such as `**/.env`: whoever moves or removes a
    /// directory must hold what exists below against [`Policy::floating`].
    pub fn has_floating(&self, access: Access) -> bool {
        self.index(access).is_some_and(Index::has_floating)
    }

    /// The verdict of those rules alone, on something below a directory that is moved: its path now, and its path to be.
    /// `None` if no such rule speaks about it; `[defaults]` and rules on whole trees are the directory's own matter.
    pub fn floating(&self, access: Access, path: &RawPath, call: CallId, grants: &Grants) -> Option<Verdict> {
        let names: Vec<&[u8]> = path.components().collect();
        let counts = |entry: &Entry| entry.guards_floating() && !self.is_hole(entry, &names);
        match self.index(access)?.strongest(&names, counts) {
            Some(entry) => Some(self.settle(entry.level, self.source(entry), access, path, call, grants)),
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
                profile: self.profile.name.clone(),
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
            Source::Rule(at) => self.profile.rules.get(at).map_or(Lifetime::Attempt, |rule| rule.remember),
            Source::Default => Lifetime::Session,
            _ => Lifetime::Attempt,
        }
    }

    /// The longest time that such an answer may hold, if its rule says one.
    pub fn remember_for(&self, verdict: &Verdict) -> Option<Duration> {
        self.rule_of(verdict.basis).and_then(|rule| rule.remember_for)
    }

    /// The group whose members answer to this verdict, instead of the session's user.
    pub fn group(&self, verdict: &Verdict) -> Option<&str> {
        self.group_of(verdict.basis)
    }

    fn group_of(&self, source: Source) -> Option<&str> {
        self.rule_of(source)?.group.as_deref()
    }

    fn rule_of(&self, source: Source) -> Option<&Rule> {
        match source {
            Source::Rule(at) => self.profile.rules.get(at),
            _ => None,
        }
    }

    pub(super) fn needed(&self, level: Level, source: Source) -> Needed<'_> {
        let longest = match source {
            Source::Rule(at) => self.profile.rules.get(at).map_or(Lifetime::Attempt, |rule| rule.remember),
            _ => Lifetime::Persistent,
        };
        Needed { authenticated: level == Level::Authenticate, group: self.group_of(source), longest }
    }

    fn index(&self, access: Access) -> Option<&Index> {
        Access::ALL.iter().position(|&known| known == access).and_then(|at| self.indexes.get(at))
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

    fn is_hole(&self, entry: &Entry, names: &[&[u8]]) -> bool {
        match self.source(entry) {
            Source::Rule(at) => {
                let rule = self.profile.rules.get(at);
                rule.is_some_and(|rule| rule.except.iter().any(|hole| hole.matches_names(names)))
            }
            _ => false,
        }
    }
}

fn compile(profile: &Profile, access: Access) -> Index {
    let mut entries = Vec::new();
    let mut number = 0_usize;
    let mut next = || {
        let this = number;
        number = number.saturating_add(1);
        this
    };
    for own in &profile.protected {
        let rule = next();
        if access == Access::Write {
            entries.push(Entry { pattern: Pattern::tree_of(own), level: Level::Deny, others: false, rule });
        }
    }
    for own in &profile.rules {
        let rule = next();
        if own.access.contains(&access) {
            let others = own.group.is_some();
            let entry = |pattern: &Pattern| Entry { pattern: pattern.clone(), level: own.level, others, rule };
            entries.extend(own.path.iter().map(entry));
        }
    }
    for root in &profile.scratch {
        let rule = next();
        if access == Access::Write {
            entries.push(Entry { pattern: Pattern::tree_of(root), level: Level::Allow, others: false, rule });
        }
    }
    Index::new(entries)
}
