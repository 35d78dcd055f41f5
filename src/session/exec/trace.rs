//! The raw calls of ptrace(2) and wait(2) for one execve(2): attach, wait for its stop, let go.
//!
//! Runs as the user in the supervisor, on a thread of the pool, which is the tracer: only it may make these calls, and it
//! has one tracee at a time. If this process dies, the kernel kills the tracee (`PTRACE_O_EXITKILL`).

use std::io;

use crate::common::errno::Errno;

/// linux/ptrace.h: `PTRACE_EVENT_STOP`.
const EVENT_STOP: i32 = 128;

/// What has become of the tracee. Ids are of thread groups after an exec, of threads before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A new program stands before its first instruction.
    Executed(i32),
    /// The thread is on its way back from a call that failed, or stopped with its process.
    Stopped(i32),
    /// It is about to take this signal.
    Signal(i32, i32),
    /// It has ended, and is reaped.
    Ended,
}

/// Attaches to a thread without stopping it, so that it stops when it has executed and is killed with this process.
pub fn seize(thread: i32) -> Result<(), Errno> {
    let options = libc::PTRACE_O_TRACEEXEC | libc::PTRACE_O_EXITKILL;
    request(libc::PTRACE_SEIZE, thread, options as usize)
}

/// Has a seized thread stop when it next returns from the kernel.
pub fn interrupt(thread: i32) -> Result<(), Errno> {
    request(libc::PTRACE_INTERRUPT, thread, 0)
}

/// Lets go of a thread that stands, and delivers this signal to it (0: none). One that was killed meanwhile is let go too.
pub fn detach(thread: i32, signal: i32) -> Result<(), Errno> {
    request(libc::PTRACE_DETACH, thread, signal as usize)
}

/// Waits for the calling thread's tracee, whatever its id is by now.
/// `ECHILD` if there is none any more: another thread of its process has executed.
pub fn wait() -> Result<Event, Errno> {
    let mut status = 0;
    loop {
        // SAFETY: the kernel writes one int to the live variable that the pointer names.
        let waited = unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL | libc::__WNOTHREAD) };
        if waited > 0 {
            return Ok(event(waited, status));
        }
        match Errno::of(&io::Error::last_os_error()) {
            // A thread of the watch takes this one for a late one.
            Errno::INTR => {}
            errno => return Err(errno),
        }
    }
}

fn event(thread: i32, status: i32) -> Event {
    if !libc::WIFSTOPPED(status) {
        return Event::Ended;
    }
    match status >> 16 {
        libc::PTRACE_EVENT_EXEC => Event::Executed(thread),
        EVENT_STOP => Event::Stopped(thread),
        _ => Event::Signal(thread, libc::WSTOPSIG(status)),
    }
}

fn request(request: libc::c_uint, thread: i32, data: usize) -> Result<(), Errno> {
    // SAFETY: none of the requests of this file reads or writes memory of this process; `data` is a number to all of them.
    let done = unsafe { libc::ptrace(request, thread, std::ptr::null_mut::<libc::c_void>(), data) };
    if done == 0 { Ok(()) } else { Err(Errno::of(&io::Error::last_os_error())) }
}
