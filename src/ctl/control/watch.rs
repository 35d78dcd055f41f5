//! `watch`: what happens in sessions, as it happens. Runs as the caller; the lines are the daemon's, the names in them tools',
//! escaped by the daemon and not believed to be.

use std::io::{self, BufRead, BufReader, Write};

use jiff::Timestamp;
use serde::Deserialize;

use super::daemon::Daemon;
use super::failure::Failure;
use super::ids::{Prefix, short};
use super::output::Output;
use super::table::{Cell, Column, Table};
use crate::common::text::{self, Untrusted};
use crate::ctl::proxies::Options;

/// Bytes of a line at the most: what the daemon writes into a pipe at once is far less.
const LONGEST: u64 = 1 << 20;

/// A line, as far as people are told; `daemon::events` has all of it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Line {
    time: Option<Timestamp>,
    event: String,
    session: String,
    call: u32,
    request: String,
    program: String,
    argv: Vec<String>,
    operation: String,
    exec: Option<Exec>,
    destination: Option<Reach>,
    object: String,
    decision: String,
    by: String,
    exit_code: Option<i32>,
    signal: Option<i32>,
    exec_errno: Option<i32>,
    count: Option<u64>,
}

/// What would run, as far as people are told.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Exec {
    argv: Vec<String>,
    new: bool,
}

impl Exec {
    /// The words of a command line, and whether its program is new.
    pub fn shown(&self) -> String {
        let new = if self.new { " (NEW)" } else { "" };
        text::quoted_argv(words(&self.argv).iter().map(Untrusted::as_bytes)) + new
    }
}

/// What would be reached, as far as people are told.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Reach {
    address: String,
}

impl Reach {
    /// `connect registry.npmjs.org:443 (192.0.2.7)`: `object` is in the notation of records, as all of it.
    pub fn shown(&self, operation: &str, object: &str, by: &str) -> Cell {
        // Of an address alone the object says it.
        let is_known = self.address.is_empty() || object.contains(&self.address);
        let address = if is_known { String::new() } else { format!(" ({})", self.address) };
        let verb = match operation {
            "connect" => "connect ",
            "look-up" => "look-up ",
            "listen" => "listen ",
            _ => "",
        };
        let by = if by.is_empty() { String::new() } else { format!(" by {by}") };
        Cell::Host(verb, object.to_owned(), format!("{address}{by}"))
    }
}

pub async fn watch(output: &Output, session: Option<&Prefix>) -> Result<(), Failure> {
    let daemon = Daemon::connect().await?;
    let mut options = Options::new();
    match session {
        Some(prefix) => {
            options.insert("session", daemon.session(prefix).await?.id.into());
        }
        // For whoever may: of all users. The others see their own.
        None if nix::unistd::geteuid().is_root() => {
            options.insert("all", true.into());
        }
        None => {}
    }
    let events = std::os::fd::OwnedFd::from(daemon.manager.watch(options).await?);
    let table = table(output);
    if !output.json {
        table.begin(&mut io::stdout().lock())?;
    }
    // Nothing else happens here meanwhile; the pipe's end is the daemon's.
    let mut events = BufReader::new(std::fs::File::from(events));
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = io::Read::take(&mut events, LONGEST).read_until(b'\n', &mut line)?;
        if read == 0 {
            return Err(Failure::NoDaemon("it ended".into()));
        }
        tell(output, &table, &line)?;
    }
}

fn tell(output: &Output, table: &Table, line: &[u8]) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    if output.json {
        return Ok(stdout.write_all(line)?);
    }
    let Ok(line) = serde_json::from_slice::<Line>(line) else {
        return Err(Failure::Nonsense("a line of events that is none".into()));
    };
    Ok(table.grow(&mut stdout, &line.row(output))?)
}

/// Time, session, event, request, program, and what it was about, of a line of events.
pub fn cells(output: &Output, line: &[u8]) -> Option<Vec<Cell>> {
    Some(serde_json::from_slice::<Line>(line).ok()?.row(output))
}

fn table(output: &Output) -> Table {
    Table::new(
        output.width,
        &[
            Column::exactly("TIME", 8),
            Column::exactly("SESSION", 8),
            Column::exactly("EVENT", 9),
            Column::exactly("REQUEST", 8),
            Column::exactly("WHO", 10),
            Column::cut("WHAT"),
        ],
    )
}

impl Line {
    fn row(&self, output: &Output) -> Vec<Cell> {
        let time = self.time.map(|time| output.local(time)).unwrap_or_default();
        let time = time.split_once(' ').map_or("", |(_, time)| time);
        let event = match (self.event.as_str(), self.decision.as_str()) {
            ("call_started", _) => "started",
            ("call_ended", _) => "ended",
            ("consent_required", _) => "ASKS",
            ("consent_decided", "not_permitted") | ("denied", _) => "denied",
            ("consent_decided", "cancelled") => "withdrawn",
            ("consent_decided", decision) => decision,
            ("allowed_by_grant", _) => "granted",
            (other, _) => other,
        };
        vec![
            Cell::own(time),
            Cell::own(&*self.session),
            Cell::own(event),
            Cell::own(short(&self.request, 8)),
            name_of(&self.program),
            self.what(),
        ]
    }

    fn what(&self) -> Cell {
        let by = if self.by.is_empty() { String::new() } else { format!("by {}: ", self.by) };
        if let Some(exec) = &self.exec {
            return Cell::Own(format!("{by}{} {}", self.operation, exec.shown()));
        }
        if let Some(reach) = &self.destination {
            return reach.shown(&self.operation, &self.object, &self.by);
        }
        match (self.event.as_str(), self.exit_code, self.signal, self.exec_errno) {
            ("dropped", ..) => Cell::Own(format!("{} events were lost: too slow", self.count.unwrap_or_default())),
            (_, Some(code), ..) => Cell::Own(format!("call {}: exit status {code}", self.call)),
            (_, _, Some(signal), _) => Cell::Own(format!("call {}: killed by signal {signal}", self.call)),
            (_, _, _, Some(errno)) => {
                let reason = nix::errno::Errno::from_raw(errno).desc();
                Cell::Own(format!("call {}: not executed: {reason}", self.call))
            }
            ("call_started", ..) => Cell::Command(words(&self.argv)),
            _ if self.operation.is_empty() => Cell::Escaped(self.object.clone()),
            _ => Cell::Escaped(format!("{by}{} {}", self.operation, self.object)),
        }
    }
}

/// The last part of a path in the notation of records.
pub fn name_of(program: &str) -> Cell {
    Cell::Escaped(program.rsplit('/').next().unwrap_or_default().to_owned())
}

/// Words in the notation of records, as they were.
pub fn words(escaped: &[String]) -> Vec<Untrusted> {
    escaped.iter().map(|word| Untrusted::new(text::unescaped(word).unwrap_or_else(|| word.clone().into()))).collect()
}
