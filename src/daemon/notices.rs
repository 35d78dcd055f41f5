//! How often consent agents are told something that nobody is asked about: of one session and kind one notice every few
//! seconds, which stands for what came since the last. Runs as root in the daemon, on its one thread; how much there is to
//! tell is a tool's choice.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::agents::Agents;
use crate::common::id::SessionId;
use crate::common::notice::{Kind, Notice};

/// The least time between two notices of one kind about one session.
pub const PAUSE: Duration = Duration::from_secs(5);

/// Sessions and kinds of which something was told lately, at the most; of further ones nothing is.
const MOST: usize = 1024;

/// Who hears it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Whom {
    /// Those who are asked about a session of this user.
    Session(SessionId, u32),
    /// Agents of root.
    Admins,
}

/// What was told lately, and what waits to be.
#[derive(Default)]
pub struct Notices(RefCell<HashMap<(Whom, Kind), Waiting>>);

struct Waiting {
    /// When the next may be told.
    next: Instant,
    /// What came since the last, as one.
    notice: Option<Notice>,
}

impl Agents {
    /// Tells it to those who are to hear it, now or, with others, in a moment. Needs a `LocalSet`. Nobody answers.
    pub fn notice(self: &Rc<Self>, whom: Whom, notice: Notice) {
        let now = Instant::now();
        let key = (whom, notice.kind);
        let mut lately = self.notices.0.borrow_mut();
        if let Some(waiting) = lately.get_mut(&key) {
            match &mut waiting.notice {
                Some(kept) => *kept = Notice { count: kept.count.saturating_add(notice.count), ..notice },
                None => waiting.notice = Some(notice),
            }
            return;
        }
        if lately.len() >= MOST {
            return;
        }
        let next = now.checked_add(PAUSE).unwrap_or(now);
        lately.insert(key.clone(), Waiting { next, notice: None });
        drop(lately);
        self.pass_on(&key.0, &notice);
        let agents = Rc::downgrade(self);
        tokio::task::spawn_local(async move {
            let mut at = next;
            loop {
                sleep_until(at).await;
                let Some(agents) = agents.upgrade() else { return };
                match agents.told_later(&key) {
                    Some(next) => at = next,
                    None => return,
                }
            }
        });
    }

    /// Tells what has come meanwhile; when to look again, if there was something.
    fn told_later(&self, key: &(Whom, Kind)) -> Option<Instant> {
        let mut lately = self.notices.0.borrow_mut();
        let waiting = lately.get_mut(key)?;
        let Some(notice) = waiting.notice.take() else {
            lately.remove(key);
            return None;
        };
        waiting.next = waiting.next.checked_add(PAUSE)?;
        let next = waiting.next;
        drop(lately);
        self.pass_on(&key.0, &notice);
        Some(next)
    }
}
