//! The command line of `gated-run`. Pure: words in, choices out.

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};

use clap::Parser;

use crate::common::details::session_id;
use crate::common::id::SessionId;
use crate::common::net::canonical;
use crate::common::wire::PASSED;
use crate::policy::ProfileSelector;

/// Run a command so that every change of a file outside its granted scope waits for a person's consent.
#[derive(Debug, Parser)]
#[command(name = "gated-run", version, arg_required_else_help = true, after_help = AFTER_HELP)]
pub struct Arguments {
    /// Supervise the session from this very process instead of asking gatedd (needs root)
    #[arg(long, conflicts_with_all = ["session", "new_session"])]
    pub embedded: bool,

    /// Policy of the session: the name of a profile, or a file (with a `/`, or ending in `.toml`). Without it the profile
    /// that matches the command, or else coder
    #[arg(long, value_name = "NAME|FILE", value_parser = profile, conflicts_with = "session")]
    pub profile: Option<ProfileSelector>,

    /// Who is asked: this terminal (auto: if there is one), a file of answers, or nobody here
    #[arg(long, value_name = "auto|tty|script:FILE|none", value_parser = consent)]
    pub consent: Option<Consent>,

    /// Write what happens as JSON lines to a file, or to an open file descriptor
    #[arg(long, value_name = "FILE|fd:N", value_parser = events)]
    pub events: Option<EventsTo>,

    /// Run the command in this session, beside what runs there
    #[arg(long, value_name = "ID", value_parser = session)]
    pub session: Option<SessionId>,

    /// Open a session that lasts until `gatedctl session stop`, and print its id
    #[arg(long, conflicts_with_all = ["session", "consent", "events", "command"])]
    pub new_session: bool,

    /// Run the command as this user instead (name or number; for root only)
    #[arg(long, value_name = "NAME", conflicts_with = "session")]
    pub user: Option<String>,

    /// Ask nothing: allow within the administrator's limits what the profile would ask about or deny, record it, and at the
    /// end propose a profile that would not have asked
    #[arg(long, conflicts_with_all = ["session", "service"])]
    pub learn: bool,

    /// Write the proposed profile to this file, which must not be there yet, instead of reviewing it here
    #[arg(long, value_name = "FILE", requires = "learn", conflicts_with = "new_session")]
    pub learn_to: Option<PathBuf>,

    /// Run as a service does: without a terminal, and with nobody to ask here. The profile says what becomes of requests
    #[arg(long, requires = "profile", conflicts_with_all = ["embedded", "session", "new_session", "consent"])]
    pub service: bool,

    /// Let what listens on this port in the session be reached here, by programs of this machine; with an address of this
    /// machine before it ([ADDRESS:]PORT, 0.0.0.0 for all of them) by others too. Can be given again
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = published, conflicts_with = "session")]
    pub publish: Vec<SocketAddr>,
    /// Leave this open file descriptor, 3 to 255, to the command (can be given up to 8 times)
    #[arg(long, value_name = "N", value_parser = passed, conflicts_with = "new_session")]
    pub pass_fd: Vec<RawFd>,

    /// The audit log of --embedded
    #[arg(long, value_name = "FILE", requires = "embedded")]
    pub audit: Option<PathBuf>,

    /// The command and its arguments, as they are
    #[arg(
        required_unless_present = "new_session",
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "COMMAND"
    )]
    pub command: Vec<OsString>,
}

const AFTER_HELP: &str = "\
The exit status is the command's own; 128 and the signal's number if a signal ended it; 126 if it cannot be executed, \
127 if it is not found, 125 if gated-run itself failed. With --service 78 if the policy does not let it start, and 69 if \
gatedd cannot be reached.";

/// A choice that there is not where gated-run was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArgumentError {
    #[error(
        "--{0} is not for a command inside a session: it runs in this session, under its policy, and whoever is asked \
         outside is asked for it too"
    )]
    Inside(&'static str),
}

impl Arguments {
    /// The published addresses, each once.
    pub fn published(&self) -> Vec<SocketAddr> {
        let mut addresses: Vec<SocketAddr> = Vec::with_capacity(self.publish.len());
        for &address in &self.publish {
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        addresses
    }

    pub fn consent(&self) -> Consent {
        match &self.consent {
            _ if self.learn || self.service => Consent::None,
            Some(consent) => consent.clone(),
            None => Consent::Auto,
        }
    }

    /// Inside a session the one thing to choose is the command.
    pub fn check_inside(&self) -> Result<(), ArgumentError> {
        let chosen = [
            ("embedded", self.embedded),
            ("profile", self.profile.is_some()),
            ("consent", self.consent.is_some()),
            ("events", self.events.is_some()),
            ("session", self.session.is_some()),
            ("new-session", self.new_session),
            ("learn", self.learn),
            ("service", self.service),
            ("user", self.user.is_some()),
            ("publish", !self.publish.is_empty()),
            ("pass-fd", !self.pass_fd.is_empty()),
            ("audit", self.audit.is_some()),
        ];
        match chosen.into_iter().find(|(_, is_chosen)| *is_chosen) {
            Some((name, _)) => Err(ArgumentError::Inside(name)),
            None => Ok(()),
        }
    }
}

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

pub fn profile(text: &str) -> Result<ProfileSelector, String> {
    match text {
        "" => Err("a profile has a name or a file".into()),
        _ if text.contains('/') || text.ends_with(".toml") => Ok(ProfileSelector::File(PathBuf::from(text))),
        _ => Ok(ProfileSelector::Name(text.to_owned())),
    }
}

/// Numbers only: what a name leads to may change.
fn published(text: &str) -> Result<SocketAddr, String> {
    const EXPECTED: &str = "expected a port from 1 to 65535, or ADDRESS:PORT such as 0.0.0.0:3000 or [::1]:3000";
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let address = match is_number {
        true => text.parse().ok().map(|port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)),
        false => text
            .parse()
            .ok()
            .filter(|address: &SocketAddr| !matches!(address, SocketAddr::V6(six) if six.scope_id() != 0)),
    };
    let address = address.filter(|address| address.port() != 0).ok_or(EXPECTED)?;
    Ok(SocketAddr::new(canonical(address.ip()), address.port()))
}

fn session(text: &str) -> Result<SessionId, String> {
    session_id(text)
        .map_err(|_| "expected the 8 hexadecimal digits of a session, as gatedctl sessions shows them".into())
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

fn passed(text: &str) -> Result<RawFd, String> {
    let number = text.parse().ok().filter(|number| PASSED.contains(number));
    number.ok_or_else(|| "expected the number of an open file descriptor, 3 to 255".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Arguments, clap::error::ErrorKind> {
        Arguments::try_parse_from(line.split(' ')).map_err(|error| error.kind())
    }

    #[test]
    fn what_excludes_each_other_is_refused() {
        use clap::error::ErrorKind::{ArgumentConflict, MissingRequiredArgument, ValueValidation};
        let cases = [
            ("gated-run --new-session true", ArgumentConflict),
            ("gated-run --embedded --session 0123abcd true", ArgumentConflict),
            ("gated-run --session 0123abcd --profile strict true", ArgumentConflict),
            ("gated-run --session 0123abcd", MissingRequiredArgument),
            ("gated-run --audit /a true", MissingRequiredArgument),
            ("gated-run --session 123 true", ValueValidation),
            ("gated-run --session ../../etc true", ValueValidation),
            ("gated-run --session 0123abcd --publish 3000 true", ArgumentConflict),
            ("gated-run --pass-fd 2 true", ValueValidation),
            ("gated-run --pass-fd 256 true", ValueValidation),
            ("gated-run --new-session --pass-fd 3", ArgumentConflict),
        ];
        for (line, expected) in cases {
            assert_eq!(parsed(line).err(), Some(expected), "{line}");
        }
        for line in [
            "gated-run --new-session",
            "gated-run --new-session --profile strict",
            "gated-run --session 0123abcd -- -c",
        ] {
            assert!(parsed(line).is_ok(), "{line}");
        }
    }

    #[test]
    fn published_is_a_port_of_this_machine() {
        for (text, expected) in [
            ("3000", "127.0.0.1:3000"),
            ("0.0.0.0:80", "0.0.0.0:80"),
            ("[::1]:3000", "[::1]:3000"),
            ("[::ffff:192.0.2.7]:3000", "192.0.2.7:3000"),
        ] {
            assert_eq!(published(text).map(|address| address.to_string()), Ok(expected.to_owned()), "{text}");
        }
        for wrong in [
            "",
            "0",
            "65536",
            "+1",
            " 1",
            ":3000",
            "localhost:3000",
            "127.0.0.1",
            "127.1:3000",
            "::1:3000",
            "*:1",
            "[fe80::1%2]:1",
        ] {
            assert!(published(wrong).is_err(), "{wrong}");
        }
        let both = parsed("gated-run --publish 3000 --publish 0.0.0.0:3001 true").unwrap();
        assert_eq!(both.publish.len(), 2);
        assert_eq!(both.check_inside(), Err(ArgumentError::Inside("publish")));
    }

    #[test]
    fn inside_only_the_command_can_be_chosen() {
        assert_eq!(parsed("gated-run make --embedded").unwrap().check_inside(), Ok(()));
        let line = "gated-run --embedded make";
        assert_eq!(parsed(line).unwrap().check_inside(), Err(ArgumentError::Inside("embedded")));
        assert_eq!(
            parsed("gated-run --consent none make").unwrap().check_inside(),
            Err(ArgumentError::Inside("consent"))
        );
    }
}
