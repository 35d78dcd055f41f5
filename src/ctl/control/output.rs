//! Where `gatedctl` writes, and how: a table as wide as the terminal, or JSON. Runs as the caller.

use std::io::{self, IsTerminal, Write};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;

use super::failure::Failure;
use super::table::{self, Cell, Table};

/// Standard output.
pub struct Output {
    pub json: bool,
    /// Columns; `None` where nothing says how many there are, and nothing is cut.
    pub width: Option<usize>,
    zone: TimeZone,
}

impl Output {
    /// The terminal's own width, unless the environment says otherwise (COLUMNS, as the shells have it).
    pub fn new(json: bool) -> Output {
        let stdout = io::stdout();
        let said = || std::env::var("COLUMNS").ok()?.parse().ok();
        let terminal = || match rustix::termios::tcgetwinsize(&stdout) {
            Ok(size) if stdout.is_terminal() && size.ws_col > 0 => Some(usize::from(size.ws_col)),
            _ => None,
        };
        Output { json, width: said().or_else(terminal), zone: TimeZone::system() }
    }

    /// One JSON value, on a line of its own.
    pub fn json(&self, value: &impl Serialize) -> Result<(), Failure> {
        let mut line = serde_json::to_vec(value)?;
        line.push(b'\n');
        Ok(io::stdout().write_all(&line)?)
    }

    /// A table, or what to say if it is empty.
    pub fn table(&self, table: &Table, empty: &str) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        if table.is_empty() {
            writeln!(stdout, "{empty}")?;
        } else {
            table.write(&mut stdout)?;
        }
        Ok(())
    }

    pub fn fields(&self, fields: &[(&str, Cell)]) -> Result<(), Failure> {
        Ok(table::write_fields(&mut io::stdout().lock(), self.width, fields)?)
    }

    pub fn line(&self, text: &str) -> Result<(), Failure> {
        Ok(writeln!(io::stdout(), "{text}")?)
    }

    /// Without year and seconds where there is no room: `11-22 14:30`.
    pub fn short_local(&self, moment: Timestamp) -> String {
        let format = if table::is_wide(self.width) { "%F %T" } else { "%m-%d %H:%M" };
        moment.to_zoned(self.zone.clone()).strftime(format).to_string()
    }

    /// A moment in the local time zone: `2026-11-22 14:30:05`.
    pub fn local(&self, moment: Timestamp) -> String {
        moment.to_zoned(self.zone.clone()).strftime("%F %T").to_string()
    }
}

/// Microseconds since 1970; 1970 for what no clock says.
pub fn moment(microseconds: u64) -> Timestamp {
    i64::try_from(microseconds).ok().and_then(|us| Timestamp::from_microsecond(us).ok()).unwrap_or_default()
}

/// The name of a user, or the number of one without.
pub fn user_name(uid: u32) -> String {
    let user = nix::unistd::User::from_uid(nix::unistd::Uid::from_raw(uid));
    user.ok().flatten().map_or_else(|| uid.to_string(), |user| user.name)
}
