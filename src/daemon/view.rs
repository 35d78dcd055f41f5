//! What a session's broker lets the rest of the daemon see: what waits, what was granted, what runs. On one thread.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};

use tracing::warn;

use crate::common::consent::Prompt;
use crate::common::id::{CallId, GrantId, RequestId};
use crate::common::wire::{Resumed, RunningCall};
use crate::policy::Grant;
use crate::policy::granted::is_swept_at;

/// Running calls of a session at the most; a supervisor of ours takes fewer.
const MOST_CALLS: usize = 1024;

/// Bytes of a call's command line that are kept.
const MOST_SHOWN: usize = 4096;

/// Whether the prompt of this name needs not be made.
pub(super) type Known<'a> = dyn Fn(RequestId) -> bool + 'a;

/// A grant that is in force.
#[derive(Clone, Debug)]
pub struct Held {
    pub grant: Grant,
    /// Microseconds of CLOCK_REALTIME.
    pub given: u64,
}

/// See the module.
pub struct View {
    /// Every request that waits, as it would be put to somebody now; equal ones are one.
    pub prompts: RefCell<Vec<Prompt>>,
    pub grants: RefCell<Vec<Held>>,
    pub calls: RefCell<BTreeMap<CallId, RunningCall>>,
    waits_changed: Box<dyn Fn()>,
}

impl Default for View {
    fn default() -> View {
        View::new(|| {})
    }
}

impl View {
    /// `waits_changed` is called whenever another set of requests waits.
    pub fn new(waits_changed: impl Fn() + 'static) -> View {
        View {
            prompts: RefCell::default(),
            grants: RefCell::default(),
            calls: RefCell::default(),
            waits_changed: Box::new(waits_changed),
        }
    }

    /// If others than before wait: `anew` makes those that are not known, or, where `all` may have changed, all of them.
    pub(super) fn show(&self, waiting: &[RequestId], all: bool, anew: impl FnOnce(&Known<'_>) -> Vec<Prompt>) {
        let is_same = self.prompts.borrow().iter().map(|prompt| prompt.id).eq(waiting.iter().copied());
        if is_same {
            return;
        }
        let before = self.prompts.take().into_iter().filter(|_| !all);
        let mut known: HashMap<RequestId, Prompt> = before.map(|prompt| (prompt.id, prompt)).collect();
        let made = anew(&|id| known.contains_key(&id));
        known.extend(made.into_iter().map(|prompt| (prompt.id, prompt)));
        *self.prompts.borrow_mut() = waiting.iter().filter_map(|id| known.remove(id)).collect();
        (self.waits_changed)();
    }

    pub(super) fn granted(&self, grant: Grant) {
        let mut grants = self.grants.borrow_mut();
        if is_swept_at(grants.len()) {
            grants.retain(|held| !held.grant.is_over());
        }
        // As the supervisor does: of equal ones the first has the name that revokes it.
        if !grants.iter().any(|held| held.grant.equals(&grant)) {
            grants.push(Held { grant, given: super::core::now_micros() });
        }
    }

    /// Whether it was there.
    pub(super) fn revoked(&self, id: GrantId) -> bool {
        let mut grants = self.grants.borrow_mut();
        let before = grants.len();
        grants.retain(|held| held.grant.id != id);
        grants.len() < before
    }

    /// Whether there is room for it. What is kept of its words is what a list can show.
    pub(super) fn call_started(&self, mut call: RunningCall) -> bool {
        let mut calls = self.calls.borrow_mut();
        let mut room = MOST_SHOWN;
        call.argv.retain(|word| {
            let fits = word.as_bytes().len() < room;
            room = room.saturating_sub(word.as_bytes().len().saturating_add(1));
            fits
        });
        let has_room = calls.len() < MOST_CALLS && call.program.as_bytes().len() <= MOST_SHOWN;
        if has_room {
            calls.insert(call.call, call);
        }
        has_room
    }

    pub(super) fn call_ended(&self, call: CallId) {
        self.calls.borrow_mut().remove(&call);
    }

    /// Nobody is left of it; until then what it left behind has what was granted to it.
    pub(super) fn call_over(&self, call: CallId) {
        self.grants.borrow_mut().retain(|held| held.grant.call != Some(call));
    }

    /// What a supervisor brings that comes back. It is shown, and can be revoked; nothing is decided by it here.
    pub(super) fn resume(&self, resumed: &Resumed) {
        for bytes in &resumed.grants {
            match postcard::from_bytes::<Grant>(bytes) {
                Ok(grant) => self.granted(grant),
                Err(error) => warn!(%error, "a grant that does not decode"),
            }
        }
        for call in &resumed.calls {
            // More of them than there can be are not shown.
            let _shown = self.call_started(call.clone());
        }
    }
}
