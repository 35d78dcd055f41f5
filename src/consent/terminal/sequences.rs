//! The bytes of a keyboard, taken apart (ECMA-48; xterm's "Control Sequences"): characters, control characters, and the sequences
//! that xterm and its kin send. Pure. What they mean is said by who reads them ([`Keyed`]); what is a terminal's reply means
//! nothing.

use std::marker::PhantomData;

/// What bytes mean where they are read.
pub trait Keyed: Sized {
    /// Escape alone.
    const LEAVE: Self;

    fn character(character: char) -> Self;

    /// Whether this byte ends any sequence, besides CAN.
    fn cancels(byte: u8) -> bool;

    /// Of a byte by itself.
    fn plain(byte: u8) -> Option<Self>;

    /// After an Escape that begins no sequence.
    fn with_alt(byte: u8) -> Option<Self>;

    /// After `ESC O`.
    fn single(byte: u8) -> Option<Self>;

    /// After `ESC [` and its parameters.
    fn sequence(parameters: &[u8], last: u8) -> Option<Self>;
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum At {
    #[default]
    Text,
    /// Within a character of UTF-8.
    Character(Vec<u8>),
    Escape,
    /// After `ESC [`, with the parameters so far.
    Sequence(Vec<u8>),
    /// After `ESC O`.
    Single,
    /// Within OSC, DCS, APC, PM or SOS, up to ST or BEL.
    String,
    StringEscape,
}

/// Reads bytes as they come.
#[derive(Clone, Debug)]
pub struct Keys<K> {
    at: At,
    keys: PhantomData<K>,
}

impl<K> Default for Keys<K> {
    fn default() -> Keys<K> {
        Keys { at: At::default(), keys: PhantomData }
    }
}

/// Bytes of parameters that can matter.
const PARAMETERS: usize = 8;

impl<K: Keyed> Keys<K> {
    pub fn read(&mut self, bytes: &[u8]) -> Vec<K> {
        bytes.iter().filter_map(|byte| self.step(*byte)).collect()
    }

    /// Whether more bytes may belong to the last one.
    pub fn is_within(&self) -> bool {
        self.at != At::Text
    }

    /// Nothing came for a while: an Escape that stands alone was the key.
    pub fn pause(&mut self) -> Option<K> {
        (std::mem::take(&mut self.at) == At::Escape).then_some(K::LEAVE)
    }

    fn step(&mut self, byte: u8) -> Option<K> {
        let (at, key) = match (std::mem::take(&mut self.at), byte) {
            // CAN ends any sequence.
            (_, 0x18) => (At::Text, None),
            (_, byte) if K::cancels(byte) => (At::Text, None),
            (At::String, 0x1b) => (At::StringEscape, None),
            (At::String, 0x07) | (At::StringEscape, b'\\') => (At::Text, None),
            (At::String, _) => (At::String, None),
            (_, 0x1b) => (At::Escape, None),
            (At::Escape | At::StringEscape, b'[') => (At::Sequence(Vec::new()), None),
            (At::Escape | At::StringEscape, b']' | b'P' | b'X' | b'^' | b'_') => (At::String, None),
            (At::Escape, b'O') => (At::Single, None),
            (At::Escape, byte) => (At::Text, K::with_alt(byte)),
            (At::StringEscape, _) => (At::Text, None),
            (At::Single, byte) => (At::Text, K::single(byte)),
            (At::Sequence(parameters), 0x40..=0x7e) => (At::Text, K::sequence(&parameters, byte)),
            (At::Sequence(mut parameters), _) => {
                if parameters.len() < PARAMETERS {
                    parameters.push(byte);
                }
                (At::Sequence(parameters), None)
            }
            (At::Character(mut begun), 0x80..=0xbf) => {
                begun.push(byte);
                match std::str::from_utf8(&begun) {
                    Ok(text) => (At::Text, text.chars().next().map(K::character)),
                    Err(error) if error.error_len().is_none() => (At::Character(begun), None),
                    Err(_) => (At::Text, None),
                }
            }
            (At::Text | At::Character(_), 0xc2..=0xf4) => (At::Character(vec![byte]), None),
            (At::Text | At::Character(_), byte) => (At::Text, K::plain(byte)),
        };
        self.at = at;
        key
    }
}
