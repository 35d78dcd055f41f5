//! Attacks that really try. Each runs bare, where it must work (or it would prove nothing), and under `gated-run`, where
//! it must not; whether it did is judged by what the world outside looks like afterwards.
//!
//! `--bare-only` leaves the second half out. The numbers in the modules' first comments are the lines of the list of
//! attacks in docs/threat-model.md.

mod abi;
mod ceiling;
mod cores;
mod descriptors;
mod devices;
mod engine;
mod floods;
#[path = "../support/interfaces.rs"]
mod interfaces;
mod killed;
mod lasting;
mod lifetimes;
mod memory;
mod metadata;
mod names;
mod openers;
mod own_files;
mod own_sandbox;
mod policy_files;
mod processes;
mod programs;
mod prompts;
mod races;
mod raw;
mod records;
mod refused;
mod shown;
mod signals;
mod spellings;
#[path = "../support/mod.rs"]
mod support;
mod terminal;
mod variables;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

/// A test's name and what it does, in the test process.
type Test = (&'static str, fn());

/// A part of this program that runs re-executed, as the test user, bare or in a session.
type Inside = (&'static str, fn(&[String]));

/// The part of every module that tests.
const TESTS: &[(&str, &[Test])] = &[
    ("abi", abi::TESTS),
    ("ceiling", ceiling::TESTS),
    ("cores", cores::TESTS),
    ("descriptors", descriptors::TESTS),
    ("devices", devices::TESTS),
    ("floods", floods::TESTS),
    ("killed", killed::TESTS),
    ("lasting", lasting::TESTS),
    ("lifetimes", lifetimes::TESTS),
    ("memory", memory::TESTS),
    ("metadata", metadata::TESTS),
    ("names", names::TESTS),
    ("openers", openers::TESTS),
    ("own_files", own_files::TESTS),
    ("own_sandbox", own_sandbox::TESTS),
    ("policy_files", policy_files::TESTS),
    ("processes", processes::TESTS),
    ("programs", programs::TESTS),
    ("prompts", prompts::TESTS),
    ("races", races::TESTS),
    ("records", records::TESTS),
    ("refused", refused::TESTS),
    ("shown", shown::TESTS),
    ("signals", signals::TESTS),
    ("spellings", spellings::TESTS),
    ("terminal", terminal::TESTS),
    ("variables", variables::TESTS),
];

/// The part of every module that attacks.
const INSIDE: &[&[Inside]] = &[
    abi::INSIDE,
    cores::INSIDE,
    descriptors::INSIDE,
    devices::INSIDE,
    engine::INSIDE,
    floods::INSIDE,
    killed::INSIDE,
    lasting::INSIDE,
    lifetimes::INSIDE,
    memory::INSIDE,
    own_sandbox::INSIDE,
    processes::INSIDE,
    programs::INSIDE,
    prompts::INSIDE,
    races::INSIDE,
    refused::INSIDE,
    shown::INSIDE,
    signals::INSIDE,
    terminal::INSIDE,
    variables::INSIDE,
];

fn main() -> ExitCode {
    let mut args: Vec<String> = std::env::args().collect();
    if args.get(1).is_some_and(|arg| arg == "--inside") {
        let name = args.get(2).cloned().unwrap_or_default();
        let (_, attack) = *INSIDE.iter().copied().flatten().find(|(known, _)| *known == name).expect("a known attack");
        attack(&args[3..]);
        println!("ran {name}");
        return ExitCode::SUCCESS;
    }
    // The harness shows a failure's text at its end; where it was raised is enough at once.
    std::panic::set_hook(Box::new(|panic| {
        eprintln!("failed at {}", panic.location().map(ToString::to_string).unwrap_or_default())
    }));
    if let Some(at) = args.iter().position(|arg| arg == "--bare-only") {
        args.remove(at);
        engine::only_bare();
    }
    let trials = TESTS.iter().flat_map(|(module, tests)| {
        tests.iter().map(move |(name, test)| {
            Trial::test(format!("{module}::{name}"), move || {
                test();
                Ok(())
            })
        })
    });
    libtest_mimic::run(&Arguments::from_iter(args), trials.collect()).exit_code()
}
