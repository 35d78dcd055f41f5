//! `gatedctl` against a daemon that is simulated on a private bus, by the interface of `dbus/`. Needs no root.

mod answers;
mod audit;
mod daemon;
mod groups;
mod network;
mod outside;
mod policy;
mod shells;
#[path = "../support/mod.rs"]
mod support;
mod tables;
