//! Addresses of sockets as a tool gives them, and as programs spell them.

use std::net::{IpAddr, SocketAddr};

use gated::common::errno::Errno;
use gated::common::net::{Zone, canonical, embedded_v4};
use gated::session::net::address;
use gated::session::net::unix::address::Address;
use rustix::net::AddressFamily;

/// The bytes of a `struct sockaddr`.
pub fn check(bytes: &[u8]) {
    for domain in [AddressFamily::INET, AddressFamily::INET6] {
        internet(bytes, domain);
    }
    unix(bytes);
}

fn internet(bytes: &[u8], domain: AddressFamily) {
    let (own, other) = if domain == AddressFamily::INET { (libc::AF_INET, 16) } else { (libc::AF_INET6, 24) };
    let parsed = address::parse(bytes, domain);
    match parsed {
        Err(errno) if bytes.len() < other => assert_eq!(errno, Errno::INVAL),
        Err(errno) => assert!(errno == Errno::AFNOSUPPORT && address::family_of(bytes) != Some(own)),
        Ok(found) => {
            assert_eq!(address::family_of(bytes), Some(own));
            assert_eq!(address::domain_of(found), domain);
            assert_eq!(found.port().to_be_bytes(), bytes[2..4]);
            whole(found);
        }
    }
    match (parsed, address::parse_for_bind(bytes, domain)) {
        (Ok(one), other) => assert_eq!(other, Ok(one)),
        (Err(_), Ok(any)) => assert!(any.ip().is_unspecified() && any.is_ipv4() && address::is_unspecified(bytes)),
        (Err(one), Err(other)) => assert_eq!(one, other),
    }
}

fn whole(found: SocketAddr) {
    // What is acted upon is what was judged.
    let again = address::of_bytes(&address::to_bytes(found));
    assert_eq!(again, Some(found));
    let meant = address::meant(found);
    assert!(!meant.ip().is_unspecified() && meant.port() == found.port());
    assert_eq!(canonical(meant.ip()), meant.ip());
    assert_eq!(address::meant(meant), meant);
    let is_here = canonical(found.ip()).is_loopback() || canonical(found.ip()).is_unspecified();
    assert_eq!(address::is_loopback(found.ip()), is_here);
    for domain in [AddressFamily::INET, AddressFamily::INET6] {
        if let Some(moved) = address::for_domain(found, domain) {
            assert_eq!(address::domain_of(moved), domain);
            assert_eq!((canonical(moved.ip()), moved.port()), (canonical(found.ip()), found.port()));
        }
    }
    zones(found.ip());
}

fn zones(ip: IpAddr) {
    assert_eq!(canonical(canonical(ip)), canonical(ip));
    assert_eq!(Zone::of(ip), Zone::of(canonical(ip)));
    // However an address of this machine is spelled, it is none of the internet.
    if let Some(inner) = embedded_v4(ip)
        && Zone::of(inner) != Zone::Public
    {
        assert_ne!(Zone::of(ip), Zone::Public, "{ip} leads to {inner}");
    }
}

fn unix(bytes: &[u8]) {
    match Address::parse(bytes) {
        Err(errno) => assert_eq!(errno, Errno::INVAL),
        Ok(found) => {
            assert!((2..=110).contains(&bytes.len()));
            assert_eq!(bytes[..2], (libc::AF_UNIX as u16).to_ne_bytes());
            match found {
                Address::Unnamed => assert_eq!(bytes.len(), 2),
                Address::Abstract(name) => assert_eq!(name, bytes[3..]),
                Address::Path(path) => {
                    assert!(!path.is_empty() && bytes[2..].starts_with(path.to_bytes()));
                    assert!(matches!(bytes.get(2 + path.count_bytes()), None | Some(0)));
                }
            }
        }
    }
}
