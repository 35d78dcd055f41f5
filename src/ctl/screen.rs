//! What state the tool's output has left the terminal in: within a character or control sequence, and on which screen. Pure;
//! follows ECMA-48 and xterm's control sequences as far as a prompt must know them.

/// Where in the output the last byte was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum At {
    #[default]
    Text,
    /// Continuation bytes of a UTF-8 character that are to come.
    Character(u8),
    Escape,
    /// After `ESC [`.
    Sequence,
    /// Within OSC, DCS, APC, PM or SOS, up to ST or BEL.
    String,
    /// An ESC within a string: perhaps of its ST.
    StringEscape,
}

/// Follows a terminal's output byte by byte.
#[derive(Clone, Debug, Default)]
pub struct Screen {
    at: At,
    /// The parameters of the control sequence so far, cut at what can matter.
    parameters: Vec<u8>,
    is_alternate: bool,
}

impl Screen {
    const PARAMETERS: usize = 32;

    /// Whether the output has switched to the alternate screen (xterm's private modes 47, 1047 and 1049).
    pub fn is_alternate(&self) -> bool {
        self.is_alternate
    }

    /// Whether the output so far ends with a whole character or sequence.
    pub fn is_whole(&self) -> bool {
        self.at == At::Text
    }

    /// Follow what is being written.
    pub fn write(&mut self, output: &[u8]) {
        for byte in output {
            self.step(*byte);
        }
    }

    /// How much of `output`, which would be written next, ends with a whole character or sequence.
    pub fn whole_length(&self, output: &[u8]) -> usize {
        let mut ahead = self.clone();
        let mut whole = 0;
        for (index, byte) in output.iter().enumerate() {
            ahead.step(*byte);
            if ahead.is_whole() {
                whole = index + 1;
            }
        }
        whole
    }

    fn step(&mut self, byte: u8) {
        self.at = match (self.at, byte) {
            // CAN and SUB end any sequence, and ESC begins one anywhere but in a string.
            (_, 0x18 | 0x1a) => At::Text,
            (At::String, 0x1b) => At::StringEscape,
            (At::String, 0x07) | (At::StringEscape, b'\\') => At::Text,
            (At::String, _) => At::String,
            (_, 0x1b) => At::Escape,
            (At::Escape | At::StringEscape, b'[') => {
                self.parameters.clear();
                At::Sequence
            }
            (At::Escape | At::StringEscape, b']' | b'P' | b'X' | b'^' | b'_') => At::String,
            // Intermediate bytes, then one final byte.
            (At::Escape, 0x20..=0x2f) => At::Escape,
            (At::Escape | At::StringEscape, _) => At::Text,
            (At::Sequence, 0x40..=0x7e) => {
                self.switch(byte);
                At::Text
            }
            (At::Sequence, _) => {
                if self.parameters.len() < Screen::PARAMETERS {
                    self.parameters.push(byte);
                }
                At::Sequence
            }
            (At::Character(more @ 2..), 0x80..=0xbf) => At::Character(more - 1),
            (At::Text | At::Character(_), 0xc2..=0xdf) => At::Character(1),
            (At::Text | At::Character(_), 0xe0..=0xef) => At::Character(2),
            (At::Text | At::Character(_), 0xf0..=0xf4) => At::Character(3),
            (At::Text | At::Character(_), _) => At::Text,
        };
    }

    fn switch(&mut self, last: u8) {
        let Some(modes) = self.parameters.strip_prefix(b"?") else { return };
        let is_screen = modes.split(|byte| *byte == b';').any(|mode| matches!(mode, b"47" | b"1047" | b"1049"));
        match last {
            b'h' if is_screen => self.is_alternate = true,
            b'l' if is_screen => self.is_alternate = false,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Screen;

    fn after(pieces: &[&[u8]]) -> Screen {
        let mut screen = Screen::default();
        for piece in pieces {
            screen.write(piece);
        }
        screen
    }

    #[test]
    fn the_alternate_screen_is_seen_across_writes() {
        assert!(!after(&[b"text\x1b[?10"]).is_alternate());
        assert!(after(&[b"text\x1b[?10", b"49h more"]).is_alternate());
        assert!(after(&[b"\x1b[?25;1049h"]).is_alternate());
        assert!(!after(&[b"\x1b[?1049h", b"\x1b[?25l\x1b[?1049l"]).is_alternate());
        assert!(!after(&[b"\x1b]0;\x1b[?1049h\x07"]).is_whole() || !after(&[b"\x1b[1049h"]).is_alternate());
    }

    #[test]
    fn output_is_cut_only_between_whole_characters_and_sequences() {
        let screen = Screen::default();
        assert_eq!(screen.whole_length(b"plain"), 5);
        assert_eq!(screen.whole_length("ab\u{20ac}".as_bytes()), 5);
        assert_eq!(screen.whole_length(&"ab\u{20ac}".as_bytes()[..4]), 2);
        assert_eq!(screen.whole_length(b"ab\x1b[31"), 2);
        assert_eq!(screen.whole_length(b"ab\x1b]0;title"), 2);
        assert_eq!(screen.whole_length(b"ab\x1b]0;title\x1b\\c"), 14);
        assert_eq!(after(&[b"\x1b[3"]).whole_length(b"1mred"), 5);
    }
}
