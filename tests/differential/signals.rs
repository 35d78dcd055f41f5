//! Signals: handlers, masks, queues, timers, and calls that are interrupted or held meanwhile.
//!
//! Runs in the executor. What handlers saw is a list in static memory; a handler only writes to that.

use std::ffi::CString;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};

use super::acts::{all_of, failed, forked, pipe, ready, status_words, text, told, waited};

const MOST: usize = 256;

#[allow(clippy::declare_interior_mutable_const, reason = "the initial value of each element")]
const ZERO: AtomicI32 = AtomicI32::new(0);
static SEEN: [[AtomicI32; 3]; MOST] = [const { [ZERO; 3] }; MOST];
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// The handler also makes a directory.
static MAKES: AtomicBool = AtomicBool::new(false);
/// The handler also writes a byte to this descriptor, the second time.
static RELEASES: AtomicI32 = AtomicI32::new(-1);
static MADE: AtomicI32 = AtomicI32::new(0);

extern "C" fn handler(signal: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    let at = COUNT.fetch_add(1, Ordering::SeqCst);
    // SAFETY: with SA_SIGINFO the kernel gives a valid siginfo; mkdir(2) and write(2) take live strings, and may be called here.
    unsafe {
        let errno = *libc::__errno_location();
        if let Some([number, code, value]) = SEEN.get(at) {
            number.store(signal, Ordering::SeqCst);
            code.store((*info).si_code, Ordering::SeqCst);
            let told = if (*info).si_code == libc::SI_QUEUE { (*info).si_value().sival_ptr as i32 } else { 0 };
            value.store(if signal == libc::SIGCHLD { (*info).si_status() } else { told }, Ordering::SeqCst);
        }
        if MAKES.load(Ordering::SeqCst) {
            let name = [b'h', b'0' + (MADE.fetch_add(1, Ordering::SeqCst) % 10) as u8, 0];
            libc::mkdir(name.as_ptr().cast(), 0o755);
        }
        if at == 1 {
            libc::write(RELEASES.load(Ordering::SeqCst), c"x".as_ptr().cast(), 1);
        }
        *libc::__errno_location() = errno;
    }
}

/// `flags` of sigaction(2).
fn handle(signal: i32, flags: i32) -> String {
    // SAFETY: an all-zero sigaction with a handler that takes three arguments.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = flags | libc::SA_SIGINFO;
        told(libc::sigaction(signal, &action, std::ptr::null_mut()).into())
    }
}

fn disposition(signal: i32, action: usize) -> String {
    // SAFETY: SIG_DFL or SIG_IGN.
    if unsafe { libc::signal(signal, action) } == libc::SIG_ERR { failed() } else { "0".into() }
}

fn set_of(signals: &[i32]) -> libc::sigset_t {
    // SAFETY: sigemptyset(3) fills it.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        for signal in signals {
            libc::sigaddset(&mut set, *signal);
        }
        set
    }
}

fn members(set: &libc::sigset_t) -> String {
    // SAFETY: a set that the kernel filled.
    let all: Vec<String> = (1..=64)
        .filter(|signal| unsafe { libc::sigismember(set, *signal) } == 1)
        .map(|signal| signal.to_string())
        .collect();
    format!("[{}]", all.join(" "))
}

fn pending() -> String {
    let mut set = set_of(&[]);
    // SAFETY: filled by the kernel.
    unsafe { libc::sigpending(&mut set) };
    members(&set)
}

fn is_pending(signal: i32) -> bool {
    let mut set = set_of(&[]);
    // SAFETY: as above.
    unsafe {
        libc::sigpending(&mut set);
        libc::sigismember(&set, signal) == 1
    }
}

fn is_handled(signal: i32) -> bool {
    // SAFETY: an all-zero sigaction that the kernel fills.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &mut action);
        action.sa_sigaction == handler as *const () as usize
    }
}

/// What handlers saw since the last time: the signal, how it was sent, and its value.
fn taken() -> String {
    let count = COUNT.swap(0, Ordering::SeqCst).min(MOST);
    let one = |[signal, code, value]: &[AtomicI32; 3]| {
        let code = code.load(Ordering::SeqCst);
        format!("{}:{code}:{}", signal.load(Ordering::SeqCst), value.load(Ordering::SeqCst))
    };
    let all: Vec<String> = SEEN.iter().take(count).map(one).collect();
    format!("[{}]", all.join(" "))
}

/// From now on every so many milliseconds.
fn timer(signal: i32, milliseconds: i64) -> String {
    // SAFETY: an all-zero sigevent with SIGEV_SIGNAL; timer_create(2) fills the id.
    unsafe {
        let mut event: libc::sigevent = std::mem::zeroed();
        event.sigev_notify = libc::SIGEV_SIGNAL;
        event.sigev_signo = signal;
        let mut id: libc::timer_t = std::mem::zeroed();
        if libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut id) != 0 {
            return failed();
        }
        let each = libc::timespec { tv_sec: 0, tv_nsec: milliseconds * 1_000_000 };
        let when = libc::itimerspec { it_interval: each, it_value: each };
        let result = told(libc::timer_settime(id, 0, &when, std::ptr::null_mut()).into());
        TIMER.store(id as usize, Ordering::SeqCst);
        result
    }
}

static TIMER: AtomicUsize = AtomicUsize::new(usize::MAX);

fn end_timer() {
    let id = TIMER.swap(usize::MAX, Ordering::SeqCst);
    if id != usize::MAX {
        // SAFETY: the id of a timer of this process.
        unsafe { libc::timer_delete(id as libc::timer_t) };
    }
}

fn send(signal: i32, to: i32, value: i32) -> String {
    // SAFETY: numbers, and a sigval of a number.
    unsafe {
        told(match to {
            0 => libc::kill(libc::getpid(), signal).into(),
            1 => libc::syscall(libc::SYS_tgkill, libc::getpid(), libc::syscall(libc::SYS_gettid), signal),
            2 => libc::kill(0, signal).into(),
            3 => libc::sigqueue(libc::getpid(), signal, libc::sigval { sival_ptr: value as usize as *mut _ }).into(),
            4 => {
                let fd = libc::syscall(libc::SYS_pidfd_open, libc::getpid(), 0);
                let result = libc::syscall(libc::SYS_pidfd_send_signal, fd, signal, 0, 0);
                libc::close(fd as i32);
                result
            }
            _ => libc::kill(1 << 22, signal).into(),
        })
    }
}

fn timed_wait(signal: i32) -> String {
    let set = set_of(&[signal]);
    let none = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a set, a siginfo that is filled, and a timespec.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        match libc::sigtimedwait(&set, &mut info, &none) {
            result @ 0.. => format!("{result} code {}", info.si_code),
            _ => failed(),
        }
    }
}

/// sigsuspend(2) with a mask that lets this signal alone through, if it is pending and does not leave us waiting.
fn suspend(signal: i32) -> String {
    if !is_pending(signal) {
        return "nothing is pending".into();
    }
    if !is_handled(signal) {
        return "nobody handles it".into();
    }
    let mut set = set_of(&[]);
    // SAFETY: a set; sigsuspend(2) ends at once, for the signal is pending, or ends this process.
    unsafe {
        libc::sigfillset(&mut set);
        libc::sigdelset(&mut set, signal);
        libc::sigdelset(&mut set, libc::SIGALRM);
        told(libc::sigsuspend(&set).into())
    }
}

fn by_descriptor(signal: i32) -> String {
    let set = set_of(&[signal]);
    // SAFETY: a set; a siginfo of the size given is filled.
    unsafe {
        let fd = libc::signalfd(-1, &set, libc::SFD_NONBLOCK | libc::SFD_CLOEXEC);
        if fd < 0 {
            return failed();
        }
        let mut info: libc::signalfd_siginfo = std::mem::zeroed();
        let count = libc::read(fd, (&raw mut info).cast(), size_of::<libc::signalfd_siginfo>());
        let result = if count < 0 { failed() } else { format!("{} code {}", info.ssi_signo, info.ssi_code) };
        libc::close(fd);
        result
    }
}

/// Calls that wait while a timer's signals come. With a handler that restarts, what is waited for comes after the second
/// one, else only afterwards.
fn waits(kind: i32, signal: i32, flags: i32) -> String {
    let restarts = flags & libc::SA_RESTART != 0;
    // Of children nothing is to come.
    disposition(libc::SIGCHLD, libc::SIG_DFL);
    handle(signal, flags);
    COUNT.store(0, Ordering::SeqCst);
    let set = set_of(&[signal]);
    let mut before = set_of(&[]);
    let [read, write] = pipe();
    let released = || {
        let mut byte = [0u8; 1];
        // SAFETY: a live buffer of one byte.
        unsafe { libc::read(read, byte.as_mut_ptr().cast(), 1) }
    };
    // SAFETY: descriptors of this function's own, live strings and structures.
    let result = unsafe {
        libc::sigprocmask(libc::SIG_UNBLOCK, &set, &mut before);
        RELEASES.store(if restarts { write } else { -1 }, Ordering::SeqCst);
        let opened = |flags: i32| {
            libc::mkfifo(c"fifo".as_ptr(), 0o644);
            // The other end.
            let child = forked(|| {
                released();
                let other = if flags == libc::O_WRONLY { libc::O_RDONLY } else { libc::O_WRONLY };
                let nonblocking = if restarts { 0 } else { libc::O_NONBLOCK };
                libc::open(c"fifo".as_ptr(), other | nonblocking);
                0
            });
            timer(signal, 20);
            let fd = libc::open(c"fifo".as_ptr(), flags);
            let result = if fd >= 0 { "opened".to_owned() } else { failed() };
            end_timer();
            libc::close(fd);
            release(write);
            format!("{result}, {}", waited(child, 0))
        };
        match kind {
            // A fifo that nobody reads, and one that nobody writes, which the supervisor opens.
            0 => opened(libc::O_WRONLY),
            1 => opened(libc::O_RDONLY),
            2 => {
                let time = libc::timespec { tv_sec: 0, tv_nsec: 60_000_000 };
                timer(signal, 20);
                let result = told(libc::nanosleep(&time, std::ptr::null_mut()).into());
                end_timer();
                result
            }
            // A child's end.
            3 => {
                let child = forked(|| {
                    released();
                    7
                });
                timer(signal, 20);
                let mut status = 0;
                let result = libc::waitpid(child, &mut status, 0);
                let result = if result < 0 { failed() } else { status_words(status) };
                end_timer();
                release(write);
                format!("{result}, {}", waited(child, 0))
            }
            // An empty pipe.
            _ => {
                timer(signal, 20);
                let result = told(released() as i64);
                end_timer();
                result
            }
        }
    };
    RELEASES.store(-1, Ordering::SeqCst);
    let came = COUNT.swap(0, Ordering::SeqCst) > 0;
    disposition(signal, libc::SIG_IGN);
    // SAFETY: our own descriptors, a set that was filled, a live string.
    unsafe {
        libc::sigprocmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        libc::unlink(c"fifo".as_ptr());
        libc::close(read);
        libc::close(write);
    }
    format!("{result}, signals came: {came}")
}

fn release(write: i32) {
    // SAFETY: a live string.
    unsafe { libc::write(write, c"x".as_ptr().cast(), 1) };
}

/// Makes and removes directories while signals come: with a handler that restarts no call may fail.
fn storm(calls: i32, signal: i32) -> String {
    handle(signal, libc::SA_RESTART);
    // Not so often that a busy machine does nothing else.
    timer(signal, 20);
    let mut failures = Vec::new();
    for _ in 0..calls {
        // SAFETY: live strings.
        unsafe {
            if libc::mkdir(c"stormed".as_ptr(), 0o755) != 0 {
                failures.push(failed());
            }
            if libc::rmdir(c"stormed".as_ptr()) != 0 {
                failures.push(failed());
            }
        }
    }
    end_timer();
    disposition(signal, libc::SIG_IGN);
    COUNT.store(0, Ordering::SeqCst);
    format!("failures: {failures:?}")
}

/// A signal that is blocked comes while a call is held, and is taken after it.
fn held_while_pending(signal: i32, name: &CString) -> String {
    handle(signal, 0);
    COUNT.store(0, Ordering::SeqCst);
    let set = set_of(&[signal]);
    // SAFETY: sets and live strings.
    unsafe {
        let mut before = set_of(&[]);
        libc::sigprocmask(libc::SIG_BLOCK, &set, &mut before);
        libc::raise(signal);
        let made = told(libc::mkdir(name.as_ptr(), 0o700).into());
        let then = pending();
        libc::sigprocmask(libc::SIG_UNBLOCK, &set, std::ptr::null_mut());
        let seen = taken();
        libc::sigprocmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        disposition(signal, libc::SIG_IGN);
        format!("{made} pending {then} taken {seen}")
    }
}

/// A signal's handler that makes a directory, in the middle of another call.
fn in_handler(signal: i32) -> String {
    handle(signal, libc::SA_RESTART);
    MAKES.store(true, Ordering::SeqCst);
    // SAFETY: raise(3).
    let sent = told(unsafe { libc::raise(signal) }.into());
    MAKES.store(false, Ordering::SeqCst);
    disposition(signal, libc::SIG_IGN);
    format!("{sent} {}", taken())
}

/// A child that makes and removes a directory for ever is stopped, continued and killed. Its SIGCHLD for having continued
/// may come late, or not at all.
fn stopped_and_continued(signal: i32) -> String {
    disposition(libc::SIGCHLD, libc::SIG_DFL);
    let child = forked(|| {
        loop {
            // SAFETY: live strings.
            if unsafe { libc::mkdir(c"again".as_ptr(), 0o755) != 0 || libc::rmdir(c"again".as_ptr()) != 0 } {
                return 9;
            }
        }
    });
    // SAFETY: signals to our own child.
    unsafe {
        libc::usleep(3_000);
        libc::kill(child, signal);
        let stopped = waited(child, libc::WUNTRACED);
        libc::kill(child, libc::SIGCONT);
        let continued = waited(child, libc::WCONTINUED);
        libc::kill(child, libc::SIGKILL);
        let end = waited(child, 0);
        libc::rmdir(c"again".as_ptr());
        format!("{stopped}, {continued}, {end}")
    }
}

fn dies_of(signal: i32) -> String {
    let child = forked(|| {
        // SAFETY: a signal to ourselves.
        unsafe { libc::raise(signal) };
        0
    });
    let end = waited(child, libc::WUNTRACED);
    if !end.starts_with("stopped") {
        return end;
    }
    // SAFETY: our own child, which has stopped.
    unsafe { libc::kill(child, libc::SIGKILL) };
    format!("{end}, {}", waited(child, 0))
}

/// What SIGCHLD tells of a child that ends with this code, and of one that is killed.
fn of_children(code: i32) -> String {
    handle(libc::SIGCHLD, libc::SA_RESTART);
    COUNT.store(0, Ordering::SeqCst);
    let first = forked(|| code);
    let ended = waited(first, 0);
    let one = taken();
    // SAFETY: pause(2) until it is killed.
    let second = forked(|| unsafe { libc::pause() });
    // SAFETY: our own child.
    unsafe { libc::kill(second, libc::SIGTERM) };
    let killed = waited(second, 0);
    let two = taken();
    disposition(libc::SIGCHLD, libc::SIG_DFL);
    format!("{ended} {one}, {killed} {two}")
}

/// A signal to a whole group, of which one member holds it back.
fn to_group(signal: i32) -> String {
    let [read, write] = pipe();
    let leader = forked(|| {
        // SAFETY: a group of our own with one more process.
        unsafe {
            libc::setpgid(0, 0);
            let other = forked(|| {
                libc::write(write, c"r".as_ptr().cast(), 1);
                libc::pause()
            });
            libc::write(write, c"r".as_ptr().cast(), 1);
            let _ = other;
            libc::pause()
        }
    });
    // SAFETY: our own descriptors and children.
    unsafe {
        let mut bytes = [0u8; 1];
        for _ in 0..2 {
            libc::read(read, bytes.as_mut_ptr().cast(), 1);
        }
        libc::close(write);
        let sent = told(libc::kill(-leader, signal).into());
        let end = waited(leader, 0);
        // Ends when the other one is gone, too; who reaps that one does it at some time.
        let rest = all_of(read);
        format!("{sent} {end} {rest:?}")
    }
}

/// Writes to a pipe that nobody reads.
fn broken_pipe(ignored: bool) -> String {
    handle(libc::SIGPIPE, 0);
    if ignored {
        disposition(libc::SIGPIPE, libc::SIG_IGN);
    }
    COUNT.store(0, Ordering::SeqCst);
    let [read, write] = pipe();
    // SAFETY: our own descriptors.
    unsafe {
        libc::close(read);
        let result = told(libc::write(write, c"x".as_ptr().cast(), 1) as i64);
        libc::close(write);
        disposition(libc::SIGPIPE, libc::SIG_DFL);
        format!("{result} {}", taken())
    }
}

/// A file beyond RLIMIT_FSIZE, by the descriptor that the supervisor gave.
fn too_large(ignored: bool) -> String {
    let child = forked(|| {
        disposition(libc::SIGXFSZ, if ignored { libc::SIG_IGN } else { libc::SIG_DFL });
        let limit = libc::rlimit { rlim_cur: 10, rlim_max: 10 };
        // SAFETY: live strings and structures.
        unsafe {
            libc::setrlimit(libc::RLIMIT_FSIZE, &limit);
            let fd = libc::open(c"large".as_ptr(), libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC, 0o644);
            let first = libc::write(fd, c"123456789012345".as_ptr().cast(), 15);
            let second = libc::write(fd, c"1".as_ptr().cast(), 1);
            let errno = *libc::__errno_location();
            if first == 10 && second == -1 && errno == libc::EFBIG { 0 } else { 1 }
        }
    });
    waited(child, 0)
}

pub fn perform(name: &str, r: [u64; 6]) -> Option<String> {
    let int = |index: usize| r[index] as i32;
    Some(match name {
        "handle" => handle(int(0), int(1)),
        "ignore" => disposition(int(0), libc::SIG_IGN),
        "default" => disposition(int(0), libc::SIG_DFL),
        "mask" => {
            let set = set_of(&[int(1)]);
            // SAFETY: a set.
            told(unsafe { libc::sigprocmask(int(0), &set, std::ptr::null_mut()) }.into())
        }
        "masked" => {
            let mut set = set_of(&[]);
            // SAFETY: filled by the kernel.
            unsafe { libc::sigprocmask(libc::SIG_BLOCK, std::ptr::null(), &mut set) };
            members(&set)
        }
        "send" => send(int(0), int(1), int(2)),
        "pending" => pending(),
        "taken" => taken(),
        "timer" => timer(int(0), r[1] as i64),
        "timedwait" => timed_wait(int(0)),
        "suspend" => suspend(int(0)),
        "signalfd" => by_descriptor(int(0)),
        "waits" => waits(int(0), int(1), int(2)),
        "storm" => storm(int(0), int(1)),
        "held" => held_while_pending(int(0), &text(r[1])),
        "inhandler" => in_handler(int(0)),
        "stopped" => stopped_and_continued(int(0)),
        "diesof" => dies_of(int(0)),
        "ofchildren" => of_children(int(0)),
        "togroup" => to_group(int(0)),
        "brokenpipe" => broken_pipe(int(0) != 0),
        "toolarge" => too_large(int(0) != 0),
        "readable" => ready(int(0), libc::POLLIN, 0).to_string(),
        _ => return None,
    })
}
