//! The session's own files in `/etc`, over the host's: which resolver there is, and which names.
//!
//! Runs as root in the supervisor, in the session's new mount namespace, before any process of the tool exists. Nobody inside
//! can change them or look beneath.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};

use nix::mount::{MsFlags, mount};
use rustix::fs::CWD;

use super::mounts::{MountError, Step, make_directories, mount_tmpfs, set_attributes};

/// What they hold.
#[derive(Debug)]
pub struct OwnFiles {
    pub resolv_conf: Vec<u8>,
    pub hosts: Vec<u8>,
    pub nsswitch: Vec<u8>,
}

/// Where they are in the session's tmpfs.
const PLACE: &str = "/run/gated/etc";

/// Where programs look for the first: resolv.conf(5), and what that is a link to on most systems.
const RESOLV_CONF: [&str; 7] = [
    "/etc/resolv.conf",
    "/run/systemd/resolve/resolv.conf",
    "/run/systemd/resolve/stub-resolv.conf",
    "/run/NetworkManager/resolv.conf",
    "/run/NetworkManager/no-stub-resolv.conf",
    "/run/resolvconf/resolv.conf",
    "/run/connman/resolv.conf",
];

/// Puts them in their places. `/run` must be the session's own, and writable still.
pub fn mount_own_files(files: &OwnFiles) -> Result<(), MountError> {
    let place = Path::new(PLACE);
    make_directories(place)?;
    mount_tmpfs(place, "mode=755,size=64m", MsFlags::empty())?;
    make_what_is_linked_to(Path::new("/etc/resolv.conf"))?;
    for (name, text, targets) in [
        ("resolv.conf", &files.resolv_conf, RESOLV_CONF.as_slice()),
        ("hosts", &files.hosts, &["/etc/hosts"]),
        ("nsswitch.conf", &files.nsswitch, &["/etc/nsswitch.conf"]),
    ] {
        let own = place.join(name);
        let write = || -> io::Result<()> {
            let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o644).open(&own)?;
            file.write_all(text)
        };
        write().step("write", &own)?;
        for target in targets {
            cover(&own, Path::new(target))?;
        }
    }
    set_attributes(CWD, place, false, libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOEXEC, 0)
        .step("make read-only", place)
}

/// Nothing where there is no file: what the C library then takes for it is the same.
fn cover(own: &Path, target: &Path) -> Result<(), MountError> {
    if !fs::metadata(target).is_ok_and(|found| found.is_file()) {
        return Ok(());
    }
    mount(Some(own), target, None::<&str>, MsFlags::MS_BIND, None::<&str>).step("cover", target)?;
    let attributes =
        libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV | libc::MOUNT_ATTR_NOEXEC;
    set_attributes(CWD, target, false, attributes, 0).step("make read-only", target)
}

/// A link to a file of a service that the session does not see leads nowhere: an empty one there can be covered.
fn make_what_is_linked_to(link: &Path) -> Result<(), MountError> {
    let Ok(text) = fs::read_link(link) else { return Ok(()) };
    let Some(target) = plain(&link.parent().unwrap_or(Path::new("/")).join(text)) else { return Ok(()) };
    if !target.starts_with("/run") || fs::symlink_metadata(&target).is_ok() {
        return Ok(());
    }
    make_directories(target.parent().unwrap_or(Path::new("/run")))?;
    fs::File::create_new(&target).map(drop).step("make", &target)
}

/// Without `.` and `..`, which here go up in directories that are no links.
fn plain(path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::from("/");
    for part in path.components() {
        match part {
            Component::RootDir | Component::CurDir => {}
            Component::ParentDir => drop(plain.pop()),
            Component::Normal(name) => plain.push(name),
            Component::Prefix(_) => return None,
        }
    }
    // `/var/run` is a link to it on every system of today.
    let moved = plain.strip_prefix("/var/run").map(|rest| Path::new("/run").join(rest));
    Some(moved.unwrap_or(plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_links_text_becomes_a_plain_path() {
        for (text, expected) in [
            ("/etc/../run/systemd/resolve/stub-resolv.conf", "/run/systemd/resolve/stub-resolv.conf"),
            ("/etc/./../../../run/x", "/run/x"),
            ("/var/run/resolvconf/x", "/run/resolvconf/x"),
        ] {
            assert_eq!(plain(Path::new(text)), Some(PathBuf::from(expected)));
        }
    }
}
