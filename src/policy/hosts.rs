//! Finds the rules that speak of a name or an address without looking at all of them. Built once per session from the
//! profile; asked by the supervisor on every connection with what a tool and DNS say.
//!
//! A name is looked up whole and by each of its domains, an address by itself and by each length of prefix that some rule
//! has: a few hash look-ups, however many rules there are.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::net::IpAddr;

use ipnet::IpNet;

use crate::common::access::{Access, Level};
use crate::common::net::{HostName, HostPattern, Ports, TermHost, Transport};

use super::index::Fnv;
use super::model::{NetworkTerms, Profile, Rule};

/// One term of a rule.
#[derive(Debug)]
pub(super) struct Entry {
    pub level: Level,
    /// Whether others than the session's user answer: at the same level they come first.
    others: bool,
    /// The position of the rule in the profile.
    pub rule: usize,
    pub ports: Ports,
    tcp: bool,
    udp: bool,
}

impl Entry {
    /// Smaller is stronger.
    pub fn rank(&self) -> (Reverse<Level>, Reverse<bool>, usize) {
        (Reverse(self.level), Reverse(self.others), self.rule)
    }

    pub fn is_for(&self, transport: Transport) -> bool {
        match transport {
            Transport::Tcp => self.tcp,
            Transport::Udp => self.udp,
        }
    }
}

type Table<Key> = HashMap<Key, Vec<usize>, BuildHasherDefault<Fnv>>;

/// The terms of all rules for one access. Lists hold positions in `entries`, so the lowest of a list is the strongest.
#[derive(Debug, Default)]
pub(super) struct Hosts {
    entries: Vec<Entry>,
    exact: Table<String>,
    below: Table<String>,
    any: Vec<usize>,
    addresses: Table<IpAddr>,
    /// By length of prefix, for each family.
    networks: Vec<(IpNet, Table<IpAddr>)>,
}

/// Where an entry is found.
enum Key {
    Name(HostPattern),
    Address(IpAddr),
    Network(IpNet),
}

impl Hosts {
    pub fn new(profile: &Profile, access: Access, counts: &dyn Fn(&Rule) -> bool) -> Hosts {
        let rules = profile.rules.iter().enumerate().filter(|(_, rule)| counts(rule) && rule.access.contains(&access));
        let mut found: Vec<(Entry, Key)> = rules
            .filter_map(|(at, rule)| Some((at, rule, rule.network.as_ref()?)))
            .flat_map(|(at, rule, terms)| entries(at, rule, terms))
            .collect();
        found.sort_by_key(|(entry, _)| entry.rank());
        let mut hosts = Hosts::default();
        for (at, (entry, key)) in found.into_iter().enumerate() {
            match key {
                Key::Name(HostPattern::Exact(name)) => hosts.exact.entry(name.into()).or_default().push(at),
                Key::Name(HostPattern::Below(domain)) => hosts.below.entry(domain.into()).or_default().push(at),
                Key::Name(HostPattern::Any) => hosts.any.push(at),
                Key::Address(address) => hosts.addresses.entry(address).or_default().push(at),
                Key::Network(network) => hosts.table_of(network).entry(network.network()).or_default().push(at),
            }
            hosts.entries.push(entry);
        }
        hosts
    }

    fn table_of(&mut self, network: IpNet) -> &mut Table<IpAddr> {
        let is_like =
            |own: &IpNet| own.prefix_len() == network.prefix_len() && own.addr().is_ipv4() == network.addr().is_ipv4();
        let at = match self.networks.iter().position(|(own, _)| is_like(own)) {
            Some(at) => at,
            None => {
                self.networks.push((network, Table::default()));
                self.networks.len().saturating_sub(1)
            }
        };
        &mut self.networks[at].1
    }

    /// The strongest entry that speaks of this name and `counts`.
    pub fn by_name(&self, name: &HostName, counts: &dyn Fn(&Entry) -> bool) -> Option<&Entry> {
        self.strongest(self.lists_of_name(name), counts)
    }

    /// The strongest entry that speaks of this address, canonical, and `counts`.
    pub fn by_address(&self, address: IpAddr, counts: &dyn Fn(&Entry) -> bool) -> Option<&Entry> {
        self.strongest(self.lists_of_address(address), counts)
    }

    /// The strongest entry that speaks of every name and `counts`.
    pub fn of_every_name(&self, counts: &dyn Fn(&Entry) -> bool) -> Option<&Entry> {
        self.strongest(std::iter::once(self.any.as_slice()), counts)
    }

    /// The strongest entry that speaks of some address of the families and `counts`.
    pub fn of_some_address(&self, four: bool, six: bool, counts: &dyn Fn(&Entry) -> bool) -> Option<&Entry> {
        let fits = |address: &IpAddr| if address.is_ipv4() { four } else { six };
        let single = self.addresses.iter();
        let networks = self.networks.iter().flat_map(|(_, table)| table.iter());
        let lists = single.chain(networks).filter(|(address, _)| fits(address)).map(|(_, list)| list.as_slice());
        self.strongest(lists, counts)
    }

    /// Every entry that speaks of this name.
    pub fn all_of_name<'a>(&'a self, name: &'a HostName) -> impl Iterator<Item = &'a Entry> {
        self.lists_of_name(name).flatten().filter_map(|&at| self.entries.get(at))
    }

    fn lists_of_name<'a>(&'a self, name: &'a HostName) -> impl Iterator<Item = &'a [usize]> {
        let whole = name.as_str();
        let domains = whole.match_indices('.').filter_map(move |(dot, _)| whole.get(dot.saturating_add(1)..));
        let below = domains.filter_map(|domain| self.below.get(domain));
        let exact = self.exact.get(whole).into_iter();
        exact.chain(below).map(Vec::as_slice).chain(std::iter::once(self.any.as_slice()))
    }

    fn lists_of_address(&self, address: IpAddr) -> impl Iterator<Item = &[usize]> {
        let networks = self.networks.iter().filter_map(move |(like, table)| {
            let same = like.addr().is_ipv4() == address.is_ipv4();
            let network = IpNet::new(address, like.prefix_len()).ok().filter(|_| same)?;
            table.get(&network.network())
        });
        self.addresses.get(&address).into_iter().chain(networks).map(Vec::as_slice)
    }

    fn strongest<'a>(
        &self,
        lists: impl Iterator<Item = &'a [usize]>,
        counts: &dyn Fn(&Entry) -> bool,
    ) -> Option<&Entry> {
        let mut best = usize::MAX;
        for list in lists {
            let mut better = list.iter().copied().take_while(|&at| at < best);
            if let Some(at) = better.find(|&at| self.entries.get(at).is_some_and(counts)) {
                best = at;
            }
        }
        self.entries.get(best)
    }
}

fn entries<'a>(at: usize, rule: &'a Rule, terms: &'a NetworkTerms) -> impl Iterator<Item = (Entry, Key)> + 'a {
    let entry = move |ports: Ports| Entry {
        level: rule.level,
        others: rule.group.is_some(),
        rule: at,
        ports,
        tcp: terms.transports.contains(&Transport::Tcp),
        udp: terms.transports.contains(&Transport::Udp),
    };
    let hosts = terms.hosts.iter().map(move |term| {
        let key = match &term.host {
            TermHost::Name(pattern) => Key::Name(pattern.clone()),
            TermHost::Address(address) => Key::Address(*address),
        };
        (entry(term.ports), key)
    });
    let ports = if terms.ports.is_empty() { &[Ports::ANY] } else { terms.ports.as_slice() };
    let networks = terms
        .networks
        .iter()
        .flat_map(move |network| ports.iter().map(move |ports| (entry(*ports), Key::Network(*network))));
    hosts.chain(networks)
}
