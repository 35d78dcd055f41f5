//! What kind of place an address is (IANA special-purpose address registries, RFC 6890), in one canonical form.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};

/// Where an address leads. All but [`Zone::Public`] are places that no name from DNS can give access to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Zone {
    /// The internet, the ranges for documentation included.
    Public,
    /// This machine: `127.0.0.0/8`, `::1`, and the unspecified address, which connect(2) takes for it.
    Loopback,
    /// Private networks: RFC 1918, RFC 6598, RFC 4193.
    Private,
    /// The same link: `169.254.0.0/16`, `fe80::/10`.
    LinkLocal,
    /// Where clouds keep credentials: `169.254.169.254`, `fd00:ec2::254`, `100.100.100.200`.
    Metadata,
    /// What is no single host, or reserved: multicast, broadcast, `0.0.0.0/8`, `240.0.0.0/4`.
    Special,
}

impl Zone {
    pub fn of(address: IpAddr) -> Zone {
        match canonical(address) {
            IpAddr::V4(address) => of_v4(address),
            IpAddr::V6(address) => of_v6(address),
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Zone::Public => "public",
            Zone::Loopback => "loopback",
            Zone::Private => "private",
            Zone::LinkLocal => "link-local",
            Zone::Metadata => "metadata",
            Zone::Special => "special",
        }
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The address that packets would really go to as far as this host decides it: `::ffff:192.0.2.1` is `192.0.2.1`.
pub fn canonical(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(six) => six.to_ipv4_mapped().map_or(address, IpAddr::V4),
        IpAddr::V4(_) => address,
    }
}

/// The IPv4 address that a gateway would turn this one into: NAT64, 6to4, and the IPv4-compatible form.
pub fn embedded_v4(address: IpAddr) -> Option<IpAddr> {
    match address {
        IpAddr::V6(six) if !six.is_loopback() && !six.is_unspecified() => embedded(six.segments()).map(IpAddr::V4),
        _ => None,
    }
}

fn of_v4(address: Ipv4Addr) -> Zone {
    let [first, second, third, fourth] = address.octets();
    match (first, second) {
        (169, 254) if (third, fourth) == (169, 254) => Zone::Metadata,
        (100, 100) if (third, fourth) == (100, 200) => Zone::Metadata,
        // Azure's WireServer, Oracle's classic clouds: in public ranges.
        (168, 63) if (third, fourth) == (129, 16) => Zone::Metadata,
        (192, 0) if (third, fourth) == (0, 192) => Zone::Metadata,
        (127, _) => Zone::Loopback,
        _ if address.is_unspecified() => Zone::Loopback,
        (10, _) | (192, 168) | (172, 16..=31) | (100, 64..=127) => Zone::Private,
        (169, 254) => Zone::LinkLocal,
        // Protocol assignments (RFC 6890).
        (192, 0) if third == 0 => Zone::Special,
        (0 | 224..=255, _) => Zone::Special,
        _ => Zone::Public,
    }
}

fn of_v6(address: Ipv6Addr) -> Zone {
    const METADATA: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);
    let segments = address.segments();
    if address == METADATA {
        return Zone::Metadata;
    }
    if address.is_loopback() || address.is_unspecified() {
        return Zone::Loopback;
    }
    // What a gateway would turn into an IPv4 address is judged as that: NAT64 (RFC 6052), 6to4 (RFC 3056), and the
    // deprecated IPv4-compatible form (RFC 4291).
    if let Some(inner) = embedded(segments) {
        return of_v4(inner);
    }
    match segments {
        [0xfe80..=0xfebf, ..] => Zone::LinkLocal,
        // Unique local, and the deprecated site-local.
        [0xfc00..=0xfdff, ..] | [0xfec0..=0xfeff, ..] => Zone::Private,
        [0xff00..=0xffff, ..] => Zone::Special,
        // Local-use NAT64 (RFC 8215) leads into the operator's own network.
        [0x64, 0xff9b, 1, ..] => Zone::Private,
        _ => Zone::Public,
    }
}

fn embedded(segments: [u16; 8]) -> Option<Ipv4Addr> {
    let (high, low) = match segments {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0, 0, 0, 0, 0, 0, high, low] => (high, low),
        // SIIT (RFC 2765).
        [0, 0, 0, 0, 0xffff, 0, high, low] => (high, low),
        [0x2002, high, low, ..] => (high, low),
        // Teredo (RFC 4380) has the bits inverted.
        [0x2001, 0, _, _, _, _, high, low] => (!high, !low),
        _ => return None,
    };
    let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
    Some(Ipv4Addr::new(a, b, c, d))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_is_in_its_zone() {
        for (address, expected) in [
            ("93.184.215.14", Zone::Public),
            ("192.0.2.1", Zone::Public),
            ("2001:db8::1", Zone::Public),
            ("127.9.9.9", Zone::Loopback),
            ("0.0.0.0", Zone::Loopback),
            ("::", Zone::Loopback),
            ("::1", Zone::Loopback),
            ("::ffff:127.0.0.1", Zone::Loopback),
            ("10.1.2.3", Zone::Private),
            ("172.31.255.255", Zone::Private),
            ("172.32.0.0", Zone::Public),
            ("192.168.1.1", Zone::Private),
            ("100.64.0.1", Zone::Private),
            ("fd12::1", Zone::Private),
            ("169.254.1.1", Zone::LinkLocal),
            ("fe80::1", Zone::LinkLocal),
            ("169.254.169.254", Zone::Metadata),
            ("::ffff:169.254.169.254", Zone::Metadata),
            ("64:ff9b::a9fe:a9fe", Zone::Metadata),
            ("2002:a9fe:a9fe::1", Zone::Metadata),
            ("::a9fe:a9fe", Zone::Metadata),
            ("::ffff:0:a9fe:a9fe", Zone::Metadata),
            ("2001:0:1:2:3:4:5601:5601", Zone::Metadata),
            ("fd00:ec2::254", Zone::Metadata),
            ("168.63.129.16", Zone::Metadata),
            ("192.0.0.192", Zone::Metadata),
            ("192.0.0.8", Zone::Special),
            ("64:ff9b::c000:201", Zone::Public),
            ("224.0.0.251", Zone::Special),
            ("255.255.255.255", Zone::Special),
            ("0.1.2.3", Zone::Special),
            ("ff02::fb", Zone::Special),
        ] {
            assert_eq!(Zone::of(address.parse().unwrap()), expected, "{address}");
        }
    }
}
