//! The command line of `gatedctl`. Pure: words in, choices out. Man pages and completions are made from the same
//! definitions (`generate.rs`); the names of the arguments `request`, `session` and `grant` tell them which ids to complete.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, CommandFactory, Parser, Subcommand, ValueEnum};

use super::ask::Ask;
use super::grants::Which;
use super::ids::{Kind, Prefix};
use super::lasting::{GrantVerb, History};
use super::policy::arguments::PolicyArguments;
use super::since::Since;
use super::stats::StatsArguments;
use super::tui::Tui;
use super::unasked::Unasked;
use crate::common::decision::Width;
use crate::consent::script;
use crate::daemon::audit::DEFAULT_PATH;

/// See what tools under gated want, answer them, and look after their sessions.
#[derive(Debug, Parser)]
#[command(name = "gatedctl", version, arg_required_else_help = true, disable_help_subcommand = true, after_help = AFTER_HELP, max_term_width = 100)]
pub struct Arguments {
    /// Write JSON instead of a table
    #[arg(long, global = true)]
    pub json: bool,

    #[command(subcommand)]
    pub verb: Verb,
}

pub const AFTER_HELP: &str = "\
Ids are hexadecimal; wherever one is taken, its first digits are enough, if they are at least four and no other id begins \
with them.

Exit status:
  0  done; for doctor: nothing that is needed is missing
  1  no success: doctor found something missing, or it was too late for an answer
  2  the command line is wrong
  3  the daemon or the bus cannot be reached
  4  not permitted to this user
  5  nothing has this id, or several have it
  6  anything else went wrong; standard error says what";

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Whether the daemon runs, and what it has to do
    Status,

    /// Look for what gated needs, and say in plain words what is enforced here and what is not
    Doctor,

    /// List the sessions
    Sessions,

    /// Look at one session, or stop it
    #[command(subcommand)]
    Session(SessionVerb),

    /// See and answer everything on one screen
    Tui(Tui),

    /// Be asked here what waits for an answer, one question after the other
    Ask(Ask),

    /// List the requests that wait for an answer
    Pending,

    /// Say all about a request that waits
    Show {
        /// The request
        #[arg(value_name = "REQUEST")]
        request: Prefix,
    },

    /// Let a request through
    #[command(group = ArgGroup::new("lifetime"))]
    Approve(Approve),

    /// Turn a request down
    #[command(group = ArgGroup::new("lifetime"))]
    Deny(Deny),

    /// List the answers that still hold
    Grants(Which),

    /// Look at one of them, take it back, or forget it
    #[command(subcommand)]
    Grant(GrantVerb),

    /// Allow something before anything asks
    Trust(Unasked),

    /// Deny something for good, before anything asks
    Block(Unasked),

    /// What was answered, and how often
    History(History),

    /// Take an answer back, from the next attempt on
    #[command(group = ArgGroup::new("which").required(true).args(["grant", "all"]))]
    Revoke {
        /// The grant
        #[arg(value_name = "GRANT")]
        grant: Option<Prefix>,

        /// All grants of the sessions that you may manage
        #[arg(long)]
        all: bool,
    },

    /// Tell what happens, as it happens, until interrupted
    Watch {
        /// Of this session only
        #[arg(long, value_name = "SESSION")]
        session: Option<Prefix>,
    },

    /// Say what happened since the daemon began to count
    Stats(StatsArguments),

    /// Say why requests ended as they did, and what a policy denied without a question
    Why {
        /// A request, or a session; without one all that is remembered
        #[arg(value_name = "REQUEST|SESSION")]
        what: Option<Prefix>,
    },

    /// Look at profiles and the ceiling, try them out and change them
    Policy(PolicyArguments),

    /// Put a service of systemd's under a profile
    #[command(subcommand)]
    Unit(super::unit::UnitVerb),

    /// Read the audit log, the files that it was rotated into included
    Audit(AuditArguments),
}

#[derive(Debug, Subcommand)]
pub enum SessionVerb {
    /// Say all about a session
    Show {
        /// The session
        #[arg(value_name = "SESSION")]
        session: Prefix,
    },

    /// Kill everything in a session
    Stop {
        /// The session
        #[arg(value_name = "SESSION")]
        session: Prefix,
    },
}

#[derive(Debug, Args)]
pub struct Approve {
    /// The request
    #[arg(value_name = "REQUEST")]
    pub request: Prefix,

    /// For the call that asks, and what it starts (this is the default)
    #[arg(long, group = "lifetime")]
    pub once: bool,

    /// For the whole session
    #[arg(long, group = "lifetime")]
    pub session: bool,

    /// For a time, in every session of yours with the same profile, such as 10m, 2h, 7d
    #[arg(long = "for", group = "lifetime", value_name = "TIME", value_parser = time)]
    pub time: Option<Duration>,

    /// In every session of yours with the same profile, until you revoke it
    #[arg(long, group = "lifetime")]
    pub always: bool,

    /// Ask for each of several requests by itself
    #[arg(long, group = "lifetime", conflicts_with = "scope")]
    pub one_by_one: bool,

    /// How far: exactly this; everything directly in its directory, or that directory and everything below; of a command,
    /// those that begin with the same words, or the program whatever it is given; of a connection, this program to the same
    /// host, the host, or every host of its domain, each at any port. `show` says which are offered
    #[arg(long, value_enum, default_value_t = Scope::Exact, value_name = "WIDTH", hide_possible_values = false)]
    pub scope: Scope,
}

/// How long a no holds; this attempt alone if nothing is said.
#[derive(Debug, Args)]
pub struct Deny {
    /// The request
    #[arg(value_name = "REQUEST")]
    pub request: Prefix,

    /// And the same without a question, for the whole session
    #[arg(long, group = "lifetime")]
    pub session: bool,

    /// And the same without a question, for a time, in every session of yours with the same profile, such as 10m, 2h, 7d
    #[arg(long = "for", group = "lifetime", value_name = "TIME", value_parser = time)]
    pub time: Option<Duration>,

    /// And the same without a question, in every session of yours with the same profile, until you revoke it
    #[arg(long, group = "lifetime")]
    pub always: bool,

    /// How far: as of `approve`
    #[arg(long, value_enum, default_value_t = Scope::Exact, value_name = "WIDTH", hide_possible_values = true, requires = "lifetime")]
    pub scope: Scope,
}

/// A time as it is written.
fn time(text: &str) -> Result<Duration, String> {
    script::long(text).ok_or_else(|| "a time was expected, such as 90s, 10m, 2h or 7d".to_owned())
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Scope {
    Exact,
    Directory,
    Tree,
    Prefix,
    Program,
    Host,
    Domain,
}

impl From<Scope> for Width {
    fn from(scope: Scope) -> Width {
        match scope {
            Scope::Exact => Width::Exact,
            Scope::Directory => Width::Directory,
            Scope::Tree => Width::Tree,
            Scope::Prefix => Width::Prefix,
            Scope::Program => Width::Program,
            Scope::Host => Width::Host,
            Scope::Domain => Width::Domain,
        }
    }
}

#[derive(Debug, Args)]
pub struct AuditArguments {
    /// Records of this session only; it need not run any more
    #[arg(long, value_name = "SESSION")]
    pub session: Option<Prefix>,

    /// Records from then on: 10m, 2h, 3d (before now), 14:30, 2026-11-22, "2026-11-22 14:30", or RFC 3339
    #[arg(long, value_name = "WHEN")]
    pub since: Option<Since>,

    /// Go on with what is recorded from now on, until interrupted
    #[arg(long, short)]
    pub follow: bool,

    /// Another log than the system's
    #[arg(long, value_name = "FILE", default_value = DEFAULT_PATH)]
    pub file: PathBuf,
}

/// Verbs for programs, which no help, page or completion names. [`is_hidden`] knows them.
#[derive(Debug, Parser)]
#[command(name = "gatedctl")]
pub struct HiddenArguments {
    #[command(subcommand)]
    pub verb: HiddenVerb,
}

#[derive(Debug, Subcommand)]
pub enum HiddenVerb {
    /// Write man pages and completions below a directory, for `make install`
    Generate { directory: PathBuf },

    /// Live ids, one a line, for completions
    Ids { kind: Kind },
}

/// Whether the first word of a command line is one of [`HiddenVerb`].
pub fn is_hidden(first: Option<&std::ffi::OsStr>) -> bool {
    first.is_some_and(|first| HiddenArguments::command().get_subcommands().any(|verb| verb.get_name() == first))
}
