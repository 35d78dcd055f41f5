//! (see lib.rs)

pub mod filter;
pub mod syscalls;
