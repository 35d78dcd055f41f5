//! A daemon that remembers what it is asked and answers what it is told to, on a bus of its own.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Arc, Mutex, MutexGuard};

use gated::common::bus::{BUS_NAME, MANAGER_PATH, REQUESTS_PATH, SESSIONS_PATH};
use gated::common::details::Details;
use zbus::{DBusError, OwnedFd, OwnedObjectPath, OwnedVariant, Variant, interface};

use crate::support::bus::PrivateBus;

pub type Fields = HashMap<String, OwnedVariant>;

/// What the daemon knows, does, and was told.
#[derive(Default)]
pub struct World {
    pub version: String,
    pub features: Vec<String>,
    pub sessions: Vec<Session>,
    pub requests: Vec<(String, Details)>,
    /// As `ListGrants` gives them.
    pub grants: Vec<HashMap<&'static str, Variant<'static>>>,
    /// The error that every call gets, by its name after the prefix.
    pub refusal: Option<&'static str>,
    /// Calls in one line each.
    pub heard: Vec<String>,
    /// What `Why` and `Explain` give, as JSON.
    pub endings: Vec<serde_json::Value>,
    pub explained: Vec<serde_json::Value>,
    /// What watchers read from.
    pub events: Option<File>,
}

#[derive(Clone)]
pub struct Session {
    pub id: String,
    pub user: u32,
    pub profile: String,
    pub directory: Vec<u8>,
    pub state: String,
    pub unit: String,
    /// Number, pid, argv.
    pub calls: Vec<(u32, u32, Vec<Vec<u8>>)>,
}

#[derive(Clone)]
struct Shared(Arc<Mutex<World>>);

#[derive(Debug, DBusError)]
#[zbus(prefix = "org.gated.Gated1.Error")]
enum Refusal {
    #[zbus(error)]
    ZBus(zbus::Error),
    NotAuthorized(String),
    InsideSession(String),
    NoSuchRequest(String),
    AlreadyDecided(String),
    InvalidArgument(String),
    Internal(String),
}

impl Shared {
    fn world(&self) -> MutexGuard<'_, World> {
        self.0.lock().expect("no test panics within")
    }

    fn hear(&self, call: String) -> Result<(), Refusal> {
        let mut world = self.world();
        world.heard.push(call);
        let detail = String::from("as \u{202e}told\n");
        Err(match world.refusal {
            None => return Ok(()),
            Some("NotAuthorized") => Refusal::NotAuthorized(detail),
            Some("InsideSession") => Refusal::InsideSession(detail),
            Some("NoSuchRequest") => Refusal::NoSuchRequest(detail),
            Some("AlreadyDecided") => Refusal::AlreadyDecided(detail),
            Some("InvalidArgument") => Refusal::InvalidArgument(detail),
            Some(_) => Refusal::Internal(detail),
        })
    }
}

/// `key=value` of strings and booleans, sorted.
fn written(options: &HashMap<String, OwnedVariant>) -> String {
    let mut words: Vec<String> = options
        .iter()
        .map(|(key, value)| match &**value {
            Variant::Str(text) => format!(" {key}={text}"),
            Variant::Bool(yes) => format!(" {key}={yes}"),
            other => format!(" {key}={other:?}"),
        })
        .collect();
    words.sort();
    words.concat()
}

struct Manager(Shared);

#[interface(name = "org.gated.Gated1.Manager")]
impl Manager {
    fn decide(&self, request: &str, decision: &str, scope: Fields) -> Result<(), Refusal> {
        self.0.hear(format!("Decide {request} {decision}{}", written(&scope)))
    }

    fn list_grants(&self, filter: Fields) -> Result<Vec<HashMap<String, OwnedVariant>>, Refusal> {
        self.0.hear(format!("ListGrants{}", written(&filter)))?;
        let own = |grant: &HashMap<&'static str, Variant<'static>>| {
            grant
                .iter()
                .map(|(key, value)| ((*key).to_owned(), value.try_clone().unwrap().try_into_owned().unwrap()))
                .collect()
        };
        Ok(self.0.world().grants.iter().map(own).collect())
    }

    fn revoke_grant(&self, grant: &str, options: Fields) -> Result<u32, Refusal> {
        self.0.hear(format!("RevokeGrant {grant}{}", written(&options)))?;
        let mut world = self.0.world();
        let before = world.grants.len();
        world.grants.retain(|one| !grant.is_empty() && one["id"] != Variant::from(grant));
        Ok(u32::try_from(before - world.grants.len()).unwrap())
    }

    fn watch(&self, options: Fields) -> Result<OwnedFd, Refusal> {
        self.0.hear(format!("Watch{}", written(&options)))?;
        let events = self.0.world().events.take().expect("the test has made a pipe");
        Ok(OwnedFd::from(std::os::fd::OwnedFd::from(events)))
    }

    #[zbus(property)]
    fn version(&self) -> String {
        self.0.world().version.clone()
    }

    #[zbus(property)]
    fn features(&self) -> Vec<String> {
        self.0.world().features.clone()
    }

    #[zbus(property)]
    fn sessions(&self) -> Vec<OwnedObjectPath> {
        self.0.world().sessions.iter().map(|session| path(SESSIONS_PATH, &session.id)).collect()
    }

    #[zbus(property)]
    fn pending_requests(&self) -> Vec<OwnedObjectPath> {
        (0..self.0.world().requests.len()).map(|number| path(REQUESTS_PATH, &number.to_string())).collect()
    }
}

struct Policy(Shared);

#[interface(name = "org.gated.Gated1.Policy")]
impl Policy {
    fn why(&self, filter: Fields) -> Result<Vec<String>, Refusal> {
        self.0.hear(format!("Why{}", written(&filter)))?;
        Ok(self.0.world().endings.iter().map(ToString::to_string).collect())
    }

    fn explain(&self, session: &str, question: Fields) -> Result<Vec<String>, Refusal> {
        let mut keys: Vec<&str> = question.keys().map(String::as_str).collect();
        keys.sort_unstable();
        self.0.hear(format!("Explain {session} {}", keys.join(" ")))?;
        Ok(self.0.world().explained.iter().map(ToString::to_string).collect())
    }

    fn install(&self, kind: &str, name: &str, text: Vec<u8>, options: Fields) -> Result<String, Refusal> {
        let text = String::from_utf8(text).unwrap();
        self.0.hear(format!("Install {kind} {name} {} lines{}", text.lines().count(), written(&options)))?;
        Ok(format!("/etc/gated/profiles/{name}.toml"))
    }
}

struct Objects(Shared);

#[interface(name = "org.freedesktop.DBus.ObjectManager")]
impl Objects {
    fn get_managed_objects(&self) -> HashMap<OwnedObjectPath, HashMap<String, Fields>> {
        let world = self.0.world();
        let sessions = world.sessions.iter().map(|session| {
            let fields = owned([
                ("Id", Variant::from(session.id.as_str())),
                ("User", session.user.into()),
                ("Profile", Variant::from(session.profile.as_str())),
                ("Directory", session.directory.clone().into()),
                ("State", Variant::from(session.state.as_str())),
                ("Started", 1_795_300_000_000_000_u64.into()),
                ("Unit", Variant::from(session.unit.as_str())),
                ("Calls", Variant::new(session.calls.iter().map(call).collect::<Vec<_>>())),
            ]);
            let interfaces = HashMap::from([("org.gated.Gated1.Session".to_owned(), fields)]);
            (path(SESSIONS_PATH, &session.id), interfaces)
        });
        let requests = world.requests.iter().enumerate().map(|(number, (id, details))| {
            let fields = owned([("Id", Variant::from(id.as_str())), ("Details", Variant::from(details.clone()))]);
            let interfaces = HashMap::from([("org.gated.Gated1.Request".to_owned(), fields)]);
            (path(REQUESTS_PATH, &number.to_string()), interfaces)
        });
        sessions.chain(requests).collect()
    }
}

struct Stops(Shared, String);

#[interface(name = "org.gated.Gated1.Session")]
impl Stops {
    fn stop(&self, options: Fields) -> Result<(), Refusal> {
        self.0.hear(format!("Stop {}{}", self.1, written(&options)))
    }
}

fn call((number, pid, argv): &(u32, u32, Vec<Vec<u8>>)) -> HashMap<String, OwnedVariant> {
    owned([("call", (*number).into()), ("pid", (*pid).into()), ("argv", argv.clone().into())])
}

fn owned<const N: usize>(fields: [(&str, Variant<'_>); N]) -> Fields {
    fields.into_iter().map(|(key, value)| (key.to_owned(), value.try_into_owned().unwrap())).collect()
}

fn path(below: &str, name: &str) -> OwnedObjectPath {
    OwnedObjectPath::try_from(format!("{below}/{name}")).unwrap()
}

/// A running daemon on a bus of its own; both end with this.
pub struct Simulated {
    pub bus: PrivateBus,
    shared: Shared,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Simulated {
    pub fn start(world: World) -> Simulated {
        let bus = PrivateBus::start();
        let shared = Shared(Arc::new(Mutex::new(world)));
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let (ready, is_ready) = std::sync::mpsc::channel();
        let (address, own) = (bus.address().to_owned(), shared.clone());
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let mut builder = zbus::connection::Builder::address(address.as_str())
                    .serve_at(MANAGER_PATH, Manager(own.clone()))
                    .serve_at(MANAGER_PATH, Policy(own.clone()))
                    .serve_at(MANAGER_PATH, Objects(own.clone()));
                let ids: Vec<String> = own.world().sessions.iter().map(|session| session.id.clone()).collect();
                for id in ids {
                    builder = builder.serve_at(path(SESSIONS_PATH, &id), Stops(own.clone(), id));
                }
                let connection = builder.name(BUS_NAME).build().await.expect("the simulated daemon");
                ready.send(()).unwrap();
                // Whatever it is that ends it.
                let _ = stopped.await;
                drop(connection);
            });
        });
        is_ready.recv().expect("the simulated daemon has started");
        Simulated { bus, shared, stop: Some(stop), thread: Some(thread) }
    }

    pub fn world(&self) -> MutexGuard<'_, World> {
        self.shared.world()
    }

    /// `gatedctl` on this bus, outside of any desktop, in UTC.
    pub fn command(&self) -> Command {
        command(self.bus.address())
    }

    /// One run: status, stdout, stderr.
    pub fn run(&self, words: &[&str]) -> Ran {
        Ran::of(self.command().args(words).output().expect("gatedctl"))
    }
}

impl Drop for Simulated {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            if !std::thread::panicking() {
                ended.expect("the simulated daemon did not panic");
            }
        }
    }
}

pub fn command(address: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gatedctl"));
    command.env_clear().env("DBUS_SYSTEM_BUS_ADDRESS", address).env("TZ", "UTC");
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    // No desktop of whoever runs the tests.
    command.env("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nonexistent");
    command
}

#[derive(Debug)]
pub struct Ran {
    pub status: i32,
    pub out: String,
    pub err: String,
}

impl Ran {
    pub fn of(output: Output) -> Ran {
        Ran {
            status: output.status.code().expect("not killed"),
            out: String::from_utf8(output.stdout).expect("text"),
            err: String::from_utf8(output.stderr).expect("text"),
        }
    }
}

/// Compares with a file of `tests/golden`; `GATED_UPDATE_GOLDEN=1` rewrites it, and the difference is then to be read.
#[track_caller]
pub fn golden(name: &str, text: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("GATED_UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, expected, "differs from {}", path.display());
}

/// A user without a name, so that no table depends on who runs the tests.
pub const NOBODY: u32 = 4_000_000;
pub const FIRST: &str = "307482afb65b0005cc86e9cd59ebb38e";
pub const SECOND: &str = "307482b0b65b0005cc86e9cd59ebb38e";
pub const THIRD: &str = "a1b2c3d4b65b0005cc86e9cd59ebb38e";

/// A request of an ordinary program.
pub fn ordinary() -> Details {
    Details {
        session: "e52266a8".into(),
        call: 1,
        user: NOBODY,
        pid: 4711,
        program: b"/usr/bin/npm".to_vec(),
        argv: vec![b"npm".to_vec(), b"install".to_vec(), b"--global".to_vec(), b"left pad".to_vec()],
        cwd: b"/home/me/project".to_vec(),
        access: "write".into(),
        operation: "open-write".into(),
        object: b"/home/me/.npmrc".to_vec(),
        directory: false,
        other: None,
        level: "ask".into(),
        rule_profile: "coder".into(),
        rule_id: "default".into(),
        rule_file: "built-in:coder".into(),
        rule_line: 30,
        rule_reason: Some("other programs obey this file".into()),
        offers: vec![("exact".into(), "/home/me/.npmrc".into()), ("directory".into(), "/home/me/*".into())],
        longest: "session".into(),
        attempts: 3,
        waiting: 1,
        // Shown as 58 s, with most of a second to spare for a loaded machine.
        remaining: 57_900_000,
        ..Details::default()
    }
}

pub const FOURTH: &str = "c0ffee00b65b0005cc86e9cd59ebb38e";

/// A program that is about to be run.
pub fn command_to_run() -> Details {
    let words = |words: &[&str]| words.iter().map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>();
    let message = "say \"it's done\" \u{202e}\n".repeat(40);
    Details {
        program: b"/usr/bin/dash".to_vec(),
        argv: words(&["sh", "-c", "./deploy \"$1\"", "sh"]),
        access: "exec".into(),
        operation: "execute".into(),
        object: b"/home/me/project/deploy".to_vec(),
        offers: [("exact", "deploy"), ("prefix", "./deploy --message …"), ("program", "./deploy …")]
            .map(|(width, scope)| (width.to_owned(), scope.to_owned()))
            .to_vec(),
        attempts: 1,
        exec_argv: Some(words(&["./deploy", "--message", &message, ""])),
        exec_words_left_out: Some(0),
        exec_interpreters: Some(words(&["/usr/bin/env", "/usr/bin/python3.11"])),
        exec_variables: Some(words(&["LD_PRELOAD=/tmp/\u{200b}x.so", "PYTHONPATH=a b"])),
        exec_parents: Some(vec![
            (4600, b"/usr/bin/make".to_vec(), words(&["make", "release"])),
            (4500, b"/usr/bin/node".to_vec(), words(&["claude", "\u{1b}[2J"])),
        ]),
        exec_new: Some(true),
        exec_first: Some(false),
        // Between the others, whatever the machine does.
        remaining: 70_900_000,
        ..ordinary()
    }
}

/// [`world`] with a command that waits besides.
pub fn world_with_command() -> World {
    let mut world = world();
    world.requests.push((FOURTH.into(), command_to_run()));
    world
}

/// One of a program that tries to mislead whoever reads.
pub fn hostile() -> Details {
    Details {
        session: "0badcafe".into(),
        program: b"/tmp/npm\x1b[2J wants to read\r\n".to_vec(),
        argv: vec!["ls\u{202e}".into(), b"\x1b]0;owned\x07".to_vec(), b"'; rm -rf ~".to_vec(), vec![0xff, b'\n']],
        cwd: "/tmp/\u{200b}".into(),
        operation: "symlink".into(),
        object: [b"/home/me/\xe2\x80\xae".as_slice(), &b"very/deep/".repeat(1000), b"\x1b[1A\xff.ssh/config"].concat(),
        other: Some("../\u{9b}2J\u{2066}elsewhere".into()),
        rule_reason: Some("because \u{1b}[31mred".into()),
        offers: vec![("exact".into(), "/home/me/x".into())],
        longest: "attempt".into(),
        attempts: 1,
        waiting: 0,
        remaining: 119_900_000,
        ..ordinary()
    }
}

pub fn session(id: &str) -> Session {
    Session {
        id: id.into(),
        user: NOBODY,
        profile: "coder".into(),
        directory: b"/home/me/project".to_vec(),
        state: "running".into(),
        unit: format!("gated-session@{id}.service"),
        calls: vec![(1, 4700, vec![b"npm".to_vec(), b"install".to_vec()]), (2, 4800, vec![b"make".to_vec()])],
    }
}

pub fn grant(id: &'static str) -> HashMap<&'static str, Variant<'static>> {
    HashMap::from([
        ("id", Variant::from(id)),
        ("session", "e52266a8".into()),
        ("user", NOBODY.into()),
        ("access", "write".into()),
        ("scope", "/home/me/.config/*".into()),
        ("object", b"/home/me/.config/x".to_vec().into()),
        ("lifetime", "session".into()),
        ("by", "tty:me".into()),
        ("authenticated", false.into()),
        ("given", 1_795_300_060_000_000_u64.into()),
    ])
}

/// Two sessions, three requests, two grants.
pub fn world() -> World {
    let mut hostile_session = session("0badcafe");
    hostile_session.state = "lost".into();
    hostile_session.unit = String::new();
    hostile_session.directory = b"/tmp/a\nb\x1b[2J".to_vec();
    hostile_session.calls = vec![(1, 5000, hostile().argv)];
    let mut of_call = grant("0123456789abcdef");
    of_call.extend([("lifetime", "call".into()), ("call", 2_u32.into()), ("object", b"/srv/\x1b[2J".to_vec().into())]);
    of_call.insert("scope", "/srv/\u{1b}[2J".into());
    World {
        version: env!("CARGO_PKG_VERSION").into(),
        features: ["landlock-7", "units", "audit"].map(Into::into).to_vec(),
        sessions: vec![session("e52266a8"), hostile_session],
        requests: vec![
            (FIRST.into(), ordinary()),
            (SECOND.into(), Details { remaining: 90_900_000, level: "authenticate".into(), ..ordinary() }),
            (THIRD.into(), hostile()),
        ],
        grants: vec![grant("fedcba9876543210"), of_call],
        ..World::default()
    }
}

/// Where a program of ours can be found by its name.
pub fn programs() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_gatedctl")).parent().expect("a file is in a directory")
}
