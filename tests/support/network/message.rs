//! DNS messages as a server reads and writes them (RFC 1035, 2782, 6891, 9460): one question, no compression but of the
//! question's name. Written for the tests alone, so that what gated reads with is not also what is read.

use super::zone::Data;

pub const A: u16 = 1;
pub const NS: u16 = 2;
pub const CNAME: u16 = 5;
pub const SOA: u16 = 6;
pub const PTR: u16 = 12;
pub const TXT: u16 = 16;
pub const AAAA: u16 = 28;
pub const SRV: u16 = 33;
const OPT: u16 = 41;
pub const HTTPS: u16 = 65;

pub const NXDOMAIN: u8 = 3;
const FORMERR: u8 = 1;

/// A question, and what of its message an answer must repeat.
pub struct Question {
    pub id: u16,
    pub recursion_desired: bool,
    /// As it was sent, capitals too; a byte that is no letter, digit, hyphen or underscore as `\DDD` (RFC 1035, 5.1). No dot at the end;
    /// the root is `.`.
    pub name: String,
    pub kind: u16,
    /// The UDP payload that the asker takes, if it said so.
    pub edns: Option<u16>,
    /// The name, type and class as they were.
    raw: Vec<u8>,
}

/// A message's first question; `None` if it is no query or is cut short.
pub fn read(message: &[u8]) -> Option<Question> {
    let word = |at: usize| Some(u16::from_be_bytes([*message.get(at)?, *message.get(at + 1)?]));
    let flags = word(2)?;
    // A query of opcode 0 with one question.
    if flags & 0xf800 != 0 || word(4)? != 1 {
        return None;
    }
    let (name, end) = read_name(message, 12)?;
    let (kind, raw) = (word(end)?, message.get(12..end + 4)?.to_vec());
    let mut edns = None;
    let mut at = end + 4;
    for _ in 0..word(6)? + word(8)? + word(10)? {
        let (_, after) = read_name(message, at)?;
        if word(after)? == OPT {
            edns = Some(word(after + 2)?);
        }
        at = after + 10 + usize::from(word(after + 8)?);
    }
    Some(Question { id: word(0)?, recursion_desired: flags & 0x100 != 0, name, kind, edns, raw })
}

fn read_name(message: &[u8], mut at: usize) -> Option<(String, usize)> {
    let mut name = String::new();
    loop {
        let length = usize::from(*message.get(at)?);
        // A pointer: none is needed where we read.
        if length & 0xc0 != 0 {
            return None;
        }
        at += 1;
        if length == 0 {
            return Some((if name.is_empty() { ".".to_owned() } else { name }, at));
        }
        if !name.is_empty() {
            name.push('.');
        }
        for &byte in message.get(at..at + length)? {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => name.push(char::from(byte)),
                other => name.push_str(&format!("\\{other:03}")),
            }
        }
        at += length;
    }
}

fn write_name(into: &mut Vec<u8>, name: &str) {
    for label in name.split('.').filter(|label| !label.is_empty()) {
        into.push(u8::try_from(label.len()).expect("a label of at most 63 bytes"));
        into.extend_from_slice(label.as_bytes());
    }
    into.push(0);
}

/// A record to answer with: the owner's name, the seconds that it may be kept, and its data.
pub struct Record {
    pub owner: String,
    pub ttl: u32,
    pub data: Data,
}

impl Question {
    /// The answer; over UDP (`most` bytes) with the truncated flag and no records if it is too long.
    pub fn answer(&self, code: u8, records: &[Record], udp: bool) -> Vec<u8> {
        let most = if udp { usize::from(self.edns.unwrap_or(512)).clamp(512, 1232) } else { 65535 };
        let whole = self.message(code, records, false);
        if whole.len() <= most { whole } else { self.message(code, &[], true) }
    }

    fn message(&self, code: u8, records: &[Record], truncated: bool) -> Vec<u8> {
        // An answer, recursion available, authoritative.
        let flags = 0x8480 | u16::from(self.recursion_desired) << 8 | u16::from(truncated) << 9 | u16::from(code);
        let negative = records.is_empty() && !truncated && code != FORMERR;
        let counts = [1, records.len() as u16, u16::from(negative), u16::from(self.edns.is_some())];
        let mut message: Vec<u8> = [self.id, flags].into_iter().chain(counts).flat_map(u16::to_be_bytes).collect();
        message.extend_from_slice(&self.raw);
        for record in records {
            if record.owner.eq_ignore_ascii_case(&self.name) {
                message.extend_from_slice(&[0xc0, 12]);
            } else {
                write_name(&mut message, &record.owner);
            }
            write_record(&mut message, record.data.kind(), record.ttl, &record.data.bytes());
        }
        if negative {
            // That there is nothing may be kept for 1 s (RFC 2308).
            let mut soa = Vec::new();
            write_name(&mut soa, "ns.example.org");
            write_name(&mut soa, "hostmaster.example.org");
            soa.extend([1_u32, 3600, 600, 86400, 1].into_iter().flat_map(u32::to_be_bytes));
            write_name(&mut message, "example.org");
            write_record(&mut message, SOA, 1, &soa);
        }
        if self.edns.is_some() {
            // The root, OPT, the size that we take, no extended code, version 0, no flags, no options.
            message.extend_from_slice(&[0, 0, OPT as u8, 0x04, 0xd0, 0, 0, 0, 0, 0, 0]);
        }
        message
    }
}

fn write_record(message: &mut Vec<u8>, kind: u16, ttl: u32, data: &[u8]) {
    message.extend_from_slice(&kind.to_be_bytes());
    message.extend_from_slice(&1_u16.to_be_bytes());
    message.extend_from_slice(&ttl.to_be_bytes());
    message.extend_from_slice(&(data.len() as u16).to_be_bytes());
    message.extend_from_slice(data);
}

impl Data {
    pub fn kind(&self) -> u16 {
        match self {
            Data::A(_) => A,
            Data::Aaaa(_) => AAAA,
            Data::Cname(_) => CNAME,
            Data::Ns(_) => NS,
            Data::Ptr(_) => PTR,
            Data::Txt(_) => TXT,
            Data::Srv { .. } => SRV,
            Data::Https { .. } => HTTPS,
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        match self {
            Data::A(address) => bytes.extend_from_slice(&address.octets()),
            Data::Aaaa(address) => bytes.extend_from_slice(&address.octets()),
            Data::Cname(name) | Data::Ns(name) | Data::Ptr(name) => write_name(&mut bytes, name),
            Data::Txt(text) => {
                for part in text.as_bytes().chunks(255) {
                    bytes.push(part.len() as u8);
                    bytes.extend_from_slice(part);
                }
            }
            Data::Srv { priority, weight, port, target } => {
                bytes.extend([priority, weight, port].into_iter().flat_map(|word| word.to_be_bytes()));
                write_name(&mut bytes, target);
            }
            Data::Https { priority, target, hints } => {
                bytes.extend_from_slice(&priority.to_be_bytes());
                write_name(&mut bytes, target);
                // The key ipv4hint (4), RFC 9460, 14.3.2.
                if !hints.is_empty() {
                    bytes.extend_from_slice(&4_u16.to_be_bytes());
                    bytes.extend_from_slice(&(4 * hints.len() as u16).to_be_bytes());
                    bytes.extend(hints.iter().flat_map(|hint| hint.octets()));
                }
            }
        }
        bytes
    }
}
