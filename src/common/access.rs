//! Accesses and levels: what is wanted, and how freely it is given.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The kind of right that one attempt wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Access {
    Read,
    /// Every change of a file or directory, its metadata included.
    Write,
    Exec,
    Connect,
    Bind,
    Unix,
}

impl Access {
    pub const ALL: [Access; 6] =
        [Access::Read, Access::Write, Access::Exec, Access::Connect, Access::Bind, Access::Unix];

    /// The word of the policy language.
    pub fn as_str(self) -> &'static str {
        match self {
            Access::Read => "read",
            Access::Write => "write",
            Access::Exec => "exec",
            Access::Connect => "connect",
            Access::Bind => "bind",
            Access::Unix => "unix",
        }
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How freely an access is given; the order is the order of strictness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    Allow,
    /// Performed at once, and told.
    Notify,
    /// Held until a person answers.
    Ask,
    /// Held until a person answers and proves who they are.
    Authenticate,
    Deny,
}

impl Level {
    /// The word of the policy language.
    pub fn as_str(self) -> &'static str {
        match self {
            Level::Allow => "allow",
            Level::Notify => "notify",
            Level::Ask => "ask",
            Level::Authenticate => "authenticate",
            Level::Deny => "deny",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
