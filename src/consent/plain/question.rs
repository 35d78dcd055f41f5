//! A question in plain numbered lines, and what a line that somebody typed means. Pure. Everything of a tool's is escaped.

use std::time::{Duration, Instant};

use crate::common::access::Level;
use crate::common::consent::{Answer, Offer, Prompt};
use crate::common::decision::{Lifetime, Term, Width};
use crate::common::text::{self, Untrusted};
use crate::consent::words;

/// Columns of a value that was not asked for in full.
const COLUMNS: usize = 400;

/// What a line means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// And in words.
    Answer(Answer, String),
    /// The question again, with all of everything.
    More,
}

/// The lines of a question. `is_whole`: nothing is cut.
pub fn question(prompt: &Prompt, number: u64, is_whole: bool) -> Vec<String> {
    let limit = if is_whole { usize::MAX } else { COLUMNS };
    let request = prompt.request.as_ref();
    let who = text::quoted_argv_within([request.who.program.file_name()], 64);
    let mut lines = vec![String::new()];
    let is_first = request.execution.as_ref().is_some_and(|execution| execution.is_first);
    lines.push(match is_first {
        true => format!("Question {number}: gated-run was told to run this command."),
        false => format!("Question {number}: {who} wants to {}.", words::wished(prompt, limit)),
    });
    if let Some(group) = &prompt.group {
        let shown = if is_whole { usize::MAX } else { 3 };
        for member in group.members.iter().take(shown) {
            lines.push(format!("{}: {}", words::label(request), words::member(request, group, member, limit)));
        }
        lines.extend(words::further(group, shown.min(group.members.len())));
    }
    match &request.execution {
        Some(execution) => {
            lines.push(format!("command: {}", words::command(execution, limit)));
            lines.push(format!("program: {}", text::escaped_within(request.object.as_bytes(), limit)));
            if execution.is_new {
                lines.push(format!("warning: it was {}", words::NEW));
            }
            let interpreters = execution.interpreters.iter();
            lines.extend(interpreters.map(|path| format!("run by: {}", text::escaped_within(path.as_bytes(), limit))));
            if !execution.variables.is_empty() {
                let variables = execution.variables.iter().map(Untrusted::as_bytes);
                lines.push(format!("with: {}", text::quoted_argv_within(variables, limit)));
            }
            if !is_first {
                let who = &request.who;
                lines.push(format!("asked by: {}", words::process(who.pid, &who.program, &who.argv, limit)));
                let shown = if is_whole { usize::MAX } else { 2 };
                for parent in execution.parents.iter().take(shown) {
                    lines.push(format!(
                        "called by: {}",
                        words::process(parent.pid, &parent.program, &parent.argv, limit)
                    ));
                }
            }
        }
        None => {
            let said = if prompt.group.is_some() { Vec::new() } else { words::lines(request) };
            if said.is_empty() && prompt.group.is_none() {
                lines.push(format!("object: {}", text::escaped_within(request.object.as_bytes(), limit)));
            }
            lines.extend(said.iter().map(|line| format!("{}: {}", line.label, line.within(limit))));
            if let Some(other) = request.other.as_ref().filter(|_| prompt.group.is_none()) {
                let other = text::escaped_within(other.as_bytes(), limit);
                lines.push(format!("{}: {other}", words::other(request.operation)));
            }
            let who = &request.who;
            lines.push(format!("asked by: {}", words::process(who.pid, &who.program, &who.argv, limit)));
        }
    }
    lines.push(format!("in: {}", text::escaped_within(request.who.cwd.as_bytes(), limit)));
    let rule = &request.rule;
    let line = if rule.line > 0 { format!(" line {}", rule.line) } else { String::new() };
    let rule_place = format!("{} of profile {}, {}{line}", rule.id, rule.profile, rule.file);
    lines.push(format!("rule: {}", text::escaped_within(rule_place.as_bytes(), limit)));
    if let Some(reason) = &rule.reason {
        lines.push(format!("reason: {}", text::escaped_within(reason.as_bytes(), limit)));
    }
    if request.level == Level::Authenticate {
        lines.push("A yes needs a proof of who you are.".to_owned());
    }
    if let Some(suggestion) = &prompt.suggestion {
        let term = words::term(suggestion.term);
        lines.push(format!("You allowed this {} times; suggested is to allow it {term}.", suggestion.times));
    }
    if let Some(time) = words::longest_for(request) {
        lines.push(format!("a yes holds: {time}"));
    }
    let left = prompt.deadline.saturating_duration_since(Instant::now()).as_secs();
    lines.push(format!("time left: {}", words::time(Duration::from_secs(left))));
    lines.push("Answers:".to_owned());
    for (at, (_, said)) in (1_usize..).zip(answers(prompt)) {
        lines.push(format!("{at}. {said}"));
    }
    if prompt.longest >= Lifetime::Until {
        lines.push("or: for 2h (or 30m, 7d), allow for that time, in every session with this profile".to_owned());
    }
    lines.push("Type a number and Enter; \"more\" says everything in full.".to_owned());
    lines
}

/// What can be answered, each in words.
fn answers(prompt: &Prompt) -> Vec<(Answer, String)> {
    let mut answers = vec![(Answer::Deny, "deny".to_owned())];
    let yes = [
        (Lifetime::Attempt, Term::Call, "allow once"),
        (Lifetime::Session, Term::Session, "allow for the session"),
        (Lifetime::Persistent, Term::Always, "allow always, in every session with this profile"),
    ];
    for (least, term, said) in yes {
        if prompt.longest < least {
            continue;
        }
        let said = match prompt.longest {
            Lifetime::Attempt => "allow this attempt",
            _ => said,
        };
        for offer in &prompt.offers {
            answers.push((yes_to(offer.width, term), format!("{said}: {}", covered(prompt, offer))));
        }
    }
    if prompt.group.is_some() {
        answers.push((Answer::Split, "ask for each of them by itself".to_owned()));
    }
    answers
}

fn yes_to(width: Width, term: Term) -> Answer {
    match term {
        Term::Call => Answer::Once(width),
        Term::Session => Answer::Session(width),
        Term::For(time) => Answer::For(width, time),
        Term::Always => Answer::Always(width),
    }
}

fn covered(prompt: &Prompt, offer: &Offer) -> String {
    let reach = words::reach_of(prompt, offer.width);
    match offer.width {
        Width::Exact => reach,
        _ => format!("{reach}: {}", words::scope(&prompt.request, offer, COLUMNS)),
    }
}

/// What a line means: a number, or words; what to say where it means nothing.
pub fn read(line: &str, prompt: &Prompt) -> Result<Reply, String> {
    let answers = answers(prompt);
    if let Ok(number) = line.trim_end_matches('.').parse::<usize>() {
        let chosen = number.checked_sub(1).and_then(|at| answers.into_iter().nth(at));
        return chosen
            .map(|(answer, said)| Reply::Answer(answer, said))
            .ok_or_else(|| "There is no such number.".to_owned());
    }
    let lower = line.to_lowercase();
    let mut words = lower.split_whitespace();
    let (first, second, third) = (words.next().unwrap_or_default(), words.next(), words.next());
    let term = match first {
        "" => return Err("Type a number and Enter.".to_owned()),
        "more" | "m" => return Ok(Reply::More),
        "deny" | "d" | "no" => return Ok(Reply::Answer(Answer::Deny, "deny".to_owned())),
        "split" if prompt.group.is_some() => {
            return Ok(Reply::Answer(Answer::Split, "ask for each of them by itself".to_owned()));
        }
        "once" | "o" => Term::Call,
        "session" | "s" => Term::Session,
        "always" | "a" => Term::Always,
        "for" | "f" => Term::For(second.and_then(time).ok_or("A time such as 30m, 2h or 7d is needed.")?),
        _ => return Err("That is no answer. Type one of the numbers, or deny, once or session.".to_owned()),
    };
    if term.lifetime() > Lifetime::Call && term.lifetime() > prompt.longest {
        return Err("No answer to this may hold for so long.".to_owned());
    }
    if let (Some(time), Some(most)) = (term.time(), prompt.max_for)
        && time > most
    {
        return Err(format!("{} at the most.", words::time(most)));
    }
    let width = if term.time().is_some() { third } else { second };
    let width = width.unwrap_or(Width::Exact.as_str());
    let offer = prompt.offers.iter().find(|offer| offer.width.as_str() == width);
    let offer = offer.ok_or("That scope is not among the answers.")?;
    let said = format!("allow, {}: {}", crate::consent::words::term(term), covered(prompt, offer));
    Ok(Reply::Answer(yes_to(offer.width, term), said))
}

/// `30m`, `2h`, `7d`, `90s`.
pub fn time(typed: &str) -> Option<Duration> {
    let (number, unit) = typed.split_at(typed.find(|character: char| !character.is_ascii_digit())?);
    let number: u64 = number.parse().ok()?;
    let seconds = match unit {
        "s" => 1,
        "m" | "min" => 60,
        "h" => 3600,
        "d" => 86_400,
        "w" => 7 * 86_400,
        _ => return None,
    };
    let time = Duration::from_secs(number.checked_mul(seconds)?);
    // What a clock can count.
    (!time.is_zero() && time <= Duration::from_secs(3650 * 86_400)).then_some(time)
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;
    use crate::common::access::Access;
    use crate::common::id::{CallId, RequestId, SessionId};
    use crate::common::path::RawPath;
    use crate::common::request::{Operation, Request, RuleRef, Who};

    fn prompt(object: &[u8], longest: Lifetime) -> Prompt {
        let request = Request {
            id: RequestId(1),
            session: SessionId("5e550000".into()),
            call: CallId(1),
            who: Who { pid: 9, program: "/usr/bin/npm".into(), argv: vec![Untrusted::new("npm")], cwd: "/work".into() },
            access: Access::Write,
            operation: Operation::Create,
            object: RawPath::new(object),
            is_directory: false,
            other: None,
            level: Level::Ask,
            rule: RuleRef { profile: "p".into(), id: "r".into(), file: "p.toml".into(), line: 3, reason: None },
            remember: longest,
            remember_for: None,
            group: None,
            execution: None,
            destination: None,
            service: None,
        };
        let offers = [(Width::Exact, "/srv/x"), (Width::Directory, "/srv/*")];
        let offers = offers.map(|(width, scope)| Offer { width, scope: scope.to_owned() }).to_vec();
        Prompt::new(Rc::new(request), offers, Instant::now() + Duration::from_millis(60_900))
    }

    #[test]
    fn a_question_is_plain_numbered_lines() {
        let lines = question(&prompt(b"/srv/\x1b[2Jx\n1. deny", Lifetime::Session), 7, false);
        assert_eq!(
            lines,
            [
                "",
                "Question 7: npm wants to create this file.",
                "object: /srv/\\x1b[2Jx\\n1. deny",
                "asked by: npm (/usr/bin/npm, pid 9)",
                "in: /work",
                "rule: r of profile p, p.toml line 3",
                "time left: 1 minute",
                "Answers:",
                "1. deny",
                "2. allow once: this file",
                "3. allow once: everything directly in its directory: /srv/*",
                "4. allow for the session: this file",
                "5. allow for the session: everything directly in its directory: /srv/*",
                "Type a number and Enter; \"more\" says everything in full.",
            ]
        );
    }

    #[test]
    fn numbers_and_words_are_answers_and_nothing_else_is() {
        let own = prompt(b"/srv/x", Lifetime::Session);
        let answer = |line: &str| match read(line, &own) {
            Ok(Reply::Answer(answer, _)) => Some(answer),
            _ => None,
        };
        assert_eq!(answer("1"), Some(Answer::Deny));
        assert_eq!(answer("3."), Some(Answer::Once(Width::Directory)));
        assert_eq!(answer("session directory"), Some(Answer::Session(Width::Directory)));
        assert_eq!(answer("Once"), Some(Answer::Once(Width::Exact)));
        assert_eq!(read("more", &own), Ok(Reply::More));
        for line in
            ["", "0", "6", "99999999999999999999", "yes", "y", "always", "for 2h", "once tree", "split", "\x1b[A"]
        {
            assert_eq!(answer(line), None, "{line:?}");
        }
        let mut lasting = prompt(b"/srv/x", Lifetime::Persistent);
        lasting.max_for = Some(Duration::from_secs(7200));
        let answer = |line: &str| match read(line, &lasting) {
            Ok(Reply::Answer(answer, _)) => Some(answer),
            _ => None,
        };
        assert_eq!(answer("for 2h directory"), Some(Answer::For(Width::Directory, Duration::from_secs(7200))));
        assert_eq!((answer("for 3h"), answer("for ever")), (None, None));
        assert_eq!(answer("7"), Some(Answer::Always(Width::Directory)));
    }
}
