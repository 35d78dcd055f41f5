//! Processes: programs that are executed in several ways, what they inherit, how they end, threads, groups and sessions.
//!
//! Runs in the executor.

use std::ffi::{CStr, CString};

use super::acts::{all_of, failed, forked, pipe, status_words, text, texts, told, waited};

fn pointers(all: &[CString]) -> Vec<*const libc::c_char> {
    all.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect()
}

/// Standard output and error of a program that is to be executed: a pipe. Only makes system calls.
fn to_pipe(write: i32) {
    // SAFETY: dup2(2) of our own descriptor.
    unsafe {
        libc::dup2(write, 1);
        libc::dup2(write, 2);
    }
}

/// Runs a program to its end by one of the ways to start one: 0 fork, 1 vfork, 2 posix_spawn, 3 fexecve, 4 a thread's exec.
fn run(way: i32, program: &CStr, argv: &[CString], environment: &[CString]) -> String {
    let [read, write] = pipe();
    let (args, variables) = (pointers(argv), pointers(environment));
    let execute = || {
        // SAFETY: live arrays of live strings that end with null; an exec that fails ends the child with its errno.
        unsafe {
            libc::execve(program.as_ptr(), args.as_ptr(), variables.as_ptr());
            100 + (*libc::__errno_location()).min(100)
        }
    };
    // SAFETY: live arrays and structures; the child of vfork(2) only makes system calls and ends by _exit(2).
    let pid = unsafe {
        match way {
            1 => {
                let mut errno = 0;
                #[allow(deprecated, reason = "it is what is tested")]
                let pid = libc::vfork();
                if pid == 0 {
                    to_pipe(write);
                    libc::execve(program.as_ptr(), args.as_ptr(), variables.as_ptr());
                    std::ptr::write_volatile(&mut errno, *libc::__errno_location());
                    libc::_exit(99);
                }
                if std::ptr::read_volatile(&errno) != 0 {
                    libc::close(write);
                    return format!("vfork: errno {} {} {}", errno, waited(pid, 0), all_of(read));
                }
                pid
            }
            2 => {
                let mut actions: libc::posix_spawn_file_actions_t = std::mem::zeroed();
                libc::posix_spawn_file_actions_init(&mut actions);
                libc::posix_spawn_file_actions_adddup2(&mut actions, write, 1);
                libc::posix_spawn_file_actions_adddup2(&mut actions, write, 2);
                let mut pid = 0;
                let none = std::ptr::null();
                let (args, variables) = (args.as_ptr().cast(), variables.as_ptr().cast());
                let errno = libc::posix_spawn(&mut pid, program.as_ptr(), &actions, none, args, variables);
                libc::posix_spawn_file_actions_destroy(&mut actions);
                if errno != 0 {
                    libc::close(write);
                    libc::close(read);
                    return format!("posix_spawn: errno {errno}");
                }
                pid
            }
            3 => forked(|| {
                to_pipe(write);
                let fd = libc::open(program.as_ptr(), libc::O_PATH | libc::O_CLOEXEC);
                libc::fexecve(fd, args.as_ptr(), variables.as_ptr());
                100 + (*libc::__errno_location()).min(100)
            }),
            4 => forked(|| {
                to_pipe(write);
                std::thread::scope(|scope| {
                    let thread = scope.spawn(|| {
                        let (args, variables) = (pointers(argv), pointers(environment));
                        libc::execve(program.as_ptr(), args.as_ptr(), variables.as_ptr());
                        100 + (*libc::__errno_location()).min(100)
                    });
                    thread.join().unwrap_or(97)
                })
            }),
            _ => forked(|| {
                to_pipe(write);
                execute()
            }),
        }
    };
    // SAFETY: our own descriptor.
    unsafe { libc::close(write) };
    let said = all_of(read);
    format!("{} \"{said}\"", waited(pid, 0))
}

/// Children with these exit codes, waited for in several ways.
fn children(codes: [i32; 3]) -> String {
    let mut told_of = Vec::new();
    for (index, code) in codes.into_iter().enumerate() {
        let child = forked(|| code);
        // SAFETY: our own child; an all-zero siginfo that the kernel fills.
        unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            match index {
                0 => told_of.push(waited(child, 0)),
                1 => {
                    libc::waitid(libc::P_PID, child as u32, &mut info, libc::WEXITED | libc::WNOWAIT);
                    told_of.push(format!("code {} status {} {}", info.si_code, info.si_status(), waited(child, 0)));
                }
                _ => {
                    let fd = libc::syscall(libc::SYS_pidfd_open, child, 0) as i32;
                    libc::waitid(libc::P_PIDFD, fd as u32, &mut info, libc::WEXITED);
                    libc::close(fd);
                    told_of.push(format!("code {} status {}", info.si_code, info.si_status()));
                }
            }
        }
    }
    told_of.push(waited(-1, libc::WNOHANG));
    told_of.join(", ")
}

/// Which of the ids are this process's own number, and which are its parent's.
fn ids() -> String {
    // SAFETY: calls that cannot fail for oneself.
    unsafe {
        let own = libc::getpid();
        let of = |id: i32| {
            if id == own {
                "own"
            } else if id == libc::getppid() {
                "parent's"
            } else {
                "other"
            }
        };
        format!("group {} session {} thread {}", of(libc::getpgid(0)), of(libc::getsid(0)), of(libc::gettid()))
    }
}

fn new_session() -> String {
    // SAFETY: setsid(2).
    if unsafe { libc::setsid() } < 0 { failed() } else { "a session".into() }
}

/// Groups of two children: one moved into the group of the other, one that has executed already (`EACCES`).
fn groups() -> String {
    let [read, write] = pipe();
    // SAFETY: our own children and descriptors.
    unsafe {
        let first = forked(|| libc::pause());
        let second = forked(|| libc::pause());
        let mut told_of = vec![told(libc::setpgid(first, first).into()), told(libc::setpgid(second, first).into())];
        told_of.push((libc::getpgid(second) == first).to_string());
        told_of.push(told(libc::setpgid(second, 1 << 22).into()));
        let third = forked(|| {
            libc::dup2(write, 1);
            let args = [c"cat".as_ptr(), std::ptr::null()];
            libc::dup2(read, 0);
            libc::write(1, c"x".as_ptr().cast(), 1);
            libc::execv(c"/bin/cat".as_ptr(), args.as_ptr())
        });
        let [go, went] = pipe();
        let fourth = forked(|| {
            libc::setsid();
            libc::write(went, c"x".as_ptr().cast(), 1);
            libc::pause()
        });
        let mut byte = [0u8; 1];
        libc::read(go, byte.as_mut_ptr().cast(), 1);
        told_of.push(told(libc::setpgid(fourth, fourth).into()));
        for child in [first, second, third, fourth] {
            libc::kill(child, libc::SIGKILL);
            told_of.push(waited(child, 0));
        }
        for fd in [read, write, go, went] {
            libc::close(fd);
        }
        told_of.join(", ")
    }
}

/// Threads share cwd, umask and descriptors until one unshares.
fn thread(kind: i32, name: &CStr) -> String {
    let make = || {
        // SAFETY: a live string.
        told(unsafe { libc::mkdir(name.as_ptr(), 0o777) }.into())
    };
    std::thread::scope(|scope| {
        // SAFETY: system calls of the thread, with live strings.
        let work = || unsafe {
            match kind {
                0 => make(),
                1 => {
                    libc::mkdir(c"t".as_ptr(), 0o755);
                    told(libc::chdir(c"t".as_ptr()).into())
                }
                2 => {
                    libc::unshare(libc::CLONE_FS);
                    libc::umask(0o077);
                    let made = make();
                    libc::mkdir(c"t".as_ptr(), 0o755);
                    format!("{made} {}", told(libc::chdir(c"t".as_ptr()).into()))
                }
                3 => {
                    libc::umask(0o027);
                    make()
                }
                4 => {
                    libc::unshare(libc::CLONE_FILES);
                    let fd = libc::open(name.as_ptr(), libc::O_CREAT | libc::O_WRONLY | libc::O_CLOEXEC, 0o644);
                    format!("{fd}")
                }
                _ => {
                    let fd = libc::open(name.as_ptr(), libc::O_CREAT | libc::O_WRONLY | libc::O_CLOEXEC, 0o644);
                    format!("{fd}")
                }
            }
        };
        let from_thread = scope.spawn(work).join().unwrap_or_default();
        // What is here now: by a relative path, and the lowest free descriptor.
        let made = told(unsafe { libc::mkdir(c"after".as_ptr(), 0o777) }.into());
        let fd = unsafe { libc::dup(1) };
        unsafe { libc::close(fd) };
        format!("{from_thread}, then {made} {fd}")
    })
}

/// A copy of cat(1) that runs until this program ends.
fn executing(name: &CStr) -> String {
    let Ok(path) = name.to_str() else { return "no name".into() };
    if let Err(error) = std::fs::copy("/bin/cat", path) {
        return format!("copy: {error}");
    }
    let [input, held] = pipe();
    let [read, write] = pipe();
    let child = forked(|| {
        // SAFETY: live strings; what it reads never comes, for `held` stays open as long as this program runs.
        unsafe {
            libc::dup2(input, 0);
            libc::close(held);
            libc::execl(name.as_ptr(), c"cat".as_ptr(), std::ptr::null::<libc::c_char>());
            1
        }
    });
    // SAFETY: our own descriptors; what stays is moved out of the way of the program's own.
    unsafe {
        libc::close(input);
        libc::fcntl(held, libc::F_DUPFD_CLOEXEC, 210);
        libc::close(held);
        // Closed on exec, and so the pipe ends when it is executed.
        libc::close(write);
    }
    all_of(read);
    waited(child, libc::WNOHANG)
}

fn script(name: &CStr, contents: &CStr) -> String {
    let Ok(path) = name.to_str() else { return "no name".into() };
    let here = std::env::current_dir().unwrap_or_default();
    let contents = contents.to_string_lossy().replace("{W}", &here.display().to_string());
    // By a child, so that no descriptor of this process is open for writing while another one executes it.
    let child = forked(|| {
        let _ = std::fs::write(path, contents.as_bytes());
        // SAFETY: a live string.
        unsafe { libc::chmod(name.as_ptr(), 0o755) }
    });
    waited(child, 0)
}

/// What prctl(2) keeps over fork and over exec is told by the child.
fn named() -> String {
    let mut name = [0u8; 16];
    // SAFETY: 16 bytes, as PR_GET_NAME wants.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    let length = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    name[..length].escape_ascii().to_string()
}

/// A child whose parent goes first gets another: the subreaper, which is this process.
fn orphan() -> String {
    let [read, write] = pipe();
    // SAFETY: our own descriptors and children; numbers for prctl(2).
    unsafe {
        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1);
        let here = libc::getpid();
        let child = forked(|| {
            let middle = libc::getpid();
            let grandchild = libc::fork();
            if grandchild == 0 {
                while libc::getppid() == middle {
                    libc::usleep(500);
                }
                let mine = libc::getppid() == here;
                libc::write(write, if mine { c"adopted" } else { c"lost" }.as_ptr().cast(), if mine { 7 } else { 4 });
                libc::_exit(5);
            }
            3
        });
        libc::close(write);
        let first = waited(child, 0);
        let said = all_of(read);
        let second = waited(-1, 0);
        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 0);
        format!("{first} {said} {second}")
    }
}

/// A process that is told of its parent's end by a signal.
fn parents_death() -> String {
    let [read, write] = pipe();
    // SAFETY: our own descriptors and children.
    unsafe {
        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1);
        let [ready, ready_write] = pipe();
        let child = forked(|| {
            if libc::fork() == 0 {
                libc::close(read);
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
                libc::signal(libc::SIGTERM, libc::SIG_DFL);
                libc::write(ready_write, c"r".as_ptr().cast(), 1);
                libc::pause();
                libc::_exit(0);
            }
            let mut byte = [0u8; 1];
            libc::read(ready, byte.as_mut_ptr().cast(), 1);
            0
        });
        let first = waited(child, 0);
        let second = waited(-1, 0);
        for fd in [read, write, ready, ready_write] {
            libc::close(fd);
        }
        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 0);
        format!("{first} {second}")
    }
}

pub fn perform(name: &str, r: [u64; 6]) -> Option<String> {
    let int = |index: usize| r[index] as i32;
    Some(match name {
        "run" => run(int(0), &text(r[1]), &texts(r[2]), &texts(r[3])),
        "children" => children([int(0), int(1), int(2)]),
        "ids" => ids(),
        "setsid" => new_session(),
        "groups" => groups(),
        "thread" => thread(int(0), &text(r[1])),
        "executing" => executing(&text(r[0])),
        "script" => script(&text(r[0]), &text(r[1])),
        "named" => named(),
        "orphan" => orphan(),
        "parentsdeath" => parents_death(),
        "waitany" => {
            let mut status = 0;
            // SAFETY: one integer is filled.
            match unsafe { libc::waitpid(-1, &mut status, int(0) | libc::WNOHANG) } {
                0 => "nothing yet".into(),
                1.. => status_words(status),
                _ => failed(),
            }
        }
        "getlimit" => {
            let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            // SAFETY: filled by the kernel.
            unsafe { libc::getrlimit(int(0) as _, &mut limit) };
            format!("{} {}", limit.rlim_cur, limit.rlim_max)
        }
        _ => return None,
    })
}
