//! What a prompt on a terminal says, as lines of text that fit. Everything of a tool is escaped and cut to its place; what
//! is asked for is never left out: a terminal too small for it gets no prompt, and where something had to be cut all of it
//! stands on further pages.

use crate::common::access::Access;
use crate::common::consent::{Group, Prompt};
use crate::common::decision::Lifetime;
use crate::common::exec::Execution;
use crate::common::request::Request;
use crate::common::text::{self, Untrusted};
use crate::consent::words;

use super::dialog::{Asks, Dialog};

/// Columns below which labels stand close.
const NARROW: usize = 40;
/// Columns of a label and the gap behind it.
const LABEL: usize = 12;
/// The least that a prompt is drawn in.
const LEAST_COLUMNS: usize = 20;
/// A byte that is shown as `\x00`.
const ESCAPED: usize = 4;
/// Before what stands below its label.
const BELOW: usize = 2;
/// Processes above the one that asks that stand on the first page.
const PARENTS: usize = 3;

/// How much a line matters; the least goes first where there is no room.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Worth {
    Air,
    Queue,
    Place,
    Parents,
    Reason,
    Rule,
    Program,
    Command,
    Needed,
}

/// A label and a value that may take some lines.
struct Field<'a> {
    worth: Worth,
    label: &'static str,
    /// On the first page.
    lines: usize,
    /// Told how many columns it has; all of it where that is enough.
    value: Box<dyn Fn(usize) -> String + 'a>,
}

fn field<'a>(worth: Worth, label: &'static str, lines: usize, value: impl Fn(usize) -> String + 'a) -> Field<'a> {
    Field { worth, label, lines, value: Box::new(value) }
}

struct Page {
    columns: usize,
    lines: Vec<(Worth, String)>,
    /// Whether something is not all there.
    is_cut: bool,
}

/// The lines above the line of input, each of at most `columns`, one less than `rows` at the most. `None` if what is asked
/// does not fit.
pub fn page(prompt: &Prompt, dialog: &Dialog, columns: usize, rows: usize) -> Option<Vec<String>> {
    if columns < LEAST_COLUMNS {
        return None;
    }
    let room = rows.saturating_sub(1);
    if let Some(lines) = further(prompt, dialog, columns, room) {
        return Some(lines);
    }
    let tries = [4, 2, 1].into_iter().flat_map(|lines| [(lines, false), (lines, true)]);
    tries.into_iter().find_map(|(object_lines, has_more)| {
        let Page { mut lines, mut is_cut, .. } = whole(prompt, dialog, columns, object_lines, has_more);
        while lines.len() > room {
            let least = lines.iter().map(|(worth, _)| *worth).min().filter(|worth| *worth < Worth::Needed)?;
            is_cut |= least > Worth::Queue;
            lines.retain(|(worth, _)| *worth != least);
        }
        // Where something is cut there must be a key for the rest.
        (has_more || !is_cut).then(|| lines.into_iter().map(|(_, line)| line).collect())
    })
}

/// The line of input, with the whole seconds that are left, in one column less than there are: the cursor needs one.
pub fn input(dialog: &Dialog, seconds: u64, columns: usize) -> String {
    match (dialog.hint, dialog.key) {
        (Some(hint), _) => format!("({}) > ", text::escaped_within(hint.as_bytes(), columns.saturating_sub(6))),
        (None, key) => format!("{}{}", before_input(seconds), key.map(String::from).unwrap_or_default()),
    }
}

/// What stands before what is typed.
pub fn before_input(seconds: u64) -> String {
    format!("[{seconds} s] > ")
}

/// What stands above a command that is being changed, as [`page`] does. `hint` is about the last attempt to take it.
pub fn editing(columns: usize, rows: usize, hint: Option<&str>) -> Option<Vec<String>> {
    let mut page = Page { columns, lines: Vec::new(), is_cut: false };
    page.flow(Worth::Needed, "gated: change the command");
    page.air();
    page.flow(Worth::Program, "Enter takes what stands below; it is judged as if gated-run had been given it.");
    page.flow(Worth::Program, "No shell reads it: what one would expand must be quoted.");
    page.flow(Worth::Needed, "^C or Esc leaves the command as it was.");
    if let Some(hint) = hint {
        page.air();
        page.flow(Worth::Needed, &format!("Not taken: {hint}."));
    }
    page.air();
    while page.lines.len() > rows.saturating_sub(1) {
        let least = page.lines.iter().map(|(worth, _)| *worth).min().filter(|worth| *worth < Worth::Needed)?;
        page.lines.retain(|(worth, _)| *worth != least);
    }
    Some(page.lines.into_iter().map(|(_, line)| line).collect())
}

/// The pages with all of everything, if the dialog is at one of them.
fn further(prompt: &Prompt, dialog: &Dialog, columns: usize, room: usize) -> Option<Vec<String>> {
    if dialog.page == 0 {
        return None;
    }
    let mut all = Page { columns, lines: Vec::new(), is_cut: false };
    for field in fields(prompt, usize::MAX) {
        match (field.label, &prompt.request.execution) {
            ("command", Some(execution)) => all.command(execution),
            _ => all.long(&Field { lines: usize::MAX, ..field }),
        }
    }
    for offer in &prompt.offers {
        let reach = words::reach_of(prompt, offer.width);
        all.long(&field(Worth::Needed, "yes covers", usize::MAX, |limit| {
            format!("{reach}: {}", words::scope(&prompt.request, offer, limit))
        }));
    }
    let mut keys = Page { columns, lines: Vec::new(), is_cut: false };
    keys.keys(prompt, dialog, true);
    // The title and at least one line.
    let each = room.checked_sub(keys.lines.len().saturating_add(1)).filter(|each| *each > 0)?;
    let pages = all.lines.len().div_ceil(each);
    let at = dialog.page.checked_rem(pages.saturating_add(1)).filter(|at| *at > 0)?;
    let title = text::escaped_within(format!("gated: all of it, page {at} of {pages}").as_bytes(), columns);
    let shown = all.lines.into_iter().skip(at.saturating_sub(1).saturating_mul(each)).take(each);
    Some(std::iter::once(title).chain(shown.chain(keys.lines).map(|(_, line)| line)).collect())
}

fn whole(prompt: &Prompt, dialog: &Dialog, columns: usize, object_lines: usize, has_more: bool) -> Page {
    let request = &prompt.request;
    let mut page = Page { columns, lines: Vec::new(), is_cut: false };
    let name = text::quoted_argv_within([request.who.program.file_name()], 24.min(columns));
    match &request.execution {
        Some(execution) if execution.is_first => {
            page.flow(Worth::Needed, "gated: gated-run was told to run this command");
        }
        _ if prompt.group.is_some() => {
            page.flow(Worth::Needed, &format!("gated: {name} wants to {}", words::wished(prompt, columns)))
        }
        // A name takes a line at the most, with its end; all of it stands below.
        _ => page.flow(Worth::Needed, &format!("gated: {name} wants to {}", words::intent(request, columns))),
    }
    page.air();
    for field in fields(prompt, object_lines) {
        page.long(&field);
    }
    if request.execution.as_ref().is_some_and(|execution| execution.parents.len() > PARENTS)
        || prompt.group.as_ref().is_some_and(|group| group.members.len() > NAMED)
    {
        page.is_cut = true;
    }
    page.queue(prompt);
    page.air();
    let scope = prompt.offers.iter().find(|offer| offer.width == dialog.width());
    page.long(&field(Worth::Needed, "yes covers", object_lines.min(2), |limit| {
        let reach = words::reach_of(prompt, dialog.width());
        let left = limit.saturating_sub(reach.len() + 2);
        // The exact object stands above.
        if dialog.width() == Default::default() || left < 16 {
            text::escaped_within(reach.as_bytes(), limit)
        } else {
            let scope = scope.map(|offer| words::scope(request, offer, left)).unwrap_or_default();
            format!("{reach}: {scope}")
        }
    }));
    if let Some(time) = words::longest_for(request) {
        page.long(&field(Worth::Needed, "it holds", 1, move |limit| text::escaped_within(time.as_bytes(), limit)));
    }
    if let Some(suggestion) = &prompt.suggestion
        && dialog.asks.is_none()
    {
        page.flow(Worth::Reason, &words::suggestion(prompt, suggestion, dialog.width()));
    }
    page.keys(prompt, dialog, has_more);
    if dialog.help {
        page.help(prompt);
    }
    page
}

/// What is said of a request, in order; `object_lines` for what matters most.
fn fields(prompt: &Prompt, object_lines: usize) -> Vec<Field<'_>> {
    let request = prompt.request.as_ref();
    let mut fields = match &request.execution {
        Some(execution) => of_execution(request, execution, object_lines),
        None => match &prompt.group {
            Some(group) => of_group(request, group, object_lines),
            None => of_object(request, object_lines),
        },
    };
    let rule = &request.rule;
    let place = match rule.line {
        0 => format!("{} of profile {} ({})", rule.id, rule.profile, rule.file),
        line => format!("{} of profile {} ({}:{line})", rule.id, rule.profile, rule.file),
    };
    fields.push(field(Worth::Rule, "rule", 2, move |limit| text::escaped_within(place.as_bytes(), limit)));
    if let Some(reason) = &rule.reason {
        fields.push(field(Worth::Reason, "reason", 2, |limit| text::escaped_within(reason.as_bytes(), limit)));
    }
    fields
}

/// Members that stand on the first page where there is room, and those that always do.
const NAMED: usize = 8;
const NEEDED: usize = 2;

fn of_group<'a>(request: &'a Request, group: &'a Group, object_lines: usize) -> Vec<Field<'a>> {
    let place = if request.access == Access::Connect { "domain" } else { "below" };
    let mut fields = vec![field(Worth::Needed, place, object_lines.min(2), |limit| match request.access {
        Access::Connect => text::ending_within(&group.place, limit),
        _ => text::escaped_within(group.place.as_bytes(), limit),
    })];
    let named = if object_lines == usize::MAX { usize::MAX } else { NAMED };
    for (at, member) in group.members.iter().take(named).enumerate() {
        let worth = if at < NEEDED { Worth::Needed } else { Worth::Parents };
        let label = if at == 0 { words::label(request) } else { "" };
        let lines = if object_lines == usize::MAX { usize::MAX } else { 1 };
        fields.push(field(worth, label, lines, |limit| words::member(request, group, member, limit)));
    }
    if group.count > NEEDED {
        // Not how many more: lines go where there is no room.
        let all = format!("{} in all", group.count);
        fields.push(field(Worth::Needed, "", 1, move |limit| text::escaped_within(all.as_bytes(), limit)));
    }
    fields.extend(of_asker(request, object_lines));
    fields
}

fn of_object(request: &Request, object_lines: usize) -> Vec<Field<'_>> {
    let said = words::lines(request);
    let object = said.is_empty().then(|| {
        field(Worth::Needed, "object", object_lines, |limit| text::escaped_within(request.object.as_bytes(), limit))
    });
    let said = said.into_iter().map(|line| {
        let worth = if line.is_needed { Worth::Needed } else { Worth::Reason };
        field(worth, line.label, object_lines, move |limit| line.within(limit))
    });
    let other = request.other.as_ref().map(|other| {
        field(Worth::Needed, words::other(request.operation), object_lines.min(2), |limit| {
            text::escaped_within(other.as_bytes(), limit)
        })
    });
    said.chain([object, other].into_iter().flatten()).chain(of_asker(request, object_lines)).collect()
}

/// Who wants it.
fn of_asker(request: &Request, object_lines: usize) -> [Field<'_>; 3] {
    let who = &request.who;
    let program = field(Worth::Program, "program", 1, |limit| {
        let pid = format!(" (pid {})", who.pid);
        text::escaped_within(who.program.as_bytes(), limit.saturating_sub(pid.len())) + &pid
    });
    let command = field(Worth::Command, "command", object_lines.min(2), |limit| {
        text::quoted_argv_within(who.argv.iter().map(Untrusted::as_bytes), limit)
    });
    let place = field(Worth::Place, "in", 1, |limit| text::escaped_within(who.cwd.as_bytes(), limit));
    [program, command, place]
}

fn of_execution<'a>(request: &'a Request, execution: &'a Execution, object_lines: usize) -> Vec<Field<'a>> {
    let who = &request.who;
    let mut fields = vec![
        field(Worth::Needed, "command", object_lines, |limit| words::command(execution, limit)),
        field(Worth::Needed, "program", object_lines.min(2), |limit| {
            text::escaped_within(request.object.as_bytes(), limit)
        }),
    ];
    if execution.is_new {
        fields.push(field(Worth::Needed, "!! NEW", 1, |limit| text::escaped_within(words::NEW.as_bytes(), limit)));
    }
    for interpreter in &execution.interpreters {
        fields.push(field(Worth::Needed, "run by", object_lines.min(2), |limit| {
            text::escaped_within(interpreter.as_bytes(), limit)
        }));
    }
    if !execution.variables.is_empty() {
        fields.push(field(Worth::Needed, "with", object_lines.min(2), |limit| {
            text::quoted_argv_within(execution.variables.iter().map(Untrusted::as_bytes), limit)
        }));
    }
    fields.push(field(Worth::Command, "in", 1, |limit| text::escaped_within(who.cwd.as_bytes(), limit)));
    // Above the first command there is nothing but gated.
    if !execution.is_first {
        fields.push(field(Worth::Program, "asked by", 1, |limit| {
            words::process(who.pid, &who.program, &who.argv, limit)
        }));
        let shown = if object_lines == usize::MAX { usize::MAX } else { PARENTS };
        for parent in execution.parents.iter().take(shown) {
            fields.push(field(Worth::Parents, "called by", 1, |limit| {
                words::process(parent.pid, &parent.program, &parent.argv, limit)
            }));
        }
    }
    fields
}

fn first_keys(prompt: &Prompt, dialog: &Dialog, has_more: bool) -> Vec<String> {
    let once = match (prompt.longest == Lifetime::Attempt, prompt.group.is_some()) {
        (true, _) => "o = this attempt",
        (false, true) => "o = allow all once",
        (false, false) => "o = allow once",
    };
    let (deny, session) = match prompt.group {
        Some(_) => ("d = deny all", "s = all for the session"),
        None => ("d = deny", "s = allow for the session"),
    };
    let keys = [
        Some(deny),
        Some(once),
        dialog.may_session().then_some(session),
        dialog.may_time().then_some("f = for a time"),
        dialog.may_always().then_some("a = always"),
        dialog.may_split().then_some("1 = one by one"),
        dialog.may_block().then_some("b = block"),
        dialog.may_widen().then_some("w = widen"),
        dialog.may_edit().then_some("e = edit"),
        has_more.then_some("m = more"),
        Some("? = help"),
    ];
    keys.into_iter().flatten().map(str::to_owned).collect()
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
            // One word may take several lines.
            let mut pieces = text::wrapped(&line, self.columns);
            line = pieces.pop().unwrap_or_default();
            pieces.into_iter().for_each(|piece| self.push(worth, piece));
        }
        self.push(worth, line);
    }

    /// What stands before the lines of a field, and how many columns are left for them.
    fn label(&self, label: &str) -> (String, usize) {
        let label = match label.len() {
            _ if self.columns < NARROW => format!("{label}: "),
            ..LABEL => format!("  {label:<LABEL$}"),
            _ => format!("  {label}: "),
        };
        match self.columns.saturating_sub(label.len()) {
            // Not even one escaped byte fits beside it: below it, then.
            ..ESCAPED => (label, self.columns.saturating_sub(BELOW)),
            width => (label, width),
        }
    }

    fn labelled(&mut self, worth: Worth, label: &str, pieces: Vec<String>) {
        let is_apart = self.columns.saturating_sub(label.len()) < ESCAPED;
        if is_apart {
            self.push(worth, label.to_owned());
        }
        let indent = " ".repeat(if is_apart { BELOW } else { label.len() });
        let label = if is_apart { &indent } else { label };
        for (at, piece) in pieces.into_iter().enumerate() {
            self.push(worth, if at == 0 { label } else { &indent }.to_owned() + &piece);
        }
    }

    fn long(&mut self, field: &Field<'_>) {
        let (label, width) = self.label(field.label);
        // A wide character may leave a column free at the end of each line.
        let limit = if field.lines == 1 { width } else { width.saturating_sub(1).saturating_mul(field.lines) };
        let mut shown = (field.value)(usize::MAX);
        if text::columns(&shown) > limit {
            self.is_cut = true;
            shown = (field.value)(limit);
        }
        self.labelled(field.worth, &label, text::wrapped(&shown, width));
    }

    /// A whole command, broken so that a shell reads its lines as one.
    fn command(&mut self, execution: &Execution) {
        let (label, width) = self.label("command");
        let mut lines = text::quoted_argv_lines(execution.argv.iter().map(Untrusted::as_bytes), width);
        let left_out = words::left_out(execution.words_left_out);
        if !left_out.is_empty() {
            lines.extend(text::wrapped(&left_out, width));
        }
        self.labelled(Worth::Needed, &label, lines);
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

    fn keys(&mut self, prompt: &Prompt, dialog: &Dialog, has_more: bool) {
        let keys = match dialog.asks {
            None => first_keys(prompt, dialog, has_more),
            Some(Asks::Time) => {
                self.flow(Worth::Needed, "For how long, in every session with this profile?");
                let times = dialog.times().into_iter().map(|(key, time)| format!("{key} = {}", words::time(time)));
                times.chain(["d = deny".to_owned(), "x = back".to_owned()]).collect()
            }
            Some(Asks::Block) => {
                self.flow(Worth::Needed, "Denied without a question, as far as a yes would reach: for how long?");
                let widen = dialog.may_widen().then_some("w = widen");
                let keys =
                    [Some("s = for the session"), Some("a = always"), widen, Some("d = this time"), Some("x = back")];
                keys.into_iter().flatten().map(str::to_owned).collect()
            }
        };
        let mut line = String::new();
        for key in &keys {
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
        let is_exec = prompt.request.access == Access::Exec;
        self.air();
        self.flow(Worth::Program, "deny: this attempt fails, and nothing is remembered. So it is without an answer.");
        if prompt.longest == Lifetime::Attempt {
            self.flow(Worth::Program, "this attempt: it is done now; the next one is asked again.");
        } else {
            let what = match prompt.request.access {
                Access::Exec => "once: every run in that scope, by the command that asks and all that it starts.",
                Access::Read => "once: every read in that scope, by the command that asks and all that it starts.",
                Access::Connect | Access::Unix => {
                    "once: every connection in that scope, by the command that asks and all that it starts."
                }
                Access::Bind => "once: that address, for the command that asks and all that it starts.",
                _ => "once: every change in that scope, by the command that asks and all that it starts.",
            };
            self.flow(Worth::Program, what);
        }
        if prompt.longest >= Lifetime::Session {
            self.flow(Worth::Program, "session: the same for everything in this session, until it ends.");
        }
        if prompt.longest >= Lifetime::Until {
            self.flow(
                Worth::Program,
                "for a time, always: in every session of yours with this profile, also in later ones.",
            );
        }
        if prompt.group.is_some() {
            self.flow(Worth::Program, "one by one: each of them is asked for by itself.");
        }
        if prompt.longest >= Lifetime::Call {
            self.flow(Worth::Program, "block: no, and to the same from now on without a question.");
        }
        if prompt.offers.len() > 1 && is_exec {
            self.flow(
                Worth::Program,
                "widen: let a yes reach further: commands that begin with the same words, or the program.",
            );
        } else if prompt.offers.len() > 1 && prompt.request.destination.is_some() {
            self.flow(
                Worth::Program,
                "widen: let a yes reach further: this program at any port of the host, the host, its domain.",
            );
        } else if prompt.offers.len() > 1 {
            self.flow(Worth::Program, "widen: let a yes reach further: this file, its directory, its tree.");
        }
    }
}
