//! What every test that starts a real `gated-run` needs. Runs in the test process, as root; all that it makes lies in one
//! directory below /var/tmp or in a mount namespace of a child, and goes with it.

#![allow(dead_code, unused_imports, reason = "each test program uses its own part")]

pub mod bus;
pub mod journal;
pub mod network;
pub mod openmetrics;
pub mod outcome;
pub mod profiles;
pub mod sandbox;
pub mod served;
pub mod snapshot;
pub mod system_bus;
pub mod terminal;
pub mod user;
pub mod wait;

pub use outcome::Outcome;
pub use sandbox::{Running, Sandbox, Side};
pub use terminal::pty;
pub use wait::{PidFd, until};
