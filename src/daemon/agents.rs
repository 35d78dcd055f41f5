//! The consent agents that are registered on the bus, and how a session's prompts reach them. Runs as root in the daemon.
//! An agent is a program of a user who may answer; its words are believed as far as that user may decide, and no further.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tracing::{debug, warn};

use super::broker::{Control, Spoken};
use super::editors::Editors;
use super::notices::{Notices, Whom};
use crate::common::access::Level;
use crate::common::consent::{Answer, Asking, ConsentAgent, ConsentError, GATHERING, Gathers, Prompt};
use crate::common::id::{RequestId, SessionId};
use crate::common::notice::Notice;
use crate::common::request::Request;

/// How long a request waits for somebody who could be asked, but in tests.
pub const NOBODY_YET: Duration = Duration::from_secs(10);

/// Agents of one user at the most.
const MOST_OF_A_USER: usize = 64;

/// A future of this thread.
pub type Local<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// The way to one agent.
pub trait Reach {
    /// Its answer to a prompt of a session of `owner`; `None` if it has none, or is gone.
    fn ask<'a>(&'a self, prompt: &'a Prompt, owner: u32) -> Local<'a, Option<Answer>>;

    /// The request is over; nobody waits for this.
    fn cancel(&self, request: RequestId);

    /// They hear something that nobody is asked about; nobody waits for this.
    fn notice(&self, _notice: &Notice) {}

    /// The person proves who they are (level `authenticate`).
    fn prove<'a>(&'a self) -> Local<'a, bool>;
}

/// Who an agent speaks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Speaker {
    pub uid: u32,
    /// For the records, such as `desktop:alice`.
    pub by: String,
    /// Of the user.
    pub name: String,
    /// Names of the groups of the user.
    pub groups: BTreeSet<String>,
}

impl Speaker {
    /// Whether this user may answer a request in a session of `owner`: only the session's own user, or, where the rule names
    /// a group, only its members.
    pub fn may_answer(&self, owner: u32, request: &Request) -> bool {
        match &request.group {
            Some(group) => self.groups.contains(group),
            None => self.uid == owner,
        }
    }

    /// Whether it is shown to a person, as everything is but what a file answers.
    fn is_a_person(&self) -> bool {
        !self.by.starts_with("script:")
    }
}

/// One registered agent.
struct Agent {
    number: u64,
    /// Its unique name on the bus.
    sender: String,
    speaker: Speaker,
    /// Asked for this session only.
    session: Option<SessionId>,
    reach: Rc<dyn Reach>,
}

/// All of them.
pub struct Agents {
    list: RefCell<Vec<Rc<Agent>>>,
    next: Cell<u64>,
    changed: watch::Sender<()>,
    pub(super) notices: Notices,
}

/// There are too many agents of one user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooMany;

impl Default for Agents {
    fn default() -> Agents {
        Agents {
            list: RefCell::default(),
            next: Cell::new(1),
            changed: watch::Sender::new(()),
            notices: Notices::default(),
        }
    }
}

impl Agents {
    /// A connection has one agent: another registration replaces the first.
    pub fn register(
        &self,
        sender: &str,
        speaker: Speaker,
        session: Option<SessionId>,
        reach: Rc<dyn Reach>,
    ) -> Result<(), TooMany> {
        let number = self.next.replace(self.next.get().wrapping_add(1));
        {
            let mut list = self.list.borrow_mut();
            list.retain(|agent| agent.sender != sender);
            if list.iter().filter(|agent| agent.speaker.uid == speaker.uid).count() >= MOST_OF_A_USER {
                return Err(TooMany);
            }
            list.push(Rc::new(Agent { number, sender: sender.to_owned(), speaker, session, reach }));
        }
        self.changed.send_replace(());
        Ok(())
    }

    /// What the records call the agent of this connection, if it is one.
    pub fn known_as(&self, sender: &str) -> Option<String> {
        self.list.borrow().iter().find(|agent| agent.sender == sender).map(|agent| agent.speaker.by.clone())
    }

    /// Who it spoke for, if there was one.
    pub fn remove(&self, sender: &str) -> Option<Speaker> {
        let mut list = self.list.borrow_mut();
        let at = list.iter().position(|agent| agent.sender == sender)?;
        let gone = list.remove(at);
        drop(list);
        self.changed.send_replace(());
        Some(gone.speaker.clone())
    }

    /// Their bus is gone, and all of them with it.
    pub fn clear(&self) {
        self.list.borrow_mut().clear();
        self.changed.send_replace(());
    }

    /// The unique names of all of them.
    pub fn senders(&self) -> Vec<String> {
        self.list.borrow().iter().map(|agent| agent.sender.clone()).collect()
    }

    pub fn len(&self) -> usize {
        self.list.borrow().len()
    }

    /// Those of one user.
    pub fn count_of(&self, uid: u32) -> usize {
        self.list.borrow().iter().filter(|agent| agent.speaker.uid == uid).count()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether an agent of this user is asked whatever session of theirs it is, so not one that a `gated-run` is for itself.
    pub fn is_asked_for_all(&self, uid: u32) -> bool {
        self.list.borrow().iter().any(|agent| agent.session.is_none() && agent.speaker.uid == uid)
    }

    /// The unique names of those who may answer this request.
    pub fn who_may_see(&self, session: &SessionId, owner: u32, request: &Request) -> Vec<String> {
        self.fit(session, owner, request).iter().map(|agent| agent.sender.clone()).collect()
    }

    /// Tells it to all that are to hear it.
    pub(super) fn pass_on(&self, whom: &Whom, notice: &Notice) {
        let hears = |agent: &&Rc<Agent>| match whom {
            Whom::Session(session, owner) => {
                agent.session.as_ref().is_none_or(|only| only == session) && agent.speaker.uid == *owner
            }
            Whom::Admins => agent.speaker.uid == 0,
        };
        let agents: Vec<Rc<Agent>> = self.list.borrow().iter().filter(hears).cloned().collect();
        agents.iter().for_each(|agent| agent.reach.notice(notice));
    }

    fn fit(&self, session: &SessionId, owner: u32, request: &Request) -> Vec<Rc<Agent>> {
        let fits = |agent: &&Rc<Agent>| {
            agent.session.as_ref().is_none_or(|only| only == session) && agent.speaker.may_answer(owner, request)
        };
        self.list.borrow().iter().filter(fits).cloned().collect()
    }
}

/// Puts the prompts of one session to all agents that may answer them. Its answers go to the broker by name, because who
/// answered is known only then.
pub struct Asker {
    pub session: SessionId,
    pub owner: u32,
    pub agents: Rc<Agents>,
    pub answers: mpsc::UnboundedSender<Control>,
    pub editors: Rc<Editors>,
    /// How long a request waits for somebody who could be asked.
    pub patience: Duration,
    /// Wait for an agent as long as the request does.
    pub queues: bool,
}

impl ConsentAgent for Asker {
    fn name(&self) -> String {
        "bus".to_owned()
    }

    /// As long as somebody of those who are there now takes to look. Where nobody is, requests may wait for whoever lists them.
    fn gathers(&self) -> Gathers {
        let (agents, session, owner, queues) = (Rc::clone(&self.agents), self.session.clone(), self.owner, self.queues);
        Box::new(move |request| {
            let fit = agents.fit(&session, owner, request);
            let is_a_person = match fit.is_empty() {
                true => queues,
                false => fit.iter().any(|agent| agent.speaker.is_a_person()),
            };
            if is_a_person { GATHERING } else { Duration::ZERO }
        })
    }

    fn ask<'a>(&'a mut self, prompt: &'a Prompt) -> Asking<'a> {
        Box::pin(async move {
            let mut changed = self.agents.changed.subscribe();
            let mut asked = BTreeSet::new();
            let mut open: JoinSet<Option<Spoken>> = JoinSet::new();
            let mut nobody_since = Instant::now();
            loop {
                for agent in self.agents.fit(&self.session, self.owner, &prompt.request) {
                    if asked.insert(agent.number) {
                        open.spawn_local(ask_one(agent, prompt.clone(), self.owner, Rc::clone(&self.editors)));
                    }
                }
                let is_alone = open.is_empty();
                let late = nobody_since.checked_add(self.patience).unwrap_or(nobody_since);
                tokio::select! {
                    Some(done) = open.join_next(), if !is_alone => {
                        nobody_since = Instant::now();
                        if let Ok(Some(spoken)) = done {
                            // A broker that is gone needs no answer. It drops this future when it has taken the answer.
                            let _ = self.answers.send(Control::Answer(spoken));
                            return std::future::pending().await;
                        }
                    }
                    _ = changed.changed() => {}
                    () = sleep_until(late), if is_alone && !self.queues => {
                        return Err(ConsentError::Unavailable("no consent agent is registered".into()));
                    }
                }
            }
        })
    }
}

/// Tells an agent that a request is over, unless it has answered itself.
struct Withdrawn {
    agent: Rc<Agent>,
    request: Option<RequestId>,
}

impl Drop for Withdrawn {
    fn drop(&mut self) {
        if let Some(request) = self.request {
            self.agent.reach.cancel(request);
        }
    }
}

async fn ask_one(agent: Rc<Agent>, prompt: Prompt, owner: u32, editors: Rc<Editors>) -> Option<Spoken> {
    let request = prompt.id;
    let mut withdrawn = Withdrawn { agent: Rc::clone(&agent), request: Some(request) };
    let answer = agent.reach.ask(&prompt, owner).await;
    withdrawn.request = None;
    let answer = answer?;
    if let Answer::Edit(argv) = &answer {
        if !editors.may_edit(&agent.sender, &prompt.request) {
            warn!(%request, by = agent.speaker.by, "a command of somebody else's cannot be changed");
            return None;
        }
        editors.gave(&agent.sender, argv);
    }
    let is_sensitive = prompt.request.level == Level::Authenticate && answer.says_yes();
    // A click is not enough here: without the proof it is a no.
    let authenticated = is_sensitive && agent.reach.prove().await;
    let answer = if is_sensitive && !authenticated { Answer::Deny } else { answer };
    debug!(%request, by = agent.speaker.by, "answered");
    Some(Spoken { request, answer, by: agent.speaker.by.clone(), authenticated, reply: None })
}
