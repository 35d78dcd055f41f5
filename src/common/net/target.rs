//! What a request for the network is about.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

use super::host::{HostName, Named};
use super::zone::Zone;
use crate::common::path::RawPath;
use crate::common::text::Untrusted;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    #[default]
    Tcp,
    Udp,
}

impl Transport {
    pub fn as_str(self) -> &'static str {
        match self {
            Transport::Tcp => "tcp",
            Transport::Udp => "udp",
        }
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How a name came to belong to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Knowledge {
    /// The session's resolver gave the address for the name, and its time to live is not over.
    Resolved,
    /// The host's /etc/hosts says so.
    HostsFile,
}

/// A place that a session wants to reach, or to be reached at.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Place {
    /// A name alone, whose address is asked for.
    Name(HostName),
    /// An address and port, canonical ([`super::canonical`]), and the names that lead there: the latest first.
    Address { address: SocketAddr, names: Vec<Named> },
}

/// The object of a `connect` or `bind`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Destination {
    pub place: Place,
    pub transport: Transport,
    /// What reverse DNS calls the address; unverified, whoever owns the address wrote it.
    pub hint: Option<Untrusted>,
}

impl Destination {
    pub fn name(name: HostName) -> Destination {
        Destination { place: Place::Name(name), transport: Transport::Tcp, hint: None }
    }

    /// `address` in any form.
    pub fn address(address: SocketAddr, transport: Transport, names: Vec<Named>) -> Destination {
        let address = SocketAddr::new(super::canonical(address.ip()), address.port());
        Destination { place: Place::Address { address, names }, transport, hint: None }
    }

    pub fn ip(&self) -> Option<IpAddr> {
        self.socket_address().map(|address| address.ip())
    }

    pub fn port(&self) -> Option<u16> {
        self.socket_address().map(|address| address.port())
    }

    pub fn socket_address(&self) -> Option<SocketAddr> {
        match &self.place {
            Place::Name(_) => None,
            Place::Address { address, .. } => Some(*address),
        }
    }

    /// `None` for a name alone.
    pub fn zone(&self) -> Option<Zone> {
        self.ip().map(Zone::of)
    }

    /// The names that it is judged by, the latest first.
    pub fn names(&self) -> impl Iterator<Item = &HostName> {
        let (one, several) = match &self.place {
            Place::Name(name) => (Some(name), [].as_slice()),
            Place::Address { names, .. } => (None, names.as_slice()),
        };
        one.into_iter().chain(several.iter().map(|named| &named.name))
    }

    /// What it is called in requests and records: `registry.npmjs.org:443`, `192.0.2.7:443`, `[2001:db8::1]:443`,
    /// `time.example.org:123/udp`, or a name alone. Only ASCII.
    pub fn object(&self) -> RawPath {
        RawPath::from(self.to_string().as_str())
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.place, self.names().next()) {
            (Place::Name(name), _) => return name.fmt(f),
            (Place::Address { address, .. }, Some(name)) => write!(f, "{name}:{}", address.port())?,
            (Place::Address { address, .. }, None) => address.fmt(f)?,
        }
        match self.transport {
            Transport::Tcp => Ok(()),
            Transport::Udp => f.write_str("/udp"),
        }
    }
}
