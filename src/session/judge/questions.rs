//! The questions of a judge: put to the broker, waited for, and kept a while for a thread that had to look at a signal.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::{By, Halt, Judge, Wanted};
use crate::common::access::Level;
use crate::common::decision::{Decision, Outcome};
use crate::common::errno::Errno;
use crate::common::exec::Command;
use crate::common::id::RequestId;
use crate::common::net::Destination;
use crate::common::path::RawPath;
use crate::common::request::{Operation, Request};
use crate::policy::decide::Verdict;
use crate::policy::network::Reaching;
use crate::session::held::Held;
use crate::session::listener::Answer;
use crate::session::upstream::Unasked;
use crate::session::wanted::{execution_of, who_of};

/// How long a question stays open when its thread has gone to run a signal handler: with `SA_RESTART` it comes back with
/// the same attempt at once, and the person who reads the prompt should not see it go and come.
const PARKED: Duration = Duration::from_secs(1);

/// How often a held thread is looked at for signals.
const POLL: Duration = Duration::from_millis(50);

/// A question whose thread may come back: its thread, what it wants, and where.
#[derive(PartialEq, Eq, Hash)]
pub(super) struct Asker {
    thread: i32,
    operation: Operation,
    object: RawPath,
    command: Option<Arc<Command>>,
}

/// A question that is open at the broker.
pub(super) struct Question {
    request: Arc<Request>,
    answer: Receiver<Decision>,
    /// What the request was made of.
    wanted: Wanted,
    verdict: Verdict,
}

impl Question {
    fn is_about(&self, wanted: &Wanted, verdict: &Verdict) -> bool {
        self.wanted == *wanted && (self.verdict.level, self.verdict.basis) == (verdict.level, verdict.basis)
    }
}

impl Judge {
    /// Holds the thread until somebody answers. `Ok` means yes.
    pub(super) fn ask(&self, target: &dyn Held, wanted: &Wanted, verdict: &Verdict) -> Result<(), Halt> {
        let asker = Asker {
            thread: target.thread(),
            operation: wanted.operation,
            object: wanted.object.clone(),
            command: wanted.command.clone(),
        };
        let parked = self.parked().remove(&asker).map(|(_, question)| question);
        let question = match parked {
            // A thread's number may have become another's, and its handler may have written another address into its
            // memory: what was shown is what it wants now, whole, and by the same rule, or it is asked anew.
            Some(question) if question.is_about(wanted, verdict) && question.request.who == who_of(target, wanted)? => {
                question
            }
            Some(other) => {
                self.upstream.withdraw(other.request.id);
                self.put_question(target, wanted, verdict)?
            }
            None => self.put_question(target, wanted, verdict)?,
        };
        target.takes_long();
        let decision = loop {
            match question.answer.recv_timeout(POLL) {
                Ok(decision) => break decision,
                Err(RecvTimeoutError::Disconnected) => return Err(Errno::ACCES.into()),
                Err(RecvTimeoutError::Timeout) => match target.look() {
                    Ok(()) => {}
                    Err(halt @ Halt::Answer(Answer::Restart)) => {
                        self.parked().insert(asker, (Instant::now(), question));
                        return Err(halt);
                    }
                    Err(halt) => {
                        self.upstream.withdraw(question.request.id);
                        return Err(halt);
                    }
                },
            }
        };
        if let (Outcome::Edited, Some(argv)) = (decision.outcome, decision.edited) {
            return Err(target.edited(argv));
        }
        // Whoever would only take a proven answer takes no other, whatever the broker holds for one.
        let suffices = verdict.level < Level::Authenticate || decision.authenticated;
        if decision.outcome == Outcome::Approved && suffices { Ok(()) } else { Err(Errno::ACCES.into()) }
    }

    fn put_question(&self, target: &dyn Held, wanted: &Wanted, verdict: &Verdict) -> Result<Question, Halt> {
        let (call, who) = (target.call_id()?, who_of(target, wanted)?);
        // A person is asked about what the verdict is about, and by a name only where one gives anything.
        let destination = wanted.destination.as_deref().map(|destination| {
            let program = || Some(who.program.clone());
            let grants = self.grants.read().unwrap_or_else(PoisonError::into_inner);
            self.policy.as_asked(wanted.access, &Reaching { destination, program: &program }, call, &grants)
        });
        let request = Request {
            id: RequestId::random().map_err(|_| Errno::ACCES)?,
            session: self.session.clone(),
            call,
            who,
            access: wanted.access,
            operation: wanted.operation,
            object: destination.as_ref().map_or_else(|| wanted.object.clone(), Destination::object),
            is_directory: wanted.is_directory,
            other: wanted.other.clone(),
            level: verdict.level,
            rule: self.policy.rule(verdict),
            remember: self.policy.remember(verdict),
            remember_for: self.policy.remember_for(verdict),
            group: self.policy.group(verdict).map(str::to_owned),
            execution: execution_of(target, wanted)?,
            destination: destination.map(Box::new),
            service: wanted.service,
        };
        let request = Arc::new(request);
        match self.upstream.ask(Arc::clone(&request)) {
            Ok(answer) => Ok(Question { request, answer, wanted: wanted.clone(), verdict: *verdict }),
            Err(Unasked::NoBroker) => Err(Errno::ACCES.into()),
            Err(Unasked::TooMany) => {
                self.record(
                    target,
                    wanted,
                    verdict,
                    request.call,
                    Outcome::NotPermitted,
                    By { grant: None, who: "broker".to_owned() },
                )?;
                Err(Errno::ACCES.into())
            }
        }
    }

    /// Takes back the questions whose threads have not come back. Says whether there are others still.
    pub fn take_back_parked(&self) -> bool {
        let mut parked = self.parked();
        let late: Vec<Question> =
            parked.extract_if(|_, (since, _)| since.elapsed() > PARKED).map(|(_, (_, question))| question).collect();
        let others = !parked.is_empty();
        drop(parked);
        for question in late {
            self.upstream.withdraw(question.request.id);
        }
        others
    }

    fn parked(&self) -> MutexGuard<'_, HashMap<Asker, (Instant, Question)>> {
        self.parked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
