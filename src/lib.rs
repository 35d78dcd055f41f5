//! gated: approvals enforced at the level of the operating system.
//!
//! A folder is a trust domain; each module's first comment says who runs it, with what privilege, on whose data.
//!
//! | folder | runs as | on whose data |
//! |---|---|---|
//! | [`common`] | anyone | pure data: words, patterns, messages |
//! | [`policy`] | anyone | pure: the admin's and user's files in, verdicts out |
//! | [`tool`] | root, then the user | between fork and exec, in the tool's process: namespaces, floor, filter |
//! | [`session`] | the user | the tool's memory, paths and fds: decodes, resolves, judges, performs |
//! | [`daemon`] | root | requests that a supervisor sends: broker, grants, audit |
//! | [`consent`] | whoever is asked | shows a request to a person or a script and brings the answer back |
//! | [`ctl`] | the caller | command lines, the client's terminal, output |
//!
//! Imports run one way: `common` is below everything, `policy` below all but `common` and `tool`; `tool` imports only
//! `common`; `session` starts what is in `tool`; `daemon` never imports `session`, `tool` or `consent`. `ctl` ties them
//! together where one process plays several parts (`gated-run --embedded`). `tests/import_direction.rs` enforces it.
//!
//! The way of a request: [`session`] receives a notification, decodes and resolves it, judges it with [`policy`]; what
//! must be asked goes as a [`common::wire::FromSession`] to the broker in [`daemon`], from there to an agent in
//! [`consent`], and the decision returns the same way; then [`session`] performs exactly what was judged.

#![deny(unsafe_op_in_unsafe_fn)]
#![warn(clippy::undocumented_unsafe_blocks)]

pub mod common;
pub mod consent;
pub mod ctl;
pub mod daemon;
pub mod policy;
pub mod session;
pub mod tool;
