//! The keeper: a process that lives as long as the session's init, so that no open which waits for an answer is ever let through
//! because the supervisor died. The kernel allows what is pending when the last descriptor of a fanotify group is closed, and the
//! keeper has one.
//!
//! It is forked from the supervisor while that is root, has one thread and is still in the host's mount namespace, and is the
//! user from its first step on. It is outside of the session's pid namespace; only the supervisor talks to it. Besides, it does
//! what the supervisor cannot do from inside the session's mount namespace: remove or replace a name that is a mount point
//! there (`EBUSY`, rename(2)). The directories come as descriptors, the names were judged.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

use nix::sys::signal::{SigSet, SigmaskHow, sigprocmask};
use nix::unistd::{ForkResult, fork};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{AtFlags, RenameFlags, renameat_with, unlinkat};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde::{Deserialize, Serialize};

use super::descriptors::close_all_but;
use super::link::{self, Link};
use super::privileges::leave_root;
use crate::common::wire::Identity;

/// From the supervisor.
#[derive(Debug, Serialize, Deserialize)]
enum ToKeeper {
    /// First: with a pidfd of the session's init, whose end is the keeper's.
    Init,
    /// With the directory.
    Remove { name: Vec<u8>, is_directory: bool },
    /// With both directories.
    Rename { old: Vec<u8>, new: Vec<u8>, flags: u32 },
}

/// The errno of what was asked for; 0 if it is done.
#[derive(Debug, Serialize, Deserialize)]
struct Done(i32);

/// The keeper as the supervisor has it.
pub struct Keeper {
    link: Mutex<Link<ToKeeper, Done>>,
    pidfd: OwnedFd,
}

impl Keeper {
    /// Forks the keeper of this group. To be called as root with one thread, before the mount namespace is left.
    pub fn start(group: BorrowedFd<'_>, user: &Identity) -> io::Result<Keeper> {
        let (ours, theirs) = link::pair()?;
        // SAFETY: this process has one thread, so the child may do anything that it may.
        match unsafe { fork() }? {
            ForkResult::Parent { child } => {
                let pid = Pid::from_raw(child.as_raw()).ok_or(io::ErrorKind::NotFound)?;
                Ok(Keeper { link: Mutex::new(Link::new(ours)), pidfd: pidfd_open(pid, PidfdFlags::empty())? })
            }
            ForkResult::Child => {
                drop(ours);
                keep(group, user, Link::new(theirs));
                // SAFETY: _exit(2) ends the process without running what the supervisor has for its own end.
                unsafe { libc::_exit(0) }
            }
        }
    }

    /// Ties the keeper to the session's init. Without this it ends with the supervisor.
    pub fn watch(&self, init: BorrowedFd<'_>) -> io::Result<()> {
        self.ask(&ToKeeper::Init, &[init])
    }

    /// unlink(2) or rmdir(2) of a name in this directory.
    pub fn remove(&self, directory: BorrowedFd<'_>, name: &[u8], is_directory: bool) -> io::Result<()> {
        self.ask(&ToKeeper::Remove { name: name.to_vec(), is_directory }, &[directory])
    }

    /// renameat2(2) between two directories.
    pub fn rename(
        &self,
        from: BorrowedFd<'_>,
        old: &[u8],
        to: BorrowedFd<'_>,
        new: &[u8],
        flags: u32,
    ) -> io::Result<()> {
        self.ask(&ToKeeper::Rename { old: old.to_vec(), new: new.to_vec(), flags }, &[from, to])
    }

    fn ask(&self, message: &ToKeeper, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        let gone = || io::Error::from_raw_os_error(libc::EIO);
        let link = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        link.send(message, fds).map_err(|_| gone())?;
        match link.receive().map_err(|_| gone())?.ok_or_else(gone)?.message {
            Done(0) => Ok(()),
            Done(errno) => Err(io::Error::from_raw_os_error(errno)),
        }
    }

    /// Waits until the keeper has ended, which it does by itself once init has; not longer than a second.
    pub fn wait(&self) {
        let mut polled = [PollFd::new(&self.pidfd, PollFlags::IN)];
        // A keeper that lingers is the machine's; nothing of the session is left that it could let through.
        let _ = poll(&mut polled, Some(&Timespec { tv_sec: 1, tv_nsec: 0 }));
    }
}

/// The keeper's whole life.
fn keep(group: BorrowedFd<'_>, user: &Identity, link: Link<Done, ToKeeper>) {
    // Whoever ends a whole control group in an orderly way begins with a signal that can be blocked: the keeper goes last.
    let all = sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::all()), None);
    // As root, for lack of memory must not end it before the tools; where this root may not, it is as likely as they.
    let _ = std::fs::write("/proc/self/oom_score_adj", "-1000");
    let named = rustix::thread::set_name(c"gated-keeper");
    let alone = close_all_but(&[group, link.as_fd()]);
    if all.is_err() || named.is_err() || alone.is_err() || leave_root(user, false).is_err() {
        return;
    }
    let Some(init) = first(&link) else { return };
    loop {
        let mut polled = [PollFd::new(&init, PollFlags::IN), PollFd::new(&link, PollFlags::IN)];
        match poll(&mut polled, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => break,
        }
        let [ended, asked] = polled.map(|one| !one.revents().is_empty());
        if ended {
            return;
        }
        if asked && !serve(&link) {
            break;
        }
    }
    // Nobody asks any more, or nonsense was asked: what is left is to be there until init is gone.
    let mut polled = [PollFd::new(&init, PollFlags::IN)];
    while !matches!(poll(&mut polled, None), Ok(1..)) {}
}

/// Init's pidfd; `None` if the session did not come to be.
fn first(link: &Link<Done, ToKeeper>) -> Option<OwnedFd> {
    let received = link.receive().ok()??;
    let ToKeeper::Init = received.message else { return None };
    let init = received.fds.into_iter().next()?;
    link.send(&Done(0), &[]).ok()?;
    Some(init)
}

/// One order; `false` if there will be no more.
fn serve(link: &Link<Done, ToKeeper>) -> bool {
    let Ok(Some(received)) = link.receive() else { return false };
    let mut fds = received.fds.into_iter();
    let done = match received.message {
        ToKeeper::Init => return false,
        ToKeeper::Remove { name, is_directory } => {
            let (Some(directory), Some(name)) = (fds.next(), plain(name)) else { return false };
            let flags = if is_directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
            unlinkat(directory, name, flags)
        }
        ToKeeper::Rename { old, new, flags } => {
            let (Some(from), Some(to)) = (fds.next(), fds.next()) else { return false };
            let (Some(old), Some(new)) = (plain(old), plain(new)) else { return false };
            renameat_with(from, old, to, new, RenameFlags::from_bits_retain(flags))
        }
    };
    let errno = done.err().map_or(0, rustix::io::Errno::raw_os_error);
    link.send(&Done(errno), &[]).is_ok()
}

/// One component, perhaps with trailing slashes.
fn plain(name: Vec<u8>) -> Option<CString> {
    let end = name.iter().rposition(|&byte| byte != b'/')?;
    let is_one = !name.get(..end).unwrap_or_default().contains(&b'/');
    if is_one { CString::new(name).ok() } else { None }
}
