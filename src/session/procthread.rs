//! A tool's thread in the outer `/proc`, pinned: whoever serves calls keeps it from one call of a thread to the next.
//!
//! Runs as the user in the supervisor. What is pinned is the thread, not its id: once it is gone everything here fails,
//! whoever has the id by then, proc(5).

use std::cell::{Cell, OnceCell};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;

use super::decimal::Decimal;

/// A pinned `/proc/TID`.
#[derive(Debug)]
pub struct ProcThread {
    thread: i32,
    directory: OwnedFd,
    /// Open from its first use on; each read at its beginning gives the state of that moment.
    status: OnceCell<OwnedFd>,
    /// A guess for the next call, from the one before.
    pub in_scratch: Cell<bool>,
}

impl ProcThread {
    /// `procfs` is the outer `/proc`, `thread` an id in the supervisor's pid namespace.
    pub fn open(procfs: BorrowedFd<'_>, thread: i32) -> Result<ProcThread, Errno> {
        let mut name = Decimal::default();
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = openat(procfs, name.of(thread), flags, Mode::empty())?;
        Ok(ProcThread { thread, directory, status: OnceCell::new(), in_scratch: Cell::new(false) })
    }

    /// Whether this was pinned for a thread with this id; it may be another one's by now.
    pub fn had_id(&self, thread: i32) -> bool {
        self.thread == thread
    }

    pub fn directory(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    /// Reads the status file from this offset on; the count is 0 at its end.
    pub fn read_status(&self, into: &mut [u8], offset: usize) -> Result<usize, Errno> {
        let status = match self.status.get() {
            Some(status) => status,
            None => {
                let opened = openat(&self.directory, c"status", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
                self.status.get_or_init(|| opened)
            }
        };
        rustix::io::retry_on_intr(|| rustix::io::pread(status, &mut *into, offset as u64))
    }
}
