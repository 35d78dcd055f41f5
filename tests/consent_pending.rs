//! The broker's machine under random sequences of requests, answers, cancellations and time: what it promises holds after
//! every step, and each promise also has its own example.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use gated::common::access::{Access, Level};
use gated::common::consent::{Answer, Prompt};
use gated::common::decision::{Lifetime, Limits, Outcome, Width};
use gated::common::id::{CallId, RequestId, SessionId};
use gated::common::path::RawPath;
use gated::common::request::{Operation, Request, RuleRef, Who};
use gated::daemon::pending::{AnswerError, Effect, MOST_OF_A_CALL, MOST_PENDING, Pending, SessionTerms, Settled};
use proptest::prelude::*;

const TIMEOUT: Duration = Duration::from_secs(60);

fn session(number: u8) -> SessionId {
    SessionId(format!("{number:08x}"))
}

fn request(id: u128, session_number: u8, call: u32, object: &str) -> Request {
    Request {
        id: RequestId(id),
        session: session(session_number),
        call: CallId(call),
        who: Who { pid: 100, program: "/usr/bin/tool".into(), argv: vec![], cwd: "/work".into() },
        access: Access::Write,
        operation: Operation::OpenWrite,
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

fn pending(sessions: u8) -> Pending {
    let mut pending = Pending::new();
    for number in 0..sessions {
        let terms = SessionTerms {
            timeout: TIMEOUT,
            max_per_minute: 10_000,
            home: RawPath::from("/home/alice"),
            limits: Limits::SESSION,
            keeps_answers: false,
            knows_people: false,
        };
        pending.open(session(number), terms);
    }
    pending
}

fn settled(effects: &[Effect]) -> Vec<(u128, Outcome)> {
    let of = |effect: &Effect| match effect {
        Effect::Settle(settled) => Some((settled.request.id.0, settled.outcome)),
        _ => None,
    };
    effects.iter().filter_map(of).collect()
}

fn shown(effects: &[Effect]) -> Option<&Prompt> {
    effects.iter().rev().find_map(|effect| match effect {
        Effect::Show(prompt) => Some(prompt.as_ref()),
        _ => None,
    })
}

#[derive(Clone, Debug)]
enum Step {
    Ask { session: u8, call: u32, object: usize, remember: Lifetime, level: Level },
    Answer { which: usize, answer: Answer },
    Cancel { which: usize },
    Nobody { which: usize },
    Wait { seconds: u64 },
    Close { session: u8 },
}

const OBJECTS: [&str; 6] = ["/srv/a/x", "/srv/a/y", "/srv/a/b/z", "/srv/c", "/home/alice/.bashrc", "/srv/a"];

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let width = prop_oneof![Just(Width::Exact), Just(Width::Directory), Just(Width::Tree)];
    let answer =
        prop_oneof![Just(Answer::Deny), width.clone().prop_map(Answer::Once), width.prop_map(Answer::Session),];
    let lifetime = prop_oneof![Just(Lifetime::Attempt), Just(Lifetime::Call), Just(Lifetime::Session)];
    let level = prop_oneof![8 => Just(Level::Ask), 1 => Just(Level::Authenticate)];
    let step = prop_oneof![
        6 => (0..2u8, 1..3u32, 0..OBJECTS.len(), lifetime, level).prop_map(|(session, call, object, remember, level)| {
            Step::Ask { session, call, object, remember, level }
        }),
        4 => (any::<usize>(), answer).prop_map(|(which, answer)| Step::Answer { which, answer }),
        1 => any::<usize>().prop_map(|which| Step::Cancel { which }),
        1 => any::<usize>().prop_map(|which| Step::Nobody { which }),
        1 => (0..90u64).prop_map(|seconds| Step::Wait { seconds }),
        1 => (0..2u8).prop_map(|session| Step::Close { session }),
    ];
    prop::collection::vec(step, 0..80)
}

/// What an observer of the machine knows.
#[derive(Default)]
struct Observer {
    taken: Vec<Request>,
    ends: BTreeMap<u128, Outcome>,
    /// By session: what is before the consent agents.
    shown: BTreeMap<SessionId, RequestId>,
}

impl Observer {
    fn watch(&mut self, effects: Vec<Effect>, mut check: impl FnMut(&Settled)) {
        for effect in effects {
            match effect {
                Effect::Show(prompt) => {
                    let request = &prompt.request;
                    assert!(!self.ends.contains_key(&request.id.0), "shown after its end");
                    let before = self.shown.insert(request.session.clone(), request.id);
                    assert_eq!(before, None, "two prompts at a time in one session");
                    assert_eq!(prompt.offers[0].width, Width::Exact);
                }
                Effect::Withdraw(session) => {
                    assert!(self.shown.remove(&session).is_some(), "withdrawn without being shown");
                }
                Effect::Settle(settled) => {
                    check(&settled);
                    let before = self.ends.insert(settled.request.id.0, settled.outcome);
                    assert_eq!(before, None, "settled twice");
                }
            }
        }
        for (session, id) in &self.shown {
            assert!(!self.ends.contains_key(&id.0), "{session} still shows what is settled");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn every_request_ends_once_and_only_an_answer_approves(steps in steps()) {
        let mut pending = pending(2);
        let mut now = Instant::now();
        let mut seen = Observer::default();
        let mut closed = BTreeSet::new();
        for step in steps {
            match step {
                Step::Ask { session, call, object, remember, level } => {
                    let id = seen.taken.len() as u128;
                    let request = Request { remember, level, ..request(id, session, call, OBJECTS[object]) };
                    seen.taken.push(request.clone());
                    let refused = level != Level::Ask || closed.contains(&session);
                    seen.watch(pending.ask(request, now).unwrap(), |settled| {
                        assert_eq!(settled.outcome, Outcome::NotPermitted);
                        assert!(!settled.asked && refused);
                    });
                    assert_eq!(seen.ends.contains_key(&id), refused);
                }
                Step::Answer { which, answer } if !seen.taken.is_empty() => {
                    let asked = seen.taken[which % seen.taken.len()].clone();
                    let over = seen.ends.contains_key(&asked.id.0);
                    match pending.answer(asked.id, answer.clone(), "test", false, now) {
                        Err(error) => assert!(over && error == AnswerError::AlreadyDecided),
                        Ok(effects) => {
                            assert!(!over);
                            seen.watch(effects, |settled| check_answer(&asked, &answer, settled));
                            assert!(seen.ends.contains_key(&asked.id.0), "answered but not settled");
                        }
                    }
                }
                Step::Cancel { which } if !seen.taken.is_empty() => {
                    let asked = seen.taken[which % seen.taken.len()].clone();
                    let effects = pending.cancel(&asked.session, asked.id, now);
                    seen.watch(effects, |settled| {
                        assert_eq!((settled.request.id, settled.outcome), (asked.id, Outcome::Cancelled));
                    });
                    assert!(seen.ends.contains_key(&asked.id.0));
                }
                Step::Nobody { which } if !seen.taken.is_empty() => {
                    let asked = seen.taken[which % seen.taken.len()].id;
                    seen.watch(pending.nobody(asked, now), |settled| assert_eq!(settled.outcome, Outcome::NotPermitted));
                }
                Step::Wait { seconds } => {
                    now += Duration::from_secs(seconds);
                    seen.watch(pending.expire(now), |settled| {
                        assert_eq!(settled.outcome, Outcome::Timeout);
                        assert!(settled.waited >= TIMEOUT);
                    });
                    assert!(pending.next_deadline().is_none_or(|deadline| deadline > now));
                }
                Step::Close { session: number } => {
                    closed.insert(number);
                    seen.watch(pending.close(&session(number), now), |settled| {
                        assert_eq!((settled.outcome, &settled.request.session), (Outcome::Cancelled, &session(number)));
                    });
                }
                _ => {}
            }
            let waiting = seen.taken.iter().filter(|request| !seen.ends.contains_key(&request.id.0)).count();
            assert_eq!(pending.len(), waiting);
            for number in 0..2u8 {
                let waits = seen.taken.iter().any(|request| {
                    request.session == session(number) && !seen.ends.contains_key(&request.id.0)
                });
                assert_eq!(seen.shown.contains_key(&session(number)), waits, "a session that waits shows something");
            }
        }
        for number in 0..2u8 {
            seen.watch(pending.close(&session(number), now), |settled| assert_eq!(settled.outcome, Outcome::Cancelled));
        }
        assert_eq!(seen.ends.len(), seen.taken.len());
        assert!(pending.is_empty() && seen.shown.is_empty());
    }
}

/// What one answer may do to one request.
fn check_answer(asked: &Request, answer: &Answer, settled: &Settled) {
    let own = &settled.request;
    assert_eq!(own.session, asked.session, "an answer reached another session");
    let (kept, width) = match answer {
        Answer::Deny | Answer::Split | Answer::Edit(_) => (None, Width::Exact),
        Answer::For(width, _) | Answer::Always(width) | Answer::Block(width, _) => (None, *width),
        Answer::Once(width) => (Some(Lifetime::Call), *width),
        Answer::Session(width) => (Some(Lifetime::Session), *width),
    };
    match settled.outcome {
        Outcome::Approved => {
            let kept = kept.expect("approved by a no");
            assert_eq!((&own.object, own.call), (&asked.object, asked.call));
            assert_eq!(settled.lifetime, kept.min(asked.remember));
            assert_eq!(settled.width, width);
            assert!(asked.remember != Lifetime::Attempt || width == Width::Exact);
        }
        Outcome::Granted => {
            let kept = kept.expect("granted by a no").min(asked.remember);
            assert!(kept == Lifetime::Session || kept == Lifetime::Call && own.call == asked.call);
            let parent = asked.object.parent().unwrap();
            assert!(match width {
                Width::Exact => own.object == asked.object,
                Width::Directory => own.object.parent().unwrap() == parent,
                Width::Tree => own.object.is_within(&parent),
                Width::Prefix | Width::Program | Width::Host | Width::Domain => false,
            });
            assert_eq!((settled.lifetime, settled.width), (Lifetime::Attempt, Width::Exact));
        }
        Outcome::Denied => assert_eq!((answer, &own.object), (&Answer::Deny, &asked.object)),
        // Broader than may be offered.
        Outcome::NotPermitted => assert!(width != Width::Exact && own.object == asked.object),
        other => panic!("{other:?}"),
    }
}

#[test]
fn equal_requests_share_one_prompt_and_one_answer() {
    let (mut pending, now) = (pending(1), Instant::now());
    assert_eq!(shown(&pending.ask(request(1, 0, 1, "/srv/x"), now).unwrap()).unwrap().attempts, 1);
    let unlink = Request { operation: Operation::Unlink, ..request(2, 0, 1, "/srv/x") };
    assert!(pending.ask(unlink, now).unwrap().is_empty());
    let other_call = pending.ask(request(3, 0, 2, "/srv/x"), now).unwrap();
    assert!(other_call.is_empty(), "it waits behind");
    let effects = pending.answer(RequestId(1), Answer::Once(Width::Exact), "t", false, now).unwrap();
    assert_eq!(settled(&effects), [(1, Outcome::Approved), (2, Outcome::Approved)]);
    assert_eq!(shown(&effects).unwrap().request.id, RequestId(3));
}

#[test]
fn an_answer_for_one_attempt_answers_only_the_attempt_that_was_shown() {
    let (mut pending, now) = (pending(1), Instant::now());
    let attempt = |id, operation| Request { operation, remember: Lifetime::Attempt, ..request(id, 0, 1, "/srv/x") };
    pending.ask(attempt(1, Operation::OpenWrite), now).unwrap();
    pending.ask(attempt(2, Operation::Unlink), now).unwrap();
    let effects = pending.answer(RequestId(1), Answer::Session(Width::Exact), "t", false, now).unwrap();
    assert_eq!(settled(&effects), [(1, Outcome::Approved)]);
    assert_eq!(shown(&effects).unwrap().request.operation, Operation::Unlink);
}

#[test]
fn a_wide_answer_answers_what_it_covers_and_nothing_else() {
    let (mut pending, now) = (pending(1), Instant::now());
    for (id, object) in [(1, "/srv/a/x"), (2, "/srv/a/b/y"), (3, "/srv/ab"), (4, "/srv/a/z")] {
        pending.ask(request(id, 0, 1, object), now).unwrap();
    }
    pending.ask(request(5, 0, 2, "/srv/a/q"), now).unwrap();
    let effects = pending.answer(RequestId(1), Answer::Once(Width::Directory), "t", false, now).unwrap();
    assert_eq!(settled(&effects), [(1, Outcome::Approved), (4, Outcome::Granted)]);
    let effects = pending.answer(RequestId(2), Answer::Session(Width::Tree), "t", false, now).unwrap();
    assert_eq!(settled(&effects), [(2, Outcome::Approved)]);
    assert_eq!(pending.len(), 2);
}

#[test]
fn a_prompt_that_the_answer_to_another_request_covers_is_withdrawn() {
    let (mut pending, now) = (pending(1), Instant::now());
    pending.ask(request(1, 0, 1, "/srv/a/x"), now).unwrap();
    pending.ask(request(2, 0, 1, "/srv/a/y"), now).unwrap();
    let effects = pending.answer(RequestId(2), Answer::Once(Width::Tree), "t", false, now).unwrap();
    assert!(matches!(effects.first(), Some(Effect::Withdraw(_))));
    assert_eq!(settled(&effects), [(2, Outcome::Approved), (1, Outcome::Granted)]);
}

#[test]
fn an_answer_that_covers_everything_denies() {
    let (mut pending, now) = (pending(1), Instant::now());
    let effects = pending.ask(request(1, 0, 1, "/home/alice/.bashrc"), now).unwrap();
    let offered: Vec<Width> = shown(&effects).unwrap().offers.iter().map(|offer| offer.width).collect();
    assert_eq!(offered, [Width::Exact]);
    let effects = pending.answer(RequestId(1), Answer::Session(Width::Tree), "t", false, now).unwrap();
    assert_eq!(settled(&effects), [(1, Outcome::NotPermitted)]);
}

#[test]
fn silence_denies_at_the_deadline_and_an_answer_gives_the_others_time() {
    let (mut pending, start) = (pending(1), Instant::now());
    pending.ask(request(1, 0, 1, "/srv/a"), start).unwrap();
    pending.ask(request(2, 0, 1, "/srv/b"), start).unwrap();
    assert_eq!(pending.next_deadline(), Some(start + TIMEOUT));
    let late = start + TIMEOUT - Duration::from_secs(1);
    pending.answer(RequestId(1), Answer::Deny, "t", false, late).unwrap();
    assert!(settled(&pending.expire(start + TIMEOUT)).is_empty());
    assert_eq!(settled(&pending.expire(late + TIMEOUT)), [(2, Outcome::Timeout)]);
    assert_eq!(
        pending.answer(RequestId(2), Answer::Once(Width::Exact), "t", false, late + TIMEOUT).unwrap_err(),
        AnswerError::AlreadyDecided
    );
}

#[test]
fn of_equal_requests_each_has_its_own_time() {
    let (mut pending, start) = (pending(1), Instant::now());
    pending.ask(request(1, 0, 1, "/srv/a"), start).unwrap();
    pending.ask(request(2, 0, 1, "/srv/a"), start + TIMEOUT / 2).unwrap();
    let effects = pending.expire(start + TIMEOUT);
    assert_eq!(settled(&effects), [(1, Outcome::Timeout)]);
    assert_eq!(shown(&effects).unwrap().request.id, RequestId(2));
    assert_eq!(settled(&pending.expire(start + TIMEOUT / 2 + TIMEOUT)), [(2, Outcome::Timeout)]);
}

#[test]
fn an_answer_to_an_invented_request_is_refused() {
    let (mut pending, now) = (pending(1), Instant::now());
    pending.ask(request(1, 0, 1, "/srv/a"), now).unwrap();
    assert_eq!(
        pending.answer(RequestId(7), Answer::Once(Width::Exact), "t", false, now).unwrap_err(),
        AnswerError::Unknown
    );
    assert_eq!(pending.len(), 1);
}

#[test]
fn a_request_id_is_taken_once() {
    let (mut pending, now) = (pending(2), Instant::now());
    pending.ask(request(1, 0, 1, "/srv/a"), now).unwrap();
    assert!(pending.ask(request(1, 1, 1, "/srv/b"), now).is_err());
    pending.answer(RequestId(1), Answer::Deny, "t", false, now).unwrap();
    assert!(pending.ask(request(1, 0, 1, "/srv/b"), now).is_err());
}

#[test]
fn a_flood_of_requests_is_denied_at_once() {
    let (mut pending, now) = (pending(2), Instant::now());
    for id in 0..MOST_OF_A_CALL as u128 {
        assert!(settled(&pending.ask(request(id, 0, 1, &format!("/srv/{id}")), now).unwrap()).is_empty());
    }
    assert_eq!(settled(&pending.ask(request(9000, 0, 1, "/srv/one"), now).unwrap()), [(9000, Outcome::NotPermitted)]);
    for id in MOST_OF_A_CALL as u128..MOST_PENDING as u128 {
        let effects = pending.ask(request(id, 0, 2, &format!("/srv/{id}")), now).unwrap();
        assert!(settled(&effects).is_empty(), "another call has room of its own");
    }
    assert_eq!(settled(&pending.ask(request(9001, 0, 3, "/srv/one"), now).unwrap()), [(9001, Outcome::NotPermitted)]);
    assert!(
        settled(&pending.ask(request(9002, 1, 1, "/srv/one"), now).unwrap()).is_empty(),
        "another session has its own room"
    );
}

#[test]
fn what_asks_a_group_is_denied_where_nobody_is_known() {
    let (mut pending, now) = (pending(1), Instant::now());
    let of_group = Request { group: Some("deployers".into()), ..request(1, 0, 1, "/srv/a") };
    assert_eq!(settled(&pending.ask(of_group, now).unwrap()), [(1, Outcome::NotPermitted)]);
}

#[test]
fn more_prompts_a_minute_than_the_profile_allows_are_denied() {
    let (mut pending, now) = (Pending::new(), Instant::now());
    pending.open(
        session(0),
        SessionTerms {
            timeout: TIMEOUT,
            max_per_minute: 2,
            home: "/home/alice".into(),
            limits: Limits::SESSION,
            keeps_answers: false,
            knows_people: false,
        },
    );
    for id in 0..2 {
        assert!(shown(&pending.ask(request(id, 0, 1, "/srv/a"), now).unwrap()).is_some());
        pending.answer(RequestId(id), Answer::Deny, "t", false, now).unwrap();
    }
    assert_eq!(settled(&pending.ask(request(2, 0, 1, "/srv/a"), now).unwrap()), [(2, Outcome::NotPermitted)]);
    let later = now + Duration::from_secs(60);
    assert!(shown(&pending.ask(request(3, 0, 1, "/srv/a"), later).unwrap()).is_some());
}

#[test]
fn a_prompt_whose_process_is_gone_is_shown_again_for_the_next_equal_request() {
    let (mut pending, now) = (pending(1), Instant::now());
    pending.ask(request(1, 0, 1, "/srv/a"), now).unwrap();
    pending.ask(request(2, 0, 1, "/srv/a"), now).unwrap();
    let effects = pending.cancel(&session(0), RequestId(1), now);
    assert_eq!(settled(&effects), [(1, Outcome::Cancelled)]);
    assert_eq!(shown(&effects).unwrap().request.id, RequestId(2));
    assert_eq!(
        pending.answer(RequestId(1), Answer::Once(Width::Exact), "t", false, now).unwrap_err(),
        AnswerError::AlreadyDecided
    );
}

#[test]
fn a_session_cannot_cancel_the_request_of_another() {
    let (mut pending, now) = (pending(2), Instant::now());
    pending.ask(request(1, 0, 1, "/srv/a"), now).unwrap();
    assert!(pending.cancel(&session(1), RequestId(1), now).is_empty());
    assert_eq!(pending.len(), 1);
}
