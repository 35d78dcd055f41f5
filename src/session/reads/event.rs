//! A thread that the kernel holds in an open(2) or execve(2) of a file in a region.
//!
//! Runs as the user in the supervisor; the thread is hostile. It cannot vanish while it is held but by being killed, so what is
//! read in its pinned `/proc` directory is its own. Unlike a trapped call it cannot be interrupted: where a signal wants it, the
//! open fails.

use std::cell::OnceCell;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use crate::common::errno::Errno;
use crate::common::id::CallId;
use crate::common::request::Who;
use crate::session::calls::{Call, Calls};
use crate::session::held::Held;
use crate::session::interrupt;
use crate::session::judge::Halt;
use crate::session::kin::Kin;
use crate::session::procthread::ProcThread;
use crate::session::target::Unreadable;

/// The call of a process that came of none that is not over: nothing was granted to it, and nothing is asked for it.
const NO_CALL: CallId = CallId(0);

/// Who opens.
pub struct Opener<'a> {
    thread: i32,
    procfs: BorrowedFd<'a>,
    calls: &'a Calls,
    init: i32,
    pinned: OnceCell<ProcThread>,
    call: OnceCell<Option<(Arc<Call>, CallId)>>,
}

impl<'a> Opener<'a> {
    /// `thread` is an id in the numbering of `procfs`.
    pub fn new(thread: i32, procfs: BorrowedFd<'a>, calls: &'a Calls, init: i32) -> Opener<'a> {
        Opener { thread, procfs, calls, init, pinned: OnceCell::new(), call: OnceCell::new() }
    }

    /// With what [`Opener::leave`] gave for an earlier open of the same thread.
    pub fn knowing(self, call: Option<(Arc<Call>, CallId)>) -> Opener<'a> {
        if let Some(call) = call {
            let _ = self.call.set(Some(call));
        }
        self
    }

    pub fn leave(self) -> Option<(Arc<Call>, CallId)> {
        self.call.into_inner().flatten()
    }

    fn pinned(&self) -> Result<&ProcThread, Unreadable> {
        match self.pinned.get() {
            Some(pinned) => Ok(pinned),
            None => {
                let opened = ProcThread::open(self.procfs, self.thread).map_err(|_| Unreadable::Gone)?;
                Ok(self.pinned.get_or_init(|| opened))
            }
        }
    }

    fn process(&self) -> Result<i32, Unreadable> {
        Ok(self.pinned()?.status().map_err(|_| Unreadable::Gone)?.process)
    }

    fn call(&self) -> Option<&(Arc<Call>, CallId)> {
        let find = || {
            let process = self.process().ok()?;
            let call = self.calls.find(self.procfs.as_fd(), self.init, process)?;
            let number = call.of(self.procfs.as_fd(), process);
            Some((call, number))
        };
        self.call.get_or_init(find).as_ref()
    }

    /// Whether it is a process of this session.
    pub fn is_inside(&self) -> bool {
        // A process that has one number only is of the supervisor's own pid namespace.
        let status = || self.pinned().ok()?.status().ok();
        match self.call.get() {
            Some(Some(_)) => true,
            _ => status()
                .is_some_and(|status| status.numbers > 1 && !Kin::is_outside(self.procfs, self.init, status.process)),
        }
    }
}

impl Held for Opener<'_> {
    fn thread(&self) -> i32 {
        self.thread
    }

    fn who(&self) -> Result<Who, Unreadable> {
        if self.call().is_none() {
            return Err(Errno::ACCES.into());
        }
        self.pinned()?.who().map_err(|_| Unreadable::Gone)
    }

    fn main_call(&self) -> CallId {
        self.call().map_or(NO_CALL, |(call, _)| call.id())
    }

    fn call_id(&self) -> Result<CallId, Unreadable> {
        Ok(self.call().map_or(NO_CALL, |(_, number)| *number))
    }

    fn look(&self) -> Result<(), Halt> {
        let status = self.pinned()?.status().map_err(|_| Halt::Gone)?;
        match interrupt::interruption(&status) {
            None => Ok(()),
            Some(_) => {
                std::thread::sleep(interrupt::SECOND_LOOK);
                let status = self.pinned()?.status().map_err(|_| Halt::Gone)?;
                // The kernel has no word here for "again": the open is refused, and the signal does its work.
                interrupt::interruption(&status).map_or(Ok(()), |_| Err(Errno::PERM.into()))
            }
        }
    }
}
