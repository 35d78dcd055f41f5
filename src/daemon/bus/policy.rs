//! `org.gated.Gated1.Policy`: explanations, endings, and policy files that are installed. Runs as root, on messages of anybody
//! who may talk to the system bus.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

use serde::Serialize;
use zbus::message::Header;
use zbus::{Connection, OwnedVariant};

use super::Doing;
use super::error::Error;
use super::handle::Handle;
use super::manager::session_id;
use super::options::{Options, path};
use crate::common::access::Access;
use crate::common::exec::{Command, Program, Step};
use crate::common::net::{HostTerm, Knowledge, Transport};
use crate::common::path::RawPath;
use crate::daemon::core::Core;
use crate::daemon::install::Target;
use crate::policy::explain::{self, Assumed};
use crate::policy::load::MAX_FILE;
use crate::policy::question::{Asked, Question};
use crate::policy::sockets::Services;

/// Words, variables and interpreters of a command at the most, and bytes of all of them.
const MOST_WORDS: usize = 4096;
const MOST_BYTES: usize = 256 << 10;
/// Bytes of all endings that go over the bus: what is older is left out.
const MOST_TOLD: usize = 4 << 20;

pub struct Policy {
    handle: Handle,
}

impl Policy {
    pub fn new(handle: Handle) -> Policy {
        Policy { handle }
    }
}

#[zbus::interface(name = "org.gated.Gated1.Policy", introspection_docs = false)]
impl Policy {
    #[zbus(out_args("explanations"))]
    async fn explain(
        &self,
        session: &str,
        question: HashMap<String, OwnedVariant>,
        #[zbus(header)] header: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<Vec<String>, Error> {
        let session = session_id(session)?;
        let asked = Asking::read(Options::new(question))?;
        let explain = move |core: Rc<Core>, caller| -> Doing<_> {
            let (session, asked) = (session.clone(), asked.clone());
            Box::pin(async move {
                let live = core.managed(&caller, &session)?;
                let services = Services::new(&live.profile.home, live.owner(), None);
                core.explain_all(&caller, &session, &asked.questions(&services))
            })
        };
        written(&self.handle.call(connection, &header, explain).await?)
    }

    #[zbus(out_args("endings"))]
    async fn why(
        &self,
        filter: HashMap<String, OwnedVariant>,
        #[zbus(header)] header: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<Vec<String>, Error> {
        Options::new(filter).end()?;
        let tell = move |core: Rc<Core>, caller| -> Doing<_> { Box::pin(async move { core.endings(&caller) }) };
        let mut room = MOST_TOLD;
        let mut told = written(&self.handle.call(connection, &header, tell).await?)?;
        let fits = |line: &&String| {
            room = room.saturating_sub(line.len());
            room > 0
        };
        let kept = told.iter().rev().take_while(fits).count();
        Ok(told.split_off(told.len().saturating_sub(kept)))
    }

    #[zbus(out_args("file"))]
    async fn install(
        &self,
        kind: &str,
        name: &str,
        text: Vec<u8>,
        options: HashMap<String, OwnedVariant>,
        #[zbus(header)] header: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<String, Error> {
        Options::new(options).end()?;
        let target = Target::new(kind, name).ok_or_else(|| invalid("name"))?;
        let text = String::from_utf8(text).ok().filter(|text| text.len() <= MAX_FILE).ok_or_else(|| invalid("text"))?;
        let install = move |core: Rc<Core>, caller| -> Doing<_> {
            let (target, text) = (target.clone(), text.clone());
            Box::pin(async move { core.install(&caller, &target, &text).await })
        };
        let path = self.handle.call(connection, &header, install).await?;
        Ok(path.to_string_lossy().into_owned())
    }
}

fn invalid(what: &str) -> Error {
    Error::InvalidArgument(what.to_owned())
}

fn written<T: Serialize>(values: &[T]) -> Result<Vec<String>, Error> {
    let json = |value: &T| serde_json::to_string(value).map_err(|_| Error::Internal(String::new()));
    values.iter().map(json).collect()
}

/// What is asked, as it came over the bus and before it is known for whom.
#[derive(Clone)]
enum Asking {
    Path(Access, RawPath, bool),
    Exec(Box<Command>),
    Hosts(Vec<Question>),
    Socket(RawPath),
}

impl Asking {
    fn read(mut keys: Options) -> Result<Asking, Error> {
        let wrong = |key: &str| Error::InvalidOption(key.to_owned());
        let access: String = keys.take("access")?.ok_or_else(|| wrong("access"))?;
        let access = Access::ALL.into_iter().find(|known| known.as_str() == access).ok_or_else(|| wrong("access"))?;
        let asked = match access {
            Access::Read | Access::Write => {
                let object = keys.path("object")?.ok_or_else(|| wrong("object"))?;
                Asking::Path(access, object, keys.take("directory")?.unwrap_or(false))
            }
            Access::Unix => Asking::Socket(keys.path("object")?.ok_or_else(|| wrong("object"))?),
            Access::Exec => Asking::Exec(Box::new(command(&mut keys)?)),
            Access::Connect | Access::Bind => {
                let host: String = keys.take("host")?.ok_or_else(|| wrong("host"))?;
                let at: Option<String> = keys.take("at")?;
                let at = at.map(|at| at.parse::<IpAddr>().map_err(|_| wrong("at"))).transpose()?;
                let by = match keys.take("hosts-file")?.unwrap_or(false) {
                    true => Knowledge::HostsFile,
                    false => Knowledge::Resolved,
                };
                let transport = if keys.take("udp")?.unwrap_or(false) { Transport::Udp } else { Transport::Tcp };
                let asked = match access {
                    Access::Bind => host.parse::<SocketAddr>().ok().map(|address| vec![explain::listening(address)]),
                    _ => match host.parse::<HostTerm>() {
                        Ok(term) => explain::connection(&term, &Assumed { at, by }, transport),
                        Err(_) => host.parse().ok().map(|name| vec![explain::look_up(name)]),
                    },
                };
                Asking::Hosts(asked.ok_or_else(|| wrong("host"))?)
            }
        };
        keys.end()?;
        Ok(asked)
    }

    fn questions(self, services: &Services) -> Vec<Question> {
        match self {
            Asking::Path(access, path, is_directory) => {
                vec![Question::of(Asked::Path { access, path, is_directory })]
            }
            Asking::Exec(command) => vec![Question::of(Asked::Exec(command))],
            Asking::Hosts(questions) => questions,
            Asking::Socket(path) => vec![explain::socket(services, &path)],
        }
    }
}

/// A command as its caller found it; what it says of its programs is believed, for it asks for itself.
fn command(keys: &mut Options) -> Result<Command, Error> {
    let wrong = |key: &str| Error::InvalidOption(key.to_owned());
    let object = keys.path("object")?.ok_or_else(|| wrong("object"))?;
    let is_of_system: bool = keys.take("of-system")?.unwrap_or(false);
    let of = |path: RawPath| Program { path, is_named: true, is_of_system };
    let argv = words(keys, "argv")?;
    let interpreters = words(keys, "interpreters")?.into_iter().map(path);
    let interpreters: Option<Vec<RawPath>> = interpreters.collect();
    let mut steps: Vec<Step> = Vec::new();
    for interpreter in interpreters.ok_or_else(|| wrong("interpreters"))? {
        let before = steps.last().map_or((&object, argv.as_slice()), |step| (&step.program.path, step.argv.as_slice()));
        let script = before.0.as_bytes().to_vec();
        let own = [interpreter.as_bytes().to_vec(), script];
        let argv = own.into_iter().chain(before.1.iter().skip(1).cloned()).collect();
        steps.push(Step { program: of(interpreter), argv });
    }
    Ok(Command {
        asked: Step { program: of(object), argv },
        interpreters: steps,
        loader: None,
        operand: keys.path("operand")?.map(of),
        variables: words(keys, "environment")?,
        cwd: keys.path("directory")?.unwrap_or_else(|| RawPath::from("/")),
        version: None,
    })
}

fn words(keys: &mut Options, key: &'static str) -> Result<Vec<Vec<u8>>, Error> {
    let words: Vec<Vec<u8>> = keys.take(key)?.unwrap_or_default();
    let bytes: usize = words.iter().map(|word| word.len().saturating_add(1)).sum();
    let is_plain = words.len() <= MOST_WORDS && bytes <= MOST_BYTES && !words.iter().any(|word| word.contains(&0));
    if is_plain { Ok(words) } else { Err(Error::InvalidOption(key.to_owned())) }
}
