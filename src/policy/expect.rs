//! Files of expectations, with which somebody who writes profiles holds them to what they are for: what a profile is to decide
//! about an attempt. Runs as whoever reads the file; `gatedctl policy test`. Pure: nothing is looked for on the machine.

use std::net::{IpAddr, SocketAddr};

use serde::Deserialize;
use toml::Spanned;

use crate::common::access::{Access, Level};
use crate::common::exec::{Command, Program, Step};
use crate::common::net::{HostTerm, Knowledge, Service, Transport};
use crate::common::path::RawPath;

use super::explain::{self, Assumed};
use super::file::{Text, Versioned};
use super::load::{Context, PolicyError};
use super::question::{Asked, Question};
use super::sockets::Services;

/// The user number of who has no other: it is only in the places of some sockets.
const NOBODY_IN_PARTICULAR: u32 = 1000;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    schema: Spanned<i64>,
    #[serde(default)]
    context: ContextTable,
    #[serde(default)]
    expect: Vec<ExpectTable>,
}

impl Versioned for File {
    fn schema(&self) -> &Spanned<i64> {
        &self.schema
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ContextTable {
    home: Option<Spanned<String>>,
    cwd: Option<Spanned<String>>,
    user: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectTable {
    profile: Spanned<String>,
    access: Spanned<Access>,
    level: Level,
    rule: Option<String>,
    object: Option<Spanned<String>>,
    argv: Option<Spanned<Vec<String>>>,
    #[serde(default)]
    env: Vec<String>,
    host: Option<Spanned<String>>,
    at: Option<Spanned<String>>,
    #[serde(default)]
    hosts_file: bool,
    #[serde(default)]
    udp: bool,
    socket: Option<Spanned<String>>,
}

/// What one profile is to decide about one attempt.
#[derive(Clone, Debug)]
pub struct Expectation {
    /// A name, or a file as `--profile` has it.
    pub profile: String,
    pub level: Level,
    /// The `id` of the rule that is to decide.
    pub rule: Option<String>,
    pub question: Question,
    /// Where it stands: file, line, column.
    pub place: (String, u32, u32),
}

/// The expectations of a file, and for whom and where they are.
#[derive(Clone, Debug)]
pub struct Expectations {
    pub context: Context,
    pub all: Vec<Expectation>,
}

/// Reads a file. What `[context]` does not say is as in `context`.
pub fn parse(name: &str, text: &str, context: &Context) -> Result<Expectations, PolicyError> {
    let text = Text::new(name.to_owned(), text.to_owned());
    let file: File = text.parse()?;
    let path = |value: &Option<Spanned<String>>, otherwise: &RawPath| match value {
        None => Ok(otherwise.clone()),
        Some(value) if value.get_ref().starts_with('/') => Ok(RawPath::from(value.get_ref().as_str())),
        Some(value) => Err(text.error_at(value, "an absolute path was expected")),
    };
    let context = Context {
        home: path(&file.context.home, &context.home)?,
        cwd: path(&file.context.cwd, &context.cwd)?,
        user: file.context.user.unwrap_or_else(|| context.user.clone()),
    };
    let all = file.expect.iter().map(|table| {
        let (line, column) = text.place(table.profile.span().start);
        Ok(Expectation {
            profile: table.profile.get_ref().clone(),
            level: table.level,
            rule: table.rule.clone(),
            question: question(&text, table, &context)?,
            place: (text.name.clone(), line, column),
        })
    });
    Ok(Expectations { all: all.collect::<Result<_, PolicyError>>()?, context })
}

fn question(text: &Text, table: &ExpectTable, context: &Context) -> Result<Question, PolicyError> {
    let access = *table.access.get_ref();
    let missing = |key: &str| text.error_at(&table.access, format!("`{access}` needs `{key}`"));
    match access {
        Access::Read | Access::Write => {
            let object = table.object.as_ref().ok_or_else(|| missing("object"))?;
            let path = absolute(context, object.get_ref());
            Ok(Question::of(Asked::Path { access, path, is_directory: object.get_ref().ends_with('/') }))
        }
        Access::Exec => {
            let argv = table.argv.as_ref().map(|argv| argv.get_ref().as_slice()).unwrap_or_default();
            let named =
                table.object.as_ref().map(|object| object.get_ref().as_str()).or(argv.first().map(String::as_str));
            let path = program(context, named.ok_or_else(|| missing("argv"))?);
            let mut argv: Vec<Vec<u8>> = argv.iter().map(|word| word.clone().into_bytes()).collect();
            if argv.is_empty() {
                argv.push(path.file_name().to_vec());
            }
            let of_system = ["/usr", "/bin", "/sbin"].iter().any(|folder| path.is_within(&RawPath::from(*folder)));
            let program = Program { path, is_named: true, is_of_system: of_system };
            let mut variables: Vec<Vec<u8>> = table.env.iter().map(|variable| variable.clone().into_bytes()).collect();
            variables.sort();
            Ok(Question::of(Asked::Exec(Box::new(Command {
                asked: Step { program, argv },
                interpreters: Vec::new(),
                loader: None,
                operand: None,
                variables,
                cwd: context.cwd.clone(),
                version: None,
            }))))
        }
        Access::Connect => {
            let host = table.host.as_ref().ok_or_else(|| missing("host"))?;
            let wrong = |error: String| text.error_at(host, format!("`{}`: {error}", host.get_ref()));
            let at = table
                .at
                .as_ref()
                .map(|at| at.get_ref().parse::<IpAddr>().map_err(|_| text.error_at(at, "an address was expected")));
            let by = if table.hosts_file { Knowledge::HostsFile } else { Knowledge::Resolved };
            let assumed = Assumed { at: at.transpose()?, by };
            let transport = if table.udp { Transport::Udp } else { Transport::Tcp };
            let term: HostTerm = match host.get_ref().parse() {
                Ok(term) => term,
                Err(error) => match host.get_ref().parse() {
                    Ok(name) => return Ok(explain::look_up(name)),
                    Err(_) => return Err(wrong(format!("{error}"))),
                },
            };
            // Looking it up comes first; what is expected is the connection.
            let last = explain::connection(&term, &assumed, transport).and_then(|mut asked| asked.pop());
            last.ok_or_else(|| wrong("one host and one port were expected, without `*` and ranges".to_owned()))
        }
        Access::Bind => {
            let host = table.host.as_ref().ok_or_else(|| missing("host"))?;
            let address: SocketAddr = host
                .get_ref()
                .parse()
                .map_err(|_| text.error_at(host, "`ADDRESS:PORT` was expected, such as `127.0.0.1:3000`"))?;
            Ok(explain::listening(address))
        }
        Access::Unix => {
            let socket = table.socket.as_ref().ok_or_else(|| missing("socket"))?;
            if let Ok(service) = socket.get_ref().parse::<Service>() {
                let path = RawPath::from(format!("/{service}").as_str());
                return Ok(Question::of(Asked::Socket { path, service: Some(service) }));
            }
            let services = Services::new(&context.home, NOBODY_IN_PARTICULAR, None);
            Ok(explain::socket(&services, &absolute(context, socket.get_ref())))
        }
    }
}

/// `~/x`, `/x` or `x` without `.` and `..`: no link is followed.
fn absolute(context: &Context, written: &str) -> RawPath {
    let (base, rest) = match written.strip_prefix('~') {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => (context.home.clone(), rest),
        _ if written.starts_with('/') => (RawPath::from("/"), written),
        _ => (context.cwd.clone(), written),
    };
    rest.split('/').filter(|name| !name.is_empty() && *name != ".").fold(base, |path, name| match name {
        ".." => path.parent().unwrap_or(path),
        name => path.join(name.as_bytes()),
    })
}

/// A name alone is a program of the system's.
fn program(context: &Context, written: &str) -> RawPath {
    if written.contains('/') { absolute(context, written) } else { RawPath::from("/usr/bin").join(written.as_bytes()) }
}
