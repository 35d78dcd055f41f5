//! Which requests are shown and which clicks count. Pure: what happened and when goes in, what to do comes out. Runs in the
//! notifier, as the person at the desktop; how many requests come, and when, is a tool's choice.
//!
//! | | |
//! |---|---|
//! | one session | has one notification at a time |
//! | the desktop | has three, and six new ones a minute; of these one session takes five at the most, so that none locks the others out |
//! | a yes | counts if it comes [`Limits::guard`] or more after the notification was drawn and after anything of ours on the desktop last moved; else it is shown again |
//! | a no | counts at once |
//! | nothing | counts while the screen is locked; what is shown goes away, and comes back when it is unlocked |
//! | put away without an answer | is no answer: the request waits on, and is not shown again. Who is nagged learns to click it away with a yes |
//! | taken away by the server | is shown again, as a new one |

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::common::id::SessionId;

/// One asking of one request, as the notifier counts them; never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(pub u64);

/// What a button says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    Deny,
    Once,
    Session,
    /// Drawn in place of it where it is suggested.
    Always,
}

#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub shown: usize,
    pub new_per_minute: usize,
    /// How long a person must have been able to see what they say yes to.
    pub guard: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { shown: 3, new_per_minute: 6, guard: Duration::from_millis(800) }
    }
}

const MINUTE: Duration = Duration::from_secs(60);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Asked {
        key: Key,
        session: SessionId,
        may_session: bool,
    },
    /// It is over: decided elsewhere, timed out, or the process turned away.
    Withdrawn(Key),
    /// The server has taken the notification.
    Drawn(Key),
    Clicked(Key, Choice),
    /// The person put it away.
    Dismissed(Key),
    /// The server took it away, or did not take it.
    Lost(Key),
    /// A server is there, with or without buttons; another one than before, if there was one.
    Server {
        buttons: bool,
    },
    NoServer,
    Locked,
    Unlocked,
    /// Time has passed.
    Tick,
}

/// Why a notification is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    New,
    /// It was there before: the server has changed, or the screen was locked.
    Again,
    /// A yes came before anybody could have read it.
    TooSoon,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Draw it; [`Event::Drawn`] or [`Event::Lost`] follows.
    Show(Key, Why),
    /// Take it off the desktop; nothing if it is not there.
    Close(Key),
    Answer(Key, Choice),
    /// So many requests came and ended while the screen was locked, and nobody saw them.
    TellMissed(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting(Why),
    Drawing,
    Shown(Instant),
    /// Left to `gatedctl`.
    PutAway,
}

#[derive(Debug)]
struct Entry {
    key: Key,
    session: SessionId,
    may_session: bool,
    state: State,
    /// Whether it waited while the screen was locked, and was not shown since.
    unseen: bool,
}

impl Entry {
    fn is_on_desktop(&self) -> bool {
        matches!(self.state, State::Drawing | State::Shown(_))
    }
}

#[derive(Debug)]
pub struct Queue {
    limits: Limits,
    /// In the order in which they were asked.
    entries: Vec<Entry>,
    /// Whose notification was new and when, in the last minute.
    recent: VecDeque<(Instant, SessionId)>,
    /// `None` without a server, else whether it has buttons.
    buttons: Option<bool>,
    locked: bool,
    missed: usize,
    /// When something of ours last came, went or moved on the desktop.
    moved: Option<Instant>,
}

impl Queue {
    pub fn new(limits: Limits) -> Queue {
        Queue {
            limits,
            entries: Vec::new(),
            recent: VecDeque::new(),
            buttons: None,
            locked: false,
            missed: 0,
            moved: None,
        }
    }

    /// Takes what happened; gives what to do, in this order.
    pub fn step(&mut self, now: Instant, event: Event) -> Vec<Effect> {
        let mut effects = Vec::new();
        match event {
            Event::Asked { key, session, may_session } => {
                let state = State::Waiting(Why::New);
                self.entries.push(Entry { key, session, may_session, state, unseen: self.locked });
            }
            Event::Withdrawn(key) => {
                if let Some(entry) = self.remove(key) {
                    if entry.is_on_desktop() {
                        self.moved = Some(now);
                        effects.push(Effect::Close(key));
                    } else if entry.unseen {
                        self.missed = self.missed.saturating_add(1);
                    }
                }
            }
            Event::Drawn(key) => {
                if let Some(entry) = self.entry(key).filter(|entry| entry.state == State::Drawing) {
                    entry.state = State::Shown(now);
                    entry.unseen = false;
                    self.moved = Some(now);
                }
            }
            Event::Clicked(key, choice) => self.clicked(now, key, choice, &mut effects),
            Event::Dismissed(key) => self.gone(now, key, State::PutAway),
            Event::Lost(key) => {
                // Without buttons it was all that there is to say, and was said.
                let left = if self.buttons == Some(true) { State::Waiting(Why::New) } else { State::PutAway };
                self.gone(now, key, left);
            }
            Event::Server { buttons } => {
                self.buttons = Some(buttons);
                self.bring_back();
            }
            Event::NoServer => {
                self.buttons = None;
                self.bring_back();
            }
            Event::Locked if !self.locked => {
                self.locked = true;
                effects.extend(self.entries.iter().filter(|entry| entry.is_on_desktop()).map(|e| Effect::Close(e.key)));
                self.bring_back();
                for entry in self.entries.iter_mut().filter(|entry| entry.state != State::PutAway) {
                    entry.unseen = true;
                }
            }
            Event::Unlocked => self.locked = false,
            Event::Locked | Event::Tick => {}
        }
        if !self.locked && self.buttons.is_some() {
            if self.missed > 0 {
                effects.push(Effect::TellMissed(std::mem::take(&mut self.missed)));
            }
            self.fill(now, &mut effects);
        }
        effects
    }

    /// When to come back with a [`Event::Tick`], if nothing happens before.
    pub fn wake(&self) -> Option<Instant> {
        let waits = self.entries.iter().any(|entry| matches!(entry.state, State::Waiting(_)));
        let (first, _) = self.recent.front()?;
        (waits && !self.locked && self.buttons.is_some()).then(|| first.checked_add(MINUTE))?
    }

    /// Requests that wait without being seen.
    pub fn waiting(&self) -> usize {
        self.entries.iter().filter(|entry| matches!(entry.state, State::Waiting(_))).count()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn entry(&mut self, key: Key) -> Option<&mut Entry> {
        self.entries.iter_mut().find(|entry| entry.key == key)
    }

    fn remove(&mut self, key: Key) -> Option<Entry> {
        let at = self.entries.iter().position(|entry| entry.key == key)?;
        Some(self.entries.remove(at))
    }

    fn clicked(&mut self, now: Instant, key: Key, choice: Choice, effects: &mut Vec<Effect>) {
        let settled = self.moved.and_then(|moved| moved.checked_add(self.limits.guard)).is_none_or(|end| now >= end);
        let (guard, locked) = (self.limits.guard, self.locked);
        let Some(entry) = self.entry(key) else { return };
        let State::Shown(drawn) = entry.state else { return };
        let read = drawn.checked_add(guard).is_some_and(|end| now >= end);
        let counts = match choice {
            Choice::Deny => true,
            Choice::Once | Choice::Always => settled && read,
            Choice::Session => settled && read && entry.may_session,
        };
        if locked {
            return;
        }
        if counts {
            self.remove(key);
            effects.extend([Effect::Answer(key, choice), Effect::Close(key)]);
        } else {
            // The server has closed what was clicked.
            entry.state = State::Drawing;
            effects.extend([Effect::Close(key), Effect::Show(key, Why::TooSoon)]);
        }
        self.moved = Some(now);
    }

    /// It is not on the desktop any more, for whichever reason but ours.
    fn gone(&mut self, now: Instant, key: Key, left: State) {
        if let Some(entry) = self.entry(key).filter(|entry| entry.is_on_desktop()) {
            entry.state = left;
            self.moved = Some(now);
        }
    }

    /// What was shown has to be shown again.
    fn bring_back(&mut self) {
        for entry in self.entries.iter_mut().filter(|entry| entry.is_on_desktop()) {
            entry.state = State::Waiting(Why::Again);
        }
    }

    /// Shows what there is room for: first what was there before, then new ones, those first whose session had the fewest.
    fn fill(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        while self.recent.front().is_some_and(|(shown, _)| now.saturating_duration_since(*shown) >= MINUTE) {
            self.recent.pop_front();
        }
        while self.entries.iter().filter(|entry| entry.is_on_desktop()).count() < self.limits.shown {
            let recently = |session: &SessionId| self.recent.iter().filter(|(_, other)| other == session).count();
            let candidates = self.entries.iter().enumerate().filter_map(|(at, entry)| {
                let State::Waiting(why) = entry.state else { return None };
                let has_one = self.entries.iter().any(|other| other.is_on_desktop() && other.session == entry.session);
                let new = why == Why::New;
                let recently = if new { recently(&entry.session) } else { 0 };
                let in_time = !new
                    || self.recent.len() < self.limits.new_per_minute
                        && recently.saturating_add(1) < self.limits.new_per_minute;
                (!has_one && in_time).then_some((new, recently, at))
            });
            let Some((new, _, at)) = candidates.min() else { return };
            let Some(entry) = self.entries.get_mut(at) else { return };
            entry.state = State::Drawing;
            effects.push(Effect::Show(entry.key, if new { Why::New } else { Why::Again }));
            if new {
                self.recent.push_back((now, entry.session.clone()));
            }
        }
    }
}
