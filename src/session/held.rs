//! A thread that the kernel holds until we answer, whichever of its mechanisms holds it: seccomp(2) notifications, or a
//! permission event of fanotify(7). What the judge needs to know of it to ask a person and to keep records.
//!
//! Runs as the user in the supervisor; everything told here is of a hostile process.

use super::interrupt;
use super::judge::Halt;
use super::target::{Target, Unreadable};
use crate::common::errno::Errno;
use crate::common::exec::{Command, Execution};
use crate::common::id::CallId;
use crate::common::request::Who;

pub trait Held {
    /// Thread id in the supervisor's pid namespace; with [`Held::who`] it says whether an attempt is made again.
    fn thread(&self) -> i32;

    /// Who this is, to show and to record.
    fn who(&self) -> Result<Who, Unreadable>;

    /// The call of the command that this came of, which costs nothing to know.
    fn main_call(&self) -> CallId;

    /// The number of the call that the process belongs to.
    fn call_id(&self) -> Result<CallId, Unreadable>;

    /// Whether the thread may go on being held: it still waits, and no signal wants it.
    fn look(&self) -> Result<(), Halt>;

    /// It will be held for long: somebody is asked.
    fn takes_long(&self) {}

    /// Somebody wrote another command in place of the one that was asked about; what becomes of this one.
    fn edited(&self, _argv: Vec<Vec<u8>>) -> Halt {
        Errno::ACCES.into()
    }

    /// What a person is shown of a command that this thread wants to execute.
    fn execution(&self, _command: &Command) -> Result<Execution, Unreadable> {
        Err(Errno::ACCES.into())
    }
}

impl Held for Target<'_> {
    fn thread(&self) -> i32 {
        self.notification().thread
    }

    fn who(&self) -> Result<Who, Unreadable> {
        Target::who(self)
    }

    fn main_call(&self) -> CallId {
        self.call().id()
    }

    fn call_id(&self) -> Result<CallId, Unreadable> {
        Target::call_id(self)
    }

    fn look(&self) -> Result<(), Halt> {
        interrupt::look(self)
    }

    fn takes_long(&self) {
        Target::takes_long(self);
    }
}
