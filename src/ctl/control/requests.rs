//! `pending`, `show`, `approve`, `deny`: what waits for an answer, and the answer. Runs as the person who answers; what is
//! shown is a tool's, and escaped.

use std::time::Instant;

use serde::Serialize;

use super::arguments::{Approve, Deny};
use super::daemon::{Daemon, Pending};
use super::failure::Failure;
use super::ids::{Kind, Prefix, short, shown_digits};
use super::output::{Output, user_name};
use super::polkit::TextAgent;
use super::table::{Cell, Column, Table};
use crate::common::access::{Access, Level};
use crate::common::consent::{Answer, Group, Member};
use crate::common::decision::{Lifetime, Term, Width};
use crate::common::details::answer_to_bus;
use crate::common::exec::{self, Execution};
use crate::common::net::Service;
use crate::common::request::Request;
use crate::common::text::{Untrusted, escaped, escaped_within, quoted_argv, quoted_argv_within};
use crate::consent::words;
use crate::daemon::record::Reach;

/// A request in JSON. Paths and words of a tool are in the notation of the audit log.
#[derive(Serialize)]
struct Shown<'a> {
    id: &'a str,
    session: &'a str,
    call: u32,
    user: u32,
    user_name: String,
    pid: i32,
    program: String,
    argv: Vec<String>,
    cwd: String,
    access: &'a str,
    operation: &'a str,
    object: String,
    is_directory: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    other: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exec: Option<Exec>,
    #[serde(skip_serializing_if = "Option::is_none")]
    destination: Option<Reach>,
    #[serde(skip_serializing_if = "Option::is_none")]
    service: Option<&'static str>,
    level: &'a str,
    rule: Rule<'a>,
    offers: Vec<Offer<'a>>,
    longest: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    longest_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_for_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<Several<'a>>,
    attempts: usize,
    waiting: usize,
    remaining_ms: u64,
}

/// Several requests that are put as one.
#[derive(Serialize)]
struct Several<'a> {
    count: usize,
    place: &'a str,
    members: Vec<One<'a>>,
}

#[derive(Serialize)]
struct One<'a> {
    operation: &'a str,
    object: String,
}

impl Several<'_> {
    fn of(group: &Group) -> Several<'_> {
        let one =
            |member: &Member| One { operation: member.operation.as_str(), object: escaped(member.object.as_bytes()) };
        Several { count: group.count, place: &group.place, members: group.members.iter().map(one).collect() }
    }
}

/// What would run.
#[derive(Serialize)]
struct Exec {
    argv: Vec<String>,
    words_left_out: u32,
    /// All of it as a shell takes it; absent where words are left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<String>,
    interpreters: Vec<String>,
    variables: Vec<String>,
    parents: Vec<Parent>,
    new: bool,
    first: bool,
}

#[derive(Serialize)]
struct Parent {
    pid: i32,
    program: String,
    argv: Vec<String>,
}

fn escaped_words(words: &[Untrusted]) -> Vec<String> {
    words.iter().map(|word| escaped(word.as_bytes())).collect()
}

impl Exec {
    fn of(execution: &Execution) -> Exec {
        let is_whole = execution.words_left_out == 0;
        let parent = |parent: &exec::Parent| Parent {
            pid: parent.pid,
            program: escaped(parent.program.as_bytes()),
            argv: escaped_words(&parent.argv),
        };
        Exec {
            argv: escaped_words(&execution.argv),
            words_left_out: execution.words_left_out,
            command: is_whole.then(|| quoted_argv(execution.argv.iter().map(Untrusted::as_bytes))),
            interpreters: execution.interpreters.iter().map(|path| escaped(path.as_bytes())).collect(),
            variables: escaped_words(&execution.variables),
            parents: execution.parents.iter().map(parent).collect(),
            new: execution.is_new,
            first: execution.is_first,
        }
    }
}

#[derive(Serialize)]
struct Rule<'a> {
    profile: &'a str,
    id: &'a str,
    file: &'a str,
    line: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

#[derive(Serialize)]
struct Offer<'a> {
    width: &'a str,
    scope: &'a str,
}

impl Pending {
    fn shown(&self) -> Shown<'_> {
        let prompt = &self.prompt;
        let request = prompt.request.as_ref();
        let rule = &request.rule;
        let left = prompt.deadline.saturating_duration_since(Instant::now());
        Shown {
            id: &self.id,
            session: &request.session.0,
            call: request.call.0,
            user: self.user,
            user_name: user_name(self.user),
            pid: request.who.pid,
            program: escaped(request.who.program.as_bytes()),
            argv: escaped_words(&request.who.argv),
            cwd: escaped(request.who.cwd.as_bytes()),
            access: request.access.as_str(),
            operation: request.operation.as_str(),
            object: escaped(request.object.as_bytes()),
            is_directory: request.is_directory,
            other: request.other.as_ref().map(|other| escaped(other.as_bytes())),
            exec: request.execution.as_deref().map(Exec::of),
            destination: request.destination.as_deref().map(Reach::of),
            service: request.service.map(Service::as_str),
            level: request.level.as_str(),
            rule: Rule {
                profile: &rule.profile,
                id: &rule.id,
                file: &rule.file,
                line: rule.line,
                reason: rule.reason.as_deref(),
            },
            offers: prompt.offers.iter().map(|o| Offer { width: o.width.as_str(), scope: &o.scope }).collect(),
            longest: prompt.longest.as_str(),
            longest_ms: request.remember_for.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
            max_for_ms: prompt
                .max_for
                .filter(|_| prompt.longest >= Lifetime::Until)
                .map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
            group: prompt.group.as_ref().map(Several::of),
            attempts: prompt.attempts,
            waiting: prompt.waiting,
            remaining_ms: u64::try_from(left.as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// `npm wants to create this file`, with the program as a word of the shell.
    fn wish(&self) -> String {
        let request = self.prompt.request.as_ref();
        let name = quoted_argv_within([request.who.program.file_name()], 24);
        format!("{name} wants to {}", words::wished(&self.prompt, usize::MAX))
    }
}

/// Seconds that are left, rounded up: never 0 while an answer would still count.
pub fn left(deadline: Instant) -> String {
    let left = deadline.saturating_duration_since(Instant::now());
    format!("{} s", left.as_secs().saturating_add(u64::from(left.subsec_nanos() > 0)))
}

pub async fn pending(output: &Output) -> Result<(), Failure> {
    let pending = Daemon::connect().await?.objects().await?.pending;
    if output.json {
        return output.json(&pending.iter().map(Pending::shown).collect::<Vec<_>>());
    }
    let digits = shown_digits(pending.iter().map(|one| one.id.as_str()));
    let own = nix::unistd::getuid().as_raw();
    let user =
        if pending.iter().any(|one| one.user != own) { Column::whole("USER") } else { Column::whole("USER").if_wide() };
    let mut table = Table::new(
        output.width,
        &[
            Column::whole("REQUEST"),
            Column::whole("SESSION").if_wide(),
            user,
            Column::whole("LEFT"),
            Column::up_to("WHO", 16),
            Column::whole("WANTS TO"),
            Column::cut("OBJECT"),
        ],
    );
    for one in &pending {
        let request = one.prompt.request.as_ref();
        table.push(vec![
            Cell::own(short(&one.id, digits)),
            Cell::own(&*request.session.0),
            Cell::Own(user_name(one.user)),
            Cell::Own(left(one.prompt.deadline)),
            Cell::Tool(request.who.program.file_name().to_vec()),
            Cell::own(request.operation.as_str()),
            match (&request.execution, &one.prompt.group) {
                (Some(execution), _) => command_of(execution),
                (None, Some(group)) => group_of(request, group),
                (None, None) => object_of(request),
            },
        ]);
    }
    output.table(&table, "Nothing waits for an answer.")
}

pub async fn show(output: &Output, prefix: &Prefix) -> Result<(), Failure> {
    let pending = Daemon::connect().await?.pending(prefix).await?;
    if output.json {
        return output.json(&pending.shown());
    }
    let prompt = &pending.prompt;
    let request = prompt.request.as_ref();
    let rule = &request.rule;
    let place = match rule.line {
        0 => format!("{} of profile {} ({})", rule.id, rule.profile, rule.file),
        line => format!("{} of profile {} ({}:{line})", rule.id, rule.profile, rule.file),
    };
    let mut fields = vec![("request", Cell::own(&*pending.id)), ("wish", Cell::Own(pending.wish()))];
    match (&request.execution, &prompt.group) {
        (Some(execution), _) => fields.extend(of_execution(request, execution)),
        (None, Some(group)) => fields.extend(of_group(request, group)),
        (None, None) => fields.extend(of_object(request)),
    }
    fields.extend([
        ("in", Cell::Tool(request.who.cwd.as_bytes().to_vec())),
        ("session", Cell::Own(format!("{}, call {}, of {}", request.session, request.call, user_name(pending.user)))),
        ("rule", Cell::Tool(place.into_bytes())),
    ]);
    fields.extend(rule.reason.as_ref().map(|reason| ("reason", Cell::Tool(reason.clone().into_bytes()))));
    if request.level == Level::Authenticate {
        fields.push(("needs", Cell::own("a proof of who you are, besides the answer")));
    }
    let members = prompt.group.as_ref().map_or(1, |group| group.count);
    if prompt.attempts > members {
        fields.push(("attempts", Cell::Own(format!("{} equal ones wait for this answer", prompt.attempts))));
    }
    fields.push(("left", Cell::Own(left(prompt.deadline))));
    fields.push((
        "longest",
        Cell::own(match prompt.longest {
            Lifetime::Attempt => "for this attempt only",
            Lifetime::Call => "once: for the call and what it starts",
            Lifetime::Session => "for the session",
            Lifetime::Until => "for a time, in all sessions with this profile",
            Lifetime::Persistent => "always, in all sessions with this profile",
        }),
    ));
    fields.extend(words::longest_for(request).map(|time| ("it holds", Cell::Own(time))));
    for offer in &prompt.offers {
        let scope = match offer.width {
            Width::Exact => "--scope exact",
            Width::Directory => "--scope directory",
            Width::Tree => "--scope tree",
            Width::Prefix => "--scope prefix",
            Width::Program => "--scope program",
            Width::Host => "--scope host",
            Width::Domain => "--scope domain",
        };
        // Made by the broker, in a notation of its own, from what a tool chose.
        fields.push((
            scope,
            match request.access {
                Access::Exec => Cell::Own(offer.scope.clone()),
                _ => Cell::Tool(offer.scope.as_bytes().to_vec()),
            },
        ));
    }
    output.fields(&fields)
}

/// Several in one cell: how many, and where.
fn group_of(request: &Request, group: &Group) -> Cell {
    let many = format!("{} in ", group.count);
    match request.access {
        Access::Connect => Cell::Host("", group.place.clone(), format!(" ({} of them)", group.count)),
        _ => Cell::Own(format!("{many}{}", escaped(group.place.as_bytes()))),
    }
}

/// Several, each on a line.
fn of_group(request: &Request, group: &Group) -> Vec<(&'static str, Cell)> {
    let place = if request.access == Access::Connect { "host" } else { "below" };
    let mut fields = vec![(place, Cell::Own(escaped(group.place.as_bytes())))];
    for (at, member) in group.members.iter().enumerate() {
        let label = if at == 0 { words::label(request) } else { "" };
        let line = words::member(request, group, member, usize::MAX);
        fields.push((label, Cell::Lines(Box::new(Cell::Own(line)))));
    }
    fields.extend(words::further(group, group.members.len()).map(|more| ("", Cell::Own(more))));
    fields.extend(of_asker(request));
    fields
}

/// Another object in one cell: a host keeps its end where it is cut.
fn object_of(request: &Request) -> Cell {
    match &request.destination {
        Some(destination) => Cell::Host("", destination.to_string(), String::new()),
        None => Cell::Tool(request.object.as_bytes().to_vec()),
    }
}

/// A command in one cell.
fn command_of(execution: &Execution) -> Cell {
    match execution.words_left_out {
        0 => Cell::Command(execution.argv.clone()),
        _ => Cell::Own(words::command(execution, usize::MAX)),
    }
}

fn of_object(request: &Request) -> Vec<(&'static str, Cell)> {
    let said = words::lines(request);
    let mut fields = Vec::new();
    if said.is_empty() {
        fields.push(("object", Cell::Tool(request.object.as_bytes().to_vec())));
    }
    fields.extend(said.iter().map(|line| (line.label, Cell::Lines(Box::new(Cell::Own(line.within(usize::MAX)))))));
    if let Some(other) = &request.other {
        fields.push((words::other(request.operation), Cell::Tool(other.as_bytes().to_vec())));
    }
    fields.extend(of_asker(request));
    fields
}

/// Who wants it.
fn of_asker(request: &Request) -> [(&'static str, Cell); 3] {
    [
        ("program", Cell::Tool(request.who.program.as_bytes().to_vec())),
        ("pid", Cell::Own(request.who.pid.to_string())),
        ("command", Cell::Command(request.who.argv.clone())),
    ]
}

/// All of it, however long: who wants to see it cut looks at `pending`.
fn of_execution(request: &Request, execution: &Execution) -> Vec<(&'static str, Cell)> {
    let mut fields = vec![
        ("command", Cell::Lines(Box::new(command_of(execution)))),
        ("program", Cell::Tool(request.object.as_bytes().to_vec())),
    ];
    if execution.is_new {
        fields.push(("NEW", Cell::own(format!("this was {}", words::NEW))));
    }
    let interpreters = execution.interpreters.iter();
    fields.extend(interpreters.map(|path| ("run by", Cell::Tool(path.as_bytes().to_vec()))));
    let variables = execution.variables.iter();
    fields.extend(variables.map(|word| ("with", Cell::Lines(Box::new(Cell::Command(vec![word.clone()]))))));
    if execution.is_first {
        fields.push(("asked by", Cell::own("gated-run, which was given this command")));
        return fields;
    }
    let process = |pid, program, argv: &[Untrusted]| {
        Cell::Lines(Box::new(Cell::Own(words::process(pid, program, argv, usize::MAX))))
    };
    let who = &request.who;
    fields.push(("asked by", process(who.pid, &who.program, &who.argv)));
    let parents = execution.parents.iter();
    fields.extend(parents.map(|parent| ("called by", process(parent.pid, &parent.program, &parent.argv))));
    fields
}

pub async fn approve(output: &Output, arguments: &Approve) -> Result<(), Failure> {
    let width = Width::from(arguments.scope);
    let answer = match arguments {
        Approve { one_by_one: true, .. } => Answer::Split,
        Approve { always: true, .. } => Answer::Always(width),
        Approve { time: Some(time), .. } => Answer::For(width, *time),
        Approve { session: true, .. } => Answer::Session(width),
        _ => Answer::Once(width),
    };
    decide(output, &arguments.request, answer).await
}

pub async fn deny(output: &Output, arguments: &Deny) -> Result<(), Failure> {
    let width = Width::from(arguments.scope);
    let answer = match arguments {
        Deny { always: true, .. } => Answer::Block(width, Term::Always),
        Deny { time: Some(time), .. } => Answer::Block(width, Term::For(*time)),
        Deny { session: true, .. } => Answer::Block(width, Term::Session),
        _ => Answer::Deny,
    };
    decide(output, &arguments.request, answer).await
}

#[derive(Serialize)]
struct Decided<'a> {
    request: &'a str,
    decision: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<&'a str>,
}

async fn decide(output: &Output, prefix: &Prefix, answer: Answer) -> Result<(), Failure> {
    let daemon = Daemon::connect().await?;
    let (decision, scope) = answer_to_bus(&answer);
    let pending = match (daemon.pending(prefix).await, prefix.whole(Kind::Request)) {
        (Ok(pending), _) => pending,
        // The daemon knows what became of it: it was answered, it is over, or it is not for this user.
        (Err(Failure::NotFound { .. }), Some(id)) => {
            let _agent = TextAgent::start_if(true);
            daemon.manager.decide(id, decision, scope).await?;
            return output.line(&format!("The answer to {id} was taken."));
        }
        (Err(failure), _) => return Err(failure),
    };
    let prompt = &pending.prompt;
    let width = answer.width();
    if answer == Answer::Split && prompt.group.is_none() {
        return Err(Failure::Refused(format!("{prefix} is one request; there is nothing to ask one by one")));
    }
    if let (Answer::For(_, time), Some(most)) = (&answer, prompt.max_for)
        && *time > most
    {
        return Err(Failure::Refused(format!("no answer to this request may hold longer than {}", words::time(most))));
    }
    // The daemon checks this too; it says it without words.
    let offered = width.map(|width| prompt.offers.iter().find(|offer| offer.width == width));
    if let (Some(None), Some(width)) = (offered, width) {
        return Err(Failure::Refused(format!("{width} is too far for this request; see gatedctl show {prefix}")));
    }
    if let Some((_, term)) = answer.allows()
        && term.lifetime() > Lifetime::Call
        && prompt.longest < term.lifetime()
    {
        let how_long = match term {
            Term::Call | Term::Session => "for the session",
            Term::For(_) => "beyond the session",
            Term::Always => "for good",
        };
        return Err(Failure::Refused(format!("no answer to this request may hold {how_long}")));
    }
    let _agent = TextAgent::start_if(prompt.request.level == Level::Authenticate || is_others(&pending));
    daemon.manager.decide(&pending.id, decision, scope).await?;
    if output.json {
        return output.json(&Decided { request: &pending.id, decision, scope: width.map(Width::as_str) });
    }
    let said = match answer {
        Answer::Deny | Answer::Edit(_) => "Denied".to_owned(),
        Answer::Split => "Asked one by one".to_owned(),
        Answer::Block(_, term) => format!("Denied, {}", words::term(term)),
        Answer::For(_, time) => format!("Let through, {}", words::term(Term::For(time))),
        Answer::Always(_) => format!("Let through, {}", words::term(Term::Always)),
        Answer::Once(_) if prompt.longest == Lifetime::Attempt => "Let through, this attempt only".to_owned(),
        Answer::Once(_) => format!("Let through, for call {}", prompt.request.call),
        Answer::Session(_) => format!("Let through, for session {}", prompt.request.session),
    };
    let reach = match (offered.flatten(), width) {
        (Some(offer), Some(width)) if width != Width::Exact => {
            format!(", and all of {}", words::scope(&prompt.request, offer, 200))
        }
        _ => String::new(),
    };
    let object = match (&prompt.request.execution, &prompt.request.destination) {
        // The wish names where they are.
        _ if prompt.group.is_some() => String::new(),
        (Some(execution), _) => format!(": {}", words::command(execution, 200)),
        // The wish names it.
        (None, Some(_)) => String::new(),
        (None, None) => format!(": {}", escaped_within(prompt.request.object.as_bytes(), 200)),
    };
    output.line(&format!("{said}: {}{object}{reach}", pending.wish()))
}

fn is_others(pending: &Pending) -> bool {
    pending.user != nix::unistd::getuid().as_raw()
}
