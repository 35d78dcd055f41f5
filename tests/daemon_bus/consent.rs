//! Who answers, and what becomes of an answer: the first one counts, each request ends once, and whatever goes wrong denies.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::Instant;

use gated::common::access::Access;
use gated::common::bus::{MANAGER_INTERFACE, MANAGER_PATH, REQUEST_INTERFACE, REQUESTS_PATH};
use gated::common::decision::Outcome;
use gated::common::exec::Execution;
use gated::common::id::RequestId;
use gated::common::request::Operation;
use gated::common::text::Untrusted;
use gated::common::wire::FromSession;
use zbus::{OwnedObjectPath, Variant};

use super::world::*;

fn kind(kind: &'static str) -> Options<'static> {
    HashMap::from([("kind", Variant::from(kind))])
}

#[test]
fn the_first_answer_counts_and_the_other_agents_are_told() {
    run(async {
        let bus = PrivateBus::start();
        let world = World::start(bus.address()).await;
        let (client, second) = (world.connect().await, world.connect().await);
        let mut supervisor = world.session(&client, "").await;
        let mut one = client.agent(kind("desktop")).await;
        let mut two = second.agent(kind("terminal")).await;
        supervisor.ask(1, "/srv/x").await;
        let (first, late) = (one.asked(1).await, two.asked(1).await);
        client.waits_at(1).await;
        let pending = client.property(MANAGER_PATH, MANAGER_INTERFACE, "PendingRequests").await.unwrap();
        let path = format!("{REQUESTS_PATH}/1");
        assert_eq!(Vec::<OwnedObjectPath>::try_from(pending).unwrap()[0].as_str(), path);
        let details = client.property(&path, REQUEST_INTERFACE, "Details").await.unwrap();
        let details = HashMap::<String, zbus::OwnedVariant>::try_from(details).unwrap();
        assert_eq!(Vec::<u8>::try_from(details["object"].try_clone().unwrap()).unwrap(), b"/srv/x");

        first.send(said("once")).unwrap();
        let decision = supervisor.decided().await;
        assert_eq!((decision.request, decision.outcome), (RequestId(1), Outcome::Approved));
        assert!(decision.by.starts_with("desktop:"), "{}", decision.by);
        assert!(matches!(two.next().await, Told::Cancel(1)));
        // What comes now comes to nothing, whoever says it and however often.
        late.send(said("session")).unwrap();
        assert_eq!(refusal(client.decide(1, "session").await), "AlreadyDecided");
        assert_eq!(refusal(second.decide(1, "deny").await), "AlreadyDecided");
        assert_eq!(refusal(client.decide(2, "session").await), "NoSuchRequest");
        supervisor.ask(2, "/srv/y").await;
        let (again, _other) = (one.asked(2).await, two.asked(2).await);
        assert_eq!(refusal(client.decide(1, "once").await), "AlreadyDecided");
        again.send(said("deny")).unwrap();
        let decision = supervisor.decided().await;
        assert_eq!((decision.request, decision.outcome), (RequestId(2), Outcome::Denied));
        assert!(one.is_left_alone(), "who has answered is not told");
        assert_eq!(world.audited().len(), 2);
        assert!(world.audited()[0].starts_with("approved /srv/x desktop:"), "{:?}", world.audited());
        assert!(client.property(&path, REQUEST_INTERFACE, "Id").await.is_err());
    });
}

#[test]
fn an_agent_is_asked_for_what_it_registered_for_and_until_it_leaves() {
    run(async {
        let bus = PrivateBus::start();
        let world = World::start(bus.address()).await;
        let (client, second) = (world.connect().await, world.connect().await);
        let mut supervisor = world.session(&client, "").await;
        let mut other = world.session(&client, "").await;
        let only = HashMap::from([("session", Variant::from(supervisor.session.0.clone()))]);
        let mut one = client.agent(only).await;
        other.ask(1, "/srv/x").await;
        supervisor.ask(2, "/srv/x").await;
        let reply = one.asked(2).await;
        reply.send(said("deny")).unwrap();
        supervisor.decided().await;
        // One that comes later is asked what waits, and only while it is there.
        let mut two = second.agent(kind("desktop")).await;
        let _open = two.asked(1).await;
        second.manager("UnregisterAgent", &()).await.unwrap();
        supervisor.ask(3, "/srv/y").await;
        one.asked(3).await.send(said("deny")).unwrap();
        supervisor.decided().await;
        assert!(two.is_left_alone() && one.is_left_alone());
        client.decide(1, "deny").await.unwrap();
        other.decided().await;
    });
}

#[test]
fn where_nobody_can_be_asked_it_is_denied_or_waits_as_the_profile_says() {
    run(async {
        let bus = PrivateBus::start();
        let world = World::start(bus.address()).await;
        let client = world.connect().await;
        let mut supervisor = world.session(&client, "").await;
        let mut queueing = world.session(&client, "[prompt]\nno_consent_agent = \"queue\"\n").await;
        queueing.ask(9, "/srv/q").await;
        let begun = Instant::now();
        supervisor.ask(1, "/srv/x").await;
        assert_eq!(supervisor.decided().await.outcome, Outcome::NotPermitted);
        assert!(begun.elapsed() >= PATIENCE);
        assert_eq!(waiting(&world.core), 1);
        let mut agent = client.agent(kind("desktop")).await;
        agent.asked(9).await.send(said("once")).unwrap();
        assert_eq!(queueing.decided().await.outcome, Outcome::Approved);
    });
}

#[test]
fn an_agent_that_dies_leaves_the_answer_to_the_others() {
    run(async {
        let bus = PrivateBus::start();
        let world = World::start(bus.address()).await;
        let (client, second) = (world.connect().await, world.connect().await);
        let mut supervisor = world.session(&client, "").await;
        let mut dying = second.agent(kind("desktop")).await;
        supervisor.ask(1, "/srv/x").await;
        let _unanswered = dying.asked(1).await;
        second.0.close().await.unwrap();
        world.until("the agent to be gone", |core| core.agents.is_empty()).await;
        let mut heir = client.agent(kind("terminal")).await;
        heir.asked(1).await.send(said("once")).unwrap();
        assert_eq!(supervisor.decided().await.outcome, Outcome::Approved);

        // And the last one, to nobody.
        supervisor.ask(2, "/srv/y").await;
        let _unanswered = heir.asked(2).await;
        client.manager("UnregisterAgent", &()).await.unwrap();
        drop(heir);
        client.0.close().await.unwrap();
        assert_eq!(supervisor.decided().await.outcome, Outcome::NotPermitted);
    });
}

#[test]
fn an_agent_that_hangs_or_answers_late_permits_nothing() {
    run(async {
        let bus = PrivateBus::start();
        let world = World::start(bus.address()).await;
        let client = world.connect().await;
        let mut supervisor = world.session(&client, "[prompt]\ntimeout = \"1s\"\n").await;
        let mut agent = client.agent(kind("desktop")).await;
        supervisor.ask(1, "/srv/x").await;
        let late = agent.asked(1).await;
        assert_eq!(supervisor.decided().await.outcome, Outcome::Timeout);
        assert!(matches!(agent.next().await, Told::Cancel(1)));
        late.send(said("session")).unwrap();
        assert_eq!(refusal(client.decide(1, "session").await), "AlreadyDecided");
        // The next question is answered by its own answer.
        supervisor.ask(2, "/srv/y").await;
        agent.asked(2).await.send(said("deny")).unwrap();
        assert_eq!(supervisor.decided().await.outcome, Outcome::Denied);
        assert_eq!(world.audited().len(), 2);
    });
}

#[test]
fn an_answer_that_means_nothing_is_none() {
    run(async {
        let bus = PrivateBus::start();
        let world = World::start(bus.address()).await;
        let client = world.connect().await;
        let mut supervisor = world.session(&client, "").await;
        let mut agent = client.agent(kind("script")).await;
        let odd = |key: &str, value: &str| {
            let value = zbus::OwnedVariant::try_from(Variant::from(value.to_owned())).unwrap();
            ("session".to_owned(), HashMap::from([(key.to_owned(), value)]))
        };
        let nonsense = [said("allow"), said("Session"), said(""), odd("width", "everything"), odd("depth", "exact")];
        for (number, nonsense) in (1..).zip(nonsense) {
            supervisor.ask(number, &format!("/srv/{number}")).await;
            agent.asked(number).await.send(nonsense).unwrap();
            assert_eq!(supervisor.decided().await.outcome, Outcome::NotPermitted, "{number}");
        }
        // Wider than was offered: "/", which no answer may cover.
        supervisor.ask(90, "/x").await;
        agent.asked(90).await.send(odd("width", "tree")).unwrap();
        assert_eq!(supervisor.decided().await.outcome, Outcome::NotPermitted);
        // An error instead of an answer.
        supervisor.ask(91, "/srv/y").await;
        drop(agent.asked(91).await);
        assert_eq!(supervisor.decided().await.outcome, Outcome::NotPermitted);
        assert!(world.audited().iter().all(|line| line.starts_with("not_permitted")), "{:?}", world.audited());
    });
}

#[test]
fn without_a_record_nothing_is_permitted() {
    run(async {
        let bus = PrivateBus::start();
        let world = World::start(bus.address()).await;
        let client = world.connect().await;
        let mut supervisor = world.session(&client, "").await;
        let mut agent = client.agent(kind("desktop")).await;
        world.log.is_full.store(true, Ordering::Relaxed);
        supervisor.ask(1, "/srv/x").await;
        agent.asked(1).await.send(said("session")).unwrap();
        let decision = supervisor.decided().await;
        assert_eq!((decision.outcome, decision.grant), (Outcome::NotPermitted, None));
        let grants = client.manager("ListGrants", &(Options::new(),)).await.unwrap();
        assert!(grants.body().deserialize::<Vec<HashMap<String, zbus::OwnedVariant>>>().unwrap().is_empty());
        world.log.is_full.store(false, Ordering::Relaxed);
        supervisor.ask(2, "/srv/x").await;
        agent.asked(2).await.send(said("session")).unwrap();
        assert_eq!(supervisor.decided().await.outcome, Outcome::Approved);
    });
}

#[test]
fn a_request_that_is_taken_back_is_over_for_everybody() {
    run(async {
        let bus = PrivateBus::start();
        let world = World::start(bus.address()).await;
        let client = world.connect().await;
        let mut supervisor = world.session(&client, "").await;
        let mut agent = client.agent(kind("desktop")).await;
        supervisor.ask(1, "/srv/x").await;
        let late = agent.asked(1).await;
        supervisor.send(FromSession::Cancel(RequestId(1))).await;
        assert!(matches!(agent.next().await, Told::Cancel(1)));
        late.send(said("session")).unwrap();
        assert_eq!(refusal(client.decide(1, "session").await), "AlreadyDecided");
        supervisor.ask(2, "/srv/x").await;
        agent.asked(2).await.send(said("deny")).unwrap();
        assert_eq!(supervisor.decided().await.request, RequestId(2), "nothing was said of the first");
        assert!(world.core.sessions.borrow().values().all(|live| live.view.grants.borrow().is_empty()));
    });
}

#[test]
fn an_agent_that_never_replies_harms_only_itself() {
    run(async {
        let bus = PrivateBus::start();
        let world = World::start(bus.address()).await;
        let (client, second) = (world.connect().await, world.connect().await);
        let mut hung = second.agent(kind("desktop")).await;
        let mut good = client.agent(kind("terminal")).await;
        let mut supervisor = world.session(&client, "[prompt]\nmax_per_minute = 600\n").await;
        let mut kept = Vec::new();
        // More than the bus lets anybody wait for (`max_replies_per_connection`).
        for number in 1..=140 {
            supervisor.ask(number, &format!("/srv/{number}")).await;
            good.asked(number).await.send(said("deny")).unwrap();
            assert_eq!(supervisor.decided().await.outcome, Outcome::Denied, "{number}");
        }
        while let Ok(told) = tokio::time::timeout(std::time::Duration::from_millis(200), hung.next()).await {
            if let Told::Ask(_, reply) = told {
                kept.push(reply);
            }
        }
        assert!((1..=3).contains(&kept.len()), "asked {} times", kept.len());
        // Once it replies it is asked again.
        for reply in kept {
            reply.send(said("session")).unwrap();
        }
        supervisor.ask(999, "/srv/z").await;
        let _open = good.asked(999).await;
        hung.asked(999).await.send(said("deny")).unwrap();
        assert_eq!(supervisor.decided().await.outcome, Outcome::Denied);
    });
}

/// What `edit` says.
fn edited(argv: &[&str]) -> Said {
    let argv: Vec<Vec<u8>> = argv.iter().map(|word| word.as_bytes().to_vec()).collect();
    ("edit".to_owned(), HashMap::from([("argv".to_owned(), Variant::from(argv).try_into_owned().unwrap())]))
}

/// A command is changed by the connection that gave it, and by nobody else of the same user.
#[test]
fn another_command_is_taken_from_the_connection_that_gave_it_alone() {
    run(async {
        let bus = PrivateBus::start();
        let world = World::start(bus.address()).await;
        let (client, other) = (world.connect().await, world.connect().await);
        let file = tempfile::tempfile().unwrap();
        let mut options = opening();
        options.extend([("profile", Variant::from("own")), ("profiles", own(""))]);
        let body = super::methods::order(&file, options);
        let (ran, mut supervisor) = tokio::join!(client.manager("Run", &body), async {
            let mut supervisor = world.supervisor().await;
            supervisor.build().await;
            supervisor
        });
        ran.unwrap();
        let started = supervisor.message().await;
        assert!(matches!(started, gated::common::wire::ToSession::Start(_)), "{started:?}");
        let mut own = client.agent(kind("terminal")).await;
        let mut foreign = other.agent(kind("desktop")).await;
        let first = |supervisor: &Supervisor, id, argv: &[&str], is_first| {
            let mut request = supervisor.request(id, "/usr/bin/true");
            (request.access, request.operation) = (Access::Exec, Operation::Execute);
            request.execution = Some(Box::new(Execution {
                argv: argv.iter().map(|word| Untrusted::new(word.as_bytes())).collect(),
                words_left_out: 0,
                interpreters: vec![],
                variables: vec![],
                parents: vec![],
                is_new: false,
                is_first,
                version: None,
            }));
            FromSession::Ask(Box::new(request))
        };
        // The other may deny, but write nothing: that is no answer, on either way.
        let request = first(&supervisor, 1, &["true"], true);
        supervisor.send(request).await;
        let mine = own.asked(1).await;
        foreign.asked(1).await.send(edited(&["false"])).unwrap();
        client.waits_at(1).await;
        let (decision, scope) = edited(&["false"]);
        let body = (format!("{:032x}", 1), decision, scope);
        assert_eq!(refusal(other.manager("Decide", &body).await), "NotAuthorized");
        mine.send(edited(&["echo", "x"])).unwrap();
        let decision = supervisor.decided().await;
        assert_eq!(decision.outcome, Outcome::Edited);
        assert_eq!(decision.edited, Some(vec![b"echo".to_vec(), b"x".to_vec()]));
        // What it wrote is its own from now on, also by Decide.
        let request = first(&supervisor, 2, &["echo", "x"], true);
        supervisor.send(request).await;
        let (_mine, _foreign) = (own.asked(2).await, foreign.asked(2).await);
        client.waits_at(2).await;
        let (decision, scope) = edited(&["echo", "y"]);
        client.manager("Decide", &(format!("{:032x}", 2), decision, scope)).await.unwrap();
        assert_eq!(supervisor.decided().await.edited, Some(vec![b"echo".to_vec(), b"y".to_vec()]));
        assert!(matches!(own.next().await, Told::Cancel(2)) && matches!(foreign.next().await, Told::Cancel(2)));
        // Not what a tool runs, nor what somebody else gave.
        for (id, argv, is_first) in [(3, "true", false), (4, "other", true)] {
            let request = first(&supervisor, id, &[argv], is_first);
            supervisor.send(request).await;
            own.asked(id).await.send(edited(&["echo"])).unwrap();
            foreign.asked(id).await.send(said("deny")).unwrap();
            assert_eq!(supervisor.decided().await.outcome, Outcome::Denied, "{id}");
        }
    });
}
