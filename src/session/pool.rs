//! The threads that receive, judge and perform.
//!
//! Run as the user in the supervisor. A thread that is trapped but not yet received can still be disturbed by a signal
//! (`WAIT_KILLABLE_RECV` protects from the receive on), so one thread waits in receive: whoever takes an attempt
//! and leaves nobody behind lets another take its place. An attempt that waits for a person, a fifo or a slow disk therefore
//! holds up nobody but its own thread.
//!
//! But for a tool of which one thread alone makes calls: it makes the next one when it has its answer, so whoever serves it
//! is back in receive by then. A second receiver would be woken by each of its calls in vain, and on another processor. See
//! [`super::crew`].

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::calls::Call;
use super::crew::{Crew, Relief};
use super::decode::decode;
use super::exec::{Judged, arguments};
use super::listener::{Answer, Listener, Notification, Received};
use super::perform::Performer;
use super::procthread::ProcThread;
use super::stuck::{Busy, Slot, Watch};
use super::sys;
use super::target::{Target, Unreadable};
use crate::common::errno::Errno;

/// Threads of one listener, but for those that wait for a peer in the network; more attempts than these wait unreceived.
const THREADS_AT_MOST: usize = 256;
/// Threads of all listeners of the session that are more than those that stay.
const THREADS_OF_SESSION: usize = 1024;
/// Threads that are there from the start.
const THREADS_AT_FIRST: usize = 2;
/// The deepest stack here is a walk with a few paths of 4 KiB.
const STACK_BYTES: usize = 256 * 1024;

/// Threads of this process, which serves one session, that are more than those that stay.
static ADDED: AtomicUsize = AtomicUsize::new(0);

/// For a thread that seems to be gone. If it is, nobody hears it; if it only could not be looked at, it must not hang.
const NOBODY: Answer = Answer::Errno(Errno::ACCES);

/// What the threads of one listener share.
pub struct Pool {
    listener: Listener,
    call: Arc<Call>,
    performer: Arc<Performer>,
    procfs: OwnedFd,
    /// `/proc/self/fd`, which each thread has as its cwd, so that a descriptor of ours has a path: its number.
    descriptors: OwnedFd,
    watch: Watch,
    threads: AtomicUsize,
    crew: Crew,
}

/// A pool cannot be started.
#[derive(Debug, thiserror::Error)]
#[error("cannot start a thread: {0}")]
pub struct NoThread(#[from] std::io::Error);

impl Pool {
    /// Starts serving the listener of a call; goes on until the last process under its filter is gone, with which the call is
    /// over. `procfs` is the outer `/proc`.
    pub fn start(
        listener: OwnedFd,
        call: Arc<Call>,
        performer: Arc<Performer>,
        procfs: OwnedFd,
    ) -> Result<(), NoThread> {
        let descriptors = rustix::fs::openat(
            &procfs,
            c"self/fd",
            rustix::fs::OFlags::PATH | rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC,
            rustix::fs::Mode::empty(),
        )
        .map_err(std::io::Error::from)?;
        let listener = Listener::new(listener);
        listener.wake_synchronously();
        let pool = Arc::new(Pool {
            listener,
            call,
            performer,
            procfs,
            descriptors,
            watch: Watch::default(),
            threads: AtomicUsize::new(0),
            crew: Crew::default(),
        });
        pool.watch.start(Arc::downgrade(&pool))?;
        for _ in 0..THREADS_AT_FIRST {
            pool.add_thread()?;
        }
        Ok(())
    }

    fn add_thread(self: &Arc<Pool>) -> Result<(), NoThread> {
        let Some(place) = Place::take(self) else { return Ok(()) };
        let pool = Arc::clone(self);
        let serve = move || {
            if pool.prepare().is_ok() {
                pool.serve();
            }
            drop(place);
        };
        std::thread::Builder::new().name("gated-serve".to_owned()).stack_size(STACK_BYTES).spawn(serve)?;
        Ok(())
    }

    fn prepare(&self) -> Result<(), Errno> {
        sys::own_umask()?;
        rustix::process::fchdir(&self.descriptors)?;
        Ok(())
    }

    fn serve(self: &Arc<Pool>) {
        let slot = self.watch.enter();
        let mut kept = None;
        while self.crew.wait_for_a_place() {
            let received = self.listener.receive();
            let nobody_receives = self.crew.leave_receiving();
            match received {
                Ok(Received::Attempt(notification)) => {
                    if !self.crew.is_alone(notification.thread) && nobody_receives {
                        self.takes_long();
                    }
                    kept = self.handle(&notification, &slot, kept);
                }
                Ok(Received::Vanished) => {}
                Ok(Received::Ended) => return self.crew.dismiss(),
                Err(error) => {
                    tracing::error!(%error, "the notification listener failed");
                    return self.crew.dismiss();
                }
            }
        }
    }

    /// Serves one attempt, with what was left over from the one before.
    fn handle(
        self: &Arc<Pool>,
        notification: &Notification,
        slot: &Slot,
        kept: Option<ProcThread>,
    ) -> Option<ProcThread> {
        let target = self.target(notification).keeping(kept);
        let busy = slot.begin(*notification);
        match arguments::decode(&target) {
            Some(program) => self.execute(&target, program, busy),
            None => {
                if let Some(answer) = self.answer(&target, busy) {
                    self.listener.answer(notification, answer);
                }
            }
        }
        target.leave()
    }

    /// An execve(2), from its path on to its end.
    fn execute(&self, target: &Target<'_>, program: Result<arguments::Attempt, Unreadable>, busy: Busy<'_>) {
        let judged = match &program {
            Ok(attempt) => self.performer.judge_program(target, attempt),
            Err(Unreadable::Native(errno)) => Judged::Answer(Answer::Errno(*errno)),
            Err(Unreadable::Gone) => Judged::Gone,
        };
        let answer = match judged {
            Judged::Answer(answer) => busy.end(Some(answer)),
            Judged::Gone => busy.end(None),
            Judged::Execute(found, permit) => {
                // What takes long from here on is the kernel's own exec, which its signals reach.
                drop(busy.end(None));
                target.takes_long();
                return self.performer.execute(target, &found, permit);
            }
        };
        self.listener.answer(target.notification(), answer.unwrap_or(NOBODY));
    }

    /// `None` if nobody waits for it any more.
    fn answer(&self, target: &Target<'_>, busy: Busy<'_>) -> Option<Answer> {
        let attempt = match decode(target) {
            Ok(attempt) => attempt,
            Err(Unreadable::Native(errno)) => return Some(Answer::Errno(errno)),
            Err(Unreadable::Gone) => return Some(NOBODY),
        };
        // Whatever was copied: the floor has the same verdict for whoever stands there, and nobody else gets the answer.
        if let Some(native) = self.performer.native_by_text(target, &attempt) {
            return Some(native);
        }
        // What was copied is the thread's own only if it still stands there.
        target.confirm().ok()?;
        let answer = self.performer.perform(target, &attempt);
        Some(match busy.end(answer).unwrap_or(NOBODY) {
            Answer::Restart if !attempt.is_restarted() => Answer::Errno(Errno::INTR),
            answer => answer,
        })
    }

    /// For [`Watch`]: whether questions are open whose threads may come back. Ends what was granted to trees that are over.
    pub(super) fn take_back_parked(&self) -> bool {
        let over = self.call.take_over();
        if !over.is_empty() {
            self.performer.judge().end_calls(over);
        }
        self.performer.judge().take_back_parked()
    }

    /// For [`Watch`]: the target of an attempt that takes long.
    pub(super) fn target<'a>(self: &'a Arc<Pool>, notification: &'a Notification) -> Target<'a> {
        Target::new(&self.listener, notification, self.procfs.as_fd(), &self.call, self)
    }
}

impl Relief for Arc<Pool> {
    /// Without another thread those under way are served all the same, only signals may disturb others.
    fn takes_long(&self) {
        if self.crew.needs_one_more() {
            let _ = self.add_thread();
        }
    }
}

/// A thread's place among those that may be.
struct Place {
    pool: Arc<Pool>,
    is_added: bool,
}

impl Place {
    /// `None` if there are enough.
    fn take(pool: &Arc<Pool>) -> Option<Place> {
        let before = pool.threads.fetch_add(1, Ordering::SeqCst);
        let is_added = before >= THREADS_AT_FIRST;
        let of_session = if is_added { ADDED.fetch_add(1, Ordering::SeqCst) } else { 0 };
        // Given back when it is dropped, one that was not to be had too.
        let place = Place { pool: Arc::clone(pool), is_added };
        let working = before.saturating_sub(pool.call.connecting());
        (working < THREADS_AT_MOST && of_session < THREADS_OF_SESSION).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.pool.threads.fetch_sub(1, Ordering::SeqCst);
        if self.is_added {
            ADDED.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.performer.end_call(&self.call);
    }
}
