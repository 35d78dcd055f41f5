//! A bus, a daemon on it, and a user who runs commands through it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use gated::common::bus::{
    BUS_NAME, MANAGER_INTERFACE, MANAGER_PATH, REQUEST_INTERFACE, SESSION_INTERFACE, SESSIONS_PATH,
};
use zbus::{Connection, OwnedObjectPath, OwnedVariant, Variant};

use super::support::system_bus::Bus;
use super::support::{PidFd, Running, Sandbox, Side, until};

/// Changes in the workspace are allowed; others wait for somebody, as long as it takes. The bus of a test stands where no
/// rule knows it, and can be reached from inside: it is the daemon that says no.
pub const QUEUE: &str = r#"
schema = 1

[profile]
name = "queue"

[vars]
workspace = "@cwd"

[defaults]
write = "ask"
unix = "allow"

[prompt]
no_consent_agent = "queue"

[[rule]]
id = "workspace"
access = ["write"]
path = ["{workspace}/**"]
level = "allow"
"#;

/// Everything but the daemon, which borrows it.
pub struct Machine {
    pub sandbox: Sandbox,
    pub bus: RefCell<Bus>,
    socket: PathBuf,
    runtime: tokio::runtime::Runtime,
}

impl Machine {
    pub fn new() -> Machine {
        let mut sandbox = Sandbox::new();
        let bus = Bus::start();
        let socket = bus.path();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        fs::create_dir_all(sandbox.control().join("etc/gated/profiles")).unwrap();
        fs::create_dir(sandbox.control().join("log")).unwrap();
        sandbox.audit_to(&sandbox.control().join("log/audit.jsonl"));
        let machine = Machine { sandbox, bus: RefCell::new(bus), socket, runtime };
        machine.policy("profiles/queue.toml", QUEUE);
        machine
    }

    pub fn policy(&self, file: &str, text: &str) {
        fs::write(self.sandbox.control().join("etc/gated").join(file), text).unwrap();
    }

    /// Without the bus's own name in it, which another bus would not have.
    pub fn address(&self) -> String {
        format!("unix:path={}", self.socket.display())
    }

    pub fn runtime_directory(&self) -> PathBuf {
        self.sandbox.control().join("run")
    }

    fn line(&self, words: Vec<OsString>) -> Vec<OsString> {
        let mut line: Vec<OsString> = vec!["env".into()];
        line.push(format!("DBUS_SYSTEM_BUS_ADDRESS={}", self.address()).into());
        line.extend(words);
        line
    }

    /// A daemon; it is there when this returns.
    #[track_caller]
    pub fn daemon(&self) -> Running<'_> {
        let option = |name: &str, value: &Path| [name.into(), value.as_os_str().to_owned()];
        let mut words: Vec<OsString> = vec![env!("CARGO_BIN_EXE_gatedd").into()];
        words.extend(option("--runtime", &self.runtime_directory()));
        words.extend(option("--audit", self.sandbox.audit_file()));
        words.extend(option("--state", &self.sandbox.control().join("state")));
        words.extend(option("--policy-root", &self.sandbox.control()));
        words.extend(["--supervisors".into(), "spawn".into()]);
        let daemon = self.sandbox.start_line(Side::Gated, &self.line(words), None);
        until("the daemon", || self.call("Reload", &(HashMap::<&str, Variant<'_>>::new(),)).ok());
        daemon
    }

    /// `gated-run` as the test user.
    #[track_caller]
    pub fn run(&self, command: &[&str]) -> Running<'_> {
        self.run_words(command.iter().map(OsString::from).collect())
    }

    #[track_caller]
    pub fn run_words(&self, command: Vec<OsString>) -> Running<'_> {
        self.run_profile("queue", command)
    }

    #[track_caller]
    pub fn run_profile(&self, profile: &str, command: Vec<OsString>) -> Running<'_> {
        let mut words: Vec<OsString> = vec![env!("CARGO_BIN_EXE_gated-run").into()];
        words.extend(["--profile", profile, "--consent", "none", "--"].map(OsString::from));
        words.extend(command);
        self.sandbox.start_line(Side::Bare, &self.line(words), None)
    }

    async fn connect(&self) -> zbus::Result<Connection> {
        zbus::connection::Builder::address(self.address().as_str()).build().await
    }

    /// A call of the manager, as root.
    pub fn call<B>(&self, method: &str, body: &B) -> zbus::Result<zbus::Message>
    where
        B: serde::Serialize + zbus::wire::DynamicType,
    {
        self.call_of(MANAGER_INTERFACE, method, body)
    }

    /// The same, of another interface of the same object.
    pub fn call_of<B>(&self, interface: &str, method: &str, body: &B) -> zbus::Result<zbus::Message>
    where
        B: serde::Serialize + zbus::wire::DynamicType,
    {
        self.runtime.block_on(async {
            let connection = self.connect().await?;
            connection.call_method(Some(BUS_NAME), MANAGER_PATH, Some(interface), method, body).await
        })
    }

    fn property(&self, path: &str, interface: &str, name: &str) -> zbus::Result<OwnedVariant> {
        self.runtime.block_on(async {
            let connection = self.connect().await?;
            let properties = Some("org.freedesktop.DBus.Properties");
            let got = connection.call_method(Some(BUS_NAME), path, properties, "Get", &(interface, name)).await?;
            got.body().deserialize()
        })
    }

    pub fn sessions(&self) -> Vec<String> {
        let list = self.property(MANAGER_PATH, MANAGER_INTERFACE, "Sessions").expect("the daemon is there");
        let list = Vec::<OwnedObjectPath>::try_from(list).unwrap();
        list.iter().map(|path| path.rsplit('/').next().unwrap().to_owned()).collect()
    }

    pub fn state(&self, session: &str) -> String {
        let path = format!("{SESSIONS_PATH}/{session}");
        let state = self.property(&path, SESSION_INTERFACE, "State").expect("the session is there");
        String::try_from(state).unwrap()
    }

    /// The id of the request that waits for this object.
    #[track_caller]
    pub fn asked(&self, object: &Path) -> String {
        until(&format!("a request for {}", object.display()), || {
            let list = self.property(MANAGER_PATH, MANAGER_INTERFACE, "PendingRequests").ok()?;
            Vec::<OwnedObjectPath>::try_from(list).ok()?.iter().find_map(|path| {
                let details = self.property(path, REQUEST_INTERFACE, "Details").ok()?;
                let details = HashMap::<String, OwnedVariant>::try_from(details).ok()?;
                let bytes = Vec::<u8>::try_from(details["object"].try_clone().ok()?).ok()?;
                let id = || String::try_from(self.property(path, REQUEST_INTERFACE, "Id").ok()?).ok();
                (bytes == object.as_os_str().as_encoded_bytes()).then(id)?
            })
        })
    }

    #[track_caller]
    pub fn decide(&self, request: &str, decision: &str) {
        self.try_to_decide(request, decision).expect("decided");
    }

    pub fn try_to_decide(&self, request: &str, decision: &str) -> zbus::Result<()> {
        self.call("Decide", &(request, decision, HashMap::<&str, Variant<'_>>::new())).map(drop)
    }

    /// Objects of live grants.
    pub fn grants(&self) -> Vec<Vec<u8>> {
        let told = self.call("ListGrants", &(HashMap::<&str, Variant<'_>>::new(),)).unwrap();
        let rows: Vec<HashMap<String, OwnedVariant>> = told.body().deserialize().unwrap();
        rows.iter().map(|row| Vec::<u8>::try_from(row["object"].try_clone().unwrap()).unwrap()).collect()
    }

    #[track_caller]
    pub fn over(&self) {
        until("all sessions to be over", || self.sessions().is_empty().then_some(()));
    }
}

/// A child of `parent`.
#[track_caller]
pub fn child_of(parent: i32) -> i32 {
    until("a child process", || {
        let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).ok()?;
        children.split_whitespace().next()?.parse().ok()
    })
}

/// Sessions outlive their daemon; those of a test that failed do not outlive the test.
impl Drop for Machine {
    fn drop(&mut self) {
        for entry in fs::read_dir(self.runtime_directory().join("sessions")).into_iter().flatten().flatten() {
            let text = fs::read(entry.path()).unwrap_or_default();
            let kept: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
            let pid = kept["process"][0].as_i64().and_then(|pid| i32::try_from(pid).ok());
            if let Some(supervisor) = pid.and_then(|pid| PidFd::open(pid).ok()) {
                supervisor.kill(libc::SIGKILL);
            }
        }
    }
}
