//! A request in plain words: what every consent agent shows. The words are ours, everything of the tool's is escaped.

use crate::common::access::Access;
use crate::common::decision::Width;
use crate::common::request::{Operation, Request};

/// What would happen to the object, to follow "wants to".
pub fn intent(request: &Request) -> &'static str {
    match (request.access, request.operation) {
        (Access::Read, _) => "read this file",
        (Access::Exec, _) => "run this program",
        (Access::Connect, _) => "connect to this host",
        (Access::Bind, _) => "listen on this address",
        (Access::Unix, _) => "talk to this service",
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
            Operation::OpenRead | Operation::List | Operation::Execute => "use this",
        },
    }
}

/// [`intent`] for a line that names the object right behind it.
pub fn verb(request: &Request) -> &'static str {
    match (request.access, request.operation) {
        (Access::Read, _) => "read",
        (Access::Exec, _) => "run",
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
            Operation::OpenRead | Operation::List | Operation::Execute => "use",
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
    match (width, request.is_directory) {
        (Width::Exact, false) => "this file",
        (Width::Exact, true) => "this directory itself",
        (Width::Directory, false) => "everything directly in its directory",
        (Width::Directory, true) => "everything directly in it",
        (Width::Tree, false) => "its directory and everything below",
        (Width::Tree, true) => "it and everything below",
        (Width::Prefix, _) => "commands that begin with these words",
        (Width::Program, _) => "this program, whatever it is given",
    }
}
