//! Answers that outlive their sessions, between the store, the sessions that run and those that begin. Runs as root in the
//! daemon, on its one thread.
//!
//! A lasting answer is its user's, under one profile: another profile by the same name, such as one in a file that a client
//! names, is another one.

use std::path::Path;
use std::rc::{Rc, Weak};
use std::time::Duration;

use tracing::{error, info};

use super::agents::Local;
use super::broker::Control;
use super::core::Core;
use super::keeping::Keeper;
use super::live::Live;
use super::message;
use super::store::{Answered, Holder, Stored, Thing};
use crate::common::consent::{Answer, Prompt, Suggestion};
use crate::common::decision::{Effect, Lifetime, Limits, Term, Width};
use crate::common::id::GrantId;
use crate::common::moment::{Expiry, Moment, wall_now};
use crate::common::request::Request;
use crate::common::scope::Pattern;
use crate::policy::load::{FOLDERS, USER_FOLDER};
use crate::policy::{Grant, Profile, Scope};

/// Equal answers after which a lasting one is suggested.
const SUGGESTED_AFTER: u32 = 3;

/// What lasting answers call a profile: its name, or its file where only that says which it is.
pub fn profile_key(profile: &Profile) -> String {
    let file = Path::new(&profile.file);
    let name = format!("{}.toml", profile.name);
    let own = profile.home.as_path().join(USER_FOLDER);
    let is_looked_up = profile.file == format!("built-in:{}", profile.name)
        || FOLDERS.iter().any(|folder| file == Path::new(folder).join(&name))
        || file == own.join(&name);
    if is_looked_up { profile.name.clone() } else { profile.file.clone() }
}

impl Live {
    pub fn holder(&self) -> Holder {
        Holder { uid: self.owner(), profile: profile_key(&self.profile) }
    }
}

/// A stored answer as a session with these limits may have it: what allows may not hold for longer than answers of that
/// session could, counted from when it was given.
fn within(stored: &Stored, limits: Limits) -> Option<Grant> {
    let grant = stored.grant();
    if grant.effect == Effect::Deny {
        return Some(grant);
    }
    let until = match (grant.until, limits.max_for) {
        (Some(until), Some(most)) => {
            let age = Duration::from_micros(super::core::now_micros().saturating_sub(stored.given));
            let left = most.checked_sub(age).filter(|left| !left.is_zero())?;
            let latest = Expiry::after(left);
            Some(Expiry { boot: until.boot.min(latest.boot), wall: until.wall.min(latest.wall) })
        }
        (until, _) => until,
    };
    (grant.lifetime <= limits.longest).then_some(Grant { until, ..grant })
}

impl Core {
    /// What is granted and denied to a session of this holder under this profile from its start.
    pub(super) fn lasting_for(&self, holder: &Holder, profile: &Profile) -> Vec<Grant> {
        self.lasting_within(holder, profile.grants.limits())
    }

    fn lasting_within(&self, holder: &Holder, limits: Limits) -> Vec<Grant> {
        let live = self.setting.store.live(holder);
        live.iter().filter_map(|stored| within(stored, limits)).collect()
    }

    /// Reads that somebody denies are held in every session that begins from now on, whatever its policy says of them.
    pub(super) fn hold_denied_reads(&self, uid: u32, profile: &mut Profile) {
        let holder = Holder { uid, profile: profile_key(profile) };
        for stored in self.setting.store.live(&holder) {
            let grant = stored.terms();
            if let (Effect::Deny, crate::common::access::Access::Read, Scope::Paths(pattern)) =
                (grant.effect, grant.access, &grant.scope)
                && !profile.held_reads.contains(pattern)
            {
                profile.held_reads.push(Pattern::clone(pattern));
            }
        }
    }

    /// A session has what is stored and nothing that was stored once: what changed while nobody told it.
    pub(super) fn reconcile(&self, live: &Rc<Live>) {
        let stored = self.lasting_within(&live.holder(), live.limits());
        let held = live.view.grants.borrow().clone();
        for gone in held.iter().map(|held| &held.grant).filter(|grant| grant.lifetime > Lifetime::Session) {
            if !stored.iter().any(|grant| grant.id == gone.id) {
                // One whose broker ended has no grants.
                let _ = live.control.send(Control::Revoke(gone.id));
            }
        }
        for grant in stored {
            if !held.iter().any(|held| held.grant.id == grant.id) {
                let _ = live.control.send(Control::Grant(Box::new(grant)));
            }
        }
    }

    /// Gives a stored answer to the sessions that it is for.
    pub(super) fn spread(&self, stored: &Stored, but: Option<&Rc<Live>>) {
        for live in self.sessions.borrow().values() {
            let is_there = but.is_some_and(|but| Rc::ptr_eq(but, live));
            if is_there || live.holder() != stored.holder {
                continue;
            }
            if let Some(grant) = within(stored, live.limits()) {
                let _ = live.control.send(Control::Grant(Box::new(grant)));
            }
        }
    }

    /// Whatever session has it has it no more, from the next attempt on.
    pub(super) fn withdraw(&self, id: GrantId) {
        for live in self.sessions.borrow().values() {
            if live.view.grants.borrow().iter().any(|held| held.grant.id == id) {
                let _ = live.control.send(Control::Revoke(id));
            }
        }
    }

    pub(super) fn tell_stored(stored: &Stored) {
        let grant = stored.terms();
        info!(
            MESSAGE_ID = message::GRANT_STORED,
            GATED_GRANT = %grant.id,
            GATED_USER = stored.user,
            GATED_PROFILE = stored.holder.profile,
            GATED_EFFECT = grant.effect.as_str(),
            GATED_ACCESS = grant.access.as_str(),
            GATED_OBJECT = grant.scope(),
            GATED_ANSWERED_BY = grant.by,
            "an answer outlives its session"
        );
    }
}

/// The store for the broker of one session.
pub(super) struct SessionKeeper {
    core: Weak<Core>,
    live: Weak<Live>,
}

impl SessionKeeper {
    pub fn new(core: &Rc<Core>, live: &Rc<Live>) -> SessionKeeper {
        SessionKeeper { core: Rc::downgrade(core), live: Rc::downgrade(live) }
    }

    fn both(&self) -> Option<(Rc<Core>, Rc<Live>)> {
        Some((self.core.upgrade()?, self.live.upgrade()?))
    }
}

impl Keeper for SessionKeeper {
    fn keep<'a>(&'a self, grants: Vec<Rc<Grant>>) -> Local<'a, Vec<Option<Rc<Grant>>>> {
        Box::pin(async move {
            let Some((core, live)) = self.both() else { return grants.iter().map(|_| None).collect() };
            let new = |grant: &Rc<Grant>| Stored::new(Grant::clone(grant), live.holder(), live.kept.user.name.clone());
            let store = &core.setting.store;
            let mut kept = match store.add(grants.iter().map(new).collect()).await {
                Ok(stored) => stored.into_iter().map(Some).collect(),
                Err(_) => Vec::new(),
            };
            // Where not all of them can be, as many as can: one that finds no room leaves the others theirs.
            for grant in grants.iter().skip(kept.len()) {
                let stored = store.add(vec![new(grant)]).await;
                if let Err(error) = &stored {
                    error!(GATED_SESSION = %live.id(), grant = %grant.id, %error, "an answer is not stored");
                }
                kept.push(stored.ok().and_then(|stored| stored.into_iter().next()));
            }
            for stored in kept.iter().flatten() {
                Core::tell_stored(stored);
                core.spread(stored, Some(&live));
            }
            kept.into_iter().map(|stored| stored.map(|stored| Rc::new(stored.grant()))).collect()
        })
    }

    fn used(&self, grant: GrantId) {
        if let Some(core) = self.core.upgrade() {
            core.setting.store.used(grant);
        }
    }

    fn answered(&self, request: &Request, answer: &Answer, by: &str) {
        let (width, is_yes) = match answer {
            Answer::Deny => (Width::Exact, false),
            Answer::Block(width, _) => (*width, false),
            Answer::Split | Answer::Edit(_) => return,
            yes => match yes.allows() {
                Some((width, _)) => (width, true),
                None => return,
            },
        };
        if let Some(((core, live), thing)) = self.both().zip(Thing::of(request)) {
            let answered = Answered { thing, is_yes, width, by: by.to_owned() };
            core.setting.store.answered(&live.holder(), answered);
        }
    }

    fn suggestion(&self, prompt: &Prompt) -> Option<Suggestion> {
        if prompt.longest < Lifetime::Until || prompt.group.is_some() {
            return None;
        }
        let (core, live) = self.both()?;
        let tally = core.setting.store.tally();
        let count = tally.get(&live.holder(), &Thing::of(&prompt.request)?)?;
        if !count.last_was_yes || count.in_a_row < SUGGESTED_AFTER {
            return None;
        }
        let offered = prompt.offers.iter().any(|offer| offer.width == count.width);
        let width = if offered { count.width } else { Width::Exact };
        let term = match (prompt.longest, prompt.max_for) {
            (Lifetime::Persistent, _) => Term::Always,
            (_, Some(most)) => Term::For(most),
            (_, None) => return None,
        };
        Some(Suggestion { times: count.in_a_row, width, term })
    }
}

/// Whether a denial holds in a session that runs, or only in those that begin after it.
pub(super) fn is_held_in(live: &Live, grant: &Grant) -> bool {
    use crate::common::access::Access;
    let policy = live.policy();
    match (&grant.scope, grant.access) {
        (_, Access::Exec) => policy.judges_exec(),
        (Scope::Paths(pattern), Access::Read) => {
            let start = pattern.literal_prefix();
            policy.guards_read(&start) || policy.guards_reads_below(&start)
        }
        (Scope::Paths(pattern), Access::Write) => {
            let start = pattern.literal_prefix();
            let native = live.profile.scratch.iter().any(|root| start.is_within(root) || root.is_within(&start));
            !native
        }
        _ => true,
    }
}

/// Microseconds of CLOCK_REALTIME when it is over.
pub fn end_of(until: Expiry) -> u64 {
    let left = until
        .boot
        .0
        .saturating_sub(Moment::now().0)
        .min(std::time::Duration::from_secs(until.wall.saturating_sub(wall_now())));
    super::core::now_micros().saturating_add(u64::try_from(left.as_micros()).unwrap_or(u64::MAX))
}
