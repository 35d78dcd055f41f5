//! D-Bus: none, or exactly the names of the profile through a filter.

use super::host::Host;
use crate::support::user::UID;
use crate::support::{Running, Side, wait};
use crate::{Inside, Test};

pub const TESTS: &[Test] = &[
    ("without_names_there_is_no_bus_and_no_variable", none),
    ("only_listed_names_are_reached_and_nothing_is_left", filtered),
    ("a_session_without_its_proxy_does_not_start", missing),
];

pub const INSIDE: &[Inside] = &[("unix-bus-name", own_name)];

/// What a service says.
struct Word;

#[zbus::interface(name = "org.example.Word")]
impl Word {
    fn say(&self) -> &str {
        "said"
    }
}

/// Owns a name on the bus at this address until it is killed.
fn own_name(args: &[String]) {
    let [address, name] = args else { panic!("ADDRESS NAME") };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let bus = zbus::connection::Builder::address(address.as_str()).build().await.expect("the bus");
        bus.object_server().at("/", Word).await.expect("an object");
        bus.request_name(name.as_str()).await.expect("a name");
        std::future::pending::<()>().await;
    });
}

struct Buses<'a> {
    session: String,
    _running: Vec<Running<'a>>,
}

/// A session bus with two names on it, and a system bus.
fn buses(host: &Host) -> Buses<'_> {
    let session = format!("/run/user/{UID}/bus");
    let system = "/run/dbus/system_bus_socket";
    let bus = |socket: &str| {
        let address = format!("--address=unix:path={socket}");
        host.daemon(&["dbus-daemon", "--session", "--nofork", "--nopidfile", &address], socket)
    };
    let mut running = vec![bus(&session), bus(system)];
    let address = format!("unix:path={session}");
    for name in ["org.example.Listed", "org.example.Other"] {
        running.push(host.sandbox.start(Side::Bare, &host.sandbox.inside("unix-bus-name", &[&address, name])));
    }
    wait::until("two names on the bus", || {
        let names = call(host, Side::Bare, &address, "org.freedesktop.DBus", "org.freedesktop.DBus.ListNames");
        names.contains("org.example.Listed").then_some(()).filter(|()| names.contains("org.example.Other"))
    });
    Buses { session: address, _running: running }
}

/// What dbus-send(1) says.
fn call(host: &Host, side: Side, address: &str, to: &str, method: &str) -> String {
    let line = format!("dbus-send --bus={address} --print-reply --reply-timeout=5000 --dest={to} / {method} 2>&1");
    host.sandbox.on(side, &["/bin/sh", "-c", &line]).out()
}

const SAY: &str = "org.example.Word.Say";

fn none() {
    let host = Host::new();
    let buses = buses(&host);
    assert!(call(&host, Side::Bare, &buses.session, "org.example.Listed", SAY).contains("said"));
    host.profile("allow", "");
    let words = call(&host, Side::Gated, &buses.session, "org.example.Listed", SAY);
    assert!(words.contains("Permission denied"), "{words}");
    let system = "unix:path=/run/dbus/system_bus_socket";
    let words = call(&host, Side::Gated, system, "org.freedesktop.DBus", "org.freedesktop.DBus.ListNames");
    assert!(words.contains("Permission denied"), "{words}");
    let outcome = host.sandbox.run(&["/bin/sh", "-c", "env | grep -c ^DBUS_; ls /run/gated/bus"]);
    outcome.assert(outcome.out() == "0\n", "no variable and no socket");
}

fn filtered() {
    let host = Host::new();
    let _buses = buses(&host);
    host.profile("deny", "[dbus]\nsession = [\"org.example.Listed\"]\n");
    let run = |line: &str| host.sandbox.run(&["/bin/sh", "-c", line]);
    let send = "dbus-send --session --print-reply --reply-timeout=5000";
    let listed = run(&format!("{send} --dest=org.example.Listed / {SAY}"));
    listed.assert(listed.out().contains("said"), "a listed name is reached");
    let other = run(&format!("{send} --dest=org.example.Other / {SAY}"));
    other.assert(other.code() != 0 && other.err().contains("ServiceUnknown"), "another is not there");
    let names = run(&format!("{send} --dest=org.freedesktop.DBus / org.freedesktop.DBus.ListNames"));
    names.assert(names.out().contains("org.example.Listed"), "listed");
    names.assert(!names.out().contains("org.example.Other"), "and nothing else is seen");
    let started = run(&format!(
        "{send} --dest=org.freedesktop.DBus / org.freedesktop.DBus.StartServiceByName string:org.example.Other uint32:0"
    ));
    started.assert(started.code() != 0, "nothing is started");
    let owned = run(&format!(
        "{send} --dest=org.freedesktop.DBus / org.freedesktop.DBus.RequestName string:org.example.Mine uint32:0"
    ));
    owned.assert(owned.code() != 0, "no name is taken");
    let around = run(
        "touch /run/gated/bus/new; rm /run/gated/bus/session; echo $DBUS_SESSION_BUS_ADDRESS; pgrep -x xdg-dbus-proxy",
    );
    around
        .assert(around.out() == "unix:path=/run/gated/bus/session\n", "the place is fixed, and the proxy out of sight");
    let system = run("dbus-send --system --print-reply --dest=org.freedesktop.DBus / org.freedesktop.DBus.ListNames");
    system.assert(system.err().contains("Permission denied"), "the other bus is none");
    let left = || host.sandbox.processes().into_iter().filter(|process| is_proxy(process.pid)).count();
    wait::until("the proxies to be gone", || (left() == 0).then_some(()));
}

fn is_proxy(pid: i32) -> bool {
    std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.starts_with(b"/usr/bin/xdg-dbus-proxy"))
}

fn missing() {
    let mut host = Host::new();
    host.profile("deny", "[dbus]\nsession = [\"org.example.Listed\"]\n");
    let nothing = host.sandbox.root().join("nothing");
    std::fs::write(&nothing, "").expect("write");
    host.sandbox.bind_file(&nothing, std::path::Path::new("/usr/bin/xdg-dbus-proxy"));
    let outcome = host.sandbox.run(&["true"]);
    outcome.assert_code(125);
    outcome.assert(outcome.err().contains("xdg-dbus-proxy"), "it says what is missing");
}
