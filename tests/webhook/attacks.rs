//! What a bridge without the secret, a broken one, or one that remembers too much can try. Each time the request still waits
//! afterwards, and an honest reply still counts: nothing was used up, and nothing was answered.

use std::io::{Read, Write};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use gated::common::decision::Outcome;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::agent::{Files, start};
use super::server::{Received, Server, answer, now, reply, reply_at, token};
use super::world::*;

/// A server that gives to each fetching of replies what the test put there, and nothing else.
struct Box {
    server: Server,
    replies: Arc<Mutex<Vec<Value>>>,
}

impl Box {
    fn new() -> Box {
        let replies: Arc<Mutex<Vec<Value>>> = Arc::default();
        let kept = Arc::clone(&replies);
        let server = Server::start(move |received, stream| {
            let body = match received.method.as_str() {
                "GET" => json!({ "replies": std::mem::take(&mut *kept.lock().unwrap()) }).to_string(),
                _ => String::new(),
            };
            answer(stream, "200 OK", body.as_bytes());
        });
        Box { server, replies }
    }

    /// Waits until these were fetched, and the fetching after it: by then they were judged.
    async fn put(&mut self, replies: Vec<Value>) {
        *self.replies.lock().unwrap() = replies;
        let end = Instant::now() + LIMIT;
        while !self.replies.lock().unwrap().is_empty() {
            assert!(Instant::now() < end, "nobody fetches replies");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        while !self.server.is_left_alone() {}
        let fetched = async { while self.server.next().await.method != "GET" {} };
        within(fetched).await;
    }
}

#[test]
fn replies_that_are_forged_old_replayed_or_for_another_request_count_for_nothing() {
    run(async {
        let bus = PrivateBus::start();
        let (world, files) = (World::start(bus.address()).await, Files::new());
        let client = world.connect().await;
        let (mut supervisor, mut other) = (world.session(&client, "").await, world.session(&client, "").await);
        let mut post = Box::new();
        let more = format!("reply_url = \"{}\"\npoll = \"1s\"", post.server.url("/replies"));
        start(&world, files.of(&post.server.url("/hook"), &more)).await;

        supervisor.ask(1, "/srv/a").await;
        let a = post.server.event("asked").await;
        let (id, yes) = (a["request"].as_str().unwrap(), token(&a, "session", Some("exact")));
        let good = reply(id, &yes);
        let changed = |key: &str, value: Value| {
            let mut reply = good.clone();
            reply[key] = value;
            reply
        };
        post.put(vec![
            changed("signature", json!("")),
            changed("signature", json!(format!("v1={}", "0".repeat(64)))),
            changed("timestamp", json!(now() + 1)),
            // Signed, but with another answer's token under the signature of this one.
            changed("token", json!(token(&a, "deny", None))),
            reply_at(id, &yes, now() - 301),
            reply_at(id, &yes, now() + 600),
            reply(id, &"0".repeat(64)),
            reply(id, ""),
            reply(&format!("{:032x}", 77), &yes),
            reply("1", &yes),
        ])
        .await;
        assert_eq!(waiting(&world.core), 1, "{:?}", world.audited());

        // The token of one request is none of another's, and the reply to it neither.
        other.ask(2, "/srv/b").await;
        let b = post.server.event("asked").await;
        let of_b = b["request"].as_str().unwrap();
        post.put(vec![reply(of_b, &yes)]).await;
        assert_eq!(waiting(&world.core), 2);

        // The honest one counts, and once: again it opens nothing, not even what is asked anew.
        post.put(vec![good.clone()]).await;
        assert_eq!(supervisor.decided().await.outcome, Outcome::Approved);
        supervisor.ask(3, "/srv/c").await;
        post.server.event("asked").await;
        post.put(vec![good.clone(), reply(id, &token(&a, "deny", None)), good]).await;
        assert_eq!(waiting(&world.core), 2, "{:?}", world.audited());
        client.decide(3, "deny").await.unwrap();
        assert_eq!(supervisor.decided().await.outcome, Outcome::Denied);

        // A second answer, after the first: the first one counted.
        let both = vec![reply(of_b, &token(&b, "deny", None)), reply(of_b, &token(&b, "session", Some("tree")))];
        *post.replies.lock().unwrap() = both;
        assert_eq!(other.decided().await.outcome, Outcome::Denied);
        assert_eq!(world.audited().len(), 3);
    });
}

#[test]
fn a_reply_after_the_deadline_comes_to_nothing() {
    run(async {
        let bus = PrivateBus::start();
        let (world, files) = (World::start(bus.address()).await, Files::new());
        let client = world.connect().await;
        let mut supervisor = world.session(&client, "[prompt]\ntimeout = \"1s\"\n").await;
        let mut post = Box::new();
        let more = format!("reply_url = \"{}\"\npoll = \"1s\"", post.server.url("/replies"));
        start(&world, files.of(&post.server.url("/hook"), &more)).await;
        supervisor.ask(1, "/srv/a").await;
        let a = post.server.event("asked").await;
        assert_eq!(supervisor.decided().await.outcome, Outcome::Timeout);
        post.server.event("withdrawn").await;
        // Something waits, so that replies are fetched.
        let mut other = world.session(&client, "").await;
        other.ask(2, "/srv/b").await;
        post.put(vec![reply(a["request"].as_str().unwrap(), &token(&a, "once", Some("exact")))]).await;
        assert_eq!(world.audited().len(), 1, "{:?}", world.audited());
        client.decide(2, "deny").await.unwrap();
        other.decided().await;
    });
}

/// Asks, and gives what came of it at the bridge and what else it saw; the request still waits then.
async fn waits_after(handler: impl Fn(&Received, &mut std::net::TcpStream) + Send + Sync + 'static, more: &str) {
    let bus = PrivateBus::start();
    let (world, files) = (World::start(bus.address()).await, Files::new());
    let client = world.connect().await;
    let mut supervisor = world.session(&client, "").await;
    let (done, mut is_done) = mpsc::unbounded_channel();
    let mut server = Server::start(move |received, stream| {
        handler(received, stream);
        // What it does ends when the other side has had enough of it.
        let _ = done.send(());
    });
    start(&world, files.of(&server.url("/hook"), more)).await;
    supervisor.ask(1, "/srv/a").await;
    server.event("asked").await;
    within(is_done.recv()).await.unwrap();
    assert_eq!((waiting(&world.core), world.audited().len()), (1, 0));
    client.decide(1, "deny").await.unwrap();
    assert_eq!(supervisor.decided().await.outcome, Outcome::Denied);
}

/// A reply that would count.
fn yes(received: &Received) -> Value {
    let asked = received.verified();
    reply(asked["request"].as_str().unwrap(), &token(&asked, "once", Some("exact")))
}

#[test]
fn a_redirect_is_not_followed() {
    run(async {
        for status in ["301 Moved", "302 Found", "307 Temporary", "308 Permanent"] {
            let mut elsewhere = Server::silent();
            let place = elsewhere.url("/steal");
            let redirect = move |received: &Received, stream: &mut std::net::TcpStream| {
                if received.verified()["event"] == "asked" {
                    let body = yes(received).to_string();
                    let head = format!(
                        "HTTP/1.1 {status}\r\nLocation: {place}\r\nContent-Length: {}\r\n\r\n{body}",
                        body.len()
                    );
                    let _ = stream.write_all(head.as_bytes());
                }
            };
            waits_after(redirect, "").await;
            assert!(elsewhere.is_left_alone(), "{status}");
        }
    });
}

#[test]
fn a_response_without_end_is_cut_off_and_nothing_of_it_counts() {
    run(async {
        waits_after(
            |received, stream| {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
                let _ = stream.write_all(yes(received).to_string().as_bytes());
                // Until the other side hangs up; far more than any buffer between holds.
                let mut sent: u64 = 0;
                while sent < 1 << 30 && stream.write_all(&[b' '; 1 << 16]).is_ok() {
                    sent += 1 << 16;
                }
                assert!(sent < 1 << 26, "{sent} bytes were taken");
            },
            "",
        )
        .await;
        // The same of headers.
        waits_after(
            |_, stream| {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n");
                while stream.write_all(format!("X-Fill: {}\r\n", "x".repeat(1 << 12)).as_bytes()).is_ok() {}
            },
            "",
        )
        .await;
    });
}

#[test]
fn a_response_that_never_ends_is_given_up_in_time() {
    run(async {
        let begun = Instant::now();
        waits_after(
            |received, stream| {
                let body = yes(received).to_string();
                let _ =
                    stream.write_all(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()).as_bytes());
                // A byte now and then, so that no single reading takes long.
                for byte in body.as_bytes() {
                    let sent = stream.write_all(&[*byte]);
                    stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
                    let hung_up = matches!(stream.read(&mut [0]), Ok(0));
                    if sent.is_err() || hung_up {
                        return;
                    }
                }
                panic!("all of it was taken");
            },
            "timeout = \"1s\"",
        )
        .await;
        assert!(begun.elapsed() < Duration::from_secs(10));
    });
}

#[test]
fn a_response_that_is_no_reply_counts_for_nothing() {
    run(async {
        for body in ["yes", "{\"request\":5}", "[1,2", "\u{0}\u{1}", "{\"replies\":[{}]}"] {
            waits_after(move |_, stream| answer(stream, "200 OK", body.as_bytes()), "").await;
        }
        waits_after(|received, stream| answer(stream, "404 Not Found", yes(received).to_string().as_bytes()), "").await;
        waits_after(|_, stream| drop(stream.write_all(b"\xff\xfe\r\n\r\n")), "").await;
    });
}
