//! What a question is about: a name to be judged, an address whose name is asked for, or something that is answered here.
//!
//! Runs as the user in the supervisor, on names that a tool wrote. Nothing here sends anything.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hickory_resolver::proto::rr::{Name, RecordType};

use crate::common::net::HostName;

/// The types that are looked up for a session; to any other question the answer is that this resolver does not know it.
const TYPES: [RecordType; 12] = [
    RecordType::A,
    RecordType::AAAA,
    RecordType::CNAME,
    RecordType::HTTPS,
    RecordType::SVCB,
    RecordType::SRV,
    RecordType::TXT,
    RecordType::MX,
    RecordType::NS,
    RecordType::SOA,
    RecordType::CAA,
    RecordType::PTR,
];

/// Labels of a service that may stand before the name that it is of, and characters of each behind the `_` (RFC 6335, 5.1).
const SERVICE_LABELS: usize = 3;
const SERVICE_CHARACTERS: usize = 15;

/// Names that never leave the machine, with all that is below them, and why.
const KEPT: [&str; 9] = [
    // Multicast DNS (RFC 6762, 3), which is not spoken here.
    "local",
    // Tor (RFC 7686).
    "onion",
    // RFC 6761, 6.4; RFC 9476.
    "invalid",
    "alt",
    // How a program learns of the network's encrypted resolver (RFC 9462), and whether it is to use one of its own: this one.
    "resolver.arpa",
    "use-application-dns.net",
    // What is no address of one host.
    "in-addr.arpa",
    "ip6.arpa",
    "ipv4only.arpa",
];

/// What a question comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// `localhost`, or below it (RFC 6761, 6.3).
    Localhost,
    /// No name that could be of a host, or one that never leaves.
    NoSuchName,
    /// The root.
    Nothing,
    /// Which name an address has.
    Reverse(IpAddr),
    /// A name to look up.
    LookUp {
        /// The name that rules speak of.
        judged: HostName,
        /// The name that is looked up: the same, or a service of it.
        asked: HostName,
    },
}

pub fn is_known(kind: RecordType) -> bool {
    TYPES.contains(&kind)
}

/// The text of a name, for those whose labels are of characters that a host name can have.
fn spelled(name: &Name) -> Option<HostName> {
    let mut text = Vec::new();
    for label in name.iter() {
        // A dot within a label would become one between two.
        if label.iter().any(|byte| matches!(byte, b'.' | 0..=b' ' | 0x7f..)) {
            return None;
        }
        if !text.is_empty() {
            text.push(b'.');
        }
        text.extend_from_slice(label);
    }
    HostName::parse(&text).ok()
}

/// What is asked for by this name and type.
pub fn meaning(name: &Name, kind: RecordType) -> Meaning {
    if name.is_root() {
        return Meaning::Nothing;
    }
    let Some(asked) = spelled(name) else { return Meaning::NoSuchName };
    let is_or_below =
        |other: &str| asked.as_str().strip_suffix(other).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    if is_or_below("localhost") {
        return Meaning::Localhost;
    }
    if kind == RecordType::PTR
        && let Some(address) = reversed(&asked)
    {
        return Meaning::Reverse(address);
    }
    if KEPT.iter().any(|kept| is_or_below(kept)) {
        return Meaning::NoSuchName;
    }
    let judged = match kind {
        RecordType::A | RecordType::AAAA => None,
        _ => host_of_service(&asked),
    };
    Meaning::LookUp { judged: judged.unwrap_or_else(|| asked.clone()), asked }
}

/// `example.org` of `_443._https.example.org`.
fn host_of_service(asked: &HostName) -> Option<HostName> {
    let is_service = |label: &str| {
        let word = label.strip_prefix('_');
        word.is_some_and(|word| (1..=SERVICE_CHARACTERS).contains(&word.len()) && !word.contains('_'))
    };
    let labels: Vec<&str> = asked.labels().collect();
    let count = labels.iter().take(SERVICE_LABELS).take_while(|label| is_service(label)).count();
    let rest = labels.get(count..).filter(|rest| count > 0 && rest.len() >= 2)?;
    HostName::parse(rest.join(".").as_bytes()).ok()
}

/// The address in a whole name below `in-addr.arpa` (RFC 1035, 3.5) or `ip6.arpa` (RFC 3596, 2.5).
fn reversed(name: &HostName) -> Option<IpAddr> {
    let labels: Vec<&str> = name.labels().rev().collect();
    match labels.as_slice() {
        ["arpa", "in-addr", bytes @ ..] if bytes.len() == 4 => {
            let mut octets = [0; 4];
            for (octet, text) in octets.iter_mut().zip(bytes) {
                let plain = *text == "0" || !text.starts_with('0');
                *octet = text.parse().ok().filter(|_| plain && text.bytes().all(|byte| byte.is_ascii_digit()))?;
            }
            Some(Ipv4Addr::from(octets).into())
        }
        ["arpa", "ip6", nibbles @ ..] if nibbles.len() == 32 => {
            let mut bits = 0_u128;
            for text in nibbles {
                let nibble = u128::from_str_radix(text, 16).ok().filter(|_| text.len() == 1)?;
                bits = bits << 4 | nibble;
            }
            Some(Ipv6Addr::from(bits).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ascii(text: &str) -> Name {
        Name::from_ascii(text).unwrap()
    }

    fn of(text: &str, kind: RecordType) -> Meaning {
        meaning(&ascii(text), kind)
    }

    fn look_up(judged: &str, asked: &str) -> Meaning {
        Meaning::LookUp { judged: judged.parse().unwrap(), asked: asked.parse().unwrap() }
    }

    #[test]
    fn every_spelling_asks_for_one_name() {
        for text in ["Registry.NPMjs.org.", "registry.npmjs.org", "REGISTRY.NPMJS.ORG."] {
            assert_eq!(of(text, RecordType::A), look_up("registry.npmjs.org", "registry.npmjs.org"));
        }
    }

    #[test]
    fn what_is_no_name_of_a_host_is_never_asked_for() {
        for labels in [
            vec![b"a\0b".as_slice(), b"example", b"org"],
            vec![b"a%2e", b"example", b"org"],
            vec![b"a.b", b"example", b"org"],
            vec![b"a b", b"example", b"org"],
            vec![b"a\nb", b"example"],
            vec![b"127", b"0", b"0", b"1"],
            vec![b"0x7f000001"],
            vec![b"2130706433"],
            vec![b"\xff\xfe", b"example"],
            vec![b"a\xe3\x80\x82b", b"example"],
        ] {
            let name = Name::from_labels(labels.clone()).unwrap();
            assert_eq!(meaning(&name, RecordType::A), Meaning::NoSuchName, "{labels:?}");
        }
    }

    #[test]
    fn names_of_this_machine_and_of_no_network_stay_here() {
        assert_eq!(of("localhost.", RecordType::A), Meaning::Localhost);
        assert_eq!(of("app.LOCALHOST.", RecordType::AAAA), Meaning::Localhost);
        assert_eq!(of(".", RecordType::NS), Meaning::Nothing);
        for text in ["printer.local.", "x.onion.", "a.invalid.", "_dns.resolver.arpa.", "use-application-dns.net."] {
            assert_eq!(of(text, RecordType::A), Meaning::NoSuchName, "{text}");
        }
        assert_eq!(of("notlocal.", RecordType::A), look_up("notlocal", "notlocal"));
        assert_eq!(of("router.home.arpa.", RecordType::A), look_up("router.home.arpa", "router.home.arpa"));
    }

    #[test]
    fn a_service_is_judged_as_the_host_that_it_is_of() {
        assert_eq!(of("_xmpp._tcp.example.org.", RecordType::SRV), look_up("example.org", "_xmpp._tcp.example.org"));
        assert_eq!(of("_acme-challenge.a.b.org.", RecordType::TXT), look_up("a.b.org", "_acme-challenge.a.b.org"));
        let long = "_0123456789abcdef.example.org";
        assert_eq!(of(long, RecordType::TXT), look_up(long, long));
        let many = "_a._b._c._d.example.org";
        assert_eq!(of(many, RecordType::TXT), look_up("_d.example.org", many));
        assert_eq!(of("_x.example.org", RecordType::A), look_up("_x.example.org", "_x.example.org"));
        assert_eq!(of("_x.org", RecordType::TXT), look_up("_x.org", "_x.org"));
    }

    #[test]
    fn a_whole_reverse_name_is_an_address_and_any_other_is_none() {
        assert_eq!(of("7.2.0.192.in-addr.arpa.", RecordType::PTR), Meaning::Reverse("192.0.2.7".parse().unwrap()));
        let six = format!("7{}.8.b.d.0.1.0.0.2.ip6.arpa.", ".0".repeat(23));
        assert_eq!(of(&six, RecordType::PTR), Meaning::Reverse("2001:db8::7".parse().unwrap()));
        for text in ["2.0.192.in-addr.arpa.", "256.0.0.1.in-addr.arpa.", "01.0.0.1.in-addr.arpa."] {
            assert_eq!(of(text, RecordType::PTR), Meaning::NoSuchName, "{text}");
        }
        assert_eq!(of("7.2.0.192.in-addr.arpa.", RecordType::TXT), Meaning::NoSuchName);
    }
}
