//! A call from its start to the end of its command: what its leader says goes to the caller, what the caller says to the leader.
//! Runs as the user in the supervisor, a thread for each call; the caller may be a tool inside.

use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};

use super::calls::Place;
use super::life::{CallerLink, Session};
use super::start::{CallLink, Order, start};
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
        Ok(call) => {
            let end = attend(&call, caller);
            if matches!(end, End::NoCaller) {
                session.kin().unwanted(number);
            }
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

/// Until the command has ended or somebody is gone. The leader sees the end of its link, and ends the call if that comes first.
fn attend(call: &CallLink, caller: &CallerLink) -> End {
    loop {
        let mut polled = [PollFd::new(call, PollFlags::IN), PollFd::new(caller, PollFlags::IN)];
        match poll(&mut polled, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return End::Failed(format!("the call cannot be watched: {errno}")),
        }
        let [from_leader, from_caller] = polled.map(|one| !one.revents().is_empty());
        if from_leader {
            match call.receive().map(|received| received.map(|received| received.message)) {
                Ok(Some(FromCall::Stopped(signal))) => {
                    if caller.send(&ToCaller::Stopped(signal), &[]).is_err() {
                        return End::NoCaller;
                    }
                }
                Ok(Some(FromCall::Ended(ended))) => return End::Of(ended),
                Ok(Some(FromCall::NotExecuted(errno))) => return End::Of(Ended::NotExecuted(errno)),
                Ok(Some(FromCall::Failed(text))) => return End::Failed(text),
                Ok(Some(FromCall::Trapped)) => return End::Failed("the call sent a second listener".into()),
                Ok(None) => return End::Failed("the call's leader was ended".into()),
                Err(error) => return End::Failed(format!("the call's leader: {error}")),
            }
        } else if from_caller {
            let passed = match caller.receive().map(|received| received.map(|received| received.message)) {
                Ok(Some(FromCaller::Signal(number))) => call.send(&ToCall::Signal(number), &[]),
                Ok(Some(FromCaller::Continue)) => call.send(&ToCall::Continue, &[]),
                // Anything that makes no sense is the end as well.
                Ok(Some(FromCaller::Start(_)) | None) | Err(_) => return End::NoCaller,
            };
            if let Err(error) = passed {
                return End::Failed(format!("the call's leader: {error}"));
            }
        }
    }
}
