//! A session's life once it is built: the broker's words go to whom they are for, each call has a thread, and at the end
//! init is killed, with which everything dies. Runs as the user, without capabilities.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use super::attend::{self, CALLERS_PATIENCE};
use super::calls::{Calls, Place};
use super::hostroot::HostRoot;
use super::inside::{self, PidNamespace};
use super::kin::Kin;
use super::names;
use super::net::Network;
use super::perform::Performer;
use super::reads::{Court, HeldReads};
use super::reunion::{Reunion, SOON_GONE};
use super::start::{CallersFiles, Order};
use super::upstream::{BrokerLink, Upstream};
use crate::common::id::{CallId, SessionId, Token};
use crate::common::wire::{
    self, Ended, Ends, FromCaller, FromSession, Hello, Launch, Resumed, RunningCall, ToCaller, ToSession,
};
use crate::policy::Profile;
use crate::tool::busproxy::BusProxy;
use crate::tool::link::Link;
use crate::tool::messages::{FromInit, ToInit};
use crate::tool::namespaces::InitProcess;

/// The supervisor's link to whoever started a call.
pub type CallerLink = Link<ToCaller, FromCaller>;

/// The first call of every session.
const FIRST_CALL: CallId = CallId(1);

/// What of a session does not change; shared by all of its threads.
pub struct Session {
    pub(super) parts: Parts,
    calls: Arc<Calls>,
    /// The calls whose commands have not ended. Whoever changes it tells the broker before anybody else does.
    running: Mutex<BTreeMap<CallId, RunningCall>>,
    over: SyncSender<()>,
}

/// A session as it was built.
pub struct Parts {
    pub launch: Launch,
    pub profile: Profile,
    pub init: InitProcess,
    /// To start calls.
    pub init_link: Link<ToInit, FromInit>,
    pub performer: Arc<Performer>,
    /// `None` if the session is in the host's.
    pub network: Option<Arc<Network>>,
    /// Until it is started; `None` too if the session is in the host's network.
    pub resolver: Option<names::Resolver>,
    /// /proc of the host's pid namespace, in which the supervisor and the notifications number processes. `O_PATH`.
    pub outer_proc: OwnedFd,
    /// `None` if the profile lists no names of a bus.
    pub bus_proxy: Option<BusProxy>,
    /// The host's view of the file system.
    pub host_root: Arc<HostRoot>,
    pub landlock_abi: u32,
    pub pid_namespace: PidNamespace,
    /// The socket inside, listening.
    pub inside: OwnedFd,
    /// `None` if the session ends with its broker.
    pub reunion: Option<Reunion>,
    /// `None` if the profile holds no reads.
    pub reads: Option<HeldReads>,
}

impl Session {
    pub fn id(&self) -> &SessionId {
        &self.parts.launch.session
    }

    pub fn profile(&self) -> &Profile {
        &self.parts.profile
    }

    pub fn init(&self) -> &Link<ToInit, FromInit> {
        &self.parts.init_link
    }

    pub fn performer(&self) -> &Arc<Performer> {
        &self.parts.performer
    }

    pub fn outer_proc(&self) -> BorrowedFd<'_> {
        self.parts.outer_proc.as_fd()
    }

    pub fn pid_namespace(&self) -> PidNamespace {
        self.parts.pid_namespace
    }

    pub fn kin(&self) -> &Kin {
        self.calls.kin()
    }

    pub fn calls(&self) -> &Calls {
        &self.calls
    }

    /// Init's id in the supervisor's pid namespace.
    pub fn init_pid(&self) -> i32 {
        self.parts.init.pid
    }

    pub fn init_pidfd(&self) -> BorrowedFd<'_> {
        self.parts.init.pidfd.as_fd()
    }

    /// A place for one more call; `None` if there are too many.
    pub fn begin(&self) -> Option<Place> {
        self.calls.begin()
    }

    fn upstream(&self) -> &Upstream {
        self.parts.performer.judge().upstream()
    }

    fn running(&self) -> MutexGuard<'_, BTreeMap<CallId, RunningCall>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Before the command's first instruction.
    pub fn call_started(&self, call: RunningCall) {
        let mut running = self.running();
        let RunningCall { call: number, pid, program, argv } = call.clone();
        running.insert(number, call);
        self.upstream().tell(&FromSession::CallStarted { call: number, pid, program, argv });
    }

    pub fn call_ended(&self, call: CallId, ended: Ended) {
        let mut running = self.running();
        running.remove(&call);
        self.upstream().tell(&FromSession::CallEnded { call, ended });
    }

    /// Nobody waits for the call any more, started or not.
    pub fn caller_left(&self, call: CallId) {
        if self.parts.launch.ends == Ends::WithFirstCall && call == FIRST_CALL {
            self.end();
        }
    }

    /// Ends the session; once is enough.
    fn end(&self) {
        let _ = self.over.try_send(());
    }

    /// Starts a call on a thread of its own.
    fn start(self: &Arc<Session>, order: Order, caller: CallerLink) {
        let Some(place) = self.begin() else {
            let _ = caller.send(&ToCaller::Failed("too many calls of this session are running".into()), &[]);
            return;
        };
        let number = place.id;
        let caller = Arc::new(caller);
        let (session, calls_own) = (Arc::clone(self), Arc::clone(&caller));
        let run = move || attend::run(&session, place, order, &calls_own);
        if let Err(error) = thread::Builder::new().name("gated-call".into()).spawn(run) {
            let _ = caller.send(&ToCaller::Failed(format!("cannot start a thread: {error}")), &[]);
            self.caller_left(number);
        }
    }

    /// A process of ours inside is gone, without which the session's cannot be killed one call at a time.
    pub fn lost(&self, what: &str) {
        // A session that ends with its call hears of it from that.
        if self.parts.launch.ends == Ends::WhenStopped {
            self.upstream().tell(&FromSession::Failed(format!("{what} was ended")));
            self.end();
        }
    }

    /// What the broker says, and its successors, until the session is to end.
    fn obey_all(self: &Arc<Session>, mut broker: Arc<BrokerLink>) {
        loop {
            let since = Instant::now();
            let end = self.obey(&broker);
            self.upstream().disconnected();
            let Some(reunion) = self.parts.reunion.as_ref().filter(|_| end == Last::Gone) else { return };
            let was_soon_gone = since.elapsed() < SOON_GONE;
            let Ok(socket) = reunion.wait(was_soon_gone) else { return };
            broker = Arc::new(BrokerLink::new(socket));
            self.introduce(&reunion.token, &broker);
        }
    }

    /// Says who this is and what it has, and is heard from then on.
    fn introduce(&self, token: &Token, broker: &Arc<BrokerLink>) {
        // No call starts or ends unnoticed between what is said here and what is told after.
        let running = self.running();
        let grants = self.parts.performer.judge().grants();
        let grants = grants.iter().filter_map(|grant| postcard::to_stdvec(grant).ok()).collect();
        let resumed = Resumed { grants, calls: running.values().cloned().collect() };
        let hello = Hello {
            version: wire::VERSION,
            session: self.id().clone(),
            token: Some(token.clone()),
            resumed: Some(resumed),
        };
        // One that does not listen is noticed as soon as it is listened to.
        let _ = broker.send(&FromSession::Hello(Box::new(hello)), &[]);
        self.upstream().connected(Arc::clone(broker));
    }

    /// What the broker says, until it is gone, says stop, or says what makes no sense.
    fn obey(self: &Arc<Session>, broker: &BrokerLink) -> Last {
        let judge = self.parts.performer.judge();
        // Anything that is no frame is the end as well.
        while let Ok(Some(received)) = broker.receive() {
            match received.message {
                ToSession::Decided(decision) => judge.decided(decision),
                ToSession::Recorded(number, written) => judge.upstream().recorded(number, written),
                ToSession::Grant(grant) => judge.granted(&grant),
                ToSession::Revoke(grant) => judge.revoke(grant),
                ToSession::Start(start) => match callers_files(received.fds, &start.passed) {
                    Some((caller, files, passed)) => {
                        self.start(Order { start: *start, files, passed, parent: None, is_from_inside: false }, caller)
                    }
                    // The broker passes on what a client gave it; there is nobody to tell.
                    None if self.parts.launch.ends == Ends::WhenStopped => {}
                    None => return Last::Stop,
                },
                ToSession::Stop => return Last::Stop,
                ToSession::Launch(_) => return Last::Gone,
            }
        }
        Last::Gone
    }
}

/// Why nothing more is heard from a broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Last {
    Stop,
    /// Or it makes no sense, which is as good.
    Gone,
}

/// What comes with a [`Start`] from the broker, whose client chose it.
fn callers_files(fds: Vec<OwnedFd>, numbers: &[i32]) -> Option<(CallerLink, CallersFiles, Vec<OwnedFd>)> {
    let mut fds = fds.into_iter();
    let caller = CallerLink::over(fds.next()?)?;
    caller.limit_waits(CALLERS_PATIENCE).ok()?;
    let files = [fds.next()?, fds.next()?, fds.next()?, fds.next()?];
    let passed: Vec<OwnedFd> = fds.collect();
    let fits = passed.len() == numbers.len() && wire::are_numbers_to_pass(numbers);
    fits.then_some((caller, files, passed))
}

/// Runs a session to its end.
pub fn run(mut parts: Parts, broker: BrokerLink) {
    let resolver = parts.resolver.take();
    let (over, is_over): (SyncSender<()>, Receiver<()>) = sync_channel(1);
    let session = Arc::new(Session { parts, calls: Arc::default(), running: Mutex::default(), over });
    if let Some(held) = &session.parts.reads {
        let performer = Arc::clone(session.performer());
        held.begin(Court { performer, calls: Arc::clone(&session.calls), init: session.init_pid() });
    }
    let broker = Arc::new(broker);
    session.upstream().connected(Arc::clone(&broker));
    // Nobody else holds it: when it has gone, its descriptor has too.
    let obeying = |broker| {
        let session = Arc::clone(&session);
        let obey = move || {
            session.obey_all(broker);
            session.end();
        };
        thread::Builder::new().name("gated-broker".into()).spawn(obey)
    };
    let ready = FromSession::Ready { landlock_abi: session.parts.landlock_abi };
    let letting_in = || {
        let session = Arc::clone(&session);
        let serve = move || inside::serve(&session, &session.parts.inside);
        thread::Builder::new().name("gated-inside".into()).spawn(serve)
    };
    let naming = || {
        let Some(resolver) = resolver else { return Ok(()) };
        let (calls, performer) = (Arc::clone(&session.calls), Arc::clone(session.performer()));
        resolver.start(session.outer_proc().try_clone_to_owned()?, calls, session.init_pid(), performer)
    };
    // The first call is begun meanwhile: questions for names, and calls from inside, wait in sockets that are bound already.
    if broker.send(&ready, &[]).is_ok() && obeying(broker).is_ok() && naming().is_ok() && letting_in().is_ok() {
        // The session holds the other end.
        let _ = is_over.recv();
    }
    // Even if it cannot be killed here: it dies with this process.
    let _ = session.parts.init.kill();
    if let Some(held) = &session.parts.reads {
        held.end();
    }
    session.upstream().disconnected();
}
