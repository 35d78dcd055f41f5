//! A program before it runs: found along its path, pinned, and asked of the kernel whether it may be executed.
//!
//! Runs as the user in the supervisor, in the session's view, with the tool's rights: what the kernel says of a file here it
//! would say to the tool.

use std::collections::HashMap;
use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, lstat, openat};

use super::format::Contents;
use crate::common::errno::Errno;
use crate::common::exec::Program;
use crate::common::path::RawPath;
use crate::session::decimal::Decimal;
use crate::session::decode::{At, Links};
use crate::session::resolve::{Object, Resolver};
use crate::session::sys;
use crate::session::target::{Target, Unreadable};

/// Contents that are remembered.
const CONTENTS_AT_MOST: usize = 512;
/// A file that was changed this lately may change again without another time, whatever its file system's clock is.
const SETTLED: Duration = Duration::from_secs(2);
/// Directories that are remembered, and how long.
const DIRECTORIES_AT_MOST: usize = 512;
const LOADERS_AT_MOST: usize = 16;
const FRESH: Duration = Duration::from_secs(1);

/// Device and inode.
pub type Identity = (u64, u64);

/// A file that may be executed, pinned.
#[derive(Debug)]
pub struct Pinned {
    handle: OwnedFd,
    pub identity: Identity,
    pub program: Program,
    /// Seconds and nanoseconds since the epoch, inode(7).
    pub changed: (i64, i64),
    size: i64,
}

/// What the contents of a file were, as long as none of this changes.
type Version = (Identity, (i64, i64), i64);

/// Finds programs; remembers what it saw.
#[derive(Debug, Default)]
pub struct Programs {
    loaders: Mutex<HashMap<CString, (Instant, Program)>>,
    contents: Mutex<HashMap<Version, Arc<Contents>>>,
    of_system: Mutex<HashMap<RawPath, (Instant, bool)>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Programs {
    /// What this path leads to, with the errno of execve(2) where it cannot be executed.
    pub fn find(
        &self,
        resolver: &Resolver,
        target: &Target<'_>,
        directory: i32,
        path: CString,
        flags: u32,
    ) -> Result<Pinned, Unreadable> {
        let follow = flags & libc::AT_SYMLINK_NOFOLLOW as u32 == 0;
        if path.is_empty() && flags & libc::AT_EMPTY_PATH as u32 != 0 {
            return self.pin(resolver.descriptor(target, directory)?);
        }
        self.pin(resolver.object(target, &At { directory, path: Ok(path), links: Links::All }, follow)?)
    }

    /// `may_open` and `do_open_execat`, fs: no other file than a regular one, with the right to execute it, on a file system
    /// that lets it. One that cannot be read is refused too: nobody could say what it is, and its process could not be looked
    /// into.
    fn pin(&self, object: Object) -> Result<Pinned, Unreadable> {
        let stat = fstat(&object.handle).map_err(Errno::from)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => {}
            FileType::Symlink => return Err(Errno::LOOP.into()),
            _ => return Err(Errno::ACCES.into()),
        }
        sys::may_access(object.handle.as_fd(), libc::X_OK | libc::R_OK)?;
        Ok(Pinned {
            identity: (stat.st_dev, stat.st_ino),
            program: self.named(&object, &stat),
            changed: (stat.st_ctime, stat.st_ctime_nsec as i64),
            size: stat.st_size,
            handle: object.handle,
        })
    }

    /// What a file is called.
    pub fn called(&self, object: &Object) -> Result<Program, Errno> {
        Ok(self.named(object, &fstat(&object.handle)?))
    }

    fn named(&self, object: &Object, stat: &rustix::fs::Stat) -> Program {
        // What a link of procfs or a descriptor leads to may have lost its name, or never had one.
        let is_named = stat.st_nlink > 0 && leads_to(&object.path, (stat.st_dev, stat.st_ino));
        let is_of_system = is_named && is_roots_alone(stat.st_uid, stat.st_mode) && self.is_of_system(&object.path);
        Program { path: object.path.clone(), is_named, is_of_system }
    }

    /// Whether all directories above are root's alone.
    fn is_of_system(&self, path: &RawPath) -> bool {
        let Some(directory) = path.parent() else { return false };
        if let Some((since, is)) = locked(&self.of_system).get(&directory)
            && since.elapsed() < FRESH
        {
            return *is;
        }
        let mut at = Some(directory.clone());
        let mut is = true;
        while let (Some(above), true) = (&at, is) {
            is = lstat(above.as_path()).is_ok_and(|stat| {
                FileType::from_raw_mode(stat.st_mode) == FileType::Directory
                    && is_roots_alone(stat.st_uid, stat.st_mode)
            });
            at = above.parent();
        }
        let mut known = locked(&self.of_system);
        if known.len() >= DIRECTORIES_AT_MOST {
            known.clear();
        }
        known.insert(directory, (Instant::now(), is));
        is
    }

    /// The loader of what runs. It only matters what it is called, so where nobody but root can change that it is
    /// remembered.
    pub fn loader(&self, resolver: &Resolver, target: &Target<'_>, path: &CString) -> Result<Program, Unreadable> {
        if let Some((since, known)) = locked(&self.loaders).get(path)
            && since.elapsed() < FRESH
        {
            return Ok(known.clone());
        }
        let found = self.find(resolver, target, libc::AT_FDCWD, path.clone(), 0)?.program;
        if path.to_bytes().first() == Some(&b'/') && found.is_of_system {
            let mut known = locked(&self.loaders);
            if known.len() >= LOADERS_AT_MOST {
                known.clear();
            }
            known.insert(path.clone(), (Instant::now(), found.clone()));
        }
        Ok(found)
    }

    /// What is in it.
    pub fn contents(&self, pinned: &Pinned) -> Result<Arc<Contents>, Errno> {
        let version = (pinned.identity, pinned.changed, pinned.size);
        if let Some(known) = locked(&self.contents).get(&version) {
            return Ok(Arc::clone(known));
        }
        // The thread's cwd is `/proc/self/fd`, see [`crate::session::pool`].
        let mut name = Decimal::default();
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = openat(CWD, name.of(pinned.handle.as_raw_fd()), flags, Mode::empty())?;
        let contents = Arc::new(Contents::read(file.as_fd())?);
        if is_settled(pinned.changed) {
            let mut known = locked(&self.contents);
            if known.len() >= CONTENTS_AT_MOST {
                known.clear();
            }
            known.insert(version, Arc::clone(&contents));
        }
        Ok(contents)
    }
}

/// Whether a change from now on will have another time.
fn is_settled((seconds, _): (i64, i64)) -> bool {
    let settled = SystemTime::now().checked_sub(SETTLED);
    let settled = settled.and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok());
    settled.is_some_and(|at| i64::try_from(at.as_secs()).is_ok_and(|at| seconds < at))
}

fn is_roots_alone(owner: u32, mode: u32) -> bool {
    owner == 0 && mode & (libc::S_IWGRP | libc::S_IWOTH) == 0
}

fn leads_to(path: &RawPath, identity: Identity) -> bool {
    path.as_bytes().first() == Some(&b'/')
        && lstat(path.as_path()).is_ok_and(|stat| (stat.st_dev, stat.st_ino) == identity)
}
