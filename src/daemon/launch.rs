//! From an order to a session that is served, and from a session that outlived the daemon to one that is served again. Runs
//! as root in the daemon.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;
use tracing::{error, info, warn};

use super::agents::Asker;
use super::broker::{Broker, BrokerConfig};
use super::core::Core;
use super::events::Events;
use super::lasting::{SessionKeeper, profile_key};
use super::link::{Outgoing, Served, Socket};
use super::live::{FAREWELL, Live, State};
use super::message;
use super::muted::MUTED;
use super::notices::Whom;
use super::orders::Refusal;
use super::pending::SessionTerms;
use super::rendezvous::Arrived;
use super::state::Kept;
use super::store::Holder;
use crate::common::notice::{Kind, Notice};
use crate::common::path::RawPath;
use crate::common::wire::{self, Ends, FromSession, Launch, Published, Rendezvous, ToSession};
use crate::policy::model::NoConsentAgent;
use crate::policy::{Grant, Profile};

/// How long a supervisor may take to build its session.
const BUILDING: Duration = Duration::from_secs(30);

/// How long a session whose supervisor does not come back is kept.
const LOST: Duration = Duration::from_secs(15);

/// The lowest Landlock ABI that sessions of the daemon accept; the supervisor's own is higher or equal.
const LANDLOCK_ABI_MIN: u32 = 6;

/// What whoever opens a session gives it.
#[derive(Debug, Default)]
pub(super) struct Given {
    /// Checked against the profile.
    pub publish: Vec<SocketAddr>,
    pub ssh_agent: Option<RawPath>,
}

impl Core {
    /// Start a supervisor, have it build the session, and serve it from then on.
    pub(super) async fn launch(
        self: &Rc<Self>,
        mut kept: Kept,
        profile: Profile,
        home: RawPath,
        ends: Ends,
        given: Given,
    ) -> Result<Rc<Live>, Refusal> {
        let id = kept.session.clone();
        let engine = Rc::clone(&self.setting.engine);
        let started = engine.start(&id).await.map_err(|error| Refusal::Session(error.to_string()))?;
        (kept.unit, kept.process) = (started.unit, started.process);
        // From here on a caller that goes away, an error and a crash leave something to take down.
        let unfinished = Unfinished { core: Rc::clone(self), kept: Some(kept.clone()) };
        self.setting.shelf.keep(&kept)?;
        let holder = Holder { uid: kept.user.uid, profile: profile_key(&profile) };
        let lasting = self.lasting_for(&holder, &profile);
        let published = Published::all(&given.publish, &kept.user.name)?;
        let launch = Launch {
            version: wire::VERSION,
            session: id.clone(),
            user: kept.user.clone(),
            profile: profile.encode(),
            network: profile.network,
            landlock_abi_min: LANDLOCK_ABI_MIN,
            workspace: profile.workspace.clone().unwrap_or_else(|| kept.directory.clone()),
            directory: kept.directory.clone(),
            home: Some(home),
            ends,
            publish: published.clone(),
            grants: lasting.iter().map(Grant::encode).collect(),
            ssh_agent: given.ssh_agent,
            rendezvous: Some(Rendezvous {
                socket: RawPath::from(self.setting.socket.clone()),
                token: kept.token.clone(),
            }),
        };
        let socket = started.socket;
        timeout(BUILDING, built(&socket, launch))
            .await
            .map_err(|_| Refusal::Session("the supervisor took too long".into()))??;
        let live = Rc::new(Live::new(kept, profile, State::Running, self.view_for(&id)));
        for Published { grant, address, by } in published {
            live.view.granted(Grant::published(grant, address, &by));
        }
        lasting.into_iter().for_each(|grant| live.view.granted(grant));
        unfinished.finish();
        self.sessions.borrow_mut().insert(id.clone(), Rc::clone(&live));
        // What was answered while it was built.
        self.reconcile(&live);
        self.report(super::core::Change::SessionAdded(id.clone()));
        info!(
            MESSAGE_ID = message::SESSION_STARTED,
            GATED_SESSION = %id,
            GATED_USER = live.kept.user.name,
            GATED_PROFILE = live.profile.name,
            GATED_PUBLISHED = given.publish.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
            "a session started"
        );
        self.serve(&live, socket.serve());
        Ok(live)
    }

    /// Take over the sessions that a daemon before this one started. Returns when all of them are back or given up, or after `patience`;
    /// those that come later are served then.
    pub async fn adopt(self: &Rc<Self>, patience: Duration) -> Result<(), Refusal> {
        let (all, broken) = self.setting.shelf.all()?;
        for error in broken {
            warn!(%error, "the state of a session cannot be read");
        }
        let mut waits = Vec::new();
        for kept in all {
            let profile = match Profile::decode(&kept.profile) {
                Ok(profile) => profile,
                Err(error) => {
                    warn!(GATED_SESSION = %kept.session, %error, "a session of another version is ended");
                    self.setting.engine.kill(&kept).await;
                    self.setting.shelf.forget(&kept.session)?;
                    continue;
                }
            };
            let id = kept.session.clone();
            let live = Rc::new(Live::new(kept, profile, State::Lost, self.view_for(&id)));
            self.sessions.borrow_mut().insert(id.clone(), Rc::clone(&live));
            self.report(super::core::Change::SessionAdded(id));
            self.impose(&live).await;
            let (back, is_back) = oneshot::channel();
            waits.push(is_back);
            tokio::task::spawn_local(Rc::clone(self).take_back(live, back));
        }
        let all_back = async {
            for wait in waits {
                // Given up is as good as back here.
                let _ = wait.await;
            }
        };
        if timeout(patience, all_back).await.is_err() {
            warn!(lost = self.lost(), "some sessions are not back yet");
        }
        Ok(())
    }

    async fn take_back(self: Rc<Self>, live: Rc<Live>, back: oneshot::Sender<()>) {
        let proof = (live.owner(), live.kept.token.clone());
        let mut waiting = self.setting.rendezvous.expect(live.id().clone(), Some(proof));
        let arrived = tokio::select! {
            arrived = timeout(LOST, waiting.arrived()) => arrived.ok().flatten(),
            () = live.stop.notified() => None,
        };
        let Some(Arrived { socket, hello, .. }) = arrived else {
            warn!(MESSAGE_ID = message::SUPERVISOR_LOST, GATED_SESSION = %live.id(), "a supervisor did not come back");
            self.setting.engine.kill(&live.kept).await;
            self.forget(&live);
            return;
        };
        if let Some(resumed) = hello.resumed {
            live.view.resume(&resumed);
        }
        // What was revoked while it had no daemon, and what was granted.
        self.reconcile(&live);
        live.state.set(State::Running);
        info!(GATED_SESSION = %live.id(), "a session is taken over");
        self.serve(&live, socket.serve());
        // Nobody waits when the patience is over.
        let _ = back.send(());
    }

    /// Start the task that serves a session until its end.
    fn serve(self: &Rc<Self>, live: &Rc<Live>, served: Served) {
        let Served { from, to, with_fds, closer } = served;
        *live.starts.borrow_mut() = Some(with_fds);
        let (core, live) = (Rc::clone(self), Rc::clone(live));
        tokio::task::spawn_local(async move {
            let control = live.controlled.borrow_mut().take();
            let broker = core.broker_of(&live);
            let stopping = to.clone();
            let stopped = async {
                live.stop.notified().await;
                let farewell = async {
                    // A supervisor that is gone has stopped.
                    let _ = stopping.send(ToSession::Stop).await;
                    std::future::pending::<()>().await
                };
                // One that takes nothing any more is not waited for either.
                let _over = timeout(FAREWELL, farewell).await;
            };
            let closing = tokio::select! {
                closing = broker.run_controlled(from, to, control) => Some(closing),
                () = stopped => None,
            };
            if let Some(fault) = closing.and_then(|closing| closing.fault) {
                error!(GATED_SESSION = %live.id(), %fault, "a supervisor broke the protocol and is ended");
            }
            live.starts.borrow_mut().take();
            drop(closer);
            // Whatever is left of it: nothing, unless the supervisor was killed or does not want to end.
            core.setting.engine.kill(&live.kept).await;
            info!(MESSAGE_ID = message::SESSION_ENDED, GATED_SESSION = %live.id(), "a session ended");
            core.forget(&live);
        });
    }

    fn broker_of(self: &Rc<Self>, live: &Rc<Live>) -> Broker {
        let config = BrokerConfig {
            session: live.id().clone(),
            user: live.kept.user.name.clone(),
            terms: SessionTerms {
                timeout: live.profile.prompt.timeout,
                max_per_minute: live.profile.prompt.max_per_minute,
                home: live.profile.home.clone(),
                limits: live.profile.grants.limits(),
                keeps_answers: true,
                knows_people: true,
            },
        };
        let asker = Asker {
            session: live.id().clone(),
            owner: live.owner(),
            agents: Rc::clone(&self.agents),
            answers: live.control.clone(),
            editors: Rc::clone(&live.editors),
            patience: self.setting.nobody_yet,
            queues: live.profile.prompt.no_consent_agent == NoConsentAgent::Queue,
        };
        let (watchers, id, owner) = (Rc::clone(&self.watchers), live.id().clone(), live.owner());
        let (agents, endings) = (Rc::clone(&self.agents), Rc::clone(&self.endings));
        let events = Events::told(move |event| {
            endings.hear(owner, event);
            watchers.tell(&id, owner, event);
            if let Some((kind, deed)) = event.told() {
                let time = (kind == Kind::Muted).then_some(MUTED);
                agents.notice(Whom::Session(id.clone(), owner), Notice { time, ..Notice::of(kind, &id, deed) });
            }
        });
        Broker::new(config, Arc::clone(&self.setting.audit), events, vec![Box::new(asker)])
            .within(self.quota_of(live.owner()))
            .seen_in(Rc::clone(&live.view))
            .kept_by(Rc::new(SessionKeeper::new(self, live)))
            .counted_in(self.statistics.tally(live.owner()))
    }
}

/// Has the supervisor build the session.
async fn built(socket: &Socket, launch: Launch) -> Result<(), Refusal> {
    let gone = || Refusal::Session("the supervisor ended".into());
    socket.send(&Outgoing::from(ToSession::Launch(Box::new(launch)))).await.map_err(|_| gone())?;
    match socket.receive().await {
        Ok(Some(FromSession::Ready { .. })) => Ok(()),
        Ok(Some(FromSession::Failed(text))) => Err(Refusal::Session(text)),
        Ok(Some(_)) => Err(Refusal::Session("the supervisor began with the wrong word".into())),
        Ok(None) | Err(_) => Err(gone()),
    }
}

/// A supervisor without a session; it is ended unless the session comes to be.
struct Unfinished {
    core: Rc<Core>,
    kept: Option<Kept>,
}

impl Unfinished {
    fn finish(mut self) {
        self.kept = None;
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        let Some(kept) = self.kept.take() else { return };
        let core = Rc::clone(&self.core);
        tokio::task::spawn_local(async move {
            core.setting.engine.kill(&kept).await;
            if let Err(error) = core.setting.shelf.forget(&kept.session) {
                warn!(%error, "a session's state stays behind");
            }
        });
    }
}
