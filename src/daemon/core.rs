//! What the daemon knows and does, on one thread: sessions, who is asked, what was granted. Runs as root; its callers are
//! whoever is on the bus, identified by [`super::bus`], and what they may is decided here.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tracing::{info, warn};

use super::agents::{Agents, Reach, Speaker, TooMany};
use super::audit::Audit;
use super::endings::Endings;
use super::engine::Engine;
use super::install::Machine;
use super::live::{Live, State};
use super::message;
use super::notices::Whom;
use super::orders::{Caller, Refusal};
use super::pending::{MOST_OF_A_USER, Quota};
use super::policyfiles::Snapshot;
use super::rendezvous::Rendezvous;
use super::state::Shelf;
use super::statistics::Statistics;
use super::store::Store;
use super::users::{self};
use super::view::View;
use super::watchers::{Sight, Watchers};
use crate::common::access::{Access, Level};
use crate::common::bus::action;
use crate::common::id::{CallId, GrantId, RequestId, SessionId};
use crate::common::notice::Notice;
use crate::common::path::RawPath;
use crate::common::request::RuleRef;
use crate::policy::sockets::Services;
use crate::policy::{Grants, Policy, PolicyError, Source};

/// Objects on the bus that come and go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    SessionAdded(SessionId),
    SessionRemoved(SessionId),
    /// With the unique names of those who are told.
    RequestAdded(u64, Vec<String>),
    RequestRemoved(u64, Vec<String>),
}

/// A waiting request's number on the bus, its session, and who was told of it.
pub(super) type Numbered = (u64, SessionId, Vec<String>);

/// What is fixed while the daemon runs.
pub struct Setting {
    pub engine: Rc<dyn Engine>,
    pub rendezvous: Rc<Rendezvous>,
    pub audit: Arc<dyn Audit>,
    pub shelf: Shelf,
    /// Answers that outlive their sessions.
    pub store: Store,
    /// Where supervisors find the daemon again.
    pub socket: PathBuf,
    /// How long a request waits for somebody who could be asked: [`super::agents::NOBODY_YET`].
    pub nobody_yet: Duration,
    /// Files and directories of gated's own that no session may change.
    pub own: Vec<RawPath>,
    /// Where policy is installed.
    pub machine: Machine,
    /// Reads policy anew.
    pub read_policy: Box<dyn Fn() -> Result<Snapshot, PolicyError>>,
}

/// See the module.
pub struct Core {
    pub setting: Setting,
    pub policy: RefCell<Arc<Snapshot>>,
    pub agents: Rc<Agents>,
    pub watchers: Rc<Watchers>,
    pub statistics: Statistics,
    /// The file that they are written to for monitoring.
    pub(super) metrics: RefCell<Option<PathBuf>>,
    pub(super) endings: Rc<Endings>,
    pub sessions: RefCell<BTreeMap<SessionId, Rc<Live>>>,
    pub(super) requests: RefCell<BTreeMap<RequestId, Numbered>>,
    /// Those that waited, the oldest first. Who knows such an id was shown it.
    pub(super) over: RefCell<VecDeque<RequestId>>,
    /// Sessions that are being started, by their user.
    pub(super) starting: RefCell<BTreeMap<u32, usize>>,
    pub(super) next_request: Cell<u64>,
    /// Whose turn it is to give an answer that nobody asked for, by user.
    pub(super) turns: RefCell<BTreeMap<u32, Weak<tokio::sync::Mutex<()>>>>,
    /// Places for requests that wait, by user.
    quotas: RefCell<BTreeMap<u32, Weak<Quota>>>,
    changes: RefCell<Option<mpsc::UnboundedSender<Change>>>,
}

impl Core {
    pub fn new(mut setting: Setting) -> Result<Rc<Core>, PolicyError> {
        let policy = (setting.read_policy)()?;
        let statistics = Statistics::default();
        setting.audit = statistics.watch(setting.audit);
        Ok(Rc::new(Core {
            setting,
            policy: RefCell::new(Arc::new(policy)),
            agents: Rc::default(),
            watchers: Rc::default(),
            statistics,
            metrics: RefCell::default(),
            endings: Rc::default(),
            sessions: RefCell::default(),
            requests: RefCell::default(),
            over: RefCell::default(),
            starting: RefCell::default(),
            next_request: Cell::new(1),
            turns: RefCell::default(),
            quotas: RefCell::default(),
            changes: RefCell::default(),
        }))
    }

    /// Where changes of what is on the bus go from now on; what is there is told first. Nobody is an agent any more.
    pub fn report_to(&self, changes: mpsc::UnboundedSender<Change>) {
        self.agents.clear();
        *self.changes.borrow_mut() = Some(changes);
        for id in self.sessions.borrow().keys() {
            self.report(Change::SessionAdded(id.clone()));
        }
        for (number, _, told) in self.requests.borrow_mut().values_mut() {
            told.clear();
            self.report(Change::RequestAdded(*number, Vec::new()));
        }
    }

    pub(super) fn report(&self, change: Change) {
        if let Some(changes) = self.changes.borrow().as_ref() {
            // A bus that is gone is told everything when it is back.
            let _ = changes.send(change);
        }
    }

    /// Policy anew; what is broken leaves the last good one in force.
    pub async fn reload(&self, caller: &Caller) -> Result<(), Refusal> {
        caller.outside()?;
        if !caller.has(action::EDIT_POLICY) {
            return Err(Refusal::Needs(action::EDIT_POLICY));
        }
        Ok(self.reread().await?)
    }

    /// The same for whoever need not be asked. Sessions that run keep their profile; what is answered in them is held against
    /// the new ceiling once this returns.
    pub async fn reread(&self) -> Result<(), PolicyError> {
        let snapshot = match (self.setting.read_policy)() {
            Ok(snapshot) => snapshot,
            Err(error) => {
                warn!(MESSAGE_ID = message::RELOAD_FAILED, GATED_ERROR = %error, "policy is broken; the last good one stays in force");
                self.agents.notice(Whom::Admins, Notice::policy(error.to_string()));
                return Err(error);
            }
        };
        *self.policy.borrow_mut() = Arc::new(snapshot);
        self.impose_on_all().await;
        info!(MESSAGE_ID = message::RELOADED, "policy is read again");
        Ok(())
    }

    /// The sessions that a caller may see.
    pub fn visible(&self, caller: &Caller) -> Vec<Rc<Live>> {
        if caller.is_inside {
            return Vec::new();
        }
        let sees = |live: &&Rc<Live>| live.owner() == caller.uid || caller.has(action::MANAGE_SESSIONS);
        self.sessions.borrow().values().filter(sees).cloned().collect()
    }

    /// A session that the caller may manage.
    pub fn managed(&self, caller: &Caller, id: &SessionId) -> Result<Rc<Live>, Refusal> {
        caller.outside()?;
        let live = self.sessions.borrow().get(id).cloned().ok_or(Refusal::NoSession)?;
        match live.owner() == caller.uid || caller.has(action::MANAGE_SESSIONS) {
            true => Ok(live),
            false => Err(Refusal::Needs(action::MANAGE_SESSIONS)),
        }
    }

    pub fn stop(&self, caller: &Caller, id: &SessionId) -> Result<(), Refusal> {
        let live = self.managed(caller, id)?;
        info!(GATED_SESSION = %id, by = caller.uid, "stopped");
        live.stop.notify_one();
        Ok(())
    }

    /// Register the caller's connection as a consent agent.
    pub async fn register(
        &self,
        caller: &Caller,
        kind: &str,
        session: Option<SessionId>,
        reach: Rc<dyn Reach>,
    ) -> Result<(), Refusal> {
        caller.outside()?;
        let speaker = self.speaker(caller, kind).await?;
        let (by, user) = (speaker.by.clone(), speaker.name.clone());
        if let Some(id) = &session
            && !self.sessions.borrow().contains_key(id)
        {
            return Err(Refusal::NoSession);
        }
        self.agents.register(&caller.sender, speaker, session, reach).map_err(|TooMany| Refusal::TooMany)?;
        self.tell_of_ends(&caller.sender);
        info!(
            MESSAGE_ID = message::AGENT_REGISTERED,
            GATED_AGENT = by,
            GATED_USER = user,
            "a consent agent is registered"
        );
        Ok(())
    }

    pub(super) async fn speaker(&self, caller: &Caller, kind: &str) -> Result<Speaker, Refusal> {
        let known = users::by_uid(caller.uid).await?;
        let name = known.identity.name;
        Ok(Speaker { uid: caller.uid, by: format!("{kind}:{name}"), name, groups: known.groups })
    }

    /// The connection is gone, or wants to be asked no more.
    pub fn unregister(&self, sender: &str) {
        if let Some(speaker) = self.agents.remove(sender) {
            info!(
                MESSAGE_ID = message::AGENT_GONE,
                GATED_AGENT = speaker.by,
                GATED_USER = speaker.name,
                "a consent agent is gone"
            );
        }
    }

    /// What policy and grants of a session say.
    pub fn explain(
        &self,
        caller: &Caller,
        id: &SessionId,
        access: Access,
        object: &RawPath,
    ) -> Result<(Level, RuleRef, Option<GrantId>), Refusal> {
        let live = self.managed(caller, id)?;
        let policy = Policy::new(&live.profile);
        let mut grants = Grants::new();
        for held in live.view.grants.borrow().iter().filter(|held| held.grant.call.is_none()) {
            grants.add(held.grant.clone());
        }
        let call = CallId(1);
        let verdict = match access {
            Access::Unix => {
                let services = Services::new(&live.profile.home, live.owner(), None);
                policy.decide_unix(object, services.of(object), call, &grants)
            }
            // Of hosts, no path says anything.
            Access::Connect | Access::Bind => return Err(Refusal::Invalid("object")),
            Access::Read | Access::Write | Access::Exec => policy.decide(access, object, call, &grants),
        };
        let grant = match verdict.source {
            Source::Grant(at) => grants.get(at).map(|grant| grant.id),
            _ => None,
        };
        Ok((verdict.level, policy.rule(&verdict), grant))
    }

    pub fn watch(&self, caller: &Caller, session: Option<&SessionId>, all: bool) -> Result<OwnedFd, Refusal> {
        caller.outside()?;
        let sight = match session {
            Some(id) => Sight::Session(self.managed(caller, id)?.id().clone()),
            None if all && !caller.has(action::MANAGE_SESSIONS) => return Err(Refusal::Needs(action::MANAGE_SESSIONS)),
            None if all => Sight::All,
            None => Sight::Of(caller.uid),
        };
        self.watchers.add(sight, caller.uid).map_err(|_| Refusal::TooMany)
    }

    /// A session is over.
    pub(super) fn forget(self: &Rc<Self>, live: &Rc<Live>) {
        live.is_over.set(true);
        self.sessions.borrow_mut().remove(live.id());
        if let Err(error) = self.setting.shelf.forget(live.id()) {
            warn!(%error, "a session's state stays behind");
        }
        self.pending_changed(live.id());
        self.watchers.end(live.id());
        self.report(Change::SessionRemoved(live.id().clone()));
    }

    /// The places for what waits in all sessions of a user.
    pub(super) fn quota_of(&self, uid: u32) -> Rc<Quota> {
        let mut quotas = self.quotas.borrow_mut();
        quotas.retain(|_, quota| quota.strong_count() > 0);
        let known = quotas.get(&uid).and_then(Weak::upgrade);
        known.unwrap_or_else(|| {
            let quota = Quota::new(MOST_OF_A_USER);
            quotas.insert(uid, Rc::downgrade(&quota));
            quota
        })
    }

    pub(super) fn view_for(self: &Rc<Self>, id: &SessionId) -> Rc<View> {
        let (core, id) = (Rc::downgrade(self), id.clone());
        Rc::new(View::new(move || {
            if let Some(core) = core.upgrade() {
                core.pending_changed(&id);
            }
        }))
    }

    /// Sessions that are lost.
    pub fn lost(&self) -> usize {
        self.sessions.borrow().values().filter(|live| live.state.get() == State::Lost).count()
    }
}

/// Microseconds of CLOCK_REALTIME.
pub fn now_micros() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_micros()).unwrap_or(u64::MAX)
}
