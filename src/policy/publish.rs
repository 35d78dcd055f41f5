//! Whether a session may be reached at addresses of the host that whoever starts it named. Pure; asked before the session
//! exists, by the daemon (as root) and by `gated-run --embedded`.

use std::net::SocketAddr;

use crate::common::access::Level;
use crate::common::id::CallId;
use crate::common::net::{Destination, Transport};
use crate::common::text;
use crate::common::wire::Network;

use super::decide::{Policy, Verdict};
use super::grants::Grants;
use super::model::Profile;
use super::network::Reaching;

/// Addresses of one session at the most.
pub const MAX_PUBLISHED: usize = 64;

/// An address that is not published. One line, with the rule in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unpublished {
    #[error("--publish is for sessions with a network of their own; this profile has `network = \"host\"`")]
    HostNetwork,
    #[error("at most {MAX_PUBLISHED} addresses can be published")]
    TooMany,
    #[error("--publish {0}: a port from 1 on was expected")]
    Port(SocketAddr),
    #[error("--publish {address}: {rule} denies it")]
    Denied { address: SocketAddr, rule: String },
    /// Nobody proves anything at the start of a session.
    #[error("--publish {address}: {rule} asks for a proof of who you are, when the program listens")]
    NeedsProof { address: SocketAddr, rule: String },
}

/// Holds the addresses against the profile.
pub fn check(profile: &Profile, addresses: &[SocketAddr]) -> Result<(), Unpublished> {
    if addresses.is_empty() {
        return Ok(());
    }
    if profile.network == Network::Host {
        return Err(Unpublished::HostNetwork);
    }
    if addresses.len() > MAX_PUBLISHED {
        return Err(Unpublished::TooMany);
    }
    let policy = Policy::new(profile);
    for &address in addresses {
        if address.port() == 0 {
            return Err(Unpublished::Port(address));
        }
        let destination = Destination::address(address, Transport::Tcp, Vec::new());
        let reaching = Reaching { destination: &destination, program: &|| None };
        let verdict = policy.decide_bind(&reaching, CallId(0), &Grants::new());
        match verdict.level {
            Level::Allow | Level::Notify | Level::Ask => {}
            Level::Authenticate => return Err(Unpublished::NeedsProof { address, rule: rule(&policy, &verdict) }),
            Level::Deny => return Err(Unpublished::Denied { address, rule: rule(&policy, &verdict) }),
        }
    }
    Ok(())
}

/// `rule no-servers of profile strict (/etc/gated/profiles/strict.toml:31)`.
fn rule(policy: &Policy, verdict: &Verdict) -> String {
    let rule = policy.rule(verdict);
    let line = if rule.line == 0 { String::new() } else { format!(":{}", rule.line) };
    let told = format!("rule {} of profile {} ({}{line})", rule.id, rule.profile, rule.file);
    text::shown_within(&told, 400)
}
