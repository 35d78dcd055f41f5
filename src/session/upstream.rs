//! The supervisor's side of the broker: questions and records go out, answers come back to whoever waits.
//!
//! Runs as the user. A broker that is gone answers nothing: everybody who waits is denied, and nothing is asked until there is
//! one again.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::common::decision::Decision;
use crate::common::id::RequestId;
use crate::common::request::Request;
use crate::common::wire::{FromSession, Record, ToSession};
use crate::tool::link::Link;

/// The supervisor's link to the broker.
pub type BrokerLink = Link<FromSession, ToSession>;

/// Questions that may be open at once in a session; a tool that wants more is denied.
pub const OPEN_QUESTIONS: usize = 1024;

/// The broker cannot be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unasked {
    /// It is gone.
    NoBroker,
    /// [`OPEN_QUESTIONS`] are open.
    TooMany,
}

/// A question that nobody has answered yet.
pub struct Question {
    pub request: Arc<Request>,
    answer: SyncSender<Decision>,
}

impl Question {
    /// To whoever waits; nobody may.
    pub fn answer(self, decision: Decision) {
        let _ = self.answer.try_send(decision);
    }
}

/// Messages under way in both directions.
#[derive(Default)]
pub struct Upstream {
    /// While there is a broker.
    link: Mutex<Option<Arc<BrokerLink>>>,
    questions: Mutex<HashMap<RequestId, Question>>,
    records: Mutex<HashMap<u64, SyncSender<bool>>>,
    next_record: AtomicU64,
}

impl Upstream {
    pub fn connected(&self, link: Arc<BrokerLink>) {
        *locked(&self.link) = Some(link);
    }

    /// The broker is gone: everybody who waits is told so.
    pub fn disconnected(&self) {
        // Whoever has taken the link out already cannot send on it from here on, so nothing that is put into the lists after
        // they were cleared stays there.
        if let Some(link) = locked(&self.link).take() {
            link.close();
        }
        locked(&self.questions).clear();
        locked(&self.records).clear();
    }

    fn link(&self) -> Option<Arc<BrokerLink>> {
        locked(&self.link).clone()
    }

    /// Sends something that is not answered; a broker that is gone does not miss it.
    pub fn tell(&self, message: &FromSession) {
        if let Some(link) = self.link() {
            let _ = link.send(message, &[]);
        }
    }

    /// Asks. The receiver yields the decision; it fails when the broker goes.
    pub fn ask(&self, request: Arc<Request>) -> Result<Receiver<Decision>, Unasked> {
        let link = self.link().ok_or(Unasked::NoBroker)?;
        let (answer, receiver) = sync_channel(1);
        let id = request.id;
        {
            let mut questions = locked(&self.questions);
            if questions.len() >= OPEN_QUESTIONS {
                return Err(Unasked::TooMany);
            }
            questions.insert(id, Question { request: Arc::clone(&request), answer });
        }
        if link.send(&FromSession::Ask(Box::new(Request::clone(&request))), &[]).is_err() {
            locked(&self.questions).remove(&id);
            return Err(Unasked::NoBroker);
        }
        Ok(receiver)
    }

    /// Takes a question back.
    pub fn withdraw(&self, request: RequestId) {
        if self.answered(request).is_some() {
            self.tell(&FromSession::Cancel(request));
        }
    }

    /// Takes a question that the broker has decided, or that is not to be asked any more; `None` if nobody waits for it.
    pub fn answered(&self, request: RequestId) -> Option<Question> {
        locked(&self.questions).remove(&request)
    }

    /// Waits until the broker has written this record; `false` if it has not, and then what it tells of must not happen.
    pub fn record(&self, record: impl FnOnce(u64) -> Record) -> bool {
        let Some(link) = self.link() else { return false };
        let number = self.next_record.fetch_add(1, Ordering::Relaxed);
        let (written, receiver) = sync_channel(1);
        locked(&self.records).insert(number, written);
        let sent = link.send(&FromSession::Record(Box::new(record(number))), &[]).is_ok();
        let written = sent && receiver.recv().unwrap_or(false);
        locked(&self.records).remove(&number);
        written
    }

    /// The broker's word on a record.
    pub fn recorded(&self, number: u64, written: bool) {
        let waiting = locked(&self.records).remove(&number);
        if let Some(waiting) = waiting {
            let _ = waiting.try_send(written);
        }
    }
}

/// What a mutex guards is whole between statements here, so a thread that died with it held leaves nothing half done.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
