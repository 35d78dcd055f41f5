//! The screen: a model and the time go in, cells come out. Pure. What it says without colours it says with words, signs and
//! reversed lines.

use std::time::Instant;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};

use super::details::Tone;
use super::entry::{Asked, Entry};
use super::list::{List, Row};
use super::model::{Drawn, Mode, Model, Tab};
use crate::common::access::Level;
use crate::common::text;
use crate::ctl::control::table::{Cell, flowed};

/// Seconds from which on a request is soon denied.
const SOON: u64 = 10;
/// What a screen is at least; below it is said that it is too small.
const LEAST: (u16, u16) = (20, 4);

/// Draws all of it. Tells the request that is on the screen, for which keys answer.
pub fn draw(buffer: &mut Buffer, model: &Model, now: Instant, colours: bool) -> Option<Drawn> {
    let area = buffer.area;
    let mut screen = Screen { buffer, area, colours };
    if area.width < LEAST.0 || area.height < LEAST.1 {
        screen.line(0, "too small: q leaves", Style::new());
        return None;
    }
    screen.tabs(model);
    // What stands first matters most.
    let mut keys = keys(model, usize::from(area.width));
    keys.truncate(usize::from(area.height / 4).max(1));
    let bottom = area.height.saturating_sub(u16::try_from(keys.len()).unwrap_or(1));
    for (at, line) in (bottom..).zip(&keys) {
        screen.line(at, line, Style::new().add_modifier(Modifier::DIM));
    }
    let last = bottom.saturating_sub(1);
    screen.status(last, model);
    let (top, rows) = (1, usize::from(last.saturating_sub(1)));
    if model.mode == Mode::Help {
        screen.help(model, top, rows);
        return None;
    }
    match model.tab {
        Tab::Queue => screen.queue(model, now, top, rows),
        Tab::Sessions => {
            screen.entries(&model.sessions, top, rows, &SESSIONS, "There are no sessions.", model);
            None
        }
        Tab::Grants => {
            screen.entries(&model.grants, top, rows, &GRANTS, "No answers are remembered.", model);
            None
        }
        Tab::Audit => {
            let empty = model.no_records.as_deref().unwrap_or("Nothing has happened yet.");
            screen.entries(&model.records, top, rows, &RECORDS, empty, model);
            None
        }
    }
}

/// A title and its columns; 0 for what is left.
type Columns = [(&'static str, usize)];

const SESSIONS: [(&str, usize); 5] = [("SESSION", 8), ("USER", 10), ("STATE", 8), ("PROFILE", 10), ("COMMAND", 0)];
const GRANTS: [(&str, usize); 4] = [("GRANT", 8), ("HOLDS FOR", 16), ("ACCESS", 7), ("COVERS", 0)];
const RECORDS: [(&str, usize); 5] = [("TIME", 14), ("SESSION", 8), ("WHO", 10), ("WHAT HAPPENED", 13), ("TO WHAT", 0)];

struct Screen<'a> {
    buffer: &'a mut Buffer,
    area: Rect,
    colours: bool,
}

impl Screen<'_> {
    fn columns(&self) -> usize {
        usize::from(self.area.width)
    }

    /// A whole line; what does not fit is cut.
    fn line(&mut self, y: u16, text: &str, style: Style) {
        if y >= self.area.height {
            return;
        }
        let y = self.area.y.saturating_add(y);
        self.buffer.set_stringn(self.area.x, y, text, self.columns(), style);
        if style.add_modifier.contains(Modifier::REVERSED) {
            let whole = Rect { y, height: 1, ..self.area };
            self.buffer.set_style(whole.intersection(self.area), style);
        }
    }

    fn coloured(&self, colour: Color) -> Style {
        if self.colours { Style::new().fg(colour) } else { Style::new() }
    }

    fn tabs(&mut self, model: &Model) {
        let mut x = self.area.x;
        for tab in Tab::ALL {
            let (name, count) = match tab {
                Tab::Queue => ("Queue", Some(model.queue.len())),
                Tab::Sessions => ("Sessions", Some(model.sessions.len())),
                Tab::Grants => ("Grants", None),
                Tab::Audit => ("Audit", None),
            };
            let count = count.filter(|count| *count > 0).map(|count| format!(" {count}")).unwrap_or_default();
            // Brackets, for who sees no other difference.
            let (title, style) = match tab == model.tab {
                true => (format!("[{name}{count}]"), Style::new().add_modifier(Modifier::BOLD)),
                false => (format!(" {name}{count} "), Style::new()),
            };
            let room = usize::from(self.area.right().saturating_sub(x));
            if text::columns(&title) <= room {
                x = self.buffer.set_stringn(x, self.area.y, &title, room, style).0;
            }
        }
        if !model.has_daemon {
            let said = " daemon gone ";
            let room = usize::from(self.area.right().saturating_sub(x));
            let style = self.coloured(Color::Red).add_modifier(Modifier::BOLD | Modifier::REVERSED);
            if said.len() <= room {
                let at = self.area.right().saturating_sub(u16::try_from(said.len()).unwrap_or(0));
                self.buffer.set_stringn(at, self.area.y, said, room, style);
            }
        }
    }

    fn status(&mut self, y: u16, model: &Model) {
        let (said, style) = match &model.mode {
            Mode::Search(typed) => (format!("look for: {typed}_"), Style::new().add_modifier(Modifier::BOLD)),
            Mode::Time { typed, .. } => {
                let hint = model.told.as_deref().unwrap_or("30m, 2h, 7d; Enter allows it, Esc does not.");
                (format!("allow for: {typed}_   ({hint})"), Style::new().add_modifier(Modifier::BOLD))
            }
            Mode::Sure { question, .. } => (
                format!("{question} y = yes, any other key = no"),
                self.coloured(Color::Red).add_modifier(Modifier::BOLD),
            ),
            Mode::Walk | Mode::Help => match (&model.told, model.has_daemon) {
                (Some(told), _) => (told.clone(), Style::new()),
                (None, false) => (
                    "gatedd is gone; this goes on when it is back. What waited is denied or asked again.".to_owned(),
                    Style::new(),
                ),
                (None, true) => (String::new(), Style::new()),
            },
        };
        let shown = text::shown_within(&said, self.columns());
        self.line(y, &shown, style);
    }

    /// A line between two parts, with words in it.
    fn rule(&mut self, y: u16, words: &str) {
        let words = if words.is_empty() { String::new() } else { format!(" {words} ") };
        let left = self.columns().saturating_sub(text::columns(&words)).saturating_sub(2);
        self.line(y, &format!("--{words}{}", "-".repeat(left)), Style::new().add_modifier(Modifier::DIM));
    }

    fn queue(&mut self, model: &Model, now: Instant, top: u16, rows: usize) -> Option<Drawn> {
        let Some(selected) = model.queue.selected() else {
            let said = match (model.has_daemon, model.search().is_empty()) {
                (false, _) => "",
                (true, true) => "Nothing waits for an answer.",
                (true, false) => "Nothing that waits has these words; Esc shows all.",
            };
            self.line(top.saturating_add(1), &text::shown_within(said, self.columns()), Style::new());
            return None;
        };
        let found = model.queue.found().count();
        // A third for the list, and at least one line; the rest for what is asked.
        let listed = found.min((rows / 3).max(1));
        for (y, (is_selected, asked)) in (top..).zip(model.queue.window(listed)) {
            self.asked(y, asked, is_selected, now, model);
        }
        let rows_left = rows.saturating_sub(listed).saturating_sub(1);
        let shown = model.details.of(selected, model.offer, self.columns(), rows_left, model.unfolded);
        let y = top.saturating_add(u16::try_from(listed).unwrap_or(u16::MAX));
        let place = match found {
            0 | 1 => String::new(),
            found => format!("{found} wait, "),
        };
        let left = format!("{} s left", left(selected, now));
        let more = match (model.unfolded, shown.is_cut) {
            (None, true) => ", m = all of it",
            (Some(_), true) => ", PgDn = more",
            _ => "",
        };
        let head = match selected.is_answered {
            true => "answered".to_owned(),
            false => format!("{place}{left}{more}"),
        };
        self.rule(y, &head);
        for (y, line) in (y.saturating_add(1)..).zip(&shown.lines) {
            let style = match line.tone {
                Tone::Plain => Style::new(),
                Tone::Title => Style::new().add_modifier(Modifier::BOLD),
                Tone::Alarm => self.coloured(Color::Red).add_modifier(Modifier::BOLD),
                Tone::Chosen => self.coloured(Color::Green).add_modifier(Modifier::BOLD),
            };
            self.line(y, &line.text, style);
        }
        Some(Drawn { key: selected.key().to_owned(), width: model.width(), is_whole: shown.is_whole, lines: shown.of })
    }

    fn asked(&mut self, y: u16, asked: &Asked, is_selected: bool, now: Instant, model: &Model) {
        let seconds = left(asked, now);
        let mark = if is_selected { '>' } else { ' ' };
        let time = match asked.is_answered {
            true => "sent".to_owned(),
            false => format!("{seconds}s"),
        };
        let urgent = match asked.prompt.request.level {
            _ if asked.is_answered => ' ',
            Level::Authenticate => '#',
            _ if seconds < SOON => '!',
            _ => ' ',
        };
        let who = text::shown_within(&asked.who, 12);
        let pad = " ".repeat(12_usize.saturating_sub(text::columns(&who)));
        let user = match model.is_own(asked.user) {
            true => String::new(),
            false => format!("({}) ", crate::ctl::control::output::user_name(asked.user)),
        };
        let before = format!("{mark}{urgent}{time:>5} {who}{pad} {user}");
        let room = self.columns().saturating_sub(text::columns(&before));
        let wish = match asked.prompt.request.destination {
            Some(_) => text::ending_within(&asked.wish, room),
            None => text::shown_within(&asked.wish, room),
        };
        let style = match is_selected {
            true => Style::new().add_modifier(Modifier::REVERSED),
            false if urgent != ' ' => Style::new().add_modifier(Modifier::BOLD),
            false => Style::new(),
        };
        self.line(y, &format!("{before}{wish}"), style);
    }

    fn entries(&mut self, list: &List<Entry>, top: u16, rows: usize, columns: &Columns, empty: &str, model: &Model) {
        let Some(selected) = list.selected() else {
            let said = if model.search().is_empty() { empty } else { "Nothing has these words; Esc shows all." };
            let lines = flowed(&text::shown_within(said, usize::MAX), self.columns());
            for (y, line) in (top.saturating_add(1)..).zip(lines).take(rows.saturating_sub(1)) {
                self.line(y, &line, Style::new());
            }
            return;
        };
        let widths = widths(columns, self.columns());
        let titles: Vec<Cell> = columns.iter().map(|(title, _)| Cell::own(*title)).collect();
        self.line(top, &format!(" {}", row(&titles, &widths)), Style::new().add_modifier(Modifier::DIM));
        let fields = if rows >= 12 { selected.fields.len().min(rows / 2) } else { 0 };
        let listed =
            rows.saturating_sub(1).saturating_sub(if fields > 0 { fields.saturating_add(1) } else { 0 }).max(1);
        let found = list.found().count();
        let listed = if fields > 0 { listed.min(found) } else { listed };
        let first = top.saturating_add(1);
        for (y, (is_selected, entry)) in (first..).zip(list.window(listed)) {
            let style = if is_selected { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
            let mark = if is_selected { '>' } else { ' ' };
            self.line(y, &format!("{mark}{}", row(&entry.cells, &widths)), style);
        }
        if fields == 0 {
            return;
        }
        let y = first.saturating_add(u16::try_from(listed).unwrap_or(u16::MAX));
        self.rule(y, &format!("{found} in all"));
        let room = rows.saturating_sub(listed).saturating_sub(2);
        let mut lines = Vec::new();
        for (name, value) in &selected.fields {
            let width = self.columns().saturating_sub(12).max(2);
            let limit = if model.unfolded.is_some() { usize::MAX } else { width.saturating_sub(1).saturating_mul(2) };
            for (at, piece) in text::wrapped(&value.shown(Some(limit)), width).into_iter().enumerate() {
                let name = if at == 0 { name.as_str() } else { "" };
                lines.push(format!("{name:<11} {piece}"));
            }
        }
        let skip = model.unfolded.unwrap_or(0).min(lines.len().saturating_sub(room));
        for (y, line) in (y.saturating_add(1)..).zip(lines.iter().skip(skip).take(room)) {
            self.line(y, line, Style::new());
        }
    }

    fn help(&mut self, model: &Model, top: u16, rows: usize) {
        const HELP: [(&str, &str); 18] = [
            ("d", "deny: this attempt fails; nothing is remembered"),
            ("o", "allow once: for the call that asks, and all that it starts"),
            ("s", "allow for the session"),
            ("f", "allow for a time, in every session with this profile"),
            ("a", "allow always, in every session with this profile; asks again"),
            ("w W", "let a yes reach wider, narrower: the line with >"),
            ("1", "of several requests in one: ask for each by itself"),
            ("e", "a command is changed at the gated-run that it was given to"),
            ("m Enter", "all of it, then PgDn and PgUp; again: as before"),
            ("x", "stop a session, take an answer back"),
            ("j k arrows", "next, last; PgDn PgUp g G: further"),
            ("Tab", "queue, sessions, grants, audit"),
            ("/", "look for words; Esc shows all again"),
            ("q", "leave. What waits goes on waiting"),
            ("^Z ^L", "to the shell and back with fg; draw anew"),
            ("#", "in the queue: a yes needs a proof of who you are"),
            ("!", "in the queue: soon denied, for want of an answer"),
            ("", "An answer counts for what is on the screen when a key is pressed."),
        ];
        let _ = model;
        for (y, (key, words)) in (top..).zip(HELP).take(rows) {
            self.line(y, &text::shown_within(&format!("{key:<11} {words}"), self.columns()), Style::new());
        }
    }
}

/// Whole seconds until it is denied.
fn left(asked: &Asked, now: Instant) -> u64 {
    asked.prompt.deadline.saturating_duration_since(now).as_secs()
}

fn widths(columns: &Columns, width: usize) -> Vec<usize> {
    // The mark before, and two between.
    let gaps = columns.len().saturating_sub(1).saturating_mul(2).saturating_add(1);
    let fixed: usize = columns.iter().map(|(_, width)| *width).sum();
    let room = width.saturating_sub(gaps);
    if fixed.saturating_add(10) <= room {
        let rest = room.saturating_sub(fixed);
        return columns.iter().map(|(_, width)| if *width == 0 { rest } else { *width }).collect();
    }
    // Too narrow for all of them: the first, and what matters.
    let first = columns.first().map_or(0, |(_, width)| *width).min(room / 2);
    let last = columns.len().saturating_sub(1);
    let share = |at: usize| match at {
        0 => first,
        at if at == last => room.saturating_sub(first),
        _ => 0,
    };
    (0..columns.len()).map(share).collect()
}

fn row(cells: &[Cell], widths: &[usize]) -> String {
    let mut line = String::new();
    for (cell, width) in cells.iter().zip(widths).filter(|(_, width)| **width > 0) {
        let shown = cell.shown(Some(*width));
        let pad = width.saturating_sub(text::columns(&shown)).saturating_add(2);
        line.push_str(&shown);
        line.extend(std::iter::repeat_n(' ', pad));
    }
    line.trim_end().to_owned()
}

/// The keys that mean something now, in lines.
fn keys(model: &Model, columns: usize) -> Vec<String> {
    let possible = model.possible();
    let is_walking = model.mode == Mode::Walk;
    let queue = is_walking && model.tab == Tab::Queue;
    let once = match model.queue.selected().map(|asked| asked.prompt.longest) {
        Some(crate::common::decision::Lifetime::Attempt) => "o = this attempt",
        _ => "o = once",
    };
    let all = [
        (queue && possible.deny, "d = deny"),
        (queue && possible.once, once),
        (queue && possible.session, "s = session"),
        (queue && possible.time, "f = for a time"),
        (queue && possible.lasting, "a = always"),
        (queue && possible.widen, "w = wider"),
        (queue && possible.split, "1 = one by one"),
        (is_walking && model.tab == Tab::Sessions && !model.sessions.is_empty(), "x = stop"),
        (is_walking && model.tab == Tab::Grants && !model.grants.is_empty(), "x = take back"),
        (is_walking, "/ = look for"),
        (is_walking, "Tab"),
        (is_walking, "? = help"),
        (is_walking, "q = leave"),
        (model.mode == Mode::Help, "any key = back"),
    ];
    let mut lines = Vec::new();
    let mut line = String::new();
    for (_, key) in all.into_iter().filter(|(is_possible, _)| *is_possible) {
        let used = text::columns(&line);
        if used > 0 && used.saturating_add(3).saturating_add(key.len()) > columns {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push_str("   ");
        }
        line.push_str(key);
    }
    lines.push(line);
    lines
}
