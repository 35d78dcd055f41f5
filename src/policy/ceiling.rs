//! The ceiling, an admin's limit that no profile, no user and no answer exceeds: `ceiling.toml`. Read by the daemon, and by
//! `gated-run --embedded` before it leaves root; pure. Its floors become rules of each session's profile, apart from the
//! profile's own: they only ever make a verdict stricter.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;

use crate::common::access::Access;
use crate::common::decision::{Lifetime, Limits};
use crate::common::wire::Network;

use super::file::{self, Text, Versioned};
use super::floors::{self, FloorTable};
use super::load::{Context, PolicyError};
use super::model::{Profile, Rule};

/// Where the file may be; the first one decides alone.
pub const FOLDERS: [&str; 3] = ["/etc/gated", "/run/gated", "/usr/lib/gated"];
pub const FILE: &str = "ceiling.toml";

const SECOND: Duration = Duration::from_secs(1);
const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

/// From short to long, as the file names them.
const LIFETIMES: [Lifetime; 5] =
    [Lifetime::Attempt, Lifetime::Call, Lifetime::Session, Lifetime::Until, Lifetime::Persistent];

/// Without a file, no limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ceiling {
    /// Names of users, and of groups behind an `@`; `None`: every local user.
    may_run: Option<Vec<String>>,
    may_write_profiles: bool,
    limits: Limits,
    /// The file's name and text, if it has floors.
    floors: Option<(String, String)>,
}

impl Default for Ceiling {
    fn default() -> Ceiling {
        Ceiling { may_run: None, may_write_profiles: true, limits: Limits::ANY, floors: None }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    schema: Spanned<i64>,
    #[serde(default)]
    users: Users,
    #[serde(default, rename = "floor")]
    floors: Vec<Spanned<FloorTable>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Users {
    may_run: Option<Vec<Spanned<String>>>,
    may_write_profiles: Option<bool>,
    lifetimes: Option<Spanned<Vec<Spanned<Lifetime>>>>,
    max_for: Option<Spanned<String>>,
}

impl Versioned for File {
    fn schema(&self) -> &Spanned<i64> {
        &self.schema
    }
}

impl Ceiling {
    /// Loads the file. `read` gives a file's contents; one that is not there is [`io::ErrorKind::NotFound`], and any other
    /// error ends the loading. An empty file stands for no limit, and hides those further down.
    pub fn load(read: &dyn Fn(&Path) -> io::Result<String>) -> Result<Ceiling, PolicyError> {
        for path in FOLDERS.map(|folder| PathBuf::from(folder).join(FILE)) {
            let name = path.to_string_lossy().into_owned();
            match read(&path) {
                Ok(text) if text.is_empty() => break,
                Ok(text) => return Ceiling::parse(Text::new(name, text)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(source) => return Err(PolicyError::Unreadable { file: name, source }),
            }
        }
        Ok(Ceiling::default())
    }

    fn parse(text: Text) -> Result<Ceiling, PolicyError> {
        let file: File = text.parse()?;
        for who in file.users.may_run.iter().flatten() {
            let name = who.get_ref().strip_prefix('@').unwrap_or(who.get_ref());
            if !is_account_name(name) {
                let message = format!("`{}` is neither a user's name nor `@` and a group's", who.get_ref());
                return Err(text.error_at(who, message));
            }
        }
        let limits = limits(&text, &file.users)?;
        // Of anybody, so that a floor that would fail for somebody fails now.
        let anybody = Context { home: "/home/user".into(), user: "user".to_owned(), cwd: "/home/user/project".into() };
        for (at, floor) in file.floors.iter().enumerate() {
            floors::rules(&text, at, floor, &anybody)?;
        }
        let plain = |names: Vec<Spanned<String>>| names.into_iter().map(Spanned::into_inner).collect();
        Ok(Ceiling {
            may_run: file.users.may_run.map(plain),
            may_write_profiles: file.users.may_write_profiles.unwrap_or(true),
            limits,
            floors: (!file.floors.is_empty()).then(|| (text.name.clone(), text.text.clone())),
        })
    }

    /// Whether this user, a member of these groups, may start sessions. Not to be asked about root, who may: it could change
    /// the file.
    pub fn may_run(&self, name: &str, groups: &BTreeSet<String>) -> bool {
        let listed = |who: &String| match who.strip_prefix('@') {
            Some(group) => groups.contains(group),
            None => who == name,
        };
        self.may_run.as_ref().is_none_or(|names| names.iter().any(listed))
    }

    /// Whether sessions may have profiles that users wrote. Not to be asked about root.
    pub fn may_write_profiles(&self) -> bool {
        self.may_write_profiles
    }

    /// What answers may be.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// The floors for a session of the context's user, a member of these groups, as rules.
    pub fn rules(&self, context: &Context, groups: &BTreeSet<String>) -> Result<Vec<Rule>, PolicyError> {
        self.floors(context, Some(groups))
    }

    fn floors(&self, context: &Context, groups: Option<&BTreeSet<String>>) -> Result<Vec<Rule>, PolicyError> {
        let Some((name, text)) = &self.floors else { return Ok(Vec::new()) };
        let text = Text::new(name.clone(), text.clone());
        let file: File = text.parse()?;
        let mut rules = Vec::new();
        for (at, floor) in file.floors.iter().enumerate() {
            if floor.get_ref().is_for(&context.user, groups) {
                rules.extend(floors::rules(&text, at, floor, context)?);
            }
        }
        Ok(rules)
    }

    /// Puts the floors over a session's profile, and what limits answers into it. A profile for which a floor cannot be held
    /// is an error.
    pub fn cover(
        &self,
        profile: &mut Profile,
        context: &Context,
        groups: &BTreeSet<String>,
    ) -> Result<(), PolicyError> {
        let rules = self.rules(context, groups)?;
        let on_network = |rule: &&Rule| {
            rule.exec.is_none() && !rule.access.iter().any(|access| matches!(access, Access::Read | Access::Write))
        };
        if let (Network::Host, Some(floor)) = (profile.network, rules.iter().find(on_network)) {
            let message = format!(
                "this floor cannot be held with network = \"host\", which profile `{}` has ({})",
                profile.name, profile.file
            );
            return Err(PolicyError::Invalid { file: floor.file.clone(), line: floor.line, column: 1, message });
        }
        floors::close_buses(&mut profile.bus_names, &rules, &mut profile.notes);
        profile.rules.extend(rules);
        profile.grants.ceiling = self.limits;
        Ok(())
    }

    /// Nothing but the ceiling: what it says by itself of anything ([`floors::level_on`]).
    /// `None`: of a user whose groups are not known, who is taken for a member of all.
    pub fn alone(&self, context: &Context, groups: Option<&BTreeSet<String>>) -> Result<Profile, PolicyError> {
        let mut profile = Profile::empty(context.home.clone());
        profile.rules = self.floors(context, groups)?;
        profile.grants.ceiling = self.limits;
        Ok(profile)
    }
}

/// The lifetimes that are listed, without a gap: an answer that wants to hold for longer is cut to the longest.
fn limits(text: &Text, users: &Users) -> Result<Limits, PolicyError> {
    let max_for = users.max_for.as_ref().map(|value| file::duration(text, value, SECOND, YEAR)).transpose()?;
    let longest = match &users.lifetimes {
        // A time for which answers hold at the most is one.
        None if max_for.is_some() => Lifetime::Until,
        None => Lifetime::Persistent,
        Some(listed) => {
            let has = |lifetime: &&Lifetime| listed.get_ref().iter().any(|own| own.get_ref() == *lifetime);
            let whole = LIFETIMES.iter().take_while(has).last().copied();
            let Some(longest) = whole else {
                return Err(text.error_at(listed, "`attempt` was expected: without it nothing could be answered"));
            };
            if let Some(beyond) = listed.get_ref().iter().find(|own| *own.get_ref() > longest) {
                let gap = LIFETIMES.iter().find(|own| **own > longest).unwrap_or(&longest);
                let message = format!("`{}` without `{gap}`, which is shorter", beyond.get_ref());
                return Err(text.error_at(beyond, message));
            }
            if longest == Lifetime::Until && max_for.is_none() {
                return Err(text.error_at(listed, "`until` is the longest, so `max_for` has to say for how long"));
            }
            longest
        }
    };
    Ok(Limits { longest, max_for, ..Limits::ANY })
}

/// Whether something can be the name of a user or group, a directory service's (`CORP\domain users`, `ci@corp`) included,
/// without anything that a reader could miss.
pub(super) fn is_account_name(name: &str) -> bool {
    let plain = |character: char| character.is_alphanumeric() || "-_.$+@\\ ".contains(character);
    let begins = name.starts_with(|first: char| first.is_alphanumeric() || first == '_');
    begins && name.len() <= 256 && !name.ends_with(' ') && name.chars().all(plain)
}
