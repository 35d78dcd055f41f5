//! What an attempt comes to: an access to an object, for the judge.
//!
//! Runs as the user in the supervisor; objects are resolved and pinned by whoever makes a [`Wanted`].

use std::sync::Arc;

use super::held::Held;
use super::judge::Halt;
use super::resolve::Object;
use crate::common::access::Access;
use crate::common::errno::Errno;
use crate::common::exec::{Command, Execution};
use crate::common::net::{Destination, Service};
use crate::common::path::RawPath;
use crate::common::request::{Operation, Who};

/// What would happen to one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    pub access: Access,
    pub object: RawPath,
    pub operation: Operation,
    pub is_directory: bool,
    /// The other end of a rename or link, or a symlink's text.
    pub other: Option<RawPath>,
    pub reach: Reach,
    /// Guarded names below that exist, when a directory moves: as they are and as they would be.
    pub moved: Vec<RawPath>,
    /// Where the object was found by a descriptor or link: the device that it is on.
    pub device: Option<u64>,
    /// What would be executed, where the access is [`Access::Exec`].
    pub command: Option<Arc<Command>>,
    /// What would be reached, where the access is [`Access::Connect`] or [`Access::Bind`].
    pub destination: Option<Arc<Destination>>,
    /// What is known to be behind a socket, where the access is [`Access::Unix`].
    pub service: Option<Service>,
}

/// What else is touched with the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    Object,
    /// Something takes or leaves this name, so that whoever looks below it will find something else.
    Below,
    /// The same for a symbolic link, below which there is another tree.
    Link,
}

impl Wanted {
    /// A change.
    pub fn new(operation: Operation, object: RawPath) -> Wanted {
        Wanted {
            access: Access::Write,
            object,
            operation,
            is_directory: false,
            other: None,
            reach: Reach::Object,
            moved: Vec::new(),
            device: None,
            command: None,
            destination: None,
            service: None,
        }
    }

    /// A file is read, or a directory listed.
    pub fn reading(object: RawPath, is_directory: bool) -> Wanted {
        let operation = if is_directory { Operation::List } else { Operation::OpenRead };
        Wanted { access: Access::Read, is_directory, ..Wanted::new(operation, object) }
    }

    /// A program is executed.
    pub fn executing(command: Arc<Command>) -> Wanted {
        let object = command.asked.program.path.clone();
        Wanted { access: Access::Exec, command: Some(command), ..Wanted::new(Operation::Execute, object) }
    }

    /// A name is looked up, a connection made, or a socket made reachable.
    pub fn reaching_out(access: Access, operation: Operation, destination: Arc<Destination>) -> Wanted {
        let object = destination.object();
        Wanted { access, destination: Some(destination), ..Wanted::new(operation, object) }
    }

    /// A unix socket at this canonical path is connected to, or sent a datagram.
    pub fn socket(operation: Operation, object: RawPath, service: Option<Service>) -> Wanted {
        Wanted { access: Access::Unix, service, ..Wanted::new(operation, object) }
    }

    /// A change of something that is pinned already, at the path that it is judged by.
    pub fn of(operation: Operation, object: &Object) -> Result<Wanted, Errno> {
        let device = rustix::fs::fstat(&object.handle)?.st_dev;
        Ok(Wanted { device: Some(device), ..Wanted::new(operation, object.judged_path()?) })
    }

    pub fn directory(mut self, is_directory: bool) -> Wanted {
        self.is_directory = is_directory;
        self
    }

    pub fn other(mut self, other: RawPath) -> Wanted {
        self.other = Some(other);
        self
    }

    pub fn reaching(mut self, reach: Reach) -> Wanted {
        self.reach = reach;
        self
    }

    pub fn moving(mut self, moved: Vec<RawPath>) -> Wanted {
        self.moved = moved;
        self
    }
}

/// What a person is shown of what would be executed, if anything would be.
pub(super) fn execution_of(target: &dyn Held, wanted: &Wanted) -> Result<Option<Box<Execution>>, Halt> {
    let Some(command) = &wanted.command else { return Ok(None) };
    Ok(Some(Box::new(target.execution(command)?)))
}

/// Who it is; of what would be executed, in the directory that was judged.
pub(super) fn who_of(target: &dyn Held, wanted: &Wanted) -> Result<Who, Halt> {
    let who = target.who()?;
    Ok(match &wanted.command {
        Some(command) => Who { cwd: command.cwd.clone(), ..who },
        None => who,
    })
}
