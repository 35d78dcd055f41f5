//! Whether an answer reaches into what a rule speaks of: asked of answers that nobody was shown a request for, or that are
//! wider than what was shown. Pure; runs in the daemon, on patterns that a tool or a caller may have chosen.
//!
//! Errs towards yes.

use crate::common::access::{Access, Level};
use crate::common::decision::Effect;
use crate::common::scope::{Part, Pattern, Reach};

use super::grants::{Grant, Scope};
use super::model::Rule;

fn fit(one: &Part, other: &Part) -> bool {
    match (one, other) {
        (Part::Name(name), part) | (part, Part::Name(name)) => part.matches(name),
        _ => true,
    }
}

/// Whether there may be a path that both match, or, where `and_below`, one that lies below a match of `one`.
pub(super) fn meet(one: &Pattern, other: &Pattern, and_below: bool) -> bool {
    let is_deep = |part: Option<&Part>| matches!(part, Some(Part::Deep));
    let rows = one.parts();
    let columns = other.parts();
    // From the end: whether the rest of one from here on meets the rest of the other, for each place in the other.
    let last = |at: usize| and_below || columns.iter().skip(at).all(|part| *part == Part::Deep);
    let mut next: Vec<bool> = (0..=columns.len()).map(last).collect();
    for part in rows.iter().rev() {
        let mut row = vec![false; columns.len().saturating_add(1)];
        for at in (0..=columns.len()).rev() {
            let beside = |row: &[bool]| row.get(at.saturating_add(1)).copied().unwrap_or(false);
            let below = next.get(at).copied().unwrap_or(false);
            let column = columns.get(at);
            let meets = match (part, column) {
                (Part::Deep, _) => below || beside(&row),
                (_, column) if is_deep(column) => below || beside(&row),
                (part, Some(column)) => fit(part, column) && beside(&next),
                (_, None) => false,
            };
            if let Some(place) = row.get_mut(at) {
                *place = meets;
            }
        }
        next = row;
    }
    next.first().copied().unwrap_or(true)
}

/// Whether a rule on paths speaks of something that a pattern of this access covers, or that moves with it.
pub(super) fn reaches(access: Access, pattern: &Pattern, rule: &Rule) -> bool {
    let start = pattern.literal_prefix();
    let is_one = *pattern == Pattern::literal(&start);
    let names: Vec<&[u8]> = start.components().collect();
    rule.path.iter().any(|own| match is_one {
        // Of one file nothing is below, and of one directory what is named there.
        true => own.matches(&start) || access == Access::Write && own.reach_below(&names) >= Reach::Inside,
        false => meet(pattern, own, access == Access::Write),
    })
}

/// Whether one of these floors would have to be asked again, or denies, of what a grant allows without a question. What
/// programs do with their words, and where names lead to, is not known before they are run and looked up: any floor on
/// programs, or on the network, counts.
pub fn is_kept_from(grant: &Grant, floors: &[Rule]) -> bool {
    let counts = |rule: &&Rule| {
        rule.access.contains(&grant.access)
            && match rule.level {
                Level::Deny => true,
                Level::Authenticate => !grant.authenticated,
                Level::Allow | Level::Notify | Level::Ask => false,
            }
    };
    let speaks = |rule: &Rule| match &grant.scope {
        Scope::Paths(pattern) => reaches(grant.access, pattern, rule),
        Scope::Socket(scope) => {
            scope.service.is_some_and(|service| rule.services.contains(&service))
                || reaches(grant.access, &scope.paths, rule)
        }
        Scope::Command(_) | Scope::Host(_) => true,
    };
    grant.effect == Effect::Allow && floors.iter().filter(counts).any(speaks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_meet_where_a_path_is_of_both() {
        let meets = |one: &str, other: &str, and_below| {
            let (one, other) = (Pattern::parse(one).unwrap(), Pattern::parse(other).unwrap());
            let found = meet(&one, &other, and_below);
            assert!(and_below || found == meet(&other, &one, false), "{one} {other}: the same both ways");
            found
        };
        for (one, other) in [
            ("/a/**", "/a/b/**"),
            ("/a/**", "/a"),
            ("/a/*", "/a/b"),
            ("/a/*/c", "/a/b/*"),
            ("**/x.pem", "/home/**"),
            ("**/.git/**", "/home/a/.git/hooks"),
            ("/**", "/"),
            ("/a/**/z", "/a/b/c/**"),
        ] {
            assert!(meets(one, other, false), "{one} {other}");
        }
        for (one, other) in [
            ("/a/**", "/b/**"),
            ("/a/*", "/a/b/c"),
            ("/a/b", "/a"),
            ("/a/*.txt", "/a/x.pem"),
            ("/a/**/z", "/a/b/y"),
            ("/ab/**", "/a"),
        ] {
            assert!(!meets(one, other, false), "{one} {other}");
        }
        assert!(meets("/a/*", "/a/b/c", true) && !meets("/a/*.d", "/a/b/c", true) && !meets("/b/*", "/a/b/c", true));
    }
}
