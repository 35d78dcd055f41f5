//! What the screen is about, and what a key means: events go in, effects come out. Pure; no terminal, no bus, no clock. Runs as
//! the caller; the requests in it are tools' doing.
//!
//! An answer is given to what the person saw. So it names the request and the scope that were on the screen when the key was
//! pressed ([`Drawn`]); it is taken only from a key that came alone (not from what was pasted), only where all that matters
//! of the request was on the screen, and not in the first quarter of a second after another request came under the cursor
//! by itself. A key that is held down answers nothing but the first.

use std::time::{Duration, Instant};

use super::details::Memory;
use super::entry::{Asked, Entry};
use super::keys::Key;
use super::list::{List, Row};
use crate::common::access::Level;
use crate::common::consent::{Answer, Prompt};
use crate::common::decision::{Lifetime, Width};
use crate::common::text;
use crate::consent::plain::time;
use crate::consent::words;

/// How long no answer is taken after the selection went to another request by itself.
pub const GUARD: Duration = Duration::from_millis(250);
/// Records that are kept.
const MOST_RECORDS: usize = 10_000;
/// Characters of what is typed into a line at the most.
const MOST_TYPED: usize = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tab {
    Queue,
    Sessions,
    Grants,
    Audit,
}

impl Tab {
    pub const ALL: [Tab; 4] = [Tab::Queue, Tab::Sessions, Tab::Grants, Tab::Audit];

    fn beside(self, by: usize) -> Tab {
        let at = Tab::ALL.iter().position(|tab| *tab == self).unwrap_or(0).saturating_add(by);
        Tab::ALL.get(at.checked_rem(Tab::ALL.len()).unwrap_or(0)).copied().unwrap_or(Tab::Queue)
    }
}

/// What keys are for at present.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    Walk,
    /// The words to look for are typed.
    Search(String),
    /// How long an answer is to hold is typed.
    Time {
        about: Drawn,
        typed: String,
    },
    /// A yes is needed.
    Sure {
        question: String,
        effect: Effect,
    },
    Help,
}

/// The request that was on the screen, and how far a yes to it would have reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drawn {
    pub key: String,
    pub width: Width,
    /// Whether all that matters of it was there.
    pub is_whole: bool,
    /// Lines that there are about it.
    pub lines: usize,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// `proves`: polkit may ask for a password.
    Decide {
        key: String,
        answer: Answer,
        proves: bool,
    },
    Stop {
        session: String,
        proves: bool,
    },
    Revoke {
        grant: String,
        proves: bool,
    },
    /// What a tab shows is wanted as it is now.
    Fetch(Tab),
    /// Stop as a job of the shell.
    Suspend,
    /// Draw all of the screen again.
    Redraw,
    Quit,
}

/// What happens.
#[derive(Clone, Debug)]
pub enum Event {
    /// `alone`: nothing else came with it.
    Key {
        key: Key,
        alone: bool,
    },
    Asked(Box<Asked>),
    /// The request with this id waits no more.
    Over(String),
    /// All that waits.
    Queue(Vec<Asked>),
    Sessions(Vec<Entry>),
    Grants(Vec<Entry>),
    /// Further records.
    Records(Vec<Entry>),
    /// Why there are none.
    NoRecords(String),
    /// Whether there is a daemon.
    Daemon(bool),
    /// What became of an answer: nothing if it was taken.
    Answered {
        key: String,
        failure: Option<String>,
    },
    /// Something to be told.
    Told(String),
}

/// Which answers there can be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Possible {
    pub deny: bool,
    pub once: bool,
    pub session: bool,
    pub widen: bool,
    pub lasting: bool,
    pub time: bool,
    pub split: bool,
}

impl Possible {
    fn of(prompt: &Prompt) -> Possible {
        Possible {
            deny: true,
            once: true,
            session: prompt.longest >= Lifetime::Session,
            widen: prompt.offers.len() > 1,
            lasting: prompt.longest >= Lifetime::Persistent,
            time: prompt.longest >= Lifetime::Until,
            split: prompt.group.is_some(),
        }
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Model {
    pub tab: Tab,
    pub queue: List<Asked>,
    pub sessions: List<Entry>,
    pub grants: List<Entry>,
    pub records: List<Entry>,
    pub no_records: Option<String>,
    pub mode: Mode,
    pub has_daemon: bool,
    /// The last thing that was told.
    pub told: Option<String>,
    /// Which of the offers of the selected request a yes would be for.
    pub offer: usize,
    /// All of the details, from this line on.
    pub unfolded: Option<usize>,
    pub details: Memory,
    /// Who runs this.
    own: u32,
    drawn: Option<Drawn>,
    /// The selection went elsewhere by itself, and that was not drawn yet.
    is_unseen: bool,
    /// It is in the frame that is being drawn.
    is_fresh: bool,
    guarded: Option<Instant>,
}

impl Model {
    /// `own`: the user who looks.
    pub fn new(own: u32) -> Model {
        Model {
            tab: Tab::Queue,
            queue: List::default(),
            sessions: List::default(),
            grants: List::default(),
            records: List::default(),
            no_records: None,
            mode: Mode::Walk,
            has_daemon: true,
            told: None,
            offer: 0,
            unfolded: None,
            details: Memory::default(),
            own,
            drawn: None,
            is_unseen: true,
            is_fresh: false,
            guarded: None,
        }
    }

    /// What is possible with the selected request.
    pub fn possible(&self) -> Possible {
        match self.queue.selected() {
            Some(asked) if !asked.is_answered && self.has_daemon => Possible::of(&asked.prompt),
            _ => Possible::default(),
        }
    }

    /// The width that a yes would have.
    pub fn width(&self) -> Width {
        let offers = self.queue.selected().map(|asked| asked.prompt.offers.as_slice()).unwrap_or_default();
        offers.get(self.offer).map(|offer| offer.width).unwrap_or_default()
    }

    pub fn is_own(&self, user: u32) -> bool {
        self.own == user
    }

    /// The screen is now this: the request in it, if it is one of the queue.
    pub fn drawn(&mut self, drawn: Option<Drawn>, now: Instant) {
        if self.is_unseen && drawn.is_some() {
            self.is_unseen = false;
            self.is_fresh = true;
            self.guarded = now.checked_add(GUARD);
        }
        self.drawn = drawn;
    }

    /// The frame that was drawn last is on the terminal since now.
    pub fn shown(&mut self, now: Instant) {
        if self.guarded.is_some() && !self.is_unseen && self.is_fresh {
            self.guarded = now.checked_add(GUARD);
        }
        self.is_fresh = false;
    }

    /// What an event leads to.
    pub fn event(&mut self, event: Event, now: Instant) -> Vec<Effect> {
        if let Event::Key { key, alone } = event {
            return self.key(key, alone, now);
        }
        let before = self.identity();
        let effects = self.news(event);
        self.follow(before);
        effects
    }

    /// What follows where the selection is no longer what it was.
    fn follow(&mut self, before: Option<u64>) {
        if self.identity() == before {
            return;
        }
        (self.offer, self.unfolded, self.is_unseen) = (0, None, true);
        // What was being typed or asked is about what was selected.
        if matches!(&self.mode, Mode::Time { .. } | Mode::Sure { effect: Effect::Decide { .. }, .. }) {
            self.mode = Mode::Walk;
        }
    }

    /// Of the selected request.
    fn identity(&self) -> Option<u64> {
        self.queue.selected().map(Asked::identity)
    }

    fn news(&mut self, event: Event) -> Vec<Effect> {
        match event {
            Event::Key { .. } => {}
            Event::Asked(asked) => self.queue.put(*asked),
            Event::Over(key) => {
                if self.tab == Tab::Queue
                    && let Some(asked) = self.queue.selected().filter(|asked| asked.key() == key && !asked.is_answered)
                {
                    self.told = Some(format!("Over without you: {} wants to {}", asked.who, asked.wish));
                }
                self.queue.remove(&key);
            }
            Event::Queue(rows) => self.queue.replace(rows),
            Event::Sessions(rows) => self.sessions.replace(rows),
            Event::Grants(rows) => self.grants.replace(rows),
            Event::Records(rows) => {
                self.no_records = None;
                // The latest is looked at until somebody goes elsewhere.
                let is_last = self.records.selected().map(Row::key) == self.records.found().next_back().map(Row::key);
                rows.into_iter().for_each(|row| self.records.put(row));
                self.records.trim(MOST_RECORDS);
                if is_last {
                    self.records.select_at(usize::MAX);
                }
            }
            Event::NoRecords(why) => self.no_records = Some(why),
            Event::Daemon(is_there) => {
                let was_there = std::mem::replace(&mut self.has_daemon, is_there);
                if !is_there {
                    self.queue.clear();
                    self.sessions.clear();
                    self.grants.clear();
                }
                match (was_there, is_there) {
                    (true, false) => self.told = None,
                    (false, true) => self.told = Some("gatedd is back.".to_owned()),
                    _ => {}
                }
            }
            Event::Answered { key, failure } => {
                match (&failure, self.queue.get_mut(&key)) {
                    (None, _) => self.queue.remove(&key),
                    // It can be answered again.
                    (Some(_), Some(asked)) => asked.is_answered = false,
                    (Some(_), None) => {}
                }
                if failure.is_some() {
                    self.told = failure;
                }
            }
            Event::Told(told) => {
                self.told = Some(told);
                return vec![Effect::Fetch(self.tab)];
            }
        }
        Vec::new()
    }

    fn key(&mut self, key: Key, alone: bool, now: Instant) -> Vec<Effect> {
        match key {
            Key::Suspend => return vec![Effect::Suspend],
            Key::Redraw => return vec![Effect::Redraw],
            _ => {}
        }
        match std::mem::replace(&mut self.mode, Mode::Walk) {
            Mode::Walk => self.walk(key, alone, now),
            Mode::Help => Vec::new(),
            Mode::Search(typed) => {
                if let Some(typed) = self.typed(typed, key) {
                    self.look_for(&typed);
                    self.mode = Mode::Search(typed);
                } else if key == Key::Leave {
                    self.look_for("");
                }
                Vec::new()
            }
            Mode::Time { about, typed } => match key {
                Key::Enter if alone => self.for_time(about, typed),
                _ => {
                    if let Some(typed) = self.typed(typed, key) {
                        self.mode = Mode::Time { about, typed };
                    }
                    Vec::new()
                }
            },
            Mode::Sure { question, effect } => match key {
                Key::Character('y' | 'Y') if alone && !self.is_hasty(&effect, now) => self.perform(effect),
                Key::Character('y' | 'Y') => {
                    self.told = Some("Ignored: the question had only just come.".to_owned());
                    self.mode = Mode::Sure { question, effect };
                    Vec::new()
                }
                _ => Vec::new(),
            },
        }
    }

    /// The line with this key, while it goes on.
    fn typed(&self, mut typed: String, key: Key) -> Option<String> {
        match key {
            Key::Character(character)
                if typed.chars().count() < MOST_TYPED && (character == ' ' || text::is_showable(character)) =>
            {
                typed.push(character);
            }
            Key::Backspace => drop(typed.pop()),
            Key::Enter | Key::Leave => return None,
            _ => {}
        }
        Some(typed)
    }

    /// By a person, so it is seen.
    fn walk_by(&mut self, by: isize) {
        match self.tab {
            Tab::Queue => {
                let before = self.queue.selected().map(|asked| asked.key().to_owned());
                self.queue.step(by);
                if self.queue.selected().map(Row::key) != before.as_deref() {
                    (self.offer, self.unfolded) = (0, None);
                }
            }
            Tab::Sessions => self.sessions.step(by),
            Tab::Grants => self.grants.step(by),
            Tab::Audit => self.records.step(by),
        }
    }

    fn look_for(&mut self, words: &str) {
        match self.tab {
            Tab::Queue => {
                let before = self.identity();
                self.queue.look_for(words);
                self.follow(before);
            }
            Tab::Sessions => self.sessions.look_for(words),
            Tab::Grants => self.grants.look_for(words),
            Tab::Audit => self.records.look_for(words),
        }
    }

    /// What the tab that is shown looks for.
    pub fn search(&self) -> &str {
        match self.tab {
            Tab::Queue => self.queue.search(),
            Tab::Sessions => self.sessions.search(),
            Tab::Grants => self.grants.search(),
            Tab::Audit => self.records.search(),
        }
    }

    fn go_to(&mut self, tab: Tab) -> Vec<Effect> {
        (self.tab, self.unfolded, self.told) = (tab, None, None);
        vec![Effect::Fetch(tab)]
    }

    fn walk(&mut self, key: Key, alone: bool, now: Instant) -> Vec<Effect> {
        const PAGE: isize = 10;
        match (key, self.unfolded) {
            (Key::PageDown, Some(line)) => {
                let last = self.drawn.as_ref().map_or(usize::MAX, |drawn| drawn.lines);
                self.unfolded = Some(line.saturating_add(PAGE.unsigned_abs()).min(last));
            }
            (Key::PageUp, Some(line)) => self.unfolded = Some(line.saturating_sub(PAGE.unsigned_abs())),
            (Key::Down | Key::Character('j'), _) => self.walk_by(1),
            (Key::Up | Key::Character('k'), _) => self.walk_by(-1),
            (Key::PageDown, None) => self.walk_by(PAGE),
            (Key::PageUp, None) => self.walk_by(-PAGE),
            (Key::Home | Key::Character('g'), _) => self.walk_by(isize::MIN),
            (Key::End | Key::Character('G'), _) => self.walk_by(isize::MAX),
            (Key::Tab, _) => return self.go_to(self.tab.beside(1)),
            (Key::BackTab, _) => return self.go_to(self.tab.beside(3)),
            (Key::Character('q'), _) => return vec![Effect::Quit],
            (Key::Character('?'), _) => self.mode = Mode::Help,
            (Key::Character('/'), _) => self.mode = Mode::Search(self.search().to_owned()),
            (Key::Character('m') | Key::Enter, unfolded) => {
                self.unfolded = if unfolded.is_some() { None } else { Some(0) };
            }
            (Key::Leave, _) => {
                if self.search().is_empty() && self.unfolded.is_none() {
                    self.told = Some("q leaves.".to_owned());
                }
                self.unfolded = None;
                self.look_for("");
            }
            (Key::Character(key), _) => {
                return match self.tab {
                    Tab::Queue => self.answer(key, alone, now),
                    Tab::Sessions if key == 'x' => self.stop(),
                    Tab::Grants if key == 'x' => self.revoke(),
                    Tab::Sessions | Tab::Grants | Tab::Audit => self.unknown(key),
                };
            }
            (Key::Backspace | Key::Suspend | Key::Redraw, _) => {}
        }
        Vec::new()
    }

    fn unknown(&mut self, key: char) -> Vec<Effect> {
        // What a person typed, and only what draws itself.
        self.told = Some(match text::is_showable(key) {
            true => format!("{key} means nothing here; ? says which keys do."),
            false => "That means nothing here; ? says which keys do.".to_owned(),
        });
        Vec::new()
    }

    fn is_guarded(&self, now: Instant) -> bool {
        self.is_unseen || self.guarded.is_some_and(|until| now < until)
    }

    /// Whether nobody can have read the question yet.
    fn is_hasty(&self, effect: &Effect, now: Instant) -> bool {
        matches!(effect, Effect::Decide { .. }) && self.is_guarded(now)
    }

    /// What may be answered with a key that was pressed now: what is on the screen, if it is what is selected.
    fn seen(&mut self, alone: bool, now: Instant) -> Option<Drawn> {
        if self.is_guarded(now) {
            // A key that is held down, too, until it is let go.
            self.guarded = now.checked_add(GUARD);
            self.told = Some("Ignored: this request had only just come under the cursor.".to_owned());
            return None;
        }
        if !alone {
            self.told = Some("Ignored: more than a key at once.".to_owned());
            return None;
        }
        let drawn = self.drawn.clone()?;
        let is_it = self.queue.selected().is_some_and(|asked| asked.key() == drawn.key) && drawn.width == self.width();
        if !is_it {
            self.told = Some("Ignored: the screen had just changed.".to_owned());
        }
        is_it.then_some(drawn)
    }

    fn answer(&mut self, key: char, alone: bool, now: Instant) -> Vec<Effect> {
        let (possible, is_empty) = (self.possible(), self.queue.selected().is_none());
        let offers = self.queue.selected().map_or(1, |asked| asked.prompt.offers.len()).max(1);
        let step = |by: usize| self.offer.saturating_add(by).checked_rem(offers).unwrap_or(0);
        let refused = match key {
            'w' if possible.widen => {
                self.offer = step(1);
                return Vec::new();
            }
            'W' if possible.widen => {
                self.offer = step(offers.saturating_sub(1));
                return Vec::new();
            }
            'd' | 'o' | 's' | 'a' | 'f' | 'e' | 'w' | 'W' | '1' if is_empty => "Nothing waits for an answer.",
            'd' | 'o' | 's' | 'a' | 'f' | 'e' | 'w' | 'W' | '1' if possible == Possible::default() => {
                "An answer to this is on its way."
            }
            'd' if possible.deny => return self.give(Answer::Deny, alone, now),
            'o' if possible.once => return self.give(Answer::Once(self.width()), alone, now),
            's' if possible.session => return self.give(Answer::Session(self.width()), alone, now),
            '1' if possible.split => return self.give(Answer::Split, alone, now),
            'a' if possible.lasting => return self.give(Answer::Always(self.width()), alone, now),
            'f' if possible.time => {
                if let Some(about) = self.seen(alone, now) {
                    self.mode = Mode::Time { about, typed: String::new() };
                }
                return Vec::new();
            }
            's' => "Not offered: the rule does not let an answer hold for the session.",
            'a' => "Not offered: nothing lets an answer to this hold for good.",
            'f' => "Not offered: nothing lets an answer to this outlive its session.",
            'w' | 'W' => "Not offered: this cannot be widened.",
            'e' => "Not offered: a command is changed at the gated-run that it was given to.",
            '1' => "Not offered: this is one request.",
            other => return self.unknown(other),
        };
        self.told = Some(refused.to_owned());
        Vec::new()
    }

    /// What was asked is answered, if it was seen.
    fn give(&mut self, answer: Answer, alone: bool, now: Instant) -> Vec<Effect> {
        let Some(drawn) = self.seen(alone, now) else { return Vec::new() };
        if answer.says_yes() && !drawn.is_whole {
            self.told = Some("Not taken: the terminal is too small to show what is asked. d denies.".to_owned());
            return Vec::new();
        }
        let Some(asked) = self.queue.selected() else { return Vec::new() };
        let is_sensitive = asked.prompt.request.level == Level::Authenticate && answer.says_yes();
        let proves = is_sensitive || !self.is_own(asked.user);
        let effect = Effect::Decide { key: drawn.key, answer: answer.clone(), proves };
        if let Answer::Always(_) = answer {
            self.sure("Allow this always, in every session with this profile?", effect, now)
        } else {
            self.perform(effect)
        }
    }

    fn for_time(&mut self, about: Drawn, typed: String) -> Vec<Effect> {
        let Some(asked) = self.queue.selected().filter(|asked| asked.key() == about.key) else { return Vec::new() };
        let time = match time(&typed) {
            Some(time) => time,
            None => {
                self.told = Some("A time such as 30m, 2h or 7d.".to_owned());
                self.mode = Mode::Time { about, typed };
                return Vec::new();
            }
        };
        if let Some(most) = asked.prompt.max_for.filter(|most| time > *most) {
            self.told = Some(format!("{} at the most.", words::time(most)));
            self.mode = Mode::Time { about, typed };
            return Vec::new();
        }
        if !about.is_whole {
            self.told = Some("Not taken: the terminal is too small to show what is asked. d denies.".to_owned());
            return Vec::new();
        }
        let proves = asked.prompt.request.level == Level::Authenticate || !self.is_own(asked.user);
        self.perform(Effect::Decide { key: about.key, answer: Answer::For(about.width, time), proves })
    }

    fn sure(&mut self, question: &str, effect: Effect, now: Instant) -> Vec<Effect> {
        self.guarded = now.checked_add(GUARD);
        self.mode = Mode::Sure { question: question.to_owned(), effect };
        Vec::new()
    }

    fn stop(&mut self) -> Vec<Effect> {
        let Some(session) = self.sessions.selected() else { return Vec::new() };
        let (key, proves) = (session.key().to_owned(), !self.is_own(session.user));
        self.mode = Mode::Sure {
            question: format!("Kill everything in session {key}?"),
            effect: Effect::Stop { session: key, proves },
        };
        Vec::new()
    }

    fn revoke(&mut self) -> Vec<Effect> {
        let Some(grant) = self.grants.selected() else { return Vec::new() };
        let (key, proves) = (grant.key().to_owned(), !self.is_own(grant.user));
        self.mode = Mode::Sure {
            question: format!("Take the answer {key} back?"),
            effect: Effect::Revoke { grant: key, proves },
        };
        Vec::new()
    }

    /// On its way. What was answered stays until the daemon says so, and the cursor goes on.
    fn perform(&mut self, effect: Effect) -> Vec<Effect> {
        self.told = None;
        if let Effect::Decide { key, answer, .. } = &effect {
            let Some(asked) = self.queue.get_mut(key) else {
                self.told = Some("Too late: the request is over.".to_owned());
                return Vec::new();
            };
            asked.is_answered = true;
            let said = match answer {
                Answer::Deny | Answer::Edit(_) => "Denied".to_owned(),
                Answer::Split => "One by one".to_owned(),
                Answer::Block(_, term) => format!("Denied, {}", words::term(*term)),
                other => other.allows().map(|(_, term)| format!("Allowed, {}", words::term(term))).unwrap_or_default(),
            };
            self.told = Some(format!("{said}: {} wants to {}", asked.who, asked.wish));
            let before = self.identity();
            self.queue.select_near(|asked| !asked.is_answered);
            self.follow(before);
        }
        vec![effect]
    }
}
