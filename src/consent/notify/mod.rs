//! The consent agent of a desktop, `gated-notify`. Runs as the person at the desktop, outside of any session, with no
//! privilege; what it shows is a tool's choice of words and paths, and what it brings back are clicks of a person that a
//! notification server reports. [`queue`] decides, [`draw`] says, [`server`] talks to the desktop.
//!
//! A request that cannot be put to the person here (no server, a screen that is locked) is not answered here: it waits for
//! `gatedctl` or another agent until its deadline.

pub mod draw;
mod keys;
pub mod lock;
mod main;
pub mod queue;
pub mod server;
pub mod telling;

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::future::LocalBoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{mpsc, oneshot, watch};
use tracing::{info, warn};

use crate::common::consent::{Answer, Prompt};
use crate::common::decision::{Lifetime, Width};
use crate::common::notice::Notice;
use crate::consent::bus::Asked;
use crate::consent::told::Told;

use draw::{Capabilities, Drawing, Person};
pub use main::{Arguments, main};
use queue::{Choice, Effect, Event, Key, Limits, Queue, Why};
use telling::{Pace, Telling};

/// How often to look whether the screen was locked or unlocked, while requests wait; signals make it look sooner.
const LOOK: Duration = Duration::from_secs(1);

/// A notification at a server: by the connection that took it, and the id that this one gave.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Mark {
    pub owner: String,
    pub id: u32,
}

/// A button: what the server calls it, and what the person reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Button {
    pub key: String,
    pub label: &'static str,
}

/// How long a notification stays, unless it is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stay {
    /// Also at the top of what a desktop shows, and through its "do not disturb".
    UntilClosed,
    /// For what has no buttons: some servers turn a notification without an end into a dialogue with buttons of their own.
    For(Duration),
    AsUsual,
    /// For what is only told: without a sound, where a desktop has one for others.
    InPassing,
}

/// Who took a notification away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closing {
    ByPerson,
    ByServer,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// A server is there, another than before if there was one.
    Server(Capabilities),
    NoServer,
    Invoked(Mark, String),
    Closed(Mark, Closing),
    /// The screen may have been locked or unlocked.
    Screen,
}

#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    #[error("there is no notification server")]
    None,
    #[error("the notification server refuses: {0}")]
    Refused(String),
}

/// A desktop, as far as the notifier needs one.
pub trait Server {
    fn capabilities(&self) -> Option<Capabilities>;

    /// Shows a notification.
    fn show(
        &mut self,
        drawing: &Drawing,
        buttons: &[Button],
        stay: Stay,
    ) -> impl Future<Output = Result<Mark, ServerError>>;

    fn close(&mut self, mark: &Mark) -> impl Future<Output = ()>;

    /// The next news, and when it came. May be dropped and called again.
    fn news(&mut self) -> impl Future<Output = (Instant, News)>;

    fn is_locked(&mut self) -> impl Future<Output = bool>;
}

/// A request that waits, with what is shown of it.
struct Waiting {
    prompt: Prompt,
    user: u32,
    reply: oneshot::Sender<Answer>,
    /// The notification that counts, and what its buttons are called.
    shown: Option<(Mark, Vec<(String, Choice)>)>,
}

/// Puts requests to the person until told to stop.
pub struct Notifier<S: Server> {
    server: S,
    person: Person,
    queue: Queue,
    waiting: HashMap<Key, Waiting>,
    /// Each ends when its request is over without us.
    withdrawn: FuturesUnordered<LocalBoxFuture<'static, Key>>,
    next: u64,
    locked: bool,
    /// What a server showed when it was given up; if it comes back, its buttons are dead.
    stale: Vec<Mark>,
    /// Whether there is a server to show requests by.
    able: watch::Sender<bool>,
    /// What was done without a question, the notification that says so, and where it comes from.
    telling: Telling,
    tells: Option<Mark>,
    told: Option<mpsc::Receiver<Told>>,
    /// What the daemon has to say besides.
    notices: Option<mpsc::Receiver<Notice>>,
}

impl<S: Server> Notifier<S> {
    /// `able` is told whether requests can be shown at all.
    pub fn new(server: S, person: Person, limits: Limits, able: watch::Sender<bool>) -> Notifier<S> {
        Notifier {
            server,
            person,
            queue: Queue::new(limits),
            waiting: HashMap::new(),
            withdrawn: FuturesUnordered::new(),
            next: 0,
            locked: false,
            stale: Vec::new(),
            able,
            telling: Telling::new(Pace::default()),
            tells: None,
            told: None,
            notices: None,
        }
    }

    /// The same, which says as well what was done without a question.
    pub fn telling(self, told: mpsc::Receiver<Told>, pace: Pace) -> Notifier<S> {
        Notifier { told: Some(told), telling: Telling::new(pace), ..self }
    }

    /// The same, which says as well what the daemon has to say.
    pub fn hearing(self, notices: mpsc::Receiver<Notice>) -> Notifier<S> {
        Notifier { notices: Some(notices), ..self }
    }

    /// Until `asked` is closed; then what is shown is taken away.
    pub async fn run(&mut self, asked: &mut mpsc::UnboundedReceiver<Asked>) {
        let mut look = tokio::time::interval(LOOK);
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let wake = self.queue.wake().map(tokio::time::Instant::from_std);
            let due = self.telling.due().map(tokio::time::Instant::from_std);
            tokio::select! {
                biased;
                Some(key) = self.withdrawn.next() => self.step(Instant::now(), Event::Withdrawn(key)).await,
                (time, news) = self.server.news() => self.heard(time, news).await,
                next = asked.recv() => match next {
                    Some(asked) => self.asked(asked).await,
                    None => break,
                },
                Some(told) = next_of(self.told.as_mut()) => self.telling.add(told, Instant::now()),
                Some(notice) = next_of(self.notices.as_mut()) => self.notice(&notice).await,
                () = until(due) => self.tell().await,
                () = until(wake) => self.step(Instant::now(), Event::Tick).await,
                _ = look.tick(), if !self.queue.is_empty() => self.look().await,
            }
        }
        let asked = std::mem::take(&mut self.waiting).into_values().filter_map(|waiting| Some(waiting.shown?.0));
        for mark in asked.chain(self.tells.take()) {
            self.server.close(&mark).await;
        }
    }

    /// Says what nobody is asked about; what cannot be seen now is in the log.
    async fn notice(&mut self, notice: &Notice) {
        self.look().await;
        let Some(capabilities) = self.server.capabilities().filter(|_| !self.locked) else { return };
        let drawing = draw::notice(notice, capabilities);
        if let Err(error) = self.server.show(&drawing, &[], Stay::InPassing).await {
            warn!(%error, "not told");
        }
    }

    /// Says what was done without a question; later, while nobody can see it.
    async fn tell(&mut self) {
        self.look().await;
        let now = Instant::now();
        let Some(capabilities) = self.server.capabilities().filter(|_| !self.locked) else {
            self.telling.later(now);
            return;
        };
        let Some((told, count)) = self.telling.take(now) else { return };
        if let Some(mark) = self.tells.take() {
            self.server.close(&mark).await;
        }
        let drawing = draw::done(&told, count, &self.person, capabilities);
        match self.server.show(&drawing, &[], Stay::InPassing).await {
            Ok(mark) => {
                info!(id = mark.id, count, "told what was done");
                self.tells = Some(mark);
            }
            Err(error) => {
                warn!(%error, count, "not told what was done");
                self.telling.later(Instant::now());
            }
        }
    }

    async fn asked(&mut self, asked: Asked) {
        let Asked { prompt, user, reply, mut withdrawn } = asked;
        self.look().await;
        let key = Key(self.next);
        self.next = self.next.wrapping_add(1);
        let (session, may_session) = (prompt.request.session.clone(), prompt.longest >= Lifetime::Session);
        info!(request = %prompt.id, session = %session, "asked");
        self.waiting.insert(key, Waiting { prompt, user, reply, shown: None });
        self.withdrawn.push(Box::pin(async move {
            withdrawn.wait().await;
            key
        }));
        self.step(Instant::now(), Event::Asked { key, session, may_session }).await;
    }

    async fn heard(&mut self, time: Instant, news: News) {
        match news {
            News::Server(capabilities) => {
                self.forget_shown();
                for mark in std::mem::take(&mut self.stale) {
                    self.server.close(&mark).await;
                }
                self.step(time, Event::Server { buttons: capabilities.actions }).await;
                self.able.send_replace(true);
            }
            News::NoServer => {
                self.forget_shown();
                self.step(time, Event::NoServer).await;
                self.able.send_replace(false);
            }
            News::Screen => self.look().await,
            News::Invoked(mark, name) => {
                let clicked = self.shown_as(&mark).and_then(|(key, waiting)| {
                    let (_, buttons) = waiting.shown.as_ref()?;
                    buttons.iter().find(|(own, _)| *own == name).map(|(_, choice)| (key, *choice))
                });
                let Some((key, choice)) = clicked else {
                    warn!(id = mark.id, "a click on what is not shown counts for nothing");
                    return;
                };
                self.look().await;
                self.step(time, Event::Clicked(key, choice)).await;
            }
            News::Closed(mark, _) if self.tells.as_ref() == Some(&mark) => {
                self.tells = None;
                self.telling.seen();
            }
            News::Closed(mark, closing) => {
                let Some((key, waiting)) = self.shown_as(&mark) else { return };
                let request = waiting.prompt.id;
                waiting.shown = None;
                let event = match closing {
                    Closing::ByPerson => {
                        info!(%request, "put away without an answer; left to gatedctl");
                        Event::Dismissed(key)
                    }
                    Closing::ByServer => {
                        info!(%request, "taken away by the notification server");
                        Event::Lost(key)
                    }
                };
                self.step(time, event).await;
            }
        }
    }

    /// Looks whether the screen is locked.
    async fn look(&mut self) {
        let locked = self.server.is_locked().await;
        if locked != self.locked {
            self.locked = locked;
            info!(locked, "the screen");
            self.step(Instant::now(), if locked { Event::Locked } else { Event::Unlocked }).await;
        }
    }

    fn shown_as(&mut self, mark: &Mark) -> Option<(Key, &mut Waiting)> {
        let is_it = |waiting: &Waiting| waiting.shown.as_ref().is_some_and(|(own, _)| own == mark);
        self.waiting.iter_mut().find(|(_, waiting)| is_it(waiting)).map(|(key, waiting)| (*key, waiting))
    }

    /// The server is another: its ids mean nothing any more.
    fn forget_shown(&mut self) {
        let shown = self.waiting.values_mut().filter_map(|waiting| waiting.shown.take());
        self.stale.extend(shown.map(|(mark, _)| mark).chain(self.tells.take()));
    }

    /// Tells the queue, and does what it says.
    async fn step(&mut self, time: Instant, event: Event) {
        let ended = match &event {
            Event::Withdrawn(key) => Some(*key),
            _ => None,
        };
        let mut effects = VecDeque::from(self.queue.step(time, event));
        while let Some(effect) = effects.pop_front() {
            let then = match effect {
                Effect::Show(key, why) => self.show(key, why).await,
                Effect::Close(key) => {
                    if let Some((mark, _)) = self.waiting.get_mut(&key).and_then(|waiting| waiting.shown.take()) {
                        self.server.close(&mark).await;
                    }
                    None
                }
                Effect::Answer(key, choice) => {
                    self.answer(key, choice).await;
                    None
                }
                Effect::TellMissed(requests) => {
                    let drawing = draw::missed(requests, self.server.capabilities().unwrap_or_default());
                    if let Err(error) = self.server.show(&drawing, &[], Stay::AsUsual).await {
                        warn!(%error, requests, "not told what was missed while the screen was locked");
                    }
                    None
                }
            };
            if let Some(event) = then {
                effects.extend(self.queue.step(Instant::now(), event));
            }
        }
        if let Some(key) = ended {
            self.waiting.remove(&key);
        }
    }

    async fn show(&mut self, key: Key, why: Why) -> Option<Event> {
        let capabilities = self.server.capabilities().unwrap_or_default();
        let others = self.queue.waiting();
        let waiting = self.waiting.get_mut(&key)?;
        let of = (waiting.user != self.person.uid).then(|| name_of(waiting.user));
        let drawing = draw::request(&waiting.prompt, of.as_deref(), &self.person, capabilities, why, others);
        let request = waiting.prompt.id;
        let choices: Vec<Choice> = drawing.buttons.iter().map(|(choice, _)| *choice).collect();
        let names = match keys::name(&choices) {
            Ok(names) => names,
            Err(error) => {
                warn!(%error, %request, "not shown");
                return Some(Event::Lost(key));
            }
        };
        let labels = drawing.buttons.iter().map(|(_, label)| *label);
        let buttons: Vec<Button> =
            names.iter().cloned().zip(labels).map(|(key, label)| Button { key, label }).collect();
        let named: Vec<(String, Choice)> = names.into_iter().zip(choices).collect();
        let stay = match buttons.is_empty() {
            true => Stay::For(waiting.prompt.deadline.saturating_duration_since(Instant::now())),
            false => Stay::UntilClosed,
        };
        match self.server.show(&drawing, &buttons, stay).await {
            Ok(mark) => {
                info!(%request, id = mark.id, ?why, "shown");
                waiting.shown = Some((mark, named));
                Some(Event::Drawn(key))
            }
            Err(error) => {
                warn!(%error, %request, "not shown");
                Some(match error {
                    ServerError::None => Event::NoServer,
                    ServerError::Refused(_) => Event::Lost(key),
                })
            }
        }
    }

    async fn answer(&mut self, key: Key, choice: Choice) {
        let Some(waiting) = self.waiting.remove(&key) else { return };
        // Wider answers are for those who see what they cover, at a terminal or with gatedctl.
        let answer = match choice {
            Choice::Deny => Answer::Deny,
            Choice::Once => Answer::Once(Width::Exact),
            Choice::Session => Answer::Session(Width::Exact),
            // The notification says what it covers.
            Choice::Always => match draw::always(&waiting.prompt) {
                Some(suggestion) => Answer::Always(suggestion.width),
                None => Answer::Deny,
            },
        };
        let request = waiting.prompt.id;
        match waiting.reply.send(answer) {
            Ok(()) => info!(%request, ?choice, "answered"),
            Err(_) => info!(%request, ?choice, "answered too late"),
        }
        // Most servers have closed it by now.
        if let Some((mark, _)) = waiting.shown {
            self.server.close(&mark).await;
        }
    }
}

/// The name of a user, or the number if there is none.
fn name_of(uid: u32) -> String {
    let user = nix::unistd::User::from_uid(nix::unistd::Uid::from_raw(uid)).ok().flatten();
    user.map_or_else(|| uid.to_string(), |user| user.name)
}

/// The next that is told; never if nothing is, or nothing more.
async fn next_of<T>(told: Option<&mut mpsc::Receiver<T>>) -> Option<T> {
    match told {
        Some(told) => match told.recv().await {
            Some(told) => Some(told),
            None => std::future::pending().await,
        },
        None => std::future::pending().await,
    }
}

/// At a point in time; never without one.
async fn until(time: Option<tokio::time::Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}
