//! The names below a directory that is about to move: names that are protected wherever they stand move with it.

use std::os::fd::OwnedFd;

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

/// Every name below `place`, as it is under `path` and as it will be under `other`. A directory that may not be read hides
/// its names from everybody who could be asked, so it does not move.
pub fn names_below(place: &Place, path: &RawPath, other: &RawPath) -> Result<Vec<RawPath>, Halt> {
    let top = openat(&place.directory, place.name.as_c_str(), DIRECTORY, Mode::empty()).map_err(Errno::from)?;
    let mut names = Vec::new();
    let mut todo: Vec<(OwnedFd, RawPath, RawPath, usize)> = vec![(top, path.clone(), other.clone(), 0)];
    while let Some((directory, here, there, depth)) = todo.pop() {
        if depth > DEPTH_AT_MOST {
            return Err(Errno::XDEV.into());
        }
        for entry in Dir::read_from(&directory).map_err(Errno::from)? {
            let entry = entry.map_err(Errno::from)?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let (old, new) = (here.join(name.to_bytes()), there.join(name.to_bytes()));
            if matches!(entry.file_type(), FileType::Directory | FileType::Unknown) {
                match openat(&directory, name, DIRECTORY, Mode::empty()) {
                    Ok(below) => todo.push((below, old.clone(), new.clone(), depth + 1)),
                    Err(rustix::io::Errno::NOTDIR | rustix::io::Errno::LOOP | rustix::io::Errno::NOENT) => {}
                    Err(errno) => return Err(Errno::from(errno).into()),
                }
            }
            names.push(old);
            names.push(new);
            if names.len() > 2 * NAMES_AT_MOST {
                return Err(Errno::XDEV.into());
            }
        }
    }
    Ok(names)
}
