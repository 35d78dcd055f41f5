//! Attacks 10 and 11: system calls through other doors (x32, `int 0x80`), and registers with garbage in the upper half.

use crate::engine::{self, Family, attack};
use crate::raw::{self, AT_FDCWD, Raw, outside, sys, text};
use crate::support::Side;
use crate::{Inside, Test};

pub const TESTS: &[Test] = &[
    #[cfg(target_arch = "x86_64")]
    ("the_32_bit_door_is_shut", || other_door("int80")),
    #[cfg(target_arch = "x86_64")]
    ("the_x32_door_is_shut", || other_door("x32")),
    ("garbage_in_the_upper_half_of_registers_changes_no_verdict", || engine::run_family(&WIDE_REGISTERS)),
];

pub const INSIDE: &[Inside] = &[
    #[cfg(target_arch = "x86_64")]
    ("int80", int80_inside),
    #[cfg(target_arch = "x86_64")]
    ("x32", x32_inside),
];

const GARBAGE: u64 = 0xdead_beef_0000_0000;

pub const WIDE_REGISTERS: Family = Family {
    name: "wide-registers",
    prepare: engine::with_victims,
    guarded: engine::outside_and_home,
    variants: &[
        ("openat-flags", || openat(AT_FDCWD, GARBAGE | (libc::O_WRONLY | libc::O_CREAT) as u64, 0o644)),
        ("openat-dirfd", || openat(GARBAGE | 0xffff_ff9c, (libc::O_WRONLY | libc::O_CREAT) as u64, 0o644)),
        ("openat-mode", || openat(AT_FDCWD, (libc::O_WRONLY | libc::O_CREAT) as u64, GARBAGE | 0o644)),
        ("open-flags", || {
            sys(libc::SYS_open, [text(outside("new")).at(), GARBAGE | (libc::O_RDWR | libc::O_CREAT) as u64, 0o644])
        }),
        ("open-truncates-only", || {
            sys(libc::SYS_open, [text(outside("victim")).at(), GARBAGE | libc::O_TRUNC as u64, 0])
        }),
        ("mkdir-mode", || sys(libc::SYS_mkdir, [text(outside("new")).at(), GARBAGE | 0o755])),
        ("unlinkat-flags", || sys(libc::SYS_unlinkat, [AT_FDCWD, text(outside("victim")).at(), GARBAGE])),
        ("renameat2-flags", || {
            let (from, to) = (text(outside("victim")), text(outside("moved")));
            sys(libc::SYS_renameat2, [GARBAGE | 0xffff_ff9c, from.at(), GARBAGE | 0xffff_ff9c, to.at(), GARBAGE])
        }),
        ("fchmod-fd", || {
            let fd = raw::open(&outside("victim"), libc::O_RDONLY)?;
            sys(libc::SYS_fchmod, [GARBAGE | fd as u64, 0o604])
        }),
        ("ioctl-command", || {
            let fd = raw::open(&outside("victim"), libc::O_RDONLY)?;
            let flags: u64 = 0x80040;
            sys(libc::SYS_ioctl, [GARBAGE | fd as u64, GARBAGE | 0x4008_6602, (&raw const flags) as u64])
        }),
        ("ioctl-project", || {
            let fd = raw::open(&outside("victim"), libc::O_RDONLY)?;
            let attributes: [u64; 4] = [0x80, 0, 0, 0];
            sys(libc::SYS_ioctl, [fd as u64, GARBAGE | 0x401c_5820, attributes.as_ptr() as u64])
        }),
    ],
};

fn openat(dirfd: u64, flags: u64, mode: u64) -> Raw {
    sys(libc::SYS_openat, [dirfd, text(outside("new")).at(), flags, mode])
}

#[cfg(target_arch = "x86_64")]
fn other_door(name: &str) {
    for side in engine::sides() {
        let sandbox = engine::with_victims();
        let outcome = attack(&sandbox, *side, name, &[]);
        let made = sandbox.outside().join("made").exists() || sandbox.workspace().join("made").exists();
        match side {
            Side::Bare if name == "int80" => outcome.assert(made, "the attack works bare"),
            // A kernel may have no x32; what it has must not be reachable inside.
            Side::Bare => {}
            Side::Gated => outcome.assert(!made, "the other door is shut, in the workspace too"),
        }
    }
}

/// mkdir(2) by the i386 table, in a child: being killed is an answer too.
#[cfg(target_arch = "x86_64")]
fn int80_inside(_: &[String]) {
    const I386_MKDIR: u32 = 39;
    for path in [outside("made"), "made".to_owned()] {
        let low = low_copy(path.as_bytes());
        let child = raw::fork(|| {
            let mut result = I386_MKDIR;
            // SAFETY: the i386 convention; rbx is kept by hand, and the kernel clobbers r8 to r11 for 64-bit callers.
            unsafe {
                std::arch::asm!(
                    "xchg rbx, {path:r}", "int 0x80", "xchg rbx, {path:r}",
                    path = inout(reg) u64::from(low) => _, inout("eax") result, in("ecx") 0o755,
                    out("r8") _, out("r9") _, out("r10") _, out("r11") _,
                );
            }
            i32::from(result != 0)
        });
        raw::say("ended", raw::wait_for(child));
    }
}

/// A NUL-terminated copy below 4 GiB.
#[cfg(target_arch = "x86_64")]
fn low_copy(bytes: &[u8]) -> u32 {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_32BIT;
    // SAFETY: a fresh page, larger than any path of these tests, and zeroed behind the copy.
    unsafe {
        let page = libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
        assert!(page != libc::MAP_FAILED && bytes.len() < 4096);
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), page.cast(), bytes.len());
        page as usize as u32
    }
}

#[cfg(target_arch = "x86_64")]
fn x32_inside(_: &[String]) {
    const X32: i64 = 0x4000_0000;
    for path in [outside("made"), "made".to_owned()] {
        let child = raw::fork(|| i32::from(sys(X32 | libc::SYS_mkdir, [text(path.as_str()).at(), 0o755]).is_err()));
        raw::say("ended", raw::wait_for(child));
    }
}
