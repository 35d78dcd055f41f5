//! A soak: a real daemon, sessions that come and go with real tools in them, and faults in all of it; then an account. Nothing
//! that was reported done is missing, nothing that was reported refused happened, the records have each decision, and
//! nothing is left: no process, descriptor, thread, memory, mount, grant or file. Needs root.
//!
//! `cargo test --test soak` takes about a minute; `-- --minutes N [--seed N]` goes on for so long. The seed is printed.

mod agent;
mod faults;
mod jobs;
mod journal;
mod measure;
#[path = "../differential/random.rs"]
mod random;
mod records;
mod storm;
#[path = "../support/mod.rs"]
mod support;
mod worker;
mod world;

use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

use storm::Soak;
use world::World;

/// Of every so many rounds in a long soak one has faults of the daemon.
const DAEMON_EACH: usize = 3;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    if args.get(1).is_some_and(|arg| arg == "--inside") {
        match args.get(2).map(String::as_str) {
            Some("worker") => worker::run(&args[3..]),
            Some("agent") => agent::run(&args[3..]),
            other => panic!("no part {other:?}"),
        }
        return ExitCode::SUCCESS;
    }
    if args.iter().any(|arg| arg == "--list") {
        println!("a_soak_loses_leaks_and_leaves_nothing: test");
        return ExitCode::SUCCESS;
    }
    let number = |name: &str| {
        let at = args.iter().position(|arg| arg == name)?;
        args.get(at + 1).map(|text| text.parse::<u64>().expect("a number"))
    };
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
    let seed = number("--seed").unwrap_or(now % 1_000_000_007);
    let minutes = number("--minutes");
    println!("seed {seed}");
    world::enter_namespace();
    let world = World::new();
    let (rounds, length) = match minutes {
        None => (Some(2), Duration::from_secs(8)),
        Some(_) => (None, Duration::from_secs(20)),
    };
    let end = Instant::now() + Duration::from_secs(60 * minutes.unwrap_or(0));
    match soak(&world, seed, rounds, length, end) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("the soak with seed {seed} failed: {error}");
            ExitCode::FAILURE
        }
    }
}

fn soak(world: &World, seed: u64, rounds: Option<usize>, length: Duration, end: Instant) -> Result<(), String> {
    let groups = measure::groups();
    let mut soak = Soak::new(world, seed)?;
    let began = Instant::now();
    let mut round = 0;
    while rounds.map_or_else(|| Instant::now() < end, |rounds| round < rounds) {
        let daemon_too = if rounds.is_some() { round == 0 } else { round % DAEMON_EACH == 1 };
        soak.round(length, daemon_too).map_err(|error| format!("round {round}: {error}"))?;
        round += 1;
        println!(
            "round {round} after {} s: {} commands, {} attempts, {} faults, the daemon {} KiB",
            began.elapsed().as_secs(),
            soak.jobs,
            soak.outcomes.values().sum::<usize>(),
            soak.schedule.counts.values().sum::<usize>(),
            soak.memory.last().copied().unwrap_or(0),
        );
    }
    if measure::groups() != groups {
        return Err("control groups are left".to_owned());
    }
    println!("attempts {:?}\nrecords {:?}\nfaults {:?}", soak.outcomes, soak.results, soak.schedule.counts);
    println!("the daemon's memory after each calm round, KiB: {:?}", soak.memory);
    soak.finish()
}
