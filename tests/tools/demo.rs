//! The demonstration, `scripts/demo.sh`, with and without a terminal. Runs as root in the test process; gated's own part
//! is the binary under test.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::Test;
use crate::case::require;
use crate::support::{PidFd, until};

pub const TESTS: &[Test] = &[
    ("without_a_terminal_it_shows_what_was_asked_and_done", without_a_terminal),
    ("on_a_terminal_it_is_a_shell_that_asks", on_a_terminal),
];

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/demo.sh")
}

fn binaries() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_gated-run")).parent().expect("a binary lies in a directory")
}

/// The directory of the demonstration, from a path in what it printed.
fn place(printed: &str) -> Option<PathBuf> {
    let at = printed.find("/var/tmp/gated-demo.")?;
    let name = printed[at..].split('/').nth(3)?;
    Some(Path::new("/var/tmp").join(name))
}

#[track_caller]
fn shows(printed: &str, lines: &[&str]) {
    // Columns are as wide as they have to be.
    let squeezed: Vec<String> =
        printed.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    for line in lines {
        assert!(squeezed.iter().any(|shown| shown.starts_with(line)), "no line `{line}` in\n{printed}");
    }
}

fn without_a_terminal() {
    require("git", "git");
    require("python3", "python3");
    // The session of the caller may have a terminal, which the demonstration would then use to ask.
    let mut command = Command::new("setsid");
    command.args(["--wait".as_ref(), script().as_os_str(), binaries().as_os_str()]).stdin(Stdio::null());
    let output = command.output().expect("setsid, of util-linux");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{printed}", output.status);
    shows(
        &printed,
        &[
            "rename project/.git/config git config core.abbrev 12 git-runs-this yes, for this call",
            "create project/.git/hooks/post-checkout sh -c",
            "open-write elsewhere/notes.txt sh -c",
            "unlink elsewhere/archive/report.txt rm -r ../elsewhere/archive default no",
            "execute /usr/bin/rm sh -c rm -r build && ls remove-trees yes",
            "open-read project/.env cat .env secrets no",
            "# A small project",
            "connect localhost:",
            "a service of this machine, outside of the session",
            "look-up example.org python3 ../get.py",
            "changed elsewhere/notes.txt",
            "changed project/.git/config",
            "changed project/hello.py",
            "gone project/build/out",
        ],
    );
    for gone in ["gone elsewhere", "gone project/.env", "new project/.git/hooks", "changed project/.git/hooks"] {
        assert!(!printed.lines().any(|line| line.starts_with(gone)), "`{gone}` in\n{printed}");
    }
    assert!(!place(&printed).expect("its directory is named").exists(), "something is left\n{printed}");
}

fn on_a_terminal() {
    require("script", "bsdutils");
    let screen = tempfile::NamedTempFile::new().expect("a file");
    let line = format!("'{}' '{}'", script().display(), binaries().display());
    let mut terminal = Command::new("script");
    terminal.args(["-q", "-f", "-e", "-c", &line, "/dev/null"]).env("TERM", "xterm").stdin(Stdio::piped());
    terminal.stdout(screen.reopen().expect("the file")).stderr(Stdio::null());
    let mut child = terminal.spawn().expect("script, of util-linux");
    let mut keys = child.stdin.take().expect("a pipe");
    let mut press = |text: &str| keys.write_all(text.as_bytes()).expect("script reads");
    let so_far = || String::from_utf8_lossy(&fs::read(screen.path()).unwrap_or_default()).into_owned();

    until("the shell's prompt", || so_far().contains("gated project").then_some(()));
    let demo = place(&so_far()).expect("its directory is named");
    press("echo hello > new.txt\r");
    until("the file in the workspace", || demo.join("project/new.txt").exists().then_some(()));
    press("echo hello > ../elsewhere/new.txt\r");
    until("the prompt for consent", || so_far().contains("wants to create this file").then_some(()));
    assert!(!demo.join("elsewhere/new.txt").exists(), "it is there before the answer");
    // Keys that come too early do not count: until one does, once a second.
    let mut pressed: Option<Instant> = None;
    until("the file outside", || {
        let made = demo.join("elsewhere/new.txt").exists();
        if !made && pressed.is_none_or(|at| at.elapsed() > Duration::from_secs(1)) {
            press("o\r");
            pressed = Some(Instant::now());
        }
        made.then_some(())
    });
    press("exit\r");
    let ended = PidFd::open(child.id() as i32).expect("our own child").ends_within(Duration::from_secs(30));
    if !ended {
        child.kill().expect("our own child");
    }
    let status = child.wait().expect("our own child");
    assert!(ended && status.success(), "{status}\n{}", so_far());
    shows(
        &so_far(),
        &[
            "create elsewhere/new.txt bash --norc --noprofile default yes, for this call",
            "new elsewhere/new.txt",
            "new project/new.txt",
        ],
    );
    assert!(!demo.exists(), "something is left\n{}", so_far());
}
