//! The audit log: what was decided, on disk before it takes effect. Written by the broker (root in the daemon, the
//! invoking process when embedded); the words in it are a tool's and are escaped.
//!
//! JSON lines, append-only. A record is one write(2) on an `O_APPEND` file, so that several sessions can share a log; it is
//! a whole line, or an error and no permission. Text of a tool stands in the notation of [`crate::common::text`].

mod journal;
mod log;

use std::io;
use std::path::PathBuf;

use serde::Serialize;

use super::record::{Exec, Reach, Rule, Tool};

pub use journal::{Journal, JournaledLog, SOCKET};
pub use log::{AuditLog, KEPT, MAX_BYTES, names};

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
    /// Of [`crate::common::access::Access::Exec`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exec: Option<Exec>,
    /// Of [`crate::common::access::Access::Connect`] and [`crate::common::access::Access::Bind`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destination: Option<Reach>,
    /// Of [`crate::common::access::Access::Unix`]: what is known to be behind the socket, such as `@docker`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<&'static str>,
    pub rule: Rule,
    /// `approved`, `denied`, `timeout`, `not_permitted`, `granted`, `allowed`, `cancelled` or `edited`.
    pub result: &'static str,
    /// What policy would have said of what a session that learns was allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub would: Option<&'static str>,
    /// The command that somebody wrote instead, with secrets masked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edited: Option<Vec<String>>,
    pub answered_by: String,
    /// From the request to the decision.
    pub duration_ms: u64,
    /// How far and how long an approval holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lifetime: Option<&'static str>,
    /// Refusals that this record stands for, the last of them being told, where they were counted: see
    /// [`super::refusals`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub times: Option<u64>,
    /// Whether they were of several objects.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub various: bool,
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
