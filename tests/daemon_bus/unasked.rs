//! Answers that nobody asked for, and wide ones: what they may be under the ceiling and in a rule, who gives them, and how many.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use gated::common::decision::{Effect, Lifetime, Outcome};
use gated::common::id::GrantId;
use gated::common::moment::wall_now;
use gated::common::path::RawPath;
use gated::common::scope::Pattern;
use gated::daemon::store::{Holder, MOST_OF_A_HOLDER, MOST_OF_A_USER, MOST_REVOKED, Stored};
use gated::daemon::view::Held;
use gated::policy::{Grant, Scope};
use zbus::Variant;

use super::foreign::{OWNER, user};
use super::lasting::{add, for_own, paths};
use super::support::system_bus::Bus;
use super::world::*;

const LASTING: &str = "[grants]\npersistent = true\n";

async fn ceiling(world: &World, text: &str) {
    world.policy("ceiling.toml", &format!("schema = 1\n{text}"));
    world.connect().await.manager("Reload", &(Options::new(),)).await.unwrap();
}

fn for_session(supervisor: &Supervisor) -> Options<'static> {
    HashMap::from([("session", Variant::from(supervisor.session.0.clone())), ("term", Variant::from("session"))])
}

fn grant(number: u64) -> Grant {
    let object = RawPath::new(format!("/f/{number}").into_bytes());
    Grant {
        id: GrantId(number),
        effect: Effect::Allow,
        access: gated::common::access::Access::Write,
        scope: Scope::Paths(Pattern::literal(&object)),
        object,
        lifetime: Lifetime::Persistent,
        call: None,
        until: None,
        authenticated: false,
        group: None,
        by: "t".into(),
        origin: None,
    }
}

fn scope(grant: &Grant) -> String {
    grant.scope()
}

#[test]
fn an_unasked_answer_in_a_session_that_runs_is_within_the_newest_ceiling() {
    run(async {
        let bus = PrivateBus::start();
        let world = World::start(bus.address()).await;
        let client = world.connect().await;
        let mut session = world.session(&client, LASTING).await;
        ceiling(&world, "[[floor]]\naccess = [\"write\"]\npath = [\"/srv/no/**\"]\nlevel = \"deny\"\n").await;
        for pattern in ["/srv/no/**", "/srv/**", "/srv/no/x", "/srv/*", "/srv/no"] {
            let refused = add(&client, "allow", "write", paths(pattern), for_session(&session)).await;
            assert_eq!(refusal(refused), "Engine", "{pattern}");
        }
        add(&client, "allow", "write", paths("/srv/yes/**"), for_session(&session)).await.unwrap();
        assert_eq!(scope(&session.given().await), "/srv/yes/**");
        // New sessions hold the floor by themselves, so that all around it may be allowed; this one does not get it.
        add(&client, "allow", "write", paths("/srv/**"), for_own(LASTING, "always")).await.unwrap();
        add(&client, "allow", "write", paths("/srv/other/**"), for_own(LASTING, "always")).await.unwrap();
        assert_eq!(scope(&session.given().await), "/srv/other/**");
        assert_eq!(world.session_with_grants(&client, LASTING).await.1.len(), 2);
        // A no needs no leave.
        add(&client, "deny", "write", paths("/srv/no/**"), for_session(&session)).await.unwrap();
        assert_eq!(session.given().await.effect, Effect::Deny);
        ceiling(&world, "[users]\nlifetimes = [\"attempt\", \"call\"]\n").await;
        let refused = add(&client, "allow", "write", paths("/srv/late/**"), for_session(&session)).await;
        assert_eq!(refusal(refused), "Engine");
    });
}

#[test]
fn a_wide_answer_that_reaches_into_the_newest_floors_is_for_the_attempt_alone() {
    run(async {
        let bus = PrivateBus::start();
        let world = World::start(bus.address()).await;
        let client = world.connect().await;
        let mut session = world.session(&client, "").await;
        ceiling(&world, "[[floor]]\naccess = [\"write\"]\npath = [\"/srv/data/deep/**\"]\nlevel = \"deny\"\n").await;
        let tree = HashMap::from([("width", Variant::from("tree"))]);
        for (id, object, scope, kept) in [
            (1, "/srv/data/a", &tree, None),
            (2, "/srv/data/b", &Options::new(), Some("/srv/data/b")),
            (3, "/srv/else/a", &tree, Some("/srv/else/**")),
        ] {
            session.ask(id, object).await;
            world.until("a request", |core| waiting(core) == 1).await;
            client.manager("Decide", &(format!("{id:032x}"), "session", scope)).await.unwrap();
            let decision = session.decided().await;
            assert_eq!(decision.outcome, Outcome::Approved, "{object}");
            let grant = decision.grant.map(|bytes| Grant::decode(&bytes).unwrap().scope());
            assert_eq!(grant.as_deref(), kept, "{object}");
        }
    });
}

#[test]
fn a_ceiling_that_was_widened_widens_no_session_that_runs() {
    run(async {
        let bus = PrivateBus::start();
        let world = World::start(bus.address()).await;
        let client = world.connect().await;
        ceiling(&world, "[users]\nlifetimes = [\"attempt\", \"call\"]\n").await;
        let mut session = world.session(&client, "").await;
        let refused = add(&client, "allow", "write", paths("/srv/x"), for_session(&session)).await;
        assert_eq!(refusal(refused), "Engine", "for a session is longer than for a call");
        ceiling(&world, "").await;
        session.ask(1, "/srv/x").await;
        world.until("a request", |core| waiting(core) == 1).await;
        client.decide(1, "session").await.unwrap();
        assert_eq!(session.granted().await.lifetime, Lifetime::Call);
    });
}

#[test]
fn a_rule_limits_for_how_long_an_unasked_answer_holds_within_its_session() {
    run(async {
        let bus = PrivateBus::start();
        let world = World::start(bus.address()).await;
        let client = world.connect().await;
        let rule = "[[rule]]\nid = \"short\"\naccess = [\"write\"]\npath = [\"/srv/short/**\"]\nlevel = \"ask\"\n\
                    remember = \"1h\"\n";
        let mut session = world.session(&client, rule).await;
        for pattern in ["/srv/short/**", "/srv/short/x", "/srv/**"] {
            add(&client, "allow", "write", paths(pattern), for_session(&session)).await.unwrap();
            let given = session.given().await;
            assert!(given.until.is_some_and(|until| until.wall <= wall_now() + 3600), "{pattern}: {given:?}");
        }
        add(&client, "allow", "write", paths("/srv/long/**"), for_session(&session)).await.unwrap();
        assert_eq!(session.given().await.until, None);
    });
}

#[test]
fn a_limit_on_time_counts_from_when_an_answer_was_given() {
    run(async {
        let bus = PrivateBus::start();
        let world = World::start(bus.address()).await;
        let client = world.connect().await;
        let limited = "[grants]\nmax_for = \"1h\"\n";
        let first = world.session(&client, limited).await;
        let holder = world.core.sessions.borrow()[&first.session].holder();
        let stored = |number: u64, minutes: u64| {
            let until = gated::common::moment::Expiry::after(Duration::from_secs(7 * 3600));
            let grant = Grant { lifetime: Lifetime::Until, until: Some(until), ..grant(number) };
            let mut stored = Stored::new(grant, holder.clone(), "t".into());
            stored.given -= minutes * 60 * 1_000_000;
            stored
        };
        world.core.setting.store.add(vec![stored(1, 50), stored(2, 61)]).await.unwrap();
        let (_session, grants) = world.session_with_grants(&client, limited).await;
        let [given] = grants.as_slice() else { panic!("the other's time is over: {grants:?}") };
        assert_eq!(given.id, GrantId(1));
        assert!(given.until.is_some_and(|until| until.wall <= wall_now() + 601), "{given:?}");
    });
}

#[test]
fn a_home_is_a_home_whatever_a_caller_calls_it() {
    run(async {
        let bus = PrivateBus::start();
        let world = World::start(bus.address()).await;
        let client = world.connect().await;
        let home = nix::unistd::User::from_uid(nix::unistd::geteuid()).unwrap().unwrap().dir;
        let pattern: &'static str = format!("{}/**", home.display()).leak();
        for called in ["/xyz", "/srv/elsewhere"] {
            let mut options = for_own(LASTING, "always");
            options.insert("home", Variant::from(called.as_bytes().to_vec()));
            assert_eq!(refusal(add(&client, "allow", "write", paths(pattern), options).await), "Policy", "{called}");
        }
    });
}

#[test]
fn who_may_not_run_sessions_gives_no_answers() {
    run(async {
        let bus = Bus::start();
        let world = World::start(&bus.address).await;
        let (owner, _owner) = user(&bus, OWNER).await;
        add(&owner, "allow", "write", paths("/srv/x/**"), for_own(LASTING, "always")).await.unwrap();
        ceiling(&world, "[users]\nmay_run = [\"somebody-else\"]\n").await;
        for effect in ["allow", "deny"] {
            let refused = add(&owner, effect, "write", paths("/srv/y/**"), for_own(LASTING, "always")).await;
            assert_eq!(refusal(refused), "NotPermitted");
        }
    });
}

#[test]
fn a_user_has_so_many_answers_under_all_profiles_and_so_many_that_are_over() {
    run(async {
        let bus = PrivateBus::start();
        let world = World::start(bus.address()).await;
        let client = world.connect().await;
        let (store, uid) = (&world.core.setting.store, rustix::process::geteuid().as_raw());
        let mut number = 0;
        for profile in 0..MOST_OF_A_USER / MOST_OF_A_HOLDER {
            let holder = Holder { uid, profile: format!("/x/{profile}.toml") };
            let full = (0..MOST_OF_A_HOLDER).map(|_| {
                number += 1;
                Stored::new(grant(number), holder.clone(), "t".into())
            });
            store.add(full.collect()).await.unwrap();
        }
        let full = add(&client, "allow", "write", paths("/srv/x"), for_own(LASTING, "always")).await;
        assert_eq!(refusal(full), "TooMany");
        let gone: Vec<GrantId> = (1..=MOST_REVOKED as u64 + 10).map(GrantId).collect();
        store.revoke(&gone[..20], "t").await.unwrap();
        store.revoke(&gone[20..], "t").await.unwrap();
        let rows = store.rows(Some(uid)).await.unwrap();
        let revoked: Vec<GrantId> = rows.iter().filter(|row| row.revoked.is_some()).map(|row| row.id()).collect();
        assert_eq!(revoked.len(), MOST_REVOKED);
        assert!(revoked.contains(&gone[30]), "the oldest go first");
        assert_eq!(rows.len(), number as usize - 10);
        assert!(store.row(GrantId(number)).await.unwrap().is_some());
        add(&client, "allow", "write", paths("/srv/x"), for_own(LASTING, "always")).await.unwrap();
    });
}

#[test]
fn a_session_has_room_for_so_many_unasked_answers() {
    run(async {
        let bus = PrivateBus::start();
        let world = World::start(bus.address()).await;
        let client = world.connect().await;
        let session = world.session(&client, "").await;
        let live = world.core.sessions.borrow()[&session.session].clone();
        let held = |number| Held { grant: Grant { lifetime: Lifetime::Session, ..grant(number) }, given: 0 };
        live.view.grants.borrow_mut().extend((0..gated::daemon::answers::MOST_OF_A_SESSION as u64).map(held));
        let refused = add(&client, "allow", "write", paths("/srv/x"), for_session(&session)).await;
        assert_eq!(refusal(refused), "TooMany");
    });
}

#[test]
fn a_long_profile_takes_nobody_elses_time_and_one_user_waits_for_itself() {
    run(async {
        let bus = PrivateBus::start();
        let world = World::start(bus.address()).await;
        let client = world.connect().await;
        let mut long = LASTING.to_owned();
        for number in 0..1200 {
            long += &format!(
                "[[rule]]\nid = \"r{number}\"\naccess = [\"write\"]\npath = [\"/q/{number}/**\"]\nlevel = \"ask\"\n"
            );
        }
        // The daemon's core is on this thread, so that whatever it does for long is seen here, and so is, by chance and not each
        // time, what else the machine does.
        let mut times = Vec::new();
        for _ in 0..5 {
            let (mut longest, start) = (Duration::ZERO, Instant::now());
            let adding = add(&client, "allow", "write", paths("/srv/x"), for_own(&long, "always"));
            tokio::pin!(adding);
            let added = loop {
                let before = Instant::now();
                let done = tokio::time::timeout(Duration::from_millis(1), &mut adding).await;
                longest = longest.max(before.elapsed());
                if let Ok(added) = done {
                    break added;
                }
            };
            added.unwrap();
            times.push((longest, start.elapsed()));
        }
        assert!(times.iter().any(|(longest, whole)| *longest < *whole / 2), "{times:?}");
        let all = (0..40).map(|_| add(&client, "allow", "write", paths("/srv/x"), for_own(&long, "always")));
        let (done, refused): (Vec<_>, Vec<_>) =
            futures_util::future::join_all(all).await.into_iter().partition(Result::is_ok);
        assert!(!done.is_empty() && !refused.is_empty(), "{} {}", done.len(), refused.len());
        assert!(refused.into_iter().all(|one| refusal(one) == "TooMany"));
    });
}

#[test]
fn a_ceiling_that_is_read_while_a_session_is_built_limits_its_answers() {
    run(async {
        let bus = PrivateBus::start();
        let world = World::start(bus.address()).await;
        let client = world.connect().await;
        let body = (opening(),);
        let building = async {
            let mut supervisor = world.supervisor().await;
            ceiling(&world, "[users]\nlifetimes = [\"attempt\", \"call\"]\n").await;
            supervisor.build().await;
            supervisor
        };
        let (opened, mut session) = tokio::join!(client.manager("OpenSession", &body), building);
        opened.unwrap();
        session.ask(1, "/srv/x").await;
        world.until("a request", |core| waiting(core) == 1).await;
        client.decide(1, "session").await.unwrap();
        assert_eq!(session.granted().await.lifetime, Lifetime::Call);
    });
}
