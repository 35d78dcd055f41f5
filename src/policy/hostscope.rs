//! How far an answer about the network reaches: a name or an address at a port, a host, or a registered domain. Used by the
//! broker to offer widths and by the supervisor to find grants; names and addresses come from a tool and from DNS.

use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::common::access::Access;
use crate::common::decision::Width;
use crate::common::net::{Destination, HostName, Place, Ports, Transport, Zone};
use crate::common::path::RawPath;
use crate::common::request::{Operation, Request};
use crate::common::text;

use super::network::counted_names;

/// Columns of a program's path in a scope, at the most.
const SHOWN_COLUMNS: usize = 4096;

/// The hosts that an answer is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ScopeHost {
    Name(HostName),
    /// A registered domain and everything below it.
    Domain(HostName),
    /// Canonical.
    Address(IpAddr),
}

/// What an answer covers.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct HostScope {
    pub host: ScopeHost,
    pub ports: Ports,
    pub transport: Transport,
    /// The only executable that it holds for.
    pub program: Option<RawPath>,
}

/// What is held against scopes: one host, by one of its names or by its address.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reached<'a> {
    pub name: Option<&'a HostName>,
    pub ip: Option<IpAddr>,
    /// `None` where a name is looked up: then every port will do.
    pub port: Option<u16>,
    pub transport: Transport,
}

impl HostScope {
    /// What an answer of this width to this request covers; `None` where the width would be too much, or is not one of
    /// hosts.
    pub fn of(request: &Request, width: Width) -> Option<HostScope> {
        let destination = request.destination.as_deref()?;
        let transport = destination.transport;
        let host = host_of(request.access, destination);
        let exact = destination.port().map_or(Ports::ANY, Ports::one);
        let is_wide = request.access == Access::Connect && may_widen(destination);
        let is_look_up = request.operation == Operation::LookUp;
        let (host, ports, program) = match width {
            Width::Exact => (host, exact, None),
            Width::Program if is_wide => (host, Ports::ANY, Some(named_program(request)?)),
            Width::Host if is_wide && !is_look_up => (host, Ports::ANY, None),
            Width::Domain if is_wide => match host {
                ScopeHost::Name(name) => (ScopeHost::Domain(name.registrable()?), Ports::ANY, None),
                ScopeHost::Domain(_) | ScopeHost::Address(_) => return None,
            },
            _ => return None,
        };
        Some(HostScope { host, ports, transport, program })
    }

    /// Exactly this address, by the name that whoever listens there is reached by.
    pub(super) fn published(destination: &Destination) -> HostScope {
        let ports = destination.port().map_or(Ports::ANY, Ports::one);
        let host = host_of(Access::Bind, destination);
        HostScope { host, ports, transport: destination.transport, program: None }
    }

    /// Whether it would have answered this request.
    pub fn answers(&self, request: &Request) -> bool {
        let Some(destination) = request.destination.as_deref() else { return false };
        let reached =
            Reached { name: None, ip: destination.ip(), port: destination.port(), transport: destination.transport };
        let by_name = match &destination.place {
            Place::Name(name) => self.covers(&Reached { name: Some(name), ..reached }),
            Place::Address { .. } => {
                // As the request is judged by the least strict of its names, one is enough where it is the one shown.
                let names = counted_names(request.access, destination);
                names.first().is_some_and(|name| self.covers(&Reached { name: Some(name), ..reached }))
            }
        };
        let program = || named_program(request);
        (by_name || self.covers(&reached)) && self.holds_for_program(&program)
    }

    pub(super) fn covers(&self, reached: &Reached<'_>) -> bool {
        let host = match &self.host {
            ScopeHost::Name(own) => reached.name == Some(own),
            ScopeHost::Domain(own) => reached.name.is_some_and(|name| name == own || name.is_below(own)),
            ScopeHost::Address(own) => reached.ip == Some(*own),
        };
        host && match reached.port {
            None => true,
            Some(port) => self.ports.contains(port) && self.transport == reached.transport,
        }
    }

    /// Whether it denies this, if that is what it does: over any transport, and of a name that is looked up only where every
    /// port of it is denied.
    pub(super) fn denies(&self, reached: &Reached<'_>) -> bool {
        let port = match reached.port {
            None => self.ports == Ports::ANY,
            Some(port) => self.ports.contains(port),
        };
        port && self.covers(&Reached { port: None, ..*reached })
    }

    pub(super) fn holds_for_program(&self, program: &dyn Fn() -> Option<RawPath>) -> bool {
        self.program.as_ref().is_none_or(|own| program().as_ref() == Some(own))
    }
}

impl fmt::Display for HostScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(program) = &self.program {
            write!(f, "{} -> ", text::quoted_argv_within([program.as_bytes()], SHOWN_COLUMNS))?;
        }
        match &self.host {
            ScopeHost::Name(name) => write!(f, "{name}:{}", self.ports)?,
            ScopeHost::Domain(name) => write!(f, "{name}:{}, *.{name}:{}", self.ports, self.ports)?,
            ScopeHost::Address(IpAddr::V4(address)) => write!(f, "{address}:{}", self.ports)?,
            ScopeHost::Address(IpAddr::V6(address)) => write!(f, "[{address}]:{}", self.ports)?,
        }
        match self.transport {
            Transport::Tcp => Ok(()),
            Transport::Udp => f.write_str("/udp"),
        }
    }
}

/// The host that is shown: the latest name that counts, or the address.
fn host_of(access: Access, destination: &Destination) -> ScopeHost {
    match &destination.place {
        Place::Name(name) => ScopeHost::Name(name.clone()),
        Place::Address { address, .. } => match counted_names(access, destination).first() {
            Some(&name) => ScopeHost::Name(name.clone()),
            None => ScopeHost::Address(address.ip()),
        },
    }
}

/// Whether all ports of it can be meant: not those of this machine, of what keeps credentials, or of no single host.
fn may_widen(destination: &Destination) -> bool {
    !matches!(destination.zone(), Some(Zone::Loopback | Zone::Metadata | Zone::Special))
}

/// The executable, if it has a name that means the same another time.
fn named_program(request: &Request) -> Option<RawPath> {
    let program = &request.who.program;
    let is_named = program.as_bytes().starts_with(b"/") && !program.as_bytes().ends_with(b" (deleted)");
    (is_named && !program.as_bytes().starts_with(b"/memfd:")).then(|| program.clone())
}
