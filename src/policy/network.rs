//! The verdict on names, connections and listening sockets. Runs in the supervisor on every such attempt: pure, the same
//! answer whatever the order of rules.

use crate::common::access::Access;
use crate::common::id::CallId;
use crate::common::net::Destination;
use crate::common::path::RawPath;

use super::decide::{Policy, Source, Verdict};
use super::grants::Grants;

/// An attempt to reach something over the network, or to be reached.
#[derive(Clone, Copy)]
pub struct Reaching<'a> {
    pub destination: &'a Destination,
    /// The executable of whoever tries; asked for only where a grant depends on it.
    pub program: &'a dyn Fn() -> Option<RawPath>,
}

impl Policy {
    /// The verdict on a connection, on datagrams to one peer, or on looking a name up.
    pub fn decide_connect(&self, reaching: &Reaching<'_>, call: CallId, grants: &Grants) -> Verdict {
        let _ = (reaching, call, grants);
        let level = self.profile().defaults.connect;
        Verdict { level, source: Source::Default, basis: Source::Default }
    }

    /// The verdict on a socket that whoever reaches this address of the host can connect to.
    pub fn decide_bind(&self, reaching: &Reaching<'_>, call: CallId, grants: &Grants) -> Verdict {
        let _ = (reaching, call, grants);
        let level = self.profile().defaults.level(Access::Bind);
        Verdict { level, source: Source::Default, basis: Source::Default }
    }

    /// Whether a rule or a grant for `bind`, and not only `[defaults]`, speaks of this address and port.
    pub fn speaks_of_bind(&self, reaching: &Reaching<'_>, call: CallId, grants: &Grants) -> bool {
        let _ = (reaching, call, grants);
        false
    }
}
