//! A consent agent that asks line by line, for screen readers, for terminals of which nothing is known, and for programs that
//! write answers into a pipe. Runs as the person who is asked. Nothing that stands on the screen is ever changed: no cursor,
//! no colour.
//!
//! A line is an answer only if it was typed after its question was printed: at a terminal whatever came before is
//! discarded, and so is a line within the first half second; of a pipe a line is read only once its question is there.

pub mod question;

use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::termios::{QueueSelector, tcflush};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::common::consent::{Answer, Asking, ConsentAgent, ConsentError, Prompt};
pub use question::{Reply, question, read, time};

/// How long a terminal's line is not taken after its question was printed.
const GUARD: Duration = Duration::from_millis(500);
/// Bytes of a line at the most; what is longer is no answer.
const LONGEST: usize = 256;

/// Lines of standard input, each read only when it is asked for.
struct Lines {
    wanted: std::sync::mpsc::Sender<()>,
    /// `None` at the end.
    lines: mpsc::UnboundedReceiver<Option<String>>,
    /// Whether one is being read.
    is_reading: bool,
    is_terminal: bool,
}

impl Lines {
    fn new() -> Lines {
        let (wanted, wants) = std::sync::mpsc::channel();
        let (sender, lines) = mpsc::unbounded_channel();
        // A thread of its own, which the end of the process ends: a read from a terminal cannot be taken back.
        std::thread::spawn(move || {
            while wants.recv().is_ok() {
                if sender.send(line()).is_err() {
                    break;
                }
            }
        });
        Lines { wanted, lines, is_reading: false, is_terminal: io::stdin().is_terminal() }
    }

    /// Forgets what came before now.
    fn discard(&mut self) -> Result<(), ConsentError> {
        while let Ok(line) = self.lines.try_recv() {
            self.is_reading = false;
            line.ok_or_else(end)?;
        }
        if self.is_terminal {
            // One that is gone has nothing to be flushed, and the next read says so.
            let _ = tcflush(io::stdin().as_fd(), QueueSelector::IFlush);
        }
        Ok(())
    }

    async fn next(&mut self) -> Result<String, ConsentError> {
        if !self.is_reading {
            self.wanted.send(()).map_err(|_| end())?;
            self.is_reading = true;
        }
        let line = self.lines.recv().await.flatten();
        self.is_reading = false;
        line.ok_or_else(end)
    }
}

fn end() -> ConsentError {
    ConsentError::Gone("there is no more input".to_owned())
}

/// A line without its end; no byte beyond it is taken from a pipe.
fn line() -> Option<String> {
    let mut line = Vec::new();
    let mut stdin = unbuffered();
    loop {
        let mut byte = [0];
        match stdin.read(&mut byte) {
            Ok(1) if byte == *b"\n" => break,
            Ok(1) if line.len() <= LONGEST => line.extend(byte),
            Ok(1) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(_) | Err(_) if line.is_empty() => return None,
            Ok(_) | Err(_) => break,
        }
    }
    Some(String::from_utf8_lossy(&line).trim().to_owned())
}

/// Standard input without the buffer that `std` keeps.
fn unbuffered() -> impl Read {
    struct Unbuffered;
    impl Read for Unbuffered {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            Ok(rustix::io::read(rustix::stdio::stdin(), buffer)?)
        }
    }
    Unbuffered
}

/// See the module.
pub struct Plain {
    name: String,
    lines: Lines,
    asked: u64,
}

impl Plain {
    /// `person` goes into the records.
    pub fn new(person: &str) -> Plain {
        Plain { name: format!("plain:{person}"), lines: Lines::new(), asked: 0 }
    }

    async fn converse(&mut self, prompt: &Prompt) -> Result<Answer, ConsentError> {
        self.asked = self.asked.saturating_add(1);
        let mut open = Open { number: self.asked, is_open: true };
        let mut is_whole = false;
        'question: loop {
            self.lines.discard()?;
            print(&question(prompt, self.asked, is_whole))?;
            let printed = Instant::now();
            loop {
                let line = self.lines.next().await?;
                if self.lines.is_terminal && printed.elapsed() < GUARD {
                    print(&["Ignored: that came too soon to be an answer. Type it again.".to_owned()])?;
                    continue;
                }
                match read(&line, prompt) {
                    Ok(Reply::Answer(answer, said)) => {
                        open.is_open = false;
                        print(&[format!("Answer to question {}: {said}.", self.asked)])?;
                        return Ok(answer);
                    }
                    Ok(Reply::More) => {
                        is_whole = true;
                        continue 'question;
                    }
                    Err(hint) => print(&[hint])?,
                }
            }
        }
    }
}

impl ConsentAgent for Plain {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn ask<'a>(&'a mut self, prompt: &'a Prompt) -> Asking<'a> {
        Box::pin(self.converse(prompt))
    }
}

/// A question that nobody has answered here; told when it goes without an answer.
struct Open {
    number: u64,
    is_open: bool,
}

impl Drop for Open {
    fn drop(&mut self) {
        if self.is_open {
            // Output that is gone is noticed at the next question.
            let _ = print(&[format!(
                "Question {} is withdrawn: it was answered elsewhere, its time is over, or its process is gone.",
                self.number
            )]);
        }
    }
}

fn print(lines: &[String]) -> Result<(), ConsentError> {
    let mut text = lines.join("\n");
    text.push('\n');
    let mut stdout = io::stdout().lock();
    stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
        .map_err(|error| ConsentError::Gone(format!("standard output: {error}")))
}
