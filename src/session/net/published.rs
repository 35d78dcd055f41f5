//! Which sockets of the host's network were bound there by a judged bind(2), and so may listen.
//!
//! Runs as the user in the supervisor.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Of more sockets than these, some are judged again when they listen.
const REMEMBERED: usize = 65_536;

/// Sockets by their cookies, each with what it was bound to.
#[derive(Default)]
pub struct Published(Mutex<HashMap<u64, SocketAddr>>);

/// Held while a socket is bound, unbound or made to listen: what a socket was found to be bound to stays true meanwhile, for
/// a tool can do none of these by itself.
pub struct Turn<'a>(MutexGuard<'a, HashMap<u64, SocketAddr>>);

impl Published {
    pub fn turn(&self) -> Turn<'_> {
        Turn(self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Turn<'_> {
    /// This socket was bound to this address, which was judged.
    pub fn enter(&mut self, cookie: u64, address: SocketAddr) {
        if self.0.len() >= REMEMBERED {
            self.0.clear();
        }
        self.0.insert(cookie, address);
    }

    pub fn has(&self, cookie: u64) -> bool {
        self.0.contains_key(&cookie)
    }

    /// Whether it was this socket that was judged, at this address.
    pub fn was_judged(&self, cookie: u64, address: SocketAddr) -> bool {
        self.0.get(&cookie) == Some(&address)
    }
}
