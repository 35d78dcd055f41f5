//! The names by which a session knows an address.

use std::net::IpAddr;

use crate::common::net::Named;
use crate::common::text::Untrusted;
use crate::session::names::Known;

/// Whoever knows names of addresses.
pub trait Names: Send + Sync {
    /// The latest first. `address` is canonical.
    fn names_of(&self, address: IpAddr) -> Vec<Named>;

    /// A name that an address without one may have, to be shown and not to be judged by.
    fn hint_of(&self, address: IpAddr) -> Option<Untrusted>;
}

impl Names for Known {
    fn names_of(&self, address: IpAddr) -> Vec<Named> {
        Known::names_of(self, address)
    }

    fn hint_of(&self, address: IpAddr) -> Option<Untrusted> {
        Known::hint_of(self, address)
    }
}
