//! The session's namespaces. Runs as root: in the supervisor, which stays in the host's pid and network namespaces, and in
//! the new init. No data of the tool.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sched::{CloneFlags, clone};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// The stack of init until it forks; it is a copy-on-write copy, so that nothing is shared.
const STACK: usize = 1 << 20;

/// The session's init as its parent sees it.
pub struct InitProcess {
    /// In the supervisor's pid namespace.
    pub pid: i32,
    pub pidfd: OwnedFd,
}

impl InitProcess {
    /// Kill init, and with it every process of the session (pid_namespaces(7)); returns when all of them are gone.
    pub fn kill(&self) -> io::Result<()> {
        use rustix::process::{Signal, WaitId, WaitIdOptions, pidfd_send_signal, waitid};
        match pidfd_send_signal(&self.pidfd, Signal::KILL) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => {}
            Err(errno) => return Err(errno.into()),
        }
        use std::os::fd::AsFd;
        loop {
            match waitid(WaitId::PidFd(self.pidfd.as_fd()), WaitIdOptions::EXITED) {
                Ok(_) | Err(rustix::io::Errno::CHILD) => return Ok(()),
                Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

/// Start pid 1 of new pid and ipc namespaces with `body`; its return value is the exit status. A network of its own it enters
/// itself ([`enter_own_network`]): that takes the kernel as long as all the rest of the clone, for which the caller need not wait.
/// The cgroup namespace stays the host's: tools look up their memory limit by that path. The caller must have one thread.
pub fn start_init(mut body: impl FnMut() -> u8) -> io::Result<InitProcess> {
    let flags = CloneFlags::CLONE_NEWPID | CloneFlags::CLONE_NEWIPC;
    let mut stack = vec![0; STACK];
    // SAFETY: without CLONE_VM the child has its own copy of everything, the stack included; the process has one thread, so no
    // lock of another thread is copied in a locked state.
    let pid = unsafe { clone(Box::new(|| body() as isize), &mut stack, flags, Some(libc::SIGCHLD)) }?;
    let pidfd = Pid::from_raw(pid.as_raw())
        .ok_or(io::ErrorKind::NotFound.into())
        .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).map_err(io::Error::from))?;
    Ok(InitProcess { pid: pid.as_raw(), pidfd })
}

/// Move the calling process, which has one thread, into a network namespace of its own.
pub fn enter_own_network() -> io::Result<()> {
    Ok(nix::sched::unshare(CloneFlags::CLONE_NEWNET)?)
}

/// Bring `lo` up in the calling process's network namespace (netdevice(7)).
pub fn bring_loopback_up() -> io::Result<()> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    // SAFETY: an all-zero ifreq is a valid one.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (slot, byte) in request.ifr_name.iter_mut().zip(b"lo") {
        *slot = *byte as libc::c_char;
    }
    // SAFETY: SIOCGIFFLAGS fills ifr_flags of the ifreq that it is given, which outlives the call.
    let got = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFFLAGS, &raw mut request) };
    if got != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the ioctl above initialised ifr_flags, the member in use.
    unsafe { request.ifr_ifru.ifru_flags |= (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short };
    // SAFETY: SIOCSIFFLAGS reads the ifreq, which outlives the call.
    let set = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
