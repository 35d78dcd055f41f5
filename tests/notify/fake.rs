//! A notification server that the test plays, to see every call and to send what no real one would.

use std::collections::HashMap;

use tokio::sync::mpsc;
use zbus::message::Header;
use zbus::{Connection, OwnedVariant, Variant, interface};

use crate::bus::PrivateBus;
use crate::desk::{connect, within};

const NAME: &str = "org.freedesktop.Notifications";
const PATH: &str = "/org/freedesktop/Notifications";

/// A call of `Notify`.
#[derive(Debug)]
pub struct Shown {
    pub id: u32,
    /// The connection that called.
    pub caller: String,
    pub replaces: u32,
    pub summary: String,
    pub body: String,
    /// Key and label of each.
    pub actions: Vec<(String, String)>,
    pub urgency: u8,
    pub expires: i32,
}

impl Shown {
    pub fn labels(&self) -> Vec<&str> {
        self.actions.iter().map(|(_, label)| label.as_str()).collect()
    }

    pub fn key(&self, label: &str) -> &str {
        let found = self.actions.iter().find(|(_, own)| own == label);
        &found.unwrap_or_else(|| panic!("no {label} in {self:?}")).0
    }
}

#[derive(Debug)]
pub enum Call {
    Notify(Shown),
    Close(u32),
}

struct Notifications {
    calls: mpsc::UnboundedSender<Call>,
    capabilities: Vec<String>,
    last: u32,
}

#[interface(name = "org.freedesktop.Notifications")]
impl Notifications {
    fn get_capabilities(&self) -> Vec<String> {
        self.capabilities.clone()
    }

    #[allow(clippy::too_many_arguments, reason = "the specification's")]
    fn notify(
        &mut self,
        #[zbus(header)] header: Header<'_>,
        app_name: &str,
        replaces: u32,
        _icon: &str,
        summary: String,
        body: String,
        actions: Vec<String>,
        hints: HashMap<String, OwnedVariant>,
        expires: i32,
    ) -> u32 {
        assert_eq!(app_name, "gated");
        self.last += 1;
        let urgency = match hints.get("urgency").map(|hint| &**hint) {
            Some(Variant::U8(urgency)) => *urgency,
            other => panic!("urgency {other:?}"),
        };
        let caller = header.sender().expect("the bus says who").to_string();
        let actions = actions.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect();
        let shown = Shown { id: self.last, caller, replaces, summary, body, actions, urgency, expires };
        let _ = self.calls.send(Call::Notify(shown));
        self.last
    }

    fn close_notification(&self, id: u32) {
        let _ = self.calls.send(Call::Close(id));
    }
}

pub struct Fake {
    pub connection: Connection,
    calls: mpsc::UnboundedReceiver<Call>,
}

impl Fake {
    /// Owns the name from now on.
    pub async fn start(session: &PrivateBus, capabilities: &[&str]) -> Fake {
        let connection = connect(session).await;
        let (sender, calls) = mpsc::unbounded_channel();
        let capabilities = capabilities.iter().map(|word| (*word).to_owned()).collect();
        let server = Notifications { calls: sender, capabilities, last: 0 };
        connection.object_server().at(PATH, server).await.unwrap();
        connection.request_name(NAME).await.unwrap();
        Fake { connection, calls }
    }

    pub async fn with_buttons(session: &PrivateBus) -> Fake {
        Fake::start(session, &["actions", "body", "body-markup"]).await
    }

    /// The next call, which must be `Notify`.
    #[track_caller]
    pub fn shown(&mut self) -> impl Future<Output = Shown> {
        let place = std::panic::Location::caller();
        async move {
            match within("a notification", self.calls.recv()).await.expect("the server lives") {
                Call::Notify(shown) => shown,
                Call::Close(id) => panic!("{id} is closed at {place}"),
            }
        }
    }

    /// The next call, which must be `CloseNotification`.
    #[track_caller]
    pub fn closed(&mut self) -> impl Future<Output = u32> {
        let place = std::panic::Location::caller();
        async move {
            match within("the end of a notification", self.calls.recv()).await.expect("the server lives") {
                Call::Notify(shown) => panic!("{shown:?} at {place}"),
                Call::Close(id) => id,
            }
        }
    }

    #[track_caller]
    pub fn is_quiet(&mut self) {
        if let Ok(call) = self.calls.try_recv() {
            panic!("{call:?}");
        }
    }

    /// As a server does it: the action, then the end of the notification.
    pub async fn press(&self, shown: &Shown, label: &str) {
        let body = (shown.id, shown.key(label));
        self.connection.emit_signal(None::<&str>, PATH, NAME, "ActionInvoked", &body).await.unwrap();
        self.close(shown, 2).await;
    }

    pub async fn close(&self, shown: &Shown, reason: u32) {
        let body = (shown.id, reason);
        self.connection.emit_signal(None::<&str>, PATH, NAME, "NotificationClosed", &body).await.unwrap();
    }
}

/// `ActionInvoked` from any connection, to everybody and to the notifier alone.
pub async fn invoke(from: &Connection, shown: &Shown, key: &str) {
    let body = (shown.id, key);
    from.emit_signal(None::<&str>, PATH, NAME, "ActionInvoked", &body).await.unwrap();
    from.emit_signal(Some(shown.caller.as_str()), PATH, NAME, "ActionInvoked", &body).await.unwrap();
}
