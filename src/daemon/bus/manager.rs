//! The object at the top: `org.gated.Gated1.Manager`, as `dbus/org.gated.Gated1.Manager.xml` says. Runs as root in the
//! daemon; every argument is any local user's.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::Rc;

use zbus::fdo::DBusProxy;
use zbus::message::Header;
use zbus::proxy::CacheProperties;
use zbus::{Connection, ObjectPath, OwnedFd, OwnedObjectPath, OwnedVariant, Variant, fdo};

use super::Doing;
use super::agent::BusAgent;
use super::error::Error;
use super::grants::rows;
use super::handle::{Handle, property};
use super::options::Options;
use crate::common::access::Access;
use crate::common::bus::{REQUESTS_PATH, SESSIONS_PATH};
use crate::common::details;
use crate::common::id::{GrantId, SessionId};
use crate::common::net::canonical;
use crate::common::path::RawPath;
use crate::common::wire::{self, Start, WindowSize};
use crate::daemon::core::Core;
use crate::daemon::orders::{Caller, Into, Opening, Order};
use crate::policy::publish::MAX_PUBLISHED;

/// Words of a command and of an environment at the most, and bytes of both: what execve(2) takes.
const MOST_WORDS: usize = 1 << 16;
const MOST_BYTES: usize = 2 << 20;

/// `a{sv}` as it is sent.
type Dict = HashMap<&'static str, Variant<'static>>;

pub struct Manager {
    handle: Handle,
    features: Vec<String>,
}

impl Manager {
    pub fn new(handle: Handle, features: Vec<String>) -> Manager {
        Manager { handle, features }
    }
}

fn invalid(what: &'static str) -> Error {
    Error::InvalidArgument(what.to_owned())
}

pub(super) fn session_id(text: &str) -> Result<SessionId, Error> {
    details::session_id(text).map_err(|_| invalid("session"))
}

pub(super) fn grant_id(text: &str) -> Result<GrantId, Error> {
    let is_id = text.len() == 16 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let number = u64::from_str_radix(text, 16).ok().filter(|_| is_id);
    number.map(GrantId).ok_or_else(|| invalid("grant"))
}

/// Where the object of a session is.
pub fn session_path(id: &SessionId) -> OwnedObjectPath {
    let path = ObjectPath::try_from(format!("{SESSIONS_PATH}/{id}"));
    // Hexadecimal digits always make a path.
    path.unwrap_or(ObjectPath::from_static_str_unchecked(SESSIONS_PATH)).into()
}

/// Where the object of a request is.
pub fn request_path(number: u64) -> OwnedObjectPath {
    let path = ObjectPath::try_from(format!("{REQUESTS_PATH}/{number}"));
    path.unwrap_or(ObjectPath::from_static_str_unchecked(REQUESTS_PATH)).into()
}

/// The keys of a new session.
fn opening(options: &mut Options) -> Result<Opening, Error> {
    let program = options.path("program")?.into_iter().chain(options.path("program-called")?).collect();
    Ok(Opening {
        profile: options.take("profile")?,
        program,
        directory: options.path("directory")?.ok_or_else(|| Error::InvalidOption("directory".into()))?,
        home: options.path("home")?,
        profiles: options.texts("profiles")?,
        user: options.take("user")?,
        publish: published(options.take("publish")?.unwrap_or_default())?,
        ssh_agent: options.path("ssh-agent")?,
        learn: options.take("learn")?.unwrap_or(false),
    })
}

/// Addresses and ports in their canonical text.
fn published(texts: Vec<String>) -> Result<Vec<SocketAddr>, Error> {
    let wrong = || Error::InvalidOption("publish".into());
    let read = |text: &String| {
        let address: Option<SocketAddr> = text.parse().ok();
        // Without an interface, of which no rule could speak.
        let is_canonical = |own: &SocketAddr| {
            canonical(own.ip()) == own.ip() && own.port() != 0 && own.to_string() == *text && !text.contains('%')
        };
        address.filter(is_canonical).ok_or_else(wrong)
    };
    if texts.len() > MAX_PUBLISHED { Err(wrong()) } else { texts.iter().map(read).collect() }
}

fn words(words: Vec<Vec<u8>>, what: &'static str) -> Result<Vec<Vec<u8>>, Error> {
    let bytes: usize = words.iter().map(|word| word.len().saturating_add(1)).sum();
    let is_plain = words.len() <= MOST_WORDS && bytes <= MOST_BYTES && !words.iter().any(|word| word.contains(&0));
    is_plain.then_some(words).ok_or_else(|| invalid(what))
}

#[zbus::interface(name = "org.gated.Gated1.Manager", introspection_docs = false)]
impl Manager {
    #[zbus(out_args("session", "path"))]
    async fn open_session(
        &self,
        options: HashMap<String, OwnedVariant>,
        #[zbus(header)] header: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<(String, OwnedObjectPath), Error> {
        let mut options = Options::new(options);
        let opening = opening(&mut options)?;
        options.end()?;
        let open = move |core: Rc<Core>, caller| -> Doing<_> {
            Box::pin(async move { core.open_session(&caller, opening).await })
        };
        let session = self.handle.call_once(connection, &header, open).await?;
        let path = session_path(&session);
        Ok((session.0, path))
    }

    #[allow(clippy::too_many_arguments, reason = "the interface has them")]
    #[zbus(out_args("session", "results"))]
    async fn run(
        &self,
        argv: Vec<Vec<u8>>,
        environment: Vec<Vec<u8>>,
        cwd: OwnedFd,
        stdio: Vec<OwnedFd>,
        link: OwnedFd,
        options: HashMap<String, OwnedVariant>,
        #[zbus(header)] header: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<(String, Dict), Error> {
        let mut options = Options::new(options);
        let stdio: [OwnedFd; 3] = stdio.try_into().map_err(|_| invalid("stdio"))?;
        let [stdin, stdout, stderr] = stdio;
        let on_terminal: Vec<bool> = options.take("on-terminal")?.unwrap_or_else(|| vec![false; 3]);
        let on_terminal: [bool; 3] = on_terminal.try_into().map_err(|_| Error::InvalidOption("on-terminal".into()))?;
        let window: Option<(u16, u16)> = options.take("window")?;
        let session: Option<String> = options.take("session")?;
        let umask: u32 = options.take("umask")?.unwrap_or(0o022);
        let ignored_signals: u64 = options.take("ignored-signals")?.unwrap_or_default();
        let events = options.take("events")?.unwrap_or(false);
        let passed: Vec<i32> = options.take("passed")?.unwrap_or_default();
        let passed_fds: Vec<zbus::Fd<'static>> = options.take("passed-fds")?.unwrap_or_default();
        if passed.len() != passed_fds.len() || !wire::are_numbers_to_pass(&passed) {
            return Err(Error::InvalidOption("passed".into()));
        }
        let (into, directory) = match session {
            Some(session) => {
                let directory = options.path("directory")?;
                (Into::Session(session_id(&session)?), directory)
            }
            None => {
                let opening = opening(&mut options)?;
                let directory = opening.directory.clone();
                (Into::New(opening), Some(directory))
            }
        };
        options.end()?;
        let start = Start {
            command: words(argv, "argv")?,
            environment: words(environment, "environment")?,
            cwd: directory.ok_or_else(|| Error::InvalidOption("directory".into()))?,
            umask: umask & 0o777,
            ignored_signals,
            on_terminal,
            window: window.map(|(rows, columns)| WindowSize { rows, columns }),
            passed,
        };
        if start.command.is_empty() {
            return Err(invalid("argv"));
        }
        let mut fds: Vec<_> = [link, cwd, stdin, stdout, stderr].map(std::os::fd::OwnedFd::from).into();
        for passed in passed_fds {
            fds.push(passed.try_into().map_err(|_| Error::InvalidOption("passed-fds".into()))?);
        }
        let order = Order { start, fds, into, events };
        let run = move |core: Rc<Core>, caller| -> Doing<_> { Box::pin(async move { core.run(&caller, order).await }) };
        let ran = self.handle.call_once(connection, &header, run).await?;
        let mut results = Dict::new();
        if let Some(events) = ran.events {
            results.insert("events", Variant::from(zbus::Fd::from(events)));
        }
        if !ran.notes.is_empty() {
            results.insert("notes", Variant::from(ran.notes));
        }
        if let Some(chosen) = ran.chosen {
            results.insert("chosen", Variant::from(chosen));
        }
        Ok((ran.session.0, results))
    }

    async fn register_agent(
        &self,
        options: HashMap<String, OwnedVariant>,
        #[zbus(header)] header: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<(), Error> {
        let mut options = Options::new(options);
        let kind: String = options.take("kind")?.unwrap_or_else(|| "agent".to_owned());
        let session: Option<String> = options.take("session")?;
        options.end()?;
        let is_word =
            (1..=32).contains(&kind.len()) && kind.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
        if !is_word {
            return Err(Error::InvalidOption("kind".into()));
        }
        let session = session.map(|session| session_id(&session)).transpose()?;
        let agent = BusAgent::new(connection, &header, self.handle.polkit(), self.handle.unanswered()).await?;
        let register = move |core: Rc<Core>, caller| -> Doing<_> {
            Box::pin(async move { core.register(&caller, &kind, session, Rc::new(agent)).await })
        };
        self.handle.call_once(connection, &header, register).await?;
        // One that left meanwhile did so before it was known: nobody would tell that it is gone. One that leaves from here
        // on is heard of, because the bus says things in their order.
        let bus = DBusProxy::builder(connection).cache_properties(CacheProperties::No).build().await?;
        let Some(sender) = header.sender() else { return Ok(()) };
        if !bus.name_has_owner(sender.as_ref().into()).await.unwrap_or(false) {
            let sender = sender.to_string();
            self.handle.run(move |core| Box::pin(async move { core.unregister(&sender) })).await?;
        }
        Ok(())
    }

    async fn unregister_agent(&self, #[zbus(header)] header: Header<'_>) -> Result<(), Error> {
        let sender = header.sender().map(|sender| sender.to_string()).unwrap_or_default();
        self.handle.run(move |core| Box::pin(async move { core.unregister(&sender) })).await
    }

    async fn decide(
        &self,
        request: &str,
        decision: &str,
        scope: HashMap<String, OwnedVariant>,
        #[zbus(header)] header: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<(), Error> {
        let id = details::request_id(request).map_err(|_| invalid("request"))?;
        let answer = details::answer_from_bus(decision, &scope).map_err(|_| invalid("decision"))?;
        let decide = move |core: Rc<Core>, caller| -> Doing<_> {
            let answer = answer.clone();
            Box::pin(async move { core.decide(&caller, id, answer).await })
        };
        self.handle.call(connection, &header, decide).await
    }

    #[zbus(out_args("verdict"))]
    async fn explain(
        &self,
        query: HashMap<String, OwnedVariant>,
        #[zbus(header)] header: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<Dict, Error> {
        let mut query = Options::new(query);
        let session: String = query.take("session")?.ok_or_else(|| Error::InvalidOption("session".into()))?;
        let access: String = query.take("access")?.ok_or_else(|| Error::InvalidOption("access".into()))?;
        let object: RawPath = query.path("object")?.ok_or_else(|| Error::InvalidOption("object".into()))?;
        query.end()?;
        let session = session_id(&session)?;
        let access = Access::ALL
            .into_iter()
            .find(|known| known.as_str() == access)
            .ok_or_else(|| Error::InvalidOption("access".into()))?;
        let explain = move |core: Rc<Core>, caller| -> Doing<_> {
            let (session, object) = (session.clone(), object.clone());
            Box::pin(async move { core.explain(&caller, &session, access, &object) })
        };
        let (level, rule, grant) = self.handle.call(connection, &header, explain).await?;
        let mut about = Dict::from([
            ("profile", Variant::from(rule.profile)),
            ("id", Variant::from(rule.id)),
            ("file", Variant::from(rule.file)),
            ("line", Variant::from(rule.line)),
        ]);
        if let Some(reason) = rule.reason {
            about.insert("reason", Variant::from(reason));
        }
        let mut verdict = Dict::from([("level", Variant::from(level.as_str())), ("rule", Variant::from(about))]);
        if let Some(grant) = grant {
            verdict.insert("grant", Variant::from(grant.to_string()));
        }
        Ok(verdict)
    }

    #[zbus(out_args("grants"))]
    async fn list_grants(
        &self,
        filter: HashMap<String, OwnedVariant>,
        #[zbus(header)] header: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<Vec<Dict>, Error> {
        let mut filter = Options::new(filter);
        let session: Option<String> = filter.take("session")?;
        filter.end()?;
        let session = session.map(|session| session_id(&session)).transpose()?;
        let list = move |core: Rc<Core>, caller| -> Doing<_> {
            let session = session.clone();
            Box::pin(async move { core.grants(&caller, session.as_ref()) })
        };
        Ok(rows(self.handle.call(connection, &header, list).await?))
    }

    #[zbus(out_args("revoked"))]
    async fn revoke_grant(
        &self,
        grant: &str,
        options: HashMap<String, OwnedVariant>,
        #[zbus(header)] header: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<u32, Error> {
        let mut options = Options::new(options);
        let all: bool = options.take("all")?.unwrap_or(false);
        options.end()?;
        let grant = match (grant, all) {
            ("", true) => None,
            (_, true) => return Err(invalid("grant")),
            (id, false) => Some(grant_id(id)?),
        };
        let revoke =
            move |core: Rc<Core>, caller| -> Doing<_> { Box::pin(async move { core.revoke(&caller, grant).await }) };
        self.handle.call(connection, &header, revoke).await
    }

    #[zbus(out_args("events"))]
    async fn watch(
        &self,
        options: HashMap<String, OwnedVariant>,
        #[zbus(header)] header: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<OwnedFd, Error> {
        let mut options = Options::new(options);
        let session: Option<String> = options.take("session")?;
        let all: bool = options.take("all")?.unwrap_or(false);
        options.end()?;
        let session = session.map(|session| session_id(&session)).transpose()?;
        let watch = move |core: Rc<Core>, caller| -> Doing<_> {
            let session = session.clone();
            Box::pin(async move { core.watch(&caller, session.as_ref(), all) })
        };
        Ok(self.handle.call(connection, &header, watch).await?.into())
    }

    async fn reload(
        &self,
        options: HashMap<String, OwnedVariant>,
        #[zbus(header)] header: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<(), Error> {
        Options::new(options).end()?;
        let reload = move |core: Rc<Core>, caller| -> Doing<_> { Box::pin(async move { core.reload(&caller).await }) };
        self.handle.call(connection, &header, reload).await
    }

    #[zbus(property(emits_changed_signal = "const"))]
    fn version(&self) -> String {
        env!("CARGO_PKG_VERSION").to_owned()
    }

    #[zbus(property(emits_changed_signal = "false"))]
    async fn features(
        &self,
        #[zbus(header)] header: Option<Header<'_>>,
        #[zbus(connection)] connection: &Connection,
    ) -> fdo::Result<Vec<String>> {
        let mut features = self.features.clone();
        let Some(header) = header else { return Ok(features) };
        let ask = |core: Rc<Core>, caller: Caller| -> Doing<_> {
            Box::pin(async move { Ok(core.agents.is_asked_for_all(caller.uid)) })
        };
        if self.handle.call_once(connection, &header, ask).await.map_err(property)? {
            features.push("consent-agent".to_owned());
        }
        Ok(features)
    }

    #[zbus(property(emits_changed_signal = "false"))]
    async fn sessions(
        &self,
        #[zbus(header)] header: Option<Header<'_>>,
        #[zbus(connection)] connection: &Connection,
    ) -> fdo::Result<Vec<OwnedObjectPath>> {
        // Without a header it is the daemon itself that asks, which has no use for it.
        let Some(header) = header else { return Ok(Vec::new()) };
        let list = |core: Rc<Core>, caller| -> Doing<_> {
            Box::pin(async move { Ok(core.visible(&caller).iter().map(|live| session_path(live.id())).collect()) })
        };
        self.handle.call_once(connection, &header, list).await.map_err(property)
    }

    #[zbus(property(emits_changed_signal = "false"))]
    async fn pending_requests(
        &self,
        #[zbus(header)] header: Option<Header<'_>>,
        #[zbus(connection)] connection: &Connection,
    ) -> fdo::Result<Vec<OwnedObjectPath>> {
        let Some(header) = header else { return Ok(Vec::new()) };
        let list = |core: Rc<Core>, caller| -> Doing<_> {
            Box::pin(async move { Ok(core.answerable(&caller).await?.into_keys().map(request_path).collect()) })
        };
        self.handle.call_once(connection, &header, list).await.map_err(property)
    }
}
