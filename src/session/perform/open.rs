//! open(2) and its family, and truncate(2): files come into being or are opened here and go to the tool as descriptors.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, fstat, openat2, readlinkat, statat};

use super::turns::Turn;
use super::{Kind, Run, done, file_type, is_proc, kind_of, refuse_acting, refuse_set_id};
use super::{foresee, guarded};
use crate::common::errno::Errno;
use crate::common::path::RawPath;
use crate::common::request::Operation;
use crate::session::decimal::Decimal;
use crate::session::decode::{At, Attempt};
use crate::session::judge::{Approvals, Halt, Permit, Reach, Wanted};
use crate::session::listener::{Answer, Made};
use crate::session::resolve::{Found, Object, Place, path_of, split, trimmed};
use crate::session::sys::{self, OpenHow};

/// openat2(2), linux/openat2.h: never through a symbolic or magic link.
const NO_LINKS: u64 = libc::RESOLVE_NO_SYMLINKS | libc::RESOLVE_NO_MAGICLINKS;
const LINKS_AT_MOST: u32 = 40;
/// More threads than that do not open files at once between the look at a limit and the file's arrival.
const FEW: u64 = 64;
/// `/dev/null`, `zero`, `full`, `random`, `urandom`: Documentation/admin-guide/devices.txt.
const HARMLESS: [u64; 5] = [makedev(1, 3), makedev(1, 5), makedev(1, 7), makedev(1, 8), makedev(1, 9)];
/// `__O_TMPFILE`, which is no valid flag without `O_DIRECTORY`.
const TMPFILE_BIT: i32 = libc::O_TMPFILE & !libc::O_DIRECTORY;

/// A device number of glibc's, for numbers that fit a byte, makedev(3).
const fn makedev(major: u64, minor: u64) -> u64 {
    major << 8 | minor
}

fn has(how: OpenHow, flags: i32) -> bool {
    let flags = u64::from(flags as u32);
    how.flags & flags == flags
}

/// Whether the floor allows it everywhere: nothing is written, created or cut, whatever the other flags.
fn only_reads(how: OpenHow) -> bool {
    has(how, libc::O_PATH)
        || (how.flags & libc::O_ACCMODE as u64 == libc::O_RDONLY as u64
            && !has(how, libc::O_CREAT)
            && !has(how, libc::O_TRUNC))
}

/// Whether what is opened can be read by the descriptor too.
fn reads_too(how: OpenHow) -> bool {
    how.flags & libc::O_ACCMODE as u64 != libc::O_WRONLY as u64
}

/// An open for reading that makes the file if it is not there, as lock files are opened: of one that is there it only reads.
fn creates_only_if_missing(how: OpenHow) -> bool {
    how.flags & libc::O_ACCMODE as u64 == libc::O_RDONLY as u64
        && has(how, libc::O_CREAT)
        && !has(how, libc::O_EXCL)
        && !has(how, libc::O_TRUNC)
}

impl Run<'_> {
    pub(super) fn open(&self, at: &At, how: OpenHow, strict: bool, approvals: &mut Approvals) -> Result<Answer, Halt> {
        let opened = self.open_with_room(at, how, strict, approvals);
        match opened {
            // The kernel takes a number before it walks the path, and after it has looked at the flags and copied the path.
            Err(Halt::Answer(Answer::Errno(errno)))
                if at.path.as_ref().is_ok_and(|path| !path.is_empty())
                    && !matches!(errno, Errno::INVAL | Errno::MFILE | Errno::INTR)
                    && self.target.room_for_files()? == 0 =>
            {
                Err(Errno::MFILE.into())
            }
            other => other,
        }
    }

    fn open_with_room(&self, at: &At, how: OpenHow, strict: bool, approvals: &mut Approvals) -> Result<Answer, Halt> {
        if only_reads(how) {
            return match self.judge().scratch().harmless(self.attempt) {
                Some(harmless) => Ok(Answer::Native(harmless)),
                None => self.open_reading(at, how, approvals),
            };
        }
        if !strict && (has(how, TMPFILE_BIT) || has(how, libc::O_CREAT | libc::O_DIRECTORY)) {
            // What no path can make right is refused before the path is looked at.
            sys::check_open_how(how)?;
        }
        refuse_set_id(how.mode as u32)?;
        if how.resolve & BY_THE_KERNEL != 0 {
            return self.open_resolving(at, how, approvals);
        }
        if has(how, libc::O_TMPFILE) {
            let object = self.resolver().object(self.target, at, !has(how, libc::O_NOFOLLOW))?;
            return self.open_unnamed(object, how, approvals);
        }
        let mut found = self.resolver().place(self.target, at)?;
        loop {
            let place = match found {
                Found::Object(object) => return self.reopen(object, how, approvals),
                Found::Place(place) if approvals.names_moved() => place.where_it_is()?,
                Found::Place(place) => place,
            };
            match self.open_place(&place, how, approvals) {
                Err(Halt::Answer(Answer::Errno(Errno::LOOP)))
                    if !has(how, libc::O_NOFOLLOW) || place.has_trailing_slash() =>
                {
                    // Not a link any more: exchanged in between, so start over.
                    found = self.resolver().follow(self.target, &place)?.ok_or(Halt::Again)?;
                }
                other => return other,
            }
        }
    }

    /// openat2(2) for reading. Its flags are in memory, which by the time of a native run may ask for a cut that the floor does
    /// not see, so it is opened here, if that is the same to the tool: see [`Run::refuse_for_the_tool`].
    fn open_reading(&self, at: &At, how: OpenHow, approvals: &mut Approvals) -> Result<Answer, Halt> {
        if how.resolve & BY_THE_KERNEL != 0 {
            return self.open_resolving(at, how, approvals);
        }
        let object = self.resolver().object(self.target, at, !has(how, libc::O_NOFOLLOW))?;
        self.reopen(object, how, approvals)
    }

    fn is_strict(&self) -> bool {
        matches!(self.attempt, Attempt::Open { strict: true, .. })
    }

    /// `ENOSYS` for an openat2(2) that only the tool itself could carry out, which whoever calls it has to reckon with (it came
    /// with Linux 5.6): with `O_PATH`, as seccomp(2) cannot give such a descriptor, and of what depends on who opens it, such as
    /// terminals and the files of procfs.
    fn refuse_for_the_tool(&self, object: &Object, how: OpenHow) -> Result<(), Halt> {
        if !self.is_strict() {
            return Ok(());
        }
        let stat = fstat(&object.handle).map_err(Errno::from)?;
        let is_plain = kind_of(object.handle.as_fd())? == Kind::Plain && !object.is_nameless();
        let kind = FileType::from_raw_mode(stat.st_mode);
        let is_the_same_to_all = match kind {
            FileType::RegularFile | FileType::Fifo => is_plain,
            FileType::Directory | FileType::Symlink | FileType::Socket => true,
            FileType::CharacterDevice => HARMLESS.contains(&stat.st_rdev),
            FileType::BlockDevice | FileType::Unknown => false,
        };
        match () {
            () if is_the_same_to_all && !has(how, libc::O_PATH) => Ok(()),
            () if has(how, libc::O_DIRECTORY) && kind != FileType::Directory => Err(Errno::NOTDIR.into()),
            () => Err(Errno::NOSYS.into()),
        }
    }

    /// Opens a name that is judged as it stands; a link there is `ELOOP`.
    fn open_place(&self, place: &Place, how: OpenHow, approvals: &mut Approvals) -> Result<Answer, Halt> {
        let path = place.path();
        if let Some(native) = self.judge().scratch().enforced(self.attempt, &[&path]) {
            let stays =
                has(how, libc::O_NOFOLLOW) && !place.has_trailing_slash() || has(how, libc::O_CREAT | libc::O_EXCL);
            // A link in scratch may lead to where only the supervisor can open.
            return if stays || !place.is_link() { Ok(Answer::Native(native)) } else { Err(Errno::LOOP.into()) };
        }
        let kind = kind_of(place.directory.as_fd())?;
        if kind == Kind::Proc {
            return self.open_of_proc(place, &path, how);
        }
        let there = file_type(place);
        if creates_only_if_missing(how) && there == Some(FileType::RegularFile) {
            if let Some(harmless) = self.judge().scratch().harmless(self.attempt) {
                return Ok(Answer::Native(harmless));
            }
            let object = Object { handle: guarded::made(place)?, path };
            return self.reopen(
                object,
                OpenHow { flags: how.flags & !(libc::O_CREAT as u64), mode: 0, ..how },
                approvals,
            );
        }
        if kind == Kind::Acting {
            return Err(Errno::ACCES.into());
        }
        if self.is_strict() && matches!(there, Some(FileType::CharacterDevice | FileType::BlockDevice)) {
            let object = Object { handle: guarded::made(place)?, path };
            return self.reopen(object, how, approvals);
        }
        let permit = self.permit_open(place, path, how, there, approvals)?;
        let how = OpenHow { resolve: NO_LINKS, ..how };
        if there == Some(FileType::RegularFile) && has(how, libc::O_CREAT) && opens_without_creating(place, how) {
            return self.open_existing(place, how, &permit, approvals);
        }
        let room = self.check_room(how)?;
        let is_fifo_now = there == Some(FileType::Fifo);
        let _waits = is_fifo_now.then(|| self.waits()).transpose()?;
        if !has(how, libc::O_CREAT) {
            self.still_wanted()?;
            let opened = sys::openat2(place.directory.as_fd(), &place.name, how)?;
            return self.hand_over_judged(opened, how, &permit, approvals);
        }
        if is_fifo_now && !has(how, libc::O_EXCL) {
            // It may wait for a reader, which is nobody's turn; and nothing is made.
            return self.open_existing(place, how, &permit, approvals);
        }
        // Of what is made here nothing has to be read by consent, of what was there already perhaps; and what is made waits for
        // nobody.
        let fresh = there.is_none();
        let exclusive = if fresh { libc::O_EXCL as u64 } else { 0 };
        self.take_umask()?;
        let opened = self.in_turn(Turn::Shared, &[place], approvals, || {
            if !fresh && !has(how, libc::O_EXCL) && file_type(place) == Some(FileType::Fifo) {
                return Err(Halt::Again);
            }
            let flagged = OpenHow { flags: how.flags | exclusive, ..how };
            let make = || match sys::openat2(place.directory.as_fd(), &place.name, flagged) {
                Err(Errno::EXIST) if fresh && !has(how, libc::O_EXCL) => Err(Halt::Again),
                opened => Ok(opened?),
            };
            self.making(place, make, |file| file.try_clone().map_err(|error| Errno::of(&error)))
        })?;
        if fresh || has(how, libc::O_EXCL) {
            // Where numbers are few another thread may take the last one before this file gets it.
            let made = if room <= FEW { Some(Made::new(place)?) } else { None };
            let close_on_exec = has(how, libc::O_CLOEXEC);
            return Ok(Answer::File { file: opened, close_on_exec, made });
        }
        self.hand_over_judged(opened, how, &permit, approvals)
    }

    /// A file of procfs acts on a process, or on the machine. A tool gets those by which a process sets itself up, of its own
    /// process alone: `mem` and the like of another would be a hand on another call.
    fn open_of_proc(&self, place: &Place, path: &RawPath, how: OpenHow) -> Result<Answer, Halt> {
        // Nothing is made in procfs; what is missing is missing.
        let stat = statat(&place.directory, place.name.as_c_str(), AtFlags::SYMLINK_NOFOLLOW).map_err(Errno::from)?;
        let is_link = FileType::from_raw_mode(stat.st_mode) == FileType::Symlink;
        if is_link && !has(how, libc::O_CREAT | libc::O_EXCL) {
            // A link that is not followed is no directory either, and that is noticed first.
            let unfollowed = has(how, libc::O_NOFOLLOW | libc::O_DIRECTORY) && !place.has_trailing_slash();
            return Err(if unfollowed { Errno::NOTDIR } else { Errno::LOOP }.into());
        }
        if !is_own_setting(path, self.target.status()?.inner_process) {
            return Err(foresee::open(place, how).unwrap_or(Errno::ACCES).into());
        }
        self.still_wanted()?;
        let how = OpenHow { resolve: NO_LINKS, ..how };
        let opened = sys::openat2(place.directory.as_fd(), &place.name, how)?;
        self.hand_over(opened, how, &self.judge().permit_nameless())
    }

    /// An `O_CREAT` that finds its file makes nothing: it needs no umask, which is slow to read, and no turn.
    fn open_existing(
        &self,
        place: &Place,
        how: OpenHow,
        permit: &Permit,
        approvals: &mut Approvals,
    ) -> Result<Answer, Halt> {
        let how = OpenHow { flags: how.flags & !(libc::O_CREAT as u64), mode: 0, ..how };
        self.check_room(how)?;
        self.still_wanted()?;
        match sys::openat2(place.directory.as_fd(), &place.name, how) {
            Err(Errno::NOENT) => Err(Halt::Again),
            opened => self.hand_over_judged(opened?, how, permit, approvals),
        }
    }

    /// The permit. `there` is what was seen at the name.
    fn permit_open(
        &self,
        place: &Place,
        path: RawPath,
        how: OpenHow,
        there: Option<FileType>,
        approvals: &mut Approvals,
    ) -> Result<Permit, Halt> {
        let operation = match there {
            None if has(how, libc::O_CREAT) => Operation::Create,
            _ if has(how, libc::O_TRUNC) => Operation::Truncate,
            _ => Operation::OpenWrite,
        };
        // Whether the name is there may change at any time, and a file that stands where a directory is expected, such as a
        // `.git` that names another, speaks for all that is guarded below.
        let mut wanted = vec![Wanted::new(operation, path.clone()).reaching(Reach::Below)];
        if reads_too(how) && operation != Operation::Create && self.judge().guards_read(&path) {
            // Asked before anything is cut; by its other names it is judged once it is open.
            wanted.push(Wanted::reading(path, false));
        }
        self.judge().permit(self.target, &wanted, approvals, || foresee::open(place, how))
    }

    /// `O_TMPFILE`: a file without a name in this directory.
    fn open_unnamed(&self, object: Object, how: OpenHow, approvals: &mut Approvals) -> Result<Answer, Halt> {
        if let Some(native) = self.judge().scratch().enforced(self.attempt, &[&object.path]) {
            return Ok(Answer::Native(native));
        }
        if !object.is_directory()? {
            return Err(Errno::NOTDIR.into());
        }
        if is_proc(object.handle.as_fd())? {
            // Which cannot be, and the kernel says why.
            return Err(sys::openat2(object.handle.as_fd(), c".", how).err().unwrap_or(Errno::ACCES).into());
        }
        refuse_acting(object.handle.as_fd(), Errno::ACCES)?;
        let wanted = Wanted::of(Operation::Create, &object)?.directory(true);
        let permit =
            self.judge().permit(self.target, &[wanted], approvals, || foresee::in_directory(&object.handle))?;
        self.check_room(how)?;
        self.take_umask()?;
        self.still_wanted()?;
        // "." in the pinned directory; its own flags must not see the trailing component as a link.
        let how = OpenHow { resolve: NO_LINKS, ..how };
        self.hand_over(sys::openat2(object.handle.as_fd(), c".", how)?, how, &permit)
    }

    /// Opens a pinned object anew: what a magic link or a descriptor path led to.
    fn reopen(&self, object: Object, how: OpenHow, approvals: &mut Approvals) -> Result<Answer, Halt> {
        if has(how, libc::O_CREAT | libc::O_EXCL) {
            return Err(Errno::EXIST.into());
        }
        if has(how, libc::O_CREAT) && object.is_directory()? {
            return Err(Errno::ISDIR.into());
        }
        if object.is_nameless()
            && let Some(harmless) = self.judge().scratch().harmless(self.attempt)
        {
            // A pipe or memfd of its own: Landlock lets the kernel reopen these and nothing else.
            return Ok(Answer::Native(harmless));
        }
        let path = object.judged_path()?;
        if let Some(native) = self.judge().scratch().enforced(self.attempt, &[&path]) {
            return Ok(Answer::Native(native));
        }
        self.refuse_for_the_tool(&object, how)?;
        if !only_reads(how) {
            refuse_acting(object.handle.as_fd(), Errno::ACCES)?;
        }
        if FileType::from_raw_mode(fstat(&object.handle).map_err(Errno::from)?.st_mode) == FileType::Symlink {
            return Err(Errno::LOOP.into());
        }
        let mut wanted = Vec::new();
        if !only_reads(how) {
            let operation = if has(how, libc::O_TRUNC) { Operation::Truncate } else { Operation::OpenWrite };
            wanted.push(Wanted::of(operation, &object)?.reaching(Reach::Below));
        }
        if let Some(reads) = self.reads().filter(|_| reads_too(how)) {
            wanted.extend(reads.wanted(object.handle.as_fd())?);
        }
        let permit = self.judge().permit(self.target, &wanted, approvals, || foresee::write(&object.handle))?;
        self.check_room(how)?;
        self.still_wanted()?;
        // The pinned handle is a descriptor of ours; opening it by its number reaches that inode and no other.
        let creating = u64::from((libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW) as u32);
        let how = OpenHow { flags: how.flags & !creating, mode: 0, resolve: 0 };
        let kind = FileType::from_raw_mode(fstat(&object.handle).map_err(Errno::from)?.st_mode);
        let _waits = (kind == FileType::Fifo).then(|| self.waits()).transpose()?;
        let mut name = Decimal::default();
        let opened = sys::openat2(CWD.as_fd(), name.of(object.handle.as_raw_fd()), how)?;
        self.hand_over_judged(opened, how, &permit, approvals)
    }

    /// openat2(2) with `RESOLVE_*`: the kernel walks by the tool's own rules from the tool's directory, and what it finds
    /// is pinned, judged and opened. Magic links are never followed here.
    fn open_resolving(&self, at: &At, how: OpenHow, approvals: &mut Approvals) -> Result<Answer, Halt> {
        let mut path = at.path.clone()?;
        if path.is_empty() {
            return Err(Errno::NOENT.into());
        }
        if path.as_bytes().starts_with(b"/") && how.resolve & libc::RESOLVE_BENEATH != 0 {
            return Err(Errno::XDEV.into());
        }
        let base = self.resolver().descriptor(self.target, at.directory);
        let base: OwnedFd = match base {
            Ok(object) => object.handle,
            // An absolute path needs no directory, unless it is confined to one.
            Err(_) if path.as_bytes().starts_with(b"/") && how.resolve & CONFINED == 0 => {
                openat2(CWD, c"/", OFlags::PATH, Mode::empty(), ResolveFlags::empty()).map_err(Errno::from)?
            }
            Err(unreadable) => return Err(unreadable.into()),
        };
        let resolve = ResolveFlags::from_bits_retain(how.resolve) | ResolveFlags::NO_MAGICLINKS;
        let nofollow = if has(how, libc::O_NOFOLLOW) || has(how, libc::O_CREAT | libc::O_EXCL) {
            OFlags::NOFOLLOW
        } else {
            OFlags::empty()
        };
        let (_, last) = split(path.as_bytes());
        let trailing_slash = last.ends_with(b"/") && !matches!(trimmed(last), b"" | b"." | b"..");
        for _ in 0..LINKS_AT_MOST {
            if has(how, libc::O_CREAT) && trailing_slash {
                pinned_parents(&base, &path, resolve)?;
                return Err(Errno::ISDIR.into());
            }
            let pinned = openat2(&base, &*path, OFlags::PATH | OFlags::CLOEXEC | nofollow, Mode::empty(), resolve);
            match pinned {
                Ok(handle) if has(how, libc::O_TMPFILE) => {
                    let path = path_of(handle.as_fd())?;
                    return self.open_unnamed(Object { handle, path }, how, approvals);
                }
                Ok(handle) => {
                    let path = path_of(handle.as_fd())?;
                    return self.reopen(Object { handle, path }, how, approvals);
                }
                Err(rustix::io::Errno::NOENT) if has(how, libc::O_CREAT) => {}
                // Somebody renamed something on the machine meanwhile, openat2(2).
                Err(rustix::io::Errno::AGAIN) if how.resolve & libc::RESOLVE_CACHED == 0 => return Err(Halt::Again),
                Err(errno) => return Err(Errno::from(errno).into()),
            }
            let (parents, name) = split(path.as_bytes());
            let directory = pinned_parents(&base, &path, resolve)?;
            let directory_path = path_of(directory.as_fd())?;
            let name = CString::new(name).map_err(|_| Errno::INVAL)?;
            if let Ok(text) = readlinkat(&directory, &*name, Vec::new()) {
                if resolve.contains(ResolveFlags::NO_SYMLINKS) || nofollow != OFlags::empty() {
                    return Err(if nofollow.is_empty() { Errno::LOOP } else { Errno::EXIST }.into());
                }
                // A link to nowhere: what would be created is where it points, by the same rules.
                let mut next = if text.as_bytes().starts_with(b"/") { Vec::new() } else { parents.to_vec() };
                next.extend_from_slice(text.as_bytes());
                path = CString::new(next).map_err(|_| Errno::INVAL)?;
                continue;
            }
            let place = Place::new(directory, directory_path, name);
            return self.open_place(&place, how, approvals);
        }
        Err(Errno::LOOP.into())
    }

    /// An open with an effect of its own needs a number for its file first. How many there are, where that was looked at.
    fn check_room(&self, how: OpenHow) -> Result<u64, Halt> {
        let has_effect = has(how, libc::O_CREAT) || has(how, libc::O_TRUNC) || has(how, libc::O_TMPFILE);
        if !has_effect {
            return Ok(u64::MAX);
        }
        match self.target.room_for_files()? {
            0 => Err(Errno::MFILE.into()),
            room => Ok(room),
        }
    }

    fn hand_over(&self, file: OwnedFd, how: OpenHow, _permit: &Permit) -> Result<Answer, Halt> {
        Ok(Answer::File { file, close_on_exec: has(how, libc::O_CLOEXEC), made: None })
    }

    /// As [`Run::hand_over`], for what was there before: reading it may need a permit of its own, which is for the very file
    /// that is open.
    fn hand_over_judged(
        &self,
        file: OwnedFd,
        how: OpenHow,
        permit: &Permit,
        approvals: &mut Approvals,
    ) -> Result<Answer, Halt> {
        if reads_too(how) {
            self.permit_reading(file.as_fd(), approvals)?;
        }
        self.hand_over(file, how, permit)
    }

    /// truncate(2).
    pub(super) fn truncate(&self, at: &At, length: i64, approvals: &mut Approvals) -> Result<Answer, Halt> {
        if length < 0 {
            return Err(Errno::INVAL.into());
        }
        let object = self.resolver().object(self.target, at, true)?;
        let path = object.judged_path()?;
        if let Some(native) = self.judge().scratch().enforced(self.attempt, &[&path]) {
            return Ok(Answer::Native(native));
        }
        if is_proc(object.handle.as_fd())? {
            return Err(foresee::write(&object.handle).unwrap_or(Errno::ACCES).into());
        }
        refuse_acting(object.handle.as_fd(), Errno::ACCES)?;
        let wanted = Wanted::of(Operation::Truncate, &object)?.reaching(Reach::Below);
        let _permit = self.judge().permit(self.target, &[wanted], approvals, || foresee::write(&object.handle))?;
        self.still_wanted()?;
        self.check_size(&object.handle, length)?;
        let mut name = Decimal::default();
        done(sys::truncate(name.of(object.handle.as_raw_fd()), length))
    }

    /// A file that would grow beyond the tool's `RLIMIT_FSIZE` is a signal and `EFBIG` (`inode_newsize_ok`, fs/attr.c), unless
    /// the kernel has another error to give before.
    fn check_size(&self, file: &OwnedFd, length: i64) -> Result<(), Halt> {
        let limit = self.target.file_size_limit()?;
        if u64::try_from(length).is_ok_and(|length| length <= limit) {
            return Ok(());
        }
        let stat = fstat(file).map_err(Errno::from)?;
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        if !is_file || stat.st_size >= length || foresee::write(file).is_some() {
            return Ok(());
        }
        self.target.signal(rustix::process::Signal::XFSZ)?;
        Err(Errno::FBIG.into())
    }
}

/// Files by which a process changes nothing but itself when it writes them, proc(5).
const OWN_SETTINGS: [&[u8]; 6] =
    [b"autogroup", b"comm", b"coredump_filter", b"oom_adj", b"oom_score_adj", b"timerslack_ns"];

/// Whether this is one of them, of this process or one of its threads, in the session's `/proc`.
fn is_own_setting(path: &RawPath, process: i32) -> bool {
    let names: Vec<&[u8]> = path.components().collect();
    let is_process = |name: &[u8]| name == process.to_string().as_bytes();
    match names.as_slice() {
        [b"proc", pid, name] | [b"proc", pid, b"task", _, name] => is_process(pid) && OWN_SETTINGS.contains(name),
        _ => false,
    }
}

/// Whether an open of a regular file that is there does the same without `O_CREAT`: not with `O_EXCL`, not for a name that
/// asks for a directory, and not in a sticky one (fs.protected_regular, proc_sys_fs(5)).
fn opens_without_creating(place: &Place, how: OpenHow) -> bool {
    let writes = how.flags & libc::O_ACCMODE as u64 != libc::O_RDONLY as u64;
    writes
        && !has(how, libc::O_EXCL)
        && !place.has_trailing_slash()
        && fstat(&place.directory).is_ok_and(|stat| stat.st_mode & libc::S_ISVTX == 0)
}

/// Rules that depend on every step of the walk.
const BY_THE_KERNEL: u64 = libc::RESOLVE_BENEATH | libc::RESOLVE_IN_ROOT | libc::RESOLVE_NO_XDEV;

const CONFINED: u64 = libc::RESOLVE_BENEATH | libc::RESOLVE_IN_ROOT;

/// The directory in which the last component of a path is looked up.
fn pinned_parents(base: &OwnedFd, path: &CStr, resolve: ResolveFlags) -> Result<OwnedFd, Errno> {
    let (parents, _) = split(path.to_bytes());
    let parents = CString::new(if parents.is_empty() { b"." } else { parents }).map_err(|_| Errno::INVAL)?;
    Ok(openat2(base, &*parents, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty(), resolve)?)
}
