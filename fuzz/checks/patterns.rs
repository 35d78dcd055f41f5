//! Patterns of rules and grants: what is written is read back as the same, and matches exactly what its notation says, whatever
//! the path, word or host.

use gated::common::access::Access;
use gated::common::argv::{ArgvPattern, Place, Strictness};
use gated::common::decision::Effect;
use gated::common::net::{HostName, HostTerm, TermHost};
use gated::common::path::RawPath;
use gated::common::scope::{NameGlob, Part, Pattern, Reach};
use gated::policy::unasked::{self, Words};

use super::feed::Feed;

/// Two patterns of paths, two of hosts and words of a command, a line each; then what they are held against.
pub fn check(input: &[u8]) {
    let mut feed = Feed(input);
    let (one, other) = (feed.line(), feed.line());
    let (host, second) = (feed.line(), feed.line());
    let words = feed.line();
    let given: Vec<&[u8]> = feed.lines().collect();
    let patterns: Vec<Pattern> = [&one, &other].into_iter().filter_map(|text| path_pattern(text)).collect();
    for path in given.iter().filter(|path| path.starts_with(b"/") && path.len() < 4096) {
        for pattern in &patterns {
            paths(pattern, &RawPath::new(*path));
        }
        if let [first, second] = patterns.as_slice() {
            covering(first, second, &RawPath::new(*path));
            covering(second, first, &RawPath::new(*path));
        }
    }
    if let Ok(glob) = NameGlob::parse(&one) {
        assert_eq!(NameGlob::parse(&glob.to_string()), Ok(glob.clone()));
        names(&glob, &given);
    }
    hosts(&[&host, &second], &given);
    commands(&words, &given);
    for text in [&*one, &*host, &*words] {
        meant(text);
    }
}

fn path_pattern(text: &str) -> Option<Pattern> {
    let pattern = Pattern::parse(text).ok()?;
    let written = pattern.to_string();
    assert_eq!(Pattern::parse(&written).as_ref(), Ok(&pattern), "{written}");
    assert!(pattern.covers(&pattern));
    Some(pattern)
}

/// What the notation says, taken literally; for few enough parts to try all ways.
fn fits(parts: &[Part], names: &[&[u8]]) -> bool {
    match (parts.split_first(), names.split_first()) {
        (None, None) => true,
        (Some((Part::Deep, rest)), first) => fits(rest, names) || first.is_some_and(|(_, behind)| fits(parts, behind)),
        (Some((own, rest)), Some((name, behind))) => own.matches(name) && fits(rest, behind),
        _ => false,
    }
}

fn paths(pattern: &Pattern, path: &RawPath) {
    let all: Vec<&[u8]> = path.components().collect();
    let matches = pattern.matches(path);
    let deep = pattern.parts().iter().filter(|part| **part == Part::Deep).count();
    if deep <= 3 && all.len() <= 24 {
        assert_eq!(matches, fits(pattern.parts(), &all), "{pattern} on {path:?}");
    }
    if !matches {
        return;
    }
    assert!(path.is_within(&pattern.literal_prefix()), "{pattern} matches {path:?}");
    assert!(pattern.covers(&Pattern::literal(path)));
    if let Some(tree) = pattern.as_tree() {
        assert!(path.is_within(&tree));
    }
    // Whoever moves or removes a directory above it has to know.
    for depth in 0..all.len() {
        let above = &all[..depth];
        if !pattern.matches_names(above) {
            assert_ne!(pattern.reach_below(above), Reach::Nothing, "{pattern} below the first {depth} of {path:?}");
        }
    }
}

fn covering(wide: &Pattern, narrow: &Pattern, path: &RawPath) {
    if wide.covers(narrow) && narrow.matches(path) {
        assert!(wide.matches(path), "{wide} is to cover {narrow}, but not {path:?}");
    }
}

fn names(glob: &NameGlob, given: &[&[u8]]) {
    for name in given {
        let (first, last) = glob.outer_bytes();
        if glob.matches(name) {
            assert!(first.is_none_or(|byte| name.first() == Some(&byte)), "{glob}");
            assert!(last.is_none_or(|byte| name.last() == Some(&byte)), "{glob}");
            assert!(name.starts_with(glob.beginning()));
        }
        assert!(glob.matches(&glob.with_stars(name)), "{glob} with {name:?}");
    }
}

fn hosts(terms: &[&str], given: &[&[u8]]) {
    let names: Vec<HostName> = given.iter().filter_map(|text| HostName::parse(text).ok()).collect();
    for name in &names {
        assert_eq!(HostName::parse(name.as_str().as_bytes()).as_ref(), Ok(name));
        assert!(!name.as_str().is_empty() && name.as_str().parse::<std::net::IpAddr>().is_err());
        if let Some(domain) = name.registrable() {
            assert!(name == &domain || name.is_below(&domain));
            assert_eq!(domain.registrable().as_ref(), Some(&domain));
        }
    }
    for term in terms.iter().filter_map(|text| text.parse::<HostTerm>().ok()) {
        assert_eq!(term.to_string().parse(), Ok(term.clone()));
        assert!(term.ports.first() <= term.ports.last());
        for name in &names {
            if term.matches_name(name, term.ports.first()) {
                assert!(matches!(&term.host, TermHost::Name(pattern) if pattern.matches(name)));
            }
        }
    }
}

/// What the notation says of words, taken literally.
fn fits_words(places: &[Place], words: &[&[u8]]) -> bool {
    let is_one = |own: &[gated::common::argv::WordGlob], word: &[u8]| own.iter().any(|own| own.matches_exactly(word));
    match (places.split_first(), words.split_first()) {
        (None, None) => true,
        (Some((Place::Any, rest)), first) => {
            fits_words(rest, words) || first.is_some_and(|(_, behind)| fits_words(places, behind))
        }
        (Some((Place::Many(own), rest)), first) => {
            let takes = |(word, behind): (&&[u8], &[&[u8]])| is_one(own, word) && fits_words(places, behind);
            fits_words(rest, words) || first.is_some_and(takes)
        }
        (Some((Place::One(own), rest)), Some((word, behind))) => is_one(own, word) && fits_words(rest, behind),
        _ => false,
    }
}

fn commands(line: &str, given: &[&[u8]]) {
    // A place is a word, or several with commas between them.
    let place = |text: &str| match text.split_once(',') {
        None => Place::parse(text),
        Some(_) => Place::alternatives(text.split(',')),
    };
    let Ok(places) = line.split(' ').map(place).collect::<Result<Vec<Place>, _>>() else { return };
    let Ok(pattern) = ArgvPattern::new(places) else { return };
    let places: Vec<Place> = pattern.clone().into();
    let matches = |words: &[&[u8]], strictness| pattern.matches(|at| words.get(at).copied(), strictness);
    let own = &given[..given.len().min(12)];
    let repeated = places.iter().filter(|place| !matches!(place, Place::One(_))).count();
    if repeated <= 4 {
        assert_eq!(matches(own, Strictness::Exact), fits_words(&places, own), "{line:?} on {own:?}");
    }
    if matches(own, Strictness::Exact) {
        assert!(matches(own, Strictness::Abbreviated), "{line:?} on {own:?}");
    }
    for strictness in [Strictness::Exact, Strictness::Abbreviated] {
        if matches(own, strictness) {
            assert!((0..=own.len()).all(|end| pattern.may_begin_with(own[..end].iter().copied(), strictness)));
        }
    }
}

/// What somebody writes who gives an answer before anything asked.
fn meant(text: &str) {
    let homes = [RawPath::from("/home/user")];
    for (access, words) in [
        (Access::Write, Words::Paths(text.to_owned())),
        (Access::Connect, Words::Host(text.to_owned())),
        (Access::Unix, Words::Socket(text.to_owned())),
    ] {
        for effect in [Effect::Allow, Effect::Deny] {
            if let Ok(meant) = unasked::read(access, effect, &words, &homes) {
                assert!(!format!("{meant:?}").is_empty());
            }
        }
    }
}
