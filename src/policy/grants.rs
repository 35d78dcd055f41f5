//! Answers that outlive their request: made from what a person or script said, held by the supervisor, consulted on every
//! attempt that would be asked. The object comes from the tool, so its width is checked here and not believed.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::common::access::{Access, Level};
use crate::common::decision::{Lifetime, Width};
use crate::common::exec::Command;
use crate::common::id::{CallId, GrantId};
use crate::common::path::RawPath;
use crate::common::request::Request;
use crate::common::scope::Pattern;

use super::commands::CommandScope;
use super::reading::Reading;

/// A scope, an access and a lifetime that somebody said yes to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    pub id: GrantId,
    pub access: Access,
    /// What was asked for; always covered.
    pub object: RawPath,
    /// How far the answer reaches; of an exec the program.
    pub pattern: Pattern,
    /// How far it reaches among the command lines of the program, where the access is [`Access::Exec`].
    pub command: Option<CommandScope>,
    pub lifetime: Lifetime,
    /// The call that it holds for; `None` for the whole session.
    pub call: Option<CallId>,
    /// Whether whoever answered proved who they are: only then it lifts `authenticate`.
    pub authenticated: bool,
    /// The group whose member answered, where the rule asked for one: it lifts what asks for that group, and nothing else.
    pub group: Option<String>,
    /// The consent agent and person, as in [`crate::common::decision::Decision::by`].
    pub by: String,
}

/// An answer that would cover everything, or the whole of a home directory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an answer for {width} of {} would be too broad", .base.as_bytes().escape_ascii())]
pub struct TooBroad {
    pub width: Width,
    pub base: RawPath,
}

impl Grant {
    /// What an answer to `request` grants. The lifetime is cut to what the rule lets an answer create; a grant for one
    /// attempt is never stored ([`Grants::add`]). Not authenticated: whoever knows better sets it.
    ///
    /// Refuses [`Width::Directory`] and [`Width::Tree`] on `/`, `/home`, `home` and everything that contains `home`, and a
    /// width that is not of the request's kind or would be every command line there is.
    pub fn from_answer(
        id: GrantId,
        request: &Request,
        width: Width,
        lifetime: Lifetime,
        by: &str,
        home: &RawPath,
    ) -> Result<Grant, TooBroad> {
        let pattern = scope(request, width, home)?;
        let command = match &request.execution {
            Some(execution) if request.access == Access::Exec => {
                let too_broad = || TooBroad { width, base: request.object.clone() };
                Some(CommandScope::of(&request.object, execution, &request.who.cwd, width).ok_or_else(too_broad)?)
            }
            _ => None,
        };
        let lifetime = lifetime.min(longest(request));
        Ok(Grant {
            id,
            access: request.access,
            object: request.object.clone(),
            pattern,
            command,
            lifetime,
            call: (lifetime != Lifetime::Session).then_some(request.call),
            authenticated: false,
            group: request.group.clone(),
            by: by.to_owned(),
        })
    }

    /// Whether both say the same, whatever they are called.
    pub fn equals(&self, other: &Grant) -> bool {
        *self == Grant { id: self.id, ..other.clone() }
    }

    /// Whether it would have lifted this request, had it been there before.
    pub fn answers(&self, request: &Request) -> bool {
        let needed = Needed { authenticated: request.level == Level::Authenticate, group: request.group.as_deref() };
        let reaches = match (&self.command, &request.execution) {
            (Some(scope), Some(execution)) => {
                longest(request) > Lifetime::Attempt && scope.answers(execution, &request.who.cwd)
            }
            (None, _) => request.access != Access::Exec,
            (Some(_), None) => false,
        };
        reaches && self.holds_for(request.access, request.call, needed) && self.pattern.matches(&request.object)
    }

    /// How far it reaches, as a person reads it: a pattern on paths, or a command line with `…` for any further words.
    pub fn scope(&self) -> String {
        match &self.command {
            Some(scope) => scope.shown(&self.object),
            None => self.pattern.to_string(),
        }
    }

    fn holds_for(&self, access: Access, call: CallId, needed: Needed<'_>) -> bool {
        self.access == access
            && self.call.is_none_or(|own| own == call)
            && (self.authenticated || !needed.authenticated)
            && self.group.as_deref() == needed.group
    }
}

/// What a rule asks of a grant that is to lift it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Needed<'a> {
    pub authenticated: bool,
    pub group: Option<&'a str>,
}

/// The longest lifetime that an answer to this request may have: what its rule says, and this attempt alone if nobody was
/// shown the whole of it, or it has no name that would mean the same another time.
pub fn longest(request: &Request) -> Lifetime {
    let is_whole = match &request.execution {
        Some(execution) => execution.words_left_out == 0 && !request.object.as_bytes().ends_with(b" (deleted)"),
        None => request.access != Access::Exec,
    };
    if is_whole { request.remember } else { Lifetime::Attempt }
}

/// The widths that a person may be offered, from narrow to wide.
pub fn offered_widths(request: &Request, home: &RawPath) -> Vec<Width> {
    let mut widths = vec![Width::Exact];
    // An answer that is not kept reaches no further than the attempt.
    if longest(request) == Lifetime::Attempt {
        return widths;
    }
    let is_fit = |width: Width| match (&request.execution, request.access) {
        (Some(execution), Access::Exec) => {
            CommandScope::of(&request.object, execution, &request.who.cwd, width).is_some()
        }
        (None, Access::Exec) => false,
        _ => scope(request, width, home).is_ok(),
    };
    let wider = [Width::Directory, Width::Tree, Width::Prefix, Width::Program];
    widths.extend(wider.into_iter().filter(|&width| is_fit(width)));
    widths
}

/// The paths that an answer of this width covers.
fn scope(request: &Request, width: Width, home: &RawPath) -> Result<Pattern, TooBroad> {
    let is_of_command = matches!(width, Width::Prefix | Width::Program);
    if request.access == Access::Exec || width == Width::Exact {
        return Ok(Pattern::literal(&request.object));
    }
    let base = match request.object.parent() {
        Some(parent) if !request.is_directory => parent,
        _ => request.object.clone(),
    };
    let everything = base.components().next().is_none() || RawPath::from("/home").is_within(&base);
    if everything || is_of_command || home.is_within(&base) {
        return Err(TooBroad { width, base });
    }
    Ok(if width == Width::Tree { Pattern::tree_of(&base) } else { Pattern::children_of(&base) })
}

/// The live grants of one session.
#[derive(Clone, Debug, Default)]
pub struct Grants {
    list: Vec<Grant>,
    /// Positions in `list` by object.
    by_object: HashMap<RawPath, Vec<usize>>,
    /// Positions of those that reach beyond their object.
    wide: Vec<usize>,
}

impl Grants {
    pub fn new() -> Grants {
        Grants::default()
    }

    /// Keeps a grant. `false` if there is nothing to keep: it was for one attempt, or an equal one is here.
    pub fn add(&mut self, grant: Grant) -> bool {
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
        self.by_object.entry(grant.object.clone()).or_default().push(at);
        if grant.pattern != Pattern::literal(&grant.object) {
            self.wide.push(at);
        }
        self.list.push(grant);
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

    pub fn iter(&self) -> impl Iterator<Item = &Grant> {
        self.list.iter()
    }

    pub fn len(&self) -> usize {
        self.list.len()
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The position of a grant that holds for this path.
    pub(super) fn find(&self, access: Access, path: &RawPath, call: CallId, needed: Needed<'_>) -> Option<usize> {
        if self.list.is_empty() {
            return None;
        }
        let holds = |at: &usize| self.get(*at).is_some_and(|grant| grant.holds_for(access, call, needed));
        if let Some(&at) = self.by_object.get(path).into_iter().flatten().find(|at| holds(at)) {
            return Some(at);
        }
        let names: Vec<&[u8]> = path.components().collect();
        let covers = |at: &usize| self.get(*at).is_some_and(|grant| grant.pattern.matches_names(&names));
        self.wide.iter().copied().find(|at| holds(at) && covers(at))
    }

    /// The position of a grant that holds for this command.
    pub(super) fn find_exec(&self, command: &Command, call: CallId, needed: Needed<'_>) -> Option<usize> {
        let program = &command.asked.program;
        let holds = |at: &usize| {
            self.get(*at).is_some_and(|grant| {
                grant.holds_for(Access::Exec, call, needed)
                    && grant.command.as_ref().is_some_and(|scope| scope.covers(command))
            })
        };
        // The path of what has no name is what any file may be called.
        self.by_object.get(&program.path).filter(|_| program.is_named)?.iter().copied().find(holds)
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
        let own = self.by_object.get(&script.path);
        own.into_iter().flatten().filter_map(|&at| self.get(at)).any(|grant| {
            grant.holds_for(Access::Exec, call, needed)
                && grant.command.as_ref().is_some_and(|scope| scope.covers_script(reading, command))
        })
    }

    /// The position of a grant that holds for everything that `pattern` matches.
    pub(super) fn find_covering(
        &self,
        access: Access,
        pattern: &Pattern,
        call: CallId,
        needed: Needed<'_>,
    ) -> Option<usize> {
        self.list.iter().position(|grant| {
            grant.holds_for(access, call, needed)
                && (grant.pattern.covers(pattern) || Pattern::literal(&grant.object) == *pattern)
        })
    }
}
