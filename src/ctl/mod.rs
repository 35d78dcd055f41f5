//! The caller's side: command lines, the caller's terminal, exit codes. Runs as root for as long as it takes to open what a
//! session needs, then as the invoking user; what it reads is the caller's own, and what a session's supervisor sends.

pub mod arguments;
pub mod caller;
pub mod choosing;
pub mod client;
pub mod clientlink;
pub mod control;
pub mod embedded;
pub mod eventpipe;
pub mod exit;
pub mod inside;
pub mod learning;
pub mod order;
pub mod ownprofiles;
pub mod proxies;
pub mod records;
pub mod relay;
pub mod run;
pub mod screen;
pub mod served;
pub mod service;
pub mod start;
pub mod terminal;
