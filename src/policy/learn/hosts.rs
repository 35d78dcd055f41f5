//! Hosts that were seen, generalised to their registered domain where several of it were. Pure.

use std::collections::{BTreeMap, BTreeSet};

use super::Seen;
use crate::common::access::Access;
use crate::common::net::{Destination, HostName, Place, Transport, Zone};
use crate::common::request::Operation;

/// Terms of one rule, and what they stand for.
#[derive(Clone, Debug)]
pub struct HostGroup<'a> {
    pub terms: Vec<String>,
    pub transport: Transport,
    /// Whether only its name was looked up, or whoever reaches this machine could connect.
    pub asks: Option<&'static str>,
    pub about: String,
    pub seen: Vec<&'a Seen>,
}

/// A registered domain, or an address, and the transport.
type Family = (String, &'static str);

/// One of a family: what was seen, by which name, at which port.
type Member<'a> = (&'a Seen, Option<&'a HostName>, u16);

/// The name by which a rule can give this: one that DNS led to a public address.
fn name_of(destination: &Destination) -> Option<&HostName> {
    match &destination.place {
        Place::Name(name) => Some(name),
        Place::Address { address, .. } if Zone::of(address.ip()) == Zone::Public => destination.names().next(),
        Place::Address { .. } => None,
    }
}

/// Everything that was reached, or looked up and not reached.
pub fn groups<'a>(access: Access, seen: impl Iterator<Item = &'a Seen>) -> Vec<HostGroup<'a>> {
    let mut families: BTreeMap<Family, Vec<Member<'a>>> = BTreeMap::new();
    let mut looked_up: BTreeMap<&HostName, Vec<&'a Seen>> = BTreeMap::new();
    let mut reached: BTreeSet<&HostName> = BTreeSet::new();
    for one in seen {
        let Some(destination) = &one.what.destination else { continue };
        let name = name_of(destination).filter(|_| access == Access::Connect);
        match (one.what.operation, name, destination.socket_address()) {
            (Operation::LookUp, Some(name), _) => looked_up.entry(name).or_default().push(one),
            (_, _, Some(address)) => {
                let family = match name {
                    Some(name) => name.registrable().unwrap_or_else(|| name.clone()).to_string(),
                    None => address.ip().to_string(),
                };
                reached.extend(name);
                let key = (family, destination.transport.as_str());
                families.entry(key).or_default().push((one, name, address.port()));
            }
            _ => {}
        }
    }
    let mut all: Vec<HostGroup<'a>> = Vec::new();
    for ((family, _), members) in families {
        let names: BTreeSet<&HostName> = members.iter().filter_map(|(_, name, _)| *name).collect();
        let ports: BTreeSet<u16> = members.iter().map(|(_, _, port)| *port).collect();
        let transport = members.first().and_then(|(one, _, _)| one.what.destination.as_ref());
        let transport = transport.map_or(Transport::Tcp, |destination| destination.transport);
        let is_wide = names.len() > 1;
        let hosts: Vec<String> = match (names.is_empty(), is_wide) {
            (true, _) => vec![if family.contains(':') { format!("[{family}]") } else { family.clone() }],
            (false, false) => names.iter().map(ToString::to_string).collect(),
            (false, true) => {
                let apex = names.iter().any(|name| name.as_str() == family).then(|| family.clone());
                apex.into_iter().chain([format!("*.{family}")]).collect()
            }
        };
        let terms = hosts.iter().flat_map(|host| ports.iter().map(move |port| format!("{host}:{port}"))).collect();
        let is_open = access == Access::Bind
            && members
                .iter()
                .any(|(one, _, _)| one.what.destination.as_ref().and_then(Destination::zone) != Some(Zone::Loopback));
        all.push(HostGroup {
            terms,
            transport,
            asks: is_open.then_some("whoever reaches this machine can connect there"),
            about: family,
            seen: members.into_iter().map(|(one, _, _)| one).collect(),
        });
    }
    let is_given = |name: &HostName, all: &[HostGroup<'_>]| {
        reached.contains(name)
            || name.registrable().is_some_and(|domain| {
                all.iter().any(|group| group.terms.iter().any(|term| term.starts_with(&format!("*.{domain}:"))))
            })
    };
    for (name, seen) in looked_up {
        if !is_given(name, &all) {
            all.push(HostGroup {
                terms: vec![format!("{name}:443")],
                transport: Transport::Tcp,
                asks: Some("it was looked up and not connected to"),
                about: name.to_string(),
                seen,
            });
        }
    }
    all
}
