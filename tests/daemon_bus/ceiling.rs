//! The ceiling over sessions of the daemon: whose profiles they may have, which one where none is named, and what answers may
//! be once a newer ceiling is in force. Needs root, for a user whom it limits.

use std::collections::HashMap;

use gated::common::decision::{Lifetime, Outcome};
use gated::policy::Profile;
use zbus::Variant;

use super::foreign::{OWNER, user};
use super::support::system_bus::Bus;
use super::world::*;

/// Opens a session; the profile that its supervisor gets.
async fn opened(world: &World, client: &Client, options: Options<'static>) -> Profile {
    let body = (options,);
    let (opened, launch) =
        tokio::join!(client.manager("OpenSession", &body), async { world.supervisor().await.build().await });
    opened.unwrap();
    Profile::decode(&launch.profile).unwrap()
}

fn with(more: &[(&'static str, Variant<'static>)]) -> Options<'static> {
    let mut options = opening();
    options.extend(more.iter().cloned());
    options
}

async fn reload(world: &World) {
    let root = world.connect().await;
    root.manager("Reload", &(Options::new(),)).await.unwrap();
}

#[test]
fn the_profile_that_matches_holds_where_none_is_named() {
    run(async {
        let bus = Bus::start();
        let world = World::start(&bus.address).await;
        let of = |name: &str, terms: &str| format!("schema = 1\n[profile]\nname = \"{name}\"\nmatch = {{ {terms} }}\n");
        world.policy("profiles/team.toml", &of("team", "program = [\"/usr/bin/make\"]"));
        reload(&world).await;
        let (owner, _owner) = user(&bus, OWNER).await;
        let program = |path: &str| with(&[("program", Variant::from(path.as_bytes().to_vec()))]);
        assert_eq!(opened(&world, &owner, program("/usr/bin/make")).await.name, "team");
        assert_eq!(opened(&world, &owner, program("/usr/bin/true")).await.name, "coder");
        assert_eq!(opened(&world, &owner, opening()).await.name, "coder");
        let named = [("program", Variant::from(b"/usr/bin/make".to_vec())), ("profile", Variant::from("strict"))];
        assert_eq!(opened(&world, &owner, with(&named)).await.name, "strict");
        // The user's own is as good as the machine's, so that it is not clear which is meant.
        let mine = HashMap::from([("mine", of("mine", "program = [\"/usr/bin/make\"]").into_bytes())]);
        let both = [("program", Variant::from(b"/usr/bin/make".to_vec())), ("profiles", Variant::from(mine))];
        match owner.manager("OpenSession", &(with(&both),)).await {
            Err(zbus::Error::MethodError(name, Some(text), _)) => {
                assert_eq!(name.as_str(), "org.gated.Gated1.Error.Policy");
                assert!(
                    text.contains("/etc/gated/profiles/team.toml") && text.contains("profiles/mine.toml"),
                    "{text}"
                );
            }
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn users_whom_the_ceiling_does_not_let_bring_no_profiles() {
    run(async {
        let bus = Bus::start();
        let world = World::start(&bus.address).await;
        world.policy("profiles/team.toml", "schema = 1\n[profile]\nname = \"team\"\n");
        world.policy("ceiling.toml", "schema = 1\n[users]\nmay_write_profiles = false\n");
        reload(&world).await;
        let (owner, _owner) = user(&bus, OWNER).await;
        let text =
            |name: &str| format!("schema = 1\n[profile]\nname = \"{name}\"\nmatch = {{ user = [\"{}\"] }}\n", OWNER.0);
        let files = [
            ("own", text("own").into_bytes()),
            ("team", text("team").into_bytes()),
            ("/work/p.toml", text("p").into_bytes()),
        ];
        let files = Variant::from(HashMap::from(files));
        for name in ["own", "/work/p.toml"] {
            let options = with(&[("profiles", files.clone()), ("profile", Variant::from(name))]);
            match owner.manager("OpenSession", &(options,)).await {
                Err(zbus::Error::MethodError(_, Some(said), _)) => {
                    assert!(said.contains("may_write_profiles"), "{said}")
                }
                other => panic!("{name}: {other:?}"),
            }
        }
        // What is the machine's stays what it is, and what is the user's own matches nothing.
        let options = with(&[("profiles", files.clone()), ("profile", Variant::from("team"))]);
        assert_eq!(opened(&world, &owner, options).await.file, "/etc/gated/profiles/team.toml");
        assert_eq!(opened(&world, &owner, with(&[("profiles", files.clone())])).await.name, "coder");
        // Root could change the ceiling.
        let root = world.connect().await;
        let options = with(&[("profiles", files), ("profile", Variant::from("own"))]);
        assert_eq!(opened(&world, &root, options).await.name, "own");
    });
}

#[test]
fn a_session_gets_the_floors_of_its_user() {
    run(async {
        let bus = Bus::start();
        let world = World::start(&bus.address).await;
        let floors = "schema = 1\n[[floor]]\naccess = [\"write\"]\nlevel = \"deny\"\n\
                      [[floor]]\ngroup = \"daemon\"\naccess = [\"exec\"]\nlevel = \"ask\"\n\
                      [[floor]]\ngroup = \"nogroup\"\naccess = [\"connect\"]\nlevel = \"deny\"\n";
        world.policy("ceiling.toml", floors);
        reload(&world).await;
        let (owner, _owner) = user(&bus, OWNER).await;
        let profile = opened(&world, &owner, opening()).await;
        let floors: Vec<&str> =
            profile.rules.iter().filter(|rule| rule.is_ceiling).map(|rule| rule.id.as_str()).collect();
        assert_eq!(floors, ["floor-1", "floor-2"]);
        // A session on the host's network would be out of reach of this one.
        world.policy("ceiling.toml", "schema = 1\n[[floor]]\naccess = [\"connect\"]\nlevel = \"ask\"\n");
        reload(&world).await;
        let host = with(&[("profiles", own("network = \"host\"\n")), ("profile", Variant::from("own"))]);
        assert_eq!(refusal(owner.manager("OpenSession", &(host,)).await), "Policy");
    });
}

#[test]
fn what_is_answered_is_within_the_newest_ceiling() {
    run(async {
        let bus = Bus::start();
        let world = World::start(&bus.address).await;
        let (owner, _owner) = user(&bus, OWNER).await;
        let mut supervisor = world.session(&owner, "").await;
        for (id, object) in [(1, "/srv/x"), (2, "/opt/x"), (3, "/opt/y")] {
            supervisor.ask(id, object).await;
        }
        world.until("requests", |core| waiting(core) == 3).await;
        let ceiling = "schema = 1\n[[floor]]\naccess = [\"write\"]\npath = [\"/srv/**\"]\nlevel = \"deny\"\n\
                       [[floor]]\naccess = [\"write\"]\npath = [\"/opt/y\"]\nlevel = \"authenticate\"\n\
                       [users]\nlifetimes = [\"attempt\", \"call\"]\n";
        world.policy("ceiling.toml", ceiling);
        reload(&world).await;
        assert_eq!(refusal(owner.decide(1, "session").await), "Engine");
        let denied = supervisor.decided().await;
        assert_eq!((denied.outcome, denied.grant), (Outcome::NotPermitted, None));
        owner.decide(2, "session").await.unwrap();
        assert_eq!(supervisor.granted().await.lifetime, Lifetime::Call);
        assert_eq!(refusal(owner.decide(3, "session").await), "Engine");
        assert_eq!(supervisor.decided().await.outcome, Outcome::NotPermitted);
        // Without it everything is as the session began.
        world.policy("ceiling.toml", "");
        reload(&world).await;
        supervisor.ask(4, "/srv/x").await;
        world.until("a request", |core| waiting(core) == 1).await;
        owner.decide(4, "session").await.unwrap();
        assert_eq!(supervisor.granted().await.lifetime, Lifetime::Session);
        assert!(world.audited().iter().any(|line| line.contains("not_permitted")), "{:?}", world.audited());
    });
}
