//! The session's view of the file system. Runs as root in the supervisor and in the session's init, in a mount namespace of
//! the session's own, before any process of the tool exists; the only names taken from the user are the workspace and the
//! current directory, and they are opened with the user's own rights.
//!
//! Everything is private: no mount made here is seen by the host, and none that the host makes later appears inside, where
//! nobody would have judged it.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, chmod, chown, mknodat, openat2};
use rustix::mount::{MoveMountFlags, OpenTreeFlags, move_mount, open_tree};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};
use rustix::process::{Gid, Uid};

use super::busproxy::BUS_DIRECTORY;
use super::ownfiles::{OwnFiles, mount_own_files};
use super::privileges::{PrivilegeError, with_file_rights_of};
use crate::common::bus::INSIDE_SOCKET;
use crate::common::path::RawPath;
use crate::common::wire::Identity;

/// The view could not be built; the mount namespace dies with this process.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    #[error("cannot {step} {}: {source}", path.display())]
    Step { step: &'static str, path: PathBuf, source: io::Error },
    #[error("cannot take the user's file rights: {0}")]
    Privileges(#[from] PrivilegeError),
    #[error("{} cannot be a workspace: the session has its own {}", path.display(), masked)]
    WorkspaceIsMasked { path: PathBuf, masked: &'static str },
    #[error("the current directory {} is outside the workspace and hidden: the session has its own {masked}", path.display())]
    DirectoryIsMasked { path: PathBuf, masked: &'static str },
}

pub(super) trait Step<T> {
    fn step(self, step: &'static str, path: impl AsRef<Path>) -> Result<T, MountError>;
}

impl<T, E: Into<io::Error>> Step<T> for Result<T, E> {
    fn step(self, step: &'static str, path: impl AsRef<Path>) -> Result<T, MountError> {
        self.map_err(|error| MountError::Step { step, path: path.as_ref().to_path_buf(), source: error.into() })
    }
}

/// Directories that the session has for itself; what the host has there is hidden.
pub const MASKED: [&str; 5] = ["/tmp", "/dev", "/run", "/proc", "/sys"];

/// What of /run stays: removable media, what a container's or NixOS's links in /etc and /usr point to, and the files that
/// /etc/resolv.conf may be a link to. Files and trees of files, no directory in which a service has its socket.
const KEPT_OF_RUN: [&str; 13] = [
    "media",
    "host/etc",
    "host/usr",
    "host/os-release",
    "current-system",
    "booted-system",
    "opengl-driver",
    "systemd/resolve/resolv.conf",
    "systemd/resolve/stub-resolv.conf",
    "NetworkManager/resolv.conf",
    "NetworkManager/no-stub-resolv.conf",
    "resolvconf/resolv.conf",
    "connman/resolv.conf",
];

/// The device nodes of the session with their numbers (Documentation/admin-guide/devices.txt).
pub const DEVICES: [(&str, u32, u32); 6] =
    [("null", 1, 3), ("zero", 1, 5), ("full", 1, 7), ("random", 1, 8), ("urandom", 1, 9), ("tty", 5, 0)];

/// Kernel interfaces below /proc that act on the whole machine: changeable by a root without capabilities, because it owns them.
const PROC_READ_ONLY: [&str; 5] = ["sys", "sysrq-trigger", "irq", "bus", "fs"];

/// What below /proc tells about, or reaches, other users of the machine.
const PROC_HIDDEN: [&str; 9] =
    ["acpi", "scsi", "kcore", "kmsg", "keys", "key-users", "timer_list", "latency_stats", "sched_debug"];

/// Connections to the socket inside that wait to be taken, listen(2).
const WAITING_INSIDE: i32 = 64;

/// What of the caller's places the view must keep.
pub struct Places<'a> {
    pub user: &'a Identity,
    pub workspace: &'a RawPath,
    pub cwd: &'a RawPath,
    /// What the session has of its own in `/etc`, where it has a network of its own.
    pub files: Option<&'a OwnFiles>,
}

/// Enter a new mount namespace, in which [`build_view`] builds.
pub fn enter_own_mounts() -> Result<(), MountError> {
    unshare(CloneFlags::CLONE_NEWNS).step("make a mount namespace for", "/")?;
    mount_nothing("/", MsFlags::MS_REC | MsFlags::MS_PRIVATE).step("make private", "/")?;
    // A device node that somebody left on another file system opens nothing.
    set_attributes(CWD, "/", true, libc::MOUNT_ATTR_NODEV, 0).step("forbid devices below", "/")
}

/// Build all of the view that does not depend on the session's other namespaces, once [`enter_own_mounts`] has made room for it.
/// Returns the listening socket inside ([`INSIDE_SOCKET`]).
pub fn build_view(places: &Places<'_>) -> Result<OwnedFd, MountError> {
    let kept_workspace = open_hidden_workspace(places)?;
    let kept_of_run = open_kept_of_run()?;

    mount_tmpfs("/tmp", "mode=1777,size=50%", MsFlags::empty())?;
    mount_run(kept_of_run)?;
    let inside = make_inside_socket(places.user)?;
    mount_dev()?;
    mount_read_only_sys()?;
    if let Some(files) = places.files {
        mount_own_files(files)?;
    }

    if let Some((path, tree)) = kept_workspace {
        make_directories(&path)?;
        attach(&tree, &path)?;
    }
    // Once everything that is kept has its place, nobody adds to it; not even a session of root's, which owns it.
    set_attributes(CWD, "/run", false, libc::MOUNT_ATTR_RDONLY, 0).step("make read-only", "/run")?;
    Ok(inside)
}

/// For the session's user alone; connect(2) asks for the right to write on it, also where the mount is read-only.
fn make_inside_socket(user: &Identity) -> Result<OwnedFd, MountError> {
    let path = Path::new(INSIDE_SOCKET);
    let make = || -> io::Result<OwnedFd> {
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        bind(&socket, &SocketAddrUnix::new(path)?)?;
        chown(path, Some(Uid::from_raw(user.uid)), Some(Gid::from_raw(user.gid)))?;
        chmod(path, Mode::from_raw_mode(0o600))?;
        listen(&socket, WAITING_INSIDE)?;
        Ok(socket)
    };
    make_directories(path.parent().unwrap_or(Path::new("/run")))?;
    make_directories(Path::new(BUS_DIRECTORY))?;
    make().step("make the socket", path)
}

/// An empty directory of the user's on a file system of its own, at a place that [`build_view`] has made.
pub fn mount_bus_directory(at: &Path, user: &Identity) -> Result<OwnedFd, MountError> {
    let options = format!("mode=700,uid={},gid={},size=4k", user.uid, user.gid);
    mount_tmpfs(at, &options, MsFlags::MS_NOEXEC)?;
    openat2(CWD, at, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::NO_SYMLINKS)
        .step("open", at)
}

/// From here on nobody adds to it.
pub fn seal_bus_directory(at: &Path) -> Result<(), MountError> {
    set_attributes(CWD, at, false, libc::MOUNT_ATTR_RDONLY, 0).step("make read-only", at)
}

/// Mount what belongs to the pid and ipc namespaces of the calling process: pid 1 of the session.
pub fn build_view_inside() -> Result<(), MountError> {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some("mqueue"), "/dev/mqueue", Some("mqueue"), flags, None::<&str>).step("mount", "/dev/mqueue")?;
    mount(Some("proc"), "/proc", Some("proc"), flags, None::<&str>).step("mount", "/proc")?;
    for name in PROC_READ_ONLY {
        let path = Path::new("/proc").join(name);
        if path.exists() {
            mount(Some(&path), &path, None::<&str>, MsFlags::MS_BIND, None::<&str>).step("bind", &path)?;
            set_attributes(CWD, &path, false, libc::MOUNT_ATTR_RDONLY, 0).step("make read-only", &path)?;
        }
    }
    for name in PROC_HIDDEN {
        hide(&Path::new("/proc").join(name))?;
    }
    hide(Path::new("/sys/firmware"))
}

/// Cover a file with /dev/null, a directory with an empty read-only one; nothing where there is neither.
fn hide(path: &Path) -> Result<(), MountError> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => mount_tmpfs(path, "mode=555,size=4k", MsFlags::MS_RDONLY),
        Ok(_) => mount(Some("/dev/null"), path, None::<&str>, MsFlags::MS_BIND, None::<&str>).step("cover", path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error).step("look at", path),
    }
}

/// The masked directory that `path` is or lies below.
pub fn masked_root_of(path: &RawPath) -> Option<&'static str> {
    ["/dev/shm"].into_iter().chain(MASKED).find(|root| path.is_within(&RawPath::from(*root)))
}

/// Whether what is mounted there is the session's own and not the host's.
pub fn is_of_the_session(path: &RawPath, workspace: &RawPath) -> bool {
    masked_root_of(path).is_some() && !is_kept_of_run(path) && !path.is_within(workspace)
}

fn is_kept_of_run(path: &RawPath) -> bool {
    KEPT_OF_RUN.iter().any(|kept| path.is_within(&RawPath::from("/run").join(kept.as_bytes())))
}

/// Hold the workspace if it lies below a directory that is about to be hidden, so that it can be put back: it alone.
fn open_hidden_workspace(places: &Places<'_>) -> Result<Option<(PathBuf, OwnedFd)>, MountError> {
    let hidden = |path: &RawPath| masked_root_of(path).filter(|_| !is_kept_of_run(path));
    if let Some(masked) = hidden(places.cwd)
        && !places.cwd.is_within(places.workspace)
    {
        return Err(MountError::DirectoryIsMasked { path: places.cwd.as_path().to_path_buf(), masked });
    }
    let Some(masked) = hidden(places.workspace) else { return Ok(None) };
    let path = places.workspace.as_path();
    let may_return = matches!(masked, "/tmp" | "/dev/shm" | "/run") && *places.workspace != RawPath::from(masked);
    if !may_return {
        return Err(MountError::WorkspaceIsMasked { path: path.to_path_buf(), masked });
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = with_file_rights_of(places.user, || {
        openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS)
    })?;
    let tree = clone_tree(opened.step("open the workspace", path)?, true).step("keep the workspace", path)?;
    Ok(Some((path.to_path_buf(), tree)))
}

/// What stays of /run: a symbolic link's text or a tree.
enum Kept {
    Link(PathBuf),
    Tree { is_directory: bool, tree: OwnedFd },
}

fn open_kept_of_run() -> Result<Vec<(PathBuf, Kept)>, MountError> {
    let mut kept = Vec::new();
    for name in KEPT_OF_RUN {
        let path = Path::new("/run").join(name);
        let Ok(found) = fs::symlink_metadata(&path) else { continue };
        let kind = found.file_type();
        if kind.is_symlink() {
            kept.push((path.clone(), Kept::Link(fs::read_link(&path).step("read the link", &path)?)));
        } else if kind.is_dir() || kind.is_file() {
            let node = openat2(CWD, &path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::NO_SYMLINKS)
                .step("open", &path)?;
            let tree = clone_tree(node, true).step("keep", &path)?;
            kept.push((path, Kept::Tree { is_directory: kind.is_dir(), tree }));
        }
    }
    Ok(kept)
}

fn mount_run(kept: Vec<(PathBuf, Kept)>) -> Result<(), MountError> {
    mount_tmpfs("/run", "mode=755,size=1m", MsFlags::empty())?;
    // Where it is no link to /run (very old systems), it is hidden likewise.
    if fs::symlink_metadata("/var/run").is_ok_and(|found| found.is_dir()) {
        mount_tmpfs("/var/run", "mode=555,size=4k", MsFlags::MS_RDONLY)?;
    }
    for (path, what) in kept {
        make_directories(path.parent().unwrap_or(Path::new("/run")))?;
        match what {
            Kept::Link(text) => symlink(&text, &path).step("make the link", &path)?,
            Kept::Tree { is_directory, tree } => {
                if is_directory {
                    make_directories(&path)?;
                } else {
                    fs::File::create_new(&path).step("make", &path)?;
                }
                attach(&tree, &path)?;
            }
        }
    }
    Ok(())
}

/// A /dev of the session's own. Its nodes are made anew: the host's have modes and times that are the host's too.
fn mount_dev() -> Result<(), MountError> {
    let dev = Path::new("/dev");
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC;
    mount(Some("tmpfs"), dev, Some("tmpfs"), flags, Some("mode=755,size=64k")).step("mount a tmpfs on", dev)?;
    for (name, major, minor) in DEVICES {
        let path = dev.join(name);
        let for_all = Mode::from_raw_mode(0o666);
        let number = rustix::fs::makedev(major, minor);
        mknodat(CWD, &path, FileType::CharacterDevice, for_all, number).step("make the device", &path)?;
        // Whatever umask this process was started with.
        chmod(&path, for_all).step("open to all", &path)?;
    }
    for (name, target) in [
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
        ("ptmx", "pts/ptmx"),
    ] {
        symlink(target, dev.join(name)).step("make the link", dev.join(name))?;
    }
    for name in ["pts", "shm", "mqueue"] {
        make_directories(&dev.join(name))?;
    }
    // 5 is the group `tty` everywhere (Documentation/filesystems/devpts.rst).
    let options = "newinstance,ptmxmode=0666,mode=0620,gid=5";
    mount(Some("devpts"), "/dev/pts", Some("devpts"), MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC, Some(options))
        .step("mount", "/dev/pts")?;
    mount_tmpfs("/dev/shm", "mode=1777,size=50%", MsFlags::empty())
}

fn mount_read_only_sys() -> Result<(), MountError> {
    // A bind onto itself first: /sys need not be a mount.
    mount(Some("/sys"), "/sys", None::<&str>, MsFlags::MS_BIND | MsFlags::MS_REC, None::<&str>).step("bind", "/sys")?;
    set_attributes(CWD, "/sys", true, libc::MOUNT_ATTR_RDONLY, 0).step("make read-only", "/sys")
}

pub(super) fn mount_tmpfs(path: impl AsRef<Path>, options: &str, extra: MsFlags) -> Result<(), MountError> {
    let path = path.as_ref();
    mount(Some("tmpfs"), path, Some("tmpfs"), MsFlags::MS_NOSUID | MsFlags::MS_NODEV | extra, Some(options))
        .step("mount a tmpfs on", path)
}

fn mount_nothing(path: &str, flags: MsFlags) -> nix::Result<()> {
    mount(None::<&str>, path, None::<&str>, flags, None::<&str>)
}

/// Directories up to and including `path`, owned by root, for anyone to pass through.
pub(super) fn make_directories(path: &Path) -> Result<(), MountError> {
    fs::DirBuilder::new().recursive(true).mode(0o755).create(path).step("make the directory", path)
}

/// A detached copy of what `node` refers to, with the mounts below it if `recursive` (open_tree(2)).
fn clone_tree(node: impl AsFd, recursive: bool) -> io::Result<OwnedFd> {
    let mut flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
    flags.set(OpenTreeFlags::AT_RECURSIVE, recursive);
    Ok(open_tree(node, "", flags)?)
}

fn attach(tree: &OwnedFd, path: &Path) -> Result<(), MountError> {
    move_mount(tree, "", CWD, path, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH).step("attach", path)
}

/// mount_setattr(2), Linux 5.12. An empty path means `at` itself.
pub(super) fn set_attributes(
    at: impl AsFd,
    path: impl AsRef<Path>,
    recursive: bool,
    set: u64,
    clear: u64,
) -> io::Result<()> {
    let path = std::ffi::CString::new(path.as_ref().as_os_str().as_bytes())?;
    let attributes = libc::mount_attr { attr_set: set, attr_clr: clear, propagation: 0, userns_fd: 0 };
    let flags = libc::AT_EMPTY_PATH | if recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: path is NUL-terminated and attributes has the size that is passed; both outlive the call.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            at.as_fd().as_raw_fd(),
            path.as_ptr(),
            flags,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Device and inode of what a path names now.
pub fn identity_of(path: &Path) -> io::Result<(u64, u64)> {
    fs::metadata(path).map(|found| (found.dev(), found.ino()))
}
