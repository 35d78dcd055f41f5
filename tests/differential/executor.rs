//! Performs programs of system calls. Runs re-executed, as the test user, bare or as a tool inside a session.
//!
//! Every program runs in a process of its own (fresh descriptors, cwd, umask) in a directory of its own below the cwd.

use std::ffi::CString;
use std::io::Write;

use super::acts;
use super::program::{Arg, Place, Step, Word};
use super::wrong::Wrong;

const PAGE: usize = 4096;

/// Seconds after which a program that hangs is ended; a program takes milliseconds, of a busy machine a second.
pub const HANG: u32 = 20;

/// How a program ended that hung: its line before this one is the step.
pub const HUNG: &str = "-- hung";

/// The number of a system call that programs use.
pub fn number_of(name: &str) -> Option<i64> {
    Some(match name {
        "open" => libc::SYS_open,
        "openat" => libc::SYS_openat,
        "openat2" => libc::SYS_openat2,
        "creat" => libc::SYS_creat,
        "mkdir" => libc::SYS_mkdir,
        "mkdirat" => libc::SYS_mkdirat,
        "rmdir" => libc::SYS_rmdir,
        "unlink" => libc::SYS_unlink,
        "unlinkat" => libc::SYS_unlinkat,
        "rename" => libc::SYS_rename,
        "renameat" => libc::SYS_renameat,
        "renameat2" => libc::SYS_renameat2,
        "link" => libc::SYS_link,
        "linkat" => libc::SYS_linkat,
        "symlink" => libc::SYS_symlink,
        "symlinkat" => libc::SYS_symlinkat,
        "mknod" => libc::SYS_mknod,
        "mknodat" => libc::SYS_mknodat,
        "truncate" => libc::SYS_truncate,
        "ftruncate" => libc::SYS_ftruncate,
        "chmod" => libc::SYS_chmod,
        "fchmod" => libc::SYS_fchmod,
        "fchmodat" => libc::SYS_fchmodat,
        "fchmodat2" => 452,
        "chown" => libc::SYS_chown,
        "lchown" => libc::SYS_lchown,
        "fchown" => libc::SYS_fchown,
        "fchownat" => libc::SYS_fchownat,
        "utime" => libc::SYS_utime,
        "utimes" => libc::SYS_utimes,
        "futimesat" => libc::SYS_futimesat,
        "utimensat" => libc::SYS_utimensat,
        "setxattr" => libc::SYS_setxattr,
        "lsetxattr" => libc::SYS_lsetxattr,
        "fsetxattr" => libc::SYS_fsetxattr,
        "removexattr" => libc::SYS_removexattr,
        "lremovexattr" => libc::SYS_lremovexattr,
        "fremovexattr" => libc::SYS_fremovexattr,
        "setxattrat" => 463,
        "removexattrat" => 466,
        "file_setattr" => 469,
        "ioctl" => libc::SYS_ioctl,
        "chdir" => libc::SYS_chdir,
        "fchdir" => libc::SYS_fchdir,
        "umask" => libc::SYS_umask,
        "dup" => libc::SYS_dup,
        "close" => libc::SYS_close,
        "write" => libc::SYS_write,
        "lseek" => libc::SYS_lseek,
        "pipe2" => libc::SYS_pipe2,
        "memfd_create" => libc::SYS_memfd_create,
        "setrlimit" => libc::SYS_setrlimit,
        "fcntl" => libc::SYS_fcntl,
        "dup2" => libc::SYS_dup2,
        "setpgid" => libc::SYS_setpgid,
        "prctl" => libc::SYS_prctl,
        "execve" => libc::SYS_execve,
        "execveat" => libc::SYS_execveat,
        "socket" => libc::SYS_socket,
        "socketpair" => libc::SYS_socketpair,
        "connect" => libc::SYS_connect,
        "bind" => libc::SYS_bind,
        "listen" => libc::SYS_listen,
        "sendto" => libc::SYS_sendto,
        "sendmsg" => libc::SYS_sendmsg,
        "shutdown" => libc::SYS_shutdown,
        "setsockopt" => libc::SYS_setsockopt,
        _ => return None,
    })
}

/// Runs the programs in order and prints, for each, `== N`, a line per step, and how it ended. The first that hangs is the last.
pub fn run_all(programs: &[Vec<Step>], foreign: &str, wrong: Wrong) {
    let here = std::env::current_dir().expect("a cwd").into_os_string().into_string().expect("ASCII");
    let mut out = std::io::stdout().lock();
    for (index, steps) in programs.iter().enumerate() {
        writeln!(out, "== {index}").expect("stdout");
        out.flush().expect("stdout");
        let executor = Executor { dir: format!("{here}/s{index:04}"), foreign: foreign.to_owned(), wrong };
        let (status, text) = executor.in_child(|| executor.program(steps));
        out.write_all(&text).expect("stdout");
        // No program has a use for SIGALRM.
        if libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGALRM {
            let end = if text.ends_with(b"\n") { "" } else { "\n" };
            writeln!(out, "{end}{HUNG}").expect("stdout");
            break;
        }
        writeln!(out, "-- {}", describe_end(status)).expect("stdout");
    }
    out.flush().expect("stdout");
}

fn may_end(step: &str) -> bool {
    number_of(step).is_none() || step.starts_with("execve") || step == "connect" || step == "sendto"
}

fn describe_end(status: i32) -> String {
    if libc::WIFSIGNALED(status) {
        format!("signal {}", libc::WTERMSIG(status))
    } else {
        format!("exit {}", libc::WEXITSTATUS(status))
    }
}

/// Descriptors of the executor itself lie from here up, so that programs see the lowest ones free.
const OWN_FDS: i32 = 200;

fn raised(fd: i32) -> i32 {
    // SAFETY: fcntl(2) and close(2) on a descriptor that this process just opened.
    unsafe {
        let high = libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, OWN_FDS);
        libc::close(fd);
        assert!(high >= OWN_FDS, "F_DUPFD: {}", std::io::Error::last_os_error());
        high
    }
}

/// Empties what a program's process had to say into its report, which is its stdout: also that of what it executes.
fn say(said: &mut Vec<u8>) -> bool {
    // SAFETY: write(2) from a live buffer.
    let written = unsafe { libc::write(1, said.as_ptr().cast(), said.len()) };
    let all = written == said.len() as isize;
    said.clear();
    all
}

struct Child {
    pid: i32,
    /// A memfd that holds what the child had to say.
    report: i32,
}

struct Executor {
    dir: String,
    foreign: String,
    wrong: Wrong,
}

impl Executor {
    /// Starts a process for `work`, which returns what it has to say.
    fn start(&self, work: impl FnOnce() -> Vec<u8>) -> Child {
        // SAFETY: memfd_create(2) with a literal; fork(2) in a process of one thread.
        let report = raised(unsafe { libc::memfd_create(c"report".as_ptr(), libc::MFD_CLOEXEC) });
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0, "fork: {}", std::io::Error::last_os_error());
        if pid == 0 {
            // SAFETY: alarm(2), dup2(2) of our own descriptor, _exit(2).
            unsafe {
                libc::alarm(HANG);
                libc::dup2(report, 1);
                libc::close(report);
                let mut said = work();
                libc::_exit(if say(&mut said) { 0 } else { 99 });
            }
        }
        Child { pid, report }
    }

    fn finish(&self, child: Child) -> (i32, Vec<u8>) {
        let mut status = 0;
        let mut said;
        // SAFETY: waits for our own child, then reads into a live buffer of the length given.
        let count = unsafe {
            while libc::waitpid(child.pid, &mut status, 0) < 0 && *libc::__errno_location() == libc::EINTR {}
            said = vec![0; libc::lseek(child.report, 0, libc::SEEK_END).max(0) as usize];
            let count = libc::pread(child.report, said.as_mut_ptr().cast(), said.len(), 0);
            libc::close(child.report);
            count
        };
        said.truncate(count.max(0) as usize);
        (status, said)
    }

    fn in_child(&self, work: impl FnOnce() -> Vec<u8>) -> (i32, Vec<u8>) {
        let child = self.start(work);
        self.finish(child)
    }

    /// A whole program, from an empty directory on.
    fn program(&self, steps: &[Step]) -> Vec<u8> {
        let dir = CString::new(self.dir.as_str()).expect("no NUL");
        // SAFETY: live strings; umask(2) cannot fail.
        unsafe {
            libc::umask(0o022);
            libc::setsid();
            if libc::mkdir(dir.as_ptr(), 0o755) != 0 || libc::chdir(dir.as_ptr()) != 0 {
                return format!("no directory for the program: {}\n", std::io::Error::last_os_error()).into_bytes();
            }
        }
        let mut out = Vec::new();
        let on_files = |step: &Step| matches!(step, Step::Call { name, .. } if acts::needs_tree(name));
        let prelude = if steps.iter().any(on_files) { super::prelude::steps() } else { &[] };
        for step in prelude {
            let result = self.step(step);
            if result.starts_with('-') {
                out.extend_from_slice(format!("prelude {step} = {result}\n").as_bytes());
            }
        }
        self.steps(steps, &mut out);
        out
    }

    fn steps(&self, steps: &[Step], out: &mut Vec<u8>) {
        let mut spawned: Option<Child> = None;
        let mut at = 0;
        while let Some(step) = steps.get(at) {
            at += 1;
            let Step::Word(word) = step else {
                out.extend_from_slice(format!("{step} = ").as_bytes());
                // What may end this process, or wait for ever, or make another one of it, loses nothing that was said before.
                if matches!(step, Step::Call { name, .. } if may_end(name)) {
                    say(out);
                }
                out.extend_from_slice(format!("{}\n", self.step(step)).as_bytes());
                continue;
            };
            match word {
                Word::Fork | Word::Spawn => {
                    let length = matching_end(&steps[at..]);
                    let block = &steps[at..at + length];
                    at += length;
                    let child = self.start(|| {
                        let mut said = Vec::new();
                        self.steps(block, &mut said);
                        said
                    });
                    if *word == Word::Fork {
                        self.report(child, out);
                    } else if let Some(earlier) = spawned.replace(child) {
                        self.report(earlier, out);
                    }
                }
                Word::Join => {
                    if let Some(child) = spawned.take() {
                        self.report(child, out);
                    }
                }
                Word::End => {}
                Word::Fstat(fd) => {
                    out.extend_from_slice(format!("{step} = {}\n", describe(*fd, self.wrong)).as_bytes())
                }
                Word::Content(fd) => out.extend_from_slice(format!("{step} = {}\n", content(*fd)).as_bytes()),
            }
        }
        if let Some(child) = spawned {
            self.report(child, out);
        }
    }

    fn report(&self, child: Child, out: &mut Vec<u8>) {
        let (status, said) = self.finish(child);
        for line in said.split_inclusive(|byte| *byte == b'\n') {
            out.extend_from_slice(b"| ");
            out.extend_from_slice(line);
        }
        out.extend_from_slice(format!("child {}\n", describe_end(status)).as_bytes());
    }

    /// One system call; its result, or `-ERRNO`.
    fn step(&self, step: &Step) -> String {
        let Step::Call { name, args } = step else { return String::new() };
        let mut memory = Memory::default();
        let mut registers = [0u64; 6];
        for (register, arg) in registers.iter_mut().zip(args) {
            *register = self.place(arg, &mut memory);
        }
        let Some(number) = number_of(name) else {
            return acts::perform(name, registers).unwrap_or_else(|| format!("-unknown {name}"));
        };
        self.wrong.before(name, &mut registers);
        let [a, b, c, d, e, f] = registers;
        // SAFETY: the calls in `number_of` read at most what a bad address makes them fail on; pipe2 writes into `memory`.
        let result = unsafe { libc::syscall(number, a, b, c, d, e, f) };
        if result < 0 {
            let errno = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
            return format!("-{}", self.wrong.errno(name, errno_name(errno)));
        }
        if name == "openat2" && is_for_the_caller_alone(result as i32) {
            // SAFETY: the descriptor was just made, and nobody else knows it.
            unsafe { libc::close(result as i32) };
            return "-ENOSYS".to_owned();
        }
        if matches!(name.as_str(), "open" | "openat" | "openat2" | "creat") {
            return format!("{result} {}", describe(result as i32, self.wrong));
        }
        result.to_string()
    }

    /// The register's value for an argument; what it points to is kept in `memory`.
    fn place(&self, arg: &Arg, memory: &mut Memory) -> u64 {
        match arg {
            Arg::Number(number) => *number,
            Arg::Null => 0,
            Arg::Bad => 8,
            Arg::High => 0xffff_8000_0000_0000,
            Arg::Text { bytes, times, place } => memory.text(&self.expand(bytes).repeat(*times), *place),
            Arg::Array(items) => {
                let items = items.iter().map(|item| self.place(item, memory)).collect();
                memory.array(items)
            }
        }
    }

    /// With `{W}` and `{F}` replaced.
    fn expand(&self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut rest = bytes;
        while let Some(&byte) = rest.first() {
            let (put, length): (&[u8], usize) = match rest {
                [b'{', b'W', b'}', ..] => (self.dir.as_bytes(), 3),
                [b'{', b'F', b'}', ..] => (self.foreign.as_bytes(), 3),
                _ => (&[byte], 1),
            };
            out.extend_from_slice(put);
            rest = &rest[length..];
        }
        out
    }
}

/// What openat2(2) does not open in a session, a difference by design that both sides are to show alike: path handles, the
/// files of procfs, and devices that depend on who opens them.
fn is_for_the_caller_alone(fd: i32) -> bool {
    const PROC: i64 = 0x9fa0;
    let is_handle = nix::fcntl::OFlag::from_bits_retain(
        // SAFETY: F_GETFL takes no memory.
        unsafe { libc::fcntl(fd, libc::F_GETFL) },
    )
    .contains(nix::fcntl::OFlag::O_PATH);
    // SAFETY: the descriptor is open for as long as it is borrowed.
    let file = unsafe { std::os::fd::BorrowedFd::borrow_raw(fd) };
    let stat = rustix::fs::fstat(file).expect("fstat of what was just opened");
    let on_proc = rustix::fs::fstatfs(file).is_ok_and(|found| found.f_type == PROC);
    let memory_device = rustix::fs::major(stat.st_rdev) == 1;
    is_handle
        || match rustix::fs::FileType::from_raw_mode(stat.st_mode) {
            rustix::fs::FileType::RegularFile => on_proc,
            rustix::fs::FileType::CharacterDevice => !memory_device,
            _ => false,
        }
}

/// Steps up to and with the `end` that closes an open block; all if there is none.
pub fn matching_end(steps: &[Step]) -> usize {
    let mut depth = 1;
    for (index, step) in steps.iter().enumerate() {
        match step {
            Step::Word(Word::Fork | Word::Spawn) => depth += 1,
            Step::Word(Word::End) => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return index + 1;
        }
    }
    steps.len()
}

/// What a call's arguments point to.
#[derive(Default)]
struct Memory {
    heap: Vec<Vec<u8>>,
    arrays: Vec<Vec<u64>>,
    maps: Vec<(usize, usize)>,
}

impl Memory {
    fn text(&mut self, bytes: &[u8], place: Place) -> u64 {
        let mut bytes = bytes.to_vec();
        if place != Place::Cut {
            bytes.push(0);
        }
        if place == Place::Heap {
            // A length beyond the text reads zeros, not what happened to lie there.
            bytes.resize(bytes.len() + 64, 0);
            self.heap.push(bytes);
            return self.heap.last().map_or(0, |bytes| bytes.as_ptr() as u64);
        }
        let readable = bytes.len().div_ceil(PAGE) * PAGE;
        let (all, flags) = (readable + PAGE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a fresh mapping of `readable` bytes and one page without access; the bytes end at the boundary.
        unsafe {
            let base = libc::mmap(std::ptr::null_mut(), all, libc::PROT_NONE, flags, -1, 0);
            assert!(base != libc::MAP_FAILED, "mmap: {}", std::io::Error::last_os_error());
            libc::mprotect(base, readable, libc::PROT_READ | libc::PROT_WRITE);
            let start = base.cast::<u8>().add(readable - bytes.len());
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), start, bytes.len());
            self.maps.push((base as usize, all));
            start as u64
        }
    }

    fn array(&mut self, items: Vec<u64>) -> u64 {
        self.arrays.push(items);
        self.arrays.last_mut().map_or(0, |items| items.as_mut_ptr() as u64)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        for (base, length) in &self.maps {
            // SAFETY: exactly what `text` mapped, and nothing refers to it any more.
            unsafe { libc::munmap(*base as *mut libc::c_void, *length) };
        }
    }
}

/// Status flags that no program acts on: the supervisor opens a pinned last component with `O_NOFOLLOW`, and F_GETFL(2) shows it.
const UNSEEN: i32 = libc::O_NOFOLLOW;

const FS_IOC_GETFLAGS: u64 = 0x8008_6601;

/// Type, mode, owner, size, status and descriptor flags, and inode flags of a descriptor.
fn describe(fd: i32, wrong: Wrong) -> String {
    // SAFETY: an all-zero stat is a valid one; the kernel fills it; ioctl(2) writes one long.
    unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        if libc::fstat(fd, &mut stat) != 0 {
            return format!("-{}", errno_name(std::io::Error::last_os_error().raw_os_error().unwrap_or(0)));
        }
        let status = libc::fcntl(fd, libc::F_GETFL) & !UNSEEN;
        let descriptor = wrong.descriptor_flags(libc::fcntl(fd, libc::F_GETFD));
        let size = if stat.st_mode & libc::S_IFMT == libc::S_IFREG { stat.st_size } else { 0 };
        let mut inode_flags: libc::c_long = 0;
        let flags = match libc::syscall(libc::SYS_ioctl, fd, FS_IOC_GETFLAGS, &mut inode_flags) {
            0 => format!("{:#x}", inode_flags & 0xfff),
            _ => "-".to_owned(),
        };
        let links = if stat.st_mode & libc::S_IFMT == libc::S_IFREG { stat.st_nlink } else { 0 };
        format!(
            "mode={:o} owner={}:{} size={size} links={links} offset={} fl={status:#o} fd={descriptor} flags={flags}",
            stat.st_mode,
            stat.st_uid,
            stat.st_gid,
            libc::lseek(fd, 0, libc::SEEK_CUR)
        )
    }
}

fn content(fd: i32) -> String {
    let mut bytes = [0u8; 256];
    // SAFETY: a live buffer of the length given.
    match unsafe { libc::pread(fd, bytes.as_mut_ptr().cast(), bytes.len(), 0) } {
        count @ 0.. => format!("\"{}\"", bytes[..count as usize].escape_ascii()),
        _ => format!("-{}", errno_name(std::io::Error::last_os_error().raw_os_error().unwrap_or(0))),
    }
}

pub fn errno_name(errno: i32) -> String {
    format!("{:?}", nix::errno::Errno::from_raw(errno))
}
