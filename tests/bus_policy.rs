//! `dbus/org.gated.Gated1.conf` on a real dbus-daemon that is configured as Debian's system bus is. Connections are made by
//! threads that are another user while they connect. Needs root and the program dbus-daemon; makes one directory.

#[path = "support/mod.rs"]
mod support;

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use futures_util::StreamExt;
use gated::common::bus::{AGENT_INTERFACE, AGENT_PATH, BUS_NAME, MANAGER_INTERFACE, MANAGER_PATH, REQUEST_INTERFACE};
use rustix::process::{Gid, Uid};
use support::bus::PrivateBus;
use zbus::{Connection, Message, MessageStream};

/// Two ordinary users that every system has; the bus turns away whom the user database does not know.
const NOBODY: u32 = 65534;
const SOMEBODY: u32 = 1;
const DENIED: &str = "org.freedesktop.DBus.Error.AccessDenied";

struct Bus {
    bus: PrivateBus,
}

impl Bus {
    fn start() -> Bus {
        let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("dbus/org.gated.Gated1.conf");
        // The default policy is that of /usr/share/dbus-1/system.conf.
        let elements = format!(
            r#"<type>system</type>
  <policy context="default">
    <allow user="*"/><deny own="*"/><deny send_type="method_call"/><allow send_type="signal"/>
    <allow send_requested_reply="true" send_type="method_return"/>
    <allow send_requested_reply="true" send_type="error"/>
    <allow receive_type="method_call"/><allow receive_type="method_return"/>
    <allow receive_type="error"/><allow receive_type="signal"/>
    <allow send_destination="org.freedesktop.DBus" send_interface="org.freedesktop.DBus"/>
  </policy>
  <include>{}</include>"#,
            ours.display()
        );
        Bus { bus: PrivateBus::with_policy(&elements) }
    }

    /// A connection of a user; the bus looks at who connects.
    async fn connect(&self, user: u32) -> Connection {
        let socket = self.bus.socket();
        let stream = std::thread::spawn(move || {
            let (uid, gid) = (Uid::from_raw(user), Gid::from_raw(user));
            rustix::thread::set_thread_res_gid(gid, gid, gid).expect("needs root");
            rustix::thread::set_thread_res_uid(uid, uid, uid).expect("needs root");
            UnixStream::connect(socket).expect("the bus listens")
        });
        let stream = stream.join().expect("the thread");
        zbus::connection::Builder::unix_stream(stream).user_id(user).build().await.expect("the bus lets everybody in")
    }
}

/// The members of the messages that come in, each answered.
fn answer_everything(connection: &Connection) -> tokio::sync::mpsc::UnboundedReceiver<String> {
    let (seen, members) = tokio::sync::mpsc::unbounded_channel();
    let connection = connection.clone();
    let mut messages = MessageStream::from(&connection);
    tokio::spawn(async move {
        while let Some(Ok(message)) = messages.next().await {
            let header = message.header();
            let Some(member) = header.member().map(ToString::to_string) else { continue };
            if header.sender().is_some_and(|sender| sender.as_str() == "org.freedesktop.DBus") {
                continue;
            }
            if message.message_type() == zbus::message::Type::MethodCall {
                connection.reply(&header, &()).await.expect("a reply");
            }
            let _ = seen.send(member);
        }
    });
    members
}

/// The name of the error that a call ends with.
async fn call(from: &Connection, to: &str, path: &str, interface: Option<&str>, member: &str) -> Result<(), String> {
    match from.call_method(Some(to), path, interface, member, &()).await {
        Ok(_) => Ok(()),
        // Starts with its name.
        Err(error) => Err(error.to_string().split(':').next().unwrap_or_default().to_owned()),
    }
}

fn on_a_bus(test: impl AsyncFnOnce(&Bus)) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let bus = Bus::start();
    runtime.block_on(async {
        tokio::time::timeout(Duration::from_secs(30), test(&bus)).await.expect("the bus answers");
    });
}

#[test]
fn only_root_owns_the_name() {
    on_a_bus(async |bus| {
        let stranger = bus.connect(NOBODY).await;
        let refused = stranger.request_name(BUS_NAME).await.expect_err("a stranger owns the name");
        assert!(refused.to_string().contains("AccessDenied"), "{refused}");
        bus.connect(0).await.request_name(BUS_NAME).await.expect("root owns it");
    });
}

#[test]
fn everybody_may_call_the_daemon_by_its_own_interfaces_only() {
    on_a_bus(async |bus| {
        let daemon = bus.connect(0).await;
        daemon.request_name(BUS_NAME).await.expect("root owns it");
        let mut seen = answer_everything(&daemon);
        let user = bus.connect(NOBODY).await;
        for interface in [MANAGER_INTERFACE, REQUEST_INTERFACE, "org.freedesktop.DBus.Properties"] {
            assert_eq!(call(&user, BUS_NAME, MANAGER_PATH, Some(interface), "Known").await, Ok(()), "{interface}");
            assert_eq!(seen.recv().await.as_deref(), Some("Known"));
        }
        for interface in [Some(AGENT_INTERFACE), Some("org.gated.Gated1.Other"), None] {
            let answer = call(&user, BUS_NAME, AGENT_PATH, interface, "Unknown").await;
            assert_eq!(answer, Err(DENIED.to_owned()), "{interface:?}");
        }
        // By its unique name as well, and no signals; what arrives next is what was permitted.
        let unique = daemon.unique_name().expect("a name").to_string();
        assert_eq!(
            call(&user, &unique, MANAGER_PATH, Some("org.gated.Gated1.Other"), "Unknown").await,
            Err(DENIED.to_owned())
        );
        user.emit_signal(Some(unique.as_str()), MANAGER_PATH, MANAGER_INTERFACE, "Signal", &())
            .await
            .expect("it goes out");
        assert_eq!(call(&user, BUS_NAME, MANAGER_PATH, Some(MANAGER_INTERFACE), "Last").await, Ok(()));
        assert_eq!(seen.recv().await.as_deref(), Some("Last"));
    });
}

#[test]
fn only_root_asks_a_consent_agent() {
    on_a_bus(async |bus| {
        let daemon = bus.connect(0).await;
        daemon.request_name(BUS_NAME).await.expect("root owns it");
        let agent = bus.connect(SOMEBODY).await;
        let mut seen = answer_everything(&agent);
        let agent_name = agent.unique_name().expect("a name").to_string();
        for user in [NOBODY, SOMEBODY] {
            let stranger = bus.connect(user).await;
            for interface in [Some(AGENT_INTERFACE), None] {
                let answer = call(&stranger, &agent_name, AGENT_PATH, interface, "Ask").await;
                assert_eq!(answer, Err(DENIED.to_owned()), "uid {user}, {interface:?}");
            }
        }
        // The agent's reply reaches the daemon, although nothing else of its may.
        assert_eq!(call(&daemon, &agent_name, AGENT_PATH, Some(AGENT_INTERFACE), "Ask").await, Ok(()));
        assert_eq!(seen.recv().await.as_deref(), Some("Ask"));
        // And the daemon tells it of new requests.
        let message = Message::signal(MANAGER_PATH, "org.freedesktop.DBus.ObjectManager", "InterfacesAdded")
            .destination(agent_name.as_str())
            .build(&())
            .expect("a signal");
        daemon.send(&message).await.expect("it goes out");
        assert_eq!(seen.recv().await.as_deref(), Some("InterfacesAdded"));
    });
}
