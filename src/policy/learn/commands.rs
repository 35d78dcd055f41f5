//! Commands that were seen, generalised by their program and by how their words begin, as an answer of that width would be.
//! Pure; the words are a tool's.

use std::collections::{BTreeMap, BTreeSet};

use super::Seen;
use crate::common::argv::{ArgvPattern, MAX_PLACES};
use crate::common::path::RawPath;
use crate::policy::commands;

/// So many different command lines of a program stand for all that it can be given, where that is not anything.
const ENOUGH: usize = 3;
/// Command lines of a program that runs what it is told, one by one at the most.
const MOST_EXACT: usize = 16;

/// A rule's program and words.
#[derive(Clone, Debug)]
pub struct CommandGroup<'a> {
    pub program: RawPath,
    /// Patterns of words after the program's name, and whether any may follow.
    pub words: Vec<String>,
    pub is_open: bool,
    pub holes: Vec<ArgvPattern>,
    pub asks: Option<&'static str>,
    pub seen: Vec<&'a Seen>,
}

/// What is kept of the commands of a program that begin with these words, the program's name left out; `None` for all.
pub type Kept<'k> = &'k dyn Fn(&RawPath, &[Vec<u8>]) -> Option<Vec<ArgvPattern>>;

/// Patterns of the words that a rule keeps of a command, and holes for what is kept of those that begin so; `None` where no
/// others may follow.
type Beginning = (Vec<String>, Option<Vec<ArgvPattern>>);

/// The words of a group, and whether others may follow; `None` where no pattern can say them.
type Words = Option<(Vec<String>, bool)>;

/// The holes of a group, and what is in it.
type Alike<'a> = (Option<Vec<ArgvPattern>>, Vec<&'a Seen>);

/// Everything that was executed, by program.
pub fn groups<'a>(seen: impl Iterator<Item = &'a Seen>, kept: Kept<'_>) -> Vec<CommandGroup<'a>> {
    let mut programs: BTreeMap<&RawPath, Vec<&'a Seen>> = BTreeMap::new();
    for one in seen {
        programs.entry(&one.what.object).or_default().push(one);
    }
    programs.into_iter().flat_map(|(program, seen)| of_program(program, seen, kept)).collect()
}

fn of_program<'a>(program: &RawPath, seen: Vec<&'a Seen>, is_kept: Kept<'_>) -> Vec<CommandGroup<'a>> {
    let group = |words: Vec<String>, holes: Option<Vec<ArgvPattern>>, asks, seen| CommandGroup {
        program: program.clone(),
        words,
        is_open: holes.is_some(),
        holes: holes.unwrap_or_default(),
        asks,
        seen,
    };
    let name = program.file_name();
    let lines: BTreeSet<&Vec<Vec<u8>>> = seen.iter().filter_map(|one| one.what.words.as_ref()).collect();
    let is_any = lines.iter().any(|words| commands::may_be_whole(name, words));
    if is_any
        && lines.len() >= ENOUGH
        && let Some(holes) = is_kept(program, &[])
    {
        return vec![group(Vec::new(), Some(holes), None, seen)];
    }
    // By the words that are kept of each; `None` where no pattern can say them.
    let mut kept: BTreeMap<Words, Alike<'a>> = BTreeMap::new();
    for one in seen {
        let beginning = one.what.words.as_deref().and_then(|words| pattern(program, words, is_kept));
        let key = beginning.as_ref().map(|(words, holes)| (words.clone(), holes.is_some()));
        let holes = beginning.and_then(|(_, holes)| holes);
        kept.entry(key).or_insert_with(|| (holes, Vec::new())).1.push(one);
    }
    let exact = kept.keys().flatten().filter(|(_, is_open)| !is_open).count();
    if exact > MOST_EXACT {
        let seen = kept.into_values().flat_map(|(_, seen)| seen).collect();
        let why = "it was given many different words, and some of them may run or lose anything";
        return vec![group(Vec::new(), Some(Vec::new()), Some(why), seen)];
    }
    let one = |(key, (holes, seen)): (Words, Alike<'a>)| match key {
        Some((words, _)) => group(words, holes, None, seen),
        None => group(Vec::new(), Some(Vec::new()), Some("its words are not known to the end"), seen),
    };
    kept.into_iter().map(one).collect()
}

fn pattern(program: &RawPath, words: &[Vec<u8>], is_kept: Kept<'_>) -> Option<Beginning> {
    let beginning = commands::known_beginning(program.file_name(), words);
    let holes = beginning.and_then(|kept| is_kept(program, words.get(1..kept).unwrap_or_default()));
    let kept = beginning.filter(|_| holes.is_some()).unwrap_or(words.len());
    let texts = words.get(1..kept)?.iter().map(|word| word_pattern(word)).collect::<Option<Vec<String>>>()?;
    (texts.len() < MAX_PLACES).then_some((texts, holes))
}

/// A pattern that is this word; with `*` for a secret that was masked.
fn word_pattern(word: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(word).ok()?;
    let mut pattern = String::new();
    for (at, part) in text.split("***").enumerate() {
        // Two in a row would be `**`, which is no word.
        if at > 0 && !pattern.ends_with('*') {
            pattern.push('*');
        }
        pattern.push_str(&escaped(part));
    }
    Some(pattern)
}

fn escaped(text: &str) -> String {
    let mut out = String::new();
    for one in text.chars() {
        match one {
            '*' | '?' | '[' | ']' | '{' | '}' | '\\' => out.extend(['\\', one]),
            plain if plain.is_ascii_graphic() || plain == ' ' || plain.is_alphanumeric() => out.push(plain),
            other => {
                let bytes =
                    other.encode_utf8(&mut [0; 4]).bytes().map(|byte| format!("\\x{byte:02x}")).collect::<String>();
                out.push_str(&bytes);
            }
        }
    }
    out
}
