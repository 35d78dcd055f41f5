//! What keys do to the requests that wait.

use gated::common::decision::{Lifetime, Outcome};
use gated::common::id::RequestId;
use gated::common::wire::FromSession;
use gated::policy::Grant;

use crate::seat::Seat;
use crate::world::{Client, PrivateBus, Supervisor, World, run};

pub const PROFILE: &str = "[prompt]\ntimeout = \"900s\"\nmax_per_minute = 600\n";

/// A daemon with one session, and somebody at a terminal.
async fn house(bus: &PrivateBus) -> (World, Supervisor, Seat) {
    let world = World::start(bus.address()).await;
    let client = world.connect().await;
    let supervisor = world.session(&client, PROFILE).await;
    let seat = Seat::new(bus.address(), 80, 24, &[]).await;
    (world, supervisor, seat)
}

#[test]
fn keys_deny_and_allow_what_is_selected() {
    run(async {
        let bus = PrivateBus::start();
        let (world, mut supervisor, seat) = house(&bus).await;
        seat.tui().await;
        seat.shows("Nothing waits").await;
        supervisor.ask(1, "/srv/a/x").await;
        seat.shows("/srv/a/x").await;
        seat.answer("d").await;
        let decision = supervisor.decided().await;
        assert_eq!((decision.request, decision.outcome), (RequestId(1), Outcome::Denied));
        seat.shows("Denied: tool wants to create /srv/a/x").await;

        supervisor.ask(2, "/srv/b/x").await;
        seat.shows("/srv/b/x").await;
        seat.answer("o").await;
        let decision = supervisor.decided().await;
        assert_eq!((decision.request, decision.outcome), (RequestId(2), Outcome::Approved));
        assert!(decision.by.starts_with("tui:"), "{}", decision.by);
        let grant = Grant::decode(&decision.grant.unwrap()).unwrap();
        assert_eq!((grant.lifetime, grant.scope().as_str()), (Lifetime::Call, "/srv/b/x"));

        supervisor.ask(3, "/srv/c/x").await;
        seat.shows("/srv/c/x").await;
        seat.answer("s").await;
        let grant = supervisor.granted().await;
        assert_eq!((grant.lifetime, grant.scope().as_str()), (Lifetime::Session, "/srv/c/x"));

        // Wider, wider, narrower.
        supervisor.ask(4, "/srv/d/x").await;
        seat.shows("/srv/d/x").await;
        seat.press(&["w"]).await;
        seat.shows("> everything directly in its directory: /srv/d/*").await;
        seat.press(&["w"]).await;
        seat.shows("> its directory and everything below: /srv/d/**").await;
        seat.press(&["W"]).await;
        seat.shows("> everything directly in its directory: /srv/d/*").await;
        seat.answer("s").await;
        assert_eq!(supervisor.granted().await.scope(), "/srv/d/*");

        seat.shows("Nothing waits").await;
        assert!(world.audited().iter().filter(|line| line.contains("tui:")).count() >= 4, "{:?}", world.audited());
        seat.press(&["q"]).await;
        seat.until("the shell", |screen| !screen.contains("Queue") && screen.trim_end().ends_with('$')).await;
    });
}

/// What waits already when somebody sits down is there, and its end is seen.
#[test]
fn what_waited_before_is_answered_in_any_order_and_goes_when_it_is_over() {
    run(async {
        let bus = PrivateBus::start();
        let (world, mut supervisor, seat) = house(&bus).await;
        let _other = somebody_else(&world).await;
        for (id, name) in [(1, "first"), (2, "second"), (3, "third")] {
            supervisor.ask(id, &format!("/srv/{name}")).await;
        }
        world.until("three requests", |core| crate::world::waiting(core) == 3).await;
        seat.tui().await;
        seat.until("all of them", |screen| ["first", "second", "third"].iter().all(|name| screen.contains(name))).await;
        // The last one first.
        seat.press(&["j"]).await;
        seat.press(&["j"]).await;
        seat.shows("object     /srv/third").await;
        seat.answer("o").await;
        assert_eq!(supervisor.decided().await.request, RequestId(3));
        // It goes elsewhere by itself: to the one before.
        seat.shows("object     /srv/second").await;
        supervisor.send(FromSession::Cancel(RequestId(1))).await;
        seat.until("the first gone", |screen| !screen.contains("/srv/first")).await;
        seat.answer("d").await;
        assert_eq!(supervisor.decided().await.request, RequestId(2));
    });
}

/// Somebody else who is asked, and says nothing. Without anybody, nothing would wait for long; a script has nothing gathered
/// for it, so that each request is one of its own, in the order of arrival.
pub async fn somebody_else(world: &World) -> (Client, crate::world::Agent) {
    let client = world.connect().await;
    let agent = client.agent(std::collections::HashMap::from([("kind", "script".into())])).await;
    (client, agent)
}

/// A request is withdrawn at the moment of the key press: the next one, which comes under the cursor by itself, is not answered.
#[test]
fn a_key_that_was_meant_for_a_withdrawn_request_answers_no_other() {
    run(async {
        let bus = PrivateBus::start();
        let (world, mut supervisor, seat) = house(&bus).await;
        let _other = somebody_else(&world).await;
        supervisor.ask(1, "/srv/good").await;
        supervisor.ask(2, "/srv/evil").await;
        seat.tui().await;
        seat.shows("object     /srv/good").await;
        for round in 0..5 {
            let (good, evil) = (10 + round * 2, 11 + round * 2);
            // The one that is selected goes, and a key comes right then.
            supervisor.send(FromSession::Cancel(RequestId(if round == 0 { 1 } else { good - 2 }))).await;
            let evil_before = if round == 0 { 2 } else { evil - 2 };
            seat.until("the other one", |screen| screen.contains("object     /srv/evil")).await;
            seat.press(&["o"]).await;
            seat.shows("Ignored: this request had only just come under the cursor").await;
            supervisor.send(FromSession::Cancel(RequestId(evil_before))).await;
            seat.shows("Nothing waits").await;
            supervisor.ask(good, "/srv/good").await;
            seat.shows("object     /srv/good").await;
            supervisor.ask(evil, "/srv/evil").await;
            seat.shows("create /srv/evil").await;
        }
        assert!(!world.audited().iter().any(|line| line.starts_with("approved")), "{:?}", world.audited());
        // After that it can be answered.
        seat.press(&["j"]).await;
        seat.shows("object     /srv/evil").await;
        seat.answer("d").await;
        assert_eq!(supervisor.decided().await.outcome, Outcome::Denied);
    });
}

#[test]
fn what_is_pasted_answers_nothing() {
    run(async {
        let bus = PrivateBus::start();
        let (world, mut supervisor, seat) = house(&bus).await;
        seat.tui().await;
        supervisor.ask(1, "/srv/x").await;
        seat.shows("object     /srv/x").await;
        tokio::time::sleep(gated::ctl::control::tui::model::GUARD * 2).await;
        seat.tmux(&["send-keys", "-t", ":", "-l", "oso"]).await;
        seat.shows("Ignored").await;
        assert!(world.audited().is_empty(), "{:?}", world.audited());
        seat.answer("s").await;
        assert_eq!(supervisor.granted().await.object.as_bytes(), b"/srv/x");
    });
}

/// A thousand requests of sixteen sessions: each key does at once what it means.
#[test]
fn a_thousand_requests_are_walked_through_and_answered() {
    run(async {
        let bus = PrivateBus::start();
        let world = World::start(bus.address()).await;
        let client = world.connect().await;
        let _other = somebody_else(&world).await;
        let mut supervisors = Vec::new();
        for _ in 0..16 {
            supervisors.push(world.session(&client, PROFILE).await);
        }
        let mut id = 1000;
        for (number, supervisor) in supervisors.iter_mut().enumerate() {
            for file in 0..63 {
                id += 1;
                supervisor.ask(id, &format!("/srv/{number}/{file}")).await;
            }
        }
        world.until("a thousand", |core| crate::world::waiting(core) == 16 * 63).await;
        let seat = Seat::new(bus.address(), 80, 24, &[]).await;
        seat.tui().await;
        seat.shows("[Queue 1008]").await;
        seat.press(&["G"]).await;
        seat.press(&["/"]).await;
        seat.tmux(&["send-keys", "-t", ":", "-l", "/srv/7/42"]).await;
        seat.press(&["Enter"]).await;
        seat.shows("object     /srv/7/42").await;
        seat.answer("o").await;
        let decision = supervisors[7].decided().await;
        assert_eq!((decision.request.0, decision.outcome), (1000 + 7 * 63 + 42 + 1, Outcome::Approved));
        seat.press(&["Escape"]).await;
        seat.shows("[Queue 1007]").await;
    });
}
