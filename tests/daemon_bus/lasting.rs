//! Answers that outlive their session: whom they reach, when they are there, and how they end.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use gated::common::bus::{GRANTS_INTERFACE, MANAGER_PATH};
use gated::common::decision::{Effect, Lifetime, Outcome};
use gated::common::id::GrantId;
use gated::common::wire::{FromSession, ToSession};
use gated::daemon::store::FILE;
use gated::policy::Grant;
use zbus::{OwnedVariant, Variant};

use super::world::*;

/// Answers may last as long as they like.
pub const LASTING: &str = "[grants]\npersistent = true\n";

pub type Row = HashMap<String, OwnedVariant>;

/// Of a rule that caps nothing.
async fn ask(supervisor: &mut Supervisor, id: u128, object: &str) {
    let mut request = supervisor.request(id, object);
    request.remember = Lifetime::Persistent;
    supervisor.send(FromSession::Ask(Box::new(request))).await;
}

pub async fn answer(client: &Client, id: u128, decision: &str, scope: Options<'_>) -> zbus::Result<zbus::Message> {
    let end = tokio::time::Instant::now() + LIMIT;
    loop {
        let body = (format!("{id:032x}"), decision, &scope);
        match client.manager("Decide", &body).await {
            // Not there yet.
            Err(zbus::Error::MethodError(name, ..))
                if name.ends_with("NoSuchRequest") && tokio::time::Instant::now() < end =>
            {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            done => return done,
        }
    }
}

async fn always(client: &Client, supervisor: &mut Supervisor, id: u128, object: &str) -> Grant {
    ask(supervisor, id, object).await;
    answer(client, id, "always", Options::new()).await.unwrap();
    supervisor.granted().await
}

impl Supervisor {
    /// The next grant from elsewhere.
    pub async fn given(&mut self) -> Grant {
        match self.message().await {
            ToSession::Grant(bytes) => Grant::decode(&bytes).unwrap(),
            other => panic!("no grant: {other:?}"),
        }
    }

    async fn revoked(&mut self) -> GrantId {
        match self.message().await {
            ToSession::Revoke(id) => id,
            other => panic!("nothing revoked: {other:?}"),
        }
    }
}

pub async fn lists(client: &Client, method: &str) -> Vec<Row> {
    let interface = if method == "ListGrants" { "org.gated.Gated1.Manager" } else { GRANTS_INTERFACE };
    let told = client.call(MANAGER_PATH, interface, method, &(Options::new(),)).await.unwrap();
    told.body().deserialize().unwrap()
}

pub fn text(row: &Row, key: &str) -> String {
    String::try_from(row[key].try_clone().unwrap()).unwrap()
}

pub async fn add(
    client: &Client,
    effect: &str,
    access: &str,
    pattern: Options<'_>,
    options: Options<'_>,
) -> zbus::Result<Row> {
    let told = client.call(MANAGER_PATH, GRANTS_INTERFACE, "AddGrant", &(effect, access, pattern, options)).await?;
    told.body().deserialize()
}

pub fn paths(text: &'static str) -> Options<'static> {
    HashMap::from([("paths", Variant::from(text))])
}

pub fn for_own(profile: &str, term: &'static str) -> Options<'static> {
    HashMap::from([
        ("profile", Variant::from("own")),
        ("profiles", own(profile)),
        ("directory", Variant::from(b"/work".to_vec())),
        ("term", Variant::from(term)),
    ])
}

#[test]
fn a_lasting_answer_is_on_the_disk_when_the_call_goes_on_and_in_every_other_session() {
    run(async {
        let bus = PrivateBus::start();
        let world = World::start(bus.address()).await;
        let client = world.connect().await;
        let mut first = world.session(&client, LASTING).await;
        let mut second = world.session(&client, LASTING).await;
        let mut strict = world.session(&client, "").await;
        let grant = always(&client, &mut first, 1, "/srv/x").await;
        assert_eq!((grant.lifetime, grant.effect), (Lifetime::Persistent, Effect::Allow));
        let bytes = std::fs::read(world.place.path().join("state").join(FILE)).unwrap();
        let id = grant.id.to_string();
        assert!(bytes.windows(id.len()).any(|window| window == id.as_bytes()), "on the disk before the decision");
        assert_eq!(second.given().await, grant);
        // The same profile with other limits: a session whose answers end with it gets none that does not.
        strict.ask(9, "/srv/y").await;
        answer(&client, 9, "deny", Options::new()).await.unwrap();
        assert_eq!(strict.decided().await.outcome, Outcome::Denied);
        let third = world.session_with_grants(&client, LASTING).await;
        assert_eq!(third.1, std::slice::from_ref(&grant));
        let rows = lists(&client, "ListGrants").await;
        assert_eq!(rows.len(), 1, "once, however many sessions have it: {rows:?}");
        assert_eq!((text(&rows[0], "id"), text(&rows[0], "profile")), (id, "own".to_owned()));
        assert!(!rows[0].contains_key("session"));
    });
}

#[test]
fn what_is_revoked_is_revoked_in_every_session_and_for_those_to_come() {
    run(async {
        let bus = PrivateBus::start();
        let world = World::start(bus.address()).await;
        let client = world.connect().await;
        let mut first = world.session(&client, LASTING).await;
        let mut second = world.session(&client, LASTING).await;
        let grant = always(&client, &mut first, 1, "/srv/x").await;
        second.given().await;
        client.manager("RevokeGrant", &(grant.id.to_string(), Options::new())).await.unwrap();
        assert_eq!((first.revoked().await, second.revoked().await), (grant.id, grant.id));
        assert!(world.session_with_grants(&client, LASTING).await.1.is_empty());
        assert!(lists(&client, "ListGrants").await.is_empty());
        let stored = lists(&client, "ListStored").await;
        assert!(text(&stored[0], "revoked-by").starts_with("gatedctl:"), "{stored:?}");
        // A second time there is nothing to revoke.
        let again = client.manager("RevokeGrant", &(grant.id.to_string(), Options::new())).await;
        assert_eq!(refusal(again), "NoSuchGrant");
        let forget = client.call(MANAGER_PATH, GRANTS_INTERFACE, "Forget", &(grant.id.to_string(),)).await;
        forget.unwrap();
        assert!(lists(&client, "ListStored").await.is_empty());
        let show = client.call(MANAGER_PATH, GRANTS_INTERFACE, "Show", &(grant.id.to_string(),)).await;
        assert_eq!(refusal(show), "NoSuchGrant");
    });
}

#[test]
fn an_answer_is_cut_to_what_the_profile_lets_answers_be() {
    run(async {
        let bus = PrivateBus::start();
        let world = World::start(bus.address()).await;
        let client = world.connect().await;
        let mut session = world.session(&client, "").await;
        assert_eq!(always(&client, &mut session, 1, "/srv/x").await.lifetime, Lifetime::Session);
        let mut timed = world.session(&client, "[grants]\nmax_for = \"1h\"\n").await;
        let grant = always(&client, &mut timed, 2, "/srv/x").await;
        assert_eq!(grant.lifetime, Lifetime::Until);
        let end = grant.until.unwrap().wall;
        let now = gated::common::moment::wall_now();
        assert!((now + 3590..=now + 3600).contains(&end));
        // A rule that lets answers hold for the session says more than the profile.
        let mut lasting = world.session(&client, LASTING).await;
        lasting.ask(3, "/srv/z").await;
        answer(&client, 3, "always", Options::new()).await.unwrap();
        assert_eq!(lasting.granted_after_grants().await.lifetime, Lifetime::Session);
        assert_eq!(lists(&client, "ListStored").await.len(), 1);
    });
}

#[test]
fn a_lasting_no_denies_in_every_session_whatever_the_limits_are() {
    run(async {
        let bus = PrivateBus::start();
        let world = World::start(bus.address()).await;
        let client = world.connect().await;
        let mut first = world.session(&client, LASTING).await;
        let mut second = world.session(&client, "").await;
        ask(&mut first, 1, "/srv/x").await;
        let scope = HashMap::from([("term", Variant::from("always"))]);
        answer(&client, 1, "block", scope).await.unwrap();
        let decision = first.decided().await;
        assert_eq!(decision.outcome, Outcome::Denied);
        let denial = Grant::decode(&decision.grant.unwrap()).unwrap();
        assert_eq!((denial.effect, denial.lifetime), (Effect::Deny, Lifetime::Persistent));
        assert_eq!(second.given().await, denial);
        assert_eq!(world.session_with_grants(&client, "").await.1, [denial]);
    });
}

#[test]
fn what_cannot_be_recorded_or_stored_is_not_allowed() {
    run(async {
        let bus = PrivateBus::start();
        let world = World::start(bus.address()).await;
        let client = world.connect().await;
        let mut session = world.session(&client, LASTING).await;
        world.log.is_full.store(true, Ordering::Relaxed);
        ask(&mut session, 1, "/srv/x").await;
        assert!(answer(&client, 1, "always", Options::new()).await.is_err());
        let decision = session.decided().await;
        assert_eq!((decision.outcome, decision.grant), (Outcome::NotPermitted, None));
        world.log.is_full.store(false, Ordering::Relaxed);
        assert!(lists(&client, "ListStored").await.is_empty());
        // No room for one more of this holder.
        let holder = world.core.sessions.borrow()[&session.session].holder();
        let mut full = Vec::new();
        for number in 0..4096_u64 {
            let object = gated::common::path::RawPath::new(format!("/f/{number}").into_bytes());
            let scope = gated::policy::Scope::Paths(gated::common::scope::Pattern::literal(&object));
            let grant = Grant {
                id: GrantId(number),
                effect: Effect::Allow,
                access: gated::common::access::Access::Write,
                object,
                scope,
                lifetime: Lifetime::Persistent,
                call: None,
                until: None,
                authenticated: false,
                group: None,
                by: "t".into(),
                origin: None,
            };
            full.push(gated::daemon::store::Stored::new(grant, holder.clone(), "t".into()));
        }
        world.core.setting.store.add(full).await.unwrap();
        ask(&mut session, 2, "/srv/y").await;
        assert!(answer(&client, 2, "always", Options::new()).await.is_err());
        let decision = session.decided().await;
        assert_eq!((decision.outcome, decision.grant), (Outcome::NotPermitted, None));
        assert!(world.audited().iter().any(|line| line.starts_with("not_permitted /srv/y")));
    });
}

#[test]
fn an_answer_before_anything_asked_is_given_within_limits() {
    run(async {
        let bus = PrivateBus::start();
        let world = World::start(bus.address()).await;
        let client = world.connect().await;
        let mut running = world.session(&client, LASTING).await;
        let row = add(&client, "allow", "write", paths("/srv/data/**"), for_own(LASTING, "always")).await.unwrap();
        assert_eq!(text(&row, "scope"), "/srv/data/**");
        let grant = running.given().await;
        assert_eq!((grant.id.to_string(), grant.authenticated), (text(&row, "id"), false));
        for (effect, access, pattern, profile, why) in [
            ("allow", "write", "/", LASTING, "Policy"),
            ("allow", "write", "/home/**", LASTING, "Policy"),
            ("deny", "write", "/**", LASTING, "Policy"),
            ("allow", "exec", "/srv/x", LASTING, "Policy"),
            ("allow", "write", "/srv/y", "", "Engine"),
            ("allow", "write", "srv", LASTING, "Policy"),
        ] {
            let refused = add(&client, effect, access, paths(pattern), for_own(profile, "always")).await;
            assert_eq!(refusal(refused), why, "{effect} {access} {pattern}");
        }
        let denied = format!(
            "{LASTING}[[rule]]\nid = \"no\"\naccess = [\"write\"]\npath = [\"/srv/secret/**\"]\nlevel = \"deny\"\n"
        );
        let refused = add(&client, "allow", "write", paths("/srv/secret/x"), for_own(&denied, "always")).await;
        let Err(zbus::Error::MethodError(_, Some(detail), _)) = refused else { panic!("{refused:?}") };
        assert!(detail.contains("rule no") && detail.contains("denies it"), "{detail}");
        // A no needs no leave.
        add(&client, "deny", "write", paths("/srv/other"), for_own("", "always")).await.unwrap();
        assert_eq!(running.given().await.effect, Effect::Deny);
        // For one session, which ends with it.
        let options =
            HashMap::from([("session", Variant::from(running.session.0.clone())), ("term", Variant::from("session"))]);
        add(&client, "allow", "write", paths("/srv/once/*"), options).await.unwrap();
        assert_eq!(running.given().await.lifetime, Lifetime::Session);
        assert_eq!(lists(&client, "ListStored").await.len(), 2);
    });
}

#[test]
fn three_equal_answers_suggest_a_lasting_one_and_three_denials_mute() {
    run(async {
        let bus = PrivateBus::start();
        let world = World::start(bus.address()).await;
        let client = world.connect().await;
        let mut session = world.session(&client, LASTING).await;
        for id in 1..4 {
            ask(&mut session, id, "/srv/x").await;
            answer(&client, id, "once", Options::new()).await.unwrap();
            assert_eq!(session.decided().await.outcome, Outcome::Approved);
        }
        ask(&mut session, 4, "/srv/x").await;
        let suggestion = |core: &gated::daemon::core::Core| {
            let live = core.sessions.borrow().values().next().cloned()?;
            let prompts = live.view.prompts.borrow();
            prompts.first().map(|prompt| prompt.suggestion)
        };
        world.until("a prompt", |core| suggestion(core).is_some()).await;
        let suggested = suggestion(&world.core).unwrap().expect("a suggestion");
        assert_eq!((suggested.times, suggested.term), (3, gated::common::decision::Term::Always));
        for id in 4..7 {
            if id > 4 {
                ask(&mut session, id, "/srv/x").await;
            }
            answer(&client, id, "deny", Options::new()).await.unwrap();
            assert_eq!(session.decided().await.outcome, Outcome::Denied);
        }
        // Nobody is asked any more; another thing is.
        ask(&mut session, 7, "/srv/x").await;
        let decision = session.decided().await;
        assert_eq!((decision.outcome, decision.by.as_str()), (Outcome::Denied, "muted"));
        assert!(world.audited().last().unwrap().ends_with("denied /srv/x muted"));
        ask(&mut session, 8, "/srv/y").await;
        answer(&client, 8, "once", Options::new()).await.unwrap();
        session.decided().await;
        // What allows something may allow this.
        add(&client, "allow", "write", paths("/srv/z"), for_own(LASTING, "always")).await.unwrap();
        session.given().await;
        ask(&mut session, 9, "/srv/x").await;
        answer(&client, 9, "once", Options::new()).await.unwrap();
        assert_eq!(session.decided().await.outcome, Outcome::Approved);
        let history = lists(&client, "History").await;
        let of_x = history.iter().find(|row| text(row, "what") == "/srv/x").unwrap();
        let number = |key: &str| u64::try_from(of_x[key].try_clone().unwrap()).unwrap();
        assert_eq!((number("yes"), number("no")), (4, 3));
    });
}
