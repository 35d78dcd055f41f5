//! The `--events` stream: what happens in a session, for programs that watch it. Advisory: the audit log is the record that
//! holds a decision back, this one never does. Text of a tool is in the notation of [`crate::common::text`].
//!
//! A thread of its own writes, because the reader at the other end may be slow or gone and an inherited descriptor must not
//! be made non-blocking behind the back of those who share it. At most [`BACKLOG`] lines wait for it; further ones are
//! dropped, and a line with `"event":"dropped"` says how many.

use std::fs::File;
use std::io::Write;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use serde::Serialize;

use super::record::Rule;

/// Lines that wait for a slow reader.
pub const BACKLOG: usize = 1024;

/// How long [`Events::close`] waits for the reader to take what is left.
const FAREWELL: Duration = Duration::from_secs(1);

/// One line. `event` is `call_started`, `consent_required`, `consent_decided`, `denied`, `allowed_by_grant`, `call_ended`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Event {
    /// UTC, RFC 3339 with microseconds.
    pub time: String,
    pub event: &'static str,
    pub session: String,
    pub call: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub argv: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<Rule>,
    /// The words of an audit record's `result`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lifetime: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waited_ms: Option<u64>,
    /// How a call ended: its exit code …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// … the signal that ended it …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// … or the errno of an execve(2) that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exec_errno: Option<i32>,
}

/// Where events go; nowhere, if nobody asked for them.
#[derive(Debug, Default)]
pub struct Events(Option<Stream>);

#[derive(Debug)]
struct Stream {
    lines: SyncSender<Vec<u8>>,
    /// Ends when the writer does.
    finished: Receiver<()>,
    dropped: u64,
}

impl Events {
    pub fn none() -> Events {
        Events(None)
    }

    /// Events on a file or an inherited descriptor. Fails if the thread cannot be started.
    pub fn to(mut file: File) -> std::io::Result<Events> {
        let (lines, queue) = sync_channel::<Vec<u8>>(BACKLOG);
        let (done, finished) = sync_channel::<()>(0);
        std::thread::Builder::new().name("events".into()).spawn(move || {
            let _done = done;
            // A reader that is gone ends the stream: EPIPE (SIGPIPE is ignored by Rust programs), ENOSPC, EIO.
            while let Ok(line) = queue.recv() {
                if file.write_all(&line).is_err() {
                    return;
                }
            }
        })?;
        Ok(Events(Some(Stream { lines, finished, dropped: 0 })))
    }

    /// Hands a line to the writer; never waits.
    pub fn emit(&mut self, event: &Event) {
        let Some(stream) = &mut self.0 else { return };
        if stream.dropped > 0 {
            let told = format!("{{\"time\":\"{}\",\"event\":\"dropped\",\"count\":{}}}\n", event.time, stream.dropped);
            match stream.lines.try_send(told.into_bytes()) {
                Ok(()) => stream.dropped = 0,
                Err(_) => {
                    stream.dropped = stream.dropped.saturating_add(1);
                    return;
                }
            }
        }
        let Ok(mut line) = serde_json::to_vec(event) else { return };
        line.push(b'\n');
        match stream.lines.try_send(line) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => stream.dropped = stream.dropped.saturating_add(1),
            Err(TrySendError::Disconnected(_)) => self.0 = None,
        }
    }

    /// Waits up to a second until everything is written. A writer that hangs on its reader is left behind.
    pub fn close(self) {
        let Some(Stream { lines, finished, .. }) = self.0 else { return };
        drop(lines);
        let end = finished.recv_timeout(FAREWELL);
        debug_assert!(matches!(end, Err(RecvTimeoutError::Disconnected | RecvTimeoutError::Timeout)));
    }
}
