//! The verdict on unix sockets, and which service is behind one. Pure.
//!
//! What starts programs with other rights, or reads what is typed, is denied whatever a file says: the buses, systemd, X11,
//! and what runs containers and virtual machines.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::common::access::{Access, Level};
use crate::common::decision::Width;
use crate::common::id::CallId;
use crate::common::net::Service;
use crate::common::path::RawPath;
use crate::common::request::Request;
use crate::common::scope::Pattern;

use super::decide::{Policy, Source, Verdict};
use super::grants::Grants;
use super::index::Entry;
use super::regions::ANY;
use super::tables::Tables;

/// The `id` of the rule that denies the services that no file opens.
pub const SERVICES: &str = "built-in:services";

/// Where services have their sockets, as patterns; `{run}` is the runtime directory of any user, `{uid}` the user's number and `~` the home
/// directory. The first that matches says which it is.
const PLACES: &[(Service, &str)] = &[
    (Service::Journal, "/run/systemd/journal/socket /run/systemd/journal/stdout /run/systemd/journal/dev-log /dev/log"),
    // nscd, resolved and avahi among them: a name that they look up is judged by nobody.
    (Service::SystemBus, "/run/dbus/** /run/systemd/** /run/polkit/** /run/udev/** /run/nscd/** /run/avahi-daemon/**"),
    (Service::SystemBus, "/run/snapd.socket /run/snapd-snap.socket /run/initctl /run/gdm*/** /run/sssd/** /run/lvm/**"),
    (Service::SystemBus, "/var/lib/sss/pipes/** /run/cockpit/** /run/abrt/** /run/atd*/** /run/cron*/**"),
    (
        Service::Docker,
        "/run/docker.sock /run/docker*/** /run/containerd/** /run/podman/** /run/crio/** /run/buildkit/**",
    ),
    (
        Service::Docker,
        "/run/k3s/** /run/k0s/** /run/cri-dockerd.sock /run/dockershim.sock /run/libvirt/** /run/lxd.socket",
    ),
    (
        Service::Docker,
        "/var/lib/lxd/** /var/lib/incus/** /run/incus/** /var/snap/lxd/** /var/snap/docker/** /run/balena-engine.sock",
    ),
    (Service::Docker, "/run/rkt/** /run/multipass_socket /run/firecracker/** /var/snap/multipass/**"),
    (
        Service::Docker,
        "{run}/docker.sock {run}/docker*/** {run}/podman/** {run}/containers/** {run}/containerd*/** {run}/libvirt/**",
    ),
    (
        Service::Docker,
        "{run}/buildkit/** {run}/incus/** {run}/crun/** {run}/runc/** {run}/libpod/** ~/.docker/** ~/.colima/**",
    ),
    (
        Service::Docker,
        "~/.rd/** ~/.lima/** ~/.orbstack/** ~/.finch/** ~/.local/share/containers/** ~/.local/share/docker/**",
    ),
    (
        Service::Docker,
        "~/.config/libvirt/** ~/.cache/libvirt/** ~/.minikube/** /tmp/podman-run-{uid}/** /tmp/storage-run-{uid}/**",
    ),
    (Service::X11, "**/.X11-unix/** **/.ICE-unix/**"),
    (
        Service::SshAgent,
        "{run}/keyring*/ssh {run}/keyring*/.ssh {run}/ssh-agent* {run}/ssh-agent*/** {run}/openssh_agent {run}/gcr/ssh",
    ),
    (
        Service::SshAgent,
        "{run}/gnupg/S.gpg-agent.ssh {run}/gnupg/*/S.gpg-agent.ssh ~/.gnupg/S.gpg-agent.ssh /tmp/ssh-*/** /tmp/user/{uid}/ssh-*/**",
    ),
    (
        Service::SshAgent,
        "~/.ssh/agent/** ~/.ssh/agent* ~/.ssh/*.agent ~/.1password/agent.sock ~/.bitwarden-ssh-agent.sock",
    ),
    (Service::GpgAgent, "{run}/gnupg/** ~/.gnupg/**"),
    (
        Service::SessionBus,
        "{run}/bus {run}/bus-* {run}/dbus-1/** {run}/systemd/** {run}/at-spi/** {run}/keyring*/** {run}/gvfsd/**",
    ),
    (
        Service::SessionBus,
        "{run}/kwallet* {run}/ksocket-*/** {run}/secrets/** {run}/gcr/** {run}/.flatpak/** /tmp/dbus-* /tmp/dbus-*/**",
    ),
    (Service::SessionBus, "~/.cache/ibus/** {run}/.dbus-proxy/** ~/.dbus/**"),
    (Service::Wayland, "{run}/wayland-* {run}/gamescope-* {run}/.wayland-*"),
];

/// Where the services of one user have their sockets.
#[derive(Clone, Debug)]
pub struct Services {
    places: Vec<(Service, Pattern)>,
    ssh_agent: Option<RawPath>,
}

impl Services {
    /// `ssh_agent` is `SSH_AUTH_SOCK` of whoever opened the session.
    pub fn new(home: &RawPath, uid: u32, ssh_agent: Option<RawPath>) -> Services {
        let home = Pattern::literal(home).to_string();
        let full = |text: &str| match text.strip_prefix("~/") {
            Some(rest) => format!("{}/{rest}", home.trim_end_matches('/')),
            None => text.replace("{run}", "/run/user/*").replace("{uid}", &uid.to_string()),
        };
        let patterns = |(service, texts): &(Service, &str)| {
            let each = texts.split(' ').filter_map(|text| Pattern::parse(&full(text)).ok());
            each.map(|pattern| (*service, pattern)).collect::<Vec<_>>()
        };
        Services { places: PLACES.iter().flat_map(patterns).collect(), ssh_agent }
    }

    /// The service behind the socket at this canonical path of the host.
    pub fn of(&self, path: &RawPath) -> Option<Service> {
        // On some systems the one is no link to the other.
        let under_run = path.as_bytes().strip_prefix(b"/var/run/").map(|rest| RawPath::from("/run").join(rest));
        let path = under_run.as_ref().unwrap_or(path);
        let names: Vec<&[u8]> = path.components().collect();
        let known = self.places.iter().find(|(_, place)| place.matches_names(&names)).map(|(service, _)| *service);
        // What the environment says is an agent's is no bus for that.
        known.or_else(|| (self.ssh_agent.as_ref() == Some(path)).then_some(Service::SshAgent))
    }
}

/// Whether a service is denied whatever a file says.
pub(super) fn is_never_reached(service: Service) -> bool {
    matches!(service, Service::SessionBus | Service::SystemBus | Service::X11 | Service::Docker)
}

/// Which sockets an answer covers: all are of the service that was shown, or of none that is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SocketScope {
    pub paths: Pattern,
    pub service: Option<Service>,
}

impl SocketScope {
    /// What an answer of this width to this request covers; `None` where it would be too much.
    pub fn of(request: &Request, width: Width, home: &RawPath) -> Option<SocketScope> {
        let service = request.service;
        let paths = match width {
            Width::Exact => Pattern::literal(&request.object),
            Width::Directory if service.is_none() => {
                let parent = request.object.parent().filter(|parent| !is_shared(parent, home))?;
                Pattern::children_of(&parent)
            }
            _ => return None,
        };
        Some(SocketScope { paths, service })
    }

    pub(super) fn covers(&self, path: &RawPath, service: Option<Service>) -> bool {
        self.service == service && self.paths.matches(path)
    }
}

impl SocketScope {
    /// Whether it denies this socket, if that is what it does: whatever service is known to be behind it, unless one is
    /// named.
    pub(super) fn denies(&self, path: &RawPath, service: Option<Service>) -> bool {
        (self.service.is_none() || self.service == service) && self.paths.matches(path)
    }
}

impl fmt::Display for SocketScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.paths.fmt(f)
    }
}

/// Whether a directory has the sockets of many.
fn is_shared(directory: &RawPath, home: &RawPath) -> bool {
    let shared =
        ["/", "/run", "/var/run", "/tmp", "/var/tmp", "/dev", "/dev/shm", "/var/lib", "/home", "/run/user", "/srv"];
    let of_a_user = directory.parent() == Some(RawPath::from("/run/user"));
    of_a_user || home.is_within(directory) || shared.iter().any(|own| RawPath::from(*own) == *directory)
}

impl Policy {
    /// The verdict on connecting, or sending a datagram, to the socket at this canonical path.
    pub fn decide_unix(&self, path: &RawPath, service: Option<Service>, call: CallId, grants: &Grants) -> Verdict {
        let (level, basis) = self.basis_unix(path, service);
        if let Some(denial) = grants.denies_socket(path, service, call).filter(|_| level < Level::Deny) {
            return Verdict { level: Level::Deny, source: Source::Denial(denial), basis };
        }
        let granted = match level {
            Level::Allow | Level::Deny => None,
            Level::Notify | Level::Ask | Level::Authenticate => {
                grants.find_socket(path, service, call, self.needed(level, basis))
            }
        };
        match granted {
            Some(at) => Verdict { level: Level::Allow, source: Source::Grant(at), basis },
            None => Verdict { level, source: basis, basis },
        }
    }

    /// The strictest of what somebody says of sockets in this directory; `[defaults]` do not count, nor does what is built in.
    pub fn guards_sockets(&self, directory: &RawPath, grants: &Grants) -> Level {
        let call = CallId(0);
        let directly = self.decide_unix(&directory.join(ANY), None, call, grants);
        let is_said = matches!(directly.basis, Source::Rule(_) | Source::Raised { .. })
            || matches!(directly.source, Source::Denial(_));
        let below = self.below(Access::Unix, directory, call, grants).map(|verdict| verdict.level);
        is_said.then_some(directly.level).into_iter().chain(below).max().unwrap_or(Level::Allow)
    }

    fn basis_unix(&self, path: &RawPath, service: Option<Service>) -> (Level, Source) {
        let protected = &self.profile().protected;
        if let Some(own) = protected.iter().position(|own| path.is_within(own)) {
            return (Level::Deny, Source::BuiltIn(own));
        }
        let own = match (self.strictest_unix(&self.own, path, service), service.filter(|own| is_never_reached(*own))) {
            // A rule that says the same may say why.
            (Some((Level::Deny, source)), Some(_)) => (Level::Deny, source),
            (_, Some(service)) => (Level::Deny, Source::Service(service)),
            (strictest, None) => strictest.unwrap_or_else(|| self.own.otherwise(self.profile(), Access::Unix)),
        };
        self.raised(own, self.strictest_unix(&self.ceiling, path, service))
    }

    /// The strictest of the rules on the path or the service.
    fn strictest_unix(&self, tables: &Tables, path: &RawPath, service: Option<Service>) -> Option<(Level, Source)> {
        let names: Vec<&[u8]> = path.components().collect();
        let counts = |entry: &Entry| !self.is_hole(entry, &names);
        let by_path = tables.index(Access::Unix).and_then(|index| index.strongest(&names, counts));
        let by_service = service.and_then(|service| tables.of_service(service, counts));
        let strictest = by_path.into_iter().chain(by_service).min_by_key(|entry| entry.rank())?;
        Some((strictest.level, self.source(strictest)))
    }
}
