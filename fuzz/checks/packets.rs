//! Packets of DNS that a tool sends to the session's resolver, and the host's own files of names and resolvers.

use std::net::{Ipv4Addr, Ipv6Addr};

use gated::session::names::hosts::{self, Hosts};
use gated::session::names::packet::{Carrier, Decoded, Query, Reply, decode};
use gated::session::names::question::{Meaning, meaning};
use gated::session::names::upstream::Settings;
use hickory_proto::op::{Message, MessageType, ResponseCode};
use hickory_proto::rr::rdata::{A, AAAA};
use hickory_proto::rr::{RData, Record};

use super::feed::Feed;

/// Bytes of a datagram at the most.
const MOST: usize = 4096;

/// The first byte says what the rest is; of a packet it is how many records it is answered with.
pub fn check(input: &[u8]) {
    let mut feed = Feed(input);
    match feed.byte() {
        0xfe => host_names(feed.0),
        0xff => resolvers(feed.0),
        count => packet(feed.0, count),
    }
}

fn packet(packet: &[u8], count: u8) {
    match decode(packet) {
        Decoded::Nothing => assert!(packet.len() < 12 || packet[2] & 0x80 != 0),
        Decoded::Answered(bytes) => assert!(response(&bytes, packet).len() <= MOST),
        Decoded::Query(query) => {
            if let Meaning::LookUp { judged, asked } = meaning(&query.question.name, query.question.query_type) {
                // What is looked up is what was judged, or a service of it.
                assert!(asked == judged || asked.is_below(&judged), "{asked} as {judged}");
            }
            answered(&query, packet, count);
        }
    }
}

/// A message that answers this packet.
fn response<'a>(bytes: &'a [u8], packet: &[u8]) -> &'a [u8] {
    let answer = Message::from_vec(bytes).expect("a message");
    assert_eq!(answer.metadata.message_type, MessageType::Response);
    assert_eq!(bytes.get(..2), packet.get(..2), "the answer is to this question");
    assert!(answer.answers.len() <= 1 || answer.queries.len() == 1);
    bytes
}

fn answered(query: &Query, packet: &[u8], count: u8) {
    let record = |at: u8| {
        let data = match at % 2 {
            0 => RData::A(A(Ipv4Addr::new(192, 0, 2, at))),
            _ => RData::AAAA(AAAA(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, u16::from(at)))),
        };
        Record::from_rdata(query.question.name.clone(), 60, data)
    };
    let reply = Reply { code: ResponseCode::NoError, answers: (0..count).map(record).collect(), ..Reply::default() };
    for (carrier, most) in [(Carrier::Datagram, MOST), (Carrier::Stream, usize::from(u16::MAX))] {
        let bytes = query.encode(&reply, carrier);
        assert!(response(&bytes, packet).len() <= most, "{carrier:?}: {}", bytes.len());
        let answer = Message::from_vec(&bytes).expect("a message");
        assert_eq!(answer.queries, std::slice::from_ref(&query.question));
        let is_whole = answer.answers.len() == usize::from(count);
        assert!(is_whole || answer.metadata.truncation, "{carrier:?}: {} of {count}", answer.answers.len());
    }
}

fn host_names(text: &[u8]) {
    let read = Hosts::parse(text);
    for other in [None, Some("box".parse().expect("a name"))] {
        let again = Hosts::parse(&hosts::for_session(text, other.as_ref()));
        let localhost = again.addresses_of(&"localhost".parse().expect("a name")).unwrap_or_default();
        assert!(localhost.iter().any(|address| address.is_loopback()), "{localhost:?}");
    }
    for address in [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()] {
        for named in read.names_of(address) {
            assert!(read.addresses_of(&named.name).is_some_and(|all| all.contains(&address)));
        }
    }
    assert!(read.names_of(Ipv4Addr::UNSPECIFIED.into()).is_empty());
}

fn resolvers(text: &[u8]) {
    let settings = Settings::parse(text);
    assert!((1..=3).contains(&settings.servers.len()) && settings.search.len() <= 32 && settings.ndots <= 15);
}
