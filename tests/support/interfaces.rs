//! Every class of system calls that the static filter refuses, as attempts that really do it: a table for whoever tries
//! them (bare, as root in namespaces of its own, where it works; under the filter alone; as a tool in a session).
//!
//! What would change the machine itself (loading a module, setting the clock) is asked for in a way that the kernel takes
//! up and then refuses for another reason than privilege, or that changes nothing: the errno tells who refused.

#![allow(dead_code, reason = "each test program uses its part")]

use std::ffi::CStr;
use std::io;
use std::sync::OnceLock;

use libc::c_long;

/// The value of a call, or its errno.
pub type Came = Result<i64, i32>;

/// The call succeeded.
pub const DONE: i32 = 0;

/// What the kernel says where it was built without the thing at all.
const NOT_THERE: &[i32] = &[libc::ENOSYS, libc::EAFNOSUPPORT, libc::EPROTONOSUPPORT, libc::ESOCKTNOSUPPORT];

pub struct Interface {
    /// `class: what of it`.
    pub name: &'static str,
    /// Makes the attempt; every argument that the kernel takes as a 32-bit integer carries `garbage` above it.
    pub make: fn(garbage: u64) -> Came,
    /// What it may come to for root without a filter: [`DONE`], or errnos of a kernel that looked at it.
    pub bare: &'static [i32],
    /// The errno in a session, as docs/syscalls.md has it.
    pub inside: i32,
}

impl Interface {
    /// What comes before the colon.
    pub fn class(&self) -> &'static str {
        self.name.split_once(':').map_or(self.name, |(class, _)| class)
    }

    /// Whether this machine has what is attempted. `None`: what it came to bare shows nothing.
    pub fn works(&self, bare: i32) -> Option<bool> {
        match bare {
            known if self.bare.contains(&known) && known != self.inside => Some(true),
            missing if NOT_THERE.contains(&missing) => Some(false),
            _ => None,
        }
    }
}

pub fn call<const N: usize>(number: c_long, arguments: [u64; N]) -> Came {
    let mut registers = [0u64; 6];
    registers[..N].copy_from_slice(&arguments);
    let [a, b, c, d, e, f] = registers;
    // SAFETY: the attempts pass integers, null, or addresses of live data of the size that the call takes.
    let result = unsafe { libc::syscall(number, a, b, c, d, e, f) };
    if result < 0 { Err(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)) } else { Ok(result) }
}

const BAD_FD: u64 = u64::MAX;
const HERE: u64 = libc::AT_FDCWD as i64 as u64;

/// Zeroes, larger than any structure that is passed.
static ZEROES: [u64; 128] = [0; 128];

fn zeroes() -> u64 {
    ZEROES.as_ptr() as u64
}

fn at(text: &'static CStr) -> u64 {
    text.as_ptr() as u64
}

/// A descriptor of an earlier step, or a bad one where that step was refused: the step after it is tried all the same.
fn or_bad(step: Came) -> u64 {
    step.map_or(BAD_FD, |fd| fd as u64)
}

fn me() -> u64 {
    u64::from(std::process::id())
}

/// The slave of a pseudo-terminal of this process's; the master stays open.
static TERMINAL: OnceLock<i32> = OnceLock::new();

/// Opens what an attempt must not have to open under a filter that nobody serves.
pub fn prepare() {
    let (mut master, mut slave) = (0, 0);
    // SAFETY: two live integers; the rest may be null.
    let made = unsafe {
        libc::openpty(&mut master, &mut slave, std::ptr::null_mut(), std::ptr::null_mut(), std::ptr::null_mut())
    };
    let _ = TERMINAL.set(if made == 0 { slave } else { -1 });
}

fn terminal() -> u64 {
    TERMINAL.get().map_or(BAD_FD, |fd| *fd as u64)
}

/// A child that waits to be killed.
struct Child(i32);

impl Child {
    fn new() -> Child {
        // SAFETY: fork(2); the child makes system calls only, and dies with this process.
        unsafe {
            let pid = libc::fork();
            if pid == 0 {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                loop {
                    libc::pause();
                }
            }
            Child(pid)
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // SAFETY: our own child, not reaped yet.
        unsafe {
            libc::kill(self.0, libc::SIGKILL);
            libc::waitpid(self.0, std::ptr::null_mut(), 0);
        }
    }
}

fn new_namespace(flag: i32, garbage: u64) -> Came {
    call(libc::SYS_unshare, [flag as u32 as u64 | garbage])
}

fn clone_with(flag: i32, garbage: u64) -> Came {
    in_parent(call(libc::SYS_clone, [(flag | libc::SIGCHLD) as u32 as u64 | garbage, 0, 0, 0, 0])?)
}

fn clone3(flags: i32) -> Came {
    let arguments = [flags as u32 as u64, 0, 0, 0, libc::SIGCHLD as u64, 0, 0, 0];
    in_parent(call(libc::SYS_clone3, [arguments.as_ptr() as u64, 64])?)
}

/// Ends and reaps the child that a call made.
fn in_parent(pid: i64) -> Came {
    match pid {
        // SAFETY: the new child has nothing to do.
        0 => unsafe { libc::_exit(0) },
        pid => {
            // SAFETY: our own child.
            unsafe { libc::waitpid(pid as i32, std::ptr::null_mut(), 0) };
            Ok(pid)
        }
    }
}

fn socket(family: i32, kind: i32, protocol: i32, garbage: u64) -> Came {
    let wide = |value: i32| value as u32 as u64 | garbage;
    call(libc::SYS_socket, [wide(family), wide(kind | libc::SOCK_CLOEXEC), wide(protocol)])
}

/// Of a datagram socket of its own.
fn option(family: i32, level: i32, option: i32, value: &[u8], garbage: u64) -> Came {
    let fd = or_bad(socket(family, libc::SOCK_DGRAM, 0, 0));
    let came = call(
        libc::SYS_setsockopt,
        [fd, level as u64 | garbage, option as u64 | garbage, value.as_ptr() as u64, value.len() as u64],
    );
    let _ = call(libc::SYS_close, [fd]);
    came
}

fn ioctl(fd: u64, command: u64, garbage: u64) -> Came {
    call(libc::SYS_ioctl, [fd, command | garbage, zeroes()])
}

fn on_own_memory(number: c_long, garbage: u64) -> Came {
    let (mut here, there) = (0u64, 7u64);
    let (local, remote) = ([(&raw mut here) as u64, 8], [(&raw const there) as u64, 8]);
    call(number, [me() | garbage, local.as_ptr() as u64, 1, remote.as_ptr() as u64, 1, 0])
}

fn bpf_map(garbage: u64) -> Came {
    // BPF_MAP_CREATE of an array: type, key size, value size, entries.
    let attributes: [u32; 32] = std::array::from_fn(|index| match index {
        0 => 2,
        1 => 4,
        2 => 8,
        3 => 1,
        _ => 0,
    });
    call(libc::SYS_bpf, [garbage, attributes.as_ptr() as u64, 128 | garbage])
}

fn perf(garbage: u64) -> Came {
    // PERF_TYPE_SOFTWARE, the size of the first version, PERF_COUNT_SW_CPU_CLOCK.
    let mut attributes = [0u64; 16];
    attributes[0] = 1 | 64 << 32;
    call(libc::SYS_perf_event_open, [attributes.as_ptr() as u64, garbage, BAD_FD, BAD_FD, 0])
}

fn by_handle(garbage: u64) -> Came {
    let mut handle = [0u8; 8 + 128];
    handle[0] = 128;
    let mut mount = 0i32;
    let name = [HERE, at(c"/"), handle.as_mut_ptr() as u64, (&raw mut mount) as u64, 0];
    let _ = call(libc::SYS_name_to_handle_at, name);
    let root = or_bad(call(libc::SYS_openat, [HERE, at(c"/"), libc::O_RDONLY as u64]));
    call(libc::SYS_open_by_handle_at, [root | garbage, handle.as_ptr() as u64, libc::O_RDONLY as u64 | garbage])
}

fn listener(garbage: u64) -> Came {
    let allow = libc::sock_filter { code: 6, jt: 0, jf: 0, k: libc::SECCOMP_RET_ALLOW };
    let program = libc::sock_fprog { len: 1, filter: (&raw const allow).cast_mut() };
    call(libc::SYS_prctl, [libc::PR_SET_NO_NEW_PRIVS as u64, 1])?;
    let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
    let mode = u64::from(libc::SECCOMP_SET_MODE_FILTER);
    call(libc::SYS_seccomp, [mode | garbage, flags | garbage, (&raw const program) as u64])
}

fn landlock(step: usize) -> Came {
    // handled_access_fs: LANDLOCK_ACCESS_FS_MAKE_DIR.
    let ruleset = or_bad(call(libc::SYS_landlock_create_ruleset, [(&raw const MAKE_DIR) as u64, 8, 0]));
    match step {
        0 => call(libc::SYS_landlock_create_ruleset, [0, 0, 1]),
        1 => {
            let root = or_bad(call(libc::SYS_openat, [HERE, at(c"/"), libc::O_PATH as u64]));
            let beneath = [MAKE_DIR, root];
            call(libc::SYS_landlock_add_rule, [ruleset, 1, beneath.as_ptr() as u64, 0])
        }
        _ => {
            call(libc::SYS_prctl, [libc::PR_SET_NO_NEW_PRIVS as u64, 1])?;
            call(libc::SYS_landlock_restrict_self, [ruleset, 0])
        }
    }
}

static MAKE_DIR: u64 = 1 << 7;

fn detached_tmpfs() -> Came {
    let context = or_bad(call(libc::SYS_fsopen, [at(c"tmpfs"), 0]));
    // FSCONFIG_CMD_CREATE.
    let _ = call(libc::SYS_fsconfig, [context, 6, 0, 0, 0]);
    call(libc::SYS_fsmount, [context, 0, 0])
}

const OPEN_TREE_CLONE: u64 = 1;
const PERSONALITY_FIXED: u64 = 0x0004_0000;
const PERSONALITY_EXECUTABLE: u64 = 0x0040_0000;
const SYS_OPEN_TREE_ATTR: c_long = 467;
const SYS_LSM_SET_SELF_ATTR: c_long = 460;

const PERM: i32 = libc::EPERM;
const NOSYS: i32 = libc::ENOSYS;

const fn interface(name: &'static str, bare: &'static [i32], inside: i32, make: fn(u64) -> Came) -> Interface {
    Interface { name, make, bare, inside }
}

macro_rules! namespaces {
    ($($name:literal $flag:ident),*) => {
        &[$(
            interface(concat!("unshare: ", $name), &[DONE], PERM, |garbage| new_namespace(libc::$flag, garbage)),
            interface(concat!("clone: ", $name), &[DONE], PERM, |garbage| clone_with(libc::$flag, garbage)),
        )*]
    };
}

pub const NAMESPACES: &[Interface] = namespaces!(
    "mounts" CLONE_NEWNS, "host name" CLONE_NEWUTS, "ipc" CLONE_NEWIPC, "users" CLONE_NEWUSER, "processes" CLONE_NEWPID,
    "network" CLONE_NEWNET, "cgroups" CLONE_NEWCGROUP
);

pub const INTERFACES: &[Interface] = &[
    interface("unshare: time", &[DONE], PERM, |garbage| new_namespace(0x80, garbage)),
    interface("clone3: a plain child", &[DONE], NOSYS, |_| clone3(0)),
    interface("clone3: a user namespace", &[DONE], NOSYS, |_| clone3(libc::CLONE_NEWUSER)),
    interface("setns: by a file of /proc", &[DONE], PERM, |garbage| {
        let own = or_bad(call(libc::SYS_openat, [HERE, at(c"/proc/self/ns/uts"), libc::O_RDONLY as u64]));
        call(libc::SYS_setns, [own | garbage, garbage])
    }),
    interface("setns: by a pidfd", &[DONE], PERM, |garbage| {
        let own = or_bad(call(libc::SYS_pidfd_open, [me(), 0]));
        call(libc::SYS_setns, [own | garbage, libc::CLONE_NEWUTS as u64 | garbage])
    }),
    // Mounts.
    interface("mount: tmpfs", &[DONE], PERM, |_| call(libc::SYS_mount, [at(c"none"), at(c"/mnt"), at(c"tmpfs"), 0, 0])),
    interface("mount: bind", &[DONE], PERM, |_| call(libc::SYS_mount, [at(c"/etc"), at(c"/mnt"), 0, libc::MS_BIND, 0])),
    interface("mount: propagation", &[DONE], PERM, |_| {
        call(libc::SYS_mount, [at(c"none"), at(c"/"), 0, libc::MS_REC | libc::MS_PRIVATE, 0])
    }),
    interface("umount2: detached", &[DONE], PERM, |garbage| {
        let _ = call(libc::SYS_mount, [at(c"none"), at(c"/mnt"), at(c"tmpfs"), 0, 0]);
        call(libc::SYS_umount2, [at(c"/mnt"), libc::MNT_DETACH as u64 | garbage])
    }),
    interface("pivot_root: any", &[libc::EINVAL, libc::EBUSY], PERM, |_| {
        call(libc::SYS_pivot_root, [at(c"/"), at(c"/")])
    }),
    interface("chroot: a directory", &[DONE], PERM, |_| call(libc::SYS_chroot, [at(c"/usr")])),
    interface("mount API: open_tree of a copy", &[DONE], PERM, |garbage| {
        call(libc::SYS_open_tree, [HERE, at(c"/usr"), OPEN_TREE_CLONE | garbage])
    }),
    interface("mount API: open_tree without a copy", &[DONE], PERM, |garbage| {
        call(libc::SYS_open_tree, [HERE, at(c"/usr"), garbage])
    }),
    interface("mount API: open_tree_attr", &[DONE], PERM, |_| {
        call(SYS_OPEN_TREE_ATTR, [HERE, at(c"/usr"), OPEN_TREE_CLONE, zeroes(), 32])
    }),
    interface("mount API: move_mount", &[DONE], PERM, |garbage| {
        let tree = or_bad(call(libc::SYS_open_tree, [HERE, at(c"/usr"), OPEN_TREE_CLONE]));
        // MOVE_MOUNT_F_EMPTY_PATH.
        call(libc::SYS_move_mount, [tree, at(c""), HERE, at(c"/mnt"), 4 | garbage])
    }),
    interface("mount API: fsopen", &[DONE], PERM, |garbage| call(libc::SYS_fsopen, [at(c"tmpfs"), garbage])),
    interface("mount API: fsconfig", &[DONE], PERM, |garbage| {
        let context = or_bad(call(libc::SYS_fsopen, [at(c"tmpfs"), 0]));
        call(libc::SYS_fsconfig, [context | garbage, 6 | garbage, 0, 0, 0])
    }),
    interface("mount API: fsmount", &[DONE], PERM, |_| detached_tmpfs()),
    interface("mount API: fspick", &[DONE], PERM, |garbage| {
        let _ = call(libc::SYS_mount, [at(c"none"), at(c"/mnt"), at(c"tmpfs"), 0, 0]);
        call(libc::SYS_fspick, [HERE, at(c"/mnt"), garbage])
    }),
    interface("mount API: mount_setattr", &[DONE], PERM, |garbage| {
        call(libc::SYS_mount_setattr, [HERE, at(c"/"), garbage, zeroes(), 32])
    }),
    // Other processes.
    interface("ptrace: seize a child", &[DONE], PERM, |_| {
        let child = Child::new();
        call(libc::SYS_ptrace, [u64::from(libc::PTRACE_SEIZE), child.0 as u64, 0, 0])
    }),
    interface("ptrace: attach to a child", &[DONE], PERM, |_| {
        let child = Child::new();
        call(libc::SYS_ptrace, [u64::from(libc::PTRACE_ATTACH), child.0 as u64, 0, 0])
    }),
    interface("ptrace: be traced by the parent", &[DONE], PERM, |_| {
        call(libc::SYS_ptrace, [u64::from(libc::PTRACE_TRACEME), 0, 0, 0])
    }),
    interface("process memory: process_vm_readv", &[DONE], PERM, |garbage| {
        on_own_memory(libc::SYS_process_vm_readv, garbage)
    }),
    interface("process memory: process_vm_writev", &[DONE], PERM, |garbage| {
        on_own_memory(libc::SYS_process_vm_writev, garbage)
    }),
    interface("process files: pidfd_getfd", &[DONE], PERM, |garbage| {
        let own = or_bad(call(libc::SYS_pidfd_open, [me(), 0]));
        call(libc::SYS_pidfd_getfd, [own | garbage, garbage, garbage])
    }),
    interface("process files: kcmp", &[DONE], PERM, |garbage| {
        call(libc::SYS_kcmp, [me() | garbage, me() | garbage, 1 | garbage, 0, 0])
    }),
    interface("pages: move_pages of another", &[DONE], PERM, |garbage| {
        let child = Child::new();
        call(libc::SYS_move_pages, [child.0 as u64 | garbage, 0, zeroes(), 0, zeroes(), 0])
    }),
    interface("pages: migrate_pages of another", &[DONE], PERM, |garbage| {
        let child = Child::new();
        let first = 1u64;
        let nodes = (&raw const first) as u64;
        call(libc::SYS_migrate_pages, [child.0 as u64 | garbage, 64, nodes, nodes])
    }),
    interface("prctl: PR_SET_MM", &[DONE, libc::EINVAL], PERM, |garbage| {
        let mut size = 0u32;
        // PR_SET_MM_MAP_SIZE, which anybody may ask for.
        call(libc::SYS_prctl, [libc::PR_SET_MM as u64 | garbage, 15, (&raw mut size) as u64, 0, 0])
    }),
    interface("personality: addresses not randomized", &[DONE], PERM, |garbage| {
        call(libc::SYS_personality, [PERSONALITY_FIXED | garbage])
    }),
    interface("personality: data is executable", &[DONE], PERM, |garbage| {
        call(libc::SYS_personality, [PERSONALITY_EXECUTABLE | garbage])
    }),
    interface("seccomp: another listener", &[DONE], libc::EBUSY, listener),
    // What goes around system calls.
    interface("io_uring: io_uring_setup", &[DONE], NOSYS, |garbage| {
        let mut parameters = [0u64; 32];
        call(libc::SYS_io_uring_setup, [8 | garbage, parameters.as_mut_ptr() as u64])
    }),
    interface("io_uring: io_uring_enter", &[libc::EBADF], NOSYS, |garbage| {
        call(libc::SYS_io_uring_enter, [BAD_FD, 1 | garbage, 0, 0, 0, 0])
    }),
    interface("io_uring: io_uring_register", &[libc::EBADF, libc::EINVAL], NOSYS, |garbage| {
        call(libc::SYS_io_uring_register, [BAD_FD, garbage, 0, 0])
    }),
    interface("keys: add_key", &[DONE], NOSYS, |garbage| {
        // KEY_SPEC_PROCESS_KEYRING: it goes with this process.
        let keyring = -2i32 as u32 as u64 | garbage;
        call(libc::SYS_add_key, [at(c"user"), at(c"gated-test"), at(c"x"), 1, keyring])
    }),
    interface("keys: request_key", &[libc::ENOKEY], NOSYS, |garbage| {
        call(libc::SYS_request_key, [at(c"user"), at(c"gated-none"), 0, garbage])
    }),
    interface("keys: keyctl", &[DONE], NOSYS, |garbage| {
        // KEYCTL_GET_KEYRING_ID of the process's, made if there is none.
        call(libc::SYS_keyctl, [garbage, -2i32 as u32 as u64 | garbage, 1])
    }),
    interface("kernel programs: bpf", &[DONE], PERM, bpf_map),
    interface("observation: perf_event_open", &[DONE], PERM, perf),
    interface("observation: userfaultfd", &[DONE], PERM, |garbage| call(libc::SYS_userfaultfd, [garbage])),
    interface("observation: userfaultfd's device", &[libc::EBADF], PERM, |garbage| ioctl(BAD_FD, 0xaa00, garbage)),
    interface("observation: fanotify_init", &[DONE], PERM, |garbage| call(libc::SYS_fanotify_init, [garbage, garbage])),
    interface("observation: fanotify_mark", &[libc::EBADF], PERM, |garbage| {
        call(libc::SYS_fanotify_mark, [BAD_FD, 1 | garbage, 1, HERE, at(c"/")])
    }),
    interface("observation: syslog", &[DONE], PERM, |garbage| {
        // SYSLOG_ACTION_SIZE_BUFFER.
        call(libc::SYS_syslog, [10 | garbage, 0, 0])
    }),
    interface("observation: lsm_set_self_attr", &[libc::EINVAL, libc::EOPNOTSUPP], PERM, |_| {
        call(SYS_LSM_SET_SELF_ATTR, [100, zeroes(), 32, 0])
    }),
    interface("files by handle: open_by_handle_at", &[DONE], PERM, by_handle),
    // The machine.
    interface("modules: init_module", &[libc::EFAULT, libc::ENOEXEC], PERM, |_| {
        call(libc::SYS_init_module, [zeroes(), 64, at(c"")])
    }),
    interface("modules: finit_module", &[libc::EBADF], PERM, |garbage| {
        call(libc::SYS_finit_module, [BAD_FD, at(c""), garbage])
    }),
    interface("modules: delete_module", &[libc::ENOENT], PERM, |garbage| {
        call(libc::SYS_delete_module, [at(c"gated_no_such_module"), libc::O_NONBLOCK as u64 | garbage])
    }),
    interface("another kernel: kexec_load", &[libc::EINVAL, libc::EADDRNOTAVAIL], PERM, |_| {
        call(libc::SYS_kexec_load, [0, 17, 0, u64::MAX >> 1])
    }),
    #[cfg(target_arch = "x86_64")]
    interface("another kernel: kexec_file_load", &[libc::EBADF, libc::EINVAL], PERM, |_| {
        call(libc::SYS_kexec_file_load, [BAD_FD, BAD_FD, 0, 0, u64::MAX])
    }),
    interface("reboot: without its magic numbers", &[libc::EINVAL], PERM, |garbage| {
        call(libc::SYS_reboot, [garbage, garbage, garbage, 0])
    }),
    interface("swap: swapon", &[libc::ENOENT], PERM, |garbage| {
        call(libc::SYS_swapon, [at(c"/gated-no-such-file"), garbage])
    }),
    interface("swap: swapoff", &[libc::ENOENT], PERM, |_| call(libc::SYS_swapoff, [at(c"/gated-no-such-file")])),
    interface("quota: quotactl", &[libc::ENOENT], PERM, |garbage| {
        // Q_GETFMT of users.
        call(libc::SYS_quotactl, [0x8000_0400 | garbage, at(c"/gated-no-such-file"), garbage, zeroes()])
    }),
    interface("quota: quotactl_fd", &[libc::EBADF], PERM, |garbage| {
        call(libc::SYS_quotactl_fd, [BAD_FD, 0x8000_0400 | garbage, garbage, zeroes()])
    }),
    interface("accounting: acct", &[libc::ENOENT], PERM, |_| call(libc::SYS_acct, [at(c"/gated-no-such-file")])),
    interface("clocks: settimeofday of nothing", &[DONE], PERM, |_| call(libc::SYS_settimeofday, [0, 0])),
    interface("clocks: clock_settime to no time", &[libc::EINVAL], PERM, |garbage| {
        let no_time = [0i64, -1];
        call(libc::SYS_clock_settime, [garbage, no_time.as_ptr() as u64])
    }),
    interface("clocks: adjtimex", &[DONE], PERM, |_| {
        let mut nothing = [0u64; 64];
        call(libc::SYS_adjtimex, [nothing.as_mut_ptr() as u64])
    }),
    interface("clocks: clock_adjtime", &[DONE], PERM, |garbage| {
        let mut nothing = [0u64; 64];
        call(libc::SYS_clock_adjtime, [garbage, nothing.as_mut_ptr() as u64])
    }),
    interface("names: sethostname", &[DONE], PERM, |garbage| call(libc::SYS_sethostname, [at(c"other"), 5 | garbage])),
    interface("names: setdomainname", &[DONE], PERM, |garbage| {
        call(libc::SYS_setdomainname, [at(c"other"), 5 | garbage])
    }),
    #[cfg(target_arch = "x86_64")]
    interface("ports: iopl", &[DONE], PERM, |garbage| call(libc::SYS_iopl, [3 | garbage])),
    #[cfg(target_arch = "x86_64")]
    interface("ports: ioperm", &[DONE], PERM, |garbage| call(libc::SYS_ioperm, [0x80, 1, 1 | garbage])),
    interface("terminals: vhangup", &[DONE], PERM, |_| {
        // SAFETY: setsid(2) takes nothing: without a terminal there is nothing to hang up.
        unsafe { libc::setsid() };
        call(libc::SYS_vhangup, [])
    }),
    // Terminals.
    interface("terminals: TIOCSTI", &[DONE, libc::EIO], PERM, |garbage| ioctl(terminal(), 0x5412, garbage)),
    interface("terminals: TIOCLINUX", &[libc::ENOTTY], PERM, |garbage| ioctl(terminal(), 0x541c, garbage)),
    interface("terminals: TIOCCONS", &[libc::EBADF], PERM, |garbage| ioctl(BAD_FD, 0x541d, garbage)),
    interface("terminals: TIOCSETD", &[DONE], PERM, |garbage| ioctl(terminal(), 0x5423, garbage)),
    interface("terminals: KDSETMODE", &[libc::EBADF], libc::ENOTTY, |garbage| ioctl(BAD_FD, 0x4b3a, garbage)),
    interface("terminals: KDSKBENT", &[libc::EBADF], libc::ENOTTY, |garbage| ioctl(BAD_FD, 0x4b47, garbage)),
    interface("terminals: VT_ACTIVATE", &[libc::EBADF], libc::ENOTTY, |garbage| ioctl(BAD_FD, 0x5606, garbage)),
    // Sockets.
    interface("families: AF_PACKET", &[DONE], libc::EAFNOSUPPORT, |garbage| {
        socket(libc::AF_PACKET, libc::SOCK_DGRAM, 0, garbage)
    }),
    interface("families: AF_ALG", &[DONE], libc::EAFNOSUPPORT, |garbage| {
        socket(libc::AF_ALG, libc::SOCK_SEQPACKET, 0, garbage)
    }),
    interface("families: AF_VSOCK", &[DONE], libc::EAFNOSUPPORT, |garbage| {
        socket(libc::AF_VSOCK, libc::SOCK_STREAM, 0, garbage)
    }),
    interface("families: AF_XDP", &[DONE], libc::EAFNOSUPPORT, |garbage| {
        socket(libc::AF_XDP, libc::SOCK_RAW, 0, garbage)
    }),
    interface("families: AF_TIPC, a pair", &[DONE], libc::EAFNOSUPPORT, |garbage| {
        let mut pair = [0i32; 2];
        call(libc::SYS_socketpair, [libc::AF_TIPC as u64 | garbage, 5, 0, pair.as_mut_ptr() as u64])
    }),
    interface("netlink: uevents", &[DONE], libc::EPROTONOSUPPORT, |garbage| {
        socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_KOBJECT_UEVENT, garbage)
    }),
    interface("netlink: generic", &[DONE], libc::EPROTONOSUPPORT, |garbage| {
        socket(libc::AF_NETLINK, libc::SOCK_DGRAM, libc::NETLINK_GENERIC, garbage)
    }),
    interface("netlink: audit", &[DONE], libc::EPROTONOSUPPORT, |garbage| {
        socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_AUDIT, garbage)
    }),
    interface("sockets: raw IPv4", &[DONE], PERM, |garbage| {
        socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_ICMP, garbage)
    }),
    interface("sockets: raw IPv6", &[DONE], PERM, |garbage| {
        socket(libc::AF_INET6, libc::SOCK_RAW, libc::IPPROTO_ICMPV6, garbage)
    }),
    interface("sockets: MPTCP", &[DONE, libc::ENOPROTOOPT], libc::EPROTONOSUPPORT, |garbage| {
        socket(libc::AF_INET, libc::SOCK_STREAM, 262, garbage)
    }),
    interface("sockets: SCTP", &[DONE], libc::EPROTONOSUPPORT, |garbage| {
        socket(libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_SCTP, garbage)
    }),
    interface("sockets: SCTP by its type", &[DONE], libc::EPROTONOSUPPORT, |garbage| {
        socket(libc::AF_INET, libc::SOCK_SEQPACKET, 0, garbage)
    }),
    interface("sockets: TCP_ULP", &[libc::EBADF], libc::ENOPROTOOPT, |garbage| {
        let (level, option) = (libc::IPPROTO_TCP as u64 | garbage, libc::TCP_ULP as u64 | garbage);
        call(libc::SYS_setsockopt, [BAD_FD, level, option, at(c"tls"), 4])
    }),
    interface("another way than to the address: a source route", &[DONE], PERM, |garbage| {
        // Loose source and record route, RFC 791: 127.0.0.2 comes first.
        option(libc::AF_INET, libc::IPPROTO_IP, libc::IP_OPTIONS, &[131, 7, 4, 127, 0, 0, 2, 0], garbage)
    }),
    interface("another way than to the address: segment routing", &[DONE], PERM, |garbage| {
        // Next header, length, type 4, segments left, last entry, flags, tag; one segment, RFC 8754.
        let mut header = [0; 24];
        header[1..3].copy_from_slice(&[2, 4]);
        header[8..].copy_from_slice(&std::net::Ipv6Addr::LOCALHOST.octets());
        option(libc::AF_INET6, libc::IPPROTO_IPV6, libc::IPV6_RTHDR, &header, garbage)
    }),
    interface("another way than to the address: ancillary routing", &[DONE, libc::EINVAL], PERM, |garbage| {
        option(libc::AF_INET6, libc::IPPROTO_IPV6, 6, &[0; 16], garbage)
    }),
    interface("another way than to the address: a device", &[DONE], PERM, |garbage| {
        option(libc::AF_INET, libc::SOL_SOCKET, libc::SO_BINDTODEVICE, b"lo\0", garbage)
    }),
    interface("another way than to the address: a device's number", &[DONE], PERM, |garbage| {
        option(libc::AF_INET, libc::SOL_SOCKET, libc::SO_BINDTOIFINDEX, &1i32.to_ne_bytes(), garbage)
    }),
    interface("fast open: sendto", &[libc::EBADF], libc::EOPNOTSUPP, |garbage| {
        call(libc::SYS_sendto, [BAD_FD, 0, 0, libc::MSG_FASTOPEN as u64 | garbage, 0, 0])
    }),
    interface("fast open: sendmsg", &[libc::EBADF], libc::EOPNOTSUPP, |garbage| {
        call(libc::SYS_sendmsg, [BAD_FD, zeroes(), libc::MSG_FASTOPEN as u64 | garbage])
    }),
    interface("fast open: sendmmsg", &[libc::EBADF], libc::EOPNOTSUPP, |garbage| {
        call(libc::SYS_sendmmsg, [BAD_FD, zeroes(), 1, libc::MSG_FASTOPEN as u64 | garbage])
    }),
    // Landlock of a program's own.
    interface("Landlock: landlock_create_ruleset", &[DONE], libc::EOPNOTSUPP, |_| landlock(0)),
    interface("Landlock: landlock_add_rule", &[DONE], libc::EOPNOTSUPP, |_| landlock(1)),
    interface("Landlock: landlock_restrict_self", &[DONE], libc::EOPNOTSUPP, |_| landlock(2)),
];

/// All of them.
pub fn all() -> impl Iterator<Item = &'static Interface> {
    NAMESPACES.iter().chain(INTERFACES)
}

/// The families of sockets that a session has none of; those of the table's are left out.
pub fn odd_families() -> impl Iterator<Item = i32> {
    let known = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
    (0..64).filter(move |family| !known.contains(family))
}

/// Each odd family with each type: the errnos that are not `EAFNOSUPPORT`, as text for a failure.
pub fn odd_families_that_are_not_refused(garbage: u64) -> Vec<String> {
    let kinds = [libc::SOCK_STREAM, libc::SOCK_DGRAM, libc::SOCK_RAW, libc::SOCK_RDM, libc::SOCK_SEQPACKET];
    let mut through = Vec::new();
    for family in odd_families() {
        for kind in kinds {
            match socket(family, kind, 0, garbage) {
                Err(libc::EAFNOSUPPORT) => {}
                came => through.push(format!("family {family} type {kind}: {came:?}")),
            }
        }
    }
    through
}

/// Runs an attempt in a child of its own, which some leave changed. The errno, or [`DONE`]; -1 for one that was killed.
pub fn in_a_child(attempt: impl FnOnce() -> Came) -> i32 {
    // SAFETY: fork(2) in a process with one thread; the child ends with _exit(2).
    unsafe {
        let pid = libc::fork();
        if pid == 0 {
            libc::_exit(match attempt() {
                Ok(_) => DONE,
                Err(errno) => errno.clamp(1, 254),
            });
        }
        let mut status = 0;
        libc::waitpid(pid, &mut status, 0);
        if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { -1 }
    }
}
