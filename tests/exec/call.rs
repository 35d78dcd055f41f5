//! execve(2) and its kin by their raw numbers, in a child or a process of its own.

use std::ffi::CString;
use std::path::Path;
use std::ptr;

/// A C string that a call reads.
pub fn text(bytes: impl AsRef<[u8]>) -> CString {
    CString::new(bytes.as_ref()).expect("no NUL")
}

pub fn path(path: &Path) -> CString {
    text(path.as_os_str().as_encoded_bytes())
}

/// What `in_child` returned, or the status of what it executed.
#[derive(Debug, PartialEq, Eq)]
pub enum End {
    Errno(i32),
    Exited(i32),
    Signaled(i32),
}

/// Forks; `in_child` executes, or returns the errno with which that failed.
pub fn fork_and(in_child: impl FnOnce() -> i32) -> End {
    let mut ends = [0; 2];
    // SAFETY: the kernel writes two ints to a live array.
    assert_eq!(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) }, 0);
    let [read, write] = ends;
    // SAFETY: the child makes system calls and no more, as far as its callers keep to it.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork");
    if child == 0 {
        let errno = in_child().to_ne_bytes();
        // SAFETY: the bytes are live; _exit has no precondition.
        unsafe {
            libc::write(write, errno.as_ptr().cast(), errno.len());
            libc::_exit(0);
        }
    }
    // SAFETY: descriptors of our own; the bytes are live.
    unsafe { libc::close(write) };
    let mut errno = [0; 4];
    let got = unsafe { libc::read(read, errno.as_mut_ptr().cast(), errno.len()) };
    unsafe { libc::close(read) };
    let ended = wait_for(child);
    if got == 4 { End::Errno(i32::from_ne_bytes(errno)) } else { ended }
}

pub fn wait_for(child: i32) -> End {
    let mut status = 0;
    // SAFETY: the kernel writes one int.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child, "wait for our own child");
    if libc::WIFEXITED(status) { End::Exited(libc::WEXITSTATUS(status)) } else { End::Signaled(libc::WTERMSIG(status)) }
}

fn errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().expect("an errno")
}

/// Pointers to words, with the null one.
pub fn pointers(words: &[CString]) -> Vec<*const libc::c_char> {
    words.iter().map(|word| word.as_ptr()).chain([ptr::null()]).collect()
}

/// execve(2) on whatever pointers; returns the errno.
pub fn execve_raw(path: u64, argv: u64, environment: u64) -> i32 {
    // SAFETY: the kernel only reads what these point to, and says EFAULT where it cannot.
    unsafe { libc::syscall(libc::SYS_execve, path, argv, environment) };
    errno()
}

pub fn execve(path: &CString, argv: &[CString], environment: &[CString]) -> i32 {
    let (argv, environment) = (pointers(argv), pointers(environment));
    execve_raw(path.as_ptr() as u64, argv.as_ptr() as u64, environment.as_ptr() as u64)
}

pub fn execveat(directory: i32, path: &CString, argv: &[CString], environment: &[CString], flags: i32) -> i32 {
    let (argv, environment) = (pointers(argv), pointers(environment));
    // SAFETY: as above.
    unsafe { libc::syscall(libc::SYS_execveat, directory, path.as_ptr(), argv.as_ptr(), environment.as_ptr(), flags) };
    errno()
}
