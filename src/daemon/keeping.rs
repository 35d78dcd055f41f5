//! Where a broker's answers go that outlive its session, and what is known of earlier ones. The daemon has a store; embedded
//! there is none.

use std::rc::Rc;

use super::agents::Local;
use crate::common::consent::{Answer, Prompt, Suggestion};
use crate::common::id::GrantId;
use crate::common::request::Request;
use crate::policy::Grant;

/// See the module.
pub trait Keeper {
    /// Keeps these and gives them to whoever else they hold for. For each the grant that is kept, which may be an equal one
    /// under another name; `None` if it is not on the disk.
    fn keep<'a>(&'a self, grants: Vec<Rc<Grant>>) -> Local<'a, Vec<Option<Rc<Grant>>>>;

    /// A grant decided an attempt of the session.
    fn used(&self, grant: GrantId);

    /// Somebody answered this by itself.
    fn answered(&self, request: &Request, answer: &Answer, by: &str);

    /// A lasting answer that may be worth it.
    fn suggestion(&self, prompt: &Prompt) -> Option<Suggestion>;
}

/// Nothing is kept, and nothing known.
pub struct Nowhere;

impl Keeper for Nowhere {
    fn keep<'a>(&'a self, grants: Vec<Rc<Grant>>) -> Local<'a, Vec<Option<Rc<Grant>>>> {
        Box::pin(async move { grants.iter().map(|_| None).collect() })
    }

    fn used(&self, _grant: GrantId) {}

    fn answered(&self, _request: &Request, _answer: &Answer, _by: &str) {}

    fn suggestion(&self, _prompt: &Prompt) -> Option<Suggestion> {
        None
    }
}
