//! `gated-run` through the daemon. Runs as the caller, without any right of its own: gatedd says who may run what, starts the
//! supervisor and asks whoever may answer; this process gives the command its terminal and files, and is itself one of those
//! who can be asked. Called by sudo, it becomes the person who called sudo first.
//!
//! The call hangs on the caller link, not on the daemon: a daemon that is gone for a while does not end it.

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStringExt;
use std::process::ExitCode;
use std::rc::Rc;

use tracing::{debug, warn};
use zbus::Connection;

use super::arguments::{ArgumentError, Arguments, Consent};
use super::caller::{Caller, CallerError, Environment};
use super::choosing;
use super::client::{Client, ClientError, Signals};
use super::clientlink;
use super::eventpipe::{Also, EventPipe, Heard};
use super::exit;
use super::learning::{self, Ending, LearnError, Learner};
use super::order::{self, Directory, Order, OrderError, Passed};
use super::ownprofiles::{OwnProfileError, named_profile, own_profiles};
use super::records::{self, Asked, RecordsError};
use super::relay::SharedScreen;
use super::service::{Command, Opening, Place, Running, Service, ServiceError};
use super::start::{Given, published};
use super::terminal;
use crate::common::consent::ConsentAgent;
use crate::common::path::RawPath;
use crate::consent::bus::{BusAgent, Registration, drive};
use crate::consent::script::Places;
use crate::consent::terminal::Own;
use crate::daemon::events::Events;
use crate::policy::select::DEFAULT;
use crate::policy::{Context, ProfileSelector};
use crate::tool::privileges::{PrivilegeError, leave_root};

/// Why there is no exit status of the command's; one line for stderr.
#[derive(Debug, thiserror::Error)]
pub enum ServedError {
    #[error(transparent)]
    Arguments(#[from] ArgumentError),
    #[error(transparent)]
    Caller(#[from] CallerError),
    #[error(transparent)]
    Records(#[from] RecordsError),
    #[error(transparent)]
    Privileges(#[from] PrivilegeError),
    #[error(transparent)]
    Order(#[from] OrderError),
    #[error("a profile of your own: {0}")]
    OwnProfile(#[from] OwnProfileError),
    #[error(transparent)]
    Service(#[from] ServiceError),
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("ended by {0} before the command was started")]
    Signal(nix::sys::signal::Signal),
    #[error("--service has no terminal: standard input, output and error must be something else")]
    Terminal,
    #[error("learned, but nothing is proposed: {0}")]
    Learn(#[from] LearnError),
    #[error("cannot {what}: {source}")]
    Step { what: &'static str, source: io::Error },
}

fn step(what: &'static str) -> impl FnOnce(io::Error) -> ServedError {
    move |source| ServedError::Step { what, source }
}

impl ServedError {
    /// Whether the policy, or a setting, is what does not let it start: trying again without a change is of no use.
    pub fn is_configuration(&self) -> bool {
        matches!(
            self,
            ServedError::OwnProfile(_)
                | ServedError::Terminal
                | ServedError::Arguments(_)
                | ServedError::Service(ServiceError::Policy(_) | ServiceError::MayNotRun | ServiceError::NotAllowed(_))
        )
    }

    /// Whether the daemon cannot be reached.
    pub fn is_unavailable(&self) -> bool {
        matches!(
            self,
            ServedError::Service(ServiceError::NoBus(_) | ServiceError::NoDaemon(_) | ServiceError::NoAccess)
        )
    }
}

/// Runs the command to its end, or opens a session for others.
pub fn run(arguments: Arguments) -> Result<ExitCode, ServedError> {
    let passed = Passed::take(&arguments.pass_fd)?;
    if arguments.service && terminal::standard_terminals().contains(&true) {
        return Err(ServedError::Terminal);
    }
    let environment = Environment::own();
    let caller = Caller::find(&environment, arguments.user.as_deref())?;
    let directory = Directory::current()?;
    // Before this process opens other files.
    let copy = records::open_events(&caller, arguments.events.as_ref())?;
    let home = caller.home();
    let choice = arguments.consent();
    let places = Places { home: Some(home.clone()), workspace: Some(directory.path.clone()) };
    let asked = records::open_consent(&caller, &places, &choice)?;
    let command: Vec<Vec<u8>> = arguments.command.iter().cloned().map(OsStringExt::into_vec).collect();
    let order = Order::new(&command, caller.environment_for(&environment), &directory, passed)?;
    if caller.is_root_for_another() {
        leave_root(&caller.invoking, false)?;
    }
    let (profile, profiles) = match (&arguments.session, arguments.profile.clone()) {
        (Some(_), _) => Default::default(),
        (None, None) => (None, own_profiles(&home, caller.tool.uid)?),
        (None, Some(ProfileSelector::Name(name))) => (Some(name), own_profiles(&home, caller.tool.uid)?),
        (None, Some(ProfileSelector::File(path))) => {
            let mut profiles = own_profiles(&home, caller.tool.uid)?;
            let (path, text) = named_profile(&path)?;
            profiles.insert(path.clone(), text);
            (Some(path), profiles)
        }
    };
    let learning =
        Learning { caller: &caller, home: home.clone(), directory: directory.path.clone(), arguments: &arguments };
    let place = match &arguments.session {
        Some(session) => Place::Session(session.clone(), directory.path),
        None => Place::New(Opening {
            profile,
            program: choosing::program_of(&command, &order.start.environment, &directory.path),
            directory: directory.path,
            profiles,
            home,
            user: caller.other_user().map(str::to_owned),
            given: Given { publish: arguments.published(), ssh_agent: caller.ssh_agent(&environment) },
            learn: arguments.learn,
        }),
    };
    // What is executed, which the person at the terminal may change.
    let last = Rc::new(RefCell::new(command));
    if arguments.learn {
        eprintln!("gated-run: {}", learning::WARNING);
    }
    let runtime = clientlink::runtime().map_err(step("start the runtime"))?;
    if let (true, Place::New(opening)) = (arguments.new_session, &place) {
        let session = runtime.block_on(async { Service::connect().await?.open_session(opening).await })?;
        tell_published(&arguments.published());
        println!("{session}");
        return Ok(ExitCode::SUCCESS);
    }
    let term = environment.get(b"TERM").map(|term| String::from_utf8_lossy(term).into_owned()).unwrap_or_default();
    let notes = RefCell::default();
    let (ended, heard) = runtime.block_on(async {
        let service = Service::connect().await?;
        let mut signals = Signals::listen(order.start.ignored_signals)?;
        let (link, running) = tokio::select! {
            handed = hand_over(&service, &order, &place) => handed?,
            signal = signals.ends() => return Err(ServedError::Signal(signal)),
        };
        let Running { session, events, notes: of_policy, chosen } = running;
        debug!(%session, "gatedd has taken the command");
        tell_published(&arguments.published());
        chosen.as_deref().map(choosing::announce);
        for note in of_policy {
            eprintln!("gated-run: note: {note}");
        }
        let screen = SharedScreen::default();
        let registration = asked.kind().map(|kind| Registration { kind, session: Some(session) });
        let copy = match copy {
            Some(file) => clientlink::with_signals_blocked(|| Events::to(file)).map_err(step("write events"))?,
            None => Events::none(),
        };
        let Order { start, terminal, .. } = order;
        let client = Client::new(link, terminal, start.on_terminal, signals, screen.clone())?;
        let own = Own { argv: Rc::clone(&last), call: client.call() };
        let agent = match asked {
            Asked::Nobody => None,
            somebody => {
                Some(somebody.into_agent(&caller.invoking.name, &term, screen, own).map_err(step("use the terminal"))?)
            }
        };
        let also = Also { learner: arguments.learn.then(Learner::default), tells: arguments.service };
        let only_own = matches!(place, Place::Session(..));
        let mut events = EventPipe::new(events, copy, client.call(), only_own, also).map_err(step("read events"))?;
        let answering = async {
            if let (Some(registration), Some(agent)) = (registration, agent) {
                answer(service.connection(), registration, agent, &choice, &notes).await;
            }
        };
        let beside = async {
            tokio::join!(answering, events.read());
            std::future::pending::<()>().await;
        };
        let ended = tokio::select! {
            ended = client.run() => ended,
            () = beside => Err(ClientError::Gone),
        };
        Ok::<_, ServedError>((ended, events.finish().await))
    })?;
    terminal::restore();
    for note in notes.into_inner() {
        eprintln!("gated-run: note: {note}");
    }
    let Heard { denials, learner } = heard;
    for line in denials.lines() {
        eprintln!("{line}");
    }
    let status = exit::report(ended?, &last.borrow());
    if let Some(learner) = learner {
        learning.conclude(&learner)?;
    }
    Ok(status)
}

/// What a proposal is made with.
struct Learning<'a> {
    caller: &'a Caller,
    home: RawPath,
    directory: RawPath,
    arguments: &'a Arguments,
}

impl Learning<'_> {
    fn conclude(self, learner: &Learner) -> Result<(), LearnError> {
        let user = self.caller.tool.name.clone();
        let context = Context { home: self.home, user, cwd: self.directory };
        // Without a choice of the caller's it is the one that was taken.
        let taken = || ProfileSelector::Name(learner.profile.clone().unwrap_or_else(|| DEFAULT.to_owned()));
        let base = self.arguments.profile.clone().unwrap_or_else(taken);
        learning::conclude(Ending { learner, base, context, to: self.arguments.learn_to.as_deref() })
    }
}

fn tell_published(addresses: &[SocketAddr]) {
    for address in addresses {
        eprintln!("gated-run: {}", published(*address));
    }
}

/// The command to the daemon, and our end of its caller link. From now on the other end is the supervisor's alone.
async fn hand_over(
    service: &Service,
    order: &Order,
    place: &Place,
) -> Result<(std::sync::Arc<super::client::CallerLink>, Running), ServedError> {
    let (link, theirs) = order::caller_link()?;
    let [cwd, stdin, stdout, stderr] = order.files();
    let command = Command {
        argv: &order.start.command,
        environment: &order.start.environment,
        cwd,
        stdio: [stdin, stdout, stderr],
        link: theirs.as_fd(),
        umask: order.start.umask,
        ignored_signals: order.start.ignored_signals,
        on_terminal: order.start.on_terminal,
        window: order.start.window,
        passed: order.start.passed.iter().copied().zip(order.passed()).collect(),
    };
    let running = service.run(&command, place).await?;
    Ok((link, running))
}

/// Answers requests of the session here, until the bus or the terminal is gone. What goes wrong is no end of the command:
/// others can be asked. `notes` is for when the terminal is free again.
async fn answer(
    connection: &Connection,
    registration: Registration,
    mut agent: Box<dyn ConsentAgent>,
    choice: &Consent,
    notes: &RefCell<Vec<String>>,
) {
    let mut bus = match BusAgent::register(connection, registration).await {
        Ok(bus) => bus,
        Err(error) => {
            warn!(%error, "nobody is asked here");
            if *choice != Consent::Auto {
                notes.borrow_mut().push(format!("nobody was asked here: {error}"));
            }
            return;
        }
    };
    match drive(&mut bus, agent.as_mut()).await {
        Ok(()) => debug!("the bus is gone"),
        Err(error) => warn!(%error, "nobody is asked here any more"),
    }
}
