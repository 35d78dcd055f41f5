//! What the kernel offers of what sessions are built on, by asking it. Runs as whoever wants to know (`gatedctl doctor`),
//! with no privilege; changes nothing.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

/// Whether seccomp(2) takes a filter with these flags. The kernel looks at the flags before the filter, and there is none at
/// the null pointer: `EFAULT` means that they are known, `EINVAL` that they are not.
pub fn knows_filter_flags(flags: libc::c_ulong) -> bool {
    // SAFETY: with a null pointer as the filter the call fails, whatever the flags, and installs nothing.
    let result = unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags as libc::c_uint, std::ptr::null::<u8>())
    };
    result < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::EFAULT)
}

/// Whether a filter can hand a system call to a listener (`SECCOMP_RET_USER_NOTIF`).
pub fn knows_notification() -> bool {
    let action: u32 = libc::SECCOMP_RET_USER_NOTIF;
    // SAFETY: SECCOMP_GET_ACTION_AVAIL reads one u32, which lives until the call returns.
    let result = unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_GET_ACTION_AVAIL, 0, &raw const action) };
    result == 0
}

/// Whether a process can be held by descriptor and its descriptors duplicated, tried on this process.
pub fn pidfds() -> io::Result<()> {
    let own = Pid::from_raw(std::process::id().cast_signed()).ok_or(io::ErrorKind::NotFound)?;
    let pidfd = pidfd_open(own, PidfdFlags::empty())?;
    pidfd_getfd(&pidfd, pidfd.as_fd().as_raw_fd(), PidfdGetfdFlags::empty())?;
    Ok(())
}

/// Whether memory of another process can be read in one call, tried on this process.
pub fn memory_reading() -> io::Result<()> {
    let source = [0x67_u8; 8];
    let mut copy = [0_u8; 8];
    let remote = nix::sys::uio::RemoteIoVec { base: source.as_ptr().addr(), len: source.len() };
    let own = nix::unistd::getpid();
    let count = nix::sys::uio::process_vm_readv(own, &mut [io::IoSliceMut::new(&mut copy)], &[remote])?;
    if count == source.len() && copy == source { Ok(()) } else { Err(io::ErrorKind::InvalidData.into()) }
}

/// Whether opens can be held before they happen (fanotify(7), `FAN_CLASS_CONTENT`). `PermissionDenied` for whoever is not
/// root, and then the kernel has fanotify at least.
pub fn open_permission_events() -> io::Result<()> {
    let flags = libc::FAN_CLASS_CONTENT | libc::FAN_CLOEXEC;
    // SAFETY: fanotify_init(2) takes two integers.
    let group = unsafe { libc::syscall(libc::SYS_fanotify_init, flags, libc::O_RDONLY) };
    let group = i32::try_from(group).ok().filter(|group| *group >= 0).ok_or_else(io::Error::last_os_error)?;
    // SAFETY: the kernel just gave this descriptor to us alone.
    drop(unsafe { OwnedFd::from_raw_fd(group) });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_that_runs_the_tests_has_all_of_it() {
        let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
        assert!(knows_filter_flags(flags) && knows_notification());
        assert!(!knows_filter_flags(1 << 30), "flags that nobody defined");
        pidfds().unwrap();
        memory_reading().unwrap();
        if let Err(error) = open_permission_events() {
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        }
    }
}
