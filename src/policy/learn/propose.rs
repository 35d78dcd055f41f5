//! From what was seen to proposed rules. Pure.

use std::collections::{BTreeMap, BTreeSet};

use super::files::{self, Breadth};
use super::render::{Places, Proposed, quoted};
use super::replay::verdict;
use super::{Observations, Seen, commands, hosts};
use crate::common::access::{Access, Level};
use crate::common::argv::{ArgvPattern, Strictness};
use crate::common::id::CallId;
use crate::common::path::RawPath;
use crate::common::scope::{Pattern, Reach};
use crate::common::text;
use crate::policy::decide::{Policy, Source};
use crate::policy::grants::Grants;
use crate::policy::model::ProgramPattern;

/// Columns of a path or command in a comment.
const SHOWN: usize = 160;

/// For which profile a proposal is made.
#[derive(Clone, Copy)]
pub struct Subject<'a> {
    pub name: &'a str,
    /// What the session learned under.
    pub base: &'a Policy,
    /// The profile for coding agents: what it keeps above `allow` is kept here, too.
    pub guards: &'a Policy,
}

/// A profile that is proposed.
#[derive(Clone, Debug)]
pub struct Proposal {
    pub name: String,
    pub base: String,
    pub rules: Vec<Proposed>,
    /// What no rule is proposed for, one line each, escaped.
    pub notes: Vec<String>,
}

impl Proposal {
    /// The text above the rules.
    pub fn header(&self) -> String {
        let description = format!("Proposed by what was seen, on top of {}", self.base);
        let mut text = format!(
            "# Learned: every rule was seen to be needed, and is yours to judge.\nschema = 1\n\n[profile]\nname = {}\ndescription = {}\n\
             extends = [{}]\n",
            quoted(&self.name),
            quoted(&description),
            quoted(&self.base)
        );
        if !self.notes.is_empty() {
            text.push('\n');
            text.extend(self.notes.iter().map(|note| format!("# {note}\n")));
        }
        text
    }

    /// The whole file.
    pub fn text(&self) -> String {
        let rules = self.rules.iter().map(|rule| format!("\n{}", rule.text(None)));
        std::iter::once(self.header()).chain(rules).collect()
    }
}

/// What stands against a rule that allows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    /// It goes through anyway.
    Allowed,
    Free,
    /// A rule of this id, of this profile, wants a person to be asked.
    Asked(Level, String, String),
    /// A rule denies it.
    Denied(String, String),
    /// It was denied while learning.
    Limited(String),
}

/// The profile that would not have asked about what was seen.
pub fn propose(observations: &Observations, subject: &Subject<'_>) -> Proposal {
    let mut by_standing: BTreeMap<(Standing, Access), Vec<&Seen>> = BTreeMap::new();
    for seen in observations.iter() {
        by_standing.entry((standing(seen, subject), seen.what.access)).or_default().push(seen);
    }
    let mut maker = Maker { subject, ids: taken(subject.base), rules: Vec::new(), notes: Vec::new() };
    for ((standing, access), seen) in by_standing {
        match standing {
            Standing::Allowed => {}
            Standing::Limited(rule) => maker.note(&rule, access, &seen),
            other => maker.add(&other, access, &seen),
        }
    }
    if observations.left_out > 0 {
        maker.notes.push(format!("{} things more were seen than are kept: this is not all.", observations.left_out));
    }
    let base = subject.base.profile().name.clone();
    Proposal { name: subject.name.to_owned(), base, rules: maker.rules, notes: maker.notes }
}

fn taken(base: &Policy) -> BTreeSet<String> {
    base.profile().rules.iter().map(|rule| rule.id.clone()).collect()
}

fn standing(seen: &Seen, subject: &Subject<'_>) -> Standing {
    let what = &seen.what;
    if !what.outcome.permits() {
        return Standing::Limited(what.rule.clone());
    }
    if what.would <= Level::Notify {
        return Standing::Allowed;
    }
    let base = || subject.base.profile().name.clone();
    if what.rule != "default" {
        return match what.would {
            Level::Deny => Standing::Denied(what.rule.clone(), base()),
            level => Standing::Asked(level, what.rule.clone(), base()),
        };
    }
    let guard = verdict(subject.guards, what);
    let rule = || subject.guards.rule(&guard).id;
    let of = || subject.guards.profile().name.clone();
    match (guard.level, guard.source) {
        (Level::Ask | Level::Authenticate, Source::Rule(_)) => Standing::Asked(guard.level, rule(), of()),
        (Level::Deny, Source::Rule(_) | Source::BuiltIn(_) | Source::Service(_) | Source::Rebinding) => {
            Standing::Denied(rule(), of())
        }
        _ => Standing::Free,
    }
}

struct Maker<'a> {
    subject: &'a Subject<'a>,
    ids: BTreeSet<String>,
    rules: Vec<Proposed>,
    notes: Vec<String>,
}

impl Maker<'_> {
    fn note(&mut self, rule: &str, access: Access, seen: &[&Seen]) {
        for one in seen.iter().take(16) {
            let object = text::escaped_within(one.what.object.as_bytes(), SHOWN);
            self.notes.push(format!(
                "Denied while it was learned, by {}: {access} {object} ({})",
                text::escaped_within(rule.as_bytes(), SHOWN),
                times(one.times)
            ));
        }
        if let Some(more) = seen.len().checked_sub(16).filter(|more| *more > 0) {
            self.notes.push(format!("... and {more} more for {access}"));
        }
    }

    fn add(&mut self, standing: &Standing, access: Access, seen: &[&Seen]) {
        match access {
            Access::Read | Access::Write => self.files(standing, access, "path", seen),
            Access::Unix => self.files(standing, access, "socket", seen),
            Access::Exec => self.commands(standing, seen),
            Access::Connect | Access::Bind => self.hosts(standing, access, seen),
        }
    }

    fn files(&mut self, standing: &Standing, access: Access, key: &'static str, seen: &[&Seen]) {
        let home = self.subject.base.profile().home.clone();
        let by_path: BTreeMap<&RawPath, Vec<&Seen>> = seen.iter().fold(BTreeMap::new(), |mut all, one| {
            all.entry(&one.what.object).or_insert_with(Vec::new).push(*one);
            all
        });
        let may = |place: &RawPath, breadth: Breadth| {
            files::is_specific(place, breadth, &home)
                && (access != Access::Unix || breadth == Breadth::Children)
                && (*standing != Standing::Free || self.is_unguarded(access, place))
        };
        let general = files::generalise(by_path.keys().copied(), &may);
        let places = self.places();
        let mut rows = Vec::new();
        for one in &general {
            let behind: Vec<&Seen> = one.paths.iter().filter_map(|path| by_path.get(path)).flatten().copied().collect();
            let except = match &one.whole {
                Some((place, _)) if *standing == Standing::Free => self.holes(access, place),
                _ => Vec::new(),
            };
            let mut lists = vec![(key, vec![places.shown(&one.pattern)])];
            if !except.is_empty() {
                lists.push(("except", except));
            }
            let about = one.whole.as_ref().map_or_else(|| one.paths.first(), |(place, _)| Some(place));
            rows.push((slug(about.map(RawPath::file_name).unwrap_or_default()), lists, behind, one.paths.len()));
        }
        // What a rule keeps stands together, as one rule.
        if let (Standing::Asked(_, rule, _) | Standing::Denied(rule, _), false) = (standing, rows.is_empty()) {
            let all =
                rows.iter().flat_map(|(_, lists, _, _)| lists.iter().flat_map(|(_, values)| values.clone())).collect();
            let behind: Vec<&Seen> = rows.iter().flat_map(|(_, _, behind, _)| behind.iter().copied()).collect();
            let things = behind.len();
            rows = vec![(slug(rule.as_bytes()), vec![(key, all)], behind, things)];
        }
        for (about, lists, behind, things) in rows {
            self.push(standing, access, &about, lists, &behind, things, None);
        }
    }

    fn commands(&mut self, standing: &Standing, seen: &[&Seen]) {
        let is_kept = |program: &RawPath, words: &[Vec<u8>]| match standing {
            Standing::Free => self.kept_commands(program, words),
            _ => Some(Vec::new()),
        };
        for group in commands::groups(seen.iter().copied(), &is_kept) {
            let name = group.program.file_name();
            let program = self.places().shown(&Pattern::literal(&group.program));
            let mut argv = vec![argv_name(name)];
            argv.extend(group.words.iter().cloned());
            if group.is_open {
                argv.push("**".to_owned());
            }
            let first = group.words.iter().find(|word| !word.starts_with('-')).map(|word| format!("-{word}"));
            let about = format!("{}{}", String::from_utf8_lossy(name), first.unwrap_or_default());
            let lists = vec![("program", vec![program]), ("argv", argv)];
            let about = slug(about.as_bytes());
            self.push(standing, Access::Exec, &about, lists, &group.seen, group.seen.len(), group.asks);
            if let Some(rule) = self.rules.last_mut() {
                rule.holes = group.holes.into_iter().map(|hole| (argv_name(name), hole)).collect();
            }
        }
    }

    fn hosts(&mut self, standing: &Standing, access: Access, seen: &[&Seen]) {
        for group in hosts::groups(access, seen.iter().copied()) {
            let mut lists = vec![("host", group.terms)];
            if group.transport == crate::common::net::Transport::Udp {
                lists.push(("protocol", vec!["udp".to_owned()]));
            }
            let about = slug(group.about.as_bytes());
            self.push(standing, access, &about, lists, &group.seen, group.seen.len(), group.asks);
        }
    }

    #[allow(clippy::too_many_arguments, reason = "the parts of one rule")]
    fn push(
        &mut self,
        standing: &Standing,
        access: Access,
        about: &str,
        lists: Vec<(&'static str, Vec<String>)>,
        behind: &[&Seen],
        things: usize,
        asks: Option<&'static str>,
    ) {
        let mut comments = vec![of(behind, things)];
        let (level, is_comment) = match (standing, asks) {
            (Standing::Asked(level, rule, profile), _) => {
                comments.push(format!("Still asked, as rule {} of {profile} says.", text::escaped(rule.as_bytes())));
                (*level, false)
            }
            (Standing::Denied(rule, profile), _) => {
                comments.push(format!(
                    "Rule {} of {profile} denies it; this has no effect as long as it does.",
                    text::escaped(rule.as_bytes())
                ));
                (Level::Ask, true)
            }
            (_, Some(why)) => {
                comments.push(format!("Asked, since {why}."));
                (Level::Ask, false)
            }
            _ => (Level::Allow, false),
        };
        let id = self.id(access, about);
        self.rules.push(Proposed { id, access, level, lists, holes: Vec::new(), comments, is_comment });
    }

    fn id(&mut self, access: Access, about: &str) -> String {
        let first = format!("learned-{access}-{about}");
        let first = first.trim_end_matches('-').to_owned();
        let numbered = (2_u32..).map(|number| format!("{first}-{number}"));
        let free = std::iter::once(first.clone()).chain(numbered).find(|id| !self.ids.contains(id));
        let id = free.unwrap_or(first);
        self.ids.insert(id.clone());
        id
    }

    fn places(&self) -> Places<'_> {
        let profile = self.subject.base.profile();
        Places { home: &profile.home, workspace: profile.workspace.as_ref() }
    }

    /// Whether nothing below is kept by name, and nothing of gated's own is near.
    fn is_unguarded(&self, access: Access, place: &RawPath) -> bool {
        let policies = [self.subject.base, self.subject.guards];
        policies.iter().all(|policy| {
            let own = &policy.profile().protected;
            !own.iter().any(|own| own.is_within(place) || place.is_within(own))
                && policy.below(access, place, CallId(0), &Grants::new()).is_none()
        })
    }

    /// What the guards keep of the commands of this program that begin so, by rules that the base has not; `None` where it is
    /// all of them.
    fn kept_commands(&self, program: &RawPath, words: &[Vec<u8>]) -> Option<Vec<ArgvPattern>> {
        let known = &self.subject.base.profile().rules;
        let guards = self.subject.guards.profile().rules.iter();
        let unknown = guards.filter(|rule| {
            rule.level > Level::Notify && !known.iter().any(|own| (&own.id, &own.file) == (&rule.id, &rule.file))
        });
        let mut kept = Vec::new();
        for terms in unknown.filter_map(|rule| rule.exec.as_ref()) {
            let speaks = terms.program.iter().any(|own| match own {
                ProgramPattern::Path(path) => path.matches(program),
                ProgramPattern::System => true,
                ProgramPattern::SystemName(name) => name.matches(program.file_name()),
            });
            if !speaks {
                continue;
            }
            let argv = terms.argv.as_ref()?;
            if argv.may_begin_with(words.iter().map(Vec::as_slice), Strictness::Abbreviated) {
                kept.push(argv.clone());
            }
        }
        Some(kept)
    }

    /// Names at any depth that the guards keep and the base does not know of: holes in a rule on this tree.
    fn holes(&self, access: Access, place: &RawPath) -> Vec<String> {
        let kept = |policy: &Policy| -> BTreeSet<Pattern> {
            let rules = policy.profile().rules.iter();
            let keeping = rules.filter(|rule| rule.level > Level::Notify && rule.access.contains(&access));
            keeping.flat_map(|rule| rule.path.iter()).filter(|path| path.is_floating()).cloned().collect()
        };
        let names: Vec<&[u8]> = place.components().collect();
        let known = kept(self.subject.base);
        let unknown = kept(self.subject.guards).into_iter().filter(|pattern| !known.contains(pattern));
        let near = unknown.filter(|pattern| pattern.reach_below(&names) != Reach::Nothing);
        near.map(|pattern| self.places().shown(&pattern)).collect()
    }
}

fn times(times: u64) -> String {
    if times == 1 { "once".to_owned() } else { format!("{times} times") }
}

/// `Seen 214 times, 37 of them different, by /usr/bin/npm and /usr/bin/node.`
fn of(behind: &[&Seen], things: usize) -> String {
    let count = behind.iter().fold(0_u64, |sum, one| sum.saturating_add(one.times));
    let programs: BTreeSet<&RawPath> = behind.iter().flat_map(|one| &one.programs).collect();
    let shown = |path: &&RawPath| text::escaped_within(path.as_bytes(), SHOWN);
    let mut named: Vec<String> = programs.iter().take(4).map(shown).collect();
    if programs.len() > 4 {
        named.push("others".to_owned());
    }
    let different = if things > 1 { format!(", {things} of them different") } else { String::new() };
    format!("Seen {}{different}, by {}.", times(count), named.join(", "))
}

/// Text for an id.
fn slug(name: &[u8]) -> String {
    let mut slug = String::new();
    for byte in name.iter().take(40) {
        match byte {
            byte if byte.is_ascii_alphanumeric() => slug.push(char::from(byte.to_ascii_lowercase())),
            _ if slug.ends_with('-') || slug.is_empty() => {}
            _ => slug.push('-'),
        }
    }
    slug.trim_end_matches('-').to_owned()
}

/// The first word of a pattern, which is held against nothing.
fn argv_name(name: &[u8]) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.+".contains(byte);
    if !name.is_empty() && name.iter().all(plain) {
        String::from_utf8_lossy(name).into_owned()
    } else {
        "program".to_owned()
    }
}
