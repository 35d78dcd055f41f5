//! Answers that outlive their request: made from what a person or script said, held by the supervisor, consulted on every
//! attempt that would be asked. The object comes from the tool, so its width is checked here and not believed.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::common::access::{Access, Level};
use crate::common::decision::{Effect, Lifetime, Limits, Term, Width, Widths};
use crate::common::id::{CallId, GrantId};
use crate::common::moment::Expiry;
use crate::common::net::{Destination, Transport};
use crate::common::path::RawPath;
use crate::common::request::{Request, RuleRef};
use crate::common::scope::Pattern;

use super::commands::CommandScope;
pub use super::granted::Grants;
use super::hostscope::HostScope;
use super::sockets::SocketScope;

/// A scope, an access and a lifetime that somebody said yes or no to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    pub id: GrantId,
    pub effect: Effect,
    pub access: Access,
    /// What was asked for; always covered.
    pub object: RawPath,
    /// How far the answer reaches.
    pub scope: Scope,
    pub lifetime: Lifetime,
    /// The call that it holds for; `None` for the whole session.
    pub call: Option<CallId>,
    /// When it is over in any case.
    pub until: Option<Expiry>,
    /// Whether whoever answered proved who they are: only then it lifts `authenticate`.
    pub authenticated: bool,
    /// The group whose member answered, where the rule asked for one: it lifts what asks for that group, and nothing else.
    pub group: Option<String>,
    /// The consent agent and person, as in [`crate::common::decision::Decision::by`].
    pub by: String,
    /// The rule that asked; `None` where nothing had been asked.
    pub origin: Option<Box<RuleRef>>,
}

/// How far an answer reaches, by what it is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Scope {
    Paths(Pattern),
    /// Command lines of the program that is [`Grant::object`].
    Command(CommandScope),
    Host(HostScope),
    Socket(SocketScope),
}

/// What limits answers besides the rule that asks.
#[derive(Clone, Copy, Debug)]
pub struct Bounds<'a> {
    /// Of the session's user, which no answer may cover as a whole.
    pub home: &'a RawPath,
    pub limits: Limits,
}

impl Bounds<'_> {
    /// The widths that a person may be offered for a yes, from narrow to wide.
    pub fn offered(&self, request: &Request) -> Vec<Width> {
        let mut widths = offered_widths(request, self.home);
        widths.retain(|&width| self.limits.widths.has(width));
        widths
    }
}

/// An encoded grant that does not decode.
#[derive(Debug, thiserror::Error)]
#[error("the grant does not decode: {0}")]
pub struct Undecodable(#[from] postcard::Error);

/// An answer that would cover everything, or the whole of a home directory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an answer for {width} of {} would be too broad", .base.as_bytes().escape_ascii())]
pub struct TooBroad {
    pub width: Width,
    pub base: RawPath,
}

impl Grant {
    /// What an answer to `request` grants. The term is cut to what rule, profile and ceiling let an answer create; a grant
    /// for one attempt is never stored ([`Grants::add`]). It allows, and is not authenticated: whoever knows better sets it.
    ///
    /// Refuses [`Width::Directory`] and [`Width::Tree`] on `/`, `/home`, `home` and everything that contains `home`, a
    /// width that is not of the request's kind or would be every command line, or every host, there is, and one that the
    /// profile does not have offered.
    pub fn from_answer(
        id: GrantId,
        request: &Request,
        width: Width,
        term: Term,
        by: &str,
        bounds: &Bounds<'_>,
    ) -> Result<Grant, TooBroad> {
        if !bounds.limits.widths.has(width) {
            return Err(TooBroad { width, base: request.object.clone() });
        }
        let scope = scope(request, width, bounds.home)?;
        let lifetime = term.lifetime().min(longest(request, bounds.limits));
        let time = match lifetime {
            Lifetime::Attempt | Lifetime::Call | Lifetime::Session => request.remember_for,
            // What was to hold for longer, cut to a time, holds for the longest one.
            Lifetime::Until => [term.time(), bounds.limits.max_for].into_iter().flatten().min(),
            Lifetime::Persistent => None,
        };
        Ok(Grant {
            id,
            effect: Effect::Allow,
            access: request.access,
            object: request.object.clone(),
            scope,
            lifetime,
            call: (lifetime < Lifetime::Session).then_some(request.call),
            until: time.map(Expiry::after),
            authenticated: false,
            group: request.group.clone(),
            by: by.to_owned(),
            origin: Some(Box::new(request.rule.clone())),
        })
    }

    /// What a no to `request` denies from then on, for this term.
    pub fn from_denial(
        id: GrantId,
        request: &Request,
        width: Width,
        term: Term,
        by: &str,
        bounds: &Bounds<'_>,
    ) -> Result<Grant, TooBroad> {
        // A rule limits for how long something is allowed; only what nobody was shown the whole of is not denied again.
        let anything = Request { remember: Lifetime::Persistent, remember_for: None, group: None, ..request.clone() };
        let bounds = Bounds { limits: Limits { widths: Widths::ALL, ..bounds.limits }, ..*bounds };
        let grant = Grant::from_answer(id, &anything, width, term, by, &bounds)?;
        Ok(Grant { effect: Effect::Deny, ..grant })
    }

    /// The bytes that [`Grant::decode`] reads.
    pub fn encode(&self) -> Vec<u8> {
        // Only a type that cannot say its length fails here, and there is none; no bytes would not decode.
        postcard::to_stdvec(self).unwrap_or_default()
    }

    /// Bytes left over are an error.
    pub fn decode(bytes: &[u8]) -> Result<Grant, Undecodable> {
        match postcard::take_from_bytes(bytes)? {
            (grant, []) => Ok(grant),
            _ => Err(Undecodable(postcard::Error::DeserializeBadEncoding)),
        }
    }

    /// What whoever opens a session says with `--publish`: the session may be reached at this address of the host.
    pub fn published(id: GrantId, address: SocketAddr, by: &str) -> Grant {
        let destination = Destination::address(address, Transport::Tcp, Vec::new());
        Grant {
            id,
            effect: Effect::Allow,
            access: Access::Bind,
            object: destination.object(),
            scope: Scope::Host(HostScope::published(&destination)),
            lifetime: Lifetime::Session,
            call: None,
            until: None,
            authenticated: false,
            group: None,
            by: by.to_owned(),
            origin: None,
        }
    }

    /// Whether both say the same, whatever they are called, and this one no shorter.
    pub fn equals(&self, other: &Grant) -> bool {
        let as_long = match (self.until, other.until) {
            (None, _) => true,
            (Some(own), Some(other)) => own >= other,
            (Some(_), None) => false,
        };
        as_long && *self == Grant { id: self.id, until: self.until, origin: self.origin.clone(), ..other.clone() }
    }

    /// Whether its time is over.
    pub fn is_over(&self) -> bool {
        self.until.is_some_and(|until| until.is_over(self.effect))
    }

    /// Whether it would have lifted this request, or denied it, had it been there before.
    pub fn answers(&self, request: &Request) -> bool {
        let needed = Needed {
            authenticated: request.level == Level::Authenticate,
            group: request.group.as_deref(),
            longest: request.remember,
        };
        let reaches = match &self.scope {
            Scope::Paths(pattern) => is_of_paths(self.access) && pattern.matches(&request.object),
            Scope::Command(scope) => {
                let is_kept = self.effect == Effect::Deny || remembered(request) > Lifetime::Attempt;
                let is_kept = is_kept && self.object == request.object;
                let execution = request.execution.as_ref();
                is_kept && execution.is_some_and(|execution| scope.answers(execution, &request.who.cwd))
            }
            Scope::Host(scope) => scope.answers(request),
            Scope::Socket(scope) if self.effect == Effect::Deny => scope.denies(&request.object, request.service),
            Scope::Socket(scope) => scope.covers(&request.object, request.service),
        };
        reaches
            && match self.effect {
                Effect::Allow => self.holds_for(request.access, request.call, needed),
                Effect::Deny => self.denies(request.access, request.call),
            }
    }

    /// How far it reaches, as a person reads it: a pattern on paths, a command line with `…` for any further words, or hosts
    /// as `NAME:PORTS`, for one program with `PROGRAM ->` in front.
    pub fn scope(&self) -> String {
        match &self.scope {
            Scope::Paths(pattern) => pattern.to_string(),
            Scope::Command(scope) => scope.shown(&self.object),
            Scope::Host(scope) => scope.to_string(),
            Scope::Socket(scope) => scope.to_string(),
        }
    }

    /// Whether it is a no to this access for this call. Whoever was asked: a no needs no proof and no group.
    pub(super) fn denies(&self, access: Access, call: CallId) -> bool {
        self.effect == Effect::Deny
            && self.access == access
            && self.call.is_none_or(|own| own == call)
            && !self.is_over()
    }

    pub(super) fn holds_for(&self, access: Access, call: CallId, needed: Needed<'_>) -> bool {
        self.effect == Effect::Allow
            && (self.lifetime <= Lifetime::Session || self.lifetime <= needed.longest)
            && self.access == access
            && self.call.is_none_or(|own| own == call)
            && (self.authenticated || !needed.authenticated)
            && self.group.as_deref() == needed.group
            && !self.is_over()
    }
}

/// What a rule asks of a grant that is to lift it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Needed<'a> {
    pub authenticated: bool,
    pub group: Option<&'a str>,
    /// How long answers to the rule may hold. One that outlives its session lifts no rule that lets nothing do so, however
    /// wide it is; within a session a wide answer counts for all that it covers.
    pub longest: Lifetime,
}

/// The longest lifetime that an answer to this request may have within these limits.
pub fn longest(request: &Request, limits: Limits) -> Lifetime {
    let within =
        if limits.longest == Lifetime::Until && limits.max_for.is_none() { Lifetime::Session } else { limits.longest };
    remembered(request).min(within)
}

/// The longest lifetime that the request itself allows: what its rule says, and this attempt alone if nobody was shown the
/// whole of it, or it has no name that would mean the same another time.
pub fn remembered(request: &Request) -> Lifetime {
    let is_whole = match &request.execution {
        Some(execution) => execution.words_left_out == 0 && !request.object.as_bytes().ends_with(b" (deleted)"),
        None => is_of_paths(request.access) || request.access == Access::Unix || request.destination.is_some(),
    };
    if is_whole { request.remember } else { Lifetime::Attempt }
}

/// The widths that make sense for a request, from narrow to wide; a profile may have fewer of them offered
/// ([`Bounds::offered`]).
pub fn offered_widths(request: &Request, home: &RawPath) -> Vec<Width> {
    let mut widths = vec![Width::Exact];
    // An answer that is not kept reaches no further than the attempt.
    if remembered(request) == Lifetime::Attempt {
        return widths;
    }
    let wider = [Width::Directory, Width::Tree, Width::Prefix, Width::Program, Width::Host, Width::Domain];
    widths.extend(wider.into_iter().filter(|&width| scope(request, width, home).is_ok()));
    widths
}

/// What an answer of this width covers.
fn scope(request: &Request, width: Width, home: &RawPath) -> Result<Scope, TooBroad> {
    let scope = match request.access {
        Access::Read | Access::Write => return paths(request, width, home).map(Scope::Paths),
        Access::Exec => request.execution.as_ref().and_then(|execution| {
            CommandScope::of(&request.object, execution, &request.who.cwd, width).map(Scope::Command)
        }),
        Access::Connect | Access::Bind => HostScope::of(request, width).map(Scope::Host),
        Access::Unix => SocketScope::of(request, width, home).map(Scope::Socket),
    };
    // What nobody was shown the whole of is answered for the attempt, and for nothing besides.
    let alone = (remembered(request) == Lifetime::Attempt && width == Width::Exact)
        .then(|| Scope::Paths(Pattern::literal(&request.object)));
    scope.or(alone).ok_or_else(|| TooBroad { width, base: request.object.clone() })
}

/// Whether scopes of this access are patterns on paths.
fn is_of_paths(access: Access) -> bool {
    matches!(access, Access::Read | Access::Write)
}

/// The paths that an answer of this width covers.
fn paths(request: &Request, width: Width, home: &RawPath) -> Result<Pattern, TooBroad> {
    if width == Width::Exact {
        return Ok(Pattern::literal(&request.object));
    }
    let base = match request.object.parent() {
        Some(parent) if !request.is_directory => parent,
        _ => request.object.clone(),
    };
    let everything = base.components().next().is_none() || RawPath::from("/home").is_within(&base);
    match width {
        Width::Directory | Width::Tree if everything || home.is_within(&base) => Err(TooBroad { width, base }),
        Width::Directory => Ok(Pattern::children_of(&base)),
        Width::Tree => Ok(Pattern::tree_of(&base)),
        _ => Err(TooBroad { width, base }),
    }
}
