//! The session's own network namespace, made ready before the tool exists. Runs in init, as root, on data of nobody.
//!
//! It has `lo` and nothing else, but looks like a network to whoever asks whether there is one: `getaddrinfo(3)` with
//! `AI_ADDRCONFIG` wants an address that is not loopback, and a datagram wants a route. So `lo` has the IPv4 dummy address
//! (RFC 7600), and every address that there is is *local* (ip-route(8), "AnyIP"): whatever is sent there ends in the session
//! itself, where nobody has it, and is answered as unreachable at once, or where the supervisor has a socket bound to
//! exactly that address.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use rustix::fd::OwnedFd;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with};

use super::namespaces::bring_loopback_up;

/// The session's address, RFC 7600: it stands for no host anywhere.
pub const OWN_V4: Ipv4Addr = Ipv4Addr::new(192, 0, 0, 8);
/// The same of IPv6, from the block of which nothing is forwarded (RFC 6666).
pub const OWN_V6: Ipv6Addr = Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, 0, 8);

/// `lo` of every network namespace, include/net/net_namespace.h `LOOPBACK_IFINDEX`.
const LOOPBACK: u32 = 1;

// linux/netlink.h, linux/rtnetlink.h, linux/if_addr.h.
const NEW_ADDRESS: u16 = 20;
const NEW_ROUTE: u16 = 24;
const ERROR: u16 = 2;
const REQUEST_NEW: u16 = 0x0001 | 0x0004 | 0x0200 | 0x0400;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_F_NODAD: u8 = 2;
const RTA_OIF: u16 = 4;
const RTA_PREFSRC: u16 = 7;
const TABLE_LOCAL: u8 = 255;
const PROTOCOL_STATIC: u8 = 4;
const SCOPE_HOST: u8 = 254;
const TYPE_LOCAL: u8 = 2;

/// Makes the namespace of the calling process the session's. `ipv6` says whether the host reaches the IPv6 internet.
pub fn prepare(ipv6: bool) -> io::Result<()> {
    bring_loopback_up()?;
    // NETLINK_ROUTE is protocol 0.
    let kernel = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    let mut addresses = vec![IpAddr::V4(OWN_V4)];
    if ipv6 {
        addresses.push(IpAddr::V6(OWN_V6));
    }
    for own in addresses {
        ask(&kernel, &new_address(own))?;
        ask(&kernel, &everything_is_here(own))?;
    }
    // No port of the session is anybody's but the session's, ip(7).
    set_own("sys/net/ipv4/ip_unprivileged_port_start", b"0")
}

/// Whether this process's network namespace reaches the IPv6 internet. Sends nothing.
pub fn reaches_ipv6() -> bool {
    let anywhere = SocketAddr::new(Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 1).into(), 53);
    socket_with(AddressFamily::INET6, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
        .and_then(|socket| rustix::net::connect(&socket, &anywhere))
        .is_ok()
}

fn octets(address: IpAddr) -> (u8, Vec<u8>) {
    match address {
        IpAddr::V4(address) => (libc::AF_INET as u8, address.octets().to_vec()),
        IpAddr::V6(address) => (libc::AF_INET6 as u8, address.octets().to_vec()),
    }
}

/// `ip address add ADDRESS dev lo`, `struct ifaddrmsg`.
fn new_address(address: IpAddr) -> Vec<u8> {
    let (family, bytes) = octets(address);
    let mut body = vec![family, bytes.len() as u8 * 8, IFA_F_NODAD, SCOPE_HOST];
    body.extend(LOOPBACK.to_ne_bytes());
    request(NEW_ADDRESS, body, &[(IFA_LOCAL, &bytes), (IFA_ADDRESS, &bytes)])
}

/// `ip route add local default dev lo src ADDRESS`, `struct rtmsg`.
fn everything_is_here(source: IpAddr) -> Vec<u8> {
    let (family, bytes) = octets(source);
    let mut body = vec![family, 0, 0, 0, TABLE_LOCAL, PROTOCOL_STATIC, SCOPE_HOST, TYPE_LOCAL];
    body.extend(0_u32.to_ne_bytes());
    request(NEW_ROUTE, body, &[(RTA_OIF, &LOOPBACK.to_ne_bytes()), (RTA_PREFSRC, &bytes)])
}

/// `struct nlmsghdr`, the body, and each attribute as a `struct rtattr`: all of a multiple of 4 bytes here.
fn request(kind: u16, mut body: Vec<u8>, attributes: &[(u16, &[u8])]) -> Vec<u8> {
    for (attribute, value) in attributes {
        body.extend((value.len() as u16 + 4).to_ne_bytes());
        body.extend(attribute.to_ne_bytes());
        body.extend(*value);
    }
    let mut message = (body.len() as u32 + 16).to_ne_bytes().to_vec();
    message.extend(kind.to_ne_bytes());
    message.extend(REQUEST_NEW.to_ne_bytes());
    message.extend([0; 8]);
    message.extend(body);
    message
}

/// Sends one request and takes its answer, netlink(7).
fn ask(kernel: &OwnedFd, message: &[u8]) -> io::Result<()> {
    sendto(kernel, message, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    let mut answer = [0; 256];
    recv(kernel, &mut answer, RecvFlags::empty())?;
    let kind = u16::from_ne_bytes([answer[4], answer[5]]);
    let error = i32::from_ne_bytes([answer[16], answer[17], answer[18], answer[19]]);
    match (kind, error) {
        (ERROR, 0) => Ok(()),
        (ERROR, error) => Err(io::Error::from_raw_os_error(-error)),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Writes a setting of this namespace, through a procfs of its own: what is mounted at /proc may be read-only.
fn set_own(name: &str, value: &[u8]) -> io::Result<()> {
    use rustix::fs::{Mode, OFlags, openat};
    use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
    let filesystem = fsopen("proc", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&filesystem)?;
    let procfs = fsmount(&filesystem, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?;
    let file = openat(&procfs, name, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    match rustix::io::write(&file, value)? {
        written if written == value.len() => Ok(()),
        _ => Err(io::ErrorKind::WriteZero.into()),
    }
}
