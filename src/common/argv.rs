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
//! | `["**", "-a", "-v"]` | any number of words, each of them one of these |
//!
//! The first word of a pattern names the program for who reads it and is held against nothing: argv\[0\] is whatever the
//! caller says. Escapes are those of a path's names ([`super::scope`]).

use serde::{Deserialize, Serialize};

use super::scope::{NameGlob, PatternError};

/// Places of a pattern at the most, the program's left out: one bit each.
pub const MAX_PLACES: usize = 63;

/// A word of a pattern that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArgvError {
    #[error("`**` stands for whole words, alone in its place; `*` is the part of a word")]
    StarsInWord,
    #[error("`**` in a list of words stands in front of them, for any number of these words")]
    StarsInAlternatives,
    #[error("an empty list of alternatives, which nothing would match")]
    NoAlternative,
    #[error("no words: the first one names the program")]
    Empty,
    #[error("the first word names the program, so it cannot be `**`")]
    StarsFirst,
    #[error("more than {MAX_PLACES} words after the program's name")]
    TooLong,
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
    /// Any number of words, each one of these.
    Many(Vec<WordGlob>),
    One(Vec<WordGlob>),
}

/// A set of command lines, as their words without the program's name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Vec<Place>", into = "Vec<Place>")]
pub struct ArgvPattern {
    /// At most [`MAX_PLACES`].
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

    /// A word that fits, with these bytes for each star.
    pub fn with_stars(&self, star: &[u8]) -> Vec<u8> {
        match self {
            WordGlob::Empty => Vec::new(),
            WordGlob::Glob(glob) => glob.with_stars(star),
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

    /// Reads a list of alternatives; with `**` in front, any number of them.
    pub fn alternatives<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Place, ArgvError> {
        let mut texts = texts.into_iter().peekable();
        let is_many = texts.next_if_eq(&"**").is_some();
        let parse = |text: &str| if text == "**" { Err(ArgvError::StarsInAlternatives) } else { WordGlob::parse(text) };
        match texts.map(parse).collect::<Result<Vec<WordGlob>, ArgvError>>()? {
            words if words.is_empty() => Err(ArgvError::NoAlternative),
            words if is_many => Ok(Place::Many(words)),
            words => Ok(Place::One(words)),
        }
    }
}

impl ArgvPattern {
    /// A pattern of these places, the program's name first.
    pub fn new(mut places: Vec<Place>) -> Result<ArgvPattern, ArgvError> {
        match places.first() {
            None => return Err(ArgvError::Empty),
            Some(Place::Any | Place::Many(_)) => return Err(ArgvError::StarsFirst),
            Some(Place::One(_)) => drop(places.remove(0)),
        }
        places.dedup_by(|next, last| *next == Place::Any && *last == Place::Any);
        ArgvPattern::try_from(places)
    }

    /// Whether these words, the program's name left out, are in the set. `word` gives them by position.
    pub fn matches<'a>(&self, word: impl Fn(usize) -> Option<&'a [u8]>, strictness: Strictness) -> bool {
        // Bit n: the words so far are those of the first n places.
        let mut reached = self.skip(1);
        let mut at = 0_usize;
        while let Some(given) = word(at) {
            at = at.saturating_add(1);
            reached = self.step(reached, given, strictness);
            let is_last = self.places.len().checked_sub(1);
            if reached == 0 {
                return false;
            } else if is_last.is_some_and(|last| reached >> last & 1 == 1 && self.places.get(last) == Some(&Place::Any))
            {
                return true;
            }
        }
        reached >> self.places.len() & 1 == 1
    }

    /// Whether the set has a command line that begins with these words, the program's name left out.
    pub fn may_begin_with<'a>(&self, words: impl IntoIterator<Item = &'a [u8]>, strictness: Strictness) -> bool {
        words.into_iter().fold(self.skip(1), |reached, word| self.step(reached, word, strictness)) != 0
    }

    /// What is reached with one word more.
    fn step(&self, reached: u64, given: &[u8], strictness: Strictness) -> u64 {
        let mut next = 0_u64;
        for (place, own) in self.places.iter().enumerate().filter(|(place, _)| reached >> place & 1 == 1) {
            next |= match own {
                Place::Any => 1 << place,
                Place::Many(words) if any(words, given, strictness) => 1 << place,
                Place::One(words) if any(words, given, strictness) => 2 << place,
                Place::Many(_) | Place::One(_) => 0,
            };
        }
        self.skip(next)
    }

    /// What is reached without a further word: a place for any number of words may have none.
    fn skip(&self, mut reached: u64) -> u64 {
        for (place, own) in self.places.iter().enumerate() {
            if matches!(own, Place::Any | Place::Many(_)) {
                reached |= (reached >> place & 1) << place << 1;
            }
        }
        reached
    }
}

impl TryFrom<Vec<Place>> for ArgvPattern {
    type Error = ArgvError;
    fn try_from(places: Vec<Place>) -> Result<ArgvPattern, ArgvError> {
        if places.len() > MAX_PLACES { Err(ArgvError::TooLong) } else { Ok(ArgvPattern { places }) }
    }
}

impl From<ArgvPattern> for Vec<Place> {
    fn from(pattern: ArgvPattern) -> Vec<Place> {
        pattern.places
    }
}

fn any(words: &[WordGlob], given: &[u8], strictness: Strictness) -> bool {
    words.iter().any(|own| own.matches(given, strictness))
}
