//! A request: who wants which access to which object, and what a person is shown of it.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::access::{Access, Level};
use super::exec::Execution;
use super::id::{CallId, RequestId, SessionId};
use super::net::{Destination, Service};
use super::path::RawPath;
use super::text::Untrusted;

/// What exactly would be done to the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// An existing file is opened for writing.
    OpenWrite,
    /// A file that is not there yet is opened with `O_CREAT`, or unnamed with `O_TMPFILE`.
    Create,
    /// Contents are cut: truncate(2), or an open with `O_TRUNC`.
    Truncate,
    MakeDirectory,
    RemoveDirectory,
    Unlink,
    /// The object is a source or destination of rename(2); the other end is [`Request::other`].
    Rename,
    /// The object is a source or destination of link(2).
    Link,
    /// A symbolic link is made at the object; its text is [`Request::other`].
    Symlink,
    /// A fifo, socket or regular file is made by mknod(2).
    MakeNode,
    ChangeMode,
    ChangeOwner,
    ChangeTimes,
    ChangeXattr,
    /// Inode flags: `FS_IOC_SETFLAGS`, `FS_IOC_FSSETXATTR`, file_setattr(2).
    ChangeFlags,
    /// A file is opened for reading.
    OpenRead,
    /// A directory is opened to list it.
    List,
    /// execve(2); the object is the program that the path leads to, the rest is in [`Request::execution`].
    Execute,
    /// A name is to be resolved; the rest is in [`Request::destination`], as for the next three.
    LookUp,
    /// A connection, or datagrams to one peer.
    Connect,
    /// A socket is to be reachable at an address of the host.
    Listen,
    /// connect(2) to a unix socket; the object is its path, and [`Request::service`] what is known of it.
    ConnectSocket,
    /// A datagram to a unix socket.
    SendSocket,
}

impl Operation {
    /// The word of events, audit and scripts.
    pub fn as_str(self) -> &'static str {
        match self {
            Operation::OpenWrite => "open-write",
            Operation::Create => "create",
            Operation::Truncate => "truncate",
            Operation::MakeDirectory => "make-directory",
            Operation::RemoveDirectory => "remove-directory",
            Operation::Unlink => "unlink",
            Operation::Rename => "rename",
            Operation::Link => "link",
            Operation::Symlink => "symlink",
            Operation::MakeNode => "make-node",
            Operation::ChangeMode => "change-mode",
            Operation::ChangeOwner => "change-owner",
            Operation::ChangeTimes => "change-times",
            Operation::ChangeXattr => "change-xattr",
            Operation::ChangeFlags => "change-flags",
            Operation::OpenRead => "open-read",
            Operation::List => "list",
            Operation::Execute => "execute",
            Operation::LookUp => "look-up",
            Operation::Connect => "connect",
            Operation::Listen => "listen",
            Operation::ConnectSocket => "connect-socket",
            Operation::SendSocket => "send-socket",
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The rule that made a verdict; `id` is `default` for `[defaults]` and starts with `built-in:` for what no file can lower.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RuleRef {
    pub profile: String,
    pub id: String,
    /// Where the rule stands; the name of a built-in profile for one of those.
    pub file: String,
    /// From 1; 0 where there is no line.
    pub line: u32,
    pub reason: Option<String>,
}

/// The process that made the attempt, as it was while its thread stood still.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Who {
    /// Thread group id as the supervisor sees it (outer pid namespace).
    pub pid: i32,
    /// The executable that runs; empty if it could not be read.
    pub program: RawPath,
    /// At most 64 words of at most 4,096 bytes each.
    pub argv: Vec<Untrusted>,
    pub cwd: RawPath,
}

/// One trapped attempt that policy does not decide alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    pub id: RequestId,
    pub session: SessionId,
    pub call: CallId,
    pub who: Who,
    pub access: Access,
    pub operation: Operation,
    /// The resolved object.
    pub object: RawPath,
    /// Whether the object is, or would become, a directory.
    pub is_directory: bool,
    /// The other end of a rename or link, or a symlink's text.
    pub other: Option<RawPath>,
    pub level: Level,
    pub rule: RuleRef,
    /// The longest lifetime that the rule's `remember` lets an answer create.
    pub remember: super::decision::Lifetime,
    /// The longest time that such an answer may hold.
    pub remember_for: Option<Duration>,
    /// Members of this group answer, instead of the session's user.
    pub group: Option<String>,
    /// What would run, where the access is [`Access::Exec`].
    pub execution: Option<Box<Execution>>,
    /// What would be reached, where the access is [`Access::Connect`] or [`Access::Bind`].
    pub destination: Option<Box<Destination>>,
    /// What is known to be behind the socket, where the access is [`Access::Unix`].
    pub service: Option<Service>,
}
