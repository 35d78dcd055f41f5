//! Bytes between the caller's terminal and the session's pty. Runs as the invoking user; the output is the tool's and goes to the
//! terminal as it would without us, but while a prompt is shown: then nothing of the tool's reaches the terminal, and no
//! key reaches the tool.

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{Winsize, tcgetwinsize, tcsetwinsize};
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;

use super::screen::Screen;
use super::terminal::CallersTerminal;
use crate::consent::terminal::{self as consent, Paused};
use crate::tool::descriptors::watched;

/// Bytes held in one direction at the most; nothing more is read until they are written.
const CHUNK: usize = 16 << 10;

/// How long a terminal may take for output that must be gone before a prompt.
const PATIENCE: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// CAN: ends a control sequence that was begun (ECMA-48 8.3.6).
const CANCEL: &[u8] = b"\x18";

/// Bytes on their way in one direction.
#[derive(Default)]
struct Pending {
    bytes: Vec<u8>,
    written: usize,
}

impl Pending {
    fn rest(&self) -> &[u8] {
        self.bytes.get(self.written..).unwrap_or_default()
    }

    fn is_empty(&self) -> bool {
        self.rest().is_empty()
    }

    fn wrote(&mut self, count: usize) {
        self.written = self.written.saturating_add(count);
        if self.is_empty() {
            self.bytes.clear();
            self.written = 0;
        }
    }
}

#[derive(Default)]
struct State {
    to_tool: Pending,
    to_terminal: Pending,
    /// What was written to the terminal.
    screen: Screen,
    /// Whether keys are read from the terminal: not while it is another program's.
    reads: bool,
    /// Whether a prompt has the terminal.
    paused: bool,
    /// The terminal is gone: the tool's output has nowhere to go.
    is_mute: bool,
    /// The session's side of the pty is closed, and everything it wrote was read.
    is_over: bool,
}

/// The two directions; [`Relay::turn`] moves a piece of one of them. Clones are the same relay.
#[derive(Clone)]
pub struct Relay(Rc<Ends>);

struct Ends {
    terminal: CallersTerminal,
    /// The same open terminal.
    watched_terminal: AsyncFd<OwnedFd>,
    master: AsyncFd<OwnedFd>,
    state: RefCell<State>,
    /// The state was changed from outside of [`Relay::turn`].
    changed: Notify,
}

impl Relay {
    /// Both descriptors become non-blocking. Needs a tokio runtime.
    pub fn new(terminal: CallersTerminal, master: OwnedFd) -> io::Result<Relay> {
        rustix::io::ioctl_fionbio(&master, true)?;
        Ok(Relay(Rc::new(Ends {
            watched_terminal: watched(terminal.as_fd().try_clone_to_owned()?)?,
            terminal,
            master: watched(master)?,
            state: RefCell::default(),
            changed: Notify::new(),
        })))
    }

    pub fn terminal(&self) -> &CallersTerminal {
        &self.0.terminal
    }

    /// Read keys from the terminal, or leave them to others.
    pub fn set_reading(&self, reads: bool) {
        self.0.state.borrow_mut().reads = reads;
        self.0.changed.notify_one();
    }

    pub fn is_paused(&self) -> bool {
        self.0.state.borrow().paused
    }

    pub fn copy_window(&self) {
        self.0.terminal.copy_window_to(self.0.master.get_ref());
    }

    /// Whether the session's side has closed the pty and everything it wrote was shown.
    pub fn is_over(&self) -> bool {
        let state = self.0.state.borrow();
        state.is_over && (state.to_terminal.is_empty() || state.is_mute)
    }

    /// Move some bytes; waits until that is possible. May be dropped at any await.
    pub async fn turn(&self) -> io::Result<()> {
        let ends = self.0.as_ref();
        let (takes_keys, takes_output, gives_output, gives_keys) = {
            let state = ends.state.borrow();
            let takes_keys =
                state.reads && !state.paused && !state.is_mute && !state.is_over && state.to_tool.is_empty();
            let takes_output = !state.paused && !state.is_over && state.to_terminal.is_empty();
            let gives_output = !state.paused && !state.is_mute && !state.to_terminal.is_empty();
            (takes_keys, takes_output, gives_output, !state.is_over && !state.to_tool.is_empty())
        };
        let (terminal, master) = (&ends.watched_terminal, &ends.master);
        tokio::select! {
            () = ends.changed.notified() => {}
            ready = master.readable(), if takes_output => {
                if let Ok(done) = ready?.try_io(|fd| ends.take_output(fd.get_ref())) {
                    done?;
                }
            }
            ready = terminal.writable(), if gives_output => {
                if let Ok(done) = ready?.try_io(|fd| ends.give_output(fd.get_ref())) {
                    done?;
                }
            }
            ready = terminal.readable(), if takes_keys => {
                if let Ok(done) = ready?.try_io(|fd| ends.take_keys(fd.get_ref())) {
                    done?;
                }
            }
            ready = master.writable(), if gives_keys => {
                if let Ok(done) = ready?.try_io(|fd| ends.give_keys(fd.get_ref())) {
                    done?;
                }
            }
        }
        Ok(())
    }
}

/// Each moves bytes once; fails with `WouldBlock` only.
impl Ends {
    fn take_output(&self, master: &OwnedFd) -> io::Result<()> {
        let state = &mut *self.state.borrow_mut();
        match read(master, &mut state.to_terminal.bytes) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(error),
            // EIO: the last descriptor of the slave is closed (pty(7)).
            Ok(0) | Err(_) => state.is_over = true,
            Ok(_) if state.is_mute => state.to_terminal.wrote(usize::MAX),
            Ok(_) => {}
        }
        Ok(())
    }

    fn give_output(&self, terminal: &OwnedFd) -> io::Result<()> {
        let state = &mut *self.state.borrow_mut();
        if state.paused {
            return Ok(());
        }
        let rest = state.to_terminal.rest().len();
        state.write_out(terminal, rest)
    }

    fn take_keys(&self, terminal: &OwnedFd) -> io::Result<()> {
        let state = &mut *self.state.borrow_mut();
        if state.paused || !state.reads {
            return Ok(());
        }
        match read(terminal, &mut state.to_tool.bytes) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(error),
            Ok(0) | Err(_) => {
                state.reads = false;
                Ok(())
            }
            Ok(_) => Ok(()),
        }
    }

    fn give_keys(&self, master: &OwnedFd) -> io::Result<()> {
        let state = &mut *self.state.borrow_mut();
        match rustix::io::write(master, state.to_tool.rest()) {
            Ok(count) => state.to_tool.wrote(count),
            Err(rustix::io::Errno::AGAIN) => return Err(io::ErrorKind::WouldBlock.into()),
            Err(_) => state.to_tool.wrote(usize::MAX),
        }
        Ok(())
    }
}

impl State {
    /// Write up to `most` of what is pending.
    fn write_out(&mut self, terminal: impl AsFd, most: usize) -> io::Result<()> {
        let bytes = self.to_terminal.rest();
        match rustix::io::write(terminal, bytes.get(..most).unwrap_or(bytes)) {
            Ok(count) => {
                self.screen.write(bytes.get(..count).unwrap_or_default());
                self.to_terminal.wrote(count);
            }
            Err(rustix::io::Errno::AGAIN) => return Err(io::ErrorKind::WouldBlock.into()),
            Err(_) => {
                self.is_mute = true;
                self.to_terminal.wrote(usize::MAX);
            }
        }
        Ok(())
    }
}

/// Fill an empty buffer once; 0 is the end.
fn read(fd: impl AsFd, bytes: &mut Vec<u8>) -> io::Result<usize> {
    bytes.clear();
    bytes.resize(CHUNK, 0);
    let count = rustix::io::read(fd, bytes.as_mut_slice());
    bytes.truncate(count.unwrap_or(0));
    Ok(count?)
}

/// The relay as a consent agent holds it: there is none until the session has its pty. A prompt may be there before that.
#[derive(Clone, Default)]
pub struct SharedScreen(Rc<Shared>);

#[derive(Default)]
struct Shared {
    relay: RefCell<Option<Relay>>,
    /// Whether a prompt has the terminal.
    paused: Cell<bool>,
    resumed: Notify,
}

impl SharedScreen {
    /// One that has come while a prompt is shown rests until that is over.
    pub fn set(&self, relay: &Relay) {
        relay.0.state.borrow_mut().paused = self.0.paused.get();
        *self.0.relay.borrow_mut() = Some(relay.clone());
    }

    /// Until no prompt has the terminal.
    pub async fn resumed(&self) {
        while self.0.paused.get() {
            self.0.resumed.notified().await;
        }
    }

    fn relay(&self) -> Option<Relay> {
        self.0.relay.borrow().clone()
    }
}

impl consent::Screen for SharedScreen {
    fn pause(&mut self) -> io::Result<Paused> {
        let Some(Relay(ends)) = self.relay() else {
            self.0.paused.set(true);
            return Ok(Paused::default());
        };
        let state = &mut *ends.state.borrow_mut();
        state.paused = true;
        // What is left of a whole sequence goes out now; what is none is held until after the prompt.
        let mut whole = state.screen.whole_length(state.to_terminal.rest());
        while whole > 0 && !state.is_mute {
            let before = state.to_terminal.rest().len();
            match state.write_out(&ends.terminal, whole) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let mut polled = [PollFd::new(&ends.terminal, PollFlags::OUT)];
                    if poll(&mut polled, Some(&PATIENCE)).unwrap_or(0) == 0 {
                        state.paused = false;
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                }
                done => done?,
            }
            whole = whole.saturating_sub(before.saturating_sub(state.to_terminal.rest().len()));
        }
        if !state.screen.is_whole() {
            // A terminal that does not take it shows a prompt that begins with the rest of the tool's sequence.
            let _ = rustix::io::write(&ends.terminal, CANCEL);
            state.screen.write(CANCEL);
        }
        self.0.paused.set(true);
        Ok(Paused { alternate: state.screen.is_alternate() })
    }

    fn resume(&mut self, overwritten: bool) {
        self.0.paused.set(false);
        self.0.resumed.notify_one();
        let Some(Relay(ends)) = self.relay() else { return };
        ends.state.borrow_mut().paused = false;
        ends.changed.notify_one();
        if overwritten && let Ok(size) = tcgetwinsize(ends.master.get_ref()) {
            // The kernel sends SIGWINCH for a change only; a session that has ended needs none.
            let other = Winsize { ws_row: size.ws_row.saturating_add(1), ..size };
            let _ = tcsetwinsize(ends.master.get_ref(), other);
            let _ = tcsetwinsize(ends.master.get_ref(), size);
        }
    }
}

#[cfg(test)]
mod tests {
    use nix::pty::{OpenptyResult, openpty};

    use super::*;
    use crate::consent::terminal::Screen as _;

    #[tokio::test(flavor = "current_thread")]
    async fn a_relay_that_comes_while_a_prompt_is_shown_leaves_the_terminal_to_it() {
        let OpenptyResult { master: person, slave: terminal } = openpty(None, None).unwrap();
        let OpenptyResult { master, slave: tool } = openpty(None, None).unwrap();
        let mut screen = SharedScreen::default();
        screen.pause().unwrap();
        let relay = Relay::new(CallersTerminal::of(terminal), master).unwrap();
        screen.set(&relay);
        assert!(relay.is_paused());

        rustix::io::write(&tool, b"drawn over the prompt").unwrap();
        screen.clone().resume(false);
        screen.resumed().await;
        assert!(!relay.is_paused());
        let mut seen = [0; 5];
        let mut shown = std::pin::pin!(tokio::task::spawn_blocking(move || {
            rustix::io::read(&person, &mut seen).map(|count| (count, seen))
        }));
        let shown = loop {
            tokio::select! {
                shown = &mut shown => break shown,
                turned = relay.turn() => turned.unwrap(),
            }
        };
        assert_eq!(shown.unwrap().unwrap(), (5, *b"drawn"));
    }
}
