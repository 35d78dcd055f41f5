//! What was refused a moment ago: a shell that is told `EACCES` looks for the same name in the next directory of `PATH`, which
//! often is a link to the same one, and whoever said no should not be asked again.
//!
//! Runs as the user in the supervisor. A thread can only get the answer that it just got.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::common::exec::Command;

/// A search through `PATH` takes less, a person who tries again more.
const A_MOMENT: Duration = Duration::from_millis(500);
const THREADS_AT_MOST: usize = 1024;

/// The last refusal of each thread.
#[derive(Debug, Default)]
pub struct Refused(Mutex<HashMap<i32, (Instant, Arc<Command>)>>);

impl Refused {
    /// Whether this is what the thread was refused last, and only just.
    pub fn was_just(&self, thread: i32, command: &Command) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&thread).is_some_and(|(since, refused)| since.elapsed() < A_MOMENT && **refused == *command)
    }

    pub fn remember(&self, thread: i32, command: Arc<Command>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= THREADS_AT_MOST {
            known.retain(|_, (since, _)| since.elapsed() < A_MOMENT);
        }
        if known.len() < THREADS_AT_MOST {
            known.insert(thread, (Instant::now(), command));
        }
    }
}
