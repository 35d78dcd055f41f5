//! The daemon's end of the link to a supervisor, on the runtime's own thread. Runs as root; what arrives was written by a
//! process that runs as the user beside a hostile tool: a frame that is too long or does not decode, or one with a
//! descriptor (a supervisor never sends the daemon one), is the end of the link.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;

use rustix::net::{
    RecvAncillaryBuffer, RecvFlags, ReturnFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, Shutdown,
    recvmsg, sendmsg, shutdown,
};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tracing::{debug, warn};

use crate::common::wire::{self, FromSession, ToSession, WireError};

/// Messages held in one direction at the most; a supervisor that sends more waits.
const DEPTH: usize = 64;

/// Bytes in a frame from a supervisor at the most: a request with the longest argv that is shown, or some thousand grants of
/// a session that comes back.
const LONGEST: usize = 1 << 20;

/// How long a supervisor may take for the rest of a frame that it has begun, and for taking one of ours.
const PATIENCE: Duration = Duration::from_secs(30);

/// The link is unusable from here on.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    #[error("the socket failed: {0}")]
    Socket(#[from] io::Error),
    #[error("the supervisor sent {0}")]
    Frame(#[from] WireError),
    #[error("the supervisor ended within a frame")]
    Truncated,
    #[error("the supervisor sent a file descriptor")]
    Descriptor,
    #[error("the supervisor stopped within a frame")]
    Stuck,
}

impl From<rustix::io::Errno> for LinkError {
    fn from(errno: rustix::io::Errno) -> LinkError {
        LinkError::Socket(errno.into())
    }
}

/// A message and the descriptors that go with it.
pub struct Outgoing {
    pub message: ToSession,
    pub fds: Vec<OwnedFd>,
}

impl From<ToSession> for Outgoing {
    fn from(message: ToSession) -> Outgoing {
        Outgoing { message, fds: Vec::new() }
    }
}

/// A connected socket, before it is served.
pub struct Socket(UnixStream);

/// A link that is served: two tasks move frames until either side closes.
pub struct Served {
    pub from: mpsc::Receiver<FromSession>,
    pub to: mpsc::Sender<ToSession>,
    /// For what goes with descriptors.
    pub with_fds: mpsc::Sender<Outgoing>,
    pub closer: Closer,
}

/// Ends a link from the daemon's side when it is dropped.
pub struct Closer {
    socket: Rc<Socket>,
    tasks: [JoinHandle<()>; 2],
}

impl Drop for Closer {
    fn drop(&mut self) {
        // A socket that is closed already is what was wanted.
        let _ = shutdown(&self.socket.0, Shutdown::Both);
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl Socket {
    /// Over a connected unix stream socket, which becomes non-blocking. Needs a tokio runtime.
    pub fn new(socket: OwnedFd) -> io::Result<Socket> {
        rustix::io::ioctl_fionbio(&socket, true)?;
        Ok(Socket(UnixStream::from_std(socket.into())?))
    }

    /// One that the runtime has accepted.
    pub fn accepted(stream: UnixStream) -> Socket {
        Socket(stream)
    }

    /// The next frame; `None` when the other side closed between frames. Not to be dropped half-way.
    pub async fn receive(&self) -> Result<Option<FromSession>, LinkError> {
        let mut head = [0; 4];
        if !self.fill(&mut head, false).await? {
            return Ok(None);
        }
        let length = wire::frame_length(head)?;
        if length > LONGEST {
            return Err(WireError::TooLong(length).into());
        }
        let mut body = vec![0; length];
        let filled = tokio::time::timeout(PATIENCE, self.fill(&mut body, true)).await.map_err(|_| LinkError::Stuck)?;
        if !filled? {
            return Err(LinkError::Truncated);
        }
        Ok(Some(wire::decode(&body)?))
    }

    /// Fill `buffer`; `false` if the other side closed before its first byte.
    async fn fill(&self, buffer: &mut [u8], begun: bool) -> Result<bool, LinkError> {
        let mut filled = 0;
        while filled < buffer.len() {
            let rest = buffer.get_mut(filled..).unwrap_or_default();
            self.0.readable().await?;
            let got = match self.0.try_io(Interest::READABLE, || receive_some(&self.0, rest)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                got => got?,
            };
            match (got, filled) {
                (Got::End, 0) if !begun => return Ok(false),
                (Got::End, _) => return Err(LinkError::Truncated),
                (Got::Descriptor, _) => return Err(LinkError::Descriptor),
                (Got::Bytes(bytes), _) => filled = filled.saturating_add(bytes),
            }
        }
        Ok(true)
    }

    /// Send one frame, waiting for room.
    pub async fn send(&self, outgoing: &Outgoing) -> Result<(), LinkError> {
        let frame = wire::encode(&outgoing.message)?;
        let mut fds = outgoing.fds.as_slice();
        let mut rest = frame.as_slice();
        while !rest.is_empty() {
            let waited = tokio::time::timeout(PATIENCE, self.0.writable()).await;
            waited.map_err(|_| LinkError::Stuck)??;
            let sent = match self.0.try_io(Interest::WRITABLE, || send_some(&self.0, rest, fds)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                sent => sent?,
            };
            rest = rest.get(sent..).unwrap_or_default();
            // Descriptors go with the first byte, and only once.
            fds = &[];
        }
        Ok(())
    }

    /// Who connected: pid and uid at that time (`SO_PEERCRED`, unix(7)).
    pub fn peer(&self) -> io::Result<(i32, u32)> {
        let peer = rustix::net::sockopt::socket_peercred(&self.0)?;
        Ok((peer.pid.as_raw_nonzero().get(), peer.uid.as_raw()))
    }

    /// Serve the link with two tasks. To be called within a `LocalSet`.
    pub fn serve(self) -> Served {
        let socket = Rc::new(self);
        let (arrived, from) = mpsc::channel(DEPTH);
        let (to, mut leaving) = mpsc::channel::<ToSession>(DEPTH);
        let (with_fds, mut leaving_with_fds) = mpsc::channel::<Outgoing>(DEPTH);
        let reading = Rc::clone(&socket);
        let read = tokio::task::spawn_local(async move {
            loop {
                match reading.receive().await {
                    Ok(Some(message)) => {
                        if arrived.send(message).await.is_err() {
                            return;
                        }
                    }
                    Ok(None) => return,
                    Err(error) => {
                        warn!(%error, "a supervisor's link is closed");
                        return;
                    }
                }
            }
        });
        let writing = Rc::clone(&socket);
        let write = tokio::task::spawn_local(async move {
            loop {
                let outgoing = tokio::select! {
                    message = leaving.recv() => message.map(Outgoing::from),
                    Some(outgoing) = leaving_with_fds.recv() => Some(outgoing),
                };
                let Some(outgoing) = outgoing else { return };
                if let Err(error) = writing.send(&outgoing).await {
                    debug!(%error, "a supervisor cannot be told");
                    let _ = shutdown(&writing.0, Shutdown::Both);
                    return;
                }
            }
        });
        Served { from, to, with_fds, closer: Closer { socket, tasks: [read, write] } }
    }
}

/// What one recvmsg(2) brought.
enum Got {
    Bytes(usize),
    Descriptor,
    End,
}

fn receive_some(socket: &UnixStream, buffer: &mut [u8]) -> io::Result<Got> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut vectors = [IoSliceMut::new(buffer)];
    let got = match recvmsg(socket, &mut vectors, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
        // The other side was killed with bytes of ours unread (unix(7)): as good as closed.
        Err(rustix::io::Errno::CONNRESET) => return Ok(Got::End),
        got => got?,
    };
    if ancillary.drain().next().is_some() || got.flags.contains(ReturnFlags::CTRUNC) {
        return Ok(Got::Descriptor);
    }
    Ok(if got.bytes == 0 { Got::End } else { Got::Bytes(got.bytes) })
}

fn send_some(socket: &UnixStream, bytes: &[u8], fds: &[OwnedFd]) -> io::Result<usize> {
    let borrowed: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !borrowed.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(&borrowed)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok(sendmsg(socket, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::NOSIGNAL)?)
}
