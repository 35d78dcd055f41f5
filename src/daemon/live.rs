//! One session in the daemon: what is known of it, and the task that serves it from its supervisor's greeting to its end.
//! Runs as root; what the supervisor says is shown and recorded, never obeyed.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::{Notify, mpsc};

use super::broker::Control;
use super::editors::Editors;
use super::link::Outgoing;
use super::newest::Newest;
use super::state::Kept;
use super::view::View;
use crate::common::id::{CallId, SessionId};
use crate::common::wire::RunningCall;
use crate::policy::{Policy, Profile};

/// How long a session may take to end by itself when it is told to.
pub const FAREWELL: Duration = Duration::from_secs(3);

/// Where a session is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Starting,
    Running,
    /// Its supervisor has not come back to a restarted daemon yet.
    Lost,
}

impl State {
    /// The word on the bus.
    pub fn as_str(self) -> &'static str {
        match self {
            State::Starting => "starting",
            State::Running => "running",
            State::Lost => "lost",
        }
    }
}

/// A session that is there.
pub struct Live {
    pub kept: Kept,
    pub profile: Profile,
    /// Made of the profile when it is first asked.
    pub(super) policy: OnceCell<Policy>,
    pub state: Cell<State>,
    /// What waits and what was granted, as the broker sees it.
    pub view: Rc<View>,
    pub control: mpsc::UnboundedSender<Control>,
    /// Taken by the broker when it starts.
    pub controlled: RefCell<Option<mpsc::UnboundedReceiver<Control>>>,
    /// The way to the supervisor for what carries descriptors.
    pub starts: RefCell<Option<mpsc::Sender<Outgoing>>>,
    /// Who gave it which command.
    pub editors: Rc<Editors>,
    pub stop: Notify,
    /// A ceiling that was read after it began.
    pub(super) newest: RefCell<Option<Newest>>,
    /// Whether it is over: nobody finds it any more.
    pub is_over: Cell<bool>,
}

impl Live {
    pub fn new(kept: Kept, profile: Profile, state: State, view: Rc<View>) -> Live {
        let (control, controlled) = mpsc::unbounded_channel();
        Live {
            kept,
            profile,
            policy: OnceCell::new(),
            state: Cell::new(state),
            view,
            control,
            controlled: RefCell::new(Some(controlled)),
            starts: RefCell::default(),
            editors: Rc::default(),
            stop: Notify::new(),
            newest: RefCell::default(),
            is_over: Cell::new(false),
        }
    }

    pub fn id(&self) -> &SessionId {
        &self.kept.session
    }

    pub fn owner(&self) -> u32 {
        self.kept.user.uid
    }

    pub fn calls(&self) -> BTreeMap<CallId, RunningCall> {
        self.view.calls.borrow().clone()
    }
}
