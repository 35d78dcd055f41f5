//! Two machines for tests of the network, in network namespaces of the test's own: one that gated-run is started on, and all
//! that it could reach, the internet.
//!
//! Runs in the test process, as root. A namespace is held by descriptors of this process alone, so that it ends, with its
//! interfaces and rules, when the test does, however that ends. Nothing has a name on this machine, and worlds do not meet.
//!
//! ```text
//!  machine                                        internet
//!  lo   127.0.0.1, ::1                            every other address: who binds one has it, without a listener it refuses
//!  eth0 198.51.100.2, 2001:db8:ffff::2  ──veth──  eth0 198.51.100.1, 2001:db8:ffff::1 (the machine's default router)
//! ```
//!
//! Addresses are those of RFC 5737 and RFC 3849, which are nobody's, and such as have a meaning everywhere (RFC 1918, RFC 3927).

pub mod dns;
pub mod echo;
pub mod http;
pub mod message;
pub mod namespace;
pub mod program;
pub mod serving;
pub mod tls;
pub mod wire;
pub mod zone;

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

pub use dns::Dns;
pub use http::{Request, Response, Web};
pub use namespace::Namespace;
pub use program::Program;
use serving::Serving;
pub use tls::Authority;
pub use wire::Wire;
pub use zone::{Data, Zone};

use super::Sandbox;

/// The machine, as the internet sees it.
pub const MACHINE: IpAddr = v4(198, 51, 100, 2);
pub const MACHINE6: IpAddr = v6(0xffff, 2);
/// The servers of names: those of the machine's resolv.conf, and two that a program may know by heart.
pub const RESOLVER: IpAddr = v4(203, 0, 113, 53);
pub const RESOLVER6: IpAddr = v6(0x53, 0x53);
pub const OTHER_RESOLVERS: [IpAddr; 2] = [v4(8, 8, 8, 8), v4(1, 1, 1, 1)];
/// `www.example.org`, with HTTP, TLS and both echoes.
pub const WWW: IpAddr = v4(192, 0, 2, 10);
pub const WWW6: IpAddr = v6(2, 0x10);
/// `api.example.org`, `other.example.net`: more names with the same servers.
pub const API: IpAddr = v4(192, 0, 2, 11);
pub const OTHER: IpAddr = v4(203, 0, 113, 20);
/// `silent.example.org`: no packet to it is ever answered.
pub const SILENT: IpAddr = v4(192, 0, 2, 66);
pub const SILENT6: IpAddr = v6(2, 0x66);
/// `intra.example.org`: an address of a private network.
pub const PRIVATE: IpAddr = v4(10, 1, 2, 3);
/// `metadata.example.org`: where clouds tell a machine its secrets.
pub const METADATA: IpAddr = v4(169, 254, 169, 254);

const fn v4(a: u8, b: u8, c: u8, d: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(a, b, c, d))
}

const fn v6(net: u16, host: u16) -> IpAddr {
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, net, 0, 0, 0, 0, host))
}

/// Gone with all that it made when dropped.
pub struct World {
    /// Where gated-run and bare commands run.
    pub machine: Namespace,
    pub internet: Namespace,
    /// Names, at [`RESOLVER`], [`RESOLVER6`] and [`OTHER_RESOLVERS`], UDP and TCP port 53.
    pub dns: Dns,
    /// HTTP on port 80 of every address of the internet.
    pub web: Web,
    /// What left the machine.
    pub wire: Wire,
    serving: Serving,
    files: tempfile::TempDir,
}

impl World {
    /// A world with the names of [`Zone::usual`], HTTP everywhere, and echoes on port 7 of [`WWW`], [`WWW6`] and [`PRIVATE`].
    pub fn new() -> World {
        let (machine, internet) = (Namespace::new(), Namespace::new());
        namespace::join(&machine, &internet);
        let serving = Serving::new();
        let dns = Dns::new(Zone::usual());
        for address in [RESOLVER, RESOLVER6].into_iter().chain(OTHER_RESOLVERS) {
            dns.serve(&serving, &internet, SocketAddr::new(address, 53));
        }
        let web = Web::new();
        web.serve(&serving, &internet, any(80));
        for address in [WWW, WWW6, PRIVATE] {
            echo::udp(&serving, &internet, SocketAddr::new(address, 7));
        }
        echo::tcp(&serving, &internet, any(7));
        let wire = Wire::new(&internet, &[SILENT, SILENT6]);
        let files = tempfile::Builder::new().prefix("gated-world-").tempdir_in("/var/tmp").expect("/var/tmp");
        let world = World { machine, internet, dns, web, wire, serving, files };
        fs::set_permissions(world.files(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("chmod");
        world.resolv_conf(&format!("nameserver {RESOLVER}\nnameserver {RESOLVER6}\noptions timeout:2 attempts:2\n"));
        world.hosts("127.0.0.1 localhost\n::1 localhost\n");
        fs::write(
            world.files().join("nsswitch.conf"),
            "passwd: files\ngroup: files\nhosts: files dns\nservices: files\n",
        )
        .expect("write");
        world
    }

    /// A sandbox whose commands, bare and gated, run on the machine, with its files in /etc.
    pub fn sandbox(&self) -> Sandbox {
        let mut sandbox = Sandbox::new();
        sandbox.network(&self.machine);
        for name in ["resolv.conf", "hosts", "nsswitch.conf"] {
            sandbox.bind_file(&self.files().join(name), &Path::new("/etc").join(name));
        }
        // Nobody else answers for names there.
        for dir in
            ["/run/systemd/resolve", "/run/nscd", "/var/run/nscd"].map(Path::new).iter().filter(|dir| dir.is_dir())
        {
            sandbox.tmpfs(dir, "mode=755");
        }
        sandbox
    }

    /// Replaces the contents of the machine's /etc/resolv.conf, also for what runs.
    pub fn resolv_conf(&self, contents: &str) {
        fs::write(self.files().join("resolv.conf"), contents).expect("write");
    }

    /// Replaces the contents of the machine's /etc/hosts, also for what runs.
    pub fn hosts(&self, contents: &str) {
        fs::write(self.files().join("hosts"), contents).expect("write");
    }

    /// A directory for files of the servers, which every user may read.
    pub fn files(&self) -> &Path {
        self.files.path()
    }

    /// HTTP with handlers and a log of its own, in either namespace.
    pub fn web_at(&self, namespace: &Namespace, at: SocketAddr) -> Web {
        let web = Web::new();
        web.serve(&self.serving, namespace, at);
        web
    }

    /// Sends back what it gets, in either namespace.
    pub fn tcp_echo(&self, namespace: &Namespace, at: SocketAddr) -> echo::Log {
        echo::tcp(&self.serving, namespace, at)
    }

    /// Sends each datagram back to its sender, in either namespace.
    pub fn udp_echo(&self, namespace: &Namespace, at: SocketAddr) -> echo::Log {
        echo::udp(&self.serving, namespace, at)
    }

    /// HTTP over TLS on port 443 of every address, with certificates for these names and addresses, by an authority of this
    /// world's. Requests are answered and logged by [`World::web`].
    pub fn tls(&self, names: &[&str]) -> Authority {
        Authority::new(self, names)
    }
}

/// A port of every address of both families.
pub fn any(port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port)
}
