//! What stands in one row of each tab, as text that fits its columns. Pure. All of it that is a tool's choice is escaped when
//! it comes in, and cut to what the widest terminal shows: a frame costs the same whatever a name is.

use std::sync::atomic::{AtomicU64, Ordering};

use super::list::Row;
use crate::common::consent::Prompt;
use crate::common::text;
use crate::consent::words;
use crate::ctl::control::table::Cell;

/// Columns of one cell that are kept.
const KEPT: usize = 320;

/// The number of the next [`Asked`].
static NEXT: AtomicU64 = AtomicU64::new(0);

/// A request that waits.
#[derive(Clone, Debug)]
pub struct Asked {
    key: String,
    /// Whose session it is.
    pub user: u32,
    pub prompt: Prompt,
    /// The name of its program.
    pub who: String,
    /// What it wants, with the object.
    pub wish: String,
    text: String,
    /// Whether an answer is on its way.
    pub is_answered: bool,
    /// Of no other request, nor of anything else that is asked under the same name, which no daemon does that keeps its word.
    number: u64,
}

impl Asked {
    pub fn new(user: u32, prompt: Prompt) -> Asked {
        let request = prompt.request.as_ref();
        let who = text::quoted_argv_within([request.who.program.file_name()], 40);
        let wish = match (&prompt.group, &request.execution, &request.destination) {
            (Some(_), ..) => words::wished(&prompt, KEPT),
            (None, Some(execution), _) => format!("run {}", words::command(execution, KEPT)),
            (None, None, Some(destination)) => {
                format!("{} {}", words::verb(request.access, request.operation), words::place(destination, KEPT))
            }
            (None, None, None) => {
                let object = text::escaped_within(request.object.as_bytes(), KEPT);
                format!("{} {object}", words::verb(request.access, request.operation))
            }
        };
        let text = format!("{who} {wish} {}", request.session).to_lowercase();
        Asked {
            key: prompt.id.to_string(),
            user,
            prompt,
            who,
            wish,
            text,
            is_answered: false,
            number: NEXT.fetch_add(1, Ordering::Relaxed),
        }
    }
}

impl Asked {
    /// What tells it from everything else that was ever on the screen.
    pub fn identity(&self) -> u64 {
        self.number
    }
}

impl Row for Asked {
    fn key(&self) -> &str {
        &self.key
    }

    fn text(&self) -> &str {
        &self.text
    }

    fn renew(&mut self, new: Asked) {
        let is_same = {
            let (old, new) = (&self.prompt, &new.prompt);
            old.request == new.request
                && old.group == new.group
                && old.offers == new.offers
                && (old.longest, old.max_for, old.suggestion) == (new.longest, new.max_for, new.suggestion)
                && (old.attempts, old.waiting) == (new.attempts, new.waiting)
        };
        if is_same && self.user == new.user {
            self.prompt.deadline = new.prompt.deadline;
        } else {
            *self = new;
        }
    }
}

/// A session, a grant, or a record.
#[derive(Clone, Debug)]
pub struct Entry {
    key: String,
    /// Whose it is, where that matters.
    pub user: u32,
    pub cells: Vec<Cell>,
    /// All about it: names and values.
    pub fields: Vec<(String, Cell)>,
    text: String,
}

impl Entry {
    pub fn new(key: String, user: u32, cells: Vec<Cell>, fields: Vec<(String, Cell)>) -> Entry {
        let kept = |cell: Cell| match cell {
            // Its end matters, and it is short.
            Cell::Host(..) => cell,
            other => Cell::Own(other.shown(Some(KEPT))),
        };
        let cells: Vec<Cell> = cells.into_iter().map(kept).collect();
        let text = cells.iter().map(|cell| cell.shown(None)).collect::<Vec<_>>().join(" ").to_lowercase();
        Entry { key, user, cells, fields, text }
    }
}

impl Row for Entry {
    fn key(&self) -> &str {
        &self.key
    }

    fn text(&self) -> &str {
        &self.text
    }
}
