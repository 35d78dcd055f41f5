//! What callers of the daemon's core bring, and what they get. Whoever calls is identified by [`super::bus`].

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use super::state::StateError;
use super::store::StoreError;
use super::users::UserError;
use crate::common::id::{NoRandomness, SessionId};
use crate::common::path::RawPath;
use crate::common::wire::Start;
use crate::policy::PolicyError;
use crate::policy::publish::Unpublished;
use crate::policy::select::SelectError;
use crate::policy::unasked::Refused;

/// Who calls.
#[derive(Clone, Debug)]
pub struct Caller {
    pub uid: u32,
    /// The unique name on the bus.
    pub sender: String,
    /// Whether it is a process of a session.
    pub is_inside: bool,
    /// The system's unit that it is part of.
    pub unit: Option<String>,
    /// What polkit said yes to, for this one call.
    pub elevated: BTreeSet<&'static str>,
}

impl Caller {
    pub(super) fn is_root(&self) -> bool {
        self.uid == 0 && !self.is_inside
    }

    pub(super) fn has(&self, action: &'static str) -> bool {
        self.is_root() || self.elevated.contains(action)
    }

    pub(super) fn outside(&self) -> Result<(), Refusal> {
        if self.is_inside { Err(Refusal::Inside) } else { Ok(()) }
    }
}

/// Why a caller does not get what it wants.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    #[error("a process of a session may not")]
    Inside,
    /// Perhaps after an administrator, or the person, has proved who they are.
    #[error("needs the authorization {0}")]
    Needs(&'static str),
    #[error("not for this user")]
    NotAuthorized,
    #[error("may_run does not name this user")]
    MayNotRun,
    #[error(
        "{0} is a profile of your own, which the administrator's ceiling.toml does not let sessions have: \
         may_write_profiles = false"
    )]
    OwnProfile(String),
    #[error(
        "to learn is to write a profile of one's own, which the administrator's ceiling.toml does not let you do: \
         may_write_profiles = false"
    )]
    MayNotLearn,
    #[error(transparent)]
    Selection(#[from] SelectError),
    #[error("there is no such session")]
    NoSession,
    #[error("there is no such request")]
    NoRequest,
    #[error("it was decided already")]
    Decided,
    #[error("there is no such grant")]
    NoGrant,
    #[error("{0}")]
    Invalid(&'static str),
    #[error("too many")]
    TooMany,
    #[error(transparent)]
    Policy(#[from] PolicyError),
    #[error(transparent)]
    Unpublished(#[from] Unpublished),
    #[error("{0}")]
    Session(String),
    #[error(transparent)]
    User(#[from] UserError),
    #[error(transparent)]
    State(#[from] StateError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Unasked(#[from] Refused),
    #[error(transparent)]
    Randomness(#[from] NoRandomness),
}

/// What a session is opened with.
#[derive(Clone, Debug, Default)]
pub struct Opening {
    /// Without one it is found by what matches.
    pub profile: Option<String>,
    /// The paths that the program goes by, with links followed and without.
    pub program: Vec<RawPath>,
    pub directory: RawPath,
    /// The caller's home as it is, with links followed; the supervisor checks it.
    pub home: Option<RawPath>,
    /// The caller's own profile files by name.
    pub profiles: BTreeMap<String, String>,
    /// Whom the tool runs as, for root.
    pub user: Option<String>,
    /// Addresses of the host at which the session may be reached.
    pub publish: Vec<SocketAddr>,
    /// Where the caller's ssh agent listens.
    pub ssh_agent: Option<RawPath>,
    /// Whether what would be asked is allowed and recorded, within the ceiling.
    pub learn: bool,
}

/// A command for a session.
pub struct Order {
    pub start: Start,
    /// The caller's link, cwd, stdin, stdout, stderr, and those of [`Start::passed`].
    pub fds: Vec<OwnedFd>,
    pub into: Into,
    pub events: bool,
}

/// Where a command runs.
pub enum Into {
    Session(SessionId),
    New(Opening),
}

/// What became of an order.
pub struct Ran {
    pub session: SessionId,
    pub events: Option<OwnedFd>,
    /// What the profile names that this version does not hold.
    pub notes: Vec<String>,
    /// Which profile was chosen, and by what, where it is not everybody's.
    pub chosen: Option<String>,
}
