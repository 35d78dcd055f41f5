//! A journald of a test's own: real, without systemd, writing below a directory that goes with it. Needs root.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::system_bus::Process;
use super::user::{Mount, enter};
use super::wait::until;

const CONFIGURATION: &str = "[Journal]\nStorage=volatile\nAudit=no\nReadKMsg=no\nRateLimitBurst=0\nForwardToSyslog=no\n\
                             ForwardToWall=no\nForwardToConsole=no\n";

pub struct Journald {
    place: tempfile::TempDir,
    process: Process,
}

impl Journald {
    /// Starts journald with `/run` and `/var/log` of its own, and waits until it listens.
    pub fn start() -> Journald {
        let place = tempfile::Builder::new().prefix("gated-journal-").tempdir_in("/var/tmp").expect("a directory");
        let (run, log) = (place.path().join("run"), place.path().join("log"));
        fs::create_dir_all(run.join("systemd/journal")).expect("a directory");
        fs::create_dir(&log).expect("a directory");
        let configuration = place.path().join("journald.conf");
        fs::write(&configuration, CONFIGURATION).expect("journald's configuration");
        let mounts = [
            Mount::bind(&run, Path::new("/run")),
            Mount::bind(&log, Path::new("/var/log")),
            Mount::bind(&configuration, Path::new("/etc/systemd/journald.conf")),
        ];
        let mut journald = Command::new("/lib/systemd/systemd-journald");
        journald.stdin(Stdio::null());
        // SAFETY: only system calls between fork and exec.
        unsafe { journald.pre_exec(move || enter(&mounts)) };
        let process = Process(journald.spawn().expect("systemd-journald is installed"));
        let journald = Journald { place, process };
        until("journald to listen", || journald.socket().exists().then_some(()));
        journald
    }

    pub fn socket(&self) -> PathBuf {
        self.place.path().join("run/systemd/journal/socket")
    }

    /// Puts the calling thread into a mount namespace in which this is the machine's journald.
    pub fn enter(&self) {
        enter(&[Mount::bind(&self.place.path().join("run"), Path::new("/run"))]).expect("a mount namespace");
    }

    pub fn pid(&self) -> i32 {
        i32::try_from(self.process.0.id()).expect("a pid")
    }

    /// A `journalctl` that reads what this journald wrote.
    pub fn journalctl(&self) -> Command {
        let mut journalctl = Command::new("journalctl");
        journalctl.arg("--directory").arg(self.place.path().join("run/log/journal")).args(["--quiet", "--all"]);
        journalctl
    }

    /// The messages with this field, once there are as many.
    #[track_caller]
    pub fn wait_for(&self, field: &str, count: usize) -> Vec<serde_json::Value> {
        until(&format!("{count} messages with {field} in the journal"), || {
            let output = self.journalctl().args(["--output=json", field]).output().expect("journalctl is installed");
            let text = String::from_utf8(output.stdout).expect("JSON");
            let lines: Vec<serde_json::Value> =
                text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
            (lines.len() >= count).then_some(lines)
        })
    }
}
