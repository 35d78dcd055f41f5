//! The verdict on names, connections and listening sockets. Runs in the supervisor on every such attempt: pure, the same
//! answer whatever the order of rules.
//!
//! A connection is judged by each name that this session knows for its address: the strictest of the rules on the name and
//! on the address decides. A `deny` on any of them denies; else the least strict of the names decides, because it might be
//! the one that was meant. A name that DNS led to an address which is not public speaks only to deny: whoever owns a name
//! says where it leads.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use crate::common::access::{Access, Level};
use crate::common::id::{CallId, GrantId};
use crate::common::net::{Destination, HostName, Knowledge, Named, Place, TermHost, Transport, Zone, embedded_v4};
use crate::common::path::RawPath;

use super::decide::{Policy, Source, Verdict};
use super::grants::Grants;
use super::hosts::{Entry, Hosts};
use super::hostscope::Reached;
use super::tables::Tables;

/// The `id` of the rule that denies what a name leads to that is no public address.
pub const REBINDING: &str = "built-in:rebinding";
/// The `id` of the rule that denies datagrams of which no rule speaks.
pub const UDP: &str = "built-in:udp";

/// What every machine calls itself (RFC 6761, 6.3).
static LOCALHOST: LazyLock<Option<HostName>> = LazyLock::new(|| HostName::parse(b"localhost").ok());

/// An attempt to reach something over the network, or to be reached.
#[derive(Clone, Copy)]
pub struct Reaching<'a> {
    pub destination: &'a Destination,
    /// The executable of whoever tries; asked for only where a grant depends on it.
    pub program: &'a dyn Fn() -> Option<RawPath>,
}

/// The names by which rules and answers may give an address, the latest first: those of a public address, those of the
/// host's /etc/hosts, and `localhost` for this machine's own. `localhost` from DNS is none, wherever it leads. Who listens
/// has no name but that one.
pub(super) fn counted_names(access: Access, destination: &Destination) -> Vec<&HostName> {
    let Place::Address { address, names } = &destination.place else { return destination.names().collect() };
    let ip = address.ip();
    let zone = Zone::of(ip);
    // connect(2) takes the unspecified address for this machine, bind(2) for all of its addresses.
    let is_own = is_localhost(ip) || (ip.is_unspecified() && access == Access::Connect);
    let said = names.iter().filter(|named| access == Access::Connect && counts(named, zone)).map(|named| &named.name);
    let mut counted: Vec<&HostName> = Vec::new();
    for name in said.chain(LOCALHOST.as_ref().filter(|_| is_own)) {
        if !counted.contains(&name) {
            counted.push(name);
        }
    }
    counted
}

/// Whether a name of an address in this zone is one that it has by right, and not just by what DNS says.
fn counts(named: &Named, zone: Zone) -> bool {
    match named.by {
        Knowledge::HostsFile => true,
        Knowledge::Resolved => zone == Zone::Public && !is_special(&named.name),
    }
}

/// The addresses that every machine calls `localhost`.
fn is_localhost(ip: IpAddr) -> bool {
    ip == IpAddr::V4(Ipv4Addr::LOCALHOST) || ip == IpAddr::V6(Ipv6Addr::LOCALHOST)
}

/// Where a connection to this address goes, and by what other address rules may call that: connect(2) takes the unspecified
/// address for this machine, and gateways an IPv6 address for the IPv4 address in it.
fn leads_to(ip: IpAddr) -> (Option<IpAddr>, Option<IpAddr>) {
    match ip {
        IpAddr::V4(four) if four.is_unspecified() => (Some(Ipv4Addr::LOCALHOST.into()), Some(ip)),
        IpAddr::V6(six) if six.is_unspecified() => (Some(Ipv6Addr::LOCALHOST.into()), Some(ip)),
        _ => (Some(ip), embedded_v4(ip)),
    }
}

fn is_special(name: &HostName) -> bool {
    LOCALHOST.as_ref().is_some_and(|localhost| name == localhost || name.is_below(localhost))
}

/// The terms that an attempt is held against.
struct Seen<'a> {
    policy: &'a Policy,
    hosts: &'a Hosts,
    ip: Option<IpAddr>,
    /// Another address that leads to the same; rules that ask or deny mean it, too.
    also: Option<IpAddr>,
    transport: Transport,
    /// What holds where no rule speaks.
    otherwise: (Level, Source),
}

/// A name, and whether it may give anything.
#[derive(Clone, Copy)]
struct By<'a> {
    name: &'a HostName,
    counts: bool,
}

impl<'a> Seen<'a> {
    /// The strictest of the rules on this name and on the address, at this port.
    fn strictest(&self, by: Option<By<'_>>, port: u16) -> Option<&'a Entry> {
        let gives = |by: &By<'_>, entry: &Entry| by.counts || entry.level == Level::Deny;
        let named = by.and_then(|by| self.by_name(by, port).filter(|entry| gives(&by, entry)));
        let addressed = self.ip.and_then(|ip| self.by_address(ip, by, port, Level::Allow));
        let strictest = stronger(named, addressed);
        let level = strictest.map_or(self.otherwise.0, |entry| entry.level);
        // What else a rule may have meant can only make it stricter. A name that gives nothing takes nothing away either.
        let nameless = || self.by_address(self.ip?, None, port, Level::Notify);
        let regardless = by.filter(|by| !by.counts).and_then(|_| nameless());
        stronger_than(stronger(self.meant(by, port), regardless), level).or(strictest)
    }

    fn by_name(&self, by: By<'_>, port: u16) -> Option<&'a Entry> {
        let counts = |entry: &Entry| self.is_at(entry, port) && !self.is_hole(entry, Some(by), true, port);
        self.hosts.by_name(by.name, &counts)
    }

    fn by_address(&self, ip: IpAddr, by: Option<By<'_>>, port: u16, least: Level) -> Option<&'a Entry> {
        let counts =
            |entry: &Entry| entry.level >= least && self.is_at(entry, port) && !self.is_hole(entry, by, false, port);
        self.hosts.by_address(ip, &counts)
    }

    /// Rules that ask or deny also mean what leads to the same, under `localhost` every loopback address, and under `*` an
    /// address without a name.
    fn meant(&self, by: Option<By<'_>>, port: u16) -> Option<&'a Entry> {
        let ip = self.ip?;
        let inner = self.also.and_then(|also| self.by_address(also, by, port, Level::Ask));
        let counts = |entry: &Entry| {
            entry.level >= Level::Ask && self.is_at(entry, port) && !self.is_hole(entry, by, false, port)
        };
        let nameless = by.is_none_or(|by| !by.counts).then(|| self.hosts.of_every_name(&counts)).flatten();
        // Who listens everywhere answers at each loopback address.
        let own = LOCALHOST.as_ref().filter(|_| ip.is_loopback()).and_then(|name| self.hosts.by_name(name, &counts));
        stronger(stronger(inner, nameless), own)
    }

    fn is_at(&self, entry: &Entry, port: u16) -> bool {
        entry.ports.contains(port) && entry.is_for(self.transport)
    }

    /// Whether the entry's rule has a hole here. Where a name could lift a stricter rule on an address, it must be one that
    /// counts.
    fn is_hole(&self, entry: &Entry, by: Option<By<'_>>, found_by_name: bool, port: u16) -> bool {
        let terms = self.policy.profile().rules.get(entry.rule).and_then(|rule| rule.network.as_ref());
        terms.is_some_and(|terms| {
            terms.except.iter().filter(|hole| hole.ports.contains(port)).any(|hole| match &hole.host {
                TermHost::Address(own) => self.ip == Some(*own),
                TermHost::Name(pattern) => by.is_some_and(|by| {
                    (found_by_name || by.counts || entry.level <= Level::Notify) && pattern.matches(by.name)
                }),
            })
        })
    }

    fn basis(&self, entry: Option<&Entry>) -> (Level, Source) {
        entry.map_or(self.otherwise, |entry| (entry.level, Source::Rule(entry.rule)))
    }

    /// What holds at this port under this name.
    fn judged(&self, by: Option<By<'_>>, port: u16) -> (Level, Source) {
        self.basis(self.strictest(by, port))
    }

    /// What holds for a socket that listens there.
    fn listening(&self, by: Option<By<'_>>, ip: IpAddr, port: u16) -> (Level, Source) {
        let strictest = self.judged(by, port);
        // Who is reached at every address is reached at those that rules ask about or deny.
        let counts = |entry: &Entry| {
            entry.level >= Level::Ask && self.is_at(entry, port) && !self.is_hole(entry, by, false, port)
        };
        let some = ip.is_unspecified().then(|| self.hosts.of_some_address(true, ip.is_ipv6(), &counts)).flatten();
        stronger_than(some, strictest.0).map_or(strictest, |entry| self.basis(Some(entry)))
    }

    /// The ports at which the verdict on a name may change: where terms and their holes begin, and behind their ends.
    fn ports_of(&self, name: &HostName) -> Vec<u16> {
        let rules = &self.policy.profile().rules;
        let mut ports = vec![1];
        for entry in self.hosts.all_of_name(name) {
            let terms = rules.get(entry.rule).and_then(|rule| rule.network.as_ref());
            let holes = terms.into_iter().flat_map(|terms| &terms.except).map(|hole| hole.ports);
            for range in holes.chain([entry.ports]) {
                ports.extend([Some(range.first().max(1)), range.last().checked_add(1)].into_iter().flatten());
            }
        }
        ports.sort_unstable();
        ports.dedup();
        ports
    }
}

fn stronger<'a>(one: Option<&'a Entry>, other: Option<&'a Entry>) -> Option<&'a Entry> {
    one.into_iter().chain(other).min_by_key(|entry| entry.rank())
}

fn stronger_than(entry: Option<&Entry>, level: Level) -> Option<&Entry> {
    entry.filter(|entry| entry.level > level)
}

/// Who asks for a verdict, and what was said before.
#[derive(Clone, Copy)]
struct Asking<'a> {
    access: Access,
    reaching: Reaching<'a>,
    call: CallId,
    grants: &'a Grants,
}

impl Policy {
    /// The verdict on a connection, on datagrams to one peer, or on looking a name up.
    pub fn decide_connect(&self, reaching: &Reaching<'_>, call: CallId, grants: &Grants) -> Verdict {
        let asking = Asking { access: Access::Connect, reaching: *reaching, call, grants };
        match &reaching.destination.place {
            Place::Name(name) => self.look_up(&asking, name),
            Place::Address { .. } => self.connect(&asking).0,
        }
    }

    /// The destination as a person is to be asked about it: the name that the verdict is about first, and no name that gives
    /// nothing. Answers are about that first name, or about the address where there is none.
    pub fn as_asked(&self, access: Access, reaching: &Reaching<'_>, call: CallId, grants: &Grants) -> Destination {
        let destination = reaching.destination;
        let mut asked = destination.clone();
        let Place::Address { address, names } = &destination.place else { return asked };
        let asking = Asking { access, reaching: *reaching, call, grants };
        let mut counted = counted_names(access, destination);
        let decisive = if access == Access::Connect { self.connect(&asking).1 } else { None };
        if let Some(at) = decisive.and_then(|name| counted.iter().position(|own| *own == name)) {
            let first = counted.remove(at);
            counted.insert(0, first);
        }
        let named = |name: &HostName| {
            // By what makes it count, where it is known in both ways.
            let zone = Zone::of(address.ip());
            let known = names.iter().find(|named| named.name == *name && counts(named, zone));
            known.cloned().unwrap_or_else(|| Named { name: name.clone(), by: Knowledge::HostsFile })
        };
        asked.place = Place::Address { address: *address, names: counted.into_iter().map(named).collect() };
        asked
    }

    /// The terms of the profile, and those of the ceiling.
    fn seen(&self, access: Access, destination: &Destination) -> (Seen<'_>, Seen<'_>) {
        (self.seen_by(&self.own, access, destination), self.seen_by(&self.ceiling, access, destination))
    }

    fn seen_by<'a>(&'a self, tables: &'a Tables, access: Access, destination: &Destination) -> Seen<'a> {
        let hosts = if access == Access::Bind { &tables.binds } else { &tables.connects };
        let otherwise = match destination.transport {
            Transport::Udp if !tables.is_of_ceiling() => (Level::Deny, Source::Udp),
            _ => tables.otherwise(self.profile(), access),
        };
        let (ip, also) = match destination.ip() {
            Some(ip) if access == Access::Connect => leads_to(ip),
            ip => (ip, None),
        };
        Seen { policy: self, hosts, ip, also, transport: destination.transport, otherwise }
    }

    /// The verdict, and the name that it is about.
    fn connect<'a>(&self, asking: &Asking<'a>) -> (Verdict, Option<&'a HostName>) {
        let destination = asking.reaching.destination;
        let Place::Address { address, names } = &destination.place else { return (denied(Source::Default), None) };
        let (ip, port) = (address.ip(), address.port());
        let (seen, floors) = self.seen(Access::Connect, destination);
        let counted = counted_names(Access::Connect, destination);
        let mut each: Vec<Option<By<'a>>> = counted.iter().map(|name| Some(By { name, counts: true })).collect();
        let others = names.iter().map(|named| &named.name).filter(|name| !counted.contains(name));
        each.extend(others.map(|name| Some(By { name, counts: false })));
        if each.is_empty() {
            each.push(None);
        }
        let verdicts: Vec<(Option<By<'a>>, (Level, Source))> = each
            .into_iter()
            .map(|by| (by, self.raised(seen.judged(by, port), Some(floors.judged(by, port)))))
            .collect();
        let is_deny = |basis: &(Level, Source)| basis.0 == Level::Deny && matches!(basis.1, Source::Rule(_));
        if let Some((by, (_, source))) = verdicts.iter().find(|(_, basis)| is_deny(basis)) {
            return (denied(*source), by.map(|by| by.name));
        }
        let all_names = counted.iter().copied().chain(names.iter().map(|named| &named.name));
        if let Some((denial, name)) = self.denial(asking, all_names, &[seen.ip, seen.also], port) {
            let basis = verdicts.first().map_or(Source::Default, |(_, (_, source))| *source);
            return (Verdict { level: Level::Deny, source: Source::Denial(denial), basis }, name);
        }
        let lift = |name: Option<&HostName>, (level, basis): (Level, Source)| {
            let reached = Reached { name, ip: Some(ip), port: Some(port), transport: destination.transport };
            self.lift(asking, level, basis, &reached)
        };
        let was_led = verdicts.iter().any(|(by, _)| by.is_some_and(|by| !by.counts));
        if was_led && !self.is_spoken_of(asking, &seen, &counted) {
            return (denied(Source::Rebinding), None);
        }
        let named = verdicts.iter().filter_map(|(by, basis)| by.filter(|by| by.counts).map(|by| (by.name, *basis)));
        let least = named.map(|(name, basis)| (lift(Some(name), basis), Some(name))).min_by_key(|(own, _)| own.level);
        least.unwrap_or_else(|| {
            let basis = verdicts.iter().map(|(_, basis)| *basis).max_by_key(|(level, _)| *level);
            (lift(None, basis.unwrap_or((Level::Deny, Source::Default))), None)
        })
    }

    /// Whether a rule, the host's /etc/hosts or an answer speaks of an address by itself, and not of what DNS says leads
    /// there.
    fn is_spoken_of(&self, asking: &Asking<'_>, seen: &Seen<'_>, counted: &[&HostName]) -> bool {
        let Some(address) = asking.reaching.destination.socket_address() else { return false };
        let (ip, port) = (address.ip(), address.port());
        let name = LOCALHOST.as_ref().filter(|name| counted.contains(name));
        let reached = Reached { name, ip: Some(ip), port: Some(port), transport: seen.transport };
        counted.iter().any(|own| Some(*own) != name)
            || seen.ip.is_some_and(|ip| seen.by_address(ip, None, port, Level::Allow).is_some())
            || name.is_some_and(|name| seen.by_name(By { name, counts: true }, port).is_some())
            || asking.grants.speaks_of_host(asking.access, asking.call, &reached, asking.reaching.program)
    }

    fn look_up(&self, asking: &Asking<'_>, name: &HostName) -> Verdict {
        let at = |transport: Transport| {
            let destination = Destination { transport, ..Destination::name(name.clone()) };
            let (seen, floors) = self.seen(Access::Connect, &destination);
            let by = Some(By { name, counts: true });
            let ports = seen.ports_of(name).into_iter().chain(floors.ports_of(name));
            let each = ports.map(|port| self.raised(seen.judged(by, port), Some(floors.judged(by, port))));
            each.min_by_key(|(level, _)| *level)
        };
        let least = [Transport::Tcp, Transport::Udp].into_iter().filter_map(at).min_by_key(|(level, _)| *level);
        let (level, basis) = least.unwrap_or((Level::Deny, Source::Default));
        let reached = Reached { name: Some(name), ip: None, port: None, transport: Transport::Tcp };
        let denial = asking.grants.denies_host(asking.access, asking.call, &reached, asking.reaching.program);
        if let Some(denial) = denial.filter(|_| level < Level::Deny) {
            return Verdict { level: Level::Deny, source: Source::Denial(denial), basis };
        }
        self.lift(asking, level, basis, &reached)
    }

    /// The verdict on a socket that whoever reaches this address of the host can connect to.
    pub fn decide_bind(&self, reaching: &Reaching<'_>, call: CallId, grants: &Grants) -> Verdict {
        let Some(address) = reaching.destination.socket_address() else { return denied(Source::Default) };
        let (ip, port) = (address.ip(), address.port());
        let (seen, floors) = self.seen(Access::Bind, reaching.destination);
        let by = listening_by(ip);
        let (level, basis) = self.raised(seen.listening(by, ip, port), Some(floors.listening(by, ip, port)));
        let asking = Asking { access: Access::Bind, reaching: *reaching, call, grants };
        let own = by.map(|by| by.name);
        let somewhere = || grants.denies_some_address(Access::Bind, call, port).filter(|_| ip.is_unspecified());
        let denial = self.denial(&asking, own.into_iter(), &[Some(ip)], port).map(|(denial, _)| denial);
        if let Some(denial) = denial.or_else(somewhere).filter(|_| level < Level::Deny) {
            return Verdict { level: Level::Deny, source: Source::Denial(denial), basis };
        }
        self.lift(&asking, level, basis, &listening_at(by, ip, port))
    }

    /// What somebody denied of this, by any of its names and addresses: of this machine's own also by the name that all of
    /// them have.
    fn denial<'a>(
        &self,
        asking: &Asking<'_>,
        names: impl Iterator<Item = &'a HostName>,
        addresses: &[Option<IpAddr>],
        port: u16,
    ) -> Option<(GrantId, Option<&'a HostName>)> {
        let (grants, program) = (asking.grants, asking.reaching.program);
        let transport = asking.reaching.destination.transport;
        let look = |name: Option<&HostName>, ip: Option<IpAddr>| {
            let reached = Reached { name, ip, port: Some(port), transport };
            grants.denies_host(asking.access, asking.call, &reached, program)
        };
        let is_own = addresses.iter().flatten().any(IpAddr::is_loopback);
        let own = || LOCALHOST.as_ref().filter(|_| is_own).and_then(|name| look(Some(name), None));
        let mut addresses = addresses.iter().flatten();
        names
            .filter_map(|name| Some((look(Some(name), None)?, Some(name))))
            .next()
            .or_else(|| addresses.find_map(|ip| look(None, Some(*ip))).or_else(own).map(|denial| (denial, None)))
    }

    /// Whether a rule or a grant for `bind`, and not only `[defaults]`, speaks of this address and port.
    pub fn speaks_of_bind(&self, reaching: &Reaching<'_>, call: CallId, grants: &Grants) -> bool {
        let Some(address) = reaching.destination.socket_address() else { return false };
        let (ip, port) = (address.ip(), address.port());
        // A floor gives nothing, and so it does not make a session's own socket one of the host's.
        let (seen, _) = self.seen(Access::Bind, reaching.destination);
        let by = listening_by(ip);
        let asking = Asking { access: Access::Bind, reaching: *reaching, call, grants };
        let reached = listening_at(by, ip, port);
        by.is_some_and(|by| seen.by_name(by, port).is_some())
            || seen.by_address(ip, by, port, Level::Allow).is_some()
            || grants.speaks_of_host(Access::Bind, call, &reached, asking.reaching.program)
    }

    /// What is left of a level after the grants.
    fn lift(&self, asking: &Asking<'_>, level: Level, basis: Source, reached: &Reached<'_>) -> Verdict {
        let granted = match level {
            Level::Allow | Level::Deny => None,
            Level::Notify | Level::Ask | Level::Authenticate => {
                let needed = self.needed(level, basis);
                asking.grants.find_host(asking.access, asking.call, needed, reached, asking.reaching.program)
            }
        };
        match granted {
            Some(at) => Verdict { level: Level::Allow, source: Source::Grant(at), basis },
            None => Verdict { level, source: basis, basis },
        }
    }
}

/// `localhost`, where whoever listens there is reached by that name.
fn listening_by(ip: IpAddr) -> Option<By<'static>> {
    let name = LOCALHOST.as_ref().filter(|_| is_localhost(ip))?;
    Some(By { name, counts: true })
}

fn listening_at(by: Option<By<'static>>, ip: IpAddr, port: u16) -> Reached<'static> {
    Reached { name: by.map(|by| by.name), ip: Some(ip), port: Some(port), transport: Transport::Tcp }
}

fn denied(source: Source) -> Verdict {
    Verdict { level: Level::Deny, source, basis: source }
}
