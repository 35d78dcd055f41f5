//! What is counted, for whom, and the file that says it.

use std::collections::HashMap;
use std::os::unix::fs::PermissionsExt;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gated::common::access::{Access, Level};
use gated::common::bus::{MANAGER_PATH, STATISTICS_INTERFACE};
use gated::common::decision::Outcome;
use gated::common::id::CallId;
use gated::common::request::{Operation, RuleRef};
use gated::common::wire::{FromSession, Record, ToSession};
use gated::daemon::metrics;
use zbus::{OwnedVariant, Variant};

use super::support::openmetrics::{self, Metrics};
use super::support::system_bus::Bus;
use super::world::*;

type Fields = HashMap<String, OwnedVariant>;

async fn get(client: &Client, options: Options<'_>) -> zbus::Result<Fields> {
    let got = client.call(MANAGER_PATH, STATISTICS_INTERFACE, "Get", &(options,)).await?;
    got.body().deserialize()
}

fn number(fields: &Fields, key: &str) -> u64 {
    u64::try_from(fields[key].try_clone().unwrap()).unwrap()
}

fn record(number: u64, outcome: Outcome) -> FromSession {
    FromSession::Record(Box::new(Record {
        number,
        call: CallId(1),
        who: who(),
        access: Access::Read,
        operation: Operation::List,
        object: "/srv/\"label\"\n".into(),
        other: None,
        execution: None,
        destination: None,
        service: None,
        level: Level::Deny,
        rule: RuleRef { profile: "p".into(), id: "r".into(), file: "p.toml".into(), line: 1, reason: None },
        outcome,
        by: "policy".into(),
        grant: None,
    }))
}

/// A yes, a no, one without an answer, one that another answer covers, and two that no one was asked for.
async fn decide(world: &World, client: &Client) -> Supervisor {
    let mut supervisor = world.session(client, "[prompt]\ntimeout = \"1s\"\n").await;
    let _agent = client.agent(HashMap::from([("kind", Variant::from("desktop"))])).await;
    for id in [1, 2, 3] {
        supervisor.ask(id, &format!("/srv/{id}")).await;
        world.until("it waits", |core| waiting(core) == 1).await;
        match id {
            1 => drop(client.decide(id, "session").await.unwrap()),
            2 => drop(client.decide(id, "deny").await.unwrap()),
            _ => {}
        }
        supervisor.decided().await;
    }
    for (number, outcome) in [(1, Outcome::NotPermitted), (2, Outcome::Granted)] {
        supervisor.send(record(number, outcome)).await;
        assert!(matches!(supervisor.message().await, ToSession::Recorded(_, true)));
    }
    supervisor
}

#[test]
fn everything_that_is_decided_is_counted_once() {
    run(async {
        let bus = PrivateBus::start();
        let world = World::start(bus.address()).await;
        let client = world.connect().await;
        let mut supervisor = decide(&world, &client).await;
        supervisor.ask(9, "/srv/9").await;
        world.until("it waits", |core| waiting(core) == 1).await;
        let fields = get(&client, Options::new()).await.unwrap();
        let (requests, decisions) = ("requests", "decisions");
        let mut told = Vec::<(String, String, u64)>::try_from(fields[requests].try_clone().unwrap()).unwrap();
        told.sort();
        let expected = [
            ("read", "granted", 1),
            ("read", "not_permitted", 1),
            ("write", "approved", 1),
            ("write", "denied", 1),
            ("write", "timeout", 1),
        ];
        assert_eq!(told, expected.map(|(access, result, count)| (access.to_owned(), result.to_owned(), count)));
        let decisions = Vec::<(String, u64)>::try_from(fields[decisions].try_clone().unwrap()).unwrap();
        let decisions: HashMap<&str, u64> = decisions.iter().map(|(source, count)| (source.as_str(), *count)).collect();
        assert_eq!(
            decisions,
            HashMap::from([("rule", 1), ("grant", 1), ("person", 2), ("timeout", 1), ("broker", 0), ("cancelled", 0)])
        );
        assert_eq!(
            ["denials", "pending", "sessions", "sessions-started", "agents"].map(|key| number(&fields, key)),
            [3, 1, 1, 1, 1]
        );
        let (waited, micros) = <(u64, u64)>::try_from(fields["waited"].try_clone().unwrap()).unwrap();
        assert!(waited == 3 && micros >= 1_000_000, "{waited} {micros}");
        client.decide(9, "deny").await.unwrap();
        supervisor.decided().await;
    });
}

#[test]
fn the_file_says_the_same_and_is_well_formed() {
    run(async {
        let bus = PrivateBus::start();
        let world = World::start(bus.address()).await;
        let client = world.connect().await;
        let read = |world: &World| -> Metrics {
            let text = std::fs::read_to_string(world.place.path().join("metrics/gated.prom")).unwrap();
            // No name of a tool's, a user's or a profile's is in it.
            assert!(!text.contains("srv") && !text.contains("root") && !text.contains("own"), "{text}");
            openmetrics::parse(&text)
        };
        let file = world.place.path().join("metrics/gated.prom");
        assert_eq!(refusal(write(&client).await), "InvalidArgument");
        tokio::task::spawn_local(metrics::keep(Rc::clone(&world.core), file.clone()));
        world.until("the file", |_| file.exists()).await;
        let before = read(&world);
        assert_eq!(before.sum("gated_requests_total"), 0.0);
        let samples = before.len();

        let _supervisor = decide(&world, &client).await;
        world.log.is_full.store(true, Ordering::Relaxed);
        let mut other = world.session(&client, "").await;
        other.ask(7, "/srv/7").await;
        world.until("it waits", |core| waiting(core) == 1).await;
        let _ = client.decide(7, "once").await;
        assert_eq!(other.decided().await.outcome, Outcome::NotPermitted);
        write(&client).await.unwrap();
        let now = read(&world);
        assert_eq!(now.len(), samples, "no series comes or goes with what is done");
        assert_eq!(now.sum("gated_requests_total"), 6.0);
        assert_eq!(now.sum("gated_decisions_total"), 6.0);
        assert_eq!(now.get("gated_requests_total", &[("access", "write"), ("result", "timeout")]), 1.0);
        assert_eq!(now.get("gated_denials_total", &[("access", "write")]), 3.0);
        assert_eq!(now.get("gated_decisions_total", &[("source", "person")]), 2.0);
        assert_eq!(now.get("gated_decisions_total", &[("source", "broker")]), 1.0);
        assert_eq!(now.get("gated_wait_seconds_count", &[]), 4.0);
        assert_eq!(now.get("gated_wait_seconds_bucket", &[("le", "0.5")]), 3.0);
        assert_eq!(now.get("gated_grants", &[("lifetime", "session")]), 1.0);
        assert_eq!(now.get("gated_sessions", &[]), 2.0);
        assert_eq!(now.get("gated_sessions_started_total", &[]), 2.0);
        assert!(now.get("gated_audit_failures_total", &[]) >= 1.0);
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o7777, 0o644);
        assert_eq!(std::fs::read_dir(file.parent().unwrap()).unwrap().count(), 1, "nothing else stays there");
    });
}

async fn write(client: &Client) -> zbus::Result<zbus::Message> {
    client.call(MANAGER_PATH, STATISTICS_INTERFACE, "Write", &(Options::new(),)).await
}

#[test]
fn a_reader_never_sees_half_a_file() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("gated.prom");
    let text = |fill: usize| metrics::text(&Default::default()).repeat(fill);
    // Of very different sizes, so that a mixture would show.
    let texts = [text(1), text(40)];
    metrics::write(&file, &texts[0]).unwrap();
    let done = Arc::new(AtomicBool::new(false));
    let (path, is_done, expected) = (file.clone(), Arc::clone(&done), texts.clone());
    let reader = std::thread::spawn(move || {
        let mut seen = [0, 0];
        while !is_done.load(Ordering::Relaxed) || seen.contains(&0) {
            let read = std::fs::read_to_string(&path).unwrap();
            let which = expected.iter().position(|text| *text == read).expect("one of them, whole");
            seen[which] += 1;
        }
        seen
    });
    for at in 0..2000 {
        metrics::write(&file, &texts[at % 2]).unwrap();
    }
    done.store(true, Ordering::Relaxed);
    // Until both were seen.
    let mut at = 0;
    while !reader.is_finished() {
        metrics::write(&file, &texts[at % 2]).unwrap();
        at += 1;
    }
    assert!(reader.join().unwrap().iter().all(|count| *count > 0));

    // What somebody put where it writes first is not followed.
    let victim = place.path().join("victim");
    std::fs::write(&victim, "mine").unwrap();
    std::os::unix::fs::symlink(&victim, place.path().join(".gated.prom.new")).unwrap();
    metrics::write(&file, "x").unwrap();
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "mine");
    assert!(!file.is_symlink());
}

#[test]
fn each_user_is_told_of_their_own_and_only_who_manages_sessions_of_all() {
    run(async {
        let bus = Bus::start();
        let world = World::start(&bus.address).await;
        let root = world.connect().await;
        let mut other = bus.connect_as(&["setpriv", "--reuid=nobody", "--regid=nogroup", "--init-groups"], "").await;
        let stranger = Client(other.speak(65534).await);
        let _supervisor = decide(&world, &root).await;
        let own = get(&stranger, Options::new()).await.unwrap();
        assert_eq!(["denials", "sessions", "sessions-started", "agents"].map(|key| number(&own, key)), [0; 4]);
        assert!(Vec::<(String, String, u64)>::try_from(own["requests"].try_clone().unwrap()).unwrap().is_empty());
        assert!(!own.contains_key("audit-failures"));
        let all = || HashMap::from([("all", Variant::from(true))]);
        assert_eq!(refusal(get(&stranger, all()).await), "NotAuthorized");
        assert_eq!(refusal(write(&stranger).await), "NotAuthorized");
        assert_eq!(number(&get(&root, all()).await.unwrap(), "denials"), 3);
        let odd = HashMap::from([("user", Variant::from(0u32))]);
        assert_eq!(refusal(get(&root, odd).await), "InvalidOption");
        // Nobody in a session is told anything.
        let mut inside = bus.connect_as(&["unshare", "--pid", "--fork", "--kill-child"], "").await;
        let inside = Client(inside.speak(0).await);
        assert_eq!(refusal(get(&inside, Options::new()).await), "InsideSession");
        assert_eq!(refusal(write(&inside).await), "InsideSession");
    });
}
