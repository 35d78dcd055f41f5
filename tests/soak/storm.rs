//! One round: commands that come and go, faults among them, then quiet, and an account of everything.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Write;
use std::time::{Duration, Instant};

use crate::faults::{Fault, Parts, Schedule, Undo, choose, limit, starve};
use crate::jobs::{Job, Kind};
use crate::journal::{Attempt, Came, found};
use crate::measure::{self, Held};
use crate::random::Random;
use crate::records::Records;
use crate::support::{Running, Side};
use crate::world::{World, wait};

/// Commands at once.
const AT_ONCE: usize = 5;
/// How long anything may take to end once nothing goes wrong any more.
const PATIENCE: Duration = Duration::from_secs(170);
/// What a daemon may hold in memory beyond what it held before its first session: the last endings of sessions, counts of
/// answers, the store's cache, and what the allocator keeps.
const GROWTH_KIB: usize = 24 << 10;

/// What goes on from round to round.
pub struct Soak<'a> {
    pub world: &'a World,
    pub random: Random,
    pub daemon: Running<'a>,
    agent: Option<Running<'a>>,
    /// Of this daemon, before it had anything to do.
    idle: Held,
    pub schedule: Schedule,
    next_job: usize,
    restart: Option<Instant>,
    pub jobs: usize,
    pub outcomes: BTreeMap<String, usize>,
    pub highest: Held,
    pub memory: Vec<usize>,
    settled_records: usize,
    pub results: BTreeMap<String, usize>,
}

impl<'a> Soak<'a> {
    pub fn new(world: &'a World, seed: u64) -> Result<Soak<'a>, String> {
        let daemon = world.start_daemon();
        let mut soak = Soak {
            world,
            random: Random::new(seed),
            daemon,
            agent: None,
            idle: Held::default(),
            schedule: Schedule::default(),
            next_job: 0,
            restart: None,
            jobs: 0,
            outcomes: BTreeMap::new(),
            highest: Held::default(),
            memory: Vec::new(),
            settled_records: 0,
            results: BTreeMap::new(),
        };
        soak.ready()?;
        Ok(soak)
    }

    /// Waits for the daemon, and sees what it holds when it has served before and has nothing to do.
    fn ready(&mut self) -> Result<(), String> {
        self.world.wait_for_daemon(&self.daemon)?;
        self.ensure_agent()?;
        for profile in ["soak", "judged"] {
            let script = self.world.script();
            let target = self.world.outside().join("yes-warm");
            let command = format!("echo x >{0} && rm {0}", target.display());
            let outcome =
                self.world.served.run(&["--profile", profile, "--consent", &script, "--", "sh", "-c", &command]);
            if outcome.code() != 0 {
                return Err(format!("nothing went wrong yet: {outcome}"));
            }
        }
        wait("the sessions' end", PATIENCE, || Ok(self.world.left()? == (0, 0)))?;
        self.idle = Held::of(self.daemon.pid()).ok_or("the daemon is gone")?;
        Ok(())
    }

    fn ensure_agent(&mut self) -> Result<(), String> {
        if self.agent.as_ref().is_some_and(|agent| !agent.pidfd.ends_within(Duration::ZERO)) {
            return Ok(());
        }
        if let Some(gone) = self.agent.take() {
            gone.finish();
        }
        let mut line = vec!["env".into(), self.world.served.address()];
        line.extend(self.world.served.sandbox.inside::<&str>("agent", &[]));
        self.agent = Some(self.world.served.sandbox.start_line(Side::Bare, &line, None));
        Ok(())
    }

    /// One round of so long. `daemon_too`: the daemon gets its share of faults.
    pub fn round(&mut self, length: Duration, daemon_too: bool) -> Result<(), String> {
        let opened = self.world.served.run(&["--profile", "soak", "--new-session"]);
        let session = opened.out().trim().to_owned();
        if session.len() != 8 {
            return Err(format!("no session to share: {opened}"));
        }
        let (supervisor, before) = self.shared(&session)?;
        let mut jobs: Vec<Job<'a>> = Vec::new();
        let end = Instant::now() + length;
        let mut next_fault = Instant::now() + Duration::from_millis(500);
        let mut next_job = Instant::now();
        let mut running: Vec<usize> = Vec::new();
        while Instant::now() < end {
            for undo in self.schedule.due(false) {
                self.undo(undo);
            }
            if self.restart.is_some_and(|at| at <= Instant::now()) {
                self.restart = None;
                self.daemon = self.world.start_daemon();
            }
            running.retain(|&at| jobs.get(at).is_some_and(|job| !job.ends_within(Duration::ZERO)));
            if running.len() < AT_ONCE && next_job <= Instant::now() {
                let kind = Kind::pick(&mut self.random);
                let job = Job::start(self.world, kind, self.next_job, &session, &mut self.random);
                self.next_job += 1;
                running.push(jobs.len());
                jobs.push(job);
                next_job = Instant::now() + Duration::from_millis(60);
            }
            if next_fault <= Instant::now() {
                let fault = choose(&mut self.random, daemon_too);
                let clients: Vec<&Job<'a>> = running.iter().filter_map(|&at| jobs.get(at)).collect();
                if inject(
                    self.world,
                    &mut self.random,
                    &mut self.schedule,
                    fault,
                    &clients,
                    &self.daemon,
                    &self.agent,
                    supervisor,
                ) {
                    self.schedule.count(fault);
                    if matches!(fault, Fault::KillDaemon | Fault::TerminateDaemon) {
                        self.daemon_ends()?;
                    }
                }
                next_fault = Instant::now() + Duration::from_millis(100 + self.random.below(700) as u64);
            }
            if self.agent.as_ref().is_some_and(|agent| agent.pidfd.ends_within(Duration::ZERO)) && self.random.chance(5)
            {
                self.ensure_agent()?;
            }
            measure::reap(&self.own(&jobs));
            std::thread::sleep(Duration::from_millis(15));
        }
        self.quiet(daemon_too)?;
        self.end(jobs, &session, supervisor, &before, daemon_too)
    }

    /// The supervisor of the session that lasts, and what it holds after its first command.
    fn shared(&self, session: &str) -> Result<(i32, Held), String> {
        for _ in 0..2 {
            let outcome = self.world.served.run(&["--session", session, "--consent", "none", "--", "true"]);
            if outcome.code() != 0 {
                return Err(format!("nothing went wrong yet: {outcome}"));
            }
        }
        let parts = Parts::find();
        let [supervisor] = parts.supervisors[..] else {
            return Err(format!("one supervisor was expected: {:?}", parts.supervisors));
        };
        let settled = settled(supervisor)?;
        Ok((supervisor, settled))
    }

    fn own(&self, jobs: &[Job<'_>]) -> Vec<i32> {
        let others = [Some(&self.daemon), self.agent.as_ref()];
        jobs.iter().map(|job| job.running.pid()).chain(others.into_iter().flatten().map(Running::pid)).collect()
    }

    fn daemon_ends(&mut self) -> Result<(), String> {
        if !self.daemon.pidfd.ends_within(PATIENCE) {
            return Err(format!("the daemon does not end\n{}", stacks()));
        }
        self.restart = Some(Instant::now() + Duration::from_millis(self.random.below(1500) as u64));
        Ok(())
    }

    fn undo(&mut self, undo: Undo) {
        match undo {
            Undo::Continue(process) => process.kill(libc::SIGCONT),
            Undo::Limit(process, before) => {
                limit(&process, before);
            }
            Undo::EmptyDisk => {
                let _ = fs::remove_file(filler(self.world));
            }
        }
    }

    /// Nothing goes wrong from here on.
    fn quiet(&mut self, daemon_too: bool) -> Result<(), String> {
        for undo in self.schedule.due(true) {
            self.undo(undo);
        }
        self.world.jump(0);
        let ended = self.daemon.pidfd.ends_within(Duration::ZERO);
        if ended && !daemon_too {
            return Err(format!("the daemon ended by itself: {}", self.daemon.errors_so_far()));
        }
        if self.restart.take().is_some() || ended {
            self.daemon = self.world.start_daemon();
        }
        self.world.wait_for_daemon(&self.daemon)?;
        self.ensure_agent()
    }

    fn end(
        &mut self,
        jobs: Vec<Job<'a>>,
        session: &str,
        supervisor: i32,
        before: &Held,
        daemon_too: bool,
    ) -> Result<(), String> {
        for job in &jobs {
            if !job.ends_within(PATIENCE) {
                return Err(format!("job {} ({:?}) does not end\n{}", job.number, job.kind, stacks()));
            }
        }
        // While this one is at work, nothing goes wrong.
        let last = Job::undisturbed(self.world, self.next_job, session, &mut self.random);
        self.next_job += 1;
        if !last.ends_within(PATIENCE) {
            return Err(format!("an undisturbed command does not end\n{}", stacks()));
        }
        if let Some(held) = Held::of(supervisor).filter(|_| is_supervisor(supervisor)) {
            self.given_back(supervisor, held, before)?;
        }
        let _ = self.world.ask(&["session", "stop", session]);
        self.jobs += jobs.len() + 1;
        let mut there = found(&self.world.outside())?;
        there.retain(|name, _| name != "secret" && name != "secret/file");
        let mut attempts = last.account(self.world, &mut there, true)?;
        for job in jobs {
            attempts.extend(job.account(self.world, &mut there, false)?);
        }
        if !there.is_empty() {
            return Err(format!("outside, nobody made these: {there:?}"));
        }
        for attempt in &attempts {
            let came = match attempt.came {
                None => "open".to_owned(),
                Some(Came::Ok(_)) => "done".to_owned(),
                Some(Came::Errno(errno)) => nix::errno::Errno::from_raw(errno).to_string(),
            };
            *self.outcomes.entry(came).or_default() += 1;
        }
        self.records(&attempts, !daemon_too)?;
        // Accounted for; the next round begins with nothing there.
        for entry in fs::read_dir(self.world.outside()).map_err(|error| error.to_string())?.flatten() {
            if entry.file_name() != "secret" {
                let path = entry.path();
                let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
                removed.map_err(|error| error.to_string())?;
            }
        }
        self.nothing_left(daemon_too)
    }

    /// Of the supervisor that lasted: with no command in it, it holds what it held before.
    fn given_back(&mut self, supervisor: i32, mut held: Held, before: &Held) -> Result<(), String> {
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            let more = held.more_than(before);
            if more.is_empty() && held.threads <= before.threads {
                break;
            }
            if Instant::now() > end {
                return Err(format!("a supervisor keeps {more:?} and {} of {} threads", held.threads, before.threads));
            }
            std::thread::sleep(Duration::from_millis(50));
            held = Held::of(supervisor).ok_or("a supervisor ended before its session")?;
        }
        if held.rss_kib > before.rss_kib + GROWTH_KIB {
            return Err(format!("a supervisor grew from {} to {} KiB", before.rss_kib, held.rss_kib));
        }
        Ok(())
    }

    fn records(&mut self, attempts: &[Attempt], is_calm: bool) -> Result<(), String> {
        let records = Records::read(&self.world.log())?;
        let outside = self.world.outside();
        let mut by_job: BTreeMap<usize, Vec<&Attempt>> = BTreeMap::new();
        by_job.insert(0, attempts.iter().collect());
        for attempts in by_job.values() {
            records.settle(attempts, &outside, is_calm)?;
        }
        let mut known: BTreeSet<String> =
            attempts.iter().map(|attempt| attempt.name().trim_start_matches("out:").to_owned()).collect();
        known.insert("yes-warm".to_owned());
        let unexplained = records.unexplained(&outside, &known);
        if !unexplained.is_empty() {
            return Err(format!("permitted, and nobody tried: {unexplained:?}"));
        }
        self.settled_records += records.count;
        for (result, count) in records.results {
            *self.results.entry(result).or_default() += count;
        }
        // The next round begins a log of its own, which the daemon goes over to.
        for file in gated::daemon::audit::names(&self.world.log()) {
            if file.exists() {
                fs::remove_file(&file).map_err(|error| error.to_string())?;
            }
        }
        Ok(())
    }

    /// Sessions, grants, processes, descriptors, memory, mounts, groups and files.
    fn nothing_left(&mut self, daemon_too: bool) -> Result<(), String> {
        let world = self.world;
        let last = std::cell::Cell::new((0, 0));
        wait("the end of all sessions and grants", PATIENCE, || {
            last.set(world.left()?);
            Ok(last.get() == (0, 0))
        })
        .map_err(|error| format!("{error}: {:?}\n{}", last.get(), stacks()))?;
        let own = self.own(&[]);
        wait("the end of all processes", PATIENCE, || {
            measure::reap(&own);
            let parts = Parts::find();
            let all = [parts.supervisors, parts.inits, parts.keepers, parts.tools];
            Ok(all.iter().all(Vec::is_empty))
        })
        .map_err(|error| format!("{error}\n{}", stacks()))?;
        measure::reap(&own);
        let strays: Vec<String> = measure::below(std::process::id() as i32)
            .into_iter()
            .filter(|(pid, process)| !own.contains(pid) && process.name != "dbus-daemon")
            .map(|(pid, process)| format!("{pid} {}", process.name))
            .collect();
        if !strays.is_empty() {
            return Err(format!("processes are left: {strays:?}"));
        }
        let run = world.served.sandbox.control().join("run/sessions");
        let kept: Vec<_> = fs::read_dir(&run).map_err(|error| error.to_string())?.flatten().collect();
        if !kept.is_empty() {
            return Err(format!("files of sessions are left: {kept:?}"));
        }
        if measure::mounts() != world.mounts {
            return Err(format!("mounts are left: {:?}", measure::mounts()));
        }
        if daemon_too {
            // Another daemon than at the beginning: what it holds idle, after its first sessions, counts from here on.
            return self.ready();
        }
        let end = Instant::now() + Duration::from_secs(30);
        loop {
            let held = Held::of(self.daemon.pid()).ok_or("the daemon is gone")?;
            let more = held.more_than(&self.idle);
            // Threads for the disk go ten seconds after their last work.
            if more.is_empty() && held.zombies == 0 && held.threads <= self.idle.threads.max(2) {
                self.highest.threads = self.highest.threads.max(held.threads);
                self.highest.rss_kib = self.highest.rss_kib.max(held.rss_kib);
                self.memory.push(held.rss_kib);
                if held.rss_kib > self.idle.rss_kib + GROWTH_KIB {
                    return Err(format!("the daemon grew from {} to {} KiB", self.idle.rss_kib, held.rss_kib));
                }
                return Ok(());
            }
            if Instant::now() > end {
                return Err(format!(
                    "the daemon keeps {more:?}, {} zombies, {} threads of {}",
                    held.zombies, held.threads, self.idle.threads
                ));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// The last account: everything that the soak started ends, and leaves nothing.
    pub fn finish(mut self) -> Result<(), String> {
        if let Some(agent) = self.agent.take() {
            agent.pidfd.kill(libc::SIGTERM);
            agent.finish();
        }
        self.daemon.pidfd.kill(libc::SIGTERM);
        if !self.daemon.pidfd.ends_within(PATIENCE) {
            return Err(format!("the daemon does not end\n{}", stacks()));
        }
        let state = self.world.served.sandbox.control().join("state");
        let names: Vec<String> = fs::read_dir(state)
            .map_err(|error| error.to_string())?
            .flatten()
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .filter(|name| name != "grants.sqlite")
            .collect();
        if names.is_empty() { Ok(()) } else { Err(format!("files are left in the daemon's state: {names:?}")) }
    }
}

fn is_supervisor(pid: i32) -> bool {
    measure::processes().get(&pid).is_some_and(|process| process.name == "gated-session" && !process.is_zombie)
}

/// What a process holds once that stays the same for a while.
fn settled(pid: i32) -> Result<Held, String> {
    let mut last = Held::of(pid).ok_or("it is gone")?;
    let mut since = Instant::now();
    while since.elapsed() < Duration::from_millis(300) {
        std::thread::sleep(Duration::from_millis(20));
        let now = Held::of(pid).ok_or("it is gone")?;
        if (&now.descriptors, now.threads) != (&last.descriptors, last.threads) {
            since = Instant::now();
        }
        last = now;
    }
    Ok(last)
}

fn filler(world: &World) -> std::path::PathBuf {
    world.served.sandbox.workspace().join("small/filler")
}

/// Lets it happen; `false` if there is nobody that it could happen to.
#[expect(clippy::too_many_arguments, reason = "everything that can be hit")]
fn inject(
    world: &World,
    random: &mut Random,
    schedule: &mut Schedule,
    fault: Fault,
    clients: &[&Job<'_>],
    daemon: &Running<'_>,
    agent: &Option<Running<'_>>,
    lasting: i32,
) -> bool {
    let parts = Parts::find();
    let mut one = |from: &[i32]| {
        let pid = (!from.is_empty()).then(|| from[random.below(from.len())])?;
        measure::held_below(pid)
    };
    let clients: Vec<i32> = clients.iter().map(|job| job.running.pid()).collect();
    let daemons = [daemon.pid()];
    let agents: Vec<i32> = agent.iter().map(Running::pid).collect();
    // The session that lasts is killed seldom, or it would not.
    let spared: Vec<i32> = parts.supervisors.iter().copied().filter(|&pid| pid != lasting).collect();
    let below_spared: Vec<i32> = parts
        .inits
        .iter()
        .copied()
        .filter(|&pid| crate::support::wait::parent_of(pid).is_some_and(|parent| parent != lasting))
        .collect();
    let (process, signal) = match fault {
        Fault::KillTool => (one(&parts.tools), libc::SIGKILL),
        Fault::KillClient => (one(&clients), libc::SIGKILL),
        Fault::KillInit => (one(&below_spared), libc::SIGKILL),
        Fault::KillSupervisor => (one(&spared), libc::SIGKILL),
        Fault::KillKeeper => (one(&parts.keepers), libc::SIGKILL),
        Fault::KillAgent => (one(&agents), libc::SIGKILL),
        Fault::KillDaemon => (one(&daemons), libc::SIGKILL),
        Fault::TerminateDaemon => (one(&daemons), libc::SIGTERM),
        Fault::StopTool => (one(&parts.tools), libc::SIGSTOP),
        Fault::StopClient => (one(&clients), libc::SIGSTOP),
        Fault::StopSupervisor | Fault::StarveSupervisor => (one(&parts.supervisors), libc::SIGSTOP),
        Fault::StopAgent => (one(&agents), libc::SIGSTOP),
        Fault::StopDaemon | Fault::StarveDaemon => (one(&daemons), libc::SIGSTOP),
        Fault::JumpClock => {
            let far = random.pick(&[1, 30, 3600, 86_400, 400 * 86_400]);
            world.jump(if random.chance(50) { far } else { -far });
            return true;
        }
        Fault::FillDisk => {
            let Ok(mut file) = File::create(filler(world)) else { return false };
            while file.write_all(&[7; 4096]).is_ok() {}
            schedule.later(Duration::from_millis(200 + random.below(800) as u64), Undo::EmptyDisk);
            return true;
        }
    };
    let Some(process) = process else { return false };
    match fault {
        Fault::StarveSupervisor | Fault::StarveDaemon => {
            let Some(before) = starve(&process, random.below(6)) else { return false };
            schedule.later(Duration::from_millis(200 + random.below(800) as u64), Undo::Limit(process, before));
        }
        _ => {
            process.kill(signal);
            match signal {
                libc::SIGSTOP => {
                    let after = Duration::from_millis(50 + random.below(1200) as u64);
                    schedule.later(after, Undo::Continue(process));
                }
                // One that is stopped would not hear of it.
                libc::SIGTERM => process.kill(libc::SIGCONT),
                _ => {}
            }
        }
    }
    true
}

/// What everything below us is at, for a failure.
pub fn stacks() -> String {
    let mut text = String::new();
    for (pid, process) in measure::below(std::process::id() as i32) {
        text += &format!("{pid} {} (of {}):", process.name, process.parent);
        for entry in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
            let read = |name: &str| fs::read_to_string(entry.path().join(name)).unwrap_or_default();
            let call = read("syscall").split(' ').next().unwrap_or_default().trim().to_owned();
            let state = read("stat").rsplit(") ").next().unwrap_or_default().chars().next().unwrap_or('?');
            text += &format!(" {}[{}]{state}:{call}", entry.file_name().to_string_lossy(), read("comm").trim());
        }
        text.push('\n');
    }
    text
}
