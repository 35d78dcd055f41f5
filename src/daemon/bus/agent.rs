//! The daemon's way to one consent agent: calls of `org.gated.Gated1.Agent` on its unique name. Runs as root in the daemon;
//! what comes back is the word of the agent's user, checked here for being an answer at all.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tracing::{debug, warn};
use zbus::message::Header;
use zbus::names::UniqueName;
use zbus::{Connection, OwnedVariant};

use super::error::Error;
use crate::common::bus::{AGENT_INTERFACE, AGENT_PATH, action};
use crate::common::consent::{Answer, Prompt};
use crate::common::details::{self, Details, NoticeDetails};
use crate::common::id::RequestId;
use crate::common::notice::Notice;
use crate::daemon::agents::{Local, Reach};
use crate::daemon::authz::Polkit;
use crate::daemon::caller::Caller;

/// Questions to one agent, and to all agents of one user, that wait for a reply. The bus lets a connection wait for 128
/// replies (`max_replies_per_connection`, dbus-daemon(1)), and an agent that never replies must not use up the daemon's.
const MOST_OF_AN_AGENT: usize = 3;
const MOST_OF_A_USER: usize = 24;

/// The replies that the daemon waits for, those to questions that are over included.
#[derive(Clone, Debug, Default)]
pub struct Unanswered(Arc<Mutex<Places>>);

#[derive(Debug, Default)]
struct Places {
    of_agents: BTreeMap<String, Arc<Semaphore>>,
    of_users: BTreeMap<u32, Arc<Semaphore>>,
}

impl Unanswered {
    /// Waits for a place for one more question to this connection.
    async fn place(&self, caller: &Caller) -> Option<[OwnedSemaphorePermit; 2]> {
        let (of_agent, of_user) = {
            let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            // Whoever waits or is waited for holds one.
            places.of_agents.retain(|_, place| Arc::strong_count(place) > 1);
            places.of_users.retain(|_, place| Arc::strong_count(place) > 1);
            let new = |most| move || Arc::new(Semaphore::new(most));
            let of_agent = places.of_agents.entry(caller.sender.to_string()).or_insert_with(new(MOST_OF_AN_AGENT));
            let of_agent = Arc::clone(of_agent);
            let of_user = places.of_users.entry(caller.uid).or_insert_with(new(MOST_OF_A_USER));
            (of_agent, Arc::clone(of_user))
        };
        Some([of_agent.acquire_owned().await.ok()?, of_user.acquire_owned().await.ok()?])
    }
}

/// An agent as the bus knows it.
pub struct BusAgent {
    connection: Connection,
    caller: Caller,
    polkit: Polkit,
    unanswered: Unanswered,
}

impl BusAgent {
    /// The agent that sent this message.
    pub async fn new(
        connection: &Connection,
        header: &Header<'_>,
        polkit: Polkit,
        unanswered: Unanswered,
    ) -> Result<BusAgent, Error> {
        let identified = Caller::identify(connection, header).await;
        let caller = identified.map_err(|_| Error::NotAuthorized(String::new()))?;
        Ok(BusAgent { connection: connection.clone(), caller, polkit, unanswered })
    }
}

impl Reach for BusAgent {
    fn ask<'a>(&'a self, prompt: &'a Prompt, owner: u32) -> Local<'a, Option<Answer>> {
        Box::pin(async move {
            let places = self.unanswered.place(&self.caller).await?;
            let (connection, name) = (self.connection.clone(), self.caller.sender.clone());
            let (request, details) = (prompt.id.to_string(), Details::of(prompt, owner));
            let (done, called) = oneshot::channel();
            // Goes on when nobody waits any more: the place is taken until the bus has the reply.
            tokio::task::spawn_local(async move {
                let body = (request.as_str(), details);
                let to = Some(name.as_ref());
                let _ = done.send(connection.call_method(to, AGENT_PATH, Some(AGENT_INTERFACE), "Ask", &body).await);
                drop(places);
            });
            let reply = match called.await.ok()? {
                Ok(reply) => reply,
                Err(error) => {
                    debug!(agent = %self.caller.sender, %error, "no answer");
                    return None;
                }
            };
            let (decision, scope): (String, HashMap<String, OwnedVariant>) = match reply.body().deserialize() {
                Ok(answer) => answer,
                Err(error) => {
                    warn!(agent = %self.caller.sender, %error, "an answer of another form");
                    return None;
                }
            };
            match details::answer_from_bus(&decision, &scope) {
                Ok(answer) => Some(answer),
                Err(error) => {
                    warn!(agent = %self.caller.sender, %error, "an answer that means nothing");
                    None
                }
            }
        })
    }

    fn cancel(&self, request: RequestId) {
        let (connection, name) = (self.connection.clone(), self.caller.sender.clone());
        tokio::task::spawn_local(async move {
            if let Err(error) = tell(&connection, name.as_ref(), "Cancel", &(request.to_string().as_str(),)).await {
                debug!(agent = %name, %error, "not cancelled");
            }
        });
    }

    fn notice(&self, notice: &Notice) {
        let (connection, name) = (self.connection.clone(), self.caller.sender.clone());
        let (kind, details) = (notice.kind.as_str(), NoticeDetails::of(notice));
        tokio::task::spawn_local(async move {
            if let Err(error) = tell(&connection, name.as_ref(), "Notice", &(kind, details)).await {
                debug!(agent = %name, %error, "not told");
            }
        });
    }

    fn prove(&self) -> Local<'_, bool> {
        Box::pin(self.polkit.authorized(&self.caller, action::GRANT_SENSITIVE, true))
    }
}

/// Tells the agents of a daemon that ends, or is about to be replaced, that they are asked no more.
pub async fn release(connection: &Connection, senders: &[String]) {
    for sender in senders {
        let Ok(name) = zbus::names::UniqueName::try_from(sender.as_str()) else { continue };
        // One that is gone is released.
        let _ = tell(connection, name, "Release", &()).await;
    }
}

/// A call without a reply.
async fn tell<B>(connection: &Connection, name: UniqueName<'_>, method: &str, body: &B) -> zbus::Result<()>
where
    B: serde::Serialize + zbus::wire::DynamicType,
{
    let message = zbus::Message::method_call(AGENT_PATH, method)
        .interface(AGENT_INTERFACE)
        .destination(name)
        .with_flags(zbus::message::Flags::NO_REPLY_EXPECTED)
        .build(body)?;
    connection.send(&message).await
}
