//! What the daemon serves is what the files in `dbus/` say.

use gated::common::bus::{
    GRANTS_INTERFACE, MANAGER_INTERFACE, MANAGER_PATH, POLICY_INTERFACE, REQUEST_INTERFACE, REQUESTS_PATH,
    SESSION_INTERFACE, SESSIONS_PATH, STATISTICS_INTERFACE,
};

use super::world::{PrivateBus, World, run, source};
use super::xml::{Interfaces, interfaces};

async fn live(client: &super::world::Client, path: &str) -> (String, Interfaces) {
    let told = client.call(path, "org.freedesktop.DBus.Introspectable", "Introspect", &()).await.unwrap();
    let text: String = told.body().deserialize().unwrap();
    let interfaces = interfaces(&text);
    (text, interfaces)
}

#[test]
fn live_introspection_is_what_the_files_say() {
    run(async {
        let bus = PrivateBus::start();
        let world = World::start(bus.address()).await;
        let client = world.connect().await;
        let mut supervisor = world.session(&client, "").await;
        supervisor.ask(1, "/srv/x").await;
        client.waits_at(1).await;
        let mut manager = interfaces(&source("dbus/org.gated.Gated1.Manager.xml"));
        assert_eq!(manager.len(), 2);
        manager.extend(interfaces(&source("dbus/org.gated.Gated1.Policy.xml")));
        let (text, served) = live(&client, MANAGER_PATH).await;
        let grants = interfaces(&source("dbus/org.gated.Gated1.Grants.xml"));
        for (name, members) in manager.iter().chain(&grants) {
            assert_eq!(served.get(name), Some(members), "{name}");
        }
        let statistics = interfaces(&source("dbus/org.gated.Gated1.Statistics.xml"));
        assert_eq!(served.get(STATISTICS_INTERFACE), statistics.get(STATISTICS_INTERFACE));
        // Besides what every object has there is nothing.
        let ours = |served: Interfaces| -> Vec<String> {
            let standard = ["Peer", "Introspectable", "Properties"].map(|name| format!("org.freedesktop.DBus.{name}"));
            served.into_keys().filter(|name| !standard.contains(name)).collect()
        };
        let expected = [
            "org.freedesktop.DBus.ObjectManager",
            GRANTS_INTERFACE,
            MANAGER_INTERFACE,
            POLICY_INTERFACE,
            STATISTICS_INTERFACE,
        ];
        assert_eq!(ours(served), expected);
        // Who looks sees that something waits, and nothing of what it is.
        assert!(!text.contains("00000000000000000000000000000001") && !text.contains("/srv"), "{text}");

        let session = format!("{SESSIONS_PATH}/{}", supervisor.session);
        let request = format!("{REQUESTS_PATH}/1");
        for (path, interface) in [(&session, SESSION_INTERFACE), (&request, REQUEST_INTERFACE)] {
            let (_, served) = live(&client, path).await;
            let written = interfaces(&source(&format!("dbus/{interface}.xml")));
            assert_eq!(served.get(interface), written.get(interface), "{interface}");
            assert_eq!(ours(served), [interface]);
        }
    });
}
