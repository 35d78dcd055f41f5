//! What the floor enforces, and so the only place that may let the kernel run a held call natively.
//!
//! Runs as the user in the supervisor. A native run re-reads the tool's memory, so it is sound only where Landlock gives the
//! same verdict for every path that the memory could name by then: inside the native roots it grants the right, everywhere
//! else it denies it. Calls that Landlock does not see (attributes, landlock(7) "Current limitations") never qualify.

use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

use super::decode::Attempt;
use super::listener::Enforced;
use crate::common::path::RawPath;

/// A tree in which the floor grants every write right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NativeRoot {
    pub path: RawPath,
    /// Device and inode that the grant was made on; another directory at the same path has no grant.
    pub identity: (u64, u64),
    /// A mount of the session itself cannot be renamed or replaced.
    pub fixed: bool,
}

/// The places that need no decision: the session's own scratch space.
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    native: Vec<NativeRoot>,
    /// Private to the session, but with a directory of the host bound somewhere below, so without a grant of the floor.
    performed: Vec<RawPath>,
    /// Host directories below a `performed` root.
    holes: Vec<RawPath>,
}

impl Scratch {
    pub fn new(native: Vec<NativeRoot>, performed: Vec<RawPath>, holes: Vec<RawPath>) -> Scratch {
        Scratch { native, performed, holes }
    }

    /// Whether changes of this object need no decision.
    pub fn covers(&self, object: &RawPath) -> bool {
        self.native.iter().any(|root| object.is_within(&root.path))
            || (self.performed.iter().any(|root| object.is_within(root))
                && !self.holes.iter().any(|hole| object.is_within(hole)))
    }

    /// Proof that this attempt may run natively: Landlock handles its kind, and grants it where the objects seem to be. If
    /// they are elsewhere by the time the kernel looks, Landlock denies.
    pub fn enforced(&self, attempt: &Attempt, objects: &[&RawPath]) -> Option<Enforced> {
        // The root itself is an entry of a directory without a grant; only an unnamed file is made *in* it.
        let in_place = matches!(attempt, Attempt::Open { .. });
        let granted = |object: &RawPath| {
            let inside = |root: &NativeRoot| object.is_within(&root.path) && (in_place || *object != root.path);
            self.native.iter().any(|root| inside(root) && root.still_stands())
        };
        (seen_by_landlock(attempt) && objects.iter().all(|object| granted(object))).then(Enforced::by_the_floor)
    }

    /// Proof for an attempt that cannot change a file whatever its memory says: Landlock denies everything else.
    pub fn harmless(&self, attempt: &Attempt) -> Option<Enforced> {
        seen_by_landlock(attempt).then(Enforced::by_the_floor)
    }
}

impl NativeRoot {
    fn still_stands(&self) -> bool {
        self.fixed
            || statx(CWD, self.path.as_bytes(), AtFlags::SYMLINK_NOFOLLOW, StatxFlags::INO).is_ok_and(|stat| {
                let device = rustix::fs::makedev(stat.stx_dev_major, stat.stx_dev_minor);
                (device, stat.stx_ino) == self.identity
            })
    }
}

/// The rights of the floor (`tool::floor` handles all of them): WRITE_FILE, TRUNCATE, MAKE_*, REMOVE_*, REFER.
fn seen_by_landlock(attempt: &Attempt) -> bool {
    match attempt {
        Attempt::Open { .. }
        | Attempt::MakeDirectory { .. }
        | Attempt::Remove { .. }
        | Attempt::Rename { .. }
        | Attempt::Link { .. }
        | Attempt::Symlink { .. }
        | Attempt::MakeNode { .. }
        | Attempt::Truncate { .. } => true,
        Attempt::Change { .. } | Attempt::Nothing => false,
    }
}
