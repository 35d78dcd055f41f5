//! A verdict in words, for a person who wants to know which line of which file said so. Pure.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use crate::common::access::{Access, Level};
use crate::common::exec::Command;
use crate::common::id::CallId;
use crate::common::net::{Destination, HostName, HostPattern, HostTerm, Knowledge, Named, TermHost, Transport, Zone};
use crate::common::path::RawPath;
use crate::common::request::RuleRef;
use crate::common::text;

use super::decide::{Policy, Verdict};
use super::grants::Grants;
use super::network::Reaching;
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

/// What a profile says of one thing, before anybody was asked.
#[derive(Clone, Debug)]
pub struct Said {
    pub access: Access,
    pub object: RawPath,
    pub assumed: Option<String>,
    pub level: Level,
    pub rule: RuleRef,
}

/// What it says of looking a name up.
pub fn look_up(policy: &Policy, name: HostName) -> Said {
    let destination = Destination::name(name);
    let verdict = policy.decide_connect(&by_nobody(&destination), CallId(0), &Grants::new());
    said(policy, Access::Connect, destination.object(), Some("to look it up".to_owned()), &verdict)
}

/// What it says of one host at one port: of a name that it is looked up, and that it is connected to where it leads as
/// `assumed`; of an address as it is. `None` for a term that is for several hosts or ports.
pub fn connection(policy: &Policy, term: &HostTerm, assumed: &Assumed, transport: Transport) -> Option<Vec<Said>> {
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
    let verdict = policy.decide_connect(&by_nobody(&destination), CallId(0), &Grants::new());
    let leads = name.map(|_| leads(&destination, assumed, is_own));
    let connected = said(policy, Access::Connect, destination.object(), leads, &verdict);
    let looked_up = name.filter(|_| !is_own && assumed.by == Knowledge::Resolved);
    Some(looked_up.map(|name| look_up(policy, name.clone())).into_iter().chain([connected]).collect())
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

/// What it says of listening at this address of the host.
pub fn listening(policy: &Policy, address: SocketAddr) -> Said {
    let destination = Destination::address(address, Transport::Tcp, Vec::new());
    let reaching = by_nobody(&destination);
    let verdict = policy.decide_bind(&reaching, CallId(0), &Grants::new());
    let ip = destination.ip().unwrap_or(SOMEWHERE);
    let is_own = Zone::of(ip) == Zone::Loopback && !policy.speaks_of_bind(&reaching, CallId(0), &Grants::new());
    if is_own {
        let rule = RuleRef { id: "built-in:own-network".to_owned(), ..policy.rule(&verdict) };
        let rule = RuleRef { line: 0, reason: None, ..rule };
        let assumed = Some("no rule speaks of it: in the session's own network alone".to_owned());
        return Said { access: Access::Bind, object: destination.object(), assumed, level: Level::Allow, rule };
    }
    said(policy, Access::Bind, destination.object(), None, &verdict)
}

/// What it says of the unix socket at this canonical path.
pub fn socket(policy: &Policy, services: &Services, path: &RawPath) -> Said {
    let service = services.of(path);
    let verdict = policy.decide_unix(path, service, CallId(0), &Grants::new());
    said(policy, Access::Unix, path.clone(), service.map(|service| service.to_string()), &verdict)
}

fn said(policy: &Policy, access: Access, object: RawPath, assumed: Option<String>, verdict: &Verdict) -> Said {
    Said { access, object, assumed, level: verdict.level, rule: policy.rule(verdict) }
}

fn by_nobody(destination: &Destination) -> Reaching<'_> {
    Reaching { destination, program: &|| None }
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
