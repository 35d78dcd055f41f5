//! What becomes wider and what narrower from one profile to another. Pure; for who is about to install the other one.
//!
//! Verdicts are compared, not texts: at every place that either profile writes about, each is asked, so that a rule which is
//! added, moved or loosened counts for what it changes and for nothing else.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::common::access::{Access, Level};
use crate::common::decision::{Lifetime, Width};
use crate::common::scope::Pattern;
use crate::common::wire::Network;

use super::decide::{Policy, Verdict};
use super::grants::Grants;
use super::model::{NoConsentAgent, Profile, Rule};
use super::programs::Follow;
use super::question::{Question, notation};
use super::samples::{self, Sample};

/// Terms of one difference that are named.
const MOST_TERMS: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// A tool may do more, or is asked about less.
    Wider,
    Narrower,
    /// Neither.
    Changed,
}

/// One thing that differs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Difference {
    pub direction: Direction,
    /// An access, a table of the file, or `rule`.
    pub what: String,
    /// What it is about, as the policy language writes it.
    pub terms: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub was: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is: Option<String>,
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Direction::Wider => "WIDER",
            Direction::Narrower => "NARROWER",
            Direction::Changed => "changed",
        })
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<9} {}", self.direction, self.what)?;
        for (at, term) in self.terms.iter().take(MOST_TERMS).enumerate() {
            write!(f, "{} {term}", if at == 0 { "" } else { "," })?;
        }
        match self.terms.len().checked_sub(MOST_TERMS) {
            None | Some(0) => {}
            Some(more) => write!(f, " and {more} more")?,
        }
        match (&self.was, &self.is) {
            (Some(was), Some(is)) => write!(f, ": was {was}, is {is}"),
            (None, Some(is)) => write!(f, ": {is}"),
            (Some(was), None) => write!(f, ": was {was}"),
            (None, None) => Ok(()),
        }
    }
}

/// The differences from one profile to another, the widening ones first. `follow` as in [`Policy::following`].
pub fn compare(old: &Profile, new: &Profile, follow: &Follow<'_>) -> Vec<Difference> {
    let mut differences = Vec::new();
    verdicts(&mut differences, old, new, follow);
    for access in Access::ALL {
        let (was, is) = (old.defaults.level(access), new.defaults.level(access));
        let direction = direction(&was, &is);
        push(&mut differences, direction, access.as_str(), "whatever no rule speaks of", was.as_str(), is.as_str());
    }
    tables(&mut differences, old, new);
    silent(&mut differences, old, new);
    differences.sort();
    differences.dedup();
    differences
}

/// Whether a tool gets more of it the greater it is.
fn direction<T: Ord>(was: &T, is: &T) -> Direction {
    if is > was { Direction::Narrower } else { Direction::Wider }
}

fn push(list: &mut Vec<Difference>, direction: Direction, what: &str, term: &str, was: &str, is: &str) {
    if was != is {
        let terms = if term.is_empty() { Vec::new() } else { vec![term.to_owned()] };
        list.push(Difference {
            direction,
            what: what.to_owned(),
            terms,
            was: Some(was.to_owned()),
            is: Some(is.to_owned()),
        });
    }
}

/// What decides about a sample.
struct Decided {
    level: Level,
    /// How long an answer may hold, in seconds, and who gives it.
    answer: Option<(Lifetime, u64, Option<String>)>,
    said: String,
}

impl Decided {
    /// Answers are compared as far as both profiles let them last: that one lets them last longer is said by itself.
    fn by(policy: &Policy, question: &Question, longest: Lifetime) -> Decided {
        let verdict = question.verdict(policy, &Grants::new());
        if question.is_own_network(policy, &Grants::new()) {
            return Decided { level: Level::Allow, answer: None, said: "the session's own network alone".to_owned() };
        }
        let rule = policy.rule(&verdict);
        let place = if rule.line == 0 { String::new() } else { format!(", {}:{}", rule.file, rule.line) };
        Decided {
            level: verdict.level,
            answer: answer(policy, &verdict, longest),
            said: format!("{} (rule {}{place})", verdict.level, rule.id),
        }
    }
}

fn answer(policy: &Policy, verdict: &Verdict, longest: Lifetime) -> Option<(Lifetime, u64, Option<String>)> {
    let asked = matches!(verdict.level, Level::Ask | Level::Authenticate);
    let seconds = policy.remember_for(verdict).map_or(u64::MAX, |time| time.as_secs());
    asked.then(|| (policy.remember(verdict).min(longest), seconds, policy.group(verdict).map(str::to_owned)))
}

fn verdicts(differences: &mut Vec<Difference>, old: &Profile, new: &Profile, follow: &Follow<'_>) {
    let (before, after) = (Policy::following(old, follow), Policy::following(new, follow));
    let trees = samples::trees([old, new]);
    let longest = old.grants.limits().longest.min(new.grants.limits().longest);
    let rules = old.rules.iter().chain(&new.rules);
    let mut found: BTreeMap<(Direction, String, String, String), Vec<String>> = BTreeMap::new();
    for Sample { term, question } in rules.flat_map(|rule| samples::of_rule(rule, &new.home, &trees)) {
        let (was, is) = (Decided::by(&before, &question, longest), Decided::by(&after, &question, longest));
        let (direction, was, is) = match (was.level == is.level, &was.answer, &is.answer) {
            (false, ..) => (direction(&was.level, &is.level), was.said, is.said),
            (true, Some(one), Some(other)) if one != other => {
                let longer = (other.0, other.1) > (one.0, one.1);
                let shorter = (other.0, other.1) < (one.0, one.1);
                let direction = match (longer, shorter) {
                    (true, _) => Direction::Wider,
                    (_, true) => Direction::Narrower,
                    _ => Direction::Changed,
                };
                (direction, format!("{}{}", was.said, of_answer(one)), format!("{}{}", is.said, of_answer(other)))
            }
            _ => continue,
        };
        let terms = found.entry((direction, question.access().as_str().to_owned(), was, is)).or_default();
        if !terms.contains(&term) {
            terms.push(term);
        }
    }
    differences.extend(found.into_iter().map(|((direction, what, was, is), terms)| Difference {
        direction,
        what,
        terms: without_trees(terms),
        was: Some(was),
        is: Some(is),
    }));
}

/// A name that means the same everywhere is not named for each tree.
fn without_trees(terms: Vec<String>) -> Vec<String> {
    let floating: Vec<String> =
        terms.iter().filter(|term| term.starts_with("**/")).map(|term| format!("/{term}")).collect();
    terms.into_iter().filter(|term| !floating.iter().any(|name| term.ends_with(name.as_str()))).collect()
}

fn of_answer((lifetime, seconds, group): &(Lifetime, u64, Option<String>)) -> String {
    let time = match *seconds {
        u64::MAX => String::new(),
        seconds => format!(", {} at the most", notation(std::time::Duration::from_secs(seconds))),
    };
    let who = group.as_ref().map_or_else(String::new, |group| format!(" by a member of {group}"));
    let long = match lifetime {
        Lifetime::Attempt | Lifetime::Call | Lifetime::Session => format!("for the {lifetime}"),
        Lifetime::Until => "for a time".to_owned(),
        Lifetime::Persistent => "for good".to_owned(),
    };
    format!(" with an answer{who} {long}{time}")
}

fn tables(list: &mut Vec<Difference>, old: &Profile, new: &Profile) {
    let roots = |profile: &Profile| profile.scratch.iter().map(|root| Pattern::tree_of(root).to_string()).collect();
    sets(list, "scratch", roots(old), roots(new), Direction::Wider, "nothing in it is judged or recorded");
    let names = |profile: &Profile| profile.env_deny.iter().map(|glob| String::from(glob.clone())).collect();
    sets(list, "env", names(old), names(new), Direction::Narrower, "the tool does not get these variables");
    let bus = |profile: &Profile| {
        let of = |bus: &str, names: &[String]| names.iter().map(|name| format!("{bus} {name}")).collect::<Vec<_>>();
        [of("session", &profile.bus_names.session), of("system", &profile.bus_names.system)].concat()
    };
    sets(list, "dbus", bus(old), bus(new), Direction::Wider, "the session may talk to these names");
    let matches = |profile: &Profile| {
        let of =
            |key: &str, values: Vec<String>| values.iter().map(|value| format!("{key} {value}")).collect::<Vec<_>>();
        let globs =
            |globs: &[crate::common::scope::NameGlob]| globs.iter().map(|glob| String::from(glob.clone())).collect();
        let patterns = |patterns: &[Pattern]| patterns.iter().map(Pattern::to_string).collect();
        [
            of("program", patterns(&profile.match_program)),
            of("unit", globs(&profile.match_unit)),
            of("user", profile.match_user.clone()),
            of("group", profile.match_group.clone()),
            of("cwd", patterns(&profile.match_cwd)),
        ]
        .concat()
    };
    sets(list, "match", matches(old), matches(new), Direction::Changed, "these choose the profile");
    let network = |profile: &Profile| {
        if profile.network == Network::Host { "the host's, where nothing is judged" } else { "the session's own" }
    };
    let wider = |is: bool| if is { Direction::Wider } else { Direction::Narrower };
    push(list, wider(new.network == Network::Host), "network", "", network(old), network(new));
    let debug = |profile: &Profile| if profile.debug { "debuggers work" } else { "debuggers are refused" };
    push(list, wider(new.debug), "debug", "", debug(old), debug(new));
    let workspace = |profile: &Profile| {
        profile.workspace.as_ref().map_or_else(|| "none".to_owned(), |path| Pattern::literal(path).to_string())
    };
    push(list, Direction::Changed, "workspace", "", &workspace(old), &workspace(new));
    let longest = |profile: &Profile| profile.grants.limits().longest;
    let limits = |profile: &Profile| match (longest(profile), profile.grants.max_for) {
        (Lifetime::Session, None) => "answers end with their session".to_owned(),
        (Lifetime::Persistent, None) => "answers may hold for good".to_owned(),
        (Lifetime::Persistent, Some(time)) => {
            format!("answers may hold for good, or for a time of {} at the most", notation(time))
        }
        (_, time) => format!("answers may hold for {} at the most", time.map_or_else(String::new, notation)),
    };
    let is_longer = (longest(new), new.grants.max_for) > (longest(old), old.grants.max_for);
    push(list, wider(is_longer), "grants", "", &limits(old), &limits(new));
    let reach = |profile: &Profile| {
        let widths = Width::ALL.into_iter().filter(|width| profile.grants.widths.has(*width));
        widths.map(|width| width.to_string()).collect::<Vec<_>>()
    };
    sets(list, "grants", reach(old), reach(new), Direction::Wider, "answers may reach so far");
    let timeout = |profile: &Profile| format!("{} for an answer", notation(profile.prompt.timeout));
    push(list, Direction::Changed, "prompt", "", &timeout(old), &timeout(new));
    let most = |profile: &Profile| format!("{} questions in a minute", profile.prompt.max_per_minute);
    push(list, Direction::Changed, "prompt", "", &most(old), &most(new));
    let nobody = |profile: &Profile| match profile.prompt.no_consent_agent {
        NoConsentAgent::Deny => "denied where nobody can be asked",
        NoConsentAgent::Queue => "waits where nobody can be asked",
    };
    push(list, Direction::Changed, "prompt", "", nobody(old), nobody(new));
}

/// What was added to and taken from a set.
fn sets(list: &mut Vec<Difference>, what: &str, old: Vec<String>, new: Vec<String>, more: Direction, meaning: &str) {
    let less = match more {
        Direction::Wider => Direction::Narrower,
        Direction::Narrower => Direction::Wider,
        Direction::Changed => Direction::Changed,
    };
    let only = |one: &[String], other: &[String]| -> Vec<String> {
        one.iter().filter(|term| !other.contains(term)).cloned().collect()
    };
    for (direction, terms, meaning) in
        [(more, only(&new, &old), format!("now {meaning}")), (less, only(&old, &new), format!("no more: {meaning}"))]
    {
        if !terms.is_empty() {
            list.push(Difference { direction, what: what.to_owned(), terms, was: None, is: Some(meaning) });
        }
    }
}

/// Rules that are new, gone or other than they were, and of which no verdict speaks.
fn silent(list: &mut Vec<Difference>, old: &Profile, new: &Profile) {
    let same = |one: &Rule, other: &Rule| *one == Rule { file: one.file.clone(), line: one.line, ..other.clone() };
    let find = |profile: &Profile, id: &str| profile.rules.iter().find(|rule| rule.id == id).cloned();
    let is_told = |list: &[Difference], id: &str| {
        let told = |text: &Option<String>| {
            text.as_ref()
                .is_some_and(|text| text.contains(&format!("(rule {id},")) || text.contains(&format!("(rule {id})")))
        };
        list.iter().any(|difference| told(&difference.was) || told(&difference.is))
    };
    let mut more = Vec::new();
    for rule in &new.rules {
        let words = match find(old, &rule.id) {
            None => "is new, and decides nothing otherwise than it was",
            Some(was) if same(&was, rule) => continue,
            Some(was) if same(&Rule { reason: rule.reason.clone(), ..was.clone() }, rule) => "has another reason",
            Some(_) => "is written otherwise, and decides nothing otherwise than it was",
        };
        if words == "has another reason" || !is_told(list, &rule.id) {
            more.push((rule.id.clone(), words));
        }
    }
    let gone = old.rules.iter().filter(|rule| find(new, &rule.id).is_none() && !is_told(list, &rule.id));
    more.extend(gone.map(|rule| (rule.id.clone(), "is gone, and nothing is decided otherwise than it was")));
    list.extend(more.into_iter().map(|(id, words)| Difference {
        direction: Direction::Changed,
        what: "rule".to_owned(),
        terms: vec![id],
        was: None,
        is: Some(words.to_owned()),
    }));
}
