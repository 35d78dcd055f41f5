//! The messages between the supervisor, the session's init and a call's leader. All of them are processes of ours that
//! never run code of the tool; the command's own child speaks [`FromCall`] until its execve(2).

use serde::{Deserialize, Serialize};

use crate::common::errno::Errno;
use crate::common::path::RawPath;
use crate::common::wire::Ended;

/// One command to start. Comes with the call's link, stdin, stdout, stderr, those of [`CallOrder::passed`] and, if any of the
/// three stands for the terminal, the slave of the session's pty.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CallOrder {
    pub command: Vec<Vec<u8>>,
    pub environment: Vec<Vec<u8>>,
    pub cwd: RawPath,
    /// Device and inode that [`CallOrder::cwd`] must have.
    pub cwd_identity: (u64, u64),
    pub umask: u32,
    /// Signals to ignore, bit 0 is signal 1.
    pub ignored_signals: u64,
    /// Which of stdin, stdout and stderr become the slave.
    pub on_terminal: [bool; 3],
    /// As in [`crate::common::wire::Start::passed`].
    pub passed: Vec<i32>,
    /// Start outside the terminal's foreground: the first read of it stops the call, and the caller then gives it the terminal.
    pub in_background: bool,
}

/// From the supervisor to init.
#[derive(Debug, Serialize, Deserialize)]
pub enum ToInit {
    /// First and once: what of the view is not init's own is there.
    ViewIsBuilt,
    Call(Box<CallOrder>),
}

/// From init to the supervisor.
#[derive(Debug, Serialize, Deserialize)]
pub enum FromInit {
    /// Mounts are done, privileges gone, the floor is built.
    Ready {
        landlock_abi: u32,
        native: Vec<NativeRoot>,
    },
    Failed(String),
}

/// From the supervisor to init on a link of its own: sockets of the session's network are wanted, socket(2).
pub type SocketOrders = Vec<SocketOrder>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SocketOrder {
    pub domain: u16,
    pub kind: u32,
    /// 0 for the usual one.
    pub protocol: u32,
}

/// The answer to [`SocketOrders`], in their order; the sockets that were made come with it, close-on-exec.
pub type SocketsMade = Vec<Result<(), Errno>>;

/// From the supervisor to a call: [`ToCall::Go`] first and once. The leader hears all of it, and passes on what is for the
/// command's child. The end of this direction says that nobody wants the call any more.
#[derive(Debug, Serialize, Deserialize)]
pub enum ToCall {
    /// The listener is being served: execute the command.
    Go,
    /// For the foreground process group.
    Signal(i32),
    /// Into the terminal's foreground, and on.
    Continue,
    /// To the command's child, which said [`FromCall::Cancelled`]: execute this. Empty where nobody wrote anything.
    Instead(Vec<Vec<u8>>),
}

/// From a call to the supervisor.
#[derive(Debug, Serialize, Deserialize)]
pub enum FromCall {
    /// From the command's child, which carries the listener of its filter.
    Trapped,
    /// From the command's child: the sandbox could not be completed, nothing was executed.
    Failed(String),
    /// From the command's child: its execve(2) gave `ECANCELED`. The answer is [`ToCall::Instead`].
    Cancelled,
    /// From the command's child: the errno of execve(2).
    NotExecuted(i32),
    Stopped(i32),
    /// The last message.
    Ended(Ended),
    /// The last message after the end of the supervisor's: nothing of the call is left.
    Killed,
}

/// What the floor lets a sandboxed process do natively below one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NativeGrant {
    /// Every change of files and directories in the tree.
    Scratch,
    /// Existing files can be opened for writing; nothing can be made, removed or renamed.
    WriteFile,
}

/// A path on which a trapped call may continue natively, because the floor enforces exactly the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NativeRoot {
    pub path: RawPath,
    /// `st_dev` and `st_ino` of what the floor's rule holds.
    pub identity: (u64, u64),
    pub grant: NativeGrant,
}
