//! `gated-run`: the client and, embedded, the broker of one session. Root until the supervisor is started and everything that
//! needs root is open; the invoking user for good after that.

use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::process::{Child, ExitCode};

use clap::Parser;
use nix::sys::signal::{SigSet, Signal, killpg, raise};
use nix::unistd::getpgrp;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tracing::debug;

use super::arguments::{Arguments, EventsTo};
use super::caller::{Caller, CallerError, Environment};
use super::clientlink;
use super::exit::{self, FAILED};
use super::records::{self, RecordsError};
use super::relay::{Relay, SharedScreen};
use super::start::{self, Directory, StartError, Started};
use super::terminal::{self, CallersTerminal, RestoredAtEnd};
use crate::common::wire::{Ended, FromSession, ToSession};
use crate::daemon::audit::DEFAULT_PATH;
use crate::daemon::broker::{Broker, BrokerConfig};
use crate::daemon::events::Events;
use crate::daemon::pending::SessionTerms;
use crate::policy::ProfileSelector;
use crate::session::launch::starts_in_background;
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
    let selector = arguments.profile();
    let profile_file = match &selector {
        ProfileSelector::File(path) => Some(path.clone()),
        ProfileSelector::Name(_) => None,
    };
    let mut profile = start::load_profile(&caller, selector, &directory)?;
    let consent = arguments.consent();
    let asked = records::open_consent(&caller, &profile, &consent)?;
    let audit_file = arguments.audit.as_deref().unwrap_or(Path::new(DEFAULT_PATH));
    let audit = records::open_audit(&caller, audit_file)?;
    let named = [profile_file.as_deref(), consent.file(), arguments.events.as_ref().and_then(EventsTo::file)];
    records::protect_own_files(&mut profile, named.into_iter().flatten().chain([audit_file]));
    for note in &profile.notes {
        eprintln!("gated-run: note: {note}");
    }
    let command: Vec<Vec<u8>> = arguments.command.into_iter().map(OsStringExt::into_vec).collect();
    let ignored = start::ignored_signals()?;

    let started = start::start(&caller, &profile, &directory, &environment, &command)?;
    leave_root(&caller.invoking, false)?;
    debug!(session = %started.session, "started");

    let config = BrokerConfig {
        session: started.session.clone(),
        user: caller.tool.name.clone(),
        terms: SessionTerms {
            timeout: profile.prompt.timeout,
            max_per_minute: if asked.is_a_person() { profile.prompt.max_per_minute } else { u32::MAX },
            home: profile.home.clone(),
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
    let (closing, ended) = runtime.block_on(async {
        let screen = SharedScreen::default();
        let agent = asked.into_agent(&caller.invoking.name, &term, screen.clone()).map_err(step("use the terminal"))?;
        let events = match events {
            Some(file) => clientlink::with_signals_blocked(|| Events::to(file)).map_err(step("write events"))?,
            None => Events::none(),
        };
        let broker = Broker::new(config, audit, events, vec![agent]);
        let (to_broker, from_session) = mpsc::channel(BROKER_DEPTH);
        let client = Client::new(started, ignored, to_broker, screen)?;
        let to_session = client.to_session.clone();
        let brokered = async move {
            let closing = broker.run(from_session, to_session.clone()).await;
            if closing.fault.is_some() {
                // A supervisor that is gone has stopped.
                let _ = to_session.send(ToSession::Stop).await;
            }
            closing
        };
        Ok::<_, RunError>(tokio::join!(brokered, client.run()))
    })?;
    terminal::restore();
    for line in closing.denials.lines() {
        eprintln!("{line}");
    }
    if let Some(fault) = closing.fault {
        return Err(RunError::Session(format!("the session was ended: {fault}")));
    }
    let ended = ended?;
    let name = command.first().map(|name| name.escape_ascii().to_string()).unwrap_or_default();
    if let Some(line) = exit::line_of(ended, &name) {
        eprintln!("{line}");
    }
    Ok(exit::status_of(ended))
}

/// Messages held for the broker at the most; a supervisor that sends more waits.
const BROKER_DEPTH: usize = 64;

/// Signals that a caller sends to the command by sending them to gated-run.
const PASSED: [Signal; 6] =
    [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT, Signal::SIGUSR1, Signal::SIGUSR2];

/// The client of one session.
struct Client {
    supervisor: Child,
    arrivals: mpsc::Receiver<Received<FromSession>>,
    to_session: mpsc::Sender<ToSession>,
    /// Until the supervisor is gone.
    to_broker: Option<mpsc::Sender<FromSession>>,
    signals: mpsc::Receiver<Signal>,
    /// Until the session has a pty for it.
    terminal: Option<CallersTerminal>,
    relay: Option<Relay>,
    screen: SharedScreen,
    /// Whether the terminal's keys are to be the session's when the terminal is ours.
    wants_keys: bool,
    ended: Option<Ended>,
    failure: Option<String>,
}

impl Client {
    fn new(
        started: Started,
        ignored: u64,
        to_broker: mpsc::Sender<FromSession>,
        screen: SharedScreen,
    ) -> Result<Client, RunError> {
        let Started { link, supervisor, terminal, on_terminal, .. } = started;
        let (arrivals, to_session) = clientlink::serve(link).map_err(step("start threads"))?;
        let signals = listen_to_signals(ignored).map_err(step("listen to signals"))?;
        let wants_keys = on_terminal.contains(&true) && !starts_in_background(on_terminal);
        Ok(Client {
            supervisor,
            arrivals,
            to_session,
            to_broker: Some(to_broker),
            signals,
            terminal,
            relay: None,
            screen,
            wants_keys,
            ended: None,
            failure: None,
        })
    }

    /// Until every process of the session is gone and everything it wrote is shown.
    async fn run(mut self) -> Result<Ended, RunError> {
        let mut is_linked = true;
        while is_linked || self.relay.as_ref().is_some_and(|relay| !relay.is_over()) {
            tokio::select! {
                arrived = self.arrivals.recv(), if is_linked => match arrived {
                    None => {
                        is_linked = false;
                        // The broker ends, and takes back what it is still asking: nobody waits for it any more.
                        self.to_broker = None;
                    }
                    Some(received) => self.take(received).await?,
                },
                Some(signal) = self.signals.recv() => self.pass(signal).await,
                turned = turn(self.relay.as_ref()) => turned.map_err(step("relay the terminal"))?,
            }
        }
        let status = self.supervisor.wait().map_err(step("wait for the supervisor"))?;
        match (self.ended, self.failure) {
            (Some(ended), _) => Ok(ended),
            (None, Some(failure)) => Err(RunError::Session(failure)),
            (None, None) => Err(RunError::Session(format!("the session's supervisor was ended ({status})"))),
        }
    }

    async fn take(&mut self, received: Received<FromSession>) -> Result<(), RunError> {
        match &received.message {
            FromSession::Ready { landlock_abi } => {
                debug!(landlock_abi, "the session is built");
                if let (Some(terminal), Some(master)) = (self.terminal.take(), received.fds.into_iter().next()) {
                    let relay = Relay::new(terminal, master).map_err(step("use the session's terminal"))?;
                    self.screen.set(&relay);
                    self.relay = Some(relay);
                    self.take_terminal()?;
                }
            }
            FromSession::Failed(text) => self.failure = Some(text.clone()),
            FromSession::Stopped(number) => self.stop_with_the_command(*number).await?,
            FromSession::CallEnded { ended, .. } => {
                self.ended = Some(*ended);
                self.to_broker(received.message).await;
            }
            FromSession::CallStarted { .. } | FromSession::Ask(_) | FromSession::Cancel(_) | FromSession::Record(_) => {
                self.to_broker(received.message).await;
            }
        }
        Ok(())
    }

    /// Raw mode and the keys, if the session wants them and the terminal is ours to give.
    fn take_terminal(&mut self) -> Result<(), RunError> {
        if let Some(relay) = self.relay.as_ref().filter(|relay| !relay.is_paused()) {
            let ours = self.wants_keys && relay.terminal().is_ours();
            if ours {
                relay.terminal().make_raw().map_err(step("make the terminal raw"))?;
                relay.copy_window();
            }
            relay.set_reading(ours);
        }
        Ok(())
    }

    fn release_terminal(&mut self) {
        if let Some(relay) = &self.relay {
            relay.set_reading(false);
        }
        terminal::restore();
    }

    /// The command was stopped: stop as it did, so that the caller's shell sees it, and let it run on when we do.
    /// Without a terminal nobody waits for that, and whoever stopped it may continue it.
    async fn stop_with_the_command(&mut self, number: i32) -> Result<(), RunError> {
        if self.relay.is_none() {
            return Ok(());
        }
        let signal = Signal::try_from(number).unwrap_or(Signal::SIGSTOP);
        let wants_terminal = matches!(signal, Signal::SIGTTIN | Signal::SIGTTOU);
        let may_have_it = self.relay.as_ref().is_some_and(|relay| relay.terminal().is_ours());
        if wants_terminal && may_have_it {
            self.wants_keys = true;
        } else {
            self.release_terminal();
            // What ^Z would have done had the terminal been ours alone: the whole job stops. This thread is the only one that
            // takes signals, so it has been continued when this returns. In an orphaned group the kernel ignores it.
            let stopped = if signal != Signal::SIGSTOP { killpg(getpgrp(), signal) } else { raise(Signal::SIGSTOP) };
            stopped.map_err(|errno| step("stop")(errno.into()))?;
        }
        self.take_terminal()?;
        self.send(ToSession::Continue).await;
        Ok(())
    }

    async fn pass(&mut self, signal: Signal) {
        match signal {
            Signal::SIGWINCH => {
                if let Some(relay) = &self.relay {
                    relay.copy_window();
                }
            }
            // In the foreground again, perhaps for the first time. A terminal that is gone says so when it is read.
            Signal::SIGCONT => drop(self.take_terminal()),
            other => self.send(ToSession::Signal(other as i32)).await,
        }
    }

    /// A broker that has ended is about to end the session.
    async fn to_broker(&self, message: FromSession) {
        if let Some(to_broker) = &self.to_broker {
            let _ = to_broker.send(message).await;
        }
    }

    /// A supervisor that is gone needs no message; its end is seen elsewhere.
    async fn send(&self, message: ToSession) {
        let _ = self.to_session.send(message).await;
    }
}

async fn turn(relay: Option<&Relay>) -> io::Result<()> {
    match relay {
        Some(relay) if !relay.is_over() => relay.turn().await,
        _ => std::future::pending().await,
    }
}

/// The signals that gated-run handles, but for those that its caller had it ignore.
fn listen_to_signals(ignored: u64) -> io::Result<mpsc::Receiver<Signal>> {
    let (arrived, arrivals) = mpsc::channel(16);
    for number in PASSED.into_iter().chain([Signal::SIGWINCH, Signal::SIGCONT]) {
        if ignored >> (number as u32 - 1) & 1 == 1 {
            continue;
        }
        let mut stream = signal(SignalKind::from_raw(number as i32))?;
        let arrived = arrived.clone();
        tokio::spawn(async move { while stream.recv().await.is_some() && arrived.send(number).await.is_ok() {} });
    }
    Ok(arrivals)
}
