//! System calls as an attacker makes them. Runs re-executed, as the test user, on what the attack made.

use std::ffi::CString;
use std::path::PathBuf;

/// Result of a system call: its value, or the errno.
pub type Raw = Result<i64, i32>;

/// Any system call with any registers.
pub fn sys<const N: usize>(number: i64, args: [u64; N]) -> Raw {
    let mut registers = [0u64; 6];
    registers[..N].copy_from_slice(&args);
    let [a, b, c, d, e, f] = registers;
    // SAFETY: the attacks pass addresses of live memory, or bad ones that the kernel refuses.
    let result = unsafe { libc::syscall(number, a, b, c, d, e, f) };
    if result < 0 { Err(std::io::Error::last_os_error().raw_os_error().unwrap_or(0)) } else { Ok(result) }
}

pub const AT_FDCWD: u64 = libc::AT_FDCWD as i64 as u64;

/// A C string that lives as long as this value.
pub struct Text(CString);

pub fn text(bytes: impl Into<Vec<u8>>) -> Text {
    Text(CString::new(bytes).expect("no NUL"))
}

impl Text {
    pub fn at(&self) -> u64 {
        self.0.as_ptr() as u64
    }
}

pub fn open(path: &str, flags: i32) -> Raw {
    sys(libc::SYS_openat, [AT_FDCWD, text(path).at(), flags as u64, 0o644])
}

pub fn write(fd: i64, bytes: &[u8]) -> Raw {
    sys(libc::SYS_write, [fd as u64, bytes.as_ptr() as u64, bytes.len() as u64])
}

pub fn close(fd: i64) {
    let _ = sys(libc::SYS_close, [fd as u64]);
}

/// Opens for write with these further flags, writes a mark, closes.
pub fn overwrite(path: &str, flags: i32) -> Raw {
    let fd = open(path, libc::O_WRONLY | flags)?;
    let result = write(fd, b"hit\n");
    close(fd);
    result
}

pub fn mkdir(path: &str) -> Raw {
    sys(libc::SYS_mkdir, [text(path).at(), 0o755])
}

pub fn rmdir(path: &str) -> Raw {
    sys(libc::SYS_rmdir, [text(path).at()])
}

pub fn unlink(path: &str) -> Raw {
    sys(libc::SYS_unlink, [text(path).at()])
}

pub fn rename(from: &str, to: &str) -> Raw {
    sys(libc::SYS_rename, [text(from).at(), text(to).at()])
}

pub fn exchange(from: &str, to: &str) -> Raw {
    sys(libc::SYS_renameat2, [AT_FDCWD, text(from).at(), AT_FDCWD, text(to).at(), u64::from(libc::RENAME_EXCHANGE)])
}

pub fn link(from: &str, to: &str) -> Raw {
    sys(libc::SYS_link, [text(from).at(), text(to).at()])
}

pub fn symlink(target: &str, at: &str) -> Raw {
    sys(libc::SYS_symlink, [text(target).at(), text(at).at()])
}

/// Prints `key value` for the test to read.
pub fn say(key: &str, value: impl std::fmt::Display) {
    println!("{key} {value}");
}

/// Prints `key ok VALUE` or `key ERRNO`.
pub fn say_result(key: &str, result: Raw) {
    match result {
        Ok(value) => say(key, format!("ok {value}")),
        Err(errno) => say(key, format!("{:?}", nix::errno::Errno::from_raw(errno))),
    }
}

fn home_dir() -> PathBuf {
    std::env::var_os("HOME").expect("HOME").into()
}

/// A path in the home directory.
pub fn home(name: &str) -> String {
    home_dir().join(name).display().to_string()
}

/// A path in the directory where nothing is allowed.
pub fn outside(name: &str) -> String {
    home_dir().with_file_name("outside").join(name).display().to_string()
}

/// Forks; the child runs `work` and ends with what it returns.
pub fn fork(work: impl FnOnce() -> i32) -> i32 {
    // SAFETY: fork(2); the child makes system calls and ends with _exit(2).
    unsafe {
        let pid = libc::fork();
        assert!(pid >= 0, "fork: {}", std::io::Error::last_os_error());
        if pid == 0 {
            libc::_exit(work());
        }
        pid
    }
}

/// Waits for a child; its wait status.
pub fn wait_for(pid: i32) -> i32 {
    let mut status = 0;
    // SAFETY: a live integer.
    while unsafe { libc::waitpid(pid, &mut status, 0) } < 0
        && std::io::Error::last_os_error().raw_os_error() == Some(libc::EINTR)
    {}
    status
}
