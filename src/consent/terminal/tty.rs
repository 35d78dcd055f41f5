//! The terminal itself: modes, what is written to it and what comes from it. Everything that is changed here is put back
//! when its guard is dropped, or by a panic hook where a panic aborts.

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, Once, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::termios::{
    Action, InputModes, LocalModes, OptionalActions, OutputModes, QueueSelector, SpecialCodeIndex, Termios, tcflow,
    tcflush, tcgetattr, tcgetpgrp, tcgetwinsize, tcsetattr,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::common::text;
use crate::common::wire::WindowSize;

/// Bytes that one read brings at the most, and that are kept of a burst; more of it are read and forgotten, and such a burst
/// means nothing anyway.
pub const MOST: usize = 256;
/// How long a terminal that takes no output may hold up the end of a prompt.
const FAREWELL: Timespec = Timespec { tv_sec: 0, tv_nsec: 250_000_000 };

/// How a prompt is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// On the alternate screen, which leaves the main one as it was.
    Alternate,
    /// Over what the tool has on the alternate screen.
    Over,
    /// Line after line, for a terminal of which nothing is known.
    Lines,
    /// On the alternate screen without a cursor, by a program that has the terminal for itself ([`Shown::draw`]).
    Alone,
}

impl Style {
    /// Colours, character sets and origin mode are saved with the cursor (`CSI ?1049h` and `ESC 7`); the keyboard protocol
    /// of kitty, in which keys come as escape sequences, is pushed.
    fn enter(self) -> &'static str {
        match self {
            Style::Alternate => "\x1b[?1049h\x1b[>0u\x1b[0m\x1b(B\x0f\x1b[?6l",
            Style::Over => "\x1b7\x1b[>0u\x1b[0m\x1b(B\x0f\x1b[?6l",
            Style::Lines => "\r\n",
            Style::Alone => "\x1b[?1049h\x1b[>0u\x1b[0m\x1b(B\x0f\x1b[?6l\x1b[?25l\x1b[2J",
        }
    }

    fn leave(self) -> &'static str {
        match self {
            Style::Alternate => "\x1b[0m\x1b[<u\x1b[?1049l",
            Style::Over => "\x1b[0m\x1b[2J\x1b[<u\x1b8",
            Style::Lines => "\r\n",
            // A console without an alternate screen is cleared at least.
            Style::Alone => "\x1b[0m\x1b[2J\x1b[H\x1b[?25h\x1b[<u\x1b[?1049l",
        }
    }
}

/// Whether a terminal has an alternate screen and knows the sequences used here.
pub fn is_capable(term: &str) -> bool {
    const KIN: [&str; 17] = [
        "xterm",
        "screen",
        "tmux",
        "rxvt",
        "alacritty",
        "foot",
        "konsole",
        "gnome",
        "vte",
        "st",
        "wezterm",
        "contour",
        "putty",
        "mintty",
        "iterm",
        "ghostty",
        "kitty",
    ];
    let family = term.split(['-', '.', '+']).next().unwrap_or_default();
    KIN.contains(&family) || family.starts_with("iterm") || family.starts_with("rxvt")
}

/// Makes an own description of a terminal non-blocking; fails with `ENOTTY` for anything else.
pub fn prepare(tty: &OwnedFd) -> io::Result<()> {
    tcgetattr(tty)?;
    let flags = rustix::fs::fcntl_getfl(tty)?;
    Ok(rustix::fs::fcntl_setfl(tty, flags | OFlags::NONBLOCK)?)
}

/// A terminal, registered with the runtime.
pub struct Tty<'a> {
    fd: AsyncFd<BorrowedFd<'a>>,
    burst: Duration,
}

impl<'a> Tty<'a> {
    #[expect(deprecated, reason = "its successor is unsafe; a borrowed descriptor stays open as long as this lives")]
    pub fn new(fd: &'a OwnedFd, burst: Duration) -> io::Result<Tty<'a>> {
        let fd = AsyncFd::with_interest(fd.as_fd(), Interest::READABLE | Interest::WRITABLE)?;
        Ok(Tty { fd, burst })
    }

    /// Whether this process may read from the terminal without being stopped; also if job control does not apply.
    pub fn in_foreground(&self) -> bool {
        tcgetpgrp(self.fd.get_ref()).map_or(true, |group| group == rustix::process::getpgrp())
    }

    /// 24 lines of 80 columns where the terminal does not know.
    pub fn size(&self) -> WindowSize {
        let size = tcgetwinsize(self.fd.get_ref()).ok().filter(|size| size.ws_row > 0 && size.ws_col > 0);
        size.map_or(WindowSize { rows: 24, columns: 80 }, |size| WindowSize { rows: size.ws_row, columns: size.ws_col })
    }

    /// Takes the terminal for a prompt.
    pub fn show(&'a self, style: Style) -> io::Result<Shown<'a>> {
        let tty = *self.fd.get_ref();
        let saved = tcgetattr(tty)?;
        let mut modes = saved.clone();
        // ^C is a byte, because the signal would end the client; ^S must not stop the prompt.
        modes.local_modes &=
            !(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ECHONL | LocalModes::ISIG | LocalModes::IEXTEN);
        modes.input_modes &= !(InputModes::IXON | InputModes::ISTRIP | InputModes::INLCR | InputModes::IGNCR);
        modes.output_modes |= OutputModes::OPOST;
        modes.special_codes[SpecialCodeIndex::VMIN] = 1;
        modes.special_codes[SpecialCodeIndex::VTIME] = 0;
        restore_on_panic(tty, &saved, style);
        let shown = Shown { tty: self, style, saved, entered: Cell::new(false) };
        tcsetattr(tty, OptionalActions::Now, &modes)?;
        // Output that ^S has stopped.
        tcflow(tty, Action::OOn)?;
        Ok(shown)
    }

    /// Writes a line if the terminal takes it at once.
    pub fn note(&self, line: &str) {
        let _ = rustix::io::write(self.fd.get_ref(), line.as_bytes());
    }

    async fn write(&self, text: &str) -> io::Result<()> {
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            let mut ready = self.fd.writable().await?;
            match ready.try_io(|fd| Ok(rustix::io::write(fd.get_ref(), rest)?)) {
                Ok(Ok(written)) => rest = rest.get(written..).unwrap_or_default(),
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(Err(error)) => return Err(error),
                Err(_would_block) => {}
            }
        }
        Ok(())
    }

    /// At least one byte; an error if the terminal is gone.
    async fn read(&self) -> io::Result<Vec<u8>> {
        let mut buffer = [0; MOST];
        loop {
            let mut ready = self.fd.readable().await?;
            match ready.try_io(|fd| Ok(rustix::io::read(fd.get_ref(), &mut buffer)?)) {
                Ok(Ok(0)) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(Ok(count)) => return Ok(buffer.get(..count).unwrap_or_default().to_vec()),
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(Err(error)) => return Err(error),
                Err(_would_block) => {}
            }
        }
    }
}

/// A terminal that shows a prompt; as it was before when this is dropped.
pub struct Shown<'a> {
    tty: &'a Tty<'a>,
    style: Style,
    saved: Termios,
    /// Whether [`Style::enter`] may have been written.
    entered: Cell<bool>,
}

impl Shown<'_> {
    /// Draws everything above the line of input.
    pub async fn page(&self, lines: &[String]) -> io::Result<()> {
        let mut text = if self.entered.replace(true) { String::new() } else { self.style.enter().to_owned() };
        match self.style {
            Style::Lines => lines.iter().for_each(|line| text.extend([line, "\r\n"])),
            Style::Alternate | Style::Over | Style::Alone => {
                text.push_str("\x1b[2J");
                // By position, and not with newlines: a tool may have left a scroll region.
                for (at, line) in lines.iter().enumerate() {
                    let (bold, plain) = if at == 0 { ("\x1b[1m", "\x1b[0m") } else { ("", "") };
                    text.push_str(&format!("\x1b[{};1H{bold}{line}{plain}", at.saturating_add(1)));
                }
                text.push_str(&format!("\x1b[{};1H", lines.len().saturating_add(1)));
            }
        }
        self.tty.write(&text).await
    }

    /// Draws the line of input; the cursor stays behind it.
    pub async fn line(&self, line: &str) -> io::Result<()> {
        match self.style {
            Style::Lines => self.tty.write(&format!("\r\n{line}")).await,
            Style::Alternate | Style::Over | Style::Alone => self.tty.write(&format!("\r\x1b[K{line}")).await,
        }
    }

    /// Draws a line with the cursor within it, behind `before`, which it begins with.
    pub async fn edited(&self, line: &str, before: &str, columns: usize) -> io::Result<()> {
        match self.style {
            // Without sequences the rest of the line is overwritten, and the cursor is brought back by writing.
            Style::Lines => {
                let blanks = columns.saturating_sub(1).saturating_sub(text::columns(line));
                self.tty.write(&format!("\r{line}{}\r{before}", " ".repeat(blanks))).await
            }
            Style::Alternate | Style::Over | Style::Alone => self.tty.write(&format!("\r\x1b[K{line}\r{before}")).await,
        }
    }

    /// Writes what somebody else made, on a screen that was entered with [`Style::Alone`].
    pub async fn draw(&self, text: &str) -> io::Result<()> {
        if !self.entered.replace(true) {
            self.tty.write(self.style.enter()).await?;
        }
        self.tty.write(text).await
    }

    /// What is typed, as it comes.
    pub async fn keys(&self) -> io::Result<Vec<u8>> {
        self.tty.read().await
    }

    /// How long a pause ends a burst.
    pub fn pause(&self) -> Duration {
        self.tty.burst
    }

    /// Waits, and discards whatever has come until then.
    pub async fn quiet(&self, guard: Duration) -> io::Result<()> {
        let tty = self.tty.fd.get_ref();
        tcflush(tty, QueueSelector::IFlush)?;
        tokio::time::sleep(guard).await;
        Ok(tcflush(tty, QueueSelector::IFlush)?)
    }

    /// What is typed without a pause.
    pub async fn burst(&self) -> io::Result<Vec<u8>> {
        let mut burst = self.tty.read().await?;
        while let Ok(more) = tokio::time::timeout(self.tty.burst, self.tty.read()).await {
            burst.extend(more?);
            burst.truncate(MOST);
        }
        Ok(burst)
    }
}

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        let tty = *self.tty.fd.get_ref();
        // What was typed at the prompt is not for the tool.
        let _ = tcflush(tty, QueueSelector::IFlush);
        put_back(tty, &self.saved, if self.entered.get() { self.style.leave() } else { "" });
        *TAKEN.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

fn put_back(tty: BorrowedFd<'_>, saved: &Termios, leave: &str) {
    let mut rest = leave.as_bytes();
    while !rest.is_empty() {
        let mut ready = [PollFd::new(&tty, PollFlags::OUT)];
        if !matches!(poll(&mut ready, Some(&FAREWELL)), Ok(1..)) {
            break;
        }
        match rustix::io::write(tty, rest) {
            Ok(written) => rest = rest.get(written..).unwrap_or_default(),
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
            Err(_) => break,
        }
    }
    let _ = tcsetattr(tty, OptionalActions::Now, saved);
}

/// The terminal that a prompt has taken.
static TAKEN: Mutex<Option<(OwnedFd, Termios, Style)>> = Mutex::new(None);

/// Has the terminal put back by a panic too: with `panic = "abort"` nothing is dropped.
fn restore_on_panic(tty: BorrowedFd<'_>, saved: &Termios, style: Style) {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if let Ok(mut taken) = TAKEN.try_lock()
                && let Some((tty, saved, style)) = taken.take()
            {
                put_back(tty.as_fd(), &saved, style.leave());
            }
            before(panic);
        }));
    });
    // Without a descriptor to spare the hook has nothing to do; dropping still works.
    let own = rustix::io::fcntl_dupfd_cloexec(tty, 3).ok();
    *TAKEN.lock().unwrap_or_else(PoisonError::into_inner) = own.map(|own| (own, saved.clone(), style));
}
