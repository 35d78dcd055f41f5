//! UDP out of the session: for each peer that a rule or an answer allows, a socket in the session's network that is bound to
//! exactly the peer's address, and for each socket of the session that may send to it one in the host's network that is
//! *connected* to the peer. The kernel lets nothing else through: a datagram to any other address ends in the session, and a
//! connected socket sends to its peer and hears it alone.
//!
//! Runs as the user in the supervisor, on a thread of its own that begins with the first peer. What is passed on is not
//! looked into.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::net::{SocketFlags, SocketType, socket_with, sockopt};

use super::inner::Inner;
use super::{address, raw};
use crate::common::errno::Errno;

/// Peers of one session, and senders to all of them. Beyond, who has been silent the longest is forgotten.
const PEERS: usize = 64;
const SENDERS: usize = 256;
/// After so long without a datagram a sender is forgotten: RFC 4787 says two minutes at the least. A peer, after ten.
const SENDER_IDLE: Duration = Duration::from_secs(150);
const PEER_IDLE: Duration = Duration::from_secs(600);
const LOOK_EVERY: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };
/// Datagrams that are taken of one socket before the next has its turn.
const AT_ONCE: usize = 64;
const DATAGRAM_BYTES: usize = 65_536;

/// The peers of one session.
#[derive(Default)]
pub struct Relay {
    shared: OnceLock<Arc<Shared>>,
}

struct Shared {
    events: OwnedFd,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    peers: HashMap<SocketAddr, Peer>,
    senders: HashMap<(SocketAddr, SocketAddr), Sender>,
    /// What each event is about.
    tokens: HashMap<u64, Token>,
    next: u64,
}

#[derive(Clone, Copy)]
enum Token {
    Peer(SocketAddr),
    Sender(SocketAddr, SocketAddr),
}

struct Peer {
    /// In the session's network, bound to the peer's address.
    inside: UdpSocket,
    open_to: OpenTo,
    used: Instant,
    token: u64,
}

/// Whose datagrams are passed on.
#[derive(Default)]
struct OpenTo {
    everybody: bool,
    /// Sockets of the session, by the addresses and ports that they send from.
    sources: HashSet<SocketAddr>,
}

struct Sender {
    /// In the host's network, connected to the peer.
    outside: UdpSocket,
    used: Instant,
    token: u64,
}

/// Who may send to a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// A rule says so to whoever asks.
    Everybody,
    /// The socket that sends from here (canonical), of which it was judged.
    Source(SocketAddr),
}

/// Whether datagrams to this address could leave the session at all: not what every network has for itself, and not what is
/// no single host. Canonical.
pub fn can_be_relayed(peer: SocketAddr) -> bool {
    let is_broadcast = peer.ip() == IpAddr::V4(std::net::Ipv4Addr::BROADCAST);
    let is_inside = address::is_loopback(peer.ip()) || address::is_own(peer.ip()) || peer.port() == address::DOMAIN;
    !is_inside && !is_broadcast && !peer.ip().is_multicast() && peer.port() != 0
}

fn canonical_of(source: SocketAddr) -> SocketAddr {
    SocketAddr::new(source.ip().to_canonical(), source.port())
}

impl Relay {
    /// Lets datagrams to `peer` (canonical) through. `EADDRINUSE` if the session itself has that address.
    pub fn open(&self, inner: &Inner, peer: SocketAddr, from: From) -> Result<(), Errno> {
        let shared = self.shared()?;
        let mut state = shared.state();
        if !state.peers.contains_key(&peer) {
            state.make_room(PEERS);
            let inside = bound_inside(inner, peer)?;
            let token = state.enter(Token::Peer(peer));
            watch(&shared.events, &inside, token)?;
            state.peers.insert(peer, Peer { inside, open_to: OpenTo::default(), used: Instant::now(), token });
        }
        if let Some(known) = state.peers.get_mut(&peer) {
            known.used = Instant::now();
            match from {
                From::Everybody => known.open_to.everybody = true,
                From::Source(source) => drop(known.open_to.sources.insert(source)),
            }
        }
        Ok(())
    }

    fn shared(&self) -> Result<&Arc<Shared>, Errno> {
        if let Some(shared) = self.shared.get() {
            return Ok(shared);
        }
        let events = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let made = Arc::new(Shared { events, state: Mutex::default() });
        let ours = Arc::clone(&made);
        if self.shared.set(made).is_ok() {
            let run = move || ours.run();
            let thread = std::thread::Builder::new().name("gated-udp".to_owned()).stack_size(128 * 1024).spawn(run);
            thread.map_err(|error| Errno::of(&error))?;
        }
        self.shared.get().ok_or(Errno::IO)
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As long as the session.
    fn run(&self) {
        let mut datagram = vec![0; DATAGRAM_BYTES];
        let mut ready = Vec::with_capacity(64);
        let mut looked = Instant::now();
        loop {
            ready.clear();
            match epoll::wait(&self.events, spare_capacity(&mut ready), Some(&LOOK_EVERY)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(_) => return,
            }
            let mut state = self.state();
            for event in &ready {
                let event: &epoll::Event = event;
                match state.tokens.get(&event.data.u64()).copied() {
                    Some(Token::Peer(peer)) => state.pass_out(&self.events, peer, &mut datagram),
                    Some(Token::Sender(peer, source)) => state.pass_in(peer, source, &mut datagram),
                    None => {}
                }
            }
            if looked.elapsed() > Duration::from_secs(LOOK_EVERY.tv_sec as u64) {
                state.forget_idle();
                looked = Instant::now();
            }
        }
    }
}

impl State {
    fn enter(&mut self, token: Token) -> u64 {
        self.next = self.next.wrapping_add(1);
        self.tokens.insert(self.next, token);
        self.next
    }

    /// What the session sends to a peer.
    fn pass_out(&mut self, events: &OwnedFd, peer: SocketAddr, datagram: &mut [u8]) {
        for _ in 0..AT_ONCE {
            let Some(known) = self.peers.get_mut(&peer) else { return };
            let Ok((length, source)) = known.inside.recv_from(datagram) else { return };
            if !known.open_to.everybody && !known.open_to.sources.contains(&canonical_of(source)) {
                continue;
            }
            known.used = Instant::now();
            let Some(sender) = self.sender(events, peer, source) else { continue };
            sender.used = Instant::now();
            // A datagram may be lost anywhere, and here too.
            let _ = sender.outside.send(datagram.get(..length).unwrap_or_default());
        }
    }

    fn sender(&mut self, events: &OwnedFd, peer: SocketAddr, source: SocketAddr) -> Option<&mut Sender> {
        if !self.senders.contains_key(&(peer, source)) {
            if self.senders.len() >= SENDERS {
                let oldest = self.senders.iter().min_by_key(|(_, sender)| sender.used).map(|(key, _)| *key);
                self.forget_sender(oldest?);
            }
            let outside = connected_outside(peer).ok()?;
            let token = self.enter(Token::Sender(peer, source));
            if watch(events, &outside, token).is_err() {
                self.tokens.remove(&token);
                return None;
            }
            self.senders.insert((peer, source), Sender { outside, used: Instant::now(), token });
        }
        self.senders.get_mut(&(peer, source))
    }

    /// What a peer answers.
    fn pass_in(&mut self, peer: SocketAddr, source: SocketAddr, datagram: &mut [u8]) {
        let (Some(known), Some(sender)) = (self.peers.get_mut(&peer), self.senders.get_mut(&(peer, source))) else {
            return;
        };
        for _ in 0..AT_ONCE {
            match sender.outside.recv(datagram) {
                Ok(length) => {
                    (known.used, sender.used) = (Instant::now(), Instant::now());
                    let _ = known.inside.send_to(datagram.get(..length).unwrap_or_default(), source);
                }
                // Nothing more, or an error that the peer's network reported: the next datagram may do better.
                Err(_) => return,
            }
        }
    }

    fn forget_idle(&mut self) {
        let senders = self.senders.iter().filter(|(_, sender)| sender.used.elapsed() > SENDER_IDLE);
        for key in senders.map(|(key, _)| *key).collect::<Vec<_>>() {
            self.forget_sender(key);
        }
        let peers = self.peers.iter().filter(|(_, peer)| peer.used.elapsed() > PEER_IDLE);
        for peer in peers.map(|(peer, _)| *peer).collect::<Vec<_>>() {
            self.forget_peer(peer);
        }
    }

    fn make_room(&mut self, most: usize) {
        while self.peers.len() >= most {
            let Some(oldest) = self.peers.iter().min_by_key(|(_, peer)| peer.used).map(|(peer, _)| *peer) else {
                return;
            };
            self.forget_peer(oldest);
        }
    }

    /// Closing takes a socket out of the events.
    fn forget_sender(&mut self, key: (SocketAddr, SocketAddr)) {
        if let Some(sender) = self.senders.remove(&key) {
            self.tokens.remove(&sender.token);
        }
    }

    fn forget_peer(&mut self, peer: SocketAddr) {
        for key in self.senders.keys().filter(|(of, _)| *of == peer).copied().collect::<Vec<_>>() {
            self.forget_sender(key);
        }
        if let Some(known) = self.peers.remove(&peer) {
            self.tokens.remove(&known.token);
        }
    }
}

fn watch(events: &OwnedFd, socket: &UdpSocket, token: u64) -> Result<(), Errno> {
    Ok(epoll::add(events, socket, epoll::EventData::new_u64(token), epoll::EventFlags::IN)?)
}

/// A socket in the session's network that has the peer's address.
fn bound_inside(inner: &Inner, peer: SocketAddr) -> Result<UdpSocket, Errno> {
    let socket = inner.socket(address::domain_of(peer), SocketType::DGRAM, None)?;
    if peer.is_ipv6() {
        // Every IPv4 address is local there; of IPv6 that is not enough for bind(2).
        sockopt::set_ipv6_freebind(&socket, true)?;
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    raw::bind(&socket, &address::to_bytes(peer))?;
    let socket = UdpSocket::from(socket);
    socket.set_nonblocking(true).map_err(|error| Errno::of(&error))?;
    Ok(socket)
}

/// A socket in the host's network that can send to this peer, and to nobody else.
fn connected_outside(peer: SocketAddr) -> Result<UdpSocket, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(address::domain_of(peer), SocketType::DGRAM, flags, None)?;
    raw::connect(&socket, &address::to_bytes(peer))?;
    Ok(UdpSocket::from(socket))
}
