//! What becomes of every system call, by name, for all architectures. Pure data; read it as the answer to "can a tool do
//! this?". A test holds it against the kernel's headers: every name exactly once.

use super::arguments::*;
use super::{Action, Case, Class, Feature, Group};
use crate::common::errno::Errno;

use Action::{Native, Refused, Trapped};

const fn always(title: &'static str, why: &'static str, action: Action, names: &'static str) -> Group {
    Group { title, why, class: Class { cases: &[], otherwise: action }, names }
}

const fn by_argument(
    title: &'static str,
    why: &'static str,
    cases: &'static [Case],
    otherwise: Action,
    names: &'static str,
) -> Group {
    Group { title, why, class: Class { cases, otherwise }, names }
}

const PERM: Action = Refused(Errno::PERM);
const NOSYS: Action = Refused(Errno::NOSYS);

pub const GROUPS: &[Group] = &[
    // Changes of files.
    by_argument(
        "Opening by path: open",
        "Only what can write, create or truncate changes a file; reads are never trapped.",
        OPEN,
        Trapped,
        "open",
    ),
    by_argument("Opening by path: openat", "As open.", OPENAT, Trapped, "openat"),
    always(
        "Opening, always trapped",
        "creat always writes; the flags of openat2 are not visible to a filter.",
        Trapped,
        "creat openat2",
    ),
    always(
        "Names",
        "They make, remove or exchange directory entries.",
        Trapped,
        "mkdir mkdirat rmdir unlink unlinkat rename renameat renameat2 link linkat symlink symlinkat mknod mknodat",
    ),
    always(
        "Contents by path",
        "ftruncate and fallocate need a writable fd, which was judged when it was opened; truncate needs none.",
        Trapped,
        "truncate",
    ),
    always(
        "Metadata",
        "The forms that take an fd work on one opened for reading, and Landlock sees none of them.",
        Trapped,
        "chmod fchmod fchmodat fchmodat2 chown lchown fchown fchownat utime utimes futimesat utimensat setxattr \
         lsetxattr fsetxattr setxattrat removexattr lremovexattr fremovexattr removexattrat file_setattr",
    ),
    by_argument(
        "ioctl",
        "Commands that change files or reach beyond a terminal; see the cases.",
        IOCTL,
        Native,
        "ioctl",
    ),
    // Sockets.
    by_argument(
        "Sockets",
        "Families and protocols whose connections the floor knows; the rest is attack surface.",
        SOCKET,
        Refused(Errno::AFNOSUPPORT),
        "socket",
    ),
    by_argument("Socket pairs", "TIPC makes pairs too.", SOCKETPAIR, Refused(Errno::AFNOSUPPORT), "socketpair"),
    by_argument("Socket options", "None may change what a socket is.", SETSOCKOPT, Native, "setsockopt"),
    by_argument("Sending: sendmsg", "Fast open connects while it sends.", SENDMSG, Native, "sendmsg"),
    by_argument("Sending: sendmmsg", "As sendmsg; programs fall back.", SENDMMSG, Native, "sendmmsg"),
    by_argument(
        "Sending: sendto",
        "With an address it may be the first datagram to somebody.",
        SENDTO,
        Action::By(Feature::OwnNetwork),
        "sendto",
    ),
    always(
        "Reaching and being reached",
        "Judged by the address, and performed by the supervisor on the very socket.",
        Action::By(Feature::OwnNetwork),
        "connect bind listen",
    ),
    // Processes and namespaces.
    by_argument("New processes", "In the namespaces of the session only.", CLONE, PERM, "clone"),
    always(
        "New processes: clone3",
        "The flags are not visible to a filter; C libraries and Go fall back to clone.",
        NOSYS,
        "clone3",
    ),
    by_argument("Leaving what is shared", "Not for new namespaces.", UNSHARE, PERM, "unshare"),
    always(
        "Namespaces and mounts",
        "Paths must mean to the supervisor what they mean to the tool.",
        PERM,
        "setns mount umount2 pivot_root chroot open_tree open_tree_attr move_mount fsopen fsconfig fsmount fspick \
         mount_setattr",
    ),
    always(
        "Other processes' memory and files",
        "What one process was allowed must not be turned by another; the supervisor alone looks into tools.",
        PERM,
        "pidfd_getfd kcmp",
    ),
    always(
        "Debugging",
        "As above, but where the profile says `debug = true`: within the session, which Landlock holds.",
        Action::By(Feature::Debugging),
        "ptrace process_vm_readv process_vm_writev",
    ),
    by_argument("Pages of a process", "Only one's own.", OWN_PAGES, PERM, "move_pages migrate_pages"),
    by_argument("personality", "No executable data, no fixed addresses.", PERSONALITY, PERM, "personality"),
    by_argument("prctl", "See the cases.", PRCTL, Native, "prctl"),
    by_argument("seccomp", "Filters of its own only make a tool stricter.", SECCOMP, Native, "seccomp"),
    always(
        "Landlock",
        "What the kernel says with Landlock disabled. A domain that a tool makes for itself would not bind what the \
         supervisor performs for it, so it must not be told that it has one.",
        Refused(Errno::OPNOTSUPP),
        "landlock_create_ruleset landlock_add_rule landlock_restrict_self",
    ),
    // The machine.
    always(
        "io_uring",
        "Opens, connects and renames without a system call that a filter sees. Programs fall back.",
        NOSYS,
        "io_uring_setup io_uring_enter io_uring_register",
    ),
    always(
        "Keys",
        "Keyrings are shared by all processes of a user, and requests run a program as root. Programs fall back.",
        NOSYS,
        "add_key request_key keyctl",
    ),
    always(
        "Kernel programs and observation",
        "Attack surface without a use in a session; userfaultfd can hold the supervisor while it reads memory.",
        PERM,
        "bpf perf_event_open userfaultfd fanotify_init fanotify_mark syslog lsm_set_self_attr",
    ),
    always(
        "Files by handle",
        "It opens any file of a filesystem, whatever the path to it allows.",
        PERM,
        "open_by_handle_at",
    ),
    always(
        "The machine itself",
        "Needs privilege that no tool has; refused here as well.",
        PERM,
        "init_module finit_module delete_module kexec_load kexec_file_load reboot swapon swapoff quotactl \
         quotactl_fd acct settimeofday clock_settime adjtimex clock_adjtime sethostname setdomainname iopl ioperm \
         vhangup",
    ),
    always(
        "Gone or never there",
        "The kernel's own answer.",
        NOSYS,
        "uselib _sysctl create_module get_kernel_syms query_module nfsservctl getpmsg putpmsg afs_syscall tuxcall \
         security set_thread_area get_thread_area lookup_dcookie epoll_ctl_old epoll_wait_old vserver",
    ),
    // Native.
    always(
        "Reading and writing what is open",
        "An fd carries the right that was judged when it was opened.",
        Native,
        "read write pread64 pwrite64 readv writev preadv pwritev preadv2 pwritev2 close close_range lseek dup dup2 \
         dup3 fcntl flock fsync fdatasync sync syncfs sync_file_range ftruncate fallocate fadvise64 readahead \
         copy_file_range sendfile splice tee vmsplice cachestat pipe pipe2 io_setup io_destroy io_submit io_cancel \
         io_getevents io_pgetevents",
    ),
    always(
        "Looking at files",
        "Reads are never trapped; what must not be read is held elsewhere.",
        Native,
        "stat fstat lstat newfstatat statx access faccessat faccessat2 readlink readlinkat getdents getdents64 \
         getcwd chdir fchdir statfs fstatfs ustat sysfs getxattr lgetxattr fgetxattr getxattrat listxattr \
         llistxattr flistxattr listxattrat file_getattr name_to_handle_at statmount listmount inotify_init \
         inotify_init1 inotify_add_watch inotify_rm_watch umask",
    ),
    always(
        "Waiting for fds and time",
        "No object but the caller's own.",
        Native,
        "poll ppoll select pselect6 epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2 \
         eventfd eventfd2 signalfd signalfd4 timerfd_create timerfd_settime timerfd_gettime nanosleep \
         clock_nanosleep clock_gettime clock_getres gettimeofday time times alarm getitimer setitimer timer_create \
         timer_settime timer_gettime timer_getoverrun timer_delete",
    ),
    always(
        "Memory",
        "Of the caller.",
        Native,
        "mmap mprotect munmap brk mremap msync mincore madvise mlock mlock2 munlock mlockall munlockall \
         remap_file_pages mbind set_mempolicy get_mempolicy set_mempolicy_home_node memfd_create memfd_secret \
         pkey_mprotect pkey_alloc pkey_free process_madvise process_mrelease mseal map_shadow_stack membarrier",
    ),
    always(
        "Programs",
        "Judged where the profile has rules or defaults for them, and compared with what was judged when they start.",
        Action::By(Feature::JudgedPrograms),
        "execve execveat",
    ),
    always(
        "Processes, threads and signals",
        "The pid namespace and Landlock's signal scope end at the session.",
        Native,
        "fork vfork exit exit_group wait4 waitid kill tkill tgkill rt_sigaction rt_sigprocmask \
         rt_sigreturn rt_sigpending rt_sigtimedwait rt_sigqueueinfo rt_tgsigqueueinfo rt_sigsuspend sigaltstack \
         pause restart_syscall pidfd_open pidfd_send_signal futex futex_waitv futex_wake futex_wait futex_requeue \
         set_robust_list get_robust_list set_tid_address rseq arch_prctl modify_ldt uretprobe uprobe",
    ),
    always(
        "Identity and limits",
        "There is no privilege to regain: no_new_privs is set and no capability is left.",
        Native,
        "getpid gettid getppid getpgid setpgid getpgrp setsid getsid getuid geteuid getgid getegid setuid setgid \
         setreuid setregid setresuid getresuid setresgid getresgid setfsuid setfsgid getgroups setgroups capget \
         capset getrlimit getrusage getpriority setpriority ioprio_get ioprio_set sched_yield \
         sched_setparam sched_getparam sched_setscheduler sched_getscheduler sched_get_priority_max \
         sched_get_priority_min sched_rr_get_interval sched_setaffinity sched_getaffinity sched_setattr \
         sched_getattr getcpu lsm_get_self_attr lsm_list_modules",
    ),
    by_argument("Limits: setrlimit", "See the case.", SETRLIMIT, Native, "setrlimit"),
    by_argument("Limits: prlimit", "See the cases.", PRLIMIT, Native, "prlimit64"),
    always(
        "Sockets that exist",
        "The network namespace and Landlock hold where they reach.",
        Native,
        "accept accept4 shutdown getsockname getpeername getsockopt recvfrom recvmsg recvmmsg",
    ),
    always(
        "Messages between processes",
        "Of the session's own ipc namespace.",
        Native,
        "shmget shmat shmctl shmdt semget semop semtimedop semctl msgget msgsnd msgrcv msgctl mq_open mq_unlink \
         mq_timedsend mq_timedreceive mq_notify mq_getsetattr",
    ),
    always("About the machine", "Only told.", Native, "uname sysinfo getrandom"),
];
