//! Packets of DNS (RFC 1035, 4): what a tool sent, and what it is answered.
//!
//! Runs as the user in the supervisor, on bytes that a tool wrote. Nothing of them but the question goes any further.

use hickory_resolver::proto::op::{Edns, Message, MessageType, OpCode, Query as Question, ResponseCode};
use hickory_resolver::proto::rr::rdata::HINFO;
use hickory_resolver::proto::rr::rdata::opt::EdnsOption;
use hickory_resolver::proto::rr::{DNSClass, RData, Record, RecordType};

use super::question;

const HEADER: usize = 12;
/// What every receiver of datagrams can take (RFC 1035, 4.2.1).
const DATAGRAM_LEAST: u16 = 512;
/// What is sent in one datagram at the most; it never leaves the machine.
const DATAGRAM_MOST: u16 = 4096;
/// Besides the question a query may have options, and a signature that nobody here can check.
const ADDITIONAL_AT_MOST: u16 = 2;
/// Seconds for which an answer may be kept that says nothing (the example of RFC 8482, 4.2).
const EMPTY_ANSWER_TTL: u32 = 3789;
/// The option for a reason, and what it can be (RFC 8914).
const EXTENDED_ERROR: u16 = 15;
/// `BADVERS` (RFC 6891, 6.1.3) is 16: its lower half is in the header.
const BAD_VERSION_HIGH: u8 = 1;

/// How an answer travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    Datagram,
    Stream,
}

/// Why there is no answer, for programs that show it (RFC 8914, 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    Prohibited = 18,
    NotReady = 14,
    NetworkError = 23,
}

/// A query that can be answered.
#[derive(Clone, Debug)]
pub struct Query {
    message: Message,
    pub question: Question,
}

/// What a packet is.
#[derive(Debug)]
pub enum Decoded {
    Query(Box<Query>),
    /// It is answered by this, whatever it was.
    Answered(Vec<u8>),
    /// Nobody waits for an answer to it.
    Nothing,
}

/// What is sent back.
#[derive(Debug, Default)]
pub struct Reply {
    pub code: ResponseCode,
    pub answers: Vec<Record>,
    pub authorities: Vec<Record>,
    pub reason: Option<Reason>,
}

impl Reply {
    pub fn of(code: ResponseCode) -> Reply {
        Reply { code, ..Reply::default() }
    }

    pub fn because(code: ResponseCode, reason: Reason) -> Reply {
        Reply { code, reason: Some(reason), ..Reply::default() }
    }
}

/// Reads a packet; never fails.
pub fn decode(packet: &[u8]) -> Decoded {
    let Some(&[id_high, id_low, flags, _, q0, q1, an0, an1, ns0, ns1, ar0, ar1]) = packet.first_chunk::<HEADER>()
    else {
        return Decoded::Nothing;
    };
    if flags & 0x80 != 0 {
        return Decoded::Nothing;
    }
    let id = u16::from_be_bytes([id_high, id_low]);
    let operation = OpCode::from_u8((flags >> 3) & 0xf);
    let fails = |code| Decoded::Answered(bare(id, operation, code));
    if operation != OpCode::Query {
        return fails(ResponseCode::NotImp);
    }
    let counts = [[q0, q1], [an0, an1], [ns0, ns1], [ar0, ar1]].map(u16::from_be_bytes);
    if !matches!(counts, [1, 0, 0, 0..=ADDITIONAL_AT_MOST]) {
        return fails(ResponseCode::FormErr);
    }
    let Ok(mut message) = Message::from_vec(packet) else { return fails(ResponseCode::FormErr) };
    let Some(question) = message.queries.pop() else { return fails(ResponseCode::FormErr) };
    let query = Box::new(Query { message, question });
    let refused = |code| Decoded::Answered(query.encode(&Reply::of(code), Carrier::Datagram));
    if query.message.edns.as_ref().is_some_and(|edns| edns.version() != 0) {
        return Decoded::Answered(query.bad_version());
    }
    let question = &query.question;
    if question.query_class != DNSClass::IN {
        return refused(ResponseCode::Refused);
    }
    match question.query_type {
        RecordType::ANY => {
            // "There is no answer to this", as an answer (RFC 8482, 4.2).
            let nothing = RData::HINFO(HINFO::new("RFC8482".to_owned(), String::new()));
            let record = Record::from_rdata(question.name.clone(), EMPTY_ANSWER_TTL, nothing);
            let reply = Reply { answers: vec![record], ..Reply::default() };
            Decoded::Answered(query.encode(&reply, Carrier::Datagram))
        }
        RecordType::AXFR | RecordType::IXFR => refused(ResponseCode::Refused),
        kind if question::is_known(kind) => Decoded::Query(query),
        _ => refused(ResponseCode::NotImp),
    }
}

/// An answer to what could not be read.
fn bare(id: u16, operation: OpCode, code: ResponseCode) -> Vec<u8> {
    Message::error_msg(id, operation, code).to_vec().unwrap_or_default()
}

impl Query {
    fn response(&self) -> Message {
        let mut message = Message::new(self.message.metadata.id, MessageType::Response, OpCode::Query);
        message.metadata.recursion_desired = self.message.metadata.recursion_desired;
        message.metadata.checking_disabled = self.message.metadata.checking_disabled;
        message.metadata.recursion_available = true;
        message.add_query(self.question.clone());
        if let Some(theirs) = &self.message.edns {
            let mut edns = Edns::new();
            edns.set_max_payload(DATAGRAM_MOST).set_dnssec_ok(theirs.flags().dnssec_ok);
            message.set_edns(edns);
        }
        message
    }

    fn bad_version(&self) -> Vec<u8> {
        let mut message = self.response();
        if let Some(edns) = &mut message.edns {
            edns.set_rcode_high(BAD_VERSION_HIGH);
        }
        message.to_vec().unwrap_or_default()
    }

    /// The bytes of an answer; what does not fit into a datagram says that a stream would have it (RFC 2181, 9).
    pub fn encode(&self, reply: &Reply, carrier: Carrier) -> Vec<u8> {
        let mut message = self.response();
        message.metadata.response_code = reply.code;
        message.answers.clone_from(&reply.answers);
        message.authorities.clone_from(&reply.authorities);
        if let (Some(reason), Some(edns)) = (reply.reason, &mut message.edns) {
            edns.options_mut().insert(EdnsOption::Unknown(EXTENDED_ERROR, (reason as u16).to_be_bytes().to_vec()));
        }
        let longest = match carrier {
            Carrier::Stream => u16::MAX,
            Carrier::Datagram => {
                let theirs = self.message.edns.as_ref().map_or(DATAGRAM_LEAST, Edns::max_payload);
                theirs.clamp(DATAGRAM_LEAST, DATAGRAM_MOST)
            }
        };
        match message.to_vec() {
            Ok(bytes) if bytes.len() <= usize::from(longest) => bytes,
            _ => message.truncate().to_vec().unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use hickory_resolver::proto::rr::Name;
    use hickory_resolver::proto::rr::rdata::A;

    use super::*;

    fn packet(name: &str, kind: RecordType, payload: Option<u16>) -> Vec<u8> {
        let mut message = Message::query();
        message.metadata.id = 77;
        message.metadata.recursion_desired = true;
        message.add_query(Question::query(Name::from_ascii(name).unwrap(), kind));
        if let Some(payload) = payload {
            let mut edns = Edns::new();
            edns.set_max_payload(payload);
            message.set_edns(edns);
        }
        message.to_vec().unwrap()
    }

    fn query(bytes: &[u8]) -> Query {
        match decode(bytes) {
            Decoded::Query(query) => *query,
            other => panic!("{other:?}"),
        }
    }

    fn answered(bytes: &[u8]) -> Message {
        match decode(bytes) {
            Decoded::Answered(bytes) => Message::from_vec(&bytes).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    fn many(count: u8) -> Reply {
        let record = |last| {
            let name = Name::from_ascii("a.example.org.").unwrap();
            Record::from_rdata(name, 60, RData::A(A::new(192, 0, 2, last)))
        };
        Reply { answers: (0..count).map(record).collect(), ..Reply::default() }
    }

    #[test]
    fn an_answer_repeats_the_question_as_it_was_written() {
        let bytes = query(&packet("eXamPle.OrG.", RecordType::A, None)).encode(&many(2), Carrier::Datagram);
        let message = Message::from_vec(&bytes).unwrap();
        assert_eq!((message.metadata.id, message.metadata.response_code), (77, ResponseCode::NoError));
        assert!(message.metadata.recursion_available && message.metadata.recursion_desired);
        assert!(bytes.windows(8).any(|part| part == b"\x07eXamPle"));
        assert_eq!(message.answers.len(), 2);
        assert!(message.edns.is_none());
    }

    #[test]
    fn what_does_not_fit_is_truncated_to_the_size_that_was_asked_for() {
        for (payload, count, truncated) in [
            (None, 20, false),
            (None, 60, true),
            (Some(1232), 60, false),
            (Some(100), 60, true),
            (Some(65535), 255, true),
        ] {
            let query = query(&packet("a.example.org.", RecordType::A, payload));
            let bytes = query.encode(&many(count), Carrier::Datagram);
            let message = Message::from_vec(&bytes).unwrap();
            assert_eq!(message.metadata.truncation, truncated, "{payload:?} {count}");
            assert!(bytes.len() <= usize::from(payload.unwrap_or(512).clamp(512, 4096)));
            assert_eq!(message.edns.is_some(), payload.is_some());
            let bytes = query.encode(&many(count), Carrier::Stream);
            assert_eq!(Message::from_vec(&bytes).unwrap().answers.len(), usize::from(count));
        }
    }

    #[test]
    fn what_is_no_plain_question_is_refused_with_its_own_code() {
        let code = |bytes: &[u8]| answered(bytes).metadata.response_code;
        let good = packet("example.org.", RecordType::A, Some(1232));
        let changed = |at: usize, value: u8| {
            let mut bytes = good.clone();
            *bytes.get_mut(at).unwrap() = value;
            bytes
        };
        // Operations other than a query; no question, two, and an answer.
        for opcode in 1..16_u8 {
            assert_eq!(code(&changed(2, opcode << 3)), ResponseCode::NotImp, "{opcode}");
        }
        assert_eq!(code(&changed(5, 0)), ResponseCode::FormErr);
        assert_eq!(code(&changed(5, 2)), ResponseCode::FormErr);
        assert_eq!(code(&changed(7, 1)), ResponseCode::FormErr);
        assert_eq!(code(good.get(..20).unwrap()), ResponseCode::FormErr);
        // Class CH, as `version.bind` is asked for.
        assert_eq!(code(&changed(28, 3)), ResponseCode::Refused);
        assert_eq!(code(&packet("example.org.", RecordType::AXFR, None)), ResponseCode::Refused);
        assert_eq!(code(&packet("example.org.", RecordType::DNSKEY, None)), ResponseCode::NotImp);
        assert_eq!(answered(&packet("example.org.", RecordType::ANY, None)).answers.len(), 1);
        assert!(matches!(decode(&changed(2, 0x80)), Decoded::Nothing));
        assert!(matches!(decode(b"short"), Decoded::Nothing));
    }

    #[test]
    fn a_name_that_points_at_itself_is_malformed() {
        let mut bytes = vec![0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        bytes.extend_from_slice(&[0xc0, 12, 0, 1, 0, 1]);
        assert_eq!(answered(&bytes).metadata.response_code, ResponseCode::FormErr);
    }

    #[test]
    fn a_reason_is_told_to_whoever_speaks_edns() {
        let reply = Reply::because(ResponseCode::Refused, Reason::Prohibited);
        let bytes = query(&packet("a.org.", RecordType::A, Some(1232))).encode(&reply, Carrier::Datagram);
        assert!(bytes.windows(6).any(|part| part == [0, 15, 0, 2, 0, 18]));
    }
}
