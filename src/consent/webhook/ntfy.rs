//! The same by an ntfy server (ntfy.sh, or one of one's own): a message with buttons on one topic, replies on another. Runs
//! as the person who is asked. Nothing signs here: who knows the names of the topics can read, and answer what waits.
//!
//! Follows "Publish as JSON", "Action buttons" and "Subscribe as JSON stream" of the documentation of ntfy 2.

use serde::{Deserialize, Serialize};
use ureq::http::Uri;

use super::client::Header;
use super::config::Topics;
use super::message::{Choice, Message};
use super::replies::{Reply, is_cursor};
use crate::common::id::RequestId;
use crate::common::text;

/// ntfy takes three buttons, and 4,096 bytes of text.
const BUTTONS: usize = 3;
const TEXT: usize = 3000;
/// "high": with a sound.
const PRIORITY: u8 = 4;
const QUIET: u8 = 2;

#[derive(Serialize)]
struct Publish<'a> {
    topic: &'a str,
    title: &'a str,
    message: &'a str,
    priority: u8,
    tags: [&'static str; 1],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    actions: Vec<Action<'a>>,
}

#[derive(Serialize)]
struct Action<'a> {
    action: &'static str,
    label: &'a str,
    url: String,
    method: &'static str,
    body: String,
    clear: bool,
}

#[derive(Serialize)]
struct Pressed<'a> {
    request: String,
    token: &'a str,
}

pub fn headers(topics: &Topics) -> Vec<Header> {
    topics.access_token.iter().map(|token| ("Authorization", format!("Bearer {}", token.0))).collect()
}

/// The body of a message to the server's root. Wider answers have no button.
pub fn asked(server: &Uri, topics: &Topics, message: &Message, choices: &[Choice], tokens: &[String]) -> Vec<u8> {
    let mut said: Vec<String> = message.lines.iter().map(|line| format!("{}: {}", line.label, line.text)).collect();
    let plain = || choices.iter().zip(tokens).filter(|(choice, _)| choice.is_plain).take(BUTTONS);
    said.extend(plain().map(|(choice, _)| format!("{}: {}", choice.label, choice.means)));
    said.push(format!("for: {} on {}, {} s left", message.user, message.host, message.left().as_secs()));
    said.extend(message.note.clone());
    let (mut shown, mut is_whole) = (String::new(), true);
    for line in said {
        if shown.len().saturating_add(line.len()) < TEXT {
            shown.push_str(&line);
            shown.push('\n');
        } else {
            is_whole = false;
        }
    }
    if !is_whole {
        shown.push_str("Not all fits here: gatedctl show\n");
    }
    let body = |request: RequestId, token| {
        serde_json::to_string(&Pressed { request: request.to_string(), token }).unwrap_or_default()
    };
    // What cannot be read cannot be allowed.
    let offered = plain().filter(|(choice, _)| is_whole || !choice.answer.says_yes());
    let actions = offered.map(|(choice, token)| Action {
        action: "http",
        label: &choice.label,
        url: topic(server, &topics.replies),
        method: "POST",
        body: body(message.request, token),
        clear: true,
    });
    let publish = Publish {
        topic: &topics.requests,
        title: &message.summary,
        message: &shown,
        priority: PRIORITY,
        tags: ["lock"],
        actions: actions.collect(),
    };
    serde_json::to_vec(&publish).unwrap_or_default()
}

/// Tells that buttons are dead.
pub fn over(topics: &Topics, message: &str) -> Vec<u8> {
    let title = "gated: over";
    let publish =
        Publish { topic: &topics.requests, title, message, priority: QUIET, tags: ["unlock"], actions: Vec::new() };
    serde_json::to_vec(&publish).unwrap_or_default()
}

/// Where replies are streamed from; those after `since`, which is a message's id or a time.
pub fn stream(server: &Uri, topics: &Topics, since: &str) -> String {
    format!("{}/json?since={since}", topic(server, &topics.replies))
}

fn topic(server: &Uri, name: &str) -> String {
    let scheme = server.scheme_str().unwrap_or("https");
    let authority = server.authority().map(|authority| authority.as_str()).unwrap_or_default();
    format!("{scheme}://{authority}/{name}")
}

#[derive(Deserialize)]
struct Event {
    id: String,
    event: String,
    #[serde(default)]
    message: String,
}

/// What one line of the stream is.
#[derive(Debug, PartialEq, Eq)]
pub enum Heard {
    /// With what to ask for next.
    Reply(Reply, String),
    /// Somebody else's words on the topic, or none.
    Nothing(Option<String>),
}

pub fn heard(line: &[u8]) -> Option<Heard> {
    let event: Event = serde_json::from_slice(line).ok()?;
    if event.event != "message" {
        return Some(Heard::Nothing(None));
    }
    let next = is_cursor(&event.id).then_some(event.id);
    match (serde_json::from_str::<Reply>(&event.message), next) {
        (Ok(reply), Some(next)) => Some(Heard::Reply(reply, next)),
        (_, next) => Some(Heard::Nothing(next)),
    }
}

/// For the log.
pub fn shown(topics: &Topics) -> String {
    // Its name is a secret.
    let begins: String = topics.requests.chars().take(4).collect();
    text::escaped_within(format!("topic {begins}…").as_bytes(), 32)
}
