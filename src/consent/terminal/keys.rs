//! Keys of a terminal as bytes, for a line that is edited: characters, control characters, and the sequences that xterm and
//! its kin send for the cursor (ECMA-48; xterm's "Control Sequences"). Pure. The bytes come from a keyboard, or are a
//! terminal's reply to what a tool wrote before: strings and sequences that are no keys mean nothing.

use super::sequences::{self, Keyed};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    Character(char),
    Left,
    Right,
    WordLeft,
    WordRight,
    Home,
    End,
    Backspace,
    Delete,
    /// To the beginning of the word, of the line, and to the end of either.
    KillWordLeft,
    KillLeft,
    KillWordRight,
    KillRight,
    /// What was killed last.
    Yank,
    Enter,
    /// ^C, or Escape alone.
    Leave,
}

/// Reads bytes as they come.
pub type Keys = sequences::Keys<Key>;

impl Keyed for Key {
    const LEAVE: Key = Key::Leave;

    fn character(character: char) -> Key {
        Key::Character(character)
    }

    fn cancels(byte: u8) -> bool {
        // SUB.
        byte == 0x1a
    }

    fn plain(byte: u8) -> Option<Key> {
        plain(byte)
    }

    fn with_alt(byte: u8) -> Option<Key> {
        with_alt(byte)
    }

    fn single(byte: u8) -> Option<Key> {
        cursor(byte, false)
    }

    fn sequence(parameters: &[u8], last: u8) -> Option<Key> {
        sequence(parameters, last)
    }
}

fn plain(byte: u8) -> Option<Key> {
    Some(match byte {
        b' '..=b'~' => Key::Character(char::from(byte)),
        b'\t' => Key::Character(' '),
        b'\r' | b'\n' => Key::Enter,
        0x01 => Key::Home,
        0x02 => Key::Left,
        0x03 => Key::Leave,
        0x04 => Key::Delete,
        0x05 => Key::End,
        0x06 => Key::Right,
        0x08 | 0x7f => Key::Backspace,
        0x0b => Key::KillRight,
        0x15 => Key::KillLeft,
        0x17 => Key::KillWordLeft,
        0x19 => Key::Yank,
        _ => return None,
    })
}

fn with_alt(byte: u8) -> Option<Key> {
    Some(match byte {
        b'b' => Key::WordLeft,
        b'f' => Key::WordRight,
        b'd' => Key::KillWordRight,
        0x08 | 0x7f => Key::KillWordLeft,
        _ => return None,
    })
}

fn sequence(parameters: &[u8], last: u8) -> Option<Key> {
    match (last, parameters) {
        (b'~', b"1" | b"7") => Some(Key::Home),
        (b'~', b"4" | b"8") => Some(Key::End),
        (b'~', b"3") => Some(Key::Delete),
        (_, b"") => cursor(last, false),
        // With Alt, Control, or both (xterm's modifyCursorKeys).
        (_, b"1;3" | b"1;5" | b"1;7") => cursor(last, true),
        _ => None,
    }
}

fn cursor(last: u8, by_word: bool) -> Option<Key> {
    Some(match (last, by_word) {
        (b'D', false) => Key::Left,
        (b'C', false) => Key::Right,
        (b'D', true) => Key::WordLeft,
        (b'C', true) => Key::WordRight,
        (b'H', _) => Key::Home,
        (b'F', _) => Key::End,
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
        use Key::*;
        for (bytes, expected) in [
            (b"\x1b[D\x1bOD\x02".as_slice(), [Left, Left, Left]),
            (b"\x1b[1;5D\x1bb\x1b[1;3D", [WordLeft, WordLeft, WordLeft]),
            (b"\x1b[H\x1b[1~\x01", [Home, Home, Home]),
            (b"\x1bOF\x1b[4~\x05", [End, End, End]),
            (b"\x1b[3~\x04\x7f", [Delete, Delete, Backspace]),
            (b"\x17\x15\x0b", [KillWordLeft, KillLeft, KillRight]),
            ("aé日".as_bytes(), [Character('a'), Character('é'), Character('日')]),
        ] {
            assert_eq!(keys(bytes), expected, "{bytes:?}");
        }
    }

    #[test]
    fn replies_of_a_terminal_are_no_keys() {
        for reply in
            [b"\x1b[24;80R".as_slice(), b"\x1b]lrm -r /\x1b\\", b"\x1bP1$rrm\r\x1b\\", b"\x1b[?62;c", b"\x1b]0;x\r\x07"]
        {
            assert_eq!(keys(reply), [], "{reply:?}");
        }
    }

    #[test]
    fn escape_is_a_key_once_nothing_follows() {
        let mut keys = Keys::default();
        assert_eq!(keys.read(b"\x1b"), []);
        assert!(keys.is_within());
        assert_eq!(keys.pause(), Some(Key::Leave));
        assert_eq!(keys.read(b"\x1b["), []);
        assert_eq!(keys.pause(), None);
        assert_eq!(keys.read(b"D"), [Key::Character('D')]);
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
