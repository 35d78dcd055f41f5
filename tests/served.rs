//! `gated-run` through a daemon that is the test, on a private bus: what it asks for, what it makes of what it is told, and
//! one line for everything that can be wrong. No session is built, and no root is needed.

#[path = "support/bus.rs"]
#[allow(dead_code, reason = "each test program uses its own part")]
mod support;

use std::collections::HashMap;
use std::fs;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use gated::common::access::{Access, Level};
use gated::common::bus::{AGENT_INTERFACE, AGENT_PATH, BUS_NAME, MANAGER_PATH};
use gated::common::consent::{Answer, Offer, Prompt};
use gated::common::decision::{Lifetime, Width};
use gated::common::details::{Details, answer_from_bus};
use gated::common::id::{CallId, RequestId, SessionId};
use gated::common::request::{Operation, Request, RuleRef, Who};
use gated::common::wire::{Ended, FromCaller, ToCaller};
use gated::tool::link::Link;
use support::PrivateBus;
use tokio::sync::{mpsc, oneshot};
use zbus::message::Header;
use zbus::{Connection, DBusError, OwnedObjectPath, OwnedVariant, Variant, interface};

const LIMIT: Duration = Duration::from_secs(20);
const SESSION: &str = "0000002a";

type Options = HashMap<String, OwnedVariant>;

/// A call of `Run`, and who waits for its result.
struct Order {
    argv: Vec<Vec<u8>>,
    environment: Vec<Vec<u8>>,
    cwd: OwnedFd,
    stdio: Vec<OwnedFd>,
    link: Link<ToCaller, FromCaller>,
    options: Options,
    reply: oneshot::Sender<Result<HashMap<&'static str, Variant<'static>>, Refusal>>,
}

#[derive(Debug, DBusError)]
#[zbus(prefix = "org.gated.Gated1.Error")]
enum Refusal {
    NotPermitted(String),
    NotAuthorized(String),
    InsideSession(String),
    NoSuchSession(String),
    TooMany(String),
    Policy(String),
    Engine(String),
    InvalidOption(String),
}

struct Manager {
    orders: mpsc::UnboundedSender<Order>,
    opened: mpsc::UnboundedSender<Options>,
    registered: mpsc::UnboundedSender<(String, Options)>,
}

#[interface(name = "org.gated.Gated1.Manager")]
impl Manager {
    async fn open_session(&self, options: Options) -> (String, OwnedObjectPath) {
        let _ = self.opened.send(options);
        (SESSION.into(), OwnedObjectPath::try_from("/org/gated/Gated1/session/0000002a").unwrap())
    }

    async fn run(
        &self,
        argv: Vec<Vec<u8>>,
        environment: Vec<Vec<u8>>,
        cwd: zbus::OwnedFd,
        stdio: Vec<zbus::OwnedFd>,
        link: zbus::OwnedFd,
        options: Options,
    ) -> Result<(&'static str, HashMap<&'static str, Variant<'static>>), Refusal> {
        let (reply, replied) = oneshot::channel();
        let (cwd, link) = (OwnedFd::from(cwd), Link::new(OwnedFd::from(link)));
        let stdio = stdio.into_iter().map(OwnedFd::from).collect();
        let _ = self.orders.send(Order { argv, environment, cwd, stdio, link, options, reply });
        Ok((SESSION, replied.await.expect("the test replies")?))
    }

    async fn register_agent(&self, #[zbus(header)] header: Header<'_>, options: Options) {
        let _ = self.registered.send((header.sender().unwrap().to_string(), options));
    }
}

/// A runtime on a thread of its own, so that the bus is served while a test waits for something else.
struct Driven {
    handle: tokio::runtime::Handle,
    _until: oneshot::Sender<()>,
}

impl Driven {
    fn new() -> Driven {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let handle = runtime.handle().clone();
        let (until, end) = oneshot::channel();
        std::thread::spawn(move || runtime.block_on(end));
        Driven { handle, _until: until }
    }

    fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.handle.block_on(work)
    }
}

/// The test as the daemon, with a runtime of its own.
struct Daemon {
    runtime: Driven,
    bus: PrivateBus,
    connection: Connection,
    orders: mpsc::UnboundedReceiver<Order>,
    opened: mpsc::UnboundedReceiver<Options>,
    registered: mpsc::UnboundedReceiver<(String, Options)>,
    place: tempfile::TempDir,
}

impl Daemon {
    fn start() -> Daemon {
        let runtime = Driven::new();
        let bus = PrivateBus::start();
        let (to_orders, orders) = mpsc::unbounded_channel();
        let (to_opened, opened) = mpsc::unbounded_channel();
        let (to_registered, registered) = mpsc::unbounded_channel();
        let connection = runtime.block_on(async {
            let connection = bus.connect().await;
            let manager = Manager { orders: to_orders, opened: to_opened, registered: to_registered };
            connection.object_server().at(MANAGER_PATH, manager).await.unwrap();
            connection.request_name(BUS_NAME).await.unwrap();
            connection
        });
        let place = tempfile::tempdir().unwrap();
        Daemon { runtime, bus, connection, orders, opened, registered, place }
    }

    fn gated(&self, line: &[&str]) -> Command {
        gated(self.bus.address(), self.place.path(), line)
    }

    /// Waits for the next of something.
    #[track_caller]
    fn next<T>(runtime: &Driven, from: &mut mpsc::UnboundedReceiver<T>) -> T {
        let next = runtime.block_on(async { tokio::time::timeout(LIMIT, from.recv()).await });
        next.expect("gated-run asks in time").expect("the manager lives")
    }

    #[track_caller]
    fn order(&mut self) -> Order {
        Daemon::next(&self.runtime, &mut self.orders)
    }

    #[track_caller]
    fn registration(&mut self) -> (String, Options) {
        Daemon::next(&self.runtime, &mut self.registered)
    }

    /// What a consent agent answers; `Err` is the name of the error.
    fn ask(&self, agent: &str, prompt: &Prompt) -> Result<Answer, String> {
        let body = (prompt.id.to_string(), Details::of(prompt, 0));
        let called = self.connection.call_method(Some(agent), AGENT_PATH, Some(AGENT_INTERFACE), "Ask", &body);
        match self.runtime.block_on(called) {
            Ok(message) => {
                let (decision, scope): (String, Options) = message.body().deserialize().unwrap();
                Ok(answer_from_bus(&decision, &scope).unwrap())
            }
            Err(zbus::Error::MethodError(name, ..)) => Err(name.to_string()),
            Err(error) => panic!("{error}"),
        }
    }
}

impl Order {
    /// Takes the order.
    fn take(self) -> Taken {
        self.take_with(HashMap::new())
    }

    fn take_with(self, results: HashMap<&'static str, Variant<'static>>) -> Taken {
        assert!(self.reply.send(Ok(results)).is_ok(), "gated-run waits");
        self.link.send(&ToCaller::Started { call: CallId(1) }, &[]).unwrap();
        Taken { link: self.link, stdio: self.stdio }
    }

    fn option<T: TryFrom<OwnedVariant>>(&self, key: &str) -> Option<T> {
        option(&self.options, key)
    }
}

/// A command that was taken: the test is its supervisor.
struct Taken {
    link: Link<ToCaller, FromCaller>,
    stdio: Vec<OwnedFd>,
}

impl Taken {
    fn end(self, ended: Ended) {
        self.link.send(&ToCaller::Ended(ended), &[]).unwrap();
    }

    #[track_caller]
    fn hears(&self) -> Option<FromCaller> {
        let mut poll = libc::pollfd { fd: self.link.as_fd().as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one pollfd, and the count says so.
        assert!(unsafe { libc::poll(&mut poll, 1, LIMIT.as_millis() as i32) } > 0, "gated-run says nothing");
        self.link.receive().unwrap().map(|received| received.message)
    }
}

fn option<T: TryFrom<OwnedVariant>>(options: &Options, key: &str) -> Option<T> {
    options.get(key).map(|value| {
        T::try_from(value.try_clone().unwrap()).unwrap_or_else(|_| panic!("{key} has another type: {value:?}"))
    })
}

/// `gated-run` with this command line, in a directory of its own.
fn gated(address: &str, place: &Path, line: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gated-run"));
    command.args(line).current_dir(place).env("DBUS_SYSTEM_BUS_ADDRESS", address);
    for name in ["SUDO_UID", "SUDO_GID", "SUDO_USER", "GATED_LOG"] {
        command.env_remove(name);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // SAFETY: between fork and exec only system calls are made: no terminal of whoever runs the tests, and no child that
    // outlives them.
    unsafe {
        std::os::unix::process::CommandExt::pre_exec(&mut command, || {
            libc::setsid();
            // Whatever started the tests, as `&` does with ^C, may ignore signals.
            for signal in (1..=31).filter(|signal| ![libc::SIGKILL, libc::SIGSTOP].contains(signal)) {
                libc::signal(signal, libc::SIG_DFL);
            }
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            Ok(())
        })
    };
    command
}

/// Waits for the end, and kills what does not come to it.
#[track_caller]
fn finish(mut child: Child) -> Output {
    let end = Instant::now() + LIMIT;
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > end {
            child.kill().unwrap();
            panic!("still running: {:?}", child.wait_with_output());
        }
        std::thread::sleep(Duration::from_millis(3));
    }
    child.wait_with_output().unwrap()
}

#[track_caller]
fn assert_fails(output: Output, words: &str) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(stderr.starts_with("gated-run: ") && stderr.contains(words), "{words:?} is not in {stderr:?}");
    assert!(output.stdout.is_empty());
}

fn prompt(object: &str) -> Prompt {
    let request = Request {
        id: RequestId::random().unwrap(),
        session: SessionId(SESSION.into()),
        call: CallId(1),
        who: Who { pid: 7, program: "/usr/bin/touch".into(), argv: vec![], cwd: "/srv".into() },
        access: Access::Write,
        operation: Operation::Create,
        object: object.into(),
        is_directory: false,
        other: None,
        level: Level::Ask,
        rule: RuleRef { profile: "p".into(), id: "r".into(), file: "/f".into(), line: 3, reason: None },
        remember: Lifetime::Session,
        group: None,
        execution: None,
        destination: None,
        service: None,
        remember_for: None,
    };
    let offers = vec![Offer { width: Width::Exact, scope: object.into() }];
    let deadline = Instant::now() + Duration::from_secs(60);
    Prompt::new(request.into(), offers, deadline)
}

#[test]
fn everything_that_a_command_needs_is_handed_over() {
    let mut daemon = Daemon::start();
    let child = daemon.gated(&["--profile", "strict", "--", "make", "-k", "a b"]).env("MARK", "x=y").spawn().unwrap();
    let order = daemon.order();
    assert_eq!(order.argv, [b"make".to_vec(), b"-k".to_vec(), b"a b".to_vec()]);
    assert!(order.environment.contains(&b"MARK=x=y".to_vec()));
    let place = fs::canonicalize(daemon.place.path()).unwrap();
    let cwd = format!("/proc/self/fd/{}", order.cwd.as_raw_fd());
    assert_eq!(fs::read_link(cwd).unwrap(), place);
    assert_eq!(order.option::<String>("profile").as_deref(), Some("strict"));
    assert_eq!(order.option::<Vec<u8>>("directory").unwrap(), place.as_os_str().as_encoded_bytes());
    assert!(order.option::<Vec<u8>>("home").unwrap().starts_with(b"/"));
    assert_eq!(order.option::<Vec<bool>>("on-terminal"), Some(vec![false; 3]));
    assert_eq!(order.option::<bool>("events"), Some(true));
    assert!(order.option::<u32>("umask").is_some() && order.option::<u64>("ignored-signals").is_some());
    let known = [
        "profile",
        "program",
        "program-called",
        "directory",
        "home",
        "profiles",
        "umask",
        "ignored-signals",
        "on-terminal",
        "events",
    ];
    assert!(order.options.keys().all(|key| known.contains(&key.as_str())), "{:?}", order.options.keys());
    let taken = order.take();
    fs::File::from(taken.stdio[1].try_clone().unwrap()).write_all(b"out").unwrap();
    fs::File::from(taken.stdio[2].try_clone().unwrap()).write_all(b"err").unwrap();
    taken.end(Ended::Exited(7));
    let output = finish(child);
    assert_eq!((output.status.code(), output.stdout, output.stderr), (Some(7), b"out".to_vec(), b"err".to_vec()));
}

#[test]
fn a_profile_that_is_named_by_its_file_goes_along_under_its_path() {
    let mut daemon = Daemon::start();
    let file = fs::canonicalize(daemon.place.path()).unwrap().join("mine.toml");
    fs::write(&file, "schema = 1").unwrap();
    let child = daemon.gated(&["--profile", "./mine.toml", "true"]).spawn().unwrap();
    let order = daemon.order();
    assert_eq!(order.option::<String>("profile").as_deref(), file.to_str());
    let sent = order.option::<HashMap<String, Vec<u8>>>("profiles").unwrap();
    assert_eq!(sent.get(file.to_str().unwrap()).map(Vec::as_slice), Some(b"schema = 1".as_slice()));
    order.take().end(Ended::Exited(0));
    assert!(finish(child).status.success());
}

#[test]
fn what_ended_the_command_is_the_exit_status() {
    let mut daemon = Daemon::start();
    let ends = [
        (Ended::Exited(0), 0, ""),
        (Ended::Signaled(15), 143, ""),
        (Ended::NotExecuted(libc::ENOENT), 127, "gated-run: cannot execute true: No such file or directory\n"),
        (Ended::NotExecuted(libc::EACCES), 126, "gated-run: cannot execute true: Permission denied\n"),
    ];
    for (ended, status, line) in ends {
        let child = daemon.gated(&["true"]).spawn().unwrap();
        daemon.order().take().end(ended);
        let output = finish(child);
        assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(status), line));
    }
    let child = daemon.gated(&["true"]).spawn().unwrap();
    let taken = daemon.order().take();
    taken.link.send(&ToCaller::Failed("the cwd is another directory there".into()), &[]).unwrap();
    drop(taken);
    assert_fails(finish(child), "the cwd is another directory there");
    let child = daemon.gated(&["true"]).spawn().unwrap();
    // Were another end open in gated-run, it would wait for ever.
    drop(daemon.order().take());
    assert_fails(finish(child), "the session was ended");
}

#[test]
fn signals_go_to_the_command_and_the_end_of_gated_run_is_seen() {
    let mut daemon = Daemon::start();
    let child = daemon.gated(&["cat"]).spawn().unwrap();
    let taken = daemon.order().take();
    let (agent, pid) = (taken, child.id() as i32);
    until_it_has_the_link(pid);
    for signal in [libc::SIGTERM, libc::SIGUSR1, libc::SIGINT] {
        // SAFETY: a child of ours that was not waited for.
        unsafe { libc::kill(pid, signal) };
        assert_eq!(agent.hears(), Some(FromCaller::Signal(signal)));
    }
    // SAFETY: as above.
    unsafe { libc::kill(pid, libc::SIGKILL) };
    assert_eq!(agent.hears(), None, "the link closes with gated-run, whatever ends it");
    drop(agent);
    assert_eq!(finish(child).status.signal(), Some(libc::SIGKILL));
}

/// Waits until a process has a handler for a signal.
/// Waits until gated-run passes signals on: until it has the link, one that ends it is its own.
fn until_it_has_the_link(pid: i32) {
    let end = Instant::now() + LIMIT;
    let is_there = |entry: std::io::Result<fs::DirEntry>| {
        let name = entry.and_then(|task| fs::read_to_string(task.path().join("comm")));
        name.is_ok_and(|name| name.trim() == "from link")
    };
    while !fs::read_dir(format!("/proc/{pid}/task")).unwrap().any(is_there) {
        assert!(Instant::now() < end, "gated-run does not listen");
        std::thread::sleep(Duration::from_millis(3));
    }
}

#[test]
fn a_further_call_names_its_session_and_nothing_of_policy() {
    let mut daemon = Daemon::start();
    let child = daemon.gated(&["--session", SESSION, "true"]).spawn().unwrap();
    let order = daemon.order();
    assert_eq!(order.option::<String>("session").as_deref(), Some(SESSION));
    let place = fs::canonicalize(daemon.place.path()).unwrap();
    assert_eq!(order.option::<Vec<u8>>("directory").unwrap(), place.as_os_str().as_encoded_bytes());
    for key in ["profile", "home", "profiles", "user"] {
        assert!(!order.options.contains_key(key), "{key}");
    }
    order.take().end(Ended::Exited(0));
    assert_eq!(finish(child).status.code(), Some(0));
}

#[test]
fn a_new_session_is_an_id_alone_on_stdout() {
    let mut daemon = Daemon::start();
    let child = daemon.gated(&["--new-session", "--profile", "strict"]).spawn().unwrap();
    let options = Daemon::next(&daemon.runtime, &mut daemon.opened);
    assert_eq!(option::<String>(&options, "profile").as_deref(), Some("strict"));
    let output = finish(child);
    assert_eq!((output.status.code(), output.stdout), (Some(0), format!("{SESSION}\n").into_bytes()));
    assert!(output.stderr.is_empty());
}

#[test]
fn each_refusal_is_one_line_that_says_what_to_do() {
    let mut daemon = Daemon::start();
    let detail = || "/etc/gated/x.toml:3:1: nonsense\u{1b}[2J\nand more".to_owned();
    type Make = fn(String) -> Refusal;
    let cases: [(Make, &str); 8] = [
        (Refusal::NotPermitted, "may_run"),
        (Refusal::NotAuthorized, "does not allow it"),
        (Refusal::InsideSession, "inside a session"),
        (Refusal::NoSuchSession, "there is no session 0000002a of yours"),
        (Refusal::TooMany, "too many sessions"),
        (Refusal::Policy, "/etc/gated/x.toml:3:1: nonsense?[2J?and more"),
        (Refusal::Engine, "could not be started: /etc/gated/x.toml"),
        (Refusal::InvalidOption, "of the same version"),
    ];
    for (refusal, words) in cases {
        let child = daemon.gated(&["--session", SESSION, "true"]).spawn().unwrap();
        let order = daemon.order();
        let Order { reply, stdio, .. } = order;
        assert!(reply.send(Err(refusal(detail()))).is_ok());
        drop(stdio);
        assert_fails(finish(child), words);
    }
}

#[test]
fn without_a_bus_a_daemon_or_the_right_to_talk_to_it_there_is_one_line() {
    let place = tempfile::tempdir().unwrap();
    let nowhere = format!("unix:path={}/nothing", place.path().display());
    assert_fails(finish(gated(&nowhere, place.path(), &["true"]).spawn().unwrap()), "cannot reach the system bus");
    let bus = PrivateBus::start();
    assert_fails(finish(gated(bus.address(), place.path(), &["true"]).spawn().unwrap()), "gatedd does not run");
    let strict = PrivateBus::with_policy(
        "<policy context=\"default\"><allow own=\"*\"/><allow send_destination=\"org.freedesktop.DBus\"/>\
         <allow receive_sender=\"*\"/><allow user=\"*\"/></policy>",
    );
    let runtime = Driven::new();
    let _owner = runtime.block_on(async {
        let connection = strict.connect().await;
        connection.request_name(BUS_NAME).await.unwrap();
        connection
    });
    let denied = finish(gated(strict.address(), place.path(), &["true"]).spawn().unwrap());
    assert_fails(denied, "the bus does not let this user talk to gatedd");
}

#[test]
fn choices_that_cannot_be_are_refused_before_the_daemon_is_asked() {
    let daemon = Daemon::start();
    for (line, words) in [
        (["--profile", "./missing.toml"].as_slice(), "cannot read ./missing.toml"),
        (&["--events", "fd:77"], "--events fd:77"),
        (&["--consent", "tty"], "there is no terminal"),
        (&["--user", "no-such-user"], "there is no user no-such-user"),
    ] {
        let line: Vec<&str> = line.iter().copied().chain(["true"]).collect();
        assert_fails(finish(daemon.gated(&line).spawn().unwrap()), words);
    }
    let audit = finish(daemon.gated(&["--audit", "/a", "true"]).spawn().unwrap());
    assert_eq!(audit.status.code(), Some(125));
    assert!(String::from_utf8_lossy(&audit.stderr).contains("--embedded"));
}

#[test]
fn events_are_copied_and_denials_are_told_at_the_end() {
    let mut daemon = Daemon::start();
    let copied = daemon.place.path().join("events.jsonl");
    let child = daemon.gated(&["--events", copied.to_str().unwrap(), "true"]).spawn().unwrap();
    let (reader, mut writer) = std::io::pipe().unwrap();
    let events = Variant::Fd(OwnedFd::from(reader).into());
    let notes = Variant::from(vec!["hosts have no effect yet".to_owned()]);
    let taken = daemon.order().take_with(HashMap::from([("events", events), ("notes", notes)]));
    let denied =
        r#"{"event":"consent_decided","call":1,"access":"write","object":"/srv/x","decision":"timeout"}"#.to_owned();
    writeln!(writer, "{denied}").unwrap();
    taken.end(Ended::Exited(1));
    // The last events come after the end of the command.
    let last = r#"{"event":"call_ended","call":1,"exit_code":1}"#;
    writeln!(writer, "{last}").unwrap();
    let output = finish(child);
    drop(writer);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(fs::read_to_string(copied).unwrap(), format!("{denied}\n{last}\n"));
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "gated-run: note: hosts have no effect yet\n\
         gated: denied: write /srv/x: nobody answered in time; this is final, do not retry\n"
    );
}

#[test]
fn a_script_answers_as_a_consent_agent_of_its_session() {
    let mut daemon = Daemon::start();
    let script = daemon.place.path().join("answers.toml");
    fs::write(&script, "[[answer]]\nobject = \"{workspace}/yes\"\nanswer = \"once\"\n").unwrap();
    let choice = format!("script:{}", script.display());
    let child = daemon.gated(&["--consent", &choice, "true"]).spawn().unwrap();
    let taken = daemon.order().take();
    let (agent, options) = daemon.registration();
    assert_eq!(option::<String>(&options, "kind").as_deref(), Some("script"));
    assert_eq!(option::<String>(&options, "session").as_deref(), Some(SESSION));
    let place = fs::canonicalize(daemon.place.path()).unwrap();
    let asked = |name: &str| daemon.ask(&agent, &prompt(place.join(name).to_str().unwrap()));
    assert_eq!(asked("yes"), Ok(Answer::Once(Width::Exact)));
    assert_eq!(asked("no"), Ok(Answer::Deny));
    taken.end(Ended::Exited(0));
    assert_eq!(finish(child).status.code(), Some(0));
}

#[test]
fn without_a_terminal_and_with_none_nobody_here_is_asked() {
    let mut daemon = Daemon::start();
    for line in [&["true"][..], &["--consent", "none", "true"]] {
        let child = daemon.gated(line).spawn().unwrap();
        daemon.order().take().end(Ended::Exited(0));
        assert_eq!(finish(child).status.code(), Some(0));
    }
    assert!(daemon.registered.try_recv().is_err());
}

#[test]
fn a_daemon_that_goes_away_does_not_end_the_call() {
    let mut daemon = Daemon::start();
    let mut child = daemon.gated(&["cat"]).stdin(Stdio::piped()).spawn().unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    let events = Variant::Fd(OwnedFd::from(reader).into());
    let taken = daemon.order().take_with(HashMap::from([("events", events)]));
    until_it_has_the_link(child.id() as i32);
    // Daemon and bus are killed.
    drop(writer);
    daemon.bus.kill();
    child.stdin.take().unwrap().write_all(b"still here").unwrap();
    let mut got = String::new();
    fs::File::from(taken.stdio[0].try_clone().unwrap()).read_to_string(&mut got).unwrap();
    assert_eq!(got, "still here");
    // SAFETY: a child of ours that was not waited for.
    unsafe { libc::kill(child.id() as i32, libc::SIGUSR2) };
    assert_eq!(taken.hears(), Some(FromCaller::Signal(libc::SIGUSR2)));
    taken.end(Ended::Exited(3));
    let output = finish(child);
    assert_eq!((output.status.code(), output.stderr), (Some(3), Vec::new()));
}

#[test]
fn an_ordinary_user_needs_nothing_more_and_sends_its_own_profiles() {
    const NOBODY: u32 = 65534;
    let mut daemon = Daemon::start();
    // SAFETY: asks for a number.
    if unsafe { libc::geteuid() } != 0 {
        // The user of the tests is an ordinary one, and the other tests say the same.
        return;
    }
    fs::set_permissions(daemon.place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = daemon.gated(&["--user", "root", "true"]);
    // SAFETY: between fork and exec only system calls are made.
    let become_nobody = || unsafe {
        (libc::setgroups(0, std::ptr::null()) == 0 && libc::setgid(NOBODY) == 0 && libc::setuid(NOBODY) == 0)
            .then_some(())
            .ok_or_else(std::io::Error::last_os_error)
    };
    // SAFETY: as above.
    unsafe { std::os::unix::process::CommandExt::pre_exec(&mut command, become_nobody) };
    assert_fails(finish(command.spawn().unwrap()), "only root may use --user");
    let mut command = daemon.gated(&["true"]);
    // A variable that anybody can set makes nobody another one.
    command.env("SUDO_UID", "0").env("SUDO_GID", "0").env("SUDO_USER", "root");
    // SAFETY: as above.
    unsafe { std::os::unix::process::CommandExt::pre_exec(&mut command, become_nobody) };
    let child = command.spawn().unwrap();
    let order = daemon.order();
    assert!(!order.options.contains_key("user"));
    assert!(order.environment.contains(&b"SUDO_USER=root".to_vec()), "the environment is the caller's as it is");
    order.take().end(Ended::Exited(0));
    assert_eq!(finish(child).status.code(), Some(0));
}
