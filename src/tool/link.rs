//! A framed, blocking unix stream socket between two processes of ours, with file descriptors and, where wanted, the
//! sender's pid. Runs in every process, with whatever privilege it has, on frames that the other side wrote: a frame that
//! is too long, does not decode or carries too many descriptors is an error, after which the caller drops the link.

use std::io::{self, IoSlice, IoSliceMut};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair, sockopt,
};
use serde::{Serialize, de::DeserializeOwned};

use crate::common::wire::{self, WireError};

/// File descriptors with one frame at the most: those of a call, and as many as can be passed on to it.
pub const MAX_FDS: usize = 6 + wire::MAX_PASSED;

/// The link is unusable from here on.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    #[error("the socket to the other side failed: {0}")]
    Socket(#[from] io::Error),
    #[error("the other side sent {0}")]
    Frame(#[from] WireError),
    #[error("the other side ended within a frame")]
    Truncated,
    #[error("a frame with more than {MAX_FDS} file descriptors")]
    TooManyFds,
}

impl From<rustix::io::Errno> for LinkError {
    fn from(errno: rustix::io::Errno) -> LinkError {
        LinkError::Socket(errno.into())
    }
}

/// A message and what came with it.
#[derive(Debug)]
pub struct Received<In> {
    pub message: In,
    /// Close-on-exec.
    pub fds: Vec<OwnedFd>,
    /// The sender as the receiver's pid namespace numbers it, if [`Link::want_pids`] was called (`SCM_CREDENTIALS`, unix(7)).
    pub pid: Option<i32>,
}

/// One end: sends `Out`, receives `In`. Sending and receiving may happen on different threads at once.
pub struct Link<Out, In> {
    socket: OwnedFd,
    sending: Mutex<()>,
    receiving: Mutex<()>,
    /// Bytes in a frame that is received.
    longest: usize,
    types: PhantomData<fn(Out) -> In>,
}

impl<Out: Serialize, In: DeserializeOwned> Link<Out, In> {
    /// A link over a connected unix stream socket.
    pub fn new(socket: OwnedFd) -> Link<Out, In> {
        let (sending, receiving) = (Mutex::new(()), Mutex::new(()));
        Link { socket, sending, receiving, longest: wire::MAX_FRAME, types: PhantomData }
    }

    /// Take no longer frames than these from the other side.
    pub fn with_frames_up_to(self, longest: usize) -> Link<Out, In> {
        Link { longest, ..self }
    }

    /// A link over a socket that somebody else chose: `None` if that is no unix stream socket.
    pub fn over(socket: OwnedFd) -> Option<Link<Out, In>> {
        is_unix_stream(socket.as_fd()).then(|| Link::new(socket))
    }

    /// Make a send or receive fail that gets no byte through for this long, and wait at all where whoever made the socket did not.
    pub fn limit_waits(&self, longest: Duration) -> io::Result<()> {
        rustix::io::ioctl_fionbio(&self.socket, false)?;
        sockopt::set_socket_timeout(&self.socket, sockopt::Timeout::Send, Some(longest))?;
        Ok(sockopt::set_socket_timeout(&self.socket, sockopt::Timeout::Recv, Some(longest))?)
    }

    /// The link that the parent process left at the descriptor `number`, moved above 2. `None` if that is no unix stream socket.
    /// To be called once, first thing in `main`, before anything else can own the number.
    pub fn inherited(number: RawFd) -> Option<Link<Out, In>> {
        // SAFETY: the number is only borrowed to look at it; an unused number gives EBADF.
        let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
        if !is_unix_stream(borrowed) {
            return None;
        }
        // SAFETY: it is open (just asked) and, by this function's contract, nobody else in this process owns it.
        let socket = unsafe { OwnedFd::from_raw_fd(number) };
        Some(Link::new(rustix::io::fcntl_dupfd_cloexec(&socket, 3).ok()?))
    }

    /// The same link at a number of at least `lowest`; close-on-exec.
    pub fn at_number_above(&self, lowest: RawFd) -> io::Result<Link<Out, In>> {
        Ok(Link::new(rustix::io::fcntl_dupfd_cloexec(&self.socket, lowest)?))
    }

    /// Ask the kernel to say which process sent each frame.
    pub fn want_pids(&self) -> io::Result<()> {
        Ok(sockopt::set_socket_passcred(&self.socket, true)?)
    }

    /// Send one frame; blocks until the other side's buffer has taken all of it.
    pub fn send(&self, message: &Out, fds: &[BorrowedFd<'_>]) -> Result<(), LinkError> {
        let frame = wire::encode(message)?;
        let _turn = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
            return Err(LinkError::TooManyFds);
        }
        let mut rest = frame.as_slice();
        while !rest.is_empty() {
            // Descriptors go with the first byte, and only once.
            let sent = match ancillary_send(&self.socket, rest, &mut ancillary) {
                Err(rustix::io::Errno::INTR) => continue,
                sent => sent?,
            };
            ancillary.clear();
            rest = rest.get(sent..).unwrap_or_default();
        }
        Ok(())
    }

    /// The next frame; `None` when the other side closed between frames. Blocks.
    pub fn receive(&self) -> Result<Option<Received<In>>, LinkError> {
        let _turn = self.receiving.lock().unwrap_or_else(PoisonError::into_inner);
        let mut fds = Vec::new();
        let mut pid = None;
        let mut head = [0; 4];
        if !self.fill(&mut head, &mut fds, &mut pid)? {
            return Ok(None);
        }
        let length = wire::frame_length(head)?;
        if length > self.longest {
            return Err(WireError::TooLong(length).into());
        }
        let mut body = vec![0; length];
        if !body.is_empty() && !self.fill(&mut body, &mut fds, &mut pid)? {
            return Err(LinkError::Truncated);
        }
        Ok(Some(Received { message: wire::decode(&body)?, fds, pid }))
    }

    /// Fill `buffer`; `false` if the other side closed before its first byte.
    fn fill(&self, buffer: &mut [u8], fds: &mut Vec<OwnedFd>, pid: &mut Option<i32>) -> Result<bool, LinkError> {
        let mut filled = 0;
        while filled < buffer.len() {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS), ScmCredentials(1))];
            let mut ancillary = RecvAncillaryBuffer::new(&mut space);
            let rest = buffer.get_mut(filled..).unwrap_or_default();
            let mut vectors = [IoSliceMut::new(rest)];
            let got = match recvmsg(&self.socket, &mut vectors, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
                Err(rustix::io::Errno::INTR) => continue,
                // The other side was killed with bytes of ours unread (unix(7)): as good as closed.
                Err(rustix::io::Errno::CONNRESET) => return Ok(false),
                got => got?,
            };
            for message in ancillary.drain() {
                match message {
                    RecvAncillaryMessage::ScmRights(rights) => fds.extend(rights),
                    RecvAncillaryMessage::ScmCredentials(sender) => *pid = Some(sender.pid.as_raw_nonzero().get()),
                    _ => {}
                }
            }
            if got.flags.contains(ReturnFlags::CTRUNC) || fds.len() > MAX_FDS {
                return Err(LinkError::TooManyFds);
            }
            match (got.bytes, filled) {
                (0, 0) => return Ok(false),
                (0, _) => return Err(LinkError::Truncated),
                (bytes, _) => filled += bytes,
            }
        }
        Ok(true)
    }
}

fn is_unix_stream(socket: BorrowedFd<'_>) -> bool {
    sockopt::socket_domain(socket).ok() == Some(AddressFamily::UNIX)
        && sockopt::socket_type(socket).ok() == Some(SocketType::STREAM)
}

fn ancillary_send(
    socket: &OwnedFd,
    bytes: &[u8],
    ancillary: &mut SendAncillaryBuffer<'_, '_, '_>,
) -> Result<usize, rustix::io::Errno> {
    sendmsg(socket, &[IoSlice::new(bytes)], ancillary, SendFlags::NOSIGNAL)
}

impl<Out, In> Link<Out, In> {
    /// Make every blocked and future [`Link::receive`], here and on the other side, see the end.
    pub fn close(&self) {
        // A socket that is closed already is what was wanted.
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
    }

    /// Send nothing more: the other side sees the end, and can still be heard.
    pub fn finish(&self) {
        // As above.
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Write);
    }

    /// Whether the other side still has its end open; sends nothing.
    pub fn is_open(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let mut polled = [PollFd::new(&self.socket, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut polled, Some(&now)).is_ok()
            && polled.iter().all(|one| !one.revents().intersects(PollFlags::HUP | PollFlags::ERR))
    }
}

impl<Out, In> AsFd for Link<Out, In> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A connected pair of sockets for two links, both close-on-exec.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?)
}
