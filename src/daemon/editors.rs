//! Who may write another command in place of the one that a session was given: the very connection that gave it, which is that
//! gated-run's own. Runs as root in the daemon, on its one thread.
//!
//! An answer says yes or no to what was shown, and whoever may answer may give it; another command is the caller's own to
//! give. So it is taken from the connection that had the daemon start a command in this session, whose argv is the one that
//! is asked about, and from nobody else: not from another program of the same user, and not from a group that answers.
//! The supervisor judges what was written as if it had been given at first.

use std::cell::RefCell;
use std::collections::VecDeque;

use crate::common::details::MAX_EDITED;
use crate::common::request::Request;
use crate::common::text::Untrusted;

/// Commands of a session that are remembered; the oldest go first. They are needed until the command runs.
const MOST: usize = 64;

/// The commands that a session was given, and by whom.
#[derive(Debug, Default)]
pub struct Editors(RefCell<VecDeque<Given>>);

#[derive(Debug)]
struct Given {
    /// The unique name of a connection.
    sender: String,
    argv: Vec<Untrusted>,
}

impl Editors {
    /// A connection had this command started, or wrote it in place of another, and may write the next.
    pub fn gave(&self, sender: &str, argv: &[Vec<u8>]) {
        let bytes = argv.iter().map(|word| word.len().saturating_add(1)).fold(0, usize::saturating_add);
        if bytes > MAX_EDITED {
            // It cannot be shown whole, and so not be changed.
            return;
        }
        let mut all = self.0.borrow_mut();
        if all.len() >= MOST {
            all.pop_front();
        }
        let argv = argv.iter().map(|word| Untrusted::new(word.as_slice())).collect();
        all.push_back(Given { sender: sender.to_owned(), argv });
    }

    /// Whether `request` is about a command that this connection gave.
    pub fn may_edit(&self, sender: &str, request: &Request) -> bool {
        let Some(execution) = request.execution.as_ref().filter(|execution| execution.is_first) else { return false };
        // What is shown to agents is masked; here it is as it came.
        let is_it = |given: &Given| given.sender == sender && given.argv == execution.argv;
        execution.words_left_out == 0 && self.0.borrow().iter().any(is_it)
    }
}
