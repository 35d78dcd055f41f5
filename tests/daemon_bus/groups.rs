//! Many requests at once through the daemon: one prompt for an agent of the real library, one answer for all of them; a flood
//! that delays nobody else; and what agents are told without being asked.

use std::collections::{BTreeSet, HashMap};
use std::time::Instant;

use gated::common::access::{Access, Level};
use gated::common::bus::{AGENT_INTERFACE, AGENT_PATH};
use gated::common::consent::Answer;
use gated::common::decision::{Lifetime, Outcome, Width};
use gated::common::id::CallId;
use gated::common::notice::{Kind, Notice};
use gated::common::request::{Operation, RuleRef};
use gated::common::wire::{FromSession, Record};
use gated::consent::bus::{Asked, BusAgent, Registration};
use gated::policy::Grant;
use zbus::Variant;

use super::world::*;
use crate::support::bus::PrivateBus;

const MANY: u128 = 214;
/// Of what is asked for by itself.
const FIRST: u128 = 1000;

async fn agent(client: &Client, kind: &'static str) -> BusAgent {
    BusAgent::register(&client.0, Registration { kind, session: None }).await.unwrap()
}

async fn next(agent: &mut BusAgent) -> Asked {
    within(agent.next()).await.expect("the bus is there")
}

/// All requests that wait, members of groups counted each.
fn all(world: &World) -> usize {
    let sessions = world.core.sessions.borrow();
    let prompts = sessions.values().flat_map(|live| live.view.prompts.borrow().clone());
    prompts.map(|prompt| prompt.group.map_or(1, |group| group.count)).sum()
}

/// A session that wants one thing and then many at once, as the agent sees them.
async fn gathered(world: &World, client: &Client, agent: &mut BusAgent) -> (Supervisor, Asked) {
    let mut supervisor = world.session(client, "").await;
    supervisor.ask(FIRST, "/srv/first").await;
    let first = next(agent).await;
    for number in 1..=MANY {
        supervisor.ask(number, &format!("/srv/cache/{}/{number}", number % 7)).await;
    }
    world.until("all of it to be seen", |_| all(world) == MANY as usize + 1).await;
    first.reply.send(Answer::Deny).unwrap();
    assert_eq!(supervisor.decided().await.request.0, FIRST);
    let asked = next(agent).await;
    (supervisor, asked)
}

#[test]
fn two_hundred_files_are_one_prompt_and_each_has_its_grant() {
    run(async {
        let bus = PrivateBus::start();
        let world = World::start(bus.address()).await;
        let client = world.connect().await;
        let mut agent = agent(&client, "desktop").await;
        let (mut supervisor, asked) = gathered(&world, &client, &mut agent).await;
        let group = asked.prompt.group.as_ref().unwrap();
        assert_eq!((group.count, group.place.as_str()), (214, "/srv/cache"));
        assert_eq!((group.members.len(), asked.prompt.attempts), (64, 214));
        asked.reply.send(Answer::Once(Width::Exact)).unwrap();
        let mut settled = BTreeSet::new();
        for _ in 0..MANY {
            let decision = supervisor.decided().await;
            assert_eq!(decision.outcome, Outcome::Approved);
            let grant = Grant::decode(&decision.grant.expect("a grant")).unwrap();
            let number = decision.request.0;
            assert_eq!(grant.object, format!("/srv/cache/{}/{number}", number % 7).as_str().into());
            assert_eq!((grant.lifetime, grant.call), (Lifetime::Call, Some(CallId(1))));
            settled.insert(number);
        }
        assert_eq!(settled.len(), MANY as usize);
        assert_eq!(world.audited().iter().filter(|line| line.starts_with("approved ")).count(), MANY as usize);
    });
}

#[test]
fn an_answer_to_a_group_by_decide_is_heard_of_when_all_of_it_is_on_record() {
    run(async {
        let bus = PrivateBus::start();
        let world = World::start(bus.address()).await;
        let client = world.connect().await;
        let mut agent = agent(&client, "desktop").await;
        let (mut supervisor, asked) = gathered(&world, &client, &mut agent).await;
        client.decide(asked.prompt.id.0, "once").await.unwrap();
        let approved = world.audited().iter().filter(|line| line.starts_with("approved ")).count();
        assert_eq!(approved, MANY as usize);
        for _ in 0..MANY {
            assert_eq!(supervisor.decided().await.outcome, Outcome::Approved);
        }
        assert_eq!(refusal(client.decide(asked.prompt.id.0, "once").await), "AlreadyDecided");
        assert!(asked.reply.send(Answer::Deny).is_err() || asked.withdrawn.is_withdrawn());
    });
}

#[test]
fn a_group_without_a_record_permits_nothing() {
    run(async {
        let bus = PrivateBus::start();
        let world = World::start(bus.address()).await;
        let client = world.connect().await;
        let mut agent = agent(&client, "desktop").await;
        let (mut supervisor, asked) = gathered(&world, &client, &mut agent).await;
        world.log.is_full.store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(refusal(client.decide(asked.prompt.id.0, "session").await), "Engine");
        for _ in 0..MANY {
            let decision = supervisor.decided().await;
            assert_eq!((decision.outcome, decision.grant), (Outcome::NotPermitted, None));
        }
    });
}

#[test]
fn one_by_one_by_decide_shows_each() {
    run(async {
        let bus = PrivateBus::start();
        let world = World::start(bus.address()).await;
        let client = world.connect().await;
        let mut agent = agent(&client, "desktop").await;
        let (mut supervisor, asked) = gathered(&world, &client, &mut agent).await;
        client.decide(asked.prompt.id.0, "split").await.unwrap();
        for number in 1..=5 {
            let one = next(&mut agent).await;
            assert!(one.prompt.group.is_none());
            assert_eq!(one.prompt.id.0, number);
            one.reply.send(Answer::Deny).unwrap();
            let decision = supervisor.decided().await;
            assert_eq!((decision.request.0, decision.outcome), (number, Outcome::Denied));
        }
    });
}

#[test]
fn nothing_gathers_for_a_script() {
    run(async {
        let bus = PrivateBus::start();
        let world = World::start(bus.address()).await;
        let client = world.connect().await;
        let mut agent = agent(&client, "script").await;
        let mut supervisor = world.session(&client, "").await;
        for number in 1..=3 {
            supervisor.ask(number, &format!("/srv/cache/{number}")).await;
        }
        for number in 1..=3 {
            let asked = next(&mut agent).await;
            assert_eq!((asked.prompt.id.0, asked.prompt.group.is_none()), (number, true));
            asked.reply.send(Answer::Deny).unwrap();
            assert_eq!(supervisor.decided().await.request.0, number);
        }
    });
}

/// Counted in what the agent hears between the other session's question and its prompt, and not in time.
#[test]
fn a_flood_of_one_session_is_behind_the_prompt_of_another() {
    run(async {
        for denies in [false, true] {
            let bus = PrivateBus::start();
            let world = World::start(bus.address()).await;
            let client = world.connect().await;
            let mut agent = agent(&client, "desktop").await;
            let mut flood = world.session(&client, "[prompt]\nmax_per_minute = 600\n").await;
            let mut calm = world.session(&client, "").await;
            let flooding = tokio::task::spawn_local(async move {
                for number in 0..1200 {
                    let (request, cancelled) = (10_000 + number, number % 3 == 0);
                    flood.ask(request, &format!("/srv/{number}")).await;
                    if cancelled {
                        flood.send(FromSession::Cancel(gated::common::id::RequestId(request))).await;
                    }
                    tokio::task::yield_now().await;
                }
                flood
            });
            let mut kept = vec![next(&mut agent).await];
            for number in 1..=5 {
                if denies {
                    kept.drain(..).for_each(|one| drop(one.reply.send(Answer::Deny)));
                }
                calm.ask(number, &format!("/srv/calm-{number}")).await;
                let mut others = 0;
                loop {
                    let asked = next(&mut agent).await;
                    if asked.prompt.id.0 == number {
                        asked.reply.send(Answer::Deny).unwrap();
                        break;
                    }
                    others += 1;
                    assert!(others <= 32, "{others} prompts of the flood before the other session's");
                    match denies {
                        true => drop(asked.reply.send(Answer::Deny)),
                        false => kept.push(asked),
                    }
                }
                assert_eq!(calm.decided().await.request.0, number);
            }
            let _flood = within(flooding).await.unwrap();
        }
    });
}

fn notified(supervisor: &Supervisor, number: u64) -> FromSession {
    let request = supervisor.request(1, &format!("/srv/told-{number}"));
    FromSession::Record(Box::new(Record {
        number,
        call: CallId(1),
        who: request.who,
        access: Access::Write,
        operation: Operation::Create,
        object: request.object,
        other: None,
        execution: None,
        destination: None,
        service: None,
        level: Level::Notify,
        rule: RuleRef { profile: "p".into(), id: "r".into(), file: "p.toml".into(), line: 1, reason: None },
        outcome: Outcome::Allowed,
        by: String::new(),
        grant: None,
    }))
}

#[test]
fn what_a_rule_lets_happen_is_told_once_and_the_rest_is_counted() {
    run(async {
        let bus = PrivateBus::start();
        let world = World::start(bus.address()).await;
        let (client, other) = (world.connect().await, world.connect().await);
        let mut agent = agent(&client, "terminal").await;
        let mut notices = agent.take_notices().unwrap();
        let mut supervisor = world.session(&client, "").await;
        for number in 0..13 {
            let record = notified(&supervisor, number);
            supervisor.send(record).await;
        }
        let begin = Instant::now();
        let first = within(notices.recv()).await.unwrap();
        assert_eq!((first.kind, first.count, first.session.as_ref()), (Kind::Notify, 1, Some(&supervisor.session)));
        assert_eq!(first.deed.as_ref().unwrap().object, "/srv/told-0");
        let rest: Notice = within(notices.recv()).await.unwrap();
        assert_eq!((rest.count, rest.deed.as_ref().unwrap().object.as_str()), (12, "/srv/told-12"));
        assert!(begin.elapsed() >= gated::daemon::notices::PAUSE / 2);
        // Nobody but the daemon tells.
        let name = client.0.unique_name().unwrap().as_str();
        let body = ("policy", HashMap::<&str, Variant<'_>>::new());
        let told = other.0.call_method(Some(name), AGENT_PATH, Some(AGENT_INTERFACE), "Notice", &body).await;
        assert_eq!(refusal(told), "AccessDenied");
        assert!(notices.try_recv().is_err());
    });
}
