//! Files that people write besides policy: scripts of answers and files of expectations. Errors name a place that is there.

use gated::consent::script::{Places, Script};
use gated::policy::{Context, PolicyError, expect};

/// A whole file.
pub fn check(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let places = Places { home: Some("/home/user".into()), workspace: Some("/home/user/project".into()) };
    let read = Script::parse("answers.toml", text, &places);
    if let Err(error) = &read {
        is_there(text, error.line, error.column);
        assert!(!error.message.contains('\n'), "{error}");
    }
    assert_eq!(read.is_ok(), Script::parse("answers.toml", text, &places).is_ok());
    let context = Context { home: "/home/user".into(), user: "user".to_owned(), cwd: "/home/user/project".into() };
    match expect::parse("expect.toml", text, &context) {
        Err(PolicyError::Invalid { line, column, .. }) => is_there(text, line as usize, column as usize),
        Err(other) => panic!("{other}"),
        Ok(_) => {}
    }
}

/// Whether the text has this line and column, or they are just behind its end.
pub fn is_there(text: &str, line: usize, column: usize) {
    let lines: Vec<&str> = text.split('\n').collect();
    assert!((1..=lines.len()).contains(&line), "line {line} of {}", lines.len());
    let own = lines[line - 1];
    assert!((1..=own.chars().count() + 2).contains(&column), "column {column} of {own:?}");
}
