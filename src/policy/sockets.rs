//! The verdict on unix sockets, and which service is behind one. Pure.

use crate::common::id::CallId;
use crate::common::net::Service;
use crate::common::path::RawPath;

use super::decide::{Policy, Source, Verdict};
use super::grants::Grants;

/// Where the services of one user have their sockets.
#[derive(Clone, Debug)]
pub struct Services {
    ssh_agent: Option<RawPath>,
}

impl Services {
    /// `ssh_agent` is `SSH_AUTH_SOCK` of whoever opened the session.
    pub fn new(home: &RawPath, uid: u32, ssh_agent: Option<RawPath>) -> Services {
        let _ = (home, uid);
        Services { ssh_agent }
    }

    /// The service behind the socket at this canonical path of the host.
    pub fn of(&self, path: &RawPath) -> Option<Service> {
        (self.ssh_agent.as_ref() == Some(path)).then_some(Service::SshAgent)
    }
}

impl Policy {
    /// The verdict on connecting, or sending a datagram, to the socket at this canonical path.
    pub fn decide_unix(&self, path: &RawPath, service: Option<Service>, call: CallId, grants: &Grants) -> Verdict {
        let _ = (path, service, call, grants);
        let level = self.profile().defaults.unix;
        Verdict { level, source: Source::Default, basis: Source::Default }
    }
}
