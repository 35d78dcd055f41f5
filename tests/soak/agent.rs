//! A consent agent of its own process, as the test user: answers by the name of what is asked for, as the script of
//! [`crate::world`] does. It is killed and stopped like everything else.

use std::time::Duration;

use gated::common::consent::Answer;
use gated::common::decision::Width;
use gated::consent::bus::{Asked, BusAgent, Registration};

/// Longer than any request of a soak waits.
const NEVER: Duration = Duration::from_secs(3600);

/// How long a time that is granted is.
pub const FOR: Duration = Duration::from_secs(2);

pub fn run(_: &[String]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let address = std::env::var("DBUS_SYSTEM_BUS_ADDRESS").expect("the bus's address");
        let connection = zbus::connection::Builder::address(address.as_str()).build().await.expect("the bus");
        let mut agent =
            BusAgent::register(&connection, Registration { kind: "desktop", session: None }).await.expect("registered");
        println!("registered");
        while let Some(asked) = agent.next().await {
            tokio::task::spawn_local(answer(asked));
        }
    });
}

async fn answer(mut asked: Asked) {
    if asked.prompt.group.is_some() {
        let _ = asked.reply.send(Answer::Split);
        return;
    }
    let object = String::from_utf8_lossy(asked.prompt.request.object.as_bytes()).into_owned();
    let name = object.rsplit('/').next().unwrap_or_default();
    let (thinks, answer) = match name.split('-').next().unwrap_or_default() {
        "yes" => (Duration::ZERO, Answer::Once(Width::Exact)),
        "late" => (Duration::from_millis(150), Answer::Once(Width::Exact)),
        "session" => (Duration::ZERO, Answer::Session(Width::Exact)),
        "for" => (Duration::ZERO, Answer::For(Width::Exact, FOR)),
        "never" => (NEVER, Answer::Deny),
        _ => (Duration::ZERO, Answer::Deny),
    };
    tokio::select! {
        () = asked.withdrawn.wait() => {}
        () = tokio::time::sleep(thinks) => {
            let _ = asked.reply.send(answer);
        }
    }
}
