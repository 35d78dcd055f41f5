//! `gatedd --metrics` and `gatedctl stats`, both as they are installed, on a bus of the test's own. Needs root.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use support::openmetrics;
use support::system_bus::{Bus, Process};
use support::until;

mod support;

struct Machine {
    // Ended in this order.
    _daemon: Process,
    bus: Bus,
}

impl Machine {
    fn start(more: &[&str]) -> Machine {
        let bus = Bus::start();
        let place = bus.directory();
        fs::create_dir(place.join("policy")).unwrap();
        let mut gatedd = Command::new(env!("CARGO_BIN_EXE_gatedd"));
        gatedd.arg("--runtime").arg(place.join("run")).arg("--audit").arg(place.join("records/audit.jsonl"));
        gatedd.arg("--state").arg(place.join("state"));
        gatedd.arg("--policy-root").arg(place.join("policy")).args(["--supervisors", "spawn"]).args(more);
        gatedd.current_dir(place).env("DBUS_SYSTEM_BUS_ADDRESS", &bus.address).stdin(Stdio::null());
        gatedd.stdout(Stdio::null()).stderr(File::create(place.join("gatedd.err")).unwrap());
        let daemon = Process(gatedd.spawn().expect("gatedd"));
        let machine = Machine { _daemon: daemon, bus };
        until("the daemon", || machine.run(&["status"]).status.success().then_some(()));
        machine
    }

    fn run(&self, words: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gatedctl"));
        command.env_clear().env("DBUS_SYSTEM_BUS_ADDRESS", &self.bus.address).env("TZ", "UTC").env("COLUMNS", "100");
        command.args(words).output().expect("gatedctl")
    }
}

#[test]
fn the_daemon_writes_its_file_at_once_and_when_it_is_told_to() {
    let machine = Machine::start(&["--metrics", "monitoring/deep/gated.prom"]);
    let file = machine.bus.directory().join("monitoring/deep/gated.prom");
    let first = until("the file", || fs::read_to_string(&file).ok());
    assert_eq!(openmetrics::parse(&first).get("gated_sessions", &[]), 0.0);
    // Everybody may read it, whatever the daemon's umask.
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o7777, 0o644);
    assert_eq!(file.parent().unwrap().metadata().unwrap().permissions().mode() & 0o7777, 0o755);
    fs::remove_file(&file).unwrap();
    assert!(machine.run(&["stats", "--write"]).status.success());
    openmetrics::parse(&fs::read_to_string(&file).unwrap());

    let told = machine.run(&["stats", "--json"]);
    let told: Value = serde_json::from_slice(&told.stdout).unwrap();
    assert_eq!((told["sessions"].as_u64(), told["decisions"]["person"].as_u64()), (Some(0), Some(0)));
    assert_eq!((told["waits"]["count"].as_u64(), told["audit_failures"].as_u64()), (Some(0), Some(0)));
    let words = String::from_utf8(machine.run(&["stats"]).stdout).unwrap();
    let said = ["nothing has waited yet", "Nothing was asked for or recorded.", "0 now, 0 in all"];
    assert!(said.iter().all(|said| words.contains(said)), "{words}");
}

#[test]
fn a_daemon_without_a_file_says_so() {
    let machine = Machine::start(&[]);
    let told = machine.run(&["stats", "--write"]);
    assert!(!told.status.success());
    assert!(String::from_utf8_lossy(&told.stderr).contains("without --metrics"), "{told:?}");
}
