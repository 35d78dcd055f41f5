//! All that is said of one request, as lines that fit. Pure. What nobody can answer without is never left out: where there is
//! no room for it there is no yes; what is cut can be unfolded.

use std::cell::RefCell;
use std::rc::Rc;

use super::entry::Asked;
use crate::common::access::Level;
use crate::common::consent::{Group, Prompt};
use crate::common::decision::{Lifetime, Width};
use crate::common::exec::Execution;
use crate::common::request::Request;
use crate::common::text::{self, Untrusted};
use crate::consent::words;
use crate::ctl::control::output::user_name;
use crate::ctl::control::table::flowed;

/// Columns below which labels stand close.
const NARROW: usize = 44;
/// Columns of a label and the gap behind it.
const LABEL: usize = 11;
/// Members of a group that are named where not all are.
const MEMBERS: usize = 3;

/// How much a line matters; the least goes first where there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Worth {
    Parents,
    Place,
    Other,
    Reason,
    Rule,
    Program,
    Offer,
    Needed,
}

/// How a line stands out, besides its words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    Plain,
    Title,
    Alarm,
    /// The scope that a yes would have.
    Chosen,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub text: String,
    pub tone: Tone,
    worth: Worth,
}

/// What there is room for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Details {
    pub lines: Vec<Line>,
    /// Whether all is there that an answer needs.
    pub is_whole: bool,
    /// Whether there is more to unfold.
    pub is_cut: bool,
    /// Lines in all, where they are unfolded.
    pub of: usize,
}

/// The details that were made last: nothing in them changes while they are looked at, and some take long.
#[derive(Clone, Debug, Default)]
pub struct Memory(RefCell<Option<(Place, Rc<Details>)>>);

/// Of which request, with which offer, in how many columns and rows, from which line on.
type Place = (u64, usize, usize, usize, Option<usize>);

impl Memory {
    /// [`details`] of a request.
    pub fn of(&self, asked: &Asked, offer: usize, columns: usize, rows: usize, unfolded: Option<usize>) -> Rc<Details> {
        let place = (asked.identity(), offer, columns, rows, unfolded);
        let mut last = self.0.borrow_mut();
        if let Some((known, shown)) = last.as_ref()
            && *known == place
        {
            return Rc::clone(shown);
        }
        let shown = Rc::new(details(&asked.prompt, asked.user, offer, columns, rows, unfolded));
        *last = Some((place, Rc::clone(&shown)));
        shown
    }
}

struct Page {
    columns: usize,
    lines: Vec<Line>,
    is_cut: bool,
    /// Lines of what matters most.
    most: usize,
}

/// In `rows` lines of `columns` columns. `offer` is the number of the one that is chosen; `unfolded` the first line to be
/// shown of all of them.
pub fn details(
    prompt: &Prompt,
    user: u32,
    offer: usize,
    columns: usize,
    rows: usize,
    unfolded: Option<usize>,
) -> Details {
    let folded = fold(prompt, user, offer, columns, rows);
    let Some(first) = unfolded else { return folded };
    let page = page(prompt, user, offer, columns, usize::MAX);
    let of = page.lines.len();
    let first = first.min(of.saturating_sub(rows));
    let lines: Vec<Line> = page.lines.into_iter().skip(first).take(rows).collect();
    let is_cut = first.saturating_add(lines.len()) < of;
    Details { lines, is_cut, of, is_whole: folded.is_whole }
}

fn fold(prompt: &Prompt, user: u32, offer: usize, columns: usize, rows: usize) -> Details {
    for most in [4, 2, 1] {
        let mut page = page(prompt, user, offer, columns, most);
        while page.lines.len() > rows {
            let least = page.lines.iter().map(|line| line.worth).min().filter(|worth| *worth < Worth::Needed);
            let Some(least) = least else { break };
            page.is_cut = true;
            // From below, one by one.
            let Some(at) = page.lines.iter().rposition(|line| line.worth == least) else { break };
            page.lines.remove(at);
        }
        if page.lines.len() <= rows {
            return Details { of: page.lines.len(), lines: page.lines, is_whole: columns >= 20, is_cut: page.is_cut };
        }
    }
    let page = page(prompt, user, offer, columns, 1);
    Details { of: page.lines.len(), lines: page.lines.into_iter().take(rows).collect(), is_whole: false, is_cut: true }
}

fn page(prompt: &Prompt, user: u32, offer: usize, columns: usize, most: usize) -> Page {
    let request = prompt.request.as_ref();
    let mut page = Page { columns: columns.max(2), lines: Vec::new(), is_cut: false, most };
    page.title(prompt);
    match (&prompt.group, &request.execution) {
        (Some(group), _) => page.group(request, group),
        (None, Some(execution)) => page.execution(request, execution),
        (None, None) => page.object(request),
    }
    if request.level == Level::Authenticate {
        page.flow(Worth::Needed, Tone::Alarm, "A yes needs a proof of who you are.");
    }
    page.offers(prompt, offer);
    page.long(Worth::Offer, Tone::Plain, "holds", 1, |limit| text::escaped_within(longest(prompt).as_bytes(), limit));
    if let Some(suggestion) = &prompt.suggestion {
        let width = prompt.offers.get(offer).map(|offer| offer.width).unwrap_or_default();
        page.flow(Worth::Offer, Tone::Title, &words::suggestion(prompt, suggestion, width));
    }
    match &request.execution {
        Some(execution) => page.processes(request, execution),
        None => page.process(request),
    }
    let rule = &request.rule;
    let place = match rule.line {
        0 => format!("{} of profile {} ({})", rule.id, rule.profile, rule.file),
        line => format!("{} of profile {} ({}:{line})", rule.id, rule.profile, rule.file),
    };
    page.long(Worth::Rule, Tone::Plain, "rule", 2, |limit| text::escaped_within(place.as_bytes(), limit));
    if let Some(reason) = &rule.reason {
        page.long(Worth::Reason, Tone::Plain, "reason", 2, |limit| text::escaped_within(reason.as_bytes(), limit));
    }
    let session = format!("{}, call {}, of {}", request.session, request.call, user_name(user));
    page.long(Worth::Place, Tone::Plain, "session", 1, |limit| text::escaped_within(session.as_bytes(), limit));
    if prompt.attempts > 1 && prompt.group.is_none() {
        page.long(Worth::Other, Tone::Plain, "attempts", 1, |limit| {
            text::escaped_within(format!("{} equal ones wait for this answer", prompt.attempts).as_bytes(), limit)
        });
    }
    page
}

/// How long an answer can hold.
fn longest(prompt: &Prompt) -> String {
    let most = match prompt.longest {
        Lifetime::Attempt => "for this attempt only".to_owned(),
        Lifetime::Call => "at the most for the call and what it starts".to_owned(),
        Lifetime::Session => "at the most for the session".to_owned(),
        Lifetime::Until => match prompt.max_for {
            Some(time) => format!("at the most for {}, in all sessions with this profile", words::time(time)),
            None => "at the most for a time, in all sessions with this profile".to_owned(),
        },
        Lifetime::Persistent => "at the most always, in all sessions with this profile".to_owned(),
    };
    match words::longest_for(&prompt.request) {
        Some(time) => format!("{most}; {time}"),
        None => most,
    }
}

impl Page {
    fn push(&mut self, worth: Worth, tone: Tone, text: String) {
        self.lines.push(Line { text, tone, worth });
    }

    /// Words of our own, broken at spaces.
    fn flow(&mut self, worth: Worth, tone: Tone, words: &str) {
        flowed(words, self.columns).into_iter().for_each(|line| self.push(worth, tone, line));
    }

    /// A label and a value in `lines` lines, all of it where it is unfolded.
    fn long(&mut self, worth: Worth, tone: Tone, label: &str, lines: usize, value: impl Fn(usize) -> String) {
        let label = match text::columns(label) {
            _ if self.columns < NARROW => format!("{label}: "),
            ..LABEL => format!("{label:<LABEL$}"),
            _ => format!("{label}: "),
        };
        let width = self.columns.saturating_sub(text::columns(&label)).max(2);
        let lines = if self.most == usize::MAX { usize::MAX } else { lines };
        // A wide character may leave a column free at the end of each line.
        let limit = if lines == 1 { width } else { width.saturating_sub(1).saturating_mul(lines) };
        let mut shown = value(usize::MAX);
        if text::columns(&shown) > limit {
            self.is_cut = true;
            shown = value(limit);
        }
        let indent = " ".repeat(text::columns(&label));
        for (at, piece) in text::wrapped(&shown, width).into_iter().enumerate() {
            self.push(worth, tone, if at == 0 { &label } else { &indent }.to_owned() + &piece);
        }
    }

    fn title(&mut self, prompt: &Prompt) {
        let request = prompt.request.as_ref();
        let name = text::quoted_argv_within([request.who.program.file_name()], 24.min(self.columns));
        let title = match &request.execution {
            Some(execution) if execution.is_first => "gated-run was told to run this command".to_owned(),
            // A name takes a line at the most, with its end.
            _ => format!("{name} wants to {}", words::wished(prompt, self.columns)),
        };
        self.flow(Worth::Needed, Tone::Title, &title);
    }

    fn group(&mut self, request: &Request, group: &Group) {
        let lines = self.most.min(2);
        self.long(Worth::Needed, Tone::Plain, "all in", lines, |limit| text::shown_within(&group.place, limit));
        let shown = if self.most == usize::MAX { usize::MAX } else { MEMBERS };
        for (at, member) in group.members.iter().take(shown).enumerate() {
            let label = if at == 0 { words::label(request) } else { "" };
            self.long(Worth::Offer, Tone::Plain, label, 1, |limit| words::member(request, group, member, limit));
        }
        self.is_cut |= group.members.len() > shown;
        if let Some(further) = words::further(group, shown.min(group.members.len())) {
            self.long(Worth::Offer, Tone::Plain, "", 1, |limit| text::escaped_within(further.as_bytes(), limit));
        }
    }

    fn object(&mut self, request: &Request) {
        let most = self.most;
        let said = words::lines(request);
        if said.is_empty() {
            self.long(Worth::Needed, Tone::Plain, "object", most, |limit| {
                text::escaped_within(request.object.as_bytes(), limit)
            });
        }
        for line in said {
            let worth = if line.is_needed { Worth::Needed } else { Worth::Reason };
            self.long(worth, Tone::Plain, line.label, most, |limit| line.within(limit));
        }
        if let Some(other) = &request.other {
            self.long(Worth::Needed, Tone::Plain, words::other(request.operation), most.min(2), |limit| {
                text::escaped_within(other.as_bytes(), limit)
            });
        }
    }

    fn execution(&mut self, request: &Request, execution: &Execution) {
        let (most, few) = (self.most, self.most.min(2));
        self.long(Worth::Needed, Tone::Plain, "command", most, |limit| words::command(execution, limit));
        self.long(Worth::Needed, Tone::Plain, "program", few, |limit| {
            text::escaped_within(request.object.as_bytes(), limit)
        });
        if execution.is_new {
            self.long(Worth::Needed, Tone::Alarm, "!! NEW", 1, |limit| {
                text::escaped_within(words::NEW.as_bytes(), limit)
            });
        }
        for interpreter in &execution.interpreters {
            self.long(Worth::Needed, Tone::Plain, "run by", few, |limit| {
                text::escaped_within(interpreter.as_bytes(), limit)
            });
        }
        if !execution.variables.is_empty() {
            self.long(Worth::Needed, Tone::Plain, "with", few, |limit| {
                text::quoted_argv_within(execution.variables.iter().map(Untrusted::as_bytes), limit)
            });
        }
    }

    fn offers(&mut self, prompt: &Prompt, chosen: usize) {
        for (at, offer) in prompt.offers.iter().enumerate() {
            let reach = words::reach_of(prompt, offer.width);
            let (mark, tone, worth) = match at == chosen {
                true => ("> ", Tone::Chosen, Worth::Needed),
                false => ("  ", Tone::Plain, Worth::Offer),
            };
            // It stays beside the one that is chosen where there is no room for the others.
            let label = if at == chosen { "yes covers" } else { "" };
            self.long(worth, tone, label, self.most.min(2), |limit| {
                let limit = limit.saturating_sub(mark.len());
                let left = limit.saturating_sub(reach.len().saturating_add(2));
                let covered = match offer.width {
                    // The exact object stands above.
                    Width::Exact => text::escaped_within(reach.as_bytes(), limit),
                    _ if left < 16 => text::escaped_within(reach.as_bytes(), limit),
                    _ => format!("{reach}: {}", words::scope(&prompt.request, offer, left)),
                };
                format!("{mark}{covered}")
            });
        }
    }

    fn process(&mut self, request: &Request) {
        let who = &request.who;
        self.long(Worth::Program, Tone::Plain, "asked by", 1, |limit| {
            words::process(who.pid, &who.program, &who.argv, limit)
        });
        self.long(Worth::Place, Tone::Plain, "in", 1, |limit| text::escaped_within(who.cwd.as_bytes(), limit));
    }

    fn processes(&mut self, request: &Request, execution: &Execution) {
        let who = &request.who;
        // Above the first command there is nothing but gated.
        if !execution.is_first {
            self.long(Worth::Program, Tone::Plain, "asked by", 1, |limit| {
                words::process(who.pid, &who.program, &who.argv, limit)
            });
            for parent in &execution.parents {
                self.long(Worth::Parents, Tone::Plain, "called by", 1, |limit| {
                    words::process(parent.pid, &parent.program, &parent.argv, limit)
                });
            }
        }
        self.long(Worth::Place, Tone::Plain, "in", 1, |limit| text::escaped_within(who.cwd.as_bytes(), limit));
    }
}
