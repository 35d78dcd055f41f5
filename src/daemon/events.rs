//! The `--events` stream: what happens in a session, for programs that watch it. Advisory: the audit log is the record that
//! holds a decision back, this one never does. Text of a tool is in the notation of [`crate::common::text`].
//!
//! A thread of its own writes, because the reader at the other end may be slow or gone and an inherited descriptor must not
//! be made non-blocking behind the back of those who share it. At most [`BACKLOG`] lines wait for it; further ones are
//! dropped, and a line with `"event":"dropped"` says how many.

use std::fs::File;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use serde::Serialize;

use super::record::{self, Exec, Reach, Rule};
use crate::common::notice::{Deed, Kind};

/// Lines that wait for a slow reader.
pub const BACKLOG: usize = 1024;

/// How long [`Events::close`] waits for the reader to take what is left.
const FAREWELL: Duration = Duration::from_secs(1);

/// One line. `event` is `call_started`, `consent_required`, `consent_decided`, `denied`, `allowed_by_grant`,
/// `notified`, `learned`, `muted`, `call_ended`.
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
    /// What would run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exec: Option<Exec>,
    /// What would be reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destination: Option<Reach>,
    /// What is known to be behind a unix socket, such as `@docker`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<Rule>,
    /// The words of an audit record's `result`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<&'static str>,
    /// Of `learned`: what policy would have said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub would: Option<&'static str>,
    /// The command that somebody wrote instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edited: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lifetime: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Of what did not happen: why, and what follows, in words for who tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Of the rule; told to the session's user alone, by `gatedctl why`.
    #[serde(skip)]
    pub reason: Option<String>,
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

impl Event {
    /// What somebody is to hear of who is not asked about it, if it is that.
    pub fn told(&self) -> Option<(Kind, Deed)> {
        let kind = match self.event {
            "notified" => Kind::Notify,
            "muted" => Kind::Muted,
            _ => return None,
        };
        let deed = Deed {
            program: self.program.clone()?,
            access: serde_json::from_value(self.access?.into()).ok()?,
            operation: serde_json::from_value(self.operation?.into()).ok()?,
            object: self.object.clone()?,
        };
        Some((kind, deed))
    }
}

/// Where events go.
#[derive(Default)]
pub enum Events {
    /// Nowhere: nobody asked for them.
    #[default]
    None,
    Stream(Stream),
    /// To whoever spreads them further.
    Told(Box<dyn Fn(&Event)>),
}

/// A file and the thread that writes it.
#[derive(Debug)]
pub struct Stream {
    lines: SyncSender<Vec<u8>>,
    /// Lines that found no room, as far as the writer has not told.
    dropped: Arc<AtomicU64>,
    /// Ends when the writer does.
    finished: Receiver<()>,
}

impl Events {
    pub fn none() -> Events {
        Events::None
    }

    /// Events to a function, which must not wait.
    pub fn told(tell: impl Fn(&Event) + 'static) -> Events {
        Events::Told(Box::new(tell))
    }

    /// Events on a file or an inherited descriptor. Fails if the thread cannot be started.
    pub fn to(file: File) -> std::io::Result<Events> {
        let (lines, queue) = sync_channel(BACKLOG);
        let (done, finished) = sync_channel(0);
        let dropped = Arc::new(AtomicU64::new(0));
        let untold = Arc::clone(&dropped);
        std::thread::Builder::new().name("events".into()).spawn(move || {
            // A reader that is gone ends the stream: EPIPE (Rust programs ignore SIGPIPE), ENOSPC, EIO.
            let _ended = write(file, &queue, &untold);
            drop::<SyncSender<()>>(done);
        })?;
        Ok(Events::Stream(Stream { lines, dropped, finished }))
    }

    /// Hands a line to the writer; never waits.
    pub fn emit(&mut self, event: &Event) {
        match self {
            Events::None => return,
            Events::Told(tell) => return tell(event),
            Events::Stream(_) => {}
        }
        let Ok(mut line) = serde_json::to_vec(event) else { return };
        line.push(b'\n');
        self.pass_on(line);
    }

    /// Hands on to a stream what is a line already, with its newline; never waits.
    pub fn pass_on(&mut self, line: Vec<u8>) {
        let Events::Stream(stream) = self else { return };
        match stream.lines.try_send(line) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => {
                stream.dropped.fetch_add(1, Ordering::Relaxed);
            }
            Err(TrySendError::Disconnected(_)) => *self = Events::None,
        }
    }

    /// Waits up to a second until everything is written. A writer that hangs on its reader is left behind.
    pub fn close(self) {
        let Events::Stream(Stream { lines, finished, .. }) = self else { return };
        drop(lines);
        // Nothing is ever sent: this ends with the writer or with the time.
        let _ = finished.recv_timeout(FAREWELL);
    }
}

/// The writer's thread.
fn write(mut file: File, queue: &Receiver<Vec<u8>>, dropped: &AtomicU64) -> std::io::Result<()> {
    loop {
        let line = queue.recv();
        let untold = dropped.swap(0, Ordering::Relaxed);
        if untold > 0 {
            let time = record::now();
            file.write_all(format!("{{\"time\":\"{time}\",\"event\":\"dropped\",\"count\":{untold}}}\n").as_bytes())?;
        }
        match line {
            Ok(line) => file.write_all(&line)?,
            Err(_closed) => return Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::os::fd::OwnedFd;

    use super::*;

    fn event(number: u32) -> Event {
        Event { time: "t".into(), event: "denied", call: number, object: Some("x".repeat(500)), ..Event::default() }
    }

    #[test]
    fn a_reader_that_does_not_read_costs_lines_and_no_time() {
        let (reader, writer) = std::io::pipe().unwrap();
        let mut events = Events::to(File::from(OwnedFd::from(writer))).unwrap();
        let many = 4 * BACKLOG as u32;
        for number in 0..many {
            events.emit(&event(number));
        }
        // The reader comes back: what was kept is whole and in order, and a count stands for the rest.
        let lines = std::thread::spawn(|| {
            let lines = BufReader::new(reader).lines();
            lines.map(|line| serde_json::from_str::<serde_json::Value>(&line.unwrap()).unwrap()).collect::<Vec<_>>()
        });
        events.close();
        let (told, kept): (Vec<_>, Vec<_>) =
            lines.join().unwrap().into_iter().partition(|line| line["event"] == "dropped");
        let dropped: u64 = told.iter().map(|line| line["count"].as_u64().unwrap()).sum();
        let calls: Vec<u64> = kept.iter().map(|line| line["call"].as_u64().unwrap()).collect();
        assert!(calls.len() >= BACKLOG && calls.is_sorted());
        assert_eq!(calls.len() as u64 + dropped, u64::from(many));
        assert!(dropped > 0);
    }

    #[test]
    fn a_reader_that_is_gone_is_no_error() {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut events = Events::to(File::from(OwnedFd::from(writer))).unwrap();
        for number in 0..10 {
            events.emit(&event(number));
        }
        events.close();
    }

    #[test]
    fn closing_waits_for_what_was_emitted() {
        let place = tempfile::NamedTempFile::new().unwrap();
        let mut events = Events::to(place.reopen().unwrap()).unwrap();
        for number in 0..100 {
            events.emit(&event(number));
        }
        events.close();
        assert_eq!(std::fs::read_to_string(place.path()).unwrap().lines().count(), 100);
    }
}
