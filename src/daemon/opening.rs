//! From a caller's order to a session, or to a further call of one: who may, under which policy. Runs as root in the daemon,
//! on its one thread; opens no file of the caller's.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use super::core::{Core, now_micros};
use super::launch::Given;
use super::link::Outgoing;
use super::live::Live;
use super::orders::{Caller, Into, Opening, Order, Ran, Refusal};
use super::state::Kept;
use super::store::StoreError;
use super::users::{self, Known};
use super::watchers::Sight;
use crate::common::id::{NoRandomness, SessionId, Token};
use crate::common::path::RawPath;
use crate::common::wire::{Ends, Start, ToSession};
use crate::policy::publish;
use crate::policy::select::Circumstances;
use crate::policy::{Context, ProfileSelector};

/// Sessions of one user at the most, but for root.
const MOST_OF_A_USER: usize = 256;

impl Core {
    /// A session that waits for calls until it is stopped.
    pub async fn open_session(self: &Rc<Self>, caller: &Caller, opening: Opening) -> Result<SessionId, Refusal> {
        caller.outside()?;
        let (live, _) = self.open(caller, opening, Ends::WhenStopped).await?;
        Ok(live.id().clone())
    }

    /// A command, in a session of its own or in one that runs.
    pub async fn run(self: &Rc<Self>, caller: &Caller, order: Order) -> Result<Ran, Refusal> {
        caller.outside()?;
        let is_new = matches!(order.into, Into::New(_));
        let (live, chosen) = match order.into {
            Into::Session(id) => {
                let live = self.sessions.borrow().get(&id).cloned().ok_or(Refusal::NoSession)?;
                // What runs in a session runs as its user, with what that user was granted.
                if live.owner() != caller.uid && !caller.is_root() {
                    return Err(Refusal::NoSession);
                }
                (live, None)
            }
            Into::New(opening) => self.open(caller, opening, Ends::WithFirstCall).await?,
        };
        live.editors.gave(&caller.sender, &order.start.command);
        let ordered = self.order(&live, order.start, order.fds, order.events.then_some(caller.uid)).await;
        if ordered.is_err() && is_new {
            // It would wait for its first call for ever.
            live.stop.notify_one();
        }
        ordered.map(|ran| Ran { chosen, ..ran })
    }

    async fn order(
        &self,
        live: &Rc<Live>,
        start: Start,
        fds: Vec<OwnedFd>,
        reader: Option<u32>,
    ) -> Result<Ran, Refusal> {
        let sight = Sight::Session(live.id().clone());
        let watch = |uid| self.watchers.add(sight, uid).map_err(|_| Refusal::TooMany);
        let events = reader.map(watch).transpose()?;
        let starts = live.starts.borrow().clone().ok_or(Refusal::NoSession)?;
        let outgoing = Outgoing { message: ToSession::Start(Box::new(start)), fds };
        starts.send(outgoing).await.map_err(|_| Refusal::NoSession)?;
        Ok(Ran { session: live.id().clone(), events, notes: live.profile.notes.clone(), chosen: None })
    }

    /// With what is to be said of how the profile was chosen.
    async fn open(
        self: &Rc<Self>,
        caller: &Caller,
        opening: Opening,
        ends: Ends,
    ) -> Result<(Rc<Live>, Option<String>), Refusal> {
        let known = self.user_of(caller, opening.user).await?;
        let policy = Arc::clone(&self.policy.borrow());
        if known.identity.uid != 0 && !policy.may_run(&known.identity.name, &known.groups) {
            return Err(Refusal::MayNotRun);
        }
        let _starting = Starting::new(self, known.identity.uid)?;
        let home = opening.home.clone().unwrap_or_else(|| known.identity.home.clone());
        let context = Context { home: home.clone(), user: known.identity.name.clone(), cwd: opening.directory.clone() };
        let learns = opening.learn;
        let may_have_own = known.identity.uid == 0 || caller.is_root() || policy.ceiling().may_write_profiles();
        if learns && !may_have_own {
            return Err(Refusal::MayNotLearn);
        }
        let is_own =
            |name: &String| name.starts_with('/') || opening.profiles.contains_key(name) && !policy.has_profile(name);
        if let Some(name) = opening.profile.as_ref().filter(|name| !may_have_own && is_own(name)) {
            return Err(Refusal::OwnProfile(name.clone()));
        }
        let own = if may_have_own { opening.profiles } else { BTreeMap::new() };
        let (files, named, program) = (Arc::clone(&policy), opening.profile, opening.program);
        let (unit, groups) = (caller.unit.clone(), known.groups);
        let load = move || {
            let (name, chosen) = match named {
                Some(name) => (name, None),
                None => {
                    let circumstances = Circumstances { program, unit, groups: groups.clone() };
                    let choice = files.select(&own, &context, &circumstances)?;
                    let told = choice.told();
                    (choice.name, told)
                }
            };
            let selector = match name.starts_with('/') {
                // Of those that came with the call; no file is opened.
                true => ProfileSelector::File(PathBuf::from(&name)),
                false => ProfileSelector::Name(name.clone()),
            };
            let mut profile = files.load(selector, &own, &context)?;
            if name.starts_with('/') {
                profile.protect(RawPath::from(PathBuf::from(name)));
            }
            profile.learning = learns;
            files.ceiling().cover(&mut profile, &context, &groups)?;
            Ok::<_, Refusal>((profile, chosen))
        };
        let (mut profile, chosen) = {
            let turn = self.turn_of(caller.uid);
            let _turn = turn.lock().await;
            tokio::task::spawn_blocking(load).await.map_err(|_| StoreError::Ending)??
        };
        publish::check(&profile, &opening.publish)?;
        for path in &self.setting.own {
            profile.protect(path.clone());
        }
        self.hold_denied_reads(known.identity.uid, &mut profile);
        let kept = Kept {
            session: self.new_id()?,
            user: known.identity,
            token: Token::random()?,
            profile: profile.encode(),
            directory: opening.directory,
            started: now_micros(),
            unit: None,
            process: None,
        };
        // Also where the caller names none: the supervisor refuses a home that leads elsewhere than the policy believes.
        let given = Given { publish: opening.publish, ssh_agent: opening.ssh_agent };
        let live = self.launch(kept, profile, home, ends, given).await?;
        let is_newest = Arc::ptr_eq(&policy, &self.policy.borrow());
        if !is_newest {
            // Read while it was built, when nobody knew of it.
            self.impose(&live).await;
        }
        Ok((live, chosen))
    }

    fn new_id(&self) -> Result<SessionId, NoRandomness> {
        loop {
            let id = SessionId::random()?;
            if !self.sessions.borrow().contains_key(&id) {
                return Ok(id);
            }
        }
    }

    async fn user_of(&self, caller: &Caller, wanted: Option<String>) -> Result<Known, Refusal> {
        match wanted {
            None => Ok(users::by_uid(caller.uid).await?),
            Some(name) => {
                let known = users::by_name(name).await?;
                if known.identity.uid != caller.uid && !caller.is_root() {
                    return Err(Refusal::NotAuthorized);
                }
                Ok(known)
            }
        }
    }
}

/// Counts a session of a user that is being started, so that nobody starts more at once than they may have.
struct Starting {
    core: Rc<Core>,
    uid: u32,
}

impl Starting {
    fn new(core: &Rc<Core>, uid: u32) -> Result<Starting, Refusal> {
        let running = core.sessions.borrow().values().filter(|live| live.owner() == uid).count();
        let mut starting = core.starting.borrow_mut();
        let own = starting.entry(uid).or_default();
        if uid != 0 && running.saturating_add(*own) >= MOST_OF_A_USER {
            return Err(Refusal::TooMany);
        }
        *own = own.saturating_add(1);
        Ok(Starting { core: Rc::clone(core), uid })
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        let mut starting = self.core.starting.borrow_mut();
        if let Some(own) = starting.get_mut(&self.uid) {
            *own = own.saturating_sub(1);
            if *own == 0 {
                starting.remove(&self.uid);
            }
        }
    }
}
