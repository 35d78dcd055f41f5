//! What was seen, from lines of events or of the audit log. Runs as the caller; the lines are gated's own, the words in them a
//! tool's and escaped.

use std::net::{IpAddr, SocketAddr};

use serde::Deserialize;

use crate::common::access::{Access, Level};
use crate::common::decision::Outcome;
use crate::common::net::{Destination, HostName, Knowledge, Named, Service, Transport, Zone};
use crate::common::path::RawPath;
use crate::common::request::Operation;
use crate::common::text;
use crate::policy::decide::CEILING;
use crate::policy::learn::{Observation, Observations};

/// Which lines these are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    Events,
    AuditLog,
}

#[derive(Debug, Deserialize)]
struct Line {
    #[serde(default)]
    event: String,
    #[serde(default)]
    count: u64,
    access: Option<Access>,
    operation: Option<Operation>,
    object: Option<String>,
    #[serde(default)]
    program: String,
    tool: Option<Tool>,
    exec: Option<Exec>,
    destination: Option<Reach>,
    service: Option<Service>,
    rule: Option<Rule>,
    #[serde(alias = "result")]
    decision: Option<Outcome>,
    would: Option<Level>,
}

#[derive(Debug, Deserialize)]
struct Tool {
    program: String,
}

#[derive(Debug, Deserialize)]
struct Exec {
    argv: Vec<String>,
    #[serde(default)]
    words_left_out: u32,
}

#[derive(Debug, Deserialize)]
struct Reach {
    #[serde(default)]
    names: Vec<HostName>,
    address: Option<IpAddr>,
    port: Option<u16>,
    transport: Transport,
}

#[derive(Debug, Deserialize)]
struct Rule {
    profile: String,
    id: String,
}

/// Gathers what was seen.
#[derive(Debug, Default)]
pub struct Learner {
    pub seen: Observations,
    /// Events that were lost.
    pub dropped: u64,
    /// The profile that the records name.
    pub profile: Option<String>,
}

impl Learner {
    /// Takes a line; one that says nothing of an attempt is passed over.
    pub fn take(&mut self, line: &[u8], from: Source) {
        let Ok(line) = serde_json::from_slice::<Line>(line) else { return };
        match (from, line.event.as_str()) {
            (Source::Events, "dropped") => self.dropped = self.dropped.saturating_add(line.count),
            (Source::Events, "learned" | "denied") | (Source::AuditLog, "") => self.observe(line),
            _ => {}
        }
    }

    fn observe(&mut self, line: Line) {
        let Some(rule) = line.rule else { return };
        if let Some(observation) = observation(
            &line.destination,
            &line.exec,
            rule.id,
            Plain {
                access: line.access,
                operation: line.operation,
                object: line.object,
                program: line.tool.map_or(line.program, |tool| tool.program),
                service: line.service,
                decision: line.decision,
                would: line.would,
            },
        ) {
            // A floor of the ceiling's is no profile that could be extended.
            if rule.profile != CEILING {
                self.profile.get_or_insert(rule.profile);
            }
            self.seen.add(observation);
        }
    }
}

struct Plain {
    access: Option<Access>,
    operation: Option<Operation>,
    object: Option<String>,
    program: String,
    service: Option<Service>,
    decision: Option<Outcome>,
    would: Option<Level>,
}

fn observation(reach: &Option<Reach>, exec: &Option<Exec>, rule: String, plain: Plain) -> Option<Observation> {
    let outcome = plain.decision?;
    let would = match (plain.would, outcome) {
        (Some(would), _) => would,
        // Somebody was asked; or nobody had to be.
        (None, Outcome::Approved | Outcome::Edited | Outcome::Granted) => Level::Ask,
        (None, Outcome::Allowed) => Level::Allow,
        (None, Outcome::NotPermitted) => Level::Deny,
        // A person said no, or nothing.
        (None, Outcome::Denied | Outcome::Timeout) => Level::Ask,
        (None, Outcome::Cancelled) => return None,
    };
    let access = plain.access?;
    let words = exec.as_ref().filter(|exec| exec.words_left_out == 0);
    let words = words.and_then(|exec| exec.argv.iter().map(|word| text::unescaped(word)).collect());
    Some(Observation {
        access,
        operation: plain.operation?,
        // Only a path that can be read back is one.
        object: RawPath::new(text::unescaped(&plain.object?)?),
        words,
        destination: reach.as_ref().and_then(destination),
        service: plain.service,
        program: RawPath::new(text::unescaped(&plain.program).unwrap_or_default()),
        would,
        rule,
        outcome,
    })
}

fn destination(reach: &Reach) -> Option<Destination> {
    let Some(address) = reach.address else { return Some(Destination::name(reach.names.first()?.clone())) };
    // A name from DNS that leads into a network that is not public gives nothing; what went through had another.
    let by = if Zone::of(address) == Zone::Public { Knowledge::Resolved } else { Knowledge::HostsFile };
    let names = reach.names.iter().map(|name| Named { name: name.clone(), by }).collect();
    Some(Destination::address(SocketAddr::new(address, reach.port?), reach.transport, names))
}
