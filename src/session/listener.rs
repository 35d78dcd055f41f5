//! The notification listener: seccomp_unotify(2) as types.
//!
//! Runs as the user in the supervisor. What comes out of [`Listener::receive`] is register content of a hostile thread
//! that stands still; nothing of it has been looked at yet.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, fstat, statat, unlinkat};

use super::judge::Permit;
use super::processor::Here;
use super::resolve::Place;
use crate::common::errno::Errno;

// linux/seccomp.h; libc has the structures.
const RECEIVE: libc::c_ulong = 0xc050_2100;
const SEND: libc::c_ulong = 0xc018_2101;
const ID_VALID: libc::c_ulong = 0x4008_2102;
const ADD_FD: libc::c_ulong = 0x4018_2103;
const SET_FLAGS: libc::c_ulong = 0x4008_2104;
const SYNC_WAKE_UP: u64 = 1;

/// linux/errno.h: the kernel's word to itself for "run the signal's handler, then the call again if `SA_RESTART`".
const ERESTARTSYS: i32 = 512;

/// One attempt: the thread, the call and its registers.
#[derive(Clone, Copy, Debug)]
pub struct Notification {
    pub id: u64,
    /// Thread id in the supervisor's pid namespace.
    pub thread: i32,
    pub number: i64,
    pub args: [u64; 6],
}

/// The end of a receive.
#[derive(Debug)]
pub enum Received {
    Attempt(Notification),
    /// The thread was gone or interrupted before it was received.
    Vanished,
    /// The last process under the filter is gone.
    Ended,
}

/// Proof that a native run of a call is harmless because the floor enforces the same verdict whatever the tool's memory
/// says by then. Made only by [`crate::session::floor`].
#[derive(Clone, Copy, Debug)]
pub struct Enforced(());

impl Enforced {
    pub(super) const fn by_the_floor() -> Enforced {
        Enforced(())
    }
}

/// Proof that whatever a native run of execve(2) leads to is compared with what was judged before its first instruction,
/// and killed if it is something else. Made only by [`crate::session::exec`].
#[derive(Clone, Copy, Debug)]
pub struct Compared(());

impl Compared {
    pub(super) const fn at_the_exec_stop(_permit: Permit) -> Compared {
        Compared(())
    }
}

/// What a held thread gets.
#[derive(Debug)]
pub enum Answer {
    /// The call returns this, which is not negative.
    Value(u32),
    Errno(Errno),
    /// The call is interrupted; the kernel runs the handler and restarts by the rules of `SA_RESTART`, signal(7). Only for
    /// a thread that is known to have a signal pending.
    Restart,
    /// The call returns this file at the lowest free number.
    File {
        file: OwnedFd,
        close_on_exec: bool,
        /// A file that is there only for this call: it goes if it cannot be given.
        made: Option<Made>,
    },
    /// The kernel runs the call as if it had not been held.
    Native(Enforced),
    /// The same for execve(2).
    Execute(Compared),
}

/// A name that was made for an attempt.
#[derive(Debug)]
pub struct Made {
    directory: OwnedFd,
    name: CString,
}

impl Made {
    pub fn new(place: &Place) -> Result<Made, Errno> {
        let directory = rustix::io::fcntl_dupfd_cloexec(&place.directory, 0)?;
        Ok(Made { directory, name: place.name.clone() })
    }

    /// Removes it, if it still stands for the new, empty file.
    fn take_back(self, file: &OwnedFd) {
        let found = statat(&self.directory, self.name.as_c_str(), AtFlags::SYMLINK_NOFOLLOW);
        let (Ok(found), Ok(made)) = (found, fstat(file)) else { return };
        if (found.st_dev, found.st_ino, found.st_size, found.st_nlink) == (made.st_dev, made.st_ino, 0, 1) {
            // What is left is what a bare program would not have made; there is nobody to tell.
            let _ = unlinkat(&self.directory, self.name.as_c_str(), AtFlags::empty());
        }
    }
}

/// A listener that seccomp(2) returned with `SECCOMP_FILTER_FLAG_NEW_LISTENER`.
#[derive(Debug)]
pub struct Listener(OwnedFd);

impl Listener {
    pub fn new(listener: OwnedFd) -> Listener {
        Listener(listener)
    }

    /// Asks the kernel to hand the processor straight over when it wakes the other side (Linux 6.6); a hint, so its absence is
    /// no error.
    pub fn wake_synchronously(&self) -> bool {
        // SAFETY: SET_FLAGS takes its argument by value.
        unsafe { libc::ioctl(self.0.as_raw_fd(), SET_FLAGS, SYNC_WAKE_UP) == 0 }
    }

    /// Waits for the next attempt.
    pub fn receive(&self) -> io::Result<Received> {
        // SAFETY: the structure is plain numbers, for which zero is valid; the kernel wants it zeroed.
        let mut notification: libc::seccomp_notif = unsafe { std::mem::zeroed() };
        // SAFETY: the pointer is to a live structure of the size that RECEIVE encodes.
        let result = unsafe { libc::ioctl(self.0.as_raw_fd(), RECEIVE, &raw mut notification) };
        if result == 0 {
            let data = notification.data;
            return Ok(Received::Attempt(Notification {
                id: notification.id,
                thread: i32::try_from(notification.pid).unwrap_or(0),
                number: i64::from(data.nr),
                args: data.args,
            }));
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => Ok(Received::Vanished),
            Some(libc::ENOENT) if self.is_over()? => Ok(Received::Ended),
            Some(libc::ENOENT) => Ok(Received::Vanished),
            _ => Err(error),
        }
    }

    /// Whether nobody is left under the filter.
    fn is_over(&self) -> io::Result<bool> {
        let mut poll = [rustix::event::PollFd::new(&self.0, rustix::event::PollFlags::IN)];
        rustix::event::poll(&mut poll, Some(&rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 }))?;
        Ok(poll[0].revents().contains(rustix::event::PollFlags::HUP))
    }

    /// Whether the thread still stands where it was received; what was read of it before is then its own.
    pub fn is_waiting(&self, notification: &Notification) -> bool {
        // SAFETY: the pointer is to a live u64, which is what ID_VALID reads.
        unsafe { libc::ioctl(self.0.as_raw_fd(), ID_VALID, &raw const notification.id) == 0 }
    }

    /// Gives the answer. A thread that is gone needs none, so that is no error.
    pub fn answer(&self, notification: &Notification, answer: Answer) {
        match answer {
            Answer::Value(value) => self.send(notification, i64::from(value), 0, 0),
            Answer::Errno(errno) => self.send(notification, 0, -errno.raw(), 0),
            Answer::Restart => self.send(notification, 0, -ERESTARTSYS, 0),
            Answer::Native(Enforced(())) | Answer::Execute(Compared(())) => {
                self.send(notification, 0, 0, libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32);
            }
            Answer::File { file, close_on_exec, made } => match self.inject(notification, &file, close_on_exec) {
                Ok(number) => {
                    // The tool may execute what it wrote as soon as it runs; our copy would make that ETXTBSY.
                    drop(file);
                    self.send(notification, i64::from(number), 0, 0);
                }
                Err(errno) => {
                    if let Some(made) = made {
                        made.take_back(&file);
                    }
                    drop(file);
                    self.send(notification, 0, -errno.raw(), 0);
                }
            },
        }
    }

    /// The thread wakes to take the file and sleeps again. For this the kernel knows no synchronous wake-up, so an idle
    /// processor would be woken for it, and this one by it: ten times what the rest takes. So it stays here.
    fn inject(&self, notification: &Notification, file: &OwnedFd, close_on_exec: bool) -> Result<u32, Errno> {
        let _here = Here::keep(notification.thread);
        self.add(notification, file.as_fd(), None, close_on_exec)
    }

    /// Gives the thread's process this file at this number, in place of what it has there.
    pub fn replace(
        &self,
        notification: &Notification,
        file: BorrowedFd<'_>,
        number: i32,
        close_on_exec: bool,
    ) -> Result<(), Errno> {
        self.add(notification, file, Some(number), close_on_exec).map(drop)
    }

    fn add(
        &self,
        notification: &Notification,
        file: BorrowedFd<'_>,
        number: Option<i32>,
        close_on_exec: bool,
    ) -> Result<u32, Errno> {
        let request = libc::seccomp_notif_addfd {
            id: notification.id,
            flags: if number.is_some() { libc::SECCOMP_ADDFD_FLAG_SETFD as u32 } else { 0 },
            srcfd: file.as_raw_fd() as u32,
            newfd: number.unwrap_or(0) as u32,
            newfd_flags: if close_on_exec { libc::O_CLOEXEC as u32 } else { 0 },
        };
        loop {
            // SAFETY: the pointer is to a live structure of the size that ADD_FD encodes; the kernel only reads it.
            let number = unsafe { libc::ioctl(self.0.as_raw_fd(), ADD_FD, &raw const request) };
            match u32::try_from(number).map_err(|_| Errno::of(&io::Error::last_os_error())) {
                // Nothing was given yet. What has come so far is done: it is no wait that a signal ends, see `stuck`.
                Err(Errno::INTR) => {}
                result => return result,
            }
        }
    }

    fn send(&self, notification: &Notification, value: i64, error: i32, flags: u32) {
        let response = libc::seccomp_notif_resp { id: notification.id, val: value, error, flags };
        // SAFETY: the pointer is to a live structure of the size that SEND encodes; the kernel only reads it. ENOENT means
        // that the thread is gone, EINPROGRESS cannot happen because each notification is answered once.
        let _ = unsafe { libc::ioctl(self.0.as_raw_fd(), SEND, &raw const response) };
    }
}
