//! The exec itself: attach to the thread, let the kernel run the call, and compare what stands at the exec stop with what was
//! judged, before its first instruction.
//!
//! Runs as the user in the supervisor, on the thread of the pool that received the call, which is the tracer. It stays until
//! the call has failed, the new program was let go, or is dead and reaped; a tracee is never left behind. The new memory is
//! nobody else's: the old one is gone with the threads that shared it, and no process of the session may write to it (ptrace
//! and `process_vm_writev` are refused, `/proc/PID/mem` is never opened for writing).

use std::ffi::CString;
use std::os::fd::BorrowedFd;

use rustix::fs::{AtFlags, Mode, OFlags, openat, statat};

use super::chain::{Found, judged_variables, seen_by};
use super::trace::{self, Event};
use crate::common::errno::Errno;
use crate::policy::Policy;
use crate::session::judge::{Judge, Permit};
use crate::session::listener::{Answer, Compared};
use crate::session::processor::Here;
use crate::session::procthread::ProcThread;
use crate::session::target::Target;

/// Bytes of argv that are compared at a time.
const CHUNK: usize = 4096;
/// Beyond what the kernel lets argv and environment be.
const ENVIRONMENT_BYTES: usize = 8 << 20;

/// Answers the thread and stays until it is known what came of it.
pub fn carry_out(judge: &Judge, target: &Target<'_>, found: &Found, permit: Permit, debugging: bool) {
    let thread = target.notification().thread;
    match trace::seize(thread) {
        Ok(()) => {}
        // A debugger has it, which can have it run anything.
        Err(Errno::PERM) if debugging && is_traced(target) => {
            target.listener().answer(target.notification(), Answer::Execute(Compared::at_the_exec_stop(permit)));
            return target.call().executed(thread);
        }
        Err(errno) => {
            tracing::warn!(%errno, thread, "cannot attach to a thread that is to execute");
            return target.listener().answer(target.notification(), Answer::Errno(Errno::ACCES));
        }
    }
    // From here on it is ours until it is let go. A thread that has the number of one that is gone gets no answer by this.
    // If it is none of ours, because its number is another's by now, it is only let go.
    let is_ours = target.confirm().is_ok();
    // This thread first: the other one is to be where it is.
    let _stays = Here::stay();
    let here = if is_ours { Here::keep(thread) } else { None };
    if trace::interrupt(thread).is_ok() {
        target.listener().answer(target.notification(), Answer::Execute(Compared::at_the_exec_stop(permit)));
    }
    stay(judge, target, found, is_ours, here);
}

/// Until there is no tracee any more.
fn stay(judge: &Judge, target: &Target<'_>, found: &Found, is_ours: bool, mut here: Option<Here>) {
    loop {
        let (thread, signal) = match trace::wait() {
            // The threads of a process end when one of them executes.
            Err(_) | Ok(Event::Ended) => return,
            Ok(Event::Stopped(thread)) => (thread, 0),
            Ok(Event::Signal(thread, signal)) => (thread, signal),
            Ok(Event::Executed(process)) if !is_ours => (process, 0),
            Ok(Event::Executed(process)) => {
                if let Some(here) = &mut here {
                    here.is_now(process);
                }
                if let Err(difference) = compare(judge.policy(), target.procfs(), process, found) {
                    tracing::warn!(process, ?difference, "killed: it executed something else than was judged");
                    let who = ProcThread::open(target.procfs(), process).ok().and_then(|own| own.who().ok());
                    kill(process);
                    if let Some(who) = who {
                        judge.record_exchanged(target, who, &found.command);
                    }
                    // Its parent hears of its end when it was reaped here.
                    continue;
                }
                target.call().executed(process);
                (process, 0)
            }
        };
        // From here on it may go wherever it could before.
        drop(here.take());
        match trace::detach(thread, signal) {
            Ok(()) => return,
            // Killed while it stood: its end is still to be waited for.
            Err(_) => continue,
        }
    }
}

/// A tracee's number is its own until it is reaped.
fn kill(process: i32) {
    if let Some(process) = rustix::process::Pid::from_raw(process) {
        let _ = rustix::process::kill_process(process, rustix::process::Signal::KILL);
    }
}

fn is_traced(target: &Target<'_>) -> bool {
    target.status().is_ok_and(|status| status.tracer != 0)
}

/// What was executed is not what was judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Difference {
    Program,
    Argv,
    Variables,
    Directory,
    Script,
    /// It could not be read, which is as bad.
    Unreadable,
}

impl From<rustix::io::Errno> for Difference {
    fn from(_: rustix::io::Errno) -> Difference {
        Difference::Unreadable
    }
}

fn compare(policy: &Policy, procfs: BorrowedFd<'_>, process: i32, found: &Found) -> Result<(), Difference> {
    let path = |name: &str| CString::new(format!("{process}/{name}")).map_err(|_| Difference::Unreadable);
    let exe = statat(procfs, path("exe")?, AtFlags::empty())?;
    if (exe.st_dev, exe.st_ino) != found.runs {
        return Err(Difference::Program);
    }
    let open = |path: CString| openat(procfs, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    let mut line = Stream::new(open(path("cmdline")?)?);
    for word in found.argv() {
        if !line.begins_with(word)? || !line.begins_with(b"\0")? {
            return Err(Difference::Argv);
        }
    }
    if !line.is_over()? {
        return Err(Difference::Argv);
    }
    if found.has_environment {
        let all = Stream::new(open(path("environ")?)?).rest(ENVIRONMENT_BYTES)?;
        let all = all.strip_suffix(b"\0").unwrap_or(&all);
        if judged_variables(policy, all.split(|byte| *byte == 0)) != found.command.variables {
            return Err(Difference::Variables);
        }
    }
    // Nobody shares a cwd with another process, see the filter on clone(2): from here on only the program itself moves.
    let cwd = rustix::fs::readlinkat(procfs, path("cwd")?, Vec::with_capacity(256))?;
    if cwd.as_bytes() != found.command.cwd.as_bytes() {
        return Err(Difference::Directory);
    }
    // The interpreter opens a script by its name once more, later; this only keeps a short exchange from being a way.
    let script = found.script.as_ref().and_then(|(path, identity)| Some((seen_by(process, path)?, *identity)));
    if let Some((path, identity)) = script
        && let Ok(now) = statat(procfs, path, AtFlags::empty())
        && (now.st_dev, now.st_ino) != identity
    {
        return Err(Difference::Script);
    }
    Ok(())
}

/// A file of procfs, read once from its beginning.
struct Stream {
    file: std::os::fd::OwnedFd,
    buffer: [u8; CHUNK],
    from: usize,
    to: usize,
}

impl Stream {
    fn new(file: std::os::fd::OwnedFd) -> Stream {
        Stream { file, buffer: [0; CHUNK], from: 0, to: 0 }
    }

    /// What is in the buffer; empty at the end of the file.
    fn ahead(&mut self) -> rustix::io::Result<&[u8]> {
        if self.from == self.to {
            self.from = 0;
            self.to = rustix::io::retry_on_intr(|| rustix::io::read(&self.file, &mut self.buffer))?;
        }
        Ok(self.buffer.get(self.from..self.to).unwrap_or_default())
    }

    /// Takes these bytes, if they come next.
    fn begins_with(&mut self, mut bytes: &[u8]) -> rustix::io::Result<bool> {
        while !bytes.is_empty() {
            let ahead = self.ahead()?;
            let length = ahead.len().min(bytes.len());
            let (now, later) = bytes.split_at(length);
            if length == 0 || ahead.get(..length) != Some(now) {
                return Ok(false);
            }
            self.from = self.from.saturating_add(length);
            bytes = later;
        }
        Ok(true)
    }

    fn is_over(&mut self) -> rustix::io::Result<bool> {
        Ok(self.ahead()?.is_empty())
    }

    fn rest(mut self, most: usize) -> Result<Vec<u8>, Difference> {
        let mut all = Vec::new();
        loop {
            let ahead = self.ahead()?;
            if ahead.is_empty() {
                return Ok(all);
            }
            all.extend_from_slice(ahead);
            if all.len() > most {
                return Err(Difference::Unreadable);
            }
            self.from = self.to;
        }
    }
}
