//! The objects that come and go: sessions and waiting requests, and `org.freedesktop.DBus.ObjectManager` for them. Runs as
//! root in the daemon. Everything is filtered by who asks, and nothing is broadcast: the objects are the users' own.

use std::collections::HashMap;
use std::rc::Rc;

use tokio::sync::mpsc;
use tracing::{error, warn};
use zbus::message::Header;
use zbus::object_server::SignalEmitter;
use zbus::{Connection, OwnedObjectPath, OwnedVariant, Variant, fdo};

use super::Doing;
use super::error::Error;
use super::handle::{Handle, property};
use super::manager::{request_path, session_path};
use super::options::Options;
use crate::common::bus::{MANAGER_PATH, REQUEST_INTERFACE, SESSION_INTERFACE};
use crate::common::details::Details;
use crate::common::exec::Execution;
use crate::common::id::SessionId;
use crate::common::mask;
use crate::daemon::core::{Change, Core};
use crate::daemon::live::Live;
use crate::daemon::orders::{Caller, Refusal};
use crate::daemon::requests::Waiting;

type Dict = HashMap<&'static str, Variant<'static>>;
/// Objects with their interfaces and properties.
type Managed = HashMap<OwnedObjectPath, HashMap<&'static str, Dict>>;

/// Bytes of objects that are listed together at the most, the rest is left out: a message above 32 MiB would cost the daemon
/// its connection (`max_message_size`, dbus-daemon(1)), and a long one everybody else's time. Each can be asked for alone.
pub const MOST_LISTED: usize = 4 << 20;

/// About what an object takes besides what is counted.
const FIXED: usize = 1024;

/// One session on the bus.
struct SessionObject {
    handle: Handle,
    id: SessionId,
}

/// What of a session goes over the bus.
struct Shown {
    id: String,
    user: u32,
    profile: String,
    directory: Vec<u8>,
    state: &'static str,
    started: u64,
    unit: String,
    calls: Vec<Dict>,
    /// About how much all of it takes on the bus.
    bytes: usize,
}

impl Shown {
    fn of(live: &Live) -> Shown {
        let call = |call: crate::common::wire::RunningCall| {
            let argv: Vec<Vec<u8>> = mask::argv(&call.argv).iter().map(|word| word.as_bytes().to_vec()).collect();
            Dict::from([
                ("call", Variant::from(call.call.0)),
                ("pid", Variant::from(u32::try_from(call.pid).unwrap_or_default())),
                ("argv", Variant::from(argv)),
            ])
        };
        let calls = live.calls();
        let words = calls.values().flat_map(|call| &call.argv).map(|word| word.as_bytes().len().saturating_add(8));
        let bytes = words.fold(FIXED.saturating_add(calls.len().saturating_mul(128)), usize::saturating_add);
        Shown {
            bytes,
            id: live.id().0.clone(),
            user: live.owner(),
            profile: live.profile.name.clone(),
            directory: live.kept.directory.as_bytes().to_vec(),
            state: live.state.get().as_str(),
            started: live.kept.started,
            unit: live.kept.unit.clone().unwrap_or_default(),
            calls: calls.into_values().map(call).collect(),
        }
    }

    fn properties(self) -> Dict {
        Dict::from([
            ("Id", Variant::from(self.id)),
            ("User", Variant::from(self.user)),
            ("Profile", Variant::from(self.profile)),
            ("Directory", Variant::from(self.directory)),
            ("State", Variant::from(self.state)),
            ("Started", Variant::from(self.started)),
            ("Unit", Variant::from(self.unit)),
            ("Calls", Variant::from(self.calls)),
        ])
    }
}

impl SessionObject {
    /// A property, for who may see the session.
    async fn shown<T: Send + 'static>(
        &self,
        header: Option<Header<'_>>,
        connection: &Connection,
        pick: impl FnOnce(Shown) -> T + Send + 'static,
    ) -> fdo::Result<T> {
        let Some(header) = header else { return Err(fdo::Error::AccessDenied(String::new())) };
        let id = self.id.clone();
        let look = move |core: Rc<Core>, caller: Caller| -> Doing<T> {
            Box::pin(async move { Ok(pick(Shown::of(core.managed(&caller, &id)?.as_ref()))) })
        };
        self.handle.call_once(connection, &header, look).await.map_err(property)
    }
}

#[zbus::interface(name = "org.gated.Gated1.Session", introspection_docs = false)]
impl SessionObject {
    async fn stop(
        &self,
        options: HashMap<String, OwnedVariant>,
        #[zbus(header)] header: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<(), Error> {
        Options::new(options).end()?;
        let id = self.id.clone();
        let stop = move |core: Rc<Core>, caller: Caller| -> Doing<()> {
            let id = id.clone();
            Box::pin(async move { core.stop(&caller, &id) })
        };
        self.handle.call(connection, &header, stop).await
    }

    #[zbus(property(emits_changed_signal = "const"))]
    async fn id(
        &self,
        #[zbus(header)] header: Option<Header<'_>>,
        #[zbus(connection)] connection: &Connection,
    ) -> fdo::Result<String> {
        self.shown(header, connection, |shown| shown.id).await
    }

    #[zbus(property(emits_changed_signal = "const"))]
    async fn user(
        &self,
        #[zbus(header)] header: Option<Header<'_>>,
        #[zbus(connection)] connection: &Connection,
    ) -> fdo::Result<u32> {
        self.shown(header, connection, |shown| shown.user).await
    }

    #[zbus(property(emits_changed_signal = "const"))]
    async fn profile(
        &self,
        #[zbus(header)] header: Option<Header<'_>>,
        #[zbus(connection)] connection: &Connection,
    ) -> fdo::Result<String> {
        self.shown(header, connection, |shown| shown.profile).await
    }

    #[zbus(property(emits_changed_signal = "const"))]
    async fn directory(
        &self,
        #[zbus(header)] header: Option<Header<'_>>,
        #[zbus(connection)] connection: &Connection,
    ) -> fdo::Result<Vec<u8>> {
        self.shown(header, connection, |shown| shown.directory).await
    }

    #[zbus(property(emits_changed_signal = "false"))]
    async fn state(
        &self,
        #[zbus(header)] header: Option<Header<'_>>,
        #[zbus(connection)] connection: &Connection,
    ) -> fdo::Result<String> {
        self.shown(header, connection, |shown| shown.state.to_owned()).await
    }

    #[zbus(property(emits_changed_signal = "const"))]
    async fn started(
        &self,
        #[zbus(header)] header: Option<Header<'_>>,
        #[zbus(connection)] connection: &Connection,
    ) -> fdo::Result<u64> {
        self.shown(header, connection, |shown| shown.started).await
    }

    #[zbus(property(emits_changed_signal = "const"))]
    async fn unit(
        &self,
        #[zbus(header)] header: Option<Header<'_>>,
        #[zbus(connection)] connection: &Connection,
    ) -> fdo::Result<String> {
        self.shown(header, connection, |shown| shown.unit).await
    }

    #[zbus(property(emits_changed_signal = "false"))]
    async fn calls(
        &self,
        #[zbus(header)] header: Option<Header<'_>>,
        #[zbus(connection)] connection: &Connection,
    ) -> fdo::Result<Vec<HashMap<&'static str, Variant<'static>>>> {
        self.shown(header, connection, |shown| shown.calls).await
    }
}

/// One waiting request on the bus.
struct RequestObject {
    handle: Handle,
    number: u64,
}

impl RequestObject {
    async fn shown<T: Send + 'static>(
        &self,
        header: Option<Header<'_>>,
        connection: &Connection,
        pick: impl FnOnce(&Waiting) -> T + Send + 'static,
    ) -> fdo::Result<T> {
        let Some(header) = header else { return Err(fdo::Error::AccessDenied(String::new())) };
        let number = self.number;
        let look = move |core: Rc<Core>, caller: Caller| -> Doing<T> {
            Box::pin(async move {
                let answerable = core.answerable(&caller).await?;
                // Who may not answer does not learn whether it is still there.
                Ok(pick(answerable.get(&number).ok_or(Refusal::NotAuthorized)?))
            })
        };
        self.handle.call_once(connection, &header, look).await.map_err(property)
    }
}

fn bytes_of_execution(execution: &Execution) -> usize {
    let parents = execution.parents.iter().flat_map(|parent| &parent.argv);
    let words = execution.argv.iter().chain(&execution.variables).chain(parents);
    let words = words.map(|word| word.as_bytes().len().saturating_add(8));
    let parents = execution.parents.iter().map(|parent| parent.program.as_bytes().len().saturating_add(32));
    let paths = execution.interpreters.iter().map(|path| path.as_bytes().len().saturating_add(8));
    words.chain(parents).chain(paths).fold(0, usize::saturating_add)
}

/// About how much a request takes on the bus.
fn bytes_of(waiting: &Waiting) -> usize {
    let request = waiting.prompt.request.as_ref();
    let words: usize = request.who.argv.iter().map(|word| word.as_bytes().len().saturating_add(8)).sum();
    let scopes: usize = waiting.prompt.offers.iter().map(|offer| offer.scope.len()).sum();
    let paths = [Some(&request.who.program), Some(&request.who.cwd), Some(&request.object), request.other.as_ref()];
    let paths: usize = paths.into_iter().flatten().map(|path| path.as_bytes().len()).sum();
    let execution = request.execution.as_deref().map_or(0, bytes_of_execution);
    [words, scopes, paths, execution].into_iter().fold(FIXED, usize::saturating_add)
}

fn details_of(waiting: &Waiting) -> Details {
    Details::of(&waiting.prompt, waiting.session.owner())
}

#[zbus::interface(name = "org.gated.Gated1.Request", introspection_docs = false)]
impl RequestObject {
    #[zbus(property(emits_changed_signal = "const"))]
    async fn id(
        &self,
        #[zbus(header)] header: Option<Header<'_>>,
        #[zbus(connection)] connection: &Connection,
    ) -> fdo::Result<String> {
        self.shown(header, connection, |waiting| waiting.prompt.id.to_string()).await
    }

    #[zbus(property(emits_changed_signal = "false"))]
    async fn details(
        &self,
        #[zbus(header)] header: Option<Header<'_>>,
        #[zbus(connection)] connection: &Connection,
    ) -> fdo::Result<Details> {
        self.shown(header, connection, details_of).await
    }
}

fn request_properties(waiting: &Waiting) -> Dict {
    Dict::from([("Id", Variant::from(waiting.prompt.id.to_string())), ("Details", Variant::from(details_of(waiting)))])
}

/// What is below the manager's path, for who asks.
pub struct Objects {
    handle: Handle,
}

impl Objects {
    pub fn new(handle: Handle) -> Objects {
        Objects { handle }
    }
}

#[zbus::interface(name = "org.freedesktop.DBus.ObjectManager", introspection_docs = false)]
impl Objects {
    #[zbus(out_args("objects"))]
    async fn get_managed_objects(
        &self,
        #[zbus(header)] header: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<HashMap<OwnedObjectPath, HashMap<&'static str, Dict>>, Error> {
        let list = |core: Rc<Core>, caller: Caller| -> Doing<Managed> {
            Box::pin(async move {
                let mut managed = Managed::new();
                let mut room = MOST_LISTED;
                for live in core.visible(&caller) {
                    let shown = Shown::of(&live);
                    room = room.saturating_sub(shown.bytes);
                    if room == 0 {
                        break;
                    }
                    let properties = shown.properties();
                    managed.insert(session_path(live.id()), HashMap::from([(SESSION_INTERFACE, properties)]));
                }
                for (number, waiting) in core.answerable(&caller).await? {
                    room = room.saturating_sub(bytes_of(&waiting));
                    if room == 0 {
                        break;
                    }
                    let properties = request_properties(&waiting);
                    managed.insert(request_path(number), HashMap::from([(REQUEST_INTERFACE, properties)]));
                }
                Ok(managed)
            })
        };
        self.handle.call_once(connection, &header, list).await
    }

    #[zbus(signal)]
    async fn interfaces_added(
        emitter: &SignalEmitter<'_>,
        object: OwnedObjectPath,
        interfaces: HashMap<&'static str, Dict>,
    ) -> zbus::Result<()>;

    #[zbus(signal)]
    async fn interfaces_removed(
        emitter: &SignalEmitter<'_>,
        object: OwnedObjectPath,
        interfaces: Vec<&'static str>,
    ) -> zbus::Result<()>;
}

/// Keep the bus's objects as the core says, in its order, until the core is gone.
pub async fn follow(
    connection: Connection,
    handle: Handle,
    core: Rc<Core>,
    mut changes: mpsc::UnboundedReceiver<Change>,
) {
    while let Some(change) = changes.recv().await {
        if let Err(error) = carry_out(&connection, &handle, &core, change).await {
            warn!(%error, "the bus does not follow");
            if connection.is_closed() {
                error!("the bus is gone");
                return;
            }
        }
    }
}

async fn carry_out(connection: &Connection, handle: &Handle, core: &Core, change: Change) -> zbus::Result<()> {
    let server = connection.object_server();
    match change {
        Change::SessionAdded(id) => {
            let path = session_path(&id);
            server.at(path, SessionObject { handle: handle.clone(), id }).await?;
        }
        Change::SessionRemoved(id) => {
            server.remove::<SessionObject, _>(session_path(&id)).await?;
        }
        Change::RequestAdded(number, told) => {
            let path = request_path(number);
            server.at(path.clone(), RequestObject { handle: handle.clone(), number }).await?;
            let Some(waiting) = core.waiting_number(number) else { return Ok(()) };
            for name in told {
                let emitter = emitter_to(connection, &name)?;
                let interfaces = HashMap::from([(REQUEST_INTERFACE, request_properties(&waiting))]);
                Objects::interfaces_added(&emitter, path.clone(), interfaces).await?;
            }
        }
        Change::RequestRemoved(number, told) => {
            let path = request_path(number);
            server.remove::<RequestObject, _>(path.clone()).await?;
            for name in told {
                let emitter = emitter_to(connection, &name)?;
                Objects::interfaces_removed(&emitter, path.clone(), vec![REQUEST_INTERFACE]).await?;
            }
        }
    }
    Ok(())
}

/// Signals to one connection.
fn emitter_to<'a>(connection: &Connection, name: &'a str) -> zbus::Result<SignalEmitter<'a>> {
    let name = zbus::names::UniqueName::try_from(name)?;
    Ok(SignalEmitter::new(connection, MANAGER_PATH)?.set_destination(name.into()))
}
