//! The names below a directory that is about to move: names that are protected wherever they stand move with it.

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{Dir, FileType, Mode, OFlags, openat};

use crate::common::errno::Errno;
use crate::common::path::RawPath;
use crate::session::judge::Halt;
use crate::session::resolve::Place;

/// Names looked at in one move. A larger tree is refused with `EXDEV`, upon which programs copy it name by name.
const NAMES_AT_MOST: usize = 200_000;
const DEPTH_AT_MOST: usize = 256;

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC).union(OFlags::NONBLOCK);

/// The names below `place` that `guarded` knows, as they are under `path` or as they will be under `other`. A directory that
/// may not be read hides its names from everybody who could be asked, so it does not move.
pub fn names_below(
    place: &Place,
    path: &RawPath,
    other: &RawPath,
    guarded: impl Fn(&RawPath) -> bool,
) -> Result<Vec<RawPath>, Halt> {
    let open =
        |directory: BorrowedFd<'_>, name: &CStr| openat(directory, name, DIRECTORY, Mode::empty()).and_then(Dir::new);
    let top = open(place.directory.as_fd(), &place.name).map_err(Errno::from)?;
    let mut found = Vec::new();
    let mut seen = 0usize;
    let mut walk = vec![(top, path.clone(), other.clone())];
    while let Some((directory, here, there)) = walk.last_mut() {
        let entry = match directory.next() {
            Some(entry) => entry.map_err(Errno::from)?,
            None => {
                walk.pop();
                continue;
            }
        };
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        seen += 1;
        if seen > NAMES_AT_MOST {
            return Err(Errno::XDEV.into());
        }
        let (old, new) = (here.join(name.to_bytes()), there.join(name.to_bytes()));
        found.extend([&old, &new].into_iter().filter(|path| guarded(path)).cloned());
        if matches!(entry.file_type(), FileType::Directory | FileType::Unknown) {
            match open(directory.fd().map_err(Errno::from)?, name) {
                Ok(_) if walk.len() > DEPTH_AT_MOST => return Err(Errno::XDEV.into()),
                Ok(below) => walk.push((below, old, new)),
                // No directory, or gone by now.
                Err(rustix::io::Errno::NOTDIR | rustix::io::Errno::LOOP | rustix::io::Errno::NOENT) => {}
                Err(errno) => return Err(Errno::from(errno).into()),
            }
        }
    }
    Ok(found)
}
