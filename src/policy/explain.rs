//! A verdict in words, for a person who wants to know which line of which file said so. Pure.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use crate::common::access::Access;
use crate::common::exec::Command;
use crate::common::net::{Destination, HostName, HostPattern, HostTerm, Knowledge, Named, TermHost, Transport, Zone};
use crate::common::path::RawPath;
use crate::common::request::RuleRef;
use crate::common::text;

use super::decide::{Policy, Verdict};
use super::question::{self, Asked, Question};
use super::sockets::Services;

/// An address of the internet that nobody has (RFC 5737), for names that nobody looked up.
const SOMEWHERE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

/// Columns of a command line in an explanation, at the most.
const SHOWN_COLUMNS: usize = 400;

/// `LEVEL: rule ID (FILE:LINE): REASON`, without what is not there.
pub fn verdict(policy: &Policy, verdict: &Verdict) -> String {
    format!("{}: {}", verdict.level, rule(&policy.rule(verdict)))
}

/// [`verdict`] on a command, with `, for WORDS` behind the rule where it speaks of the command by another name or in other
/// words than it was called with. The words can be pasted into a shell.
pub fn execution(policy: &Policy, command: &Command, verdict: &Verdict) -> String {
    let rule = policy.rule(verdict);
    let words = policy.words_meant(command, verdict).unwrap_or_default();
    let meant = match words.is_empty() {
        true => String::new(),
        false => format!(", for {}", text::quoted_argv_within(words.iter().map(Vec::as_slice), SHOWN_COLUMNS)),
    };
    format!("{}: {}{meant}{}", verdict.level, place(&rule), reason(&rule))
}

/// `rule ID (FILE:LINE): REASON`, without what is not there.
pub fn rule(rule: &RuleRef) -> String {
    format!("{}{}", place(rule), reason(rule))
}

/// What is taken for granted of a name.
#[derive(Clone, Copy, Debug)]
pub struct Assumed {
    /// Where it leads; `None`: to some public address.
    pub at: Option<IpAddr>,
    pub by: Knowledge,
}

/// Looking a name up.
pub fn look_up(name: HostName) -> Question {
    let question = question::reach(Access::Connect, Destination::name(name));
    Question { assumed: Some("to look it up".to_owned()), ..question }
}

/// What becomes of one host at one port: of a name that it is looked up, and that it is connected to where it leads as
/// `assumed`; of an address that it is connected to. `None` for a term that is for several hosts or ports.
pub fn connection(term: &HostTerm, assumed: &Assumed, transport: Transport) -> Option<Vec<Question>> {
    let port = Some(term.ports.first()).filter(|port| *port == term.ports.last())?;
    let (ip, names, name) = match &term.host {
        TermHost::Address(address) => (*address, Vec::new(), None),
        TermHost::Name(HostPattern::Exact(name)) => {
            let named = Named { name: name.clone(), by: assumed.by };
            (assumed.at.unwrap_or(SOMEWHERE), vec![named], Some(name))
        }
        TermHost::Name(_) => return None,
    };
    // Of this machine the name says the same whoever asks.
    let is_own = name.is_some_and(|name| name.as_str() == "localhost") && assumed.at.is_none();
    let (ip, names) = if is_own { (Ipv4Addr::LOCALHOST.into(), Vec::new()) } else { (ip, names) };
    let destination = Destination::address(SocketAddr::new(ip, port), transport, names);
    let leads = name.map(|_| leads(&destination, assumed, is_own));
    let connected = Question { assumed: leads, ..question::reach(Access::Connect, destination) };
    let looked_up = name.filter(|_| !is_own && assumed.by == Knowledge::Resolved);
    Some(looked_up.map(|name| look_up(name.clone())).into_iter().chain([connected]).collect())
}

fn leads(destination: &Destination, assumed: &Assumed, is_own: bool) -> String {
    let source = match assumed.by {
        Knowledge::Resolved => "DNS",
        Knowledge::HostsFile => "/etc/hosts",
    };
    let (ip, zone) = (destination.ip().unwrap_or(SOMEWHERE), destination.zone().unwrap_or(Zone::Public));
    match assumed.at {
        _ if is_own => format!("the host's own, {ip}"),
        Some(_) => format!("if {source} leads to {ip}, which is {zone}"),
        None => format!("if {source} leads to a public address that no rule names"),
    }
}

/// Listening at this address of the host.
pub fn listening(address: SocketAddr) -> Question {
    question::reach(Access::Bind, Destination::address(address, Transport::Tcp, Vec::new()))
}

/// Connecting to the unix socket at this canonical path.
pub fn socket(services: &Services, path: &RawPath) -> Question {
    Question::of(Asked::Socket { path: path.clone(), service: services.of(path) })
}

fn place(rule: &RuleRef) -> String {
    match rule.line {
        0 => format!("rule {} ({})", rule.id, rule.file),
        line => format!("rule {} ({}:{line})", rule.id, rule.file),
    }
}

fn reason(rule: &RuleRef) -> String {
    rule.reason.as_ref().map_or_else(String::new, |reason| format!(": {reason}"))
}
