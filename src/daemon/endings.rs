//! Why attempts ended as they did: the sentence for who made one, person or model, and the last endings of all sessions, for
//! `gatedctl why`. Runs as root in the daemon. A sentence names the rule that decided and its reason, and nothing else of a
//! policy.

use std::cell::RefCell;
use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::events::Event;
use crate::common::decision::Outcome;

/// Endings that are remembered, of all sessions together, and of one at the most: a flood in one session must not push out
/// those of the others.
const MOST: usize = 4096;
const MOST_OF_A_SESSION: usize = 256;

/// Why something did not happen, and what to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sentence {
    pub why: &'static str,
    pub next: &'static str,
}

impl Sentence {
    /// Of an attempt that did not happen; `None` where it did, or nobody waits for it any more.
    pub fn of(outcome: Outcome) -> Option<Sentence> {
        let last = "this is final, do not retry";
        match outcome {
            Outcome::Denied => Some(Sentence { why: "the person who was asked said no", next: last }),
            Outcome::Timeout => Some(Sentence { why: "nobody answered in time", next: last }),
            Outcome::NotPermitted => Some(Sentence { why: "it is not permitted here", next: last }),
            Outcome::Approved | Outcome::Granted | Outcome::Allowed | Outcome::Cancelled | Outcome::Edited => None,
        }
    }

    /// `WHY; NEXT`.
    pub fn hint(self) -> String {
        format!("{}; {}", self.why, self.next)
    }
}

/// How one attempt ended; text of tools is in the notation of records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ending {
    /// UTC, RFC 3339 with microseconds.
    pub time: String,
    pub session: String,
    pub call: u32,
    /// Absent where nobody was to be asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    pub access: String,
    pub operation: String,
    pub object: String,
    /// The words of a command.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub argv: Vec<String>,
    /// As in the audit log.
    pub result: String,
    /// Whether it happened.
    pub permitted: bool,
    /// Who or what decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    pub rule: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What follows, where it did not happen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// The last endings, the oldest first, each with the user whose session it is.
#[derive(Default)]
pub struct Endings(RefCell<VecDeque<(u32, Ending)>>);

impl Endings {
    /// Takes an event, if it is an end.
    pub fn hear(&self, owner: u32, event: &Event) {
        let Some(ending) = Ending::of(event) else { return };
        let mut all = self.0.borrow_mut();
        let is_of_session = |(_, own): &(u32, Ending)| own.session == ending.session;
        if all.len() >= MOST || all.iter().filter(|own| is_of_session(own)).count() >= MOST_OF_A_SESSION {
            let first = all.iter().position(is_of_session).unwrap_or(0);
            all.remove(first);
        }
        all.push_back((owner, ending));
    }

    /// Those that `may` be seen, the oldest first.
    pub fn seen(&self, may: impl Fn(u32) -> bool) -> Vec<Ending> {
        self.0.borrow().iter().filter(|(owner, _)| may(*owner)).map(|(_, ending)| ending.clone()).collect()
    }
}

impl Ending {
    fn of(event: &Event) -> Option<Ending> {
        let is_end = matches!(event.event, "consent_decided" | "denied");
        let outcome = event.decision.filter(|_| is_end)?;
        Some(Ending {
            time: event.time.clone(),
            session: event.session.clone(),
            call: event.call,
            request: event.request.clone(),
            access: event.access.unwrap_or_default().to_owned(),
            operation: event.operation.unwrap_or_default().to_owned(),
            object: event.object.clone().unwrap_or_default(),
            argv: event.exec.as_ref().map(|exec| exec.argv.clone()).unwrap_or_default(),
            result: outcome.to_owned(),
            permitted: outcome == Outcome::Approved.as_str(),
            by: event.by.clone(),
            rule: event.rule.as_ref().map(|rule| rule.id.clone()).unwrap_or_default(),
            reason: event.reason.clone(),
            hint: event.hint.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(session: &str, request: u32) -> Event {
        Event {
            event: "denied",
            session: session.to_owned(),
            request: Some(format!("{request:032x}")),
            decision: Some("denied"),
            ..Event::default()
        }
    }

    #[test]
    fn a_flood_of_one_session_leaves_those_of_others() {
        let endings = Endings::default();
        endings.hear(1000, &event("quiet", 1));
        for number in 0..(2 * MOST as u32) {
            endings.hear(1001, &event("loud", number));
        }
        assert_eq!(endings.seen(|owner| owner == 1000).len(), 1);
        let loud = endings.seen(|owner| owner == 1001);
        assert_eq!(loud.len(), MOST_OF_A_SESSION);
        assert_eq!(loud.last().unwrap().request, Some(format!("{:032x}", 2 * MOST - 1)));
    }

    #[test]
    fn what_goes_on_is_no_end() {
        let endings = Endings::default();
        endings.hear(1, &Event { event: "consent_required", ..event("a", 1) });
        endings.hear(1, &Event { event: "allowed_by_grant", ..event("a", 2) });
        assert!(endings.seen(|_| true).is_empty());
    }

    #[test]
    fn every_denial_has_a_sentence_and_nothing_else_has() {
        for outcome in [Outcome::Denied, Outcome::Timeout, Outcome::NotPermitted] {
            assert!(Sentence::of(outcome).unwrap().hint().ends_with("this is final, do not retry"));
        }
        for outcome in [Outcome::Approved, Outcome::Granted, Outcome::Allowed, Outcome::Cancelled, Outcome::Edited] {
            assert_eq!(Sentence::of(outcome), None);
        }
    }
}
