//! A bus, the daemon on it, and commands of the test user that go through it. Everything ends with the values here.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use crate::support::system_bus::Bus;
use crate::support::wait::descendants;
use crate::support::{PidFd, Running, Sandbox, Side, user};

/// Changes outside of the workspace are asked for; as many prompts a minute as a profile may have.
const CALM: &str = r#"
schema = 1
[profile]
name = "calm"
[vars]
workspace = "@cwd"
[defaults]
write = "ask"
[prompt]
max_per_minute = 600
timeout = "10m"
[[rule]]
id = "workspace"
access = ["write"]
path = ["{workspace}/**"]
level = "allow"
"#;

/// A home for the test user in which the daemon, its programs and its policy lie too.
pub fn sandbox() -> Sandbox {
    let mut sandbox = Sandbox::new();
    let built = Path::new(env!("CARGO_BIN_EXE_gatedd")).parent().expect("programs have a directory");
    // Where the test user reaches them, whoever's directory they were built in.
    sandbox.bind(built, &sandbox.root().join("programs"));
    // What is made there is made in memory. The audit log is on a disk.
    sandbox.tmpfs(&sandbox.outside(), "mode=0777");
    let policy = sandbox.root().join("policy/etc/gated");
    fs::create_dir_all(policy.join("profiles")).expect("mkdir");
    let ceiling = format!("schema = 1\n[users]\nmay_run = [\"{}\"]\n", user::NAME);
    fs::write(policy.join("ceiling.toml"), ceiling).expect("write the ceiling");
    fs::write(policy.join("profiles/calm.toml"), CALM).expect("write a profile");
    // With the prompts a minute of who says nothing of them.
    let hostile = CALM.replace("\"calm\"", "\"hostile\"").replace("max_per_minute = 600\n", "");
    fs::write(policy.join("profiles/hostile.toml"), hostile).expect("write a profile");
    sandbox
}

/// The daemon, owning its name on a bus of its own.
pub struct House<'a> {
    pub sandbox: &'a Sandbox,
    pub bus: Bus,
    daemon: Running<'a>,
}

impl<'a> House<'a> {
    pub fn start(sandbox: &'a Sandbox) -> House<'a> {
        let bus = Bus::start();
        let root = sandbox.root();
        let mut line = environment(&bus);
        line.push(program(sandbox, "gatedd").into());
        for (option, value) in
            [("--runtime", root.join("run")), ("--audit", audit(sandbox)), ("--policy-root", root.join("policy"))]
        {
            line.extend([option.into(), value.into()]);
        }
        line.extend(["--supervisors".into(), "spawn".into()]);
        let daemon = sandbox.start_line(Side::Gated, &line, None);
        let house = House { sandbox, bus, daemon };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(house.bus.wait_for(gated::common::bus::BUS_NAME));
        house
    }

    pub fn pid(&self) -> i32 {
        self.daemon.pid()
    }

    /// A command of the test user's through the daemon.
    pub fn run<S: AsRef<OsStr>>(&self, profile: &str, command: &[S]) -> Running<'a> {
        let mut line = environment(&self.bus);
        line.push(program(self.sandbox, "gated-run").into());
        line.extend(["--profile", profile, "--consent", "none", "--"].map(OsString::from));
        line.extend(command.iter().map(|word| word.as_ref().to_owned()));
        self.sandbox.start_line(Side::Bare, &line, None)
    }

    /// What it logged so far.
    pub fn log(&self) -> String {
        self.daemon.errors_so_far()
    }

    /// A command of the test user's with a desktop's bus too.
    pub fn on_desktop<S: AsRef<OsStr>>(&self, session: &Bus, command: &[S]) -> Running<'a> {
        let mut line = environment(&self.bus);
        line.push(format!("DBUS_SESSION_BUS_ADDRESS={}", session.address).into());
        line.extend(command.iter().map(|word| word.as_ref().to_owned()));
        self.sandbox.start_line(Side::Bare, &line, None)
    }

    /// A part of this program beside the daemon, as the test user.
    pub fn beside(&self, part: &str, arguments: &[&str]) -> Running<'a> {
        let mut line = environment(&self.bus);
        line.extend(self.sandbox.inside(part, arguments));
        self.sandbox.start_line(Side::Bare, &line, None)
    }
}

impl Drop for House<'_> {
    fn drop(&mut self) {
        // Sessions outlive their daemon, which is not what is wanted here.
        let below: Vec<PidFd> = descendants(self.daemon.pid());
        self.daemon.pidfd.kill(libc::SIGKILL);
        for process in below {
            process.kill(libc::SIGKILL);
        }
    }
}

pub fn program(sandbox: &Sandbox, name: &str) -> PathBuf {
    sandbox.root().join("programs").join(name)
}

pub fn audit(sandbox: &Sandbox) -> PathBuf {
    sandbox.root().join("log/audit.jsonl")
}

/// What stands before a command so that this bus is its system bus.
pub fn environment(bus: &Bus) -> Vec<OsString> {
    vec!["/usr/bin/env".into(), format!("DBUS_SYSTEM_BUS_ADDRESS={}", bus.address).into()]
}
