//! Bytes of a fuzzer as numbers and pieces. What is not there any more is 0, or empty.

/// What is left of an input.
pub struct Feed<'a>(pub &'a [u8]);

impl<'a> Feed<'a> {
    /// The next so many bytes, or all that are left.
    pub fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }

    pub fn byte(&mut self) -> u8 {
        self.array::<1>()[0]
    }

    pub fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut all = [0; N];
        let taken = self.bytes(N);
        all[..taken.len()].copy_from_slice(taken);
        all
    }

    pub fn word(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }

    /// Up to the next byte of this value, without it; all that is left if there is none.
    pub fn up_to(&mut self, end: u8) -> &'a [u8] {
        let taken = self.0.split(|&byte| byte == end).next().unwrap_or_default();
        self.0 = self.0.get(taken.len() + 1..).unwrap_or_default();
        taken
    }

    /// A line as text, with `U+FFFD` for what is none.
    pub fn line(&mut self) -> std::borrow::Cow<'a, str> {
        String::from_utf8_lossy(self.up_to(b'\n'))
    }

    /// What is left, line by line.
    pub fn lines(self) -> impl Iterator<Item = &'a [u8]> {
        self.0.split(|&byte| byte == b'\n').filter(|line| !line.is_empty())
    }
}
