//! Attack 12: kernel interfaces that would go past the supervisor.

use crate::engine::{self, attack};
use crate::raw::{self, Raw, sys, text};
use crate::support::Side;
use crate::{Inside, Test};

pub const TESTS: &[Test] = &[("interfaces_around_the_supervisor_are_refused", refused)];

pub const INSIDE: &[Inside] = &[("interfaces", interfaces_inside)];

/// What any user of a plain kernel gets; the rest depends on how it was built and set up.
const WORKS_BARE: &[&str] = &["io_uring_setup", "keyctl", "add_key", "netlink_uevent", "userns", "clone_userns"];

fn refused() {
    let bare = attack(&engine::with_victims(), Side::Bare, "interfaces", &[]);
    for name in WORKS_BARE {
        bare.assert(bare.values(name).iter().all(|result| result.starts_with("ok")), &format!("{name} works bare"));
    }
    if !engine::gated_too() {
        return;
    }
    let inside = attack(&engine::with_victims(), Side::Gated, "interfaces", &[]);
    for line in inside.out().lines().filter(|line| !line.starts_with("ran ")) {
        inside.assert(!line.contains(" ok "), &format!("refused inside: {line}"));
    }
    for name in ["io_uring_setup", "io_uring_enter", "io_uring_register", "clone3"] {
        inside.assert(inside.values(name) == ["ENOSYS"], &format!("{name} says ENOSYS, which programs fall back on"));
    }
}

/// In a child: some of these would change the process for good.
fn tried(name: &str, attempt: impl FnOnce() -> Raw) {
    let child = raw::fork(|| match attempt() {
        Ok(_) => 0,
        Err(errno) => errno.clamp(1, 254),
    });
    let status = raw::wait_for(child);
    if !libc::WIFEXITED(status) {
        return raw::say(name, format!("killed by {}", libc::WTERMSIG(status)));
    }
    match libc::WEXITSTATUS(status) {
        0 => raw::say(name, "ok 0"),
        errno => raw::say(name, format!("{:?}", nix::errno::Errno::from_raw(errno))),
    }
}

fn socket(family: i32, kind: i32, protocol: i32) -> Raw {
    sys(libc::SYS_socket, [family as u64, kind as u64, protocol as u64])
}

fn interfaces_inside(_: &[String]) {
    let zeros = [0u64; 64];
    let at = zeros.as_ptr() as u64;
    tried("io_uring_setup", || sys(libc::SYS_io_uring_setup, [8, at]));
    tried("io_uring_enter", || sys(libc::SYS_io_uring_enter, [u64::MAX, 1, 0, 0, 0, 0]));
    tried("io_uring_register", || sys(libc::SYS_io_uring_register, [u64::MAX, 0, 0, 0]));
    tried("userfaultfd", || sys(libc::SYS_userfaultfd, [1]));
    tried("bpf", || sys(libc::SYS_bpf, [0, at, 64]));
    tried("perf_event_open", || sys(libc::SYS_perf_event_open, [at, 0, u64::MAX, u64::MAX, 0]));
    // KEYCTL_JOIN_SESSION_KEYRING; the user's keys are shared with everything else of the user.
    tried("keyctl", || sys(libc::SYS_keyctl, [1, 0]));
    tried("add_key", || {
        sys(libc::SYS_add_key, [text("user").at(), text("gated-test").at(), text("x").at(), 1, -2i64 as u64])
    });
    tried("request_key", || sys(libc::SYS_request_key, [text("user").at(), text("gated-none").at(), 0, 0]));
    tried("af_alg", || socket(libc::AF_ALG, libc::SOCK_SEQPACKET, 0));
    tried("af_vsock", || socket(libc::AF_VSOCK, libc::SOCK_STREAM, 0));
    tried("af_packet", || socket(libc::AF_PACKET, libc::SOCK_RAW, 0));
    tried("netlink_uevent", || socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_KOBJECT_UEVENT));
    tried("netlink_netfilter", || socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_NETFILTER));
    tried("mptcp", || socket(libc::AF_INET, libc::SOCK_STREAM, 262));
    tried("sctp", || socket(libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_SCTP));
    let newuser = libc::CLONE_NEWUSER as u64;
    tried("userns", || sys(libc::SYS_unshare, [newuser]));
    tried("userns_wide", || sys(libc::SYS_unshare, [0xdead_0000_0000_0000 | newuser]));
    tried("clone_userns", || match sys(libc::SYS_clone, [newuser | libc::SIGCHLD as u64, 0, 0, 0, 0])? {
        // SAFETY: the new child has nothing to do.
        0 => unsafe { libc::_exit(0) },
        pid => Ok(pid),
    });
    tried("clone3", || sys(libc::SYS_clone3, [at, 88]));
    tried("mount", || sys(libc::SYS_mount, [text("none").at(), text("/tmp").at(), text("tmpfs").at(), 0, 0]));
    tried("fsopen", || sys(libc::SYS_fsopen, [text("tmpfs").at(), 0]));
    tried("open_tree", || sys(libc::SYS_open_tree, [raw::AT_FDCWD, text("/").at(), 1]));
    tried("chroot", || sys(libc::SYS_chroot, [text(".").at()]));
    tried("listener", seccomp_listener);
    tried("beyond_the_table", || sys(4000, [0]));
}

/// A filter of the tool's own that would take the notifications first.
fn seccomp_listener() -> Raw {
    let allow = libc::sock_filter { code: 6, jt: 0, jf: 0, k: libc::SECCOMP_RET_ALLOW };
    let program = libc::sock_fprog { len: 1, filter: (&raw const allow).cast_mut() };
    // SAFETY: prctl(2) with numbers.
    unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
    sys(libc::SYS_seccomp, [u64::from(libc::SECCOMP_SET_MODE_FILTER), flags, (&raw const program) as u64])
}
