//! Attacks 11 to 14, 16 and 20: every class of `support/interfaces.rs`, by a tool. That each works where there is no filter
//! is shown by tests/filter_installed, as root; what any user of a plain kernel gets works bare here too.

use crate::engine::{self, attack};
use crate::interfaces::{self, DONE};
use crate::raw::{self, Raw, sys};
use crate::support::Side;
use crate::{Inside, Test};

pub const TESTS: &[Test] = &[("interfaces_around_the_supervisor_are_refused", refused)];

pub const INSIDE: &[Inside] = &[("interfaces", interfaces_inside)];

/// What needs no privilege on a kernel that was built and set up as most are.
const WORKS_BARE: &[&str] = &[
    "unshare: users",
    "clone: users",
    "clone3: a user namespace",
    "io_uring: io_uring_setup",
    "keys: keyctl",
    "keys: add_key",
    "netlink: uevents",
    "ptrace: seize a child",
    "ptrace: be traced by the parent",
    "process memory: process_vm_writev",
    "process files: pidfd_getfd",
    "process files: kcmp",
    "personality: addresses not randomized",
    "personality: data is executable",
    "seccomp: another listener",
    "Landlock: landlock_restrict_self",
];

const GARBAGE: u64 = 0xdead_beef_0000_0000;

fn refused() {
    let bare = attack(&engine::with_victims(), Side::Bare, "interfaces", &[]);
    for name in WORKS_BARE {
        let came = bare.values(&key(name, 0));
        bare.assert(came == [DONE.to_string()], &format!("{name} works bare, it came to {came:?}"));
    }
    if !engine::gated_too() {
        return;
    }
    let inside = attack(&engine::with_victims(), Side::Gated, "interfaces", &[]);
    for interface in interfaces::all() {
        for garbage in [0, GARBAGE] {
            let came = inside.values(&key(interface.name, garbage));
            let expected = match interface.name {
                // With a network of the session's own these are performed, after a verdict: on no socket, here.
                "fast open: sendto" | "fast open: sendmsg" => libc::EBADF,
                _ => interface.inside,
            };
            inside.assert(came == [expected.to_string()], &format!("{}: {came:?}, not {expected}", interface.name));
        }
    }
    let odd = inside.values("odd");
    inside.assert(odd.is_empty(), &format!("odd sockets: {odd:?}"));
    inside.assert(inside.values("beyond_the_table") == ["ENOSYS"], "what nobody reviewed does not exist");
}

/// The first word of a line.
fn key(name: &str, garbage: u64) -> String {
    format!("{}{}", name.replace(' ', "_"), if garbage == 0 { "" } else { "_wide" })
}

fn interfaces_inside(_: &[String]) {
    interfaces::prepare();
    for interface in interfaces::all() {
        for garbage in [0, GARBAGE] {
            raw::say(&key(interface.name, garbage), interfaces::in_a_child(|| (interface.make)(garbage)));
        }
    }
    for through in interfaces::odd_families_that_are_not_refused(GARBAGE) {
        raw::say("odd", through);
    }
    raw::say_result("beyond_the_table", beyond_the_table());
}

fn beyond_the_table() -> Raw {
    sys(4000, [0])
}
