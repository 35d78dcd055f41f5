//! Sockets: which network namespace each is in, and what a session may reach and be reached at.
//!
//! Runs as the user in the supervisor, which is in the host's network namespace and gets sockets of the session's from init.

pub mod address;
mod bind;
mod connect;
pub mod inner;
mod listen;
pub mod listeners;
mod moving;
pub mod names;
pub mod published;
mod raw;
pub mod relay;
mod send;
pub mod serving;
pub mod socket;
mod udp;
pub mod unix;

use std::sync::Arc;

use inner::{Inner, Namespaces};
use listeners::Listeners;
use names::Names;
use published::Published;
pub use raw::Registration;
use relay::Relay;

use crate::common::errno::Errno;

/// The network of a session that has its own.
pub struct Network {
    pub inner: Inner,
    pub namespaces: Namespaces,
    /// The names that lead to an address.
    pub names: Arc<dyn Names>,
    /// Who listens on this machine, outside of the session and in it; `None` where the kernel does not tell.
    pub(self) on_host: Option<Listeners>,
    pub(self) in_session: Option<Listeners>,
    pub(self) published: Published,
    /// UDP that is let out.
    pub relay: Relay,
}

impl Network {
    /// With an init that makes sockets.
    pub fn new(inner: Inner, names: Arc<dyn Names>) -> Result<Network, Errno> {
        let namespaces = inner.namespaces()?;
        let (on_host, in_session) = (Listeners::of_host().ok(), Listeners::of_session(&inner).ok());
        Ok(Network {
            inner,
            namespaces,
            names,
            on_host,
            in_session,
            published: Published::default(),
            relay: Relay::default(),
        })
    }
}
