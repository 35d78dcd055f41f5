//! The command line of `gatedctl policy`. Pure: words in, choices out.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::place::Place;
use crate::ctl::control::ids::Prefix;
use crate::policy::ProfileSelector;

#[derive(Debug, Args)]
pub struct PolicyArguments {
    #[command(flatten)]
    pub place: Place,

    #[command(subcommand)]
    pub verb: PolicyVerb,
}

#[derive(Debug, Subcommand)]
pub enum PolicyVerb {
    /// List the profiles that can be named, and the files behind them
    List,

    /// Show a profile's files, or the rules that they come to
    Cat(Cat),

    /// Look for mistakes in profiles and in the ceiling, and for rules that do not do what they seem to
    ///
    /// Exit status 0: no mistake; 1: a mistake, or with --strict a warning.
    Check(Check),

    /// Say what is decided about an attempt and why, and what an answer could change
    Explain(Explain),

    /// Say in words what becomes wider and what narrower from one profile to another
    ///
    /// Exit status 0: they decide alike; 1: they do not.
    Diff(Diff),

    /// Hold profiles against what they are expected to decide: their examples, and files of expectations
    ///
    /// Exit status 0: all as expected; 1: something is not.
    Test(Test),

    /// Change a profile or the ceiling in an editor, check it, show what changes, and install it
    Edit(Edit),

    /// Propose a profile that would not have asked about what a session did, from the audit log
    Learn(crate::ctl::control::learn::LearnArguments),
}

#[derive(Debug, Args)]
pub struct Cat {
    /// The profile; a file with a `/`, or ending in `.toml`
    #[arg(value_name = "NAME|FILE", value_parser = crate::ctl::arguments::profile)]
    pub profile: ProfileSelector,

    /// One profile with everything merged in and substituted, each rule with its place
    #[arg(long)]
    pub merged: bool,
}

#[derive(Debug, Args)]
pub struct Check {
    /// Profiles, or files; all that can be named, and the ceiling, if none is given
    #[arg(value_name = "NAME|FILE", value_parser = crate::ctl::arguments::profile)]
    pub profiles: Vec<ProfileSelector>,

    /// Also what is no mistake: what the supervisor enforces and the floor does not
    #[arg(long, short)]
    pub verbose: bool,

    /// Fail for warnings, too
    #[arg(long)]
    pub strict: bool,
}

#[derive(Debug, Args)]
pub struct Diff {
    /// What is in force; with --installed, what it would become
    #[arg(value_name = "NAME|FILE", value_parser = crate::ctl::arguments::profile)]
    pub from: ProfileSelector,

    /// What is compared with it
    #[arg(value_name = "NAME|FILE", value_parser = crate::ctl::arguments::profile, required_unless_present = "installed", conflicts_with = "installed")]
    pub to: Option<ProfileSelector>,

    /// The file that would be installed as the profile
    #[arg(long, value_name = "FILE")]
    pub installed: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct Test {
    /// Files of expectations, or profiles; the examples of every profile if none is given
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
}

#[derive(Debug, Args)]
pub struct Edit {
    /// The profile
    #[arg(value_name = "NAME", required_unless_present = "ceiling", conflicts_with = "ceiling")]
    pub profile: Option<String>,

    /// The ceiling
    #[arg(long)]
    pub ceiling: bool,

    /// The machine's, even if it is not there yet; an administrator may
    #[arg(long, conflicts_with = "ceiling")]
    pub machine: bool,

    /// Install without a question what has no mistakes
    #[arg(long, short)]
    pub yes: bool,
}

#[derive(Debug, Args)]
pub struct Explain {
    /// The name of a profile, or a file (with a `/`, or ending in `.toml`); coder if none is given
    #[arg(long, global = true, value_name = "NAME|FILE", value_parser = crate::ctl::arguments::profile)]
    pub profile: Option<ProfileSelector>,

    /// A session that runs, with its answers
    #[arg(long, global = true, value_name = "SESSION", conflicts_with = "profile")]
    pub session: Option<Prefix>,

    #[command(subcommand)]
    pub what: Explained,
}

#[derive(Debug, Subcommand)]
pub enum Explained {
    /// Of opening a file to read it, or a directory to list it
    Read {
        #[arg(value_name = "PATH")]
        path: PathBuf,
    },

    /// Of changing a file or directory, or making one
    Write {
        #[arg(value_name = "PATH")]
        path: PathBuf,
    },

    /// Of executing a program
    Exec(Exec),

    /// Of a connection, or of looking a name up
    Connect {
        /// NAME:PORT, ADDRESS:PORT or [ADDRESS]:PORT; a NAME alone is only looked up
        #[arg(value_name = "HOST:PORT")]
        host: String,

        /// Where the name leads, if not to some public address
        #[arg(long, value_name = "ADDRESS")]
        at: Option<IpAddr>,

        /// That /etc/hosts says so, and not DNS
        #[arg(long, requires = "at")]
        hosts_file: bool,

        /// Of datagrams
        #[arg(long)]
        udp: bool,
    },

    /// Of listening at an address of the host
    Bind {
        #[arg(value_name = "ADDRESS:PORT")]
        address: SocketAddr,
    },

    /// Of a unix socket
    Unix {
        #[arg(value_name = "PATH")]
        path: PathBuf,
    },
}

#[derive(Debug, Args)]
pub struct Exec {
    /// The program: a path, or a name that PATH is searched for
    #[arg(value_name = "PROGRAM")]
    pub program: PathBuf,

    /// The words of its command line; its own name if none are given
    #[arg(value_name = "WORD", trailing_var_arg = true, allow_hyphen_values = true)]
    pub words: Vec<String>,

    /// The whole argv, its first word included
    #[arg(long, value_name = "WORD", num_args = 1.., allow_hyphen_values = true, conflicts_with = "words")]
    pub argv: Vec<String>,

    /// A variable that it gets, NAME=VALUE
    #[arg(long, value_name = "NAME=VALUE")]
    pub env: Vec<String>,
}
