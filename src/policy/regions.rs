//! Where reads have to be held. Asked by whoever builds a session, with nothing but the profile: the kernel holds every open in a
//! region, so all that is surely allowed stays outside of regions and costs nothing.
//!
//! A region is a tree or a file of which policy may say more than `allow`. This errs on the side of regions: what is held is
//! still judged path by path.

use std::collections::HashSet;

use crate::common::access::{Access, Level};
use crate::common::id::CallId;
use crate::common::path::RawPath;
use crate::common::scope::{NameGlob, Part, Pattern, Reach};

use super::decide::Policy;
use super::grants::Grants;
use super::model::Profile;

/// A name that no policy writes out: a pattern that matches it matches every name.
pub(super) const ANY: &[u8] = b"\x01gated\x02";

/// A profile's patterns about reads, by how the places are found that they speak about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// Whether what no rule speaks about is held.
    pub everything: bool,
    /// Each leads to the places that [`steps`](Places::steps) says.
    pub anchored: Vec<Pattern>,
    /// The directories below which names at any depth are guarded, and have to be looked for: in the workspace, where it is
    /// below one.
    pub searched: Vec<Pattern>,
    /// The same of floors, and of what somebody denied, which do not depend on where a session works: in the home, too.
    pub limits: Vec<Pattern>,
}

/// How a pattern is followed from `/` to the places at which its verdicts begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// To this name.
    Name(&'a [u8]),
    /// To each name that is there and fits.
    Each(&'a NameGlob),
}

/// Whether the profile holds any read at all.
pub fn judges_reads(profile: &Profile) -> bool {
    profile.defaults.read > Level::Allow
        || !profile.held_reads.is_empty()
        || profile.rules.iter().any(|rule| speaks(rule.level, &rule.access))
}

fn speaks(level: Level, access: &[Access]) -> bool {
    level > Level::Allow && access.contains(&Access::Read)
}

impl Places {
    pub fn of(profile: &Profile) -> Places {
        let mut places = Places { everything: profile.defaults.read > Level::Allow, ..Places::default() };
        let (mut anchored, mut searched, mut limits) = (HashSet::new(), HashSet::new(), HashSet::new());
        for rule in profile.rules.iter().filter(|rule| rule.access.contains(&Access::Read)) {
            let guards = rule.level > Level::Allow;
            for pattern in rule.path.iter().chain(&rule.except) {
                if anchored.insert(pattern) {
                    places.anchored.push(pattern.clone());
                }
                let base = before_deep(pattern);
                match guards && pattern.is_floating() {
                    true if rule.is_ceiling && limits.insert(base.clone()) => places.limits.push(base),
                    true if !rule.is_ceiling && searched.insert(base.clone()) => places.searched.push(base),
                    _ => {}
                }
            }
        }
        for pattern in &profile.held_reads {
            if anchored.insert(pattern) {
                places.anchored.push(pattern.clone());
            }
            if pattern.is_floating() && limits.insert(before_deep(pattern)) {
                places.limits.push(before_deep(pattern));
            }
        }
        places
    }

    /// The steps from `/` to the directory or file at which `pattern` begins to speak. Where every name of a directory is
    /// meant, that is the directory itself.
    pub fn steps(pattern: &Pattern) -> Vec<Step<'_>> {
        let step = |part| match part {
            &Part::Deep => None,
            Part::Name(name) => Some(Step::Name(name)),
            Part::Glob(glob) if glob.matches(ANY) => None,
            Part::Glob(glob) => Some(Step::Each(glob)),
        };
        pattern.parts().iter().map_while(step).collect()
    }
}

/// The directories below which the names of a floating pattern may be: its literal beginning.
fn before_deep(pattern: &Pattern) -> Pattern {
    Pattern::literal(&pattern.literal_prefix())
}

impl Policy {
    /// Whether a read of this very path may need more than `allow`, whatever was granted.
    pub fn guards_read(&self, path: &RawPath) -> bool {
        self.decide(Access::Read, path, CallId(0), &Grants::new()).level > Level::Allow
            || self.profile().held_reads.iter().any(|held| held.matches(path))
    }

    /// Whether that may be so for names in this tree that policy does not write out: of those it does, each is a place of its
    /// own.
    pub fn guards_reads_below(&self, tree: &RawPath) -> bool {
        let mut path = tree.clone();
        (0..=self.deepest.min(64)).any(|_| {
            let guards = self.guards_read(&path);
            path = path.join(ANY);
            guards
        })
    }

    /// Whether a rule about names at any depth guards reads of this one.
    pub fn guards_floating_read(&self, path: &RawPath) -> bool {
        self.floating(Access::Read, path, CallId(0), &Grants::new()).is_some()
            || self.profile().held_reads.iter().any(|held| held.is_floating() && held.matches(path))
    }

    /// Whether places are named below this one at which reads may need more than `allow`.
    pub fn guards_reads_named_below(&self, tree: &RawPath) -> bool {
        let names: Vec<&[u8]> = tree.components().collect();
        self.below(Access::Read, tree, CallId(0), &Grants::new()).is_some()
            || self.profile().held_reads.iter().any(|held| held.reach_below(&names) >= Reach::Named)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(text: &str) -> usize {
        Pattern::parse(text).map_or(0, |pattern| Places::steps(&pattern).len())
    }

    #[test]
    fn a_pattern_is_followed_to_where_every_name_is_meant() {
        assert_eq!(steps("/home/*/**"), 1);
        assert_eq!(steps("/a/b.*/c"), 3);
        assert_eq!(steps("/a/**/.env"), 1);
        assert_eq!(steps("/a/b"), 2);
    }
}
