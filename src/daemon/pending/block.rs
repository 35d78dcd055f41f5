//! What is put to somebody by one prompt: one request with its equals, or a group of them. Runs in the broker.
//!
//! A block gathers for a moment before it can be seen. A group has an id of its own, drawn for exactly these members: it is
//! drawn again whenever the block is made of others before it is shown. While it is shown members can only go, and what is
//! left was shown; so its id stays.

use std::time::Instant;

use super::SessionTerms;
use super::entry::{Entry, Waiter};
use super::group::{Place, belong_together, members, widened};
use crate::common::consent::{Group, Offer, Prompt};
use crate::common::decision::{Term, Width};
use crate::common::id::{GrantId, RequestId};
use crate::common::request::Request;
use crate::policy::grants::{Grant, longest, offered_widths};

/// See the module. It is never empty while it is in a session.
#[derive(Debug)]
pub(super) struct Block {
    pub entries: Vec<Entry>,
    /// Nobody sees it before, and no other request joins it from then on but when it is shown.
    pub closes: Instant,
    /// Whether it can be seen.
    pub is_closed: bool,
    /// Where it belongs, if it may be one with others.
    pub place: Option<Place>,
    /// What it is called, if it is a group.
    pub group: Option<RequestId>,
    /// Somebody wants to be asked for each by itself, however many prompts that is.
    pub is_alone: bool,
    /// What may be answered; made when it is asked for.
    offers: Option<Vec<Offer>>,
}

impl Block {
    /// One request that is shown at once.
    pub fn alone(entry: Entry, now: Instant) -> Block {
        Block {
            entries: vec![entry],
            closes: now,
            is_closed: true,
            place: None,
            group: None,
            is_alone: true,
            offers: None,
        }
    }

    pub fn new(entry: Entry, closes: Instant, place: Option<Place>) -> Block {
        Block { entries: vec![entry], closes, is_closed: false, place, group: None, is_alone: false, offers: None }
    }

    /// What an answer names.
    pub fn id(&self) -> Option<RequestId> {
        self.group.or_else(|| self.entries.first().map(|entry| entry.request().id))
    }

    pub fn len(&self) -> usize {
        self.entries.iter().map(Entry::len).sum()
    }

    pub fn is_open(&self, now: Instant) -> bool {
        !self.is_closed && self.closes > now
    }

    pub fn waiters(&self) -> impl Iterator<Item = &Waiter> {
        self.entries.iter().flat_map(Entry::waiters)
    }

    pub fn has(&self, id: RequestId) -> bool {
        self.entries.iter().any(|entry| entry.has(id))
    }

    /// Whether its name is of all of it: there is one entry, or somebody could have seen the group.
    pub fn is_one(&self) -> bool {
        self.group.is_some() || self.entries.len() == 1
    }

    fn requests(&self) -> impl Iterator<Item = &Request> + Clone {
        self.entries.iter().map(|entry| entry.request().as_ref())
    }

    /// Where all of it would be with another one; `None` if they do not belong together.
    pub fn place_with(&self, request: &Request, place: &Place, terms: &SessionTerms) -> Option<Place> {
        let lead = self.entries.first()?.request();
        let own = self.place.as_ref().filter(|_| !self.is_alone && belong_together(lead, request))?;
        own.joined(place, &terms.home)
    }

    /// Whether the other one can become part of this: where all of it would be.
    pub fn place_of_both(&self, other: &Block, terms: &SessionTerms) -> Option<Place> {
        let first = other.entries.first()?.request();
        self.place_with(first, other.place.as_ref().filter(|_| !other.is_alone)?, terms)
    }

    pub fn take_in(&mut self, entries: Vec<Entry>, place: Place) {
        self.entries.extend(entries);
        self.place = Some(place);
        self.offers = None;
    }

    /// Gives it the name of what it is made of now. Without randomness for one it is asked for one by one.
    pub fn name(&mut self) -> Result<(), Vec<Entry>> {
        self.offers = None;
        self.group = None;
        if self.entries.len() > 1 {
            match RequestId::random() {
                Ok(id) => self.group = Some(id),
                Err(_) => return Err(std::mem::take(&mut self.entries)),
            }
        }
        Ok(())
    }

    /// The widths that may be answered, and the request that they are widths of.
    pub fn widths(&self, terms: &SessionTerms) -> Option<(Request, Vec<Width>)> {
        match (self.group, &self.place) {
            (Some(_), Some(place)) => widened(self.requests(), place, &terms.bounds()),
            _ => {
                let lead = self.requests().next()?;
                Some((lead.clone(), offered_widths(lead, &terms.home)))
            }
        }
    }

    /// As it would be put to somebody now. `behind` others wait.
    pub fn prompt(&mut self, terms: &SessionTerms, deadline: Instant, behind: usize) -> Option<Prompt> {
        let offers = match self.offers.take() {
            Some(offers) => offers,
            None => self.offers_made(terms)?,
        };
        self.offers = Some(offers.clone());
        let lead = self.entries.first()?.request();
        let limits = terms.bounds().limits;
        let group = self.group.and(self.place.as_ref()).map(|place| Group {
            count: self.entries.len(),
            place: place.shown(),
            members: members(self.requests()),
        });
        // A group that has shrunk to one while it is shown is listed as the one that it is.
        let group = group.filter(|group| group.count > 1);
        Some(Prompt {
            id: self.id()?,
            longest: longest(lead, limits),
            max_for: limits.max_for,
            suggestion: None,
            group,
            offers,
            attempts: self.len(),
            waiting: behind,
            deadline,
            request: lead.clone(),
        })
    }

    fn offers_made(&self, terms: &SessionTerms) -> Option<Vec<Offer>> {
        let (base, widths) = self.widths(terms)?;
        let bounds = terms.bounds();
        let within = |width: &Width| bounds.limits.widths.has(*width);
        let made = widths.into_iter().filter(within).filter_map(|width| {
            // Of a group this is each of its members, of which the first stands for all.
            let request = if width == Width::Exact { self.requests().next()? } else { &base };
            let grant = Grant::from_answer(GrantId(0), request, width, Term::Session, "", &bounds).ok()?;
            Some(Offer { width, scope: grant.scope() })
        });
        Some(made.collect())
    }
}
