//! The events of a session as the daemon writes them into a pipe: copied to where `--events` wants them, and counted for the
//! closing lines. Runs as the caller, in its runtime; the pipe is the daemon's, the words in it a tool's and escaped.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;

use serde::Deserialize;
use tokio::io::unix::AsyncFd;
use tracing::debug;

use super::learning::{Learner, Source};
use crate::common::access::Access;
use crate::common::decision::Outcome;
use crate::common::id::CallId;
use crate::common::net::{Service, Transport};
use crate::common::path::RawPath;
use crate::common::request::Operation;
use crate::common::text::{self, Untrusted};
use crate::daemon::denials::{Attempt, Denials};
use crate::daemon::events::Events;
use crate::tool::descriptors::watched;

/// Bytes of a line at the most; a longer one is passed on in pieces and not counted.
const MAX_LINE: usize = 1 << 20;
/// How long after its end the last events of a call may take.
const FAREWELL: Duration = Duration::from_secs(2);

/// What of an event counts here.
#[derive(Debug, Deserialize)]
struct Told {
    event: String,
    #[serde(default)]
    call: u32,
    access: Option<Access>,
    operation: Option<Operation>,
    object: Option<String>,
    exec: Option<ToldExec>,
    destination: Option<ToldDestination>,
    service: Option<Service>,
    decision: Option<Outcome>,
}

/// What of a command counts here.
#[derive(Debug, Deserialize)]
struct ToldExec {
    argv: Vec<String>,
}

/// What of a destination counts here.
#[derive(Debug, Deserialize)]
struct ToldDestination {
    transport: Transport,
}

/// What is done with events besides.
#[derive(Debug, Default)]
pub struct Also {
    /// Gathers what was seen, where the session learns.
    pub learner: Option<Learner>,
    /// Whether denials are told on stderr as they come, each once: nobody reads closing lines of what never ends.
    pub tells: bool,
}

/// Lines that are told as they come, at the most.
const MOST_TOLD: usize = 1024;

/// What was heard until the end of a call.
pub struct Heard {
    pub denials: Denials,
    pub learner: Option<Learner>,
}

/// Reads a pipe of events.
pub struct EventPipe {
    /// `None` once the daemon has closed it.
    pipe: Option<AsyncFd<OwnedFd>>,
    copy: Events,
    /// The beginning of a line that is not whole yet.
    begun: Vec<u8>,
    /// The number of the caller's own call, once it is known.
    call: Rc<Cell<Option<CallId>>>,
    /// Whether only denials of that call count, or all of the session.
    only_own: bool,
    denials: Denials,
    also: Also,
    told: BTreeSet<String>,
    ended: BTreeSet<u32>,
}

impl EventPipe {
    /// Needs a tokio runtime. Without a pipe there is nothing to read.
    pub fn new(
        pipe: Option<OwnedFd>,
        copy: Events,
        call: Rc<Cell<Option<CallId>>>,
        only_own: bool,
        also: Also,
    ) -> io::Result<EventPipe> {
        let pipe = match pipe {
            Some(pipe) => {
                rustix::io::ioctl_fionbio(&pipe, true)?;
                Some(watched(pipe)?)
            }
            None => None,
        };
        Ok(EventPipe {
            pipe,
            copy,
            begun: Vec::new(),
            call,
            only_own,
            denials: Denials::default(),
            also,
            told: BTreeSet::new(),
            ended: BTreeSet::new(),
        })
    }

    /// Reads until the daemon closes the pipe. May be dropped and called again.
    pub async fn read(&mut self) {
        while self.pipe.is_some() {
            self.some().await;
        }
    }

    /// After the call's end: reads until that was told, the daemon closes the pipe, or it takes too long.
    pub async fn finish(self) -> Heard {
        self.finish_within(FAREWELL).await
    }

    async fn finish_within(mut self, limit: Duration) -> Heard {
        let told = async {
            while self.pipe.is_some() && self.call.get().is_none_or(|call| !self.ended.contains(&call.0)) {
                self.some().await;
            }
        };
        if tokio::time::timeout(limit, told).await.is_err() {
            debug!("gatedd did not tell the end of the call");
        }
        self.copy.close();
        let denials = if self.also.tells { Denials::default() } else { self.denials };
        Heard { denials, learner: self.also.learner }
    }

    /// Reads once.
    async fn some(&mut self) {
        let Some(pipe) = &self.pipe else { return };
        let mut chunk = [0; 8192];
        let read = match pipe.readable().await {
            Ok(mut ready) => match ready.try_io(|fd| Ok(rustix::io::read(fd.get_ref(), &mut chunk)?)) {
                Ok(read) => read,
                Err(_would_block) => return,
            },
            Err(error) => Err(error),
        };
        match read {
            Ok(count @ 1..) => self.take(chunk.get(..count).unwrap_or_default()),
            Ok(0) => {
                debug!("gatedd tells no more events");
                self.pipe = None;
            }
            Err(error) => {
                debug!(%error, "the pipe of events");
                self.pipe = None;
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        self.begun.extend_from_slice(bytes);
        while let Some(end) = self.begun.iter().position(|byte| *byte == b'\n') {
            let rest = self.begun.split_off(end.saturating_add(1));
            let line = std::mem::replace(&mut self.begun, rest);
            self.count(&line);
            if let Some(learner) = &mut self.also.learner {
                learner.take(&line, Source::Events);
            }
            self.copy.pass_on(line);
        }
        if self.begun.len() > MAX_LINE {
            self.copy.pass_on(std::mem::take(&mut self.begun));
        }
    }

    fn count(&mut self, line: &[u8]) {
        let Ok(told) = serde_json::from_slice::<Told>(line) else { return };
        if told.event == "call_ended" {
            self.ended.insert(told.call);
        }
        let is_ours = !self.only_own || self.call.get() == Some(CallId(told.call));
        if let (true, Some(access), Some(object), Some(decision)) = (is_ours, told.access, told.object, told.decision) {
            // What was cut cannot be read back, and is told as it stands.
            let bytes = |text: String| text::unescaped(&text).unwrap_or_else(|| text.into_bytes());
            let command = told.exec.map(|exec| exec.argv.into_iter().map(|word| Untrusted::new(bytes(word))));
            let command: Option<Vec<Untrusted>> = command.map(Iterator::collect);
            let attempt = Attempt {
                access,
                // Of an event that does not say it, only words for files would need it.
                operation: told.operation.unwrap_or(Operation::OpenWrite),
                object: &RawPath::new(bytes(object)),
                command: command.as_deref(),
                transport: told.destination.map(|destination| destination.transport),
                service: told.service,
            };
            self.denials.count(&attempt, decision);
            if self.also.tells {
                self.tell(&attempt, decision);
            }
        }
    }
}

impl EventPipe {
    fn tell(&mut self, attempt: &Attempt<'_>, decision: Outcome) {
        let mut one = Denials::default();
        one.count(attempt, decision);
        for line in one.lines() {
            if self.told.len() < MOST_TOLD && !self.told.contains(&line) {
                eprintln!("{line}");
                self.told.insert(line);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn read_all(lines: &[u8], call: u32, only_own: bool, patience: Option<Duration>) -> (Vec<String>, Vec<u8>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let copied = tempfile::NamedTempFile::new().unwrap();
            let (reader, mut writer) = std::io::pipe().unwrap();
            let copy = Events::to(copied.reopen().unwrap()).unwrap();
            let call = Rc::new(Cell::new(Some(CallId(call))));
            let events = EventPipe::new(Some(reader.into()), copy, call, only_own, Also::default()).unwrap();
            writer.write_all(lines).unwrap();
            // The daemon may keep its end open.
            let kept = patience.map(|_| writer);
            let denials = events.finish_within(patience.unwrap_or(Duration::MAX)).await.denials;
            drop(kept);
            (denials.lines().collect(), std::fs::read(copied.path()).unwrap())
        })
    }

    const LINES: &str = concat!(
        r#"{"event":"call_started","call":1}"#,
        "\n",
        r#"{"event":"denied","call":1,"access":"write","object":"/a\\\\b","decision":"not_permitted"}"#,
        "\n",
        r#"{"event":"consent_decided","call":2,"access":"write","object":"/c","decision":"denied"}"#,
        "\n",
        r#"{"event":"consent_decided","call":1,"access":"write","object":"/d","decision":"approved"}"#,
        "\n",
        r#"{"event":"consent_decided","call":1,"access":"write","object":"/e\\x1b","decision":"timeout"}"#,
        "\n",
        r#"{"event":"denied","call":1,"access":"exec","object":"/usr/bin/git","exec":{"argv":["git","a b"]},"decision":"denied"}"#,
        "\n",
        r#"{"event":"denied","call":1,"access":"connect","operation":"look-up","object":"example.org","destination":{"names":["example.org"],"transport":"tcp"},"decision":"denied"}"#,
        "\n",
        r#"{"event":"denied","call":1,"access":"unix","operation":"connect-socket","object":"/run/docker.sock","service":"@docker","decision":"not_permitted"}"#,
        "\n",
        "nonsense\n",
        r#"{"event":"call_ended","call":1,"exit_code":0}"#,
        "\n",
    );

    #[test]
    fn events_are_copied_and_denials_told() {
        let (lines, copied) = read_all(LINES.as_bytes(), 1, false, None);
        assert_eq!(copied, LINES.as_bytes());
        assert_eq!(
            lines,
            [
                "gated: denied: write /a\\\\b: it is not permitted here; this is final, do not retry",
                "gated: denied: write /c: the person who was asked said no; this is final, do not retry",
                "gated: denied: write /e\\x1b: nobody answered in time; this is final, do not retry",
                "gated: denied: run git 'a b' (/usr/bin/git): the person who was asked said no; this is final, do not retry",
                "gated: denied: look up example.org: the person who was asked said no; this is final, do not retry",
                "gated: denied: talk to /run/docker.sock (@docker): it is not permitted here; this is final, do not retry",
            ]
        );
        let (lines, _) = read_all(LINES.as_bytes(), 2, true, None);
        assert_eq!(lines, ["gated: denied: write /c: the person who was asked said no; this is final, do not retry"]);
    }

    #[test]
    fn the_end_of_the_call_is_the_end_even_if_the_pipe_stays_open() {
        assert_eq!(read_all(LINES.as_bytes(), 1, false, Some(Duration::MAX)).1, LINES.as_bytes());
        // And a daemon that says nothing is not waited for.
        let begun = b"{\"event\":\"call_started\"";
        assert_eq!(read_all(begun, 1, false, Some(Duration::from_millis(20))).0, Vec::<String>::new());
    }
}
