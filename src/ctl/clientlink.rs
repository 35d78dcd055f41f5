//! The client's end of the link to a supervisor, between the blocking socket and the client's runtime: one thread reads,
//! one writes. Runs as the invoking user; a frame that does not decode is the end of the link.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread;

use nix::sys::signal::{SigSet, SigmaskHow};
use tokio::sync::mpsc;

use crate::common::wire::{FromSession, ToSession};
use crate::tool::link::{Link, Received};

/// The client's link to a supervisor.
pub type SessionLink = Link<ToSession, FromSession>;

/// Messages held in one direction at the most; a supervisor that sends more waits.
const DEPTH: usize = 64;

/// Serve the link until either side closes it.
pub fn serve(link: Arc<SessionLink>) -> io::Result<(mpsc::Receiver<Received<FromSession>>, mpsc::Sender<ToSession>)> {
    let (arrived, arrivals) = mpsc::channel(DEPTH);
    let (leaving, mut departures) = mpsc::channel(DEPTH);
    let reading = Arc::clone(&link);
    let read = move || {
        while let Ok(Some(received)) = reading.receive() {
            if arrived.blocking_send(received).is_err() {
                break;
            }
        }
    };
    let write = move || {
        while let Some(message) = departures.blocking_recv() {
            if link.send(&message, &[]).is_err() {
                break;
            }
        }
        link.close();
    };
    with_signals_blocked(|| {
        thread::Builder::new().name("from session".into()).spawn(read)?;
        thread::Builder::new().name("to session".into()).spawn(write)
    })?;
    Ok((arrivals, leaving))
}

/// For starting threads: signals are the main thread's, so that a stop stops it where it asked for it.
pub fn with_signals_blocked<T>(start: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    let started = start();
    before.thread_set_mask()?;
    started
}

/// A null device in the place of a terminal, which must not enter the session.
pub fn null() -> io::Result<OwnedFd> {
    Ok(std::fs::File::options().read(true).write(true).open("/dev/null")?.into())
}
