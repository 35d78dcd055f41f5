//! Whether a name may be looked up: one question for all that a program asks about it at the same time.
//!
//! Runs as the user in the supervisor, on one thread that never waits; what may wait (a person, the records) does so on
//! threads of its own, few of them. The names are a tool's.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, oneshot};

use super::asker::Sender;
use crate::common::id::CallId;
use crate::common::net::HostName;

/// How long an answer of a person holds for the rest of the same look-up: the other address family, a retry, another server.
pub const REMEMBERED: Duration = Duration::from_secs(30);

/// Names of one call that are judged at a time; a program has answers before it asks for more.
const OF_ONE_CALL: usize = 24;
/// Questions of one call that wait for verdicts, on the same name too: others have their places left.
const WAITING_OF_ONE_CALL: usize = 128;
/// Names that are judged at a time.
pub const AT_A_TIME: usize = 64;
/// Of what is remembered; beyond it all of its kind is forgotten, which asks again.
const REMEMBERED_AT_MOST: usize = 8192;

/// What came of judging.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// Policy does, or an answer that holds from now on.
    Yes,
    /// A person did, for this look-up alone.
    Once,
    /// A person did not, or not in time, or policy does not.
    No,
    /// Whoever asked is gone, and with it the question.
    Gone,
}

/// Who decides.
pub trait Bench: Send + Sync + 'static {
    type Asker: Send + 'static;

    /// The process that an answer to this query would reach.
    fn find(&self, sender: &Sender) -> Option<Self::Asker>;

    fn call(&self, asker: &Self::Asker) -> CallId;

    /// Whether this name, which was allowed before, is allowed without a question. Does not wait.
    fn still_allows(&self, asker: &Self::Asker, name: &HostName) -> bool;

    /// The verdict, which may take until a person has answered.
    fn judge(&self, asker: &Self::Asker, name: &HostName) -> Said;

    /// Whether a rule denies this name, whoever asks.
    fn forbids(&self, name: &HostName) -> bool;

    /// Whether policy allows an address without a question. Does not wait, but for the records.
    fn allows_address(&self, asker: &Self::Asker, address: std::net::IpAddr) -> bool;

    /// A name leads to these addresses, and whoever asked is told next.
    fn learnt(&self, _name: &HostName, _addresses: &[std::net::IpAddr]) {}
}

/// What the sender of a query is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// For this call.
    Allowed(CallId),
    Denied,
    /// There is nobody to answer to.
    Nobody,
    /// So many names of this call are being judged that this one is not.
    TooMany,
}

type Key = (CallId, HostName);

#[derive(Default)]
struct State {
    allowed: HashSet<Key>,
    /// What a person just said yes to, once.
    approved: HashMap<Key, Instant>,
    denied: HashMap<Key, Instant>,
    /// Single words of which a person just denied the name that a domain was appended to.
    words: HashMap<Key, Instant>,
    /// Being judged, and who else waits for the verdict.
    open: HashMap<Key, Vec<oneshot::Sender<Said>>>,
}

/// The verdicts of one session.
pub struct Verdicts<B> {
    bench: Arc<B>,
    state: RefCell<State>,
    threads: Semaphore,
}

impl<B: Bench> Verdicts<B> {
    /// See [`Bench::learnt`].
    pub fn learnt(&self, name: &HostName, addresses: &[std::net::IpAddr]) {
        self.bench.learnt(name, addresses);
    }

    pub fn new(bench: Arc<B>) -> Rc<Verdicts<B>> {
        Rc::new(Verdicts { bench, state: RefCell::default(), threads: Semaphore::new(AT_A_TIME) })
    }

    /// Whether the sender may look up this name. `search` are the domains that programs append to names by themselves.
    pub async fn on(&self, sender: &Sender, name: &HostName, search: &[HostName]) -> Verdict {
        loop {
            let Some(asker) = self.bench.find(sender) else { return Verdict::Nobody };
            let key = (self.bench.call(&asker), name.clone());
            if let Some(verdict) = self.known(&asker, &key, search) {
                return verdict;
            }
            match self.join(&key) {
                Joined::Full => return Verdict::TooMany,
                Joined::Waits(said) => match said.await {
                    Ok(Said::Yes | Said::Once) => return Verdict::Allowed(key.0),
                    Ok(Said::No) => return Verdict::Denied,
                    // Who asked first is gone; this one is not.
                    Ok(Said::Gone) | Err(_) => {}
                },
                Joined::First => {
                    let said = self.judge(asker, &key.1).await;
                    let call = key.0;
                    self.remember(key, said, search);
                    return match said {
                        Said::Yes | Said::Once => Verdict::Allowed(call),
                        Said::No => Verdict::Denied,
                        Said::Gone => Verdict::Nobody,
                    };
                }
            }
        }
    }

    /// Whether a rule denies this name, whoever asks.
    pub fn forbids(&self, name: &HostName) -> bool {
        self.bench.forbids(name)
    }

    /// Whether the name of an address may be asked for: never by a question.
    pub fn on_address(&self, sender: &Sender, address: std::net::IpAddr) -> Verdict {
        match self.bench.find(sender) {
            None => Verdict::Nobody,
            Some(asker) if self.bench.allows_address(&asker, address) => Verdict::Allowed(self.bench.call(&asker)),
            Some(_) => Verdict::Denied,
        }
    }

    fn known(&self, asker: &B::Asker, key: &Key, search: &[HostName]) -> Option<Verdict> {
        let now = Instant::now();
        let state = self.state.borrow();
        let is_new = |since: &Instant| now.saturating_duration_since(*since) < REMEMBERED;
        if state.denied.get(key).is_some_and(is_new) {
            return Some(Verdict::Denied);
        }
        if state.approved.get(key).is_some_and(is_new) {
            return Some(Verdict::Allowed(key.0));
        }
        if state.allowed.contains(key) && self.bench.still_allows(asker, &key.1) {
            return Some(Verdict::Allowed(key.0));
        }
        let was_denied = |name: HostName| state.denied.get(&(key.0, name)).is_some_and(is_new);
        let is_denied_otherwise = state.words.get(key).is_some_and(is_new)
            || search.iter().filter_map(|suffix| without(&key.1, suffix)).any(was_denied);
        // The same look-up of the program, under another name: nobody is asked again, but policy may have its own word.
        is_denied_otherwise
            .then(|| if self.bench.still_allows(asker, &key.1) { Verdict::Allowed(key.0) } else { Verdict::Denied })
    }

    fn join(&self, key: &Key) -> Joined {
        let mut state = self.state.borrow_mut();
        let of_call = state.open.iter().filter(|(open, _)| open.0 == key.0);
        let (open, waiting) = of_call.fold((0_usize, 0_usize), |(open, waiting), (_, others)| {
            (open.saturating_add(1), waiting.saturating_add(others.len()))
        });
        if open.saturating_add(waiting) >= WAITING_OF_ONE_CALL {
            return Joined::Full;
        }
        if let Some(waiting) = state.open.get_mut(key) {
            let (send, receive) = oneshot::channel();
            waiting.push(send);
            return Joined::Waits(receive);
        }
        if open >= OF_ONE_CALL {
            return Joined::Full;
        }
        state.open.insert(key.clone(), Vec::new());
        Joined::First
    }

    async fn judge(&self, asker: B::Asker, name: &HostName) -> Said {
        let Ok(_place) = self.threads.acquire().await else { return Said::No };
        let (bench, name) = (Arc::clone(&self.bench), name.clone());
        // A thread that could not be started or died has judged nothing.
        tokio::task::spawn_blocking(move || bench.judge(&asker, &name)).await.unwrap_or(Said::No)
    }

    fn remember(&self, key: Key, said: Said, search: &[HostName]) {
        let now = Instant::now();
        let mut state = self.state.borrow_mut();
        let waiting = state.open.remove(&key).unwrap_or_default();
        match said {
            Said::Yes => {
                if state.allowed.len() >= REMEMBERED_AT_MOST {
                    state.allowed.clear();
                }
                state.allowed.insert(key);
            }
            Said::Once => put(&mut state.approved, key, now),
            Said::No => {
                // Whoever appends a domain to a word tries the word alone next.
                let words = search.iter().filter_map(|suffix| without(&key.1, suffix));
                for word in words.filter(|word| word.labels().count() == 1) {
                    put(&mut state.words, (key.0, word), now);
                }
                put(&mut state.denied, key, now);
            }
            Said::Gone => {}
        }
        drop(state);
        for one in waiting {
            // Who waited may have been given up meanwhile.
            let _ = one.send(said);
        }
    }
}

enum Joined {
    First,
    Waits(oneshot::Receiver<Said>),
    Full,
}

/// A name without the domain that was appended to it.
fn without(name: &HostName, suffix: &HostName) -> Option<HostName> {
    let rest = name.as_str().strip_suffix(suffix.as_str())?.strip_suffix('.')?;
    rest.parse().ok()
}

fn put(map: &mut HashMap<Key, Instant>, key: Key, now: Instant) {
    if map.len() >= REMEMBERED_AT_MOST {
        map.retain(|_, since| now.saturating_duration_since(*since) < REMEMBERED);
    }
    if map.len() >= REMEMBERED_AT_MOST {
        map.clear();
    }
    map.insert(key, now);
}
