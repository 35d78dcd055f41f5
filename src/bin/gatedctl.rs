//! Looks after sessions, requests and grants over the bus. Runs as its caller, without any privilege of its own; see
//! `gated::ctl::control`.

use std::process::ExitCode;

fn main() -> ExitCode {
    gated::ctl::control::main()
}
