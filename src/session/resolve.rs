//! From a path to a pinned place: the directory as a descriptor, and the last name in it.
//!
//! Runs as the user in the supervisor, in the session's mount namespace, so that `/` and every mount are the tool's. The
//! kernel walks the common case in one call and refuses symbolic links there; with links, [`Walk`] goes component by
//! component and follows them itself, so that at no point a name is looked up twice with different outcomes. What is
//! returned cannot change under the caller: a directory stays the same inode whatever its names are.

use std::collections::VecDeque;
use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, fstatfs, openat2, readlinkat};

use super::decimal::Decimal;
use super::decode::{At, Links};
use super::target::{Target, Unreadable};
use crate::common::errno::Errno;
use crate::common::path::RawPath;

/// Symbolic links followed in one walk (`MAXSYMLINKS`, path_resolution(7)).
const LINKS_AT_MOST: u32 = 40;
const PROC_ROOT_INODE: u64 = 1;
const PROC_SUPER_MAGIC: i64 = 0x9fa0;
const TMPFS_MAGIC: i64 = 0x0102_1994;

const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
const ENTRY: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const NO_LINKS: ResolveFlags = ResolveFlags::NO_SYMLINKS.union(ResolveFlags::NO_MAGICLINKS);

/// A name in a pinned directory. Nothing is known of what the name stands for.
#[derive(Debug)]
pub struct Place {
    pub directory: OwnedFd,
    /// The directory's canonical path at the time of the walk.
    pub directory_path: RawPath,
    /// One component with its trailing slashes, `.`, `..`, or `/` for the root.
    pub name: CString,
    followed: u32,
    links: Links,
}

/// A pinned object without a place of its own: what a magic link or a descriptor stands for, or a directory.
#[derive(Debug)]
pub struct Object {
    /// An `O_PATH` handle.
    pub handle: OwnedFd,
    /// What the kernel calls it; for what has no path, a word such as `pipe:[4711]`.
    pub path: RawPath,
}

impl Object {
    /// Whether this is no file of any file system that has names: a pipe, a socket, a memfd, an anonymous inode.
    pub fn is_nameless(&self) -> bool {
        const PIPEFS: i64 = 0x5049_5045;
        const SOCKFS: i64 = 0x534f_434b;
        const ANON_INODE: i64 = 0x0904_1934;
        let kind = fstatfs(&self.handle).map(|stat| stat.f_type);
        match kind {
            Ok(PIPEFS | SOCKFS | ANON_INODE) => true,
            // memfd_create(2): a file of an internal tmpfs that was never linked.
            Ok(TMPFS_MAGIC) => self.path.as_bytes().starts_with(b"/memfd:") && matches!(self.has_no_name(), Ok(true)),
            _ => false,
        }
    }

    /// Whether no name leads to it: unlinked, or never linked.
    pub fn has_no_name(&self) -> Result<bool, Errno> {
        Ok(fstat(&self.handle)?.st_nlink == 0)
    }

    pub fn is_directory(&self) -> Result<bool, Errno> {
        Ok(FileType::from_raw_mode(fstat(&self.handle)?.st_mode) == FileType::Directory)
    }

    /// The path to judge by: of an unlinked file, the last one that it had.
    pub fn judged_path(&self) -> Result<RawPath, Errno> {
        match self.path.as_bytes().strip_suffix(b" (deleted)") {
            Some(former) if self.has_no_name()? => Ok(RawPath::new(former)),
            _ => Ok(self.path.clone()),
        }
    }
}

/// Where a walk ended.
#[derive(Debug)]
pub enum Found {
    Place(Place),
    Object(Object),
}

impl Place {
    /// A name in a directory that the caller has pinned itself.
    pub fn new(directory: OwnedFd, directory_path: RawPath, name: CString) -> Place {
        Place { directory, directory_path, name, followed: 0, links: Links::All }
    }

    /// Another name in the same directory.
    pub fn beside(&self, name: &[u8]) -> Result<Place, Errno> {
        Ok(Place {
            directory: rustix::io::fcntl_dupfd_cloexec(&self.directory, 0)?,
            directory_path: self.directory_path.clone(),
            name: owned(name)?,
            followed: self.followed,
            links: self.links,
        })
    }

    /// The name without trailing slashes.
    pub fn plain_name(&self) -> &[u8] {
        let name = self.name.as_bytes();
        let end = name.iter().rposition(|&byte| byte != b'/').map_or(0, |last| last + 1);
        name.get(..end).unwrap_or_default()
    }

    /// The canonical path of what the name stands for, or would.
    pub fn path(&self) -> RawPath {
        match self.plain_name() {
            b"" => RawPath::from("/"),
            b"." => self.directory_path.clone(),
            b".." => self.directory_path.parent().unwrap_or_else(|| RawPath::from("/")),
            name => self.directory_path.join(name),
        }
    }

    /// The same with the directory's path as the kernel has it now.
    pub fn where_it_is(mut self) -> Result<Place, Errno> {
        self.directory_path = path_of(self.directory.as_fd())?;
        Ok(self)
    }

    /// Whether the name can only stand for a directory that is there: `.`, `..`, `/`.
    pub fn is_special(&self) -> bool {
        matches!(self.plain_name(), b"" | b"." | b"..")
    }

    /// Whether the name stands for a symbolic or magic link now.
    pub fn is_link(&self) -> bool {
        let mut text = [MaybeUninit::uninit(); 1];
        let name = self.plain_name();
        !self.is_special() && rustix::fs::readlinkat_raw(&self.directory, name, &mut text).is_ok()
    }

    pub fn has_trailing_slash(&self) -> bool {
        self.plain_name().len() < self.name.as_bytes().len()
    }
}

/// The canonical path of a descriptor of ours, readlink(2) of `/proc/self/fd/N`. Needs a thread whose cwd is that
/// directory, see [`crate::session::pool`].
pub fn path_of(descriptor: BorrowedFd<'_>) -> Result<RawPath, Errno> {
    let mut name = Decimal::default();
    Ok(RawPath::new(readlinkat(CWD, name.of(descriptor.as_raw_fd()), Vec::with_capacity(256))?.into_bytes()))
}

/// Resolves paths of tools.
pub struct Resolver {
    /// Device number of the session's own `/proc`.
    proc_device: u64,
    /// fs.protected_symlinks, proc_sys_fs(5).
    protects_links: bool,
}

impl Resolver {
    /// Reads `fs.protected_symlinks` and looks at the session's `/proc`.
    pub fn new() -> std::io::Result<Resolver> {
        let protects = std::fs::read_to_string("/proc/sys/fs/protected_symlinks").unwrap_or_default();
        let proc_device = rustix::fs::stat(c"/proc")?.st_dev;
        Ok(Resolver { proc_device, protects_links: protects.trim() != "0" })
    }

    /// The place that a path names, links in its directories followed, the last component not looked at.
    pub fn place(&self, target: &Target<'_>, at: &At) -> Result<Found, Unreadable> {
        let path = match &at.path {
            Ok(path) if path.is_empty() => return Err(Errno::NOENT.into()),
            Ok(path) => path.as_bytes(),
            Err(errno) => return Err((*errno).into()),
        };
        let (parents, name) = split(path);
        if path.first() == Some(&b'/') {
            return self.absolute(target, parents, name, at.links);
        }
        let (base, base_path) = self.base(target, at.directory)?;
        if parents.is_empty() {
            // The cwd is a directory.
            let kind = if at.directory == libc::AT_FDCWD { None } else { fstat(&base).ok() };
            return match kind.map(|stat| FileType::from_raw_mode(stat.st_mode)) {
                Some(kind) if kind != FileType::Directory => Err(Errno::NOTDIR.into()),
                _ => Ok(Found::Place(Place {
                    directory: base,
                    directory_path: base_path,
                    name: owned(name)?,
                    followed: 0,
                    links: at.links,
                })),
            };
        }
        let text = owned(parents)?;
        match openat2(&base, &*text, DIRECTORY, Mode::empty(), NO_LINKS) {
            Ok(directory) => {
                let directory_path =
                    if is_plain(parents) { base_path.join(trimmed(parents)) } else { path_of(directory.as_fd())? };
                Ok(Found::Place(Place { directory, directory_path, name: owned(name)?, followed: 0, links: at.links }))
            }
            Err(rustix::io::Errno::LOOP) => Walk::new(self, target, base, at.links).run(path, false),
            Err(errno) => Err(Errno::from(errno).into()),
        }
    }

    fn absolute(&self, target: &Target<'_>, parents: &[u8], name: &[u8], links: Links) -> Result<Found, Unreadable> {
        let text = owned(if parents.is_empty() { b"/" } else { parents })?;
        match openat2(CWD, &*text, DIRECTORY, Mode::empty(), NO_LINKS) {
            Ok(directory) => {
                // Without links and dots the walk went exactly along the text.
                let directory_path = match () {
                    () if parents.is_empty() || trimmed(parents).is_empty() => RawPath::from("/"),
                    () if is_plain(parents) => RawPath::new(trimmed(parents)),
                    () => path_of(directory.as_fd())?,
                };
                Ok(Found::Place(Place { directory, directory_path, name: owned(name)?, followed: 0, links }))
            }
            Err(rustix::io::Errno::LOOP) => {
                let root = openat2(CWD, c"/", DIRECTORY, Mode::empty(), NO_LINKS).map_err(Errno::from)?;
                let mut path = parents.to_vec();
                path.extend_from_slice(name);
                Walk::new(self, target, root, links).run(&path, false)
            }
            Err(errno) => Err(Errno::from(errno).into()),
        }
    }

    /// Where this place leads if its name is a symbolic link: `None` if it is not one.
    pub fn follow(&self, target: &Target<'_>, place: &Place) -> Result<Option<Found>, Unreadable> {
        if place.is_special() {
            return Ok(None);
        }
        let name = owned(place.plain_name())?;
        let entry = match openat2(&place.directory, &*name, ENTRY, Mode::empty(), ResolveFlags::NO_MAGICLINKS) {
            Ok(entry) => entry,
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(Errno::from(errno).into()),
        };
        let stat = fstat(&entry).map_err(Errno::from)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
            return Ok(None);
        }
        let directory = rustix::io::fcntl_dupfd_cloexec(&place.directory, 0).map_err(Errno::from)?;
        let mut walk = Walk::new(self, target, directory, place.links);
        walk.followed = place.followed;
        walk.run(place.name.as_bytes(), true).map(Some)
    }

    /// The object that a path names, every link followed if `follow`.
    pub fn object(&self, target: &Target<'_>, at: &At, follow: bool) -> Result<Object, Unreadable> {
        let mut found = self.place(target, at)?;
        loop {
            let place = match found {
                Found::Object(object) => return Ok(object),
                Found::Place(place) => place,
            };
            let follows = follow || place.has_trailing_slash();
            match openat2(&place.directory, &*place.name, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), NO_LINKS) {
                Ok(handle) => {
                    let path = if place.is_special() { path_of(handle.as_fd())? } else { place.path() };
                    return Ok(Object { handle, path });
                }
                Err(rustix::io::Errno::LOOP) if !follows => {
                    let handle =
                        openat2(&place.directory, &*place.name, ENTRY, Mode::empty(), ResolveFlags::NO_MAGICLINKS)
                            .map_err(Errno::from)?;
                    return Ok(Object { handle, path: place.path() });
                }
                Err(rustix::io::Errno::LOOP) => {
                    // Not a link any more: exchanged in between, so look again.
                    found = self.follow(target, &place)?.unwrap_or(Found::Place(place));
                }
                Err(errno) => return Err(Errno::from(errno).into()),
            }
        }
    }

    /// The object that a descriptor stands for.
    pub fn descriptor(&self, target: &Target<'_>, descriptor: i32) -> Result<Object, Unreadable> {
        let handle = if descriptor == libc::AT_FDCWD { target.cwd()? } else { target.descriptor_object(descriptor)? };
        let path = path_of(handle.as_fd())?;
        Ok(Object { handle, path })
    }

    fn base(&self, target: &Target<'_>, directory: i32) -> Result<(OwnedFd, RawPath), Unreadable> {
        let Object { handle, path } = self.descriptor(target, directory)?;
        Ok((handle, path))
    }
}

/// A walk component by component.
struct Walk<'a> {
    resolver: &'a Resolver,
    target: &'a Target<'a>,
    at: OwnedFd,
    links: Links,
    followed: u32,
    rest: VecDeque<Vec<u8>>,
}

impl<'a> Walk<'a> {
    fn new(resolver: &'a Resolver, target: &'a Target<'a>, from: OwnedFd, links: Links) -> Walk<'a> {
        Walk { resolver, target, at: from, links, followed: 0, rest: VecDeque::new() }
    }

    /// Walks `path` from the base. The last component is followed if it is a link and `follow_last`, but only once: where a
    /// link leads is a place again, whose name the caller looks at.
    fn run(mut self, path: &[u8], follow_last: bool) -> Result<Found, Unreadable> {
        self.prepend(path)?;
        let mut follow_last = follow_last;
        loop {
            let Some(name) = self.rest.pop_front() else {
                let path = path_of(self.at.as_fd())?;
                return Ok(Found::Object(Object { handle: self.at, path }));
            };
            let is_last = self.rest.is_empty();
            if is_last && !follow_last {
                let directory_path = path_of(self.at.as_fd())?;
                return Ok(Found::Place(Place {
                    directory: self.at,
                    directory_path,
                    name: owned(&name)?,
                    followed: self.followed,
                    links: self.links,
                }));
            }
            if let Some(object) = self.step(&name, is_last)? {
                return Ok(Found::Object(object));
            }
            follow_last = false;
        }
    }

    /// Components of `path` before those that are left; the last keeps its trailing slashes.
    fn prepend(&mut self, path: &[u8]) -> Result<(), Unreadable> {
        if path.first() == Some(&b'/') {
            self.at = openat2(CWD, c"/", DIRECTORY, Mode::empty(), NO_LINKS).map_err(Errno::from)?;
        }
        let (parents, last) = split(path);
        let mut last = last.to_vec();
        if last == b"/" {
            last = b".".to_vec();
        }
        if !self.rest.is_empty() {
            // In the middle of a path the slashes are separators.
            last.truncate(last.iter().rposition(|&byte| byte != b'/').map_or(0, |end| end + 1));
        }
        self.rest.push_front(last);
        for part in parents.split(|&byte| byte == b'/').rev().filter(|part| !part.is_empty()) {
            self.rest.push_front(part.to_vec());
        }
        Ok(())
    }

    /// Goes through one component. An object comes back where a magic link ends the walk.
    fn step(&mut self, name: &[u8], is_last: bool) -> Result<Option<Object>, Unreadable> {
        let trailing = name.last() == Some(&b'/');
        let plain = owned(trimmed(name))?;
        match plain.as_bytes() {
            b"." | b".." => {
                self.at = openat2(&self.at, &*plain, DIRECTORY, Mode::empty(), NO_LINKS).map_err(Errno::from)?;
                return Ok(None);
            }
            _ => {}
        }
        let entry =
            openat2(&self.at, &*plain, ENTRY, Mode::empty(), ResolveFlags::NO_MAGICLINKS).map_err(Errno::from)?;
        let stat = fstat(&entry).map_err(Errno::from)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                self.at = entry;
                Ok(None)
            }
            FileType::Symlink => {
                self.followed += 1;
                if self.followed > LINKS_AT_MOST || self.links == Links::None {
                    return Err(Errno::LOOP.into());
                }
                self.check_protected(&stat)?;
                if fstatfs(&entry).map_err(Errno::from)?.f_type == PROC_SUPER_MAGIC {
                    return self.proc_link(&plain, &entry, is_last && !trailing);
                }
                let text = readlinkat(&entry, c"", Vec::new()).map_err(Errno::from)?;
                self.continue_with(text, is_last && trailing)?;
                Ok(None)
            }
            _ => Err(Errno::NOTDIR.into()),
        }
    }

    fn continue_with(&mut self, text: CString, trailing: bool) -> Result<(), Unreadable> {
        if text.is_empty() {
            return Err(Errno::NOENT.into());
        }
        let mut text = text.into_bytes();
        if trailing && self.rest.is_empty() {
            text.push(b'/');
        }
        self.prepend(&text)
    }

    /// Links of procfs: `self` and `thread-self` mean the tool; the magic ones lead to an object that the kernel pins.
    fn proc_link(&mut self, name: &CStr, entry: &OwnedFd, is_last: bool) -> Result<Option<Object>, Unreadable> {
        let directory = fstat(&self.at).map_err(Errno::from)?;
        if directory.st_dev != self.resolver.proc_device {
            // Another instance shows other processes, the supervisor among them.
            return Err(Errno::ACCES.into());
        }
        if directory.st_ino == PROC_ROOT_INODE {
            let status = self.target.status()?;
            let text = match name.to_bytes() {
                b"self" => format!("{}", status.inner_process),
                b"thread-self" => format!("{}/task/{}", status.inner_process, status.inner_thread),
                _ => {
                    let text = readlinkat(entry, c"", Vec::new()).map_err(Errno::from)?;
                    self.continue_with(text, false)?;
                    return Ok(None);
                }
            };
            self.continue_with(CString::new(text).map_err(|_| Errno::NOENT)?, false)?;
            return Ok(None);
        }
        if self.links != Links::All {
            return Err(Errno::LOOP.into());
        }
        // The kernel follows it to the very object, if the process behind it may be looked into.
        let handle = openat2(&self.at, name, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::empty())
            .map_err(Errno::from)?;
        if is_last && self.rest.is_empty() {
            let path = path_of(handle.as_fd())?;
            return Ok(Some(Object { handle, path }));
        }
        match FileType::from_raw_mode(fstat(&handle).map_err(Errno::from)?.st_mode) {
            FileType::Directory => {
                self.at = handle;
                Ok(None)
            }
            _ => Err(Errno::NOTDIR.into()),
        }
    }

    /// `may_follow_link`, fs/namei.c: in a sticky directory that others may write, only one's own links are followed, or the
    /// directory owner's.
    fn check_protected(&self, link: &rustix::fs::Stat) -> Result<(), Unreadable> {
        if !self.resolver.protects_links || link.st_uid == rustix::process::geteuid().as_raw() {
            return Ok(());
        }
        let directory = fstat(&self.at).map_err(Errno::from)?;
        let sticky_for_all = libc::S_ISVTX | libc::S_IWOTH;
        if directory.st_mode & sticky_for_all == sticky_for_all && directory.st_uid != link.st_uid {
            return Err(Errno::ACCES.into());
        }
        Ok(())
    }
}

/// The directory part, with its slash, and the last component with its trailing slashes. `/` alone is `("", "/")`.
pub(super) fn split(path: &[u8]) -> (&[u8], &[u8]) {
    let end = path.iter().rposition(|&byte| byte != b'/').map_or(0, |last| last + 1);
    let start = path.get(..end).and_then(|part| part.iter().rposition(|&byte| byte == b'/')).map_or(0, |at| at + 1);
    if end == 0 { (&[], b"/") } else { path.split_at(start) }
}

/// Without trailing slashes.
pub(super) fn trimmed(path: &[u8]) -> &[u8] {
    path.get(..path.iter().rposition(|&byte| byte != b'/').map_or(0, |last| last + 1)).unwrap_or_default()
}

/// Whether the text of a directory part is already canonical if no link was met: no `.`, `..` or doubled slash.
pub(super) fn is_plain(parents: &[u8]) -> bool {
    let inner = trimmed(parents);
    let inner = inner.strip_prefix(b"/").unwrap_or(inner);
    !inner.is_empty() && inner.split(|&byte| byte == b'/').all(|part| !matches!(part, b"" | b"." | b".."))
}

fn owned(bytes: &[u8]) -> Result<CString, Errno> {
    CString::new(bytes).map_err(|_| Errno::INVAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_split_before_its_last_component() {
        for (path, parents, name) in [
            ("a", "", "a"),
            ("a/", "", "a/"),
            ("/a", "/", "a"),
            ("a/b//", "a/", "b//"),
            ("/", "", "/"),
            ("///", "", "/"),
            ("a//b", "a//", "b"),
            ("..", "", ".."),
        ] {
            let (p, n) = split(path.as_bytes());
            assert_eq!((p, n), (parents.as_bytes(), name.as_bytes()), "{path}");
        }
    }

    #[test]
    fn only_a_text_without_dots_is_canonical() {
        assert!(is_plain(b"/a/b/"));
        for text in ["/", "/a/../", "./", "a//b", ""] {
            assert!(!is_plain(text.as_bytes()), "{text}");
        }
    }
}
