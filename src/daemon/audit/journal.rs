//! The audit log's copy in the journal, one message a record, by journald's native protocol
//! (<https://systemd.io/JOURNAL_NATIVE_PROTOCOL/>). The file decides: a record that is not in the journal is said so and
//! permits nothing less, one that is not in the file is not sent here. Text of a tool is escaped in the record.

use std::fs::File;
use std::io::{self, IoSlice, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, sendmsg_addr};
use tracing::{info, warn};

use super::{Audit, AuditError, AuditLog, AuditRecord};
use crate::daemon::message;

/// Where journald listens.
pub const SOCKET: &str = "/run/systemd/journal/socket";
/// A decision waits so long for journald at the most, and after that for nothing during [`REST`].
const PATIENCE: Duration = Duration::from_millis(250);
const REST: Duration = Duration::from_secs(10);

/// A way to journald.
#[derive(Debug)]
pub struct Journal {
    socket: UnixDatagram,
    path: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Nothing is sent before.
    rests_until: Option<Instant>,
    /// Records that did not get there since the last one that did.
    lost: u64,
}

impl Journal {
    /// journald need not be there, now or later.
    pub fn at(path: &Path) -> io::Result<Journal> {
        let socket = UnixDatagram::unbound()?;
        set_socket_timeout(&socket, Timeout::Send, Some(PATIENCE))?;
        Ok(Journal { socket, path: path.to_owned(), state: Mutex::default() })
    }

    /// Hands one record to journald.
    pub fn send(&self, record: &AuditRecord) -> io::Result<()> {
        let fields = fields(record);
        match self.socket.send_to(&fields, &self.path) {
            Ok(sent) if sent == fields.len() => Ok(()),
            Ok(_) => Err(io::ErrorKind::WriteZero.into()),
            // unix(7): a datagram that is larger than the socket's buffer.
            Err(error) if error.raw_os_error() == Some(libc::EMSGSIZE) => self.send_in_memory(&fields),
            Err(error) => Err(error),
        }
    }

    /// What does not fit into a datagram goes as a sealed memfd.
    fn send_in_memory(&self, fields: &[u8]) -> io::Result<()> {
        let memory = memfd_create("gated-audit", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        let mut file = File::from(memory);
        file.write_all(fields)?;
        let memory = OwnedFd::from(file);
        fcntl_add_seals(&memory, SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE | SealFlags::SEAL)?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let descriptors = [memory.as_fd()];
        if !control.push(SendAncillaryMessage::ScmRights(&descriptors)) {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let address = SocketAddrUnix::new(&self.path)?;
        sendmsg_addr(&self.socket, &address, &[IoSlice::new(&[])], &mut control, SendFlags::empty())?;
        Ok(())
    }

    /// [`Journal::send`], without holding anybody up for a journald that does not take what it is sent.
    fn try_send(&self, record: &AuditRecord) {
        let now = Instant::now();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.rests_until.is_some_and(|until| now < until) {
            state.lost = state.lost.saturating_add(1);
            return;
        }
        match self.send(record) {
            Ok(()) => {
                let state = std::mem::take(&mut *state);
                if state.lost > 0 {
                    info!(lost = state.lost, "the journal takes records again; those that are missing are in the file");
                }
            }
            // A machine without journald.
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {}
            Err(error) => {
                if state.lost == 0 {
                    warn!(%error, "a record is in the audit file and not in the journal");
                }
                *state = State { rests_until: now.checked_add(REST), lost: state.lost.saturating_add(1) };
            }
        }
    }
}

/// A log in a file and in the journal.
#[derive(Debug)]
pub struct JournaledLog {
    pub log: AuditLog,
    pub journal: Journal,
}

impl Audit for JournaledLog {
    fn append(&self, record: &AuditRecord) -> Result<(), AuditError> {
        self.log.append(record)?;
        self.journal.try_send(record);
        Ok(())
    }

    fn sync(&self) -> Result<(), AuditError> {
        self.log.sync()
    }
}

/// A record as journald takes it.
fn fields(record: &AuditRecord) -> Vec<u8> {
    let (id, priority) = match record.result {
        "approved" | "granted" | "allowed" => (message::REQUEST_APPROVED, "6"),
        "timeout" => (message::REQUEST_TIMED_OUT, "5"),
        _ => (message::REQUEST_DENIED, "5"),
    };
    let what = record.exec.as_ref().map_or_else(|| record.object.clone(), |exec| exec.argv.join(" "));
    let said = format!("{}: {} {what} by {}", record.result, record.operation, record.tool.program);
    let mut fields = Vec::with_capacity(1024);
    let mut put = |name: &str, value: &str| {
        fields.extend_from_slice(name.as_bytes());
        fields.push(b'\n');
        fields.extend_from_slice(&u64::try_from(value.len()).unwrap_or(0).to_le_bytes());
        fields.extend_from_slice(value.as_bytes());
        fields.push(b'\n');
    };
    put("MESSAGE", &said);
    put("MESSAGE_ID", id);
    put("PRIORITY", priority);
    put("SYSLOG_IDENTIFIER", "gated-audit");
    put("GATED_SESSION", &record.session);
    put("GATED_CALL", &record.call.to_string());
    put("GATED_USER", &record.user);
    put("GATED_PID", &record.tool.pid.to_string());
    put("GATED_PROGRAM", &record.tool.program);
    put("GATED_ARGV", &serde_json::to_string(&record.tool.argv).unwrap_or_default());
    put("GATED_CWD", &record.tool.cwd);
    put("GATED_ACCESS", record.access);
    put("GATED_OPERATION", record.operation);
    put("GATED_OBJECT", &record.object);
    put("GATED_PROFILE", &record.rule.profile);
    put("GATED_RULE", &record.rule.id);
    put("GATED_RULE_FILE", &record.rule.file);
    put("GATED_RULE_LINE", &record.rule.line.to_string());
    put("GATED_RESULT", record.result);
    put("GATED_ANSWERED_BY", &record.answered_by);
    put("GATED_DURATION_MS", &record.duration_ms.to_string());
    let exec = record.exec.as_ref().and_then(|exec| serde_json::to_string(exec).ok());
    let names = record.destination.as_ref().map(|reach| reach.names.join(" ")).filter(|names| !names.is_empty());
    let address = record.destination.as_ref().and_then(|reach| reach.address).map(|address| address.to_string());
    let port = record.destination.as_ref().and_then(|reach| reach.port).map(|port| port.to_string());
    let edited = record.edited.as_ref().and_then(|argv| serde_json::to_string(argv).ok());
    let optional = [
        ("GATED_REQUEST", record.request.as_deref()),
        ("GATED_OTHER", record.other.as_deref()),
        ("GATED_EXEC", exec.as_deref()),
        ("GATED_HOST", names.as_deref()),
        ("GATED_ADDRESS", address.as_deref()),
        ("GATED_PORT", port.as_deref()),
        ("GATED_TRANSPORT", record.destination.as_ref().map(|reach| reach.transport)),
        ("GATED_SERVICE", record.service),
        ("GATED_EDITED", edited.as_deref()),
        ("GATED_SCOPE", record.scope),
        ("GATED_LIFETIME", record.lifetime),
    ];
    for (name, value) in optional {
        if let Some(value) = value {
            put(name, value);
        }
    }
    fields
}
