//! `gated-run`: the client and, embedded, the broker of one session. Root until the supervisor is started and everything that
//! needs root is open; the invoking user for good after that.

use std::io;
use std::os::unix::ffi::OsStringExt;
use std::process::ExitCode;

use clap::Parser;
use nix::sys::signal::SigSet;
use tokio::sync::mpsc;
use tracing::debug;

use super::arguments::{Arguments, EventsTo};
use super::caller::{Caller, CallerError, Environment};
use super::client::{Client, ClientError};
use super::clientlink;
use super::exit::{self, FAILED};
use super::order::{Directory, Order, OrderError};
use super::records::{self, RecordsError};
use super::relay::SharedScreen;
use super::start::{self, StartError, Started};
use super::terminal::{self, RestoredAtEnd};
use crate::common::wire::{FromSession, ToSession};
use crate::daemon::broker::{Broker, BrokerConfig};
use crate::daemon::events::Events;
use crate::daemon::pending::SessionTerms;
use crate::policy::ProfileSelector;
use crate::tool::link::Received;
use crate::tool::privileges::{PrivilegeError, leave_root};

/// Why there is no exit status of the command's; one line for stderr.
#[derive(Debug, thiserror::Error)]
enum RunError {
    #[error("this version has no daemon yet: use gated-run --embedded")]
    NoDaemon,
    #[error(transparent)]
    Caller(#[from] CallerError),
    #[error(transparent)]
    Start(#[from] StartError),
    #[error(transparent)]
    Records(#[from] RecordsError),
    #[error(transparent)]
    Privileges(#[from] PrivilegeError),
    #[error(transparent)]
    Order(#[from] OrderError),
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("{0}")]
    Session(String),
    #[error("cannot {what}: {source}")]
    Step { what: &'static str, source: io::Error },
}

fn step(what: &'static str) -> impl FnOnce(io::Error) -> RunError {
    move |source| RunError::Step { what, source }
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
    match run(arguments) {
        Ok(status) => status,
        Err(error) => {
            terminal::restore();
            eprintln!("gated-run: {error}");
            ExitCode::from(FAILED)
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
    if !arguments.embedded {
        return Err(RunError::NoDaemon);
    }
    let environment = Environment::own();
    let caller = Caller::find(&environment, arguments.user.as_deref())?;
    let directory = Directory::current()?;
    let events = records::open_events(&caller, arguments.events.as_ref())?;
    let profile_file = match &arguments.profile {
        ProfileSelector::File(path) => Some(path.clone()),
        ProfileSelector::Name(_) => None,
    };
    let mut profile = start::load_profile(&caller, arguments.profile, &directory)?;
    let asked = records::open_consent(&caller, &profile, &arguments.consent)?;
    let audit = records::open_audit(&caller, &arguments.audit)?;
    let named = [profile_file.as_deref(), arguments.consent.file(), arguments.events.as_ref().and_then(EventsTo::file)];
    records::protect_own_files(&mut profile, named.into_iter().flatten().chain([arguments.audit.as_path()]));
    for note in &profile.notes {
        eprintln!("gated-run: note: {note}");
    }
    let command: Vec<Vec<u8>> = arguments.command.into_iter().map(OsStringExt::into_vec).collect();
    let order = Order::new(&command, caller.environment_for(&environment), &directory)?;

    let started = start::start(&caller, &profile, &directory, &order)?;
    leave_root(&caller.invoking, false)?;
    debug!(session = %started.session, "started");

    let config = BrokerConfig {
        session: started.session.clone(),
        user: caller.tool.name.clone(),
        terms: SessionTerms {
            timeout: profile.prompt.timeout,
            max_per_minute: if asked.is_a_person() { profile.prompt.max_per_minute } else { u32::MAX },
            home: profile.home.clone(),
            knows_people: false,
        },
    };
    let term = environment.get(b"TERM").map(|term| String::from_utf8_lossy(term).into_owned()).unwrap_or_default();
    // Signals are the main thread's: a stop must stop it where it asked for it.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .on_thread_start(|| {
            // Fails for an invalid argument only.
            let _ = SigSet::all().thread_block();
        })
        .build()
        .map_err(step("start the runtime"))?;
    let Order { start, terminal, .. } = order;
    let Started { link, caller: call, mut supervisor, .. } = started;
    let (closing, ended, failure) = runtime.block_on(async {
        let screen = SharedScreen::default();
        let agent = asked.into_agent(&caller.invoking.name, &term, screen.clone()).map_err(step("use the terminal"))?;
        let events = match events {
            Some(file) => clientlink::with_signals_blocked(|| Events::to(file)).map_err(step("write events"))?,
            None => Events::none(),
        };
        let broker = Broker::new(config, audit, events, vec![agent]);
        let (to_broker, from_session) = mpsc::channel(BROKER_DEPTH);
        let (arrivals, to_session) = clientlink::serve(link).map_err(step("start threads"))?;
        let client = Client::new(call, terminal, start.on_terminal, start.ignored_signals, screen)?;
        let brokered = async move {
            let closing = broker.run(from_session, to_session.clone()).await;
            if closing.fault.is_some() {
                // A supervisor that is gone has stopped.
                let _ = to_session.send(ToSession::Stop).await;
            }
            closing
        };
        Ok::<_, RunError>(tokio::join!(brokered, client.run(), hear(arrivals, to_broker)))
    })?;
    let status = supervisor.wait().map_err(step("wait for the supervisor"))?;
    terminal::restore();
    for line in closing.denials.lines() {
        eprintln!("{line}");
    }
    if let Some(fault) = closing.fault {
        return Err(RunError::Session(format!("the session was ended: {fault}")));
    }
    let ended = match (ended, failure) {
        (Err(ClientError::Gone), Some(failure)) => return Err(RunError::Session(failure)),
        (Err(ClientError::Gone), None) => {
            return Err(RunError::Session(format!("the session's supervisor was ended ({status})")));
        }
        (ended, _) => ended?,
    };
    let name = command.first().map(|name| name.escape_ascii().to_string()).unwrap_or_default();
    if let Some(line) = exit::line_of(ended, &name) {
        eprintln!("{line}");
    }
    Ok(exit::status_of(ended))
}

/// Messages held for the broker at the most; a supervisor that sends more waits.
const BROKER_DEPTH: usize = 64;

/// Passes on what the supervisor says, until it is gone; returns why it gave up, if it said so.
async fn hear(
    mut arrivals: mpsc::Receiver<Received<FromSession>>,
    to_broker: mpsc::Sender<FromSession>,
) -> Option<String> {
    let mut failure = None;
    while let Some(received) = arrivals.recv().await {
        if let FromSession::Failed(text) = &received.message {
            failure = Some(text.clone());
        }
        // A broker that has ended is about to end the session.
        let _ = to_broker.send(received.message).await;
    }
    // The broker ends now, and takes back what it is still asking: nobody waits for it any more.
    failure
}
