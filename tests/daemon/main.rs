//! The real gatedd with real sessions below it: what a tool can do to it from inside, and what becomes of sessions when
//! something of it ends at a bad moment. Needs root.

mod faults;
mod inside;
mod lasting;
mod machine;
mod strangers;
#[path = "../support/mod.rs"]
mod support;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

/// A test's name and what it does, in the test process.
type Test = (&'static str, fn());

/// A part of this program that runs re-executed, as the test user, bare or in a session.
type Inside = (&'static str, fn(&[String]));

const TESTS: &[(&str, &[Test])] = &[
    ("faults", faults::TESTS),
    ("inside", inside::TESTS),
    ("lasting", lasting::TESTS),
    ("strangers", strangers::TESTS),
];

const INSIDE: &[&[Inside]] = &[inside::INSIDE];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    if args.get(1).is_some_and(|arg| arg == "--inside") {
        let name = args.get(2).cloned().unwrap_or_default();
        let (_, part) = *INSIDE.iter().copied().flatten().find(|(known, _)| *known == name).expect("a known part");
        part(&args[3..]);
        println!("ran {name}");
        return ExitCode::SUCCESS;
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
