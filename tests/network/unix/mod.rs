//! Unix sockets: of the session's own, of the host's services, hidden or not, and what is passed on.
//!
//! Each test has a `/tmp` and a `/run` of its own for the machine that gated-run runs on, so that services of the machine can
//! stand where they really do.

mod buses;
mod datagrams;
mod host;
mod passed;
mod races;
mod reached;

use crate::{Inside, Test};

pub const TESTS: &[(&str, &[Test])] = &[
    ("unix::buses", buses::TESTS),
    ("unix::datagrams", datagrams::TESTS),
    ("unix::passed", passed::TESTS),
    ("unix::races", races::TESTS),
    ("unix::reached", reached::TESTS),
];

pub const INSIDE: &[&[Inside]] = &[buses::INSIDE, races::INSIDE];
