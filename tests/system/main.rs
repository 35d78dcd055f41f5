//! The whole product on a whole system: each test boots a Debian with gated installed and uses it as its users would. Needs
//! root, debootstrap, systemd-nspawn, and, the first time, the mirror that apt is set up with.

mod authenticate;
mod base;
mod boot;
mod ceiling;
mod consent;
mod dialog;
mod faults;
mod lasting;
mod limits;
mod machine;
mod services;
mod session;
mod strangers;
#[path = "../support/mod.rs"]
mod support;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

/// A test's name and what it does, in the test process.
type Test = (&'static str, fn());

const TESTS: &[(&str, &[Test])] = &[
    ("authenticate", authenticate::TESTS),
    ("ceiling", ceiling::TESTS),
    ("consent", consent::TESTS),
    ("faults", faults::TESTS),
    ("lasting", lasting::TESTS),
    ("limits", limits::TESTS),
    ("machine", machine::TESTS),
    ("services", services::TESTS),
    ("strangers", strangers::TESTS),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, role, rest @ ..] = arguments.as_slice()
        && role == dialog::ROLE
    {
        return dialog::main(rest);
    }
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
    let conclusion = libtest_mimic::run(&Arguments::from_args(), trials.collect());
    base::remove();
    conclusion.exit_code()
}
