//! A session's life once it is built: what the broker says goes to the call or to the trap loop, what the call's leader says goes
//! to the broker. Runs as the user, without capabilities; ends by killing the session's init, with which everything dies.

use std::sync::Arc;
use std::thread;

use super::launch::{BrokerLink, CallLink, Session};
use crate::common::decision::Decision;
use crate::common::id::CallId;
use crate::common::path::RawPath;
use crate::common::text::Untrusted;
use crate::common::wire::{Ended, FromSession, ToSession};
use crate::tool::messages::{FromCall, ToCall};

/// The first call of every session.
pub const FIRST_CALL: CallId = CallId(1);

/// What a session's trap loop is told.
pub trait Answers: Send + Sync {
    fn decided(&self, decision: Decision);
    /// The record with this number is on disk, or cannot be.
    fn recorded(&self, number: u64, written: bool);
    /// Nobody will answer any more.
    fn gone(&self);
}

/// Run the session until its first command has ended, the broker says stop, or either is gone. The listener must be served
/// by now: the command is told to go first thing.
pub fn run(session: Session, answers: Arc<dyn Answers>) {
    let Session { launch, broker, init, call, main_pid, .. } = session;
    let argv = launch.command.iter().take(64).map(|word| Untrusted::new(word.get(..4096).unwrap_or(word))).collect();
    let program = launch.command.first().cloned().map(RawPath::new).unwrap_or_default();
    let started = FromSession::CallStarted { call: FIRST_CALL, pid: main_pid, program, argv };
    if broker.send(&started, &[]).is_ok() && call.send(&ToCall::Go, &[]).is_ok() {
        let listening = {
            let (broker, call) = (Arc::clone(&broker), Arc::clone(&call));
            thread::Builder::new().name("broker".into()).spawn(move || obey(&broker, &call, answers.as_ref()))
        };
        if listening.is_ok() {
            report(&broker, &call);
        }
    }
    // Even if it cannot be killed here: it dies with this process.
    let _ = init.kill();
    broker.close();
}

/// Until the broker is gone or says stop; the call's link is closed then, which ends [`report`].
fn obey(broker: &BrokerLink, call: &CallLink, answers: &dyn Answers) {
    // Anything that is no frame is the end as well.
    while let Ok(Some(received)) = broker.receive() {
        let passed = match received.message {
            ToSession::Decided(decision) => {
                answers.decided(decision);
                Ok(())
            }
            ToSession::Recorded(number, written) => {
                answers.recorded(number, written);
                Ok(())
            }
            ToSession::Signal(number) => call.send(&ToCall::Signal(number), &[]),
            ToSession::Continue => call.send(&ToCall::Continue, &[]),
            // The client has the terminal's master and sets its size itself; and a second launch is nonsense.
            ToSession::Resize(_) | ToSession::Launch(_) | ToSession::Stop => break,
        };
        if passed.is_err() {
            break;
        }
    }
    answers.gone();
    call.close();
}

/// Until the command has ended or the link is closed.
fn report(broker: &BrokerLink, call: &CallLink) {
    let end = |ended| FromSession::CallEnded { call: FIRST_CALL, ended };
    loop {
        let message = match call.receive() {
            Ok(Some(received)) => match received.message {
                FromCall::Stopped(signal) => FromSession::Stopped(signal),
                FromCall::Ended(ended) => end(ended),
                FromCall::NotExecuted(errno) => end(Ended::NotExecuted(errno)),
                FromCall::Failed(text) => FromSession::Failed(text),
                FromCall::Trapped => FromSession::Failed("the call sent a second listener".into()),
            },
            Ok(None) => FromSession::Failed("the session was ended".into()),
            Err(error) => FromSession::Failed(format!("the call's leader: {error}")),
        };
        let is_last = !matches!(message, FromSession::Stopped(_));
        if broker.send(&message, &[]).is_err() || is_last {
            return;
        }
    }
}
