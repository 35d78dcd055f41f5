//! Asking for consent: what a consent agent is shown and what it may answer. The broker asks through this trait and does
//! not know who is behind it. Pure data; the agents live in `consent`.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::decision::{Lifetime, Term, Width};
use super::id::RequestId;
use super::notice::Notice;
use super::path::RawPath;
use super::request::{Operation, Request};

/// How far an answer may reach, and what it would cover.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    pub width: Width,
    /// The pattern that the grant would have, in the notation of [`super::scope`].
    pub scope: String,
}

/// One of several requests that are put to somebody as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub operation: Operation,
    pub object: RawPath,
}

/// Several requests of one program that are put to somebody as one. A yes for [`Width::Exact`] is a yes to each of them and
/// to nothing else; a wider one covers them and more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// All of them, [`Prompt::request`] included; at least 2.
    pub count: usize,
    /// What they have in common: a directory as [`super::scope`] writes it, or a host.
    pub place: String,
    /// The first of them in the order of arrival, [`MOST_MEMBERS`] at the most.
    pub members: Vec<Member>,
}

/// Members of a group that are named at the most.
pub const MOST_MEMBERS: usize = 64;

/// What the person has answered to the same thing again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suggestion {
    /// How often.
    pub times: u32,
    pub width: Width,
    pub term: Term,
}

/// A request as it is put to a consent agent. Nothing in it changes while it is shown.
#[derive(Clone, Debug)]
pub struct Prompt {
    /// What an answer names: the request's own id, or, of a group, one of the group's own.
    pub id: RequestId,
    pub request: Rc<Request>,
    /// Further requests that the same answer settles; the first of them is `request`.
    pub group: Option<Group>,
    /// What may be answered, narrowest first; [`Width::Exact`] is always there.
    pub offers: Vec<Offer>,
    /// The longest lifetime that rule, profile and ceiling let an answer create.
    pub longest: Lifetime,
    /// The longest time of an [`Answer::For`]; `None`: any. Means nothing where `longest` is shorter than
    /// [`Lifetime::Until`].
    pub max_for: Option<Duration>,
    /// A lasting yes that may be worth it, within `offers` and `longest`.
    pub suggestion: Option<Suggestion>,
    /// Equal attempts that the same answer settles, this one included.
    pub attempts: usize,
    /// Other requests of the session that wait behind this one.
    pub waiting: usize,
    /// Without an answer until then the request is denied.
    pub deadline: Instant,
}

impl Prompt {
    /// One request that nobody else's answer settles, for as long as its rule allows.
    pub fn new(request: Rc<Request>, offers: Vec<Offer>, deadline: Instant) -> Prompt {
        Prompt {
            id: request.id,
            group: None,
            offers,
            longest: request.remember,
            max_for: None,
            suggestion: None,
            attempts: 1,
            waiting: 0,
            deadline,
            request,
        }
    }
}

/// What was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Deny,
    /// For the call that asked; for this attempt only, where the rule allows no more.
    Once(Width),
    Session(Width),
    /// In every session of the user under the same profile, for this time.
    For(Width, Duration),
    /// The same, until it is revoked.
    Always(Width),
    /// No, and to what it covers for that long.
    Block(Width, Term),
    /// Ask for each member of a [`Group`] by itself.
    Split,
    /// Not this command but one with this argv, which is judged anew. Only for [`super::exec::Execution::is_first`].
    Edit(Vec<Vec<u8>>),
}

impl Answer {
    /// Whether something may happen by it.
    pub fn says_yes(&self) -> bool {
        self.allows().is_some()
    }

    /// How far it reaches, if it is about more than the moment.
    pub fn width(&self) -> Option<Width> {
        match *self {
            Answer::Once(width) | Answer::Session(width) | Answer::For(width, _) => Some(width),
            Answer::Always(width) | Answer::Block(width, _) => Some(width),
            Answer::Deny | Answer::Split | Answer::Edit(_) => None,
        }
    }

    /// How far and how long a yes reaches.
    pub fn allows(&self) -> Option<(Width, Term)> {
        match *self {
            Answer::Once(width) => Some((width, Term::Call)),
            Answer::Session(width) => Some((width, Term::Session)),
            Answer::For(width, time) => Some((width, Term::For(time))),
            Answer::Always(width) => Some((width, Term::Always)),
            Answer::Deny | Answer::Block(..) | Answer::Split | Answer::Edit(_) => None,
        }
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

    /// Something that nobody is asked about, between two prompts.
    fn notice(&mut self, _notice: &Notice) {}

    /// How long a request waits for others that can be put to this agent together with it, asked for each request when it comes.
    /// Zero, if nothing is said: a person is shown many at once, a program can answer one after the other.
    fn gathers(&self) -> Gathers {
        Box::new(|_| Duration::ZERO)
    }
}

/// How long a request waits for others, by the request.
pub type Gathers = Box<dyn Fn(&Request) -> Duration>;

/// How long requests gather that are put to a person: too short to be noticed, long enough for what a program does at once.
pub const GATHERING: Duration = Duration::from_millis(150);
