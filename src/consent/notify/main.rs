//! `gated-notify` from start to end: one desktop on the session bus, one registration on the system bus, each looked for
//! again when it goes. With `--webhook` it is another consent agent, which begins in [`crate::consent::webhook`].

use std::convert::Infallible;
use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tracing::{debug, error, info, warn};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use zbus::{Connection, connection};

use crate::common::bus::INSIDE_SOCKET;
use crate::common::notice::{Kind, Notice};
use crate::common::path::RawPath;
use crate::consent::bus::{Asked, BusAgent, Registration};
use crate::consent::told::{self, Told};

use super::Notifier;
use super::draw::Person;
use super::queue::Limits;
use super::server::Desktop;
use super::telling::Pace;

/// How long after a failure to try again.
const PAUSE: Duration = Duration::from_secs(2);
/// How long a server may be away, as when it is restarted, before the daemon is told not to ask here.
const AWAY: Duration = Duration::from_secs(5);
/// The longest that the bus or the daemon may take for a call.
const CALL: Duration = Duration::from_secs(10);
/// Things that were done and wait to be told.
const BACKLOG: usize = 64;

/// Show requests of gated sessions as desktop notifications and bring the answers back. Started with the desktop
#[derive(Debug, Parser)]
#[command(name = "gated-notify", version)]
pub struct Arguments {
    /// Put them to the URL of ~/.config/gated/webhook.toml instead, for a chat bot or a phone
    #[arg(long)]
    pub webhook: bool,
}

/// Where goes what nobody is asked about.
struct Telling {
    tell: mpsc::Sender<Told>,
    hear: mpsc::Sender<Notice>,
}

pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    start_tracing();
    if arguments.webhook {
        return crate::consent::webhook::main();
    }
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(refusal) => {
            error!("{refusal}");
            ExitCode::FAILURE
        }
    }
}

/// Why the notifier does not run.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    /// Root would be asked about everybody's sessions, and has no need to.
    #[error("gated-notify is for the person at a desktop; it does not run as root")]
    Root,
    #[error("gated-notify does not run inside a session: whoever asks there cannot answer")]
    Inside,
    #[error("gated-notify cannot start: {0}")]
    System(#[from] io::Error),
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
    let home = std::env::home_dir().and_then(|home| home.canonicalize().ok()).map(RawPath::from);
    let person = Person { uid: uid.as_raw(), home };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(serve(person))?;
    Ok(())
}

/// To the journal where stderr is one, as of a user service; else to stderr.
fn start_tracing() {
    let journal = std::env::var_os("JOURNAL_STREAM").and_then(|_| tracing_journald::layer().ok());
    let registry = tracing_subscriber::registry().with(LevelFilter::INFO);
    match journal {
        Some(journal) => registry.with(journal.with_field_prefix(None)).init(),
        None => {
            let plain = tracing_subscriber::fmt::layer().with_writer(io::stderr).with_ansi(false).with_target(false);
            registry.with(plain).init();
        }
    }
}

async fn serve(person: Person) -> io::Result<()> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let (asked, mut arrivals) = mpsc::unbounded_channel();
    let (able, is_able) = watch::channel(false);
    let (tell, told) = mpsc::channel(BACKLOG);
    let (hear, heard) = mpsc::channel(BACKLOG);
    let notifier = Notifier::new(Desktop::new(), person, Limits::default(), able);
    let mut notifier = notifier.telling(told, Pace::default()).hearing(heard);
    let asking = async move {
        tokio::select! {
            () = ask(asked, is_able, Telling { tell, hear }) => {}
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        // With the registration goes the sender, and with that the notifier.
    };
    tokio::join!(asking, notifier.run(&mut arrivals));
    Ok(())
}

/// Is registered with the daemon whenever requests can be shown, and hands them on.
async fn ask(asked: mpsc::UnboundedSender<Asked>, mut able: watch::Receiver<bool>, telling: Telling) {
    loop {
        if able.wait_for(|able| *able).await.is_err() {
            return;
        }
        match registered(&asked, &mut able, &telling).await {
            Ok(()) => {}
            Err(error) => warn!(%error, "no requests from gatedd"),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Until the connection is lost or there is nothing to show requests by.
async fn registered(
    asked: &mpsc::UnboundedSender<Asked>,
    able: &mut watch::Receiver<bool>,
    telling: &Telling,
) -> Result<(), crate::consent::bus::BusError> {
    let connection = connection::Builder::system().method_timeout(CALL).build().await?;
    let mut agent = BusAgent::register(&connection, Registration { kind: "desktop", session: None }).await?;
    info!("a consent agent from now on");
    let notices = agent.take_notices();
    let mut told = std::pin::pin!(tell_always(&connection, &telling.tell));
    let mut heard = std::pin::pin!(hear_always(notices, &telling.hear));
    loop {
        tokio::select! {
            next = agent.next() => match next {
                Some(next) => {
                    if asked.send(next).is_err() {
                        return Ok(());
                    }
                }
                None => {
                    warn!("the system bus is gone");
                    return Ok(());
                }
            },
            never = &mut told => match never {},
            never = &mut heard => match never {},
            () = unable(able) => {
                warn!("nothing to show requests by; they are left to gatedctl");
                agent.unregister().await;
                return Ok(());
            }
        }
    }
}

/// Hands on what the daemon has to say. What rules of level `notify` let happen is told by [`tell_always`], with more to it.
async fn hear_always(notices: Option<mpsc::Receiver<Notice>>, hear: &mpsc::Sender<Notice>) -> Infallible {
    if let Some(mut notices) = notices {
        while let Some(notice) = notices.recv().await {
            if notice.kind != Kind::Notify && hear.try_send(notice).is_err() {
                debug!("more is to be said than can be shown");
            }
        }
    }
    std::future::pending().await
}

/// Follows what is done without a question, of one daemon after the other.
async fn tell_always(connection: &Connection, tell: &mpsc::Sender<Told>) -> Infallible {
    loop {
        match told::follow(connection, tell).await {
            Ok(()) => debug!("gatedd tells no more"),
            Err(error) => debug!(%error, "what is done is not told here"),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Waits until requests can no longer be shown, and not soon again either.
async fn unable(able: &mut watch::Receiver<bool>) {
    loop {
        if able.wait_for(|able| !able).await.is_err() {
            return;
        }
        match tokio::time::timeout(AWAY, able.wait_for(|able| *able)).await {
            Ok(Ok(_)) => {}
            Ok(Err(_)) | Err(_) => return,
        }
    }
}
