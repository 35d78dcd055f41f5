//! Words of the network: names in one canonical form, patterns on names and ports, zones of addresses, and what a request
//! for the network or a socket is about. Pure data; names and addresses come from a tool, from DNS or from a policy file.

mod host;
mod service;
mod target;
mod zone;

pub use host::{HostName, HostNameError, HostPattern, HostTerm, HostTermError, Named, Ports, TermHost};
pub use service::Service;
pub use target::{Destination, Knowledge, Place, Transport};
pub use zone::{Zone, canonical, embedded_v4};
