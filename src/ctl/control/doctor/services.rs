//! The part of bus, daemon and desktop: asked as the caller, over the system bus and the caller's session bus.

use std::path::Path;
use std::time::Duration;

use zbus::Connection;
use zbus::fdo::DBusProxy;

use super::Check;
use crate::common::bus::BUS_NAME;
use crate::common::text;
use crate::ctl::control::daemon::{self, Daemon};
use crate::ctl::control::failure::Failure;

const POLKIT: &str = "org.freedesktop.PolicyKit1";
const NOTIFICATIONS: &str = "org.freedesktop.Notifications";
/// What polkit knows of us.
const ACTIONS: &str = "/usr/share/polkit-1/actions/org.gated.gated1.policy";
/// A server that says nothing for so long is as good as none.
const PATIENCE: Duration = Duration::from_secs(5);

pub async fn checks() -> Vec<Check> {
    let mut checks = vec![units()];
    match daemon::connect().await {
        Ok(connection) => {
            checks.push(Check::ok("bus", "the system bus answers"));
            checks.extend(gatedd(&connection).await);
            checks.push(polkit(&connection).await);
        }
        Err(error) => checks.push(Check::missing(
            "bus",
            error.to_string(),
            "start dbus.service; without a daemon: sudo gated-run --embedded",
        )),
    }
    checks.push(notifications().await);
    checks
}

fn units() -> Check {
    // sd_booted(3).
    if Path::new("/run/systemd/system").is_dir() {
        Check::ok("units", "systemd is PID 1: sessions are units")
    } else {
        Check::note(
            "units",
            "systemd is not PID 1: the daemon starts sessions itself",
            "nothing; but drop-ins for limits, systemctl and journalctl -u know nothing of sessions then",
        )
    }
}

/// The daemon and what it says of itself.
async fn gatedd(connection: &Connection) -> Vec<Check> {
    let about = async {
        let daemon = Daemon::on(connection.clone()).await?;
        Ok::<_, Failure>((daemon.manager.version().await?, daemon.manager.features().await?))
    };
    match about.await {
        Ok((version, features)) => {
            let own = env!("CARGO_PKG_VERSION");
            let shown = text::escaped_within(version.as_bytes(), 40);
            let mut checks = vec![if version == own {
                Check::ok("daemon", format!("gatedd {shown}"))
            } else {
                let advice = "systemctl restart gatedd; running sessions go on";
                Check::note("daemon", format!("gatedd {shown}, and this is gatedctl {own}"), advice)
            }];
            checks.extend(said(&features));
            checks
        }
        Err(Failure::NotPermitted(reason)) => {
            let advice =
                "not from inside a session; else look at dbus/org.gated.Gated1.conf below /usr/share/dbus-1/system.d";
            vec![Check::missing("daemon", reason, advice)]
        }
        Err(failure) => {
            let found = failure.to_string();
            let first = found.lines().next().unwrap_or_default().to_owned();
            vec![Check::missing(
                "daemon",
                first,
                format!("systemctl enable --now gatedd; journalctl -u gatedd ({BUS_NAME})"),
            )]
        }
    }
}

/// What words of the daemon's features mean for who asks.
fn said(features: &[String]) -> Vec<Check> {
    let has = |word: &str| features.iter().any(|feature| feature == word);
    vec![
        if has("audit") {
            Check::ok("audit", "the daemon can write the audit log")
        } else {
            Check::missing(
                "audit",
                "the daemon cannot write the audit log, and lets nothing through that must be recorded",
                "look at the space and the rights of /var/log/gated",
            )
        },
        if has("consent-agent") {
            Check::ok("agent", "somebody is registered to ask you")
        } else {
            Check::note(
                "agent",
                "nobody is registered to ask you",
                "start gated-notify in your desktop session (systemctl --user start gated-notify), use gated-run on a \
                 terminal, or answer with gatedctl approve and deny",
            )
        },
    ]
}

async fn has_name(connection: &Connection, name: &str) -> bool {
    let Ok(bus) = DBusProxy::new(connection).await else { return false };
    let owned = match zbus::names::BusName::try_from(name) {
        Ok(name) => bus.name_has_owner(name).await.unwrap_or(false),
        Err(_) => false,
    };
    let can_start =
        async { bus.list_activatable_names().await.is_ok_and(|names| names.iter().any(|one| one.as_str() == name)) };
    owned || can_start.await
}

async fn polkit(connection: &Connection) -> Check {
    const NAME: &str = "polkit";
    if !has_name(connection, POLKIT).await {
        let advice =
            "install polkit (polkitd), if others than root shall answer for other users or use level authenticate";
        return Check::note(NAME, "not here: only root answers for others", advice);
    }
    if Path::new(ACTIONS).exists() {
        Check::ok(NAME, "there, and knows gated's actions")
    } else {
        Check::note(NAME, format!("there, but {ACTIONS} is not"), "make install")
    }
}

async fn notifications() -> Check {
    const NAME: &str = "notifications";
    let without = "gatedctl pending, approve and deny answer too, and gated-run asks on its terminal";
    let session = zbus::connection::Builder::session().method_timeout(PATIENCE).build();
    let connection = match tokio::time::timeout(PATIENCE, session).await {
        Ok(Ok(connection)) => connection,
        _ => return Check::note(NAME, "there is no session bus: no desktop here", without),
    };
    if !has_name(&connection, NOTIFICATIONS).await {
        return Check::note(NAME, "no program shows notifications on this desktop", without);
    }
    let path = "/org/freedesktop/Notifications";
    let reply = connection.call_method(Some(NOTIFICATIONS), path, Some(NOTIFICATIONS), "GetCapabilities", &()).await;
    let abilities: Option<Vec<String>> = reply.ok().and_then(|reply| reply.body().deserialize().ok());
    match abilities {
        Some(words) if words.iter().any(|word| word == "actions") => Check::ok(NAME, "shown, with buttons"),
        Some(_) => Check::note(NAME, "shown, but without buttons", "answer with gatedctl approve and deny"),
        None => Check::note(NAME, "the program that shows them does not answer", without),
    }
}
