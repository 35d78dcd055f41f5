//! The names by which a session knows an address.

use std::net::IpAddr;

use crate::common::net::{HostName, Knowledge, Named};

/// Whoever knows names of addresses.
pub trait Names: Send + Sync {
    /// The latest first. `address` is canonical.
    fn names_of(&self, address: IpAddr) -> Vec<Named>;
}

/// Nobody.
pub struct NoNames;

impl Names for NoNames {
    fn names_of(&self, _: IpAddr) -> Vec<Named> {
        Vec::new()
    }
}

/// What every machine calls its own loopback, RFC 6761.
pub fn localhost() -> Option<Named> {
    let name = HostName::parse(b"localhost").ok()?;
    Some(Named { name, by: Knowledge::HostsFile })
}
