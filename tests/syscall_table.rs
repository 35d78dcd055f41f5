//! The table of system calls against the kernel's headers, and against itself.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::process::{Command, Stdio};

use gated::tool::syscalls::{Action, Arch, Case, NEWEST, class_of, classes::GROUPS, markdown};

/// What is newer than the installed headers may be, from scripts/syscall.tbl of Linux 6.18; the same on all 64-bit
/// architectures (`common`).
const SINCE_6_2: &[(&str, u32)] = &[
    ("cachestat", 451),         // 6.5
    ("fchmodat2", 452),         // 6.6
    ("map_shadow_stack", 453),  // 6.6
    ("futex_wake", 454),        // 6.7
    ("futex_wait", 455),        // 6.7
    ("futex_requeue", 456),     // 6.7
    ("statmount", 457),         // 6.8
    ("listmount", 458),         // 6.8
    ("lsm_get_self_attr", 459), // 6.8
    ("lsm_set_self_attr", 460), // 6.8
    ("lsm_list_modules", 461),  // 6.8
    ("mseal", 462),             // 6.10
    ("setxattrat", 463),        // 6.13
    ("getxattrat", 464),        // 6.13
    ("listxattrat", 465),       // 6.13
    ("removexattrat", 466),     // 6.13
    ("open_tree_attr", 467),    // 6.15
    ("file_getattr", 468),      // 6.17
    ("file_setattr", 469),      // 6.17
];

/// Only on x86-64, from arch/x86/entry/syscalls/syscall_64.tbl of Linux 6.18.
const SINCE_6_2_X86_64: &[(&str, u32)] = &[
    ("uretprobe", 335), // 6.11
    ("uprobe", 336),    // 6.18
];

/// The `__NR_*` macros that a piece of C defines, by the preprocessor.
fn defined_by(source: &str) -> BTreeMap<String, u32> {
    let mut compiler = Command::new("cc")
        .args(["-E", "-dM", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a C compiler is installed (package gcc)");
    compiler.stdin.take().expect("piped").write_all(source.as_bytes()).expect("cc reads");
    let output = compiler.wait_with_output().expect("cc ends");
    assert!(output.status.success(), "the kernel headers are installed (package linux-libc-dev)");
    let text = String::from_utf8(output.stdout).expect("macros are ASCII");
    let macros: BTreeMap<&str, &str> =
        text.lines().filter_map(|line| line.strip_prefix("#define ")?.split_once(' ')).collect();
    let names = macros.keys().filter_map(|name| name.strip_prefix("__NR_"));
    names
        .filter(|name| !matches!(*name, "syscalls" | "arch_specific_syscall"))
        .map(|name| {
            let mut value = macros[format!("__NR_{name}").as_str()];
            while let Some(next) = macros.get(value) {
                value = next;
            }
            (name.to_owned(), value.parse().expect("a number"))
        })
        .collect()
}

/// The numbers of an architecture by the installed headers. aarch64 uses the generic list with these choices of
/// arch/arm64/include/uapi/asm/unistd.h.
fn in_headers(arch: Arch) -> BTreeMap<String, u32> {
    let mut numbers = match arch {
        Arch::X86_64 => defined_by("#include <asm/unistd_64.h>\n"),
        Arch::Aarch64 => defined_by(
            "#define __ARCH_WANT_RENAMEAT\n#define __ARCH_WANT_NEW_STAT\n#define __ARCH_WANT_SET_GET_RLIMIT\n\
             #define __ARCH_WANT_SYS_CLONE3\n#define __ARCH_WANT_MEMFD_SECRET\n#include <asm-generic/unistd.h>\n",
        ),
    };
    let own = if arch == Arch::X86_64 { SINCE_6_2_X86_64 } else { &[] };
    for (name, number) in SINCE_6_2.iter().chain(own) {
        let known = numbers.insert((*name).to_owned(), *number);
        assert!(known.is_none_or(|known| known == *number), "{name} has another number in the headers");
    }
    numbers
}

/// Newer headers than the table are no failure: the filter answers `ENOSYS` there.
fn reviewed(numbers: BTreeMap<String, u32>) -> BTreeMap<String, u32> {
    numbers.into_iter().filter(|(_, number)| *number <= NEWEST).collect()
}

/// On another machine than x86-64 its own headers are not installed; the generic list always is.
fn architectures_with_headers() -> Vec<Arch> {
    if cfg!(target_arch = "x86_64") { Arch::ALL.to_vec() } else { vec![Arch::Aarch64] }
}

#[test]
fn every_number_of_the_kernel_headers_is_in_the_table_with_its_name() {
    for arch in architectures_with_headers() {
        let table: BTreeMap<String, u32> =
            arch.numbers().iter().map(|(name, number)| ((*name).to_owned(), *number)).collect();
        assert_eq!(table, reviewed(in_headers(arch)), "{arch:?}");
    }
}

#[test]
fn numbers_and_names_are_unique_and_in_order() {
    for arch in Arch::ALL {
        let numbers = arch.numbers();
        assert!(numbers.is_sorted_by(|(_, one), (_, next)| one < next), "{arch:?}: a number twice or out of order");
        assert_eq!(numbers.iter().map(|(name, _)| name).collect::<BTreeSet<_>>().len(), numbers.len(), "a name twice");
        assert_eq!(numbers.last().map(|(_, number)| *number), Some(NEWEST), "{arch:?}");
    }
}

#[test]
fn every_name_has_exactly_one_class_and_every_class_a_name() {
    let mut classed = BTreeMap::<&str, usize>::new();
    for name in GROUPS.iter().flat_map(|group| group.names()) {
        *classed.entry(name).or_default() += 1;
    }
    let numbered: BTreeSet<&str> = Arch::ALL.iter().flat_map(|arch| arch.numbers()).map(|(name, _)| *name).collect();
    assert!(classed.values().all(|count| *count == 1), "twice: {classed:?}");
    assert_eq!(classed.into_keys().collect::<BTreeSet<_>>(), numbered);
}

#[test]
fn libc_has_the_same_numbers() {
    let same = |name: &str, number: libc::c_long| {
        assert_eq!(Arch::NATIVE.number(name).map(libc::c_long::from), Some(number), "{name}");
    };
    same("openat", libc::SYS_openat);
    same("openat2", libc::SYS_openat2);
    same("renameat2", libc::SYS_renameat2);
    same("linkat", libc::SYS_linkat);
    same("utimensat", libc::SYS_utimensat);
    same("fchmodat2", libc::SYS_fchmodat2);
    same("mseal", libc::SYS_mseal);
    same("clone3", libc::SYS_clone3);
    same("seccomp", libc::SYS_seccomp);
    same("ioctl", libc::SYS_ioctl);
}

/// Whether a test looks at bits that it does not compare, or names an argument that there is not.
#[test]
fn the_tests_of_arguments_are_well_formed() {
    for case in GROUPS.iter().flat_map(|group| group.class.cases) {
        assert!(!case.when.is_empty(), "{}", case.what);
        for test in case.when {
            assert!(test.argument <= 5, "{}", case.what);
            assert_eq!(test.value & !test.mask, 0, "{}: can never hold", case.what);
        }
    }
}

#[test]
fn no_case_is_hidden_by_an_earlier_one() {
    let holds = |case: &Case, arguments: &[u64; 6]| {
        case.when.iter().all(|test| arguments[usize::from(test.argument)] & test.mask == test.value)
    };
    for group in GROUPS {
        for (index, case) in group.class.cases.iter().enumerate() {
            let reached = [0u64, u64::MAX, 0x5a5a_5a5a].iter().any(|fill| {
                let mut arguments = [*fill; 6];
                for test in case.when {
                    let argument = &mut arguments[usize::from(test.argument)];
                    *argument = *argument & !test.mask | test.value;
                }
                group.class.cases.iter().position(|earlier| holds(earlier, &arguments)) == Some(index)
            });
            assert!(reached, "{}: {}", group.title, case.what);
            assert_ne!(
                case.then,
                last_resort(group.class.cases, index, group.class.otherwise),
                "{}: no use",
                case.what
            );
        }
    }
}

/// What would come of a case's calls without it, if no later case takes them: a case that does not change that is noise.
fn last_resort(cases: &[Case], index: usize, otherwise: Action) -> Action {
    let case = &cases[index];
    let mut arguments = [0u64; 6];
    for test in case.when {
        arguments[usize::from(test.argument)] |= test.value;
    }
    let later = cases[index + 1..]
        .iter()
        .find(|later| later.when.iter().all(|test| arguments[usize::from(test.argument)] & test.mask == test.value));
    later.map_or(otherwise, |later| later.then)
}

#[test]
fn a_call_that_changes_files_by_path_is_never_native() {
    // The families of ATTACKS that Landlock does not see, and those that it would only see natively.
    let stems = ["mkdir", "rmdir", "unlink", "rename", "link", "symlink", "mknod", "chmod", "chown", "utime", "xattr"];
    let reads = ["getxattr", "listxattr", "readlink", "mq_unlink"];
    for (name, _) in Arch::ALL.iter().flat_map(|arch| arch.numbers()) {
        let changes = stems.iter().any(|stem| name.contains(stem));
        let reads =
            reads.iter().any(|read| name.contains(read) || name.trim_start_matches(['l', 'f']).starts_with(read));
        if changes && !reads {
            let class = class_of(name).expect("every name has a class");
            assert!(class.cases.is_empty() && class.otherwise == Action::Trapped, "{name}");
        }
    }
}

#[test]
fn the_page_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/syscalls.md");
    if std::env::var_os("GATED_WRITE_DOCS").is_some() {
        std::fs::write(path, markdown()).expect("docs/syscalls.md is writable");
    }
    let page = std::fs::read_to_string(path).unwrap_or_default();
    assert!(page == markdown(), "docs/syscalls.md is not current; run `make docs`");
}
