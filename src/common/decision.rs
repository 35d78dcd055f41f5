//! An answer to a request: what was decided, how far and how long it holds, and who said so.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::id::{GrantId, RequestId};

/// How long an answer holds. The order is the order of duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Lifetime {
    /// This system call.
    Attempt,
    /// "Allow once": the tool process tree that asked.
    Call,
    Session,
}

impl Lifetime {
    pub fn as_str(self) -> &'static str {
        match self {
            Lifetime::Attempt => "attempt",
            Lifetime::Call => "call",
            Lifetime::Session => "session",
        }
    }
}

impl fmt::Display for Lifetime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How far an answer reaches from the object that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
pub enum Width {
    /// The object itself; of a command: this program with this argv; of a name that is looked up: this name at any port.
    #[default]
    Exact,
    /// Everything directly in the object's directory (in the object, if it is a directory itself).
    Directory,
    /// Everything below that directory, and it.
    Tree,
    /// Of a command: the same program, with an argv that begins with the same words (`git push …`).
    Prefix,
    /// Of a command: the same program, whatever its argv. Of a connection: the same program to the same host, at any port.
    Program,
    /// Of a connection: the same host, at any port, whatever program.
    Host,
    /// Of a connection: every host of the same registered domain, at any port.
    Domain,
}

impl Width {
    pub fn as_str(self) -> &'static str {
        match self {
            Width::Exact => "exact",
            Width::Directory => "directory",
            Width::Tree => "tree",
            Width::Prefix => "prefix",
            Width::Program => "program",
            Width::Host => "host",
            Width::Domain => "domain",
        }
    }
}

impl fmt::Display for Width {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a request ended as it did; the `result` of an audit record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Somebody said yes.
    Approved,
    /// Somebody said no.
    Denied,
    /// Nobody answered in time.
    Timeout,
    /// Policy forbids it, or nobody could be asked.
    NotPermitted,
    /// An earlier answer covers it.
    Granted,
    /// Policy allows it, and it is worth a record.
    Allowed,
    /// The process was gone, or turned to a signal, before an answer.
    Cancelled,
    /// Somebody wrote another command in its place: this one is not executed, that one is judged anew.
    Edited,
}

impl Outcome {
    /// Whether the attempt may be performed.
    pub fn permits(self) -> bool {
        matches!(self, Outcome::Approved | Outcome::Granted | Outcome::Allowed)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Outcome::Approved => "approved",
            Outcome::Denied => "denied",
            Outcome::Timeout => "timeout",
            Outcome::NotPermitted => "not_permitted",
            Outcome::Granted => "granted",
            Outcome::Allowed => "allowed",
            Outcome::Cancelled => "cancelled",
            Outcome::Edited => "edited",
        }
    }
}

/// What the broker tells the supervisor. Anything but `Approved` performs nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    pub request: RequestId,
    pub outcome: Outcome,
    /// Meaningful for `Approved` only.
    pub lifetime: Lifetime,
    pub width: Width,
    /// The name of the grant that the answer creates, if it outlives its attempt.
    pub grant: Option<GrantId>,
    /// Whether whoever answered proved who they are.
    pub authenticated: bool,
    /// The consent agent and person, such as `tty:alice` or `script:answers.toml`; `policy` or `broker` where nobody was asked.
    pub by: String,
    /// The argv to execute instead, for `Edited` only.
    pub edited: Option<Vec<Vec<u8>>>,
}
