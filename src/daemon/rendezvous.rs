//! The socket at which supervisors find the daemon: those that systemd has started, and those that outlived the daemon
//! before this one. Runs as root. Every user of the machine can connect; what connects is believed only if it is root's (a
//! supervisor that has not left root yet) or brings the session's token.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use tokio::net::UnixListener;
use tokio::sync::oneshot;
use tracing::{debug, warn};

use super::link::Socket;
use crate::common::id::{SessionId, Token};
use crate::common::wire::{self, FromSession, Hello};

/// How long a connection may take to say who it is.
const PATIENCE: Duration = Duration::from_secs(5);

/// Connections of one user that have not said who they are, at the most: what a user can keep busy is that user's own.
const STRANGERS: usize = 64;

/// A supervisor that is there.
pub struct Arrived {
    pub socket: Socket,
    pub hello: Hello,
    pub pid: i32,
}

/// Whom a session waits for.
struct Expected {
    /// The user that the supervisor is by now, with the token; `None` while it must still be root.
    proof: Option<(u32, Token)>,
    arrived: oneshot::Sender<Arrived>,
}

/// The sessions that wait for their supervisors.
#[derive(Default)]
pub struct Rendezvous {
    expected: RefCell<BTreeMap<SessionId, Expected>>,
    /// Connections that have not said who they are, by their user.
    strangers: RefCell<BTreeMap<u32, usize>>,
}

/// Takes the expectation back when nobody waits any more.
pub struct Waiting {
    rendezvous: Rc<Rendezvous>,
    session: SessionId,
    arrived: oneshot::Receiver<Arrived>,
}

impl Waiting {
    /// `None` if another wait for the same session has taken its place.
    pub async fn arrived(&mut self) -> Option<Arrived> {
        (&mut self.arrived).await.ok()
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut expected = self.rendezvous.expected.borrow_mut();
        if expected.get(&self.session).is_some_and(|one| one.arrived.is_closed()) {
            expected.remove(&self.session);
        }
    }
}

impl Rendezvous {
    /// Expect the supervisor of a session: one that is root still, or one that comes back as `proof` says.
    pub fn expect(self: &Rc<Self>, session: SessionId, proof: Option<(u32, Token)>) -> Waiting {
        let (arrives, arrived) = oneshot::channel();
        self.expected.borrow_mut().insert(session.clone(), Expected { proof, arrived: arrives });
        Waiting { rendezvous: Rc::clone(self), session, arrived }
    }

    /// Serve the socket for ever. To be called within a `LocalSet`.
    pub async fn serve(self: Rc<Self>, listener: UnixListener) {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    let socket = Socket::accepted(stream);
                    let Ok((pid, uid)) = socket.peer() else { continue };
                    if !self.meet(uid) {
                        debug!(uid, "too many connections that say nothing");
                        continue;
                    }
                    let rendezvous = Rc::clone(&self);
                    tokio::task::spawn_local(async move {
                        let greeted = tokio::time::timeout(PATIENCE, rendezvous.greet(socket, pid, uid)).await;
                        rendezvous.part(uid);
                        match greeted {
                            Ok(Ok(())) => {}
                            Ok(Err(why)) => debug!(why, "a connection that is no supervisor's"),
                            Err(_) => debug!("a connection that says nothing"),
                        }
                    });
                }
                Err(error) => {
                    // Out of descriptors or memory: those that are waiting will be there still.
                    warn!(%error, "accept");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    /// Whether one more connection of this user is listened to.
    fn meet(&self, uid: u32) -> bool {
        let mut strangers = self.strangers.borrow_mut();
        let own = strangers.entry(uid).or_default();
        let has_room = uid == 0 || *own < STRANGERS;
        *own = own.saturating_add(usize::from(has_room));
        has_room
    }

    fn part(&self, uid: u32) {
        let mut strangers = self.strangers.borrow_mut();
        if let Some(own) = strangers.get_mut(&uid) {
            *own = own.saturating_sub(1);
            if *own == 0 {
                strangers.remove(&uid);
            }
        }
    }

    async fn greet(&self, socket: Socket, pid: i32, uid: u32) -> Result<(), &'static str> {
        let Ok(Some(FromSession::Hello(hello))) = socket.receive().await else { return Err("no greeting") };
        if hello.version != wire::VERSION {
            return Err("another version");
        }
        let mut expected = self.expected.borrow_mut();
        let fits = expected.get(&hello.session).is_some_and(|one| match (&one.proof, &hello.token) {
            (None, None) => uid == 0,
            (Some((user, token)), Some(shown)) => uid == *user && token == shown,
            _ => false,
        });
        if !fits {
            return Err("not expected");
        }
        let Some(one) = expected.remove(&hello.session) else { return Err("not expected") };
        one.arrived.send(Arrived { socket, hello: *hello, pid }).map_err(|_| "nobody waits")
    }
}

/// Bind the socket anew, for everybody to connect: a supervisor that comes back is its user.
pub fn bind(path: &Path) -> io::Result<UnixListener> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    // Under another name until it can be connected to: who retries must not meet a refusal that looks final.
    let new: PathBuf = path.with_extension("new");
    let _ = fs::remove_file(&new);
    let listener = UnixListener::bind(&new)?;
    fs::set_permissions(&new, fs::Permissions::from_mode(0o666))?;
    fs::rename(&new, path)?;
    Ok(listener)
}
