//! What would run, between supervisor, agents and records: which requests are one, what is offered, a command that is written
//! in place of another, and what was done without a question.

use std::sync::Arc;

use gated::common::access::{Access, Level};
use gated::common::consent::{Answer, Prompt};
use gated::common::decision::{Limits, Outcome, Width};
use gated::common::exec::{Execution, Parent};
use gated::common::id::RequestId;
use gated::common::request::{Operation, Request};
use gated::common::text::Untrusted;
use gated::common::wire::{FromSession, Record};
use gated::consent::script::{Places, Script};
use gated::daemon::audit::AuditLog;
use gated::daemon::events::Events;
use gated::daemon::pending::{Effect, Pending, SessionTerms};

use super::{LONG, Log, grant, play, puppet, record, request};

fn words(words: &[&str]) -> Vec<Untrusted> {
    words.iter().map(|word| Untrusted::new(word.as_bytes())).collect()
}

fn command(id: u128, argv: &[&str]) -> Request {
    let mut command = request(id, "/usr/bin/git");
    (command.access, command.operation) = (Access::Exec, Operation::Execute);
    command.execution = Some(Box::new(Execution {
        argv: words(argv),
        words_left_out: 0,
        interpreters: vec![],
        variables: words(&["GIT_TOKEN=abc"]),
        parents: vec![Parent { pid: 9, program: "/usr/bin/make".into(), argv: words(&["make"]) }],
        is_new: true,
        is_first: false,
        version: None,
    }));
    command
}

fn change(mut request: Request, change: impl FnOnce(&mut Execution)) -> Request {
    change(request.execution.as_mut().unwrap());
    request
}

fn first(id: u128, argv: &[&str]) -> Request {
    change(command(id, argv), |execution| execution.is_first = true)
}

fn ask(request: Request) -> FromSession {
    FromSession::Ask(Box::new(request))
}

fn pending() -> Pending {
    let mut pending = Pending::new();
    let home = "/home/alice".into();
    pending.open(
        request(1, "/").session,
        SessionTerms {
            timeout: LONG,
            max_per_minute: 600,
            home,
            limits: Limits::SESSION,
            keeps_answers: false,
            knows_people: false,
        },
    );
    pending
}

fn shown(effects: Vec<Effect>) -> Option<Box<Prompt>> {
    effects.into_iter().find_map(|effect| match effect {
        Effect::Show(prompt) => Some(prompt),
        _ => None,
    })
}

#[test]
fn equal_commands_are_asked_for_once_whoever_calls_them() {
    let push = ["git", "push"];
    let other_parent = |execution: &mut Execution| execution.parents.clear();
    let cases: [(Request, bool); 8] = [
        (command(2, &push), true),
        (change(command(2, &push), other_parent), true),
        (command(2, &["git", "pull"]), false),
        (change(command(2, &push), |it| it.variables.clear()), false),
        (change(command(2, &push), |it| it.interpreters = vec!["/bin/sh".into()]), false),
        (change(command(2, &push), |it| it.is_new = false), false),
        (change(command(2, &push), |it| it.words_left_out = 1), false),
        (
            Request {
                who: gated::common::request::Who { cwd: "/elsewhere".into(), ..super::who() },
                ..command(2, &push)
            },
            false,
        ),
    ];
    let now = std::time::Instant::now();
    for (number, (second, joins)) in cases.into_iter().enumerate() {
        let mut pending = pending();
        pending.ask(command(1, &push), now).unwrap();
        pending.ask(second, now).unwrap();
        assert_eq!(pending.leads(&request(1, "/").session).len(), if joins { 1 } else { 2 }, "case {number}");
    }
    // Of words that nobody was shown nobody knows, and a first command is its own.
    for number in [1, 2] {
        let mut pending = pending();
        for id in [1, 2] {
            let command = change(command(id, &push), |it| (it.words_left_out, it.is_first) = (2 - number, number == 2));
            pending.ask(command, now).unwrap();
        }
        assert_eq!(pending.leads(&request(1, "/").session).len(), 2);
    }
}

#[test]
fn what_is_offered_is_of_commands_and_masked() {
    let push = command(1, &["git", "push", "--token=abc", "origin"]);
    let prompt = shown(pending().ask(push, std::time::Instant::now()).unwrap()).unwrap();
    let widths: Vec<Width> = prompt.offers.iter().map(|offer| offer.width).collect();
    assert_eq!(widths.first(), Some(&Width::Exact));
    assert!(!widths.contains(&Width::Directory) && !widths.contains(&Width::Tree), "{widths:?}");
    assert!(widths.contains(&Width::Prefix), "{widths:?}");
    assert_eq!(prompt.offers[0].scope, "git push '--token=***' origin");
    assert_eq!(prompt.offers[1].scope, "git push …");
    let shell = command(1, &["sh", "-c", "id"]);
    let shell = Request { object: "/usr/bin/dash".into(), ..shell };
    let prompt = shown(pending().ask(shell, std::time::Instant::now()).unwrap()).unwrap();
    assert_eq!(prompt.offers.len(), 1, "never everything: {:?}", prompt.offers);
}

#[test]
fn another_command_in_place_of_the_first_permits_nothing_and_is_recorded() {
    let (place, stream) = (tempfile::tempdir().unwrap(), tempfile::NamedTempFile::new().unwrap());
    let path = place.path().join("audit.jsonl");
    let log = Arc::new(AuditLog::open(&path).unwrap());
    let (agent, strings) = puppet("tty:alice");
    let instead = || Answer::Edit(vec![b"git".to_vec(), b"push".to_vec(), b"--token=abc".to_vec()]);
    let closing =
        play(log, LONG, vec![agent], Events::to(stream.reopen().unwrap()).unwrap(), async |mut supervisor| {
            strings.say.send(Ok(instead())).unwrap();
            supervisor.send(ask(first(1, &["git", "push", "--force"]))).await;
            let decision = supervisor.decided().await;
            assert_eq!((decision.outcome, decision.grant), (Outcome::Edited, None));
            assert_eq!(
                Some(decision.edited),
                Some(Some(vec![b"git".to_vec(), b"push".to_vec(), b"--token=abc".to_vec()]))
            );
            // Not in place of one that a tool runs, and not in place of a change of a file: a no.
            for request in [command(2, &["git", "push"]), request(3, "/srv/x")] {
                strings.say.send(Ok(instead())).unwrap();
                supervisor.send(ask(request)).await;
                let decision = supervisor.decided().await;
                assert_eq!((decision.outcome, decision.edited), (Outcome::Denied, None));
            }
            // No command at all is none.
            strings.say.send(Ok(Answer::Edit(vec![]))).unwrap();
            supervisor.send(ask(first(4, &["git"]))).await;
            assert_eq!(supervisor.outcome().await, (4, Outcome::Denied));
            supervisor.end().await;
        });
    let read = |path: &std::path::Path| -> Vec<serde_json::Value> {
        std::fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let (events, audit) = (read(stream.path()), read(&path));
    let expected = serde_json::json!({
        "argv": ["git", "push", "--force"], "variables": ["GIT_TOKEN=***"], "new": true, "first": true,
        "parents": ["/usr/bin/make"],
    });
    assert_eq!((&audit[0]["exec"], &audit[0]["result"]), (&expected, &"edited".into()));
    assert_eq!(audit[0]["edited"], serde_json::json!(["git", "push", "--token=***"]));
    assert_eq!((&audit[0]["access"], &audit[0]["operation"]), (&"exec".into(), &"execute".into()));
    assert_eq!((&events[0]["event"], &events[0]["exec"]), (&"consent_required".into(), &expected));
    assert_eq!((&events[1]["decision"], &events[1]["edited"]), (&"edited".into(), &audit[0]["edited"]));
    let told: Vec<String> = closing.denials.lines().collect();
    assert_eq!(
        told[0],
        "gated: denied: run git push (/usr/bin/git): the person who was asked said no; this is final, do not retry"
    );
    assert_eq!(told.len(), 3, "what was changed is no denial: {told:?}");
}

#[test]
fn a_record_keeps_so_much_of_a_command_and_says_what_is_missing() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("audit.jsonl");
    let (agent, strings) = puppet("tty:alice");
    let many = vec!["0123456789"; 5000];
    play(Arc::new(AuditLog::open(&path).unwrap()), LONG, vec![agent], Events::none(), async |mut supervisor| {
        strings.say.send(Ok(Answer::Deny)).unwrap();
        supervisor.send(ask(change(command(1, &many), |it| it.words_left_out = 10))).await;
        supervisor.decided().await;
        supervisor.end().await;
    });
    let line = std::fs::read_to_string(&path).unwrap();
    assert!(line.len() < 64 << 10);
    let record: serde_json::Value = serde_json::from_str(&line).unwrap();
    let kept = record["exec"]["argv"].as_array().unwrap().len() as u64;
    assert_eq!((kept, kept + record["exec"]["words_left_out"].as_u64().unwrap()), (256, 5010));
}

#[test]
fn what_is_done_without_a_question_is_told_where_the_rule_says_so() {
    let stream = tempfile::NamedTempFile::new().unwrap();
    play(
        Arc::new(Log::default()),
        LONG,
        vec![],
        Events::to(stream.reopen().unwrap()).unwrap(),
        async |mut supervisor| {
            for (number, level) in [(1, Level::Allow), (2, Level::Notify)] {
                let FromSession::Record(told) = record(number, Outcome::Allowed) else { unreachable!() };
                let execution = command(1, &["git", "fetch"]).execution;
                let told = Record { level, access: Access::Exec, operation: Operation::Execute, execution, ..*told };
                supervisor.send(FromSession::Record(Box::new(told))).await;
                supervisor.from.recv().await.unwrap();
            }
            supervisor.end().await;
        },
    );
    let events = std::fs::read_to_string(stream.path()).unwrap();
    let event: serde_json::Value = serde_json::from_str(&events).expect("one line, for level notify alone");
    assert_eq!((&event["event"], &event["decision"]), (&"notified".into(), &"allowed".into()));
    assert_eq!(event["exec"]["argv"], serde_json::json!(["git", "fetch"]));
}

#[test]
fn a_script_answers_by_program_and_words() {
    let text = r#"
        [[answer]]
        program = "/usr/bin/git"
        argv = ["git", ["push", "fetch"], "**", "--dry-run"]
        answer = "once"
        scope = "prefix"
        [[answer]]
        program = "/usr/bin/git"
        argv = ["git", "status"]
        answer = "session"
        [[answer]]
        argv = ["*", "--version"]
        answer = "once"
    "#;
    let script = Script::parse("answers.toml", text, &Places::default()).unwrap();
    play(Arc::new(Log::default()), LONG, vec![Box::new(script)], Events::none(), async |mut supervisor| {
        let elsewhere = |id, argv: &[&str]| Request { object: "/usr/bin/hg".into(), ..command(id, argv) };
        let cut = change(command(7, &["git", "status"]), |execution| execution.words_left_out = 1);
        let cases = [
            (command(1, &["git", "push", "origin", "--dry-run"]), Outcome::Approved),
            (command(2, &["git", "push", "origin"]), Outcome::Denied),
            (command(3, &["git", "status"]), Outcome::Approved),
            (command(4, &["git", "status", "-s"]), Outcome::Denied),
            (elsewhere(5, &["git", "log"]), Outcome::Denied),
            (elsewhere(6, &["whatever", "--version"]), Outcome::Approved),
            (cut, Outcome::Denied),
            (request(8, "/usr/bin/git"), Outcome::Denied),
        ];
        for (request, expected) in cases {
            let id = request.id;
            supervisor.send(ask(request)).await;
            let decision = supervisor.decided().await;
            assert_eq!((decision.request, decision.outcome), (id, expected));
            if id == RequestId(1) {
                assert_eq!(grant(&decision).unwrap().scope(), "git push …");
            }
        }
        supervisor.end().await;
    });
}
