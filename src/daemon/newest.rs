//! The newest ceiling over sessions that began under an older one. They keep the profile that they began with, and its
//! ceiling at every use; what is answered from now on has to be within the newest one as well. Runs as root in the daemon.

use std::rc::Rc;
use std::sync::Arc;

use tracing::{error, warn};

use super::broker::Control;
use super::core::Core;
use super::live::Live;
use super::pending::{BY_BROKER, Settled};
use super::users;
use crate::common::access::Level;
use crate::common::decision::{Lifetime, Limits, Outcome};
use crate::policy::meeting::is_kept_from;
use crate::policy::model::Rule;
use crate::policy::{Context, Grant, Policy, Profile, floors};

/// A ceiling that is newer than a session.
#[derive(Clone, Debug)]
pub struct Newest {
    /// Its floors, and nothing else.
    pub floors: Box<Profile>,
    /// Those of them that the session does not hold by itself at every use.
    pub fresh: Rc<[Rule]>,
    /// What answers in this session may be from now on.
    pub limits: Limits,
}

/// What answers have to be within. Without one there is only the session's own.
#[derive(Debug, Default)]
pub(super) struct Floors {
    policy: Option<Policy>,
    fresh: Rc<[Rule]>,
}

impl Floors {
    pub fn replace(&mut self, newest: &Newest) {
        // Where nothing is said, nothing has to be held against it.
        self.policy = (!newest.floors.rules.is_empty()).then(|| Policy::new(&newest.floors));
        self.fresh = Rc::clone(&newest.fresh);
    }

    /// Whether the supervisor, which knows the session's own ceiling alone, may have this grant.
    pub fn lets(&self, grant: &Grant) -> bool {
        !is_kept_from(grant, &self.fresh)
    }

    /// A yes that they do not let stand is none, and one that reaches into what they speak of is for the attempt alone.
    pub fn uphold(&self, settled: Settled) -> Settled {
        let settled = self.hold_up(settled);
        match settled.grant.as_ref().is_none_or(|grant| self.lets(grant)) {
            true => settled,
            false => Settled { lifetime: Lifetime::Attempt, grant: None, ..settled },
        }
    }

    fn hold_up(&self, settled: Settled) -> Settled {
        let Some(policy) = self.policy.as_ref().filter(|_| settled.outcome.permits()) else { return settled };
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

impl Live {
    /// What answers may be now.
    pub(super) fn limits(&self) -> Limits {
        let newest = self.newest.borrow();
        newest.as_ref().map_or_else(|| self.profile.grants.limits(), |newest| newest.limits)
    }

    /// Whether a newer ceiling than the session's own lets it have this grant.
    pub(super) fn lets(&self, grant: &Grant) -> bool {
        self.newest.borrow().as_ref().is_none_or(|newest| !is_kept_from(grant, &newest.fresh))
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
        let policy = Arc::clone(&self.policy.borrow());
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
        let unplaced = |rule: &Rule| Rule { file: String::new(), line: 0, ..rule.clone() };
        let own: Vec<Rule> = live.profile.rules.iter().filter(|rule| rule.is_ceiling).map(unplaced).collect();
        let fresh = floors.rules.iter().filter(|rule| !own.contains(&unplaced(rule))).cloned().collect();
        let limits = live.profile.grants.limits().within(policy.ceiling().limits());
        let newest = Newest { floors: Box::new(floors), fresh, limits };
        *live.newest.borrow_mut() = Some(newest.clone());
        // A session that is over needs none.
        let _ = live.control.send(Control::Ceiling(newest));
    }
}
