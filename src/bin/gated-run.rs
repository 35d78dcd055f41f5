//! Runs a command so that its changes of files wait for consent. Started as root (sudo); see `gated::ctl::run`.

use std::process::ExitCode;

fn main() -> ExitCode {
    gated::ctl::run::main()
}
