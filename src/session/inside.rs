//! The socket inside a session, on which a process of the session starts further calls of it: the same view, the same floor, the
//! same policy, a call of its own.
//!
//! Runs as the user in the supervisor. Everything that arrives is hostile, so each connection has a thread of its own, there
//! are few, frames are short, and whoever sends anything but one [`FromCaller::Start`] with its four descriptors, or is no
//! process of the session, is dropped. What can be had here is no more than fork(2) and execve(2) would give.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{AtFlags, statat};
use rustix::net::{SocketFlags, accept_with};

use super::attend::{self, CALLERS_PATIENCE};
use super::life::{CallerLink, Session};
use super::net::unix::knock::Process;
use super::start::Order;
use super::sys;
use crate::common::id::CallId;
use crate::common::wire::{FromCaller, ToCaller};

/// Connections that may be open at a time; one more is closed.
const CONNECTIONS_AT_MOST: usize = 64;

/// argv and environment are 2 MiB at the most (execve(2)), the rest is small.
const LONGEST_FRAME: usize = (2 << 20) + (128 << 10);

/// As much as a thread that serves a listener.
const STACK_BYTES: usize = 256 * 1024;

/// How long nobody is let in when there is no descriptor or memory for it.
const PAUSE: Duration = Duration::from_millis(100);

/// The pid namespace of a session: device and inode of its nsfs file, namespaces(7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PidNamespace(u64, u64);

impl PidNamespace {
    /// Of a process that this one may look at, by its id in `procfs`.
    pub fn of(procfs: impl std::os::fd::AsFd, process: i32) -> io::Result<PidNamespace> {
        let found = statat(procfs, format!("{process}/ns/pid"), AtFlags::empty())?;
        Ok(PidNamespace(found.st_dev, found.st_ino))
    }
}

/// Takes connections until nobody is left inside.
pub fn serve(session: &Arc<Session>, listener: &OwnedFd) {
    let open = Arc::new(AtomicUsize::new(0));
    loop {
        let init = session.init_pidfd();
        let mut polled = [PollFd::new(listener, PollFlags::IN), PollFd::new(&init, PollFlags::IN)];
        match poll(&mut polled, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return session.lost("the session's init"),
        }
        let [connects, has_ended] = polled.map(|one| !one.revents().is_empty());
        if has_ended {
            return session.lost("the session's init");
        }
        if !connects {
            continue;
        }
        let socket = match accept_with(listener, SocketFlags::CLOEXEC) {
            Ok(socket) => socket,
            Err(rustix::io::Errno::INTR | rustix::io::Errno::CONNABORTED) => continue,
            Err(_) => {
                thread::sleep(PAUSE);
                continue;
            }
        };
        // In the order in which they are accepted, also of one that is closed at once.
        let peer = peer(session, &socket);
        let Some(place) = Place::take(&open) else { continue };
        let session = Arc::clone(session);
        let serve = move || {
            if let Some(peer) = peer {
                serve_one(&session, socket, &peer);
            }
            drop(place);
        };
        // Without a thread the connection is closed.
        let _ = thread::Builder::new().name("gated-inside".into()).stack_size(STACK_BYTES).spawn(serve);
    }
}

/// Who connected. The supervisor makes the connections of a session's processes, and knows for whom.
fn peer(session: &Session, socket: &OwnedFd) -> Option<Process> {
    let (process, pidfd) = sys::peer(socket).ok()?;
    let is_own = i64::from(process) == i64::from(std::process::id());
    if is_own { session.performer().unix()?.knocks.next() } else { Some((process, pidfd)) }
}

fn serve_one(session: &Session, socket: OwnedFd, peer: &Process) {
    let Some(parent) = call_of_peer(session, peer) else { return };
    let caller = CallerLink::new(socket).with_frames_up_to(LONGEST_FRAME);
    if caller.limit_waits(CALLERS_PATIENCE).is_err() {
        return;
    }
    let Ok(Some(received)) = caller.receive() else { return };
    let FromCaller::Start(start) = received.message else { return };
    if !start.passed.is_empty() {
        return;
    }
    let Ok(files) = received.fds.try_into() else { return };
    match session.begin() {
        Some(place) => attend::run(
            session,
            place,
            Order { start: *start, files, passed: Vec::new(), parent, is_from_inside: true },
            &caller,
        ),
        None => {
            let _ = caller.send(&ToCaller::Failed("too many calls of this session are running".into()), &[]);
        }
    }
}

/// The call of the process that connected; `None` if that is no process of the session. Its user can reach the socket from
/// outside too, by the `/proc` of a tool's process.
fn call_of_peer(session: &Session, (process, pidfd): &Process) -> Option<Option<CallId>> {
    let own = PidNamespace::of(session.outer_proc(), *process).ok()?;
    let call = session.kin().of(session.outer_proc(), session.init_pid(), *process).ok()?;
    // While it lives the number is its own, and all of this was its.
    (own == session.pid_namespace() && sys::is_alive(pidfd)).then_some(call)
}

/// One of the connections.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(open: &Arc<AtomicUsize>) -> Option<Place> {
        // Given back when it is dropped, one that was not to be had too.
        let place = Place(Arc::clone(open));
        (open.fetch_add(1, Ordering::SeqCst) < CONNECTIONS_AT_MOST).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
