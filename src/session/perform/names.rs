//! Names come and go: mkdir(2), rmdir(2), unlink(2), rename(2), link(2), symlink(2), mknod(2).
//!
//! Each acts with `*at` calls on the pinned directory and the one last component, which none of these calls follows.

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd};

use rustix::fs::{AtFlags, CWD, FileType, statat};

use super::turns::Turn;
use super::{Run, done, file_type, foresee, guarded, refuse_acting_name, refuse_set_id, tree};
use crate::common::errno::Errno;
use crate::common::path::RawPath;
use crate::common::request::Operation;
use crate::session::decimal::Decimal;
use crate::session::decode::At;
use crate::session::judge::{Approvals, Halt, Permit, Reach, Wanted};
use crate::session::listener::Answer;
use crate::session::resolve::{Found, Object, Place, split};
use crate::session::sys;

const RENAME_FLAGS: u32 = libc::RENAME_NOREPLACE | libc::RENAME_EXCHANGE | libc::RENAME_WHITEOUT;

impl Run<'_> {
    /// The place of a path whose last component is not followed. A magic link there is an entry of `/proc`, where no name
    /// can be made or removed.
    pub(super) fn place(&self, at: &At, approvals: &Approvals) -> Result<Place, Halt> {
        match self.resolver().place(self.target, at)? {
            Found::Place(place) if approvals.names_moved() => Ok(place.where_it_is()?),
            Found::Place(place) => Ok(place),
            Found::Object(_) => Err(Errno::ACCES.into()),
        }
    }

    /// As [`Run::place`], for the first of two paths: the kernel looks at its directory's right to search before it looks at
    /// the second path at all.
    fn searchable_place(&self, at: &At, approvals: &Approvals) -> Result<Place, Halt> {
        let place = self.place(at, approvals)?;
        foresee::search(&place.directory).map_or(Ok(place), |errno| Err(errno.into()))
    }

    /// Judges one place, or lets the floor: `Ok(Err(answer))` is a native answer.
    pub(super) fn judged(
        &self,
        place: &Place,
        wanted: impl FnOnce(RawPath) -> Wanted,
        approvals: &mut Approvals,
        foresee: impl Fn() -> Option<Errno>,
    ) -> Result<Result<Permit, Answer>, Halt> {
        let path = place.path();
        if let Some(native) = self.judge().scratch().enforced(self.attempt, &[&path]) {
            return Ok(Err(Answer::Native(native)));
        }
        refuse_acting_name(place)?;
        let wanted = if place.is_special() { Vec::new() } else { vec![wanted(path)] };
        let permit = self.judge().permit(self.target, &wanted, approvals, foresee)?;
        self.still_wanted()?;
        Ok(Ok(permit))
    }

    pub(super) fn make_directory(&self, at: &At, mode: u32, approvals: &mut Approvals) -> Result<Answer, Halt> {
        let place = self.place(at, approvals)?;
        let wanted = |path| Wanted::new(Operation::MakeDirectory, path).directory(true);
        match self.judged(&place, wanted, approvals, || foresee::make(&place))? {
            Ok(permit) => self.create(&permit, Turn::Shared, &place, approvals, || {
                self.making_directory(&place, || done(sys::mkdirat(place.directory.as_fd(), &place.name, mode)))
            }),
            Err(native) => Ok(native),
        }
    }

    pub(super) fn make_node(&self, at: &At, mode: u32, device: u32, approvals: &mut Approvals) -> Result<Answer, Halt> {
        refuse_set_id(mode)?;
        let is_device = match mode & libc::S_IFMT {
            0 | libc::S_IFREG | libc::S_IFIFO | libc::S_IFSOCK => false,
            // The mark of an overlay that a name is gone opens nothing.
            libc::S_IFCHR if device == 0 => false,
            // Needs CAP_MKNOD, which the supervisor does not have either.
            libc::S_IFCHR | libc::S_IFBLK => true,
            libc::S_IFDIR => return Err(Errno::PERM.into()),
            _ => return Err(Errno::INVAL.into()),
        };
        let place = self.place(at, approvals)?;
        let wanted = |path| Wanted::new(Operation::MakeNode, path).reaching(Reach::Below);
        let foresee = || foresee::make(&place).or(is_device.then_some(Errno::PERM));
        match self.judged(&place, wanted, approvals, foresee)? {
            Ok(permit) => self.create(&permit, Turn::Alone, &place, approvals, || {
                let make = || done(sys::mknodat(place.directory.as_fd(), &place.name, mode, device));
                self.making(&place, make, |_| guarded::made(&place))
            }),
            Err(native) => Ok(native),
        }
    }

    pub(super) fn symlink(&self, text: &CStr, at: &At, approvals: &mut Approvals) -> Result<Answer, Halt> {
        let place = self.place(at, approvals)?;
        let wanted =
            |path| Wanted::new(Operation::Symlink, path).other(RawPath::new(text.to_bytes())).reaching(Reach::Link);
        match self.judged(&place, wanted, approvals, || foresee::make(&place))? {
            Ok(_permit) => self.in_turn(Turn::Shared, &[&place], approvals, || {
                done(sys::symlinkat(text, place.directory.as_fd(), &place.name))
            }),
            Err(native) => Ok(native),
        }
    }

    /// Creates with the tool's umask.
    pub(super) fn create(
        &self,
        _permit: &Permit,
        turn: Turn,
        place: &Place,
        approvals: &mut Approvals,
        make: impl FnOnce() -> Result<Answer, Halt>,
    ) -> Result<Answer, Halt> {
        self.take_umask()?;
        self.in_turn(turn, &[place], approvals, make)
    }

    pub(super) fn remove(&self, at: &At, flags: i32, approvals: &mut Approvals) -> Result<Answer, Halt> {
        if flags & !libc::AT_REMOVEDIR != 0 {
            return Err(Errno::INVAL.into());
        }
        let directory = flags & libc::AT_REMOVEDIR != 0;
        let operation = if directory { Operation::RemoveDirectory } else { Operation::Unlink };
        let place = self.place(at, approvals)?;
        let wanted = |path| Wanted::new(operation, path).directory(directory);
        match self.judged(&place, wanted, approvals, || foresee::remove(&place, directory))? {
            Ok(_permit) => done(self.unlink(&place, flags)),
            Err(native) => Ok(native),
        }
    }

    pub(super) fn rename(&self, from: &At, to: &At, flags: u32, approvals: &mut Approvals) -> Result<Answer, Halt> {
        let exchange = flags & libc::RENAME_EXCHANGE != 0;
        if flags & !RENAME_FLAGS != 0 || (exchange && flags != libc::RENAME_EXCHANGE) {
            return Err(Errno::INVAL.into());
        }
        let (old, new, is_one_directory) = self.ends(from, to, approvals)?;
        let (old_path, new_path) = (old.path(), new.path());
        if let Some(native) = self.judge().scratch().enforced(self.attempt, &[&old_path, &new_path]) {
            return Ok(Answer::Native(native));
        }
        refuse_acting_name(&old)?;
        refuse_acting_name(&new)?;
        let wanted = self.ends_of_rename(&old, &new, exchange)?;
        let _permit = self.judge().permit(self.target, &wanted, approvals, || foresee::rename(&old, &new, flags))?;
        let directories: &[&Place] = if is_one_directory { &[&old] } else { &[&old, &new] };
        self.in_turn(Turn::Alone, directories, approvals, || {
            if self.ends_of_rename(&old, &new, exchange)? != wanted {
                return Err(Halt::Again);
            }
            self.hold_renamed(&old, &new, exchange)?;
            self.still_wanted()?;
            done(self.rename_name(&old, &new, flags))
        })
    }

    /// Where a rename begins and ends, and whether in one directory, which is then walked to once.
    fn ends(&self, from: &At, to: &At, approvals: &Approvals) -> Result<(Place, Place, bool), Halt> {
        let parents = |at: &At| {
            let path = at.path.as_ref().ok()?.as_bytes();
            Some((path.first() == Some(&b'/'), split(path).0.to_vec()))
        };
        let is_one = from.directory == to.directory && from.links == to.links && parents(from) == parents(to);
        let old = self.searchable_place(from, approvals)?;
        match &to.path {
            Ok(path) if is_one && !path.is_empty() => {
                let new = old.beside(split(path.as_bytes()).1)?;
                Ok((old, new, true))
            }
            _ => Ok((old, self.searchable_place(to, approvals)?, false)),
        }
    }

    /// What a rename does at its two ends, as they are now.
    fn ends_of_rename(&self, old: &Place, new: &Place, exchange: bool) -> Result<Vec<Wanted>, Halt> {
        if old.is_special() || new.is_special() {
            return Ok(Vec::new());
        }
        let (old_path, new_path) = (old.path(), new.path());
        let (old_type, new_type) = (file_type(old), file_type(new));
        let mut source = self.end_of_rename(old, old_type, &old_path, &new_path)?;
        let mut destination = self.end_of_rename(new, new_type, &new_path, &old_path)?;
        if [&source, &destination].iter().any(|end| end.reach == Reach::Link) {
            // A link that leaves one end comes to be at the other.
            (source.reach, destination.reach) = (Reach::Link, Reach::Link);
        }
        // What comes to be at one end is what the other is; either may be scratch, where nothing is judged.
        if !exchange {
            destination.is_directory = source.is_directory;
        }
        destination.moved.extend_from_slice(&source.moved);
        source.moved.clone_from(&destination.moved);
        let mut sockets = self.socket_at(old, old_type, &old_path, &new_path)?.into_iter().collect::<Vec<_>>();
        if exchange {
            sockets.extend(self.socket_at(new, new_type, &new_path, &old_path)?);
        }
        sockets.extend([source, destination]);
        Ok(sockets)
    }

    /// What it takes besides where a socket leaves this place for another.
    fn socket_at(
        &self,
        here: &Place,
        there: Option<FileType>,
        path: &RawPath,
        other: &RawPath,
    ) -> Result<Option<Wanted>, Halt> {
        match there {
            Some(FileType::Socket) => self.socket_renamed(guarded::made(here)?, path, other),
            Some(FileType::Directory) => self.keep_sockets(path, other).map(|()| None),
            _ => Ok(None),
        }
    }

    /// One end of a rename, with the names below it where a directory moves.
    fn end_of_rename(
        &self,
        here: &Place,
        kind: Option<FileType>,
        path: &RawPath,
        other: &RawPath,
    ) -> Result<Wanted, Halt> {
        let is_directory = kind == Some(FileType::Directory);
        let reach = if kind == Some(FileType::Symlink) { Reach::Link } else { Reach::Below };
        let mut wanted =
            Wanted::new(Operation::Rename, path.clone()).directory(is_directory).other(other.clone()).reaching(reach);
        if is_directory && self.judge().guards_names_anywhere() {
            wanted = wanted.moving(tree::names_below(here, path, other, |name| self.judge().guards_name(name))?);
        }
        Ok(wanted)
    }

    pub(super) fn link(&self, from: &At, to: &At, flags: i32, approvals: &mut Approvals) -> Result<Answer, Halt> {
        if flags & !(libc::AT_SYMLINK_FOLLOW | libc::AT_EMPTY_PATH) != 0 {
            return Err(Errno::INVAL.into());
        }
        let mut source = self.link_source(from, flags)?;
        if let Found::Place(place) = source {
            source = Found::Place(if approvals.names_moved() { place.where_it_is()? } else { place });
        }
        // The old path is looked up whole before the new one.
        if let Found::Place(place) = &source
            && let Some(errno) = foresee::existing(place)
        {
            return Err(errno.into());
        }
        let new = self.place(to, approvals)?;
        let new_path = new.path();
        let source_path = match &source {
            Found::Place(place) => Some(place.path()),
            // A file without a name (O_TMPFILE) was opened by consent, and no name of it is taken away from anyone.
            Found::Object(object) if object.has_no_name()? => None,
            Found::Object(object) => Some(object.judged_path()?),
        };
        let objects: Vec<&RawPath> = source_path.iter().chain([&new_path]).collect();
        if let Some(native) = self.judge().scratch().enforced(self.attempt, &objects) {
            return Ok(Answer::Native(native));
        }
        refuse_acting_name(&new)?;
        let is_link = is_symlink(&source)?;
        let socket = || match (&source, &source_path) {
            (Found::Place(old), Some(path)) => self.socket_at(old, file_type(old), path, &new_path),
            (Found::Object(object), Some(path)) => {
                let handle = object.handle.try_clone().map_err(|error| Errno::of(&error))?;
                self.socket_renamed(handle, path, &new_path)
            }
            (_, None) => Ok(None),
        };
        let mut wanted = Vec::new();
        let special = matches!(&source, Found::Place(place) if place.is_special());
        if !new.is_special() && !special {
            if let Some(path) = &source_path {
                let source = match &source {
                    Found::Place(_) => Wanted::new(Operation::Link, path.clone()),
                    Found::Object(object) => Wanted::of(Operation::Link, object)?,
                };
                wanted.push(source.other(new_path.clone()));
                wanted.extend(socket()?);
            }
            // A hard link to a symbolic link is one more symbolic link.
            let reach = if is_link { Reach::Link } else { Reach::Below };
            let mut destination = Wanted::new(Operation::Link, new_path.clone()).reaching(reach);
            destination.other.clone_from(&source_path);
            wanted.push(destination);
        }
        let foresee = || {
            let missing = match &source {
                Found::Place(place) => foresee::existing(place),
                Found::Object(_) => None,
            };
            let apart = match &source {
                Found::Place(place) => foresee::apart(&place.directory, &new.directory),
                Found::Object(object) => foresee::apart(&object.handle, &new.directory),
            };
            missing
                .or_else(|| foresee::existing(&new).is_none().then_some(Errno::EXIST))
                .or(apart)
                .or_else(|| foresee::make(&new))
        };
        let _permit = self.judge().permit(self.target, &wanted, approvals, foresee)?;
        let to = new.directory.as_fd();
        match &source {
            Found::Place(old) => self.in_turn(Turn::Alone, &[&new, old], approvals, || {
                let is_same_socket = special || socket()?.is_none_or(|socket| wanted.contains(&socket));
                if is_symlink(&source)? != is_link || !is_same_socket {
                    return Err(Halt::Again);
                }
                if self.reads().is_some() {
                    self.hold_moved(guarded::made(old)?.as_fd(), Some(&old.path()), &new_path)?;
                }
                done(sys::linkat(old.directory.as_fd(), &old.name, to, &new.name, 0))
            }),
            Found::Object(Object { handle, .. }) => self.in_turn(Turn::Alone, &[&new], approvals, || {
                self.hold_moved(handle.as_fd(), source_path.as_ref(), &new_path)?;
                let mut name = Decimal::default();
                let old = name.of(handle.as_raw_fd());
                done(sys::linkat(CWD.as_fd(), old, to, &new.name, libc::AT_SYMLINK_FOLLOW))
            }),
        }
    }

    /// What a link is made to: the name itself, or with `AT_SYMLINK_FOLLOW` what it leads to.
    fn link_source(&self, from: &At, flags: i32) -> Result<Found, Halt> {
        let empty = from.path.as_ref().is_ok_and(|path| path.is_empty());
        if empty && flags & libc::AT_EMPTY_PATH != 0 {
            return Ok(Found::Object(self.resolver().descriptor(self.target, from.directory)?));
        }
        let mut found = self.resolver().place(self.target, from)?;
        if flags & libc::AT_SYMLINK_FOLLOW == 0 {
            return Ok(found);
        }
        loop {
            let place = match found {
                Found::Object(_) => return Ok(found),
                Found::Place(place) => place,
            };
            match self.resolver().follow(self.target, &place)? {
                Some(next) => found = next,
                None => return Ok(Found::Place(place)),
            }
        }
    }
}

/// Whether what is linked is itself a symbolic link.
fn is_symlink(source: &Found) -> Result<bool, Errno> {
    let stat = match source {
        Found::Place(place) => statat(&place.directory, place.name.as_c_str(), AtFlags::SYMLINK_NOFOLLOW)?,
        Found::Object(object) => statat(&object.handle, c"", AtFlags::EMPTY_PATH)?,
    };
    Ok(FileType::from_raw_mode(stat.st_mode) == FileType::Symlink)
}
