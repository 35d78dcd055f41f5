//! What would be reached, in plain words. Names are ASCII and canonical; whatever else a name, or whoever owns an address,
//! can put into these lines is escaped. A host name that is too long loses its beginning, never its end.

use crate::common::access::Access;
use crate::common::net::{Destination, HostName, Knowledge, Place, Service, Transport, Zone};
use crate::common::request::{Operation, Request};
use crate::common::text;

use super::letters::{Letters, letters};

/// Columns of a name from which on it is told apart whose it is, whatever else there is no room for.
const LONG: usize = 40;

/// Columns of a reverse name.
const HINT: usize = 255;

/// One thing to be said of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub label: &'static str,
    /// Whether nobody can answer without it.
    pub is_needed: bool,
    /// All of it, in the notation of [`text`].
    text: String,
    /// What is cut off where there is no room: its middle, or its beginning.
    keeps_end: bool,
}

impl Line {
    fn new(label: &'static str, is_needed: bool, text: String) -> Line {
        Line { label, is_needed, text, keeps_end: false }
    }

    fn of_name(label: &'static str, is_needed: bool, text: String) -> Line {
        Line { keeps_end: true, ..Line::new(label, is_needed, text) }
    }

    /// In `limit` columns at the most.
    pub fn within(&self, limit: usize) -> String {
        if self.keeps_end { text::ending_within(&self.text, limit) } else { text::shown_within(&self.text, limit) }
    }
}

/// What it is called: `registry.npmjs.org:443`, `[2001:db8::1]:443`, in `limit` columns at the most.
pub fn place(destination: &Destination, limit: usize) -> String {
    text::ending_within(&shown(destination), limit)
}

/// UDP is told in words.
fn shown(destination: &Destination) -> String {
    let shown = destination.to_string();
    shown.strip_suffix("/udp").map(str::to_owned).unwrap_or(shown)
}

/// To follow "wants to".
pub fn intent(access: Access, operation: Operation, destination: &Destination, limit: usize) -> String {
    let place = match access {
        Access::Bind => listening(destination),
        _ => place(destination, limit),
    };
    if operation == Operation::LookUp {
        return format!("look up {place} and connect to it");
    }
    match (access, destination.transport) {
        (Access::Bind, Transport::Tcp) => format!("listen on {place}, {}", who_reaches(destination)),
        (Access::Bind, Transport::Udp) => format!("take UDP datagrams at {place}, {}", who_reaches(destination)),
        (_, Transport::Tcp) => format!("connect to {place}{}", on_host(destination)),
        (_, Transport::Udp) => format!("exchange UDP datagrams with {place}{}", on_host(destination)),
    }
}

fn on_host(destination: &Destination) -> &'static str {
    if destination.zone() == Some(Zone::Loopback) { " on this machine" } else { "" }
}

/// Who can connect to what listens there, to follow a comma.
pub fn who_reaches(destination: &Destination) -> String {
    format!("where {} can reach it", reachers(destination))
}

fn reachers(destination: &Destination) -> &'static str {
    let is_everywhere = destination.ip().is_some_and(|address| address.is_unspecified());
    match destination.zone() {
        Some(Zone::Loopback) if !is_everywhere => "every program of this machine",
        _ => "other machines",
    }
}

/// What kind of place it is, if that is to be known.
fn of_zone(zone: Zone) -> Option<&'static str> {
    match zone {
        Zone::Public => None,
        Zone::Loopback => Some("this machine itself: a service of the host, outside of the sandbox"),
        Zone::Private => Some("a private network"),
        Zone::LinkLocal => Some("the network that this machine is plugged into"),
        Zone::Metadata => Some("where clouds keep the credentials of this machine"),
        Zone::Special => Some("no single host: multicast, broadcast or reserved"),
    }
}

/// A service, in the middle of a sentence.
pub fn called(service: Service) -> &'static str {
    match service {
        Service::SessionBus => "the session bus",
        Service::SystemBus => "the system bus",
        Service::Wayland => "the display (Wayland)",
        Service::X11 => "the display (X11)",
        Service::SshAgent => "the ssh agent",
        Service::GpgAgent => "the gpg agent",
        Service::Docker => "Docker, or what is like it",
        Service::Journal => "the machine's log",
    }
}

/// Whether a request is one of those that a destination is of.
pub fn is_about(request: &Request) -> bool {
    matches!(request.access, Access::Connect | Access::Bind)
}

/// What is to be said of a destination or a socket, in order; empty for requests that are about neither.
pub fn lines(request: &Request) -> Vec<Line> {
    match (&request.destination, request.access) {
        (Some(destination), Access::Bind) => of_listening(destination),
        (Some(destination), Access::Connect) => of_reaching(destination),
        (_, Access::Unix) => {
            let socket = text::escaped(request.object.as_bytes());
            let means = request.service.map(|service| Line::new("means", true, service.meaning().to_owned()));
            std::iter::once(Line::new("socket", true, socket)).chain(means).collect()
        }
        _ => Vec::new(),
    }
}

/// By its address: a name that it may have says nothing of who reaches it.
fn listening(destination: &Destination) -> String {
    destination.socket_address().map_or_else(|| shown(destination), |address| address.to_string())
}

fn of_listening(destination: &Destination) -> Vec<Line> {
    let address = Line::new("address", true, listening(destination));
    vec![address, Line::new("reached by", true, reachers(destination).to_owned())]
}

fn of_reaching(destination: &Destination) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut names = destination.names();
    let first = names.next();
    if let Some(name) = first {
        lines.push(Line::of_name("host", true, shown(destination)));
        lines.extend(spelt(name));
        let is_long = name.as_str().len() > LONG;
        let domain = name.registrable().filter(|domain| domain != name);
        lines.extend(domain.map(|domain| Line::of_name("domain", is_long, domain.to_string())));
    }
    if let Place::Address { address, names } = &destination.place {
        let own = if first.is_some() { address.ip().to_string() } else { address.to_string() };
        let unnamed = if first.is_none() { " (no name was looked up for it)" } else { "" };
        lines.push(Line::new("address", true, format!("{own}{unnamed}")));
        let zone = destination.zone().and_then(of_zone);
        lines.extend(zone.map(|zone| Line::new("which is", true, zone.to_owned())));
        if names.first().is_some_and(|named| named.by == Knowledge::HostsFile) {
            lines.push(Line::new("named by", false, "/etc/hosts of this machine".to_owned()));
        }
    }
    let others: Vec<&str> = names.map(HostName::as_str).collect();
    if !others.is_empty() {
        lines.push(Line::new("also called", false, others.join(", ")));
    }
    // Whoever owns the address wrote it: next to a name that somebody looked up it could only mislead.
    if let (None, Some(hint)) = (first, &destination.hint) {
        let hint = text::ending_within(&text::escaped(hint.as_bytes()), HINT);
        lines.push(Line::of_name("hint (unverified)", false, hint));
    }
    lines
}

/// How a name reads that is spelt in A-labels.
fn spelt(name: &HostName) -> Option<Line> {
    let text = match letters(name)? {
        Letters::Shown(unicode) => unicode,
        Letters::Hidden => "not shown in its own letters: they could pass for others".to_owned(),
    };
    Some(Line::of_name("reads", true, text))
}
