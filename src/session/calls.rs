//! The calls of a session, and which one a process belongs to.
//!
//! Runs as the user in the supervisor, on `/proc`. Each started command has a filter and so a listener of its own, which says
//! for certain whose processes are heard on it. Below an agent or an interactive shell each process tree is a call of its
//! own. An answer for "once" lasts for the call, so a process whose tree cannot be found gets a call of its own: that grants
//! less, never more.

use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::kin::{Identity, Kin};
use crate::common::id::CallId;
use crate::tool::procstat::stat;

/// Depth of a process tree at the most; beyond it the process is its own call.
const ANCESTORS_AT_MOST: usize = 256;

/// Commands of a session that may be started and not over at a time, what they left behind included. Each has threads and
/// descriptors of the supervisor.
pub const CALLS_AT_MOST: usize = 256;

/// Process trees of a call, that have numbers of their own, at which it is looked for those that are over.
const TREES: usize = 512;

/// Numbers for the calls of one session.
#[derive(Debug, Default)]
pub struct Calls {
    given: AtomicU32,
    alive: AtomicUsize,
    kin: Kin,
    /// Those that have processes.
    live: Mutex<HashMap<CallId, Weak<Call>>>,
}

/// A number that was given, and one of the [`CALLS_AT_MOST`] places.
#[derive(Debug)]
pub struct Place {
    pub id: CallId,
    calls: Arc<Calls>,
}

impl Calls {
    /// A place for one more command; `None` if all are taken.
    pub fn begin(self: &Arc<Calls>) -> Option<Place> {
        // The place is given back when it is dropped, one that was not to be had too.
        let before = self.alive.fetch_add(1, Ordering::SeqCst);
        let place = Place { id: self.number(), calls: Arc::clone(self) };
        (before < CALLS_AT_MOST).then_some(place)
    }

    pub fn kin(&self) -> &Kin {
        &self.kin
    }

    fn live(&self) -> MutexGuard<'_, HashMap<CallId, Weak<Call>>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Before the first instruction of the call's command.
    pub fn enter(&self, call: &Arc<Call>) {
        self.live().insert(call.id(), Arc::downgrade(call));
    }

    /// The call that this process is of, by the leader above it; `None` if that is gone.
    pub fn find(&self, procfs: BorrowedFd<'_>, init: i32, process: i32) -> Option<Arc<Call>> {
        let call = self.kin.of(procfs, init, process).ok()??;
        self.live().get(&call)?.upgrade()
    }

    fn number(&self) -> CallId {
        CallId(self.given.fetch_add(1, Ordering::Relaxed).saturating_add(1))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.calls.kin.leave(self.id);
        self.calls.live().remove(&self.id);
        self.calls.alive.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A command before its first execve(2) has succeeded. Who serves its listener shares it with who hears its leader.
#[derive(Debug)]
pub struct Opening {
    /// Whether a person waits for it, and may write another command in its place.
    is_editable: bool,
    executed: AtomicBool,
    /// What was written.
    edited: Mutex<Option<Vec<Vec<u8>>>>,
    /// Whether each process tree that the command starts is a call of its own.
    by_child: AtomicBool,
}

impl Opening {
    pub fn new(is_editable: bool, by_child: bool) -> Opening {
        Opening {
            is_editable,
            executed: AtomicBool::new(false),
            edited: Mutex::default(),
            by_child: AtomicBool::new(by_child),
        }
    }

    pub fn set_by_child(&self, by_child: bool) {
        self.by_child.store(by_child, Ordering::SeqCst);
    }

    pub fn edit(&self, argv: Vec<Vec<u8>>) {
        *self.edited.lock().unwrap_or_else(PoisonError::into_inner) = Some(argv);
    }

    /// What was written last, once.
    pub fn take_edited(&self) -> Option<Vec<Vec<u8>>> {
        self.edited.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// A started command and all that came of it.
#[derive(Debug)]
pub struct Call {
    place: Place,
    /// The process that was started, and its parent, the leader, in the supervisor's pid namespace.
    main: i32,
    leader: Identity,
    opening: Arc<Opening>,
    /// The process trees below [`Call::main`] that have a number.
    known: Mutex<HashMap<Identity, CallId>>,
    /// Of those that are over, what nobody has heard of.
    over: Mutex<Vec<CallId>>,
    /// Threads of ours that wait for a peer in the network.
    connecting: AtomicUsize,
}

/// A thread that may wait for a peer in the network for minutes, without work and without a place among those that work.
pub struct Connecting<'a>(&'a AtomicUsize);

impl Drop for Connecting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Call {
    /// `main` is the process that was started and has not run yet.
    pub fn new(place: Place, procfs: BorrowedFd<'_>, main: i32, opening: Arc<Opening>) -> Call {
        let leader = stat(procfs, main).map_or(main, |found| found.parent);
        let leader = (leader, stat(procfs, leader).map_or(0, |found| found.started));
        Call {
            place,
            main,
            leader,
            opening,
            known: Mutex::default(),
            over: Mutex::default(),
            connecting: AtomicUsize::new(0),
        }
    }

    pub fn id(&self) -> CallId {
        self.place.id
    }

    /// The calling thread connects, until what is returned is dropped.
    pub fn connects(&self) -> Connecting<'_> {
        self.connecting.fetch_add(1, Ordering::SeqCst);
        Connecting(&self.connecting)
    }

    /// How many threads do.
    pub fn connecting(&self) -> usize {
        self.connecting.load(Ordering::SeqCst)
    }

    /// The process that was started, in the supervisor's pid namespace.
    pub fn main(&self) -> i32 {
        self.main
    }

    /// The command, if this thread is to execute it and nothing else has been yet.
    pub fn opening(&self, thread: i32) -> Option<&Opening> {
        (thread == self.main && !self.opening.executed.load(Ordering::SeqCst)).then_some(&self.opening)
    }

    /// The same, if a person may write another command in its place.
    pub fn editable(&self, thread: i32) -> Option<&Opening> {
        self.opening(thread).filter(|opening| opening.is_editable)
    }

    /// A process of the call has executed something.
    pub fn executed(&self, process: i32) {
        if process == self.main {
            self.opening.executed.store(true, Ordering::SeqCst);
        }
    }

    pub fn leader(&self) -> Identity {
        self.leader
    }

    /// The call's own number and those of the trees below it.
    pub fn ids(&self) -> Vec<CallId> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        std::iter::once(self.id()).chain(known.values().copied()).chain(self.take_over()).collect()
    }

    /// The numbers of trees below it that are over, each once.
    pub fn take_over(&self) -> Vec<CallId> {
        std::mem::take(&mut *self.over.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The number of a process that was heard on this call's listener, by its id in the supervisor's pid namespace.
    pub fn of(&self, procfs: BorrowedFd<'_>, process: i32) -> CallId {
        if !self.opening.by_child.load(Ordering::SeqCst) || process == self.main {
            return self.id();
        }
        let mut top = None;
        let mut at = process;
        for _ in 0..ANCESTORS_AT_MOST {
            let Some(found) = stat(procfs, at) else { break };
            top = Some((at, found.started));
            if found.parent == self.main || found.parent == self.leader.0 {
                break;
            }
            // Orphans end at the leader, or at init when that is gone; init's own parent is the supervisor.
            match stat(procfs, found.parent) {
                Some(above) if above.parent != std::process::id() as i32 => at = found.parent,
                _ => break,
            }
        }
        self.number(procfs, top.unwrap_or((process, 0)))
    }

    fn number(&self, procfs: BorrowedFd<'_>, identity: Identity) -> CallId {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= TREES && known.len().is_power_of_two() && !known.contains_key(&identity) {
            // What the first process of a tree leaves behind is found by a number of its own.
            let is_gone = |(pid, started): &Identity| stat(procfs, *pid).is_none_or(|found| found.started != *started);
            let gone = known.extract_if(|identity, _| is_gone(identity)).map(|(_, call)| call);
            self.over.lock().unwrap_or_else(PoisonError::into_inner).extend(gone);
        }
        *known.entry(identity).or_insert_with(|| self.place.calls.number())
    }
}
