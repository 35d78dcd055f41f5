//! Why a verb of `gatedctl` fails, and the exit status that says so. The words are ours: the bus carries error names only.

use std::io;
use std::path::PathBuf;

use super::ids::{Kind, Prefix};
use crate::common::bus::{BUS_NAME, ERROR_PREFIX};
use crate::common::text;

/// Columns of what the daemon says of a refusal.
const DETAIL: usize = 1000;

/// One line for stderr, and a status (documented in `arguments.rs`).
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error("the system bus cannot be reached: {0}")]
    NoBus(zbus::Error),
    #[error("gatedd does not run here, and cannot be started: {0}\nhint: systemctl start gatedd; then gatedctl doctor")]
    NoDaemon(String),
    #[error("no {kind} has an id that begins with {prefix}")]
    NotFound { kind: Kind, prefix: Prefix },
    #[error("several {kind}s have ids that begin with {prefix}:{}", listed(candidates))]
    Ambiguous { kind: Kind, prefix: Prefix, candidates: Vec<String> },
    #[error("{0}")]
    TooLate(String),
    #[error("{0}")]
    NotPermitted(String),
    #[error("the daemon refuses: {0}")]
    Refused(String),
    #[error("the daemon: {0}")]
    Bus(zbus::Error),
    #[error("the daemon sends what this gatedctl does not understand: {0}")]
    Nonsense(String),
    #[error("cannot {what} {}: {source}", text::escaped(path.as_os_str().as_encoded_bytes()))]
    File { what: &'static str, path: PathBuf, source: io::Error },
    #[error("there is no audit log {}", text::escaped(.0.as_os_str().as_encoded_bytes()))]
    NoLog(PathBuf),
    #[error("{0}")]
    Usage(String),
    #[error(transparent)]
    Policy(#[from] crate::policy::PolicyError),
    #[error("cannot write: {0}")]
    Output(#[from] io::Error),
    #[error("cannot make JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// What is to be said is said.
    #[error("")]
    Unhealthy,
}

fn listed(candidates: &[String]) -> String {
    candidates.iter().map(|candidate| format!("\n  {candidate}")).collect()
}

impl Failure {
    pub fn status(&self) -> u8 {
        match self {
            Failure::TooLate(_) | Failure::Unhealthy | Failure::NoLog(_) => 1,
            Failure::Usage(_) => 2,
            Failure::NoBus(_) | Failure::NoDaemon(_) => 3,
            Failure::NotPermitted(_) => 4,
            Failure::NotFound { .. } | Failure::Ambiguous { .. } => 5,
            Failure::Refused(_)
            | Failure::Bus(_)
            | Failure::Nonsense(_)
            | Failure::File { .. }
            | Failure::Policy(_)
            | Failure::Output(_)
            | Failure::Json(_) => 6,
        }
    }
}

/// An error of the bus or the daemon, by its name.
impl From<zbus::Error> for Failure {
    fn from(error: zbus::Error) -> Failure {
        use zbus::fdo::Error as Standard;
        let denied = || Failure::NotPermitted("the bus does not let this user talk to gatedd".into());
        match &error {
            zbus::Error::MethodError(name, detail, _) => match name.strip_prefix(ERROR_PREFIX) {
                Some(rest) => from_daemon(rest.trim_start_matches('.'), detail.as_deref().unwrap_or_default()),
                None => Failure::Bus(error),
            },
            zbus::Error::FDO(standard) => match standard.as_ref() {
                Standard::ServiceUnknown(_) | Standard::NameHasNoOwner(_) => {
                    Failure::NoDaemon(format!("nobody owns {BUS_NAME}"))
                }
                Standard::SpawnExecFailed(_)
                | Standard::SpawnForkFailed(_)
                | Standard::SpawnChildExited(_)
                | Standard::SpawnChildSignaled(_)
                | Standard::SpawnFailed(_)
                | Standard::SpawnServiceNotFound(_)
                | Standard::TimedOut(_)
                | Standard::Timeout(_) => Failure::NoDaemon("the bus could not start it".into()),
                Standard::NoReply(_) | Standard::Disconnected(_) => Failure::NoDaemon("it went away".into()),
                Standard::AccessDenied(_) | Standard::AuthFailed(_) => denied(),
                Standard::UnknownObject(_) => Failure::TooLate("it is over already".into()),
                _ => Failure::Bus(error),
            },
            zbus::Error::InputOutput(_) => Failure::NoDaemon("the connection to the bus broke".into()),
            _ => Failure::Bus(error),
        }
    }
}

/// What an error name of the daemon's own means (`daemon::bus::error`); the detail is one escaped line, or empty.
fn from_daemon(name: &str, detail: &str) -> Failure {
    let permitted = |text: &str| Failure::NotPermitted(text.into());
    let detail = || text::escaped_within(&text::unescaped(detail).unwrap_or_else(|| detail.into()), DETAIL);
    match name {
        "NotAuthorized" => permitted(
            "this user may not do that. root may; with polkit here, who can prove to be an administrator, too",
        ),
        "InsideSession" => permitted("nobody may do that from inside a session"),
        "NotPermitted" => permitted("the ceiling's may_run does not name this user"),
        "NoSuchSession" => Failure::TooLate("too late: the session has ended".into()),
        "NoSuchRequest" => {
            Failure::TooLate("too late: the request is over; it timed out, or its process went away".into())
        }
        "AlreadyDecided" => Failure::TooLate("too late: somebody else answered first".into()),
        "NoSuchGrant" => Failure::TooLate("too late: the grant does not hold any more".into()),
        "TooMany" => Failure::Refused("there are too many already".into()),
        "Internal" => Failure::Refused("it failed itself; journalctl -u gatedd says more".into()),
        "InvalidOption" | "InvalidArgument" | "Policy" | "Engine" => Failure::Refused(detail()),
        other => Failure::Refused(format!("{} {}", text::escaped(other.as_bytes()), detail()).trim_end().to_owned()),
    }
}
