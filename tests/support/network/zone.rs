//! What a server of names knows.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::message::{CNAME, NXDOMAIN, Record};
use super::{API, METADATA, OTHER, PRIVATE, SILENT, SILENT6, WWW, WWW6};

/// For how many seconds the records of [`Zone::usual`] may be kept.
pub const TTL: u32 = 60;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Data {
    A(Ipv4Addr),
    Aaaa(Ipv6Addr),
    Cname(String),
    Ns(String),
    Ptr(String),
    Txt(String),
    Srv { priority: u16, weight: u16, port: u16, target: String },
    Https { priority: u16, target: String, hints: Vec<Ipv4Addr> },
}

impl From<IpAddr> for Data {
    fn from(address: IpAddr) -> Data {
        match address {
            IpAddr::V4(address) => Data::A(address),
            IpAddr::V6(address) => Data::Aaaa(address),
        }
    }
}

/// What happens to a question about a name.
#[derive(Clone, Debug)]
enum Entry {
    /// One set of records after the other, one for each question of a type of theirs; the last remains.
    Records { ttl: u32, sets: Vec<Vec<Data>>, next: usize },
    /// A code of RFC 1035, 4.1.1, without records.
    Failure(u8),
    /// Nothing comes back.
    Silence,
}

/// Names in lower case, without a dot at the end. A name that is not here does not exist (NXDOMAIN).
#[derive(Clone, Debug, Default)]
pub struct Zone {
    entries: HashMap<String, Entry>,
}

/// An answer: a code and records. `None` is none at all.
pub type Answer = Option<(u8, Vec<Record>)>;

impl Zone {
    /// The names of a world:
    ///
    /// | name | what |
    /// |---|---|
    /// | www.example.org | [`WWW`], [`WWW6`], an HTTPS record, and PTR back |
    /// | api.example.org, v4.example.org | [`API`] |
    /// | v6.example.org | [`WWW6`] |
    /// | other.example.net | [`OTHER`] |
    /// | alias.example.org | CNAME www.example.org |
    /// | away.example.org | CNAME other.example.net |
    /// | loop.example.org | CNAME loop.example.org |
    /// | silent.example.org | [`SILENT`], [`SILENT6`] |
    /// | intra.example.org | [`PRIVATE`] |
    /// | metadata.example.org | [`METADATA`] |
    /// | self.example.org | 127.0.0.1 and ::1 |
    /// | text.example.org | TXT, 11 bytes |
    /// | long.example.org | TXT, 4000 bytes: by TCP alone |
    /// | _http._tcp.example.org | SRV, port 80 of www.example.org |
    /// | broken.example.org, refused.example.org | SERVFAIL, REFUSED |
    /// | mute.example.org | no answer |
    pub fn usual() -> Zone {
        let mut zone = Zone::default();
        let www = Ipv4Addr::new(192, 0, 2, 10);
        let https = Data::Https { priority: 1, target: ".".into(), hints: vec![www] };
        let alias = |to: &str| Data::Cname(to.into());
        let text = |text: &str| Data::Txt(text.into());
        zone.set("www.example.org", TTL, vec![WWW.into(), WWW6.into(), https]);
        zone.set("10.2.0.192.in-addr.arpa", TTL, vec![Data::Ptr("www.example.org".into())]);
        zone.set("api.example.org", TTL, vec![API.into()]);
        zone.set("v4.example.org", TTL, vec![API.into()]);
        zone.set("v6.example.org", TTL, vec![WWW6.into()]);
        zone.set("other.example.net", TTL, vec![OTHER.into()]);
        zone.set("alias.example.org", TTL, vec![alias("www.example.org")]);
        zone.set("away.example.org", TTL, vec![alias("other.example.net")]);
        zone.set("loop.example.org", TTL, vec![alias("loop.example.org")]);
        zone.set("silent.example.org", TTL, vec![SILENT.into(), SILENT6.into()]);
        zone.set("intra.example.org", TTL, vec![PRIVATE.into()]);
        zone.set("metadata.example.org", TTL, vec![METADATA.into()]);
        zone.set("self.example.org", TTL, vec![Data::A(Ipv4Addr::LOCALHOST), Data::Aaaa(Ipv6Addr::LOCALHOST)]);
        zone.set("text.example.org", TTL, vec![text("hello world")]);
        zone.set("long.example.org", TTL, vec![text(&"x".repeat(4000))]);
        let target = "www.example.org".into();
        zone.set("_http._tcp.example.org", TTL, vec![Data::Srv { priority: 1, weight: 1, port: 80, target }]);
        zone.fail("broken.example.org", 2);
        zone.fail("refused.example.org", 5);
        zone.hush("mute.example.org");
        zone
    }

    /// Gives a name these records, in place of what it had.
    pub fn set(&mut self, name: &str, ttl: u32, records: Vec<Data>) {
        self.change(name, ttl, vec![records]);
    }

    /// Answers change: the first set for the first question of a type in it, and so on; the last remains.
    pub fn change(&mut self, name: &str, ttl: u32, sets: Vec<Vec<Data>>) {
        self.entries.insert(name.to_ascii_lowercase(), Entry::Records { ttl, sets, next: 0 });
    }

    /// Answers with a code of RFC 1035 (1 FORMERR, 2 SERVFAIL, 3 NXDOMAIN, 4 NOTIMP, 5 REFUSED).
    pub fn fail(&mut self, name: &str, code: u8) {
        self.entries.insert(name.to_ascii_lowercase(), Entry::Failure(code));
    }

    /// Never answers.
    pub fn hush(&mut self, name: &str) {
        self.entries.insert(name.to_ascii_lowercase(), Entry::Silence);
    }

    pub fn remove(&mut self, name: &str) {
        self.entries.remove(&name.to_ascii_lowercase());
    }

    /// Answers a question, aliases followed.
    pub fn answer(&mut self, name: &str, kind: u16) -> Answer {
        let mut records = Vec::new();
        let mut name = name.to_owned();
        // An alias that leads to itself ends here.
        for _ in 0..8 {
            let (ttl, set) = match self.entries.get_mut(&name.to_ascii_lowercase()) {
                None => return Some((NXDOMAIN, records)),
                Some(Entry::Failure(code)) => return Some((*code, records)),
                Some(Entry::Silence) => return None,
                Some(Entry::Records { ttl, sets, next }) => {
                    let set = sets.get(*next).cloned().unwrap_or_default();
                    if set.iter().any(|data| data.kind() == kind) && *next + 1 < sets.len() {
                        *next += 1;
                    }
                    (*ttl, set)
                }
            };
            let alias = set.iter().find_map(|data| match data {
                Data::Cname(to) if kind != CNAME => Some(to.clone()),
                _ => None,
            });
            let wanted = set.into_iter().filter(|data| data.kind() == kind || data.kind() == CNAME);
            records.extend(wanted.map(|data| Record { owner: name.clone(), ttl, data }));
            match alias {
                Some(to) => name = to,
                None => break,
            }
        }
        Some((0, records))
    }
}
