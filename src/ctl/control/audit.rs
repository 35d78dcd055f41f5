//! `audit`: what was decided, from the log's files. Runs with the caller's rights, without the daemon.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize;

use super::arguments::AuditArguments;
use super::auditlog::AuditReader;
use super::failure::Failure;
use super::ids::{Kind, Prefix};
use super::output::Output;
use super::table::{Cell, Column, Table, is_wide};
use super::watch::{Exec, Reach, name_of};
use crate::common::text;

/// How often a followed log is looked at.
const AGAIN: Duration = Duration::from_millis(200);

/// A record, as far as people are told; `daemon::audit` has all of it.
#[derive(Debug, Deserialize)]
struct Record {
    time: Timestamp,
    session: String,
    #[serde(default)]
    user: String,
    #[serde(default)]
    tool: Tool,
    #[serde(default)]
    operation: String,
    #[serde(default)]
    object: String,
    exec: Option<Exec>,
    destination: Option<Reach>,
    #[serde(default)]
    result: String,
    #[serde(default)]
    answered_by: String,
    /// Refusals that were counted together.
    times: Option<u64>,
    #[serde(default)]
    various: bool,
}

impl Record {
    /// How it ended, and how often where that was counted.
    fn ended(&self) -> String {
        match (self.times, self.various) {
            (None, _) => self.result.clone(),
            (Some(times), false) => format!("{} x{times}", self.result),
            (Some(times), true) => format!("{} x{times}, last", self.result),
        }
    }
}

#[derive(Debug, Default, Deserialize)]
struct Tool {
    #[serde(default)]
    program: String,
}

pub async fn audit(output: &Output, arguments: &AuditArguments) -> Result<(), Failure> {
    let path = &arguments.file;
    let open = || match AuditReader::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && arguments.follow => AuditReader::open_later(path),
        other => other,
    };
    if let Some(prefix) = &arguments.session {
        check_session(&mut open().map_err(|error| cannot_read(path, error))?, prefix, arguments.follow)
            .map_err(|failure| with_path(path, failure))?;
    }
    let mut reader = open().map_err(|error| cannot_read(path, error))?;
    let table = table(output);
    let mut stdout = io::BufWriter::new(io::stdout());
    if !output.json {
        table.begin(&mut stdout)?;
    }
    loop {
        let mut written = Ok(());
        let read = reader.read(&mut |line| {
            if written.is_ok() {
                written = tell(output, arguments, &table, &mut stdout, line);
            }
        });
        read.map_err(|error| cannot_read(path, error))?;
        written?;
        stdout.flush()?;
        if !arguments.follow {
            return Ok(());
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// Whether exactly one session of the log has an id that begins so; while following it may still come.
fn check_session(reader: &mut AuditReader, prefix: &Prefix, may_come: bool) -> Result<(), Failure> {
    let mut found = BTreeSet::new();
    reader.read(&mut |line| {
        if let Ok(record) = serde_json::from_slice::<Record>(line)
            && prefix.begins(&record.session)
        {
            found.insert(record.session);
        }
    })?;
    match found.len() {
        0 if may_come => Ok(()),
        _ => prefix.pick(Kind::Session, found, Clone::clone).map(drop),
    }
}

/// One line of the log, if it is wanted. What is no record (torn by a crash) is passed over.
fn tell(
    output: &Output,
    arguments: &AuditArguments,
    table: &Table,
    to: &mut impl Write,
    line: &[u8],
) -> Result<(), Failure> {
    let Ok(record) = serde_json::from_slice::<Record>(line) else { return Ok(()) };
    let is_wanted = arguments.session.as_ref().is_none_or(|prefix| prefix.begins(&record.session))
        && arguments.since.is_none_or(|since| record.time >= since.0);
    if !is_wanted {
        return Ok(());
    }
    if output.json {
        to.write_all(line)?;
        return Ok(to.write_all(b"\n")?);
    }
    Ok(table.grow(to, &row(output, record, is_wide(output.width)))?)
}

/// Time, session, user, program, result, who answered, and what it was about.
fn row(output: &Output, record: Record, has_year: bool) -> [Cell; 7] {
    let (local, ended) = (output.local(record.time), record.ended());
    // Without the year where there is no room for it.
    let time = if has_year { &*local } else { local.get(5..).unwrap_or_default() };
    [
        Cell::own(time),
        Cell::Own(record.session),
        Cell::Own(record.user),
        name_of(&record.tool.program),
        Cell::Own(ended),
        Cell::Own(record.answered_by),
        match (&record.exec, &record.destination) {
            (Some(exec), _) => Cell::Own(format!("{} {}", record.operation, exec.shown())),
            (None, Some(reach)) => reach.shown(&record.operation, &record.object, ""),
            (None, None) => Cell::Escaped(format!("{} {}", record.operation, record.object)),
        },
    ]
}

/// The same of a line of the log, if it is a record.
pub fn cells(output: &Output, line: &[u8]) -> Option<[Cell; 7]> {
    Some(row(output, serde_json::from_slice(line).ok()?, false))
}

/// Of fixed columns: no record knows how wide the next is.
fn table(output: &Output) -> Table {
    let wide = is_wide(output.width);
    Table::new(
        output.width,
        &[
            Column::exactly("TIME", if wide { 19 } else { 14 }),
            Column::exactly("SESSION", 8),
            Column::exactly("USER", 10).if_wide(),
            Column::exactly("WHO", 10),
            Column::exactly("RESULT", 13),
            Column::exactly("BY", 16).if_wide(),
            Column::cut("WHAT"),
        ],
    )
}

pub(super) fn cannot_read(path: &Path, source: io::Error) -> Failure {
    match source.kind() {
        io::ErrorKind::NotFound => Failure::NoLog(path.to_owned()),
        io::ErrorKind::PermissionDenied => {
            let named = text::escaped(path.as_os_str().as_encoded_bytes());
            Failure::NotPermitted(format!("you may not read {named}: {}", readers_of(path)))
        }
        _ => Failure::File { what: "read", path: path.to_owned(), source },
    }
}

fn with_path(path: &Path, failure: Failure) -> Failure {
    match failure {
        Failure::Output(source) => cannot_read(path, source),
        other => other,
    }
}

/// Who may read the log, by the owners of it or of its directory.
pub fn readers_of(path: &Path) -> String {
    let of = |path: &Path| std::fs::metadata(path).ok().map(|metadata| metadata.gid()).filter(|gid| *gid != 0);
    let group = of(path).or_else(|| path.parent().and_then(of));
    let name = group.and_then(|gid| nix::unistd::Group::from_gid(gid.into()).ok().flatten()).map(|group| group.name);
    match name {
        Some(name) => format!("root may, and the group {name} (usermod -aG {name} USER, then log in again)"),
        None => "only root may; try sudo gatedctl audit".to_owned(),
    }
}
