//! The compiled filter against the table of system calls, for every number and the corners of the arguments, in an
//! interpreter; and what must hold whatever the table says, written down a second time by hand.

#[path = "support/bpf.rs"]
mod bpf;

use std::sync::LazyLock;

use bpf::{Data, Fault, Outcome, run};
use gated::tool::filter::{Filter, compile};
use gated::tool::syscalls::{Action, Arch, Class, Feature, Features, NEWEST, class_of};
use proptest::prelude::*;
use seccompiler::sock_filter;

const ALLOW: u32 = 0x7fff_0000;
const NOTIFY: u32 = 0x7fc0_0000;
const ERRNO: u32 = 0x0005_0000;
const KILL_PROCESS: u32 = 0x8000_0000;
const NO_SUCH_CALL: u32 = ERRNO | 38;

fn filter(arch: Arch, features: Features) -> Filter {
    compile(arch, features).expect("the table compiles")
}

/// Every filter that there is.
fn everywhere() -> impl Iterator<Item = (Arch, Features)> {
    Arch::ALL.into_iter().flat_map(|arch| Features::ALL.map(|features| (arch, features)))
}

fn decide(filter: &Filter, arch: Arch, number: u32, arguments: [u64; 6]) -> Outcome {
    let data = Data { number, architecture: arch.audit(), instruction_pointer: 0x7fff_dead_beef, arguments };
    run(filter.program(), &data).unwrap_or_else(|fault| panic!("{arch:?} {number} {arguments:x?}: {fault:?}"))
}

/// What the table says, read without the compiler.
fn expected(class: Option<&Class>, features: Features, arguments: [u64; 6]) -> u32 {
    let Some(class) = class else { return NO_SUCH_CALL };
    let holds = class
        .cases
        .iter()
        .find(|case| case.when.iter().all(|test| arguments[usize::from(test.argument)] & test.mask == test.value));
    match holds.map_or(class.otherwise, |case| case.then) {
        Action::By(Feature::JudgedPrograms) if features.judged_programs => NOTIFY,
        Action::By(Feature::JudgedPrograms) => ALLOW,
        Action::By(Feature::Debugging) if features.debugging => ALLOW,
        Action::By(Feature::Debugging) => ERRNO | 1,
        Action::By(Feature::OwnNetwork | Feature::OwnFastOpen) if features.own_network => NOTIFY,
        Action::By(Feature::OwnDatagrams) if features.own_network => ERRNO | 93,
        Action::By(Feature::OwnNetwork | Feature::OwnDatagrams) => ALLOW,
        Action::By(Feature::OwnFastOpen) => ERRNO | 95,
        Action::Native => ALLOW,
        Action::Trapped => NOTIFY,
        Action::Refused(errno) => ERRNO | errno.raw() as u32,
        Action::WithoutEffect => ERRNO,
    }
}

/// Arguments on both sides of every test of a class: each case met with all other bits clear and set, then each bit of
/// every argument turned, in the lower and the upper half.
fn corners(class: Option<&Class>) -> Vec<[u64; 6]> {
    let mut bases = vec![[0; 6], [u64::MAX; 6], [0xffff_ffff_0000_0000; 6], [0x5555_5555_5555_5555; 6]];
    for case in class.map_or(&[][..], |class| class.cases) {
        for fill in [0u64, u64::MAX, 0xffff_ffff_0000_0000, 0x0000_0000_ffff_ffff] {
            let mut arguments = [fill; 6];
            for test in case.when {
                let argument = &mut arguments[usize::from(test.argument)];
                *argument = *argument & !test.mask | test.value;
            }
            bases.push(arguments);
        }
    }
    let turned = |base: &[u64; 6], argument: usize, bit: u32| {
        let mut arguments = *base;
        arguments[argument] ^= 1 << bit;
        arguments
    };
    let flips = bases.iter().flat_map(|base| (0..6 * 64).map(move |flip| turned(base, flip / 64, flip as u32 % 64)));
    flips.chain(bases.iter().copied()).collect()
}

#[test]
fn every_number_gets_what_the_table_says() {
    for (arch, features) in everywhere() {
        let filter = filter(arch, features);
        for number in 0..=600 {
            let class = arch.name(number).and_then(class_of);
            for arguments in corners(class) {
                let outcome = decide(&filter, arch, number, arguments);
                let want = expected(class, features, arguments);
                assert_eq!(outcome.value, want, "{arch:?} {number} {:?} {arguments:x?}", arch.name(number));
            }
        }
    }
}

#[test]
fn x32_and_unreviewed_numbers_do_not_exist() {
    let filter = filter(Arch::X86_64, Features::default());
    let unknown = (0..=600).map(|number| number | 0x4000_0000).chain((NEWEST + 1)..5000).chain([
        0x7fff_ffff,
        0x8000_0000,
        0xc000_0000,
        u32::MAX,
    ]);
    for number in unknown {
        for arguments in [[0; 6], [u64::MAX; 6]] {
            assert_eq!(decide(&filter, Arch::X86_64, number, arguments).value, NO_SUCH_CALL, "{number:#x}");
        }
    }
}

#[test]
fn a_call_of_another_architecture_ends_the_process() {
    // i386, x32 has that of x86-64, arm, big-endian aarch64, riscv64, and the two of the project for each other.
    let foreign = [0x4000_0003, 0x4000_0028, 0x8000_00b7, 0xc000_00f3, 0, u32::MAX];
    for (arch, features) in everywhere() {
        let filter = filter(arch, features);
        let others = Arch::ALL.into_iter().filter(|other| *other != arch).map(Arch::audit);
        for architecture in others.chain(foreign) {
            for number in (0..=600).chain([u32::MAX]) {
                let data = Data { number, architecture, instruction_pointer: 0, arguments: [0; 6] };
                assert_eq!(run(filter.program(), &data).map(|outcome| outcome.value), Ok(KILL_PROCESS));
            }
        }
    }
}

#[test]
fn the_number_alone_decides_what_is_always_native() {
    // Or the kernel would run the program for every read(2) instead of looking into its bitmap.
    for (arch, features) in everywhere() {
        let filter = filter(arch, features);
        for (name, number) in arch.numbers() {
            let class = class_of(name).expect("every name has a class");
            if class.cases.is_empty() {
                assert!(!decide(&filter, arch, *number, [0; 6]).looked_at_arguments, "{name}");
            }
        }
    }
}

#[test]
fn no_call_is_looked_for_in_a_long_chain() {
    // Bisection of 470 numbers takes 9 comparisons and at most as many long jumps; the rest are tests of arguments.
    for (arch, features) in everywhere() {
        let filter = filter(arch, features);
        for (name, number) in arch.numbers() {
            let cases = class_of(name).map_or(0, |class| class.cases.iter().map(|case| 3 + 3 * case.when.len()).sum());
            let instructions = decide(&filter, arch, *number, [u64::MAX; 6]).instructions;
            assert!(instructions <= 5 + 2 * 9 + cases, "{name}: {instructions}");
        }
    }
}

static FILTERS: LazyLock<Vec<(Arch, Features, Filter)>> =
    LazyLock::new(|| everywhere().map(|(arch, features)| (arch, features, filter(arch, features))).collect());

proptest! {
    #[test]
    fn random_calls_get_what_the_table_says(number in 0u32..=600, arguments in any::<[u64; 6]>(), small in any::<[u8; 6]>()) {
        let small = small.map(u64::from);
        for (arch, features, filter) in FILTERS.iter() {
            let (arch, features) = (*arch, *features);
            let class = arch.name(number).and_then(class_of);
            for arguments in [arguments, small] {
                prop_assert_eq!(decide(filter, arch, number, arguments).value, expected(class, features, arguments));
            }
        }
    }
}

/// A second opinion, by hand: a call, its arguments (with garbage above 32 bits added), what must come of it.
#[test]
fn what_must_hold_whatever_the_table_says() {
    const O: fn(i32) -> u64 = |flags| flags as u32 as u64;
    let refused = |errno: i32| ERRNO | errno as u32;
    let open = |flags: i32| ("openat", [0, 0, O(flags), 0, 0, 0]);
    let ioctl = |command: u64| ("ioctl", [0, command, 0, 0, 0, 0]);
    let socket = |family: i32, kind: i32, protocol: i32| ("socket", [O(family), O(kind), O(protocol), 0, 0, 0]);
    let always = |name| (name, [0; 6]);
    use libc::*;
    let cases: Vec<((&str, [u64; 6]), u32)> = vec![
        (open(O_RDONLY), ALLOW),
        (open(O_RDONLY | O_CLOEXEC | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_NOATIME), ALLOW),
        (open(O_PATH), ALLOW),
        (open(O_PATH | O_RDWR), ALLOW),
        (open(O_WRONLY), NOTIFY),
        (open(O_RDWR), NOTIFY),
        (open(O_ACCMODE), NOTIFY),
        (open(O_RDONLY | O_CREAT), NOTIFY),
        (open(O_RDONLY | O_TRUNC), NOTIFY),
        (open(O_TMPFILE | O_WRONLY), NOTIFY),
        (open(O_WRONLY | O_APPEND), NOTIFY),
        (("open", [0, O(O_RDONLY), 0, 0, 0, 0]), ALLOW),
        (("open", [0, O(O_RDWR | O_CREAT), 0, 0, 0, 0]), NOTIFY),
        (always("openat2"), NOTIFY),
        (always("creat"), NOTIFY),
        (always("renameat2"), NOTIFY),
        (always("fchmod"), NOTIFY),
        (always("fchmodat2"), NOTIFY),
        (always("setxattrat"), NOTIFY),
        (always("removexattrat"), NOTIFY),
        (always("file_setattr"), NOTIFY),
        (always("utimensat"), NOTIFY),
        (always("truncate"), NOTIFY),
        (always("ftruncate"), ALLOW),
        (always("write"), ALLOW),
        (always("close"), ALLOW),
        (always("fork"), ALLOW),
        (always("file_getattr"), ALLOW),
        (ioctl(0x8008_6601), ALLOW),
        (ioctl(0x4008_6602), NOTIFY),
        (ioctl(0x801c_581f), ALLOW),
        (ioctl(0x401c_5820), NOTIFY),
        (ioctl(TCGETS), ALLOW),
        (ioctl(TIOCGWINSZ), ALLOW),
        (ioctl(TIOCSCTTY), ALLOW),
        (ioctl(FIONREAD), ALLOW),
        (ioctl(FIOCLEX), ALLOW),
        (ioctl(TIOCSTI), refused(EPERM)),
        (ioctl(TIOCLINUX), refused(EPERM)),
        (ioctl(TIOCSETD), refused(EPERM)),
        (ioctl(0x4b46), refused(ENOTTY)),
        (ioctl(0x800c_6613), refused(ENOTTY)),
        (ioctl(0x4080_6685), refused(ENOTTY)),
        (ioctl(0xc004_5877), refused(ENOTTY)),
        (ioctl(0x5000_940e), refused(ENOTTY)),
        (ioctl(0x4004_9409), ALLOW),
        (ioctl(0xaa00), refused(EPERM)),
        (("clone", [O(SIGCHLD), 0, 0, 0, 0, 0]), ALLOW),
        (("clone", [O(CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD), 0, 0, 0, 0, 0]), ALLOW),
        (("clone", [O(CLONE_NEWUSER | SIGCHLD), 0, 0, 0, 0, 0]), refused(EPERM)),
        (("clone", [O(CLONE_NEWNET), 0, 0, 0, 0, 0]), refused(EPERM)),
        (always("clone3"), NO_SUCH_CALL),
        (("unshare", [O(CLONE_FS | CLONE_FILES), 0, 0, 0, 0, 0]), ALLOW),
        (("unshare", [O(CLONE_NEWNS), 0, 0, 0, 0, 0]), refused(EPERM)),
        (("unshare", [O(0x80), 0, 0, 0, 0, 0]), refused(EPERM)),
        (always("setns"), refused(EPERM)),
        (always("mount"), refused(EPERM)),
        (always("open_tree_attr"), refused(EPERM)),
        (always("chroot"), refused(EPERM)),
        (always("pidfd_getfd"), refused(EPERM)),
        (always("open_by_handle_at"), refused(EPERM)),
        (always("bpf"), refused(EPERM)),
        (always("userfaultfd"), refused(EPERM)),
        (always("perf_event_open"), refused(EPERM)),
        (always("io_uring_setup"), NO_SUCH_CALL),
        (always("io_uring_enter"), NO_SUCH_CALL),
        (always("io_uring_register"), NO_SUCH_CALL),
        (always("keyctl"), NO_SUCH_CALL),
        (always("landlock_restrict_self"), refused(EOPNOTSUPP)),
        (socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), ALLOW),
        (socket(AF_INET6, SOCK_DGRAM, 0), ALLOW),
        (socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 0), ALLOW),
        (socket(AF_NETLINK, SOCK_RAW, 16), refused(EPROTONOSUPPORT)),
        (socket(AF_INET, SOCK_STREAM, 262), refused(EPROTONOSUPPORT)),
        (socket(AF_INET, SOCK_STREAM, 256), refused(EPROTONOSUPPORT)),
        (socket(AF_INET6, SOCK_STREAM, 132), refused(EPROTONOSUPPORT)),
        (socket(AF_INET, SOCK_SEQPACKET, 0), refused(EPROTONOSUPPORT)),
        (socket(AF_INET, 6, 0), refused(EPROTONOSUPPORT)),
        (socket(AF_INET, SOCK_RAW, 1), refused(EPERM)),
        (socket(AF_INET6, SOCK_RAW | SOCK_CLOEXEC, 58), refused(EPERM)),
        (socket(AF_ALG, SOCK_SEQPACKET, 0), refused(EAFNOSUPPORT)),
        (socket(AF_VSOCK, SOCK_STREAM, 0), refused(EAFNOSUPPORT)),
        (socket(AF_PACKET, SOCK_RAW, 0), refused(EAFNOSUPPORT)),
        (("sendmsg", [0; 6]), ALLOW),
        (("sendmmsg", [0, 0, 0, O(MSG_FASTOPEN), 0, 0]), refused(EOPNOTSUPP)),
        (("prctl", [O(PR_SET_DUMPABLE), 0, 0, 0, 0, 0]), ERRNO),
        (("prctl", [O(PR_SET_DUMPABLE), 1, 0, 0, 0, 0]), ALLOW),
        (("prctl", [O(PR_SET_MM), 0, 0, 0, 0, 0]), refused(EPERM)),
        (("prctl", [O(PR_SET_NAME), 0, 0, 0, 0, 0]), ALLOW),
        (("seccomp", [1, 0, 0, 0, 0, 0]), ALLOW),
        (("seccomp", [1, 8, 0, 0, 0, 0]), refused(EBUSY)),
        (("seccomp", [1, 0x28, 0, 0, 0, 0]), refused(EBUSY)),
        (("personality", [0xffff_ffff, 0, 0, 0, 0, 0]), ALLOW),
        (("personality", [0, 0, 0, 0, 0, 0]), ALLOW),
        (("personality", [0x0040_0000, 0, 0, 0, 0, 0]), refused(EPERM)),
    ];
    let of_session = |features: Features| {
        let debugger = if features.debugging { ALLOW } else { refused(EPERM) };
        let program = if features.judged_programs { NOTIFY } else { ALLOW };
        let debuggers = ["ptrace", "process_vm_readv", "process_vm_writev"].map(|name| (always(name), debugger));
        let (reach, fast) = if features.own_network { (NOTIFY, NOTIFY) } else { (ALLOW, refused(EOPNOTSUPP)) };
        let sockets = [
            (socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), reach),
            (socket(AF_INET6, SOCK_STREAM, IPPROTO_TCP), reach),
            (always("connect"), reach),
            (always("bind"), reach),
            (always("listen"), reach),
            (("sendto", [0, 0, 0, O(MSG_FASTOPEN | MSG_NOSIGNAL), 0, 0]), fast),
            (("sendto", [0, 0, 0, O(MSG_NOSIGNAL), 1, 0]), reach),
            (("sendmsg", [0, 0, O(MSG_FASTOPEN), 0, 0, 0]), fast),
        ];
        let programs = ["execve", "execveat"].map(|name| (always(name), program));
        debuggers.into_iter().chain(programs).chain(sockets)
    };
    for arch in Arch::ALL {
        let (number, nowhere) = (arch.number("sendto").expect("a number"), [3, 0xff00_0000, 9, O(MSG_NOSIGNAL), 0, 0]);
        let filter = filter(arch, Features { own_network: true, ..Features::default() });
        assert_eq!(decide(&filter, arch, number, nowhere).value, ALLOW, "send(2) is native");
    }
    for (arch, features) in everywhere() {
        let filter = filter(arch, features);
        for ((name, arguments), want) in cases.iter().copied().chain(of_session(features)) {
            let Some(number) = arch.number(name) else {
                assert_eq!(arch, Arch::Aarch64, "{name} is on x86-64");
                continue;
            };
            for garbage in [0, 0xdead_beef_0000_0000, 0xffff_ffff_0000_0000] {
                let arguments = arguments.map(|argument| argument & 0xffff_ffff | garbage);
                let got = decide(&filter, arch, number, arguments).value;
                assert_eq!(got, want, "{arch:?} {name} {arguments:x?}: got {got:#x}, want {want:#x}");
            }
        }
    }
}

#[test]
fn the_interpreter_knows_the_instructions_of_seccomp() {
    let data = Data { number: 7, architecture: 9, instruction_pointer: 0x1_0000_0002, arguments: [0xa_0000_000b; 6] };
    let program = |instructions: &[(u16, u8, u8, u32)]| -> Vec<sock_filter> {
        instructions.iter().map(|&(code, jt, jf, k)| sock_filter { code, jt, jf, k }).collect()
    };
    let value = |instructions: &[(u16, u8, u8, u32)]| run(&program(instructions), &data).map(|outcome| outcome.value);
    let give_a = (0x16, 0, 0, 0);
    for (offset, word) in [(0, 7), (4, 9), (8, 2), (12, 1), (16, 0xb), (20, 0xa), (56, 0xb), (60, 0xa)] {
        assert_eq!(value(&[(0x20, 0, 0, offset), give_a]), Ok(word));
    }
    assert_eq!(value(&[(0x20, 0, 0, 64), give_a]), Err(Fault::Offset(64)));
    assert_eq!(value(&[(0x20, 0, 0, 17), give_a]), Err(Fault::Offset(17)));
    // A is 12, X and K are 5 in turn.
    let results =
        [(0x04, 17), (0x14, 7), (0x24, 60), (0x34, 2), (0x44, 13), (0x54, 4), (0x64, 384), (0x74, 0), (0xa4, 9)];
    for (code, result) in results {
        assert_eq!(value(&[(0x00, 0, 0, 12), (code, 0, 0, 5), give_a]), Ok(result), "{code:#x}");
        assert_eq!(value(&[(0x00, 0, 0, 12), (0x01, 0, 0, 5), (code | 8, 0, 0, 0), give_a]), Ok(result), "{code:#x}");
    }
    assert_eq!(value(&[(0x00, 0, 0, 1), (0x84, 0, 0, 0), give_a]), Ok(u32::MAX));
    assert_eq!(value(&[(0x34, 0, 0, 0), give_a]), Err(Fault::DivisionByZero));
    // Equal, greater, greater or equal, any bit; A is 6.
    for (code, operand, holds) in [
        (0x15, 6, true),
        (0x15, 7, false),
        (0x25, 5, true),
        (0x25, 6, false),
        (0x35, 6, true),
        (0x35, 7, false),
        (0x45, 2, true),
        (0x45, 9, false),
    ] {
        let end = [(0x06, 0, 0, 100), (0x06, 0, 0, 200)];
        let want = Ok(if holds { 200 } else { 100 });
        assert_eq!(value(&[(0x00, 0, 0, 6), (code, 1, 0, operand), end[0], end[1]]), want, "{code:#x}");
        assert_eq!(
            value(&[(0x00, 0, 0, 6), (0x01, 0, 0, operand), (code | 8, 1, 0, 0), end[0], end[1]]),
            want,
            "{code:#x}"
        );
    }
    assert_eq!(value(&[(0x00, 0, 0, 3), (0x02, 0, 0, 15), (0x00, 0, 0, 0), (0x60, 0, 0, 15), give_a]), Ok(3));
    assert_eq!(value(&[(0x02, 0, 0, 16), give_a]), Err(Fault::Scratch(16)));
    assert_eq!(value(&[(0x00, 0, 0, 4), (0x07, 0, 0, 0), (0x00, 0, 0, 0), (0x87, 0, 0, 0), give_a]), Ok(4));
    assert_eq!(value(&[(0x05, 0, 0, 1), (0x06, 0, 0, 1), (0x06, 0, 0, 2)]), Ok(2));
    assert_eq!(value(&[(0x05, 0, 0, 1), (0x06, 0, 0, 1)]), Err(Fault::End(2)));
    assert_eq!(value(&[(0x28, 0, 0, 0)]), Err(Fault::Unknown(0x28)));
}
