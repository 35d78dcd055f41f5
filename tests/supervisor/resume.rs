//! A supervisor that comes to its broker by itself, and to the next one when that is gone.

use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use gated::common::decision::{Lifetime, Outcome};
use gated::common::path::RawPath;
use gated::common::wire::{self, Ended, Ends, FromSession, Hello, Launch, ToSession};
use gated::policy::Grant;

use crate::Test;
use crate::broker::{Broker, SOON, Supervised, TOKEN, call, launch, rendezvous, sh};
use crate::support::{PidFd, Sandbox, until};

pub const TESTS: &[Test] = &[
    ("a_unit_s_supervisor_connects_and_is_told_what_to_start", connects),
    ("what_fails_before_there_is_a_broker_is_said_on_stderr", fails),
    ("a_lost_broker_denies_what_is_asked_and_disturbs_no_call", lost),
    ("a_supervisor_comes_back_with_its_grants_and_calls", resumed),
    ("a_broker_that_closes_at_once_is_tried_again_and_one_that_stops_is_obeyed", refused),
    ("a_session_without_a_rendezvous_ends_with_its_broker", ended),
    ("a_session_whose_init_is_killed_ends", no_init),
];

/// The daemon's place: root's, and open to all.
struct Daemon {
    listener: Option<UnixListener>,
    path: PathBuf,
}

impl Daemon {
    fn new(sandbox: &Sandbox) -> Daemon {
        let directory = sandbox.root().join("daemon");
        std::fs::create_dir(&directory).expect("mkdir");
        let mut daemon = Daemon { listener: None, path: directory.join("supervisors.sock") };
        daemon.open();
        daemon
    }

    fn open(&mut self) {
        self.close();
        self.listener = Some(UnixListener::bind(&self.path).expect("bind"));
        std::fs::set_permissions(&self.path, std::fs::Permissions::from_mode(0o666)).expect("chmod");
    }

    fn close(&mut self) {
        self.listener = None;
        let _ = std::fs::remove_file(&self.path);
    }

    /// The next supervisor that connects.
    fn accept(&self) -> Broker {
        let (socket, _) = self.listener.as_ref().expect("open").accept().expect("accept");
        Broker::over(OwnedFd::from(socket))
    }
}

fn with_rendezvous(sandbox: &Sandbox, socket: &Path) -> Launch {
    Launch { rendezvous: Some(rendezvous(socket)), ..launch(sandbox, Ends::WhenStopped) }
}

/// A session that can do without this broker.
fn start<'a>(sandbox: &'a Sandbox, daemon: &Daemon) -> Supervised<'a> {
    let supervised = Supervised::launch(sandbox, &with_rendezvous(sandbox, &daemon.path));
    supervised.broker.ready();
    supervised
}

fn connects() {
    let sandbox = Sandbox::new();
    let daemon = Daemon::new(&sandbox);
    let order = with_rendezvous(&sandbox, &daemon.path);
    let socket = daemon.path.to_str().expect("UTF-8");
    let child = sandbox.supervisor(Stdio::null(), &["--session", &order.session.0, "--socket", socket]);
    let pidfd = PidFd::open(child.id() as i32).expect("pidfd_open");
    let broker = daemon.accept();
    let expected = Hello { version: wire::VERSION, session: order.session.clone(), token: None, resumed: None };
    assert_eq!(broker.hello(), expected);
    broker.send(ToSession::Launch(Box::new(order)));
    broker.ready();
    let session = Supervised { sandbox: &sandbox, child, pidfd, broker };
    for number in 0..3 {
        let found = std::fs::metadata(format!("/proc/{}/fd/{number}", session.pidfd.pid)).expect("it is open");
        assert_eq!(found.rdev(), libc::makedev(1, 3), "/dev/null, and not the journal");
    }
    let mut call = session.call(&["echo", "fine"]);
    call.started();
    assert_eq!((call.rest(), call.ended()), ("fine\n".to_owned(), Ended::Exited(0)));
    session.broker.send(ToSession::Stop);
    assert!(session.pidfd.ends_within(SOON));
}

fn fails() {
    let sandbox = Sandbox::new();
    let daemon = Daemon::new(&sandbox);
    let socket = daemon.path.to_str().expect("UTF-8");
    let run = |arguments: &[&str]| {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_gated-session"))
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .expect("gated-session");
        assert_eq!(output.status.code(), Some(125), "{arguments:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    for arguments in [
        &[][..],
        &["--session", "00000001"],
        &["--session", "../../x", "--socket", socket],
        &["--session", "0000000G", "--socket", socket],
        &["--socket", socket, "--session", "00000001"],
    ] {
        assert!(run(arguments).contains("not by hand"), "{arguments:?}");
    }
    let nowhere = sandbox.root().join("nowhere");
    assert!(run(&["--session", "00000001", "--socket", nowhere.to_str().expect("UTF-8")]).contains("cannot connect"));
    // Another session's order, and one that cannot be built.
    let mut order = with_rendezvous(&sandbox, &daemon.path);
    order.session = gated::common::id::SessionId("00000002".into());
    for (session, word) in [("00000001", "this is 00000001"), ("00000002", "home")] {
        order.home = Some(RawPath::from("/elsewhere"));
        let serving = std::thread::scope(|scope| {
            let serve = scope.spawn(|| {
                let broker = daemon.accept();
                broker.hello();
                broker.send(ToSession::Launch(Box::new(order.clone())));
                broker.next()
            });
            let said = run(&["--session", session, "--socket", socket]);
            assert!(said.contains(word), "{said}");
            serve.join().expect("the broker")
        });
        assert!(matches!(&serving, Some(FromSession::Failed(text)) if text.contains(word)), "{serving:?}");
    }
}

fn lost() {
    let sandbox = Sandbox::new();
    let mut daemon = Daemon::new(&sandbox);
    let session = start(&sandbox, &daemon);
    daemon.close();
    let script = format!(
        "echo x > {0}/asked || echo denied; echo own > mine && echo kept; echo x > {0}/unasked || echo denied; \
         while ! test -e go; do sleep 0.02; done; exit 9",
        sandbox.outside().display()
    );
    let mut call = session.call(&sh(&script));
    call.started();
    session.broker.question();
    session.broker.link.close();
    let lines: Vec<String> =
        std::iter::from_fn(|| Some(call.line())).filter(|line| !line.contains("cannot create")).take(3).collect();
    assert_eq!(lines, ["denied", "kept", "denied"], "what needs nobody goes on");
    // Its client is still its client.
    std::fs::write(sandbox.workspace().join("go"), "").expect("write");
    assert_eq!(call.ended(), Ended::Exited(9));
    assert!(!session.pidfd.ends_within(std::time::Duration::ZERO));
    assert_eq!(std::fs::read_dir(sandbox.outside()).expect("read").count(), 0);
}

fn resumed() {
    let sandbox = Sandbox::new();
    let mut daemon = Daemon::new(&sandbox);
    let session = start(&sandbox, &daemon);
    let script = format!(
        "for i in 1 2 3; do echo x >> {0}/granted && echo $i; while ! test -e go$i; do sleep 0.02; done; done; \
         echo y > {0}/new && echo made; exit 5",
        sandbox.outside().display()
    );
    let mut first = session.call(&sh(&script));
    first.started();
    let question = session.broker.question();
    let grant = session.broker.decide(&question, Outcome::Approved, Lifetime::Session).expect("a grant");
    assert_eq!(first.line(), "1");
    let mut short = session.call(&sh("read line < /dev/null; while ! test -e over; do sleep 0.02; done"));
    short.started();
    // Down for a while, and up again: nothing of the old broker's is needed.
    daemon.close();
    session.broker.link.close();
    std::fs::write(sandbox.workspace().join("over"), "").expect("write");
    assert_eq!(short.ended(), Ended::Exited(0), "a call that ends while nobody is there");
    short.rest();
    daemon.open();
    let broker = daemon.accept();
    let hello = broker.hello();
    assert_eq!((hello.version, hello.token), (wire::VERSION, Some(TOKEN)));
    let resumed = hello.resumed.expect("its state");
    let grants: Vec<Grant> = resumed.grants.iter().map(|bytes| postcard::from_bytes(bytes).expect("a grant")).collect();
    assert_eq!(grants.iter().map(|grant| grant.id).collect::<Vec<_>>(), [grant]);
    assert_eq!(resumed.calls.iter().map(|call| call.call.0).collect::<Vec<_>>(), [1], "what runs, and no more");
    std::fs::write(sandbox.workspace().join("go1"), "").expect("write");
    assert_eq!(first.line(), "2", "the grant holds");
    until("its use is recorded by the new broker", || (broker.records().len() == 1).then_some(()));
    // It goes on asking, further calls can be started, and grants be revoked.
    let second = call(&broker, &sandbox, &sh("exit 6"), |_| {});
    assert_eq!((second.started(), second.ended()), (3, Ended::Exited(6)));
    broker.send(ToSession::Revoke(grant));
    std::fs::write(sandbox.workspace().join("go2"), "").expect("write");
    let question = broker.question();
    assert_eq!(question.object, RawPath::from(sandbox.outside().join("granted")));
    broker.decide(&question, Outcome::Approved, Lifetime::Attempt);
    assert_eq!(first.line(), "3");
    std::fs::write(sandbox.workspace().join("go3"), "").expect("write");
    broker.decide(&broker.question(), Outcome::Approved, Lifetime::Attempt);
    assert_eq!((first.line(), first.ended()), ("made".to_owned(), Ended::Exited(5)));
}

fn refused() {
    let sandbox = Sandbox::new();
    let daemon = Daemon::new(&sandbox);
    let session = start(&sandbox, &daemon);
    let mut call = session.call(&sh("echo ready; exec sleep 1000"));
    call.started();
    assert_eq!(call.line(), "ready");
    session.broker.link.close();
    for _ in 0..2 {
        // One that closes, and one that talks nonsense first.
        drop(daemon.listener.as_ref().expect("open").accept().expect("accept"));
        let (mut socket, _) = daemon.listener.as_ref().expect("open").accept().expect("accept");
        std::io::Write::write_all(&mut socket, &[0xff; 16]).expect("write");
    }
    let broker = daemon.accept();
    assert_eq!(broker.hello().resumed.map(|resumed| resumed.calls.len()), Some(1));
    broker.send(ToSession::Stop);
    assert!(session.pidfd.ends_within(SOON));
    assert_eq!(call.rest(), "", "and all of it");
}

fn ended() {
    let sandbox = Sandbox::new();
    let session = Supervised::start(&sandbox);
    session.broker.link.close();
    assert!(session.pidfd.ends_within(SOON));
}

fn no_init() {
    let sandbox = Sandbox::new();
    let daemon = Daemon::new(&sandbox);
    let session = start(&sandbox, &daemon);
    let init = crate::support::wait::descendants(session.pidfd.pid);
    assert_eq!(init.len(), 1);
    init[0].kill(libc::SIGKILL);
    let said = session.broker.next();
    assert!(matches!(&said, Some(FromSession::Failed(text)) if text.contains("init")), "{said:?}");
    assert!(session.pidfd.ends_within(SOON));
}
