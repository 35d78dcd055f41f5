//! What goes to the bridge and what is fetched from it: which exchange when, on how many threads, and what is tried again. Runs
//! as the person who is asked.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tracing::{info, warn};

use super::client::{Client, ExchangeError, Header};
use super::config::Settings;
use super::message::{self, Choice, Message, Over};
use super::ntfy::{self, Heard};
use super::pace::Pace;
use super::replies::{Replies, Reply};
use crate::common::id::{RequestId, SessionId};

/// Requests that are being sent at a time, and words of their end. A bridge may hold each for the whole time-out.
const MOST_SENDING: usize = 8;
const MOST_TELLING: usize = 4;
/// How often a bridge that cannot be reached is tried, and how long to wait before the second time; then twice as long.
const TRIES: u32 = 6;
const PAUSE: Duration = Duration::from_secs(1);
/// The longest pause after failures of fetching.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// How long the bridge is told that everything is over, when the agent ends.
pub const FAREWELL: Duration = Duration::from_secs(3);

/// The way out.
pub struct Outgoing {
    settings: Settings,
    client: Client,
    sending: Semaphore,
    telling: Semaphore,
    pace: Mutex<Pace>,
}

impl Outgoing {
    pub fn new(settings: Settings, client: Client) -> Outgoing {
        Outgoing {
            settings,
            client,
            sending: Semaphore::new(MOST_SENDING),
            telling: Semaphore::new(MOST_TELLING),
            pace: Mutex::default(),
        }
    }

    /// The headers that say when it was sent and who sent it. `what` is the body, or the path and query of what is fetched.
    fn headers(&self, what: &[u8]) -> Vec<Header> {
        match (&self.settings.secret, &self.settings.topics) {
            (Some(secret), _) => {
                let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs()).to_string();
                let signature = secret.sign(&[time.as_bytes(), what]);
                vec![("X-Gated-Timestamp", time), ("X-Gated-Signature", signature)]
            }
            (None, Some(topics)) => ntfy::headers(topics),
            (None, None) => Vec::new(),
        }
    }

    fn post(&self, body: &[u8]) -> Result<Vec<u8>, ExchangeError> {
        self.client.post(&self.settings.url, &self.headers(body), body)
    }

    /// Waits until another message may be sent for this session.
    async fn turn(&self, session: &SessionId) {
        loop {
            let place = self.pace.lock().unwrap_or_else(PoisonError::into_inner).place(session, Instant::now());
            match place {
                Ok(()) => return,
                Err(at) => tokio::time::sleep_until(at.into()).await,
            }
        }
    }
}

/// A request on its way to the bridge.
pub struct Post {
    pub message: Message,
    pub choices: Vec<Choice>,
    pub tokens: Vec<String>,
    pub session: SessionId,
    /// Set as soon as the bridge may know of it.
    pub was_sent: Arc<AtomicBool>,
}

impl Post {
    fn body(&self, settings: &Settings) -> Option<Vec<u8>> {
        match &settings.topics {
            None => self.message.json(&self.choices, &self.tokens),
            Some(topics) => Some(ntfy::asked(&settings.url.uri, topics, &self.message, &self.choices, &self.tokens)),
        }
    }
}

/// Puts a request to the bridge and hands on what it replies at once. Until `released`: what is over by then is not sent.
pub async fn ask(outgoing: Arc<Outgoing>, post: Post, mut released: oneshot::Receiver<()>, tell: mpsc::Sender<Reply>) {
    let request = post.message.request;
    let post = Arc::new(post);
    let mut pause = PAUSE;
    for tried in 1..=TRIES {
        let place = async {
            if tried == 1 {
                outgoing.turn(&post.session).await;
            }
            outgoing.sending.acquire().await
        };
        let _place = tokio::select! {
            biased;
            _ = &mut released => return,
            place = place => place,
        };
        post.was_sent.store(true, Ordering::Relaxed);
        let (out, sent) = (Arc::clone(&outgoing), Arc::clone(&post));
        let exchange = tokio::task::spawn_blocking(move || {
            let body = sent.body(&out.settings);
            let body = body.ok_or_else(|| ExchangeError::Refused("it is too long to be put to a bridge".to_owned()))?;
            out.post(&body)
        });
        match exchange.await {
            Ok(Ok(body)) => {
                info!(%request, to = outgoing.settings.url.shown, "put to the bridge");
                if outgoing.settings.topics.is_none() {
                    hand_on(&body, &tell).await;
                }
                return;
            }
            Ok(Err(error)) if error.is_passing() && tried < TRIES => {
                warn!(%request, %error, to = outgoing.settings.url.shown, "not put to the bridge yet");
            }
            Ok(Err(error)) => {
                warn!(%request, %error, to = outgoing.settings.url.shown, "no word from the bridge; left to gatedctl");
                return;
            }
            Err(_) => return,
        }
        tokio::select! {
            biased;
            _ = &mut released => return,
            () = tokio::time::sleep(pause) => pause = pause.saturating_mul(2),
        }
    }
}

/// Gives what to ask for next.
async fn hand_on(body: &[u8], tell: &mpsc::Sender<Reply>) -> Option<String> {
    match Replies::parse(body) {
        Ok(replies) => {
            for reply in replies.replies {
                // The agent lives as long as this.
                let _ = tell.send(reply).await;
            }
            replies.next
        }
        Err(error) => {
            warn!("a response of the bridge means nothing: {error}");
            None
        }
    }
}

/// Tells the bridge that a request is over; once, whether it hears it or not.
pub async fn tell_over(outgoing: Arc<Outgoing>, request: RequestId, session: String, over: Over) {
    let Ok(_place) = outgoing.telling.acquire().await else { return };
    let out = Arc::clone(&outgoing);
    let told = tokio::task::spawn_blocking(move || {
        let body = match &out.settings.topics {
            None => message::over(request, &session, over),
            Some(topics) => {
                let short: String = request.to_string().chars().take(8).collect();
                let words = match over {
                    Over::Answered => format!("Request {short} was answered by this."),
                    Over::Withdrawn => format!("Request {short} is over: its buttons do nothing."),
                };
                ntfy::over(topics, &words)
            }
        };
        out.post(&body)
    });
    if let Ok(Err(error)) = told.await {
        warn!(%request, %error, "the bridge is not told that it is over");
    }
}

/// Fetches replies while anything waits, for ever.
pub async fn look_for_replies(outgoing: Arc<Outgoing>, mut waiting: watch::Receiver<usize>, tell: mpsc::Sender<Reply>) {
    let settings = &outgoing.settings;
    if settings.replies.is_none() && settings.topics.is_none() {
        return std::future::pending().await;
    }
    // Of ntfy, from now on.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let mut since = settings.topics.as_ref().map(|_| now.to_string());
    let mut pause = settings.poll;
    loop {
        if waiting.wait_for(|waiting| *waiting > 0).await.is_err() {
            return;
        }
        let (out, from, told, still) = (Arc::clone(&outgoing), since.clone(), tell.clone(), waiting.clone());
        let fetched = if settings.topics.is_some() {
            tokio::task::spawn_blocking(move || stream(&out, from, &told, &still)).await
        } else {
            match tokio::task::spawn_blocking(move || fetch(&out, from.as_deref())).await {
                Ok(Ok(body)) => Ok((hand_on(&body, &tell).await.or_else(|| since.clone()), Ok(()))),
                Ok(Err(error)) => Ok((since.clone(), Err(error))),
                Err(error) => Err(error),
            }
        };
        let Ok((next, fetched)) = fetched else { return };
        since = next;
        match fetched {
            Ok(()) => pause = settings.poll,
            Err(error) => {
                warn!(%error, "replies cannot be fetched");
                pause = pause.saturating_mul(2).min(LONGEST_PAUSE).max(settings.poll);
            }
        }
        tokio::time::sleep(pause).await;
    }
}

fn fetch(outgoing: &Outgoing, since: Option<&str>) -> Result<Vec<u8>, ExchangeError> {
    let Some(from) = &outgoing.settings.replies else { return Ok(Vec::new()) };
    let separator = if from.uri.query().is_some() { '&' } else { '?' };
    let since = since.map(|since| format!("{separator}since={since}")).unwrap_or_default();
    let target = from.uri.path_and_query().map(|path| path.as_str()).unwrap_or("/");
    let headers = outgoing.headers(format!("{target}{since}").as_bytes());
    let (scheme, authority) = (from.uri.scheme_str().unwrap_or("https"), from.uri.authority());
    let authority = authority.map(|authority| authority.as_str()).unwrap_or_default();
    outgoing.client.get(&format!("{scheme}://{authority}{target}{since}"), &headers)
}

/// Of ntfy: line by line as they come, until nothing waits any more.
fn stream(
    outgoing: &Outgoing,
    mut since: Option<String>,
    tell: &mpsc::Sender<Reply>,
    waiting: &watch::Receiver<usize>,
) -> (Option<String>, Result<(), ExchangeError>) {
    let Some(topics) = &outgoing.settings.topics else { return (since, Ok(())) };
    let from = ntfy::stream(&outgoing.settings.url.uri, topics, since.as_deref().unwrap_or("all"));
    let headers = ntfy::headers(topics);
    let mut any = false;
    let result = outgoing.client.lines(&from, &headers, |line| {
        any = true;
        let is_open = match ntfy::heard(line) {
            Some(Heard::Reply(reply, next)) => {
                since = Some(next);
                tell.blocking_send(reply).is_ok()
            }
            Some(Heard::Nothing(next)) => {
                since = next.or(since.take());
                true
            }
            None => true,
        };
        is_open && *waiting.borrow() > 0
    });
    // A stream ends with the time that it has, which is no failure.
    let result = if any { Ok(()) } else { result };
    (since, result)
}
