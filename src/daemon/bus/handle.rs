//! From the bus's objects, whose methods run anywhere, to the daemon's core, which lives on one thread.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use tokio::sync::{mpsc, oneshot};
use tracing::warn;
use zbus::message::{Flags, Header};
use zbus::{Connection, fdo};

use super::agent::Unanswered;
use super::error::{Error, detail};
use crate::daemon::authz::Polkit;
use crate::daemon::caller::{self, Unidentified};
use crate::daemon::core::Core;
use crate::daemon::message;
use crate::daemon::orders::{Caller, Refusal};
use crate::daemon::store::StoreError;

type Job = Box<dyn FnOnce(Rc<Core>) -> Pin<Box<dyn Future<Output = ()>>> + Send>;

/// Calls that wait for the core at the most; a caller beyond waits on the bus.
const DEPTH: usize = 256;

/// The way to the core.
#[derive(Clone)]
pub struct Handle {
    jobs: mpsc::Sender<Job>,
    polkit: Polkit,
    unanswered: Unanswered,
}

/// The calls that come through a [`Handle`].
pub struct Jobs(mpsc::Receiver<Job>);

impl Handle {
    pub fn new(polkit: Polkit) -> (Handle, Jobs) {
        let (jobs, arriving) = mpsc::channel(DEPTH);
        (Handle { jobs, polkit, unanswered: Unanswered::default() }, Jobs(arriving))
    }

    pub fn polkit(&self) -> Polkit {
        self.polkit.clone()
    }

    pub fn unanswered(&self) -> Unanswered {
        self.unanswered.clone()
    }

    /// Have the core do something for the sender of a message. What needs an authorization is asked for and tried once more,
    /// at most twice.
    pub async fn call<T, F>(&self, connection: &Connection, header: &Header<'_>, job: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: Fn(Rc<Core>, Caller) -> Pin<Box<dyn Future<Output = Result<T, Refusal>>>> + Clone + Send + 'static,
    {
        let (identified, mut caller) = known(connection, header).await?;
        let interactive = header.primary().flags().contains(Flags::ALLOW_INTERACTIVE_AUTH);
        loop {
            let (job, who) = (job.clone(), caller.clone());
            match self.run(move |core| job(core, who)).await? {
                Err(Refusal::Needs(action)) if !caller.elevated.contains(action) => {
                    if !self.polkit.authorized(&identified, action, interactive).await {
                        refused_to(&identified, action);
                        return Err(Error::NotAuthorized(action.to_owned()));
                    }
                    caller.elevated.insert(action);
                }
                Err(Refusal::Inside) => {
                    refused_to(&identified, "inside-a-session");
                    return Err(refused(Refusal::Inside));
                }
                done => return done.map_err(refused),
            }
        }
    }

    /// [`Handle::call`] for what cannot be tried twice, because it brings descriptors.
    pub async fn call_once<T, F>(&self, connection: &Connection, header: &Header<'_>, job: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnOnce(Rc<Core>, Caller) -> Pin<Box<dyn Future<Output = Result<T, Refusal>>>> + Send + 'static,
    {
        let (identified, caller) = known(connection, header).await?;
        let done = self.run(move |core| job(core, caller)).await?;
        if let Err(Refusal::Inside) = &done {
            refused_to(&identified, "inside-a-session");
        }
        done.map_err(refused)
    }

    /// Have the core do something of the daemon's own.
    pub async fn run<T, F>(&self, job: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnOnce(Rc<Core>) -> Pin<Box<dyn Future<Output = T>>> + Send + 'static,
    {
        let (done, result) = oneshot::channel();
        let job: Job = Box::new(move |core| {
            let work = job(core);
            Box::pin(async move {
                // Whoever asked may be gone.
                let _ = done.send(work.await);
            })
        });
        let ended = || Error::Internal("the daemon is ending".into());
        self.jobs.send(job).await.map_err(|_| ended())?;
        result.await.map_err(|_| ended())
    }
}

impl Jobs {
    /// Do what comes, each on its own task, until no handle is left. To be called within a `LocalSet`.
    pub async fn serve(mut self, core: Rc<Core>) {
        while let Some(job) = self.0.recv().await {
            tokio::task::spawn_local(job(Rc::clone(&core)));
        }
    }
}

/// Who sent a message: as the bus and the kernel know them, and as the core does.
async fn known(connection: &Connection, header: &Header<'_>) -> Result<(caller::Caller, Caller), Error> {
    let identified = caller::Caller::identify(connection, header).await.map_err(unidentified)?;
    let caller = Caller {
        uid: identified.uid,
        sender: identified.sender.to_string(),
        is_inside: identified.inside,
        unit: identified.unit.clone(),
        elevated: Default::default(),
    };
    Ok((identified, caller))
}

fn refused_to(caller: &caller::Caller, action: &str) {
    warn!(
        MESSAGE_ID = message::AUTHORIZATION_REFUSED,
        GATED_UID = caller.uid,
        GATED_PID = caller.pid,
        GATED_ACTION = action,
        "an authorization was refused"
    );
}

fn unidentified(error: Unidentified) -> Error {
    warn!(%error, "a caller is not known");
    Error::NotAuthorized(String::new())
}

fn refused(refusal: Refusal) -> Error {
    let words = || detail(&refusal.to_string());
    match &refusal {
        Refusal::Inside => Error::InsideSession(String::new()),
        Refusal::Needs(action) => Error::NotAuthorized((*action).to_owned()),
        Refusal::NotAuthorized => Error::NotAuthorized(String::new()),
        Refusal::MayNotRun => Error::NotPermitted(String::new()),
        Refusal::OwnProfile(_) | Refusal::MayNotLearn | Refusal::Selection(_) => Error::Policy(words()),
        Refusal::NoSession => Error::NoSuchSession(String::new()),
        Refusal::NoRequest => Error::NoSuchRequest(String::new()),
        Refusal::Decided => Error::AlreadyDecided(String::new()),
        Refusal::NoGrant => Error::NoSuchGrant(String::new()),
        Refusal::Invalid(what) => Error::InvalidArgument((*what).to_owned()),
        Refusal::TooMany => Error::TooMany(String::new()),
        Refusal::Policy(_) | Refusal::Unpublished(_) => Error::Policy(words()),
        Refusal::Session(_) => Error::Engine(words()),
        Refusal::User(_) => Error::InvalidArgument(words()),
        Refusal::Unasked(_) => Error::Policy(words()),
        Refusal::Store(StoreError::Full) => Error::TooMany(words()),
        Refusal::Store(_) | Refusal::State(_) | Refusal::Randomness(_) => {
            tracing::error!(error = %refusal, "a call failed");
            Error::Internal(String::new())
        }
    }
}

/// For properties, whose errors are the bus's own.
pub fn property(error: Error) -> fdo::Error {
    match error {
        Error::NotAuthorized(detail) | Error::InsideSession(detail) => fdo::Error::AccessDenied(detail),
        other => fdo::Error::Failed(zbus::DBusError::name(&other).to_string()),
    }
}
