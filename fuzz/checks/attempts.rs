//! What a session might want, written in lines: `r /path`, `w /path`, `x command line`, `c host:port`, `b address:port`,
//! `u /socket`.

use std::net::SocketAddr;

use gated::common::access::{Access, Level};
use gated::common::exec::{Command, Program, Step};
use gated::common::net::{Destination, HostTerm, Knowledge, Transport};
use gated::common::path::RawPath;
use gated::common::shellwords;
use gated::policy::explain::{self, Assumed};
use gated::policy::question::{Asked, Question};
use gated::policy::sockets::Services;
use gated::policy::{Context, Grants, Policy};

/// More are not looked at.
const MOST: usize = 12;

pub fn context() -> Context {
    Context { home: "/home/user".into(), user: "user".to_owned(), cwd: "/home/user/project".into() }
}

/// Those that are always there, and those of the lines.
pub fn all<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Vec<Question> {
    let always: [&[u8]; 9] = [
        b"w /home/user/project/src/main.rs",
        b"w /home/user/.bashrc",
        b"r /home/user/.ssh/id_ed25519",
        b"w /home/user/project/.git/hooks/pre-commit",
        b"x /usr/bin/git push --force origin",
        b"x /home/user/project/run.sh -c 'rm -rf /'",
        b"c registry.npmjs.org:443",
        b"c 127.0.0.1:8080",
        b"u /run/user/1000/bus",
    ];
    always.into_iter().chain(lines.take(MOST)).flat_map(questions).collect()
}

fn questions(line: &[u8]) -> Vec<Question> {
    let path = |rest: &[u8]| rest.starts_with(b"/").then(|| RawPath::new(rest));
    let text = |rest: &[u8]| String::from_utf8_lossy(rest).into_owned();
    let files = |access, rest: &[u8]| {
        let is_directory = rest.ends_with(b"/");
        path(rest).map(|path| vec![Question::of(Asked::Path { access, path, is_directory })])
    };
    let asked = match line {
        [b'r', b' ', rest @ ..] => files(Access::Read, rest),
        [b'w', b' ', rest @ ..] => files(Access::Write, rest),
        [b'x', b' ', rest @ ..] => command(&text(rest)).map(|own| vec![Question::of(Asked::Exec(Box::new(own)))]),
        [b'c', b' ', rest @ ..] => text(rest).parse().ok().and_then(|term: HostTerm| {
            let assumed = Assumed { at: None, by: Knowledge::Resolved };
            explain::connection(&term, &assumed, Transport::Tcp)
        }),
        [b'b', b' ', rest @ ..] => text(rest).parse().ok().map(|at: SocketAddr| {
            let destination = Box::new(Destination::address(at, Transport::Tcp, Vec::new()));
            vec![Question::of(Asked::Reach { access: Access::Bind, destination })]
        }),
        [b'u', b' ', rest @ ..] => path(rest).map(|path| {
            let service = Services::new(&context().home, 1000, None).of(&path);
            vec![Question::of(Asked::Socket { path, service })]
        }),
        _ => None,
    };
    asked.unwrap_or_default()
}

fn command(line: &str) -> Option<Command> {
    let argv = shellwords::split(line).ok()?;
    let path = argv.first().filter(|name| name.starts_with(b"/")).map(|name| RawPath::new(name.as_slice()))?;
    let is_of_system = path.as_bytes().starts_with(b"/usr/");
    Some(Command {
        asked: Step { program: Program { path, is_named: true, is_of_system }, argv },
        interpreters: Vec::new(),
        loader: None,
        operand: None,
        variables: Vec::new(),
        cwd: "/home/user/project".into(),
        version: None,
    })
}

/// What nobody has given an answer to.
pub fn levels(policy: &Policy, questions: &[Question]) -> Vec<Level> {
    questions.iter().map(|question| question.level(policy, &Grants::new())).collect()
}
