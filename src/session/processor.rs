//! A thread that is held is kept on the processor of the thread that holds it, where the two only take turns: an idle processor that
//! is woken for one of them, and this one by it, costs ten times what they do.
//!
//! Runs as the user in the supervisor, on threads of the tool that stand still or are about to.

use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// A thread that runs on the calling thread's processor alone, until this is dropped.
#[derive(Debug)]
pub struct Here {
    /// `None`: the calling one.
    thread: Option<Pid>,
    everywhere: CpuSet,
}

impl Here {
    /// `None` where that is not to be had, or makes no difference.
    pub fn keep(thread: i32) -> Option<Here> {
        Here::of(Some(Pid::from_raw(thread)?))
    }

    /// The calling thread itself stays where it is.
    pub fn stay() -> Option<Here> {
        Here::of(None)
    }

    fn of(thread: Option<Pid>) -> Option<Here> {
        let everywhere = sched_getaffinity(thread).ok()?;
        let processor = sched_getcpu();
        if everywhere.count() < 2 || processor >= CpuSet::MAX_CPU || !everywhere.is_set(processor) {
            return None;
        }
        let mut here = CpuSet::new();
        here.set(processor);
        sched_setaffinity(thread, &here).ok()?;
        Some(Here { thread, everywhere })
    }

    /// The thread has another id now: it was not its process's first one, and has executed a program (ptrace(2), "execve(2) under
    /// ptrace").
    pub fn is_now(&mut self, thread: i32) {
        self.thread = Pid::from_raw(thread).or(self.thread);
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        // Of a thread that is gone there is nothing to give back.
        let _ = sched_setaffinity(self.thread, &self.everywhere);
    }
}
