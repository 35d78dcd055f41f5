//! What the plain system calls of a socket program cannot show: addresses, options, what arrived, events.
//!
//! Runs in the executor. Nothing here waits longer than a moment: what is not there by then is said to be not there.

use std::sync::atomic::{AtomicU64, Ordering};

use super::acts::{failed, ready, told};

/// Where programs find ports of their own: each has as many as this, and what they are called is the same for all. So what
/// one leaves behind, connections that have ended in the last minute, is in nobody's way.
pub const PORTS: u64 = 20;
const FIRST: u64 = 7100;
/// From which on the kernel chooses, ip(7) `ip_local_port_range`.
const CHOSEN: u64 = 32768;
pub static OWN: AtomicU64 = AtomicU64::new(0);

/// An address of the internet as the first eight bytes of a sockaddr_in; any other number is as it was.
pub fn with_own_port(number: u64) -> u64 {
    let port = u64::from(((number >> 16) as u16).swap_bytes());
    let is_internet = number & 0xffff == libc::AF_INET as u64 && (FIRST..FIRST + PORTS).contains(&port);
    if !is_internet {
        return number;
    }
    let own = (port + OWN.load(Ordering::Relaxed)) as u16;
    number & !0xffff_0000 | u64::from(own.swap_bytes()) << 16
}

/// How long something that is on its way may take, in milliseconds.
const MOMENT: i32 = 20;

/// The address as a program would compare it: a port that the kernel chose is only said to be one.
fn words(bytes: &[u8]) -> String {
    let family = bytes.first_chunk().map_or(0, |family| u16::from_ne_bytes(*family));
    let port = bytes.get(2..4).and_then(<[u8]>::first_chunk).map_or(0, |port| u16::from_be_bytes(*port));
    let port = match u64::from(port) {
        port @ ..FIRST => port.to_string(),
        port @ FIRST..CHOSEN => port.wrapping_sub(OWN.load(Ordering::Relaxed)).to_string(),
        CHOSEN.. => "chosen".into(),
    };
    match i32::from(family) {
        libc::AF_INET => format!("inet {:?} {port} of {}", bytes.get(4..8).unwrap_or_default(), bytes.len()),
        libc::AF_INET6 => format!("inet6 {:?} {port} of {}", bytes.get(8..24).unwrap_or_default(), bytes.len()),
        libc::AF_UNIX => {
            let path = bytes.get(2..).unwrap_or_default();
            // Names that the kernel chose, by autobind, unix(7).
            if path.first() == Some(&0) && path.len() == 6 {
                "unix chosen".into()
            } else {
                format!("unix {}", path.escape_ascii())
            }
        }
        other => format!("family {other}"),
    }
}

/// A TCP socket that neither listens nor is connected.
fn is_unconnected(fd: i32) -> bool {
    let mut room = 0;
    // SAFETY: no bytes are written to where nothing is.
    let has_peer = unsafe { libc::getpeername(fd, std::ptr::NonNull::dangling().as_ptr(), &mut room) } == 0;
    option(fd, libc::SOL_SOCKET, libc::SO_PROTOCOL) == "[6, 0, 0, 0]" && !listens(fd) && !has_peer
}

/// shutdown(2), but of a TCP socket only where there is a connection.
fn shut(fd: i32, how: i32) -> String {
    if is_unconnected(fd) {
        return "no connection".into();
    }
    // SAFETY: numbers.
    told(unsafe { libc::shutdown(fd, how) }.into())
}

type NameCall = unsafe extern "C" fn(i32, *mut libc::sockaddr, *mut libc::socklen_t) -> i32;

fn name(fd: i32, call: NameCall, room: u32) -> String {
    let mut bytes = [0u8; 128];
    let mut length = room.min(128);
    // SAFETY: as many bytes as `length` says.
    if unsafe { call(fd, bytes.as_mut_ptr().cast(), &mut length) } != 0 {
        return failed();
    }
    // It tells the port that a connection had which was refused; inside there was none if the socket waits (`refused` of
    // src/session/net/connect.rs).
    if is_unconnected(fd) && bytes.get(4..24).is_some_and(|ip| ip.iter().all(|byte| *byte == 0)) {
        return format!("unspecified, length {length}");
    }
    format!("{} length {length}", words(bytes.get(..(length.min(room) as usize)).unwrap_or_default()))
}

fn option(fd: i32, level: i32, option: i32) -> String {
    let mut bytes = [0u8; 16];
    let mut length = 16;
    // SAFETY: as many bytes as `length` says.
    if unsafe { libc::getsockopt(fd, level, option, bytes.as_mut_ptr().cast(), &mut length) } != 0 {
        return failed();
    }
    format!("{:?}", bytes.get(..length as usize).unwrap_or_default())
}

fn accept(fd: i32, flags: i32) -> String {
    if ready(fd, libc::POLLIN, MOMENT) & libc::POLLIN == 0 {
        let mut status = 0;
        // SAFETY: F_GETFL, and then accept4(2) on one that does not wait or fails at once.
        unsafe {
            status = libc::fcntl(fd, libc::F_GETFL).max(status);
            if status & libc::O_NONBLOCK == 0 && listens(fd) {
                return "would wait".into();
            }
        }
    }
    let mut bytes = [0u8; 128];
    let mut length = 128;
    // SAFETY: as many bytes as `length` says.
    let result = unsafe { libc::accept4(fd, bytes.as_mut_ptr().cast(), &mut length, flags) };
    if result < 0 {
        return failed();
    }
    format!("{result} from {}", words(bytes.get(..length as usize).unwrap_or_default()))
}

fn listens(fd: i32) -> bool {
    option(fd, libc::SOL_SOCKET, libc::SO_ACCEPTCONN).starts_with("[1")
}

/// Never waits longer than a moment.
fn receive(fd: i32, length: usize, flags: i32) -> String {
    ready(fd, libc::POLLIN, MOMENT);
    let mut data = vec![0u8; length.min(4096)];
    let mut from = [0u8; 128];
    let mut control = [0u64; 32];
    let mut part = libc::iovec { iov_base: data.as_mut_ptr().cast(), iov_len: data.len() };
    // SAFETY: an all-zero msghdr, then live buffers of the lengths given.
    unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_name = from.as_mut_ptr().cast();
        message.msg_namelen = 128;
        message.msg_iov = &mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = 256;
        let count = libc::recvmsg(fd, &mut message, flags | libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC);
        if count < 0 {
            return failed();
        }
        let kept = data.get(..(count as usize).min(data.len())).unwrap_or_default();
        let mut told_of = format!("{count} \"{}\" flags {:#x}", kept.escape_ascii(), message.msg_flags);
        if message.msg_namelen > 0 {
            told_of += &format!(" from {}", words(from.get(..message.msg_namelen as usize).unwrap_or_default()));
        }
        let mut header = libc::CMSG_FIRSTHDR(&message);
        while !header.is_null() {
            let (level, kind) = ((*header).cmsg_level, (*header).cmsg_type);
            told_of += &format!(" control {level} {kind}");
            if level == libc::SOL_SOCKET && kind == libc::SCM_RIGHTS {
                let fd = *libc::CMSG_DATA(header).cast::<i32>();
                told_of += &format!(" descriptor {fd}");
            }
            header = libc::CMSG_NXTHDR(&message, header);
        }
        told_of
    }
}

/// Sends one byte and a descriptor over a unix socket.
fn send_descriptor(fd: i32, passed: i32) -> String {
    let mut data = [b'd'];
    let mut part = libc::iovec { iov_base: data.as_mut_ptr().cast(), iov_len: 1 };
    let mut control = [0u64; 4];
    // SAFETY: an all-zero msghdr, live buffers; room for one descriptor.
    unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(4) as usize;
        let header = libc::CMSG_FIRSTHDR(&message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(4) as usize;
        *libc::CMSG_DATA(header).cast::<i32>() = passed;
        told(libc::sendmsg(fd, &message, libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT) as i64)
    }
}

/// Registers with a new epoll instance and says what it tells at once, twice: with `EPOLLET` the second time nothing.
fn epoll(fd: i32, edge: bool) -> String {
    ready(fd, libc::POLLIN, MOMENT);
    // SAFETY: descriptors of our own, live structures.
    unsafe {
        let instance = libc::epoll_create1(libc::EPOLL_CLOEXEC);
        let wanted = libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | if edge { libc::EPOLLET } else { 0 };
        let mut event = libc::epoll_event { events: wanted as u32, u64: 7 };
        let mut told_of = told(libc::epoll_ctl(instance, libc::EPOLL_CTL_ADD, fd, &mut event).into());
        for _ in 0..2 {
            let mut found = libc::epoll_event { events: 0, u64: 0 };
            let count = libc::epoll_wait(instance, &mut found, 1, 0);
            told_of += &format!(" {count}:{:#x}", { found.events });
        }
        libc::close(instance);
        told_of
    }
}

/// connect(2) with this address on a socket that does not wait is settled a moment later.
fn settle(fd: i32) -> String {
    let events = ready(fd, libc::POLLIN | libc::POLLOUT | libc::POLLRDHUP, MOMENT);
    format!("{events:#x}")
}

/// Fills another's queue of datagrams, so that the next does not fit.
fn fill(fd: i32, address: u64, length: u32) -> String {
    for _ in 0..100_000 {
        // SAFETY: the executor placed the address.
        let sent =
            unsafe { libc::sendto(fd, c"x".as_ptr().cast(), 1, libc::MSG_DONTWAIT, address as *const _, length) };
        if sent < 0 {
            return failed();
        }
    }
    "never full".into()
}

/// Blocks in `connect` where nobody waits, or in data, with a time limit on the socket.
fn in_time(fd: i32, send: bool, microseconds: i64) -> String {
    let time = libc::timeval { tv_sec: 0, tv_usec: microseconds };
    let option = if send { libc::SO_SNDTIMEO } else { libc::SO_RCVTIMEO };
    let size = size_of::<libc::timeval>() as u32;
    // SAFETY: a live structure of the size given.
    told(unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, option, (&raw const time).cast(), size) }.into())
}

/// Type, status and descriptor flags.
fn kind(fd: i32) -> String {
    // SAFETY: an all-zero stat that the kernel fills; fcntl(2).
    unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        if libc::fstat(fd, &mut stat) != 0 {
            return failed();
        }
        format!(
            "{:o} {:#o} {}",
            stat.st_mode & libc::S_IFMT,
            libc::fcntl(fd, libc::F_GETFL),
            libc::fcntl(fd, libc::F_GETFD)
        )
    }
}

pub fn perform(name_of_step: &str, r: [u64; 6]) -> Option<String> {
    let int = |index: usize| r[index] as i32;
    Some(match name_of_step {
        "name" => name(int(0), libc::getsockname, r[1] as u32),
        "peer" => name(int(0), libc::getpeername, r[1] as u32),
        "option" => option(int(0), int(1), int(2)),
        "accept" => accept(int(0), int(1)),
        "recv" => receive(int(0), r[1] as usize, int(2)),
        "pass" => send_descriptor(int(0), int(1)),
        "epoll" => epoll(int(0), int(1) != 0),
        "settle" => settle(int(0)),
        "fill" => fill(int(0), r[1], r[2] as u32),
        "intime" => in_time(int(0), int(1) != 0, r[2] as i64),
        "kind" => kind(int(0)),
        "shut" => shut(int(0), int(1)),
        _ => return None,
    })
}
