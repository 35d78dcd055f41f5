//! The Landlock floor: what a sandboxed process can change even if every process of ours is dead. Built in the session's
//! init, as the user, before the tool exists; entered by each command's child before its execve(2).
//!
//! Reading and executing are not handled. Every right to change is but one, and to bind and connect TCP sockets where the session has
//! its own network. The latter is granted nowhere, the former only on the roots that [`Floor::native`] names; for anything else the kernel refuses the tool's own attempt, and only the supervisor can perform it.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, Scope,
};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, fstat, openat2};

use super::messages::{NativeGrant, NativeRoot};
use super::mounts::DEVICES;
use crate::common::path::RawPath;
use crate::common::wire::Network;

/// Every right to change but `LANDLOCK_ACCESS_FS_TRUNCATE`. For that the kernel would walk from each file that is opened, for
/// reading too, up to the root, as its descriptor remembers whether it may be cut; that doubles the time of an open. Cutting
/// takes either a descriptor that is open for writing, for which `WRITE_FILE` is asked, or a call that is trapped and never
/// runs natively: truncate(2), openat2(2), and open(2) with `O_TRUNC` unless it opens for writing. See
/// `session::floor`.
fn changes() -> BitFlags<AccessFs> {
    AccessFs::from_write(ABI::V6) & !AccessFs::Truncate
}

/// The lowest ABI that has every right which the floor handles: scopes of signals and abstract sockets (6, Linux 6.12).
pub const LOWEST_ABI: u32 = 6;

/// No floor, no session.
#[derive(Debug, thiserror::Error)]
pub enum FloorError {
    #[error(
        "this kernel has no Landlock (built without it, or not in lsm= on its command line); gated needs ABI {wanted}"
    )]
    None { wanted: u32 },
    #[error("this kernel has Landlock ABI {found}; gated needs {wanted} (Linux 6.12 has 6)")]
    TooOld { found: u32, wanted: u32 },
    #[error("Landlock ruleset: {0}")]
    Ruleset(#[from] landlock::RulesetError),
    #[error("cannot open {} for the floor: {source}", path.display())]
    Open { path: PathBuf, source: io::Error },
    #[error("Landlock is enforced in part only")]
    Partial,
}

/// A ruleset ready to be entered, any number of times.
pub struct Floor {
    ruleset: OwnedFd,
    native: Vec<NativeRoot>,
    abi: u32,
}

/// The kernel's Landlock ABI (landlock_create_ruleset(2)); `None` without Landlock.
pub fn kernel_abi() -> Option<u32> {
    const LANDLOCK_CREATE_RULESET_VERSION: u32 = 1;
    // SAFETY: with the version flag the kernel reads no attribute; a null pointer of size 0 is what it asks for.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<u8>(),
            0_usize,
            LANDLOCK_CREATE_RULESET_VERSION,
        )
    };
    u32::try_from(version).ok().filter(|version| *version > 0)
}

impl Floor {
    /// Build the ruleset for a session with these scratch trees (absolute; one that is missing, no directory, or reached
    /// through a link is left out). Needs `wanted` or [`LOWEST_ABI`], whichever is higher.
    /// With a network of its own, TCP is the supervisor's to bind and connect.
    pub fn build(scratch: &[RawPath], wanted: u32, network: Network) -> Result<Floor, FloorError> {
        let wanted = wanted.max(LOWEST_ABI);
        let abi = kernel_abi().ok_or(FloorError::None { wanted })?;
        if abi < wanted {
            return Err(FloorError::TooOld { found: abi, wanted });
        }
        let every_change = changes();
        let mut ruleset =
            Ruleset::default().set_compatibility(CompatLevel::HardRequirement).handle_access(every_change)?;
        if network == Network::Own {
            ruleset = ruleset.handle_access(AccessNet::from_all(ABI::V4))?;
        }
        let ruleset = ruleset.scope(Scope::Signal | Scope::AbstractUnixSocket)?.create()?;
        let mut floor = Rules { ruleset, native: Vec::new() };
        let to_device = AccessFs::WriteFile | AccessFs::IoctlDev;
        for (name, ..) in DEVICES {
            floor = floor.grant(RawPath::from("/dev").join(name.as_bytes()), to_device, NativeGrant::WriteFile)?;
        }
        floor = floor.grant(RawPath::from("/dev/pts"), to_device, NativeGrant::WriteFile)?;
        for path in scratch {
            if fs::symlink_metadata(path.as_path()).is_ok_and(|found| found.is_dir()) {
                floor = floor.grant(path.clone(), every_change, NativeGrant::Scratch)?;
            }
        }
        let Rules { ruleset, native } = floor;
        let ruleset = Option::<OwnedFd>::from(ruleset).ok_or(FloorError::Partial)?;
        Ok(Floor { ruleset, native, abi })
    }

    /// The roots on which a trapped call may continue natively, and how far.
    pub fn native(&self) -> &[NativeRoot] {
        &self.native
    }

    /// The kernel's ABI, at least the one that was asked for.
    pub fn abi(&self) -> u32 {
        self.abi
    }

    /// The same floor, held by a descriptor with a number of at least `lowest`; close-on-exec.
    pub fn at_number_above(&self, lowest: i32) -> io::Result<Floor> {
        let ruleset = rustix::io::fcntl_dupfd_cloexec(&self.ruleset, lowest)?;
        Ok(Floor { ruleset, native: self.native.clone(), abi: self.abi })
    }

    /// Put the calling process, which has one thread, and all that it will start on this floor for good
    /// (landlock_restrict_self(2)). Needs `no_new_privs`.
    pub fn enter(&self) -> io::Result<()> {
        // SAFETY: the descriptor is a ruleset that this value owns; no memory is passed.
        let done = unsafe { libc::syscall(libc::SYS_landlock_restrict_self, self.ruleset.as_raw_fd(), 0) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

impl AsFd for Floor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ruleset.as_fd()
    }
}

/// A ruleset in the making.
struct Rules {
    ruleset: RulesetCreated,
    native: Vec<NativeRoot>,
}

impl Rules {
    fn grant(self, path: RawPath, rights: BitFlags<AccessFs>, grant: NativeGrant) -> Result<Rules, FloorError> {
        let Rules { ruleset, mut native } = self;
        let root = match open_without_links(path.as_path()) {
            Ok(root) => root,
            // A scratch path that runs through a link is not the tree that the profile's author saw.
            Err(rustix::io::Errno::LOOP) => return Ok(Rules { ruleset, native }),
            Err(errno) => return Err(FloorError::Open { path: path.as_path().to_path_buf(), source: errno.into() }),
        };
        let found = fstat(&root)
            .map_err(|errno| FloorError::Open { path: path.as_path().to_path_buf(), source: errno.into() })?;
        let ruleset = ruleset.add_rule(PathBeneath::new(root.as_fd(), rights))?;
        native.push(NativeRoot { path, identity: (found.st_dev, found.st_ino), grant });
        Ok(Rules { ruleset, native })
    }
}

fn open_without_links(path: &Path) -> rustix::io::Result<OwnedFd> {
    openat2(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::NO_SYMLINKS)
}
