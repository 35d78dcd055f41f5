//! What an admin lets a caller do: polkit's word on a connection of the bus. Runs in the daemon, as root. Any error is a no,
//! and so is every question about a caller inside a session; without polkit only root may.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tracing::{debug, warn};
use zbus::names::{OwnedUniqueName, WellKnownName};
use zbus::proxy::CacheProperties;
use zbus::{Connection, Message, fdo};
use zbus_polkit::policykit1::{AuthorityProxy, CheckAuthorizationFlags, Subject};

use super::caller::Caller;

const POLKIT: WellKnownName<'static> = WellKnownName::from_static_str_unchecked("org.freedesktop.PolicyKit1");

/// The authority that is asked.
#[derive(Clone, Debug)]
pub struct Polkit {
    connection: Connection,
    /// Numbers the questions, so that one can be withdrawn.
    asked: Arc<AtomicU64>,
}

/// Why polkit gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum PolkitError {
    #[error("there is no polkit")]
    Absent,
    #[error("polkit cannot be asked: {0}")]
    Subject(#[from] zbus_polkit::Error),
    #[error("polkit does not answer: {0}")]
    Bus(#[source] zbus::Error),
}

impl From<zbus::Error> for PolkitError {
    fn from(error: zbus::Error) -> PolkitError {
        match &error {
            zbus::Error::FDO(known)
                if matches!(**known, fdo::Error::ServiceUnknown(_) | fdo::Error::NameHasNoOwner(_)) =>
            {
                PolkitError::Absent
            }
            _ => PolkitError::Bus(error),
        }
    }
}

impl Polkit {
    pub fn new(connection: Connection) -> Polkit {
        Polkit { connection, asked: Arc::default() }
    }

    /// Whether there is a polkit, or the bus would start one.
    pub async fn is_there(&self) -> bool {
        let look = async {
            let bus = fdo::DBusProxy::builder(&self.connection).cache_properties(CacheProperties::No).build().await?;
            let startable = bus.list_activatable_names().await?.iter().any(|name| name.as_str() == POLKIT.as_str());
            Ok::<bool, zbus::Error>(startable || bus.name_has_owner(POLKIT.into()).await?)
        };
        look.await.unwrap_or(false)
    }

    /// Whether a caller may do this: root may, nobody inside a session may, and polkit says who else. `action` is one of
    /// [`crate::common::bus::action`]. `interactive`: the person may be asked for a password, which takes as long as
    /// they do; a question whose future is dropped is taken back. The connection must be without a time-out for calls.
    pub async fn authorized(&self, caller: &Caller, action: &str, interactive: bool) -> bool {
        if caller.inside {
            return false;
        }
        if caller.uid == 0 {
            return true;
        }
        match self.check(&caller.sender, action, interactive).await {
            Ok(authorized) => authorized,
            Err(PolkitError::Absent) => {
                debug!(uid = caller.uid, action, "without polkit only root is authorized");
                false
            }
            Err(error) => {
                warn!(uid = caller.uid, action, %error, "an authorization was not given");
                false
            }
        }
    }

    async fn check(&self, sender: &OwnedUniqueName, action: &str, interactive: bool) -> Result<bool, PolkitError> {
        let authority = AuthorityProxy::builder(&self.connection).cache_properties(CacheProperties::No).build().await?;
        let mut flags = CheckAuthorizationFlags::empty();
        flags.set(CheckAuthorizationFlags::ALLOW_USER_INTERACTION, interactive);
        let number = self.asked.fetch_add(1, Ordering::Relaxed);
        let mut question = Question { authority, id: number.to_string(), open: interactive };
        let subject = subject(sender)?;
        let details = HashMap::new();
        let answer = question.authority.check_authorization(&subject, action, &details, flags, &question.id).await;
        question.open = false;
        Ok(answer?.is_authorized)
    }
}

/// A connection as polkit wants it. It finds out by itself whose it is.
fn subject(sender: &OwnedUniqueName) -> Result<Subject, PolkitError> {
    // The one way that the crate offers is by the header of a message from there.
    let message = Message::signal("/", "org.gated.Gated1", "Subject").sender(sender).build(&())?;
    Ok(Subject::new_for_message_header(&message.header())?)
}

/// Takes a question back that nobody waits for any more, so that no password dialog is left on a screen.
struct Question {
    authority: AuthorityProxy<'static>,
    id: String,
    open: bool,
}

impl Drop for Question {
    fn drop(&mut self) {
        if !self.open {
            return;
        }
        let (authority, id) = (self.authority.clone(), std::mem::take(&mut self.id));
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                if let Err(error) = authority.cancel_check_authorization(&id).await {
                    debug!(%error, "a question to polkit could not be taken back");
                }
            });
        }
    }
}
