//! Nobody to ask: every request is denied at once.

use crate::common::consent::{Asking, ConsentAgent, ConsentError, Prompt};

/// `--consent none`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nobody;

impl ConsentAgent for Nobody {
    fn name(&self) -> String {
        "none".to_owned()
    }

    fn ask<'a>(&'a mut self, _prompt: &'a Prompt) -> Asking<'a> {
        Box::pin(std::future::ready(Err(ConsentError::Unavailable("nobody is there".to_owned()))))
    }
}
