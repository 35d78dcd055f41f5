//! The broker of a session between a supervisor, consent agents and the records: what leaves it, in which order, and what
//! happens when one of them fails.

mod commands;

use std::future::Future;
use std::sync::mpsc as blocking;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gated::common::access::{Access, Level};
use gated::common::consent::{Answer, Asking, ConsentAgent, ConsentError, Prompt};
use gated::common::decision::{Decision, Lifetime, Limits, Outcome, Width};
use gated::common::id::{CallId, RequestId, SessionId};
use gated::common::request::{Operation, Request, RuleRef, Who};
use gated::common::text::Untrusted;
use gated::common::wire::{Ended, FromSession, Record, ToSession};
use gated::consent::script::{Places, Script};
use gated::daemon::audit::{Audit, AuditError, AuditLog, AuditRecord};
use gated::daemon::broker::{Broker, BrokerConfig, Closing, Fault};
use gated::daemon::events::Events;
use gated::daemon::pending::SessionTerms;
use gated::policy::Grant;
use tokio::sync::mpsc;

/// What an answer gave besides this attempt.
fn grant(decision: &Decision) -> Option<Grant> {
    decision.grant.as_deref().map(|bytes| Grant::decode(bytes).unwrap())
}

fn lifetime(decision: &Decision) -> Lifetime {
    grant(decision).map_or(Lifetime::Attempt, |grant| grant.lifetime)
}

fn who() -> Who {
    let argv = ["tool", "--token", "abc"].map(Untrusted::new).to_vec();
    Who { pid: 100, program: "/usr/bin/tool".into(), argv, cwd: "/work".into() }
}

fn rule() -> RuleRef {
    RuleRef { profile: "p".into(), id: "r".into(), file: "p.toml".into(), line: 1, reason: None }
}

fn request(id: u128, object: &str) -> Request {
    Request {
        id: RequestId(id),
        session: SessionId("00000001".into()),
        call: CallId(1),
        who: who(),
        access: Access::Write,
        operation: Operation::Create,
        object: object.into(),
        is_directory: false,
        other: None,
        level: Level::Ask,
        rule: rule(),
        remember: Lifetime::Session,
        group: None,
        execution: None,
        destination: None,
        service: None,
        remember_for: None,
    }
}

fn ask(id: u128, object: &str) -> FromSession {
    FromSession::Ask(Box::new(request(id, object)))
}

fn record(number: u64, outcome: Outcome) -> FromSession {
    FromSession::Record(Box::new(Record {
        number,
        call: CallId(1),
        who: who(),
        access: Access::Write,
        operation: Operation::Unlink,
        object: "/srv/gone".into(),
        other: None,
        rule: rule(),
        // What is allowed by itself against its rule was learned.
        level: if outcome == Outcome::Allowed { Level::Allow } else { Level::Ask },
        execution: None,
        destination: None,
        service: None,
        outcome,
        by: "policy".into(),
        grant: None,
    }))
}

/// What reached the log, in order; `sync` is a line of its own.
#[derive(Default)]
struct Log {
    lines: Mutex<Vec<String>>,
    append_fails: bool,
    sync_fails: bool,
    /// Each sync waits for a word from here.
    held: Option<Mutex<blocking::Receiver<()>>>,
}

impl Log {
    fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }
}

fn full() -> AuditError {
    AuditError::Write(std::io::ErrorKind::StorageFull.into())
}

impl Audit for Log {
    fn append(&self, record: &AuditRecord) -> Result<(), AuditError> {
        if self.append_fails {
            return Err(full());
        }
        self.lines.lock().unwrap().push(format!("{} {}", record.result, record.object));
        Ok(())
    }

    fn sync(&self) -> Result<(), AuditError> {
        if let Some(held) = &self.held {
            held.lock().unwrap().recv().unwrap();
        }
        self.lines.lock().unwrap().push("sync".to_owned());
        if self.sync_fails { Err(full()) } else { Ok(()) }
    }
}

/// A consent agent on strings: it tells what it is shown, and says what it is told to.
struct Puppet {
    name: &'static str,
    says: mpsc::UnboundedReceiver<Result<Answer, ConsentError>>,
    tells: mpsc::UnboundedSender<String>,
}

struct Strings {
    say: mpsc::UnboundedSender<Result<Answer, ConsentError>>,
    told: mpsc::UnboundedReceiver<String>,
}

fn puppet(name: &'static str) -> (Box<dyn ConsentAgent>, Strings) {
    let (say, says) = mpsc::unbounded_channel();
    let (tells, told) = mpsc::unbounded_channel();
    (Box::new(Puppet { name, says, tells }), Strings { say, told })
}

struct Withdrawn(mpsc::UnboundedSender<String>);

impl Drop for Withdrawn {
    fn drop(&mut self) {
        let _ = self.0.send("withdrawn".to_owned());
    }
}

impl ConsentAgent for Puppet {
    fn name(&self) -> String {
        self.name.to_owned()
    }

    fn ask<'a>(&'a mut self, prompt: &'a Prompt) -> Asking<'a> {
        let _ = self.tells.send(format!("shown {}", prompt.id.0));
        let withdrawn = Withdrawn(self.tells.clone());
        Box::pin(async move {
            let answer = self.says.recv().await.unwrap_or(Err(ConsentError::Gone("no strings".into())));
            std::mem::forget(withdrawn);
            answer
        })
    }
}

/// The supervisor's end.
struct Supervisor {
    to: Option<mpsc::Sender<FromSession>>,
    from: mpsc::Receiver<ToSession>,
}

impl Supervisor {
    async fn send(&self, message: FromSession) {
        self.to.as_ref().unwrap().send(message).await.unwrap();
    }

    async fn decided(&mut self) -> Decision {
        match self.from.recv().await {
            Some(ToSession::Decided(decision)) => decision,
            other => panic!("a decision was expected, not {other:?}"),
        }
    }

    async fn outcome(&mut self) -> (u128, Outcome) {
        let decision = self.decided().await;
        (decision.request.0, decision.outcome)
    }

    /// Hangs up, and takes what still comes.
    async fn end(mut self) -> Vec<ToSession> {
        self.to = None;
        let mut rest = Vec::new();
        while let Some(message) = self.from.recv().await {
            rest.push(message);
        }
        rest
    }
}

/// Runs a broker beside a scene; a scene that hangs fails.
fn play<F: Future<Output = ()>>(
    audit: Arc<dyn Audit>,
    timeout: Duration,
    agents: Vec<Box<dyn ConsentAgent>>,
    events: Events,
    scene: impl FnOnce(Supervisor) -> F,
) -> Closing {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let terms = SessionTerms {
        timeout,
        max_per_minute: 600,
        home: "/home/alice".into(),
        limits: Limits::SESSION,
        keeps_answers: false,
        knows_people: false,
    };
    let config = BrokerConfig { session: SessionId("00000001".into()), user: "alice".into(), terms };
    let (to, from_session) = mpsc::channel(16);
    let (to_session, from) = mpsc::channel(16);
    runtime.block_on(async {
        let broker = Broker::new(config, audit, events, agents).run(from_session, to_session);
        let both = async { tokio::join!(broker, scene(Supervisor { to: Some(to), from })).0 };
        tokio::time::timeout(Duration::from_secs(20), both).await.expect("the scene hangs")
    })
}

const LONG: Duration = Duration::from_secs(60);

#[test]
fn an_approval_is_on_disk_before_the_supervisor_hears_of_it() {
    let (agent, strings) = puppet("puppet");
    let (release, held) = blocking::channel();
    let log = Arc::new(Log { held: Some(Mutex::new(held)), ..Log::default() });
    let seen = Arc::clone(&log);
    play(log, LONG, vec![agent], Events::none(), async |mut supervisor| {
        supervisor.send(ask(1, "/srv/x")).await;
        strings.say.send(Ok(Answer::Once(Width::Exact))).unwrap();
        // The disk hangs: the decision waits, other work does not.
        supervisor.send(record(7, Outcome::Granted)).await;
        assert_eq!(supervisor.from.recv().await, Some(ToSession::Recorded(7, true)));
        while seen.lines().len() < 2 {
            tokio::task::yield_now().await;
        }
        assert!(supervisor.from.try_recv().is_err());
        release.send(()).unwrap();
        let decision = supervisor.decided().await;
        assert_eq!(
            (decision.outcome, lifetime(&decision), decision.by.as_str()),
            (Outcome::Approved, Lifetime::Call, "puppet")
        );
        let lines = seen.lines();
        assert!(lines.contains(&"approved /srv/x".to_owned()) && lines.last().unwrap() == "sync");
        drop(release);
        assert!(supervisor.end().await.is_empty());
    });
}

#[test]
fn an_approval_that_cannot_be_recorded_is_a_denial() {
    for log in [Log { append_fails: true, ..Log::default() }, Log { sync_fails: true, ..Log::default() }] {
        let (agent, strings) = puppet("puppet");
        let closing = play(Arc::new(log), LONG, vec![agent], Events::none(), async |mut supervisor| {
            strings.say.send(Ok(Answer::Session(Width::Tree))).unwrap();
            supervisor.send(ask(1, "/srv/x")).await;
            let decision = supervisor.decided().await;
            assert_eq!((decision.outcome, lifetime(&decision)), (Outcome::NotPermitted, Lifetime::Attempt));
            supervisor.end().await;
        });
        assert_eq!(closing.denials.lines().count(), 1);
    }
}

#[test]
fn a_verdict_of_the_supervisor_that_cannot_be_recorded_is_not_acknowledged() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let log = Arc::new(AuditLog::from_file(full).unwrap());
    play(log, LONG, vec![], Events::none(), async |mut supervisor| {
        supervisor.send(record(1, Outcome::Granted)).await;
        assert_eq!(supervisor.from.recv().await, Some(ToSession::Recorded(1, false)));
        supervisor.end().await;
    });
}

#[test]
fn without_anybody_to_ask_everything_is_denied() {
    play(Arc::new(Log::default()), LONG, vec![], Events::none(), async |mut supervisor| {
        for id in 1..4 {
            supervisor.send(ask(id, "/srv/x")).await;
            assert_eq!(supervisor.outcome().await, (id, Outcome::NotPermitted));
        }
        supervisor.end().await;
    });
}

#[test]
fn an_agent_that_fails_leaves_the_answer_to_another_or_denies() {
    let (broken, broken_strings) = puppet("broken");
    let (sound, mut strings) = puppet("sound");
    play(Arc::new(Log::default()), LONG, vec![broken, sound], Events::none(), async |mut supervisor| {
        supervisor.send(ask(1, "/srv/x")).await;
        broken_strings.say.send(Err(ConsentError::Unavailable("busy".into()))).unwrap();
        assert_eq!(strings.told.recv().await.unwrap(), "shown 1");
        strings.say.send(Ok(Answer::Once(Width::Exact))).unwrap();
        assert_eq!(supervisor.outcome().await, (1, Outcome::Approved));
        // The first goes away for good, the second cannot now: denied, also what waits behind is asked on.
        supervisor.send(ask(2, "/srv/y")).await;
        supervisor.send(ask(3, "/srv/z")).await;
        broken_strings.say.send(Err(ConsentError::Gone("dead".into()))).unwrap();
        strings.say.send(Err(ConsentError::Unavailable("locked".into()))).unwrap();
        assert_eq!(supervisor.outcome().await, (2, Outcome::NotPermitted));
        strings.say.send(Ok(Answer::Once(Width::Exact))).unwrap();
        assert_eq!(supervisor.outcome().await, (3, Outcome::Approved));
        strings.say.send(Err(ConsentError::Gone("dead".into()))).unwrap();
        supervisor.send(ask(4, "/srv/q")).await;
        assert_eq!(supervisor.outcome().await, (4, Outcome::NotPermitted));
        supervisor.send(ask(5, "/srv/q")).await;
        assert_eq!(supervisor.outcome().await, (5, Outcome::NotPermitted));
        supervisor.end().await;
    });
}

#[test]
fn the_first_answer_wins_and_withdraws_the_other_prompt() {
    let (first, first_strings) = puppet("first");
    let (second, mut second_strings) = puppet("second");
    play(Arc::new(Log::default()), LONG, vec![first, second], Events::none(), async |mut supervisor| {
        supervisor.send(ask(1, "/srv/x")).await;
        assert_eq!(second_strings.told.recv().await.unwrap(), "shown 1");
        first_strings.say.send(Ok(Answer::Deny)).unwrap();
        let decision = supervisor.decided().await;
        assert_eq!((decision.outcome, decision.by.as_str()), (Outcome::Denied, "first"));
        assert_eq!(second_strings.told.recv().await.unwrap(), "withdrawn");
        assert!(supervisor.end().await.is_empty());
    });
}

#[test]
fn silence_denies_withdraws_the_prompt_and_remembers_nothing() {
    let (agent, mut strings) = puppet("puppet");
    let timeout = Duration::from_millis(50);
    let closing = play(Arc::new(Log::default()), timeout, vec![agent], Events::none(), async |mut supervisor| {
        for id in 1..3 {
            supervisor.send(ask(id, "/srv/x")).await;
            assert_eq!(strings.told.recv().await.unwrap(), format!("shown {id}"));
            assert_eq!(supervisor.outcome().await, (id, Outcome::Timeout));
            assert_eq!(strings.told.recv().await.unwrap(), "withdrawn");
        }
        supervisor.end().await;
    });
    let lines: Vec<String> = closing.denials.lines().collect();
    assert_eq!(lines, ["gated: denied: write /srv/x (2 times): nobody answered in time; this is final, do not retry"]);
}

#[test]
fn a_cancelled_request_is_withdrawn_and_gets_no_decision() {
    let (agent, mut strings) = puppet("puppet");
    let log = Arc::new(Log::default());
    let seen = Arc::clone(&log);
    let closing = play(log, LONG, vec![agent], Events::none(), async |supervisor| {
        supervisor.send(ask(1, "/srv/x")).await;
        assert_eq!(strings.told.recv().await.unwrap(), "shown 1");
        supervisor.send(FromSession::Cancel(RequestId(1))).await;
        assert_eq!(strings.told.recv().await.unwrap(), "withdrawn");
        supervisor.send(FromSession::Cancel(RequestId(1))).await;
        assert!(supervisor.end().await.is_empty());
    });
    assert_eq!(seen.lines(), ["cancelled /srv/x", "sync"]);
    assert!(closing.denials.is_empty());
}

#[test]
fn what_waits_when_the_session_ends_is_recorded_as_cancelled() {
    let (agent, mut strings) = puppet("puppet");
    let log = Arc::new(Log::default());
    let seen = Arc::clone(&log);
    play(log, LONG, vec![agent], Events::none(), async |supervisor| {
        supervisor.send(ask(1, "/srv/x")).await;
        assert_eq!(strings.told.recv().await.unwrap(), "shown 1");
        assert!(supervisor.end().await.is_empty());
    });
    assert_eq!(seen.lines(), ["cancelled /srv/x", "sync"]);
}

#[test]
fn a_supervisor_that_breaks_the_protocol_is_dropped() {
    let foreign = Request { session: SessionId("ffffffff".into()), ..request(2, "/srv/y") };
    for (last, expected) in [
        (ask(1, "/srv/y"), "request 00000000000000000000000000000001 was used before"),
        (FromSession::Ask(Box::new(foreign)), "a request of session ffffffff came from session 00000001"),
    ] {
        let (agent, _strings) = puppet("puppet");
        let closing = play(Arc::new(Log::default()), LONG, vec![agent], Events::none(), async |mut supervisor| {
            supervisor.send(ask(1, "/srv/x")).await;
            supervisor.send(last).await;
            assert_eq!(supervisor.from.recv().await, None, "no decision leaves");
        });
        assert_eq!(closing.fault.as_ref().map(Fault::to_string).as_deref(), Some(expected));
    }
}

#[test]
fn a_script_answers_in_order_with_its_delays_and_uses_and_denies_the_rest() {
    let text = r#"
        [[answer]]
        object = "{workspace}/one"
        answer = "once"
        times = 1
        after = "5ms"
        [[answer]]
        access = "write"
        object = "~/.config/**"
        answer = "session"
        scope = "directory"
        [[answer]]
        access = "read"
        answer = "session"
    "#;
    let places = Places { home: Some("/home/alice".into()), workspace: Some("/srv/w*rk".into()) };
    let script = Script::parse("answers.toml", text, &places).unwrap();
    play(Arc::new(Log::default()), LONG, vec![Box::new(script)], Events::none(), async |mut supervisor| {
        supervisor.send(ask(1, "/srv/w*rk/one")).await;
        assert_eq!(supervisor.outcome().await, (1, Outcome::Approved));
        supervisor.send(ask(2, "/srv/w*rk/one")).await;
        assert_eq!(supervisor.outcome().await, (2, Outcome::Denied), "used up");
        supervisor.send(ask(3, "/home/alice/.config/x/y")).await;
        let decision = supervisor.decided().await;
        assert_eq!((decision.outcome, lifetime(&decision)), (Outcome::Approved, Lifetime::Session));
        assert_eq!(grant(&decision).unwrap().scope(), "/home/alice/.config/x/*");
        assert_eq!(decision.by, "script:answers.toml");
        supervisor.send(ask(4, "/srv/work/one")).await;
        assert_eq!(supervisor.outcome().await, (4, Outcome::Denied), "a star in a place is a plain character");
        supervisor.end().await;
    });
}

#[test]
fn events_and_the_audit_log_tell_the_whole_story_with_secrets_masked() {
    let (place, stream) = (tempfile::tempdir().unwrap(), tempfile::NamedTempFile::new().unwrap());
    let path = place.path().join("audit.jsonl");
    let log = Arc::new(AuditLog::open(&path).unwrap());
    let (agent, strings) = puppet("tty:alice");
    play(log, LONG, vec![agent], Events::to(stream.reopen().unwrap()).unwrap(), async |mut supervisor| {
        let argv = vec![Untrusted::new("tool"), Untrusted::new(b"\x1b[2J\xff".to_vec())];
        supervisor
            .send(FromSession::CallStarted { call: CallId(1), pid: 9, program: "/usr/bin/tool".into(), argv })
            .await;
        strings.say.send(Ok(Answer::Session(Width::Exact))).unwrap();
        supervisor.send(ask(1, "/srv/a\nb\u{202e}")).await;
        supervisor.outcome().await;
        let authenticate = Request { level: Level::Authenticate, ..request(2, "/srv/sign") };
        supervisor.send(FromSession::Ask(Box::new(authenticate))).await;
        assert_eq!(supervisor.outcome().await, (2, Outcome::NotPermitted));
        supervisor.send(record(1, Outcome::Granted)).await;
        supervisor.send(record(2, Outcome::NotPermitted)).await;
        supervisor.send(record(3, Outcome::Allowed)).await;
        for _ in 0..3 {
            supervisor.from.recv().await.unwrap();
        }
        supervisor.send(FromSession::CallEnded { call: CallId(1), ended: Ended::Signaled(9) }).await;
        supervisor.end().await;
    });
    let read = |path: &std::path::Path| -> Vec<serde_json::Value> {
        std::fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let (events, audit) = (read(stream.path()), read(&path));
    let words = |lines: &[serde_json::Value], key: &str| -> Vec<String> {
        lines.iter().map(|line| line[key].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(
        words(&events, "event"),
        ["call_started", "consent_required", "consent_decided", "denied", "allowed_by_grant", "denied", "call_ended"]
    );
    assert_eq!(events[0]["argv"][1], "\\x1b[2J\\xff");
    let decided = &events[2];
    assert_eq!((decided["decision"].as_str(), decided["by"].as_str()), (Some("approved"), Some("tty:alice")));
    assert_eq!((decided["scope"].as_str(), decided["lifetime"].as_str()), (Some("exact"), Some("session")));
    assert_eq!(decided["object"], "/srv/a\\nb\\u{202e}");
    assert_eq!(decided["request"], events[1]["request"]);
    assert_eq!(events[6]["signal"], 9);
    assert_eq!(words(&audit, "result"), ["approved", "not_permitted", "granted", "not_permitted", "allowed"]);
    assert_eq!(audit[0]["tool"]["argv"], serde_json::json!(["tool", "--token", "***"]));
    assert_eq!((audit[0]["user"].as_str(), audit[0]["answered_by"].as_str()), (Some("alice"), Some("tty:alice")));
    assert_eq!(audit[0]["rule"], serde_json::json!({"profile": "p", "id": "r", "file": "p.toml", "line": 1}));
}

#[test]
fn a_tool_that_is_refused_without_end_makes_few_records_that_count_each_and_permissions_have_one_each() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("audit.jsonl");
    let log = Arc::new(AuditLog::open(&path).unwrap());
    play(log, LONG, vec![], Events::none(), async |mut supervisor| {
        for number in 0..300 {
            supervisor.send(record(number, Outcome::NotPermitted)).await;
            assert_eq!(supervisor.from.recv().await, Some(ToSession::Recorded(number, true)));
        }
        for number in 300..350 {
            supervisor.send(record(number, Outcome::Granted)).await;
            assert_eq!(supervisor.from.recv().await, Some(ToSession::Recorded(number, true)));
        }
        // What the broker itself refuses, for nobody is there to ask, counts too.
        for id in 0..100 {
            supervisor.send(ask(id, "/srv/x")).await;
            assert_eq!(supervisor.outcome().await, (id, Outcome::NotPermitted));
        }
        supervisor.end().await;
    });
    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |result: &str, object: &str| -> (usize, u64) {
        let all = lines.iter().filter(|line| line["result"] == result && line["object"] == object);
        let times = all.clone().map(|line| line["times"].as_u64().unwrap_or(1)).sum();
        (all.count(), times)
    };
    assert_eq!(of("granted", "/srv/gone"), (50, 50));
    assert_eq!(of("not_permitted", "/srv/gone"), (9, 300));
    assert_eq!(of("not_permitted", "/srv/x"), (9, 100));
}
