//! Messages between processes of ours: what decodes is encoded again as the same message, and nothing that a peer sends takes
//! a receiver with it.

use gated::common::wire::{self, FromCaller, FromSession, Launch, Start, ToCaller, ToSession};
use gated::policy::{Grant, Grants, Policy, Profile};
use gated::tool::messages::{CallOrder, FromCall, FromInit, SocketOrders, SocketsMade, ToCall, ToInit};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The first byte says whose message the rest is.
pub fn check(input: &[u8]) {
    let Some((kind, body)) = input.split_first() else { return };
    match kind % 15 {
        0 => stays::<ToSession>(body),
        1 => stays::<FromSession>(body),
        2 => stays::<ToCaller>(body),
        3 => stays::<FromCaller>(body),
        4 => stays::<Launch>(body),
        5 => stays::<Start>(body),
        6 => stays::<ToInit>(body),
        7 => stays::<FromInit>(body),
        8 => stays::<ToCall>(body),
        9 => stays::<FromCall>(body),
        10 => stays::<CallOrder>(body),
        11 => stays::<SocketOrders>(body),
        12 => stays::<SocketsMade>(body),
        13 => grant(body),
        _ => profile(body),
    }
    if let Some((head, rest)) = input.split_first_chunk() {
        let most = wire::frame_length(*head).map_or(0, |length| length.min(wire::MAX_FRAME));
        assert!(most <= wire::MAX_FRAME && rest.len() < usize::MAX);
    }
}

fn stays<T: Serialize + DeserializeOwned>(body: &[u8]) {
    let Ok(message) = wire::decode::<T>(body) else { return };
    let frame = wire::encode(&message).expect("what was decoded can be sent");
    let (head, own) = frame.split_first_chunk().expect("a frame has a head");
    assert_eq!(wire::frame_length(*head).expect("a length that can be sent"), own.len());
    let again = wire::decode::<T>(own).expect("what was sent can be received");
    assert_eq!(wire::encode(&again).expect("the same again"), frame);
}

fn grant(body: &[u8]) {
    let Ok(grant) = Grant::decode(body) else { return };
    assert_eq!(Grant::decode(&grant.encode()).expect("what was encoded can be decoded"), grant);
    let shown = grant.scope();
    let mut grants = Grants::new();
    grants.add(grant.clone());
    assert!(grants.len() <= 1 && shown == grant.scope());
}

fn profile(body: &[u8]) {
    let Ok(profile) = Profile::decode(body) else { return };
    let encoded = profile.encode();
    let again = Profile::decode(&encoded).expect("what was encoded can be decoded");
    assert_eq!(again.encode(), encoded);
    drop(Policy::new(&profile));
}
