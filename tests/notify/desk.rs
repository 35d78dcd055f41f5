//! A desktop of a test's own: buses, an X server and a notification server where they are wanted, the real `gated-notify` as
//! an ordinary user, and the test itself as the daemon. All of it ends with the test.

use std::collections::HashMap;
use std::fs::{self, File};
use std::future::Future;
use std::io::{BufRead, BufReader};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gated::common::bus::{AGENT_INTERFACE, AGENT_PATH, BUS_NAME, MANAGER_PATH};
use gated::common::consent::{Answer, Prompt};
use gated::common::details::{Details, answer_from_bus};
use gated::common::id::RequestId;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use zbus::message::Header;
use zbus::{Connection, OwnedVariant, interface};

use crate::bus::PrivateBus;

pub const DUNST: &str = "dunst";
pub const XFCE: &str = "xfce4-notifyd";
pub const NOTIFY_OSD: &str = "notify-osd";

/// Where a program of a desktop is: below `/usr/lib/ARCHITECTURE`, if it is not on the path.
fn installed(name: &str) -> PathBuf {
    let below = match name {
        XFCE => "xfce4/notifyd/xfce4-notifyd",
        "xfconfd" => "xfce4/xfconf/xfconfd",
        NOTIFY_OSD => "notify-osd",
        on_path => return on_path.into(),
    };
    let folders = fs::read_dir("/usr/lib").expect("/usr/lib").flatten();
    let found = folders.map(|folder| folder.path().join(below)).find(|program| program.is_file());
    found.unwrap_or_else(|| panic!("no {name}; see scripts/install-packages.sh test"))
}

/// The person at the desktop: nobody. A dbus-daemon looks its users up, and this one is there on every machine.
pub const UID: u32 = 65534;
/// Long enough for a loaded two-core machine, short enough to fail a run.
pub const LIMIT: Duration = Duration::from_secs(30);
/// Before a yes counts, and a little more.
pub const READING: Duration = Duration::from_millis(1000);

/// A daemon as far as a consent agent sees it.
struct Manager {
    registered: mpsc::UnboundedSender<(String, bool)>,
    /// What watchers read from, one after the other.
    events: Arc<Mutex<Vec<OwnedFd>>>,
}

#[interface(name = "org.gated.Gated1.Manager")]
impl Manager {
    async fn register_agent(&self, #[zbus(header)] header: Header<'_>, options: HashMap<String, OwnedVariant>) {
        assert_eq!(options.get("kind").map(|kind| &**kind), Some(&"desktop".into()));
        let _ = self.registered.send((header.sender().expect("the bus says who").to_string(), true));
    }

    async fn unregister_agent(&self, #[zbus(header)] header: Header<'_>) {
        let _ = self.registered.send((header.sender().expect("the bus says who").to_string(), false));
    }

    fn watch(&self, options: HashMap<String, OwnedVariant>) -> zbus::fdo::Result<zbus::OwnedFd> {
        assert!(options.is_empty(), "of one's own sessions");
        let next = self.events.lock().expect("no test panics within").pop();
        next.map(zbus::OwnedFd::from).ok_or_else(|| zbus::fdo::Error::Failed("no events".into()))
    }
}

/// What `Ask` brought; `Err` is an error's name.
pub type Reply = Result<Answer, String>;

/// The daemon that the test plays.
pub struct Daemon {
    pub connection: Connection,
    registered: mpsc::UnboundedReceiver<(String, bool)>,
    agent: Option<String>,
    events: Arc<Mutex<Vec<OwnedFd>>>,
}

impl Daemon {
    pub async fn start(system: &PrivateBus) -> Daemon {
        let mut daemon = Daemon::connected(system).await;
        daemon.serve().await;
        daemon
    }

    /// Without the name.
    async fn connected(system: &PrivateBus) -> Daemon {
        let (_, registered) = mpsc::unbounded_channel();
        Daemon { connection: connect(system).await, registered, agent: None, events: Arc::default() }
    }

    async fn serve(&mut self) {
        let (sender, registered) = mpsc::unbounded_channel();
        self.registered = registered;
        self.connection
            .object_server()
            .at(MANAGER_PATH, Manager { registered: sender, events: Arc::clone(&self.events) })
            .await
            .unwrap();
        self.connection.request_name(BUS_NAME).await.unwrap();
    }

    /// A stream of events, for whoever watches next.
    pub fn events(&self) -> std::io::PipeWriter {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        self.events.lock().expect("no test panics within").push(reader.into());
        writer
    }

    /// Waits until somebody registers.
    pub async fn registered(&mut self) -> String {
        loop {
            if let (agent, true) = within("a registration", self.registered.recv()).await.expect("the manager lives") {
                self.agent = Some(agent.clone());
                return agent;
            }
        }
    }

    pub async fn unregistered(&mut self) {
        while within("the end of a registration", self.registered.recv()).await.expect("the manager lives").1 {}
    }

    /// Whether nobody has registered since it was last looked.
    pub fn is_quiet(&mut self) -> bool {
        self.registered.try_recv().is_err()
    }

    /// `Ask`, of the one who registered last.
    pub fn ask(&self, prompt: &Prompt) -> JoinHandle<Reply> {
        self.ask_for(prompt, UID)
    }

    pub fn ask_for(&self, prompt: &Prompt, user: u32) -> JoinHandle<Reply> {
        let (connection, agent) = (self.connection.clone(), self.agent.clone().expect("an agent has registered"));
        let (id, details) = (prompt.id.to_string(), Details::of(prompt, user));
        tokio::spawn(async move {
            let agent = Some(agent.as_str());
            match connection.call_method(agent, AGENT_PATH, Some(AGENT_INTERFACE), "Ask", &(id, details)).await {
                Ok(reply) => {
                    let (decision, scope): (String, HashMap<String, OwnedVariant>) =
                        reply.body().deserialize().unwrap();
                    Ok(answer_from_bus(&decision, &scope).unwrap())
                }
                Err(zbus::Error::MethodError(name, ..)) => Err(name.to_string()),
                Err(error) => Err(error.to_string()),
            }
        })
    }

    pub async fn cancel(&self, request: RequestId) {
        let agent = self.agent.as_deref();
        let id = request.to_string();
        let called = self.connection.call_method(agent, AGENT_PATH, Some(AGENT_INTERFACE), "Cancel", &id);
        within("Cancel", called).await.unwrap();
    }
}

/// A program of the desktop; ended with this, the kind way: an X server removes its lock.
pub struct Program {
    pub child: Child,
    name: String,
    said: PathBuf,
}

impl Program {
    pub fn stop(&mut self, signal: Signal) {
        if let Ok(None) = self.child.try_wait() {
            let _ = kill(Pid::from_raw(self.child.id().cast_signed()), signal);
            let _ = self.child.wait();
        }
    }

    /// What it wrote to stderr.
    pub fn said(&self) -> String {
        fs::read_to_string(&self.said).unwrap_or_default()
    }

    /// Waits until it has said this so many times.
    pub async fn says(&self, words: &str, times: usize) {
        until(&format!("{} to say {words:?}", self.name), || {
            (self.said().matches(words).count() >= times).then_some(())
        })
        .await;
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.stop(Signal::SIGTERM);
        if std::thread::panicking() {
            eprintln!("-- {}:\n{}", self.name, self.said());
        }
    }
}

pub enum Bus {
    Session,
    System,
}

/// Without the identity that `address()` has: it ends with the process.
fn address(bus: &PrivateBus) -> String {
    format!("unix:path={}", bus.socket().display())
}

pub async fn connect(bus: &PrivateBus) -> Connection {
    zbus::connection::Builder::address(address(bus).as_str()).build().await.expect("a connection to the private bus")
}

/// Waits until a name of a bus has an owner.
pub async fn owned(bus: &PrivateBus, name: &str) {
    let watcher = connect(bus).await;
    let bus = zbus::fdo::DBusProxy::new(&watcher).await.unwrap();
    let end = tokio::time::Instant::now() + LIMIT;
    while !bus.name_has_owner(name.try_into().unwrap()).await.unwrap() {
        assert!(tokio::time::Instant::now() < end, "nobody owns {name}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub struct Desk {
    // In this order they end.
    pub notifier: Option<Program>,
    pub server: Option<Program>,
    /// Xfce's, without which its notification server does not start.
    settings: Option<Program>,
    screen: Option<Program>,
    pub display: Option<String>,
    pub daemon: Daemon,
    /// Those that were started anew.
    buses: Vec<Program>,
    pub session: PrivateBus,
    pub system: PrivateBus,
    directory: tempfile::TempDir,
    uid: u32,
    started: usize,
}

impl Desk {
    /// Buses and a daemon, and nothing else.
    pub async fn bare() -> Desk {
        let mut desk = Desk::of(Desk::directory(UID), UID).await;
        desk.daemon.serve().await;
        desk
    }

    /// Where everything of a desktop of this user's lies.
    pub fn directory(uid: u32) -> tempfile::TempDir {
        let directory = tempfile::Builder::new().prefix("gated-").tempdir_in("/var/tmp").expect("/var/tmp");
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).expect("chmod");
        for name in ["home", "run"] {
            let made = directory.path().join(name);
            fs::create_dir(&made).expect("mkdir");
            fs::set_permissions(&made, fs::Permissions::from_mode(0o700)).expect("chmod");
            chown(&made, Some(uid), Some(uid)).expect("these tests run programs as another user, which needs root");
        }
        directory
    }

    /// Buses, and no daemon.
    pub async fn of(directory: tempfile::TempDir, uid: u32) -> Desk {
        let (session, system) = (PrivateBus::start(), PrivateBus::start());
        let daemon = Daemon::connected(&system).await;
        Desk {
            notifier: None,
            server: None,
            settings: None,
            screen: None,
            display: None,
            daemon,
            buses: Vec::new(),
            session,
            system,
            directory,
            uid,
            started: 0,
        }
    }

    /// With an X server and a notification server, and the notifier registered.
    pub async fn with_server(program: &str) -> Desk {
        let mut desk = Desk::bare().await;
        desk.start_screen().await;
        desk.start_server(program).await;
        desk.start_notifier();
        desk.daemon.registered().await;
        desk
    }

    pub fn home(&self) -> PathBuf {
        self.directory.path().join("home")
    }

    /// A command as the person, with what a desktop gives its programs.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("PATH", "/usr/bin:/bin").env("LANG", "C.UTF-8").env("NO_AT_BRIDGE", "1");
        command.env("HOME", self.home()).env("XDG_RUNTIME_DIR", self.directory.path().join("run"));
        command.env("DBUS_SESSION_BUS_ADDRESS", address(&self.session));
        command.env("DBUS_SYSTEM_BUS_ADDRESS", address(&self.system));
        if let Some(display) = &self.display {
            command.env("DISPLAY", display);
        }
        command.uid(self.uid).gid(self.uid).current_dir("/").stdin(Stdio::null()).stdout(Stdio::null());
        command
    }

    pub fn start(&mut self, mut command: Command) -> Program {
        self.started += 1;
        let name = Path::new(command.get_program()).file_name().expect("a program").to_string_lossy().into_owned();
        let said = self.directory.path().join(format!("{name}-{}.err", self.started));
        let child = command.stderr(File::create(&said).expect("a file")).spawn();
        let child = child.unwrap_or_else(|error| panic!("{name}: {error}; see scripts/install-packages.sh test"));
        Program { child, name, said }
    }

    pub async fn start_screen(&mut self) {
        let mut command = Command::new("Xvfb");
        // It finds a free display and says which.
        command.args(["-displayfd", "1", "-screen", "0", "1024x768x24", "-nolisten", "tcp"]).stdout(Stdio::piped());
        let mut screen = self.start(command);
        let mut number = String::new();
        BufReader::new(screen.child.stdout.take().expect("a pipe")).read_line(&mut number).expect("Xvfb starts");
        assert!(!number.trim().is_empty(), "{}", screen.said());
        self.display = Some(format!(":{}", number.trim()));
        self.screen = Some(screen);
    }

    pub async fn start_server(&mut self, program: &str) {
        if program == XFCE && self.settings.is_none() {
            let command = self.command(installed("xfconfd"));
            self.settings = Some(self.start(command));
            self.owned("org.xfce.Xfconf").await;
        }
        let command = self.command(installed(program));
        self.server = Some(self.start(command));
        self.owned("org.freedesktop.Notifications").await;
    }

    /// Kills a bus and starts it anew, at the same address.
    pub async fn restart(&mut self, which: Bus) {
        let bus = match which {
            Bus::Session => &mut self.session,
            Bus::System => &mut self.system,
        };
        bus.kill();
        fs::remove_file(bus.socket()).expect("the socket of the bus that was killed");
        let mut command = Command::new("dbus-daemon");
        command.args(["--nofork", "--nopidfile", "--nosyslog"]);
        command.arg(format!("--config-file={}", bus.directory().join("bus.conf").display()));
        let socket = bus.socket();
        let program = self.start(command);
        self.buses.push(program);
        until("the new bus", || std::os::unix::net::UnixStream::connect(&socket).ok()).await;
    }

    /// Waits until a name of the session bus has an owner.
    pub async fn owned(&self, name: &str) {
        owned(&self.session, name).await;
    }

    pub fn notifier_program(&self) -> PathBuf {
        self.reachable(env!("CARGO_BIN_EXE_gated-notify"))
    }

    /// A program where every user can reach it, unlike the place where it was built.
    pub fn reachable(&self, program: &str) -> PathBuf {
        let copy = self.directory.path().join(Path::new(program).file_name().expect("a program"));
        if !copy.exists() {
            // By another process: a test that forks meanwhile would hold our file open, and nobody could execute it.
            let copied = Command::new("cp").arg(program).arg(&copy).status();
            assert!(copied.is_ok_and(|status| status.success()), "no copy of {program}");
        }
        copy
    }

    pub fn root(&self) -> &Path {
        self.directory.path()
    }

    pub fn start_notifier(&mut self) {
        let command = self.command(self.notifier_program());
        self.notifier = Some(self.start(command));
    }

    pub fn notifier(&self) -> &Program {
        self.notifier.as_ref().expect("it was started")
    }

    /// Runs a tool of X with this display; its output.
    pub fn x(&self, program: &str, arguments: &[&str]) -> String {
        let display = self.display.as_ref().expect("a screen");
        let ran = Command::new(program).args(arguments).env("DISPLAY", display).output();
        let ran = ran.unwrap_or_else(|error| panic!("{program}: {error}; see scripts/install-packages.sh test"));
        String::from_utf8_lossy(&ran.stdout).into_owned()
    }

    /// Windows of this class that can be seen: left, top, width and height of each, from top to bottom.
    pub fn windows(&self, class: &str) -> Vec<[i32; 4]> {
        let found = self.x("xdotool", &["search", "--onlyvisible", "--class", class]);
        let mut windows: Vec<[i32; 4]> = Vec::new();
        for window in found.lines() {
            let told = self.x("xdotool", &["getwindowgeometry", "--shell", window]);
            let value =
                |key: &str| told.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('=')?.parse().ok());
            if let (Some(x), Some(y), Some(width), Some(height)) =
                (value("X"), value("Y"), value("WIDTH"), value("HEIGHT"))
                && width > 50
            {
                windows.push([x, y, width, height]);
            }
        }
        windows.sort_by_key(|window| window[1]);
        windows
    }

    /// Waits until there are so many, and they stand still.
    pub async fn sees(&self, class: &str, count: usize) -> Vec<[i32; 4]> {
        let mut last = Vec::new();
        until(&format!("{count} windows of {class}"), || {
            let now = self.windows(class);
            let still = now == last;
            last.clone_from(&now);
            (now.len() == count && still).then_some(now)
        })
        .await
    }

    pub fn click(&self, x: i32, y: i32) {
        self.x("xdotool", &["mousemove", &x.to_string(), &y.to_string(), "click", "1"]);
    }

    /// Keeps what the screen shows, for people to look at.
    pub fn screenshot(&self, name: &str) {
        let artefacts = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("below target").join("artefacts");
        fs::create_dir_all(&artefacts).expect("mkdir");
        let file = artefacts.join(format!("{name}.png"));
        self.x("import", &["-window", "root", &file.to_string_lossy()]);
        assert!(fs::metadata(&file).is_ok_and(|file| file.len() > 500), "no screenshot {}", file.display());
    }
}

pub async fn within<F: Future>(what: &str, future: F) -> F::Output {
    tokio::time::timeout(LIMIT, future).await.unwrap_or_else(|_| panic!("waited {LIMIT:?} for {what}"))
}

/// Looks every few milliseconds until there is something.
pub async fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    within(what, async {
        loop {
            if let Some(found) = look() {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
}

pub async fn answer(asking: JoinHandle<Reply>) -> Reply {
    within("an answer", asking).await.unwrap()
}

pub fn run(body: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, body);
}
