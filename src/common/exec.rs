//! What an execve(2) leads to, as the supervisor found it: made in `session`, judged by `policy`, shown by consent agents.
//! Pure data; every word of it was chosen by a tool.

use serde::{Deserialize, Serialize};

use super::path::RawPath;
use super::text::Untrusted;

/// Bytes of a command line that are shown at the most, NULs included; a longer one is asked for each time anew.
pub const SHOWN_BYTES: usize = 64 << 10;

/// A file that would be executed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Program {
    /// The resolved absolute path; for a file without a name what the kernel calls it, such as `/memfd:x (deleted)`.
    pub path: RawPath,
    /// Whether `path` is the file's name: not so for a memfd or a file that was removed.
    pub is_named: bool,
    /// Whether the file and every directory above it are root's and writable for nobody else (`@path`).
    pub is_of_system: bool,
}

/// Which file it is, and since when it is as it is: another one of these is another file, or other contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Version {
    pub device: u64,
    pub inode: u64,
    /// Seconds and nanoseconds since the epoch, `ctime` of inode(7).
    pub changed: (i64, i64),
}

/// A program and the argv that it gets.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Step {
    pub program: Program,
    /// As the kernel passes it, argv\[0\] first.
    pub argv: Vec<Vec<u8>>,
}

/// The whole of what one execve(2) would start.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Command {
    /// What the path leads to, and argv as it was given.
    pub asked: Step,
    /// The interpreters of `#!` lines and of binfmt_misc, in the order in which the kernel finds them; the last one runs.
    pub interpreters: Vec<Step>,
    /// The ELF interpreter (`PT_INTERP`) of what runs.
    pub loader: Option<Program>,
    /// What the file leads to that `policy::operand` finds among the words of `asked`: the program that a run-time
    /// linker loads, or the script that an interpreter reads. Followed as that would, from the caller's cwd; `None` if there
    /// is none, or it leads nowhere.
    pub operand: Option<Program>,
    /// `NAME=value` of the variables that carry code into programs, or that a rule names; sorted, as they were given.
    pub variables: Vec<Vec<u8>>,
    /// The directory in which it is executed, as the kernel calls it.
    pub cwd: RawPath,
    /// The first file of these that is not the system's, with the latest change of any that is not; the script that an
    /// interpreter is told to run counts too. `None` where all of it is the system's.
    pub version: Option<Version>,
}

/// A [`Command`] as a person is shown it, with what they need to know about who runs it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Execution {
    /// All of argv as it was given, or its first words of [`SHOWN_BYTES`] together.
    pub argv: Vec<Untrusted>,
    /// Words that are not shown.
    pub words_left_out: u32,
    /// The programs that run for it, as in [`Command::interpreters`].
    pub interpreters: Vec<RawPath>,
    /// As in [`Command::variables`].
    pub variables: Vec<Untrusted>,
    /// Processes from the one that executes (which is [`super::request::Who`]) up to the first of the call, that itself
    /// left out: its parent first; at most 16.
    pub parents: Vec<Parent>,
    /// Whether the program, or a script's text, was changed since this session began (its `ctime`, inode(7)).
    pub is_new: bool,
    /// As in [`Command::version`]; not told to consent agents.
    pub version: Option<Version>,
    /// Whether this is the command that gated-run was given, which a person may edit.
    pub is_first: bool,
}

/// A process above the one that executes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// Thread group id as the supervisor sees it.
    pub pid: i32,
    /// Empty if it could not be read.
    pub program: RawPath,
    /// At most 16 words of at most 256 bytes each.
    pub argv: Vec<Untrusted>,
}
