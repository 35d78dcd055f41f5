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

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::Path;

    use super::*;
    use crate::policy::{Context, ProfileSelector, load};

    fn profile(rest: &str) -> Profile {
        let context = Context { home: "/home/me".into(), user: "me".into(), cwd: "/home/me/project".into() };
        let text = format!("schema = 1\n[profile]\nname = \"own\"\n{rest}");
        let read = |path: &Path| match path.to_str() {
            Some("own.toml") => Ok(text.clone()),
            _ => Err(io::ErrorKind::NotFound.into()),
        };
        load(ProfileSelector::File("own.toml".into()), &context, &read).unwrap()
    }

    fn addresses(texts: &[&str]) -> Vec<SocketAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn every_address_is_held_against_the_rules() {
        let ordinary = profile("");
        assert_eq!(check(&ordinary, &addresses(&["127.0.0.1:3000", "0.0.0.0:80", "[::1]:3000"])), Ok(()));
        assert_eq!(
            check(&ordinary, &addresses(&["127.0.0.1:0"])),
            Err(Unpublished::Port("127.0.0.1:0".parse().unwrap()))
        );
        assert_eq!(check(&ordinary, &vec!["127.0.0.1:1".parse().unwrap(); 65]), Err(Unpublished::TooMany));
        let rule = "[[rule]]\nid = \"outside\"\naccess = [\"bind\"]\ncidr = [\"0.0.0.0/32\", \"192.0.2.0/24\"]\nlevel = \"deny\"\n";
        let closed = profile(rule);
        assert_eq!(check(&closed, &addresses(&["127.0.0.1:3000"])), Ok(()));
        for denied in ["0.0.0.0:3000", "192.0.2.7:3000"] {
            let error = check(&closed, &addresses(&["127.0.0.1:3000", denied])).unwrap_err();
            let expected = format!("--publish {denied}: rule outside of profile own (own.toml:");
            assert!(error.to_string().starts_with(&expected), "{error}");
        }
    }

    #[test]
    fn the_hosts_network_has_nothing_to_publish() {
        let open = profile("network = \"host\"\n");
        assert_eq!(check(&open, &[]), Ok(()));
        assert_eq!(check(&open, &addresses(&["127.0.0.1:3000"])), Err(Unpublished::HostNetwork));
    }
}
