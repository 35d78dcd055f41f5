//! Which error the kernel would give whatever anybody answers: nobody is asked to consent to what cannot happen, and a
//! program that probes meets the errors it knows. Looks only; a wrong guess costs a needless question, nothing else.

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fs::{Access, AtFlags, CWD, FileType, Stat, StatxFlags, accessat, fstat, statat, statx};

use crate::common::errno::Errno;
use crate::session::decimal::Decimal;
use crate::session::resolve::Place;
use crate::session::sys::OpenHow;

const EFFECTIVE: AtFlags = AtFlags::EACCESS;

fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

fn entry(place: &Place) -> Result<Stat, Errno> {
    Ok(statat(&place.directory, place.name.as_c_str(), AtFlags::SYMLINK_NOFOLLOW)?)
}

/// Whether entries of this directory may be made or removed.
pub fn in_directory(directory: &OwnedFd) -> Option<Errno> {
    let mut name = Decimal::default();
    accessat(CWD, name.of(directory.as_raw_fd()), Access::WRITE_OK | Access::EXEC_OK, EFFECTIVE).err().map(Errno::from)
}

/// Whether names may be looked up in this directory.
pub fn search(directory: &OwnedFd) -> Option<Errno> {
    let mut name = Decimal::default();
    accessat(CWD, name.of(directory.as_raw_fd()), Access::EXEC_OK, EFFECTIVE).err().map(Errno::from)
}

/// Whether this object may be written.
pub fn write(handle: &OwnedFd) -> Option<Errno> {
    match fstat(handle) {
        Ok(stat) if kind(&stat) == FileType::Directory => return Some(Errno::ISDIR),
        Ok(_) => {}
        Err(errno) => return Some(errno.into()),
    }
    let mut name = Decimal::default();
    accessat(CWD, name.of(handle.as_raw_fd()), Access::WRITE_OK, EFFECTIVE).err().map(Errno::from)
}

/// open(2) for writing, creating or cutting.
pub fn open(place: &Place, how: OpenHow) -> Option<Errno> {
    let has = |flags: i32| how.flags & u64::from(flags as u32) == u64::from(flags as u32);
    match entry(place) {
        Err(Errno::NOENT) if !has(libc::O_CREAT) => Some(Errno::NOENT),
        Err(Errno::NOENT) => in_directory(&place.directory),
        Err(errno) => Some(errno),
        Ok(_) if has(libc::O_CREAT | libc::O_EXCL) => Some(Errno::EXIST),
        // The caller follows links.
        Ok(stat) if kind(&stat) == FileType::Symlink => Some(Errno::LOOP),
        Ok(stat) if kind(&stat) == FileType::Directory => Some(Errno::ISDIR),
        Ok(_) if place.has_trailing_slash() || has(libc::O_DIRECTORY) => Some(Errno::NOTDIR),
        Ok(_) => {
            let writes = how.flags & libc::O_ACCMODE as u64 != libc::O_RDONLY as u64 || has(libc::O_TRUNC);
            let wanted = if writes { Access::WRITE_OK } else { Access::READ_OK };
            accessat(&place.directory, place.name.as_c_str(), wanted, EFFECTIVE).err().map(Errno::from)
        }
    }
}

/// A new name: mkdir, symlink, mknod, the destination of link.
pub fn make(place: &Place) -> Option<Errno> {
    match entry(place) {
        Ok(_) => Some(Errno::EXIST),
        Err(Errno::NOENT) => in_directory(&place.directory),
        Err(errno) => Some(errno),
    }
}

/// unlink(2), rmdir(2).
pub fn remove(place: &Place, directory: bool) -> Option<Errno> {
    let stat = match entry(place) {
        Ok(stat) => stat,
        Err(errno) => return Some(errno),
    };
    // The directory's own rights come first (`may_delete`, fs/namei.c).
    in_directory(&place.directory).or(match (directory, kind(&stat) == FileType::Directory) {
        (true, false) => Some(Errno::NOTDIR),
        (false, true) => Some(Errno::ISDIR),
        (true, true) if !is_empty(place) => Some(Errno::NOTEMPTY),
        _ => None,
    })
}

/// Whether two ends of a rename or link are on different mounts, `EXDEV`.
pub fn apart(one: &OwnedFd, other: &OwnedFd) -> Option<Errno> {
    let mount =
        |handle: &OwnedFd| statx(handle, c"", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID).map(|stat| stat.stx_mnt_id);
    match (mount(one), mount(other)) {
        (Ok(one), Ok(other)) if one != other => Some(Errno::XDEV),
        _ => None,
    }
}

/// renameat2(2), in the order of `do_renameat2` and `vfs_rename`, fs/namei.c.
pub fn rename(old: &Place, new: &Place, flags: u32) -> Option<Errno> {
    let (exchange, keep) = (flags & libc::RENAME_EXCHANGE != 0, flags & libc::RENAME_NOREPLACE != 0);
    let is_directory = |place| entry(place).is_ok_and(|stat| kind(&stat) == FileType::Directory);
    let slashes_on_a_file = !is_directory(old) && (old.has_trailing_slash() || (new.has_trailing_slash() && !exchange));
    apart(&old.directory, &new.directory)
        .or_else(|| existing(old))
        .or_else(|| (keep && existing(new).is_none()).then_some(Errno::EXIST))
        .or_else(|| if exchange { existing(new) } else { None })
        .or(slashes_on_a_file.then_some(Errno::NOTDIR))
        .or_else(|| in_directory(&old.directory))
        .or_else(|| in_directory(&new.directory))
}

/// The source of a rename or link.
pub fn existing(place: &Place) -> Option<Errno> {
    entry(place).err()
}

/// chmod(2): a symbolic link has no mode to change.
pub fn mode(handle: &OwnedFd) -> Option<Errno> {
    match fstat(handle.as_fd()) {
        Ok(stat) if kind(&stat) == FileType::Symlink => Some(Errno::OPNOTSUPP),
        _ => owned(handle),
    }
}

/// A change of attributes that only the owner may make.
pub fn owned(handle: &OwnedFd) -> Option<Errno> {
    match fstat(handle.as_fd()) {
        Ok(stat) if stat.st_uid != rustix::process::geteuid().as_raw() => Some(Errno::PERM),
        Ok(_) => None,
        Err(errno) => Some(errno.into()),
    }
}

fn is_empty(place: &Place) -> bool {
    let name: &CStr = place.name.as_c_str();
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC;
    let Ok(directory) =
        rustix::fs::openat(&place.directory, name, flags | rustix::fs::OFlags::NOFOLLOW, rustix::fs::Mode::empty())
    else {
        return true;
    };
    rustix::fs::Dir::new(directory).is_ok_and(|entries| {
        entries.filter_map(Result::ok).all(|entry| matches!(entry.file_name().to_bytes(), b"." | b".."))
    })
}
