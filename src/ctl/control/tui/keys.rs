//! Keys of a terminal as bytes, for screens that are walked through (ECMA-48; xterm's "Control Sequences"). Pure. What is not
//! a key, such as a reply of the terminal, means nothing.

use crate::consent::terminal::sequences::{self, Keyed};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    Character(char),
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    Tab,
    BackTab,
    Enter,
    Backspace,
    /// ^C, or Escape alone.
    Leave,
    /// ^Z.
    Suspend,
    /// ^L.
    Redraw,
}

/// Reads bytes as they come.
pub type Keys = sequences::Keys<Key>;

impl Keyed for Key {
    const LEAVE: Key = Key::Leave;

    fn character(character: char) -> Key {
        Key::Character(character)
    }

    fn cancels(_byte: u8) -> bool {
        // ^Z is a key here.
        false
    }

    fn plain(byte: u8) -> Option<Key> {
        plain(byte)
    }

    fn with_alt(_byte: u8) -> Option<Key> {
        // Alt and a key is none of ours.
        None
    }

    fn single(byte: u8) -> Option<Key> {
        moving(byte)
    }

    fn sequence(parameters: &[u8], last: u8) -> Option<Key> {
        sequence(parameters, last)
    }
}

fn plain(byte: u8) -> Option<Key> {
    Some(match byte {
        b' '..=b'~' => Key::Character(char::from(byte)),
        b'\t' => Key::Tab,
        b'\r' | b'\n' => Key::Enter,
        0x03 => Key::Leave,
        0x08 | 0x7f => Key::Backspace,
        0x0c => Key::Redraw,
        0x1a => Key::Suspend,
        0x10 => Key::Up,
        0x0e => Key::Down,
        0x15 | 0x02 => Key::PageUp,
        0x04 | 0x06 => Key::PageDown,
        _ => return None,
    })
}

fn sequence(parameters: &[u8], last: u8) -> Option<Key> {
    match (last, parameters) {
        (b'~', b"1" | b"7") => Some(Key::Home),
        (b'~', b"4" | b"8") => Some(Key::End),
        (b'~', b"5") => Some(Key::PageUp),
        (b'~', b"6") => Some(Key::PageDown),
        (_, b"") => moving(last),
        _ => None,
    }
}

fn moving(byte: u8) -> Option<Key> {
    Some(match byte {
        b'A' => Key::Up,
        b'B' => Key::Down,
        b'H' => Key::Home,
        b'F' => Key::End,
        b'Z' => Key::BackTab,
        b'M' => Key::Enter,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn keys(bytes: &[u8]) -> Vec<Key> {
        Keys::default().read(bytes)
    }

    #[test]
    fn keys_are_known_in_their_forms() {
        assert_eq!(keys(b"\x1b[A\x1bOA\x10"), [Key::Up; 3]);
        assert_eq!(keys(b"\x1b[B\x1bOB\x0e"), [Key::Down; 3]);
        assert_eq!(keys(b"\x1b[5~\x1b[6~\t\x1b[Z"), [Key::PageUp, Key::PageDown, Key::Tab, Key::BackTab]);
        assert_eq!(
            keys("oé\x1a\x0c\x03".as_bytes()),
            [Key::Character('o'), Key::Character('é'), Key::Suspend, Key::Redraw, Key::Leave]
        );
        let mut alone = Keys::default();
        assert_eq!(alone.read(b"\x1b"), []);
        assert!(alone.is_within());
        assert_eq!(alone.pause(), Some(Key::Leave));
    }

    #[test]
    fn replies_of_a_terminal_and_alt_keys_are_no_keys() {
        for reply in [
            b"\x1b[24;80R".as_slice(),
            b"\x1b]lo\x1b\\",
            b"\x1bP1$ro\r\x1b\\",
            b"\x1b[?62;c",
            b"\x1b]0;o\r\x07",
            b"\x1bo",
        ] {
            assert_eq!(keys(reply), [], "{reply:?}");
        }
    }

    proptest! {
        /// However the bytes come, and whatever they are.
        #[test]
        fn pieces_mean_what_the_whole_means(bytes in prop::collection::vec(any::<u8>(), 0..40), at in 0usize..40) {
            let (first, rest) = bytes.split_at(at.min(bytes.len()));
            let mut pieces = Keys::default();
            let mut read = pieces.read(first);
            read.extend(pieces.read(rest));
            prop_assert_eq!(read, keys(&bytes));
        }
    }
}
