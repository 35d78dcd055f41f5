//! Attempts that take long in the kernel: an open of a fifo without a reader, a file system that does not answer.
//!
//! Runs as the user in the supervisor, one thread for each listener, asleep while nothing is under way. When the tool's
//! thread has a signal to see, or is gone, the thread that works for it is interrupted, and the tool gets what a bare program
//! would.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::Duration;

use super::crew::Relief;
use super::interrupt;
use super::judge::Halt;
use super::listener::{Answer, Notification};
use super::pool::{NoThread, Pool};
use super::sys;
use crate::common::errno::Errno;

const TICK: Duration = Duration::from_millis(50);
const SIGNAL: i32 = libc::SIGUSR1;

/// Who works, and whether the watcher sleeps.
#[derive(Default)]
pub struct Watch {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    slots: Mutex<HashMap<i32, Arc<State>>>,
    asleep: AtomicBool,
    wake: Condvar,
}

/// What one thread works on.
struct State {
    /// Counts attempts; odd while one is under way.
    generation: AtomicU64,
    attempt: Mutex<Option<Notification>>,
    interruption: Mutex<Option<Answer>>,
}

/// A thread's place in the watch; leaving drops it.
pub struct Slot {
    shared: Arc<Shared>,
    thread: i32,
    state: Arc<State>,
}

/// An attempt under way.
pub struct Busy<'a>(&'a Slot);

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Watch {
    /// Starts the watching thread; it ends with the pool.
    pub fn start(&self, pool: Weak<Pool>) -> Result<(), NoThread> {
        sys::let_signal_interrupt(SIGNAL).map_err(|errno| std::io::Error::from_raw_os_error(errno.raw()))?;
        let shared = Arc::clone(&self.shared);
        let watch = move || {
            if sys::own_umask().is_ok() {
                shared.run(&pool);
            }
        };
        std::thread::Builder::new().name("gated-watch".to_owned()).stack_size(128 * 1024).spawn(watch)?;
        Ok(())
    }

    /// Enters the calling thread.
    pub fn enter(&self) -> Slot {
        let state = Arc::new(State {
            generation: AtomicU64::new(0),
            attempt: Mutex::default(),
            interruption: Mutex::default(),
        });
        let thread = sys::thread_id();
        locked(&self.shared.slots).insert(thread, Arc::clone(&state));
        Slot { shared: Arc::clone(&self.shared), thread, state }
    }
}

/// With its pool.
impl Drop for Watch {
    fn drop(&mut self) {
        let _slots = locked(&self.shared.slots);
        self.shared.wake.notify_one();
    }
}

impl Slot {
    pub fn begin(&self, notification: Notification) -> Busy<'_> {
        *locked(&self.state.attempt) = Some(notification);
        self.state.generation.fetch_add(1, Ordering::SeqCst);
        if self.shared.asleep.swap(false, Ordering::SeqCst) {
            // Else the watcher may have looked already, and not wait yet: it would miss this, and sleep on.
            let _slots = locked(&self.shared.slots);
            self.shared.wake.notify_one();
        }
        Busy(self)
    }
}

impl Busy<'_> {
    /// The answer to give: where the kernel call was interrupted for the tool's sake, what its signal asks for.
    pub fn end(self, answer: Option<Answer>) -> Option<Answer> {
        let interruption = self.leave();
        std::mem::forget(self);
        match answer {
            Some(Answer::Errno(Errno::INTR)) => interruption.or(answer),
            other => other,
        }
    }

    fn leave(&self) -> Option<Answer> {
        let state = &self.0.state;
        state.generation.fetch_add(1, Ordering::SeqCst);
        *locked(&state.attempt) = None;
        locked(&state.interruption).take()
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.leave();
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        locked(&self.shared.slots).remove(&self.thread);
    }
}

impl Shared {
    fn run(&self, watched: &Weak<Pool>) {
        let mut seen: HashMap<i32, u64> = HashMap::new();
        loop {
            std::thread::sleep(TICK);
            let Some(pool) = watched.upgrade() else { return };
            let working: Vec<(i32, Arc<State>, u64)> = locked(&self.slots)
                .iter()
                .map(|(thread, state)| (*thread, Arc::clone(state), state.generation.load(Ordering::SeqCst)))
                .filter(|(_, _, generation)| generation % 2 == 1)
                .collect();
            for (thread, state, generation) in &working {
                if seen.get(thread) == Some(generation) {
                    look_at(&pool, *thread, state, *generation);
                }
            }
            if working.iter().any(|(thread, _, generation)| seen.get(thread) == Some(generation)) {
                pool.takes_long();
            }
            let waits_for_somebody = pool.take_back_parked();
            drop(pool);
            seen = working.into_iter().map(|(thread, _, generation)| (thread, generation)).collect();
            if seen.is_empty() && !waits_for_somebody {
                self.sleep(watched);
            }
        }
    }

    /// Until an attempt begins or the pool goes.
    fn sleep(&self, watched: &Weak<Pool>) {
        let slots = locked(&self.slots);
        if watched.strong_count() == 0 {
            return;
        }
        self.asleep.store(true, Ordering::SeqCst);
        let working = slots.values().any(|state| state.generation.load(Ordering::SeqCst) % 2 == 1);
        if !working {
            let _ = self.wake.wait_timeout(slots, Duration::from_secs(60));
        }
        self.asleep.store(false, Ordering::SeqCst);
    }
}

/// Interrupts a thread whose tool has a signal to see or is gone.
fn look_at(pool: &Arc<Pool>, thread: i32, state: &State, generation: u64) {
    let Some(notification) = *locked(&state.attempt) else { return };
    let target = pool.target(&notification);
    let answer = match interrupt::look(&target) {
        Ok(()) => return,
        Err(Halt::Answer(answer)) => Some(answer),
        Err(Halt::Gone | Halt::Again) => None,
    };
    *locked(&state.interruption) = answer;
    if state.generation.load(Ordering::SeqCst) == generation {
        // A thread that waits for a person looks for itself and is not disturbed by this.
        sys::interrupt_thread(thread, SIGNAL);
    }
}
