//! One script on both sides, and the comparison. Runs in the test process, as root; the script runs as the test user.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Outcome, Sandbox, Side, profiles, snapshot};

/// What a script needs and how it is run.
pub struct Case {
    /// Printed in failures; the script is `scripts/NAME.sh`.
    pub name: &'static str,
    pub script: &'static str,
    /// Commands that must be there: `COMMAND PACKAGE`, as Debian calls it.
    pub needs: &'static [(&'static str, &'static str)],
    /// Puts into a fresh sandbox what the script works on.
    pub prepare: fn(&mut Sandbox),
    pub policy: Policy,
    /// Below the workspace: trees that must be equal afterwards.
    pub compare: &'static [&'static str],
}

/// What the session is held by.
pub enum Policy {
    /// Changes in the workspace are allowed, nobody can be asked.
    Workspace,
    /// As `Workspace`, and every program that is executed is judged.
    Judged,
    /// As `Judged`, and each is recorded.
    Recorded,
    /// As `Judged`, and debuggers work.
    Debug,
    /// The built-in profile `coder`, and a script of answers.
    Coder { answers: &'static str },
    /// The same of another built-in profile.
    Named { profile: &'static str, answers: &'static str },
}

pub struct Results {
    pub bare: Outcome,
    pub gated: Outcome,
    pub gated_sandbox: Sandbox,
}

pub fn nothing(_: &mut Sandbox) {}

impl Case {
    /// Runs the script on both sides; fails unless both succeed, print the same and leave the same trees, and unless the
    /// session ended without a denial.
    #[track_caller]
    pub fn run(&self) -> Results {
        for (command, package) in self.needs {
            require(command, package);
        }
        let (bare_sandbox, bare) = self.side(Side::Bare);
        let (gated_sandbox, gated) = self.side(Side::Gated);
        for outcome in [&bare, &gated] {
            outcome.assert(outcome.code() == 0, &format!("{}: the script fails", self.name));
        }
        assert_eq!(gated.events_of("denied").count(), 0, "{}: something was denied\n{gated}", self.name);
        let told =
            |outcome: &Outcome, sandbox: &Sandbox| outcome.out().replace(&sandbox.root().display().to_string(), "{R}");
        let (expected, found) = (told(&bare, &bare_sandbox), told(&gated, &gated_sandbox));
        assert!(expected == found, "{}: the output differs\n{bare}\n{gated}", self.name);
        for tree in self.compare {
            let look = |sandbox: &Sandbox| -> Vec<String> {
                let root = sandbox.root().display().to_string();
                snapshot::of(&sandbox.workspace().join(tree)).iter().map(|line| line.replace(&root, "{R}")).collect()
            };
            let (expected, found) = (look(&bare_sandbox), look(&gated_sandbox));
            assert!(expected.len() > 1, "{}: {tree} is empty\n{bare}", self.name);
            for line in expected.iter().filter(|line| !found.contains(line)) {
                println!("{} bare:   {line}", self.name);
            }
            for line in found.iter().filter(|line| !expected.contains(line)) {
                println!("{} inside: {line}", self.name);
            }
            assert!(expected == found, "{}: the tree {tree} differs; see above", self.name);
        }
        Results { bare, gated, gated_sandbox }
    }

    fn side(&self, side: Side) -> (Sandbox, Outcome) {
        let mut sandbox = Sandbox::new();
        // A session has its own /tmp; so has the bare run, and leaves nothing on the machine.
        if side == Side::Bare {
            sandbox.tmpfs(Path::new("/tmp"), "mode=1777");
        }
        match &self.policy {
            Policy::Workspace => sandbox.profile(profiles::WORKSPACE),
            Policy::Judged => sandbox.profile(&profiles::judged("")),
            Policy::Recorded => sandbox.profile(&profiles::recorded()),
            Policy::Debug => sandbox.profile(&profiles::judged("debug = true")),
            Policy::Coder { answers } => {
                sandbox.profile_named("coder");
                sandbox.answers(answers);
            }
            Policy::Named { profile, answers } => {
                sandbox.profile_named(profile);
                sandbox.answers(answers);
            }
        }
        (self.prepare)(&mut sandbox);
        let script = sandbox.control().join("script.sh");
        std::fs::write(&script, self.script).expect("write the script");
        let outcome = sandbox.on(side, &["/bin/sh".as_ref(), "-eu".as_ref(), script.as_os_str()]);
        (sandbox, outcome)
    }
}

impl Results {
    /// The one line `KEY VALUE` that both sides printed.
    #[track_caller]
    pub fn value(&self, key: &str) -> String {
        match self.bare.values(key).as_slice() {
            [one] => one.clone(),
            other => panic!("{} lines `{key} ...`\n{}", other.len(), self.bare),
        }
    }

    #[track_caller]
    pub fn assert_value(&self, key: &str, expected: &str) {
        assert_eq!(self.value(key), expected, "`{key}`\n{}", self.bare);
    }
}

/// Fails, saying what to install, if a command is missing.
#[track_caller]
pub fn require(command: &str, package: &str) {
    let found = ["/usr/local/bin", "/usr/bin", "/bin"].iter().any(|dir| Path::new(dir).join(command).is_file());
    assert!(found, "no {command} here: apt-get install {package} (make test does it)");
}

/// Where the Rust toolchain of this build lies: the compiler itself, not rustup's stand-in.
pub fn rust_sysroot() -> PathBuf {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).args(["--print", "sysroot"]).output().expect("rustc in PATH, as cargo had it");
    let sysroot = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    for program in ["bin/cargo", "bin/rustc"] {
        let path = sysroot.join(program);
        assert!(path.is_file(), "no {}: install a Rust toolchain with cargo (https://rustup.rs)", path.display());
    }
    sysroot
}
