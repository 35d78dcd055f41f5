//! The kernel's part: asked as the caller, without privilege.

use std::fs;
use std::io;

use super::Check;
use crate::tool::floor::{LOWEST_ABI, kernel_abi};
use crate::tool::probe;

/// The first Linux with all that sessions need (Landlock ABI 6).
const LEAST_LINUX: (u32, u32) = (6, 12);

pub fn checks() -> Vec<Check> {
    vec![version(), landlock(), seccomp(), pidfds(), memory(), ptrace(), namespaces(), cgroups(), fanotify()]
}

/// Only as a hint: what counts is what the kernel can do, below.
fn version() -> Check {
    let release = nix::sys::utsname::uname().map(|name| name.release().to_string_lossy().into_owned());
    let release = release.unwrap_or_default();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse::<u32>().ok());
    let found = format!("Linux {release}");
    let (major, minor) = LEAST_LINUX;
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(a), Some(b)) if (a, b) >= LEAST_LINUX => Check::ok("kernel", found),
        _ => Check::note("kernel", found, format!("Linux {major}.{minor} is the first with all that is needed")),
    }
}

fn landlock() -> Check {
    match kernel_abi() {
        Some(abi) if abi >= LOWEST_ABI => Check::ok("landlock", format!("ABI {abi}; {LOWEST_ABI} is needed")),
        Some(abi) => Check::missing(
            "landlock",
            format!("ABI {abi}, and {LOWEST_ABI} is needed"),
            "a newer kernel: Linux 6.12 has ABI 6",
        ),
        None => Check::missing(
            "landlock",
            "this kernel has none, or it is not enabled",
            "put landlock into lsm= of the kernel's command line, or build the kernel with CONFIG_SECURITY_LANDLOCK",
        ),
    }
}

fn seccomp() -> Check {
    let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    let advice = "a kernel with CONFIG_SECCOMP_FILTER, Linux 5.19 or newer; a container's own filter may hide it too";
    if !probe::knows_notification() || !probe::knows_filter_flags(libc::SECCOMP_FILTER_FLAG_NEW_LISTENER) {
        Check::missing("seccomp", "no filter can hand a call over", advice)
    } else if !probe::knows_filter_flags(flags) {
        Check::missing("seccomp", "a held call cannot wait killably (WAIT_KILLABLE_RECV)", advice)
    } else {
        Check::ok("seccomp", "calls can be held and handed over, and wait killably")
    }
}

fn pidfds() -> Check {
    match probe::pidfds() {
        Ok(()) => Check::ok("pidfd", "pidfd_open and pidfd_getfd work"),
        Err(error) => Check::missing("pidfd", format!("pidfd_getfd: {error}"), "Linux 5.6 or newer"),
    }
}

fn memory() -> Check {
    match probe::memory_reading() {
        Ok(()) => Check::ok("memory", "process_vm_readv works"),
        Err(error) => {
            Check::missing("memory", format!("process_vm_readv: {error}"), "a kernel with CONFIG_CROSS_MEMORY_ATTACH")
        }
    }
}

/// ptrace(2), "/proc/sys/kernel/yama/ptrace_scope".
fn ptrace() -> Check {
    const NAME: &str = "ptrace_scope";
    let advice = "sysctl kernel.yama.ptrace_scope=1";
    match fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").as_deref().map(str::trim) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Check::ok(NAME, "no Yama, no limit"),
        Ok("0") => Check::note(NAME, "0: every program of a user may look into the others", advice),
        Ok("1") => Check::ok(NAME, "1: a supervisor may look into what it started"),
        Ok("2") => Check::missing(NAME, "2: only administrators may look into a program; a supervisor is none", advice),
        Ok("3") => Check::missing(
            NAME,
            "3: nobody may look into a program",
            "it holds until the next boot; set it to 1 before",
        ),
        _ => Check::note(NAME, "cannot be read", "look at kernel.yama.ptrace_scope; it must be 0 or 1"),
    }
}

fn namespaces() -> Check {
    let missing: Vec<&str> = ["mnt", "pid", "net", "ipc"]
        .into_iter()
        .filter(|kind| fs::metadata(format!("/proc/self/ns/{kind}")).is_err())
        .collect();
    if missing.is_empty() {
        Check::ok("namespaces", "mount, pid, network and ipc; user namespaces are not needed")
    } else {
        let found = format!("missing: {}", missing.join(" "));
        Check::missing("namespaces", found, "a kernel with CONFIG_NAMESPACES, and /proc mounted")
    }
}

fn cgroups() -> Check {
    use nix::sys::statfs::{CGROUP2_SUPER_MAGIC, statfs};
    match statfs("/sys/fs/cgroup") {
        Ok(found) if found.filesystem_type() == CGROUP2_SUPER_MAGIC => Check::ok("cgroups", "version 2"),
        _ => Check::note(
            "cgroups",
            "no cgroup2 at /sys/fs/cgroup",
            "without it limits of sessions do not hold; systemd.unified_cgroup_hierarchy=1 on the kernel's command line",
        ),
    }
}

/// Whoever asks is seldom root, so that a kernel which has it is told from one that has not, and no more.
fn fanotify() -> Check {
    match probe::open_permission_events() {
        Ok(()) => Check::ok("fanotify", "opens can be held until they are answered"),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            Check::ok("fanotify", "is there; whether opens can be held only root can try")
        }
        Err(error) => Check::missing(
            "fanotify",
            format!("opens cannot be held, so no profile that guards reads can be used: {error}"),
            "a kernel with CONFIG_FANOTIFY_ACCESS_PERMISSIONS",
        ),
    }
}
