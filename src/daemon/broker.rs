//! The broker of one session: drives [`Pending`] between the supervisor, the consent agents and the records. Embedded, it
//! runs in the client's single-threaded runtime; what can block (the disk) is done beside it.
//!
//! A decision leaves in this order: it falls in [`Pending`], its record is written and synchronised, what of it outlives the
//! session is stored, then the supervisor is told. Without the record, or the store, an approval becomes a denial.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, watch};
use tracing::{debug, error, warn};

use super::audit::Audit;
use super::denials::Denials;
use super::events::Events;
use super::keeping::{Keeper, Nowhere};
use super::muted::{BY_MUTED, Muted};
use super::newest::{Floors, Newest};
use super::pending::{Effect, MOST_OF_A_USER, Pending, Quota, Reused, SessionTerms, Settled};
use super::recorder::Recorder;
pub use super::release::Heard;
use super::release::{Hearing, Hears, release};
use super::statistics::Tally;
use super::store::Thing;
use super::view::{Known, View};
use crate::common::consent::{Answer, ConsentAgent, ConsentError, Gathers, Prompt};
use crate::common::decision::{Effect as Says, Lifetime, Outcome, Width};
use crate::common::id::{GrantId, RequestId, SessionId};
use crate::common::request::Request;
use crate::common::wire::{FromSession, RunningCall, ToSession};
use crate::policy::Grant;

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
    keeper: Rc<dyn Keeper>,
    quota: Rc<Quota>,
    tally: Option<Tally>,
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

/// What the rest of the daemon tells a broker.
#[derive(Debug)]
pub enum Control {
    Answer(Spoken),
    /// Forget a grant, from the next attempt on.
    Revoke(GrantId),
    /// One that somebody gave elsewhere, or unasked.
    Grant(Box<Grant>),
    /// Answers have to be within this ceiling from now on.
    Ceiling(Newest),
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
        let (keeper, quota) = (Rc::new(Nowhere), Quota::new(MOST_OF_A_USER));
        Broker { config, audit, events, agents, view: Rc::default(), keeper, quota, tally: None }
    }

    /// Places for what waits that the user's other sessions take as well.
    pub fn within(self, quota: Rc<Quota>) -> Broker {
        Broker { quota, ..self }
    }

    /// Let others see what waits, what was granted and what runs.
    pub fn seen_in(self, view: Rc<View>) -> Broker {
        Broker { view, ..self }
    }

    /// Keep what outlives the session.
    pub fn kept_by(self, keeper: Rc<dyn Keeper>) -> Broker {
        Broker { keeper, ..self }
    }

    /// Count what is decided.
    pub fn counted_in(self, tally: Tally) -> Broker {
        Broker { tally: Some(tally), ..self }
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
        let (view, keeper) = (Rc::clone(&self.view), Rc::clone(&self.keeper));
        let records = Recorder::new(config.session.clone(), config.user.clone(), self.audit, self.events);
        let records = records.counted_in(self.tally);
        let hearing = Hearing::default();
        let desk = Desk {
            config: &config,
            records: &records,
            view: &view,
            hearing: &hearing,
            keeper: keeper.as_ref(),
            muted: Muted::default(),
            pending: Pending::within(self.quota),
            gathers,
            prompts,
            settled,
            out: out.clone(),
            alive,
            open: 0,
            current: None,
            floors: Floors::default(),
        };
        let work = async {
            tokio::join!(
                desk.serve(from, replies, control),
                release(settle, out, &records, &view, &hearing, keeper.as_ref()),
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
    keeper: &'a dyn Keeper,
    muted: Muted,
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
    /// Of a ceiling that is newer than the session.
    floors: Floors,
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
            let counted = self.records.counted_due();
            let counted = async {
                match counted {
                    Some(at) => tokio::time::sleep_until(at.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = counted => self.records.write_counted(),
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
                if Thing::of(&request).is_some_and(|thing| self.muted.is_muted(&thing, now())) {
                    self.deny_unasked(*request);
                    return Ok(());
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
                if let Some(grant) = record.grant {
                    self.keeper.used(grant);
                }
                let written = self.records.record(&record, now());
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
            Ok(answer) => {
                let asked = self.asked(reply.request);
                match self.pending.answer(reply.request, answer.clone(), &reply.by, false, now()) {
                    Ok(effects) => {
                        self.heard(asked.as_deref(), &answer, &reply.by);
                        self.apply(effects);
                    }
                    Err(error) => debug!(request = %reply.request, by = reply.by, %error, "an answer came to nothing"),
                }
            }
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
                let asked = self.asked(request);
                match self.pending.answer(request, answer.clone(), &by, authenticated, now()) {
                    Ok(effects) => {
                        self.heard(asked.as_deref(), &answer, &by);
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
            Control::Grant(grant) if !self.floors.lets(&grant) => {
                debug!(grant = %grant.id, "the newest ceiling keeps a grant from a session");
            }
            Control::Grant(grant) => {
                if grant.effect == Says::Allow {
                    self.muted.end();
                }
                let _ = self.out.send(ToSession::Grant(grant.encode()));
                self.view.granted(*grant);
            }
            Control::Revoke(id) => {
                self.view.revoked(id);
                let _ = self.out.send(ToSession::Revoke(id));
            }
            Control::Ceiling(newest) => {
                self.floors.replace(&newest);
                self.pending.limit(&self.config.session, newest.limits);
            }
        }
    }

    /// The request behind an answer, where it was asked by itself.
    fn asked(&self, id: RequestId) -> Option<Rc<Request>> {
        let prompts = self.view.prompts.borrow();
        let prompt = prompts.iter().find(|prompt| prompt.id == id && prompt.group.is_none())?;
        Some(Rc::clone(&prompt.request))
    }

    /// Counts an answer. A person who says no three times is not asked the same again for a while; a script says so as often
    /// as it is asked.
    fn heard(&mut self, asked: Option<&Request>, answer: &Answer, by: &str) {
        let Some(request) = asked else { return };
        self.keeper.answered(request, answer, by);
        let Some(thing) = Thing::of(request) else { return };
        if answer.says_yes() {
            self.muted.allowed(&thing);
        } else if matches!(answer, Answer::Deny | Answer::Block(..))
            && !by.starts_with("script:")
            && self.muted.denied(&thing, now())
        {
            self.records.muted(request);
        }
    }

    /// What nobody is asked about for a while.
    fn deny_unasked(&self, request: Request) {
        let settled = Settled {
            request: Rc::new(request),
            outcome: Outcome::Denied,
            lifetime: Lifetime::Attempt,
            width: Width::Exact,
            grant: None,
            authenticated: false,
            by: BY_MUTED.to_owned(),
            edited: None,
            waited: Duration::ZERO,
            asked: false,
        };
        // The other half lives as long as this one.
        let _ = self.settled.send(vec![settled]);
    }

    /// Has whoever answered hear of it when the last of what is settled by it is on record.
    fn hear(&self, effects: &[Effect], by: &str, said_yes: bool, reply: Heard) {
        let settled = effects.iter().filter_map(|effect| match effect {
            Effect::Settle(settled) if settled.by == by => Some(settled.request.id),
            _ => None,
        });
        let settled: Vec<RequestId> = settled.collect();
        let hears = Rc::new(Hears::new(said_yes, settled.len(), reply));
        if settled.is_empty() {
            // It is asked in another way from here on.
            hears.recorded(true, false);
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
        let (pending, keeper) = (&mut self.pending, self.keeper);
        let anew = |known: &Known<'_>| {
            let prompts = pending.prompts_but(session, known, now());
            prompts.into_iter().map(|prompt| informed(keeper, prompt)).collect()
        };
        self.view.show(&waiting, all, anew);
    }

    fn carry_out(&mut self, effects: Vec<Effect>) {
        let mut batch = Vec::new();
        for effect in effects {
            match effect {
                Effect::Show(prompt) => {
                    self.current = Some(prompt.id);
                    self.open = self.alive;
                    let prompt = informed(self.keeper, *prompt);
                    self.prompts.send_replace(Some(Rc::new(prompt)));
                }
                Effect::Withdraw(_) => {
                    self.current = None;
                    self.prompts.send_replace(None);
                }
                Effect::Settle(settled) => batch.push(self.floors.uphold(*settled)),
            }
        }
        if !batch.is_empty() {
            // The other half lives as long as this one.
            let _ = self.settled.send(batch);
        }
    }
}

/// A prompt with what is known of earlier answers.
fn informed(keeper: &dyn Keeper, prompt: Prompt) -> Prompt {
    let suggestion = keeper.suggestion(&prompt);
    Prompt { suggestion, ..prompt }
}

async fn controlled(control: Option<&mut mpsc::UnboundedReceiver<Control>>) -> Option<Control> {
    match control {
        Some(control) => control.recv().await,
        None => std::future::pending().await,
    }
}

/// The runtime's clock, which tests can move.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
