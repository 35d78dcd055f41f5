//! The audit log: what was decided, on disk before it takes effect. Written by the broker (root in the daemon, the
//! invoking process when embedded); the words in it are a tool's and are escaped.
//!
//! JSON lines, append-only. A record is one write(2) on an `O_APPEND` file, so that several sessions can share a log; it is
//! a whole line, or an error and no permission. Text of a tool stands in the notation of [`crate::common::text`].

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::OFlags;
use serde::Serialize;

use super::record::{Rule, Tool};

/// Where the log is if nobody says otherwise.
pub const DEFAULT_PATH: &str = "/var/log/gated/audit.jsonl";

/// One decision.
#[derive(Clone, Debug, Serialize)]
pub struct AuditRecord {
    /// UTC, RFC 3339 with microseconds.
    pub time: String,
    pub session: String,
    pub call: u32,
    /// `None` where the supervisor decided by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// The user that the tool runs as.
    pub user: String,
    pub tool: Tool,
    pub access: &'static str,
    pub operation: &'static str,
    pub object: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other: Option<String>,
    pub rule: Rule,
    /// `approved`, `denied`, `timeout`, `not_permitted`, `granted`, `allowed` or `cancelled`.
    pub result: &'static str,
    pub answered_by: String,
    /// From the request to the decision.
    pub duration_ms: u64,
    /// How far and how long an approval holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lifetime: Option<&'static str>,
}

/// Why a record is not in the log. Nothing that needs it may be permitted.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    #[error("audit log {path}: {error}")]
    Open { path: PathBuf, error: io::Error },
    #[error("the audit log must be a regular file or a character device")]
    NotAFile,
    #[error("the audit log cannot be written: {0}")]
    Write(io::Error),
    #[error("the audit log took {0} of {1} bytes of a record")]
    Short(usize, usize),
    #[error("a record cannot be put into JSON: {0}")]
    Encode(#[from] serde_json::Error),
}

/// Where records go.
pub trait Audit: Send + Sync {
    /// Hands a whole record to the kernel.
    fn append(&self, record: &AuditRecord) -> Result<(), AuditError>;

    /// Returns when everything appended so far is on disk. May take as long as the disk does.
    fn sync(&self) -> Result<(), AuditError>;
}

/// An open audit log.
#[derive(Debug)]
pub struct AuditLog {
    file: File,
    /// The file may end within a line, which the next record must end first.
    torn: AtomicBool,
}

impl AuditLog {
    /// Opens or creates the log with mode 0640, and its directory with mode 0750. A symbolic link as the last component is
    /// refused. Uses the rights of the calling process: for the default path, as root.
    pub fn open(path: &Path) -> Result<AuditLog, AuditError> {
        let failed = |error| AuditError::Open { path: path.to_owned(), error };
        if let Some(directory) = path.parent()
            && !directory.as_os_str().is_empty()
        {
            DirBuilder::new().recursive(true).mode(0o750).create(directory).map_err(failed)?;
        }
        let flags = OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true).mode(0o640).custom_flags(flags.bits().cast_signed());
        AuditLog::from_file(options.open(path).map_err(failed)?)
    }

    /// A log that the caller has opened for writing, with whichever rights. `O_APPEND` is set on it.
    pub fn from_file(mut file: File) -> Result<AuditLog, AuditError> {
        let kind = file.metadata().map_err(AuditError::Write)?.file_type();
        if !kind.is_file() && !kind.is_char_device() {
            return Err(AuditError::NotAFile);
        }
        let flags = rustix::fs::fcntl_getfl(&file).map_err(|errno| AuditError::Write(errno.into()))?;
        rustix::fs::fcntl_setfl(&file, flags | OFlags::APPEND).map_err(|errno| AuditError::Write(errno.into()))?;
        let torn = kind.is_file() && ends_within_a_line(&mut file);
        Ok(AuditLog { file, torn: AtomicBool::new(torn) })
    }
}

/// Whether the last byte of a file is something else than a newline. A log that cannot be read is taken to end well.
fn ends_within_a_line(file: &mut File) -> bool {
    let mut last = [b'\n'];
    file.seek(SeekFrom::End(-1)).is_ok() && file.read_exact(&mut last).is_ok() && last != *b"\n"
}

impl Audit for AuditLog {
    fn append(&self, record: &AuditRecord) -> Result<(), AuditError> {
        let mut line = Vec::with_capacity(1024);
        if self.torn.load(Ordering::Acquire) {
            line.push(b'\n');
        }
        serde_json::to_writer(&mut line, record)?;
        line.push(b'\n');
        let written = loop {
            match (&self.file).write(&line) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other.map_err(AuditError::Write)?,
            }
        };
        if written == line.len() {
            self.torn.store(false, Ordering::Release);
            return Ok(());
        }
        // End the fragment at once, for the other writers of the log; where that fails too, before our next record.
        self.torn.store((&self.file).write(b"\n").ok() != Some(1), Ordering::Release);
        Err(AuditError::Short(written, line.len()))
    }

    fn sync(&self) -> Result<(), AuditError> {
        match rustix::fs::fdatasync(&self.file) {
            Ok(()) => Ok(()),
            // fsync(2): a special file that has nothing to synchronise.
            Err(rustix::io::Errno::INVAL) => Ok(()),
            Err(errno) => Err(AuditError::Write(errno.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::*;

    fn record(object: &str) -> AuditRecord {
        AuditRecord {
            time: crate::daemon::record::now(),
            session: "00000001".into(),
            call: 1,
            request: None,
            user: "alice".into(),
            tool: Tool { pid: 1, program: "/bin/sh".into(), argv: vec!["sh".into()], cwd: "/".into() },
            access: "write",
            operation: "create",
            object: object.into(),
            other: None,
            rule: Rule { profile: "p".into(), id: "r".into(), file: "p.toml".into(), line: 1 },
            result: "approved",
            answered_by: "none".into(),
            duration_ms: 5,
            scope: None,
            lifetime: None,
        }
    }

    fn lines(path: &Path) -> Vec<Option<serde_json::Value>> {
        let text = std::fs::read_to_string(path).unwrap();
        text.lines().filter(|line| !line.is_empty()).map(|line| serde_json::from_str(line).ok()).collect()
    }

    #[test]
    fn a_new_log_is_for_its_owner_and_group_only() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("log/audit.jsonl");
        let log = AuditLog::open(&path).unwrap();
        log.append(&record("/x")).unwrap();
        log.sync().unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path) & !0o640, 0);
        assert_eq!(mode(path.parent().unwrap()) & !0o750, 0);
        let line = lines(&path).remove(0).unwrap();
        let time: jiff::Timestamp = line["time"].as_str().unwrap().parse().unwrap();
        assert!(jiff::Timestamp::now().duration_since(time).as_secs() < 60);
        assert!(line["time"].as_str().unwrap().ends_with('Z') && line["time"].as_str().unwrap().len() == 27);
    }

    #[test]
    fn sessions_that_share_a_log_do_not_mix_their_lines() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("audit.jsonl");
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let log = AuditLog::open(&path).unwrap();
                scope.spawn(move || {
                    for number in 0..200 {
                        log.append(&record(&format!("/{writer}/{number}/{}", "x".repeat(3000)))).unwrap();
                    }
                });
            }
        });
        let lines = lines(&path);
        assert_eq!(lines.len(), 800);
        assert!(lines.iter().all(Option::is_some));
    }

    #[test]
    fn a_line_that_was_torn_by_a_crash_does_not_swallow_the_next() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("audit.jsonl");
        std::fs::write(&path, "{\"time\":\"2026").unwrap();
        AuditLog::open(&path).unwrap().append(&record("/x")).unwrap();
        let lines = lines(&path);
        assert!(lines[0].is_none() && lines[1].as_ref().unwrap()["object"] == "/x");
    }

    #[test]
    fn a_full_disk_is_an_error_and_does_not_spoil_later_lines() {
        let place = tempfile::tempdir().unwrap();
        let disk = place.path();
        // Two pages: one record fits, one is cut short, and the next finds no room at all.
        let mounted = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=8k,mode=700", "tmpfs"])
            .arg(disk)
            .status()
            .unwrap();
        assert!(mounted.success(), "this test mounts a small tmpfs and needs root");
        let path = disk.join("audit.jsonl");
        let result = std::panic::catch_unwind(|| {
            let log = AuditLog::open(&path).unwrap();
            log.append(&record("/first")).unwrap();
            let long = record(&"x".repeat(20_000));
            assert!(matches!(log.append(&long), Err(AuditError::Short(written, whole)) if written < whole));
            assert!(matches!(log.append(&record("/no-room")), Err(AuditError::Write(_))));
            // Room again, as after a rotation that copies and truncates.
            rustix::fs::ftruncate(&log.file, 4096).unwrap();
            log.append(&record("/later")).unwrap();
            let lines = lines(&path);
            assert_eq!(lines.len(), 3);
            assert!(lines[1].is_none(), "the fragment");
            assert_eq!(lines[2].as_ref().unwrap()["object"], "/later");
        });
        std::process::Command::new("umount").arg(disk).status().unwrap();
        result.unwrap();
    }

    #[test]
    fn what_is_not_a_file_is_not_a_log() {
        let place = tempfile::tempdir().unwrap();
        let link = place.path().join("link");
        symlink("/dev/null", &link).unwrap();
        assert!(matches!(AuditLog::open(&link), Err(AuditError::Open { .. })));
        let (_reader, writer) = std::io::pipe().unwrap();
        let pipe = File::from(std::os::fd::OwnedFd::from(writer));
        assert!(matches!(AuditLog::from_file(pipe), Err(AuditError::NotAFile)));
        let full = AuditLog::from_file(OpenOptions::new().write(true).open("/dev/full").unwrap()).unwrap();
        assert!(matches!(full.append(&record("/x")), Err(AuditError::Write(_))));
    }

    #[test]
    fn a_log_that_the_caller_opened_is_appended_to() {
        let place = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(place.path(), "{}\n").unwrap();
        let file = OpenOptions::new().write(true).open(place.path()).unwrap();
        AuditLog::from_file(file).unwrap().append(&record("/x")).unwrap();
        assert_eq!(lines(place.path()).len(), 2);
        assert!(place.path().metadata().unwrap().size() > 3);
    }
}
