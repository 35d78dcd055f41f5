//! Which replies count. Pure: what was asked, what came back and when goes in, an answer or why there is none comes out. Runs
//! as the person who is asked; every reply is the word of whoever reached the bridge.
//!
//! | a reply | |
//! |---|---|
//! | names a request | that waits, before its deadline |
//! | brings a token | of this asking of this request, of its user, for one answer; made with a key that only this process has |
//! | is signed | with the secret, over its time, its request and its token; of ntfy, where nobody could sign, the token is all |
//! | is not old | within five minutes of this clock |
//! | counts | once: with it the request waits no more |

use std::collections::BTreeMap;
use std::time::Instant;

use serde::Deserialize;

use super::signature::Secret;
use crate::common::consent::Answer;
use crate::common::details::request_id;
use crate::common::id::RequestId;

/// Seconds that a reply's clock and this one may be apart.
pub const MOST_APART: u64 = 300;
/// Replies of one response that are looked at.
const MOST_AT_ONCE: usize = 64;

/// One reply as it came.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct Reply {
    pub request: String,
    pub token: String,
    /// Seconds since 1970.
    #[serde(default)]
    pub timestamp: u64,
    #[serde(default)]
    pub signature: String,
}

/// What a bridge's response holds.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Replies {
    pub replies: Vec<Reply>,
    /// What to ask for next.
    pub next: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Response {
    One(Reply),
    Many {
        replies: Vec<Reply>,
        #[serde(default)]
        next: Option<String>,
    },
}

/// A response that is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Nonsense {
    #[error("it is no JSON of a reply")]
    Form,
    #[error("it has more than {MOST_AT_ONCE} replies")]
    TooMany,
    #[error("its `next` is not 1 to 128 letters, digits, `-`, `_`, `.`, `~`")]
    Next,
}

impl Replies {
    /// From the body of a response; an empty one has no replies.
    pub fn parse(body: &[u8]) -> Result<Replies, Nonsense> {
        if body.trim_ascii().is_empty() {
            return Ok(Replies::default());
        }
        match serde_json::from_slice(body).map_err(|_| Nonsense::Form)? {
            Response::One(reply) => Ok(Replies { replies: vec![reply], next: None }),
            Response::Many { replies, .. } if replies.len() > MOST_AT_ONCE => Err(Nonsense::TooMany),
            Response::Many { next: Some(next), .. } if !is_cursor(&next) => Err(Nonsense::Next),
            Response::Many { replies, next } => Ok(Replies { replies, next }),
        }
    }
}

/// What can stand in a query as it is.
pub fn is_cursor(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~');
    (1..=128).contains(&text.len()) && text.bytes().all(plain)
}

/// Why a reply counts for nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Ignored {
    #[error("it names no request")]
    NoId,
    #[error("its time is more than five minutes from this clock")]
    Old,
    #[error("its signature is not that of the secret")]
    Unsigned,
    #[error("the request does not wait (any more)")]
    NotWaiting,
    #[error("it comes after the deadline")]
    Late,
    #[error("its token is for none of the answers to this request")]
    NoToken,
}

struct Open {
    user: u32,
    asking: u64,
    deadline: Instant,
    answers: Vec<Answer>,
}

/// The requests that wait for a reply.
pub struct Desk {
    /// Of the tokens: with the process they end.
    key: Secret,
    /// Of the replies; `None` where nobody could sign.
    secret: Option<Secret>,
    open: BTreeMap<RequestId, Open>,
    askings: u64,
}

impl Desk {
    pub fn new(key: Secret, secret: Option<Secret>) -> Desk {
        Desk { key, secret, open: BTreeMap::new(), askings: 0 }
    }

    /// A request waits from now on; gives a token for each of its answers. One that was asked before is asked anew: what was
    /// said then counts no more.
    pub fn open(&mut self, request: RequestId, user: u32, deadline: Instant, answers: Vec<Answer>) -> Vec<String> {
        self.askings = self.askings.wrapping_add(1);
        let open = Open { user, asking: self.askings, deadline, answers };
        let tokens = open.answers.iter().map(|answer| self.key.tag(&token(request, &open, answer).each())).collect();
        self.open.insert(request, open);
        tokens
    }

    /// It waits no more. Whether it did.
    pub fn close(&mut self, request: RequestId) -> bool {
        self.open.remove(&request).is_some()
    }

    pub fn waiting(&self) -> usize {
        self.open.len()
    }

    /// `now` is this process's clock, `wall` seconds since 1970. A reply that counts closes its request.
    pub fn take(&mut self, reply: &Reply, now: Instant, wall: u64) -> Result<(RequestId, Answer), Ignored> {
        // First, so that who has no secret learns nothing, not even by the time that it takes.
        if let Some(secret) = &self.secret {
            let time = reply.timestamp.to_string();
            let parts: [&[u8]; 3] = [time.as_bytes(), reply.request.as_bytes(), reply.token.as_bytes()];
            if !secret.verifies(&parts, &reply.signature) {
                return Err(Ignored::Unsigned);
            }
            if wall.abs_diff(reply.timestamp) > MOST_APART {
                return Err(Ignored::Old);
            }
        }
        let request = request_id(&reply.request).map_err(|_| Ignored::NoId)?;
        let open = self.open.get(&request).ok_or(Ignored::NotWaiting)?;
        if now >= open.deadline {
            return Err(Ignored::Late);
        }
        let is_its = |answer: &&Answer| self.key.is_tag(&token(request, open, answer).each(), &reply.token);
        let answer = open.answers.iter().find(is_its).cloned().ok_or(Ignored::NoToken)?;
        self.open.remove(&request);
        Ok((request, answer))
    }
}

/// What a token is of.
struct Token([String; 4]);

impl Token {
    fn each(&self) -> [&[u8]; 4] {
        let [asking, user, request, answer] = &self.0;
        [asking.as_bytes(), user.as_bytes(), request.as_bytes(), answer.as_bytes()]
    }
}

fn token(request: RequestId, open: &Open, answer: &Answer) -> Token {
    // Nothing in it is anybody's choice but ours; a change of how an answer reads changes tokens of one process only.
    Token([open.asking.to_string(), open.user.to_string(), request.to_string(), format!("{answer:?}")])
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::common::decision::Width;

    const WALL: u64 = 1_700_000_000;

    fn secret() -> Secret {
        Secret::new("a secret that both sides of this know")
    }

    fn desk() -> Desk {
        Desk::new(Secret::random().unwrap(), Some(secret()))
    }

    fn answers() -> Vec<Answer> {
        vec![Answer::Deny, Answer::Once(Width::Exact), Answer::Session(Width::Exact), Answer::Session(Width::Tree)]
    }

    fn later() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    fn signed(request: RequestId, token: &str, timestamp: u64) -> Reply {
        let request = request.to_string();
        let parts: [&[u8]; 3] = [&timestamp.to_string().into_bytes(), request.as_bytes(), token.as_bytes()];
        Reply { signature: secret().sign(&parts), token: token.to_owned(), timestamp, request }
    }

    const A: RequestId = RequestId(1);
    const B: RequestId = RequestId(2);

    #[test]
    fn each_token_is_for_its_answer_and_counts_once() {
        for (at, answer) in answers().into_iter().enumerate() {
            let mut desk = desk();
            let tokens = desk.open(A, 1000, later(), answers());
            let reply = signed(A, &tokens[at], WALL);
            assert_eq!(desk.take(&reply, Instant::now(), WALL), Ok((A, answer)));
            assert_eq!(desk.take(&reply, Instant::now(), WALL), Err(Ignored::NotWaiting), "replayed");
            let other = signed(A, &tokens[0], WALL);
            assert_eq!(desk.take(&other, Instant::now(), WALL), Err(Ignored::NotWaiting), "a second answer");
        }
    }

    #[test]
    fn a_token_of_another_request_user_asking_or_process_is_none() {
        let mut own = desk();
        let of_a = own.open(A, 1000, later(), answers());
        let of_b = own.open(B, 1001, later(), answers());
        assert!(of_a.iter().all(|token| !of_b.contains(token)));
        assert_eq!(own.take(&signed(B, &of_a[1], WALL), Instant::now(), WALL), Err(Ignored::NoToken));
        // The same request of somebody else, or asked again.
        let again = own.open(A, 1000, later(), answers());
        assert_ne!(of_a, again);
        assert_eq!(own.take(&signed(A, &of_a[1], WALL), Instant::now(), WALL), Err(Ignored::NoToken));
        // An answer that was not offered, a process before this one.
        let mut brief = desk();
        brief.open(A, 1000, later(), vec![Answer::Deny]);
        assert_eq!(brief.take(&signed(A, &again[1], WALL), Instant::now(), WALL), Err(Ignored::NoToken));
        for token in ["", "00", "zz", &"0".repeat(64), &again[1].to_uppercase()] {
            assert_eq!(own.take(&signed(A, token, WALL), Instant::now(), WALL), Err(Ignored::NoToken), "{token}");
        }
        // None of it used it up.
        assert!(own.take(&signed(A, &again[1], WALL), Instant::now(), WALL).is_ok());
        assert!(own.take(&signed(B, &of_b[0], WALL), Instant::now(), WALL).is_ok());
    }

    #[test]
    fn what_is_not_signed_or_old_or_late_does_not_count() {
        let mut desk = desk();
        let end = later();
        let tokens = desk.open(A, 1000, end, answers());
        let good = signed(A, &tokens[1], WALL);
        for forged in [
            Reply { signature: String::new(), ..good.clone() },
            Reply { signature: good.signature.replace("v1=", "v2="), ..good.clone() },
            Reply { timestamp: WALL + 1, ..good.clone() },
            Reply { token: tokens[2].clone(), ..good.clone() },
            Reply { request: B.to_string(), ..good.clone() },
        ] {
            assert_eq!(desk.take(&forged, Instant::now(), WALL), Err(Ignored::Unsigned));
        }
        for wall in [WALL + MOST_APART + 1, WALL - MOST_APART - 1, 0, u64::MAX] {
            assert_eq!(desk.take(&good, Instant::now(), wall), Err(Ignored::Old));
        }
        assert_eq!(desk.take(&signed(B, &tokens[1], WALL), Instant::now(), WALL), Err(Ignored::NotWaiting));
        assert_eq!(desk.take(&good, end, WALL), Err(Ignored::Late));
        assert_eq!(desk.take(&good, Instant::now(), WALL + MOST_APART).map(|(request, _)| request), Ok(A));
    }

    #[test]
    fn a_response_is_nothing_a_reply_or_a_list_of_them() {
        let one = r#"{"request":"00","token":"11","timestamp":5,"signature":"v1=22","more":1}"#;
        assert_eq!(Replies::parse(one.as_bytes()).unwrap().replies.len(), 1);
        let many = Replies::parse(format!("{{\"replies\":[{one},{one}],\"next\":\"7-a\"}}").as_bytes()).unwrap();
        assert_eq!((many.replies.len(), many.next.as_deref()), (2, Some("7-a")));
        for empty in ["", " \n", "{\"replies\":[]}"] {
            assert_eq!(Replies::parse(empty.as_bytes()), Ok(Replies::default()));
        }
        for wrong in ["ok", "[]", "{}", "{\"request\":1}", "{\"replies\":{}}", "\u{0}", &"[".repeat(60_000)] {
            assert_eq!(Replies::parse(wrong.as_bytes()), Err(Nonsense::Form), "{wrong:.20}");
        }
        let flood = format!("{{\"replies\":[{}]}}", vec![one; 65].join(","));
        assert_eq!(Replies::parse(flood.as_bytes()), Err(Nonsense::TooMany));
        assert_eq!(Replies::parse(b"{\"replies\":[],\"next\":\"a&b\"}"), Err(Nonsense::Next));
    }
}
