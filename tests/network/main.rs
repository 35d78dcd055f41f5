//! The network. Real sessions and real clients against real servers, in network namespaces of the test's own: a machine that
//! gated-run runs on, and an internet behind it, where every packet that leaves the machine is counted.
//!
//! Parts of this program are run re-executed, as the test user, bare or in a session.

mod attacked;
mod clients;
mod loopback;
mod names;
#[path = "../support/mod.rs"]
mod support;
mod tcp;
mod udp;
mod unix;
mod world;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

/// A test's name and what it does, in the test process.
type Test = (&'static str, fn());

/// A part of this program that runs re-executed.
type Inside = (&'static str, fn(&[String]));

const TESTS: &[(&str, &[Test])] = &[
    ("attacked", attacked::TESTS),
    ("clients::asked", clients::asked::TESTS),
    ("clients::served", clients::served::TESTS),
    ("loopback", loopback::TESTS),
    ("names", names::TESTS),
    ("tcp", tcp::TESTS),
    ("udp", udp::TESTS),
    ("clients::waiting", clients::waiting::TESTS),
    ("world", world::TESTS),
];

const INSIDE: &[&[Inside]] =
    &[attacked::INSIDE, names::INSIDE, tcp::INSIDE, unix::INSIDE[0], unix::INSIDE[1], world::INSIDE];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    if args.get(1).is_some_and(|arg| arg == "--inside") {
        let name = args.get(2).cloned().unwrap_or_default();
        let (_, part) = *INSIDE.iter().copied().flatten().find(|(known, _)| *known == name).expect("a known part");
        part(&args[3..]);
        return ExitCode::SUCCESS;
    }
    // The harness shows a failure's text at its end; where it was raised is enough at once.
    std::panic::set_hook(Box::new(|panic| {
        eprintln!("failed at {}", panic.location().map(ToString::to_string).unwrap_or_default())
    }));
    let tests = TESTS.iter().chain(unix::TESTS).flat_map(|(module, tests)| {
        tests.iter().map(move |(name, test)| (format!("{module}::{name}"), Box::new(test) as Box<dyn FnOnce() + Send>))
    });
    let trials = tests.chain(clients::trials()).map(|(name, test)| {
        Trial::test(name, move || {
            test();
            Ok(())
        })
    });
    libtest_mimic::run(&Arguments::from_iter(args), trials.collect()).exit_code()
}
