//! The caller's terminal: raw while the session has it, and as it was on every way out. Runs as the invoking user, but for
//! [`CallersTerminal::find`], which runs as root where there is root.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::termios::{OptionalActions, Termios, isatty, tcgetattr, tcgetpgrp, tcgetwinsize, tcsetattr, tcsetwinsize};

use crate::common::wire::WindowSize;

/// A terminal's attributes as they were, for the panic hook: there is one terminal in a process.
static BEFORE: Mutex<Option<(OwnedFd, Termios)>> = Mutex::new(None);

/// The terminal that stands behind stdin, stdout or stderr.
pub struct CallersTerminal {
    /// A description of its own, so that making it non-blocking does not show in the caller's.
    fd: OwnedFd,
}

/// Which of stdin, stdout and stderr are terminals.
pub fn standard_terminals() -> [bool; 3] {
    [isatty(rustix::stdio::stdin()), isatty(rustix::stdio::stdout()), isatty(rustix::stdio::stderr())]
}

/// Whether this standard file is the controlling terminal of this process: no other tells its foreground group (tcgetpgrp(3)).
fn is_controlling(number: usize) -> bool {
    let standard = [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()];
    standard.get(number).is_some_and(|fd| tcgetpgrp(fd).is_ok())
}

impl CallersTerminal {
    /// The first of stdin, stdout and stderr that is one; `None` if none is.
    pub fn find() -> io::Result<Option<CallersTerminal>> {
        let Some(number) = standard_terminals().iter().position(|is_terminal| *is_terminal) else { return Ok(None) };
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fd = match openat(CWD, format!("/proc/self/fd/{number}"), flags, Mode::empty()) {
            // Another user's, as after su(1). Who has it as the controlling terminal may open it by its other name, tty(4).
            Err(rustix::io::Errno::ACCESS) if is_controlling(number) => openat(CWD, "/dev/tty", flags, Mode::empty())?,
            opened => opened?,
        };
        Ok(Some(CallersTerminal { fd }))
    }

    #[cfg(test)]
    pub fn of(fd: OwnedFd) -> CallersTerminal {
        CallersTerminal { fd }
    }

    pub fn window(&self) -> Option<WindowSize> {
        tcgetwinsize(&self.fd).ok().map(|size| WindowSize { rows: size.ws_row, columns: size.ws_col })
    }

    /// Give the session's pty this terminal's size; the kernel tells its foreground processes (SIGWINCH).
    pub fn copy_window_to(&self, master: impl AsFd) {
        if let Ok(size) = tcgetwinsize(&self.fd) {
            // A master whose session has ended has no size to set.
            let _ = tcsetwinsize(master, size);
        }
    }

    /// Whether this process is in the terminal's foreground, where it may change it and read it.
    pub fn is_ours(&self) -> bool {
        tcgetpgrp(&self.fd).is_ok_and(|group| group == rustix::process::getpgrp())
    }

    /// Hand every key to the session as it is; the pty's own line discipline treats ^C and ^Z.
    pub fn make_raw(&self) -> io::Result<()> {
        let before = tcgetattr(&self.fd)?;
        let mut raw = before.clone();
        raw.make_raw();
        let mut saved = BEFORE.lock().unwrap_or_else(PoisonError::into_inner);
        if saved.is_none() {
            *saved = Some((self.fd.try_clone()?, before));
        }
        drop(saved);
        Ok(tcsetattr(&self.fd, OptionalActions::Drain, &raw)?)
    }
}

impl AsFd for CallersTerminal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Put the terminal back as it was before [`CallersTerminal::make_raw`]; nothing if it was not called.
pub fn restore() {
    if let Some((fd, before)) = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take() {
        // A terminal that is gone cannot be restored.
        let _ = tcsetattr(&fd, OptionalActions::Drain, &before);
    }
}

/// [`restore`] on every way out of a scope.
pub struct RestoredAtEnd;

impl Drop for RestoredAtEnd {
    fn drop(&mut self) {
        restore();
    }
}

/// [`restore`] before a panic's message: the release build aborts without unwinding.
pub fn restore_on_panic() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        restore();
        print(panic);
    }));
}
