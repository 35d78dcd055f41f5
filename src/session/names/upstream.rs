//! The host's own resolvers, asked for a session.
//!
//! Runs as the user in the supervisor, in the host's network namespace. Only names that were judged come here, and only a query
//! that is built here leaves: of what a tool wrote there are the name, in lower case, and the type. What comes back is what
//! whoever owns a name chose.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts, ServerOrderingStrategy};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::proto::rr::{Name, RData, Record, RecordType};

use super::packet::{Reason, Reply};
use crate::common::net::HostName;

/// As many as the C library takes (`MAXNS`, resolv.conf(5)).
const SERVERS_AT_MOST: usize = 3;
const SEARCH_AT_MOST: usize = 32;
/// Answers of one session that are kept.
const CACHE: u64 = 512;
/// For one answer, whatever resolv.conf(5) says: programs wait 5 seconds and more.
const LONGEST_WAIT: Duration = Duration::from_secs(12);

/// What resolv.conf(5) of the host says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    pub servers: Vec<IpAddr>,
    pub search: Vec<HostName>,
    pub ndots: usize,
    timeout: Duration,
    attempts: usize,
}

impl Settings {
    /// What cannot be read is passed over; a scope of a link-local server too, which is then not asked.
    pub fn parse(text: &[u8]) -> Settings {
        let mut settings = Settings {
            servers: Vec::new(),
            search: Vec::new(),
            ndots: 1,
            timeout: Duration::from_secs(5),
            attempts: 2,
        };
        for line in text.split(|&byte| byte == b'\n') {
            let Ok(line) = std::str::from_utf8(line) else { continue };
            let mut words = line.split([' ', '\t', '\r']).filter(|word| !word.is_empty());
            match words.next() {
                Some("nameserver") => {
                    settings.servers.extend(words.next().and_then(|word| word.parse::<IpAddr>().ok()))
                }
                // The last of these lines counts.
                Some("search" | "domain") => {
                    settings.search = words.filter_map(|word| word.parse().ok()).take(SEARCH_AT_MOST).collect();
                }
                Some("options") => words.for_each(|word| settings.option(word)),
                _ => {}
            }
        }
        settings.servers.truncate(SERVERS_AT_MOST);
        if settings.servers.is_empty() {
            settings.servers.push(Ipv4Addr::LOCALHOST.into());
        }
        settings
    }

    fn option(&mut self, word: &str) {
        let Some((name, value)) = word.split_once(':') else { return };
        let Ok(value) = value.parse::<u8>() else { return };
        match name {
            "ndots" => self.ndots = usize::from(value).min(15),
            "timeout" => self.timeout = Duration::from_secs(u64::from(value).clamp(1, 5)),
            "attempts" => self.attempts = usize::from(value).clamp(1, 5),
            _ => {}
        }
    }

    fn resolver(&self) -> Result<TokioResolver, NetError> {
        let servers = self.servers.iter().map(|server| NameServerConfig::udp_and_tcp(*server)).collect();
        let mut options = ResolverOpts::default();
        options.timeout = self.timeout;
        options.attempts = self.attempts;
        options.cache_size = CACHE;
        options.use_hosts_file = ResolveHosts::Never;
        // One after the other, as the C library asks them: some admins rely on the first.
        options.num_concurrent_reqs = 1;
        options.server_ordering_strategy = ServerOrderingStrategy::UserProvidedOrder;
        options.preserve_intermediates = true;
        let config = ResolverConfig::from_parts(None, Vec::new(), servers);
        let mut builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
        *builder.options_mut() = options;
        builder.build()
    }
}

/// What a name has.
#[derive(Debug)]
pub struct Found {
    pub reply: Reply,
    /// The addresses in the answer, hints of services included, and how long each holds.
    pub addresses: Vec<(IpAddr, Duration)>,
}

/// The host's resolvers by one set of settings, and what they answered.
pub struct Upstream {
    settings: Settings,
    resolver: TokioResolver,
}

impl Upstream {
    /// Must be called in the runtime that is to ask.
    pub fn new(settings: Settings) -> Result<Upstream, NetError> {
        Ok(Upstream { resolver: settings.resolver()?, settings })
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Asks for a name that was judged, or answers from what was asked before.
    pub async fn look_up(&self, name: &HostName, kind: RecordType) -> Found {
        let Ok(mut asked) = Name::from_ascii(name.as_str()) else {
            return Found::without(Reply::of(ResponseCode::NXDomain));
        };
        asked.set_fqdn(true);
        self.ask(asked, kind).await
    }

    /// Asks for the name of an address that was judged.
    pub async fn look_up_address(&self, address: IpAddr) -> Found {
        self.ask(Name::from(address), RecordType::PTR).await
    }

    async fn ask(&self, name: Name, kind: RecordType) -> Found {
        match tokio::time::timeout(LONGEST_WAIT, self.resolver.lookup(name, kind)).await {
            Ok(Ok(found)) => Found::of(found.answers().to_vec(), kind),
            Ok(Err(NetError::Dns(DnsError::NoRecordsFound(none)))) => {
                let code = match none.response_code {
                    code @ (ResponseCode::NoError | ResponseCode::NXDomain) => code,
                    _ => return Found::failed(),
                };
                let authorities = none.soa.map(|soa| soa.as_ref().clone().into_record_of_rdata()).into_iter().collect();
                Found::without(Reply { code, authorities, ..Reply::default() })
            }
            Ok(Err(_)) | Err(_) => Found::failed(),
        }
    }
}

impl Found {
    fn without(reply: Reply) -> Found {
        Found { reply, addresses: Vec::new() }
    }

    fn failed() -> Found {
        Found::without(Reply::because(ResponseCode::ServFail, Reason::NetworkError))
    }

    /// Aliases and what was asked for; nothing else that a server may have added.
    fn of(mut answers: Vec<Record>, kind: RecordType) -> Found {
        answers.retain(|record| [RecordType::CNAME, kind].contains(&record.record_type()));
        let addresses = answers.iter().flat_map(addresses_in).collect();
        Found { reply: Reply { answers, ..Reply::default() }, addresses }
    }
}

fn addresses_in(record: &Record) -> Vec<(IpAddr, Duration)> {
    use hickory_resolver::proto::rr::rdata::svcb::SvcParamValue;
    let lifetime = Duration::from_secs(record.ttl.into());
    let addresses: Vec<IpAddr> = match &record.data {
        RData::A(address) => vec![address.0.into()],
        RData::AAAA(address) => vec![address.0.into()],
        RData::HTTPS(hickory_resolver::proto::rr::rdata::HTTPS(service)) | RData::SVCB(service) => {
            let hints = |value: &SvcParamValue| -> Vec<IpAddr> {
                match value {
                    SvcParamValue::Ipv4Hint(hint) => hint.0.iter().map(|address| address.0.into()).collect(),
                    SvcParamValue::Ipv6Hint(hint) => hint.0.iter().map(|address| address.0.into()).collect(),
                    _ => Vec::new(),
                }
            };
            service.svc_params.iter().flat_map(|(_, value)| hints(value)).collect()
        }
        _ => Vec::new(),
    };
    addresses.into_iter().map(|address| (address, lifetime)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hosts_settings_are_read_as_the_c_library_reads_them() {
        let text = b"# nameserver 192.0.2.9\nnameserver 192.0.2.1\nnameserver\t2001:db8::1\nnameserver fe80::1%eth0\n\
            domain first.example\nsearch corp.example lan bad%name\noptions ndots:2 timeout:1 attempts:9 rotate edns0\n";
        let settings = Settings::parse(text);
        assert_eq!(settings.servers, ["192.0.2.1".parse::<IpAddr>().unwrap(), "2001:db8::1".parse().unwrap()]);
        assert_eq!(settings.search, ["corp.example".parse().unwrap(), "lan".parse().unwrap()]);
        assert_eq!((settings.ndots, settings.timeout, settings.attempts), (2, Duration::from_secs(1), 5));
        assert_eq!(Settings::parse(b"\xff\nsearch x").servers, ["127.0.0.1".parse::<IpAddr>().unwrap()]);
    }
}
