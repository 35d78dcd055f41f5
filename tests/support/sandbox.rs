//! A home, a workspace and gated's files for one test, and commands in it: under `gated-run`, or bare as the same user.
//!
//! Runs in the test process, as root. The command is a child in a mount namespace of its own where the test user exists
//! and where the test program itself lies at a path that every user and every session can reach.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::network::{Namespace, namespace};
use super::outcome::Outcome;
use super::user::{self, Mount};
use super::wait::PidFd;

/// The longest that one command may take.
pub const LIMIT: Duration = Duration::from_secs(180);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Bare,
    Gated,
}

/// Removed with all its contents when dropped.
pub struct Sandbox {
    root: tempfile::TempDir,
    /// Further arguments of `gated-run`, before `--`.
    options: Vec<OsString>,
    /// The argument of `--profile`, of `--consent` and of `--audit`.
    profile: OsString,
    consent: OsString,
    audit: PathBuf,
    tmpfs: Vec<(PathBuf, String)>,
    binds: Vec<(PathBuf, PathBuf)>,
    flags: Vec<(PathBuf, libc::c_ulong)>,
    /// The network namespace of the commands; that of the test itself if there is none.
    network: Option<OwnedFd>,
}

impl Sandbox {
    /// A fresh one: `home/`, `home/work/` (the cwd), `outside/` belong to the test user, `gated/` to root.
    /// Its root is a path of fixed length, so that limits on lengths of paths fall alike in two sandboxes.
    pub fn new() -> Sandbox {
        // SAFETY: geteuid(2) cannot fail.
        assert_eq!(unsafe { libc::geteuid() }, 0, "these tests start the real gated-run, which needs root");
        let root = tempfile::Builder::new().prefix("gated-").rand_bytes(6).tempdir_in("/var/tmp").expect("/var/tmp");
        fs::set_permissions(root.path(), fs::Permissions::from_mode(0o755)).expect("chmod");
        let sandbox = Sandbox {
            options: Vec::new(),
            profile: root.path().join("gated/profile.toml").into(),
            consent: "none".into(),
            audit: root.path().join("gated/audit.jsonl"),
            tmpfs: Vec::new(),
            binds: Vec::new(),
            flags: Vec::new(),
            network: None,
            root,
        };
        for dir in ["gated", "bin"] {
            fs::create_dir(sandbox.root().join(dir)).expect("mkdir");
        }
        for dir in [sandbox.home(), sandbox.workspace(), sandbox.outside()] {
            fs::create_dir(&dir).expect("mkdir");
            sandbox.give(&dir);
        }
        sandbox.file(&sandbox.home().join(".bashrc"), "original\n");
        fs::write(sandbox.probe(), "").expect("a mount point");
        user::write_files(&sandbox.control(), &sandbox.home()).expect("passwd and group");
        sandbox.profile(super::profiles::WORKSPACE);
        sandbox
    }

    pub fn root(&self) -> &Path {
        self.root.path()
    }

    pub fn home(&self) -> PathBuf {
        self.root().join("home")
    }

    pub fn workspace(&self) -> PathBuf {
        self.home().join("work")
    }

    /// A directory of the user that no profile of the tests allows changes in.
    pub fn outside(&self) -> PathBuf {
        self.root().join("outside")
    }

    /// Where gated's own files lie.
    pub fn control(&self) -> PathBuf {
        self.root().join("gated")
    }

    pub fn events_file(&self) -> PathBuf {
        self.control().join("events.jsonl")
    }

    pub fn audit_file(&self) -> &Path {
        &self.audit
    }

    /// This test program's path, in and out of sessions.
    pub fn probe(&self) -> PathBuf {
        self.root().join("bin/probe")
    }

    /// The command that runs a part of this test program: `--inside NAME ARG...`.
    pub fn inside<S: AsRef<OsStr>>(&self, name: &str, args: &[S]) -> Vec<OsString> {
        let mut argv: Vec<OsString> = vec![self.probe().into(), "--inside".into(), name.into()];
        argv.extend(args.iter().map(|arg| arg.as_ref().to_owned()));
        argv
    }

    /// Makes a path the test user's.
    pub fn give(&self, path: &Path) {
        chown(path, Some(user::UID), Some(user::GID)).expect("chown");
    }

    /// Writes a file of the test user, with the directories above it.
    pub fn file(&self, path: &Path, contents: &str) {
        self.dir(path.parent().expect("a file has a directory"));
        fs::write(path, contents).expect("write");
        self.give(path);
    }

    /// Makes a directory of the test user, with those above it.
    pub fn dir(&self, path: &Path) {
        if !path.exists() {
            self.dir(path.parent().expect("/ exists"));
            fs::create_dir(path).expect("mkdir");
            self.give(path);
        }
    }

    pub fn profile(&self, toml: &str) {
        fs::write(self.control().join("profile.toml"), toml).expect("write the profile");
    }

    /// Uses a profile by name instead of the file.
    pub fn profile_named(&mut self, name: &str) {
        self.profile = name.into();
    }

    /// Answers prompts by a script from now on; without one nobody is there to ask.
    pub fn answers(&mut self, toml: &str) {
        let file = self.control().join("answers.toml");
        fs::write(&file, toml).expect("write the script");
        self.consent = OsString::from("script:");
        self.consent.push(file);
    }

    /// The argument of `--consent`.
    pub fn consent(&mut self, consent: &str) {
        self.consent = consent.into();
    }

    pub fn audit_to(&mut self, file: &Path) {
        self.audit = file.to_owned();
    }

    pub fn option(&mut self, option: &str) {
        self.options.push(option.into());
    }

    /// An empty file system, full after the size in `options`, mounted at `dir` for the command only.
    pub fn tmpfs(&mut self, dir: &Path, options: &str) {
        self.tmpfs.push((dir.to_owned(), options.to_owned()));
    }

    /// A directory of the machine that appears at `at` for the command only, whoever may reach it where it is.
    pub fn bind(&mut self, from: &Path, at: &Path) {
        fs::create_dir_all(at).expect("a mount point");
        self.binds.push((from.to_owned(), at.to_owned()));
    }

    /// A file of the machine that appears at `at`, a file that is there, for the command only.
    pub fn bind_file(&mut self, from: &Path, at: &Path) {
        self.binds.push((from.to_owned(), at.to_owned()));
    }

    /// A directory that is a mount of its own with these flags, `MS_RDONLY` or the like, for the command only.
    pub fn flagged(&mut self, dir: &Path, flags: libc::c_ulong) {
        self.binds.push((dir.to_owned(), dir.to_owned()));
        self.flags.push((dir.to_owned(), flags));
    }

    /// Commands run in this network namespace from now on.
    pub fn network(&mut self, network: &Namespace) {
        self.network = Some(network.as_fd().try_clone_to_owned().expect("dup"));
    }

    /// The command line of `gated-run` for a command.
    pub fn gated_argv<S: AsRef<OsStr>>(&self, argv: &[S]) -> Vec<OsString> {
        let mut line: Vec<OsString> = vec![env!("CARGO_BIN_EXE_gated-run").into(), "--embedded".into()];
        let mut pair = |name: &str, value: &OsStr| line.extend([name.into(), value.to_owned()]);
        pair("--user", user::NAME.as_ref());
        pair("--profile", &self.profile);
        pair("--consent", &self.consent);
        pair("--events", self.events_file().as_os_str());
        pair("--audit", self.audit.as_os_str());
        line.extend(self.options.iter().cloned());
        line.push("--".into());
        line.extend(argv.iter().map(|arg| arg.as_ref().to_owned()));
        line
    }

    /// Runs a command under `gated-run` to its end.
    #[track_caller]
    pub fn run<S: AsRef<OsStr>>(&self, argv: &[S]) -> Outcome {
        self.on(Side::Gated, argv)
    }

    /// Runs a command as the test user outside of any sandbox to its end.
    #[track_caller]
    pub fn bare<S: AsRef<OsStr>>(&self, argv: &[S]) -> Outcome {
        self.on(Side::Bare, argv)
    }

    #[track_caller]
    pub fn on<S: AsRef<OsStr>>(&self, side: Side, argv: &[S]) -> Outcome {
        self.start(side, argv).finish()
    }

    /// Starts a command and returns at once.
    #[track_caller]
    pub fn start<S: AsRef<OsStr>>(&self, side: Side, argv: &[S]) -> Running<'_> {
        let line: Vec<OsString> = match side {
            Side::Bare => argv.iter().map(|arg| arg.as_ref().to_owned()).collect(),
            Side::Gated => self.gated_argv(argv),
        };
        self.start_line(side, &line, None)
    }

    /// Starts a whole command line, as the test user or (`Gated`) as root. `terminal` becomes its controlling terminal and
    /// stdin.
    #[track_caller]
    pub fn start_line(&self, side: Side, argv: &[OsString], terminal: Option<File>) -> Running<'_> {
        let title = format!("{side:?}: {}", argv.iter().map(|arg| arg.to_string_lossy()).collect::<Vec<_>>().join(" "));
        let (stdout, stderr) = (tempfile::tempfile().expect("a file"), tempfile::tempfile().expect("a file"));
        let (program, args) = argv.split_first().expect("a command");
        let mut command = Command::new(program);
        command.args(args).current_dir(self.workspace()).env_clear();
        command.envs([("PATH", "/usr/local/bin:/usr/bin:/bin"), ("LANG", "C.UTF-8"), ("USER", user::NAME)]);
        command.env("LOGNAME", user::NAME).env("HOME", self.home()).env("RUST_BACKTRACE", "1");
        let on_terminal = terminal.is_some();
        command.stdin(terminal.map_or_else(Stdio::null, Stdio::from));
        command.stdout(stdout.try_clone().expect("dup")).stderr(stderr.try_clone().expect("dup"));
        let mounts = self.mounts();
        let network = self.network.as_ref().map(AsRawFd::as_raw_fd);
        // SAFETY: between fork and exec only system calls are made.
        unsafe {
            command.pre_exec(move || {
                network.map_or(Ok(()), namespace::enter)?;
                libc::setsid();
                // Whatever started the tests, as `&` does with ^C, may ignore signals.
                for signal in (1..=31).filter(|signal| ![libc::SIGKILL, libc::SIGSTOP].contains(signal)) {
                    libc::signal(signal, libc::SIG_DFL);
                }
                if on_terminal && libc::ioctl(0, libc::TIOCSCTTY, 0) != 0 {
                    return Err(std::io::Error::last_os_error());
                }
                libc::umask(0o022);
                user::enter(&mounts)?;
                if side == Side::Bare {
                    // As gated-run leaves its caller's files behind; what else runs in this process may have some open.
                    libc::close_range(3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC as i32);
                    user::become_test_user()?;
                }
                // A killed test leaves nobody behind; set last, for a change of credentials clears it, prctl(2).
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            })
        };
        let child = command.spawn().unwrap_or_else(|error| panic!("{title}: {error}"));
        let pidfd = PidFd::open(child.id() as i32).expect("pidfd_open");
        Running { sandbox: self, side, title, child, pidfd, stdout, stderr }
    }

    /// Starts the supervisor itself, as the daemon does: as root, with this descriptor 0 and these arguments.
    pub fn supervisor<S: AsRef<OsStr>>(&self, stdin: Stdio, arguments: &[S]) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gated-session"));
        command.args(arguments).current_dir("/").env_clear().stdin(stdin).stdout(Stdio::null());
        let mounts = self.mounts();
        // SAFETY: between fork and exec only system calls are made.
        unsafe {
            command.pre_exec(move || {
                libc::umask(0o022);
                user::enter(&mounts)?;
                // A killed test leaves nobody behind; a supervisor that outlives its broker is killed by its test.
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            })
        };
        command.spawn().expect("gated-session")
    }

    /// Every living process that was started for this sandbox: its environment or its command line names the root.
    pub fn processes(&self) -> Vec<PidFd> {
        let mark = self.root().as_os_str().as_encoded_bytes();
        let names_root = |file: PathBuf| {
            let bytes = fs::read(file).unwrap_or_default();
            bytes.windows(mark.len()).any(|window| window == mark)
        };
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").expect("/proc is mounted").flatten() {
            if let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok())
                && (names_root(entry.path().join("environ")) || names_root(entry.path().join("cmdline")))
            {
                found.extend(PidFd::open(pid));
            }
        }
        found
    }

    fn mounts(&self) -> Vec<Mount> {
        let me = std::env::current_exe().expect("/proc/self/exe");
        let mut mounts = vec![
            Mount::bind(&me, &self.probe()),
            Mount::bind(&self.control().join("passwd"), Path::new("/etc/passwd")),
            Mount::bind(&self.control().join("group"), Path::new("/etc/group")),
        ];
        mounts.extend(self.binds.iter().map(|(from, at)| Mount::bind(from, at)));
        mounts.extend(self.tmpfs.iter().map(|(at, options)| Mount::tmpfs(at, options)));
        mounts.extend(self.flags.iter().map(|(at, flags)| Mount::flags(at, *flags)));
        mounts
    }
}

/// A started command. Killed, with all of its session, if it is dropped unfinished.
pub struct Running<'a> {
    sandbox: &'a Sandbox,
    side: Side,
    title: String,
    child: Child,
    pub pidfd: PidFd,
    stdout: File,
    stderr: File,
}

impl Running<'_> {
    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// What it printed so far.
    pub fn so_far(&self) -> String {
        String::from_utf8_lossy(&contents(&self.stdout)).into_owned()
    }

    /// What it printed to stderr so far.
    pub fn errors_so_far(&self) -> String {
        String::from_utf8_lossy(&contents(&self.stderr)).into_owned()
    }

    /// What gated recorded so far.
    pub fn events_so_far(&self) -> Vec<Value> {
        json_lines(&self.sandbox.events_file(), true)
    }

    /// Waits for the end and collects what it left; panics with all of that after [`LIMIT`].
    #[track_caller]
    pub fn finish(mut self) -> Outcome {
        let in_time = self.pidfd.ends_within(LIMIT);
        if !in_time {
            self.pidfd.kill(libc::SIGKILL);
        }
        let status = self.child.wait().expect("wait for our own child");
        let gated = self.side == Side::Gated;
        let outcome = Outcome {
            title: self.title.clone(),
            status,
            stdout: contents(&self.stdout),
            stderr: contents(&self.stderr),
            events: if gated { json_lines(&self.sandbox.events_file(), !in_time) } else { Vec::new() },
            audit: if gated { json_lines(&self.sandbox.audit, true) } else { Vec::new() },
        };
        assert!(in_time, "still running after {LIMIT:?}\n{outcome}");
        outcome
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            // SAFETY: the child made itself the leader of a group with its own number, and has not been reaped.
            unsafe { libc::kill(-self.pid(), libc::SIGKILL) };
            let _ = self.child.wait();
        }
    }
}

/// All of a file that a child may still be writing to; leaves the offset that both share alone.
fn contents(file: &File) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 65536];
    while let Ok(count @ 1..) = file.read_at(&mut chunk, bytes.len() as u64) {
        bytes.extend_from_slice(&chunk[..count]);
    }
    bytes
}

/// The JSON lines of a regular file; none if there is none. A last line that is still being written is left out if `growing`.
#[track_caller]
fn json_lines(file: &Path, growing: bool) -> Vec<Value> {
    // Not of a device: /dev/full never ends.
    let regular = fs::metadata(file).is_ok_and(|meta| meta.is_file());
    let text = if regular { fs::read_to_string(file).unwrap_or_default() } else { String::new() };
    let whole = if growing { text.rsplit_once('\n').map_or("", |(whole, _)| whole) } else { &text };
    whole
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{}: {error}: {line}", file.display())))
        .collect()
}
