//! The daemon's log: structured fields to journald if systemd started it, lines on stderr otherwise. Runs in the daemon, as
//! root. What a tool or client chose stands in fields, never in a message, and is escaped before it comes here.
//!
//! Fields keep their names: `info!(MESSAGE_ID = message::RELOADED, GATED_SESSION = %id, "...")` is exactly these fields in
//! the journal. Not for decisions: the audit log has those, with checked results ([`super::audit`]).

use std::io;
use std::os::fd::AsFd;

use rustix::fs::fstat;
use tracing_journald::{Priority, PriorityMappings};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, fmt, registry};

/// What is logged, in the notation of [`EnvFilter`]; for who looks for a fault.
pub const FILTER_VARIABLE: &str = "GATED_LOG";
const FILTER: &str = "warn,gated=info";
const IDENTIFIER: &str = "gatedd";

/// Starts the log of this process. To be called once.
pub fn start() {
    let filter = EnvFilter::try_from_env(FILTER_VARIABLE).unwrap_or_else(|_| EnvFilter::new(FILTER));
    let journal = if goes_to_journal(std::env::var("JOURNAL_STREAM").ok().as_deref()) { journal().ok() } else { None };
    match journal {
        Some(journal) => registry().with(journal.with_filter(filter)).init(),
        None => registry().with(fmt::layer().with_writer(io::stderr).with_target(false).with_filter(filter)).init(),
    }
}

/// The journal as a layer of a log. An error if nobody listens there.
pub fn journal() -> io::Result<tracing_journald::Layer> {
    let priorities =
        PriorityMappings { info: Priority::Informational, debug: Priority::Debug, ..PriorityMappings::new() };
    let layer = tracing_journald::layer()?.with_field_prefix(None).with_priority_mappings(priorities);
    Ok(layer.with_syslog_identifier(IDENTIFIER.to_owned()))
}

/// Whether stderr is the stream to the journal that systemd.exec(5) names in `JOURNAL_STREAM`; a process further down
/// inherits the variable, but may have been given another stderr.
fn goes_to_journal(stream: Option<&str>) -> bool {
    let Some((device, inode)) = stream.and_then(|stream| stream.split_once(':')) else { return false };
    let Ok(state) = fstat(io::stderr().as_fd()) else { return false };
    device.parse() == Ok(state.st_dev) && inode.parse() == Ok(state.st_ino)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_journal_is_where_stderr_leads() {
        let state = fstat(io::stderr().as_fd()).unwrap();
        assert!(goes_to_journal(Some(&format!("{}:{}", state.st_dev, state.st_ino))));
        let other = format!("{}:{}", state.st_dev, state.st_ino.wrapping_add(1));
        for stream in [None, Some(""), Some("8"), Some("x:y"), Some(other.as_str())] {
            assert!(!goes_to_journal(stream), "{stream:?}");
        }
    }
}
