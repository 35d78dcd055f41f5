//! A bus, a daemon on it, and an ordinary user with `gated-run`. Runs in the test process, as root.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use super::system_bus::Bus;
use super::terminal::Person;
use super::{Outcome, Running, Sandbox, Side, user, wait};

/// A bus, a daemon, and a user who may start sessions.
pub struct Served {
    // Ended in this order.
    pub bus: Bus,
    pub sandbox: Sandbox,
}

/// A daemon that runs; it ends with this, and its sessions, which would wait for the next one.
pub struct Daemon<'a>(pub Running<'a>);

impl Drop for Daemon<'_> {
    fn drop(&mut self) {
        let below = wait::descendants(self.0.pid());
        self.0.pidfd.kill(libc::SIGKILL);
        for process in below {
            process.kill(libc::SIGKILL);
        }
    }
}

impl Served {
    pub fn new() -> Served {
        let served = Served { bus: Bus::start(), sandbox: Sandbox::new() };
        let policy = served.sandbox.control().join("policy/etc/gated");
        fs::create_dir_all(&policy).unwrap();
        let ceiling = format!("schema = 1\n[users]\nmay_run = [\"{}\"]\n", user::NAME);
        fs::write(policy.join("ceiling.toml"), ceiling).unwrap();
        // Where sessions see it too, which have a /tmp of their own.
        fs::copy(env!("CARGO_BIN_EXE_gated-run"), served.program()).unwrap();
        fs::copy(env!("CARGO_BIN_EXE_gatedctl"), served.program().with_file_name("gatedctl")).unwrap();
        served
    }

    pub fn program(&self) -> PathBuf {
        self.sandbox.root().join("bin/gated-run")
    }

    pub fn daemon(&self) -> Daemon<'_> {
        let control = self.sandbox.control();
        let mut line: Vec<OsString> = vec!["env".into(), self.address(), env!("CARGO_BIN_EXE_gatedd").into()];
        for (option, file) in [
            ("--runtime", "run"),
            ("--audit", "records/audit.jsonl"),
            ("--policy-root", "policy"),
            ("--state", "state"),
        ] {
            line.extend([option.into(), control.join(file).into()]);
        }
        line.extend(["--supervisors", "spawn"].map(OsString::from));
        let daemon = self.sandbox.start_line(Side::Gated, &line, None);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(self.bus.wait_for("org.gated.Gated1"));
        Daemon(daemon)
    }

    pub fn address(&self) -> OsString {
        format!("DBUS_SYSTEM_BUS_ADDRESS={}", self.bus.address).into()
    }

    /// The command line of `gated-run` with these arguments.
    pub fn line(&self, arguments: &[&str]) -> Vec<OsString> {
        let mut line: Vec<OsString> = vec!["env".into(), self.address(), "TERM=xterm".into(), self.program().into()];
        line.extend(arguments.iter().map(OsString::from));
        line
    }

    pub fn start(&self, arguments: &[&str]) -> Running<'_> {
        self.sandbox.start_line(Side::Bare, &self.line(arguments), None)
    }

    #[track_caller]
    pub fn run(&self, arguments: &[&str]) -> Outcome {
        self.start(arguments).finish()
    }

    /// With stdin, stdout and stderr on a new terminal.
    pub fn on_terminal(&self, arguments: &[&str]) -> (Person, Running<'_>) {
        let (person, slave) = Person::new();
        let mut line: Vec<OsString> = ["sh", "-c", "exec \"$@\" >&0 2>&0", "sh"].map(OsString::from).to_vec();
        line.extend(self.line(arguments));
        (person, self.sandbox.start_line(Side::Bare, &line, Some(slave)))
    }
}

impl Served {
    /// Runs `gatedctl` as the test user.
    #[track_caller]
    pub fn gatedctl(&self, arguments: &[&str]) -> Outcome {
        let program = self.program().with_file_name("gatedctl");
        let mut line: Vec<OsString> = vec!["env".into(), self.address(), program.into()];
        line.extend(arguments.iter().map(OsString::from));
        self.sandbox.start_line(Side::Bare, &line, None).finish()
    }
}
