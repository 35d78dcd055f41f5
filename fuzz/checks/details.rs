//! Requests, notices and answers as they come over the bus: what is taken is put into words that draw only themselves, and an
//! answer that is taken is one that can be sent.

use std::collections::HashMap;

use gated::common::consent::Prompt;
use gated::common::details::{
    Details, MAX_EDITED, NoticeDetails, Question, answer_from_bus, answer_to_bus, request_id, session_id,
};
use gated::common::id::RequestId;
use gated::common::path::RawPath;
use gated::common::text;
use gated::consent::notify::draw::{self as notification, Capabilities, Person};
use gated::consent::notify::queue::Why;
use gated::consent::plain::question;
use gated::consent::terminal::dialog::Dialog;
use gated::consent::terminal::draw;
use gated::consent::webhook::message;
use gated::consent::words;
use zbus::wire::LE;
use zbus::wire::serialized::{Context, Data};
use zbus::{OwnedVariant, Type};

use super::feed::Feed;
use super::text::is_clean;

const REQUEST: &str = "00112233445566778899aabbccddeeff";
/// Below this no masked word is longer than a word can be.
const SMALL: usize = 4096;

/// The first byte says what the rest is: the body of a message in little-endian.
pub fn check(input: &[u8]) {
    let mut feed = Feed(input);
    match feed.byte() {
        0xff => notice(feed.0),
        0xfe => answer(feed.0),
        columns => asked(feed.0, usize::from(columns)),
    }
}

/// What a body of this type holds.
fn read<T: Type + serde::de::DeserializeOwned>(body: &[u8]) -> Option<T> {
    let data = Data::new(body.to_vec(), Context::new(LE, 0));
    data.deserialize().ok().map(|(value, _): (T, usize)| value)
}

fn asked(body: &[u8], columns: usize) {
    let Some(details) = read::<Details>(body) else { return };
    let user = details.user;
    let Ok(question) = details.question(REQUEST) else { return };
    assert_eq!(question.user, user);
    let prompt = Prompt::from(question);
    assert_eq!(prompt.id, RequestId(0x0011_2233_4455_6677_8899_aabb_ccdd_eeff));
    drawn(&prompt, columns);
    if body.len() < SMALL {
        let again: Question = Details::of(&prompt, user).question(REQUEST).expect("what was taken can be sent on");
        let (one, other) = (&prompt.request, &again.request);
        assert_eq!((one.access, one.operation, &one.object), (other.access, other.operation, &other.object));
        assert_eq!((&one.destination, one.service), (&other.destination, other.service));
        assert_eq!((&one.rule, one.level, one.remember), (&other.rule, other.level, other.remember));
    }
}

/// Every way to put it to a person.
fn drawn(prompt: &Prompt, columns: usize) {
    let mut said: Vec<String> =
        vec![words::intent(&prompt.request, columns), words::process(1, &"/x".into(), &[], columns)];
    said.extend(question::question(prompt, 7, true));
    let dialog = Dialog::new(prompt, true);
    let lines = draw::page(prompt, &dialog, columns, 24).unwrap_or_default();
    assert!(lines.iter().all(|line| text::columns(line) <= columns), "{columns}: {lines:?}");
    said.extend(lines);
    let person = Person { uid: 1000, home: Some(RawPath::from("/home/user")) };
    let server = Capabilities::from_words(&["body", "actions"]);
    let drawing = notification::request(prompt, None, &person, server, Why::New, 1);
    said.push(drawing.summary);
    said.extend(drawing.body.lines().map(str::to_owned));
    let (message, choices) = message::of(prompt, "alice", "box");
    said.push(message.summary);
    said.extend(message.lines.into_iter().map(|line| line.text));
    said.extend(choices.into_iter().flat_map(|choice| [choice.label, choice.means]));
    for line in said.iter().flat_map(|text| text.lines()) {
        assert!(is_clean(line), "{line:?}");
    }
}

fn notice(body: &[u8]) {
    let Some((kind, details)) = read::<(String, NoticeDetails)>(body) else { return };
    let Ok(notice) = details.notice(&kind) else { return };
    let again = NoticeDetails::of(&notice).notice(&kind);
    assert_eq!(again.as_ref(), Ok(&notice));
    assert!(is_clean(&words::notice(&notice, 200)));
}

fn answer(body: &[u8]) {
    let Some((decision, scope)) = read::<(String, HashMap<String, OwnedVariant>)>(body) else { return };
    if let Ok(id) = request_id(&decision) {
        assert_eq!(id.to_string(), decision);
    }
    if let Ok(id) = session_id(&decision) {
        assert_eq!(id.0, decision);
    }
    let Ok(answer) = answer_from_bus(&decision, &scope) else { return };
    let (word, own) = answer_to_bus(&answer);
    let own = own.into_iter().map(|(key, value)| (key.to_owned(), value.try_into_owned().expect("no descriptor")));
    assert_eq!(answer_from_bus(word, &own.collect()).as_ref(), Ok(&answer));
    if let gated::common::consent::Answer::Edit(argv) = &answer {
        assert!(!argv[0].is_empty() && argv.iter().all(|word| !word.contains(&0)));
        assert!(argv.iter().map(|word| word.len() + 1).sum::<usize>() <= MAX_EDITED);
    }
}
