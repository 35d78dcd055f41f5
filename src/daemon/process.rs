//! `gatedd`: the root daemon. Reads policy, finds the sessions of the daemon before it, owns its name on the system bus, and
//! serves until it is told to end; sessions live on without it.

use std::cell::RefCell;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use sd_notify::NotifyState;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::LocalSet;
use tracing::{error, info, warn};
use zbus::Connection;

use super::agents::NOBODY_YET;
use super::audit::{self, AuditError, AuditLog, Journal, JournaledLog};
use super::bus::agent::release;
use super::bus::service::{self, ServiceError};
use super::core::{Core, Setting};
use super::engine::{Engine, Spawning, Units};
use super::install::Machine;
use super::log;
use super::message;
use super::metrics;
use super::policyfiles::Snapshot;
use super::rendezvous::{self, Rendezvous};
use super::state::{Shelf, StateError};
use super::store::{Store, StoreError};
use crate::common::path::RawPath;
use crate::policy::{PolicyError, ceiling};

/// How long the start waits for supervisors of the daemon before; they retry every 100 ms.
const ADOPTION: Duration = Duration::from_secs(2);

/// Between attempts to reach a bus that is gone.
const RETRY: Duration = Duration::from_millis(200);

/// The daemon behind gated-run: starts sessions, asks for consent over D-Bus, keeps the records. Started by systemd.
#[derive(Debug, Parser)]
#[command(name = "gatedd", version)]
pub struct Arguments {
    /// Where state lives until the next boot, and the socket for supervisors
    #[arg(long, value_name = "DIRECTORY", default_value = "/run/gated")]
    pub runtime: PathBuf,

    /// The audit log
    #[arg(long, value_name = "FILE", default_value = audit::DEFAULT_PATH)]
    pub audit: PathBuf,

    /// Below which /etc/gated, /run/gated and /usr/lib/gated are read
    #[arg(long, value_name = "DIRECTORY", default_value = "/")]
    pub policy_root: PathBuf,

    /// Where answers are kept that outlive their sessions
    #[arg(long, value_name = "DIRECTORY", default_value = "/var/lib/gated")]
    pub state: PathBuf,

    /// A file for monitoring to which what happens is counted (OpenMetrics), every 15 seconds
    #[arg(long, value_name = "FILE")]
    pub metrics: Option<PathBuf>,

    /// Who starts supervisors
    #[arg(long, value_name = "WHO", value_enum, default_value_t = Supervisors::Auto)]
    pub supervisors: Supervisors,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Supervisors {
    /// systemd where it is PID 1, else this daemon
    Auto,
    /// systemd, as units gated-session@ID.service
    Systemd,
    /// This daemon
    Spawn,
}

/// Why the daemon cannot be.
#[derive(Debug, thiserror::Error)]
enum DaemonError {
    #[error("must be started as root")]
    NotRoot,
    #[error("cannot {what}: {source}")]
    Step { what: &'static str, source: std::io::Error },
    #[error(transparent)]
    Policy(#[from] PolicyError),
    #[error(transparent)]
    State(#[from] StateError),
    #[error("the store of lasting answers: {0}")]
    Store(#[from] StoreError),
    #[error(transparent)]
    Audit(#[from] AuditError),
    #[error(transparent)]
    Service(#[from] ServiceError),
    #[error("cannot take over the sessions of the daemon before: {0}")]
    Adoption(super::orders::Refusal),
}

fn step(what: &'static str) -> impl FnOnce(std::io::Error) -> DaemonError {
    move |source| DaemonError::Step { what, source }
}

/// The process `gatedd`.
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    log::start();
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            error!(%error, "cannot start the runtime");
            return ExitCode::FAILURE;
        }
    };
    match LocalSet::new().block_on(&runtime, run(arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            error!(%error, "gatedd cannot go on");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> Result<(), DaemonError> {
    if !nix::unistd::geteuid().is_root() {
        return Err(DaemonError::NotRoot);
    }
    // For the audit log, which its group may read; everything else is made with a mode of its own.
    nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o027));
    std::fs::create_dir_all(&arguments.runtime).map_err(step("make the runtime directory"))?;
    // Supervisors, which are their users by then, connect to a socket in it.
    let passable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&arguments.runtime, passable).map_err(step("open the runtime directory"))?;
    let shelf = Shelf::open(&arguments.runtime.join("sessions"))?;
    let socket = arguments.runtime.join("supervisors.sock");
    let rendezvous = Rc::new(Rendezvous::default());
    let bus = Rc::new(RefCell::new(None));
    let uses_systemd = match arguments.supervisors {
        Supervisors::Auto => sd_notify::booted().unwrap_or(false),
        Supervisors::Systemd => true,
        Supervisors::Spawn => false,
    };
    let engine: Rc<dyn Engine> = if uses_systemd {
        Rc::new(Units::new(Rc::clone(&bus), Rc::clone(&rendezvous)))
    } else {
        Rc::new(Spawning { program: supervisor()? })
    };
    let features = vec![engine.name().to_owned(), "audit".to_owned()];
    let policy_root = arguments.policy_root.clone();
    let journal = Journal::at(Path::new(audit::SOCKET)).map_err(step("make a socket for the journal"))?;
    let core = Core::new(Setting {
        engine,
        rendezvous: Rc::clone(&rendezvous),
        audit: Arc::new(JournaledLog { log: AuditLog::open(&arguments.audit)?, journal }),
        shelf,
        store: Store::open(&arguments.state)?,
        socket: socket.clone(),
        nobody_yet: NOBODY_YET,
        own: own_files(&arguments),
        machine: Machine { root: arguments.policy_root.clone(), owner: 0 },
        read_policy: Box::new(move || Snapshot::read(&policy_root, 0)),
    })?;

    let terminated = termination().map_err(step("listen to signals"))?;
    let listener = rendezvous::bind(&socket).map_err(step("bind the socket for supervisors"))?;
    tokio::task::spawn_local(rendezvous.serve(listener));
    tokio::task::spawn_local(reload_on_hangup(Rc::clone(&core)).map_err(step("listen to signals"))?);
    tokio::task::spawn_local(feed_watchdog());
    let attended = Rc::clone(&core);
    tokio::task::spawn_local(async move { attended.setting.store.attend().await });
    if let Some(file) = arguments.metrics {
        tokio::task::spawn_local(metrics::keep(Rc::clone(&core), file));
    }

    // With a bus first: an engine may need it for a session that is lost.
    let connection = connect().await?;
    *bus.borrow_mut() = Some(connection.clone());
    core.adopt(ADOPTION).await.map_err(DaemonError::Adoption)?;
    tokio::select! {
        ended = stay_on_the_bus(connection, &bus, &core, features) => ended?,
        () = terminated => {}
    }
    let connection = bus.borrow().clone();
    notify(&[NotifyState::Stopping]);
    if let Err(error) = core.setting.store.write_uses().await {
        warn!(%error, "uses and answers are not counted on the disk");
    }
    info!("gatedd ends; sessions live on");
    if let Some(connection) = connection {
        release(&connection, &core.agents.senders()).await;
    }
    Ok(())
}

/// Serve one connection to the bus after the other.
async fn stay_on_the_bus(
    mut connection: Connection,
    current: &Rc<RefCell<Option<Connection>>>,
    core: &Rc<Core>,
    features: Vec<String>,
) -> Result<(), DaemonError> {
    let ready = || {
        notify(&[NotifyState::Ready]);
        info!(MESSAGE_ID = message::DAEMON_STARTED, sessions = core.sessions.borrow().len(), "gatedd is ready");
    };
    // The first time an error is final: a daemon that cannot have its name is of no use.
    service::attend(&connection, core, features.clone(), ready).await?;
    loop {
        *current.borrow_mut() = None;
        core.agents.clear();
        warn!("the bus is gone; looking for it");
        loop {
            tokio::time::sleep(RETRY).await;
            if let Ok(new) = connect().await {
                connection = new;
                break;
            }
        }
        *current.borrow_mut() = Some(connection.clone());
        if let Err(error) = service::attend(&connection, core, features.clone(), || info!("on the bus again")).await {
            warn!(%error, "not on the bus yet");
        }
    }
}

async fn connect() -> Result<Connection, ServiceError> {
    Ok(zbus::connection::Builder::system().build().await?)
}

/// gated-session, installed beside this program.
fn supervisor() -> Result<PathBuf, DaemonError> {
    let own = std::env::current_exe().map_err(step("find this program"))?;
    Ok(own.with_file_name("gated-session"))
}

/// What no session may change, whatever its policy says.
fn own_files(arguments: &Arguments) -> Vec<RawPath> {
    let own = std::env::current_exe().unwrap_or_default();
    let programs =
        ["gatedd", "gated-session", "gated-notify", "gated-run", "gatedctl"].map(|name| own.with_file_name(name));
    let records = arguments.audit.parent().map(Path::to_path_buf);
    let policy = ceiling::FOLDERS.map(|folder| arguments.policy_root.join(folder.trim_start_matches('/')));
    let all =
        programs.into_iter().chain([arguments.runtime.clone(), arguments.state.clone()]).chain(records).chain(policy);
    all.filter_map(|path| std::fs::canonicalize(path).ok()).map(RawPath::from).collect()
}

fn termination() -> std::io::Result<impl Future<Output = ()>> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

fn reload_on_hangup(core: Rc<Core>) -> std::io::Result<impl Future<Output = ()>> {
    let mut hangup = signal(SignalKind::hangup())?;
    Ok(async move {
        while hangup.recv().await.is_some() {
            // What is wrong is in the log.
            let _ = core.reread().await;
        }
    })
}

/// From the loop that serves everything, so that systemd learns if it stands still.
async fn feed_watchdog() {
    let Some(period) = sd_notify::watchdog_enabled() else { return };
    let mut ticks = tokio::time::interval(period / 2);
    loop {
        ticks.tick().await;
        notify(&[NotifyState::Watchdog]);
    }
}

fn notify(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        warn!(%error, "systemd cannot be told");
    }
}
