//! The webhook consent agent between a daemon and a bridge. `attacks` is what a bridge, or whoever stands between, can try.

#[path = "../support/mod.rs"]
mod support;
#[path = "../daemon_bus/world.rs"]
#[allow(dead_code, reason = "it is there for other tests as well")]
mod world;

mod agent;
mod answers;
mod attacks;
mod config;
mod server;
mod whole;
