//! The messages of a session supervisor: with its broker ([`ToSession`], [`FromSession`]), and with whoever started a call, on
//! that call's caller link ([`ToCaller`], [`FromCaller`]). They are the whole attack surface between these.
//!
//! A stream socket carries frames: a little-endian `u32` length, then that many bytes of postcard. A frame above
//! [`MAX_FRAME`] or one that does not decode ends the connection. File descriptors travel with the first byte of the frame
//! that names them (`SCM_RIGHTS`, unix(7)).

use std::net::SocketAddr;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::access::{Access, Level};
use super::decision::{Decision, Outcome};
use super::exec::Execution;
use super::id::{CallId, GrantId, NoRandomness, RequestId, SessionId, Token};
use super::net::{Destination, Service};
use super::path::RawPath;
use super::request::{Operation, Request, RuleRef, Who};
use super::text::Untrusted;

/// Bytes in a frame at the most: argv and environment are 2 MiB at the most (execve(2)), the rest is small.
pub const MAX_FRAME: usize = 8 << 20;

/// Both ends must be of the same build; raised with every change of a message.
pub const VERSION: u32 = 5;

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

/// When a session ends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ends {
    /// With its first command, or if that cannot be started.
    WithFirstCall,
    /// When the broker says [`ToSession::Stop`].
    WhenStopped,
}

/// Where a supervisor whose broker went away finds the next one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rendezvous {
    /// A listening unix socket, outside of the session.
    pub socket: RawPath,
    pub token: Token,
}

/// Everything a supervisor needs to build a session. Comes without file descriptors.
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
    /// Changes in here that policy allows are not recorded one by one.
    pub workspace: RawPath,
    /// Where the session was opened. Canonical; it must not be hidden by what the session has for itself.
    pub directory: RawPath,
    /// The home that the policy was made for, as the client canonicalised it: the session is refused if the user's home,
    /// canonicalised with the user's file rights, is another one. `None` where who sent this looked itself.
    pub home: Option<RawPath>,
    pub ends: Ends,
    /// Addresses and ports of the host at which the session may be reached, from its start.
    pub publish: Vec<Published>,
    /// What the user was granted, or is denied, in every session under this profile: each a `policy::Grant` in postcard.
    pub grants: Vec<Vec<u8>>,
    /// `SSH_AUTH_SOCK` of whoever opened the session, in the host's view.
    pub ssh_agent: Option<RawPath>,
    /// `None`: the session ends with its broker.
    pub rendezvous: Option<Rendezvous>,
}

/// An address and port of the host at which a session may be reached because whoever opened it said so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Published {
    /// What this permission is called.
    pub grant: GrantId,
    /// Canonical.
    pub address: SocketAddr,
    /// Who said so, such as `gated-run:alice`.
    pub by: String,
}

impl Published {
    /// A name for each address, once.
    pub fn all(addresses: &[SocketAddr], user: &str) -> Result<Vec<Published>, NoRandomness> {
        let mut all: Vec<Published> = Vec::with_capacity(addresses.len());
        for &address in addresses {
            if !all.iter().any(|known| known.address == address) {
                all.push(Published { grant: GrantId::random()?, address, by: format!("gated-run:{user}") });
            }
        }
        Ok(all)
    }
}

/// A command to start as a call. Comes with file descriptors in this order: the caller link ([`ToCaller`], [`FromCaller`]), the
/// cwd (a directory, perhaps `O_PATH`), stdin, stdout, stderr, then those of [`Start::passed`]. On the socket inside a session
/// the connection itself is the caller link, and the other four come, and none that is passed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    pub command: Vec<Vec<u8>>,
    /// `NAME=value` each, as execve(2) takes them. The supervisor leaves out what the policy denies.
    pub environment: Vec<Vec<u8>>,
    /// Canonical; the command is refused if the session has another directory there than the descriptor.
    pub cwd: RawPath,
    pub umask: u32,
    /// Signals that the caller ignores, as a `sigset` bit mask (bit 0 is signal 1).
    pub ignored_signals: u64,
    /// Which of stdin, stdout and stderr are terminals. Those are replaced by a pty of the session's own.
    pub on_terminal: [bool; 3],
    pub window: Option<WindowSize>,
    /// The numbers that the command is to have further descriptors at: ascending, each in [`PASSED`]; at most [`MAX_PASSED`].
    pub passed: Vec<i32>,
}

/// Descriptors besides stdio that a command can be given. With those of a call they go into one message of the bus, which
/// takes 16 (dbus-daemon(1), `max_message_unix_fds`).
pub const MAX_PASSED: usize = 8;

/// The numbers that they can have; those above are for whoever sets a command up.
pub const PASSED: std::ops::RangeInclusive<i32> = 3..=255;

/// Whether these are the numbers of [`Start::passed`].
pub fn are_numbers_to_pass(numbers: &[i32]) -> bool {
    let ascend = numbers.iter().zip(numbers.iter().skip(1)).all(|(one, next)| one < next);
    numbers.len() <= MAX_PASSED && ascend && numbers.iter().all(|number| PASSED.contains(number))
}

/// From the broker to the supervisor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToSession {
    /// The first message, once.
    Launch(Box<Launch>),
    /// At any time, any number of times.
    Start(Box<Start>),
    Decided(Decision),
    /// The record with this number is in the audit log (`true`), or could not be written (`false`: do not perform).
    Recorded(u64, bool),
    /// A grant that holds from now on, as in [`Launch::grants`].
    Grant(Vec<u8>),
    /// Forget a grant: the next attempt is asked again.
    Revoke(GrantId),
    /// End the session: kill everything in it.
    Stop,
}

/// From the supervisor to whoever started a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToCaller {
    /// Comes with the pty's master where [`Start::on_terminal`] names a terminal. The command is executed next.
    Started { call: CallId },
    /// The command was stopped by this signal (^Z).
    Stopped(i32),
    /// The last message: the command has ended.
    Ended(Ended),
    /// The last message: the command was not started, or cannot be watched any more. The text holds no tool's words.
    Failed(String),
}

/// From whoever started a call to the supervisor. The end of the link before the command's end kills the call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromCaller {
    /// On the socket inside a session only: first and once.
    Start(Box<Start>),
    /// Send a signal to the call's foreground process group.
    Signal(i32),
    /// The caller is in the foreground again: continue a stopped call.
    Continue,
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
    /// What policy says where no earlier answer decided.
    pub level: Level,
    /// What was, or would have been, executed, where the access is [`Access::Exec`].
    pub execution: Option<Box<Execution>>,
    /// As in [`Request::destination`].
    pub destination: Option<Box<Destination>>,
    /// As in [`Request::service`].
    pub service: Option<Service>,
    /// `Granted`, `Allowed` or `NotPermitted`.
    pub outcome: Outcome,
    /// Who answered, where an earlier answer decided.
    pub by: String,
    /// That answer.
    pub grant: Option<GrantId>,
}

/// A call whose command has not ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningCall {
    pub call: CallId,
    /// The command's process in the supervisor's pid namespace.
    pub pid: i32,
    pub program: RawPath,
    pub argv: Vec<Untrusted>,
}

/// What a session has when its supervisor comes to a new broker. Nothing is asked: that was denied when the old one went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resumed {
    /// Each a `policy::Grant` in postcard; opaque here.
    pub grants: Vec<Vec<u8>>,
    pub calls: Vec<RunningCall>,
}

/// Who a supervisor is that connected by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    pub version: u32,
    pub session: SessionId,
    /// `None` from one that still is root, which its socket proves; it waits for [`ToSession::Launch`].
    pub token: Option<Token>,
    /// Of one that had a broker before.
    pub resumed: Option<Resumed>,
}

/// From the supervisor to the broker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromSession {
    /// First, from a supervisor that connected by itself.
    Hello(Box<Hello>),
    /// The session is built and takes calls.
    Ready {
        landlock_abi: u32,
    },
    /// The session could not be built, or cannot go on; the text is for the caller and holds no tool's words. The supervisor
    /// exits.
    Failed(String),
    CallStarted {
        call: CallId,
        pid: i32,
        program: RawPath,
        argv: Vec<Untrusted>,
    },
    /// The command of a call has ended; what it left behind may live on and ask.
    CallEnded {
        call: CallId,
        ended: Ended,
    },
    /// Nobody is left of these calls, and what was granted to them is gone.
    CallsOver(Vec<CallId>),
    Ask(Box<Request>),
    /// The process behind a request is gone or was interrupted; drop it.
    Cancel(RequestId),
    Record(Box<Record>),
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
