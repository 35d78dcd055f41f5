//! Tables for people: as wide as the terminal, each cell cut to its column. Text of a tool only gets in as [`Cell`]s that
//! escape it; what is too long loses its middle.

use std::io::{self, Write};

use crate::common::text::{self, Untrusted};

/// Columns between two columns.
const GAP: usize = 2;
/// Below this many columns for what can shrink, a table becomes a list of blocks.
const LEAST: usize = 12;

/// What stands in one place.
#[derive(Clone, Debug)]
pub enum Cell {
    /// Words of our own.
    Own(String),
    /// Bytes of a tool: a path, a name.
    Tool(Vec<u8>),
    /// A command line of a tool.
    Command(Vec<Untrusted>),
    /// Text that is in the notation of `common::text` already.
    Escaped(String),
}

impl Cell {
    pub fn own(text: impl Into<String>) -> Cell {
        Cell::Own(text.into())
    }

    /// In at most `limit` columns; all of it without a limit.
    pub fn shown(&self, limit: Option<usize>) -> String {
        match (self, limit) {
            // Also what we say ourselves may hold a name of somebody's making: a profile, a user.
            (Cell::Own(own), None) => clean(own),
            (Cell::Own(own), Some(limit)) if text::columns(&clean(own)) <= limit => clean(own),
            (Cell::Own(own), Some(limit)) => text::escaped_within(own.as_bytes(), limit),
            (Cell::Tool(bytes), None) => text::escaped(bytes),
            (Cell::Tool(bytes), Some(limit)) => text::escaped_within(bytes, limit),
            (Cell::Command(words), None) => text::quoted_argv(words.iter().map(Untrusted::as_bytes)),
            (Cell::Command(words), Some(limit)) => {
                text::quoted_argv_within(words.iter().map(Untrusted::as_bytes), limit)
            }
            (Cell::Escaped(escaped), limit) => {
                // What was cut before cannot be read back; it is shown as far as it draws only itself.
                let cell = text::unescaped(escaped).map_or_else(|| Cell::Own(escaped.clone()), Cell::Tool);
                cell.shown(limit)
            }
        }
    }
}

/// Without what does not draw itself; the marks of an earlier cut stay.
fn clean(own: &str) -> String {
    own.chars()
        .map(|character| if text::is_showable(character) || " …".contains(character) { character } else { '?' })
        .collect()
}

/// Whether a column may be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    Whole,
    Cut,
    /// Of this many columns in every table, so that a table can grow after its first lines were shown.
    Exactly(usize),
}

/// Rows below titles.
#[derive(Debug)]
pub struct Table {
    columns: Vec<(&'static str, Fit)>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    pub fn new(columns: &[(&'static str, Fit)]) -> Table {
        Table { columns: columns.to_vec(), rows: Vec::new() }
    }

    pub fn push(&mut self, row: Vec<Cell>) {
        self.rows.push(row);
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// With titles, in `width` columns; as wide as it gets without one.
    pub fn write(&self, to: &mut dyn Write, width: Option<usize>) -> io::Result<()> {
        match self.widths(width) {
            Some(widths) => {
                self.write_titles(to, &widths)?;
                self.rows.iter().try_for_each(|row| write_row(to, row, &widths))
            }
            None => self.write_blocks(to, width.unwrap_or(LEAST)),
        }
    }

    /// For a table that grows: the titles; then each row by [`Table::grow`].
    pub fn begin(&self, to: &mut dyn Write, width: Option<usize>) -> io::Result<()> {
        self.widths(width).map_or(Ok(()), |widths| self.write_titles(to, &widths))
    }

    /// A further row of a table without rows of its own.
    pub fn grow(&self, to: &mut dyn Write, width: Option<usize>, row: &[Cell]) -> io::Result<()> {
        match self.widths(width) {
            Some(widths) => write_row(to, row, &widths),
            None => self.write_block(to, width.unwrap_or(LEAST), row),
        }
    }

    /// The columns' widths; `None` if what can be cut would be cut to nothing.
    fn widths(&self, width: Option<usize>) -> Option<Vec<usize>> {
        let natural: Vec<usize> = self
            .columns
            .iter()
            .enumerate()
            .map(|(at, (title, fit))| match fit {
                Fit::Exactly(columns) => *columns,
                _ => {
                    let cells = self.rows.iter().filter_map(|row| row.get(at));
                    let widest = cells.map(|cell| text::columns(&cell.shown(None))).max().unwrap_or(0);
                    widest.max(text::columns(title))
                }
            })
            .collect();
        let Some(width) = width else { return Some(natural) };
        let gaps = GAP.saturating_mul(natural.len().saturating_sub(1));
        let fits = self.columns.iter().map(|(_, fit)| *fit);
        let fixed: usize = fits.clone().zip(&natural).filter(|(fit, _)| *fit != Fit::Cut).map(|(_, width)| width).sum();
        let mut room = width.checked_sub(gaps.saturating_add(fixed))?;
        // The narrow ones get what they want, the others share the rest evenly.
        let mut wanting: Vec<(usize, usize)> = fits
            .zip(&natural)
            .enumerate()
            .filter(|(_, (fit, _))| *fit == Fit::Cut)
            .map(|(at, (_, want))| (*want, at))
            .collect();
        wanting.sort_unstable();
        let mut widths = natural.clone();
        let mut left = wanting.len();
        for (want, at) in wanting {
            // A growing table has no rows to tell: its last columns take all.
            let want = if self.rows.is_empty() { usize::MAX } else { want };
            let given = want.min(room.checked_div(left).unwrap_or(0));
            if given < LEAST.min(want) {
                return None;
            }
            if let Some(place) = widths.get_mut(at) {
                *place = given;
            }
            room = room.saturating_sub(given);
            left = left.saturating_sub(1);
        }
        Some(widths)
    }

    fn write_titles(&self, to: &mut dyn Write, widths: &[usize]) -> io::Result<()> {
        let titles: Vec<Cell> = self.columns.iter().map(|(title, _)| Cell::own(*title)).collect();
        write_row(to, &titles, widths)
    }

    /// One block a row, for a terminal that is too narrow for a table.
    fn write_blocks(&self, to: &mut dyn Write, width: usize) -> io::Result<()> {
        for (at, row) in self.rows.iter().enumerate() {
            if at > 0 {
                writeln!(to)?;
            }
            self.write_block(to, width, row)?;
        }
        Ok(())
    }

    fn write_block(&self, to: &mut dyn Write, width: usize, row: &[Cell]) -> io::Result<()> {
        for ((title, _), cell) in self.columns.iter().zip(row) {
            let label = format!("{title}: ");
            let value = cell.shown(Some(width.saturating_sub(text::columns(&label)).max(1)));
            if !value.is_empty() {
                writeln!(to, "{label}{value}")?;
            }
        }
        Ok(())
    }
}

fn write_row(to: &mut dyn Write, row: &[Cell], widths: &[usize]) -> io::Result<()> {
    let mut line = String::new();
    for (cell, width) in row.iter().zip(widths) {
        let shown = cell.shown(Some(*width));
        let used = text::columns(&shown);
        line.push_str(&shown);
        line.extend(std::iter::repeat_n(' ', width.saturating_sub(used).saturating_add(GAP)));
    }
    writeln!(to, "{}", line.trim_end())
}

/// Names and values, one a line: all about one thing. Long values are continued on further lines, up to `lines`.
pub fn write_fields(to: &mut dyn Write, width: Option<usize>, fields: &[(&str, Cell)]) -> io::Result<()> {
    const LINES: usize = 6;
    let label = fields.iter().map(|(name, _)| text::columns(name)).max().unwrap_or(0).saturating_add(GAP);
    for (name, cell) in fields {
        let before = format!("{name:<label$}");
        let Some(width) = width else {
            writeln!(to, "{}", format!("{before}{}", cell.shown(None)).trim_end())?;
            continue;
        };
        let room = width.saturating_sub(label).max(2);
        // A wide character may leave a column free at the end of each line.
        let shown = cell.shown(Some(room.saturating_sub(1).saturating_mul(LINES)));
        for (at, piece) in text::wrapped(&shown, room).into_iter().enumerate() {
            let before = if at == 0 { before.as_str() } else { "" };
            writeln!(to, "{}", format!("{before:<label$}{piece}").trim_end())?;
        }
    }
    Ok(())
}
