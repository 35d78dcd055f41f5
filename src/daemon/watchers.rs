//! Who watches events over a pipe (`gatedctl watch`, `gated-run --events`). Runs as root in the daemon, on its one thread. A
//! reader that is slow loses lines and is told how many; it never holds anything up. Text of a tool is escaped already.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::{Rc, Weak};

use rustix::pipe::{PipeFlags, pipe_with};
use tokio::io::Interest;
use tokio::net::unix::pipe::Sender;
use tokio::sync::Notify;

use super::events::{BACKLOG, Event};
use super::record;
use crate::common::id::SessionId;

/// Watchers of one user at the most.
const MOST: usize = 128;

/// Bytes that wait for one of them at the most, besides the line that is too much.
const MOST_BYTES: usize = 256 << 10;

/// What somebody watches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sight {
    Session(SessionId),
    /// All sessions of a user.
    Of(u32),
    All,
}

struct Watcher {
    sight: Sight,
    /// The user who reads.
    uid: u32,
    backlog: RefCell<VecDeque<Rc<[u8]>>>,
    /// Of the backlog.
    bytes: std::cell::Cell<usize>,
    dropped: std::cell::Cell<u64>,
    more: Notify,
}

/// All watchers. To be used within a `LocalSet`.
#[derive(Default)]
pub struct Watchers(RefCell<Vec<Weak<Watcher>>>);

impl Watchers {
    /// A new watcher for this user: the read end of its pipe.
    pub fn add(&self, sight: Sight, uid: u32) -> io::Result<OwnedFd> {
        let mut all = self.0.borrow_mut();
        all.retain(|watcher| watcher.strong_count() > 0);
        let own = all.iter().filter_map(Weak::upgrade).filter(|watcher| watcher.uid == uid).count();
        if own >= MOST {
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
        // The reader's end stays blocking: the two ends are different open files.
        rustix::io::ioctl_fionbio(&write, true)?;
        let pipe = Sender::from_owned_fd(write)?;
        let watcher = Rc::new(Watcher {
            sight,
            uid,
            backlog: RefCell::default(),
            bytes: std::cell::Cell::new(0),
            dropped: std::cell::Cell::new(0),
            more: Notify::new(),
        });
        all.push(Rc::downgrade(&watcher));
        tokio::task::spawn_local(async move {
            // The reader is gone (EPIPE): so is the watcher.
            let _ended = carry(&watcher, &pipe).await;
        });
        Ok(read)
    }

    /// Tell everybody who watches this session, whose user is `owner`.
    pub fn tell(&self, session: &SessionId, owner: u32, event: &Event) {
        let all = self.0.borrow();
        let mut line: Option<Rc<[u8]>> = None;
        for watcher in all.iter().filter_map(Weak::upgrade) {
            let sees = match &watcher.sight {
                Sight::Session(one) => one == session,
                Sight::Of(user) => *user == owner,
                Sight::All => true,
            };
            if !sees {
                continue;
            }
            let line = line.get_or_insert_with(|| {
                let mut bytes = serde_json::to_vec(event).unwrap_or_default();
                bytes.push(b'\n');
                bytes.into()
            });
            let mut backlog = watcher.backlog.borrow_mut();
            if backlog.len() < BACKLOG && watcher.bytes.get() < MOST_BYTES {
                watcher.bytes.set(watcher.bytes.get().saturating_add(line.len()));
                backlog.push_back(Rc::clone(line));
            } else {
                watcher.dropped.set(watcher.dropped.get().saturating_add(1));
            }
            watcher.more.notify_one();
        }
    }

    /// The session is over: whoever watched it alone reads the end.
    pub fn end(&self, session: &SessionId) {
        let is_over = |watcher: &Weak<Watcher>| {
            watcher.upgrade().is_some_and(|watcher| watcher.sight == Sight::Session(session.clone()))
        };
        let mut all = self.0.borrow_mut();
        for watcher in all.extract_if(.., |watcher| is_over(watcher)).filter_map(|watcher| watcher.upgrade()) {
            watcher.backlog.borrow_mut().push_back(Rc::from([]));
            watcher.more.notify_one();
        }
    }
}

/// Until the reader is gone, or an empty line says that there is no more.
async fn carry(watcher: &Watcher, pipe: &Sender) -> io::Result<()> {
    loop {
        let untold = watcher.dropped.replace(0);
        if untold > 0 {
            let line = format!("{{\"time\":\"{}\",\"event\":\"dropped\",\"count\":{untold}}}\n", record::now());
            write_all(pipe, line.as_bytes()).await?;
        }
        let line = watcher.backlog.borrow_mut().pop_front();
        match line {
            Some(line) if line.is_empty() => return Ok(()),
            Some(line) => {
                watcher.bytes.set(watcher.bytes.get().saturating_sub(line.len()));
                write_all(pipe, &line).await?;
            }
            None => tokio::select! {
                () = watcher.more.notified() => {}
                gone = reader_is_gone(pipe) => return gone,
            },
        }
    }
}

/// A pipe without a reader is in an error state (poll(2)).
async fn reader_is_gone(pipe: &Sender) -> io::Result<()> {
    pipe.ready(Interest::ERROR).await?;
    Err(io::ErrorKind::BrokenPipe.into())
}

async fn write_all(pipe: &Sender, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        pipe.writable().await?;
        match pipe.try_write(bytes) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            written => bytes = bytes.get(written?..).unwrap_or_default(),
        }
    }
    Ok(())
}
