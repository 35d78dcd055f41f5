//! Waiting for something with a deadline: on a process by its pidfd, on anything else by looking again.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// Long enough for a loaded two-core machine, short enough to fail a run.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// Looks every few milliseconds until `look` gives something; panics with `what` after [`DEADLINE`].
#[track_caller]
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + DEADLINE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "waited {DEADLINE:?} for {what}");
        std::thread::sleep(Duration::from_millis(3));
    }
}

/// A process that cannot be mistaken for a later one with its number.
pub struct PidFd {
    pub pid: i32,
    fd: OwnedFd,
}

impl PidFd {
    /// Fails with `ESRCH` if the process is gone.
    pub fn open(pid: i32) -> io::Result<PidFd> {
        // SAFETY: pidfd_open(2) takes two integers.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel just gave this descriptor to us alone.
        Ok(PidFd { pid, fd: unsafe { OwnedFd::from_raw_fd(fd as i32) } })
    }

    /// Whether the process ended within `limit`.
    pub fn ends_within(&self, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let mut poll = libc::pollfd { fd: self.fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: one pollfd, and the count says so.
            let ready = unsafe { libc::poll(&mut poll, 1, left.as_millis().min(60_000) as i32) };
            if ready > 0 {
                return true;
            }
            if left.is_zero() {
                return false;
            }
        }
    }

    pub fn kill(&self, signal: i32) {
        // SAFETY: a pidfd, a number, a null siginfo and no flags, pidfd_send_signal(2).
        unsafe { libc::syscall(libc::SYS_pidfd_send_signal, self.fd.as_raw_fd(), signal, 0, 0) };
    }
}

/// The parent of a process, from /proc/PID/stat; `None` once it is gone.
pub fn parent_of(pid: i32) -> Option<i32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

/// Every process below `root`, in no order; `root` itself is not among them.
pub fn descendants(root: i32) -> Vec<PidFd> {
    let mut children: Vec<(i32, i32)> = Vec::new();
    for entry in std::fs::read_dir("/proc").expect("/proc is mounted").flatten() {
        if let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok())
            && let Some(parent) = parent_of(pid)
        {
            children.push((parent, pid));
        }
    }
    let mut found = vec![root];
    let mut next = 0;
    while let Some(&parent) = found.get(next) {
        found.extend(children.iter().filter(|(above, _)| *above == parent).map(|(_, pid)| *pid));
        next += 1;
    }
    found.into_iter().skip(1).filter_map(|pid| PidFd::open(pid).ok()).collect()
}
