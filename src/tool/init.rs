//! Pid 1 of a session. Starts as root in the new namespaces, finishes the mounts, leaves root for good, and from then on,
//! as the user, does three things only: it reaps what nobody else reaps, starts calls that the supervisor orders, and dies
//! with the supervisor, which ends every process of the session (pid_namespaces(7)). It never runs code of the tool and is
//! not dumpable; the tool can only send it signals that it does not listen to.

use std::os::fd::{AsFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};
use rustix::event::{PollFd, PollFlags, poll};

use super::command::Cage;
use super::descriptors::close_all_but;
use super::filter;
use super::floor::Floor;
use super::leader;
use super::link::{Link, LinkError};
use super::messages::{CallOrder, FromInit, ToInit};
use super::mounts::build_view_inside;
use super::namespaces::bring_loopback_up;
use super::privileges::leave_root;
use super::syscalls::{Arch, Features};
use crate::common::path::RawPath;
use crate::common::wire::{Identity, Network};

/// What init must know; it is copied with the supervisor's memory.
pub struct InitOrder<'a> {
    pub user: &'a Identity,
    pub network: Network,
    /// The trees that the floor grants.
    pub scratch: &'a [RawPath],
    pub landlock_abi_min: u32,
    /// What the profile says of system calls.
    pub features: Features,
}

/// The whole life of init; returns its exit status. Every other descriptor than that of `supervisor` is closed.
pub fn run(order: &InitOrder<'_>, supervisor: &Link<FromInit, ToInit>) -> u8 {
    let served = prepare(order, supervisor).and_then(|cage| {
        let ready = FromInit::Ready { landlock_abi: cage.floor.abi(), native: cage.floor.native().to_vec() };
        supervisor.send(&ready, &[]).map_err(|error| error.to_string())?;
        serve(&cage, supervisor).map_err(|error| error.to_string())
    });
    match served {
        Ok(()) => 0,
        Err(text) => {
            // If the supervisor cannot be told, it sees the end of this process.
            let _ = supervisor.send(&FromInit::Failed(text), &[]);
            1
        }
    }
}

/// Init cannot be what it must be; returns its exit status.
pub fn give_up(supervisor: &Link<FromInit, ToInit>, error: &std::io::Error) -> u8 {
    let _ = supervisor.send(&FromInit::Failed(format!("cannot forget what is the supervisor's: {error}")), &[]);
    1
}

fn prepare(order: &InitOrder<'_>, supervisor: &Link<FromInit, ToInit>) -> Result<Cage, String> {
    close_all_but(&[supervisor.as_fd()]).map_err(|error| format!("cannot close what is not init's: {error}"))?;
    if order.network == Network::Own {
        bring_loopback_up().map_err(|error| format!("cannot bring lo up: {error}"))?;
    }
    build_view_inside().map_err(|error| error.to_string())?;
    limit_core_files()?;
    leave_root(order.user, true).map_err(|error| error.to_string())?;
    // The supervisor may have died before the parent-death signal was set.
    if !supervisor.is_open() {
        return Err("the supervisor is gone".into());
    }
    let floor = Floor::build(order.scratch, order.landlock_abi_min).map_err(|error| error.to_string())?;
    let filter = filter::compile(Arch::NATIVE, order.features).map_err(|error| error.to_string())?;
    Ok(Cage { floor, filter, judged_programs: order.features.judged_programs })
}

/// A limit of 1 byte, not 0, is what stops a core_pattern handler, which runs as root outside (core(5)). As root: the
/// caller's own limit may be 0. Where even this root may not raise that (a container without CAP_SYS_RESOURCE), it does if
/// there is no handler. No limit stops a dump to a socket (`@`, Linux 6.16), whatever listens there.
fn limit_core_files() -> Result<(), String> {
    let pattern = std::fs::read("/proc/sys/kernel/core_pattern").unwrap_or_else(|_| b"|".to_vec());
    match (setrlimit(Resource::RLIMIT_CORE, 1, 1), pattern.first()) {
        (_, Some(b'@')) => Err("core dumps go to a socket, which no limit stops: set kernel.core_pattern anew".into()),
        (Ok(()), _) => Ok(()),
        (Err(Errno::EPERM), handler) if handler != Some(&b'|') => Ok(()),
        (Err(errno), _) => Err(format!("cannot limit core files: {errno}")),
    }
}

fn serve(cage: &Cage, supervisor: &Link<FromInit, ToInit>) -> Result<(), LinkError> {
    let mut children = SigSet::empty();
    children.add(Signal::SIGCHLD);
    children.thread_block().map_err(std::io::Error::from)?;
    let ended = SignalFd::with_flags(&children, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
        .map_err(std::io::Error::from)?;
    loop {
        let mut polled = [PollFd::new(supervisor, PollFlags::IN), PollFd::new(&ended, PollFlags::IN)];
        match poll(&mut polled, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let [order, child] = polled.map(|one| !one.revents().is_empty());
        if child {
            while let Ok(Some(_)) = ended.read_signal() {}
            reap();
        }
        if order {
            match supervisor.receive()? {
                None => return Ok(()),
                Some(received) => match received.message {
                    ToInit::Call(order) => start_call(cage, &order, received.fds)?,
                },
            }
        }
    }
}

/// Take in every child that has ended: leaders and orphans.
fn reap() {
    while let Ok(status) = waitpid(None::<Pid>, Some(WaitPidFlag::WNOHANG)) {
        if status == WaitStatus::StillAlive {
            return;
        }
    }
}

fn start_call(cage: &Cage, order: &CallOrder, fds: Vec<OwnedFd>) -> Result<(), LinkError> {
    // SAFETY: init has one thread, so the child may do anything that init may.
    match unsafe { fork() } {
        Ok(ForkResult::Parent { .. }) => Ok(()),
        Ok(ForkResult::Child) => leader::run_and_exit(cage, order, fds),
        // No leader, no link: the supervisor sees the call's end of it close.
        Err(Errno::EAGAIN | Errno::ENOMEM) => Ok(()),
        Err(errno) => Err(std::io::Error::from(errno).into()),
    }
}
