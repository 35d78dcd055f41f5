//! A consent agent's end of the bus, on a private bus where the test is the daemon: what is asked arrives, the answer goes
//! back, and only the owner of the daemon's name is listened to.

#[path = "support/bus.rs"]
#[allow(dead_code, reason = "each test program uses its own part")]
mod support;

use std::collections::HashMap;
use std::future::Future;
use std::rc::Rc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use gated::common::access::{Access, Level};
use gated::common::bus::{AGENT_INTERFACE, AGENT_PATH, BUS_NAME, MANAGER_PATH};
use gated::common::consent::{Answer, Asking, ConsentAgent, ConsentError, Offer, Prompt};
use gated::common::decision::{Lifetime, Width};
use gated::common::details::{Details, answer_from_bus};
use gated::common::id::{CallId, RequestId, SessionId};
use gated::common::request::{Operation, Request, RuleRef, Who};
use gated::common::text::Untrusted;
use gated::consent::bus::{BusAgent, BusError, Registration, drive};
use support::PrivateBus;
use tokio::sync::mpsc;
use zbus::message::Header;
use zbus::{Connection, DBusError, OwnedVariant, interface};

const LIMIT: Duration = Duration::from_secs(20);

/// A daemon as far as a consent agent sees it.
struct Manager {
    registered: mpsc::UnboundedSender<(String, HashMap<String, OwnedVariant>)>,
    refuses: bool,
}

#[derive(Debug, DBusError)]
#[zbus(prefix = "org.gated.Gated1.Error")]
enum ManagerError {
    AccessDenied(String),
}

#[interface(name = "org.gated.Gated1.Manager")]
impl Manager {
    async fn register_agent(
        &self,
        #[zbus(header)] header: Header<'_>,
        options: HashMap<String, OwnedVariant>,
    ) -> Result<(), ManagerError> {
        let sender = header.sender().expect("the bus names the sender").to_string();
        let _ = self.registered.send((sender, options));
        if self.refuses { Err(ManagerError::AccessDenied(String::new())) } else { Ok(()) }
    }

    async fn unregister_agent(&self, #[zbus(header)] header: Header<'_>) {
        let sender = header.sender().expect("the bus names the sender").to_string();
        let _ = self.registered.send((sender, HashMap::new()));
    }
}

/// The test's daemon and its connection.
struct Daemon {
    connection: Connection,
    registered: mpsc::UnboundedReceiver<(String, HashMap<String, OwnedVariant>)>,
}

type Reply = Result<Answer, String>;

impl Daemon {
    async fn start(bus: &PrivateBus, refuses: bool) -> Daemon {
        let connection = bus.connect().await;
        let (sender, registered) = mpsc::unbounded_channel();
        let manager = Manager { registered: sender, refuses };
        connection.object_server().at(MANAGER_PATH, manager).await.unwrap();
        connection.request_name(BUS_NAME).await.unwrap();
        Daemon { connection, registered }
    }

    /// The next registration: who, and the options.
    async fn next(&mut self) -> (String, HashMap<String, OwnedVariant>) {
        within(self.registered.recv()).await.expect("the manager lives")
    }

    /// `Ask`, in a task of its own.
    fn ask(&self, agent: &str, prompt: &Prompt) -> tokio::task::JoinHandle<Reply> {
        tokio::spawn(ask(self.connection.clone(), agent.to_owned(), prompt.id, Details::of(prompt, 1000)))
    }

    async fn tell(&self, agent: &str, method: &str, request: Option<RequestId>) {
        let called = match request {
            Some(id) => call(&self.connection, agent, method, &(id.to_string(),)).await,
            None => call(&self.connection, agent, method, &()).await,
        };
        called.unwrap();
    }
}

async fn call<B>(connection: &Connection, agent: &str, method: &str, body: &B) -> zbus::Result<zbus::Message>
where
    B: serde::Serialize + zbus::wire::DynamicType,
{
    within(connection.call_method(Some(agent), AGENT_PATH, Some(AGENT_INTERFACE), method, body)).await
}

/// `Err` is the name of the error.
async fn ask(connection: Connection, agent: String, id: RequestId, details: Details) -> Reply {
    match call(&connection, &agent, "Ask", &(id.to_string(), details)).await {
        Ok(message) => {
            let (decision, scope): (String, HashMap<String, OwnedVariant>) = message.body().deserialize().unwrap();
            Ok(answer_from_bus(&decision, &scope).unwrap())
        }
        Err(zbus::Error::MethodError(name, ..)) => Err(name.to_string()),
        Err(error) => panic!("{error}"),
    }
}

#[track_caller]
fn within<F: Future>(future: F) -> impl Future<Output = F::Output> {
    let place = std::panic::Location::caller();
    tokio::time::timeout(LIMIT, future).map(move |done| done.unwrap_or_else(|_| panic!("took too long at {place}")))
}

/// Runs a test's body where agents run: on one thread.
fn run(body: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, body);
}

fn unavailable() -> Reply {
    Err("org.gated.Gated1.Error.Unavailable".into())
}

fn registration() -> Registration {
    Registration { kind: "terminal", session: Some(SessionId("0000002a".into())) }
}

fn prompt(number: u128) -> Prompt {
    let request = Request {
        id: RequestId(number),
        session: SessionId("0000002a".into()),
        call: CallId(1),
        who: Who {
            pid: 4711,
            program: "/usr/bin/touch".into(),
            argv: ["touch", "x"].map(Untrusted::new).to_vec(),
            cwd: "/srv".into(),
        },
        access: Access::Write,
        operation: Operation::Create,
        object: "/srv/x".into(),
        is_directory: false,
        other: None,
        level: Level::Ask,
        rule: RuleRef { profile: "p".into(), id: "r".into(), file: "/f".into(), line: 3, reason: None },
        remember: Lifetime::Session,
        group: None,
        execution: None,
        destination: None,
        service: None,
        remember_for: None,
    };
    let offers = [(Width::Exact, "/srv/x"), (Width::Tree, "/srv/**")];
    let offers = offers.map(|(width, scope)| Offer { width, scope: scope.into() }).to_vec();
    let deadline = Instant::now() + Duration::from_secs(60);
    Prompt::new(Rc::new(request), offers, deadline)
}

#[test]
fn an_agent_registers_is_asked_and_answers() {
    run(async {
        let bus = PrivateBus::start();
        let mut daemon = Daemon::start(&bus, false).await;
        let connection = bus.connect().await;
        let mut agent = within(BusAgent::register(&connection, registration())).await.unwrap();
        let (name, options) = daemon.next().await;
        assert_eq!(Some(name.as_str()), connection.unique_name().map(|name| name.as_str()));
        let text = |key: &str| options.get(key).map(|value| String::try_from(value.try_clone().unwrap()).unwrap());
        assert_eq!(text("kind").as_deref(), Some("terminal"));
        assert_eq!(text("session").as_deref(), Some("0000002a"));

        // Two are open at once, and answered in the other order.
        let first = daemon.ask(&name, &prompt(1));
        let asked = within(agent.next()).await.unwrap();
        let second = daemon.ask(&name, &prompt(2));
        let other = within(agent.next()).await.unwrap();
        assert_eq!((asked.prompt.id, other.prompt.id), (RequestId(1), RequestId(2)));
        assert_eq!((asked.user, asked.prompt.offers.len()), (1000, 2));
        assert_eq!(asked.prompt.request.as_ref(), prompt(1).request.as_ref());
        other.reply.send(Answer::Session(Width::Tree)).unwrap();
        assert_eq!(second.await.unwrap(), Ok(Answer::Session(Width::Tree)));
        assert!(!asked.withdrawn.is_withdrawn());
        asked.reply.send(Answer::Deny).unwrap();
        assert_eq!(first.await.unwrap(), Ok(Answer::Deny));

        within(agent.unregister()).await;
        assert_eq!(daemon.next().await, (name.clone(), HashMap::new()));
        let late = daemon.ask(&name, &prompt(3)).await.unwrap();
        assert_eq!(late, unavailable());
    });
}

#[test]
fn only_the_owner_of_the_daemons_name_may_ask_cancel_and_release() {
    run(async {
        let bus = PrivateBus::start();
        let mut daemon = Daemon::start(&bus, false).await;
        let connection = bus.connect().await;
        let mut agent = within(BusAgent::register(&connection, registration())).await.unwrap();
        let (name, _) = daemon.next().await;
        let stranger = bus.connect().await;
        let denied = Err("org.gated.Gated1.Error.AccessDenied".to_owned());
        assert_eq!(ask(stranger.clone(), name.clone(), RequestId(1), Details::of(&prompt(1), 0)).await, denied);
        // The agent itself is no daemon either.
        assert_eq!(ask(connection.clone(), name.clone(), RequestId(1), Details::of(&prompt(1), 0)).await, denied);

        let answer = daemon.ask(&name, &prompt(2));
        let asked = within(agent.next()).await.unwrap();
        assert_eq!(asked.prompt.id, RequestId(2), "the stranger's request never arrived");
        assert!(call(&stranger, &name, "Cancel", &(RequestId(2).to_string(),)).await.is_err());
        assert!(call(&stranger, &name, "Release", &()).await.is_err());
        assert!(!asked.withdrawn.is_withdrawn());
        asked.reply.send(Answer::Once(Width::Exact)).unwrap();
        assert_eq!(answer.await.unwrap(), Ok(Answer::Once(Width::Exact)));
    });
}

#[test]
fn what_the_daemon_takes_back_is_withdrawn() {
    run(async {
        let bus = PrivateBus::start();
        let mut daemon = Daemon::start(&bus, false).await;
        let connection = bus.connect().await;
        let mut agent = within(BusAgent::register(&connection, registration())).await.unwrap();
        let (name, _) = daemon.next().await;
        let [one, two, three] = [1, 2, 3].map(|number| daemon.ask(&name, &prompt(number)));
        let mut asked = within(agent.next()).await.unwrap();
        let mut next = within(agent.next()).await.unwrap();
        let mut last = within(agent.next()).await.unwrap();
        daemon.tell(&name, "Cancel", Some(RequestId(1))).await;
        within(asked.withdrawn.wait()).await;
        // It ends without an answer that nobody gave.
        assert_eq!(within(one).await.unwrap(), unavailable());
        assert!(asked.reply.send(Answer::Session(Width::Exact)).is_err(), "an answer comes too late");
        assert!(!next.withdrawn.is_withdrawn());
        daemon.tell(&name, "Cancel", Some(RequestId(99))).await;
        daemon.tell(&name, "Release", None).await;
        within(next.withdrawn.wait()).await;
        within(last.withdrawn.wait()).await;
        assert_eq!(within(two).await.unwrap(), unavailable());
        assert_eq!(within(three).await.unwrap(), unavailable());
    });
}

#[test]
fn an_agent_outlives_the_daemon_and_registers_with_the_next() {
    run(async {
        let bus = PrivateBus::start();
        let connection = bus.connect().await;
        // Nobody is there yet: that is no error.
        let mut agent = within(BusAgent::register(&connection, registration())).await.unwrap();
        let mut daemon = Daemon::start(&bus, false).await;
        let (name, _) = daemon.next().await;
        drop(daemon.ask(&name, &prompt(1)));
        let mut asked = within(agent.next()).await.unwrap();
        let before = daemon.connection.clone();
        before.release_name(BUS_NAME).await.unwrap();
        within(asked.withdrawn.wait()).await;
        let denied = Err("org.gated.Gated1.Error.AccessDenied".to_owned());
        assert_eq!(ask(before, name.clone(), RequestId(2), Details::of(&prompt(2), 0)).await, denied);

        let mut after = Daemon::start(&bus, false).await;
        assert_eq!(after.next().await.0, name);
        let answer = after.ask(&name, &prompt(3));
        let asked = within(agent.next()).await.unwrap();
        asked.reply.send(Answer::Deny).unwrap();
        assert_eq!(within(answer).await.unwrap(), Ok(Answer::Deny));
    });
}

#[test]
fn a_daemon_that_is_still_starting_is_asked_again() {
    run(async {
        let bus = PrivateBus::start();
        let connection = bus.connect().await;
        let _agent = within(BusAgent::register(&connection, registration())).await.unwrap();
        let mut daemon = Daemon::start(&bus, true).await;
        for _ in 0..3 {
            daemon.next().await;
        }
    });
}

#[test]
fn a_daemon_that_takes_no_agent_says_so() {
    run(async {
        let bus = PrivateBus::start();
        let _daemon = Daemon::start(&bus, true).await;
        let connection = bus.connect().await;
        let refused = within(BusAgent::register(&connection, registration())).await.err().unwrap();
        assert!(
            matches!(&refused, BusError::Refused(name) if name == "org.gated.Gated1.Error.AccessDenied"),
            "{refused}"
        );
    });
}

#[test]
fn the_end_of_the_bus_is_the_end_of_the_agent() {
    run(async {
        let mut bus = PrivateBus::start();
        let mut daemon = Daemon::start(&bus, false).await;
        let connection = bus.connect().await;
        let mut agent = within(BusAgent::register(&connection, registration())).await.unwrap();
        let (name, _) = daemon.next().await;
        let ask = daemon.ask(&name, &prompt(1));
        let mut asked = within(agent.next()).await.unwrap();
        bus.kill();
        within(asked.withdrawn.wait()).await;
        assert!(within(agent.next()).await.is_none());
        ask.abort();
    });
}

#[test]
fn details_that_cannot_be_are_refused_and_never_shown() {
    run(async {
        let bus = PrivateBus::start();
        let mut daemon = Daemon::start(&bus, false).await;
        let connection = bus.connect().await;
        let mut agent = within(BusAgent::register(&connection, registration())).await.unwrap();
        let (name, _) = daemon.next().await;
        let wrong = Details { object: b"relative".to_vec(), ..Details::of(&prompt(1), 0) };
        let refused = ask(daemon.connection.clone(), name.clone(), RequestId(1), wrong).await;
        assert_eq!(refused, Err("org.gated.Gated1.Error.InvalidRequest".into()));
        // An answer that nobody gives: the daemon is told that it will not come.
        let unanswered = daemon.ask(&name, &prompt(2));
        let asked = within(agent.next()).await.unwrap();
        assert_eq!(asked.prompt.id, RequestId(2));
        drop(asked);
        assert_eq!(within(unanswered).await.unwrap(), unavailable());
    });
}

/// Shows one prompt at a time and answers as the test says.
struct Scripted {
    shown: mpsc::UnboundedSender<RequestId>,
    answers: mpsc::UnboundedReceiver<Result<Answer, ConsentError>>,
}

impl ConsentAgent for Scripted {
    fn name(&self) -> String {
        "scripted".into()
    }

    fn ask<'a>(&'a mut self, prompt: &'a Prompt) -> Asking<'a> {
        Box::pin(async {
            self.shown.send(prompt.id).unwrap();
            self.answers.recv().await.unwrap()
        })
    }
}

#[test]
fn an_agent_for_one_prompt_at_a_time_gets_them_in_order() {
    run(async {
        let bus = PrivateBus::start();
        let mut daemon = Daemon::start(&bus, false).await;
        let connection = bus.connect().await;
        let mut agent = within(BusAgent::register(&connection, registration())).await.unwrap();
        let (name, _) = daemon.next().await;
        let (shown, mut seen) = mpsc::unbounded_channel();
        let (say, answers) = mpsc::unbounded_channel();
        let driven = tokio::task::spawn_local(async move { drive(&mut agent, &mut Scripted { shown, answers }).await });
        let [one, two, three, four] = [1, 2, 3, 4].map(|number| daemon.ask(&name, &prompt(number)));
        assert_eq!(within(seen.recv()).await, Some(RequestId(1)));
        // The one that waits is never shown; the one that is shown goes away.
        daemon.tell(&name, "Cancel", Some(RequestId(2))).await;
        daemon.tell(&name, "Cancel", Some(RequestId(1))).await;
        assert_eq!(within(seen.recv()).await, Some(RequestId(3)));
        say.send(Ok(Answer::Once(Width::Exact))).unwrap();
        assert_eq!(within(three).await.unwrap(), Ok(Answer::Once(Width::Exact)));
        assert_eq!(within(seen.recv()).await, Some(RequestId(4)));
        say.send(Err(ConsentError::Unavailable("not now".into()))).unwrap();
        assert_eq!(within(four).await.unwrap(), unavailable());
        assert_eq!((within(one).await.unwrap(), within(two).await.unwrap()), (unavailable(), unavailable()));
        // Gone for good: it is not asked again, and the connection takes nothing more.
        let five = daemon.ask(&name, &prompt(5));
        assert_eq!(within(seen.recv()).await, Some(RequestId(5)));
        say.send(Err(ConsentError::Gone("closed".into()))).unwrap();
        assert!(matches!(within(driven).await.unwrap(), Err(ConsentError::Gone(_))));
        assert_eq!(within(five).await.unwrap(), unavailable());
    });
}

#[test]
fn the_object_on_the_bus_is_the_one_that_its_file_describes() {
    run(async {
        let bus = PrivateBus::start();
        let mut daemon = Daemon::start(&bus, false).await;
        let connection = bus.connect().await;
        let _agent = within(BusAgent::register(&connection, registration())).await.unwrap();
        let (name, _) = daemon.next().await;
        let introspectable = Some("org.freedesktop.DBus.Introspectable");
        let call = daemon.connection.call_method(Some(name.as_str()), AGENT_PATH, introspectable, "Introspect", &());
        let live: String = within(call).await.unwrap().body().deserialize().unwrap();
        let file = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/dbus/org.gated.Gated1.Agent.xml"));
        assert_eq!(methods(&live), methods(&file.unwrap()));
    });
}

/// Methods of the agent's interface with their arguments, in order; enough of XML for two files of ours.
fn methods(xml: &str) -> Vec<String> {
    let mut inside = false;
    let mut found = Vec::new();
    for tag in xml.split('<').map(str::trim) {
        if tag.starts_with("interface ") {
            inside = tag.contains(AGENT_INTERFACE);
        } else if inside && (tag.starts_with("method ") || tag.starts_with("arg ")) {
            let mut words: Vec<&str> = tag.split(['>', '/']).next().unwrap_or("").split_whitespace().collect();
            words.sort_unstable();
            found.push(words.join(" "));
        }
    }
    assert!(!found.is_empty());
    found
}
