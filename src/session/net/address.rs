//! Internet addresses as the kernel reads them, ip(7) and ipv6(7): one copy of the tool's bytes in, the bytes that are acted
//! upon out.
//!
//! Pure.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use rustix::net::AddressFamily;

use crate::common::errno::Errno;
use crate::common::net::canonical;
use crate::tool::network::{OWN_V4, OWN_V6};

/// `sizeof(struct sockaddr_in)`.
const V4_BYTES: usize = 16;
/// `SIN6_LEN_RFC2133`: without the scope, which is then 0.
const V6_LEAST: usize = 24;

/// The port of DNS, at every address of which the session's own resolver answers.
pub const DOMAIN: u16 = 53;

/// An address of a family that no internet socket takes, long enough for each: connect(2) with it waits, or says what state
/// a socket is in, and begins nothing (`EAFNOSUPPORT`, `tcp_v4_connect`, `tcp_v6_connect`).
pub const UNSUITABLE: [u8; 128] = {
    let mut bytes = [0; 128];
    bytes[0] = 0xff;
    bytes[1] = 0xff;
    bytes
};

/// The family that these bytes name; `None` if they are too few.
pub fn family_of(bytes: &[u8]) -> Option<i32> {
    bytes.first_chunk().map(|family| i32::from(u16::from_ne_bytes(*family)))
}

/// Whether connect(2) with these bytes ends an association.
pub fn is_unspecified(bytes: &[u8]) -> bool {
    family_of(bytes) == Some(libc::AF_UNSPEC)
}

/// What these bytes mean to an internet socket of this domain. `EINVAL` for too few, `EAFNOSUPPORT` for another family.
pub fn parse(bytes: &[u8], domain: AddressFamily) -> Result<SocketAddr, Errno> {
    let least = if domain == AddressFamily::INET { V4_BYTES } else { V6_LEAST };
    if bytes.len() < least {
        return Err(Errno::INVAL);
    }
    if family_of(bytes) != Some(i32::from(domain.as_raw())) {
        return Err(Errno::AFNOSUPPORT);
    }
    of_bytes(bytes).ok_or(Errno::INVAL)
}

/// What bind(2) takes besides [`parse`]: `AF_UNSPEC` with the unspecified address, as IPv4 (`__inet_bind`).
pub fn parse_for_bind(bytes: &[u8], domain: AddressFamily) -> Result<SocketAddr, Errno> {
    let is_any = domain == AddressFamily::INET && is_unspecified(bytes) && bytes.get(4..8) == Some(&[0; 4]);
    if is_any && bytes.len() >= V4_BYTES {
        return Ok(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port_of(bytes)));
    }
    parse(bytes, domain)
}

fn port_of(bytes: &[u8]) -> u16 {
    bytes.get(2..).and_then(<[u8]>::first_chunk).map_or(0, |port| u16::from_be_bytes(*port))
}

/// An internet address of either family; `None` for others.
pub fn of_bytes(bytes: &[u8]) -> Option<SocketAddr> {
    let port = port_of(bytes);
    let word = |at: usize| bytes.get(at..).and_then(<[u8]>::first_chunk::<4>).copied();
    match family_of(bytes)? {
        libc::AF_INET => Some(SocketAddrV4::new(Ipv4Addr::from(word(4)?), port).into()),
        libc::AF_INET6 => {
            let address: [u8; 16] = *bytes.get(8..)?.first_chunk()?;
            let scope = word(V6_LEAST).map_or(0, u32::from_ne_bytes);
            let flow = u32::from_ne_bytes(word(4)?);
            Some(SocketAddrV6::new(Ipv6Addr::from(address), port, flow, scope).into())
        }
        _ => None,
    }
}

/// As the kernel takes it.
pub fn to_bytes(address: SocketAddr) -> Vec<u8> {
    let family = |family: i32| (family as u16).to_ne_bytes();
    let port = address.port().to_be_bytes();
    match address {
        SocketAddr::V4(address) => [&family(libc::AF_INET)[..], &port, &address.ip().octets(), &[0; 8]].concat(),
        SocketAddr::V6(address) => {
            let (flow, scope) = (address.flowinfo().to_ne_bytes(), address.scope_id().to_ne_bytes());
            [&family(libc::AF_INET6)[..], &port, &flow, &address.ip().octets(), &scope].concat()
        }
    }
}

/// The domain of sockets that have such addresses.
pub fn domain_of(address: SocketAddr) -> AddressFamily {
    if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 }
}

/// The same address for a socket of this domain: IPv4 as `::ffff:` on an IPv6 one. `None` where there is none.
pub fn for_domain(address: SocketAddr, domain: AddressFamily) -> Option<SocketAddr> {
    match (address.ip(), domain) {
        (IpAddr::V4(ip), AddressFamily::INET6) => Some(SocketAddr::new(ip.to_ipv6_mapped().into(), address.port())),
        (IpAddr::V6(_), AddressFamily::INET) => {
            let ip = canonical(address.ip());
            ip.is_ipv4().then(|| SocketAddr::new(ip, address.port()))
        }
        _ => Some(address),
    }
}

/// Where a connection to this address goes: the unspecified address is this machine (`tcp_v4_connect`), and `::ffff:` is
/// IPv4.
pub fn meant(address: SocketAddr) -> SocketAddr {
    let ip = match canonical(address.ip()) {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// Whether this is an address that only the session has: what its `lo` has besides loopback.
pub fn is_own(address: IpAddr) -> bool {
    match canonical(address) {
        IpAddr::V4(ip) => ip == OWN_V4,
        IpAddr::V6(ip) => ip == OWN_V6,
    }
}

/// Whether packets to this address stay in the network that they are sent in.
pub fn is_loopback(address: IpAddr) -> bool {
    let ip = canonical(address);
    ip.is_loopback() || ip.is_unspecified()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_what_is_written() {
        for text in ["192.0.2.7:443", "[2001:db8::7]:1", "[fe80::1%3]:80", "[::ffff:10.0.0.1]:65535", "0.0.0.0:0"] {
            let address: SocketAddr = text.parse().unwrap();
            assert_eq!(of_bytes(&to_bytes(address)), Some(address), "{text}");
        }
    }

    #[test]
    fn bytes_that_are_no_address_give_the_kernels_errors() {
        let v4 = to_bytes("192.0.2.7:443".parse().unwrap());
        let v6 = to_bytes("[2001:db8::7]:443".parse().unwrap());
        for (bytes, domain, expected) in [
            (&v4[..15], AddressFamily::INET, Errno::INVAL),
            (&[][..], AddressFamily::INET6, Errno::INVAL),
            (&v6[..23], AddressFamily::INET6, Errno::INVAL),
            (&v6[..], AddressFamily::INET, Errno::AFNOSUPPORT),
            (&UNSUITABLE[..], AddressFamily::INET6, Errno::AFNOSUPPORT),
            (&v4[..], AddressFamily::INET6, Errno::INVAL),
        ] {
            assert_eq!(parse(bytes, domain), Err(expected), "{bytes:?}");
        }
        assert!(parse(&v6[..24], AddressFamily::INET6).is_ok(), "a scope is not needed");
    }

    #[test]
    fn every_way_to_say_this_machine_is_one() {
        for text in ["0.0.0.0:1", "[::ffff:0.0.0.0]:1", "[::ffff:127.0.0.1]:1"] {
            assert_eq!(meant(text.parse().unwrap()), "127.0.0.1:1".parse().unwrap(), "{text}");
        }
        assert_eq!(meant("[::]:1".parse().unwrap()), "[::1]:1".parse().unwrap());
        assert!(is_loopback("::ffff:127.8.8.8".parse().unwrap()) && is_loopback("::".parse().unwrap()));
    }
}
