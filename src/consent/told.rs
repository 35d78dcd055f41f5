//! What sessions have done without a question and is to be told all the same (level `notify`): lines `notified` of the
//! daemon's stream of events (`Watch` of `org.gated.Gated1.Manager`). Runs as the person who is told; the lines come from the
//! daemon, the names in them are tools'.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;

use serde::Deserialize;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::unix::pipe;
use tokio::sync::mpsc;
use tracing::debug;
use zbus::fdo::DBusProxy;
use zbus::names::{BusName, WellKnownName};
use zbus::{Connection, Variant};

use crate::common::access::Access;
use crate::common::bus::{BUS_NAME, MANAGER_INTERFACE, MANAGER_PATH};
use crate::common::path::RawPath;
use crate::common::request::Operation;
use crate::common::text::{self, Untrusted};

/// Bytes of a line at the most: what the daemon writes into a pipe at once is far less.
const LONGEST: u64 = 1 << 20;

/// One thing that was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    pub program: RawPath,
    pub access: Access,
    pub operation: Operation,
    pub object: RawPath,
    /// What was run, where that is what was done.
    pub command: Option<Vec<Untrusted>>,
}

/// A line of events, as far as it counts here.
#[derive(Deserialize)]
struct Line {
    event: String,
    #[serde(default)]
    program: String,
    access: Option<Access>,
    operation: Option<Operation>,
    #[serde(default)]
    object: String,
    exec: Option<Exec>,
}

#[derive(Deserialize)]
struct Exec {
    argv: Vec<String>,
}

impl Told {
    /// What a line of the stream tells, if it is of this kind.
    pub fn of(line: &[u8]) -> Option<Told> {
        let line: Line = serde_json::from_slice(line).ok().filter(|line: &Line| line.event == "notified")?;
        // What was cut cannot be read back, and is told as it stands.
        let bytes = |text: String| text::unescaped(&text).unwrap_or_else(|| text.into_bytes());
        let words = |exec: Exec| exec.argv.into_iter().map(|word| Untrusted::new(bytes(word))).collect();
        Some(Told {
            program: RawPath::new(bytes(line.program)),
            access: line.access?,
            operation: line.operation?,
            object: RawPath::new(bytes(line.object)),
            command: line.exec.map(words),
        })
    }

    /// The name of the program that did it.
    pub fn name(&self) -> &[u8] {
        self.program.file_name()
    }
}

/// No events of sessions, or none any more.
#[derive(Debug, thiserror::Error)]
pub enum Untold {
    #[error("the bus: {0}")]
    Bus(#[from] zbus::Error),
    #[error("the daemon's pipe: {0}")]
    Pipe(#[from] io::Error),
    #[error("a line of events longer than any is")]
    TooLong,
}

/// Hands on what happens in the sessions of this user, until the daemon or the reader is gone. Starts no daemon.
pub async fn follow(connection: &Connection, told: &mpsc::Sender<Told>) -> Result<(), Untold> {
    let name = BusName::from(WellKnownName::try_from(BUS_NAME)?);
    let bus = DBusProxy::new(connection).await?;
    let owner = bus.get_name_owner(name).await.map_err(zbus::Error::from)?;
    let owner = Some(owner.as_str());
    let options = (HashMap::<&str, Variant<'_>>::new(),);
    let called = connection.call_method(owner, MANAGER_PATH, Some(MANAGER_INTERFACE), "Watch", &options);
    let pipe: zbus::OwnedFd = called.await?.body().deserialize()?;
    let mut lines = BufReader::new(pipe::Receiver::from_owned_fd(OwnedFd::from(pipe))?);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = (&mut lines).take(LONGEST).read_until(b'\n', &mut line).await?;
        match (read, line.last()) {
            (0, _) => return Ok(()),
            (_, Some(b'\n')) => {}
            _ => return Err(Untold::TooLong),
        }
        let Some(one) = Told::of(&line) else { continue };
        // A reader that is behind misses some; all of it is in the audit log.
        match told.try_send(one) {
            Ok(()) => {}
            Err(mpsc::error::TrySendError::Full(_)) => debug!("more is done than can be told"),
            Err(mpsc::error::TrySendError::Closed(_)) => return Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_done_and_is_to_be_told_is_told() {
        let line = |event: &str, rest: &str| {
            let line = format!(
                r#"{{"event":"{event}","session":"0","call":1,"program":"/usr/bin/npm\\\\x1b","access":"exec",
                "operation":"execute","object":"/usr/bin/curl"{rest}}}"#
            );
            Told::of(line.as_bytes())
        };
        let told = line("notified", r#","exec":{"argv":["curl","a\\n"],"new":false}"#).unwrap();
        assert_eq!(told.name(), b"npm\\x1b");
        assert_eq!(told.command, Some(vec![Untrusted::new("curl"), Untrusted::new("a\n")]));
        assert_eq!(line("notified", "").unwrap().command, None);
        for event in ["denied", "allowed_by_grant", "consent_required", ""] {
            assert_eq!(line(event, ""), None);
        }
        for line in ["", "nonsense", r#"{"event":"notified"}"#, r#"{"event":"notified","access":"fly"}"#] {
            assert_eq!(Told::of(line.as_bytes()), None, "{line}");
        }
    }
}
