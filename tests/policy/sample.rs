//! Profiles, requests and random paths for the other modules.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use gated::common::access::{Access, Level};
use gated::common::decision::{Lifetime, Limits};
use gated::common::exec::{Command, Program, Step};
use gated::common::id::{CallId, RequestId, SessionId};
use gated::common::path::RawPath;
use gated::common::request::{Operation, Request, RuleRef, Who};
use gated::policy::{Bounds, Context, PolicyError, Profile, ProfileSelector, load};
use proptest::prelude::*;

pub const CALL: CallId = CallId(1);
pub const OTHER_CALL: CallId = CallId(2);

pub fn path(text: &str) -> RawPath {
    RawPath::from(text)
}

/// Of a session that nothing outlives.
pub fn bounds(home: &RawPath) -> Bounds<'_> {
    Bounds { home, limits: Limits::SESSION }
}

pub fn context() -> Context {
    Context { home: path("/home/user"), user: "user".to_owned(), cwd: path("/home/user/project") }
}

/// Files by path; whatever is not here is not found.
#[derive(Clone, Default)]
pub struct Files(pub BTreeMap<PathBuf, String>);

impl Files {
    pub fn with(mut self, file: &str, text: &str) -> Files {
        self.0.insert(PathBuf::from(file), text.to_owned());
        self
    }

    pub fn read(&self, file: &Path) -> io::Result<String> {
        self.0.get(file).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    pub fn load(&self, name: &str) -> Result<Profile, PolicyError> {
        load(ProfileSelector::Name(name.to_owned()), &context(), &|file| self.read(file))
    }
}

/// Loads one file, called `p.toml`.
pub fn load_text(text: &str, context: &Context) -> Result<Profile, PolicyError> {
    load(ProfileSelector::File(PathBuf::from("p.toml")), context, &|file| {
        Files::default().with("p.toml", text).read(file)
    })
}

/// A file with this after its header.
pub fn with_header(rest: &str) -> String {
    format!("schema = 1\n[profile]\nname = \"p\"\n{rest}")
}

/// The profile of a file with this after its header.
pub fn profile(rest: &str) -> Profile {
    load_text(&with_header(rest), &context()).unwrap()
}

pub fn request(object: &str, is_directory: bool, remember: Lifetime) -> Request {
    Request {
        id: RequestId(1),
        session: SessionId("0000000a".to_owned()),
        call: CALL,
        who: Who { pid: 1, program: path("/bin/sh"), argv: Vec::new(), cwd: path("/") },
        access: Access::Write,
        operation: Operation::Create,
        object: path(object),
        is_directory,
        other: None,
        level: Level::Ask,
        rule: RuleRef { profile: "p".into(), id: "r".into(), file: "p.toml".into(), line: 1, reason: None },
        remember,
        group: None,
        execution: None,
        destination: None,
        service: None,
        remember_for: None,
    }
}

/// Few enough names that random patterns and random paths meet.
pub fn any_name() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => prop::sample::select(vec!["a", "b", "c", ".env", ".git", "hooks"]).prop_map(str::to_owned),
        1 => "[ab.]{1,4}".prop_filter("no dots alone", |name| name != "." && name != ".."),
    ]
}

pub fn any_path() -> impl Strategy<Value = RawPath> {
    prop::collection::vec(any_name(), 0..6).prop_map(|names| RawPath::from(format!("/{}", names.join("/")).as_str()))
}

/// The text of a pattern.
pub fn any_pattern() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        6 => any_name(),
        1 => Just("*".to_owned()),
        1 => "[ab]?\\*[ab.]?(\\*[ab]?)?".prop_filter("`**` stands alone", |name| !name.contains("**")),
        2 => Just("**".to_owned()),
    ];
    (any::<bool>(), prop::collection::vec(part, 0..5)).prop_map(|(floating, parts)| {
        let front = if floating && !parts.is_empty() { "**/" } else { "/" };
        format!("{front}{}", parts.join("/"))
    })
}

pub fn any_level() -> impl Strategy<Value = Level> {
    prop::sample::select(vec![Level::Allow, Level::Notify, Level::Ask, Level::Authenticate, Level::Deny])
}

/// A command as the supervisor finds it. The first word is the program's path; argv\[0\] is its name, or what stands before
/// an `=` in front: `git-push=/usr/bin/git origin`. What is below `/usr` or `/bin` is the system's.
pub fn command(line: &str) -> Command {
    let mut words = shlex::split(line).expect("words").into_iter();
    let first = words.next().expect("a program");
    let (called, program) = match first.split_once('=') {
        Some((called, program)) => (called.to_owned(), program.to_owned()),
        None => (first.rsplit('/').next().unwrap_or_default().to_owned(), first),
    };
    let argv = std::iter::once(called).chain(words).map(String::into_bytes).collect();
    let asked = Step { program: file(&program), argv };
    Command {
        asked,
        interpreters: Vec::new(),
        loader: None,
        operand: None,
        variables: Vec::new(),
        cwd: RawPath::from("/"),
        version: None,
    }
}

pub fn file(program: &str) -> Program {
    let is_of_system = ["/usr/", "/bin/", "/lib"].iter().any(|system| program.starts_with(system));
    Program { path: path(program), is_named: true, is_of_system }
}
