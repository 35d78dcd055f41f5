//! Tables for people: as wide as the terminal, each cell cut to its column. Text of a tool only gets in as [`Cell`]s that
//! escape it; what is too long loses its middle.

use std::io::{self, Write};

use crate::common::text::{self, Untrusted};

/// Columns between two columns.
const GAP: usize = 2;
/// Below this many columns for what can shrink, a table becomes a list of blocks.
const LEAST: usize = 12;

/// From so many columns on, a table says also what is only nice to know.
const WIDE: usize = 112;
/// Lines of a value at the most.
const LINES: usize = 6;

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
    /// The name of a host, or what ends with one: what is too long loses its beginning. Before it words of our own, and
    /// behind it what there may be no room for.
    Host(&'static str, String, String),
    /// What is not cut among fields, however many lines it takes.
    Lines(Box<Cell>),
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
            (Cell::Own(own), Some(limit)) => text::shown_within(own, limit),
            (Cell::Tool(bytes), None) => text::escaped(bytes),
            (Cell::Tool(bytes), Some(limit)) => text::escaped_within(bytes, limit),
            (Cell::Command(words), None) => text::quoted_argv(words.iter().map(Untrusted::as_bytes)),
            (Cell::Command(words), Some(limit)) => {
                text::quoted_argv_within(words.iter().map(Untrusted::as_bytes), limit)
            }
            (Cell::Host(before, host, after), limit) => {
                let limit = limit.unwrap_or(usize::MAX);
                let before = if text::columns(before).saturating_mul(3) > limit { "" } else { before };
                let room = limit.saturating_sub(text::columns(before));
                let (host, after) = (text::ending_within(host, usize::MAX), clean(after));
                let fits = text::columns(&host).saturating_add(text::columns(&after)) <= room;
                format!("{before}{}{}", text::ending_within(&host, room), if fits { &after } else { "" })
            }
            (Cell::Lines(whole), limit) => whole.shown(limit),
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
enum Fit {
    Whole,
    Cut,
    /// As wide as its widest cell, and no wider than this.
    UpTo(usize),
    /// Of this many columns in every table, so that a table can grow after its first lines were shown.
    Exactly(usize),
}

/// One column of a table.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    title: &'static str,
    fit: Fit,
    only_wide: bool,
}

impl Column {
    /// As wide as its widest cell.
    pub fn whole(title: &'static str) -> Column {
        Column { title, fit: Fit::Whole, only_wide: false }
    }

    /// Narrower where there is no room.
    pub fn cut(title: &'static str) -> Column {
        Column { title, fit: Fit::Cut, only_wide: false }
    }

    /// For names that are short if they mean well.
    pub fn up_to(title: &'static str, width: usize) -> Column {
        Column { title, fit: Fit::UpTo(width), only_wide: false }
    }

    pub fn exactly(title: &'static str, width: usize) -> Column {
        Column { title, fit: Fit::Exactly(width), only_wide: false }
    }

    /// Left out of a table with less than [`WIDE`] columns.
    pub fn if_wide(self) -> Column {
        Column { only_wide: true, ..self }
    }
}

/// Whether there is room for what is only nice to know.
pub fn is_wide(width: Option<usize>) -> bool {
    width.is_none_or(|width| width >= WIDE)
}

/// Rows below titles.
#[derive(Debug)]
pub struct Table {
    /// All of them, also those that are not shown: rows have a cell for each.
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
    width: Option<usize>,
}

impl Table {
    /// In `width` columns of the terminal; as wide as it gets without one.
    pub fn new(width: Option<usize>, columns: &[Column]) -> Table {
        Table { columns: columns.to_vec(), rows: Vec::new(), width }
    }

    fn shown(&self) -> impl Iterator<Item = &Column> + Clone {
        let wide = is_wide(self.width);
        self.columns.iter().filter(move |column| wide || !column.only_wide)
    }

    fn cells<'a>(&'a self, row: &'a [Cell]) -> Vec<&'a Cell> {
        let wide = is_wide(self.width);
        let both = self.columns.iter().zip(row);
        both.filter(|(column, _)| wide || !column.only_wide).map(|(_, cell)| cell).collect()
    }

    pub fn push(&mut self, row: Vec<Cell>) {
        self.rows.push(row);
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub fn write(&self, to: &mut dyn Write) -> io::Result<()> {
        match self.widths() {
            Some(widths) => {
                self.write_titles(to, &widths)?;
                self.rows.iter().try_for_each(|row| write_row(to, &self.cells(row), &widths))
            }
            None => self.rows.iter().enumerate().try_for_each(|(at, row)| {
                if at > 0 {
                    writeln!(to)?;
                }
                self.write_block(to, row)
            }),
        }
    }

    /// For a table that grows: the titles; then each row by [`Table::grow`].
    pub fn begin(&self, to: &mut dyn Write) -> io::Result<()> {
        self.widths().map_or(Ok(()), |widths| self.write_titles(to, &widths))
    }

    /// A further row of a table without rows of its own.
    pub fn grow(&self, to: &mut dyn Write, row: &[Cell]) -> io::Result<()> {
        match self.widths() {
            Some(widths) => write_row(to, &self.cells(row), &widths),
            None => self.write_block(to, row),
        }
    }

    /// The columns' widths; `None` if what can be cut would be cut to nothing.
    fn widths(&self) -> Option<Vec<usize>> {
        let rows: Vec<Vec<&Cell>> = self.rows.iter().map(|row| self.cells(row)).collect();
        let natural = |(at, column): (usize, &Column)| {
            let cells = rows.iter().filter_map(|row| row.get(at));
            let widest = cells.map(|cell| text::columns(&cell.shown(None))).max().unwrap_or(0);
            let widest = widest.max(text::columns(column.title));
            match column.fit {
                Fit::Exactly(columns) => columns,
                Fit::UpTo(most) if self.width.is_some() => widest.min(most),
                Fit::UpTo(_) | Fit::Whole | Fit::Cut => widest,
            }
        };
        let mut widths: Vec<usize> = self.shown().enumerate().map(natural).collect();
        let Some(width) = self.width else { return Some(widths) };
        let can_be_cut = |column: &Column| column.fit == Fit::Cut;
        let gaps = GAP.saturating_mul(widths.len().saturating_sub(1));
        let fixed: usize =
            self.shown().zip(&widths).filter(|(column, _)| !can_be_cut(column)).map(|(_, width)| width).sum();
        let mut room = width.checked_sub(gaps.saturating_add(fixed))?;
        // The narrow ones get what they want, the others share the rest evenly.
        let mut wanting: Vec<(usize, &mut usize)> = Vec::new();
        for (column, place) in self.shown().zip(&mut widths).filter(|(column, _)| can_be_cut(column)) {
            // A growing table has no rows that could tell.
            let is_growing = self.rows.is_empty();
            wanting.push((if is_growing { usize::MAX } else { text::columns(column.title).max(*place) }, place));
        }
        wanting.sort_unstable_by_key(|(want, _)| *want);
        let mut left = wanting.len();
        for (want, place) in wanting {
            let given = want.min(room.checked_div(left).unwrap_or(0));
            if given < LEAST.min(want) {
                return None;
            }
            *place = given;
            room = room.saturating_sub(given);
            left = left.saturating_sub(1);
        }
        Some(widths)
    }

    fn write_titles(&self, to: &mut dyn Write, widths: &[usize]) -> io::Result<()> {
        let titles: Vec<Cell> = self.shown().map(|column| Cell::own(column.title)).collect();
        write_row(to, &titles.iter().collect::<Vec<_>>(), widths)
    }

    /// A row below itself, for a terminal that is too narrow for a table.
    fn write_block(&self, to: &mut dyn Write, row: &[Cell]) -> io::Result<()> {
        let width = self.width.unwrap_or(LEAST);
        for (column, cell) in self.shown().zip(self.cells(row)) {
            let label = format!("{}: ", column.title);
            let value = cell.shown(Some(width.saturating_sub(text::columns(&label)).max(1)));
            if !value.is_empty() {
                writeln!(to, "{label}{value}")?;
            }
        }
        Ok(())
    }
}

fn write_row(to: &mut dyn Write, row: &[&Cell], widths: &[usize]) -> io::Result<()> {
    let mut line = String::new();
    for (cell, width) in row.iter().zip(widths) {
        let shown = cell.shown(Some(*width));
        let used = text::columns(&shown);
        line.push_str(&shown);
        line.extend(std::iter::repeat_n(' ', width.saturating_sub(used).saturating_add(GAP)));
    }
    writeln!(to, "{}", line.trim_end())
}

/// Names and values, one a line: all about one thing. Long values are continued on further lines, up to [`LINES`].
pub fn write_fields(to: &mut dyn Write, width: Option<usize>, fields: &[(&str, Cell)]) -> io::Result<()> {
    let widest = fields.iter().map(|(name, _)| text::columns(name)).max().unwrap_or(0).saturating_add(GAP);
    // Beside their names, or below them where there is no room.
    let is_narrow = width.is_some_and(|width| width < widest.saturating_add(2 * LEAST));
    for (name, cell) in fields {
        let Some(width) = width else {
            writeln!(to, "{}", format!("{name:<widest$}{}", cell.shown(None)).trim_end())?;
            continue;
        };
        let (before, indent) = if is_narrow {
            text::wrapped(name, width).into_iter().try_for_each(|piece| writeln!(to, "{piece}"))?;
            (" ".repeat(GAP), GAP)
        } else {
            (format!("{name:<widest$}"), widest)
        };
        let room = width.saturating_sub(indent).max(2);
        // A wide character may leave a column free at the end of each line.
        let limit = Some(room.saturating_sub(1).saturating_mul(LINES));
        let lines = match cell {
            Cell::Own(_) => flowed(&cell.shown(limit), room),
            Cell::Lines(whole) => match whole.as_ref() {
                Cell::Command(words) => text::quoted_argv_lines(words.iter().map(Untrusted::as_bytes), room),
                other => text::wrapped(&other.shown(None), room),
            },
            _ => text::wrapped(&cell.shown(limit), room),
        };
        write_indented(to, &before, indent, &lines)?;
    }
    Ok(())
}

/// The first line after `before`, the others below each other.
pub fn write_indented(to: &mut dyn Write, before: &str, indent: usize, lines: &[String]) -> io::Result<()> {
    for (at, line) in lines.iter().enumerate() {
        let before = if at == 0 { before } else { "" };
        writeln!(to, "{}", format!("{before:<indent$}{line}").trim_end())?;
    }
    Ok(())
}

/// Words broken at spaces, and within a word that is too long for a line.
pub fn flowed(words: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in words.split(' ') {
        let used = text::columns(&line);
        if used > 0 && used.saturating_add(1).saturating_add(text::columns(word)) > width {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
        let mut pieces = text::wrapped(&line, width);
        line = pieces.pop().unwrap_or_default();
        lines.append(&mut pieces);
    }
    lines.push(line);
    lines
}
