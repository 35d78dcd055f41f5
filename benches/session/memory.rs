//! What the processes of ours hold while a session runs: supervisor, init and leader, all of them `gated-session`.

use std::fs;

use crate::support::wait::descendants;

/// Memory of one session's processes in kB, proc_pid_smaps(5) and proc_pid_status(5).
pub struct Memory {
    pub processes: usize,
    /// Proportional: what is shared counts once for all that share it.
    pub pss: u64,
    /// What is theirs alone.
    pub private: u64,
    /// Resident; the program's text and the libraries count once for each process.
    pub rss: u64,
    /// The supervisor's most.
    pub peak: u64,
}

fn field(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

fn read(pid: i32, file: &str) -> String {
    fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default()
}

/// Of one process.
pub fn of(pid: i32) -> Memory {
    let (status, rollup) = (read(pid, "status"), read(pid, "smaps_rollup"));
    Memory {
        processes: 1,
        pss: field(&rollup, "Pss"),
        private: field(&rollup, "Private_Clean") + field(&rollup, "Private_Dirty"),
        rss: field(&status, "VmRSS"),
        peak: field(&status, "VmHWM"),
    }
}

/// Of every process named `gated-session` below `root`.
pub fn of_session_below(root: i32) -> Memory {
    let mut memory = Memory { processes: 0, pss: 0, private: 0, rss: 0, peak: 0 };
    let ours = descendants(root).into_iter().map(|process| process.pid);
    for pid in ours.filter(|&pid| read(pid, "status").starts_with("Name:\tgated-session\n")) {
        let one = of(pid);
        memory.processes += 1;
        memory.pss += one.pss;
        memory.private += one.private;
        memory.rss += one.rss;
        memory.peak = memory.peak.max(one.peak);
    }
    memory
}
