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
