//! An answer to a request: what was decided, how far and how long it holds, and who said so.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::id::RequestId;

/// How long an answer holds. The order is the order of duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Lifetime {
    /// This system call.
    Attempt,
    /// "Allow once": the tool process tree that asked.
    Call,
    Session,
    /// Until a time: in every session of the same user under the same profile, as the next.
    Until,
    Persistent,
}

impl Lifetime {
    pub fn as_str(self) -> &'static str {
        match self {
            Lifetime::Attempt => "attempt",
            Lifetime::Call => "call",
            Lifetime::Session => "session",
            Lifetime::Until => "until",
            Lifetime::Persistent => "persistent",
        }
    }
}

impl fmt::Display for Lifetime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What an answer that outlives its request does from then on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    Allow,
    Deny,
}

impl Effect {
    pub fn as_str(self) -> &'static str {
        match self {
            Effect::Allow => "allow",
            Effect::Deny => "deny",
        }
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How long somebody wants an answer to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Term {
    Call,
    Session,
    For(Duration),
    Always,
}

impl Term {
    pub fn lifetime(self) -> Lifetime {
        match self {
            Term::Call => Lifetime::Call,
            Term::Session => Lifetime::Session,
            Term::For(_) => Lifetime::Until,
            Term::Always => Lifetime::Persistent,
        }
    }

    /// The time that it says.
    pub fn time(self) -> Option<Duration> {
        match self {
            Term::For(time) => Some(time),
            Term::Call | Term::Session | Term::Always => None,
        }
    }
}

/// What a profile and the ceiling let answers be, besides what a rule's `remember` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// An answer that wants to hold for longer is cut to it.
    pub longest: Lifetime,
    /// The longest time of [`Lifetime::Until`]; `None`: any.
    pub max_for: Option<Duration>,
    /// How far answers may reach.
    pub widths: Widths,
}

impl Limits {
    pub const ANY: Limits = Limits { longest: Lifetime::Persistent, max_for: None, widths: Widths::ALL };
    /// Nothing outlives its session.
    pub const SESSION: Limits = Limits { longest: Lifetime::Session, ..Limits::ANY };

    /// What holds where both do.
    pub fn within(self, other: Limits) -> Limits {
        Limits {
            longest: self.longest.min(other.longest),
            max_for: [self.max_for, other.max_for].into_iter().flatten().min(),
            widths: self.widths.within(other.widths),
        }
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits::ANY
    }
}

/// A set of widths; [`Width::Exact`] is always in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Widths(u8);

impl Widths {
    pub const ALL: Widths = Widths(u8::MAX);

    pub fn of(widths: impl IntoIterator<Item = Width>) -> Widths {
        Widths(widths.into_iter().fold(0, |set, width| set | Widths::bit(width)))
    }

    pub fn has(self, width: Width) -> bool {
        width == Width::Exact || self.0 & Widths::bit(width) != 0
    }

    pub fn within(self, other: Widths) -> Widths {
        Widths(self.0 & other.0)
    }

    const fn bit(width: Width) -> u8 {
        match width {
            Width::Exact => 1,
            Width::Directory => 1 << 1,
            Width::Tree => 1 << 2,
            Width::Prefix => 1 << 3,
            Width::Program => 1 << 4,
            Width::Host => 1 << 5,
            Width::Domain => 1 << 6,
        }
    }
}

impl Default for Widths {
    fn default() -> Widths {
        Widths::ALL
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
    /// From narrow to wide, by what they are about.
    pub const ALL: [Width; 7] =
        [Width::Exact, Width::Directory, Width::Tree, Width::Prefix, Width::Program, Width::Host, Width::Domain];

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
    /// The `policy::Grant` that the answer creates, in postcard, if it outlives its attempt; opaque here. With `Approved` it
    /// allows, with `Denied` it denies.
    pub grant: Option<Vec<u8>>,
    /// Whether whoever answered proved who they are.
    pub authenticated: bool,
    /// The consent agent and person, such as `tty:alice` or `script:answers.toml`; `policy` or `broker` where nobody was asked.
    pub by: String,
    /// The argv to execute instead, for `Edited` only.
    pub edited: Option<Vec<Vec<u8>>>,
}
