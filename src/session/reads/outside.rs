//! Names that somebody outside of the session gives to new files where reads are guarded: an editor that replaces a file, a
//! program that logs in for the first time. The kernel tells of them (inotify(7)), and they are marked.
//!
//! Runs as the user in the supervisor, one thread, on directories of the user. Between the name and its mark an open is not held:
//! what is made inside has no such gap, for the supervisor makes it itself.

use std::collections::HashMap;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::inotify::{CreateFlags, ReadFlags, Reader, WatchFlags, add_watch, init};
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, openat2};

use super::Reads;
use crate::common::errno::Errno;
use crate::common::path::RawPath;
use crate::session::judge::Judge;
use crate::session::perform::Performer;

/// Directories that are watched at the most.
const WATCHED_AT_MOST: usize = 4096;
const STACK_BYTES: usize = 128 * 1024;

struct Watcher {
    reads: Arc<Reads>,
    performer: Arc<Performer>,
    events: OwnedFd,
    directories: HashMap<i32, RawPath>,
}

/// Starts watching these directories; a machine that allows no watch loses what this closes, and nothing else.
pub fn watch(reads: &Arc<Reads>, performer: &Arc<Performer>, directories: &[RawPath]) {
    let Ok(events) = init(CreateFlags::CLOEXEC) else { return };
    let mut watcher =
        Watcher { reads: Arc::clone(reads), performer: Arc::clone(performer), events, directories: HashMap::new() };
    for directory in directories {
        watcher.add(directory);
    }
    let run = move || watcher.run();
    if let Err(error) = std::thread::Builder::new().name("gated-outside".to_owned()).stack_size(STACK_BYTES).spawn(run)
    {
        tracing::warn!(%error, "names made outside are not watched");
    }
}

impl Watcher {
    fn judge(&self) -> &Judge {
        self.performer.judge()
    }

    fn add(&mut self, directory: &RawPath) {
        if self.directories.len() >= WATCHED_AT_MOST {
            return;
        }
        let flags = WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::ONLYDIR | WatchFlags::DONT_FOLLOW;
        if let Ok(watch) = add_watch(&self.events, directory.as_path(), flags) {
            self.directories.insert(watch, directory.clone());
        }
    }

    fn run(mut self) {
        let Ok(events) = self.events.try_clone() else { return };
        let mut buffer = [MaybeUninit::uninit(); 8192];
        let mut reader = Reader::new(events, &mut buffer);
        loop {
            let (watch, name, flags) = match reader.next() {
                Ok(event) => (event.wd(), event.file_name().map(|name| name.to_bytes().to_vec()), event.events()),
                Err(rustix::io::Errno::INTR) => continue,
                Err(_) => return,
            };
            if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
                tracing::warn!("names made outside came too fast to be watched");
            }
            if let (Some(directory), Some(name)) = (self.directories.get(&watch), name) {
                let path = directory.join(&name);
                // One that is gone again needs no mark.
                let _ = self.hold(&path);
            }
        }
    }

    fn hold(&mut self, path: &RawPath) -> Result<(), Errno> {
        let leads_on = self.judge().guards_reads_named_below(path);
        let guards = self.judge().guards_reads_below(path);
        if !leads_on && !guards {
            return Ok(());
        }
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let node = openat2(CWD, path.as_path(), flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?;
        match FileType::from_raw_mode(fstat(&node)?.st_mode) {
            FileType::RegularFile if self.judge().guards_read(path) => self.reads.hold(node.as_fd(), path, false),
            FileType::Directory => {
                if guards {
                    self.reads.hold(node.as_fd(), path, true)?;
                }
                self.add(path);
                // What came to be in it before it was watched.
                for entry in std::fs::read_dir(path.as_path()).into_iter().flatten().flatten() {
                    let name = entry.file_name();
                    let _ = self.hold(&path.join(std::os::unix::ffi::OsStrExt::as_bytes(name.as_os_str())));
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
