//! The notification server of a desktop: `org.freedesktop.Notifications` on the session bus, through one lasting connection.
//! Runs in the notifier, as the person at the desktop. Any program of that person can send signals that look like the
//! server's: a signal is only taken from the very connection that took the notification, and for an id that it gave.
//!
//! Follows the Desktop Notifications Specification, version 1.2.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use tracing::{info, warn};
use zbus::fdo::{DBusProxy, RequestNameFlags, RequestNameReply};
use zbus::message::Type;
use zbus::names::OwnedUniqueName;
use zbus::{Connection, MatchRule, Message, MessageStream, Variant, connection};

use super::draw::{Capabilities, Drawing};
use super::lock::Lock;
use super::{Button, Closing, Mark, News, Server, ServerError, Stay};

const NAME: &str = "org.freedesktop.Notifications";
const PATH: &str = "/org/freedesktop/Notifications";
/// What the notifier that serves this bus owns; a second one waits until the first is gone.
const OWN_NAME: &str = "org.gated.Gated1.Notify";
const BUS: &str = "org.freedesktop.DBus";

/// Values of the hint `urgency`.
const LOW: u8 = 0;
const NORMAL: u8 = 1;
const CRITICAL: u8 = 2;

/// The longest that a call of the server, or of the bus, may take. One that takes longer is of no use to ask by.
const CALL: Duration = Duration::from_secs(5);
/// How long after a failure to look again.
const PAUSE: Duration = Duration::from_secs(2);
/// How long a desktop has to bring its own server before one that the bus can start is started: it may be another's.
const GRACE: Duration = Duration::from_secs(10);
/// Signals that wait to be read; what a program of the person's sends beyond it is lost.
const BACKLOG: usize = 1024;

/// The server that is there now.
#[derive(Clone)]
struct Current {
    connection: Connection,
    owner: OwnedUniqueName,
    capabilities: Capabilities,
}

/// What the watching task reports.
enum Report {
    Bus(Connection),
    Server(Current),
    NoServer,
    Invoked(Mark, String),
    Closed(Mark, u32),
    Screen,
}

/// Whatever server there is on the session bus; looks for the bus and the server again when either goes.
pub struct Desktop {
    reports: mpsc::Receiver<(Instant, Report)>,
    server: Option<Current>,
    lock: Lock,
    /// Makes the task ask the server again whether it is well.
    doubt: Arc<Notify>,
    /// Ends when this is dropped.
    _task: JoinSet<()>,
}

impl Desktop {
    /// Needs a tokio runtime. The first [`News::Server`] comes when there is one.
    pub fn new() -> Desktop {
        let (sender, reports) = mpsc::channel(BACKLOG);
        let doubt = Arc::new(Notify::new());
        let mut task = JoinSet::new();
        task.spawn(watch(sender, Arc::clone(&doubt)));
        Desktop { reports, server: None, lock: Lock::default(), doubt, _task: task }
    }

    fn failed(&mut self, what: &str, error: &zbus::Error) {
        warn!(%error, "the notification server does not {what}");
        self.server = None;
        self.doubt.notify_one();
    }
}

impl Default for Desktop {
    fn default() -> Desktop {
        Desktop::new()
    }
}

impl Server for Desktop {
    fn capabilities(&self) -> Option<Capabilities> {
        self.server.as_ref().map(|server| server.capabilities)
    }

    async fn show(&mut self, drawing: &Drawing, buttons: &[Button], stay: Stay) -> Result<Mark, ServerError> {
        let Some(server) = self.server.clone() else { return Err(ServerError::None) };
        // Of times, 0 is never, and -1 as the server thinks best.
        let (urgency, expires) = match stay {
            Stay::UntilClosed => (CRITICAL, 0),
            Stay::For(time) => (CRITICAL, i32::try_from(time.as_millis()).unwrap_or(i32::MAX).max(1)),
            Stay::AsUsual => (NORMAL, -1),
            Stay::InPassing => (LOW, -1),
        };
        let actions: Vec<&str> = buttons.iter().flat_map(|button| [button.key.as_str(), button.label]).collect();
        let hints: HashMap<&str, Variant<'_>> = HashMap::from([("urgency", Variant::U8(urgency))]);
        let icon = if urgency == LOW { "dialog-information" } else { "dialog-password" };
        let body = ("gated", 0u32, icon, drawing.summary.as_str(), drawing.body.as_str(), actions, hints, expires);
        let called =
            server.connection.call_method(Some(server.owner.as_str()), PATH, Some(NAME), "Notify", &body).await;
        match called.and_then(|reply| reply.body().deserialize::<u32>()) {
            // No id that the specification has: it cannot be closed, and its buttons name nothing.
            Ok(0) => Err(ServerError::Refused("it gives no id".to_owned())),
            Ok(id) => Ok(Mark { owner: server.owner.as_str().to_owned(), id }),
            Err(zbus::Error::MethodError(name, text, _)) => {
                Err(ServerError::Refused(format!("{name}: {}", text.unwrap_or_default())))
            }
            Err(error) => {
                self.failed("show anything", &error);
                Err(ServerError::None)
            }
        }
    }

    async fn close(&mut self, mark: &Mark) {
        let Some(server) = self.server.clone().filter(|server| server.owner.as_str() == mark.owner) else { return };
        let owner = Some(server.owner.as_str());
        let called = server.connection.call_method(owner, PATH, Some(NAME), "CloseNotification", &mark.id).await;
        match called {
            // Servers say so of a notification that is not there any more.
            Ok(_) | Err(zbus::Error::MethodError(..) | zbus::Error::FDO(_)) => {}
            Err(error) => self.failed("close anything", &error),
        }
    }

    async fn news(&mut self) -> (Instant, News) {
        let Some((time, report)) = self.reports.recv().await else { return std::future::pending().await };
        let news = match report {
            Report::Bus(connection) => {
                self.lock.session = Some(connection);
                News::Screen
            }
            Report::Server(server) => {
                let capabilities = server.capabilities;
                self.server = Some(server);
                News::Server(capabilities)
            }
            Report::NoServer => {
                self.server = None;
                News::NoServer
            }
            Report::Invoked(mark, key) => News::Invoked(mark, key),
            Report::Closed(mark, reason) => {
                News::Closed(mark, if reason == 2 { Closing::ByPerson } else { Closing::ByServer })
            }
            Report::Screen => News::Screen,
        };
        (time, news)
    }

    async fn is_locked(&mut self) -> bool {
        self.lock.is_locked().await
    }
}

/// Reports on one session bus after the other, for ever.
async fn watch(sender: mpsc::Sender<(Instant, Report)>, doubt: Arc<Notify>) {
    let mut told = false;
    loop {
        match watch_bus(&sender, &doubt).await {
            Ok(()) => told = false,
            Err(error) if !told => {
                warn!(%error, "no session bus");
                told = true;
            }
            Err(_) => {}
        }
        if sender.send((Instant::now(), Report::NoServer)).await.is_err() {
            return;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// The signals that matter, subscribed to before anything is looked up.
struct Signals {
    server: MessageStream,
    owners: MessageStream,
    screens: MessageStream,
}

impl Signals {
    async fn of(connection: &Connection) -> zbus::Result<Signals> {
        let backlog = NonZeroUsize::new(BACKLOG);
        let signals = || MatchRule::builder().msg_type(Type::Signal);
        let server = signals().interface(NAME).path(PATH).build()?;
        let owners = signals().sender(BUS).interface(BUS).member("NameOwnerChanged").arg(0, NAME).build()?;
        let screens = signals().member("ActiveChanged").build()?;
        Ok(Signals {
            server: MessageStream::for_match_rule(server, connection, backlog).await?,
            owners: MessageStream::for_match_rule(owners, connection, backlog).await?,
            screens: MessageStream::for_match_rule(screens, connection, backlog).await?,
        })
    }
}

/// Until the connection is lost.
async fn watch_bus(sender: &mpsc::Sender<(Instant, Report)>, doubt: &Notify) -> zbus::Result<()> {
    let connection = connection::Builder::session().method_timeout(CALL).build().await?;
    if !alone(&connection).await? {
        return Ok(());
    }
    let mut signals = Signals::of(&connection).await?;
    let bus = DBusProxy::new(&connection).await?;
    // A full queue loses what a program of the person's floods it with, rather than growing.
    let report = |report: Report| {
        if sender.try_send((Instant::now(), report)).is_err() {
            warn!("signals come faster than they can be read; one is lost");
        }
    };
    let _ = sender.send((Instant::now(), Report::Bus(connection.clone()))).await;
    let mut owner = bus.get_name_owner(NAME.try_into()?).await.ok();
    let mut look = true;
    let mut again_at = tokio::time::Instant::now() + GRACE;
    let mut served = false;
    loop {
        if look {
            look = false;
            let found = match &owner {
                Some(owner) => capabilities(&connection, owner).await,
                None => None,
            };
            served = found.is_some();
            match found {
                Some(current) => {
                    info!(owner = current.owner.as_str(), capabilities = ?current.capabilities, "notification server");
                    let _ = sender.send((Instant::now(), Report::Server(current))).await;
                }
                None => {
                    info!("no notification server; requests are left to gatedctl");
                    let _ = sender.send((Instant::now(), Report::NoServer)).await;
                    again_at = tokio::time::Instant::now() + GRACE;
                }
            }
        }
        tokio::select! {
            biased;
            () = connection.closed() => return Ok(()),
            signal = signals.owners.next() => {
                let Some(signal) = signal else { return Ok(()) };
                if let Some(new) = new_owner(&signal?) && new != owner {
                    owner = new;
                    look = true;
                }
            }
            signal = signals.server.next() => {
                let Some(signal) = signal else { return Ok(()) };
                let signal = signal?;
                let header = signal.header();
                // Anybody on the bus can send it; the server's own connection is the one that counts.
                let from = owner.as_ref().filter(|own| header.sender().is_some_and(|from| from.as_str() == own.as_str()));
                if let Some(from) = from && let Some(read) = read(&signal, from) {
                    report(read);
                }
            }
            signal = signals.screens.next() => {
                if signal.is_none() { return Ok(()) }
                // Whoever says so: it is only a reason to look.
                report(Report::Screen);
            }
            () = doubt.notified() => {
                let _ = sender.send((Instant::now(), Report::NoServer)).await;
                tokio::time::sleep(PAUSE).await;
                look = true;
            }
            () = tokio::time::sleep_until(again_at), if !served => {
                again_at = tokio::time::Instant::now() + GRACE;
                match owner {
                    Some(_) => look = true,
                    None => start(&bus).await,
                }
            }
        }
    }
}

/// Waits until this is the only notifier of the bus, so that nobody is asked twice; `false` if the connection is lost.
async fn alone(connection: &Connection) -> zbus::Result<bool> {
    let acquired = MatchRule::builder().msg_type(Type::Signal).sender(BUS).interface(BUS).member("NameAcquired");
    let mut acquired = MessageStream::for_match_rule(acquired.arg(0, OWN_NAME).build()?, connection, None).await?;
    if connection.request_name_with_flags(OWN_NAME, RequestNameFlags::empty()).await? != RequestNameReply::InQueue {
        return Ok(true);
    }
    info!("another gated-notify serves this desktop; waiting for its end");
    loop {
        tokio::select! {
            () = connection.closed() => return Ok(false),
            signal = acquired.next() => {
                let Some(signal) = signal else { return Ok(false) };
                if signal?.header().sender().is_some_and(|sender| sender.as_str() == BUS) {
                    return Ok(true);
                }
            }
        }
    }
}

/// Has the bus start a server, if it can.
async fn start(bus: &DBusProxy<'_>) {
    let Ok(names) = bus.list_activatable_names().await else { return };
    if !names.iter().any(|name| name.as_str() == NAME) {
        return;
    }
    let Ok(name) = NAME.try_into() else { return };
    if let Err(error) = bus.start_service_by_name(name, 0).await {
        warn!(%error, "the bus does not start a notification server");
    }
}

async fn capabilities(connection: &Connection, owner: &OwnedUniqueName) -> Option<Current> {
    let asked = connection.call_method(Some(owner.as_str()), PATH, Some(NAME), "GetCapabilities", &()).await;
    match asked.and_then(|reply| reply.body().deserialize::<Vec<String>>()) {
        Ok(words) => Some(Current {
            connection: connection.clone(),
            owner: owner.clone(),
            capabilities: Capabilities::from_words(&words),
        }),
        Err(error) => {
            warn!(%error, "the notification server does not say what it can do");
            None
        }
    }
}

/// The owner that a `NameOwnerChanged` of the bus itself names; `None` if it is none.
fn new_owner(signal: &Message) -> Option<Option<OwnedUniqueName>> {
    if signal.header().sender()?.as_str() != BUS {
        return None;
    }
    let body = signal.body();
    let (name, _, new): (&str, &str, &str) = body.deserialize().ok()?;
    (name == NAME).then(|| OwnedUniqueName::try_from(new.to_owned()).ok())
}

fn read(signal: &Message, owner: &OwnedUniqueName) -> Option<Report> {
    let mark = |id| Mark { owner: owner.as_str().to_owned(), id };
    let header = signal.header();
    let body = signal.body();
    match header.member()?.as_str() {
        "ActionInvoked" => {
            let (id, key): (u32, String) = body.deserialize().ok()?;
            Some(Report::Invoked(mark(id), key))
        }
        "NotificationClosed" => {
            let (id, reason): (u32, u32) = body.deserialize().ok()?;
            Some(Report::Closed(mark(id), reason))
        }
        // Such as ActivationToken: no window is opened here.
        _ => None,
    }
}
