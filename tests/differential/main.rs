//! Random sequences of system calls, bare and under a profile that allows everything: results, errnos and the trees that
//! are left must be equal. Most are of files; others of processes, signals, sockets and terminals (`kinds.rs`). Beside
//! them the errnos that manual pages list (`errnos.rs`), and races of two processes (`races.rs`).
//!
//! `cargo test --test differential` runs the kept programs and a few thousand of a fixed seed.
//! `cargo test --test differential -- --long [--seed N] [--minutes M]` goes on with new programs, of all kinds in turns; what
//! it finds is shrunk, printed and written below `target/tmp/`; a program worth keeping goes to `tests/differential/kept/`.
//! `--seed N --only K` runs one program. With `--kind signals` (`processes`, `sockets`, `terminals`, `files`) it is, or all
//! are, of that kind; `--bare` compares bare with bare (the comparison itself must find nothing).

mod acts;
mod compare;
mod errnos;
mod executor;
mod generator;
mod kinds;
mod operand;
mod prelude;
mod processes;
mod program;
mod races;
mod random;
mod signals;
mod sockets;
#[path = "../support/mod.rs"]
mod support;
mod terminals;
mod wrong;

use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use compare::{Difference, Pair, differences, shrink};
use kinds::Kind;
use libtest_mimic::{Arguments, Failed, Trial};
use program::Step;
use support::Side;
use wrong::Wrong;

/// The seed of the default run.
const SEED: u64 = 20_261_121;

/// Programs in one process, and in the default run.
const BATCH: u64 = 250;
const PROGRAMS: u64 = 3_000;

/// Programs of each further kind in the default run, in one process.
const OF_A_KIND: u64 = 40;

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
    let kind = take("--kind", true);
    let all = || [None].into_iter().chain(Kind::ALL.map(Some));
    let kinds: Vec<Option<Kind>> = all().filter(|known| kind.as_ref().is_none_or(|kind| *kind == of(*known))).collect();
    let Some(&first) = kinds.first() else {
        eprintln!("--kind is one of {}", all().map(of).collect::<Vec<_>>().join(", "));
        return ExitCode::FAILURE;
    };
    let pair = Pair { side, wrong: Wrong::Nothing };
    if let Some(only) = only {
        return one(pair, first, seed.unwrap_or(SEED), only);
    }
    if take("--long", false).is_some() {
        return long(pair, &kinds, seed.unwrap_or(SEED + 1), Duration::from_secs(60 * minutes.unwrap_or(10)));
    }
    libtest_mimic::run(&Arguments::from_iter(args), trials(pair, seed.unwrap_or(SEED))).exit_code()
}

fn trials(pair: Pair, seed: u64) -> Vec<Trial> {
    let mut trials = vec![
        Trial::test("the_text_of_a_program_says_all_of_it", text_round_trip),
        Trial::test("bare_equals_bare", move || {
            check(Pair { side: Side::Bare, wrong: Wrong::Nothing }, None, seed, 0, BATCH)
        }),
        Trial::test("kept_programs_are_equal", move || kept(pair)),
    ];
    trials.extend(errnos::trials(pair));
    trials.extend(races::trials(pair));
    for &kind in Kind::DEFAULT {
        let name = format!("{kind:?}").to_lowercase();
        trials.push(Trial::test(format!("bare_{name}_equal_bare"), move || {
            check(Pair { side: Side::Bare, wrong: Wrong::Nothing }, Some(kind), seed, 0, OF_A_KIND)
        }));
        trials.push(Trial::test(format!("random_programs_are_equal::{name}"), move || {
            check(pair, Some(kind), seed, 0, OF_A_KIND)
        }));
    }
    for wrong in Wrong::ALL {
        trials.push(Trial::test(format!("a_wrong_executor_is_found::{wrong:?}"), move || {
            a_mistake_is_found(wrong, seed)
        }));
    }
    for first in (0..PROGRAMS).step_by(BATCH as usize) {
        let name = format!("random_programs_are_equal::seed_{seed}_from_{first:04}");
        trials.push(Trial::test(name, move || check(pair, None, seed, first, BATCH)));
    }
    trials
}

/// In the re-executed process: `programs FILE FOREIGN WRONG`, or `races ROUNDS`.
fn inside(args: &[String]) -> ExitCode {
    if let [name, rounds] = args
        && name == "races"
    {
        races::inside(rounds.parse().expect("a number"));
        return ExitCode::SUCCESS;
    }
    let [name, file, foreign, wrong] = args else { panic!("--inside programs FILE FOREIGN WRONG") };
    assert_eq!(name, "programs");
    let text = fs::read_to_string(file).expect("the programs");
    let programs: Vec<Vec<Step>> = text.split("%\n").skip(1).map(program::from_text).collect();
    executor::run_all(&programs, foreign, Wrong::from_name(wrong).expect("a mistake's name"));
    ExitCode::SUCCESS
}

/// Programs of file calls, or of another kind.
fn programs(kind: Option<Kind>, seed: u64, first: u64, count: u64) -> Vec<Vec<Step>> {
    let program = |number| kind.map_or_else(|| generator::program(seed, number), |kind| kind.program(seed, number));
    (first..first + count).map(program).collect()
}

fn check(pair: Pair, kind: Option<Kind>, seed: u64, first: u64, count: u64) -> Result<(), Failed> {
    let programs = programs(kind, seed, first, count);
    let found = differences(&programs, pair);
    let number = |found: &Difference| first + found.index as u64;
    let all: String =
        found.iter().map(|found| format!("  program {}:\n{}", number(found), found.lines_apart())).collect();
    match found.into_iter().next() {
        None => Ok(()),
        Some(difference) => {
            let number = number(&difference);
            let difference = shrink(difference, pair);
            let kept = keep(&format!("{}-seed-{seed}-program-{number}", of(kind)), &difference);
            let report = difference.report();
            Err(format!("{}, seed {seed}:\n{all}program {number}: {report}  written to {kept}", of(kind)).into())
        }
    }
}

fn of(kind: Option<Kind>) -> String {
    kind.map_or_else(|| "files".to_owned(), |kind| format!("{kind:?}").to_lowercase())
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
    let all: Vec<_> = files.iter().zip(programs).collect();
    // Those with sockets have a network of their own.
    let (with, without): (Vec<_>, Vec<_>) = all.into_iter().partition(|(_, steps)| compare::uses_network(steps));
    let mut reports = String::new();
    for part in [with, without] {
        let (files, programs): (Vec<_>, Vec<_>) = part.into_iter().unzip();
        for found in differences(&programs, pair) {
            reports += &format!("{}: {}", files[found.index].display(), found.report());
        }
    }
    if reports.is_empty() { Ok(()) } else { Err(reports.into()) }
}

/// The comparison reports a deliberate mistake, and shrinks it to the few steps that show it.
fn a_mistake_is_found(wrong: Wrong, seed: u64) -> Result<(), Failed> {
    let pair = Pair { side: Side::Bare, wrong };
    let found =
        differences(&programs(None, seed, 0, BATCH), pair).into_iter().next().ok_or("no program shows the mistake")?;
    let small = shrink(found, pair);
    if small.steps.len() > 3 { Err(format!("not shrunk: {}", small.report()).into()) } else { Ok(()) }
}

fn text_round_trip() -> Result<(), Failed> {
    for number in 0..500 {
        for kind in [None].into_iter().chain(Kind::ALL.map(Some)) {
            let steps = programs(kind, SEED, number, 1).remove(0);
            assert_eq!(program::from_text(&program::to_text(&steps)), steps, "program {number} of {}", of(kind));
        }
    }
    Ok(())
}

fn one(pair: Pair, kind: Option<Kind>, seed: u64, number: u64) -> ExitCode {
    match differences(&programs(kind, seed, number, 1), pair).into_iter().next() {
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

/// A batch of each kind, in turns, until the time is over.
fn long(pair: Pair, kinds: &[Option<Kind>], seed: u64, limit: Duration) -> ExitCode {
    let end = Instant::now() + limit;
    let (mut batches, mut programs, mut failures) = (0, 0, 0);
    println!("seed {seed}, for {} minutes", limit.as_secs() / 60);
    for (first, &kind) in (0..).step_by(BATCH as usize).zip(kinds.iter().cycle()) {
        let count = if kind.is_some() { OF_A_KIND } else { BATCH };
        if let Err(failure) = check(pair, kind, seed, first, count) {
            println!("{}", failure.message().unwrap_or("failed"));
            failures += 1;
        }
        (batches, programs) = (batches + 1, programs + count);
        println!("{batches} batches, {programs} programs, {failures} with a difference");
        if Instant::now() >= end {
            break;
        }
    }
    if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
