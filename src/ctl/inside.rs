//! `gated-run` inside a session: a further call of the same session, asked for at its supervisor's socket there. Runs as the
//! tool, under everything that the tool is under; it can do nothing that any other process of the session could not.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::Arc;

use super::arguments::Arguments;
use super::caller::Environment;
use super::client::{Client, ClientError, Signals};
use super::clientlink;
use super::exit;
use super::order::{Directory, Order, OrderError, Passed};
use super::relay::SharedScreen;
use super::terminal;
use crate::common::bus::INSIDE_SOCKET;
use crate::common::wire::FromCaller;
use crate::tool::link::{Link, LinkError};

/// Why there is no exit status of the command's; one line for stderr.
#[derive(Debug, thiserror::Error)]
pub enum InsideError {
    #[error("this is inside a session, and its supervisor cannot be reached at {INSIDE_SOCKET}: {0}")]
    NoSupervisor(io::Error),
    #[error("the session's supervisor: {0}")]
    Link(#[from] LinkError),
    #[error(transparent)]
    Order(#[from] OrderError),
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("cannot start the runtime: {0}")]
    Runtime(io::Error),
}

/// Runs the command to its end.
pub fn run(arguments: Arguments) -> Result<ExitCode, InsideError> {
    let command: Vec<Vec<u8>> = arguments.command.into_iter().map(OsStringExt::into_vec).collect();
    let order = Order::new(&command, Environment::own().words(), &Directory::current()?, Passed::default())?;
    let socket = UnixStream::connect(INSIDE_SOCKET).map_err(InsideError::NoSupervisor)?;
    let link = Arc::new(Link::new(OwnedFd::from(socket)));
    link.send(&FromCaller::Start(Box::new(order.start.clone())), &order.files())?;
    let runtime = clientlink::runtime().map_err(InsideError::Runtime)?;
    let Order { start, terminal, .. } = order;
    let ended = runtime.block_on(async {
        let signals = Signals::listen(start.ignored_signals)?;
        Client::new(link, terminal, start.on_terminal, signals, SharedScreen::default())?.run().await
    });
    terminal::restore();
    Ok(exit::report(ended?, &command))
}
