//! The terms of a rule on programs: from their text to [`ExecTerms`], and its examples. Runs as whoever starts a session, on
//! an admin's or user's files.

use toml::Spanned;

use crate::common::argv::{ArgvError, ArgvPattern, Place, WordGlob};
use crate::common::exec::{Command, Program, Step};
use crate::common::path::RawPath;
use crate::common::scope::NameGlob;

use super::file::{ExceptTerm, RuleTable, Text, WordTerm};
use super::load::PolicyError;
use super::merge::Names;
use super::model::{ExecTerms, ProgramPattern, Rule, VariablePattern};
use super::programs::Found;
use super::reading;

/// The terms of a rule that is known to be one on programs.
pub(super) fn terms(names: &Names<'_>, text: &Text, table: &RuleTable) -> Result<ExecTerms, PolicyError> {
    let hole = |value: &Spanned<ExceptTerm>| match value.get_ref() {
        ExceptTerm::Argv(words) => argv(text, value.span().start, words),
        ExceptTerm::Text(_) => Err(text.error_at(value, "a path in a rule for programs; a list of words was expected")),
    };
    Ok(ExecTerms {
        program: table.program.iter().map(|value| program(names, text, value)).collect::<Result<_, _>>()?,
        argv: table.argv.as_ref().map(|value| argv(text, value.span().start, value.get_ref())).transpose()?,
        except: table.except.iter().map(hole).collect::<Result<_, _>>()?,
        env: table.env.iter().map(|value| variable(text, value)).collect::<Result<_, _>>()?,
    })
}

fn program(names: &Names<'_>, text: &Text, value: &Spanned<String>) -> Result<ProgramPattern, PolicyError> {
    let Some(rest) = value.get_ref().strip_prefix('@') else {
        return Ok(ProgramPattern::Path(names.pattern(text, value)?));
    };
    let message = match rest.strip_prefix("path") {
        Some("") => return Ok(ProgramPattern::System),
        Some(rest) => match rest.strip_prefix('/').map(|name| (name, NameGlob::parse(name))) {
            Some((name, Ok(glob))) if !name.contains('/') => return Ok(ProgramPattern::SystemName(glob)),
            Some((_, Err(error))) => error.to_string(),
            _ => "`@path` or `@path/NAME` was expected".to_owned(),
        },
        None => "`@path`, `@path/NAME` or a path was expected".to_owned(),
    };
    Err(text.error_at(value, format!("`{}`: {message}", value.get_ref())))
}

fn argv(text: &Text, start: usize, words: &[Spanned<WordTerm>]) -> Result<ArgvPattern, PolicyError> {
    let place = |term: &Spanned<WordTerm>| {
        let parsed = match term.get_ref() {
            WordTerm::One(word) => Place::parse(word),
            WordTerm::Alternatives(words) => Place::alternatives(words.iter().map(String::as_str)),
        };
        parsed.map_err(|error| text.error_at(term, error.to_string()))
    };
    let places = words.iter().map(place).collect::<Result<_, _>>()?;
    ArgvPattern::new(places).map_err(|error| match (&error, words.first()) {
        (ArgvError::StarsFirst, Some(first)) => text.error_at(first, error.to_string()),
        _ => text.error(start, error.to_string()),
    })
}

fn variable(text: &Text, value: &Spanned<String>) -> Result<VariablePattern, PolicyError> {
    let (name, wanted) = match value.get_ref().split_once('=') {
        Some((name, wanted)) => (name, Some(WordGlob::parse(wanted))),
        None => (value.get_ref().as_str(), None),
    };
    let wrong = |error: String| text.error_at(value, format!("`{}`: {error}", value.get_ref()));
    Ok(VariablePattern {
        name: NameGlob::parse(name).map_err(|error| wrong(error.to_string()))?,
        value: wanted.transpose().map_err(|error| wrong(error.to_string()))?,
    })
}

/// Holds the examples, command lines, against their rule. The first word is looked up among the rule's programs; quotes
/// make words of them as in a shell, and nothing else of a shell has a meaning.
pub(super) fn check_examples(
    names: &Names<'_>,
    text: &Text,
    table: &RuleTable,
    rule: &Rule,
    terms: &ExecTerms,
) -> Result<(), PolicyError> {
    let examples = &table.examples;
    let matching = examples.matching.iter().map(|value| (value, true));
    for (value, expected) in matching.chain(examples.not_match.iter().map(|value| (value, false))) {
        let line = value.get_ref();
        let words = shlex::split(line).filter(|words| !words.is_empty());
        let Some(words) = words else {
            return Err(text.error_at(value, format!("the example `{line}` is no command line")));
        };
        let named = match words.first() {
            Some(first) if first.starts_with(['/', '~', '{']) => {
                Some(names.pattern(text, &Spanned::new(value.span(), first.clone()))?.literal_prefix())
            }
            _ => None,
        };
        if matches(rule, terms, named, words) != expected {
            let does = if expected { "does not match, but is in `match`" } else { "matches, but is in `not_match`" };
            return Err(text.error_at(value, format!("rule `{}`: the example `{line}` {does}", rule.id)));
        }
    }
    Ok(())
}

fn matches(rule: &Rule, terms: &ExecTerms, named: Option<RawPath>, words: Vec<String>) -> bool {
    let argv: Vec<Vec<u8>> = words.into_iter().map(String::into_bytes).collect();
    let found = if named.is_some() { Found::ByPath } else { Found::ByName };
    let path = named.unwrap_or_else(|| RawPath::from("/").join(argv.first().map(Vec::as_slice).unwrap_or_default()));
    let program = Program { path, is_named: true, is_of_system: true };
    let asked = Step { program, argv };
    let command = Command {
        asked,
        interpreters: Vec::new(),
        loader: None,
        operand: None,
        variables: Vec::new(),
        cwd: RawPath::from("/"),
        version: None,
    };
    let Some(runs) = reading::of(&command) else { return false };
    let mut readings = runs.iter().flat_map(|run| &run.readings);
    readings.any(|reading| {
        terms.program.iter().any(|program| program.may_be(reading, found)) && terms.speaks_of(reading, rule.level)
    })
}
