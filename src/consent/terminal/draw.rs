//! What a prompt on a terminal says, as lines of text that fit. Everything of a tool is escaped and cut to its place; what
//! is asked for is never left out: a terminal too small for it gets no prompt.

use crate::common::consent::Prompt;
use crate::common::decision::Lifetime;
use crate::common::text;
use crate::consent::words;

use super::dialog::Dialog;

/// Columns below which labels stand close.
const NARROW: usize = 40;
/// The least that a prompt is drawn in.
const LEAST_COLUMNS: usize = 20;

/// How much a line matters; the least goes first where there is no room.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Worth {
    Air,
    Queue,
    Place,
    Reason,
    Rule,
    Program,
    Command,
    Needed,
}

struct Page {
    columns: usize,
    lines: Vec<(Worth, String)>,
}

/// The lines above the line of input, each of at most `columns`, one less than `rows` at the most. `None` if what is asked
/// does not fit.
pub fn page(prompt: &Prompt, dialog: &Dialog, columns: usize, rows: usize) -> Option<Vec<String>> {
    if columns < LEAST_COLUMNS {
        return None;
    }
    let room = rows.saturating_sub(1);
    [4, 2, 1].into_iter().find_map(|object_lines| {
        let mut lines = whole(prompt, dialog, columns, object_lines).lines;
        while lines.len() > room {
            let least = lines.iter().map(|(worth, _)| *worth).min().filter(|worth| *worth < Worth::Needed)?;
            lines.retain(|(worth, _)| *worth != least);
        }
        Some(lines.into_iter().map(|(_, line)| line).collect())
    })
}

/// The line of input, with the whole seconds that are left, in one column less than there are: the cursor needs one.
pub fn input(dialog: &Dialog, seconds: u64, columns: usize) -> String {
    match (dialog.hint, dialog.key) {
        (Some(hint), _) => format!("({}) > ", text::escaped_within(hint.as_bytes(), columns.saturating_sub(6))),
        (None, key) => format!("[{seconds} s] > {}", key.map(String::from).unwrap_or_default()),
    }
}

fn whole(prompt: &Prompt, dialog: &Dialog, columns: usize, object_lines: usize) -> Page {
    let request = &prompt.request;
    let who = &request.who;
    let mut page = Page { columns, lines: Vec::new() };
    let name = text::quoted_argv_within([who.program.file_name()], 24.min(columns));
    page.flow(Worth::Needed, &format!("gated: {name} wants to {}", words::intent(request)));
    page.air();
    page.long(Worth::Needed, "object", object_lines, |limit| text::escaped_within(request.object.as_bytes(), limit));
    if let Some(other) = &request.other {
        page.long(Worth::Needed, words::other(request.operation), object_lines.min(2), |limit| {
            text::escaped_within(other.as_bytes(), limit)
        });
    }
    let pid = format!(" (pid {})", who.pid);
    page.long(Worth::Program, "program", 1, |limit| {
        text::escaped_within(who.program.as_bytes(), limit.saturating_sub(pid.len())) + &pid
    });
    page.long(Worth::Command, "command", object_lines.min(2), |limit| {
        text::quoted_argv_within(who.argv.iter().map(text::Untrusted::as_bytes), limit)
    });
    page.long(Worth::Place, "in", 1, |limit| text::escaped_within(who.cwd.as_bytes(), limit));
    let rule = &request.rule;
    let place = match rule.line {
        0 => format!("{} of profile {} ({})", rule.id, rule.profile, rule.file),
        line => format!("{} of profile {} ({}:{line})", rule.id, rule.profile, rule.file),
    };
    page.long(Worth::Rule, "rule", 2, |limit| text::escaped_within(place.as_bytes(), limit));
    if let Some(reason) = &rule.reason {
        page.long(Worth::Reason, "reason", 2, |limit| text::escaped_within(reason.as_bytes(), limit));
    }
    page.queue(prompt);
    page.air();
    let scope = prompt.offers.iter().find(|offer| offer.width == dialog.width());
    page.long(Worth::Needed, "yes covers", object_lines.min(2), |limit| {
        let reach = words::reach(request, dialog.width());
        let pattern = scope.map(|offer| offer.scope.as_bytes()).unwrap_or_default();
        let left = limit.saturating_sub(reach.len() + 2);
        // The exact object stands above.
        if dialog.width() == Default::default() || left < 16 {
            text::escaped_within(reach.as_bytes(), limit)
        } else {
            format!("{reach}: {}", text::escaped_within(pattern, left))
        }
    });
    page.keys(prompt, dialog);
    if dialog.help {
        page.help(prompt);
    }
    page
}

impl Page {
    fn push(&mut self, worth: Worth, line: String) {
        self.lines.push((worth, line));
    }

    fn air(&mut self) {
        self.push(Worth::Air, String::new());
    }

    /// Words of our own, broken at spaces.
    fn flow(&mut self, worth: Worth, words: &str) {
        let mut line = String::new();
        for word in words.split(' ') {
            if !line.is_empty() && text::columns(&line) + 1 + text::columns(word) > self.columns {
                self.push(worth, std::mem::take(&mut line));
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        for piece in text::wrapped(&line, self.columns) {
            self.push(worth, piece);
        }
    }

    /// A label and a value that may take some lines; `value` is told how many columns it has.
    fn long(&mut self, worth: Worth, label: &str, lines: usize, value: impl Fn(usize) -> String) {
        let label = if self.columns < NARROW { format!("{label}: ") } else { format!("  {label:<12}") };
        let indent = label.len();
        let width = self.columns.saturating_sub(indent).max(2);
        // A wide character may leave a column free at the end of each line.
        let limit = if lines == 1 { width } else { width.saturating_sub(1).saturating_mul(lines) };
        for (at, piece) in text::wrapped(&value(limit), width).into_iter().enumerate() {
            let before = if at == 0 { label.clone() } else { " ".repeat(indent) };
            self.push(worth, before + &piece);
        }
    }

    fn queue(&mut self, prompt: &Prompt) {
        let more = match prompt.attempts {
            0 | 1 => None,
            attempts => Some(format!("{attempts} equal attempts wait for this answer.")),
        };
        let behind = match prompt.waiting {
            0 => None,
            1 => Some("1 other request waits behind it.".to_owned()),
            waiting => Some(format!("{waiting} other requests wait behind it.")),
        };
        let told: Vec<String> = [more, behind].into_iter().flatten().collect();
        if !told.is_empty() {
            self.flow(Worth::Queue, &told.join(" "));
        }
    }

    fn keys(&mut self, prompt: &Prompt, dialog: &Dialog) {
        let once = if prompt.longest == Lifetime::Attempt { "o = this attempt" } else { "o = allow once" };
        let keys = [
            Some("d = deny"),
            Some(once),
            dialog.may_session().then_some("s = allow for the session"),
            dialog.may_widen().then_some("w = widen"),
            Some("? = help"),
        ];
        let mut line = String::new();
        for key in keys.into_iter().flatten() {
            if !line.is_empty() && line.len() + 3 + key.len() > self.columns {
                self.flow(Worth::Needed, &std::mem::take(&mut line));
            }
            if !line.is_empty() {
                line.push_str("   ");
            }
            line.push_str(key);
        }
        self.flow(Worth::Needed, &line);
        self.flow(Worth::Needed, "Type a key, then Enter.");
    }

    fn help(&mut self, prompt: &Prompt) {
        self.air();
        self.flow(Worth::Program, "deny: this attempt fails, and nothing is remembered. So it is without an answer.");
        if prompt.longest == Lifetime::Attempt {
            self.flow(Worth::Program, "this attempt: it is done now; the next one is asked again.");
        } else {
            self.flow(
                Worth::Program,
                "once: every change in that scope, by the command that asks and all that it starts.",
            );
        }
        if prompt.longest >= Lifetime::Session {
            self.flow(Worth::Program, "session: the same for everything in this session, until it ends.");
        }
        if prompt.offers.len() > 1 {
            self.flow(Worth::Program, "widen: let a yes reach further: this file, its directory, its tree.");
        }
    }
}
