//! The supervisor's side of the broker: questions and records go out, answers come back to whoever waits.
//!
//! Runs as the user. A broker that is gone answers nothing: everybody who waits is denied, and nothing else is asked.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::common::decision::Decision;
use crate::common::id::RequestId;
use crate::common::request::Request;
use crate::common::wire::{FromSession, Record};

/// The way to the broker. `false` when it is gone.
pub type Send = dyn Fn(&FromSession) -> bool + std::marker::Send + Sync;

/// Questions that may be open at once in a session; a tool that wants more is denied.
pub const OPEN_QUESTIONS: usize = 64;

/// The broker cannot be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unasked {
    /// It is gone.
    NoBroker,
    /// [`OPEN_QUESTIONS`] are open.
    TooMany,
}

/// Messages under way in both directions.
pub struct Upstream {
    send: Box<Send>,
    questions: Mutex<HashMap<RequestId, SyncSender<Decision>>>,
    records: Mutex<HashMap<u64, SyncSender<bool>>>,
    next_record: AtomicU64,
    gone: AtomicBool,
}

impl Upstream {
    pub fn new(send: Box<Send>) -> Upstream {
        Upstream {
            send,
            questions: Mutex::default(),
            records: Mutex::default(),
            next_record: AtomicU64::new(1),
            gone: AtomicBool::new(false),
        }
    }

    /// Sends something that is not answered.
    pub fn tell(&self, message: &FromSession) -> bool {
        (self.send)(message)
    }

    /// Asks. The receiver yields the decision; it fails when the broker goes.
    pub fn ask(&self, request: Request) -> Result<Receiver<Decision>, Unasked> {
        let (answer, receiver) = sync_channel(1);
        let id = request.id;
        {
            let mut questions = locked(&self.questions);
            if questions.len() >= OPEN_QUESTIONS {
                return Err(Unasked::TooMany);
            }
            questions.insert(id, answer);
        }
        if self.is_gone() || !(self.send)(&FromSession::Ask(Box::new(request))) {
            locked(&self.questions).remove(&id);
            return Err(Unasked::NoBroker);
        }
        Ok(receiver)
    }

    /// Takes a question back.
    pub fn withdraw(&self, request: RequestId) {
        if locked(&self.questions).remove(&request).is_some() {
            (self.send)(&FromSession::Cancel(request));
        }
    }

    /// Waits until the broker has written this record; `false` if it has not, and then what it tells of must not happen.
    pub fn record(&self, record: impl FnOnce(u64) -> Record) -> bool {
        let number = self.next_record.fetch_add(1, Ordering::Relaxed);
        let (written, receiver) = sync_channel(1);
        locked(&self.records).insert(number, written);
        let sent = !self.is_gone() && (self.send)(&FromSession::Record(Box::new(record(number))));
        let written = sent && receiver.recv().unwrap_or(false);
        locked(&self.records).remove(&number);
        written
    }

    /// The broker's decision. One for a question that nobody waits for any more means nothing.
    pub fn decided(&self, decision: Decision) {
        let waiting = locked(&self.questions).remove(&decision.request);
        if let Some(waiting) = waiting {
            let _ = waiting.try_send(decision);
        }
    }

    /// The broker's word on a record.
    pub fn recorded(&self, number: u64, written: bool) {
        let waiting = locked(&self.records).remove(&number);
        if let Some(waiting) = waiting {
            let _ = waiting.try_send(written);
        }
    }

    /// The broker is gone: everybody who waits is told so.
    pub fn disconnected(&self) {
        self.gone.store(true, Ordering::SeqCst);
        locked(&self.questions).clear();
        locked(&self.records).clear();
    }

    fn is_gone(&self) -> bool {
        self.gone.load(Ordering::SeqCst)
    }
}

/// What a mutex guards is whole between statements here, so a thread that died with it held leaves nothing half done.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
