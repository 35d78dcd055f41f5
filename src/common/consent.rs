//! Asking for consent: what a consent agent is shown and what it may answer. The broker asks through this trait and does
//! not know who is behind it. Pure data; the agents live in `consent`.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Instant;

use super::decision::{Lifetime, Width};
use super::request::Request;

/// How far an answer may reach, and what it would cover.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    pub width: Width,
    /// The pattern that the grant would have, in the notation of [`super::scope`].
    pub scope: String,
}

/// A request as it is put to a consent agent. Nothing in it changes while it is shown.
#[derive(Clone, Debug)]
pub struct Prompt {
    pub request: Rc<Request>,
    /// What may be answered, narrowest first; [`Width::Exact`] is always there.
    pub offers: Vec<Offer>,
    /// The longest lifetime that the rule lets an answer create.
    pub longest: Lifetime,
    /// Equal attempts that the same answer settles, this one included.
    pub attempts: usize,
    /// Other requests of the session that wait behind this one.
    pub waiting: usize,
    /// Without an answer until then the request is denied.
    pub deadline: Instant,
}

/// What was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Deny,
    /// For the call that asked; for this attempt only, where the rule allows no more.
    Once(Width),
    Session(Width),
    /// Not this command but one with this argv, which is judged anew. Only for [`super::exec::Execution::is_first`].
    Edit(Vec<Vec<u8>>),
}

impl Answer {
    /// Whether something may happen by it.
    pub fn says_yes(&self) -> bool {
        matches!(self, Answer::Once(_) | Answer::Session(_))
    }
}

/// Why an agent brings no answer. The request is denied unless another agent answers it.
#[derive(Debug, thiserror::Error)]
pub enum ConsentError {
    /// This request cannot be put to anybody; the next may be.
    #[error("nobody can be asked now: {0}")]
    Unavailable(String),
    /// The agent is gone and is not asked again.
    #[error("the consent agent is gone: {0}")]
    Gone(String),
}

/// An answer that is still to come. Dropping it withdraws the prompt and restores whatever showed it.
pub type Asking<'a> = Pin<Box<dyn Future<Output = Result<Answer, ConsentError>> + 'a>>;

/// Somebody who can be asked, one prompt at a time.
pub trait ConsentAgent {
    /// For records, such as `tty:alice` or `script:answers.toml`.
    fn name(&self) -> String;

    fn ask<'a>(&'a mut self, prompt: &'a Prompt) -> Asking<'a>;
}
