//! What the daemon knows and does, on one thread: sessions, who is asked, what was granted. Runs as root; its callers are
//! whoever is on the bus, identified by [`super::bus`], and what they may is decided here.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tracing::{info, warn};

use super::agents::{Agents, Reach, Speaker, TooMany};
use super::audit::Audit;
use super::broker::{Control, Spoken};
use super::engine::Engine;
use super::link::Outgoing;
use super::live::{Live, State};
use super::message;
use super::pending::AnswerError;
use super::policyfiles::Snapshot;
use super::record;
use super::rendezvous::Rendezvous;
use super::state::{Kept, Shelf, StateError};
use super::users::{self, Known, UserError};
use super::view::{Held, View};
use super::watchers::{Sight, Watchers};
use crate::common::access::{Access, Level};
use crate::common::bus::action;
use crate::common::consent::{Answer, Prompt};
use crate::common::id::{GrantId, NoRandomness, RequestId, SessionId, Token};
use crate::common::path::RawPath;
use crate::common::request::RuleRef;
use crate::common::wire::{Ends, Start, ToSession};
use crate::policy::{Context, Grants, Policy, PolicyError, ProfileSelector, Source};

/// The profile of who names none.
const DEFAULT_PROFILE: &str = "coder";

/// Sessions of one user at the most, but for root.
const MOST_OF_A_USER: usize = 256;

/// Requests that wait no more and are remembered, to tell a second answer from an invented one.
const MOST_OVER: usize = 1024;

/// Who calls.
#[derive(Clone, Debug)]
pub struct Caller {
    pub uid: u32,
    /// The unique name on the bus.
    pub sender: String,
    /// Whether it is a process of a session.
    pub is_inside: bool,
    /// What polkit said yes to, for this one call.
    pub elevated: BTreeSet<&'static str>,
}

impl Caller {
    fn is_root(&self) -> bool {
        self.uid == 0 && !self.is_inside
    }

    fn has(&self, action: &'static str) -> bool {
        self.is_root() || self.elevated.contains(action)
    }

    fn outside(&self) -> Result<(), Refusal> {
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
    #[error("{0}")]
    Session(String),
    #[error(transparent)]
    User(#[from] UserError),
    #[error(transparent)]
    State(#[from] StateError),
    #[error(transparent)]
    Randomness(#[from] NoRandomness),
}

/// What a session is opened with.
#[derive(Clone, Debug, Default)]
pub struct Opening {
    pub profile: Option<String>,
    pub directory: RawPath,
    /// The caller's home as it is, with links followed; the supervisor checks it.
    pub home: Option<RawPath>,
    /// The caller's own profile files by name.
    pub profiles: BTreeMap<String, String>,
    /// Whom the tool runs as, for root.
    pub user: Option<String>,
}

/// A command for a session.
pub struct Order {
    pub start: Start,
    /// The caller's link, cwd, stdin, stdout, stderr.
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
}

/// Objects on the bus that come and go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    SessionAdded(SessionId),
    SessionRemoved(SessionId),
    /// With the unique names of those who are told.
    RequestAdded(u64, Vec<String>),
    RequestRemoved(u64, Vec<String>),
}

/// A waiting request as it is known on the bus.
#[derive(Clone)]
pub struct Waiting {
    pub session: Rc<Live>,
    pub prompt: Prompt,
}

/// A waiting request's number on the bus, its session, and who was told of it.
type Numbered = (u64, SessionId, Vec<String>);

/// What is fixed while the daemon runs.
pub struct Setting {
    pub engine: Rc<dyn Engine>,
    pub rendezvous: Rc<Rendezvous>,
    pub audit: Arc<dyn Audit>,
    pub shelf: Shelf,
    /// Where supervisors find the daemon again.
    pub socket: PathBuf,
    /// How long a request waits for somebody who could be asked: [`super::agents::NOBODY_YET`].
    pub nobody_yet: Duration,
    /// Files and directories of gated's own that no session may change.
    pub own: Vec<RawPath>,
    /// Reads policy anew.
    pub read_policy: Box<dyn Fn() -> Result<Snapshot, PolicyError>>,
}

/// See the module.
pub struct Core {
    pub setting: Setting,
    pub policy: RefCell<Rc<Snapshot>>,
    pub agents: Rc<Agents>,
    pub watchers: Rc<Watchers>,
    pub sessions: RefCell<BTreeMap<SessionId, Rc<Live>>>,
    requests: RefCell<BTreeMap<RequestId, Numbered>>,
    /// Those that waited, the oldest first. Who knows such an id was shown it.
    over: RefCell<VecDeque<RequestId>>,
    /// Sessions that are being started, by their user.
    starting: RefCell<BTreeMap<u32, usize>>,
    next_request: Cell<u64>,
    changes: RefCell<Option<mpsc::UnboundedSender<Change>>>,
}

impl Core {
    pub fn new(setting: Setting) -> Result<Rc<Core>, PolicyError> {
        let policy = (setting.read_policy)()?;
        Ok(Rc::new(Core {
            setting,
            policy: RefCell::new(Rc::new(policy)),
            agents: Rc::default(),
            watchers: Rc::default(),
            sessions: RefCell::default(),
            requests: RefCell::default(),
            over: RefCell::default(),
            starting: RefCell::default(),
            next_request: Cell::new(1),
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
    pub fn reload(&self, caller: &Caller) -> Result<(), Refusal> {
        caller.outside()?;
        if !caller.has(action::EDIT_POLICY) {
            return Err(Refusal::Needs(action::EDIT_POLICY));
        }
        Ok(self.reread()?)
    }

    pub fn reread(&self) -> Result<(), PolicyError> {
        let snapshot = (self.setting.read_policy)()?;
        *self.policy.borrow_mut() = Rc::new(snapshot);
        Ok(())
    }

    /// A session that waits for calls until it is stopped.
    pub async fn open_session(self: &Rc<Self>, caller: &Caller, opening: Opening) -> Result<SessionId, Refusal> {
        caller.outside()?;
        let live = self.open(caller, opening, Ends::WhenStopped).await?;
        Ok(live.id().clone())
    }

    /// A command, in a session of its own or in one that runs.
    pub async fn run(self: &Rc<Self>, caller: &Caller, order: Order) -> Result<Ran, Refusal> {
        caller.outside()?;
        let is_new = matches!(order.into, Into::New(_));
        let live = match order.into {
            Into::Session(id) => {
                let live = self.sessions.borrow().get(&id).cloned().ok_or(Refusal::NoSession)?;
                // What runs in a session runs as its user, with what that user was granted.
                if live.owner() != caller.uid && !caller.is_root() {
                    return Err(Refusal::NoSession);
                }
                live
            }
            Into::New(opening) => self.open(caller, opening, Ends::WithFirstCall).await?,
        };
        let ordered = self.order(&live, order.start, order.fds, order.events.then_some(caller.uid)).await;
        if ordered.is_err() && is_new {
            // It would wait for its first call for ever.
            live.stop.notify_one();
        }
        ordered
    }

    async fn order(
        &self,
        live: &Rc<Live>,
        start: Start,
        fds: Vec<OwnedFd>,
        reader: Option<u32>,
    ) -> Result<Ran, Refusal> {
        let sight = Sight::Session(live.id().clone());
        let watch = |uid| self.watchers.add(sight, uid).map_err(|_| Refusal::TooMany);
        let events = reader.map(watch).transpose()?;
        let starts = live.starts.borrow().clone().ok_or(Refusal::NoSession)?;
        let outgoing = Outgoing { message: ToSession::Start(Box::new(start)), fds };
        starts.send(outgoing).await.map_err(|_| Refusal::NoSession)?;
        Ok(Ran { session: live.id().clone(), events, notes: live.profile.notes.clone() })
    }

    async fn open(self: &Rc<Self>, caller: &Caller, opening: Opening, ends: Ends) -> Result<Rc<Live>, Refusal> {
        let known = self.user_of(caller, opening.user).await?;
        let policy = Rc::clone(&self.policy.borrow());
        if known.identity.uid != 0 && !policy.may_run(&known.identity.name, &known.groups) {
            return Err(Refusal::MayNotRun);
        }
        let _starting = Starting::new(self, known.identity.uid)?;
        let home = opening.home.clone().unwrap_or_else(|| known.identity.home.clone());
        let context = Context { home: home.clone(), user: known.identity.name.clone(), cwd: opening.directory.clone() };
        let name = opening.profile.unwrap_or_else(|| DEFAULT_PROFILE.to_owned());
        let selector = match name.starts_with('/') {
            // Of those that came with the call; no file is opened.
            true => ProfileSelector::File(PathBuf::from(&name)),
            false => ProfileSelector::Name(name.clone()),
        };
        let mut profile = policy.load(selector, &opening.profiles, &context)?;
        if name.starts_with('/') {
            profile.protect(RawPath::from(PathBuf::from(name)));
        }
        for path in &self.setting.own {
            profile.protect(path.clone());
        }
        let kept = Kept {
            session: self.new_id()?,
            user: known.identity,
            token: Token::random()?,
            profile: profile.encode(),
            directory: opening.directory,
            started: now_micros(),
            unit: None,
            process: None,
        };
        self.launch(kept, profile, opening.home, ends).await
    }

    fn new_id(&self) -> Result<SessionId, NoRandomness> {
        loop {
            let id = SessionId::random()?;
            if !self.sessions.borrow().contains_key(&id) {
                return Ok(id);
            }
        }
    }

    async fn user_of(&self, caller: &Caller, wanted: Option<String>) -> Result<Known, Refusal> {
        match wanted {
            None => Ok(users::by_uid(caller.uid).await?),
            Some(name) => {
                let known = users::by_name(name).await?;
                if known.identity.uid != caller.uid && !caller.is_root() {
                    return Err(Refusal::NotAuthorized);
                }
                Ok(known)
            }
        }
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
        info!(
            MESSAGE_ID = message::AGENT_REGISTERED,
            GATED_AGENT = by,
            GATED_USER = user,
            "a consent agent is registered"
        );
        Ok(())
    }

    async fn speaker(&self, caller: &Caller, kind: &str) -> Result<Speaker, Refusal> {
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

    /// Answer a waiting request.
    pub async fn decide(&self, caller: &Caller, id: RequestId, answer: Answer) -> Result<(), Refusal> {
        caller.outside()?;
        let waiting = self.waiting(id).ok_or_else(|| match self.over.borrow().contains(&id) {
            true => Refusal::Decided,
            false => Refusal::NoRequest,
        })?;
        let speaker = self.speaker(caller, "gatedctl").await?;
        let request = &waiting.prompt.request;
        if !speaker.may_answer(waiting.session.owner(), request) && !caller.has(action::ANSWER_FOR_OTHERS) {
            return Err(Refusal::Needs(action::ANSWER_FOR_OTHERS));
        }
        let is_sensitive = request.level == Level::Authenticate && answer != Answer::Deny;
        if is_sensitive && !caller.has(action::GRANT_SENSITIVE) {
            return Err(Refusal::Needs(action::GRANT_SENSITIVE));
        }
        let (reply, answered) = tokio::sync::oneshot::channel();
        let spoken = Spoken { request: id, answer, by: speaker.by, authenticated: is_sensitive, reply: Some(reply) };
        waiting.session.control.send(Control::Answer(spoken)).map_err(|_| Refusal::NoRequest)?;
        match answered.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(AnswerError::AlreadyDecided)) => Err(Refusal::Decided),
            Ok(Err(error @ AnswerError::TurnedDown)) => Err(Refusal::Session(error.to_string())),
            Ok(Err(AnswerError::Unknown)) | Err(_) => Err(Refusal::NoRequest),
        }
    }

    /// The requests that wait and that the caller may answer, by their number on the bus.
    pub async fn answerable(&self, caller: &Caller) -> Result<BTreeMap<u64, Waiting>, Refusal> {
        caller.outside()?;
        let numbers: Vec<(u64, RequestId)> =
            self.requests.borrow().iter().map(|(id, (number, ..))| (*number, *id)).collect();
        if numbers.is_empty() {
            return Ok(BTreeMap::new());
        }
        let speaker = self.speaker(caller, "").await?;
        let waiting = numbers.into_iter().filter_map(|(number, id)| Some((number, self.waiting(id)?)));
        let may = |waiting: &Waiting| {
            speaker.may_answer(waiting.session.owner(), &waiting.prompt.request)
                || caller.has(action::ANSWER_FOR_OTHERS)
        };
        Ok(waiting.filter(|(_, waiting)| may(waiting)).collect())
    }

    /// A waiting request by its number on the bus.
    pub(super) fn waiting_number(&self, wanted: u64) -> Option<Waiting> {
        let id = self.requests.borrow().iter().find(|(_, (number, ..))| *number == wanted).map(|(id, _)| *id)?;
        self.waiting(id)
    }

    fn waiting(&self, id: RequestId) -> Option<Waiting> {
        let session = self.requests.borrow().get(&id).map(|(_, session, _)| session.clone())?;
        let session = self.sessions.borrow().get(&session).cloned()?;
        let prompt = session.view.prompts.borrow().iter().find(|prompt| prompt.request.id == id).cloned()?;
        Some(Waiting { session, prompt })
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
        let verdict = policy.decide(access, object, crate::common::id::CallId(1), &grants);
        let grant = match verdict.source {
            Source::Grant(at) => grants.get(at).map(|grant| grant.id),
            _ => None,
        };
        Ok((verdict.level, policy.rule(&verdict), grant))
    }

    /// Grants that the caller may see, with their sessions.
    pub fn grants(&self, caller: &Caller, only: Option<&SessionId>) -> Result<Vec<(Rc<Live>, Held)>, Refusal> {
        caller.outside()?;
        let sessions = match only {
            Some(id) => vec![self.managed(caller, id)?],
            None => self.visible(caller),
        };
        let of = |live: Rc<Live>| {
            let grants = live.view.grants.borrow().clone();
            grants.into_iter().map(move |held| (Rc::clone(&live), held))
        };
        Ok(sessions.into_iter().flat_map(of).collect())
    }

    /// From the next attempt on.
    pub fn revoke(&self, caller: &Caller, grant: Option<GrantId>) -> Result<u32, Refusal> {
        caller.outside()?;
        let mut revoked: u32 = 0;
        let mut foreign = false;
        let all: Vec<Rc<Live>> = self.sessions.borrow().values().cloned().collect();
        for live in all {
            let mine = live.owner() == caller.uid || caller.has(action::MANAGE_SESSIONS);
            let fits: Vec<GrantId> = live.view.grants.borrow().iter().map(|held| held.grant.id).collect();
            for id in fits.into_iter().filter(|id| grant.is_none_or(|wanted| wanted == *id)) {
                if !mine {
                    foreign = true;
                } else if live.control.send(Control::Revoke(id)).is_ok() {
                    info!(GATED_SESSION = %live.id(), grant = %id, by = caller.uid, "revoked");
                    revoked = revoked.saturating_add(1);
                }
            }
        }
        match (grant, revoked) {
            (Some(_), 0) if foreign => Err(Refusal::Needs(action::MANAGE_SESSIONS)),
            (Some(_), 0) => Err(Refusal::NoGrant),
            _ => Ok(revoked),
        }
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

    /// What waits in a session has changed.
    pub(super) fn pending_changed(self: &Rc<Self>, id: &SessionId) {
        let live = self.sessions.borrow().get(id).cloned();
        let prompts: BTreeMap<RequestId, Prompt> = live
            .iter()
            .flat_map(|live| live.view.prompts.borrow().clone())
            .map(|prompt| (prompt.request.id, prompt))
            .collect();
        let mut requests = self.requests.borrow_mut();
        let gone = |known: &RequestId, (_, session, _): &mut Numbered| session == id && !prompts.contains_key(known);
        for (request, (number, _, told)) in requests.extract_if(.., gone) {
            let mut over = self.over.borrow_mut();
            if over.len() >= MOST_OVER {
                over.pop_front();
            }
            over.push_back(request);
            self.report(Change::RequestRemoved(number, told));
        }
        let Some(live) = live else { return };
        for (request, prompt) in &prompts {
            if requests.contains_key(request) {
                continue;
            }
            let number = self.next_request.replace(self.next_request.get().wrapping_add(1));
            let told = self.agents.who_may_see(id, live.owner(), &prompt.request);
            let asked = prompt.request.as_ref();
            info!(
                MESSAGE_ID = message::REQUEST_ASKED,
                GATED_SESSION = %id,
                GATED_REQUEST = %request,
                GATED_USER = live.kept.user.name,
                GATED_PROGRAM = record::path(&asked.who.program),
                GATED_OPERATION = asked.operation.as_str(),
                GATED_OBJECT = record::path(&asked.object),
                "a request waits for an answer"
            );
            requests.insert(*request, (number, id.clone(), told.clone()));
            self.report(Change::RequestAdded(number, told));
        }
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

/// Counts a session of a user that is being started, so that nobody starts more at once than they may have.
struct Starting {
    core: Rc<Core>,
    uid: u32,
}

impl Starting {
    fn new(core: &Rc<Core>, uid: u32) -> Result<Starting, Refusal> {
        let running = core.sessions.borrow().values().filter(|live| live.owner() == uid).count();
        let mut starting = core.starting.borrow_mut();
        let own = starting.entry(uid).or_default();
        if uid != 0 && running.saturating_add(*own) >= MOST_OF_A_USER {
            return Err(Refusal::TooMany);
        }
        *own = own.saturating_add(1);
        Ok(Starting { core: Rc::clone(core), uid })
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        let mut starting = self.core.starting.borrow_mut();
        if let Some(own) = starting.get_mut(&self.uid) {
            *own = own.saturating_sub(1);
            if *own == 0 {
                starting.remove(&self.uid);
            }
        }
    }
}

/// Microseconds of CLOCK_REALTIME.
pub fn now_micros() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_micros()).unwrap_or(u64::MAX)
}
