//! The messages between a client's broker and a session supervisor: the whole attack surface between the two.
//!
//! A stream socket carries frames: a little-endian `u32` length, then that many bytes of postcard. A frame above
//! [`MAX_FRAME`] or one that does not decode ends the connection. File descriptors travel with the first byte of the frame
//! that names them (`SCM_RIGHTS`, unix(7)).

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::access::Access;
use super::decision::{Decision, Outcome};
use super::id::{CallId, RequestId, SessionId};
use super::path::RawPath;
use super::request::{Operation, Request, RuleRef, Who};

/// Bytes in a frame at the most: argv and environment are 2 MiB at the most (execve(2)), the rest is small.
pub const MAX_FRAME: usize = 8 << 20;

/// Both ends must be of the same build; raised with every change of a message.
pub const VERSION: u32 = 1;

/// Rows and columns of a terminal, tty_ioctl(4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowSize {
    pub rows: u16,
    pub columns: u16,
}

/// Who the tool runs as.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    pub uid: u32,
    pub gid: u32,
    /// Supplementary groups, all of them.
    pub groups: Vec<u32>,
    pub name: String,
    pub home: RawPath,
}

/// What the session's network namespace is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Network {
    /// An own namespace that holds only `lo`.
    Own,
    /// The host's.
    Host,
}

/// Everything a supervisor needs to build a session and start its first call. Comes with file descriptors in this order:
/// stdin, stdout, stderr. One that stands for a terminal ([`Launch::on_terminal`]) is replaced by the session's own pty.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    pub version: u32,
    pub session: SessionId,
    pub user: Identity,
    /// The policy, encoded by `policy::model`; opaque here.
    pub profile: Vec<u8>,
    pub network: Network,
    /// The lowest Landlock ABI that is acceptable; below it the session is refused.
    pub landlock_abi_min: u32,
    pub command: Vec<Vec<u8>>,
    /// `NAME=value` each, as execve(2) takes them.
    pub environment: Vec<Vec<u8>>,
    /// Canonical; the supervisor refuses a session that would start elsewhere.
    pub cwd: RawPath,
    /// Device and inode of the caller's cwd, so that the same path in the session is the same directory.
    pub cwd_identity: (u64, u64),
    pub umask: u32,
    /// Which of stdin, stdout and stderr are terminals.
    pub on_terminal: [bool; 3],
    pub window: Option<WindowSize>,
    /// Signals that the caller ignores, as a `sigset` bit mask (bit 0 is signal 1).
    pub ignored_signals: u64,
    /// Whether each process tree that the main process starts is a call of its own (an agent or a shell), or the whole is one.
    pub calls_by_child: bool,
    /// Changes in here that policy allows are not recorded one by one.
    pub workspace: RawPath,
}

/// From the broker to the supervisor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToSession {
    /// The first message, once.
    Launch(Box<Launch>),
    Decided(Decision),
    /// The record with this number is in the audit log (`true`), or could not be written (`false`: do not perform).
    Recorded(u64, bool),
    /// Send a signal to the call's foreground process group.
    Signal(i32),
    Resize(WindowSize),
    /// The caller is in the foreground again: continue a stopped call.
    Continue,
    /// End the session: kill everything in it.
    Stop,
}

/// How a call's first process ended, wait(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ended {
    Exited(i32),
    Signaled(i32),
    /// The command could not be executed: the errno of execve(2).
    NotExecuted(i32),
}

/// A verdict that the supervisor made by itself and that belongs into the records before it takes effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Answered by [`ToSession::Recorded`] with the same number.
    pub number: u64,
    pub call: CallId,
    pub who: Who,
    pub access: Access,
    pub operation: Operation,
    pub object: RawPath,
    pub other: Option<RawPath>,
    pub rule: RuleRef,
    /// `Granted`, `Allowed` or `NotPermitted`.
    pub outcome: Outcome,
    /// Who answered, where an earlier answer decided.
    pub by: String,
}

/// From the supervisor to the broker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromSession {
    /// Comes with the pty's master where [`Launch::on_terminal`] names a terminal. The command starts next.
    Ready {
        landlock_abi: u32,
    },
    /// The session could not be built; the text is for the caller and holds no tool's words. The supervisor exits.
    Failed(String),
    CallStarted {
        call: CallId,
        pid: i32,
        program: RawPath,
        argv: Vec<super::text::Untrusted>,
    },
    Ask(Box<Request>),
    /// The process behind a request is gone or was interrupted; drop it.
    Cancel(RequestId),
    Record(Box<Record>),
    /// The first call's process was stopped by this signal (^Z).
    Stopped(i32),
    CallEnded {
        call: CallId,
        ended: Ended,
    },
}

/// A frame that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    #[error("a frame of {0} bytes; the most is {MAX_FRAME}")]
    TooLong(usize),
    #[error("a frame that does not decode: {0}")]
    Garbled(#[from] postcard::Error),
}

/// A message as a frame: length and body.
pub fn encode(message: &impl Serialize) -> Result<Vec<u8>, WireError> {
    let mut frame = postcard::to_extend(message, vec![0; 4])?;
    let length = frame.len().saturating_sub(4);
    match (u32::try_from(length), frame.first_chunk_mut::<4>()) {
        (Ok(short), Some(head)) if length <= MAX_FRAME => *head = short.to_le_bytes(),
        _ => return Err(WireError::TooLong(length)),
    }
    Ok(frame)
}

/// The length that a frame's first four bytes announce.
pub fn frame_length(head: [u8; 4]) -> Result<usize, WireError> {
    let length = u32::from_le_bytes(head) as usize;
    if length > MAX_FRAME { Err(WireError::TooLong(length)) } else { Ok(length) }
}

/// The message in a frame's body; bytes left over are an error.
pub fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, WireError> {
    match postcard::take_from_bytes(body)? {
        (message, []) => Ok(message),
        _ => Err(WireError::Garbled(postcard::Error::DeserializeBadEncoding)),
    }
}
