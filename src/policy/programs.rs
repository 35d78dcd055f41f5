//! Which rules speak of a program: patterns on its path, `@path`, and what such a pattern leads to where it names a symbolic
//! link. Built once per session; asked by the supervisor on every exec.

use crate::common::access::Level;
use crate::common::argv::{ArgvPattern, Strictness};
use crate::common::path::RawPath;
use crate::common::scope::{Part, Pattern};

use super::index::{Entry, Index};
use super::model::{ExecTerms, ProgramPattern};
use super::reading::{Reading, Subject};

/// Where `@path/NAME` is looked up to see whether it is a link.
const SYSTEM_FOLDERS: [&str; 6] = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// Follows a path to what it leads to, links resolved; `None` if that is nothing.
pub type Follow<'a> = dyn Fn(&RawPath) -> Option<RawPath> + 'a;

/// How a reading was met by a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// By its path.
    ByPath,
    /// By its name: nobody knows where it leads.
    ByName,
}

/// The rules on programs, by what they say of the program.
#[derive(Debug)]
pub(super) struct Programs {
    by_path: Index,
    /// For programs that are the system's.
    of_system: Index,
    /// By their last name; above `allow` only.
    by_name: Index,
}

/// What a pattern says of a program whose path is only text.
fn by_name(pattern: &Pattern) -> Pattern {
    match pattern.parts().last() {
        Some(Part::Deep) | None => pattern.clone(),
        // A star says nothing about the name.
        Some(Part::Glob(glob)) if glob.is_any() => pattern.clone(),
        Some(name) => Pattern::anywhere(name.clone()),
    }
}

impl Programs {
    /// The entries of rules come with their place among all.
    pub fn new<'a>(rules: impl Iterator<Item = (usize, Level, bool, &'a ExecTerms)>, follow: &Follow<'_>) -> Programs {
        let (mut paths, mut system, mut names) = (Vec::new(), Vec::new(), Vec::new());
        for (rule, level, others, terms) in rules {
            let entry = |pattern: Pattern| Entry { pattern, level, others, rule };
            let mut add = |list: &mut Vec<Entry>, pattern: Pattern| {
                if level > Level::Allow {
                    names.push(entry(by_name(&pattern)));
                }
                list.push(entry(pattern));
            };
            for program in &terms.program {
                match program {
                    ProgramPattern::Path(pattern) => {
                        let place = pattern.literal_prefix();
                        if let Some(led) = follow(&place).filter(|led| *led != place) {
                            add(&mut paths, pattern.moved_to(&led));
                        }
                        add(&mut paths, pattern.clone());
                    }
                    // A mere name does not say whose program it is.
                    ProgramPattern::System => system.push(entry(Pattern::anywhere(Part::Deep))),
                    ProgramPattern::SystemName(glob) => {
                        let name = Part::from(glob.clone());
                        if let Part::Name(name) = &name {
                            let links =
                                SYSTEM_FOLDERS.iter().filter_map(|&folder| follow(&RawPath::from(folder).join(name)));
                            links
                                .filter(|led| led.file_name() != name)
                                .for_each(|led| add(&mut system, Pattern::literal(&led)));
                        }
                        add(&mut system, Pattern::anywhere(name));
                    }
                }
            }
        }
        Programs { by_path: Index::new(paths), of_system: Index::new(system), by_name: Index::new(names) }
    }

    /// The strongest entry that speaks of a reading and that `counts`.
    pub fn strongest(&self, reading: &Reading<'_>, counts: impl Fn(&Entry) -> bool) -> Option<&Entry> {
        let exact = |names: &[&[u8]], is_of_system: bool| {
            let by_path = self.by_path.strongest(names, &counts);
            let of_system = if is_of_system { self.of_system.strongest(names, &counts) } else { None };
            stronger(by_path, of_system)
        };
        match reading.subject {
            // Only what speaks of everything speaks of a file without a name.
            Subject::Program(program) if !program.is_named => exact(&[], false),
            Subject::Program(program) => exact(&program.path.components().collect::<Vec<_>>(), program.is_of_system),
            Subject::Beside(program, name) => {
                let mut names: Vec<&[u8]> = program.path.components().collect();
                names.pop();
                names.push(name);
                stronger(exact(&names, program.is_of_system), self.named(&[name], &counts))
            }
            Subject::Text(text) => self.named(&plain(text), &counts),
        }
    }

    fn named(&self, names: &[&[u8]], counts: impl Fn(&Entry) -> bool) -> Option<&Entry> {
        self.by_name.strongest(names, counts)
    }
}

/// The stronger one of two entries.
pub(super) fn stronger<'a>(one: Option<&'a Entry>, other: Option<&'a Entry>) -> Option<&'a Entry> {
    one.into_iter().chain(other).min_by_key(|entry| entry.rank())
}

/// The components of a path as text, `.` and `..` taken out; of one that is not absolute the last name.
fn plain(text: &[u8]) -> Vec<&[u8]> {
    let mut names = Vec::new();
    for name in text.split(|&byte| byte == b'/').filter(|name| !name.is_empty() && *name != b".") {
        match name {
            b".." => names.truncate(names.len().saturating_sub(1)),
            _ => names.push(name),
        }
    }
    if text.starts_with(b"/") { names } else { names.split_off(names.len().saturating_sub(1)) }
}

impl ProgramPattern {
    /// Whether this may mean the subject of a reading; [`Found::ByName`] says that no path of it can be relied on.
    pub(super) fn may_be(&self, reading: &Reading<'_>, found: Found) -> bool {
        let name = reading.subject.name();
        let path = match (reading.subject, found) {
            (Subject::Program(program), Found::ByPath) => Some(&program.path),
            _ => None,
        };
        match self {
            ProgramPattern::System => true,
            ProgramPattern::SystemName(glob) => glob.matches(name),
            ProgramPattern::Path(pattern) => match path {
                Some(path) => pattern.matches(path),
                None => match pattern.parts().last() {
                    Some(Part::Deep) | None => true,
                    Some(part) => part.matches(name),
                },
            },
        }
    }
}

impl ExecTerms {
    /// Whether the words of a reading are meant by a rule of this level, whatever its program and environment.
    ///
    /// A rule above `allow` also means short options in one word and long ones cut short; its holes are exact. With a rule
    /// that allows it is the other way round.
    pub(super) fn speaks_of(&self, reading: &Reading<'_>, level: Level) -> bool {
        let (own, holes) = match level {
            Level::Allow => (Strictness::Exact, Strictness::Abbreviated),
            _ => (Strictness::Abbreviated, Strictness::Exact),
        };
        self.argv.as_ref().is_none_or(|argv| matches(argv, reading, own))
            && !self.except.iter().any(|hole| matches(hole, reading, holes))
    }
}

fn matches(pattern: &ArgvPattern, reading: &Reading<'_>, strictness: Strictness) -> bool {
    pattern.matches(|at| reading.words.get(at), strictness)
        || strictness == Strictness::Abbreviated
            && reading.split().is_some_and(|split| pattern.matches(|at| split.get(at).copied(), strictness))
}
