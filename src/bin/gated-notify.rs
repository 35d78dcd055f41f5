//! The consent agent of a desktop. Started with it, as the person at it; see `gated::consent::notify`.

use std::process::ExitCode;

fn main() -> ExitCode {
    gated::consent::notify::main()
}
