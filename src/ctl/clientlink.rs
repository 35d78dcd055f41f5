//! The client's end of a link, between the blocking socket and the client's runtime: one thread reads, one writes. Runs as the
//! invoking user; a frame that does not decode is the end of the link.

use std::io;
use std::sync::Arc;
use std::thread;

use nix::sys::signal::{SigSet, SigmaskHow};
use serde::{Serialize, de::DeserializeOwned};
use tokio::sync::mpsc;

use crate::tool::link::{Link, Received};

/// Messages held in one direction at the most; a peer that sends more waits.
const DEPTH: usize = 64;

/// Serve the link until either side closes it: the other one, or this one by dropping what is sent with.
pub fn serve<Out, In>(link: Arc<Link<Out, In>>) -> io::Result<(mpsc::Receiver<Received<In>>, mpsc::Sender<Out>)>
where
    Out: Serialize + Send + 'static,
    In: DeserializeOwned + Send + 'static,
{
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
        thread::Builder::new().name("from link".into()).spawn(read)?;
        thread::Builder::new().name("to link".into()).spawn(write)
    })?;
    Ok((arrivals, leaving))
}

/// A client's runtime: on this thread, and with signals blocked in those that it starts.
pub fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .on_thread_start(|| {
            // Fails for an invalid argument only.
            let _ = SigSet::all().thread_block();
        })
        .build()
}

/// For starting threads: signals are the main thread's, so that a stop stops it where it asked for it.
pub fn with_signals_blocked<T>(start: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    let started = start();
    before.thread_set_mask()?;
    started
}
