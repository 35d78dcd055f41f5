//! A consent agent that puts requests to a URL, so that a chat bot or a phone can show them with buttons:
//! `gated-notify --webhook`. Runs as the person who is asked, outside of any session, with no privilege; what it sends is a
//! tool's choice of words and paths, and what comes back is the word of whoever reached the bridge.
//!
//! [`config`] says where, [`message`] what, [`signature`] and [`replies`] who is believed; [`client`] speaks HTTP and
//! [`ntfy`] its dialect. The protocol is in `docs/webhook.md`.
//!
//! A request that cannot be put to the bridge is not answered here: it waits for `gatedctl` or another agent until its
//! deadline.

pub mod client;
pub mod config;
mod main;
pub mod message;
pub mod ntfy;
mod pace;
pub mod replies;
mod sending;
pub mod signature;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use futures_util::StreamExt;
use futures_util::future::LocalBoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tracing::{debug, info, warn};

use crate::common::consent::Answer;
use crate::common::id::RequestId;
use crate::consent::bus::Asked;

use client::{Client, ClientError};
use config::Settings;
use message::Over;
use pace::Complaints;
use replies::{Desk, Ignored, Reply};
use sending::{Outgoing, Post};
use signature::Secret;

pub use main::main;

/// Replies that the threads which speak HTTP found, and nobody looked at yet. They wait where it is full.
const BACKLOG: usize = 64;

/// The agent cannot be.
#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("no randomness: {0}")]
    Randomness(getrandom::Error),
}

/// A request that waits for a reply.
struct Waiting {
    session: String,
    number: u64,
    reply: oneshot::Sender<Answer>,
    /// Whether the bridge may know of it.
    was_sent: Arc<AtomicBool>,
    /// Dropped, it keeps what was not sent from being sent.
    _hold: oneshot::Sender<()>,
}

/// See the module.
pub struct Bridge {
    outgoing: Arc<Outgoing>,
    desk: Desk,
    waiting: HashMap<RequestId, Waiting>,
    /// Each ends when its asking is over without us.
    withdrawn: FuturesUnordered<LocalBoxFuture<'static, (RequestId, u64)>>,
    count: u64,
    /// How many wait, for who looks for replies.
    number: watch::Sender<usize>,
    complaints: Complaints,
    host: String,
}

impl Bridge {
    pub fn new(settings: Settings, host: String) -> Result<Bridge, WebhookError> {
        let key = Secret::random().map_err(WebhookError::Randomness)?;
        let client = Client::new(&settings)?;
        let desk = Desk::new(key, settings.secret.clone());
        Ok(Bridge {
            outgoing: Arc::new(Outgoing::new(settings, client)),
            desk,
            waiting: HashMap::new(),
            withdrawn: FuturesUnordered::new(),
            count: 0,
            number: watch::Sender::new(0),
            complaints: Complaints::default(),
            host,
        })
    }

    /// Until `asked` is closed; then the bridge is told that what it shows is over. Needs a tokio runtime with time.
    pub async fn run(&mut self, asked: &mut mpsc::UnboundedReceiver<Asked>) {
        let (tell, mut replies) = mpsc::channel(BACKLOG);
        let mut tasks = JoinSet::new();
        let (outgoing, number) = (Arc::clone(&self.outgoing), self.number.subscribe());
        tasks.spawn(sending::look_for_replies(outgoing, number, tell.clone()));
        loop {
            tokio::select! {
                biased;
                Some((request, number)) = self.withdrawn.next() => self.withdraw(request, number, &mut tasks),
                Some(reply) = replies.recv() => self.reply(&reply, &mut tasks),
                next = asked.recv() => match next {
                    Some(asked) => self.asked(asked, &tell, &mut tasks),
                    None => break,
                },
                Some(_) = tasks.join_next() => {}
            }
        }
        tasks.abort_all();
        let shown = self.waiting.drain().filter(|(_, waiting)| waiting.was_sent.load(Ordering::Relaxed));
        let mut farewells: JoinSet<()> = JoinSet::new();
        for (request, waiting) in shown {
            farewells.spawn(sending::tell_over(Arc::clone(&self.outgoing), request, waiting.session, Over::Withdrawn));
        }
        let told = async { while farewells.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(sending::FAREWELL, told).await;
    }

    fn asked(&mut self, asked: Asked, tell: &mpsc::Sender<Reply>, tasks: &mut JoinSet<()>) {
        let Asked { prompt, user, reply, mut withdrawn } = asked;
        let (message, choices) = message::of(&prompt, &name_of(user), &self.host);
        let request = prompt.id;
        let answers = choices.iter().map(|choice| choice.answer.clone()).collect();
        let tokens = self.desk.open(request, user, prompt.deadline, answers);
        self.count = self.count.wrapping_add(1);
        let number = self.count;
        let (hold, released) = oneshot::channel();
        let session = prompt.request.session.clone();
        info!(%request, %session, "asked");
        let was_sent = Arc::<AtomicBool>::default();
        let kept = (session.0.clone(), Arc::clone(&was_sent));
        let waiting = Waiting { session: kept.0, number, reply, was_sent: kept.1, _hold: hold };
        self.waiting.insert(request, waiting);
        self.number.send_replace(self.desk.waiting());
        self.withdrawn.push(Box::pin(async move {
            withdrawn.wait().await;
            (request, number)
        }));
        let post = Post { message, choices, tokens, session, was_sent };
        tasks.spawn(sending::ask(Arc::clone(&self.outgoing), post, released, tell.clone()));
    }

    /// That asking is over; there may be another of the same request by now.
    fn withdraw(&mut self, request: RequestId, number: u64, tasks: &mut JoinSet<()>) {
        if self.waiting.get(&request).is_some_and(|waiting| waiting.number == number) {
            self.desk.close(request);
            debug!(%request, "withdrawn");
            self.end(request, Over::Withdrawn, tasks);
        }
    }

    fn reply(&mut self, reply: &Reply, tasks: &mut JoinSet<()>) {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        match self.desk.take(reply, Instant::now(), wall) {
            Ok((request, answer)) => {
                let what = answer.clone();
                let sent = self.end(request, Over::Answered, tasks).map(|reply| reply.send(answer));
                match sent {
                    Some(Ok(())) => info!(%request, answer = ?what, "answered"),
                    Some(Err(_)) | None => info!(%request, answer = ?what, "answered too late"),
                }
            }
            Err(ignored) => self.ignored(ignored),
        }
    }

    fn ignored(&mut self, ignored: Ignored) {
        // Nothing of the reply: it is anybody's words.
        if let Some(times) = self.complaints.add(ignored, Instant::now()) {
            warn!(times, "a reply counts for nothing: {ignored}");
        }
    }

    /// It waits no more; the bridge is told, if it knows of it.
    fn end(&mut self, request: RequestId, over: Over, tasks: &mut JoinSet<()>) -> Option<oneshot::Sender<Answer>> {
        let waiting = self.waiting.remove(&request)?;
        self.number.send_replace(self.desk.waiting());
        if waiting.was_sent.load(Ordering::Relaxed) {
            tasks.spawn(sending::tell_over(Arc::clone(&self.outgoing), request, waiting.session, over));
        }
        Some(waiting.reply)
    }
}

/// The name of a user, or the number if there is none.
fn name_of(uid: u32) -> String {
    let user = nix::unistd::User::from_uid(nix::unistd::Uid::from_raw(uid)).ok().flatten();
    user.map_or_else(|| uid.to_string(), |user| user.name)
}
