//! What happened, from the audit log for who may read it, and as it happens for everybody else. Runs as the caller. The log is
//! read beside the screen, because it can be long.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use futures_util::StreamExt;
use tokio::task::JoinHandle;

use super::entry::Entry;
use super::feed::{self, Lines};
use super::model::Event;
use super::rows;
use crate::ctl::control::audit;
use crate::ctl::control::auditlog::AuditReader;
use crate::ctl::control::daemon::Daemon;
use crate::ctl::control::output::Output;

/// Lines that are taken from what was there before.
const MOST: usize = 10_000;
/// How often the log is looked at.
const AGAIN: Duration = Duration::from_secs(1);

/// Where records come from.
enum Records {
    /// Nobody has looked yet.
    Unread,
    /// The log, between two looks at it.
    Log(Box<AuditReader>),
    /// The log, while it is read on another thread.
    Reading(JoinHandle<Read>),
    Live(Lines),
    /// There are none, and it was said why.
    None,
}

/// What a look at the log brought.
struct Read {
    reader: Box<AuditReader>,
    entries: Vec<Entry>,
    next: u64,
    is_over: bool,
}

/// See the module.
pub struct Source {
    path: PathBuf,
    records: Records,
    next: u64,
}

impl Source {
    pub fn new(path: PathBuf) -> Source {
        Source { path, records: Records::Unread, next: 0 }
    }

    /// Somebody looks: the source is chosen.
    pub async fn open(&mut self, daemon: &Daemon) -> Option<Event> {
        if !matches!(self.records, Records::Unread) {
            return None;
        }
        let error = match AuditReader::open(&self.path) {
            Ok(reader) => {
                self.records = Records::Reading(read(Box::new(reader), self.next));
                return None;
            }
            Err(error) => error,
        };
        let why = match error.kind() {
            io::ErrorKind::PermissionDenied => {
                format!("you may not read the audit log: {}", audit::readers_of(&self.path))
            }
            _ => "there is no audit log yet".to_owned(),
        };
        let all = nix::unistd::geteuid().is_root();
        match feed::watch(daemon, all).await {
            Ok(lines) => {
                self.records = Records::Live(lines);
                Some(Event::NoRecords(format!("What happens from now on will stand here; {why}.")))
            }
            Err(failure) => {
                self.records = Records::None;
                Some(Event::NoRecords(format!("Nothing can be shown: {why}; {failure}")))
            }
        }
    }

    /// The daemon that told what happens is gone, or another one is there.
    pub fn forget_live(&mut self) {
        if matches!(self.records, Records::Live(_) | Records::None) {
            self.records = Records::Unread;
        }
    }

    /// Further ones. May be dropped and called again; without a source it waits for ever.
    pub async fn next(&mut self) -> Vec<Entry> {
        loop {
            match &mut self.records {
                Records::Unread | Records::None => std::future::pending().await,
                Records::Live(lines) => {
                    let Some(line) = lines.next().await else {
                        self.records = Records::Unread;
                        continue;
                    };
                    self.next = self.next.wrapping_add(1);
                    if let Some(entry) = rows::event(&Output::new(false), self.next, &line) {
                        return vec![entry];
                    }
                }
                Records::Log(_) => {
                    tokio::time::sleep(AGAIN).await;
                    if let Records::Log(reader) = std::mem::replace(&mut self.records, Records::None) {
                        self.records = Records::Reading(read(reader, self.next));
                    }
                }
                Records::Reading(reading) => {
                    let done = reading.await;
                    self.records = Records::None;
                    let Ok(Read { reader, entries, next, is_over }) = done else { continue };
                    self.next = next;
                    if !is_over {
                        self.records = Records::Log(reader);
                    }
                    if !entries.is_empty() {
                        return entries;
                    }
                }
            }
        }
    }
}

/// What was written since the last time, on a thread of its own.
fn read(mut reader: Box<AuditReader>, mut next: u64) -> JoinHandle<Read> {
    tokio::task::spawn_blocking(move || {
        let mut lines = VecDeque::new();
        let read = reader.read(&mut |line| {
            if lines.len() >= MOST {
                lines.pop_front();
            }
            lines.push_back(line.to_vec());
        });
        let output = Output::new(false);
        let mut entries = Vec::new();
        for line in lines {
            next = next.wrapping_add(1);
            entries.extend(rows::record(&output, next, &line));
        }
        Read { reader, entries, next, is_over: read.is_err() }
    })
}
