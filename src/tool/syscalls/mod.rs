//! The table of system calls: which numbers there are, and what becomes of each in a session. Pure data, used by whoever
//! compiles the filter (root, before the fork of a call), by the tests and by `docs/syscalls.md`.
//!
//! [`classes::GROUPS`] says it once by name for every architecture; [`x86_64`] and [`aarch64`] only number the names. A
//! number without a name, and every number above [`NEWEST`], is `ENOSYS`: what nobody has reviewed does not exist.

pub mod aarch64;
mod arguments;
pub mod classes;
mod markdown;
pub mod x86_64;

use std::collections::HashMap;

use crate::common::errno::Errno;

pub use markdown::markdown;

/// The newest number that was reviewed: file_setattr(2). It is the newest of Linux 6.18, on both architectures.
pub const NEWEST: u32 = 469;

/// An architecture that sessions run on. Calls by any other (int 0x80, a 32-bit program) end the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arch {
    X86_64,
    Aarch64,
}

impl Arch {
    pub const ALL: [Arch; 2] = [Arch::X86_64, Arch::Aarch64];

    /// The one that this program was built for.
    #[cfg(target_arch = "x86_64")]
    pub const NATIVE: Arch = Arch::X86_64;
    #[cfg(target_arch = "aarch64")]
    pub const NATIVE: Arch = Arch::Aarch64;

    /// Name and number of every system call, in the order of the numbers.
    pub fn numbers(self) -> &'static [(&'static str, u32)] {
        match self {
            Arch::X86_64 => x86_64::NUMBERS,
            Arch::Aarch64 => aarch64::NUMBERS,
        }
    }

    /// `AUDIT_ARCH_*` of include/uapi/linux/audit.h, as in `seccomp_data.arch`: the ELF machine, 64 bits, little-endian.
    pub fn audit(self) -> u32 {
        let machine = match self {
            Arch::X86_64 => libc::EM_X86_64,
            Arch::Aarch64 => libc::EM_AARCH64,
        };
        u32::from(machine) | 0x8000_0000 | 0x4000_0000
    }

    /// The number of a name; `None` where this architecture has no such call.
    pub fn number(self, name: &str) -> Option<u32> {
        self.numbers().iter().find(|(known, _)| *known == name).map(|(_, number)| *number)
    }

    /// The name of a number; `None` for a hole and above [`NEWEST`].
    pub fn name(self, number: u32) -> Option<&'static str> {
        self.numbers().iter().find(|(_, known)| *known == number).map(|(name, _)| *name)
    }
}

/// What becomes of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The kernel performs it at full speed; the floor and the namespaces hold what it can do.
    Native,
    /// The supervisor is notified and answers.
    Trapped,
    /// It fails with this errno and does nothing.
    Refused(Errno),
    /// It returns 0 and does nothing.
    WithoutEffect,
    /// What the profile of the session says; see [`Feature`].
    By(Feature),
}

impl Action {
    /// What it comes to in a session with these features; never [`Action::By`].
    pub fn under(self, features: Features) -> Action {
        match self {
            Action::By(feature) if feature.is_in(features) => feature.with(),
            Action::By(feature) => feature.without(),
            other => other,
        }
    }
}

/// What of a profile decides about system calls, for a whole session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// Some execve(2) may be anything but allowed without a word, so each is judged.
    JudgedPrograms,
    /// `debug = true`.
    Debugging,
    /// `network = "own"`: the supervisor makes sockets of the host's network and connects them.
    OwnNetwork,
    /// The same, of what is refused where nobody can judge it.
    OwnFastOpen,
    /// The same, of what could send to anybody where the supervisor has no part in it.
    OwnDatagrams,
}

impl Feature {
    /// In a session with it.
    pub fn with(self) -> Action {
        match self {
            Feature::JudgedPrograms | Feature::OwnNetwork | Feature::OwnFastOpen => Action::Trapped,
            Feature::Debugging => Action::Native,
            Feature::OwnDatagrams => Action::Refused(Errno::PROTONOSUPPORT),
        }
    }

    /// In a session without it.
    pub fn without(self) -> Action {
        match self {
            Feature::JudgedPrograms | Feature::OwnNetwork | Feature::OwnDatagrams => Action::Native,
            Feature::Debugging => Action::Refused(Errno::PERM),
            Feature::OwnFastOpen => Action::Refused(Errno::OPNOTSUPP),
        }
    }

    fn is_in(self, features: Features) -> bool {
        match self {
            Feature::JudgedPrograms => features.judged_programs,
            Feature::Debugging => features.debugging,
            Feature::OwnNetwork | Feature::OwnFastOpen | Feature::OwnDatagrams => features.own_network,
        }
    }
}

/// The features of one session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    pub judged_programs: bool,
    pub debugging: bool,
    pub own_network: bool,
}

impl Features {
    /// Every session that there can be.
    pub const ALL: [Features; 8] = {
        let mut all = [Features { judged_programs: false, debugging: false, own_network: false }; 8];
        let mut at = 0;
        while at < all.len() {
            all[at] = Features { judged_programs: at & 1 != 0, debugging: at & 2 != 0, own_network: at & 4 != 0 };
            at += 1;
        }
        all
    };
}

/// What becomes of a system call: the first case that holds decides, else `otherwise`.
#[derive(Clone, Copy, Debug)]
pub struct Class {
    pub cases: &'static [Case],
    pub otherwise: Action,
}

/// Arguments that decide by themselves.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// In the words of the manual pages.
    pub what: &'static str,
    /// All of them hold; never empty.
    pub when: &'static [Test],
    pub then: Action,
}

/// `argument & mask == value`. The kernel takes flags, commands and domains as 32-bit integers, so the upper half may be
/// garbage and must not count: but for pointers, the mask is of the low 32 bits.
#[derive(Clone, Copy, Debug)]
pub struct Test {
    /// 0..=5.
    pub argument: u8,
    pub mask: u64,
    pub value: u64,
}

/// System calls that share a class and the reason for it.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    pub title: &'static str,
    pub why: &'static str,
    pub class: Class,
    /// Separated by blanks.
    names: &'static str,
}

impl Group {
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.names.split_ascii_whitespace()
    }
}

/// Every name of the table with its class, to look up all of them.
pub fn classes_by_name() -> HashMap<&'static str, &'static Class> {
    classes::GROUPS.iter().flat_map(|group| group.names().map(|name| (name, &group.class))).collect()
}

/// The class of a system call by its name; `None` for a name that is not in the table.
pub fn class_of(name: &str) -> Option<&'static Class> {
    classes::GROUPS.iter().find(|group| group.names().any(|known| known == name)).map(|group| &group.class)
}
