//! Answers from a file, for tests and for machines without a person. The file is the invoking user's, read by the client
//! and trusted as much as a person would be; the requests it is held against are a tool's.
//!
//! ```toml
//! [[answer]]
//! access = "write"            # absent: any access
//! object = "{workspace}/**"   # a pattern as in a profile; `~` and `{workspace}` are known
//! program = "/usr/bin/git"    # the same, of what would run: for commands only
//! argv = ["git", "push", "**"] # patterns on its words as in a profile: the first names the program for who reads it
//! host = ["*.npmjs.org:443"]  # names or addresses with their ports: for connections and listening sockets only
//! service = "@ssh_agent"      # what is behind a unix socket: for those only
//! answer = "once"             # deny, once, session, for, always, block, split
//! for = "1h"                  # how long: of `for` always, of `block` if not for the session: s, m, h, d
//! scope = "exact"             # exact, directory, tree; of commands exact, prefix, program;
//!                             # of connections exact, program, host, domain
//! after = "200ms"             # how long to think: ms, s or m
//! times = 1                   # how often it answers; absent: always
//! ```
//!
//! The first entry that fits and is not used up answers; what none fits is denied. Unknown keys are errors. Several requests
//! that are put as one are answered by an entry that fits each of them; where there is none, each is to be asked by itself.

use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;

use crate::common::access::Access;
use crate::common::argv::{ArgvError, ArgvPattern, Place, Strictness};
use crate::common::consent::{Answer, Asking, ConsentAgent, Member, Prompt};
use crate::common::decision::{Term, Width};
use crate::common::net::{HostTerm, HostTermError, Service};
use crate::common::path::RawPath;
use crate::common::request::Request;
use crate::common::scope::Pattern;

/// The longest that an entry may think.
const LONGEST: Duration = Duration::from_secs(3600);

/// The longest time that an answer can be for: ten years.
const MOST: Duration = Duration::from_secs(3653 * 86_400);

/// A script that cannot be used, with line and column from 1; fit for one line on stderr.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}:{column}: {message}")]
pub struct ScriptError {
    pub file: String,
    pub line: usize,
    pub column: usize,
    pub message: String,
}

/// What `~` and `{workspace}` at the beginning of a pattern stand for.
#[derive(Clone, Debug, Default)]
pub struct Places {
    pub home: Option<RawPath>,
    pub workspace: Option<RawPath>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    answer: Vec<Table>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    access: Option<Access>,
    object: Option<Spanned<String>>,
    program: Option<Spanned<String>>,
    argv: Option<Spanned<Vec<Words>>>,
    host: Option<Spanned<Words>>,
    service: Option<Service>,
    answer: Spanned<Word>,
    #[serde(rename = "for")]
    time: Option<Spanned<String>>,
    #[serde(default)]
    scope: Width,
    after: Option<Spanned<String>>,
    times: Option<u32>,
}

/// One place of `argv`, or the hosts.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Words {
    One(String),
    Any(Vec<String>),
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Word {
    Deny,
    Once,
    Session,
    For,
    Always,
    /// For the session, or for the time that is said.
    Block,
    Split,
}

#[derive(Debug)]
struct Entry {
    access: Option<Access>,
    object: Option<Pattern>,
    program: Option<Pattern>,
    argv: Option<ArgvPattern>,
    host: Option<Vec<HostTerm>>,
    service: Option<Service>,
    answer: Answer,
    after: Duration,
    /// Uses left; `None` for any number.
    left: Option<u32>,
}

/// `--consent script:FILE`.
#[derive(Debug)]
pub struct Script {
    name: String,
    entries: Vec<Entry>,
}

impl Script {
    /// Reads a script. `file` is its name for errors and records.
    pub fn parse(file: &str, text: &str, places: &Places) -> Result<Script, ScriptError> {
        let fail = |at: usize, message: String| error(file, text, at, message);
        let read: File = toml::from_str(text)
            .map_err(|error| fail(error.span().map_or(0, |span| span.start), error.message().replace('\n', ", ")))?;
        let mut entries = Vec::with_capacity(read.answer.len());
        for table in read.answer {
            let read_pattern = |text: Option<Spanned<String>>| {
                let read = |text: Spanned<String>| {
                    pattern(text.get_ref(), places).map_err(|message| fail(text.span().start, message))
                };
                text.map(read).transpose()
            };
            let read_words = |words: Spanned<Vec<Words>>| {
                argv(words.get_ref()).map_err(|error| fail(words.span().start, format!("`argv`: {error}")))
            };
            let read_hosts = |words: Spanned<Words>| {
                hosts(words.get_ref()).map_err(|error| fail(words.span().start, format!("`host`: {error}")))
            };
            let after = table.after.map_or(Ok(Duration::ZERO), |after| {
                delay(after.get_ref()).ok_or_else(|| {
                    let message = "a delay of up to an hour was expected, such as \"200ms\", \"2s\" or \"1m\"";
                    fail(after.span().start, message.to_owned())
                })
            });
            let time = table.time.map(|time| {
                long(time.get_ref()).ok_or_else(|| {
                    let message = "a time was expected, such as \"90s\", \"10m\", \"8h\" or \"7d\"";
                    fail(time.span().start, message.to_owned())
                })
            });
            let at = table.answer.span().start;
            let answer = match (*table.answer.get_ref(), time.transpose()?) {
                (Word::For, None) => return Err(fail(at, "this answer needs `for`".to_owned())),
                (Word::For, Some(time)) => Answer::For(table.scope, time),
                (Word::Block, time) => Answer::Block(table.scope, time.map_or(Term::Session, Term::For)),
                (_, Some(_)) => return Err(fail(at, "`for` is of the answers `for` and `block`".to_owned())),
                (Word::Deny, None) => Answer::Deny,
                (Word::Once, None) => Answer::Once(table.scope),
                (Word::Session, None) => Answer::Session(table.scope),
                (Word::Always, None) => Answer::Always(table.scope),
                (Word::Split, None) => Answer::Split,
            };
            entries.push(Entry {
                access: table.access,
                object: read_pattern(table.object)?,
                program: read_pattern(table.program)?,
                argv: table.argv.map(read_words).transpose()?,
                host: table.host.map(read_hosts).transpose()?,
                service: table.service,
                answer,
                after: after?,
                left: table.times,
            });
        }
        Ok(Script { name: format!("script:{file}"), entries })
    }

    /// Takes one use of the first entry that fits; of a group one for each member, if it is the same entry that fits all.
    fn choose(&mut self, prompt: &Prompt) -> (Answer, Duration) {
        let request = prompt.request.as_ref();
        let first =
            |request: &Request| self.entries.iter().position(|entry| entry.left != Some(0) && entry.fits(request));
        let (at, uses) = match &prompt.group {
            None => (first(request), 1),
            Some(group) => {
                let of = |member: &Member| {
                    let (operation, object) = (member.operation, member.object.clone());
                    first(&Request { operation, object, ..request.clone() })
                };
                let mut each = group.members.iter().map(of);
                let one = each.next().flatten();
                // Of what members would reach more counts than their names.
                let is_whole = group.members.len() == group.count && request.destination.is_none();
                let is_all = is_whole && each.all(|other| other == one);
                let uses = u32::try_from(group.count).unwrap_or(u32::MAX);
                // What is around all of them is more than what is around each.
                let fits_all = |entry: &Entry| {
                    entry.answer.width().is_none_or(|width| width == Width::Exact)
                        && entry.left.is_none_or(|left| left >= uses)
                };
                if !is_all || !one.and_then(|at| self.entries.get(at)).is_none_or(fits_all) {
                    return (Answer::Split, Duration::ZERO);
                }
                (one, uses)
            }
        };
        let Some(entry) = at.and_then(|at| self.entries.get_mut(at)) else { return (Answer::Deny, Duration::ZERO) };
        entry.left = entry.left.map(|left| left.saturating_sub(uses));
        (entry.answer.clone(), entry.after)
    }
}

impl Entry {
    fn fits(&self, request: &Request) -> bool {
        self.access.is_none_or(|access| access == request.access)
            && self.object.as_ref().is_none_or(|pattern| pattern.matches(&request.object))
            && self.fits_command(request)
            && self.fits_host(request)
            && self.service.is_none_or(|service| request.service == Some(service))
    }

    /// Whether what the entry says of a command holds for what would run; always where it says nothing of one.
    fn fits_command(&self, request: &Request) -> bool {
        if self.program.is_none() && self.argv.is_none() {
            return true;
        }
        let Some(execution) = &request.execution else { return false };
        let word = |at: usize| Some(execution.argv.get(at.checked_add(1)?)?.as_bytes());
        let words = |pattern: &ArgvPattern| execution.words_left_out == 0 && pattern.matches(word, Strictness::Exact);
        self.program.as_ref().is_none_or(|pattern| pattern.matches(&request.object))
            && self.argv.as_ref().is_none_or(words)
    }
}

impl Entry {
    /// Whether what the entry says of hosts holds for what would be reached, under any of its names as policy has it; always
    /// where it says nothing of one. A name that is looked up has no port yet.
    fn fits_host(&self, request: &Request) -> bool {
        let Some(terms) = &self.host else { return true };
        let Some(destination) = &request.destination else { return false };
        terms.iter().any(|term| match destination.socket_address() {
            Some(address) => {
                term.matches_address(address.ip(), address.port())
                    || destination.names().any(|name| term.matches_name(name, address.port()))
            }
            None => destination.names().any(|name| term.matches_name(name, term.ports.first())),
        })
    }
}

impl ConsentAgent for Script {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn ask<'a>(&'a mut self, prompt: &'a Prompt) -> Asking<'a> {
        let (answer, after) = self.choose(prompt);
        Box::pin(async move {
            if !after.is_zero() {
                tokio::time::sleep(after).await;
            }
            Ok(answer)
        })
    }
}

/// The column counts characters.
fn error(file: &str, text: &str, at: usize, message: String) -> ScriptError {
    let before = text.get(..at).unwrap_or(text);
    let in_line = before.rsplit('\n').next().unwrap_or_default();
    let (line, column) = (before.matches('\n').count().saturating_add(1), in_line.chars().count().saturating_add(1));
    ScriptError { file: file.to_owned(), line, column, message }
}

/// A pattern whose first component may be `~` or `{workspace}`.
fn pattern(text: &str, places: &Places) -> Result<Pattern, String> {
    let (first, below) = text.split_once('/').map_or((text, None), |(first, below)| (first, Some(below)));
    let place = match first {
        "~" => Some(places.home.as_ref().ok_or("`~` is not known here")?),
        "{workspace}" => Some(places.workspace.as_ref().ok_or("`{workspace}` is not known here")?),
        _ => None,
    };
    let full = match (place, below) {
        (None, _) => text.to_owned(),
        (Some(place), None) => Pattern::literal(place).to_string(),
        // Of `/` nothing is left but the slash that follows.
        (Some(place), Some(below)) => format!("{}/{below}", Pattern::literal(place).to_string().trim_end_matches('/')),
    };
    Pattern::parse(&full).map_err(|error| format!("`{text}`: {error}"))
}

fn argv(words: &[Words]) -> Result<ArgvPattern, ArgvError> {
    let place = |words: &Words| match words {
        Words::One(word) => Place::parse(word),
        Words::Any(words) => Place::alternatives(words.iter().map(String::as_str)),
    };
    ArgvPattern::new(words.iter().map(place).collect::<Result<_, _>>()?)
}

fn hosts(words: &Words) -> Result<Vec<HostTerm>, HostTermError> {
    match words {
        Words::One(host) => Ok(vec![host.parse()?]),
        Words::Any(hosts) => hosts.iter().map(|host| host.parse()).collect(),
    }
}

/// Milliseconds, seconds or minutes, as a whole number with its unit.
fn delay(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at(text.find(|character: char| !character.is_ascii_digit())?);
    let number: u64 = number.parse().ok()?;
    let delay = match unit {
        "ms" => Duration::from_millis(number),
        "s" => Duration::from_secs(number),
        "m" => Duration::from_secs(number.checked_mul(60)?),
        _ => return None,
    };
    (delay <= LONGEST).then_some(delay)
}

/// Seconds, minutes, hours or days, as a whole number with its unit; not none.
pub fn long(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at(text.find(|character: char| !character.is_ascii_digit())?);
    let number: u64 = number.parse().ok().filter(|number| *number > 0)?;
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return None,
    };
    number.checked_mul(seconds).map(Duration::from_secs).filter(|time| *time <= MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_are_told_with_their_place() {
        let told = |text: &str| Script::parse("a.toml", text, &Places::default()).unwrap_err().to_string();
        assert!(told("[[answer]]\nanswer = \"once\"\nwhat = 1\n").starts_with("a.toml:3:1: unknown field `what`"));
        assert!(told("[[answer]]\nanswer = \"yes\"\n").starts_with("a.toml:2:10: unknown variant `yes`"));
        assert!(
            told("[[answer]]\nanswer = \"deny\"\nobject = \"x/y\"\n").starts_with("a.toml:3:10: `x/y`: an absolute")
        );
        assert!(told("[[answer]]\nanswer = \"deny\"\nobject = \"~/x\"\n").starts_with("a.toml:3:10: `~` is not known"));
        assert!(told("[[answer]]\nanswer = \"deny\"\nafter = \"soon\"\n").starts_with("a.toml:3:9: a delay"));
        assert!(told("[[answer]]\naccess = \"write\"\n").contains("missing field `answer`"));
        assert!(told("[[answer]\n").starts_with("a.toml:1:"));
    }

    #[test]
    fn words_of_commands_are_patterns() {
        let read = |argv: &str| {
            Script::parse("a.toml", &format!("[[answer]]\nanswer = \"once\"\nargv = {argv}\n"), &Places::default())
        };
        assert!(read(r#"["git", ["push", "pull"], "**", "--*"]"#).is_ok());
        assert!(read("[]").unwrap_err().to_string().starts_with("a.toml:3:8: `argv`: no words"));
        assert!(read(r#"["**"]"#).unwrap_err().to_string().starts_with("a.toml:3:8: `argv`: the first word"));
        assert!(read(r#"["git", []]"#).unwrap_err().to_string().starts_with("a.toml:3:8: `argv`: an empty list"));
        assert!(read(r#"["git", 1]"#).is_err());
    }

    #[test]
    fn hosts_and_services_are_known_words() {
        let read = |line: &str| {
            Script::parse("a.toml", &format!("[[answer]]\nanswer = \"once\"\n{line}\n"), &Places::default())
        };
        for good in
            [r#"host = "example.org:443""#, r#"host = ["*.example.org:*", "[::1]:80"]"#, r#"service = "@docker""#]
        {
            assert!(read(good).is_ok(), "{good}");
        }
        assert!(
            read(r#"host = "example.org""#).unwrap_err().to_string().starts_with("a.toml:3:8: `host`: `host:port`")
        );
        assert!(read(r#"service = "docker""#).unwrap_err().to_string().starts_with("a.toml:3:11: unknown variant"));
    }

    #[test]
    fn delays_have_units_and_a_limit() {
        assert_eq!(delay("200ms"), Some(Duration::from_millis(200)));
        assert_eq!(delay("2s"), Some(Duration::from_secs(2)));
        assert_eq!(delay("60m"), Some(LONGEST));
        for wrong in ["", "5", "s", "61m", "-1s", "1h", "99999999999999999999s"] {
            assert_eq!(delay(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn answers_that_last_say_for_how_long() {
        let read = |lines: &str| Script::parse("a.toml", &format!("[[answer]]\n{lines}\n"), &Places::default());
        for good in [
            "answer = \"for\"\nfor = \"1h\"",
            "answer = \"block\"\nfor = \"7d\"",
            "answer = \"block\"",
            "answer = \"always\"",
            "answer = \"split\"",
        ] {
            assert!(read(good).is_ok(), "{good}");
        }
        let told = |lines: &str| read(lines).unwrap_err().to_string();
        assert!(told("answer = \"for\"").starts_with("a.toml:2:10: this answer needs `for`"));
        assert!(told("answer = \"once\"\nfor = \"1h\"").starts_with("a.toml:2:10: `for` is of"));
        for wrong in ["0s", "1w", "h", "5000d", ""] {
            assert!(told(&format!("answer = \"for\"\nfor = \"{wrong}\"")).starts_with("a.toml:3:7: a time"), "{wrong}");
        }
    }
}
