//! A request in plain words: what every consent agent shows. The words are ours, everything of the tool's is escaped.

mod group;
mod letters;
mod net;
mod notice;

use std::time::Duration;

use crate::common::access::Access;
use crate::common::consent::Offer;
use crate::common::decision::{Term, Width};
use crate::common::exec::Execution;
use crate::common::net::Transport;
use crate::common::path::RawPath;
use crate::common::request::{Operation, Request};
use crate::common::text::{self, Untrusted};

pub use group::{further, label, member, reach_of, suggestion, wish, wished};
pub use net::{Line, called, lines, place, who_reaches};
pub use notice::notice;

/// What would happen, to follow "wants to". It names what would be reached, in `limit` columns if it is long, and leaves
/// other objects to lines of their own.
pub fn intent(request: &Request, limit: usize) -> String {
    match (&request.destination, request.service) {
        (Some(destination), _) if net::is_about(request) => {
            net::intent(request.access, request.operation, destination, limit)
        }
        (_, Some(service)) if request.access == Access::Unix => format!("talk to {}", net::called(service)),
        _ => deed(request).to_owned(),
    }
}

fn deed(request: &Request) -> &'static str {
    match (request.access, request.operation) {
        (Access::Read, Operation::List) => "list this directory",
        (Access::Read, _) => "read this file",
        (Access::Exec, _) => "run this command",
        (Access::Connect, _) => "connect to this host",
        (Access::Bind, _) => "listen on this address",
        (Access::Unix, _) => "talk to whatever is behind this socket",
        (Access::Write, operation) => match operation {
            Operation::OpenWrite => "open this file for writing",
            Operation::Create => "create this file",
            Operation::Truncate => "cut the contents of this file",
            Operation::MakeDirectory => "make this directory",
            Operation::RemoveDirectory => "remove this directory",
            Operation::Unlink => "delete this file",
            Operation::Rename if request.is_directory => "move this directory",
            Operation::Rename => "move this file",
            Operation::Link => "make a hard link with this file",
            Operation::Symlink => "make this symbolic link",
            Operation::MakeNode => "make this special file",
            Operation::ChangeMode => "change the permissions of this",
            Operation::ChangeOwner => "change the owner of this",
            Operation::ChangeTimes => "change the times of this",
            Operation::ChangeXattr => "change extended attributes of this",
            Operation::ChangeFlags => "change the inode flags of this",
            _ => "use this",
        },
    }
}

/// [`intent`] for a line that names the object right behind it.
pub fn verb(access: Access, operation: Operation) -> &'static str {
    match (access, operation) {
        (Access::Read, Operation::List) => "list",
        (Access::Read, _) => "read",
        (Access::Exec, _) => "run",
        (Access::Connect, Operation::LookUp) => "look up",
        (Access::Connect, _) => "connect to",
        (Access::Bind, _) => "listen on",
        (Access::Unix, _) => "talk to",
        (Access::Write, operation) => match operation {
            Operation::OpenWrite => "write",
            Operation::Create => "create",
            Operation::Truncate => "cut the contents of",
            Operation::MakeDirectory => "make directory",
            Operation::RemoveDirectory => "remove directory",
            Operation::Unlink => "delete",
            Operation::Rename => "move",
            Operation::Link => "hard-link",
            Operation::Symlink => "make symbolic link",
            Operation::MakeNode => "make special file",
            Operation::ChangeMode => "change permissions of",
            Operation::ChangeOwner => "change owner of",
            Operation::ChangeTimes => "change times of",
            Operation::ChangeXattr => "change attributes of",
            Operation::ChangeFlags => "change inode flags of",
            _ => "use",
        },
    }
}

/// What [`Request::other`] is.
pub fn other(operation: Operation) -> &'static str {
    match operation {
        Operation::Symlink => "pointing to",
        _ => "other end",
    }
}

/// How far a yes reaches, before the scope itself.
pub fn reach(request: &Request, width: Width) -> &'static str {
    match (width, request.access, request.is_directory) {
        (Width::Exact, Access::Exec, _) => "this command, word for word",
        (Width::Exact, Access::Connect, _) if request.operation == Operation::LookUp => "this name, at any port",
        (Width::Exact, Access::Connect | Access::Bind, _) if is_udp(request) => "this host and port, by UDP",
        (Width::Exact, Access::Connect, _) if is_named(request) => "this host and port",
        (Width::Exact, Access::Connect | Access::Bind, _) => "this address and port",
        (Width::Exact, Access::Unix, _) => "this socket",
        (Width::Exact, _, false) => "this file",
        (Width::Exact, _, true) => "this directory itself",
        (Width::Directory, _, false) => "everything directly in its directory",
        (Width::Directory, _, true) => "everything directly in it",
        (Width::Tree, _, false) => "its directory and everything below",
        (Width::Tree, _, true) => "it and everything below",
        (Width::Prefix, ..) => "commands that begin with these words",
        (Width::Program, Access::Connect | Access::Bind, _) => "this program to this host, at any port",
        (Width::Program, ..) => "this program, whatever it is given",
        (Width::Host, ..) => "this host at any port",
        (Width::Domain, ..) => "every host of this domain, and it, at any port",
    }
}

/// The longest time that a yes holds, if the rule says one: `10 minutes at the most`.
pub fn longest_for(request: &Request) -> Option<String> {
    Some(format!("{} at the most", time(request.remember_for?)))
}

/// How long an answer is to hold: `for the session`, `for 2 hours, in every session with this profile`.
pub fn term(term: Term) -> String {
    match term {
        Term::Call => "for this call".to_owned(),
        Term::Session => "for the session".to_owned(),
        Term::For(duration) => format!("for {}, in every session with this profile", time(duration)),
        Term::Always => "always, in every session with this profile".to_owned(),
    }
}

/// A time in whole units: `10 minutes`, `1 day`.
pub fn time(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (number, unit) = match seconds {
        _ if seconds > 0 && seconds.is_multiple_of(86_400) => (seconds / 86_400, "day"),
        _ if seconds > 0 && seconds.is_multiple_of(3600) => (seconds / 3600, "hour"),
        _ if seconds > 0 && seconds.is_multiple_of(60) => (seconds / 60, "minute"),
        _ => (seconds, "second"),
    };
    format!("{number} {unit}{}", if number == 1 { "" } else { "s" })
}

fn is_udp(request: &Request) -> bool {
    request.destination.as_ref().is_some_and(|destination| destination.transport == Transport::Udp)
}

/// Whether it has a name that a person would know it by.
fn is_named(request: &Request) -> bool {
    request.destination.as_ref().is_some_and(|destination| destination.names().next().is_some())
}

/// What an offer covers. Of a command it is words that are quoted already, with `…` for further ones.
pub fn scope(request: &Request, offer: &Offer, limit: usize) -> String {
    match request.access {
        Access::Exec => text::shown_within(&offer.scope, limit),
        // What it ends with says whose host it is.
        Access::Connect | Access::Bind => text::ending_within(&offer.scope, limit),
        _ => text::escaped_within(offer.scope.as_bytes(), limit),
    }
}

/// What is said of a program that was written, or changed, since the session began.
pub const NEW: &str = "written during this session";

/// A command line as people read it: all of it in the notation of the shell, in `limit` columns at the most.
pub fn command(execution: &Execution, limit: usize) -> String {
    let left_out = left_out(execution.words_left_out);
    let room = limit.saturating_sub(text::columns(&left_out));
    text::quoted_argv_within(execution.argv.iter().map(Untrusted::as_bytes), room) + &left_out
}

/// A process in one line: its command line, and what it runs if that says something else.
pub fn process(pid: i32, program: &RawPath, argv: &[Untrusted], limit: usize) -> String {
    let named = argv.first().is_some_and(|word| word.as_bytes() == program.as_bytes());
    let known = !program.as_bytes().is_empty() && !named;
    let path = if known { text::escaped_within(program.as_bytes(), limit / 3) + ", " } else { String::new() };
    let behind = format!(" ({path}pid {pid})");
    let room = limit.saturating_sub(text::columns(&behind));
    text::quoted_argv_within(argv.iter().map(Untrusted::as_bytes), room) + &behind
}

/// What to say of words that the supervisor did not send, behind those that it did.
pub fn left_out(words: u32) -> String {
    match words {
        0 => String::new(),
        1 => " …and 1 more word, too long to be shown".to_owned(),
        more => format!(" …and {more} more words, too long to be shown"),
    }
}
