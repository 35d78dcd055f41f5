//! Agents that come while something waits already.

use std::collections::HashMap;

use futures_util::StreamExt;
use gated::common::id::RequestId;
use gated::common::wire::FromSession;
use zbus::{MessageStream, OwnedObjectPath};

use crate::world::{PrivateBus, World, refusal, run, within};

/// The requests of which `stream` tells the end, as they come.
async fn removed(stream: &mut MessageStream) -> String {
    loop {
        let message = within(stream.next()).await.expect("the bus lives").expect("a message");
        if message.header().member().is_some_and(|member| member.as_str() == "InterfacesRemoved") {
            return message.body().deserialize::<(OwnedObjectPath, Vec<String>)>().unwrap().0.to_string();
        }
    }
}

#[test]
fn an_agent_is_told_of_the_end_of_what_waited_before_it_came() {
    run(async {
        let bus = PrivateBus::start();
        let world = World::start(bus.address()).await;
        let client = world.connect().await;
        let mut supervisor = world.session(&client, "").await;
        let mut first = client.agent(HashMap::from([("kind", "desktop".into())])).await;
        supervisor.ask(1, "/srv/a").await;
        supervisor.ask(2, "/srv/b").await;
        let _open = first.asked(1).await;
        client.waits_at(2).await;
        let late = world.connect().await;
        let mut stream = MessageStream::from(&late.0);
        let _agent = late.agent(HashMap::from([("kind", "tui".into())])).await;
        // The one that nobody was shown.
        supervisor.send(FromSession::Cancel(RequestId(2))).await;
        assert_eq!(removed(&mut stream).await, "/org/gated/Gated1/request/2");
        // Its answers have its own word.
        late.decide(1, "once").await.unwrap();
        let decision = supervisor.decided().await;
        assert!(decision.by.starts_with("tui:"), "{}", decision.by);
        assert_eq!(removed(&mut stream).await, "/org/gated/Gated1/request/1");
        assert_eq!(refusal(late.decide(1, "once").await), "AlreadyDecided");
    });
}
