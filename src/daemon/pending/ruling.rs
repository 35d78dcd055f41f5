//! What an answer to a prompt means for each request that the prompt was about. Pure; runs in the broker.

use std::rc::Rc;

use super::block::Block;
use super::{SessionTerms, Settled};
use crate::common::access::Level;
use crate::common::consent::Answer;
use crate::common::decision::{Lifetime, Outcome, Width};
use crate::common::id::GrantId;
use crate::common::request::Request;
use crate::policy::grants::Grant;

/// An answer and who gave it.
pub(super) struct Given<'a> {
    pub answer: Answer,
    pub by: &'a str,
    /// Whether they proved who they are.
    pub authenticated: bool,
}

/// The end of one request and of its equals.
#[derive(Clone, Debug)]
pub(super) struct Ruling {
    pub outcome: Outcome,
    width: Width,
    /// As long as a yes holds.
    lifetime: Lifetime,
    /// What the answer creates, if it outlives its attempt.
    pub grant: Option<Rc<Grant>>,
    edited: Option<Vec<Vec<u8>>>,
}

impl Ruling {
    fn plain(outcome: Outcome) -> Ruling {
        Ruling { outcome, width: Width::Exact, lifetime: Lifetime::Attempt, grant: None, edited: None }
    }

    fn granting(outcome: Outcome, width: Width, grant: Grant) -> Ruling {
        let lifetime = grant.lifetime;
        let grant = (lifetime != Lifetime::Attempt).then(|| Rc::new(grant));
        Ruling { outcome, width, lifetime, grant, edited: None }
    }

    /// With what this says.
    pub fn of(&self, settled: Settled, authenticated: bool) -> Settled {
        let (lifetime, width) =
            if self.outcome.permits() { (self.lifetime, self.width) } else { (settled.lifetime, settled.width) };
        let (grant, edited) = (self.grant.clone(), self.edited.clone());
        Settled { lifetime, width, grant, authenticated, edited, ..settled }
    }
}

impl Given<'_> {
    /// One for each entry of the block. A yes or no for [`Width::Exact`] is one to each of them; a wider one is the same for
    /// all.
    pub fn rulings(&self, block: &Block, terms: &SessionTerms) -> Vec<Ruling> {
        let Some((base, offered)) = block.widths(terms) else {
            return block.entries.iter().map(|_| Ruling::plain(Outcome::NotPermitted)).collect();
        };
        let is_offered = |width| offered.contains(&width);
        match self.answer.width() {
            Some(Width::Exact) | None => {
                let each = block.entries.iter();
                each.map(|entry| self.ruling(entry.request(), is_offered(Width::Exact), terms)).collect()
            }
            Some(width) => vec![self.ruling(&base, is_offered(width), terms); block.entries.len()],
        }
    }

    fn ruling(&self, request: &Request, is_offered: bool, terms: &SessionTerms) -> Ruling {
        let bounds = terms.bounds();
        match &self.answer {
            Answer::Deny => Ruling::plain(Outcome::Denied),
            Answer::Block(width, term) => {
                let denial = GrantId::random().ok().filter(|_| is_offered);
                let denial =
                    denial.and_then(|id| Grant::from_denial(id, request, *width, *term, self.by, &bounds).ok());
                match denial {
                    Some(denial) => Ruling::granting(Outcome::Denied, *width, denial),
                    None => Ruling::plain(Outcome::Denied),
                }
            }
            Answer::Edit(argv) => {
                let may_edit = request.execution.as_ref().is_some_and(|execution| execution.is_first);
                match may_edit && !argv.is_empty() {
                    true => Ruling { edited: Some(argv.clone()), ..Ruling::plain(Outcome::Edited) },
                    false => Ruling::plain(Outcome::Denied),
                }
            }
            Answer::Once(_) | Answer::Session(_) | Answer::For(..) | Answer::Always(_) | Answer::Split => {
                let proven = self.authenticated || request.level != Level::Authenticate;
                let may_reach = |width| is_offered && bounds.limits.widths.has(width);
                let wanted = self.answer.allows().filter(|(width, _)| proven && may_reach(*width));
                let grant = wanted.and_then(|(width, term)| {
                    let grant =
                        Grant::from_answer(GrantId::random().ok()?, request, width, term, self.by, &bounds).ok()?;
                    Some((width, Grant { authenticated: self.authenticated, ..grant }))
                });
                match grant {
                    Some((width, grant)) => Ruling::granting(Outcome::Approved, width, grant),
                    None => Ruling::plain(Outcome::NotPermitted),
                }
            }
        }
    }
}
