//! Attempts at every place that a profile writes about, to hold two profiles against each other, or a rule against the rest of
//! its profile. Pure. A wildcard stands for a name that nobody writes out, so that a sample is met by what is meant for all
//! names and by nothing else.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use crate::common::access::Access;
use crate::common::argv::{ArgvPattern, Place};
use crate::common::exec::{Command, Program, Step};
use crate::common::net::{Destination, HostName, HostPattern, Knowledge, Named, Ports, TermHost, Transport};
use crate::common::path::RawPath;
use crate::common::scope::{Part, Pattern};

use super::merged;
use super::model::{ExecTerms, NetworkTerms, Profile, ProgramPattern, Rule};
use super::question::{self, Asked, Question};

/// A name that no policy writes out.
const ANY: &[u8] = b"gated\x01sample";
/// An address of the internet that nobody has (RFC 5737).
const SOMEWHERE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
/// Trees in which names at any depth are looked for, at the most.
const MOST_TREES: usize = 64;

/// An attempt, and the term that it stands for.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub term: String,
    pub question: Question,
}

/// The trees that profiles name, in which names at any depth mean something of their own.
pub(super) fn trees<'a>(profiles: impl IntoIterator<Item = &'a Profile>) -> Vec<RawPath> {
    let mut trees = vec![RawPath::from("/")];
    for profile in profiles {
        let patterns = profile.rules.iter().flat_map(|rule| rule.path.iter().chain(&rule.except));
        for tree in patterns.filter_map(Pattern::as_tree).chain(profile.workspace.clone()) {
            if trees.len() < MOST_TREES && !trees.contains(&tree) {
                trees.push(tree);
            }
        }
    }
    trees
}

/// Attempts that are what a rule speaks of, one at the least for each of its terms and holes.
pub(super) fn of_rule(rule: &Rule, home: &RawPath, trees: &[RawPath]) -> Vec<Sample> {
    let mut samples = Vec::new();
    for &access in &rule.access {
        match (&rule.exec, &rule.network) {
            (Some(terms), _) => of_programs(&mut samples, terms, home),
            (None, Some(terms)) => of_hosts(&mut samples, access, terms),
            (None, None) => {
                for pattern in rule.path.iter().chain(&rule.except) {
                    for (term, path) in paths(pattern, trees) {
                        let what = match access {
                            Access::Unix => Asked::Socket { path, service: None },
                            _ => Asked::Path { access, path, is_directory: false },
                        };
                        samples.push(Sample { term, question: Question::of(what) });
                    }
                }
                for service in &rule.services {
                    let path = RawPath::from("/").join(ANY);
                    let question = Question::of(Asked::Socket { path, service: Some(*service) });
                    samples.push(Sample { term: service.to_string(), question });
                }
            }
        }
    }
    samples
}

/// Paths of a pattern: of one that begins anywhere, below each of the trees.
fn paths(pattern: &Pattern, trees: &[RawPath]) -> Vec<(String, RawPath)> {
    let below = |root: &RawPath, parts: &[Part]| {
        let mut path = root.clone();
        let last = parts.len().saturating_sub(1);
        for (at, part) in parts.iter().enumerate() {
            match part {
                Part::Name(name) => path = path.join(name),
                Part::Glob(glob) => path = path.join(&glob.with_stars(ANY)),
                // What is below and not what is named, but for the tree itself.
                Part::Deep if at == last => path = path.join(ANY),
                Part::Deep => {}
            }
        }
        path
    };
    let root = RawPath::from("/");
    match pattern.parts() {
        [Part::Deep, rest @ ..] if !rest.is_empty() => trees
            .iter()
            .map(|tree| {
                let shown = Pattern::literal(tree).to_string();
                (format!("{}/{pattern}", shown.trim_end_matches('/')), below(tree, rest))
            })
            .map(|(term, path)| (if term.starts_with("/**/") { pattern.to_string() } else { term }, path))
            .collect(),
        parts => vec![(pattern.to_string(), below(&root, parts))],
    }
}

fn of_programs(samples: &mut Vec<Sample>, terms: &ExecTerms, home: &RawPath) {
    for pattern in &terms.program {
        for program in programs(pattern, home) {
            for own in std::iter::once(terms.argv.as_ref()).chain(terms.except.iter().map(Some)) {
                for words in words(own) {
                    let name = program.path.file_name().to_vec();
                    let argv: Vec<Vec<u8>> = std::iter::once(name).chain(words).collect();
                    let variables = terms.env.iter().take(1).map(|variable| {
                        let value = variable.value.as_ref().map_or_else(|| ANY.to_vec(), |value| value.with_stars(ANY));
                        [variable.name.with_stars(ANY), value].join(b"=".as_slice())
                    });
                    let command = Command {
                        asked: Step { program: program.clone(), argv },
                        interpreters: Vec::new(),
                        loader: None,
                        operand: None,
                        variables: variables.collect(),
                        cwd: home.clone(),
                        version: None,
                    };
                    let shown = merged::program(pattern);
                    let term = own.map_or_else(|| shown.clone(), |own| format!("{shown} {}", merged::argv_words(own)));
                    samples.push(Sample { term, question: Question::of(Asked::Exec(Box::new(command))) });
                }
            }
        }
    }
}

fn programs(pattern: &ProgramPattern, home: &RawPath) -> Vec<Program> {
    let folder = RawPath::from("/usr/bin");
    let system = |path: RawPath| Program { path, is_named: true, is_of_system: true };
    match pattern {
        ProgramPattern::System => vec![system(folder.join(ANY))],
        ProgramPattern::SystemName(name) => vec![system(folder.join(&name.with_stars(ANY)))],
        ProgramPattern::Path(pattern) => {
            let of_system =
                |path: &RawPath| ["/usr", "/bin", "/sbin"].iter().any(|own| path.is_within(&RawPath::from(*own)));
            let found = paths(pattern, &[folder, home.clone()]).into_iter();
            found.map(|(_, path)| Program { is_of_system: of_system(&path), path, is_named: true }).collect()
        }
    }
}

/// Command lines of a pattern, without the program's name: with each alternative of each of its places.
fn words(pattern: Option<&ArgvPattern>) -> Vec<Vec<Vec<u8>>> {
    let Some(pattern) = pattern else { return vec![Vec::new(), vec![ANY.to_vec()]] };
    let places: Vec<Place> = pattern.clone().into();
    let first = |place: &Place| match place {
        Place::One(words) => words.first().map(|word| word.with_stars(ANY)),
        Place::Any | Place::Many(_) => None,
    };
    let plain: Vec<Vec<u8>> = places.iter().filter_map(first).collect();
    let mut all = vec![plain];
    for (at, place) in places.iter().enumerate() {
        let others: Vec<Vec<u8>> = match place {
            Place::One(words) => words.iter().skip(1).map(|word| word.with_stars(ANY)).collect(),
            Place::Many(words) => words.iter().map(|word| word.with_stars(ANY)).collect(),
            Place::Any => vec![ANY.to_vec()],
        };
        for other in others {
            let with = |(here, place): (usize, &Place)| if here == at { Some(other.clone()) } else { first(place) };
            all.push(places.iter().enumerate().filter_map(with).collect());
        }
    }
    all
}

fn of_hosts(samples: &mut Vec<Sample>, access: Access, terms: &NetworkTerms) {
    for &transport in &terms.transports {
        for term in terms.hosts.iter().chain(&terms.except) {
            for port in ports(term.ports) {
                let question = question::reach(access, host(&term.host, port, transport));
                samples.push(Sample { term: shown(&term.to_string(), transport), question });
            }
            if access == Access::Connect
                && transport == Transport::Tcp
                && let Some(name) = name(&term.host)
            {
                let question = question::reach(access, Destination::name(name));
                samples.push(Sample { term: format!("{term} (to look it up)"), question });
            }
        }
        for network in &terms.networks {
            let own = terms.ports.first().copied().unwrap_or(Ports::ANY);
            let ip = network.hosts().next().unwrap_or_else(|| network.addr());
            for port in ports(own) {
                let destination = Destination::address(SocketAddr::new(ip, port), transport, Vec::new());
                let term = shown(&format!("{network} port {own}"), transport);
                samples.push(Sample { term, question: question::reach(access, destination) });
            }
        }
    }
}

fn shown(term: &str, transport: Transport) -> String {
    match transport {
        Transport::Tcp => term.to_owned(),
        Transport::Udp => format!("{term}/udp"),
    }
}

/// The ends of a range, and what most hosts answer at.
fn ports(own: Ports) -> Vec<u16> {
    let mut ports = vec![own.first().max(1), own.last(), 443];
    ports.retain(|port| own.contains(*port));
    ports.sort_unstable();
    ports.dedup();
    ports
}

fn name(host: &TermHost) -> Option<HostName> {
    match host {
        TermHost::Address(_) => None,
        TermHost::Name(HostPattern::Exact(name)) => Some(name.clone()),
        TermHost::Name(HostPattern::Below(domain)) => HostName::parse(format!("gated-sample.{domain}").as_bytes()).ok(),
        TermHost::Name(HostPattern::Any) => HostName::parse(b"gated-sample.example").ok(),
    }
}

fn host(host: &TermHost, port: u16, transport: Transport) -> Destination {
    match host {
        TermHost::Address(address) => Destination::address(SocketAddr::new(*address, port), transport, Vec::new()),
        TermHost::Name(HostPattern::Exact(name)) if name.as_str() == "localhost" => {
            Destination::address(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port), transport, Vec::new())
        }
        TermHost::Name(_) => {
            let named = name(host).map(|name| Named { name, by: Knowledge::Resolved });
            Destination::address(SocketAddr::new(SOMEWHERE, port), transport, named.into_iter().collect())
        }
    }
}
