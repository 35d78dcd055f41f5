//! Who may learn a profile. Needs root, for a user whom the ceiling limits.

use gated::policy::Profile;
use zbus::Variant;

use super::foreign::{OWNER, user};
use super::support::system_bus::Bus;
use super::world::*;

fn learning() -> Options<'static> {
    let mut options = opening();
    options.insert("learn", Variant::from(true));
    options
}

async fn learns(world: &World, client: &Client) -> bool {
    let body = (learning(),);
    let (opened, launch) =
        tokio::join!(client.manager("OpenSession", &body), async { world.supervisor().await.build().await });
    opened.unwrap();
    Profile::decode(&launch.profile).unwrap().learning
}

#[test]
fn whom_the_ceiling_lets_write_no_profiles_learns_none() {
    run(async {
        let bus = Bus::start();
        let world = World::start(&bus.address).await;
        let (owner, _owner) = user(&bus, OWNER).await;
        let root = world.connect().await;
        assert!(learns(&world, &owner).await);
        let closed = format!(
            "schema = 1\n[profile]\nname = \"corp\"\nmatch = {{ user = [\"{}\"] }}\n[defaults]\nwrite = \"deny\"\n",
            OWNER.0
        );
        world.policy("profiles/corp.toml", &closed);
        world.policy("ceiling.toml", "schema = 1\n[users]\nmay_write_profiles = false\n");
        root.manager("Reload", &(Options::new(),)).await.unwrap();
        // Whatever the machine's profile denies would be done.
        for named in [None, Some("corp"), Some("coder")] {
            let mut options = learning();
            options.extend(named.map(|name| ("profile", Variant::from(name))));
            match owner.manager("OpenSession", &(options,)).await {
                Err(zbus::Error::MethodError(_, Some(said), _)) => {
                    assert!(said.contains("may_write_profiles"), "{said}")
                }
                other => panic!("{named:?}: {other:?}"),
            }
        }
        // Root could change the ceiling.
        assert!(learns(&world, &root).await);
    });
}
