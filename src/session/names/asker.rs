//! Who holds the socket that a query came from, and so gets the answer.
//!
//! Runs as the user in the supervisor, on `/proc`; the processes are hostile. A datagram tells no process, but the session's
//! network namespace has a table of its sockets (proc_pid_net(5)), and each process a list of its own. Where nobody is found,
//! nobody is answered: a query whose sender is gone asks for nothing.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{Dir, Mode, OFlags, openat, readlinkat};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::packet::Carrier;
use crate::common::id::CallId;
use crate::common::net::canonical;
use crate::common::request::Who;
use crate::session::calls::{Call, Calls};
use crate::session::held::Held;
use crate::session::judge::Halt;
use crate::session::procthread::ProcThread;
use crate::session::sys;
use crate::session::target::Unreadable;

/// Of a table of sockets; some 150 bytes each.
const TABLE_BYTES: usize = 1 << 20;
/// Sockets that would all get the answer.
const SOCKETS_AT_MOST: usize = 8;
/// Processes that asked last, in which the next socket is looked for first.
const REMEMBERED: usize = 16;
const MISSING_REMEMBERED: usize = 64;
const MISSING_FOR: Duration = Duration::from_secs(1);
/// Descriptors of one process that are looked at.
const DESCRIPTORS_AT_MOST: usize = 65_536;

/// Between whom a query travelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sender {
    pub carrier: Carrier,
    /// The tool's side.
    pub from: SocketAddr,
    /// The address that it asked at.
    pub to: SocketAddr,
}

/// Finds processes by their sockets.
pub struct Finder {
    /// The outer `/proc`.
    procfs: OwnedFd,
    calls: Arc<Calls>,
    /// Init's id in it, whose network namespace is the session's.
    init: i32,
    user: u32,
    recent: Mutex<VecDeque<i32>>,
    /// Sockets of which nobody was found to have a descriptor, and when: they may be on the way from one process to another.
    missing: Mutex<VecDeque<(u64, Instant)>>,
}

/// A process of the session that has asked for a name.
pub struct Asker {
    process: i32,
    pinned: ProcThread,
    /// Readable when the process has ended, whoever has its id by then.
    pidfd: OwnedFd,
    call: Arc<Call>,
    number: CallId,
}

impl Finder {
    pub fn new(procfs: OwnedFd, calls: Arc<Calls>, init: i32) -> Finder {
        let user = rustix::process::geteuid().as_raw();
        Finder { procfs, calls, init, user, recent: Mutex::default(), missing: Mutex::default() }
    }

    /// The process that an answer would reach.
    pub fn find(&self, sender: &Sender) -> Option<Asker> {
        let inodes = self.inodes(sender);
        if inodes.is_empty() || self.are_missing(&inodes) {
            return None;
        }
        let links: Vec<Vec<u8>> = inodes.iter().map(|inode| format!("socket:[{inode}]").into_bytes()).collect();
        let recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let known = recent.iter().copied().find_map(|process| self.asker(process, &links));
        let found = match known {
            Some(asker) => asker,
            None => match self.processes().into_iter().find_map(|process| self.asker(process, &links)) {
                Some(asker) => asker,
                None => {
                    self.miss(&inodes);
                    return None;
                }
            },
        };
        self.remember(found.process);
        Some(found)
    }

    /// Whoever sends a flood from a socket that nobody has does not make us look through all processes for each.
    fn are_missing(&self, inodes: &[u64]) -> bool {
        let missing = self.missing.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known =
            |inode: &u64| missing.iter().any(|(other, since)| other == inode && since.elapsed() < MISSING_FOR);
        inodes.iter().all(is_known)
    }

    fn miss(&self, inodes: &[u64]) {
        let mut missing = self.missing.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        for inode in inodes {
            missing.push_front((*inode, now));
        }
        missing.truncate(MISSING_REMEMBERED);
    }

    fn remember(&self, process: i32) {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if recent.front() != Some(&process) {
            recent.retain(|other| *other != process);
            recent.push_front(process);
            recent.truncate(REMEMBERED);
        }
    }

    /// The sockets that an answer would reach, by their inodes in sockfs.
    fn inodes(&self, sender: &Sender) -> Vec<u64> {
        let tables = match (sender.carrier, sender.from) {
            // An IPv6 socket may send over IPv4.
            (Carrier::Datagram, SocketAddr::V4(_)) => ["udp", "udp6"].as_slice(),
            (Carrier::Datagram, SocketAddr::V6(_)) => &["udp6"],
            (Carrier::Stream, SocketAddr::V4(_)) => &["tcp", "tcp6"],
            (Carrier::Stream, SocketAddr::V6(_)) => &["tcp6"],
        };
        let mut path = String::new();
        let mut best = (Fit::Port, Vec::new());
        for table in tables {
            path.clear();
            let _ = write!(path, "{}/net/{table}", self.init);
            let Some(text) = read_whole(self.procfs.as_fd(), &path) else { continue };
            for (fit, inode) in text.split(|&byte| byte == b'\n').filter_map(|line| fitting(line, sender)) {
                if fit > best.0 {
                    best = (fit, Vec::new());
                }
                if fit == best.0 && best.1.len() < SOCKETS_AT_MOST {
                    best.1.push(inode);
                }
            }
            // Of two that are connected to the same the kernel has none.
            if best.0 == Fit::Peer {
                break;
            }
        }
        best.1
    }

    /// The processes of the session's user, the youngest first as far as numbers tell.
    fn processes(&self) -> Vec<i32> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let Ok(entries) = openat(&self.procfs, c".", flags, Mode::empty()).and_then(Dir::new) else {
            return Vec::new();
        };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().to_str().ok()?.parse::<i32>().ok());
        let mut processes: Vec<i32> = names.filter(|process| *process > 0 && *process != self.init).collect();
        processes.sort_unstable_by_key(|process| std::cmp::Reverse(*process));
        processes
    }

    /// The process, if it is one of the session that has one of these sockets.
    fn asker(&self, process: i32, links: &[Vec<u8>]) -> Option<Asker> {
        let pinned = ProcThread::open(self.procfs.as_fd(), process).ok()?;
        let owner = rustix::fs::fstat(pinned.directory()).ok()?.st_uid;
        if owner != self.user || !has_socket(pinned.directory(), links) {
            return None;
        }
        let call = self.calls.find(self.procfs.as_fd(), self.init, process)?;
        let number = call.of(self.procfs.as_fd(), process);
        let pidfd = pidfd_open(Pid::from_raw(process)?, PidfdFlags::empty()).ok()?;
        // While what is pinned can be read, the number was its own.
        pinned.status().ok()?;
        Some(Asker { process, pinned, pidfd, call, number })
    }
}

/// How well a socket fits: the best one is that which the kernel gives the answer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    Port,
    Address,
    Peer,
}

/// The inode of a line of `/proc/net/udp` and its like, if an answer to `sender` may reach that socket.
fn fitting(line: &[u8], sender: &Sender) -> Option<(Fit, u64)> {
    let line = std::str::from_utf8(line).ok()?;
    let mut fields = line.split_ascii_whitespace().skip(1);
    let (local, remote) = (address(fields.next()?)?, address(fields.next()?)?);
    if local.port() != sender.from.port() {
        return None;
    }
    // `st`, the queues, the timer, `retrnsmt`, `uid`, `timeout`, then the inode.
    let inode = fields.nth(6)?.parse().ok().filter(|inode| *inode != 0)?;
    let same = |one: SocketAddr, other: SocketAddr| canonical(one.ip()) == canonical(other.ip());
    let is_bound_to_it = same(local, sender.from);
    let is_connected = remote.port() != 0;
    let is_peer = remote.port() == sender.to.port() && same(remote, sender.to);
    match (is_bound_to_it, is_connected, is_peer) {
        (true, true, true) => Some((Fit::Peer, inode)),
        (true, false, _) if sender.carrier == Carrier::Datagram => Some((Fit::Address, inode)),
        (false, false, _) if sender.carrier == Carrier::Datagram && local.ip().is_unspecified() => {
            Some((Fit::Port, inode))
        }
        _ => None,
    }
}

/// `0100007F:0035`: words in the machine's byte order (net/ipv4/udp.c), a port.
fn address(text: &str) -> Option<SocketAddr> {
    let (host, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| {
        let digits = host.get(at.checked_mul(8)?..at.checked_add(1)?.checked_mul(8)?)?;
        u32::from_str_radix(digits, 16).ok().map(u32::to_ne_bytes)
    };
    let ip: IpAddr = match host.len() {
        8 => Ipv4Addr::from(word(0)?).into(),
        32 => {
            let mut bytes = [0; 16];
            for (at, part) in bytes.chunks_exact_mut(4).enumerate() {
                part.copy_from_slice(&word(at)?);
            }
            Ipv6Addr::from(bytes).into()
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

fn read_whole(procfs: BorrowedFd<'_>, path: &str) -> Option<Vec<u8>> {
    let file = openat(procfs, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let mut text = vec![0; 16 * 1024];
    let mut length = 0_usize;
    loop {
        if length == text.len() {
            if text.len() >= TABLE_BYTES {
                break;
            }
            text.resize(text.len().saturating_mul(2), 0);
        }
        match rustix::io::retry_on_intr(|| rustix::io::read(&file, text.get_mut(length..).unwrap_or_default())) {
            Ok(0) => break,
            Ok(count) => length = length.saturating_add(count),
            Err(_) => return None,
        }
    }
    text.truncate(length);
    Some(text)
}

/// Whether one of the descriptors of a process, by its directory in `/proc`, leads to one of these.
fn has_socket(directory: BorrowedFd<'_>, links: &[Vec<u8>]) -> bool {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(descriptors) = openat(directory, c"fd", flags, Mode::empty()) else { return false };
    let Ok(entries) = Dir::read_from(&descriptors) else { return false };
    let mut text = Vec::with_capacity(64);
    for entry in entries.take(DESCRIPTORS_AT_MOST) {
        let Ok(entry) = entry else { return false };
        text.clear();
        match readlinkat(&descriptors, entry.file_name(), std::mem::take(&mut text)) {
            Ok(target) if links.iter().any(|link| target.as_bytes() == link) => return true,
            Ok(target) => text = target.into_bytes(),
            // `.` and `..`, and what has just been closed.
            Err(_) => {}
        }
    }
    false
}

impl Asker {
    pub fn call(&self) -> CallId {
        self.number
    }
}

impl Held for Asker {
    fn thread(&self) -> i32 {
        self.process
    }

    fn who(&self) -> Result<Who, Unreadable> {
        self.pinned.who().map_err(|_| Unreadable::Gone)
    }

    fn main_call(&self) -> CallId {
        self.call.id()
    }

    fn call_id(&self) -> Result<CallId, Unreadable> {
        Ok(self.number)
    }

    /// Nothing is held but the answer, so signals need none; whoever is dead needs none either.
    fn look(&self) -> Result<(), Halt> {
        if sys::is_alive(&self.pidfd) { Ok(()) } else { Err(Halt::Gone) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sender(from: &str, to: &str, carrier: Carrier) -> Sender {
        Sender { carrier, from: from.parse().unwrap(), to: to.parse().unwrap() }
    }

    fn line(local: &str, remote: &str) -> String {
        format!(
            "  12: {local} {remote} 07 00000000:00000000 00:00000000 00000000  1000        0 4711 2 0000000000000000 0"
        )
    }

    #[test]
    fn the_socket_that_fits_best_is_the_one_that_is_answered() {
        let from = sender("127.0.0.1:4660", "127.0.0.1:53", Carrier::Datagram);
        let fit = |local, remote| fitting(line(local, remote).as_bytes(), &from).map(|(fit, _)| fit);
        assert_eq!(fit("0100007F:1234", "0100007F:0035"), Some(Fit::Peer));
        assert_eq!(fit("0100007F:1234", "00000000:0000"), Some(Fit::Address));
        assert_eq!(fit("00000000:1234", "00000000:0000"), Some(Fit::Port));
        assert_eq!(
            fit("0000000000000000FFFF00000100007F:1234", "0000000000000000FFFF00000100007F:0035"),
            Some(Fit::Peer)
        );
        assert_eq!(
            fit("00000000000000000000000000000000:1234", "00000000000000000000000000000000:0000"),
            Some(Fit::Port)
        );
        assert_eq!(fit("0100007F:1235", "00000000:0000"), None);
        assert_eq!(fit("0200007F:1234", "00000000:0000"), None);
        assert_eq!(fit("0100007F:1234", "0200007F:0035"), None);
        let stream = sender("127.0.0.1:4660", "8.8.8.8:53", Carrier::Stream);
        assert_eq!(fitting(line("0100007F:1234", "08080808:0035").as_bytes(), &stream), Some((Fit::Peer, 4711)));
        assert_eq!(fitting(line("0100007F:1234", "00000000:0000").as_bytes(), &stream), None);
        assert_eq!(fitting(b"  sl  local_address rem_address   st tx_queue", &stream), None);
    }
}
