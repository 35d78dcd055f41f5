//! Random sequences of file system calls, bare and under a profile that allows everything: results, errnos and the trees
//! that are left must be equal.
//!
//! `cargo test --test differential` runs the kept programs and a few thousand of a fixed seed.
//! `cargo test --test differential -- --long [--seed N] [--minutes M]` goes on with new programs; what it finds is shrunk,
//! printed and written below `target/tmp/`; a program worth keeping goes to `tests/differential/kept/`.
//! `--seed N --only K` runs one program; `--bare` compares bare with bare (the comparison itself must find nothing).

mod compare;
mod executor;
mod generator;
mod operand;
mod prelude;
mod program;
mod random;
#[path = "../support/mod.rs"]
mod support;
mod wrong;

use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use compare::{Pair, differences, shrink};
use libtest_mimic::{Arguments, Failed, Trial};
use program::Step;
use support::Side;
use wrong::Wrong;

/// The seed of the default run.
const SEED: u64 = 20_261_121;

/// Programs in one process, and in the default run.
const BATCH: u64 = 250;
const PROGRAMS: u64 = 3_000;

fn main() -> ExitCode {
    let mut args: Vec<String> = std::env::args().collect();
    if args.get(1).is_some_and(|arg| arg == "--inside") {
        return inside(&args[2..]);
    }
    // The harness shows a failure's text at its end; where it was raised is enough at once.
    std::panic::set_hook(Box::new(|panic| {
        eprintln!("failed at {}", panic.location().map(ToString::to_string).unwrap_or_default())
    }));
    let mut take = |name: &str, valued: bool| {
        let at = args.iter().position(|arg| arg == name)?;
        args.remove(at);
        if valued { Some(args.remove(at)) } else { Some(String::new()) }
    };
    let number = |text: Option<String>| text.map(|text| text.parse::<u64>().expect("a number"));
    let side = if take("--bare", false).is_some() { Side::Bare } else { Side::Gated };
    let (seed, only) = (number(take("--seed", true)), number(take("--only", true)));
    let minutes = number(take("--minutes", true));
    let pair = Pair { side, wrong: Wrong::Nothing };
    if let Some(only) = only {
        return one(pair, seed.unwrap_or(SEED), only);
    }
    if take("--long", false).is_some() {
        return long(pair, seed.unwrap_or(SEED + 1), Duration::from_secs(60 * minutes.unwrap_or(10)));
    }
    libtest_mimic::run(&Arguments::from_iter(args), trials(pair, seed.unwrap_or(SEED))).exit_code()
}

fn trials(pair: Pair, seed: u64) -> Vec<Trial> {
    let mut trials = vec![
        Trial::test("the_text_of_a_program_says_all_of_it", text_round_trip),
        Trial::test("bare_equals_bare", move || {
            check(Pair { side: Side::Bare, wrong: Wrong::Nothing }, seed, 0, BATCH)
        }),
        Trial::test("kept_programs_are_equal", move || kept(pair)),
    ];
    for wrong in Wrong::ALL {
        trials.push(Trial::test(format!("a_wrong_executor_is_found::{wrong:?}"), move || {
            a_mistake_is_found(wrong, seed)
        }));
    }
    for first in (0..PROGRAMS).step_by(BATCH as usize) {
        let name = format!("random_programs_are_equal::seed_{seed}_from_{first:04}");
        trials.push(Trial::test(name, move || check(pair, seed, first, BATCH)));
    }
    trials
}

/// In the re-executed process: `programs FILE FOREIGN WRONG`.
fn inside(args: &[String]) -> ExitCode {
    let [name, file, foreign, wrong] = args else { panic!("--inside programs FILE FOREIGN WRONG") };
    assert_eq!(name, "programs");
    let text = fs::read_to_string(file).expect("the programs");
    let programs: Vec<Vec<Step>> = text.split("%\n").skip(1).map(program::from_text).collect();
    executor::run_all(&programs, foreign, Wrong::from_name(wrong).expect("a mistake's name"));
    ExitCode::SUCCESS
}

fn programs(seed: u64, first: u64, count: u64) -> Vec<Vec<Step>> {
    (first..first + count).map(|number| generator::program(seed, number)).collect()
}

fn check(pair: Pair, seed: u64, first: u64, count: u64) -> Result<(), Failed> {
    let programs = programs(seed, first, count);
    match differences(&programs, pair).into_iter().next() {
        None => Ok(()),
        Some(difference) => {
            let number = first + difference.index as u64;
            let difference = shrink(difference, pair);
            let kept = keep(&format!("seed-{seed}-program-{number}"), &difference);
            Err(format!("seed {seed}, program {number}: {}  written to {kept}", difference.report()).into())
        }
    }
}

/// Writes a found program where a person can take it from.
fn keep(name: &str, difference: &compare::Difference) -> String {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("differential-{name}.txt"));
    let comment: String = difference.report().lines().map(|line| format!("# {line}\n")).collect();
    match fs::write(&file, comment + &program::to_text(&difference.steps)) {
        Ok(()) => file.display().to_string(),
        Err(error) => format!("nowhere: {}: {error}", file.display()),
    }
}

fn kept(pair: Pair) -> Result<(), Failed> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/differential/kept");
    let mut files: Vec<_> =
        fs::read_dir(&dir)?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "txt"));
    files.sort();
    let programs: Vec<_> =
        files.iter().map(|file| program::from_text(&fs::read_to_string(file).expect("a kept program"))).collect();
    if programs.is_empty() {
        return Err(format!("no program in {}", dir.display()).into());
    }
    let found = differences(&programs, pair);
    let reports: String =
        found.iter().map(|found| format!("{}: {}", files[found.index].display(), found.report())).collect();
    if reports.is_empty() { Ok(()) } else { Err(reports.into()) }
}

/// The comparison reports a deliberate mistake, and shrinks it to the few steps that show it.
fn a_mistake_is_found(wrong: Wrong, seed: u64) -> Result<(), Failed> {
    let pair = Pair { side: Side::Bare, wrong };
    let found =
        differences(&programs(seed, 0, BATCH), pair).into_iter().next().ok_or("no program shows the mistake")?;
    let small = shrink(found, pair);
    if small.steps.len() > 3 { Err(format!("not shrunk: {}", small.report()).into()) } else { Ok(()) }
}

fn text_round_trip() -> Result<(), Failed> {
    for number in 0..500 {
        let steps = generator::program(SEED, number);
        assert_eq!(program::from_text(&program::to_text(&steps)), steps, "program {number}");
    }
    Ok(())
}

fn one(pair: Pair, seed: u64, number: u64) -> ExitCode {
    match differences(&programs(seed, number, 1), pair).into_iter().next() {
        None => {
            println!("seed {seed}, program {number}: equal");
            ExitCode::SUCCESS
        }
        Some(difference) => {
            println!("seed {seed}, program {number}: {}", shrink(difference, pair).report());
            ExitCode::FAILURE
        }
    }
}

fn long(pair: Pair, seed: u64, limit: Duration) -> ExitCode {
    let end = Instant::now() + limit;
    let (mut first, mut failures) = (0, 0);
    println!("seed {seed}, for {} minutes", limit.as_secs() / 60);
    while Instant::now() < end {
        if let Err(failure) = check(pair, seed, first, BATCH) {
            println!("{}", failure.message().unwrap_or("failed"));
            failures += 1;
        }
        first += BATCH;
        println!("{first} programs, {failures} batches with a difference");
    }
    if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
