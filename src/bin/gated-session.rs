//! The supervisor of one session. Started as root, by gated-run or gatedd with their socket as stdin and no arguments, or by a
//! unit as `gated-session --session ID --socket PATH`; takes nothing from its environment.

use std::process::ExitCode;

fn main() -> ExitCode {
    gated::session::launch::main()
}
