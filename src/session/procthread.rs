//! A tool's thread in the outer `/proc`, pinned: whoever serves calls keeps it from one call of a thread to the next.
//!
//! Runs as the user in the supervisor. What is pinned is the thread, not its id: once it is gone everything here fails,
//! whoever has the id by then, proc(5).

use std::cell::{Cell, OnceCell};
use std::ffi::{CStr, CString};
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags, openat, readlinkat};
use rustix::io::Errno;

use super::decimal::Decimal;
use super::target::{Status, parse_status};
use crate::common::path::RawPath;
use crate::common::request::Who;
use crate::common::text::Untrusted;

/// Words of a command line that are shown, and bytes of each.
const SHOWN_WORDS: usize = 64;
const SHOWN_BYTES: usize = 4096;
/// Bytes of a command line that are read.
pub const COMMAND_LINE_BYTES: usize = SHOWN_WORDS * SHOWN_BYTES;
/// More than a status file has.
pub const STATUS_BYTES: usize = 8192;

/// Words as people are shown them.
pub fn shown<'a>(words: impl Iterator<Item = &'a [u8]>) -> Vec<Untrusted> {
    words.take(SHOWN_WORDS).map(|word| Untrusted::new(word.get(..SHOWN_BYTES).unwrap_or(word))).collect()
}

/// The same of what `/proc/PID/cmdline` says, proc_pid_cmdline(5).
pub fn words_of(line: &[u8]) -> Vec<Untrusted> {
    let mut words: Vec<&[u8]> = line.split(|&byte| byte == 0).take(SHOWN_WORDS + 1).collect();
    if words.last().is_some_and(|last| last.is_empty()) {
        words.pop();
    }
    shown(words.into_iter())
}

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

    /// The parsed status file.
    pub fn status(&self) -> Result<Status, Errno> {
        let mut text = vec![0; STATUS_BYTES];
        let mut length = 0_usize;
        while let Some(room @ [_, ..]) = text.get_mut(length..) {
            match self.read_status(room, length)? {
                0 => break,
                count => length = length.saturating_add(count),
            }
        }
        text.truncate(length);
        Ok(parse_status(&text))
    }

    /// Who this is, to show and to record; what may not be read of it is left out.
    pub fn who(&self) -> Result<Who, Errno> {
        let link = |name: &CStr| {
            let text = readlinkat(&self.directory, name, Vec::new());
            RawPath::new(text.map(CString::into_bytes).unwrap_or_default())
        };
        let mut line = Vec::new();
        if let Ok(file) = openat(&self.directory, c"cmdline", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) {
            let most = COMMAND_LINE_BYTES as u64;
            // As much as could be read before the process changed under it.
            let _ = std::io::Read::take(std::fs::File::from(file), most).read_to_end(&mut line);
        }
        Ok(Who { pid: self.status()?.process, program: link(c"exe"), argv: words_of(&line), cwd: link(c"cwd") })
    }
}
