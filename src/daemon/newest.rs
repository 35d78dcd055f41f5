//! The newest ceiling over sessions that began under an older one. They keep the profile that they began with, and its
//! ceiling at every use; what is answered from now on has to be within the newest one as well. Runs as root in the daemon.

use std::rc::Rc;

use tracing::{error, warn};

use super::broker::Control;
use super::core::Core;
use super::live::Live;
use super::pending::{BY_BROKER, Settled};
use super::users;
use crate::common::access::Level;
use crate::common::decision::{Lifetime, Limits, Outcome};
use crate::policy::model::GrantLimits;
use crate::policy::{Context, Policy, Profile, floors};

/// A ceiling that is newer than a session.
#[derive(Clone, Debug)]
pub struct Newest {
    /// Its floors, and nothing else.
    pub floors: Box<Profile>,
    /// What answers in this session may be from now on.
    pub limits: Limits,
}

/// What answers have to be within. Without one there is only the session's own.
#[derive(Debug, Default)]
pub(super) struct Floors(Option<Policy>);

impl Floors {
    pub fn replace(&mut self, floors: &Profile) {
        // Where nothing is said, nothing has to be held against it.
        self.0 = (!floors.rules.is_empty()).then(|| Policy::new(floors));
    }

    /// A yes that they do not let stand is none.
    pub fn uphold(&self, settled: Settled) -> Settled {
        let Some(policy) = self.0.as_ref().filter(|_| settled.outcome.permits()) else { return settled };
        match floors::level_on(policy, &settled.request) {
            Level::Allow | Level::Notify | Level::Ask => settled,
            Level::Authenticate if settled.authenticated => settled,
            Level::Authenticate | Level::Deny => Settled {
                outcome: Outcome::NotPermitted,
                lifetime: Lifetime::Attempt,
                grant: None,
                by: BY_BROKER.to_owned(),
                ..settled
            },
        }
    }
}

impl Core {
    /// Has all sessions' answers held against the ceiling that was just read. Returns when that is so.
    pub(super) async fn impose_on_all(&self) {
        let all: Vec<Rc<Live>> = self.sessions.borrow().values().cloned().collect();
        for live in all {
            self.impose(&live).await;
        }
    }

    /// The same for one session, perhaps one of a daemon before this one.
    pub(super) async fn impose(&self, live: &Live) {
        let groups = match users::by_uid(live.owner()).await {
            Ok(known) => Some(known.groups),
            Err(error) => {
                warn!(GATED_SESSION = %live.id(), %error, "the groups of a session's user are not known: taken for all");
                None
            }
        };
        let policy = Rc::clone(&self.policy.borrow());
        let (name, cwd) = (live.kept.user.name.clone(), live.kept.directory.clone());
        let context = Context { home: live.profile.home.clone(), user: name, cwd };
        let floors = match policy.ceiling().alone(&context, groups.as_ref()) {
            Ok(floors) => floors,
            Err(error) => {
                error!(GATED_SESSION = %live.id(), %error, "the ceiling does not fit a session, which is ended");
                live.stop.notify_one();
                return;
            }
        };
        let limits = GrantLimits { ceiling: policy.ceiling().limits(), ..live.profile.grants }.limits();
        // A session that is over needs none.
        let _ = live.control.send(Control::Ceiling(Newest { floors: Box::new(floors), limits }));
    }
}
