//! Lasting answers as callers know them: given before anything asked, listed, taken back, forgotten. Runs as root in the
//! daemon, on its one thread; callers are identified by [`super::bus`].

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use tracing::info;

use super::broker::Control;
use super::core::{Core, now_micros};
use super::lasting::{is_held_in, profile_key};
use super::live::Live;
use super::orders::{Caller, Refusal};
use super::store::{Count, Holder, Revoked, Row, StoreError, Stored, Thing};
use super::users;
use crate::common::access::Access;
use crate::common::bus::action;
use crate::common::decision::{Effect, Lifetime, Term};
use crate::common::id::{GrantId, SessionId};
use crate::common::moment::Expiry;
use crate::common::path::RawPath;
use crate::common::wire::Identity;
use crate::policy::sockets::Services;
use crate::policy::unasked::{self, Words};
use crate::policy::{Context, Grant, Policy, PolicyError, Profile, ProfileSelector};

/// The profile of who names none.
const DEFAULT_PROFILE: &str = "coder";

/// Answers that hold for one session and that nobody asked for are refused where it has so many that hold for it.
pub const MOST_OF_A_SESSION: usize = 1024;

/// Of one user, on their way.
const MOST_AT_ONCE: usize = 16;

/// An answer that nobody asked for.
#[derive(Clone, Debug)]
pub struct Unasked {
    pub effect: Effect,
    pub access: Access,
    pub words: Words,
    pub term: Term,
    pub place: For,
}

/// Whom such an answer is for.
#[derive(Clone, Debug)]
pub enum For {
    Session(SessionId),
    Profile(Chosen),
}

/// A profile as a client names it.
#[derive(Clone, Debug, Default)]
pub struct Chosen {
    pub profile: Option<String>,
    pub directory: RawPath,
    pub home: Option<RawPath>,
    /// The caller's own profile files by name.
    pub profiles: BTreeMap<String, String>,
    /// Whose, for root.
    pub user: Option<String>,
}

/// An answer that outlives its request, with what is known of it.
#[derive(Debug)]
pub struct Listed {
    /// `None` where it outlives its session.
    pub session: Option<SessionId>,
    pub uid: u32,
    pub profile: String,
    pub grant: Grant,
    /// Microseconds of CLOCK_REALTIME.
    pub given: u64,
    pub uses: Option<u64>,
    /// The same.
    pub last_used: Option<u64>,
    pub revoked: Option<Revoked>,
}

impl Listed {
    fn of(stored: &Stored, revoked: Option<Revoked>) -> Listed {
        Listed {
            session: None,
            uid: stored.holder.uid,
            profile: stored.holder.profile.clone(),
            grant: stored.grant(),
            given: stored.given,
            uses: Some(stored.uses.get()),
            last_used: stored.last_used.get(),
            revoked,
        }
    }
}

/// An answer that nobody asked for, in force.
#[derive(Debug)]
pub struct Added {
    pub listed: Listed,
    /// Sessions that run and cannot hold what it denies, because the kernel lets them do it without a question.
    pub not_in: usize,
}

impl Core {
    /// Gives an answer before anything asked.
    pub async fn add_grant(self: &Rc<Self>, caller: &Caller, unasked: Unasked) -> Result<Added, Refusal> {
        caller.outside()?;
        let by = self.speaker(caller, "gatedctl").await?.by;
        let turn = self.turn_of(caller.uid);
        if Rc::strong_count(&turn) > MOST_AT_ONCE {
            return Err(Refusal::TooMany);
        }
        let _turn = turn.lock().await;
        let Unasked { effect, access, words, term, place } = unasked;
        let (session, profile, homes, holder, user) = match place {
            For::Session(id) => {
                let live = self.sessions.borrow().get(&id).cloned().ok_or(Refusal::NoSession)?;
                if live.owner() != caller.uid && !caller.is_root() {
                    return Err(Refusal::NoSession);
                }
                let (profile, holder, user) = (live.profile.clone(), live.holder(), live.kept.user.name.clone());
                let homes = [profile.home.clone(), live.kept.user.home.clone()];
                (Some(live), profile, homes, holder, user)
            }
            For::Profile(chosen) => {
                let (profile, user) = self.chosen(caller, chosen).await?;
                let holder = Holder { uid: user.uid, profile: profile_key(&profile) };
                let homes = [profile.home.clone(), user.home];
                (None, profile, homes, holder, user.name)
            }
        };
        let lifetime = term.lifetime();
        if lifetime < Lifetime::Session || (lifetime == Lifetime::Session && session.is_none()) {
            return Err(Refusal::Invalid("term"));
        }
        let services = Services::new(&profile.home, holder.uid, None);
        let mut meant = unasked::read(access, effect, &words, &homes)?;
        let (mut authenticated, mut time) = (false, term.time());
        if effect == Effect::Allow {
            meant = unasked::with_service(meant, &services);
            let limits = session.as_ref().map_or_else(|| profile.grants.limits(), |live| live.limits());
            let is_too_long = term.time().is_some_and(|time| limits.max_for.is_some_and(|most| time > most));
            if lifetime > limits.longest || is_too_long {
                let most = limits.max_for.map(|most| format!(" of {} s at the most", most.as_secs()));
                return Err(Refusal::Session(format!(
                    "profile {} lets answers hold for {}{}",
                    profile.name,
                    limits.longest,
                    most.filter(|_| limits.longest == Lifetime::Until || is_too_long).unwrap_or_default()
                )));
            }
            let asked = meant.clone();
            let judged = tokio::task::spawn_blocking(move || {
                unasked::may_allow(&Policy::new(&profile), access, &asked, lifetime, &services)
            });
            let allowed = judged.await.map_err(|_| StoreError::Ending)??;
            authenticated = allowed.authenticated;
            time = [time, allowed.at_most].into_iter().flatten().min();
            if authenticated && !caller.has(action::GRANT_SENSITIVE) {
                return Err(Refusal::Needs(action::GRANT_SENSITIVE));
            }
        }
        let grant = Grant {
            id: GrantId::random()?,
            effect,
            access,
            object: meant.object,
            scope: meant.scope,
            lifetime,
            call: None,
            until: time.map(Expiry::after),
            authenticated,
            group: None,
            by,
            origin: None,
        };
        if session.as_ref().is_some_and(|live| !live.lets(&grant)) {
            return Err(Refusal::Session(
                "the administrator's ceiling.toml, which is newer than this session, says otherwise of a part of it; \
                 answer what is asked, or begin another session"
                    .into(),
            ));
        }
        if let (Some(live), Lifetime::Session) = (&session, lifetime) {
            let own = live.view.grants.borrow().iter().filter(|held| held.grant.lifetime == Lifetime::Session).count();
            if own >= MOST_OF_A_SESSION {
                return Err(Refusal::TooMany);
            }
            info!(GATED_SESSION = %live.id(), grant = %grant.id, by = grant.by, "granted unasked");
            live.control.send(Control::Grant(Box::new(grant.clone()))).map_err(|_| Refusal::NoSession)?;
            let not_in = usize::from(effect == Effect::Deny && !is_held_in(live, &grant));
            let listed = Listed {
                session: Some(live.id().clone()),
                uid: holder.uid,
                profile: holder.profile,
                grant,
                given: now_micros(),
                uses: None,
                last_used: None,
                revoked: None,
            };
            return Ok(Added { listed, not_in });
        }
        let kept = self.setting.store.add(vec![Stored::new(grant, holder, user)]).await?;
        let stored = kept.first().ok_or(Refusal::NoGrant)?;
        Core::tell_stored(stored);
        self.spread(stored, None);
        let sessions = self.sessions.borrow();
        let own = sessions.values().filter(|live| live.holder() == stored.holder);
        let not_in = own.filter(|live| effect == Effect::Deny && !is_held_in(live, stored.terms())).count();
        Ok(Added { listed: Listed::of(stored, None), not_in })
    }

    /// Profiles of users' own are read one at a time for one user: what their words cost is nobody else's time.
    pub(super) fn turn_of(&self, uid: u32) -> Rc<tokio::sync::Mutex<()>> {
        let mut turns = self.turns.borrow_mut();
        turns.retain(|_, turn| turn.strong_count() > 0);
        let turn = turns.get(&uid).and_then(Weak::upgrade).unwrap_or_default();
        turns.insert(uid, Rc::downgrade(&turn));
        turn
    }

    /// A profile as a session of the caller would have it now. What is in it is read beside the daemon's own thread.
    async fn chosen(&self, caller: &Caller, chosen: Chosen) -> Result<(Profile, Identity), Refusal> {
        let known = match chosen.user {
            None => users::by_uid(caller.uid).await?,
            Some(name) => users::by_name(name).await?,
        };
        if known.identity.uid != caller.uid && !caller.is_root() {
            return Err(Refusal::NotAuthorized);
        }
        let policy = Arc::clone(&self.policy.borrow());
        if known.identity.uid != 0 && !policy.may_run(&known.identity.name, &known.groups) {
            return Err(Refusal::MayNotRun);
        }
        let home = chosen.home.unwrap_or_else(|| known.identity.home.clone());
        let context = Context { home, user: known.identity.name.clone(), cwd: chosen.directory };
        let name = chosen.profile.unwrap_or_else(|| DEFAULT_PROFILE.to_owned());
        let may_have_own = known.identity.uid == 0 || caller.is_root() || policy.ceiling().may_write_profiles();
        let own = if may_have_own { chosen.profiles } else { BTreeMap::new() };
        if !may_have_own && name.starts_with('/') {
            return Err(Refusal::OwnProfile(name));
        }
        let selector = match name.starts_with('/') {
            true => ProfileSelector::File(PathBuf::from(&name)),
            false => ProfileSelector::Name(name),
        };
        let (files, groups) = (policy, known.groups);
        let load = move || {
            let mut profile = files.load(selector, &own, &context)?;
            files.ceiling().cover(&mut profile, &context, &groups)?;
            Ok::<Profile, PolicyError>(profile)
        };
        let profile = tokio::task::spawn_blocking(load).await.map_err(|_| StoreError::Ending)??;
        Ok((profile, known.identity))
    }

    /// Grants that the caller may see: those of sessions, and those that outlive them.
    pub fn grants(&self, caller: &Caller, only: Option<&SessionId>) -> Result<Vec<Listed>, Refusal> {
        caller.outside()?;
        let sessions = match only {
            Some(id) => vec![self.managed(caller, id)?],
            None => self.visible(caller),
        };
        let store = &self.setting.store;
        let mut listed = Vec::new();
        for live in &sessions {
            let held = live.view.grants.borrow();
            for held in held.iter().filter(|held| !held.grant.is_over()) {
                match store.get(held.grant.id) {
                    // Once for all sessions that have it, below.
                    Some(_) if only.is_none() => {}
                    Some(stored) => listed.push(Listed { grant: held.grant.clone(), ..Listed::of(&stored, None) }),
                    None => listed.push(of_session(live, held.grant.clone(), held.given)),
                }
            }
        }
        if only.is_none() {
            let mine = |stored: &Rc<Stored>| stored.holder.uid == caller.uid || caller.has(action::MANAGE_SESSIONS);
            let all = store.all().into_iter().filter(mine).filter(|stored| !stored.grant().is_over());
            listed.extend(all.map(|stored| Listed::of(&stored, None)));
        }
        Ok(listed)
    }

    /// From the next attempt on, in every session.
    pub async fn revoke(&self, caller: &Caller, grant: Option<GrantId>) -> Result<u32, Refusal> {
        caller.outside()?;
        let by = self.speaker(caller, "gatedctl").await?.by;
        let is_mine = |uid: u32| uid == caller.uid || caller.has(action::MANAGE_SESSIONS);
        let is_meant = |id: GrantId| grant.is_none_or(|wanted| wanted == id);
        let (mut revoked, mut foreign) = (BTreeSet::new(), false);
        let stored: Vec<Rc<Stored>> =
            self.setting.store.all().into_iter().filter(|stored| is_meant(stored.id())).collect();
        for stored in &stored {
            match is_mine(stored.holder.uid) {
                true => drop(revoked.insert(stored.id())),
                false => foreign = true,
            }
        }
        let lasting: Vec<GrantId> = revoked.iter().copied().collect();
        lasting.iter().for_each(|id| self.withdraw(*id));
        let on_disk = match lasting.is_empty() {
            true => Ok(()),
            false => self.setting.store.revoke(&lasting, &by).await,
        };
        let all: Vec<Rc<Live>> = self.sessions.borrow().values().cloned().collect();
        for live in all {
            let fits: Vec<GrantId> = live.view.grants.borrow().iter().map(|held| held.grant.id).collect();
            let of_session = |id: &GrantId| is_meant(*id) && !stored.iter().any(|stored| stored.id() == *id);
            for id in fits.into_iter().filter(of_session) {
                if !is_mine(live.owner()) {
                    foreign = true;
                } else if live.control.send(Control::Revoke(id)).is_ok() {
                    revoked.insert(id);
                }
            }
        }
        for id in &revoked {
            info!(grant = %id, by, "revoked");
        }
        on_disk?;
        match (grant, u32::try_from(revoked.len()).unwrap_or(u32::MAX)) {
            (Some(_), 0) if foreign => Err(Refusal::Needs(action::MANAGE_SESSIONS)),
            (Some(_), 0) => Err(Refusal::NoGrant),
            (_, count) => Ok(count),
        }
    }

    /// Whose answers a caller may look at: of one user, or, for who may manage sessions, of all.
    fn whose(&self, caller: &Caller, wants_all: bool) -> Result<Option<u32>, Refusal> {
        caller.outside()?;
        match wants_all {
            false => Ok(Some(caller.uid)),
            true if caller.has(action::MANAGE_SESSIONS) => Ok(None),
            true => Err(Refusal::Needs(action::MANAGE_SESSIONS)),
        }
    }

    /// What was stored, in force or not.
    pub async fn stored(&self, caller: &Caller, of_all: bool) -> Result<Vec<Listed>, Refusal> {
        let rows = self.setting.store.rows(self.whose(caller, of_all)?).await?;
        Ok(rows.into_iter().map(|Row { stored, revoked }| Listed::of(&stored, revoked)).collect())
    }

    /// One of them.
    async fn row(&self, caller: &Caller, id: GrantId) -> Result<Row, Refusal> {
        caller.outside()?;
        let row = self.setting.store.row(id).await?.ok_or(Refusal::NoGrant)?;
        match row.stored.holder.uid == caller.uid || caller.has(action::MANAGE_SESSIONS) {
            true => Ok(row),
            // Who may not see it does not learn that it is there.
            false => Err(Refusal::NoGrant),
        }
    }

    pub async fn show_grant(&self, caller: &Caller, id: GrantId) -> Result<Listed, Refusal> {
        match self.row(caller, id).await {
            Ok(Row { stored, revoked }) => Ok(Listed::of(&stored, revoked)),
            Err(Refusal::NoGrant) => {
                let mut own = self.grants(caller, None)?.into_iter();
                own.find(|listed| listed.grant.id == id).ok_or(Refusal::NoGrant)
            }
            Err(other) => Err(other),
        }
    }

    /// Nothing of it is left, nor of how often its holder answered the same.
    pub async fn forget_grant(&self, caller: &Caller, id: GrantId) -> Result<(), Refusal> {
        let row = self.row(caller, id).await?;
        self.withdraw(id);
        self.setting.store.forget(&row).await?;
        info!(grant = %id, by = caller.uid, "forgotten");
        Ok(())
    }

    /// What was answered, and how often.
    pub fn history(&self, caller: &Caller, of_all: bool) -> Result<Vec<(Holder, Thing, Count)>, Refusal> {
        let whose = self.whose(caller, of_all)?;
        Ok(self.setting.store.tally().list(whose))
    }
}

fn of_session(live: &Live, grant: Grant, given: u64) -> Listed {
    Listed {
        session: Some(live.id().clone()),
        uid: live.owner(),
        profile: profile_key(&live.profile),
        grant,
        given,
        uses: None,
        last_used: None,
        revoked: None,
    }
}
