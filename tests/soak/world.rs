//! Where a soak happens: a mount namespace of this program's own, a bus, a user, and a daemon with a clock that jumps.

use std::ffi::{CString, OsString};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::support::served::Served;
use crate::support::{Running, Side, user};

/// Bytes of the file system on which a workspace is small.
const SMALL: &str = "size=512k,mode=755";

/// What the profiles of a soak have in common. Everything in the workspace is allowed, what is asked for is decided by its name.
const PROFILE: &str = r#"
schema = 1

[profile]
name = "NAME"

[vars]
workspace = "@cwd"

[defaults]
write = "ask"
EXEC

[prompt]
timeout = "10s"
max_per_minute = 600

[grants]
max_for = "1h"

[[rule]]
id = "workspace"
access = ["write"]
path = ["{workspace}/**"]
level = "allow"

[[rule]]
id = "refused"
access = ["write"]
path = ["OUTSIDE/deny-*"]
level = "deny"

[[rule]]
id = "secret"
access = ["read", "write"]
path = ["OUTSIDE/secret/**"]
level = "deny"
"#;

/// The same answers as the agent's.
const SCRIPT: &str = r#"
[[answer]]
object = "OUTSIDE/yes-*"
answer = "once"

[[answer]]
object = "OUTSIDE/late-*"
answer = "once"
after = "150ms"

[[answer]]
object = "OUTSIDE/session-*"
answer = "session"

[[answer]]
object = "OUTSIDE/for-*"
answer = "for"
for = "2s"

[[answer]]
object = "OUTSIDE/never-*"
answer = "deny"
after = "30m"
"#;

pub struct World {
    pub served: Served,
    clock: File,
    pub mounts: Vec<String>,
}

/// Leaves the machine's mounts alone from now on. One thread only.
pub fn enter_namespace() {
    user::enter(&[]).expect("a mount namespace; the soak needs root");
    // What is orphaned becomes ours, so that nothing can be overlooked.
    // SAFETY: prctl(2) with numbers.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }, 0, "PR_SET_CHILD_SUBREAPER");
}

fn mount_small(at: &Path) {
    let text = |text: &str| CString::new(text).expect("no NUL");
    let options = format!("{SMALL},uid={},gid={}", user::UID, user::GID);
    let (at, options) = (text(&at.display().to_string()), text(&options));
    // SAFETY: NUL-terminated strings.
    let done = unsafe { libc::mount(c"none".as_ptr(), at.as_ptr(), c"tmpfs".as_ptr(), 0, options.as_ptr().cast()) };
    assert_eq!(done, 0, "mount: {}", std::io::Error::last_os_error());
}

/// What is mounted in it would keep the sandbox's directory from going with it.
impl Drop for World {
    fn drop(&mut self) {
        let small = self.served.sandbox.workspace().join("small");
        nix::mount::umount2(&small, nix::mount::MntFlags::MNT_DETACH).expect("the small file system");
    }
}

impl World {
    pub fn new() -> World {
        let served = Served::new();
        let sandbox = &served.sandbox;
        let profiles = sandbox.control().join("policy/etc/gated/profiles");
        fs::create_dir_all(&profiles).expect("a directory");
        let outside = sandbox.outside().display().to_string();
        // Where programs are judged, every exec is compared at its stop.
        for (name, exec) in [("soak", ""), ("judged", "exec = \"notify\"")] {
            let text = PROFILE.replace("NAME", name).replace("EXEC", exec).replace("OUTSIDE", &outside);
            fs::write(profiles.join(format!("{name}.toml")), text).expect("a profile");
        }
        sandbox.file(&sandbox.home().join("answers.toml"), &SCRIPT.replace("OUTSIDE", &outside));
        let secret = String::from_utf8(crate::journal::content("", 0, 7)).expect("ASCII");
        sandbox.file(&sandbox.outside().join("secret/file"), &secret);
        sandbox.dir(&sandbox.workspace().join("small"));
        mount_small(&sandbox.workspace().join("small"));
        let clock = sandbox.control().join("clock");
        fs::write(&clock, 0i64.to_ne_bytes()).expect("the clock's file");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/soak/clock.c");
        let mut built = Command::new("cc");
        built.args(["-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o"]);
        built.arg(sandbox.control().join("clock.so")).arg(source);
        assert!(built.status().expect("cc is installed").success(), "the clock's library cannot be built");
        let clock = File::options().write(true).open(clock).expect("the clock's file");
        World { served, clock, mounts: crate::measure::mounts() }
    }

    pub fn outside(&self) -> PathBuf {
        self.served.sandbox.outside()
    }

    pub fn log(&self) -> PathBuf {
        self.served.sandbox.control().join("records/audit.jsonl")
    }

    pub fn script(&self) -> String {
        format!("script:{}", self.served.sandbox.home().join("answers.toml").display())
    }

    /// Sets the daemon's clock on the wall off by so many seconds.
    pub fn jump(&self, seconds: i64) {
        self.clock.write_all_at(&seconds.to_ne_bytes(), 0).expect("the clock's file");
    }

    /// Starts a daemon, which may take a while to be there.
    pub fn start_daemon(&self) -> Running<'_> {
        let sandbox = &self.served.sandbox;
        let control = sandbox.control();
        let mut line: Vec<OsString> = vec!["env".into(), self.served.address()];
        line.push(format!("LD_PRELOAD={}", control.join("clock.so").display()).into());
        line.push(format!("GATED_SOAK_CLOCK={}", control.join("clock").display()).into());
        line.push(env!("CARGO_BIN_EXE_gatedd").into());
        for (option, file) in [
            ("--runtime", "run"),
            ("--audit", "records/audit.jsonl"),
            ("--policy-root", "policy"),
            ("--state", "state"),
        ] {
            line.extend([option.into(), control.join(file).into()]);
        }
        line.extend(["--supervisors", "spawn"].map(OsString::from));
        sandbox.start_line(Side::Gated, &line, None)
    }

    /// `gatedctl` as the user; its output, or what it said where it failed.
    pub fn ask(&self, arguments: &[&str]) -> Result<String, String> {
        let outcome = self.served.gatedctl(arguments);
        if outcome.code() == 0 { Ok(outcome.out()) } else { Err(outcome.err()) }
    }

    /// Waits until the daemon answers.
    pub fn wait_for_daemon(&self, daemon: &Running<'_>) -> Result<(), String> {
        let mut said = String::new();
        let answers = wait("the daemon to answer", Duration::from_secs(60), || {
            if daemon.pidfd.ends_within(Duration::ZERO) {
                return Err(format!("the daemon ended: {}", daemon.errors_so_far()));
            }
            let answer = self.ask(&["sessions", "--json"]);
            said = answer.as_ref().err().cloned().unwrap_or_default();
            Ok(answer.is_ok())
        });
        answers.map_err(|error| format!("{error}: {said}\n{}\n{}", daemon.errors_so_far(), crate::storm::stacks()))
    }

    /// Sessions that the daemon knows, and answers that hold.
    pub fn left(&self) -> Result<(usize, usize), String> {
        let count = |verb: &str| -> Result<usize, String> {
            let text = self.ask(&["--json", verb])?;
            let value: serde_json::Value = serde_json::from_str(&text).map_err(|error| format!("{error}: {text}"))?;
            value.as_array().map(Vec::len).ok_or_else(|| format!("no list: {text}"))
        };
        Ok((count("sessions")?, count("grants")?))
    }
}

/// Looks until it is so.
pub fn wait(what: &str, limit: Duration, mut look: impl FnMut() -> Result<bool, String>) -> Result<(), String> {
    let end = Instant::now() + limit;
    while !look()? {
        if Instant::now() > end {
            return Err(format!("waited {limit:?} for {what}"));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
