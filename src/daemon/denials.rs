//! What was denied in a session, for the closing lines of a client. A person and a model read them: what and why, and that
//! trying again is of no use; nothing of the policy.

use std::collections::BTreeMap;

use super::endings::Sentence;
use crate::common::access::Access;
use crate::common::decision::Outcome;
use crate::common::mask;
use crate::common::net::{Service, Transport};
use crate::common::path::RawPath;
use crate::common::request::{Operation, Request};
use crate::common::text::{self, Untrusted};
use crate::common::wire::Record;

/// Different denials that are told one by one.
const MOST: usize = 64;
/// Columns of a host and its port: no name is longer.
const HOST: usize = 300;
/// Columns of a path in a line.
const PATH: usize = 240;

/// Denials by what was denied and why, in the order of first sight.
#[derive(Clone, Debug, Default)]
pub struct Denials {
    lines: Vec<Line>,
    index: BTreeMap<Key, usize>,
    more: u64,
}

/// Access, object, what sets attempts at one object apart, the words of a command, and why.
type Key = (Access, RawPath, u8, Vec<Vec<u8>>, u8);

#[derive(Clone, Debug)]
struct Line {
    /// What was denied, in words.
    what: String,
    outcome: Outcome,
    times: u64,
}

/// What was tried.
#[derive(Clone, Copy, Debug)]
pub struct Attempt<'a> {
    pub access: Access,
    pub operation: Operation,
    pub object: &'a RawPath,
    /// What would have run; its secrets are masked when it is told.
    pub command: Option<&'a [Untrusted]>,
    /// Of what would be reached, and of nothing else.
    pub transport: Option<Transport>,
    pub service: Option<Service>,
}

impl<'a> From<&'a Request> for Attempt<'a> {
    fn from(request: &'a Request) -> Attempt<'a> {
        Attempt {
            access: request.access,
            operation: request.operation,
            object: &request.object,
            command: request.execution.as_deref().map(|execution| execution.argv.as_slice()),
            transport: request.destination.as_ref().map(|destination| destination.transport),
            service: request.service,
        }
    }
}

impl<'a> From<&'a Record> for Attempt<'a> {
    fn from(told: &'a Record) -> Attempt<'a> {
        Attempt {
            access: told.access,
            operation: told.operation,
            object: &told.object,
            command: told.execution.as_deref().map(|execution| execution.argv.as_slice()),
            transport: told.destination.as_ref().map(|destination| destination.transport),
            service: told.service,
        }
    }
}

impl Attempt<'_> {
    /// 0 for files and commands.
    fn kind(&self) -> u8 {
        match (self.transport, self.operation) {
            (None, _) => 0,
            (Some(_), Operation::LookUp) => 1,
            (Some(Transport::Udp), _) => 2,
            (Some(Transport::Tcp), _) => 3,
        }
    }

    /// `write /etc/passwd`, `run git push --force (/usr/bin/git)`, `connect to registry.npmjs.org:443`.
    fn in_words(&self) -> String {
        let object = || text::escaped_within(self.object.as_bytes(), PATH);
        if let Some(transport) = self.transport {
            let verb = match (self.access, self.operation, transport) {
                (_, Operation::LookUp, _) => "look up",
                (Access::Bind, _, Transport::Tcp) => "listen on",
                (Access::Bind, _, Transport::Udp) => "take UDP datagrams at",
                (_, _, Transport::Tcp) => "connect to",
                (_, _, Transport::Udp) => "exchange UDP datagrams with",
            };
            // Whose host it is stands at the end.
            let object = self.object.as_bytes();
            let object = object.strip_suffix(b"/udp").unwrap_or(object);
            return format!("{verb} {}", text::ending_within(&text::escaped(object), HOST));
        }
        match (self.command, self.access, self.service) {
            (Some(words), ..) => {
                let words = mask::argv(words);
                let shown = text::quoted_argv_within(words.iter().map(Untrusted::as_bytes), PATH);
                format!("run {shown} ({})", object())
            }
            (None, Access::Unix, Some(service)) => format!("talk to {} ({service})", object()),
            (None, Access::Unix, None) => format!("talk to {}", object()),
            (None, access, _) => format!("{access} {}", object()),
        }
    }
}

impl Denials {
    /// Counts a decision, if it is a denial. A cancelled request is none: its process had turned away.
    pub fn count(&mut self, attempt: &Attempt<'_>, outcome: Outcome) {
        let why = match outcome {
            Outcome::Denied => 0,
            Outcome::Timeout => 1,
            Outcome::NotPermitted => 2,
            Outcome::Approved | Outcome::Granted | Outcome::Allowed | Outcome::Cancelled | Outcome::Edited => return,
        };
        let words = attempt.command.unwrap_or_default().iter().map(|word| word.as_bytes().to_vec()).collect();
        let key = (attempt.access, attempt.object.clone(), attempt.kind(), words, why);
        match self.index.get(&key) {
            Some(&at) => {
                if let Some(line) = self.lines.get_mut(at) {
                    line.times = line.times.saturating_add(1);
                }
            }
            None if self.lines.len() < MOST => {
                self.index.insert(key, self.lines.len());
                self.lines.push(Line { what: attempt.in_words(), outcome, times: 1 });
            }
            None => self.more = self.more.saturating_add(1),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// One line each, without a newline.
    pub fn lines(&self) -> impl Iterator<Item = String> + '_ {
        let told = self.lines.iter().map(|Line { what, outcome, times }| {
            let times = if *times > 1 { format!(" ({times} times)") } else { String::new() };
            let hint = Sentence::of(*outcome).map(Sentence::hint).unwrap_or_default();
            format!("gated: denied: {what}{times}: {hint}")
        });
        told.chain((self.more > 0).then(|| format!("gated: denied: {} more; all final, do not retry", self.more)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common::net::{Destination, Knowledge, Named};

    fn of<'a>(access: Access, object: &'a RawPath, command: Option<&'a [Untrusted]>) -> Attempt<'a> {
        Attempt { access, operation: Operation::OpenWrite, object, command, transport: None, service: None }
    }

    #[test]
    fn denials_are_joined_escaped_and_bounded() {
        let mut denials = Denials::default();
        for _ in 0..3 {
            denials.count(&of(Access::Write, &RawPath::from("/srv/\x1b[2Jx\nfake"), None), Outcome::Denied);
        }
        denials.count(&of(Access::Write, &RawPath::from("/srv/a"), None), Outcome::Cancelled);
        denials.count(&of(Access::Write, &RawPath::from("/srv/a"), None), Outcome::Approved);
        for number in 0..100 {
            denials
                .count(&of(Access::Exec, &RawPath::from(format!("/{number}").as_str()), None), Outcome::NotPermitted);
        }
        let lines: Vec<String> = denials.lines().collect();
        assert_eq!(
            lines[0],
            "gated: denied: write /srv/\\x1b[2Jx\\nfake (3 times): the person who was asked said no; this is final, do not retry"
        );
        assert_eq!(lines[1], "gated: denied: exec /0: it is not permitted here; this is final, do not retry");
        assert_eq!(lines.len(), MOST + 1);
        assert_eq!(lines[MOST], "gated: denied: 37 more; all final, do not retry");
    }

    #[test]
    fn commands_are_told_by_their_words() {
        let mut denials = Denials::default();
        let git = RawPath::from("/usr/bin/git");
        let words = |words: &[&str]| words.iter().map(|word| Untrusted::new(word.as_bytes())).collect::<Vec<_>>();
        for _ in 0..2 {
            denials.count(&of(Access::Exec, &git, Some(&words(&["git", "push", "my fork\n"]))), Outcome::Denied);
        }
        denials.count(&of(Access::Exec, &git, Some(&words(&["git", "push", "--token=abc"]))), Outcome::NotPermitted);
        let lines: Vec<String> = denials.lines().collect();
        assert_eq!(
            lines,
            [
                "gated: denied: run git push $'my fork\\n' (/usr/bin/git) (2 times): the person who was asked said no; this is final, do not retry",
                "gated: denied: run git push '--token=***' (/usr/bin/git): it is not permitted here; this is final, do not retry",
            ]
        );
    }

    #[test]
    fn hosts_and_services_are_named() {
        let mut denials = Denials::default();
        let mut count = |access, operation, destination: Option<&Destination>, service| {
            let transport = destination.map(|destination| destination.transport);
            let object = destination.map_or(RawPath::from("/run/docker.sock"), Destination::object);
            let attempt = Attempt { access, operation, object: &object, command: None, transport, service };
            denials.count(&attempt, Outcome::NotPermitted);
        };
        let name = || "registry.npmjs.org".parse().unwrap();
        let named = |address: &str, transport| {
            let names = vec![Named { name: name(), by: Knowledge::Resolved }];
            Destination::address(address.parse().unwrap(), transport, names)
        };
        for address in ["192.0.2.7:443", "[2001:db8::7]:443"] {
            count(Access::Connect, Operation::Connect, Some(&named(address, Transport::Tcp)), None);
        }
        count(Access::Connect, Operation::Connect, Some(&named("192.0.2.7:443", Transport::Udp)), None);
        count(Access::Connect, Operation::LookUp, Some(&Destination::name(name())), None);
        let own = Destination::address("[::ffff:127.0.0.1]:3000".parse().unwrap(), Transport::Tcp, vec![]);
        count(Access::Bind, Operation::Listen, Some(&own), None);
        count(Access::Unix, Operation::ConnectSocket, None, Some(Service::Docker));
        let lines: Vec<String> = denials.lines().collect();
        let what: Vec<&str> =
            lines.iter().filter_map(|line| line.strip_prefix("gated: denied: ")?.split(": it").next()).collect();
        assert_eq!(
            what,
            [
                "connect to registry.npmjs.org:443 (2 times)",
                "exchange UDP datagrams with registry.npmjs.org:443",
                "look up registry.npmjs.org",
                "listen on 127.0.0.1:3000",
                "talk to /run/docker.sock (@docker)",
            ]
        );
    }
}
