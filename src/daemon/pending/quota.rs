//! How many requests may wait at a time, over all sessions of one user. Runs as root in the daemon, on its one thread; who asks,
//! and how often, is a tool's choice.

use std::cell::Cell;
use std::rc::Rc;

use crate::common::request::Request;
use crate::common::text::Untrusted;

/// Requests of all sessions of one user that may wait at a time; one more is denied at once. A long one counts as several.
pub const MOST_OF_A_USER: usize = 4096;

/// Bytes of a request that count as one.
const BYTES_OF_ONE: usize = 4096;

/// Places for requests that wait.
#[derive(Debug)]
pub struct Quota {
    left: Cell<usize>,
}

impl Quota {
    pub fn new(most: usize) -> Rc<Quota> {
        Rc::new(Quota { left: Cell::new(most) })
    }

    /// What is left of it.
    pub fn left(&self) -> usize {
        self.left.get()
    }

    pub(super) fn place(self: &Rc<Quota>, request: &Request) -> Option<Place> {
        let taken = bytes(request).checked_div(BYTES_OF_ONE).unwrap_or(0).saturating_add(1);
        self.left.set(self.left.get().checked_sub(taken)?);
        Some(Place { quota: Rc::clone(self), taken })
    }
}

/// What of a request a tool can make long.
fn bytes(request: &Request) -> usize {
    let words = |words: &[Untrusted]| words.iter().map(|word| word.as_bytes().len()).fold(0, usize::saturating_add);
    let other = request.other.as_ref().map_or(0, |other| other.as_bytes().len());
    let of_command = request.execution.as_ref().map_or(0, |execution| {
        let parents = execution.parents.iter().map(|parent| words(&parent.argv)).fold(0, usize::saturating_add);
        parents.saturating_add(words(&execution.argv)).saturating_add(words(&execution.variables))
    });
    let lengths = [request.object.as_bytes().len(), other, words(&request.who.argv), of_command];
    lengths.into_iter().fold(0, usize::saturating_add)
}

/// A place that is taken until this is dropped.
#[derive(Debug)]
pub(super) struct Place {
    quota: Rc<Quota>,
    taken: usize,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.quota.left.set(self.quota.left.get().saturating_add(self.taken));
    }
}
