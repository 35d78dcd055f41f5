//! The requests of one session that wait: what is shown, what is next, how long each has. Runs in the broker.

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::block::Block;
use super::entry::{Entry, Waiter, equal};
use super::group::Place;
use super::{MOST_OF_A_CALL, MOST_PENDING, SessionTerms};
use crate::common::consent::Prompt;
use crate::common::id::{CallId, RequestId};
use crate::common::path::RawPath;
use crate::policy::grants::{Grant, Scope};

#[derive(Debug)]
pub(super) struct Session {
    pub terms: SessionTerms,
    /// In the order of arrival, but for what was asked for one by one, which goes first.
    blocks: VecDeque<Block>,
    /// What is before the consent agents.
    shown: Option<RequestId>,
    /// When prompts of the last minute were shown.
    recent: VecDeque<Instant>,
    /// A person who answers is there: what waits behind gets its time anew.
    last_answer: Option<Instant>,
    /// The names of groups that are no more.
    gone: Vec<RequestId>,
}

impl Session {
    pub fn new(terms: SessionTerms) -> Session {
        Session {
            terms,
            blocks: VecDeque::new(),
            shown: None,
            recent: VecDeque::new(),
            last_answer: None,
            gone: Vec::new(),
        }
    }

    pub fn len(&self) -> usize {
        self.blocks.iter().map(Block::len).sum()
    }

    pub fn has_room(&self, call: CallId) -> bool {
        let of_call = || self.waiters().filter(|waiter| waiter.request.call == call).count();
        self.len() < MOST_PENDING && of_call() < MOST_OF_A_CALL
    }

    pub fn has(&self, id: RequestId) -> bool {
        self.blocks.iter().any(|block| block.has(id))
    }

    fn waiters(&self) -> impl Iterator<Item = &Waiter> {
        self.blocks.iter().flat_map(Block::waiters)
    }

    pub fn into_waiters(self) -> impl Iterator<Item = Waiter> {
        self.blocks.into_iter().flat_map(|block| block.entries).flat_map(Entry::into_waiters)
    }

    /// Puts a request where it belongs. It can be seen once the `window` of those that it is gathered with is over.
    pub fn enter(&mut self, mut waiter: Waiter, window: Duration, now: Instant) {
        let request = Rc::clone(&waiter.request);
        let mut entries = self.blocks.iter_mut().flat_map(|block| &mut block.entries);
        if let Some(entry) = entries.find(|entry| equal(entry.request(), &request)) {
            entry.joined.push(waiter);
            return;
        }
        let place = if window.is_zero() { None } else { Place::of(&request, &self.terms.home) };
        let Some(place) = place else {
            self.blocks.push_back(Block::new(Entry::new(waiter), now, None));
            return;
        };
        let open = self.blocks.iter_mut().filter(|block| block.is_open(now));
        let terms = &self.terms;
        let fits = open.filter_map(|block| Some((block.place_with(&request, &place, terms)?, block))).next();
        match fits {
            Some((both, block)) => {
                waiter.counted_from = block.closes;
                block.take_in(vec![Entry::new(waiter)], both);
            }
            None => {
                let closes = now.checked_add(window).unwrap_or(now);
                waiter.counted_from = closes;
                self.blocks.push_back(Block::new(Entry::new(waiter), closes, Some(place)));
            }
        }
    }

    fn deadline(&self, waiter: &Waiter) -> Instant {
        deadline(waiter, self.last_answer, self.terms.timeout)
    }

    fn deadline_of(&self, block: &Block, now: Instant) -> Instant {
        block.waiters().map(|waiter| self.deadline(waiter)).min().unwrap_or(now)
    }

    /// When there is something to do: a request is too late, or can be seen.
    pub fn next_deadline(&self) -> Option<Instant> {
        let closing = self.blocks.iter().filter(|block| !block.is_closed).map(|block| block.closes);
        self.waiters().map(|waiter| self.deadline(waiter)).chain(closing).min()
    }

    /// What is answered by this name: a block, or, of a group, the one request of this id with its equals.
    pub fn take(&mut self, id: RequestId, now: Instant) -> Option<Block> {
        let named = self.blocks.iter().position(|block| block.id() == Some(id));
        if let Some(at) = named.filter(|&at| self.blocks.get(at).is_some_and(Block::is_one)) {
            let block = self.blocks.remove(at)?;
            self.gone.extend(block.group);
            return Some(block);
        }
        let whole = self.blocks.iter().position(|block| block.has(id) && block.is_one() && block.group.is_none());
        if let Some(at) = whole {
            return self.blocks.remove(at);
        }
        let mut taken = None;
        self.sift(false, |entry| {
            if taken.is_none() && entry.has(id) {
                taken = Some(entry);
                return (Vec::new(), None);
            }
            (Vec::new(), Some(entry))
        });
        taken.map(|entry| Block::alone(entry, now))
    }

    /// A request that nobody waits for any more. Equal ones, and others of its group, go on waiting.
    pub fn cancel(&mut self, id: RequestId) -> Option<Waiter> {
        if !self.has(id) {
            return None;
        }
        let gone = self.sift(false, |entry| {
            let (gone, rest): (Vec<Waiter>, Vec<Waiter>) =
                entry.into_waiters().partition(|waiter| waiter.request.id == id);
            (gone, Entry::of(rest))
        });
        gone.into_iter().next()
    }

    /// Those that have waited too long; what is left of a group that was shown is another one.
    pub fn take_late(&mut self, now: Instant) -> Vec<Waiter> {
        let (last_answer, timeout) = (self.last_answer, self.terms.timeout);
        let is_late = |waiter: &Waiter| deadline(waiter, last_answer, timeout) <= now;
        if !self.waiters().any(is_late) {
            return Vec::new();
        }
        self.sift(true, |entry| {
            let (late, rest): (Vec<Waiter>, Vec<Waiter>) = entry.into_waiters().partition(is_late);
            (late, Entry::of(rest))
        })
    }

    /// Takes out what new grants cover, of those that the same people answer.
    pub fn take_covered(&mut self, grants: &[Rc<Grant>]) -> Vec<Waiter> {
        if grants.is_empty() || self.blocks.is_empty() {
            return Vec::new();
        }
        // Each of a large group covers little else than itself; the few that reach further are compared with all.
        let is_one_file = |grant: &Grant| matches!(&grant.scope, Scope::Paths(own) if own.literal_prefix() == grant.object && !own.is_floating() && own.as_tree().is_none());
        let (files, others): (Vec<&Rc<Grant>>, Vec<&Rc<Grant>>) = grants.iter().partition(|grant| is_one_file(grant));
        let mut by_object: HashMap<&RawPath, Vec<&Rc<Grant>>> = HashMap::new();
        for grant in files {
            by_object.entry(&grant.object).or_default().push(grant);
        }
        self.sift(false, |entry| {
            let request = entry.request();
            let own = by_object.get(&request.object).into_iter().flatten();
            let is_covered = own.chain(&others).any(|grant| grant.answers(request));
            if is_covered { (entry.into_waiters().collect(), None) } else { (Vec::new(), Some(entry)) }
        })
    }

    /// Takes waiters out of entries. A group that was made of more is another one then; while it is shown, only if
    /// `shown_too`: else what is left of it goes on being what was shown.
    fn sift(&mut self, shown_too: bool, mut each: impl FnMut(Entry) -> (Vec<Waiter>, Option<Entry>)) -> Vec<Waiter> {
        let mut out = Vec::new();
        for mut block in std::mem::take(&mut self.blocks) {
            let before = block.len();
            let mut kept = Vec::with_capacity(block.entries.len());
            for entry in std::mem::take(&mut block.entries) {
                let (gone, rest) = each(entry);
                out.extend(gone);
                kept.extend(rest);
            }
            block.entries = kept;
            if block.entries.is_empty() {
                self.gone.extend(block.group);
                continue;
            }
            let is_shown = self.shown.is_some() && block.group == self.shown;
            if block.len() != before && block.is_closed && (shown_too || !is_shown) {
                self.name(block);
            } else {
                self.blocks.push_back(block);
            }
        }
        out
    }

    /// Puts a block at the end that is made of others than before.
    fn name(&mut self, mut block: Block) {
        self.gone.extend(block.group);
        match block.name() {
            Ok(()) => self.blocks.push_back(block),
            Err(entries) => self.blocks.extend(entries.into_iter().map(|entry| Block::alone(entry, block.closes))),
        }
    }

    /// Asks for each of a group by itself, before anything else.
    pub fn split(&mut self, block: Block, now: Instant) {
        for entry in block.entries.into_iter().rev() {
            self.blocks.push_front(Block::alone(entry, now));
        }
    }

    /// Somebody has answered.
    pub fn answered(&mut self, now: Instant) {
        self.last_answer = Some(now);
    }

    pub fn is_showing(&self) -> bool {
        self.shown.is_some()
    }

    /// Whether what was shown does not wait any more; it is not shown from here on.
    pub fn hide_settled(&mut self) -> bool {
        let over = self.shown.is_some_and(|shown| !self.blocks.iter().any(|block| block.id() == Some(shown)));
        if over {
            self.shown = None;
        }
        over
    }

    /// The names of groups that are no more, since this was asked last.
    pub fn take_gone(&mut self) -> Vec<RequestId> {
        std::mem::take(&mut self.gone)
    }

    /// Lets be seen what has gathered, and shows the first of it if nothing is shown: with others that have come together
    /// meanwhile and belong to it. What is more than may be shown in a minute comes out.
    pub fn show_next(&mut self, now: Instant) -> (Option<Prompt>, Vec<Waiter>) {
        if self.blocks.iter().any(|block| !block.is_closed && block.closes <= now) {
            for mut block in std::mem::take(&mut self.blocks) {
                if block.is_closed || block.closes > now {
                    self.blocks.push_back(block);
                } else {
                    block.is_closed = true;
                    self.name(block);
                }
            }
        }
        let mut refused = Vec::new();
        while self.shown.is_none() {
            let Some(at) = self.blocks.iter().position(|block| block.is_closed) else { break };
            self.gather(at);
            let Some(block) = self.blocks.get(at) else { break };
            let (is_alone, id) = (block.is_alone, block.id());
            if !is_alone && !self.may_show(now) {
                let block = self.blocks.remove(at);
                refused.extend(block.into_iter().flat_map(|block| {
                    self.gone.extend(block.group);
                    block.entries.into_iter().flat_map(Entry::into_waiters)
                }));
                continue;
            }
            self.shown = id;
            if !is_alone {
                self.recent.push_back(now);
            }
            return (self.prompt_at(at, now), refused);
        }
        (None, refused)
    }

    /// Joins to this block what belongs to it and can be seen.
    fn gather(&mut self, at: usize) {
        let Some(mut block) = self.blocks.remove(at) else { return };
        let mut is_same = true;
        for other in std::mem::take(&mut self.blocks) {
            match block.place_of_both(&other, &self.terms).filter(|_| other.is_closed) {
                Some(place) => {
                    self.gone.extend(other.group);
                    block.take_in(other.entries, place);
                    is_same = false;
                }
                None => self.blocks.push_back(other),
            }
        }
        let behind = self.blocks.split_off(at.min(self.blocks.len()));
        if is_same {
            self.blocks.push_back(block)
        } else {
            self.name(block)
        }
        self.blocks.extend(behind);
    }

    fn may_show(&mut self, now: Instant) -> bool {
        let minute = Duration::from_secs(60);
        while self.recent.front().is_some_and(|&shown| now.saturating_duration_since(shown) >= minute) {
            self.recent.pop_front();
        }
        u32::try_from(self.recent.len()).is_ok_and(|recent| recent < self.terms.max_per_minute)
    }

    /// The names of all that can be seen.
    pub fn names(&self) -> Vec<RequestId> {
        self.blocks.iter().filter(|block| block.is_closed).filter_map(Block::id).collect()
    }

    /// All that can be seen, but what is `known`, as it would be shown now.
    pub fn prompts(&mut self, known: &dyn Fn(RequestId) -> bool, now: Instant) -> Vec<Prompt> {
        let is_new = |block: &Block| block.is_closed && !block.id().is_some_and(known);
        let all = self.blocks.iter().enumerate();
        let seen: Vec<usize> = all.filter(|(_, block)| is_new(block)).map(|(at, _)| at).collect();
        seen.into_iter().filter_map(|at| self.prompt_at(at, now)).collect()
    }

    fn prompt_at(&mut self, at: usize, now: Instant) -> Option<Prompt> {
        let all: usize = self.blocks.iter().map(|block| block.entries.len()).sum();
        let block = self.blocks.get(at)?;
        let (deadline, behind) = (self.deadline_of(block, now), all.saturating_sub(block.entries.len()));
        self.blocks.get_mut(at)?.prompt(&self.terms, deadline, behind)
    }
}

fn deadline(waiter: &Waiter, last_answer: Option<Instant>, timeout: Duration) -> Instant {
    let from = last_answer.map_or(waiter.counted_from, |answer| answer.max(waiter.counted_from));
    // A day at the most comes from a profile; a clock that cannot hold it counts as expired.
    from.checked_add(timeout).unwrap_or(from)
}
