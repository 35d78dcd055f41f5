//! Services that are known by where their sockets are, and what it means to reach one.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A service behind a unix socket, as the policy language names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Service {
    /// The user's D-Bus, and `systemd --user`'s private socket.
    #[serde(rename = "@session_bus")]
    SessionBus,
    /// The machine's D-Bus, and systemd's own sockets but for the journal's.
    #[serde(rename = "@system_bus")]
    SystemBus,
    #[serde(rename = "@wayland")]
    Wayland,
    #[serde(rename = "@x11")]
    X11,
    #[serde(rename = "@ssh_agent")]
    SshAgent,
    #[serde(rename = "@gpg_agent")]
    GpgAgent,
    /// Docker, and what is like it: containerd, podman, CRI-O, libvirt, LXD.
    #[serde(rename = "@docker")]
    Docker,
    /// The journal and syslog.
    #[serde(rename = "@journal")]
    Journal,
}

impl Service {
    pub const ALL: [Service; 8] = [
        Service::SessionBus,
        Service::SystemBus,
        Service::Wayland,
        Service::X11,
        Service::SshAgent,
        Service::GpgAgent,
        Service::Docker,
        Service::Journal,
    ];

    /// The word of the policy language.
    pub fn as_str(self) -> &'static str {
        match self {
            Service::SessionBus => "@session_bus",
            Service::SystemBus => "@system_bus",
            Service::Wayland => "@wayland",
            Service::X11 => "@x11",
            Service::SshAgent => "@ssh_agent",
            Service::GpgAgent => "@gpg_agent",
            Service::Docker => "@docker",
            Service::Journal => "@journal",
        }
    }

    /// What whoever says yes should know, in one sentence.
    pub fn meaning(self) -> &'static str {
        match self {
            Service::SessionBus => "The session bus starts programs outside of the sandbox and holds your passwords.",
            Service::SystemBus => "The system bus reaches the services of this machine.",
            Service::Wayland => "The display shows windows and takes what you type into them.",
            Service::X11 => "X11 lets every program read what you type anywhere and type in your place.",
            Service::SshAgent => "The ssh agent signs in to other machines as you.",
            Service::GpgAgent => "The gpg agent signs and decrypts as you.",
            Service::Docker => "This is root on this machine.",
            Service::Journal => "Lines are written into this machine's log.",
        }
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::str::FromStr for Service {
    type Err = ();
    fn from_str(text: &str) -> Result<Service, ()> {
        Service::ALL.into_iter().find(|service| service.as_str() == text).ok_or(())
    }
}
