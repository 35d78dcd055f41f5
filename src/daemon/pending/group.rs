//! Which requests are put to somebody as one, and how that is called. Runs in the broker; paths and names are a tool's.
//!
//! A group holds changes or reads of files below one directory, or connections and look-ups of one host or registered domain:
//! of one program in one call, asked by one rule, and nothing that a prompt for one of them would say and the prompt for all
//! of them would not.

use std::net::IpAddr;

use crate::common::access::{Access, Level};
use crate::common::consent::{MOST_MEMBERS, Member};
use crate::common::decision::{Lifetime, Term, Width};
use crate::common::id::GrantId;
use crate::common::net::{HostName, Zone};
use crate::common::path::RawPath;
use crate::common::request::{Operation, Request};
use crate::common::scope::Pattern;
use crate::policy::grants::{Bounds, Grant, offered_widths, remembered};

/// What the members of a group have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// They are below it.
    Directory(RawPath),
    Host(HostName),
    /// What no name leads to.
    Address(IpAddr),
    /// A registered domain.
    Domain(HostName),
}

impl Place {
    /// Where a request belongs, if it may be one of a group at all.
    pub fn of(request: &Request, home: &RawPath) -> Option<Place> {
        // The other end is more than a line of a group says, and so is a proof.
        if request.level != Level::Ask || remembered(request) == Lifetime::Attempt || request.other.is_some() {
            return None;
        }
        match request.access {
            Access::Read | Access::Write => {
                request.object.parent().filter(|parent| !is_broad(parent, home)).map(Place::Directory)
            }
            Access::Connect => {
                let destination = request.destination.as_deref()?;
                // What is not on the internet is a place of its own each.
                let is_public = destination.zone().is_none_or(|zone| zone == Zone::Public);
                let name = destination.names().next().cloned().map(Place::Host);
                name.or_else(|| destination.ip().map(Place::Address)).filter(|_| is_public)
            }
            Access::Exec | Access::Bind | Access::Unix => None,
        }
    }

    /// What is around both, unless it is too much.
    pub fn joined(&self, other: &Place, home: &RawPath) -> Option<Place> {
        match (self, other) {
            (Place::Directory(one), Place::Directory(other)) => {
                let common = common(one, other);
                (!is_broad(&common, home)).then_some(Place::Directory(common))
            }
            (one, other) if one == other => Some(one.clone()),
            (Place::Host(one) | Place::Domain(one), Place::Host(other) | Place::Domain(other)) => {
                let domain = one.registrable()?;
                (other.registrable()? == domain).then_some(Place::Domain(domain))
            }
            _ => None,
        }
    }

    /// As a prompt says it.
    pub fn shown(&self) -> String {
        match self {
            Place::Directory(path) => Pattern::literal(path).to_string(),
            Place::Host(name) | Place::Domain(name) => name.to_string(),
            Place::Address(address) => address.to_string(),
        }
    }
}

/// Whether a group below it would be of everything and anything: above or beside the home at the top, or the home itself.
fn is_broad(directory: &RawPath, home: &RawPath) -> bool {
    let least = if directory.is_within(home) && home.components().next().is_some() {
        home.components().count().saturating_add(1)
    } else {
        2
    };
    directory.components().count() < least || home.is_within(directory)
}

fn common(one: &RawPath, other: &RawPath) -> RawPath {
    let names = one.components().zip(other.components()).take_while(|(one, other)| one == other);
    names.fold(RawPath::from("/"), |path, (name, _)| path.join(name))
}

/// Whether both would be put to the same people in the same words, but for the object and what is done to it.
pub(super) fn belong_together(a: &Request, b: &Request) -> bool {
    let transport = |request: &Request| request.destination.as_ref().map(|destination| destination.transport);
    a.session == b.session
        && a.call == b.call
        && a.who.program == b.who.program
        && a.access == b.access
        && a.rule == b.rule
        && a.level == b.level
        && a.remember == b.remember
        && a.remember_for == b.remember_for
        && a.group == b.group
        && transport(a) == transport(b)
}

/// Those that are named: the first ones, and of every kind of operation the first, so that what is said of all that are
/// named can be said of all.
pub(super) fn members<'a>(requests: impl Iterator<Item = &'a Request> + Clone) -> Vec<Member> {
    let member = |request: &Request| Member { operation: request.operation, object: request.object.clone() };
    let mut members: Vec<Member> = requests.clone().take(MOST_MEMBERS).map(member).collect();
    let mut known: Vec<Operation> = Vec::new();
    members.iter().for_each(|member| note(&mut known, member.operation));
    let mut others: Vec<Member> = Vec::new();
    for request in requests.skip(MOST_MEMBERS) {
        if !known.contains(&request.operation) {
            known.push(request.operation);
            others.push(member(request));
        }
    }
    // There are fewer operations than there is room for, and what makes room is not the only one of its kind.
    for other in others {
        let spare = (0..members.len()).rev().find(|&at| {
            let operation = members.get(at).map(|member| member.operation);
            members.iter().filter(|member| Some(member.operation) == operation).count() > 1
        });
        if let Some(at) = spare {
            members.remove(at);
        }
        members.push(other);
    }
    members
}

fn note(known: &mut Vec<Operation>, operation: Operation) {
    if !known.contains(&operation) {
        known.push(operation);
    }
}

/// A request whose widths are those of the group, and those widths. [`Width::Exact`] means each of the members.
pub(super) fn widened<'a>(
    requests: impl Iterator<Item = &'a Request> + Clone,
    place: &Place,
    bounds: &Bounds<'_>,
) -> Option<(Request, Vec<Width>)> {
    let lead = requests.clone().next()?;
    let (base, offered) = match place {
        Place::Directory(directory) => {
            let is_flat = requests.clone().all(|request| {
                !request.is_directory && request.object.parent().is_some_and(|parent| parent == *directory)
            });
            let base = if is_flat {
                lead.clone()
            } else {
                Request { object: directory.clone(), is_directory: true, ..lead.clone() }
            };
            let mut offered = offered_widths(&base, bounds.home);
            offered.retain(|width| is_flat || *width != Width::Directory);
            (base, offered)
        }
        Place::Host(_) | Place::Address(_) | Place::Domain(_) => (lead.clone(), offered_widths(lead, bounds.home)),
    };
    let covers_all = |width: &Width| {
        *width == Width::Exact
            || Grant::from_answer(GrantId(0), &base, *width, Term::Call, "", bounds)
                .is_ok_and(|grant| requests.clone().all(|request| grant.answers(request)))
    };
    let widths = offered.into_iter().filter(covers_all).collect();
    Some((base, widths))
}
