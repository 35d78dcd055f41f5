//! The daemon's connection to the bus, from its name to its end. Runs as root. Sessions do not depend on it: a bus that is
//! restarted finds the daemon again.

use std::rc::Rc;

use futures_util::StreamExt;
use tokio::sync::mpsc;
use tracing::debug;
use zbus::Connection;
use zbus::fdo::{DBusProxy, RequestNameFlags};
use zbus::proxy::CacheProperties;

use super::grants::Grants;
use super::handle::Handle;
use super::manager::Manager;
use super::objects::{Objects, follow};
use super::policy::Policy;
use super::statistics::Statistics;
use crate::common::bus::{BUS_NAME, MANAGER_PATH};
use crate::daemon::authz::Polkit;
use crate::daemon::core::Core;

/// The daemon is not on the bus.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    #[error("the bus: {0}")]
    Bus(#[from] zbus::Error),
    #[error("the bus: {0}")]
    Name(#[from] zbus::fdo::Error),
}

/// Serve the core on this connection until it is closed; `ready` is called when the name is owned. To be called within a
/// `LocalSet`.
pub async fn attend(
    connection: &Connection,
    core: &Rc<Core>,
    mut features: Vec<String>,
    ready: impl FnOnce(),
) -> Result<(), ServiceError> {
    let polkit = Polkit::new(connection.clone());
    if polkit.is_there().await {
        features.push("polkit".to_owned());
    }
    let (handle, jobs) = Handle::new(polkit);
    let (changes, changing) = mpsc::unbounded_channel();
    core.report_to(changes);
    let server = connection.object_server();
    server.at(MANAGER_PATH, Manager::new(handle.clone(), features)).await?;
    server.at(MANAGER_PATH, Policy::new(handle.clone())).await?;
    server.at(MANAGER_PATH, Grants::new(handle.clone())).await?;
    server.at(MANAGER_PATH, Objects::new(handle.clone())).await?;
    server.at(MANAGER_PATH, Statistics::new(handle.clone())).await?;

    let bus = DBusProxy::builder(connection).cache_properties(CacheProperties::No).build().await?;
    let mut gone = bus.receive_name_owner_changed_with_args(&[(2, "")]).await?;
    let work = async {
        let followed = follow(connection.clone(), handle, Rc::clone(core), changing);
        let watched = async {
            while let Some(signal) = gone.next().await {
                if let Ok(signal) = signal.args() {
                    core.unregister(signal.name.as_str());
                }
            }
        };
        tokio::join!(followed, watched, jobs.serve(Rc::clone(core)))
    };
    let served = async {
        // The name last: whoever finds it finds everything.
        connection.request_name_with_flags(BUS_NAME, RequestNameFlags::DO_NOT_QUEUE).await?;
        ready();
        connection.closed().await;
        Ok(())
    };
    let ended = tokio::select! {
        ended = served => ended,
        _ = work => Ok(()),
    };
    debug!("the connection to the bus is closed");
    ended
}
