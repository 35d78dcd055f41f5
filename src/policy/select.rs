//! Which profile holds where none was named: the one whose `match` fits. Pure; asked by the daemon, as root, and by
//! `gated-run --embedded`, with what they know of the caller. The program and the directory are the caller's own word, and so
//! would be `--profile`.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use crate::common::path::RawPath;
use crate::common::scope::{NameGlob, Pattern};

use super::file::File;
use super::load::{self, Context, PolicyError, Read};
use super::merge;

/// The profile where nothing fits.
pub const DEFAULT: &str = "coder";

/// The `match` of one profile. Every key that there is has to fit, each by one of its values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matching {
    pub program: Vec<Pattern>,
    pub unit: Vec<NameGlob>,
    pub user: Vec<String>,
    pub group: Vec<String>,
    pub cwd: Vec<Pattern>,
}

/// Who starts what, and where from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Circumstances {
    /// The paths that the program goes by: where it was found, and with links followed.
    pub program: Vec<RawPath>,
    /// The system's unit that the caller is part of.
    pub unit: Option<String>,
    /// The names of the user's groups.
    pub groups: BTreeSet<String>,
}

/// What a profile was chosen by, from weak to strong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum By {
    /// Nothing else fits.
    Default,
    /// `user`, `group` and `cwd` alone.
    Person,
    Program,
    Unit,
    /// It was named.
    Name,
}

/// A profile's name, and why it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    pub name: String,
    /// Where it stands.
    pub file: String,
    pub by: By,
}

/// No profile.
#[derive(Debug, thiserror::Error)]
pub enum SelectError {
    #[error("both {one} and {other} match by {by}: name one with --profile", by = by.as_str())]
    Ambiguous { one: String, other: String, by: By },
    #[error(transparent)]
    Policy(#[from] PolicyError),
}

impl By {
    /// What fits.
    pub fn as_str(self) -> &'static str {
        match self {
            By::Default => "nothing else",
            By::Person => "user, group or directory",
            By::Program => "program",
            By::Unit => "unit",
            By::Name => "name",
        }
    }
}

impl Choice {
    /// What is built in is for those who have said nothing, however well it fits.
    fn rank(&self) -> (bool, By) {
        (!self.file.starts_with(load::BUILT_IN_FILE), self.by)
    }

    /// One line, where it is not the profile that everybody gets.
    pub fn told(&self) -> Option<String> {
        let (name, file, by) = (&self.name, &self.file, self.by.as_str());
        (self.by > By::Default && *name != DEFAULT).then(|| format!("profile {name} ({file}), chosen by {by}"))
    }
}

impl Matching {
    /// By what it fits, if every key of it does. Without any key it fits nothing.
    pub fn fits(&self, context: &Context, circumstances: &Circumstances) -> Option<By> {
        let unit = circumstances.unit.as_deref().unwrap_or_default().as_bytes();
        let one_of = |patterns: &[Pattern], path: &RawPath| patterns.iter().any(|own| own.matches(path));
        let keys = [
            (By::Unit, !self.unit.is_empty(), self.unit.iter().any(|own| own.matches(unit))),
            (
                By::Program,
                !self.program.is_empty(),
                circumstances.program.iter().any(|path| one_of(&self.program, path)),
            ),
            (By::Person, !self.user.is_empty(), self.user.contains(&context.user)),
            (By::Person, !self.group.is_empty(), self.group.iter().any(|own| circumstances.groups.contains(own))),
            (By::Person, !self.cwd.is_empty(), one_of(&self.cwd, &context.cwd)),
        ];
        let fits = keys.iter().all(|(_, is_there, fits)| !is_there || *fits);
        keys.iter().find(|(_, is_there, _)| fits && *is_there).map(|(by, ..)| *by)
    }
}

/// Chooses among the profiles with these names, and the built-in ones. A file comes before what is built in; among files a
/// unit comes before a program, and a program before user, group and directory; what is at the same level is an error. Every
/// file is read, so that a broken one is not passed over for another.
pub fn select(
    names: &BTreeSet<String>,
    context: &Context,
    circumstances: &Circumstances,
    read: &Read<'_>,
) -> Result<Choice, SelectError> {
    let mut best: Option<Choice> = None;
    let mut rival: Option<Choice> = None;
    let built_in = load::BUILT_IN.iter().map(|(name, _)| (*name).to_owned());
    let all: BTreeSet<String> = names.iter().cloned().chain(built_in).collect();
    for name in all {
        let text = match load::lookup(&name, context, read) {
            Ok(text) => text,
            Err(PolicyError::Masked { .. } | PolicyError::Unknown { .. }) => continue,
            Err(error) => return Err(error.into()),
        };
        let file = File::parse(&text)?;
        let Some(by) = merge::match_of(&text, &file, context)?.fits(context, circumstances) else { continue };
        let choice = Choice { name, file: text.name, by };
        match best.as_ref().map(|best| best.rank().cmp(&choice.rank())) {
            None | Some(Ordering::Less) => (best, rival) = (Some(choice), None),
            Some(Ordering::Equal) => rival = rival.or(Some(choice)),
            Some(Ordering::Greater) => {}
        }
    }
    match (best, rival) {
        (Some(best), Some(rival)) => Err(SelectError::Ambiguous { one: best.file, other: rival.file, by: best.by }),
        (Some(best), None) => Ok(best),
        (None, _) => Ok(Choice { name: DEFAULT.to_owned(), file: String::new(), by: By::Default }),
    }
}
