//! Host names in one canonical form, and patterns on them.
//!
//! | pattern | matches |
//! |---|---|
//! | `registry.npmjs.org:443` | that name, that port |
//! | `*.npmjs.org:443` | every name below `npmjs.org`, at any depth, and not `npmjs.org` itself |
//! | `*:443` | every name |
//! | `192.0.2.7:443`, `[2001:db8::7]:443` | that address, whatever its names |
//! | `localhost:3000-3999`, `example.org:*` | a range of ports, every port |

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::target::Knowledge;
use super::zone::canonical;

/// RFC 1035, 2.3.4, without the root's dot.
const NAME_BYTES: usize = 253;
const LABEL_BYTES: usize = 63;

/// What is no name of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostNameError {
    #[error("it is empty, or has an empty label")]
    Empty,
    #[error("a name has at most 253 characters, a label at most 63")]
    TooLong,
    #[error("letters, digits, `-` and `_` were expected")]
    Character,
    #[error("it ends in a number, as addresses do")]
    Numeric,
}

/// The name of a host: lower-case A-labels (RFC 5890) separated by dots, without a dot at the end. Letters, digits, `-` and
/// `_`; never something that some program takes for an address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HostName(String);

impl HostName {
    /// From any spelling: upper case, one dot at the end, Unicode (UTS 46).
    pub fn parse(text: &[u8]) -> Result<HostName, HostNameError> {
        let text = text.strip_suffix(b".").unwrap_or(text);
        if text.len() > 4 * NAME_BYTES {
            return Err(HostNameError::TooLong);
        }
        let name = idna::domain_to_ascii_cow(text, idna::AsciiDenyList::URL).map_err(|_| HostNameError::Character)?;
        if name.len() > NAME_BYTES {
            return Err(HostNameError::TooLong);
        }
        for label in name.split('.') {
            match label.len() {
                0 => return Err(HostNameError::Empty),
                1..=LABEL_BYTES => {}
                _ => return Err(HostNameError::TooLong),
            }
            if !label.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_')) {
                return Err(HostNameError::Character);
            }
        }
        // inet_aton(3) takes `2130706433`, `0x7f.1` and `127.1` for addresses.
        let last = name.rsplit('.').next().unwrap_or_default();
        let digits = last.strip_prefix("0x");
        let is_number = last.bytes().all(|byte| byte.is_ascii_digit())
            || digits.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        if is_number { Err(HostNameError::Numeric) } else { Ok(HostName(name.into_owned())) }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn labels(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.0.split('.')
    }

    /// Whether this is strictly below `domain`.
    pub fn is_below(&self, domain: &HostName) -> bool {
        self.0.strip_suffix(domain.as_str()).is_some_and(|rest| rest.ends_with('.'))
    }

    /// The domain that somebody registered (public suffix list): `npmjs.org` of `registry.npmjs.org`, and of itself.
    /// `None` for a public suffix and for a single label.
    pub fn registrable(&self) -> Option<HostName> {
        // The list has its suffixes in Unicode.
        let (unicode, valid) = idna::domain_to_unicode(&self.0);
        let domain = psl::domain(unicode.as_bytes()).filter(|domain| valid.is_ok() && domain.suffix().is_known())?;
        let labels = domain.as_bytes().iter().filter(|&&byte| byte == b'.').count().saturating_add(1);
        let above = self.labels().count().checked_sub(labels)?;
        let name: Vec<&str> = self.labels().skip(above).collect();
        (labels > 1).then(|| HostName(name.join(".")))
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for HostName {
    type Err = HostNameError;
    fn from_str(text: &str) -> Result<HostName, HostNameError> {
        HostName::parse(text.as_bytes())
    }
}

impl TryFrom<String> for HostName {
    type Error = HostNameError;
    fn try_from(text: String) -> Result<HostName, HostNameError> {
        HostName::parse(text.as_bytes())
    }
}

impl From<HostName> for String {
    fn from(name: HostName) -> String {
        name.0
    }
}

/// A name of an address, and how it is known to be one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Named {
    pub name: HostName,
    pub by: Knowledge,
}

/// A set of names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum HostPattern {
    Exact(HostName),
    /// `*.domain`: strictly below it.
    Below(HostName),
    /// `*`
    Any,
}

impl HostPattern {
    pub fn matches(&self, name: &HostName) -> bool {
        match self {
            HostPattern::Exact(own) => own == name,
            HostPattern::Below(domain) => name.is_below(domain),
            HostPattern::Any => true,
        }
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostPattern::Exact(name) => name.fmt(f),
            HostPattern::Below(domain) => write!(f, "*.{domain}"),
            HostPattern::Any => f.write_str("*"),
        }
    }
}

/// A range of ports, both ends included; never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Ports {
    first: u16,
    last: u16,
}

impl Ports {
    pub const ANY: Ports = Ports { first: 0, last: u16::MAX };

    pub fn one(port: u16) -> Ports {
        Ports { first: port, last: port }
    }

    pub fn contains(self, port: u16) -> bool {
        (self.first..=self.last).contains(&port)
    }

    pub fn first(self) -> u16 {
        self.first
    }

    pub fn last(self) -> u16 {
        self.last
    }
}

impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Ports::ANY => f.write_str("*"),
            Ports { first, last } if first == last => first.fmt(f),
            Ports { first, last } => write!(f, "{first}-{last}"),
        }
    }
}

impl FromStr for Ports {
    type Err = HostTermError;
    fn from_str(text: &str) -> Result<Ports, HostTermError> {
        let number = |digits: &str| {
            let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            plain.then(|| digits.parse::<u16>().ok()).flatten().ok_or(HostTermError::Port)
        };
        let ports = match text.split_once('-') {
            _ if text == "*" => Ports::ANY,
            Some((first, last)) => Ports { first: number(first)?, last: number(last)? },
            None => Ports::one(number(text)?),
        };
        if ports.first <= ports.last { Ok(ports) } else { Err(HostTermError::Port) }
    }
}

/// The host of a [`HostTerm`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum TermHost {
    Name(HostPattern),
    /// Canonical.
    Address(IpAddr),
}

/// `host:ports` of the policy language, of grants and of answers. Serialised as its text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HostTerm {
    pub host: TermHost,
    pub ports: Ports,
}

/// A term that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostTermError {
    #[error(
        "`host:port` was expected, such as `example.org:443`, `*.example.org:443`, `[2001:db8::1]:443` or `example.org:*`"
    )]
    NoPort,
    #[error("a port, a range `first-last` or `*` was expected after the colon, from 0 to 65535")]
    Port,
    #[error("no host name: {0}")]
    Name(#[from] HostNameError),
    #[error("`*` stands for all that is before a dot, as in `*.example.org`, or alone")]
    Star,
    #[error("no IPv6 address between the brackets")]
    Address,
}

impl HostTerm {
    pub fn matches_name(&self, name: &HostName, port: u16) -> bool {
        matches!(&self.host, TermHost::Name(pattern) if pattern.matches(name)) && self.ports.contains(port)
    }

    /// `address` canonical.
    pub fn matches_address(&self, address: IpAddr, port: u16) -> bool {
        matches!(self.host, TermHost::Address(own) if own == address) && self.ports.contains(port)
    }
}

impl FromStr for HostTerm {
    type Err = HostTermError;
    fn from_str(text: &str) -> Result<HostTerm, HostTermError> {
        let (host, ports) = text.rsplit_once(':').ok_or(HostTermError::NoPort)?;
        let ports = ports.parse()?;
        let host = match host.strip_prefix('[') {
            Some(rest) => {
                let inner = rest.strip_suffix(']').ok_or(HostTermError::Address)?;
                let address: Ipv6Addr = inner.parse().map_err(|_| HostTermError::Address)?;
                TermHost::Address(canonical(address.into()))
            }
            None => match host.parse::<Ipv4Addr>() {
                Ok(address) => TermHost::Address(address.into()),
                Err(_) => TermHost::Name(pattern(host)?),
            },
        };
        Ok(HostTerm { host, ports })
    }
}

fn pattern(host: &str) -> Result<HostPattern, HostTermError> {
    if host == "*" {
        return Ok(HostPattern::Any);
    }
    match host.strip_prefix("*.") {
        Some(domain) if !domain.contains('*') => Ok(HostPattern::Below(domain.parse()?)),
        None if !host.contains('*') => Ok(HostPattern::Exact(host.parse()?)),
        _ => Err(HostTermError::Star),
    }
}

impl fmt::Display for HostTerm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            TermHost::Name(pattern) => write!(f, "{pattern}:{}", self.ports),
            TermHost::Address(IpAddr::V4(address)) => write!(f, "{address}:{}", self.ports),
            TermHost::Address(IpAddr::V6(address)) => write!(f, "[{address}]:{}", self.ports),
        }
    }
}

impl TryFrom<String> for HostTerm {
    type Error = HostTermError;
    fn try_from(text: String) -> Result<HostTerm, HostTermError> {
        text.parse()
    }
}

impl From<HostTerm> for String {
    fn from(term: HostTerm) -> String {
        term.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_is_one_name() {
        for text in ["Example.ORG", "example.org.", "EXAMPLE.org", "example\u{3002}org"] {
            assert_eq!(HostName::parse(text.as_bytes()).unwrap().as_str(), "example.org", "{text}");
        }
        assert_eq!(HostName::parse("bücher.example".as_bytes()).unwrap().as_str(), "xn--bcher-kva.example");
        assert_eq!(HostName::parse(b"_sip._tcp.example.org").unwrap().as_str(), "_sip._tcp.example.org");
    }

    #[test]
    fn what_is_no_name_is_refused() {
        let long = "a".repeat(64);
        for (text, error) in [
            (b"".as_slice(), HostNameError::Empty),
            (b"a..b", HostNameError::Empty),
            (b".a", HostNameError::Empty),
            (b"a\0.example.org", HostNameError::Character),
            (b"a%2eb.org", HostNameError::Character),
            (b"a b.org", HostNameError::Character),
            (b"a\xff.org", HostNameError::Character),
            (b"2130706433", HostNameError::Numeric),
            (b"127.1", HostNameError::Numeric),
            (b"0x7f.0x1", HostNameError::Numeric),
            (b"a.0x", HostNameError::Numeric),
            (long.as_bytes(), HostNameError::TooLong),
        ] {
            assert_eq!(HostName::parse(text), Err(error), "{}", text.escape_ascii());
        }
    }

    #[test]
    fn terms_read_back_as_they_are_written() {
        for text in ["example.org:443", "*.example.org:*", "*:80", "192.0.2.7:1-9", "[2001:db8::7]:443"] {
            assert_eq!(text.parse::<HostTerm>().unwrap().to_string(), text);
        }
        assert_eq!("[::ffff:192.0.2.7]:1".parse::<HostTerm>().unwrap().to_string(), "192.0.2.7:1");
        for text in [
            "example.org",
            "a*.org:1",
            "*.*.org:1",
            "example.org:9-1",
            "example.org:65536",
            "example.org:+1",
            "[x]:1",
            "2001:db8::7:1x",
        ] {
            assert!(text.parse::<HostTerm>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_star_is_below_and_not_the_domain_itself() {
        let term: HostTerm = "*.example.org:443".parse().unwrap();
        let matches = |name: &str| term.matches_name(&name.parse().unwrap(), 443);
        assert!(matches("a.example.org") && matches("b.a.example.org"));
        assert!(!matches("example.org") && !matches("badexample.org"));
    }

    #[test]
    fn a_registrable_domain_is_below_a_public_suffix() {
        let of = |name: &str| name.parse::<HostName>().unwrap().registrable().map(String::from);
        assert_eq!(of("registry.npmjs.org").as_deref(), Some("npmjs.org"));
        assert_eq!(of("npmjs.org").as_deref(), Some("npmjs.org"));
        assert_eq!(of("a.b.co.uk").as_deref(), Some("b.co.uk"));
        assert_eq!(of("co.uk"), None);
        assert_eq!(of("someone.github.io").as_deref(), Some("someone.github.io"));
        assert_eq!(of("localhost"), None);
        // Nobody registers what the list does not know.
        assert_eq!(of("host.internal"), None);
        assert_eq!(of("a.host.internal"), None);
        // Suffixes beyond ASCII: 公司.cn and рф.
        assert_eq!(of("xn--55qx5d.cn"), None);
        assert_eq!(of("a.b.xn--55qx5d.cn").as_deref(), Some("b.xn--55qx5d.cn"));
        assert_eq!(of("www.example.xn--p1ai").as_deref(), Some("example.xn--p1ai"));
        // Wildcards of the list, and their exceptions.
        assert_eq!(of("b.ck"), None);
        assert_eq!(of("a.b.ck").as_deref(), Some("a.b.ck"));
        assert_eq!(of("x.www.ck").as_deref(), Some("www.ck"));
        assert_eq!(of("bucket.s3.amazonaws.com").as_deref(), Some("bucket.s3.amazonaws.com"));
        assert_eq!(of("s3.amazonaws.com"), None);
    }
}
