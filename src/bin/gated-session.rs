//! The supervisor of one session. Started as root by gated-run or gatedd with their socket as stdin; takes nothing from its
//! command line or environment.

use std::process::ExitCode;

fn main() -> ExitCode {
    gated::session::launch::main()
}
