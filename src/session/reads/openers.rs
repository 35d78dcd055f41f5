//! Which calls the threads are of that opened before, so that `/proc` is asked once for each.
//!
//! Runs as the user in the supervisor. What is here holds no call: whoever is over gives its place and its descriptors back.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::common::id::CallId;
use crate::session::calls::Call;
use crate::session::sys;

/// Threads that are remembered, each with a descriptor.
const KNOWN_AT_MOST: usize = 512;

/// Threads of tools, by their ids.
#[derive(Default)]
pub struct Openers(Mutex<HashMap<i32, Known>>);

struct Known {
    /// Readable when the thread is gone, and its number perhaps another's.
    pidfd: OwnedFd,
    call: Weak<Call>,
    number: CallId,
}

impl Openers {
    fn known(&self) -> MutexGuard<'_, HashMap<i32, Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn call_of(&self, thread: i32) -> Option<(Arc<Call>, CallId)> {
        let mut known = self.known();
        let found = known.get(&thread)?;
        if let Some(call) = found.call.upgrade()
            && sys::is_alive(&found.pidfd)
        {
            return Some((call, found.number));
        }
        known.remove(&thread);
        None
    }

    /// The thread is held, so its number is its own.
    pub fn know(&self, thread: i32, call: &Arc<Call>, number: CallId) {
        let mut known = self.known();
        if known.contains_key(&thread) {
            return;
        }
        if known.len() >= KNOWN_AT_MOST {
            known.retain(|_, other| sys::is_alive(&other.pidfd));
        }
        if known.len() >= KNOWN_AT_MOST {
            known.clear();
        }
        // PIDFD_THREAD (Linux 6.9).
        let flags = PidfdFlags::from_bits_retain(libc::O_EXCL as u32);
        if let Some(pidfd) = Pid::from_raw(thread).and_then(|thread| pidfd_open(thread, flags).ok()) {
            known.insert(thread, Known { pidfd, call: Arc::downgrade(call), number });
        }
    }

    /// Nobody is left of a call; of others that were over before it is known by now, too.
    pub fn over(&self, call: &Arc<Call>) {
        let over = Arc::as_ptr(call);
        self.known().retain(|_, known| known.call.strong_count() > 0 && known.call.as_ptr() != over);
    }
}
