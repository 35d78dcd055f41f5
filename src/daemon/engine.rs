//! How supervisors come to be. The daemon asks an engine and never makes a tool's process itself. Runs as root.

use std::cell::RefCell;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Stdio;
use std::rc::Rc;
use std::time::Duration;

use tokio::process::Command;
use tracing::{debug, warn};
use zbus::Connection;

use super::agents::Local;
use super::link::Socket;
use super::rendezvous::Rendezvous;
use super::state::Kept;
use crate::common::id::SessionId;
use crate::common::procstat;

/// How long a supervisor may take from its unit's start to its greeting.
const PATIENCE: Duration = Duration::from_secs(20);

/// A supervisor that waits for its launch.
pub struct Started {
    pub socket: Socket,
    /// The systemd unit, where there is one.
    pub unit: Option<String>,
    /// The supervisor's pid and start time, where the daemon started it itself.
    pub process: Option<(i32, u64)>,
}

/// There is no supervisor.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error("cannot start gated-session: {0}")]
    Process(io::Error),
    #[error("the bus is gone")]
    NoBus,
    #[error("systemd: {0}")]
    Systemd(#[from] zbus::Error),
    #[error("systemd could not start {unit}: {result}")]
    Job { unit: String, result: String },
    #[error("{0} did not greet")]
    Silent(String),
}

/// Starts supervisors and ends them.
pub trait Engine {
    fn start<'a>(&'a self, session: &'a SessionId) -> Local<'a, Result<Started, EngineError>>;

    /// Kill whatever is left of a session; nothing, as a rule.
    fn kill<'a>(&'a self, kept: &'a Kept) -> Local<'a, ()>;

    /// A word for the features of the daemon.
    fn name(&self) -> &'static str;
}

/// Fork and execute, where PID 1 is not systemd.
pub struct Spawning {
    /// gated-session.
    pub program: PathBuf,
}

impl Engine for Spawning {
    fn start<'a>(&'a self, _session: &'a SessionId) -> Local<'a, Result<Started, EngineError>> {
        Box::pin(async move {
            let (ours, theirs) = UnixStream::pair().map_err(EngineError::Process)?;
            let mut child = Command::new(&self.program)
                .env_clear()
                .stdin(Stdio::from(OwnedFd::from(theirs)))
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .map_err(EngineError::Process)?;
            let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
            let process = pid.and_then(|pid| Some((pid, start_time(pid)?)));
            tokio::task::spawn_local(async move {
                // Taken in when it ends; its link tells what the daemon must know.
                let status = child.wait().await;
                debug!(?status, "a supervisor ended");
            });
            let socket = Socket::new(OwnedFd::from(ours)).map_err(EngineError::Process)?;
            Ok(Started { socket, unit: None, process })
        })
    }

    fn kill<'a>(&'a self, kept: &'a Kept) -> Local<'a, ()> {
        Box::pin(async move {
            let Some((pid, started)) = kept.process else { return };
            // The number may be another's by now: held by a descriptor first, compared then.
            let Some(pid) = rustix::process::Pid::from_raw(pid) else { return };
            let Ok(held) = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()) else { return };
            if start_time(pid.as_raw_nonzero().get()) == Some(started) {
                let _ = rustix::process::pidfd_send_signal(&held, rustix::process::Signal::KILL);
            }
        })
    }

    fn name(&self) -> &'static str {
        "spawned-supervisors"
    }
}

fn start_time(pid: i32) -> Option<u64> {
    let text = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    procstat::parse(&text).map(|stat| stat.started)
}

#[zbus::proxy(
    interface = "org.freedesktop.systemd1.Manager",
    default_service = "org.freedesktop.systemd1",
    default_path = "/org/freedesktop/systemd1"
)]
trait Systemd {
    fn subscribe(&self) -> zbus::Result<()>;
    fn start_unit(&self, name: &str, mode: &str) -> zbus::Result<zbus::OwnedObjectPath>;
    fn kill_unit(&self, name: &str, who: &str, signal: i32) -> zbus::Result<()>;
    fn stop_unit(&self, name: &str, mode: &str) -> zbus::Result<zbus::OwnedObjectPath>;
    #[zbus(signal)]
    fn job_removed(&self, id: u32, job: zbus::ObjectPath<'_>, unit: String, result: String) -> zbus::Result<()>;
    #[zbus(signal)]
    fn unit_removed(&self, id: String, unit: zbus::ObjectPath<'_>) -> zbus::Result<()>;
}

/// Units of systemd, so that admins limit sessions with drop-ins.
pub struct Units {
    bus: Rc<RefCell<Option<Connection>>>,
    rendezvous: Rc<Rendezvous>,
}

impl Units {
    /// `bus` is the daemon's connection, whenever it has one.
    pub fn new(bus: Rc<RefCell<Option<Connection>>>, rendezvous: Rc<Rendezvous>) -> Units {
        Units { bus, rendezvous }
    }

    async fn systemd(&self) -> Result<SystemdProxy<'static>, EngineError> {
        let bus = self.bus.borrow().clone().ok_or(EngineError::NoBus)?;
        Ok(SystemdProxy::builder(&bus).cache_properties(zbus::proxy::CacheProperties::No).build().await?)
    }
}

/// The unit of a session, whose template is `systemd/gated-session@.service`.
pub fn unit_of(session: &SessionId) -> String {
    format!("gated-session@{session}.service")
}

impl Engine for Units {
    fn start<'a>(&'a self, session: &'a SessionId) -> Local<'a, Result<Started, EngineError>> {
        Box::pin(async move {
            use futures_util::StreamExt;
            let unit = unit_of(session);
            let mut waiting = self.rendezvous.expect(session.clone(), None);
            let systemd = self.systemd().await?;
            // Without it systemd tells nobody about its jobs; a second time it is an error that means nothing.
            let _ = systemd.subscribe().await;
            let mut removed = systemd.receive_job_removed().await?;
            let mut gone = systemd.receive_unit_removed().await?;
            let job = systemd.start_unit(&unit, "fail").await?;
            let failed = async {
                while let Some(signal) = removed.next().await {
                    let Ok(end) = signal.args() else { continue };
                    if end.job.as_str() == job.as_str() && end.result != "done" {
                        return end.result;
                    }
                }
                "the bus is gone".to_owned()
            };
            let ended = async {
                while let Some(signal) = gone.next().await {
                    if signal.args().is_ok_and(|end| end.id == unit) {
                        return;
                    }
                }
                std::future::pending::<()>().await;
            };
            tokio::select! {
                arrived = waiting.arrived() => match arrived {
                    Some(arrived) => Ok(Started { socket: arrived.socket, unit: Some(unit), process: None }),
                    None => Err(EngineError::Silent(unit)),
                },
                result = failed => Err(EngineError::Job { unit, result }),
                // It has ended and was collected; the journal has its last words.
                () = ended => Err(EngineError::Silent(unit)),
                () = tokio::time::sleep(PATIENCE) => {
                    self.end(&unit).await;
                    Err(EngineError::Silent(unit))
                }
            }
        })
    }

    fn kill<'a>(&'a self, kept: &'a Kept) -> Local<'a, ()> {
        Box::pin(async move {
            if let Some(unit) = &kept.unit {
                self.end(unit).await;
            }
        })
    }

    fn name(&self) -> &'static str {
        "systemd-units"
    }
}

impl Units {
    /// Kill everything in the unit's cgroup, and let systemd forget it. A unit that is gone is what was wanted.
    async fn end(&self, unit: &str) {
        let Ok(systemd) = self.systemd().await else { return };
        let killed = systemd.kill_unit(unit, "all", rustix::process::Signal::KILL.as_raw()).await;
        let stopped = systemd.stop_unit(unit, "replace").await.map(drop);
        for result in [killed, stopped] {
            match result {
                Err(zbus::Error::MethodError(name, _, _)) if name.as_str().ends_with(".NoSuchUnit") => {}
                Err(error) => warn!(unit, %error, "cannot end a unit"),
                Ok(()) => {}
            }
        }
    }
}
