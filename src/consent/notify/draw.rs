//! What a notification says. Runs in the notifier, as the person at the desktop; names, paths and words are a tool's choice
//! and are shown by a program of the desktop that may take `<` for markup, so nothing of the tool's reaches it unescaped.
//!
//! The summary alone says who wants what: desktops show it first, and some nothing else. Characters of markup are written
//! as `\x3c` in it, since servers differ in whether they read a summary as markup; in the body they are entities where the
//! server says that it reads markup.

use std::collections::BTreeSet;

use crate::common::access::{Access, Level};
use crate::common::consent::{Group, Prompt, Suggestion};
use crate::common::decision::{Lifetime, Term, Width};
use crate::common::exec::Execution;
use crate::common::id::RequestId;
use crate::common::notice::{Kind, Notice};
use crate::common::path::RawPath;
use crate::common::request::Request;
use crate::common::text::{self, Untrusted};
use crate::consent::told::Told;
use crate::consent::words;

use super::queue::{Choice, Why};

/// What a server can do, as far as it matters here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    pub actions: bool,
    pub body: bool,
    pub body_markup: bool,
}

impl Capabilities {
    /// From the answer to `GetCapabilities` (Desktop Notifications Specification 1.2).
    pub fn from_words<S: AsRef<str>>(words: &[S]) -> Capabilities {
        let has = |word: &str| words.iter().any(|own| own.as_ref() == word);
        Capabilities { actions: has("actions"), body: has("body"), body_markup: has("body-markup") }
    }
}

/// The person at the desktop.
#[derive(Clone, Debug)]
pub struct Person {
    pub uid: u32,
    /// Shown as `~`.
    pub home: Option<RawPath>,
}

/// A notification, ready to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drawing {
    pub summary: String,
    pub body: String,
    /// In this order; none for a server without buttons.
    pub buttons: Vec<(Choice, &'static str)>,
}

/// Columns of the summary that desktops show: a longer one they cut off at its end, where the file's name is.
const SUMMARY: usize = 46;
/// Columns of the program's name and of a user's in it, and what is left to a path at the least.
const NAME: usize = 16;
const PATH: usize = 20;
/// What is left to a host at the least; its end, and all of it stands in the body.
const HOST: usize = 24;
/// Columns of a line of the body, and of a command in it.
const LINE: usize = 200;
const COMMAND: usize = 1000;
/// Processes above the one that asks that are named.
const PARENTS: usize = 3;
/// Members of a group that are named.
const MEMBERS: usize = 5;
/// Lines of what was done that are told one by one.
const TOLD: usize = 6;

/// Draws a request. `of` is the session's user, if that is another; `others` the number of requests that wait unseen.
pub fn request(
    prompt: &Prompt,
    of: Option<&str>,
    person: &Person,
    server: Capabilities,
    why: Why,
    others: usize,
) -> Drawing {
    let request = &prompt.request;
    let approve = format!("gatedctl approve {}", short(prompt.id));
    let mut summary = summary(prompt, of, person);
    if !server.body {
        summary = format!("{summary} ({approve})");
    }

    let mut lines = Vec::new();
    let mut line = |label: &str, value: String| lines.push(format!("{label}: {value}"));
    if why == Why::TooSoon {
        line("Not counted", "the answer came before this could be read. Please answer again".to_owned());
    }
    match (&request.execution, &prompt.group) {
        (Some(execution), _) => of_execution(request, execution, &mut line),
        (None, Some(group)) => {
            of_group(request, group, &mut line);
            of_asker(request, &mut line);
        }
        (None, None) => {
            let said = words::lines(request);
            if said.is_empty() {
                line("object", text::escaped_within(request.object.as_bytes(), LINE));
            }
            // Names whole: no desktop's end of a line may be the end of one.
            said.iter().for_each(|said| line(said.label, said.within(COMMAND)));
            if let Some(other) = &request.other {
                line(words::other(request.operation), text::escaped_within(other.as_bytes(), LINE));
            }
            of_asker(request, &mut line);
        }
    }
    let rule = format!("{} of profile {}", request.rule.id, request.rule.profile);
    match &request.rule.reason {
        Some(reason) => line("reason", text::escaped_within(reason.as_bytes(), LINE)),
        None => line("rule", text::escaped_within(rule.as_bytes(), LINE)),
    }
    let brief = if prompt.longest == Lifetime::Attempt { ", this attempt only" } else { "" };
    let brief = match words::longest_for(request) {
        Some(time) if brief.is_empty() => format!(", for {time}"),
        _ => brief.to_owned(),
    };
    line("a yes covers", format!("{}{brief}", words::reach_of(prompt, Width::Exact)));
    if request.destination.is_some() && prompt.longest > Lifetime::Attempt {
        let wider = prompt.offers.iter().skip(1).map(|offer| offer.width.as_str()).collect::<Vec<_>>().join("|");
        if !wider.is_empty() {
            line("wider", format!("{approve} --scope {wider}"));
        }
    }
    if let Some(suggestion) = always(prompt) {
        let reach = words::reach_of(prompt, suggestion.width);
        let scope = prompt.offers.iter().find(|offer| offer.width == suggestion.width);
        let scope = scope.map(|offer| words::scope(request, offer, LINE)).unwrap_or_default();
        let times = suggestion.times;
        line(
            "you said yes",
            format!("{times} times; always covers {reach}: {scope}, in every session with this profile"),
        );
    }
    if prompt.group.is_some() {
        line("one by one", format!("{approve} --one-by-one"));
    }
    if request.level == Level::Authenticate {
        line("a yes needs", "proof that it is you".to_owned());
    }
    match prompt.attempts {
        0 | 1 => {}
        attempts => line("equal attempts", attempts.to_string()),
    }
    match prompt.waiting.max(others) {
        0 => {}
        waiting => line("others waiting", format!("{waiting} (gatedctl pending)")),
    }
    lines.push(if server.actions { approve } else { format!("To answer: {approve}, or gatedctl deny") });

    Drawing { summary, body: body(&lines, server), buttons: buttons(prompt, server) }
}

/// What several requests are about: the first of them, and how many there are.
fn of_group(request: &Request, group: &Group, line: &mut impl FnMut(&str, String)) {
    let place = if request.access == Access::Connect { "host" } else { "below" };
    line(place, text::ending_within(&text::escaped(group.place.as_bytes()), LINE));
    let named = group.members.iter().take(MEMBERS);
    let mut names: Vec<String> = named.map(|member| words::member(request, group, member, LINE)).collect();
    let count = names.len();
    names.extend(words::further(group, count));
    line(words::label(request), names.join("\n  "));
}

/// Who wants it.
fn of_asker(request: &Request, line: &mut impl FnMut(&str, String)) {
    let who = &request.who;
    line("program", format!("{} (pid {})", text::escaped_within(who.program.as_bytes(), LINE), who.pid));
    line("call", text::quoted_argv_within(who.argv.iter().map(Untrusted::as_bytes), LINE));
    line("in", text::escaped_within(who.cwd.as_bytes(), LINE));
}

/// What would run, and who wants it: what carries code and what is new first, for a desktop may cut the end.
fn of_execution(request: &Request, execution: &Execution, line: &mut impl FnMut(&str, String)) {
    let who = &request.who;
    if execution.is_new {
        line("!! NEW", words::NEW.to_owned());
    }
    line("command", words::command(execution, COMMAND));
    line("program", text::escaped_within(request.object.as_bytes(), LINE));
    for interpreter in &execution.interpreters {
        line("run by", text::escaped_within(interpreter.as_bytes(), LINE));
    }
    if !execution.variables.is_empty() {
        line("with", text::quoted_argv_within(execution.variables.iter().map(Untrusted::as_bytes), COMMAND));
    }
    line("in", text::escaped_within(who.cwd.as_bytes(), LINE));
    if !execution.is_first {
        line("asked by", words::process(who.pid, &who.program, &who.argv, LINE));
        for parent in execution.parents.iter().take(PARENTS) {
            line("called by", words::process(parent.pid, &parent.program, &parent.argv, LINE));
        }
    }
}

/// Draws what was done without a question, of which somebody is to hear: what was told last, and how much it was in all.
pub fn done(told: &[Told], count: usize, person: &Person, server: Capabilities) -> Drawing {
    let names: BTreeSet<&[u8]> = told.iter().map(Told::name).collect();
    let others = if names.len() > 1 || count > told.len() { " and others" } else { "" };
    let summary = match told {
        [one] if count <= 1 => format!("gated let {} {}", named(one.name(), NAME), one.deed(person, SUMMARY)),
        [.., last] => format!("gated let {}{others} do {count} things", named(last.name(), NAME)),
        [] => format!("gated let {count} things be done"),
    };
    let kept = told.len().saturating_sub(TOLD);
    let last = told.iter().skip(kept);
    let mut lines: Vec<String> =
        last.map(|one| format!("{}: {}", named(one.name(), NAME), one.deed(person, LINE))).collect();
    match count.saturating_sub(lines.len()) {
        0 => {}
        more => lines.push(format!("and {more} more before: gatedctl audit")),
    }
    Drawing { summary, body: body(&lines, server), buttons: Vec::new() }
}

impl Told {
    /// `write ~/notes`.
    fn deed(&self, person: &Person, columns: usize) -> String {
        let verb = words::verb(self.access, self.operation);
        let left = columns.saturating_sub(verb.len().saturating_add(1)).max(PATH);
        match &self.command {
            Some(argv) => format!("{verb} {}", fitted(left, |columns| brief(argv, columns))),
            None if matches!(self.access, Access::Connect | Access::Bind) => {
                let place = text::escaped(self.object.as_bytes());
                format!("{verb} {}", fitted(left, |columns| text::ending_within(&place, columns)))
            }
            None => format!("{verb} {}", place(&self.object, person, left)),
        }
    }
}

/// A command line whose whole stands below.
fn brief(argv: &[Untrusted], columns: usize) -> String {
    text::quoted_argv_shortened(argv.iter().map(Untrusted::as_bytes), columns)
}

/// A program's name.
fn named(name: &[u8], columns: usize) -> String {
    fitted(columns, |columns| text::quoted_argv_within([name], columns))
}

/// Draws what the daemon has to say without a question.
pub fn notice(notice: &Notice, server: Capabilities) -> Drawing {
    let summary = match notice.kind {
        Kind::Notify => "gated let something be done",
        Kind::Muted => "gated denies without a question",
        Kind::Policy => "gated keeps its last policy",
    };
    let line = words::notice(notice, LINE);
    let summary = if server.body { summary.to_owned() } else { plain(&line) };
    Drawing { summary, body: body(&[line], server), buttons: Vec::new() }
}

/// Draws what happened while nobody looked.
pub fn missed(requests: usize, server: Capabilities) -> Drawing {
    let summary = match requests {
        1 => "1 request was not seen while the screen was locked".to_owned(),
        more => format!("{more} requests were not seen while the screen was locked"),
    };
    let lines = ["Nothing was allowed by it. What became of them: gatedctl audit".to_owned()];
    Drawing { summary, body: body(&lines, server), buttons: Vec::new() }
}

/// `npm wants to write ~/.npmrc`.
fn summary(prompt: &Prompt, of: Option<&str>, person: &Person) -> String {
    let request = &prompt.request;
    let name = match &request.execution {
        Some(execution) if execution.is_first => "gated-run".to_owned(),
        _ => named(request.who.program.file_name(), NAME),
    };
    let of = of.map(|user| format!(" of {}", fitted(NAME, |columns| text::shortened(user.as_bytes(), columns))));
    let of_whom = of.unwrap_or_default();
    let mut summary = format!("{name}{of_whom} wants to {} ", words::verb(request.access, request.operation));
    if let Some(group) = &prompt.group {
        return group_summary(&name, &of_whom, request, group, person);
    }
    let left = SUMMARY.saturating_sub(text::columns(&summary)).max(PATH);
    match (&request.execution, &request.destination) {
        (Some(execution), _) => summary.push_str(&fitted(left, |columns| brief(&execution.argv, columns))),
        (None, Some(destination)) => summary.push_str(&words::place(destination, left.max(HOST))),
        (None, None) => match request.service {
            Some(service) => summary.push_str(words::called(service)),
            None => summary.push_str(&place(&request.object, person, left)),
        },
    }
    if let Some(other) = &request.other {
        summary.push_str(&format!(" ({} {})", words::other(request.operation), place(other, person, PATH)));
    }
    summary
}

/// `npm wants to create 214 files in ~/.npm/_cacache`.
fn group_summary(name: &str, of: &str, request: &Request, group: &Group, person: &Person) -> String {
    let wants = format!("{name}{of} wants to ");
    let left = SUMMARY.saturating_sub(text::columns(&wants));
    let wish = words::wish(request, group, left, |pattern, left| {
        let left = left.max(PATH);
        // A directory with characters of patterns in its name is said as the pattern.
        let path = RawPath::from(pattern);
        match request.access {
            Access::Connect => text::ending_within(pattern, left.max(HOST)),
            _ => place(&path, person, left),
        }
    });
    wants + &wish
}

/// A path, from `~` on if it lies in the person's home.
fn place(path: &RawPath, person: &Person, columns: usize) -> String {
    let home = person.home.as_ref().filter(|home| home.components().next().is_some() && path.is_within(home));
    let Some(home) = home else { return fitted(columns, |columns| text::shortened(path.as_bytes(), columns)) };
    let below: Vec<&[u8]> = path.components().skip(home.components().count()).collect();
    if below.is_empty() {
        return "~".to_owned();
    }
    let below = below.join(&b'/');
    format!("~/{}", fitted(columns.saturating_sub(2), |columns| text::shortened(&below, columns)))
}

/// [`plain`] text of a tool's that takes no more columns than these, whatever its characters turn into.
fn fitted(columns: usize, draw: impl Fn(usize) -> String) -> String {
    let mut limit = columns;
    loop {
        let text = plain(&draw(limit));
        match text::columns(&text).saturating_sub(columns) {
            0 => return text,
            over => limit = limit.saturating_sub(over),
        }
    }
}

/// What `gatedctl` takes for a request's id.
fn short(id: RequestId) -> String {
    id.to_string().chars().take(8).collect()
}

/// What has been answered often enough to be offered for good.
pub(super) fn always(prompt: &Prompt) -> Option<Suggestion> {
    let is_offered = |width: Width| prompt.offers.iter().any(|offer| offer.width == width);
    prompt.suggestion.filter(|suggestion| {
        suggestion.term == Term::Always && prompt.longest >= Lifetime::Persistent && is_offered(suggestion.width)
    })
}

/// "Deny" first: what is clicked without reading is what does no harm. There is never a `default` action, which desktops
/// take a click anywhere for, and never a fourth, which some leave out.
fn buttons(prompt: &Prompt, server: Capabilities) -> Vec<(Choice, &'static str)> {
    if !server.actions {
        return Vec::new();
    }
    let session = (prompt.longest >= Lifetime::Session).then_some((Choice::Session, "Allow for session"));
    let longer = always(prompt).map(|_| (Choice::Always, "Allow always")).or(session);
    let once = if prompt.group.is_some() { "Allow all once" } else { "Allow once" };
    [(Choice::Deny, "Deny"), (Choice::Once, once)].into_iter().chain(longer).collect()
}

fn body(lines: &[String], server: Capabilities) -> String {
    let text = lines.join("\n");
    match (server.body, server.body_markup) {
        (false, _) => String::new(),
        (true, true) => entities(&text),
        (true, false) => plain(&text),
    }
}

/// Text for whom `<` may or may not be markup: in the notation of [`text`], it is there for neither.
fn plain(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '<' | '>' | '&' => shown.push_str(&format!("\\x{:02x}", u32::from(character))),
            other => shown.push(other),
        }
    }
    shown
}

fn entities(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '<' => shown.push_str("&lt;"),
            '>' => shown.push_str("&gt;"),
            '&' => shown.push_str("&amp;"),
            '"' => shown.push_str("&quot;"),
            '\'' => shown.push_str("&#39;"),
            other => shown.push(other),
        }
    }
    shown
}
