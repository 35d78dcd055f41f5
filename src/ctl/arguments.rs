//! The command line of `gated-run`. Pure: words in, choices out.

use std::ffi::OsString;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};

use clap::Parser;

use crate::daemon::audit::DEFAULT_PATH;
use crate::policy::ProfileSelector;

/// Run a command so that every change of a file outside its granted scope waits for a person's consent.
#[derive(Debug, Parser)]
#[command(name = "gated-run", version, arg_required_else_help = true, after_help = AFTER_HELP)]
pub struct Arguments {
    /// Supervise the session from this very process instead of asking gatedd (needs root)
    #[arg(long)]
    pub embedded: bool,

    /// Policy of the session: the name of a profile, or a file (with a `/`, or ending in `.toml`)
    #[arg(long, value_name = "NAME|FILE", default_value = "coder", value_parser = profile)]
    pub profile: ProfileSelector,

    /// Who is asked: this terminal (auto: if there is one), a file of answers, or nobody
    #[arg(long, value_name = "auto|tty|script:FILE|none", default_value = "auto", value_parser = consent)]
    pub consent: Consent,

    /// Write what happens as JSON lines to a file, or to an open file descriptor
    #[arg(long, value_name = "FILE|fd:N", value_parser = events)]
    pub events: Option<EventsTo>,

    /// Run the command as this user instead (name or number; for root only)
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,

    /// The audit log
    #[arg(long, value_name = "FILE", default_value = DEFAULT_PATH)]
    pub audit: PathBuf,

    /// The command and its arguments, as they are
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

const AFTER_HELP: &str = "\
The exit status is the command's own; 128 and the signal's number if a signal ended it; 126 if it cannot be executed, \
127 if it is not found, 125 if gated-run itself failed.";

/// Who is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Consent {
    /// The controlling terminal if there is one, nobody otherwise.
    Auto,
    Tty,
    Script(PathBuf),
    None,
}

/// Where events go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventsTo {
    File(PathBuf),
    Fd(RawFd),
}

impl Consent {
    /// The file that it names.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Consent::Script(path) => Some(path),
            Consent::Auto | Consent::Tty | Consent::None => None,
        }
    }
}

impl EventsTo {
    /// The file that it names.
    pub fn file(&self) -> Option<&Path> {
        match self {
            EventsTo::File(path) => Some(path),
            EventsTo::Fd(_) => None,
        }
    }
}

fn profile(text: &str) -> Result<ProfileSelector, String> {
    match text {
        "" => Err("a profile has a name or a file".into()),
        _ if text.contains('/') || text.ends_with(".toml") => Ok(ProfileSelector::File(PathBuf::from(text))),
        _ => Ok(ProfileSelector::Name(text.to_owned())),
    }
}

fn consent(text: &str) -> Result<Consent, String> {
    match text.split_once(':') {
        None if text == "auto" => Ok(Consent::Auto),
        None if text == "tty" => Ok(Consent::Tty),
        None if text == "none" => Ok(Consent::None),
        Some(("script", file)) if !file.is_empty() => Ok(Consent::Script(PathBuf::from(file))),
        _ => Err("expected auto, tty, script:FILE or none".into()),
    }
}

fn events(text: &str) -> Result<EventsTo, String> {
    match text.strip_prefix("fd:") {
        None if text.is_empty() => Err("expected a file or fd:N".into()),
        None => Ok(EventsTo::File(PathBuf::from(text))),
        Some(number) => match number.parse() {
            Ok(fd) if fd >= 1 => Ok(EventsTo::Fd(fd)),
            _ => Err("expected fd: and the number of an open file descriptor".into()),
        },
    }
}
