//! Whatever bytes a tool sends to the session's resolver, or a file has, nothing ends or misleads it.

use gated::session::names::hosts::{self, Hosts};
use gated::session::names::packet::{Carrier, Decoded, Reply, decode};
use gated::session::names::question::{Meaning, meaning};
use gated::session::names::upstream::Settings;
use hickory_proto::op::Message;
use proptest::collection::vec;
use proptest::prelude::*;

/// What is sent back to a packet, whatever its name has.
fn replies(packet: &[u8]) -> Option<Vec<u8>> {
    match decode(packet) {
        Decoded::Nothing => None,
        Decoded::Answered(bytes) => Some(bytes),
        Decoded::Query(query) => {
            if let Meaning::LookUp { judged, asked } = meaning(&query.question.name, query.question.query_type) {
                // What is looked up is what was judged, or a service of it.
                assert!(asked == judged || asked.is_below(&judged), "{asked} as {judged}");
                assert!(
                    asked.as_str().bytes().all(|byte| byte.is_ascii_lowercase() || b"0123456789-_.".contains(&byte))
                );
            }
            Some(query.encode(&Reply::default(), Carrier::Datagram))
        }
    }
}

fn holds(packet: &[u8]) {
    if let Some(bytes) = replies(packet) {
        assert!(bytes.len() <= 4096);
        let answer = Message::from_vec(&bytes).expect("a message");
        assert_eq!(bytes.get(..2), packet.get(..2), "the answer is to this question");
        assert!(answer.answers.len() <= 1);
    }
}

fn question() -> impl Strategy<Value = Vec<u8>> {
    (vec(vec(any::<u8>(), 1..64), 0..6), any::<u16>(), 0..4_u16, vec(any::<u8>(), 0..40)).prop_map(
        |(labels, kind, class, rest)| {
            let mut packet = vec![7, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, u8::from(!rest.is_empty())];
            for label in labels {
                packet.push(label.len() as u8);
                packet.extend(label);
            }
            packet.push(0);
            packet.extend((kind % 300).to_be_bytes());
            packet.extend(class.to_be_bytes());
            packet.extend(rest);
            packet
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(4096) })]

    #[test]
    fn any_bytes_are_no_question_or_answered(bytes in vec(any::<u8>(), 0..600)) {
        holds(&bytes);
    }

    #[test]
    fn any_question_is_answered(packet in question()) {
        holds(&packet);
    }

    #[test]
    fn a_damaged_question_is_answered(packet in question(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut packet = packet;
        let at = at.index(packet.len());
        packet[at] = byte;
        holds(&packet);
        holds(&packet[..at]);
    }

    #[test]
    fn any_files_of_the_host_can_be_read(text in vec(any::<u8>(), 0..400)) {
        let settings = Settings::parse(&text);
        prop_assert!(!settings.servers.is_empty());
        let again = Hosts::parse(&hosts::for_session(&text, None));
        prop_assert!(again.addresses_of(&"localhost".parse().unwrap()).is_some());
    }
}
