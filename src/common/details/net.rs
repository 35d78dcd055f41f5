//! What would be reached ([`Destination`], [`Service`]) in the keys `net-…` and `service` of [`super::Details`]. Pure data;
//! see the module above.

use std::net::{IpAddr, SocketAddr};

use super::{Details, DetailsError, word};
use crate::common::access::Access;
use crate::common::net::{Destination, HostName, Knowledge, Named, Place, Service, Transport, Zone, canonical};
use crate::common::request::Operation;
use crate::common::text::Untrusted;

/// Names of an address that are told at the most, the latest ones.
pub const MAX_NAMES: usize = 64;
/// Bytes of a reverse name at the most: those of a name (RFC 1035, 2.3.4), each escaped by whoever read it.
const MAX_HINT: usize = 4 * 255;
/// How a name is known that is to be looked up.
const ASKED: &str = "asked";

/// A name and how it is known: `resolved`, `hosts-file`, or `asked` for the one that is to be looked up.
pub type NameOnBus = (String, String);

fn known(by: Knowledge) -> &'static str {
    match by {
        Knowledge::Resolved => "resolved",
        Knowledge::HostsFile => "hosts-file",
    }
}

pub fn names_of(destination: &Destination) -> Vec<NameOnBus> {
    match &destination.place {
        Place::Name(name) => vec![(name.as_str().to_owned(), ASKED.to_owned())],
        Place::Address { names, .. } => {
            let of = |named: &Named| (named.name.as_str().to_owned(), known(named.by).to_owned());
            names.iter().take(MAX_NAMES).map(of).collect()
        }
    }
}

/// The hint, if it is one that can be sent: DNS has none that is longer.
pub fn hint_of(destination: &Destination) -> Option<Vec<u8>> {
    destination.hint.as_ref().map(|hint| hint.as_bytes().to_vec()).filter(|hint| hint.len() <= MAX_HINT)
}

/// Takes the keys out of `details`. Where something is to be reached they are there, and nowhere else; an address and its
/// zone are those that the address itself says.
pub fn destination(
    details: &mut Details,
    access: Access,
    operation: Operation,
) -> Result<Option<Destination>, DetailsError> {
    let address = details.net_address.take();
    let port = details.net_port.take();
    let names = details.net_names.take();
    let zone = details.net_zone.take();
    let transport = details.net_transport.take();
    let hint = details.net_hint.take();
    if !matches!(access, Access::Connect | Access::Bind) {
        let is_there = [
            ("net-address", address.is_some()),
            ("net-port", port.is_some()),
            ("net-names", names.is_some()),
            ("net-zone", zone.is_some()),
            ("net-transport", transport.is_some()),
            ("net-hint", hint.is_some()),
        ];
        let misplaced = is_there.into_iter().find(|(_, is_there)| *is_there);
        return misplaced.map_or(Ok(None), |(key, _)| Err(DetailsError::Misplaced(key)));
    }
    let names = names.ok_or(DetailsError::Missing("net-names"))?;
    if names.len() > MAX_NAMES {
        return Err(DetailsError::TooLong("net-names"));
    }
    let transport: Transport = word("net-transport", &transport.ok_or(DetailsError::Missing("net-transport"))?)?;
    let place = if operation == Operation::LookUp {
        let stray = [("net-address", address.is_some()), ("net-port", port.is_some()), ("net-zone", zone.is_some())];
        if let Some((key, _)) = stray.into_iter().find(|(_, is_there)| *is_there) {
            return Err(DetailsError::Misplaced(key));
        }
        match names.as_slice() {
            [(name, by)] if by == ASKED => Place::Name(host(name)?),
            _ => return Err(DetailsError::Word("net-names")),
        }
    } else {
        let address = ip(&address.ok_or(DetailsError::Missing("net-address"))?)?;
        let zone: Zone = word("net-zone", &zone.ok_or(DetailsError::Missing("net-zone"))?)?;
        if zone != Zone::of(address) {
            return Err(DetailsError::Word("net-zone"));
        }
        let address = SocketAddr::new(address, port.ok_or(DetailsError::Missing("net-port"))?);
        let named = |(name, by): &NameOnBus| Ok(Named { name: host(name)?, by: word::<Knowledge>("net-names", by)? });
        Place::Address { address, names: names.iter().map(named).collect::<Result<_, DetailsError>>()? }
    };
    let hint = match hint {
        Some(hint) if hint.len() > MAX_HINT => return Err(DetailsError::TooLong("net-hint")),
        hint => hint.map(Untrusted::new),
    };
    Ok(Some(Destination { place, transport, hint }))
}

/// Takes the service out of `details`.
pub fn service(details: &mut Details, access: Access) -> Result<Option<Service>, DetailsError> {
    match details.service.take() {
        Some(_) if access != Access::Unix => Err(DetailsError::Misplaced("service")),
        Some(text) => text.parse().map(Some).map_err(|()| DetailsError::Word("service")),
        None => Ok(None),
    }
}

/// A name in its one canonical form.
fn host(text: &str) -> Result<HostName, DetailsError> {
    let name: Option<HostName> = text.parse().ok();
    name.filter(|name| name.as_str() == text).ok_or(DetailsError::Word("net-names"))
}

/// An address in its one canonical form and text.
fn ip(text: &str) -> Result<IpAddr, DetailsError> {
    let address: Option<IpAddr> = text.parse().ok();
    let is_canonical = |address: &IpAddr| canonical(*address) == *address && address.to_string() == text;
    address.filter(is_canonical).ok_or(DetailsError::Word("net-address"))
}

#[cfg(test)]
pub mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use proptest::prelude::*;

    use super::*;

    fn name() -> impl Strategy<Value = HostName> {
        prop::collection::vec("[a-z][a-z0-9]{0,12}", 1..5).prop_map(|labels| labels.join(".").parse().unwrap())
    }

    fn address() -> impl Strategy<Value = IpAddr> {
        let four = any::<u32>().prop_map(|bits| IpAddr::V4(Ipv4Addr::from_bits(bits)));
        let six = any::<u128>().prop_map(|bits| canonical(IpAddr::V6(Ipv6Addr::from_bits(bits))));
        prop_oneof![four, six]
    }

    /// What a supervisor can find: a name for a look-up, an address for the rest.
    pub fn destination() -> impl Strategy<Value = (Destination, Destination)> {
        let transport = prop_oneof![Just(Transport::Tcp), Just(Transport::Udp)];
        let by = prop_oneof![Just(Knowledge::Resolved), Just(Knowledge::HostsFile)];
        let named = (name(), by).prop_map(|(name, by)| Named { name, by });
        let hint = prop::option::of(prop::collection::vec(any::<u8>(), 0..300));
        let names = prop::collection::vec(named, 0..5);
        (name(), address(), any::<u16>(), names, transport, hint).prop_map(
            |(name, ip, port, names, transport, hint)| {
                let place = Place::Address { address: SocketAddr::new(ip, port), names };
                let hint = hint.map(Untrusted::new);
                (Destination::name(name), Destination { place, transport, hint })
            },
        )
    }
}
