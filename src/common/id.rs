//! Names of sessions, calls and requests.

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
