//! Patterns on the words of a command line, shared by rules. Runs with any privilege; patterns come from an admin's or user's
//! file, the words that they are held against from a tool.
//!
//! | word of a pattern | matches |
//! |---|---|
//! | `push` | that word |
//! | `["-f", "--force*"]` | one of these |
//! | `--force*` | `*` stands for any bytes within one word |
//! | `*` | one word, whatever it is |
//! | `**` | any number of words, none included |
//!
//! The first word of a pattern names the program for who reads it and is held against nothing: argv\[0\] is whatever the
//! caller says. Escapes are those of a path's names ([`super::scope`]).

use serde::{Deserialize, Serialize};

use super::scope::{NameGlob, PatternError};

/// A word of a pattern that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArgvError {
    #[error("`**` stands for whole words, alone in its place; `*` is the part of a word")]
    StarsInWord,
    #[error("`**` is no alternative: it stands for any number of words")]
    StarsInAlternatives,
    #[error("an empty list of alternatives, which nothing would match")]
    NoAlternative,
    #[error("no words: the first one names the program")]
    Empty,
    #[error("the first word names the program, so it cannot be `**`")]
    StarsFirst,
    #[error("{0}")]
    Word(#[from] PatternError),
}

/// One word of a pattern, or one of its alternatives.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum WordGlob {
    /// The word without a byte, `""`.
    Empty,
    Glob(NameGlob),
}

/// One place of a pattern.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Place {
    /// `**`
    Any,
    One(Vec<WordGlob>),
}

/// A set of command lines, as their words without the program's name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ArgvPattern {
    places: Vec<Place>,
}

/// How exactly a word has to be what a pattern says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strictness {
    /// Byte by byte.
    Exact,
    /// A long option may be abbreviated and have a value, as getopt_long(3) takes it: `--recursive` is `--rec`, too.
    Abbreviated,
}

impl WordGlob {
    pub fn parse(text: &str) -> Result<WordGlob, ArgvError> {
        if text.is_empty() {
            return Ok(WordGlob::Empty);
        }
        match NameGlob::parse(text) {
            Ok(glob) => Ok(WordGlob::Glob(glob)),
            Err(PatternError::StarsInName) => Err(ArgvError::StarsInWord),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether the whole of `word` fits.
    pub fn matches_exactly(&self, word: &[u8]) -> bool {
        self.matches(word, Strictness::Exact)
    }

    fn matches(&self, word: &[u8], strictness: Strictness) -> bool {
        match self {
            WordGlob::Empty => word.is_empty(),
            WordGlob::Glob(glob) => {
                glob.matches(word) || strictness == Strictness::Abbreviated && is_abbreviation(word, glob.beginning())
            }
        }
    }
}

/// Whether `word` may be a short form of the long option, with a value or without.
fn is_abbreviation(word: &[u8], option: &[u8]) -> bool {
    let name = word.split(|&byte| byte == b'=').next().unwrap_or_default();
    name.len() > 2 && name.starts_with(b"--") && option.starts_with(name)
}

impl Place {
    /// Reads a word that stands alone.
    pub fn parse(text: &str) -> Result<Place, ArgvError> {
        if text == "**" { Ok(Place::Any) } else { Ok(Place::One(vec![WordGlob::parse(text)?])) }
    }

    /// Reads a list of alternatives.
    pub fn alternatives<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Place, ArgvError> {
        let parse = |text: &str| if text == "**" { Err(ArgvError::StarsInAlternatives) } else { WordGlob::parse(text) };
        let words: Vec<WordGlob> = texts.into_iter().map(parse).collect::<Result<_, ArgvError>>()?;
        if words.is_empty() { Err(ArgvError::NoAlternative) } else { Ok(Place::One(words)) }
    }

    fn matches(&self, word: &[u8], strictness: Strictness) -> bool {
        match self {
            Place::Any => true,
            Place::One(words) => words.iter().any(|own| own.matches(word, strictness)),
        }
    }
}

impl ArgvPattern {
    /// A pattern of these places, the program's name first.
    pub fn new(mut places: Vec<Place>) -> Result<ArgvPattern, ArgvError> {
        match places.first() {
            None => return Err(ArgvError::Empty),
            Some(Place::Any) => return Err(ArgvError::StarsFirst),
            Some(Place::One(_)) => drop(places.remove(0)),
        }
        places.dedup_by(|next, last| *next == Place::Any && *last == Place::Any);
        Ok(ArgvPattern { places })
    }

    /// Whether these words, the program's name left out, are in the set. `word` gives them by position.
    ///
    /// Each place but `**` takes exactly one word, so going back to the last `**` is enough.
    pub fn matches<'a>(&self, word: impl Fn(usize) -> Option<&'a [u8]>, strictness: Strictness) -> bool {
        let (mut place, mut at) = (0_usize, 0_usize);
        let mut last_any = None;
        loop {
            match (self.places.get(place), word(at)) {
                (None, None) => return true,
                (Some(Place::Any), _) => {
                    place = place.saturating_add(1);
                    if place == self.places.len() {
                        return true;
                    }
                    last_any = Some((place, at));
                    continue;
                }
                (Some(own), Some(given)) if own.matches(given, strictness) => {
                    (place, at) = (place.saturating_add(1), at.saturating_add(1));
                    continue;
                }
                _ => {}
            }
            match last_any {
                Some((after, from)) if word(from).is_some() => {
                    let next = from.saturating_add(1);
                    last_any = Some((after, next));
                    (place, at) = (after, next);
                }
                _ => return false,
            }
        }
    }
}
