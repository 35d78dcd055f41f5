//! The process behind a notification: its memory, its files, its place in the tree.
//!
//! Runs as the user in the supervisor; everything read here is hostile. Each read goes through the thread's own `/proc`
//! directory, pinned, so that a recycled thread id yields an error and never another process; whoever uses what was
//! read checks [`Target::confirm`] first.

use std::cell::OnceCell;
use std::ffi::{CStr, CString};
use std::os::fd::{BorrowedFd, OwnedFd};

use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use rustix::fs::{Mode, OFlags, openat};

use super::calls::{Call, Connecting};
use super::crew::Relief;
use super::listener::{Listener, Notification};
use super::net::Registration;
use super::procthread::{COMMAND_LINE_BYTES, ProcThread, STATUS_BYTES, words_of};
use crate::common::errno::Errno;
use crate::common::id::CallId;
use crate::common::path::RawPath;
use crate::common::request::Who;

/// PATH_MAX of linux/limits.h, the terminating NUL included.
const PATH_MAX: usize = 4096;
const PAGE: u64 = 4096;
/// First read of a string: most paths are shorter, and copying a whole page costs more than a second call.
const FIRST_READ: u64 = 256;
/// The lines before `Umask` and itself: a name of at most 64 bytes, each perhaps escaped, proc_pid_status(5).
const UMASK_WITHIN: usize = 512;
/// Some ten thousand registrations of an epoll(7) instance.
const REGISTRATIONS_BYTES: usize = 1 << 20;

/// A string or block of the tool could not be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// The kernel would have reported this to the tool.
    Native(Errno),
    /// The thread is gone; nobody waits for an answer.
    Gone,
}

impl From<Errno> for Unreadable {
    fn from(errno: Errno) -> Unreadable {
        Unreadable::Native(errno)
    }
}

/// A thread that stands in a system call.
pub struct Target<'a> {
    listener: &'a Listener,
    notification: &'a Notification,
    /// The outer `/proc`, in which the supervisor's view of thread ids holds.
    procfs: BorrowedFd<'a>,
    /// Whose listener it was heard on.
    call: &'a Call,
    relief: &'a dyn Relief,
    /// From an earlier call of a thread with this id, which may be gone.
    kept: Option<ProcThread>,
    pinned: OnceCell<ProcThread>,
}

/// What `/proc/TID/status` tells, proc_pid_status(5).
#[derive(Clone, Copy, Debug)]
pub struct Status {
    pub process: i32,
    pub parent: i32,
    /// Who traces it, 0 for nobody.
    pub tracer: i32,
    /// Thread group id in the session's pid namespace.
    pub inner_process: i32,
    pub inner_thread: i32,
    /// In how many pid namespaces it has a number, from the supervisor's on.
    pub numbers: usize,
    pub umask: u32,
    pub threads: u32,
    pub pending_thread: u64,
    pub pending_process: u64,
    pub blocked: u64,
    pub ignored: u64,
    pub caught: u64,
}

impl<'a> Target<'a> {
    pub fn new(
        listener: &'a Listener,
        notification: &'a Notification,
        procfs: BorrowedFd<'a>,
        call: &'a Call,
        relief: &'a dyn Relief,
    ) -> Target<'a> {
        Target { listener, notification, procfs, call, relief, kept: None, pinned: OnceCell::new() }
    }

    /// With what [`Target::leave`] gave for an earlier call, of any thread.
    pub fn keeping(mut self, kept: Option<ProcThread>) -> Target<'a> {
        self.kept = kept.filter(|kept| kept.had_id(self.notification.thread));
        self
    }

    /// What the next call of this thread can be served with.
    pub fn leave(self) -> Option<ProcThread> {
        self.pinned.into_inner().or(self.kept)
    }

    pub fn notification(&self) -> &Notification {
        self.notification
    }

    /// The outer `/proc`.
    pub fn procfs(&self) -> BorrowedFd<'a> {
        self.procfs
    }

    pub fn listener(&self) -> &'a Listener {
        self.listener
    }

    /// What follows may take long.
    pub fn takes_long(&self) {
        self.relief.takes_long();
    }

    /// The calling thread connects for this attempt, until what is returned is dropped.
    pub fn connects(&self) -> Connecting<'a> {
        self.takes_long();
        self.call.connects()
    }

    /// The command that this came of.
    pub fn call(&self) -> &'a Call {
        self.call
    }

    /// The number of the call that the process belongs to.
    pub fn call_id(&self) -> Result<CallId, Unreadable> {
        Ok(self.call.of(self.procfs, self.status()?.process))
    }

    /// The thread still waits, so what was read so far was its own.
    pub fn confirm(&self) -> Result<(), Unreadable> {
        if self.listener.is_waiting(self.notification) { Ok(()) } else { Err(Unreadable::Gone) }
    }

    /// Looks into the thread's directory in the outer `/proc`. What was kept may be of another thread that had the id, and
    /// then gives nothing but errors, so an error counts only with a directory that was pinned for this call.
    fn look<T>(
        &self,
        look: impl Fn(&ProcThread) -> rustix::io::Result<T>,
    ) -> Result<rustix::io::Result<T>, Unreadable> {
        if let (None, Some(kept)) = (self.pinned.get(), &self.kept)
            && let Ok(found) = look(kept)
        {
            return Ok(Ok(found));
        }
        let pinned = match self.pinned.get() {
            Some(pinned) => pinned,
            None => {
                let opened = ProcThread::open(self.procfs, self.notification.thread).map_err(|_| Unreadable::Gone)?;
                self.pinned.get_or_init(|| opened)
            }
        };
        Ok(look(pinned))
    }

    /// Whether the thread's last call was in scratch, so that this one may be.
    pub fn expects_scratch(&self) -> bool {
        self.pinned.get().or(self.kept.as_ref()).is_some_and(|thread| thread.in_scratch.get())
    }

    pub fn expect_in_scratch(&self, expected: bool) {
        if let Some(thread) = self.pinned.get().or(self.kept.as_ref()) {
            thread.in_scratch.set(expected);
        }
    }

    /// What the kernel calls the cwd, proc_pid_cwd(5); nothing is pinned.
    pub fn cwd_text(&self) -> Result<RawPath, Unreadable> {
        let text = self.look(|thread| rustix::fs::readlinkat(thread.directory(), c"cwd", Vec::with_capacity(256)))?;
        Ok(RawPath::new(text.map_err(not_accessible)?.into_bytes()))
    }

    /// Where relative paths start, proc_pid_cwd(5).
    pub fn cwd(&self) -> Result<OwnedFd, Unreadable> {
        let cwd = self.look(|thread| openat(thread.directory(), c"cwd", O_PATH_DIRECTORY, Mode::empty()))?;
        Ok(cwd.map_err(not_accessible)?)
    }

    /// The object that a descriptor of the tool stands for, as a path handle; `EBADF` where there is none.
    pub fn descriptor_object(&self, descriptor: i32) -> Result<OwnedFd, Unreadable> {
        if descriptor < 0 {
            return Err(Errno::BADF.into());
        }
        let path = CString::new(format!("fd/{descriptor}")).map_err(|_| Errno::BADF)?;
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        self.look(|thread| openat(thread.directory(), path.as_c_str(), flags, Mode::empty()))?.map_err(|errno| {
            match errno {
                rustix::io::Errno::NOENT => Errno::BADF.into(),
                other => not_accessible(other).into(),
            }
        })
    }

    /// A duplicate of the tool's own descriptor: the same open file description, pidfd_getfd(2).
    pub fn duplicate(&self, descriptor: i32) -> Result<OwnedFd, Unreadable> {
        use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
        if descriptor < 0 {
            return Err(Errno::BADF.into());
        }
        // PIDFD_THREAD (Linux 6.9): the file table is the thread's.
        let flags = PidfdFlags::from_bits_retain(libc::O_EXCL as u32);
        let thread = Pid::from_raw(self.notification.thread).ok_or(Unreadable::Gone)?;
        let pidfd = pidfd_open(thread, flags).map_err(|_| Unreadable::Gone)?;
        self.confirm()?;
        Ok(pidfd_getfd(pidfd, descriptor, PidfdGetfdFlags::empty()).map_err(|errno| match errno {
            rustix::io::Errno::PERM => Errno::ACCES,
            other => other.into(),
        })?)
    }

    /// How many more files the process may open, getrlimit(2) `RLIMIT_NOFILE`. The kernel takes a number before it looks at
    /// the path, so an open that will get none must not create or cut a file.
    pub fn room_for_files(&self) -> Result<u64, Unreadable> {
        let thread = rustix::process::Pid::from_raw(self.notification.thread).ok_or(Unreadable::Gone)?;
        // Linux 6.2: the size of the directory is the number of open files.
        let open = self.look(|thread| rustix::fs::statat(thread.directory(), c"fd", rustix::fs::AtFlags::empty()))?;
        let open = open.map_err(|_| Unreadable::Gone)?.st_size;
        let limit = super::sys::open_files_limit(thread.as_raw_nonzero().get())?;
        match limit.saturating_sub(u64::try_from(open).unwrap_or(limit)) {
            // Numbers from the limit on, taken before it was lowered, are not among those that may be given.
            0 => {
                let below = |number: i32| u64::try_from(number).is_ok_and(|number| number < limit).then_some(());
                let taken = self.each_descriptor(|_, _, number| below(number))?.len();
                Ok(limit.saturating_sub(u64::try_from(taken).unwrap_or(limit)))
            }
            room => Ok(room),
        }
    }

    /// Getrlimit(2) `RLIMIT_FSIZE`, in bytes.
    pub fn file_size_limit(&self) -> Result<u64, Unreadable> {
        Ok(super::sys::file_size_limit(self.notification.thread)?)
    }

    /// Sends the held thread a signal, as the kernel does beside some errnos. It is dealt with when the thread goes on; one that
    /// kills does so at once.
    pub fn signal(&self, signal: rustix::process::Signal) -> Result<(), Unreadable> {
        use rustix::process::{Pid, PidfdFlags, pidfd_open};
        // As above: the thread's own, and `confirm` says that it is still this one.
        let flags = PidfdFlags::from_bits_retain(libc::O_EXCL as u32);
        let thread = Pid::from_raw(self.notification.thread).ok_or(Unreadable::Gone)?;
        let pidfd = pidfd_open(thread, flags).map_err(|_| Unreadable::Gone)?;
        self.confirm()?;
        rustix::process::pidfd_send_signal(pidfd, signal).map_err(|_| Unreadable::Gone)
    }

    /// A path argument: copied once, NUL-terminated, with the errors that getname() gives.
    pub fn path(&self, address: u64) -> Result<CString, Unreadable> {
        self.string(address, PATH_MAX, Errno::NAMETOOLONG)
    }

    /// A NUL-terminated string of at most `limit` bytes with its NUL; `too_long` beyond.
    pub fn string(&self, address: u64, limit: usize, too_long: Errno) -> Result<CString, Unreadable> {
        let mut buffer = [0u8; PATH_MAX];
        let mut length = 0usize;
        let limit = limit.min(buffer.len());
        while length < limit {
            let at = address.checked_add(length as u64).ok_or(Errno::FAULT)?;
            let to_page_end = PAGE - at % PAGE;
            let wanted = if length == 0 { to_page_end.min(FIRST_READ) } else { to_page_end };
            let room = buffer.get_mut(length..limit).unwrap_or_default();
            let wanted = (wanted as usize).min(room.len());
            let part = room.get_mut(..wanted).unwrap_or_default();
            let got = self.read(at, part)?;
            if let Some(end) = part.iter().take(got).position(|&byte| byte == 0) {
                let text = buffer.get(..length + end + 1).unwrap_or_default();
                return CStr::from_bytes_with_nul(text).map(CStr::to_owned).map_err(|_| Errno::FAULT.into());
            }
            if got < wanted {
                return Err(Errno::FAULT.into());
            }
            length += got;
        }
        Err(too_long.into())
    }

    /// Exactly this many bytes, or `EFAULT`.
    pub fn bytes(&self, address: u64, length: usize) -> Result<Vec<u8>, Unreadable> {
        let mut buffer = vec![0; length];
        if length > 0 && self.read(address, &mut buffer)? < length {
            return Err(Errno::FAULT.into());
        }
        Ok(buffer)
    }

    /// Exactly this array, or `EFAULT`.
    pub fn array<const N: usize>(&self, address: u64) -> Result<[u8; N], Unreadable> {
        let mut buffer = [0; N];
        if self.read(address, &mut buffer)? < N { Err(Errno::FAULT.into()) } else { Ok(buffer) }
    }

    /// Several blocks at once, in their order: how many bytes could be had before the first one that could not.
    pub fn scattered(&self, blocks: &mut [(u64, &mut [u8])]) -> Result<usize, Unreadable> {
        let remote: Vec<RemoteIoVec> =
            blocks.iter().map(|(at, block)| RemoteIoVec { base: *at as usize, len: block.len() }).collect();
        let mut local: Vec<_> = blocks.iter_mut().map(|(_, block)| std::io::IoSliceMut::new(block)).collect();
        self.read_vectors(&mut local, &remote)
    }

    fn read(&self, address: u64, into: &mut [u8]) -> Result<usize, Unreadable> {
        let remote = [RemoteIoVec { base: address as usize, len: into.len() }];
        self.read_vectors(&mut [std::io::IoSliceMut::new(into)], &remote)
    }

    fn read_vectors(&self, local: &mut [std::io::IoSliceMut<'_>], remote: &[RemoteIoVec]) -> Result<usize, Unreadable> {
        let thread = nix::unistd::Pid::from_raw(self.notification.thread);
        process_vm_readv(thread, local, remote).map_err(|errno| match errno {
            nix::errno::Errno::ESRCH => Unreadable::Gone,
            // The program is not dumpable, ptrace(2): what cannot be read cannot be judged.
            nix::errno::Errno::EPERM => Errno::ACCES.into(),
            _ => Errno::FAULT.into(),
        })
    }

    /// The parsed status file.
    pub fn status(&self) -> Result<Status, Unreadable> {
        self.look(ProcThread::status)?.map_err(|_| Unreadable::Gone)
    }

    /// The umask alone, which stands at the beginning of the status file.
    pub fn umask(&self) -> Result<u32, Unreadable> {
        let read = |thread: &ProcThread| {
            let mut text = [0; UMASK_WITHIN];
            let length = thread.read_status(&mut text, 0)?;
            let text = text.get(..length).unwrap_or_default();
            Ok(umask_of(text).unwrap_or_else(|| parse_status(text).umask))
        };
        self.look(read)?.map_err(|_| Unreadable::Gone)
    }

    /// Who this is, to show and to record.
    pub fn who(&self) -> Result<Who, Unreadable> {
        let link = |name: &CStr| -> Result<RawPath, Unreadable> {
            let text = self.look(|thread| rustix::fs::readlinkat(thread.directory(), name, Vec::new()))?;
            Ok(RawPath::new(text.map(CString::into_bytes).unwrap_or_default()))
        };
        let argv = words_of(&self.small_file(c"cmdline", COMMAND_LINE_BYTES)?);
        let who = Who { pid: self.status()?.process, program: link(c"exe")?, argv, cwd: link(c"cwd")? };
        self.confirm()?;
        Ok(who)
    }

    /// Whether a descriptor goes with the next execve(2), proc_pid_fdinfo(5). `false` for one that there is not.
    pub fn is_closed_on_exec(&self, descriptor: i32) -> Result<bool, Unreadable> {
        let path = CString::new(format!("fdinfo/{descriptor}")).map_err(|_| Errno::BADF)?;
        let Ok(text) = self.small_file(&path, STATUS_BYTES) else { return Ok(false) };
        let flags = text.split(|&byte| byte == b'\n').find_map(|line| line.strip_prefix(b"flags:"));
        let flags = flags.and_then(|flags| std::str::from_utf8(flags).ok());
        let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok()).unwrap_or(0);
        Ok(flags & libc::O_CLOEXEC as u32 != 0)
    }

    /// What the process has open, proc_pid_fd(5).
    pub fn descriptors(&self) -> Result<Vec<Open>, Unreadable> {
        self.each_descriptor(|directory, name, number| {
            let what = rustix::fs::readlinkat(directory, name, Vec::new()).ok()?;
            Some(Open { number, what: what.into_bytes() })
        })
    }

    fn each_descriptor<T>(&self, look: impl Fn(&OwnedFd, &CStr, i32) -> Option<T>) -> Result<Vec<T>, Unreadable> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = self.look(|thread| openat(thread.directory(), c"fd", flags, Mode::empty()))?;
        let directory = directory.map_err(not_accessible)?;
        let entries = rustix::fs::Dir::read_from(&directory).map_err(Errno::from)?;
        let open = entries.filter_map(Result::ok).filter_map(|entry| {
            let number = entry.file_name().to_str().ok()?.parse().ok()?;
            look(&directory, entry.file_name(), number)
        });
        Ok(open.collect())
    }

    /// What an epoll(7) instance is registered with, each with the inode of its file, proc_pid_fdinfo(5).
    pub fn epoll_registrations(&self, descriptor: i32) -> Result<Vec<(u64, Registration)>, Unreadable> {
        let path = CString::new(format!("fdinfo/{descriptor}")).map_err(|_| Errno::BADF)?;
        let Ok(text) = self.small_file(&path, REGISTRATIONS_BYTES) else { return Ok(Vec::new()) };
        Ok(text.split(|&byte| byte == b'\n').filter_map(registration).collect())
    }

    fn small_file(&self, name: &CStr, limit: usize) -> Result<Vec<u8>, Unreadable> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = self.look(|thread| openat(thread.directory(), name, flags, Mode::empty()))?;
        let file = file.map_err(|_| Unreadable::Gone)?;
        let mut text = Vec::with_capacity(4096.min(limit));
        loop {
            let mut part = [0u8; 4096];
            match rustix::io::read(&file, &mut part) {
                Ok(0) => return Ok(text),
                Ok(count) => text.extend_from_slice(part.get(..count).unwrap_or_default()),
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return Err(Unreadable::Gone),
            }
            if text.len() >= limit {
                text.truncate(limit);
                return Ok(text);
            }
        }
    }
}

/// One descriptor of a process.
#[derive(Debug)]
pub struct Open {
    pub number: i32,
    /// The text of its link.
    what: Vec<u8>,
}

impl Open {
    pub fn is_socket(&self, inode: u64) -> bool {
        self.what == format!("socket:[{inode}]").as_bytes()
    }

    pub fn is_epoll(&self) -> bool {
        self.what == b"anon_inode:[eventpoll]"
    }
}

/// `tfd:        5 events:       19 data:                5  pos:0 ino:1f sdev:8`: numbers but the first are hexadecimal, but `pos`.
fn registration(line: &[u8]) -> Option<(u64, Registration)> {
    let text = std::str::from_utf8(line).ok()?;
    let after = |key: &str| text.split_once(key)?.1.split_whitespace().next();
    let hexadecimal = |key: &str| u64::from_str_radix(after(key)?, 16).ok();
    let number = after("tfd:")?.parse().ok()?;
    let events = u32::try_from(hexadecimal("events:")?).ok()?;
    Some((hexadecimal("ino:")?, Registration { number, events, data: hexadecimal("data:")? }))
}

const O_PATH_DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// A `/proc` link of a program that is not dumpable cannot be followed: refused, not guessed.
fn not_accessible(errno: rustix::io::Errno) -> Errno {
    match errno {
        rustix::io::Errno::PERM => Errno::ACCES,
        other => other.into(),
    }
}

/// The umask in its usual place, the second line.
fn umask_of(status: &[u8]) -> Option<u32> {
    let second = status.splitn(3, |&byte| byte == b'\n').nth(1)?;
    let digits = std::str::from_utf8(second.strip_prefix(b"Umask:\t")?).ok()?;
    u32::from_str_radix(digits, 8).ok()
}

/// The text of `/proc/TID/status`; what is not there is 0, or permits least.
pub fn parse_status(text: &[u8]) -> Status {
    let mut status = Status {
        process: 0,
        parent: 0,
        tracer: 0,
        inner_process: 0,
        inner_thread: 0,
        numbers: 0,
        // Where the line is missing: nothing for others.
        umask: 0o077,
        threads: 0,
        pending_thread: 0,
        pending_process: 0,
        blocked: 0,
        ignored: 0,
        caught: 0,
    };
    for line in text.split(|&byte| byte == b'\n') {
        let Some(colon) = line.iter().position(|&byte| byte == b':') else { continue };
        let (key, rest) = line.split_at(colon);
        let value = std::str::from_utf8(rest.get(1..).unwrap_or_default()).unwrap_or_default().trim();
        let decimal = || value.parse().unwrap_or(0);
        let hexadecimal = || u64::from_str_radix(value, 16).unwrap_or(0);
        let innermost = || value.split_whitespace().next_back().and_then(|word| word.parse().ok()).unwrap_or(0);
        match key {
            b"Umask" => status.umask = u32::from_str_radix(value, 8).unwrap_or(0o077),
            b"Tgid" => status.process = decimal(),
            b"PPid" => status.parent = decimal(),
            b"TracerPid" => status.tracer = decimal(),
            b"NStgid" => status.inner_process = innermost(),
            b"NSpid" => {
                status.inner_thread = innermost();
                status.numbers = value.split_whitespace().count();
            }
            b"Threads" => status.threads = value.parse().unwrap_or(0),
            b"SigPnd" => status.pending_thread = hexadecimal(),
            b"ShdPnd" => status.pending_process = hexadecimal(),
            b"SigBlk" => status.blocked = hexadecimal(),
            b"SigIgn" => status.ignored = hexadecimal(),
            b"SigCgt" => status.caught = hexadecimal(),
            _ => {}
        }
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_file_is_read_by_key() {
        let text = b"Name:\tx\nUmask:\t0027\nTgid:\t12\nPPid:\t3\nNStgid:\t12\t2\nNSpid:\t13\t4\nThreads:\t2\nSigPnd:\t0000000000000200\nShdPnd:\t0000000000000001\nSigBlk:\t0\nSigIgn:\t0\nSigCgt:\t0000000000000200\n";
        let status = parse_status(text);
        assert_eq!((status.process, status.parent, status.inner_process, status.inner_thread), (12, 3, 2, 4));
        assert_eq!((status.umask, status.threads), (0o027, 2));
        assert_eq!(umask_of(text), Some(0o027));
        assert_eq!(umask_of(b"Name:\tx\nState:\tR\n"), None);
        assert_eq!((status.pending_thread, status.pending_process, status.caught), (0x200, 1, 0x200));
    }
}
