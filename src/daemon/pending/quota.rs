//! How many requests may wait at a time, over all sessions of one user. Runs as root in the daemon, on its one thread; who asks,
//! and how often, is a tool's choice.

use std::cell::Cell;
use std::rc::Rc;

/// Requests of all sessions of one user that may wait at a time; one more is denied at once.
pub const MOST_OF_A_USER: usize = 4096;

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

    pub(super) fn place(self: &Rc<Quota>) -> Option<Place> {
        let left = self.left.get().checked_sub(1)?;
        self.left.set(left);
        Some(Place(Rc::clone(self)))
    }
}

/// A place that is taken until this is dropped.
#[derive(Debug)]
pub(super) struct Place(Rc<Quota>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.left.set(self.0.left.get().saturating_add(1));
    }
}
