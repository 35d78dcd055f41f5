//! Requests that wait, as callers know them: who may see and answer which. Runs as root in the daemon, on its one thread.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use tracing::info;

use super::broker::{Control, Spoken};
use super::core::{Change, Core, Numbered};
use super::live::Live;
use super::message;
use super::orders::{Caller, Refusal};
use super::pending::AnswerError;
use super::record;
use crate::common::access::Level;
use crate::common::bus::action;
use crate::common::consent::{Answer, Prompt};
use crate::common::id::{RequestId, SessionId};

/// Requests that wait no more and are remembered, to tell a second answer from an invented one.
const MOST_OVER: usize = 1024;

/// A waiting request as it is known on the bus.
#[derive(Clone)]
pub struct Waiting {
    pub session: Rc<Live>,
    pub prompt: Prompt,
}

impl Core {
    /// Answer a waiting request.
    pub async fn decide(&self, caller: &Caller, id: RequestId, answer: Answer) -> Result<(), Refusal> {
        caller.outside()?;
        let waiting = self.waiting(id).ok_or_else(|| match self.over.borrow().contains(&id) {
            true => Refusal::Decided,
            false => Refusal::NoRequest,
        })?;
        let mut speaker = self.speaker(caller, "gatedctl").await?;
        // An agent that answers this way is known by its own word.
        if let Some(by) = self.agents.known_as(&caller.sender) {
            speaker.by = by;
        }
        let request = &waiting.prompt.request;
        if !speaker.may_answer(waiting.session.owner(), request) && !caller.has(action::ANSWER_FOR_OTHERS) {
            return Err(Refusal::Needs(action::ANSWER_FOR_OTHERS));
        }
        if let Answer::Edit(argv) = &answer {
            if !waiting.session.editors.may_edit(&caller.sender, request) {
                return Err(Refusal::NotAuthorized);
            }
            waiting.session.editors.gave(&caller.sender, argv);
        }
        let is_sensitive = request.level == Level::Authenticate && answer.says_yes();
        if is_sensitive && !caller.has(action::GRANT_SENSITIVE) {
            return Err(Refusal::Needs(action::GRANT_SENSITIVE));
        }
        let (reply, answered) = tokio::sync::oneshot::channel();
        let spoken = Spoken { request: id, answer, by: speaker.by, authenticated: is_sensitive, reply: Some(reply) };
        waiting.session.control.send(Control::Answer(spoken)).map_err(|_| Refusal::NoRequest)?;
        match answered.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(AnswerError::AlreadyDecided)) => Err(Refusal::Decided),
            Ok(Err(error @ AnswerError::TurnedDown)) => Err(Refusal::Session(error.to_string())),
            Ok(Err(AnswerError::Unknown)) | Err(_) => Err(Refusal::NoRequest),
        }
    }

    /// The requests that wait and that the caller may answer, by their number on the bus.
    pub async fn answerable(&self, caller: &Caller) -> Result<BTreeMap<u64, Waiting>, Refusal> {
        caller.outside()?;
        let numbers: Vec<(u64, RequestId)> =
            self.requests.borrow().iter().map(|(id, (number, ..))| (*number, *id)).collect();
        if numbers.is_empty() {
            return Ok(BTreeMap::new());
        }
        let speaker = self.speaker(caller, "").await?;
        let waiting = numbers.into_iter().filter_map(|(number, id)| Some((number, self.waiting(id)?)));
        let may = |waiting: &Waiting| {
            speaker.may_answer(waiting.session.owner(), &waiting.prompt.request)
                || caller.has(action::ANSWER_FOR_OTHERS)
        };
        Ok(waiting.filter(|(_, waiting)| may(waiting)).collect())
    }

    /// A waiting request by its number on the bus.
    pub(super) fn waiting_number(&self, wanted: u64) -> Option<Waiting> {
        let id = self.requests.borrow().iter().find(|(_, (number, ..))| *number == wanted).map(|(id, _)| *id)?;
        self.waiting(id)
    }

    fn waiting(&self, id: RequestId) -> Option<Waiting> {
        let session = self.requests.borrow().get(&id).map(|(_, session, _)| session.clone())?;
        self.waiting_in(&session, id)
    }

    fn waiting_in(&self, session: &SessionId, id: RequestId) -> Option<Waiting> {
        let session = self.sessions.borrow().get(session).cloned()?;
        let prompt = session.view.prompts.borrow().iter().find(|prompt| prompt.id == id).cloned()?;
        Some(Waiting { session, prompt })
    }

    /// An agent is there from now on: it is told of the end also of what waited before.
    pub(super) fn tell_of_ends(&self, sender: &str) {
        for (request, (_, session, told)) in self.requests.borrow_mut().iter_mut() {
            let Some(waiting) = self.waiting_in(session, *request) else { continue };
            let seers = self.agents.who_may_see(session, waiting.session.owner(), &waiting.prompt.request);
            if seers.iter().any(|seer| seer == sender) && !told.iter().any(|known| known == sender) {
                told.push(sender.to_owned());
            }
        }
    }

    /// What waits in a session has changed.
    pub(super) fn pending_changed(self: &Rc<Self>, id: &SessionId) {
        let live = self.sessions.borrow().get(id).cloned();
        let waiting: BTreeSet<RequestId> = live
            .iter()
            .flat_map(|live| live.view.prompts.borrow().iter().map(|prompt| prompt.id).collect::<Vec<_>>())
            .collect();
        let mut requests = self.requests.borrow_mut();
        let gone = |known: &RequestId, (_, session, _): &mut Numbered| session == id && !waiting.contains(known);
        for (request, (number, _, told)) in requests.extract_if(.., gone) {
            let mut over = self.over.borrow_mut();
            if over.len() >= MOST_OVER {
                over.pop_front();
            }
            over.push_back(request);
            self.report(Change::RequestRemoved(number, told));
        }
        let Some(live) = live else { return };
        for prompt in live.view.prompts.borrow().iter() {
            let request = &prompt.id;
            if requests.contains_key(request) {
                continue;
            }
            let number = self.next_request.replace(self.next_request.get().wrapping_add(1));
            let told = self.agents.who_may_see(id, live.owner(), &prompt.request);
            let asked = prompt.request.as_ref();
            info!(
                MESSAGE_ID = message::REQUEST_ASKED,
                GATED_SESSION = %id,
                GATED_REQUEST = %request,
                GATED_USER = live.kept.user.name,
                GATED_PROGRAM = record::path(&asked.who.program),
                GATED_OPERATION = asked.operation.as_str(),
                GATED_OBJECT = record::path(&asked.object),
                "a request waits for an answer"
            );
            requests.insert(*request, (number, id.clone(), told.clone()));
            self.report(Change::RequestAdded(number, told));
        }
    }
}
