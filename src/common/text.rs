//! Text that came from a tool, and what of it may be shown.

use serde::{Deserialize, Serialize};

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
