//! `gated-run --embedded`: the client and the broker of one session in one process. Root until the supervisor is started and
//! everything that needs root is open; the invoking user for good after that.

use std::cell::RefCell;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::process::ExitCode;
use std::rc::Rc;

use nix::unistd::geteuid;
use tokio::sync::mpsc;
use tracing::debug;

use super::arguments::{Arguments, EventsTo};
use super::caller::{Caller, CallerError, Environment};
use super::choosing::{self, ChoosingError};
use super::client::{Client, ClientError, Signals};
use super::clientlink;
use super::exit;
use super::learning::{self, Ending, LearnError, Learner, Source};
use super::order::{Directory, Order, OrderError, Passed};
use super::records::{self, RecordsError};
use super::relay::SharedScreen;
use super::start::{self, Given, StartError, Started, Waiting, published};
use super::terminal;
use crate::common::wire::{FromSession, ToSession};
use crate::consent::script::Places;
use crate::consent::terminal::Own;
use crate::daemon::audit::DEFAULT_PATH;
use crate::daemon::broker::{Broker, BrokerConfig};
use crate::daemon::events::Events;
use crate::daemon::pending::SessionTerms;
use crate::policy::publish::{self, Unpublished};
use crate::policy::{Context, ProfileSelector};
use crate::tool::link::Received;
use crate::tool::privileges::{PrivilegeError, leave_root};

/// Why there is no exit status of the command's; one line for stderr.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddedError {
    #[error(transparent)]
    Caller(#[from] CallerError),
    #[error(transparent)]
    Choosing(#[from] ChoosingError),
    #[error(transparent)]
    Start(#[from] StartError),
    #[error(transparent)]
    Records(#[from] RecordsError),
    #[error(transparent)]
    Privileges(#[from] PrivilegeError),
    #[error(transparent)]
    Order(#[from] OrderError),
    #[error(transparent)]
    Unpublished(#[from] Unpublished),
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("learned, but nothing is proposed: {0}")]
    Learn(#[from] LearnError),
    #[error("{0}")]
    Session(String),
    #[error("cannot {what}: {source}")]
    Step { what: &'static str, source: io::Error },
}

fn step(what: &'static str) -> impl FnOnce(io::Error) -> EmbeddedError {
    move |source| EmbeddedError::Step { what, source }
}

/// Runs the command to its end.
pub fn run(arguments: Arguments) -> Result<ExitCode, EmbeddedError> {
    if !geteuid().is_root() {
        return Err(CallerError::NotRoot.into());
    }
    let passed = Passed::take(&arguments.pass_fd)?;
    // It gets ready while the rest is found out. A number that was named is taken first, before anything of ours can have it.
    let names_a_number = matches!(arguments.events, Some(EventsTo::Fd(_)));
    let early = if names_a_number { None } else { Some(Waiting::begin()?) };
    let environment = Environment::own();
    let caller = Caller::find(&environment, arguments.user.as_deref())?;
    let directory = Directory::current()?;
    let events = records::open_events(&caller, arguments.events.as_ref())?;
    let command: Vec<Vec<u8>> = arguments.command.iter().cloned().map(OsStringExt::into_vec).collect();
    let named = arguments.profile.clone();
    let profile_file = match &named {
        Some(ProfileSelector::File(path)) => Some(path.clone()),
        Some(ProfileSelector::Name(_)) | None => None,
    };
    let program = choosing::program_of(&command, &caller.environment_for(&environment), &directory.path);
    let (mut profile, chosen) = choosing::profile_for(&caller, named, program, &directory)?;
    profile.learning = arguments.learn;
    if profile.learning {
        choosing::check_learning(&caller)?;
    }
    let base = profile_file.clone().map_or_else(|| ProfileSelector::Name(profile.name.clone()), ProfileSelector::File);
    let base = (base, arguments.learn_to.clone());
    let context = Context { home: profile.home.clone(), user: caller.tool.name.clone(), cwd: directory.path.clone() };
    let publish = arguments.published();
    publish::check(&profile, &publish)?;
    let consent = arguments.consent();
    let places = Places { home: Some(profile.home.clone()), workspace: profile.workspace.clone() };
    let asked = records::open_consent(&caller, &places, &consent)?;
    let audit_file = arguments.audit.as_deref().unwrap_or(Path::new(DEFAULT_PATH));
    let audit = records::open_audit(&caller, audit_file)?;
    let named = [profile_file.as_deref(), consent.file(), arguments.events.as_ref().and_then(EventsTo::file)];
    records::protect_own_files(&mut profile, named.into_iter().flatten().chain([audit_file]));
    for note in &profile.notes {
        eprintln!("gated-run: note: {note}");
    }
    chosen.as_deref().map(choosing::announce);
    let order = Order::new(&command, caller.environment_for(&environment), &directory, passed)?;

    for address in &publish {
        eprintln!("gated-run: {}", published(*address));
    }
    let learner = profile.learning.then(|| Rc::new(RefCell::new(Learner::default())));
    if profile.learning {
        eprintln!("gated-run: {}", learning::WARNING);
    }
    let given = Given { publish, ssh_agent: caller.ssh_agent(&environment) };
    let waiting = early.map_or_else(Waiting::begin, Ok)?;
    let started = start::start(waiting, &caller, &profile, &directory, &order, given)?;
    leave_root(&caller.invoking, false)?;
    debug!(session = %started.session, "started");

    let config = BrokerConfig {
        session: started.session.clone(),
        user: caller.tool.name.clone(),
        terms: SessionTerms {
            timeout: profile.prompt.timeout,
            max_per_minute: if asked.is_a_person() { profile.prompt.max_per_minute } else { u32::MAX },
            home: profile.home.clone(),
            limits: profile.grants.limits(),
            keeps_answers: false,
            knows_people: false,
        },
    };
    let term = environment.get(b"TERM").map(|term| String::from_utf8_lossy(term).into_owned()).unwrap_or_default();
    // Signals are the main thread's: a stop must stop it where it asked for it.
    // What is executed, which the person at the terminal may change.
    let last = Rc::new(RefCell::new(command));
    let runtime = clientlink::runtime().map_err(step("start the runtime"))?;
    let Order { start, terminal, .. } = order;
    let Started { link, caller: call, mut supervisor, .. } = started;
    let (closing, ended, failure) = runtime.block_on(async {
        let screen = SharedScreen::default();
        let events = match events {
            Some(file) => clientlink::with_signals_blocked(|| Events::to(file)).map_err(step("write events"))?,
            None => Events::none(),
        };
        let (events, copied) = match &learner {
            Some(learner) => learning_events(Rc::clone(learner), events),
            None => (events, None),
        };
        let (to_broker, from_session) = mpsc::channel(BROKER_DEPTH);
        let (arrivals, to_session) = clientlink::serve(link).map_err(step("start threads"))?;
        let signals = Signals::listen(start.ignored_signals)?;
        let client = Client::new(call, terminal, start.on_terminal, signals, screen.clone())?;
        let own = Own { argv: Rc::clone(&last), call: client.call() };
        let agent = asked.into_agent(&caller.invoking.name, &term, screen, own).map_err(step("use the terminal"))?;
        let broker = Broker::new(config, audit, events, vec![agent]);
        let brokered = async move {
            let closing = broker.run(from_session, to_session.clone()).await;
            if closing.fault.is_some() {
                // A supervisor that is gone has stopped.
                let _ = to_session.send(ToSession::Stop).await;
            }
            closing
        };
        let (closing, ended, failure) = tokio::join!(brokered, client.run(), hear(arrivals, to_broker));
        if let Some(copied) = copied {
            copied.take().close();
        }
        Ok::<_, EmbeddedError>((closing, ended, failure))
    })?;
    let status = supervisor.wait().map_err(step("wait for the supervisor"))?;
    terminal::restore();
    for line in closing.denials.lines() {
        eprintln!("{line}");
    }
    if let Some(fault) = closing.fault {
        return Err(EmbeddedError::Session(format!("the session was ended: {fault}")));
    }
    let ended = match (ended, failure) {
        (Err(ClientError::Gone), Some(failure)) => return Err(EmbeddedError::Session(failure)),
        (Err(ClientError::Gone), None) => {
            return Err(EmbeddedError::Session(format!("the session's supervisor was ended ({status})")));
        }
        (ended, _) => ended?,
    };
    let status = exit::report(ended, &last.borrow());
    if let Some(learner) = learner {
        let (base, to) = base;
        learning::conclude(Ending { learner: &learner.borrow(), base, context, to: to.as_deref() })?;
    }
    Ok(status)
}

/// Events that are also learned from, and where they go besides.
fn learning_events(learner: Rc<RefCell<Learner>>, events: Events) -> (Events, Option<Rc<RefCell<Events>>>) {
    let copied = Rc::new(RefCell::new(events));
    let copy = Rc::clone(&copied);
    let told = Events::told(move |event| {
        if let Ok(line) = serde_json::to_vec(event) {
            learner.borrow_mut().take(&line, Source::Events);
        }
        copy.borrow_mut().emit(event);
    });
    (told, Some(copied))
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
