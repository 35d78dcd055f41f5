//! The host's own files about names, read again when they change.
//!
//! Runs as the user in the supervisor, with the user's file rights, on files of the host's admin.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{OFlags, fstat};

use crate::common::path::RawPath;
use crate::session::hostroot::HostRoot;

/// How long what was read is taken for what is there.
const FRESH: Duration = Duration::from_secs(1);
/// Some admins block names by a hosts file of some megabytes.
pub const BYTES_AT_MOST: usize = 16 << 20;

/// Where files are opened as the host sees them.
pub trait HostFiles: Send + Sync {
    /// For reading, without waiting. `path` is absolute.
    fn open(&self, path: &str) -> io::Result<OwnedFd>;
}

impl HostFiles for HostRoot {
    fn open(&self, path: &str) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        self.open_at(&RawPath::from(path), flags).map_err(|errno| io::Error::from_raw_os_error(errno.raw()))
    }
}

/// A file's device, inode, size and change time: another one has another.
type Stamp = (u64, u64, i64, i64, i64);

/// One file, and what was made of it.
pub struct Watched<T> {
    path: &'static str,
    state: Mutex<State<T>>,
}

struct State<T> {
    value: T,
    /// `None` where the file was not there.
    stamp: Option<Stamp>,
    looked: Option<Instant>,
}

impl<T: Clone> Watched<T> {
    /// `value` is what the file comes to before it was looked at.
    pub fn new(path: &'static str, value: T) -> Watched<T> {
        Watched { path, state: Mutex::new(State { value, stamp: None, looked: None }) }
    }

    /// What `make` made of the file as it is now, or was a moment ago. A file that is not there is an empty one.
    pub fn get(&self, files: &dyn HostFiles, make: impl FnOnce(&[u8]) -> T) -> T {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let is_first = state.looked.is_none();
        if state.looked.is_none_or(|looked| now.saturating_duration_since(looked) >= FRESH) {
            state.looked = Some(now);
            let file = files.open(self.path).ok();
            let stamp = file.as_ref().and_then(stamp_of);
            if is_first || stamp != state.stamp {
                state.stamp = stamp;
                let text = file.and_then(|file| read(file).ok()).unwrap_or_default();
                state.value = make(&text);
            }
        }
        state.value.clone()
    }
}

fn stamp_of(file: &OwnedFd) -> Option<Stamp> {
    let found = fstat(file).ok()?;
    Some((found.st_dev, found.st_ino, found.st_size, found.st_ctime, found.st_ctime_nsec as i64))
}

/// All of a file, up to [`BYTES_AT_MOST`].
pub fn read(file: OwnedFd) -> io::Result<Vec<u8>> {
    use std::io::Read;
    let mut text = Vec::new();
    std::fs::File::from(file).take(BYTES_AT_MOST as u64).read_to_end(&mut text)?;
    Ok(text)
}
