//! Names at which reads are guarded: what comes to be there is held before the tool can open it, and what goes away from there
//! stays held.
//!
//! Runs as the user in the supervisor. Regions that were there when the session was built are mounts; all that becomes guarded
//! later gets a mark of its own, here, by the change that makes it so.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Dir, FileType, Mode, OFlags, ResolveFlags, fstat, openat, openat2};

use super::Run;
use crate::common::errno::Errno;
use crate::common::path::RawPath;
use crate::session::judge::{Approvals, Halt, Judge};
use crate::session::listener::Answer;
use crate::session::reads::Reads;
use crate::session::resolve::Place;
use crate::session::sys;
use crate::tool::regions::mount_of;

/// Names in a directory that moves; a larger tree is refused with `EXDEV`, upon which programs copy it name by name.
const NAMES_AT_MOST: usize = 200_000;
const DEPTH_AT_MOST: usize = 256;

const NODE: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const LISTED: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC).union(OFlags::NONBLOCK);

/// A directory that is being walked, with its path now and to be.
struct Branch {
    entries: Dir,
    here: RawPath,
    there: RawPath,
}

impl<'a> Run<'a> {
    /// What holds reads, if anything does.
    pub(super) fn reads(&self) -> Option<&'a Reads> {
        self.performer.reads.as_deref()
    }

    /// What holds reads, if a file that comes to be in this place would need it: no mount holds it already.
    fn guards_new(&self, place: &Place) -> Option<&'a Reads> {
        let reads = self.reads()?;
        let guards = self.judge().guards_read(&place.path());
        (guards && !reads.holds_mount_of(place.directory.as_fd())).then_some(reads)
    }

    /// Makes a file here; where the name is guarded, nobody opens it before it is held.
    pub(super) fn making<T>(
        &self,
        place: &Place,
        make: impl FnOnce() -> Result<T, Halt>,
        handle: impl FnOnce(&T) -> Result<OwnedFd, Errno>,
    ) -> Result<T, Halt> {
        let Some(reads) = self.guards_new(place) else { return make() };
        reads.while_making(place.directory.as_fd(), || {
            let made = make()?;
            let held = handle(&made).and_then(|handle| reads.hold(handle.as_fd(), &place.path(), false));
            if held.is_err() {
                // One that may not be read cannot be marked; its directory can.
                reads.hold(place.directory.as_fd(), &place.directory_path, true)?;
            }
            Ok(made)
        })
    }

    /// Makes a directory here; where it is guarded, it is held before anything is in it.
    pub(super) fn making_directory(
        &self,
        place: &Place,
        make: impl FnOnce() -> Result<Answer, Halt>,
    ) -> Result<Answer, Halt> {
        let path = place.path();
        let Some(reads) = self
            .reads()
            .filter(|reads| self.judge().guards_reads_below(&path) && !reads.holds_mount_of(place.directory.as_fd()))
        else {
            return make();
        };
        let made = make()?;
        let held = pin(place).and_then(|handle| reads.hold(handle.as_fd(), &path, true));
        if let Err(errno) = held {
            // What cannot be held is not to be there.
            let _ = sys::unlinkat(place.directory.as_fd(), &place.name, libc::AT_REMOVEDIR);
            return Err(errno.into());
        }
        Ok(made)
    }

    /// Before a name is given to what another name leads to: what is guarded by the one or the other is held from here on, by
    /// that name too.
    pub(super) fn hold_moved(&self, object: BorrowedFd<'_>, from: Option<&RawPath>, to: &RawPath) -> Result<(), Halt> {
        let Some(reads) = self.reads() else { return Ok(()) };
        let moved = Move { judge: self.judge(), reads, is_held: reads.holds_mount_of(object) };
        let from = from.unwrap_or(to);
        match FileType::from_raw_mode(fstat(object).map_err(Errno::from)?.st_mode) {
            FileType::RegularFile => Ok(moved.hold_file(object, from, to)?),
            FileType::Directory => moved.hold_tree(object, from, to),
            _ => Ok(()),
        }
    }

    /// Before the two ends of a rename are what they will be.
    pub(super) fn hold_renamed(&self, old: &Place, new: &Place, exchange: bool) -> Result<(), Halt> {
        if self.reads().is_none() || old.is_special() || new.is_special() {
            return Ok(());
        }
        let (old_path, new_path) = (old.path(), new.path());
        let ends = [(old, &old_path, &new_path), (new, &new_path, &old_path)];
        for (place, from, to) in ends.into_iter().take(if exchange { 2 } else { 1 }) {
            match pin(place) {
                Ok(node) => self.hold_moved(node.as_fd(), Some(from), to)?,
                // The rename will say it.
                Err(Errno::NOENT | Errno::NOTDIR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    /// unlink(2) or rmdir(2). A name that is a mount point inside is removed from outside.
    pub(super) fn unlink(&self, place: &Place, flags: i32) -> Result<i64, Errno> {
        match (sys::unlinkat(place.directory.as_fd(), &place.name, flags), self.reads()) {
            (Err(Errno::BUSY), Some(reads)) => {
                let is_directory = flags & libc::AT_REMOVEDIR != 0;
                reads
                    .keeper()
                    .remove(place.directory.as_fd(), place.name.as_bytes(), is_directory)
                    .map(|()| 0)
                    .map_err(|error| Errno::of(&error))
            }
            (done, _) => done,
        }
    }

    /// renameat2(2), likewise.
    pub(super) fn rename_name(&self, old: &Place, new: &Place, flags: u32) -> Result<i64, Errno> {
        let (from, to) = (old.directory.as_fd(), new.directory.as_fd());
        match (sys::renameat2(from, &old.name, to, &new.name, flags), self.reads()) {
            (Err(Errno::BUSY), Some(reads)) => {
                let (old, new) = (old.name.as_bytes(), new.name.as_bytes());
                reads.keeper().rename(from, old, to, new, flags).map(|()| 0).map_err(|error| Errno::of(&error))
            }
            (done, _) => done,
        }
    }

    /// The permit for the tool to read what was opened for it, by every name that this very file has.
    pub(super) fn permit_reading(&self, file: BorrowedFd<'_>, approvals: &mut Approvals) -> Result<(), Halt> {
        let Some(reads) = self.reads() else { return Ok(()) };
        let wanted = reads.wanted(file)?;
        self.judge().permit(self.target, &wanted, approvals, || None).map(drop)
    }
}

/// Something that gets another name.
struct Move<'a> {
    judge: &'a Judge,
    reads: &'a Reads,
    /// Whether its mount is held, so that only a name which it loses has to be remembered.
    is_held: bool,
}

impl Move<'_> {
    fn hold_file(&self, file: BorrowedFd<'_>, here: &RawPath, there: &RawPath) -> Result<(), Errno> {
        let (was, will) = (self.judge.guards_read(here), self.judge.guards_read(there));
        if was && !(self.is_held && will) {
            self.reads.hold(file, here, false)?;
        }
        if will && !self.is_held { self.reads.hold(file, there, false) } else { Ok(()) }
    }

    fn hold_directory(&self, directory: BorrowedFd<'_>, here: &RawPath, there: &RawPath) -> Result<(), Errno> {
        let (was, will) = (self.judge.guards_reads_below(here), self.judge.guards_reads_below(there));
        if was && !(self.is_held && will) {
            self.reads.hold(directory, here, true)?;
        }
        if will && !self.is_held { self.reads.hold(directory, there, true) } else { Ok(()) }
    }

    /// Other mounts below are not entered: regions go by their own names, and the holes in them need none.
    fn hold_tree(&self, top: BorrowedFd<'_>, here: &RawPath, there: &RawPath) -> Result<(), Halt> {
        let mount = mount_of(top).map_err(Errno::from)?;
        self.hold_directory(top, here, there)?;
        let listed = openat(top, c".", LISTED, Mode::empty()).map_err(Errno::from)?;
        let entries = Dir::new(listed).map_err(Errno::from)?;
        let mut branches = vec![Branch { entries, here: here.clone(), there: there.clone() }];
        let mut seen = 0_usize;
        while let Some(branch) = branches.last_mut() {
            let Some(entry) = branch.entries.read() else {
                branches.pop();
                continue;
            };
            let entry = entry.map_err(Errno::from)?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            seen = seen.saturating_add(1);
            if seen > NAMES_AT_MOST {
                return Err(Errno::XDEV.into());
            }
            let (here, there) = (branch.here.join(name.to_bytes()), branch.there.join(name.to_bytes()));
            let directory = branch.entries.fd().map_err(Errno::from)?;
            match entry.file_type() {
                FileType::RegularFile if self.judge.guards_read(&here) || self.judge.guards_read(&there) => {
                    let node = openat(directory, name, NODE, Mode::empty()).map_err(Errno::from)?;
                    if mount_of(node.as_fd()).map_err(Errno::from)? == mount {
                        self.hold_file(node.as_fd(), &here, &there)?;
                    }
                }
                FileType::Directory | FileType::Unknown => match openat(directory, name, LISTED, Mode::empty()) {
                    Ok(_) if branches.len() >= DEPTH_AT_MOST => return Err(Errno::XDEV.into()),
                    Ok(below) => {
                        if mount_of(below.as_fd()).map_err(Errno::from)? == mount {
                            self.hold_directory(below.as_fd(), &here, &there)?;
                            branches.push(Branch { entries: Dir::new(below).map_err(Errno::from)?, here, there });
                        }
                    }
                    Err(rustix::io::Errno::NOTDIR | rustix::io::Errno::LOOP | rustix::io::Errno::NOENT) => {}
                    Err(errno) => return Err(Errno::from(errno).into()),
                },
                _ => {}
            }
        }
        Ok(())
    }
}

/// What the name stands for, a link itself.
fn pin(place: &Place) -> Result<OwnedFd, Errno> {
    let plain = std::ffi::CString::new(place.plain_name()).map_err(|_| Errno::INVAL)?;
    Ok(openat2(&place.directory, &*plain, NODE, Mode::empty(), ResolveFlags::NO_MAGICLINKS)?)
}

/// [`pin`] for what was just made.
pub(super) fn made(place: &Place) -> Result<OwnedFd, Errno> {
    pin(place)
}
