//! Registers and memory of a tool: each call is decoded as if a thread of this process had made it, which stands in another one
//! and is held by a filter of its own. What is read is compared with what is there.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::sync::{Arc, LazyLock, mpsc};

use gated::common::errno::Errno;
use gated::session::calls::{Call, Calls, Opening};
use gated::session::decode::network::Asked;
use gated::session::decode::{At, Attempt, Change, Subject, decode};
use gated::session::exec::arguments::{self, words};
use gated::session::listener::{Listener, Notification, Received};
use gated::session::target::{Target, Unreadable};

use super::feed::Feed;

const PAGE: usize = 4096;
/// Of memory that can be read, with a page before it and [`BEHIND`] bytes behind it that cannot.
const ROOM: usize = 8 * PAGE;
const BEHIND: usize = 4 * ROOM;
const PATH_MAX: usize = 4096;
/// What argv and environment may have at the most, with what is counted besides (3/4 of `_STK_LIM`, fs/exec.c).
const WORDS_BYTES: usize = 6 << 20;
/// So close to it the two may count differently.
const CLOSE: usize = 1 << 20;

struct Held {
    listener: Listener,
    notification: Notification,
    procfs: OwnedFd,
    call: Call,
    socket: OwnedFd,
    /// [`ROOM`] bytes, page-aligned.
    memory: usize,
}

/// Nobody else waits to be served.
struct Alone;

impl gated::session::crew::Relief for Alone {
    fn takes_long(&self) {}
}

static HELD: LazyLock<Held> = LazyLock::new(|| hold().expect("a thread under a filter of its own"));

/// Where in a page the memory begins, the number of the call, its registers, and the memory. In registers and memory, what is
/// above [`BASE`] is an address relative to the memory's beginning, and `0xfd` a socket.
pub fn check(input: &[u8]) {
    let mut feed = Feed(input);
    let held = &*HELD;
    let number = NUMBERS[usize::from(feed.byte()) % NUMBERS.len()];
    let shift = usize::from(u16::from_le_bytes(feed.array())) % ROOM;
    let mut registers: [u64; 6] = std::array::from_fn(|_| u64::from(u32::from_le_bytes(feed.array())));
    let bytes = &feed.0[..feed.0.len().min(ROOM - shift)];
    let memory = Memory { begin: held.memory + shift, bytes: whole(bytes, held.memory + shift) };
    for register in &mut registers {
        *register = meant(*register, memory.begin);
    }
    memory.put(held.memory);
    let notification = Notification { number, args: registers, ..held.notification };
    let target = Target::new(&held.listener, &notification, held.procfs.as_fd(), &held.call, &Alone);
    match decode(&target) {
        Ok(attempt) => memory.holds(&attempt),
        Err(Unreadable::Native(errno)) => assert!((1..4096).contains(&errno.raw())),
        Err(Unreadable::Gone) => panic!("the held thread is gone"),
    }
    match arguments::decode(&target) {
        Some(Ok(attempt)) => memory.has(attempt.path.to_bytes()),
        Some(Err(Unreadable::Native(errno))) => {
            assert!(matches!(errno, Errno::FAULT | Errno::NAMETOOLONG), "{errno:?}")
        }
        Some(Err(Unreadable::Gone)) => panic!("the held thread is gone"),
        None => {}
    }
    let expected = memory.words(registers[1]);
    match read(&target, registers[1]) {
        Err(Unreadable::Native(Errno::TOOBIG)) => assert_eq!(expected, None),
        found => assert!(expected.is_none() || expected.as_ref() == Some(&found), "{found:?} for {expected:?}"),
    }
    for (limit, errno) in [(16, Errno::RANGE), (PATH_MAX, Errno::NAMETOOLONG)] {
        assert_eq!(target.string(registers[0], limit, errno), memory.string(registers[0], limit, errno));
    }
}

/// Whether it is certain what can be read here: in and around the room, below what can be mapped (vm.mmap_min_addr), and beyond the
/// addresses of processes.
fn is_known(at: u64) -> bool {
    let around = (HELD.memory - PAGE) as u64..(HELD.memory + ROOM + BEHIND) as u64;
    around.contains(&at) || !(1 << 16..1 << 47).contains(&at)
}

/// What stands above this is an address.
const BASE: u64 = 0xf000_0000;
const SOCKET: u64 = 0xfd;

fn meant(value: u64, begin: usize) -> u64 {
    match value {
        SOCKET => HELD.socket.as_raw_fd() as u64,
        BASE.. => begin as u64 + (value - BASE) % (BEHIND - ROOM) as u64,
        other => other,
    }
}

/// The bytes, with what are addresses made so; aligned words of 8 bytes from the beginning.
fn whole(bytes: &[u8], begin: usize) -> Vec<u8> {
    let word = |part: &[u8]| match <[u8; 8]>::try_from(part).map(u64::from_le_bytes) {
        Ok(value) if value >= BASE && value - BASE <= 2 * ROOM as u64 => meant(value, begin).to_le_bytes().to_vec(),
        _ => part.to_vec(),
    };
    bytes.chunks(8).flat_map(word).collect()
}

fn read(target: &Target<'_>, at: u64) -> Result<Vec<Vec<u8>>, Unreadable> {
    words(target, at).map(|words| words.as_slice().to_vec())
}

/// Memory of the tool: these bytes and zeros behind them, from `begin` to the end of the room; zeros before it.
struct Memory {
    begin: usize,
    bytes: Vec<u8>,
}

impl Memory {
    fn put(&self, room: usize) {
        // SAFETY: the room is ours alone (see `hold`) and of ROOM bytes, of which `begin` lies `begin - room` behind its
        // beginning and `bytes` ends within; nothing refers to it, it is only read by process_vm_readv(2).
        unsafe {
            std::ptr::write_bytes(room as *mut u8, 0, ROOM);
            std::ptr::copy_nonoverlapping(self.bytes.as_ptr(), self.begin as *mut u8, self.bytes.len());
        }
    }

    /// What stands there; `None` where nothing can be read.
    fn byte(&self, at: u64) -> Option<u8> {
        let room = HELD.memory as u64;
        let inside = (room..room + ROOM as u64).contains(&at);
        let own = at.checked_sub(self.begin as u64).and_then(|at| self.bytes.get(at as usize)).copied();
        inside.then(|| own.unwrap_or(0))
    }

    /// Up to its NUL, as getname() and strndup_user() have it.
    fn string(&self, at: u64, limit: usize, too_long: Errno) -> Result<CString, Unreadable> {
        let mut text = Vec::new();
        while text.len() < limit {
            match at.checked_add(text.len() as u64).and_then(|at| self.byte(at)) {
                None => return Err(Errno::FAULT.into()),
                Some(0) => return Ok(CString::new(text).expect("no NUL so far")),
                Some(byte) => text.push(byte),
            }
        }
        Err(too_long.into())
    }

    /// Pointers up to a null one, and what they point at; `None` for so much that it is too much, or nearly, and where a pointer
    /// may lead to memory that this process has besides.
    fn words(&self, at: u64) -> Option<Result<Vec<Vec<u8>>, Unreadable>> {
        let pointers = match self.pointers(at) {
            Ok(pointers) => pointers,
            Err(errno) => return Some(Err(errno.into())),
        };
        let (mut words, mut total) = (Vec::new(), 8 * pointers.len());
        for at in pointers {
            if !is_known(at) {
                return None;
            }
            match self.string(at, 32 * PAGE, Errno::TOOBIG) {
                Ok(word) => words.push(word.into_bytes()),
                Err(error) => return Some(Err(error)),
            }
            total += words.last().map_or(0, Vec::len) + size_of::<Vec<u8>>();
            if total > WORDS_BYTES - CLOSE {
                return None;
            }
        }
        Some(Ok(words))
    }

    fn pointers(&self, at: u64) -> Result<Vec<u64>, Errno> {
        let mut pointers = Vec::new();
        let mut next = at;
        while next != 0 {
            let mut pointer = [0; 8];
            for (own, byte) in pointer.iter_mut().zip(0..) {
                *own = next.checked_add(byte).and_then(|at| self.byte(at)).ok_or(Errno::FAULT)?;
            }
            match u64::from_le_bytes(pointer) {
                0 => break,
                pointer => pointers.push(pointer),
            }
            next = next.checked_add(8).ok_or(Errno::FAULT)?;
        }
        Ok(pointers)
    }

    /// A path comes out of the memory as it stands there.
    fn has(&self, text: &[u8]) {
        assert!(text.len() < PATH_MAX && !text.contains(&0));
        let mut room = vec![0; ROOM];
        let at = self.begin - HELD.memory;
        room[at..at + self.bytes.len()].copy_from_slice(&self.bytes);
        assert!(text.is_empty() || room.windows(text.len()).any(|part| part == text), "{text:?}");
    }

    fn at(&self, at: &At) {
        match &at.path {
            Ok(path) => self.has(path.to_bytes()),
            Err(errno) => assert!(matches!(*errno, Errno::FAULT | Errno::NAMETOOLONG), "{errno:?}"),
        }
    }

    fn holds(&self, attempt: &Attempt) {
        match attempt {
            Attempt::Open { at, .. }
            | Attempt::MakeDirectory { at, .. }
            | Attempt::Remove { at, .. }
            | Attempt::MakeNode { at, .. }
            | Attempt::Truncate { at, .. } => self.at(at),
            Attempt::Rename { from, to, .. } | Attempt::Link { from, to, .. } => {
                self.at(from);
                self.at(to);
            }
            Attempt::Symlink { text, at } => {
                self.at(at);
                assert!(!text.is_empty());
                self.has(text.to_bytes());
            }
            Attempt::Change { subject, change } => {
                if let Subject::Path { at, .. } = subject {
                    self.at(at);
                }
                self.changes(change);
            }
            Attempt::OnSocket { asked, .. } => match asked {
                Asked::Connect(address) | Asked::Bind(address) => assert!(address.len() <= 128),
                Asked::Listen(_) => {}
                Asked::Send(message) => assert!(message.to.len() <= 128 && message.data.len() <= 1 << 18),
            },
            Attempt::MakeSocket { .. } | Attempt::Nothing => {}
        }
    }

    fn changes(&self, change: &Change) {
        match change {
            Change::Mode(mode) => assert!(*mode <= u32::from(u16::MAX)),
            Change::SetXattr { name, value, .. } => {
                assert!((1..256).contains(&name.count_bytes()) && value.len() <= 65536);
                self.has(name.to_bytes());
            }
            Change::RemoveXattr { name } => {
                assert!((1..256).contains(&name.count_bytes()));
                self.has(name.to_bytes());
            }
            Change::FileAttributes(attributes) => assert_eq!(attributes.len(), 24),
            Change::InodeFlags { argument, .. } => {
                assert!(argument.as_ref().is_none_or(|argument| matches!(argument.len(), 4 | 28)));
            }
            Change::Owner { .. } | Change::Times(_) => {}
        }
    }
}

/// Every call that is decoded.
const NUMBERS: &[i64] = &[
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_mkdirat,
    libc::SYS_unlinkat,
    libc::SYS_renameat2,
    libc::SYS_linkat,
    libc::SYS_symlinkat,
    libc::SYS_mknodat,
    libc::SYS_truncate,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    libc::SYS_ioctl,
    libc::SYS_socket,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_execve,
    libc::SYS_execveat,
    // fchmodat2, setxattrat, removexattrat, file_setattr: the same numbers everywhere.
    452,
    463,
    466,
    469,
    libc::SYS_getppid,
];

/// A thread that stands in getppid(2) for as long as this process lives.
fn hold() -> io::Result<Held> {
    let (sender, receiver) = mpsc::channel();
    std::thread::Builder::new().name("held".to_owned()).spawn(move || {
        let _ = sender.send(listener());
        // SAFETY: getppid(2) has no arguments; it is held, and nobody answers.
        unsafe { libc::syscall(libc::SYS_getppid) };
    })?;
    let listener = Listener::new(receiver.recv().map_err(io::Error::other)??);
    let Received::Attempt(notification) = listener.receive()? else { return Err(io::Error::other("nothing was held")) };
    let procfs = OwnedFd::from(File::open("/proc")?);
    let place = Arc::new(Calls::default()).begin().ok_or_else(|| io::Error::other("no place"))?;
    let opening = Arc::new(Opening::new(false, false));
    let call = Call::new(place, procfs.as_fd(), std::process::id() as i32, opening);
    let socket = std::os::unix::net::UnixDatagram::unbound()?.into();
    Ok(Held { listener, notification, procfs, call, socket, memory: room()? })
}

/// Memory with what cannot be read on either side.
fn room() -> io::Result<usize> {
    let (flags, wide) = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, PAGE + ROOM + BEHIND);
    // SAFETY: a new mapping at a place that the kernel chooses.
    let all = unsafe { libc::mmap(std::ptr::null_mut(), wide, libc::PROT_NONE, flags, -1, 0) };
    if all == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let begin = all as usize + PAGE;
    // SAFETY: within the mapping that was just made, which nobody else knows.
    match unsafe { libc::mprotect(begin as *mut libc::c_void, ROOM, libc::PROT_READ | libc::PROT_WRITE) } {
        0 => Ok(begin),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Puts the calling thread under a filter that holds getppid(2).
fn listener() -> io::Result<OwnedFd> {
    let statement = |code: u32, k: u32, jt: u8, jf: u8| libc::sock_filter { code: code as u16, jt, jf, k };
    let mut filter = [
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, libc::SYS_getppid as u32, 0, 1),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_USER_NOTIF, 0, 0),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0, 0),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: prctl(2) with integers; then seccomp(2) with a program that lives until it returns, and returns a descriptor
    // that nobody else has.
    unsafe {
        if libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 {
            return Err(io::Error::last_os_error());
        }
        let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
        match libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program) {
            -1 => Err(io::Error::last_os_error()),
            descriptor => Ok(OwnedFd::from_raw_fd(descriptor as i32)),
        }
    }
}
