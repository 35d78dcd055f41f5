//! Answers that outlive their request: made from what a person or script said, held by the supervisor, consulted on every
//! attempt that would be asked. The object comes from the tool, so its width is checked here and not believed.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::common::access::{Access, Level};
use crate::common::decision::{Lifetime, Width};
use crate::common::id::{CallId, GrantId};
use crate::common::path::RawPath;
use crate::common::request::Request;
use crate::common::scope::Pattern;

/// A scope, an access and a lifetime that somebody said yes to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    pub id: GrantId,
    pub access: Access,
    /// What was asked for; always covered.
    pub object: RawPath,
    /// How far the answer reaches.
    pub pattern: Pattern,
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
    /// Refuses [`Width::Directory`] and [`Width::Tree`] on `/`, `/home`, `home` and everything that contains `home`.
    pub fn from_answer(
        id: GrantId,
        request: &Request,
        width: Width,
        lifetime: Lifetime,
        by: &str,
        home: &RawPath,
    ) -> Result<Grant, TooBroad> {
        let pattern = scope(request, width, home)?;
        let lifetime = lifetime.min(request.remember);
        Ok(Grant {
            id,
            access: request.access,
            object: request.object.clone(),
            pattern,
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
        self.holds_for(request.access, request.call, needed) && self.pattern.matches(&request.object)
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

/// The widths that a person may be offered, from narrow to wide.
pub fn offered_widths(request: &Request, home: &RawPath) -> Vec<Width> {
    let wider: &[Width] = match request.remember {
        // An answer that is not kept reaches no further than the attempt.
        Lifetime::Attempt => &[],
        Lifetime::Call | Lifetime::Session => &[Width::Directory, Width::Tree],
    };
    let mut widths = vec![Width::Exact];
    widths.extend(wider.iter().filter(|&&width| scope(request, width, home).is_ok()));
    widths
}

/// The paths that an answer of this width covers.
fn scope(request: &Request, width: Width, home: &RawPath) -> Result<Pattern, TooBroad> {
    if width == Width::Exact {
        return Ok(Pattern::literal(&request.object));
    }
    let base = match request.object.parent() {
        Some(parent) if !request.is_directory => parent,
        _ => request.object.clone(),
    };
    let everything = base.components().next().is_none() || RawPath::from("/home").is_within(&base);
    if everything || home.is_within(&base) {
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
