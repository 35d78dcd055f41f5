//! A prompt and its answer as they travel on the bus: the `details`, `decision` and `scope` of `org.gated.Gated1.Agent.Ask`
//! (`dbus/org.gated.Gated1.Agent.xml`), which are also the `Details` of a request and the arguments of `Decide`. Pure data:
//! the daemon encodes prompts and decodes answers, consent agents the other way round, and neither believes the other.
//!
//! Keys of [`Details`] that are not known here are passed over, so that an agent of an older build can still ask; those of a
//! scope are refused, so that nobody is given less or more than they meant.

mod answer;
mod exec;

use std::rc::Rc;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::{Error as WordError, StrDeserializer};
use zbus::{DeserializeDict, OwnedVariant, SerializeDict, Type, Variant};

use super::access::Access;
use super::consent::{Offer, Prompt};
use super::decision::Width;
use super::exec::SHOWN_BYTES;
use super::id::{CallId, RequestId, SessionId};
use super::mask;
use super::path::RawPath;
use super::request::{Operation, Request, RuleRef, Who};
use super::scope::{MAX_PATTERN, Pattern};
use super::text::Untrusted;
pub use answer::{MAX_EDITED, answer_from_bus, answer_to_bus};
use exec::ParentOnBus;

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
    #[error("{0} is for programs that are run, and nothing else")]
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
}

/// A prompt that came over the bus, checked. Unlike [`Prompt`] it can go from one thread to another.
#[derive(Clone, Debug)]
pub struct Question {
    pub request: Request,
    /// Whose session it is.
    pub user: u32,
    offers: Vec<Offer>,
    attempts: usize,
    waiting: usize,
    deadline: Instant,
}

impl From<Question> for Prompt {
    fn from(question: Question) -> Prompt {
        let Question { request, offers, attempts, waiting, deadline, .. } = question;
        Prompt { longest: request.remember, request: Rc::new(request), offers, attempts, waiting, deadline }
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
        }
    }

    /// What is asked, if every value is one that a daemon of ours can have sent; `request` is the other argument of `Ask`.
    pub fn question(mut self, request: &str) -> Result<Question, DetailsError> {
        let id = request_id(request)?;
        let access = word("access", &self.access)?;
        let operation: Operation = word("operation", &self.operation)?;
        let execution = exec::execution(&mut self, access)?;
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
                destination: None,
                service: None,
                remember_for: None,
            },
            user: self.user,
            offers: offers(&self.offers, access)?,
            attempts: usize::try_from(self.attempts).unwrap_or(usize::MAX),
            waiting: usize::try_from(self.waiting).unwrap_or(usize::MAX),
            deadline: now.checked_add(remaining).unwrap_or(now),
        })
    }
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
mod tests {
    use proptest::prelude::*;
    use proptest::strategy::ValueTree;
    use zbus::wire::serialized::Context;
    use zbus::wire::{LE, to_bytes};

    use super::*;
    use crate::common::access::Level;
    use crate::common::decision::Lifetime;
    use crate::common::exec::Parent;

    fn path() -> impl Strategy<Value = RawPath> {
        prop::collection::vec(1u8.., 0..200).prop_map(|tail| RawPath::new([b"/".as_slice(), &tail].concat()))
    }

    /// What a supervisor can ask and a broker make of it.
    fn prompt() -> impl Strategy<Value = Prompt> {
        let operation = prop_oneof![
            Just(Operation::OpenWrite),
            Just(Operation::MakeDirectory),
            Just(Operation::Rename),
            Just(Operation::Symlink),
            Just(Operation::ChangeXattr),
            Just(Operation::Execute),
            Just(Operation::List),
        ];
        let access = prop_oneof![Just(Access::Write), Just(Access::Exec), Just(Access::Read)];
        let execution = super::exec::tests::execution();
        let level = prop_oneof![Just(Level::Ask), Just(Level::Authenticate)];
        let lifetime = prop_oneof![Just(Lifetime::Attempt), Just(Lifetime::Call), Just(Lifetime::Session)];
        let who = (0..i32::MAX, prop::collection::vec(1u8.., 0..80), prop::collection::vec("\\PC{0,30}", 0..8), path());
        let object = (path(), any::<bool>(), prop::option::of(path()), 1..=3usize);
        let rule = ("\\PC{0,20}", "\\PC{0,20}", "\\PC{0,20}", any::<u32>(), prop::option::of("\\PC{0,40}"));
        let rest = (any::<u128>(), any::<u32>(), any::<u32>(), 1..99usize, 0..99usize, 0..600u64);
        let all = (who, (access, operation, level, lifetime), object, rule, rest, execution);
        all.prop_map(|(who, words, object, rule, rest, execution)| {
            let request = Request {
                id: RequestId(rest.0),
                session: SessionId(format!("{:08x}", rest.1)),
                call: CallId(rest.2),
                who: Who {
                    pid: who.0,
                    program: RawPath::new(who.1),
                    argv: who.2.into_iter().map(Untrusted::new).collect(),
                    cwd: who.3,
                },
                access: words.0,
                operation: words.1,
                object: object.0,
                is_directory: object.1,
                other: object.2,
                level: words.2,
                rule: RuleRef { profile: rule.0, id: rule.1, file: rule.2, line: rule.3, reason: rule.4 },
                remember: words.3,
                group: None,
                execution: (words.0 == Access::Exec).then(|| Box::new(execution)),
                destination: None,
                service: None,
                remember_for: None,
            };
            let parent = request.object.parent().unwrap_or_else(|| request.object.clone());
            let all = [
                (Width::Exact, Pattern::literal(&request.object)),
                (Width::Directory, Pattern::children_of(&parent)),
                (Width::Tree, Pattern::tree_of(&parent)),
            ];
            let offers = all.map(|(width, pattern)| Offer { width, scope: pattern.to_string() });
            Prompt {
                request: Rc::new(request),
                offers: offers.into_iter().take(object.3).collect(),
                longest: words.3,
                attempts: rest.3,
                waiting: rest.4,
                deadline: Instant::now() + Duration::from_secs(rest.5),
            }
        })
    }

    fn some(access: Access) -> Prompt {
        let mut runner = proptest::test_runner::TestRunner::deterministic();
        let strategy = prompt().prop_filter("of this access", move |prompt| prompt.request.access == access);
        strategy.new_tree(&mut runner).unwrap().current()
    }

    fn sample() -> Details {
        Details { operation: "open-write".into(), ..Details::of(&some(Access::Write), 1000) }
    }

    proptest! {
        #[test]
        fn a_prompt_arrives_as_it_was_sent(prompt in prompt(), user in any::<u32>()) {
            let details = Details::of(&prompt, user);
            let wire = to_bytes(Context::new(LE, 0), &details).unwrap();
            let (decoded, _): (Details, _) = wire.deserialize().unwrap();
            prop_assert_eq!(&decoded, &details);
            let question = decoded.question(&prompt.request.id.to_string()).unwrap();
            prop_assert_eq!(question.user, user);
            let arrived = Prompt::from(question);
            let mut expected = prompt.request.as_ref().clone();
            expected.who.argv = mask::argv(&expected.who.argv);
            if let Some(execution) = &mut expected.execution {
                execution.argv = mask::argv(&execution.argv);
                execution.variables = mask::variables(&execution.variables);
                for parent in &mut execution.parents {
                    parent.argv = mask::argv(&parent.argv);
                }
            }
            prop_assert_eq!(arrived.request.as_ref(), &expected);
            prop_assert_eq!(&arrived.offers, &prompt.offers);
            prop_assert_eq!((arrived.longest, arrived.attempts), (prompt.longest, prompt.attempts));
            prop_assert_eq!(arrived.waiting, prompt.waiting);
            let late = arrived.deadline.max(prompt.deadline) - arrived.deadline.min(prompt.deadline);
            prop_assert!(late < Duration::from_secs(5), "{late:?}");
        }

        #[test]
        fn whatever_arrives_is_taken_or_refused(
            words in prop::collection::vec("[a-z-]{0,12}", 4),
            object in prop::collection::vec(any::<u8>(), 0..40),
            scopes in prop::collection::vec(("exact|directory|tree|x", "[/*a{\\\\]{0,8}"), 0..5),
            request in "[0-9a-fg]{31,33}",
            remaining in any::<u64>(),
        ) {
            let [access, operation, level, longest] = <[String; 4]>::try_from(words).unwrap();
            let details = Details { access, operation, level, longest, object, offers: scopes, remaining, ..sample() };
            // Must not panic; what passes holds what the type promises.
            if let Ok(question) = details.question(&request) {
                prop_assert_eq!(question.offers.first().map(|offer| offer.width), Some(Width::Exact));
            }
        }
    }

    #[test]
    fn secrets_of_a_command_line_do_not_reach_the_bus() {
        let mut prompt = Prompt::from(sample().question(&RequestId(7).to_string()).unwrap());
        let request = Rc::get_mut(&mut prompt.request).unwrap();
        request.who.argv = ["curl", "--token", "abc"].map(Untrusted::new).to_vec();
        assert_eq!(Details::of(&prompt, 0).argv, [b"curl".to_vec(), b"--token".to_vec(), b"***".to_vec()]);
    }

    #[test]
    fn secrets_of_what_would_run_do_not_reach_the_bus() {
        let mut prompt = some(Access::Exec);
        let request = Rc::get_mut(&mut prompt.request).unwrap();
        let words = || ["curl", "--token", "abc"].map(Untrusted::new).to_vec();
        let execution = request.execution.as_mut().unwrap();
        execution.argv = words();
        execution.variables = vec![Untrusted::new("GIT_TOKEN=abc")];
        execution.parents = vec![Parent { pid: 2, program: "/usr/bin/sh".into(), argv: words() }];
        let details = Details::of(&prompt, 0);
        let masked = vec![b"curl".to_vec(), b"--token".to_vec(), b"***".to_vec()];
        assert_eq!(details.exec_argv, Some(masked.clone()));
        assert_eq!(details.exec_variables, Some(vec![b"GIT_TOKEN=***".to_vec()]));
        assert_eq!(details.exec_parents, Some(vec![(2, b"/usr/bin/sh".to_vec(), masked)]));
    }

    #[test]
    fn each_value_of_what_would_run_is_checked() {
        type Change = fn(&mut Details);
        let cases: [(Change, DetailsError); 10] = [
            (|it| it.exec_argv = None, DetailsError::Missing("exec-argv")),
            (|it| it.exec_first = None, DetailsError::Missing("exec-first")),
            (|it| it.exec_argv = Some(vec![vec![b'x'; MAX_ARGV]]), DetailsError::TooLong("exec-argv")),
            (|it| it.exec_argv = Some(vec![b"a\0b".to_vec()]), DetailsError::Nul("exec-argv")),
            (|it| it.exec_interpreters = Some(vec![vec![b'/']; 17]), DetailsError::TooLong("exec-interpreters")),
            (|it| it.exec_variables = Some(vec![b"x".to_vec()]), DetailsError::Word("exec-variables")),
            (|it| it.exec_variables = Some(vec![b"A=\0".to_vec()]), DetailsError::Nul("exec-variables")),
            (|it| it.exec_parents = Some(vec![(1, vec![], vec![]); 17]), DetailsError::TooLong("exec-parents")),
            (|it| it.exec_parents = Some(vec![(u32::MAX, vec![], vec![])]), DetailsError::Range("exec-parents")),
            (|it| it.access = "write".into(), DetailsError::Misplaced("exec-argv")),
        ];
        for (change, expected) in cases {
            let mut details = Details { operation: "execute".into(), ..Details::of(&some(Access::Exec), 1000) };
            details.clone().question(&RequestId(1).to_string()).unwrap();
            change(&mut details);
            assert_eq!(details.question(&RequestId(1).to_string()).unwrap_err(), expected);
        }
    }

    /// As much as a supervisor may send, with as much for masking as there can be.
    #[test]
    fn the_longest_command_fits_through_the_bus() {
        let mut prompt = some(Access::Exec);
        for word in ["", "x", "pat=", "-pat:pat=", "cookie:x;pat=x"] {
            let count = SHOWN_BYTES / (word.len() + 1);
            let request = Rc::get_mut(&mut prompt.request).unwrap();
            request.execution.as_mut().unwrap().argv = vec![Untrusted::new(word); count];
            let wire = to_bytes(Context::new(LE, 0), &Details::of(&prompt, 0)).unwrap();
            let (decoded, _): (Details, _) = wire.deserialize().unwrap();
            let question = decoded.question(&RequestId(1).to_string()).unwrap();
            assert_eq!(question.request.execution.unwrap().argv.len(), count, "{word:?}");
        }
    }

    #[test]
    fn each_value_is_checked() {
        type Change = fn(&mut Details);
        let cases: [(Change, DetailsError); 17] = [
            (|it| it.session = "XYZ".into(), DetailsError::Id("session")),
            (|it| it.pid = u32::MAX, DetailsError::Range("pid")),
            (|it| it.program = vec![b'x'; MAX_PATH + 1], DetailsError::TooLong("program")),
            (|it| it.argv = vec![vec![]; MAX_WORDS + 1], DetailsError::TooLong("argv")),
            (|it| it.argv = vec![vec![b'x'; MAX_WORD + 1]], DetailsError::TooLong("argv")),
            (|it| it.cwd = b"/a\0b".to_vec(), DetailsError::Nul("cwd")),
            (|it| it.access = "fly".into(), DetailsError::Word("access")),
            (|it| it.operation = "Open".into(), DetailsError::Word("operation")),
            (|it| it.object = b"relative".to_vec(), DetailsError::NotAbsolute("object")),
            (|it| it.other = Some(b"relative".to_vec()), DetailsError::NotAbsolute("other")),
            (|it| it.level = "".into(), DetailsError::Word("level")),
            (|it| it.rule_reason = Some("x".repeat(MAX_TEXT + 1)), DetailsError::TooLong("rule-reason")),
            (|it| it.offers = vec![], DetailsError::Offers),
            (|it| it.offers = vec![("tree".into(), "/x/**".into())], DetailsError::Offers),
            (|it| it.offers = vec![("exact".into(), "x".into())], DetailsError::Offers),
            (|it| it.attempts = 0, DetailsError::Range("attempts")),
            (|it| it.remaining = u64::MAX, DetailsError::Range("remaining")),
        ];
        for (change, expected) in cases {
            let mut details = sample();
            change(&mut details);
            assert_eq!(details.question(&RequestId(1).to_string()).unwrap_err(), expected);
        }
        assert_eq!(sample().question("1").unwrap_err(), DetailsError::Id("request"));
        let link = Details { operation: "symlink".into(), other: Some(b"../elsewhere".to_vec()), ..sample() };
        assert!(link.question(&RequestId(1).to_string()).is_ok());
    }
}
