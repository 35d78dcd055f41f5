//! Attributes: chmod(2), chown(2), utimensat(2), setxattr(2), removexattr(2), inode flags; by path and by descriptor.
//!
//! Landlock sees none of these, so none of them ever runs natively, not even in scratch.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::OFlags;

use super::{Run, done, foresee, is_proc, refuse_acting, refuse_set_id};
use crate::common::errno::Errno;
use crate::common::request::Operation;
use crate::session::decimal::Decimal;
use crate::session::decode::{Change, Subject};
use crate::session::judge::{Approvals, Halt, Permit, Wanted};
use crate::session::listener::Answer;
use crate::session::resolve::{Object, path_of};
use crate::session::sys;

impl Change {
    fn operation(&self) -> Operation {
        match self {
            Change::Mode(_) => Operation::ChangeMode,
            Change::Owner { .. } => Operation::ChangeOwner,
            Change::Times(_) => Operation::ChangeTimes,
            Change::SetXattr { .. } | Change::RemoveXattr { .. } => Operation::ChangeXattr,
            Change::FileAttributes(_) | Change::InodeFlags { .. } => Operation::ChangeFlags,
        }
    }

    /// Nanoseconds below 10⁹ or the two special values (`vfs_utimes`, fs/utimes.c).
    fn has_valid_times(&self) -> bool {
        let Change::Times(Some(times)) = self else { return true };
        [8, 24].into_iter().all(|at| {
            let bytes = times.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
            let nanoseconds = bytes.map_or(-1, i64::from_ne_bytes);
            (0..1_000_000_000).contains(&nanoseconds) || [libc::UTIME_NOW, libc::UTIME_OMIT].contains(&nanoseconds)
        })
    }

    /// Whether only the owner may make this change, whatever the mode says.
    fn is_for_the_owner(&self) -> bool {
        match self {
            // Without an owner or group there is nothing to change.
            Change::Owner { user: u32::MAX, group: u32::MAX } => false,
            Change::Mode(_) | Change::Owner { .. } | Change::FileAttributes(_) | Change::InodeFlags { .. } => true,
            Change::Times(times) => times.is_some(),
            Change::SetXattr { .. } | Change::RemoveXattr { .. } => false,
        }
    }
}

impl Run<'_> {
    pub(super) fn change(&self, subject: &Subject, change: &Change, approvals: &mut Approvals) -> Result<Answer, Halt> {
        match subject {
            Subject::Path { at, follow, may_be_empty } => {
                let empty = at.path.as_ref().is_ok_and(|path| path.is_empty());
                let object = if empty && *may_be_empty {
                    self.resolver().descriptor(self.target, at.directory)?
                } else {
                    self.resolver().object(self.target, at, *follow)?
                };
                let permit = self.permit_change(&object, change, approvals)?;
                self.still_wanted()?;
                on_object(&object.handle, change, &permit)
            }
            Subject::Descriptor(number) => {
                let file = self.target.duplicate(*number)?;
                let path = path_of(file.as_fd())?;
                if rustix::fs::fcntl_getfl(&file).map_err(Errno::from)?.contains(OFlags::PATH) {
                    return Err(Errno::BADF.into());
                }
                let object = Object { handle: file, path };
                let permit = self.permit_change(&object, change, approvals)?;
                self.still_wanted()?;
                on_file(object.handle.as_fd(), change, &permit)
            }
        }
    }

    fn permit_change(&self, object: &Object, change: &Change, approvals: &mut Approvals) -> Result<Permit, Halt> {
        if !change.has_valid_times() {
            return Err(Errno::INVAL.into());
        }
        if let Change::Mode(mode) = change
            && !object.is_directory()?
        {
            refuse_set_id(*mode)?;
        }
        // procfs keeps no attributes that mean anything. Without an argument nothing will change, whatever the kernel says to it.
        if object.is_nameless()
            || is_proc(object.handle.as_fd())?
            || matches!(change, Change::InodeFlags { argument: None, .. })
        {
            return Ok(self.judge().permit_nameless());
        }
        refuse_acting(object.handle.as_fd(), Errno::PERM)?;
        let wanted = Wanted::of(change.operation(), object)?.directory(object.is_directory()?);
        self.judge().permit(self.target, &[wanted], approvals, || {
            match change {
                Change::Mode(_) => foresee::mode(&object.handle),
                _ if change.is_for_the_owner() => foresee::owned(&object.handle),
                // Other name spaces of extended attributes have rights of their own, xattr(7).
                Change::SetXattr { name, .. } | Change::RemoveXattr { name }
                    if !name.as_bytes().starts_with(b"user.") =>
                {
                    None
                }
                Change::Owner { .. } => None,
                _ => foresee_write(object),
            }
        })
    }
}

/// As [`foresee::write`], for directories too.
fn foresee_write(object: &Object) -> Option<Errno> {
    foresee::write(&object.handle).filter(|&errno| errno != Errno::ISDIR)
}

/// The change on a pinned object. Its name for the calls that take none is its number among our descriptors.
fn on_object(handle: &OwnedFd, change: &Change, _permit: &Permit) -> Result<Answer, Halt> {
    let mut number = Decimal::default();
    let path = number.of(handle.as_raw_fd());
    let object = handle.as_fd();
    done(match change {
        Change::Mode(mode) => sys::fchmodat2(object, *mode, 0),
        Change::Owner { user, group } => sys::chown(object, *user, *group),
        Change::Times(times) => sys::utimens(object, times.as_ref()),
        Change::SetXattr { name, value, flags } => sys::setxattr(path, name, value, *flags),
        Change::RemoveXattr { name } => sys::removexattr(path, name),
        Change::FileAttributes(attributes) => sys::file_setattr(path, attributes),
        Change::InodeFlags { .. } => Err(Errno::BADF),
    })
}

/// The change on an open file, by the same call that the tool made.
fn on_file(file: BorrowedFd<'_>, change: &Change, _permit: &Permit) -> Result<Answer, Halt> {
    done(match change {
        Change::Mode(mode) => sys::fchmod(file, *mode),
        Change::Owner { user, group } => sys::fchown(file, *user, *group),
        Change::Times(times) => sys::futimens(file, times.as_ref()),
        Change::SetXattr { name, value, flags } => sys::fsetxattr(file, name, value, *flags),
        Change::RemoveXattr { name } => sys::fremovexattr(file, name),
        Change::FileAttributes(attributes) => sys::file_setattr_of(file, attributes),
        Change::InodeFlags { command, argument } => sys::ioctl_set(file, *command, argument.as_deref()),
    })
}
