//! `tui`: everything that waits, runs and holds, on one screen that follows what happens. Runs as the caller, on a terminal.
//!
//! | module | |
//! |---|---|
//! | [`model`], [`list`], [`keys`] | what is looked at and what keys mean: pure, events in, effects out |
//! | [`view`], [`details`], [`entry`], [`rows`] | what it looks like: pure, a model in, cells out |
//! | [`feed`], [`records`] | the daemon and the audit log, as events |
//! | [`driver`] | the terminal, signals, effects |

pub mod details;
mod driver;
pub mod entry;
mod feed;
pub mod keys;
pub mod list;
pub mod model;
mod records;
mod rows;
#[cfg(test)]
mod tests;
pub mod view;

use std::os::fd::AsFd;
use std::path::PathBuf;

use clap::Args;

use super::failure::Failure;
use super::output::Output;
use crate::consent::terminal::tty;
use crate::ctl::terminal::{CallersTerminal, standard_terminals};
use crate::daemon::audit::DEFAULT_PATH;

#[derive(Debug, Args)]
pub struct Tui {
    /// Another audit log than the system's
    #[arg(long, value_name = "FILE", default_value = DEFAULT_PATH)]
    pub file: PathBuf,
}

const HINT: &str = "gatedctl ask --plain asks line by line, on any terminal";

pub async fn tui(output: Output, arguments: Tui) -> Result<(), Failure> {
    if output.json {
        return Err(Failure::Usage(
            "a screen is no JSON; gatedctl pending --json and gatedctl watch --json are".into(),
        ));
    }
    let [stdin, stdout, _] = standard_terminals();
    let found = CallersTerminal::find()?.filter(|_| stdin && stdout);
    let Some(terminal) = found else {
        return Err(Failure::Usage(format!("a screen needs a terminal for input and output; {HINT}")));
    };
    let term = std::env::var("TERM").unwrap_or_default();
    // The console of Linux has no alternate screen, and knows the rest.
    if !tty::is_capable(&term) && term != "linux" {
        return Err(Failure::Usage(format!(
            "nothing is known of a terminal whose TERM is {term:?}, or it cannot draw a screen; {HINT}"
        )));
    }
    let own = terminal.as_fd().try_clone_to_owned()?;
    tty::prepare(&own)?;
    // <https://no-color.org/>
    let colours = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    driver::Driver::new(output, arguments.file, colours).await?.run(&own).await
}
