//! Secrets: files that are read by consent or not at all. Each way to their contents is tried in a real session; bare, where it
//! must work, and inside, where it must not without a yes.

mod basics;
mod judge;
mod life;
mod races;
#[path = "../support/mod.rs"]
mod support;
mod ways;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

/// A test's name and what it does, in the test process.
type Test = (&'static str, fn());

/// A part of this program that runs re-executed, as the test user, bare or in a session.
type Inside = (&'static str, fn(&[String]));

const TESTS: &[(&str, &[Test])] =
    &[("basics", basics::TESTS), ("ways", ways::TESTS), ("life", life::TESTS), ("races", races::TESTS)];

const INSIDE: &[&[Inside]] = &[basics::INSIDE, ways::INSIDE, life::INSIDE, races::INSIDE];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    if args.get(1).is_some_and(|arg| arg == "--inside") {
        let name = args.get(2).cloned().unwrap_or_default();
        let (_, part) = *INSIDE.iter().copied().flatten().find(|(known, _)| *known == name).expect("a known part");
        part(&args[3..]);
        println!("ran {name}");
        return ExitCode::SUCCESS;
    }
    std::panic::set_hook(Box::new(|panic| {
        eprintln!("failed at {}", panic.location().map(ToString::to_string).unwrap_or_default())
    }));
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
