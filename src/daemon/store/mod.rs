//! The answers that outlive their sessions: one SQLite file in the daemon's state directory, and the same in memory. Runs as
//! root in the daemon; the file is root's alone, and what is read from it is checked all the same.
//!
//! A grant is on disk before anybody acts on it. What is revoked does not hold from that moment on, whether the disk takes it
//! or not. A file that is damaged, or that others may have written, is set aside and an empty one begun: nothing is allowed by
//! what may be wrong.

mod file;
mod holders;
mod rows;
mod tally;
mod thing;

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::Notify;
use tracing::{error, warn};

use super::core::now_micros;
use super::message;
use crate::common::decision::Effect;
use crate::common::id::GrantId;
use crate::common::moment::wall_now;
use crate::policy::Grant;

pub use file::SetAside;
use holders::Holders;
pub use rows::{Revoked, Row, of_another_boot};
pub use tally::{Answered, Count, Tally};
pub use thing::Thing;

/// The file's name in the state directory.
pub const FILE: &str = "grants.sqlite";

/// Grants of one user under one profile at the most.
pub const MOST_OF_A_HOLDER: usize = 4096;

/// Grants of one user at the most, under whatever profiles: a profile may be any file.
pub const MOST_OF_A_USER: usize = 8192;
/// Grants of one user that hold no more, and that can be looked at.
pub const MOST_REVOKED: usize = 1024;

/// Between a use, or an answer, and its place on the disk. Nothing depends on either.
const LATER: Duration = Duration::from_secs(1);
/// How often the time is written down while a grant depends on the clock on the wall.
const CLOCK: Duration = Duration::from_secs(60);

/// Whose an answer is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Holder {
    pub uid: u32,
    /// The name of a profile, or the path of a file that was named as one.
    pub profile: String,
}

/// A grant that outlives its session, and what is known of it besides.
#[derive(Debug)]
pub struct Stored {
    /// Its time is [`Stored::grant`]'s to say.
    grant: Grant,
    pub holder: Holder,
    /// The name of the holder's user when it was given.
    pub user: String,
    /// Microseconds of CLOCK_REALTIME.
    pub given: u64,
    /// Whether its end on the clock since boot is one of this boot.
    is_of_this_boot: bool,
    pub uses: Cell<u64>,
    /// Microseconds of CLOCK_REALTIME.
    pub last_used: Cell<Option<u64>>,
    /// The process tells the disk of its uses.
    is_counted: Cell<bool>,
}

impl Stored {
    /// A grant from now on.
    pub fn new(grant: Grant, holder: Holder, user: String) -> Stored {
        Stored {
            grant,
            holder,
            user,
            given: now_micros(),
            is_of_this_boot: true,
            uses: Cell::new(0),
            last_used: Cell::new(None),
            is_counted: Cell::new(true),
        }
    }

    pub fn id(&self) -> GrantId {
        self.grant.id
    }

    /// As a session is to have it.
    pub fn grant(&self) -> Grant {
        let until = self.grant.until.map(|until| match self.is_of_this_boot {
            true => until,
            false => crate::common::moment::Expiry::at_wall(until.wall),
        });
        Grant { until, ..self.grant.clone() }
    }

    /// What does not change.
    pub fn terms(&self) -> &Grant {
        &self.grant
    }
}

/// Why the store cannot do something.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: std::io::Error },
    #[error("{}: {source}", path.display())]
    Open { path: PathBuf, source: rusqlite::Error },
    #[error(
        "{} was written by a later gated (version {found}; this one knows {}); install that one again, or move the file away, \
         with which all lasting answers are gone",
        path.display(),
        file::VERSION
    )]
    Newer { path: PathBuf, found: i64 },
    #[error("the answer cannot be stored: {0}")]
    Write(#[from] rusqlite::Error),
    #[error("the answer cannot be put into words: {0}")]
    Words(#[from] serde_json::Error),
    #[error(
        "there are {MOST_OF_A_HOLDER} lasting answers for this user and profile already, or {MOST_OF_A_USER} for this user; \
         revoke some"
    )]
    Full,
    #[error("the daemon is ending")]
    Ending,
}

/// See the module.
pub struct Store {
    path: PathBuf,
    disk: Arc<Mutex<Connection>>,
    /// One writer at a time, in the order in which they came.
    turn: tokio::sync::Mutex<()>,
    holders: RefCell<Holders>,
    tally: RefCell<Tally>,
    /// The latest second of CLOCK_REALTIME that was seen here, ever.
    last_seen: Cell<u64>,
    changed: Notify,
    set_aside: Option<SetAside>,
}

impl Store {
    /// Opens the file in this directory, or makes one. Blocks.
    pub fn open(directory: &Path) -> Result<Store, StoreError> {
        let opened = file::open(directory)?;
        if let Some(SetAside { to, why }) = &opened.set_aside {
            error!(
                MESSAGE_ID = message::STORE_SET_ASIDE,
                GATED_FILE = %to.display(),
                GATED_ERROR = why,
                "the stored answers cannot be trusted; they are set aside, and none of them holds"
            );
        }
        let file::Contents { rows, answers, last_seen } = opened.contents;
        let mut holders = Holders::default();
        rows.into_iter().for_each(|stored| holders.enter(Rc::new(stored)));
        let store = Store {
            path: directory.join(FILE),
            disk: Arc::new(Mutex::new(opened.connection)),
            turn: tokio::sync::Mutex::default(),
            holders: RefCell::new(holders),
            tally: RefCell::new(Tally::from_rows(answers)),
            last_seen: Cell::new(last_seen),
            changed: Notify::new(),
            set_aside: opened.set_aside,
        };
        if store.is_clock_back() {
            warn!(
                "the clock is behind what it once was; what was allowed until a time does not hold until it is right"
            );
        }
        Ok(store)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What became of the file that was there before.
    pub fn set_aside(&self) -> Option<&SetAside> {
        self.set_aside.as_ref()
    }

    /// Whether the clock on the wall shows a time that was over once: nobody knows then what is over.
    fn is_clock_back(&self) -> bool {
        let (now, seen) = (wall_now(), self.last_seen.get());
        self.last_seen.set(seen.max(now));
        now < seen
    }

    /// Everything that may hold for this user under this profile; the sessions themselves see to its end.
    pub fn live(&self, holder: &Holder) -> Vec<Rc<Stored>> {
        let is_back = self.is_clock_back();
        let holds = |stored: &Rc<Stored>| {
            let depends = stored.grant.until.is_some() && !stored.is_of_this_boot;
            let is_known = !(depends && is_back && stored.grant.effect == Effect::Allow);
            is_known && !stored.grant().is_over()
        };
        self.holders.borrow().of(holder).filter(|stored| holds(stored)).cloned().collect()
    }

    /// All of them, over or not.
    pub fn all(&self) -> Vec<Rc<Stored>> {
        self.holders.borrow().all().cloned().collect()
    }

    pub fn get(&self, id: GrantId) -> Option<Rc<Stored>> {
        self.holders.borrow().get(id).cloned()
    }

    /// Puts grants on the disk, all or none, and only then into force. An equal one that is there already stands for a new
    /// one.
    pub async fn add(&self, new: Vec<Stored>) -> Result<Vec<Rc<Stored>>, StoreError> {
        let _turn = self.turn.lock().await;
        let mut kept: Vec<Rc<Stored>> = Vec::with_capacity(new.len());
        let (mut fresh, mut rows, mut over) = (Vec::new(), Vec::new(), Vec::new());
        for stored in new {
            let known = {
                let holders = self.holders.borrow();
                let alike = |own: &&Rc<Stored>| {
                    own.grant.object == stored.grant.object
                        && own.holder == stored.holder
                        && own.grant().equals(&stored.grant)
                        && !own.grant().is_over()
                };
                holders.of(&stored.holder).chain(&fresh).find(alike).cloned()
            };
            let stored = match known {
                Some(known) => known,
                None => {
                    over.extend(self.make_room(&stored.holder, &fresh)?);
                    rows.push(rows::Record::of(&stored)?);
                    let stored = Rc::new(stored);
                    fresh.push(Rc::clone(&stored));
                    stored
                }
            };
            kept.push(stored);
        }
        if !rows.is_empty() {
            let now = wall_now();
            self.on_disk(move |disk| {
                let transaction = disk.transaction()?;
                for id in over {
                    rows::delete(&transaction, id)?;
                }
                for row in &rows {
                    rows::insert(&transaction, row)?;
                }
                file::saw(&transaction, now)?;
                transaction.commit()
            })
            .await?;
        }
        let mut holders = self.holders.borrow_mut();
        fresh.into_iter().for_each(|stored| holders.enter(stored));
        drop(holders);
        self.changed.notify_one();
        Ok(kept)
    }

    /// Room for one more besides these; what is over makes room, and is to be deleted.
    fn make_room(&self, holder: &Holder, fresh: &[Rc<Stored>]) -> Result<Vec<GrantId>, StoreError> {
        let is_full = |holders: &Holders| {
            let own = fresh.iter().filter(|own| own.holder == *holder).count();
            let of_user = fresh.iter().filter(|own| own.holder.uid == holder.uid).count();
            holders.count(holder).saturating_add(own) >= MOST_OF_A_HOLDER
                || holders.count_of_user(holder.uid).saturating_add(of_user) >= MOST_OF_A_USER
        };
        if !is_full(&self.holders.borrow()) {
            return Ok(Vec::new());
        }
        let over = self.holders.borrow_mut().drop_over(holder.uid);
        if is_full(&self.holders.borrow()) { Err(StoreError::Full) } else { Ok(over) }
    }

    /// These hold no more, from now on; an error says that the disk does not know it, and that they may be back with the next
    /// daemon.
    pub async fn revoke(&self, ids: &[GrantId], by: &str) -> Result<(), StoreError> {
        let mut gone = Vec::new();
        for id in ids {
            gone.extend(self.holders.borrow_mut().remove(*id));
        }
        let uids: BTreeSet<u32> = gone.iter().map(|stored| stored.holder.uid).collect();
        let mut rows = Vec::with_capacity(gone.len());
        for stored in &gone {
            let revoked = Revoked { at: now_micros(), by: by.to_owned() };
            rows.push(rows::Record::of(stored)?.revoked(revoked));
        }
        let _turn = self.turn.lock().await;
        self.on_disk(move |disk| {
            let transaction = disk.transaction()?;
            rows.iter().try_for_each(|row| rows::update(&transaction, row))?;
            uids.iter().try_for_each(|uid| rows::delete_oldest(&transaction, *uid, MOST_REVOKED))?;
            transaction.commit()
        })
        .await
    }

    /// Nothing of it is left, and nothing of how often its holder answered what it was about.
    pub async fn forget(&self, row: &Row) -> Result<(), StoreError> {
        self.holders.borrow_mut().remove(row.id());
        let things = self.tally.borrow_mut().forget(&row.stored.holder, &row.stored.grant);
        let _turn = self.turn.lock().await;
        let (id, holder) = (row.id(), row.stored.holder.clone());
        self.on_disk(move |disk| {
            let transaction = disk.transaction()?;
            rows::delete(&transaction, id)?;
            tally::delete(&transaction, &holder, &things)?;
            transaction.commit()?;
            Ok(())
        })
        .await
    }

    /// Rows as they are on the disk, those that hold no more included: of one user, or of all.
    pub async fn rows(&self, uid: Option<u32>) -> Result<Vec<Row>, StoreError> {
        self.write_uses().await?;
        let _turn = self.turn.lock().await;
        self.on_disk(move |disk| rows::select(disk, uid)).await.map(|(rows, broken)| {
            if broken > 0 {
                warn!(broken, "stored answers that cannot be read are not shown");
            }
            rows
        })
    }

    /// One of them, of whoever it is.
    pub async fn row(&self, id: GrantId) -> Result<Option<Row>, StoreError> {
        self.write_uses().await?;
        let _turn = self.turn.lock().await;
        self.on_disk(move |disk| rows::select_one(disk, id)).await
    }

    /// A grant decided. Where it has its place on the disk can wait.
    pub fn used(&self, id: GrantId) {
        if let Some(stored) = self.holders.borrow().get(id) {
            stored.uses.set(stored.uses.get().saturating_add(1));
            stored.last_used.set(Some(now_micros()));
            stored.is_counted.set(false);
            self.changed.notify_one();
        }
    }

    /// Somebody answered.
    pub fn answered(&self, holder: &Holder, answered: Answered) {
        self.tally.borrow_mut().count(holder, answered);
        self.changed.notify_one();
    }

    pub fn tally(&self) -> std::cell::Ref<'_, Tally> {
        self.tally.borrow()
    }

    /// Writes what can wait, until the process ends.
    pub async fn attend(&self) {
        let mut clock = tokio::time::interval(CLOCK);
        loop {
            tokio::select! {
                () = self.changed.notified() => tokio::time::sleep(LATER).await,
                _ = clock.tick() => {
                    if !self.holders.borrow().all().any(|stored| stored.grant.until.is_some()) {
                        continue;
                    }
                }
            }
            if let Err(error) = self.write_uses().await {
                warn!(%error, "uses and answers are not counted on the disk");
            }
        }
    }

    /// What waits to be counted.
    pub async fn write_uses(&self) -> Result<(), StoreError> {
        let _turn = self.turn.lock().await;
        let uncounted: Vec<Rc<Stored>> =
            self.holders.borrow().all().filter(|stored| !stored.is_counted.get()).cloned().collect();
        let uses: Vec<(GrantId, u64, Option<u64>)> =
            uncounted.iter().map(|stored| (stored.id(), stored.uses.get(), stored.last_used.get())).collect();
        let changes = self.tally.borrow_mut().take_changes();
        self.is_clock_back();
        let now = self.last_seen.get();
        self.on_disk(move |disk| {
            let transaction = disk.transaction()?;
            uses.iter().try_for_each(|(id, uses, last)| rows::count(&transaction, *id, *uses, *last))?;
            tally::write(&transaction, &changes)?;
            file::saw(&transaction, now)?;
            transaction.commit()
        })
        .await?;
        for ((_, written, _), stored) in uncounted.iter().map(|own| (own.id(), own.uses.get(), ())).zip(&uncounted) {
            stored.is_counted.set(stored.uses.get() == written);
        }
        Ok(())
    }

    /// Beside the daemon's own thread: a disk takes its time.
    async fn on_disk<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let disk = Arc::clone(&self.disk);
        let work = move || job(&mut disk.lock().unwrap_or_else(PoisonError::into_inner));
        let done = tokio::task::spawn_blocking(work).await.map_err(|_| StoreError::Ending)?;
        Ok(done?)
    }
}
