//! Names of sessions, calls, requests and grants, and the secret by which a supervisor is known again.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A session: 8 random lower-case hexadecimal digits, unique on the machine while it lives.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SessionId(pub String);

/// A call, numbered from 1 within its session in the order of first sight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CallId(pub u32);

/// A request: 128 random bits, so that an answer cannot be guessed, and never used twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RequestId(pub u128);

/// An answer that lasts, as whoever revokes it names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GrantId(pub u64);

/// What proves that a supervisor which comes back is the one that was started: 128 random bits, known to it and to the daemon.
#[derive(Clone, Serialize, Deserialize)]
pub struct Token(pub [u8; 16]);

/// Random bits could not be had from getrandom(2).
#[derive(Debug, thiserror::Error)]
#[error("getrandom(2) failed: {0}")]
pub struct NoRandomness(getrandom::Error);

impl SessionId {
    pub fn random() -> Result<SessionId, NoRandomness> {
        getrandom::u32().map(|bits| SessionId(format!("{bits:08x}"))).map_err(NoRandomness)
    }
}

impl RequestId {
    pub fn random() -> Result<RequestId, NoRandomness> {
        let (high, low) = (getrandom::u64().map_err(NoRandomness)?, getrandom::u64().map_err(NoRandomness)?);
        Ok(RequestId(u128::from(high) << 64 | u128::from(low)))
    }
}

impl GrantId {
    pub fn random() -> Result<GrantId, NoRandomness> {
        getrandom::u64().map(GrantId).map_err(NoRandomness)
    }
}

impl Token {
    pub fn random() -> Result<Token, NoRandomness> {
        let mut bits = [0; 16];
        getrandom::fill(&mut bits).map_err(NoRandomness)?;
        Ok(Token(bits))
    }
}

/// In the same time wherever two differ.
impl PartialEq for Token {
    fn eq(&self, other: &Token) -> bool {
        let differing = self.0.iter().zip(&other.0).fold(0, |seen, (a, b)| seen | (a ^ b));
        std::hint::black_box(differing) == 0
    }
}

impl Eq for Token {}

/// Nothing of it.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// 16 hexadecimal digits.
impl fmt::Display for GrantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
