//! Leaving root for good. Runs as root in the supervisor, in the session's init and in the client, in each while it has one
//! thread only, before any of them looks at data of the tool.

use std::io;

use rustix::process::{DumpableBehavior, Gid, Signal, Uid, set_dumpable_behavior, set_parent_process_death_signal};
use rustix::thread::{
    CapabilitiesSecureBits, CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_capabilities_secure_bits, set_no_new_privs,
    set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};

use crate::common::wire::Identity;

/// Root could not be left; the process must not go on.
#[derive(Debug, thiserror::Error)]
pub enum PrivilegeError {
    #[error("cannot {step}: {source}")]
    Step { step: &'static str, source: io::Error },
    #[error("still {what} after leaving root")]
    Kept { what: &'static str },
}

trait Step<T> {
    fn step(self, step: &'static str) -> Result<T, PrivilegeError>;
}

impl<T> Step<T> for rustix::io::Result<T> {
    fn step(self, step: &'static str) -> Result<T, PrivilegeError> {
        self.map_err(|errno| PrivilegeError::Step { step, source: errno.into() })
    }
}

const NO_CAPABILITIES: CapabilitySets = CapabilitySets {
    effective: CapabilitySet::empty(),
    permitted: CapabilitySet::empty(),
    inheritable: CapabilitySet::empty(),
};

/// Become `user` with all of its groups and nothing else: every capability set is empty, for uid 0 too, and stays so across
/// any execve(2) (securebits locked, bounding set empty, `no_new_privs`). The process is not dumpable, and dies with its
/// parent if `with_parent`; that is set last, because a change of credentials clears it (`PR_SET_PDEATHSIG`(2const)).
pub fn leave_root(user: &Identity, with_parent: bool) -> Result<(), PrivilegeError> {
    let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
    let groups: Vec<Gid> = user.groups.iter().copied().map(Gid::from_raw).collect();
    let bits = CapabilitiesSecureBits::NO_ROOT
        | CapabilitiesSecureBits::NO_ROOT_LOCKED
        | CapabilitiesSecureBits::NO_SETUID_FIXUP
        | CapabilitiesSecureBits::NO_SETUID_FIXUP_LOCKED
        | CapabilitiesSecureBits::KEEP_CAPS_LOCKED
        | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE
        | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE_LOCKED;
    clear_ambient_capability_set().step("clear the ambient capabilities")?;
    empty_bounding_set()?;
    set_capabilities_secure_bits(bits).step("lock the securebits")?;
    set_thread_groups(&groups).step("set the supplementary groups")?;
    set_thread_res_gid(gid, gid, gid).step("set the group")?;
    set_thread_res_uid(uid, uid, uid).step("set the user")?;
    set_capabilities(None, NO_CAPABILITIES).step("drop the capabilities")?;
    set_no_new_privs(true).step("set no_new_privs")?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable).step("become undumpable")?;
    if with_parent {
        set_parent_process_death_signal(Some(Signal::KILL)).step("tie this process to its parent")?;
    }
    check(user)
}

/// Take every capability out of the bounding set, those of a newer kernel too.
fn empty_bounding_set() -> Result<(), PrivilegeError> {
    for number in 0..64 {
        match remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(1 << number)) {
            // Past the newest capability that this kernel knows.
            Err(rustix::io::Errno::INVAL) => break,
            done => done.step("empty the bounding set")?,
        }
    }
    Ok(())
}

/// Believe the kernel, not the return values.
fn check(user: &Identity) -> Result<(), PrivilegeError> {
    let kept = |what| Err(PrivilegeError::Kept { what });
    if capabilities(None).step("read the capabilities")? != NO_CAPABILITIES {
        return kept("holding a capability");
    }
    let uids = nix::unistd::getresuid().map_err(rustix_errno).step("read the user")?;
    let gids = nix::unistd::getresgid().map_err(rustix_errno).step("read the group")?;
    if [uids.real, uids.effective, uids.saved].iter().any(|uid| uid.as_raw() != user.uid) {
        return kept("another user");
    }
    if [gids.real, gids.effective, gids.saved].iter().any(|gid| gid.as_raw() != user.gid) {
        return kept("in another group");
    }
    if user.uid != 0 && set_thread_res_uid(Uid::ROOT, Uid::ROOT, Uid::ROOT).is_ok() {
        return kept("able to become root");
    }
    Ok(())
}

fn rustix_errno(errno: nix::errno::Errno) -> rustix::io::Errno {
    rustix::io::Errno::from_raw_os_error(errno as i32)
}

/// Run `work` with the file rights of `user` (credentials(7): the file-system ids and groups, and none of the capabilities that
/// override permissions), as root otherwise. For files that the user names while this process is still root.
pub fn with_file_rights_of<T>(user: &Identity, work: impl FnOnce() -> T) -> Result<T, PrivilegeError> {
    let own_groups = nix::unistd::getgroups().map_err(rustix_errno).step("read the groups")?;
    let own_groups: Vec<Gid> = own_groups.into_iter().map(|gid| Gid::from_raw(gid.as_raw())).collect();
    let own_capabilities = capabilities(None).step("read the capabilities")?;
    let groups: Vec<Gid> = user.groups.iter().copied().map(Gid::from_raw).collect();
    let over_files = CapabilitySet::DAC_OVERRIDE
        | CapabilitySet::DAC_READ_SEARCH
        | CapabilitySet::FOWNER
        | CapabilitySet::CHOWN
        | CapabilitySet::FSETID;

    set_thread_groups(&groups).step("take the user's groups")?;
    nix::unistd::setfsgid(user.gid.into());
    nix::unistd::setfsuid(user.uid.into());
    let mut reduced = own_capabilities;
    reduced.effective = reduced.effective.difference(over_files);
    let done = set_capabilities(None, reduced).step("put the file capabilities aside").and_then(|()| {
        // setfsuid(2) reports no error: ask for an invalid id, which changes nothing and returns the one in force.
        let in_force = nix::unistd::setfsuid(nix::unistd::Uid::from_raw(u32::MAX));
        if in_force.as_raw() == user.uid { Ok(work()) } else { Err(PrivilegeError::Kept { what: "another user" }) }
    });
    nix::unistd::setfsuid(nix::unistd::geteuid());
    nix::unistd::setfsgid(nix::unistd::getegid());
    set_capabilities(None, own_capabilities).step("take the file capabilities back")?;
    set_thread_groups(&own_groups).step("take the own groups back")?;
    done
}
