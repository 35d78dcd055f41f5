//! `gatedctl doctor`: what it says of the kernel that runs the tests, of a daemon, and of a desktop.

use std::collections::HashMap;

use serde_json::Value;
use zbus::interface;

use crate::daemon::{Ran, Simulated, command, world};
use crate::support::bus::PrivateBus;

fn report(ran: &Ran) -> (bool, HashMap<String, (String, String)>) {
    let report: Value = serde_json::from_str(&ran.out).expect("JSON");
    let word = |check: &Value, key: &str| check[key].as_str().expect("a string").to_owned();
    let checks = report["checks"].as_array().expect("a list").iter();
    let checks = checks.map(|check| (word(check, "name"), (word(check, "state"), word(check, "found"))));
    assert!(report["enforced"].as_array().expect("a list").iter().all(|one| one["what"].is_string()));
    (report["ok"].as_bool().expect("a boolean"), checks.collect())
}

#[test]
fn a_machine_on_which_sessions_work_is_well() {
    let simulated = Simulated::start(world());
    let ran = simulated.run(&["doctor", "--json"]);
    let (ok, checks) = report(&ran);
    assert!(ok && ran.status == 0, "{checks:?}");
    for name in ["landlock", "seccomp", "pidfd", "memory", "ptrace_scope", "namespaces", "bus", "daemon", "audit"] {
        assert_ne!(checks[name].0, "missing", "{name}: {checks:?}");
    }
    assert_eq!(checks["agent"].0, "note");
    assert_eq!(checks["polkit"].0, "note");
    assert_eq!(checks["notifications"].0, "note");
}

#[test]
fn what_the_daemon_says_of_itself_is_put_into_words() {
    let mut world = world();
    world.version = "9.9.9\u{1b}[2J".into();
    world.features = vec!["consent-agent".into()];
    let simulated = Simulated::start(world);
    let ran = simulated.run(&["doctor", "--json"]);
    let (ok, checks) = report(&ran);
    assert!(!ok && ran.status == 1);
    assert_eq!((checks["daemon"].0.as_str(), checks["agent"].0.as_str()), ("note", "ok"));
    assert_eq!(checks["audit"].0, "missing", "a daemon that does not say that it can write");
    let text = simulated.run(&["doctor"]);
    assert_eq!(text.status, 1);
    assert!(text.out.contains("9.9.9\\x1b[2J") && text.out.contains("MISSING  audit"), "{}", text.out);
    assert!(text.out.contains("What is enforced here, and what is not:"));
}

#[test]
fn without_a_daemon_it_says_what_to_do() {
    let bus = PrivateBus::start();
    let ran = Ran::of(command(bus.address()).args(["doctor", "--json"]).output().unwrap());
    let (ok, checks) = report(&ran);
    assert!(!ok && ran.status == 1);
    assert_eq!((checks["bus"].0.as_str(), checks["daemon"].0.as_str()), ("ok", "missing"));
    let text = Ran::of(command("unix:path=/nonexistent").env("COLUMNS", "60").arg("doctor").output().unwrap());
    assert_eq!(text.status, 1);
    assert!(text.out.contains("MISSING  bus"), "{}", text.out);
    assert!(text.out.lines().all(|line| line.len() <= 60), "{}", text.out);
}

struct Notifications(Vec<String>);

#[interface(name = "org.freedesktop.Notifications")]
impl Notifications {
    fn get_capabilities(&self) -> Vec<String> {
        self.0.clone()
    }
}

/// A report, while this thread serves a bus.
async fn meanwhile(mut doctor: std::process::Command) -> HashMap<String, (String, String)> {
    doctor.args(["doctor", "--json"]);
    let output = tokio::task::spawn_blocking(move || doctor.output().expect("gatedctl"));
    report(&Ran::of(output.await.expect("no panic"))).1
}

/// polkit is on the system bus, the notification server on the session's.
#[test]
fn polkit_and_notification_servers_are_found() {
    let simulated = Simulated::start(world());
    let desktop = PrivateBus::start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let found = |capabilities: &[&str]| {
        let server = Notifications(capabilities.iter().map(|word| (*word).to_owned()).collect());
        let mut doctor = simulated.command();
        doctor.env("DBUS_SESSION_BUS_ADDRESS", desktop.address());
        runtime.block_on(async {
            let builder = zbus::connection::Builder::address(desktop.address());
            let builder = builder.serve_at("/org/freedesktop/Notifications", server);
            let owner = builder.name("org.freedesktop.Notifications").build().await.unwrap();
            let checks = meanwhile(doctor).await;
            owner.close().await.unwrap();
            checks["notifications"].clone()
        })
    };
    assert_eq!(found(&["body", "actions"]).0, "ok");
    assert!(found(&["body"]).1.contains("without buttons"));

    let checks = runtime.block_on(async {
        let connection = simulated.bus.connect().await;
        connection.request_name("org.freedesktop.PolicyKit1").await.unwrap();
        meanwhile(simulated.command()).await
    });
    assert!(!checks["polkit"].1.contains("not here"), "{checks:?}");
}
