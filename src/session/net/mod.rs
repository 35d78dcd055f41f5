//! Sockets: which network namespace each is in, and what a session may reach and be reached at.
//!
//! Runs as the user in the supervisor, which is in the host's network namespace and gets sockets of the session's from init.

pub mod inner;
mod raw;
pub mod unix;

use std::os::fd::OwnedFd;

use inner::{Inner, Namespaces};

use crate::common::errno::Errno;
use crate::tool::link::Link;

/// The network of a session that has its own.
pub struct Network {
    pub inner: Inner,
    pub namespaces: Namespaces,
}

impl Network {
    /// Over the link on which init makes sockets.
    pub fn new(link: OwnedFd) -> Result<Network, Errno> {
        let inner = Inner::new(Link::new(link));
        let namespaces = inner.namespaces()?;
        Ok(Network { inner, namespaces })
    }
}
