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
use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, ResolveFlags, fstat, openat, openat2};

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
    events: Arc<OwnedFd>,
    /// Each as it was called when it was found, and pinned: the tool may call it something else by now.
    directories: HashMap<i32, (RawPath, Arc<OwnedFd>)>,
}

/// Starts watching these directories, by the group that is returned; a machine that allows no watch loses what this closes, and
/// nothing else.
pub fn watch(reads: &Arc<Reads>, performer: &Arc<Performer>, directories: &[RawPath]) -> Option<Arc<OwnedFd>> {
    let group = Arc::new(init(CreateFlags::CLOEXEC).ok()?);
    let mut watcher = Watcher {
        reads: Arc::clone(reads),
        performer: Arc::clone(performer),
        events: Arc::clone(&group),
        directories: HashMap::new(),
    };
    for directory in directories {
        watcher.add(directory);
    }
    let run = move || watcher.run();
    if let Err(error) = std::thread::Builder::new().name("gated-outside".to_owned()).stack_size(STACK_BYTES).spawn(run)
    {
        tracing::warn!(%error, "names made outside are not watched");
    }
    Some(group)
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
            let node = open_directory(directory).map(Arc::new);
            // Where another one was meant, its names will not be there.
            if let Ok(node) = node {
                self.directories.insert(watch, (directory.clone(), node));
            }
        }
    }

    /// All names of all directories, where the kernel has told of more than it could keep.
    fn look_everywhere(&mut self) {
        let all: Vec<_> = self.directories.values().cloned().collect();
        for (directory, node) in all {
            self.hold_all_in(&directory, &node);
        }
    }

    fn hold_all_in(&mut self, directory: &RawPath, node: &OwnedFd) {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let Ok(entries) = openat(node, c".", flags, Mode::empty()).and_then(Dir::new) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                // One that is gone again needs no mark.
                let _ = self.hold(node, name, &directory.join(name));
            }
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
                tracing::warn!("names came too fast to be watched one by one");
                self.look_everywhere();
            }
            if let (Some((directory, node)), Some(name)) = (self.directories.get(&watch).cloned(), name) {
                let _ = self.hold(&node, &name, &directory.join(&name));
            }
        }
    }

    /// What has this name in this directory, by the path that it would have had at first.
    fn hold(&mut self, directory: &OwnedFd, name: &[u8], path: &RawPath) -> Result<(), Errno> {
        let leads_on = self.judge().guards_reads_named_below(path);
        let guards = self.judge().guards_reads_below(path);
        if !leads_on && !guards {
            return Ok(());
        }
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let node = openat2(directory, name, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS | ResolveFlags::BENEATH)?;
        match FileType::from_raw_mode(fstat(&node)?.st_mode) {
            FileType::RegularFile if self.judge().guards_read(path) => self.reads.hold(node.as_fd(), path, false),
            FileType::Directory => {
                if guards {
                    self.reads.hold(node.as_fd(), path, true)?;
                }
                self.add(path);
                // What came to be in it before it was watched.
                self.hold_all_in(path, &node);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

fn open_directory(path: &RawPath) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(openat(CWD, path.as_path(), flags, Mode::empty())?)
}
