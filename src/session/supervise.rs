//! From a built session to one that serves its listener: puts policy, scratch, calls and the broker's link together.
//!
//! Runs as the user.

use std::io;
use std::sync::Arc;

use super::calls::Calls;
use super::floor::Scratch;
use super::judge::Judge;
use super::launch::Session;
use super::life::Answers;
use super::perform::Performer;
use super::pool::{NoThread, Pool};
use super::resolve::Resolver;
use super::upstream::Upstream;
use crate::common::decision::Decision;
use crate::policy::decide::Policy;

/// The session cannot be supervised.
#[derive(Debug, thiserror::Error)]
pub enum SuperviseError {
    #[error("the call came without its listener")]
    NoListener,
    #[error("cannot look at the session's /proc: {0}")]
    Proc(io::Error),
    #[error("cannot duplicate a descriptor: {0}")]
    Descriptor(io::Error),
    #[error(transparent)]
    Thread(#[from] NoThread),
}

/// Starts serving the session's listener, and returns who is to be told what the broker says.
pub fn supervise(session: &mut Session) -> Result<Arc<dyn Answers>, SuperviseError> {
    let listener = session.listener.take().ok_or(SuperviseError::NoListener)?;
    let launch = &session.launch;
    let mut profile = session.profile.clone();
    // Private to the session, but with a directory of the host below: no rule means yes.
    profile.scratch.extend(
        session.scratch.judged.iter().filter(|root| !profile.scratch.contains(root)).cloned().collect::<Vec<_>>(),
    );
    let broker = Arc::clone(&session.broker);
    let upstream = Upstream::new(Box::new(move |message| broker.send(message, &[]).is_ok()));
    let judge = Judge::new(
        Policy::new(&profile),
        Scratch::new(session.native.clone()),
        launch.session.clone(),
        Calls::new(session.main_pid, launch.calls_by_child),
        launch.workspace.clone(),
        upstream,
    );
    let resolver = Resolver::new().map_err(SuperviseError::Proc)?;
    let performer = Arc::new(Performer::new(resolver, judge));
    let procfs = session.outer_proc.try_clone().map_err(SuperviseError::Descriptor)?;
    Pool::start(listener, Arc::clone(&performer), procfs)?;
    Ok(performer)
}

impl Answers for Performer {
    fn decided(&self, decision: Decision) {
        self.judge().upstream().decided(decision);
    }

    fn recorded(&self, number: u64, written: bool) {
        self.judge().upstream().recorded(number, written);
    }

    fn gone(&self) {
        self.judge().upstream().disconnected();
    }
}
