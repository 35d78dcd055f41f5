//! Every verb of `gatedctl` against a real `gatedd` on a bus of the test's own, with a real session below it. Needs root, as
//! the daemon does.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, PipeReader, PipeWriter, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use gated::ctl::proxies::ManagerProxy;
use serde_json::Value;
use support::system_bus::{Bus, Process};
use support::until;
use zbus::Connection;

mod support;

/// A bus, a daemon, and a directory that no profile gives.
struct Machine {
    runtime: tokio::runtime::Runtime,
    // Ended in this order.
    daemon: Process,
    bus: Bus,
}

struct Ran {
    status: i32,
    out: String,
    err: String,
}

impl Machine {
    fn start() -> Machine {
        Machine::start_after(|_| ())
    }

    /// A machine on whose bus something is there before the daemon.
    fn start_after(before: impl FnOnce(&Bus)) -> Machine {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let bus = Bus::start();
        before(&bus);
        let place = bus.directory();
        for folder in ["work", "outside", "policy"] {
            fs::create_dir(place.join(folder)).unwrap();
        }
        let mut gatedd = Command::new(env!("CARGO_BIN_EXE_gatedd"));
        gatedd.arg("--runtime").arg(place.join("run")).arg("--audit").arg(place.join("records/audit.jsonl"));
        gatedd.arg("--state").arg(place.join("state"));
        gatedd.arg("--policy-root").arg(place.join("policy")).args(["--supervisors", "spawn"]);
        gatedd.env("DBUS_SYSTEM_BUS_ADDRESS", &bus.address).stdin(Stdio::null());
        gatedd.stdout(File::create(place.join("gatedd.log")).unwrap());
        let stderr = File::create(place.join("gatedd.err")).unwrap();
        let mut daemon = Process(gatedd.stderr(stderr).spawn().expect("gatedd"));
        until("the daemon", || {
            if let Some(status) = daemon.0.try_wait().unwrap() {
                panic!("gatedd: {status}: {}", fs::read_to_string(place.join("gatedd.err")).unwrap());
            }
            let mut status = Command::new(env!("CARGO_BIN_EXE_gatedctl"));
            status.arg("status").env("DBUS_SYSTEM_BUS_ADDRESS", &bus.address);
            (ran(&mut status).status == 0).then_some(())
        });
        Machine { runtime, daemon, bus }
    }

    fn place(&self, name: &str) -> PathBuf {
        self.bus.directory().join(name)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gatedctl"));
        command.env_clear().env("DBUS_SYSTEM_BUS_ADDRESS", &self.bus.address).env("TZ", "UTC").env("COLUMNS", "100");
        command
    }

    fn run(&self, words: &[&str]) -> Ran {
        ran(self.command().args(words))
    }

    #[track_caller]
    fn json(&self, words: &[&str]) -> Value {
        let ran = self.run(&[words, &["--json"]].concat());
        assert_eq!(ran.status, 0, "{words:?}: {}", ran.err);
        serde_json::from_str(&ran.out).expect("JSON")
    }

    /// A copy of gatedctl that every user can execute.
    fn reachable(&self) -> PathBuf {
        let program = self.place("gatedctl");
        fs::copy(env!("CARGO_BIN_EXE_gatedctl"), &program).unwrap();
        fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
        program
    }

    fn as_nobody(&self, program: &Path, words: &[&str]) -> Ran {
        let mut command = Command::new(program);
        command.env_clear().env("DBUS_SYSTEM_BUS_ADDRESS", &self.bus.address);
        ran(command.uid(65534).gid(65534).current_dir("/").args(words))
    }

    /// The id of the request for this object, as soon as it waits.
    #[track_caller]
    fn waits(&self, object: &Path) -> String {
        until("a request", || {
            let pending = self.json(&["pending"]);
            let one = pending.as_array()?.iter().find(|one| one["object"] == object.to_str().unwrap())?.clone();
            Some(one["id"].as_str()?.to_owned())
        })
    }

    /// A session with a shell that takes its commands from the test.
    fn session(&self) -> Session {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (stdin, to_tool) = std::io::pipe().unwrap();
        let (from_tool, stdout) = std::io::pipe().unwrap();
        let stderr = stdout.try_clone().unwrap();
        let work = fs::canonicalize(self.place("work")).unwrap();
        let cwd = File::open(&work).unwrap();
        let (connection, id) = self.runtime.block_on(async {
            let connection = self.bus.connect().await;
            let manager = ManagerProxy::new(&connection).await.unwrap();
            let stdio = [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()].map(zbus::Fd::from).into();
            let path = format!("PATH={}", std::env::var("PATH").unwrap());
            let bus = format!("DBUS_SYSTEM_BUS_ADDRESS={}", self.bus.address);
            let options = HashMap::from([("directory", work.as_os_str().as_bytes().to_vec().into())]);
            let words: [&[u8]; 2] = [b"sh", b"-s"];
            let environment = [path.as_bytes(), bus.as_bytes()];
            let ran =
                manager.run(&words, &environment, cwd.as_fd().into(), stdio, OwnedFd::from(theirs).into(), options);
            (connection.clone(), ran.await.expect("a session").0)
        });
        Session { id, to_tool, from_tool: BufReader::new(from_tool), _link: ours, _connection: connection }
    }
}

fn ran(command: &mut Command) -> Ran {
    let output = command.output().expect("gatedctl");
    Ran {
        status: output.status.code().expect("not killed"),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

struct Session {
    id: String,
    to_tool: PipeWriter,
    from_tool: BufReader<PipeReader>,
    /// Whose end would kill the shell.
    _link: UnixStream,
    _connection: Connection,
}

impl Session {
    fn tell(&mut self, command: &str) {
        writeln!(self.to_tool, "{command}").unwrap();
    }

    fn next(&mut self) -> String {
        let mut line = String::new();
        self.from_tool.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }
}

#[test]
fn every_verb_does_what_it_says_to_a_real_daemon() {
    let machine = Machine::start();
    let outside = fs::canonicalize(machine.place("outside")).unwrap();
    assert_eq!(machine.json(&["status"])["sessions"], 0);
    assert_eq!(machine.run(&["sessions"]).out, "There are no sessions.\n");

    let mut watch = machine.command();
    let mut watch =
        Process(watch.args(["watch", "--json"]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
    let mut events = BufReader::new(watch.0.stdout.take().unwrap()).lines();
    // The daemon knows of the watcher before anything happens.
    until("the watcher", || {
        let pid = watch.0.id();
        let open = fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten();
        let pipes =
            open.filter_map(|fd| fs::read_link(fd.path()).ok()).filter(|to| to.to_string_lossy().starts_with("pipe:"));
        (pipes.count() > 1).then_some(())
    });

    let mut session = machine.session();
    let id = session.id.clone();
    let shown = machine.json(&["session", "show", &id[..4]]);
    assert_eq!(
        (shown["id"].as_str(), shown["user"].as_u64(), shown["state"].as_str()),
        (Some(&*id), Some(0), Some("running"))
    );
    let calls = until("the call", || {
        Some(machine.json(&["sessions"])[0]["calls"].clone()).filter(|calls| calls[0].is_object())
    });
    assert_eq!(calls[0]["argv"], serde_json::json!(["sh", "-s"]));

    // Let through for the session, as far as its directory: the second write is not asked.
    let (a, b, c) = (outside.join("a"), outside.join("b"), outside.join("deep/c"));
    fs::create_dir(outside.join("deep")).unwrap();
    session.tell(&format!("echo x > {} && echo a-done; echo x > {} && echo b-done", a.display(), b.display()));
    let request = machine.waits(&a);
    let shown = machine.run(&["show", &request[..6]]);
    assert!(
        shown.out.contains("wants to create this file") && shown.out.contains("--scope directory"),
        "{}",
        shown.out
    );
    let approved = machine.run(&["approve", &request[..8], "--session", "--scope", "directory"]);
    assert_eq!(approved.status, 0, "{}", approved.err);
    assert_eq!((session.next(), session.next()), ("a-done".to_owned(), "b-done".to_owned()));
    assert!(a.exists() && b.exists());
    let late = machine.run(&["approve", &request]);
    assert_eq!(late.status, 1, "{}", late.err);
    assert!(late.err.contains("too late"), "{}", late.err);
    assert_eq!(machine.run(&["approve", &request[..8]]).status, 5);

    let grants = machine.json(&["grants", "--session", &id]);
    let grant = grants[0]["id"].as_str().unwrap().to_owned();
    assert_eq!((grants.as_array().map(Vec::len), grants[0]["lifetime"].as_str()), (Some(1), Some("session")));
    assert_eq!(grants[0]["scope"].as_str(), Some(&*format!("{}/*", outside.display())));
    assert!(machine.run(&["grants"]).out.contains(&grant[..8]));

    // Turned down.
    session.tell(&format!("echo x > {} || echo c-refused", c.display()));
    let request = machine.waits(&c);
    assert_eq!(machine.run(&["deny", &request[..4]]).status, 0);
    session.next();
    assert_eq!((session.next(), c.exists()), ("c-refused".to_owned(), false));

    // Taken back: what was granted is asked again.
    assert_eq!(machine.json(&["revoke", &grant[..5]])["revoked"], 1);
    session.tell(&format!("rm {} && echo b-removed", b.display()));
    let request = machine.waits(&b);
    assert_eq!(machine.run(&["revoke", &grant]).status, 5);

    // Somebody else sees nothing of all this and does nothing to it.
    let program = machine.reachable();
    let stranger = |words: &[&str]| machine.as_nobody(&program, words);
    for (words, status) in [
        (&["approve", &request][..], 4),
        (&["deny", &request], 4),
        (&["approve", &request[..8]], 5),
        (&["session", "stop", &id], 4),
        (&["session", "stop", &id[..7]], 5),
        (&["session", "show", &id], 5),
        (&["audit", "--file", machine.place("records/audit.jsonl").to_str().unwrap()], 4),
    ] {
        let ran = stranger(words);
        assert_eq!((ran.status, &*ran.out), (status, ""), "{words:?}: {}", ran.err);
    }
    assert_eq!(stranger(&["pending"]).out, "Nothing waits for an answer.\n");
    assert_eq!(stranger(&["sessions"]).out, "There are no sessions.\n");
    assert_eq!(stranger(&["grants"]).out, "No answers are remembered.\n");
    assert_eq!(stranger(&["revoke", "--all"]).out, "Nothing was revoked.\n");

    // Nor does the tool, as the same user, for itself: the request goes on waiting.
    let mut tool = machine.session();
    tool.tell(&format!("{} approve {request}; echo status $?", program.display()));
    let (said, status) = (tool.next(), tool.next());
    // The bus is out of its sight; `bus_authz` has what the daemon says to whoever reaches it from inside.
    assert_eq!(status, "status 3", "{said}");
    assert!(said.contains("the system bus cannot be reached"), "{said}");
    assert_eq!(machine.waits(&b), request);

    // Once: this call, this file.
    assert_eq!(machine.run(&["approve", &request[..8]]).status, 0);
    assert_eq!((session.next(), b.exists()), ("b-removed".to_owned(), false));

    assert_eq!(machine.run(&["session", "stop", &id[..4]]).status, 0);
    until("the end of the session", || {
        let left = machine.json(&["sessions"]);
        left.as_array()?.iter().all(|one| one["id"] != id.as_str()).then_some(())
    });
    assert_eq!(session.next(), "", "end of file: all of it is dead");

    // What was decided is in the log, and was told as it happened.
    let log = machine.place("records/audit.jsonl");
    let records = machine.run(&["audit", "--json", "--session", &id[..6], "--file", log.to_str().unwrap()]).out;
    let records: Vec<Value> = records.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let results: Vec<(&str, &str)> =
        records.iter().map(|one| (one["operation"].as_str().unwrap(), one["result"].as_str().unwrap())).collect();
    assert_eq!(results, [("create", "approved"), ("create", "granted"), ("create", "denied"), ("unlink", "approved")]);
    assert_eq!(records[0]["answered_by"], "gatedctl:root");
    let told: Vec<String> = events
        .by_ref()
        .map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap())
        .take_while(|event| !(event["event"] == "consent_decided" && event["operation"] == "unlink"))
        .map(|event| event["event"].as_str().unwrap().to_owned())
        .collect();
    for event in ["call_started", "consent_required", "consent_decided", "allowed_by_grant"] {
        assert!(told.iter().any(|one| one == event), "{event}: {told:?}");
    }

    // The daemon goes: whoever watches is told.
    let doctor = machine.json_whatever(&["doctor"]);
    let state = |name: &str| {
        doctor["checks"].as_array().unwrap().iter().find(|one| one["name"] == name).unwrap()["state"].clone()
    };
    assert_eq!((state("daemon"), state("audit"), state("agent")), ("ok".into(), "ok".into(), "note".into()));
    // Somebody who is asked for all sessions of root, and for nobody else's.
    let agent = machine.runtime.block_on(async {
        let connection = machine.bus.connect().await;
        let options = HashMap::from([("kind", "script".into())]);
        ManagerProxy::new(&connection).await.unwrap().register_agent(options).await.unwrap();
        connection
    });
    let features = |ran: Ran| serde_json::from_str::<Value>(&ran.out).unwrap()["features"].to_string();
    assert!(features(machine.run(&["status", "--json"])).contains("consent-agent"));
    assert!(!features(stranger(&["status", "--json"])).contains("consent-agent"));
    drop(agent);
    drop(machine.daemon);
    assert_eq!(watch.0.wait().unwrap().code(), Some(3));
}

impl Machine {
    /// Also of a verb that found something missing.
    fn json_whatever(&self, words: &[&str]) -> Value {
        serde_json::from_str(&self.run(&[words, &["--json"]].concat()).out).expect("JSON")
    }
}

/// Who may answer for others, and nothing more, by a rule of a real polkitd.
#[test]
fn polkit_lets_somebody_answer_for_others_and_not_stop_them() {
    use gated::common::bus::action::{ANSWER_FOR_OTHERS, MANAGE_SESSIONS};
    let mut polkit = None;
    let machine = Machine::start_after(|bus| {
        let rule = format!(
            "polkit.addRule(function(action, subject) {{ if (action.id == \"{ANSWER_FOR_OTHERS}\" && subject.user == \
             \"nobody\") return polkit.Result.YES; }});"
        );
        polkit = Some(bus.start_polkit(&[(ANSWER_FOR_OTHERS, "no"), (MANAGE_SESSIONS, "no")], &rule));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(bus.wait_for("org.freedesktop.PolicyKit1"));
    });
    let program = machine.reachable();
    let file = fs::canonicalize(machine.place("outside")).unwrap().join("file");
    let mut session = machine.session();
    session.tell(&format!("echo x > {} && echo done", file.display()));
    let request = machine.waits(&file);
    assert_eq!(machine.as_nobody(&program, &["session", "stop", &session.id]).status, 4);
    assert_eq!(machine.as_nobody(&program, &["pending"]).status, 0);
    let approve = machine.as_nobody(&program, &["approve", &request]);
    assert_eq!(approve.status, 0, "{}", approve.err);
    assert_eq!(session.next(), "done");
    let log = machine.place("records/audit.jsonl");
    let records = machine.run(&["audit", "--json", "--file", log.to_str().unwrap()]).out;
    assert!(records.contains("\"answered_by\":\"gatedctl:nobody\""), "{records}");
    drop(polkit);
}
