//! Regions: trees and files of which every open is held. Runs as root in the supervisor, in the session's mount namespace, before
//! any process of the tool exists, on paths that a user may rename under it: each is opened with the user's own file rights and
//! without following links, and what is pinned is what is bound and marked.
//!
//! A region becomes a mount of its own, bound onto itself, and the mount is marked, not the path: whoever renames a directory on
//! the way, or comes by another name, comes through the same mount.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, StatxFlags, fstat, openat2, statx};
use rustix::io::Errno;
use rustix::mount::{MoveMountFlags, OpenTreeFlags, move_mount, open_tree};

use super::fanotify::Group;
use super::mounts::is_of_the_session;
use super::privileges::{PrivilegeError, with_file_rights_of};
use crate::common::path::RawPath;
use crate::common::wire::Identity;

/// The regions could not be made; the mount namespace dies with this process.
#[derive(Debug, thiserror::Error)]
pub enum RegionError {
    #[error("cannot {step} {}: {source}", path.display())]
    Step { step: &'static str, path: PathBuf, source: io::Error },
    #[error("{} was exchanged while it was looked at", .0.display())]
    Exchanged(PathBuf),
    #[error("cannot take the user's file rights: {0}")]
    Privileges(#[from] PrivilegeError),
}

fn step<E: Into<io::Error>>(step: &'static str, path: &RawPath) -> impl FnOnce(E) -> RegionError {
    move |source| RegionError::Step { step, path: path.as_path().to_path_buf(), source: source.into() }
}

/// A tree or file at which it may begin or end that opens are held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spot {
    /// Canonical.
    pub path: RawPath,
    /// What it is called besides, where a link leads to it or another mount shows it; reads are judged by these names too.
    pub names: Vec<RawPath>,
    /// Device and inode that it had when it was found.
    pub identity: (u64, u64),
    pub is_held: bool,
}

/// A mount through which opens are held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldMount {
    /// Where it is mounted.
    pub path: RawPath,
    /// Names of the same place by which reads are judged too.
    pub names: Vec<RawPath>,
}

/// The mounts whose opens are held, by [`mount_of`].
pub type Regions = HashMap<u64, HeldMount>;

/// What the mounts are made of.
pub struct Order<'a> {
    pub group: &'a Group,
    pub user: &'a Identity,
    pub workspace: &'a RawPath,
    /// Whether what is in no spot is held.
    pub everything: bool,
    pub spots: Vec<Spot>,
}

/// One line of /proc/PID/mountinfo, proc_pid_mountinfo(5).
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mounted {
    id: u64,
    device: Vec<u8>,
    /// The directory of its file system that it shows.
    root: RawPath,
    path: RawPath,
}

/// Binds the regions and marks their mounts. `procfs` is one in which this process has a number.
pub fn build(order: Order<'_>, procfs: BorrowedFd<'_>) -> Result<Regions, RegionError> {
    let Order { group, user, workspace, mut everything, mut spots } = order;
    let root = RawPath::from("/");
    everything |= spots.iter().any(|spot| spot.path == root && spot.is_held);
    let mut bound: Vec<Spot> = Vec::new();
    spots.retain(|spot| spot.path != root);
    bind_all(user, everything, spots, &mut bound)?;
    let aliases = aliases(&bound, &mounts(procfs)?);
    bind_all(user, everything, aliases, &mut bound)?;

    let mut regions = Regions::default();
    for mount in mounts(procfs)? {
        let spot = deepest(&bound, &mount.path);
        let is_held = spot.map_or(everything && !is_of_the_session(&mount.path, workspace), |spot| spot.is_held);
        if is_held && let Some(id) = mark(group, user, &mount)? {
            let names = spot.map_or_else(Vec::new, |spot| names_at(spot, &mount.path));
            regions.insert(id, HeldMount { path: mount.path, names });
        }
    }
    Ok(regions)
}

/// Binds those spots at which something changes, the outer ones first.
fn bind_all(user: &Identity, everything: bool, mut spots: Vec<Spot>, bound: &mut Vec<Spot>) -> Result<(), RegionError> {
    spots.sort_by_key(|spot| spot.path.components().count());
    for spot in spots {
        let around = deepest(bound, &spot.path);
        let was_held = around.map_or(everything, |around| around.is_held);
        let known = around.map_or_else(Vec::new, |around| names_at(around, &spot.path));
        let has_names = spot.is_held && spot.names.iter().any(|name| *name != spot.path && !known.contains(name));
        if (spot.is_held != was_held || has_names) && bind(user, &spot)? {
            let mut spot = spot;
            spot.names.extend(known.into_iter().filter(|_| spot.is_held));
            bound.retain(|other| other.path != spot.path);
            bound.push(spot);
        }
    }
    Ok(())
}

fn deepest<'a>(spots: &'a [Spot], path: &RawPath) -> Option<&'a Spot> {
    let around = spots.iter().filter(|spot| path.is_within(&spot.path));
    around.max_by_key(|spot| spot.path.components().count())
}

/// What `path`, which lies in the spot, is called besides.
fn names_at(spot: &Spot, path: &RawPath) -> Vec<RawPath> {
    let below = |name: &RawPath| rebased(path, &spot.path, name).filter(|name| name != path);
    spot.names.iter().filter_map(below).collect()
}

/// `path` with `to` in the place of its beginning `from`; `None` if it does not begin so.
pub fn rebased(path: &RawPath, from: &RawPath, to: &RawPath) -> Option<RawPath> {
    if !path.is_within(from) {
        return None;
    }
    Some(path.components().skip(from.components().count()).fold(to.clone(), |whole, name| whole.join(name)))
}

/// `false` if it is gone, or out of the user's reach and so of the tool's.
fn bind(user: &Identity, spot: &Spot) -> Result<bool, RegionError> {
    let node = match pin(user, &spot.path)? {
        Ok(node) => node,
        Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS) => return Ok(false),
        Err(Errno::LOOP) => return Err(RegionError::Exchanged(spot.path.as_path().to_path_buf())),
        Err(errno) => return Err(step("open", &spot.path)(errno)),
    };
    let found = fstat(&node).map_err(step("look at", &spot.path))?;
    if (found.st_dev, found.st_ino) != spot.identity {
        return Err(RegionError::Exchanged(spot.path.as_path().to_path_buf()));
    }
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_RECURSIVE;
    let tree = open_tree(&node, "", flags).map_err(step("bind", &spot.path))?;
    let onto = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(&tree, "", &node, "", onto).map_err(step("bind", &spot.path))?;
    Ok(true)
}

fn pin(user: &Identity, path: &RawPath) -> Result<Result<OwnedFd, Errno>, PrivilegeError> {
    with_file_rights_of(user, || open_there(path))
}

fn open_there(path: &RawPath) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat2(CWD, path.as_path(), flags, Mode::empty(), ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS)
}

/// The mount's lasting id; `None` if nobody can come there, because another mount hides it.
fn mark(group: &Group, user: &Identity, mount: &Mounted) -> Result<Option<u64>, RegionError> {
    let node = match pin(user, &mount.path)? {
        // Some file systems let their user in, and not even root; others root alone, who could let others in later.
        Err(Errno::ACCESS | Errno::PERM) => open_there(&mount.path),
        pinned => pinned,
    };
    let node = match node {
        Ok(node) => node,
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
        Err(errno) => return Err(step("open", &mount.path)(errno)),
    };
    let listed = statx(&node, c"", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID).map_err(step("look at", &mount.path))?;
    if listed.stx_mnt_id != mount.id {
        return Ok(None);
    }
    group.mark_mount(node.as_fd()).map_err(step("hold reads of", &mount.path))?;
    Ok(Some(mount_of(node.as_fd()).map_err(step("look at", &mount.path))?))
}

/// The mount that a descriptor came through, by a number that is never another's (statx(2) `STATX_MNT_ID_UNIQUE`, Linux 6.8).
pub const MOUNT: StatxFlags = StatxFlags::from_bits_retain(0x4000);

/// [`MOUNT`] of this descriptor.
pub fn mount_of(descriptor: BorrowedFd<'_>) -> Result<u64, Errno> {
    Ok(statx(descriptor, c"", AtFlags::EMPTY_PATH, MOUNT)?.stx_mnt_id)
}

/// Where else the held spots, or parts of them, can be seen.
fn aliases(bound: &[Spot], mounts: &[Mounted]) -> Vec<Spot> {
    let mut found = Vec::new();
    for spot in bound.iter().filter(|spot| spot.is_held) {
        let Some(own) = mounts.iter().rev().find(|mount| mount.path == spot.path) else { continue };
        for other in mounts.iter().filter(|other| other.device == own.device && other.id != own.id) {
            // What was made of the spot itself, and the holes in it, show nothing that is not meant.
            if other.path.is_within(&spot.path) {
                continue;
            }
            let names = |tail: &RawPath, root: &RawPath| -> Vec<RawPath> {
                let all = std::iter::once(&spot.path).chain(&spot.names);
                all.filter_map(|name| rebased(tail, root, name)).collect()
            };
            let (path, names) = if other.root.is_within(&own.root) {
                (other.path.clone(), names(&other.root, &own.root))
            } else {
                let Some(path) = rebased(&own.root, &other.root, &other.path) else { continue };
                (path.clone(), names(&own.root, &own.root))
            };
            // The place itself, below the mount that was made there.
            let Ok(stat) = rustix::fs::lstat(path.as_path()) else { continue };
            if !path.is_within(&spot.path) {
                found.push(Spot { path, names, identity: (stat.st_dev, stat.st_ino), is_held: true });
            }
        }
    }
    found
}

fn mounts(procfs: BorrowedFd<'_>) -> Result<Vec<Mounted>, RegionError> {
    let at = RawPath::from("/proc/self/mountinfo");
    let read = || -> io::Result<Vec<u8>> {
        let file = rustix::fs::openat(procfs, c"self/mountinfo", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let mut text = Vec::new();
        io::Read::read_to_end(&mut std::fs::File::from(file), &mut text)?;
        Ok(text)
    };
    let text = read().map_err(step("read", &at))?;
    let lines = text.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    let bad = || step("understand", &at)(io::Error::from(io::ErrorKind::InvalidData));
    lines.map(|line| parse(line).ok_or_else(bad)).collect()
}

fn parse(line: &[u8]) -> Option<Mounted> {
    let mut fields = line.split(|&byte| byte == b' ');
    let id = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    let (device, root, path) = (fields.nth(1)?, fields.next()?, fields.next()?);
    Some(Mounted { id, device: device.to_vec(), root: RawPath::new(plain(root)), path: RawPath::new(plain(path)) })
}

/// Without the escapes of blanks and backslashes, `\040` and the like.
fn plain(field: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, tail @ ..] = rest {
        let octal = |digits: &[u8]| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok();
        match (first, tail.get(..3).and_then(octal)) {
            (b'\\', Some(byte)) => {
                plain.push(byte);
                rest = tail.get(3..).unwrap_or_default();
            }
            _ => {
                plain.push(*first);
                rest = tail;
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_mountinfo_is_read_with_its_escapes() {
        let line = br"36 35 98:0 /mnt1 /mnt\0402\134 rw,noatime master:1 - ext3 /dev/root rw,errors=continue";
        let mount = parse(line).unwrap();
        assert_eq!((mount.id, mount.device.as_slice()), (36, &b"98:0"[..]));
        assert_eq!((mount.root, mount.path), (RawPath::from("/mnt1"), RawPath::from("/mnt 2\\")));
    }

    #[test]
    fn a_path_is_rebased_by_component() {
        let path = |text: &str| RawPath::from(text);
        assert_eq!(rebased(&path("/a/b/c"), &path("/a"), &path("/x")), Some(path("/x/b/c")));
        assert_eq!(rebased(&path("/ab"), &path("/a"), &path("/x")), None);
        assert_eq!(rebased(&path("/a"), &path("/"), &path("/m")), Some(path("/m/a")));
    }
}
