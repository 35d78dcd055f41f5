//! What the daemon counts: requests and their ends, by whom they were decided, how long they waited. On one thread. Nothing
//! that a tool, a profile or a person can name is counted by its name, so that no list grows with what they do; counts are by
//! user inside, and outside each sees their own.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::audit::{Audit, AuditError, AuditRecord};
use super::core::{Core, now_micros};
use super::live::State;
use super::muted::BY_MUTED;
use super::orders::{Caller, Refusal};
use super::pending::{BY_BROKER, Settled};
use crate::common::access::Access;
use crate::common::bus::action;
use crate::common::decision::{Lifetime, Outcome};
use crate::common::moment::wall_now;
use crate::common::wire::Record;

/// Every end of a request.
pub const OUTCOMES: [Outcome; 8] = [
    Outcome::Approved,
    Outcome::Denied,
    Outcome::Timeout,
    Outcome::NotPermitted,
    Outcome::Granted,
    Outcome::Allowed,
    Outcome::Cancelled,
    Outcome::Edited,
];

/// Every lifetime that a grant in force has.
pub const LIFETIMES: [Lifetime; 4] = [Lifetime::Call, Lifetime::Session, Lifetime::Until, Lifetime::Persistent];

/// Upper ends of the classes of waiting times, in milliseconds; the last class has none.
pub const WAITS: [u64; 10] = [500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 120_000, 300_000, 900_000];

/// By whom something was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    Rule,
    /// An earlier answer, or many.
    Grant,
    /// Somebody answered, or their script did.
    Person,
    /// Nobody did, in time.
    Timeout,
    /// Nobody could be asked, or the yes was not one that could be given.
    Broker,
    /// The process was gone first.
    Cancelled,
}

impl Source {
    pub const ALL: [Source; 6] =
        [Source::Rule, Source::Grant, Source::Person, Source::Timeout, Source::Broker, Source::Cancelled];

    pub fn as_str(self) -> &'static str {
        match self {
            Source::Rule => "rule",
            Source::Grant => "grant",
            Source::Person => "person",
            Source::Timeout => "timeout",
            Source::Broker => "broker",
            Source::Cancelled => "cancelled",
        }
    }

    fn of(settled: &Settled) -> Source {
        match settled.outcome {
            // They said no so often that nobody was asked again.
            _ if settled.by == BY_MUTED => Source::Grant,
            Outcome::Approved | Outcome::Denied | Outcome::Edited if settled.by != BY_BROKER => Source::Person,
            Outcome::Approved | Outcome::Denied | Outcome::Edited | Outcome::NotPermitted => Source::Broker,
            Outcome::Granted => Source::Grant,
            Outcome::Allowed => Source::Rule,
            Outcome::Timeout => Source::Timeout,
            Outcome::Cancelled => Source::Cancelled,
        }
    }
}

/// How long requests waited that somebody was asked for and that did not go away by themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// By the upper end in milliseconds, each class without those below it; those beyond the last under `u64::MAX`.
    classes: BTreeMap<u64, u64>,
    pub sum: Duration,
    pub count: u64,
}

impl Waits {
    fn add(&mut self, waited: Duration) {
        let class = WAITS.into_iter().find(|end| waited <= Duration::from_millis(*end)).unwrap_or(u64::MAX);
        more(self.classes.entry(class).or_default(), 1);
        self.sum = self.sum.saturating_add(waited);
        more(&mut self.count, 1);
    }

    /// How many waited no longer, for each of [`WAITS`].
    pub fn up_to(&self) -> impl Iterator<Item = (u64, u64)> {
        let mut below: u64 = 0;
        WAITS.into_iter().map(move |end| {
            more(&mut below, self.classes.get(&end).copied().unwrap_or_default());
            (end, below)
        })
    }

    fn merge(&mut self, other: &Waits) {
        for (class, count) in &other.classes {
            more(self.classes.entry(*class).or_default(), *count);
        }
        self.sum = self.sum.saturating_add(other.sum);
        more(&mut self.count, other.count);
    }
}

/// What happened since the daemon began to count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub requests: BTreeMap<(Access, &'static str), u64>,
    pub decisions: BTreeMap<Source, u64>,
    pub waits: Waits,
    /// That were started, or taken over from the daemon before.
    pub sessions: u64,
}

impl Counts {
    pub fn requests(&self, access: Access, outcome: Outcome) -> u64 {
        self.requests.get(&(access, outcome.as_str())).copied().unwrap_or_default()
    }

    pub fn decisions(&self, source: Source) -> u64 {
        self.decisions.get(&source).copied().unwrap_or_default()
    }

    /// Of an access: what was not done and might have been.
    pub fn denials(&self, access: Access) -> u64 {
        let denied = [Outcome::Denied, Outcome::Timeout, Outcome::NotPermitted];
        denied.into_iter().fold(0, |sum: u64, outcome| sum.saturating_add(self.requests(access, outcome)))
    }

    fn count(&mut self, access: Access, outcome: Outcome, source: Source) {
        more(self.requests.entry((access, outcome.as_str())).or_default(), 1);
        more(self.decisions.entry(source).or_default(), 1);
    }

    fn merge(&mut self, other: &Counts) {
        for (key, count) in &other.requests {
            more(self.requests.entry(*key).or_default(), *count);
        }
        for (source, count) in &other.decisions {
            more(self.decisions.entry(*source).or_default(), *count);
        }
        self.waits.merge(&other.waits);
        more(&mut self.sessions, other.sessions);
    }
}

fn more(count: &mut u64, by: u64) {
    *count = count.saturating_add(by);
}

fn one_more(grants: &mut BTreeMap<Lifetime, usize>, lifetime: Lifetime) {
    let count = grants.entry(lifetime).or_default();
    *count = count.saturating_add(1);
}

/// The daemon's counts.
#[derive(Debug)]
pub struct Statistics {
    users: RefCell<BTreeMap<u32, Rc<RefCell<Counts>>>>,
    audit_failures: Arc<AtomicU64>,
    /// Microseconds of CLOCK_REALTIME.
    since: u64,
}

impl Default for Statistics {
    fn default() -> Statistics {
        Statistics { users: RefCell::default(), audit_failures: Arc::default(), since: now_micros() }
    }
}

impl Statistics {
    /// For one more session of a user.
    pub fn tally(&self, uid: u32) -> Tally {
        let counts = Rc::clone(self.users.borrow_mut().entry(uid).or_default());
        more(&mut counts.borrow_mut().sessions, 1);
        Tally(counts)
    }

    /// The same log, whose failures are counted.
    pub fn watch(&self, audit: Arc<dyn Audit>) -> Arc<dyn Audit> {
        Arc::new(Watched { audit, failures: Arc::clone(&self.audit_failures) })
    }

    /// Of one user, or of all.
    fn counts(&self, only: Option<u32>) -> Counts {
        let mut sum = Counts::default();
        let users = self.users.borrow();
        let wanted = users.iter().filter(|(uid, _)| only.is_none_or(|only| only == **uid));
        wanted.for_each(|(_, counts)| sum.merge(&counts.borrow()));
        sum
    }
}

/// Where the records of one session are counted.
#[derive(Clone, Debug)]
pub struct Tally(Rc<RefCell<Counts>>);

impl Tally {
    pub(super) fn settled(&self, settled: &Settled) {
        let mut counts = self.0.borrow_mut();
        counts.count(settled.request.access, settled.outcome, Source::of(settled));
        if settled.asked && settled.outcome != Outcome::Cancelled {
            counts.waits.add(settled.waited);
        }
    }

    /// What the supervisor decided by itself, as it ended.
    pub(super) fn recorded(&self, told: &Record, outcome: Outcome) {
        let by_answer = outcome == Outcome::Granted || told.grant.is_some();
        let source = if by_answer { Source::Grant } else { Source::Rule };
        self.0.borrow_mut().count(told.access, outcome, source);
    }
}

/// See [`Statistics::watch`].
struct Watched {
    audit: Arc<dyn Audit>,
    failures: Arc<AtomicU64>,
}

impl Watched {
    fn note(&self, result: Result<(), AuditError>) -> Result<(), AuditError> {
        if result.is_err() {
            self.failures.fetch_add(1, Ordering::Relaxed);
        }
        result
    }
}

impl Audit for Watched {
    fn append(&self, record: &AuditRecord) -> Result<(), AuditError> {
        self.note(self.audit.append(record))
    }

    fn sync(&self) -> Result<(), AuditError> {
        self.note(self.audit.sync())
    }
}

/// Counts, and what is there now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    pub counts: Counts,
    /// Microseconds of CLOCK_REALTIME.
    pub since: u64,
    pub sessions: usize,
    pub pending: usize,
    pub grants: BTreeMap<Lifetime, usize>,
    pub agents: usize,
    /// `None` where they are not told.
    pub audit_failures: Option<u64>,
}

impl Core {
    /// Of the caller's own sessions, or of everybody's: with `all`, and for who may manage sessions anyway.
    pub fn statistics(&self, caller: &Caller, all: bool) -> Result<Report, Refusal> {
        caller.outside()?;
        let may_all = caller.has(action::MANAGE_SESSIONS);
        match (all, may_all) {
            (true, false) => Err(Refusal::Needs(action::MANAGE_SESSIONS)),
            _ => Ok(self.report_of((!may_all).then_some(caller.uid))),
        }
    }

    pub(super) fn report_of(&self, only: Option<u32>) -> Report {
        let sessions = self.sessions.borrow();
        let own = || sessions.values().filter(|live| only.is_none_or(|only| live.owner() == only));
        let mut grants = BTreeMap::new();
        for held in own().flat_map(|live| live.view.grants.borrow().clone()) {
            // Those that outlive their session are in each of the user's.
            if held.grant.lifetime <= Lifetime::Session && !held.grant.is_over() {
                one_more(&mut grants, held.grant.lifetime);
            }
        }
        let now = wall_now();
        for stored in self.setting.store.all() {
            let is_own = only.is_none_or(|only| stored.holder.uid == only);
            // To the second, and without a look at the other clock: there may be very many.
            if is_own && stored.terms().until.is_none_or(|until| now < until.wall) {
                one_more(&mut grants, stored.terms().lifetime);
            }
        }
        Report {
            counts: self.statistics.counts(only),
            since: self.statistics.since,
            sessions: own().filter(|live| live.state.get() != State::Lost).count(),
            pending: own().map(|live| live.view.prompts.borrow().len()).sum(),
            grants,
            agents: match only {
                None => self.agents.len(),
                Some(uid) => self.agents.count_of(uid),
            },
            audit_failures: only.is_none().then(|| self.statistics.audit_failures.load(Ordering::Relaxed)),
        }
    }
}
