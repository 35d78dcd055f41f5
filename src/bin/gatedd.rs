//! The root daemon on the system bus; see `gated::daemon::process`.

use std::process::ExitCode;

fn main() -> ExitCode {
    gated::daemon::process::main()
}
