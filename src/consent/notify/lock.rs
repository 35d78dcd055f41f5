//! Whether the screen is locked. Runs in the notifier, as the person at the desktop; asks the desktop's screen saver and
//! logind, afresh each time it matters. What says yes is believed, and so is what is there and does not answer in time.

use std::time::Duration;

use zbus::fdo::DBusProxy;
use zbus::names::BusName;
use zbus::{Connection, OwnedObjectPath, OwnedVariant, Variant};

/// Names on the session bus that answer `GetActive`, and where; each is also the interface.
const SAVERS: &[(&str, &str)] = &[
    ("org.freedesktop.ScreenSaver", "/org/freedesktop/ScreenSaver"),
    ("org.gnome.ScreenSaver", "/org/gnome/ScreenSaver"),
    ("org.cinnamon.ScreenSaver", "/org/cinnamon/ScreenSaver"),
    ("org.mate.ScreenSaver", "/"),
    ("org.xfce.ScreenSaver", "/"),
];
const LOGIND: &str = "org.freedesktop.login1";
const PROPERTIES: &str = "org.freedesktop.DBus.Properties";

/// The longest that a look may take.
const LOOK: Duration = Duration::from_millis(500);

#[derive(Default)]
pub struct Lock {
    /// The desktop's own bus.
    pub session: Option<Connection>,
    system: Option<Connection>,
}

impl Lock {
    pub async fn is_locked(&mut self) -> bool {
        if self.system.as_ref().is_none_or(Connection::is_closed) {
            self.system = Connection::system().await.ok();
        }
        let look = async {
            if let Some(session) = &self.session {
                for (name, path) in SAVERS {
                    if says_active(session, name, path).await {
                        return true;
                    }
                }
            }
            match &self.system {
                Some(system) => says_locked(system).await.unwrap_or(false),
                None => false,
            }
        };
        tokio::time::timeout(LOOK, look).await.unwrap_or(true)
    }
}

async fn is_there(connection: &Connection, name: &'static str) -> bool {
    let Ok(name) = BusName::try_from(name) else { return false };
    match DBusProxy::new(connection).await {
        Ok(bus) => bus.name_has_owner(name).await.unwrap_or(false),
        Err(_) => false,
    }
}

/// Some own the name and know no `GetActive`: an error is no yes.
async fn says_active(connection: &Connection, name: &'static str, path: &str) -> bool {
    if !is_there(connection, name).await {
        return false;
    }
    let asked = connection.call_method(Some(name), path, Some(name), "GetActive", &()).await;
    asked.and_then(|reply| reply.body().deserialize::<bool>()).unwrap_or(false)
}

/// `LockedHint` of the session that the person sits at (org.freedesktop.login1(5)).
async fn says_locked(connection: &Connection) -> Option<bool> {
    if !is_there(connection, LOGIND).await {
        return None;
    }
    let display =
        get(connection, "/org/freedesktop/login1/user/self", "org.freedesktop.login1.User", "Display").await?;
    let (_, session): (String, OwnedObjectPath) = display.try_into().ok()?;
    let hint = get(connection, session.as_str(), "org.freedesktop.login1.Session", "LockedHint").await?;
    match &*hint {
        Variant::Bool(locked) => Some(*locked),
        _ => None,
    }
}

async fn get(connection: &Connection, path: &str, interface: &str, property: &str) -> Option<OwnedVariant> {
    let asked = connection.call_method(Some(LOGIND), path, Some(PROPERTIES), "Get", &(interface, property)).await;
    asked.ok()?.body().deserialize().ok()
}
