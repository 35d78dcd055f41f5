//! The requests that wait for an answer, of all sessions: a pure machine. Requests, answers, cancellations and the time go
//! in; what to show and what to decide comes out. Whoever drives it ([`super::broker`]) writes the record of a decision
//! before it releases it.
//!
//! What it promises: every request that was taken is decided exactly once; nothing is approved without an answer that says
//! so; an answer names the request that was shown, or all the requests that were shown as one and no others; nothing of an
//! answer reaches another session.
//!
//! [`entry`] holds equal requests, [`block`] what one prompt is about, [`group`] which requests make one, [`session`] the
//! queue of a session, [`ruling`] what an answer means.

mod block;
mod entry;
mod group;
mod quota;
mod ruling;
mod session;

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::common::access::Level;
use crate::common::consent::{Answer, Prompt};
use crate::common::decision::{Lifetime, Limits, Outcome, Width};
use crate::common::id::{RequestId, SessionId};
use crate::common::path::RawPath;
use crate::common::request::Request;
use crate::policy::grants::{Bounds, Grant};

use block::Block;
use entry::{Entry, Waiter, end, refused};
pub use quota::{MOST_OF_A_USER, Quota};
use ruling::Given;
use session::Session;

/// Requests of one session that may wait at a time; one more is denied at once.
pub const MOST_PENDING: usize = 1024;
/// The same for one call, so that none takes the room of all others of its session.
pub const MOST_OF_A_CALL: usize = 512;
/// Decided requests that are remembered, to tell a second answer from an invented one.
const MOST_DECIDED: usize = 4096;
/// What [`Settled::by`] says where nobody was asked.
pub const BY_BROKER: &str = "broker";

/// What the machine needs to know of a session.
#[derive(Clone, Debug)]
pub struct SessionTerms {
    /// How long a request waits for an answer.
    pub timeout: Duration,
    /// Prompts that may be shown in any minute; a request beyond is denied.
    pub max_per_minute: u32,
    /// The home of the session's user, which no answer may cover as a whole.
    pub home: RawPath,
    /// What profile and ceiling let answers be.
    pub limits: Limits,
    /// Whether answers can outlive the session at all: there is somewhere to keep them.
    pub keeps_answers: bool,
    /// Whether it is known who answers, of which groups they are, and how to have them prove it.
    pub knows_people: bool,
}

/// What is to be done, in this order.
#[derive(Debug)]
pub enum Effect {
    /// Put this to the consent agents; it replaces what the session showed before.
    Show(Box<Prompt>),
    /// Nothing of this session is to be shown any more.
    Withdraw(SessionId),
    /// Record, and then release.
    Settle(Box<Settled>),
}

/// A request and its end.
#[derive(Clone, Debug)]
pub struct Settled {
    pub request: Rc<Request>,
    /// As the records say it: [`Outcome::Granted`] where the answer to another request covers this one.
    pub outcome: Outcome,
    /// Meaningful where the outcome permits.
    pub lifetime: Lifetime,
    pub width: Width,
    /// What the answer creates, if it outlives its attempt; the same for all requests that it was given to.
    pub grant: Option<Rc<Grant>>,
    /// Whether whoever answered proved who they are.
    pub authenticated: bool,
    pub by: String,
    /// The argv that somebody wrote instead, for [`Outcome::Edited`] only.
    pub edited: Option<Vec<Vec<u8>>>,
    pub waited: Duration,
    /// Whether it waited at all, or was denied at once.
    pub asked: bool,
}

/// An answer that settles nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    #[error("this request was decided already")]
    AlreadyDecided,
    #[error("there is no such request")]
    Unknown,
    /// A yes that covers more than may be, or that is not on record: it was a no.
    #[error("this answer counts as a no: it could not be recorded, or it covers more than may be")]
    TurnedDown,
}

/// A request id that was used before: the supervisor is not what it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("request {0} was used before")]
pub struct Reused(pub RequestId);

/// See the module.
#[derive(Debug)]
pub struct Pending {
    sessions: BTreeMap<SessionId, Session>,
    /// Requests, and groups of them, that wait no more; the oldest are forgotten.
    decided: VecDeque<RequestId>,
    quota: Rc<Quota>,
}

impl Default for Pending {
    fn default() -> Pending {
        Pending { sessions: BTreeMap::new(), decided: VecDeque::new(), quota: Quota::new(MOST_OF_A_USER) }
    }
}

impl SessionTerms {
    /// What limits answers in this session.
    pub fn bounds(&self) -> Bounds<'_> {
        let limits = if self.keeps_answers {
            self.limits
        } else {
            Limits { longest: self.limits.longest.min(Lifetime::Session), ..self.limits }
        };
        Bounds { home: &self.home, limits }
    }
}

impl Pending {
    pub fn new() -> Pending {
        Pending::default()
    }

    /// With places that others take as well.
    pub fn within(quota: Rc<Quota>) -> Pending {
        Pending { quota, ..Pending::default() }
    }

    /// A session begins. One of the same name is ended first by whoever drives this; its requests stay.
    pub fn open(&mut self, id: SessionId, terms: SessionTerms) {
        self.sessions.entry(id).or_insert_with(|| Session::new(terms));
    }

    /// Answers of this session are within these limits from now on, whatever was shown before.
    pub fn limit(&mut self, id: &SessionId, limits: Limits) {
        if let Some(session) = self.sessions.get_mut(id) {
            session.terms.limits = limits;
        }
    }

    /// A session is over; what waited in it is cancelled.
    pub fn close(&mut self, id: &SessionId, now: Instant) -> Vec<Effect> {
        let Some(session) = self.sessions.remove(id) else { return Vec::new() };
        let mut effects = Vec::new();
        if session.is_showing() {
            effects.push(Effect::Withdraw(id.clone()));
        }
        for waiter in session.into_waiters() {
            self.settle(end(waiter, Outcome::Cancelled, BY_BROKER, now), &mut effects);
        }
        effects
    }

    /// A request comes in, and is shown by itself.
    pub fn ask(&mut self, request: Request, now: Instant) -> Result<Vec<Effect>, Reused> {
        self.ask_gathering(request, Duration::ZERO, now)
    }

    /// A request comes in. Where others could be put to somebody together with it, it is shown after `window` with those that
    /// have come; zero: by itself and at once.
    pub fn ask_gathering(&mut self, request: Request, window: Duration, now: Instant) -> Result<Vec<Effect>, Reused> {
        let id = request.id;
        if self.decided.contains(&id) || self.sessions.values().any(|session| session.has(id)) {
            return Err(Reused(id));
        }
        let mut effects = Vec::new();
        let session = self.sessions.get_mut(&request.session);
        // Where nobody is known, what needs a proof or a group is not permitted.
        let knows_people = session.as_ref().is_some_and(|session| session.terms.knows_people);
        let askable = match request.level {
            Level::Allow | Level::Notify | Level::Ask => knows_people || request.group.is_none(),
            Level::Authenticate => knows_people,
            Level::Deny => false,
        };
        let request = Rc::new(request);
        let session = session.filter(|session| askable && session.has_room(request.call));
        match session.and_then(|session| Some((session, self.quota.place(&request)?))) {
            Some((session, place)) => {
                let waiter = Waiter { request, arrived: now, counted_from: now, place };
                session.enter(waiter, window, now);
            }
            None => self.settle(refused(request, BY_BROKER), &mut effects),
        }
        self.show_next(now, &mut effects);
        Ok(effects)
    }

    /// An answer to a prompt. `by` goes into the records; `authenticated` says whether whoever answered proved
    /// who they are, without which a yes to level `authenticate` is not permitted.
    ///
    /// An answer that lasts longer than the rule allows is cut to what it allows. One that reaches further than may be
    /// offered is taken for a mistake of the agent and denies: to ask again would ask a script for ever, and to narrow it
    /// would do something that nobody saw.
    pub fn answer(
        &mut self,
        id: RequestId,
        answer: Answer,
        by: &str,
        authenticated: bool,
        now: Instant,
    ) -> Result<Vec<Effect>, AnswerError> {
        let mut effects = Vec::new();
        let (session_id, block) = self.take(id, now, &mut effects)?;
        let Some(session) = self.sessions.get_mut(&session_id) else { return Err(AnswerError::Unknown) };
        session.answered(now);
        if answer == Answer::Split && block.group.is_some() {
            session.split(block, now);
            self.show_next(now, &mut effects);
            return Ok(effects);
        }
        let given = Given { answer, by, authenticated };
        let rulings = given.rulings(&block, &session.terms);
        let mut kept: Vec<Rc<Grant>> = Vec::new();
        for grant in rulings.iter().filter_map(|ruling| ruling.grant.as_ref()) {
            if !kept.last().is_some_and(|last| Rc::ptr_eq(last, grant)) {
                kept.push(Rc::clone(grant));
            }
        }
        let covered = session.take_covered(&kept);
        if session.hide_settled() {
            effects.push(Effect::Withdraw(session_id));
        }
        let says_yes = rulings.first().is_some_and(|ruling| ruling.outcome.permits());
        let by_grant = if says_yes { Outcome::Granted } else { Outcome::Denied };
        for (entry, ruling) in block.entries.into_iter().zip(rulings) {
            for waiter in entry.into_waiters() {
                let settled = end(waiter, ruling.outcome, by, now);
                self.settle(ruling.of(settled, authenticated), &mut effects);
            }
        }
        for waiter in covered {
            self.settle(end(waiter, by_grant, by, now), &mut effects);
        }
        self.show_next(now, &mut effects);
        Ok(effects)
    }

    /// Nobody can be asked this: denied.
    pub fn nobody(&mut self, id: RequestId, now: Instant) -> Vec<Effect> {
        let mut effects = Vec::new();
        if let Ok((_, block)) = self.take(id, now, &mut effects) {
            for waiter in block.entries.into_iter().flat_map(Entry::into_waiters) {
                self.settle(end(waiter, Outcome::NotPermitted, BY_BROKER, now), &mut effects);
            }
        }
        self.show_next(now, &mut effects);
        effects
    }

    /// The process behind a request is gone. Equal requests of others go on waiting; if the one that was shown is gone,
    /// the next of them is shown, because a prompt names its process. A group that is shown stays for those that are left.
    pub fn cancel(&mut self, session: &SessionId, id: RequestId, now: Instant) -> Vec<Effect> {
        let mut effects = Vec::new();
        let Some(own) = self.sessions.get_mut(session) else { return effects };
        let Some(gone) = own.cancel(id) else { return effects };
        if own.hide_settled() {
            effects.push(Effect::Withdraw(session.clone()));
        }
        self.settle(end(gone, Outcome::Cancelled, BY_BROKER, now), &mut effects);
        self.show_next(now, &mut effects);
        effects
    }

    /// Denies what has waited too long, and shows what has gathered. Of equal requests, and of a group, only those are
    /// denied that have; the others are shown then.
    pub fn expire(&mut self, now: Instant) -> Vec<Effect> {
        let mut effects = Vec::new();
        let mut late = Vec::new();
        for (id, session) in &mut self.sessions {
            late.extend(session.take_late(now));
            if session.hide_settled() {
                effects.push(Effect::Withdraw(id.clone()));
            }
        }
        for waiter in late {
            self.settle(end(waiter, Outcome::Timeout, BY_BROKER, now), &mut effects);
        }
        self.show_next(now, &mut effects);
        effects
    }

    /// What waits in a session and can be seen, equal requests and groups once, in the order of arrival: as answers name it.
    pub fn leads(&self, session: &SessionId) -> Vec<RequestId> {
        self.sessions.get(session).map(Session::names).unwrap_or_default()
    }

    /// The same as it would be shown now.
    pub fn prompts(&mut self, session: &SessionId, now: Instant) -> Vec<Prompt> {
        self.prompts_but(session, &|_| false, now)
    }

    /// Those that are not `known`.
    pub fn prompts_but(&mut self, session: &SessionId, known: &dyn Fn(RequestId) -> bool, now: Instant) -> Vec<Prompt> {
        self.sessions.get_mut(session).map(|session| session.prompts(known, now)).unwrap_or_default()
    }

    /// When [`Pending::expire`] has something to do.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.sessions.values().filter_map(Session::next_deadline).min()
    }

    /// Requests that wait.
    pub fn len(&self) -> usize {
        self.sessions.values().map(Session::len).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes what an answer names out of its queue.
    fn take(
        &mut self,
        id: RequestId,
        now: Instant,
        effects: &mut Vec<Effect>,
    ) -> Result<(SessionId, Block), AnswerError> {
        let found = self.sessions.iter_mut().find_map(|(name, session)| {
            let block = session.take(id, now)?;
            if session.hide_settled() {
                effects.push(Effect::Withdraw(name.clone()));
            }
            Some((name.clone(), block))
        });
        let known = if self.decided.contains(&id) { AnswerError::AlreadyDecided } else { AnswerError::Unknown };
        found.ok_or(known)
    }

    fn settle(&mut self, settled: Settled, effects: &mut Vec<Effect>) {
        self.remember(settled.request.id);
        effects.push(Effect::Settle(Box::new(settled)));
    }

    fn remember(&mut self, id: RequestId) {
        if self.decided.len() >= MOST_DECIDED {
            self.decided.pop_front();
        }
        self.decided.push_back(id);
    }

    /// Shows the first of every session that shows none.
    fn show_next(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        let mut refused = Vec::new();
        let mut gone = Vec::new();
        for session in self.sessions.values_mut() {
            let (prompt, over) = session.show_next(now);
            effects.extend(prompt.map(|prompt| Effect::Show(Box::new(prompt))));
            refused.extend(over);
            gone.extend(session.take_gone());
        }
        gone.into_iter().for_each(|id| self.remember(id));
        for waiter in refused {
            self.settle(end(waiter, Outcome::NotPermitted, BY_BROKER, now), effects);
        }
    }
}
