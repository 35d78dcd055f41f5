//! `gated-run`: which of its three ways a command goes. Through the daemon, as the caller; embedded, with root, in a process
//! that is the broker itself; or, called inside a session, through that session's own supervisor. The three know nothing of
//! each other.

use std::io;
use std::path::Path;
use std::process::ExitCode;

use clap::Parser;

use super::arguments::{ArgumentError, Arguments};
use super::embedded::{self, EmbeddedError};
use super::exit::{CONFIGURATION, FAILED, UNAVAILABLE};
use super::inside::{self, InsideError};
use super::served::{self, ServedError};
use super::terminal::{self, RestoredAtEnd};
use crate::common::bus::INSIDE_SOCKET;

/// Why there is no exit status of the command's; one line for stderr.
#[derive(Debug, thiserror::Error)]
enum RunError {
    #[error(transparent)]
    Arguments(#[from] ArgumentError),
    #[error(transparent)]
    Embedded(#[from] EmbeddedError),
    #[error(transparent)]
    Inside(#[from] InsideError),
    #[error(transparent)]
    Served(#[from] ServedError),
}

/// The process `gated-run`.
pub fn main() -> ExitCode {
    start_tracing();
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            let status = if error.use_stderr() { FAILED } else { 0 };
            // Nobody to tell that nobody can be told.
            let _ = error.print();
            return ExitCode::from(status);
        }
    };
    terminal::restore_on_panic();
    let _restored = RestoredAtEnd;
    let is_service = arguments.service;
    match run(arguments) {
        Ok(status) => status,
        Err(error) => {
            terminal::restore();
            eprintln!("gated-run: {error}");
            ExitCode::from(error.status(is_service))
        }
    }
}

impl RunError {
    /// Of a service it is what systemd and whoever reads it can tell apart.
    fn status(&self, is_service: bool) -> u8 {
        match self {
            RunError::Served(ServedError::Signal(signal)) => {
                u8::try_from(*signal as i32).unwrap_or_default().saturating_add(128)
            }
            RunError::Arguments(_) if is_service => CONFIGURATION,
            RunError::Served(error) if is_service && error.is_configuration() => CONFIGURATION,
            RunError::Served(error) if is_service && error.is_unavailable() => UNAVAILABLE,
            _ => FAILED,
        }
    }
}

/// Diagnostics on stderr, if GATED_LOG asks for them (`debug`, or a filter like `gated::ctl=trace`).
fn start_tracing() {
    use tracing_subscriber::EnvFilter;
    if let Ok(filter) = EnvFilter::try_from_env("GATED_LOG") {
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).init();
    }
}

fn run(arguments: Arguments) -> Result<ExitCode, RunError> {
    if Path::new(INSIDE_SOCKET).exists() {
        arguments.check_inside()?;
        Ok(inside::run(arguments)?)
    } else if arguments.embedded {
        Ok(embedded::run(arguments)?)
    } else {
        Ok(served::run(arguments)?)
    }
}
