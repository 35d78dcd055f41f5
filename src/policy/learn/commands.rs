//! Commands that were seen, generalised by their program and by how their words begin, as an answer of that width would be.
//! Pure; the words are a tool's.

use std::collections::{BTreeMap, BTreeSet};

use super::Seen;
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
    pub asks: Option<&'static str>,
    pub seen: Vec<&'a Seen>,
}

/// Everything that was executed, by program.
pub fn groups<'a>(seen: impl Iterator<Item = &'a Seen>) -> Vec<CommandGroup<'a>> {
    let mut programs: BTreeMap<&RawPath, Vec<&'a Seen>> = BTreeMap::new();
    for one in seen {
        programs.entry(&one.what.object).or_default().push(one);
    }
    programs.into_iter().flat_map(|(program, seen)| of_program(program, seen)).collect()
}

fn of_program<'a>(program: &RawPath, seen: Vec<&'a Seen>) -> Vec<CommandGroup<'a>> {
    let group =
        |words: Vec<String>, is_open, asks, seen| CommandGroup { program: program.clone(), words, is_open, asks, seen };
    let name = program.file_name();
    let lines: BTreeSet<&Vec<Vec<u8>>> = seen.iter().filter_map(|one| one.what.words.as_ref()).collect();
    let is_any = lines.iter().any(|words| commands::may_be_whole(name, words));
    if is_any && lines.len() >= ENOUGH {
        return vec![group(Vec::new(), true, None, seen)];
    }
    // By the words that are kept of each; `None` where no pattern can say them.
    let mut kept: BTreeMap<Option<(Vec<String>, bool)>, Vec<&'a Seen>> = BTreeMap::new();
    for one in seen {
        kept.entry(one.what.words.as_deref().and_then(|words| pattern(name, words))).or_default().push(one);
    }
    let exact = kept.keys().flatten().filter(|(_, is_open)| !is_open).count();
    if exact > MOST_EXACT && !is_any {
        let seen = kept.into_values().flatten().collect();
        return vec![group(Vec::new(), true, Some("it runs what it is told, and was told many things"), seen)];
    }
    let one = |(words, seen): (Option<(Vec<String>, bool)>, Vec<&'a Seen>)| match words {
        Some((words, is_open)) => group(words, is_open, None, seen),
        None => group(Vec::new(), true, Some("its words are not known to the end"), seen),
    };
    kept.into_iter().map(one).collect()
}

/// The words that a rule keeps, and whether others may follow.
fn pattern(name: &[u8], words: &[Vec<u8>]) -> Option<(Vec<String>, bool)> {
    let prefix = commands::known_beginning(name, words);
    let kept = prefix.unwrap_or(words.len());
    let texts = words.get(1..kept)?.iter().map(|word| word_pattern(word)).collect::<Option<Vec<String>>>()?;
    (texts.len() < crate::common::argv::MAX_PLACES).then_some((texts, prefix.is_some()))
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
