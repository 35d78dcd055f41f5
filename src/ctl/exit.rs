//! Exit statuses of `gated-run`, as env(1) and the shells have them.

use std::process::ExitCode;

use crate::common::wire::Ended;

/// gated-run itself failed; one line on stderr says why.
pub const FAILED: u8 = 125;
/// With `--service`: the policy, or a setting, does not let it start (`EX_CONFIG` of sysexits.h(3head)).
pub const CONFIGURATION: u8 = 78;
/// With `--service`: gatedd cannot be reached (`EX_UNAVAILABLE`).
pub const UNAVAILABLE: u8 = 69;
const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;

/// The status for a command that ended so.
fn status_of(ended: Ended) -> ExitCode {
    ExitCode::from(match ended {
        // exit(3) keeps the low eight bits.
        Ended::Exited(status) => (status & 0xff) as u8,
        Ended::Signaled(signal) => u8::try_from(signal).unwrap_or(u8::MAX).saturating_add(128),
        Ended::NotExecuted(libc::ENOENT) => NOT_FOUND,
        Ended::NotExecuted(_) => NOT_EXECUTABLE,
    })
}

/// The status for a command's end, after a line on stderr where the command cannot tell it itself.
pub fn report(ended: Ended, command: &[Vec<u8>]) -> ExitCode {
    let name = command.first().map(|name| name.escape_ascii().to_string()).unwrap_or_default();
    if let Some(line) = line_of(ended, &name) {
        eprintln!("{line}");
    }
    status_of(ended)
}

/// One line for stderr, for an end that the command cannot tell itself.
fn line_of(ended: Ended, command: &str) -> Option<String> {
    match ended {
        Ended::NotExecuted(errno) => {
            Some(format!("gated-run: cannot execute {command}: {}", nix::errno::Errno::from_raw(errno).desc()))
        }
        Ended::Exited(_) | Ended::Signaled(_) => None,
    }
}
