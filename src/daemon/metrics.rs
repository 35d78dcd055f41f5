//! What the daemon counts, as a file that monitoring reads: OpenMetrics text 1.0, which node_exporter's textfile collector
//! takes as well. Runs as root in the daemon; there is nothing of a tool or a user in it, and everybody may read it.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use tracing::warn;

use super::core::Core;
use super::orders::{Caller, Refusal};
use super::statistics::{LIFETIMES, OUTCOMES, Report, Source};
use crate::common::access::Access;
use crate::common::bus::action;

/// How often it is written.
pub const PERIOD: Duration = Duration::from_secs(15);

/// Of the words that the type and the help of a family begin with.
struct Text(String);

impl Text {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing into a String does not fail.
        let _ = write!(self.0, "# TYPE {name} {kind}\n# HELP {name} {help}\n");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        let labels: Vec<String> = labels.iter().map(|(label, value)| format!("{label}=\"{value}\"")).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(self.0, "{name}{labels} {value}");
    }
}

/// The whole file.
pub fn text(report: &Report) -> String {
    let counts = &report.counts;
    let mut text = Text(String::new());
    // "info" is no type that the older format knows.
    text.family("gated_build", "gauge", "The version of the daemon that runs.");
    text.sample("gated_build", &[("version", env!("CARGO_PKG_VERSION"))], 1);
    text.family("gated_start_time_seconds", "gauge", "When the daemon began to count.");
    text.sample("gated_start_time_seconds", &[], seconds(Duration::from_micros(report.since)));

    text.family("gated_requests", "counter", "Attempts that were asked for or recorded, by access and by their end.");
    for access in Access::ALL {
        for outcome in OUTCOMES {
            let labels = [("access", access.as_str()), ("result", outcome.as_str())];
            text.sample("gated_requests_total", &labels, counts.requests(access, outcome));
        }
    }
    text.family("gated_denials", "counter", "Of these, those that were denied.");
    for access in Access::ALL {
        text.sample("gated_denials_total", &[("access", access.as_str())], counts.denials(access));
    }
    text.family("gated_decisions", "counter", "The same attempts, by who decided.");
    for source in Source::ALL {
        text.sample("gated_decisions_total", &[("source", source.as_str())], counts.decisions(source));
    }
    text.family("gated_wait_seconds", "histogram", "How long attempts waited for an answer.");
    for (end, below) in counts.waits.up_to() {
        let end = seconds(Duration::from_millis(end));
        text.sample("gated_wait_seconds_bucket", &[("le", &end)], below);
    }
    text.sample("gated_wait_seconds_bucket", &[("le", "+Inf")], counts.waits.count);
    text.sample("gated_wait_seconds_sum", &[], seconds(counts.waits.sum));
    text.sample("gated_wait_seconds_count", &[], counts.waits.count);

    text.family("gated_sessions_started", "counter", "Sessions that were started or taken over.");
    text.sample("gated_sessions_started_total", &[], counts.sessions);
    text.family("gated_sessions", "gauge", "Sessions that run.");
    text.sample("gated_sessions", &[], report.sessions);
    text.family("gated_pending_requests", "gauge", "Requests that wait for an answer.");
    text.sample("gated_pending_requests", &[], report.pending);
    text.family("gated_grants", "gauge", "Answers that hold, by lifetime.");
    for lifetime in LIFETIMES {
        let count = report.grants.get(&lifetime).copied().unwrap_or_default();
        text.sample("gated_grants", &[("lifetime", lifetime.as_str())], count);
    }
    text.family("gated_consent_agents", "gauge", "Who can be asked.");
    text.sample("gated_consent_agents", &[], report.agents);
    text.family("gated_audit_failures", "counter", "Records that could not be written or brought to disk.");
    text.sample("gated_audit_failures_total", &[], report.audit_failures.unwrap_or_default());
    text.0.push_str("# EOF\n");
    text.0
}

/// `2.5`, `60.0`.
fn seconds(time: Duration) -> String {
    let digits = format!("{}.{:06}", time.as_secs(), time.subsec_micros());
    let short = digits.trim_end_matches('0');
    if short.ends_with('.') { format!("{short}0") } else { short.to_owned() }
}

/// In place of the file before, whole or not at all: a reader never sees half of it.
pub fn write(file: &Path, text: &str) -> io::Result<()> {
    let name = file.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    // The collector passes over names that do not end in `.prom`.
    let mut new = std::ffi::OsString::from(".");
    new.push(name);
    new.push(".new");
    let new = file.with_file_name(new);
    // What somebody else may have put there is not followed.
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut opened = File::options().write(true).create_new(true).mode(0o600).open(&new)?;
    let written = opened.write_all(text.as_bytes()).and_then(|()| {
        opened.set_permissions(fs::Permissions::from_mode(0o644))?;
        fs::rename(&new, file)
    });
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written
}

impl Core {
    /// Writes the file now, if there is to be one.
    pub async fn write_metrics(&self) -> io::Result<bool> {
        let Some(file) = self.metrics.borrow().clone() else { return Ok(false) };
        let text = text(&self.report_of(None));
        // The disk may be slow.
        match tokio::task::spawn_blocking(move || write(&file, &text)).await {
            Ok(written) => written.map(|()| true),
            Err(_) => Err(io::ErrorKind::Other.into()),
        }
    }

    /// The same for a caller.
    pub async fn metrics_asked(&self, caller: &Caller) -> Result<(), Refusal> {
        caller.outside()?;
        if !caller.has(action::MANAGE_SESSIONS) {
            return Err(Refusal::Needs(action::MANAGE_SESSIONS));
        }
        match self.write_metrics().await {
            Ok(true) => Ok(()),
            Ok(false) => Err(Refusal::Invalid("gatedd runs without --metrics")),
            Err(error) => Err(Refusal::Session(format!("the metrics cannot be written: {error}"))),
        }
    }
}

/// Writes the file for as long as the daemon runs; its directory is made if it is not there.
pub async fn keep(core: Rc<Core>, file: PathBuf) {
    if let Some(directory) = file.parent()
        && !directory.exists()
    {
        let open = || fs::set_permissions(directory, fs::Permissions::from_mode(0o755));
        if let Err(error) = fs::create_dir_all(directory).and_then(|()| open()) {
            warn!(%error, "the directory of the metrics cannot be made");
        }
    }
    *core.metrics.borrow_mut() = Some(file);
    let mut ticks = tokio::time::interval(PERIOD);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut was_told = false;
    loop {
        ticks.tick().await;
        match core.write_metrics().await {
            Ok(_) => was_told = false,
            Err(error) if !was_told => {
                warn!(%error, "the metrics cannot be written");
                was_told = true;
            }
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_decimal_seconds() {
        for (time, told) in [(0, "0.0"), (500, "0.5"), (2_500, "2.5"), (60_000, "60.0"), (1_001, "1.001")] {
            assert_eq!(seconds(Duration::from_millis(time)), told);
        }
    }
}
