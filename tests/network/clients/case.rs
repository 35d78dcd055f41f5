//! One client and its three runs. Runs in the test process, as root; the client runs as the test user.

use std::any::Any;
use std::net::IpAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::support::network::message::{A, AAAA};
use crate::support::network::{Data, RESOLVER, RESOLVER6, World};
use crate::support::{Outcome, Sandbox, Side};

/// What a client works with while it does; gone before its world.
pub type Servers = Vec<Box<dyn Any>>;

pub struct Client {
    pub name: &'static str,
    /// A shell script: `$1` is the directory of the world's files, the cwd a workspace.
    pub script: &'static str,
    /// Commands or files that must be there: `PATH PACKAGE`, as Debian calls it.
    pub needs: &'static [(&'static str, &'static str)],
    /// Adds what the world needs for this client.
    pub servers: fn(&World) -> Servers,
    pub prepare: fn(&World, &mut Sandbox),
    /// `NAME:PORT`: all that the client may reach.
    pub hosts: &'static [&'static str],
    /// All that it prints to stdout when it works.
    pub says: &'static str,
    /// Where nothing is allowed it prints one of these.
    pub refused: &'static [&'static str],
    /// Whether it connects, and does not only ask for names.
    pub connects: bool,
}

/// How long a client that is denied may take to say so, on a loaded machine.
const AT_ONCE: Duration = Duration::from_secs(20);

pub fn no_servers(_: &World) -> Servers {
    Vec::new()
}

/// With TLS for `www.example.org`.
pub fn tls(world: &World) -> Servers {
    vec![Box::new(world.tls(&["www.example.org"]))]
}

pub fn nothing(_: &World, _: &mut Sandbox) {}

/// Nothing is reached but by these rules.
pub fn profile(rules: &str) -> String {
    format!("schema = 1\n[profile]\nname = \"client\"\n[defaults]\nwrite = \"allow\"\nconnect = \"deny\"\n{rules}")
}

/// A rule that allows connections to these.
pub fn allow(hosts: &[&str]) -> String {
    format!("[[rule]]\nid = \"hosts\"\naccess = [\"connect\"]\nhost = {hosts:?}\nlevel = \"allow\"\n")
}

impl Client {
    /// It does its work, and what it reaches is what the other runs allow or deny.
    #[track_caller]
    pub fn bare(&self) {
        let (world, _servers) = self.world();
        let outcome = self.run(&world, Side::Bare, "");
        self.worked(&world, &outcome);
        assert!(!world.wire.arrived().is_empty(), "{}: it reached nothing", self.name);
    }

    /// It does the same in a session that may reach its host and nothing else.
    #[track_caller]
    pub fn allowed(&self) {
        let (world, _servers) = self.world();
        let outcome = self.run(&world, Side::Gated, &allow(self.hosts));
        self.worked(&world, &outcome);
        let names: Vec<&str> = self.hosts.iter().filter_map(|host| Some(host.rsplit_once(':')?.0)).collect();
        let asked = world.dns.names();
        let judged = |name: &str| names.contains(&host_of(name));
        outcome.assert(asked.iter().all(|name| judged(name)), &format!("it asked for {asked:?}"));
    }

    /// In a session that may reach nothing it ends soon, says why, and nothing leaves the machine.
    #[track_caller]
    pub fn denied(&self) {
        let (world, _servers) = self.world();
        let start = Instant::now();
        let outcome = self.run(&world, Side::Gated, "");
        let took = start.elapsed();
        outcome.assert(fails_by_itself(&outcome), &format!("{}: it fails by itself", self.name));
        outcome.assert(took < AT_ONCE, &format!("{}: it took {took:?}", self.name));
        let told = outcome.out() + &outcome.err();
        outcome.assert(self.refused.iter().any(|text| told.contains(text)), &format!("{}: it says why", self.name));
        assert_eq!(world.dns.queries(), [], "{}: a name left the machine", self.name);
        world.wire.assert_arrived(&[]);
        let host = |host: &str| host.rsplit_once(':').map_or(String::new(), |(name, _)| name.to_owned());
        outcome.assert(self.names_a_host(&outcome, host), &format!("{}: a denial names a host", self.name));
    }

    /// In a session that may look its hosts up, and reach them at another port alone, it ends soon and nothing reaches them.
    #[track_caller]
    pub fn denied_port(&self) {
        let (world, _servers) = self.world();
        let others: Vec<String> =
            self.hosts.iter().filter_map(|host| Some(format!("{}:1", host.rsplit_once(':')?.0))).collect();
        let others: Vec<&str> = others.iter().map(String::as_str).collect();
        let start = Instant::now();
        let outcome = self.run(&world, Side::Gated, &allow(&others));
        let took = start.elapsed();
        outcome.assert(fails_by_itself(&outcome), &format!("{}: it fails by itself", self.name));
        outcome.assert(took < AT_ONCE, &format!("{}: it took {took:?}", self.name));
        outcome.assert(!outcome.err().is_empty(), &format!("{}: it says something", self.name));
        let connected: Vec<String> = world.wire.arrived().into_keys().filter(|to| !to.ends_with(":53")).collect();
        outcome.assert(connected.is_empty(), &format!("{}: it reached {connected:?}", self.name));
        outcome.assert(self.names_a_host(&outcome, str::to_owned), &format!("{}: a denial names a host", self.name));
    }

    /// Whether a denial is of one of the hosts as `told` tells them.
    fn names_a_host(&self, outcome: &Outcome, told: fn(&str) -> String) -> bool {
        outcome.events_of("denied").any(|event| self.hosts.iter().any(|host| event["object"] == told(host)))
    }

    #[track_caller]
    fn worked(&self, world: &World, outcome: &Outcome) {
        outcome.assert_code(0);
        outcome.assert(outcome.out() == self.says, &format!("{}: it prints\n{}", self.name, self.says));
        for traffic in world.wire.arrived().keys() {
            let reached = self.reachable(world).contains(traffic);
            outcome.assert(reached, &format!("{}: it reached {traffic}", self.name));
        }
    }

    /// All that may arrive on the wire: questions for names, and connections to the hosts.
    fn reachable(&self, world: &World) -> Vec<String> {
        let bracketed = |address: IpAddr| if address.is_ipv6() { format!("[{address}]") } else { address.to_string() };
        let mut reachable = Vec::new();
        for resolver in [RESOLVER, RESOLVER6] {
            reachable.extend(["udp", "tcp"].map(|protocol| format!("{protocol} {}:53", bracketed(resolver))));
            // Whoever has its answer closes its socket, and is not there for the next one.
            reachable.extend([format!("icmp {resolver}"), format!("ipv6-icmp {resolver}")]);
        }
        for host in self.hosts {
            let (name, port) = host.rsplit_once(':').expect("NAME:PORT");
            let answers = [A, AAAA].map(|kind| world.dns.change(|zone| zone.answer(name, kind)));
            for record in answers.into_iter().flatten().flat_map(|(_, records)| records) {
                let address: IpAddr = match record.data {
                    Data::A(address) => address.into(),
                    Data::Aaaa(address) => address.into(),
                    _ => continue,
                };
                reachable.push(format!("tcp {}:{port}", bracketed(address)));
            }
        }
        reachable
    }

    #[track_caller]
    fn world(&self) -> (World, Servers) {
        for (path, package) in self.needs {
            require(path, package);
        }
        let world = World::new();
        let servers = (self.servers)(&world);
        // What was needed to see that they serve is no client's.
        world.dns.forget();
        world.web.forget();
        world.wire.forget();
        (world, servers)
    }

    #[track_caller]
    fn run(&self, world: &World, side: Side, rules: &str) -> Outcome {
        let mut sandbox = world.sandbox();
        if side == Side::Bare {
            sandbox.tmpfs(Path::new("/tmp"), "mode=1777");
        }
        sandbox.profile(&profile(rules));
        (self.prepare)(world, &mut sandbox);
        let script = sandbox.control().join("script.sh");
        std::fs::write(&script, self.script).expect("write the script");
        sandbox.on(side, &["/bin/sh".as_ref(), "-eu".as_ref(), script.as_os_str(), world.files().as_os_str()])
    }
}

/// It ended with a failure that is none of gated-run's own.
fn fails_by_itself(outcome: &Outcome) -> bool {
    outcome.code() != 0 && !(125..=127).contains(&outcome.code())
}

/// The name that a service (`_http._tcp.NAME`) is of.
fn host_of(name: &str) -> &str {
    match name.split_once('.') {
        Some((service, rest)) if service.starts_with('_') => host_of(rest),
        _ => name,
    }
}

/// Fails, saying what to install, if a command or file is missing.
#[track_caller]
fn require(wanted: &str, package: &str) {
    let found =
        ["/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin"].iter().any(|dir| Path::new(dir).join(wanted).exists());
    assert!(found, "no {wanted} here: apt-get install {package} (make test does it)");
}
