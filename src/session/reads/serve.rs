//! The threads that take held opens and answer them.
//!
//! Run as the user in the supervisor. Whoever takes an open and leaves nobody behind to take the next starts another thread, up
//! to a bound; the last one asks nobody, so that opens which policy decides, and the supervisor's own, are always answered.
//! Nothing here opens a file that could be in a region.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use super::event::Opener;
use super::outside;
use super::{Reads, ReadsError, Seen};
use crate::common::errno::Errno;
use crate::session::calls::Calls;
use crate::session::judge::{Approvals, Halt};
use crate::session::perform::Performer;
use crate::session::sys;
use crate::tool::fanotify::Event;
use crate::tool::parting;

/// Opens that may be asked about at a time, and the threads that answer the rest.
const THREADS_AT_MOST: usize = 64;
const THREADS_KEPT: usize = 2;
const STACK_BYTES: usize = 256 * 1024;
/// Times that one open is judged anew, because somebody said yes to something that has another name by then.
const TRIES_AT_MOST: u32 = 8;

/// What decides, once the session is that far; before that no process of the tool exists.
pub struct Court {
    pub performer: Arc<Performer>,
    pub calls: Arc<Calls>,
    /// Init's id in the supervisor's pid namespace.
    pub init: i32,
}

/// Reads that are answered.
pub struct HeldReads {
    pub reads: Arc<Reads>,
    court: Arc<OnceLock<Court>>,
    /// What tells of names made outside, while somebody may read.
    watch: OnceLock<Arc<OwnedFd>>,
}

impl HeldReads {
    /// From here on the tool's opens are judged; once.
    pub fn begin(&self, court: Court) {
        let performer = Arc::clone(&court.performer);
        if self.court.set(court).is_ok()
            && let Some(watch) = outside::watch(&self.reads, &performer, &self.reads.watched)
        {
            let _ = self.watch.set(watch);
        }
    }

    /// When nobody is left in the session whose open could be held, and this process is about to end.
    pub fn end(&self) {
        self.reads.keeper.wait();
        // Whoever opens one of these from outside is not to wait for the close of the group.
        if let Err(error) = self.reads.group.unmark_inodes() {
            tracing::warn!(%error, "the marks of single files stay until the group is closed");
        }
        let watch = self.watch.get().map(|watch| watch.as_fd());
        let groups: Vec<_> = watch.into_iter().chain([self.reads.group.as_fd()]).collect();
        // Else they are closed with the process, which takes longer.
        let _ = parting::leave(&groups);
    }
}

struct Server {
    reads: Arc<Reads>,
    court: Arc<OnceLock<Court>>,
    init: i32,
    descriptors: OwnedFd,
    threads: AtomicUsize,
    receiving: AtomicUsize,
}

/// Starts answering. `init` is the id of the session's init in this process's pid namespace; what it opens while it prepares
/// itself is let pass.
pub fn serve(reads: Arc<Reads>, init: i32) -> Result<HeldReads, ReadsError> {
    use rustix::fs::{Mode, OFlags, openat};
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let descriptors =
        openat(&reads.procfs, c"self/fd", flags, Mode::empty()).map_err(|errno| ReadsError::Proc(errno.into()))?;
    let court = Arc::new(OnceLock::new());
    let server = Arc::new(Server {
        reads: Arc::clone(&reads),
        court: Arc::clone(&court),
        init,
        descriptors,
        threads: AtomicUsize::new(0),
        receiving: AtomicUsize::new(0),
    });
    for _ in 0..THREADS_KEPT {
        server.add_thread().map_err(ReadsError::Thread)?;
    }
    Ok(HeldReads { reads, court, watch: OnceLock::new() })
}

impl Server {
    /// `false` if there are enough.
    fn add_thread(self: &Arc<Server>) -> std::io::Result<bool> {
        if self.threads.fetch_add(1, Ordering::SeqCst) >= THREADS_AT_MOST {
            self.threads.fetch_sub(1, Ordering::SeqCst);
            return Ok(false);
        }
        let server = Arc::clone(self);
        let run = move || {
            if server.prepare().is_ok() {
                server.run();
            }
            server.threads.fetch_sub(1, Ordering::SeqCst);
        };
        let started = std::thread::Builder::new().name("gated-reads".to_owned()).stack_size(STACK_BYTES).spawn(run);
        if started.is_err() {
            self.threads.fetch_sub(1, Ordering::SeqCst);
        }
        started.map(|_| true)
    }

    /// As each thread of the pool has it, so that a descriptor of ours has a path: its number.
    fn prepare(&self) -> Result<(), Errno> {
        sys::own_umask()?;
        rustix::process::fchdir(&self.descriptors)?;
        Ok(())
    }

    fn run(self: &Arc<Server>) {
        loop {
            self.receiving.fetch_add(1, Ordering::SeqCst);
            let received = self.reads.group.receive();
            let nobody_receives = self.receiving.fetch_sub(1, Ordering::SeqCst) == 1;
            match received {
                Ok(Some(event)) => {
                    let is_last = nobody_receives && !self.add_thread().unwrap_or(false);
                    let allow = self.judge(&event, !is_last);
                    // Who has been killed meanwhile needs no answer.
                    let _ = self.reads.group.answer(event, allow);
                }
                Ok(None) => {}
                Err(error) => {
                    tracing::error!(%error, "held reads cannot be received");
                    return;
                }
            }
            if self.receiving.load(Ordering::SeqCst) >= THREADS_KEPT {
                return;
            }
        }
    }

    fn judge(&self, event: &Event, may_ask: bool) -> bool {
        let known = self.reads.openers.call_of(event.thread);
        if known.is_none() && sys::is_own_thread(event.thread) {
            return true;
        }
        let Some(court) = self.court.get() else { return event.thread == self.init };
        let Ok(seen) = Seen::of(event.file.as_fd()) else { return false };
        let is_new = known.is_none();
        let opener = Opener::new(event.thread, self.reads.procfs.as_fd(), &court.calls, court.init).knowing(known);
        // An inode's own mark holds the opens of the whole machine.
        if !self.reads.regions.contains_key(&seen.mount) && !opener.is_inside() {
            return true;
        }
        let allow = self.permits(court, &opener, event, &seen, may_ask);
        if is_new && let Some((call, number)) = opener.leave() {
            self.reads.openers.know(event.thread, &call, number);
        }
        allow
    }

    fn permits(&self, court: &Court, opener: &Opener<'_>, event: &Event, seen: &Seen, may_ask: bool) -> bool {
        let foresee = || (!may_ask).then_some(Errno::ACCES);
        let mut approvals = Approvals::default();
        for _ in 0..TRIES_AT_MOST {
            let Ok(wanted) = self.reads.wanted_of(event.file.as_fd(), seen) else { return false };
            match court.performer.judge().permit(opener, &wanted, &mut approvals, foresee) {
                Ok(_permit) => return true,
                Err(Halt::Again) => {}
                Err(Halt::Answer(_) | Halt::Gone) => return false,
            }
        }
        false
    }
}
