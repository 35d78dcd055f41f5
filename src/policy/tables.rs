//! The rules of one hand, ready to be asked: the profile's own with its `[defaults]`, or the ceiling's, which says nothing
//! where no floor of it speaks. Built once per session; asked by the supervisor on every trapped call.
//!
//! The two are asked apart, so that a floor never stands in for the default that would have been stricter, and never counts
//! where it matters that some rule speaks at all.

use crate::common::access::{Access, Level};
use crate::common::net::Service;
use crate::common::scope::Pattern;

use super::decide::Source;
use super::hosts::Hosts;
use super::index::{Entry, Index};
use super::model::{Profile, Rule};
use super::programs::{Follow, Programs};

/// Whose rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hand {
    Profile,
    Ceiling,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Tables {
    hand: Hand,
    /// In the order of [`Access::ALL`].
    indexes: [Index; Access::ALL.len()],
    /// Of rules on services, the strongest first.
    services: Vec<(Service, Entry)>,
    pub programs: Programs,
    pub connects: Hosts,
    pub binds: Hosts,
}

impl Hand {
    fn has(self, rule: &Rule) -> bool {
        rule.is_ceiling == (self == Hand::Ceiling)
    }
}

impl Tables {
    pub fn new(profile: &Profile, hand: Hand, follow: &Follow<'_>) -> Tables {
        let offset = profile.protected.len();
        let rules = || profile.rules.iter().enumerate().filter(|(_, rule)| hand.has(rule));
        let on_programs = rules().filter_map(|(at, rule)| {
            Some((offset.saturating_add(at), rule.level, rule.group.is_some(), rule.exec.as_ref()?))
        });
        let on_services = rules().filter(|(_, rule)| rule.access.contains(&Access::Unix));
        let mut services: Vec<(Service, Entry)> = on_services
            .flat_map(|(at, rule)| {
                let entry = move || Entry {
                    pattern: Pattern::anywhere(crate::common::scope::Part::Deep),
                    level: rule.level,
                    others: rule.group.is_some(),
                    rule: offset.saturating_add(at),
                };
                rule.services.iter().map(move |service| (*service, entry()))
            })
            .collect();
        services.sort_by_key(|(_, entry)| entry.rank());
        let of_hand = |rule: &Rule| hand.has(rule);
        Tables {
            hand,
            programs: Programs::new(on_programs, follow),
            connects: Hosts::new(profile, Access::Connect, &of_hand),
            binds: Hosts::new(profile, Access::Bind, &of_hand),
            indexes: Access::ALL.map(|access| compile(profile, hand, access)),
            services,
        }
    }

    pub fn index(&self, access: Access) -> Option<&Index> {
        Access::ALL.iter().position(|&known| known == access).and_then(|at| self.indexes.get(at))
    }

    /// The strongest entry on a service by its name that `counts`.
    pub fn of_service(&self, service: Service, counts: impl Fn(&Entry) -> bool) -> Option<&Entry> {
        self.services.iter().filter(|(own, _)| *own == service).map(|(_, entry)| entry).find(|entry| counts(entry))
    }

    /// What holds where no rule of this hand speaks.
    pub fn otherwise(&self, profile: &Profile, access: Access) -> (Level, Source) {
        match self.hand {
            Hand::Profile => (profile.defaults.level(access), Source::Default),
            Hand::Ceiling => (Level::Allow, Source::Default),
        }
    }

    pub fn is_of_ceiling(&self) -> bool {
        self.hand == Hand::Ceiling
    }
}

/// Entries are numbered built-in first, then the rules of both hands, then scratch.
fn compile(profile: &Profile, hand: Hand, access: Access) -> Index {
    let mut entries = Vec::new();
    let is_own_write = access == Access::Write && hand == Hand::Profile;
    let (built_in, rules) = (profile.protected.len(), profile.rules.len());
    if is_own_write {
        let tree = |(rule, own)| Entry { pattern: Pattern::tree_of(own), level: Level::Deny, others: false, rule };
        entries.extend(profile.protected.iter().enumerate().map(tree));
    }
    let speaking = profile.rules.iter().enumerate().filter(|(_, own)| hand.has(own) && own.access.contains(&access));
    for (at, own) in speaking {
        let rule = built_in.saturating_add(at);
        let others = own.group.is_some();
        entries.extend(own.path.iter().map(|pattern| Entry {
            pattern: pattern.clone(),
            level: own.level,
            others,
            rule,
        }));
    }
    if is_own_write {
        let first = built_in.saturating_add(rules);
        let tree = |(at, root)| {
            let rule = first.saturating_add(at);
            Entry { pattern: Pattern::tree_of(root), level: Level::Allow, others: false, rule }
        };
        entries.extend(profile.scratch.iter().enumerate().map(tree));
    }
    Index::new(entries)
}
