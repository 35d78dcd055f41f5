//! Several requests that are put as one, in plain words. What is said of all holds for all: the broker names at least one of
//! each operation.

use crate::common::access::Access;
use crate::common::consent::{Group, Member, Prompt, Suggestion};
use crate::common::decision::{Term, Width};
use crate::common::request::{Operation, Request};
use crate::common::text;

/// To follow "wants to": `create 214 files in ~/.npm/_cacache`. `place` says where, in the columns that are left of `limit`.
pub fn wish(request: &Request, group: &Group, limit: usize, place: impl Fn(&str, usize) -> String) -> String {
    let count = group.count;
    let mut wish = match (request.access, operation(group)) {
        (Access::Connect, Some(Operation::LookUp)) => format!("look up {count} names of "),
        (Access::Connect, Some(_)) => format!("make {count} connections to "),
        (Access::Connect, None) => format!("reach {count} places of "),
        (Access::Read, Some(Operation::List)) => format!("list {count} directories in "),
        (Access::Read, Some(_)) => format!("read {count} files in "),
        (Access::Read, None) => format!("read {count} files and directories in "),
        (_, Some(operation)) => format!("{} in ", deed(operation, count)),
        (_, None) => format!("change {count} files in "),
    };
    let left = limit.saturating_sub(text::columns(&wish));
    wish.push_str(&place(&group.place, left));
    wish
}

/// [`wish`] with the whole of the place, in `limit` columns if it is long: a name keeps its end.
pub fn wish_within(request: &Request, group: &Group, limit: usize) -> String {
    let is_host = request.access == Access::Connect;
    wish(request, group, limit, |place, left| {
        let left = left.max(LEAST);
        if is_host { text::ending_within(place, left) } else { text::escaped_within(place.as_bytes(), left) }
    })
}

/// What a prompt is about, to follow "wants to", in `limit` columns if it is long.
pub fn wished(prompt: &Prompt, limit: usize) -> String {
    match &prompt.group {
        Some(group) => wish_within(&prompt.request, group, limit),
        None => super::intent(&prompt.request, limit),
    }
}

/// Columns that are left to a place at the least.
const LEAST: usize = 16;

fn deed(operation: Operation, count: usize) -> String {
    match operation {
        Operation::OpenWrite => format!("write {count} files"),
        Operation::Create => format!("create {count} files"),
        Operation::Truncate => format!("cut the contents of {count} files"),
        Operation::MakeDirectory => format!("make {count} directories"),
        Operation::RemoveDirectory => format!("remove {count} directories"),
        Operation::Unlink => format!("delete {count} files"),
        Operation::MakeNode => format!("make {count} special files"),
        Operation::ChangeMode => format!("change the permissions of {count} files"),
        Operation::ChangeOwner => format!("change the owner of {count} files"),
        Operation::ChangeTimes => format!("change the times of {count} files"),
        Operation::ChangeXattr => format!("change extended attributes of {count} files"),
        Operation::ChangeFlags => format!("change the inode flags of {count} files"),
        _ => format!("change {count} files"),
    }
}

/// What is done to all of them, if it is one thing.
fn operation(group: &Group) -> Option<Operation> {
    let first = group.members.first()?.operation;
    group.members.iter().all(|member| member.operation == first).then_some(first)
}

/// One of them, in `limit` columns at the most: what is done to it only where not the same is done to all.
pub fn member(request: &Request, group: &Group, member: &Member, limit: usize) -> String {
    let mut line = match operation(group) {
        Some(_) => String::new(),
        None => format!("{} ", super::verb(request.access, member.operation)),
    };
    let left = limit.saturating_sub(line.len());
    let object = member.object.as_bytes();
    match request.access {
        Access::Connect => line.push_str(&text::ending_within(&text::escaped(object), left)),
        _ => line.push_str(&text::escaped_within(object, left)),
    }
    line
}

/// What the members are called, before the list of them.
pub fn label(request: &Request) -> &'static str {
    match request.access {
        Access::Connect => "hosts",
        _ => "files",
    }
}

/// How many are not named, if some are not: `and 150 more`.
pub fn further(group: &Group, named: usize) -> Option<String> {
    let more = group.count.checked_sub(named).filter(|more| *more > 0)?;
    Some(format!("and {more} more"))
}

/// That an answer which lasts may be worth it, at a prompt whose yes reaches this far now:
/// `You said yes to this 3 times: [a] always, …`.
pub fn suggestion(prompt: &Prompt, suggestion: &Suggestion, width: Width) -> String {
    let key = match suggestion.term {
        Term::Call => "o",
        Term::Session => "s",
        Term::For(_) => "f",
        Term::Always => "a",
    };
    let term = super::term(suggestion.term);
    let widen = match suggestion.width == width {
        true => String::new(),
        false => format!("[w] until it covers {}, then ", reach_of(prompt, suggestion.width)),
    };
    format!("You said yes to this {} times: {widen}[{key}] {term}", suggestion.times)
}

/// How far a yes to a prompt reaches, before the scope itself.
pub fn reach_of(prompt: &Prompt, width: Width) -> String {
    let request = prompt.request.as_ref();
    let Some(group) = &prompt.group else { return super::reach(request, width).to_owned() };
    match (width, request.access) {
        (Width::Exact, Access::Connect) => format!("each of these {}, and nothing else", group.count),
        (Width::Exact, _) => format!("these {} files, and nothing else", group.count),
        (Width::Directory, _) => "everything directly in that directory".to_owned(),
        (Width::Tree, _) => "everything below that directory".to_owned(),
        _ => super::reach(request, width).to_owned(),
    }
}
