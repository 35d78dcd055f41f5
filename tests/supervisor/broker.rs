//! The broker's and the caller's part, played by the test.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gated::common::decision::{Decision, Lifetime, Limits, Outcome, Term, Width};
use gated::common::id::{GrantId, SessionId, Token};
use gated::common::path::RawPath;
use gated::common::request::Request;
use gated::common::wire::{
    self, Ended, Ends, FromCaller, FromSession, Hello, Identity, Launch, Rendezvous, Start, ToCaller, ToSession,
};
use gated::policy::{self, Bounds, Context, Grant, ProfileSelector};
use gated::tool::floor::LOWEST_ABI;
use gated::tool::link::{self, Link};

use crate::support::{PidFd, Sandbox, user};

/// Longer than anything here takes on a loaded machine.
pub const SOON: Duration = Duration::from_secs(30);

pub const TOKEN: Token = Token(*b"sixteen bytes...");

pub type ToSupervisor = Link<ToSession, FromSession>;

/// One connection of a supervisor. Says yes to every record; everything else is kept for the test to take.
pub struct Broker {
    pub link: Arc<ToSupervisor>,
    messages: Receiver<FromSession>,
    recorded: Arc<Mutex<Vec<String>>>,
}

impl Broker {
    pub fn over(socket: OwnedFd) -> Broker {
        let link: Arc<ToSupervisor> = Arc::new(Link::new(socket));
        let (arrived, messages) = channel();
        let recorded: Arc<Mutex<Vec<String>>> = Arc::default();
        let (reading, records) = (Arc::clone(&link), Arc::clone(&recorded));
        std::thread::spawn(move || {
            while let Ok(Some(received)) = reading.receive() {
                if let FromSession::Record(record) = &received.message {
                    records.lock().expect("whole").push(format!("{record:?}"));
                    let _ = reading.send(&ToSession::Recorded(record.number, true), &[]);
                } else if arrived.send(received.message).is_err() {
                    return;
                }
            }
        });
        Broker { link, messages, recorded }
    }

    #[track_caller]
    pub fn send(&self, message: ToSession) {
        self.link.send(&message, &[]).expect("the supervisor listens");
    }

    /// The next message that is no record; `None` when the supervisor has closed.
    #[track_caller]
    pub fn next(&self) -> Option<FromSession> {
        match self.messages.recv_timeout(SOON) {
            Ok(message) => Some(message),
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => None,
            Err(error) => panic!("nothing from the supervisor: {error}"),
        }
    }

    #[track_caller]
    pub fn ready(&self) {
        assert!(matches!(self.next(), Some(FromSession::Ready { landlock_abi: 6.. })), "a session that is ready");
    }

    /// The next question, whatever else is said before.
    #[track_caller]
    pub fn question(&self) -> Request {
        loop {
            match self.next() {
                Some(FromSession::Ask(request)) => return *request,
                Some(_) => {}
                None => panic!("the supervisor is gone"),
            }
        }
    }

    pub fn decide(&self, request: &Request, outcome: Outcome, lifetime: Lifetime) -> Option<GrantId> {
        let id = (lifetime != Lifetime::Attempt).then(|| GrantId::random().expect("random bits"));
        let term = if lifetime == Lifetime::Session { Term::Session } else { Term::Call };
        let bounds = Bounds { home: &RawPath::from("/nonexistent"), limits: Limits::SESSION };
        let grant = id.map(|id| {
            let grant = Grant::from_answer(id, request, Width::Exact, term, "test", &bounds);
            grant.expect("an answer that is not too broad").encode()
        });
        self.send(ToSession::Decided(Decision {
            request: request.id,
            outcome,
            grant,
            authenticated: false,
            by: "test".into(),
            edited: None,
        }));
        id
    }

    #[track_caller]
    pub fn hello(&self) -> Hello {
        match self.next() {
            Some(FromSession::Hello(hello)) => *hello,
            other => panic!("a hello was expected, not {other:?}"),
        }
    }

    pub fn records(&self) -> Vec<String> {
        self.recorded.lock().expect("whole").clone()
    }
}

/// A session of the sandbox's profile.
pub fn launch(sandbox: &Sandbox, ends: Ends) -> Launch {
    let workspace = RawPath::from(sandbox.workspace());
    let context = Context { home: RawPath::from(sandbox.home()), user: user::NAME.into(), cwd: workspace.clone() };
    let selector = ProfileSelector::File(sandbox.control().join("profile.toml"));
    let profile = policy::load(selector, &context, &|path| std::fs::read_to_string(path)).expect("a profile");
    Launch {
        grants: Vec::new(),
        version: wire::VERSION,
        session: SessionId::random().expect("random bits"),
        user: Identity {
            uid: user::UID,
            gid: user::GID,
            groups: vec![user::GID, user::EXTRA_GID],
            name: user::NAME.into(),
            home: RawPath::from(sandbox.home()),
        },
        profile: profile.encode(),
        network: profile.network,
        landlock_abi_min: LOWEST_ABI,
        workspace: workspace.clone(),
        directory: workspace,
        home: Some(RawPath::from(sandbox.home())),
        ends,
        publish: Vec::new(),
        ssh_agent: None,
        rendezvous: None,
    }
}

/// A supervisor that this test has started. Killed with all of its session when dropped.
pub struct Supervised<'a> {
    pub sandbox: &'a Sandbox,
    pub child: Child,
    pub pidfd: PidFd,
    pub broker: Broker,
}

impl<'a> Supervised<'a> {
    /// A session that ends when it is told to, ready to take calls.
    #[track_caller]
    pub fn start(sandbox: &'a Sandbox) -> Supervised<'a> {
        let supervised = Supervised::launch(sandbox, &launch(sandbox, Ends::WhenStopped));
        supervised.broker.ready();
        supervised
    }

    pub fn launch(sandbox: &'a Sandbox, launch: &Launch) -> Supervised<'a> {
        let (ours, theirs) = link::pair().expect("a socket pair");
        let child = sandbox.supervisor::<&str>(Stdio::from(theirs), &[]);
        let pidfd = PidFd::open(child.id() as i32).expect("pidfd_open");
        let broker = Broker::over(ours);
        broker.send(ToSession::Launch(Box::new(launch.clone())));
        Supervised { sandbox, child, pidfd, broker }
    }

    /// Starts a call with nothing on its stdin.
    #[track_caller]
    pub fn call<S: Into<OsString> + Clone>(&self, argv: &[S]) -> Call {
        self.call_by(argv, |_| {})
    }

    #[track_caller]
    pub fn call_by<S: Into<OsString> + Clone>(&self, argv: &[S], change: impl FnOnce(&mut Start)) -> Call {
        call(&self.broker, self.sandbox, argv, change)
    }
}

impl Drop for Supervised<'_> {
    fn drop(&mut self) {
        // It may have outlived its broker on purpose.
        self.pidfd.kill(libc::SIGKILL);
        let _ = self.child.wait();
    }
}

pub fn rendezvous(socket: &Path) -> Rendezvous {
    Rendezvous { socket: RawPath::from(socket), token: TOKEN }
}

#[track_caller]
pub fn call<S: Into<OsString> + Clone>(
    broker: &Broker,
    sandbox: &Sandbox,
    argv: &[S],
    change: impl FnOnce(&mut Start),
) -> Call {
    let mut start = Start {
        command: argv.iter().map(|word| word.clone().into().as_bytes().to_vec()).collect(),
        environment: [
            format!("HOME={}", sandbox.home().display()),
            "PATH=/usr/local/bin:/usr/bin:/bin".to_owned(),
            "LANG=C.UTF-8".to_owned(),
        ]
        .map(String::into_bytes)
        .to_vec(),
        cwd: RawPath::from(sandbox.workspace()),
        umask: 0o022,
        ignored_signals: 0,
        on_terminal: [false; 3],
        window: None,
        passed: Vec::new(),
    };
    change(&mut start);
    let (ours, theirs) = link::pair().expect("a socket pair");
    let cwd = File::open(start.cwd.as_path()).expect("the cwd");
    let null = File::options().read(true).write(true).open("/dev/null").expect("/dev/null");
    let (output, stdout) = std::io::pipe().expect("a pipe");
    let fds = [theirs.as_fd(), cwd.as_fd(), null.as_fd(), stdout.as_fd(), stdout.as_fd()];
    broker.link.send(&ToSession::Start(Box::new(start)), &fds).expect("the supervisor listens");
    Call { link: Link::new(ours), output: OwnedFd::from(output).into() }
}

/// A call as its caller has it. Dropping it is the caller's end.
pub struct Call {
    pub link: Link<FromCaller, ToCaller>,
    output: File,
}

impl Call {
    #[track_caller]
    pub fn next(&self) -> Option<ToCaller> {
        let _ = self.link.limit_waits(SOON);
        self.link.receive().expect("a message").map(|received| received.message)
    }

    /// The number of the call, which is started.
    #[track_caller]
    pub fn started(&self) -> u32 {
        match self.next() {
            Some(ToCaller::Started { call }) => call.0,
            other => panic!("a start was expected, not {other:?}"),
        }
    }

    #[track_caller]
    pub fn ended(&self) -> Ended {
        match self.next() {
            Some(ToCaller::Ended(ended)) => ended,
            other => panic!("an end was expected, not {other:?}"),
        }
    }

    /// A line that the command wrote.
    #[track_caller]
    pub fn line(&mut self) -> String {
        let mut line = Vec::new();
        let mut byte = [0];
        while self.output.read(&mut byte).expect("a pipe can be read") == 1 && byte != *b"\n" {
            line.extend(byte);
        }
        String::from_utf8(line).expect("the tests write UTF-8")
    }

    /// All that the command and what it left behind wrote, when nobody can write any more.
    #[track_caller]
    pub fn rest(&mut self) -> String {
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).expect("the tests write UTF-8");
        rest
    }
}

pub fn sh(script: &str) -> [String; 3] {
    ["sh".into(), "-c".into(), script.into()]
}

/// The process with this number in the session's pid namespace below the supervisor; shells print it as `$$`.
#[track_caller]
pub fn outer_pid(supervisor: i32, inner: &str) -> PidFd {
    let inner = inner.trim();
    let is_it = |one: &PidFd| {
        let status = std::fs::read_to_string(format!("/proc/{}/status", one.pid)).unwrap_or_default();
        status.lines().any(|line| line.starts_with("NSpid:") && line.split_whitespace().next_back() == Some(inner))
    };
    let mut all = crate::support::wait::descendants(supervisor);
    let at = all.iter().position(is_it).unwrap_or_else(|| panic!("no process {inner}"));
    all.swap_remove(at)
}
