//! The screen on a terminal: keys and news in, effects and frames out. Runs as the caller, who sits there. The terminal is put
//! back on every way out: by leaving, by a signal, by ^Z, by a panic ([`crate::consent::terminal::tty`]).

use std::cell::RefCell;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::pin::Pin;
use std::rc::Rc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use ratatui::backend::CrosstermBackend;
use ratatui::layout::Rect;
use ratatui::{Terminal, TerminalOptions, Viewport};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::feed::{Feed, News};
use super::keys::{Key, Keys};
use super::model::{Effect, Event, Model, Tab};
use super::records::Source;
use super::{rows, view};
use crate::common::details::answer_to_bus;
use crate::consent::terminal::tty::{Shown, Style, Tty};
use crate::ctl::control::daemon::{Daemon, Grant, Objects};
use crate::ctl::control::failure::Failure;
use crate::ctl::control::output::Output;
use crate::ctl::control::polkit::TextAgent;
use crate::ctl::proxies::Options;

/// Between two frames that no key asked for.
const FRAME: Duration = Duration::from_millis(33);
/// Keys that come closer together than this did not come alone.
const BURST: Duration = Duration::from_millis(25);
/// After an Escape, what belongs to it has come.
const ESCAPE: Duration = Duration::from_millis(50);

/// What a call to the daemon brought.
enum Done {
    Event(Event),
    Objects(Result<Objects, Failure>),
    Grants(Result<Vec<Grant>, Failure>),
}

type Jobs = FuturesUnordered<Pin<Box<dyn Future<Output = Done>>>>;

/// Where ratatui writes, for the terminal to be written to without blocking.
#[derive(Clone, Default)]
struct Sink(Rc<RefCell<Vec<u8>>>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The cells of a terminal of one size.
struct Canvas {
    terminal: Terminal<CrosstermBackend<Sink>>,
    sink: Sink,
    size: (u16, u16),
    colours: bool,
}

impl Canvas {
    fn new(size: (u16, u16), colours: bool) -> io::Result<Canvas> {
        let sink = Sink::default();
        let viewport = Viewport::Fixed(Rect::new(0, 0, size.0, size.1));
        let terminal = Terminal::with_options(CrosstermBackend::new(sink.clone()), TerminalOptions { viewport })?;
        Ok(Canvas { terminal, sink, size, colours })
    }

    /// What is to be written for this model; tells the model what will be seen.
    fn frame(&mut self, model: &mut Model, now: Instant) -> io::Result<String> {
        let mut drawn = None;
        let colours = self.colours;
        self.terminal.draw(|frame| drawn = view::draw(frame.buffer_mut(), model, now, colours))?;
        model.drawn(drawn, now);
        String::from_utf8(std::mem::take(&mut *self.sink.0.borrow_mut())).map_err(io::Error::other)
    }
}

struct Signals {
    ends: [Signal; 3],
    window: Signal,
    stop: Signal,
    goes_on: Signal,
}

/// What a signal wants.
enum Wanted {
    End,
    Size,
    Stop,
    Anew,
}

impl Signals {
    fn new() -> io::Result<Signals> {
        Ok(Signals {
            ends: [signal(SignalKind::terminate())?, signal(SignalKind::hangup())?, signal(SignalKind::interrupt())?],
            window: signal(SignalKind::window_change())?,
            stop: signal(SignalKind::from_raw(libc::SIGTSTP))?,
            goes_on: signal(SignalKind::from_raw(libc::SIGCONT))?,
        })
    }

    async fn next(&mut self) -> Wanted {
        let [terminate, hangup, interrupt] = &mut self.ends;
        tokio::select! {
            biased;
            _ = terminate.recv() => Wanted::End,
            _ = hangup.recv() => Wanted::End,
            _ = interrupt.recv() => Wanted::End,
            _ = self.stop.recv() => Wanted::Stop,
            _ = self.goes_on.recv() => Wanted::Anew,
            _ = self.window.recv() => Wanted::Size,
        }
    }
}

/// How a turn at the terminal ends.
enum Turn {
    Leave,
    /// The terminal is given back for a while: to the shell.
    Suspend,
    /// The same, to polkit's agent, while this is decided.
    Prove(Effect),
}

/// See the module.
pub struct Driver {
    output: Output,
    daemon: Rc<Daemon>,
    feed: Feed,
    model: Model,
    records: Source,
    jobs: Jobs,
    /// Whether everything was asked for and has not come yet.
    is_fetching: bool,
    signals: Signals,
    colours: bool,
}

impl Driver {
    pub async fn new(output: Output, log: PathBuf, colours: bool) -> Result<Driver, Failure> {
        let daemon = Rc::new(Daemon::connect().await?);
        // Starts it, where it can be; without it there is nothing to look at.
        daemon.manager.version().await?;
        let feed = Feed::start(&daemon.connection).await?;
        let mut model = Model::new(nix::unistd::getuid().as_raw());
        model.has_daemon = feed.has_daemon();
        Ok(Driver {
            output,
            daemon,
            feed,
            model,
            records: Source::new(log),
            jobs: FuturesUnordered::new(),
            is_fetching: false,
            signals: Signals::new()?,
            colours,
        })
    }

    /// Until somebody leaves. `tty` is a description of its own, prepared.
    pub async fn run(&mut self, tty: &OwnedFd) -> Result<(), Failure> {
        loop {
            let turn = {
                let tty = Tty::new(tty, BURST)?;
                let shown = tty.show(Style::Alone)?;
                self.turn(&tty, &shown).await?
            };
            match turn {
                Turn::Leave => return Ok(()),
                Turn::Suspend => {
                    // As the kernel would; the shell brings it back with SIGCONT.
                    nix::sys::signal::raise(nix::sys::signal::Signal::SIGSTOP).map_err(io::Error::from)?;
                }
                Turn::Prove(effect) => {
                    if !self.prove(effect).await? {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// At the terminal, until it is given back.
    async fn turn(&mut self, tty: &Tty<'_>, shown: &Shown<'_>) -> Result<Turn, Failure> {
        let size = |tty: &Tty<'_>| (tty.size().columns, tty.size().rows);
        let mut canvas = Canvas::new(size(tty), self.colours)?;
        let mut keys = Keys::default();
        let (mut last_key, mut last_frame) = (None::<Instant>, None::<Instant>);
        let (mut is_stale, mut is_anew) = (true, false);
        let mut second = tokio::time::interval(Duration::from_secs(1));
        second.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            if is_anew || canvas.size != size(tty) {
                canvas = Canvas::new(size(tty), self.colours)?;
                (is_stale, is_anew) = (true, false);
                last_frame = None;
                tokio::select! {
                    biased;
                    Wanted::End = self.signals.next() => return Ok(Turn::Leave),
                    drawn = shown.draw("\x1b[0m\x1b[2J") => drawn?,
                    else => {}
                }
            }
            let now = Instant::now();
            let wait = last_frame.map(|last| FRAME.saturating_sub(now.saturating_duration_since(last)));
            if is_stale && wait.is_none_or(|wait| wait.is_zero()) {
                let text = canvas.frame(&mut self.model, now)?;
                let mut drawing = std::pin::pin!(shown.draw(&text));
                loop {
                    tokio::select! {
                        biased;
                        wanted = self.signals.next() => match wanted {
                            Wanted::End => return Ok(Turn::Leave),
                            Wanted::Stop => return Ok(Turn::Suspend),
                            Wanted::Anew | Wanted::Size => is_anew = true,
                        },
                        drawn = &mut drawing => break drawn?,
                    }
                }
                // Seen from now on, however long it took.
                self.model.shown(Instant::now());
                (is_stale, last_frame) = (false, Some(Instant::now()));
                continue;
            }
            let events: Vec<Event> = tokio::select! {
                biased;
                wanted = self.signals.next() => {
                    match wanted {
                        Wanted::End => return Ok(Turn::Leave),
                        Wanted::Stop => return Ok(Turn::Suspend),
                        Wanted::Anew | Wanted::Size => is_anew = true,
                    }
                    continue;
                }
                read = shown.keys() => {
                    let typed = keys.read(&read?);
                    let now = Instant::now();
                    let is_late = last_key.is_none_or(|last| now.saturating_duration_since(last) >= BURST);
                    last_key = Some(now);
                    let alone = typed.len() == 1 && is_late;
                    // At once, so that keys are not slower than frames.
                    last_frame = None;
                    typed.into_iter().map(|key| Event::Key { key, alone }).collect()
                }
                () = tokio::time::sleep(ESCAPE), if keys.is_within() => {
                    keys.pause().into_iter().map(|key: Key| Event::Key { key, alone: true }).collect()
                }
                () = tokio::time::sleep(wait.unwrap_or_default()), if is_stale => Vec::new(),
                event = news(&mut self.feed, &mut self.jobs, &mut self.records) => match self.take(event) {
                    Some(events) => events,
                    None => return Err(Failure::NoDaemon("the bus is gone".into())),
                },
                _ = second.tick() => {
                    is_stale = true;
                    Vec::new()
                }
            };
            for event in events {
                is_stale = true;
                for effect in self.model.event(event, Instant::now()) {
                    match self.perform(effect).await {
                        None => {}
                        Some(Ask::Redraw) => is_anew = true,
                        Some(Ask::End(turn)) => return Ok(turn),
                    }
                }
            }
        }
    }

    /// `None` when nothing comes any more.
    fn take(&mut self, event: Next) -> Option<Vec<Event>> {
        Some(match event {
            Next::News(News::End) => return None,
            Next::News(News::Stale) => {
                self.fetch(self.model.tab);
                Vec::new()
            }
            Next::News(News::Event(event)) => {
                if let Event::Daemon(_) = event {
                    self.records.forget_live();
                    self.is_fetching = false;
                }
                vec![event]
            }
            Next::Records(entries) => vec![Event::Records(entries)],
            Next::Done(Done::Event(event)) => {
                if let Event::Answered { key, failure: None } = &event {
                    self.feed.answered(key);
                }
                vec![event]
            }
            Next::Done(Done::Objects(objects)) => {
                self.is_fetching = false;
                // One that fails is asked again soon; that there is no daemon is known otherwise.
                let Ok(mut objects) = objects else { return Some(Vec::new()) };
                let sessions = std::mem::take(&mut objects.sessions);
                let sessions = sessions.into_iter().map(|session| rows::session(&self.output, session)).collect();
                vec![Event::Queue(self.feed.all(objects)), Event::Sessions(sessions)]
            }
            Next::Done(Done::Grants(grants)) => match grants {
                Ok(grants) => {
                    vec![Event::Grants(grants.into_iter().map(|grant| rows::grant(&self.output, grant)).collect())]
                }
                Err(_) => Vec::new(),
            },
        })
    }

    /// Everything is asked for, and what this tab shows besides.
    fn fetch(&mut self, tab: Tab) {
        if !self.feed.has_daemon() {
            return;
        }
        if !self.is_fetching {
            self.is_fetching = true;
            self.feed.asking();
            let daemon = Rc::clone(&self.daemon);
            self.jobs.push(Box::pin(async move { Done::Objects(daemon.all_objects().await) }));
        }
        if tab == Tab::Grants {
            let daemon = Rc::clone(&self.daemon);
            self.jobs.push(Box::pin(async move { Done::Grants(daemon.grants(None).await) }));
        }
    }

    async fn perform(&mut self, effect: Effect) -> Option<Ask> {
        match effect {
            Effect::Quit => return Some(Ask::End(Turn::Leave)),
            Effect::Suspend => return Some(Ask::End(Turn::Suspend)),
            Effect::Redraw => return Some(Ask::Redraw),
            Effect::Fetch(tab) => {
                self.fetch(tab);
                if tab == Tab::Audit
                    && let Some(event) = self.records.open(&self.daemon).await
                {
                    self.model.event(event, Instant::now());
                }
            }
            Effect::Decide { proves: true, .. }
            | Effect::Stop { proves: true, .. }
            | Effect::Revoke { proves: true, .. }
                if !nix::unistd::geteuid().is_root() =>
            {
                return Some(Ask::End(Turn::Prove(effect)));
            }
            effect => {
                let daemon = Rc::clone(&self.daemon);
                self.jobs.push(Box::pin(async move { Done::Event(carry_out(&daemon, effect).await) }));
            }
        }
        None
    }

    /// With the terminal left to polkit's agent. Whether to go on.
    async fn prove(&mut self, effect: Effect) -> Result<bool, Failure> {
        let about = match &effect {
            Effect::Decide { key, .. } => {
                self.model.queue.get(key).map(|asked| format!(": {} wants to {}", asked.who, asked.wish))
            }
            _ => None,
        };
        println!("gatedctl: this needs a proof of who you are{}", about.unwrap_or_default());
        let _agent = TextAgent::start_if(true);
        let daemon = Rc::clone(&self.daemon);
        self.jobs.push(Box::pin(async move { Done::Event(carry_out(&daemon, effect).await) }));
        loop {
            let next = tokio::select! {
                biased;
                wanted = self.signals.next() => match wanted {
                    Wanted::End => return Ok(false),
                    // polkit's agent has the terminal.
                    Wanted::Stop | Wanted::Anew | Wanted::Size => continue,
                },
                next = news(&mut self.feed, &mut self.jobs, &mut self.records) => next,
            };
            let is_done = matches!(next, Next::Done(Done::Event(_)));
            let Some(events) = self.take(next) else { return Err(Failure::NoDaemon("the bus is gone".into())) };
            for event in events {
                self.model.event(event, Instant::now());
            }
            if is_done {
                return Ok(true);
            }
        }
    }
}

/// What the terminal has to do for an effect.
enum Ask {
    Redraw,
    End(Turn),
}

enum Next {
    News(News),
    Done(Done),
    Records(Vec<super::entry::Entry>),
}

async fn news(feed: &mut Feed, jobs: &mut Jobs, records: &mut Source) -> Next {
    tokio::select! {
        biased;
        Some(done) = jobs.next(), if !jobs.is_empty() => Next::Done(done),
        news = feed.next() => Next::News(news),
        entries = records.next() => Next::Records(entries),
    }
}

async fn carry_out(daemon: &Daemon, effect: Effect) -> Event {
    match effect {
        Effect::Decide { key, answer, .. } => {
            let (decision, scope) = answer_to_bus(&answer);
            let decided = daemon.manager.decide(&key, decision, scope).await.map_err(Failure::from);
            let failure = decided.err().map(|failure| said(&failure));
            Event::Answered { key, failure }
        }
        Effect::Stop { session, .. } => Event::Told(match daemon.stop(&session).await {
            Ok(()) => format!("Stopped session {session}."),
            Err(failure) => said(&failure),
        }),
        Effect::Revoke { grant, .. } => {
            let revoked = daemon.manager.revoke_grant(&grant, Options::new()).await.map_err(Failure::from);
            Event::Told(match revoked {
                Ok(_) => "Taken back, from the next attempt on.".to_owned(),
                Err(failure) => said(&failure),
            })
        }
        Effect::Fetch(_) | Effect::Suspend | Effect::Redraw | Effect::Quit => Event::Told(String::new()),
    }
}

/// In one line.
fn said(failure: &Failure) -> String {
    let text = failure.to_string();
    let mut line = text.lines().next().unwrap_or_default().to_owned();
    if let Some(first) = line.get(..1) {
        let first = first.to_uppercase();
        line.replace_range(..1, &first);
    }
    line
}
