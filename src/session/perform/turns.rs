//! Whose turn it is to change names. What was judged by a path must happen at that path, and what was seen below a
//! directory must be what moves with it; a tool with two threads can move a directory between the one and the other.
//!
//! Runs as the user in the supervisor. All names outside of the floor's native roots change through it, so it is enough that
//! its own threads take turns: who puts a name into a directory shares, who moves one is alone. One lock for each file
//! system, so that one which does not answer holds up no other; never held while somebody is asked.

use std::collections::HashMap;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use rustix::fs::fstat;

use super::Run;
use crate::common::errno::Errno;
use crate::session::judge::{Approvals, Halt};
use crate::session::resolve::{Place, path_of};

/// The locks, by device number.
#[derive(Default)]
pub(super) struct Turns(Mutex<HashMap<u64, Arc<RwLock<()>>>>);

/// Opens of fifos that may wait for a reader at a time in a session. Each holds a thread of the pool, of which enough must be
/// left for everybody else.
const WAITING_AT_MOST: usize = 96;

/// How many opens wait for another process of the tool.
#[derive(Default)]
pub(super) struct Waiting(AtomicUsize);

/// One of them.
pub(super) struct Waits<'a>(&'a Waiting);

impl Waiting {
    /// `ENFILE` if too many wait.
    pub(super) fn one_more(&self) -> Result<Waits<'_>, Errno> {
        let waits = Waits(self);
        let before = self.0.fetch_add(1, Ordering::SeqCst);
        if before < WAITING_AT_MOST { Ok(waits) } else { Err(Errno::NFILE) }
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// How a name changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// A name that was not there: any number at once.
    Shared,
    /// Something that is there gets another name.
    Alone,
}

impl Turns {
    fn of(&self, device: u64) -> Arc<RwLock<()>> {
        let mut locks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(locks.entry(device).or_default())
    }
}

impl Run<'_> {
    /// What follows may wait for another process of the tool. `ENFILE` if too many wait.
    pub(super) fn waits(&self) -> Result<Waits<'_>, Errno> {
        self.target.takes_long();
        self.performer.waiting.one_more()
    }

    /// Acts when it is this attempt's turn, on places that still are where they were judged; else they are judged again, by
    /// where they are now.
    pub(super) fn in_turn<T>(
        &self,
        turn: Turn,
        places: &[&Place],
        approvals: &mut Approvals,
        act: impl FnOnce() -> Result<T, Halt>,
    ) -> Result<T, Halt> {
        let Some(first) = places.first() else { return act() };
        let device = fstat(&first.directory).map_err(Errno::from)?.st_dev;
        let lock = self.performer.turns.of(device);
        let _shared = (turn == Turn::Shared).then(|| lock.read().unwrap_or_else(PoisonError::into_inner));
        let _alone = (turn == Turn::Alone).then(|| lock.write().unwrap_or_else(PoisonError::into_inner));
        for place in places {
            if path_of(place.directory.as_fd())? != place.directory_path {
                approvals.look_again();
                return Err(Halt::Again);
            }
        }
        self.still_wanted()?;
        act()
    }
}
