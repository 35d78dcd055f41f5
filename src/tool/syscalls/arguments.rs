//! The arguments that decide, per system call. Pure data.
//!
//! The first case that holds decides. A list that permits comes before what refuses the rest, so that what is not listed
//! is refused.

use super::{Action, Case, Feature, Test};
use crate::common::errno::Errno;

use Action::{By, Native, Refused, Trapped, WithoutEffect};

const fn case(what: &'static str, when: &'static [Test], then: Action) -> Case {
    Case { what, when, then }
}

const fn is(argument: u8, value: u32) -> Test {
    masked(argument, u32::MAX, value)
}

const fn without(argument: u8, bits: u32) -> Test {
    masked(argument, bits, 0)
}

const fn with(argument: u8, bits: u32) -> Test {
    masked(argument, bits, bits)
}

/// A null pointer.
const fn null(argument: u8) -> Test {
    Test { argument, mask: u64::MAX, value: 0 }
}

const fn masked(argument: u8, mask: u32, value: u32) -> Test {
    Test { argument, mask: mask as u64, value: value as u64 }
}

/// Access mode and the two flags that change a file without it; `O_TMPFILE` needs a writable access mode, open(2). Alike
/// on both architectures.
const OPEN_CHANGES: u32 = (libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC) as u32;
const O_PATH: u32 = libc::O_PATH as u32;

/// open(2): flags are the second argument. `O_PATH` makes the kernel ignore the flags that change.
pub const OPEN: &[Case] = &[
    case("O_RDONLY without O_CREAT and O_TRUNC", &[without(1, OPEN_CHANGES)], Native),
    case("O_PATH", &[with(1, O_PATH)], Native),
];

/// openat(2): flags are the third argument.
pub const OPENAT: &[Case] = &[
    case("O_RDONLY without O_CREAT and O_TRUNC", &[without(2, OPEN_CHANGES)], Native),
    case("O_PATH", &[with(2, O_PATH)], Native),
];

/// The `CLONE_NEW*` flags that clone(2) takes. `CLONE_NEWTIME` (0x80) lies in the exit signal there.
const NEW_NAMESPACES: u32 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET) as u32;
const CLONE_NEWTIME: u32 = 0x80;

const CLONE_FS: u32 = libc::CLONE_FS as u32;
const CLONE_THREAD: u32 = libc::CLONE_THREAD as u32;

/// clone(2): a cwd is shared by the threads of a process and by nobody else, or one process could move another after it was
/// judged where that executes something.
pub const CLONE: &[Case] = &[
    case("no CLONE_NEW* flag and no CLONE_FS", &[without(0, NEW_NAMESPACES | CLONE_FS)], Native),
    case("a thread", &[without(0, NEW_NAMESPACES), with(0, CLONE_THREAD)], Native),
];
pub const UNSHARE: &[Case] = &[case("no CLONE_NEW* flag", &[without(0, NEW_NAMESPACES | CLONE_NEWTIME)], Native)];

/// personality(2).
pub const PERSONALITY: &[Case] =
    &[case("read (0xffffffff)", &[is(0, u32::MAX)], Native), case("PER_LINUX", &[is(0, 0)], Native)];

/// prctl(2). A program that makes itself non-dumpable would be out of the reach of a supervisor without capabilities
/// (ptrace(2), "access mode checking"), and every trapped call of it would fail. It is told that it worked.
pub const PRCTL: &[Case] = &[
    case("PR_SET_DUMPABLE to 0", &[is(0, libc::PR_SET_DUMPABLE as u32), is(1, 0)], WithoutEffect),
    case(
        "PR_SET_MM: argv and executable as a person is shown them",
        &[is(0, libc::PR_SET_MM as u32)],
        Refused(Errno::PERM),
    ),
];

/// setrlimit(2) and prlimit(2): a session has the one limit of core files, 1 byte, at which the kernel starts no handler of
/// core_pattern. At a limit of 0, which a program that means well sets, it would start one (core(5)).
const CORE: u32 = libc::RLIMIT_CORE;
pub const SETRLIMIT: &[Case] = &[case("RLIMIT_CORE", &[is(0, CORE)], WithoutEffect)];
pub const PRLIMIT: &[Case] = &[
    case("RLIMIT_CORE, to be read", &[is(1, CORE), null(2)], Native),
    case("RLIMIT_CORE, to be set", &[is(1, CORE)], WithoutEffect),
];

/// seccomp(2): one listener per filter chain is the kernel's own limit, and `EBUSY` its own answer.
pub const SECCOMP: &[Case] = &[case(
    "SECCOMP_SET_MODE_FILTER with SECCOMP_FILTER_FLAG_NEW_LISTENER",
    &[is(0, libc::SECCOMP_SET_MODE_FILTER), with(1, libc::SECCOMP_FILTER_FLAG_NEW_LISTENER as u32)],
    Refused(Errno::BUSY),
)];

/// move_pages(2) and migrate_pages(2).
pub const OWN_PAGES: &[Case] = &[case("the caller itself (pid 0)", &[is(0, 0)], Native)];

const UNIX: u32 = libc::AF_UNIX as u32;
const INET: u32 = libc::AF_INET as u32;
const INET6: u32 = libc::AF_INET6 as u32;
const NETLINK: u32 = libc::AF_NETLINK as u32;
/// `SOCK_TYPE_MASK`, include/linux/net.h.
const TYPE: u32 = 0xf;
const STREAM: u32 = libc::SOCK_STREAM as u32;
const DGRAM: u32 = libc::SOCK_DGRAM as u32;
const RAW: u32 = libc::SOCK_RAW as u32;
const PACKET: u32 = 10;

/// Where the session has its own network, TCP sockets are made in the host's for it, and the supervisor connects them.
const TCP: Action = By(Feature::OwnNetwork);

/// A native one sends to any path by sendmsg(2), whose address no filter sees: the supervisor makes one that only receives.
const DATAGRAMS: Action = By(Feature::OwnNetwork);

/// socket(2). Landlock sees a TCP connect only where the protocol is plainly TCP: not MPTCP (262), SMC (256), SCTP (132,
/// and what `SOCK_SEQPACKET` means) or DCCP (33, and what `SOCK_DCCP` means). So protocols are listed, not refused.
pub const SOCKET: &[Case] = &[
    case("datagrams on AF_UNIX", &[is(0, UNIX), masked(1, TYPE, DGRAM)], DATAGRAMS),
    case("the same as SOCK_RAW", &[is(0, UNIX), masked(1, TYPE, RAW)], DATAGRAMS),
    case("AF_UNIX", &[is(0, UNIX)], Native),
    case("TCP", &[is(0, INET), masked(1, TYPE, STREAM), is(2, 0)], TCP),
    case("TCP by number", &[is(0, INET), masked(1, TYPE, STREAM), is(2, libc::IPPROTO_TCP as u32)], TCP),
    case("TCP on IPv6", &[is(0, INET6), masked(1, TYPE, STREAM), is(2, 0)], TCP),
    case("TCP on IPv6 by number", &[is(0, INET6), masked(1, TYPE, STREAM), is(2, libc::IPPROTO_TCP as u32)], TCP),
    case("UDP", &[is(0, INET), masked(1, TYPE, DGRAM), is(2, 0)], Native),
    case("UDP by number", &[is(0, INET), masked(1, TYPE, DGRAM), is(2, libc::IPPROTO_UDP as u32)], Native),
    case("UDP on IPv6", &[is(0, INET6), masked(1, TYPE, DGRAM), is(2, 0)], Native),
    case("UDP on IPv6 by number", &[is(0, INET6), masked(1, TYPE, DGRAM), is(2, libc::IPPROTO_UDP as u32)], Native),
    case("ICMP echo", &[is(0, INET), masked(1, TYPE, DGRAM), is(2, libc::IPPROTO_ICMP as u32)], Native),
    case("ICMPv6 echo", &[is(0, INET6), masked(1, TYPE, DGRAM), is(2, libc::IPPROTO_ICMPV6 as u32)], Native),
    case("AF_NETLINK, NETLINK_ROUTE", &[is(0, NETLINK), is(2, libc::NETLINK_ROUTE as u32)], Native),
    case("SOCK_RAW", &[is(0, INET), masked(1, TYPE, RAW)], Refused(Errno::PERM)),
    case("SOCK_RAW on IPv6", &[is(0, INET6), masked(1, TYPE, RAW)], Refused(Errno::PERM)),
    case("SOCK_PACKET", &[is(0, INET), masked(1, TYPE, PACKET)], Refused(Errno::PERM)),
    case("another protocol on IPv4", &[is(0, INET)], Refused(Errno::PROTONOSUPPORT)),
    case("another protocol on IPv6", &[is(0, INET6)], Refused(Errno::PROTONOSUPPORT)),
    case("another netlink family", &[is(0, NETLINK)], Refused(Errno::PROTONOSUPPORT)),
];

/// socketpair(2): each of two datagram sockets sends to any path as well.
pub const SOCKETPAIR: &[Case] = &[
    case("datagrams on AF_UNIX", &[is(0, UNIX), masked(1, TYPE, DGRAM)], By(Feature::OwnDatagrams)),
    case("the same as SOCK_RAW", &[is(0, UNIX), masked(1, TYPE, RAW)], By(Feature::OwnDatagrams)),
    case("AF_UNIX", &[is(0, UNIX)], Native),
];

/// TCP fast open connects without connect(2), which Landlock does not see.
const FASTOPEN: u32 = libc::MSG_FASTOPEN as u32;
pub const SENDMSG: &[Case] = &[case("MSG_FASTOPEN", &[with(2, FASTOPEN)], By(Feature::OwnFastOpen))];
pub const SENDMMSG: &[Case] = &[case("MSG_FASTOPEN", &[with(3, FASTOPEN)], Refused(Errno::OPNOTSUPP))];
/// send(2) is sendto(2) without an address.
pub const SENDTO: &[Case] =
    &[case("MSG_FASTOPEN", &[with(3, FASTOPEN)], By(Feature::OwnFastOpen)), case("no address", &[null(4)], Native)];

/// setsockopt(2): `TCP_ULP` "smc" (Linux 4.19 to 6.12) turns a TCP socket into one that Landlock does not know; "tls" has
/// fallbacks wherever it is used. The others send packets elsewhere than to the address that was judged, without a privilege:
/// a source route (RFC 791, RFC 6275, RFC 8754) makes its first stop the packet's destination, and a device of the caller's
/// choice (Linux 5.7) leads past the machine's own routes.
pub const SETSOCKOPT: &[Case] = &[
    case("TCP_ULP", &[is(1, libc::IPPROTO_TCP as u32), is(2, libc::TCP_ULP as u32)], Refused(Errno::NOPROTOOPT)),
    case("IP_OPTIONS", &[is(1, libc::IPPROTO_IP as u32), is(2, libc::IP_OPTIONS as u32)], Refused(Errno::PERM)),
    case("IPV6_RTHDR", &[is(1, libc::IPPROTO_IPV6 as u32), is(2, libc::IPV6_RTHDR as u32)], Refused(Errno::PERM)),
    case("IPV6_2292PKTOPTIONS", &[is(1, libc::IPPROTO_IPV6 as u32), is(2, IPV6_2292PKTOPTIONS)], Refused(Errno::PERM)),
    case(
        "SO_BINDTODEVICE",
        &[is(1, libc::SOL_SOCKET as u32), is(2, libc::SO_BINDTODEVICE as u32)],
        Refused(Errno::PERM),
    ),
    case(
        "SO_BINDTOIFINDEX",
        &[is(1, libc::SOL_SOCKET as u32), is(2, libc::SO_BINDTOIFINDEX as u32)],
        Refused(Errno::PERM),
    ),
];
/// linux/in6.h.
const IPV6_2292PKTOPTIONS: u32 = 6;

/// The type byte of an ioctl command, asm-generic/ioctl.h.
const fn of_type(letter: u8) -> Test {
    masked(1, 0xff00, (letter as u32) << 8)
}

/// A command from before types: only the two low bytes, so that a V4L2 or DRM command of the same letter is not meant.
const fn bare(letter: u8) -> Test {
    masked(1, 0xffff_ff00, (letter as u32) << 8)
}

const NOT_A_FILE: Action = Refused(Errno::NOTTY);

/// ioctl(2): the command is the second argument. A filesystem's commands mostly ask for ownership, not for a writable fd,
/// so those that change a file must not pass on an fd opened for reading; what a device does is Landlock's `IOCTL_DEV`.
/// `ENOTTY` is what a filesystem without the command says.
pub const IOCTL: &[Case] = &[
    case("FS_IOC_GETFLAGS", &[is(1, 0x8008_6601)], Native),
    case("FS_IOC_FIEMAP", &[is(1, 0xc020_660b)], Native),
    case("FS_IOC_SETFLAGS", &[is(1, 0x4008_6602)], Trapped),
    case("others of 'f': fscrypt, fs-verity, ext4, Lustre", &[of_type(b'f')], NOT_A_FILE),
    case("FS_IOC_FSGETXATTR", &[is(1, 0x801c_581f)], Native),
    case("FS_IOC_FSSETXATTR", &[is(1, 0x401c_5820)], Trapped),
    case("others of 'X': FIFREEZE, FITRIM, shutdown, XFS", &[of_type(b'X')], NOT_A_FILE),
    case("FICLONE, to a writable fd", &[is(1, 0x4004_9409)], Native),
    case("FICLONERANGE, to a writable fd", &[is(1, 0x4020_940d)], Native),
    case("others of 0x94: btrfs, labels, FIDEDUPERANGE", &[of_type(0x94)], NOT_A_FILE),
    case("F2FS", &[of_type(0xf5)], NOT_A_FILE),
    case("bcachefs", &[of_type(0xbc)], NOT_A_FILE),
    case("OCFS2", &[of_type(b'o')], NOT_A_FILE),
    case("Ceph", &[of_type(0x97)], NOT_A_FILE),
    case("CIFS", &[of_type(0xcf)], NOT_A_FILE),
    case("reiserfs", &[of_type(0xcd)], NOT_A_FILE),
    case("OpenZFS", &[of_type(0x83)], NOT_A_FILE),
    case("autofs", &[of_type(0x93)], NOT_A_FILE),
    case("FS_IOC_SETVERSION", &[is(1, 0x4008_7602)], NOT_A_FILE),
    case("FAT_IOCTL_SET_ATTRIBUTES", &[is(1, 0x4004_7211)], NOT_A_FILE),
    case("TIOCSTI: input for the terminal's next reader", &[is(1, 0x5412)], Refused(Errno::PERM)),
    case("TIOCLINUX: the same through the console's selection", &[is(1, 0x541c)], Refused(Errno::PERM)),
    case("TIOCCONS", &[is(1, 0x541d)], Refused(Errno::PERM)),
    case("TIOCSETD: line disciplines are kernel modules", &[is(1, 0x5423)], Refused(Errno::PERM)),
    case("KD*: console keyboard and font", &[bare(b'K')], NOT_A_FILE),
    case("VT_*: virtual consoles", &[bare(b'V')], NOT_A_FILE),
    case("userfaultfd, also by its device", &[of_type(0xaa)], Refused(Errno::PERM)),
];
