//! Text that came from a tool, and what of it may be shown.
//!
//! Everything that leaves here holds only characters that draw themselves, in the order they stand in, and can be read
//! back without doubt:
//!
//! | in | out |
//! |---|---|
//! | a printable character | itself |
//! | `\` | `\\` |
//! | newline, carriage return, tab | `\n`, `\r`, `\t` |
//! | another ASCII control, or a byte that is not UTF-8 | `\xNN` |
//! | C1 controls, bidi marks and overrides, zero-width, combining, invisible or private characters, odd spaces, `…` | `\u{N}` |
//! | a space at either end or after another space | `\x20` |
//!
//! `…` is kept for the mark of a cut, so that no name can look as if it had been cut.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use unicode_width::UnicodeWidthChar;

/// Bytes that a tool chose. There is no way to print them but through the escaping functions here.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Untrusted(Vec<u8>);

impl Untrusted {
    pub fn new(bytes: impl Into<Vec<u8>>) -> Untrusted {
        Untrusted(bytes.into())
    }

    /// The bytes as they came, to compare and to match; never to show.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl std::fmt::Debug for Untrusted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

/// One character or byte of the source, as it is shown.
struct Unit {
    shown: Cow<'static, str>,
    /// Terminal columns that it takes.
    columns: usize,
    /// Bytes of the source that it stands for.
    source: usize,
}

/// Whether a character draws itself, alone and in place. Combining characters do not: a pile of them hides its neighbours.
pub fn is_showable(character: char) -> bool {
    !matches!(character,
        '\u{0}'..='\u{1f}' | '\u{7f}'..='\u{a0}' | '\u{ad}' | '\u{34f}' | '\u{61c}'
        | '\u{115f}' | '\u{1160}' | '\u{1680}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{2000}'..='\u{200f}' | '\u{2026}' | '\u{2028}'..='\u{202f}' | '\u{205f}'..='\u{206f}'
        | '\u{2800}' | '\u{3000}' | '\u{3164}' | '\u{e000}'..='\u{f8ff}' | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{ffff}' | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{10ffff}')
        && character.width().is_some_and(|columns| columns > 0)
}

/// The units of some bytes, in the notation of this module.
fn units(bytes: &[u8]) -> Vec<Unit> {
    let mut units = Vec::with_capacity(bytes.len());
    let mut after_space = true;
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            let shown: Cow<'static, str> = match character {
                ' ' if after_space => "\\x20".into(),
                '\\' => "\\\\".into(),
                '\n' => "\\n".into(),
                '\r' => "\\r".into(),
                '\t' => "\\t".into(),
                shown if is_showable(shown) => shown.to_string().into(),
                control if control.is_ascii() => format!("\\x{:02x}", u32::from(control)).into(),
                hidden => format!("\\u{{{:x}}}", u32::from(hidden)).into(),
            };
            after_space = character == ' ';
            units.push(Unit { columns: columns(&shown), shown, source: character.len_utf8() });
        }
        for byte in chunk.invalid() {
            after_space = false;
            units.push(Unit { shown: format!("\\x{byte:02x}").into(), columns: 4, source: 1 });
        }
    }
    if let Some(last) = units.last_mut()
        && last.shown == " "
    {
        *last = Unit { shown: "\\x20".into(), columns: 4, source: 1 };
    }
    units
}

/// Terminal columns of text that was escaped here, or is our own.
pub fn columns(text: &str) -> usize {
    text.chars().filter_map(UnicodeWidthChar::width).sum()
}

/// Bytes in the notation of this module, however long.
pub fn escaped(bytes: &[u8]) -> String {
    units(bytes).iter().map(|unit| unit.shown.as_ref()).collect()
}

/// [`escaped`], in `limit` columns at the most: what is too long loses its middle, and `…(123 bytes)…` says how much. The
/// end, where a path has its file name, keeps more than the beginning.
pub fn escaped_within(bytes: &[u8], limit: usize) -> String {
    cut(&units(bytes), limit, true)
}

/// [`escaped_within`] with `…` alone for what is left out, where the whole stands elsewhere.
pub fn shortened(bytes: &[u8], limit: usize) -> String {
    cut(&units(bytes), limit, false)
}

/// Text that is in a notation of ours already, such as [`quoted_argv`] with `…` for further words, in `limit` columns at the
/// most; what would not draw itself is escaped all the same.
pub fn shown_within(text: &str, limit: usize) -> String {
    let unit = |character: char| {
        let is_own = matches!(character, ' ' | '…') || is_showable(character);
        let shown: String =
            if is_own { character.into() } else { escaped(character.encode_utf8(&mut [0; 4]).as_bytes()) };
        Unit { columns: columns(&shown), shown: shown.into(), source: character.len_utf8() }
    };
    cut(&text.chars().map(unit).collect::<Vec<_>>(), limit, true)
}

/// Text that is in a notation of ours already, in `limit` columns at the most, with its end: what is too long loses its
/// beginning. For names of hosts, of which the end says whose they are.
pub fn ending_within(text: &str, limit: usize) -> String {
    let whole = shown_within(text, usize::MAX);
    if columns(&whole) <= limit {
        return whole;
    }
    let mut room = limit.saturating_sub(1);
    let mut kept: Vec<char> = Vec::new();
    for character in whole.chars().rev() {
        let Some(left) = room.checked_sub(character.width().unwrap_or(0)) else { break };
        room = left;
        kept.push(character);
    }
    let mark = if limit > 0 { "…" } else { "" };
    mark.chars().chain(kept.into_iter().rev()).collect()
}

/// `counts`: whether to say how much is left out, if there is room for it.
fn cut(units: &[Unit], limit: usize, counts: bool) -> String {
    if units.iter().map(|unit| unit.columns).sum::<usize>() <= limit {
        return units.iter().map(|unit| unit.shown.as_ref()).collect();
    }
    let total: usize = units.iter().map(|unit| unit.source).sum();
    // The widest that the mark can become; the count in it is never above the total.
    let full = columns(&mark(total));
    // The end is what names differ in: it has two thirds, and rather loses the count than its last character.
    let for_tail = |room: usize| room - room / 3;
    let last = units.last().map_or(0, |unit| unit.columns);
    let told = counts && limit >= full + 8 && for_tail(limit - full) >= last;
    let room = limit.saturating_sub(if told { full } else { 1 });
    let fits = |room: usize, next: &mut dyn Iterator<Item = &Unit>| {
        let mut used = 0;
        let count = next.take_while(|unit| {
            used += unit.columns;
            used <= room
        });
        count.count()
    };
    let tail = fits(for_tail(room), &mut units.iter().rev());
    let tail_columns: usize = units.iter().rev().take(tail).map(|unit| unit.columns).sum();
    let head = fits(room - tail_columns, &mut units.iter()).min(units.len() - tail);
    let hidden = units.get(head..units.len() - tail).unwrap_or_default();
    let mut text: String = units.iter().take(head).map(|unit| unit.shown.as_ref()).collect();
    match (told, limit) {
        (true, _) => text.push_str(&mark(hidden.iter().map(|unit| unit.source).sum())),
        (false, 0) => {}
        (false, _) => text.push('…'),
    }
    text.extend(units.iter().skip(units.len() - tail).map(|unit| unit.shown.as_ref()));
    text
}

fn mark(bytes: usize) -> String {
    format!("…({bytes} bytes)…")
}

/// The bytes that [`escaped`] was given; `None` for text that it does not make. A cut cannot be read back.
pub fn unescaped(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(character) = rest.next() {
        if character != '\\' {
            let mut buffer = [0; 4];
            bytes.extend_from_slice(character.encode_utf8(&mut buffer).as_bytes());
            continue;
        }
        match rest.next()? {
            '\\' => bytes.push(b'\\'),
            'n' => bytes.push(b'\n'),
            'r' => bytes.push(b'\r'),
            't' => bytes.push(b'\t'),
            'x' => {
                let (high, low) = (rest.next()?.to_digit(16)?, rest.next()?.to_digit(16)?);
                bytes.push(u8::try_from(high * 16 + low).ok()?);
            }
            'u' => {
                let digits = rest.as_str().strip_prefix('{')?.split_once('}')?.0;
                let mut buffer = [0; 4];
                let hidden = char::from_u32(u32::from_str_radix(digits, 16).ok()?)?;
                bytes.extend_from_slice(hidden.encode_utf8(&mut buffer).as_bytes());
                rest = rest.as_str().get(digits.len() + 2..)?.chars();
            }
            _ => return None,
        }
    }
    (escaped(&bytes) == text).then_some(bytes)
}

/// A word as a shell takes it back: bare where that is plain, in single quotes where it is printable, else in `$'…'` with
/// a `\xNN` for each byte that must not be drawn (bash(1), zshmisc(1), "QUOTING").
pub fn quoted_word(bytes: &[u8]) -> String {
    word_units(bytes).iter().map(|unit| unit.shown.as_ref()).collect()
}

/// A command line that can be pasted into a shell, each word as [`quoted_word`] writes it.
pub fn quoted_argv<'a>(words: impl IntoIterator<Item = &'a [u8]>) -> String {
    argv_units(words).iter().map(|unit| unit.shown.as_ref()).collect()
}

/// [`quoted_argv`] in `limit` columns at the most, cut like [`escaped_within`]; a cut line can no longer be pasted.
pub fn quoted_argv_within<'a>(words: impl IntoIterator<Item = &'a [u8]>, limit: usize) -> String {
    cut(&argv_units(words), limit, true)
}

/// [`quoted_argv_within`] with `…` alone for what is left out, where the whole stands elsewhere.
pub fn quoted_argv_shortened<'a>(words: impl IntoIterator<Item = &'a [u8]>, limit: usize) -> String {
    cut(&argv_units(words), limit, false)
}

/// [`quoted_argv`] in lines of `width` columns, as a shell reads them back: a line that ends between two words ends with a
/// backslash. A word that is longer than a line is cut anywhere, and then the lines must be joined by hand.
pub fn quoted_argv_lines<'a>(words: impl IntoIterator<Item = &'a [u8]>, width: usize) -> Vec<String> {
    const END: &str = " \\";
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in words {
        let word = quoted_word(word);
        if !line.is_empty() {
            if columns(&line) + 1 + columns(&word) + END.len() > width {
                lines.push(std::mem::take(&mut line) + END);
            } else {
                line.push(' ');
            }
        }
        line.push_str(&word);
        if columns(&line) + END.len() > width {
            let mut pieces = wrapped(&line, width.saturating_sub(END.len()).max(1));
            line = pieces.pop().unwrap_or_default();
            lines.append(&mut pieces);
        }
    }
    lines.push(line);
    lines
}

fn argv_units<'a>(words: impl IntoIterator<Item = &'a [u8]>) -> Vec<Unit> {
    let mut units = Vec::new();
    for word in words {
        if !units.is_empty() {
            units.push(Unit { shown: " ".into(), columns: 1, source: 1 });
        }
        units.extend(word_units(word));
    }
    units
}

fn word_units(bytes: &[u8]) -> Vec<Unit> {
    let quote = |shown: &'static str| Unit { shown: shown.into(), columns: shown.len(), source: 0 };
    let printable = std::str::from_utf8(bytes).ok().filter(|text| text.chars().all(is_showable));
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_@%+:,./-".contains(&byte) || byte == b'=';
    let mut units = Vec::with_capacity(bytes.len() + 2);
    let own = |character: char| Unit {
        columns: character.width().unwrap_or(0),
        shown: character.to_string().into(),
        source: character.len_utf8(),
    };
    match printable {
        // A leading `=` is expanded by zsh.
        Some(text) if !text.is_empty() && bytes.iter().copied().all(plain) && !text.starts_with('=') => {
            units.extend(text.chars().map(own));
        }
        Some(text) => {
            units.push(quote("'"));
            units.extend(text.chars().map(|character| match character {
                '\'' => Unit { shown: "'\\''".into(), columns: 4, source: 1 },
                other => own(other),
            }));
            units.push(quote("'"));
        }
        None => {
            units.push(quote("$'"));
            for chunk in bytes.utf8_chunks() {
                for character in chunk.valid().chars() {
                    units.push(match character {
                        '\\' => Unit { shown: "\\\\".into(), columns: 2, source: 1 },
                        '\'' => Unit { shown: "\\'".into(), columns: 2, source: 1 },
                        '\n' => Unit { shown: "\\n".into(), columns: 2, source: 1 },
                        '\r' => Unit { shown: "\\r".into(), columns: 2, source: 1 },
                        '\t' => Unit { shown: "\\t".into(), columns: 2, source: 1 },
                        shown if is_showable(shown) => own(shown),
                        hidden => {
                            let mut buffer = [0; 4];
                            hexadecimal(hidden.encode_utf8(&mut buffer).as_bytes())
                        }
                    });
                }
                units.extend(chunk.invalid().iter().map(|byte| hexadecimal(&[*byte])));
            }
            units.push(quote("'"));
        }
    }
    units
}

fn hexadecimal(bytes: &[u8]) -> Unit {
    let shown: String = bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect();
    Unit { columns: shown.len(), shown: shown.into(), source: bytes.len() }
}

/// Text cut into lines of `width` columns (at least 1 character each), between any two characters. For text that was
/// escaped here: it has no spaces that could be lost.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let (mut line, mut used) = (String::new(), 0);
    for character in text.chars() {
        let wide = character.width().unwrap_or(0);
        if used + wide > width && !line.is_empty() {
            lines.push(std::mem::take(&mut line));
            used = 0;
        }
        line.push(character);
        used += wide;
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Bytes that try to be trouble: escapes, bidi, half characters, quotes, spaces, cut marks.
    fn hostile() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            any::<char>().prop_map(|character| character.to_string().into_bytes()),
            any::<u8>().prop_map(|byte| vec![byte]),
            Just(b"\x1b[2J".to_vec()),
            Just("\u{202e}".into()),
            Just("\u{2066}\u{200b}e\u{301}".into()),
            Just("…(12 bytes)…".into()),
            Just(b" ".to_vec()),
            Just(b"\\x1b'\"$`".to_vec()),
            Just("日本語".into()),
        ];
        prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
    }

    fn is_clean(text: &str) -> bool {
        text.chars().all(|character| is_showable(character) || character == '…')
    }

    proptest! {
        #[test]
        fn escaped_text_draws_only_itself_and_can_be_read_back(bytes in hostile()) {
            let text = escaped(&bytes);
            prop_assert!(text.chars().all(is_showable), "{text:?}");
            prop_assert_eq!(unescaped(&text), Some(bytes));
        }

        #[test]
        fn a_cut_keeps_its_limit_and_both_ends(bytes in hostile(), limit in 0usize..120) {
            let whole = escaped(&bytes);
            for text in [escaped_within(&bytes, limit), shortened(&bytes, limit)] {
                prop_assert!(columns(&text) <= limit, "{} columns: {text:?}", columns(&text));
                prop_assert!(is_clean(&text));
                if columns(&whole) <= limit {
                    prop_assert_eq!(&text, &whole);
                } else if limit > 0 {
                    let (head, tail) = (text.split('…').next().unwrap(), text.rsplit('…').next().unwrap());
                    prop_assert!(text.contains('…') && whole.starts_with(head) && whole.ends_with(tail));
                    let last = units(&bytes).last().map_or(0, |unit| unit.columns);
                    let is_narrow = limit - 1 - (limit - 1) / 3 < last;
                    prop_assert!(!tail.is_empty() || is_narrow, "the end is lost: {text:?}");
                }
            }
        }

        #[test]
        fn a_quoted_line_draws_only_itself(words in prop::collection::vec(hostile(), 0..4), limit in 0usize..90) {
            let line = quoted_argv(words.iter().map(Vec::as_slice));
            prop_assert!(line.chars().all(is_showable), "{line:?}");
            let short = quoted_argv_within(words.iter().map(Vec::as_slice), limit);
            prop_assert!(is_clean(&short) && columns(&short) <= limit);
        }

        #[test]
        fn a_line_in_pieces_is_read_back(
            words in prop::collection::vec("[a-z '\u{1}]{0,9}", 1..12),
            width in 60usize..90,
        ) {
            let pieces = quoted_argv_lines(words.iter().map(String::as_bytes), width);
            prop_assert!(pieces.iter().all(|piece| columns(piece) <= width));
            let joined = pieces.join("\n").replace(" \\\n", " ");
            prop_assert_eq!(joined, quoted_argv(words.iter().map(String::as_bytes)));
        }

        #[test]
        fn wrapped_lines_keep_their_width_and_lose_nothing(bytes in hostile(), width in 2usize..40) {
            let text = escaped(&bytes);
            let lines = wrapped(&text, width);
            prop_assert!(lines.iter().all(|line| columns(line) <= width));
            prop_assert_eq!(lines.concat(), text);
        }
    }

    #[test]
    fn a_shell_takes_a_quoted_line_back_byte_by_byte() {
        let words: Vec<Vec<u8>> = vec![
            b"plain".to_vec(),
            b"".to_vec(),
            b"two words".to_vec(),
            b"it's $HOME `id` \"x\" \\n !".to_vec(),
            b"line\nbreak\x1b[31m\x7f".to_vec(),
            b"\xff\xfe'\\\xc3".to_vec(),
            "rtl\u{202e}cod.exe\u{200b}…".into(),
            "žluťoučký 日本".into(),
            b"~root".to_vec(),
            b"=ls".to_vec(),
            b"a=b;c".to_vec(),
            (1..=255).collect(),
        ];
        let line = quoted_argv(words.iter().map(Vec::as_slice));
        let shell =
            std::process::Command::new("bash").arg("-c").arg(format!("printf '%s\\0' {line}")).output().unwrap();
        let back: Vec<Vec<u8>> = shell.stdout.split(|&byte| byte == 0).map(<[u8]>::to_vec).collect();
        assert_eq!(back.strip_suffix(&[vec![]]).unwrap(), words.as_slice(), "{line}");
    }

    #[test]
    fn text_of_our_own_keeps_its_marks() {
        assert_eq!(shown_within("git push …", 40), "git push …");
        assert_eq!(shown_within("git\u{202e} \x1b\n", 40), "git\\u{202e} \\x1b\\n");
        assert_eq!(shown_within(&"x".repeat(50), 20), "xx…(42 bytes)…xxxxxx");
    }

    #[test]
    fn notation_is_as_documented() {
        assert_eq!(escaped(b" a  b\\ \n\x1b\xff "), "\\x20a \\x20b\\\\ \\n\\x1b\\xff\\x20");
        assert_eq!(escaped("a\u{202e}b\u{85}c…é".as_bytes()), "a\\u{202e}b\\u{85}c\\u{2026}é");
        assert_eq!(unescaped("a\u{202e}"), None);
        assert_eq!(unescaped("\\x41"), None);
        assert_eq!(
            escaped_within(b"/home/alice/a/very/long/path/to/some/file.txt", 36),
            "/home/al…(21 bytes)…to/some/file.txt"
        );
        assert_eq!(
            shortened(b"/home/alice/a/very/long/path/to/some/file.txt", 36),
            "/home/alice…ng/path/to/some/file.txt"
        );
    }
}
