//! What a bridge sends back: nothing counts but the very token of an answer that was offered.

use std::time::{Duration, Instant};

use gated::common::consent::Answer;
use gated::common::decision::Width;
use gated::common::id::RequestId;
use gated::consent::webhook::ntfy::{self, Heard};
use gated::consent::webhook::replies::{Desk, Replies, Reply, is_cursor};
use gated::consent::webhook::signature::Secret;

/// Seconds since 1970.
const WALL: u64 = 1_700_000_000;
const REQUEST: RequestId = RequestId(0x1122_3344_5566_7788_99aa_bbcc_ddee_ff00);

/// The body of a response, or a line of a stream.
pub fn check(body: &[u8]) {
    if let Ok(read) = Replies::parse(body) {
        assert!(read.replies.len() <= 64 && read.next.as_deref().is_none_or(is_cursor));
        read.replies.iter().for_each(counts);
    }
    match ntfy::heard(body) {
        Some(Heard::Reply(reply, next)) => {
            assert!(is_cursor(&next));
            counts(&reply);
        }
        Some(Heard::Nothing(next)) => assert!(next.as_deref().is_none_or(is_cursor)),
        None => {}
    }
}

fn counts(reply: &Reply) {
    for is_signed in [false, true] {
        let secret = || Secret::new("a secret that both sides know, of 32 bytes");
        let mut desk = Desk::new(Secret::new("of this process alone, and 32 bytes long"), is_signed.then(secret));
        let now = Instant::now();
        let answers = vec![Answer::Deny, Answer::Once(Width::Exact), Answer::Session(Width::Tree)];
        let tokens = desk.open(REQUEST, 1000, now + Duration::from_secs(60), answers.clone());
        match desk.take(reply, now, WALL) {
            Err(_) => assert_eq!(desk.waiting(), 1),
            Ok((request, answer)) => {
                assert_eq!((request, desk.waiting()), (REQUEST, 0));
                let at = tokens.iter().position(|token| *token == reply.token).expect("one of the tokens");
                assert_eq!(answers[at], answer);
                assert!(!is_signed || reply.timestamp.abs_diff(WALL) <= 300);
                assert!(desk.take(reply, now, WALL).is_err(), "once");
            }
        }
    }
}
