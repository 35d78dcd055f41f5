//! What a tool tries against the daemon from inside its session, over the bus and in the file system (attacks 22, 33, 42). The
//! same calls from outside work.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;

use gated::common::bus::{BUS_NAME, MANAGER_INTERFACE, MANAGER_PATH, SESSION_INTERFACE, SESSIONS_PATH};
use zbus::{Connection, Fd, Variant};

use super::machine::Machine;
use super::support::Side;
use super::{Inside, Test};

pub const TESTS: &[Test] = &[
    ("nothing_in_a_session_is_served_on_the_bus", nothing_is_served),
    ("a_session_of_root_s_changes_nothing_of_gated_s_own", own_files),
];

pub const INSIDE: &[Inside] = &[("calls", calls)];

/// Makes every call that matters, and prints what became of each.
fn calls(args: &[String]) {
    let [address, request, session] = args else { panic!("address, request, session") };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let bus: Connection = zbus::connection::Builder::address(address.as_str()).build().await.unwrap();
        let tell = |method: &str, called: zbus::Result<zbus::Message>| match called {
            Ok(_) => println!("{method} done"),
            Err(zbus::Error::MethodError(name, ..)) => println!("{method} {name}"),
            Err(error) => println!("{method} failed: {error}"),
        };
        let manager = Some(MANAGER_INTERFACE);
        let none = HashMap::<&str, Variant<'_>>::new;
        let here = std::env::current_dir().unwrap();
        let path = here.as_os_str().as_encoded_bytes();
        let directory =
            || HashMap::from([("directory", Variant::from(path.to_vec())), ("profile", Variant::from("queue"))]);
        let call =
            async |method: &str, body: &_| bus.call_method(Some(BUS_NAME), MANAGER_PATH, manager, method, body).await;
        tell("RegisterAgent", call("RegisterAgent", &(none(),)).await);
        tell("Watch", call("Watch", &(none(),)).await);
        tell("ListGrants", call("ListGrants", &(none(),)).await);
        tell("OpenSession", call("OpenSession", &(directory(),)).await);
        let file = File::open("/dev/null").unwrap();
        let fd = || Fd::from(file.as_fd());
        let root = File::open(&here).unwrap();
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let argv = vec![b"/bin/true".to_vec()];
        let empty: Vec<Vec<u8>> = Vec::new();
        let body = (argv, empty, Fd::from(root.as_fd()), vec![fd(), fd(), fd()], Fd::from(theirs.as_fd()), directory());
        tell("Run", bus.call_method(Some(BUS_NAME), MANAGER_PATH, manager, "Run", &body).await);
        drop((ours, theirs));
        let all = HashMap::from([("all", Variant::from(true))]);
        tell("RevokeGrant", bus.call_method(Some(BUS_NAME), MANAGER_PATH, manager, "RevokeGrant", &("", all)).await);
        let decision = (request.as_str(), "session", none());
        tell("Decide", bus.call_method(Some(BUS_NAME), MANAGER_PATH, manager, "Decide", &decision).await);
        let path = format!("{SESSIONS_PATH}/{session}");
        tell("Stop", bus.call_method(Some(BUS_NAME), &*path, Some(SESSION_INTERFACE), "Stop", &(none(),)).await);
    });
}

const CALLS: [&str; 8] =
    ["RegisterAgent", "Watch", "ListGrants", "OpenSession", "Run", "RevokeGrant", "Decide", "Stop"];

fn nothing_is_served() {
    let machine = Machine::new();
    let daemon = machine.daemon();
    let outside = machine.sandbox.outside().join("wanted");
    // The answer may be carried out or not before the session is stopped.
    let wanted = format!("echo x >{}; exec sleep 1000", outside.display());
    let writer = machine.run(&["sh", "-c", &wanted]);
    let request = machine.asked(&outside);
    let session = machine.sessions()[0].clone();
    let probe = machine.sandbox.inside("calls", &[machine.address(), request.clone(), session.clone()]);
    let inside = machine.run_words(probe.clone()).finish();
    inside.assert_code(0);
    for call in CALLS {
        assert_eq!(inside.values(call), ["org.gated.Gated1.Error.InsideSession"], "{call}\n{inside}");
    }
    // Nothing came of it.
    assert_eq!(machine.asked(&outside), request);
    assert!(!outside.exists());
    let bare = machine.sandbox.start_line(Side::Bare, &probe, None).finish();
    bare.assert_code(0);
    for call in CALLS {
        assert_eq!(bare.values(call), ["done"], "{call}\n{bare}");
    }
    let stopped = writer.finish();
    stopped.assert(stopped.code() != 0, "stopped");
    for session in machine.sessions() {
        let _stopped = stop(&machine, &session);
    }
    machine.over();
    drop(daemon);
}

/// As root.
fn stop(machine: &Machine, session: &str) -> zbus::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let address = machine.address();
        let bus = zbus::connection::Builder::address(address.as_str()).build().await?;
        let path = format!("{SESSIONS_PATH}/{session}");
        let body = (HashMap::<&str, Variant<'_>>::new(),);
        bus.call_method(Some(BUS_NAME), &*path, Some(SESSION_INTERFACE), "Stop", &body).await.map(drop)
    })
}

fn own_files() {
    let machine = Machine::new();
    machine.policy("profiles/all.toml", "schema = 1\n[profile]\nname = \"all\"\n[defaults]\nwrite = \"allow\"\n");
    let daemon = machine.daemon();
    let control = machine.sandbox.control();
    let places = ["run/supervisors.sock", "log/audit.jsonl", "etc/gated/profiles/all.toml", "run/sessions"];
    let tries: String = places
        .iter()
        .map(|place| {
            let path = control.join(place).display().to_string();
            format!(
                "for what in 'echo x >>{path}' 'echo x >{path}/new' 'rm -rf {path}' 'mv {path} {path}.away' \
                 'chmod 777 {path}' 'ln {path} {path}.link' 'touch {path}.new'; do \
                 sh -c \"$what\" 2>/dev/null && echo \"did $what\"; done\n"
            )
        })
        .collect();
    let modes = || places.map(|place| fs::symlink_metadata(control.join(place)).map(|meta| meta.mode()).ok());
    let was = modes();
    let free = machine.sandbox.root().join("free");
    fs::create_dir(&free).unwrap();
    // As root, to whom they belong, with a profile that allows everything.
    let mut words: Vec<OsString> = vec!["env".into()];
    words.push(format!("DBUS_SYSTEM_BUS_ADDRESS={}", machine.address()).into());
    words.push(env!("CARGO_BIN_EXE_gated-run").into());
    words.extend(["--profile", "all", "--consent", "none", "--", "sh", "-c"].map(OsString::from));
    words.push(format!("{tries}touch {}", free.join("allowed").display()).into());
    let done = machine.sandbox.start_line(Side::Gated, &words, None).finish();
    done.assert_code(0);
    assert!(done.values("did").is_empty(), "{done}");
    assert_eq!(modes(), was);
    assert!(free.join("allowed").exists(), "what is nobody's is allowed\n{done}");
    machine.over();
    drop(daemon);
}
