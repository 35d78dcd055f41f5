//! The machine of one test: its `/tmp` and `/run`, and servers in them.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::{Outcome, Sandbox, Side, wait};

/// What every server says.
pub const WORD: &str = "served";

/// Says what a server at a path said, or the name of the error, for each argument; `@` is an abstract name.
pub const CONNECT: &str = "import errno,socket,sys\n\
    for path in sys.argv[1:]:\n\
    \x20   one = socket.socket(socket.AF_UNIX)\n\
    \x20   try: one.connect(path.replace('@', '\\0')); print(path, one.recv(99).decode())\n\
    \x20   except OSError as error: print(path, errno.errorcode[error.errno])\n";

pub struct Host {
    pub sandbox: Sandbox,
}

impl Host {
    pub fn new() -> Host {
        let mut sandbox = Sandbox::new();
        let programs = Path::new(env!("CARGO_BIN_EXE_gated-run")).parent().expect("a directory");
        let kept = sandbox.root().join("host/kept");
        sandbox.bind(programs, &kept);
        for tree in ["tmp", "run"] {
            let own = sandbox.root().join("host").join(tree);
            sandbox.dir(&own);
            sandbox.bind(&own, &Path::new("/").join(tree));
        }
        // The daemon's, which is root's: policy is looked for in it.
        fs::create_dir(sandbox.root().join("host/run/gated")).expect("a directory");
        // Built somewhere below /tmp, the programs stay where they are.
        if let Ok(below) = programs.strip_prefix("/tmp") {
            sandbox.dir(&sandbox.root().join("host/tmp").join(below));
            sandbox.bind(&kept, programs);
        }
        sandbox.answers("[[answer]]\nanswer = \"deny\"\n");
        Host { sandbox }
    }

    /// Answers like this from now on; before, everything is denied.
    pub fn answers(&self, toml: &str) {
        std::fs::write(self.sandbox.control().join("answers.toml"), toml).expect("write the script");
    }

    /// With `[defaults] unix` and these rules.
    pub fn profile(&self, unix: &str, rules: &str) {
        let defaults = format!("[defaults]\nwrite = \"deny\"\nunix = \"{unix}\"\n");
        self.sandbox.profile(&format!("schema = 1\n[profile]\nname = \"sockets\"\n{defaults}{rules}"));
    }

    /// Where something of the machine's really is.
    pub fn real(&self, path: &str) -> PathBuf {
        match path.strip_prefix('/') {
            Some(below) if below.starts_with("tmp/") || below.starts_with("run/") => {
                self.sandbox.root().join("host").join(below)
            }
            _ => PathBuf::from(path),
        }
    }

    fn place(&self, path: &str) -> PathBuf {
        let real = self.real(path);
        self.sandbox.dir(real.parent().expect("a socket is in a directory"));
        real
    }

    /// A server that says [`WORD`] to everybody and hangs up.
    pub fn serve(&self, path: &str) -> Server {
        let real = self.place(path);
        let listener = UnixListener::bind(&real).unwrap_or_else(|error| panic!("{path}: {error}"));
        fs::set_permissions(&real, fs::Permissions::from_mode(0o777)).expect("chmod");
        let served = Arc::new(AtomicUsize::new(0));
        let (count, stop) = (Arc::clone(&served), Arc::new(AtomicUsize::new(0)));
        let stopped = Arc::clone(&stop);
        let serve = move || {
            for socket in listener.incoming() {
                if stopped.load(Ordering::SeqCst) == 1 {
                    return;
                }
                count.fetch_add(1, Ordering::SeqCst);
                let _ = socket.and_then(|mut socket: UnixStream| socket.write_all(WORD.as_bytes()));
            }
        };
        let thread = std::thread::spawn(serve);
        Server { path: real, served, own: AtomicUsize::new(0), stop, thread: Some(thread) }
    }

    /// A datagram socket at which what arrives can be read.
    pub fn receive(&self, path: &str) -> UnixDatagram {
        let real = self.place(path);
        let socket = UnixDatagram::bind(&real).unwrap_or_else(|error| panic!("{path}: {error}"));
        fs::set_permissions(&real, fs::Permissions::from_mode(0o777)).expect("chmod");
        socket.set_nonblocking(true).expect("fcntl");
        socket
    }

    /// Lines `PATH RESULT` of a client that connects to each of these.
    #[track_caller]
    pub fn connect(&self, side: Side, paths: &[&str]) -> Vec<String> {
        let mut argv = vec!["/usr/bin/python3", "-c", CONNECT];
        argv.extend(paths);
        let outcome = self.sandbox.on(side, &argv);
        outcome.assert_code(0);
        let lines: Vec<String> =
            outcome.out().lines().map(|line| line.rsplit(' ').next().unwrap_or_default().into()).collect();
        outcome.assert(lines.len() == paths.len(), "a line for each");
        lines
    }

    /// A program of the user's outside of any session, once its socket is there.
    #[track_caller]
    pub fn daemon(&self, argv: &[&str], socket: &str) -> crate::support::Running<'_> {
        self.place(socket);
        let running = self.sandbox.start(Side::Bare, argv);
        wait::until("the socket of a daemon", || self.real(socket).exists().then_some(()));
        running
    }
}

/// A server's socket; it ends when this is dropped.
pub struct Server {
    path: PathBuf,
    served: Arc<AtomicUsize>,
    /// Connections of [`Server::served`] itself.
    own: AtomicUsize,
    stop: Arc<AtomicUsize>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Server {
    /// How many connected so far, all of them taken from the backlog: who connects last is served last.
    pub fn served(&self) -> usize {
        let mut word = String::new();
        let mut last = UnixStream::connect(&self.path).expect("the server is there");
        last.read_to_string(&mut word).expect("the server speaks");
        let own = self.own.fetch_add(1, Ordering::SeqCst) + 1;
        self.served.load(Ordering::SeqCst) - own
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(1, Ordering::SeqCst);
        let woken = UnixStream::connect(&self.path);
        if let (Ok(_), Some(thread)) = (woken, self.thread.take()) {
            let _ = thread.join();
        }
    }
}

/// All that arrived at a socket.
pub fn arrived(socket: &UnixDatagram) -> Vec<String> {
    let mut words = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(length) = socket.recv(&mut buffer) {
        words.push(String::from_utf8_lossy(&buffer[..length]).into_owned());
    }
    words
}

/// What was asked for in the last session of a run, in order.
pub fn asked(outcome: &Outcome) -> Vec<&str> {
    let last = outcome.events.last().map(|event| &event["session"]);
    let of_last = outcome.events_of("consent_required").filter(|event| Some(&event["session"]) == last);
    of_last.filter_map(|event| event["object"].as_str()).collect()
}
