//! What a bridge is told, in the words that every consent agent uses. Runs as the person who is asked; names, paths and words
//! are a tool's choice and are escaped, secrets in command lines are masked, and what is longer than fits is never half
//! shown and then allowed.

use std::time::{Duration, Instant};

use serde::Serialize;

use crate::common::access::Level;
use crate::common::consent::{Answer, Prompt};
use crate::common::decision::{Lifetime, Term, Width};
use crate::common::exec::Execution;
use crate::common::id::RequestId;
use crate::common::mask;
use crate::common::request::Request;
use crate::common::text::{self, Untrusted};
use crate::consent::words;

/// Bytes of a message at the most.
pub const LARGEST: usize = 32 << 10;
/// Columns of a line that has to be read, of one that helps, of a summary, and of a name in it.
const NEEDED: usize = 2000;
const LINE: usize = 400;
const SUMMARY: usize = 160;
const NAME: usize = 24;
/// Words of a command line, members of a group and processes above that are told.
const WORDS: usize = 64;
const MEMBERS: usize = 16;
const PARENTS: usize = 3;

/// A line of what is said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Line {
    pub label: &'static str,
    pub text: String,
}

/// What can be answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    pub answer: Answer,
    /// For a button.
    pub label: String,
    /// All that it does.
    pub means: String,
    /// Whether there are buttons for it where there are few: not for wider ones.
    pub is_plain: bool,
}

/// A request, put into words once.
#[derive(Clone, Debug)]
pub struct Message {
    pub request: RequestId,
    pub session: String,
    pub user: String,
    pub host: String,
    /// Who wants what, in one line.
    pub summary: String,
    pub lines: Vec<Line>,
    /// Why there is no yes among the choices, or what else is to be known.
    pub note: Option<String>,
    pub deadline: Instant,
    wants: String,
    access: &'static str,
    operation: &'static str,
    object: String,
    program: String,
    argv: Vec<String>,
    level: &'static str,
    reason: Option<String>,
    rule: String,
    attempts: usize,
    waiting: usize,
}

/// The words so far, and whether something that has to be read was cut.
#[derive(Default)]
struct Said {
    lines: Vec<Line>,
    is_cut: bool,
}

impl Said {
    fn needed(&mut self, label: &'static str, value: impl Fn(usize) -> String) {
        // More is not looked at: a hundredth of it is enough to know that it does not fit.
        let all = value(NEEDED.saturating_mul(2));
        let fits = text::columns(&all) <= NEEDED;
        self.is_cut |= !fits;
        self.lines.push(Line { label, text: if fits { all } else { value(NEEDED) } });
    }

    fn line(&mut self, label: &'static str, value: impl Fn(usize) -> String) {
        self.lines.push(Line { label, text: value(LINE) });
    }
}

/// What is said of a prompt to somebody whose session `user` is, on this host, and what can be answered.
pub fn of(prompt: &Prompt, user: &str, host: &str) -> (Message, Vec<Choice>) {
    // By a daemon of ours it is masked already.
    let mut request = prompt.request.as_ref().clone();
    request.who.argv = mask::argv(&request.who.argv);
    if let Some(execution) = &mut request.execution {
        execution.argv = mask::argv(&execution.argv);
        execution.variables = mask::variables(&execution.variables);
    }
    let request = &request;
    let mut said = Said::default();
    match &request.execution {
        Some(execution) => of_execution(request, execution, &mut said),
        None => of_object(request, &mut said),
    }
    if let Some(group) = &prompt.group {
        said.needed("together with", |limit| {
            format!("{} in all, in {}", group.count, text::escaped_within(group.place.as_bytes(), limit))
        });
        for member in group.members.iter().take(MEMBERS) {
            said.line("one of them", |limit| {
                let verb = words::verb(request.access, member.operation);
                format!("{verb} {}", text::escaped_within(member.object.as_bytes(), limit))
            });
        }
    }
    if let Some(reason) = &request.rule.reason {
        said.line("reason", |limit| text::escaped_within(reason.as_bytes(), limit));
    }
    let rule = format!("{} of profile {}", request.rule.id, request.rule.profile);
    let approve = format!("gatedctl approve {}", request_short(prompt.id));
    let note = if request.level == Level::Authenticate {
        Some(format!("A yes needs proof that it is you, which no button can give: {approve}, at the machine."))
    } else if said.is_cut {
        Some(format!("Too long to be shown here: look at all of it with gatedctl show {}.", request_short(prompt.id)))
    } else {
        None
    };
    let choices = choices(prompt, request, note.is_none());
    let message = Message {
        request: prompt.id,
        session: request.session.0.clone(),
        user: text::escaped_within(user.as_bytes(), NAME),
        host: text::escaped_within(host.as_bytes(), 64),
        summary: summary(request),
        wants: words::intent(request, SUMMARY),
        access: request.access.as_str(),
        operation: request.operation.as_str(),
        object: text::escaped_within(request.object.as_bytes(), NEEDED),
        program: text::escaped_within(request.who.program.as_bytes(), LINE),
        argv: request.who.argv.iter().take(WORDS).map(|word| text::escaped_within(word.as_bytes(), 64)).collect(),
        level: request.level.as_str(),
        reason: request.rule.reason.as_ref().map(|reason| text::escaped_within(reason.as_bytes(), LINE)),
        rule: text::escaped_within(rule.as_bytes(), LINE),
        attempts: prompt.attempts,
        waiting: prompt.waiting,
        deadline: prompt.deadline,
        lines: said.lines,
        note,
    };
    (message, choices)
}

fn of_object(request: &Request, said: &mut Said) {
    let who = &request.who;
    let lines = words::lines(request);
    if lines.is_empty() {
        said.needed("object", |limit| text::escaped_within(request.object.as_bytes(), limit));
    }
    for line in &lines {
        said.needed(line.label, |limit| line.within(limit));
    }
    if let Some(other) = &request.other {
        said.needed(words::other(request.operation), |limit| text::escaped_within(other.as_bytes(), limit));
    }
    said.line("program", |limit| format!("{} (pid {})", text::escaped_within(who.program.as_bytes(), limit), who.pid));
    said.line("call", |limit| text::quoted_argv_within(who.argv.iter().map(Untrusted::as_bytes), limit));
    said.line("in", |limit| text::escaped_within(who.cwd.as_bytes(), limit));
}

fn of_execution(request: &Request, execution: &Execution, said: &mut Said) {
    let who = &request.who;
    if execution.is_new {
        said.line("!! NEW", |_| words::NEW.to_owned());
    }
    said.needed("command", |limit| words::command(execution, limit));
    said.is_cut |= execution.words_left_out > 0;
    said.needed("program", |limit| text::escaped_within(request.object.as_bytes(), limit));
    for interpreter in execution.interpreters.iter().take(MEMBERS) {
        said.needed("run by", |limit| text::escaped_within(interpreter.as_bytes(), limit));
    }
    if !execution.variables.is_empty() {
        let variables = || execution.variables.iter().map(Untrusted::as_bytes);
        said.needed("with", |limit| text::quoted_argv_within(variables(), limit));
    }
    said.needed("in", |limit| text::escaped_within(who.cwd.as_bytes(), limit));
    if !execution.is_first {
        said.line("asked by", |limit| words::process(who.pid, &who.program, &who.argv, limit));
        for parent in execution.parents.iter().take(PARENTS) {
            let argv = mask::argv(&parent.argv);
            said.line("called by", |limit| words::process(parent.pid, &parent.program, &argv, limit));
        }
    }
}

/// `npm wants to connect to registry.npmjs.org:443`.
fn summary(request: &Request) -> String {
    let name = text::escaped_within(request.who.program.file_name(), NAME);
    let left = SUMMARY.saturating_sub(text::columns(&name));
    let deed = match &request.execution {
        Some(execution) => format!("run {}", words::command(execution, left)),
        None if words::lines(request).is_empty() => {
            let verb = words::verb(request.access, request.operation);
            format!("{verb} {}", text::escaped_within(request.object.as_bytes(), left))
        }
        None => words::intent(request, left),
    };
    format!("{name} wants to {deed}")
}

/// A no, and what a yes may be: narrowest and shortest first. Only a no where `may_allow` is not.
fn choices(prompt: &Prompt, request: &Request, may_allow: bool) -> Vec<Choice> {
    let no = match &prompt.group {
        Some(_) => "None of them, this time",
        None => "No, this time",
    };
    let mut choices =
        vec![Choice { answer: Answer::Deny, label: "Deny".to_owned(), means: no.to_owned(), is_plain: true }];
    if !may_allow {
        return choices;
    }
    let exact = |answer: Answer, label: &str| Choice {
        means: means(prompt, request, &answer),
        answer,
        label: label.to_owned(),
        is_plain: true,
    };
    choices.push(exact(Answer::Once(Width::Exact), "Allow once"));
    if prompt.longest >= Lifetime::Session {
        choices.push(exact(Answer::Session(Width::Exact), "Allow for the session"));
    }
    if prompt.group.is_some() {
        let means = "Ask for each of them by itself".to_owned();
        choices.push(Choice { answer: Answer::Split, label: "One by one".to_owned(), means, is_plain: false });
    }
    for offer in prompt.offers.iter().filter(|offer| offer.width != Width::Exact) {
        let answer = match prompt.longest {
            // Of an attempt, wider is nothing.
            Lifetime::Attempt => continue,
            Lifetime::Call => Answer::Once(offer.width),
            Lifetime::Session | Lifetime::Until | Lifetime::Persistent => Answer::Session(offer.width),
        };
        let means = means(prompt, request, &answer);
        let label = format!("Allow {}", words::reach(request, offer.width));
        choices.push(Choice { answer, label, means, is_plain: false });
    }
    if let Some(often) = prompt.suggestion {
        let answer = match often.term {
            Term::Call => Answer::Once(often.width),
            Term::Session => Answer::Session(often.width),
            Term::For(time) => Answer::For(often.width, time),
            Term::Always => Answer::Always(often.width),
        };
        if choices.iter().all(|choice| choice.answer != answer) {
            let means = format!("{}; you have said yes {} times", means(prompt, request, &answer), often.times);
            let label = format!("Allow {}", words::term(often.term));
            choices.push(Choice { answer, label, means, is_plain: false });
        }
    }
    choices
}

/// `this file, for the session`.
fn means(prompt: &Prompt, request: &Request, answer: &Answer) -> String {
    let Some((width, term)) = answer.allows() else { return String::new() };
    let reach = match (&prompt.group, width) {
        (Some(group), Width::Exact) => format!("these {}", group.count),
        _ => words::reach(request, width).to_owned(),
    };
    let scope = prompt.offers.iter().find(|offer| offer.width == width && width != Width::Exact);
    let scope = scope.map(|offer| format!(": {}", words::scope(request, offer, LINE))).unwrap_or_default();
    let holds = match (prompt.longest, term) {
        (Lifetime::Attempt, _) => "for this attempt".to_owned(),
        (_, Term::Call) => "for this call".to_owned(),
        (_, term) => words::term(term),
    };
    let most = words::longest_for(request).map(|most| format!(", {most}")).unwrap_or_default();
    format!("{reach}{scope}; {holds}{most}")
}

fn request_short(request: RequestId) -> String {
    request.to_string().chars().take(8).collect()
}

#[derive(Serialize)]
struct AskedJson<'a> {
    version: u32,
    event: &'static str,
    request: String,
    session: &'a str,
    user: &'a str,
    host: &'a str,
    summary: &'a str,
    wants: &'a str,
    access: &'a str,
    operation: &'a str,
    object: &'a str,
    program: &'a str,
    argv: &'a [String],
    level: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    rule: &'a str,
    details: &'a [Line],
    attempts: usize,
    waiting: usize,
    deadline: String,
    seconds: u64,
    answers: Vec<AnswerJson<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'a str>,
}

#[derive(Serialize)]
struct AnswerJson<'a> {
    answer: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    width: Option<&'a str>,
    label: &'a str,
    means: &'a str,
    token: &'a str,
}

impl Choice {
    fn word(&self) -> &'static str {
        match self.answer {
            Answer::Once(_) => "once",
            Answer::Session(_) => "session",
            Answer::For(..) => "for",
            Answer::Always(_) => "always",
            Answer::Split => "split",
            Answer::Deny | Answer::Block(..) | Answer::Edit(_) => "deny",
        }
    }
}

impl Message {
    /// How long it can still be answered.
    pub fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// As JSON, with a token for each choice; `None` if it would be too long.
    pub fn json(&self, choices: &[Choice], tokens: &[String]) -> Option<Vec<u8>> {
        let left = self.left();
        let deadline = jiff::Timestamp::now().checked_add(left).ok()?;
        let answers = choices.iter().zip(tokens).map(|(choice, token)| AnswerJson {
            answer: choice.word(),
            width: choice.answer.allows().map(|(width, _)| width.as_str()),
            label: &choice.label,
            means: &choice.means,
            token,
        });
        let asked = AskedJson {
            version: 1,
            event: "asked",
            request: self.request.to_string(),
            session: &self.session,
            user: &self.user,
            host: &self.host,
            summary: &self.summary,
            wants: &self.wants,
            access: self.access,
            operation: self.operation,
            object: &self.object,
            program: &self.program,
            argv: &self.argv,
            level: self.level,
            reason: self.reason.as_deref(),
            rule: &self.rule,
            details: &self.lines,
            attempts: self.attempts,
            waiting: self.waiting,
            deadline: format!("{deadline:.0}"),
            seconds: left.as_secs(),
            answers: answers.collect(),
            note: self.note.as_deref(),
        };
        serde_json::to_vec(&asked).ok().filter(|body| body.len() <= LARGEST)
    }
}

#[derive(Serialize)]
struct OverJson<'a> {
    version: u32,
    event: &'static str,
    request: String,
    session: &'a str,
}

/// How a request ended that was put to the bridge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// By a reply.
    Answered,
    /// Decided elsewhere, too late, or given up.
    Withdrawn,
}

/// Tells that buttons are dead.
pub fn over(request: RequestId, session: &str, over: Over) -> Vec<u8> {
    let event = match over {
        Over::Answered => "answered",
        Over::Withdrawn => "withdrawn",
    };
    serde_json::to_vec(&OverJson { version: 1, event, request: request.to_string(), session }).unwrap_or_default()
}
