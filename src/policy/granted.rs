//! The live grants of one session, found without looking at all of them: there may be thousands that outlive their sessions.
//! Consulted by the supervisor on every attempt that is not plainly allowed, and by all that somebody denied for good.
//!
//! A grant for one file is found by that file, a pattern by the directory that all of its matches lie in, a host by its name,
//! its domains or its address.

use std::collections::HashMap;
use std::net::IpAddr;

use crate::common::access::Access;
use crate::common::decision::{Effect, Lifetime};
use crate::common::exec::Command;
use crate::common::id::{CallId, GrantId};
use crate::common::net::{HostName, Service};
use crate::common::path::RawPath;
use crate::common::scope::{Pattern, Reach};

use super::grants::{Grant, Needed, Scope};
use super::hostscope::{HostScope, Reached, ScopeHost};
use super::reading::{Reading, Run, Subject};

type Table<Key> = HashMap<Key, Vec<usize>>;

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Grants {
    list: Vec<Grant>,
    /// Positions in `list` by object.
    by_object: Table<RawPath>,
    /// Positions of patterns, of paths and of sockets, by the directory that they begin at, as [`place`] writes it.
    places: Table<Vec<u8>>,
    names: Table<String>,
    domains: Table<String>,
    addresses: Table<IpAddr>,
    /// Positions of what denies.
    denials: Vec<usize>,
}

/// Whether a list of so many grants is to be rid of those that are over before it grows: so seldom that thousands can be added.
pub fn is_swept_at(length: usize) -> bool {
    length >= 64 && length.is_power_of_two()
}

/// A directory by its components; `/` is empty.
fn place<'a>(names: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    names.fold(Vec::new(), |mut place, name| {
        place.push(b'/');
        place.extend_from_slice(name);
        place
    })
}

/// What a program is called in a grant.
fn path_of(subject: &Subject<'_>) -> Option<RawPath> {
    match subject {
        Subject::Program(program) => program.is_named.then(|| program.path.clone()),
        Subject::Beside(program, name) => Some(program.path.parent()?.join(name)),
        Subject::Text(text) => text.starts_with(b"/").then(|| RawPath::new(*text)),
    }
}

impl Grants {
    pub fn new() -> Grants {
        Grants::default()
    }

    /// Keeps a grant. `false` if there is nothing to keep: it was for one attempt, or an equal one is here. Now and then those
    /// go whose time is over, or a session would gather them: positions from before mean nothing afterwards.
    pub fn add(&mut self, grant: Grant) -> bool {
        if is_swept_at(self.list.len()) {
            self.drop_all(Grant::is_over);
        }
        let known = self
            .by_object
            .get(&grant.object)
            .is_some_and(|at| at.iter().any(|&at| self.get(at).is_some_and(|own| own.equals(&grant))));
        if grant.lifetime == Lifetime::Attempt || known {
            return false;
        }
        self.enter(grant);
        true
    }

    fn enter(&mut self, grant: Grant) {
        let at = self.list.len();
        match &grant.scope {
            Scope::Paths(pattern) if *pattern == Pattern::literal(&grant.object) => {}
            Scope::Paths(pattern) => self.enter_pattern(pattern, at),
            Scope::Socket(scope) => self.enter_pattern(&scope.paths, at),
            Scope::Host(scope) => match &scope.host {
                ScopeHost::Name(name) => self.names.entry(name.as_str().to_owned()).or_default().push(at),
                ScopeHost::Domain(name) => self.domains.entry(name.as_str().to_owned()).or_default().push(at),
                ScopeHost::Address(ip) => self.addresses.entry(*ip).or_default().push(at),
            },
            Scope::Command(_) => {}
        }
        if grant.effect == Effect::Deny {
            self.denials.push(at);
        }
        self.by_object.entry(grant.object.clone()).or_default().push(at);
        self.list.push(grant);
    }

    fn enter_pattern(&mut self, pattern: &Pattern, at: usize) {
        self.places.entry(place(pattern.literal_prefix().components())).or_default().push(at);
    }

    /// Drops what was granted to a call that has ended. Positions from before mean nothing afterwards.
    pub fn end_call(&mut self, call: CallId) {
        self.drop_all(|grant| grant.call == Some(call));
    }

    /// Drops one grant; `false` if it is not here. Positions from before mean nothing afterwards.
    pub fn revoke(&mut self, id: GrantId) -> bool {
        self.drop_all(|grant| grant.id == id)
    }

    fn drop_all(&mut self, is_over: impl Fn(&Grant) -> bool) -> bool {
        let found = self.list.iter().any(&is_over);
        if found {
            for grant in std::mem::take(self).list.into_iter().filter(|grant| !is_over(grant)) {
                self.enter(grant);
            }
        }
        found
    }

    pub fn get(&self, at: usize) -> Option<&Grant> {
        self.list.get(at)
    }

    pub fn of(&self, id: GrantId) -> Option<&Grant> {
        self.list.iter().find(|grant| grant.id == id)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Grant> {
        self.list.iter()
    }

    pub fn len(&self) -> usize {
        self.list.len()
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    fn first(&self, positions: Option<&Vec<usize>>, fits: impl Fn(&Grant) -> bool) -> Option<usize> {
        positions.into_iter().flatten().copied().find(|&at| self.get(at).is_some_and(&fits))
    }

    /// The first that `fits` of the patterns that begin at the directory with these components, or above it.
    fn first_above(&self, names: &[&[u8]], fits: impl Fn(&Grant) -> bool) -> Option<usize> {
        if self.places.is_empty() {
            return None;
        }
        let mut here = Vec::with_capacity(names.iter().map(|name| name.len().saturating_add(1)).sum());
        let mut found = self.first(self.places.get(&here), &fits);
        for name in names {
            if found.is_some() {
                break;
            }
            here.push(b'/');
            here.extend_from_slice(name);
            found = self.first(self.places.get(&here), &fits);
        }
        found
    }

    /// The first that `fits` of those about paths that match this one.
    fn first_of_path(&self, path: &RawPath, fits: impl Fn(&Grant) -> bool) -> Option<usize> {
        if self.list.is_empty() {
            return None;
        }
        // What was asked for is covered, also where the pattern is of what is in it.
        let exact = |grant: &Grant| matches!(&grant.scope, Scope::Paths(_)) && fits(grant);
        self.first(self.by_object.get(path), exact).or_else(|| {
            let names: Vec<&[u8]> = path.components().collect();
            let covers =
                |grant: &Grant| matches!(&grant.scope, Scope::Paths(own) if own.matches_names(&names)) && fits(grant);
            self.first_above(&names, covers)
        })
    }

    /// The first that `fits` of those about this host.
    fn first_of_host(
        &self,
        name: Option<&HostName>,
        ip: Option<IpAddr>,
        fits: impl Fn(&Grant, &HostScope) -> bool,
    ) -> Option<usize> {
        let fits = |grant: &Grant| matches!(&grant.scope, Scope::Host(scope) if fits(grant, scope));
        let by_address = || self.first(self.addresses.get(&ip?), fits);
        let by_name = || {
            let whole = name?.as_str();
            let domains = || whole.match_indices('.').filter_map(|(dot, _)| whole.get(dot.saturating_add(1)..));
            let domains = || std::iter::once(whole).chain(domains());
            self.first(self.names.get(whole), fits)
                .or_else(|| domains().find_map(|domain| self.first(self.domains.get(domain), fits)))
        };
        by_name().or_else(by_address)
    }

    fn id(&self, at: usize) -> Option<GrantId> {
        self.get(at).map(|grant| grant.id)
    }
}

/// What lifts.
impl Grants {
    /// The position of a grant that holds for this path.
    pub(super) fn find(&self, access: Access, path: &RawPath, call: CallId, needed: Needed<'_>) -> Option<usize> {
        self.first_of_path(path, |grant| grant.holds_for(access, call, needed))
    }

    /// The position of a grant about hosts that covers what is reached.
    pub(super) fn find_host(
        &self,
        access: Access,
        call: CallId,
        needed: Needed<'_>,
        reached: &Reached<'_>,
        program: &dyn Fn() -> Option<RawPath>,
    ) -> Option<usize> {
        self.first_of_host(reached.name, reached.ip, |grant, scope| {
            grant.holds_for(access, call, needed) && scope.covers(reached) && scope.holds_for_program(program)
        })
    }

    /// Whether somebody said yes to a host that covers it, whoever was asked.
    pub(super) fn speaks_of_host(
        &self,
        access: Access,
        call: CallId,
        reached: &Reached<'_>,
        program: &dyn Fn() -> Option<RawPath>,
    ) -> bool {
        let speaks = |grant: &Grant, scope: &HostScope| {
            let needed = Needed { authenticated: false, group: grant.group.as_deref(), longest: Lifetime::Persistent };
            grant.holds_for(access, call, needed) && scope.covers(reached) && scope.holds_for_program(program)
        };
        self.first_of_host(reached.name, reached.ip, speaks).is_some()
    }

    /// The position of a grant that holds for this socket.
    pub(super) fn find_socket(
        &self,
        path: &RawPath,
        service: Option<Service>,
        call: CallId,
        needed: Needed<'_>,
    ) -> Option<usize> {
        let names: Vec<&[u8]> = path.components().collect();
        self.first_above(&names, |grant| {
            let covers = matches!(&grant.scope, Scope::Socket(scope) if scope.covers(path, service));
            covers && grant.holds_for(Access::Unix, call, needed)
        })
    }

    /// The position of a grant that holds for this command.
    pub(super) fn find_exec(&self, command: &Command, call: CallId, needed: Needed<'_>) -> Option<usize> {
        let program = &command.asked.program;
        let holds = |grant: &Grant| {
            grant.holds_for(Access::Exec, call, needed)
                && matches!(&grant.scope, Scope::Command(scope) if scope.covers(command))
        };
        // The path of what has no name is what any file may be called.
        self.first(self.by_object.get(&program.path).filter(|_| program.is_named), holds)
    }

    /// Whether a grant for a script holds for its interpreter, which was told nothing but to run it with the same words:
    /// `node /usr/bin/npm publish` where `npm publish` was approved.
    pub(super) fn holds_for_script(
        &self,
        reading: &Reading<'_>,
        command: &Command,
        call: CallId,
        needed: Needed<'_>,
    ) -> bool {
        let Some(script) = reading.script.filter(|script| script.is_named) else { return false };
        let holds = |grant: &Grant| {
            grant.holds_for(Access::Exec, call, needed)
                && matches!(&grant.scope, Scope::Command(scope) if scope.covers_script(reading, command))
        };
        self.first(self.by_object.get(&script.path), holds).is_some()
    }

    /// The position of a grant that holds for everything that `pattern` matches.
    pub(super) fn find_covering(
        &self,
        access: Access,
        pattern: &Pattern,
        call: CallId,
        needed: Needed<'_>,
    ) -> Option<usize> {
        let start = pattern.literal_prefix();
        let covers = |grant: &Grant| {
            let Scope::Paths(own) = &grant.scope else { return false };
            let is_it = *pattern == Pattern::literal(&grant.object);
            grant.holds_for(access, call, needed) && (is_it || own.covers(pattern))
        };
        // What covers all of it begins where it begins, or above.
        let names: Vec<&[u8]> = start.components().collect();
        self.first(self.by_object.get(&start), covers).or_else(|| self.first_above(&names, covers))
    }
}

/// What denies, whoever was asked and whatever a rule says.
impl Grants {
    /// Whether anything of this access is denied for good.
    pub fn denies_any(&self, access: Access) -> bool {
        self.denials.iter().filter_map(|&at| self.get(at)).any(|grant| grant.access == access)
    }

    /// The paths of which this access is denied for good.
    pub fn denied_paths(&self, access: Access) -> impl Iterator<Item = &Pattern> {
        self.denials.iter().filter_map(|&at| self.get(at)).filter_map(move |grant| match &grant.scope {
            Scope::Paths(pattern) if grant.access == access => Some(pattern),
            _ => None,
        })
    }

    pub(super) fn denies(&self, access: Access, path: &RawPath, call: CallId) -> Option<GrantId> {
        if self.denials.is_empty() {
            return None;
        }
        self.first_of_path(path, |grant| grant.denies(access, call)).and_then(|at| self.id(at))
    }

    /// What denies something that lies, or could lie, at least so far below the directory with these components.
    pub(super) fn denies_below(
        &self,
        access: Access,
        directory: &[&[u8]],
        call: CallId,
        least: Reach,
    ) -> Option<GrantId> {
        let mut denials = self.denials.iter().filter_map(|&at| self.get(at));
        let reaches = |grant: &&Grant| {
            let pattern = match &grant.scope {
                Scope::Paths(pattern) => pattern,
                Scope::Socket(scope) => &scope.paths,
                _ => return false,
            };
            grant.denies(access, call) && pattern.reach_below(directory) >= least
        };
        denials.find(reaches).map(|grant| grant.id)
    }

    /// Whether a name that may be at any depth is denied, so that whoever moves a directory has to look at what is below.
    pub fn denies_names_anywhere(&self, access: Access) -> bool {
        let floats = |grant: &Grant| matches!(&grant.scope, Scope::Paths(pattern) if pattern.is_floating());
        self.denials.iter().filter_map(|&at| self.get(at)).any(|grant| grant.access == access && floats(grant))
    }

    pub(super) fn denies_host(
        &self,
        access: Access,
        call: CallId,
        reached: &Reached<'_>,
        program: &dyn Fn() -> Option<RawPath>,
    ) -> Option<GrantId> {
        if self.denials.is_empty() {
            return None;
        }
        let denies = |grant: &Grant, scope: &HostScope| {
            grant.denies(access, call) && scope.denies(reached) && scope.holds_for_program(program)
        };
        self.first_of_host(reached.name, reached.ip, denies).and_then(|at| self.id(at))
    }

    /// Who listens at every address listens at each that is denied.
    pub(super) fn denies_some_address(&self, access: Access, call: CallId, port: u16) -> Option<GrantId> {
        let denies = |grant: &&Grant| {
            grant.denies(access, call) && matches!(&grant.scope, Scope::Host(scope) if scope.ports.contains(port))
        };
        self.denials.iter().filter_map(|&at| self.get(at)).find(denies).map(|grant| grant.id)
    }

    pub(super) fn denies_socket(&self, path: &RawPath, service: Option<Service>, call: CallId) -> Option<GrantId> {
        if self.denials.is_empty() {
            return None;
        }
        let names: Vec<&[u8]> = path.components().collect();
        let denies = |grant: &Grant| {
            let covers = matches!(&grant.scope, Scope::Socket(scope) if scope.denies(path, service));
            covers && grant.denies(Access::Unix, call)
        };
        self.first_above(&names, denies).and_then(|at| self.id(at))
    }

    /// What denies this command in any way to read it. Its words and its directory count, and nothing else of it: no
    /// variable and no other way to start the same program gets around a no.
    pub(super) fn denies_exec(&self, command: &Command, runs: &[Run<'_>], call: CallId) -> Option<GrantId> {
        if !self.denies_any(Access::Exec) {
            return None;
        }
        let of_program = |program: &RawPath, words: &mut dyn Iterator<Item = &[u8]>| {
            let words: Vec<&[u8]> = words.collect();
            let denies = |grant: &Grant| {
                grant.denies(Access::Exec, call)
                    && matches!(&grant.scope, Scope::Command(scope) if scope.denies(&words, &command.cwd))
            };
            self.first(self.by_object.get(program), denies).and_then(|at| self.id(at))
        };
        let asked = &command.asked;
        of_program(&asked.program.path, &mut asked.argv.iter().skip(1).map(Vec::as_slice)).or_else(|| {
            runs.iter().flat_map(|run| &run.readings).find_map(|reading| {
                let scripts = reading.script.iter().map(|script| script.path.clone());
                let programs: Vec<RawPath> = path_of(&reading.subject).into_iter().chain(scripts).collect();
                programs.iter().find_map(|program| of_program(program, &mut reading.words.iter()))
            })
        })
    }
}
