//! The filtering D-Bus proxy of a session: Debian's xdg-dbus-proxy, which speaks with the real buses and lets through the
//! names of the profile.
//!
//! Started as root by the supervisor once the session's view is built; becomes the user, in the host's mount, pid and network
//! namespaces, before it executes. Its arguments are the profile's. A tool reaches its sockets and nothing else of it: they
//! are in a file system of their own that is read-only once they are there.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::link;
use super::mounts::{MountError, mount_bus_directory, seal_bus_directory};
use crate::common::wire::Identity;

const PROGRAM: &str = "/usr/bin/xdg-dbus-proxy";

/// Where the sockets are in the session, and their names there.
pub const BUS_DIRECTORY: &str = "/run/gated/bus";
pub const SESSION_SOCKET: &str = "session";
pub const SYSTEM_SOCKET: &str = "system";

/// The machine's bus.
const SYSTEM_BUS: &str = "unix:path=/run/dbus/system_bus_socket";

/// The number at which the proxy has the directory of its sockets.
const DIRECTORY: i32 = 3;

/// From its start to its sockets.
const PATIENCE: Duration = Duration::from_secs(10);

/// A session that was promised names of a bus and cannot have them.
#[derive(Debug, thiserror::Error)]
pub enum BusProxyError {
    #[error("the profile lists names in [dbus], for which {PROGRAM} is needed; install the package xdg-dbus-proxy")]
    NotInstalled,
    #[error(transparent)]
    Mounts(#[from] MountError),
    #[error("cannot start {PROGRAM}: {0}")]
    Start(#[from] io::Error),
    #[error("{PROGRAM} did not begin to serve")]
    NotReady,
}

/// The names that a session may talk to; of a bus without any there is no socket.
#[derive(Clone, Copy, Debug)]
pub struct Names<'a> {
    pub session: &'a [String],
    pub system: &'a [String],
}

impl Names<'_> {
    pub fn are_none(&self) -> bool {
        self.session.is_empty() && self.system.is_empty()
    }
}

/// A running proxy. It ends when this is dropped, and with this process, however that ends.
pub struct BusProxy {
    child: Child,
    /// It watches the other end.
    alive: OwnedFd,
}

impl BusProxy {
    /// Start it and wait for its sockets. `host` is the host's mount namespace, nsfs(5). `None` if no names are listed.
    pub fn start(names: Names<'_>, user: &Identity, host: &File) -> Result<Option<BusProxy>, BusProxyError> {
        if names.are_none() {
            return Ok(None);
        }
        let directory = mount_bus_directory(Path::new(BUS_DIRECTORY), user)?;
        // Away from the number that it gets, or that would stay close-on-exec.
        let directory = rustix::io::fcntl_dupfd_cloexec(&directory, 10).map_err(io::Error::from)?;
        let (alive, theirs) = link::pair()?;
        let mut command = Command::new(PROGRAM);
        command.args(arguments(names, user.uid)).env_clear().env("PATH", "/usr/bin:/bin").stdin(Stdio::from(theirs));
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let become_proxy = becoming(user, host.as_raw_fd(), directory.as_raw_fd());
        // SAFETY: the closure makes system calls only, on values that were made before the fork.
        unsafe { command.pre_exec(become_proxy) };
        let child = command.spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => BusProxyError::NotInstalled,
            _ => BusProxyError::Start(error),
        })?;
        drop(command);
        let mut proxy = BusProxy { child, alive };
        proxy.wait_until_ready()?;
        seal_bus_directory(Path::new(BUS_DIRECTORY))?;
        Ok(Some(proxy))
    }

    /// It writes one byte when it listens, and hangs up if it cannot.
    fn wait_until_ready(&mut self) -> Result<(), BusProxyError> {
        let mut polled = [PollFd::new(&self.alive, PollFlags::IN)];
        let patience = Timespec { tv_sec: PATIENCE.as_secs().cast_signed(), tv_nsec: 0 };
        let is_ready = poll(&mut polled, Some(&patience)).map_err(io::Error::from)? == 1;
        let mut word = [0];
        let mut alive = File::from(self.alive.as_fd().try_clone_to_owned()?);
        match is_ready && alive.read(&mut word)? == 1 {
            true => Ok(()),
            false => Err(BusProxyError::NotReady),
        }
    }
}

impl Drop for BusProxy {
    fn drop(&mut self) {
        // One that has ended already is what was wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Both buses in one process; exactly the names that are listed, and of the bus itself what every client needs.
fn arguments(names: Names<'_>, uid: u32) -> Vec<String> {
    let session_bus = format!("unix:path=/run/user/{uid}/bus");
    let buses = [(names.session, session_bus.as_str(), SESSION_SOCKET), (names.system, SYSTEM_BUS, SYSTEM_SOCKET)];
    let mut words = vec!["--fd=0".to_owned()];
    for (names, address, socket) in buses.into_iter().filter(|(names, ..)| !names.is_empty()) {
        words.extend([address.to_owned(), format!("/proc/self/fd/{DIRECTORY}/{socket}"), "--filter".to_owned()]);
        words.extend(names.iter().map(|name| format!("--talk={name}")));
    }
    words
}

/// What the child does between fork and execve(2), as root at first.
fn becoming(user: &Identity, host: i32, directory: i32) -> impl FnMut() -> io::Result<()> + Send + Sync + use<> {
    let (uid, gid, groups) = (user.uid, user.gid, user.groups.clone());
    let parent = std::process::id();
    let check = |result: libc::c_long| if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
    move || {
        // SAFETY: system calls on numbers and on `groups`, which lives as long as the closure.
        unsafe {
            check(libc::setns(host, libc::CLONE_NEWNS).into())?;
            check(libc::chdir(c"/".as_ptr()).into())?;
            check(libc::setgroups(groups.len(), groups.as_ptr()).into())?;
            check(libc::setresgid(gid, gid, gid).into())?;
            check(libc::setresuid(uid, uid, uid).into())?;
            check(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0).into())?;
            check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0).into())?;
            if u32::try_from(libc::getppid()) != Ok(parent) {
                return Err(io::Error::from_raw_os_error(libc::ESRCH));
            }
            if libc::dup2(directory, DIRECTORY) < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    }
}

/// The variables by which clients find the sockets, `NAME=value`.
pub fn variables(names: Names<'_>) -> Vec<Vec<u8>> {
    let variable = |name: &str, socket: &str| {
        let path: PathBuf = Path::new(BUS_DIRECTORY).join(socket);
        format!("{name}=unix:path={}", path.display()).into_bytes()
    };
    let session = (!names.session.is_empty()).then(|| variable(SESSION_VARIABLE, SESSION_SOCKET));
    let system = (!names.system.is_empty()).then(|| variable(SYSTEM_VARIABLE, SYSTEM_SOCKET));
    session.into_iter().chain(system).collect()
}

/// The variables of the caller's own buses, which a session does not get.
pub const SESSION_VARIABLE: &str = "DBUS_SESSION_BUS_ADDRESS";
pub const SYSTEM_VARIABLE: &str = "DBUS_SYSTEM_BUS_ADDRESS";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_bus_with_names_is_served_and_only_these_names() {
        let session = ["org.freedesktop.Notifications".to_owned(), "org.example.*".to_owned()];
        let words = arguments(Names { session: &session, system: &[] }, 1000);
        assert_eq!(
            words,
            [
                "--fd=0",
                "unix:path=/run/user/1000/bus",
                "/proc/self/fd/3/session",
                "--filter",
                "--talk=org.freedesktop.Notifications",
                "--talk=org.example.*"
            ]
        );
        let variables = variables(Names { session: &[], system: &session });
        assert_eq!(variables, [b"DBUS_SYSTEM_BUS_ADDRESS=unix:path=/run/gated/bus/system".to_vec()]);
    }
}
