//! What a bridge is told and what its replies do.

use std::sync::{Arc, Mutex};

use gated::common::access::{Access, Level};
use gated::common::decision::{Lifetime, Outcome};
use gated::common::exec::Execution;
use gated::common::request::Operation;
use gated::common::text::Untrusted;
use gated::common::wire::FromSession;
use serde_json::{Value, json};

use super::agent::{Files, start};
use super::server::{Server, answer, reply, token};
use super::world::*;

/// Replies at once with what `choose` makes of a request.
fn replying(choose: impl Fn(&Value) -> Value + Send + Sync + 'static) -> Server {
    Server::start(move |received, stream| {
        let asked = received.verified();
        let body = if asked["event"] == "asked" { choose(&asked).to_string() } else { String::new() };
        answer(stream, "200 OK", body.as_bytes());
    })
}

fn with(asked: &Value, what: &str, width: Option<&str>) -> Value {
    reply(asked["request"].as_str().unwrap(), &token(asked, what, width))
}

#[test]
fn a_reply_in_the_response_answers_and_the_bridge_hears_of_it() {
    run(async {
        let bus = PrivateBus::start();
        let (world, files) = (World::start(bus.address()).await, Files::new());
        let client = world.connect().await;
        let mut supervisor = world.session(&client, "").await;
        let mut server = replying(|asked| with(asked, "once", Some("exact")));
        start(&world, files.of(&server.url("/hook"), "")).await;
        supervisor.ask(1, "/srv/x").await;
        let decision = supervisor.decided().await;
        assert_eq!(decision.outcome, Outcome::Approved);
        assert!(decision.by.starts_with("webhook:"), "{}", decision.by);
        let grant = gated::policy::Grant::decode(&decision.grant.unwrap()).unwrap();
        assert_eq!((grant.lifetime, grant.scope()), (Lifetime::Call, "/srv/x".to_owned()));

        let asked = server.next().await;
        assert_eq!((asked.method.as_str(), asked.target.as_str()), ("POST", "/hook"));
        let asked = asked.verified();
        let text = |key: &str| asked[key].as_str().unwrap_or_default().to_owned();
        assert_eq!((asked["version"].as_u64(), text("request")), (Some(1), format!("{:032x}", 1)));
        assert_eq!((text("session"), text("host")), (supervisor.session.0.clone(), "laptop".to_owned()));
        assert_eq!(text("summary"), "tool wants to create /srv/x");
        assert_eq!(text("wants"), "create this file");
        assert_eq!(asked["argv"], json!(["tool", "--token", "***"]), "secrets are masked");
        let details: Vec<&str> =
            asked["details"].as_array().unwrap().iter().map(|one| one["text"].as_str().unwrap()).collect();
        assert_eq!(details, ["/srv/x", "/usr/bin/tool (pid 100)", "tool --token '***'", "/work"]);
        let answers: Vec<(&str, &str)> = asked["answers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| (one["answer"].as_str().unwrap(), one["means"].as_str().unwrap()))
            .collect();
        assert_eq!(
            answers,
            [
                ("deny", "No, this time"),
                ("once", "this file; for this call"),
                ("session", "this file; for the session"),
                ("session", "everything directly in its directory: /srv/*; for the session"),
                ("session", "its directory and everything below: /srv/**; for the session"),
            ]
        );
        let over = server.event("answered").await;
        assert_eq!(over["request"], asked["request"]);
    });
}

#[test]
fn a_no_denies_and_a_wider_yes_is_as_wide_as_it_says() {
    run(async {
        let bus = PrivateBus::start();
        let (world, files) = (World::start(bus.address()).await, Files::new());
        let client = world.connect().await;
        let mut supervisor = world.session(&client, "").await;
        let server = replying(|asked| match asked["object"].as_str().unwrap() {
            "/srv/no" => with(asked, "deny", None),
            _ => json!({ "replies": [with(asked, "session", Some("tree"))] }),
        });
        start(&world, files.of(&server.url("/"), "")).await;
        supervisor.ask(1, "/srv/no").await;
        assert_eq!(supervisor.decided().await.outcome, Outcome::Denied);
        supervisor.ask(2, "/srv/a/b").await;
        let grant = supervisor.granted().await;
        assert_eq!((grant.lifetime, grant.scope().as_str()), (Lifetime::Session, "/srv/a/**"));
    });
}

#[test]
fn replies_are_fetched_where_they_do_not_come_as_responses() {
    run(async {
        let bus = PrivateBus::start();
        let (world, files) = (World::start(bus.address()).await, Files::new());
        let client = world.connect().await;
        let mut supervisor = world.session(&client, "").await;
        let ready: Arc<Mutex<Vec<Value>>> = Arc::default();
        let replies = Arc::clone(&ready);
        let mut server = Server::start(move |received, stream| {
            received.verified();
            let mut replies = replies.lock().unwrap();
            let body = match received.method.as_str() {
                "GET" => json!({ "replies": std::mem::take(&mut *replies), "next": "cursor-7" }).to_string(),
                _ => String::new(),
            };
            answer(stream, "200 OK", body.as_bytes());
        });
        let more = format!("reply_url = \"{}\"\npoll = \"1s\"", server.url("/replies?box=me"));
        start(&world, files.of(&server.url("/hook"), &more)).await;
        supervisor.ask(1, "/srv/x").await;
        let asked = server.event("asked").await;
        ready.lock().unwrap().push(with(&asked, "session", Some("exact")));
        assert_eq!(supervisor.decided().await.outcome, Outcome::Approved);
        // Whoever is asked for the next gets told where the last ended.
        supervisor.ask(2, "/srv/y").await;
        loop {
            let received = server.next().await;
            if received.method == "GET" && received.target.contains("since") {
                assert_eq!(received.target, "/replies?box=me&since=cursor-7");
                break;
            }
        }
        client.decide(2, "deny").await.unwrap();
        supervisor.decided().await;
    });
}

#[test]
fn what_is_decided_elsewhere_is_withdrawn() {
    run(async {
        let bus = PrivateBus::start();
        let (world, files) = (World::start(bus.address()).await, Files::new());
        let client = world.connect().await;
        let mut supervisor = world.session(&client, "").await;
        let mut server = Server::silent();
        start(&world, files.of(&server.url("/"), "")).await;
        supervisor.ask(1, "/srv/x").await;
        let asked = server.event("asked").await;
        client.decide(1, "deny").await.unwrap();
        assert_eq!(supervisor.decided().await.outcome, Outcome::Denied);
        assert_eq!(server.event("withdrawn").await["request"], asked["request"]);
    });
}

#[test]
fn a_bridge_that_is_not_there_yet_is_tried_again() {
    run(async {
        let bus = PrivateBus::start();
        let (world, files) = (World::start(bus.address()).await, Files::new());
        let client = world.connect().await;
        let mut supervisor = world.session(&client, "").await;
        let count = Mutex::new(0);
        let server = Server::start(move |received, stream| {
            let asked = received.verified();
            let mut count = count.lock().unwrap();
            *count += 1;
            match *count {
                1 => answer(stream, "503 Later", b""),
                _ if asked["event"] == "asked" => {
                    answer(stream, "200 OK", with(&asked, "once", Some("exact")).to_string().as_bytes());
                }
                _ => answer(stream, "204 No Content", b""),
            }
        });
        start(&world, files.of(&server.url("/"), "")).await;
        supervisor.ask(1, "/srv/x").await;
        assert_eq!(supervisor.decided().await.outcome, Outcome::Approved);
    });
}

#[test]
fn what_needs_a_proof_has_no_button_for_a_yes() {
    run(async {
        let bus = PrivateBus::start();
        let (world, files) = (World::start(bus.address()).await, Files::new());
        let client = world.connect().await;
        let mut supervisor = world.session(&client, "").await;
        let mut server = Server::silent();
        start(&world, files.of(&server.url("/"), "")).await;
        let mut request = supervisor.request(1, "/srv/x");
        request.level = Level::Authenticate;
        supervisor.send(FromSession::Ask(Box::new(request))).await;
        let asked = server.event("asked").await;
        let answers = asked["answers"].as_array().unwrap();
        assert_eq!((answers.len(), answers[0]["answer"].as_str()), (1, Some("deny")));
        assert!(asked["note"].as_str().unwrap().contains("gatedctl approve 00000000"), "{asked}");
        client.decide(1, "deny").await.unwrap();
        supervisor.decided().await;
    });
}

/// Whether a text somewhere in it has a character that could show as something else.
fn raw(value: &Value) -> bool {
    match value {
        Value::String(text) => text.chars().any(|c| c.is_control() || ('\u{202a}'..='\u{202e}').contains(&c)),
        Value::Array(values) => values.iter().any(raw),
        Value::Object(values) => values.values().any(raw),
        _ => false,
    }
}

#[test]
fn a_command_is_told_with_all_that_runs_and_nothing_of_it_is_raw() {
    run(async {
        let bus = PrivateBus::start();
        let (world, files) = (World::start(bus.address()).await, Files::new());
        let client = world.connect().await;
        let mut supervisor = world.session(&client, "").await;
        let mut server = Server::silent();
        start(&world, files.of(&server.url("/"), "")).await;
        let words = ["git", "push", "\u{1b}[2J\n\u{202e}Allow once", "--password=hunter2"];
        let mut request = supervisor.request(1, "/usr/bin/git");
        (request.access, request.operation) = (Access::Exec, Operation::Execute);
        request.execution = Some(Box::new(Execution {
            argv: words.map(Untrusted::new).to_vec(),
            words_left_out: 0,
            interpreters: vec!["/usr/bin/perl".into()],
            variables: vec![Untrusted::new("LD_PRELOAD=/tmp/x.so")],
            parents: Vec::new(),
            is_new: true,
            version: None,
            is_first: false,
        }));
        supervisor.send(FromSession::Ask(Box::new(request))).await;
        let asked = server.event("asked").await;
        let text = asked.to_string();
        assert!(!text.contains("hunter2") && text.contains("LD_PRELOAD=/tmp/x.so"), "{text}");
        assert!(!raw(&asked), "{text}");
        assert!(text.contains("written during this session") && text.contains("/usr/bin/perl"), "{text}");

        // What does not fit is not half shown and then allowed.
        let mut request = supervisor.request(2, "/usr/bin/git");
        (request.access, request.operation) = (Access::Exec, Operation::Execute);
        let argv = ["git".to_owned(), "x".repeat(30_000)].map(Untrusted::new).to_vec();
        request.execution = Some(Box::new(Execution {
            argv,
            words_left_out: 0,
            interpreters: Vec::new(),
            variables: Vec::new(),
            parents: Vec::new(),
            is_new: false,
            version: None,
            is_first: false,
        }));
        client.decide(1, "deny").await.unwrap();
        supervisor.decided().await;
        supervisor.send(FromSession::Ask(Box::new(request))).await;
        let asked = server.event("asked").await;
        assert_eq!(asked["answers"].as_array().unwrap().len(), 1, "{asked}");
        assert!(asked["note"].as_str().unwrap().starts_with("Too long"), "{asked}");
        assert!(asked.to_string().len() < 32 << 10);
        client.decide(2, "deny").await.unwrap();
        supervisor.decided().await;
    });
}

#[test]
fn an_ntfy_server_gets_buttons_whose_presses_answer() {
    run(async {
        let bus = PrivateBus::start();
        let (world, files) = (World::start(bus.address()).await, Files::new());
        let client = world.connect().await;
        let mut supervisor = world.session(&client, "").await;
        // As ntfy does: what is posted to a topic comes out of the streams of that topic.
        let (pressed, presses) = std::sync::mpsc::channel::<String>();
        let presses = Mutex::new(presses);
        let mut server = Server::start(move |received, stream| {
            use std::io::Write;
            match received.method.as_str() {
                "POST" => answer(stream, "200 OK", b"{}"),
                _ => {
                    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
                    let open = json!({ "id": "a0", "time": 1, "event": "open", "topic": "t" });
                    let _ = stream.write_all(format!("{open}\nnot JSON\n").as_bytes());
                    let Ok(press) = presses.lock().unwrap().recv() else { return };
                    for message in ["hello", "{\"request\":\"1\",\"token\":\"2\"}", &press] {
                        let event =
                            json!({ "id": "a1", "time": 1, "event": "message", "topic": "t", "message": message });
                        let _ = stream.write_all(format!("{event}\n").as_bytes());
                    }
                }
            }
        });
        files.own(&format!(
            "mode = \"ntfy\"\nurl = \"{}\"\ntopic = \"gated-requests-0f3a\"\nreply_topic = \"gated-replies-77ab\"\naccess_token = \"tk_1\"",
            server.url("/")
        ));
        start(&world, files.read().unwrap()).await;
        supervisor.ask(1, "/srv/x").await;
        let mut body = None;
        while body.is_none() {
            let received = server.next().await;
            assert_eq!(received.headers["authorization"], "Bearer tk_1");
            match received.method.as_str() {
                "POST" => body = Some(serde_json::from_slice::<Value>(&received.body).unwrap()),
                _ => assert!(received.target.starts_with("/gated-replies-77ab/json?since="), "{}", received.target),
            }
        }
        let body = body.unwrap();
        let text = |key: &str| body[key].as_str().unwrap_or_default();
        assert_eq!((text("topic"), text("title")), ("gated-requests-0f3a", "tool wants to create /srv/x"));
        let actions = body["actions"].as_array().unwrap();
        let labels: Vec<&str> = actions.iter().map(|action| action["label"].as_str().unwrap()).collect();
        assert_eq!(labels, ["Deny", "Allow once", "Allow for the session"]);
        assert_eq!(actions[1]["url"].as_str().unwrap(), server.url("/gated-replies-77ab"));
        pressed.send(actions[1]["body"].as_str().unwrap().to_owned()).unwrap();
        assert_eq!(supervisor.decided().await.outcome, Outcome::Approved);
    });
}
