//! Calls that are started from inside a session, and attacks on the socket that takes them.

use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use gated::common::bus::INSIDE_SOCKET;
use gated::common::decision::{Lifetime, Outcome};
use gated::common::path::RawPath;
use gated::common::wire::{self, Ended, Ends, FromCaller, FromSession, Start, ToCaller};
use gated::tool::link::Link;

use crate::broker::{SOON, Supervised, launch, outer_pid, sh};
use crate::support::{Sandbox, until, user};
use crate::{Inside, Test};

pub const TESTS: &[Test] = &[
    ("a_process_inside_starts_a_call_of_the_same_session", a_call),
    ("a_call_that_is_killed_takes_those_that_it_started", taken_along),
    ("a_call_cannot_save_itself_by_being_its_own_caller", own_caller),
    ("nonsense_on_the_socket_inside_is_dropped_and_harms_nobody", nonsense),
    ("a_flood_of_connections_holds_up_nobody_else", flood),
    ("nobody_outside_reaches_the_socket_inside", outside),
    ("the_socket_inside_cannot_be_removed_or_replaced", lasting),
];

pub const INSIDE: &[Inside] = &[
    ("call", call_inside),
    ("hold", hold_inside),
    ("own-caller", own_caller_inside),
    ("nonsense", nonsense_inside),
    ("flood", flood_inside),
];

type Caller = Link<FromCaller, ToCaller>;

fn start_of(argv: &[&str]) -> Start {
    Start {
        command: argv.iter().map(|word| word.as_bytes().to_vec()).collect(),
        environment: std::env::vars().map(|(name, value)| format!("{name}={value}").into_bytes()).collect(),
        cwd: RawPath::from(std::env::current_dir().expect("a cwd")),
        umask: 0o022,
        ignored_signals: 0,
        on_terminal: [false; 3],
        window: None,
        passed: Vec::new(),
    }
}

fn connect() -> std::io::Result<Caller> {
    UnixStream::connect(INSIDE_SOCKET).map(|socket| Link::new(OwnedFd::from(socket)))
}

/// Sends it with the own cwd, /dev/null, and the own stdout twice, or with what is given for stdin.
fn order(link: &Caller, start: Start, stdin: Option<BorrowedFd<'_>>) {
    let cwd = std::fs::File::open(".").expect("the cwd");
    let null = std::fs::File::open("/dev/null").expect("/dev/null");
    let stdout = std::io::stdout();
    let fds = [cwd.as_fd(), stdin.unwrap_or(null.as_fd()), stdout.as_fd(), stdout.as_fd()];
    link.send(&FromCaller::Start(Box::new(start)), &fds).expect("the socket inside listens");
}

fn say_all(link: &Caller) {
    while let Ok(Some(received)) = link.receive() {
        println!("{:?}", received.message);
    }
}

fn call_inside(argv: &[String]) {
    let link = connect().expect("connect");
    order(&link, start_of(&argv.iter().map(String::as_str).collect::<Vec<_>>()), None);
    say_all(&link);
}

fn hold_inside(argv: &[String]) {
    let link = connect().expect("connect");
    order(&link, start_of(&argv.iter().map(String::as_str).collect::<Vec<_>>()), None);
    loop {
        std::thread::park();
    }
}

/// The command has the connection of its caller as its stdin, so that its caller is there for as long as it is itself.
fn own_caller_inside(argv: &[String]) {
    let link = connect().expect("connect");
    let start = start_of(&argv.iter().map(String::as_str).collect::<Vec<_>>());
    order(&link, start, Some(link.as_fd()));
    loop {
        std::thread::park();
    }
}

fn a_call() {
    let sandbox = Sandbox::new();
    sandbox.profile(&format!("{}\n[env]\ndeny = [\"*_TOKEN\"]\n", crate::support::profiles::WORKSPACE));
    let order = launch(&sandbox, Ends::WhenStopped);
    let name = order.session.0.clone();
    let session = Supervised::launch(&sandbox, &order);
    session.broker.ready();
    let script = format!(
        "echo $GATED_SESSION$A_TOKEN; pwd; grep -c . /proc/self/status > /dev/null; echo x > {}/made && echo made; \
         grep NoNewPrivs /proc/self/status; exit 4",
        sandbox.outside().display()
    );
    let mut argv = sandbox.inside("call", &sh(&script));
    argv.splice(0..0, ["env", "A_TOKEN=secret"].map(Into::into));
    let mut call = session.call(&argv);
    assert_eq!(call.started(), 1);
    let question = session.broker.question();
    assert_eq!(question.call.0, 2, "a call of its own");
    session.broker.decide(&question, Outcome::Approved, Lifetime::Call);
    assert_eq!(call.ended(), Ended::Exited(0));
    let out = call.rest();
    // Two write at once: the command, and who started it.
    let has = |line: &str| out.lines().any(|one| one == line);
    assert!(has("Started { call: CallId(2) }") && has("Ended(Exited(4))"), "{out}");
    assert!(has(sandbox.workspace().to_str().expect("UTF-8")) && has("made") && has("NoNewPrivs:\t1"), "{out}");
    assert!(has(&name) && !out.contains("secret"), "{out}");
    let ended = std::iter::from_fn(|| session.broker.next()).find_map(|one| match one {
        FromSession::CallEnded { call, ended } => Some((call.0, ended)),
        _ => None,
    });
    assert_eq!(ended, Some((2, Ended::Exited(4))), "the broker is told of it as of every call");
}

fn taken_along() {
    let sandbox = Sandbox::new();
    let session = Supervised::start(&sandbox);
    let inner = "echo $$; exec sleep 1000";
    let outer = sandbox.inside("hold", &sandbox.inside("hold", &sh(inner)));
    let mut call = session.call(&outer);
    call.started();
    let process = outer_pid(session.pidfd.pid, &call.line());
    drop(call);
    assert!(process.ends_within(SOON), "the call within the call within the call");
}

fn own_caller() {
    let sandbox = Sandbox::new();
    let session = Supervised::start(&sandbox);
    let mut call = session.call(&sandbox.inside("own-caller", &sh("setsid sleep 1000 & echo $!; exec sleep 1000")));
    call.started();
    let process = outer_pid(session.pidfd.pid, &call.line());
    drop(call);
    assert!(process.ends_within(SOON), "it is killed with the call that started it");
}

fn nonsense() {
    let sandbox = Sandbox::new();
    let session = Supervised::start(&sandbox);
    let mut other = session.call(&sh("while ! test -e go; do sleep 0.02; done; echo fine"));
    other.started();
    let mut call = session.call(&sandbox.inside::<&str>("nonsense", &[]));
    assert_eq!(call.started(), 2);
    let out = call.rest();
    assert!(out.ends_with("ran nonsense\n"), "{out}");
    assert_eq!(call.ended(), Ended::Exited(0));
    std::fs::write(sandbox.workspace().join("go"), "").expect("write");
    assert_eq!((other.rest(), other.ended()), ("fine\n".to_owned(), Ended::Exited(0)));
}

fn nonsense_inside(_: &[String]) {
    let start = || FromCaller::Start(Box::new(start_of(&["echo", "must not run"])));
    let frame = |message: &FromCaller| wire::encode(message).expect("a frame");
    let too_long = ((3u32 << 20) + 1).to_le_bytes().to_vec();
    let mut half = frame(&start());
    half.truncate(half.len() / 2);
    for bytes in [
        b"\0\0\0\0".to_vec(),
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        vec![0xff; 64],
        too_long,
        frame(&FromCaller::Signal(9)),
        frame(&FromCaller::Continue),
        // Without its files.
        frame(&start()),
        half,
    ] {
        let mut socket = UnixStream::connect(INSIDE_SOCKET).expect("connect");
        socket.write_all(&bytes).expect("write");
        socket.shutdown(std::net::Shutdown::Write).expect("shutdown");
        say_all(&Link::new(OwnedFd::from(socket)));
    }
    let null = std::fs::File::open("/dev/null").expect("/dev/null");
    for count in [1, 3, 5, 8] {
        let link = connect().expect("connect");
        let _ = link.send(&start(), &vec![null.as_fd(); count]);
        say_all(&link);
    }
    // Files that are none.
    let link = connect().expect("connect");
    let _ = link.send(&start(), &[null.as_fd(); 4]);
    let said = link.receive().expect("a word").expect("why").message;
    assert!(matches!(said, ToCaller::Failed(text) if text.contains("directory is none")));
    // A second start on one connection ends the call that runs on it.
    let link = connect().expect("connect");
    order(&link, start_of(&["sleep", "1000"]), None);
    assert!(matches!(link.receive().expect("a word").expect("a start").message, ToCaller::Started { .. }));
    link.send(&start(), &[]).expect("send");
    assert!(matches!(link.receive(), Ok(None) | Err(_)), "the end");
}

fn flood() {
    let sandbox = Sandbox::new();
    let session = Supervised::start(&sandbox);
    let mut call = session.call(&sandbox.inside::<&str>("flood", &[]));
    call.started();
    assert_eq!(call.line(), "flooded");
    let mut other = session.call(&sh(&format!("echo x > {}/other && echo fine", sandbox.outside().display())));
    let question = session.broker.question();
    session.broker.decide(&question, Outcome::Approved, Lifetime::Attempt);
    other.started();
    assert_eq!((other.rest(), other.ended()), ("fine\n".to_owned(), Ended::Exited(0)));
    drop(call);
    until("the places to be free again", || {
        let mut last = session.call(&sandbox.inside("call", &["true"]));
        last.started();
        last.rest().contains("Ended(Exited(0))").then_some(())
    });
}

/// As many connections as it gets, of which some say nothing and some run something.
fn flood_inside(_: &[String]) {
    let mut held = Vec::new();
    for round in 0..400 {
        let Ok(link) = connect() else { break };
        if round % 8 == 0 {
            let cwd = std::fs::File::open(".").expect("the cwd");
            let fds = [cwd.as_fd(); 1].repeat(4);
            let null = std::fs::File::open("/dev/null").expect("/dev/null");
            let files = [fds[0], null.as_fd(), null.as_fd(), null.as_fd()];
            let _ = link.send(&FromCaller::Start(Box::new(start_of(&["sleep", "1000"]))), &files);
        }
        held.push(link);
    }
    assert!(held.len() > 64, "more than are served");
    println!("flooded");
    loop {
        std::thread::park();
    }
}

fn outside() {
    let sandbox = Sandbox::new();
    let session = Supervised::start(&sandbox);
    let mut call = session.call(&sh("echo $$; exec sleep 1000"));
    call.started();
    let process = outer_pid(session.pidfd.pid, &call.line());
    let path = format!("/proc/{}/root{INSIDE_SOCKET}", process.pid);
    // As the same user, and as root: the way is there, and nobody is let in.
    for as_user in [true, false] {
        let script = format!(
            "import socket,sys\ns=socket.socket(socket.AF_UNIX)\ns.connect('{path}')\ntry:\n s.sendall(b'x'*64)\n\
             except OSError: pass\ntry:\n d=s.recv(1)\nexcept OSError: d=b''\nprint('connected', d)"
        );
        let mut command = std::process::Command::new("python3");
        command.args(["-c", &script]);
        if as_user {
            use std::os::unix::process::CommandExt;
            // SAFETY: between fork and exec only system calls are made.
            unsafe { command.pre_exec(user::become_test_user) };
        }
        let output = command.output().expect("python3");
        let out = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(out, "connected b''\n", "{output:?}");
    }
    // Whoever is refused is refused before a word: a start is not answered either.
    let link: Caller = Link::new(OwnedFd::from(UnixStream::connect(&path).expect("connect")));
    let null = std::fs::File::open("/dev/null").expect("/dev/null");
    // It may be closed by now.
    let _ = link.send(&FromCaller::Start(Box::new(start_of(&["true"]))), &[null.as_fd(); 4]);
    assert!(matches!(link.receive(), Ok(None) | Err(_)), "nothing is said to who is outside");
}

fn lasting() {
    let sandbox = Sandbox::new();
    sandbox.profile(crate::support::profiles::ALLOW_ALL);
    let session = Supervised::start(&sandbox);
    let script = format!(
        "rm -f {INSIDE_SOCKET}; mv {INSIDE_SOCKET} /tmp/x; chmod 000 {INSIDE_SOCKET}; rmdir /run/gated; \
         ln -s x /run/gated/y; touch /run/gated/z; ls -ln {INSIDE_SOCKET} | cut -d' ' -f1,3,4; ls /run/gated"
    );
    let mut call = session.call(&["sh", "-c", &script]);
    call.started();
    let out = call.rest();
    let kept = format!("srw------- {} {}\nbus\ncall.sock\netc\n", user::UID, user::GID);
    assert!(out.ends_with(&kept), "{out}");
    let mut last = session.call(&sandbox.inside("call", &["true"]));
    last.started();
    assert!(last.rest().contains("Ended(Exited(0))"));
}
