//! Supervisors that do what none of ours does, and too much of everything.

use std::collections::HashMap;
use std::io::{IoSlice, Write};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::time::Instant;

use gated::common::consent::Answer;
use gated::common::decision::{Outcome, Width};
use gated::common::id::{CallId, RequestId, SessionId};
use gated::common::text::Untrusted;
use gated::common::wire::{FromSession, MAX_FRAME};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use tokio::io::AsyncWriteExt;

use super::world::*;

/// Ends badly, and takes nobody along.
async fn is_ended(world: &World, mut supervisor: Supervisor, what: &str) {
    let session = supervisor.session.clone();
    supervisor.ended().await;
    world.until(what, |core| !core.sessions.borrow().contains_key(&session)).await;
    assert!(world.killed.borrow().contains(&session), "{what}");
}

#[test]
fn a_supervisor_that_breaks_the_protocol_is_ended_alone() {
    run(async {
        let bus = PrivateBus::start();
        let world = World::start(bus.address()).await;
        let client = world.connect().await;
        let mut bystander = world.session(&client, "[prompt]\nno_consent_agent = \"queue\"\n").await;
        bystander.ask(1000, "/srv/b").await;

        let mut supervisor = world.session(&client, "").await;
        supervisor.ask(1, "/srv/x").await;
        supervisor.ask(1, "/srv/other").await;
        is_ended(&world, supervisor, "the id of a request twice").await;

        let mut supervisor = world.session(&client, "").await;
        supervisor.ask(2, "/srv/x").await;
        world.until("a request", |core| waiting(core) == 2).await;
        client.decide(2, "deny").await.unwrap();
        supervisor.decided().await;
        supervisor.ask(2, "/srv/x").await;
        is_ended(&world, supervisor, "the id of a decided request").await;

        let mut supervisor = world.session(&client, "").await;
        let own = std::mem::replace(&mut supervisor.session, bystander.session.clone());
        supervisor.ask(3, "/srv/x").await;
        supervisor.session = own;
        is_ended(&world, supervisor, "a request in another session's name").await;

        let mut supervisor = world.session(&client, "").await;
        supervisor.stream.write_all(&u32::try_from(MAX_FRAME).unwrap().to_le_bytes()).await.unwrap();
        is_ended(&world, supervisor, "a giant frame").await;

        let mut supervisor = world.session(&client, "").await;
        supervisor.stream.write_all(&[4, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]).await.unwrap();
        is_ended(&world, supervisor, "garbage").await;

        let supervisor = world.session(&client, "").await;
        let file = tempfile::tempfile().unwrap();
        let fds = [file.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(&fds)));
        sendmsg(&supervisor.stream, &[IoSlice::new(&[1])], &mut ancillary, SendFlags::empty()).unwrap();
        is_ended(&world, supervisor, "a descriptor").await;

        let mut supervisor = world.session(&client, "").await;
        for number in 1..=1100 {
            let argv = vec![Untrusted::new("x")];
            let call = FromSession::CallStarted { call: CallId(number), pid: 7, program: "/bin/t".into(), argv };
            if supervisor.stream.write_all(&gated::common::wire::encode(&call).unwrap()).await.is_err() {
                break;
            }
        }
        is_ended(&world, supervisor, "calls without end").await;

        client.decide(1000, "once").await.unwrap();
        assert_eq!(bystander.decided().await.outcome, Outcome::Approved);
        assert!(world.audited().iter().all(|line| !line.starts_with("approved /srv/x")), "{:?}", world.audited());
    });
}

#[test]
fn an_answer_reaches_the_session_that_asked_and_no_other() {
    run(async {
        let bus = PrivateBus::start();
        let world = World::start(bus.address()).await;
        let client = world.connect().await;
        let queue = "[prompt]\nno_consent_agent = \"queue\"\n";
        let mut one = world.session(&client, queue).await;
        let mut two = world.session(&client, queue).await;
        one.ask(1, "/srv/x").await;
        two.ask(2, "/srv/x").await;
        world.until("both", |core| waiting(core) == 2).await;
        client.decide(1, "session").await.unwrap();
        assert_eq!(one.decided().await.outcome, Outcome::Approved);
        assert_eq!(waiting(&world.core), 1, "the same object in the other session waits on");
        // One supervisor cannot take back what the other asked.
        one.send(FromSession::Cancel(RequestId(2))).await;
        one.ask(3, "/srv/y").await;
        world.until("its own", |core| waiting(core) == 2).await;
        client.decide(2, "deny").await.unwrap();
        assert_eq!(two.decided().await.outcome, Outcome::Denied);
        drop(two);
        world.until("the end of one", |core| core.sessions.borrow().len() == 1).await;
        client.decide(3, "deny").await.unwrap();
    });
}

/// The words of a big command line.
fn big() -> Vec<Untrusted> {
    (0..64).map(|_| Untrusted::new(vec![b'x'; 1000])).collect()
}

#[test]
fn what_a_session_makes_long_does_not_cost_the_daemon_its_bus() {
    run(async {
        let bus = PrivateBus::start();
        let world = World::start(bus.address()).await;
        let client = world.connect().await;
        let mut supervisors = Vec::new();
        for session in 0..2 {
            let mut supervisor = world.session(&client, "[prompt]\nno_consent_agent = \"queue\"\n").await;
            for number in 0..64 {
                let mut request = supervisor.request(session * 100 + number + 1, &format!("/srv/{number}"));
                request.who.argv = big();
                supervisor.send(FromSession::Ask(Box::new(request))).await;
            }
            supervisors.push(supervisor);
        }
        world.until("all of it", |core| waiting(core) == 128).await;
        let managed = client.managed().await.unwrap();
        assert!(managed.len() > 10 && managed.len() < 128, "{}", managed.len());
        // Each can be looked at still.
        client.waits_at(128).await;
    });
}

#[test]
fn one_sessions_flood_does_not_keep_another_from_its_answer() {
    run(async {
        let bus = PrivateBus::start();
        let world = World::start(bus.address()).await;
        let client = world.connect().await;
        let mut agent = client.agent(HashMap::new()).await;
        let mut hostile = world.session(&client, "").await;
        let mut quiet = world.session(&client, "").await;
        let session = hostile.session.clone();
        // A thousand that wait at once, and then as many as go through.
        let flood = tokio::task::spawn_local(async move {
            for number in 1_000_000.. {
                let request = hostile.request(number, &format!("/srv/{number}"));
                let message = gated::common::wire::encode(&FromSession::Ask(Box::new(request))).unwrap();
                if hostile.stream.write_all(&message).await.is_err() {
                    return;
                }
                if number % 64 == 0 {
                    // Whatever it is told, so that it is never the one who waits.
                    let mut bytes = [0; 65536];
                    while hostile.stream.try_read(&mut bytes).is_ok_and(|bytes| bytes > 0) {}
                    tokio::task::yield_now().await;
                }
            }
        });
        world.until("the flood", |core| waiting(core) >= 60).await;
        let mut slowest = std::time::Duration::ZERO;
        for number in 1..=20 {
            let begun = Instant::now();
            quiet.ask(number, &format!("/srv/{number}")).await;
            let reply = loop {
                match agent.next().await {
                    Told::Ask(asked, reply) if asked == number => break reply,
                    _ => {}
                }
            };
            reply.send(said("once")).unwrap();
            assert_eq!(quiet.decided().await.outcome, Outcome::Approved);
            slowest = slowest.max(begun.elapsed());
        }
        flood.abort();
        // The flood would go on for longer than any test; what it costs the others is a benchmark's.
        assert!(slowest < LIMIT, "{slowest:?}");
        client.stop(&session).await.unwrap();
    });
}

#[test]
fn what_ends_with_a_session_is_answered_too() {
    run(async {
        let bus = PrivateBus::start();
        let world = World::start(bus.address()).await;
        let client = world.connect().await;
        let mut supervisor = world.session(&client, "[prompt]\nno_consent_agent = \"queue\"\n").await;
        supervisor.ask(1, "/srv/x").await;
        world.until("a request", |core| waiting(core) == 1).await;
        drop(supervisor);
        world.until("the end", |core| core.sessions.borrow().is_empty()).await;
        assert_eq!(refusal(client.decide(1, "session").await), "AlreadyDecided");
        assert_eq!(world.audited(), ["cancelled /srv/x broker"]);
        let width = Answer::Session(Width::Exact);
        let caller = gated::daemon::orders::Caller {
            unit: None,
            uid: 0,
            sender: ":1.1".into(),
            is_inside: true,
            elevated: Default::default(),
        };
        // Root itself, from inside a session.
        assert!(world.core.decide(&caller, RequestId(1), width).await.is_err());
        assert!(world.core.stop(&caller, &SessionId("00000000".into())).is_err());
    });
}

#[test]
fn a_session_that_does_not_come_to_be_leaves_nothing() {
    run(async {
        let bus = PrivateBus::start();
        let world = World::start(bus.address()).await;
        let client = world.connect().await;
        let body = (opening(),);
        // Cut off while it builds: the place is free again, and nothing is left of it.
        let (refused, ()) = tokio::join!(client.manager("OpenSession", &body), async {
            let supervisor = world.supervisor().await;
            let mut stream = supervisor.stream.into_std().unwrap();
            stream.write_all(&[9, 9]).unwrap();
        });
        assert_eq!(refusal(refused), "Engine");
        assert_eq!(std::fs::read_dir(world.place.path().join("sessions")).unwrap().count(), 0);
    });
}
