//! The requests that wait for an answer, of all sessions: a pure machine. Requests, answers, cancellations and the time go
//! in; what to show and what to decide comes out. Whoever drives it ([`super::broker`]) writes the record of a decision
//! before it releases it.
//!
//! What it promises: every request that was taken is decided exactly once; nothing is approved without an answer that says
//! so; an answer names the request that was shown; nothing of an answer reaches another session.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::common::access::Level;
use crate::common::consent::{Answer, Offer, Prompt};
use crate::common::decision::{Lifetime, Limits, Outcome, Term, Width};
use crate::common::exec::Execution;
use crate::common::id::{GrantId, RequestId, SessionId};
use crate::common::net::Zone;
use crate::common::path::RawPath;
use crate::common::request::Request;
use crate::policy::grants::{Bounds, Grant, longest, offered_widths, remembered};

/// Requests of one session that may wait at a time; one more is denied at once.
pub const MOST_PENDING: usize = 64;
/// Decided requests that are remembered, to tell a second answer from an invented one.
const MOST_DECIDED: usize = 1024;
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

#[derive(Debug)]
struct Waiter {
    request: Rc<Request>,
    arrived: Instant,
}

/// Equal requests that one answer settles; the first one is shown.
#[derive(Debug)]
struct Entry {
    lead: Waiter,
    joined: Vec<Waiter>,
}

#[derive(Debug)]
struct Session {
    terms: SessionTerms,
    entries: VecDeque<Entry>,
    /// The lead that is before the consent agents.
    shown: Option<RequestId>,
    /// When prompts of the last minute were shown.
    recent: VecDeque<Instant>,
    /// A person who answers is there: what waits behind gets its time anew.
    last_answer: Option<Instant>,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Pending {
    sessions: BTreeMap<SessionId, Session>,
    decided: VecDeque<RequestId>,
}

/// Whether one answer settles both. Operation and other end may differ, because every change of an object is one access;
/// not so where an answer holds for the attempt alone, which is then the attempt that was shown. Command lines that were
/// cut may differ where nobody saw it.
fn equal(a: &Request, b: &Request) -> bool {
    let same_attempt = a.operation == b.operation && a.other == b.other && a.who.pid == b.who.pid;
    let same_command = match (&a.execution, &b.execution) {
        (None, None) => true,
        (Some(one), Some(other)) => a.who.cwd == b.who.cwd && equal_commands(one, other),
        _ => false,
    };
    a.session == b.session
        && a.call == b.call
        && a.access == b.access
        && a.object == b.object
        && a.is_directory == b.is_directory
        && a.level == b.level
        && a.remember == b.remember
        && a.remember_for == b.remember_for
        && a.group == b.group
        && same_command
        && same_destination(a, b)
        && a.service == b.service
        && (remembered(a) != Lifetime::Attempt || same_attempt)
}

/// Whether a person would say the same of both: connections of one program by one rule to one port of one name, though perhaps to several
/// of its addresses. Of addresses that are not public each is a place of its own, and so is every one where the answer
/// holds for the attempt alone.
fn same_destination(a: &Request, b: &Request) -> bool {
    let (Some(one), Some(other)) = (&a.destination, &b.destination) else {
        return a.destination.is_none() && b.destination.is_none();
    };
    let is_one_name = one.names().next().is_some() && one.names().next() == other.names().next();
    let is_public =
        [one, other].iter().all(|own| own.zone() == Some(Zone::Public)) && remembered(a) != Lifetime::Attempt;
    a.operation == b.operation
        && a.rule == b.rule
        // An answer may be for the program that was shown.
        && a.who.program == b.who.program
        && one.transport == other.transport
        && one.port() == other.port()
        && (is_one_name && is_public || one.place == other.place)
}

/// Whether the same would run, whoever calls it. Of words that are not shown nobody knows.
fn equal_commands(a: &Execution, b: &Execution) -> bool {
    a.words_left_out == 0
        && b.words_left_out == 0
        && !(a.is_first || b.is_first)
        && a.argv == b.argv
        && a.interpreters == b.interpreters
        && a.variables == b.variables
        && a.is_new == b.is_new
}

impl Entry {
    fn has(&self, id: RequestId) -> bool {
        self.waiters().any(|waiter| waiter.request.id == id)
    }

    fn waiters(&self) -> impl Iterator<Item = &Waiter> {
        std::iter::once(&self.lead).chain(&self.joined)
    }

    fn into_waiters(self) -> impl Iterator<Item = Waiter> {
        std::iter::once(self.lead).chain(self.joined)
    }
}

/// The end of one request, without anything that lasts.
fn end(waiter: Waiter, outcome: Outcome, by: &str, now: Instant) -> Settled {
    Settled {
        waited: now.saturating_duration_since(waiter.arrived),
        request: waiter.request,
        outcome,
        lifetime: Lifetime::Attempt,
        width: Width::Exact,
        grant: None,
        authenticated: false,
        by: by.to_owned(),
        edited: None,
        asked: true,
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

    /// A session begins. One of the same name is ended first by whoever drives this; its requests stay.
    pub fn open(&mut self, id: SessionId, terms: SessionTerms) {
        self.sessions.entry(id).or_insert_with(|| Session {
            terms,
            entries: VecDeque::new(),
            shown: None,
            recent: VecDeque::new(),
            last_answer: None,
        });
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
        if session.shown.is_some() {
            effects.push(Effect::Withdraw(id.clone()));
        }
        for waiter in session.entries.into_iter().flat_map(Entry::into_waiters) {
            self.settle(end(waiter, Outcome::Cancelled, BY_BROKER, now), &mut effects);
        }
        effects
    }

    /// A request comes in.
    pub fn ask(&mut self, request: Request, now: Instant) -> Result<Vec<Effect>, Reused> {
        let id = request.id;
        if self.decided.contains(&id) || self.sessions.values().any(|session| session.find(id).is_some()) {
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
        let waiter = Waiter { request: Rc::new(request), arrived: now };
        match session.filter(|session| askable && session.room()) {
            Some(session) => {
                match session.entries.iter_mut().find(|entry| equal(&entry.lead.request, &waiter.request)) {
                    Some(entry) => entry.joined.push(waiter),
                    None => session.entries.push_back(Entry { lead: waiter, joined: Vec::new() }),
                }
            }
            None => {
                let refused = end(waiter, Outcome::NotPermitted, BY_BROKER, now);
                self.settle(Settled { asked: false, ..refused }, &mut effects);
            }
        }
        self.show_next(now, &mut effects);
        Ok(effects)
    }

    /// An answer to a request that waits. `by` goes into the records; `authenticated` says whether whoever answered proved
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
        let (session_id, entry) = self.take(id, &mut effects)?;
        let lead = Rc::clone(&entry.lead.request);
        let Some(session) = self.sessions.get_mut(&session_id) else { return Err(AnswerError::Unknown) };
        session.last_answer = Some(now);
        let denied = |width| offered_widths(&lead, &session.terms.home).contains(&width);
        let bounds = session.terms.bounds();
        let offered = |width| bounds.offered(&lead).contains(&width);
        let is_kept = |grant: &Grant| grant.lifetime != Lifetime::Attempt;
        let (outcome, width, grant, edited) = match answer {
            Answer::Deny => (Outcome::Denied, Width::Exact, None, None),
            Answer::Block(width, term) => {
                let denial = GrantId::random().ok().filter(|_| denied(width));
                let denial = denial.and_then(|id| Grant::from_denial(id, &lead, width, term, by, &bounds).ok());
                (Outcome::Denied, width, denial, None)
            }
            Answer::Edit(argv) => {
                let may_edit = lead.execution.as_ref().is_some_and(|execution| execution.is_first);
                match may_edit && !argv.is_empty() {
                    true => (Outcome::Edited, Width::Exact, None, Some(argv)),
                    false => (Outcome::Denied, Width::Exact, None, None),
                }
            }
            Answer::Once(_) | Answer::Session(_) | Answer::For(..) | Answer::Always(_) | Answer::Split => {
                let proven = authenticated || lead.level != Level::Authenticate;
                let wanted = answer.allows().filter(|(width, _)| proven && offered(*width));
                let grant = wanted.and_then(|(width, term)| {
                    let grant = Grant::from_answer(GrantId::random().ok()?, &lead, width, term, by, &bounds).ok()?;
                    Some((width, Grant { authenticated, ..grant }))
                });
                match grant {
                    Some((width, grant)) => (Outcome::Approved, width, Some(grant), None),
                    None => (Outcome::NotPermitted, Width::Exact, None, None),
                }
            }
        };
        let lifetime = grant.as_ref().map_or(Lifetime::Attempt, |grant| grant.lifetime);
        let lasting = grant.filter(is_kept).map(Rc::new);
        let covered = lasting.as_ref().map(|grant| session.take_covered(grant)).unwrap_or_default();
        let by_grant = if outcome.permits() { Outcome::Granted } else { outcome };
        if session.hide_settled() {
            effects.push(Effect::Withdraw(session_id));
        }
        for waiter in entry.into_waiters() {
            let settled = end(waiter, outcome, by, now);
            let (lifetime, width) =
                if outcome.permits() { (lifetime, width) } else { (settled.lifetime, settled.width) };
            let edited = edited.clone();
            let grant = lasting.clone();
            self.settle(Settled { lifetime, width, grant, authenticated, edited, ..settled }, &mut effects);
        }
        for waiter in covered.into_iter().flat_map(Entry::into_waiters) {
            self.settle(end(waiter, by_grant, by, now), &mut effects);
        }
        self.show_next(now, &mut effects);
        Ok(effects)
    }

    /// Nobody can be asked this: denied.
    pub fn nobody(&mut self, id: RequestId, now: Instant) -> Vec<Effect> {
        let mut effects = Vec::new();
        if let Ok((_, entry)) = self.take(id, &mut effects) {
            for waiter in entry.into_waiters() {
                self.settle(end(waiter, Outcome::NotPermitted, BY_BROKER, now), &mut effects);
            }
        }
        self.show_next(now, &mut effects);
        effects
    }

    /// The process behind a request is gone. Equal requests of others go on waiting; if the one that was shown is gone,
    /// the next of them is shown, because a prompt names its process.
    pub fn cancel(&mut self, session: &SessionId, id: RequestId, now: Instant) -> Vec<Effect> {
        let mut effects = Vec::new();
        let Some(own) = self.sessions.get_mut(session) else { return effects };
        let Some(at) = own.find(id) else { return effects };
        let gone = match own.entries.get_mut(at) {
            Some(entry) if entry.lead.request.id != id => {
                let position = entry.joined.iter().position(|waiter| waiter.request.id == id);
                position.map(|position| entry.joined.remove(position))
            }
            Some(entry) if !entry.joined.is_empty() => {
                let next = entry.joined.remove(0);
                Some(std::mem::replace(&mut entry.lead, next))
            }
            _ => own.entries.remove(at).map(|entry| entry.lead),
        };
        if own.shown == Some(id) {
            own.shown = None;
            effects.push(Effect::Withdraw(session.clone()));
        }
        if let Some(gone) = gone {
            self.settle(end(gone, Outcome::Cancelled, BY_BROKER, now), &mut effects);
        }
        self.show_next(now, &mut effects);
        effects
    }

    /// Denies what has waited too long. Of equal requests only those are denied that did; the next of them is shown then.
    pub fn expire(&mut self, now: Instant) -> Vec<Effect> {
        let mut effects = Vec::new();
        let mut late = Vec::new();
        for (id, session) in &mut self.sessions {
            for entry in std::mem::take(&mut session.entries) {
                let (over, rest): (Vec<Waiter>, Vec<Waiter>) =
                    entry.into_waiters().partition(|waiter| session.deadline(waiter) <= now);
                late.extend(over);
                let mut rest = rest.into_iter();
                if let Some(lead) = rest.next() {
                    session.entries.push_back(Entry { lead, joined: rest.collect() });
                }
            }
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

    /// What waits in a session, equal requests once, in the order of arrival.
    pub fn leads(&self, session: &SessionId) -> Vec<RequestId> {
        let of = |session: &Session| session.entries.iter().map(|entry| entry.lead.request.id).collect();
        self.sessions.get(session).map(of).unwrap_or_default()
    }

    /// Everything that waits in a session as it would be shown now, in the order of arrival.
    pub fn prompts(&self, session: &SessionId) -> Vec<Prompt> {
        let of = |session: &Session| session.entries.iter().map(|entry| session.prompt_of(entry)).collect();
        self.sessions.get(session).map(of).unwrap_or_default()
    }

    /// When [`Pending::expire`] has something to do.
    pub fn next_deadline(&self) -> Option<Instant> {
        let deadlines = |session: &Session| {
            let waiters = session.entries.iter().flat_map(Entry::waiters);
            waiters.map(|waiter| session.deadline(waiter)).min()
        };
        self.sessions.values().filter_map(deadlines).min()
    }

    /// Requests that wait.
    pub fn len(&self) -> usize {
        self.sessions.values().map(Session::len).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes the entry of a request out of its queue.
    fn take(&mut self, id: RequestId, effects: &mut Vec<Effect>) -> Result<(SessionId, Entry), AnswerError> {
        let found = self.sessions.iter_mut().find_map(|(name, session)| {
            let at = session.find(id)?;
            let entry = session.entries.remove(at)?;
            if session.shown == Some(entry.lead.request.id) {
                session.shown = None;
                effects.push(Effect::Withdraw(name.clone()));
            }
            Some((name.clone(), entry))
        });
        let known = if self.decided.contains(&id) { AnswerError::AlreadyDecided } else { AnswerError::Unknown };
        found.ok_or(known)
    }

    fn settle(&mut self, settled: Settled, effects: &mut Vec<Effect>) {
        if self.decided.len() >= MOST_DECIDED {
            self.decided.pop_front();
        }
        self.decided.push_back(settled.request.id);
        effects.push(Effect::Settle(Box::new(settled)));
    }

    /// Shows the first request of every session that shows none.
    fn show_next(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        let mut refused = Vec::new();
        for session in self.sessions.values_mut() {
            while session.shown.is_none() && !session.entries.is_empty() {
                if session.may_show(now) {
                    effects.extend(session.show(now).map(|prompt| Effect::Show(Box::new(prompt))));
                } else {
                    refused.extend(session.entries.pop_front());
                }
            }
        }
        for waiter in refused.into_iter().flat_map(Entry::into_waiters) {
            self.settle(end(waiter, Outcome::NotPermitted, BY_BROKER, now), effects);
        }
    }
}

impl Session {
    fn len(&self) -> usize {
        self.entries.iter().map(|entry| entry.joined.len() + 1).sum()
    }

    fn room(&self) -> bool {
        self.len() < MOST_PENDING
    }

    fn find(&self, id: RequestId) -> Option<usize> {
        self.entries.iter().position(|entry| entry.has(id))
    }

    fn deadline(&self, waiter: &Waiter) -> Instant {
        let from = self.last_answer.map_or(waiter.arrived, |answer| answer.max(waiter.arrived));
        // A day at the most comes from a profile; a clock that cannot hold it counts as expired.
        from.checked_add(self.terms.timeout).unwrap_or(from)
    }

    /// Whether what was shown does not wait any more; it is not shown from here on.
    fn hide_settled(&mut self) -> bool {
        let leads = |id: RequestId| self.entries.iter().any(|entry| entry.lead.request.id == id);
        let over = self.shown.is_some_and(|shown| !leads(shown));
        if over {
            self.shown = None;
        }
        over
    }

    /// Takes out what a new grant covers, of those that the same people answer.
    fn take_covered(&mut self, grant: &Grant) -> Vec<Entry> {
        let entries = std::mem::take(&mut self.entries);
        let (covered, rest): (VecDeque<Entry>, VecDeque<Entry>) =
            entries.into_iter().partition(|entry| grant.answers(&entry.lead.request));
        self.entries = rest;
        covered.into()
    }

    fn may_show(&mut self, now: Instant) -> bool {
        let minute = Duration::from_secs(60);
        while self.recent.front().is_some_and(|&shown| now.saturating_duration_since(shown) >= minute) {
            self.recent.pop_front();
        }
        u32::try_from(self.recent.len()).is_ok_and(|recent| recent < self.terms.max_per_minute)
    }

    fn show(&mut self, now: Instant) -> Option<Prompt> {
        let prompt = self.prompt_of(self.entries.front()?);
        self.shown = Some(prompt.request.id);
        self.recent.push_back(now);
        Some(prompt)
    }

    fn prompt_of(&self, entry: &Entry) -> Prompt {
        let request = Rc::clone(&entry.lead.request);
        let bounds = self.terms.bounds();
        let offers = offered_widths(&request, &self.terms.home).into_iter().filter_map(|width| {
            let grant = Grant::from_answer(GrantId(0), &request, width, Term::Session, "", &bounds).ok()?;
            Some(Offer { width, scope: grant.scope() })
        });
        Prompt {
            offers: offers.collect(),
            longest: longest(&request, bounds.limits),
            max_for: bounds.limits.max_for,
            suggestion: None,
            group: None,
            id: request.id,
            attempts: entry.joined.len() + 1,
            waiting: self.entries.len().saturating_sub(1),
            deadline: self.deadline(&entry.lead),
            request,
        }
    }
}
