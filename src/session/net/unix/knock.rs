//! Who knocks at the socket inside: the supervisor makes every connection of the session, so the kernel would name the
//! supervisor itself. It accepts them in the order in which it made them, and so knows for whom each was.
//!
//! Runs as the user in the supervisor.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Between the kernel's having a connection and its being entered here there are a few instructions.
const PATIENCE: Duration = Duration::from_secs(5);

/// A process of the session: its id in the supervisor's pid namespace, and a handle.
pub type Process = (i32, OwnedFd);

/// Connections that were made and not yet accepted.
#[derive(Default)]
pub struct Knocks {
    making: Mutex<()>,
    made: Mutex<VecDeque<Process>>,
    more: Condvar,
}

impl Knocks {
    /// To be held from before a connection is made until [`Knocks::made`] was told of it.
    pub fn turn(&self) -> MutexGuard<'_, ()> {
        self.making.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection was made for this process.
    pub fn made(&self, process: Process) {
        self.made.lock().unwrap_or_else(PoisonError::into_inner).push_back(process);
        self.more.notify_one();
    }

    /// For whom the next connection of the supervisor's own was made, in the order of accept(2).
    pub fn next(&self) -> Option<Process> {
        let made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.more.wait_timeout_while(made, PATIENCE, |made| made.is_empty());
        waited.unwrap_or_else(PoisonError::into_inner).0.pop_front()
    }
}
