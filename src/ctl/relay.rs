//! Bytes between the caller's terminal and the session's pty. Runs as the invoking user; the output is the tool's and goes to the
//! terminal as it would without us.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use tokio::io::unix::AsyncFd;

use super::terminal::CallersTerminal;
use crate::tool::descriptors::watched;

/// Bytes held in one direction at the most; nothing more is read until they are written.
const CHUNK: usize = 16 << 10;

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

/// The two directions; [`Relay::turn`] moves a piece of one of them.
pub struct Relay {
    terminal: CallersTerminal,
    /// The same open terminal.
    screen_and_keys: AsyncFd<OwnedFd>,
    master: AsyncFd<OwnedFd>,
    to_tool: Pending,
    to_terminal: Pending,
    screen: Screen,
    /// Whether keys are read from the terminal: not while it is another program's.
    reads: bool,
    /// Whether somebody else has the terminal for a prompt.
    paused: bool,
    /// The terminal is gone: the tool's output has nowhere to go.
    is_mute: bool,
    is_over: bool,
}

impl Relay {
    /// Both descriptors become non-blocking. Needs a tokio runtime.
    pub fn new(terminal: CallersTerminal, master: OwnedFd) -> io::Result<Relay> {
        rustix::io::ioctl_fionbio(&master, true)?;
        Ok(Relay {
            screen_and_keys: watched(terminal.as_fd().try_clone_to_owned()?)?,
            terminal,
            master: watched(master)?,
            to_tool: Pending::default(),
            to_terminal: Pending::default(),
            screen: Screen::default(),
            reads: false,
            paused: false,
            is_mute: false,
            is_over: false,
        })
    }

    pub fn terminal(&self) -> &CallersTerminal {
        &self.terminal
    }

    /// Read keys from the terminal, or leave them to others.
    pub fn set_reading(&mut self, reads: bool) {
        self.reads = reads;
    }

    /// Hold the tool's output and leave the keys to whoever shows a prompt.
    pub fn pause(&mut self) {
        self.paused = true;
    }

    /// Go on after [`Relay::pause`]. A program that had the whole screen is told that its size changed, so that it draws
    /// it again.
    pub fn resume(&mut self) {
        self.paused = false;
        if self.screen.is_alternate {
            self.nudge();
        }
    }

    /// Change the pty's size by one row and back: the kernel sends SIGWINCH for a change only.
    fn nudge(&self) {
        let master = self.master.get_ref();
        if let Ok(size) = rustix::termios::tcgetwinsize(master) {
            let other = rustix::termios::Winsize { ws_row: size.ws_row.saturating_add(1), ..size };
            // A session that has ended needs no redrawing.
            let _ = rustix::termios::tcsetwinsize(master, other);
            let _ = rustix::termios::tcsetwinsize(master, size);
        }
    }

    pub fn copy_window(&self) {
        self.terminal.copy_window_to(self.master.get_ref());
    }

    /// Whether the session's side has closed the pty and everything it wrote was shown.
    pub fn is_over(&self) -> bool {
        self.is_over && (self.to_terminal.is_empty() || self.is_mute)
    }

    /// Move some bytes; waits until that is possible, for ever while paused or over. May be dropped at any await.
    pub async fn turn(&mut self) -> io::Result<()> {
        let Relay {
            terminal: _,
            screen_and_keys: terminal,
            master,
            to_tool,
            to_terminal,
            screen,
            reads,
            paused,
            is_mute,
            is_over,
        } = self;
        let takes_keys = *reads && !*paused && !*is_mute && !*is_over && to_tool.is_empty();
        let takes_output = !*paused && !*is_over && to_terminal.is_empty();
        tokio::select! {
            ready = master.readable(), if takes_output => match ready?.try_io(|fd| read(fd, &mut to_terminal.bytes)) {
                Ok(Ok(0)) => *is_over = true,
                Ok(Ok(_)) => {
                    screen.watch(&to_terminal.bytes);
                    if *is_mute {
                        to_terminal.wrote(usize::MAX);
                    }
                }
                // EIO: the last descriptor of the slave is closed (pty(7)).
                Ok(Err(_)) => *is_over = true,
                Err(_not_ready) => {}
            },
            ready = terminal.writable(), if !to_terminal.is_empty() && !*paused && !*is_mute => {
                match ready?.try_io(|fd| Ok(rustix::io::write(fd, to_terminal.rest())?)) {
                    Ok(Ok(count)) => to_terminal.wrote(count),
                    Ok(Err(_)) => {
                        *is_mute = true;
                        to_terminal.wrote(usize::MAX);
                    }
                    Err(_not_ready) => {}
                }
            },
            ready = terminal.readable(), if takes_keys => match ready?.try_io(|fd| read(fd, &mut to_tool.bytes)) {
                Ok(Ok(0) | Err(_)) => *reads = false,
                Ok(Ok(_)) | Err(_) => {}
            },
            ready = master.writable(), if !to_tool.is_empty() && !*is_over => {
                match ready?.try_io(|fd| Ok(rustix::io::write(fd, to_tool.rest())?)) {
                    Ok(Ok(count)) => to_tool.wrote(count),
                    Ok(Err(_)) => to_tool.wrote(usize::MAX),
                    Err(_not_ready) => {}
                }
            },
            else => std::future::pending().await,
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

/// Whether the tool's output has switched the terminal to its alternate screen (xterm's private modes 47, 1047, 1049).
#[derive(Default)]
struct Screen {
    is_alternate: bool,
    /// The unfinished control sequence at the end of what was seen.
    tail: Vec<u8>,
}

impl Screen {
    /// Longer than any sequence that matters.
    const TAIL: usize = 16;

    fn watch(&mut self, output: &[u8]) {
        let mut seen = std::mem::take(&mut self.tail);
        seen.extend_from_slice(output);
        for at in 0..seen.len() {
            let rest = seen.get(at..).unwrap_or_default();
            let Some(mode) = rest.strip_prefix(b"\x1b[?") else { continue };
            let digits = mode.iter().take_while(|byte| byte.is_ascii_digit()).count();
            if matches!(mode.get(..digits), Some(b"47" | b"1047" | b"1049")) {
                match mode.get(digits) {
                    Some(b'h') => self.is_alternate = true,
                    Some(b'l') => self.is_alternate = false,
                    _ => {}
                }
            }
        }
        let last = seen.iter().rposition(|byte| *byte == 0x1b).unwrap_or(seen.len());
        let tail = seen.get(last..).unwrap_or_default();
        if tail.len() < Screen::TAIL {
            self.tail = tail.to_vec();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Screen;

    #[test]
    fn the_alternate_screen_is_seen_across_reads() {
        let mut screen = Screen::default();
        screen.watch(b"text\x1b[?10");
        assert!(!screen.is_alternate);
        screen.watch(b"49h more");
        assert!(screen.is_alternate);
        screen.watch(b"\x1b[?25l\x1b[?1049l");
        assert!(!screen.is_alternate);
    }
}
