//! What is odd in the paths of a rule. Pure.

use super::Lint;
use crate::common::access::{Access, Level};
use crate::common::id::CallId;
use crate::common::path::RawPath;
use crate::common::scope::{Part, Pattern};
use crate::policy::Grants;
use crate::policy::decide::Source;
use crate::policy::file::{ExceptTerm, RuleTable};
use crate::policy::lint::Finding;
use crate::policy::model::Rule;

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

impl Lint<'_> {
    pub(super) fn path(&self, found: &mut Vec<Finding>, rule: &Rule, pattern: &Pattern, at: usize) {
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
    pub(super) fn run_later(&self, found: &mut Vec<Finding>, rule: &Rule, at: usize) {
        if rule.level > Level::Notify || !rule.access.contains(&Access::Write) {
            return;
        }
        let Some(position) = self.profile.rules.iter().position(|own| std::ptr::eq(own, rule)) else { return };
        let home = Pattern::literal(&self.profile.home).to_string();
        let mut open = Vec::new();
        for written in RUN_LATER {
            let path = match written.split_once('/') {
                Some(("**", name)) => {
                    // Of a checkout; elsewhere such names mean nothing.
                    let holds = |place: &&RawPath| {
                        rule.path.iter().filter_map(Pattern::as_tree).any(|tree| place.is_within(&tree))
                    };
                    let Some(tree) = self.profile.workspace.as_ref().filter(holds) else { continue };
                    format!("{}/{name}", Pattern::literal(tree).to_string().trim_end_matches('/'))
                }
                Some(("~", rest)) => format!("{home}/{rest}"),
                _ => written.to_owned(),
            };
            let Ok(pattern) = Pattern::parse(&path) else { continue };
            let verdict = self.policy.decide(Access::Write, &pattern.literal_prefix(), CallId(0), &Grants::new());
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

    /// An `except` that leaves nothing of a term.
    pub(super) fn holes(&self, found: &mut Vec<Finding>, rule: &Rule, table: &RuleTable) {
        // What a variable stands for is another one elsewhere.
        let is_fixed = |written: &str| !written.starts_with(['~', '{']);
        let fixed: Vec<bool> = table
            .except
            .iter()
            .map(|hole| matches!(hole.get_ref(), ExceptTerm::Text(written) if is_fixed(written)))
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
}
