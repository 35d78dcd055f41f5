//! What the floor enforces, and so the only place that may let the kernel run a held call natively.
//!
//! Runs as the user in the supervisor. A native run re-reads the tool's memory, so it is sound only where Landlock gives the
//! same verdict for every path that the memory could name by then: inside the native roots it grants the right, everywhere
//! else it denies it. Calls that Landlock does not see (attributes, landlock(7) "Current limitations") never qualify.

use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

use super::decode::Attempt;
use super::listener::Enforced;
use crate::common::path::RawPath;
use crate::policy::plan;
use crate::tool::messages::{NativeGrant, NativeRoot};

/// The places that need no decision: the session's own scratch space.
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    native: Vec<NativeRoot>,
}

impl Scratch {
    pub fn new(native: Vec<NativeRoot>) -> Scratch {
        Scratch { native }
    }

    /// Whether changes of this object need no decision. `device` is the one it is on, where it was found without its path:
    /// a descriptor of the caller's may lead to what the host, not the session, has at that path.
    pub fn covers(&self, object: &RawPath, device: Option<u64>) -> bool {
        let on = |root: &NativeRoot| device.is_none_or(|device| device == root.identity.0);
        self.native.iter().any(|root| object.is_within(&root.path) && on(root))
    }

    /// Whether this is, or lies directly in, a place of the session itself that no link can stand for: a mount of its own or
    /// a device.
    pub fn is_mounted_around(&self, object: &RawPath) -> bool {
        let parent = object.parent();
        self.native
            .iter()
            .any(|root| is_own_mount(root) && (root.path == *object || Some(&root.path) == parent.as_ref()))
    }

    /// Proof that this attempt may run natively: Landlock handles its kind, and grants it where the objects seem to be. If
    /// they are elsewhere by the time the kernel looks, Landlock denies.
    pub fn enforced(&self, attempt: &Attempt, objects: &[&RawPath]) -> Option<Enforced> {
        let opens = matches!(attempt, Attempt::Open { .. });
        let granted = |object: &RawPath| {
            let inside = |root: &NativeRoot| {
                let kind = match root.grant {
                    // The root itself is an entry of a directory without a grant; only an unnamed file is made *in* it.
                    NativeGrant::Scratch => opens || *object != root.path,
                    NativeGrant::WriteFile => opens,
                };
                kind && object.is_within(&root.path)
            };
            self.native.iter().any(|root| inside(root) && still_stands(root))
        };
        (seen_by_landlock(attempt) && objects.iter().all(|object| granted(object))).then(Enforced::by_the_floor)
    }

    /// Proof for bind(2) of a unix socket to this path, in a tree that is the session's own: Landlock handles `MAKE_SOCK` and
    /// TCP's bind, and of both grants sockets in scratch alone.
    pub fn binds(&self, object: &RawPath) -> Option<Enforced> {
        let grants = |root: &NativeRoot| {
            root.grant == NativeGrant::Scratch
                && is_own_mount(root)
                && *object != root.path
                && object.is_within(&root.path)
        };
        self.native.iter().any(grants).then(Enforced::by_the_floor)
    }

    /// Proof for an attempt that cannot change a file whatever its memory says: Landlock denies everything else.
    pub fn harmless(&self, attempt: &Attempt) -> Option<Enforced> {
        seen_by_landlock(attempt).then(Enforced::by_the_floor)
    }
}

/// A mount of the session itself cannot be renamed or replaced; another directory at the path of any other root has no
/// grant.
fn still_stands(root: &NativeRoot) -> bool {
    is_own_mount(root)
        || statx(CWD, root.path.as_path(), AtFlags::SYMLINK_NOFOLLOW, StatxFlags::INO).is_ok_and(|stat| {
            let device = rustix::fs::makedev(stat.stx_dev_major, stat.stx_dev_minor);
            (device, stat.stx_ino) == root.identity
        })
}

fn is_own_mount(root: &NativeRoot) -> bool {
    root.grant == NativeGrant::WriteFile || plan::PRIVATE.iter().any(|path| root.path.as_bytes() == path.as_bytes())
}

/// Whether the descriptor can be written, for which Landlock asks `WRITE_FILE`: not with the access mode 3, open(2).
fn opens_for_writing(flags: u64) -> bool {
    matches!((flags & libc::O_ACCMODE as u64) as i32, libc::O_WRONLY | libc::O_RDWR)
}

/// The rights of the floor (`tool::floor` handles all of them): WRITE_FILE, MAKE_*, REMOVE_*, REFER. Not TRUNCATE: what cuts a
/// file without opening it for writing never qualifies.
fn seen_by_landlock(attempt: &Attempt) -> bool {
    match attempt {
        // Flags in memory may say something else when the kernel reads them.
        Attempt::Open { strict: true, .. } => false,
        Attempt::Open { how, .. } => how.flags & libc::O_TRUNC as u64 == 0 || opens_for_writing(how.flags),
        Attempt::MakeDirectory { .. }
        | Attempt::Remove { .. }
        | Attempt::Rename { .. }
        | Attempt::Link { .. }
        | Attempt::Symlink { .. }
        | Attempt::MakeNode { .. } => true,
        Attempt::Truncate { .. }
        | Attempt::Change { .. }
        | Attempt::MakeSocket { .. }
        | Attempt::OnSocket { .. }
        | Attempt::Nothing => false,
    }
}
