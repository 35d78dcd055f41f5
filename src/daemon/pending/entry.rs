//! Equal requests, which one answer settles. Runs in the broker; what is compared is a tool's.

use std::rc::Rc;
use std::time::{Duration, Instant};

use super::Settled;
use super::quota::Place;
use crate::common::decision::{Lifetime, Outcome, Width};
use crate::common::exec::Execution;
use crate::common::id::RequestId;
use crate::common::net::Zone;
use crate::common::request::Request;
use crate::policy::grants::remembered;

/// One request that waits.
#[derive(Debug)]
pub(super) struct Waiter {
    pub request: Rc<Request>,
    pub arrived: Instant,
    /// From when on its time runs: those that were gathered together run out together.
    pub counted_from: Instant,
    /// Given back with it.
    pub place: Place,
}

/// Equal requests that one answer settles; the first one is shown.
#[derive(Debug)]
pub(super) struct Entry {
    pub lead: Waiter,
    pub joined: Vec<Waiter>,
}

impl Entry {
    pub fn new(lead: Waiter) -> Entry {
        Entry { lead, joined: Vec::new() }
    }

    /// Of these, if there are any.
    pub fn of(waiters: impl IntoIterator<Item = Waiter>) -> Option<Entry> {
        let mut waiters = waiters.into_iter();
        Some(Entry { lead: waiters.next()?, joined: waiters.collect() })
    }

    /// The request that is shown for all of them.
    pub fn request(&self) -> &Rc<Request> {
        &self.lead.request
    }

    pub fn len(&self) -> usize {
        self.joined.len().saturating_add(1)
    }

    pub fn has(&self, id: RequestId) -> bool {
        self.waiters().any(|waiter| waiter.request.id == id)
    }

    pub fn waiters(&self) -> impl Iterator<Item = &Waiter> {
        std::iter::once(&self.lead).chain(&self.joined)
    }

    pub fn into_waiters(self) -> impl Iterator<Item = Waiter> {
        std::iter::once(self.lead).chain(self.joined)
    }
}

/// The end of one request, without anything that lasts.
pub(super) fn end(waiter: Waiter, outcome: Outcome, by: &str, now: Instant) -> Settled {
    let Waiter { request, arrived, place, .. } = waiter;
    drop(place);
    Settled {
        waited: now.saturating_duration_since(arrived),
        request,
        outcome,
        lifetime: Lifetime::Attempt,
        width: Width::Exact,
        grant: None,
        authenticated: false,
        by: by.to_owned(),
        edited: None,
        asked: true,
    }
}

/// One that did not wait at all.
pub(super) fn refused(request: Rc<Request>, by: &str) -> Settled {
    Settled {
        waited: Duration::ZERO,
        request,
        outcome: Outcome::NotPermitted,
        lifetime: Lifetime::Attempt,
        width: Width::Exact,
        grant: None,
        authenticated: false,
        by: by.to_owned(),
        edited: None,
        asked: false,
    }
}

/// Whether one answer settles both. Operation and other end may differ, because every change of an object is one access;
/// not so where an answer holds for the attempt alone, which is then the attempt that was shown. Command lines that were
/// cut may differ where nobody saw it.
pub(super) fn equal(a: &Request, b: &Request) -> bool {
    let same_attempt = a.operation == b.operation && a.other == b.other && a.who.pid == b.who.pid;
    let same_command = match (&a.execution, &b.execution) {
        (None, None) => true,
        (Some(one), Some(other)) => a.who.cwd == b.who.cwd && equal_commands(one, other),
        _ => false,
    };
    a.session == b.session
        && a.call == b.call
        && a.access == b.access
        && a.object == b.object
        && a.is_directory == b.is_directory
        && a.level == b.level
        && a.remember == b.remember
        && a.remember_for == b.remember_for
        && a.group == b.group
        && same_command
        && same_destination(a, b)
        && a.service == b.service
        && (remembered(a) != Lifetime::Attempt || same_attempt)
}

/// Whether a person would say the same of both: connections of one program by one rule to one port of one name, though perhaps to several
/// of its addresses. Of addresses that are not public each is a place of its own, and so is every one where the answer
/// holds for the attempt alone.
fn same_destination(a: &Request, b: &Request) -> bool {
    let (Some(one), Some(other)) = (&a.destination, &b.destination) else {
        return a.destination.is_none() && b.destination.is_none();
    };
    let is_one_name = one.names().next().is_some() && one.names().next() == other.names().next();
    let is_public =
        [one, other].iter().all(|own| own.zone() == Some(Zone::Public)) && remembered(a) != Lifetime::Attempt;
    a.operation == b.operation
        && a.rule == b.rule
        // An answer may be for the program that was shown.
        && a.who.program == b.who.program
        && one.transport == other.transport
        && one.port() == other.port()
        && (is_one_name && is_public || one.place == other.place)
}

/// Whether the same would run, whoever calls it. Of words that are not shown nobody knows.
fn equal_commands(a: &Execution, b: &Execution) -> bool {
    a.words_left_out == 0
        && b.words_left_out == 0
        && !(a.is_first || b.is_first)
        && a.argv == b.argv
        && a.interpreters == b.interpreters
        && a.variables == b.variables
        && a.is_new == b.is_new
}
