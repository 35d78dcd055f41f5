//! Reads that policy does not simply allow. The kernel holds each open in a region ([`crate::tool::regions`]) until the
//! supervisor has judged it, and nothing is performed for the tool: the very open goes on, or fails with `EPERM`.
//!
//! Set up as root while the session is built; from then on run as the user in the supervisor. The opens come from hostile
//! processes inside, and where a single inode is marked also from anybody outside, who is let pass at once.

mod event;
mod openers;
mod outside;
mod serve;
pub mod survey;

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{AtFlags, FileType, StatxFlags, fstat, stat, statx};

use self::openers::Openers;
use self::survey::Survey;
use crate::common::errno::Errno;
use crate::common::path::RawPath;
use crate::common::wire::Identity;
use crate::policy::decide::Policy;
use crate::session::calls::Call;
use crate::session::judge::Wanted;
use crate::session::resolve::path_of;
use crate::tool::fanotify::{Group, Reach};
use crate::tool::keeper::Keeper;
use crate::tool::privileges::PrivilegeError;
use crate::tool::regions::{self, HeldMount, MOUNT, Order, RegionError, Regions, mount_of, rebased};

pub use self::serve::{Court, HeldReads, serve};

/// Inodes that may have marks of their own; the change that would make one more fails.
const REMEMBERED_AT_MOST: usize = 65_536;
/// Names of one inode that are remembered, all of them guarded.
const NAMES_AT_MOST: usize = 8;

/// Reads cannot be held, but the profile needs it.
#[derive(Debug, thiserror::Error)]
pub enum ReadsError {
    #[error(
        "this kernel cannot hold reads (fanotify_init(2): {0}); it needs CONFIG_FANOTIFY_ACCESS_PERMISSIONS and CAP_SYS_ADMIN"
    )]
    Unsupported(io::Error),
    #[error("cannot start the keeper: {0}")]
    Keeper(io::Error),
    #[error("cannot take the user's file rights: {0}")]
    Privileges(#[from] PrivilegeError),
    #[error(transparent)]
    Regions(#[from] RegionError),
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
    #[error("cannot open /proc: {0}")]
    Proc(io::Error),
}

/// What holds the reads of one session.
pub struct Reads {
    group: Group,
    keeper: Keeper,
    regions: Regions,
    /// The outer `/proc`.
    procfs: OwnedFd,
    /// Directories in which guarded names may come to be from outside.
    watched: Vec<RawPath>,
    marked: Mutex<Marked>,
    openers: Openers,
}

/// Inodes with marks of their own.
#[derive(Default)]
struct Marked {
    /// The names at which they became guarded, by device and inode.
    names: HashMap<(u64, u64), Vec<RawPath>>,
    /// Directories in which something is being made, and by how many.
    making: HashMap<(u64, u64), usize>,
    /// Directories that are marked for good.
    directories: HashSet<(u64, u64)>,
}

/// Reads that are to be held, before the mount namespace is left: as root, with one thread.
pub struct Preparation {
    group: Group,
    keeper: Keeper,
    procfs: OwnedFd,
}

impl Preparation {
    pub fn new(user: &Identity, procfs: &OwnedFd) -> Result<Preparation, ReadsError> {
        let group = Group::new(procfs.try_clone().map_err(ReadsError::Proc)?).map_err(ReadsError::Unsupported)?;
        let keeper = Keeper::start(group.as_fd(), user).map_err(ReadsError::Keeper)?;
        Ok(Preparation { group, keeper, procfs: procfs.try_clone().map_err(ReadsError::Proc)? })
    }

    /// In the session's mount namespace, with all of its mounts but those of the inner pid namespace.
    pub fn build(self, policy: &Policy, user: &Identity, workspace: &RawPath) -> Result<(Reads, Survey), ReadsError> {
        let mut survey = survey::survey(policy, user, workspace)?;
        let order = Order {
            group: &self.group,
            user,
            workspace,
            everything: policy.profile().defaults.read > crate::common::access::Level::Allow,
            spots: std::mem::take(&mut survey.spots),
        };
        let regions = regions::build(order, self.procfs.as_fd())?;
        let Preparation { group, keeper, procfs } = self;
        let watched = std::mem::take(&mut survey.watched).into_iter().collect();
        Ok((
            Reads { group, keeper, regions, procfs, watched, marked: Mutex::default(), openers: Openers::default() },
            survey,
        ))
    }
}

impl Reads {
    /// From here on the keeper lives as long as init.
    pub fn watch(&self, init: BorrowedFd<'_>) -> Result<(), ReadsError> {
        self.keeper.watch(init).map_err(ReadsError::Keeper)
    }

    /// Nobody is left of a call.
    pub fn over(&self, call: &Arc<Call>) {
        self.openers.over(call);
    }

    pub fn keeper(&self) -> &Keeper {
        &self.keeper
    }

    /// How many mounts are held.
    pub fn held_mounts(&self) -> usize {
        self.regions.len()
    }

    /// Whether all opens through the mount that this came through are held.
    pub fn holds_mount_of(&self, object: BorrowedFd<'_>) -> bool {
        mount_of(object).is_ok_and(|mount| self.regions.contains_key(&mount))
    }

    /// The read of what is open here or pinned, by every name that counts; nothing for what is neither file nor directory. Needs
    /// a thread as [`path_of`] does.
    pub fn wanted(&self, file: BorrowedFd<'_>) -> Result<Vec<Wanted>, Errno> {
        self.wanted_of(file, &Seen::of(file)?)
    }

    fn wanted_of(&self, file: BorrowedFd<'_>, seen: &Seen) -> Result<Vec<Wanted>, Errno> {
        if !matches!(seen.kind, FileType::RegularFile | FileType::Directory) {
            return Ok(Vec::new());
        }
        let path = judged_path(path_of(file)?, seen);
        let mut names = self.other_names(seen, &path);
        names.push(path);
        Ok(names.into_iter().map(|name| Wanted::reading(name, seen.kind == FileType::Directory)).collect())
    }

    fn marked(&self) -> MutexGuard<'_, Marked> {
        self.marked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Holds the opens of a pinned file or directory that is, or is about to be, at a guarded path; of a directory, also of what
    /// is directly in it.
    pub fn hold(&self, object: BorrowedFd<'_>, path: &RawPath, is_directory: bool) -> Result<(), Errno> {
        let identity = identity(object)?;
        let reach = if is_directory { Reach::Children } else { Reach::Itself };
        let mut marked = self.marked();
        if is_directory {
            marked.directories.insert(identity);
        }
        let has_room = marked.names.len() < REMEMBERED_AT_MOST;
        match marked.names.get_mut(&identity) {
            Some(names) if names.contains(path) || names.len() >= NAMES_AT_MOST => {}
            Some(names) => names.push(path.clone()),
            None if has_room => drop(marked.names.insert(identity, vec![path.clone()])),
            // What cannot be remembered is not to become guarded, or to stop being so.
            None => return Err(Errno::NFILE),
        }
        self.group.mark_inode(object, reach).map_err(|error| Errno::of(&error))
    }

    /// Makes something at a guarded name in this directory: from before it is there until it has a mark of its own, all opens in
    /// the directory are held.
    pub fn while_making<T, E: From<Errno>>(
        &self,
        directory: BorrowedFd<'_>,
        make: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let making = Making::begin(self, directory)?;
        let made = make();
        drop(making);
        made
    }

    /// The names of what was opened besides the one that the kernel has for it now: those of its mount, and the one at which it
    /// became guarded.
    fn other_names(&self, seen: &Seen, path: &RawPath) -> Vec<RawPath> {
        let mut names = Vec::new();
        if let Some(held) = self.regions.get(&seen.mount) {
            names.extend(names_by_mount(held, path));
        }
        let remembered = |identity| self.marked().names.get(&identity).cloned().unwrap_or_default();
        if !self.marked().names.is_empty() {
            names.extend(remembered(seen.identity));
            // What came from outside into a directory that is held has no name of its own here.
            if let Some(directory) = path.parent().and_then(|parent| stat(parent.as_path()).ok()) {
                let known = remembered((directory.st_dev, directory.st_ino));
                names.extend(known.iter().map(|name| name.join(path.file_name())));
            }
        }
        names.retain(|name| name != path);
        names
    }
}

/// What statx(2) tells of an open file.
struct Seen {
    mount: u64,
    identity: (u64, u64),
    kind: FileType,
    links: u32,
}

impl Seen {
    fn of(file: BorrowedFd<'_>) -> Result<Seen, Errno> {
        let wanted = MOUNT | StatxFlags::INO | StatxFlags::TYPE | StatxFlags::NLINK;
        let found = statx(file, c"", AtFlags::EMPTY_PATH, wanted)?;
        Ok(Seen {
            mount: found.stx_mnt_id,
            identity: (rustix::fs::makedev(found.stx_dev_major, found.stx_dev_minor), found.stx_ino),
            kind: FileType::from_raw_mode(found.stx_mode.into()),
            links: found.stx_nlink,
        })
    }
}

/// A name by the mount's own path, whatever the directories above it are called by now.
fn names_by_mount(held: &HeldMount, path: &RawPath) -> Vec<RawPath> {
    if path.is_within(&held.path) {
        return held.names.iter().filter_map(|name| rebased(path, &held.path, name)).collect();
    }
    // Something above was renamed. What is below the mount is not looked for: the place itself speaks for it.
    std::iter::once(&held.path).chain(&held.names).cloned().collect()
}

fn identity(object: BorrowedFd<'_>) -> Result<(u64, u64), Errno> {
    let stat = fstat(object)?;
    Ok((stat.st_dev, stat.st_ino))
}

/// Of a file that was removed, the last path that it had.
fn judged_path(path: RawPath, seen: &Seen) -> RawPath {
    match path.as_bytes().strip_suffix(b" (deleted)") {
        Some(former) if seen.links == 0 => RawPath::new(former),
        _ => path,
    }
}

/// A directory that is held while something is made in it.
struct Making<'a> {
    reads: &'a Reads,
    directory: BorrowedFd<'a>,
    identity: (u64, u64),
}

impl<'a> Making<'a> {
    fn begin(reads: &'a Reads, directory: BorrowedFd<'a>) -> Result<Making<'a>, Errno> {
        let identity = identity(directory)?;
        let mut marked = reads.marked();
        let others = marked.making.entry(identity).or_default();
        *others = others.saturating_add(1);
        drop(marked);
        let making = Making { reads, directory, identity };
        reads.group.mark_inode(directory, Reach::Children).map_err(|error| Errno::of(&error))?;
        Ok(making)
    }
}

impl Drop for Making<'_> {
    fn drop(&mut self) {
        let mut marked = self.reads.marked();
        let left = marked.making.get_mut(&self.identity).map_or(0, |others| {
            *others = others.saturating_sub(1);
            *others
        });
        if left == 0 {
            marked.making.remove(&self.identity);
            if !marked.directories.contains(&self.identity) {
                // One that stays costs time, and lets nothing through.
                let _ = self.reads.group.unmark_inode(self.directory, Reach::Children);
            }
        }
    }
}
