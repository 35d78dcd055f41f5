//! Random operands: paths, descriptors, flags, modes, times, attributes. Mostly sound, sometimes as odd as the kernel allows.

use super::program::{Arg, Place};
use super::random::Random;

const NAMES: &[&str] = &[
    "f",
    "f",
    "hl",
    "d",
    "d/g",
    "d/e",
    "d/e/h",
    "empty",
    "ro",
    "ro/r",
    "ro/new",
    "x",
    "x/y",
    "x/new",
    "sgid",
    "sticky",
    "acl",
    "f0444",
    "f0000",
    "lf",
    "ld",
    "labs",
    "ldang",
    "lloop",
    "d/up",
    "n1",
    "n2",
    "n3",
    "n1/n2",
    "n2/n1",
    "d/n1",
    "d/n2",
    "sgid/n1",
    "sticky/n1",
    "acl/n1",
    "acl/n2",
    "ld/g",
    "ld/n1",
    "d/up/h",
    "f/x",
    "missing/x",
    "lloop/x",
    "ldang/x",
    "lf/x",
    "empty/n1",
    "d/e/n1",
];

const ODD: &[&str] = &[
    "",
    ".",
    "..",
    "/",
    "./",
    "d/.",
    "d/..",
    "d/../f",
    "d/e/../../f",
    "d/e/..",
    "//",
    "f/",
    "d/",
    "d//g",
    "d///",
    "lf/",
    "ld/",
    "ld/.",
    "ldang/",
    "lloop/",
    "n1/",
    "n2//",
    "n3/.",
    "empty/.",
    "empty/..",
    "f/.",
    "f/..",
    "ld/..",
    "./f",
    "././n1",
    "d/e/",
    "empty/",
    "{W}",
    "{W}/f",
    "{W}/n1",
    "{W}/d/../n2",
    "//{W}//f",
    "{F}/f644",
    "{F}/f666",
    "{F}/open/n1",
    "{F}/open/f644",
    "{F}/sticky/f666",
    "{F}/sticky/n1",
    "{F}/locked/f666",
    "{F}/new",
    "{F}/c38",
    "{F}/c39",
    "{F}/c40",
    "{F}/c41",
    "{F}/c44",
    "{F}/group",
    "{F}/sgid/n1",
    "{F}/open",
    "/proc/self/cwd/f",
    "/proc/self/cwd/n1",
    "/proc/self/cwd",
    "/proc/self/cwd/../n2",
    "/proc/thread-self/cwd/f",
    "/proc/self/root{W}/n1",
    "/proc/self/fd/3",
    "/proc/self/fd/4",
    "/proc/self/fd/5",
    "/proc/self/fd/3/n1",
    "/proc/self/fd/4/g",
    "/proc/self/fd/99",
    "/proc/thread-self/fd/3",
    "/dev/fd/3",
    "/dev/fd/4",
    "/dev/fd/3/n2",
    "/dev/fd/99",
    "/dev/null",
    "/dev/zero",
    "/dev/null/x",
    "/proc",
    "/proc/self",
    "/nowhere/x",
    "/usr/bin/env",
    "/etc/passwd",
    "n\\xff",
    "d/\u{fe}x",
    "sp ace",
    "-rf",
];

pub fn path(random: &mut Random) -> Arg {
    match random.below(100) {
        0..64 => Arg::text(random.pick(NAMES)),
        64..90 => Arg::text(random.pick(ODD)),
        90 => Arg::Null,
        91 => Arg::Bad,
        92 => Arg::High,
        93 => Arg::Text { bytes: random.pick(NAMES).as_bytes().to_vec(), times: 1, place: Place::Edge },
        94 => Arg::Text { bytes: random.pick(NAMES).as_bytes().to_vec(), times: 1, place: Place::Cut },
        95 => Arg::Text { bytes: b"n".to_vec(), times: 254 + random.below(3), place: Place::Heap },
        96 => Arg::Text { bytes: b"./".to_vec(), times: 2046 + random.below(4), place: Place::Heap },
        97 => Arg::Text {
            bytes: b"d/../".to_vec(),
            times: 810 + random.below(20),
            place: random.pick(&[Place::Heap, Place::Edge, Place::Cut]),
        },
        98 => Arg::Text { bytes: vec![0xff, 0x80, b'n', 0xc3], times: 1, place: Place::Heap },
        _ => Arg::Text { bytes: b"a\nb\x1b[2J".to_vec(), times: 1, place: Place::Heap },
    }
}

/// Garbage in the upper half of the register, sometimes.
fn dirty(random: &mut Random, low: u32) -> Arg {
    if random.chance(8) {
        return Arg::Number(u64::from(low) | (random.next() << 32));
    }
    Arg::Number(low as i32 as i64 as u64)
}

pub fn fd(random: &mut Random) -> Arg {
    let fd = random.pick(&[3, 3, 3, 4, 4, 5, 5, 6, 7, 8, 99, -1, -100]);
    dirty(random, fd as u32)
}

pub fn dirfd(random: &mut Random) -> Arg {
    let fd = random.pick(&[-100, -100, -100, -100, -100, -100, 3, 3, 4, 4, 5, 6, 99, -1]);
    dirty(random, fd as u32)
}

pub fn mode(random: &mut Random) -> Arg {
    let usual: u32 = random.pick(&[0o644, 0o755, 0o600, 0o777, 0o666, 0o000, 0o2755, 0o1777, 0o4755, 0o7777, 0o111]);
    let mode = if random.chance(10) { random.next() as u32 } else { usual };
    dirty(random, mode)
}

pub fn uid(random: &mut Random) -> Arg {
    Arg::from(random.pick(&[-1, -1, 60777, 60777, 0, 1000, 60778]))
}

pub fn gid(random: &mut Random) -> Arg {
    Arg::from(random.pick(&[-1, -1, 60777, 60778, 60778, 0, 1000]))
}

pub fn length(random: &mut Random) -> Arg {
    Arg::from(random.pick(&[0, 1, 5, 12, 4096, 1 << 20, -1, i64::MIN, i64::MAX]))
}

/// The bits of open(2), at random; `nonblock` where a fifo could be met, so that no open waits for a peer.
pub fn open_flags(random: &mut Random, nonblock: bool) -> u64 {
    let mut flags = random.pick(&[0, 1, 1, 2, 2, 2, 3]) as u64;
    let bits: &[(i32, usize)] = &[
        (libc::O_CREAT, 45),
        (libc::O_EXCL, 12),
        (libc::O_TRUNC, 18),
        (libc::O_APPEND, 12),
        (libc::O_NONBLOCK, 10),
        (libc::O_NOFOLLOW, 12),
        (libc::O_DIRECTORY, 10),
        (libc::O_CLOEXEC, 30),
        (libc::O_NOCTTY, 5),
        (libc::O_SYNC, 4),
        (libc::O_DSYNC, 4),
        (libc::O_DIRECT, 3),
        (libc::O_NOATIME, 4),
        (libc::O_ASYNC, 3),
        (libc::O_PATH, 6),
        (libc::O_TMPFILE, 5),
        (libc::O_TMPFILE & !libc::O_DIRECTORY, 2),
        (0o100000, 4),
        (1 << 23, 2),
        (1 << 26, 2),
        (1 << 30, 2),
    ];
    for (bit, percent) in bits {
        if random.chance(*percent) {
            flags |= *bit as u32 as u64;
        }
    }
    if nonblock { flags | libc::O_NONBLOCK as u64 } else { flags }
}

pub fn flags_register(random: &mut Random, flags: u64) -> Arg {
    dirty(random, flags as u32)
}

/// `open_how` of openat2(2) and the size that is given for it.
pub fn open_how(random: &mut Random, nonblock: bool) -> (Arg, Arg) {
    let mut flags = open_flags(random, nonblock);
    if random.chance(70) {
        flags &= !((1 << 23) | (1 << 26) | (1 << 30));
    }
    if random.chance(3) {
        flags |= 1 << 40;
    }
    let creates = flags & (libc::O_CREAT as u64) != 0 || flags & libc::O_TMPFILE as u64 == libc::O_TMPFILE as u64;
    let mode = if creates != random.chance(8) { random.pick(&[0o644u64, 0o600, 0o755, 0o7777, 0o100644]) } else { 0 };
    let mut resolve = 0u64;
    for bit in [1, 2, 4, 8, 0x10, 0x20, 0x40] {
        if random.chance(if bit == 0x20 || bit == 0x40 { 4 } else { 14 }) {
            resolve |= bit;
        }
    }
    // What is in the kernel's cache is not the program's to know, so RESOLVE_CACHED stands only where it is always EAGAIN.
    if flags & (libc::O_CREAT | libc::O_TRUNC | (libc::O_TMPFILE & !libc::O_DIRECTORY)) as u64 == 0 {
        resolve &= !libc::RESOLVE_CACHED;
    }
    let mut how = vec![Arg::Number(flags), Arg::Number(mode), Arg::Number(resolve)];
    let size = match random.below(20) {
        0 => random.pick(&[0, 8, 16, 23, 4097, 1 << 40]),
        1 => 32,
        2 => {
            how.push(Arg::Number(random.pick(&[0, 1])));
            32
        }
        _ => 24,
    };
    while size == 32 && how.len() < 4 {
        how.push(Arg::Number(0));
    }
    let pointer = if random.chance(3) { random.pick(&[Arg::Null, Arg::Bad, Arg::High]) } else { Arg::Array(how) };
    (pointer, Arg::Number(size))
}

/// A pair of `timespec` for utimensat(2).
pub fn timespecs(random: &mut Random) -> Arg {
    if random.chance(12) {
        return random.pick(&[Arg::Null, Arg::Null, Arg::Bad]);
    }
    let mut words = Vec::new();
    for _ in 0..2 {
        words.push(Arg::from(random.pick(&[1_000_000i64, 1_234_567_890, 0, -5])));
        words.push(Arg::from(random.pick(&[0i64, 5, 999_999_999, 0x3fff_ffff, 0x3fff_fffe, 1_000_000_000, -1])));
    }
    Arg::Array(words)
}

/// A pair of `timeval` for utimes(2) and futimesat(2).
pub fn timevals(random: &mut Random) -> Arg {
    if random.chance(12) {
        return random.pick(&[Arg::Null, Arg::Null, Arg::Bad]);
    }
    let mut word = |from: &[i64]| Arg::from(random.pick(from));
    Arg::Array(vec![
        word(&[1_000_000, 0]),
        word(&[0, 7, 999_999, 1_000_000, -1]),
        word(&[1_111_111, -3]),
        word(&[0, 7, 999_999]),
    ])
}

pub fn xattr_name(random: &mut Random) -> Arg {
    let name = random.pick(&[
        "user.a",
        "user.a",
        "user.b",
        "user.",
        "a",
        "",
        "trusted.a",
        "security.a",
        "system.x",
        "system.posix_acl_access",
        "btrfs.x",
    ]);
    match random.below(20) {
        0 => Arg::Text { bytes: b"user.".iter().chain(&[b'n'; 251]).copied().collect(), times: 1, place: Place::Heap },
        1 => random.pick(&[Arg::Null, Arg::Bad]),
        2 => Arg::Text { bytes: name.as_bytes().to_vec(), times: 1, place: Place::Edge },
        _ => Arg::text(name),
    }
}

/// A value and its size.
pub fn xattr_value(random: &mut Random) -> (Arg, Arg) {
    match random.below(12) {
        0 => (Arg::Null, Arg::from(0)),
        1 => (Arg::Bad, Arg::from(4)),
        2 => (
            Arg::Text { bytes: b"v".to_vec(), times: 70_000, place: Place::Heap },
            Arg::from(random.pick(&[65_536, 65_537, 5_000])),
        ),
        3 => (Arg::Text { bytes: b"edge".to_vec(), times: 1, place: Place::Cut }, Arg::from(random.pick(&[4, 5]))),
        _ => (Arg::text(random.pick(&["value", "other value", ""])), Arg::from(random.pick(&[0, 1, 4]))),
    }
}
