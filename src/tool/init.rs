//! Pid 1 of a session. Starts as root in the new namespaces, finishes the mounts, leaves root for good, and from then on,
//! as the user, does four things only: it reaps what nobody else reaps, starts calls that the supervisor orders, makes sockets
//! of the session's network for it, and dies with the supervisor, which ends every process of the session (pid_namespaces(7)). It never runs code of the tool and is
//! not dumpable; the tool can only send it signals that it does not listen to.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

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
use super::messages::{CallOrder, FromInit, SocketOrder, SocketOrders, SocketsMade, ToInit};
use super::mounts::build_view_inside;
use super::namespaces::enter_own_network;
use super::network;
use super::privileges::leave_root;
use super::syscalls::{Arch, Features};
use crate::common::errno::Errno;
use crate::common::path::RawPath;
use crate::common::wire::{Identity, Network};

/// What init must know; it is copied with the supervisor's memory.
pub struct InitOrder<'a> {
    pub user: &'a Identity,
    pub network: Network,
    /// Whether the host reaches the IPv6 internet, so that the session's network is to look like it.
    pub ipv6: bool,
    /// The trees that the floor grants.
    pub scratch: &'a [RawPath],
    pub landlock_abi_min: u32,
    /// What the profile says of system calls.
    pub features: Features,
}

/// Init's ends of its links to the supervisor.
pub struct Supervisor {
    pub orders: Link<FromInit, ToInit>,
    /// On which sockets are ordered; apart from the other, so that neither waits for the other.
    pub sockets: Link<SocketsMade, SocketOrders>,
}

/// The whole life of init; returns its exit status. Every other descriptor than those of `links` is closed.
pub fn run(order: &InitOrder<'_>, links: &Supervisor) -> u8 {
    let supervisor = &links.orders;
    let served = prepare(order, links).and_then(|cage| {
        let ready = FromInit::Ready { landlock_abi: cage.floor.abi(), native: cage.floor.native().to_vec() };
        supervisor.send(&ready, &[]).map_err(|error| error.to_string())?;
        serve(&cage, links).map_err(|error| error.to_string())
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

fn prepare(order: &InitOrder<'_>, links: &Supervisor) -> Result<Cage, String> {
    close_all_but(&[links.orders.as_fd(), links.sockets.as_fd()])
        .map_err(|error| format!("cannot close what is not init's: {error}"))?;
    // All that needs no view, while the supervisor builds it.
    if order.network == Network::Own {
        let made = enter_own_network().and_then(|()| network::prepare(order.ipv6));
        made.map_err(|error| format!("cannot set up the session's network: {error}"))?;
    }
    let filter = filter::compile(Arch::NATIVE, order.features).map_err(|error| error.to_string())?;
    wait_for_view(&links.orders)?;
    build_view_inside().map_err(|error| error.to_string())?;
    limit_core_files()?;
    leave_root(order.user, true).map_err(|error| error.to_string())?;
    // The supervisor may have died before the parent-death signal was set.
    if !links.orders.is_open() {
        return Err("the supervisor is gone".into());
    }
    let floor =
        Floor::build(order.scratch, order.landlock_abi_min, order.network).map_err(|error| error.to_string())?;
    Ok(Cage { floor, filter, judged_programs: order.features.judged_programs })
}

/// Until the supervisor has built what it builds, in the mount namespace that both are in.
fn wait_for_view(supervisor: &Link<FromInit, ToInit>) -> Result<(), String> {
    match supervisor.receive() {
        Ok(Some(received)) if matches!(received.message, ToInit::ViewIsBuilt) => Ok(()),
        Ok(_) => Err("the supervisor is gone".into()),
        Err(error) => Err(format!("cannot wait for the session's view: {error}")),
    }
}

/// A limit of 1 byte, not 0, is what stops a core_pattern handler, which runs as root outside (core(5)). As root: the
/// caller's own limit may be 0. Where even this root may not raise that (a container without CAP_SYS_RESOURCE), it does if
/// there is no handler. No limit stops a dump to a socket (`@`, Linux 6.16), whatever listens there.
fn limit_core_files() -> Result<(), String> {
    let pattern = std::fs::read("/proc/sys/kernel/core_pattern").unwrap_or_else(|_| b"|".to_vec());
    match (setrlimit(Resource::RLIMIT_CORE, 1, 1), pattern.first()) {
        (_, Some(b'@')) => Err("core dumps go to a socket, which no limit stops: set kernel.core_pattern anew".into()),
        (Ok(()), _) => Ok(()),
        (Err(nix::errno::Errno::EPERM), handler) if handler != Some(&b'|') => Ok(()),
        (Err(errno), _) => Err(format!("cannot limit core files: {errno}")),
    }
}

fn serve(cage: &Cage, links: &Supervisor) -> Result<(), LinkError> {
    let supervisor = &links.orders;
    let mut children = SigSet::empty();
    children.add(Signal::SIGCHLD);
    children.thread_block().map_err(std::io::Error::from)?;
    let ended = SignalFd::with_flags(&children, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
        .map_err(std::io::Error::from)?;
    // A session with the host's network has nobody at the other end.
    let mut sockets = Some(&links.sockets);
    loop {
        let watched = [Some(supervisor.as_fd()), Some(ended.as_fd()), sockets.map(AsFd::as_fd)];
        let mut polled: Vec<PollFd<'_>> =
            watched.into_iter().flatten().map(|one| PollFd::from_borrowed_fd(one, PollFlags::IN)).collect();
        match poll(&mut polled, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let is_ready = |at: usize| polled.get(at).is_some_and(|one| !one.revents().is_empty());
        let [order, child, socket] = [0, 1, 2].map(is_ready);
        if child {
            while let Ok(Some(_)) = ended.read_signal() {}
            reap();
        }
        if socket && !make_sockets(&links.sockets)? {
            sockets = None;
        }
        if order {
            match supervisor.receive()? {
                None => return Ok(()),
                Some(received) => match received.message {
                    ToInit::Call(order) => start_call(cage, &order, received.fds)?,
                    // It makes no sense a second time.
                    ToInit::ViewIsBuilt => return Ok(()),
                },
            }
        }
    }
}

/// Serve one frame of orders for sockets of the session's network; `false` if there will be no more.
fn make_sockets(link: &Link<SocketsMade, SocketOrders>) -> Result<bool, LinkError> {
    let Some(received) = link.receive()? else { return Ok(false) };
    let made: Vec<Result<OwnedFd, Errno>> = received.message.into_iter().map(make_socket).collect();
    let sockets: Vec<BorrowedFd<'_>> = made.iter().flatten().map(AsFd::as_fd).collect();
    let told = made.iter().map(|made| made.as_ref().map(drop).map_err(|errno| *errno)).collect();
    link.send(&told, &sockets)?;
    Ok(true)
}

fn make_socket(order: SocketOrder) -> Result<OwnedFd, Errno> {
    use rustix::net::{AddressFamily, Protocol, SocketFlags, SocketType, socket_with};
    let protocol = std::num::NonZeroU32::new(order.protocol).map(Protocol::from_raw);
    let (domain, kind) = (AddressFamily::from_raw(order.domain), SocketType::from_raw(order.kind));
    Ok(socket_with(domain, kind, SocketFlags::CLOEXEC, protocol)?)
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
        Err(nix::errno::Errno::EAGAIN | nix::errno::Errno::ENOMEM) => Ok(()),
        Err(errno) => Err(std::io::Error::from(errno).into()),
    }
}
