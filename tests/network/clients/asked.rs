//! What a person is asked for: once for a host, however many connections and kinds of records a client wants.

use crate::Test;
use crate::support::network::World;
use crate::support::{Outcome, Sandbox, Side};

pub const TESTS: &[Test] = &[
    ("fifty_connections_at_once_are_one_question", at_once),
    ("a_no_is_asked_for_once_and_ends_the_client_at_once", no),
    ("an_address_is_asked_for_as_an_address", address),
    ("two_hosts_are_two_questions", two_hosts),
];

fn asked(world: &World, answers: &str) -> Sandbox {
    let mut sandbox = world.sandbox();
    sandbox.profile("schema = 1\n[profile]\nname = \"asked\"\n[defaults]\nwrite = \"allow\"\nconnect = \"ask\"\n");
    sandbox.answers(answers);
    sandbox
}

/// What was asked for, in order.
fn questions(outcome: &Outcome) -> Vec<String> {
    let object = |event: &serde_json::Value| event["object"].as_str().unwrap_or_default().to_owned();
    outcome.events_of("consent_required").map(object).collect()
}

const YES: &str = "[[answer]]\naccess = \"connect\"\nanswer = \"session\"\nafter = \"300ms\"\n";

fn at_once() {
    let world = World::new();
    let script = "import asyncio\n\
                  async def talk():\n\
                  \x20   reader, writer = await asyncio.open_connection('www.example.org', 7)\n\
                  \x20   writer.write(b'x'); print(await reader.read(1)); writer.close()\n\
                  async def main(): await asyncio.gather(*[talk() for _ in range(50)])\n\
                  asyncio.run(main())\n";
    let outcome = asked(&world, YES).on(Side::Gated, &["/usr/bin/python3", "-c", script]);
    outcome.assert_code(0);
    outcome.assert(outcome.out().lines().count() == 50, "all of them talk");
    outcome.assert(questions(&outcome) == ["www.example.org"], "one question, for the name");
}

fn no() {
    let world = World::new();
    let outcome = asked(&world, "[[answer]]\nanswer = \"deny\"\n")
        .on(Side::Gated, &["/bin/sh", "-c", "curl -sS http://www.example.org/ http://www.example.org/other"]);
    outcome.assert(outcome.code() == 6, "curl does not resolve it");
    outcome.assert(questions(&outcome) == ["www.example.org"], "one question, for the name");
    world.wire.assert_arrived(&[]);
    assert_eq!(world.dns.queries(), []);
}

fn address() {
    let world = World::new();
    let outcome =
        asked(&world, YES).on(Side::Gated, &["curl", "-sS", "http://192.0.2.10/", "http://[2001:db8:2::10]/"]);
    outcome.assert_code(0);
    outcome.assert(questions(&outcome) == ["192.0.2.10:80", "[2001:db8:2::10]:80"], "two addresses");
}

fn two_hosts() {
    let world = World::new();
    let outcome = asked(&world, YES).on(
        Side::Gated,
        &["curl", "-4sS", "http://www.example.org/", "http://api.example.org/", "http://www.example.org/"],
    );
    outcome.assert_code(0);
    outcome.assert(questions(&outcome) == ["www.example.org", "api.example.org"], "each name once");
    assert_eq!(world.dns.names(), ["api.example.org", "www.example.org"]);
}
