//! The names below a directory that is about to move: names that are protected wherever they stand move with it.
//!
//! Runs as the user in the supervisor, in a tree that the tool has made as large, deep and long of name as it likes: one
//! branch is open at a time, and only names that somebody guards are kept.

use rustix::fs::{Dir, FileType, Mode, OFlags, openat};

use crate::common::errno::Errno;
use crate::common::path::RawPath;
use crate::session::judge::Halt;
use crate::session::resolve::Place;

/// Names looked at in one move. A larger tree is refused with `EXDEV`, upon which programs copy it name by name.
const NAMES_AT_MOST: usize = 200_000;
/// Guarded names in one move; beyond, as above.
const KEPT_AT_MOST: usize = 1_000;
const DEPTH_AT_MOST: usize = 256;

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC).union(OFlags::NONBLOCK);

/// A directory that is being read, and what it is called before and after the move.
struct Branch {
    entries: Dir,
    here: RawPath,
    there: RawPath,
}

/// The names below `place` that are `guarded`, as they are under `path` or as they will be under `other`. A directory that may
/// not be read hides its names from everybody who could be asked, so it does not move.
pub fn names_below(
    place: &Place,
    path: &RawPath,
    other: &RawPath,
    guarded: impl Fn(&RawPath) -> bool,
) -> Result<Vec<RawPath>, Halt> {
    let top = openat(&place.directory, place.name.as_c_str(), DIRECTORY, Mode::empty()).map_err(Errno::from)?;
    let mut kept = Vec::new();
    let mut seen = 0_usize;
    let mut branches =
        vec![Branch { entries: Dir::new(top).map_err(Errno::from)?, here: path.clone(), there: other.clone() }];
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
        seen += 1;
        let (here, there) = (branch.here.join(name.to_bytes()), branch.there.join(name.to_bytes()));
        kept.extend([&here, &there].into_iter().filter(|name| guarded(name)).cloned());
        if seen > NAMES_AT_MOST || kept.len() > KEPT_AT_MOST {
            return Err(Errno::XDEV.into());
        }
        if matches!(entry.file_type(), FileType::Directory | FileType::Unknown) {
            let directory = branch.entries.fd().map_err(Errno::from)?;
            match openat(directory, name, DIRECTORY, Mode::empty()) {
                Ok(_) if branches.len() >= DEPTH_AT_MOST => return Err(Errno::XDEV.into()),
                Ok(below) => {
                    branches.push(Branch { entries: Dir::new(below).map_err(Errno::from)?, here, there });
                }
                Err(rustix::io::Errno::NOTDIR | rustix::io::Errno::LOOP | rustix::io::Errno::NOENT) => {}
                Err(errno) => return Err(Errno::from(errno).into()),
            }
        }
    }
    Ok(kept)
}
