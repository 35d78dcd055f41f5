//! What processes hold: descriptors, threads, memory, children; read from /proc.

use std::collections::BTreeMap;
use std::fs;

use crate::support::PidFd;
use crate::support::wait::parent_of;

/// What one process holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// By what they are, without numbers: `socket`, `anon_inode:[eventfd]`, a path.
    pub descriptors: BTreeMap<String, usize>,
    pub threads: usize,
    pub rss_kib: usize,
    pub zombies: usize,
}

impl Held {
    /// `None` once the process is gone.
    pub fn of(pid: i32) -> Option<Held> {
        let mut descriptors = BTreeMap::new();
        for entry in fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten() {
            let Ok(target) = fs::read_link(entry.path()) else { continue };
            let target = target.to_string_lossy().into_owned();
            // The log that a round has read is gone, and followed with the next record.
            let target = target.trim_end_matches(" (deleted)").to_owned();
            let kind = target.split(":[").next().unwrap_or_default();
            let kind = if target.starts_with("anon_inode") { &target } else { kind };
            *descriptors.entry(kind.to_owned()).or_default() += 1;
        }
        // A store that is locked for good keeps its one journal open from its first change on (SQLite, PRAGMA locking_mode).
        descriptors.retain(|kind, count| !(kind.ends_with("-journal") && *count == 1));
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let number = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key));
            line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
        };
        let zombies = processes().values().filter(|process| process.parent == pid && process.is_zombie).count();
        Some(Held { descriptors, threads: number("Threads:"), rss_kib: number("VmRSS:"), zombies })
    }

    pub fn count(&self) -> usize {
        self.descriptors.values().sum()
    }

    /// Kinds of descriptors of which there are more than in `before`.
    pub fn more_than(&self, before: &Held) -> BTreeMap<String, (usize, usize)> {
        let of = |held: &Held, kind: &str| held.descriptors.get(kind).copied().unwrap_or(0);
        let kinds = self.descriptors.keys().map(|kind| (kind.clone(), (of(before, kind), of(self, kind))));
        kinds.filter(|(_, (before, now))| now > before).collect()
    }
}

pub struct Process {
    pub parent: i32,
    pub name: String,
    pub is_zombie: bool,
    /// Whether it is in a pid namespace below ours.
    pub is_inside: bool,
}

/// Everything that runs.
pub fn processes() -> BTreeMap<i32, Process> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir("/proc").expect("/proc is mounted").flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) else { continue };
        let value = |key: &str| {
            status.lines().find_map(|line| line.strip_prefix(key)).map(str::trim).unwrap_or_default().to_owned()
        };
        all.insert(
            pid,
            Process {
                parent: value("PPid:").parse().unwrap_or(0),
                name: value("Name:"),
                is_zombie: value("State:").starts_with('Z'),
                is_inside: value("NSpid:").split_whitespace().count() > 1,
            },
        );
    }
    all
}

/// Everything below this process, itself not among it.
pub fn below(root: i32) -> BTreeMap<i32, Process> {
    let mut all = processes();
    let mut kept = vec![root];
    let mut next = 0;
    while let Some(&parent) = kept.get(next) {
        kept.extend(all.iter().filter(|(_, process)| process.parent == parent).map(|(pid, _)| *pid));
        next += 1;
    }
    all.retain(|pid, _| *pid != root && kept.contains(pid));
    all
}

/// A process below us, which can be signalled without harm to whoever has its number later.
pub fn held_below(pid: i32) -> Option<PidFd> {
    let process = PidFd::open(pid).ok()?;
    let me = std::process::id() as i32;
    let mut above = pid;
    while above != me {
        above = parent_of(above).filter(|&parent| parent > 1)?;
    }
    Some(process)
}

/// Reaps what became ours when its parent died. `own` are children that somebody waits for.
pub fn reap(own: &[i32]) {
    let me = std::process::id() as i32;
    for (pid, process) in processes() {
        if process.parent == me && process.is_zombie && !own.contains(&pid) {
            // SAFETY: waitpid(2) of a child of ours that nobody else waits for.
            unsafe { libc::waitpid(pid, std::ptr::null_mut(), libc::WNOHANG) };
        }
    }
}

/// Our mounts, without their numbers.
pub fn mounts() -> Vec<String> {
    let text = fs::read_to_string("/proc/self/mountinfo").expect("mountinfo");
    let mut mounts: Vec<String> =
        text.lines().map(|line| line.split(' ').skip(3).take(2).collect::<Vec<_>>().join(" ")).collect();
    mounts.sort();
    mounts
}

/// Control groups of gated's.
pub fn groups() -> Vec<String> {
    let mut found = Vec::new();
    let mut left = vec!["/sys/fs/cgroup".to_owned()];
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                let path = entry.path().display().to_string();
                if path.contains("gated") {
                    found.push(path.clone());
                }
                left.push(path);
            }
        }
    }
    found.sort();
    found
}
