//! A call from its start to the end of its command: what its leader says goes to the caller, what the caller says to the leader.
//! Runs as the user in the supervisor, a thread for each call; the caller may be a tool inside.

use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};

use super::agents::has_calls_by_child;
use super::calls::Place;
use super::life::{CallerLink, Session};
use super::start::{Order, Started, start};
use crate::common::id::CallId;
use crate::common::wire::{Ended, FromCaller, ToCaller};
use crate::tool::messages::{FromCall, ToCall};

/// How long a caller may take for one message in either direction.
pub const CALLERS_PATIENCE: Duration = Duration::from_secs(5);

/// How a call ended for its caller.
enum End {
    Of(Ended),
    Failed(String),
    /// The caller went first; all of the call is killed.
    NoCaller,
}

/// The whole of a call, as its caller sees it.
pub fn run(session: &Session, place: Place, order: Order, caller: &CallerLink) {
    let number = place.id;
    match start(session, place, order, caller) {
        Ok(started) => {
            let end = attend(session, number, started, caller);
            let ended = if let End::Of(ended) = end { ended } else { Ended::Signaled(libc::SIGKILL) };
            session.call_ended(number, ended);
            // A caller that is gone needs no word.
            let _ = match end {
                End::Of(ended) => caller.send(&ToCaller::Ended(ended), &[]),
                End::Failed(text) => caller.send(&ToCaller::Failed(text), &[]),
                End::NoCaller => Ok(()),
            };
        }
        Err(error) => {
            let _ = caller.send(&ToCaller::Failed(error.to_string()), &[]);
        }
    }
    caller.close();
    session.caller_left(number);
}

/// Until the leader has said its last word. When the caller goes first, the leader is to end the call.
fn attend(session: &Session, number: CallId, started: Started, caller: &CallerLink) -> End {
    let Started { link: call, opening, mut start } = started;
    let mut is_wanted = true;
    loop {
        let mut polled = [PollFd::new(&*call, PollFlags::IN), PollFd::new(caller, PollFlags::IN)];
        let listened_to = if is_wanted { 2 } else { 1 };
        match poll(polled.get_mut(..listened_to).unwrap_or_default(), None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return End::Failed(format!("the call cannot be watched: {errno}")),
        }
        let [from_leader, from_caller] = polled.map(|one| !one.revents().is_empty());
        let mut leaves = false;
        if from_leader {
            match call.receive().map(|received| received.map(|received| received.message)) {
                Ok(Some(FromCall::Stopped(signal))) => leaves = caller.send(&ToCaller::Stopped(signal), &[]).is_err(),
                Ok(Some(FromCall::Ended(ended))) => return End::Of(ended),
                Ok(Some(FromCall::NotExecuted(errno))) => return End::Of(Ended::NotExecuted(errno)),
                Ok(Some(FromCall::Cancelled)) => {
                    // Nothing, where the kernel itself said so.
                    start.command = opening.take_edited().unwrap_or_default();
                    opening.set_by_child(has_calls_by_child(session.profile(), &start));
                    drop(call.send(&ToCall::Instead(start.command.clone()), &[]));
                }
                Ok(Some(FromCall::Failed(text))) => return End::Failed(text),
                Ok(Some(FromCall::Killed)) if is_wanted => {
                    return End::Failed("the call was ended with the one that started it".into());
                }
                Ok(Some(FromCall::Killed)) => return End::NoCaller,
                Ok(Some(FromCall::Trapped)) => return End::Failed("the call sent a second listener".into()),
                Ok(None) | Err(_) => {
                    session.lost("the leader of a call");
                    return End::Failed("the call's leader was ended".into());
                }
            }
        } else if from_caller {
            // A leader that cannot be told has ended, which it says itself.
            match caller.receive().map(|received| received.map(|received| received.message)) {
                Ok(Some(FromCaller::Signal(number))) => drop(call.send(&ToCall::Signal(number), &[])),
                Ok(Some(FromCaller::Continue)) => drop(call.send(&ToCall::Continue, &[])),
                // Anything that makes no sense is the end as well.
                Ok(Some(FromCaller::Start(_)) | None) | Err(_) => leaves = true,
            }
        }
        if leaves && is_wanted {
            is_wanted = false;
            caller.close();
            session.kin().unwanted(number);
        }
    }
}
