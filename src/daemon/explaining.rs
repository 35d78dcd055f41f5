//! What the policy and the answers of a session say of an attempt, for its owner. Runs as root in the daemon, on its one
//! thread; asks nobody.

use super::core::Core;
use super::endings::Ending;
use super::live::Live;
use super::orders::{Caller, Refusal};
use crate::common::bus::action;
use crate::common::id::SessionId;
use crate::common::path::RawPath;
use crate::policy::question::{Explanation, Question};
use crate::policy::{Grants, Policy};

/// Links are followed here alone: what lies there is root's.
const OF_SYSTEM: [&str; 3] = ["/usr", "/bin", "/sbin"];

impl Live {
    /// What it decides by, as far as that can be known here.
    pub(super) fn policy(&self) -> &Policy {
        self.policy.get_or_init(|| Policy::following(&self.profile, &follow))
    }
}

impl Core {
    /// As the session would decide now, for a call that nothing was answered to.
    pub fn explain_all(
        &self,
        caller: &Caller,
        id: &SessionId,
        questions: &[Question],
    ) -> Result<Vec<Explanation>, Refusal> {
        let live = self.managed(caller, id)?;
        let policy = live.policy();
        let mut grants = Grants::new();
        for held in live.view.grants.borrow().iter().filter(|held| held.grant.call.is_none()) {
            grants.add(held.grant.clone());
        }
        Ok(questions.iter().map(|question| question.explain(policy, &grants, &follow)).collect())
    }

    /// The last endings that the caller may see, the oldest first.
    pub fn endings(&self, caller: &Caller) -> Result<Vec<Ending>, Refusal> {
        caller.outside()?;
        let manages = caller.has(action::MANAGE_SESSIONS);
        Ok(self.endings.seen(|owner| owner == caller.uid || manages))
    }
}

fn follow(path: &RawPath) -> Option<RawPath> {
    let is_of_system = OF_SYSTEM.iter().any(|folder| path.is_within(&RawPath::from(*folder)));
    is_of_system.then(|| std::fs::canonicalize(path.as_path()).ok()).flatten().map(RawPath::from)
}
