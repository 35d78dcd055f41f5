//! The end of a call whose caller is gone: everything below its leader is killed, wherever it has fled to (setsid(2), two
//! forks), and nothing else. Runs in the leader, as the user, which all orphans of the call come back to
//! (`PR_SET_CHILD_SUBREAPER`(2const)); what it kills is hostile.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{CWD, Dir, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, pidfd_open, pidfd_send_signal, wait};

use super::procstat::{Stat, stat};

/// Looks for processes that have come since the last one. Those that are stopped start no more, so the looks come to an end
/// with a tool that does not start its own again.
const LOOKS_AT_MOST: usize = 64;

/// Kills all processes below this one; returns when none is left.
pub fn kill_descendants() -> io::Result<()> {
    let procfs = openat(CWD, "/proc", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    loop {
        // Those that have ended need no signal, and perhaps they were all.
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => break,
                Err(Errno::CHILD) => return Ok(()),
                Err(errno) => return Err(errno.into()),
            }
        }
        let mut stopped = HashSet::new();
        for _ in 0..LOOKS_AT_MOST {
            let before = stopped.len();
            for (pid, found) in descendants(&procfs)? {
                if stopped.insert((pid, found.started)) {
                    send(&procfs, pid, found, Signal::STOP);
                }
            }
            if stopped.len() == before {
                break;
            }
        }
        for (pid, found) in descendants(&procfs)? {
            send(&procfs, pid, found, Signal::KILL);
        }
        // Children of the leader are among them, and they are dying.
        match wait(WaitOptions::empty()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(Errno::CHILD) => return Ok(()),
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// To that very process, not to one that has got its number.
fn send(procfs: &OwnedFd, pid: i32, found: Stat, signal: Signal) {
    let Some(number) = Pid::from_raw(pid) else { return };
    // What is gone needs no signal.
    let Ok(pidfd) = pidfd_open(number, PidfdFlags::empty()) else { return };
    if stat(procfs, pid).is_some_and(|now| now.started == found.started) {
        let _ = pidfd_send_signal(&pidfd, signal);
    }
}

/// What is below this process now.
fn descendants(procfs: &OwnedFd) -> io::Result<Vec<(i32, Stat)>> {
    let mut children: HashMap<i32, Vec<(i32, Stat)>> = HashMap::new();
    for entry in Dir::read_from(procfs)? {
        let entry = entry?;
        let pid = entry.file_name().to_str().ok().and_then(|name| name.parse().ok());
        if let Some(pid) = pid
            && let Some(found) = stat(procfs, pid)
        {
            children.entry(found.parent).or_default().push((pid, found));
        }
    }
    let mut all = Vec::new();
    let mut next = vec![std::process::id() as i32];
    while let Some(parent) = next.pop() {
        for child in children.remove(&parent).unwrap_or_default() {
            next.push(child.0);
            all.push(child);
        }
    }
    Ok(all)
}
