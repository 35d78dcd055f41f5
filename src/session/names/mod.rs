//! The session's own names: a resolver in its network namespace, and what it answered.
pub mod hosts;
pub mod memory;
pub mod packet;
pub mod question;
pub mod upstream;
