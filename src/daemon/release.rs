//! The half of a broker that writes down what was decided, stores what outlives the session, and releases it to the supervisor and
//! to whoever answered. What it does in this order is what makes a decision one: see [`super::broker`]. Runs where the broker
//! does; what waits for the disk does so on a thread of its own.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use tracing::error;

use super::audit::{Audit, AuditRecord};
use super::keeping::Keeper;
use super::message;
use super::pending::{AnswerError, BY_BROKER, Settled};
use super::recorder::Recorder;
use super::view::View;
use crate::common::decision::{Decision, Lifetime, Outcome};
use crate::common::id::{GrantId, RequestId};
use crate::common::wire::ToSession;
use crate::policy::Grant;

/// Decisions of one moment that are recorded together with those of others at the most.
const MOST_TOGETHER: usize = 16;

/// Who waits to hear what came of an answer.
pub type Heard = oneshot::Sender<Result<(), AnswerError>>;

/// Those whose answers are being recorded, by the requests that are settled by them.
pub(super) type Hearing = RefCell<HashMap<RequestId, Rc<Hears>>>;

/// Somebody who gave an answer.
pub(super) struct Hears {
    said_yes: bool,
    /// Requests that are still to be recorded.
    left: Cell<usize>,
    /// Whether none of them was turned down so far.
    stands: Cell<bool>,
    reply: Cell<Option<Heard>>,
}

impl Hears {
    /// Of an answer that settles so many requests.
    pub(super) fn new(said_yes: bool, settles: usize, reply: Heard) -> Hears {
        let (left, stands, reply) = (Cell::new(settles.max(1)), Cell::new(true), Cell::new(Some(reply)));
        Hears { said_yes, left, stands, reply }
    }

    /// The end of one of the requests is on record; `is_lost`: what was to outlive the session is not stored.
    pub(super) fn recorded(&self, permits: bool, is_lost: bool) {
        self.stands.set(self.stands.get() && if self.said_yes { permits } else { !is_lost });
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

/// The half that writes records and then tells the supervisor, until no more decisions can fall.
pub(super) async fn release(
    mut settle: mpsc::UnboundedReceiver<Vec<Settled>>,
    to: mpsc::UnboundedSender<ToSession>,
    records: &Recorder,
    view: &View,
    hearing: &Hearing,
    keeper: &dyn Keeper,
) {
    let mut decided: Vec<Vec<Settled>> = Vec::new();
    // What fell while the disk was at work goes together: one more synchronisation for all of it.
    while settle.recv_many(&mut decided, MOST_TOGETHER).await > 0 {
        let batch: Vec<Settled> = decided.drain(..).flatten().collect();
        let audit = Arc::clone(&records.audit);
        let now = tokio::time::Instant::now().into_std();
        let lines: Vec<Option<AuditRecord>> =
            batch.iter().map(|settled| records.line_unless_counted(settled, now)).collect();
        let written = tokio::task::spawn_blocking(move || write_all(audit.as_ref(), &lines)).await.unwrap_or_default();
        let stands =
            |at: usize, settled: &Settled| !settled.outcome.permits() || written.get(at).copied().unwrap_or(false);
        let recorded = batch.iter().enumerate().filter(|(at, settled)| stands(*at, settled));
        let mut kept = keep(keeper, recorded.filter_map(|(_, settled)| settled.grant.as_ref())).await;
        for (at, mut settled) in batch.into_iter().enumerate() {
            let lasting = settled.grant.as_ref().and_then(|grant| kept.get_mut(&grant.id));
            // A no that cannot be stored holds for the session, which is not what whoever said it wanted.
            let is_lost = matches!(lasting, Some(None));
            if let Some(Some(grant)) = lasting {
                settled.grant = Some(Rc::clone(grant));
            }
            if settled.outcome.permits() && (is_lost || !written.get(at).copied().unwrap_or(false)) {
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
                heard.recorded(settled.outcome.permits(), is_lost);
            }
            tokio::task::yield_now().await;
        }
    }
}

/// Stores those of the grants that outlive the session, each once; by its name what became of it.
async fn keep(keeper: &dyn Keeper, grants: impl Iterator<Item = &Rc<Grant>>) -> HashMap<GrantId, Option<Rc<Grant>>> {
    let mut lasting: Vec<Rc<Grant>> = Vec::new();
    for grant in grants.filter(|grant| grant.lifetime > Lifetime::Session) {
        if !lasting.iter().any(|known| known.id == grant.id) {
            lasting.push(Rc::clone(grant));
        }
    }
    if lasting.is_empty() {
        return HashMap::new();
    }
    let ids: Vec<GrantId> = lasting.iter().map(|grant| grant.id).collect();
    ids.into_iter().zip(keeper.keep(lasting).await).collect()
}

/// Which of the records are on disk. Those that are counted with others are refusals, of which nothing depends on that.
fn write_all(audit: &dyn Audit, lines: &[Option<AuditRecord>]) -> Vec<bool> {
    let mut written: Vec<bool> = Vec::with_capacity(lines.len());
    for line in lines {
        let result = line.as_ref().map_or(Ok(()), |line| audit.append(line));
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
