//! The broker of one session: drives [`Pending`] between the supervisor, the consent agents and the records. Embedded, it
//! runs in the client's single-threaded runtime; what can block (the disk) is done beside it.
//!
//! A decision leaves in this order: it falls in [`Pending`], its record is written and synchronised, then the supervisor is
//! told. Without the record an approval becomes a denial.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot, watch};
use tracing::{debug, error, warn};

use super::audit::{Audit, AuditRecord};
use super::denials::Denials;
use super::events::Events;
use super::message;
use super::pending::{AnswerError, BY_BROKER, Effect, MOST_OF_A_USER, Pending, Quota, Reused, SessionTerms, Settled};
use super::recorder::Recorder;
use super::view::View;
use crate::common::consent::{Answer, ConsentAgent, ConsentError, Gathers, Prompt};
use crate::common::decision::{Decision, Lifetime, Outcome};
use crate::common::id::{GrantId, RequestId, SessionId};
use crate::common::wire::{FromSession, RunningCall, ToSession};
use crate::policy::Grant;

/// Decisions of one moment that are recorded together with those of others at the most.
const MOST_TOGETHER: usize = 16;

/// What a broker knows of its session.
#[derive(Clone, Debug)]
pub struct BrokerConfig {
    pub session: SessionId,
    /// The user that the tool runs as, for the records.
    pub user: String,
    pub terms: SessionTerms,
}

/// A message that no supervisor of ours sends. The session is to be ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error(transparent)]
    Reused(#[from] Reused),
    #[error("more calls than a session can have")]
    Calls,
    #[error("a request of session {0} came from session {1}")]
    Session(SessionId, SessionId),
}

/// What is left of a session for its client.
#[derive(Debug)]
pub struct Closing {
    pub denials: Denials,
    pub fault: Option<Fault>,
}

/// The broker of one session.
pub struct Broker {
    config: BrokerConfig,
    audit: Arc<dyn Audit>,
    events: Events,
    agents: Vec<Box<dyn ConsentAgent>>,
    view: Rc<View>,
    quota: Rc<Quota>,
}

/// An answer that names who gave it.
#[derive(Debug)]
pub struct Spoken {
    pub request: RequestId,
    pub answer: Answer,
    /// For the records.
    pub by: String,
    /// Whether they proved who they are.
    pub authenticated: bool,
    /// Hears what came of the answer once that is on disk.
    pub reply: Option<Heard>,
}

/// Who waits to hear what came of an answer.
pub type Heard = oneshot::Sender<Result<(), AnswerError>>;

/// Those whose answers are being recorded, by the requests that are settled by them.
type Hearing = RefCell<HashMap<RequestId, Rc<Hears>>>;

/// Somebody who gave an answer.
struct Hears {
    said_yes: bool,
    /// Requests that are still to be recorded.
    left: Cell<usize>,
    /// Whether none of them was turned down so far.
    stands: Cell<bool>,
    reply: Cell<Option<Heard>>,
}

impl Hears {
    /// The end of one of the requests is on record.
    fn recorded(&self, permits: bool) {
        self.stands.set(self.stands.get() && (!self.said_yes || permits));
        self.left.set(self.left.get().saturating_sub(1));
        if self.left.get() == 0
            && let Some(reply) = self.reply.take()
        {
            let end = if self.stands.get() { Ok(()) } else { Err(AnswerError::TurnedDown) };
            // Whoever answered need not wait to hear of it.
            let _ = reply.send(end);
        }
    }
}

/// What the rest of the daemon tells a broker.
#[derive(Debug)]
pub enum Control {
    Answer(Spoken),
    /// Forget a grant, from the next attempt on.
    Revoke(GrantId),
}

/// What an agent brought back.
struct Reply {
    request: RequestId,
    by: String,
    result: Result<Answer, ConsentError>,
}

impl Broker {
    /// All agents are asked at once and the first answer wins; without an agent everything that must be asked is denied.
    pub fn new(
        config: BrokerConfig,
        audit: Arc<dyn Audit>,
        events: Events,
        agents: Vec<Box<dyn ConsentAgent>>,
    ) -> Broker {
        Broker { config, audit, events, agents, view: Rc::default(), quota: Quota::new(MOST_OF_A_USER) }
    }

    /// Places for what waits that the user's other sessions take as well.
    pub fn within(self, quota: Rc<Quota>) -> Broker {
        Broker { quota, ..self }
    }

    /// Let others see what waits, what was granted and what runs.
    pub fn seen_in(self, view: Rc<View>) -> Broker {
        Broker { view, ..self }
    }

    /// Serves the session until `from` is closed or the supervisor sends what it must not, and everything decided is
    /// recorded. Takes `CallStarted`, `CallEnded`, `Ask`, `Cancel` and `Record`; the other messages are for whoever
    /// started the session, and passed over. Sends `Decided` and `Recorded`, and goes on taking messages while they are not taken off. Needs a tokio
    /// runtime with time; not `Send`.
    pub async fn run(self, from: mpsc::Receiver<FromSession>, to: mpsc::Sender<ToSession>) -> Closing {
        self.run_controlled(from, to, None).await
    }

    /// [`Broker::run`], with somebody else who answers and revokes.
    pub async fn run_controlled(
        self,
        from: mpsc::Receiver<FromSession>,
        to: mpsc::Sender<ToSession>,
        control: Option<mpsc::UnboundedReceiver<Control>>,
    ) -> Closing {
        let (prompts, shown) = watch::channel(None);
        let (reply, replies) = mpsc::unbounded_channel();
        let (settled, settle) = mpsc::unbounded_channel();
        let (out, outgoing) = mpsc::unbounded_channel();
        let alive = self.agents.len();
        let gathers = self.agents.iter().map(|agent| agent.gathers()).collect();
        let mut asked: Vec<Pin<Box<dyn Future<Output = ()>>>> = Vec::with_capacity(alive);
        for agent in self.agents {
            asked.push(Box::pin(serve(agent, shown.clone(), reply.clone())));
        }
        drop((shown, reply));
        let config = self.config;
        let view = Rc::clone(&self.view);
        let records = Recorder::new(config.session.clone(), config.user.clone(), self.audit, self.events);
        let hearing = Hearing::default();
        let desk = Desk {
            config: &config,
            records: &records,
            view: &view,
            hearing: &hearing,
            pending: Pending::within(self.quota),
            gathers,
            prompts,
            settled,
            out: out.clone(),
            alive,
            open: 0,
            current: None,
        };
        let work = async {
            tokio::join!(
                desk.serve(from, replies, control),
                release(settle, out, &records, &view, &hearing),
                forward(outgoing, to)
            )
            .0
        };
        let agents = poll_fn(|context| {
            asked.retain_mut(|agent| agent.as_mut().poll(context).is_pending());
            Poll::<Infallible>::Pending
        });
        let fault = tokio::select! {
            biased;
            fault = work => fault,
            never = agents => match never {},
        };
        Closing { denials: records.close(), fault }
    }
}

/// Puts to one agent whatever is shown, until the agent or the broker is gone.
async fn serve(
    mut agent: Box<dyn ConsentAgent>,
    mut shown: watch::Receiver<Option<Rc<Prompt>>>,
    replies: mpsc::UnboundedSender<Reply>,
) {
    let by = agent.name();
    loop {
        let prompt = shown.borrow_and_update().clone();
        if let Some(prompt) = prompt {
            let result = tokio::select! {
                biased;
                changed = shown.changed() => match changed {
                    Ok(()) => continue,
                    Err(_) => return,
                },
                result = agent.ask(&prompt) => result,
            };
            let gone = matches!(result, Err(ConsentError::Gone(_)));
            let told = replies.send(Reply { request: prompt.id, by: by.clone(), result });
            if gone || told.is_err() {
                return;
            }
        }
        if shown.changed().await.is_err() {
            return;
        }
    }
}

/// Carries messages to the supervisor: were the two halves to wait for it, it and they could wait for each other. What
/// piles up is bounded by what the supervisor asked for.
async fn forward(mut outgoing: mpsc::UnboundedReceiver<ToSession>, to: mpsc::Sender<ToSession>) {
    while let Some(message) = outgoing.recv().await {
        if to.send(message).await.is_err() {
            // It is gone; so is the use of the rest.
            return;
        }
    }
}

/// The half that takes messages and answers, and lets decisions fall.
struct Desk<'a> {
    config: &'a BrokerConfig,
    records: &'a Recorder,
    view: &'a View,
    hearing: &'a Hearing,
    pending: Pending,
    gathers: Vec<Gathers>,
    prompts: watch::Sender<Option<Rc<Prompt>>>,
    settled: mpsc::UnboundedSender<Vec<Settled>>,
    out: mpsc::UnboundedSender<ToSession>,
    /// Agents that are not gone.
    alive: usize,
    /// Agents that may still answer what is shown.
    open: usize,
    current: Option<RequestId>,
}

impl Desk<'_> {
    async fn serve(
        mut self,
        mut from: mpsc::Receiver<FromSession>,
        mut replies: mpsc::UnboundedReceiver<Reply>,
        mut control: Option<mpsc::UnboundedReceiver<Control>>,
    ) -> Option<Fault> {
        let config = self.config;
        self.pending.open(config.session.clone(), config.terms.clone());
        let fault = loop {
            let deadline = self.pending.next_deadline();
            let late = async {
                match deadline {
                    Some(at) => tokio::time::sleep_until(at.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                // A request that is too late is denied, even if its answer is here as well.
                () = late => {
                    let effects = self.pending.expire(now());
                    self.apply(effects);
                }
                message = from.recv() => match message {
                    None => break None,
                    Some(message) => {
                        if let Err(fault) = self.take(message) {
                            break Some(fault);
                        }
                        // One at a time: a session that never stops talking would hold up every other on this thread.
                        tokio::task::yield_now().await;
                    }
                },
                Some(reply) = replies.recv() => self.reply(reply),
                Some(told) = controlled(control.as_mut()) => self.obey(told),
            }
        };
        if let Some(fault) = &fault {
            error!(%fault, "the supervisor broke the protocol");
        }
        let effects = self.pending.close(&config.session, now());
        self.apply(effects);
        fault
    }

    fn take(&mut self, message: FromSession) -> Result<(), Fault> {
        match message {
            FromSession::Ask(request) => {
                let own = &self.config.session;
                if request.session != *own {
                    return Err(Fault::Session(request.session.clone(), own.clone()));
                }
                let required = self.records.required(&request);
                let window = self.gathers.iter().map(|gathers| gathers(&request)).max().unwrap_or(Duration::ZERO);
                let effects = self.pending.ask_gathering(*request, window, now())?;
                let at_once = |effect: &Effect| matches!(effect, Effect::Settle(settled) if !settled.asked);
                if !effects.iter().any(at_once) {
                    self.records.emit(&required);
                }
                self.apply(effects);
            }
            FromSession::Cancel(id) => {
                let effects = self.pending.cancel(&self.config.session, id, now());
                self.apply(effects);
            }
            FromSession::Record(record) => {
                let written = self.records.record(&record);
                // A supervisor that is gone needs no word.
                let _ = self.out.send(ToSession::Recorded(record.number, written));
            }
            FromSession::CallStarted { call, pid, program, argv } => {
                self.records.call_started(call, pid, &program, &argv);
                if !self.view.call_started(RunningCall { call, pid, program, argv }) {
                    return Err(Fault::Calls);
                }
            }
            FromSession::CallEnded { call, ended } => {
                self.records.call_ended(call, ended);
                self.view.call_ended(call);
            }
            FromSession::CallsOver(calls) => calls.into_iter().for_each(|call| self.view.call_over(call)),
            FromSession::Hello(_) | FromSession::Ready { .. } | FromSession::Failed(_) => {}
        }
        Ok(())
    }

    fn reply(&mut self, reply: Reply) {
        let current = self.current == Some(reply.request);
        match reply.result {
            Ok(answer) => match self.pending.answer(reply.request, answer, &reply.by, false, now()) {
                Ok(effects) => self.apply(effects),
                Err(error) => debug!(request = %reply.request, by = reply.by, %error, "an answer came to nothing"),
            },
            Err(error) => {
                warn!(by = reply.by, %error, "no answer");
                let gone = matches!(error, ConsentError::Gone(_));
                if gone {
                    self.alive = self.alive.saturating_sub(1);
                }
                if current || gone {
                    self.open = self.open.saturating_sub(1);
                }
                self.apply(Vec::new());
            }
        }
    }

    fn obey(&mut self, told: Control) {
        match told {
            Control::Answer(Spoken { request, answer, by, authenticated, reply }) => {
                let says_yes = answer.says_yes();
                match self.pending.answer(request, answer, &by, authenticated, now()) {
                    Ok(effects) => {
                        if let Some(reply) = reply {
                            self.hear(&effects, &by, says_yes, reply);
                        }
                        self.apply(effects);
                    }
                    Err(error) => {
                        debug!(%request, by, %error, "an answer came to nothing");
                        if let Some(reply) = reply {
                            // Whoever answered need not wait to hear of it.
                            let _ = reply.send(Err(error));
                        }
                    }
                }
            }
            Control::Revoke(id) => {
                self.view.revoked(id);
                let _ = self.out.send(ToSession::Revoke(id));
            }
        }
    }

    /// Has whoever answered hear of it when the last of what is settled by it is on record.
    fn hear(&self, effects: &[Effect], by: &str, said_yes: bool, reply: Heard) {
        let settled = effects.iter().filter_map(|effect| match effect {
            Effect::Settle(settled) if settled.by == by => Some(settled.request.id),
            _ => None,
        });
        let settled: Vec<RequestId> = settled.collect();
        let left = Cell::new(settled.len().max(1));
        let hears = Rc::new(Hears { said_yes, left, stands: Cell::new(true), reply: Cell::new(Some(reply)) });
        if settled.is_empty() {
            // It is asked in another way from here on.
            hears.recorded(true);
        }
        self.hearing.borrow_mut().extend(settled.into_iter().map(|id| (id, Rc::clone(&hears))));
    }

    /// Denies what is shown while nobody is left to answer it, and what comes next the same way.
    fn deny_if_nobody(&mut self) {
        while let Some(id) = self.current
            && self.open == 0
        {
            let effects = self.pending.nobody(id, now());
            self.carry_out(effects);
        }
    }

    fn apply(&mut self, effects: Vec<Effect>) {
        // An answer gives all others their time anew; what comes and goes changes nothing of them.
        let all = effects.iter().any(|effect| {
            matches!(effect, Effect::Settle(settled) if settled.asked && settled.outcome != Outcome::Cancelled)
        });
        self.carry_out(effects);
        self.deny_if_nobody();
        let session = &self.config.session;
        let waiting = self.pending.leads(session);
        self.view.show(&waiting, all, |known| self.pending.prompts_but(session, known, now()));
    }

    fn carry_out(&mut self, effects: Vec<Effect>) {
        let mut batch = Vec::new();
        for effect in effects {
            match effect {
                Effect::Show(prompt) => {
                    self.current = Some(prompt.id);
                    self.open = self.alive;
                    self.prompts.send_replace(Some(Rc::from(prompt)));
                }
                Effect::Withdraw(_) => {
                    self.current = None;
                    self.prompts.send_replace(None);
                }
                Effect::Settle(settled) => batch.push(*settled),
            }
        }
        if !batch.is_empty() {
            // The other half lives as long as this one.
            let _ = self.settled.send(batch);
        }
    }
}

async fn controlled(control: Option<&mut mpsc::UnboundedReceiver<Control>>) -> Option<Control> {
    match control {
        Some(control) => control.recv().await,
        None => std::future::pending().await,
    }
}

/// The half that writes records and then tells the supervisor, until no more decisions can fall.
async fn release(
    mut settle: mpsc::UnboundedReceiver<Vec<Settled>>,
    to: mpsc::UnboundedSender<ToSession>,
    records: &Recorder,
    view: &View,
    hearing: &Hearing,
) {
    let mut decided: Vec<Vec<Settled>> = Vec::new();
    // What fell while the disk was at work goes together: one more synchronisation for all of it.
    while settle.recv_many(&mut decided, MOST_TOGETHER).await > 0 {
        let batch: Vec<Settled> = decided.drain(..).flatten().collect();
        let audit = Arc::clone(&records.audit);
        let lines: Vec<AuditRecord> = batch.iter().map(|settled| records.line(settled)).collect();
        let written = tokio::task::spawn_blocking(move || write_all(audit.as_ref(), &lines)).await.unwrap_or_default();
        for (at, mut settled) in batch.into_iter().enumerate() {
            if settled.outcome.permits() && !written.get(at).copied().unwrap_or(false) {
                settled = Settled {
                    outcome: Outcome::NotPermitted,
                    lifetime: Lifetime::Attempt,
                    grant: None,
                    by: BY_BROKER.to_owned(),
                    ..settled
                };
                // The approval may have reached the log without being certain to stay; say what became of it, if possible.
                let _ = records.audit.append(&records.line(&settled));
            }
            records.tell(&settled);
            if let Some(grant) = &settled.grant {
                view.granted(Grant::clone(grant));
            }
            // A supervisor that cancelled has no use for a decision, and one that is gone neither.
            if settled.outcome != Outcome::Cancelled {
                let _ = to.send(ToSession::Decided(decision(&settled)));
            }
            let heard = hearing.borrow_mut().remove(&settled.request.id);
            if let Some(heard) = heard {
                heard.recorded(settled.outcome.permits());
            }
            tokio::task::yield_now().await;
        }
    }
}

/// Which of the records are on disk.
fn write_all(audit: &dyn Audit, lines: &[AuditRecord]) -> Vec<bool> {
    let mut written: Vec<bool> = Vec::with_capacity(lines.len());
    for line in lines {
        let result = audit.append(line);
        if let Err(error) = &result {
            error!(MESSAGE_ID = message::AUDIT_FAILED, GATED_ERROR = %error, "a decision is not recorded");
        }
        written.push(result.is_ok());
    }
    if let Err(error) = audit.sync() {
        error!(MESSAGE_ID = message::AUDIT_FAILED, GATED_ERROR = %error, "decisions are not on disk");
        written.fill(false);
    }
    written
}

/// What the supervisor is told. One that another answer covers is an approval of this attempt: the grant itself goes with
/// the answer.
fn decision(settled: &Settled) -> Decision {
    Decision {
        request: settled.request.id,
        outcome: if settled.outcome.permits() { Outcome::Approved } else { settled.outcome },
        grant: settled.grant.as_deref().map(Grant::encode),
        authenticated: settled.authenticated,
        by: settled.by.clone(),
        edited: settled.edited.clone(),
    }
}

/// The runtime's clock, which tests can move.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
