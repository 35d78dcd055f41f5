//! The client of one call: the caller's terminal and signals on one side, the call's caller link on the other, wherever that
//! comes from. Runs as the invoking user; what it reads is the caller's own, and what the session's supervisor sends.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg, raise};
use nix::unistd::getpgrp;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tracing::debug;

use super::clientlink;
use super::relay::{Relay, SharedScreen};
use super::terminal::{self, CallersTerminal};
use crate::common::id::CallId;
use crate::common::wire::{Ended, FromCaller, ToCaller};
use crate::session::start::starts_in_background;
use crate::tool::link::{Link, Received};

/// The client's link to the call that it started.
pub type CallerLink = Link<FromCaller, ToCaller>;

/// Why there is no exit status of the command's.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The supervisor's own words.
    #[error("{0}")]
    Failed(String),
    /// The link closed before the command's end.
    #[error("the session was ended")]
    Gone,
    #[error("cannot {what}: {source}")]
    Step { what: &'static str, source: io::Error },
}

fn step(what: &'static str) -> impl FnOnce(io::Error) -> ClientError {
    move |source| ClientError::Step { what, source }
}

/// Signals that a caller sends to the command by sending them to gated-run.
const PASSED: [Signal; 6] =
    [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT, Signal::SIGUSR1, Signal::SIGUSR2];

/// How long a terminal may be silent after the command's end while something that it left behind still holds it.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// The client of one call.
pub struct Client {
    arrivals: mpsc::Receiver<Received<ToCaller>>,
    to_call: mpsc::Sender<FromCaller>,
    signals: mpsc::Receiver<Signal>,
    /// Until the call has a pty for it.
    terminal: Option<CallersTerminal>,
    relay: Option<Relay>,
    screen: SharedScreen,
    /// Whether the terminal's keys are to be the call's when the terminal is ours.
    wants_keys: bool,
    /// Whether the terminal is to be taken once a prompt gives it back.
    takes_later: bool,
    call: Rc<Cell<Option<CallId>>>,
    ended: Option<Ended>,
    failure: Option<String>,
}

impl Client {
    /// Of the call whose caller link this is. `on_terminal` is that of its [`crate::common::wire::Start`]. Needs a tokio runtime whose other threads take no signals.
    pub fn new(
        link: Arc<CallerLink>,
        terminal: Option<CallersTerminal>,
        on_terminal: [bool; 3],
        signals: Signals,
        screen: SharedScreen,
    ) -> Result<Client, ClientError> {
        let (arrivals, to_call) = clientlink::serve(link).map_err(step("start threads"))?;
        let Signals(signals) = signals;
        let wants_keys = on_terminal.contains(&true) && !starts_in_background(on_terminal);
        let (call, ended, failure) = (Rc::default(), None, None);
        let (relay, takes_later) = (None, false);
        Ok(Client {
            arrivals,
            to_call,
            signals,
            terminal,
            relay,
            screen,
            wants_keys,
            takes_later,
            call,
            ended,
            failure,
        })
    }

    /// The call's number, once it is started.
    pub fn call(&self) -> Rc<Cell<Option<CallId>>> {
        Rc::clone(&self.call)
    }

    /// Until the command has ended and everything it wrote to the terminal is shown. If this is dropped before, the call is killed.
    pub async fn run(mut self) -> Result<Ended, ClientError> {
        let mut is_linked = true;
        while is_linked || self.relay.as_ref().is_some_and(|relay| !relay.is_over()) {
            tokio::select! {
                arrived = self.arrivals.recv(), if is_linked => match arrived {
                    None => is_linked = false,
                    Some(received) => self.take(received).await?,
                },
                Some(signal) = self.signals.recv() => self.pass(signal).await,
                turned = turn(self.relay.as_ref()) => turned.map_err(step("relay the terminal"))?,
                () = self.screen.resumed(), if self.takes_later => self.take_terminal()?,
                () = tokio::time::sleep(LAST_WORDS), if !is_linked && !self.is_paused() => break,
            }
        }
        match (self.ended, self.failure) {
            (Some(ended), _) => Ok(ended),
            (None, Some(failure)) => Err(ClientError::Failed(failure)),
            (None, None) => Err(ClientError::Gone),
        }
    }

    async fn take(&mut self, received: Received<ToCaller>) -> Result<(), ClientError> {
        match received.message {
            ToCaller::Started { call } => {
                debug!(%call, "started");
                self.call.set(Some(call));
                if let (Some(terminal), Some(master)) = (self.terminal.take(), received.fds.into_iter().next()) {
                    let relay = Relay::new(terminal, master).map_err(step("use the session's terminal"))?;
                    self.screen.set(&relay);
                    self.relay = Some(relay);
                    self.take_terminal()?;
                }
            }
            ToCaller::Failed(text) => self.failure = Some(text),
            ToCaller::Stopped(number) => self.stop_with_the_command(number).await?,
            ToCaller::Ended(ended) => self.ended = Some(ended),
        }
        Ok(())
    }

    fn is_paused(&self) -> bool {
        self.relay.as_ref().is_some_and(Relay::is_paused)
    }

    /// Raw mode and the keys, if the session wants them and the terminal is ours to give; after a prompt that is shown.
    fn take_terminal(&mut self) -> Result<(), ClientError> {
        self.takes_later = self.is_paused();
        if let Some(relay) = self.relay.as_ref().filter(|relay| !relay.is_paused()) {
            let ours = self.wants_keys && relay.terminal().is_ours();
            if ours {
                relay.terminal().make_raw().map_err(step("make the terminal raw"))?;
                relay.copy_window();
            }
            relay.set_reading(ours);
        }
        Ok(())
    }

    fn release_terminal(&mut self) {
        self.takes_later = false;
        if let Some(relay) = &self.relay {
            relay.set_reading(false);
        }
        terminal::restore();
    }

    /// The command was stopped: stop as it did, so that the caller's shell sees it, and let it run on when we do.
    /// Without a terminal nobody waits for that, and whoever stopped it may continue it.
    async fn stop_with_the_command(&mut self, number: i32) -> Result<(), ClientError> {
        if self.relay.is_none() {
            return Ok(());
        }
        let signal = Signal::try_from(number).unwrap_or(Signal::SIGSTOP);
        let wants_terminal = matches!(signal, Signal::SIGTTIN | Signal::SIGTTOU);
        let may_have_it = self.relay.as_ref().is_some_and(|relay| relay.terminal().is_ours());
        if wants_terminal && may_have_it {
            self.wants_keys = true;
        } else {
            self.release_terminal();
            // What ^Z would have done had the terminal been ours alone: the whole job stops. This thread is the only one that
            // takes signals, so it has been continued when this returns. In an orphaned group the kernel ignores it.
            let stopped = if signal != Signal::SIGSTOP { killpg(getpgrp(), signal) } else { raise(Signal::SIGSTOP) };
            stopped.map_err(|errno| step("stop")(errno.into()))?;
        }
        self.take_terminal()?;
        self.send(FromCaller::Continue).await;
        Ok(())
    }

    async fn pass(&mut self, signal: Signal) {
        match signal {
            Signal::SIGWINCH => {
                if let Some(relay) = &self.relay {
                    relay.copy_window();
                }
            }
            // In the foreground again, perhaps for the first time. A terminal that is gone says so when it is read.
            Signal::SIGCONT => drop(self.take_terminal()),
            other => self.send(FromCaller::Signal(other as i32)).await,
        }
    }

    /// A supervisor that is gone needs no message; its end is seen elsewhere.
    async fn send(&self, message: FromCaller) {
        let _ = self.to_call.send(message).await;
    }
}

async fn turn(relay: Option<&Relay>) -> io::Result<()> {
    match relay {
        Some(relay) if !relay.is_over() => relay.turn().await,
        _ => std::future::pending().await,
    }
}

/// Signals that came, and are to be passed on. From when this is made on none of them ends this process: what is told to a
/// command may come as soon as there is one.
pub struct Signals(mpsc::Receiver<Signal>);

impl Signals {
    /// Those that gated-run handles, but for what its caller had it ignore, a bit mask. Needs a tokio runtime whose other
    /// threads take no signals.
    pub fn listen(ignored: u64) -> Result<Signals, ClientError> {
        listen_to_signals(ignored).map(Signals).map_err(step("listen to signals"))
    }

    /// One that ends what there is no command for yet.
    pub async fn ends(&mut self) -> Signal {
        loop {
            match self.0.recv().await {
                Some(signal @ (Signal::SIGINT | Signal::SIGTERM | Signal::SIGHUP | Signal::SIGQUIT)) => return signal,
                Some(_) => {}
                None => std::future::pending::<()>().await,
            }
        }
    }
}

fn listen_to_signals(ignored: u64) -> io::Result<mpsc::Receiver<Signal>> {
    let (arrived, arrivals) = mpsc::channel(16);
    for number in PASSED.into_iter().chain([Signal::SIGWINCH, Signal::SIGCONT]) {
        if ignored >> (number as u32 - 1) & 1 == 1 {
            continue;
        }
        let mut stream = signal(SignalKind::from_raw(number as i32))?;
        let arrived = arrived.clone();
        tokio::spawn(async move { while stream.recv().await.is_some() && arrived.send(number).await.is_ok() {} });
    }
    Ok(arrivals)
}
