//! A command line that a person has written, as words: what [`super::text::quoted_argv`] writes is read back byte by byte,
//! and so is what else a shell takes for words. No shell reads it: what would have one do more than split words (variables,
//! patterns, pipes) is refused instead of taken for itself, so that nobody is given something else than they meant.
//!
//! Known are blanks, backslashes, `'…'`, `"…"` and `$'…'` (POSIX.1-2024, 2.2; bash(1), "QUOTING").

use std::iter::Peekable;
use std::str::CharIndices;

/// Why a line is no command. The column counts characters, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotWords {
    #[error("the quote at column {0} is not closed")]
    Open(usize),
    #[error("the backslash at the end has nothing behind it")]
    Backslash,
    #[error("no shell reads this: `{shown}` at column {1} must be quoted", shown = .0.escape_debug())]
    Special(char, usize),
    #[error("what is escaped at column {0} is not known")]
    Escape(usize),
    #[error("there is no command")]
    Nothing,
}

/// The words of a line.
pub fn split(line: &str) -> Result<Vec<Vec<u8>>, NotWords> {
    let mut line = Line { rest: line.char_indices().peekable(), text: line };
    let mut words = Vec::new();
    while let Some(word) = line.word()? {
        words.push(word);
    }
    if words.first().is_none_or(Vec::is_empty) { Err(NotWords::Nothing) } else { Ok(words) }
}

struct Line<'a> {
    rest: Peekable<CharIndices<'a>>,
    text: &'a str,
}

impl Line<'_> {
    /// The column of a byte of the line.
    fn column(&self, at: usize) -> usize {
        self.text.get(..at).map_or(0, |before| before.chars().count()).saturating_add(1)
    }

    fn word(&mut self) -> Result<Option<Vec<u8>>, NotWords> {
        while self.rest.next_if(|(_, blank)| is_blank(*blank)).is_some() {}
        let Some(&(start, _)) = self.rest.peek() else { return Ok(None) };
        let mut word = Vec::new();
        while let Some((at, character)) = self.rest.next_if(|(_, next)| !is_blank(*next)) {
            let next = self.rest.peek().map(|(_, next)| *next);
            match character {
                '\'' => self.single(at, &mut word)?,
                '"' => self.double(at, &mut word)?,
                '$' if next == Some('\'') => {
                    self.rest.next();
                    self.dollar(at, &mut word)?;
                }
                '\\' => match self.rest.next() {
                    Some((at, joined @ '\n')) => return Err(NotWords::Special(joined, self.column(at))),
                    Some((_, plain)) => push(&mut word, plain),
                    None => return Err(NotWords::Backslash),
                },
                // What find(1) takes is no list of alternatives.
                '{' if next == Some('}') => {
                    self.rest.next();
                    word.extend_from_slice(b"{}");
                }
                '#' if at > start => push(&mut word, character),
                '~' if at > start && !self.text.get(start..at).is_some_and(expands_a_tilde) => {
                    push(&mut word, character)
                }
                '\n' | '|' | '&' | ';' | '<' | '>' | '(' | ')' | '$' | '`' | '*' | '?' | '[' | '{' | '~' | '#' => {
                    return Err(NotWords::Special(character, self.column(at)));
                }
                plain => push(&mut word, plain),
            }
        }
        Ok(Some(word))
    }

    fn single(&mut self, from: usize, word: &mut Vec<u8>) -> Result<(), NotWords> {
        for (_, character) in self.rest.by_ref() {
            match character {
                '\'' => return Ok(()),
                plain => push(word, plain),
            }
        }
        Err(NotWords::Open(self.column(from)))
    }

    fn double(&mut self, from: usize, word: &mut Vec<u8>) -> Result<(), NotWords> {
        while let Some((at, character)) = self.rest.next() {
            match character {
                '"' => return Ok(()),
                '$' | '`' => return Err(NotWords::Special(character, self.column(at))),
                '\\' => match self.rest.next() {
                    Some((_, plain @ ('"' | '\\' | '$' | '`'))) => push(word, plain),
                    Some((at, joined @ '\n')) => return Err(NotWords::Special(joined, self.column(at))),
                    Some((_, other)) => {
                        word.push(b'\\');
                        push(word, other);
                    }
                    None => break,
                },
                plain => push(word, plain),
            }
        }
        Err(NotWords::Open(self.column(from)))
    }

    fn dollar(&mut self, from: usize, word: &mut Vec<u8>) -> Result<(), NotWords> {
        while let Some((at, character)) = self.rest.next() {
            match character {
                '\'' => return Ok(()),
                '\\' => self.escape(at, word)?,
                plain => push(word, plain),
            }
        }
        Err(NotWords::Open(self.column(from)))
    }

    /// What stands behind a backslash in `$'…'`. A NUL would end the word within itself.
    fn escape(&mut self, at: usize, word: &mut Vec<u8>) -> Result<(), NotWords> {
        let unknown = NotWords::Escape(self.column(at));
        let byte = match self.rest.next().map(|(_, escaped)| escaped) {
            Some(plain @ ('\\' | '\'' | '"' | '?')) => u32::from(plain),
            Some('a') => 0x07,
            Some('b') => 0x08,
            Some('e') => 0x1b,
            Some('f') => 0x0c,
            Some('n') => 0x0a,
            Some('r') => 0x0d,
            Some('t') => 0x09,
            Some('v') => 0x0b,
            Some('x') => self.digits(16, 2, 0),
            Some(first @ '0'..='7') => self.digits(8, 2, first.to_digit(8).unwrap_or(0)),
            Some('u') => return self.character(4, word).ok_or(unknown),
            Some('U') => return self.character(8, word).ok_or(unknown),
            _ => return Err(unknown),
        };
        match u8::try_from(byte) {
            Ok(byte @ 1..) => {
                word.push(byte);
                Ok(())
            }
            _ => Err(unknown),
        }
    }

    fn character(&mut self, most: usize, word: &mut Vec<u8>) -> Option<()> {
        let character = char::from_u32(self.digits(16, most, 0)).filter(|character| *character != '\0')?;
        push(word, character);
        Some(())
    }

    /// A number that goes on with up to `most` digits; 0 if there is none.
    fn digits(&mut self, radix: u32, most: usize, begun: u32) -> u32 {
        let mut number = begun;
        for _ in 0..most {
            let Some((_, digit)) = self.rest.next_if(|(_, digit)| digit.is_digit(radix)) else { break };
            number = number.saturating_mul(radix).saturating_add(digit.to_digit(radix).unwrap_or(0));
        }
        number
    }
}

fn is_blank(character: char) -> bool {
    matches!(character, ' ' | '\t')
}

/// Whether a tilde behind this beginning of a word is somebody's home: bash reads one in what looks like an assignment,
/// among arguments too (bash(1), "Tilde Expansion").
fn expands_a_tilde(beginning: &str) -> bool {
    beginning.ends_with('=') || beginning.ends_with(':') && beginning.contains('=')
}

fn push(word: &mut Vec<u8>, character: char) {
    word.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
}

#[cfg(test)]
mod tests {
    use std::io::{Seek as _, Write as _};
    use std::process::Command;

    use proptest::prelude::*;

    use super::*;
    use crate::common::text::quoted_argv;

    proptest! {
        #[test]
        fn what_is_quoted_is_read_back(words in prop::collection::vec(prop::collection::vec(1u8.., 0..30), 1..6)) {
            let line = quoted_argv(words.iter().map(Vec::as_slice));
            if words[0].is_empty() {
                prop_assert_eq!(split(&line), Err(NotWords::Nothing));
            } else {
                prop_assert_eq!(split(&line), Ok(words), "{}", line);
            }
        }

        #[test]
        fn whatever_is_typed_is_words_or_refused(line in "[ -~\\PC]{0,40}") {
            if let Ok(words) = split(&line) {
                prop_assert!(!words[0].is_empty() && words.iter().all(|word| !word.contains(&0)));
            }
        }
    }

    /// What is taken is what a shell makes of it: every line of up to five of the characters that mean something.
    #[test]
    fn a_shell_reads_the_same_words() {
        const READER: &str = "while IFS= read -r -d '' line; do eval \"printf '%s\\0' $line\"; printf 'end\\0'; done";
        let mut lines = vec![String::new()];
        for from in 0..5 {
            let longer: Vec<String> = lines.iter().filter(|line| line.len() == from).cloned().collect();
            for character in "a'\"\\{}~#:= $\n".chars() {
                lines.extend(longer.iter().map(|line| format!("{line}{character}")));
            }
        }
        let taken: Vec<(&String, Vec<Vec<u8>>)> =
            lines.iter().filter_map(|line| Some((line, split(line).ok()?))).collect();
        assert!(taken.len() > 10_000, "{}", taken.len());

        let mut file = tempfile::tempfile().unwrap();
        for (line, _) in &taken {
            write!(file, "{line}\0").unwrap();
        }
        file.rewind().unwrap();
        let shell = Command::new("bash").args(["-c", READER]).stdin(file).output().unwrap();
        let mut read = shell.stdout.split(|byte| *byte == 0).map(<[u8]>::to_vec);
        for (line, words) in taken {
            let by_shell: Vec<Vec<u8>> = read.by_ref().take_while(|word| word != b"end").collect();
            assert_eq!(by_shell, words, "{line:?}");
        }
    }

    #[test]
    fn what_a_shell_would_do_more_with_is_refused() {
        for (line, character, column) in [
            ("ls *.txt", '*', 4),
            ("ls | wc", '|', 4),
            ("a && b", '&', 3),
            ("echo $HOME", '$', 6),
            ("echo \"$HOME\"", '$', 7),
            ("echo \"`id`\"", '`', 7),
            ("ls ~/x", '~', 4),
            ("make prefix=~/x", '~', 13),
            ("x path=/a:~/b", '~', 11),
            ("a\nb", '\n', 2),
            ("a\\\nb", '\n', 3),
            ("\"a\\\nb\"", '\n', 4),
            ("ls {a,b}", '{', 4),
            ("ls # all", '#', 4),
            ("ž > x", '>', 3),
        ] {
            assert_eq!(split(line), Err(NotWords::Special(character, column)), "{line}");
        }
        for (line, error) in [
            ("", NotWords::Nothing),
            ("  ", NotWords::Nothing),
            ("'' x", NotWords::Nothing),
            ("echo 'a b", NotWords::Open(6)),
            ("echo \"a b", NotWords::Open(6)),
            ("echo $'a b", NotWords::Open(6)),
            ("echo \\", NotWords::Backslash),
            ("echo $'\\0'", NotWords::Escape(8)),
            ("echo $'\\c'", NotWords::Escape(8)),
            ("echo $'\\777'", NotWords::Escape(8)),
        ] {
            assert_eq!(split(line), Err(error), "{line}");
        }
        let plain = split("find . -exec rm {} a#b x~ \"a\\\"b\" 'c d'\\ e \\;").unwrap();
        let words: [&[u8]; 9] = [b"find", b".", b"-exec", b"rm", b"{}", b"a#b", b"x~", b"a\"b", b"c d e"];
        let (last, others) = plain.split_last().unwrap();
        assert_eq!((last.as_slice(), others), (b";".as_slice(), words.map(<[u8]>::to_vec).as_slice()));
    }
}
