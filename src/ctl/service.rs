//! What `gated-run` asks of gatedd. Runs as the caller; what comes back is the daemon's, and text in it may hold words of a
//! policy file.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};

use zbus::proxy::CacheProperties;
use zbus::{Connection, Fd, OwnedVariant, Variant};

use super::proxies::{Fields, ManagerProxy, Options};
use super::start::Given;
use crate::common::bus::ERROR_PREFIX;
use crate::common::details::session_id;
use crate::common::id::SessionId;
use crate::common::path::RawPath;
use crate::common::text;
use crate::common::wire::WindowSize;

/// Bytes of the daemon's words that are shown.
const MAX_WORDS: usize = 2048;

/// The daemon does not do it. One line, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    #[error("cannot reach the system bus: {0}. Without it there is: sudo gated-run --embedded ...")]
    NoBus(zbus::Error),
    #[error(
        "gatedd does not run and cannot be started: {0}. Try: systemctl status gatedd; without it there is: sudo gated-run \
         --embedded ..."
    )]
    NoDaemon(&'static str),
    #[error(
        "the bus does not let this user talk to gatedd: is its org.gated.Gated1.conf installed? Try: gatedctl doctor"
    )]
    NoAccess,
    #[error("you may not start sessions here: `may_run` in the administrator's ceiling.toml does not name you")]
    MayNotRun,
    #[error("gatedd does not allow it: {0}")]
    NotAllowed(String),
    #[error("this process is inside a session, where no session can be started")]
    Inside,
    #[error("there is no session {0} of yours: gatedctl sessions lists those that there are")]
    NoSession(String),
    #[error("there are too many sessions of yours already: gatedctl sessions lists them")]
    TooMany,
    #[error("{0}")]
    Policy(String),
    #[error("the session could not be started: {0}")]
    Engine(String),
    #[error("gatedd went away before it answered; whatever it had started is ended. Try again")]
    Lost,
    #[error("gatedd and gated-run do not understand each other ({0}): are they of the same version?")]
    Misunderstood(String),
    #[error("the bus: {0}")]
    Bus(zbus::Error),
}

/// What a session is opened with.
#[derive(Clone, Debug, Default)]
pub struct Opening {
    /// Without one gatedd finds what matches.
    pub profile: Option<String>,
    /// The paths that the program goes by, the one with links followed first.
    pub program: Vec<RawPath>,
    /// Canonical.
    pub directory: RawPath,
    /// Canonical.
    pub home: RawPath,
    /// The user's own profile files by name.
    pub profiles: BTreeMap<String, String>,
    /// Another user for the command, for root.
    pub user: Option<String>,
    pub given: Given,
    /// Whether nothing is asked, and all recorded.
    pub learn: bool,
}

/// Where a command is to run.
#[derive(Clone, Debug)]
pub enum Place {
    New(Opening),
    /// With the directory that the command starts in, canonical.
    Session(SessionId, RawPath),
}

/// A command as its caller has it.
pub struct Command<'a> {
    pub argv: &'a [Vec<u8>],
    pub environment: &'a [Vec<u8>],
    pub cwd: BorrowedFd<'a>,
    /// None of them a terminal.
    pub stdio: [BorrowedFd<'a>; 3],
    pub link: BorrowedFd<'a>,
    pub umask: u32,
    pub ignored_signals: u64,
    pub on_terminal: [bool; 3],
    pub window: Option<WindowSize>,
    /// By the numbers that the command is to have them at, ascending.
    pub passed: Vec<(RawFd, BorrowedFd<'a>)>,
}

/// A command that was taken; how it fares comes over the link.
#[derive(Debug)]
pub struct Running {
    pub session: SessionId,
    /// JSON lines.
    pub events: Option<OwnedFd>,
    /// What of the policy has no effect.
    pub notes: Vec<String>,
    /// Which profile was chosen, and by what.
    pub chosen: Option<String>,
}

/// The daemon, on a connection to the system bus.
pub struct Service {
    connection: Connection,
    manager: ManagerProxy<'static>,
}

impl Service {
    /// The system bus, or where `DBUS_SYSTEM_BUS_ADDRESS` says it is.
    pub async fn connect() -> Result<Service, ServiceError> {
        let connection = Connection::system().await.map_err(ServiceError::NoBus)?;
        let manager = ManagerProxy::builder(&connection).cache_properties(CacheProperties::No);
        let manager = manager.build().await.map_err(ServiceError::Bus)?;
        Ok(Service { connection, manager })
    }

    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// A session that waits for commands.
    pub async fn open_session(&self, opening: &Opening) -> Result<SessionId, ServiceError> {
        let (session, _) =
            self.manager.open_session(options_of(opening)).await.map_err(|error| explain(error, None))?;
        session_id(&session).map_err(misunderstood)
    }

    /// Starts a command; the bus starts the daemon, if need be.
    pub async fn run(&self, command: &Command<'_>, place: &Place) -> Result<Running, ServiceError> {
        let mut options = match place {
            Place::New(opening) => options_of(opening),
            Place::Session(session, directory) => Options::from([
                ("session", session.0.as_str().into()),
                ("directory", Variant::from(directory.as_bytes())),
            ]),
        };
        options.insert("umask", command.umask.into());
        options.insert("ignored-signals", command.ignored_signals.into());
        options.insert("on-terminal", Variant::from(command.on_terminal.to_vec()));
        if let Some(window) = command.window {
            options.insert("window", Variant::from((window.rows, window.columns)));
        }
        if !command.passed.is_empty() {
            let numbers: Vec<i32> = command.passed.iter().map(|(number, _)| *number).collect();
            let files: Vec<Fd<'_>> = command.passed.iter().map(|(_, file)| Fd::from(*file)).collect();
            options.insert("passed", Variant::from(numbers));
            options.insert("passed-fds", Variant::from(files));
        }
        options.insert("events", true.into());
        let argv: Vec<&[u8]> = command.argv.iter().map(Vec::as_slice).collect();
        let environment: Vec<&[u8]> = command.environment.iter().map(Vec::as_slice).collect();
        let stdio = command.stdio.iter().map(|fd| Fd::from(fd.as_fd())).collect();
        let (cwd, link) = (Fd::from(command.cwd), Fd::from(command.link));
        let asked = match place {
            Place::New(_) => None,
            Place::Session(session, _) => Some(session),
        };
        let called = self.manager.run(&argv, &environment, cwd, stdio, link, options).await;
        let (session, mut results) = called.map_err(|error| explain(error, asked))?;
        let events: Option<Fd<'static>> = take(&mut results, "events")?;
        Ok(Running {
            session: session_id(&session).map_err(misunderstood)?,
            events: events.map(OwnedFd::try_from).transpose().map_err(ServiceError::Bus)?,
            chosen: take::<String>(&mut results, "chosen")?.map(|chosen| plain(&chosen)),
            notes: take::<Vec<String>>(&mut results, "notes")?
                .unwrap_or_default()
                .iter()
                .map(|note| plain(note))
                .collect(),
        })
    }
}

fn options_of(opening: &Opening) -> Options<'_> {
    let mut options = Options::from([
        ("directory", Variant::from(opening.directory.as_bytes())),
        ("home", Variant::from(opening.home.as_bytes())),
    ]);
    if let Some(profile) = &opening.profile {
        options.insert("profile", profile.as_str().into());
    }
    for (key, path) in ["program", "program-called"].into_iter().zip(&opening.program) {
        options.insert(key, Variant::from(path.as_bytes()));
    }
    if !opening.profiles.is_empty() {
        let texts = opening.profiles.iter().map(|(name, text)| (name.as_str(), text.as_bytes()));
        options.insert("profiles", Variant::from(texts.collect::<BTreeMap<_, _>>()));
    }
    if !opening.given.publish.is_empty() {
        let addresses = opening.given.publish.iter().map(ToString::to_string);
        options.insert("publish", Variant::from(addresses.collect::<Vec<String>>()));
    }
    if let Some(socket) = &opening.given.ssh_agent {
        options.insert("ssh-agent", Variant::from(socket.as_bytes()));
    }
    if opening.learn {
        options.insert("learn", true.into());
    }
    if let Some(user) = &opening.user {
        options.insert("user", user.as_str().into());
    }
    options
}

fn take<T: TryFrom<OwnedVariant>>(results: &mut Fields, key: &'static str) -> Result<Option<T>, ServiceError> {
    let wrong = |_| ServiceError::Misunderstood(format!("a wrong value of {key}"));
    results.remove(key).map(T::try_from).transpose().map_err(wrong)
}

fn misunderstood(error: impl std::fmt::Display) -> ServiceError {
    ServiceError::Misunderstood(error.to_string())
}

/// An error of the daemon or the bus, by its name.
fn explain(error: zbus::Error, session: Option<&SessionId>) -> ServiceError {
    use zbus::fdo::Error as Standard;
    match &error {
        zbus::Error::MethodError(name, detail, _) => {
            let detail = plain(detail.as_deref().unwrap_or_default());
            match name.strip_prefix(ERROR_PREFIX).and_then(|rest| rest.strip_prefix('.')) {
                Some("NotPermitted") => ServiceError::MayNotRun,
                Some("NotAuthorized") => ServiceError::NotAllowed(detail),
                Some("InsideSession") => ServiceError::Inside,
                Some("NoSuchSession") => {
                    ServiceError::NoSession(session.map_or_else(String::new, |session| session.to_string()))
                }
                Some("TooMany") => ServiceError::TooMany,
                Some("Policy") => ServiceError::Policy(detail),
                Some("Engine") => ServiceError::Engine(detail),
                Some(other) => ServiceError::Misunderstood(format!("{}: {detail}", plain(other))),
                None => ServiceError::Bus(error),
            }
        }
        zbus::Error::FDO(standard) => match standard.as_ref() {
            Standard::ServiceUnknown(_) | Standard::NameHasNoOwner(_) | Standard::SpawnServiceNotFound(_) => {
                ServiceError::NoDaemon("it is not installed as a service of the bus")
            }
            Standard::SpawnExecFailed(_)
            | Standard::SpawnForkFailed(_)
            | Standard::SpawnChildExited(_)
            | Standard::SpawnChildSignaled(_)
            | Standard::SpawnFailed(_)
            | Standard::SpawnFileInvalid(_)
            | Standard::SpawnConfigInvalid(_)
            | Standard::SpawnPermissionsInvalid(_)
            | Standard::SpawnFailedToSetup(_)
            | Standard::TimedOut(_)
            | Standard::Timeout(_) => ServiceError::NoDaemon("the bus could not start it"),
            Standard::AccessDenied(_) | Standard::AuthFailed(_) => ServiceError::NoAccess,
            Standard::NoReply(_) | Standard::Disconnected(_) => ServiceError::Lost,
            Standard::LimitsExceeded(_) => ServiceError::TooMany,
            Standard::UnknownMethod(_)
            | Standard::UnknownInterface(_)
            | Standard::UnknownObject(_)
            | Standard::InvalidArgs(_)
            | Standard::InvalidSignature(_) => ServiceError::Misunderstood(plain(&standard.to_string())),
            _ => ServiceError::Bus(error),
        },
        zbus::Error::InputOutput(_) => ServiceError::Lost,
        _ => ServiceError::Bus(error),
    }
}

/// Words for the caller's terminal: one line of what draws itself.
fn plain(words: &str) -> String {
    let shown = words.chars().map(|one| if one == ' ' || text::is_showable(one) { one } else { '?' });
    shown.take(MAX_WORDS).collect()
}
