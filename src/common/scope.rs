//! Path patterns, shared by rules and grants. Runs with any privilege; patterns come from an admin's or user's file, from
//! an answer, or from a peer of ours, the paths that they are held against from the tool.
//!
//! | pattern | matches |
//! |---|---|
//! | `/x/y` | exactly that |
//! | `/x/*` | one component below `/x`; `*` also stands for any bytes inside a component, as in `.env.*` |
//! | `/x/**` | `/x` and everything below it |
//! | `**/.env` | that name, anywhere |
//! | `/x/**/.env` | that name, anywhere below `/x` |
//!
//! `**` stands alone between slashes and is any number of components, none included. `*` does not spare names that begin
//! with a dot. There are no other special characters: `? [ ] { }` are refused unless a backslash makes them plain, and `\xNN`
//! is one byte. `~` and `{variable}` belong to policy files and are substituted before a pattern is parsed.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::path::RawPath;

/// Bytes of a pattern's text at the most: a path of `PATH_MAX` bytes, each written as `\xNN`.
pub const MAX_PATTERN: usize = 4 * 4096;

/// A pattern that cannot be read. The text says what was expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    #[error("an absolute path was expected: one that begins with `/` (or `**/` for a name anywhere)")]
    NotAbsolute,
    #[error("an empty component: `//` and a `/` at the end have no meaning in a pattern")]
    EmptyComponent,
    #[error("`{0}` as a component: patterns are held against resolved paths, which have none")]
    Dots(String),
    #[error("`**` stands alone between slashes; `*` is the part of a name")]
    StarsInName,
    #[error("`{0}` has no meaning in a pattern; write `\\{0}` for the character itself")]
    Reserved(char),
    #[error("a backslash stands before one of `* ? [ ] {{ }} \\` or as `\\xNN`, except for NUL and `/`")]
    Escape,
    #[error("NUL cannot be in a path")]
    Nul,
    #[error("longer than {MAX_PATTERN} bytes")]
    TooLong,
}

/// A name with `*` for any bytes: one component of a path, or the name of an environment variable.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NameGlob {
    /// What stands between the stars, in order; without a star one piece.
    pieces: Vec<Vec<u8>>,
}

/// One component of a pattern.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    Name(Vec<u8>),
    Glob(NameGlob),
    /// `**`: any number of components, none included.
    Deep,
}

/// A set of absolute paths. Serialised as its text, so that every way in goes through [`Pattern::parse`].
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Pattern {
    /// No two [`Part::Deep`] in a row.
    parts: Vec<Part>,
}

/// What of a pattern may lie strictly below a directory; the later, the surer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// Nothing, or only because the pattern covers a tree that the directory is in.
    Nothing,
    /// A name that may be at any depth: only a walk can tell whether one is there.
    Floating,
    /// The same, below a directory that the pattern names after a first `**`, as `**/.git/modules/**/hooks` for
    /// `/x/.git/modules/a`.
    Inside,
    /// The pattern's own names begin below the directory: moving or replacing it takes them along.
    Named,
}

impl NameGlob {
    /// Reads one name; the errors are those of a pattern's component.
    pub fn parse(text: &str) -> Result<NameGlob, PatternError> {
        if text.is_empty() {
            return Err(PatternError::EmptyComponent);
        }
        if text.len() > MAX_PATTERN {
            return Err(PatternError::TooLong);
        }
        let mut pieces = Vec::new();
        let mut piece = Vec::new();
        let mut after_star = false;
        let mut rest = text.chars();
        while let Some(next) = rest.next() {
            match next {
                '*' if after_star => return Err(PatternError::StarsInName),
                '*' => pieces.push(std::mem::take(&mut piece)),
                '\\' => piece.push(unescape(&mut rest)?),
                '?' | '[' | ']' | '{' | '}' => return Err(PatternError::Reserved(next)),
                '\0' => return Err(PatternError::Nul),
                plain => piece.extend_from_slice(plain.encode_utf8(&mut [0; 4]).as_bytes()),
            }
            after_star = next == '*';
        }
        pieces.push(piece);
        Ok(NameGlob { pieces })
    }

    /// Whether the whole of `name` fits.
    pub fn matches(&self, name: &[u8]) -> bool {
        let Some((first, rest)) = self.pieces.split_first() else { return false };
        let Some(mut tail) = name.strip_prefix(first.as_slice()) else { return false };
        let Some((last, middle)) = rest.split_last() else { return tail.is_empty() };
        for piece in middle.iter().filter(|piece| !piece.is_empty()) {
            let Some(at) = tail.windows(piece.len()).position(|window| window == piece) else { return false };
            tail = tail.get(at.saturating_add(piece.len())..).unwrap_or_default();
        }
        tail.ends_with(last)
    }

    /// The bytes that every match begins and ends with, where there are such: a cheap first test.
    pub fn outer_bytes(&self) -> (Option<u8>, Option<u8>) {
        let first = self.pieces.first().and_then(|piece| piece.first());
        let last = self.pieces.last().and_then(|piece| piece.last());
        (first.copied(), last.copied())
    }

    /// Whether every name fits.
    pub fn is_any(&self) -> bool {
        self.pieces.iter().all(Vec::is_empty)
    }

    /// A name that fits, with these bytes for each star.
    pub fn with_stars(&self, star: &[u8]) -> Vec<u8> {
        self.pieces.join(star)
    }

    /// What every match begins with.
    pub fn beginning(&self) -> &[u8] {
        self.pieces.first().map(Vec::as_slice).unwrap_or_default()
    }

    /// The name itself, if there is no star in it.
    fn into_literal(self) -> Result<Vec<u8>, NameGlob> {
        match <[Vec<u8>; 1]>::try_from(self.pieces) {
            Ok([name]) => Ok(name),
            Err(pieces) => Err(NameGlob { pieces }),
        }
    }
}

/// The byte that an escape stands for; the backslash was taken already.
fn unescape(rest: &mut std::str::Chars<'_>) -> Result<u8, PatternError> {
    match rest.next() {
        Some(plain @ ('*' | '?' | '[' | ']' | '{' | '}' | '\\')) => {
            u8::try_from(plain).map_err(|_| PatternError::Escape)
        }
        Some('x') => {
            let mut digit = || rest.next().and_then(|digit| digit.to_digit(16));
            let (Some(high), Some(low)) = (digit(), digit()) else { return Err(PatternError::Escape) };
            match u8::try_from(high << 4 | low) {
                Ok(0 | b'/') | Err(_) => Err(PatternError::Escape),
                Ok(byte) => Ok(byte),
            }
        }
        _ => Err(PatternError::Escape),
    }
}

impl Part {
    /// Whether one component fits; [`Part::Deep`] fits every one.
    pub fn matches(&self, name: &[u8]) -> bool {
        match self {
            Part::Name(own) => own == name,
            Part::Glob(glob) => glob.matches(name),
            Part::Deep => true,
        }
    }
}

impl From<NameGlob> for Part {
    fn from(glob: NameGlob) -> Part {
        match glob.into_literal() {
            Ok(name) => Part::Name(name),
            Err(glob) => Part::Glob(glob),
        }
    }
}

impl Pattern {
    /// Reads the notation of this module's comment; `~` and `{variable}` must have been substituted.
    pub fn parse(text: &str) -> Result<Pattern, PatternError> {
        if text.len() > MAX_PATTERN {
            return Err(PatternError::TooLong);
        }
        let below = match text.strip_prefix('/') {
            Some("") => return Ok(Pattern { parts: Vec::new() }),
            Some(below) => below,
            None if text.starts_with("**/") => text,
            None => return Err(PatternError::NotAbsolute),
        };
        let mut parts = Vec::new();
        for name in below.split('/') {
            match name {
                "" => return Err(PatternError::EmptyComponent),
                "." | ".." => return Err(PatternError::Dots(name.to_owned())),
                "**" if parts.last() == Some(&Part::Deep) => {}
                "**" => parts.push(Part::Deep),
                _ => parts.push(Part::from(NameGlob::parse(name)?)),
            }
        }
        Ok(Pattern { parts })
    }

    /// Exactly this path.
    pub fn literal(path: &RawPath) -> Pattern {
        Pattern { parts: path.components().map(|name| Part::Name(name.to_vec())).collect() }
    }

    /// Everything directly in this directory, not the directory itself.
    pub fn children_of(directory: &RawPath) -> Pattern {
        let mut pattern = Pattern::literal(directory);
        pattern.parts.push(Part::Glob(NameGlob { pieces: vec![Vec::new(), Vec::new()] }));
        pattern
    }

    /// This directory and everything below it.
    pub fn tree_of(directory: &RawPath) -> Pattern {
        let mut pattern = Pattern::literal(directory);
        pattern.parts.push(Part::Deep);
        pattern
    }

    /// This name, anywhere.
    pub fn anywhere(name: Part) -> Pattern {
        match name {
            Part::Deep => Pattern { parts: vec![Part::Deep] },
            name => Pattern { parts: vec![Part::Deep, name] },
        }
    }

    /// The same below another place than [`Pattern::literal_prefix`].
    pub fn moved_to(&self, place: &RawPath) -> Pattern {
        let mut pattern = Pattern::literal(place);
        pattern.parts.extend(self.parts.iter().skip_while(|part| matches!(part, Part::Name(_))).cloned());
        pattern
    }

    /// Whether `path`, which must be canonical, is in the set.
    pub fn matches(&self, path: &RawPath) -> bool {
        let names: Vec<&[u8]> = path.components().collect();
        self.matches_names(&names)
    }

    /// [`Pattern::matches`] on a path's components.
    pub fn matches_names(&self, names: &[&[u8]]) -> bool {
        walk(&self.parts, names)
    }

    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The longest directory or file that every match lies in or is; `/` where the pattern begins with a wildcard.
    pub fn literal_prefix(&self) -> RawPath {
        let mut prefix = RawPath::from("/");
        for part in &self.parts {
            let Part::Name(name) = part else { break };
            prefix = prefix.join(name);
        }
        prefix
    }

    /// Whether the pattern says where its names are: no `**/` in front.
    pub fn is_anchored(&self) -> bool {
        !matches!(self.parts.as_slice(), [Part::Deep, _, ..])
    }

    /// Whether this has a name after a `**`, so that it may be found at any depth.
    pub fn is_floating(&self) -> bool {
        self.core().contains(&Part::Deep)
    }

    /// The directory, if this is exactly one directory and everything below it.
    pub fn as_tree(&self) -> Option<RawPath> {
        let (Part::Deep, names) = self.parts.split_last()? else { return None };
        names.iter().all(|part| matches!(part, Part::Name(_))).then(|| self.literal_prefix())
    }

    /// Whether surely everything that `other` matches is matched by this. Errs towards no: `false` may mean "not known".
    pub fn covers(&self, other: &Pattern) -> bool {
        if self == other {
            return true;
        }
        if let Some(tree) = self.as_tree() {
            return other.literal_prefix().is_within(&tree);
        }
        let names: Option<Vec<&[u8]>> = other
            .parts
            .iter()
            .map(|part| match part {
                Part::Name(name) => Some(name.as_slice()),
                _ => None,
            })
            .collect();
        names.is_some_and(|names| self.matches_names(&names))
    }

    /// What of this pattern may lie strictly below the directory with these components.
    pub fn reach_below(&self, directory: &[&[u8]]) -> Reach {
        let core = self.core();
        let deep = core.iter().position(|part| *part == Part::Deep);
        let fixed = core.get(..deep.unwrap_or(core.len())).unwrap_or_default();
        if !fixed.iter().zip(directory).all(|(part, name)| part.matches(name)) {
            return Reach::Nothing;
        }
        if fixed.len() > directory.len() {
            return Reach::Named;
        }
        let Some(deep) = deep else { return Reach::Nothing };
        // `**/.git/hooks` lies below any directory called `.git`, whether `hooks` is there yet or not.
        let begun = (deep.saturating_add(2)..core.len()).filter_map(|end| core.get(..end));
        let begun = begun.filter(|begin| walk(begin, directory)).map(|begin| match begin.last() {
            Some(Part::Deep) => Reach::Inside,
            _ => Reach::Named,
        });
        begun.max().unwrap_or(Reach::Floating)
    }

    /// The parts without a `**` at the end, which only says "and what is below".
    fn core(&self) -> &[Part] {
        match self.parts.split_last() {
            Some((Part::Deep, core)) => core,
            _ => &self.parts,
        }
    }
}

/// Components against parts. Each part but `**` takes exactly one component, so going back to the last `**` is enough.
fn walk(parts: &[Part], names: &[&[u8]]) -> bool {
    let (mut part, mut name) = (0_usize, 0_usize);
    let mut last_deep = None;
    loop {
        match (parts.get(part), names.get(name)) {
            (None, None) => return true,
            (Some(Part::Deep), _) => {
                part = part.saturating_add(1);
                if part == parts.len() {
                    return true;
                }
                last_deep = Some((part, name));
                continue;
            }
            (Some(own), Some(given)) if own.matches(given) => {
                (part, name) = (part.saturating_add(1), name.saturating_add(1));
                continue;
            }
            _ => {}
        }
        match last_deep {
            Some((after, from)) if from < names.len() => {
                let next = from.saturating_add(1);
                last_deep = Some((after, next));
                (part, name) = (after, next);
            }
            _ => return false,
        }
    }
}

/// Writes a name so that it reads back as the same bytes, and nothing in it can move a terminal's cursor.
fn write_name(f: &mut fmt::Formatter<'_>, name: &[u8]) -> fmt::Result {
    if matches!(name, b"." | b"..") {
        return name.iter().try_for_each(|_| f.write_str("\\x2e"));
    }
    for chunk in name.utf8_chunks() {
        for shown in chunk.valid().chars() {
            match shown {
                '*' | '?' | '[' | ']' | '{' | '}' | '\\' => write!(f, "\\{shown}")?,
                plain if plain.is_ascii_graphic() || plain == ' ' || plain.is_alphanumeric() => write!(f, "{plain}")?,
                other => other.encode_utf8(&mut [0; 4]).bytes().try_for_each(|byte| write!(f, "\\x{byte:02x}"))?,
            }
        }
        chunk.invalid().iter().try_for_each(|byte| write!(f, "\\x{byte:02x}"))?;
    }
    Ok(())
}

impl fmt::Display for NameGlob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, piece) in self.pieces.iter().enumerate() {
            if at > 0 {
                f.write_str("*")?;
            }
            write_name(f, piece)?;
        }
        Ok(())
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.parts.is_empty() {
            return f.write_str("/");
        }
        for (at, part) in self.parts.iter().enumerate() {
            if at > 0 || self.is_anchored() {
                f.write_str("/")?;
            }
            match part {
                Part::Name(name) => write_name(f, name)?,
                Part::Glob(glob) => glob.fmt(f)?,
                Part::Deep => f.write_str("**")?,
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pattern({self})")
    }
}

impl std::str::FromStr for Pattern {
    type Err = PatternError;
    fn from_str(text: &str) -> Result<Pattern, PatternError> {
        Pattern::parse(text)
    }
}

impl TryFrom<String> for Pattern {
    type Error = PatternError;
    fn try_from(text: String) -> Result<Pattern, PatternError> {
        Pattern::parse(&text)
    }
}

impl From<Pattern> for String {
    fn from(pattern: Pattern) -> String {
        pattern.to_string()
    }
}

impl TryFrom<String> for NameGlob {
    type Error = PatternError;
    fn try_from(text: String) -> Result<NameGlob, PatternError> {
        NameGlob::parse(&text)
    }
}

impl From<NameGlob> for String {
    fn from(glob: NameGlob) -> String {
        glob.to_string()
    }
}
