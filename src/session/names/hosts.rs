//! The host's own names: hosts(5).
//!
//! Runs as the user in the supervisor, and as root while the session is built. The file is the admin's; what cannot be read in
//! it is passed over, as the C library does.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::common::net::{HostName, Knowledge, Named, canonical};

/// Lines with names that some admins have for blocking run to some hundred thousand.
const NAMES_AT_MOST: usize = 500_000;
/// Names of one address that a connection to it is judged by.
const NAMES_OF_ONE: usize = 64;

/// A hosts file.
#[derive(Debug, Default)]
pub struct Hosts {
    by_name: HashMap<HostName, Vec<IpAddr>>,
    by_address: HashMap<IpAddr, Vec<HostName>>,
}

impl Hosts {
    pub fn parse(text: &[u8]) -> Hosts {
        let mut hosts = Hosts::default();
        let lines = text.split(|&byte| byte == b'\n');
        for (address, name) in lines.flat_map(entries).take(NAMES_AT_MOST) {
            hosts.add(address, name);
        }
        hosts
    }

    fn add(&mut self, address: IpAddr, name: HostName) {
        let addresses = self.by_name.entry(name.clone()).or_default();
        if addresses.contains(&address) {
            return;
        }
        addresses.push(address);
        let names = self.by_address.entry(address).or_default();
        // A file that blocks names gives thousands to one address that leads nowhere.
        if names.len() < NAMES_OF_ONE {
            names.push(name);
        }
    }

    /// `None` if the file does not have this name; its addresses of either family if it does.
    pub fn addresses_of(&self, name: &HostName) -> Option<&[IpAddr]> {
        self.by_name.get(name).map(Vec::as_slice)
    }

    /// The names of an address. The unspecified one has none: it is there to block names.
    pub fn names_of(&self, address: IpAddr) -> Vec<Named> {
        let address = canonical(address);
        if address.is_unspecified() {
            return Vec::new();
        }
        let names = self.by_address.get(&address).map(Vec::as_slice).unwrap_or_default();
        names.iter().map(|name| Named { name: name.clone(), by: Knowledge::HostsFile }).collect()
    }
}

/// The pairs of one line.
fn entries(line: &[u8]) -> impl Iterator<Item = (IpAddr, HostName)> {
    let line = line.split(|&byte| byte == b'#').next().unwrap_or_default();
    let mut words = line.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty());
    let address = words.next().and_then(|word| std::str::from_utf8(word).ok()?.parse::<IpAddr>().ok());
    let names = words.filter_map(|word| HostName::parse(word).ok());
    address.into_iter().flat_map(move |address| names.clone().map(move |name| (canonical(address), name)))
}

/// The names that mean this machine, in every hosts file of a session (RFC 6761, 6.3).
const OWN: [(IpAddr, &str); 2] = [
    (IpAddr::V4(Ipv4Addr::LOCALHOST), "localhost"),
    (IpAddr::V6(Ipv6Addr::LOCALHOST), "localhost ip6-localhost ip6-loopback"),
];

/// The session's own hosts file: `localhost` and the host's own name in any case, then all that the host's has.
pub fn for_session(host: &[u8], host_name: Option<&HostName>) -> Vec<u8> {
    let known = Hosts::parse(host);
    let mut text = Vec::new();
    for (address, names) in OWN {
        let has =
            known.by_address.get(&address).is_some_and(|names| names.iter().any(|name| name.as_str() == "localhost"));
        if !has {
            text.extend_from_slice(format!("{address}\t{names}\n").as_bytes());
        }
    }
    if let Some(name) = host_name.filter(|name| known.addresses_of(name).is_none()) {
        text.extend_from_slice(format!("127.0.1.1\t{name}\n").as_bytes());
    }
    text.extend_from_slice(host);
    if !text.ends_with(b"\n") {
        text.push(b'\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &[u8] = b"127.0.0.1 localhost\n# 192.0.2.9 comment\n192.0.2.7\tDB.internal db # the database\n\
        ::1 ip6-localhost\n2001:db8::7 db\nnonsense here\n192.0.2.8 bad%name good.example\n0.0.0.0 ads.example\n\xff\xfe\n";

    #[test]
    fn a_hosts_file_is_read_as_the_c_library_reads_it() {
        let hosts = Hosts::parse(FILE);
        let addresses = |name: &str| hosts.addresses_of(&name.parse().unwrap()).map(<[IpAddr]>::to_vec);
        assert_eq!(addresses("db").unwrap().len(), 2);
        assert_eq!(addresses("db.internal").unwrap(), ["192.0.2.7".parse::<IpAddr>().unwrap()]);
        assert_eq!(addresses("good.example").unwrap().len(), 1);
        assert_eq!(addresses("comment"), None);
        let names: Vec<_> = hosts.names_of("192.0.2.7".parse().unwrap());
        assert_eq!(names.iter().map(|named| named.name.as_str()).collect::<Vec<_>>(), ["db.internal", "db"]);
        assert!(names.iter().all(|named| named.by == Knowledge::HostsFile));
        assert!(hosts.names_of("0.0.0.0".parse().unwrap()).is_empty());
    }

    #[test]
    fn a_sessions_file_always_knows_itself_and_keeps_what_the_host_has() {
        let text = for_session(FILE, Some(&"machine".parse().unwrap()));
        let hosts = Hosts::parse(&text);
        assert!(hosts.addresses_of(&"machine".parse().unwrap()).is_some());
        assert_eq!(hosts.addresses_of(&"localhost".parse().unwrap()).unwrap().len(), 2);
        assert!(hosts.addresses_of(&"db".parse().unwrap()).is_some());
        assert_eq!(
            text.iter().filter(|&&byte| byte == b'\n').count(),
            FILE.iter().filter(|&&byte| byte == b'\n').count() + 2
        );
        assert!(Hosts::parse(&for_session(b"", None)).addresses_of(&"localhost".parse().unwrap()).is_some());
    }
}
