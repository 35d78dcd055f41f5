//! A command line that a person changes: keys go in, a line and the cursor's place come out. Pure. What stands in it at first
//! is a command in the notation of the shell, so it draws only itself; what is typed is taken only if it does.
//!
//! Why not one of the line editors that there are: those of Rust (rustyline, reedline) own the terminal and block on it, and
//! a prompt must go away the moment that its request does.

use unicode_width::UnicodeWidthChar;

use super::keys::Key;
use crate::common::details::MAX_EDITED;
use crate::common::shellwords::{self, NotWords};
use crate::common::text::{is_showable, quoted_argv};

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Editor {
    line: Vec<char>,
    /// The character before which the next one is put.
    at: usize,
    killed: Vec<char>,
}

/// What a key leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    On,
    /// Enter: see [`Editor::words`].
    Take,
    Leave,
}

/// Characters of a line at the most: each byte of a command in its longest form.
const MOST: usize = 4 * MAX_EDITED;

impl Editor {
    pub fn new<'a>(argv: impl IntoIterator<Item = &'a [u8]>) -> Editor {
        let line: Vec<char> = quoted_argv(argv).chars().collect();
        Editor { at: line.len(), line, killed: Vec::new() }
    }

    /// The words of the line as it is.
    pub fn words(&self) -> Result<Vec<Vec<u8>>, NotWords> {
        shellwords::split(&self.line.iter().collect::<String>())
    }

    pub fn key(&mut self, key: Key) -> Edit {
        match key {
            Key::Character(character) => self.insert([character]),
            Key::Left => self.at = self.at.saturating_sub(1),
            Key::Right => self.at = self.at.saturating_add(1).min(self.line.len()),
            Key::WordLeft => self.at = self.word_left(),
            Key::WordRight => self.at = self.word_right(),
            Key::Home => self.at = 0,
            Key::End => self.at = self.line.len(),
            Key::Backspace if self.at > 0 => {
                self.at = self.at.saturating_sub(1);
                self.take(self.at, self.at.saturating_add(1));
            }
            Key::Backspace => {}
            Key::Delete => drop(self.take(self.at, self.at.saturating_add(1))),
            Key::KillWordLeft => self.kill(self.word_left(), self.at),
            Key::KillLeft => self.kill(0, self.at),
            Key::KillWordRight => self.kill(self.at, self.word_right()),
            Key::KillRight => self.kill(self.at, self.line.len()),
            Key::Yank => self.insert(self.killed.clone()),
            Key::Enter => return Edit::Take,
            Key::Leave => return Edit::Leave,
        }
        Edit::On
    }

    /// Puts in what draws itself, and what there is room for.
    fn insert(&mut self, characters: impl IntoIterator<Item = char>) {
        let room = MOST.saturating_sub(self.line.len());
        let wanted = characters.into_iter().filter(|character| *character == ' ' || is_showable(*character));
        let new: Vec<char> = wanted.take(room).collect();
        let at = self.at.min(self.line.len());
        self.at = at.saturating_add(new.len());
        self.line.splice(at..at, new);
    }

    /// Takes these characters out.
    fn take(&mut self, from: usize, to: usize) -> Vec<char> {
        let to = to.min(self.line.len());
        self.line.drain(from.min(to)..to).collect()
    }

    fn kill(&mut self, from: usize, to: usize) {
        self.killed = self.take(from, to);
        self.at = from.min(self.line.len());
    }

    /// Where the word begins that ends at the cursor, or before it.
    fn word_left(&self) -> usize {
        let before = self.line.get(..self.at).unwrap_or_default();
        let blanks = before.iter().rev().take_while(|character| **character == ' ').count();
        let word = before.iter().rev().skip(blanks).take_while(|character| **character != ' ').count();
        self.at.saturating_sub(blanks.saturating_add(word))
    }

    fn word_right(&self) -> usize {
        let behind = self.line.get(self.at..).unwrap_or_default();
        let blanks = behind.iter().take_while(|character| **character == ' ').count();
        let word = behind.iter().skip(blanks).take_while(|character| **character != ' ').count();
        self.at.saturating_add(blanks).saturating_add(word).min(self.line.len())
    }

    /// The part of the line around the cursor that has room in `columns`, and how much of it stands before the cursor. `…`
    /// stands for what is not seen on either side.
    pub fn view(&self, columns: usize) -> (String, String) {
        let width = |characters: &[char]| characters.iter().map(|c| c.width().unwrap_or(0)).sum::<usize>();
        // The cursor may stand behind the last character.
        let room = columns.saturating_sub(1).max(2);
        let (before, behind) = self.line.split_at(self.at.min(self.line.len()));
        let all = width(&self.line) <= room;
        let fits = |characters: &mut dyn Iterator<Item = &char>, room: usize| {
            let mut used = 0_usize;
            characters
                .take_while(|c| {
                    used = used.saturating_add(c.width().unwrap_or(0));
                    used <= room
                })
                .count()
        };
        // Two thirds are for what stands before the cursor, and what the rest does not need.
        let wanted = width(behind).min(room / 3);
        let first = match all {
            true => 0,
            false => before
                .len()
                .saturating_sub(fits(&mut before.iter().rev(), room.saturating_sub(wanted).saturating_sub(1))),
        };
        let mut left: String = before.iter().skip(first).collect();
        if first > 0 {
            left.insert(0, '…');
        }
        let used = width(before.get(first..).unwrap_or_default()).saturating_add(usize::from(first > 0));
        let room = room.saturating_sub(used);
        let mut right: String = behind.iter().collect();
        if width(behind) > room {
            let seen = fits(&mut behind.iter(), room.saturating_sub(1));
            right = behind.iter().take(seen).chain(&['…']).collect();
        }
        (left.clone() + &right, left)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::keys::Keys;
    use super::*;
    use crate::common::text::columns;

    fn typed(editor: &mut Editor, bytes: &[u8]) {
        for key in Keys::default().read(bytes) {
            assert_eq!(editor.key(key), Edit::On);
        }
    }

    fn editor(words: &[&str]) -> Editor {
        Editor::new(words.iter().map(|word| word.as_bytes()))
    }

    fn words(editor: &Editor) -> Vec<String> {
        editor.words().unwrap().into_iter().map(|word| String::from_utf8(word).unwrap()).collect()
    }

    #[test]
    fn a_command_is_changed_by_the_usual_keys() {
        let mut editor = editor(&["git", "push", "--force", "my remote"]);
        assert_eq!(words(&editor), ["git", "push", "--force", "my remote"]);
        // Back over both words of the quoted one, over the blank before it and the option.
        typed(&mut editor, b"\x1bb\x1bb\x1b[1;5D\x0b");
        typed(&mut editor, b"origin");
        assert_eq!(words(&editor), ["git", "push", "origin"]);
        typed(&mut editor, b"\x01\x1b[3~\x1b[3~\x1b[3~ hg\x05\x17\x7f\x19");
        assert_eq!(words(&editor), ["hg", "pushorigin"]);
        typed(&mut editor, "\x15ls 'é 日".as_bytes());
        assert_eq!(editor.words(), Err(NotWords::Open(4)));
        typed(&mut editor, b"' \x1b[D\x1b[D\x1b[C");
        assert_eq!(words(&editor), ["ls", "é 日"]);
        assert_eq!(editor.key(Key::Enter), Edit::Take);
        assert_eq!(editor.key(Key::Leave), Edit::Leave);
    }

    #[test]
    fn what_would_not_draw_itself_is_not_typed() {
        let mut editor = editor(&["ls"]);
        typed(&mut editor, " \u{202e}x\u{200b}\u{2026}\u{7}".as_bytes());
        assert_eq!(words(&editor), ["ls", "x"]);
    }

    #[test]
    fn a_long_line_is_seen_around_the_cursor() {
        let mut editor = editor(&["0123456789abcdefghijABCDEFGHIJ"]);
        assert_eq!(editor.view(40).0, "0123456789abcdefghijABCDEFGHIJ");
        assert_eq!(editor.view(13), ("…jABCDEFGHIJ".into(), "…jABCDEFGHIJ".into()));
        typed(&mut editor, &b"\x1b[D".repeat(10));
        assert_eq!(editor.view(13), ("…defghijABC…".into(), "…defghij".into()));
        typed(&mut editor, b"\x01");
        assert_eq!(editor.view(13), ("0123456789a…".into(), "".into()));
    }

    proptest! {
        #[test]
        fn the_view_keeps_its_columns_and_shows_the_cursor(
            line in "[a-c 日é']{0,80}",
            keys in prop::collection::vec(prop::sample::select(vec![
                Key::Left, Key::Right, Key::WordLeft, Key::WordRight, Key::Home, Key::End, Key::Backspace, Key::Delete,
                Key::KillWordLeft, Key::KillLeft, Key::KillWordRight, Key::KillRight, Key::Yank, Key::Character('日'),
            ]), 0..30),
            width in 4usize..60,
        ) {
            let mut editor = Editor::new([line.as_bytes()]);
            for key in keys {
                editor.key(key);
                let (shown, left) = editor.view(width);
                prop_assert!(columns(&shown) < width, "{shown:?}");
                prop_assert!(shown.starts_with(&left));
                let before: String = editor.line[..editor.at].iter().collect();
                prop_assert!(before.ends_with(left.trim_start_matches('…')));
            }
        }

        #[test]
        fn a_command_that_is_not_changed_is_what_it_was(words in prop::collection::vec(prop::collection::vec(1u8.., 1..20), 1..5)) {
            prop_assert_eq!(Editor::new(words.iter().map(Vec::as_slice)).words(), Ok(words));
        }
    }
}
