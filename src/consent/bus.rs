//! A consent agent's end of the bus. Runs as the person who is asked, in `gated-run` or `gated-notify`; what it is told comes
//! from whoever owns `org.gated.Gated1`, and from nobody else.
//!
//! [`BusAgent`] registers a connection as a consent agent and hands on what is asked, many at a time; [`drive`] puts it to a
//! [`ConsentAgent`] that shows one prompt at a time.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::AbortHandle;
use tracing::{debug, warn};
use zbus::fdo::{self, DBusProxy, NameOwnerChanged};
use zbus::message::Header;
use zbus::names::{BusName, OwnedUniqueName, WellKnownName};
use zbus::{Connection, DBusError, MatchRule, MessageStream, Variant, interface};

use crate::common::bus::{AGENT_PATH, BUS_NAME, MANAGER_INTERFACE, MANAGER_PATH};
use crate::common::consent::{Answer, ConsentAgent, ConsentError, Prompt};
use crate::common::details::{Details, NoticeDetails, Question, answer_to_bus, request_id};
use crate::common::id::{RequestId, SessionId};
use crate::common::notice::Notice;

/// How long to wait before registering again with a daemon that refused; doubled each time up to [`LONGEST_PAUSE`].
const PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(16);

/// Notices that wait to be shown at the most.
const NOTICES: usize = 16;

/// What a consent agent tells the daemon of itself.
#[derive(Clone, Debug)]
pub struct Registration {
    /// A word for the records: `desktop`, `terminal`, `script`.
    pub kind: &'static str,
    /// To be asked for this session only.
    pub session: Option<SessionId>,
}

/// No consent agent.
#[derive(Debug, thiserror::Error)]
pub enum BusError {
    #[error("the bus: {0}")]
    Bus(#[from] zbus::Error),
    #[error("gatedd takes no consent agent from here ({0})")]
    Refused(String),
}

/// One request that somebody is to answer.
#[derive(Debug)]
pub struct Asked {
    pub prompt: Prompt,
    /// Whose session it is.
    pub user: u32,
    /// Takes the answer. Dropped without one, it tells the daemon that this agent cannot ask anybody now.
    pub reply: oneshot::Sender<Answer>,
    pub withdrawn: Withdrawn,
}

/// Whether a request is over without this agent: decided elsewhere, too late, its process or the daemon gone.
#[derive(Clone, Debug)]
pub struct Withdrawn(watch::Receiver<()>);

impl Withdrawn {
    /// Waits until it is. May be dropped and called again.
    pub async fn wait(&mut self) {
        // Nothing is ever sent: the end is that the sender is gone.
        while self.0.changed().await.is_ok() {}
    }

    pub fn is_withdrawn(&self) -> bool {
        self.0.has_changed().is_err()
    }
}

/// A connection that is registered as a consent agent, for as long as this lives. It registers again with each daemon that
/// takes the place of the last one. One for a connection at a time.
pub struct BusAgent {
    connection: Connection,
    desk: Arc<Desk>,
    arrivals: mpsc::UnboundedReceiver<Arrived>,
    notices: Option<mpsc::Receiver<Notice>>,
    keeper: AbortHandle,
}

/// A request on its way from the connection's task to [`BusAgent::next`].
struct Arrived {
    question: Question,
    reply: oneshot::Sender<Answer>,
    withdrawn: Withdrawn,
}

impl BusAgent {
    /// Registers with the daemon. Where there is none it is not started, and the first one that appears is registered with.
    /// Needs a current-thread tokio runtime with time: on one with more threads a `Cancel` could overtake its `Ask`.
    pub async fn register(connection: &Connection, registration: Registration) -> Result<BusAgent, BusError> {
        let rule = MatchRule::builder()
            .msg_type(zbus::message::Type::Signal)
            .sender("org.freedesktop.DBus")
            .interface("org.freedesktop.DBus")
            .member("NameOwnerChanged")
            .arg(0, BUS_NAME)
            .build()?;
        // Before the owner is looked up, so that no change is missed.
        let changes = MessageStream::for_match_rule(rule, connection, None).await?;
        let name = BusName::from(WellKnownName::try_from(BUS_NAME)?);
        let owner = match DBusProxy::new(connection).await?.get_name_owner(name).await {
            Ok(owner) => Some(owner),
            Err(fdo::Error::NameHasNoOwner(_)) => None,
            Err(error) => return Err(zbus::Error::from(error).into()),
        };
        let (asked, arrivals) = mpsc::unbounded_channel();
        let (heard, notices) = mpsc::channel(NOTICES);
        let desk = Arc::new(Desk::new(asked, heard, owner.clone()));
        let server = connection.object_server();
        // That of an agent before this one, which is closed.
        let _ = server.remove::<Exported, _>(AGENT_PATH).await;
        server.at(AGENT_PATH, Exported { desk: Arc::clone(&desk) }).await?;
        if let Some(owner) = &owner {
            match register_with(connection, owner, &registration).await {
                // It went away in this moment: the next one is registered with.
                Err(BusError::Bus(zbus::Error::FDO(error))) if is_gone(&error) => debug!(%error, "not registered"),
                registered => registered?,
            }
        }
        let kept = keep(connection.clone(), registration, Arc::clone(&desk), changes, owner);
        let keeper = tokio::spawn(kept).abort_handle();
        Ok(BusAgent { connection: connection.clone(), desk, arrivals, notices: Some(notices), keeper })
    }

    /// The next request; `None` when the connection to the bus is closed. May be dropped and called again.
    pub async fn next(&mut self) -> Option<Asked> {
        let Arrived { question, reply, withdrawn } = self.arrivals.recv().await?;
        let user = question.user;
        Some(Asked { prompt: question.into(), user, reply, withdrawn })
    }

    /// What nobody is asked about, for whoever wants to show it; given once. What is not taken off is lost.
    pub fn take_notices(&mut self) -> Option<mpsc::Receiver<Notice>> {
        self.notices.take()
    }

    /// Tells the daemon not to ask this agent any more. A daemon that is gone does not.
    pub async fn unregister(self) {
        if let Some(owner) = self.desk.owner() {
            let owner = owner.as_str();
            let told =
                self.connection.call_method(Some(owner), MANAGER_PATH, Some(MANAGER_INTERFACE), "UnregisterAgent", &());
            if let Err(error) = told.await {
                debug!(%error, "not unregistered");
            }
        }
    }
}

impl Drop for BusAgent {
    fn drop(&mut self) {
        self.keeper.abort();
        self.desk.close();
    }
}

/// Puts what arrives to `agent`, one after the other in the order of arrival, until the connection is closed (`Ok`) or the
/// agent is gone. What is withdrawn is not shown, or not any longer.
pub async fn drive(bus: &mut BusAgent, agent: &mut dyn ConsentAgent) -> Result<(), ConsentError> {
    let mut queue = VecDeque::new();
    let mut notices = bus.take_notices();
    loop {
        let asked = match queue.pop_front() {
            Some(asked) => asked,
            None => tokio::select! {
                biased;
                next = bus.next() => match next {
                    Some(asked) => asked,
                    None => return Ok(()),
                },
                notice = heard(&mut notices) => {
                    agent.notice(&notice);
                    continue;
                }
            },
        };
        let Asked { prompt, reply, mut withdrawn, .. } = asked;
        if withdrawn.is_withdrawn() {
            continue;
        }
        let mut asking = agent.ask(&prompt);
        let answer = loop {
            tokio::select! {
                biased;
                () = withdrawn.wait() => break None,
                next = bus.next() => match next {
                    Some(asked) => queue.push_back(asked),
                    None => return Ok(()),
                },
                answer = &mut asking => break Some(answer),
            }
        };
        match answer {
            None => debug!(request = %prompt.id, "withdrawn"),
            // The daemon may have decided in this moment.
            Some(Ok(answer)) => drop(reply.send(answer)),
            Some(Err(error @ ConsentError::Gone(_))) => return Err(error),
            Some(Err(error)) => warn!(%error, "no answer"),
        }
    }
}

/// The next notice; never if there is none to come.
async fn heard(notices: &mut Option<mpsc::Receiver<Notice>>) -> Notice {
    match notices {
        Some(notices) => match notices.recv().await {
            Some(notice) => notice,
            None => std::future::pending().await,
        },
        None => std::future::pending().await,
    }
}

/// What the object on the bus, the keeper of the registration and the agent share.
struct Desk(Mutex<State>);

struct State {
    /// Who may ask: the connection that owns the daemon's name.
    owner: Option<OwnedUniqueName>,
    /// Requests that wait; dropping a sender withdraws one. The number tells one `Ask` from the next of the same request.
    open: HashMap<RequestId, (u64, watch::Sender<()>)>,
    count: u64,
    /// `None` once nobody takes requests any more.
    asked: Option<mpsc::UnboundedSender<Arrived>>,
    heard: mpsc::Sender<Notice>,
}

impl Desk {
    fn new(asked: mpsc::UnboundedSender<Arrived>, heard: mpsc::Sender<Notice>, owner: Option<OwnedUniqueName>) -> Desk {
        Desk(Mutex::new(State { owner, open: HashMap::new(), count: 0, asked: Some(asked), heard }))
    }

    /// One too many is not shown.
    fn hear(&self, notice: Notice) {
        let _ = self.state().heard.try_send(notice);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it holds this; each change is whole in itself.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn owner(&self) -> Option<OwnedUniqueName> {
        self.state().owner.clone()
    }

    /// Another daemon, or none: what the last one asked is over.
    fn set_owner(&self, owner: Option<OwnedUniqueName>) {
        let mut state = self.state();
        state.owner = owner;
        state.open.clear();
    }

    /// Nothing is taken any more.
    fn close(&self) {
        let mut state = self.state();
        state.asked = None;
        state.open.clear();
    }

    fn withdraw(&self, request: RequestId) {
        self.state().open.remove(&request);
    }

    fn withdraw_all(&self) {
        self.state().open.clear();
    }

    fn check(&self, header: &Header<'_>) -> Result<(), AskError> {
        let state = self.state();
        let from_daemon = header
            .sender()
            .is_some_and(|sender| state.owner.as_ref().is_some_and(|owner| owner.as_str() == sender.as_str()));
        if from_daemon { Ok(()) } else { Err(AskError::AccessDenied("not the owner of org.gated.Gated1".to_owned())) }
    }

    /// Hand a request on. The number is for [`Desk::leave`].
    fn enter(&self, question: Question) -> Result<(u64, oneshot::Receiver<Answer>, Withdrawn), AskError> {
        let mut state = self.state();
        let (withdraw, withdrawn) = watch::channel(());
        let withdrawn = Withdrawn(withdrawn);
        let (reply, answered) = oneshot::channel();
        let id = question.request.id;
        let closed = || AskError::Unavailable("nobody is asked here any more".to_owned());
        let asked = state.asked.as_ref().ok_or_else(closed)?;
        asked.send(Arrived { question, reply, withdrawn: withdrawn.clone() }).map_err(|_| closed())?;
        state.count = state.count.wrapping_add(1);
        let number = state.count;
        state.open.insert(id, (number, withdraw));
        Ok((number, answered, withdrawn))
    }

    fn leave(&self, request: RequestId, number: u64) {
        let mut state = self.state();
        if state.open.get(&request).is_some_and(|(current, _)| *current == number) {
            state.open.remove(&request);
        }
    }
}

/// An `Ask` that brings no answer.
#[derive(Debug, DBusError)]
#[zbus(prefix = "org.gated.Gated1.Error")]
enum AskError {
    #[zbus(error)]
    ZBus(zbus::Error),
    AccessDenied(String),
    /// The details are none that a daemon of this version sends.
    InvalidRequest(String),
    /// Nobody can be asked here now; others may be.
    Unavailable(String),
}

/// What is at [`AGENT_PATH`].
struct Exported {
    desk: Arc<Desk>,
}

#[interface(name = "org.gated.Gated1.Agent")]
impl Exported {
    #[zbus(out_args("decision", "scope"))]
    async fn ask(
        &self,
        #[zbus(header)] header: Header<'_>,
        request: &str,
        details: Details,
    ) -> Result<(&'static str, HashMap<&'static str, Variant<'static>>), AskError> {
        self.desk.check(&header)?;
        let question = details.question(request).map_err(|error| {
            warn!(%error, "gatedd asks what cannot be asked");
            AskError::InvalidRequest(error.to_string())
        })?;
        let id = question.request.id;
        let (number, answered, mut withdrawn) = self.desk.enter(question)?;
        let answer = tokio::select! {
            biased;
            // No answer either way: one that nobody gave could be taken for a person's.
            () = withdrawn.wait() => None,
            answer = answered => answer.ok(),
        };
        self.desk.leave(id, number);
        answer.map(|answer| answer_to_bus(&answer)).ok_or_else(|| AskError::Unavailable("no answer".to_owned()))
    }

    async fn cancel(&self, #[zbus(header)] header: Header<'_>, request: &str) -> Result<(), AskError> {
        self.desk.check(&header)?;
        let id = request_id(request).map_err(|error| AskError::InvalidRequest(error.to_string()))?;
        self.desk.withdraw(id);
        Ok(())
    }

    async fn notice(
        &self,
        #[zbus(header)] header: Header<'_>,
        kind: &str,
        details: NoticeDetails,
    ) -> Result<(), AskError> {
        self.desk.check(&header)?;
        match details.notice(kind) {
            Ok(notice) => self.desk.hear(notice),
            // Of a newer daemon, perhaps; nobody waits.
            Err(error) => debug!(%error, kind, "a notice that says nothing here"),
        }
        Ok(())
    }

    async fn release(&self, #[zbus(header)] header: Header<'_>) -> Result<(), AskError> {
        self.desk.check(&header)?;
        self.desk.withdraw_all();
        Ok(())
    }
}

/// Follows the daemon's name, and registers with each new owner. Ends with the connection.
async fn keep(
    connection: Connection,
    registration: Registration,
    desk: Arc<Desk>,
    mut changes: MessageStream,
    mut owner: Option<OwnedUniqueName>,
) {
    let mut is_new = false;
    loop {
        let change = tokio::select! {
            biased;
            () = connection.closed() => break,
            change = changes.next() => change,
            never = register_again(&connection, owner.as_ref().filter(|_| is_new), &registration) => match never {},
        };
        let Some(Ok(message)) = change else { break };
        let Some(signal) = NameOwnerChanged::from_message(message) else { continue };
        // The bus sends nothing else; without an owner nobody may ask.
        owner = signal.args().ok().and_then(|args| args.new_owner().as_ref().map(|name| name.to_owned().into()));
        is_new = true;
        desk.set_owner(owner.clone());
    }
    desk.close();
}

/// Until a daemon that appeared takes the registration; one that refuses may still be starting.
async fn register_again(
    connection: &Connection,
    owner: Option<&OwnedUniqueName>,
    registration: &Registration,
) -> Infallible {
    let mut pause = PAUSE;
    while let Some(owner) = owner {
        match register_with(connection, owner, registration).await {
            Ok(()) => break,
            Err(error) => warn!(%error, "not registered with the new gatedd"),
        }
        tokio::time::sleep(pause).await;
        pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
    }
    std::future::pending().await
}

/// Whether this is about a daemon that is not there any more.
fn is_gone(error: &fdo::Error) -> bool {
    use fdo::Error as Standard;
    matches!(
        error,
        Standard::NoReply(_) | Standard::Disconnected(_) | Standard::ServiceUnknown(_) | Standard::NameHasNoOwner(_)
    )
}

/// One call of `RegisterAgent`. To the unique name: to register starts no daemon.
async fn register_with(
    connection: &Connection,
    owner: &OwnedUniqueName,
    registration: &Registration,
) -> Result<(), BusError> {
    let mut options = HashMap::from([("kind", Variant::from(registration.kind))]);
    if let Some(session) = &registration.session {
        options.insert("session", Variant::from(session.0.as_str()));
    }
    let owner = owner.as_str();
    let options = (options,);
    let called = connection.call_method(Some(owner), MANAGER_PATH, Some(MANAGER_INTERFACE), "RegisterAgent", &options);
    match called.await {
        Ok(_) => Ok(()),
        Err(zbus::Error::MethodError(name, ..)) => Err(BusError::Refused(name.as_str().to_owned())),
        Err(error) => Err(error.into()),
    }
}
