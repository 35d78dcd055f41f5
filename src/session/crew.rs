//! Which of a pool's threads receive, and which wait until they are needed.
//!
//! Runs as the user in the supervisor. The kernel wakes every thread that waits in receive for each attempt, so there are as
//! few as will do: one while a single thread of the tool makes calls, else two.

use std::sync::atomic::{AtomicI32, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Attempts in a row of one thread of the tool after which it is taken for the only one that makes any.
const ALONE_AFTER: u32 = 16;
/// Receivers where several threads of the tool make calls.
const RECEIVERS: usize = 2;
/// Threads that wait for a place; more than these end.
const RESERVE: usize = 6;

/// Who serves a listener's attempts.
pub trait Relief {
    /// The calling thread may be busy with its attempt for long: others are to be received meanwhile.
    fn takes_long(&self);
}

#[derive(Default)]
pub struct Crew {
    places: Mutex<Places>,
    called: Condvar,
    receiving: AtomicUsize,
    last: AtomicI32,
    /// Attempts in a row of `last`.
    row: AtomicU32,
}

#[derive(Default)]
struct Places {
    waiting: usize,
    /// How many of those who wait are to receive.
    called: usize,
    is_over: bool,
}

impl Crew {
    fn places(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn receivers(&self) -> usize {
        if self.row.load(Ordering::Relaxed) >= ALONE_AFTER { 1 } else { RECEIVERS }
    }

    /// Until the calling thread is to receive; it counts as a receiver then. `false` if it is not needed any more.
    pub fn wait_for_a_place(&self) -> bool {
        if self.receiving.fetch_add(1, Ordering::SeqCst) < self.receivers() {
            return true;
        }
        self.receiving.fetch_sub(1, Ordering::SeqCst);
        let mut places = self.places();
        // Nobody may be left in receive by those who wait: looked at again with the lock that calling takes.
        if self.receiving.load(Ordering::SeqCst) == 0 {
            self.receiving.fetch_add(1, Ordering::SeqCst);
            return true;
        }
        if places.is_over || places.waiting >= RESERVE {
            return false;
        }
        places.waiting += 1;
        while places.called == 0 && !places.is_over {
            places = self.called.wait(places).unwrap_or_else(PoisonError::into_inner);
        }
        places.waiting -= 1;
        if places.is_over {
            return false;
        }
        places.called -= 1;
        self.receiving.fetch_add(1, Ordering::SeqCst);
        true
    }

    /// The calling thread has received; whether nobody else does.
    pub fn leave_receiving(&self) -> bool {
        self.receiving.fetch_sub(1, Ordering::SeqCst) == 1
    }

    /// Notes whose attempt this is; whether that thread of the tool seems to be the only one that makes any.
    pub fn is_alone(&self, thread: i32) -> bool {
        if self.last.swap(thread, Ordering::Relaxed) == thread {
            self.row.fetch_add(1, Ordering::Relaxed).saturating_add(1) >= ALONE_AFTER
        } else {
            self.row.store(0, Ordering::Relaxed);
            false
        }
    }

    /// Sees to it that somebody receives; `true` if there is none to be called, so that a thread has to be added.
    pub fn needs_one_more(&self) -> bool {
        let mut places = self.places();
        if self.receiving.load(Ordering::SeqCst) > 0 || places.called > 0 {
            return false;
        }
        if places.waiting == 0 {
            return true;
        }
        places.called += 1;
        self.called.notify_one();
        false
    }

    /// There is nothing to be received any more.
    pub fn dismiss(&self) {
        self.places().is_over = true;
        self.called.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::channel;

    use super::*;

    fn receive(crew: &Crew, thread: i32) -> (bool, bool) {
        assert!(crew.wait_for_a_place(), "there is a place");
        let nobody_receives = crew.leave_receiving();
        (crew.is_alone(thread), nobody_receives)
    }

    #[test]
    fn a_thread_is_alone_after_a_row_of_its_attempts_until_another_makes_one() {
        let crew = Crew::default();
        let alone: Vec<bool> = (0..20).map(|_| receive(&crew, 7).0).collect();
        assert_eq!(alone.iter().position(|alone| *alone), Some(ALONE_AFTER as usize));
        assert!(alone.iter().skip(ALONE_AFTER as usize).all(|alone| *alone), "{alone:?}");
        assert!(!receive(&crew, 8).0, "of two, neither is alone");
    }

    #[test]
    fn who_is_busy_for_long_has_another_receive_who_waited() {
        let crew = Arc::new(Crew::default());
        for _ in 0..=ALONE_AFTER {
            receive(&crew, 7);
        }
        assert!(crew.wait_for_a_place());
        let (said, placed) = channel();
        let second = {
            let crew = Arc::clone(&crew);
            std::thread::spawn(move || {
                let is_needed = crew.wait_for_a_place();
                let _ = said.send(is_needed);
            })
        };
        while crew.places().waiting == 0 {
            std::thread::yield_now();
        }
        assert!(placed.try_recv().is_err(), "one receiver is enough for one thread");
        assert!(crew.leave_receiving(), "nobody is left");
        assert!(!crew.needs_one_more(), "there is somebody to be called");
        assert_eq!(placed.recv(), Ok(true));
        assert!(!crew.needs_one_more(), "somebody receives");
        second.join().expect("the second thread ends");
    }

    #[test]
    fn a_thread_is_added_where_none_waits_and_all_end_when_there_is_nothing_to_receive() {
        let crew = Arc::new(Crew::default());
        assert!(crew.needs_one_more(), "nobody receives and nobody waits");
        assert!(crew.wait_for_a_place() && crew.wait_for_a_place());
        let third = {
            let crew = Arc::clone(&crew);
            std::thread::spawn(move || crew.wait_for_a_place())
        };
        while crew.places().waiting == 0 {
            std::thread::yield_now();
        }
        crew.dismiss();
        assert!(!third.join().expect("the third thread ends"));
    }
}
