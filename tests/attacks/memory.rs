//! Attack 3: arguments in memory that cannot be read, ends early, or goes away. The kernel's own answers, and no stall.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::engine::{self, attack};
use crate::raw::{self, AT_FDCWD, Raw, sys};
use crate::support::{Side, snapshot};
use crate::{Inside, Test};

pub const TESTS: &[Test] = &[
    ("unreadable_arguments_give_the_errno_of_the_kernel", unreadable),
    ("memory_unmapped_by_a_thread_gives_an_error_and_no_effect", unmapped_meanwhile),
];

pub const INSIDE: &[Inside] = &[("unreadable", unreadable_inside), ("unmapped", unmapped_inside)];

const PAGE: usize = 4096;

fn unreadable() {
    let bare = attack(&engine::with_victims(), Side::Bare, "unreadable", &[]);
    bare.assert(bare.out().contains("unmapped-mkdir EFAULT"), "the kernel's answer");
    if engine::gated_too() {
        let sandbox = engine::with_victims();
        let inside = attack(&sandbox, Side::Gated, "unreadable", &[]);
        inside.assert(inside.out() == bare.out(), &format!("the same answers as bare:\n{}", bare.out()));
        let created = sandbox.workspace().join("edge");
        assert!(created.is_dir(), "a name that ends with its page is read whole\n{inside}");
    }
}

/// `pages` readable pages and one without access behind them.
fn map(pages: usize) -> *mut u8 {
    // SAFETY: a fresh anonymous mapping.
    unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let base =
            libc::mmap(std::ptr::null_mut(), (pages + 1) * PAGE, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
        assert!(base != libc::MAP_FAILED);
        libc::mprotect(base.cast::<u8>().add(pages * PAGE).cast(), PAGE, libc::PROT_NONE);
        base.cast()
    }
}

/// The address of `bytes` placed so that they end with the readable pages.
fn at_edge(bytes: &[u8]) -> u64 {
    let pages = bytes.len().div_ceil(PAGE);
    let base = map(pages);
    // SAFETY: within the pages just mapped.
    unsafe {
        let start = base.add(pages * PAGE - bytes.len());
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), start, bytes.len());
        start as u64
    }
}

fn unreadable_inside(_: &[String]) {
    // SAFETY: the address of the page without access behind one page.
    let forbidden = unsafe { map(1).add(PAGE) } as u64;
    let unmapped = map(1) as u64;
    let _ = sys(libc::SYS_munmap, [unmapped, 2 * PAGE as u64]);
    let create = (libc::O_WRONLY | libc::O_CREAT) as u64;
    for (name, address) in
        [("unmapped", unmapped), ("forbidden", forbidden), ("null", 0), ("kernel", 0xffff_ffff_8000_0000)]
    {
        let calls: [(&str, Raw); 7] = [
            ("open", sys(libc::SYS_openat, [AT_FDCWD, address, create, 0o644])),
            ("mkdir", sys(libc::SYS_mkdir, [address, 0o755])),
            ("rename", sys(libc::SYS_rename, [raw::text("free").at(), address])),
            ("link", sys(libc::SYS_link, [address, raw::text("l").at()])),
            ("how", sys(libc::SYS_openat2, [AT_FDCWD, raw::text("free").at(), address, 24])),
            ("times", sys(libc::SYS_utimes, [address, 0])),
            ("xattr", sys(libc::SYS_setxattr, [raw::text("free").at(), address, address, 4, 0])),
        ];
        for (call, result) in calls {
            raw::say_result(&format!("{name}-{call}"), result);
        }
    }
    raw::say_result("edge", sys(libc::SYS_mkdir, [at_edge(b"edge\0"), 0o755]));
    raw::say_result("cut", sys(libc::SYS_mkdir, [at_edge(b"cut"), 0o755]));
    let long: Vec<u8> = b"./".repeat(2048);
    raw::say_result("too-long-and-cut", sys(libc::SYS_mkdir, [at_edge(&long), 0o755]));
    raw::say_result("cut-before-the-limit", sys(libc::SYS_mkdir, [at_edge(&long[..4000]), 0o755]));
    let tail: [u64; 4] = [create, 0o644, 0, 1];
    raw::say_result(
        "how-with-a-tail",
        sys(libc::SYS_openat2, [AT_FDCWD, raw::text("t").at(), tail.as_ptr() as u64, 32]),
    );
}

fn unmapped_meanwhile() {
    for side in engine::sides() {
        let sandbox = engine::with_victims();
        let before = snapshot::of(&sandbox.outside());
        let outcome = attack(&sandbox, *side, "unmapped", &[]);
        outcome.assert(snapshot::of(&sandbox.outside()) == before, "nothing outside changed");
        outcome.assert(outcome.number("strange") == 0, "every call made its directory or said EFAULT");
        outcome.assert(outcome.number("made") > 0 && outcome.number("fault") > 0, "both happened");
    }
}

fn unmapped_inside(_: &[String]) {
    let page = map(1);
    let stop = AtomicBool::new(false);
    let address = page as usize;
    let (mut made, mut fault, mut strange) = (0, 0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let fixed = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
            while !stop.load(Ordering::Relaxed) {
                // SAFETY: only the page that `map` made comes and goes; the name is written at once while it is there.
                unsafe {
                    libc::mmap(address as *mut _, PAGE, libc::PROT_READ | libc::PROT_WRITE, fixed, -1, 0);
                    (address as *mut u64).write_volatile(u64::from_ne_bytes(*b"blink\0\0\0"));
                    (0..500).for_each(|_| std::hint::spin_loop());
                    libc::munmap(address as *mut _, PAGE);
                }
            }
        });
        let start = Instant::now();
        // A loaded machine may not run the other thread for a while: go on until both were seen.
        while made == 0 || fault == 0 || start.elapsed() < Duration::from_millis(500) {
            if start.elapsed() > Duration::from_secs(20) {
                break;
            }
            match sys(libc::SYS_mkdir, [address as u64, 0o755]) {
                Ok(_) => {
                    made += 1;
                    let _ = raw::rmdir("blink");
                }
                Err(libc::EFAULT) => fault += 1,
                // The name was not written yet: an empty one.
                Err(libc::ENOENT) => {}
                Err(_) => strange += 1,
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    for (key, value) in [("made", made), ("fault", fault), ("strange", strange)] {
        raw::say(key, value);
    }
}
