//! What the daemon has to say, as events: requests as they come and go, sessions, grants, and whether it is there at all. Runs as
//! the caller, on its connection to the bus; what comes from anybody but the owner of `org.gated.Gated1` is dropped.
//!
//! The connection is a consent agent, so that requests wait for it and that it is told of them. It answers none of them that
//! way but with `Decide`, which says whether an answer was taken.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::time::Duration;

use futures_util::stream::FuturesUnordered;
use futures_util::{Stream, StreamExt};
use tokio::time::Interval;
use zbus::fdo::DBusProxy;
use zbus::message::Type;
use zbus::names::{BusName, WellKnownName};
use zbus::{Connection, MatchRule, MessageStream, OwnedObjectPath};

use super::entry::Asked as Row;
use super::model::Event;
use crate::common::bus::{BUS_NAME, MANAGER_PATH, REQUEST_INTERFACE};
use crate::consent::bus::{Asked, BusAgent, BusError, Registration};
use crate::ctl::control::daemon::{self, Daemon, Objects};
use crate::ctl::control::failure::Failure;
use crate::ctl::proxies::Fields;

/// Signals that may wait to be read.
const MOST_QUEUED: usize = 8192;
/// How often everything is read anew: what no signal tells, and what one did not reach.
const AGAIN: Duration = Duration::from_secs(2);

type Withdrawals = FuturesUnordered<Pin<Box<dyn Future<Output = String>>>>;

/// See the module.
pub struct Feed {
    agent: BusAgent,
    signals: MessageStream,
    owners: MessageStream,
    /// The unique name of the daemon.
    owner: Option<String>,
    /// Requests by the paths of their objects.
    paths: HashMap<OwnedObjectPath, String>,
    /// Questions that are held open, so that the daemon knows that somebody is there.
    open: BTreeMap<String, Asked>,
    withdrawals: Withdrawals,
    /// What came and went since the last time that everything was asked for.
    came: BTreeMap<String, Row>,
    went: BTreeSet<String>,
    again: Interval,
}

/// What is to be done beside an event.
pub enum News {
    Event(Event),
    /// Everything should be asked for.
    Stale,
    /// The bus is gone.
    End,
}

impl Feed {
    pub async fn start(connection: &Connection) -> Result<Feed, Failure> {
        let signals = MatchRule::builder()
            .msg_type(Type::Signal)
            .interface("org.freedesktop.DBus.ObjectManager")
            .path(MANAGER_PATH)
            .build()?;
        let owners = MatchRule::builder()
            .msg_type(Type::Signal)
            .sender("org.freedesktop.DBus")
            .interface("org.freedesktop.DBus")
            .member("NameOwnerChanged")
            .arg(0, BUS_NAME)
            .build()?;
        let owners = MessageStream::for_match_rule(owners, connection, None).await?;
        let signals = MessageStream::for_match_rule(signals, connection, NonZeroUsize::new(MOST_QUEUED)).await?;
        let name = BusName::from(WellKnownName::try_from(BUS_NAME)?);
        let owner = DBusProxy::new(connection).await?.get_name_owner(name).await.ok().map(|name| name.to_string());
        let registration = Registration { kind: "tui", session: None };
        let agent = BusAgent::register(connection, registration).await.map_err(|error| match error {
            BusError::Bus(error) => Failure::from(error),
            BusError::Refused(why) => Failure::NotPermitted(format!("gatedd takes no consent agent from here ({why})")),
        })?;
        let mut again = tokio::time::interval(AGAIN);
        again.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        Ok(Feed {
            agent,
            signals,
            owners,
            owner,
            paths: HashMap::new(),
            open: BTreeMap::new(),
            withdrawals: FuturesUnordered::new(),
            came: BTreeMap::new(),
            went: BTreeSet::new(),
            again,
        })
    }

    pub fn has_daemon(&self) -> bool {
        self.owner.is_some()
    }

    /// The next thing that happens. May be dropped and called again.
    pub async fn next(&mut self) -> News {
        loop {
            tokio::select! {
                biased;
                change = self.owners.next() => {
                    let Some(Ok(change)) = change else { return News::End };
                    let Ok((_, _, new)) = change.body().deserialize::<(String, String, String)>() else { continue };
                    self.owner = (!new.is_empty()).then_some(new);
                    self.forget();
                    self.again.reset_immediately();
                    return News::Event(Event::Daemon(self.owner.is_some()));
                }
                asked = self.agent.next() => {
                    let Some(asked) = asked else { return News::End };
                    return News::Event(self.asked(asked));
                }
                Some(key) = self.withdrawals.next(), if !self.withdrawals.is_empty() => {
                    self.open.remove(&key);
                    return News::Event(self.over(key));
                }
                signal = self.signals.next() => {
                    let Some(Ok(signal)) = signal else { return News::End };
                    if let Some(event) = self.signal(&signal) {
                        return News::Event(event);
                    }
                }
                _ = self.again.tick() => return News::Stale,
            }
        }
    }

    fn forget(&mut self) {
        self.paths.clear();
        self.open.clear();
        self.withdrawals = FuturesUnordered::new();
        self.came.clear();
        self.went.clear();
    }

    fn asked(&mut self, asked: Asked) -> Event {
        let row = Row::new(asked.user, asked.prompt.clone());
        let key = asked.prompt.id.to_string();
        let (mut withdrawn, name) = (asked.withdrawn.clone(), key.clone());
        self.withdrawals.push(Box::pin(async move {
            withdrawn.wait().await;
            name
        }));
        self.open.insert(key.clone(), asked);
        self.came(key, row)
    }

    fn came(&mut self, key: String, row: Row) -> Event {
        self.went.remove(&key);
        self.came.insert(key, row.clone());
        Event::Asked(Box::new(row))
    }

    fn over(&mut self, key: String) -> Event {
        self.came.remove(&key);
        self.went.insert(key.clone());
        Event::Over(key)
    }

    fn signal(&mut self, signal: &zbus::Message) -> Option<Event> {
        let header = signal.header();
        let is_daemon = header.sender().map(|sender| sender.as_str()) == self.owner.as_deref();
        if !is_daemon || self.owner.is_none() {
            return None;
        }
        match header.member()?.as_str() {
            "InterfacesAdded" => {
                type Added = (OwnedObjectPath, HashMap<String, Fields>);
                let (path, mut interfaces): Added = signal.body().deserialize().ok()?;
                let pending = daemon::request(interfaces.remove(REQUEST_INTERFACE)?).ok()?;
                self.paths.insert(path, pending.id.clone());
                let row = Row::new(pending.user, pending.prompt);
                Some(self.came(pending.id, row))
            }
            "InterfacesRemoved" => {
                let (path, _): (OwnedObjectPath, Vec<String>) = signal.body().deserialize().ok()?;
                let key = self.paths.remove(&path)?;
                Some(self.over(key))
            }
            _ => None,
        }
    }

    /// The daemon has taken an answer to it.
    pub fn answered(&mut self, key: &str) {
        self.came.remove(key);
        self.went.insert(key.to_owned());
    }

    /// To be called when everything is asked for: what comes and goes from now on is newer than the answer.
    pub fn asking(&mut self) {
        self.came.clear();
        self.went.clear();
    }

    /// Everything, as it was asked for, and what has happened since.
    pub fn all(&mut self, objects: Objects) -> Vec<Row> {
        self.paths.clear();
        let mut rows = Vec::with_capacity(objects.pending.len());
        for (path, pending) in objects.pending_at {
            self.paths.insert(path, pending);
        }
        for pending in objects.pending {
            if !self.went.contains(&pending.id) {
                rows.push(Row::new(pending.user, pending.prompt));
            }
        }
        // Of what came since, and what is held open, perhaps not all is in the list.
        let listed: BTreeSet<String> = rows.iter().map(|row| super::list::Row::key(row).to_owned()).collect();
        let open = self.open.values().map(|asked| (asked.prompt.id.to_string(), asked));
        let open: Vec<Row> = open
            .filter(|(key, asked)| {
                !asked.withdrawn.is_withdrawn() && !self.came.contains_key(key) && !listed.contains(key)
            })
            .map(|(_, asked)| Row::new(asked.user, asked.prompt.clone()))
            .collect();
        rows.extend(self.came.iter().filter(|(key, _)| !listed.contains(*key)).map(|(_, row)| row.clone()));
        rows.extend(open);
        rows
    }
}

/// The bytes of a pipe, as they come: what [`Daemon`] gives for `Watch`.
pub type Lines = Pin<Box<dyn Stream<Item = Vec<u8>>>>;

/// A line after the other of what happens in sessions.
pub async fn watch(daemon: &Daemon, all: bool) -> Result<Lines, Failure> {
    use tokio::io::AsyncBufReadExt;
    let mut options = crate::ctl::proxies::Options::new();
    if all {
        options.insert("all", true.into());
    }
    let events = std::os::fd::OwnedFd::from(daemon.manager.watch(options).await?);
    let reader = tokio::net::unix::pipe::Receiver::from_owned_fd(events)?;
    let lines = tokio::io::BufReader::new(reader).split(b'\n');
    Ok(Box::pin(futures_util::stream::unfold(lines, |mut lines| async move {
        let line = lines.next_segment().await.ok().flatten()?;
        Some((line, lines))
    })))
}
