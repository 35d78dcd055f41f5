//! Scratch by the text of a path: most attempts there need no directory to be pinned.
//!
//! What this finds may be another place by the time that the kernel looks; the floor has the same verdict there, so a
//! wrong guess can only be answered `EACCES` where a person might have been asked, and never let anything through.

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};

use super::Run;
use crate::common::path::RawPath;
use crate::session::decode::{At, Attempt, Links};
use crate::session::listener::Answer;
use crate::session::resolve::is_plain;

const NO_LINKS: ResolveFlags = ResolveFlags::NO_SYMLINKS.union(ResolveFlags::NO_MAGICLINKS);

impl Run<'_> {
    /// See [`super::Performer::native_by_text`].
    pub(super) fn native_by_text(&self) -> Option<Answer> {
        let (at, follows) = match self.attempt {
            Attempt::Open { at, how, .. } if how.resolve == 0 => {
                let flags = how.flags as i32;
                let exclusive = libc::O_CREAT | libc::O_EXCL;
                if flags & libc::O_TMPFILE == libc::O_TMPFILE {
                    return None;
                }
                (at, flags & libc::O_NOFOLLOW == 0 && flags & exclusive != exclusive)
            }
            Attempt::MakeDirectory { at, .. }
            | Attempt::Remove { at, .. }
            | Attempt::Symlink { at, .. }
            | Attempt::MakeNode { at, .. } => (at, false),
            _ => return None,
        };
        let (path, within) = self.text(at)?;
        let scratch = self.judge().scratch();
        let native = scratch.enforced(self.attempt, &[&path]);
        self.target.expect_in_scratch(native.is_some());
        let native = native?;
        let parents_are_plain = within || scratch.is_mounted_around(&path) || leads_straight(&path);
        (parents_are_plain && !(follows && is_link(&path))).then_some(Answer::Native(native))
    }

    /// The path as text, and whether it is a name in the cwd itself. Relative paths only where the cwd was in scratch
    /// before: anywhere else the cwd has to be opened anyway.
    fn text(&self, at: &At) -> Option<(RawPath, bool)> {
        let text = at.path.as_ref().ok()?.as_bytes();
        if at.links != Links::All || text.last() == Some(&b'/') || !is_plain(text) {
            return None;
        }
        if text.first() == Some(&b'/') {
            return Some((RawPath::new(text), false));
        }
        if at.directory != libc::AT_FDCWD || !self.target.expects_scratch() {
            return None;
        }
        let cwd = self.target.cwd_text().ok()?;
        Some((cwd.join(text), !text.contains(&b'/')))
    }
}

/// Whether no link is met on the way to the last component.
fn leads_straight(path: &RawPath) -> bool {
    let Some(parent) = path.parent() else { return false };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat2(CWD, parent.as_path(), flags, Mode::empty(), NO_LINKS).is_ok()
}

fn is_link(path: &RawPath) -> bool {
    let mut text = [std::mem::MaybeUninit::uninit(); 1];
    rustix::fs::readlinkat_raw(CWD, path.as_path(), &mut text).is_ok()
}
