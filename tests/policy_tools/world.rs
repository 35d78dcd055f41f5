//! A machine with policy below a directory of its own, a user's home and a project in it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

pub struct World {
    place: tempfile::TempDir,
}

/// What a run of `gatedctl` came to, with `{M}` for the machine's directory.
#[derive(Debug)]
pub struct Ran {
    pub status: i32,
    pub out: String,
    pub err: String,
}

impl World {
    pub fn new() -> World {
        let world = World { place: tempfile::tempdir_in("/var/tmp").unwrap() };
        for folder in ["etc/gated/profiles", "usr/lib/gated/profiles", "home/.config/gated/profiles", "home/project"] {
            fs::create_dir_all(world.path(folder)).unwrap();
        }
        world
    }

    pub fn path(&self, below: &str) -> PathBuf {
        // What paths lead to has no links in it.
        fs::canonicalize(self.place.path()).unwrap().join(below)
    }

    pub fn put(&self, below: &str, text: &str) -> PathBuf {
        let path = self.path(below);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        path
    }

    /// A profile of the user's own with this behind its header.
    pub fn own(&self, name: &str, rest: &str) -> PathBuf {
        self.put(&format!("home/.config/gated/profiles/{name}.toml"), &profile(name, rest))
    }

    pub fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gatedctl"));
        command.env_clear().env("PATH", "/usr/bin:/bin").env("COLUMNS", "100").env("TZ", "UTC");
        command.env("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/nonexistent/bus");
        command.current_dir(self.path("home/project"));
        command
    }

    /// `gatedctl policy` of this machine.
    pub fn policy(&self, words: &[&str]) -> Command {
        let mut command = self.command();
        command.arg("policy").arg("--root").arg(self.path(""));
        command.arg("--home").arg(self.path("home")).arg("--cwd").arg(self.path("home/project")).args(words);
        command
    }

    pub fn run(&self, words: &[&str]) -> Ran {
        self.ran(self.policy(words).output().unwrap())
    }

    pub fn ran(&self, output: Output) -> Ran {
        let place = self.path("").display().to_string();
        let plain = |bytes: Vec<u8>| {
            without_lines(&String::from_utf8(bytes).unwrap().replace(place.trim_end_matches('/'), "{M}"))
        };
        Ran { status: output.status.code().unwrap(), out: plain(output.stdout), err: plain(output.stderr) }
    }

    /// What a run that ends well says.
    pub fn said(&self, words: &[&str]) -> String {
        let ran = self.run(words);
        assert_eq!((ran.status, ran.err.as_str()), (0, ""), "{words:?}: {ran:?}");
        ran.out
    }
}

/// Without what is said of built-in profiles, and of how many there are.
pub fn own(said: &str) -> String {
    let is_own = |line: &&str| !line.contains("built-in:") && !line.contains(" files: ") && !line.contains(" passed, ");
    said.lines().filter(is_own).map(|line| format!("{line}\n")).collect()
}

/// Lines of built-in profiles are their authors' matter.
fn without_lines(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("(built-in:") {
        let (name, after) = after.split_once(')').unwrap_or((after, ""));
        let bare = name.split(':').next().unwrap_or_default();
        plain += &format!("{before}(built-in:{bare})");
        rest = after;
    }
    plain + rest
}

pub fn profile(name: &str, rest: &str) -> String {
    format!("schema = 1\n[profile]\nname = \"{name}\"\n{rest}")
}

pub fn golden(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("GATED_UPDATE_GOLDEN").is_some() {
        fs::write(&path, text).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == text, "{name} is not what is said now:\n{text}\n--- kept:\n{kept}");
}
