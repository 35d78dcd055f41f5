//! How a supervisor comes to its broker by itself: at first as root, told by its command line, and later, when that broker has
//! gone (the daemon was restarted), as the user, to wherever the first one said.
//!
//! The socket's directory is opened before the session's view is built, and held: by then its path means something else.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::thread;
use std::time::Duration;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with, sockopt};

use super::sys;
use crate::common::id::Token;
use crate::common::wire::Rendezvous;

/// Before the first try, and between others.
const AT_FIRST: Duration = Duration::from_millis(100);
const LATER: Duration = Duration::from_secs(1);

/// A broker that has gone again this soon did not want this supervisor, and is not to be pressed.
pub const SOON_GONE: Duration = Duration::from_secs(1);

/// Where the next broker is found.
#[derive(Debug)]
pub struct Reunion {
    /// `O_PATH`.
    directory: OwnedFd,
    name: Vec<u8>,
    pub token: Token,
}

impl Reunion {
    /// As root, in the host's view.
    pub fn prepare(rendezvous: &Rendezvous) -> io::Result<Reunion> {
        let directory = rendezvous.socket.parent().ok_or(io::ErrorKind::InvalidInput)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = openat(CWD, directory.as_path(), flags, Mode::empty())?;
        let name = rendezvous.socket.file_name().to_vec();
        Ok(Reunion { directory, name, token: rendezvous.token.clone() })
    }

    /// Waits for a broker; however long it takes. Fails if no thread can be had for it.
    pub fn wait(&self, was_soon_gone: bool) -> io::Result<OwnedFd> {
        thread::scope(|scope| {
            // Its cwd is its own, and so is that of whoever it starts: nobody.
            let waiting = thread::Builder::new().name("gated-reunion".into()).spawn_scoped(scope, || {
                sys::own_umask().map_err(|errno| io::Error::from_raw_os_error(errno.raw()))?;
                rustix::process::fchdir(&self.directory)?;
                let mut pause = if was_soon_gone { LATER } else { AT_FIRST };
                loop {
                    thread::sleep(pause);
                    match connect_to(&self.name) {
                        Ok(socket) => return Ok(socket),
                        Err(_) => pause = LATER,
                    }
                }
            })?;
            waiting.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
        })
    }
}

/// Connects to root's socket at this path.
pub fn connect_as_root(path: &Path) -> io::Result<OwnedFd> {
    connect_to(path.as_os_str().as_encoded_bytes())
}

/// Whoever listens must be root: nobody else is anybody's broker.
fn connect_to(path: &[u8]) -> io::Result<OwnedFd> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    if sockopt::socket_peercred(&socket)?.uid.is_root() {
        Ok(socket)
    } else {
        Err(io::ErrorKind::PermissionDenied.into())
    }
}
