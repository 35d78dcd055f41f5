//! Writes down what happens in one session: audit log, events, and what the client says at the end. Runs in the broker; the
//! words are a tool's and are escaped in [`super::record`].

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Instant;

use tracing::error;

use super::audit::{Audit, AuditRecord};
use super::denials::{Attempt, Denials};
use super::endings::Sentence;
use super::events::{Event, Events};
use super::muted::BY_MUTED;
use super::pending::{BY_BROKER, Settled};
use super::record::{self, Exec, Reach, Rule, Tool};
use super::refusals::Refusals;
use super::statistics::Tally;
use crate::common::access::Level;
use crate::common::decision::Outcome;
use crate::common::id::{CallId, SessionId};
use crate::common::net::Service;
use crate::common::path::RawPath;
use crate::common::request::Request;
use crate::common::text::Untrusted;
use crate::common::wire::{Ended, Record};

/// The records of one session.
pub struct Recorder {
    session: SessionId,
    user: String,
    pub audit: Arc<dyn Audit>,
    events: RefCell<Events>,
    denials: RefCell<Denials>,
    refusals: RefCell<Refusals>,
    /// Where they are counted as well.
    tally: Option<Tally>,
}

impl Recorder {
    pub fn new(session: SessionId, user: String, audit: Arc<dyn Audit>, events: Events) -> Recorder {
        let (denials, refusals) = Default::default();
        Recorder { session, user, audit, events: RefCell::new(events), denials, refusals, tally: None }
    }

    pub fn counted_in(self, tally: Option<Tally>) -> Recorder {
        Recorder { tally, ..self }
    }

    /// The end of the records: waits for the events as [`Events::close`] does.
    pub fn close(self) -> Denials {
        self.write_counted();
        self.events.into_inner().close();
        self.denials.into_inner()
    }

    pub fn emit(&self, event: &Event) {
        self.events.borrow_mut().emit(event);
    }

    pub fn call_started(&self, call: CallId, pid: i32, program: &RawPath, argv: &[Untrusted]) {
        self.emit(&Event {
            pid: Some(pid),
            program: Some(record::path(program)),
            argv: Some(record::argv(argv)),
            ..self.event("call_started", call)
        });
    }

    pub fn call_ended(&self, call: CallId, ended: Ended) {
        let mut event = self.event("call_ended", call);
        match ended {
            Ended::Exited(code) => event.exit_code = Some(code),
            Ended::Signaled(signal) => event.signal = Some(signal),
            Ended::NotExecuted(errno) => event.exec_errno = Some(errno),
        }
        self.emit(&event);
    }

    /// The event of a request that waits for an answer.
    pub fn required(&self, request: &Request) -> Event {
        self.of_request("consent_required", request)
    }

    /// What is not asked again for a while.
    pub fn muted(&self, request: &Request) {
        self.emit(&self.of_request("muted", request));
        tracing::info!(
            MESSAGE_ID = super::message::REQUEST_MUTED,
            GATED_SESSION = %self.session,
            GATED_REQUEST = %request.id,
            GATED_USER = self.user,
            GATED_PROGRAM = record::path(&request.who.program),
            GATED_OPERATION = request.operation.as_str(),
            GATED_OBJECT = record::path(&request.object),
            "turned down three times; denied without a question for a while"
        );
    }

    fn event(&self, event: &'static str, call: CallId) -> Event {
        let session = self.session.0.clone();
        Event { time: record::now(), event, session, call: call.0, ..Event::default() }
    }

    fn of_request(&self, event: &'static str, request: &Request) -> Event {
        Event {
            request: Some(request.id.to_string()),
            pid: Some(request.who.pid),
            program: Some(record::path(&request.who.program)),
            argv: Some(record::argv(&request.who.argv)),
            access: Some(request.access.as_str()),
            operation: Some(request.operation.as_str()),
            object: Some(record::path(&request.object)),
            other: request.other.as_ref().map(record::path),
            exec: request.execution.as_deref().map(Exec::of),
            destination: request.destination.as_deref().map(Reach::of),
            service: request.service.map(Service::as_str),
            rule: Some(Rule::of(&request.rule)),
            ..self.event(event, request.call)
        }
    }

    /// The record of a decision, as of now.
    pub fn line(&self, settled: &Settled) -> AuditRecord {
        let request = &settled.request;
        let permits = settled.outcome.permits();
        AuditRecord {
            time: record::now(),
            session: self.session.0.clone(),
            call: request.call.0,
            request: Some(request.id.to_string()),
            user: self.user.clone(),
            tool: Tool::of(&request.who),
            access: request.access.as_str(),
            operation: request.operation.as_str(),
            object: record::path(&request.object),
            other: request.other.as_ref().map(record::path),
            exec: request.execution.as_deref().map(Exec::of),
            destination: request.destination.as_deref().map(Reach::of),
            service: request.service.map(Service::as_str),
            rule: Rule::of(&request.rule),
            result: settled.outcome.as_str(),
            would: None,
            edited: edited(settled),
            answered_by: settled.by.clone(),
            duration_ms: milliseconds(settled),
            scope: permits.then(|| settled.width.as_str()),
            lifetime: permits.then(|| settled.lifetime.as_str()),
            times: None,
            various: false,
        }
    }

    /// The same, if it is to be recorded by itself: what nobody was asked for, or nobody could answer, is counted where it
    /// comes too often.
    pub fn line_unless_counted(&self, settled: &Settled, now: Instant) -> Option<AuditRecord> {
        let line = self.line(settled);
        let is_answered = settled.asked && ![BY_BROKER, BY_MUTED].contains(&settled.by.as_str());
        if settled.outcome.permits() || is_answered { Some(line) } else { self.refusals.borrow_mut().take(line, now) }
    }

    /// When [`Recorder::write_counted`] is to be called.
    pub fn counted_due(&self) -> Option<Instant> {
        self.refusals.borrow().due()
    }

    /// Writes how often was refused what is not recorded one by one.
    pub fn write_counted(&self) {
        let counted = self.refusals.borrow_mut().counted();
        for line in counted {
            self.append(&line);
        }
    }

    fn append(&self, line: &AuditRecord) -> bool {
        let written = self.audit.append(line);
        if let Err(error) = &written {
            error!(MESSAGE_ID = super::message::AUDIT_FAILED, GATED_ERROR = %error, "a verdict is not recorded");
        }
        written.is_ok()
    }

    /// Writes what the supervisor decided by itself; `false` if it is not in the log.
    pub fn record(&self, told: &Record, now: Instant) -> bool {
        let line = AuditRecord {
            time: record::now(),
            session: self.session.0.clone(),
            call: told.call.0,
            request: None,
            user: self.user.clone(),
            tool: Tool::of(&told.who),
            access: told.access.as_str(),
            operation: told.operation.as_str(),
            object: record::path(&told.object),
            other: told.other.as_ref().map(record::path),
            exec: told.execution.as_deref().map(Exec::of),
            destination: told.destination.as_deref().map(Reach::of),
            service: told.service.map(Service::as_str),
            rule: Rule::of(&told.rule),
            result: told.outcome.as_str(),
            would: learned(told).then(|| told.level.as_str()),
            edited: None,
            answered_by: told.by.clone(),
            duration_ms: 0,
            scope: None,
            lifetime: None,
            times: None,
            various: false,
        };
        let written = if told.outcome.permits() {
            self.append(&line)
        } else {
            let alone = self.refusals.borrow_mut().take(line.clone(), now);
            alone.is_none_or(|line| self.append(&line))
        };
        let outcome = if written || !told.outcome.permits() { told.outcome } else { Outcome::NotPermitted };
        self.denials.borrow_mut().count(&Attempt::from(told), outcome);
        if let Some(tally) = &self.tally {
            tally.recorded(told, outcome);
        }
        let event = match outcome {
            Outcome::Granted => "allowed_by_grant",
            // What a rule says notify of was done already, and somebody is to hear of it.
            Outcome::Allowed if told.level == Level::Notify => "notified",
            Outcome::Allowed if learned(told) => "learned",
            Outcome::Allowed | Outcome::Approved | Outcome::Cancelled | Outcome::Edited => return written,
            Outcome::Denied | Outcome::Timeout | Outcome::NotPermitted => "denied",
        };
        self.emit(&Event {
            pid: Some(line.tool.pid),
            program: Some(line.tool.program),
            argv: Some(line.tool.argv),
            access: Some(line.access),
            operation: Some(line.operation),
            object: Some(line.object),
            other: line.other,
            exec: line.exec,
            destination: line.destination,
            service: line.service,
            rule: Some(line.rule),
            decision: Some(outcome.as_str()),
            would: line.would,
            hint: Sentence::of(outcome).map(Sentence::hint),
            reason: told.rule.reason.clone(),
            by: Some(line.answered_by),
            ..self.event(event, told.call)
        });
        written
    }

    /// Tells the watchers of events, and counts denials. What was asked ends in `consent_decided`, whatever the end.
    pub fn tell(&self, settled: &Settled) {
        let request = &settled.request;
        self.denials.borrow_mut().count(&Attempt::from(request.as_ref()), settled.outcome);
        if let Some(tally) = &self.tally {
            tally.settled(settled);
        }
        let permits = settled.outcome.permits();
        self.emit(&Event {
            decision: Some(settled.outcome.as_str()),
            hint: Sentence::of(settled.outcome).map(Sentence::hint),
            reason: request.rule.reason.clone(),
            edited: edited(settled),
            scope: permits.then(|| settled.width.as_str()),
            lifetime: permits.then(|| settled.lifetime.as_str()),
            by: Some(settled.by.clone()),
            waited_ms: Some(milliseconds(settled)),
            ..self.of_request(if settled.asked { "consent_decided" } else { "denied" }, request)
        });
    }
}

/// Whether this went through only because its session learns.
fn learned(told: &Record) -> bool {
    told.outcome == Outcome::Allowed && told.level > Level::Notify
}

fn edited(settled: &Settled) -> Option<Vec<String>> {
    let words: Vec<Untrusted> = settled.edited.as_ref()?.iter().map(|word| Untrusted::new(word.as_slice())).collect();
    Some(record::command(&words).0)
}

fn milliseconds(settled: &Settled) -> u64 {
    u64::try_from(settled.waited.as_millis()).unwrap_or(u64::MAX)
}
