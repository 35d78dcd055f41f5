//! Real tools inside. A shell script per tool does real work and prints what came of it; it runs bare and under
//! `gated-run`, each in a fresh workspace of the same user, and both must succeed, print the same, and leave the same tree.
//! What the tool must have achieved is asserted on top, so that two equal failures do not pass.

mod builds;
mod case;
mod copies;
mod debuggers;
mod demo;
mod git;
mod packages;
mod profiles;
mod programs;
#[path = "../support/mod.rs"]
mod support;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

/// A test's name and what it does, in the test process.
type Test = (&'static str, fn());

const TESTS: &[(&str, &[Test])] = &[
    ("builds", builds::TESTS),
    ("copies", copies::TESTS),
    ("debuggers", debuggers::TESTS),
    ("demo", demo::TESTS),
    ("git", git::TESTS),
    ("packages", packages::TESTS),
    ("profiles", profiles::TESTS),
    ("programs", programs::TESTS),
];

fn main() -> ExitCode {
    // The harness shows a failure's text at its end; where it was raised is enough at once.
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
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}
