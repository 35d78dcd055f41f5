//! The consent agent on a terminal. Runs in the client, which also relays the tool's own pty to this terminal; while a
//! prompt is open the relay rests ([`Screen`]), so that nothing a tool writes can reach the terminal and nothing that is
//! typed can reach the tool.
//!
//! What could answer in the person's place, and what is done about it: keys typed before the prompt was there are
//! discarded, and so is everything in its first half second; a terminal's replies to what a tool wrote before hold escape
//! sequences, and a burst with one is dropped whole, with half a second after it; Enter alone does nothing.
//!
//! The command that this very gated-run was given can be changed here ([`Own`]); what was written is judged anew.

pub mod dialog;
pub mod draw;
mod editing;
pub mod editor;
pub mod keys;
pub mod sequences;
pub mod tty;

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior};

use crate::common::consent::{Answer, Asking, ConsentAgent, ConsentError, GATHERING, Gathers, Prompt};
use crate::common::details::MAX_EDITED;
use crate::common::id::CallId;
use crate::common::mask;
use crate::common::notice::Notice;
use crate::common::text::Untrusted;
use crate::common::wire::WindowSize;
use crate::consent::words;
use dialog::{Dialog, Step, Typed};
use tty::{Style, Tty};

/// What the tool's side of the terminal was when it was stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Paused {
    /// Whether the tool has switched the terminal to its alternate screen (`CSI ? 1049 h` or an older form of it).
    pub alternate: bool,
}

/// The relay between the tool's pty and the terminal, as far as a prompt must hold it.
pub trait Screen {
    /// Writes out what it holds of the tool's output up to a whole character or sequence, and stops: from now until
    /// [`Screen::resume`] it neither writes to the terminal nor reads from it.
    fn pause(&mut self) -> io::Result<Paused>;

    /// Goes on. If what the tool had drawn is `overwritten`, makes it draw again (a change of the window size and back).
    fn resume(&mut self, overwritten: bool);
}

/// For a terminal that nothing else uses.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unshared;

impl Screen for Unshared {
    fn pause(&mut self) -> io::Result<Paused> {
        Ok(Paused::default())
    }

    fn resume(&mut self, _overwritten: bool) {}
}

/// Times of a prompt.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// How long nothing is taken after the prompt was drawn.
    pub guard: Duration,
    /// Bytes that come closer together than this are one burst.
    pub burst: Duration,
}

impl Default for Timing {
    fn default() -> Timing {
        Timing { guard: Duration::from_millis(500), burst: Duration::from_millis(50) }
    }
}

/// The command that the gated-run of this terminal was given, as it is executed: with its secrets, which a prompt that comes
/// over the bus does not have.
#[derive(Clone, Debug)]
pub struct Own {
    /// What was written last in its place, if it was changed.
    pub argv: Rc<RefCell<Vec<Vec<u8>>>>,
    /// The number of its call, once it is known.
    pub call: Rc<Cell<Option<CallId>>>,
}

impl Own {
    /// Whether this prompt is about that command, and the whole of it.
    fn is_asked_for(&self, prompt: &Prompt) -> bool {
        let request = &prompt.request;
        let Some(execution) = request.execution.as_ref().filter(|execution| execution.is_first) else { return false };
        let argv = self.argv.borrow();
        let length = argv.iter().map(|word| word.len().saturating_add(1)).fold(0, usize::saturating_add);
        let own: Vec<Untrusted> = argv.iter().map(|word| Untrusted::new(word.as_slice())).collect();
        self.call.get().is_none_or(|call| call == request.call)
            && execution.words_left_out == 0
            && length <= MAX_EDITED
            && (execution.argv == own || execution.argv == mask::argv(&own))
    }
}

/// What a notice begins with.
const LABEL: &str = "gated: ";

/// `--consent tty`.
pub struct Terminal<S: Screen> {
    tty: OwnedFd,
    name: String,
    /// Whether it obeys the sequences of xterm and its kin.
    capable: bool,
    timing: Timing,
    screen: S,
    own: Option<Own>,
}

impl<S: Screen> Terminal<S> {
    /// An agent on `tty`, which must be an open file description of its own (open `/dev/tty` again): it becomes
    /// non-blocking. `term` is the value of `TERM`, empty if there is none; `person` goes into the records.
    pub fn new(tty: OwnedFd, term: &str, person: &str, screen: S, timing: Timing) -> io::Result<Terminal<S>> {
        tty::prepare(&tty)?;
        Ok(Terminal { tty, name: format!("tty:{person}"), capable: tty::is_capable(term), timing, screen, own: None })
    }

    /// The same, at which this command can be changed before it starts.
    pub fn editing(self, own: Own) -> Terminal<S> {
        Terminal { own: Some(own), ..self }
    }

    async fn converse(&mut self, prompt: &Prompt) -> Result<Answer, ConsentError> {
        let tty = Tty::new(&self.tty, self.timing.burst).map_err(unavailable)?;
        if !tty.in_foreground() {
            return Err(ConsentError::Unavailable("gated is not in the foreground of its terminal".to_owned()));
        }
        let own = self.own.as_ref().filter(|own| own.is_asked_for(prompt));
        let mut dialog = Dialog::new(prompt, own.is_some());
        let mut size = tty.size();
        let mut lines = page(prompt, &dialog, size)?;
        let paused = self.screen.pause().map_err(unavailable)?;
        let style = match (self.capable, paused.alternate) {
            (false, _) => Style::Lines,
            (true, false) => Style::Alternate,
            (true, true) => Style::Over,
        };
        let overwritten = style == Style::Over || style == Style::Lines && paused.alternate;
        // From here on everything is put back when this is dropped, in whichever way the prompt ends.
        let _resumed = Resumed { screen: &mut self.screen, overwritten };
        let shown = tty.show(style).map_err(gone)?;
        shown.page(&lines).await.map_err(gone)?;
        shown.quiet(self.timing.guard).await.map_err(gone)?;
        shown.line(&input_line(prompt, &dialog, size)).await.map_err(gone)?;

        let mut second = tokio::time::interval_at(Instant::now() + Duration::from_secs(1), Duration::from_secs(1));
        second.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let burst = {
                let mut burst = std::pin::pin!(shown.burst());
                loop {
                    tokio::select! {
                        biased;
                        burst = &mut burst => break burst.map_err(gone)?,
                        _ = second.tick(), if style != Style::Lines => {
                            if tty.size() != size {
                                size = tty.size();
                                lines = page(prompt, &dialog, size)?;
                                shown.page(&lines).await.map_err(gone)?;
                            }
                            shown.line(&input_line(prompt, &dialog, size)).await.map_err(gone)?;
                        }
                    }
                }
            };
            let typed = dialog::typed(&burst);
            if typed == Typed::Noise {
                shown.quiet(self.timing.guard).await.map_err(gone)?;
            }
            match dialog.input(typed) {
                Step::Done(answer) => return Ok(answer),
                Step::Edit => {
                    let before = own.map(|own| own.argv.borrow().clone()).unwrap_or_default();
                    if let Some(own) = own
                        && let Some(argv) = editing::edit(&shown, &tty, prompt, &before).await?
                    {
                        own.argv.replace(argv.clone());
                        return Ok(Answer::Edit(argv));
                    }
                    size = tty.size();
                    lines = page(prompt, &dialog, size)?;
                    shown.page(&lines).await.map_err(gone)?;
                }
                Step::All => {
                    lines = page(prompt, &dialog, size)?;
                    shown.page(&lines).await.map_err(gone)?;
                }
                Step::Line => {}
            }
            shown.line(&input_line(prompt, &dialog, size)).await.map_err(gone)?;
        }
    }
}

impl<S: Screen> ConsentAgent for Terminal<S> {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn ask<'a>(&'a mut self, prompt: &'a Prompt) -> Asking<'a> {
        Box::pin(self.converse(prompt))
    }

    fn notice(&mut self, notice: &Notice) {
        let Ok(tty) = Tty::new(&self.tty, self.timing.burst) else { return };
        let Ok(paused) = self.screen.pause() else { return };
        // What a tool draws on the whole of the screen is not written into.
        if tty.in_foreground() && !paused.alternate {
            let columns = usize::from(tty.size().columns);
            let line = words::notice(notice, columns.saturating_sub(LABEL.len().saturating_add(1)));
            tty.note(&format!("\r\n{LABEL}{line}\r\n"));
        }
        self.screen.resume(false);
    }

    fn gathers(&self) -> Gathers {
        Box::new(|_| GATHERING)
    }
}

/// Lets the relay go on when dropped.
struct Resumed<'a, S: Screen> {
    screen: &'a mut S,
    overwritten: bool,
}

impl<S: Screen> Drop for Resumed<'_, S> {
    fn drop(&mut self) {
        self.screen.resume(self.overwritten);
    }
}

fn page(prompt: &Prompt, dialog: &Dialog, size: WindowSize) -> Result<Vec<String>, ConsentError> {
    draw::page(prompt, dialog, size.columns.into(), size.rows.into()).ok_or_else(unavailable_here)
}

fn input_line(prompt: &Prompt, dialog: &Dialog, size: WindowSize) -> String {
    draw::input(dialog, seconds_left(prompt), size.columns.into())
}

fn seconds_left(prompt: &Prompt) -> u64 {
    prompt.deadline.saturating_duration_since(Instant::now().into_std()).as_secs()
}

fn unavailable_here() -> ConsentError {
    ConsentError::Unavailable("the terminal is too small to show what is asked".to_owned())
}

fn unavailable(error: io::Error) -> ConsentError {
    ConsentError::Unavailable(error.to_string())
}

fn gone(error: io::Error) -> ConsentError {
    ConsentError::Gone(format!("the terminal: {error}"))
}
