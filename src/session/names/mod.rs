//! The session's own names: a resolver in its network namespace, and what it answered.
//!
//! Runs as the user in the supervisor. A name is judged before a query leaves the machine; what the answers said is remembered,
//! and connections are judged by it.

pub mod asker;
mod court;
mod datagrams;
pub mod files;
pub mod host;
pub mod hosts;
pub mod memory;
pub mod packet;
pub mod question;
pub mod server;
mod start;
pub mod upstream;
pub mod verdicts;

pub use self::start::Resolver;

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use self::host::{HostFiles, Watched};
use self::hosts::Hosts;
use self::memory::Memory;
use crate::common::net::{HostName, Named};
use crate::common::text::Untrusted;

/// What is known of names and addresses; the resolver learns, and whoever judges a connection asks.
pub struct Known {
    memory: Mutex<Memory>,
    hosts: Watched<Arc<Hosts>>,
    files: Arc<dyn HostFiles>,
}

impl Known {
    pub fn new(files: Arc<dyn HostFiles>) -> Known {
        Known { memory: Mutex::default(), hosts: Watched::new("/etc/hosts", Arc::default()), files }
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hosts(&self) -> Arc<Hosts> {
        self.hosts.get(&*self.files, |text| Arc::new(Hosts::parse(text)))
    }

    fn learn(&self, name: &HostName, addresses: impl Iterator<Item = (IpAddr, Duration)>) {
        self.memory().learn(name, addresses, Instant::now());
    }

    /// The names that lead to an address now: what the session was answered, the latest first, then those of the host's
    /// hosts file.
    pub fn names_of(&self, address: IpAddr) -> Vec<Named> {
        let mut names = self.memory().names_of(address, Instant::now());
        let of_host = self.hosts().names_of(address);
        names.extend(
            of_host.into_iter().filter(|named| !names.iter().any(|other| other.name == named.name)).collect::<Vec<_>>(),
        );
        names
    }

    /// A name that an address may have, by which nothing is decided: one that led there and does not any more. Reverse DNS is
    /// not asked: the address is a tool's, and the question would leave before anybody said yes to it.
    pub fn hint_of(&self, address: IpAddr) -> Option<Untrusted> {
        let former = self.memory().former_name_of(address, Instant::now())?;
        Some(Untrusted::new(former.as_str().as_bytes()))
    }
}
