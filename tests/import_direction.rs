//! The trust domains of `src/lib.rs` import one way, and `unsafe` stays where raw system calls are made. Reads the sources.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A domain and those it may name.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("common", &[]),
    ("policy", &["common"]),
    ("tool", &["common"]),
    ("session", &["common", "policy", "tool"]),
    ("daemon", &["common", "policy"]),
    ("consent", &["common", "policy"]),
    ("ctl", &["common", "policy", "tool", "session", "daemon", "consent"]),
];

/// Where raw system calls are made, below `src`; a folder stands for all that is in it.
const MAY_BE_UNSAFE: &[&str] =
    &["tool", "session/exec/trace.rs", "session/listener.rs", "session/net/raw.rs", "session/sys.rs"];

fn sources() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut folders, mut files) = (vec![root.clone()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("src can be read") {
            let path = entry.expect("src can be read").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).expect("sources are UTF-8");
                files.push((path.strip_prefix(&root).expect("below src").to_owned(), text));
            }
        }
    }
    assert!(files.len() > 10, "the sources were found");
    files
}

/// The text without comments and without what is in string literals.
fn code(text: &str) -> String {
    let mut kept = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let skipped = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if rest.starts_with("'\"'") {
            3
        } else if rest.starts_with("'\\\"'") {
            4
        } else if let Some(raw) = rest.strip_prefix("r#\"") {
            raw.find("\"#").map_or(rest.len(), |end| end + 5)
        } else if first == '"' {
            end_of_string(rest)
        } else {
            kept.push(first);
            first.len_utf8()
        };
        // Lines keep their numbers.
        kept.extend(rest[..skipped].chars().filter(|c| skipped > first.len_utf8() && *c == '\n'));
        rest = &rest[skipped..];
    }
    kept
}

fn end_of_string(text: &str) -> usize {
    let mut escaped = false;
    for (at, character) in text.char_indices().skip(1) {
        match character {
            '"' if !escaped => return at + 1,
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    text.len()
}

fn first_word(text: &str) -> &str {
    let text = text.trim_start();
    &text[..text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len())]
}

/// The first words of a `{a::b, c}` list, or the one word.
fn heads(text: &str) -> Vec<&str> {
    let text = text.trim_start();
    let Some(list) = text.strip_prefix('{') else { return vec![first_word(text)] };
    let (mut depth, mut heads, mut start) = (1, Vec::new(), 0);
    for (at, character) in list.char_indices() {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 || depth == 1 && character == ',' {
            heads.push(first_word(&list[start..]));
            start = at + 1;
        }
        if depth == 0 {
            break;
        }
    }
    heads
}

/// The domains that code at `path` names, by `crate::`, `gated::` or `super::` up to the root.
fn named(path: &Path, code: &str) -> BTreeSet<String> {
    let module_depth = path.with_extension("").components().filter(|part| part.as_os_str() != "mod").count();
    let roots = ["crate".to_owned(), "gated".to_owned(), vec!["super"; module_depth].join("::")];
    let mut found = BTreeSet::new();
    for root in roots {
        let pattern = format!("{root}::");
        for (at, _) in code.match_indices(&pattern) {
            let before = &code[..at];
            if before.ends_with(|c: char| c.is_alphanumeric() || c == '_') || before.ends_with("::") {
                continue;
            }
            found.extend(heads(&code[at + pattern.len()..]).into_iter().map(str::to_owned));
        }
    }
    found.retain(|name| MAY_IMPORT.iter().any(|(domain, _)| domain == name));
    found
}

/// What of `named` the domain of `path` may not name. `bin/` starts everything; `lib.rs` declares.
fn wrong_arrows(path: &Path, text: &str) -> Vec<String> {
    let first = path.components().next().expect("not empty").as_os_str().to_string_lossy().into_owned();
    if first == "bin" || first == "lib.rs" {
        return Vec::new();
    }
    let (domain, allowed) = MAY_IMPORT.iter().find(|(domain, _)| *domain == first).unwrap_or_else(|| {
        panic!("src/{first} is no trust domain of src/lib.rs");
    });
    let wrong = named(path, &code(text)).into_iter().filter(|name| name != domain && !allowed.contains(&name.as_str()));
    wrong.map(|name| format!("src/{} imports {name}", path.display())).collect()
}

/// The lines (from 1) on which code says `unsafe`.
fn unsafe_lines(text: &str) -> Vec<usize> {
    let is_word = |line: &str, at: usize| {
        let edge = |c: Option<char>| !c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        edge(line[..at].chars().next_back()) && edge(line[at + "unsafe".len()..].chars().next())
    };
    let says = |line: &str| line.match_indices("unsafe").any(|(at, _)| is_word(line, at));
    code(text).lines().enumerate().filter(|(_, line)| says(line)).map(|(index, _)| index + 1).collect()
}

/// Whether the statement or item around `line` stands below a comment that says why it is sound.
fn has_reason(text: &str, line: usize) -> bool {
    let above: Vec<&str> = text.lines().take(line.saturating_sub(1)).map(str::trim).collect();
    let is_comment = |line: &str| line.starts_with("//");
    // Up to the comment: attributes and the statement's own first lines.
    let mut lines =
        above.iter().rev().skip_while(|line| !is_comment(line) && !line.ends_with([';', '}']) && !line.is_empty());
    let comment: Vec<&&str> = lines.by_ref().take_while(|line| is_comment(line)).collect();
    comment.iter().any(|line| line.contains("SAFETY:") || line.contains("# Safety"))
}

#[test]
fn trust_domains_import_one_way() {
    let wrong: Vec<String> = sources().iter().flat_map(|(path, text)| wrong_arrows(path, text)).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn unsafe_code_is_only_where_raw_calls_are_made_and_says_why() {
    let mut wrong = Vec::new();
    for (path, text) in sources() {
        for line in unsafe_lines(&text) {
            if !MAY_BE_UNSAFE.iter().any(|allowed| path.starts_with(allowed)) {
                wrong.push(format!("src/{}:{line}: unsafe outside of {MAY_BE_UNSAFE:?}", path.display()));
            }
            if !has_reason(&text, line) {
                wrong.push(format!("src/{}:{line}: unsafe without a SAFETY line", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_wrong_arrow_is_found_however_it_is_written() {
    let arrows = |path: &str, text: &str| wrong_arrows(Path::new(path), text).len();
    assert_eq!(arrows("daemon/broker.rs", "use crate::session::perform;"), 1);
    assert_eq!(arrows("daemon/broker.rs", "use crate::{common::id, session::perform, tool};"), 2);
    assert_eq!(arrows("daemon/broker.rs", "use crate::{\n    common::{id, path},\n    consent::{tty},\n};"), 1);
    assert_eq!(arrows("daemon/broker.rs", "fn f() { crate::tool::filter::compile() }"), 1);
    assert_eq!(arrows("daemon/broker.rs", "use super::super::session::judge;"), 1);
    assert_eq!(arrows("daemon/mod.rs", "use super::consent::tty;"), 1);
    assert_eq!(arrows("common/id.rs", "use crate::policy::model;"), 1);
    assert_eq!(arrows("tool/filter.rs", "use crate::policy::plan;"), 1);
    assert_eq!(arrows("session/judge.rs", "use crate::daemon::broker;"), 1);
    assert_eq!(arrows("daemon/broker.rs", "use crate::common::id;\nuse super::pending;"), 0);
    assert_eq!(arrows("daemon/broker.rs", "//! [`crate::session`]\nlet text = \"crate::session::x\";"), 0);
    assert_eq!(arrows("ctl/run.rs", "use crate::{consent::tty, daemon::broker};"), 0);
}

#[test]
fn unsafe_code_is_found_with_its_reason() {
    assert_eq!(unsafe_lines("// unsafe\n\nlet a = unsafe { f() };\n#![deny(unsafe_op_in_unsafe_fn)]\n\"unsafe\""), [3]);
    assert!(has_reason("// SAFETY: f\nlet a = unsafe { f() };", 2));
    assert!(has_reason("// SAFETY: f takes\n// nothing.\nmatch g(\n    unsafe { f() },", 4));
    assert!(!has_reason("// SAFETY: f\nlet b = 1;\nlet a = unsafe { f() };", 3));
    assert_eq!(unsafe_lines("let quotes = ['\"', '\\\"'];\nunsafe { f() };"), [2]);
    assert!(!has_reason("// It is so.\nlet a = unsafe { f() };", 2));
}
