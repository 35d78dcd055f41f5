//! Answers that somebody gives before anything asked: which patterns may be meant, and what policy says of them. Pure; runs in
//! the daemon on words of whoever calls.
//!
//! What is refused is what covers everything: whoever wants that wants another profile, which an admin can read.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use crate::common::access::{Access, Level};
use crate::common::decision::{Effect, Lifetime, Width};
use crate::common::exec::{Command, Execution, Program, Step};
use crate::common::id::CallId;
use crate::common::net::{Destination, HostPattern, HostTerm, Knowledge, Named, Ports, Service, TermHost, Transport};
use crate::common::path::RawPath;
use crate::common::scope::{NameGlob, Part, Pattern, PatternError};
use crate::common::text::Untrusted;

use super::commands::CommandScope;
use super::decide::{Policy, Verdict};
use super::explain;
use super::grants::{Grants, Scope};
use super::hostscope::{HostScope, ScopeHost};
use super::meeting::reaches;
use super::network::Reaching;
use super::sockets::{Services, SocketScope};

/// An address of the internet that nobody has (RFC 5737), for names that nobody looked up.
const SOMEWHERE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
/// A name that no policy writes out.
const ANY: &[u8] = b"\x01gated\x02";

/// What is meant, as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Words {
    /// Of paths, absolute, with links followed; `~` and variables substituted.
    Paths(String),
    Command {
        /// With links followed.
        program: RawPath,
        /// The words behind the name; none: whatever they are.
        words: Vec<Vec<u8>>,
        /// As the kernel would run them for it.
        interpreters: Vec<RawPath>,
    },
    /// `HOST:PORT`
    Host(String),
    /// A path, or the name of a service.
    Socket(String),
}

/// Why it is not granted. One line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("this access takes another kind of pattern")]
    Kind,
    #[error("no pattern of paths: {0}")]
    Pattern(#[from] PatternError),
    #[error("{0}")]
    Host(String),
    #[error("too broad: {0}")]
    TooBroad(&'static str),
    #[error("{0} denies it, and no answer lifts that")]
    Denied(String),
    #[error("members of the group {group} answer here, says {rule}")]
    Group { group: String, rule: String },
    #[error("answers here hold for {longest} at the most, says {rule}")]
    TooLong { longest: Lifetime, rule: String },
}

/// What is meant, understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meant {
    pub scope: Scope,
    /// What stands for it where one object is shown; covered by the scope.
    pub object: RawPath,
}

/// Reads a pattern for this access and refuses what is too broad.
///
/// The homes are all that the user's home may be called: a caller's word for it is nobody else's.
pub fn read(access: Access, effect: Effect, pattern: &Words, homes: &[RawPath]) -> Result<Meant, Refused> {
    match (access, pattern) {
        (Access::Read | Access::Write, Words::Paths(text)) => paths(effect, text, homes),
        (Access::Exec, Words::Command { program, words, interpreters }) => {
            command(effect, program, words, interpreters)
        }
        (Access::Connect | Access::Bind, Words::Host(text)) => host(access, effect, text),
        (Access::Unix, Words::Socket(text)) => socket(effect, text, homes),
        _ => Err(Refused::Kind),
    }
}

/// What stands for all that a pattern matches: the place it begins at, if that is one of them.
fn object_of(pattern: &Pattern) -> RawPath {
    let (start, text) = (pattern.literal_prefix(), RawPath::new(pattern.to_string()));
    match () {
        () if pattern.matches(&start) => start,
        () if pattern.matches(&text) => text,
        // Of no file; there is no name that every pattern matches.
        () => RawPath::default(),
    }
}

fn is_named(part: &Part) -> bool {
    match part {
        Part::Name(_) => true,
        Part::Glob(glob) => !NameGlob::is_any(glob),
        Part::Deep => false,
    }
}

fn paths(effect: Effect, text: &str, homes: &[RawPath]) -> Result<Meant, Refused> {
    let pattern = Pattern::parse(text)?;
    let start = pattern.literal_prefix();
    let rest: Vec<&Part> = pattern.parts().iter().skip(start.components().count()).collect();
    let is_above_home = homes.iter().any(|home| home.is_within(&start)) || RawPath::from("/home").is_within(&start);
    let is_all = rest.iter().all(|part| !is_named(part));
    if is_above_home && is_all {
        return Err(Refused::TooBroad(match rest.is_empty() {
            true => "this directory has everything of somebody's in it; name what is meant",
            false => "it covers the whole of a home directory, or of the machine; name a directory below",
        }));
    }
    let has_a_name = matches!(rest.last(), Some(Part::Name(_)));
    if is_above_home && effect == Effect::Allow && !rest.is_empty() && !has_a_name {
        return Err(Refused::TooBroad("it is anywhere below a home directory; name a directory below, or one name"));
    }
    Ok(Meant { object: object_of(&pattern), scope: Scope::Paths(pattern) })
}

fn command(effect: Effect, program: &RawPath, words: &[Vec<u8>], interpreters: &[RawPath]) -> Result<Meant, Refused> {
    let is_whole = !program.as_bytes().starts_with(b"/") || program.components().next().is_none();
    if is_whole {
        return Err(Refused::TooBroad("one program was expected, by its path"));
    }
    if words.iter().any(|word| word == b"**" || word == b"*") {
        return Err(Refused::TooBroad("any further words are meant anyway; name the first ones"));
    }
    let width = if words.is_empty() { Width::Program } else { Width::Prefix };
    let argv: Vec<Untrusted> =
        std::iter::once(program.file_name().to_vec()).chain(words.iter().cloned()).map(Untrusted::new).collect();
    if effect == Effect::Allow {
        let execution = Execution {
            argv: argv.clone(),
            words_left_out: 0,
            interpreters: Vec::new(),
            variables: Vec::new(),
            parents: Vec::new(),
            is_new: false,
            version: None,
            is_first: false,
        };
        // What may be offered for such a command line, and how many words of it must stand.
        let offered = CommandScope::of(program, &execution, program, width);
        let too_broad = match width {
            Width::Program => {
                "what this program does is in its words; name the first ones, or approve it when it is asked"
            }
            _ => "what follows these words may run anything; name more of them, or approve it when it is asked",
        };
        let kept = offered.ok_or(Refused::TooBroad(too_broad))?.argv.len();
        if kept > argv.len() {
            return Err(Refused::TooBroad(too_broad));
        }
    }
    let scope = CommandScope {
        width,
        argv: if width == Width::Program { Vec::new() } else { argv },
        interpreters: interpreters.to_vec(),
        variables: Vec::new(),
        cwd: None,
        version: None,
    };
    Ok(Meant { scope: Scope::Command(scope), object: program.clone() })
}

fn host(access: Access, effect: Effect, text: &str) -> Result<Meant, Refused> {
    let term: HostTerm = text
        .parse()
        .map_err(|error: crate::common::net::HostTermError| Refused::Host(format!("no host and port: {error}")))?;
    let is_block = effect == Effect::Deny;
    let host = match term.host {
        TermHost::Address(address) => {
            let zone = crate::common::net::Zone::of(address);
            use crate::common::net::Zone;
            let is_many = matches!(zone, Zone::Loopback | Zone::Metadata | Zone::Special);
            if term.ports == Ports::ANY && is_many && !is_block {
                return Err(Refused::TooBroad("every port of such an address; name one"));
            }
            if address.is_unspecified() && access == Access::Bind && !is_block {
                return Err(Refused::TooBroad("every address of this machine; name one"));
            }
            ScopeHost::Address(address)
        }
        TermHost::Name(HostPattern::Exact(name)) => ScopeHost::Name(name),
        TermHost::Name(HostPattern::Below(name)) => match name.registrable() {
            Some(_) => ScopeHost::Domain(name),
            None => {
                return Err(Refused::TooBroad("every host of a public suffix, or of a name that nobody registers"));
            }
        },
        TermHost::Name(HostPattern::Any) => return Err(Refused::TooBroad("every host there is")),
    };
    let object = RawPath::from(text);
    let scope = HostScope { host, ports: term.ports, transport: Transport::Tcp, program: None };
    Ok(Meant { scope: Scope::Host(scope), object })
}

fn socket(effect: Effect, text: &str, homes: &[RawPath]) -> Result<Meant, Refused> {
    if text.starts_with('@') {
        let service: Service = text.parse().map_err(|()| {
            Refused::Host(format!("no service: one of {} was expected", Service::ALL.map(Service::as_str).join(" ")))
        })?;
        let everywhere = Pattern::tree_of(&RawPath::from("/"));
        let scope = SocketScope { paths: everywhere, service: Some(service) };
        return Ok(Meant { scope: Scope::Socket(scope), object: RawPath::from(text) });
    }
    let Meant { scope, object } = paths(effect, text, homes)?;
    let Scope::Paths(paths) = scope else { return Err(Refused::Kind) };
    Ok(Meant { scope: Scope::Socket(SocketScope { paths, service: None }), object })
}

/// What a profile says of it before anybody was asked.
fn verdict(policy: &Policy, access: Access, meant: &Meant, services: &Services) -> Verdict {
    let (call, none) = (CallId(0), Grants::new());
    let nobody = || None;
    match &meant.scope {
        Scope::Paths(pattern) => {
            let start = pattern.literal_prefix();
            let one = if pattern.matches(&start) { start } else { start.join(ANY) };
            policy.decide(access, &one, call, &none)
        }
        Scope::Socket(SocketScope { paths, service }) => {
            let start = paths.literal_prefix();
            policy.decide_unix(&start, service.or_else(|| services.of(&start)), call, &none)
        }
        Scope::Host(scope) => {
            let port = scope.ports.first().max(1);
            let (ip, names) = match &scope.host {
                ScopeHost::Address(ip) => (*ip, Vec::new()),
                ScopeHost::Name(name) if name.as_str() == "localhost" => (Ipv4Addr::LOCALHOST.into(), Vec::new()),
                ScopeHost::Name(name) | ScopeHost::Domain(name) => {
                    (SOMEWHERE, vec![Named { name: name.clone(), by: Knowledge::Resolved }])
                }
            };
            let destination = Destination::address(SocketAddr::new(ip, port), scope.transport, names);
            let reaching = Reaching { destination: &destination, program: &nobody };
            match access {
                Access::Bind => policy.decide_bind(&reaching, call, &none),
                _ => policy.decide_connect(&reaching, call, &none),
            }
        }
        Scope::Command(scope) => {
            let program = |path: &RawPath| Program { path: path.clone(), is_named: true, is_of_system: true };
            let words = scope.argv.iter().map(|word| word.as_bytes().to_vec());
            let argv = if scope.argv.is_empty() { vec![meant.object.file_name().to_vec()] } else { words.collect() };
            let command = Command {
                asked: Step { program: program(&meant.object), argv },
                interpreters: Vec::new(),
                loader: None,
                operand: None,
                variables: Vec::new(),
                cwd: RawPath::from("/"),
                version: None,
            };
            policy.decide_exec(&command, call, &none)
        }
    }
}

/// What policy lets an answer be that was not asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowed {
    /// Whether whoever gives it must prove who they are.
    pub authenticated: bool,
    /// The longest time that it may hold.
    pub at_most: Option<Duration>,
}

/// Whether policy lets an answer that was not asked for allow this for so long. A part of what is meant may be of rules that
/// are stricter; these are as strict when it comes to them, and the shortest time of all that are reached is the answer's.
pub fn may_allow(
    policy: &Policy,
    access: Access,
    meant: &Meant,
    lifetime: Lifetime,
    services: &Services,
) -> Result<Allowed, Refused> {
    let verdict = verdict(policy, access, meant, services);
    let rule = || explain::rule(&policy.rule(&verdict));
    match verdict.level {
        Level::Allow => return Ok(Allowed { authenticated: false, at_most: times(policy, access, meant).min() }),
        Level::Deny => return Err(Refused::Denied(rule())),
        Level::Notify | Level::Ask | Level::Authenticate => {}
    }
    if let Some(group) = policy.group(&verdict) {
        return Err(Refused::Group { group: group.to_owned(), rule: rule() });
    }
    let longest = policy.remember(&verdict);
    if longest < lifetime {
        return Err(Refused::TooLong { longest, rule: rule() });
    }
    let at_most = times(policy, access, meant).chain(policy.remember_for(&verdict)).min();
    Ok(Allowed { authenticated: verdict.level == Level::Authenticate, at_most })
}

/// For how long rules on paths that are reached let answers hold.
fn times<'a>(policy: &'a Policy, access: Access, meant: &'a Meant) -> impl Iterator<Item = Duration> + 'a {
    let pattern = match &meant.scope {
        Scope::Paths(pattern) => Some(pattern),
        Scope::Socket(scope) => Some(&scope.paths),
        Scope::Command(_) | Scope::Host(_) => None,
    };
    let of_access = policy.profile().rules.iter().filter(move |rule| rule.access.contains(&access));
    let reached = of_access.filter(move |rule| pattern.is_some_and(|pattern| reaches(access, pattern, rule)));
    reached.filter_map(|rule| rule.remember_for)
}

/// What is known of the sockets at these paths, for a grant that allows: it is for what was meant and for nothing that a
/// service is behind.
pub fn with_service(meant: Meant, services: &Services) -> Meant {
    match meant.scope {
        Scope::Socket(SocketScope { paths, service: None }) => {
            let service = services.of(&paths.literal_prefix());
            Meant { scope: Scope::Socket(SocketScope { paths, service }), object: meant.object }
        }
        _ => meant,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn homes() -> [RawPath; 2] {
        ["/home/alice".into(), "/data/people/alice".into()]
    }

    fn path(effect: Effect, text: &str) -> Result<Meant, Refused> {
        read(Access::Write, effect, &Words::Paths(text.into()), &homes())
    }

    fn host(effect: Effect, text: &str) -> Result<Meant, Refused> {
        read(Access::Connect, effect, &Words::Host(text.into()), &homes())
    }

    fn exec(effect: Effect, program: &str, words: &[&str]) -> Result<Meant, Refused> {
        let words = words.iter().map(|word| word.as_bytes().to_vec()).collect();
        let pattern = Words::Command { program: program.into(), words, interpreters: Vec::new() };
        read(Access::Exec, effect, &pattern, &homes())
    }

    #[test]
    fn what_covers_everything_is_refused_whether_it_allows_or_denies() {
        for effect in [Effect::Allow, Effect::Deny] {
            for text in [
                "/",
                "/**",
                "/*",
                "/home",
                "/home/**",
                "/home/*",
                "/home/alice",
                "/home/alice/**",
                "/home/*/**",
                "/data/people/alice/**",
                "/data/**",
            ] {
                assert!(matches!(path(effect, text), Err(Refused::TooBroad(_))), "{text}");
            }
            for text in ["*:*", "*:443", "*.com:443", "*.co.uk:443", "*.internal:*"] {
                assert!(matches!(host(effect, text), Err(Refused::TooBroad(_))), "{text}");
            }
            for program in ["", "/", "git"] {
                assert!(matches!(exec(effect, program, &[]), Err(Refused::TooBroad(_))), "{program}");
            }
            assert!(matches!(exec(effect, "/usr/bin/git", &["**"]), Err(Refused::TooBroad(_))));
        }
    }

    #[test]
    fn what_names_something_is_taken() {
        for text in ["/home/alice/src/**", "/srv/*", "/home/alice/notes.txt", "/var/lib/**"] {
            let meant = path(Effect::Allow, text).unwrap();
            let Scope::Paths(pattern) = &meant.scope else { panic!() };
            assert!(meant.object == RawPath::default() || pattern.matches(&meant.object), "{text}");
        }
        assert!(path(Effect::Deny, "**/*.pem").is_ok() && path(Effect::Allow, "**/*.pem").is_err());
        assert!(path(Effect::Allow, "**/target").is_ok());
        for text in ["registry.npmjs.org:443", "*.npmjs.org:*", "192.0.2.7:443", "localhost:3000"] {
            assert!(host(Effect::Allow, text).is_ok(), "{text}");
        }
        assert!(host(Effect::Allow, "127.0.0.1:*").is_err() && host(Effect::Deny, "127.0.0.1:*").is_ok());
        assert!(exec(Effect::Allow, "/usr/bin/git", &["push"]).is_ok());
    }

    #[test]
    fn programs_that_run_what_they_are_told_are_not_allowed_as_a_whole_but_may_be_denied() {
        for (program, words) in [
            ("/usr/bin/bash", &[][..]),
            ("/usr/bin/env", &[]),
            ("/usr/bin/sudo", &["ls"]),
            ("/usr/bin/npm", &[]),
            ("/usr/bin/npm", &["run"]),
            ("/usr/bin/docker", &["run"]),
        ] {
            assert!(matches!(exec(Effect::Allow, program, words), Err(Refused::TooBroad(_))), "{program} {words:?}");
            assert!(exec(Effect::Deny, program, words).is_ok(), "{program}");
        }
        assert!(exec(Effect::Allow, "/usr/bin/npm", &["publish"]).is_ok());
    }

    #[test]
    fn a_pattern_is_of_the_kind_of_its_access() {
        let paths = Words::Paths("/srv/x".into());
        for access in [Access::Exec, Access::Connect, Access::Bind, Access::Unix] {
            assert_eq!(read(access, Effect::Deny, &paths, &homes()), Err(Refused::Kind));
        }
        let service = Words::Socket("@ssh_agent".into());
        assert!(read(Access::Unix, Effect::Deny, &service, &homes()).is_ok());
        assert!(read(Access::Unix, Effect::Deny, &Words::Socket("@nothing".into()), &homes()).is_err());
    }
}
