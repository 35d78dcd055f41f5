//! Who is asked: a consent agent that answers at once, and the server of a desktop that clicks on what it is shown. Runs
//! re-executed, as the test user, beside the daemon, until it is killed; says when it was asked and when it answered.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use gated::common::bus::{BUS_NAME, MANAGER_INTERFACE, MANAGER_PATH};
use gated::common::consent::Answer;
use gated::common::decision::Width;
use gated::consent::bus::{BusAgent, Registration};
use zbus::{Connection, OwnedVariant, Variant, interface};

use super::now;

/// How the agent says yes to the calm session.
#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    /// As the answer to `Ask`.
    Reply,
    /// By `Decide`, as `gatedctl approve` does.
    Decide,
}

fn block_on(future: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    tokio::task::LocalSet::new().block_on(&runtime, future);
}

/// Lines `ready`, then `NAME ASKED ANSWERED` for each request of the calm session. Of a flood each request is denied at
/// once, or none is answered.
pub fn agent(how: &str, flood: &str) {
    let how = if how == "decide" { How::Decide } else { How::Reply };
    let denies = flood == "deny";
    block_on(async move {
        let connection = Connection::system().await.expect("the bus");
        // Not a person: nothing gathers for a file of answers, and none of what is measured is that window.
        let registration = Registration { kind: "script", session: None };
        let mut agent = BusAgent::register(&connection, registration).await.expect("the daemon takes an agent");
        println!("ready");
        let mut kept = Vec::new();
        while let Some(asked) = agent.next().await {
            let arrived = now();
            let object = asked.prompt.request.object.as_bytes();
            let name = std::ffi::OsStr::from_bytes(object.rsplit(|byte| *byte == b'/').next().unwrap_or_default());
            let name = name.to_string_lossy().into_owned();
            kept.retain(|asked: &gated::consent::bus::Asked| !asked.withdrawn.is_withdrawn());
            if name.starts_with("flood") {
                match denies {
                    true => drop(asked.reply.send(Answer::Deny)),
                    false => kept.push(asked),
                }
                continue;
            }
            let answered = now();
            match how {
                How::Reply => drop(asked.reply.send(Answer::Once(Width::Exact))),
                How::Decide => {
                    let (connection, id) = (connection.clone(), asked.prompt.request.id.to_string());
                    kept.push(asked);
                    tokio::task::spawn_local(async move {
                        let body = (id.as_str(), "once", HashMap::<&str, Variant<'_>>::new());
                        let manager = Some(MANAGER_INTERFACE);
                        let decided = connection.call_method(Some(BUS_NAME), MANAGER_PATH, manager, "Decide", &body);
                        decided.await.expect("the person may answer");
                    });
                }
            }
            println!("{name} {arrived} {answered}");
        }
    });
}

/// Before a yes counts for `gated-notify`, and a little more.
const READING: Duration = Duration::from_millis(1000);
const NOTIFICATIONS: &str = "org.freedesktop.Notifications";
const NOTIFICATIONS_PATH: &str = "/org/freedesktop/Notifications";

struct Server {
    connection: Connection,
    last: u32,
}

#[interface(name = "org.freedesktop.Notifications")]
impl Server {
    fn get_capabilities(&self) -> Vec<String> {
        ["actions", "body", "body-markup"].map(str::to_owned).into()
    }

    fn get_server_information(&self) -> (String, String, String, String) {
        ("bench".into(), "gated".into(), "1".into(), "1.2".into())
    }

    #[allow(clippy::too_many_arguments, reason = "the specification's")]
    fn notify(
        &mut self,
        _name: &str,
        replaces: u32,
        _icon: &str,
        _summary: String,
        _body: String,
        actions: Vec<String>,
        _hints: HashMap<String, OwnedVariant>,
        _expires: i32,
    ) -> u32 {
        let shown = now();
        if replaces != 0 {
            return replaces;
        }
        self.last = self.last.wrapping_add(1);
        let (connection, id) = (self.connection.clone(), self.last);
        let yes = actions.chunks(2).find(|pair| pair.get(1).is_some_and(|label| label == "Allow once"));
        let yes = yes.and_then(|pair| pair.first().cloned()).expect("a notification with the three actions");
        tokio::spawn(async move {
            tokio::time::sleep(READING).await;
            let pressed = now();
            let path = NOTIFICATIONS_PATH;
            let body = (id, yes);
            let emitted = connection.emit_signal(None::<&str>, path, NOTIFICATIONS, "ActionInvoked", &body);
            emitted.await.expect("the bus");
            let body = (id, 2_u32);
            let closed = connection.emit_signal(None::<&str>, path, NOTIFICATIONS, "NotificationClosed", &body);
            closed.await.expect("the bus");
            println!("{id} {shown} {pressed}");
        });
        self.last
    }

    fn close_notification(&self, _id: u32) {}
}

/// Owns the name of notification servers on the session bus. Lines `ready`, then `NUMBER SHOWN PRESSED`.
pub fn desktop() {
    block_on(async {
        let connection = Connection::session().await.expect("the bus");
        let server = Server { connection: connection.clone(), last: 0 };
        connection.object_server().at(NOTIFICATIONS_PATH, server).await.expect("an object");
        connection.request_name(NOTIFICATIONS).await.expect("the name");
        println!("ready");
        std::future::pending().await
    });
}
