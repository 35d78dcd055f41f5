//! What somebody is to hear of and nobody is asked about. Pure data; the daemon makes it, consent agents show it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::access::Access;
use super::id::SessionId;
use super::request::Operation;

/// What it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A rule of level `notify` let it happen.
    Notify,
    /// It was denied so often that it is denied without a question for a while.
    Muted,
    /// The policy is not what its files say.
    Policy,
}

impl Kind {
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Notify => "notify",
            Kind::Muted => "muted",
            Kind::Policy => "policy",
        }
    }
}

/// What a tool did or wants, in the notation of [`super::text`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deed {
    pub program: String,
    pub access: Access,
    pub operation: Operation,
    pub object: String,
}

/// One notice, which may stand for several of its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    pub kind: Kind,
    /// Whose it is; none of [`Kind::Policy`].
    pub session: Option<SessionId>,
    /// The last one.
    pub deed: Option<Deed>,
    /// How many it stands for, this one included.
    pub count: u32,
    /// For how long, where it is for a time.
    pub time: Option<Duration>,
    /// What there is to say besides, such as where a policy file is wrong.
    pub text: String,
}

impl Notice {
    pub fn of(kind: Kind, session: &SessionId, deed: Deed) -> Notice {
        Notice { kind, session: Some(session.clone()), deed: Some(deed), count: 1, time: None, text: String::new() }
    }

    /// The policy could not be read anew.
    pub fn policy(text: String) -> Notice {
        Notice { kind: Kind::Policy, session: None, deed: None, count: 1, time: None, text }
    }
}
