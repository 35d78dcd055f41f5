//! The daemon's way to one consent agent: calls of `org.gated.Gated1.Agent` on its unique name. Runs as root in the daemon;
//! what comes back is the word of the agent's user, checked here for being an answer at all.

use std::collections::HashMap;

use tracing::{debug, warn};
use zbus::message::Header;
use zbus::{Connection, OwnedVariant};

use super::error::Error;
use crate::common::bus::{AGENT_INTERFACE, AGENT_PATH, action};
use crate::common::consent::{Answer, Prompt};
use crate::common::details::{self, Details};
use crate::common::id::RequestId;
use crate::daemon::agents::{Local, Reach};
use crate::daemon::authz::Polkit;
use crate::daemon::caller::Caller;

/// An agent as the bus knows it.
pub struct BusAgent {
    connection: Connection,
    caller: Caller,
    polkit: Polkit,
}

impl BusAgent {
    /// The agent that sent this message.
    pub async fn new(connection: &Connection, header: &Header<'_>, polkit: Polkit) -> Result<BusAgent, Error> {
        let identified = Caller::identify(connection, header).await;
        let caller = identified.map_err(|_| Error::NotAuthorized(String::new()))?;
        Ok(BusAgent { connection: connection.clone(), caller, polkit })
    }
}

impl Reach for BusAgent {
    fn ask<'a>(&'a self, prompt: &'a Prompt, owner: u32) -> Local<'a, Option<Answer>> {
        Box::pin(async move {
            let request = prompt.request.id.to_string();
            let body = (request.as_str(), Details::of(prompt, owner));
            let name = self.caller.sender.as_ref();
            let called = self.connection.call_method(Some(name), AGENT_PATH, Some(AGENT_INTERFACE), "Ask", &body).await;
            let reply = match called {
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
            let request = request.to_string();
            let body = (request.as_str(),);
            // Without waiting for a reply: an agent that is gone has nothing to show.
            let cancelled =
                connection.call_method(Some(name.as_ref()), AGENT_PATH, Some(AGENT_INTERFACE), "Cancel", &body).await;
            if let Err(error) = cancelled {
                debug!(agent = %name, %error, "not cancelled");
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
        let message = zbus::Message::method_call(AGENT_PATH, "Release")
            .interface(AGENT_INTERFACE)
            .destination(name)
            .with_flags(zbus::message::Flags::NO_REPLY_EXPECTED)
            .build(&());
        if let Ok(message) = message {
            // One that is gone is released.
            let _ = connection.send(&message).await;
        }
    }
}
