//! Requests that are put as one: which they are, what an answer to them settles, and that it is what was shown and nothing
//! else, whatever comes and goes meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use gated::common::access::{Access, Level};
use gated::common::consent::{Answer, GATHERING, Prompt};
use gated::common::decision::{self, Lifetime, Limits, Outcome, Term, Width, Widths};
use gated::common::id::{CallId, RequestId, SessionId};
use gated::common::net::{Destination, Knowledge, Named, Transport};
use gated::common::path::RawPath;
use gated::common::request::{Operation, Request, RuleRef, Who};
use gated::daemon::pending::{AnswerError, Effect, Pending, Quota, SessionTerms, Settled};
use proptest::prelude::*;

const TIMEOUT: Duration = Duration::from_secs(60);
const MAX_FOR: Duration = Duration::from_secs(8 * 3600);
const PLACES: usize = 1000;

fn session(number: u8) -> SessionId {
    SessionId(format!("{number:08x}"))
}

fn request(id: u128, object: &str) -> Request {
    Request {
        id: RequestId(id),
        session: session(0),
        call: CallId(1),
        who: Who { pid: 100, program: "/usr/bin/npm".into(), argv: vec![], cwd: "/work".into() },
        access: Access::Write,
        operation: Operation::Create,
        object: object.into(),
        is_directory: false,
        other: None,
        level: Level::Ask,
        rule: RuleRef { profile: "p".into(), id: "r".into(), file: "p.toml".into(), line: 1, reason: None },
        remember: Lifetime::Persistent,
        group: None,
        execution: None,
        destination: None,
        service: None,
        remember_for: None,
    }
}

fn reaching(id: u128, name: &str, address: &str) -> Request {
    let name = Named { name: name.parse().unwrap(), by: Knowledge::Resolved };
    let destination = Destination::address(address.parse().unwrap(), Transport::Tcp, vec![name]);
    Request {
        access: Access::Connect,
        operation: Operation::Connect,
        object: destination.object(),
        destination: Some(Box::new(destination)),
        ..request(id, "/")
    }
}

fn terms(max_per_minute: u32) -> SessionTerms {
    SessionTerms {
        timeout: TIMEOUT,
        max_per_minute,
        home: RawPath::from("/home/alice"),
        limits: Limits { longest: Lifetime::Persistent, max_for: Some(MAX_FOR), widths: Widths::ALL },
        keeps_answers: true,
        knows_people: false,
    }
}

fn pending() -> Pending {
    let mut pending = Pending::within(Quota::new(PLACES));
    pending.open(session(0), terms(600));
    pending
}

/// What is shown once all of these have gathered, with when that is.
fn shown(pending: &mut Pending, requests: Vec<Request>) -> (Prompt, Instant) {
    let now = Instant::now();
    for request in requests {
        assert!(pending.ask_gathering(request, GATHERING, now).unwrap().is_empty(), "it gathers");
    }
    let later = now + GATHERING;
    assert_eq!(pending.next_deadline(), Some(later));
    (prompt(&pending.expire(later)).expect("something is shown"), later)
}

fn prompt(effects: &[Effect]) -> Option<Prompt> {
    effects.iter().rev().find_map(|effect| match effect {
        Effect::Show(prompt) => Some(prompt.as_ref().clone()),
        _ => None,
    })
}

fn settled(effects: &[Effect]) -> Vec<&Settled> {
    let mut all = Vec::new();
    for effect in effects {
        if let Effect::Settle(settled) = effect {
            all.push(settled.as_ref());
        }
    }
    all
}

fn ends(effects: &[Effect]) -> Vec<(u128, Outcome)> {
    settled(effects).into_iter().map(|settled| (settled.request.id.0, settled.outcome)).collect()
}

fn files(count: u128) -> Vec<Request> {
    (0..count).map(|id| request(id, &format!("/home/alice/.npm/_cacache/{}/{id}", id % 3))).collect()
}

#[test]
fn two_hundred_files_are_one_prompt_and_all_is_each_of_them() {
    let mut pending = pending();
    let (prompt, now) = shown(&mut pending, files(214));
    let group = prompt.group.as_ref().unwrap();
    assert_eq!((group.count, group.place.as_str()), (214, "/home/alice/.npm/_cacache"));
    assert_eq!(group.members.len(), 64);
    assert_eq!(group.members[0].object, prompt.request.object);
    assert_ne!(prompt.id, prompt.request.id, "a name of its own");
    let effects = pending.answer(prompt.id, Answer::Once(Width::Exact), "t", false, now).unwrap();
    let all = settled(&effects);
    assert_eq!(all.len(), 214);
    for one in all {
        assert_eq!((one.outcome, one.lifetime, one.width), (Outcome::Approved, Lifetime::Call, Width::Exact));
        let grant = one.grant.as_ref().unwrap();
        assert_eq!(grant.object, one.request.object, "a grant of its own");
        assert!(grant.answers(&one.request));
        let other = Request { object: "/home/alice/.npm/_cacache/0/more".into(), ..(*one.request).clone() };
        assert!(!grant.answers(&other), "and nothing else");
    }
    assert!(pending.is_empty());
}

#[test]
fn none_is_a_no_to_each_and_nothing_is_remembered() {
    let mut pending = pending();
    let (prompt, now) = shown(&mut pending, files(5));
    let effects = pending.answer(prompt.id, Answer::Deny, "t", false, now).unwrap();
    assert_eq!(settled(&effects).len(), 5);
    assert!(settled(&effects).iter().all(|one| one.outcome == Outcome::Denied && one.grant.is_none()));
}

#[test]
fn one_by_one_shows_each_by_itself_however_many_a_minute_those_are() {
    let mut pending = Pending::new();
    pending.open(session(0), terms(1));
    let (group, now) = shown(&mut pending, files(4));
    let effects = pending.answer(group.id, Answer::Split, "t", false, now).unwrap();
    assert!(ends(&effects).is_empty());
    let mut next = prompt(&effects).unwrap();
    for id in 0..4 {
        assert!(next.group.is_none());
        assert_eq!((next.id, next.request.id), (RequestId(id), RequestId(id)));
        let effects = pending.answer(next.id, Answer::Once(Width::Exact), "t", false, now).unwrap();
        assert_eq!(ends(&effects), [(id, Outcome::Approved)]);
        match prompt(&effects) {
            Some(prompt) => next = prompt,
            None => assert_eq!(id, 3),
        }
    }
    let again = pending.answer(group.id, Answer::Once(Width::Exact), "t", false, now).unwrap_err();
    assert_eq!(again, AnswerError::AlreadyDecided);
}

#[test]
fn a_wider_yes_is_one_grant_for_what_is_around_all_of_them() {
    let mut pending = pending();
    let (prompt, now) = shown(&mut pending, files(7));
    let offers: Vec<(Width, &str)> = prompt.offers.iter().map(|offer| (offer.width, offer.scope.as_str())).collect();
    assert_eq!(
        offers,
        [(Width::Exact, "/home/alice/.npm/_cacache/0/0"), (Width::Tree, "/home/alice/.npm/_cacache/**")]
    );
    // It also settles what came behind.
    pending.ask_gathering(request(100, "/home/alice/.npm/_cacache/late"), GATHERING, now).unwrap();
    pending.ask_gathering(request(101, "/home/alice/.npm/_locks/late"), GATHERING, now).unwrap();
    let effects = pending.answer(prompt.id, Answer::Session(Width::Tree), "t", false, now).unwrap();
    let all = settled(&effects);
    assert_eq!(all.len(), 8);
    let grants: BTreeSet<u64> = all.iter().filter_map(|one| one.grant.as_ref()).map(|grant| grant.id.0).collect();
    assert_eq!(grants.len(), 1);
    assert!(ends(&effects).contains(&(100, Outcome::Granted)));
    assert_eq!(pending.len(), 1);
}

#[test]
fn files_in_one_directory_are_offered_the_directory() {
    let mut pending = pending();
    let requests = (0..3).map(|id| request(id, &format!("/srv/cache/{id}"))).collect();
    let (prompt, _) = shown(&mut pending, requests);
    let offers: Vec<&str> = prompt.offers.iter().map(|offer| offer.scope.as_str()).collect();
    assert_eq!(offers, ["/srv/cache/0", "/srv/cache/*", "/srv/cache/**"]);
}

#[test]
fn what_is_too_broad_or_of_another_kind_is_never_put_together() {
    let other = |id, change: fn(&mut Request)| {
        let mut other = request(id, "/srv/cache/b");
        change(&mut other);
        other
    };
    let one = || request(1, "/srv/cache/a");
    let pairs = [
        // Nothing but the home, a whole home of many, or the top is around both.
        (request(1, "/home/alice/.npm/a"), request(2, "/home/alice/.cache/b")),
        (request(1, "/home/alice/.bashrc"), request(2, "/home/alice/.profile")),
        (request(1, "/home/bob"), request(2, "/home/carol")),
        (request(1, "/srv/a"), request(2, "/srv/b")),
        (request(1, "/srv/a/x"), request(2, "/srv/b/y")),
        (request(1, "/etc/a"), request(2, "/srv/b")),
        (one(), other(2, |request| request.call = CallId(2))),
        (one(), other(2, |request| request.who.program = "/usr/bin/node".into())),
        (one(), other(2, |request| request.access = Access::Read)),
        (one(), other(2, |request| request.rule.id = "other".into())),
        (one(), other(2, |request| request.remember = Lifetime::Call)),
        (one(), other(2, |request| request.remember = Lifetime::Attempt)),
        (one(), other(2, |request| request.remember_for = Some(TIMEOUT))),
        (one(), other(2, |request| request.other = Some("/etc/passwd".into()))),
        (one(), other(2, |request| request.access = Access::Unix)),
        (reaching(1, "a.example.org", "93.184.215.14:443"), reaching(2, "a.example.com", "93.184.215.15:443")),
        (reaching(1, "a.example.org", "10.0.0.1:443"), reaching(2, "a.example.org", "10.0.0.2:443")),
        (reaching(1, "a.github.io", "93.184.215.14:443"), reaching(2, "b.github.io", "93.184.215.15:443")),
    ];
    for (at, (one, two)) in pairs.into_iter().enumerate() {
        let (mut pending, now) = (pending(), Instant::now());
        for request in [one, two] {
            pending.ask_gathering(request, GATHERING, now).unwrap();
        }
        let first = pending.expire(now + GATHERING);
        let shown = prompt(&first).or_else(|| pending.prompts(&session(0), now).pop()).unwrap();
        assert!(shown.group.is_none(), "pair {at}");
        assert_eq!(pending.leads(&session(0)).len(), 2, "pair {at}");
    }
}

#[test]
fn connections_to_one_domain_are_one_prompt() {
    let mut pending = pending();
    let hosts = ["registry.npmjs.org", "www.npmjs.org", "npmjs.org"];
    let requests = hosts.iter().enumerate().map(|(at, host)| reaching(at as u128, host, "104.16.1.34:443")).collect();
    let (prompt, now) = shown(&mut pending, requests);
    let group = prompt.group.as_ref().unwrap();
    assert_eq!((group.count, group.place.as_str()), (3, "npmjs.org"));
    let widths: Vec<Width> = prompt.offers.iter().map(|offer| offer.width).collect();
    assert_eq!(widths, [Width::Exact, Width::Domain], "one host is not all of them");
    let effects = pending.answer(prompt.id, Answer::Session(Width::Exact), "t", false, now).unwrap();
    assert_eq!(settled(&effects).len(), 3);
}

#[test]
fn ports_of_one_host_are_one_prompt_that_can_be_answered_for_the_host() {
    let mut pending = pending();
    let port = |port: u128| reaching(port, "example.org", &format!("93.184.215.14:{port}"));
    let (prompt, now) = shown(&mut pending, vec![port(80), port(443), port(8443)]);
    let widths: Vec<Width> = prompt.offers.iter().map(|offer| offer.width).collect();
    assert_eq!(widths, [Width::Exact, Width::Program, Width::Host, Width::Domain]);
    assert_eq!(prompt.group.as_ref().unwrap().place, "example.org");
    let effects = pending.answer(prompt.id, Answer::Session(Width::Host), "t", false, now).unwrap();
    assert_eq!(settled(&effects).len(), 3);
}

#[test]
fn every_kind_of_operation_is_among_those_that_are_named() {
    let mut pending = pending();
    let mut requests = files(150);
    requests[149].operation = Operation::Unlink;
    requests[120].operation = Operation::ChangeMode;
    let (prompt, _) = shown(&mut pending, requests);
    let group = prompt.group.unwrap();
    let operations: BTreeSet<&str> = group.members.iter().map(|member| member.operation.as_str()).collect();
    assert_eq!(operations, BTreeSet::from(["create", "unlink", "change-mode"]));
    assert_eq!(group.members.len(), 64);
}

#[test]
fn a_late_answer_settles_nothing_that_came_after_it_was_shown() {
    let mut pending = pending();
    // What is before them keeps both from being shown.
    let now = Instant::now();
    pending.ask(request(1000, "/etc/first"), now).unwrap();
    for request in files(2) {
        pending.ask_gathering(request, GATHERING, now).unwrap();
    }
    let then = now + GATHERING;
    pending.expire(then);
    let listed = pending.prompts(&session(0), then).pop().unwrap();
    assert_eq!(listed.group.as_ref().unwrap().count, 2);
    for request in [request(2, "/home/alice/.npm/_cacache/1/2"), request(3, "/home/alice/.npm/_cacache/1/3")] {
        pending.ask_gathering(request, GATHERING, then).unwrap();
    }
    let later = then + GATHERING;
    pending.expire(later);
    assert_eq!(pending.leads(&session(0)).len(), 3, "a second group waits");
    let effects = pending.answer(RequestId(1000), Answer::Deny, "t", false, later).unwrap();
    let grown = prompt(&effects).unwrap();
    assert_eq!(grown.group.as_ref().unwrap().count, 4, "both are shown as one");
    assert_ne!(grown.id, listed.id);
    let late = pending.answer(listed.id, Answer::Once(Width::Exact), "t", false, later).unwrap_err();
    assert_eq!(late, AnswerError::AlreadyDecided);
    assert_eq!(pending.len(), 4);
}

#[test]
fn what_comes_while_a_group_is_shown_waits_behind_it() {
    let mut pending = pending();
    let (prompt, now) = shown(&mut pending, files(3));
    let effects = pending.ask_gathering(request(9, "/home/alice/.npm/_cacache/2/9"), GATHERING, now).unwrap();
    assert!(effects.is_empty());
    pending.expire(now + GATHERING);
    let effects = pending.answer(prompt.id, Answer::Once(Width::Exact), "t", false, now + GATHERING).unwrap();
    assert_eq!(settled(&effects).len(), 3);
    assert_eq!(pending.len(), 1);
}

#[test]
fn a_group_that_shrinks_goes_on_being_what_was_shown() {
    let mut pending = pending();
    let (group, now) = shown(&mut pending, files(3));
    assert_eq!(ends(&pending.cancel(&session(0), RequestId(0), now)), [(0, Outcome::Cancelled)]);
    assert_eq!(pending.leads(&session(0)), [group.id]);
    // One of it can be named by itself.
    let effects = pending.answer(RequestId(2), Answer::Deny, "t", false, now).unwrap();
    assert_eq!(ends(&effects), [(2, Outcome::Denied)]);
    assert!(prompt(&effects).is_none());
    let effects = pending.answer(group.id, Answer::Once(Width::Exact), "t", false, now).unwrap();
    assert_eq!(ends(&effects), [(1, Outcome::Approved)]);
    assert!(matches!(effects.first(), Some(Effect::Withdraw(_))));
}

#[test]
fn a_group_of_which_nobody_is_left_goes_away() {
    let mut pending = pending();
    let (group, now) = shown(&mut pending, files(2));
    pending.cancel(&session(0), RequestId(0), now);
    let effects = pending.cancel(&session(0), RequestId(1), now);
    assert!(matches!(effects.first(), Some(Effect::Withdraw(_))));
    let late = pending.answer(group.id, Answer::Once(Width::Exact), "t", false, now).unwrap_err();
    assert_eq!(late, AnswerError::AlreadyDecided);
}

#[test]
fn a_group_runs_out_together() {
    let (mut pending, start) = (pending(), Instant::now());
    for (at, request) in files(10).into_iter().enumerate() {
        pending.ask_gathering(request, GATHERING, start + Duration::from_millis(10 * at as u64)).unwrap();
    }
    let shown = prompt(&pending.expire(start + GATHERING)).unwrap();
    assert_eq!(shown.deadline, start + GATHERING + TIMEOUT);
    assert_eq!(pending.next_deadline(), Some(shown.deadline));
    let effects = pending.expire(shown.deadline);
    assert_eq!(settled(&effects).len(), 10);
    assert!(settled(&effects).iter().all(|one| one.outcome == Outcome::Timeout));
}

#[test]
fn blocking_all_denies_each_and_leaves_a_grant_that_denies() {
    for (width, grants) in [(Width::Exact, 4), (Width::Tree, 1)] {
        let mut pending = pending();
        let (prompt, now) = shown(&mut pending, files(4));
        let effects = pending.answer(prompt.id, Answer::Block(width, Term::Always), "t", false, now).unwrap();
        let all = settled(&effects);
        assert!(all.iter().all(|one| one.outcome == Outcome::Denied));
        let ids: BTreeSet<u64> = all.iter().map(|one| one.grant.as_ref().unwrap().id.0).collect();
        assert_eq!(ids.len(), grants);
        assert!(all.iter().all(|one| one.grant.as_ref().unwrap().effect == decision::Effect::Deny));
    }
}

#[test]
fn more_prompts_than_a_minute_allows_count_prompts_and_not_what_they_are_about() {
    let mut pending = Pending::new();
    pending.open(session(0), terms(1));
    let (prompt, now) = shown(&mut pending, files(50));
    let effects = pending.answer(prompt.id, Answer::Once(Width::Exact), "t", false, now).unwrap();
    assert_eq!(settled(&effects).len(), 50);
    for id in 60..62 {
        pending.ask_gathering(request(id, &format!("/srv/other/{id}")), GATHERING, now).unwrap();
    }
    let effects = pending.expire(now + GATHERING);
    assert_eq!(ends(&effects), [(60, Outcome::NotPermitted), (61, Outcome::NotPermitted)]);
}

#[test]
fn what_cannot_gather_is_shown_at_once_while_others_do() {
    let (mut pending, now) = (pending(), Instant::now());
    assert!(pending.ask_gathering(request(1, "/srv/cache/a"), GATHERING, now).unwrap().is_empty());
    let bound = Request { remember: Lifetime::Attempt, ..request(2, "/srv/cache/b") };
    let effects = pending.ask_gathering(bound, GATHERING, now).unwrap();
    assert_eq!(prompt(&effects).unwrap().id, RequestId(2));
}

#[test]
fn sessions_of_one_user_share_their_places_and_give_them_back() {
    let quota = Quota::new(3);
    let now = Instant::now();
    let session_of = || {
        let mut pending = Pending::within(std::rc::Rc::clone(&quota));
        pending.open(session(0), terms(600));
        pending
    };
    let (mut one, mut two) = (session_of(), session_of());
    for id in 0..2 {
        assert!(ends(&one.ask(request(id, &format!("/srv/x/{id}")), now).unwrap()).is_empty());
    }
    assert!(ends(&two.ask(request(0, "/srv/y"), now).unwrap()).is_empty());
    assert_eq!(ends(&two.ask(request(1, "/srv/z"), now).unwrap()), [(1, Outcome::NotPermitted)]);
    one.answer(RequestId(0), Answer::Deny, "t", false, now).unwrap();
    assert!(ends(&two.ask(request(2, "/srv/z"), now).unwrap()).is_empty());
    drop(one);
    assert_eq!(quota.left(), 1, "a session that is dropped gives back what it had");
}

#[test]
fn long_requests_take_as_many_places_as_they_are_long() {
    let quota = Quota::new(20);
    let mut pending = Pending::within(std::rc::Rc::clone(&quota));
    pending.open(session(0), terms(600));
    let long = |id| request(id, &format!("/srv/{}{id}", "x/".repeat(16_000)));
    let now = Instant::now();
    for id in 0..2 {
        assert!(ends(&pending.ask(long(id), now).unwrap()).is_empty());
    }
    assert_eq!(ends(&pending.ask(long(2), now).unwrap()), [(2, Outcome::NotPermitted)]);
    pending.answer(RequestId(0), Answer::Deny, "t", false, now).unwrap();
    assert!(ends(&pending.ask(long(3), now).unwrap()).is_empty());
    pending.close(&session(0), now);
    assert_eq!(quota.left(), 20);
}

#[derive(Clone, Debug)]
enum Step {
    Ask { call: u32, object: usize, remember: Lifetime, gathers: bool },
    AnswerPrompt { which: usize, answer: Answer },
    AnswerOne { which: usize, answer: Answer },
    Cancel { which: usize },
    Wait { milliseconds: u64 },
    Nobody { which: usize },
}

const OBJECTS: [&str; 8] =
    ["/srv/a/x", "/srv/a/y", "/srv/a/b/z", "/srv/c/w", "/home/alice/.bashrc", "/srv/a/b/q", "/srv/d", "/srv/a/r"];

fn answers() -> impl Strategy<Value = Answer> {
    let width = || prop_oneof![3 => Just(Width::Exact), 1 => Just(Width::Directory), 1 => Just(Width::Tree)];
    let time = (1..20u64).prop_map(|hours| Duration::from_secs(3600 * hours));
    prop_oneof![
        2 => Just(Answer::Deny),
        2 => Just(Answer::Split),
        3 => width().prop_map(Answer::Once),
        1 => width().prop_map(Answer::Session),
        1 => width().prop_map(Answer::Always),
        1 => (width(), time.clone()).prop_map(|(width, time)| Answer::For(width, time)),
        1 => width().prop_map(|width| Answer::Block(width, Term::Session)),
        1 => (width(), time).prop_map(|(width, time)| Answer::Block(width, Term::For(time))),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let lifetime = prop_oneof![
        1 => Just(Lifetime::Attempt),
        2 => Just(Lifetime::Call),
        2 => Just(Lifetime::Session),
        4 => Just(Lifetime::Persistent),
    ];
    let step = prop_oneof![
        8 => (1..3u32, 0..OBJECTS.len(), lifetime, prop::bool::weighted(0.9)).prop_map(
            |(call, object, remember, gathers)| Step::Ask { call, object, remember, gathers }
        ),
        4 => (any::<usize>(), answers()).prop_map(|(which, answer)| Step::AnswerPrompt { which, answer }),
        1 => (any::<usize>(), answers()).prop_map(|(which, answer)| Step::AnswerOne { which, answer }),
        2 => any::<usize>().prop_map(|which| Step::Cancel { which }),
        4 => prop_oneof![4 => 0..300u64, 1 => 0..90_000u64].prop_map(|milliseconds| Step::Wait { milliseconds }),
        1 => any::<usize>().prop_map(|which| Step::Nobody { which }),
    ];
    prop::collection::vec(step, 0..80)
}

/// What an observer of the machine knows.
#[derive(Default)]
struct Observer {
    taken: Vec<Request>,
    ends: BTreeMap<u128, Outcome>,
    shown: Option<RequestId>,
    /// What every prompt that could be seen was about.
    about: BTreeMap<RequestId, BTreeSet<RawPath>>,
    names: Vec<RequestId>,
}

impl Observer {
    fn sees(&mut self, prompt: &Prompt) {
        let one = BTreeSet::from([prompt.request.object.clone()]);
        let about = match &prompt.group {
            Some(group) => {
                assert!(group.count >= 2 && group.members.len() == group.count);
                group.members.iter().map(|member| member.object.clone()).collect()
            }
            None => one,
        };
        assert_eq!(prompt.offers[0].width, Width::Exact);
        assert!(prompt.offers.is_sorted_by(|one, next| one.width < next.width));
        match self.about.get(&prompt.id) {
            // A name means the same for ever, or less of it.
            Some(before) => assert!(about.is_subset(before), "{before:?} became {about:?}"),
            None => {
                self.about.insert(prompt.id, about);
                self.names.push(prompt.id);
            }
        }
    }

    fn watch(&mut self, pending: &mut Pending, now: Instant, effects: Vec<Effect>, mut check: impl FnMut(&Settled)) {
        for effect in effects {
            match effect {
                Effect::Show(prompt) => {
                    assert_eq!(self.shown.replace(prompt.id), None, "two prompts at a time");
                    self.sees(&prompt);
                }
                Effect::Withdraw(_) => assert!(self.shown.take().is_some(), "withdrawn without being shown"),
                Effect::Settle(settled) => {
                    check(&settled);
                    assert_eq!(self.ends.insert(settled.request.id.0, settled.outcome), None, "settled twice");
                }
            }
        }
        let listed = pending.prompts(&session(0), now);
        assert_eq!(listed.iter().map(|prompt| prompt.id).collect::<Vec<_>>(), pending.leads(&session(0)));
        listed.iter().for_each(|prompt| self.sees(prompt));
        assert_eq!(self.shown.is_some(), !listed.is_empty(), "what can be seen is shown");
        assert!(self.shown.is_none_or(|shown| listed.iter().any(|prompt| prompt.id == shown)));
        let waiting = self.taken.iter().filter(|request| !self.ends.contains_key(&request.id.0)).count();
        assert_eq!(pending.len(), waiting);
    }
}

/// What one answer may do to one request; `about` is what whoever answered was shown.
fn check_answer(about: &BTreeSet<RawPath>, answer: &Answer, settled: &Settled) {
    let own = &settled.request;
    let longest = own.remember.min(Lifetime::Persistent);
    match settled.outcome {
        Outcome::Approved => {
            let (width, term) = answer.allows().expect("approved by a no");
            assert!(about.contains(&own.object), "approved without being shown");
            assert_eq!(settled.lifetime, term.lifetime().min(longest));
            assert_eq!(settled.width, width);
            match &settled.grant {
                Some(grant) => {
                    assert!(grant.answers(own) && grant.effect == decision::Effect::Allow);
                    assert_eq!(grant.lifetime, settled.lifetime);
                    if width == Width::Exact {
                        assert_eq!(grant.object, own.object);
                    }
                }
                None => assert_eq!(settled.lifetime, Lifetime::Attempt),
            }
        }
        Outcome::Granted => assert!(answer.says_yes(), "granted by a no"),
        Outcome::Denied => {
            assert!(!answer.says_yes());
            let covered = matches!(answer, Answer::Block(..));
            assert!(covered || about.contains(&own.object), "denied without being shown");
            if let Some(grant) = &settled.grant {
                assert!(grant.effect == decision::Effect::Deny && grant.lifetime <= Lifetime::Persistent);
            }
        }
        // Broader than may be offered, or nothing to be split.
        Outcome::NotPermitted => assert!(answer.width() != Some(Width::Exact) && about.contains(&own.object)),
        other => panic!("{other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn an_answer_settles_what_was_shown_by_its_name_and_nothing_else(steps in steps()) {
        let quota = Quota::new(PLACES);
        let mut pending = Pending::within(std::rc::Rc::clone(&quota));
        pending.open(session(0), terms(100_000));
        let mut now = Instant::now();
        let mut seen = Observer::default();
        for step in steps {
            match step {
                Step::Ask { call, object, remember, gathers } => {
                    let id = seen.taken.len() as u128;
                    let request = Request { remember, call: CallId(call), ..request(id, OBJECTS[object]) };
                    seen.taken.push(request.clone());
                    let window = if gathers { GATHERING } else { Duration::ZERO };
                    let effects = pending.ask_gathering(request, window, now).unwrap();
                    seen.watch(&mut pending, now, effects, |_| panic!("refused"));
                }
                // Those of the past as well.
                Step::AnswerPrompt { which, answer } if !seen.names.is_empty() => {
                    let name = seen.names[which % seen.names.len()];
                    let about = seen.about[&name].clone();
                    let is_there = pending.leads(&session(0)).contains(&name);
                    let is_one = seen.taken.iter().any(|request| request.id == name);
                    match pending.answer(name, answer.clone(), "t", false, now) {
                        Err(error) => assert!(!is_there && error == AnswerError::AlreadyDecided),
                        Ok(effects) => {
                            assert!(is_there || is_one);
                            let split = answer == Answer::Split && !is_one;
                            seen.watch(&mut pending, now, effects, |settled| {
                                assert!(!split, "nothing is decided yet");
                                check_answer(&about, &answer, settled);
                            });
                        }
                    }
                }
                Step::AnswerOne { which, answer } if !seen.taken.is_empty() => {
                    let asked = seen.taken[which % seen.taken.len()].clone();
                    let over = seen.ends.contains_key(&asked.id.0);
                    let about = BTreeSet::from([asked.object.clone()]);
                    match pending.answer(asked.id, answer.clone(), "t", false, now) {
                        Err(error) => assert!(over && error == AnswerError::AlreadyDecided),
                        Ok(effects) => {
                            seen.watch(&mut pending, now, effects, |settled| check_answer(&about, &answer, settled));
                            assert!(seen.ends.contains_key(&asked.id.0));
                        }
                    }
                }
                Step::Cancel { which } if !seen.taken.is_empty() => {
                    let asked = seen.taken[which % seen.taken.len()].clone();
                    let effects = pending.cancel(&asked.session, asked.id, now);
                    seen.watch(&mut pending, now, effects, |settled| {
                        assert_eq!((settled.request.id, settled.outcome), (asked.id, Outcome::Cancelled));
                    });
                    assert!(seen.ends.contains_key(&asked.id.0));
                }
                Step::Wait { milliseconds } => {
                    now += Duration::from_millis(milliseconds);
                    let effects = pending.expire(now);
                    seen.watch(&mut pending, now, effects, |settled| {
                        assert_eq!(settled.outcome, Outcome::Timeout);
                        assert!(settled.waited >= TIMEOUT);
                    });
                    assert!(pending.next_deadline().is_none_or(|deadline| deadline > now));
                }
                Step::Nobody { which } if !seen.names.is_empty() => {
                    let name = seen.names[which % seen.names.len()];
                    let about = seen.about[&name].clone();
                    let effects = pending.nobody(name, now);
                    seen.watch(&mut pending, now, effects, |settled| {
                        assert!(settled.outcome == Outcome::NotPermitted && about.contains(&settled.request.object));
                    });
                }
                _ => {}
            }
            assert_eq!(quota.left(), PLACES - pending.len());
        }
        let effects = pending.close(&session(0), now);
        for settled in settled(&effects) {
            assert_eq!(seen.ends.insert(settled.request.id.0, settled.outcome), None);
        }
        assert_eq!(seen.ends.len(), seen.taken.len());
        assert_eq!(quota.left(), PLACES);
    }
}
