//! A daemon's core on a bus of its own, and the other ends of everything that it talks to.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::Future;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdStream;
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gated::common::access::{Access, Level};
use gated::common::bus::{
    AGENT_PATH, BUS_NAME, MANAGER_INTERFACE, MANAGER_PATH, REQUEST_INTERFACE, REQUESTS_PATH, SESSION_INTERFACE,
    SESSIONS_PATH,
};
use gated::common::decision::{Decision, Lifetime};
use gated::common::id::{CallId, RequestId, SessionId};
use gated::common::request::{Operation, Request, RuleRef, Who};
use gated::common::text::Untrusted;
use gated::common::wire::{self, FromSession, Launch, ToSession};
use gated::daemon::agents::Local;
use gated::daemon::audit::{Audit, AuditError, AuditRecord};
use gated::daemon::bus::service::attend;
use gated::daemon::core::{Core, Setting};
use gated::daemon::engine::{Engine, EngineError, Started};
use gated::daemon::install::Machine;
use gated::daemon::link::Socket;
use gated::daemon::policyfiles::Snapshot;
use gated::daemon::rendezvous::Rendezvous;
use gated::daemon::state::{Kept, Shelf};
use gated::daemon::store::Store;
use gated::policy::Grant;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};
use zbus::{Connection, OwnedVariant, Variant};

pub use super::support::bus::PrivateBus;

/// Longer than anything here takes.
pub const LIMIT: Duration = Duration::from_secs(20);

/// What the daemon of these tests has for patience while there is nobody to ask.
pub const PATIENCE: Duration = Duration::from_millis(700);

pub type Options<'a> = HashMap<&'a str, Variant<'a>>;

/// Runs a test's body where the daemon runs: on one thread.
#[track_caller]
pub fn run<F: Future<Output = ()>>(body: F) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, body);
}

#[track_caller]
pub fn within<F: Future>(future: F) -> impl Future<Output = F::Output> {
    let place = std::panic::Location::caller();
    async move { tokio::time::timeout(LIMIT, future).await.unwrap_or_else(|_| panic!("took too long at {place}")) }
}

/// What reached the audit log.
#[derive(Default)]
pub struct Log {
    pub lines: Mutex<Vec<String>>,
    pub is_full: AtomicBool,
}

impl Audit for Log {
    fn append(&self, record: &AuditRecord) -> Result<(), AuditError> {
        if self.is_full.load(Ordering::Relaxed) {
            return Err(AuditError::Write(io::ErrorKind::StorageFull.into()));
        }
        let AuditRecord { result, object, answered_by, .. } = record;
        self.lines.lock().unwrap().push(format!("{result} {object} {answered_by}"));
        Ok(())
    }

    fn sync(&self) -> Result<(), AuditError> {
        Ok(())
    }
}

/// An engine whose supervisors the test plays.
struct Simulated {
    started: mpsc::UnboundedSender<Supervisor>,
    killed: Rc<RefCell<Vec<SessionId>>>,
    fails: Rc<Cell<bool>>,
}

impl Engine for Simulated {
    fn start<'a>(&'a self, session: &'a SessionId) -> Local<'a, Result<Started, EngineError>> {
        Box::pin(async move {
            if self.fails.get() {
                return Err(EngineError::Silent("gated-session@x.service".into()));
            }
            let (ours, theirs) = StdStream::pair().unwrap();
            theirs.set_nonblocking(true).unwrap();
            let stream = UnixStream::from_std(theirs).unwrap();
            self.started.send(Supervisor { session: session.clone(), stream }).unwrap();
            Ok(Started { socket: Socket::new(ours.into()).unwrap(), unit: None, process: None })
        })
    }

    fn kill<'a>(&'a self, kept: &'a Kept) -> Local<'a, ()> {
        Box::pin(async move { self.killed.borrow_mut().push(kept.session.clone()) })
    }

    fn name(&self) -> &'static str {
        "simulated"
    }
}

/// The other end of a session's link.
pub struct Supervisor {
    pub session: SessionId,
    pub stream: UnixStream,
}

impl Supervisor {
    pub async fn send(&mut self, message: FromSession) {
        self.stream.write_all(&wire::encode(&message).unwrap()).await.unwrap();
    }

    /// What comes next, with its descriptors; `None` at the end.
    pub async fn receive(&mut self) -> Option<(ToSession, Vec<OwnedFd>)> {
        let (mut head, mut fds, mut filled) = ([0; 4], Vec::new(), 0);
        while filled < 4 {
            let stream = &self.stream;
            let rest = &mut head[filled..];
            let got = stream.async_io(Interest::READABLE, || {
                let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
                let mut ancillary = RecvAncillaryBuffer::new(&mut space);
                let got = recvmsg(stream, &mut [IoSliceMut::new(rest)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
                for message in ancillary.drain() {
                    if let RecvAncillaryMessage::ScmRights(rights) = message {
                        fds.extend(rights);
                    }
                }
                Ok(got.bytes)
            });
            match got.await {
                Ok(0) | Err(_) => return None,
                Ok(bytes) => filled += bytes,
            }
        }
        let mut body = vec![0; wire::frame_length(head).unwrap()];
        self.stream.read_exact(&mut body).await.ok()?;
        Some((wire::decode(&body).unwrap(), fds))
    }

    pub async fn message(&mut self) -> ToSession {
        within(self.receive()).await.expect("the daemon has not closed the link").0
    }

    /// The next decision.
    pub async fn decided(&mut self) -> Decision {
        match self.message().await {
            ToSession::Decided(decision) => decision,
            other => panic!("no decision: {other:?}"),
        }
    }

    /// What the next decision grants.
    pub async fn granted(&mut self) -> Grant {
        Grant::decode(&self.decided().await.grant.expect("a grant")).unwrap()
    }

    /// [`Supervisor::granted`], with grants from elsewhere before it.
    pub async fn granted_after_grants(&mut self) -> Grant {
        loop {
            match self.message().await {
                ToSession::Grant(_) => {}
                ToSession::Decided(decision) => return Grant::decode(&decision.grant.expect("a grant")).unwrap(),
                other => panic!("no decision: {other:?}"),
            }
        }
    }

    /// Builds the session.
    pub async fn build(&mut self) -> Launch {
        let ToSession::Launch(launch) = self.message().await else { panic!("launched first") };
        self.send(FromSession::Ready { landlock_abi: 6 }).await;
        *launch
    }

    pub fn request(&self, id: u128, object: &str) -> Request {
        Request {
            id: RequestId(id),
            session: self.session.clone(),
            call: CallId(1),
            who: who(),
            access: Access::Write,
            operation: Operation::Create,
            object: object.into(),
            is_directory: false,
            other: None,
            level: Level::Ask,
            rule: RuleRef { profile: "p".into(), id: "r".into(), file: "p.toml".into(), line: 1, reason: None },
            remember: Lifetime::Session,
            group: None,
            execution: None,
            destination: None,
            service: None,
            remember_for: None,
        }
    }

    pub async fn ask(&mut self, id: u128, object: &str) {
        let request = self.request(id, object);
        self.send(FromSession::Ask(Box::new(request))).await;
    }

    /// Waits for the daemon to close the link.
    pub async fn ended(&mut self) {
        while within(self.receive()).await.is_some() {}
    }
}

pub fn who() -> Who {
    let argv = ["tool", "--token", "abc"].map(Untrusted::new).to_vec();
    Who { pid: 100, program: "/usr/bin/tool".into(), argv, cwd: "/work".into() }
}

/// A daemon.
pub struct World {
    pub address: String,
    pub core: Rc<Core>,
    pub log: Arc<Log>,
    pub killed: Rc<RefCell<Vec<SessionId>>>,
    pub fails: Rc<Cell<bool>>,
    started: tokio::sync::Mutex<mpsc::UnboundedReceiver<Supervisor>>,
    pub place: tempfile::TempDir,
}

impl World {
    /// A daemon on the bus at this address.
    pub async fn start(address: &str) -> World {
        let place = tempfile::tempdir().unwrap();
        let (log, killed, fails) = (Arc::<Log>::default(), Rc::default(), Rc::default());
        let (starts, started) = mpsc::unbounded_channel();
        let root = place.path().join("root");
        std::fs::create_dir_all(root.join("etc/gated/profiles")).unwrap();
        let owner = rustix::process::geteuid().as_raw();
        let core = Core::new(Setting {
            engine: Rc::new(Simulated { started: starts, killed: Rc::clone(&killed), fails: Rc::clone(&fails) }),
            rendezvous: Rc::new(Rendezvous::default()),
            audit: Arc::clone(&log) as Arc<dyn Audit>,
            store: Store::open(&place.path().join("state")).unwrap(),
            shelf: Shelf::open(&place.path().join("sessions")).unwrap(),
            socket: place.path().join("supervisors.sock"),
            nobody_yet: PATIENCE,
            own: vec!["/gateds-own".into()],
            machine: Machine { root: root.clone(), owner },
            read_policy: Box::new(move || Snapshot::read(&root, owner)),
        });
        let core = core.unwrap();
        let connection = zbus::connection::Builder::address(address).build().await.unwrap();
        let (ready, is_ready) = oneshot::channel();
        let attended = Rc::clone(&core);
        tokio::task::spawn_local(async move {
            let ended = attend(&connection, &attended, vec!["simulated".into()], || ready.send(()).unwrap()).await;
            ended.expect("the daemon has its name");
        });
        within(is_ready).await.unwrap();
        let started = tokio::sync::Mutex::new(started);
        World { address: address.to_owned(), core, log, killed, fails, started, place }
    }

    pub async fn connect(&self) -> Client {
        Client(zbus::connection::Builder::address(self.address.as_str()).build().await.unwrap())
    }

    /// A file of the machine's policy.
    pub fn policy(&self, file: &str, text: &str) {
        let path = self.place.path().join("root/etc/gated").join(file);
        std::fs::write(&path, text).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
        std::fs::set_permissions(&path, mode).unwrap();
    }

    /// The supervisor that was started last.
    pub async fn supervisor(&self) -> Supervisor {
        within(async { self.started.lock().await.recv().await }).await.expect("the engine lives")
    }

    /// A session of whoever this is, with this profile.
    pub async fn session(&self, client: &Client, profile: &str) -> Supervisor {
        self.session_with_grants(client, profile).await.0
    }

    /// The same, and what it has from its start.
    pub async fn session_with_grants(&self, client: &Client, profile: &str) -> (Supervisor, Vec<Grant>) {
        let options = HashMap::from([
            ("directory", Variant::from(b"/work".to_vec())),
            ("profile", Variant::from("own")),
            ("profiles", own(profile)),
        ]);
        let body = (options,);
        let opening = client.manager("OpenSession", &body);
        let building = async {
            let mut supervisor = self.supervisor().await;
            let launch = supervisor.build().await;
            let grants = launch.grants.iter().map(|bytes| Grant::decode(bytes).unwrap()).collect();
            (supervisor, grants)
        };
        let (opened, (supervisor, grants)) = tokio::join!(opening, building);
        let (id, _): (String, zbus::OwnedObjectPath) = opened.unwrap().body().deserialize().unwrap();
        assert_eq!(id, supervisor.session.0);
        (supervisor, grants)
    }

    pub fn audited(&self) -> Vec<String> {
        self.log.lines.lock().unwrap().clone()
    }

    /// Waits until something holds of the core.
    pub async fn until(&self, what: &str, mut holds: impl FnMut(&Core) -> bool) {
        let end = tokio::time::Instant::now() + LIMIT;
        while !holds(&self.core) {
            assert!(tokio::time::Instant::now() < end, "waited for {what}");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

/// The option `profiles` with one profile, `own`, that has this behind its header.
pub fn own(rest: &str) -> Variant<'static> {
    let text = format!("schema = 1\n[profile]\nname = \"own\"\n{rest}");
    Variant::from(HashMap::from([("own", text.into_bytes())]))
}

/// Every option that a new session needs.
pub fn opening() -> Options<'static> {
    HashMap::from([("directory", Variant::from(b"/work".to_vec()))])
}

/// A client of the daemon.
#[derive(Clone)]
pub struct Client(pub Connection);

/// The name of a refusal, without what all names begin with.
pub fn refusal<T: std::fmt::Debug>(result: Result<T, zbus::Error>) -> String {
    match result {
        Err(zbus::Error::MethodError(name, ..)) => name.trim_start_matches("org.gated.Gated1.Error.").to_owned(),
        Err(zbus::Error::FDO(error)) => zbus::DBusError::name(&*error).to_string(),
        other => panic!("not refused: {other:?}"),
    }
}

impl Client {
    pub async fn call<B>(&self, path: &str, interface: &str, method: &str, body: &B) -> zbus::Result<zbus::Message>
    where
        B: serde::Serialize + zbus::wire::DynamicType,
    {
        within(self.0.call_method(Some(BUS_NAME), path, Some(interface), method, body)).await
    }

    pub async fn manager<B>(&self, method: &str, body: &B) -> zbus::Result<zbus::Message>
    where
        B: serde::Serialize + zbus::wire::DynamicType,
    {
        self.call(MANAGER_PATH, MANAGER_INTERFACE, method, body).await
    }

    pub async fn decide(&self, id: u128, decision: &str) -> zbus::Result<zbus::Message> {
        self.manager("Decide", &(format!("{id:032x}"), decision, Options::new())).await
    }

    pub async fn stop(&self, id: &SessionId) -> zbus::Result<zbus::Message> {
        self.call(&format!("{SESSIONS_PATH}/{id}"), SESSION_INTERFACE, "Stop", &(Options::new(),)).await
    }

    pub async fn property(&self, path: &str, interface: &str, name: &str) -> zbus::Result<OwnedVariant> {
        let got = self.call(path, "org.freedesktop.DBus.Properties", "Get", &(interface, name)).await?;
        got.body().deserialize()
    }

    /// Waits until a request is served under this number.
    pub async fn waits_at(&self, number: u64) {
        let path = format!("{REQUESTS_PATH}/{number}");
        let end = tokio::time::Instant::now() + LIMIT;
        while self.property(&path, REQUEST_INTERFACE, "Id").await.is_err() {
            assert!(tokio::time::Instant::now() < end, "waited for request {number}");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// What is there, for this client.
    pub async fn managed(&self) -> zbus::Result<Vec<String>> {
        type Managed = HashMap<zbus::OwnedObjectPath, HashMap<String, HashMap<String, OwnedVariant>>>;
        let got = self.call(MANAGER_PATH, "org.freedesktop.DBus.ObjectManager", "GetManagedObjects", &()).await?;
        let managed: Managed = got.body().deserialize()?;
        Ok(managed.into_keys().map(|path| path.to_string()).collect())
    }

    /// Registers an agent that the test plays.
    pub async fn agent(&self, options: Options<'_>) -> Agent {
        let (tells, told) = mpsc::unbounded_channel();
        self.0.object_server().at(AGENT_PATH, Puppet { tells }).await.unwrap();
        self.manager("RegisterAgent", &(options,)).await.unwrap();
        Agent { told }
    }
}

/// What an agent heard.
#[derive(Debug)]
pub enum Told {
    Ask(u128, oneshot::Sender<Said>),
    Cancel(u128),
    Release,
}

/// `decision` and `scope`.
pub type Said = (String, HashMap<String, OwnedVariant>);

pub fn said(decision: &str) -> Said {
    (decision.to_owned(), HashMap::new())
}

pub struct Agent {
    told: mpsc::UnboundedReceiver<Told>,
}

impl Agent {
    pub async fn next(&mut self) -> Told {
        within(self.told.recv()).await.expect("the agent lives")
    }

    pub async fn asked(&mut self, id: u128) -> oneshot::Sender<Said> {
        match self.next().await {
            Told::Ask(asked, reply) if asked == id => reply,
            other => panic!("asked for {id}: {other:?}"),
        }
    }

    /// Whether nothing has come.
    pub fn is_left_alone(&mut self) -> bool {
        self.told.try_recv().is_err()
    }
}

struct Puppet {
    tells: mpsc::UnboundedSender<Told>,
}

fn id(text: &str) -> u128 {
    assert_eq!(text.len(), 32);
    u128::from_str_radix(text, 16).unwrap()
}

#[zbus::interface(name = "org.gated.Gated1.Agent")]
impl Puppet {
    async fn ask(&self, request: String, _details: HashMap<String, OwnedVariant>) -> zbus::fdo::Result<Said> {
        let (reply, answer) = oneshot::channel();
        let _ = self.tells.send(Told::Ask(id(&request), reply));
        answer.await.map_err(|_| zbus::fdo::Error::Failed("no answer".into()))
    }

    async fn cancel(&self, request: String) {
        let _ = self.tells.send(Told::Cancel(id(&request)));
    }

    async fn release(&self) {
        let _ = self.tells.send(Told::Release);
    }
}

/// A text of the sources.
pub fn source(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// Requests that wait, equal ones once.
pub fn waiting(core: &Core) -> usize {
    core.sessions.borrow().values().map(|live| live.view.prompts.borrow().len()).sum()
}
