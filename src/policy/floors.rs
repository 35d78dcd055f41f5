//! The floors of a ceiling: from their notation to rules, and what they say of one request. Used by the daemon, as root, on an
//! admin's file and on requests that hold a tool's words; pure.

use std::collections::BTreeSet;
use std::path::Path;

use serde::Deserialize;
use toml::Spanned;

use crate::common::access::{Access, Level};
use crate::common::exec::{Command, Execution, Program, Step};
use crate::common::net::{Service, Transport};
use crate::common::path::RawPath;
use crate::common::request::Request;
use crate::common::text::Untrusted;

use super::ceiling::is_account_name;
use super::decide::{Policy, Source, Verdict};
use super::file::{Examples, ExceptTerm, Kind, RuleTable, Text, WordTerm};
use super::grants::Grants;
use super::load::{Context, PolicyError};
use super::merge::{self, Names};
use super::model::{BusNames, Rule};
use super::network::Reaching;

/// What stands for everything.
const EVERY_PATH: &str = "/**";
const EVERY_NETWORK: [&str; 2] = ["0.0.0.0/0", "::/0"];

/// One `[[floor]]`: the terms of a rule, all of which may be left out.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FloorTable {
    id: Option<Spanned<String>>,
    access: Spanned<Vec<Spanned<Access>>>,
    level: Spanned<Level>,
    /// For members of this group alone.
    group: Option<Spanned<String>>,
    /// For this user alone.
    user: Option<Spanned<String>>,
    reason: Option<Spanned<String>>,
    #[serde(default)]
    path: Vec<Spanned<String>>,
    #[serde(default)]
    except: Vec<Spanned<ExceptTerm>>,
    #[serde(default)]
    examples: Examples,
    #[serde(default)]
    program: Vec<Spanned<String>>,
    argv: Option<Spanned<Vec<Spanned<WordTerm>>>>,
    #[serde(default)]
    env: Vec<Spanned<String>>,
    #[serde(default)]
    host: Vec<Spanned<String>>,
    #[serde(default)]
    cidr: Vec<Spanned<String>>,
    port: Option<Spanned<String>>,
    #[serde(default)]
    protocol: Vec<Spanned<Transport>>,
    #[serde(default)]
    socket: Vec<Spanned<String>>,
}

impl FloorTable {
    /// Whether sessions of this user, a member of these groups, are limited by it.
    pub fn is_for(&self, user: &str, groups: Option<&BTreeSet<String>>) -> bool {
        let is_member = |group: &Spanned<String>| groups.is_none_or(|groups| groups.contains(group.get_ref()));
        self.group.as_ref().is_none_or(is_member) && self.user.as_ref().is_none_or(|own| own.get_ref() == user)
    }
}

/// The rules that a floor is. The number is its place in the file, from 0.
pub(super) fn rules(
    text: &Text,
    at: usize,
    floor: &Spanned<FloorTable>,
    context: &Context,
) -> Result<Vec<Rule>, PolicyError> {
    let table = floor.get_ref();
    for (name, what) in [(&table.group, "group"), (&table.user, "user")] {
        if let Some(name) = name.as_ref().filter(|name| !is_account_name(name.get_ref())) {
            return Err(text.error_at(name, format!("`{}` is no name of a {what}", name.get_ref())));
        }
    }
    if *table.level.get_ref() == Level::Allow {
        return Err(text.error_at(&table.level, "a floor makes nothing freer; a level above `allow` was expected"));
    }
    let whole = table.as_rule(text, at, floor)?;
    let kind = whole.kind(text)?;
    whole.check_keys(text, kind)?;
    let names = Names::plain(context);
    let accesses: Vec<Vec<Spanned<Access>>> = match kind {
        // What stands for every host is not the same for both.
        Kind::Hosts => whole.access.get_ref().iter().map(|access| vec![access.clone()]).collect(),
        Kind::Files | Kind::Programs | Kind::Sockets => vec![whole.access.get_ref().clone()],
    };
    let rule = |accesses: Vec<Spanned<Access>>| {
        let mut rule = table.as_rule(text, at, floor)?;
        rule.access = Spanned::new(whole.access.span(), accesses);
        let says_transport = !rule.protocol.is_empty();
        fill(&mut rule, kind);
        let mut made = merge::rule(&names, text, &rule)?;
        if let Some(terms) = made.network.as_mut().filter(|_| !says_transport && rule.has(Access::Connect)) {
            terms.transports = vec![Transport::Tcp, Transport::Udp];
        }
        Ok(Rule { is_ceiling: true, ..made })
    };
    accesses.into_iter().map(rule).collect()
}

impl FloorTable {
    fn as_rule(&self, text: &Text, at: usize, floor: &Spanned<FloorTable>) -> Result<RuleTable, PolicyError> {
        let number = at.saturating_add(1);
        let id = self.id.clone().unwrap_or_else(|| Spanned::new(floor.span(), format!("floor-{number}")));
        if text.text.len() < id.span().end {
            return Err(text.error_at(&self.access, "a floor outside of its file"));
        }
        let own = self.clone();
        Ok(RuleTable {
            id,
            access: own.access,
            level: own.level.into_inner(),
            path: own.path,
            except: own.except,
            remember: None,
            reason: own.reason,
            examples: own.examples,
            ask: None,
            program: own.program,
            argv: own.argv,
            env: own.env,
            host: own.host,
            cidr: own.cidr,
            port: own.port,
            protocol: own.protocol,
            socket: own.socket,
        })
    }
}

/// Without terms a floor speaks of everything of its access.
fn fill(rule: &mut RuleTable, kind: Kind) {
    let span = rule.access.span();
    let spanned = |value: &str| Spanned::new(span.clone(), value.to_owned());
    match kind {
        Kind::Files if rule.path.is_empty() => rule.path = vec![spanned(EVERY_PATH)],
        Kind::Programs if rule.program.is_empty() => rule.program = vec![spanned(EVERY_PATH)],
        Kind::Sockets if rule.socket.is_empty() => rule.socket = vec![spanned(EVERY_PATH)],
        Kind::Hosts if rule.host.is_empty() && rule.cidr.is_empty() => {
            if rule.has(Access::Connect) {
                let port = rule.port.as_ref().map_or("*", |port| port.get_ref().as_str());
                rule.host = vec![spanned(&format!("*:{port}"))];
            }
            rule.cidr = EVERY_NETWORK.iter().map(|network| spanned(network)).collect();
        }
        Kind::Files | Kind::Programs | Kind::Sockets | Kind::Hosts => {}
    }
}

/// A bus that a floor speaks of is not reached through a filter either, where nobody would be asked.
pub(super) fn close_buses(names: &mut BusNames, rules: &[Rule], notes: &mut Vec<String>) {
    let places = [
        (&mut names.session, Service::SessionBus, "/run/user/0/bus"),
        (&mut names.system, Service::SystemBus, "/run/dbus/system_bus_socket"),
    ];
    for (own, service, place) in places {
        let speaks = |rule: &&Rule| {
            let on_sockets = rule.access.contains(&Access::Unix) && rule.level > Level::Notify;
            on_sockets && (rule.services.contains(&service) || rule.matches(&RawPath::from(Path::new(place))))
        };
        if let Some(rule) = rules.iter().find(speaks).filter(|_| !own.is_empty()) {
            notes.push(format!("{}:{}: no name of [dbus] is reached on this bus ({service}).", rule.file, rule.line));
            own.clear();
        }
    }
}

/// What the ceiling by itself says of a request, as far as a person was shown it. `ceiling` is a policy of nothing else
/// ([`super::Ceiling::alone`]).
pub fn level_on(ceiling: &Policy, request: &Request) -> Level {
    let (call, grants) = (request.call, Grants::new());
    let of_floor = |verdict: Verdict| match verdict.source {
        Source::Rule(_) | Source::Raised { .. } => verdict.level,
        // What is built in is no matter of the ceiling's.
        _ => Level::Allow,
    };
    let object = &request.object;
    match request.access {
        Access::Read | Access::Write => {
            let ends = std::iter::once(object).chain(&request.other);
            let below = ends.clone().filter_map(|end| ceiling.below(request.access, end, call, &grants));
            let at = ends.map(|end| ceiling.decide(request.access, end, call, &grants));
            // Only of what moves whole trees more than the object is meant.
            let moves = request.is_directory || request.other.is_some();
            at.chain(below.filter(|_| moves && request.access == Access::Write)).map(of_floor).max()
        }
        Access::Exec => {
            let execution = request.execution.as_deref();
            execution.map(|own| of_floor(ceiling.decide_exec(&command(request, own), call, &grants)))
        }
        Access::Connect | Access::Bind => request.destination.as_deref().map(|destination| {
            let reaching = Reaching { destination, program: &|| None };
            of_floor(match request.access {
                Access::Bind => ceiling.decide_bind(&reaching, call, &grants),
                _ => ceiling.decide_connect(&reaching, call, &grants),
            })
        }),
        Access::Unix => Some(of_floor(ceiling.decide_unix(object, request.service, call, &grants))),
    }
    // A request that does not say what it is about is none that a ceiling could have let through.
    .unwrap_or(Level::Deny)
}

/// A command as it was shown. What is not known of it counts as what a floor might speak of.
fn command(request: &Request, execution: &Execution) -> Command {
    let program = |path: &RawPath| Program {
        path: path.clone(),
        is_named: !path.as_bytes().ends_with(b" (deleted)"),
        is_of_system: true,
    };
    let argv: Vec<Vec<u8>> = execution.argv.iter().map(|word| Untrusted::as_bytes(word).to_vec()).collect();
    let words = |path: &RawPath| {
        let own = [path.as_bytes().to_vec(), request.object.as_bytes().to_vec()];
        own.into_iter().chain(argv.iter().skip(1).cloned()).collect()
    };
    let interpreters = execution.interpreters.iter().map(|path| Step { program: program(path), argv: words(path) });
    Command {
        interpreters: interpreters.collect(),
        asked: Step { program: program(&request.object), argv },
        loader: None,
        operand: None,
        variables: execution.variables.iter().map(|own| own.as_bytes().to_vec()).collect(),
        cwd: request.who.cwd.clone(),
        version: None,
    }
}
