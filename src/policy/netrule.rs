//! The terms of a rule on hosts: from their text to [`NetworkTerms`], and its examples. Runs as whoever starts a session, on
//! an admin's or user's files.

use std::net::IpAddr;

use ipnet::IpNet;
use toml::Spanned;

use crate::common::access::{Access, Level};
use crate::common::net::{HostPattern, HostTerm, HostTermError, Ports, TermHost, Transport, canonical};

use super::file::{ExceptTerm, RuleTable, Text};
use super::load::PolicyError;
use super::model::{NetworkTerms, Rule};

/// The terms of a rule that is known to be one on hosts.
pub(super) fn terms(text: &Text, table: &RuleTable) -> Result<NetworkTerms, PolicyError> {
    let hole = |value: &Spanned<ExceptTerm>| match value.get_ref() {
        ExceptTerm::Text(host) => term(text, value, host),
        ExceptTerm::Argv(_) => {
            Err(text.error_at(value, "a list of words in a rule for hosts; `host:port` was expected"))
        }
    };
    let hosts: Vec<HostTerm> =
        table.host.iter().map(|value| term(text, value, value.get_ref())).collect::<Result<_, _>>()?;
    let mut networks: Vec<IpNet> = table.cidr.iter().map(|value| network(text, value)).collect::<Result<_, _>>()?;
    let ports = table.port.as_ref().map(|value| port(text, table, value)).transpose()?;
    if table.has(Access::Bind) {
        check_bind(text, table, &hosts)?;
    }
    if hosts.is_empty() && networks.is_empty() {
        networks = everywhere(table.level);
    }
    let mut transports: Vec<Transport> = table.protocol.iter().map(|value| *value.get_ref()).collect();
    if transports.is_empty() {
        transports.push(Transport::Tcp);
    }
    Ok(NetworkTerms {
        hosts,
        networks,
        ports: ports.into_iter().collect(),
        transports,
        except: table.except.iter().map(hole).collect::<Result<_, _>>()?,
    })
}

fn term<T>(text: &Text, value: &Spanned<T>, written: &str) -> Result<HostTerm, PolicyError> {
    let wrong = |error: HostTermError| text.error_at(value, format!("`{written}`: {error}"));
    written.parse().map_err(wrong)
}

fn network(text: &Text, value: &Spanned<String>) -> Result<IpNet, PolicyError> {
    let written = value.get_ref();
    let wrong = |message: String| text.error_at(value, format!("`{written}`: {message}"));
    let network: IpNet = written
        .parse()
        .map_err(|_| wrong("a network was expected, such as `10.0.0.0/8`, `192.0.2.7/32` or `fd00::/8`".to_owned()))?;
    if network.addr() != network.network() {
        return Err(wrong(format!("it has bits behind its prefix; `{}` was expected", network.trunc())));
    }
    match network.network() {
        IpAddr::V6(six) if canonical(six.into()).is_ipv4() => {
            Err(wrong("connections to these addresses are judged as IPv4; write the network as such".to_owned()))
        }
        _ => Ok(network),
    }
}

fn port(text: &Text, table: &RuleTable, value: &Spanned<String>) -> Result<Ports, PolicyError> {
    if !table.host.is_empty() && table.cidr.is_empty() {
        return Err(text.error_at(value, "`port` goes with `cidr`; a `host` has its ports behind a colon"));
    }
    let written = value.get_ref();
    written.parse().map_err(|error: HostTermError| text.error_at(value, format!("`{written}`: {error}")))
}

/// A listening socket has an address and no name but `localhost`, and is for TCP.
fn check_bind(text: &Text, table: &RuleTable, hosts: &[HostTerm]) -> Result<(), PolicyError> {
    if let Some(value) = table.protocol.iter().find(|value| *value.get_ref() != Transport::Tcp) {
        return Err(text.error_at(value, "nothing outside reaches a datagram socket of a session; `tcp` was expected"));
    }
    let is_name = |term: &HostTerm| match &term.host {
        TermHost::Name(HostPattern::Exact(name)) => name.as_str() != "localhost",
        TermHost::Name(_) => true,
        TermHost::Address(_) => false,
    };
    match hosts.iter().position(is_name).and_then(|at| table.host.get(at)) {
        Some(value) => {
            let message =
                format!("`{}`: a socket is bound to an address or `localhost`, not to a name", value.get_ref());
            Err(text.error_at(value, message))
        }
        None => Ok(()),
    }
}

/// The networks of a rule for `bind` that names only a port: what may be given without a question is to be reached from this
/// machine alone.
fn everywhere(level: Level) -> Vec<IpNet> {
    let texts = if level <= Level::Notify { ["127.0.0.0/8", "::1/128"] } else { ["0.0.0.0/0", "::/0"] };
    texts.iter().filter_map(|text| text.parse().ok()).collect()
}

/// Holds the examples against their rule: `host:port`, the host a name or an address.
pub(super) fn check_examples(
    text: &Text,
    table: &RuleTable,
    rule: &Rule,
    terms: &NetworkTerms,
) -> Result<(), PolicyError> {
    let examples = &table.examples;
    let matching = examples.matching.iter().map(|value| (value, true));
    for (value, expected) in matching.chain(examples.not_match.iter().map(|value| (value, false))) {
        let example = term(text, value, value.get_ref())?;
        let is_one = !matches!(example.host, TermHost::Name(HostPattern::Below(_) | HostPattern::Any));
        if !is_one || example.ports.first() != example.ports.last() {
            let message = format!("the example `{}` is no single host and port", value.get_ref());
            return Err(text.error_at(value, message));
        }
        if terms.speak_of(&example) != expected {
            let does = if expected { "does not match, but is in `match`" } else { "matches, but is in `not_match`" };
            return Err(text.error_at(value, format!("rule `{}`: the example `{}` {does}", rule.id, value.get_ref())));
        }
    }
    Ok(())
}

impl NetworkTerms {
    /// Whether the rule speaks of one host and port as it is written: of a name whatever its addresses, of an address whatever
    /// its names.
    fn speak_of(&self, example: &HostTerm) -> bool {
        let port = example.ports.first();
        let matches = |term: &HostTerm| match &example.host {
            TermHost::Name(HostPattern::Exact(name)) => term.matches_name(name, port),
            TermHost::Name(_) => false,
            TermHost::Address(address) => term.matches_address(*address, port),
        };
        let in_network = match &example.host {
            TermHost::Address(address) => self.networks.iter().any(|network| network.contains(address)),
            TermHost::Name(_) => false,
        };
        let at_port = self.ports.is_empty() || self.ports.iter().any(|ports| ports.contains(port));
        (self.hosts.iter().any(matches) || in_network && at_port) && !self.except.iter().any(matches)
    }
}
