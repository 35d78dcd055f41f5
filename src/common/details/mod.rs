//! A prompt and its answer as they travel on the bus: the `details`, `decision` and `scope` of `org.gated.Gated1.Agent.Ask`
//! (`dbus/org.gated.Gated1.Agent.xml`), which are also the `Details` of a request and the arguments of `Decide`. Pure data:
//! the daemon encodes prompts and decodes answers, consent agents the other way round, and neither believes the other.
//!
//! Keys of [`Details`] that are not known here are passed over, so that an agent of an older build can still ask; those of a
//! scope are refused, so that nobody is given less or more than they meant.

mod answer;
mod exec;
mod group;
mod net;
mod notice;

use std::rc::Rc;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::{Error as WordError, StrDeserializer};
use zbus::{DeserializeDict, OwnedVariant, SerializeDict, Type, Variant};

use super::access::Access;
use super::consent::{Group, Offer, Prompt, Suggestion};
use super::decision::Width;
use super::exec::SHOWN_BYTES;
use super::id::{CallId, RequestId, SessionId};
use super::mask;
use super::net::Destination;
use super::path::RawPath;
use super::request::{Operation, Request, RuleRef, Who};
use super::scope::{MAX_PATTERN, Pattern};
use super::text::Untrusted;
pub use answer::{MAX_EDITED, answer_from_bus, answer_to_bus};
use exec::ParentOnBus;
pub use net::MAX_NAMES;
use net::NameOnBus;
pub use notice::NoticeDetails;

/// Bytes of a path at the most; above what the kernel resolves (`PATH_MAX`).
pub const MAX_PATH: usize = 4 * 4096;
/// Words of a command line at the most, as in [`Who::argv`].
pub const MAX_WORDS: usize = 64;
/// Bytes of a word at the most: a masked word may be longer than the word was.
pub const MAX_WORD: usize = 4 * 4096;
/// Bytes of all words of a command to be run at the most, each with its NUL, and what masking may add.
pub const MAX_ARGV: usize = 4 * SHOWN_BYTES;
/// Bytes of a rule's profile, id, file or reason at the most.
pub const MAX_TEXT: usize = 64 << 10;
/// The longest that a request can still wait, in microseconds: a day.
const MAX_REMAINING: u64 = 24 * 3600 * 1_000_000;

/// What one side does not take from the other. Names the key and nothing of its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DetailsError {
    #[error("{0} is longer than it can be")]
    TooLong(&'static str),
    #[error("{0} is not one of its words")]
    Word(&'static str),
    #[error("{0} is not an absolute path")]
    NotAbsolute(&'static str),
    #[error("{0} has a NUL in it")]
    Nul(&'static str),
    #[error("{0} is out of its range")]
    Range(&'static str),
    #[error("{0} is not an id")]
    Id(&'static str),
    #[error("offers are not each a width and its scope, narrowest first and beginning with exact")]
    Offers,
    #[error("the scope has a key that does not belong there, or a value that is none")]
    Scope,
    #[error("{0} is missing")]
    Missing(&'static str),
    #[error("{0} does not belong to this access and operation")]
    Misplaced(&'static str),
}

/// The `a{sv}` of a prompt. Its fields are not checked before [`Details::question`].
#[derive(Clone, Debug, Default, PartialEq, Eq, SerializeDict, DeserializeDict, Type, Variant, OwnedVariant)]
#[zbus(signature = "a{sv}", rename_all = "kebab-case")]
pub struct Details {
    pub session: String,
    pub call: u32,
    /// Whose session it is.
    pub user: u32,
    pub pid: u32,
    pub program: Vec<u8>,
    /// With secrets masked.
    pub argv: Vec<Vec<u8>>,
    pub cwd: Vec<u8>,
    pub access: String,
    pub operation: String,
    pub object: Vec<u8>,
    pub directory: bool,
    pub other: Option<Vec<u8>>,
    pub level: String,
    pub rule_profile: String,
    pub rule_id: String,
    pub rule_file: String,
    pub rule_line: u32,
    pub rule_reason: Option<String>,
    pub offers: Vec<(String, String)>,
    pub longest: String,
    /// The longest time that an answer may hold, in microseconds, where the rule has one.
    pub longest_for: Option<u64>,
    pub attempts: u32,
    pub waiting: u32,
    pub remaining: u64,
    /// This and the keys after it: of [`Access::Exec`] only, as in [`super::exec::Execution`].
    pub exec_argv: Option<Vec<Vec<u8>>>,
    pub exec_words_left_out: Option<u32>,
    pub exec_interpreters: Option<Vec<Vec<u8>>>,
    pub exec_variables: Option<Vec<Vec<u8>>>,
    /// Each pid, program and argv.
    pub exec_parents: Option<Vec<ParentOnBus>>,
    pub exec_new: Option<bool>,
    pub exec_first: Option<bool>,
    /// This and the keys after it: of [`Access::Connect`] and [`Access::Bind`] only, as in [`super::net::Destination`]. An
    /// address in its canonical text; absent, as its port and zone, where a name is looked up.
    pub net_address: Option<String>,
    pub net_port: Option<u16>,
    /// Each a name in A-labels and how it is known; the latest first.
    pub net_names: Option<Vec<NameOnBus>>,
    pub net_zone: Option<String>,
    pub net_transport: Option<String>,
    /// What reverse DNS says, unverified.
    pub net_hint: Option<Vec<u8>>,
    /// Of [`Access::Unix`] only, if it is a known one.
    pub service: Option<String>,
    /// The longest time of an answer `for`, in microseconds, where there is one.
    pub max_for: Option<u64>,
    /// This and the keys after it: of several requests that are put as one.
    pub group_count: Option<u32>,
    pub group_place: Option<String>,
    /// Each an operation and an object.
    pub group_members: Option<Vec<(String, Vec<u8>)>>,
    /// What the person has answered again and again: how often, the width, the term, and its microseconds where it is `for`.
    pub suggested: Option<(u32, String, String, u64)>,
}

/// A prompt that came over the bus, checked. Unlike [`Prompt`] it can go from one thread to another.
#[derive(Clone, Debug)]
pub struct Question {
    pub request: Request,
    /// Whose session it is.
    pub user: u32,
    offers: Vec<Offer>,
    max_for: Option<Duration>,
    group: Option<Group>,
    suggestion: Option<Suggestion>,
    attempts: usize,
    waiting: usize,
    deadline: Instant,
}

impl From<Question> for Prompt {
    fn from(question: Question) -> Prompt {
        let Question { request, offers, max_for, group, suggestion, attempts, waiting, deadline, .. } = question;
        let (id, longest, request) = (request.id, request.remember, Rc::new(request));
        Prompt { id, longest, request, offers, max_for, group, suggestion, attempts, waiting, deadline }
    }
}

impl Details {
    /// A prompt for a session of `user`, for sending at once. Secrets in its command line are masked.
    pub fn of(prompt: &Prompt, user: u32) -> Details {
        let Request { session, call, who, access, operation, object, is_directory, other, level, rule, .. } =
            prompt.request.as_ref();
        let offers = prompt.offers.iter().map(|offer| (offer.width.as_str().to_owned(), offer.scope.clone()));
        let remaining = prompt.deadline.saturating_duration_since(Instant::now());
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let execution = prompt.request.execution.as_deref();
        let destination = prompt.request.destination.as_deref();
        let address = destination.and_then(Destination::socket_address);
        Details {
            session: session.0.clone(),
            call: call.0,
            user,
            pid: u32::try_from(who.pid).unwrap_or_default(),
            program: who.program.as_bytes().to_vec(),
            argv: mask::argv(&who.argv).iter().map(|word| word.as_bytes().to_vec()).collect(),
            cwd: who.cwd.as_bytes().to_vec(),
            access: access.as_str().to_owned(),
            operation: operation.as_str().to_owned(),
            object: object.as_bytes().to_vec(),
            directory: *is_directory,
            other: other.as_ref().map(|other| other.as_bytes().to_vec()),
            level: level.as_str().to_owned(),
            rule_profile: without_nul(&rule.profile),
            rule_id: without_nul(&rule.id),
            rule_file: without_nul(&rule.file),
            rule_line: rule.line,
            rule_reason: rule.reason.as_deref().map(without_nul),
            offers: offers.collect(),
            longest: prompt.longest.as_str().to_owned(),
            longest_for: prompt.request.remember_for.map(microseconds),
            attempts: count(prompt.attempts),
            waiting: count(prompt.waiting),
            remaining: u64::try_from(remaining.as_micros()).unwrap_or(MAX_REMAINING).min(MAX_REMAINING),
            exec_argv: execution.map(|own| exec::bytes_of(&mask::argv(&own.argv))),
            exec_words_left_out: execution.map(|own| own.words_left_out),
            exec_interpreters: execution.map(|own| own.interpreters.iter().map(|it| it.as_bytes().to_vec()).collect()),
            exec_variables: execution.map(|own| exec::bytes_of(&mask::variables(&own.variables))),
            exec_parents: execution.map(|own| own.parents.iter().map(exec::parent_of).collect()),
            exec_new: execution.map(|own| own.is_new),
            exec_first: execution.map(|own| own.is_first),
            net_address: address.map(|address| address.ip().to_string()),
            net_port: address.map(|address| address.port()),
            net_names: destination.map(net::names_of),
            net_zone: destination.and_then(Destination::zone).map(|zone| zone.as_str().to_owned()),
            net_transport: destination.map(|own| own.transport.as_str().to_owned()),
            net_hint: destination.and_then(net::hint_of),
            service: prompt.request.service.map(|service| service.as_str().to_owned()),
            max_for: prompt.max_for.map(microseconds),
            group_count: prompt.group.as_ref().map(|group| count(group.count)),
            group_place: prompt.group.as_ref().map(|group| without_nul(&group.place)),
            group_members: prompt.group.as_ref().map(group::members_of),
            suggested: prompt.suggestion.as_ref().map(group::suggestion_of),
        }
    }

    /// What is asked, if every value is one that a daemon of ours can have sent; `request` is the other argument of `Ask`.
    pub fn question(mut self, request: &str) -> Result<Question, DetailsError> {
        let id = request_id(request)?;
        let access = word("access", &self.access)?;
        let operation: Operation = word("operation", &self.operation)?;
        let execution = exec::execution(&mut self, access)?;
        let destination = net::destination(&mut self, access, operation)?;
        let service = net::service(&mut self, access)?;
        let group = group::group(&mut self)?;
        let suggestion = group::suggestion(&mut self)?;
        if self.argv.len() > MAX_WORDS || self.argv.iter().any(|word| word.len() > MAX_WORD) {
            return Err(DetailsError::TooLong("argv"));
        }
        let other = match (self.other, operation) {
            (None, _) => None,
            // The text of a symbolic link is what its maker chose.
            (Some(text), Operation::Symlink) => Some(bytes("other", text)?),
            (Some(path), _) => Some(absolute("other", path)?),
        };
        let object = match access {
            Access::Connect | Access::Bind => bytes("object", self.object)?,
            Access::Read | Access::Write | Access::Exec | Access::Unix => absolute("object", self.object)?,
        };
        if self.attempts == 0 {
            return Err(DetailsError::Range("attempts"));
        }
        let remaining = match self.remaining {
            0..=MAX_REMAINING => Duration::from_micros(self.remaining),
            _ => return Err(DetailsError::Range("remaining")),
        };
        let now = Instant::now();
        Ok(Question {
            request: Request {
                id,
                session: session_id(&self.session)?,
                call: CallId(self.call),
                who: Who {
                    pid: i32::try_from(self.pid).map_err(|_| DetailsError::Range("pid"))?,
                    // The kernel's text of both may be none that begins with a slash.
                    program: bytes("program", self.program)?,
                    argv: self.argv.into_iter().map(Untrusted::new).collect(),
                    cwd: bytes("cwd", self.cwd)?,
                },
                access,
                operation,
                object,
                is_directory: self.directory,
                other,
                level: word("level", &self.level)?,
                rule: RuleRef {
                    profile: text("rule-profile", self.rule_profile)?,
                    id: text("rule-id", self.rule_id)?,
                    file: text("rule-file", self.rule_file)?,
                    line: self.rule_line,
                    reason: self.rule_reason.map(|reason| text("rule-reason", reason)).transpose()?,
                },
                remember: word("longest", &self.longest)?,
                // Who may answer is the daemon's to know.
                group: None,
                execution: execution.map(Box::new),
                destination: destination.map(Box::new),
                service,
                remember_for: self.longest_for.map(Duration::from_micros),
            },
            user: self.user,
            offers: offers(&self.offers, access)?,
            max_for: self.max_for.map(Duration::from_micros),
            group,
            suggestion,
            attempts: usize::try_from(self.attempts).unwrap_or(usize::MAX),
            waiting: usize::try_from(self.waiting).unwrap_or(usize::MAX),
            deadline: now.checked_add(remaining).unwrap_or(now),
        })
    }
}

fn microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// The id of a request as it stands on the bus: 32 lower-case hexadecimal digits.
pub fn request_id(text: &str) -> Result<RequestId, DetailsError> {
    hexadecimal(text, 32)
        .then(|| u128::from_str_radix(text, 16).ok())
        .flatten()
        .map(RequestId)
        .ok_or(DetailsError::Id("request"))
}

/// The id of a session as it stands on the bus: 8 lower-case hexadecimal digits.
pub fn session_id(text: &str) -> Result<SessionId, DetailsError> {
    hexadecimal(text, 8).then(|| SessionId(text.to_owned())).ok_or(DetailsError::Id("session"))
}

fn offers(pairs: &[(String, String)], access: Access) -> Result<Vec<Offer>, DetailsError> {
    let mut offers: Vec<Offer> = Vec::with_capacity(pairs.len().min(3));
    for (width, scope) in pairs {
        let width: Width = word("offers", width)?;
        let in_order = match offers.last() {
            None => width == Width::Exact,
            Some(before) => before.width < width,
        };
        // Of commands it is words to be shown, which no path bounds.
        let (longest, is_pattern) = match access {
            Access::Exec => (MAX_ARGV, false),
            Access::Connect | Access::Bind => (MAX_PATTERN, false),
            Access::Read | Access::Write | Access::Unix => (MAX_PATTERN, true),
        };
        if scope.len() > longest {
            return Err(DetailsError::TooLong("offers"));
        }
        let readable = !is_pattern || Pattern::parse(scope).is_ok();
        if !in_order || !readable {
            return Err(DetailsError::Offers);
        }
        offers.push(Offer { width, scope: scope.clone() });
    }
    if offers.is_empty() { Err(DetailsError::Offers) } else { Ok(offers) }
}

/// A word of an enumeration, as the type's serialization names it.
fn word<'de, T: Deserialize<'de>>(key: &'static str, text: &'de str) -> Result<T, DetailsError> {
    let words: StrDeserializer<'de, WordError> = text.into_deserializer();
    T::deserialize(words).map_err(|_| DetailsError::Word(key))
}

fn hexadecimal(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn bytes(key: &'static str, bytes: Vec<u8>) -> Result<RawPath, DetailsError> {
    if bytes.len() > MAX_PATH {
        Err(DetailsError::TooLong(key))
    } else if bytes.contains(&0) {
        Err(DetailsError::Nul(key))
    } else {
        Ok(RawPath::new(bytes))
    }
}

fn absolute(key: &'static str, path: Vec<u8>) -> Result<RawPath, DetailsError> {
    let path = bytes(key, path)?;
    if path.as_bytes().first() == Some(&b'/') { Ok(path) } else { Err(DetailsError::NotAbsolute(key)) }
}

fn text(key: &'static str, text: String) -> Result<String, DetailsError> {
    if text.len() > MAX_TEXT { Err(DetailsError::TooLong(key)) } else { Ok(text) }
}

/// A string of the bus cannot hold a NUL; a policy file's can.
fn without_nul(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

#[cfg(test)]
mod tests;
