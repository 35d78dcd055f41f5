//! `gated-notify --webhook` from start to end: one bridge, one registration on the system bus, looked for again when it goes.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tracing::{error, info, warn};
use zbus::connection;

use crate::common::bus::INSIDE_SOCKET;
use crate::consent::bus::{Asked, BusAgent, BusError, Registration};

use super::config::{ADMIN, ConfigError, OWN, Places, Settings};
use super::{Bridge, WebhookError};

/// How long after a failure to try again.
const PAUSE: Duration = Duration::from_secs(2);
/// The longest that the bus or the daemon may take for a call.
const CALL: Duration = Duration::from_secs(10);

/// Why it does not run.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    /// Root would be asked about everybody's sessions, and has no need to.
    #[error("gated-notify is for a person; it does not run as root")]
    Root,
    #[error("gated-notify does not run inside a session: whoever asks there cannot answer")]
    Inside,
    #[error("there is no home directory")]
    NoHome,
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Webhook(#[from] WebhookError),
    #[error("gated-notify cannot start: {0}")]
    System(#[from] io::Error),
}

/// With tracing started.
pub fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(refusal) => {
            error!("{refusal}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Refusal> {
    let uid = rustix::process::geteuid();
    if uid.is_root() {
        return Err(Refusal::Root);
    }
    // The daemon refuses it too, and does not rely on this.
    if Path::new(INSIDE_SOCKET).exists() {
        return Err(Refusal::Inside);
    }
    let home = std::env::home_dir().filter(|home| home.is_absolute()).ok_or(Refusal::NoHome)?;
    let places = Places { own: home.join(OWN), uid: uid.as_raw(), admin: PathBuf::from(ADMIN), admin_uid: 0 };
    let settings = Settings::read(&places)?;
    let host = nix::unistd::gethostname().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    info!(to = settings.url.shown, mode = ?settings.mode, "requests go to a bridge");
    let mut bridge = Bridge::new(settings, host)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let served = runtime.block_on(serve(&mut bridge));
    // A bridge that still holds a request need not be waited for.
    runtime.shutdown_background();
    Ok(served?)
}

async fn serve(bridge: &mut Bridge) -> io::Result<()> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let (asked, mut arrivals) = mpsc::unbounded_channel();
    let asking = async move {
        tokio::select! {
            () = ask(asked) => {}
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        // With the registration goes the sender, and with that the bridge.
    };
    tokio::join!(asking, bridge.run(&mut arrivals));
    Ok(())
}

/// Is registered with the daemon and hands requests on, on one connection after the other.
async fn ask(asked: mpsc::UnboundedSender<Asked>) {
    while !asked.is_closed() {
        if let Err(error) = registered(&asked).await {
            warn!(%error, "no requests from gatedd");
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Until the connection is lost.
async fn registered(asked: &mpsc::UnboundedSender<Asked>) -> Result<(), BusError> {
    let connection = connection::Builder::system().method_timeout(CALL).build().await?;
    let mut agent = BusAgent::register(&connection, Registration { kind: "webhook", session: None }).await?;
    info!("a consent agent from now on");
    while let Some(next) = agent.next().await {
        if asked.send(next).is_err() {
            return Ok(());
        }
    }
    warn!("the system bus is gone");
    Ok(())
}
