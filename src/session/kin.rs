//! Which call was started from within which: a call that is killed takes those with it that were started from inside of it, so
//! that none of its processes saves itself into a call of its own.
//!
//! Runs as the user in the supervisor, on `/proc`.

use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};

use super::start::CallLink;
use crate::common::id::CallId;
use crate::tool::procstat::stat;

/// Depth of a process tree at the most, and looks at one in which processes end; whoever is deeper starts no call.
const ANCESTORS_AT_MOST: usize = 4096;
const LOOKS_AT_MOST: usize = 16;

/// A process for as long as its id is not reused: id and start time.
pub type Identity = (i32, u64);

/// The calls of a session that are not over.
#[derive(Debug, Default)]
pub struct Kin(Mutex<HashMap<CallId, Member>>);

#[derive(Debug)]
struct Member {
    leader: Identity,
    parent: Option<CallId>,
    link: Weak<CallLink>,
    is_unwanted: bool,
}

/// Nobody can say what this process belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Untraceable;

impl Kin {
    fn members(&self) -> MutexGuard<'_, HashMap<CallId, Member>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Before the first instruction of the call's command. `false` if the call that it was started from is being killed, or over:
    /// then who asked for it is gone.
    pub fn enter(&self, call: CallId, leader: Identity, parent: Option<CallId>, link: Weak<CallLink>) -> bool {
        let mut members = self.members();
        let is_wanted = parent.is_none_or(|parent| members.get(&parent).is_some_and(|parent| !parent.is_unwanted));
        if is_wanted {
            members.insert(call, Member { leader, parent, link, is_unwanted: false });
        }
        is_wanted
    }

    /// Nobody is left of a call.
    pub fn leave(&self, call: CallId) {
        self.members().remove(&call);
    }

    /// A call is being killed; its leader does it to what is below. So are all calls that were started from inside.
    pub fn unwanted(&self, call: CallId) {
        let mut members = self.members();
        let mut next = vec![call];
        while let Some(call) = next.pop() {
            if let Some(member) = members.get_mut(&call) {
                member.is_unwanted = true;
                if let Some(link) = member.link.upgrade() {
                    link.finish();
                }
            }
            let from_it = members.iter().filter(|(_, own)| own.parent == Some(call) && !own.is_unwanted);
            next.extend(from_it.map(|(id, _)| *id).collect::<Vec<_>>());
        }
    }

    /// The call whose leader is above this process; `None` if that has gone before it, and `init` is.
    pub fn of(&self, procfs: BorrowedFd<'_>, init: i32, process: i32) -> Result<Option<CallId>, Untraceable> {
        'look: for _ in 0..LOOKS_AT_MOST {
            let mut at = process;
            for _ in 0..ANCESTORS_AT_MOST {
                if at == init {
                    return Ok(None);
                }
                // Somebody on the way up has ended, and what was below has another parent now.
                let Some(found) = stat(procfs, at) else { continue 'look };
                let own = self.members().iter().find(|(_, own)| own.leader == (at, found.started)).map(|(id, _)| *id);
                if own.is_some() {
                    return Ok(own);
                }
                at = found.parent;
            }
            break;
        }
        Err(Untraceable)
    }

    /// Whether this process is surely none below `init`: whoever is above it all was seen, and `init` is not among them. Who makes
    /// a tree that is too deep, or too lively, to be looked through does not become an outsider by that.
    pub fn is_outside(procfs: BorrowedFd<'_>, init: i32, process: i32) -> bool {
        'look: for _ in 0..LOOKS_AT_MOST {
            let mut at = process;
            for _ in 0..ANCESTORS_AT_MOST {
                match at {
                    // Above the first process of all, and of what the kernel runs, there is nobody.
                    0 => return true,
                    at if at == init => return false,
                    _ => {}
                }
                let Some(found) = stat(procfs, at) else { continue 'look };
                at = found.parent;
            }
            break;
        }
        false
    }
}
