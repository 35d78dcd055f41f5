//! Random programs. A seed and a number make the same program on every machine.

use super::operand::*;
use super::program::{Arg, Step, Word};
use super::random::Random;

/// The program of this number in the run of this seed.
pub fn program(seed: u64, number: u64) -> Vec<Step> {
    let mut random = Random::new(seed.wrapping_mul(0x1_0000_0001).wrapping_add(number));
    random.next();
    // With fifos about, no open may wait for a peer; without, blocking opens are the usual ones.
    let fifos = random.chance(15);
    let mut steps = Vec::new();
    let length = 6 + random.below(24);
    block(&mut random, fifos, length, 0, &mut steps);
    steps
}

fn block(random: &mut Random, fifos: bool, length: usize, depth: usize, steps: &mut Vec<Step>) {
    for _ in 0..length {
        if depth < 2 && random.chance(4) {
            steps.push(Step::Word(Word::Fork));
            let inner = 1 + random.below(5);
            block(random, fifos, inner, depth + 1, steps);
            steps.push(Step::Word(Word::End));
        } else {
            steps.push(step(random, fifos));
        }
    }
}

fn step(random: &mut Random, fifos: bool) -> Step {
    match random.below(100) {
        0..28 => open(random, fifos),
        28..40 => directory(random),
        40..56 => name(random),
        56..61 => node(random, fifos),
        61..68 => mode_step(random),
        68..74 => owner(random),
        74..80 => times(random),
        80..88 => xattr(random),
        88..91 => size(random),
        91..92 => inode_flags(random),
        _ => process(random),
    }
}

fn open(random: &mut Random, fifos: bool) -> Step {
    let flags = open_flags(random, fifos);
    let (path, register, bits) = (path(random), flags_register(random, flags), mode(random));
    match random.below(10) {
        0..3 => Step::call("open", vec![path, register, bits]),
        3..7 => Step::call("openat", vec![dirfd(random), path, register, bits]),
        7 if !fifos => Step::call("creat", vec![path, bits]),
        _ => {
            let (how, size) = open_how(random, fifos);
            Step::call("openat2", vec![dirfd(random), path, how, size])
        }
    }
}

fn directory(random: &mut Random) -> Step {
    let (at, path) = (dirfd(random), path(random));
    match random.below(6) {
        0 | 1 => Step::call("mkdir", vec![path, mode(random)]),
        2 => Step::call("mkdirat", vec![at, path, mode(random)]),
        3 => Step::call("rmdir", vec![path]),
        4 => Step::call("unlink", vec![path]),
        _ => Step::call("unlinkat", vec![at, path, Arg::from(random.pick(&[0, 0, 0x200, 0x200, 0x1000, 0x201, -1]))]),
    }
}

fn name(random: &mut Random) -> Step {
    let (from_at, from, to_at, to) = (dirfd(random), path(random), dirfd(random), path(random));
    match random.below(10) {
        0 | 1 => Step::call("rename", vec![from, to]),
        2 => Step::call("renameat", vec![from_at, from, to_at, to]),
        3 | 4 => {
            let flags = random.pick(&[0, 1, 1, 2, 2, 2, 3, 4, 5, 6, 8, -1]);
            Step::call("renameat2", vec![from_at, from, to_at, to, Arg::from(flags)])
        }
        5 => Step::call("link", vec![from, to]),
        6 | 7 => {
            let flags = random.pick(&[0, 0x400, 0x400, 0x400, 0x1000, 0x1400, 0x100, -1]);
            let from = if random.chance(15) { Arg::text("") } else { from };
            Step::call("linkat", vec![from_at, from, to_at, to, Arg::from(flags)])
        }
        8 => Step::call("symlink", vec![from, to]),
        _ => Step::call("symlinkat", vec![from, to_at, to]),
    }
}

fn node(random: &mut Random, fifos: bool) -> Step {
    let kind: u32 = match random.below(10) {
        0..4 if fifos => libc::S_IFIFO,
        4..6 => libc::S_IFSOCK,
        6..8 => libc::S_IFREG,
        8 => random.pick(&[libc::S_IFCHR, libc::S_IFBLK, libc::S_IFDIR, libc::S_IFLNK, 0o150000]),
        _ => 0,
    };
    let bits = random.pick(&[0o644, 0o666, 0o600, 0o7777]);
    let device = if random.chance(50) { 0 } else { random.pick(&[0x103, 0x501, -1]) };
    let (mode, device) = (Arg::from(i64::from(kind | bits)), Arg::from(device));
    match random.below(2) {
        0 => Step::call("mknod", vec![path(random), mode, device]),
        _ => Step::call("mknodat", vec![dirfd(random), path(random), mode, device]),
    }
}

/// The flags of the `*at` calls on metadata.
fn at_flags(random: &mut Random) -> Arg {
    Arg::from(random.pick(&[0, 0, 0, 0x100, 0x100, 0x1000, 0x1100, 0x400, 0x200, -1]))
}

fn path_or_empty(random: &mut Random) -> Arg {
    if random.chance(20) { Arg::text("") } else { path(random) }
}

fn mode_step(random: &mut Random) -> Step {
    match random.below(5) {
        0 | 1 => Step::call("chmod", vec![path(random), mode(random)]),
        2 => Step::call("fchmod", vec![fd(random), mode(random)]),
        3 => Step::call("fchmodat", vec![dirfd(random), path(random), mode(random)]),
        _ => Step::call("fchmodat2", vec![dirfd(random), path_or_empty(random), mode(random), at_flags(random)]),
    }
}

fn owner(random: &mut Random) -> Step {
    let (uid, gid) = (uid(random), gid(random));
    match random.below(5) {
        0 => Step::call("chown", vec![path(random), uid, gid]),
        1 => Step::call("lchown", vec![path(random), uid, gid]),
        2 => Step::call("fchown", vec![fd(random), uid, gid]),
        _ => Step::call("fchownat", vec![dirfd(random), path_or_empty(random), uid, gid, at_flags(random)]),
    }
}

fn times(random: &mut Random) -> Step {
    match random.below(8) {
        0 => {
            let times = Arg::Array(vec![Arg::from(1_000_001), Arg::from(random.pick(&[1_000_002, -1]))]);
            Step::call("utime", vec![path(random), random.pick(&[times, Arg::Null, Arg::Bad])])
        }
        1 => Step::call("utimes", vec![path(random), timevals(random)]),
        2 => {
            let target = if random.chance(25) { Arg::Null } else { path(random) };
            Step::call("futimesat", vec![dirfd(random), target, timevals(random)])
        }
        3 => Step::call("utimensat", vec![fd(random), Arg::Null, timespecs(random), at_flags(random)]),
        _ => Step::call("utimensat", vec![dirfd(random), path_or_empty(random), timespecs(random), at_flags(random)]),
    }
}

fn xattr(random: &mut Random) -> Step {
    let (name, (value, size)) = (xattr_name(random), xattr_value(random));
    let flags = Arg::from(random.pick(&[0, 0, 0, 1, 2, 3, 4, -1]));
    match random.below(9) {
        0 | 1 => Step::call("setxattr", vec![path(random), name, value, size, flags]),
        2 => Step::call("lsetxattr", vec![path(random), name, value, size, flags]),
        3 => Step::call("fsetxattr", vec![fd(random), name, value, size, flags]),
        4 => Step::call("removexattr", vec![path(random), name]),
        5 => Step::call("lremovexattr", vec![path(random), name]),
        6 => Step::call("fremovexattr", vec![fd(random), name]),
        7 => {
            // struct xattr_args: the value's address, its size (u32) and flags (u32).
            let (Arg::Number(size), Arg::Number(flags)) = (size, flags) else { unreachable!("both are numbers") };
            let both = (size & 0xffff_ffff) | (flags << 32);
            let args = Arg::Array(vec![value, Arg::Number(both), Arg::from(0)]);
            let length = random.pick(&[16, 16, 16, 24, 8, 0, 4097]);
            Step::call(
                "setxattrat",
                vec![dirfd(random), path_or_empty(random), at_flags(random), name, args, Arg::from(length)],
            )
        }
        _ => Step::call("removexattrat", vec![dirfd(random), path_or_empty(random), at_flags(random), name]),
    }
}

fn size(random: &mut Random) -> Step {
    if random.chance(60) {
        Step::call("truncate", vec![path(random), length(random)])
    } else {
        Step::call("ftruncate", vec![fd(random), length(random)])
    }
}

fn inode_flags(random: &mut Random) -> Step {
    // FS_NODUMP_FL and FS_NOATIME_FL may be set by the owner, FS_IMMUTABLE_FL and FS_APPEND_FL only with a capability.
    // FS_EXTENT_FL (0x80000) stays: whether ext4 can clear it depends on what has been written back.
    let flags = Arg::Array(vec![Arg::from(0x80000 | random.pick(&[0, 0x40, 0x80, 0xc0, 0x10, 0x20]))]);
    const FS_IOC_SETFLAGS: u64 = 0x4008_6602;
    const FS_IOC_FSSETXATTR: u64 = 0x401c_5820;
    match random.below(3) {
        0 => Step::call(
            "ioctl",
            vec![fd(random), Arg::Number(FS_IOC_SETFLAGS), random.pick(&[flags, Arg::Null, Arg::Bad])],
        ),
        1 => {
            // struct fsxattr, 28 bytes: fsx_xflags first; 0x80 is FS_XFLAG_NODUMP, 0x40 FS_XFLAG_NOATIME.
            let words = Arg::Array(vec![
                Arg::from(random.pick(&[0, 0x80, 0x40, 0x8])),
                Arg::from(0),
                Arg::from(0),
                Arg::from(0),
            ]);
            Step::call("ioctl", vec![fd(random), Arg::Number(FS_IOC_FSSETXATTR), words])
        }
        _ => {
            // struct file_attr: fa_xflags (u64), then four u32.
            let words = Arg::Array(vec![
                Arg::from(random.pick(&[0, 0x80, 0x40, 0x8])),
                Arg::from(0),
                Arg::from(0),
                Arg::from(0),
            ]);
            let size = Arg::from(random.pick(&[24, 24, 24, 32, 16, 0]));
            Step::call("file_setattr", vec![dirfd(random), path_or_empty(random), words, size, at_flags(random)])
        }
    }
}

/// What changes nothing by itself but decides what the next steps mean.
fn process(random: &mut Random) -> Step {
    match random.below(11) {
        0 | 1 => Step::call(
            "chdir",
            vec![Arg::text(random.pick(&["d", "d/e", "empty", "..", "sgid", "acl", "ld", "x", "f", "n1", "{W}"]))],
        ),
        2 => Step::call("fchdir", vec![fd(random)]),
        3 => Step::call("umask", vec![Arg::from(random.pick(&[0, 0o022, 0o077, 0o777, 0o027, 0o007]))]),
        4 => Step::call("dup", vec![fd(random)]),
        5 | 6 => Step::call("close", vec![Arg::from(random.pick(&[3, 4, 5, 6]))]),
        7 => Step::call("write", vec![Arg::from(random.pick(&[3, 4, 5])), Arg::text("written"), Arg::from(7)]),
        8 => Step::Word(Word::Fstat(random.pick(&[3, 4, 5]))),
        9 => Step::Word(Word::Content(random.pick(&[3, 4, 5]))),
        _ => match random.below(3) {
            0 => Step::call("pipe2", vec![Arg::Array(vec![Arg::from(0)]), Arg::from(libc::O_NONBLOCK as i64)]),
            1 => Step::call("memfd_create", vec![Arg::text("m"), Arg::from(0)]),
            _ => Step::call(
                "open",
                vec![
                    Arg::text(random.pick(&["d", "d/e", ".", "sgid", "f", "ro"])),
                    Arg::from(random.pick(&[0, 0o200000, 0o10000000])),
                ],
            ),
        },
    }
}
