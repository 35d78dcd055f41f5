//! What may be shown: whatever a tool chose, it draws only itself, in its room, and what is read back is what was written.

use std::borrow::Cow;

use gated::common::text::{self, Untrusted};
use gated::common::{mask, shellwords};

use super::feed::Feed;

/// A width, then words, each ended by a NUL.
pub fn check(input: &[u8]) {
    let mut feed = Feed(input);
    let limit = usize::from(feed.byte());
    let all = feed.0;
    let words: Vec<&[u8]> = all.split(|&byte| byte == 0).collect();
    for bytes in std::iter::once(all).chain(words.iter().copied()) {
        one(bytes, limit);
    }
    line(&words, limit);
    secrets(&words);
    typed(&String::from_utf8_lossy(all));
}

/// Whether it draws itself alone; `…` is the mark of a cut.
pub fn is_clean(shown: &str) -> bool {
    shown.chars().all(|character| text::is_showable(character) || matches!(character, '…' | ' '))
}

fn one(bytes: &[u8], limit: usize) {
    let whole = text::escaped(bytes);
    assert!(whole.chars().all(text::is_showable), "{whole:?}");
    assert_eq!(text::unescaped(&whole).as_deref(), Some(bytes));
    let lossy: Cow<'_, str> = String::from_utf8_lossy(bytes);
    let cut = [
        text::escaped_within(bytes, limit),
        text::shortened(bytes, limit),
        text::shown_within(&lossy, limit),
        text::ending_within(&lossy, limit),
    ];
    for shown in cut {
        assert!(is_clean(&shown) && text::columns(&shown) <= limit, "{limit}: {shown:?}");
    }
    if let Some(read) = text::unescaped(&lossy) {
        assert_eq!(text::escaped(&read), lossy);
    }
    let lines = text::wrapped(&whole, limit.max(2));
    assert_eq!(lines.concat(), whole);
    assert!(lines.iter().all(|line| text::columns(line) <= limit.max(2)), "{lines:?}");
    let word = text::quoted_word(bytes);
    assert!(is_clean(&word), "{word:?}");
}

fn line(words: &[&[u8]], limit: usize) {
    let whole = text::quoted_argv(words.iter().copied());
    assert!(is_clean(&whole), "{whole:?}");
    match shellwords::split(&whole) {
        Ok(read) => assert_eq!(read, words),
        Err(error) => assert!(words[0].is_empty(), "{whole:?}: {error}"),
    }
    for shown in [
        text::quoted_argv_within(words.iter().copied(), limit),
        text::quoted_argv_shortened(words.iter().copied(), limit),
    ] {
        assert!(is_clean(&shown) && text::columns(&shown) <= limit, "{limit}: {shown:?}");
    }
    let width = limit.max(8);
    for shown in text::quoted_argv_lines(words.iter().copied(), width) {
        assert!(is_clean(&shown) && text::columns(&shown) <= width, "{width}: {shown:?}");
    }
}

fn secrets(words: &[&[u8]]) {
    let words: Vec<Untrusted> = words.iter().map(|word| Untrusted::new(*word)).collect();
    let masked = mask::argv(&words);
    assert_eq!(masked.len(), words.len());
    assert_eq!(mask::argv(&masked), masked, "of {words:?}");
    let variables = mask::variables(&words);
    assert_eq!(variables.len(), words.len());
    let name = |word: &Untrusted| word.as_bytes().split(|&byte| byte == b'=').next().map(<[u8]>::to_vec);
    let is_plain = |word: &Untrusted| {
        let begin = word.as_bytes().iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
        // A longer name might be a token by itself.
        (1..16).contains(&begin) && word.as_bytes().get(begin) == Some(&b'=')
    };
    for (before, after) in words.iter().zip(&variables).filter(|(before, _)| is_plain(before)) {
        assert_eq!(name(before), name(after));
    }
}

/// A line that a person may have typed.
fn typed(line: &str) {
    let Ok(words) = shellwords::split(line) else { return };
    if words.iter().any(|word| word.contains(&0)) {
        return;
    }
    let quoted = text::quoted_argv(words.iter().map(Vec::as_slice));
    assert_eq!(shellwords::split(&quoted).as_ref(), Ok(&words), "{quoted:?}");
}
