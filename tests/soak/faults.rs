//! What goes wrong, and when. Everything that is only for a while is undone by the same schedule.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::measure::{self, Held};
use crate::random::Random;
use crate::support::PidFd;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    KillTool,
    KillClient,
    KillInit,
    KillSupervisor,
    KillKeeper,
    KillAgent,
    KillDaemon,
    TerminateDaemon,
    StopTool,
    StopClient,
    StopSupervisor,
    StopAgent,
    StopDaemon,
    StarveSupervisor,
    StarveDaemon,
    JumpClock,
    FillDisk,
}

use Fault::*;

/// What may happen to sessions alone, often.
const OF_SESSIONS: &[(Fault, usize)] = &[
    (KillTool, 5),
    (KillClient, 3),
    (KillInit, 1),
    (KillSupervisor, 3),
    (KillKeeper, 1),
    (KillAgent, 2),
    (StopTool, 3),
    (StopClient, 2),
    (StopSupervisor, 3),
    (StopAgent, 2),
    (StarveSupervisor, 4),
    (FillDisk, 3),
];

/// And to the daemon that serves them.
const OF_DAEMON: &[(Fault, usize)] =
    &[(KillDaemon, 4), (TerminateDaemon, 2), (StopDaemon, 4), (StarveDaemon, 3), (JumpClock, 4)];

/// The next fault.
pub fn choose(random: &mut Random, daemon_too: bool) -> Fault {
    let all = || OF_SESSIONS.iter().chain(OF_DAEMON.iter().filter(|_| daemon_too));
    let mut at = random.below(all().map(|(_, weight)| weight).sum());
    for (fault, weight) in all() {
        if at < *weight {
            return *fault;
        }
        at -= weight;
    }
    unreachable!("the weights are the sum")
}

/// What is undone later.
pub enum Undo {
    Continue(PidFd),
    Limit(PidFd, libc::rlimit),
    EmptyDisk,
}

/// What happened, and what is still to be undone.
#[derive(Default)]
pub struct Schedule {
    pub counts: BTreeMap<Fault, usize>,
    later: Vec<(Instant, Undo)>,
}

impl Schedule {
    pub fn count(&mut self, fault: Fault) {
        *self.counts.entry(fault).or_default() += 1;
    }

    pub fn later(&mut self, after: Duration, undo: Undo) {
        self.later.push((Instant::now() + after, undo));
    }

    /// What is due, or, at the end, all of it.
    pub fn due(&mut self, all: bool) -> Vec<Undo> {
        let now = Instant::now();
        let due = self.later.extract_if(.., |(at, _)| all || *at <= now);
        due.map(|(_, undo)| undo).collect()
    }
}

/// Leaves a process room for so many more descriptors; what the limit was.
pub fn starve(process: &PidFd, room: usize) -> Option<libc::rlimit> {
    let held = Held::of(process.pid)?;
    let mut before = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: prlimit(2) reads nothing and writes one struct of ours.
    let got = unsafe { libc::prlimit(process.pid, libc::RLIMIT_NOFILE, std::ptr::null(), &mut before) };
    let now = libc::rlimit { rlim_cur: (held.count() + room) as u64, rlim_max: before.rlim_max };
    (got == 0 && limit(process, now)).then_some(before)
}

pub fn limit(process: &PidFd, limit: libc::rlimit) -> bool {
    // SAFETY: prlimit(2) reads one struct of ours and writes nothing.
    unsafe { libc::prlimit(process.pid, libc::RLIMIT_NOFILE, &limit, std::ptr::null_mut()) == 0 }
}

/// Processes of sessions, by the part that they play.
#[derive(Default)]
pub struct Parts {
    pub supervisors: Vec<i32>,
    pub inits: Vec<i32>,
    pub keepers: Vec<i32>,
    pub tools: Vec<i32>,
}

impl Parts {
    /// Of all sessions below us.
    pub fn find() -> Parts {
        let all = measure::below(std::process::id() as i32);
        let is_ours = |pid: &i32| all.get(pid).is_some_and(|process| process.name == "gated-session");
        let mut parts = Parts::default();
        for (pid, process) in all.iter().filter(|(_, process)| !process.is_zombie) {
            match (is_ours(pid), is_ours(&process.parent), process.is_inside) {
                (true, false, false) => parts.supervisors.push(*pid),
                (true, true, false) => parts.keepers.push(*pid),
                (true, true, true) if all.get(&process.parent).is_some_and(|parent| !parent.is_inside) => {
                    parts.inits.push(*pid)
                }
                (false, _, true) => parts.tools.push(*pid),
                _ => {}
            }
        }
        parts
    }
}
